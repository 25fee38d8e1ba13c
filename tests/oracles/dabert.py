"""DABERT, section 2, equation by equation in plain loops; common.py has (1), (5)-(7)."""
import math

from oracles.common import (affine, filtration_gate, fusion_layer, gated_fusion,
                            guided_attention, mean, mix, softmax, tanh)


def difference_scores(q, k, printed):
    """Eq. (4) in one head of one pair: the L1 norm, as its bars say; as printed, the sum."""
    term = float if printed else abs
    return [[sum(term(x - y) for x, y in zip(query, key, strict=True)) for key in k] for query in q]


def difference_attention(q, k, v, mask, printed):
    """Eqs. (2), (3). As printed, M, which is 0 or -10000, is in β. Returns: mixed, weights."""
    weights, scale = [], math.sqrt(len(q[0]))
    for row in difference_scores(q, k, 4 in printed):
        if 3 in printed:
            beta = [x + (0.0 if real else -10000.0) for x, real in zip(row, mask)]
            weights.append(softmax([x / scale for x in beta], [True] * len(mask)))
        else:
            weights.append(softmax([x / scale for x in row], mask))
    return [mix(row, v) for row in weights], weights


def fuse(P, a, d, mask, printed, without):
    """Eqs. (5)-(7) on the signals of one pair. Returns: tokens, trace."""
    if "affinity" in without:
        a = d
    if "difference" in without:
        d = a
    if "regulation" in without:
        return [mean(pair) for pair in zip(a, d)], {}
    seen, d_star, a_star = {}, d, a
    if "guide" not in without:
        d_bar, seen["affinity_guided"] = guided_attention(
            d, a, mask, P["W_D"], P["W_a"], P["w_d"], 5 in printed)
        a_bar, seen["difference_guided"] = guided_attention(
            a, d_bar, mask, P["W_A"], P["W_dbar"], P["w_abar"], 5 in printed)
        d_star = [tanh(affine(P["W_dstar"], d_i + bar)) for d_i, bar in zip(d, d_bar)]
        a_star = [tanh(affine(P["W_astar"], a_i + bar)) for a_i, bar in zip(a, a_bar)]
    W_g = None if "gate-fusion" in without else P["W_g"]
    W_v, W_f = (None, None) if "gate-filter" in without else (P["W_v"], P["W_f"])
    v, seen["g"] = gated_fusion(d_star, a_star, P["W_dhat"], P["W_ahat"], W_g)
    tokens, seen["f"] = filtration_gate(a, v, W_v, P["W_l"], W_f, 7 in printed)
    return tokens, seen


def layer(P, hidden, mask, heads, scope, printed, without):
    """Eqs. (1)-(7) for one pair. Returns: tokens, trace."""
    return fusion_layer(
        P, hidden, mask, heads, scope,
        lambda q, k, v: ("difference", *difference_attention(q, k, v, mask, printed)),
        lambda a, d: fuse(P, a, d, mask, printed, without))
