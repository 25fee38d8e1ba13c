"""What `check` tries your functions on.

    TASKS[name]     lesson, points, the library's function, draw(d) -> arguments
    CLAIMS[name]    lesson, points, functions of which the claim is True, those of which it is False

The classic mistakes that `check` knows are those of tests/mistakes.py, which tests plant in the
library.
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

import bert_min
import equations as ours
import reread
import semmatch
from support.parses import Parse, split_words

sys.path.append(str(Path(bert_min.__file__).parent / "tests"))
from mistakes import MISTAKES, find  # noqa: E402

B, H, K, A, N, M, E, T, R, V = 3, 2, 5, 11, 13, 17, 4, 6, 5, 29
D = H * K
CASES = "some pairs", "one token", "padding", "wide scores", "float32"
TREES = "some pairs", "one word", "one relation"


class Task(NamedTuple):
    """A function that the reader writes."""

    lesson: int
    points: int
    place: str          # of the library's function, "module.name"; "": only equations.py has it
    draw: object        # of a Draw: the reader's arguments
    adapt: object = None    # (library's function, *arguments) -> result, where its arguments differ
    more: dict = {}     # name -> mistaken function, beside those of tests/mistakes.py
    cases: tuple = CASES

    def library(self, name):
        """What is right, with the reader's arguments."""
        return self.adapted(find(self.place)) if self.place else getattr(ours, name)

    def adapted(self, function):
        if self.adapt is None:
            return function
        return lambda *arguments: self.adapt(function, *arguments)

    def mistakes(self):
        """name -> mistaken function, with the reader's arguments."""
        found = {name: self.adapted(wrong) for name, wrong in MISTAKES.get(self.place, ())}
        return found | self.more


class Claim(NamedTuple):
    """A function of a function: does it do what the paper's sentence says?"""

    lesson: int
    points: int
    sentence: str
    right: dict         # name -> function of which the claim is True
    wrong: dict         # name -> function of which it is False


# ---- Arguments ----------------------------------------------------------------------------------

class Draw:
    """Arguments of one case out of a seed. Sizes are primes, so that no axis looks like another."""

    def __init__(self, case, seed=0):
        self.case, self.generator = case, torch.Generator().manual_seed(seed)
        self.L, self.n, self.m = (1, 1, 1) if case in ("one token", "one word") else (7, N, M)
        self.dtype = torch.float32 if case == "float32" else torch.float64
        self.letters = {B: "B", H: "H", K: "k", A: "A", E: "E", T: "T", D: "d", 2 * A: "f",
                        self.L: "L", self.n: "n", self.m: "m"} | {1: "1"}

    def normal(self, *shape, wide=1.0):
        """Normal numbers; `wide` times as large where scores are."""
        size = wide if self.case == "wide scores" else 1.0
        x = torch.randn(shape, generator=self.generator, dtype=torch.float64) * size
        return x.to(self.dtype).requires_grad_()

    def positive(self, *shape):
        return self.normal(*shape).detach().abs().add(0.1).requires_grad_()

    def integer(self, high, *shape):
        return torch.randint(high, shape, generator=self.generator)

    def mask(self, size=None):
        """bool (B, size): with padding half of the second row is real, and nothing of the third."""
        size = size or self.L
        short = size // 2 if self.case == "padding" else size
        none = 0 if self.case == "padding" else size
        return torch.arange(size) < torch.tensor([size, short, none])[:, None]

    def fill(self, module):
        """The module with drawn weights, large enough that each matters."""
        for parameter in module.to(self.dtype).parameters():
            parameter.data = 0.7 * self.normal(*parameter.shape).detach()
        return module

    def linear(self, n_in, n_out, bias=True):
        return self.fill(nn.Linear(n_in, n_out, bias))

    def heads(self):
        """q, k, v (B, H, L, k)."""
        q, k = (self.normal(B, H, self.L, K, wide=100.0) for _ in range(2))
        return [q, k, self.normal(B, H, self.L, K)]

    def states(self, size=None):
        return self.normal(B, size or self.L, D)

    def tokens(self):
        """word_index, segment (B, L): a word in two pieces, [CLS], [SEP], padding; no word."""
        word = torch.tensor([[-1, 0, 1, -1, 0, 2, -1], [-1, 4, 4, -1, 7, -1, -1], [-1] * 7])
        segment = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0], [0] * 7])
        return [word[:, :self.L], segment[:, :self.L]]

    def cross(self):
        """G (B, L, L): 0 or 2.5 between words of both sentences, -inf elsewhere."""
        related = 2.5 * self.integer(2, B, N, M).to(self.dtype)
        return ours.spread_prior(related, *self.tokens(), -math.inf)

    def scores(self):
        """Symmetric scores (B, L, L), -inf where tokens are not of different sentences."""
        x = self.normal(B, self.L, self.L, wide=30.0).detach()
        return (x + x.transpose(1, 2) + self.cross()).requires_grad_()

    def parse(self, letters, size, relations=("nsubj", "obj", "det")):
        """A sentence of drawn words under a drawn tree."""
        words = [letters[int(i)] for i in self.integer(len(letters), size)]
        heads = np.array([int(self.integer(i + 1)) for i in range(size)])
        types = tuple(relations[int(i)] for i in self.integer(len(relations), size))
        text = " ".join(words)
        return Parse(text, split_words(text), ("X",) * size, heads, types)

    def parses(self):
        """Two sentences of few words; in one case all have one relation, so that subtrees match."""
        if self.case == "one relation":
            return [self.parse("ab", self.n, ["x"]), self.parse("ab", self.m, ["x"])]
        return [self.parse("aAbBcC", self.n), self.parse("aAbBcC", self.m)]

    def choice(self):
        return self.fill(reread.Choice(D, K, A, M))


def same(x):
    return x


def scaled(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5


# ---- 1. Mini-BERT -------------------------------------------------------------------------------

def attend(function, q, k, v, mask):
    """SelfAttention.attend as a function of q, k, v and mask."""
    layer = SimpleNamespace(training=False, dropout=0.0, heads=H)
    return bert_min.split_heads(function(layer, None, q, k, v, mask, None, None), H)


def run_layer(function, hidden, mixed, attention_output, attention_norm, intermediate, output,
              output_norm):
    """Layer.forward, whose attention has been done."""
    layer = SimpleNamespace(
        attention=lambda *given: mixed, attention_output=attention_output, output=output,
        attention_norm=attention_norm, intermediate=intermediate, output_norm=output_norm,
        activation=F.gelu, dropout=same)
    return function(layer, hidden, None, None, None)


def run_embeddings(function, input_ids, segment, word, position, segments, norm):
    """Embeddings.forward of these tables."""
    tables = SimpleNamespace(word=word, position=position, segment=segments, norm=norm, offset=0,
                             alike=False, dropout=same)
    return function(tables, input_ids, segment)


TASKS = {
    "split_heads": Task(1, 1, "bert_min.split_heads", lambda d: [d.states(), H]),
    "merge_heads": Task(1, 1, "bert_min.merge_heads", lambda d: [d.heads()[2]]),
    "attention_weights": Task(1, 2, "bert_min.attention_weights",
                              lambda d: [d.normal(B, H, d.L, d.L, wide=1e5), d.mask()], more={
        "10,000 subtracted": lambda s, m: (s - 1e4 * ~m[:, None, None]).softmax(-1)}),
    "attention": Task(1, 2, "bert_min.SelfAttention.attend",
                      lambda d: [*d.heads(), d.mask()], attend, {
        "no mask": lambda q, k, v, m: scaled(q, k).softmax(-1) @ v}),
    "layer": Task(1, 2, "bert_min.Layer.forward", lambda d: [
        d.states(), d.states(), d.linear(D, D), d.fill(nn.LayerNorm(D)), d.linear(D, 2 * A),
        d.linear(2 * A, D), d.fill(nn.LayerNorm(D))], run_layer, {
        "relu for gelu":
            lambda h, x, W, n, W_1, W_2, n_2: n_2((y := n(h + W(x))) + W_2(W_1(y).relu())),
        "no second residual":
            lambda h, x, W, n, W_1, W_2, n_2: n_2(W_2(F.gelu(W_1(n(h + W(x))))))}),
    "embed": Task(1, 1, "bert_min.Embeddings.forward", lambda d: [
        d.integer(V, B, d.L), d.integer(2, B, d.L), d.fill(nn.Embedding(V, D)),
        d.fill(nn.Embedding(N, D)), d.fill(nn.Embedding(2, D)), d.fill(nn.LayerNorm(D))],
        run_embeddings, {
        "no position": lambda i, s, word, p, t, norm: norm(word(i) + t(s)),
        "no norm": lambda i, s, word, p, t, norm: word(i) + p.weight[:i.shape[1]] + t(s)}),
}


# ---- 2. DABERT ----------------------------------------------------------------------------------

TASKS |= {
    "difference_scores": Task(2, 2, "semmatch.difference_scores", lambda d: d.heads()[:2]),
    "difference_attention": Task(2, 2, "semmatch.difference_attention",
                                 lambda d: [*d.heads(), d.mask()], more={
        "-inf for the mask, so that a row without a key is nan; it must be 0":
            lambda q, k, v, m: (ours.difference_scores(q, k) / K ** 0.5)
            .masked_fill(~m[:, None, None], -math.inf).softmax(-1) @ v}),
    "guided_attention": Task(2, 3, "semmatch.guided_attention", lambda d: [
        d.states(), d.states(), d.mask(), d.linear(D, A, False), d.linear(D, A),
        d.linear(A, 1, False)]),
    "gated_fusion": Task(2, 2, "semmatch.gated_fusion", lambda d: [
        d.states(), d.states(), d.linear(D, D), d.linear(D, D), d.linear(2 * D, 1, False)]),
    "filtration_gate": Task(2, 2, "semmatch.filtration_gate", lambda d: [
        d.states(), d.states(), d.linear(D, D), d.linear(D, D), d.linear(2 * D, 1, False)]),
}


# ---- 3. DAFA ------------------------------------------------------------------------------------

def fuse_draw(d):
    W = SimpleNamespace(
        W_D=d.linear(D, A, False), W_s=d.linear(D, A), w_d=d.linear(A, 1, False),
        W_S=d.linear(D, A, False), W_dstar=d.linear(D, A), w_sstar=d.linear(A, 1, False),
        W_shat=d.linear(D, D), W_dhat=d.linear(D, D), W_g=d.linear(2 * D, 1, False),
        W_v=d.linear(D, D), W_l=d.linear(D, D), W_f=d.linear(2 * D, 1, False))
    return [d.states(), d.states(), d.mask(), W]


def run_fuse(function, s, d, mask, W):
    """DafaAttention.fuse with these weights."""
    layer = SimpleNamespace(without=frozenset(), printed=frozenset(), **vars(W))
    return function(layer, s, d, mask, None)


TASKS |= {
    "tree_similarity": Task(3, 2, "priors.tree_similarity", Draw.parses, cases=TREES),
    "subgraph_similarity": Task(3, 4, "priors.subgraph_similarity", Draw.parses, cases=TREES),
    "dependency_matrix": Task(3, 1, "priors.dependency_matrix", lambda d: [
        *d.parses(), d.positive(d.n).detach().numpy(), d.positive(d.m).detach().numpy()],
        cases=TREES),
    "spread_prior": Task(3, 3, "semmatch.spread_prior",
                         lambda d: [d.normal(B, N, M), *d.tokens(), 0.5]),
    "calibrated_attention": Task(3, 2, "semmatch.calibrated_attention", lambda d: [
        *d.heads(), d.normal(B, d.L, d.L), d.mask()], more={
        "no M": lambda q, k, v, M, m: ours.attention(q, k, v, m)}),
    "dafa_fuse": Task(3, 3, "semmatch.DafaAttention.fuse", fuse_draw, run_fuse),
}


# ---- 4. External knowledge ----------------------------------------------------------------------

def ln_K_draw(d):
    ln_K, _ = ours.co_attention(d.states(), d.scores())
    return [ln_K.detach().requires_grad_()]


TASKS |= {
    "relation_indicator": Task(4, 1, "semmatch.relation_indicator",
                               lambda d: [d.integer(6, B, N, M, R) == 0]),
    "knowledge_scores": Task(4, 1, "semmatch.knowledge_scores", lambda d: [d.states(), d.cross()]),
    "co_attention": Task(4, 4, "semmatch.co_attention", lambda d: [d.states(), d.scores()]),
    "mean_one": Task(4, 2, "", ln_K_draw, more={
        "no division by the mean": lambda ln_K: ln_K.masked_fill(ln_K == -math.inf, 0.0),
        "-inf elsewhere": lambda ln_K: torch.where(ln_K == -math.inf, ln_K, ours.mean_one(ln_K)),
        "the mean of all cells": lambda ln_K: torch.where(
            ln_K > -math.inf, ln_K - ln_K.exp().mean((1, 2), True).log(), 0.0),
        "one mean of the whole batch": lambda ln_K: torch.where(
            ln_K > -math.inf, ln_K - ln_K.exp()[ln_K > -math.inf].mean().log(), 0.0)}),
    "l2_ratio": Task(4, 1, "train.l2_ratio", lambda d: [int(d.integer(40)), 100, 4.0]),
}


# ---- 5. DRr-Net ---------------------------------------------------------------------------------

def choose_draw(d):
    return [d.states(d.n), d.normal(B, d.n, A), d.mask(d.n), d.normal(B, A), d.linear(A, 1, False),
            200.0 if d.case == "wide scores" else 3.0]


TASKS |= {
    "highway": Task(5, 1, "reread.highway", lambda d: [d.states(), d.linear(D, D), d.linear(D, D)]),
    "stacked_gru": Task(5, 2, "reread.stacked_gru", lambda d: [
        d.states(d.n), d.mask(d.n),
        nn.ModuleList(d.fill(nn.GRU(D + l * K, K, batch_first=True)) for l in range(3))]),
    "attentive_pooling": Task(5, 2, "reread.attentive_pooling", lambda d: [
        d.states(d.n), d.mask(d.n), d.linear(D, A), d.linear(A, 1, False)]),
    "choose": Task(5, 2, "reread.choose", choose_draw),
    "reread": Task(5, 3, "reread.reread", lambda d: [
        d.states(d.n), d.mask(d.n), d.normal(B, K), d.normal(B, M),
        d.fill(reread.Choice(D, K, A, M)), d.fill(nn.GRUCell(D, K)), T, 3.0]),
    "matching": Task(5, 1, "reread.matching", lambda d: [d.normal(B, D), d.normal(B, D)]),
    "probability_fusion": Task(5, 1, "reread.probability_fusion", lambda d: [
        d.normal(B, D), d.normal(B, D), d.linear(D, 1), d.linear(D, 1), d.linear(D, D)]),
}


# ---- 6. LadRa-Net -------------------------------------------------------------------------------

def phrase_draw(d):
    size = 3 if d.case == "wide scores" else 2
    first, second = nn.Conv1d(D, A, size), nn.Conv1d(A, D, size)
    return [d.states(d.n), d.mask(d.n), d.fill(first), d.fill(second)]


def choose_with_left(function, *arguments):
    """choose with c, without the scores that it returns."""
    return function(*arguments)[:2]


def coverage_draw(d):
    """c, weights, φ, mask: the first row is spent; with padding the second one, but for padding."""
    left, read = d.normal(B, d.n).detach().abs() + 1, torch.ones(B, d.n, dtype=d.dtype)
    left[0], mask = 0.5, d.mask(d.n)
    if d.case == "padding":
        left[1] = left[1].masked_fill(mask[1], 0.5)
    phi = torch.full((B, d.n), 2.0, dtype=d.dtype)
    return [left.requires_grad_(), read.requires_grad_(), phi, mask]


def scores_of(chosen, W_f, w_f):
    return w_f(W_f(chosen).tanh())[..., 0]


def mixed(chosen, mixture):
    return (mixture[:, None] @ chosen)[:, 0], mixture


TASKS |= {
    "layer_mix": Task(6, 1, "reread.layer_mix",
                      lambda d: [[d.states() for _ in range(E)], d.normal(E)]),
    "phrase_cnn": Task(6, 3, "reread.phrase_cnn", phrase_draw),
    "read_limit": Task(6, 1, "reread.read_limit",
                       lambda d: [d.states(d.n), d.linear(D, 1, False), T]),
    "coverage": Task(6, 2, "reread.coverage", coverage_draw),
    "choose_left": Task(6, 2, "reread.choose", lambda d: [
        *choose_draw(d), (d.normal(B, d.n).detach() + 0.5).requires_grad_()], choose_with_left),
    "mix_readers": Task(6, 1, "", lambda d: [
        d.normal(B, E, D), d.linear(D, A, False), d.linear(A, 1, False)], more={
        "no token in the sum":
            lambda a, W, w: mixed(a, F.pad(scores_of(a[:, 1:], W, w).softmax(-1), (1, 0))),
        "no tanh": lambda a, W, w: mixed(a, w(W(a))[..., 0].softmax(-1)),
        "a plain mean over r": lambda a, W, w: (a.mean(1), ours.mix_readers(a, W, w)[1])}),
}


# ---- Claims -------------------------------------------------------------------------------------

def rows(weights):
    """As weights of sum 1."""
    return weights / weights.sum(-1, keepdim=True)


def nonsense(like=lambda scores, *others: scores):
    """What no claim may take: functions that return numbers shaped as `like` of their arguments."""
    return {"zeros": lambda *x: 0 * like(*x), "ones": lambda *x: 0 * like(*x) + 1,
            "a third everywhere": lambda *x: 0 * like(*x) + 1 / 3,
            "noise": lambda *x: rows(torch.rand(like(*x).shape))}


def differences(q, k):
    return q[..., :, None, :] - k[..., None, :, :]


def difference_of_lengths(q, k):
    return q.norm(dim=-1)[..., :, None] - k.norm(dim=-1)[..., None, :]


def arg_max(m):
    return F.one_hot(m.argmax(-1), m.shape[-1]).to(m.dtype)


CLAIMS = {
    "claim_mask": Claim(
        1, 2, "Padding gets the weight 0, in a row without any real key too; real keys have the "
        "softmax of their scores.", right={
            "ours": ours.attention_weights,
            "masked before, multiplied behind":
                lambda s, m: s.masked_fill(~m, -1e30).softmax(-1) * m}, wrong={
            "Google's line, 10,000 subtracted": lambda s, m: (s - 10_000.0 * ~m).softmax(-1),
            "a softmax without a mask": lambda s, m: s.softmax(-1),
            "a softmax, multiplied by the mask": lambda s, m: s.softmax(-1) * m} | nonsense()),
    "claim_difference": Claim(
        2, 2, "A token differs more from each other token than from itself, and from it as much as "
        "it from the token.", right={
            "ours": ours.difference_scores,
            "squares": lambda q, k: differences(q, k).square().sum(-1),
            "the largest difference": lambda q, k: differences(q, k).abs().amax(-1)}, wrong={
            "the page, without bars": lambda q, k: differences(q, k).sum(-1),
            "plain attention's scores": scaled,
            "the difference of lengths": difference_of_lengths} | nonsense(scaled)),
    "claim_calibration": Claim(
        3, 2, "A larger entry M and a larger score each give a larger weight, whatever the other "
        "one is.", right={
            "ours": lambda s, M: (s + (1 + M).log()).softmax(-1),
            "the entry added to the score": lambda s, M: (s + M).softmax(-1)}, wrong={
            "the page, a product of scores": lambda s, M: (s * M).softmax(-1),
            "plain attention": lambda s, M: s.softmax(-1),
            "the entries alone": lambda s, M: rows(1 + M),
            "an entry as the weight": lambda s, M: M + 0.0} | nonsense()),
    "claim_knowledge": Claim(
        4, 2, "An entry above the mean gains weight, one that is below all others loses, whatever "
        "the scores are; a larger score still means a larger weight.", right={
            "ours": lambda s, K: (s + (K / K.mean()).log()).softmax(-1),
            "the distance from the mean, added":
                lambda s, K: (s + 5 * (K - K.mean())).softmax(-1)}, wrong={
            "the page, a product of scores": lambda s, K: (s * K).softmax(-1),
            "plain attention": lambda s, K: s.softmax(-1),
            "the entries alone": lambda s, K: rows(K),
            "plain attention times the entry": lambda s, K: s.softmax(-1) * K} | nonsense()),
    "claim_choice": Claim(
        5, 2, "Of the scores 0.78, 0.80 and less one word is chosen, and the choice can be "
        "learned: it has a gradient.", right={
            "ours, β = 200": lambda m: (200 * m).softmax(-1),
            "β = 300": lambda m: (300 * m).softmax(-1)}, wrong={
            "the page, β = 10⁸": lambda m: (1e8 * m).softmax(-1), "an arg-max": arg_max,
            "plain attention, β = 1": lambda m: m.softmax(-1),
            "the scores": lambda m: m * 1.0} | nonsense()),
    "claim_coverage": Claim(
        6, 2, "What is left falls by each reading, the more the larger its weight, whatever the "
        "score; not read, it stays; read in full φ times, it is spent.", right={
            "ours": lambda c, m, weight, phi: c - weight / phi,
            "never below 0": lambda c, m, weight, phi: max(0.0, c - weight / phi)}, wrong={
            "the page, c times the score": lambda c, m, weight, phi: c - c * m / phi,
            "the score": lambda c, m, weight, phi: c - m / phi,
            "not divided by φ": lambda c, m, weight, phi: c - weight,
            "a fixed part": lambda c, *others: c - 0.5, "c as it was": lambda c, *others: c,
            "zeros": lambda *x: 0.0, "ones": lambda *x: 1.0,
            "noise": lambda *x: torch.rand(()).item()}),
}
