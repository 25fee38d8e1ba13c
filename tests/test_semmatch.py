"""semmatch.py against its papers: oracles in plain loops written from the pages, properties, options, errors.

Oracles know lists of floats and the math module only. Sizes are distinct primes (d is H times k).
"""
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import bert_min
import semmatch
from bert_min import BertConfig, SelfAttention
from semmatch import (AdditiveScores, DafaAttention, Matcher, calibrated_attention, filtration_gate, gated_fusion,
                      guided_attention, spread_prior)

B, H, K, L, A, N, M = 3, 2, 5, 7, 11, 13, 17
D = H * K
quick = settings(derandomize=True, deadline=None, max_examples=20)


# ---- Oracles: DAFA, section 2.2 -------------------------------------------------------------------------------------

def softmax_loop(scores, mask):
    """Over the allowed places; the others get 0, and so does everything where nothing is allowed."""
    allowed = [s for s, ok in zip(scores, mask) if ok]
    if not allowed:
        return [0.0] * len(scores)
    total = sum(math.exp(s - max(allowed)) for s in allowed)
    return [math.exp(s - max(allowed)) / total if ok else 0.0 for s, ok in zip(scores, mask)]


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def affine(W, x, b=None):
    """W x + b, with W a list of rows."""
    return [dot(row, x) + (b[r] if b else 0.0) for r, row in enumerate(W)]


def sigma(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def mix_loop(weights, vectors):
    return [sum(w * vector[c] for w, vector in zip(weights, vectors)) for c in range(len(vectors[0]))]


def attention_loop(q, k, v, multiplier, mask, printed):
    """Eq. 6 for one head of one pair -> weights, mixed. multiplier None: its first line."""
    weights = []
    for i, query in enumerate(q):
        scores = [dot(query, key) / math.sqrt(len(query)) for key in k]
        if multiplier and printed:                                     # Q Kᵀ ⊙ M_F
            scores = [dot(query, key) * multiplier[i][j] / math.sqrt(len(query)) for j, key in enumerate(k)]
        elif multiplier:                                               # M̃ exp(q·k / √d_k), normalised
            scores = [score + math.log(multiplier[i][j]) for j, score in enumerate(scores)]
        weights.append(softmax_loop(scores, mask))
    return weights, [mix_loop(row, v) for row in weights]


def guided_loop(values, guide, mask, W_values, W_guide, b_guide, w, b, printed):
    """Eq. 7, first half for one pair -> weights, attended values."""
    weights = []
    for g in guide:
        scores = []
        for value in values:
            if printed:                                                # w tanh(W_D d_j ⊕ (W_s s_i + b_s)) + b
                delta = [math.tanh(x) for x in affine(W_values, value) + affine(W_guide, g, b_guide)]
                scores.append(dot(w, delta) + b)
            else:                                                      # wᵀ tanh(W_D d_j + W_s s_i + b_s)
                pairs = zip(affine(W_values, value), affine(W_guide, g, b_guide))
                scores.append(dot(w, [math.tanh(x + y) for x, y in pairs]))
        weights.append(softmax_loop(scores, mask))
    return weights, [mix_loop(row, values) for row in weights]


def fusion_loop(d_star, s_star, W_d, b_d, W_s, b_s, W_g):
    """Eq. 8 for one token -> v, g. W_g None: a gate of one half."""
    d_hat = [math.tanh(x) for x in affine(W_d, d_star, b_d)]
    s_hat = [math.tanh(x) for x in affine(W_s, s_star, b_s)]
    g = sigma(dot(W_g, d_hat + s_hat)) if W_g else 0.5
    return [g * s + (1 - g) * d for s, d in zip(s_hat, d_hat)], g


def filtration_loop(s, v, W_f, W_v, b_v, W_l, b_l, printed):
    """Eq. 9 for one token -> signal, f. W_f None: an open gate."""
    f = sigma(dot(W_f, s + affine(W_v, v, b_v))) if W_f else 1.0
    l = [f * math.tanh(x) for x in affine(W_l, v, b_l)]
    return (l if printed else [a + b for a, b in zip(s, l)]), f


def spread_loop(prior, word_index, segment):
    """One pair: the prior over words laid out over tokens, 1 elsewhere."""
    out = [[1.0] * len(segment) for _ in segment]
    for x, y in itertools.product(range(len(segment)), repeat=2):
        if word_index[x] >= 0 and word_index[y] >= 0 and (segment[x], segment[y]) == (0, 1):
            out[x][y] = out[y][x] = prior[word_index[x]][word_index[y]]
    return out


def dafa_loop(layer, q, k, v, multiplier, mask, printed, without, scope):
    """Eqs. 6 to 9 for one pair. q, k, v: a list over heads of lists over tokens. -> tokens, and what a trace holds."""
    P = {name: value.tolist() for name, value in layer.state_dict().items()}
    seen = {"attention": [], "calibrated": [], "semantic_guided": [], "dependency_guided": [], "g": [], "f": []}
    sem_heads, dep_heads = [], []
    for head in range(len(q)):
        weights, sem = attention_loop(q[head], k[head], v[head], None, mask, False)
        seen["attention"].append(weights)
        sem_heads.append(sem)
        weights, dep = attention_loop(q[head], k[head], v[head], multiplier, mask, 6 in printed)
        seen["calibrated"].append(weights)
        dep_heads.append(dep)
    if scope == "hidden":                                              # one signal: the heads side by side
        sem_heads, dep_heads = ([[sum((head[i] for head in heads), []) for i in range(len(mask))]]
                                for heads in (sem_heads, dep_heads))
    out = []
    for sem, dep in zip(sem_heads, dep_heads):
        if "fusion" in without:
            out.append([[(a + b) / 2 for a, b in zip(s, d)] for s, d in zip(sem, dep)])
            continue
        d_star, s_star = dep, sem
        if "cross-attention" not in without:
            b_d, b_s = (P["w_d.bias"][0], P["w_sstar.bias"][0]) if 7 in printed else (None, None)
            by_sem, d_star = guided_loop(dep, sem, mask, P["W_D.weight"], P["W_s.weight"], P["W_s.bias"],
                                         P["w_d.weight"][0], b_d, 7 in printed)
            by_dep, s_star = guided_loop(sem, d_star, mask, P["W_S.weight"], P["W_dstar.weight"], P["W_dstar.bias"],
                                         P["w_sstar.weight"][0], b_s, 7 in printed)
            seen["semantic_guided"].append(by_sem)
            seen["dependency_guided"].append(by_dep)
        W_g, W_f, W_v, b_v = ((P["W_g.weight"][0], P["W_f.weight"][0], P["W_v.weight"], P["W_v.bias"])
                              if "gates" not in without else (None,) * 4)
        tokens, gs, fs = [], [], []
        for i in range(len(mask)):
            fused, g = fusion_loop(d_star[i], s_star[i], P["W_dhat.weight"], P["W_dhat.bias"], P["W_shat.weight"],
                                   P["W_shat.bias"], W_g)
            token, f = filtration_loop(sem[i], fused, W_f, W_v, b_v, P["W_l.weight"], P["W_l.bias"], 9 in printed)
            tokens, gs, fs = tokens + [token], gs + [[g]], fs + [[f]]
        out.append(tokens)
        seen["g"].append(gs)
        seen["f"].append(fs)
    return [sum((head[i] for head in out), []) for i in range(len(mask))], seen


# ---- Material -------------------------------------------------------------------------------------------------------

def normal(*size, seed=0, scale=1.0):
    return scale * torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def config(**changes):
    sizes = dict(vocab_size=41, hidden_size=D, num_layers=3, num_heads=H, intermediate_size=19, max_length=23,
                 dropout=0.0, attention_dropout=0.0)
    return BertConfig(**(sizes | changes))


def large(module, seed=1, scale=0.7):
    """The module in float64 with weights so large that every part of an equation shows."""
    module = module.double().eval()
    for i, (name, parameter) in enumerate(module.named_parameters()):
        around = 1.0 if name.endswith("norm.weight") else 0.0          # a small norm would make all tokens alike
        parameter.data = around + normal(*parameter.shape, seed=1000 * seed + i, scale=scale)
    return module


def dafa(seed=1, scale=0.7, **options):
    return large(DafaAttention(config(), attention_size=A, **options), seed, scale)


def masks():
    """A whole pair, one with padding inside and at the end, one of padding only."""
    mask = torch.ones(B, L, dtype=torch.bool)
    mask[1, 2] = mask[1, 5:] = mask[2] = False
    return mask


def positive(*size, seed=0):
    return normal(*size, seed=seed).exp()


def same(got, want, within=1e-10):
    want = torch.as_tensor(want, dtype=got.dtype)
    assert got.shape == want.shape
    worst = (got - want).abs().max().item() if got.numel() else 0.0
    assert worst <= within, f"off by {worst}"


@st.composite
def problems(draw, scales=(1e-3, 1.0, 30.0)):
    """q, k, v, a multiplier and a ragged mask of any sizes; some pairs are all padding."""
    b, h, length, k = (draw(st.integers(1, top)) for top in (3, 3, 6, 4))
    lengths = draw(st.lists(st.integers(0, length), min_size=b, max_size=b))
    seed, scale = draw(st.integers(0, 999)), draw(st.sampled_from(scales))
    q, key, v = (normal(b, h, length, k, seed=3 * seed + i) for i in range(3))
    if draw(st.booleans()):
        key[:] = key[:, :, :1]                                         # ties: all keys alike
    return SimpleNamespace(q=q * scale, k=key, v=v, mask=torch.arange(length) < torch.tensor(lengths)[:, None],
                           multiplier=1 + positive(b, length, length, seed=seed), b=b, h=h, length=length, size=k,
                           seed=seed)


def attend(p, layer, trace=None):
    return layer.attend(None, p.q, p.k, p.v, p.mask, p.multiplier, trace)


def layer_for(p, **options):
    cfg = config(hidden_size=p.h * p.size, num_heads=p.h)
    return large(DafaAttention(cfg, attention_size=A, **options), p.seed + 1)


FORMS = [frozenset(), frozenset({6}), frozenset({7}), frozenset({9}), frozenset({6, 7, 9})]
ABLATIONS = [frozenset(), frozenset({"cross-attention"}), frozenset({"gates"}), frozenset({"fusion"}),
             frozenset({"cross-attention", "gates"})]
each_scope = pytest.mark.parametrize("scope", ["hidden", "head"])
each_form = pytest.mark.parametrize("printed", [False, True], ids=["intended", "printed"])


# ---- Each equation against its loops --------------------------------------------------------------------------------

@each_form
@pytest.mark.parametrize("traced", [False, True])
def test_calibrated_attention_oracle(printed, traced):
    q, k, v, mask = *(normal(B, H, L, K, seed=i) for i in range(3)), masks()
    multiplier = positive(B, L, L)
    trace = {} if traced else None
    got = calibrated_attention(q, k, v, multiplier, mask, printed=printed, trace=trace)
    for b, h in itertools.product(range(B), range(H)):
        weights, mixed = attention_loop(*(x[b, h].tolist() for x in (q, k, v)), multiplier[b].tolist(),
                                        mask[b].tolist(), printed)
        same(got[b, h], mixed)
        if traced:
            same(trace["calibrated"][b, h], weights)


def test_plain_attention_oracle():
    """The first line of DAFA Eq. 6."""
    q, k, v, mask = *(normal(B, H, L, K, seed=i) for i in range(3)), masks()
    layer = large(SelfAttention(config()))
    for trace in (None, {}):
        got = layer.attend(None, q, k, v, mask, None, trace).unflatten(-1, (H, K))
        for b, h in itertools.product(range(B), range(H)):
            weights, mixed = attention_loop(*(x[b, h].tolist() for x in (q, k, v)), None, mask[b].tolist(), False)
            same(got[b, :, h], mixed)
            if trace is not None:
                same(trace["attention"][b, h], weights)


@each_form
def test_guided_attention_oracle(printed):
    values, guide, mask = normal(B, L, D, seed=1), normal(B, L, D, seed=2), masks()
    W_values, W_guide = large(nn.Linear(D, A, bias=False), 3), large(nn.Linear(D, A), 4)
    w = large(nn.Linear(2 * A if printed else A, 1, bias=printed), 5)
    got, weights = guided_attention(values, guide, mask, W_values, W_guide, w, printed)
    for b in range(B):
        want, mixed = guided_loop(values[b].tolist(), guide[b].tolist(), mask[b].tolist(), W_values.weight.tolist(),
                                  W_guide.weight.tolist(), W_guide.bias.tolist(), w.weight[0].tolist(),
                                  w.bias.item() if printed else None, printed)
        same(weights[b], want)
        same(got[b], mixed)


@pytest.mark.parametrize("gated", [True, False])
def test_gated_fusion_oracle(gated):
    sem, dep = normal(B, L, D, seed=1), normal(B, L, D, seed=2)
    W_sem, W_dep, W_g = large(nn.Linear(D, D), 3), large(nn.Linear(D, D), 4), large(nn.Linear(2 * D, 1, bias=False), 5)
    got, g = gated_fusion(sem, dep, W_sem, W_dep, W_g if gated else None)
    assert g.shape == (B, L, 1)
    for b, i in itertools.product(range(B), range(L)):
        v, gate = fusion_loop(dep[b, i].tolist(), sem[b, i].tolist(), W_dep.weight.tolist(), W_dep.bias.tolist(),
                              W_sem.weight.tolist(), W_sem.bias.tolist(), W_g.weight[0].tolist() if gated else None)
        same(got[b, i], v)
        same(g[b, i], [gate])


@each_form
@pytest.mark.parametrize("gated", [True, False])
def test_filtration_gate_oracle(printed, gated):
    sem, v = normal(B, L, D, seed=1), normal(B, L, D, seed=2)
    W_v, W_l, W_f = large(nn.Linear(D, D), 3), large(nn.Linear(D, D), 4), large(nn.Linear(2 * D, 1, bias=False), 5)
    got, f = filtration_gate(sem, v, W_v if gated else None, W_l, W_f if gated else None, printed)
    assert f.shape == (B, L, 1)
    for b, i in itertools.product(range(B), range(L)):
        out, gate = filtration_loop(sem[b, i].tolist(), v[b, i].tolist(), W_f.weight[0].tolist() if gated else None,
                                    W_v.weight.tolist(), W_v.bias.tolist(), W_l.weight.tolist(), W_l.bias.tolist(),
                                    printed)
        same(got[b, i], out)
        same(f[b, i], [gate])


@each_scope
@pytest.mark.parametrize("printed, without", [(form, frozenset()) for form in FORMS] + [
    (form, ablation) for form in (FORMS[0], FORMS[-1]) for ablation in ABLATIONS[1:]],
    ids=lambda names: "+".join(map(str, sorted(names))) or "none")
def test_dafa_attention_oracle(scope, printed, without):
    """Eqs. 6 to 9 in a row, with and without a trace, in every option; and what the trace holds."""
    layer = dafa(printed=printed, scope=scope, without=without)
    hidden, mask, multiplier = normal(B, L, D, seed=8), masks(), positive(B, L, L, seed=9)
    trace = {}
    got, again = layer(hidden, mask, multiplier), layer(hidden, mask, multiplier, trace)
    P = {name: value.tolist() for name, value in layer.state_dict().items()}
    seen = []
    for b in range(B):
        q, k, v = ([[affine(P[f"{name}.weight"], x, P[f"{name}.bias"])[h * K:(h + 1) * K] for x in hidden[b].tolist()]
                    for h in range(H)] for name in ("query", "key", "value"))
        want, kept = dafa_loop(layer, q, k, v, multiplier[b].tolist(), mask[b].tolist(), printed, without, scope)
        same(got[b], want)
        same(again[b], want)
        seen.append(kept)
    names = {"attention", "calibrated"}
    if "fusion" not in without:
        names |= {"g", "f"} if "cross-attention" in without else {"g", "f", "semantic_guided", "dependency_guided"}
    assert trace.keys() == names
    for name in names:
        want = torch.tensor([kept[name] for kept in seen], dtype=torch.float64)
        same(trace[name].detach().reshape(want.shape), want)


@pytest.mark.parametrize("n, m", [(N, M), (1, 1), (M, 1)])
def test_spread_prior_oracle(n, m):
    """Words of one and of several pieces, specials, padding, a sentence without words."""
    prior = normal(B, n, m)
    segment = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 0, 0]])
    i, j = min(4, n - 1), min(6, m - 1)
    word_index = torch.tensor([[-1, 0, i, -1, j, j, -1], [-1, -1, 0, j, -1, -1, -1], [-1, i, -1, j, -1, -1, -1]])
    got = spread_prior(prior, word_index, segment)
    for b in range(B):
        assert got[b].tolist() == spread_loop(prior[b].tolist(), word_index[b].tolist(), segment[b].tolist())
    assert (got[1] == 1).all()
    if n == N:
        assert got[0, 2, 5] == got[0, 5, 2] == prior[0, 4, 6] and got[2, 1, 3] == prior[2, 4, 6]


@quick
@given(st.data())
def test_spread_prior_of_any_pair(data):
    n, m = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    a, b = (data.draw(st.lists(st.integers(-1, top - 1), max_size=4)) for top in (n, m))
    padding = data.draw(st.integers(0, 2))
    word_index = [-1] + a + [-1] + b + [-1] + [-1] * padding
    segment = [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0] * padding
    prior = normal(1, n, m, seed=len(word_index))
    got = spread_prior(prior, torch.tensor([word_index]), torch.tensor([segment]))[0]
    assert got.tolist() == spread_loop(prior[0].tolist(), word_index, segment)


def test_hand_check_of_the_calibration():
    """Two keys with equal scores and M̃ = 1 + 5 for one of them: 6/7 and 1/7. By hand, from EQUATIONS.md's M_F = 5."""
    q = torch.zeros(1, 1, 2, K, dtype=torch.float64)
    multiplier = torch.tensor([[[1.0, 6.0], [6.0, 1.0]]], dtype=torch.float64)
    trace = {}
    calibrated_attention(q, q, q, multiplier, torch.ones(1, 2, dtype=torch.bool), trace=trace)
    same(trace["calibrated"][0, 0], [[1 / 7, 6 / 7], [6 / 7, 1 / 7]], 1e-15)


# ---- Additive scores ------------------------------------------------------------------------------------------------

def naive_scores(keys, queries, w):
    return torch.tanh(keys[:, None] + queries[:, :, None]) @ w


@pytest.mark.parametrize("block", [1, 2 * L * A, 2 * L * L * A, 2 ** 17], ids=["row", "2 rows", "2 pairs", "all"])
def test_additive_scores_equal_the_naive_form(block, monkeypatch):
    monkeypatch.setitem(AdditiveScores.BLOCK, "cpu", block)
    wide = [normal(B, L, A, seed=1), normal(B, L, A, seed=2), normal(A, seed=3)]
    e = normal(B, L, L, seed=4)
    results = []
    for scores in (AdditiveScores.apply, naive_scores):
        inputs = [x.clone().requires_grad_() for x in wide]
        out = scores(*inputs)
        results.append([out, *torch.autograd.grad(out, inputs, e)])
    for got, want in zip(*results):
        same(got, want, 1e-12)


@pytest.mark.parametrize("split", [True, False])
def test_additive_scores_walk_in_blocks(split, monkeypatch):
    """Each query of each pair comes once; a block holds at most BLOCK numbers, or one row."""
    keys, queries = normal(B, L, A, seed=1), normal(B, L, A, seed=2)
    for block, many in [(1, B * L), (2 * L * A, B * 4), (2 * L * L * A, 2), (2 ** 17, 1)]:
        monkeypatch.setitem(AdditiveScores.BLOCK, "cpu", block)
        seen = torch.zeros(B, L)
        parts = list(AdditiveScores.blocks(keys, queries, split))
        for b, i, numbers in parts:
            seen[b, i] += 1
            assert numbers.numel() <= max(block, L * A) and numbers.shape == (*seen[b, i].shape, L, A)
        assert (seen == 1).all() and len(parts) == many


def test_additive_scores_gradcheck(monkeypatch):
    """Five queries of two pairs, two at a time."""
    monkeypatch.setitem(AdditiveScores.BLOCK, "cpu", 2 * 5 * 3)
    inputs = [normal(2, 5, 3, seed=1), normal(2, 5, 3, seed=2), normal(3, seed=3)]
    assert len(list(AdditiveScores.blocks(*inputs[:2], True))) == 2 * 3
    assert torch.autograd.gradcheck(AdditiveScores.apply, [x.requires_grad_() for x in inputs])


@pytest.mark.parametrize("dtype, limit, within", [
    (torch.float32, 40.0, 2e-4), (torch.float32, 60.0, 2e-4), (torch.float32, 1e5, 1e-1),
    (torch.float64, 340.0, 1e-10), (torch.float64, 400.0, 1e-10), (torch.float64, 1e5, 1e-9)])
def test_additive_scores_of_large_parts(dtype, limit, within):
    """Large keys and queries cancel as they should, and nothing overflows, below and above what e^(2x) allows."""
    parts = torch.tensor([-1.0, -0.5, -0.01, 0.0, 0.3, 0.99, 1.0], dtype=dtype)[None, :, None] * limit
    results = []
    for scores in (AdditiveScores.apply, naive_scores):
        inputs = [x.clone().requires_grad_() for x in (parts, parts.flip(1) * 0.75 + 0.25, torch.ones(1, dtype=dtype))]
        out = scores(*inputs)
        results.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    for got, want in zip(*results):
        same(got, want, within)


def peak_numbers(function, *inputs):
    """Peak of the memory held by forward and backward beyond the inputs, in numbers of float32."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function(*inputs).sum().backward()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    assert events
    held = list(itertools.accumulate(e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())))
    return max(held) / 4


def test_additive_scores_memory(monkeypatch):
    """Beyond inputs and gradients, L·L scores and one block: nothing grows with L·L·A."""
    block, b, length = 4096, 2, 61
    monkeypatch.setitem(AdditiveScores.BLOCK, "cpu", block)

    def extra(function, size):
        inputs = [x.float().requires_grad_() for x in (normal(b, length, size), normal(b, length, size), normal(size))]
        return peak_numbers(function, *inputs) - 6 * b * length * size

    for size in (8, 32):
        assert extra(naive_scores, size) > b * length * length * size      # the measure sees what it must see
        row = max(block, length * size)
        assert extra(AdditiveScores.apply, size) < 4 * b * length * length + 2 * row


def test_additive_scores_ignore_autocast():
    """Scores are float32 inside an autocast region, to the bit."""
    keys, queries, w = normal(B, L, A, seed=1).float(), normal(B, L, A, seed=2).float(), normal(A, seed=3).float()
    want = AdditiveScores.apply(keys, queries, w)
    with torch.autocast("cpu", torch.bfloat16):
        got = AdditiveScores.apply(keys, queries, w)
    assert got.dtype == torch.float32 and torch.equal(got, want)


@each_scope
@pytest.mark.parametrize("printed", [FORMS[0], FORMS[-1]], ids=["intended", "printed"])
def test_dafa_attention_gradcheck(scope, printed, monkeypatch):
    monkeypatch.setitem(AdditiveScores.BLOCK, "cpu", 1)
    layer = large(DafaAttention(config(hidden_size=4), printed, scope, attention_size=2))
    hidden, multiplier = normal(2, 3, 4, seed=1), positive(2, 3, 3, seed=2)
    mask = torch.tensor([[True, True, True], [True, False, True]])
    names = [name for name, _ in layer.named_parameters()]

    def run(hidden, multiplier, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (hidden, mask, multiplier))

    inputs = [hidden.requires_grad_(), multiplier.requires_grad_(), *layer.parameters()]
    assert torch.autograd.gradcheck(run, inputs, fast_mode=False, atol=1e-6)


# ---- Properties -----------------------------------------------------------------------------------------------------

@quick
@given(problems(), st.sampled_from(["hidden", "head"]), st.sampled_from(FORMS))
def test_padding_and_neighbours_change_nothing(p, scope, printed):
    """A pair alone, without its padding, has the same real tokens as in its batch. Padding may hold anything."""
    layer = layer_for(p, scope=scope, printed=printed)
    whole = attend(p, layer)
    for b in range(p.b):
        real = int(p.mask[b].sum())
        alone = SimpleNamespace(**{name: getattr(p, name)[b:b + 1, :, :real] for name in "qkv"},
                                mask=p.mask[b:b + 1, :real], multiplier=p.multiplier[b:b + 1, :real, :real])
        if real:
            same(whole[b, :real], attend(alone, layer)[0], 1e-9)


@quick
@given(problems(), st.sampled_from(["hidden", "head"]), st.sampled_from(FORMS))
def test_weights_and_gates(p, scope, printed):
    """Masked keys get exactly 0, rows sum to 1 (to 0 where there is no key), gates lie in (0, 1)."""
    trace = {}
    attend(p, layer_for(p, scope=scope, printed=printed), trace)
    for name in ("attention", "calibrated", "semantic_guided", "dependency_guided"):
        weights = trace[name].reshape(p.b, -1, p.length, p.length)
        mask = p.mask[:, None, None].expand_as(weights)
        assert (weights[~mask] == 0).all() and (weights >= 0).all()
        same(weights.sum(-1), p.mask.any(1)[:, None, None].expand(weights.shape[:-1]), 1e-12)
    for name in ("g", "f"):
        assert ((trace[name] > 0) & (trace[name] < 1)).all()


@quick
@given(st.integers(0, 999))
def test_fusion_lies_between_its_signals(seed):
    sem, dep = normal(B, L, D, seed=seed), normal(B, L, D, seed=seed + 1)
    W_sem, W_dep, W_g = large(nn.Linear(D, D), 3), large(nn.Linear(D, D), 4), large(nn.Linear(2 * D, 1, bias=False), 5)
    v, g = gated_fusion(sem, dep, W_sem, W_dep, W_g)
    s_hat, d_hat = W_sem(sem).tanh(), W_dep(dep).tanh()
    assert (v >= torch.minimum(s_hat, d_hat) - 1e-12).all() and (v <= torch.maximum(s_hat, d_hat) + 1e-12).all()
    assert ((v - d_hat).abs() <= (g * 2 + 1e-12)).all()               # a closed gate leaves d̂


@quick
@given(problems(), st.integers(0, 99))
def test_zero_prior_is_plain_attention(p, seed):
    """M_F = 0 in the cross blocks: Dep = Sem, whichever tokens have words. As typeset it is not."""
    word_index = torch.randint(-1, 2, (p.b, p.length), generator=torch.Generator().manual_seed(seed))
    segment = (torch.arange(p.length) > p.length // 2).long().expand(p.b, -1)
    layer, zero = layer_for(p, without={"fusion"}), torch.zeros(p.b, 2, 2, dtype=torch.float64)
    p.multiplier = layer.multiplier(zero, word_index, segment)
    assert (p.multiplier == 1).all()
    plain = SelfAttention.attend(layer, None, p.q, p.k, p.v, p.mask, None, None)
    same(attend(p, layer), plain, 1e-12)
    same(attend(p, layer, {}), plain, 1e-12)


def weight_of(q, k, multiplier, mask, printed=False):
    trace = {}
    calibrated_attention(q, k, k, multiplier, mask, printed=printed, trace=trace)
    return trace["calibrated"]


@quick
@given(problems(), st.floats(0.01, 100), st.data())
def test_larger_prior_never_lowers_its_own_weight(p, growth, data):
    i, j = (data.draw(st.integers(0, p.length - 1)) for _ in range(2))
    more = p.multiplier.clone()
    more[:, i, j] += growth
    before, after = weight_of(p.q, p.k, p.multiplier, p.mask), weight_of(p.q, p.k, more, p.mask)
    assert (after[..., i, j] >= before[..., i, j] - 1e-15).all()
    others = [x for x in range(p.length) if x != j]
    assert (after[..., i, others] <= before[..., i, others] + 1e-15).all()


def test_calibrated_attention_as_typeset_weakens_negative_scores():
    """DAFA Eq. 6: with a negative q·k a larger prior lowers the weight, 'the opposite of strengthening'."""
    q = torch.full((1, 1, 2, K), 1.0, dtype=torch.float64)
    k = torch.stack([-q[0, 0, 0], q[0, 0, 0] * 0])[None, None]
    mask, one = torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 2, 2, dtype=torch.float64)
    more = one.clone()
    more[0, 0, 0] = 5.0
    assert weight_of(q, k, more, mask, printed=True)[0, 0, 0, 0] < 0.1 * weight_of(q, k, one, mask, True)[0, 0, 0, 0]
    assert weight_of(q, k, more, mask)[0, 0, 0, 0] > 2 * weight_of(q, k, one, mask)[0, 0, 0, 0]


@each_scope
@pytest.mark.parametrize("printed", FORMS, ids=lambda form: "+".join(map(str, sorted(form))) or "none")
def test_swapped_sentences_permute_the_result(scope, printed):
    """[CLS] a [SEP] b [SEP] against [CLS] b [SEP] a [SEP] with the transposed prior."""
    layer, hidden, prior = dafa(scope=scope, printed=printed), normal(1, 8, D), positive(1, 3, 2)
    word_index = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, -1]])
    segment = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1]])
    order = [0, 5, 6, 7, 1, 2, 3, 4]                                   # each [SEP] moves with its sentence
    mask = torch.ones(1, 8, dtype=torch.bool)
    whole = layer(hidden, mask, layer.multiplier(prior, word_index, segment))
    swapped = layer.multiplier(prior.transpose(1, 2), word_index[:, order], torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]]))
    same(layer(hidden[:, order], mask, swapped), whole[:, order], 1e-12)
    wrong = layer.multiplier(prior, word_index[:, order].clamp(max=1), torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]]))
    assert (layer(hidden[:, order], mask, wrong) - whole[:, order]).abs().max() > 1e-3


def test_guide_matters_unless_typeset():
    """DAFA Eq. 7: ⊕ lets the guide cancel in the softmax, all rows are one row; added before tanh it counts."""
    for printed in (False, True):
        trace, layer = {}, dafa(printed={7} if printed else ())
        layer(normal(B, L, D), masks(), positive(B, L, L), trace)
        for name in ("semantic_guided", "dependency_guided"):
            weights = trace[name][:2]
            spread = (weights - weights[:, :1]).abs().amax((1, 2))
            assert (spread < 1e-12).all() if printed else (spread > 0.01).all()


def test_closed_filtration_gate():
    """DAFA Eq. 9 with f → 0: as typeset nothing is left; intended, the original feature passes."""
    sem, v = 1 + positive(B, L, D), normal(B, L, D, seed=1)
    W_v, W_l, W_f = nn.Linear(D, D).double(), nn.Linear(D, D).double(), nn.Linear(2 * D, 1, bias=False).double()
    W_f.weight.data = torch.cat([torch.full((1, D), -1e3), torch.zeros(1, D)], 1).double()
    assert torch.equal(filtration_gate(sem, v, W_v, W_l, W_f)[0], sem)
    assert (filtration_gate(sem, v, W_v, W_l, W_f, printed=True)[0] == 0).all()


@each_scope
@pytest.mark.parametrize("printed", FORMS, ids=lambda form: "+".join(map(str, sorted(form))) or "none")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length, scale", [(L, 1e5), (1, 1.0), (L, 1e-3)])
def test_no_nan(scope, printed, dtype, length, scale):
    """Scores of 1e5, pairs of padding only, one token, bfloat16: outputs and gradients stay finite."""
    layer = dafa(scope=scope, printed=printed).to(dtype)
    q, k, v = (normal(B, H, length, K, seed=i).to(dtype) for i in range(3))
    q = (q * scale).to(dtype).requires_grad_()
    mask = masks()[:, :length]
    for trace in (None, {}):
        out = layer.attend(None, q, k, v, mask, (1 + positive(B, length, length)).float(), trace)
        assert out.dtype == dtype and out.isfinite().all()
        out.float().square().sum().backward()
        assert q.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)


def test_guided_attention_computes_scores_wide():
    """bfloat16 in, but tanh, w and softmax in float32: the weights are those of the rounded keys and queries."""
    values, guide, mask = (normal(1, L, D, seed=i).bfloat16() for i in (1, 2)), None, masks()[:1]
    values, guide = values
    W_values, W_guide = large(nn.Linear(D, A, bias=False), 3).bfloat16(), large(nn.Linear(D, A), 4).bfloat16()
    w = large(nn.Linear(A, 1, bias=False), 5).bfloat16()
    out, weights = guided_attention(values, guide, mask, W_values, W_guide, w)
    keys, queries, w = W_values(values)[0].tolist(), W_guide(guide)[0].tolist(), w.weight[0].tolist()
    want = [softmax_loop([dot(w, [math.tanh(x + y) for x, y in zip(key, query)]) for key in keys], [True] * L)
            for query in queries]
    same(weights[0], want, 1e-5)
    assert out.dtype == torch.bfloat16


# ---- The method in the encoder --------------------------------------------------------------------------------------

def batch(seed=0):
    """Two pairs in ids: `[CLS] a [SEP] b [SEP]`, the second one shorter; prior over 3 × 2 words."""
    mask = torch.tensor([[True] * 8, [True] * 6 + [False] * 2])
    ids = torch.randint(1, 41, (2, 8), generator=torch.Generator().manual_seed(seed)) * mask
    segment = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 0, 0]])
    word_index = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, -1], [-1, 0, -1, 0, 0, -1, -1, -1]])
    return SimpleNamespace(ids=ids, segment=segment, mask=mask, words=word_index, prior=positive(2, 3, 2, seed=seed))


def logits(matcher, x, trace=None):
    return matcher(x.ids, x.segment, x.mask, x.words, x.prior, trace)


@pytest.mark.parametrize("printed", [frozenset(), frozenset({6})], ids=["intended", "printed"])
def test_matcher_spreads_the_prior(printed):
    """Word prior in, logits out: 1 + M_F in the cross blocks (as typeset: M_F), 1 elsewhere, then the encoder."""
    matcher, x = large(Matcher("dafa", config(), 3, printed=printed)), batch()
    prior = (x.prior if printed else 1 + x.prior).tolist()
    spread = torch.tensor([spread_loop(prior[b], x.words[b].tolist(), x.segment[b].tolist()) for b in range(2)],
                          dtype=torch.float64)
    _, pooled = matcher.bert(x.ids, x.segment, x.mask, spread)
    same(logits(matcher, x), pooled @ matcher.classifier.weight.T + matcher.classifier.bias, 1e-12)


def test_matcher_padding_and_neighbours_change_nothing():
    matcher, x = large(Matcher("dafa", config(), 3), scale=0.3), batch()
    short = matcher(x.ids[1:, :6], x.segment[1:, :6], x.mask[1:, :6], x.words[1:, :6], x.prior[1:, :1, :1])
    same(logits(matcher, x)[1:], short, 1e-10)


@pytest.mark.parametrize("layers", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_layers(layers):
    """The chosen layers carry the method, the others plain attention."""
    matcher, x, trace = large(Matcher("dafa", config(), 3, layers), scale=0.3), batch(), {}
    same(logits(matcher, x, trace), logits(matcher, x), 1e-6)
    assert [i for i in range(3) if "calibrated" in trace[f"layer{i}"]] == list(layers)
    assert [i for i, layer in enumerate(matcher.bert.layers) if type(layer.attention) is DafaAttention] == list(layers)
    assert all(trace[f"layer{i}"].keys() == {"attention"} for i in range(3) if i not in layers)


@pytest.mark.parametrize("layers", [(3,), (0, 7), (-1,), ()])
def test_layers_outside_the_encoder(layers):
    with pytest.raises(ValueError, match=r"--layers [-\d, none]*: .*0 to 2"):
        Matcher("dafa", config(), 3, layers)


def test_plain_model():
    """Matcher("bert") is the encoder and a linear classifier on the pooled [CLS]."""
    matcher, x = large(Matcher("bert", config(), 5)), batch()
    got = matcher(x.ids, x.segment, x.mask)
    _, pooled = matcher.bert(x.ids, x.segment, x.mask)
    assert got.shape == (2, 5) and all(type(layer.attention) is SelfAttention for layer in matcher.bert.layers)
    same(got, pooled @ matcher.classifier.weight.T + matcher.classifier.bias, 1e-12)
    plain, method = bert_min.Bert(config()).state_dict().keys(), matcher.state_dict().keys()
    assert method == {f"bert.{name}" for name in plain} | {"classifier.weight", "classifier.bias"}


def test_zero_prior_and_plain_average_is_the_plain_model():
    """The ablation "fusion" with M_F = 0 gives (Sem + Sem) / 2: the encoder's own logits."""
    dafa_model, plain = Matcher("dafa", config(), 3, without={"fusion"}), Matcher("bert", config(), 3)
    x = batch()
    for model in (dafa_model, plain):
        large(model)
    x.prior = torch.zeros_like(x.prior)
    same(logits(dafa_model, x), plain(x.ids, x.segment, x.mask), 1e-10)


NEW = {"W_D.weight", "W_s.weight", "W_s.bias", "W_S.weight", "W_dstar.weight", "W_dstar.bias", "w_d.weight",
       "w_sstar.weight", "W_dhat.weight", "W_dhat.bias", "W_shat.weight", "W_shat.bias", "W_l.weight", "W_l.bias",
       "W_g.weight", "W_v.weight", "W_v.bias", "W_f.weight"}
GUIDED = {name for name in NEW if name.split(".")[0] in ("W_D", "W_s", "W_S", "W_dstar", "w_d", "w_sstar")}
GATES = {"W_g.weight", "W_v.weight", "W_v.bias", "W_f.weight"}


@pytest.mark.parametrize("options, new", [
    ({}, NEW), ({"printed": {7}}, NEW | {"w_d.bias", "w_sstar.bias"}), ({"without": {"cross-attention"}}, NEW - GUIDED),
    ({"without": {"gates"}}, NEW - GATES), ({"without": {"cross-attention", "gates"}}, NEW - GUIDED - GATES),
    ({"without": {"fusion"}}, set())], ids=str)
def test_pretrained_weights_and_new_parameters(options, new):
    """A plain encoder's weights load strictly; new are the paper's own parameters, and a part left out has none."""
    plain = bert_min.Bert(config())
    arrays = {name: value.numpy() for name, value in plain.state_dict().items()}
    matcher = Matcher("dafa", config(), 3, layers=(1,), **options)
    got = bert_min.load_bert(matcher.bert, arrays, "test")
    assert sorted(got) == sorted(f"layers.1.attention.{name}" for name in new)
    assert all(np.array_equal(matcher.bert.state_dict()[name], value) for name, value in arrays.items())
    broken = {name: value for name, value in arrays.items() if name != "layers.1.attention.query.weight"}
    with pytest.raises(ValueError, match="layers.1.attention.query.weight"):
        bert_min.load_bert(matcher.bert, broken, "test")


def test_each_weight_is_stored_once():
    """No module stands in the model under two names: checkpoints hold each number once."""
    names = list(Matcher("dafa", config(), 3).state_dict())
    assert len(names) == len({id(p) for p in Matcher("dafa", config(), 3).parameters()})
    assert not [name for name in names if not name.startswith(("bert.", "classifier."))]


@each_scope
@pytest.mark.parametrize("without", ABLATIONS, ids=lambda names: "+".join(sorted(names)) or "none")
def test_every_parameter_learns(scope, without):
    """Nonzero gradients everywhere in the intended form. A key bias alone cancels, in plain attention as well."""
    matcher, x = large(Matcher("dafa", config(), 3, (0, 2), scope=scope, without=without), scale=0.3), batch()
    logits(matcher, x).square().sum().backward()
    assert [name for name, p in matcher.named_parameters() if p.grad is None] == []
    dead = [name for name, p in matcher.named_parameters() if p.grad.abs().max() < 1e-12]
    assert [name for name in dead if not name.endswith("attention.key.bias")] == []


def test_guide_learns_nothing_as_typeset():
    """DAFA Eq. 7 as typeset: what the guide passes through has no gradient, and neither has the bias behind w."""
    layer = dafa(printed={7}, without={"gates"})
    layer(normal(B, L, D), masks(), positive(B, L, L)).square().sum().backward()
    for name in ("W_s.weight", "W_s.bias", "W_dstar.weight", "W_dstar.bias", "w_d.bias", "w_sstar.bias"):
        assert layer.get_parameter(name).grad.abs().max() < 1e-12
    assert layer.W_D.weight.grad.abs().max() > 1e-6


def test_options_change_the_result():
    """No option is ignored: every form and ablation of one set of weights gives another result."""
    torch.manual_seed(0)
    results, hidden, mask, multiplier = {}, normal(B, L, D), masks(), positive(B, L, L)
    variants = [dict(printed=form) for form in FORMS] + [dict(without=names) for names in ABLATIONS[1:]]
    for options in variants + [dict(scope="head")]:
        results[str(options)] = dafa(**options)(hidden, mask, multiplier)[:2]
    for (x, one), (y, two) in itertools.combinations(results.items(), 2):
        assert (one - two).abs().max() > 1e-3, f"{x} and {y} agree"


def test_declared_options():
    """What the command line offers is what the paper's pages name (Table 8; EQUATIONS.md)."""
    assert DafaAttention.PRINTED == {4, 6, 7, 9}
    assert DafaAttention.ABLATIONS == {"tree", "subgraph", "tfidf", "cross-attention", "gates", "fusion"}
    assert semmatch.ATTENTION == {"bert": SelfAttention, "dafa": DafaAttention}


def test_dropout_on_both_attentions_in_training_only():
    """Sem and Dep each lose weights while training; evaluation is deterministic, with and without a trace."""
    layer = DafaAttention(config(attention_dropout=0.5), without={"fusion"}).double()
    hidden, mask, multiplier = normal(B, L, D), masks(), positive(B, L, L)
    layer.eval()
    assert torch.equal(layer(hidden, mask, multiplier), layer(hidden, mask, multiplier))
    same(layer(hidden, mask, multiplier), layer(hidden, mask, multiplier, {}), 1e-12)
    q = normal(B, H, L, K)
    for trace in (None, {}):
        layer.train()
        torch.manual_seed(1)
        assert (layer(hidden, mask, multiplier, trace) - layer(hidden, mask, multiplier, trace)).abs().max() > 1e-3
        one, two = (calibrated_attention(q, q, q, multiplier, mask, 0.5, trace=trace) for _ in range(2))
        assert (one - two).abs().max() > 1e-3


def test_trace_holds_weights_without_their_graph():
    """A trace is for reading: float weights that keep no graph alive."""
    layer, trace = dafa(), {}
    layer(normal(B, L, D), masks(), positive(B, L, L), trace)
    assert [name for name, value in trace.items() if value.requires_grad] == []
