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

def names_of(words, expressions, forms):
    """For each word, the name under which it is looked up: itself, or the expression it is in.

    forms(word): the word and its base forms, of which the first and the last word may have one.
    """
    words, found, i = [word.casefold() for word in words], [], 0
    while i < len(words):
        best = (1, 0, 0, words[i])
        for name in expressions:
            parts = name.split(" ")
            here = words[i:i + len(parts)]
            if len(here) < len(parts) or not 2 <= len(parts) <= 4 or parts[1:-1] != here[1:-1]:
                continue
            firsts, lasts = forms(here[0]), forms(here[-1])
            if parts[0] in firsts and parts[-1] in lasts:
                order = -firsts.index(parts[0]), -lasts.index(parts[-1])
                best = max(best, (len(parts), *order, name))
        found += [best[3]] * best[0]
        i += best[0]
    return found


def senses(wordnet, name, first):
    """Synsets of a name, of each lemma all or only the first."""
    found = []
    for pos in ("n", "v", "a", "r"):
        for form in wordnet._morphy(name.replace(" ", "_"), pos):
            found += wordnet.synsets(form, pos)[:1 if first else None]
    return found


def is_above(low, high, steps):
    """Is synset high a hypernym of low, that many steps or fewer away?"""
    for up in low.hypernyms() + low.instance_hypernyms():
        if steps > 0 and (up == high or is_above(up, high, steps - 1)):
            return True
    return False


def wordnet_relations(wordnet, x, y, depth, many):
    """The relations of two names, sense by sense."""
    all_x, all_y = senses(wordnet, x, False), senses(wordnet, y, False)
    first_x, first_y = senses(wordnet, x, True), senses(wordnet, y, True)
    found = set()
    for one in all_x:
        opposites = [other.synset() for lemma in one.lemmas() for other in lemma.antonyms()]
        found |= {"synonym"} if one in all_y else set()
        found |= {"antonym"} if any(other in opposites for other in all_y) else set()
    if any(is_above(low, high, depth) for low in first_x for high in all_y):
        found.add("hypernym")
    if any(is_above(low, high, depth) for low in first_y for high in all_x):
        found.add("hyponym")
    for one in first_x:
        for up in one.hypernyms() + one.instance_hypernyms():
            shared = any(is_above(other, up, 1) for other in first_y)
            if shared and len(up.hyponyms()) <= many and "synonym" not in found:
                found.add("cohyponym")
    return found


def table_relations(pairs, x, y):
    """The relations of two names by a table of pairs, dict relation -> pairs."""
    found, listed = set(), set()
    for relation, rows in pairs.items():
        for p, q in rows:
            p, q = p.casefold(), q.casefold()
            listed |= {p, q}
            if (p, q) == (x, y):
                found.add(relation)
            if (q, p) == (x, y):
                found.add("hyponym" if relation == "hypernym" else relation)
    if x == y and x in listed:
        found.add("synonym")
    return found - {"cohyponym"} if "synonym" in found else found
