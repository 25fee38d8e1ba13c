"""What test_semmatch.py and test_reread.py make tensors with, and compare with oracles by."""
import zlib

import torch
from hypothesis import settings
from torch import nn

from bert_min import BertConfig

quick = settings(max_examples=12)


def labelled(names):
    """The id of a test case: a set of equations or of ablations."""
    return "+".join(map(str, sorted(names))) or "none"


def normal(*size, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*size, generator=generator, dtype=torch.float64)


def config(**changes):
    sizes = dict(vocab_size=41, hidden_size=10, num_layers=3, num_heads=2, intermediate_size=19,
                 max_length=40, dropout=0.0, attention_dropout=0.0)
    return BertConfig(**(sizes | changes))


def large(module, seed=1, scale=1.0):
    """The module in float64 with weights so large that every part of an equation shows.

    A weight depends on its name and its shape alone: models with other options share them.
    """
    module = module.double().eval()
    for name, p in module.named_parameters():
        size = 2 * scale / p[0].numel() ** 0.5 if p.dim() > 1 else scale
        around = 1.0 if name.endswith("norm.weight") else 0.0   # a small norm makes tokens alike
        if p.requires_grad:
            p.data = around + normal(*p.shape, seed=zlib.crc32(name.encode()) + seed, scale=size)
        if name in ("words.weight", "characters.weight") and p.requires_grad:
            p.data[0] = 0.0                                     # padding, as the model keeps it
    return module


def linear(n_in, n_out, seed=1, bias=True):
    return large(nn.Linear(n_in, n_out, bias), seed)


def lists(module):
    """A module's weights as lists: (W, b) of a linear map, a list of several, those of a GRU."""
    if isinstance(module, (nn.Linear, nn.Conv1d)):
        return module.weight.tolist(), None if module.bias is None else module.bias.tolist()
    if isinstance(module, (nn.Sequential, nn.ModuleList)):
        return [lists(part) for part in module if not isinstance(part, nn.ReLU)]
    if isinstance(module, (nn.GRU, nn.GRUCell)):
        return [p.tolist() for p in module.parameters()]
    return module.weight.tolist() if isinstance(module, nn.Embedding) else None


def weights_of(model):
    """Name -> weights as lists, of all parts of a model."""
    own = {name: p.tolist() for name, p in model.named_parameters(recurse=False)}
    return own | {name: lists(part) for name, part in model.named_modules()}


def same(got, want, within=1e-10):
    """Shapes are equal, numbers nearly; -inf stands where it should."""
    want = torch.as_tensor(want, dtype=got.dtype)
    assert got.shape == want.shape
    assert torch.equal(got.isinf(), want.isinf()) and not got.isnan().any()
    off = (got - want)[~got.isinf()].abs()
    assert (off <= within * (1 + want[~want.isinf()].abs())).all(), f"off by {off.max()}"


def far(one, two):
    return (one - two).abs().max() > 1e-4


def against(got, loop, *tensors):
    """got: one tensor or several, of a batch. loop: the oracle of one row's lists of `tensors`."""
    for b, one in enumerate(zip(*(x.tolist() for x in tensors), strict=True)):
        want = loop(*one)
        if isinstance(got, torch.Tensor):
            same(got[b], want)
        else:
            for x, y in zip(got, want, strict=True):
                same(x[b], y)


def silent(model, out):
    """Names of parameters on which the output does not depend."""
    model.zero_grad()
    out.square().sum().backward()
    return {name for name, p in model.named_parameters()
            if p.requires_grad and (p.grad is None or not p.grad.abs().max() > 1e-12)}
