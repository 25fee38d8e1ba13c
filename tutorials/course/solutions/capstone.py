"""DAFA's attention layer, written from capstone.md."""
import torch

from bert_min import SelfAttention, attention_weights, linear, merge_heads, record


class Dafa(SelfAttention):
    """Plain attention beside one that M_F calibrates, and their fusion, Eqs. (6)-(9).

    Departs: (6) A product with a negative q·k lowers the weight that a large M_F should raise. The
        weight is multiplied instead: ln(1 + M_F) is added to the scores, 0 where no two words meet.
    (7) With ⊕ the score is a sum of a part of j and a part of i; the latter cancels in the softmax,
        so that all rows of d* are equal. The parts are added inside tanh, and w has A numbers.
    (9) l alone would forget the token where the gate is closed: s + l.
    """

    PRIOR = "dependency"
    ABLATIONS = frozenset({"guide"})

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, attention_size=128):
        super().__init__(config)
        d, A = config.hidden_size, attention_size
        self.without = frozenset(without)
        self.W_D, self.W_s, self.w_d = linear(d, A, False), linear(d, A), linear(A, 1, False)
        self.W_S, self.W_dstar, self.w_sstar = (linear(d, A, False), linear(d, A),
                                                linear(A, 1, False))
        self.W_dhat, self.W_shat, self.W_g = linear(d, d), linear(d, d), linear(2 * d, 1, False)
        self.W_v, self.W_f, self.W_l = linear(d, d), linear(2 * d, 1, False), linear(d, d)

    def spread(self, prior, word_index, segment):
        """ln(1 + M_F) of each two pieces, 0 where they are not words of different sentences."""
        B, n, m = prior.shape
        L = word_index.shape[1]
        if n == 0 or m == 0:
            return prior.new_zeros(B, L, L)
        rows = torch.arange(B, device=prior.device)[:, None, None]
        of_a, of_b = word_index.clamp(0, n - 1), word_index.clamp(0, m - 1)
        values = prior.log1p()[rows, of_a[:, :, None], of_b[:, None]]
        word = word_index >= 0
        in_a, in_b = word & (segment == 0), word & (segment == 1)
        block = values * (in_a[:, :, None] & in_b[:, None])
        return block + block.transpose(1, 2)

    def guided(self, values, guide, mask, W_values, W_guide, w):
        scores = w((W_values(values)[:, None] + W_guide(guide)[:, :, None]).tanh())[..., 0]
        return attention_weights(scores, mask) @ values

    def attend(self, hidden, q, k, v, mask, prior, trace):
        """What goes on from this layer's attention, (B, L, d)."""
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        s = merge_heads(attention_weights(scores, mask) @ v)
        d = merge_heads(attention_weights(scores + prior[:, None], mask) @ v)
        d_star, s_star = d, s
        if "guide" not in self.without:
            d_star = self.guided(d, s, mask, self.W_D, self.W_s, self.w_d)
            s_star = self.guided(s, d_star, mask, self.W_S, self.W_dstar, self.w_sstar)
        d_hat, s_hat = self.W_dhat(d_star).tanh(), self.W_shat(s_star).tanh()
        g = self.W_g(torch.cat([d_hat, s_hat], -1)).sigmoid()
        fused = g * s_hat + (1 - g) * d_hat
        f = self.W_f(torch.cat([s, self.W_v(fused)], -1)).sigmoid()
        record(trace, g=g, f=f)
        return s + f * self.W_l(fused).tanh()
