"""Variants of the methods that ask where a gain comes from. None is in a paper.

    python train.py --model experiments/controls.py:ShuffledDafa
    python train.py --model experiments/controls.py:SharpTrees

A class of others' trees, relations or states uses another pair's prior, in training and when it
predicts: the part of a gain that remains did not come from what the prior says of the pair. The
other classes have less in the prior, or another prior: they show what is left without that part.
"""
from bert_min import attention
from priors import RELATIONS, DependencyPrior
from semmatch import AlignedAttention, DafaAttention, FusionAttention, KnowledgeAttention


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


# ---- Trees in the place of equal words ----------------------------------------------------------

class SharpTrees(AlignedAttention):
    """M_F in the place of equal words. The sharpness was chosen on the training pairs of PAWS: with
    it, equal words have a median factor of 8.8, and no other brings M_F above 9.8; equal words have
    12.2 in AlignedAttention.
    """

    prior, ABLATIONS = DafaAttention.prior, DependencyPrior.PARTS

    def __init__(self, *args, sharpness=4.0, **sizes):
        super().__init__(*args, sharpness=sharpness, **sizes)


class OthersSharpTrees(SharpTrees):
    """The same with the trees of other pairs."""

    OTHERS = True
