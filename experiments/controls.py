"""Methods whose pairs get other pairs' priors, in training and when they predict.

    python train.py --model experiments/controls.py:ShuffledDafa

What a method keeps of a gain here did not come from what its prior says of the pair.
"""
from semmatch import DafaAttention, KnowledgeAttention


class Shuffled:
    """Half a batch further on is the pair whose prior is taken, cut or padded to the words here.
    A pair alone keeps its own.
    """

    def spread(self, prior, word_index, segment):
        """As the method's own."""
        return super().spread(prior.roll(len(prior) // 2, 0), word_index, segment)


class ShuffledDafa(Shuffled, DafaAttention):
    """DAFA with other pairs' trees."""


class ShuffledKnowledge(Shuffled, KnowledgeAttention):
    """Knowledge with other pairs' relations."""
