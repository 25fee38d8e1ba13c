"""A method of one's own, for docs/own_method.md: train.py --model tutorials/mine.py:Beginnings."""
import numpy as np
import torch
from torch import nn

from bert_min import SelfAttention, merge_heads
from priors import words_prior
from semmatch import calibrated_attention, spread_prior
from support.shown import looked_at


def begin_alike(a, b):
    """1 where words i of a and j of b have the same first letters, four at most, else 0: (n, m)
    float32. a, b: lists of words."""
    a, b = (np.array([word.casefold()[:4] for word in words], object) for words in (a, b))
    return (a[:, None] == b).astype(np.float32)  # (n, m)


class Beginnings(SelfAttention):
    """A word looks more at words of the other sentence that begin as it does.

        weights ∝ exp(q·k / √k + strength · prior)          each layer learns its own strength
    """

    prior = words_prior(begin_alike)

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, start=1.0):
        super().__init__(config)
        self.strength = nn.Parameter(torch.tensor(start))

    def spread(self, prior, word_index, segment):
        """What is added to the scores of a batch, (B, L, L)."""
        return spread_prior(self.strength * prior, word_index, segment, 0.0)  # (B, L, L)

    def attend(self, hidden, q, k, v, mask, bias):
        """What goes on from this layer's attention, (B, L, d)."""
        if looked_at():             # the page of a pair shows plain attention, too
            super().attend(hidden, q, k, v, mask, None)
        return merge_heads(calibrated_attention(q, k, v, mask, bias, self.dropping))
