"""The functions that the lessons ask for: TASKS[name] has points, random arguments and mistakes.

judge.py compares your function with that of answers.py. The mistakes that it can name are listed
here and in tests/mistakes.py. Cases come from small to large.
"""
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import answers
import reread
from bert_min import BertConfig
from semmatch import DafaAttention
from support.parses import Parse, split_words

sys.path.append(str(Path(reread.__file__).parent / "tests"))
from mistakes import MISTAKES

B, H, K, A, N, M, T, R, V = 3, 2, 5, 11, 13, 17, 6, 5, 29
D = H * K
CASES = "one token", "some pairs", "padding", "large scores", "float32"
TREES = "one word", "some pairs", "one relation"
RELATIONS = "nsubj", "obj", "det"


class Task(NamedTuple):
    """A function that you write."""

    lesson: int
    points: int
    place: str          # "module.name" of the library's function; "" if it takes other arguments
    draw: object = None     # a function: Draw -> arguments; None: a demand, see demands.py
    more: dict = {}     # name -> mistaken function, added to those of tests/mistakes.py
    cases: tuple = CASES

    def mistakes(self):
        """name -> mistaken function"""
        return dict(MISTAKES.get(self.place, ())) | self.more


# ---- Arguments ----------------------------------------------------------------------------------

class Draw:
    """Random arguments for one case. Each axis has another size, so that no two look alike."""

    def __init__(self, case, seed=0):
        self.case, self.generator = case, torch.Generator().manual_seed(seed)
        self.L, self.n, self.m = (1, 1, 1) if case in ("one token", "one word") else (7, N, M)
        self.dtype = torch.float32 if case == "float32" else torch.float64
        self.letters = {B: "B", H: "H", K: "k", A: "A", T: "T", D: "d", 2 * A: "f",
                        self.L: "L", self.n: "n", self.m: "m"} | {
                            1: "1", 4: "batches"}

    def normal(self, *shape, large=1.0):
        """Normal numbers; in the case "large scores" they are `large` times as large."""
        size = large if self.case == "large scores" else 1.0
        x = torch.randn(shape, generator=self.generator, dtype=torch.float64) * size
        return x.to(self.dtype).requires_grad_()

    def integer(self, high, *shape):
        return torch.randint(high, shape, generator=self.generator)

    def mask(self, size=None):
        """bool (B, size). In most cases row 2 is half padding, and row 3 has no real key."""
        size, whole = size or self.L, self.case in ("some pairs", "one token")
        lengths = [size] * B if whole else [size, size // 2, 0]
        return torch.arange(size) < torch.tensor(lengths)[:, None]

    def fill(self, module):
        """The module with random weights, large enough that each one matters."""
        for parameter in module.to(self.dtype).parameters():
            parameter.data = 0.7 * self.normal(*parameter.shape).detach()
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

    def cross(self):
        """G (B, L, L): 0 or 2.5 between words of different sentences, -inf elsewhere."""
        related = 2.5 * self.integer(2, B, N, M).to(self.dtype)
        return answers.spread_prior(related, *self.tokens(), -math.inf)

    def scores(self):
        """Symmetric scores (B, L, L), -inf except between words of different sentences."""
        x = self.normal(B, self.L, self.L, large=30.0).detach()
        scores = (x + x.transpose(1, 2) + self.cross()).requires_grad_()
        scores.register_hook(lambda g: g + g.mT)    # a softmax over rows or columns: both are right
        return scores

    def parse(self, size, letters, relations):
        """A random sentence, each word a letter, with a random tree."""
        words = [letters[int(i)] for i in self.integer(len(letters), size)]
        heads, places = np.zeros(size, int), [0]
        for place in (1 + torch.randperm(size, generator=self.generator)).tolist():
            heads[place - 1] = places[-2:][self.integer(len(places[-2:]))]      # a deep tree
            places.append(place)
        types = tuple(relations[int(i)] for i in self.integer(len(relations), size))
        text = " ".join(words)
        return Parse(text, split_words(text), ("X",) * size, heads, types)

    def parses(self):
        """Two sentences. In the case "one relation" all words are equal, so that subtrees match."""
        kinds = ("a", ["x"]) if self.case == "one relation" else ("aAbBcC", RELATIONS)
        return [self.parse(size, *kinds) for size in (self.n, self.m)]


def choose_draw(d):
    return [d.states(d.n), d.normal(B, d.n, A), d.mask(d.n), d.normal(B, A), d.linear(A, 1, False),
            200.0 if d.case == "large scores" else 3.0]


def left_draw(d):
    """c: some words are spent, and some have 5e-7 left, which is spent, too."""
    left = d.normal(B, d.n).detach() + 0.5
    left[:, ::3] = left[:, ::3].clamp(max=5e-7)
    return left.requires_grad_()


def phrase_draw(d):
    size = 3 if d.case == "kernel 3" else 2
    first, second = nn.Conv1d(D, A, size), nn.Conv1d(A, D, size)
    return [d.states(d.n), d.mask(d.n), d.fill(first), d.fill(second)]


def coverage_draw(d):
    """c, weights, φ, mask: row 1 will be spent; in the case "padding" the real words of row 2."""
    left, read = d.normal(B, d.n).detach().abs() + 1, torch.ones(B, d.n, dtype=d.dtype)
    left[0], mask = 0.5 + 5e-7, d.mask(d.n)                 # 5e-7 will be left: that is spent
    left[1] = left[1].masked_fill(mask[1] & (d.case == "padding"), 0.5)
    phi = torch.full((B, d.n), 2.0, dtype=d.dtype)
    return [left.requires_grad_(), read.requires_grad_(), phi, mask]


def factor_draw(d):
    """ln K_prior and the cells between the sentences."""
    ln_K = answers.co_attention(d.states(), d.scores())[0].detach().requires_grad_()
    return [ln_K, ln_K > -math.inf]


def words_draw(d):
    """Two lists of words, one of which is a part of another."""
    words = "a", "A", "b", "B", "ab", "Ab"
    return [[words[int(i)] for i in d.integer(6, size)] for size in (d.n, d.m)]


def pieces_draw(d):
    """Pieces, which of them are words, [MASK], two numbers for each, other pieces."""
    draws = torch.rand(2, B, d.L, generator=d.generator)
    draws[0] *= 0.3                                         # half of the pieces are chosen,
    draws[1] = 0.6 + 0.4 * draws[1]                         # half of these become [MASK]
    return [d.integer(V, B, d.L), d.integer(4, B, d.L) > 0, 4, draws, V + d.integer(V, B, d.L)]


def batches_draw(d):
    """A model, batches of (inputs, labels), an optimizer and a limit that cuts each gradient."""
    count = 1 if d.case == "one batch" else 4
    batches = [({"input": d.normal(B, D).detach()}, d.integer(T, B)) for _ in range(count)]
    model = d.linear(D, T)
    return [model, batches, torch.optim.SGD(model.parameters(), 0.5, momentum=0.5), 0.3]


def clip_numbers(model, batches, optimizer, clip):
    """train_steps that clips each number of a gradient."""
    for weight in model.parameters():
        weight.register_hook(lambda gradient: gradient.clamp(-clip, clip))
    return answers.train_steps(model, batches, optimizer, math.inf)


# ---- The functions ------------------------------------------------------------------------------

CONFIG = BertConfig(V, D, num_layers=1, num_heads=H, intermediate_size=A, max_length=N)
TASKS = {
    # ---- 1. Mini-BERT
    "split_heads": Task(1, 1, "bert_min.split_heads", lambda d: [d.states(), H]),
    "attention_weights": Task(1, 2, "bert_min.attention_weights",
                              lambda d: [d.normal(B, H, d.L, d.L, large=1e5), d.mask()], {
        "10,000 subtracted": lambda s, m:
            (s - 1e4 * ~m[:, None, None]).softmax(-1) * m[:, None, None]}),
    "attention": Task(1, 2, "bert_min.attention", lambda d: [*d.heads(), d.mask()]),
    "layer": Task(1, 2, "", lambda d: [
        d.states(), d.states(), d.linear(D, D), d.fill(nn.LayerNorm(D)), d.linear(D, 2 * A),
        d.linear(2 * A, D), d.fill(nn.LayerNorm(D))], {
        "the second residual adds h, not the result of the first norm":
            lambda h, x, W, n, W_1, W_2, n_2: n_2(h + W_2(F.gelu(W_1(n(h + W(x)))))),
        "gelu by its tanh form, where F.gelu is exact": lambda h, x, W, n, W_1, W_2, n_2:
            n_2((y := n(h + W(x))) + W_2(F.gelu(W_1(y), approximate="tanh")))}),
    "train_steps": Task(1, 2, "", batches_draw, {
        "gradients that are never set to 0 and add up": lambda m, b, o, clip:
            answers.train_steps(m, b, SimpleNamespace(step=o.step, zero_grad=list), clip),
        "no clip, or only after the step": lambda m, b, o, clip:
            answers.train_steps(m, b, o, math.inf),
        "each number of a gradient clipped, not the norm of all": clip_numbers,
        "no step, or gradients that are 0 before it": lambda m, b, o, clip:
            answers.train_steps(m, b, SimpleNamespace(step=list, zero_grad=o.zero_grad), clip)},
        cases=("one batch", "four batches")),
    # ---- 2. DABERT
    "difference_scores": Task(2, 2, "semmatch.difference_scores", lambda d: d.heads()[:2], {
        "rows and columns exchanged": lambda q, k: answers.difference_scores(k, q),
        "Euclid's distance": lambda q, k: torch.cdist(q, k)}),
    "demand_guide": Task(2, 3, ""),
    "difference_attention": Task(2, 2, "semmatch.difference_attention",
                                 lambda d: [*d.heads(), d.mask()]),
    "guided_attention": Task(2, 3, "semmatch.guided_attention", lambda d: [
        d.states(), d.states(), d.mask(), d.linear(D, A, False), d.linear(D, A),
        d.linear(A, 1, False)]),
    "gated_fusion": Task(2, 2, "semmatch.gated_fusion", lambda d: [
        d.states(), d.states(), d.linear(D, D), d.linear(D, D), d.linear(2 * D, 1, False)]),
    "filtration_gate": Task(2, 2, "semmatch.filtration_gate", lambda d: [
        d.states(), d.states(), d.linear(D, D), d.linear(D, D), d.linear(2 * D, 1, False)]),
    # ---- 3. DAFA
    "tree_similarity": Task(3, 2, "priors.tree_similarity", Draw.parses, cases=TREES),
    "subgraph_similarity": Task(3, 4, "priors.subgraph_similarity", Draw.parses, cases=TREES),
    "spread_prior": Task(3, 3, "semmatch.spread_prior",
                         lambda d: [d.normal(B, N, M), *d.tokens(), 0.5]),
    "calibrated_attention": Task(3, 2, "semmatch.calibrated_attention", lambda d: [
        *d.heads(), d.mask(), d.normal(B, d.L, d.L)]),
    "demand_trees": Task(3, 3, ""),
    "dafa_fuse": Task(3, 3, "", lambda d: [
        d.states(), d.states(), d.mask(), d.fill(DafaAttention(CONFIG, attention_size=A))]),
    # ---- 4. External knowledge
    "co_attention": Task(4, 4, "semmatch.co_attention", lambda d: [d.states(), d.scores()]),
    "demand_relations": Task(4, 3, ""),
    "knowledge_factor": Task(4, 2, "semmatch.knowledge_factor", factor_draw, {
        "the mean of logarithms, not the logarithm of the mean": lambda ln_K, cross: torch.where(
            cross, ln_K - ln_K.where(cross, 0.0).sum((1, 2), keepdim=True)
            / cross.sum((1, 2), keepdim=True).clamp(min=1), 0.0)}),
    # ---- 5. DRr-Net
    "choose": Task(5, 2, "reread.choose", choose_draw),
    "reread": Task(5, 3, "reread.reread", lambda d: [
        d.states(d.n), d.mask(d.n), d.normal(B, K), d.normal(B, M),
        d.fill(reread.Choice(D, K, A, M)), d.fill(nn.GRUCell(D, K)), T, 3.0]),
    # ---- 6. LadRa-Net
    "phrase_cnn": Task(6, 3, "reread.phrase_cnn", phrase_draw, cases=(*CASES, "kernel 3")),
    "coverage": Task(6, 2, "reread.coverage", coverage_draw),
    "choose_left": Task(6, 2, "", lambda d: [*choose_draw(d), left_draw(d)]),
    # ---- 7. What helps?
    "equal_words": Task(7, 2, "priors.equal_words", words_draw, cases=TREES[:2]),
    "mean_attention_factor": Task(
        7, 4, "semmatch.mean_attention_factor", lambda d: [d.scores().detach()], {
            "M̃, not its logarithm": lambda scores: answers.mean_attention_factor(scores).exp()},
        cases=("one token", "some pairs", "float32")),
    "hide_pieces": Task(7, 3, "", pieces_draw, {
        "both numbers exchanged": lambda pieces, words, mask_id, draws, others:
            answers.hide_pieces(pieces, words, mask_id, draws.flip(0), others)},
        cases=("one token", "some pairs")),
    "masked_loss": Task(7, 1, "", lambda d: [
        d.normal(N, V, large=100.0).detach().float().requires_grad_(), d.integer(V, N)], {
        "a softmax before F.cross_entropy, which takes one itself":
            lambda scores, pieces: answers.masked_loss(scores.softmax(-1), pieces),
        "the sum, not the mean": lambda scores, pieces: len(pieces) * answers.masked_loss(
            scores, pieces),
        "the other sign": lambda scores, pieces: -answers.masked_loss(scores, pieces),
        "the mean of all V": lambda scores, pieces: answers.masked_loss(scores, pieces) / V},
        cases=("some pairs", "large scores")),
}
