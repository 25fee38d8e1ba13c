"""Arguments on which the functions of exercises.txt are tried: drawn in float64 out of a seed.

    CASES[function]         case -> function of a Draw, which returns the arguments
    cases_of(function, exercise)            with what one exercise adds

An example is small enough to be computed by hand; other sizes are mostly distinct primes, so that
no axis is taken for another one.
"""
import math
import sys
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import bert_min  # noqa: E402
import priors  # noqa: E402
import reread  # noqa: E402
import semmatch  # noqa: E402
from support.parses import Parse, split_words  # noqa: E402

B, H, K, L, A, N, M, E, T, R, C = 3, 2, 5, 7, 11, 13, 17, 4, 6, 8, 19
D = H * K
LETTERS = {B: "B", H: "H", K: "k", L: "L", A: "A", N: "n", M: "m", E: "E", T: "T", C: "C", D: "d",
           1: "1"}


class Draw:
    """Arguments out of a seed: the same ones each time, in float64."""

    def __init__(self, seed=0):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape, scale=1.0):
        numbers = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return (numbers * scale).requires_grad_()

    def positive(self, *shape):
        return self.normal(*shape).detach().abs().add(0.1).requires_grad_()

    def integer(self, high, *shape):
        return torch.randint(high, shape, generator=self.generator)

    def fill(self, module):
        """The module in float64 with weights large enough for each of them to matter."""
        for parameter in module.double().eval().parameters():
            parameter.data = self.normal(*parameter.shape, scale=0.7).detach()
        return module

    def linear(self, n_in, n_out, bias=True):
        return self.fill(nn.Linear(n_in, n_out, bias))

    def full(self, size=L):
        return torch.ones(B, size, dtype=torch.bool)

    def padded(self, size=L):
        """All real, half real, nothing real."""
        return torch.arange(size) < torch.tensor([size, size // 2, 0])[:, None]

    def heads(self, scale=1.0):
        """q, k, v."""
        return [self.normal(B, H, L, K, scale=size) for size in (scale, scale, 1.0)]

    def states(self, size=L):
        """(B, size, d)."""
        return self.normal(B, size, D)

    def signals(self):
        """Two of (B, L, d)."""
        return [self.states(), self.states()]

    def config(self, **changes):
        return bert_min.BertConfig(vocab_size=29, hidden_size=D, num_layers=1, num_heads=H,
                                   intermediate_size=A, max_length=N, **changes)

    def attention(self, name, **options):
        """A layer's attention of semmatch."""
        method = getattr(semmatch, name)
        return self.fill(method(self.config(), attention_size=A, **options))

    def gamma(self):
        """A KnowledgeAttention with a γ that is not 1, which a product would hide."""
        return self.attention("KnowledgeAttention", gamma=2.5)

    def attend(self, mask, trace=None):
        """Arguments of SelfAttention.attend."""
        attention = self.fill(bert_min.SelfAttention(self.config()))
        return [attention, None, *self.heads(), mask, None, trace]

    def embeddings(self, **changes):
        """Arguments of Embeddings.forward."""
        embeddings = self.fill(bert_min.Embeddings(self.config(**changes)))
        return [embeddings, self.integer(29, B, L), self.integer(2, B, L)]

    def fusion(self, name, mask, trace=None):
        """The layer, two signals, mask, trace: arguments of `fuse`."""
        return [self.attention(name), *self.signals(), mask, trace]

    def tokens(self):
        """word_index, segment (B, L): a word in two pieces, padding; the last pair has no word."""
        word = torch.tensor([[-1, 0, 1, -1, 0, 2, -1], [-1, 4, 4, -1, 7, -1, -1], [-1] * L])
        return [word, torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0], [0] * L])]

    def cross(self):
        """G (B, L, L): 0 or 2.5 for words of different sentences, -inf elsewhere."""
        related = 2.5 * self.integer(2, B, N, M).double()
        return semmatch.spread_prior(related, *self.tokens(), float("-inf"))

    def symmetric(self):
        """Scores (B, L, L) of tokens that are words of different sentences, -inf elsewhere."""
        scores = self.normal(B, L, L).detach()
        return (scores + scores.transpose(1, 2) + self.cross()).requires_grad_()

    def parse(self, words, relations=("nsubj", "obj", "det")):
        """A sentence under a drawn tree."""
        text = " ".join(words)
        heads = [int(self.integer(i + 1)) for i in range(len(words))]
        types = tuple(relations[int(i)] for i in self.integer(len(relations), len(words)))
        tags, heads = ("X",) * len(words), torch.tensor(heads).numpy()
        return Parse(text, split_words(text), tags, heads, types)

    def parses(self):
        """A sentence of n words and one of m, of few, so that many agree; some are capitals."""
        return [self.parse(["aAbBcC"[int(i)] for i in self.integer(6, size)]) for size in (N, M)]

    def of_one_relation(self):
        return [self.parse("abcabcabcabca", ["x"]), self.parse("aabbccaabbccaabbc", ["x"])]


def apple(x):
    """The paper's pair without its article: "Apple exceeded company", "company exceeded Apple"."""
    texts = ["Apple exceeded company", "company exceeded Apple"]
    heads = torch.tensor([2, 0, 2]).numpy()
    types = "nsubj", "root", "obj"
    return [Parse(text, split_words(text), ("X",) * 3, heads, types) for text in texts]


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=dtype.is_floating_point)


def reading(x, mask, guide=True):
    choice = x.fill(reread.Choice(D, K, A, M if guide else None))
    gru = nn.GRUCell(D, K)
    return [x.states(N), mask, x.normal(B, K), x.normal(B, M), choice, x.fill(gru), T, 3.0]


def readings(x, mask):
    choices = [x.fill(reread.Choice(D, D, A, D, r > 0)) for r in range(E)]
    return [[x.states(N) for _ in range(E)], mask, x.normal(B, D), nn.ModuleList(choices),
            x.linear(D, A, bias=False), x.linear(A, 1, bias=False), x.linear(D, 1, bias=False),
            x.fill(nn.GRUCell(D, D)), T, 3.0]


def phrases(x, kernel, mask=Draw.full):
    first, second = nn.Conv1d(D, A, kernel), nn.Conv1d(A, D, kernel)
    return [x.states(N), mask(x, N), x.fill(first), x.fill(second)]


def coverages(x):
    """c, weights, φ, mask: the first row is spent, the last one too but for its padding."""
    left, read = x.normal(B, N).detach().abs() + 1, torch.full((B, N), 0.5, dtype=torch.float64)
    left[0], left[2, :4] = 0.5, 0.5
    mask = torch.arange(N) < torch.tensor([N, 8, 4])[:, None]
    return [left.requires_grad_(), read.requires_grad_(), tensor([[1.0] * N] * B), mask]


def masked(draw, *size):
    """Cases with and without padding. draw: of a Draw and a mask."""
    return {"values": lambda x: draw(x, x.full(*size)), "padding": lambda x: draw(x, x.padded(*size))}


CASES = {
    "bert_min.attention_weights": {
        "example": lambda x: [tensor([[0.0, 0.0, 5.0], [1.0, 2.0, 3.0]]),
                              tensor([[1, 1, 0], [0, 0, 0]], torch.bool)],
        "values": lambda x: [x.normal(B, H, L, L), x.full()],
        "padding": lambda x: [x.normal(B, H, L, L), x.padded()],
        "large scores": lambda x: [x.normal(B, H, L, L, scale=1e5) - 1e5, x.padded()],
        "a mask for each query": lambda x: [x.normal(B, L, N), x.integer(2, B, L, N).bool()]},
    "bert_min.SelfAttention.attend": {
        **masked(Draw.attend), "trace": lambda x: x.attend(x.padded(), {})},
    "bert_min.split_heads": {
        "example": lambda x: [tensor([[[1, 2, 3, 4], [5, 6, 7, 8]]], torch.int64), 2],
        "values": lambda x: [x.states(), H]},
    "bert_min.merge_heads": {
        "example": lambda x: [tensor([[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]], torch.int64)],
        "values": lambda x: [x.normal(B, H, L, K)]},
    "bert_min.Layer.forward": masked(lambda x, mask: [
        x.fill(bert_min.Layer(x.config(), bert_min.SelfAttention(x.config()))), x.states(), mask]),
    "bert_min.Embeddings.forward": {
        "values": lambda x: x.embeddings(),
        "RoBERTa": lambda x: x.embeddings(segments=1, position_offset=2)},
    "semmatch.guided_attention": masked(lambda x, mask: [
        *x.signals(), mask, x.linear(D, A, bias=False), x.linear(D, A),
        x.linear(A, 1, bias=False)]),
    "semmatch.gated_fusion": {
        "values": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D),
                             x.linear(2 * D, 1, bias=False)],
        "without W_g": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D), None]},
    "semmatch.filtration_gate": {
        "values": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D),
                             x.linear(2 * D, 1, bias=False)],
        "without W_v": lambda x: [*x.signals(), None, x.linear(D, D), x.linear(2 * D, 1)],
        "without W_f": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D)]},
    "semmatch.calibrated_attention": {
        **masked(lambda x, mask: [*x.heads(), x.normal(B, L, L), mask]),
        "trace": lambda x: [*x.heads(), x.normal(B, L, L), x.padded(), 0.0, False, {}]},
    "semmatch.difference_scores": {
        "example": lambda x: [tensor([[[[1.0, 2.0], [0.0, 0.0]]]]),
                              tensor([[[[3.0, 1.0], [1.0, 2.0]]]])],
        "values": lambda x: [*x.heads()[:2]]},
    "semmatch.difference_attention": {
        **masked(lambda x, mask: [*x.heads(), mask]),
        "large scores": lambda x: [*x.heads(scale=1e5), x.padded()],
        "trace": lambda x: [*x.heads(), x.padded(), 0.0, frozenset(), {}]},
    "priors.tree_similarity": {"example": apple, "values": lambda x: x.parses()},
    "priors.subgraph_similarity": {
        "example": apple,
        "values": lambda x: x.of_one_relation(), "other relations": lambda x: x.parses(),
        "other α, ν": lambda x: [*x.of_one_relation(), 3.0, 0.3]},
    "priors.TfIdf.weights": {
        "values": lambda x: [priors.TfIdf([["a", "b"], ["A", "c"], ["a"]]),
                             ["A", "b", "zebra", "a", "c"]],
        "drawn": lambda x: [priors.TfIdf([["abcd"[i] for i in x.integer(4, 5)]
                                          for _ in range(3)]), ["D", "b", "zebra", "d", "a"]],
        "no words": lambda x: [priors.TfIdf([["a", "b"]]), []]},
    "priors.dependency_matrix": {
        "example": lambda x: [*apple(x), *torch.ones(2, 3).double().numpy()],
        "values": lambda x: [*x.parses(), *(x.positive(size).detach().numpy() for size in (N, M))]},
    "semmatch.spread_prior": {
        "values": lambda x: [x.normal(B, N, M), *x.tokens(), 0.5],
        "no words": lambda x: [x.normal(B, 0, M), torch.full((B, L), -1), x.tokens()[1], 0.5]},
    "semmatch.DafaAttention.spread": {
        "values": lambda x: [x.attention("DafaAttention"), x.positive(B, N, M), *x.tokens()],
        "zero prior": lambda x: [x.attention("DafaAttention"), torch.zeros(B, N, M).double(),
                                 *x.tokens()]},
    "semmatch.relation_indicator": {
        "example": lambda x: [tensor([[[[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]]], torch.bool)],
        "values": lambda x: [x.integer(8, B, N, M, R) == 0]},
    "semmatch.knowledge_scores": {
        "example": lambda x: [tensor([[[1.0, 1, 1, 1], [2, 0, 0, 0]]]),
                              tensor([[[-math.inf, 1], [1, -math.inf]]])],
        "values": lambda x: [x.states(), x.cross()]},
    "semmatch.co_attention": {"values": lambda x: [x.states(), x.symmetric()]},
    "semmatch.KnowledgeAttention.spread": {
        "values": lambda x: [x.gamma(), x.integer(8, B, N, M, R) == 0, *x.tokens()]},
    "semmatch.KnowledgeAttention.second": {
        name: lambda x, trace=trace: [
           x.gamma(), x.states(), *x.heads(), x.full(), x.cross(), 0.0, {} if trace else None]
        for name, trace in (("values", False), ("trace", True))},
    "train.l2_ratio": {
        "middle": lambda x: [50_000], "values": lambda x: [int(x.integer(40)), 100, 4.0],
        "far": lambda x: [10 ** 9, 100, 4.0]},
    "reread.attentive_pooling": masked(
        lambda x, mask: [x.states(N), mask, x.linear(D, A), x.linear(A, 1, bias=False)], N),
    "reread.choose": {
        name: lambda x, mask=mask, beta=beta: [x.states(N), x.normal(B, N, A), mask(x, N),
                                               x.normal(B, A), x.linear(A, 1, bias=False), beta]
        for name, mask, beta in (("values", Draw.full, 3.0), ("padding", Draw.padded, 3.0),
                                 ("large β", Draw.padded, 200.0))},
    "reread.highway": {"values": lambda x: [x.states(N), x.linear(D, D), x.linear(D, D)]},
    "reread.stacked_gru": masked(lambda x, mask: [x.states(N), mask, nn.ModuleList(
        x.fill(nn.GRU(D + l * K, K, batch_first=True)) for l in range(3))], N),
    "reread.reread": {
        **masked(reading, N), "without guide": lambda x: reading(x, x.full(N), guide=False)},
    "reread.matching": {
        "example": lambda x: [tensor([[1.0, 2.0]]), tensor([[3.0, 5.0]])],
        "values": lambda x: [x.normal(B, D), x.normal(B, D)]},
    "reread.probability_fusion": {
        name: lambda x, p=p, q=q: [x.normal(B, C) if p else None, x.normal(B, C) if q else None,
                                   x.linear(C, 1), x.linear(C, 1), x.linear(C, C)]
        for name, p, q in (("values", 1, 1), ("only p_h", 1, 0), ("only p_v", 0, 1))},
    "reread.layer_mix": {"values": lambda x: [[x.states() for _ in range(E)], x.normal(E)]},
    "reread.phrase_cnn": {
        "kernel 2": lambda x: phrases(x, 2), "kernel 3": lambda x: phrases(x, 3),
        "padding": lambda x: phrases(x, 3, Draw.padded)},
    "reread.read_limit": {
        "values": lambda x: [x.states(N), x.linear(D, 1, bias=False), T],
        "one step": lambda x: [x.states(N), x.linear(D, 1, bias=False), 1]},
    "reread.coverage": {
        "values": lambda x: [x.normal(B, N), x.normal(B, N), x.positive(B, N), x.full(N)],
        "all spent": coverages},
    "reread.dynamic_sequential_attention": masked(readings, N),
}
for name in ("DabertAttention", "DafaAttention", "KnowledgeAttention"):
    CASES[f"semmatch.{name}.fuse"] = {
        **masked(lambda x, mask, name=name: x.fusion(name, mask)),
        "trace": lambda x, name=name: x.fusion(name, x.padded(), {})}
MORE = {                # what one exercise tries beside or instead
    ("semmatch.gated_fusion", "knowledge"): {
        "values": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D), x.linear(2 * D, 1)]},
    ("reread.choose", "ladranet"): {
        "coverage": lambda x: [*CASES["reread.choose"]["padding"](x), x.normal(B, N)]}}


def cases_of(function, exercise):
    return CASES.get(function, {}) | MORE.get((function, exercise), {})
