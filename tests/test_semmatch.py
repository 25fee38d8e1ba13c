"""semmatch.py against its papers: oracles in plain loops written from the pages, properties, options, errors.

Oracles know lists of floats and the math module only. Sizes are distinct primes (d is H times k). What holds for all
methods is one test that runs over METHODS.
"""
import itertools
import math
import zlib
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
from loops import affine, dot, mix_loop, sigma, softmax_loop
from semmatch import (AdditiveScores, DabertAttention, DafaAttention, DifferenceScores, KnowledgeAttention, Matcher,
                      calibrated_attention, co_attention, difference_attention, difference_scores, filtration_gate,
                      gated_fusion, guided_attention, knowledge_scores, pair_blocks, relation_indicator, spread_prior)

B, H, K, L, A, N, M = 3, 2, 5, 7, 11, 13, 17
D = H * K
RELATIONS = 5                # synonym, antonym, hypernym, hyponym, co-hyponym
GAMMA = 2.5                  # not the class's own 1, which a product hides
OUTSIDE = float("-inf")
quick = settings(derandomize=True, deadline=None, max_examples=20)


# ---- Oracles: what the papers share ---------------------------------------------------------------------------------

def mean_loop(x, y):
    return [[(a + b) / 2 for a, b in zip(*rows)] for rows in zip(x, y)]


def attention_loop(q, k, v, multiplier, mask, printed):
    """DABERT Eq. 1; DAFA Eq. 6, Knowledge Eq. 5 with a multiplier. One head of one pair -> weights, mixed."""
    weights = []
    for i, query in enumerate(q):
        scores = [dot(query, key) / math.sqrt(len(query)) for key in k]
        if multiplier and printed:                                     # Q Kᵀ ⊙ M_F
            scores = [dot(query, key) * multiplier[i][j] / math.sqrt(len(query)) for j, key in enumerate(k)]
        if multiplier and not printed:                                 # M̃ exp(q·k / √d_k), normalised
            top = max(scores)
            parts = [m * math.exp(s - top) * real for m, s, real in zip(multiplier[i], scores, mask)]
            weights.append([part / sum(parts) if any(mask) else 0.0 for part in parts])
        else:
            weights.append(softmax_loop(scores, mask))
    return weights, [mix_loop(row, v) for row in weights]


def guided_loop(values, guide, mask, W_values, W_guide, b_guide, w, b, printed):
    """DABERT Eq. 5, DAFA Eq. 7, Knowledge Eq. 6: a half of each, for one pair -> weights, attended values."""
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


def fusion_loop(d_star, s_star, W_d, b_d, W_s, b_s, W_g, b_g=None):
    """DABERT Eq. 6, DAFA Eq. 8, Knowledge Eq. 7 for one token -> v, g. W_g None: a gate of one half."""
    d_hat = [math.tanh(x) for x in affine(W_d, d_star, b_d)]
    s_hat = [math.tanh(x) for x in affine(W_s, s_star, b_s)]
    g = sigma(affine(W_g, d_hat + s_hat, b_g)[0]) if W_g else 0.5
    return [g * s + (1 - g) * d for s, d in zip(s_hat, d_hat)], g


def filtration_loop(s, v, W_f, b_f, W_v, b_v, W_l, b_l, printed):
    """DABERT Eq. 7, DAFA Eq. 9, Knowledge Eq. 8 for one token -> signal, f. W_f None: an open gate; W_v None: v."""
    f = sigma(affine(W_f, s + (affine(W_v, v, b_v) if W_v else v), b_f)[0]) if W_f else 1.0
    l = [f * math.tanh(x) for x in affine(W_l, v, b_l)]
    return (l if printed else [a + b for a, b in zip(s, l)]), f


def spread_loop(prior, word_index, segment, elsewhere):
    """One pair: the prior over words laid out over tokens, `elsewhere` outside the cross blocks."""
    out = [[elsewhere] * len(segment) for _ in segment]
    for x, y in itertools.product(range(len(segment)), repeat=2):
        if word_index[x] >= 0 and word_index[y] >= 0 and (segment[x], segment[y]) == (0, 1):
            out[x][y] = out[y][x] = prior[word_index[x]][word_index[y]]
    return out


# ---- Oracles: DABERT, section 2 -------------------------------------------------------------------------------------

def difference_loop(q, k, printed):
    """Eq. 4 for one head of one pair, the norm that its bars say, or the sum as typeset."""
    term = (lambda x: x) if printed else abs
    return [[sum(term(a - b) for a, b in zip(query, key, strict=True)) for key in k] for query in q]


def difference_attention_loop(q, k, v, mask, printed):
    """Eqs. 2 and 3 for one head of one pair -> weights, mixed. As typeset M, 0 or -10000, is a part of β."""
    weights = []
    for row in difference_loop(q, k, 4 in printed):
        if 3 in printed:
            beta = [x + (0.0 if ok else -10000.0) for x, ok in zip(row, mask)]
            weights.append(softmax_loop([x / math.sqrt(len(q[0])) for x in beta], [True] * len(mask)))
        else:
            weights.append(softmax_loop([x / math.sqrt(len(q[0])) for x in row], mask))
    return weights, [mix_loop(row, v) for row in weights]


def dabert_fuse_loop(P, a, d, mask, printed, without):
    """Eqs. 5 to 7 on the signals of one pair -> tokens, and what a trace holds."""
    if "affinity" in without:
        a = d
    if "difference" in without:
        d = a
    if "regulation" in without:
        return mean_loop(a, d), {}
    seen, d_star, a_star = {"g": [], "f": []}, d, a
    if "guide" not in without:
        b_d, b_a = (P["w_d.bias"][0], P["w_abar.bias"][0]) if 5 in printed else (None, None)
        seen["affinity_guided"], d_bar = guided_loop(
            d, a, mask, P["W_D.weight"], P["W_a.weight"], P["W_a.bias"], P["w_d.weight"][0], b_d, 5 in printed)
        seen["difference_guided"], a_bar = guided_loop(
            a, d_bar, mask, P["W_A.weight"], P["W_dbar.weight"], P["W_dbar.bias"], P["w_abar.weight"][0], b_a,
            5 in printed)
        d_star = [[math.tanh(x) for x in affine(P["W_dstar.weight"], d_i + bar, P["W_dstar.bias"])]
                  for d_i, bar in zip(d, d_bar)]
        a_star = [[math.tanh(x) for x in affine(P["W_astar.weight"], a_i + bar, P["W_astar.bias"])]
                  for a_i, bar in zip(a, a_bar)]
    W_g = P["W_g.weight"] if "gate-fusion" not in without else None
    W_f, W_v, b_v = ((P["W_f.weight"], P["W_v.weight"], P["W_v.bias"]) if "gate-filter" not in without
                     else (None, None, None))
    tokens = []
    for i in range(len(mask)):
        v, g = fusion_loop(d_star[i], a_star[i], P["W_dhat.weight"], P["W_dhat.bias"], P["W_ahat.weight"],
                           P["W_ahat.bias"], W_g)
        l, f = filtration_loop(a[i], v, W_f, None, W_v, b_v, P["W_l.weight"], P["W_l.bias"], 7 in printed)
        tokens.append(l), seen["g"].append([g]), seen["f"].append([f])
    return tokens, seen


# ---- Oracles: DAFA, section 2.2 -------------------------------------------------------------------------------------

def dafa_fuse_loop(P, s, d, mask, printed, without):
    """Eqs. 7 to 9 on the signals of one pair -> tokens, and what a trace holds."""
    if "fusion" in without:
        return mean_loop(s, d), {}
    seen, d_star, s_star = {"g": [], "f": []}, d, s
    if "cross-attention" not in without:
        b_d, b_s = (P["w_d.bias"][0], P["w_sstar.bias"][0]) if 7 in printed else (None, None)
        seen["semantic_guided"], d_star = guided_loop(
            d, s, mask, P["W_D.weight"], P["W_s.weight"], P["W_s.bias"], P["w_d.weight"][0], b_d, 7 in printed)
        seen["dependency_guided"], s_star = guided_loop(
            s, d_star, mask, P["W_S.weight"], P["W_dstar.weight"], P["W_dstar.bias"], P["w_sstar.weight"][0], b_s,
            7 in printed)
    W_g = P["W_g.weight"] if "gates" not in without and "gate-fusion" not in without else None
    W_f, W_v, b_v = None, None, None
    if "gates" not in without and "gate-filter" not in without:
        W_f, W_v, b_v = P["W_f.weight"], P["W_v.weight"], P["W_v.bias"]
    tokens = []
    for i in range(len(mask)):
        v, g = fusion_loop(d_star[i], s_star[i], P["W_dhat.weight"], P["W_dhat.bias"], P["W_shat.weight"],
                           P["W_shat.bias"], W_g)
        l, f = filtration_loop(s[i], v, W_f, None, W_v, b_v, P["W_l.weight"], P["W_l.bias"], 9 in printed)
        tokens.append(l), seen["g"].append([g]), seen["f"].append([f])
    return tokens, seen


# ---- Oracles: External knowledge, section 3 -------------------------------------------------------------------------

def indicator_loop(k_ij, printed):
    """Eq. 2 for one pair of words; the page knows synonyms, antonyms, hypernyms and hyponyms."""
    return 1 if any(k_ij[r] for r in range(4 if printed else RELATIONS)) else 0


def score_loop(h_a, h_b, G, printed):
    """Eq. 1: s_ij between the words of two sentences, over √d unless as typeset."""
    return [[dot(x, y) / (1 if printed else math.sqrt(len(x))) + G[i][j] for j, y in enumerate(h_b)]
            for i, x in enumerate(h_a)]


def co_attention_loop(h_a, h_b, s):
    """Eqs. 3 and 4 -> K_prior, c^A, c^B of two sentences with words in both."""
    omega_a = [softmax_loop(row, [True] * len(row)) for row in s]
    omega_b = [softmax_loop(column, [True] * len(column)) for column in zip(*s)]       # [j][i]
    prior = [[(omega_a[i][j] + omega_b[j][i]) / 2 for j in range(len(h_b))] for i in range(len(h_a))]
    return prior, [mix_loop(row, h_b) for row in omega_a], [mix_loop(row, h_a) for row in omega_b]


def knowledge_prior_loop(hidden, relations, word_index, segment, gamma, printed):
    """Eqs. 1 to 4 for one pair -> what Eq. 5 multiplies by (L, L), and c of each token (L, d)."""
    sides = [[i for i, word in enumerate(word_index) if word >= 0 and segment[i] == side] for side in (0, 1)]
    out = [[1.0] * len(segment) for _ in segment]
    context = [[0.0] * len(x) for x in hidden]
    if all(sides):
        h_a, h_b = ([hidden[i] for i in side] for side in sides)
        G = [[gamma * indicator_loop(relations[word_index[i]][word_index[j]], 2 in printed) for j in sides[1]]
             for i in sides[0]]
        prior, c_a, c_b = co_attention_loop(h_a, h_b, score_loop(h_a, h_b, G, 1 in printed))
        mean = 1.0 if 5 in printed else sum(map(sum, prior)) / len(h_a) / len(h_b)
        for (x, i), (y, j) in itertools.product(*(enumerate(side) for side in sides)):
            out[i][j] = out[j][i] = prior[x][y] / mean
        for i, c in zip(sum(sides, []), c_a + c_b):
            context[i] = c
    return out, context


def knowledge_fuse_loop(P, sem, knw, mask, printed, without):
    """Eqs. 6 to 8 on the signals of one pair -> tokens, and what a trace holds."""
    if "fusion" in without:
        return mean_loop(sem, knw), {}
    seen, hat_knw, hat_sem = {"g": [], "f": []}, knw, sem
    if "guide" not in without:
        b_knw, b_sem = (P["w_zknw.bias"][0], P["w_zsem.bias"][0]) if 6 in printed else (None, None)
        seen["semantic_guided"], hat_knw = guided_loop(
            knw, sem, mask, P["W_Oknw.weight"], P["W_osem.weight"], P["W_osem.bias"], P["w_zknw.weight"][0], b_knw,
            6 in printed)
        seen["knowledge_guided"], hat_sem = guided_loop(
            sem, hat_knw, mask, P["W_Osem.weight"], P["W_ohatknw.weight"], P["W_ohatknw.bias"],
            P["w_zsem.weight"][0], b_sem, 6 in printed)
    W_fuse, b_fuse, W_filter, b_filter = (
        (P["W_gfuse.weight"], P["W_gfuse.bias"], P["W_gfilter.weight"], P["W_gfilter.bias"])
        if "gates" not in without else (None,) * 4)
    tokens = []
    for i in range(len(mask)):
        u, g = fusion_loop(hat_knw[i], hat_sem[i], P["W_otildeknw.weight"], P["W_otildeknw.bias"],
                           P["W_otildesem.weight"], P["W_otildesem.bias"], W_fuse, b_fuse)
        y, f = filtration_loop(sem[i], u, W_filter, b_filter, None, None, P["W_y.weight"], P["W_y.bias"], 8 in printed)
        tokens.append(y), seen["g"].append([g]), seen["f"].append([f])
    return tokens, seen


def layer_loop(name, layer, hidden, prior, mask):
    """A whole method for one pair, head by head -> tokens, and what a trace holds. prior: what the page multiplies
    by (DAFA), or relations, word_index, segment and γ (Knowledge)."""
    P, printed, without = {x: w.tolist() for x, w in layer.state_dict().items()}, layer.printed, layer.without
    method, seen = METHODS[name], {"attention": []}
    if name == "knowledge":
        prior, seen["context"] = knowledge_prior_loop(hidden, *prior, printed)
        seen["prior"] = prior
    signals = []
    for h in range(layer.heads):
        q, k, v = ([affine(P[f"{x}.weight"], token, P[f"{x}.bias"])[h * K:(h + 1) * K] for token in hidden]
                   for x in ("query", "key", "value"))
        plain, one = attention_loop(q, k, v, None, mask, False)
        second, other = (difference_attention_loop(q, k, v, mask, printed) if name == "dabert" else
                         attention_loop(q, k, v, prior, mask, {"dafa": 6, "knowledge": 5}[name] in printed))
        seen["attention"].append(plain), seen.setdefault(method.second, []).append(second)
        signals.append((one, other))
    if layer.scope == "hidden":                                        # one signal: the heads side by side
        signals = [[[sum(parts, []) for parts in zip(*heads)] for heads in zip(*signals)]]
    tokens = []
    for one, other in signals:
        out, kept = method.fuse_loop(P, one, other, mask, printed, without)
        tokens.append(out)
        for key, value in kept.items():
            seen.setdefault(key, []).append(value)
    return [sum(parts, []) for parts in zip(*tokens)], seen


# ---- Material -------------------------------------------------------------------------------------------------------

def forms(*numbers):
    """Nothing as typeset, each number alone, all of them."""
    return [frozenset(), *(frozenset({number}) for number in numbers), frozenset(numbers)]


def ablations(*parts, together=()):
    return [frozenset(), *(frozenset({part}) for part in parts), *map(frozenset, together)]


METHODS = {
    "dabert": SimpleNamespace(
        attention=DabertAttention, forms=forms(3, 4, 5, 7), second="difference", fuse_loop=dabert_fuse_loop,
        guided=("affinity_guided", "difference_guided"), guiding=5, filtering=7, average="regulation", no_guide="guide",
        ablations=ablations("affinity", "difference", "guide", "gate-fusion", "gate-filter", "regulation", together=[
            ("gate-fusion", "gate-filter"), ("guide", "difference"), ("affinity", "gate-filter")])),
    "dafa": SimpleNamespace(
        attention=DafaAttention, forms=forms(6, 7, 9), second="calibrated", fuse_loop=dafa_fuse_loop,
        guided=("semantic_guided", "dependency_guided"), guiding=7, filtering=9, average="fusion",
        no_guide="cross-attention",
        ablations=ablations("cross-attention", "gates", "gate-fusion", "gate-filter", "fusion", together=[
            ("cross-attention", "gates"), ("cross-attention", "gate-fusion")])),
    "knowledge": SimpleNamespace(
        attention=KnowledgeAttention, forms=forms(1, 2, 5, 6, 8), second="calibrated", fuse_loop=knowledge_fuse_loop,
        guided=("semantic_guided", "knowledge_guided"), guiding=6, filtering=8, average="fusion", no_guide="guide",
        ablations=ablations("fusion", "prior", "guide", "gates", together=[("guide", "gates"), ("prior", "fusion")])),
}


def labelled(names):
    return "+".join(map(str, sorted(names))) or "none"


each_scope = pytest.mark.parametrize("scope", ["hidden", "head"])
each_form = pytest.mark.parametrize("printed", [False, True], ids=["intended", "printed"])
each_method = pytest.mark.parametrize("name", METHODS)
each_form_of_each = pytest.mark.parametrize(
    "name, printed", [pytest.param(name, form, id=f"{name}-{labelled(form)}")
                      for name, method in METHODS.items() for form in method.forms])
both_ends_of_each = pytest.mark.parametrize(
    "name, printed", [pytest.param(name, form, id=f"{name}-{word}") for name, method in METHODS.items()
                      for word, form in (("intended", method.forms[0]), ("printed", method.forms[-1]))])
each_ablation_of_each = pytest.mark.parametrize(
    "name, without", [pytest.param(name, parts, id=f"{name}-{labelled(parts)}")
                      for name, method in METHODS.items() for parts in method.ablations])


def variants(name):
    """Each form whole, and each ablation in the intended form and all as typeset."""
    method = METHODS[name]
    pairs = [(form, frozenset()) for form in method.forms] + [
        (form, parts) for form in (method.forms[0], method.forms[-1]) for parts in method.ablations[1:]]
    return pytest.mark.parametrize("printed, without", pairs, ids=labelled)


def normal(*size, seed=0, scale=1.0):
    return scale * torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def config(**changes):
    sizes = dict(vocab_size=41, hidden_size=D, num_layers=3, num_heads=H, intermediate_size=19, max_length=23,
                 dropout=0.0, attention_dropout=0.0)
    return BertConfig(**(sizes | changes))


def large(module, seed=1, scale=0.7):
    """The module in float64 with weights so large that every part of an equation shows; a weight depends on its name
    and its shape alone, so that models with other options share what they can."""
    module = module.double().eval()
    for name, parameter in module.named_parameters():
        around = 1.0 if name.endswith("norm.weight") else 0.0          # a small norm would make all tokens alike
        parameter.data = around + normal(*parameter.shape, seed=1000 * seed + zlib.crc32(name.encode()), scale=scale)
    return module


def method(name, seed=1, scale=0.7, sizes=None, **options):
    return large(METHODS[name].attention(config(**(sizes or {})), attention_size=A, **options), seed, scale)


def masks():
    """A whole pair, one with padding inside and at the end, one of padding only."""
    mask = torch.ones(B, L, dtype=torch.bool)
    mask[1, 2] = mask[1, 5:] = mask[2] = False
    return mask


def words():
    """word_index, segment of `masks`: words of one and of two pieces, tokens without a word, a pair without words."""
    return (torch.tensor([[-1, 0, 12, 12, 5, 16, -1], [4, 7, -1, 0, 3, -1, -1], [-1] * 7]),
            torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0], [0] * 7]))


def packed(n, m):
    """word_index, segment (1, n + m + 3) of `[CLS] a [SEP] b [SEP]`, each word one piece."""
    return (torch.tensor([[-1, *range(n), -1, *range(m), -1]]), torch.tensor([[0] * (n + 2) + [1] * (m + 1)]))


def positive(*size, seed=0):
    return normal(*size, seed=seed).exp()


def related(*size, seed=0, share=0.15):
    """k_ij of any shape before its axis of relations."""
    return torch.rand(*size, RELATIONS, generator=torch.Generator().manual_seed(seed)) < share


def prior_of(name, layer, seed=0):
    """What `attend` takes for a batch of `masks`."""
    if name == "knowledge":
        return layer.spread(related(B, N, M, seed=seed), *words())
    multiplier = positive(B, L, L, seed=seed)                          # any matrix: not even symmetric
    return None if name == "dabert" else multiplier if 6 in layer.printed else multiplier.log()


def same(got, want, within=1e-10):
    want = torch.as_tensor(want, dtype=got.dtype)
    assert got.shape == want.shape
    assert torch.equal(got.isinf(), want.isinf()) and torch.equal(got[got.isinf()], want[want.isinf()])
    off = (got - want)[~got.isinf()].abs()                             # a NaN is not within
    assert (off <= within).all(), f"off by {off.max()}"


@st.composite
def problems(draw, scales=(1e-3, 1.0, 30.0)):
    """q, k, v, hidden states, priors of every kind and a ragged mask of any sizes; some pairs are all padding."""
    b, h, length, k = (draw(st.integers(1, top)) for top in (3, 3, 6, 4))
    lengths = draw(st.lists(st.integers(0, length), min_size=b, max_size=b))
    seed, scale = draw(st.integers(0, 999)), draw(st.sampled_from(scales))
    q, key, v = (normal(b, h, length, k, seed=3 * seed + i) for i in range(3))
    if draw(st.booleans()):
        key[:] = key[:, :, :1]                                         # ties: all keys alike
    mask = torch.arange(length) < torch.tensor(lengths)[:, None]
    word_index = torch.randint(-1, 3, (b, length), generator=torch.Generator().manual_seed(seed))
    return SimpleNamespace(
        b=b, h=h, length=length, size=k, seed=seed, mask=mask, q=q * scale, k=key, v=v,
        hidden=normal(b, length, h * k, seed=seed + 7) * scale, multiplier=1 + positive(b, length, length, seed=seed),
        word_index=word_index.masked_fill(~mask, -1), relations=related(b, 3, 3, seed=seed, share=0.3),
        segment=(torch.arange(length) > draw(st.integers(-1, length - 1))).long().expand(b, -1))


def prior_for(name, layer, p):
    if name == "knowledge":
        return layer.spread(p.relations, p.word_index, p.segment)
    return None if name == "dabert" else p.multiplier if 6 in layer.printed else p.multiplier.log()


def attend(p, layer, prior, trace=None):
    return layer.attend(p.hidden, p.q, p.k, p.v, p.mask, prior, trace)


def layer_for(p, name, **options):
    return method(name, p.seed + 1, sizes=dict(hidden_size=p.h * p.size, num_heads=p.h), **options)


def options_of(name):
    return st.fixed_dictionaries({"scope": st.sampled_from(["hidden", "head"]),
                                  "printed": st.sampled_from(METHODS[name].forms)})


# ---- Each equation against its loops --------------------------------------------------------------------------------

@each_form
@pytest.mark.parametrize("traced", [False, True])
def test_calibrated_attention_oracle(printed, traced):
    q, k, v, mask = *(normal(B, H, L, K, seed=i) for i in range(3)), masks()
    multiplier = positive(B, L, L)
    trace = {} if traced else None
    got = calibrated_attention(q, k, v, multiplier if printed else multiplier.log(), mask, printed=printed, trace=trace)
    for b, h in itertools.product(range(B), range(H)):
        weights, mixed = attention_loop(*(x[b, h].tolist() for x in (q, k, v)), multiplier[b].tolist(),
                                        mask[b].tolist(), printed)
        same(got[b, h], mixed)
        if traced:
            same(trace["calibrated"][b, h], weights)


def test_plain_attention_oracle():
    """DABERT Eq. 1; the first line of DAFA Eq. 6; the first two of Knowledge Eq. 5."""
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
def test_difference_scores_oracle(printed):
    """DABERT Eq. 4."""
    q, k = normal(B, H, L, K, seed=1), normal(B, H, L, K, seed=2)
    k[0, 1, 3] = q[0, 1, 5]                                            # no difference at all
    got = difference_scores(q, k, printed)
    for b, h in itertools.product(range(B), range(H)):
        same(got[b, h], difference_loop(q[b, h].tolist(), k[b, h].tolist(), printed))


@pytest.mark.parametrize("printed", [*METHODS["dabert"].forms, frozenset({3, 4})], ids=labelled)
@pytest.mark.parametrize("traced", [False, True])
def test_difference_attention_oracle(printed, traced):
    """DABERT Eqs. 2 and 3. One masked key is so different that M = -10000, over √d_k, leaves it some weight."""
    q, k, v, mask = *(normal(B, H, L, K, seed=i) for i in range(3)), masks()
    k[1, :, 2] += (-1 if 4 in printed else 1) * 1e4 / K
    trace = {} if traced else None
    got = difference_attention(q, k, v, mask, printed=printed, trace=trace)
    for b, h in itertools.product(range(B), range(H)):
        weights, mixed = difference_attention_loop(*(x[b, h].tolist() for x in (q, k, v)), mask[b].tolist(), printed)
        same(got[b, h], mixed)
        if traced:
            same(trace["difference"][b, h], weights)


@each_form
def test_guided_attention_oracle(printed):
    """DABERT Eq. 5, first four lines; DAFA Eq. 7; Knowledge Eq. 6."""
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


@pytest.mark.parametrize("gate", ["closed by half", "without bias", "with bias"])
def test_gated_fusion_oracle(gate):
    """DABERT Eq. 6, DAFA Eq. 8; with a bias in the gate Knowledge Eq. 7."""
    sem, other, biased = normal(B, L, D, seed=1), normal(B, L, D, seed=2), gate == "with bias"
    W_sem, W_other, W_g = (large(nn.Linear(D, D), 3), large(nn.Linear(D, D), 4),
                           None if gate == "closed by half" else large(nn.Linear(2 * D, 1, bias=biased), 5))
    got, g = gated_fusion(sem, other, W_sem, W_other, W_g)
    assert g.shape == (B, L, 1)
    for b, i in itertools.product(range(B), range(L)):
        v, want = fusion_loop(other[b, i].tolist(), sem[b, i].tolist(), W_other.weight.tolist(), W_other.bias.tolist(),
                              W_sem.weight.tolist(), W_sem.bias.tolist(), W_g.weight.tolist() if W_g else None,
                              W_g.bias.tolist() if biased else None)
        same(got[b, i], v)
        same(g[b, i], [want])


@each_form
@pytest.mark.parametrize("mapped", [True, False], ids=["W_v", "no W_v"])
@pytest.mark.parametrize("gate", ["open", "without bias", "with bias"])
def test_filtration_gate_oracle(printed, mapped, gate):
    """DABERT Eq. 7, DAFA Eq. 9; without W_v and with a bias in the gate Knowledge Eq. 8."""
    sem, v, biased = normal(B, L, D, seed=1), normal(B, L, D, seed=2), gate == "with bias"
    W_v, W_l, W_f = (large(nn.Linear(D, D), 3) if mapped else None, large(nn.Linear(D, D), 4),
                     None if gate == "open" else large(nn.Linear(2 * D, 1, bias=biased), 5))
    got, f = filtration_gate(sem, v, W_v, W_l, W_f, printed)
    assert f.shape == (B, L, 1)
    for b, i in itertools.product(range(B), range(L)):
        out, want = filtration_loop(sem[b, i].tolist(), v[b, i].tolist(), W_f.weight.tolist() if W_f else None,
                                    W_f.bias.tolist() if biased else None, W_v.weight.tolist() if W_v else None,
                                    W_v.bias.tolist() if W_v else None, W_l.weight.tolist(), W_l.bias.tolist(), printed)
        same(got[b, i], out)
        same(f[b, i], [want])


@each_form
def test_relation_indicator_oracle(printed):
    """Knowledge Eq. 2."""
    relations = related(B, N, M)
    got = relation_indicator(relations, printed)
    assert got.dtype == torch.bool and got.shape == (B, N, M)
    assert got.tolist() == [[[bool(indicator_loop(k_ij, printed)) for k_ij in row] for row in pair]
                            for pair in relations.tolist()]
    alone = torch.eye(RELATIONS, dtype=torch.bool)[None, None]
    assert relation_indicator(alone, printed).tolist() == [[[True] * 4 + [not printed]]]


def sides(b):
    """The tokens of pair b of `words` that are words, in sentence a and in sentence b."""
    word_index, segment = (x[b].tolist() for x in words())
    return [[i for i in range(L) if word_index[i] >= 0 and segment[i] == side] for side in (0, 1)]


@each_form
def test_knowledge_scores_oracle(printed):
    """Knowledge Eq. 1."""
    hidden, G = normal(B, L, D), spread_prior(normal(B, N, M, seed=1), *words(), OUTSIDE)
    got = knowledge_scores(hidden, G, printed)
    for b in range(B):
        want = torch.full((L, L), OUTSIDE, dtype=torch.float64)
        s = score_loop(*([hidden[b, i].tolist() for i in side] for side in sides(b)),
                       [[G[b, i, j].item() for j in sides(b)[1]] for i in sides(b)[0]], printed)
        for (x, i), (y, j) in itertools.product(*(enumerate(side) for side in sides(b))):
            want[i, j] = want[j, i] = s[x][y]
        same(got[b], want)


def test_co_attention_oracle():
    """Knowledge Eqs. 3 and 4. Three words against two, two against two, a pair without words."""
    hidden, scores = normal(B, L, D), spread_prior(2 * normal(B, N, M, seed=1), *words(), OUTSIDE)
    log_prior, context = co_attention(hidden, scores)
    for b in range(B):
        want, found = torch.full((L, L), OUTSIDE, dtype=torch.float64), torch.zeros(L, D, dtype=torch.float64)
        a, of_b = sides(b)
        if a:
            prior, c_a, c_b = co_attention_loop(*([hidden[b, i].tolist() for i in side] for side in (a, of_b)),
                                                [[scores[b, i, j].item() for j in of_b] for i in a])
            for (x, i), (y, j) in itertools.product(enumerate(a), enumerate(of_b)):
                want[i, j] = want[j, i] = math.log(prior[x][y])
            for i, c in zip(a + of_b, c_a + c_b):
                found[i] = torch.tensor(c, dtype=torch.float64)
        same(log_prior[b], want)
        same(context[b], found)


def check_layer(name, scope, printed, without):
    """A whole method against its loops, with and without a trace; and what the trace holds."""
    layer = method(name, scope=scope, printed=printed, without=without)
    layer.GAMMA = GAMMA
    hidden, mask, (word_index, segment), trace = normal(B, L, D, seed=8), masks(), words(), {}
    relations, multiplier = related(B, N, M, seed=9), positive(B, L, L, seed=9)
    prior = None if name == "dabert" else multiplier if 6 in printed else multiplier.log()
    prior = layer.spread(relations, word_index, segment) if name == "knowledge" else prior
    got, again = layer(hidden, mask, prior), layer(hidden, mask, prior, trace)
    seen = []
    for b in range(B):
        page = {"dabert": None, "dafa": multiplier[b].tolist(),
                "knowledge": (relations[b].tolist(), word_index[b].tolist(), segment[b].tolist(),
                              0.0 if "prior" in without else GAMMA)}[name]
        want, kept = layer_loop(name, layer, hidden[b].tolist(), page, mask[b].tolist())
        same(got[b], want)
        same(again[b], want)
        seen.append(kept)
    names = {"attention", METHODS[name].second} | ({"prior", "context"} if name == "knowledge" else set())
    if METHODS[name].average not in without:
        names |= {"g", "f"} | (set(METHODS[name].guided) if METHODS[name].no_guide not in without else set())
    assert trace.keys() == names
    for part in names:
        want = torch.tensor([kept[part] for kept in seen], dtype=torch.float64)
        same(trace[part], want.flatten(0, 1) if part in {"g", "f", *METHODS[name].guided} else want)


@each_scope
@variants("dabert")
def test_dabert_attention_oracle(scope, printed, without):
    """Eqs. 1 to 7 in a row, in every option."""
    check_layer("dabert", scope, printed, without)


@each_scope
@variants("dafa")
def test_dafa_attention_oracle(scope, printed, without):
    """Eqs. 6 to 9 in a row, in every option."""
    check_layer("dafa", scope, printed, without)


@each_scope
@variants("knowledge")
def test_knowledge_attention_oracle(scope, printed, without):
    """Eqs. 1 to 8 in a row, in every option."""
    check_layer("knowledge", scope, printed, without)


@pytest.mark.parametrize("elsewhere", [0.0, 1.0, OUTSIDE])
@pytest.mark.parametrize("n, m", [(N, M), (1, 1), (M, 1)])
def test_spread_prior_oracle(n, m, elsewhere):
    """Words of one and of several pieces, specials, padding, a sentence without words."""
    prior = normal(B, n, m)
    segment = torch.tensor([[0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 0, 0]])
    i, j = min(4, n - 1), min(6, m - 1)
    word_index = torch.tensor([[-1, 0, i, -1, j, j, -1], [-1, -1, 0, j, -1, -1, -1], [-1, i, -1, j, -1, -1, -1]])
    got = spread_prior(prior, word_index, segment, elsewhere)
    for b in range(B):
        assert got[b].tolist() == spread_loop(prior[b].tolist(), word_index[b].tolist(), segment[b].tolist(), elsewhere)
    assert (got[1] == elsewhere).all()
    if n == N:
        assert got[0, 2, 5] == got[0, 5, 2] == prior[0, 4, 6] and got[2, 1, 3] == prior[2, 4, 6]


@pytest.mark.parametrize("name, size", [("dafa", (0, 2)), ("dafa", (2, 0)), ("dafa", (0, 0)), ("knowledge", (2, 0, 5))])
def test_a_prior_without_words(name, size):
    """A sentence without words has no row or no column, as priors make it: nothing is calibrated."""
    matcher, x = large(Matcher(name, config(), 3)), batch(name)
    none = torch.full_like(x.words, -1)
    got = matcher(x.ids, x.segment, x.mask, none, torch.zeros(2, *size, dtype=x.prior.dtype))
    same(got, matcher(x.ids, x.segment, x.mask, none, x.prior), 0.0)


@quick
@given(st.data())
def test_spread_prior_of_any_pair(data):
    n, m = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    a, b = (data.draw(st.lists(st.integers(-1, top - 1), max_size=4)) for top in (n, m))
    padding, elsewhere = data.draw(st.integers(0, 2)), data.draw(st.sampled_from([0.0, 1.0, OUTSIDE]))
    word_index = [-1] + a + [-1] + b + [-1] + [-1] * padding
    segment = [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0] * padding
    prior = normal(1, n, m, seed=len(word_index))
    got = spread_prior(prior, torch.tensor([word_index]), torch.tensor([segment]), elsewhere)[0]
    assert got.tolist() == spread_loop(prior[0].tolist(), word_index, segment, elsewhere)


@pytest.mark.parametrize("printed, without, gamma", [((), (), GAMMA), ({2}, (), GAMMA), ((), {"prior"}, 0.0)], ids=str)
def test_relations_are_spread(printed, without, gamma):
    """Knowledge: γ I(k_ij) for words of different sentences, -∞ for other pairs of tokens; "prior" is γ = 0."""
    layer, relations = method("knowledge", printed=printed, without=without), related(B, N, M, seed=4, share=0.3)
    assert KnowledgeAttention.GAMMA == 1.0
    layer.GAMMA = GAMMA
    got, (word_index, segment) = layer.spread(relations, *words()), words()
    for b in range(B):
        G = [[gamma * indicator_loop(k_ij, 2 in printed) for k_ij in row] for row in relations[b].tolist()]
        assert got[b].tolist() == spread_loop(G, word_index[b].tolist(), segment[b].tolist(), OUTSIDE)


def test_hand_check_of_the_difference():
    """Query (0, 0) against (3, -4) and (1, 0), by hand: distances 7 and 1; as typeset 1 and -1."""
    q, k = torch.zeros(1, 1, 1, 2), torch.tensor([[[[3.0, -4.0], [1.0, 0.0]]]])
    assert difference_scores(q.expand_as(k), k).tolist() == [[[[7, 1]] * 2]]
    assert difference_scores(q.expand_as(k), k, printed=True).tolist() == [[[[1, -1]] * 2]]


def test_hand_check_of_the_calibration():
    """Two keys with equal scores and M̃ = 1 + 5 for one of them: 6/7 and 1/7. By hand, from EQUATIONS.md's M_F = 5."""
    q = torch.zeros(1, 1, 2, K, dtype=torch.float64)
    prior = torch.tensor([[[1.0, 6.0], [6.0, 1.0]]], dtype=torch.float64).log()
    trace = {}
    calibrated_attention(q, q, q, prior, torch.ones(1, 2, dtype=torch.bool), trace=trace)
    same(trace["calibrated"][0, 0], [[1 / 7, 6 / 7], [6 / 7, 1 / 7]], 1e-15)


def test_hand_check_of_the_knowledge_prior():
    """One word against two that are alike but for a relation, γ = ln 3: ω^A = 3/4, 1/4, ω^B = 1, 1. By hand: K_prior =
    7/8, 5/8, its mean is (1/1 + 1/2)/2 = 3/4, K̃ = 7/6, 5/6."""
    relations = torch.zeros(1, 1, 2, RELATIONS, dtype=torch.bool)
    relations[0, 0, 0, 1] = True
    for printed, want in (((), (7 / 6, 5 / 6)), ({5}, (7 / 8, 5 / 8))):
        trace, layer = {}, method("knowledge", printed=printed)
        layer.GAMMA = math.log(3)
        layer(torch.ones(1, 6, D).double(), torch.ones(1, 6, dtype=torch.bool), layer.spread(relations, *packed(1, 2)),
              trace)
        block = trace["prior"][0, 1, [3, 4]]
        same(block, want, 1e-7)                                        # G is float32


# ---- Scores in blocks -----------------------------------------------------------------------------------------------

def naive_scores(keys, queries, w):
    return torch.tanh(keys[:, None] + queries[:, :, None]) @ w


def naive_difference(keys, queries):
    return torch.cdist(queries, keys, p=1)


def full_difference(keys, queries):
    """Every difference at once, as a student would write it first."""
    return (queries[:, :, None] - keys[:, None]).abs().sum(-1)


each_score = pytest.mark.parametrize("function, naive, sizes", [
    (AdditiveScores.apply, naive_scores, [(B, M, A), (B, L, A), (A,)]),
    (DifferenceScores.apply, naive_difference, [(B, M, A), (B, L, A)])], ids=["additive", "difference"])
BLOCKS = {"row": 1, "2 rows": 2 * M * A, "2 pairs": 2 * L * M * A, "all": 2 ** 17}


@each_score
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_scores_equal_the_naive_form(function, naive, sizes, block, monkeypatch):
    """Forward and backward, with more keys than queries, equal parts among them."""
    monkeypatch.setitem(semmatch.BLOCK, "cpu", block)
    wide = [normal(*size, seed=i) for i, size in enumerate(sizes, 1)]
    wide[0][1, 4] = wide[1][1, 3]                                      # a distance of 0
    wide[0][0, 2, :3] = wide[1][0, 5, :3]
    e = normal(B, L, M, seed=4)
    results = []
    for scores in (function, naive):
        inputs = [x.clone().requires_grad_() for x in wide]
        out = scores(*inputs)
        results.append([out, *torch.autograd.grad(out, inputs, e)])
    for got, want in zip(*results):
        same(got, want, 1e-12)


def test_pair_blocks(monkeypatch):
    """Each query of each pair comes once, with all keys; a block holds at most BLOCK numbers, or one row."""
    keys, queries = normal(B, M, A, seed=1), normal(B, L, A, seed=2)
    for block, many in zip(BLOCKS.values(), (B * L, B * 4, 2, 1)):
        monkeypatch.setitem(semmatch.BLOCK, "cpu", block)
        seen, parts = torch.zeros(B, L), list(pair_blocks(keys, queries))
        for b, i, k, q in parts:
            seen[b, i] += 1
            assert (k + q).numel() <= max(block, M * A)
            assert torch.equal(k + q, keys[b][:, None] + queries[b, i][:, :, None])
            assert {x.untyped_storage().data_ptr() for x in (k, q)} == {
                x.untyped_storage().data_ptr() for x in (keys, queries)}           # views: nothing is copied
        assert (seen == 1).all() and len(parts) == many


@pytest.mark.parametrize("split", [True, False])
def test_additive_scores_walk_in_blocks(split, monkeypatch):
    """Both forms of r walk as pair_blocks does, at most BLOCK numbers at a time."""
    keys, queries = normal(B, M, A, seed=1), normal(B, L, A, seed=2)
    for block, many in zip(BLOCKS.values(), (B * L, B * 4, 2, 1)):
        monkeypatch.setitem(semmatch.BLOCK, "cpu", block)
        seen, parts = torch.zeros(B, L), list(AdditiveScores.blocks(keys, queries, split))
        for b, i, numbers in parts:
            seen[b, i] += 1
            assert numbers.numel() <= max(block, M * A) and numbers.shape == (*seen[b, i].shape, M, A)
        assert (seen == 1).all() and len(parts) == many


@each_score
def test_scores_gradcheck(function, naive, sizes, monkeypatch):
    """Five queries of two pairs, two at a time."""
    monkeypatch.setitem(semmatch.BLOCK, "cpu", 2 * 5 * 3)
    inputs = [normal(2, 5, 3, seed=1), normal(2, 5, 3, seed=2), normal(3, seed=3)][:len(sizes)]
    assert len(list(pair_blocks(*inputs[:2]))) == 2 * 3
    assert (inputs[0][:, None] - inputs[1][:, :, None]).abs().min() > 1e-3        # no kink of the L1 norm is near
    assert torch.autograd.gradcheck(function, [x.requires_grad_() for x in inputs])


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


@pytest.mark.parametrize("function, full, parts", [(AdditiveScores.apply, naive_scores, 3),
                                                   (DifferenceScores.apply, full_difference, 2)],
                         ids=["additive", "difference"])
def test_scores_memory(function, full, parts, monkeypatch):
    """Beyond inputs and gradients, L·L scores and one block: nothing grows with L·L·A."""
    block, b, length = 4096, 2, 61
    monkeypatch.setitem(semmatch.BLOCK, "cpu", block)

    def extra(function, size):
        inputs = [normal(b, length, size), normal(b, length, size), normal(size)][:parts]
        inputs = [x.float().requires_grad_() for x in inputs]
        return peak_numbers(function, *inputs) - 6 * b * length * size

    for size in (8, 32):
        assert extra(full, size) > b * length * length * size              # the measure sees what it must see
        row = max(block, length * size)
        assert extra(function, size) < 4 * b * length * length + 2 * row


def test_scores_ignore_autocast():
    """Scores are float32 inside an autocast region, to the bit."""
    keys, queries, w = normal(B, L, A, seed=1).float(), normal(B, L, A, seed=2).float(), normal(A, seed=3).float()
    hidden, G = normal(B, L, D).float(), spread_prior(normal(B, N, M, seed=1).float(), *words(), OUTSIDE)
    q, k = normal(B, H, L, K, seed=1).float(), normal(B, H, L, K, seed=2).float()
    for scores in (lambda: AdditiveScores.apply(keys, queries, w), lambda: DifferenceScores.apply(keys, queries),
                   lambda: difference_scores(q, k), lambda: difference_scores(q, k, True),
                   lambda: knowledge_scores(hidden, G), lambda: knowledge_scores(hidden, G, True),
                   lambda: co_attention(hidden, G)[0]):
        want = scores()
        with torch.autocast("cpu", torch.bfloat16):
            got = scores()
        assert got.dtype == torch.float32 and torch.equal(got, want)


def test_scores_are_wide():
    """bfloat16 in, float32 out: the scores are those of the rounded numbers."""
    q, k = normal(B, H, L, K, seed=1).bfloat16(), normal(B, H, L, K, seed=2).bfloat16()
    hidden, G = normal(B, L, D).bfloat16(), spread_prior(normal(B, N, M, seed=1).float(), *words(), OUTSIDE)
    for printed in (False, True):
        for scores, inputs in ((difference_scores, (q, k)), (knowledge_scores, (hidden, G))):
            got = scores(*inputs, printed)
            assert got.dtype == torch.float32
            same(got, scores(*(x.double() for x in inputs), printed), 1e-4)


@each_scope
@both_ends_of_each
def test_attention_gradcheck(name, scope, printed, monkeypatch):
    """Through the whole method: hidden states, the prior, every weight."""
    monkeypatch.setitem(semmatch.BLOCK, "cpu", 2 * 3 * 2)             # two queries at a time
    layer = large(METHODS[name].attention(config(hidden_size=4), printed, scope, attention_size=2))
    hidden, prior = normal(2, 3, 4, seed=1), normal(2, 3, 3, seed=2, scale=0.5)
    mask = torch.tensor([[True, True, True], [True, False, True]])
    q, k = (getattr(layer, part)(hidden).unflatten(-1, (2, 2)) for part in ("query", "key"))
    assert (q[:, :, None] - k[:, None]).abs().min() > 1e-3            # no kink of the L1 norm is near
    cross = torch.zeros(2, 3, 3, dtype=torch.bool)
    cross[0, 0, 1:] = cross[0, 1:, 0] = cross[1, 0, 2] = cross[1, 2, 0] = True
    names = [name for name, _ in layer.named_parameters()]

    def run(hidden, *rest):
        prior, rest = (None, rest) if name == "dabert" else (rest[0], rest[1:])
        if name == "knowledge":
            prior = (prior + prior.mT).masked_fill(~cross, OUTSIDE)
        elif name == "dafa" and 6 in printed:
            prior = prior.exp()
        return torch.func.functional_call(layer, dict(zip(names, rest)), (hidden, mask, prior))

    inputs = [hidden, *([] if name == "dabert" else [prior]), *layer.parameters()]
    assert torch.autograd.gradcheck(run, [x.requires_grad_() for x in inputs], fast_mode=True, atol=1e-6)
    layer.requires_grad_(False)                                        # entry by entry what is not a weight
    assert torch.autograd.gradcheck(run, inputs, fast_mode=False, atol=1e-6)


# ---- Properties of every method -------------------------------------------------------------------------------------

@each_method
@quick
@given(p=problems(), data=st.data())
def test_padding_and_neighbours_change_nothing(name, p, data):
    """A pair alone, without its padding, has the same real tokens as in its batch. Padding may hold anything."""
    layer = layer_for(p, name, **data.draw(options_of(name)))
    prior = prior_for(name, layer, p)
    whole = attend(p, layer, prior)
    for b in range(p.b):
        real = int(p.mask[b].sum())
        alone = SimpleNamespace(**{part: getattr(p, part)[b:b + 1, :, :real] for part in "qkv"},
                                hidden=p.hidden[b:b + 1, :real], mask=p.mask[b:b + 1, :real])
        if real:
            single = None if prior is None else prior[b:b + 1, :real, :real]
            same(whole[b, :real], attend(alone, layer, single)[0], 1e-9)


@each_method
@quick
@given(p=problems(), data=st.data())
def test_weights_and_gates(name, p, data):
    """Masked keys get exactly 0, rows sum to 1 (to 0 where there is no key), gates lie in (0, 1)."""
    trace, layer = {}, layer_for(p, name, **data.draw(options_of(name)))
    attend(p, layer, prior_for(name, layer, p), trace)
    for part in {"attention", METHODS[name].second, *METHODS[name].guided}:
        weights = trace[part].reshape(p.b, -1, p.length, p.length)
        rows = torch.ones(p.b, dtype=torch.bool)
        if name == "dabert" and part == "difference" and 3 in layer.printed:
            rows = p.mask.any(1)                                       # as typeset a row without a key leaks
        mask = p.mask[:, None, None].expand_as(weights)
        assert (weights[rows][~mask[rows]] == 0).all() and (weights >= 0).all()
        same(weights.sum(-1)[rows], p.mask.any(1)[rows, None, None].expand(weights[rows].shape[:-1]), 1e-12)
    for part in ("g", "f"):
        assert ((trace[part] > 0) & (trace[part] < 1)).all()


@quick
@given(st.integers(0, 999), st.booleans())
def test_fusion_lies_between_its_signals(seed, biased):
    sem, other = normal(B, L, D, seed=seed), normal(B, L, D, seed=seed + 1)
    W_sem, W_other = large(nn.Linear(D, D), 3), large(nn.Linear(D, D), 4)
    v, g = gated_fusion(sem, other, W_sem, W_other, large(nn.Linear(2 * D, 1, bias=biased), 5))
    s_hat, d_hat = W_sem(sem).tanh(), W_other(other).tanh()
    assert (v >= torch.minimum(s_hat, d_hat) - 1e-12).all() and (v <= torch.maximum(s_hat, d_hat) + 1e-12).all()
    assert ((v - d_hat).abs() <= (g * 2 + 1e-12)).all()               # a closed gate leaves d̂


def check_neutral(p, layer, prior):
    """The average of both signals is the plain attention."""
    plain = SelfAttention.attend(layer, None, p.q, p.k, p.v, p.mask, None, None)
    same(attend(p, layer, prior), plain, 1e-12)
    same(attend(p, layer, prior, {}), plain, 1e-12)


@quick
@given(problems())
def test_zero_prior_is_plain_attention(p):
    """DAFA, M_F = 0 in the cross blocks: Dep = Sem, whichever tokens have words."""
    layer, zero = layer_for(p, "dafa", without={"fusion"}), torch.zeros(p.b, 3, 3, dtype=torch.float64)
    prior = layer.spread(zero, p.word_index, p.segment)
    assert (prior == 0).all()
    check_neutral(p, layer, prior)


@quick
@given(problems(), st.sampled_from(["equal scores", "one word each"]))
def test_equal_knowledge_is_plain_attention(p, kind):
    """K̃ = 1 where all scores are equal, and in a cross block of one pair of words whatever they are."""
    layer = layer_for(p, "knowledge", without={"fusion"})
    if kind == "equal scores":
        p.hidden, p.relations = p.hidden[:, :1].expand_as(p.hidden), p.relations & False
    else:                                                              # the last token against the first
        p.word_index = p.word_index * 0 - 1
        p.word_index[:, 0] = p.word_index[:, -1] = 1
        p.word_index = p.word_index.masked_fill(~p.mask, -1)
        p.segment = (torch.arange(p.length) > 0).long().expand(p.b, -1)
    prior, trace = layer.spread(p.relations, p.word_index, p.segment), {}
    check_neutral(p, layer, prior)
    attend(p, layer, prior, trace)
    same(trace["prior"], torch.ones(p.b, p.length, p.length), 1e-12)


@each_scope
@each_form_of_each
def test_swapped_sentences_permute_the_result(name, scope, printed):
    """[CLS] a [SEP] b [SEP] against [CLS] b [SEP] a [SEP]: what is known of (i, j) is known of (j, i), a hypernym turns
    into a hyponym, and the result moves with its tokens."""
    layer, hidden = method(name, scope=scope, printed=printed), normal(1, 8, D)
    mask = torch.ones(1, 8, dtype=torch.bool)
    order = [0, 5, 6, 7, 1, 2, 3, 4]                                   # each [SEP] moves with its sentence
    if name == "dabert":
        same(layer(hidden[:, order], mask), layer(hidden, mask)[:, order], 1e-12)
        return
    word_index, segment = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, -1]]), torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1]])
    moved, their_segment = word_index[:, order], torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])
    if name == "dafa":
        known = positive(1, 3, 2)
        exchanged, wrong = known.transpose(1, 2), known
    else:
        known = torch.zeros(1, 3, 2, RELATIONS, dtype=torch.bool)
        known[0, 0, 1, 2] = known[0, 2, 0, 3] = known[0, 2, 1, 0] = True
        exchanged, wrong = known.transpose(1, 2)[..., [0, 1, 3, 2, 4]], known
    prior, swapped = layer.spread(known, word_index, segment), layer.spread(exchanged, moved, their_segment)
    assert torch.equal(prior, prior.mT) and torch.equal(swapped, prior[:, order][:, :, order])
    whole = layer(hidden, mask, prior)
    same(layer(hidden[:, order], mask, swapped), whole[:, order], 1e-12)
    clipped = layer.spread(wrong, moved.clamp(max=1), their_segment)   # not transposed
    assert (layer(hidden[:, order], mask, clipped) - whole[:, order]).abs().max() > 1e-4


@each_method
def test_guide_matters_unless_typeset(name):
    """DABERT Eq. 5, DAFA Eq. 7, Knowledge Eq. 6: ⊕ lets the guide cancel in the softmax, all rows are one row; added
    before tanh it counts."""
    for printed in (False, True):
        trace, layer = {}, method(name, printed={METHODS[name].guiding} if printed else ())
        layer(normal(B, L, D), masks(), prior_of(name, layer), trace)
        for part in METHODS[name].guided:
            weights = trace[part][:2]
            spread = (weights - weights[:, :1]).abs().amax((1, 2))
            assert (spread < 1e-12).all() if printed else (spread > 0.01).all()


@pytest.mark.parametrize("mapped", [True, False], ids=["W_v", "no W_v"])
def test_closed_filtration_gate(mapped):
    """DABERT Eq. 7, DAFA Eq. 9, Knowledge Eq. 8 with f → 0: as typeset nothing is left; intended, the original feature
    passes."""
    sem, v = 1 + positive(B, L, D), normal(B, L, D, seed=1)
    W_v, W_l, W_f = nn.Linear(D, D).double() if mapped else None, nn.Linear(D, D).double(), nn.Linear(2 * D, 1).double()
    W_f.weight.data = torch.cat([torch.full((1, D), -1e3), torch.zeros(1, D)], 1).double()
    assert torch.equal(filtration_gate(sem, v, W_v, W_l, W_f)[0], sem)
    assert (filtration_gate(sem, v, W_v, W_l, W_f, printed=True)[0] == 0).all()


def check_finite(layer, hidden, run, anywhere=False):
    """Outputs and all gradients are finite, with a trace and without; `anywhere`: no NaN is masked later, either."""
    hidden.requires_grad_()
    for trace in (None, {}):
        layer.zero_grad()
        hidden.grad = None
        out = run(hidden, trace)
        assert out.isfinite().all()
        with torch.autograd.set_detect_anomaly(anywhere):
            out.float().square().sum().backward()
        assert hidden.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)
        assert all(value.isfinite().all() for value in (trace or {}).values())


@each_scope
@each_form_of_each
@pytest.mark.parametrize("length, scale, dtype", [(L, 1e5, torch.float32), (L, 1e5, torch.bfloat16),
                                                  (1, 1.0, torch.float32), (L, 1e-3, torch.bfloat16)])
def test_no_nan(name, scope, printed, length, scale, dtype):
    """Scores of 1e5, pairs of padding only, one token, bfloat16: outputs and gradients stay finite."""
    layer = method(name, scope=scope, printed=printed).to(dtype)
    k, v, hidden = (normal(B, H, length, K, seed=i).to(dtype) for i in range(3))
    q = (normal(B, H, length, K, seed=3) * scale).to(dtype)
    prior = prior_of(name, layer)
    prior = prior if prior is None else prior[:, :length, :length].float()

    def run(q, trace):
        out = layer.attend(hidden.transpose(1, 2).flatten(2), q, k, v, masks()[:, :length], prior, trace)
        assert out.dtype == dtype
        return out

    check_finite(layer, q, run)


@each_scope
@both_ends_of_each
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("length, scale", [(L, 1e3), (1, 1.0), (L, 0.0)])
def test_no_nan_from_hidden_states(name, scope, printed, autocast, length, scale):
    """Hidden states of 1e3 and of 0, one token, pairs without words in one sentence or in both, under autocast."""
    layer, hidden = method(name, scope=scope, printed=printed).float(), (normal(B, L, D) * scale)[:, :length].float()
    mask, prior = masks()[:, :length], prior_of(name, layer)
    if name == "knowledge":
        word_index, segment = words()
        word_index[1].masked_fill_(segment[1] == 1, -1)                # b has no words, pair 2 has none at all
        prior = layer.spread(related(B, N, M), word_index, segment)
        assert (prior[1:] == OUTSIDE).all() and (prior[0] > OUTSIDE).any()
    prior = prior if prior is None else prior[:, :length, :length].float()

    def run(hidden, trace):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return layer(hidden, mask, prior, trace)

    check_finite(layer, hidden, run, anywhere=True)


def test_guided_attention_computes_scores_wide():
    """bfloat16 in, but tanh, w and softmax in float32: the weights are those of the rounded keys and queries."""
    values, guide = (normal(1, L, D, seed=i).bfloat16() for i in (1, 2))
    W_values, W_guide = large(nn.Linear(D, A, bias=False), 3).bfloat16(), large(nn.Linear(D, A), 4).bfloat16()
    w = large(nn.Linear(A, 1, bias=False), 5).bfloat16()
    out, weights = guided_attention(values, guide, masks()[:1], W_values, W_guide, w)
    keys, queries, w = W_values(values)[0].tolist(), W_guide(guide)[0].tolist(), w.weight[0].tolist()
    want = [softmax_loop([dot(w, [math.tanh(x + y) for x, y in zip(key, query)]) for key in keys], [True] * L)
            for query in queries]
    same(weights[0], want, 1e-5)
    assert out.dtype == torch.bfloat16


# ---- Properties of DABERT -------------------------------------------------------------------------------------------

def difference_of(q, k, mask, printed=()):
    trace = {}
    difference_attention(q, k, k, mask, printed=printed, trace=trace)
    return trace["difference"]


@quick
@given(problems(), st.floats(0.01, 100), st.data())
def test_larger_difference_gets_a_larger_weight(p, growth, data):
    """Weights stand in the order of the distances; a key that moves away from a query gains its weight."""
    weights, distance = difference_of(p.q, p.k, p.mask), torch.cdist(p.q, p.k, p=1)
    for b in range(p.b):
        keys = p.mask[b].nonzero().flatten()
        order = distance[b][..., keys].argsort(-1)
        assert (weights[b][..., keys].gather(-1, order).diff(dim=-1) >= -1e-12).all()
    i, j, c = data.draw(st.integers(0, p.length - 1)), data.draw(st.integers(0, p.length - 1)), p.size - 1
    away = p.k.clone()
    away[:, :, j, c] += torch.where(p.k[:, :, j, c] >= p.q[:, :, i, c], growth, -growth)
    assert (difference_of(p.q, away, p.mask)[..., i, j] >= weights[..., i, j] - 1e-12).all()


def test_difference_as_typeset_is_the_same_for_every_query():
    """DABERT Eq. 4 without bars: ΣQ_i cancels in the softmax, all queries get one row of weights."""
    q, k, mask = normal(B, H, L, K, seed=1), normal(B, H, L, K, seed=2), masks()
    for printed in (False, True):
        weights = difference_of(q, k, mask, {4} if printed else ())[:2]
        spread = (weights - weights[:, :, :1]).abs().amax((2, 3))
        assert (spread < 1e-12).all() if printed else (spread > 0.01).all()
        moved = difference_of(q + normal(B, H, L, K, seed=3), k, mask, {4} if printed else ())[:2]
        assert ((moved - weights).abs().max() < 1e-12) == printed


def test_difference_mask_as_typeset_leaks():
    """DABERT Eq. 3: a finite M is outweighed by a score of 1e5, and does nothing in a row without a key."""
    q, k = torch.zeros(2, 1, 2, K, dtype=torch.float64), torch.zeros(2, 1, 2, K, dtype=torch.float64)
    k[0, 0, 1] = 1e5
    mask = torch.tensor([[True, False], [False, False]])
    leaked, kept = difference_of(q, k, mask, {3}), difference_of(q, k, mask)
    assert (leaked[0, 0, :, 1] > 0.99).all() and (kept[0, 0] == torch.tensor([1.0, 0.0])).all()
    assert (leaked[1] == 0.5).all() and (kept[1] == 0).all()
    hidden = normal(B, L, D)
    padded = hidden.clone()
    padded[~masks()] = 1e5
    for printed in (False, True):
        layer = method("dabert", printed={3} if printed else ())
        moved = (layer(padded, masks()) - layer(hidden, masks()))[masks()].abs().max()
        assert moved > 1e-3 if printed else moved < 1e-10


def test_no_difference_is_no_preference():
    """Queries and keys all alike: all real keys get the same weight."""
    q, mask = normal(1, 1, 1, K).expand(B, H, L, K), masks()
    weights = mask.double() / mask.sum(1, keepdim=True).clamp(min=1)
    same(difference_of(q, q, mask), weights[:, None, None].expand(B, H, L, L))


# ---- Properties of the calibration ----------------------------------------------------------------------------------

def weight_of(q, k, prior, mask, printed=False):
    trace = {}
    calibrated_attention(q, k, k, prior, mask, printed=printed, trace=trace)
    return trace["calibrated"]


@quick
@given(problems(), st.floats(0.01, 100), st.data())
def test_larger_prior_never_lowers_its_own_weight(p, growth, data):
    i, j = (data.draw(st.integers(0, p.length - 1)) for _ in range(2))
    more = p.multiplier.clone()
    more[:, i, j] += growth
    before, after = (weight_of(p.q, p.k, x.log(), p.mask) for x in (p.multiplier, more))
    assert (after[..., i, j] >= before[..., i, j] - 1e-15).all()
    others = [x for x in range(p.length) if x != j]
    assert (after[..., i, others] <= before[..., i, others] + 1e-15).all()


def test_calibrated_attention_as_typeset_weakens_negative_scores():
    """DAFA Eq. 6, Knowledge Eq. 5: with a negative q·k a larger prior lowers the weight, 'the opposite of
    strengthening'."""
    q = torch.full((1, 1, 2, K), 1.0, dtype=torch.float64)
    k = torch.stack([-q[0, 0, 0], q[0, 0, 0] * 0])[None, None]
    mask, one = torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 2, 2, dtype=torch.float64)
    more = one.clone()
    more[0, 0, 0] = 5.0
    assert weight_of(q, k, more, mask, printed=True)[0, 0, 0, 0] < 0.1 * weight_of(q, k, one, mask, True)[0, 0, 0, 0]
    assert weight_of(q, k, more.log(), mask)[0, 0, 0, 0] > 2 * weight_of(q, k, one.log(), mask)[0, 0, 0, 0]


# ---- Properties of the knowledge prior ------------------------------------------------------------------------------

def omega(scores):
    """ω^A in the rows of a, ω^B in the rows of b: with unit vectors as hidden states c is ω."""
    return co_attention(torch.eye(scores.shape[1], dtype=torch.float64)[None], scores)[1][0]


def scores_between(n, m, seed=0, scale=1.0):
    """s (1, L, L) of `[CLS] a [SEP] b [SEP]`, -∞ outside the cross blocks; the places of a and b."""
    spread = spread_prior(normal(1, n, m, seed=seed, scale=scale), *packed(n, m), OUTSIDE)
    return spread, range(1, n + 1), range(n + 2, n + m + 2)


between = dict(n=st.integers(1, 4), m=st.integers(1, 4), seed=st.integers(0, 999),
               scale=st.sampled_from([1e-3, 1.0, 30.0]))


@quick
@given(**between)
def test_co_attention_is_two_softmaxes(n, m, seed, scale):
    """ω sums to 1 over the other sentence and is 0 elsewhere; K_prior is symmetric and averages (1/n + 1/m)/2."""
    scores, a, b = scores_between(n, m, seed, scale)
    weights, log_prior = omega(scores), co_attention(scores, scores)[0][0]
    has_partner = torch.zeros(n + m + 3, dtype=torch.float64)
    has_partner[[*a, *b]] = 1
    same(weights.sum(1), has_partner, 1e-12)
    assert (weights[scores[0] == OUTSIDE] == 0).all()
    same(log_prior, log_prior.mT, 0.0)
    block = log_prior[a.start:a.stop, b.start:b.stop].exp()
    same(block, (weights[a.start:a.stop, b.start:b.stop] + weights[b.start:b.stop, a.start:a.stop].mT) / 2, 1e-12)
    same(block.mean(), (1 / n + 1 / m) / 2, 1e-12)


@quick
@given(**between, growth=st.floats(0.01, 100), data=st.data())
def test_larger_G_never_lowers_its_own_weight(n, m, seed, scale, growth, data):
    """Neither in ω^A nor in ω^B, nor in K_prior; and it raises no other entry of its row and its column."""
    scores, a, b = scores_between(n, m, seed, scale)
    i, j = data.draw(st.sampled_from(a)), data.draw(st.sampled_from(b))
    more = scores.clone()
    more[0, i, j] += growth
    more[0, j, i] += growth
    before, after = omega(scores), omega(more)
    for x, y in ((i, j), (j, i)):
        assert after[x, y] >= before[x, y] - 1e-15
        others = [z for z in range(scores.shape[1]) if z != y]
        assert (after[x, others] <= before[x, others] + 1e-15).all()
    assert co_attention(scores, more)[0][0, i, j] >= co_attention(scores, scores)[0][0, i, j] - 1e-12


@quick
@given(p=problems(), growth=st.floats(0.01, 100), data=st.data())
def test_a_relation_draws_its_words_together(p, growth, data):
    """Whole Eqs. 1 to 5: a larger G for a pair of tokens never lowers the weight that either gives to the other."""
    layer = layer_for(p, "knowledge")
    G = layer.spread(p.relations, p.word_index, p.segment)
    i, j = (data.draw(st.integers(0, p.length - 1)) for _ in range(2))
    more = G.clone()
    more[:, i, j] += growth
    more[:, j, i] = more[:, i, j]
    traces = {}, {}
    for prior, trace in zip((G, more), traces):
        attend(p, layer, prior, trace)
    for x, y in ((i, j), (j, i)):
        before, after = (trace["calibrated"][..., x, y] for trace in traces)
        assert (after >= before - 1e-9).all()


@quick
@given(**between)
def test_knowledge_prior_averages_one(n, m, seed, scale):
    """Eq. 5: as typeset, entries average (1/n + 1/m)/2 and none is above 1, so every score between the sentences
    shrinks; K̃ averages 1, and some pair gains."""
    hidden, relations = normal(1, n + m + 3, D, seed=seed, scale=scale), related(1, n, m, seed=seed, share=0.3)
    blocks = {}
    for printed in (False, True):
        layer, trace = method("knowledge", printed={5} if printed else ()), {}
        layer(hidden, torch.ones(1, n + m + 3, dtype=torch.bool), layer.spread(relations, *packed(n, m)), trace)
        blocks[printed] = trace["prior"][0, 1:n + 1, n + 2:-1]
        outside = torch.ones_like(trace["prior"][0])
        outside[1:n + 1, n + 2:-1] = blocks[printed]
        outside[n + 2:-1, 1:n + 1] = blocks[printed].mT
        same(trace["prior"][0], outside, 0.0)
    same(blocks[True].mean(), (1 / n + 1 / m) / 2, 1e-9)
    assert (blocks[True] <= 1 + 1e-12).all() and (max(n, m) == 1 or blocks[True].mean() < 1)
    same(blocks[False].mean(), 1.0, 1e-9)
    assert blocks[False].max() >= 1 - 1e-12
    same(blocks[False], blocks[True] / ((1 / n + 1 / m) / 2), 1e-9)


def test_knowledge_scores_as_typeset_saturate():
    """Eq. 1 with hidden states of a usual size, √d long: a relation with the word that fits least moves its row by less
    than 1e-4; over √d it counts."""
    size, n, m = 257, 5, 7
    hidden = torch.nn.functional.layer_norm(normal(1, n + m + 3, size), (size,))
    none = spread_prior(torch.zeros(1, n, m).double(), *packed(n, m), OUTSIDE)
    for printed in (False, True):
        scores = knowledge_scores(hidden, none, printed)
        for i in range(1, n + 1):
            j = int(scores[0, i].masked_fill(scores[0, i] == OUTSIDE, math.inf).argmin())
            G = none.clone()
            G[0, i, j] = G[0, j, i] = 1.0
            moved = (omega(knowledge_scores(hidden, G, printed)) - omega(scores))[i].abs().max()
            assert moved < 1e-4 if printed else moved > 1e-3


def test_far_weights_keep_their_logarithm():
    """Scores 2000 apart: exp underflows to 0, ln K_prior = -2000 - ln 2 + ... and its gradient stay right."""
    scores, a, b = scores_between(2, 2)
    places = [(i, j) for i in a for j in b]
    for (i, j), s in zip(places, (0.0, -2000.0, -2000.0, 0.0)):
        scores[0, i, j] = scores[0, j, i] = s
    scores.requires_grad_()
    log_prior, _ = co_attention(normal(1, 7, D), scores)
    i, j = places[1]
    same(log_prior[0, i, j], -2000.0, 1e-9)                            # (e^-2000 + e^-2000)/2
    gradient, = torch.autograd.grad(log_prior[0, i, j], scores, retain_graph=True)
    assert gradient.isfinite().all()
    same(gradient[0, i, j] + gradient[0, j, i], 1.0, 1e-9)
    same(gradient[0, i].sum() + gradient[0, j].sum(), 0.0, 1e-9)       # adding to a whole row changes nothing
    gradient, = torch.autograd.grad(log_prior[log_prior > OUTSIDE].sum(), scores)
    assert gradient.isfinite().all()


@each_form
def test_far_knowledge_keeps_its_gradient(printed):
    """The same through the whole method, in float32: far words push hidden states by finite amounts."""
    layer = method("knowledge", printed={1} if printed else ()).float()
    hidden = (normal(1, 7, D) * 300).float().requires_grad_()
    prior, trace = layer.spread(related(1, 2, 2), *packed(2, 2)), {}
    out = layer(hidden, torch.ones(1, 7, dtype=torch.bool), prior, trace)
    assert (trace["prior"][prior > OUTSIDE] == 0).any()                # smaller than the smallest float
    gradient, = torch.autograd.grad(out.sum(), hidden)
    assert out.isfinite().all() and gradient.isfinite().all() and (gradient != 0).any()


# ---- The methods in the encoder -------------------------------------------------------------------------------------

def batch(name, seed=0):
    """Two pairs in ids: `[CLS] a [SEP] b [SEP]`, the second one shorter; a prior over 3 × 2 words for who takes one."""
    mask = torch.tensor([[True] * 8, [True] * 6 + [False] * 2])
    ids = torch.randint(1, 41, (2, 8), generator=torch.Generator().manual_seed(seed)) * mask
    segment = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 0, 0]])
    word_index = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, -1], [-1, 0, 1, -1, 0, -1, -1, -1]])
    prior = {"dafa": positive(2, 3, 2, seed=seed), "knowledge": related(2, 3, 2, seed=seed, share=0.1)}.get(name)
    return SimpleNamespace(ids=ids, segment=segment, mask=mask, words=word_index, prior=prior)


def logits(matcher, x, trace=None):
    return matcher(x.ids, x.segment, x.mask, x.words, x.prior, trace)


@pytest.mark.parametrize("printed", [frozenset(), frozenset({6})], ids=["intended", "printed"])
def test_matcher_spreads_the_prior(printed):
    """Word prior in, logits out: ln(1 + M_F) in the cross blocks and 0 elsewhere (as typeset: M_F and 1), then the
    encoder."""
    matcher, x = large(Matcher("dafa", config(), 3, printed=printed)), batch("dafa")
    prior = (x.prior if printed else (1 + x.prior).log()).tolist()
    spread = torch.tensor([spread_loop(prior[b], x.words[b].tolist(), x.segment[b].tolist(), 1.0 if printed else 0.0)
                           for b in range(2)], dtype=torch.float64)
    _, pooled = matcher.bert(x.ids, x.segment, x.mask, spread)
    same(logits(matcher, x), pooled @ matcher.classifier.weight.T + matcher.classifier.bias, 1e-12)


@pytest.mark.parametrize("printed", [frozenset(), frozenset({2})], ids=["intended", "printed"])
def test_matcher_spreads_the_relations(printed):
    """Relations in, logits out: γ I in the cross blocks, -∞ elsewhere, then the encoder."""
    matcher, x = large(Matcher("knowledge", config(), 3, printed=printed)), batch("knowledge")
    x.prior[0, 1, 1, 4] = True
    G = [[[float(indicator_loop(k_ij, printed)) for k_ij in row] for row in pair] for pair in x.prior.tolist()]
    spread = torch.tensor([spread_loop(G[b], x.words[b].tolist(), x.segment[b].tolist(), OUTSIDE) for b in range(2)],
                          dtype=torch.float64)
    _, pooled = matcher.bert(x.ids, x.segment, x.mask, spread)
    same(logits(matcher, x), pooled @ matcher.classifier.weight.T + matcher.classifier.bias, 1e-12)


@pytest.mark.parametrize("name", ["bert", *METHODS])
def test_matcher_takes_its_own_prior_only(name):
    """A prior for who needs one, none for who does not."""
    matcher, x, needed = Matcher(name, config(), 3), batch(name), name in ("dafa", "knowledge")
    assert matcher.carrier == (0 if needed else None)
    assert logits(matcher, x).shape == (2, 3)
    x.prior = None if needed else positive(2, 3, 2)
    with pytest.raises(ValueError, match="Matcher: this model needs " + ("a prior" if needed else "no prior")):
        logits(matcher, x)


@each_method
def test_matcher_padding_and_neighbours_change_nothing(name):
    matcher, x = large(Matcher(name, config(), 3), scale=0.3), batch(name)
    short = matcher(x.ids[1:, :6], x.segment[1:, :6], x.mask[1:, :6], x.words[1:, :6],
                    None if x.prior is None else x.prior[1:, :2, :1])
    same(logits(matcher, x)[1:], short, 1e-10)


@each_method
@pytest.mark.parametrize("layers", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_layers(name, layers):
    """The chosen layers carry the method, the others plain attention."""
    matcher, x, trace = large(Matcher(name, config(), 3, layers), scale=0.3), batch(name), {}
    same(logits(matcher, x, trace), logits(matcher, x), 1e-6)
    assert [i for i in range(3) if METHODS[name].second in trace[f"layer{i}"]] == list(layers)
    carriers = [i for i, layer in enumerate(matcher.bert.layers) if type(layer.attention) is METHODS[name].attention]
    assert carriers == list(layers)
    assert all(trace[f"layer{i}"].keys() == {"attention"} for i in range(3) if i not in layers)


@pytest.mark.parametrize("layers", [(3,), (0, 7), (-1,), ()])
def test_layers_outside_the_encoder(layers):
    with pytest.raises(ValueError, match=r"--layers [-\d, none]*: .*0 to 2"):
        Matcher("dafa", config(), 3, layers)


def test_later_layers_see_their_own_hidden_states():
    """Knowledge: the prior of layer 2 comes from the states that enter layer 2."""
    matcher, x, trace = large(Matcher("knowledge", config(), 3, (0, 2)), scale=0.3), batch("knowledge"), {}
    logits(matcher, x, trace)
    assert (trace["layer0"]["prior"] - trace["layer2"]["prior"]).abs().max() > 1e-3
    attention = matcher.bert.layers[2].attention
    states, _ = matcher.bert(x.ids, x.segment, x.mask, attention.spread(x.prior, x.words, x.segment))
    again = {}
    attention(states[2], x.mask, attention.spread(x.prior, x.words, x.segment), again)
    same(trace["layer2"]["prior"], again["prior"], 1e-6)


def test_plain_model():
    """Matcher("bert") is the encoder and a linear classifier on the pooled [CLS]."""
    matcher, x = large(Matcher("bert", config(), 5)), batch("bert")
    got = matcher(x.ids, x.segment, x.mask)
    _, pooled = matcher.bert(x.ids, x.segment, x.mask)
    assert got.shape == (2, 5) and all(type(layer.attention) is SelfAttention for layer in matcher.bert.layers)
    same(got, pooled @ matcher.classifier.weight.T + matcher.classifier.bias, 1e-12)
    plain, method = bert_min.Bert(config()).state_dict().keys(), matcher.state_dict().keys()
    assert method == {f"bert.{name}" for name in plain} | {"classifier.weight", "classifier.bias"}


@pytest.mark.parametrize("name, without", [("dabert", {"regulation", "difference"}), ("dafa", {"fusion"}),
                                           ("knowledge", {"fusion"})], ids=METHODS)
def test_average_of_equal_signals_is_the_plain_model(name, without):
    """The average without regulation of two signals that are the same, (A + A)/2, gives the encoder's own logits: no
    difference attention, M_F = 0, one word against one."""
    model, plain = large(Matcher(name, config(), 3, without=without)), large(Matcher("bert", config(), 3))
    x = batch(name)
    if name == "dafa":
        x.prior = torch.zeros_like(x.prior)
    if name == "knowledge":
        x.words[0, [2, 3, 6]] = x.words[1, 2] = -1
    same(logits(model, x), plain(x.ids, x.segment, x.mask), 1e-10)


def parameters(bare, biased):
    """Names of weights and biases of linear maps."""
    return {f"{w}.weight" for w in f"{bare} {biased}".split()} | {f"{w}.bias" for w in biased.split()}


# name -> the parts an ablation can leave out, the parameters it then lacks; "rest": all others; biases as typeset
PARAMETERS = {
    "dabert": {"guide": parameters("W_D W_A w_d w_abar", "W_a W_dbar W_dstar W_astar"),
               "gate-fusion": parameters("W_g", ""), "gate-filter": parameters("W_f", "W_v"),
               "rest": parameters("", "W_dhat W_ahat W_l"), "printed": {"w_d.bias", "w_abar.bias"}},
    "dafa": {"cross-attention": parameters("W_D W_S w_d w_sstar", "W_s W_dstar"),
             "gate-fusion": parameters("W_g", ""), "gate-filter": parameters("W_f", "W_v"),
             "rest": parameters("", "W_dhat W_shat W_l"), "printed": {"w_d.bias", "w_sstar.bias"}},
    "knowledge": {"guide": parameters("W_Oknw W_Osem w_zknw w_zsem", "W_osem W_ohatknw"),
                  "gates": parameters("", "W_gfuse W_gfilter"), "rest": parameters("", "W_otildeknw W_otildesem W_y"),
                  "printed": {"w_zknw.bias", "w_zsem.bias"}}}


@pytest.mark.parametrize("name, printed, without", [
    pytest.param(name, printed, without, id=f"{name}-{labelled(printed)}-{labelled(without)}")
    for name, one in METHODS.items()
    for printed, without in [*((form, frozenset()) for form in one.forms),
                             *((frozenset(), parts) for parts in one.ablations[1:])]])
def test_pretrained_weights_and_new_parameters(name, printed, without):
    """A plain encoder's weights load strictly; new are the paper's own parameters, and a part left out has none."""
    groups = PARAMETERS[name]
    gone = without | ({"gate-fusion", "gate-filter"} if "gates" in without and name == "dafa" else set())
    new = set().union(*(groups[part] for part in groups if part not in gone and part != "printed"))
    new = set() if METHODS[name].average in without else new | (
        groups["printed"] if METHODS[name].guiding in printed else set())
    plain = bert_min.Bert(config())
    arrays = {key: value.numpy() for key, value in plain.state_dict().items()}
    matcher = Matcher(name, config(), 3, layers=(1,), printed=printed, without=without)
    got = bert_min.load_bert(matcher.bert, arrays, "test")
    assert sorted(got) == sorted(f"layers.1.attention.{key}" for key in new)
    assert all(np.array_equal(matcher.bert.state_dict()[key], value) for key, value in arrays.items())
    broken = {key: value for key, value in arrays.items() if key != "layers.1.attention.query.weight"}
    with pytest.raises(ValueError, match="layers.1.attention.query.weight"):
        bert_min.load_bert(matcher.bert, broken, "test")


@each_scope
@both_ends_of_each
def test_sizes_of_new_parameters(name, scope, printed):
    """Guided attention is A wide, w is twice that as typeset; a gate sees two signals; with scope "head" d is k."""
    layer, d = method(name, scope=scope, printed=printed), D if scope == "hidden" else K
    double = {w.partition(".")[0] for w in PARAMETERS[name]["printed"]}
    for key, value in layer.named_parameters():
        w, kind = key.split(".")
        if w in ("query", "key", "value") or kind == "bias":
            continue
        wide = {"W_dstar", "W_astar"} if name == "dabert" else set()
        guided = key in PARAMETERS[name][METHODS[name].no_guide] and w not in wide
        want = ((1, 2 * A if printed else A) if w in double else (A, d) if guided else
                (1, 2 * d) if w in ("W_g", "W_f", "W_gfuse", "W_gfilter") else (d, 2 * d if w in wide else d))
        assert value.shape == want, key
    assert METHODS[name].attention(config()).get_parameter(f"{min(double)}.weight").shape == (1, 128)


@each_method
def test_each_weight_is_stored_once(name):
    """No module stands in the model under two names: checkpoints hold each number once."""
    names = list(Matcher(name, config(), 3).state_dict())
    assert len(names) == len({id(p) for p in Matcher(name, config(), 3).parameters()})
    assert not [part for part in names if not part.startswith(("bert.", "classifier."))]


@each_scope
@each_ablation_of_each
def test_every_parameter_learns(name, scope, without):
    """Nonzero gradients everywhere in the intended form. A key bias alone cancels in plain attention, but not in a
    difference."""
    matcher, x = large(Matcher(name, config(), 3, (0, 2), scope=scope, without=without), scale=0.3), batch(name)
    logits(matcher, x).square().sum().backward()
    assert [key for key, p in matcher.named_parameters() if p.grad is None] == []
    dead = [key for key, p in matcher.named_parameters() if p.grad.abs().max() < 1e-12]
    lost = (0, 1, 2) if name != "dabert" or "difference" in without else (1,)
    assert [key for key in dead if key not in {f"bert.layers.{i}.attention.key.bias" for i in lost}] == []


@each_method
def test_guide_learns_nothing_as_typeset(name):
    """What the guide passes through has no gradient, and neither has the bias behind w."""
    layer = method(name, printed={METHODS[name].guiding})
    out = layer(normal(B, L, D), masks(), prior_of(name, layer))
    out.square().sum().backward()
    guided = {"dabert": ("W_a", "W_dbar"), "dafa": ("W_s", "W_dstar"), "knowledge": ("W_osem", "W_ohatknw")}[name]
    for part in [f"{w}.{kind}" for w in guided for kind in ("weight", "bias")] + sorted(PARAMETERS[name]["printed"]):
        assert layer.get_parameter(part).grad.abs().max() < 1e-12
    assert layer.get_parameter("W_Oknw.weight" if name == "knowledge" else "W_D.weight").grad.abs().max() > 1e-6


@each_method
def test_options_change_the_result(name):
    """No option is ignored: every form and ablation of one set of weights gives another result."""
    results, hidden, one = {}, normal(B, L, D), METHODS[name]
    hidden[1, 2] = 3000.0                                              # under the padding: M as typeset leaks
    for options in [dict(printed=form) for form in one.forms] + [dict(without=x) for x in one.ablations[1:]] + [
            dict(scope="head")]:
        layer = method(name, **options)
        results[str(options)] = layer(hidden, masks(), prior_of(name, layer))[masks()]
    for (x, first), (y, second) in itertools.combinations(results.items(), 2):
        assert (first - second).abs().max() > 1e-3, f"{x} and {y} agree"


def test_prior_left_out_is_no_relation():
    """Knowledge without "prior" looks at no relation: the same as pairs that have none."""
    hidden, layer, bare = normal(B, L, D), method("knowledge"), method("knowledge", without={"prior"})
    relations = related(B, N, M)
    got = bare(hidden, masks(), bare.spread(relations, *words()))
    same(got, layer(hidden, masks(), layer.spread(relations & False, *words())), 0.0)
    assert (got - layer(hidden, masks(), layer.spread(relations, *words()))).abs().max() > 1e-3


def test_declared_options():
    """What the command line offers is what the paper's pages name (DABERT Table 5, DAFA Table 8; EQUATIONS.md)."""
    assert DabertAttention.PRINTED == {3, 4, 5, 7}
    assert DabertAttention.ABLATIONS == {"affinity", "difference", "guide", "gate-fusion", "gate-filter", "regulation"}
    assert DafaAttention.PRINTED == {4, 6, 7, 9}
    assert DafaAttention.ABLATIONS == {"tree", "subgraph", "tfidf", "cross-attention", "gates", "gate-fusion",
                                       "gate-filter", "fusion"}
    assert KnowledgeAttention.PRINTED == {1, 2, 5, 6, 8}
    assert KnowledgeAttention.ABLATIONS == {"fusion", "prior", "guide", "gates"}
    attentions = {name: one for name, one in semmatch.METHODS.items() if issubclass(one, SelfAttention)}
    assert attentions == {"bert": SelfAttention} | {name: one.attention for name, one in METHODS.items()}
    assert [getattr(x, "PRIOR", None) for x in attentions.values()] == [None, None, "dependency", "relations"]


@each_method
@pytest.mark.parametrize("option, unknown", [("printed", {97}), ("without", {"everything"}), ("scope", "layer")])
def test_unknown_options(name, option, unknown):
    """One line that names the option, what was given, and what this method knows."""
    known = {"printed": METHODS[name].attention.PRINTED, "without": METHODS[name].attention.ABLATIONS,
             "scope": {"hidden", "head"}}[option]
    with pytest.raises(ValueError) as error:
        METHODS[name].attention(config(), **{option: unknown})
    said = unknown if isinstance(unknown, str) else str(*unknown)
    assert str(error.value) == f"--{option} {said}: {name} knows {', '.join(map(str, sorted(known)))}"


@each_method
@pytest.mark.parametrize("silent", ["plain", "second"])
def test_dropout_on_both_attentions_in_training_only(name, silent, monkeypatch):
    """Each attention alone, the other silenced, loses weights while training; evaluation is deterministic, with and
    without a trace."""
    layer = METHODS[name].attention(config(attention_dropout=0.5), without={METHODS[name].average}).double()
    hidden, mask, prior = normal(B, L, D), masks(), prior_of(name, layer)
    if silent == "plain":
        monkeypatch.setattr(SelfAttention, "attend", lambda self, hidden, *rest: torch.zeros_like(hidden))
    else:
        monkeypatch.setattr(type(layer), "second", lambda self, hidden, q, *rest: torch.zeros_like(q))
    layer.eval()
    assert torch.equal(layer(hidden, mask, prior), layer(hidden, mask, prior))
    same(layer(hidden, mask, prior), layer(hidden, mask, prior, {}), 1e-12)
    for trace in (None, {}):
        layer.train()
        torch.manual_seed(1)
        assert (layer(hidden, mask, prior, trace) - layer(hidden, mask, prior, trace)).abs().max() > 1e-3


@both_ends_of_each
def test_trace_holds_weights_without_their_graph(name, printed):
    """A trace is for reading: float weights that keep no graph alive."""
    layer, trace = method(name, printed=printed), {}
    layer(normal(B, L, D), masks(), prior_of(name, layer), trace)
    assert len(trace) == (8 if name == "knowledge" else 6)
    assert [key for key, value in trace.items() if value.requires_grad or not value.is_floating_point()] == []
