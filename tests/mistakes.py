"""Classic mistakes: each equation as somebody who misread it would write it, in a line or two.

    MISTAKES["semmatch.difference_scores"]    [("the bars left out", function), ...]

A key is the right function's place, "module.function" or "module.Class.method". A mistake takes the
arguments of the right function, so that a program can name the mistake in a reader's function: the
one that returns the same. With `printed` a mistake calls the right function.
tests/test_mistakes.py puts each mistake in the right function's place; the oracle must fail.
"""
import functools
import inspect
import types
from pkgutil import resolve_name

import numpy as np
import torch
import torch.nn.functional as F

from bert_min import SelfAttention, attention_weights
from priors import (TfIdf, dependency_matrix, index_facts, relation_matrix, subgraph_similarity,
                    tree_similarity)
from reread import (LadraNet, attentive_pooling, choose, coverage, dynamic_sequential_attention,
                    layer_mix, phrase_cnn, probability_fusion, read_limit, reread, stacked_gru)
from semmatch import (calibrated_attention, co_attention, difference_attention, difference_scores,
                      filtration_gate, gated_fusion, guided_attention, knowledge_scores,
                      relation_indicator, spread_prior)
from support.kernels import additive_scores
from train import l2_ratio


class Other:
    """An object, or a module, in which some names mean something else."""

    def __init__(self, like, **names):
        self.like = like
        vars(self).update(names)

    def __getattr__(self, name):
        return getattr(self.like, name)


def but(function, **names):
    """The function, in which these names of its module mean something else."""
    return types.FunctionType(function.__code__, function.__globals__ | names, function.__name__,
                              function.__defaults__, function.__closure__)


def masked_softmax(scores, mask, axis=-1, fill=-1e30):
    mask = mask.reshape(len(mask), *[1] * (scores.dim() - mask.dim()), *mask.shape[1:])
    return scores.masked_fill(~mask, fill).softmax(axis)


def mean_of_logarithms(hidden, scores):
    ln_omega = attention_weights(scores, scores > -torch.inf).log()
    return (ln_omega + ln_omega.mT) / 2, co_attention(hidden, scores)[1]


# The right methods, under names that stay when a test puts a mistake in a method's place.
attend, judge_pieces, weigh = SelfAttention.attend, LadraNet.forward, TfIdf.weights
WRONG = {}

# BERT
WRONG["bert_min.split_heads"] = {
    "no exchange of axes": lambda x, heads: x.reshape(len(x), heads, x.shape[1], -1)}
WRONG["bert_min.merge_heads"] = {
    "no exchange of axes": lambda x: x.reshape(len(x), x.shape[2], -1)}
WRONG["bert_min.attention_weights"] = {
    "the softmax over the wrong axis": lambda scores, mask: masked_softmax(scores, mask, -2),
    "-inf for the mask, so that a row without a key is nan; it must be 0":
        lambda scores, mask: masked_softmax(scores, mask, fill=-torch.inf),
    "a row without a key that is uniform": masked_softmax}
WRONG["bert_min.SelfAttention.attend"] = {
    "no root": lambda self, x, q, *rest: attend(self, x, q * q.shape[-1] ** 0.5, *rest)}

# DABERT
WRONG["semmatch.difference_scores"] = {
    "the bars left out": lambda q, k, *_: difference_scores(q, k, True),
    "squares": lambda q, k, *_: (q[..., :, None, :] - k[..., None, :, :]).square().sum(-1)}
WRONG["semmatch.difference_attention"] = {
    "more weight for what is alike": but(difference_attention, difference_scores=lambda q, k, *_:
                                         -difference_scores(q, k))}
WRONG["semmatch.guided_attention"] = {
    "⊕ as concatenation, so that the guide cancels": but(
        guided_attention, additive_scores=lambda keys, queries, w:
        (keys.tanh() @ w)[:, None] + (queries.tanh() @ w)[:, :, None]),
    "guide and value exchanged": but(
        guided_attention, additive_scores=lambda keys, queries, w:
        additive_scores(queries, keys, w))}
WRONG["semmatch.gated_fusion"] = {
    "the signals exchanged": lambda sem, other, *rest: gated_fusion(other, sem, *rest)}
WRONG["semmatch.filtration_gate"] = {
    "s left out": lambda *args: filtration_gate(*args[:-1], True),
    "a gate of v itself": lambda s, v, W_v, *rest: filtration_gate(s, v, None, *rest)}

# DAFA
WRONG["priors.tree_similarity"] = {
    "θ and 1 exchanged": lambda a, b, theta, root: theta * tree_similarity(a, b, 1 / theta, root),
    "a ROOT that equals nothing": lambda a, b, theta, _: tree_similarity(a, b, theta, False)}
WRONG["priors.subgraph_similarity"] = {
    "α for each pair of children": lambda *args: subgraph_similarity(*args[:-1], True),
    "the root first, the leaves last":
        lambda a, *rest: subgraph_similarity(Other(a, depths=-a.depths), *rest),
    "the last word first, not the deepest": lambda a, *rest: subgraph_similarity(
        Other(a, depths=np.arange(len(a.depths))), *rest)}
WRONG["priors.TfIdf.weights"] = {
    "unit length": lambda self, words: weigh(self, words) / np.linalg.norm(weigh(self, words))}
WRONG["priors.dependency_matrix"] = {
    "the weights of a alone": lambda a, b, tf_a, tf_b, *rest:
        dependency_matrix(a, b, tf_a, np.ones_like(tf_b), *rest),
    "no S": lambda *args: dependency_matrix(*args[:-1], {*args[-1], "subgraph"})}
WRONG["semmatch.spread_prior"] = {
    "the prior transposed": lambda prior, index, segment, elsewhere:
        spread_prior(prior, index, 1 - segment, elsewhere),
    "no block of b with a": lambda prior, index, segment, elsewhere: spread_prior(
        prior, index, segment, elsewhere).masked_fill(segment[:, :, None] == 1, elsewhere),
    "words of b counted no further than those of a": lambda prior, index, *rest: spread_prior(
        prior, index.clamp(max=prior.shape[1] - 1), *rest),
    "special tokens that take part":
        lambda prior, index, *rest: spread_prior(prior, index.clamp(0), *rest)}
WRONG["semmatch.DafaAttention.spread"] = {
    "no 1 added": lambda self, M_F, *rest: spread_prior(M_F.log(), *rest, 0.0),
    "no logarithm": lambda self, M_F, *rest: spread_prior(1 + M_F, *rest, 0.0)}
WRONG["semmatch.calibrated_attention"] = {
    "scores multiplied": lambda *args: calibrated_attention(*args[:-2], True, args[-1]),
    "M divided by the root, too":
        lambda q, k, v, M, *rest: calibrated_attention(q, k, v, M / q.shape[-1] ** 0.5, *rest)}

# External knowledge
WRONG["semmatch.knowledge_scores"] = {
    "no root": lambda hidden, G, _: knowledge_scores(hidden, G, True),
    "G divided by the root, too":
        lambda hidden, G, _: knowledge_scores(hidden, G / hidden.shape[-1] ** 0.5)}
WRONG["semmatch.relation_indicator"] = {
    "all relations at once": lambda relations, _: relations.all(-1),
    "no co-hyponyms": lambda relations, _: relation_indicator(relations, True)}
WRONG["priors.relation_matrix"] = {
    "hypernym and hyponym exchanged":
        lambda facts_a, facts_b: relation_matrix(facts_a, facts_b)[..., [0, 1, 3, 2, 4]],
    "no expressions": but(relation_matrix, index_facts=lambda facts: (index_facts(facts)[0], {}))}
WRONG["semmatch.co_attention"] = {"a mean of logarithms": mean_of_logarithms}
WRONG["train.l2_ratio"] = {
    "no centre": lambda step, full_step, *rest: l2_ratio(step + full_step / 2, full_step, *rest)}

# DRr-Net
WRONG["reread.stacked_gru"] = {
    "padding that is read": lambda x, mask, grus: stacked_gru(x, torch.ones_like(mask), grus)}
WRONG["reread.attentive_pooling"] = {
    "the softmax over an axis of size 1": lambda states, mask, W, w:
        ((states * mask[..., None]).sum(1), mask.to(states.dtype)),
    "padding that is read": lambda states, mask, W, w:
        attentive_pooling(states, torch.ones_like(mask), W, w)}
WRONG["reread.choose"] = {
    "no clue": lambda states, keys, mask, clue, *rest: choose(states, keys, mask, 0 * clue, *rest)}
WRONG["reread.reread"] = {
    "a clue of h̄_0 at each step": lambda states, mask, h, guide, choice, *rest: reread(
        states, mask, h, guide, Other(choice, U_d=lambda _: choice.U_d(h)), *rest),
    "no guide": lambda states, mask, h, guide, *rest: reread(states, mask, h, 0 * guide, *rest)}
WRONG["reread.matching"] = {
    "a - b": lambda a, b: torch.cat([a, b, a * b, a - b], -1),
    "|b - a|": lambda a, b: torch.cat([a, b, a * b, (b - a).abs()], -1)}
WRONG["reread.probability_fusion"] = {
    "no MLP": lambda p_h, p_v, w_h, w_v, mlp: probability_fusion(p_h, p_v, w_h, w_v, torch.clone),
    "gates exchanged": lambda p_h, p_v, w_h, w_v, mlp: probability_fusion(p_h, p_v, w_v, w_h, mlp)}

# LadRa-Net
WRONG["reread.layer_mix"] = {
    "α that sums to 1": lambda blocks, alpha: layer_mix(blocks, alpha.softmax(0))}
WRONG["reread.phrase_cnn"] = {
    "odd padding on one side twice": but(phrase_cnn, F=Other(
        F, pad=lambda x, sides: F.pad(x, sorted(sides)))),
    "no mask between the layers": lambda hidden, mask, *layers: phrase_cnn(
        hidden * mask[..., None], torch.ones_like(mask), *layers) * mask[..., None]}
WRONG["reread.read_limit"] = {
    "no limits": lambda states, W_phi, steps, _: read_limit(states, W_phi, steps, True)}
WRONG["reread.coverage"] = {
    "no new start": lambda *args: coverage(*args[:-1], True),
    "padding that has to be spent, too": lambda left, read, phi, mask, _:
        coverage(left, read, phi, torch.ones_like(mask))}
WRONG["reread.dynamic_sequential_attention"] = {
    "no token in the sum": lambda *args: dynamic_sequential_attention(*args[:-1], {12}),
    "choices that do not know each other": lambda states, mask, h_ab, choices, *rest:
        dynamic_sequential_attention(states, mask, h_ab, [
            Other(choice, V_d=lambda chosen: 0.0) for choice in choices], *rest),
    "coverage that never falls": but(dynamic_sequential_attention, coverage=lambda left, *_: left)}
WRONG["reread.LadraNet.forward"] = {
    f"without {part}": lambda self, *rest, part=part: judge_pieces(
        Other(self, without=self.without | {part}), *rest)
    for part in ("average-pooling", "global")}


def as_the_right_one(place, wrong):
    """A mistake with the right function's signature; with `printed` it calls the right function.
    wrong: takes all arguments by position."""
    right = resolve_name(place)
    signature = inspect.signature(right)

    @functools.wraps(right)
    def mistaken(*args, **options):
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        layer = bound.arguments.get("self")
        if bound.arguments.get("printed") or getattr(layer, "printed", ()):
            return right(*args, **options)
        return wrong(*bound.args)

    return mistaken


MISTAKES = {place: [(name, as_the_right_one(place, wrong)) for name, wrong in mistakes.items()]
            for place, mistakes in WRONG.items()}
