"""Methods whose pairs get other pairs' priors, in training and when they predict.

    python train.py --model experiments/controls.py:ShuffledDafa

What a method keeps of a gain here did not come from what its prior says of the pair.
"""
from semmatch import DafaAttention, KnowledgeAttention


class ShuffledDafa(DafaAttention):
    """DAFA with other pairs' trees, see batches.Examples.of_others."""

    OTHERS = True


class ShuffledKnowledge(KnowledgeAttention):
    """Knowledge with other pairs' relations."""

    OTHERS = True
