"""A method of one's own, for docs/own_method.md: train.py --model tutorials/mine.py:Aligned."""
import numpy as np
import torch

from bert_min import SelfAttention, merge_heads
from priors import words_prior
from semmatch import CALIBRATED, calibrated_attention, spread_prior
from support.shown import looked_at


def equal_words(a, b):
    """1 where word i of a is word j of b, else 0: (n, m) float32. a, b: lists of words."""
    a, b = (np.array([word.casefold() for word in words], object) for words in (a, b))
    return (a[:, None] == b).astype(np.float32)  # (n, m)


class Aligned(SelfAttention):
    """In some of the heads a word looks at its copy in the other sentence. No new weight.

    scores = sharpness where two words are equal, else 0;  K = the mean of their softmax over rows
    and their softmax over columns;  factor of each weight = K / its mean, between the sentences.
    """

    prior = words_prior(equal_words)
    TRACE = SelfAttention.TRACE | CALIBRATED

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, sharpness=8.0,
                 share=0.5):
        super().__init__(config)
        self.sharpness, self.aligned = sharpness, round(share * self.heads)

    def spread(self, prior, word_index, segment):
        """What is added to the scores of a batch: ln of the factor, (B, H, L, L)."""
        scores = spread_prior(self.sharpness * prior, word_index, segment, -torch.inf)
        cross = scores.isfinite()  # (B, L, L)
        over_row = scores.masked_fill(~cross, -1e4).softmax(-1) * cross  # (B, L, L)
        K = (over_row + over_row.transpose(1, 2)) / 2  # scores are symmetric
        mean = K.sum((1, 2), keepdim=True) / cross.sum((1, 2), keepdim=True).clamp(min=1)
        bias = torch.where(cross, K / mean, 1.0).log()[:, None]  # (B, 1, L, L)
        aligned = torch.arange(self.heads, device=bias.device) < self.aligned
        return bias * aligned[:, None, None]  # (B, H, L, L)

    def attend(self, hidden, q, k, v, mask, bias):
        """What goes on from this layer's attention, (B, L, d)."""
        if looked_at():             # the page shows plain attention, too
            super().attend(hidden, q, k, v, mask, None)
        return merge_heads(calibrated_attention(q, k, v, mask, bias, self.dropping))
