"""A method of one's own, for docs/own_method.md: train.py --model tutorials/mine.py:SharedWords."""
import numpy as np

from bert_min import SelfAttention, Shown, linear, merge_heads, record
from semmatch import calibrated_attention, spread_prior


def same_words(a, b):
    """1 where word i of parse a is word j of parse b, else 0: (n, m) float32."""
    return (a.symbols[1:, None] == b.symbols[1:]).astype(np.float32)  # (n, m)


class SharedWords(SelfAttention):
    """Plain attention beside one in which equal words weigh 1 + bonus, and a gate between both."""

    PRIOR = same_words
    ABLATIONS = frozenset({"gate"})
    TRACE = SelfAttention.TRACE | {
        "calibrated": Shown("Attention to shared words", "pair head piece piece", top=1.0),
        "gate": Shown("Gate", "pair piece one", "How much of plain attention goes on.", 1.0)}

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, bonus=3.0):
        super().__init__(config)
        self.bonus, self.without = bonus, frozenset(without)
        self.W_g = linear(config.hidden_size, 1)

    def spread(self, prior, word_index, segment):
        """The prior over words (B, n, m) as one over pieces (B, L, L)."""
        return spread_prior((self.bonus * prior).log1p(), word_index, segment, 0.0)

    def attend(self, hidden, q, k, v, mask, prior, trace):
        """What goes on from this layer's attention, (B, L, d)."""
        plain = super().attend(hidden, q, k, v, mask, None, trace)
        dropout = self.dropout if self.training else 0.0
        shared = merge_heads(calibrated_attention(q, k, v, prior, mask, dropout, trace=trace))
        g = 0.5 if "gate" in self.without else self.W_g(plain).sigmoid()
        if "gate" not in self.without:
            record(trace, gate=g)
        return g * plain + (1 - g) * shared
