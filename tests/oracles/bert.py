"""BERT in loops: one encoder layer (Vaswani et al. 2017, post-norm), the truncation of a pair."""
import math

from oracles.common import add, affine, attention

ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))), "relu": lambda x: max(0.0, x),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi)
                                                    * (x + 0.044715 * x ** 3)))}


def norm(module, x):
    """module: an nn.LayerNorm, for its numbers."""
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / math.sqrt(variance + module.eps) * g + b
            for v, g, b in zip(x, module.weight.tolist(), module.bias.tolist())]


def layer(P, module, hidden, mask, heads, activation):
    """One sequence through one layer -> hidden states, weights by head. P: name -> linear map."""
    k, mixed, maps, out = len(hidden[0]) // heads, [[] for _ in hidden], [], []
    for h in range(heads):
        q, key, v = ([affine(P[f"attention.{name}"], x)[h * k:(h + 1) * k] for x in hidden]
                     for name in ("query", "key", "value"))
        head, weights = attention(q, key, v, mask)
        mixed = [row + part for row, part in zip(mixed, head)]
        maps.append(weights)
    for x, row in zip(hidden, mixed):
        x = norm(module.attention_norm, add(x, affine(P["attention_output"], row)))
        inner = [ACTIVATIONS[activation](a) for a in affine(P["intermediate"], x)]
        out.append(norm(module.output_norm, add(x, affine(P["output"], inner))))
    return out, maps


def truncation(n, m, budget):
    """How many of n and m pieces stay when the longer list loses one after the other."""
    while n + m > budget:
        n, m = (n - 1, m) if n > m else (n, m - 1)
    return n, m
