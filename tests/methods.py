"""The attentions of the papers that layers carry, and what tests give them.

Sizes are distinct primes (d is H times k). Used by test_methods, test_semmatch.
"""
import torch
from hypothesis import strategies as st

from semmatch import DabertAttention, DafaAttention, KnowledgeAttention
from tensors import config, large, normal

B, H, K, L, A, N, M = 3, 2, 5, 7, 11, 13, 17
D = H * K
ATTENTIONS = {"dabert": DabertAttention, "dafa": DafaAttention, "knowledge": KnowledgeAttention}


def forms(name):
    """Options of a method: nothing as printed, each equation alone, all."""
    numbers = ATTENTIONS[name].PRINTED
    return [{}, *({"printed": {number}} for number in numbers), {"printed": numbers}]


def method(name, seed=1, scale=1.0, sizes=None, **options):
    layer = ATTENTIONS[name](config(**(sizes or {})), attention_size=A, **options)
    return large(layer, seed, scale)


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


@st.composite
def problems(draw, name, **options):
    """A layer of any size and form, hidden states, a ragged mask, and a prior."""
    b, h, length, k = (draw(st.integers(1, top)) for top in (3, 3, 6, 4))
    seed, scale = draw(st.integers(0, 999)), draw(st.sampled_from([0.0, 1.0, 30.0]))
    lengths = draw(st.lists(st.integers(0, length), min_size=b, max_size=b))
    mask = torch.arange(length) < torch.tensor(lengths)[:, None]
    drawn = draw(st.sampled_from(forms(name)))
    drawn = drawn | {"scope": draw(st.sampled_from(["hidden", "head"]))}
    layer = method(name, seed, 1.0, dict(hidden_size=h * k, num_heads=h), **(drawn | options))
    hidden = normal(b, length, h * k, seed=seed, scale=scale)
    return layer, hidden, mask, prior_of(name, layer, mask, seed)
