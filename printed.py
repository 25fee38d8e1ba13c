"""The equations as the pages print them, where that differs from what we compute.

Each form stands below the sentence that says what the misprint breaks; tests/test_as_printed.py
shows it. The equation that we compute, and why, is the function of the same name in priors.py,
semmatch.py or reread.py, with the same arguments. `--printed 6,7` puts these in their places:

    DAFA[7] = {"guided_attention": guided_attention, ...}    number -> name in the class -> function

Three numbers have no function here, because a constant in the class's constructor is all that
changes: DRr-Net (6) and LadRa-Net (13), where β is 10⁸, and DRr-Net (8), the loss of P alone.
"""
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_min import attention_weights, linear
from support.kernels import dot_products, tanh_scores
from support.shown import note

# Axes: B batch, L tokens of the packed pair, d width of a signal, H heads, k head size, A attention
# size, n words of a sentence or of a, m words of b, R relations, E readers


def difference_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout, difference_scores):
    """DABERT Eq. (3): softmax((‖Q - K‖ + M) / √d_k) V, with M = -10⁴, BERT's own constant.

    The mask leaks: a score of 1e5 outweighs M, and a row without another key ignores it.
    """
    M = torch.where(mask, 0.0, -1e4)[:, None, None]  # (B, 1, 1, L)
    beta = difference_scores(q, k) + M  # (B, H, L, L)
    weights = (beta / q.shape[-1] ** 0.5).softmax(-1)  # (B, H, L, L)
    note(difference=weights)
    return F.dropout(weights, dropout).to(v.dtype) @ v  # (B, H, L, k)


def difference_scores(q: Tensor, k: Tensor):
    """DABERT Eq. (4): Σ_k (Q_ik - K_jk), without bars, k from 1.

    It is ΣQ_i - ΣK_j, and ΣQ_i cancels in the softmax: every query gets the same row of weights.
    """
    q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
    return q.sum(-1)[..., :, None] - k.sum(-1)[..., None, :]  # (B, H, L, L)


def guided_attention(values: Tensor, guide: Tensor, mask: Tensor, W_values, W_guide, w):
    """DABERT Eq. (5), DAFA Eq. (7), Knowledge Eq. (6): softmax(w tanh(W_D d_j ⊕ (W_s s_i + b)) + b)

    ⊕ is concatenation, so that the guide's term has no j and cancels in the softmax: the guide has
    no influence, all rows are equal, and the bias does nothing.
    """
    w_values, w_guide = w.weight[0].chunk(2)
    of_values = W_values(values).tanh() @ w_values
    of_guide = W_guide(guide).tanh() @ w_guide + w.bias
    scores = of_values[:, None, :] + of_guide[:, :, None]  # (B, L, L)
    weights = attention_weights(scores, mask)  # (B, L, L)
    return weights.to(values.dtype) @ values, weights


def score_map(A):
    """w of these equations, for a concatenation: Linear 2A → 1, with its bias."""
    return linear(2 * A, 1)


def filtration_gate(sem: Tensor, v: Tensor, W_v: nn.Module, W_l: nn.Linear, W_f: nn.Module):
    """DABERT Eq. (7), DAFA Eq. (9), Knowledge Eq. (8): l_i alone goes on.

    A closed gate erases all that attention found.
    """
    f = W_f(torch.cat([sem, W_v(v)], -1)).sigmoid()  # (B, L, 1)
    return f * W_l(v).tanh(), f


def subgraph_similarity(a, b, alpha=1.0, nu=0.5):
    """DAFA Eq. (4): Σ (α s + ν S) over all pairs of children, if the words and relations agree.

    Every pair of children brings α, whether they match or not, and a leaf gets none.
    """
    match = (a.symbols[:, None] == b.symbols) & (a.types[:, None] == b.types)  # (n+1, m+1)
    head_a, head_b = (np.eye(len(x.symbols))[:, x.heads] for x in (a, b))   # 1 at a word's head
    S = np.zeros(match.shape)  # (n+1, m+1)
    for _ in range(a.depths.max()):  # from the leaves up
        S = match * (head_a @ (alpha + nu * S[1:, 1:]) @ head_b.T)  # (n+1, m+1)
    return S[1:, 1:]  # (n, m)


def dependency_factor(M_F: Tensor):
    """DAFA Eq. (6): each score is multiplied by M_F, those outside the cross blocks by 1.

    A word without any agreement gets the score 0. If the paper's "adding 1" means 1 + M_F, it keeps
    its score; that a high prior weakens a negative score, below, is a defect of both readings.
    """
    return M_F, 1.0


def calibrated_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, M: Tensor, dropout=0.0):
    """DAFA Eq. (6), Knowledge Eq. (5): softmax((QKᵀ ⊙ M) / √d_k) V.

    If q·k is negative, a high prior gives a low weight.
    """
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5 * M[:, None]  # (B, H, L, L)
    weights = attention_weights(scores, mask)  # (B, H, L, L)
    note(calibrated=weights)
    return F.dropout(weights, dropout).to(v.dtype) @ v  # (B, H, L, k)


def knowledge_scores(hidden: Tensor, bias: Tensor):
    """Knowledge Eq. (1): h_iᵀ h_j + G(k_ij).

    Raw products saturate the softmax: a relation moves next to nothing.
    """
    return dot_products(hidden) + bias  # (B, L, L)


def relation_indicator(relations: Tensor):
    """Knowledge Eq. (2): synonym, antonym, hypernym, hyponym.

    The paper's own example, wheat and corn, are co-hyponyms, and in none of the four.
    """
    return relations[..., :4].any(-1)  # (B, n, m)


def knowledge_factor(ln_K: Tensor, cross: Tensor):
    """Knowledge Eq. (5): each score is multiplied by K_prior, those outside the cross blocks by 1.

    K_prior averages (1/n + 1/m)/2: all scores between the sentences shrink, whatever the words.
    """
    K = torch.where(cross, ln_K, 0.0).exp()  # (B, L, L)
    note(prior=K)
    return K  # (B, L, L)


def mixture(chosen: Tensor, W_f: nn.Linear, w_f: nn.Linear):
    """LadRa-Net Eq. (12): the sum over r starts with 1.

    It leaves out the token, which the phrases only support.
    """
    scores = w_f(W_f(chosen).tanh())[..., 0]  # (B, E)
    phrases = torch.arange(scores.shape[1], device=scores.device) >= 1  # (E,)
    weights = attention_weights(scores, phrases.expand_as(scores))  # (B, E)
    return (weights.to(chosen.dtype)[:, None] @ chosen)[:, 0], weights


def choose(states, keys, mask, clue, w_d, beta, left):
    """LadRa-Net Eq. (14): m̄ = c_(t-1) ⊙ ωᵀ tanh(W_d A + clue).

    A factor below 1 makes a negative score higher: a word that was read is read again.
    """
    m = left * tanh_scores(keys, clue, w_d.weight[0])  # (B, n)
    weights = attention_weights(beta * m, mask)  # (B, n)
    return (weights.to(states.dtype)[:, None] @ states)[:, 0], weights, m


def coverage(left, read, phi, mask):
    """LadRa-Net Eq. (14): c_t = c_(t-1) - m̄_t / φ, where `read` is m̄.

    With negative scores c grows at every step, and with a score above 2φ it changes its sign.
    """
    return left - read / phi  # (B, n)


def read_limit(states, W_phi, steps):
    """LadRa-Net Eq. (14): φ = T σ(W_φ A).

    φ near 0 lets one reading spend a token many times over.
    """
    return steps * W_phi(states)[..., 0].sigmoid()  # (B, n)


DABERT = {3: {"difference_attention": difference_attention},
          4: {"difference_scores": difference_scores},
          5: {"guided_attention": guided_attention, "score_map": score_map},
          7: {"filtration_gate": filtration_gate}}
DAFA = {4: {"subgraph_similarity": subgraph_similarity},
        6: {"factor": dependency_factor, "calibrated_attention": calibrated_attention},
        7: {"guided_attention": guided_attention, "score_map": score_map},
        9: {"filtration_gate": filtration_gate}}
KNOWLEDGE = {1: {"knowledge_scores": knowledge_scores},
             2: {"relation_indicator": relation_indicator},
             5: {"factor": knowledge_factor, "calibrated_attention": calibrated_attention},
             6: {"guided_attention": guided_attention, "score_map": score_map},
             8: {"filtration_gate": filtration_gate}}
DRR_NET = {6: {}, 8: {}}
LADRA_NET = {12: {"mixture": mixture}, 13: {},
             14: {"choose": choose, "coverage": coverage, "read_limit": read_limit}}
