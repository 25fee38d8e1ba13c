"""semmatch.py against its papers: oracles in plain loops (oracles/), properties, options, errors.

Sizes are distinct primes (d is H times k). What holds for all methods is one test over METHODS.
"""
import itertools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

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
OUTSIDE = float("-inf")


# ---- Material -----------------------------------------------------------------------------------

# The last of the ablations is the plain average; the first two maps with a bias are of guides.
METHODS = {
    "dabert": SimpleNamespace(
        attention=DabertAttention, printed=frozenset({3, 4, 5, 7}), guiding=5,
        ablations="affinity difference guide gate-fusion gate-filter regulation".split(),
        biased="W_a W_dbar W_dstar W_astar W_dhat W_ahat W_l W_v".split()),
    "dafa": SimpleNamespace(
        attention=DafaAttention, printed=frozenset({6, 7, 9}), guiding=7,
        ablations="cross-attention gates gate-fusion gate-filter fusion".split(),
        biased="W_s W_dstar W_dhat W_shat W_l W_v".split()),
    "knowledge": SimpleNamespace(
        attention=KnowledgeAttention, printed=frozenset({1, 2, 5, 6, 8}), guiding=6,
        ablations="prior guide gates fusion".split(),
        biased="W_osem W_ohatknw W_otildeknw W_otildesem W_y W_gfuse W_gfilter".split())}

each_form = pytest.mark.parametrize("printed", [False, True], ids=["intended", "printed"])
each_bias = pytest.mark.parametrize("bias", [False, True])
each_method = pytest.mark.parametrize("name", METHODS)


def forms(name):
    """Nothing as typeset, each equation alone, all."""
    numbers = METHODS[name].printed
    return [frozenset(), *(frozenset({number}) for number in numbers), numbers]


def variants(name):
    """scope, printed, without: each form, and each ablation as intended and as typeset."""
    cases = [("hidden", form, set()) for form in forms(name)] + [("head", set(), set())]
    for part in METHODS[name].ablations:
        cases += [("hidden", set(), {part}), ("head", METHODS[name].printed, {part})]
    return pytest.mark.parametrize("scope, printed, without", cases)


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


def packed():
    """word_index, segment (1, N + M + 3) of `[CLS] a [SEP] b [SEP]`, each word one piece."""
    return (torch.tensor([[-1, *range(N), -1, *range(M), -1]]),
            torch.tensor([[0] * (N + 2) + [1] * (M + 1)]))


def positive(*size, seed=0):
    return normal(*size, seed=seed).exp()


def related(*size, seed=0):
    """k_ij of any shape before its axis of relations."""
    return torch.rand(*size, 5, generator=torch.Generator().manual_seed(seed)) < 0.15


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
    """A layer of any size, hidden states, a ragged mask, and a prior."""
    b, h, length, k = (draw(st.integers(1, top)) for top in (3, 3, 6, 4))
    seed, scale = draw(st.integers(0, 999)), draw(st.sampled_from([0.0, 1.0, 30.0]))
    lengths = draw(st.lists(st.integers(0, length), min_size=b, max_size=b))
    mask = torch.arange(length) < torch.tensor(lengths)[:, None]
    drawn = {"scope": draw(st.sampled_from(["hidden", "head"])),
             "printed": draw(st.sampled_from(forms(name)))}
    layer = method(name, seed, 1.0, dict(hidden_size=h * k, num_heads=h), **(drawn | options))
    hidden = normal(b, length, h * k, seed=seed, scale=scale)
    return layer, hidden, mask, prior_of(name, layer, mask, seed)


# ---- Each equation against its loops ------------------------------------------------------------

Q, KEYS, V = (normal(B, 1, L, K, seed=i) for i in range(3))             # of one head
SEM, OTHER = normal(B, L, D, seed=3), normal(B, L, D, seed=4)


@each_form
def test_calibrated_attention_oracle(printed):
    M_F, trace = positive(B, L, L), {}
    prior = M_F if printed else M_F.log()
    got = calibrated_attention(Q, KEYS, V, prior, masks(), typeset=printed, trace=trace)
    against((got[:, 0], trace["calibrated"][:, 0]),
            lambda *one: common.calibrated_attention(*one, printed),
            Q[:, 0], KEYS[:, 0], V[:, 0], M_F, masks())


@each_form
def test_difference_scores_oracle(printed):
    against(difference_scores(Q, KEYS, printed)[:, 0],
            lambda *one: dabert.difference_scores(*one, printed), Q[:, 0], KEYS[:, 0])


@pytest.mark.parametrize("printed", [set(), {3}, {4}, {3, 4}], ids=labelled)
def test_difference_attention_oracle(printed):
    trace = {}
    got = difference_attention(Q, KEYS, V, masks(), printed=printed, trace=trace)
    against((got[:, 0], trace["difference"][:, 0]),
            lambda *one: dabert.difference_attention(*one, printed),
            Q[:, 0], KEYS[:, 0], V[:, 0], masks())


@each_form
def test_guided_attention_oracle(printed):
    maps = [linear(D, A, 3, bias=False), linear(D, A, 4),
            linear(2 * A if printed else A, 1, 5, bias=printed)]
    against(guided_attention(SEM, OTHER, masks(), *maps, printed),
            lambda *one: common.guided_attention(*one, *map(lists, maps), printed),
            SEM, OTHER, masks())


@each_bias
def test_gated_fusion_oracle(bias):
    """With a bias in the gate Knowledge's."""
    W_s, W_d, W_g = linear(D, D, 3), linear(D, D, 4), linear(2 * D, 1, 5, bias)
    against(gated_fusion(SEM, OTHER, W_s, W_d, W_g),
            lambda s, d: common.gated_fusion(d, s, *map(lists, (W_d, W_s, W_g))), SEM, OTHER)


@each_form
@each_bias
def test_filtration_gate_oracle(printed, bias):
    """With a bias in the gate, and without W_v, Knowledge's."""
    maps = None if bias else linear(D, D, 3), linear(D, D, 4), linear(2 * D, 1, 5, bias)
    against(filtration_gate(SEM, OTHER, *maps, printed),
            lambda *one: common.filtration_gate(*one, *(W and lists(W) for W in maps), printed),
            SEM, OTHER)


@each_form
def test_relation_indicator_oracle(printed):
    """The paper's own example is a co-hyponym, the last of the relations."""
    relations = related(B, N, M)
    relations[0, 0, 0] = torch.tensor([False] * 4 + [True])
    got = relation_indicator(relations, printed)
    against(got.flatten().float(), lambda k_ij: knowledge.relation_indicator(k_ij, printed),
            relations.flatten(0, 2))


# Of N and M words: hidden states; numbers between the words, and between all tokens.
HIDDEN, BETWEEN = normal(1, N + M + 3, D), 2 * normal(1, N, M, seed=1)
SPREAD = spread_prior(BETWEEN, *packed(), OUTSIDE)
IN_A, IN_B = slice(1, N + 1), slice(N + 2, -1)                          # words of `packed`


@each_form
def test_knowledge_scores_oracle(printed):
    got = knowledge_scores(HIDDEN, SPREAD, printed)
    assert torch.equal(got.isinf(), SPREAD.isinf())
    against(got[:, IN_A, IN_B], lambda *one: knowledge.knowledge_scores(*one, printed),
            HIDDEN[:, IN_A], HIDDEN[:, IN_B], BETWEEN)


def test_co_attention_oracle():
    log_prior, context = co_attention(HIDDEN, SPREAD)
    assert torch.equal(log_prior.isinf(), SPREAD.isinf())
    assert torch.equal((context != 0).any(-1), packed()[0] >= 0)
    against((log_prior[:, IN_A, IN_B].exp(), context[:, IN_A], context[:, IN_B]),
            knowledge.co_attention, HIDDEN[:, IN_A], HIDDEN[:, IN_B], BETWEEN)


def check_layer(name, scope, printed, without):
    """A whole method against its loops, with and without a trace; what the trace holds; and every
    parameter learns, but a key's bias, which cancels."""
    gamma = {"gamma": 2.5} if name == "knowledge" else {}       # not 1, which a product hides
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
            known = *known, 0.0 if "prior" in without else 2.5
            out, seen = knowledge.layer(P, states, known, mask, *rest)
        assert seen.keys() == trace.keys()
        return out, *(seen[part] for part in trace)

    against((got, *trace.values()), loop, hidden, masks(), known, *words())
    trace.pop("context", None)                                          # recorded, in no figure
    check_trace(layer, trace, pair=B, head=H, piece=L, gate=1)
    if not printed:
        assert silent(layer, got) <= {"key.bias"}


@variants("dabert")
def test_dabert_attention_oracle(scope, printed, without):
    check_layer("dabert", scope, printed, without)


@variants("dafa")
def test_dafa_attention_oracle(scope, printed, without):
    check_layer("dafa", scope, printed, without)


@variants("knowledge")
def test_knowledge_attention_oracle(scope, printed, without):
    check_layer("knowledge", scope, printed, without)


@quick
@given(st.data(), st.integers(0, 3), st.integers(0, 2), st.sampled_from([0.0, 1.0, OUTSIDE]))
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

@each_method
@quick
@given(st.data())
def test_weights_gates_padding_and_neighbours(name, data):
    """Masked keys get exactly 0, rows sum to 1 (to 0 without a key), gates lie in [0, 1]. A pair
    alone, without its padding, has the same tokens as in its batch."""
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
        if real:
            single = None if prior is None else prior[b:b + 1, :real, :real]
            alone = layer(hidden[b:b + 1, :real], mask[b:b + 1, :real], single)
            same(alone[0], whole[b, :real], 1e-9)


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


def test_neutral_prior_is_plain_attention():
    """M_F = 0: the average of both signals is the plain one."""
    layer, plain = method("dafa", without={"fusion"}), large(SelfAttention(config()))
    hidden, prior = normal(B, L, D), layer.spread(torch.zeros(B, N, M), *words())
    same(layer(hidden, masks(), prior), plain(hidden, masks()))


@each_method
@each_form
def test_guide_matters_unless_typeset(name, printed):
    """⊕ lets the guide cancel: all rows are one row, and the guide's weights never learn."""
    trace, layer = {}, method(name, printed={METHODS[name].guiding} if printed else ())
    dead = silent(layer, layer(normal(B, L, D), masks(), prior_of(name, layer, masks()), trace))
    for part in [part for part in trace if part.endswith("guided")]:
        weights = trace[part][:2]
        assert ((weights - weights[:, :1]).abs().amax((1, 2)) < 1e-12).all() == printed
    for W in METHODS[name].biased[:2]:
        assert (f"{W}.weight" in dead) == printed


@each_form
def test_closed_filtration_gate(printed):
    """With f → 0 as typeset nothing is left; intended, the original feature passes."""
    sem, v, W_f = 1 + positive(B, L, D), normal(B, L, D, seed=1), linear(2 * D, 1, 3)
    W_f.weight.data = torch.cat([torch.full((1, D), -1e3), torch.zeros(1, D)], 1).double()
    got, _ = filtration_gate(sem, v, linear(D, D, 4), linear(D, D, 5), W_f, printed)
    assert torch.equal(got, sem * (not printed))


@each_method
@pytest.mark.parametrize("scale, dtype, autocast", [
    (1e5, torch.float32, False), (1e5, torch.bfloat16, False), (1e3, torch.float32, True),
    (0.0, torch.float32, True)])
def test_no_nan(name, scale, dtype, autocast):
    """Scores of 1e5 and more, or all alike; padding only, a sentence without words; bfloat16."""
    hidden = (normal(B, L, D) * scale).to(dtype).requires_grad_()
    for printed, trace in itertools.product(((), METHODS[name].printed), (None, {})):
        layer = method(name, printed=printed).to(dtype)
        prior = prior_of(name, layer, masks())
        prior = None if prior is None else prior.float()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = layer(hidden, masks(), prior, trace)
        check_finite(out, [hidden, *layer.parameters()])
        assert all(x.isfinite().all() for x in (trace or {}).values())


@each_form
def test_scores_are_wide(printed):
    """bfloat16 in, under autocast: scores are float32, those of the rounded numbers."""
    q, k = (normal(B, H, L, K, seed=i).bfloat16() for i in (1, 2))
    hidden, G = normal(B, L, D).bfloat16(), spread_prior(normal(B, N, M).float(), *words(), OUTSIDE)
    for scores, inputs in ((difference_scores, (q, k)), (knowledge_scores, (hidden, G))):
        with torch.autocast("cpu", torch.bfloat16):
            got = scores(*inputs, printed)
        assert got.dtype == torch.float32
        same(got, scores(*(x.double() for x in inputs), printed), 1e-4)


# ---- What is printed ----------------------------------------------------------------------------


def difference_of(q, k, mask, printed):
    trace = {}
    difference_attention(q, k, k, mask, printed=printed, trace=trace)
    return trace["difference"]


@each_form
def test_difference_as_typeset_is_the_same_for_every_query(printed):
    q, k, mask = normal(1, H, L, K, seed=1), normal(1, H, L, K, seed=2), masks()[:1]
    weights = difference_of(q, k, mask, {4} if printed else ())
    assert ((weights - weights[:, :, :1]).abs().amax((2, 3)) < 1e-12).all() == printed


@pytest.mark.parametrize("printed", [set(), {3}], ids=labelled)
def test_difference_mask_as_typeset_leaks(printed):
    """A score of 1e5 outweighs a finite M, which a row without a key ignores."""
    q, k = (torch.zeros(2, 1, 2, K, dtype=torch.float64) for _ in range(2))
    k[0, 0, 1] = 1e5
    weights = difference_of(q, k, torch.tensor([[True, False], [False, False]]), printed)
    assert (weights[0, 0, :, 1] > 0.99).all() == bool(printed)
    assert (weights[1] == (0.5 if printed else 0.0)).all()


@each_form
def test_calibrated_attention_as_typeset_weakens_negative_scores(printed):
    """With a negative q·k a larger prior lowers the weight."""
    q, weights = torch.ones(1, 1, 2, K, dtype=torch.float64), []
    k, mask = torch.stack([-q[0, 0, 0], q[0, 0, 0] * 0])[None, None], torch.ones(1, 2).bool()
    for M in (1.0, 5.0):
        prior, trace = torch.tensor([[[M, 1.0], [1.0, 1.0]]], dtype=torch.float64), {}
        prior = prior if printed else prior.log()
        calibrated_attention(q, k, k, prior, mask, typeset=printed, trace=trace)
        weights.append(trace["calibrated"][0, 0, 0, 0])
    assert weights[1] < 0.1 * weights[0] if printed else weights[1] > 2 * weights[0]


@pytest.mark.parametrize("printed, mean", [((), 1.0), ({5}, (1 / N + 1 / M) / 2)], ids=["", "5"])
def test_knowledge_prior_averages_one(printed, mean):
    layer, trace, mask = method("knowledge", printed=printed), {}, torch.ones(1, N + M + 3).bool()
    prior = layer.spread(related(1, N, M), *packed())
    layer(normal(1, N + M + 3, D), mask, prior, trace)
    same(trace["prior"][0, 1:N + 1, N + 2:-1].mean(), mean, 1e-9)


@each_form
def test_knowledge_scores_as_typeset_saturate(printed):
    """Hidden states are √d long: a relation with the word that fits least moves its row by less
    than 1e-4; over √d it counts."""
    hidden = nn.functional.layer_norm(normal(1, N, 257), (257,))
    scores = knowledge_scores(hidden, torch.zeros(1, N, N), printed)[0, :N // 2, N // 2:]
    more = scores + nn.functional.one_hot(scores.argmin(-1), N - N // 2)
    assert ((more.softmax(-1) - scores.softmax(-1)).max() < 1e-4) == printed


# ---- The methods in the encoder -----------------------------------------------------------------

@pytest.mark.parametrize("name", ["bert", *METHODS])
def test_matcher(name):
    """Chosen layers carry the method, others plain attention; a linear map on the pooled [CLS]. It
    takes its own prior only."""
    attention = METHODS[name].attention if name in METHODS else SelfAttention
    matcher, trace, mask = large(Matcher(attention, config(), 3, (0, 2))), {}, masks()
    index, segment = words()
    ids = torch.arange(B * L).view(B, L)
    prior = {"dafa": positive(B, N, M), "knowledge": related(B, N, M)}.get(name)
    got = matcher(ids, segment, mask, index, prior, trace)
    carriers = [i for i in range(3) if trace[f"layer{i}"].keys() != {"attention"}]
    assert carriers == ([0, 2] if name in METHODS else [])
    own = matcher.bert.layers[2].attention
    spread = None if prior is None else own.spread(prior, index, segment)
    same(got, matcher.classifier(matcher.bert(ids, segment, mask, spread)[1]), 1e-9)
    wrong, needed = (positive(B, N, M), "no prior$") if prior is None else (None, "a prior, see")
    with pytest.raises(ValueError, match=f"^Matcher: this model needs {needed}"):
        matcher(ids, segment, mask, index, wrong)


@each_form
@each_method
def test_biases_stand_where_the_paper_has_them(name, printed):
    """And in w as typeset."""
    options = dict(printed=METHODS[name].printed if printed else (), attention_size=A)
    own = METHODS[name].attention(config(), **options)
    maps = {key: part for key, part in own.named_children() if "_" in key}
    w = {key for key, part in maps.items() if part.weight.shape == (1, 2 * A)}
    biased = {key for key, part in maps.items() if part.bias is not None}
    assert len(w) == 2 * printed and biased == {*METHODS[name].biased} | w


@pytest.mark.parametrize("attention, options, said", [
    (DafaAttention, {"printed": {97}}, "printed 97"), (DafaAttention, {"scope": "x"}, "scope .*x"),
    (DafaAttention, {"attention_size": 0}, "attention_size .*0"),
    (KnowledgeAttention, {"gamma": 0}, "gamma .*0"), (SelfAttention, {"layers": ()}, "layers .*2"),
    (DabertAttention, {"without": {"affinity", "difference"}}, "affinity, difference"),
    (SelfAttention, {"layers": (0, 7)}, "layers .*0, 7")])
def test_wrong_options(attention, options, said):
    with pytest.raises(ValueError, match=said) as error:
        Matcher(attention, config(), 3, **options)
    check_error(error)


def test_initial_size_of_what_is_new():
    """Each new weight is as many times as large; queries, keys, values and biases are as ever."""
    for method in METHODS.values():
        torch.manual_seed(5)
        small = method.attention(config()).state_dict()
        torch.manual_seed(5)
        large = method.attention(config(), initial=0.1).state_dict()
        for name, x in small.items():
            times = 1 if name.split(".")[0] in ("query", "key", "value") else 5
            torch.testing.assert_close(large[name], times * x)


@each_method
def test_dropout_of_the_second_attention_in_training_only(name, monkeypatch):
    monkeypatch.setattr(SelfAttention, "attend", lambda self, x, *rest: torch.zeros_like(x))
    average = {METHODS[name].ablations[-1]}
    layer = METHODS[name].attention(config(attention_dropout=0.5), without=average).double()
    hidden, prior = normal(B, L, D), prior_of(name, layer, masks())
    for training, trace in itertools.product((False, True), (None, {})):
        layer.train(training)
        first, second = (layer(hidden, masks(), prior, trace) for _ in range(2))
        assert far(first, second) == training
