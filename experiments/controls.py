"""Variants of the methods that ask where a gain comes from. None is in a paper.

    python train.py --model experiments/controls.py:ShuffledDafa

With another pair's prior, in training and when they predict: what a method keeps of a gain here did
not come from what its prior says of the pair. With less in the prior, or with one attention: what
is left without the part.
"""
import numpy as np

from bert_min import merge_heads
from priors import RELATIONS
from semmatch import DafaAttention, KnowledgeAttention


class ShuffledDafa(DafaAttention):
    """DAFA with other pairs' trees, see batches.Examples.of_others."""

    OTHERS = True


class ShuffledKnowledge(KnowledgeAttention):
    """Knowledge with other pairs' relations."""

    OTHERS = True


class WiderKnowledge(KnowledgeAttention):
    """Knowledge with one relation of its five, so that its direction can be seen: the word of the
    second sentence is wider (a hypernym) than the word of the first.
    """

    def spread(self, prior, word_index, segment):
        """As the method's, of this relation alone."""
        return super().spread(prior[..., [RELATIONS.index("hypernym")]], word_index, segment)


def equal_words(a, b):
    """(n, m) float32: 1 where a word of a, a list of n, is a word of b, a list of m, else 0."""
    a, b = (np.array([word.casefold() for word in words], object) for words in (a, b))
    return (a[:, None] == b).astype(np.float32)


class EqualWordsDafa(DafaAttention):
    """DAFA that knows no trees: M_F is 1 where two words are equal, else 0."""

    PRIOR, NEEDS = staticmethod(equal_words), ("words",)


class OneAttentionDafa(DafaAttention):
    """DAFA without a second attention: the weights of plain attention are multiplied by M̃, and
    nothing is fused. It has no weights of its own.
    """

    def add_weights(self, d, A):
        """None."""

    def attend(self, hidden, q, k, v, mask, spread, trace):
        """The calibrated attention alone, (B, L, d)."""
        dropout = self.dropout if self.training else 0.0
        return merge_heads(self.second(hidden, q, k, v, mask, spread, dropout, trace))
