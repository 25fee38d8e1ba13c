"""The functions that the lessons ask for: TASKS[name] has the right one, the library's or one that
only the lessons ask for, its points and random arguments.

Shapes and masks are in the docstrings of the lessons. Cases come from small to large.
"""
import math
import random
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import reread
from bert_min import attention, attention_weights, split_heads
from priors import equal_words, subgraph_similarity, tree_similarity
from semmatch import (calibrated_attention, co_attention, difference_attention, difference_scores,
                      filtration_gate, gated_fusion, guided_attention, knowledge_factor,
                      spread_prior)
from support.parses import Parse, split_words

B, H, K, A, N, M, T = 3, 2, 5, 11, 13, 17, 6
D = H * K
CASES = "one token", "some pairs", "padding", "large scores", "float32"
TREES = "one word", "some pairs", "one relation"


class Task(NamedTuple):
    """A function that you write."""

    lesson: int
    points: int
    right: object       # the function as it should be
    draw: object = None     # a function: Draw -> arguments; None: a demand, see FORMS
    cases: tuple = CASES


class Draw:
    """Random arguments for one case. Each axis has another size, so that no two look alike."""

    def __init__(self, case, seed=0):
        self.case, self.random = case, random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.L, self.n, self.m = (1, 1, 1) if case in ("one token", "one word") else (7, N, M)
        self.dtype = torch.float32 if case == "float32" else torch.float64

    def normal(self, *shape, large=1.0):
        """Normal numbers; in the case "large scores" they are `large` times as large."""
        size = large if self.case == "large scores" else 1.0
        x = torch.randn(shape, generator=self.generator, dtype=torch.float64) * size
        return x.to(self.dtype)

    def mask(self, size=None):
        """bool (B, size). In most cases row 2 is half padding, and row 3 has no real key."""
        size, whole = size or self.L, self.case in ("some pairs", "one token")
        lengths = [size] * B if whole else [size, size // 2, 0]
        return torch.arange(size) < torch.tensor(lengths)[:, None]

    def fill(self, module):
        """The module with random weights, large enough that each one matters."""
        for parameter in module.to(self.dtype).parameters():
            parameter.data = 0.7 * self.normal(*parameter.shape)
        return module

    def linear(self, n_in, n_out, bias=True):
        return self.fill(nn.Linear(n_in, n_out, bias))

    def heads(self):
        """q, k, v (B, H, L, k)."""
        return [self.normal(B, H, self.L, K, large=large) for large in (100.0, 100.0, 1.0)]

    def states(self, size=None):
        return self.normal(B, size or self.L, D)

    def tokens(self):
        """word_index, segment (B, L): row 2 has a word in two pieces and padding, row 3 no word."""
        word = torch.tensor([[-1, 0, 1, -1, 0, 2, -1], [-1, 4, 4, -1, M - 1, -1, -1], [-1] * 7])
        segment = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0], [0] * 7])
        return [word[:, :self.L], segment[:, :self.L]]

    def scores(self):
        """Symmetric scores (B, L, L), -inf except between words of different sentences."""
        x = self.normal(B, self.L, self.L, large=30.0)
        G = spread_prior(torch.zeros(B, N, M, dtype=self.dtype), *self.tokens(), -math.inf)
        return x + x.transpose(1, 2) + G

    def parse(self, size, vocabulary, relations):
        """A random sentence with a random tree."""
        words = self.random.choices(vocabulary, k=size)
        heads, places = np.zeros(size, int), [0]
        for place in self.random.sample(range(1, size + 1), size):
            heads[place - 1] = self.random.choice(places[-2:])      # a deep tree
            places.append(place)
        types = tuple(self.random.choices(relations, k=size))
        text = " ".join(words)
        return Parse(text, split_words(text), ("X",) * size, heads, types)

    def parses(self):
        """Two sentences. In the case "one relation" all words are equal, so that subtrees match.
        Else a word may be a part of another."""
        words, relations = ("a", "A", "b", "B", "ab", "Ab"), ("nsubj", "obj", "det")
        kinds = ("a", ["x"]) if self.case == "one relation" else (words, relations)
        return [self.parse(size, *kinds) for size in (self.n, self.m)]


def two_signals(d):
    """Two signals, and the linear maps of a gate over both."""
    return [d.states(), d.states(), d.linear(D, D), d.linear(D, D), d.linear(2 * D, 1, False)]


def choose_draw(d):
    return [d.states(d.n), d.normal(B, d.n, A), d.mask(d.n), d.normal(B, A), d.linear(A, 1, False),
            200.0 if d.case == "large scores" else 3.0]


def left_draw(d):
    """c: some words are spent, and some have 5e-7 left, which is spent, too."""
    left = d.normal(B, d.n) + 0.5
    left[:, ::3] = left[:, ::3].clamp(max=5e-7)
    return left


def phrase_draw(d):
    size = 3 if d.case == "kernel 3" else 2
    first, second = nn.Conv1d(D, A, size), nn.Conv1d(A, D, size)
    return [d.states(d.n), d.mask(d.n), d.fill(first), d.fill(second)]


def coverage_draw(d):
    """c, weights, φ, mask: row 1 will be spent; in the case "padding" the real words of row 2."""
    left, read = d.normal(B, d.n).abs() + 1, torch.ones(B, d.n, dtype=d.dtype)
    left[0], mask = 0.5 + 5e-7, d.mask(d.n)                 # 5e-7 will be left: that is spent
    left[1] = left[1].masked_fill(mask[1] & (d.case == "padding"), 0.5)
    left[1, 0] = 0.3                                        # more is read than is left
    phi = torch.full((B, d.n), 2.0, dtype=d.dtype)
    return [left, read, phi, mask]


def factor_draw(d):
    """ln K_prior and the cells between the sentences."""
    ln_K = co_attention(d.states(), d.scores())[0]
    return [ln_K, ln_K > -math.inf]


def layer(hidden, mixed, attention_output, attention_norm, intermediate, output, output_norm):
    hidden = attention_norm(hidden + attention_output(mixed))  # (B, L, d)
    return output_norm(hidden + output(F.gelu(intermediate(hidden))))  # (B, L, d)


def demand_guide(f):
    values, guide, other = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    found = f(values, guide)
    steady = torch.allclose(found, f(values, guide))  # no noise
    by_guide = not torch.allclose(found, f(values, other), atol=1e-3)
    by_values = not torch.allclose(found, f(values + 1, guide), atol=1e-3)
    return steady and by_guide and by_values


def demand_trees(f):
    scores, M = torch.tensor([[-1.0, 0], [1, 0]]), torch.tensor([[4.0, 1], [4, 1]])
    more = f(scores, M) - scores.softmax(-1)  # than plain attention; both signs of a score
    return bool((more[:, 0] > 1e-3).all() and (more[:, 1] < -1e-3).all())


def guided(score):
    """A form of DABERT Eq. (5): values, guide (L, 4) -> what each guide finds (L, 4).

    score: function of values (1, L, 8) and guides (L, 1, 8), both projected -> (L, L).
    """
    W_values, W_guide = 0.7 * torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))
    return lambda values, guide: score((values @ W_values)[None, :],
                                       (guide @ W_guide)[:, None]).softmax(-1) @ values


# What a demand is tried with: what it is -> a form of the equation, does it do what is asked?
FORMS = {
    "demand_guide": {
        "the repair by a sum inside tanh": (guided(lambda v, g: 2 * (v + g).tanh().sum(-1)), True),
        "the equation as printed":
            (guided(lambda v, g: 2 * v.tanh().sum(-1) + 2 * g.tanh().sum(-1)), False),
        "plain attention of the values, without a guide":
            (lambda values, guide: (values @ values.T).softmax(-1) @ values, False),
        "the guide itself, whatever the values": (lambda values, guide: guide.clone(), False),
        "noise": (lambda values, guide: torch.rand(guide.shape), False),  # others at each call
        "the repair by products of guide and value":
            (guided(lambda v, g: (v * g).sum(-1)), True)},
    "demand_trees": {
        "the repair that multiplies weights": (lambda s, M: (s + M.log()).softmax(-1), True),
        "the equation as printed": (lambda s, M: (s * M).softmax(-1), False),
        "plain attention": (lambda s, M: s.softmax(-1), False),
        "noise": (lambda s, M: torch.rand(s.shape).softmax(-1), False),
        "the opposite": (lambda s, M: (s - M.log()).softmax(-1), False),
        "the repair that adds the matrix": (lambda s, M: (s + M).softmax(-1), True)}}


TASKS = {task.right.__name__: task for task in (
    Task(1, 1, split_heads, lambda d: [d.states(), H]),
    Task(1, 2, attention_weights, lambda d: [d.normal(B, H, d.L, d.L, large=1e5), d.mask()]),
    Task(1, 2, attention, lambda d: [*d.heads(), d.mask()]),
    Task(1, 2, layer, lambda d: [
        d.states(), d.states(), d.linear(D, D), d.fill(nn.LayerNorm(D)), d.linear(D, 2 * A),
        d.linear(2 * A, D), d.fill(nn.LayerNorm(D))]),
    Task(2, 2, difference_scores, lambda d: d.heads()[:2]),
    Task(2, 3, demand_guide),
    Task(2, 2, difference_attention, lambda d: [*d.heads(), d.mask()]),
    Task(2, 3, guided_attention, lambda d: [
        d.states(), d.states(), d.mask(), d.linear(D, A, False), d.linear(D, A),
        d.linear(A, 1, False)]),
    Task(2, 2, gated_fusion, two_signals),
    Task(2, 2, filtration_gate, two_signals),
    Task(3, 2, tree_similarity, Draw.parses, TREES),
    Task(3, 4, subgraph_similarity, Draw.parses, TREES),
    Task(3, 3, spread_prior, lambda d: [d.normal(B, N, M), *d.tokens(), 0.5]),
    Task(3, 3, demand_trees),
    Task(3, 2, calibrated_attention, lambda d: [*d.heads(), d.mask(), d.normal(B, d.L, d.L)]),
    Task(4, 4, co_attention, lambda d: [d.states(), d.scores()]),
    Task(4, 2, knowledge_factor, factor_draw),
    Task(5, 2, reread.choose, choose_draw),
    Task(5, 3, reread.reread, lambda d: [
        d.states(d.n), d.mask(d.n), d.normal(B, K), d.normal(B, M),
        d.fill(reread.Choice(D, K, A, M)), d.fill(nn.GRUCell(D, K)), T, 3.0]),
    Task(6, 3, reread.phrase_cnn, phrase_draw, (*CASES, "kernel 3")),
    Task(6, 2, reread.coverage, coverage_draw),
    Task(6, 2, reread.choose_left, lambda d: [*choose_draw(d), left_draw(d)]),
    Task(7, 2, equal_words, lambda d: [parse.words for parse in d.parses()], TREES[:2]))}
