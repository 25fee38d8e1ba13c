"""semmatch.py against its papers: oracles in plain loops, and properties (more in test_methods)."""
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bert_min
from bert_min import SelfAttention, split_heads
from methods import (ATTENTIONS, METHODS, A, B, D, H, K, L, M, N, against, config, each_form,
                     equation, large, linear, lists, looked, masks, method, normal,
                     positive, prior_of, quick, related, same, silent, weights_of)
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


def packed():
    """word_index, segment (1, N + M + 3) of `[CLS] a [SEP] b [SEP]`, each word one piece."""
    return (torch.tensor([[-1, *range(N), -1, *range(M), -1]]),
            torch.tensor([[0] * (N + 2) + [1] * (M + 1)]))


# ---- Each equation against its loops ------------------------------------------------------------

Q, KEYS, V = (normal(B, 1, L, K, seed=i) for i in range(3))             # one head
SEM, OTHER = normal(B, L, D, seed=3), normal(B, L, D, seed=4)


def test_plain_attention_oracle():
    """As it is noted, and by the kernel that is used where nobody looks."""
    got, seen = looked(bert_min.attention, Q, KEYS, V, masks())
    against((got[:, 0], seen["attention"][:, 0]), common.attention,
            Q[:, 0], KEYS[:, 0], V[:, 0], masks())
    same(bert_min.attention(Q, KEYS, V, masks()), got)


@each_form
def test_calibrated_attention_oracle(printed):
    M_F = positive(B, L, L)
    calibrated_attention = equation("dafa", "calibrated_attention", {6} if printed else ())
    got, seen = looked(calibrated_attention, Q, KEYS, V, masks(), M_F if printed else M_F.log())
    against((got[:, 0], seen["calibrated"][:, 0]),
            lambda *row: common.calibrated_attention(*row, printed),
            Q[:, 0], KEYS[:, 0], V[:, 0], M_F, masks())


@pytest.mark.parametrize("printed", [set(), {3}, {4}, {3, 4}], ids=str)
def test_difference_attention_oracle(printed):
    """With the scores of Eq. (4), which the page prints without bars. As printed, the mask leaks:
    M = -10⁴ only cancels the masked token's difference of 10⁴."""
    keys = KEYS.clone()
    keys[1, 0, 2] = 1e4 / K
    scores = equation("dabert", "difference_scores", printed)
    got, seen = looked(equation("dabert", "difference_attention", printed), Q, keys, V, masks(),
                       0.0, scores)
    against((got[:, 0], seen["difference"][:, 0]),
            lambda *row: dabert.difference_attention(*row, printed),
            Q[:, 0], keys[:, 0], V[:, 0], masks())


@each_form
def test_guided_attention_oracle(printed):
    number = {7} if printed else ()
    w = large(equation("dafa", "score_map", number)(A), 5)
    assert w.weight.shape == (1, 2 * A if printed else A) and (w.bias is not None) == printed
    maps = [linear(D, A, 3, bias=False), linear(D, A, 4), w]
    against(equation("dafa", "guided_attention", number)(SEM, OTHER, masks(), *maps),
            lambda *row: common.guided_attention(*row, *map(lists, maps), printed),
            SEM, OTHER, masks())


def test_joined_signal_oracle():
    W = linear(2 * D, D, 3)
    against(equation("dabert", "joined_signal")(SEM, OTHER, W), lambda *row: [
        common.tanh(common.affine(lists(W), a + b)) for a, b in zip(*row)], SEM, OTHER)


@pytest.mark.parametrize("bias", [False, True])
def test_gated_fusion_oracle(bias):
    """The gate has a bias, as in Knowledge, or none, as in the others."""
    W_s, W_d, W_g = linear(D, D, 3), linear(D, D, 4), linear(2 * D, 1, 5, bias)
    against(equation("dafa", "gated_fusion")(SEM, OTHER, W_s, W_d, W_g),
            lambda s, d: common.gated_fusion(d, s, *map(lists, (W_d, W_s, W_g))), SEM, OTHER)


@each_form
@pytest.mark.parametrize("W_v, bias", [(torch.nn.Identity(), True), (linear(D, D, 3), False)])
def test_filtration_gate_oracle(printed, W_v, bias):
    """The gate has a bias and no W_v, as in Knowledge, or no bias and W_v, as in the others."""
    maps = W_v, linear(D, D, 4), linear(2 * D, 1, 5, bias)
    against(equation("dafa", "filtration_gate", {9} if printed else ())(SEM, OTHER, *maps),
            lambda *row: common.filtration_gate(*row, *map(lists, maps), printed), SEM, OTHER)


@each_form
def test_relation_indicator_oracle(printed):
    """The paper's own example is a co-hyponym, the last of the relations."""
    relations = related(B, N, M)
    relations[0, 0, 0] = torch.tensor([False] * 4 + [True])
    got = equation("knowledge", "relation_indicator", {2} if printed else ())(relations)
    against(got.flatten().float(), lambda k_ij: knowledge.relation_indicator(k_ij, printed),
            relations.flatten(0, 2))


# Hidden states of N and M words; a matrix over the words, and over all tokens.
HIDDEN, BETWEEN = normal(1, N + M + 3, D), 2 * normal(1, N, M, seed=1)
SPREAD = spread_prior(BETWEEN, *packed(), -torch.inf)
IN_A, IN_B = slice(1, N + 1), slice(N + 2, -1)                          # the words in `packed`


def test_co_attention_oracle():
    log_prior, context = equation("knowledge", "co_attention")(HIDDEN, SPREAD)
    assert torch.equal(log_prior.isinf(), SPREAD.isinf())
    assert torch.equal((context != 0).any(-1), packed()[0] >= 0)
    against((log_prior[:, IN_A, IN_B].exp(), context[:, IN_A], context[:, IN_B]),
            knowledge.co_attention, HIDDEN[:, IN_A], HIDDEN[:, IN_B], BETWEEN)


def test_aligned_attention_oracle():
    """In three of five heads the factor is Knowledge's K_prior over its mean, in the others 1."""
    made, prior = METHODS["aligned"], normal(1, N, M, seed=1)
    layer = large(made(config(num_heads=5), sharpness=2.0, share=0.6))
    want, *_ = knowledge.co_attention(HIDDEN[0, IN_A].tolist(), HIDDEN[0, IN_B].tolist(),
                                      (2 * prior[0]).tolist())
    want = torch.tensor(want, dtype=torch.float64)
    factors = torch.ones(5, N + M + 3, N + M + 3).double()
    factors[:3, IN_A, IN_B] = want / want.mean()
    factors[:3, IN_B, IN_A] = factors[:3, IN_A, IN_B].mT
    bias, mask = layer.spread(prior, *packed()), torch.ones(1, N + M + 3).bool()
    same(bias[0].exp(), factors)
    got, seen = looked(layer, HIDDEN, mask, bias)
    for head, factor in enumerate(factors.tolist()):
        rows = [x[0, head].tolist() for x in layer.project(HIDDEN)]
        mixed, weights = common.calibrated_attention(*rows, factor, mask[0].tolist(), False)
        same(seen["calibrated"][0, head], weights)
        same(split_heads(got, 5)[0, head], mixed)
    same(looked(layer, HIDDEN, mask, 0 * bias)[0], layer.plain(HIDDEN, mask))


@pytest.mark.parametrize("name, scope, printed, without", [*variants()])
def test_attention_oracle(name, scope, printed, without):
    """A whole method and its trace against the loops; the same output without a trace. Every
    parameter learns, but a key's bias, which cancels."""
    gamma = {"gamma": 2.5} if name == "knowledge" else {}       # a product would hide γ = 1
    layer = method(name, printed=printed, without=without, scope=scope, **gamma)
    hidden = normal(B, L, D, seed=8)
    matrix = related(B, N, M) if name == "knowledge" else positive(B, N, M)
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


@quick
@given(st.data(), st.integers(0, 3), st.integers(0, 2), st.sampled_from([0.0, 1.0, -torch.inf]))
def test_spread_prior_oracle(data, n, m, elsewhere):
    """Words of one and several pieces, specials, padding, sentences without words, both blocks."""
    a, b = (data.draw(st.lists(st.integers(-1, top - 1), max_size=4)) for top in (n, m))
    padding = data.draw(st.integers(0, 2))
    index = [-1, *a, -1, *b, -1] + [-1] * padding
    segment = [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0] * padding
    prior = normal(2, n, m, seed=len(index))
    got = spread_prior(prior, torch.tensor([index] * 2), torch.tensor([segment] * 2), elsewhere)
    assert got.tolist() == [common.spread(one, index, segment, elsewhere) for one in prior.tolist()]


# ---- Properties of every method -----------------------------------------------------------------

@pytest.mark.parametrize("name", ["dafa", "knowledge"])
@quick
@given(st.integers(0, 999), st.sampled_from(["hidden", "head"]), st.sampled_from([0.0, 1.0, 30.0]),
       st.integers(0, L - 1), st.integers(0, L - 1), st.floats(0.01, 100))
def test_larger_prior_never_lowers_its_own_weight(name, seed, scope, scale, i, j, growth):
    """If M_F or G(k_ij) of two words grows, neither word gives the other less weight."""
    layer, mask = method(name, seed, scope=scope), masks()
    hidden, prior = normal(B, L, D, seed=seed, scale=scale), prior_of(layer, mask, seed)
    more = prior.clone()
    more[:, i, j] = prior[:, i, j] + growth
    more[:, j, i] = prior[:, j, i] + growth
    before, after = (looked(layer, hidden, mask, x)[1]["calibrated"] for x in (prior, more))
    gain = after - before
    assert (gain[..., i, j] >= -1e-9).all() and (gain[..., j, i] >= -1e-9).all()


@pytest.mark.parametrize("printed", [set(), {6}])
def test_neutral_prior_is_plain_attention(printed):
    """With it the average of both signals is the plain signal."""
    layer = method("dafa", without={"fusion"}, printed=printed)
    hidden, prior = normal(B, L, D), layer.neutral(positive(B, N, M))
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


# ---- The methods in the encoder -----------------------------------------------------------------

@each_form
@pytest.mark.parametrize("name", ATTENTIONS)
def test_biases_stand_where_the_paper_has_them(name, printed):
    layer = method(name, printed=ATTENTIONS[name].PRINTED if printed else ())
    maps = {key: part for key, part in layer.named_children() if "_" in key}
    w = {key for key, part in maps.items() if part.weight.shape == (1, 2 * A)}
    biased = {key for key, part in maps.items() if part.bias is not None}
    assert len(w) == 2 * printed and biased == {*BIASED[name].split()} | w
