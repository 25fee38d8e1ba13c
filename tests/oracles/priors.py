"""DAFA Eqs. (1)-(5), its tf-idf, the relations of Knowledge Eq. (2), one pair of words at a time.

A parse has words, heads (from 1; 0 = ROOT) and relations. Nodes are numbered as heads are.
"""
import math


def s(a, i, b, j):
    """DAFA Eq. (2), of node i of a and node j of b: are they the same word, or both ROOT?"""
    if i == 0 or j == 0:
        return 1.0 if i == j else 0.0
    return 1.0 if a.words[i - 1].casefold() == b.words[j - 1].casefold() else 0.0


def r(a, i, b, j, theta):
    """DAFA Eq. (3)."""
    return theta if a.relations[i - 1] == b.relations[j - 1] else 1.0


def M(a, b, theta):
    """DAFA Eq. (1), a list of rows."""
    rows = []
    for i in range(1, len(a.words) + 1):
        rows.append([])
        for j in range(1, len(b.words) + 1):
            heads, tails = s(a, a.heads[i - 1], b, b.heads[j - 1]), s(a, i, b, j)
            rows[-1].append((heads + tails) * r(a, i, b, j, theta))
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
        count = df = 0
        for other in words:
            count += other.casefold() == word.casefold()
        for sentence in sentences:
            df += any(other.casefold() == word.casefold() for other in sentence)
        weights.append(count * (math.log((1 + len(sentences)) / (1 + df)) + 1))
    return [weight / (sum(weights) / len(weights)) for weight in weights]


def M_F(a, b, tf_a, tf_b, printed, without):
    """DAFA Eq. (5), a list of rows; Table 8's ablations."""
    tree, subgraph = M(a, b, 2.0), S(a, b, 1.0, 0.5, printed)
    rows = []
    for i, row in enumerate(tree):
        rows.append([])
        for j, agree in enumerate(row):
            total = 0.0 if "tree" in without else agree
            total += 0.0 if "subgraph" in without else subgraph[i][j]
            if without == {"tree", "subgraph"}:                # Fig. 4: "only" tf-idf
                total = 1.0
            rows[-1].append(abs(total) * (1.0 if "tfidf" in without else tf_a[i] * tf_b[j]))
    return rows


# ---- Knowledge Eq. (2) ---------------------------------------------------------------------------

def expressions_of(words, names):
    """(place, size, expression) of those in a sentence: first ones, long ones, none overlapping."""
    found, i = [], 0
    while i < len(words):
        spoken = [(i, size, " ".join(words[i:i + size])) for size in (4, 3, 2)]
        fits = [part for part in spoken if i + part[1] <= len(words) and part[2] in names]
        found += fits[:1]
        i += fits[0][1] if fits else 1
    return found


def table_relations(pairs, x, y):
    """The relations of two words or expressions by a table of pairs, dict relation -> pairs."""
    found, listed = set(), set()
    for relation, rows in pairs.items():
        for p, q in rows:
            p, q = p.casefold(), q.casefold()
            listed |= {p, q}
            if (p, q) == (x, y):
                found.add(relation)
            if (q, p) == (x, y):
                found.add("hyponym" if relation == "hypernym" else relation)
    if x == y:
        return {"synonym"} if x in listed else set()
    return found


def table_matrix(pairs, a, b):
    """k_ij of the words of two sentences by such a table, rows of sets of relations."""
    a, b = [word.casefold() for word in a], [word.casefold() for word in b]
    names = {name.casefold() for rows in pairs.values() for pair in rows for name in pair}
    own = [[table_relations(pairs, x, y) for y in b] for x in a]
    k = [[set(relations) for relations in row] for row in own]

    def settled(i, j):
        return own[i][j] & {"synonym", "antonym"}

    parts_a, parts_b = ([(i, 1, word) for i, word in enumerate(words)]
                        + expressions_of(words, names) for words in (a, b))
    for start_a, size_a, x in parts_a:
        for start_b, size_b, y in parts_b:
            rows, columns = range(start_a, start_a + size_a), range(start_b, start_b + size_b)
            for i in rows:
                for j in columns:
                    if not (any(settled(i, other) for other in columns)
                            or any(settled(other, j) for other in rows)):
                        k[i][j] |= table_relations(pairs, x, y)
    for row in k:
        for relations in row:
            if "antonym" in relations:
                relations.discard("synonym")
            if "synonym" in relations:
                relations.discard("cohyponym")
    return k
