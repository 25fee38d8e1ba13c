"""DAFA Eqs. (1)-(5) and its tf-idf, one pair of words at a time.

A parse has words, heads (from 1; 0 = ROOT) and relations. Nodes are numbered as heads are.
"""
import math


def s(a, i, b, j, root=True):
    """DAFA Eq. (2), of node i of a and node j of b: are they the same word, or both ROOT?"""
    if i == 0 or j == 0:
        return float(i == j and root)
    return float(a.words[i - 1].casefold() == b.words[j - 1].casefold())


def r(a, i, b, j, theta):
    """DAFA Eq. (3)."""
    return theta if a.relations[i - 1] == b.relations[j - 1] else 1.0


def M(a, b, theta, root):
    """DAFA Eq. (1), a list of rows. root: whether two words can share ROOT as their head."""
    rows = []
    for i in range(1, len(a.words) + 1):
        rows.append([])
        for j in range(1, len(b.words) + 1):
            heads = s(a, a.heads[i - 1], b, b.heads[j - 1], root)
            rows[-1].append((heads + s(a, i, b, j)) * r(a, i, b, j, theta))
    return rows


def S(a, b, alpha, nu, printed):
    """DAFA Eq. (4), a list of rows."""
    def similarity(i, j):
        if s(a, i, b, j) == 0 or a.relations[i - 1] != b.relations[j - 1]:
            return 0.0
        total = 0.0 if printed else alpha
        for x in range(1, len(a.words) + 1):
            for y in range(1, len(b.words) + 1):
                if a.heads[x - 1] == i and b.heads[y - 1] == j:
                    if printed:
                        total += alpha * s(a, i, b, j)
                    total += nu * similarity(x, y)
        return total

    return [[similarity(i, j) for j in range(1, len(b.words) + 1)]
            for i in range(1, len(a.words) + 1)]


def tf(sentences, words):
    """The weights of Eq. (5), a list: tf-idf over the sentences, divided by its mean."""
    weights = []
    for word in words:
        word = word.casefold()
        count = sum(other.casefold() == word for other in words)
        df = sum(any(other.casefold() == word for other in sentence) for sentence in sentences)
        weights.append(count * (math.log((1 + len(sentences)) / (1 + df)) + 1))
    return [weight / (sum(weights) / len(weights)) for weight in weights]


def M_F(a, b, tf_a, tf_b, printed, without):
    """DAFA Eq. (5), a list of rows; Table 8's ablations."""
    tree, subgraph = M(a, b, 2.0, "root" not in without), S(a, b, 1.0, 0.5, printed)
    rows = []
    for i, row in enumerate(tree):
        rows.append([])
        for j, agree in enumerate(row):
            total = 0.0 if "tree" in without else agree
            total += 0.0 if "subgraph" in without else subgraph[i][j]
            if without - {"root"} == {"tree", "subgraph"}:     # Fig. 4: "only" tf-idf
                total = 1.0
            rows[-1].append(abs(total) * (1.0 if "tfidf" in without else tf_a[i] * tf_b[j]))
    return rows
