"""Variants of the methods that ask where a gain comes from. None is in a paper.

    python train.py --model experiments/controls.py:ShuffledDafa

The shuffled variants have another pair's prior, in training and when they predict: the part of a
gain that remains did not come from what the prior says of the pair. The other variants have less in
the prior, or one attention: they show what is left without that part.
"""
import numpy as np

from bert_min import merge_heads
from priors import RELATIONS
from semmatch import DafaAttention, KnowledgeAttention


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
        """As KnowledgeAttention.spread, with this relation alone."""
        return super().spread(prior[..., [RELATIONS.index("hypernym")]], word_index, segment)


def equal_words(a, b):
    """(n, m) float32: 1 where a word of a and a word of b are equal, else 0. a, b: n, m words."""
    a, b = (np.array([word.casefold() for word in words], object) for words in (a, b))
    return (a[:, None] == b).astype(np.float32)


class EqualWordsDafa(DafaAttention):
    """DAFA without trees: M_F is 1 where two words are equal, else 0."""

    PRIOR, NEEDS = staticmethod(equal_words), ("words",)


class OneAttentionDafa(DafaAttention):
    """DAFA with one attention: the weights of plain attention are multiplied by M̃, and nothing is
    fused. The class adds no weights.
    """

    def add_weights(self, d, A):
        """Adds none."""

    def attend(self, hidden, q, k, v, mask, spread, trace):
        """The calibrated attention alone, (B, L, d)."""
        dropout = self.dropout if self.training else 0.0
        return merge_heads(self.second(hidden, q, k, v, mask, spread, dropout, trace))
