"""Functions that the oracles of several papers share, in plain loops over lists of floats.

A linear map is a pair (W, b): a list of rows, and a list or None. A GRU is (W_x, W_h, b_x, b_h).
"""
import itertools
import math


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def add(*vectors):
    return [sum(numbers) for numbers in zip(*vectors, strict=True)]


def mean(vectors):
    return [sum(numbers) / len(vectors) for numbers in zip(*vectors, strict=True)]


def affine(linear, x):
    """W x + b."""
    W, b = linear
    return [dot(row, x) + (b[i] if b else 0.0) for i, row in enumerate(W)]


def sigma(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def tanh(x):
    return [math.tanh(number) for number in x]


def relu(x):
    return [max(number, 0.0) for number in x]


def softmax(scores, allowed):
    """Softmax over the allowed places. Other places get 0; if no place is allowed, all get 0."""
    top = max((s for s, ok in zip(scores, allowed, strict=True) if ok), default=0.0)
    parts = [math.exp(s - top) if ok else 0.0 for s, ok in zip(scores, allowed)]
    return [part / (sum(parts) or 1.0) for part in parts]


def mix(weights, vectors):
    """Σ_j weights_j vectors_j."""
    return [dot(weights, numbers) for numbers in zip(*vectors, strict=True)]


def attention(q, k, v, mask):
    """DABERT Eq. (1), Vaswani et al. Eq. (1), in one head of one pair. Returns: mixed, weights."""
    weights = [softmax([dot(query, key) / math.sqrt(len(query)) for key in k], mask) for query in q]
    return [mix(row, v) for row in weights], weights


def calibrated_attention(q, k, v, M, mask, printed):
    """DAFA Eq. (6), Knowledge Eq. (5), in one head of one pair. M: (L, L). Returns: as above."""
    weights = []
    for i, query in enumerate(q):
        scores = [dot(query, key) / math.sqrt(len(query)) for key in k]
        if printed:                                             # softmax((Q Kᵀ ⊙ M_F) / √d_k)
            weights.append(softmax([m * score for m, score in zip(M[i], scores)], mask))
        else:                                                   # ∝ M̃ exp(q·k / √d_k)
            top = max(scores)
            parts = [real * m * math.exp(s - top) for real, m, s in zip(mask, M[i], scores)]
            weights.append([part / (sum(parts) or 1.0) for part in parts])
    return [mix(row, v) for row in weights], weights


def guided_attention(values, guide, mask, W_values, W_guide, w, printed):
    """One half of DABERT Eq. (5), DAFA Eq. (7), Knowledge Eq. (6).

    The letters are those of DAFA's first half. w: the map to one number. Returns: attended
    values, weights.
    """
    weights = []
    for s_i in guide:
        scores = []
        for d_j in values:
            if printed:                             # w tanh(W_D d_j ⊕ (W_s s_i + b_s)) + b
                delta = tanh(affine(W_values, d_j) + affine(W_guide, s_i))
            else:                                   # wᵀ tanh(W_D d_j + W_s s_i + b_s)
                delta = tanh(add(affine(W_values, d_j), affine(W_guide, s_i)))
            scores += affine(w, delta)
        weights.append(softmax(scores, mask))
    return [mix(row, values) for row in weights], weights


def gated_fusion(d_star, s_star, W_d, W_s, W_g):
    """DABERT Eq. (6), DAFA Eq. (8), Knowledge Eq. (7). W_g: None for 1/2. Returns: v, g."""
    fused, gates = [], []
    for d_i, s_i in zip(d_star, s_star, strict=True):
        d_hat, s_hat = tanh(affine(W_d, d_i)), tanh(affine(W_s, s_i))
        g = sigma(affine(W_g, d_hat + s_hat)[0]) if W_g else 0.5
        fused.append([g * s + (1 - g) * d for s, d in zip(s_hat, d_hat)])
        gates.append([g])
    return fused, gates


def filtration_gate(sem, fused, W_v, W_l, W_f, printed):
    """DABERT Eq. (7), DAFA Eq. (9), Knowledge Eq. (8). Returns: the signal, f of each token.

    W_f None: f is 1. W_v None: v itself.
    """
    signal, gates = [], []
    for s, v in zip(sem, fused, strict=True):
        of_v = affine(W_v, v) if W_v else v
        f = sigma(affine(W_f, s + of_v)[0]) if W_f else 1.0
        l = [f * x for x in tanh(affine(W_l, v))]
        signal.append(l if printed else add(s, l))
        gates.append([f])
    return signal, gates


def spread(prior, word_index, segment, elsewhere):
    """Spreads a matrix over a pair's words to its tokens: DAFA § 2.2, Knowledge § 3.3."""
    out = [[elsewhere] * len(segment) for _ in segment]
    for x, y in itertools.product(range(len(segment)), repeat=2):
        if (segment[x], segment[y]) == (0, 1) and word_index[x] >= 0 and word_index[y] >= 0:
            out[x][y] = out[y][x] = prior[word_index[x]][word_index[y]]
    return out


def fusion_layer(P, hidden, mask, heads, scope, second, fuse):
    """Any of the three methods for one pair, head by head. Returns: tokens, trace.

    P: name -> linear map. second(q, k, v) -> name in the trace, signal, weights of the second
    attention. fuse(signal of plain attention, signal of the second) -> tokens, trace.
    """
    k, signals, seen = len(hidden[0]) // heads, [], {"attention": []}
    for h in range(heads):
        q, key, v = ([affine(P[name], token)[h * k:(h + 1) * k] for token in hidden]
                     for name in ("query", "key", "value"))
        sem, plain = attention(q, key, v, mask)
        name, other, weights = second(q, key, v)
        seen["attention"].append(plain)
        seen.setdefault(name, []).append(weights)
        signals.append((sem, other))
    if scope == "hidden":                                   # all heads side by side are one signal
        sem, other = ([sum(parts, []) for parts in zip(*heads)] for heads in zip(*signals))
        tokens, trace = fuse(sem, other)
        return tokens, seen | trace
    tokens, traces = zip(*(fuse(*pair) for pair in signals))
    trace = {name: [of_head[name] for of_head in traces] for name in traces[0]}
    return [sum(parts, []) for parts in zip(*tokens)], seen | trace


def gru(x, h, W_x, W_h, b_x, b_h):
    """One step of torch's GRU. The rows of each weight are for r, then for z, then for n."""
    d, of_x, of_h = len(h), affine((W_x, b_x), x), affine((W_h, b_h), h)
    r = [sigma(of_x[i] + of_h[i]) for i in range(d)]
    z = [sigma(of_x[d + i] + of_h[d + i]) for i in range(d)]
    n = [math.tanh(of_x[2 * d + i] + r[i] * of_h[2 * d + i]) for i in range(d)]
    return [(1 - z[i]) * n[i] + z[i] * h[i] for i in range(d)]


def mlp(x, layers):
    """Linear maps with ReLU between them."""
    for linear in layers[:-1]:
        x = relu(affine(linear, x))
    return affine(layers[-1], x)


def convolution(states, W, b, first):
    """W[out][in][j] multiplies the state at t + first + j; states outside are zeros."""
    out = []
    for t in range(len(states)):
        sums = list(b)
        for j in range(len(W[0][0])):
            if 0 <= t + first + j < len(states):
                taps = [[row[j] for row in kernels] for kernels in W]
                sums = add(sums, affine((taps, None), states[t + first + j]))
        out.append(sums)
    return out
