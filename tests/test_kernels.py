"""support/kernels.py against the scores in one line, in values, gradients and memory."""
import itertools

import pytest
import torch

from support import kernels
from support.kernels import additive_scores, l1_distances
from methods import normal, same

B, L, M, A = 3, 7, 17, 11
each_score = pytest.mark.parametrize("function, naive, sizes", [
    (additive_scores, lambda keys, queries, w: (keys[:, None] + queries[:, :, None]).tanh() @ w,
     [(B, M, A), (B, L, A), (A,)]),
    (lambda q, k: l1_distances(q[:, None], k[:, None])[:, 0],
     lambda q, k: (q[:, :, None] - k[:, None]).abs().sum(-1),
     [(B, L, A), (B, M, A)])], ids=["additive", "l1"])


@each_score
@pytest.mark.parametrize("large", [1.0, 13.0, 25.0, 1e4])
@pytest.mark.parametrize("block", [1, 2 * M * A, 2 * L * M * A, 2 ** 17])
def test_scores_equal_the_naive_form(function, naive, sizes, block, large, monkeypatch):
    """Forward and backward, in blocks of one row, a part of a pair, two pairs, all. Some keys equal
    a query; for some, e^(2x) is infinite. Inside autocast the scores are float32."""
    inputs = [normal(*size, seed=i) for i, size in enumerate(sizes)]
    for x in inputs[:2]:
        x[2] *= large
    inputs[0][1, 4] = inputs[1][1, 3]                           # a distance of 0
    inputs[0][0, 2, :3] = inputs[1][0, 5, :3]
    monkeypatch.setitem(kernels.BLOCK, "cpu", block)
    for dtype, within in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        got, want = function(*leaves), naive(*leaves)
        weights = normal(*got.shape, seed=4).to(dtype)
        same(got, want, within)
        for x, y in zip(*(torch.autograd.grad(out, leaves, weights) for out in (got, want))):
            same(x, y, within)
    with torch.autocast("cpu", torch.bfloat16):
        got = function(*leaves)
    assert got.dtype == torch.float32 and torch.equal(got, function(*leaves))


def peak_numbers(function, inputs):
    """Peak of the memory that forward and backward add, in numbers of float32."""
    with torch.profiler.profile(profile_memory=True, acc_events=True) as profile:
        torch.autograd.grad(function(*inputs).sum(), inputs)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(itertools.accumulate(event.nbytes() for event in events)) / 4


def test_scores_memory(monkeypatch):
    """Beyond inputs and gradients, L·L scores and one block: nothing grows with L·L·A."""
    block, b, length, size = 4096, 2, 61, 32
    monkeypatch.setitem(kernels.BLOCK, "cpu", block)
    inputs = [normal(b, length, size), normal(b, length, size), normal(size)]
    inputs, own = [x.float().requires_grad_() for x in inputs], 6 * b * length * size
    assert peak_numbers(additive_scores, inputs) - own < 4 * b * length * length + 2 * block
