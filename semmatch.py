"""The fusion papers, equation by equation: a numbered equation is a function, a method is a class.

Papers
    DABERT     Wang et al., "DABERT: Dual Attention Enhanced BERT for Semantic Matching", COLING
               2022. Eqs. (1)-(7).
    DAFA       Song et al., "Improving Semantic Matching through Dependency-Enhanced Pre-trained
               Model with Adaptive Fusion", Findings of EMNLP 2022. Eqs. (6)-(9); (1)-(5) are in
               priors.py.
    Knowledge  Li and Yuan, "Using External knowledge to Enhanced PLM for Semantic Matching".
               Eqs. (1)-(8); priors.py makes the relations k_ij, (9) is in train.py.

A method is a subclass of bert_min.SelfAttention. From the pre-trained queries, keys and values it
computes another output than plain attention does. Equations that papers share stand first.

We compute every equation as the text of its paper intends. `printed={6, 7}` computes these two as
the page prints them, errors included; a function of one equation takes a bool. Docstrings say under
`Departs:` what differs from the page, and under `Assumes:` what the paper leaves open.
`without={"gates"}` removes a part, as the papers' ablation tables do.

Names (ours | DABERT | DAFA | Knowledge)
    sem | A, a_i | Sem, s_i | O_sem, o_i^sem           v | v_i | v_i | u_i
    other | D, d_i | Dep, d_i | O_knw, o_i^knw         g | g_i | g_i | g_i^fuse
    prior | - | M_F (n, m) | k_ij (n, m, R)            f | f_i | f_i | g_i^filter
    bias | - | ln M̃ (L, L) | G(k_ij) (L, L)            attention_size | d_l | d_seq | d_attn

`prior` is a matrix over the words of a pair; nothing in it is learned. A method's `spread` turns it
into a matrix over tokens.

Left out: the encoder (bert_min.py), the other two papers (reread.py), training (train.py).
"""
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_min import (Bert, BertConfig, Change, SelfAttention, Shown, attention_weights,
                      check_options, full_precision, linear, merge_heads, record, split_heads)
from priors import DependencyPrior, RelationPrior, prior_of
from support.kernels import additive_scores, l1_distances

# Axes: B batch, L tokens of the packed pair, d width of a signal or state, H heads, k head size,
# A attention size, n words of a, m words of b, R relations, C classes


# ---- Equations that papers share ----------------------------------------------------------------

def guided_attention(values: Tensor, guide: Tensor, mask: Tensor, W_values: nn.Linear,
                     W_guide: nn.Linear, w: nn.Linear, printed=False) -> tuple[Tensor, Tensor]:
    """Guide i attends over all values; the result is row i of the output.
    DABERT Eq. (5), first four lines; DAFA Eq. (7); Knowledge Eq. (6). In DAFA's letters:

        δ_i = tanh(W_D Dep ⊕ (W_s s_i + b_s)),      d*_i = Dep softmax(w_d δ_i + b_d)
        γ_i = tanh(W_S Sem ⊕ (W_d* d*_i + b_d*)),   s*_i = Sem softmax(w_s* γ_i + b_s*)

    This function computes one line. In the first, values = Dep, guide = Sem, W_values = W_D,
    W_guide = W_s; in the second, values = Sem, guide = d*. DABERT writes d̄, ā for d*, s*.

    Departs: ⊕ is concatenation, so the score is a sum, w₁ tanh(W_D d_j) + (w₂ tanh(W_s s_i + b_s)
    + b). The term in brackets has no j and cancels in the softmax over j: the guide has no
    influence, and all rows of d* are equal. We compute the additive score wᵀ tanh(W_D d_j + W_s s_i
    + b_s), in which guide and value meet before tanh; we drop b, because it cancels too.
    Knowledge's note on its formula, "⊕ implies concatenation then linear layer", can mean the same:
    its w ∈ R^d_attn fits a linear layer inside tanh, not a stack. `printed` computes the formulas,
    for which w needs 2A numbers in Knowledge, too.
    Assumes: DABERT and DAFA tie the attention's width to the sequence length, Knowledge does not;
    ours is `attention_size`. The index i of the weights is a label: all tokens share them. There is
    no dropout here.

    Args: values, guide: (B, L, d). mask: bool (B, L), True = real token. W_values: Linear d → A
        without bias. W_guide: Linear d → A. w: Linear A → 1 without bias; `printed`, 2A → 1 with.
    Returns: the attended values (B, L, d); the weights (B, L, L), row i is where guide i looks,
        masked keys exactly 0.
    """
    keys, queries = W_values(values), W_guide(guide)
    if printed:
        w_keys, w_queries = w.weight[0].chunk(2)
        of_values, of_guide = keys.tanh() @ w_keys, queries.tanh() @ w_queries + w.bias
        scores = of_values[:, None, :] + of_guide[:, :, None]  # (B, L, L)
    else:       # float32, because the differences between rows would vanish in bfloat16
        wide = torch.promote_types(keys.dtype, torch.float32)
        scores = additive_scores(keys.to(wide), queries.to(wide), w.weight[0].to(wide))  # (B, L, L)
    weights = attention_weights(scores, mask)
    return weights.to(values.dtype) @ values, weights


def gated_fusion(sem: Tensor, other: Tensor, W_sem: nn.Linear, W_other: nn.Linear,
                 W_g: nn.Linear | None = None) -> tuple[Tensor, Tensor]:
    """One gate per token mixes the two signals.
    DABERT Eq. (6), DAFA Eq. (8), Knowledge Eq. (7). In DAFA's letters:

        d̂_i = tanh(W_d̂ d*_i + b_d̂),  ŝ_i = tanh(W_ŝ s*_i + b_ŝ),  g_i = σ(W_g (d̂_i ⊕ ŝ_i)),
        v_i = g_i ŝ_i + (1 - g_i) d̂_i

    Assumes: all tokens i share the weights; d_hid is the signal's size d. Knowledge's W_g has a
    bias. Without W_g the gate is one half: "simple averaging" (DABERT § 4.3); our reading of "w/o
    gate mechanism" (DAFA Table 8).

    Args: sem, other: (B, L, d), s*, d*. W_sem, W_other: Linear d → d. W_g: Linear 2d → 1 or None.
    Returns: v (B, L, d), between ŝ and d̂ in every coordinate, and the gate g (B, L, 1) in (0, 1).
    """
    d_hat, s_hat = W_other(other).tanh(), W_sem(sem).tanh()
    if W_g is None:
        g = d_hat.new_full((*sem.shape[:2], 1), 0.5)  # (B, L, 1)
    else:
        g = W_g(torch.cat([d_hat, s_hat], -1)).sigmoid()  # (B, L, 1)
    return g * s_hat + (1 - g) * d_hat, g


def filtration_gate(sem: Tensor, v: Tensor, W_v: nn.Linear | None, W_l: nn.Linear,
                    W_f: nn.Linear | None = None, printed=False) -> tuple[Tensor, Tensor]:
    """The gate lets the fused signal in, or filters it out.
    DABERT Eq. (7), DAFA Eq. (9), Knowledge Eq. (8). In DAFA's letters:

        f_i = σ(W_f (s_i ⊕ (W_v v_i + b_v))),   l_i = f_i tanh(W_l v_i + b_l)

    Knowledge has no W_v, a bias in f, and writes u for v, y for l.
    Departs: on the page l_i replaces s_i, so that f near 0 filters out all that attention found.
    But the gate "will incorporate the fusion features and the original features" (DABERT, DAFA),
    and lets "the base PLM's semantic understanding" prevail, "although Equation 8 only shows
    scaling" (Knowledge). We return s_i + l_i; `printed` returns l_i alone.
    Assumes: all tokens i share the weights. Without W_f the gate is one.

    Args: sem, v: (B, L, d). W_v: Linear d → d; None: v as it is. W_l: Linear d → d. W_f: Linear
        2d → 1; None: f = 1.
    Returns: the layer's signal (B, L, d) and the gate f (B, L, 1) in (0, 1).
    """
    of_v = v if W_v is None else W_v(v)  # (B, L, d)
    if W_f is None:
        f = v.new_ones(*v.shape[:2], 1)  # (B, L, 1)
    else:
        f = W_f(torch.cat([sem, of_v], -1)).sigmoid()  # (B, L, 1)
    l = f * W_l(v).tanh()  # (B, L, d)
    return (l if printed else sem + l), f


def spread_prior(prior: Tensor, word_index: Tensor, segment: Tensor, elsewhere: float) -> Tensor:
    """A matrix over words becomes a matrix over tokens.

    "Ensure each element is in the corresponding position in the sentence alignment" (DAFA § 2.2);
    "reshaped appropriately to match" (Knowledge § 3.3).
    Assumes: each piece of a word has its word's value. Special tokens, padding and pairs inside one
    sentence get the value `elsewhere`.

                [CLS] a  a  [SEP] b  b  [SEP]
        [CLS]     ·   ·  ·    ·   ·  ·    ·        · elsewhere
        a         ·   ·  ·    ·   P  P    ·        P prior[i, j]
        [SEP]     ·   ·  ·    ·   ·  ·    ·
        b         ·   Pᵀ Pᵀ   ·   ·  ·    ·

    Args: prior: (B, n, m); n or m may be 0. word_index: int64 (B, L), each piece's word in its own
        sentence, -1 where there is none. segment: int64 (B, L), 0 in sentence a, 1 in b.
    Returns: (B, L, L), symmetric.
    """
    # A sentence without words gets one, so that indexing works; nothing reads its value.
    prior = F.pad(prior, (0, int(prior.shape[2] == 0), 0, int(prior.shape[1] == 0)))
    batch = torch.arange(prior.shape[0], device=prior.device)[:, None, None]
    i = word_index.clamp(0, prior.shape[1] - 1)
    j = word_index.clamp(0, prior.shape[2] - 1)
    in_a, in_b = (word_index >= 0) & (segment == 0), (word_index >= 0) & (segment == 1)
    values = prior[batch, i[:, :, None], j[:, None, :]]  # (B, L, L)
    cross = in_a[:, :, None] & in_b[:, None, :]  # (B, L, L)
    block = torch.where(cross, values, elsewhere)
    return torch.where(cross.transpose(1, 2), values.transpose(1, 2), block)  # (B, L, L)


def calibrated_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mask: Tensor, dropout=0.0,
                         printed=False, trace: dict | None = None) -> Tensor:
    """Attention whose weights a prior over the words calibrates.
    DAFA Eq. (6), its last line, and Knowledge Eq. (5), its last two.

        Dep = softmax((QKᵀ ⊙ M_F) / √d_k) V,    O_knw = softmax((QKᵀ ⊙ K_prior) / √d_k) V

    Departs: a product turns a *negative* q·k with a high prior into a lower weight, the opposite of
    "strengthening the attention weight of same dependency". We multiply the weights, not the
    scores: weight_ij ∝ M̃_ij exp(q_i·k_j / √d_k), M̃ = 1 + M_F in DAFA, K_prior over its mean
    in Knowledge. A larger entry never lowers its own weight, and M̃ = 1 everywhere is plain
    attention. `printed` multiplies the scores.

    Args: q, k, v: (B, H, L, k). bias: (B, L, L), or (B, H, L, L) if heads differ, added to the
        scores: ln M̃, 0 outside the cross blocks; with `printed` multiplied: M_F or K_prior, 1
        outside. mask: bool (B, L). dropout: probability on the weights.
    Returns: (B, H, L, k). trace, if given, gets "calibrated", the weights (B, H, L, L).
    """
    bias = bias if bias.dim() == 4 else bias[:, None]
    if not printed and trace is None:       # one fused kernel
        bias = bias.to(q.dtype).masked_fill(~mask[:, None, None], float("-inf"))
        return F.scaled_dot_product_attention(q, k, v, bias, dropout_p=dropout)  # (B, H, L, k)
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5  # (B, H, L, L)
    scores = scores * bias if printed else scores + bias
    weights = attention_weights(scores, mask)
    record(trace, calibrated=weights)
    return F.dropout(weights, dropout).to(v.dtype) @ v


# ---- What the fusion papers share ---------------------------------------------------------------

CALIBRATED = {"calibrated": Shown("Attention after calibration", "pair head piece piece",
                                  "The same weights, changed by the prior.", 1.0,
                                  by="calibrated_attention")}


def shown_by_fuse(*signals):
    """TRACE's entries for the maps and gates that `fuse` records. signals: the two that guide."""
    note = ("Row: the piece that guides; column: how much it takes from each piece of the other "
            "signal. A flat row hardly chooses.")
    shown = {f"{signal}_guided": Shown(f"Guided attention, led by the {signal} signal",
                                       "pair piece piece", note, 1.0, by="guided_attention")
             for signal in signals}
    joined = f"Fused: g of the {signals[0]} signal, 1 - g of the {signals[1]} one."
    let_in = "The share of the fused signal that is added."
    return shown | {"g": Shown("Gate g", "pair piece gate", joined, 1.0, by="gated_fusion"),
                    "f": Shown("Gate f", "pair piece gate", let_in, 1.0, by="filtration_gate")}


class FusionAttention(SelfAttention):
    """Plain attention and a second attention; their fused signals replace the plain signal.

                          DABERT               DAFA                   Knowledge
        plain attention   (1)                  (6), first line        (5), first two lines
        second attention  difference, (2)-(4)  dependency prior, (6)  knowledge prior, (1)-(5)
        guided attention  (5)                  (7)                    (6)
        gated fusion      (6)                  (8)                    (7)
        filtration gate   (7)                  (9)                    (8)

    Departs: DAFA and Knowledge have both attentions in each head, and the fusion too, as its size
    d_v says. scope "hidden" fuses the concatenated heads before the output projection, once instead
    of H times. scope "head" fuses each head, as on the page.
    Assumes: with scope "head" the heads share one set of weights.

    A subclass defines
        add_weights(d, A)    makes its weights, for signals d wide
        second(hidden, q, k, v, mask, bias, dropout, trace)    the second attention, (B, H, L, k)
        fuse(sem, other, mask, trace)    makes one signal of two; what it records has one more axis
                                         with scope "head", the head
        spread(prior, word_index, segment)    if it has a prior: from words to pieces, (B, L, L)

    Args: config: BertConfig. printed: some of PRINTED. without: some of ABLATIONS. heads: "both":
        each head has both attentions; ours: "half": the first half of the heads has the second
        attention alone, the others plain attention; "all": each head has the second alone. With
        these two nothing is fused and no weight is made. scope: "hidden" or "head".
        attention_size: A, the width of guided attention.
    """

    SECOND = frozenset()    # the equations and parts of the second attention, before the fusion

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, heads="both",
                 scope="hidden", attention_size=128):
        super().__init__(config)
        check_options(type(self), printed, without)
        if scope not in ("hidden", "head") or heads not in ("both", "half", "all"):
            raise ValueError(f"{type(self).__name__}: expected scope hidden or head, heads both, "
                             f"half or all, got scope={scope!r}, heads={heads!r}")
        unused = sorted(map(str, {*printed, *without}.difference(self.SECOND)))
        if heads != "both" and (unused or scope != "hidden"):
            raise ValueError(f"heads {heads}: fuses nothing, so that {', '.join(unused) or 'scope'}"
                             " has no meaning; leave that out")
        self.printed, self.without, self.scope = frozenset(printed), frozenset(without), scope
        self.carrying = {"half": (self.heads + 1) // 2, "all": self.heads}.get(heads)
        if self.carrying is not None:
            return
        parts = config.num_heads if scope == "head" else 1
        self.add_weights(config.hidden_size // parts, attention_size)

    def attend(self, hidden, q, k, v, mask, bias, trace):
        """Both attentions, then their fusion (B, L, d). bias: the result of `spread`, or None."""
        if self.carrying is not None:
            return self.divide_heads(hidden, q, k, v, mask, bias, trace)  # (B, L, d)
        sem = super().attend(hidden, q, k, v, mask, None, trace)  # (B, L, d)
        dropout = self.dropout if self.training else 0.0
        other = self.second(hidden, q, k, v, mask, bias, dropout, trace)  # (B, H, L, k)
        if self.scope == "hidden":
            return self.fuse(sem, merge_heads(other), mask, trace)  # (B, L, d)
        sem = split_heads(sem, self.heads).flatten(0, 1)        # heads stand in the batch axis
        seen = None if trace is None else {}
        out = self.fuse(sem, other.flatten(0, 1), mask.repeat_interleave(self.heads, 0), seen)
        for name, x in (seen or {}).items():
            record(trace, **{name: x.unflatten(0, (-1, self.heads))})
        return merge_heads(out.unflatten(0, (-1, self.heads)))  # (B, L, d)

    def divide_heads(self, hidden, q, k, v, mask, bias, trace):
        """The second attention in the first heads, plain attention in the others, (B, L, d). The
        trace gets both of the first heads."""
        dropout, n = self.dropout if self.training else 0.0, self.carrying
        if trace is not None:
            super().attend(hidden, q[:, :n], k[:, :n], v[:, :n], mask, None, trace)
        parts = [merge_heads(self.second(hidden, q[:, :n], k[:, :n], v[:, :n], mask, bias,
                                         dropout, trace))]
        if n < self.heads:
            parts.append(super().attend(hidden, q[:, n:], k[:, n:], v[:, n:], mask, None, None))
        return torch.cat(parts, -1)  # (B, L, d)


def guides(A, printed):
    """w of both guided attentions: Linear A → 1 without bias; as printed, 2A → 1 with bias."""
    width = 2 * A if printed else A
    return linear(width, 1, bias=printed), linear(width, 1, bias=printed)


# ---- DABERT -------------------------------------------------------------------------------------

def difference_scores(q: Tensor, k: Tensor, printed=False) -> Tensor:
    """How different is each query from each key?  DABERT Eq. (4): ‖Q - K‖_ij = Σ_k (Q_ik - K_jk)

    Departs: without bars around the difference this is ΣQ_i - ΣK_j. ΣQ_i cancels in the softmax, so
    every query gets the same row of weights, whatever it says. We compute the L1 distance, Σ_k
    |Q_ik - K_jk|, as ‖·‖ says. A larger difference gets a larger weight, because the layer is to
    "pay attention to dissimilar parts". `printed` computes the page, but k from 1, not from 0.

    Args: q, k: (B, H, L, k). Returns: (B, H, L, L), float32 or wider.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    q, k = q.to(wide), k.to(wide)
    if printed:
        return q.sum(-1)[..., :, None] - k.sum(-1)[..., None, :]  # (B, H, L, L)
    scores = l1_distances(q.flatten(0, 1), k.flatten(0, 1))
    return scores.unflatten(0, q.shape[:2])  # (B, H, L, L)


def difference_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout=0.0,
                         printed=frozenset(), trace: dict | None = None) -> Tensor:
    """Attention to what differs.  DABERT Eqs. (2), (3): D = softmax(β / √d_k) V,   β = ‖Q - K‖ + M

    Departs: the page adds M ∈ R^{d_l×d_l}, whose values it does not give, before the division by
    √d_k. A finite M lets masked keys through if scores are large or a row has no other key. We
    apply the mask when the score is complete. `printed` {3} adds M = -10⁴, BERT's own constant; {4}
    is as in difference_scores.
    Assumes: dropout on the weights, as in plain attention. The "cross-attention" looks at all
    tokens of the packed pair, also of the query's own sentence. "Each channel uses a different
    attention head" (section 2): here both channels are in every head, and share its Q, K and V.

    Args: q, k, v: (B, H, L, k). mask: bool (B, L). dropout: probability.
    Returns: (B, H, L, k). trace, if given, gets "difference", the weights (B, H, L, L).
    """
    beta = difference_scores(q, k, 4 in printed)  # (B, H, L, L)
    if 3 in printed:
        M = torch.where(mask, 0.0, -1e4)[:, None, None]  # (B, 1, 1, L)
        weights = ((beta + M) / q.shape[-1] ** 0.5).softmax(-1)  # (B, H, L, L)
    else:
        weights = attention_weights(beta / q.shape[-1] ** 0.5, mask)  # (B, H, L, L)
    record(trace, difference=weights)
    return F.dropout(weights, dropout).to(v.dtype) @ v


class DabertAttention(FusionAttention):
    """Dual attention, affinity and difference, and its adaptive fusion: DABERT Eqs. (1)-(7).

    without, the paper's Table 5: "affinity" or "difference": the other signal takes its place;
    "guide": d* = d, a* = a; "gate-fusion": g is one half; "gate-filter": f is one; "regulation",
    "the overall aggregation and Regulation module": the average of the two signals.
    Assumes: Table 5's models without one attention keep the fusion, because their numbers are not
    plain BERT's. The second guide of Eq. (5) is d̄, as in its formula; its text says d*.
    """

    PRINTED, SECOND = frozenset({3, 4, 5, 7}), frozenset({3, 4})
    ABLATIONS = frozenset({"affinity", "difference", "guide", "gate-fusion", "gate-filter",
                           "regulation"})
    TRACE = SelfAttention.TRACE | {
        "difference": Shown("Difference attention", "pair head piece piece",
                            "The larger the difference of two pieces, the larger the weight.", 1.0,
                            by="difference_attention"),
    } | shown_by_fuse("affinity", "difference")

    def add_weights(self, d, A):
        """The paper's weights, for signals d wide, except weights that `without` makes unused."""
        if {"affinity", "difference"} <= self.without:
            raise ValueError("without affinity, difference: one of them must stay for "
                             "DabertAttention to attend with")
        if "regulation" in self.without:
            return
        if "guide" not in self.without:
            self.W_D, self.W_a = linear(d, A, bias=False), linear(d, A)
            self.W_A, self.W_dbar = linear(d, A, bias=False), linear(d, A)
            self.w_d, self.w_abar = guides(A, 5 in self.printed)
            self.W_dstar, self.W_astar = linear(2 * d, d), linear(2 * d, d)
        self.W_dhat, self.W_ahat, self.W_l = linear(d, d), linear(d, d), linear(d, d)
        self.W_g = self.W_v = self.W_f = None
        if "gate-fusion" not in self.without:
            self.W_g = linear(2 * d, 1, bias=False)
        if "gate-filter" not in self.without:
            self.W_v, self.W_f = linear(d, d), linear(2 * d, 1, bias=False)

    def second(self, hidden, q, k, v, mask, bias, dropout, trace):
        return difference_attention(q, k, v, mask, dropout, self.printed, trace)  # (B, H, L, k)

    def fuse(self, a, d, mask, trace):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (5)-(7) on (B, L, d)."""
        if "affinity" in self.without:
            a = d
        if "difference" in self.without:
            d = a
        if "regulation" in self.without:
            return (a + d) / 2
        d_star, a_star = d, a
        if "guide" not in self.without:
            # d̄_i = D softmax(w_d δ_i),   δ_i = tanh(W_D D + W_a a_i)                    Eq. (5)
            d_bar, by_a = guided_attention(d, a, mask, self.W_D, self.W_a, self.w_d,
                                           5 in self.printed)
            # ā_i = A softmax(w_ā γ_i),   γ_i = tanh(W_A A + W_d̄ d̄_i)
            a_bar, by_d = guided_attention(a, d_bar, mask, self.W_A, self.W_dbar, self.w_abar,
                                           5 in self.printed)
            # d*_i = tanh(W_d* (d_i ⊕ d̄_i)),   a*_i = tanh(W_a* (a_i ⊕ ā_i))
            d_star = self.W_dstar(torch.cat([d, d_bar], -1)).tanh()
            a_star = self.W_astar(torch.cat([a, a_bar], -1)).tanh()
            record(trace, affinity_guided=by_a, difference_guided=by_d)
        # v_i = g_i â_i + (1 - g_i) d̂_i,   g_i = σ(W_g (d̂_i ⊕ â_i))                     Eq. (6)
        v, g = gated_fusion(a_star, d_star, self.W_ahat, self.W_dhat, self.W_g)
        # a_i + f_i tanh(W_l v_i),   f_i = σ(W_f (a_i ⊕ W_v v_i))                       Eq. (7)
        out, f = filtration_gate(a, v, self.W_v, self.W_l, self.W_f, 7 in self.printed)
        record(trace, g=g, f=f)
        return out


# ---- DAFA ---------------------------------------------------------------------------------------

class DafaAttention(FusionAttention):
    """Dependency-enhanced adaptive fusion attention: DAFA Eqs. (6)-(9).

    Assumes: "adding 1" to the dimension of M_F, which could also mean one more axis, means
    M̃ = 1 + M_F. Words without any agreement then have the factor 1; as printed, their score
    becomes 0.
    without, the paper's Table 8: "tree", "subgraph", "tfidf" (in priors.py); "cross-attention":
    d* = d, s* = s; "gates": g is one half, f is one; "fusion": the average of the two signals. For
    Fig. 4, one of the gates: "gate-fusion", "gate-filter". Ours: "root" (in priors.py).
    """

    PRINTED = frozenset({4, 6, 7, 9})     # Eq. (4) is priors.subgraph_similarity
    SECOND = frozenset({4, 6}) | DependencyPrior.PARTS
    ABLATIONS = DependencyPrior.PARTS | {"cross-attention", "gates", "gate-fusion", "gate-filter",
                                         "fusion"}
    TRACE = SelfAttention.TRACE | CALIBRATED | shown_by_fuse("semantic", "dependency")

    @classmethod
    def prior(cls, printed, without):
        """M_F, Eqs. (1)-(5)."""
        return DependencyPrior(printed, without)

    def add_weights(self, d, A):
        """The paper's weights, for signals d wide, except weights that `without` makes unused."""
        if "fusion" in self.without:
            return
        if "cross-attention" not in self.without:
            self.W_D, self.W_s = linear(d, A, bias=False), linear(d, A)
            self.W_S, self.W_dstar = linear(d, A, bias=False), linear(d, A)
            self.w_d, self.w_sstar = guides(A, 7 in self.printed)
        self.W_dhat, self.W_shat, self.W_l = linear(d, d), linear(d, d), linear(d, d)
        self.W_g = self.W_v = self.W_f = None
        if {"gates", "gate-fusion"}.isdisjoint(self.without):
            self.W_g = linear(2 * d, 1, bias=False)
        if {"gates", "gate-filter"}.isdisjoint(self.without):
            self.W_v, self.W_f = linear(d, d), linear(2 * d, 1, bias=False)

    def neutral(self, prior):
        """A prior that changes nothing, M̃ = 1: M_F = 0; as printed, Eq. (6), M_F = 1."""
        return torch.full_like(prior, 6 in self.printed)

    def spread(self, prior, word_index, segment):
        """What calibrated_attention takes, (B, L, L), from M_F (B, n, m)."""
        if 6 in self.printed:
            return spread_prior(prior, word_index, segment, 1.0)  # (B, L, L)
        return spread_prior(prior.log1p(), word_index, segment, 0.0)  # (B, L, L)

    def second(self, hidden, q, k, v, mask, bias, dropout, trace):
        """Dep of Eq. (6)."""
        return calibrated_attention(q, k, v, bias, mask, dropout, 6 in self.printed,
                                    trace)  # (B, H, L, k)

    def fuse(self, s, d, mask, trace):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (7)-(9) on (B, L, d)."""
        if "fusion" in self.without:
            return (s + d) / 2
        d_star, s_star = d, s
        if "cross-attention" not in self.without:
            # d*_i = Dep softmax(w_d δ_i),   δ_i = tanh(W_D Dep + W_s s_i)               Eq. (7)
            d_star, by_s = guided_attention(d, s, mask, self.W_D, self.W_s, self.w_d,
                                            7 in self.printed)
            # s*_i = Sem softmax(w_s* γ_i),  γ_i = tanh(W_S Sem + W_d* d*_i)
            s_star, by_d = guided_attention(s, d_star, mask, self.W_S, self.W_dstar, self.w_sstar,
                                            7 in self.printed)
            record(trace, semantic_guided=by_s, dependency_guided=by_d)
        # v_i = g_i ŝ_i + (1 - g_i) d̂_i,   g_i = σ(W_g (d̂_i ⊕ ŝ_i))                     Eq. (8)
        v, g = gated_fusion(s_star, d_star, self.W_shat, self.W_dhat, self.W_g)
        # s_i + f_i tanh(W_l v_i),   f_i = σ(W_f (s_i ⊕ W_v v_i))                       Eq. (9)
        out, f = filtration_gate(s, v, self.W_v, self.W_l, self.W_f, 9 in self.printed)
        record(trace, g=g, f=f)
        return out


# ---- External knowledge -------------------------------------------------------------------------

def relation_indicator(relations: Tensor, printed=False) -> Tensor:
    """I(k_ij) = 1 if k_ij indicates any relevant relation, else 0.  Knowledge Eq. (2)

    An antonym counts like a synonym.
    Departs: the paper's own example, "wheat" and "corn", is in none of its four relations. The two
    are co-hyponyms, words with one hypernym, our fifth relation. `printed` leaves it out.

    Args: relations: bool (B, n, m, R), in the order of priors.RELATIONS. Returns: bool (B, n, m).
    """
    return (relations[..., :4] if printed else relations).any(-1)  # (B, n, m)


def knowledge_scores(hidden: Tensor, bias: Tensor, printed=False) -> Tensor:
    """s_ij = h_iᵀ h_j + G(k_ij),   G(k_ij) = γ I(k_ij)   Knowledge Eq. (1)

    Departs: raw products of hidden states saturate the softmax of Eqs. (3), (4), so that a relation
    changes next to nothing. We divide the products by √d, as attention does; `printed` does not.

    Args: hidden: (B, L, d). bias: G (B, L, L), -inf except between words of different sentences.
    Returns: (B, L, L), float32 or wider, -inf where G is.
    """
    wide = torch.promote_types(hidden.dtype, torch.float32)
    with torch.autocast(hidden.device.type, enabled=False):
        scores = hidden.to(wide) @ hidden.to(wide).transpose(1, 2)  # (B, L, L)
    return (scores if printed else scores / hidden.shape[-1] ** 0.5) + bias  # (B, L, L)


def co_attention(hidden: Tensor, scores: Tensor) -> Tensor:
    """Each token's attention over the words of the other sentence.  Knowledge Eqs. (3), (4)

        ω^A_ij = exp(s_ij) / Σ_p exp(s_ip),   c^A_i = Σ_j ω^A_ij h^B_j
        ω^B_ij = exp(s_ij) / Σ_p exp(s_pj),   c^B_j = Σ_i ω^B_ij h^A_i,    K_prior = (ω^A + ω^B) / 2

    The pair is packed and s is symmetric, so one softmax over rows computes both: row i of sentence
    a is ω^A_i, row j of b is ω^B_·j. We return logarithms, because small weights would underflow.
    Assumes: c^A, c^B are for the trace alone; the paper never uses them again.

    Args: hidden: (B, L, d). scores: (B, L, L) from knowledge_scores.
    Returns: ln K_prior (B, L, L), -inf where scores are; c (B, L, d), 0 without a partner.
    """
    cross = scores > float("-inf")
    lowest = torch.finfo(scores.dtype).min
    ln_omega = scores.masked_fill(~cross, lowest).log_softmax(-1)  # (B, L, L)
    context = ln_omega.exp().masked_fill(~cross, 0.0).to(hidden.dtype) @ hidden  # (B, L, d)
    ln_K = torch.logaddexp(ln_omega, ln_omega.transpose(1, 2)) - math.log(2)  # (B, L, L)
    return ln_K.masked_fill(~cross, float("-inf")), context


class KnowledgeAttention(FusionAttention):
    """Attention calibrated by lexical knowledge, and its adaptive fusion: Knowledge Eqs. (1)-(8).

    Departs: the mean of K_prior over n and m tokens of words is (1/n + 1/m)/2, far below 1, so that
    Eq. (5) as printed shrinks all scores between the sentences towards 0. We divide K_prior by its
    mean over the cross block: what is above the mean is then above 1. `printed` {5} does not.
    Assumes: the "contextualized hidden states" H are those that enter the layer. This paper names
    no layer; in the first, our default, H is the embeddings, not contextualized yet. Special tokens
    take no part. The paper gives no value of γ, our `gamma`. The page has m words in a and n in b;
    here, as in DAFA, a has n.
    without: "fusion": the average of the two signals, the paper's "Ours-avg". Ours: "prior": γ = 0,
    no relation counts; "guide": ô = o; "gates": g is one half, f is one; "tags": relations of any
    part of speech, and no parser.
    Trace: "prior" is K̃, as printed K_prior, 1 outside the cross blocks; "context" (B, L, d), c^A
    and c^B, is in no figure.
    """

    PRINTED, SECOND = frozenset({1, 2, 5, 6, 8}), frozenset({1, 2, 5, "prior", "tags"})
    ABLATIONS = frozenset({"fusion", "prior", "guide", "gates", "tags"})   # tags: in priors
    TRACE = {
        "prior": Shown("Prior over pieces", "pair piece piece",
                       "The factor of each weight, as printed of each score; 1 changes nothing."),
    } | SelfAttention.TRACE | CALIBRATED | shown_by_fuse("semantic", "knowledge")

    @classmethod
    def prior(cls, printed, without):
        """k_ij of Eq. (2)."""
        return RelationPrior(without)

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, gamma=1.0, **sizes):
        super().__init__(config, printed, without, **sizes)
        self.gamma = 0.0 if "prior" in self.without else gamma

    def add_weights(self, d, A):
        """The paper's weights, for signals d wide, except weights that `without` makes unused."""
        if "fusion" in self.without:
            return
        if "guide" not in self.without:
            self.W_Oknw, self.W_osem = linear(d, A, bias=False), linear(d, A)
            self.W_Osem, self.W_ohatknw = linear(d, A, bias=False), linear(d, A)
            self.w_zknw, self.w_zsem = guides(A, 6 in self.printed)
        self.W_otildeknw, self.W_otildesem, self.W_y = linear(d, d), linear(d, d), linear(d, d)
        self.W_gfuse = self.W_gfilter = None
        if "gates" not in self.without:
            self.W_gfuse, self.W_gfilter = linear(2 * d, 1), linear(2 * d, 1)

    def spread(self, prior, word_index, segment):
        """G(k_ij) (B, L, L), Eq. (1), of k_ij (B, n, m, R); -inf outside the cross blocks."""
        G = self.gamma * relation_indicator(prior, 2 in self.printed).float()  # (B, n, m)
        return spread_prior(G, word_index, segment, float("-inf"))  # (B, L, L)

    def second(self, hidden, q, k, v, mask, bias, dropout, trace):
        """O_knw of Eq. (5). bias: G (B, L, L)."""
        scores = knowledge_scores(hidden, bias, 1 in self.printed)  # (B, L, L)
        ln_K, context = co_attention(hidden, scores)
        cross, printed = bias > float("-inf"), 5 in self.printed
        if not printed:
            mean = ln_K.exp().sum((1, 2)) / cross.sum((1, 2)).clamp(min=1)  # (B,)
            ln_K = ln_K - mean.clamp(min=1e-30).log()[:, None, None]  # (B, L, L)
        ln_K = torch.where(cross, ln_K, 0.0)  # (B, L, L)
        record(trace, prior=ln_K.exp(), context=context)
        K = ln_K.exp() if printed else ln_K  # (B, L, L)
        return calibrated_attention(q, k, v, K, mask, dropout, printed, trace)  # (B, H, L, k)

    def fuse(self, o_sem, o_knw, mask, trace):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (6)-(8) on (B, L, d)."""
        if "fusion" in self.without:
            return (o_sem + o_knw) / 2
        hat_sem, hat_knw = o_sem, o_knw
        if "guide" not in self.without:
            # ô^knw_i = O_knw softmax(w_z z_i),   z_i = tanh(W O_knw + W o^sem_i)        Eq. (6)
            hat_knw, by_sem = guided_attention(o_knw, o_sem, mask, self.W_Oknw, self.W_osem,
                                               self.w_zknw, 6 in self.printed)
            # ô^sem_i = O_sem softmax(w_z z_i),   z_i = tanh(W O_sem + W ô^knw_i)
            hat_sem, by_knw = guided_attention(o_sem, hat_knw, mask, self.W_Osem, self.W_ohatknw,
                                               self.w_zsem, 6 in self.printed)
            record(trace, semantic_guided=by_sem, knowledge_guided=by_knw)
        # u_i = g_i õ^sem_i + (1 - g_i) õ^knw_i,   g_i = σ(W_g (õ^knw_i ⊕ õ^sem_i))     Eq. (7)
        u, g = gated_fusion(hat_sem, hat_knw, self.W_otildesem, self.W_otildeknw, self.W_gfuse)
        # o^sem_i + f_i tanh(W_y u_i),   f_i = σ(W_f (o^sem_i ⊕ u_i))                   Eq. (8)
        out, f = filtration_gate(o_sem, u, None, self.W_y, self.W_gfilter, 8 in self.printed)
        record(trace, g=g, f=f)
        return out


# ---- Whole model --------------------------------------------------------------------------------

class Matcher(nn.Module):
    """An encoder with a method in chosen layers, and a classifier on the pooled [CLS].

    Args: method: the attention class; SelfAttention is the plain encoder. config: BertConfig.
        classes: outputs; 1 for a regression. layers: indices of the layers that carry the method,
        at least one. options: the attention class's arguments besides config.
    Raises: ValueError for a layer that the encoder lacks: without its method, it would be plain.
    """

    def __init__(self, method: type[SelfAttention], config: BertConfig, classes: int,
                 layers: tuple[int, ...] = (0,), **options):
        super().__init__()
        if not layers or not set(layers) <= set(range(config.num_layers)):
            raise ValueError(f"layers needs some of 0 to {config.num_layers - 1}, this encoder's, "
                             f"got {', '.join(map(str, layers)) or 'none'}")
        self.bert = Bert(config, lambda layer: method(config, **options) if layer in layers
                         else SelfAttention(config))
        self.carrier = layers[0] if prior_of(method, options) else None  # all share its `spread`
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = linear(config.hidden_size, classes)

    def outputs(self):
        """The output layers. In a regression their biases start at the mean score of train."""
        return [self.classifier]

    def carriers(self):
        """dict layer -> its attention, for the layers that carry the method."""
        attentions = enumerate(layer.attention for layer in self.bert.layers)
        return {i: x for i, x in attentions if type(x) is not SelfAttention}

    def changes(self):
        """dict name -> Change for support.influence: no prior; another pair's prior, cut or padded
        to this pair's size; no method, but plain attention with the trained weights.
        """
        def neutral(batch):
            carrier = self.bert.layers[self.carrier].attention
            return batch | {"prior": carrier.neutral(batch["prior"])}

        def plain(attention, inputs, output):
            return attention.plain(*inputs)

        changes = {}
        if self.carrier is not None:
            changes = {"no prior": Change(neutral), "another pair's prior": Change(others=True)}
        if carriers := self.carriers():
            changes["no method"] = Change(outputs=dict.fromkeys(carriers.values(), plain))
        return changes

    def forward(self, input_ids: Tensor, segment: Tensor, mask: Tensor,
                word_index: Tensor | None = None, prior: Tensor | None = None,
                trace: dict | None = None) -> Tensor:
        """Logits (B, C) of a batch of packed pairs.

        Args: input_ids, segment, word_index: int64 (B, L). mask: bool (B, L), True = real token.
            prior: (B, n, m) or (B, n, m, R), for a method with a prior.
        """
        bias = None
        if self.carrier is not None:
            carrier = self.bert.layers[self.carrier].attention
            bias = carrier.spread(prior, word_index, segment)
        _, pooled = self.bert(input_ids, segment, mask, bias, trace)
        return full_precision(self.classifier, self.dropout(pooled))  # (B, C)
