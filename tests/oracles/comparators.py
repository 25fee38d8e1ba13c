"""UERBERT, Syntax-BERT and Comateformer for one pair, in plain loops over lists of floats."""
import math

from oracles.common import affine, attention, calibrated_attention, dot, mix, sigma, softmax, spread


def heads_of(P, hidden, heads):
    """Queries, keys, values of each head."""
    k = len(hidden[0]) // heads
    for h in range(heads):
        yield tuple([affine(P[name], token)[h * k:(h + 1) * k] for token in hidden]
                    for name in ("query", "key", "value"))


def side_by_side(results):
    """Tokens of several heads, joined."""
    return [sum(parts, []) for parts in zip(*results)]


# ---- UERBERT ------------------------------------------------------------------------------------

def wu_palmer(parents, one, other):
    """2d / (i + j + 2d) in a tree: word -> the word above it, None at the root."""
    def chain(word):
        return [] if word is None else [word, *chain(parents[word])]

    found = [0.0]
    for i, above in enumerate(chain(one)):
        for j, beyond in enumerate(chain(other)):
            if above == beyond:
                depth = len(chain(above))
                found.append(2 * depth / (i + j + 2 * depth))
    return max(found)


def uerbert_prior(S, word_index, segment, floor, printed):
    """What scores (printed) or weights are multiplied by, (L, L)."""
    share = S if printed else [[floor + (1 - floor) * x for x in row] for row in S]
    return spread(share, word_index, segment, 1.0)


def uerbert(P, hidden, mask, S, word_index, segment, heads, floor, printed):
    """-> tokens, what a trace holds."""
    M = uerbert_prior(S, word_index, segment, floor, printed)
    results, seen = [], {"attention": [], "calibrated": []}
    for q, k, v in heads_of(P, hidden, heads):
        mixed, weights = calibrated_attention(q, k, v, M, mask, printed)
        results.append(mixed)
        seen["attention"].append(attention(q, k, v, mask)[1])
        seen["calibrated"].append(weights)
    return side_by_side(results), seen


# ---- Syntax-BERT --------------------------------------------------------------------------------

def line_up(heads, i):
    """Word i, counted from 1, and all above it, from near to far; heads as in a parse."""
    found = []
    while i > 0:
        found.append(i)
        i = heads[i - 1]
    return found


def relation(heads, i, j):
    """How word j stands to word i of a tree: (kind, distance), or None for itself or no way."""
    up, down = line_up(heads, i), line_up(heads, j)
    common = [word for word in up if word in down]
    if i == j or not common:
        return None
    steps, back = up.index(common[0]), down.index(common[0])
    if back == 0:
        return "parent", steps
    if steps == 0:
        return "child", back
    return "sibling", steps + back - 1


def masks(trees, word_index, segment, distance, without):
    """A square of bools for each sub-network. trees: heads of a, heads of b."""
    kinds = [(kind, d) for kind in ("parent", "child", "sibling") if kind not in without
             for d in range(1, distance + 1)]
    kinds += [(kind, 0) for kind in ("pairwise", "full") if kind not in without]
    found = []
    for kind, d in kinds:
        found.append([])
        for x in range(len(segment)):
            found[-1].append([])
            for y in range(len(segment)):
                if kind == "full":
                    allowed = True
                elif kind == "pairwise":
                    allowed = x == y or segment[x] != segment[y]
                elif segment[x] != segment[y] or word_index[x] < 0 or word_index[y] < 0:
                    allowed = False
                else:
                    heads = trees[segment[x]]
                    allowed = relation(heads, word_index[x] + 1, word_index[y] + 1) == (kind, d)
                found[-1][-1].append(allowed)
    return found


def masked_attention(q, k, v, allowed):
    """One head, one sub-network -> mixed, weights."""
    weights = [softmax([dot(query, key) / math.sqrt(len(query)) for key in k], row)
               for query, row in zip(q, allowed, strict=True)]
    return [mix(row, v) for row in weights], weights


def topical_attention(results, there, w, W_K, W_V):
    """Of one token: results of the sub-networks, whether it had a key -> mixed, weights."""
    scores = [score for result in results for score in affine(w, affine(W_K, result))]  # one each
    weights = softmax(scores, there)
    if not any(there):
        return affine(W_V, [0.0] * len(results[0])), weights
    return mix(weights, [affine(W_V, result) for result in results]), weights


def syntaxbert(P, hidden, mask, allowed, heads, without):
    """allowed: of `masks`, without padding -> tokens, what a trace holds."""
    L, networks, seen = len(hidden), [], {"masked": []}
    for square in allowed:
        square = [[ok and real for ok, real in zip(row, mask)] for row in square]
        results, weights = zip(*(masked_attention(q, k, v, square)
                                 for q, k, v in heads_of(P, hidden, heads)))
        networks.append((side_by_side(results), square))
        seen["masked"].append([[sum(one[x][y] for one in weights) / heads for y in range(L)]
                               for x in range(L)])
    tokens, topical = [], []
    for x in range(L):
        results = [result[x] for result, _ in networks]
        if "topical" in without:
            tokens.append([sum(numbers) / math.sqrt(len(networks)) for numbers in zip(*results)])
            continue
        there = [any(square[x]) for _, square in networks]
        mixed, weights = topical_attention(results, there, P["w"], P["W_K"], P["W_V"])
        tokens.append(mixed)
        topical.append(weights)
    return tokens, seen if "topical" in without else seen | {"topical": topical}


# ---- Comateformer -------------------------------------------------------------------------------

def combined_attention(q, k, v, mask, without, centred=False):
    """One head -> mixed, what is added, what is subtracted, 2σ(N) or σ(N - its mean)."""
    added, subtracted, near = [], [], []
    pairs = [(a, b) for a, one in zip(q, mask) for b, other in zip(k, mask) if one and other]
    distances = [sum(abs(x - y) for x, y in zip(a, b)) / math.sqrt(len(a)) for a, b in pairs]
    mean = -sum(distances) / max(1, len(distances))
    for query in q:
        row, closeness = [], []
        for key, real in zip(k, mask, strict=True):
            E = dot(query, key) / math.sqrt(len(query))
            N = -sum(abs(x - y) for x, y in zip(query, key)) / math.sqrt(len(query))
            affinity = 1.0 if "affinity" in without else math.tanh(E)
            close = sigma(N - mean) if centred else 2 * sigma(N)
            close = 1.0 if "difference" in without else close
            row.append(affinity * close if real else 0.0)
            closeness.append(close if real else 0.0)
        added.append([max(x, 0.0) for x in row])
        subtracted.append([max(-x, 0.0) for x in row])
        near.append(closeness)
    mixed = [mix([plus - minus for plus, minus in zip(*rows)], v)
             for rows in zip(added, subtracted)]
    return mixed, added, subtracted, near


def comateformer(P, hidden, mask, heads, combined, without, centred):
    """The first `combined` heads, and plain ones -> tokens, what a trace holds."""
    results, seen = [], {"added": [], "subtracted": [], "near": []}
    for h, (q, k, v) in enumerate(heads_of(P, hidden, heads)):
        if h < combined:
            mixed, *parts = combined_attention(q, k, v, mask, without, centred)
            for name, part in zip(("added", "subtracted", "near"), parts):
                seen[name].append(part)
        else:
            mixed, weights = attention(q, k, v, mask)
            seen.setdefault("attention", []).append(weights)
        results.append(mixed)
    return side_by_side(results), seen
