"""The right functions of the lessons, to be read: no autocast, no fused kernel.

A lesson shows one of them when yours is right. They stand in for functions that are missing
(LESSON=solved) or wrong (grade.py). Where the library's function is as plain, it is imported here.
tests/test_tutorials.py compares the others with the library's. Shapes and masks are in the
docstrings of the lessons. The classes at the end are the layers of your own file, my_semmatch.py.
"""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from bert_min import SelfAttention, merge_heads, split_heads
from priors import tree_similarity
from reread import DrrNet, LadraNet, dynamic_sequential_attention, phrase_cnn, reread
from semmatch import (DabertAttention, DafaAttention, KnowledgeAttention, co_attention,
                      knowledge_scores, spread_prior)
from support.shown import note

# ---- 1. Mini-BERT -------------------------------------------------------------------------------

def attention_weights(scores, mask):
    keys = mask.reshape(len(mask), *[1] * (scores.dim() - 2), -1)  # (B, 1, ..., L)
    weights = scores.masked_fill(~keys, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~keys, 0.0)  # a row without a key was uniform until here


def attention(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (B, H, L, L)
    return attention_weights(scores, mask) @ v  # (B, H, L, k)


def layer(hidden, mixed, attention_output, attention_norm, intermediate, output, output_norm):
    hidden = attention_norm(hidden + attention_output(mixed))  # (B, L, d)
    return output_norm(hidden + output(F.gelu(intermediate(hidden))))  # (B, L, d)


def train_steps(model, batches, optimizer, clip):
    losses = []
    for inputs, labels in batches:
        loss = F.cross_entropy(model(**inputs), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


# ---- 2. DABERT ----------------------------------------------------------------------------------

def difference_scores(q, k):
    return (q[..., :, None, :] - k[..., None, :, :]).abs().sum(-1)  # (B, H, L, L)


def difference_attention(q, k, v, mask):
    scores = difference_scores(q, k) / q.shape[-1] ** 0.5  # (B, H, L, L)
    return attention_weights(scores, mask) @ v  # (B, H, L, k)


def demand_guide(f):
    values, guide, other = torch.randn(3, 5, 4)
    found = f(values, guide)
    steady = torch.allclose(found, f(values, guide))  # no noise
    by_guide = not torch.allclose(found, f(values, other), atol=1e-3)
    by_values = not torch.allclose(found, f(values + 1, guide), atol=1e-3)
    return steady and by_guide and by_values


def guided_attention(values, guide, mask, W_values, W_guide, w):
    keys, queries = W_values(values), W_guide(guide)  # (B, L, A) each
    scores = w((keys[:, None, :] + queries[:, :, None]).tanh())[..., 0]  # (B, L, L)
    weights = attention_weights(scores, mask)  # (B, L, L)
    return weights @ values, weights


def gated_fusion(sem, other, W_sem, W_other, W_g):
    d_hat, s_hat = W_other(other).tanh(), W_sem(sem).tanh()  # (B, L, d) each
    g = W_g(torch.cat([d_hat, s_hat], -1)).sigmoid()  # (B, L, 1)
    return g * s_hat + (1 - g) * d_hat, g


def filtration_gate(sem, v, W_v, W_l, W_f):
    f = W_f(torch.cat([sem, W_v(v)], -1)).sigmoid()  # (B, L, 1)
    return sem + f * W_l(v).tanh(), f


# ---- 3. DAFA ------------------------------------------------------------------------------------

def subgraph_similarity(a, b):
    match = (a.symbols[:, None] == b.symbols) & (a.types[:, None] == b.types)  # (n+1, m+1)
    S = 1.0 * match
    for i in sorted(range(1, len(a.symbols)), key=lambda place: -a.depths[place]):  # leaves first
        for j in np.flatnonzero(match[i, 1:]) + 1:
            p, q = a.heads[i - 1], b.heads[j - 1]
            S[p, q] += 0.5 * S[i, j] * match[p, q]
    return S[1:, 1:]  # (n, m)


def demand_trees(f):
    scores, M = torch.tensor([[-1.0, 0], [1, 0]]), torch.tensor([[4.0, 1], [4, 1]])
    more = f(scores, M) - scores.softmax(-1)  # than plain attention; both signs of a score
    return bool((more[:, 0] > 1e-3).all() and (more[:, 1] < -1e-3).all())


def calibrated_attention(q, k, v, ln_M, mask):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + ln_M[:, None]  # (B, H, L, L)
    return attention_weights(scores, mask) @ v  # (B, H, L, k)


def dafa_fuse(s, d, mask, W):
    d_star, _ = guided_attention(d, s, mask, W.W_D, W.W_s, W.w_d)
    s_star, _ = guided_attention(s, d_star, mask, W.W_S, W.W_dstar, W.w_sstar)
    v, _ = gated_fusion(s_star, d_star, W.W_shat, W.W_dhat, W.W_g)
    return filtration_gate(s, v, W.W_v, W.W_l, W.W_f)[0]  # (B, L, d)


# ---- 4. External knowledge ----------------------------------------------------------------------

def demand_relations(f):
    K, cross = torch.zeros(4, 4), torch.zeros(4, 4, dtype=torch.bool)
    K[:2, 2:] = K[2:, :2] = torch.tensor([[0.881, 0.194], [0.194, 0.731]])
    cross[:2, 2:] = cross[2:, :2] = True
    for score in (1.0, -1.0):  # of wheat and corn, which are related
        scores = torch.zeros(4, 4)
        scores[0, 2] = score
        if f(scores, K, cross)[0, 2] < scores.softmax(-1)[0, 2] + 1e-3:
            return False
    return True


def mean_one(ln_K):
    cross = ln_K > -math.inf  # (B, L, L)
    count = cross.sum((1, 2), keepdim=True).clamp(min=1)
    mean = ln_K.exp().sum((1, 2), keepdim=True) / count  # (B, 1, 1)
    return torch.where(cross, ln_K - mean.clamp(min=1e-30).log(), 0.0)  # (B, L, L)


# ---- 5. DRr-Net ---------------------------------------------------------------------------------

def choose(states, keys, mask, clue, w_d, beta):
    m = w_d((keys + clue[:, None]).tanh())[..., 0]  # (B, n)
    weights = attention_weights(beta * m, mask)  # (B, n)
    return (weights[:, None] @ states)[:, 0], weights, m


# ---- 6. LadRa-Net -------------------------------------------------------------------------------

def coverage(left, weights, phi, mask):
    left = left - weights / phi  # (B, n)
    spent = ((left <= 1e-6) | ~mask).all(1, keepdim=True)  # (B, 1)
    return left.masked_fill(spent, 1.0)


def choose_left(states, keys, mask, clue, w_d, beta, left):
    m = w_d((keys + clue[:, None]).tanh())[..., 0]  # (B, n)
    scores = beta * m + left.clamp(min=1e-6).log()  # (B, n)
    weights = attention_weights(scores, mask & (left > 1e-6))  # (B, n)
    return (weights[:, None] @ states)[:, 0], weights


# ---- Layers of my_semmatch.py -------------------------------------------------------------------

class Yours:
    """The layers below have no printed form and leave no part out."""

    PRINTED, ABLATIONS = {}, frozenset()
    TRACE = SelfAttention.TRACE


class MyBert(Yours, SelfAttention):
    """Lesson 1: BERT with your attention."""

    def attend(self, hidden, q, k, v, mask, prior):
        note(attention=attention_weights(q @ k.mT / q.shape[-1] ** 0.5, mask))
        return merge_heads(attention(q, k, v, mask))  # (B, L, d)


class MyDabert(Yours, DabertAttention):
    """Lesson 2: DABERT's weights and your functions, Eqs. (1)-(7)."""

    TRACE = Yours.TRACE | {"difference": DabertAttention.TRACE["difference"]}

    def second(self, hidden, q, k, v, mask, prior):
        scores = difference_scores(q, k) / q.shape[-1] ** 0.5
        note(difference=attention_weights(scores, mask))
        return difference_attention(q, k, v, mask)  # (B, H, L, k)

    def fuse(self, a, d, mask):
        d_bar, _ = guided_attention(d, a, mask, self.W_D, self.W_a, self.w_d)
        a_bar, _ = guided_attention(a, d_bar, mask, self.W_A, self.W_dbar, self.w_abar)
        d_star = self.W_dstar(torch.cat([d, d_bar], -1)).tanh()
        a_star = self.W_astar(torch.cat([a, a_bar], -1)).tanh()
        v, _ = gated_fusion(a_star, d_star, self.W_ahat, self.W_dhat, self.W_g)
        return filtration_gate(a, v, self.W_v, self.W_l, self.W_f)[0]  # (B, L, d)


class MyDafa(Yours, DafaAttention):
    """Lesson 3: DAFA's weights and your functions, Eqs. (6)-(9). The library makes M_F."""

    def spread(self, prior, word_index, segment):
        return spread_prior(prior.log1p(), word_index, segment, 0.0)  # ln M̃ (B, L, L)

    def second(self, hidden, q, k, v, mask, ln_M, *others):
        return calibrated_attention(q, k, v, ln_M, mask)  # (B, H, L, k)

    def fuse(self, s, d, mask):
        return dafa_fuse(s, d, mask, self)  # (B, L, d)


class MyKnowledge(Yours, KnowledgeAttention):
    """Lesson 4: the knowledge paper's weights and your functions, Eqs. (1)-(8)."""

    def spread(self, prior, word_index, segment):
        G = self.gamma * prior.any(-1).float()  # (B, n, m), Eq. (2)
        return spread_prior(G, word_index, segment, -math.inf)  # (B, L, L)

    def second(self, hidden, q, k, v, mask, G, *others):
        ln_K, _ = co_attention(hidden, knowledge_scores(hidden, G))
        return calibrated_attention(q, k, v, mean_one(ln_K), mask)  # (B, H, L, k)

    def fuse(self, o_sem, o_knw, mask):
        hat_knw, _ = guided_attention(o_knw, o_sem, mask, self.W_Oknw, self.W_osem, self.w_zknw)
        hat_sem, _ = guided_attention(o_sem, hat_knw, mask, self.W_Osem, self.W_ohatknw,
                                      self.w_zsem)
        u, _ = gated_fusion(hat_sem, hat_knw, self.W_otildesem, self.W_otildeknw, self.W_gfuse)
        return filtration_gate(o_sem, u, nn.Identity(), self.W_y, self.W_gfilter)[0]  # (B, L, d)


def twice(function):
    """The library's choose_left returns the weights again, because its coverage reads them."""
    def chosen_weights_weights(*arguments):
        chosen, weights = function(*arguments)
        return chosen, weights, weights
    return chosen_weights_weights


class MyDrrNet(DrrNet):
    """Lesson 5: the library's DRr-Net with your functions, Eqs. (4)-(6)."""

    reread = staticmethod(lambda *x: reread(*x[:-1]))

    def forward(self, *batch, **named):
        logits = super().forward(*batch, **named)   # (3, B, C): the answer, and the two sides
        return logits.flatten(0, 1) if self.training else logits


class MyLadraNet(LadraNet):
    """Lesson 6: the library's LadRa-Net with your functions, Eqs. (10), (13), (14)."""

    phrase_cnn = staticmethod(lambda *x: phrase_cnn(*x))
    choose = staticmethod(lambda *x: twice(choose_left)(*x))
    coverage = staticmethod(lambda *x: coverage(*x))
