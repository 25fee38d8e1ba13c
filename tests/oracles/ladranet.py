"""LadRa-Net, section V, equation by equation in plain loops, one pair at a time."""
from oracles.common import (add, affine, convolution, gru, mean, mix, mlp, relu, sigma, softmax,
                            tanh)
from oracles.drrnet import attentive_pooling, choose, stacked_gru


def phrase_cnn(states, mask, first, second):
    """Eq. (10): kernel 2 looks right, then left. Returns: each token's state, 0 at padding."""
    def without_padding(vectors):
        return [[x * real for x in vector] for vector, real in zip(vectors, mask)]

    starts = {2: (0, -1), 3: (-1, -1)}[len(first[0][0][0])]     # where a token's kernels begin
    inner = [relu(x) for x in convolution(without_padding(states), *first, starts[0])]
    return without_padding(convolution(without_padding(inner), *second, starts[1]))


def read_limit(states, W_phi, steps, printed):
    """φ of Eq. (14) for every token."""
    phi = [steps * sigma(affine(W_phi, state)[0]) for state in states]
    return phi if printed else [min(max(x, 1.0), max(1.0, steps - 1.0)) for x in phi]


def coverage(left, read, phi, mask, printed):
    """Eq. (14), last line. read: the weights, as printed m̄."""
    left = [c - x / limit for c, x, limit in zip(left, read, phi)]
    spent = all(c <= 1e-6 for c, real in zip(left, mask) if real)
    return [1.0] * len(left) if spent and not printed else left


def dynamic_sequential_attention(P, units, mask, h_ab, steps, beta, printed):
    """Eqs. (12)-(14). Returns: h̄_1, ..., h̄_T, what a trace holds. units: A^r of each r."""
    seen, h, out = {"reading": [], "coverage": [], "mixture": []}, h_ab, []
    left = [[1.0] * len(mask) for _ in units]
    phi = [read_limit(states, P["W_phi"], steps, 14 in printed) for states in units]
    for _ in range(steps):
        parts, reading = [], []
        for r, states in enumerate(units):
            name = f"choices.{r}"
            clue = add(affine(P[f"{name}.U_d"], h), affine(P[f"{name}.M_d"], h_ab),
                       *(affine(P[f"{name}.V_d"], part) for part in parts))
            part, weights, m = choose(states, mask, clue, P[f"{name}.W_d"], P[f"{name}.w_d"], beta,
                                      left[r], 14 in printed)
            read = m if 14 in printed else weights
            left[r] = coverage(left[r], read, phi[r], mask, 14 in printed)
            parts.append(part)
            reading.append(weights)
        scores = [affine(P["w_f"], tanh(affine(P["W_f"], part)))[0] for part in parts]
        mixture = softmax(scores, [r > 0 or 12 not in printed for r in range(len(parts))])
        h = gru(mix(mixture, parts), h, *P["gru"])
        out.append(h)
        seen["reading"].append(reading)
        seen["coverage"].append(list(left))
        seen["mixture"].append(mixture)
    return out, seen


def model(P, states, mask, steps, beta, printed, without):
    """Eqs. (9)-(15). states: embeddings, then each block's. Returns: logits, what a trace holds."""
    if "bert" in without:
        words = stacked_gru([x for x, real in zip(states[0], mask) if real], P["grus"])
        words = [affine(P["W_0"], x) for x in words]
        padding = [[0.0] * len(words[0])] * (len(mask) - len(words))
        units, vectors = [words + padding], [mean(words)]
    else:
        tokens = [mix(P["alpha"], blocks) for blocks in zip(*states[1:])]       # Eq. (9)
        units, vectors = [tokens], [states[-1][0]]
    pooling = []
    for first, second, W, w in zip(P["first"], P["second"], P["W"], P["w"], strict=True):
        units.append(phrase_cnn(units[0], mask, first, second))
        vector, weights = attentive_pooling(units[-1], mask, W, w)
        vectors.append(vector)
        pooling.append(weights)
    h_ab, h, seen = mean(vectors), [], {}
    if "dsa" not in without:
        h, seen = dynamic_sequential_attention(P, units, mask, h_ab, steps, beta, printed)
    vectors = ([] if "global" in without else [h_ab]) + h
    v = [max(column) for column in zip(*vectors)] if "average-pooling" in without else mean(vectors)
    return mlp(v, P["mlp"]), seen | {"pooling": pooling}
