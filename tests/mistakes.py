"""Classic mistakes: each equation as somebody writes it who has misread it, in a line or two.

    MISTAKES["semmatch.difference_scores"]    [("the bars left out", function), ...]

A key is the right function's place, "module.function" or "module.Class.method". A mistake has the
signature of the right one and takes the same arguments, so that a program can tell which mistake
somebody made: the one that returns what theirs does.

Only the equation as intended is mistaken: with `printed` a mistake calls the right function.
tests/test_mistakes.py puts each in the place of the right one and sees the equation's oracle fail.
"""
import functools
import importlib
import inspect
import types

import numpy as np
import torch
import torch.nn.functional as F

from bert_min import Embeddings, Layer, SelfAttention, attention_weights, record
from priors import (dependency_matrix, index_facts, relation_matrix, subgraph_similarity,
                    tree_similarity)
from reread import (SPENT, LadraNet, attentive_pooling, choose, coverage,
                    dynamic_sequential_attention, highway, layer_mix, phrase_cnn,
                    probability_fusion, read_limit, reread, stacked_gru)
from semmatch import (DabertAttention, DafaAttention, KnowledgeAttention, calibrated_attention,
                      co_attention, difference_attention, difference_scores, filtration_gate,
                      gated_fusion, guided_attention, knowledge_scores, relation_indicator,
                      spread_prior)
from support.kernels import additive_scores
from train import l2_ratio

OUTSIDE = float("-inf")


# ---- What mistakes are made with ----------------------------------------------------------------

class Other:
    """An object, or a module, in which some names mean something else."""

    def __init__(self, like, **names):
        self.like = like
        vars(self).update(names)

    def __getattr__(self, name):
        return getattr(self.like, name)


def but(function, **names):
    """The function, but these names of its module mean something else in it."""
    return types.FunctionType(function.__code__, function.__globals__ | names, function.__name__,
                              function.__defaults__, function.__closure__)


def traced(function):
    """The function with a trace, in its last argument, though nobody asked for one: without a
    trace attention is one fused kernel."""
    return lambda *args: function(*args[:-1], {} if args[-1] is None else args[-1])


def swapped(linear):
    """A map that gets the two halves of its input in the wrong order; None stays."""
    return linear and (lambda x: linear(torch.cat(x.chunk(2, -1)[::-1], -1)))


def nothing(*_):
    return 0.0


def masked_softmax(scores, mask, axis=-1, fill=-1e30):
    mask = mask.reshape(len(mask), *[1] * (scores.dim() - mask.dim()), *mask.shape[1:])
    return scores.masked_fill(~mask, fill).softmax(axis)


def over_queries(scores, mask):
    return masked_softmax(scores, mask, -2)


def over_the_batch(scores, mask):
    return masked_softmax(scores, mask, 0)


def root(x):
    """The root of the last size, √d."""
    return x.shape[-1] ** 0.5


# ---- BERT ---------------------------------------------------------------------------------------

# The methods themselves: tests put mistakes in their place.
attend, encode, embed = SelfAttention.attend, Layer.forward, Embeddings.forward
judge_pieces = LadraNet.forward
WRONG = {}
WRONG["bert_min.split_heads"] = {
    "no exchange of axes": lambda x, heads: x.reshape(len(x), heads, x.shape[1], -1),
    "d cut as k × H": lambda x, heads: x.unflatten(-1, (-1, heads)).movedim(3, 1)}
WRONG["bert_min.merge_heads"] = {
    "no exchange of axes": lambda x: x.reshape(len(x), x.shape[2], -1),
    "d joined as k × H": lambda x: x.permute(0, 2, 3, 1).flatten(2)}
WRONG["bert_min.attention_weights"] = {
    "the softmax over the wrong axis": over_queries,
    "the mask upside down": lambda scores, mask: attention_weights(scores, ~mask),
    "-inf for the mask, so that a row without a key is nan; it must be 0":
        lambda scores, mask: masked_softmax(scores, mask, fill=OUTSIDE),
    "a row without a key that is uniform": masked_softmax}
WRONG["bert_min.SelfAttention.attend"] = {
    "no root": lambda self, x, q, *rest: attend(self, x, q * root(q), *rest),
    "k in the place of its root": lambda self, x, q, *rest: attend(self, x, q / root(q), *rest),
    "the softmax over the wrong axis": traced(but(attend, attention_weights=over_queries)),
    "queries and keys exchanged": lambda self, x, q, k, *rest: attend(self, x, k, q, *rest),
    "heads merged without an exchange of axes":
        but(attend, merge_heads=lambda x: x.reshape(len(x), x.shape[2], -1))}
WRONG["bert_min.Layer.forward"] = {
    "no residual": lambda self, x, mask, *rest: encode(Other(
        self, attention_norm=lambda both: self.attention_norm(both - x)), x, mask, *rest),
    "the norm before the sum": lambda self, x, mask, *rest: encode(Other(
        self, attention_norm=lambda both: x + self.attention_norm(both - x)), x, mask, *rest),
    "no activation": lambda self, *rest: encode(Other(self, activation=lambda x: x), *rest)}
WRONG["bert_min.Embeddings.forward"] = {
    "no segment":
        lambda self, *rest: embed(Other(self, segment=nothing), *rest),
    "positions counted from 0, with RoBERTa too":
        lambda self, *rest: embed(Other(self, offset=0), *rest),
    "the words times √d": lambda self, *rest: embed(Other(
        self, word=lambda ids: self.word(ids) * root(self.word.weight)), *rest)}


# ---- DABERT -------------------------------------------------------------------------------------

WRONG["semmatch.difference_scores"] = {
    "the bars left out": lambda q, k, *_: difference_scores(q, k, True),
    "the bars around the sum": lambda q, k, *_: difference_scores(q, k, True).abs(),
    "squares": lambda q, k, *_: (q[..., :, None, :] - k[..., None, :, :]).square().sum(-1),
    "queries and keys exchanged": lambda q, k, *_: difference_scores(k, q)}


def with_scores(change):
    """difference_attention with a change of β, a function of β and √d."""
    return but(difference_attention, difference_scores=lambda q, k, *_: change(
        difference_scores(q, k), root(q)))


WRONG["semmatch.difference_attention"] = {
    "no root": with_scores(lambda beta, d: beta * d),
    "d in the place of its root": with_scores(lambda beta, d: beta / d),
    "more weight for what is alike": with_scores(lambda beta, d: -beta),
    "the softmax over the wrong axis": but(difference_attention, attention_weights=over_queries)}


def guided_by(scores):
    return but(guided_attention, additive_scores=scores)


WRONG["semmatch.guided_attention"] = {
    "⊕ as concatenation, so that the guide cancels": guided_by(
        lambda keys, queries, w: (keys.tanh() @ w)[:, None] + (queries.tanh() @ w)[:, :, None]),
    "guide and value exchanged": guided_by(
        lambda keys, queries, w: additive_scores(queries, keys, w)),
    "no tanh": guided_by(lambda keys, queries, w: (keys @ w)[:, None] + (queries @ w)[:, :, None]),
    "the softmax over the wrong axis": but(guided_attention, attention_weights=over_queries)}


def gates_exchanged(sem, other, W_sem, W_other, W_g):
    v, g = gated_fusion(sem, other, W_sem, W_other, W_g)
    return W_sem(sem).tanh() + W_other(other).tanh() - v, g


WRONG["semmatch.gated_fusion"] = {
    "g and 1 - g exchanged": gates_exchanged,
    "the other order of what the gate sees":
        lambda sem, other, W, U, W_g: gated_fusion(sem, other, W, U, swapped(W_g)),
    "the signals exchanged": lambda sem, other, *rest: gated_fusion(other, sem, *rest)}


WRONG["semmatch.filtration_gate"] = {
    "s left out": lambda *args: filtration_gate(*args[:-1], True),
    "the other order of what the gate sees":
        lambda s, v, W_v, W_l, W_f, _: filtration_gate(s, v, W_v, W_l, swapped(W_f)),
    "a gate of v itself": lambda s, v, W_v, *rest: filtration_gate(s, v, None, *rest),
    "W_l of W_v v": lambda s, v, W_v, W_l, *rest: filtration_gate(
        s, v, W_v, lambda x: W_l(x if W_v is None else W_v(x)), *rest)}


def fusions(method, guide):
    """Mistakes of a method's `fuse`. guide: the name of its map of the second guide."""
    fuse = method.fuse

    def raw_guide(self, sem, other, *rest):
        raw = Other(self, **{guide: lambda _: getattr(self, guide)(other)})
        return fuse(raw, sem, other, *rest)

    return {
        "the raw signal as the second guide": raw_guide,
        "signals exchanged in the fusion": but(
            fuse, gated_fusion=lambda x, y, *rest: gated_fusion(y, x, *rest)),
        "the fused signal added to itself": but(
            fuse, filtration_gate=lambda _, v, *rest: filtration_gate(v, v, *rest))}


WRONG["semmatch.DabertAttention.fuse"] = fusions(DabertAttention, "W_dbar")


# ---- DAFA ---------------------------------------------------------------------------------------

def relations_of(a, b, theta):
    return np.where(a.types[1:, None] == b.types[1:], theta, 1.0)


def cased(parse):
    return Other(parse, symbols=np.array([None, *parse.words], object))


def untyped(parse):
    return Other(parse, types=np.zeros(len(parse.words) + 1))


WRONG["priors.tree_similarity"] = {
    "θ and 1 exchanged":
        lambda a, b, theta, root: theta * tree_similarity(a, b, 1 / theta, root),
    "a sum for the product": lambda a, b, theta, root:
        tree_similarity(a, b, 1.0, root) + relations_of(a, b, theta),
    "a ROOT that equals nothing": lambda a, b, theta, _: tree_similarity(a, b, theta, False),
    "truths added, so that two are one": lambda a, b, theta, root:
        tree_similarity(a, b, 1.0, root).clip(max=1) * relations_of(a, b, theta),
    "words that differ in case":
        lambda a, b, *rest: tree_similarity(cased(a), cased(b), *rest)}
WRONG["priors.subgraph_similarity"] = {
    "α for each pair of children": lambda *args: subgraph_similarity(*args[:-1], True),
    "no relations compared":
        lambda a, b, *rest: subgraph_similarity(untyped(a), untyped(b), *rest),
    "the root first, the leaves last":
        lambda a, *rest: subgraph_similarity(Other(a, depths=-a.depths), *rest),
    "no ν": lambda a, b, alpha, *_: subgraph_similarity(a, b, alpha, 1.0)}


def raw_tf(self, words, one=1.0, fold=str.casefold):
    """tf-idf that nothing has divided yet. one: what is added to the logarithm."""
    words = [fold(word) for word in words]
    return np.array([words.count(word) * (np.log((1 + self.N) / (1 + self.df[word])) + one)
                     for word in words])


WRONG["priors.TfIdf.weights"] = {
    "unit length": lambda self, words: raw_tf(self, words) / np.linalg.norm(raw_tf(self, words)),
    "no division by the mean": raw_tf,
    "no 1 beside the logarithm":
        lambda self, words: raw_tf(self, words, 0.0) / raw_tf(self, words, 0.0).mean(),
    "words that differ in case":
        lambda self, words: raw_tf(self, words, fold=str) / raw_tf(self, words, fold=str).mean()}
WRONG["priors.dependency_matrix"] = {
    "weights added": but(dependency_matrix, np=Other(np, outer=np.add.outer)),
    "the weights of a alone": lambda a, b, tf_a, tf_b, *rest:
        dependency_matrix(a, b, tf_a, np.ones_like(tf_b), *rest),
    "no M": lambda *args: dependency_matrix(*args[:-1], {*args[-1], "tree"}),
    "no S": lambda *args: dependency_matrix(*args[:-1], {*args[-1], "subgraph"})}
WRONG["semmatch.spread_prior"] = {
    "the prior transposed": lambda prior, index, segment, elsewhere:
        spread_prior(prior, index, 1 - segment, elsewhere),
    "no block of b with a": lambda prior, index, segment, elsewhere: spread_prior(
        prior, index, segment, elsewhere).masked_fill(segment[:, :, None] == 1, elsewhere),
    "0 outside the blocks": lambda *args: spread_prior(*args[:-1], 0.0),
    "special tokens that take part":
        lambda prior, index, *rest: spread_prior(prior, index.clamp(0), *rest)}
WRONG["semmatch.DafaAttention.spread"] = {
    "no 1 added": lambda self, M_F, *rest: spread_prior(M_F.log(), *rest, 0.0),
    "no logarithm": lambda self, M_F, *rest: spread_prior(1 + M_F, *rest, 0.0),
    "neither 1 nor a logarithm": lambda self, M_F, *rest: spread_prior(M_F, *rest, 0.0),
    "1 outside the blocks": lambda self, M_F, *rest: spread_prior(M_F.log1p(), *rest, 1.0)}


def after_the_softmax(q, k, v, M, mask, dropout, _, trace):
    weights = attention_weights(q @ k.mT / root(q), mask) * M.exp()[:, None]
    record(trace, calibrated=weights)
    return weights @ v


WRONG["semmatch.calibrated_attention"] = {
    "scores multiplied": lambda *args: calibrated_attention(*args[:-2], True, args[-1]),
    "no root": lambda q, *rest: calibrated_attention(q * root(q), *rest),
    "M divided by the root, too":
        lambda q, k, v, M, *rest: calibrated_attention(q, k, v, M / root(q), *rest),
    "M transposed": lambda q, k, v, M, *rest: calibrated_attention(q, k, v, M.mT, *rest),
    "M after the softmax": after_the_softmax,
    "the softmax over the wrong axis":
        traced(but(calibrated_attention, attention_weights=over_queries))}
WRONG["semmatch.DafaAttention.fuse"] = fusions(DafaAttention, "W_dstar")


# ---- External knowledge -------------------------------------------------------------------------

WRONG["semmatch.knowledge_scores"] = {
    "no root": lambda hidden, G, _: knowledge_scores(hidden, G, True),
    "d in the place of its root":
        lambda hidden, G, _: knowledge_scores(hidden / root(hidden) ** 0.5, G),
    "G divided by the root, too":
        lambda hidden, G, _: knowledge_scores(hidden, G / root(hidden))}
WRONG["semmatch.relation_indicator"] = {
    "all relations at once": lambda relations, _: relations.all(-1),
    "no co-hyponyms": lambda relations, _: relation_indicator(relations, True),
    "synonyms alone": lambda relations, _: relations[..., 0]}


WRONG["priors.relation_matrix"] = {
    "hypernym and hyponym exchanged":
        lambda facts_a, facts_b: relation_matrix(facts_a, facts_b)[..., [0, 1, 3, 2, 4]],
    "no expressions": but(relation_matrix, index_facts=lambda facts: (index_facts(facts)[0], {})),
    "expressions alone": but(relation_matrix,
                             index_facts=lambda facts: ({}, index_facts(facts)[1]))}


def co_attend(ln_K=None, context=None):
    """co_attention with another of its results, a function of ω and the hidden states."""
    def mistaken(hidden, scores):
        right, omega = co_attention(hidden, scores), attention_weights(scores, scores > OUTSIDE)
        return (right[0] if ln_K is None else ln_K(omega),
                right[1] if context is None else context(omega, hidden))
    return mistaken


WRONG["semmatch.co_attention"] = {
    "the softmax over the wrong axis": co_attend(context=lambda omega, hidden: omega.mT @ hidden),
    "a mean of logarithms": co_attend(lambda omega: (omega.log() + omega.mT.log()) / 2),
    "no logarithm": co_attend(lambda omega: (omega + omega.mT) / 2),
    "one direction alone": co_attend(torch.log)}
WRONG["semmatch.KnowledgeAttention.fuse"] = fusions(KnowledgeAttention, "W_ohatknw")
WRONG["train.l2_ratio"] = {
    "no centre": lambda step, full_step, *rest: l2_ratio(step + full_step / 2, full_step,
                                                               *rest),
    "a rise over twice the steps": lambda step, full_step, *rest:
        l2_ratio((step + full_step / 2) / 2, full_step, *rest),
    "a fall": lambda step, full_step, *rest: l2_ratio(full_step - step, full_step, *rest)}


# ---- DRr-Net ------------------------------------------------------------------------------------

WRONG["reread.highway"] = {
    "t and 1 - t exchanged": lambda x, W_t, W_h: W_h(x).relu() + x - highway(x, W_t, W_h),
    "no relu": lambda x, W_t, W_h: W_t(x).sigmoid() * (W_h(x) - x) + x,
    "no σ": lambda x, W_t, W_h: W_t(x) * (W_h(x).relu() - x) + x}


def last_states(x, mask, grus):
    states, d = stacked_gru(x, mask, grus), grus[-1].hidden_size
    last = states[torch.arange(len(x)), mask.sum(1).clamp(min=1) - 1, :d]
    return torch.cat([last[:, None].expand(-1, x.shape[1], -1), states[..., d:]], -1)


WRONG["reread.stacked_gru"] = {
    "the other order, what was read first": but(stacked_gru, torch=Other(
        torch, cat=lambda parts, axis: torch.cat(parts[::-1], axis))),
    "padding that is read": lambda x, mask, grus: stacked_gru(x, torch.ones_like(mask), grus),
    "the last state at every word": last_states,
    "the lowest layer alone": lambda x, mask, grus: stacked_gru(x, mask, grus[:1])}


def pool(scores, mixed, mask):
    weights = attention_weights(scores[..., 0], mask)
    return (weights[:, None] @ mixed)[:, 0], weights


WRONG["reread.attentive_pooling"] = {
    "the softmax over an axis of size 1": lambda states, mask, W, w:
        ((states * mask[..., None]).sum(1), mask.to(states.dtype)),
    "the softmax over the batch": but(attentive_pooling, attention_weights=over_the_batch),
    "no tanh": lambda states, mask, W, w: pool(w(W(states)), states, mask),
    "tanh mixed, not states":
        lambda states, mask, W, w: pool(w(W(states).tanh()), W(states).tanh(), mask)}


def choose_with(**changes):
    """choose with other arguments, name -> a function of what stands there."""
    signature = inspect.signature(choose)

    def mistaken(*args):
        given = signature.bind(*args).arguments
        return choose(**given | {name: change(given[name]) for name, change in changes.items()})
    return mistaken


WRONG["reread.choose"] = {
    "no β": choose_with(beta=lambda beta: 1.0),
    "an arg-max": choose_with(beta=lambda beta: 1e8),
    "no clue": choose_with(clue=torch.zeros_like),
    "the softmax over the batch": but(choose, attention_weights=over_the_batch),
    "no coverage": choose_with(left=lambda left: None),
    "spent words that are chosen":
        choose_with(left=lambda left: None if left is None else left.clamp(min=2 * SPENT))}


def step_with(**names):
    """reread.reread with another choice or gru: functions of (choice, gru, h̄_0)."""
    def mistaken(states, mask, h, guide, choice, gru, *rest):
        new = {name: make(choice, gru, h) for name, make in names.items()}
        gru = new.pop("gru", gru)
        return reread(states, mask, h, guide, Other(choice, **new), gru, *rest)
    return mistaken


WRONG["reread.reread"] = {
    "a clue of h̄_0 at each step": step_with(U_d=lambda choice, gru, h: lambda _: choice.U_d(h)),
    "a GRU that begins at h̄_0 at each step":
        step_with(gru=lambda choice, gru, h: lambda x, _: gru(x, h)),
    "no guide": step_with(M_d=lambda choice, gru, h: choice.M_d and nothing),
    "no h in the clue": step_with(U_d=lambda choice, gru, h: lambda x: 0 * choice.U_d(x))}
WRONG["reread.matching"] = {
    "a - b": lambda a, b: torch.cat([a, b, a * b, a - b], -1),
    "|b - a|": lambda a, b: torch.cat([a, b, a * b, (b - a).abs()], -1),
    "another order": lambda a, b: torch.cat([a, b, b - a, a * b], -1)}


def mlp_of_each(p_h, p_v, w_h, w_v, mlp):
    _, gates = probability_fusion(p_h, p_v, w_h, w_v, mlp)
    return mlp(gates[:, :1] * p_h) + mlp(gates[:, 1:] * p_v), gates


WRONG["reread.probability_fusion"] = {
    "no MLP": lambda p_h, p_v, w_h, w_v, mlp: probability_fusion(p_h, p_v, w_h, w_v, torch.clone),
    "an MLP of each side": mlp_of_each,
    "gates exchanged":
        lambda p_h, p_v, w_h, w_v, mlp: probability_fusion(p_h, p_v, w_v, w_h, mlp)}


# ---- LadRa-Net ----------------------------------------------------------------------------------

WRONG["reread.layer_mix"] = {
    "α that sums to 1": lambda blocks, alpha: layer_mix(blocks, alpha.softmax(0)),
    "no α": lambda blocks, alpha: sum(blocks),
    "α from the top down": lambda blocks, alpha: layer_mix(blocks, alpha.flip(0))}
WRONG["reread.phrase_cnn"] = {
    "odd padding on one side twice": but(phrase_cnn, F=Other(
        F, pad=lambda x, sides: F.pad(x, sorted(sides)))),
    "odd padding left first": but(phrase_cnn, F=Other(
        F, pad=lambda x, sides: F.pad(x, sides[::-1]))),
    "padding that is read":
        lambda hidden, mask, *rest: phrase_cnn(hidden, torch.ones_like(mask), *rest),
    "a relu behind both layers": lambda *args: phrase_cnn(*args).relu()}
WRONG["reread.read_limit"] = {
    "no limits": lambda states, W_phi, steps, _: read_limit(states, W_phi, steps, True),
    "no T": lambda states, W_phi, steps, _:
        W_phi(states)[..., 0].sigmoid().clamp(1, max(1, steps - 1)),
    "T as the limit": lambda states, W_phi, steps, _:
        read_limit(states, W_phi, steps, True).clamp(1, steps)}
WRONG["reread.coverage"] = {
    "a product for the quotient": lambda left, read, phi, mask, _:
        coverage(left, read, 1 / phi, mask),
    "no new start": lambda *args: coverage(*args[:-1], True),
    "padding that has to be spent, too": lambda left, read, phi, mask, _:
        coverage(left, read, phi, torch.ones_like(mask)),
    "a sum for the difference": lambda left, read, phi, mask, _: coverage(left, -read, phi, mask)}


def read_with(**names):
    """dynamic_sequential_attention with other maps in its choices, functions of (choice, h_ab)."""
    def mistaken(states, mask, h_ab, choices, *rest):
        choices = [Other(choice, **{name: make(choice, h_ab) for name, make in names.items()})
                   for choice in choices]
        return dynamic_sequential_attention(states, mask, h_ab, choices, *rest)
    return mistaken


WRONG["reread.dynamic_sequential_attention"] = {
    "no token in the sum": lambda *args: dynamic_sequential_attention(*args[:-1], {12}),
    "choices that do not know each other": read_with(V_d=lambda choice, h_ab: nothing),
    "coverage that never falls": but(dynamic_sequential_attention, coverage=lambda left, *_: left),
    "readings that all start from h_ab":
        read_with(U_d=lambda choice, h_ab: lambda _: choice.U_d(h_ab)),
    "no h_ab in the clue": read_with(M_d=lambda choice, h_ab: nothing)}


def last_reading(*args):
    h, seen = dynamic_sequential_attention(*args)
    return h[:, -1:], seen


def without(part):
    return lambda self, *rest: judge_pieces(
        Other(self, without=self.without | {part}), *rest)


WRONG["reread.LadraNet.forward"] = {
    "a maximum for the mean": without("average-pooling"),
    "no h_ab in the mean": without("global"),
    "the last reading alone": but(judge_pieces, dynamic_sequential_attention=last_reading)}


# ---- The list -----------------------------------------------------------------------------------

def find(place):
    """The function of "module.function" or "module.Class.method"."""
    module, *names = place.split(".")
    return functools.reduce(getattr, names, importlib.import_module(module))


def as_the_right_one(place, wrong):
    """A mistake with the signature of the right function, which it calls where that is `printed`.
    wrong: takes all arguments by position."""
    right = find(place)
    signature = inspect.signature(right)

    @functools.wraps(right)
    def mistaken(*args, **options):
        given = signature.bind(*args, **options)
        given.apply_defaults()
        layer = given.arguments.get("self")
        if given.arguments.get("printed") or getattr(layer, "printed", ()):
            return right(*args, **options)
        return wrong(*given.args)

    return mistaken


MISTAKES = {place: [(name, as_the_right_one(place, wrong)) for name, wrong in mistakes.items()]
            for place, mistakes in WRONG.items()}
