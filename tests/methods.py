"""The methods of the papers, small, and what tests give them.

Sizes are distinct primes (d is H times k). Used by test_methods, test_semmatch, test_reread.
"""
from types import SimpleNamespace

import pytest
import torch

from bert_min import SelfAttention
from reread import DrrNet, LadraNet
from semmatch import DabertAttention, DafaAttention, KnowledgeAttention, Matcher
from tensors import config, large, normal

B, H, K, L, A, N, M = 3, 2, 5, 7, 11, 13, 17
D, HIDDEN = H * K, 13
each_form = pytest.mark.parametrize("printed", [False, True], ids=["intended", "printed"])
ATTENTIONS = {"dabert": DabertAttention, "dafa": DafaAttention, "knowledge": KnowledgeAttention}


def method(name, seed=1, **options):
    return large(ATTENTIONS[name](config(), attention_size=A, **options), seed)


def masks():
    """A whole pair, one with padding inside and at the end, one of padding only."""
    mask = torch.ones(B, L, dtype=torch.bool)
    mask[1, 2] = mask[1, 5:] = mask[2] = False
    return mask


def positive(*size, seed=0):
    return normal(*size, seed=seed).exp()


def related(*size, seed=0):
    """k_ij of any shape before its axis of relations."""
    return torch.rand(*size, 5, generator=torch.Generator().manual_seed(seed)) < 0.15


def prior_of(name, layer, mask, seed=0):
    """What a layer takes, for words all over the mask, of a and b in turn."""
    b, length = mask.shape
    if name == "dabert":
        return None
    if name == "dafa":
        multiplier = positive(b, length, length, seed=seed)             # not even symmetric
        return multiplier if 6 in layer.printed else multiplier.log()
    index = torch.arange(length).expand(b, -1).masked_fill(~mask, -1)
    return layer.spread(related(b, length, length, seed=seed), index, index % 2)


def prefix(lengths, size):
    return torch.arange(size) < torch.tensor(lengths)[..., None]


def vocabulary(words=19, characters=13, vectors=None):
    return SimpleNamespace(words=[""] * (words - 2), characters=[""] * (characters - 2),
                           vectors=vectors)


def drr(seed=1, scale=0.7, classes=3, vectors=None, **options):
    """DRr-Net with sizes that loops can follow. β is soft, so that every weight counts."""
    sizes = dict(word_size=5, character_size=2, hidden_size=HIDDEN, attention_size=11, steps=3,
                 beta=2.0)
    return large(DrrNet(vocabulary(vectors=vectors), classes, **(sizes | options)), seed, scale)


def ladra(seed=1, scale=0.5, classes=3, layers=3, **options):
    sizes = dict(attention_size=5, beta=2.0)
    return large(LadraNet(config(num_layers=layers), classes, **(sizes | options)), seed, scale)


def sentences(lengths=((5, 4, 2), (3, 5, 3)), n=5, c=5, seed=0):
    """Arguments of DrrNet.forward. lengths: those of all sentences a, those of all sentences b."""
    drawn = torch.Generator().manual_seed(seed)
    mask = prefix(lengths, n)
    ids = torch.randint(1, 19, mask.shape, generator=drawn) * mask
    characters = torch.randint(1, 13, (*mask.shape, c), generator=drawn)
    own = torch.randint(0, c + 1, mask.shape, generator=drawn) * mask   # 0: without characters
    tags = torch.randint(0, 17, mask.shape, generator=drawn) * mask
    match, antonym = (torch.randint(0, 2, mask.shape, generator=drawn) * mask > 0 for _ in range(2))
    return [ids, characters * (torch.arange(c) < own[..., None]), tags, match, antonym, mask]


def pairs(lengths=(7, 5, 4), size=7, seed=0):
    """Arguments of LadraNet.forward."""
    mask = prefix(lengths, size)
    ids = torch.randint(1, 41, mask.shape, generator=torch.Generator().manual_seed(seed)) * mask
    return [ids, (torch.arange(size) >= mask.sum(1, keepdim=True) // 2).long() * mask, mask]


# Options that a property of all models is tried with. As printed, β is an arg-max: ties are chance.
WHOLE = {"bert": [{}], "drrnet": [{}, {"printed": {8}}],
         "ladranet": [{}, {"printed": {12}}, {"without": {"bert"}}, {"without": {"phrase-cnn"}},
                      {"without": {"average-pooling"}}],
         **{name: [{}, {"scope": "head"}, {"printed": method.PRINTED - {3, 4}}]
            for name, method in ATTENTIONS.items()}}
each_model = pytest.mark.parametrize("name", WHOLE)


def whole(name, seed=1, **options):
    """A model with large weights, by its name."""
    if name in ("drrnet", "ladranet"):
        return (drr if name == "drrnet" else ladra)(seed, **options)
    sizes = {"attention_size": A} if name in ATTENTIONS else {}
    matcher = Matcher(ATTENTIONS.get(name, SelfAttention), config(), 3, (0, 2), **sizes, **options)
    return large(matcher, seed)


def batch(name, lengths, padding=0, seed=0):
    """Arguments of its forward, a dict. lengths: words of a, words of b, of each pair."""
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
    given = {"input_ids": ids, "segment": segment, "mask": mask, "word_index": index}
    if name in ("dafa", "knowledge"):
        known = positive if name == "dafa" else related
        given["prior"] = known(len(lengths), *map(max, zip(*lengths)), seed=seed)
    return given


def alone(name, given, row, lengths):
    """The arguments of one pair of a batch, without padding."""
    n, m = lengths[row]
    if name == "drrnet":
        return {key: x[:, row:row + 1, :max(1, n, m)] for key, x in given.items()}
    return {key: x[row:row + 1] if key == "prior" else x[row:row + 1, :n + m + 3]
            for key, x in given.items()}
