"""The right functions of the lessons: the library's, and what only the lessons ask for.

A lesson shows one of them when yours is right. They stand in for functions that are missing
(LESSON=solved) or wrong (grade.py). Shapes and masks are in the docstrings of the lessons. The
classes at the end are the layers of your own file, my_semmatch.py: the library's methods, whose
equations are yours.
"""
import math

import numpy as np
import torch
import torch.nn.functional as F

from bert_min import SelfAttention, attention, attention_weights, merge_heads, split_heads
from pretrain import masked_loss
from priors import Prior, equal_words, subgraph_similarity, tree_similarity, words_prior
from reread import DrrNet, LadraNet, choose, coverage, phrase_cnn, reread
from semmatch import (AlignedAttention, DabertAttention, DafaAttention, KnowledgeAttention,
                      calibrated_attention, co_attention, difference_attention, difference_scores,
                      filtration_gate, gated_fusion, guided_attention, knowledge_factor,
                      mean_attention_factor, spread_prior)
from support.shown import note

# ---- What only the lessons ask for --------------------------------------------------------------

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


def demand_guide(f):
    values, guide, other = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    found = f(values, guide)
    steady = torch.allclose(found, f(values, guide))  # no noise
    by_guide = not torch.allclose(found, f(values, other), atol=1e-3)
    by_values = not torch.allclose(found, f(values + 1, guide), atol=1e-3)
    return steady and by_guide and by_values


def demand_trees(f):
    scores, M = torch.tensor([[-1.0, 0], [1, 0]]), torch.tensor([[4.0, 1], [4, 1]])
    more = f(scores, M) - scores.softmax(-1)  # than plain attention; both signs of a score
    return bool((more[:, 0] > 1e-3).all() and (more[:, 1] < -1e-3).all())


def dafa_fuse(s, d, mask, W):
    d_star, _ = guided_attention(d, s, mask, W.W_D, W.W_s, W.w_d)
    s_star, _ = guided_attention(s, d_star, mask, W.W_S, W.W_dstar, W.w_sstar)
    v, _ = gated_fusion(s_star, d_star, W.W_shat, W.W_dhat, W.W_g)
    return filtration_gate(s, v, W.W_v, W.W_l, W.W_f)[0]  # (B, L, d)


def demand_relations(f):
    K, cross = torch.zeros(4, 4), torch.zeros(4, 4, dtype=torch.bool)
    K[:2, 2:] = K[2:, :2] = torch.tensor([[0.806, 0.425], [0.575, 0.194]])
    cross[:2, 2:] = cross[2:, :2] = True
    for score in (1.0, -1.0):  # of wheat and corn, which are related
        scores = torch.zeros(4, 4)
        scores[0, 2] = score
        if f(scores, K, cross)[0, 2] < scores.softmax(-1)[0, 2] + 1e-3:
            return False
    return True


def choose_left(states, keys, mask, clue, w_d, beta, left):
    m = w_d((keys + clue[:, None]).tanh())[..., 0]  # (B, n)
    scores = beta * m + left.clamp(min=1e-6).log()  # (B, n)
    weights = attention_weights(scores, mask & (left > 1e-6))  # (B, n)
    return (weights[:, None] @ states)[:, 0], weights


def hide_pieces(pieces, words, mask_id, draws, others):
    chosen = (draws[0] < 0.15) & words  # (B, L)
    hidden = pieces.masked_fill(chosen & (draws[1] < 0.8), mask_id)  # (B, L)
    return torch.where(chosen & (draws[1] >= 0.9), others, hidden), chosen


class HeadsAndRelations(Prior):
    """M of DAFA Eq. (1) without what equal words give: their heads and relations are left."""

    needs = ("parses",)

    def matrix(self, a, b):
        a, b = a.parse, b.parse
        same_words = a.symbols[1:, None] == b.symbols[1:]  # (n, m)
        theta = np.where(a.types[1:, None] == b.types[1:], 2.0, 1.0)  # (n, m)
        return tree_similarity(a, b) - same_words * theta  # (n, m)


# ---- Layers of my_semmatch.py -------------------------------------------------------------------

class Yours:
    """The layers below have no printed form and leave no part out."""

    PRINTED, ABLATIONS = {}, frozenset()
    TRACE = SelfAttention.TRACE


class MyBert(Yours, SelfAttention):
    """Lesson 1: BERT with your attention."""

    def attend(self, hidden, q, k, v, mask, bias):
        note(attention=attention_weights(q @ k.mT / q.shape[-1] ** 0.5, mask))
        return merge_heads(attention(q, k, v, mask))  # (B, L, d)


class MyDabert(Yours, DabertAttention):
    """Lesson 2: the library's DABERT with your functions, Eqs. (2)-(7)."""

    TRACE = Yours.TRACE | {"difference": DabertAttention.TRACE["difference"]}
    guided_attention = staticmethod(guided_attention)
    gated_fusion = staticmethod(gated_fusion)
    filtration_gate = staticmethod(filtration_gate)

    def second(self, hidden, q, k, v, mask, bias):
        scores = difference_scores(q, k) / q.shape[-1] ** 0.5
        note(difference=attention_weights(scores, mask))
        return difference_attention(q, k, v, mask)  # (B, H, L, k)


class MyDafa(Yours, DafaAttention):
    """Lesson 3: the library's DAFA with your functions, Eqs. (6)-(9). The library makes M_F."""

    calibrated_attention = staticmethod(lambda *x: calibrated_attention(*x[:5]))  # no dropout

    def spread(self, prior, word_index, segment):
        return spread_prior(prior.log1p(), word_index, segment, 0.0)  # ln M̃ (B, L, L)

    def fuse(self, s, d, mask):
        return dafa_fuse(s, d, mask, self)  # (B, L, d)


class MyKnowledge(Yours, KnowledgeAttention):
    """Lesson 4: the library's knowledge method with your functions, Eqs. (3)-(8)."""

    co_attention = staticmethod(co_attention)
    factor = staticmethod(knowledge_factor)
    calibrated_attention = staticmethod(lambda *x: calibrated_attention(*x[:5]))  # no dropout
    guided_attention = staticmethod(guided_attention)
    gated_fusion = staticmethod(gated_fusion)
    filtration_gate = staticmethod(filtration_gate)

    def spread(self, prior, word_index, segment):
        G = self.gamma * prior.any(-1).float()  # (B, n, m), Eq. (2)
        return spread_prior(G, word_index, segment, -math.inf)  # (B, L, L)


class MyDrrNet(DrrNet):
    """Lesson 5: the library's DRr-Net with your functions, Eqs. (4)-(6)."""

    reread = staticmethod(lambda *x: reread(*x[:8]))  # without F: it calls your choose

    def forward(self, *batch, **named):
        logits = super().forward(*batch, **named)   # (3, B, C): the answer, and the two sides
        return logits.flatten(0, 1) if self.training else logits


class MyLadraNet(LadraNet):
    """Lesson 6: the library's LadRa-Net with your functions, Eqs. (10), (13), (14)."""

    phrase_cnn = staticmethod(phrase_cnn)
    coverage = staticmethod(coverage)

    @staticmethod
    def choose(*arguments):
        chosen, weights = choose_left(*arguments)
        return chosen, weights, weights  # the last one is for coverage


class MyAligned(AlignedAttention):
    """Lesson 7: in half of the heads a word looks at its copies. It has no new weight."""

    prior = words_prior(equal_words)
    factor = staticmethod(mean_attention_factor)


class TreesAlone(DafaAttention):
    """Lesson 7: DAFA whose matrix does not say which words are equal."""

    @classmethod
    def prior(cls, printed, without):
        return HeadsAndRelations()
