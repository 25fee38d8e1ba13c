"""DAFA, section 2.2, Eqs. (6)-(9), in plain loops, most in common.py. (1)-(5): priors.py."""
from oracles.common import (calibrated_attention, filtration_gate, fusion_layer, gated_fusion,
                            guided_attention, mean, spread)


def fuse(P, s, d, mask, printed, without):
    """Eqs. (7)-(9) on the signals of one pair. Returns: tokens, trace."""
    if "fusion" in without:
        return [mean(pair) for pair in zip(s, d)], {}
    seen, d_star, s_star = {}, d, s
    if "cross-attention" not in without:
        d_star, seen["semantic_guided"] = guided_attention(
            d, s, mask, P["W_D"], P["W_s"], P["w_d"], 7 in printed)
        s_star, seen["dependency_guided"] = guided_attention(
            s, d_star, mask, P["W_S"], P["W_dstar"], P["w_sstar"], 7 in printed)
    W_g = None if {"gates", "gate-fusion"} & without else P["W_g"]
    W_v, W_f = (None, None) if {"gates", "gate-filter"} & without else (P["W_v"], P["W_f"])
    v, seen["g"] = gated_fusion(d_star, s_star, P["W_dhat"], P["W_shat"], W_g)
    tokens, seen["f"] = filtration_gate(s, v, W_v, P["W_l"], W_f, 9 in printed)
    return tokens, seen


def layer(P, hidden, known, mask, heads, scope, printed, without):
    """Eqs. (6)-(9) for one pair. Returns: tokens, trace. known: M_F, word_index, segment.

    Eq. (6) multiplies by 1 + M_F, as printed by M_F, in both cross blocks, and elsewhere by 1.
    """
    M_F, *places = known
    M = spread([[x + (0.0 if 6 in printed else 1.0) for x in row] for row in M_F], *places, 1.0)
    return fusion_layer(
        P, hidden, mask, heads, scope,
        lambda q, k, v: ("calibrated", *calibrated_attention(q, k, v, M, mask, 6 in printed)),
        lambda s, d: fuse(P, s, d, mask, printed, without))
