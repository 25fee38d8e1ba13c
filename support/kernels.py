"""Scores of all pairs of tokens, in blocks and in float32; steps that stay in float32 for a reason.

`additive_scores` and `l1_distances` compare each query with each key number by number: L·L·A
numbers for L tokens, which autograd would keep for the backward pass. Both passes compute the
pairs block by block, and the backward pass computes its blocks again; torch.cdist does the same
for distances. Memory: B·L·L scores and one block, so it grows with L², never with L²·A.

The functions take what an equation has, in any precision, also under autocast, and compute in
float32 or wider: bfloat16's 8 bits would round scores that differ to the same number.

Left out: what the scores are for (semmatch.py, reread.py), a kernel of our own for the GPU.
"""
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# Axes: B batch, H heads, L tokens, A numbers of a token, n words, d width of a state

# Numbers in a block. CPU: 2 MB fit into the caches of two cores; with smaller blocks, threads would
# wait for each other too often, at the end of each block. GPU: 256 MB.
BLOCK = {"cpu": 2 ** 19, "cuda": 2 ** 26}
LIMIT = {torch.float32: 43.0, torch.float64: 350.0}  # for |x| below this, e^(2x) is a normal number


class AdditiveScores(torch.autograd.Function):
    """See additive_scores. It takes the exponentials of keys and of queries, once. A block then
    needs none, because

        r_ij = 1 / (1 + e^(2 keys_j) e^(2 queries_i)),
        tanh(keys_j + queries_i) = 1 - 2 r_ij,   tanh' = 4 (r - r²)

        ∂w = Σ_ij e_ij (1 - 2 r),
        ∂queries_i = w Σ_j e_ij 4 (r - r²),   ∂keys_j = w Σ_i e_ij 4 (r - r²)

    with e the incoming gradient. For this, e^(2x) of each key and each query x must be finite. If
    one is not, and always on a GPU, r is computed as the sigmoid of -2 (keys_j + queries_i): the
    CPU would have to wait until the GPU has found its largest x.
    """

    @staticmethod
    def blocks(keys, queries, split):
        """Yield for each block its slice of sentences, its slice of query rows, and its r
        (sentences, rows, L, A). A row with more numbers than BLOCK is a block of its own.

        split: keys and queries are already the exponentials.
        """
        size, row = BLOCK.get(keys.device.type, 2 ** 22), max(1, keys.shape[1] * keys.shape[2])
        many, rows = max(1, size // (row * max(1, queries.shape[1]))), max(1, size // row)
        for b in (slice(i, i + many) for i in range(0, len(keys), many)):
            for i in (slice(i, i + rows) for i in range(0, queries.shape[1], rows)):
                k, q = keys[b, None], queries[b, i, None]
                if split:
                    yield b, i, torch.addcmul(k.new_ones(()), k, q).reciprocal_()
                else:
                    yield b, i, (k + q).mul_(-2).sigmoid_()

    @staticmethod
    def forward(ctx, keys, queries, w):
        with torch.autocast(keys.device.type, enabled=False):
            ctx.split = keys.device.type == "cpu" and all(
                x.abs().amax() < LIMIT[x.dtype] for x in (keys, queries) if x.numel())
            if ctx.split:
                keys, queries = (2 * keys).exp(), (2 * queries).exp()
            ctx.save_for_backward(keys, queries, w)
            scores = keys.new_empty(*queries.shape[:2], keys.shape[1])  # (B, L, L)
            for b, i, r in AdditiveScores.blocks(keys, queries, ctx.split):
                scores[b, i] = r @ w
            return w.sum() - 2 * scores  # (B, L, L)

    @staticmethod
    @once_differentiable
    def backward(ctx, e):
        keys, queries, w = ctx.saved_tensors
        d_keys, d_queries = torch.zeros_like(keys), torch.empty_like(queries)
        d_w = e.sum().expand_as(w).clone()  # (A,)
        for b, i, r in AdditiveScores.blocks(keys, queries, ctx.split):
            d_w -= 2 * (e[b, i].flatten() @ r.flatten(0, 2))
            slope = r.addcmul_(r, r, value=-1).mul_(e[b, i, :, None])
            d_queries[b, i] = slope.sum(2)
            d_keys[b] += slope.sum(1)
        return d_keys.mul_(4 * w), d_queries.mul_(4 * w), d_w


def wider(*tensors):
    """The tensors in float32, or in their own type if it is wider."""
    return [x.to(torch.promote_types(x.dtype, torch.float32)) for x in tensors]


def additive_scores(keys, queries, w):
    """score_ij = wᵀ tanh(keys_j + queries_i): the additive attention of Bahdanau et al. (2015).

    Args: keys, queries: (B, L, A); w: (A,).
    Returns: (B, L, L), row i belongs to queries_i.
    """
    return AdditiveScores.apply(*wider(keys, queries, w))  # (B, L, L)


def l1_distances(q, k):
    """score_ij = Σ_c |q_ic - k_jc|: how far each query is from each key, in each head.

    torch.cdist gets a block of sentences and heads at a time, because its backward pass on a GPU
    stores all their pairs. (On a CPU this pass uses one thread.)

    Args: q, k: (B, H, L, A). Returns: (B, H, L, L), row i belongs to q_i.
    """
    q, k = wider(q, k)
    pairs = max(1, q.shape[2] * k.shape[2] * k.shape[3])
    many = max(1, BLOCK.get(k.device.type, 2 ** 22) // pairs)
    blocks = zip(q.flatten(0, 1).split(many), k.flatten(0, 1).split(many), strict=True)
    distances = torch.cat([torch.cdist(query, key, p=1) for query, key in blocks])
    return distances.unflatten(0, q.shape[:2])  # (B, H, L, L)


def dot_products(x):
    """score_ij = x_iᵀ x_j. Args: x: (B, L, d). Returns: (B, L, L)."""
    with torch.autocast(x.device.type, enabled=False):
        x, = wider(x)
        return x @ x.transpose(1, 2)  # (B, L, L)


def tanh_scores(keys, clue, w):
    """score_i = wᵀ tanh(keys_i + clue). Args: keys: (B, n, A). clue: (B, A). w: (A,).

    β, several hundred, multiplies these: rounded scores would choose another word, or tie.
    """
    with torch.autocast(keys.device.type, enabled=False):
        keys, clue, w = wider(keys, clue, w)
        return (keys + clue[:, None]).tanh() @ w  # (B, n)


def run_gru(gru: nn.GRU, x, mask):
    """The states of a GRU, (B, n, hidden size); after a sentence's end 0. x: (B, n, d), mask: bool
    (B, n), True = real, padding right. A sentence without words reads one piece of padding.
    """
    lengths = mask.sum(1).clamp(min=1).cpu()
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    # On a GPU autocast would give the GRU float16 instead of bfloat16.
    with torch.autocast(x.device.type, enabled=False):
        return pad_packed_sequence(gru(packed)[0], batch_first=True, total_length=x.shape[1])[0]
