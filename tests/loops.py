"""What the oracles of all papers share: sums, products and softmax in plain loops over lists of floats."""
import math


def softmax_loop(scores, mask):
    """Over the allowed places; the others get 0, and so does everything where nothing is allowed."""
    allowed = [s for s, ok in zip(scores, mask, strict=True) if ok]
    if not allowed:
        return [0.0] * len(scores)
    total = sum(math.exp(s - max(allowed)) for s in allowed)
    return [math.exp(s - max(allowed)) / total if ok else 0.0 for s, ok in zip(scores, mask)]


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def affine(W, x, b=None):
    """W x + b, with W a list of rows."""
    return [dot(row, x) + (b[r] if b else 0.0) for r, row in enumerate(W)]


def sigma(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def mix_loop(weights, vectors):
    return [sum(w * vector[c] for w, vector in zip(weights, vectors, strict=True)) for c in range(len(vectors[0]))]
