"""The exercises: which functions a student writes, how they are tried, and the classic mistakes.

One table, EXERCISES, serves both commands: make_exercise.py blanks its functions in a copy of the
library, check.py and grade.py compare that copy with the library. No answer stands here. What is
expected is what the library returns, and a classic mistake is an edit (old text, new text) of the
library's own function. tests/test_mistakes.py plants each of them, and those of UNASKED, in the
library, and sees the test of its equation fail.

    Exercise   paper, its functions (Tasks) in the order of work, what else would give answers away
    Task       one function: equation, recipe, cases (arguments out of a seed), mistakes
    Mistake    name, advice for the student, edits that make the library's function mistaken
"""
import ast
import importlib
import inspect
import math
import re
import sys
import textwrap
from dataclasses import dataclass, replace
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
BLANK, PAGE, TITLE = "not written yet", "EXERCISE.md", "# Exercise "
LETTERS = {B: "B", H: "H", K: "k", L: "L", A: "A", N: "n", M: "m", E: "E", T: "T", C: "C", D: "d",
           1: "1"}


@dataclass(frozen=True)
class Mistake:
    """A classic mistake: its name, what to tell the student, (old, new) edits of the function.

    printed: what the paper prints; a student may argue for it.
    """
    name: str
    advice: str
    edits: tuple
    printed: bool = False

    @classmethod
    def of(cls, name, advice, *texts, printed=False):
        """texts: old, new, old, new, ..."""
        return cls(name, advice, tuple(zip(texts[::2], texts[1::2], strict=True)), printed)


@dataclass(frozen=True)
class Task:
    """One function to write.

    equation: as the score shows it. function: "module.name" or "module.Class.name". recipe: steps,
    each behind "- ". cases: name -> function of a Draw that returns the arguments, one point each.
    mistakes: of Mistake. points: what each case is worth, 1 (a line) to 4 (a loop of many steps);
    UNASKED has none. plain: edits that come before those of a mistake, where the library has a
    shorter way besides the one the equation shows. written: edits for `solution`, where the library
    has a kernel for what the equation shows.
    """
    equation: str
    function: str
    recipe: str
    cases: dict
    mistakes: tuple
    plain: tuple = ()
    written: tuple = ()

    @property
    def points(self):
        return POINTS.get(self.function, 1)

    @property
    def module(self):
        return self.function.partition(".")[0]

    @property
    def path(self):
        """Name inside the module: ["DabertAttention", "fuse"]."""
        return self.function.split(".")[1:]

    @property
    def steps(self):
        return [" ".join(step.split()) for step in re.split(r"^\s*- ", self.recipe, flags=re.M)[1:]]

    @property
    def solution(self):
        """The library's function as a student would write it: the equation as its text intends,
        no docstring, no `printed`, no kernel."""
        text = textwrap.dedent(inspect.getsource(find(library(self.module), self.path)))
        for old, new in (*self.plain, *self.written):
            text = text.replace(old, new)
        return ast.unparse(Intended().visit(ast.parse(text)))


class Intended(ast.NodeTransformer):
    """Leaves out of a function its docstring, what only `printed` or `without` switches on, and
    what is there for half precision, for training or for speed."""

    def holds(self, test):
        """Whether a test holds where nothing is printed or left out; None: that does not decide."""
        empty = dict.fromkeys(("printed", "without", "typeset"), frozenset())
        text = re.sub(r"\bself\.(?=printed|without)|\bset(?=\()", "", ast.unparse(test))
        names = {x.id for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Name)}
        decides = text == "False" or names and names <= empty.keys()
        return bool(eval(text, empty)) if decides else None

    def visit_If(self, node):
        self.generic_visit(node)
        return {True: node.body, False: node.orelse}.get(self.holds(node.test), node) or None

    visit_IfExp = visit_If

    def visit_BoolOp(self, node):
        kept = [part for part in node.values if self.holds(part) is None]
        return kept[0] if len(kept) == 1 else node

    def visit_Call(self, node):
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if called == "F.dropout":
            return node.args[0]
        while node.args and self.holds(node.args[-1]) is False:
            node.args.pop()
        node.args = [ast.Constant(False) if self.holds(x) is False else x for x in node.args]
        return node.func.value if called.endswith(".to") else node

    def visit_With(self, node):
        self.generic_visit(node)
        return node.body

    def visit_Assign(self, node):
        self.generic_visit(node)
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            kept = [pair for pair in zip(target.elts, value.elts) if self.holds(pair[1]) is None]
            target.elts, value.elts = map(list, zip(*kept))
        return None if ast.unparse(target) in ("dropout", "wide") else node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.body = node.body[ast.get_docstring(node) is not None:]
        return node


@dataclass(frozen=True)
class Exercise:
    """paper: as the score shows it. title: paper and equations. tasks: in the order of work.
    parser: whether training the model needs assets/."""
    paper: str
    title: str
    tasks: tuple
    parser: bool = False


def find(module, path):
    """The function that a path such as ["DabertAttention", "fuse"] names in a module."""
    for name in path:
        module = getattr(module, name)
    return module


def library(name):
    return importlib.import_module(name)


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

    def layer(self):
        config = self.config()
        return self.fill(bert_min.Layer(config, bert_min.SelfAttention(config)))

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

    def weights(self, size):
        """(size,) numpy, above 0."""
        return self.normal(size).detach().abs().numpy()


def apple(x):
    """The paper's pair without its article: "Apple exceeded company", "company exceeded Apple"."""
    texts = ["Apple exceeded company", "company exceeded Apple"]
    heads = torch.tensor([2, 0, 2]).numpy()
    types = "nsubj", "root", "obj"
    return [Parse(text, split_words(text), ("X",) * 3, heads, types) for text in texts]


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=dtype.is_floating_point)


# ---- Advice that several functions share --------------------------------------------------------

AXIS = "softmax over the wrong axis"
ROWS = "For each query the weights over all keys sum to 1: the softmax runs over the last axis."
ROOT_K = "dropped √d"
MASK = "mask left out"
NO_MASK = "Padding gets weight. Give the mask to attention_weights."
TRANSPOSED = "queries and keys exchanged"
TANH = "tanh left out"
ORDER = "concatenated in the other order"
WEIGHTS = "attention_weights(scores, mask)"


def softmax_of(call, mask, axis):
    """An edit of a call of attention_weights: softmax over another axis. mask: as it broadcasts."""
    scores = call.removeprefix("attention_weights(").rpartition(", mask")[0]
    return call, f"({scores}).masked_fill(~{mask}, -1e30).softmax({axis})"


# ---- BERT ---------------------------------------------------------------------------------------

ATTENTION_WEIGHTS = Task(
    "Eq. 1, softmax", "bert_min.attention_weights", """
    - A mask (B, L) gets axes of size 1 between its two, so that it broadcasts over heads and
      queries.
    - Scores in half precision become float32 (torch.promote_types); float64 stays.
    - Fill the lowest finite number of the dtype, torch.finfo(...).min, in where the mask is False.
      Not -inf: see step 5.
    - Softmax over the keys, the last axis.
    - Fill 0 in where the mask is False: a row without any key was uniform until here.
    """,
    {"example": lambda x: [tensor([[0.0, 0.0, 5.0], [1.0, 2.0, 3.0]]),
                           tensor([[1, 1, 0], [0, 0, 0]], torch.bool)],
     "values": lambda x: [x.normal(B, H, L, L), x.full()],
     "padding": lambda x: [x.normal(B, H, L, L), x.padded()],
     "large scores": lambda x: [x.normal(B, H, L, L, scale=1e5) - 1e5, x.padded()],
     "a mask for each query": lambda x: [x.normal(B, L, N), x.integer(2, B, L, N).bool()]},
    (Mistake.of(AXIS, ROWS, ".softmax(-1)", ".softmax(-2)"),
     Mistake.of(MASK,
                "Padding gets weight. Fill the scores where the mask is False, before the "
                "softmax.",
                "scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)",
                "scores.softmax(-1)",
                "weights.masked_fill(~mask, 0.0)", "weights"),
     Mistake.of("mask upside down", "True is a real token: fill where ~mask.",
                "(~mask, torch", "(mask, torch",
                "weights.masked_fill(~mask, 0.0)", "weights"),
     Mistake.of("-inf for the mask",
                "A row without any key becomes nan. Fill in the lowest finite number, then zero.",
                "torch.finfo(scores.dtype).min", "float('-inf')",
                "weights.masked_fill(~mask, 0.0)", "weights"),
     Mistake.of("a row without a key is uniform",
                "Its weights must be exactly 0: fill 0 in after the softmax.",
                "weights.masked_fill(~mask, 0.0)", "weights"),
     Mistake.of("a small constant for the mask",
                "-10000 leaks when scores are large. Use torch.finfo(scores.dtype).min.",
                "torch.finfo(scores.dtype).min).softmax(-1)", "-1e4).softmax(-1)"),
     Mistake.of("mask after the softmax",
                "The real keys no longer sum to 1. The mask comes before the softmax too.",
                "scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)",
                "scores.softmax(-1)")))

ATTEND = Task("Eq. 1", "bert_min.SelfAttention.attend", """
    - Scores: Q Kᵀ / √k, one matrix (B, H, L, L) of queries × keys. k is the size of one head.
    - Weights: attention_weights(scores, mask).
    - record(trace, attention=weights).
    - Dropout on the weights (self.dropout, only when self.training; not checked), then weights
      V.
    - merge_heads. `hidden` and `prior` are not used here: other papers' attention gets them.
    """,
    {"values": lambda x: x.attend(x.full()), "padding": lambda x: x.attend(x.padded()),
     "trace": lambda x: x.attend(x.padded(), {})},
    (Mistake.of(ROOT_K, "Divide the scores by √k.", " / math.sqrt(q.shape[-1])", ""),
     Mistake.of("divided by k", "Divide by the root of k.",
                "math.sqrt(q.shape[-1])", "q.shape[-1]"),
     Mistake.of("√ of the whole width",
                "k is the size of one head, not of all of them together.",
                "math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * self.heads)"),
     Mistake.of(AXIS, ROWS, *softmax_of(WEIGHTS, "mask[:, None, None]", 2)),
     Mistake.of(MASK, NO_MASK, WEIGHTS, "scores.softmax(-1)"),
     Mistake.of(TRANSPOSED, "Row i of the scores is query i: Q Kᵀ, not K Qᵀ.",
                "q @ k.transpose(-1, -2)", "k @ q.transpose(-1, -2)"),
     Mistake.of("heads merged without exchanging axes", "Use merge_heads.",
                "merge_heads(mixed)", "mixed.reshape(len(mixed), mixed.shape[2], -1)")),
    plain=(("if trace is None:", "if False:"),))

BERT = (
    Task("heads", "bert_min.split_heads", """
         - Cut the last axis d into H pieces of k = d / H: (B, L, H, k).
         - Exchange the axes of tokens and heads: (B, H, L, k).
         """,
         {"example": lambda x: [tensor([[[1, 2, 3, 4], [5, 6, 7, 8]]], torch.int64), 2],
          "values": lambda x: [x.states(), H]},
         (Mistake.of("reshaped without exchanging axes",
                     "Each head must get a piece of every token; a plain reshape to (B, H, L, k) "
                     "cuts the tokens apart. Cut d first, then exchange axes.",
                     "x.unflatten(-1, (heads, -1)).transpose(1, 2)",
                     "x.reshape(len(x), heads, x.shape[1], -1)"),
          Mistake.of("d cut as k × H",
                     "A head is k neighbours in d, not every H-th number: d = H k.",
                     "x.unflatten(-1, (heads, -1)).transpose(1, 2)",
                     "x.unflatten(-1, (-1, heads)).movedim(3, 1)"))),
    Task("heads", "bert_min.merge_heads", """
         - Exchange the axes of heads and tokens back: (B, L, H, k).
         - Join the last two: (B, L, d).
         """,
         {"example": lambda x: [tensor([[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]], torch.int64)],
          "values": lambda x: [x.normal(B, H, L, K)]},
         (Mistake.of("reshaped without exchanging axes",
                     "A token's heads must stand side by side: exchange the axes of heads and "
                     "tokens first.",
                     "x.transpose(1, 2).flatten(2)", "x.reshape(len(x), x.shape[2], -1)"),
          Mistake.of("d joined as k × H", "Heads come one after the other: d = H k.",
                     "x.transpose(1, 2).flatten(2)", "x.permute(0, 2, 3, 1).flatten(2)"))),
    ATTENTION_WEIGHTS,
    ATTEND,
    Task("layer", "bert_min.Layer.forward", """
         - self.attention(hidden, mask, prior, trace), then the linear map self.attention_output.
         - Dropout, add `hidden` (the residual), then self.attention_norm: post-norm, the norm of
           the sum.
         - self.intermediate, self.activation: (B, L, f).
         - self.output, dropout, add what step 2 gave, self.output_norm.
         """,
         {"values": lambda x: [x.layer(), x.states(), x.full()],
          "padding": lambda x: [x.layer(), x.states(), x.padded()]},
         (Mistake.of("first residual left out",
                     "Add `hidden` to the attention's output before the norm.",
                     "hidden + self.dropout(mixed)", "self.dropout(mixed)"),
          Mistake.of("second residual left out",
                     "Add step 2's result to self.output's before the norm.",
                     "hidden + self.dropout(self.output(inner))",
                     "self.dropout(self.output(inner))"),
          Mistake.of("pre-norm",
                     "BERT normalises sums, not what enters attention or the linear maps.",
                     "self.attention(hidden, mask",
                     "self.attention(self.attention_norm(hidden), mask",
                     "self.attention_norm(hidden + self.dropout(mixed))",
                     "hidden + self.dropout(mixed)",
                     "self.intermediate(hidden)", "self.intermediate(self.output_norm(hidden))",
                     "self.output_norm(hidden + self.dropout(self.output(inner)))",
                     "hidden + self.dropout(self.output(inner))"),
          Mistake.of("norm before the sum",
                     "The norm is around the sum: norm(hidden + output), not hidden + "
                     "norm(output).",
                     "self.attention_norm(hidden + self.dropout(mixed))",
                     "hidden + self.attention_norm(mixed)",
                     "self.output_norm(hidden + self.dropout(self.output(inner)))",
                     "hidden + self.output_norm(self.output(inner))"),
          Mistake.of("activation left out",
                     "Two linear maps in a row are one. self.activation stands between them.",
                     "self.activation(self.intermediate(hidden))", "self.intermediate(hidden)"))),
    Task("embeddings", "bert_min.Embeddings.forward", """
         - Each token's row of self.word.
         - The rows of self.position for places 0, 1, ..., L - 1; RoBERTa never uses the first
           self.offset rows.
         - The rows of self.segment; RoBERTa has one row only (self.segments == 1), which all tokens
           share.
         - Add the three, then self.norm, then self.dropout.
         """,
         {"values": lambda x: x.embeddings(),
          "RoBERTa": lambda x: x.embeddings(segments=1, position_offset=2)},
         (Mistake.of("norm left out", "self.norm comes after the sum.",
                     "self.norm(hidden)", "hidden"),
          Mistake.of("position left out", "Without positions the encoder sees a bag of words.",
                     " + position", ""),
          Mistake.of("segment left out",
                     "Without segments the encoder cannot tell the sentences apart.",
                     " + self.segment(segment)", ""),
          Mistake.of("position's offset left out", "Place 0 has row self.offset of the table.",
                     "[self.offset:self.offset + input_ids.shape[1]]", "[:input_ids.shape[1]]"),
          Mistake.of("multiplied by √d",
                     "Vaswani et al. multiply embeddings by √d; BERT does not.",
                     "self.word(input_ids)",
                     "self.word(input_ids) * self.word.weight.shape[1] ** 0.5"))))



# ---- What the fusion papers share ---------------------------------------------------------------

SUM = "additive_scores(keys.to(wide), queries.to(wide), w.weight[0].to(wide))"
GUIDED = Task(
    "", "semmatch.guided_attention", """
    - A key for every value, W_values of it, and a query for every guide, W_guide of it: (B, L, A)
      each.
    - Add each query to each key, then tanh: (B, L, L, A). Axis 1 is the guide's i, axis 2 the
      value's j. Guide and value must meet inside tanh: as typeset, with ⊕, the guide cancels in the
      softmax.
    - w turns each of these vectors into one number: the scores (B, L, L).
    - attention_weights(scores, mask): for each guide i, over the keys j.
    - The weighted sum of the values for each guide; return it and the weights.
    """,
    {name: lambda x, mask=mask: [*x.signals(), mask(x), x.linear(D, A, bias=False),
                                 x.linear(D, A), x.linear(A, 1, bias=False)]
     for name, mask in (("values", Draw.full), ("padding", Draw.padded))},
    (Mistake.of("concatenated guide",
                "The guide has no influence: all rows of weights are equal, because what it adds "
                "is the same for every key and cancels in the softmax, as in the typeset "
                "equation. Take tanh of the sum of key and query.",
                SUM, "w(keys.tanh()).transpose(1, 2) + w(queries.tanh())", printed=True),
     Mistake.of(TANH,
                "Without tanh the score is a sum of two parts, and the guide's part cancels in "
                "the softmax.",
                SUM, "w(keys[:, None] + queries[:, :, None])[..., 0]"),
     Mistake.of("guide and value exchanged",
                "Row i of the scores belongs to guide i, column j to value j; yours are "
                "transposed.",
                SUM, "additive_scores(queries, keys, w.weight[0])"),
     Mistake.of(AXIS, ROWS, *softmax_of(WEIGHTS, "mask[:, None]", 1)),
     Mistake.of(MASK, NO_MASK, WEIGHTS, "scores.softmax(-1)"),
     Mistake.of("guides mixed instead of values",
                "The weights mix the values; the guide only says which.",
                "@ values, weights", "@ guide, weights")),
    written=((SUM, "w((keys[:, None] + queries[:, :, None]).tanh())[..., 0]"),))

GATED = Task(
    "", "semmatch.gated_fusion", """
    - d̂ = tanh of W_other of the other signal, ŝ = tanh of W_sem of the semantic one: (B, L, d)
      each.
    - The gate g = σ(W_g (d̂ ⊕ ŝ)), one number for each token: (B, L, 1). ⊕ is concatenation along
      the last axis.
    - Without W_g (None) the gate is one half, still a tensor (B, L, 1) in the signals' dtype.
    - v = g ŝ + (1 - g) d̂. Return v and g.
    """,
    {"values": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D),
                          x.linear(2 * D, 1, bias=False)],
     "without W_g": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D), None]},
    (Mistake.of("g and 1 - g exchanged", "g belongs to ŝ, 1 - g to d̂.",
                "g * s_hat + (1 - g) * d_hat", "g * d_hat + (1 - g) * s_hat"),
     Mistake.of(ORDER, "The gate sees d̂ first, then ŝ.", "[d_hat, s_hat]", "[s_hat, d_hat]"),
     Mistake.of("gate of the raw signals",
                "The gate sees d̂ and ŝ, after their linear maps and tanh.",
                "[d_hat, s_hat]", "[other, sem]"),
     Mistake.of(TANH, "d̂ and ŝ are tanh of the linear maps.",
                "W_other(other).tanh(), W_sem(sem).tanh()", "W_other(other), W_sem(sem)"),
     Mistake.of("σ left out", "A gate lies in (0, 1): the sigmoid of W_g's number.",
                ".sigmoid()", "")))

FILTER = Task(
    "", "semmatch.filtration_gate", """
    - What the gate sees of v: W_v of it; v itself where W_v is None.
    - f = σ(W_f (s ⊕ that)), one number for each token: (B, L, 1). Without W_f (None) the gate is
      one, a tensor of this shape in v's dtype.
    - l = f tanh(W_l v): W_l takes v, not W_v's output.
    - Return s + l, the fused signal beside the original one, and f.
    """,
    {"values": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D),
                          x.linear(2 * D, 1, bias=False)],
     "without W_v": lambda x: [*x.signals(), None, x.linear(D, D), x.linear(2 * D, 1)],
     "without W_f": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D)]},
    (Mistake.of("replaced instead of added",
                "l alone is the page: a closed gate then erases what"
                " attention found. Return s + l.",
                "(l if typeset else sem + l)", "l", printed=True),
     Mistake.of(ORDER, "The gate sees s first, then W_v v.", "[sem, of_v]", "[of_v, sem]"),
     Mistake.of("gate sees v itself", "The gate sees W_v v.", "v if W_v is None else W_v(v)", "v"),
     Mistake.of("W_l of W_v v", "W_l takes v; W_v is for the gate alone.", "W_l(v)", "W_l(of_v)"),
     Mistake.of(TANH, "l = f tanh(W_l v).", "W_l(v).tanh()", "W_l(v)"),
     Mistake.of("gate inside tanh", "f multiplies tanh(W_l v) from outside.",
                "f * W_l(v).tanh()", "(f * W_l(v)).tanh()"),
     Mistake.of("σ left out", "A gate lies in (0, 1): the sigmoid of W_f's number.",
                ".sigmoid()", "")))

CALIBRATED_SCORES = "scores * prior[:, None] if typeset else scores + prior[:, None]"
CALIBRATED = Task(
    "", "semmatch.calibrated_attention", """
    - Scores: Q Kᵀ / √d_k, (B, H, L, L).
    - Add the prior, which is ln M̃ already, the same for all heads. Adding a logarithm here
      multiplies the weight by M̃.
    - attention_weights(scores, mask).
    - record(trace, calibrated=weights). Dropout on the weights (not checked), then weights V.
    """,
    {"values": lambda x: [*x.heads(), x.normal(B, L, L), x.full()],
     "padding": lambda x: [*x.heads(), x.normal(B, L, L), x.padded()],
     "trace": lambda x: [*x.heads(), x.normal(B, L, L), x.padded(), 0.0, False, {}]},
    (Mistake.of("scores multiplied by the prior",
                "As typeset a high prior makes a negative score lower. The prior is a logarithm: "
                "add it to the scores.",
                CALIBRATED_SCORES, "scores * prior[:, None]", printed=True),
     Mistake.of("mask before the product",
                "The mask's large negative number is multiplied by the prior, where that is 0 or "
                "negative padding gets weight. Complete the scores first, and add the prior "
                "instead of multiplying.",
                CALIBRATED_SCORES,
                "scores.masked_fill(~mask[:, None, None], -1e4) * prior[:, None]",
                WEIGHTS, "scores.softmax(-1)"),
     Mistake.of(ROOT_K, "Divide Q Kᵀ by √d_k.", " / q.shape[-1] ** 0.5", ""),
     Mistake.of("prior divided by √d",
                "Only Q Kᵀ is divided by √d_k; the prior is added to the result.",
                CALIBRATED_SCORES, "scores + prior[:, None] / q.shape[-1] ** 0.5"),
     Mistake.of("transposed prior", "Entry (i, j) of the prior belongs to query i and key j.",
                CALIBRATED_SCORES, "scores + prior.transpose(1, 2)[:, None]"),
     Mistake.of("prior after the softmax",
                "The rows no longer sum to 1. Add the prior to the scores, before the softmax.",
                CALIBRATED_SCORES, "scores",
                WEIGHTS, WEIGHTS + " * prior.exp()[:, None]"),
     Mistake.of("prior left out", "This is plain attention: add the prior to the scores.",
                CALIBRATED_SCORES, "scores"),
     Mistake.of(AXIS, ROWS, *softmax_of(WEIGHTS, "mask[:, None, None]", 2)),
     Mistake.of(MASK, NO_MASK, WEIGHTS, "scores.softmax(-1)")),
    plain=(("if not typeset and trace is None:", "if False:"),))


def fuse(name, equation, second, first_letters, recipe, mistakes=()):
    """The `fuse` of a fusion paper. second: (guide of the second guided attention, what mistakes it
    for). first_letters: what goes into the gated fusion, and the signal that the filtration gate
    adds to."""
    joined, plain = first_letters
    return Task(equation, f"semmatch.{name}.fuse", recipe,
                {"values": lambda x: x.fusion(name, x.full()),
                 "padding": lambda x: x.fusion(name, x.padded()),
                 "trace": lambda x: x.fusion(name, x.padded(), {})},
                (*mistakes,
                 Mistake.of("second guide is the raw signal",
                            "The second guided attention is guided by what the first one "
                            "returned, not by the signal before it.",
                            *second),
                 Mistake.of("signals exchanged in the fusion",
                            "gated_fusion takes the semantic (affinity) signal first.",
                            f"gated_fusion({joined}",
                            f"gated_fusion({', '.join(reversed(joined.split(', ')))}"),
                 Mistake.of("guided signal into the filtration gate",
                            "The filtration gate adds to the signal as it came in, before guided "
                            "attention.",
                            f"filtration_gate({plain},",
                            f"filtration_gate({joined.split(', ')[0]},")))


# ---- DABERT -------------------------------------------------------------------------------------

L1 = "scores.unflatten(0, q.shape[:2])"
BETA = "attention_weights(beta / q.shape[-1] ** 0.5, mask)"
DABERT = (
    Task("Eq. 4", "semmatch.difference_scores", """
         - The difference of every query i and every key j in each head: (B, H, L, L, k).
         - Its absolute value: without it the sum is ΣQ_i - ΣK_j, and ΣQ_i cancels in the softmax.
         - Sum over k: (B, H, L, L). Row i is query i's.
         """,
         {"example": lambda x: [tensor([[[[1.0, 2.0], [0.0, 0.0]]]]),
                                tensor([[[[3.0, 1.0], [1.0, 2.0]]]])],
          "values": lambda x: [*x.heads()[:2]]},
         (Mistake.of("abs left out",
                     "As typeset: ΣQ_i - ΣK_j. Every query then gets the same row of weights. "
                     "Take the absolute value of each difference before the sum.",
                     L1, "q.sum(-1)[..., :, None] - k.sum(-1)[..., None, :]", printed=True),
          Mistake.of("abs after the sum", "The bars are around each Q_ik - K_jk, inside the sum.",
                     L1, "(q.sum(-1)[..., :, None] - k.sum(-1)[..., None, :]).abs()"),
          Mistake.of("squares instead of abs", "The norm is L1: absolute values, no squares.",
                     L1, "(q[..., :, None, :] - k[..., None, :, :]).square().sum(-1)"),
          Mistake.of("Euclidean distance",
                     "The norm is L1: a sum of absolute values, no root of squares.",
                     L1, "(q[..., :, None, :] - k[..., None, :, :]).norm(dim=-1)"),
          Mistake.of("mean instead of sum", "Eq. (4) is a sum over k; √d_k comes in Eq. (2).",
                     L1,
                     L1 +
                     " / q.shape[-1]"),
          Mistake.of(TRANSPOSED, "Row i is query i, column j is key j; yours are exchanged.",
                     L1, L1 + ".transpose(2, 3)")),
         written=(("scores = l1_distances(q.flatten(0, 1), k.flatten(0, 1))", ""),
                  (L1, "(q[:, :, :, None] - k[:, :, None]).abs().sum(-1)"))),
    Task("Eqs. 2, 3", "semmatch.difference_attention", """
         - β: difference_scores(q, k).
         - Divide by √d_k, the size of one head. Only then is the score complete.
         - attention_weights of it under the mask: the larger the difference, the larger the weight.
         - record(trace, difference=weights). Dropout on the weights (not checked), then weights V.
         """,
         {"values": lambda x: [*x.heads(), x.full()],
          "padding": lambda x: [*x.heads(), x.padded()],
          "large scores": lambda x: [*x.heads(scale=1e5), x.padded()],
          "trace": lambda x: [*x.heads(), x.padded(), 0.0, frozenset(), {}]},
         (Mistake.of(ROOT_K, "β is divided by √d_k before the softmax.",
                     "4 in printed)", "4 in printed) * q.shape[-1] ** 0.5"),
          Mistake.of("divided by d", "Divide by the root of d_k.",
                     "4 in printed)", "4 in printed) / q.shape[-1] ** 0.5"),
          Mistake.of("mask before the scaling",
                     "As typeset: the mask is added as a finite number, and divided by √d_k. It "
                     "leaks where scores are large, and a row without a key attends everywhere. "
                     "Use attention_weights on the complete score.",
                     BETA,
                     "((beta + torch.where(mask, 0.0, -1e4)[:, None, None]) / q.shape[-1] ** "
                     "0.5).softmax(-1)", printed=True),
          Mistake.of("-inf for the mask",
                     "A row without any key becomes nan. Use attention_weights.",
                     BETA,
                     "(beta / q.shape[-1] ** 0.5).masked_fill(~mask[:, None, None], "
                     "float('-inf')).softmax(-1)"),
          Mistake.of("mask on queries", "The mask says which keys are real: axis 3, not axis 2.",
                     BETA,
                     "(beta / q.shape[-1] ** 0.5).masked_fill(~mask[:, None, :, None], "
                     "-1e30).softmax(-1)"),
          Mistake.of("closeness instead of difference",
                     "The sign is turned: what differs gets *more* weight here.",
                     "beta = diff", "beta = -diff"),
          Mistake.of(AXIS, ROWS, *softmax_of(BETA, "mask[:, None, None]", 2)),
          Mistake.of(MASK, NO_MASK, BETA, "(beta / q.shape[-1] ** 0.5).softmax(-1)"))),
    replace(GUIDED, equation="Eq. 5"), replace(GATED, equation="Eq. 6"),
    replace(FILTER, equation="Eq. 7"),
    fuse("DabertAttention", "Eqs. 5-7", ("guided_attention(a, d_bar,", "guided_attention(a, d,"),
         ("a_star, d_star", "a"), """
         - d̄: guided_attention over the values d, guided by a, with W_D, W_a, w_d; its weights are
           the trace's affinity_guided.
         - ā: guided_attention over the values a, guided by d̄ (not by d*), with W_A, W_dbar,
           w_abar; their weights are difference_guided.
         - d* = tanh(W_dstar [d; d̄]), a* = tanh(W_astar [a; ā]): the last two lines of Eq. (5).
         - gated_fusion of a* and d*, with W_ahat, W_dhat, W_g: v and g.
         - filtration_gate of a and v, with W_v, W_l, W_f: the result and f. record(trace, ...) of
           both weights, g and f.
         """,
         (Mistake.of("last two lines of Eq. (5) left out",
                     "d* is not d̄: join [d; d̄], a linear map, tanh; a* likewise.",
                     "self.W_dstar(torch.cat([d, d_bar], -1)).tanh()", "d_bar",
                     "self.W_astar(torch.cat([a, a_bar], -1)).tanh()", "a_bar"),
          Mistake.of(ORDER, "[d; d̄] and [a; ā]: the signal first, then its guided form.",
                     "[d, d_bar]", "[d_bar, d]",
                     "[a, a_bar]", "[a_bar, a]"),
          Mistake.of(TANH, "d* and a* are tanh of the linear maps.",
                     "(torch.cat([d, d_bar], -1)).tanh()", "(torch.cat([d, d_bar], -1))",
                     "(torch.cat([a, a_bar], -1)).tanh()", "(torch.cat([a, a_bar], -1))"),
          Mistake.of("second guide is d*",
                     "In the formula the second guide is d̄, before the last two lines.",
                     "guided_attention(a, d_bar,",
                     "guided_attention(a, self.W_dstar(torch.cat([d, d_bar], -1)).tanh(),"))))


# ---- DAFA ---------------------------------------------------------------------------------------

HEADS = "same_words[a.heads[:, None], b.heads]"
DAFA = (
    Task("Eqs. 1-3", "priors.tree_similarity", """
         - s: which symbols of a equal which of b, a table (n+1, m+1). Parse.symbols are the words,
           case-folded; place 0 is ROOT, place i + 1 word i. Parse.heads count the same way: 0 is
           ROOT.
         - The words' own places of that table are s(t_i, t_j); taken at both heads, it is s(h_i,
           h_j). As numbers: numpy adds two bools as "or".
         - r: θ where the relations (Parse.types, place 0 is ROOT) are equal, else 1.
         - M = [s(h, h) + s(t, t)] · r, (n, m).
         """,
         {"example": apple, "values": lambda x: x.parses()},
         (Mistake.of("θ and 1 exchanged", "Equal relations count θ times, others once.",
                     "np.where(same_types, theta, 1.0)", "np.where(same_types, 1.0, theta)"),
          Mistake.of("sum instead of product", "r multiplies [s + s].",
                     "agreeing * np", "agreeing + np"),
          Mistake.of("heads counted from 0",
                     "Head 0 is ROOT and head i is word i - 1: take symbols, which have ROOT "
                     "first.",
                     HEADS, "same_words[1:, 1:][a.heads[:, None] - 1, b.heads - 1]"),
          Mistake.of("ROOT equals nothing",
                     "The ROOT of a equals the ROOT of b: both have the symbol None.",
                     HEADS, "(same_words[a.heads[:, None], b.heads] & (a.heads[:, None] > 0))"),
          Mistake.of("bools added",
                     'numpy adds two bools as "or": where head and word agree, the sum is 2.',
                     "1.0 * same_words", "same_words"),
          Mistake.of("case not folded", "Words are equal up to case: use Parse.symbols.",
                     "a.symbols[:, None] == b.symbols",
                     "np.array([None, *a.words], object)[:, None] == np.array([None, *b.words], "
                     "object)"),
          Mistake.of("heads left out", "Both s(h_i, h_j) and s(t_i, t_j) count.",
                     f"1.0 * {HEADS} + same_words[1:, 1:]", "1.0 * same_words[1:, 1:]"))),
    Task("Eq. 4", "priors.subgraph_similarity", """
         - Which words match: equal symbol and equal relation (n+1, m+1, with ROOT at place 0; ROOT
           matches ROOT).
         - S = α where they match, else 0. α counts once, also for a leaf.
         - From the leaves of a up (Parse.depths: larger is further from ROOT), each matching pair
           (i, j) adds ν S(i, j) to the pair of its heads, if those match. A pair is complete before
           it is added: deepest first.
         - Return S of words only, without ROOT.
         """,
         {"example": apple,
          "values": lambda x: x.of_one_relation(), "other relations": lambda x: x.parses(),
          "other α, ν": lambda x: [*x.of_one_relation(), 3.0, 0.25]},
         (Mistake.of("α for each pair of children",
                     "As typeset: a leaf gets nothing, a word with many children much. α counts "
                     "once for each matching pair.",
                     "if typeset:", "if True:", printed=True),
          Mistake.of("from the root down",
                     "S of the children must be complete before their heads use it: deepest "
                     "first.",
                     "np.argsort(-a.depths[i])", "np.argsort(a.depths[i])"),
          Mistake.of("relations not compared",
                     "Words match when symbol and relation are both equal.",
                     " & (a.types[:, None] == b.types)", ""),
          Mistake.of("ν left out", "The children's S counts ν times.", "nu * S[i, j]", "S[i, j]"),
          Mistake.of("heads need not match",
                     "A pair that does not match has S = 0, whatever its children are.",
                     "order[match[p, q][order]]", "order"))),
    Task("Eq. 5, tf-idf", "priors.TfIdf.weights", """
         - Case-fold the words; count each in this sentence.
         - tf of word w = count · (ln((1 + N) / (1 + df(w))) + 1), with self.N and self.df; a word
           twice in the list has both entries. Natural logarithm.
         - Divide by the mean over the sentence's words. No words: return the empty array, float64.
         """,
         {"values": lambda x: [priors.TfIdf([["a", "b"], ["A", "c"], ["a"]]),
                               ["A", "b", "zebra", "a", "c"]],
          "drawn": lambda x: [priors.TfIdf([["abcd"[i] for i in x.integer(4, 5)]
                                            for _ in range(3)]), ["D", "b", "zebra", "d", "a"]],
          "no words": lambda x: [priors.TfIdf([["a", "b"]]), []]},
         (Mistake.of("unit length",
                     "Divide by the mean, not by the length of the vector: a typical word weighs "
                     "1.",
                     "tf / tf.mean()", "tf / np.linalg.norm(tf)"),
          Mistake.of("not divided by the mean", "Divide by the mean over the sentence's words.",
                     "tf / tf.mean()", "tf"),
          Mistake.of("idf without 1 +", "The last + 1 is outside the logarithm: ln(...) + 1.",
                     " + 1) for w", ") for w"),
          Mistake.of("case not folded", "df counts case-folded words.",
                     "words = [word.casefold() for word in words]", "words = list(words)"),
          Mistake.of("count left out", "A word that stands twice counts twice.",
                     "count[w] * ", ""))),
    Task("Eq. 5", "priors.dependency_matrix", """
         - M by tree_similarity, S by subgraph_similarity.
         - The product of every word's weight in a with every word's in b: (n, m), tf_a of rows,
           tf_b of columns.
         - M_F = abs(M + S) · that, float32. `without` may leave out parts; here only the empty set
           is checked.
         """,
         {"example": lambda x: [*apple(x), *torch.ones(2, 3).double().numpy()],
          "values": lambda x: [*x.parses(), x.weights(N), x.weights(M)]},
         (Mistake.of("tf-idf left out", "Multiply by tf_a[i] tf_b[j].",
                     "(np.abs(M + S) * tf)", "np.abs(M + S)"),
          Mistake.of("only S weighted", "tf multiplies the whole of abs(M + S).",
                     "np.abs(M + S) * tf", "np.abs(M) + S * tf"),
          Mistake.of("tf added", "tf_a[i] and tf_b[j] are multiplied.",
                     "np.outer(tf_a, tf_b)", "np.add.outer(tf_a, tf_b)"),
          Mistake.of("S left out", "abs(M + S).", "np.abs(M + S)", "np.abs(M)"),
          Mistake.of("M left out", "abs(M + S).", "np.abs(M + S)", "np.abs(S)"))),
    Task("Eq. 6, place", "semmatch.spread_prior", """
         - Which tokens are pieces of a word of a (word_index >= 0, segment 0), which of b.
         - Where token i is a's and token j is b's: prior[word of i, word of j].
         - Where token i is b's and token j is a's: the same, transposed: prior[word of j, word of
           i].
         - Everywhere else, special tokens and padding included: the value `elsewhere`.
         """,
         {"values": lambda x: [x.normal(B, N, M), *x.tokens(), 0.5],
          "no words": lambda x: [x.normal(B, 0, M), torch.full((B, L), -1), x.tokens()[1], 0.5]},
         (Mistake.of("b × a left out", "Both cross blocks are filled.",
                     "torch.where(cross.transpose(1, 2), values.transpose(1, 2), block)", "block"),
          Mistake.of("transposed prior",
                     "In b × a rows are words of b: the block is the prior transposed.",
                     "torch.where(cross.transpose(1, 2), values.transpose(1, 2), block)",
                     "torch.where(cross.transpose(1, 2), values, block)"),
          Mistake.of("`elsewhere` is not used",
                     "Outside the cross blocks stands the argument `elsewhere`.",
                     "values, elsewhere)", "values, 0.0)"),
          Mistake.of("special tokens take part",
                     "word_index is -1 for [CLS], [SEP] and padding: they are nobody's word.",
                     "(word_index >= 0) & (segment == 0), (word_index >= 0) & (segment == 1)",
                     "segment == 0, segment == 1"))),
    Task("Eq. 6, adding 1", "semmatch.DafaAttention.spread", """
         - "Adding 1" to M_F: M̃ = 1 + M_F, so that a pair of words without agreement is left as it
           is.
         - calibrated_attention takes ln M̃. Use log1p.
         - spread_prior over the tokens; elsewhere M̃ is 1, whose logarithm is 0.
         """,
         {"values": lambda x: [x.attention("DafaAttention"), x.positive(B, N, M), *x.tokens()],
          "zero prior": lambda x: [x.attention("DafaAttention"), torch.zeros(B, N, M).double(),
                                   *x.tokens()]},
         (Mistake.of("1 not added",
                     "ln of M_F itself is -inf for words without agreement: M̃ = 1 + M_F.",
                     ".log1p()", ".log()"),
          Mistake.of("no logarithm", "The prior is added to scores, so it must be ln M̃.",
                     "prior.log1p()", "(1 + prior)"),
          Mistake.of("neither 1 nor logarithm",
                     "M̃ = 1 + M_F, and its logarithm is what is added to scores.",
                     "prior.log1p()", "prior"),
          Mistake.of("1 elsewhere", "M̃ is 1 elsewhere, ln M̃ is 0.",
                     "segment, 0.0)", "segment, 1.0)"),
          Mistake.of("M_F itself",
                     "As typeset M_F, with 1 elsewhere, multiplies the scores. Here it is added to "
                     "them: M̃ = 1 + M_F, and its logarithm.",
                     "prior.log1p()", "prior", "segment, 0.0)", "segment, 1.0)", printed=True))),
    replace(CALIBRATED, equation="Eq. 6"), replace(GUIDED, equation="Eq. 7"),
    replace(GATED, equation="Eq. 8"), replace(FILTER, equation="Eq. 9"),
    fuse("DafaAttention", "Eqs. 7-9", ("guided_attention(s, d_star,", "guided_attention(s, d,"),
         ("s_star, d_star", "s"), """
         - d*: guided_attention over the values d, guided by s, with W_D, W_s, w_d; its weights are
           semantic_guided.
         - s*: guided_attention over the values s, guided by d*, with W_S, W_dstar, w_sstar;
           dependency_guided.
         - record(trace, semantic_guided=..., dependency_guided=...).
         - gated_fusion of s* and d*, with W_shat, W_dhat, W_g: v and g.
         - filtration_gate of s and v, with W_v, W_l, W_f: the result and f. record(trace, g=g,
           f=f).
         """))


# ---- External knowledge -------------------------------------------------------------------------

KNOWLEDGE = (
    Task("Eq. 2", "semmatch.relation_indicator", """
         - I(k_ij) = 1 if any relation holds of word i and word j: bool (B, n, m).
         - All relations of the last axis count, co-hyponyms, the paper's "wheat" and "corn", as
           well.
         """,
         {"example": lambda x: [tensor([[[[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]]], torch.bool)],
          "values": lambda x: [x.integer(8, B, N, M, R) == 0]},
         (Mistake.of("all relations at once", "One relation is enough: any, not all.",
                     ".any(-1)", ".all(-1)"),
          Mistake.of("co-hyponyms left out",
                     "As printed: the paper's own example is a pair of co-hyponyms.",
                     "relations[..., :4] if typeset else relations", "relations[..., :4]",
                     printed=True),
          Mistake.of("synonyms alone", "Any relation counts, not the first alone.",
                     ".any(-1)", "[..., 0]"))),
    Task("Eq. 1", "semmatch.knowledge_scores", """
         - h_iᵀ h_j for all tokens: (B, L, L), float32 or wider.
         - Divide by √d, as attention does: raw products saturate the softmax.
         - Add G, which is -inf where the tokens are not of different sentences.
         """,
         {"example": lambda x: [tensor([[[1.0, 1, 1, 1], [2, 0, 0, 0]]]),
                                tensor([[[-math.inf, 1], [1, -math.inf]]])],
          "values": lambda x: [x.states(), x.cross()]},
         (Mistake.of(ROOT_K,
                     "As printed, raw products saturate the softmax and a relation moves "
                     "nothing: divide by √d.",
                     "(scores if typeset else scores / hidden.shape[-1] ** 0.5)", "scores",
                     printed=True),
          Mistake.of("divided by d", "Divide by the root of d.",
                     "hidden.shape[-1] ** 0.5", "hidden.shape[-1]"),
          Mistake.of("G divided by √d", "Only the products are divided; γ keeps its size.",
                     "(scores if typeset else scores / hidden.shape[-1] ** 0.5) + G",
                     "(scores + G) / hidden.shape[-1] ** 0.5"),
          Mistake.of("G left out", "Add G(k_ij).", "** 0.5) + G", "** 0.5)"))),
    Task("Eqs. 3, 4", "semmatch.co_attention", """
         - Where are there partners? scores > -inf.
         - ln ω: log_softmax of each row over its partners. A row without partners must not become
           nan: fill the lowest finite number in first, as attention_weights does. Scores are
           symmetric, so row i is ω^A_i or ω^B_·i.
         - c: ω (0 where there is no partner) times the hidden states.
         - K_prior_ij = (ω_ij + ω_ji) / 2; its logarithm by torch.logaddexp, -inf where scores are.
         """,
         {"values": lambda x: [x.states(), x.symmetric()]},
         (Mistake.of(AXIS,
                     "c^A_i is a mean of b's states: the weights of row i sum to 1, over the "
                     "last axis.",
                     ".log_softmax(-1)", ".log_softmax(1)"),
          Mistake.of("mean of logarithms",
                     "K_prior is the mean of the weights, not of their logarithms.",
                     "torch.logaddexp(log_omega, log_omega.transpose(1, 2)) - math.log(2)",
                     "(log_omega + log_omega.transpose(1, 2)) / 2"),
          Mistake.of("the half left out", "K_prior is the sum divided by 2: subtract ln 2.",
                     " - math.log(2)", ""),
          Mistake.of("no logarithm", "ln K_prior is returned, not K_prior.",
                     'log_prior.masked_fill(~cross, float("-inf"))',
                     "log_prior.exp().masked_fill(~cross, 0.0)"),
          Mistake.of("only one direction",
                     "K_prior is the mean of ω^A and ω^B: of ω and its transpose.",
                     "torch.logaddexp(log_omega, log_omega.transpose(1, 2)) - math.log(2)",
                     "log_omega"),
          Mistake.of("a row without a partner is nan",
                     "Fill the lowest finite number in before the softmax.",
                     "scores.masked_fill(~cross, lowest).log_softmax(-1)",
                     "scores.log_softmax(-1)",
                     "log_omega.exp().masked_fill(~cross, 0.0)", "log_omega.exp()"),
          Mistake.of("a row without a partner is uniform",
                     "Its c must be 0: zero ω where there is no partner.",
                     "log_omega.exp().masked_fill(~cross, 0.0)", "log_omega.exp()"))),
    Task("Eq. 1, G", "semmatch.KnowledgeAttention.spread", """
         - I(k_ij) of the relations by relation_indicator, as float, times γ (self.gamma).
         - spread_prior over the tokens; where two tokens are not words of different sentences,
           -inf.
         """,
         {"values": lambda x: [x.gamma(), x.integer(8, B, N, M, R) == 0, *x.tokens()]},
         (Mistake.of("γ left out", "G(k_ij) = γ I(k_ij), with self.gamma.",
                     "self.gamma * relation", "relation"),
          Mistake.of("γ added", "γ multiplies the indicator: without a relation G is 0.",
                     "self.gamma * relation", "self.gamma + relation"),
          Mistake.of("0 elsewhere",
                     "Tokens that are not words of different sentences get -inf: they take no "
                     "part.",
                     'float("-inf")', "0.0"))),
    replace(CALIBRATED, equation="Eq. 5"),
    Task("Eq. 5, K̃", "semmatch.KnowledgeAttention.second", """
         - knowledge_scores of `hidden` and `prior`, which is G; co_attention of them: ln K_prior
           and c.
         - The mean of K_prior over the cross block, the entries where G is not -inf, for each pair
           of the batch. A pair without such entries must not divide by 0.
         - ln K̃ = ln K_prior - ln of that mean; outside the cross block 0, so that these weights
           stay as they are.
         - record(trace, prior=K̃, context=c), then calibrated_attention with ln K̃.
         """,
         {name: lambda x, trace=trace: [
             x.gamma(), x.states(), *x.heads(), x.full(), x.cross(), 0.0, {} if trace else None]
          for name, trace in (("values", False), ("trace", True))},
         (Mistake.of("not divided by its mean",
                     "As printed, entries of K_prior are small and all cross weights shrink. "
                     "Divide by the mean over the cross block.",
                     "if not typeset:", "if False:"),
          Mistake.of("mean over all tokens", "The mean runs over the cross block only.",
                     "cross.sum((1, 2)).clamp(min=1)", "prior[0].numel()"),
          Mistake.of("no logarithm", "calibrated_attention takes ln K̃.",
                     "log_prior.exp() if typeset else log_prior", "log_prior.exp()"),
          Mistake.of("scores multiplied by the prior",
                     "K̃ multiplies weights, not scores: do not pass typeset.",
                     "log_prior.exp() if typeset else log_prior", "log_prior.exp()",
                     "dropout, typeset, trace", "dropout, True, trace"),
          Mistake.of("K_prior as typeset",
                     "Entries of K_prior are small, and a product with scores is no weight: divide "
                     "by the mean over the cross block, and add the logarithm.",
                     "if not typeset:", "if False:",
                     "log_prior.exp() if typeset else log_prior", "log_prior.exp()",
                     "dropout, typeset, trace", "dropout, True, trace", printed=True),
          Mistake.of("-inf outside the cross block",
                     "There K̃ is 1, and its logarithm 0: these tokens keep their weights.",
                     "torch.where(cross, log_prior, 0.0)", "log_prior"))),
    replace(GUIDED, equation="Eq. 6"),
    replace(GATED, equation="Eq. 7", cases=GATED.cases | {
        "values": lambda x: [*x.signals(), x.linear(D, D), x.linear(D, D), x.linear(2 * D, 1)]}),
    replace(FILTER, equation="Eq. 8"),
    fuse("KnowledgeAttention", "Eqs. 6-8",
         ("guided_attention(o_sem, hat_knw,", "guided_attention(o_sem, o_knw,"),
         ("hat_sem, hat_knw", "o_sem"), """
         - ô^knw: guided_attention over the values o_knw, guided by o_sem, with W_Oknw, W_osem,
           w_zknw; semantic_guided.
         - ô^sem: guided_attention over the values o_sem, guided by ô^knw, with W_Osem, W_ohatknw,
           w_zsem; knowledge_guided.
         - record(trace, semantic_guided=..., knowledge_guided=...).
         - gated_fusion of ô^sem and ô^knw, with W_otildesem, W_otildeknw, W_gfuse: u and g.
         - filtration_gate of o_sem and u, with None for W_v, W_y, W_gfilter: the result and f.
           record(trace, g=g, f=f).
         """),
    Task("Eq. 9", "train.l2_ratio", """
         - Half of the full step is the middle: t - L2FullStep/2, times 8, over L2FullStep/2.
         - σ of that, times the full ratio. Far from the middle math.exp overflows: keep its
           argument within ±700.
         """,
         {"middle": lambda x: [50_000], "values": lambda x: [int(x.integer(40)), 100, 4.0],
          "far": lambda x: [10 ** 9, 100, 4.0]},
         (Mistake.of("not centred",
                     "Subtract L2FullStep/2: the ratio is half of the full one there.",
                     "(step - full_step / 2)", "step"),
          Mistake.of("over the full step", "Divide by L2FullStep/2, not by L2FullStep.",
                     "* 8 / (full_step / 2)", "* 8 / full_step"),
          Mistake.of("falls instead of rising", "σ(x) = 1 / (1 + e^(-x)): the sign is turned.",
                     "math.exp(-min", "math.exp(min"))))


# ---- DRr-Net and LadRa-Net ----------------------------------------------------------------------

POOLING = Task(
    "", "reread.attentive_pooling", """
    - α = ωᵀ tanh(W A + b), one number for each token: W, tanh, w, then drop the last axis of size
      1: (B, n).
    - attention_weights(α, mask): over the tokens. (Over the axis of size 1 every weight would be
      1.)
    - h = Σ_i weights_i h_i: (B, d). Return h and the weights.
    """,
    {name: lambda x, mask=mask: [x.states(N), mask(x, N), x.linear(D, A),
                                 x.linear(A, 1, bias=False)]
     for name, mask in (("values", Draw.full), ("padding", Draw.padded))},
    (Mistake.of(AXIS,
                "The weights are all 1, so h is a plain sum: the softmax ran over the axis of "
                "size 1. It runs over the tokens.",
                "attention_weights(w(W(states).tanh())[..., 0], mask)", "mask.to(states.dtype)"),
     Mistake.of("softmax over the batch", "The weights of one sentence sum to 1, over its tokens.",
                *softmax_of("attention_weights(w(W(states).tanh())[..., 0], mask)", "mask", 0)),
     Mistake.of(TANH, "α = ωᵀ tanh(...).", "W(states).tanh()", "W(states)"),
     Mistake.of(MASK, NO_MASK,
                "attention_weights(w(W(states).tanh())[..., 0], mask)",
                "w(W(states).tanh())[..., 0].softmax(-1)"),
     Mistake.of("tanh mixed instead of states", "The weights mix the states h_i themselves.",
                "@ states)[:, 0]", "@ W(states).tanh())[:, 0]")))

CHOOSE = Task(
    "", "reread.choose", """
    - m̄ = ω_dᵀ tanh(keys + clue), one number for each token: (B, n). The clue is the same for all
      tokens of a row; w_d is a Linear without bias.
    - Scores β m̄. `left` is LadRa-Net's: leave it aside.
    - attention_weights over the tokens: nearly 1 for one of them, yet with a gradient.
    - ā = Σ_i weights_i h_i. Return ā, the weights, and m̄ without β.
    """,
    {name: lambda x, mask=mask, beta=beta: [x.states(N), x.normal(B, N, A), mask(x, N),
                                            x.normal(B, A), x.linear(A, 1, bias=False), beta]
     for name, mask, beta in (("values", Draw.full, 3.0), ("padding", Draw.padded, 3.0),
                              ("large β", Draw.padded, 200.0))},
    (Mistake.of("β left out", "Without β this is a soft mean of all words: softmax(β m̄).",
                "beta * m", "m"),
     Mistake.of("arg-max",
                "Eq. (5)'s arg-max has no gradient. Eq. (6) supersedes it: softmax(β m̄).",
                WEIGHTS,
                "F.one_hot(scores.masked_fill(~mask, -1e300).argmax(-1), "
                "scores.shape[-1]).to(scores) * mask"),
     Mistake.of(TANH, "m̄ = ω_dᵀ tanh(keys + clue).", ".tanh() @", "@"),
     Mistake.of("clue left out",
                "The clue, what was read so far and the guide, is added to each key.",
                "keys.to(wide) + clue.to(wide)[:, None]", "keys.to(wide)"),
     Mistake.of(MASK, NO_MASK, WEIGHTS, "scores.softmax(-1)"),
     Mistake.of("softmax over the batch", "The weights of one sentence sum to 1, over its tokens.",
                *softmax_of(WEIGHTS, "mask", 0)),
     Mistake.of("β m̄ returned", "The third value is m̄ without β.",
                "[:, 0], weights, m", "[:, 0], weights, scores")))


def reading(x, guide=True, mask=Draw.full):
    choice = x.fill(reread.Choice(D, K, A, M if guide else None))
    gru = nn.GRUCell(D, K)
    return [x.states(N), mask(x, N), x.normal(B, K), x.normal(B, M), choice, x.fill(gru), T, 3.0]


DRRNET = (
    Task("§ IV-A", "reread.highway", """
         - The gate t = σ(W_t x).
         - t relu(W_h x) + (1 - t) x: what the layer makes of x, and x itself.
         """,
         {"values": lambda x: [x.states(N), x.linear(D, D), x.linear(D, D)]},
         (Mistake.of("t and 1 - t exchanged", "t belongs to the layer, 1 - t to x.",
                     "t * W_h(x).relu() + (1 - t) * x", "(1 - t) * W_h(x).relu() + t * x"),
          Mistake.of("relu left out", "The layer is relu(W_h x).", "W_h(x).relu()", "W_h(x)"),
          Mistake.of("σ left out", "A gate lies in (0, 1).", ".sigmoid()", ""))),
    Task("Eqs. 1, 2", "reread.stacked_gru", """
         - For each GRU, the lowest first: h = its output for x (gru(x)[0]).
         - The next one reads [h; x], all that the one below read and said. h first.
         - Return the last [h; x], with 0 at padding. (Padding stands on the right and the GRUs read
           from the left, so what they make of padding reaches no real word.)
         """,
         {name: lambda x, mask=mask: [x.states(N), mask(x, N), nn.ModuleList(
             x.fill(nn.GRU(D + l * K, K, batch_first=True)) for l in range(3))]
          for name, mask in (("values", Draw.full), ("padding", Draw.padded))},
         (Mistake.of(ORDER, "[h; x]: what was said first, then what was read.", "[h, x]", "[x, h]"),
          Mistake.of("padding not zeroed", "Fill 0 in at padding at the end.",
                     "x.masked_fill(~mask[..., None], 0.0)", "x",
                     "h, _ = pad_packed_sequence(gru(packed)[0], batch_first=True, "
                     "total_length=x.shape[1])",
                     "h = gru(x)[0]"),
          Mistake.of("the last state at every word",
                     "Each word has the state that the GRU had there: take the first of what a "
                     "GRU returns, all states, not the second.",
                     "[h, x]",
                     "[h[torch.arange(len(x)), mask.sum(1).clamp(min=1) - 1][:, "
                     "None].expand_as(h), x]"))),
    replace(POOLING, equation="Eq. 3"),
    replace(CHOOSE, equation="Eqs. 5, 6"),
    Task("Eq. 4", "reread.reread", """
         - Keys: choice.W_d of the states, once. What the guide says: choice.M_d of it, or 0 where
           choice.M_d is None.
         - T times: the clue is choice.U_d(h) + what the guide says; `choose` a word with it and
           choice.w_d; then h = GRU(ā_t, h), whose first argument is the input.
         - Return the last h, and the weights of all steps (B, T, n).
         """,
         {"values": lambda x: reading(x), "padding": lambda x: reading(x, mask=Draw.padded),
          "without guide": lambda x: reading(x, guide=False)},
         (Mistake.of("every step starts from h̄_0",
                     "The clue of step t is made of h̄_(t-1), what was read until then.",
                     "for _ in range(steps):", "start = h\n    for _ in range(steps):",
                     "choice.U_d(h)", "choice.U_d(start)"),
          Mistake.of("guide left out", "The clue has two parts: U_d h̄_(t-1) + M_d h^b.",
                     "choice.U_d(h) + told", "choice.U_d(h)"),
          Mistake.of("h left out", "The clue has two parts: U_d h̄_(t-1) + M_d h^b.",
                     "choice.U_d(h) + told", "told + 0 * choice.U_d(h)"))),
    Task("Eq. 7", "reread.matching", """
         - Side by side along the last axis: a, b, their elementwise product, b - a.
         """,
         {"example": lambda x: [tensor([[1.0, 2.0]]), tensor([[3.0, 5.0]])],
          "values": lambda x: [x.normal(B, D), x.normal(B, D)]},
         (Mistake.of("a - b", "The last part is b - a.", "a * b, b - a]", "a * b, a - b]"),
          Mistake.of("|b - a|", "The difference keeps its sign.",
                     "a * b, b - a]", "a * b, (b - a).abs()]"),
          Mistake.of(ORDER, "a, b, product, difference.", "a * b, b - a", "b - a, a * b"))),
    Task("Eq. 8", "reread.probability_fusion", """
         - A gate for each side, σ(wᵀ p + b): α_h by w_h of p_h, α_v by w_v of p_v, (B, 1) each. A p
           that is None is left out.
         - mlp of the sum of the gated sides.
         - Return that, and the gates side by side, α_h first (B, 2).
         """,
         {name: lambda x, p=p, q=q: [x.normal(B, C) if p else None, x.normal(B, C) if q else None,
                                     x.linear(C, 1), x.linear(C, 1), x.linear(C, C)]
          for name, p, q in (("values", 1, 1), ("only p_h", 1, 0), ("only p_v", 0, 1))},
         (Mistake.of("gates left out", "Each side is multiplied by its gate.",
                     "gate * p for p, gate", "p for p, gate"),
          Mistake.of("MLP left out", "P = MLP_3 of the sum.",
                     "mlp(sum(gate * p for p, gate in sides))",
                     "sum(gate * p for p, gate in sides)"),
          Mistake.of("MLP of each side", "The sides are added before MLP_3.",
                     "mlp(sum(gate * p for p, gate in sides))",
                     "sum(mlp(gate * p) for p, gate in sides)"),
          Mistake.of("σ left out", "A gate lies in (0, 1).", ".sigmoid()", ""))))


def readings(x, mask=Draw.full):
    choices = [x.fill(reread.Choice(D, D, A, D, r > 0)) for r in range(E)]
    return [[x.states(N) for _ in range(E)], mask(x, N), x.normal(B, D), nn.ModuleList(choices),
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


LADRANET = (
    Task("Eq. 9", "reread.layer_mix", """
         - Each block's states times its α_l; add them. α is free: it is not normalised.
         """,
         {"values": lambda x: [[x.states() for _ in range(E)], x.normal(E)]},
         (Mistake.of("α normalised", "α is free, neither positive nor of sum 1: no softmax.",
                     "zip(alpha, ", "zip(alpha.softmax(0), "),
          Mistake.of("α left out", "This is the plain sum: multiply each block by its α_l.",
                     "a * h for", "h for"),
          Mistake.of("α from the top down", "α_l belongs to block l, and the lowest stands first.",
                     "zip(alpha, ", "zip(alpha.flip(0), "))),
    Task("Eq. 10", "reread.phrase_cnn", """
         - A Conv1d without padding takes (B, d, L) and makes the sentence K - 1 shorter
           (first.kernel_size[0] is K): zeros go at the ends, (K - 1) // 2 of them on one side, the
           rest on the other (F.pad).
         - First layer: zero what the mask excludes, the odd zero on the right, convolution, relu.
         - Second layer: zero what the mask excludes again, the odd zero on the left, convolution.
         - Zero what the mask excludes, and turn the axes back: (B, L, d).
         """,
         {"kernel 2": lambda x: phrases(x, 2), "kernel 3": lambda x: phrases(x, 3),
          "padding": lambda x: phrases(x, 3, Draw.padded)},
         (Mistake.of("odd padding on the same side twice",
                     "Two layers then see t, t+1, t+2. Right first, then left: t-1, t, t+1.",
                     "(right, left)", "(left, right)"),
          Mistake.of("odd padding left first",
                     "The odd zero goes right in the first layer and left in the second.",
                     "(left, right)", "(right, left)",
                     "inner.masked_fill(gone, 0.0), (right, left)",
                     "inner.masked_fill(gone, 0.0), (left, right)"),
          Mistake.of("padding not zeroed between the layers",
                     "After the first layer's bias and relu padding is no longer 0.",
                     "inner.masked_fill(gone, 0.0)", "inner"),
          Mistake.of("padding not zeroed at the start",
                     "What stands at padding must not reach a real token.",
                     "hidden.transpose(1, 2).masked_fill(gone, 0.0)", "hidden.transpose(1, 2)"),
          Mistake.of("padding not zeroed at the end", "The result is 0 at padding.",
                     "outer.masked_fill(gone, 0.0)", "outer"),
          Mistake.of("relu left out", "ReLU stands between the two layers.", ".relu()", ""),
          Mistake.of("relu after both layers", "ReLU stands only between the two layers.",
                     "second(F.pad(inner.masked_fill(gone, 0.0), (right, left)))",
                     "second(F.pad(inner.masked_fill(gone, 0.0), (right, left))).relu()"))),
    replace(POOLING, equation="Eq. 11"),
    Task("Eq. 14, φ", "reread.read_limit", """
         - φ = T σ(W_φ A), one number for each token: (B, n).
         - Keep it in [1, max(1, T - 1)], so that one reading never spends more than a token.
         """,
         {"values": lambda x: [x.states(N), x.linear(D, 1, bias=False), T],
          "one step": lambda x: [x.states(N), x.linear(D, 1, bias=False), 1]},
         (Mistake.of("limits left out", "Keep φ in [1, max(1, T - 1)].",
                     "phi.clamp(1, max(1, steps - 1))", "phi", printed=True),
          Mistake.of("T left out", "φ = T σ(...): how often a token may be read.",
                     "steps * W_phi", "W_phi"),
          Mistake.of("limit T",
                     "The upper limit is T - 1: T - 1 readings in full spend the token.",
                     "steps - 1", "steps"))),
    Task("Eq. 14, c", "reread.coverage", """
         - c_t = c_(t-1) - weight / φ, for each token. Not in place: the caller keeps c_(t-1).
         - Which real tokens are spent: c_t <= SPENT. A row whose real tokens are all spent starts
           again, with 1 everywhere.
         """,
         {"values": lambda x: [x.normal(B, N), x.normal(B, N), x.positive(B, N), x.full(N)],
          "all spent": coverages},
         (Mistake.of("times φ",
                     "c falls by weight / φ: a token that may be read more often falls less.",
                     "read / phi", "read * phi"),
          Mistake.of("never restarts",
                     "Where all real tokens are spent, c is 1 again for the whole row.",
                     "left.masked_fill(spent, 1.0)", "left", printed=True),
          Mistake.of("padding keeps a row from restarting", "Only real tokens have to be spent.",
                     "((left <= SPENT) | ~mask)", "(left <= SPENT)"),
          Mistake.of("grows", "c falls: subtract weight / φ.", "left - read", "left + read"))),
    replace(CHOOSE, equation="Eqs. 13, 14", recipe="""
         - m̄ = ω_dᵀ tanh(keys + clue), one number for each token: (B, n). The clue is the same for
           all tokens of a row. w_d is a Linear without bias.
         - Scores β m̄. If there is `left`, c: a token with c <= SPENT is masked out, and ln c (of
           at least SPENT) is added, so that the weight is ∝ c exp(β m̄).
         - attention_weights over the tokens.
         - ā = Σ_i weights_i h_i. Return ā, the weights, and m̄ without β.
         """,
            cases=CHOOSE.cases | {
                "coverage": lambda x: [*CHOOSE.cases["padding"](x), x.normal(B, N)]},
            mistakes=(*CHOOSE.mistakes,
                      Mistake.of("coverage times the score",
                                 "As typeset: less than one times a negative score is a *higher* "
                                 "score. c multiplies the weight: add ln c to β m̄.",
                                 "if typeset:", "if left is not None:",
                                 "if left is not None and not typeset:", "if False:",
                                 printed=True),
                      Mistake.of("coverage without logarithm",
                                 "The weight is ∝ c exp(β m̄): add ln c, not c.",
                                 "left.clamp(min=SPENT).log()", "left.clamp(min=SPENT)"),
                      Mistake.of("a spent token can be chosen",
                                 "A token with c <= SPENT gets weight 0: put it into the mask.",
                                 "mask = mask & (left > SPENT)", "mask = mask"),
                      Mistake.of("coverage left out",
                                 "A token that was read counts less: use `left`.",
                                 "if left is not None and not typeset:", "if False:"))),
    Task("Eqs. 12-14", "reread.dynamic_sequential_attention", """
         - Once: keys choice.W_d(h^r) and what h_ab says, choice.M_d(h_ab), for each r; φ^r by
           read_limit with W_phi; c^r = 1; h = h_ab.
         - T readings. In each, for r = 0 (tokens), 1, ... (phrases): the clue is choice.U_d(h) +
           what h_ab says + choice.V_d of the sum of what was chosen before in this reading (nothing
           for r = 0). `choose` with c^r; then `coverage` with its weights.
         - α^r = ω_fᵀ tanh(W_f ā^r); softmax over all r, 0 included; ā = Σ_r of that times ā^r.
         - h = GRU(ā, h).
         - Return all h (B, T, d), and {"reading": weights, "coverage": c after the reading, both
           (B, T, E, L), "mixture": (B, T, E)}.
         """,
         {"values": lambda x: readings(x), "padding": lambda x: readings(x, Draw.padded)},
         (Mistake.of("the token is left out of the sum",
                     "As typeset, the sum runs from r = 1. The token itself, r = 0, counts.",
                     "int(12 in printed)", "1", printed=True),
          Mistake.of("choices do not know each other",
                     "V_rd of what was chosen before in this reading is part of the clue.",
                     "(choice.V_d(sum(chosen)) if r else 0)", "0"),
          Mistake.of("coverage never falls", "After each choice c^r falls by its weights.",
                     "left[r] = coverage(left[r], m if typeset else weights, phi[r], mask, "
                     "typeset)",
                     "left[r] = left[r]"),
          Mistake.of("every reading starts from h_ab",
                     "The clue is made of h̄_(t-1), what was read until then.",
                     "choice.U_d(h)", "choice.U_d(h_ab)"),
          Mistake.of("h_ab left out of the clue", "The clue has M_d h_ab too.", " + told[r]", ""),
          Mistake.of("plain mean over r", "ā = Σ_r softmax_r(α) ā^r: a weighted mean.",
                     "w_f(W_f(a).tanh())[..., 0]", "0 * w_f(W_f(a).tanh())[..., 0]"))))

# What no exercise asks for, by paper: mistakes that tests/test_mistakes.py plants too.
UNASKED = {
    "DABERT": (replace(ATTEND, equation="Eq. 1"),),
    "Knowledge": (Task("Eq. 2", "priors.relation_matrix", "", {}, (
        Mistake.of("expressions over their words", "A word's own synonym or antonym stays.",
                   "free[..., None] & relations", "relations"),
        Mistake.of("an antonym is no obstacle", "An expression adds nothing at antonyms.",
                   "k[..., :2]", "k[..., :1]"),
        Mistake.of("words of a do not meet expressions of b", "City is one of New York.",
                   "meetings(words_a, expressions_b), ", ""),
        Mistake.of("synonyms count as co-hyponyms", "They are none.",
                   "k[..., 4] &= ~k[..., 0]", "pass"))),),
    "DRr-Net": (Task("Eq. 4", "reread.DrrNet.forward", "", {}, (
        Mistake.of("a sentence guides itself", "h^b is the other one's.",
                   "h.roll(len(h) // 2, 0)", "h"),
        Mistake.of("h̄_0 is the other sentence's", "h̄_0 comes from h^a.",
                   "self.W_0(h)", "self.W_0(h.roll(len(h) // 2, 0))"))),),
    "LadRa-Net": (Task("Eqs. 11, 15", "reread.LadraNet.forward", "", {}, (
        Mistake.of("[CLS] left out", "h⁰ is part of h_ab.",
                   "[cls, *(h for h, _ in pooled)]", "[0 * cls, *(h for h, _ in pooled)]"),
        Mistake.of("sum instead of mean", "avg, Eq. (15).",
                   "else vectors.mean(1)", "else vectors.sum(1)"),
        Mistake.of("maximum instead of mean", "avg, Eq. (15).",
                   "else vectors.mean(1)", "else vectors.amax(1)"),
        Mistake.of("only the last reading", "All h̄_t count.",
                   "vectors.append(h)", "vectors.append(h[:, -1:])"))),)}

# What a case of a function is worth, by how hard it is: 1 where none is given.
POINTS = {
    "bert_min.attention_weights": 2, "bert_min.SelfAttention.attend": 2,
    "bert_min.Layer.forward": 2, "semmatch.difference_scores": 2,
    "semmatch.difference_attention": 2, "semmatch.guided_attention": 3,
    "semmatch.DabertAttention.fuse": 3, "priors.tree_similarity": 2,
    "priors.subgraph_similarity": 4, "priors.TfIdf.weights": 2, "semmatch.spread_prior": 3,
    "semmatch.calibrated_attention": 2, "semmatch.DafaAttention.fuse": 2,
    "semmatch.co_attention": 4, "semmatch.KnowledgeAttention.second": 4,
    "semmatch.KnowledgeAttention.fuse": 2, "reread.stacked_gru": 3, "reread.attentive_pooling": 2,
    "reread.choose": 3, "reread.reread": 3, "reread.probability_fusion": 2,
    "reread.phrase_cnn": 3, "reread.coverage": 3, "reread.dynamic_sequential_attention": 4}

EXERCISES = {
    "bert": Exercise("BERT", "BERT: Vaswani et al. 2017, Eq. (1); Devlin et al., NAACL 2019", BERT),
    "dabert": Exercise(
        "DABERT", "DABERT, COLING 2022, Eqs. (2)-(7)", DABERT),
    "dafa": Exercise(
        "DAFA", "DAFA, Findings of EMNLP 2022, Eqs. (1)-(9)", DAFA, parser=True),
    "knowledge": Exercise(
        "Knowledge", "Using External Knowledge to Enhanced PLM, Eqs. (1)-(9)", KNOWLEDGE),
    "drrnet": Exercise(
        "DRr-Net", "DRr-Net, AAAI 2019, Eqs. (1)-(8)", DRRNET, parser=True),
    "ladranet": Exercise(
        "LadRa-Net", "LadRa-Net, TNNLS 2021, Eqs. (9)-(14)", LADRANET)}
