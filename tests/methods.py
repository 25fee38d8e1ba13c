"""Small models of the methods, their inputs, comparisons. Sizes are distinct primes; D is H K."""
import zlib
from types import SimpleNamespace

import pytest
import torch
from hypothesis import settings
from torch import nn

from bert_min import BertConfig, SelfAttention
from reread import DrrNet, LadraNet
from semmatch import (AlignedAttention, DabertAttention, DafaAttention, KnowledgeAttention,
                      Matcher)
from support.shown import printed_forms, recording

B, H, K, L, A, N, M = 3, 2, 5, 7, 11, 13, 17
D, HIDDEN = H * K, 13
each_form = pytest.mark.parametrize("printed", [False, True], ids=["intended", "printed"])
ATTENTIONS = {"dabert": DabertAttention, "dafa": DafaAttention, "knowledge": KnowledgeAttention}
METHODS = ATTENTIONS | {"aligned": AlignedAttention, "drrnet": DrrNet, "ladranet": LadraNet}
quick = settings(max_examples=12)


def normal(*size, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*size, generator=generator, dtype=torch.float64)


def config(**changes):
    sizes = dict(vocab_size=41, hidden_size=10, num_layers=3, num_heads=2, intermediate_size=19,
                 max_length=40, dropout=0.0, attention_dropout=0.0)
    return BertConfig(**(sizes | changes))


def large(module, seed=1, scale=1.0):
    """The module in float64, with large weights, so that every part of an equation matters; they
    depend on name and shape alone, so that models with other options share them."""
    module = module.double().eval()
    for name, p in module.named_parameters():
        size = 2 * scale / p[0].numel() ** 0.5 if p.dim() > 1 else scale
        mean = 1.0 if name.endswith("norm.weight") else 0.0     # with 0, tokens would be alike
        if p.requires_grad:
            p.data = mean + normal(*p.shape, seed=zlib.crc32(name.encode()) + seed, scale=size)
        if name in ("words.weight", "characters.weight") and p.requires_grad:
            p.data[0] = 0.0                                     # padding, as in the model
    return module


def linear(n_in, n_out, seed=1, bias=True):
    return large(nn.Linear(n_in, n_out, bias), seed)


def lists(module):
    """A module's weights as lists: (W, b) of a linear map, a list for several maps or for a GRU."""
    if isinstance(module, (nn.Linear, nn.Conv1d)):
        return module.weight.tolist(), None if module.bias is None else module.bias.tolist()
    if isinstance(module, (nn.Sequential, nn.ModuleList)):
        return [lists(part) for part in module if not isinstance(part, nn.ReLU)]
    if isinstance(module, (nn.GRU, nn.GRUCell)):
        return [p.tolist() for p in module.parameters()]
    return module.weight.tolist() if isinstance(module, nn.Embedding) else None


def weights_of(model):
    """dict name -> weights as lists, for all parts of a model."""
    own = {name: p.tolist() for name, p in model.named_parameters(recurse=False)}
    return own | {name: lists(part) for name, part in model.named_modules()}


def same(got, want, within=1e-10):
    """Shapes are equal, numbers nearly; -inf equals -inf."""
    want = torch.as_tensor(want, dtype=got.dtype)
    assert got.shape == want.shape and torch.allclose(got, want, rtol=within, atol=within)


def far(one, two):
    return (one - two).abs().max() > 1e-4


def against(got, loop, *tensors):
    """Compares the tensors `got` with those that `loop`, the oracle, makes of each row."""
    for b, row in enumerate(zip(*(x.tolist() for x in tensors), strict=True)):
        for x, y in zip(got, loop(*row), strict=True):
            same(x[b], y)


def looked(model, *inputs, **named):
    """(the result, dict of what was noted on the way)"""
    with recording() as seen:
        return model(*inputs, **named), seen


def equation(method, name, printed=()):
    """The function of this name in a method, in its printed form if `printed` has its number."""
    forms = printed_forms(METHODS[method], set(printed) & METHODS[method].PRINTED.keys())
    return forms.get(name, getattr(METHODS[method], name))


def silent(model, out):
    """Names of parameters on which the output does not depend."""
    model.zero_grad()
    out.square().sum().backward()
    return {name for name, p in model.named_parameters()
            if p.requires_grad and (p.grad is None or not p.grad.abs().max() > 1e-12)}


def method(name, **options):
    return large(ATTENTIONS[name](config(), attention_size=A, **options))


def masks():
    """A pair without padding, one with padding inside and at the end, one of padding only."""
    mask = torch.ones(B, L, dtype=torch.bool)
    mask[1, 2] = mask[1, 5:] = mask[2] = False
    return mask


def words_matrix(relations, *size, seed=0):
    """A matrix over words: k_ij, with a last axis of relations, or positive numbers."""
    if relations:
        return torch.rand(*size, 5, generator=torch.Generator().manual_seed(seed)) < 0.15
    return normal(*size, seed=seed).exp()


def prior_of(layer):
    """The prior for one layer, if it has one. Real tokens are words of a and of b in turn."""
    if not hasattr(layer, "spread"):
        return None
    index = torch.arange(L).expand(B, L).masked_fill(~masks(), -1)
    return layer.spread(words_matrix(hasattr(layer, "gamma"), B, L, L), index, index % 2)


def prefix(lengths, size):
    return torch.arange(size) < torch.tensor(lengths)[..., None]


def vocabulary(words=19, characters=13, vectors=None):
    return SimpleNamespace(words=[""] * (words - 2), characters=[""] * (characters - 2),
                           vectors=vectors)


def drr(seed=1, classes=3, **options):
    """DRr-Net, small enough for loops. β is small, so that every weight counts."""
    sizes = dict(word_size=5, character_size=2, hidden_size=HIDDEN, attention_size=11)
    options = sizes | {"steps": 3, "beta": 2.0} | options
    return large(METHODS["drrnet"](vocabulary(), classes, **options), seed, 0.7)


def ladra(seed=1, **options):
    options = {"attention_size": 5, "beta": 2.0} | options
    return large(METHODS["ladranet"](config(), 3, **options), seed, 0.5)


def sentences(lengths=((5, 4, 2), (3, 5, 3)), n=5, c=5, seed=0):
    """Arguments of DrrNet.forward. lengths: of all sentences a, then of all sentences b."""
    drawn = torch.Generator().manual_seed(seed)
    mask = prefix(lengths, n)
    ids = torch.randint(1, 19, mask.shape, generator=drawn) * mask
    characters = torch.randint(1, 13, (*mask.shape, c), generator=drawn)
    counts = torch.randint(0, c + 1, mask.shape, generator=drawn) * mask    # of characters
    tags = torch.randint(0, 17, mask.shape, generator=drawn) * mask
    match, antonym = (torch.randint(0, 2, mask.shape, generator=drawn) * mask > 0 for _ in range(2))
    return [ids, characters * (torch.arange(c) < counts[..., None]), tags, match, antonym, mask]


def pairs(lengths=(7, 5, 4), size=7, seed=0):
    """Arguments of LadraNet.forward."""
    mask = prefix(lengths, size)
    ids = torch.randint(1, 41, mask.shape, generator=torch.Generator().manual_seed(seed)) * mask
    return [ids, (torch.arange(size) >= mask.sum(1, keepdim=True) // 2).long() * mask, mask]


# Options for tests of all models; not the printed forms with an arg-max, whose ties are chance.
WHOLE = {"bert": [{}], "aligned": [{}], "drrnet": [{}, {"printed": {8}}],
         "ladranet": [{}, {"printed": {12}}, {"without": {"bert"}}, {"without": {"phrase-cnn"}},
                      {"without": {"average-pooling"}}],
         **{name: [{}, {"scope": "head"}, {"printed": method.PRINTED.keys() - {3, 4}}]
            for name, method in ATTENTIONS.items()}}
each_model = pytest.mark.parametrize("name", WHOLE)


def whole(name, seed=1, **options):
    """The model of this name with large weights."""
    if name in ("drrnet", "ladranet"):
        return (drr if name == "drrnet" else ladra)(seed, **options)
    sizes = {"attention_size": A} if name in ATTENTIONS else {}
    matcher = Matcher(METHODS.get(name, SelfAttention), config(), 3, (0, 2), **sizes, **options)
    return large(matcher, seed)


def batch(name, lengths, padding=0, seed=0):
    """Arguments of the model's forward, a dict. lengths: (words of a, words of b) for each pair."""
    if name == "drrnet":
        size = max(1, *map(max, lengths)) + padding
        names = "word_ids", "character_ids", "tags", "match", "antonym", "mask"
        return dict(zip(names, sentences(list(zip(*lengths)), size, 5, seed)))
    size = max(map(sum, lengths)) + 3 + padding             # [CLS] a [SEP] b [SEP]
    ids, _, mask = pairs([n + m + 3 for n, m in lengths], size, seed)
    place, index = torch.arange(size), torch.full(mask.shape, -1)
    segment = torch.zeros_like(ids)
    for row, (n, m) in enumerate(lengths):
        segment[row] = (place >= n + 2) & mask[row]
        index[row, 1:n + 1], index[row, n + 2:n + m + 2] = torch.arange(n), torch.arange(m)
    arguments = {"input_ids": ids, "segment": segment, "mask": mask, "word_index": index}
    if name in ("dafa", "knowledge", "aligned"):
        arguments["prior"] = words_matrix(name == "knowledge", len(lengths),
                                          *map(max, zip(*lengths)), seed=seed)
    return arguments


def alone(name, arguments, row, lengths):
    """The arguments of one pair of a batch, without padding."""
    n, m = lengths[row]
    if name == "drrnet":
        return {key: x[:, row:row + 1, :max(1, n, m)] for key, x in arguments.items()}
    return {key: x[row:row + 1] if key == "prior" else x[row:row + 1, :n + m + 3]
            for key, x in arguments.items()}
