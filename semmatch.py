"""The papers, equation by equation: each numbered equation is a function, each method an attention class.

Papers
    DAFA    Song et al., "Improving Semantic Matching through Dependency-Enhanced Pre-trained Model with Adaptive
            Fusion", Findings of EMNLP 2022. Eqs. (1)-(5) build the prior and live in priors.py; (6)-(9) are here.

How to read this file
    A method is a subclass of bert_min.SelfAttention that overrides `attend`: queries, keys and values are projected
    by the pre-trained weights, the paper's equations follow, and what comes out replaces the plain attention output
    before the layer's output projection. Equations that papers share stand first, once, and cite each of them.

    Every equation is computed as its text intends. `printed={6, 7}` computes those numbers as typeset, so that a
    reader can watch what that does; the docstrings say under `Departs:` what differs and under `Assumes:` what the
    paper leaves open. `without={"gates"}` removes a part, as the papers' ablation tables do.

Names (ours | DAFA)
    sem | Sem, s_i      dep | Dep, d_i      prior | M_F (n, m)      multiplier | M_F spread over tokens (L, L)
    g | g_i             f | f_i             attention_size | d_seq (see guided_attention)

Left out: what trains the models (train.py), what the pairs are (tasks.py), parsing and word weights (priors.py).
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

from bert_min import Bert, SelfAttention, attention_weights, linear, merge_heads, split_heads

# Axes: B batch, L tokens of the packed pair, d signal size, H heads, k head size, A attention size, n words of a,
# m words of b, C classes


# ---- Equations that papers share ------------------------------------------------------------------------------------

class AdditiveScores(torch.autograd.Function):
    """score_ij = wᵀ tanh(keys_j + queries_i): the additive attention of Bahdanau et al. (2015).

    Written out, tanh(keys_j + queries_i) is a tensor of B·L·L·A numbers, and autograd would keep it for the backward
    pass. Here both passes walk over pairs of tokens block by block; the backward pass computes its blocks again.
    Memory: B·L·L scores and one block of at most `BLOCK` numbers (one row of a sentence where L·A is larger), so it
    grows with L², never with L²·A. Nor does a block need an exponential for each of its numbers, because

        r_ij = 1 / (1 + e^(2 keys_j) e^(2 queries_i)),   tanh(keys_j + queries_i) = 1 - 2 r_ij,   tanh' = 4 (r - r²)
        ∂w = Σ_ij e_ij (1 - 2 r),   ∂queries_i = w Σ_j e_ij 4 (r - r²),   ∂keys_j = w Σ_i e_ij 4 (r - r²)

    with e the incoming gradient. That takes parts whose e^(2x) is a finite number; with larger ones, and on a GPU,
    where asking for the largest would make the CPU wait, r is the sigmoid of -2 (keys_j + queries_i) itself.

    Args: keys (B, L, A), queries (B, L, A), w (A,), float32 or float64. Returns: (B, L, L), row i is queries_i's.
    """

    BLOCK = {"cpu": 2 ** 17, "cuda": 2 ** 26}    # numbers in a block: half a megabyte, a core's cache; 256 MB

    @staticmethod
    def blocks(keys, queries, split):
        """(sentences, query rows, r of shape (sentences, rows, L, A)) of one block after the other. split: keys and
        queries are the exponentials already."""
        size, row = AdditiveScores.BLOCK.get(keys.device.type, 2 ** 22), max(1, keys[0].numel())
        many, rows = max(1, size // (row * queries.shape[1])), max(1, size // row)
        for b in (slice(i, i + many) for i in range(0, len(keys), many)):
            for i in (slice(i, i + rows) for i in range(0, queries.shape[1], rows)):
                k, q = keys[b, None], queries[b, i, None]
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


def guided_attention(values, guide, mask, W_values, W_guide, w, printed=False):
    """Each guide vector attends over all values and replaces the value at its place.  DAFA Eq. (7), either half.

        δ_i = tanh(W_D Dep ⊕ (W_s s_i + b_s)),      d*_i = Dep softmax(w_d δ_i + b_d)        ⊕ is concatenation
        γ_i = tanh(W_S Sem ⊕ (W_d* d*_i + b_d*)),   s*_i = Sem softmax(w_s* γ_i + b_s*)

    Bridge: in the first line values = Dep, guide = Sem, W_values = W_D, W_guide = W_s; in the second values = Sem,
    guide = d*, W_values = W_S, W_guide = W_d*.

    Departs: after ⊕ and tanh the score is a sum, w₁ tanh(W_D d_j) + (w₂ tanh(W_s s_i + b_s) + b). The bracket is the
    same number for every j and cancels in the softmax: the guide has no influence and all rows of d* are equal. We
    compute the additive score wᵀ tanh(W_D d_j + W_s s_i + b_s), in which guide and value meet before tanh; b, which
    cancels as well, is dropped. `printed` computes the page.
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


def gated_fusion(sem, dep, W_sem, W_dep, W_g=None):
    """One gate per token mixes the two signals.  DAFA Eq. (8).

        d̂_i = tanh(W_d d*_i + b_d),  ŝ_i = tanh(W_s s*_i + b_s),  g_i = σ(W_g (d̂_i ⊕ ŝ_i)),
        v_i = g_i ŝ_i + (1 - g_i) d̂_i

    Assumes: W has no weights of its own for each token i; d_hid is the signal's size d. Without W_g the gate is one
    half, the plain mean: our reading of "w/o gate mechanism" (Table 8).

    Args: sem, dep: (B, L, d), s* and d*. W_sem, W_dep: Linear d → d. W_g: Linear 2d → 1 without bias, or None.
    Returns: v (B, L, d), between ŝ and d̂ in every coordinate, and the gate g (B, L, 1) in (0, 1).
    """
    d_hat, s_hat = W_dep(dep).tanh(), W_sem(sem).tanh()
    g = W_g(torch.cat([d_hat, s_hat], -1)).sigmoid() if W_g is not None else d_hat.new_full((*sem.shape[:2], 1), 0.5)
    return g * s_hat + (1 - g) * d_hat, g


def filtration_gate(sem, v, W_v, W_l, W_f=None, printed=False):
    """Lets the fused signal in, or filters it out.  DAFA Eq. (9).

        f_i = σ(W_f (s_i ⊕ (W_v v_i + b_v))),   l_i = f_i tanh(W_l v_i + b_l)

    Departs: on the page l_i replaces s_i, although the gate "will incorporate the fusion features and the original
    features", "otherwise, the fusion information will be filtered out": with f near 0 the page filters out
    everything. We return s_i + l_i; `printed` returns l_i alone.
    Assumes: as Eq. (8). Without W_f and W_v the gate is one, the other half of "w/o gate mechanism".

    Args: sem, v: (B, L, d). W_v, W_l: Linear d → d. W_f: Linear 2d → 1 without bias, or None.
    Returns: the layer's signal (B, L, d) and the gate f (B, L, 1) in (0, 1).
    """
    f = W_f(torch.cat([sem, W_v(v)], -1)).sigmoid() if W_f is not None else v.new_ones(*v.shape[:2], 1)
    l = f * W_l(v).tanh()  # (B, L, d)
    return (l if printed else sem + l), f


def check_options(method, printed, without, scope="hidden"):
    """ValueError, worded for the command line, unless an attention class knows these equations and ablations."""
    for option, given, known in (("printed", printed, method.PRINTED), ("without", without, method.ABLATIONS),
                                 ("scope", {scope}, {"hidden", "head"})):
        if unknown := set(given) - known:
            raise ValueError(f"--{option} {', '.join(map(str, unknown))}: {method.__name__.removesuffix('Attention').lower()} knows "
                             f"{', '.join(map(str, sorted(known)))}")


# ---- DAFA -----------------------------------------------------------------------------------------------------------

def spread_prior(prior, word_index, segment):
    """A matrix over words becomes a matrix over tokens.

    "We change the dimension of M_F by adding 1, and ensure each element is in the corresponding position in the
    sentence alignment" (DAFA § 2.2).
    Assumes: each piece of a word has its word's value; both cross blocks are filled, a × b and, transposed, b × a;
    special tokens, padding and pairs inside one sentence get 1, which changes nothing in a product.

                [CLS] a  a  [SEP] b  b  [SEP]
        [CLS]     ·   ·  ·    ·   ·  ·    ·        · 1
        a         ·   ·  ·    ·   P  P    ·        P prior[i, j]
        [SEP]     ·   ·  ·    ·   ·  ·    ·
        b         ·   Pᵀ Pᵀ   ·   ·  ·    ·

    Args:
        prior: (B, n, m). word_index: int64 (B, L), each piece's word in its own sentence, -1 where there is none.
        segment: int64 (B, L), 0 in sentence a, 1 in sentence b.
    Returns: (B, L, L), symmetric, on prior's device.
    """
    batch = torch.arange(len(prior), device=prior.device)[:, None, None]
    i = word_index.clamp(0, prior.shape[1] - 1)
    j = word_index.clamp(0, prior.shape[2] - 1)
    in_a, in_b = (word_index >= 0) & (segment == 0), (word_index >= 0) & (segment == 1)
    values = prior[batch, i[:, :, None], j[:, None, :]]  # (B, L, L)
    block = torch.where(in_a[:, :, None] & in_b[:, None, :], values, 1.0)  # (B, L, L)
    transposed = in_b[:, :, None] & in_a[:, None, :]
    return torch.where(transposed, values.transpose(1, 2), block)  # (B, L, L)


def calibrated_attention(q, k, v, multiplier, mask, dropout=0.0, printed=False, trace=None):
    """Attention whose weights are calibrated by a prior.  DAFA Eq. (6), second line.

        Dep = softmax((QKᵀ ⊙ M_F) / √d_k) V

    Departs: a product turns a *negative* q·k with a high prior into a lower weight, the opposite of "strengthening
    the attention weight of same dependency". We multiply the weights, not the scores: weight_ij ∝ M̃_ij exp(q_i·k_j /
    √d_k), which is softmax(QKᵀ/√d_k + ln M̃). A larger entry never lowers its own weight, and M̃ = 1 everywhere is
    plain attention. `printed` multiplies the scores.
    Assumes: "adding 1" to the dimension of M_F is read as M̃ = 1 + M_F, so that a pair of words without any
    agreement is left as it is; as typeset its score would become 0.

    Args:
        q, k, v: (B, H, L, k). mask: bool (B, L). dropout: probability on the weights.
        multiplier: (B, L, L), > 0: M̃ = 1 + M_F in the cross blocks, 1 elsewhere; with `printed`, M_F in the cross
            blocks and 1 elsewhere.
    Returns: (B, H, L, k). trace, if given, gets "calibrated", the weights (B, H, L, L).
    """
    if not printed and trace is None:
        bias = multiplier.log().masked_fill(~mask[:, None], float("-inf"))  # (B, L, L)
        return F.scaled_dot_product_attention(q, k, v, bias[:, None].to(q.dtype), dropout_p=dropout)  # (B, H, L, k)
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5  # (B, H, L, L)
    scores = scores * multiplier[:, None] if printed else scores + multiplier.log()[:, None]
    weights = attention_weights(scores, mask[:, None, None])
    if trace is not None:
        trace["calibrated"] = weights.detach()
    return F.dropout(weights, dropout).to(v.dtype) @ v


class DafaAttention(SelfAttention):
    """Dependency-enhanced adaptive fusion attention: DAFA Eqs. (6)-(9).

    Departs: the paper fuses inside "each head"; scope "hidden" fuses the concatenated heads before the output
    projection, once instead of H times. scope "head" is the page, with one set of weights for all heads.

    Args:
        config: BertConfig. printed: of PRINTED, the equations computed as typeset. scope: "hidden" or "head".
        without: of ABLATIONS, the paper's Table 8. "cross-attention": d* = d, s* = s; "gates": see Eqs. (8), (9);
        "fusion": the average of the two signals. attention_size: A, the width of guided attention.
    Trace: "attention", "calibrated" (B, H, L, L); "semantic_guided", "dependency_guided" (B, L, L), whose row i is
        token i's guide; gates "g", "f" (B, L, 1). With scope "head" the heads stand in the batch axis: B·H for B.
    Raises: ValueError for an option that is not known.
    """

    PRINTED = frozenset({4, 6, 7, 9})     # Eq. (4) is priors.subgraph_similarity
    ABLATIONS = frozenset({"tree", "subgraph", "tfidf", "cross-attention", "gates", "fusion"})  # first three: priors
    PRIOR = "dependency"

    def __init__(self, config, printed=frozenset(), scope="hidden", without=frozenset(), attention_size=128):
        super().__init__(config)
        check_options(type(self), printed, without, scope)
        self.printed, self.scope, self.without = frozenset(printed), scope, frozenset(without)
        d = config.hidden_size if scope == "hidden" else config.hidden_size // config.num_heads
        if "fusion" in self.without:
            return
        if "cross-attention" not in self.without:
            width, bias = (2 * attention_size, True) if 7 in self.printed else (attention_size, False)
            self.W_D, self.W_s = linear(d, attention_size, bias=False), linear(d, attention_size)
            self.W_S, self.W_dstar = linear(d, attention_size, bias=False), linear(d, attention_size)
            self.w_d, self.w_sstar = linear(width, 1, bias), linear(width, 1, bias)
        self.W_dhat, self.W_shat, self.W_l = linear(d, d), linear(d, d), linear(d, d)
        gates = "gates" not in self.without
        self.W_g = linear(2 * d, 1, bias=False) if gates else None
        self.W_v, self.W_f = (linear(d, d), linear(2 * d, 1, bias=False)) if gates else (None, None)

    def multiplier(self, prior, word_index, segment):
        """M̃ (B, L, L) of Eq. (6) from M_F (B, n, m)."""
        return spread_prior(prior if 6 in self.printed else 1 + prior, word_index, segment)  # (B, L, L)

    def attend(self, hidden, q, k, v, mask, prior, trace):
        """Sem and Dep (Eq. 6), then their fusion. prior: the multiplier (B, L, L). Returns (B, L, d)."""
        sem = super().attend(hidden, q, k, v, mask, None, trace)  # (B, L, d)
        dropout = self.dropout if self.training else 0.0
        dep = calibrated_attention(q, k, v, prior, mask, dropout, 6 in self.printed, trace)
        if self.scope == "hidden":
            return self.fuse(sem, merge_heads(dep), mask, trace)
        sem = split_heads(sem, self.heads).flatten(0, 1)              # heads stand in the batch axis
        out = self.fuse(sem, dep.flatten(0, 1), mask.repeat_interleave(self.heads, 0), trace)
        return merge_heads(out.unflatten(0, (-1, self.heads)))  # (B, L, d)

    def fuse(self, sem, dep, mask, trace):
        """Guided attention twice, gated fusion, filtration gate: Eqs. (7)-(9) on (B, L, d) signals."""
        if "fusion" in self.without:
            return (sem + dep) / 2
        d_star, s_star = dep, sem
        if "cross-attention" not in self.without:
            printed = 7 in self.printed
            d_star, by_sem = guided_attention(dep, sem, mask, self.W_D, self.W_s, self.w_d, printed)
            s_star, by_dep = guided_attention(sem, d_star, mask, self.W_S, self.W_dstar, self.w_sstar, printed)
        v, g = gated_fusion(s_star, d_star, self.W_shat, self.W_dhat, self.W_g)
        out, f = filtration_gate(sem, v, self.W_v, self.W_l, self.W_f, 9 in self.printed)
        if trace is not None:
            trace.update(g=g.detach(), f=f.detach())
            if "cross-attention" not in self.without:
                trace.update(semantic_guided=by_sem.detach(), dependency_guided=by_dep.detach())
        return out


# ---- Whole models ---------------------------------------------------------------------------------------------------

ATTENTION = {"bert": SelfAttention, "dafa": DafaAttention}


class Matcher(nn.Module):
    """An encoder whose chosen layers carry a paper's attention, and a linear classifier on the pooled [CLS].

    Args:
        model: a name of ATTENTION. config: BertConfig of the encoder. classes: outputs; 1 for a regression.
        layers: indices of the layers that carry the method, at least one. options: `printed`, `scope`, `without`, as
            the attention class takes them.
    Raises: ValueError for a layer that is not there.
    """

    def __init__(self, model, config, classes, layers=(0,), **options):
        super().__init__()
        method = ATTENTION[model]
        if not layers or not set(layers) <= set(range(config.num_layers)):
            raise ValueError(f"--layers {', '.join(map(str, layers)) or 'none'}: this encoder's layers are 0 to "
                             f"{config.num_layers - 1}")
        make = (lambda i: method(config, **options) if i in layers else SelfAttention(config))
        self.bert = Bert(config, make if method is not SelfAttention else None)
        self.carrier = layers[0] if method is not SelfAttention else None
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = linear(config.hidden_size, classes)

    def forward(self, input_ids, segment, mask, word_index=None, prior=None, trace=None):
        """input_ids, segment, word_index: int64 (B, L); mask: bool (B, L); prior: (B, n, m), for a model that takes
        one → logits (B, C). Raises ValueError for a missing or useless prior."""
        if (prior is None) != (self.carrier is None):
            raise ValueError(f"Matcher: this model needs {'no prior' if prior is not None else 'a prior (B, n, m)'}")
        if prior is not None:
            prior = self.bert.layers[self.carrier].attention.multiplier(prior, word_index, segment)  # (B, L, L)
        _, pooled = self.bert(input_ids, segment, mask, prior, trace)
        return self.classifier(self.dropout(pooled))  # (B, C)
