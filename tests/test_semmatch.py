"""semmatch.py against its papers: oracles in plain loops, and properties (more in test_methods)."""
import itertools

import pytest
import torch

from bert_min import SelfAttention, split_heads
from methods import (ATTENTIONS, METHODS, A, B, D, H, K, L, M, N, against, config, each_form,
                     equation, large, looked, masks, method, normal,
                     prior_of, same, silent, weights_of, words_matrix)
from oracles import common, dabert, dafa, knowledge
from semmatch import spread_prior

BIASED = {  # maps that have a bias on the page
    "dabert": "W_a W_dbar W_dstar W_astar W_dhat W_ahat W_l W_v",
    "dafa": "W_s W_dstar W_dhat W_shat W_l W_v",
    "knowledge": "W_osem W_ohatknw W_otildeknw W_otildesem W_y W_gfuse W_gfilter"}


def variants():
    """name, scope, printed, without: each form, and each ablation as intended and as printed."""
    for name, paper in ATTENTIONS.items():
        for form in [set(), *({number} for number in sorted(paper.PRINTED)), {*paper.PRINTED}]:
            yield name, "hidden", form, set()
        yield name, "head", set(), set()
        for part in sorted(paper.ABLATIONS):
            yield name, "hidden", set(), {part}
            yield name, "head", {*paper.PRINTED}, {part}


def words():
    """word_index, segment for `masks`: words of one and two pieces, specials, a pair of padding."""
    return (torch.tensor([[-1, 0, 12, 12, 5, 16, -1], [4, 7, -1, 0, 3, -1, -1], [-1] * 7]),
            torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0], [0] * 7]))


def test_aligned_attention_oracle():
    """In three of five heads the factor is Knowledge's K_prior over its mean, in the others 1."""
    made, prior = METHODS["aligned"], normal(1, N, M, seed=1)
    layer = large(made(config(num_heads=5), sharpness=2.0, share=0.6))
    hidden, in_a, in_b = normal(1, N + M + 3, D), slice(1, N + 1), slice(N + 2, -1)
    places = (torch.tensor([[-1, *range(N), -1, *range(M), -1]]),
              torch.tensor([[0] * (N + 2) + [1] * (M + 1)]))
    want, *_ = knowledge.co_attention(hidden[0, in_a].tolist(), hidden[0, in_b].tolist(),
                                      (2 * prior[0]).tolist())
    want = torch.tensor(want, dtype=torch.float64)
    factors = torch.ones(5, N + M + 3, N + M + 3).double()
    factors[:3, in_a, in_b] = want / want.mean()
    factors[:3, in_b, in_a] = factors[:3, in_a, in_b].mT
    bias, mask = layer.spread(prior, *places), torch.ones(1, N + M + 3).bool()
    same(bias[0].exp(), factors)
    got, seen = looked(layer, hidden, mask, bias)
    for head, factor in enumerate(factors.tolist()):
        rows = [x[0, head].tolist() for x in layer.project(hidden)]
        mixed, weights = common.calibrated_attention(*rows, factor, mask[0].tolist(), False)
        same(seen["calibrated"][0, head], weights)
        same(split_heads(got, 5)[0, head], mixed)


@pytest.mark.parametrize("name, scope, printed, without", [*variants()])
def test_attention_oracle(name, scope, printed, without):
    """A whole method and its trace against the loops; the same output without a trace. Every
    parameter learns, but a key's bias, which cancels."""
    gamma = {"gamma": 2.5} if name == "knowledge" else {}       # a product would hide γ = 1
    layer = method(name, printed=printed, without=without, scope=scope, **gamma)
    hidden = normal(B, L, D, seed=8)
    matrix = words_matrix(name == "knowledge", B, N, M)
    prior = None if name == "dabert" else layer.spread(matrix, *words())
    P, rest = weights_of(layer), (H, scope, printed, without)
    got, trace = looked(layer, hidden, masks(), prior)
    same(layer(hidden, masks(), prior), got)

    def loop(states, mask, *known):
        if name == "dabert":
            out, seen = dabert.layer(P, states, mask, *rest)
        elif name == "dafa":
            out, seen = dafa.layer(P, states, known, mask, *rest)
        else:
            known = *known, 0.0 if "prior" in without else 2.5
            out, seen = knowledge.layer(P, states, known, mask, *rest)
        assert seen.keys() == trace.keys()
        return out, *(seen[part] for part in trace)

    against((got, *trace.values()), loop, hidden, masks(), matrix, *words())
    assert not any(x.requires_grad for x in trace.values())             # no graph is kept alive
    if not printed:
        assert silent(layer, got) <= {"key.bias"}


@pytest.mark.parametrize("name", ["dafa", "knowledge"])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_larger_prior_never_lowers_its_own_weight(name, scale):
    """If M_F or G(k_ij) of two words grows, neither word gives the other less weight."""
    layer, hidden = method(name), normal(B, L, D, scale=scale)
    prior = prior_of(layer)
    _, before = looked(layer, hidden, masks(), prior)
    for i, j in itertools.combinations(range(L), 2):
        more = prior.clone()
        more[:, [i, j], [j, i]] += 3.0
        _, after = looked(layer, hidden, masks(), more)
        gain = (after["calibrated"] - before["calibrated"])[..., [i, j], [j, i]]
        assert (gain >= -1e-9).all()


@pytest.mark.parametrize("printed", [set(), {6}])
def test_neutral_prior_is_plain_attention(printed):
    """With it the average of both signals is the plain signal."""
    layer = method("dafa", without={"fusion"}, printed=printed)
    hidden, prior = normal(B, L, D), layer.neutral(words_matrix(False, B, N, M))
    assert (prior == (1 if printed else 0)).all()
    plain = large(SelfAttention(config()))(hidden, masks())
    same(layer(hidden, masks(), layer.spread(prior, *words())), plain)


@each_form
def test_scores_are_wide(printed):
    """bfloat16 inputs under autocast give the float32 scores of the rounded inputs."""
    q, k = (normal(B, H, L, K, seed=i).bfloat16() for i in (1, 2))
    hidden = normal(B, L, D).bfloat16()
    G = spread_prior(normal(B, N, M).float(), *words(), -torch.inf)
    for name, scores, inputs in (("dabert", "difference_scores", (q, k)),
                                 ("knowledge", "knowledge_scores", (hidden, G))):
        scores = equation(name, scores, {1, 4} if printed else ())
        with torch.autocast("cpu", torch.bfloat16):
            got = scores(*inputs)
        assert got.dtype == torch.float32
        same(got, scores(*(x.double() for x in inputs)), 1e-4)


@each_form
@pytest.mark.parametrize("name", ATTENTIONS)
def test_biases_stand_where_the_paper_has_them(name, printed):
    layer = method(name, printed=ATTENTIONS[name].PRINTED if printed else ())
    maps = {key: part for key, part in layer.named_children() if "_" in key}
    w = {key for key, part in maps.items() if part.weight.shape == (1, 2 * A)}
    biased = {key for key, part in maps.items() if part.bias is not None}
    assert len(w) == 2 * printed and biased == {*BIASED[name].split()} | w
