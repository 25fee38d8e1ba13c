"""The papers, equation by equation: each numbered equation is a function, each method an attention class.

Papers
    DABERT     Wang et al., "DABERT: Dual Attention Enhanced BERT for Semantic Matching", COLING 2022. Eqs. (1)-(7).
    DAFA       Song et al., "Improving Semantic Matching through Dependency-Enhanced Pre-trained Model with Adaptive
               Fusion", Findings of EMNLP 2022. Eqs. (1)-(5) build the prior and live in priors.py; (6)-(9) are here.
    Knowledge  Li and Yuan, "Using External Knowledge to Enhanced PLM for Semantic Matching". Eqs. (1)-(8); (9) is part
               of its training and lives in train.py, the relations k_ij in priors.py.
    DRr-Net    Zhang et al., "DRr-Net: Dynamic Re-Read Network for Sentence Semantic Matching", AAAI 2019, as retold in
    LadRa-Net  Zhang et al., "LadRa-Net: Locally Aware Dynamic Reread Attention Net for Sentence Semantic Matching",
               IEEE TNNLS 2021: DRr-Net is its section IV, Eqs. (1)-(8), LadRa-Net its section V, Eqs. (9)-(15).

How to read this file
    A method is a subclass of bert_min.SelfAttention that overrides `attend`: queries, keys and values are projected
    by the pre-trained weights, the paper's equations follow, and what comes out replaces the plain attention output
    before the layer's output projection. Equations that papers share stand first, once, and cite each of them; what
    the three fusion papers have in common, and what each changes, is the table in FusionAttention. DRr-Net and LadRa-Net
    are models of their own, at the end.

    Every equation is computed as its text intends. `printed={6, 7}` computes those numbers as typeset, so that a
    reader can watch what that does; the docstrings say under `Departs:` what differs and under `Assumes:` what the
    paper leaves open. `without={"gates"}` removes a part, as the papers' ablation tables do.

Names (ours | DABERT | DAFA | Knowledge)
    sem | A, a_i | Sem, s_i | O_sem, o_i^sem                 v | v_i | v_i | u_i
    other | D, d_i | Dep, d_i | O_knw, o_i^knw               g | g_i | g_i | g_i^fuse
    prior | - | M_F (n, m) | k_ij (n, m, R)                  f | f_i | f_i | g_i^filter
    spread prior | - | ln M̃ (L, L) | G(k_ij) (L, L)          attention_size | d_l | d_seq | d_attn

Left out: what trains the models (train.py), what the pairs are (tasks.py), parsing, word weights, WordNet (priors.py).
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from bert_min import Bert, SelfAttention, attention_weights, linear, merge_heads, split_heads

# Axes: B batch, L tokens of the packed pair, d width of a signal or state, H heads, k head size, A attention size,
# n words of a (of either sentence in DRr-Net), m words of b, c characters of a word, R relations, T reading steps,
# E encodings of the pair (h⁰ and the phrase CNNs'), N encoder layers, C classes


# ---- Equations that papers share ------------------------------------------------------------------------------------

# Numbers in a block: 2 MB, about the caches of two cores, and few enough blocks that threads, which wait for each other
# after each, do not wait often; 256 MB.
BLOCK = {"cpu": 2 ** 19, "cuda": 2 ** 26}


def pair_blocks(keys, queries):
    """Walks over all pairs of a query and a key in blocks of at most BLOCK numbers (one query's row if that is more).

    keys, queries (B, L, A) -> one after the other: slices of sentences and of query rows, and views whose sum,
    product or difference is the block (sentences, rows, L, A).
    """
    size, row = BLOCK.get(keys.device.type, 2 ** 22), max(1, keys[0].numel())
    many, rows = max(1, size // (row * queries.shape[1])), max(1, size // row)
    for b in (slice(i, i + many) for i in range(0, len(keys), many)):
        for i in (slice(i, i + rows) for i in range(0, queries.shape[1], rows)):
            yield b, i, keys[b, None], queries[b, i, None]


class AdditiveScores(torch.autograd.Function):
    """score_ij = wᵀ tanh(keys_j + queries_i): the additive attention of Bahdanau et al. (2015).

    Written out, tanh(keys_j + queries_i) is a tensor of B·L·L·A numbers, and autograd would keep it for the backward
    pass. Here both passes walk over pairs of tokens block by block; the backward pass computes its blocks again.
    Memory: B·L·L scores and one block, so it grows with L², never with L²·A. Nor does a block need an exponential for
    each of its numbers, because

        r_ij = 1 / (1 + e^(2 keys_j) e^(2 queries_i)),   tanh(keys_j + queries_i) = 1 - 2 r_ij,   tanh' = 4 (r - r²)
        ∂w = Σ_ij e_ij (1 - 2 r),   ∂queries_i = w Σ_j e_ij 4 (r - r²),   ∂keys_j = w Σ_i e_ij 4 (r - r²)

    with e the incoming gradient. That takes parts whose e^(2x) is a finite number; with larger ones, and on a GPU,
    where asking for the largest would make the CPU wait, r is the sigmoid of -2 (keys_j + queries_i) itself.

    Args: keys (B, L, A), queries (B, L, A), w (A,), float32 or float64. Returns: (B, L, L), row i is queries_i's.
    """

    @staticmethod
    def blocks(keys, queries, split):
        """pair_blocks with r for the views. split: keys and queries are the exponentials already."""
        for b, i, k, q in pair_blocks(keys, queries):
            yield b, i, (torch.addcmul(k.new_ones(()), k, q).reciprocal_() if split else
                         (k + q).mul_(-2).sigmoid_())

    @staticmethod
    def forward(ctx, keys, queries, w):
        with torch.autocast(keys.device.type, enabled=False):
            limit = 43.0 if keys.dtype == torch.float32 else 350.0
            ctx.split = keys.device.type == "cpu" and all(x.abs().amax() < limit for x in (keys, queries) if x.numel())
            if ctx.split:
                keys, queries = (2 * keys).exp(), (2 * queries).exp()
            ctx.save_for_backward(keys, queries, w)
            scores = keys.new_empty(*queries.shape[:2], keys.shape[1])  # (B, L, L)
            for b, i, r in AdditiveScores.blocks(keys, queries, ctx.split):
                scores[b, i] = r @ w
            return w.sum() - 2 * scores  # (B, L, L)

    @staticmethod
    @once_differentiable
    def backward(ctx, e):
        keys, queries, w = ctx.saved_tensors
        d_keys, d_queries, d_w = torch.zeros_like(keys), torch.empty_like(queries), e.sum().expand_as(w).clone()
        for b, i, r in AdditiveScores.blocks(keys, queries, ctx.split):
            d_w -= 2 * (e[b, i].flatten() @ r.flatten(0, 2))
            slope = r.addcmul_(r, r, value=-1).mul_(e[b, i, :, None])
            d_queries[b, i] = slope.sum(2)
            d_keys[b] += slope.sum(1)
        return d_keys.mul_(4 * w), d_queries.mul_(4 * w), d_w


class DifferenceScores(torch.autograd.Function):
    """score_ij = Σ_k |queries_ik - keys_jk|: the L1 distance of each query and key, for DABERT Eq. (4).

    As AdditiveScores, in blocks both ways, so memory grows with L², never with L²·k. (torch.cdist is no faster, and on
    a GPU its backward pass needs L²·k numbers.)
    Args: keys, queries (B, L, k), float32 or float64. Returns: (B, L, L), row i is queries_i's.
    """

    @staticmethod
    def forward(ctx, keys, queries):
        ctx.save_for_backward(keys, queries)
        scores = keys.new_empty(*queries.shape[:2], keys.shape[1])  # (B, L, L)
        for b, i, k, q in pair_blocks(keys, queries):
            scores[b, i] = (q - k).abs_().sum(-1)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx, e):
        keys, queries = ctx.saved_tensors
        d_keys, d_queries = torch.zeros_like(keys), torch.empty_like(queries)
        for b, i, k, q in pair_blocks(keys, queries):
            slope = (q - k).sign_().mul_(e[b, i, :, None])
            d_queries[b, i] = slope.sum(2)
            d_keys[b] -= slope.sum(1)
        return d_keys, d_queries


def guided_attention(values, guide, mask, W_values, W_guide, w, printed=False):
    """Each guide vector attends over all values and replaces the value at its place.
    DABERT Eq. (5), first four lines; DAFA Eq. (7); Knowledge Eq. (6). Either half; in DAFA's letters:

        δ_i = tanh(W_D Dep ⊕ (W_s s_i + b_s)),      d*_i = Dep softmax(w_d δ_i + b_d)        ⊕ is concatenation
        γ_i = tanh(W_S Sem ⊕ (W_d* d*_i + b_d*)),   s*_i = Sem softmax(w_s* γ_i + b_s*)

    Bridge: in the first line values = Dep, guide = Sem, W_values = W_D, W_guide = W_s; in the second values = Sem,
    guide = d*, W_values = W_S, W_guide = W_d*. DABERT writes d̄, ā for d*, s*; Knowledge ô^knw, ô^sem.

    Departs: after ⊕ and tanh the score is a sum, w₁ tanh(W_D d_j) + (w₂ tanh(W_s s_i + b_s) + b). The bracket is the
    same number for every j and cancels in the softmax: the guide has no influence and all rows of d* are equal. We
    compute the additive score wᵀ tanh(W_D d_j + W_s s_i + b_s), in which guide and value meet before tanh; b, which
    cancels as well, is dropped. `printed` computes the page.
    Knowledge's own note reads ⊕ as "concatenation then linear layer", which is this sum; its w ∈ R^d_attn has half the
    size that the stack on the page needs.
    Assumes: W_D ∈ R^(d_seq × d_v) ties the page's attention width to the sequence length; ours is `attention_size`.
    The weights' index i does not mean weights of their own for every token. No dropout here.

    Args:
        values, guide: (B, L, d). mask: bool (B, L), True = real token.
        W_values: Linear d → A without bias. W_guide: Linear d → A. w: Linear A → 1 without bias; with `printed`
            Linear 2A → 1 with bias.
    Returns:
        the attended values (B, L, d) and the weights (B, L, L): row i is token i's guide, masked keys exactly 0.
    """
    keys, queries = W_values(values), W_guide(guide)
    if printed:
        w_keys, w_queries = w.weight[0].chunk(2)
        scores = (keys.tanh() @ w_keys)[:, None] + ((queries.tanh() @ w_queries) + w.bias)[..., None]  # (B, L, L)
    else:
        wide = torch.promote_types(keys.dtype, torch.float32)     # differences between rows vanish in bfloat16
        scores = AdditiveScores.apply(keys.to(wide), queries.to(wide), w.weight[0].to(wide))  # (B, L, L)
    weights = attention_weights(scores, mask[:, None])
    return weights.to(values.dtype) @ values, weights


def gated_fusion(sem, other, W_sem, W_other, W_g=None):
    """One gate per token mixes the two signals.  DABERT Eq. (6), DAFA Eq. (8), Knowledge Eq. (7). In DAFA's letters:

        d̂_i = tanh(W_d d*_i + b_d),  ŝ_i = tanh(W_s s*_i + b_s),  g_i = σ(W_g (d̂_i ⊕ ŝ_i)),
        v_i = g_i ŝ_i + (1 - g_i) d̂_i

    Assumes: W has no weights of its own for each token i; d_hid is the signal's size d. Knowledge's W_g has a bias.
    Without W_g the gate is one half, the plain mean: "we only integrate two signals by simple averaging" (DABERT §
    4.3), and our reading of "w/o gate mechanism" (DAFA Table 8).

    Args: sem, other: (B, L, d), s* and d*. W_sem, W_other: Linear d → d. W_g: Linear 2d → 1, or None.
    Returns: v (B, L, d), between ŝ and d̂ in every coordinate, and the gate g (B, L, 1) in (0, 1).
    """
    d_hat, s_hat = W_other(other).tanh(), W_sem(sem).tanh()
    g = W_g(torch.cat([d_hat, s_hat], -1)).sigmoid() if W_g is not None else d_hat.new_full((*sem.shape[:2], 1), 0.5)
    return g * s_hat + (1 - g) * d_hat, g


def filtration_gate(sem, v, W_v, W_l, W_f=None, printed=False):
    """Lets the fused signal in, or filters it out.  DABERT Eq. (7), DAFA Eq. (9), Knowledge Eq. (8). In DAFA's letters:

        f_i = σ(W_f (s_i ⊕ (W_v v_i + b_v))),   l_i = f_i tanh(W_l v_i + b_l)

    Knowledge has no W_v, a bias in f, and writes u for v, y for l.
    Departs: on the page l_i replaces s_i, although the gate "will incorporate the fusion features and the original
    features", "otherwise, the fusion information will be filtered out" (DABERT, DAFA): with f near 0 the page filters
    out everything. Knowledge says y "replaces the standard output", but its case study lets "the base PLM's semantic
    understanding" prevail where the gate is low, "although Equation 8 only shows scaling". We return s_i + l_i;
    `printed` returns l_i alone.
    Assumes: as in gated_fusion. Without W_f the gate is one.

    Args: sem, v: (B, L, d). W_v: Linear d → d, or None: v itself. W_l: Linear d → d. W_f: Linear 2d → 1, or None.
    Returns: the layer's signal (B, L, d) and the gate f (B, L, 1) in (0, 1).
    """
    of_v = W_v(v) if W_v is not None else v  # (B, L, d)
    f = W_f(torch.cat([sem, of_v], -1)).sigmoid() if W_f is not None else v.new_ones(*v.shape[:2], 1)
    l = f * W_l(v).tanh()  # (B, L, d)
    return (l if printed else sem + l), f


def spread_prior(prior, word_index, segment, elsewhere):
    """A matrix over words becomes a matrix over tokens.

    "We change the dimension of M_F by adding 1, and ensure each element is in the corresponding position in the
    sentence alignment" (DAFA § 2.2); "reshaped appropriately to match" (Knowledge § 3.3).
    Assumes: each piece of a word has its word's value; both cross blocks are filled, a × b and, transposed, b × a;
    special tokens, padding and pairs inside one sentence get the value `elsewhere`.

                [CLS] a  a  [SEP] b  b  [SEP]
        [CLS]     ·   ·  ·    ·   ·  ·    ·        · elsewhere
        a         ·   ·  ·    ·   P  P    ·        P prior[i, j]
        [SEP]     ·   ·  ·    ·   ·  ·    ·
        b         ·   Pᵀ Pᵀ   ·   ·  ·    ·

    Args:
        prior: (B, n, m); n or m may be 0. word_index: int64 (B, L), each piece's word in its own sentence, -1 where
            there is none.
        segment: int64 (B, L), 0 in sentence a, 1 in sentence b.
    Returns: (B, L, L), symmetric, on prior's device.
    """
    prior = F.pad(prior, (0, int(not prior.shape[2]), 0, int(not prior.shape[1])))     # a sentence without words
    batch = torch.arange(len(prior), device=prior.device)[:, None, None]
    i = word_index.clamp(0, prior.shape[1] - 1)
    j = word_index.clamp(0, prior.shape[2] - 1)
    in_a, in_b = (word_index >= 0) & (segment == 0), (word_index >= 0) & (segment == 1)
    values = prior[batch, i[:, :, None], j[:, None, :]]  # (B, L, L)
    block = torch.where(in_a[:, :, None] & in_b[:, None, :], values, elsewhere)  # (B, L, L)
    transposed = in_b[:, :, None] & in_a[:, None, :]
    return torch.where(transposed, values.transpose(1, 2), block)  # (B, L, L)


def calibrated_attention(q, k, v, prior, mask, dropout=0.0, printed=False, trace=None):
    """Attention whose weights are calibrated by a prior.  DAFA Eq. (6) and Knowledge Eq. (5), last line of each.

        Dep = softmax((QKᵀ ⊙ M_F) / √d_k) V,    O_knw = softmax((QKᵀ ⊙ K_prior) / √d_k) V

    Departs: a product turns a *negative* q·k with a high prior into a lower weight, the opposite of "strengthening
    the attention weight of same dependency". We multiply the weights, not the scores: weight_ij ∝ M̃_ij exp(q_i·k_j /
    √d_k), which is softmax(QKᵀ/√d_k + ln M̃). A larger entry never lowers its own weight, and M̃ = 1 everywhere is
    plain attention. `printed` multiplies the scores.

    Args:
        q, k, v: (B, H, L, k). mask: bool (B, L). dropout: probability on the weights.
        prior: (B, L, L), ln M̃, 0 outside the cross blocks; with `printed`, M_F itself and 1 outside.
    Returns: (B, H, L, k). trace, if given, gets "calibrated", the weights (B, H, L, L).
    """
    if not printed and trace is None:
        bias = prior.masked_fill(~mask[:, None], float("-inf"))  # (B, L, L)
        return F.scaled_dot_product_attention(q, k, v, bias[:, None].to(q.dtype), dropout_p=dropout)  # (B, H, L, k)
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5  # (B, H, L, L)
    scores = scores * prior[:, None] if printed else scores + prior[:, None]
    weights = attention_weights(scores, mask)
    record(trace, calibrated=weights)
    return F.dropout(weights, dropout).to(v.dtype) @ v


# ---- What the fusion papers share -----------------------------------------------------------------------------------

def check_options(method, printed, without, scope="hidden"):
    """ValueError, worded for the command line, unless an attention class knows these equations and ablations."""
    for option, given, known in (("printed", printed, method.PRINTED), ("without", without, method.ABLATIONS),
                                 ("scope", {scope}, {"hidden", "head"})):
        if unknown := set(given) - known:
            name = method.__name__.removesuffix("Attention").lower()
            raise ValueError(f"--{option} {', '.join(map(str, unknown))}: {name} knows "
                             f"{', '.join(map(str, sorted(known))) or 'none'}")


def check_sizes(method, sizes):
    """The same dict, or a ValueError, worded for the command line, unless each is a size of this class, of its type and
    above 0: numbers of its table, written there in capital letters, as STEPS=5 or KERNELS=(2, 3)."""
    known = {name: value for name, value in vars(method).items() if name.isupper() and isinstance(value, (int, float, tuple))
             and name != "TAGS"}                            # the tagger's, not ours to choose
    for name, value in sizes.items():
        numbers = value if isinstance(value, tuple) else (value,)
        if name not in known or type(value) is not type(known[name]) or not numbers or min(numbers) <= 0:
            raise ValueError(f"--sizes {name}={value}: {method.__name__.lower()} has "
                             f"{', '.join(f'{name}={value}' for name, value in known.items())}")
    return sizes


def record(trace, **tensors):
    """Puts tensors into a trace, cut off from their graph; does nothing without one."""
    if trace is not None:
        trace.update((name, x.detach()) for name, x in tensors.items())


class FusionAttention(SelfAttention):
    """Plain attention beside a second one, and an adaptive fusion of the two signals in place of the plain one.

    What the three papers share, and what each changes (equation numbers):

                          DABERT                       DAFA                  Knowledge
        plain attention   (1)                          (6), first line       (5), first two lines
        second attention  difference of Q and K,       dependency prior,     knowledge prior, computed
                          (2)-(4)                      (6)                   from hidden states, (1)-(5)
        guided attention  (5); two more lines join     (7)                   (6)
                          each signal with its guided
        gated fusion      (6)                          (8)                   (7), the gate has a bias
        filtration gate   (7)                          (9)                   (8), the gate has a bias, no W_v

    Departs: DAFA fuses inside "each head", Knowledge "within each attention head"; scope "hidden" fuses the
    concatenated heads before the output projection, once instead of H times. scope "head" is the page.
    Assumes: with it, all heads share one set of weights.

    A subclass has `second`, the other attention, and `fuse`, in its paper's letters; PRINTED, the equations it can
    compute as typeset; ABLATIONS, the parts it can leave out; PRIOR, the kind of prior it takes, and then `spread`.

    Args:
        config: BertConfig. printed: of PRINTED. scope: "hidden" or "head". without: of ABLATIONS.
        attention_size: A, the width of guided attention.
    Trace: "attention" (B, H, L, L) and what the subclass adds. With scope "head" the heads of what `fuse` adds stand
        in the batch axis: B·H for B.
    Raises: ValueError for an option that is not known.
    """

    PRIOR = None

    def __init__(self, config, printed=frozenset(), scope="hidden", without=frozenset(), attention_size=128):
        super().__init__(config)
        check_options(type(self), printed, without, scope)
        self.printed, self.scope, self.without = frozenset(printed), scope, frozenset(without)
        self.add_weights(config.hidden_size // (1 if scope == "hidden" else config.num_heads), attention_size)

    def attend(self, hidden, q, k, v, mask, prior, trace):
        """Both attentions, then their fusion. prior: what `spread` returned, or None. Returns (B, L, d)."""
        sem = super().attend(hidden, q, k, v, mask, None, trace)  # (B, L, d)
        dropout = self.dropout if self.training else 0.0
        other = self.second(hidden, q, k, v, mask, prior, dropout, trace)  # (B, H, L, k)
        if self.scope == "hidden":
            return self.fuse(sem, merge_heads(other), mask, trace)
        sem = split_heads(sem, self.heads).flatten(0, 1)              # heads stand in the batch axis
        out = self.fuse(sem, other.flatten(0, 1), mask.repeat_interleave(self.heads, 0), trace)
        return merge_heads(out.unflatten(0, (-1, self.heads)))  # (B, L, d)


def guides(attention_size, printed):
    """w of both guided attentions: Linear A → 1 without bias; as typeset 2A → 1 with one."""
    width = 2 * attention_size if printed else attention_size
    return linear(width, 1, bias=printed), linear(width, 1, bias=printed)


# ---- DABERT ---------------------------------------------------------------------------------------------------------

def difference_scores(q, k, printed=False):
    """How different is each query from each key?  DABERT Eq. (4)

        ‖Q - K‖_ij = Σ_k (Q_ik - K_jk)

    Departs: without bars around the difference this is ΣQ_i - ΣK_j. ΣQ_i is the same for all j and cancels in the
    softmax, so every query gets the same row of weights, whatever it says. We compute the L1 distance, Σ_k |Q_ik -
    K_jk|, as ‖·‖ says; a larger difference gets a larger weight, for "the model to pay attention to dissimilar parts".
    `printed` computes the page.

    Args: q, k: (B, H, L, k). Returns: (B, H, L, L), float32 or wider.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    q, k = q.to(wide), k.to(wide)
    if printed:
        return q.sum(-1)[..., :, None] - k.sum(-1)[..., None, :]  # (B, H, L, L)
    return DifferenceScores.apply(k.flatten(0, 1), q.flatten(0, 1)).unflatten(0, q.shape[:2])  # (B, H, L, L)


def difference_attention(q, k, v, mask, dropout=0.0, printed=frozenset(), trace=None):
    """Attention to what differs.  DABERT Eqs. (2), (3)

        D = softmax(β / √d_k) V,   β = ‖Q - K‖ + M

    Departs: M is added before the division by √d_k and is a finite number, so that it leaks where scores are large or
    a row has no key. We fill in the mask when the score is complete. `printed` {3} adds M = -10⁴, BERT's own constant;
    {4} as in difference_scores.
    Assumes: dropout on the weights, as in plain attention. The "cross-attention" looks at all tokens of the packed
    pair, those of its own sentence too; both attentions share Q, K and V.

    Args: q, k, v: (B, H, L, k). mask: bool (B, L). dropout: probability.
    Returns: (B, H, L, k). trace, if given, gets "difference", the weights (B, H, L, L).
    """
    beta = difference_scores(q, k, 4 in printed)  # (B, H, L, L)
    if 3 in printed:
        weights = ((beta + torch.where(mask, 0.0, -1e4)[:, None, None]) / q.shape[-1] ** 0.5).softmax(-1)  # (B, H, L, L)
    else:
        weights = attention_weights(beta / q.shape[-1] ** 0.5, mask)  # (B, H, L, L)
    record(trace, difference=weights)
    return F.dropout(weights, dropout).to(v.dtype) @ v


class DabertAttention(FusionAttention):
    """Dual attention, affinity and difference, and its adaptive fusion: DABERT Eqs. (1)-(7).

    without, the paper's Table 5: "affinity": the difference signal takes its place, "difference": the affinity signal
    does; "guide": d* = d, a* = a; "gate-fusion": g is one half; "gate-filter": f is one; "regulation": the average of
    the two signals, "the overall aggregation and Regulation module" replaced.
    Assumes: Table 5's models without one attention keep the fusion, with the other signal on both sides: they are not
    plain BERT, whose numbers differ. The second guide of Eq. (5) is d̄, as its formula has it; its text says d*.
    Trace: "attention" (affinity), "difference" (B, H, L, L); "affinity_guided", "difference_guided" (B, L, L), whose
    row i is token i's guide; gates "g", "f" (B, L, 1).
    """

    PRINTED = frozenset({3, 4, 5, 7})
    ABLATIONS = frozenset({"affinity", "difference", "guide", "gate-fusion", "gate-filter", "regulation"})

    def add_weights(self, d, attention_size):
        """The paper's weights, for signals d wide, but those that `without` leaves no use for."""
        if {"affinity", "difference"} <= self.without:
            raise ValueError("--without affinity, difference: one of them must stay for dabert to attend with")
        if "regulation" in self.without:
            return
        if "guide" not in self.without:
            self.W_D, self.W_a = linear(d, attention_size, bias=False), linear(d, attention_size)
            self.W_A, self.W_dbar = linear(d, attention_size, bias=False), linear(d, attention_size)
            self.w_d, self.w_abar = guides(attention_size, 5 in self.printed)
            self.W_dstar, self.W_astar = linear(2 * d, d), linear(2 * d, d)
        self.W_dhat, self.W_ahat, self.W_l = linear(d, d), linear(d, d), linear(d, d)
        self.W_g = linear(2 * d, 1, bias=False) if "gate-fusion" not in self.without else None
        gate = "gate-filter" not in self.without
        self.W_v, self.W_f = (linear(d, d), linear(2 * d, 1, bias=False)) if gate else (None, None)

    def second(self, hidden, q, k, v, mask, prior, dropout, trace):
        """D of Eq. (2)."""
        return difference_attention(q, k, v, mask, dropout, self.printed, trace)  # (B, H, L, k)

    def fuse(self, a, d, mask, trace):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (5)-(7) on (B, L, d) signals."""
        a, d = d if "affinity" in self.without else a, a if "difference" in self.without else d
        if "regulation" in self.without:
            return (a + d) / 2
        d_star, a_star = d, a
        if "guide" not in self.without:
            d_bar, by_a = guided_attention(d, a, mask, self.W_D, self.W_a, self.w_d, 5 in self.printed)
            a_bar, by_d = guided_attention(a, d_bar, mask, self.W_A, self.W_dbar, self.w_abar, 5 in self.printed)
            d_star = self.W_dstar(torch.cat([d, d_bar], -1)).tanh()      # DABERT Eq. (5), last two lines
            a_star = self.W_astar(torch.cat([a, a_bar], -1)).tanh()
            record(trace, affinity_guided=by_a, difference_guided=by_d)
        v, g = gated_fusion(a_star, d_star, self.W_ahat, self.W_dhat, self.W_g)
        out, f = filtration_gate(a, v, self.W_v, self.W_l, self.W_f, 7 in self.printed)
        record(trace, g=g, f=f)
        return out


# ---- DAFA -----------------------------------------------------------------------------------------------------------

class DafaAttention(FusionAttention):
    """Dependency-enhanced adaptive fusion attention: DAFA Eqs. (6)-(9).

    Assumes: "adding 1" to the dimension of M_F is read as M̃ = 1 + M_F, so that a pair of words without any agreement
    is left as it is; as typeset its score would become 0.
    without, the paper's Table 8: "tree", "subgraph", "tfidf" (in priors.py); "cross-attention": d* = d, s* = s;
    "gates": g is one half, f is one; "fusion": the average of the two signals. For Fig. 4, which has one gate alone:
    "gate-fusion": g is one half; "gate-filter": f is one.
    Trace: "attention", "calibrated" (B, H, L, L); "semantic_guided", "dependency_guided" (B, L, L), whose row i is
    token i's guide; gates "g", "f" (B, L, 1).
    """

    PRINTED = frozenset({4, 6, 7, 9})     # Eq. (4) is priors.subgraph_similarity
    ABLATIONS = frozenset({"tree", "subgraph", "tfidf",             # these three in priors
                           "cross-attention", "gates", "gate-fusion", "gate-filter", "fusion"})
    PRIOR = "dependency"

    def add_weights(self, d, attention_size):
        """The paper's weights, for signals d wide, but those that `without` leaves no use for."""
        if "fusion" in self.without:
            return
        if "cross-attention" not in self.without:
            self.W_D, self.W_s = linear(d, attention_size, bias=False), linear(d, attention_size)
            self.W_S, self.W_dstar = linear(d, attention_size, bias=False), linear(d, attention_size)
            self.w_d, self.w_sstar = guides(attention_size, 7 in self.printed)
        self.W_dhat, self.W_shat, self.W_l = linear(d, d), linear(d, d), linear(d, d)
        fusion, filtration = ({"gates", gate}.isdisjoint(self.without) for gate in ("gate-fusion", "gate-filter"))
        self.W_g = linear(2 * d, 1, bias=False) if fusion else None
        self.W_v, self.W_f = (linear(d, d), linear(2 * d, 1, bias=False)) if filtration else (None, None)

    def spread(self, prior, word_index, segment):
        """What calibrated_attention takes, (B, L, L), from M_F (B, n, m)."""
        if 6 in self.printed:
            return spread_prior(prior, word_index, segment, 1.0)  # (B, L, L)
        return spread_prior(prior.log1p(), word_index, segment, 0.0)  # (B, L, L)

    def second(self, hidden, q, k, v, mask, prior, dropout, trace):
        """Dep of Eq. (6)."""
        return calibrated_attention(q, k, v, prior, mask, dropout, 6 in self.printed, trace)  # (B, H, L, k)

    def fuse(self, s, d, mask, trace):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (7)-(9) on (B, L, d) signals."""
        if "fusion" in self.without:
            return (s + d) / 2
        d_star, s_star = d, s
        if "cross-attention" not in self.without:
            d_star, by_s = guided_attention(d, s, mask, self.W_D, self.W_s, self.w_d, 7 in self.printed)
            s_star, by_d = guided_attention(s, d_star, mask, self.W_S, self.W_dstar, self.w_sstar, 7 in self.printed)
            record(trace, semantic_guided=by_s, dependency_guided=by_d)
        v, g = gated_fusion(s_star, d_star, self.W_shat, self.W_dhat, self.W_g)
        out, f = filtration_gate(s, v, self.W_v, self.W_l, self.W_f, 9 in self.printed)
        record(trace, g=g, f=f)
        return out


# ---- External knowledge ---------------------------------------------------------------------------------------------

def relation_indicator(relations, printed=False):
    """I(k_ij) = 1 if k_ij indicates any relevant relation, else 0.  Knowledge Eq. (2)

    Departs: the paper names synonyms, antonyms, hypernyms and hyponyms, but its own example, "wheat" and "corn", are
    co-hyponyms, words with one hypernym; these are our fifth relation. `printed` leaves them out.

    Args: relations: bool (B, n, m, R), k_ij in the order of priors.RELATIONS. Returns: bool (B, n, m).
    """
    return (relations[..., :4] if printed else relations).any(-1)  # (B, n, m)


def knowledge_scores(hidden, G, printed=False):
    """s_ij = h_iᵀ h_j + G(k_ij)   Knowledge Eq. (1)

    Departs: raw products of hidden states saturate the softmax behind them, and a relation moves nothing. We divide
    them by √d, as attention does; `printed` does not.

    Args: hidden: (B, L, d). G: (B, L, L), γ I(k_ij) for words of different sentences, -inf for other pairs of tokens.
    Returns: (B, L, L), float32 or wider, -inf where G is.
    """
    wide = torch.promote_types(hidden.dtype, torch.float32)
    with torch.autocast(hidden.device.type, enabled=False):
        scores = hidden.to(wide) @ hidden.to(wide).transpose(1, 2)  # (B, L, L)
    return (scores if printed else scores / hidden.shape[-1] ** 0.5) + G  # (B, L, L)


def co_attention(hidden, scores):
    """What the tokens of each sentence find in the other one.  Knowledge Eqs. (3), (4)

        ω^A_ij = exp(s_ij) / Σ_p exp(s_ip),   c^A_i = Σ_j ω^A_ij h^B_j
        ω^B_ij = exp(s_ij) / Σ_p exp(s_pj),   c^B_j = Σ_i ω^B_ij h^A_i,    K_prior = (ω^A + ω^B) / 2

    The pair is packed and s symmetric, so one softmax over rows is both: row i of sentence a is ω^A_i, row j of b is
    ω^B_·j. Logarithms are returned, because far weights are smaller than the smallest float.
    Assumes: c^A, c^B are never used again in the paper; they are for the trace.

    Args: hidden: (B, L, d). scores: (B, L, L) of knowledge_scores.
    Returns: ln K_prior (B, L, L), symmetric, -inf where scores are; c (B, L, d), 0 for tokens without a partner.
    """
    cross = scores > float("-inf")
    lowest = torch.finfo(scores.dtype).min
    log_omega = scores.masked_fill(~cross, lowest).log_softmax(-1)  # (B, L, L)
    context = log_omega.exp().masked_fill(~cross, 0.0).to(hidden.dtype) @ hidden  # (B, L, d)
    log_prior = torch.logaddexp(log_omega, log_omega.transpose(1, 2)) - math.log(2)  # (B, L, L)
    return log_prior.masked_fill(~cross, float("-inf")), context


class KnowledgeAttention(FusionAttention):
    """Attention calibrated by lexical knowledge, and its adaptive fusion: Knowledge Eqs. (1)-(8).

    Departs: entries of K_prior average (1/n + 1/m)/2 over n and m tokens of words, so that as typeset, Eq. (5), scores
    between the sentences shrink towards 0 whatever the words. We divide K_prior by its mean over the cross block: K̃
    averages 1, a pair of tokens above the average gains weight. `printed` {5} is the page; the other numbers as in the
    functions.
    Assumes: the "contextualized hidden states" H are those that enter the layer; in the first layer, which is DAFA's and
    our default, as this paper names none, these are the embeddings, not contextualized yet. Special tokens take no part.
    γ is never given.
    without: "fusion": the average of the two signals, the paper's "Ours-avg". Ours: "prior": γ = 0, no relation is
    looked at; "guide": ô = o; "gates": g is one half, f is one.
    Trace: "attention", "calibrated" (B, H, L, L); "prior" (B, L, L), K̃, as typeset K_prior, 1 outside the cross blocks;
    "context" (B, L, d), c^A and c^B; "semantic_guided", "knowledge_guided" (B, L, L), whose row i is token i's guide;
    gates "g", "f" (B, L, 1).
    """

    PRINTED = frozenset({1, 2, 5, 6, 8})
    ABLATIONS = frozenset({"fusion", "prior", "guide", "gates"})
    PRIOR = "relations"
    GAMMA = 1.0

    def add_weights(self, d, attention_size):
        """The paper's weights, for signals d wide, but those that `without` leaves no use for."""
        if "fusion" in self.without:
            return
        if "guide" not in self.without:
            self.W_Oknw, self.W_osem = linear(d, attention_size, bias=False), linear(d, attention_size)
            self.W_Osem, self.W_ohatknw = linear(d, attention_size, bias=False), linear(d, attention_size)
            self.w_zknw, self.w_zsem = guides(attention_size, 6 in self.printed)
        self.W_otildeknw, self.W_otildesem, self.W_y = linear(d, d), linear(d, d), linear(d, d)
        gates = "gates" not in self.without
        self.W_gfuse, self.W_gfilter = (linear(2 * d, 1), linear(2 * d, 1)) if gates else (None, None)

    def spread(self, prior, word_index, segment):
        """G(k_ij) (B, L, L) of Eq. (1) from relations k_ij (B, n, m, R); -inf outside the cross blocks."""
        gamma = 0.0 if "prior" in self.without else self.GAMMA
        G = gamma * relation_indicator(prior, 2 in self.printed).float()  # (B, n, m)
        return spread_prior(G, word_index, segment, float("-inf"))  # (B, L, L)

    def second(self, hidden, q, k, v, mask, prior, dropout, trace):
        """O_knw of Eq. (5). prior: G (B, L, L)."""
        log_prior, context = co_attention(hidden, knowledge_scores(hidden, prior, 1 in self.printed))
        cross = prior > float("-inf")
        if 5 not in self.printed:
            mean = log_prior.exp().sum((1, 2)) / cross.sum((1, 2)).clamp(min=1)  # that is (1/n + 1/m)/2
            log_prior = log_prior - mean.clamp(min=1e-30).log()[:, None, None]  # (B, L, L)
        log_prior = torch.where(cross, log_prior, 0.0)  # (B, L, L)
        record(trace, prior=log_prior.exp(), context=context)
        calibration = log_prior.exp() if 5 in self.printed else log_prior  # (B, L, L)
        return calibrated_attention(q, k, v, calibration, mask, dropout, 5 in self.printed, trace)  # (B, H, L, k)

    def fuse(self, o_sem, o_knw, mask, trace):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (6)-(8) on (B, L, d) signals."""
        if "fusion" in self.without:
            return (o_sem + o_knw) / 2
        hat_sem, hat_knw = o_sem, o_knw
        if "guide" not in self.without:
            printed = 6 in self.printed
            hat_knw, by_sem = guided_attention(o_knw, o_sem, mask, self.W_Oknw, self.W_osem, self.w_zknw, printed)
            hat_sem, by_knw = guided_attention(o_sem, hat_knw, mask, self.W_Osem, self.W_ohatknw, self.w_zsem, printed)
            record(trace, semantic_guided=by_sem, knowledge_guided=by_knw)
        u, g = gated_fusion(hat_sem, hat_knw, self.W_otildesem, self.W_otildeknw, self.W_gfuse)
        out, f = filtration_gate(o_sem, u, None, self.W_y, self.W_gfilter, 8 in self.printed)
        record(trace, g=g, f=f)
        return out


# ---- DRr-Net and LadRa-Net ------------------------------------------------------------------------------------------

def highway(x, W_t, W_h):
    """A gate between a layer and what enters it (Srivastava et al. 2015), two of them in DRr-Net § IV-A.

        t = σ(W_t x + b_t),   t relu(W_h x + b_h) + (1 - t) x

    Assumes: relu. Args: x: (..., d). W_t, W_h: Linear d → d. Returns: (..., d).
    """
    t = W_t(x).sigmoid()
    return t * W_h(x).relu() + (1 - t) * x


def stacked_gru(x, mask, grus):
    """GRU layers, each of which reads all that the one below read and said.  DRr-Net Eqs. (1), (2)

        h^l_t = H_l(x^l_t, h^l_(t-1)),   x^l_t = [h^(l-1)_t; x^(l-1)_t]                      ; is concatenation

    The text reads Eq. (1), x^l = h^(l-1), as what is to be improved: only (2) is computed.
    Assumes: torch's form of the GRU; one direction.

    Args: x: (B, n, d). mask: bool (B, n), True = real word, padding on the right. grus: nn.GRU(batch_first=True), the
        lowest first.
    Returns: [h^l; x^l] of the top layer (B, n, d + Σ hidden sizes), 0 at padding, which no GRU sees.
    """
    lengths = mask.sum(1).clamp(min=1).cpu()        # a row without a word reads one piece of padding, and is 0 below
    for gru in grus:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        with torch.autocast(x.device.type, enabled=False):      # on a GPU it would give the GRU float16, not bfloat16
            h, _ = nn.utils.rnn.pad_packed_sequence(gru(packed)[0], batch_first=True, total_length=x.shape[1])
        x = torch.cat([h, x], -1)
    return x.masked_fill(~mask[..., None], 0.0)


def attentive_pooling(states, mask, W, w):
    """A sentence as the weighted sum of its words.  DRr-Net Eq. (3), LadRa-Net Eq. (11), without its last line

        α = ωᵀ tanh(W A + b),   h = Σ_i softmax_i(α) h_i,   A = [h_1, ..., h_l]

    Departs: Eq. (11) sums to L, the number of layers, and averages to l_ab: the number of tokens and l_r are meant.

    Args: states: (B, n, d). mask: bool (B, n), True = real. W: Linear d → A. w: Linear A → 1 without bias.
    Returns: h (B, d) and the weights (B, n), masked exactly 0; a row without a word gives zeros.
    """
    weights = attention_weights(w(W(states).tanh())[..., 0], mask)  # (B, n)
    return (weights.to(states.dtype)[:, None] @ states)[:, 0], weights


SPENT = 1e-6      # a word of which no more is left than this has been read as often as it may


def choose(states, keys, mask, clue, w_d, beta, left=None, printed=False):
    """F(·), attention that looks at one word.  DRr-Net Eqs. (5), (6); LadRa-Net Eqs. (13), (14), its second line

        m̄ = ω_dᵀ tanh(W_d A + clue ⊗ e),   ā = Σ_i softmax_i(β m̄) h_i,   clue = U_d h̄_(t-1) + M_d h^b
                                                                          (+ Σ_j V_rd ā^j in LadRa-Net)
    The clue is repeated for each word: that is all of ⊗ e.
    Departs: Eq. (5) takes the arg-max of ᾱ, which is a sum of weights and so the number 1, by an operation that "has
    no derivative"; Eq. (6) supersedes it. Eq. (14) multiplies m̄ by c, what is left of each word; but less than one
    times a negative score is a higher score. Here the weight is ∝ max(c, 0) exp(β m̄), and exactly 0 where c ≤ SPENT.
    `printed` {14} multiplies the score.

    Args:
        states: (B, n, d). keys: (B, n, A), W_d A, which no step changes. mask: bool (B, n), True = real.
        clue: (B, A). w_d: Linear A → 1 without bias. beta: a large number. left: (B, n), c, or None.
    Returns: ā (B, d); the weights (B, n), float32 or wider, masked exactly 0; m̄ (B, n), with `printed` c m̄.
    """
    wide = torch.promote_types(keys.dtype, torch.float32)     # times β, bfloat16's steps of m̄ are ties or landslides
    with torch.autocast(keys.device.type, enabled=False):
        m = (keys.to(wide) + clue.to(wide)[:, None]).tanh() @ w_d.weight[0].to(wide)  # (B, n)
    if printed:
        m = left * m  # (B, n)
    scores = beta * m  # (B, n)
    if left is not None and not printed:
        mask = mask & (left > SPENT)  # (B, n)
        scores = scores + left.clamp(min=SPENT).log()  # (B, n)
    weights = attention_weights(scores, mask)  # (B, n)
    return (weights.to(states.dtype)[:, None] @ states)[:, 0], weights, m


class Choice(nn.Module):
    """The weights of one choosing function F, without biases, as on the pages: DRr-Net Eq. (5), LadRa-Net Eq. (13).

    Args: d: width of what is chosen. hidden: of h̄. guide: of the guide vector, or None. chained: with V_d.
    """

    def __init__(self, d, hidden, attention_size, guide, chained=False):
        super().__init__()
        self.W_d, self.U_d = linear(d, attention_size, bias=False), linear(hidden, attention_size, bias=False)
        self.M_d = linear(guide, attention_size, bias=False) if guide else None
        self.V_d = linear(d, attention_size, bias=False) if chained else None
        self.w_d = linear(attention_size, 1, bias=False)


def reread(states, mask, h, guide, choice, gru, steps, beta):
    """Reads T words, each chosen by what the ones before said.  DRr-Net Eq. (4)

        ā_t = F([h_1, ..., h_l], h̄_(t-1), h^b),   h̄_t = GRU(ā_t, h̄_(t-1)),   v = h̄_T

    Args: states: (B, n, d). mask: bool (B, n), True = real. h: h̄_0, the GRU's first state. guide: h^b (B, d), the
        other sentence's vector. choice: Choice. gru: nn.GRUCell. steps: T. beta: as in choose.
    Returns: v, h̄_T, and the weights of each step (B, T, n).
    """
    keys, read = choice.W_d(states), []
    told = choice.M_d(guide) if choice.M_d is not None else 0
    for _ in range(steps):
        chosen, weights, _ = choose(states, keys, mask, choice.U_d(h) + told, choice.w_d, beta)
        h = gru(chosen, h)
        read.append(weights)
    return h, torch.stack(read, 1)


def matching(a, b):
    """Two vectors as one.  DRr-Net Eq. (7): [a; b; a ⊙ b; b - a]

    Assumes: the equation is missing from our text of the paper, which names "the elementwise product, their
    difference, and concatenation"; order and sign are ours. Args: a, b: (B, d). Returns: (B, 4d).
    """
    return torch.cat([a, b, a * b, b - a], -1)


def probability_fusion(p_h, p_v, w_h, w_v, mlp):
    """What reading and re-reading say, each with its gate.  DRr-Net Eq. (8)

        α_h = σ(w_hᵀ p^h + b_h),   α_v = σ(w_vᵀ p^v + b_v),   P = MLP_3(α_h p^h + α_v p^v)

    Beware: p^h and p^v have been through a softmax. Where a rate of learning too high makes them 0 and 1, alike for all
    pairs, MLP_3 still learns how frequent the labels are, and nothing before it learns again (see train.RECIPES).
    Args: p_h, p_v: (B, C), or None: that side is left out. w_h, w_v: Linear C → 1. mlp: of C → C.
    Returns: MLP_3's output (B, C); the gates α_h, α_v (B, 2) in (0, 1), those of the sides there are.
    """
    sides = [(p, w(p).sigmoid()) for p, w in ((p_h, w_h), (p_v, w_v)) if p is not None]
    return mlp(sum(gate * p for p, gate in sides)), torch.cat([gate for _, gate in sides], -1)


def perceptron(n_in, hidden, n_out, layers):
    """An MLP with hidden ReLU layers; what the papers put behind it, softmax or nothing, is the caller's."""
    sizes = [n_in, *[hidden] * layers]
    inner = [part for i, o in zip(sizes, sizes[1:]) for part in (linear(i, o), nn.ReLU())]
    return nn.Sequential(*inner, linear(sizes[-1], n_out))


class DrrNet(nn.Module):
    """Reads both sentences word by word, then re-reads T of each one's words: DRr-Net Eqs. (1)-(8). Takes no BERT.

    Sizes as in the paper's Table I, but d_w: 300 + 100 + 17 + 2 = 419 where the table has 412 (other tags).
    Departs: β "is an arbitrarily big value"; as typeset, {6}, it is 10⁸, and the choice an arg-max again, without a
    gradient. Ours is 200. On 64 MRPC pairs at the initial weights the largest weight is then above 0.9 in 63 % of
    the choices, and its slope, β w (1 - w), above 0.01 in 92 % (31 and 100 % with 100; 93 and 35 % with 1000; with
    fixed vectors of GloVe's size 83 and 54 %). Training makes the scores larger and so the choices harder.
    The loss has the softmax of P; where C = 1, a score, all three ends are linear.
    Assumes: h̄_0 is 256 wide and h^a, the "initial state", 1187: a linear map W_0 between them. One set of weights
    for both sentences. In the character CNN a kernel of 5, and the largest value over the word's own characters. MLPs
    are 256 wide. "All the model parameters" are uniform in ±√(6 / (n_in + n_out)), gate by gate; n_in = 1 in tables,
    where one row is looked up. No dropout is mentioned: ours is on the words that enter the GRUs and both matchings.
    without, the paper's Table VI: "initial-vector": h̄_0 = 0; "guide-vector": no M_d h^b; "global": P = MLP_3(α_v
    p^v); "reread": P = MLP_3(α_h p^h).

    Args:
        words, characters: how many there are in the vocabularies; 0 is padding, 1 unknown. classes: C; 1 for a score.
        vectors: (words, size), pre-trained and fixed, or None: 300 wide and learned.
        printed: of PRINTED. without: of ABLATIONS. dropout: probability. sizes: in place of the class's own, as HIDDEN=64.
    Raises: ValueError for an option that is not known, or if nothing is left to judge by.
    """

    PRINTED = frozenset({6})
    ABLATIONS = frozenset({"initial-vector", "guide-vector", "global", "reread"})
    PRIOR = "words"
    WORD, CHARACTER, KERNEL, TAGS, HIGHWAYS = 300, 100, 5, 17, 2
    HIDDEN, LAYERS, ATTENTION, STEPS, BETA = 256, 3, 200, 6, 200.0

    def __init__(self, words, characters, classes, vectors=None, printed=frozenset(), without=frozenset(), dropout=0.0,
                 **sizes):
        super().__init__()
        check_options(type(self), printed, without)
        vars(self).update(check_sizes(type(self), sizes))
        if {"global", "reread"} <= set(without):
            raise ValueError("--without global, reread: one of them must stay for drrnet to judge by")
        self.beta, self.dropout = 1e8 if 6 in printed else self.BETA, nn.Dropout(dropout)
        self.words = (nn.Embedding(words, self.WORD, padding_idx=0) if vectors is None else
                      nn.Embedding.from_pretrained(vectors))
        self.characters = nn.Embedding(characters, self.CHARACTER, padding_idx=0)
        self.cnn = nn.Conv1d(self.CHARACTER, self.CHARACTER, self.KERNEL, padding="same")
        d_w, d_g = self.words.embedding_dim + self.CHARACTER + self.TAGS + 2, self.HIDDEN
        self.W_t, self.W_h = (nn.ModuleList(linear(d_w, d_w) for _ in range(self.HIGHWAYS)) for _ in range(2))
        self.grus = nn.ModuleList(nn.GRU(d_w + l * d_g, d_g, batch_first=True) for l in range(self.LAYERS))
        d = d_w + self.LAYERS * d_g
        self.W, self.w = linear(d, d_g), linear(d_g, 1, bias=False)
        self.mlp_h = self.mlp_v = self.w_h = self.w_v = self.W_0 = None
        if "global" not in without:
            self.mlp_h, self.w_h = perceptron(4 * d, d_g, classes, 2), linear(classes, 1)
        if "reread" not in without:
            self.choice = Choice(d, d_g, self.ATTENTION, None if "guide-vector" in without else d)
            self.W_0 = linear(d, d_g, bias=False) if "initial-vector" not in without else None
            self.gru = nn.GRUCell(d, d_g)
            self.mlp_v, self.w_v = perceptron(4 * d_g, d_g, classes, 2), linear(classes, 1)
        self.mlp = perceptron(classes, d_g, classes, 2)
        self.start()

    @torch.no_grad()
    def start(self):
        """The paper's initial values, see `Assumes:`; fixed vectors stay."""
        for name, p in self.named_parameters():
            if p.dim() == 1:
                p.zero_()
            elif name in ("words.weight", "characters.weight") and p.requires_grad:
                bound = (6 / (1 + p.shape[1])) ** 0.5
                p.uniform_(-bound, bound)[0] = 0.0            # padding, which the character CNN sees at a word's ends
            elif p.requires_grad:
                for gate in p.chunk(3 if "gru" in name else 1):
                    nn.init.xavier_uniform_(gate)

    def embed(self, word_ids, character_ids, tags, match, antonym):
        """Words as vectors, § IV-A. Arguments as in forward, (B, n) and (B, n, c). Returns: (B, n, d_w)."""
        real = character_ids > 0  # (B, n, c)
        pieces = self.cnn(self.characters(character_ids.flatten(0, 1)).transpose(1, 2)).unflatten(0, word_ids.shape)
        pieces = pieces.masked_fill(~real[:, :, None], torch.finfo(pieces.dtype).min).amax(-1)
        pieces = pieces.masked_fill(~real.any(-1, keepdim=True), 0.0)              # a word without characters
        x = self.words(word_ids)
        x = torch.cat([x, pieces, F.one_hot(tags, self.TAGS), match[..., None], antonym[..., None]], -1)
        for W_t, W_h in zip(self.W_t, self.W_h):
            x = highway(x, W_t, W_h)
        return self.dropout(x)

    def relation(self, mlp, vectors):
        """p of one side, MLP_1 or MLP_2 on a's vectors matched with b's. vectors: (2B, d). Returns: (B, C)."""
        logits = mlp(self.dropout(matching(*vectors.chunk(2))))  # (B, C)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return logits if logits.shape[1] == 1 else logits.softmax(-1)

    def forward(self, word_ids, character_ids, tags, match, antonym, mask, trace=None):
        """Sentence a stands first, then b: word_ids, tags int64 (2, B, n); character_ids int64 (2, B, n, c), 0 behind
        a word's end; match, antonym bool (2, B, n); mask bool (2, B, n), True = real, padding on the right → logits
        (B, C).

        Trace: "pooling" (2, B, n), Eq. (3); "reading" (2, B, T, n), Eq. (6); "relations" (B, 2, C), p^h and p^v, and
        "gates" (B, 2), Eq. (8), of the sides there are.
        Raises: ValueError for a mask that is not bool or not word_ids' shape.
        """
        if mask.dtype != torch.bool or mask.shape != word_ids.shape:
            raise ValueError(f"DrrNet: mask needs bool of shape {tuple(word_ids.shape)}, got {mask.dtype} of "
                             f"{tuple(mask.shape)}; pass word_ids != 0")
        x = self.embed(*(part.flatten(0, 1) for part in (word_ids, character_ids, tags, match, antonym)))
        rows, p_h, p_v = mask.flatten(0, 1), None, None
        states = stacked_gru(x, rows, self.grus)
        h, pooling = attentive_pooling(states, rows, self.W, self.w)
        record(trace, pooling=pooling.view(mask.shape))
        if self.mlp_h is not None:
            p_h = self.relation(self.mlp_h, h)  # (B, C)
        if self.mlp_v is not None:
            first = self.W_0(h) if self.W_0 is not None else h.new_zeros(len(h), self.HIDDEN)
            guide = h.roll(len(h) // 2, 0)                    # a's rows get b's vector, b's rows a's
            v, reading = reread(states, rows, first, guide, self.choice, self.gru, self.STEPS, self.beta)
            record(trace, reading=reading.unflatten(0, mask.shape[:2]))
            p_v = self.relation(self.mlp_v, v)  # (B, C)
        with torch.autocast(mask.device.type, enabled=False):      # bfloat16 would round like probabilities to the same
            logits, gates = probability_fusion(p_h, p_v, self.w_h, self.w_v, self.mlp)
        record(trace, relations=torch.stack([p for p in (p_h, p_v) if p is not None], 1), gates=gates)
        return logits


def layer_mix(hidden_states, alpha):
    """A token's vector from all blocks.  LadRa-Net Eq. (9): h⁰_t = Σ_l α_l BERT^l_t

    Assumes: "trained during model training", α is free, neither positive nor of sum 1.
    Args: hidden_states: N tensors (B, L, d), the blocks' outputs without the embeddings. alpha: (N,).
    Returns: (B, L, d).
    """
    return sum(a * h for a, h in zip(alpha, hidden_states, strict=True))


def convolution(n_in, n_out, kernel, follows):
    """nn.Conv1d without padding that keeps the size of its numbers (He et al. 2015). follows: "relu" or "linear"."""
    layer = nn.Conv1d(n_in, n_out, kernel)
    nn.init.kaiming_normal_(layer.weight, nonlinearity=follows)
    nn.init.zeros_(layer.bias)
    return layer


def phrase_cnn(hidden, mask, first, second):
    """Each token with its neighbours.  LadRa-Net Eq. (10), one r

        h^r_t = CNN_r([h⁰_(t-k), ..., h⁰_(t+k)]),   CNN_r = two layers, ReLU between them

    Assumes: the window of 2k + 1 tokens does not fit "kernel sizes" 2 and 3. Two layers of kernel K see it together,
    with k = K - 1, if the odd padding goes right in the first layer and left in the second. What is beyond the ends,
    or padding of the batch, is 0 in both layers.

        K = 2     first layer    t-1  t    →  t-1          K = 3     first layer    t-2  t-1  t    →  t-1, ...
                                 t    t+1  →  t                      second layer   t-1  t    t+1  →  t
                  second layer   t-1  t    →  t

    Args: hidden: (B, L, d). mask: bool (B, L), True = real. first, second: Conv1d without padding.
    Returns: (B, L, d), 0 at padding.
    """
    gone = ~mask[:, None]  # (B, 1, L)
    extra = first.kernel_size[0] - 1
    left, right = extra // 2, extra - extra // 2
    inner = first(F.pad(hidden.transpose(1, 2).masked_fill(gone, 0.0), (left, right))).relu()
    outer = second(F.pad(inner.masked_fill(gone, 0.0), (right, left)))
    return outer.masked_fill(gone, 0.0).transpose(1, 2)  # (B, L, d)


def read_limit(states, W_phi, steps, printed=False):
    """φ = T σ(W_φ A), how often a token may be read.  LadRa-Net Eq. (14), last line

    Departs: φ near 0 makes one reading spend a token many times over. We keep φ in [1, max(1, T - 1)]: one reading
    spends no more than a token, and T - 1 readings in full always spend it. `printed` does not.
    Args: states: (B, n, d). W_phi: Linear d → 1 without bias. steps: T. Returns: φ (B, n).
    """
    phi = steps * W_phi(states)[..., 0].sigmoid()  # (B, n)
    return phi if printed else phi.clamp(1, max(1, steps - 1))  # (B, n)


def coverage(left, read, phi, mask, printed=False):
    """What is left of each token.  LadRa-Net Eq. (14), last line: c_t = c_(t-1) - m̄_t / φ, with c_0 = 1

    Departs: m̄ is a score of either sign, so that a word of negative score is never spent, however often it is read,
    and one beyond 2φ in size diverges. The text updates c "based on the calculated attention weights": c falls by
    weight / φ, and a token is read in full ⌈φ⌉ times at most. Beside β m̄, ln c is small until c is: a token that suits
    is read until it is spent. When all real tokens of a row are spent, c is 1 again for the whole row. `printed`
    subtracts m̄ and never restarts.

    Args: left: (B, n), c_(t-1). read: (B, n), the weights; with `printed` m̄. phi: (B, n). mask: bool (B, n), True =
        real.
    Returns: c_t (B, n), which falls below 0 where the last reading was more than was left.
    """
    left = left - read / phi  # (B, n)
    if printed:
        return left
    spent = ((left <= SPENT) | ~mask).all(1, keepdim=True)  # (B, 1)
    return left.masked_fill(spent, 1.0)  # (B, n)


def dynamic_sequential_attention(states, mask, h_ab, choices, W_f, w_f, W_phi, gru, steps, beta, printed=frozenset()):
    """T readings: a token, then phrases that suit it, each choice knowing the ones before.  LadRa-Net Eqs. (12)-(14)

        ā^r_t = F([h^r_1, ..., h^r_l], h̄_(t-1), h_ab, ā^(0..r-1)_t)               r = 0 the tokens, r ≥ 1 the phrases
        α^r_t = ω_fᵀ tanh(W_f ā^r_t),   ā_t = Σ_r softmax_r(α_t) ā^r_t,   h̄_t = GRU(ā_t, h̄_(t-1)),   h̄_0 = h_ab

    Departs: the sum over r starts with 1 and leaves out the token, which the phrases only "support". Ours starts with
    0; `printed` {12} with 1. {14} as in choose and coverage.
    Assumes: V_rd is one map for all earlier choices, W_φ one for all r, as their indices say.

    Args:
        states: E tensors (B, L, d), h^r. mask: bool (B, L), True = real. h_ab: (B, d). choices: E of Choice, all
            but the first chained. W_f: Linear d → A, w_f: Linear A → 1, W_phi: Linear d → 1, all without bias.
        gru: nn.GRUCell. steps: T. beta: as in choose. printed: of {12, 14}.
    Returns:
        h̄_1, ..., h̄_T (B, T, d); a dict of "reading", the weights of each choice, and "coverage", what they leave,
        (B, T, E, L), and "mixture" (B, T, E), softmax_r.
    """
    typeset, h, steps_taken = 14 in printed, h_ab, []
    keys = [choice.W_d(x) for choice, x in zip(choices, states, strict=True)]
    told = [choice.M_d(h_ab) for choice in choices]
    phi = [read_limit(x, W_phi, steps, typeset) for x in states]
    left = [torch.ones_like(p) for p in phi]
    summed = torch.arange(len(states), device=mask.device) >= int(12 in printed)     # the r that the sum runs over
    for _ in range(steps):
        chosen, reading = [], []
        for r, choice in enumerate(choices):
            clue = choice.U_d(h) + told[r] + (choice.V_d(sum(chosen)) if r else 0)
            a, weights, m = choose(states[r], keys[r], mask, clue, choice.w_d, beta, left[r], typeset)
            left[r] = coverage(left[r], m if typeset else weights, phi[r], mask, typeset)
            chosen.append(a)
            reading.append(weights)
        a = torch.stack(chosen, 1)  # (B, E, d)
        mixture = attention_weights(w_f(W_f(a).tanh())[..., 0], summed.expand(len(a), -1))  # (B, E)
        h = gru((mixture.to(a.dtype)[:, None] @ a)[:, 0], h)
        steps_taken.append((h, torch.stack(reading, 1), torch.stack(left, 1), mixture))
    h, *parts = (torch.stack(x, 1) for x in zip(*steps_taken))
    return h, dict(zip(("reading", "coverage", "mixture"), parts))


class LadraNet(nn.Module):
    """BERT, phrases from CNNs, and T readings of both: LadRa-Net Eqs. (9)-(15). The encoder may be RoBERTa.

    Departs: β as in DrrNet, printed {13}. Ours is 600: on 64 MRPC pairs, with pre-trained weights in a BERT of width
    384 and initial ones behind it, the largest weight is above 0.9 in 64 % of the choices and its slope above 0.01 in
    82 % (37 and 96 % with 300; 77 and 67 % with 1000). {12}, {14} as in the functions. The loss has the softmax of
    Eq. (15).
    Assumes: the GRU is as wide as BERT, because Eq. (15) averages its states with h_ab; so is the MLP. α starts as the
    mean of the blocks; CNNs start so that phrases are as large as tokens, and one β fits all. Their middle is 500/768 of
    BERT's width. No dropout outside BERT. Special tokens may be chosen.
    without, the paper's Table VII: "phrase-cnn", BERT + DSA; "dsa", BERT + PCNN: v = h_ab; "global": no h_ab in Eq.
    (15); "bert", Stack-GRU + PCNN + DSA: three GRUs on BERT's embeddings, a linear map to h⁰, its mean for [CLS];
    "average-pooling", max-pooling fusion: the maximum in Eq. (15).

    Args: config: BertConfig. classes: C; 1 for a score. printed: of PRINTED. without: of ABLATIONS.
        attention_size: A. sizes: in place of the class's own, as STEPS=4.
    Raises: ValueError for an option that is not known, or if nothing is left to judge by.
    """

    PRINTED = frozenset({12, 13, 14})
    ABLATIONS = frozenset({"phrase-cnn", "dsa", "global", "bert", "average-pooling"})
    PRIOR = None
    KERNELS, STEPS, BETA = (2, 3), 5, 600.0

    def __init__(self, config, classes, printed=frozenset(), without=frozenset(), attention_size=200, **sizes):
        super().__init__()
        check_options(type(self), printed, without)
        vars(self).update(check_sizes(type(self), sizes))
        if {"dsa", "global"} <= set(without):
            raise ValueError("--without dsa, global: one of them must stay for ladranet to judge by")
        self.printed, self.without = frozenset(printed), frozenset(without)
        self.beta = 1e8 if 13 in printed else self.BETA
        d, kernels = config.hidden_size, self.KERNELS if "phrase-cnn" not in without else ()
        self.bert = Bert(config)
        if "bert" in without:
            d_g = max(1, d // 3)                                                # DRr-Net's 256 beside BERT-base
            self.grus = nn.ModuleList(nn.GRU(d + l * d_g, d_g, batch_first=True) for l in range(3))
            self.W_0 = linear(d + 3 * d_g, d)
        else:
            self.alpha = nn.Parameter(torch.full((config.num_layers,), 1 / config.num_layers))
        middle = d * 500 // 768
        self.first = nn.ModuleList(convolution(d, middle, k, "relu") for k in kernels)
        self.second = nn.ModuleList(convolution(middle, d, k, "linear") for k in kernels)
        self.W = nn.ModuleList(linear(d, attention_size) for _ in kernels)
        self.w = nn.ModuleList(linear(attention_size, 1, bias=False) for _ in kernels)
        if "dsa" not in without:
            self.choices = nn.ModuleList(Choice(d, d, attention_size, d, r > 0) for r in range(len(kernels) + 1))
            self.W_f, self.w_f = linear(d, attention_size, bias=False), linear(attention_size, 1, bias=False)
            self.W_phi, self.gru = linear(d, 1, bias=False), nn.GRUCell(d, d)
        self.mlp = perceptron(d, d, classes, 1)

    def encode(self, input_ids, segment, mask, trace):
        """h⁰ (B, L, d), Eq. (9), and the vector of [CLS], the last block's (B, d)."""
        if "bert" in self.without:
            x = stacked_gru(self.bert.embeddings(input_ids, segment), mask, self.grus)
            states = self.W_0(x).masked_fill(~mask[..., None], 0.0)  # (B, L, d)
            return states, states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        blocks = self.bert(input_ids, segment, mask)[0][1:]
        record(trace, layers=self.alpha)
        return layer_mix(blocks, self.alpha), blocks[-1][:, 0]

    def forward(self, input_ids, segment, mask, word_index=None, trace=None):
        """input_ids, segment: int64 (B, L); mask: bool (B, L), True = real; word_index is not used → logits (B, C).

        Trace: "layers" (N,), α of Eq. (9); "pooling" (E - 1, B, L), Eq. (11); "reading", "coverage" (B, T, E, L) and
        "mixture" (B, T, E), see dynamic_sequential_attention. What `without` removes is missing.
        """
        h_0, cls = self.encode(input_ids, segment, mask, trace)
        phrases = [phrase_cnn(h_0, mask, *layers) for layers in zip(self.first, self.second)]
        pooled = [attentive_pooling(x, mask, W, w) for x, W, w in zip(phrases, self.W, self.w)]
        h_ab = torch.stack([cls, *(h for h, _ in pooled)]).mean(0)              # LadRa-Net Eq. (11), last line
        if pooled:
            record(trace, pooling=torch.stack([weights for _, weights in pooled]))
        vectors = [] if "global" in self.without else [h_ab[:, None]]
        if "dsa" not in self.without:
            h, seen = dynamic_sequential_attention([h_0, *phrases], mask, h_ab, self.choices, self.W_f, self.w_f,
                                                   self.W_phi, self.gru, self.STEPS, self.beta, self.printed)
            record(trace, **seen)
            vectors.append(h)
        vectors = torch.cat(vectors, 1)
        v = vectors.amax(1) if "average-pooling" in self.without else vectors.mean(1)
        return self.mlp(v)  # LadRa-Net Eq. (15)


# ---- Whole models ---------------------------------------------------------------------------------------------------

METHODS = {"bert": SelfAttention, "dabert": DabertAttention, "dafa": DafaAttention, "knowledge": KnowledgeAttention,
           "drrnet": DrrNet, "ladranet": LadraNet}      # an attention class goes into a Matcher; the last two are models


class Matcher(nn.Module):
    """An encoder whose chosen layers carry a paper's attention, and a linear classifier on the pooled [CLS].

    Args:
        model: a name of METHODS with an attention class. config: BertConfig of the encoder. classes: outputs; 1 for a regression.
        layers: indices of the layers that carry the method, at least one. options: `printed`, `scope`, `without`, as
            the attention class takes them.
    Raises: ValueError for a layer that is not there.
    """

    def __init__(self, model, config, classes, layers=(0,), **options):
        super().__init__()
        method = METHODS[model]
        if not layers or not set(layers) <= set(range(config.num_layers)):
            raise ValueError(f"--layers {', '.join(map(str, layers)) or 'none'}: this encoder's layers are 0 to "
                             f"{config.num_layers - 1}")
        make = (lambda i: method(config, **options) if i in layers else SelfAttention(config))
        self.bert = Bert(config, make if method is not SelfAttention else None)
        self.carrier = layers[0] if getattr(method, "PRIOR", None) else None    # spreads the prior, for all layers
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = linear(config.hidden_size, classes)

    def forward(self, input_ids, segment, mask, word_index=None, prior=None, trace=None):
        """input_ids, segment, word_index: int64 (B, L); mask: bool (B, L); prior: (B, n, m) or (B, n, m, R), for a model
        that takes one → logits (B, C). Raises ValueError for a missing or useless prior."""
        if (prior is None) != (self.carrier is None):
            raise ValueError(f"Matcher: this model needs {'no prior' if prior is not None else 'a prior, see its spread'}")
        if prior is not None:
            prior = self.bert.layers[self.carrier].attention.spread(prior, word_index, segment)  # (B, L, L)
        _, pooled = self.bert(input_ids, segment, mask, prior, trace)
        return self.classifier(self.dropout(pooled))  # (B, C)
