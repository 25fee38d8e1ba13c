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

We compute every equation as the text of its paper intends. Docstrings say under `Departs:` what
differs from the page, and under `Assumes:` what the paper leaves open. printed.py has the equations
as the pages print them; a method with `printed={6, 7}` computes these two so, errors included.
`without={"gates"}` removes a part, as the papers' ablation tables do.

A method calls its equations as attributes of its class. So another function, yours or a printed
form, takes an equation's place:

    class MyDafa(DafaAttention):
        guided_attention = staticmethod(mine)

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

import printed
from bert_min import (Bert, BertConfig, Constant, SelfAttention, attention, attention_weights,
                      full_precision, linear, merge_heads, split_heads)
from priors import (DependencyPrior, RelationPrior, equal_words, prior_of, subgraph_similarity,
                    words_prior)
from support.kernels import additive_scores, dot_products, l1_distances
from support.shown import (Change, check_options, heads_in_batch, looked_at, note,
                           printed_forms)

# Axes: B batch, L tokens of the packed pair, d width of a signal or state, H heads, k head size,
# A attention size, n words of a, m words of b, R relations, C classes


# ---- Equations that papers share ----------------------------------------------------------------

def guided_attention(values: Tensor, guide: Tensor, mask: Tensor, W_values: nn.Linear,
                     W_guide: nn.Linear, w: nn.Linear) -> tuple[Tensor, Tensor]:
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
    its w ∈ R^d_attn fits a linear layer inside tanh, not a stack.
    Assumes: DABERT and DAFA tie the attention's width to the sequence length, Knowledge does not;
    ours is `attention_size`. The index i of the weights is a label: all tokens share them. There is
    no dropout here.

    Args: values, guide: (B, L, d). mask: bool (B, L), True = real token. W_values: Linear d → A
        without bias. W_guide: Linear d → A. w: Linear A → 1 without bias.
    Returns: the attended values (B, L, d); the weights (B, L, L), row i is where guide i looks,
        masked keys exactly 0.
    """
    scores = additive_scores(W_values(values), W_guide(guide), w.weight[0])  # (B, L, L)
    weights = attention_weights(scores, mask)  # (B, L, L)
    return weights.to(values.dtype) @ values, weights


def score_map(A):
    """w of guided attention: Linear A → 1 without bias."""
    return linear(A, 1, bias=False)


def joined_signal(signal: Tensor, found: Tensor, W: nn.Linear) -> Tensor:
    """A signal joins what its guide found.  DABERT Eq. (5), last line; the others have none.

        d*_i = tanh(W_d* (d_i ⊕ d̄_i) + b_d*),   a*_i = tanh(W_a* (a_i ⊕ ā_i) + b_a*)

    Args: signal, found: (B, L, d), d and d̄, or a and ā. W: Linear 2d → d. Returns: (B, L, d).
    """
    return W(torch.cat([signal, found], -1)).tanh()  # (B, L, d)


def gated_fusion(sem: Tensor, other: Tensor, W_sem: nn.Linear, W_other: nn.Linear,
                 W_g: nn.Module) -> tuple[Tensor, Tensor]:
    """One gate per token mixes the two signals.
    DABERT Eq. (6), DAFA Eq. (8), Knowledge Eq. (7). In DAFA's letters:

        d̂_i = tanh(W_d̂ d*_i + b_d̂),  ŝ_i = tanh(W_ŝ s*_i + b_ŝ),  g_i = σ(W_g (d̂_i ⊕ ŝ_i)),
        v_i = g_i ŝ_i + (1 - g_i) d̂_i

    Assumes: all tokens i share the weights; d_hid is the signal's size d. Knowledge's W_g has a
    bias. Without the gate W_g gives 0, and g is one half: "simple averaging" (DABERT § 4.3); our
    reading of "w/o gate mechanism" (DAFA Table 8).

    Args: sem, other: (B, L, d), s*, d*. W_sem, W_other: Linear d → d. W_g: Linear 2d → 1.
    Returns: v (B, L, d), between ŝ and d̂ in every coordinate, and the gate g (B, L, 1) in (0, 1).
    """
    d_hat, s_hat = W_other(other).tanh(), W_sem(sem).tanh()
    g = W_g(torch.cat([d_hat, s_hat], -1)).sigmoid()  # (B, L, 1)
    return g * s_hat + (1 - g) * d_hat, g


def filtration_gate(sem: Tensor, v: Tensor, W_v: nn.Module, W_l: nn.Linear,
                    W_f: nn.Module) -> tuple[Tensor, Tensor]:
    """The gate lets the fused signal in, or filters it out.
    DABERT Eq. (7), DAFA Eq. (9), Knowledge Eq. (8). In DAFA's letters:

        f_i = σ(W_f (s_i ⊕ (W_v v_i + b_v))),   l_i = f_i tanh(W_l v_i + b_l)

    Knowledge has no W_v, a bias in f, and writes u for v, y for l.
    Departs: on the page l_i replaces s_i, so that f near 0 filters out all that attention found.
    But the gate "will incorporate the fusion features and the original features" (DABERT, DAFA),
    and lets "the base PLM's semantic understanding" prevail, "although Equation 8 only shows
    scaling" (Knowledge). We return s_i + l_i.
    Assumes: all tokens i share the weights. Without the gate W_f gives ∞, and f is one.

    Args: sem, v: (B, L, d). W_v: Linear d → d, or nn.Identity. W_l: Linear d → d. W_f: Linear
        2d → 1.
    Returns: the layer's signal (B, L, d) and the gate f (B, L, 1) in (0, 1).
    """
    f = W_f(torch.cat([sem, W_v(v)], -1)).sigmoid()  # (B, L, 1)
    return sem + f * W_l(v).tanh(), f


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


def calibrated_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, ln_M: Tensor,
                         dropout=0.0) -> Tensor:
    """Attention whose weights a prior over the words calibrates.
    DAFA Eq. (6), its last line, and Knowledge Eq. (5), its last two.

        Dep = softmax((QKᵀ ⊙ M_F) / √d_k) V,    O_knw = softmax((QKᵀ ⊙ K_prior) / √d_k) V

    Departs: a product turns a *negative* q·k with a high prior into a lower weight, the opposite of
    "strengthening the attention weight of same dependency". We multiply the weights, not the
    scores: weight_ij ∝ M̃_ij exp(q_i·k_j / √d_k) = exp(q_i·k_j / √d_k + ln M̃_ij), M̃ = 1 + M_F in
    DAFA, K_prior over its mean in Knowledge. A larger entry never lowers its own weight, and M̃ = 1
    everywhere is plain attention.

    Args: q, k, v: (B, H, L, k). mask: bool (B, L). ln_M: (B, L, L), or (B, H, L, L) if heads
        differ; 0 outside the cross blocks. dropout: probability on the weights.
    Returns: (B, H, L, k). The weights (B, H, L, L) are noted as "calibrated".
    """
    return attention(q, k, v, mask, ln_M, dropout, "calibrated")  # (B, H, L, k)


# ---- What the fusion papers share ---------------------------------------------------------------

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
        second(hidden, q, k, v, mask, bias)   the second attention, (B, H, L, k)
        fuse(sem, other, mask)                makes one signal of two
        spread(prior, word_index, segment)    if it has a prior: from words to pieces, (B, L, L)

    Args: config: BertConfig. printed: some of PRINTED. without: some of ABLATIONS. scope: "hidden"
        or "head". attention_size: A, the width of guided attention.
    Noted: plain "attention"; what `second` notes; weights of guided attention (B, L, L), by the
        signal that guides, such as "semantic_guided"; the gates "g", "f" (B, L, 1). With scope
        "head" what `fuse` notes has one more axis, (B, H, ...).
    """

    guided_attention = staticmethod(guided_attention)
    score_map = staticmethod(score_map)
    gated_fusion = staticmethod(gated_fusion)
    filtration_gate = staticmethod(filtration_gate)

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, scope="hidden",
                 attention_size=128):
        super().__init__(config)
        check_options(type(self), printed, without)
        vars(self).update(printed_forms(type(self), printed))  # in the places of the class's
        if scope not in ("hidden", "head"):
            raise ValueError(f"{type(self).__name__}: expected scope hidden or head, got {scope!r}")
        self.without, self.scope = frozenset(without), scope
        parts = config.num_heads if scope == "head" else 1
        self.add_weights(config.hidden_size // parts, attention_size)

    def add_gates(self, d, no_fusion_gate, no_filtration_gate):
        """W_g, W_v, W_f of the gates as DABERT and DAFA have them, or what stands in their place
        if `without` removes a gate: g is one half, f is one."""
        self.W_g, self.W_v, self.W_f = Constant(0.0), nn.Identity(), Constant(math.inf)
        if not no_fusion_gate:
            self.W_g = linear(2 * d, 1, bias=False)
        if not no_filtration_gate:
            self.W_v, self.W_f = linear(d, d), linear(2 * d, 1, bias=False)

    def attend(self, hidden, q, k, v, mask, bias):
        """Both attentions, then their fusion (B, L, d). bias: the result of `spread`, or None."""
        sem = super().attend(hidden, q, k, v, mask, None)  # (B, L, d)
        other = self.second(hidden, q, k, v, mask, bias)  # (B, H, L, k)
        if self.scope == "hidden":
            return self.fuse(sem, merge_heads(other), mask)  # (B, L, d)
        sem = split_heads(sem, self.heads).flatten(0, 1)        # heads stand in the batch axis
        with heads_in_batch(self.heads):
            out = self.fuse(sem, other.flatten(0, 1), mask.repeat_interleave(self.heads, 0))
        return merge_heads(out.unflatten(0, (-1, self.heads)))  # (B, L, d)


# ---- DABERT -------------------------------------------------------------------------------------

def difference_scores(q: Tensor, k: Tensor) -> Tensor:
    """How different is each query from each key?  DABERT Eq. (4): ‖Q - K‖_ij = Σ_k (Q_ik - K_jk)

    Departs: without bars around the difference this is ΣQ_i - ΣK_j. ΣQ_i cancels in the softmax, so
    every query gets the same row of weights, whatever it says. We compute the L1 distance, Σ_k
    |Q_ik - K_jk|, as ‖·‖ says. A larger difference gets a larger weight, because the layer is to
    "pay attention to dissimilar parts".

    Args: q, k: (B, H, L, k). Returns: (B, H, L, L), float32 or wider.
    """
    return l1_distances(q, k)  # (B, H, L, L)


def difference_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout=0.0,
                         difference_scores=difference_scores) -> Tensor:
    """Attention to what differs.  DABERT Eqs. (2), (3): D = softmax(β / √d_k) V,   β = ‖Q - K‖ + M

    Departs: the page adds M ∈ R^{d_l×d_l}, whose values it does not give, before the division by
    √d_k. A finite M lets masked keys through if scores are large or a row has no other key. We
    apply the mask when the score is complete.
    Assumes: dropout on the weights, as in plain attention. The "cross-attention" looks at all
    tokens of the packed pair, also of the query's own sentence. "Each channel uses a different
    attention head" (section 2): here both channels are in every head, and share its Q, K and V.

    Args: q, k, v: (B, H, L, k). mask: bool (B, L). dropout: probability. difference_scores: (4).
    Returns: (B, H, L, k). The weights (B, H, L, L) are noted as "difference".
    """
    beta = difference_scores(q, k)  # (B, H, L, L)
    weights = attention_weights(beta / q.shape[-1] ** 0.5, mask)  # (B, H, L, L)
    note(difference=weights)
    return F.dropout(weights, dropout).to(v.dtype) @ v  # (B, H, L, k)


class DabertAttention(FusionAttention):
    """Dual attention, affinity and difference, and its adaptive fusion: DABERT Eqs. (1)-(7).

    without, the paper's Table 5: "affinity" or "difference": the other signal takes its place;
    "guide": d* = d, a* = a; "gate-fusion": g is one half; "gate-filter": f is one; "regulation",
    "the overall aggregation and Regulation module": the average of the two signals.
    Assumes: Table 5's models without one attention keep the fusion, because their numbers are not
    plain BERT's. The second guide of Eq. (5) is d̄, as in its formula; its text says d*.
    """

    difference_scores = staticmethod(difference_scores)
    difference_attention = staticmethod(difference_attention)
    joined_signal = staticmethod(joined_signal)

    PRINTED = printed.DABERT
    ABLATIONS = frozenset({"affinity", "difference", "guide", "gate-fusion", "gate-filter",
                           "regulation"})

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
            self.w_d, self.w_abar = self.score_map(A), self.score_map(A)
            self.W_dstar, self.W_astar = linear(2 * d, d), linear(2 * d, d)
        self.W_dhat, self.W_ahat, self.W_l = linear(d, d), linear(d, d), linear(d, d)
        self.add_gates(d, "gate-fusion" in self.without, "gate-filter" in self.without)

    def second(self, hidden, q, k, v, mask, bias):
        return self.difference_attention(q, k, v, mask, self.dropping, self.difference_scores)

    def fuse(self, a, d, mask):
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
            d_bar, by_a = self.guided_attention(d, a, mask, self.W_D, self.W_a, self.w_d)
            # ā_i = A softmax(w_ā γ_i),   γ_i = tanh(W_A A + W_d̄ d̄_i)
            a_bar, by_d = self.guided_attention(a, d_bar, mask, self.W_A, self.W_dbar, self.w_abar)
            # d*_i = tanh(W_d* (d_i ⊕ d̄_i)),   a*_i = tanh(W_a* (a_i ⊕ ā_i))
            d_star = self.joined_signal(d, d_bar, self.W_dstar)
            a_star = self.joined_signal(a, a_bar, self.W_astar)
            note(affinity_guided=by_a, difference_guided=by_d)
        # v_i = g_i â_i + (1 - g_i) d̂_i,   g_i = σ(W_g (d̂_i ⊕ â_i))                     Eq. (6)
        v, g = self.gated_fusion(a_star, d_star, self.W_ahat, self.W_dhat, self.W_g)
        # a_i + f_i tanh(W_l v_i),   f_i = σ(W_f (a_i ⊕ W_v v_i))                       Eq. (7)
        out, f = self.filtration_gate(a, v, self.W_v, self.W_l, self.W_f)
        note(g=g, f=f)
        return out


# ---- DAFA ---------------------------------------------------------------------------------------

def dependency_factor(M_F: Tensor) -> tuple[Tensor, float]:
    """What calibrated_attention takes of M_F: ln M̃ of each two words, and its value elsewhere.
    DAFA Eq. (6), "we change the dimension of M_F by adding 1": M̃ = 1 + M_F

    Assumes: "adding 1", which could also mean one more axis, means this sum. Words without any
    agreement then have the factor 1; as printed, their score becomes 0.

    Args: M_F: (B, n, m). Returns: (B, n, m), and the number elsewhere.
    """
    return M_F.log1p(), 0.0


class DafaAttention(FusionAttention):
    """Dependency-enhanced adaptive fusion attention: DAFA Eqs. (6)-(9).

    without, the paper's Table 8: "tree", "subgraph", "tfidf" (in priors.py); "cross-attention":
    d* = d, s* = s; "gates": g is one half, f is one; "fusion": the average of the two signals. For
    Fig. 4, one of the gates: "gate-fusion", "gate-filter". Ours: "root" (in priors.py).
    """

    subgraph_similarity = staticmethod(subgraph_similarity)    # Eq. (4), from priors
    factor = staticmethod(dependency_factor)
    calibrated_attention = staticmethod(calibrated_attention)

    PRINTED = printed.DAFA
    ABLATIONS = DependencyPrior.PARTS | {"cross-attention", "gates", "gate-fusion", "gate-filter",
                                         "fusion"}

    @classmethod
    def prior(cls, printed, without):
        """M_F, Eqs. (1)-(5)."""
        forms = printed_forms(cls, printed)
        return DependencyPrior(without, forms.get("subgraph_similarity", cls.subgraph_similarity))

    def add_weights(self, d, A):
        """The paper's weights, for signals d wide, except weights that `without` makes unused."""
        if "fusion" in self.without:
            return
        if "cross-attention" not in self.without:
            self.W_D, self.W_s = linear(d, A, bias=False), linear(d, A)
            self.W_S, self.W_dstar = linear(d, A, bias=False), linear(d, A)
            self.w_d, self.w_sstar = self.score_map(A), self.score_map(A)
        self.W_dhat, self.W_shat, self.W_l = linear(d, d), linear(d, d), linear(d, d)
        self.add_gates(d, bool({"gates", "gate-fusion"} & self.without),
                       bool({"gates", "gate-filter"} & self.without))

    def neutral(self, prior):
        """A prior that changes nothing: M_F = 0; as printed, Eq. (6), M_F = 1."""
        return torch.full_like(prior, self.factor(prior)[1])

    def spread(self, prior, word_index, segment):
        """What calibrated_attention takes, (B, L, L), from M_F (B, n, m)."""
        factor, elsewhere = self.factor(prior)
        return spread_prior(factor, word_index, segment, elsewhere)  # (B, L, L)

    def second(self, hidden, q, k, v, mask, bias):
        """Dep of Eq. (6)."""
        return self.calibrated_attention(q, k, v, mask, bias, self.dropping)  # (B, H, L, k)

    def fuse(self, s, d, mask):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (7)-(9) on (B, L, d)."""
        if "fusion" in self.without:
            return (s + d) / 2
        d_star, s_star = d, s
        if "cross-attention" not in self.without:
            # d*_i = Dep softmax(w_d δ_i),   δ_i = tanh(W_D Dep + W_s s_i)               Eq. (7)
            d_star, by_s = self.guided_attention(d, s, mask, self.W_D, self.W_s, self.w_d)
            # s*_i = Sem softmax(w_s* γ_i),  γ_i = tanh(W_S Sem + W_d* d*_i)
            s_star, by_d = self.guided_attention(s, d_star, mask, self.W_S, self.W_dstar,
                                                 self.w_sstar)
            note(semantic_guided=by_s, dependency_guided=by_d)
        # v_i = g_i ŝ_i + (1 - g_i) d̂_i,   g_i = σ(W_g (d̂_i ⊕ ŝ_i))                     Eq. (8)
        v, g = self.gated_fusion(s_star, d_star, self.W_shat, self.W_dhat, self.W_g)
        # s_i + f_i tanh(W_l v_i),   f_i = σ(W_f (s_i ⊕ W_v v_i))                       Eq. (9)
        out, f = self.filtration_gate(s, v, self.W_v, self.W_l, self.W_f)
        note(g=g, f=f)
        return out


# ---- External knowledge -------------------------------------------------------------------------

def relation_indicator(relations: Tensor) -> Tensor:
    """I(k_ij) = 1 if k_ij indicates any relevant relation, else 0.  Knowledge Eq. (2)

    An antonym counts like a synonym.
    Departs: the paper's own example, "wheat" and "corn", is in none of its four relations. The two
    are co-hyponyms, words with one hypernym, our fifth relation.

    Args: relations: bool (B, n, m, R), in the order of priors.RELATIONS. Returns: bool (B, n, m).
    """
    return relations.any(-1)  # (B, n, m)


def knowledge_scores(hidden: Tensor, bias: Tensor) -> Tensor:
    """s_ij = h_iᵀ h_j + G(k_ij),   G(k_ij) = γ I(k_ij)   Knowledge Eq. (1)

    Departs: raw products of hidden states saturate the softmax of Eqs. (3), (4), so that a relation
    changes next to nothing. We divide the products by √d, as attention does.

    Args: hidden: (B, L, d). bias: G (B, L, L), -inf except between words of different sentences.
    Returns: (B, L, L), float32 or wider, -inf where G is.
    """
    return dot_products(hidden) / hidden.shape[-1] ** 0.5 + bias  # (B, L, L)


def co_attention(hidden: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Each token's attention over the words of the other sentence.  Knowledge Eqs. (3), (4)

        ω^A_ij = exp(s_ij) / Σ_p exp(s_ip),   c^A_i = Σ_j ω^A_ij h^B_j
        ω^B_ij = exp(s_ij) / Σ_p exp(s_pj),   c^B_j = Σ_i ω^B_ij h^A_i,    K_prior = (ω^A + ω^B) / 2

    The pair is packed and s is symmetric, so one softmax over rows computes both: row i of sentence
    a is ω^A_i, row j of b is ω^B_·j. We return logarithms, because small weights would underflow.
    Assumes: c^A, c^B are to be seen alone; the paper never uses them again.

    Args: hidden: (B, L, d). scores: (B, L, L) from knowledge_scores.
    Returns: ln K_prior (B, L, L), -inf where scores are; c (B, L, d), 0 without a partner.
    """
    cross = scores > -math.inf  # (B, L, L)
    ln_omega = scores.masked_fill(~cross, torch.finfo(scores.dtype).min).log_softmax(-1)
    context = ln_omega.exp().masked_fill(~cross, 0.0).to(hidden.dtype) @ hidden  # (B, L, d)
    ln_K = torch.logaddexp(ln_omega, ln_omega.transpose(1, 2)) - math.log(2)  # (B, L, L)
    return ln_K.masked_fill(~cross, -math.inf), context


def knowledge_factor(ln_K: Tensor, cross: Tensor) -> Tensor:
    """ln K̃, which calibrated_attention takes: K̃ is K_prior over its mean.  Knowledge Eq. (5)

    Departs: the mean of K_prior over n and m tokens of words is (1/n + 1/m)/2, far below 1, so that
    Eq. (5) as printed shrinks all scores between the sentences towards 0. Divided by its mean over
    the cross block, what is above the mean is above 1.

    Args: ln_K: (B, L, L). cross: bool (B, L, L), True between words of different sentences.
    Returns: (B, L, L), 0 outside the cross blocks. K̃ is noted as "prior".
    """
    mean = ln_K.exp().sum((1, 2)) / cross.sum((1, 2)).clamp(min=1)  # (B,)
    ln_K = torch.where(cross, ln_K - mean.clamp(min=1e-30).log()[:, None, None], 0.0)  # (B, L, L)
    note(prior=ln_K.exp())
    return ln_K


class KnowledgeAttention(FusionAttention):
    """Attention calibrated by lexical knowledge, and its adaptive fusion: Knowledge Eqs. (1)-(8).

    Assumes: the "contextualized hidden states" H are those that enter the layer. This paper names
    no layer; in the first, our default, H is the embeddings, not contextualized yet. Special tokens
    take no part. The paper gives no value of γ, our `gamma`. The page has m words in a and n in b;
    here, as in DAFA, a has n.
    without: "fusion": the average of the two signals, the paper's "Ours-avg". Ours: "prior": γ = 0,
    no relation counts; "guide": ô = o; "gates": g is one half, f is one; "tags": relations of any
    part of speech, and no parser.
    Noted besides: "prior" (B, L, L) is K̃, as printed K_prior, 1 outside the cross blocks;
    "context" (B, L, d), c^A and c^B.
    """

    knowledge_scores = staticmethod(knowledge_scores)
    relation_indicator = staticmethod(relation_indicator)
    co_attention = staticmethod(co_attention)
    factor = staticmethod(knowledge_factor)
    calibrated_attention = staticmethod(calibrated_attention)

    PRINTED = printed.KNOWLEDGE
    ABLATIONS = frozenset({"fusion", "prior", "guide", "gates", "tags"})   # tags: in priors

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
            self.w_zknw, self.w_zsem = self.score_map(A), self.score_map(A)
        self.W_otildeknw, self.W_otildesem, self.W_y = linear(d, d), linear(d, d), linear(d, d)
        self.W_gfuse, self.W_gfilter = Constant(0.0), Constant(math.inf)
        if "gates" not in self.without:
            self.W_gfuse, self.W_gfilter = linear(2 * d, 1), linear(2 * d, 1)

    def spread(self, prior, word_index, segment):
        """G(k_ij) (B, L, L), Eq. (1), of k_ij (B, n, m, R); -inf outside the cross blocks."""
        G = self.gamma * self.relation_indicator(prior).float()  # (B, n, m)
        return spread_prior(G, word_index, segment, -math.inf)  # (B, L, L)

    def second(self, hidden, q, k, v, mask, bias):
        """O_knw of Eq. (5). bias: G (B, L, L)."""
        ln_K, context = self.co_attention(hidden, self.knowledge_scores(hidden, bias))
        note(context=context)
        K = self.factor(ln_K, bias > -math.inf)  # (B, L, L)
        return self.calibrated_attention(q, k, v, mask, K, self.dropping)  # (B, H, L, k)

    def fuse(self, o_sem, o_knw, mask):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (6)-(8) on (B, L, d)."""
        if "fusion" in self.without:
            return (o_sem + o_knw) / 2
        hat_sem, hat_knw = o_sem, o_knw
        if "guide" not in self.without:
            # ô^knw_i = O_knw softmax(w_z z_i),   z_i = tanh(W O_knw + W o^sem_i)        Eq. (6)
            hat_knw, by_sem = self.guided_attention(o_knw, o_sem, mask, self.W_Oknw, self.W_osem,
                                                    self.w_zknw)
            # ô^sem_i = O_sem softmax(w_z z_i),   z_i = tanh(W O_sem + W ô^knw_i)
            hat_sem, by_knw = self.guided_attention(o_sem, hat_knw, mask, self.W_Osem,
                                                    self.W_ohatknw, self.w_zsem)
            note(semantic_guided=by_sem, knowledge_guided=by_knw)
        # u_i = g_i õ^sem_i + (1 - g_i) õ^knw_i,   g_i = σ(W_g (õ^knw_i ⊕ õ^sem_i))     Eq. (7)
        u, g = self.gated_fusion(hat_sem, hat_knw, self.W_otildesem, self.W_otildeknw, self.W_gfuse)
        # o^sem_i + f_i tanh(W_y u_i),   f_i = σ(W_f (o^sem_i ⊕ u_i))                   Eq. (8)
        out, f = self.filtration_gate(o_sem, u, nn.Identity(), self.W_y, self.W_gfilter)
        note(g=g, f=f)
        return out


# ---- Equal words: nobody's paper ----------------------------------------------------------------

def mean_attention_factor(scores: Tensor) -> Tensor:
    """ln K̃ (B, L, L), 0 outside the cross blocks. scores: (B, L, L), symmetric, -inf outside.

        K = the mean of softmax(scores) over rows and over columns,   K̃ = K / its mean

    As in Knowledge, (3) to (5); without logarithms, because these scores are small numbers.
    """
    cross = scores.isfinite()  # (B, L, L)
    over_row = scores.masked_fill(~cross, -1e4).softmax(-1) * cross  # (B, L, L)
    K = (over_row + over_row.transpose(1, 2)) / 2  # (B, L, L)
    mean = K.sum((1, 2), keepdim=True) / cross.sum((1, 2), keepdim=True).clamp(min=1)
    return torch.where(cross, K / mean, 1.0).log()  # (B, L, L)


class AlignedAttention(SelfAttention):
    """In some of the heads a word looks at its copy in the other sentence. No paper has it.

        weights ∝ K̃ exp(QKᵀ / √k),  K̃ = mean_attention_factor(sharpness · prior) across sentences

    It adds no weight, needs no parser, and asks how much of a gain is due to equal words alone. A
    subclass may name another `prior`: DAFA's trees, a function of your own.

    Args: sharpness: of two equal words. share: of the heads that look so, the first ones.
    """

    LAYERS = "all"
    prior = words_prior(equal_words)
    factor = staticmethod(mean_attention_factor)
    calibrated_attention = staticmethod(calibrated_attention)

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, sharpness=8.0,
                 share=0.5):
        super().__init__(config)
        check_options(type(self), printed, without)
        self.sharpness, self.aligned = sharpness, round(share * self.heads)

    def spread(self, prior, word_index, segment):
        """What is added to the scores (B, H, L, L): ln K̃, in the other heads 0."""
        scores = spread_prior(self.sharpness * prior, word_index, segment, -math.inf)  # (B, L, L)
        aligned = torch.arange(self.heads, device=scores.device) < self.aligned  # (H,)
        return self.factor(scores)[:, None] * aligned[:, None, None]  # (B, H, L, L)

    def attend(self, hidden, q, k, v, mask, bias):
        """What goes on from this layer's attention, (B, L, d)."""
        if looked_at():
            super().attend(hidden, q, k, v, mask, None)     # plain attention is shown, too
        mixed = self.calibrated_attention(q, k, v, mask, bias, self.dropping)
        return merge_heads(mixed)  # (B, L, d)


# ---- Whole model --------------------------------------------------------------------------------

class Matcher(nn.Module):
    """An encoder with a method in chosen layers, and a classifier on the pooled [CLS].

    Args: method: the attention class; SelfAttention is the plain encoder. config: BertConfig.
        classes: outputs; 1 for a regression. layers: those that carry the method, "first", "all",
        or a tuple of indices; None: the method's LAYERS. options: the attention class's arguments
        besides config.
    Raises: ValueError for a layer that the encoder lacks: without its method, it would be plain.
    """

    def __init__(self, method: type[SelfAttention], config: BertConfig, classes: int,
                 layers: str | tuple[int, ...] | None = None, **options):
        super().__init__()
        if layers is None:
            layers = method.LAYERS
        every = range(config.num_layers)
        layers = {"first": (0,), "all": tuple(every)}.get(layers, layers)
        if not layers or not set(layers) <= set(every):
            raise ValueError(f"layers {', '.join(map(str, layers)) or 'none'}: expected first, all,"
                             f" or some of 0 to {config.num_layers - 1}, this encoder's")
        self.bert = Bert(config, lambda layer: method(config, **options) if layer in layers
                         else SelfAttention(config))
        self.carrier = min(layers) if hasattr(method, "spread") else None
        used = "prior" not in options.get("without", ())
        self.has_prior = used and prior_of(method, options) is not None
        names = self.bert.layers[layers[0]].attention.state_dict()
        # Without weights of the method's own, all layers would make the same of a prior.
        self.one_spread = all(name.startswith(("query.", "key.", "value.")) for name in names)
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
        """dict name -> Change for support.influence: no prior; no method, but plain attention with
        the trained weights.
        """
        def neutral(batch):
            carrier = self.bert.layers[self.carrier].attention
            return batch | {"prior": carrier.neutral(batch["prior"])}

        def plain(attention, inputs, output):
            return attention.plain(*inputs)

        changes = {}
        if self.has_prior:
            changes["no prior"] = Change(neutral)
        if carriers := self.carriers():
            changes["no method"] = Change(outputs=dict.fromkeys(carriers.values(), plain))
        return changes

    def forward(self, input_ids: Tensor, segment: Tensor, mask: Tensor,
                word_index: Tensor | None = None, prior: Tensor | None = None) -> Tensor:
        """Logits (B, C) of a batch of packed pairs.

        Args: input_ids, segment, word_index: int64 (B, L). mask: bool (B, L), True = real token.
            prior: (B, n, m) or (B, n, m, R), for a method with a prior.
        """
        biases = None if self.carrier is None else self.spread(prior, word_index, segment)
        _, pooled = self.bert(input_ids, segment, mask, biases)
        return full_precision(self.classifier, self.dropout(pooled))  # (B, C)

    def spread(self, *known):
        """dict layer -> what its attention's own `spread` makes of the prior. Where the method has
        no weights, all layers would make the same: the first one's serves all.
        """
        carriers = self.carriers()
        if self.one_spread:
            return dict.fromkeys(carriers, carriers[self.carrier].spread(*known))
        return {i: carrier.spread(*known) for i, carrier in carriers.items()}
