"""Scores of all pairs of tokens, computed in blocks, because all at once would fill the memory.

`additive_scores` and `l1_distances` compare each query with each key number by number: L·L·A
numbers for L tokens, which autograd would keep for the backward pass. Here both passes compute the
pairs block by block, and the backward pass computes its blocks again; torch.cdist does the same
for distances. Memory: B·L·L scores and one block, so it grows with L², never with L²·A.

Under torch.export each score is one line without blocks, whose size depends on the input's size.

Left out: what the scores are for (semmatch.py), a kernel of our own for the GPU.
"""
import torch
from torch.autograd.function import once_differentiable

# Axes: B batch, L tokens, A numbers of a token

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


def additive_scores(keys, queries, w):
    """score_ij = wᵀ tanh(keys_j + queries_i): the additive attention of Bahdanau et al. (2015).

    Under torch.export, keys and queries are clamped to ±43, in float64 ±350, where e^(2x) is finite
    and above 0. This changes a score only if a key and a query beyond ±30 have opposite signs.

    Args: keys, queries: (B, L, A); w: (A,); all float32 or all float64.
    Returns: (B, L, L), row i belongs to queries_i.
    """
    if not torch.compiler.is_compiling():
        return AdditiveScores.apply(keys, queries, w)  # (B, L, L)
    limit = LIMIT[keys.dtype]
    keys, queries = ((2 * x.clamp(-limit, limit)).exp() for x in (keys, queries))
    r = 1 / (1 + keys[:, None] * queries[:, :, None])  # (B, L, L, A)
    return w.sum() - 2 * (r * w).sum(-1)  # (B, L, L)


def l1_distances(q, k):
    """score_ij = Σ_c |q_ic - k_jc|: how far each query is from each key.

    torch.cdist gets a block of sentences at a time, because its backward pass on a GPU stores all
    their pairs. (On a CPU this pass uses one thread.)

    Args: q, k: (B, L, A), both float32 or both float64.
    Returns: (B, L, L), row i belongs to q_i.
    """
    if torch.compiler.is_compiling():
        return (q[:, :, None] - k[:, None]).abs().sum(-1)  # (B, L, L)
    pairs = max(1, q.shape[1] * k.shape[1] * k.shape[2])
    many = max(1, BLOCK.get(k.device.type, 2 ** 22) // pairs)
    blocks = zip(q.split(many), k.split(many), strict=True)
    return torch.cat([torch.cdist(query, key, p=1) for query, key in blocks])  # (B, L, L)
