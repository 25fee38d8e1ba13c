"""What is known of two sentences before training: DAFA's dependency matrix, lexical relations.

DAFA (EMNLP Findings 2022), section 2.1, compares each word of a sentence a with each word of a
sentence b. Are the words equal, their heads, their relations to the heads (M)? Do their subtrees
match (S)? Are they rare (tf-idf)? The result, M_F (n, m), calibrates attention in semmatch.

"Using External knowledge to Enhanced PLM for Semantic Matching" (Li and Yuan; cited as Knowledge),
sections 3.1 and 3.2, asks a lexicon: are two words synonyms, antonyms, is one a hypernym (k_ij)?

    the paper            here                           the paper    here
    𝒟_A^i  trigram       word i, its head, its type     θ            theta = 2 (appendix)
    h, t, r of 𝒟_A^i     head, word i, relation         α, ν         alpha = 1, nu = 0.5: ours
    s, r of Eqs. 2, 3    same_words, same_types         tf_{A^i}     tf_a[i]
    k_ij of Knowledge    relation_matrix(...)[i, j]

A parse is any object with these five attributes; support.parses makes such objects:

    words             list of n words
    heads  (n,)       int, the number of each word's head, counted from 1; 0 = ROOT
    symbols  (n+1,)   each word as it is compared; place 0 is ROOT, whose symbol equals no word's
    types  (n+1,)     each word's relation to its head; place 0 is ROOT
    depths  (n+1,)    int, steps from each word up to ROOT

Left out: how trees are found (support.parses) and what a lexicon knows (support.lexicon).
"""

import math
from collections import Counter

import numpy as np

from support.errors import refuse

# Axes: n words of a, m words of b, R lexical relations

TAGS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN",
        "PUNCT", "SCONJ", "SYM", "VERB", "X")   # universal parts of speech


class Prior:
    """What a method knows of a pair's words before training: a matrix over the words of a and b.

    A method's `prior(printed, without)` makes it, a class method, or what `words_prior` returns;
    batches.Reader asks it.

    needs: what is read of each text, some of "words"; "parses"; "facts" of a lexicon; "tags", the
        parts of speech by which a lexicon looks words up (the toy world's lexicon needs none).
    known: its name in a sentence that begins with "without".
    """

    needs, known = ("words",), "prior knowledge"

    def fit(self, sentences):
        """Counts in the training texts. sentences: iterable of lists of words, both of a pair."""

    def state(self):
        """What `fit` counted, of plain values: a run's file holds it. None: nothing."""

    def load(self, state):
        """Takes over what `state` returned."""

    def matrix(self, a, b):
        """(n, m) or (n, m, ...) numbers. a, b: have words, parse, facts, such as batches.Known."""
        raise NotImplementedError


class FunctionPrior(Prior):
    """The prior that a function of two lists of words computes."""

    def __init__(self, function):
        self.function = function
        name = getattr(function, "__name__", "")
        if name.isidentifier():  # a lambda is not
            self.known = name.replace("_", " ")

    def matrix(self, a, b):
        """What the function returns. It gets copies, which it may change."""
        return self.function(list(a.words), list(b.words))


def words_prior(function):
    """The `prior` of a class: a function of two lists of words computes it, (n, m) or (n, m, ...).

        prior = words_prior(equal_words)
    """
    return staticmethod(lambda printed, without: FunctionPrior(function))


def prior_of(method, options):
    """The Prior of a method's class, or None. options: dict, of which printed and without count."""
    make, none = getattr(method, "prior", None), frozenset()
    prior = make and make(options.get("printed", none), options.get("without", none))
    refuse(not isinstance(prior, Prior | None), f"{method.__name__}: expected a priors.Prior of "
           f"its prior (words_prior makes one of a function of words), got {type(prior).__name__}")
    return prior


def equal_words(a: list[str], b: list[str]) -> np.ndarray:
    """1 where word i of a is word j of b up to case, else 0: (n, m) float32. In no paper."""
    a, b = (np.array([word.casefold() for word in words], object) for words in (a, b))
    return (a[:, None] == b).astype(np.float32)  # (n, m)


class TfIdf:
    """The weights tf of DAFA Eq. (5): tf-idf of each word, divided by its mean over the sentence.

        count of w in the sentence · (ln((1 + N) / (1 + df(w))) + 1)

    Of N sentences, df(w) have the word w. Words are case-folded; an unseen word has df = 0.

    Assumes: the formula (the paper cites Ramos et al., 2003, and prints none), and the corpus, the
        task's training sentences.
    Departs: the division by the mean makes a typical word weigh 1. Weights of unit length (about
        0.3 each) would take equal words below 1, where Eq. (6) as printed weakens them.
    """

    def __init__(self, sentences):
        """sentences: iterable of lists of words."""
        self.df, self.N = Counter(), 0
        for words in sentences:
            self.df.update({word.casefold() for word in words})
            self.N += 1

    def weights(self, words: list[str]) -> np.ndarray:
        """(n,) float64 with mean 1, for a list of n words."""
        words = [word.casefold() for word in words]
        count = Counter(words)
        tf = [count[w] * (math.log((1 + self.N) / (1 + self.df[w])) + 1) for w in words]
        tf = np.array(tf)  # (n,)
        return tf / tf.mean() if words else tf


def tree_similarity(a, b, theta=2.0, root=True) -> np.ndarray:
    """M of DAFA Eq. (1), (n, m) float64, for parses a and b of n and m words.

        M(i, j) = [s(h_i, h_j) + s(t_i, t_j)] · r(r_i, r_j)                            DAFA Eq. (1)
        s = 1 for equal words, else 0                                                  DAFA Eq. (2)
        r = θ for equal relations, else 1                                              DAFA Eq. (3)

    With θ = 2 the paper's example ties: Apple and company in one role have 2, Apple in two, too.

    Assumes: words are equal up to case, relations exactly. ROOT equals ROOT alone, so that two
        roots get at least θ whatever their words, often the largest cell of a pair. The page does
        not say whether ROOT is a head that two words share; with root=False it is not. A text of
        several sentences is one tree: later roots hang from the first as parataxis.
    """
    same_words = a.symbols[:, None] == b.symbols  # (n+1, m+1)
    same_words[0, 0] = root
    same_types = a.types[1:, None] == b.types[1:]  # (n, m)
    agreeing = 1.0 * same_words[a.heads[:, None], b.heads] + same_words[1:, 1:]  # (n, m)
    return agreeing * np.where(same_types, theta, 1.0)  # (n, m)


def subgraph_similarity(a, b, alpha=1.0, nu=0.5) -> np.ndarray:
    """S of DAFA Eq. (4), (n, m) float64, for parses a and b of n and m words.

        S(i, j) = Σ (α · s(t_i, t_j) + ν · S(x, y)) over children x of i, y of j,
                  if t_i = t_j and r_i = r_j;   0, else

    The heads must be trees; support.parses checks this where parses come in.
    Assumes: α = 1, ν = 0.5; equality as in Eq. (1). The page has a set in braces: we read its sum.
    Departs: on the page α counts once for each *pair* of children, whatever these are, and a leaf
    gets no α. The text calls α "a fixed score to the child nodes of matching trigram pair". We give
    α once to the matching pair itself, S(i, j) = α + ν · Σ S(x, y); the α of matching children
    reaches their heads as ν α. A third reading of the text, Σ (α + ν · S) over matching children,
    gives a matching leaf 0, where we give it α.
    """
    match = (a.symbols[:, None] == b.symbols) & (a.types[:, None] == b.types)  # (n+1, m+1)
    S = float(alpha) * match  # (n+1, m+1)
    for i, j, p, q in matching_children(match, a, b):
        S[p, q] += nu * S[i, j]
    return S[1:, 1:]  # (n, m)


def matching_children(match, a, b):
    """Places (i, j, p, q) of two words that match and whose heads p, q match, the deepest i first,
    so that S(i, j) is complete when it is added to S(p, q). match: bool (n+1, m+1)."""
    i, j = match[1:, 1:].nonzero()
    p, q = a.heads[i], b.heads[j]
    i, j = i + 1, j + 1
    order = np.argsort(-a.depths[i])
    order = order[match[p, q][order]]
    return zip(*(places[order].tolist() for places in (i, j, p, q)))


def dependency_matrix(M: np.ndarray, S: np.ndarray, tf_a: np.ndarray,
                      tf_b: np.ndarray) -> np.ndarray:
    """M_F of DAFA Eq. (5), (n, m) float32, for sentences of n and m words.

        M_F(i, j) = abs(M(i, j) + S(i, j)) · tf_a[i] · tf_b[j]

    M, S (n, m): tree_similarity, subgraph_similarity. tf_a (n,), tf_b (m,): TfIdf.weights of the
    words. M and S are never negative: abs does nothing.
    """
    return (np.abs(M + S) * np.outer(tf_a, tf_b)).astype(np.float32)  # (n, m)


class DependencyPrior(Prior):
    """M_F of DAFA Eqs. (1)-(5), with the tf-idf of the training sentences.

    without: of PARTS, "tree" (M = 0), "subgraph" (S = 0), "tfidf" (tf = 1), "root" (ROOT is no head
    that two words share); other names are ignored. subgraph_similarity: Eq. (4).
    Assumes: tf-idf "only used" (Fig. 4), without tree and subgraph, is tf_a[i] · tf_b[j]; without
        all three, M_F is 0.
    """

    PARTS = frozenset({"tree", "subgraph", "tfidf", "root"})    # which `without` may name
    needs, known = ("parses",), "the trees"

    def __init__(self, without=frozenset(), subgraph_similarity=subgraph_similarity):
        self.without, self.tfidf = self.PARTS & without, None
        self.subgraph_similarity = subgraph_similarity

    def fit(self, sentences):
        self.tfidf = TfIdf(sentences)

    def state(self):
        return {"sentences": self.tfidf.N, "df": dict(sorted(self.tfidf.df.items()))}

    def load(self, state):
        """Takes over what `fit` counted in training."""
        counts = [state["sentences"], *state["df"].values()]
        if not all(type(count) is int and 0 <= count <= counts[0] for count in counts):
            raise ValueError("expected counts of words, no more than sentences, found others")
        self.tfidf = TfIdf([])
        self.tfidf.N, self.tfidf.df = state["sentences"], Counter(state["df"])

    def matrix(self, a, b):
        """M_F, (n, m) float32."""
        M = S = np.zeros((len(a.words), len(b.words)))  # (n, m)
        tf_a, tf_b = (self.tfidf.weights(words) for words in (a.words, b.words))
        if "tree" not in self.without:
            M = tree_similarity(a.parse, b.parse, root="root" not in self.without)  # (n, m)
        if "subgraph" not in self.without:
            S = self.subgraph_similarity(a.parse, b.parse)  # (n, m)
        if "tfidf" in self.without:
            tf_a, tf_b = np.ones_like(tf_a), np.ones_like(tf_b)
        elif {"tree", "subgraph"} <= self.without:
            M = np.ones_like(M)
        return dependency_matrix(M, S, tf_a, tf_b)  # (n, m)


RELATIONS = "synonym", "antonym", "hypernym", "hyponym", "cohyponym"   # the order of axis R


def relation_matrix(facts_a: list, facts_b: list) -> np.ndarray:
    """k_ij of Knowledge Eq. (2), (n, m, R) bool: which RELATIONS hold of word i of a, word j of b.

    facts_a, facts_b: the `facts` of a support.lexicon, of n and m words. "hypernym" holds where
    word j is a hypernym of word i, as animal is of dog; "hyponym" where word i is a hypernym of
    word j.

    Assumes: equal words that the lexicon knows are synonyms and nothing else. So are two words if
        one has all senses of the other. Equal words that it does not know are not related.
    Departs: co-hyponyms, which share a hypernym, are a fifth relation: the paper's own example,
        wheat and corn. Synonyms do not count as co-hyponyms, nor antonyms as synonyms.

    >>> from support.lexicon import Table
    >>> words = Table({"hypernym": [("dog", "animal")], "synonym": [("beast", "animal")]})
    >>> k = relation_matrix(words.facts(["cat", "beast", "Dog"]), words.facts(["animal"]))
    >>> [[RELATIONS[r] for r in row.nonzero()[0]] for row in k[:, 0]]
    [[], ['synonym'], ['hypernym']]
    """
    k = np.zeros((len(facts_a), len(facts_b), len(RELATIONS)), bool)  # (n, m, R)
    for i, word in enumerate(facts_a):
        for j, other in enumerate(facts_b):
            if word and other and not word.keys.isdisjoint(other.keys):
                k[i, j] = related(word, other)
    return k  # (n, m, R)


class RelationPrior(Prior):
    """k_ij of Knowledge Eq. (2), from a lexicon.

    without: of "tags", relations of any part of speech; "prior", no relation holds, so that the
    places of the words are all that is read.
    """

    known = "the lexicon"

    def __init__(self, without=frozenset()):
        self.needs = ("facts",) if "tags" in without else ("facts", "tags")
        if "prior" in without:
            self.needs, self.known = ("words",), "likeness"

    def matrix(self, a, b):
        """k_ij, (n, m, R) bool."""
        if "facts" not in self.needs:
            return np.zeros((len(a.words), len(b.words), len(RELATIONS)), bool)
        return relation_matrix(a.facts, b.facts)  # (n, m, R)


class WordFeatures(Prior):
    """What DRr-Net knows of two words beside their letters (§ IV-A): are they equal, antonyms?"""

    needs, known = ("parses", "facts"), "equal words and antonyms"

    def matrix(self, a, b):
        """(n, m, 2) bool. Words are equal up to case."""
        equal = equal_words(a.words, b.words).astype(bool)  # (n, m)
        antonyms = relation_matrix(a.facts, b.facts)[..., RELATIONS.index("antonym")]  # (n, m)
        return np.stack([equal, antonyms], -1)  # (n, m, 2)


def related(word, other):
    """Which RELATIONS hold between two Facts, five bool.

    If one has all senses of the other, both are forms of one word (eat, eats) or nearly so. They
    are synonyms and nothing else, although one sense of eat is a hypernym of another.
    """
    if word.senses <= other.senses or word.senses >= other.senses:
        return True, False, False, False, False
    antonym = not word.opposites.isdisjoint(other.senses)
    alike = not (word.senses.isdisjoint(other.senses) and word.similar.isdisjoint(other.first)
                 and other.similar.isdisjoint(word.first))
    synonym = alike and not antonym
    return (synonym, antonym,
            not word.ancestors.isdisjoint(other.senses),
            not word.senses.isdisjoint(other.ancestors),
            not (synonym or word.parents.isdisjoint(other.parents)))
