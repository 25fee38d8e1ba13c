"""External knowledge, section 3, in plain loops; most of Eqs. (5)-(8) is in common.py."""
import itertools
import math

from oracles.common import (calibrated_attention, dot, filtration_gate, fusion_layer, gated_fusion,
                            guided_attention, mean, mix, softmax)


def knowledge_scores(h_a, h_b, G, printed):
    """Eq. (1): s_ij between the words of two sentences, over √d unless as printed."""
    scale = 1.0 if printed else math.sqrt(len(h_a[0]))
    return [[dot(x, y) / scale + G[i][j] for j, y in enumerate(h_b)] for i, x in enumerate(h_a)]


def co_attention(h_a, h_b, s):
    """Eqs. (3), (4). Returns: K_prior, c^A, c^B of two sentences with words in both."""
    omega_a = [softmax(row, [True] * len(row)) for row in s]
    omega_b = [softmax(column, [True] * len(column)) for column in zip(*s)]             # [j][i]
    prior = [[(a + b) / 2 for a, b in zip(*rows)] for rows in zip(omega_a, zip(*omega_b))]
    return prior, [mix(row, h_b) for row in omega_a], [mix(row, h_a) for row in omega_b]


def prior(hidden, relations, word_index, segment, gamma, printed):
    """Eqs. (1)-(4) for one pair. Returns: the factors of Eq. (5) (L, L), c of each token (L, d)."""
    out = [[1.0] * len(segment) for _ in segment]
    context = [[0.0] * len(x) for x in hidden]
    a, b = ([i for i, word in enumerate(word_index) if word >= 0 and segment[i] == sentence]
            for sentence in (0, 1))
    if not a or not b:
        return out, context
    h_a, h_b = [hidden[i] for i in a], [hidden[j] for j in b]
    kinds = 4 if 2 in printed else 5        # Eq. (2); the page has no co-hyponyms
    G = [[gamma * any(relations[word_index[i]][word_index[j]][:kinds]) for j in b]
         for i in a]
    K_prior, c_a, c_b = co_attention(h_a, h_b, knowledge_scores(h_a, h_b, G, 1 in printed))
    average = 1.0 if 5 in printed else sum(map(sum, K_prior)) / len(a) / len(b)
    for (x, i), (y, j) in itertools.product(enumerate(a), enumerate(b)):
        out[i][j] = out[j][i] = K_prior[x][y] / average
    for i, c in zip(a + b, c_a + c_b):
        context[i] = c
    return out, context


def fuse(P, sem, knw, mask, printed, without):
    """Eqs. (6)-(8) on the signals of one pair. Returns: tokens, trace."""
    if "fusion" in without:
        return [mean(pair) for pair in zip(sem, knw)], {}
    seen, hat_knw, hat_sem = {}, knw, sem
    if "guide" not in without:
        hat_knw, seen["semantic_guided"] = guided_attention(
            knw, sem, mask, P["W_Oknw"], P["W_osem"], P["w_zknw"], 6 in printed)
        hat_sem, seen["knowledge_guided"] = guided_attention(
            sem, hat_knw, mask, P["W_Osem"], P["W_ohatknw"], P["w_zsem"], 6 in printed)
    W_fuse, W_filter = (None, None) if "gates" in without else (P["W_gfuse"], P["W_gfilter"])
    u, seen["g"] = gated_fusion(hat_knw, hat_sem, P["W_otildeknw"], P["W_otildesem"], W_fuse)
    tokens, seen["f"] = filtration_gate(sem, u, None, P["W_y"], W_filter, 8 in printed)
    return tokens, seen


def layer(P, hidden, known, mask, heads, scope, printed, without):
    """Eqs. (1)-(8) for a pair. known: relations, word_index, segment, γ. Returns: tokens, trace."""
    K, context = prior(hidden, *known, printed)
    tokens, seen = fusion_layer(
        P, hidden, mask, heads, scope,
        lambda q, k, v: ("calibrated", *calibrated_attention(q, k, v, K, mask, 5 in printed)),
        lambda sem, knw: fuse(P, sem, knw, mask, printed, without))
    return tokens, seen | {"prior": K, "context": context}
