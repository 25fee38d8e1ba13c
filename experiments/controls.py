"""Variants of the methods that ask where a gain comes from. None is in a paper.

    python train.py --model experiments/controls.py:ShuffledDafa
    python train.py --model experiments/controls.py:SharpTrees --layers all --set HEADS=half

A class of others' trees, relations or states uses another pair's prior, in training and when it
predicts: the part of a gain that remains did not come from what the prior says of the pair. The
other classes have less in the prior, or another prior: they show what is left without that part.
"""
import numpy as np
import torch

from bert_min import attention
from priors import RELATIONS, words_prior
from semmatch import DafaAttention, FusionAttention, KnowledgeAttention, spread_prior

# Chosen on the training pairs of PAWS: with this factor on M_F, equal words have a median factor of
# 8.8. Aligned has 12.2 there; with larger numbers M_F comes no nearer than 9.8.
TREES_SCALE = 4.0


# ---- Another pair's prior, one relation ---------------------------------------------------------

class ShuffledDafa(DafaAttention):
    """DAFA with the trees of other pairs, see batches.Examples.of_others."""

    OTHERS = True


class ShuffledKnowledge(KnowledgeAttention):
    """Knowledge with the relations of other pairs."""

    OTHERS = True


class WiderKnowledge(KnowledgeAttention):
    """Knowledge with one of its five relations, so that the direction can be seen: the word of the
    second sentence is wider (a hypernym) than the word of the first.
    """

    def spread(self, prior, word_index, segment):
        return super().spread(prior[..., [RELATIONS.index("hypernym")]], word_index, segment)


# ---- Likeness of hidden states, without relations: --without fusion,prior -----------------------

class OthersLikeness(KnowledgeAttention):
    """The likeness of the states of another pair of the batch: as sharp, at the wrong places."""

    def second(self, hidden, *rest):
        return super().second(hidden.roll(1, 0), *rest)


class FixedLikeness(KnowledgeAttention):
    """No gradient goes through the likeness."""

    def second(self, hidden, *rest):
        return super().second(hidden.detach(), *rest)


class TwoPlain(FusionAttention):
    """Plain attention twice, each with its own dropout: --without fusion."""

    ABLATIONS = frozenset({"fusion"})

    def add_weights(self, d, A):
        """Adds none."""

    def second(self, hidden, q, k, v, mask, bias):
        """Plain attention, (B, H, L, k)."""
        return attention(q, k, v, mask, dropout=self.dropping)

    def fuse(self, sem, other, mask):
        """The mean, (B, L, d)."""
        return (sem + other) / 2


# ---- Priors as sharp as likeness is -------------------------------------------------------------

def sharpen(scores):
    """ln of the factor of each weight (B, L, L), by Knowledge Eqs. (3) to (5): the mean of the
    softmax of scores over rows and over columns, divided by its own mean. scores: symmetric, -inf
    except between words of different sentences, where the factor is 1.
    """
    cross = scores.isfinite()
    over_row = scores.masked_fill(~cross, -1e4).softmax(-1) * cross
    K = (over_row + over_row.transpose(1, 2)) / 2
    mean = K.sum((1, 2), keepdim=True) / cross.sum((1, 2), keepdim=True).clamp(min=1)
    return torch.where(cross, K / mean, 1.0).log()


class SharpTrees(DafaAttention):
    """DAFA whose M_F becomes factors as sharp as Knowledge's, in the place of 1 + M_F."""

    SCALE = TREES_SCALE

    def spread(self, prior, word_index, segment):
        """The result of `sharpen` for the scores SCALE · M_F."""
        return sharpen(spread_prior(self.SCALE * prior, word_index, segment, -torch.inf))


class OthersSharpTrees(SharpTrees):
    """The same with the trees of other pairs."""

    OTHERS = True


def equal_words(a, b):
    """(n, m) float32: 1 where a word of a and a word of b are equal, else 0. a, b: n, m words."""
    a, b = (np.array([word.casefold() for word in words], object) for words in (a, b))
    return (a[:, None] == b).astype(np.float32)


class SharpWords(SharpTrees):
    """The same with equal words in the place of trees. With HEADS=half it is tutorials/mine.py's
    Aligned, which has a sharpness of 8, too.
    """

    prior, SCALE = words_prior(equal_words), 8.0
