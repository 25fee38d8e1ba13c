"""DRr-Net, section IV, equation by equation in plain loops, one pair or sentence at a time."""
import math

from oracles.common import add, affine, convolution, gru, mix, mlp, relu, sigma, softmax, tanh


def highway(x, W_t, W_h):
    """Srivastava et al. (2015), Eq. (3): T · H + (1 - T) · x."""
    gates = [sigma(number) for number in affine(W_t, x)]
    return [t * new + (1 - t) * old for t, new, old in zip(gates, relu(affine(W_h, x)), x)]


def stacked_gru(words, grus):
    """Eq. (2) for a sentence: a layer reads [h; x] of the one below. Returns: the top one's."""
    for weights in grus:
        h, out = [0.0] * (len(weights[0]) // 3), []
        for x in words:
            h = gru(x, h, *weights)
            out.append(h + x)
        words = out
    return words


def attentive_pooling(states, mask, W, w):
    """Eq. (3), LadRa-Net Eq. (11). Returns: the sentence's vector, the weights."""
    weights = softmax([affine(w, tanh(affine(W, state)))[0] for state in states], mask)
    return mix(weights, states), weights


def choose(states, mask, clue, W_d, w_d, beta, left=None, printed=False):
    """Eq. (6), LadRa-Net Eq. (13). Returns: chosen, weights, m̄.

    left: LadRa-Net's c of Eq. (14). It multiplies exp(β m̄), and as printed m̄ itself.
    """
    m = [affine(w_d, tanh(add(affine(W_d, state), clue)))[0] for state in states]
    left = left or [1.0] * len(states)
    if printed:
        m = [c * score for c, score in zip(left, m)]
        weights = softmax([beta * score for score in m], mask)
    else:
        allowed = [real and c > 1e-6 for real, c in zip(mask, left)]
        weights = softmax([beta * score + math.log(c) if ok else 0.0
                           for score, c, ok in zip(m, left, allowed)], allowed)
    return mix(weights, states), weights, m


def reread(P, states, h, guide, steps, beta):
    """Eq. (4) for a sentence's words. guide: h^b or None. Returns: v, the weights of each step."""
    reading = []
    for _ in range(steps):
        clue = affine(P["choice.U_d"], h)
        if guide is not None:
            clue = add(clue, affine(P["choice.M_d"], guide))
        chosen, weights, _ = choose(states, [True] * len(states), clue, P["choice.W_d"],
                                    P["choice.w_d"], beta)
        h = gru(chosen, h, *P["gru"])
        reading.append(weights)
    return h, reading


def matching(a, b):
    """Eq. (7)."""
    return a + b + [x * y for x, y in zip(a, b)] + [y - x for x, y in zip(a, b)]


def probability_fusion(sides, mlp_3):
    """Eq. (8), sides (p, w). Returns: P, [α_h, α_v]."""
    gates = [sigma(affine(w, p)[0]) for p, w in sides]
    joined = add(*([gate * x for x in p] for gate, (p, _) in zip(gates, sides)))
    return mlp(joined, mlp_3), gates


def encode(P, sentence):
    """§ IV-A, Eqs. (1)-(3) for a list of (word, its characters, tag, match, antonym)
    Returns: states, the sentence's vector, weights."""
    words = []
    for word, characters, tag, match, antonym in sentence:
        W, b = P["cnn"]
        taps = convolution([P["characters"][c] for c in characters], W, b, -(len(W[0][0]) // 2))
        x = P["words"][word] + ([max(column) for column in zip(*taps)] or [0.0] * len(b))
        x += [float(tag == i) for i in range(17)] + [float(match), float(antonym)]
        for W_t, W_h in zip(P["W_t"], P["W_h"]):
            x = highway(x, W_t, W_h)
        words.append(x)
    states = stacked_gru(words, P["grus"])
    return states, *attentive_pooling(states, [True] * len(states), P["W"], P["w"])


def model(P, pair, classes, steps, beta, without):
    """Eqs. (1)-(8) for one pair of sentences. Returns: logits, what a trace holds."""
    def probabilities(logits):
        return softmax(logits, [True] * classes) if classes > 1 else logits

    (states_a, h_a, pooled_a), (states_b, h_b, pooled_b) = (encode(P, text) for text in pair)
    sides, reading, v = [], [], []
    if "global" not in without:
        sides.append((probabilities(mlp(matching(h_a, h_b), P["mlp_h"])), P["w_h"]))
    if "reread" not in without:
        for states, h_own, h_other in ((states_a, h_a, h_b), (states_b, h_b, h_a)):
            first = [0.0] * len(P["gru"][1][0])
            if "initial-vector" not in without:
                first = affine(P["W_0"], h_own)
            guide = None if "guide-vector" in without else h_other
            vector, weights = reread(P, states, first, guide, steps, beta)
            v.append(vector)
            reading.append(weights)
        sides.append((probabilities(mlp(matching(*v), P["mlp_v"])), P["w_v"]))
    logits, gates = probability_fusion(sides, P["mlp"])
    return logits, {"pooling": [pooled_a, pooled_b], "reading": reading,
                    "relations": [p for p, _ in sides], "gates": gates}
