"""semmatch.py against its papers: oracles in plain loops (oracles/), properties, options, errors.

Sizes are distinct primes (d is H times k). What holds for all methods is one test over METHODS.
"""
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import bert_min
from bert_min import SelfAttention
from oracles import common, dabert, dafa, knowledge
from semmatch import (DabertAttention, DafaAttention, KnowledgeAttention, Matcher,
                      calibrated_attention, co_attention, difference_attention, difference_scores,
                      filtration_gate, gated_fusion, guided_attention, knowledge_scores,
                      relation_indicator, spread_prior)
from tensors import (against, check_error, check_finite, check_trace, config, far, labelled,
                     large, linear, lists, normal, quick, same, silent, weights_of)

B, H, K, L, A, N, M = 3, 2, 5, 7, 11, 13, 17
D = H * K
GAMMA = 2.5                     # not the default 1, which a product hides
OUTSIDE = float("-inf")


# ---- Material -----------------------------------------------------------------------------------

def facts(attention, numbers, ablations, together=(), **rest):
    """Of a method: its forms, nothing as typeset, each number alone, all; and its ablations."""
    forms = [frozenset(), *(frozenset({number}) for number in numbers), frozenset(numbers)]
    ablations = [frozenset({part}) for part in ablations.split()]
    return SimpleNamespace(attention=attention, forms=forms,
                           ablations=ablations + list(map(frozenset, together)), **rest)


METHODS = {
    "dabert": facts(DabertAttention, (3, 4, 5, 7),
                    "affinity difference guide gate-fusion gate-filter regulation",
                    [{"gate-fusion", "gate-filter"}, {"guide", "difference"}],
                    second="difference", average="regulation", guiding=5, guides="W_a W_dbar",
                    biased="W_a W_dbar W_dstar W_astar W_dhat W_ahat W_l W_v"),
    "dafa": facts(DafaAttention, (6, 7, 9), "cross-attention gates gate-fusion gate-filter fusion",
                  [{"cross-attention", "gates"}],
                  second="calibrated", average="fusion", guiding=7, guides="W_s W_dstar",
                  biased="W_s W_dstar W_dhat W_shat W_l W_v"),
    "knowledge": facts(KnowledgeAttention, (1, 2, 5, 6, 8), "fusion prior guide gates",
                       [{"guide", "gates"}, {"prior", "fusion"}],
                       second="calibrated", average="fusion", guiding=6, guides="W_osem W_ohatknw",
                       biased="W_osem W_ohatknw W_otildeknw W_otildesem W_y W_gfuse W_gfilter")}

each_scope = pytest.mark.parametrize("scope", ["hidden", "head"])
each_form = pytest.mark.parametrize("printed", [False, True], ids=["intended", "printed"])
each_method = pytest.mark.parametrize("name", METHODS)
both_ends_of_each = pytest.mark.parametrize("name, printed", [
    pytest.param(name, form, id=f"{name}-{labelled(form)}")
    for name, one in METHODS.items() for form in (one.forms[0], one.forms[-1])])


def variants(name):
    """Each form whole, and each ablation in the intended form and all as typeset."""
    one = METHODS[name]
    ends = itertools.product((one.forms[0], one.forms[-1]), one.ablations)
    pairs = [*((form, frozenset()) for form in one.forms), *ends]
    return pytest.mark.parametrize("printed, without", pairs, ids=labelled)


def method(name, seed=1, scale=1.0, sizes=None, **options):
    attention = METHODS[name].attention(config(**(sizes or {})), attention_size=A, **options)
    return large(attention, seed, scale)


def masks():
    """A whole pair, one with padding inside and at the end, one of padding only."""
    mask = torch.ones(B, L, dtype=torch.bool)
    mask[1, 2] = mask[1, 5:] = mask[2] = False
    return mask


def words():
    """word_index, segment of `masks`: words of one and two pieces, specials, a pair of padding."""
    return (torch.tensor([[-1, 0, 12, 12, 5, 16, -1], [4, 7, -1, 0, 3, -1, -1], [-1] * 7]),
            torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0], [0] * 7]))


def packed(n, m):
    """word_index, segment (1, n + m + 3) of `[CLS] a [SEP] b [SEP]`, each word one piece."""
    return (torch.tensor([[-1, *range(n), -1, *range(m), -1]]),
            torch.tensor([[0] * (n + 2) + [1] * (m + 1)]))


def positive(*size, seed=0):
    return normal(*size, seed=seed).exp()


def related(*size, seed=0, share=0.15):
    """k_ij of any shape before its axis of relations."""
    return torch.rand(*size, 5, generator=torch.Generator().manual_seed(seed)) < share


def prior_of(name, layer, mask, seed=0):
    """What a layer takes, for words all over the mask."""
    b, length = mask.shape
    if name == "dafa":
        multiplier = positive(b, length, length, seed=seed)             # not even symmetric
        return multiplier if 6 in layer.printed else multiplier.log()
    index = torch.arange(length).expand(b, -1).masked_fill(~mask, -1)
    known = related(b, length, length, seed=seed)
    return layer.spread(known, index, index % 2) if name == "knowledge" else None


@st.composite
def problems(draw, name, **options):
    """A layer of any size, hidden states, maybe all alike, a ragged mask, and a prior."""
    b, h, length, k = (draw(st.integers(1, top)) for top in (3, 3, 6, 4))
    seed, scale = draw(st.integers(0, 999)), draw(st.sampled_from([1e-3, 1.0, 30.0]))
    lengths = draw(st.lists(st.integers(0, length), min_size=b, max_size=b))
    mask = torch.arange(length) < torch.tensor(lengths)[:, None]
    drawn = {"scope": draw(st.sampled_from(["hidden", "head"])),
             "printed": draw(st.sampled_from(METHODS[name].forms))}
    layer = method(name, seed, 1.0, dict(hidden_size=h * k, num_heads=h), **(drawn | options))
    hidden = normal(b, length, h * k, seed=seed) * scale
    if draw(st.booleans()):
        hidden[:] = hidden[:, :1]
    return layer, hidden, mask, prior_of(name, layer, mask, seed)


# ---- Each equation against its loops ------------------------------------------------------------

def heads(x):
    """Heads in the batch axis; what has none, for each head."""
    return x.flatten(0, 1) if x.dim() == 4 else x.repeat_interleave(H, 0)


@each_form
def test_calibrated_attention_oracle(printed):
    """DAFA Eq. (6), Knowledge Eq. (5), written out and in the fused kernel."""
    qkv, M, trace = [normal(B, H, L, K, seed=i) for i in range(3)], positive(B, L, L), {}
    prior = M if printed else M.log()
    got = calibrated_attention(*qkv, prior, masks(), printed=printed, trace=trace)
    against((heads(got), heads(trace["calibrated"])),
            lambda *one: common.calibrated_attention(*one, printed),
            *(heads(x) for x in (*qkv, M, masks())))
    same(calibrated_attention(*qkv, prior, masks(), printed=printed), got)


@each_form
def test_difference_scores_oracle(printed):
    """DABERT Eq. (4), and by hand (0, 0) against (3, -4) and (1, 0)."""
    q, k = normal(B, H, L, K, seed=1), normal(B, H, L, K, seed=2)
    k[0, 1, 3] = q[0, 1, 5]                                             # no difference at all
    against(heads(difference_scores(q, k, printed)),
            lambda *one: dabert.difference_scores(*one, printed), heads(q), heads(k))
    hand = torch.tensor([[[[0.0, 0.0], [0.0, 0.0]]]]), torch.tensor([[[[3.0, -4.0], [1.0, 0.0]]]])
    assert difference_scores(*hand, printed).tolist() == [[[[1, -1] if printed else [7, 1]] * 2]]


@pytest.mark.parametrize("printed", [*METHODS["dabert"].forms, frozenset({3, 4})], ids=labelled)
def test_difference_attention_oracle(printed):
    """DABERT Eqs. (2), (3). One masked key is so different that M, over √d_k, leaves it weight."""
    q, k, v = (normal(B, H, L, K, seed=i) for i in range(3))
    k[1, :, 2] += (-1 if 4 in printed else 1) * 1e4 / K
    trace = {}
    got = difference_attention(q, k, v, masks(), printed=printed, trace=trace)
    against((heads(got), heads(trace["difference"])),
            lambda *one: dabert.difference_attention(*one, printed),
            *(heads(x) for x in (q, k, v, masks())))


@each_form
def test_guided_attention_oracle(printed):
    """DABERT Eq. (5), first four lines; DAFA Eq. (7); Knowledge Eq. (6)."""
    values, guide, mask = normal(B, L, D, seed=1), normal(B, L, D, seed=2), masks()
    maps = [linear(D, A, 3, bias=False), linear(D, A, 4),
            linear(2 * A if printed else A, 1, 5, bias=printed)]
    against(guided_attention(values, guide, mask, *maps, printed),
            lambda *one: common.guided_attention(*one, *map(lists, maps), printed),
            values, guide, mask)


@pytest.mark.parametrize("gate", [None, False, True], ids=["one half", "no bias", "bias"])
def test_gated_fusion_oracle(gate):
    """DABERT Eq. (6), DAFA Eq. (8); with a bias in the gate Knowledge Eq. (7)."""
    sem, other = normal(B, L, D, seed=1), normal(B, L, D, seed=2)
    W_s, W_d, W_g = linear(D, D, 3), linear(D, D, 4), linear(2 * D, 1, 5, bool(gate))
    maps = lists(W_d), lists(W_s), None if gate is None else lists(W_g)
    against(gated_fusion(sem, other, W_s, W_d, None if gate is None else W_g),
            lambda s, d: common.gated_fusion(d, s, *maps), sem, other)


@each_form
@pytest.mark.parametrize("mapped", [True, False], ids=["W_v", "no W_v"])
@pytest.mark.parametrize("gate", [None, False, True], ids=["open", "no bias", "bias"])
def test_filtration_gate_oracle(printed, mapped, gate):
    """DABERT Eq. (7), DAFA Eq. (9); without W_v and with a bias in the gate Knowledge Eq. (8)."""
    sem, v = normal(B, L, D, seed=1), normal(B, L, D, seed=2)
    W_v, W_l, W_f = linear(D, D, 3), linear(D, D, 4), linear(2 * D, 1, 5, bool(gate))
    maps = W_v if mapped else None, W_l, None if gate is None else W_f
    against(filtration_gate(sem, v, *maps, printed),
            lambda *one: common.filtration_gate(*one, *(W and lists(W) for W in maps), printed),
            sem, v)


@each_form
def test_relation_indicator_oracle(printed):
    """Knowledge Eq. (2); the paper's own example is a co-hyponym, the last of the relations."""
    relations = related(B, N, M)
    relations[0, 0, 0] = torch.tensor([False] * 4 + [True])
    got = relation_indicator(relations, printed)
    assert got.dtype == torch.bool and got[0, 0, 0] != printed
    against(got.flatten().float(), lambda k_ij: knowledge.relation_indicator(k_ij, printed),
            relations.flatten(0, 2))


def by_sides(b, hidden, spread):
    """Pair b of `words`: tokens of a, of b, their states, the numbers between them."""
    i, j = knowledge.sides(*(x[b].tolist() for x in words()))
    return i, j, hidden[b, i].tolist(), hidden[b, j].tolist(), spread[b][i][:, j].tolist()


@each_form
def test_knowledge_scores_oracle(printed):
    """Knowledge Eq. (1)."""
    hidden, G = normal(B, L, D), spread_prior(normal(B, N, M, seed=1), *words(), OUTSIDE)
    got = knowledge_scores(hidden, G, printed)
    same(got, got.mT)
    assert torch.equal(got.isinf(), G.isinf())
    for b in (0, 1):
        i, j, *rest = by_sides(b, hidden, G)
        same(got[b][i][:, j], knowledge.knowledge_scores(*rest, printed))


def test_co_attention_oracle():
    """Knowledge Eqs. (3), (4). Three words against two, two against two, a pair without words."""
    hidden, scores = normal(B, L, D), spread_prior(2 * normal(B, N, M, seed=1), *words(), OUTSIDE)
    log_prior, context = co_attention(hidden, scores)
    same(log_prior, log_prior.mT)
    assert torch.equal(log_prior.isinf(), scores.isinf())
    for b in (0, 1):
        i, j, *rest = by_sides(b, hidden, scores)
        K_prior, c_a, c_b = knowledge.co_attention(*rest)
        same(log_prior[b][i][:, j].exp(), K_prior)
        same(context[b, i + j], c_a + c_b)
    assert torch.equal((context != 0).any(-1), words()[0] >= 0)


def check_layer(name, scope, printed, without):
    """A whole method against its loops, with and without a trace; what the trace holds; and every
    parameter learns, but a key's bias, which cancels."""
    gamma = {"gamma": GAMMA} if name == "knowledge" else {}
    layer = method(name, scope=scope, printed=printed, without=without, **gamma)
    hidden, relations, M_F = normal(B, L, D, seed=8), related(B, N, M), positive(B, N, M)
    known, trace = relations if name == "knowledge" else M_F, {}
    prior = None if name == "dabert" else layer.spread(known, *words())
    P, rest = weights_of(layer), (H, scope, printed, without)
    got = layer(hidden, masks(), prior, trace)
    same(layer(hidden, masks(), prior), got)

    def loop(states, mask, *known):
        if name == "dabert":
            out, seen = dabert.layer(P, states, mask, *rest)
        elif name == "dafa":
            out, seen = dafa.layer(P, states, known, mask, *rest)
        else:
            known = *known, 0.0 if "prior" in without else GAMMA
            out, seen = knowledge.layer(P, states, known, mask, *rest)
        assert seen.keys() == trace.keys()
        return out, *(seen[part] for part in trace)

    against((got, *trace.values()), loop, hidden, masks(), known, *words())
    trace.pop("context", None)                                          # recorded, in no figure
    check_trace(layer, trace, pair=B, head=H, piece=L, gate=1)
    if not printed:
        assert silent(layer, got) <= {"key.bias"}


@each_scope
@variants("dabert")
def test_dabert_attention_oracle(scope, printed, without):
    """Eqs. (1)-(7) in a row, in every option."""
    check_layer("dabert", scope, printed, without)


@each_scope
@variants("dafa")
def test_dafa_attention_oracle(scope, printed, without):
    """Eqs. (6)-(9) in a row, in every option."""
    check_layer("dafa", scope, printed, without)


@each_scope
@variants("knowledge")
def test_knowledge_attention_oracle(scope, printed, without):
    """Eqs. (1)-(8) in a row, in every option."""
    check_layer("knowledge", scope, printed, without)


@quick
@given(st.data(), st.sampled_from([0.0, 1.0, OUTSIDE]))
def test_spread_prior_oracle(data, elsewhere):
    """Words of one and several pieces, specials, padding, sentences without words, both blocks."""
    n, m = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    a, b = (data.draw(st.lists(st.integers(-1, top - 1), max_size=4)) for top in (n, m))
    padding = data.draw(st.integers(0, 2))
    index = [-1, *a, -1, *b, -1] + [-1] * padding
    segment = [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0] * padding
    prior = normal(2, n, m, seed=len(index))
    got = spread_prior(prior, torch.tensor([index] * 2), torch.tensor([segment] * 2), elsewhere)
    assert got.tolist() == [common.spread(one, index, segment, elsewhere) for one in prior.tolist()]


@each_form
def test_what_calibrates_is_spread(printed):
    """DAFA Eq. (6): ln(1 + M_F) and 0 elsewhere, as typeset M_F and 1."""
    M_F, layer = positive(B, N, M), method("dafa", printed={6} if printed else ())
    spread = spread_prior(M_F if printed else M_F.log1p(), *words(), float(printed))
    assert torch.equal(layer.spread(M_F, *words()), spread)


# ---- Properties of every method -----------------------------------------------------------------

@each_method
@quick
@given(st.data())
def test_weights_gates_padding_and_neighbours(name, data):
    """Masked keys get exactly 0, rows sum to 1 (to 0 without a key), gates lie in [0, 1]. A pair
    alone, without its padding, has the same tokens as in its batch; the order of tokens is free."""
    (layer, hidden, mask, prior), trace = data.draw(problems(name)), {}
    whole = layer(hidden, mask, prior, trace)
    for part in trace.keys() - {"prior", "context", "g", "f"}:
        weights, rows = trace[part].reshape(len(mask), -1, *[mask.shape[1]] * 2), mask.any(1)
        if part != "difference" or 3 not in layer.printed:              # which leaks, as typeset
            assert (weights[~rows] == 0).all()
        assert (weights * ~mask[:, None, None])[rows].eq(0).all() and (weights >= 0).all()
        same(weights[rows].sum(-1), torch.ones_like(weights[rows][..., 0]), 1e-12)
    assert all(((trace[gate] >= 0) & (trace[gate] <= 1)).all() for gate in "gf")
    for b, real in enumerate(mask.sum(1).tolist()):
        single = None if prior is None else prior[b:b + 1, :real, :real]
        if real:
            alone = layer(hidden[b:b + 1, :real], mask[b:b + 1, :real], single)
            same(alone[0], whole[b, :real], 1e-9)
    turned = None if prior is None else prior.flip(1, 2)
    same(layer(hidden.flip(1), mask.flip(1), turned), whole.flip(1), 1e-9)


@pytest.mark.parametrize("name", ["dafa", "knowledge"])
@quick
@given(st.data(), st.floats(0.01, 100))
def test_larger_prior_never_lowers_its_own_weight(name, data, growth):
    """M_F of a pair, or G(k_ij): neither word gives the other less."""
    layer, hidden, mask, prior = data.draw(problems(name, printed=frozenset()))
    i, j = (data.draw(st.integers(0, mask.shape[1] - 1)) for _ in range(2))
    more, before, after = prior.clone(), {}, {}
    more[:, i, j] = prior[:, i, j] + growth
    more[:, j, i] = prior[:, j, i] + growth
    layer(hidden, mask, prior, before)
    layer(hidden, mask, more, after)
    gain = after["calibrated"] - before["calibrated"]
    assert (gain[..., i, j] >= -1e-9).all() and (gain[..., j, i] >= -1e-9).all()


@pytest.mark.parametrize("name", ["dafa", "knowledge"])
def test_neutral_prior_is_plain_attention(name):
    """M_F = 0, or tokens all alike without a relation: the average of both signals is the plain."""
    layer, plain = method(name, without={"fusion"}), large(SelfAttention(config()))
    hidden, known = normal(B, L, D), torch.zeros(B, N, M)
    if name == "knowledge":
        hidden, known = hidden[:, :1].expand(-1, L, -1), related(B, N, M) & False
    same(layer(hidden, masks(), layer.spread(known, *words())), plain(hidden, masks()))


@each_method
@each_form
def test_guide_matters_unless_typeset(name, printed):
    """DABERT Eq. (5), DAFA Eq. (7), Knowledge Eq. (6): ⊕ lets the guide cancel in the softmax, all
    rows are one row and the guide's weights never learn; added before tanh it counts."""
    trace, layer = {}, method(name, printed={METHODS[name].guiding} if printed else ())
    dead = silent(layer, layer(normal(B, L, D), masks(), prior_of(name, layer, masks()), trace))
    for part in [part for part in trace if part.endswith("guided")]:
        weights = trace[part][:2]
        assert ((weights - weights[:, :1]).abs().amax((1, 2)) < 1e-12).all() == printed
    for W in METHODS[name].guides.split():
        assert (f"{W}.weight" in dead) == (f"{W}.bias" in dead) == printed


@each_form
def test_closed_filtration_gate(printed):
    """DABERT Eq. (7), DAFA Eq. (9), Knowledge Eq. (8) with f → 0: as typeset nothing is left;
    intended, the original feature passes."""
    sem, v, W_f = 1 + positive(B, L, D), normal(B, L, D, seed=1), linear(2 * D, 1, 3)
    W_f.weight.data = torch.cat([torch.full((1, D), -1e3), torch.zeros(1, D)], 1).double()
    got, _ = filtration_gate(sem, v, linear(D, D, 4), linear(D, D, 5), W_f, printed)
    assert torch.equal(got, sem * (not printed))


@each_scope
@both_ends_of_each
@pytest.mark.parametrize("length, scale, dtype, autocast", [
    (L, 1e5, torch.float32, False), (L, 1e5, torch.bfloat16, False), (L, 1e3, torch.float32, True),
    (L, 0.0, torch.float32, True), (1, 1e-3, torch.bfloat16, False)])
def test_no_nan(name, scope, printed, length, scale, dtype, autocast):
    """Scores of 1e5 and more, padding only, a sentence without words, one token, bfloat16."""
    layer = method(name, scope=scope, printed=printed).to(dtype)
    hidden = (normal(B, L, D)[:, :length] * scale).to(dtype).requires_grad_()
    prior = prior_of(name, layer, masks())
    if name == "knowledge":
        index, segment = words()
        prior = layer.spread(related(B, N, M), index.masked_fill(segment[:, -1:] == 0, -1), segment)
    prior = None if prior is None else prior[:, :length, :length].float()
    for trace in (None, {}):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = layer(hidden, masks()[:, :length], prior, trace)
        check_finite(out, [hidden, *layer.parameters()])
    assert all(x.isfinite().all() for x in trace.values())


def test_scores_are_wide():
    """bfloat16 in, under autocast or not: scores are float32, those of the rounded numbers."""
    q, k = (normal(B, H, L, K, seed=i).bfloat16() for i in (1, 2))
    hidden, G = normal(B, L, D).bfloat16(), spread_prior(normal(B, N, M).float(), *words(), OUTSIDE)
    both = (difference_scores, (q, k)), (knowledge_scores, (hidden, G))
    for wide, printed, (scores, inputs) in itertools.product((True, False), (True, False), both):
        with torch.autocast("cpu", torch.bfloat16, enabled=not wide):
            got = scores(*inputs, printed)
        assert got.dtype == torch.float32
        same(got, scores(*(x.double() for x in inputs), printed), 1e-4)
    maps = [linear(D, A, 3, bias=False), linear(D, A, 4), linear(A, 1, 5, bias=False)]
    W_values, W_guide, w = (one.bfloat16() for one in maps)
    out, weights = guided_attention(hidden, hidden.flip(1), masks(), W_values, W_guide, w)
    keys, queries = W_values(hidden).double(), W_guide(hidden.flip(1)).double()
    scores = (keys[:, None] + queries[:, :, None]).tanh() @ w.weight[0].double()
    same(weights, bert_min.attention_weights(scores, masks()), 1e-5)
    assert out.dtype == torch.bfloat16


@each_method
def test_attention_gradcheck(name):
    """In float64, through the whole method to hidden states, in both scopes."""
    for scope in ("hidden", "head"):
        layer = method(name, scope=scope)
        run, prior = layer.requires_grad_(False), prior_of(name, layer, masks())
        hidden = normal(B, L, D).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: run(x, masks(), prior), hidden, fast_mode=True)


# ---- What is printed ----------------------------------------------------------------------------

def difference_of(q, k, mask, printed=()):
    trace = {}
    difference_attention(q, k, k, mask, printed=printed, trace=trace)
    return trace["difference"]


@each_form
def test_difference_as_typeset_is_the_same_for_every_query(printed):
    """DABERT Eq. (4) without bars: ΣQ_i cancels, all queries get one row. Intended, weights stand
    in the order of the distances."""
    q, k, mask = normal(1, H, L, K, seed=1), normal(1, H, L, K, seed=2), masks()[:1]
    weights = difference_of(q, k, mask, {4} if printed else ())
    assert ((weights - weights[:, :, :1]).abs().amax((2, 3)) < 1e-12).all() == printed
    ordered = weights.gather(-1, torch.cdist(q, k, p=1).argsort(-1))
    assert (ordered.diff(dim=-1) > 0).all() != printed


def test_difference_mask_as_typeset_leaks():
    """DABERT Eq. (3): a score of 1e5 outweighs a finite M, which a row without a key ignores."""
    q, k = (torch.zeros(2, 1, 2, K, dtype=torch.float64) for _ in range(2))
    k[0, 0, 1] = 1e5
    mask = torch.tensor([[True, False], [False, False]])
    leaked, kept = difference_of(q, k, mask, {3}), difference_of(q, k, mask)
    assert (leaked[0, 0, :, 1] > 0.99).all() and (kept[0, 0] == torch.tensor([1.0, 0.0])).all()
    assert (leaked[1] == 0.5).all() and (kept[1] == 0).all()


@each_form
def test_calibrated_attention_as_typeset_weakens_negative_scores(printed):
    """DAFA Eq. (6), Knowledge Eq. (5): with a negative q·k a larger prior lowers the weight."""
    q, weights = torch.ones(1, 1, 2, K, dtype=torch.float64), []
    k, mask = torch.stack([-q[0, 0, 0], q[0, 0, 0] * 0])[None, None], torch.ones(1, 2).bool()
    for M in (1.0, 5.0):
        prior, trace = torch.tensor([[[M, 1.0], [1.0, 1.0]]], dtype=torch.float64), {}
        prior = prior if printed else prior.log()
        calibrated_attention(q, k, k, prior, mask, printed=printed, trace=trace)
        weights.append(trace["calibrated"][0, 0, 0, 0])
    assert weights[1] < 0.1 * weights[0] if printed else weights[1] > 2 * weights[0]


@quick
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 999), st.sampled_from([1e-3, 1, 30]))
def test_knowledge_prior_averages_one(n, m, seed, scale):
    """Eq. (5): as typeset, entries average (1/n + 1/m)/2 and none is above 1, so that all scores
    between the sentences shrink; K̃ averages 1, and some pair gains."""
    hidden, relations = normal(1, n + m + 3, D, seed=seed, scale=scale), related(1, n, m, seed=seed)
    for printed, mean in (((), 1.0), ({5}, (1 / n + 1 / m) / 2)):
        layer, trace = method("knowledge", printed=printed), {}
        prior = layer.spread(relations, *packed(n, m))
        layer(hidden, torch.ones(1, n + m + 3, dtype=torch.bool), prior, trace)
        block = trace["prior"][0, 1:n + 1, n + 2:-1]
        same(block.mean(), mean, 1e-9)
        assert block.max() <= 1 + 1e-12 if printed else block.max() >= 1 - 1e-12


@each_form
def test_knowledge_scores_as_typeset_saturate(printed):
    """Eq. (1) with hidden states of a usual size, √d long: a relation with the word that fits least
    moves its row by less than 1e-4; over √d it counts."""
    size, n, m = 257, 5, 7
    hidden = nn.functional.layer_norm(normal(1, n + m + 3, size), (size,))
    none = spread_prior(torch.zeros(1, n, m).double(), *packed(n, m), OUTSIDE)
    scores = knowledge_scores(hidden, none, printed)
    for i in range(1, n + 1):
        j, G = n + 2 + int(scores[0, i, n + 2:-1].argmin()), none.clone()
        G[0, i, j] = G[0, j, i] = 1.0
        moved = knowledge_scores(hidden, G, printed)[0, i].softmax(-1) - scores[0, i].softmax(-1)
        assert (moved.abs().max() < 1e-4) == printed


def test_far_weights_keep_their_logarithm():
    """Scores 2000 apart: exp underflows to 0, ln K_prior and its gradient stay right."""
    scores = torch.full((1, 7, 7), OUTSIDE, dtype=torch.float64)
    for (i, j), s in zip(itertools.product((1, 2), (4, 5)), (0.0, -2000.0, -2000.0, 0.0)):
        scores[0, i, j] = scores[0, j, i] = s
    log_prior, _ = co_attention(normal(1, 7, D), scores.requires_grad_())
    gradient, = torch.autograd.grad(log_prior[0, 1, 5], scores)
    same(log_prior[0, 1, 5], -2000.0)                                   # (e^-2000 + e^-2000)/2
    same(gradient[0, 1, 5] + gradient[0, 5, 1], 1.0)


# ---- The methods in the encoder -----------------------------------------------------------------

def batch(name):
    """Two packed pairs, the second one shorter; a prior over 3 × 2 words for who takes one."""
    mask = torch.tensor([[True] * 8, [True] * 6 + [False] * 2])
    ids = torch.arange(3, 19).view(2, 8) * mask
    segment = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 0, 0]])
    index = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, -1], [-1, 0, 1, -1, 0, -1, -1, -1]])
    prior = {"dafa": positive(2, 3, 2), "knowledge": related(2, 3, 2)}.get(name)
    return [ids, segment, mask, index, prior]


@pytest.mark.parametrize("name", ["bert", *METHODS])
@pytest.mark.parametrize("layers", [(0,), (1,), (0, 1, 2)])
def test_matcher(name, layers):
    """The chosen layers carry the method, others plain attention; a linear map on the pooled [CLS].
    It takes its own prior only, and a pair alone is a pair in its batch."""
    attention = METHODS[name].attention if name in METHODS else SelfAttention
    matcher, trace = large(Matcher(attention, config(), 3, layers), scale=0.5), {}
    ids, segment, mask, index, prior = batch(name)
    got = matcher(ids, segment, mask, index, prior, trace)
    assert got.shape == (2, 3) and matcher.classifier.bias is not None
    carriers = [i for i in range(3) if type(matcher.bert.layers[i].attention) is not SelfAttention]
    assert carriers == [i for i in range(3) if trace[f"layer{i}"].keys() != {"attention"}]
    assert carriers == (list(layers) if name in METHODS else [])
    own = matcher.bert.layers[layers[-1]].attention
    spread = None if prior is None else own.spread(prior, index, segment)
    same(got, matcher.classifier(matcher.bert(ids, segment, mask, spread)[1]), 1e-9)
    cut = None if prior is None else prior[1:, :2, :1]
    same(matcher(ids[1:, :6], segment[1:, :6], mask[1:, :6], index[1:, :6], cut), got[1:], 1e-9)
    with pytest.raises(ValueError, match="^Matcher: .* (a|no) prior"):
        matcher(ids, segment, mask, index, positive(2, 3, 2) if prior is None else None)


@both_ends_of_each
def test_pretrained_weights_and_new_parameters(name, printed):
    """A plain encoder's weights load strictly; biases stand where the paper has them, w is twice as
    wide and has one as typeset; each weight is stored once."""
    options = dict(printed=printed, attention_size=A)
    matcher = Matcher(METHODS[name].attention, config(), 3, (1,), **options)
    arrays = {key: value.numpy() for key, value in bert_min.Bert(config()).state_dict().items()}
    new = bert_min.load_bert(matcher.bert, arrays, "test")
    assert all(np.array_equal(matcher.bert.state_dict()[key], x) for key, x in arrays.items())
    children = matcher.bert.layers[1].attention.named_children()
    maps = {key: part for key, part in children if "_" in key}
    assert set(new) == {f"layers.1.attention.{key}.{kind}" for key, part in maps.items()
                        for kind, _ in part.named_parameters()}
    biased = {key for key, part in maps.items() if part.bias is not None}
    single, double = ({key for key, part in maps.items() if part.weight.shape == (1, width)}
                      for width in (A, 2 * A))
    assert biased == set(METHODS[name].biased.split()) | double
    assert (len(single), len(double)) == ((0, 2) if printed else (2, 0))
    assert len(matcher.state_dict()) == len({id(p) for p in matcher.parameters()})


def test_what_methods_say_of_themselves():
    """What the papers' pages name: DABERT Table 5, DAFA Table 8, Knowledge's "Ours-avg"."""
    elsewhere = {"dafa": ({4}, {"tree", "subgraph", "tfidf"})}          # in priors.py
    for name, one in METHODS.items():
        numbers, parts = elsewhere.get(name, (set(), set()))
        assert one.attention.PRINTED == one.forms[-1] | numbers
        assert one.attention.ABLATIONS == frozenset().union(*one.ablations) | parts
    priors = [one.attention.PRIOR for one in METHODS.values()]
    assert priors == [None, "dependency", "relations"]
    layer = KnowledgeAttention(config())
    assert layer.gamma == 1.0 and layer.w_zsem.weight.shape == (1, 128)


@pytest.mark.parametrize("make, said", [
    (lambda: DafaAttention(config(), printed={97}), "DafaAttention: printed .*4, 6, 7, 9.*97"),
    (lambda: DabertAttention(config(), without={"all"}), "DabertAttention: without .*guide.*all"),
    (lambda: DafaAttention(config(), scope="layer"), "DafaAttention: scope .*hidden or head.*la"),
    (lambda: DafaAttention(config(), attention_size=0), "DafaAttention: attention_size .*0"),
    (lambda: KnowledgeAttention(config(), gamma=-1), "KnowledgeAttention: gamma .*-1"),
    (lambda: DabertAttention(config(), without={"affinity", "difference"}), "affinity, difference"),
    (lambda: Matcher(DafaAttention, config(), 3, (0, 7)), "layers needs .*0 to 2.*0, 7"),
    (lambda: Matcher(DafaAttention, config(), 3, ()), "layers needs .*0 to 2.*none")])
def test_wrong_options(make, said):
    with pytest.raises(ValueError, match=said) as error:
        make()
    check_error(error)


@each_method
@pytest.mark.parametrize("silenced", ["plain", "second"])
def test_dropout_on_both_attentions_in_training_only(name, silenced, monkeypatch):
    """Each attention alone, the other silenced, loses weights while training."""
    layer = METHODS[name].attention(config(attention_dropout=0.5),
                                    without={METHODS[name].average}).double()
    hidden, prior = normal(B, L, D), prior_of(name, layer, masks())
    if silenced == "plain":
        monkeypatch.setattr(SelfAttention, "attend", lambda self, x, *rest: torch.zeros_like(x))
    else:
        monkeypatch.setattr(type(layer), "second", lambda self, x, q, *rest: torch.zeros_like(q))
    for training, trace in itertools.product((False, True), (None, {})):
        layer.train(training)
        first, second = (layer(hidden, masks(), prior, trace) for _ in range(2))
        assert far(first, second) == training
