"""Classic mistakes: each equation as somebody who misread it would write it, in a line or two.

    MISTAKES["semmatch.difference_scores"]    [("the bars left out", function), ...]

A key is the right function's place, "module.function" or "module.Class.method". A mistake takes the
arguments of the right function, so that a program can name the mistake in a reader's function: the
one that returns the same. tests/check_mistakes.py puts each mistake in the right function's place,
as an attribute of its method's class, where a reader's function would stand; the oracle must fail.
"""
import numpy as np
import torch
import torch.nn.functional as F

import printed
from bert_min import attention, attention_weights
from priors import (TfIdf, dependency_matrix, relation_matrix, subgraph_similarity,
                    tree_similarity)
from reread import (Choice, LadraNet, attentive_pooling, choose, choose_left, coverage,
                    dynamic_sequential_attention, layer_mix, phrase_cnn, probability_fusion, reread,
                    stacked_gru)
from semmatch import (calibrated_attention, co_attention, difference_attention, difference_scores,
                      filtration_gate, gated_fusion, joined_signal, knowledge_factor,
                      knowledge_scores, mean_attention_factor, spread_prior)
from support.kernels import additive_scores
from train import l2_ratio


class Other:
    """An object, or a module, in which some names mean something else."""

    def __init__(self, like, **names):
        self.like = like
        vars(self).update(names)

    def __getattr__(self, name):
        return getattr(self.like, name)


def guided_by(scores):
    """Guided attention whose scores (B, L, L) a function of keys, queries and w computes."""
    def guided_attention(values, guide, mask, W_values, W_guide, w):
        keys, queries = W_values(values), W_guide(guide)
        weights = attention_weights(scores(keys, queries, w.weight[0]), mask)
        return weights @ values, weights

    return guided_attention


def phrases_to_the_right(hidden, mask, first, second):
    """phrase_cnn whose layers both have their odd place of padding on the right."""
    states, gone = hidden.transpose(1, 2), ~mask[:, None]
    for layer in (first, second):
        extra = layer.kernel_size[0] - 1
        states = layer(F.pad(states.masked_fill(gone, 0.0), (extra // 2, extra - extra // 2)))
        states = states.relu() if layer is first else states
    return states.masked_fill(gone, 0.0).transpose(1, 2)


def masked_softmax(scores, mask, axis=-1, fill=-1e30):
    mask = mask.reshape(len(mask), *[1] * (scores.dim() - mask.dim()), *mask.shape[1:])
    return scores.masked_fill(~mask, fill).softmax(axis)


def mean_of_logarithms(hidden, scores):
    ln_omega = attention_weights(scores, scores > -torch.inf).log()
    return (ln_omega + ln_omega.mT) / 2, co_attention(hidden, scores)[1]


# The right methods, under names that stay when a test puts a mistake in a method's place.
judge_pieces, weigh, clue_of = LadraNet.forward, TfIdf.weights, Choice.clue
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
WRONG["bert_min.attention"] = {
    "no root": lambda q, *rest, **more: attention(q * q.shape[-1] ** 0.5, *rest, **more)}

# DABERT
WRONG["semmatch.difference_scores"] = {
    "the bars left out": printed.difference_scores,
    "squares": lambda q, k: (q[..., :, None, :] - k[..., None, :, :]).square().sum(-1)}
WRONG["semmatch.difference_attention"] = {
    "more weight for what is alike": lambda q, k, v, mask, dropout=0.0, scores=difference_scores:
        difference_attention(q, k, v, mask, dropout, lambda q, k: -scores(q, k))}
WRONG["semmatch.guided_attention"] = {
    "⊕ as concatenation, so that the guide cancels": guided_by(
        lambda keys, queries, w: (keys.tanh() @ w)[:, None] + (queries.tanh() @ w)[:, :, None]),
    "guide and value exchanged": guided_by(
        lambda keys, queries, w: additive_scores(queries, keys, w))}
WRONG["semmatch.joined_signal"] = {
    "d̄ before d": lambda signal, found, W: joined_signal(found, signal, W),
    "no tanh": lambda signal, found, W: W(torch.cat([signal, found], -1))}
WRONG["semmatch.gated_fusion"] = {
    "the signals exchanged": lambda sem, other, *rest: gated_fusion(other, sem, *rest)}
WRONG["semmatch.filtration_gate"] = {
    "s left out": printed.filtration_gate,
    "a gate of v itself":
        lambda s, v, W_v, *rest: filtration_gate(s, v, torch.nn.Identity(), *rest)}

# DAFA
WRONG["priors.tree_similarity"] = {
    "θ and 1 exchanged": lambda a, b, theta=2.0, root=True:
        theta * tree_similarity(a, b, 1 / theta, root),
    "a ROOT that equals nothing": lambda a, b, theta=2.0, root=True:
        tree_similarity(a, b, theta, False)}
WRONG["priors.subgraph_similarity"] = {
    "α for each pair of children": printed.subgraph_similarity,
    "the root first, the leaves last":
        lambda a, *rest: subgraph_similarity(Other(a, depths=-a.depths), *rest),
    "the last word first, not the deepest": lambda a, *rest: subgraph_similarity(
        Other(a, depths=np.arange(len(a.depths))), *rest)}
WRONG["priors.TfIdf.weights"] = {
    "unit length": lambda self, words: weigh(self, words) / np.linalg.norm(weigh(self, words))}
WRONG["priors.dependency_matrix"] = {
    "the weights of a alone": lambda M, S, tf_a, tf_b:
        dependency_matrix(M, S, tf_a, np.ones_like(tf_b)),
    "no S": lambda M, S, tf_a, tf_b: dependency_matrix(M, 0 * S, tf_a, tf_b)}
WRONG["semmatch.spread_prior"] = {
    "the prior transposed": lambda prior, index, segment, elsewhere:
        spread_prior(prior, index, 1 - segment, elsewhere),
    "no block of b with a": lambda prior, index, segment, elsewhere: spread_prior(
        prior, index, segment, elsewhere).masked_fill(segment[:, :, None] == 1, elsewhere),
    "words of b counted no further than those of a": lambda prior, index, *rest: spread_prior(
        prior, index.clamp(max=prior.shape[1] - 1), *rest),
    "special tokens that take part":
        lambda prior, index, *rest: spread_prior(prior, index.clamp(0), *rest)}
WRONG["semmatch.dependency_factor"] = {
    "no 1 added": lambda M_F: (M_F.log(), 0.0),
    "no logarithm": lambda M_F: (1 + M_F, 0.0)}
WRONG["semmatch.calibrated_attention"] = {
    "scores multiplied": printed.calibrated_attention,
    "M divided by the root, too": lambda q, k, v, mask, ln_M, *rest:
        calibrated_attention(q, k, v, mask, ln_M / q.shape[-1] ** 0.5, *rest)}

# External knowledge
WRONG["semmatch.knowledge_scores"] = {
    "no root": printed.knowledge_scores,
    "G divided by the root, too":
        lambda hidden, G: knowledge_scores(hidden, G / hidden.shape[-1] ** 0.5)}
WRONG["semmatch.relation_indicator"] = {
    "all relations at once": lambda relations: relations.all(-1),
    "no co-hyponyms": printed.relation_indicator}
WRONG["priors.relation_matrix"] = {
    "hypernym and hyponym exchanged":
        lambda facts_a, facts_b: relation_matrix(facts_a, facts_b)[..., [0, 1, 3, 2, 4]],
    "antonyms are synonyms, too": lambda *both: relation_matrix(*both) | (
        relation_matrix(*both)[..., 1:2] & np.eye(5, dtype=bool)[0])}
WRONG["semmatch.co_attention"] = {"a mean of logarithms": mean_of_logarithms}
WRONG["semmatch.knowledge_factor"] = {
    "no mean": lambda ln_K, cross: torch.where(cross, ln_K, 0.0),
    "the mean over all tokens": lambda ln_K, cross: torch.where(
        cross, ln_K - ln_K.exp().mean((1, 2), keepdim=True).log(), 0.0)}

# Equal words
WRONG["semmatch.mean_attention_factor"] = {
    "no mean over the columns": lambda scores: knowledge_factor(
        scores.log_softmax(-1), scores.isfinite()),
    "no factor between the sentences": lambda scores: 0 * mean_attention_factor(scores)}
WRONG["train.l2_ratio"] = {
    "no centre": lambda step, full_step=100_000, full_ratio=0.9e-5:
        l2_ratio(step + full_step / 2, full_step, full_ratio)}

# DRr-Net
WRONG["reread.stacked_gru"] = {
    "padding that is read": lambda x, mask, grus: stacked_gru(x, torch.ones_like(mask), grus)}
WRONG["reread.attentive_pooling"] = {
    "the softmax over an axis of size 1": lambda states, mask, W, w:
        ((states * mask[..., None]).sum(1), mask.to(states.dtype)),
    "padding that is read": lambda states, mask, W, w:
        attentive_pooling(states, torch.ones_like(mask), W, w)}
for function in (choose, choose_left):
    WRONG[f"reread.{function.__name__}"] = {
        "no clue": lambda states, keys, mask, clue, *rest, function=function:
            function(states, keys, mask, 0 * clue, *rest)}
WRONG["reread.choose_left"] |= {
    "a spent word that is read": lambda *args: choose_left(*args[:-1], args[-1].clamp(min=2e-6)),
    "no coverage": lambda *args: choose_left(*args[:-1], torch.ones_like(args[-1]))}
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
    "odd padding on one side twice": phrases_to_the_right,
    "no mask between the layers": lambda hidden, mask, *layers: phrase_cnn(
        hidden * mask[..., None], torch.ones_like(mask), *layers) * mask[..., None]}
WRONG["reread.read_limit"] = {
    "no limits": printed.read_limit}
WRONG["reread.coverage"] = {
    "no new start": printed.coverage,
    "padding that has to be spent, too": lambda left, read, phi, mask:
        coverage(left, read, phi, torch.ones_like(mask))}
WRONG["reread.mixture"] = {"no token in the sum": printed.mixture}
WRONG["reread.dynamic_sequential_attention"] = {
    "coverage that never falls": lambda *args: dynamic_sequential_attention(
        *args[:9], lambda left, *_: left, *args[10:])}
WRONG["reread.Choice.clue"] = {
    "choices that do not know each other": lambda self, h, of_guide, chosen:
        clue_of(self, h, of_guide, [])}
WRONG["reread.LadraNet.forward"] = {
    f"without {part}": lambda self, *rest, part=part, **named: judge_pieces(
        Other(self, without=self.without | {part}), *rest, **named)
    for part in ("average-pooling", "global")}


MISTAKES = {place: [*mistakes.items()] for place, mistakes in WRONG.items()}
