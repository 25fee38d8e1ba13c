"""priors.py: DAFA Eqs. (1)-(5), Knowledge Eq. (2) against plain loops; words, CoNLL-U, the cache."""

import io
import math
import os
import signal
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import nltk
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.corpus.util import LazyCorpusLoader

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import priors  # noqa: E402
import tasks  # noqa: E402
from priors import (FORM, HEAD, RELATION, TAG, Parse, Table, TfIdf, dependency_matrix,  # noqa: E402
                    format_conllu, parse_texts, read_conllu, relation_matrix, split_words, subgraph_similarity,
                    tree_depths, tree_similarity)

slow = settings(derandomize=True, deadline=None, max_examples=150)

# Few words and relations, so that pairs often match; some differ only in case, some are named like ROOT.
WORDS = ["apple", "Apple", "APPLE", "company", "root", "ROOT", "None", "straße", "STRASSE", "the"]
RELATIONS = ["nsubj", "Nsubj", "obj", "root", "nsubj:pass"]


def make(words, heads, relations):
    """Parse of words joined by one space."""
    ends = np.cumsum([len(word) + 1 for word in words], dtype=np.int64) - 1
    starts = ends - [len(word) for word in words]
    spans = np.stack([starts, ends], axis=1).astype(np.int32).reshape(-1, 2)
    return Parse(" ".join(words), spans, ("X",) * len(words), np.array(heads, np.int16), tuple(relations))


@st.composite
def trees(draw, max_size=7):
    """Random trees and forests: in a random order, each word hangs from one before it or from ROOT, the first from ROOT."""
    n = draw(st.integers(0, max_size))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k in range(1, n):
        heads[order[k] - 1] = (0, *order)[draw(st.integers(0, k))]
    words = draw(st.lists(st.sampled_from(WORDS), min_size=n, max_size=n))
    return make(words, heads, draw(st.lists(st.sampled_from(RELATIONS), min_size=n, max_size=n)))


# ---- oracles: the page, one word pair at a time --------------------------------------------------------------

def same_node(a, i, b, j):
    """Eq. (2) for nodes i of a and j of b, where 0 is ROOT."""
    if i == 0 or j == 0:
        return 1 if i == j else 0
    return 1 if a.words[i - 1].casefold() == b.words[j - 1].casefold() else 0


def oracle_M(a, b, theta):
    M = np.zeros((len(a.words), len(b.words)))
    for i in range(len(a.words)):
        for j in range(len(b.words)):
            r = theta if a.relations[i] == b.relations[j] else 1
            M[i, j] = (same_node(a, a.heads[i], b, b.heads[j]) + same_node(a, i + 1, b, j + 1)) * r
    return M


def oracle_S(a, b, alpha, nu, printed):
    def children(parse, i):
        return [x for x in range(len(parse.words)) if parse.heads[x] == i + 1]

    def S(i, j):
        if not same_node(a, i + 1, b, j + 1) or a.relations[i] != b.relations[j]:
            return 0.0
        total = 0.0 if printed else alpha
        for x in children(a, i):
            for y in children(b, j):
                total += (alpha * same_node(a, i + 1, b, j + 1) if printed else 0) + nu * S(x, y)
        return total

    return np.array([[S(i, j) for j in range(len(b.words))] for i in range(len(a.words))]).reshape(
        len(a.words), len(b.words))


def oracle_tf(sentences, words):
    weights = []
    for word in words:
        count = sum(1 for other in words if other.casefold() == word.casefold())
        df = sum(1 for sentence in sentences if any(w.casefold() == word.casefold() for w in sentence))
        weights.append(count * (math.log((1 + len(sentences)) / (1 + df)) + 1))
    return [weight / (sum(weights) / len(weights)) for weight in weights]


# ---- DAFA Eqs. (1)-(5) ---------------------------------------------------------------------------------------

def apple():
    a = make(["Apple", "exceeded", "company"], [2, 0, 2], ["nsubj", "root", "obj"])
    b = make(["company", "exceeded", "Apple"], [2, 0, 2], ["nsubj", "root", "obj"])
    return a, b


def test_hand_check_of_equations_md():
    a, b = apple()
    assert tree_similarity(a, b).tolist() == [[2, 0, 2], [0, 4, 0], [2, 0, 2]]
    assert subgraph_similarity(a, b).tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert subgraph_similarity(a, b, printed=True).tolist() == [[0, 0, 0], [0, 4, 0], [0, 0, 0]]
    assert dependency_matrix(a, b, np.ones(3), np.ones(3)).tolist() == [[2, 0, 2], [0, 5, 0], [2, 0, 2]]


@slow
@given(trees(), trees(), st.sampled_from([2.0, 3.0, 0.5]))
def test_tree_similarity_is_the_loop(a, b, theta):
    M = tree_similarity(a, b, theta)
    assert M.shape == (len(a.words), len(b.words))
    np.testing.assert_array_equal(M, oracle_M(a, b, theta))


@slow
@given(trees(), trees(), st.sampled_from([(1.0, 0.5), (3, 0.25), (0.5, 2)]), st.booleans())
def test_subgraph_similarity_is_the_recursion(a, b, constants, printed):
    S = subgraph_similarity(a, b, *constants, printed=printed)
    assert S.shape == (len(a.words), len(b.words))
    np.testing.assert_allclose(S, oracle_S(a, b, *constants, printed), rtol=1e-12)


@slow
@given(trees(), st.booleans())
def test_subgraph_similarity_of_a_tree_with_itself_is_the_recursion(a, printed):
    """Random pairs rarely match to the leaves; a tree and itself do."""
    S = subgraph_similarity(a, a, printed=printed)
    np.testing.assert_allclose(S, oracle_S(a, a, 1, 0.5, printed), rtol=1e-12)


@slow
@given(trees(), trees(), st.data())
def test_dependency_matrix_is_equation_5(a, b, data):
    sentences = data.draw(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=6))
    printed = data.draw(st.booleans())
    without = data.draw(st.sets(st.sampled_from(["tree", "subgraph", "tfidf"])))
    tf = TfIdf(sentences)
    got = dependency_matrix(a, b, tf.weights(a.words), tf.weights(b.words), {4} if printed else {6, 7}, without)
    M = oracle_M(a, b, 2) * ("tree" not in without)
    S = oracle_S(a, b, 1, 0.5, printed) * ("subgraph" not in without)
    tf_a, tf_b = oracle_tf(sentences, a.words), oracle_tf(sentences, b.words)
    assert got.dtype == np.float32 and got.shape == (len(a.words), len(b.words))
    for i in range(len(a.words)):
        for j in range(len(b.words)):
            weight = 1 if "tfidf" in without else tf_a[i] * tf_b[j]
            agree = 1 if without == {"tree", "subgraph"} else abs(M[i, j] + S[i, j])        # Fig. 4: tf-idf alone
            assert got[i, j] == pytest.approx(agree * weight, rel=1e-5)


@slow
@given(trees(), trees(), st.booleans())
def test_swapping_the_sentences_transposes(a, b, printed):
    np.testing.assert_array_equal(tree_similarity(a, b), tree_similarity(b, a).T)
    np.testing.assert_allclose(subgraph_similarity(a, b, printed=printed),
                               subgraph_similarity(b, a, printed=printed).T, rtol=1e-12)


@slow
@given(trees())
def test_a_sentence_agrees_most_with_itself(a):
    """Each word's own place is a maximum of its row and column, of M exactly 2θ, of S at least α."""
    M, S = tree_similarity(a, a), subgraph_similarity(a, a)
    assert np.diag(M).tolist() == [4.0] * len(a.words) and (M <= 4).all()
    assert (np.diag(S) >= 1).all()
    assert (S[oracle_M(a, a, 2) < 2] == 0).all()   # where S > 0, M is at least θ


def test_ablations_each_change_their_own_part():
    a, b = apple()
    tf_a, tf_b = np.array([0.5, 1.5, 1.0]), np.array([1.25, 0.75, 1.0])
    whole = dependency_matrix(a, b, tf_a, tf_b)
    no_tree = dependency_matrix(a, b, tf_a, tf_b, without={"tree"})
    no_subgraph = dependency_matrix(a, b, tf_a, tf_b, without={"subgraph"})
    assert whole.tolist() == [[2 * 0.5 * 1.25, 0, 1], [0, 5 * 1.5 * 0.75, 0], [2.5, 0, 2]]
    np.testing.assert_allclose(no_tree + no_subgraph, whole)
    assert no_tree.tolist() == [[0, 0, 0], [0, 1.5 * 0.75, 0], [0, 0, 0]]
    assert dependency_matrix(a, b, tf_a, tf_b, without={"tfidf"}).tolist() == [[2, 0, 2], [0, 5, 0], [2, 0, 2]]
    assert dependency_matrix(a, b, tf_a, tf_b, without={"tree", "subgraph"}).tolist() == np.outer(tf_a, tf_b).tolist()
    assert dependency_matrix(a, b, tf_a, tf_b, without={"tree", "subgraph", "tfidf"}).tolist() == [[0] * 3] * 3
    with pytest.raises(ValueError, match="dependency_matrix.*tree, subgraph, tfidf.*gates"):
        dependency_matrix(a, b, tf_a, tf_b, without={"gates"})


def test_the_printed_equation_4_rewards_child_count_and_forgets_leaves():
    """The defect, and its absence from the intended form."""
    def fan(k, word):
        return make(["eat"] + [word] * k, [0] + [1] * k, ["root"] + ["obj"] * k)

    for k in (1, 2, 5):   # no child matches, yet the printed S of the verb grows with the number of child pairs
        assert subgraph_similarity(fan(k, "fish"), fan(k, "meat"), printed=True)[0, 0] == k * k
        assert subgraph_similarity(fan(k, "fish"), fan(k, "meat"))[0, 0] == 1
    leaf = fan(0, "")
    assert subgraph_similarity(leaf, leaf, printed=True)[0, 0] == 0
    assert subgraph_similarity(leaf, leaf)[0, 0] == 1


def test_the_paper_s_theta_ties_its_example():
    a, b = apple()
    M, larger = tree_similarity(a, b), tree_similarity(a, b, theta=3.0)
    assert M[0, 0] == M[0, 2] and larger[0, 0] > larger[0, 2]   # Apple/company in one role, Apple/Apple in two


def test_root_is_no_word_and_relations_keep_their_case():
    a = make(["root"], [0], ["root"])
    below = make(["x", "root"], [2, 0], ["root", "dep"])
    assert tree_similarity(a, below)[0, 0] == 0       # ROOT above "root", the word "root" above x
    assert tree_similarity(a, below)[0, 1] == 2       # ROOT above both, and the same word
    assert tree_similarity(make(["none"], [0], ["a"]), make(["x", "None"], [2, 0], ["b", "b"]))[0, 0] == 0
    upper = make(["ROOT"], [0], ["Root"])
    assert tree_similarity(a, upper)[0, 0] == 2 and subgraph_similarity(a, upper)[0, 0] == 0


def test_empty_sentences():
    empty, (a, _) = make([], [], []), apple()
    tf = TfIdf([])
    for x, y in ((empty, a), (a, empty), (empty, empty)):
        for printed in (set(), {4}):
            matrix = dependency_matrix(x, y, tf.weights(x.words), tf.weights(y.words), printed)
            assert matrix.shape == (len(x.words), len(y.words)) and matrix.dtype == np.float32
    assert dependency_matrix(empty, a, [], np.ones(3), without={"tree", "subgraph", "tfidf"}).shape == (0, 3)


def test_a_chain_of_512_words():
    n = 512
    chain = make(["a"] * n, range(n), ["x"] * n)   # each word hangs from the one before
    S = subgraph_similarity(chain, chain, nu=0.5)
    longest = np.minimum.outer(np.arange(n, 0, -1), np.arange(n, 0, -1))   # the shorter of the two chains below
    np.testing.assert_allclose(S, 2 - 0.5 ** (longest - 1.0))
    assert chain.depths.tolist() == list(range(n + 1))


@slow
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=8),
       st.lists(st.sampled_from(WORDS), max_size=8))
def test_tf_idf_is_the_loop(sentences, words):
    weights = TfIdf(iter(sentences)).weights(words)
    assert weights.shape == (len(words),)
    np.testing.assert_allclose(weights, oracle_tf(sentences, words), rtol=1e-12)
    if words:
        assert weights.mean() == pytest.approx(1)


def test_tf_idf_puts_rare_words_first():
    tf = TfIdf([["the", "cat"], ["The", "dog"], ["the", "the", "cow"]])
    the, cat, unseen = tf.weights(["the", "cat", "zebu"])
    assert the < cat < unseen and tf.df["the"] == 3


# ---- lexical relations: Knowledge Eq. (2) --------------------------------------------------------------------

NAMES = ["ax", "bee", "cow", "find", "found", "hen", "house", "take", "hen house", "take part", "hen house door",
         "bee in ax", "in front", "it", "in of", "of cow in the hen"]
MORPHS = {("axes", "n"): ["ax"], ("found", "v"): ["find"], ("houses", "n"): ["house"], ("took", "v"): ["take"],
          ("hens", "n"): ["hen"], ("cows", "n"): ["cow"], ("cows", "v"): ["cow"], ("doors", "n"): ["door"]}
SPOKEN = ["ax", "axes", "Bee", "bee", "cow", "COWS", "found", "find", "hen", "Hens", "house", "houses", "took",
          "take", "part", "door", "doors", "in", "front", "it", "of", "the", "zebu", "hen houses", "took part",
          "hens house door", "in front of", "bee in axes", "of cow in the hens"]


class Synset(SimpleNamespace):
    """As nltk's: one sense of some lemmas."""

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        return self is other

    def name(self):
        return self.key

    def pos(self):
        return self.part

    def lemmas(self):
        return self.members

    def hypernyms(self):
        return self.above

    def instance_hypernyms(self):
        return self.classes

    def hyponyms(self):
        return self.below


class Lemma(SimpleNamespace):
    """As nltk's: one word in one of its senses."""

    def name(self):
        return self.key

    def synset(self):
        return self.of

    def antonyms(self):
        return self.against


class Small:
    """A WordNet with the methods of nltk's that priors.WordNet and the oracle call."""

    def __init__(self, names, parts, above, classes, against):
        self.index, self.synsets_ = {}, []
        for k, (lemmas, part) in enumerate(zip(names, parts)):
            synset = Synset(key=f"s{k}", part=part, members=[], above=[], classes=[], below=[])
            synset.members = [Lemma(key=name.replace(" ", "_"), of=synset, against=[]) for name in lemmas]
            for name in lemmas:
                self.index.setdefault((name.replace(" ", "_"), part), []).append(synset)
            self.synsets_.append(synset)
        for k, synset in enumerate(self.synsets_):                # hypernyms come later: no cycles
            synset.above = [self.synsets_[h] for h in sorted(above[k]) if h > k]
            synset.classes = [self.synsets_[h] for h in sorted(classes[k]) if h > k]
            for other in synset.above:
                other.below.append(synset)
        everything = [lemma for synset in self.synsets_ for lemma in synset.members]
        for x, y in against:
            x, y = everything[x % len(everything)], everything[y % len(everything)]
            if x.of is not y.of:
                x.against.append(y)
                y.against.append(x)

    def all_lemma_names(self):
        return {name for name, _ in self.index}

    def _morphy(self, form, pos):
        return [f for f in [form, *MORPHS.get((form, pos), [])] if (f, pos) in self.index]

    def synsets(self, name, pos):
        return [synset for form in self._morphy(name, pos) for synset in self.index[form, pos]]


@st.composite
def wordnets(draw):
    n = draw(st.integers(3, 9))
    lemmas = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
    which = st.sets(st.integers(0, n - 1), max_size=2)
    each = lemmas, st.sampled_from("nv"), which, which
    drawn = [draw(st.lists(strategy, min_size=n, max_size=n)) for strategy in each]
    return Small(*drawn, draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=3)))


spoken = st.lists(st.sampled_from(SPOKEN), max_size=6).map(lambda parts: " ".join(parts).split())


def units(words, names, forms):
    """For each word, the name under which it is looked up: itself, or the expression that it is a part of."""
    words, found, i = [word.casefold() for word in words], [], 0
    while i < len(words):
        best = (1, 0, 0, words[i])
        for name in names:
            parts = name.split(" ")
            here = words[i:i + len(parts)]
            if 2 <= len(parts) <= 4 and len(here) == len(parts) and parts[1:-1] == here[1:-1] \
                    and parts[0] in forms(here[0]) and parts[-1] in forms(here[-1]):
                order = -forms(here[0]).index(parts[0]), -forms(here[-1]).index(parts[-1])
                best = max(best, (len(parts), *order, name))
        found += [best[3]] * best[0]
        i += best[0]
    return found


def wordnet_forms(wordnet):
    """A function: the word and its base forms."""
    return cache(lambda word: list(dict.fromkeys(sum((wordnet._morphy(word, pos) for pos in "nvar"), [word]))))


def wordnet_senses(wordnet, name, only_first=False):
    if name in priors.FUNCTION_WORDS:
        return []
    found = []
    for pos in ("n", "v", "a", "r"):
        for form in wordnet._morphy(name.replace(" ", "_"), pos):
            found += wordnet.synsets(form, pos)[:1 if only_first else None]
    return found


def is_above(low, high, steps):
    """Whether synset high is a hypernym of low, that many steps or fewer away."""
    return steps > 0 and any(up is high or up == high or is_above(up, high, steps - 1)
                             for up in low.hypernyms() + low.instance_hypernyms())


def oracle_relations(wordnet, x, y, depth):
    """The relations of two looked-up names, sense by sense."""
    all_x, all_y = wordnet_senses(wordnet, x), wordnet_senses(wordnet, y)
    first_x, first_y = wordnet_senses(wordnet, x, True), wordnet_senses(wordnet, y, True)
    found = set()
    for s in all_x:
        opposites = [other.synset() for lemma in s.lemmas() for other in lemma.antonyms()]
        for t in all_y:
            found |= {"synonym"} if s == t else set()
            found |= {"antonym"} if t in opposites else set()
    if any(is_above(s, t, depth) for s in first_x for t in all_y):
        found.add("hypernym")
    if any(is_above(t, s, depth) for s in all_x for t in first_y):
        found.add("hyponym")
    for s in first_x:
        for t in first_y:
            for up in s.hypernyms() + s.instance_hypernyms():
                if is_above(t, up, 1) and len(up.hyponyms()) <= priors.MANY and "synonym" not in found:
                    found.add("cohyponym")
    return found


def named(row):
    return {priors.RELATIONS[r] for r in range(5) if row[r]}


def relations(lexicon, x, y):
    """The relations of each word of x and each of y, all in one set."""
    return named(relation_matrix(lexicon.facts(x.split()), lexicon.facts(y.split())).any((0, 1)))


def check_wordnet(lexicon, wordnet, a, b, depth):
    names = [name.replace("_", " ") for name in wordnet.all_lemma_names() if "_" in name]
    names = [name for name in names if any(part not in priors.FUNCTION_WORDS for part in name.split())]
    units_a, units_b = (units(words, names, wordnet_forms(wordnet)) for words in (a, b))
    k = relation_matrix(lexicon.facts(a), lexicon.facts(b))
    assert k.shape == (len(a), len(b), 5) and k.dtype == bool
    for i, x in enumerate(units_a):
        for j, y in enumerate(units_b):
            assert named(k[i, j]) == oracle_relations(wordnet, x, y, depth), (x, y)


@settings(derandomize=True, deadline=None, max_examples=250, suppress_health_check=list(HealthCheck))
@given(wordnets(), spoken, spoken, st.integers(1, 3), st.integers(1, 3))
def test_relation_matrix_of_a_small_wordnet_is_the_loop(wordnet, a, b, depth, many):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(priors, "load_wordnet", lambda: wordnet)
        patch.setattr(priors, "MANY", many)
        check_wordnet(priors.WordNet(depth), wordnet, a, b, depth)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("many", [2, 3])
def test_depth_and_many_in_a_small_wordnet(depth, many, monkeypatch):
    """ax, bee, cow < hen < hen house < in front. A form of two verbs: found, and find < take part."""
    names = "ax", "bee", "cow", "hen", "hen house", "in front", "found", "find", "take part", "house", "take"
    above = {3}, {3}, {3}, {4}, {5}, (), (), {8}, (), (), ()
    wordnet = Small([[name] for name in names], "nnnnnnvvvnv", above, [()] * 11, [])
    monkeypatch.setattr(priors, "load_wordnet", lambda: wordnet)
    monkeypatch.setattr(priors, "MANY", many)
    lexicon = priors.WordNet(depth)
    assert relations(lexicon, "ax", "bee") == ({"cohyponym"} if many == 3 else set())
    for steps, other in enumerate(["hen", "hen houses", "in front"], 1):
        assert relations(lexicon, "ax", other) == ({"hypernym"} if depth >= steps else set())
        assert relations(lexicon, other, "ax") == ({"hyponym"} if depth >= steps else set())
    assert relations(lexicon, "found", "took part") == {"hypernym"}


def test_wordnet_facts_are_read_once(monkeypatch):
    wordnet = Small([["ax"], ["bee"]], "nn", [{1}, set()], [set(), set()], [])
    monkeypatch.setattr(priors, "load_wordnet", lambda: wordnet)
    lexicon = priors.WordNet()
    first = lexicon.facts(["Axes", "zebu", "it"])
    monkeypatch.setattr(wordnet, "synsets", None)
    again = lexicon.facts(["axes", "ZEBU", "AXES"])
    assert first[1:] == [None, None] and again[1] is None and again[0] is again[2] is first[0]
    for depth in (0, -1):
        with pytest.raises(ValueError, match=f"WordNet: depth must be 1 or more, got {depth}"):
            priors.WordNet(depth)


# ---- a table of pairs

TERMS = ["ant", "bee", "cow", "New York", "the new york times", "york city", "in", "ÉCOLE"]
terms = st.tuples(st.sampled_from(TERMS), st.sampled_from(TERMS))
tables = st.fixed_dictionaries({}, optional={name: st.lists(terms, max_size=4) for name in priors.RELATIONS
                                             if name != "hyponym"})
sentences = st.lists(st.sampled_from([*TERMS, "YORK", "new", "école", "times", "Ant", "city"]), max_size=5).map(
    lambda parts: " ".join(parts).split())


def oracle_table(pairs, x, y):
    """The relations of two looked-up names."""
    pairs = {relation: [(p.casefold(), q.casefold()) for p, q in rows] for relation, rows in pairs.items()}
    words = {word for rows in pairs.values() for pair in rows for word in pair}
    found = {relation for relation, rows in pairs.items() for p, q in rows
             if (p, q) == (x, y) or relation != "hypernym" and (q, p) == (x, y)}
    found |= {"hyponym"} if (y, x) in pairs.get("hypernym", []) else set()
    found |= {"synonym"} if x == y and x in words else set()
    return found - {"cohyponym"} if "synonym" in found else found


@settings(derandomize=True, deadline=None, max_examples=300)
@given(tables, sentences, sentences)
def test_relation_matrix_of_a_table_is_the_loop(pairs, a, b):
    lexicon = Table(pairs)
    names = {word.casefold() for rows in pairs.values() for pair in rows for word in pair}
    facts_a, facts_b = lexicon.facts(a), lexicon.facts(b)
    k = relation_matrix(facts_a, facts_b)
    assert k.shape == (len(a), len(b), 5) and k.dtype == bool
    units_a, units_b = (units(words, names, lambda word: [word]) for words in (a, b))
    for i, x in enumerate(units_a):
        assert (facts_a[i] is None) == (x not in names)
        for j, y in enumerate(units_b):
            assert named(k[i, j]) == oracle_table(pairs, x, y), (x, y)
    # the other way round: transposed, hypernyms are hyponyms
    np.testing.assert_array_equal(relation_matrix(facts_b, facts_a), k.transpose(1, 0, 2)[..., [0, 1, 3, 2, 4]])


def test_the_table_of_the_toy_world():
    lexicon = Table(tasks.LEXICON)
    for x, y, expected in [
            ("bought", "Purchased", {"synonym"}), ("bought", "sold", {"antonym"}), ("nurses", "person", set()),
            ("nurse", "person", {"hypernym"}), ("person", "nurse", {"hyponym"}), ("the", "the", set()),
            ("nurse", "teacher", {"cohyponym"}), ("nurse", "nurse", {"synonym"}), ("in front", "behind", set()),
            ("New York", "city", {"hypernym"}), ("Paris", "new york", {"cohyponym"}), ("new", "york", set()),
            ("behind", "in front of", {"antonym"})]:
        assert relations(lexicon, x, y) == expected, (x, y)
    facts = lexicon.facts("He sat in front of New York".split())
    assert [f is None for f in facts] == [True, True] + [False] * 5
    assert facts[2] is facts[3] is facts[4] and facts[5] is facts[6]
    with pytest.raises(ValueError, match="Table: pairs takes synonym, antonym, hypernym, cohyponym; got .'hyp"):
        Table({"hyponym": [("animal", "dog")]})


def test_relation_matrix_of_empty_and_unknown_sentences():
    lexicon = Table({"synonym": [("a", "b")]})
    for a, b in (([], []), ([], ["a"]), (["a"], []), (["x", "y"], ["a", "z"])):
        k = relation_matrix(lexicon.facts(a), lexicon.facts(b))
        assert k.shape == (len(a), len(b), 5) and k.dtype == bool and not k.any()


# ---- nltk's WordNet, where there is one

@pytest.fixture(scope="module")
def wordnet():
    """nltk's, from where NLTK_DATA says or from shared/ beside the project."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared" / "nltk_data"
    if beside.exists() and str(beside) not in nltk.data.path:
        nltk.data.path.append(str(beside))
    try:
        return priors.load_wordnet()
    except ValueError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def lexicon(wordnet):
    return priors.WordNet()


@pytest.mark.parametrize("x, y, expected", [
    ("wheat", "corn", {"cohyponym"}), ("good", "bad", {"antonym"}), ("dog", "animal", {"hypernym"}),
    ("Animals", "dogs", {"hyponym"}), ("bought", "purchases", {"synonym"}), ("bank", "green", set()),
    ("big", "small", {"antonym"}), ("found", "discover", {"synonym"}), ("Paris", "city", {"hypernym"}),
    ("U.S.", "America", {"synonym"}), ("ice creams", "dessert", {"hypernym"}), ("zzyzx", "zzyzx", set()),
    ("picked up", "collect", {"synonym"}), ("New York", "new york", {"synonym"}), ("New", "York", set()),
    ("up", "down", {"antonym"})])
def test_wordnet_relates(lexicon, x, y, expected):
    assert relations(lexicon, x, y) == expected


def test_wordnet_relates_buy_and_purchase(lexicon):
    assert "synonym" in relations(lexicon, "buy", "purchase")


def test_wordnet_says_nothing_of_function_words(lexicon):
    words = """A In as it he I No was have do be can WILL are the of to and you me am is us who may might not
        n't 's . , ; : ! ? ' " `` '' ( ) - -- ... $ %""".split()
    assert lexicon.facts(words) == [None] * len(words)


def test_depth_counts_steps(wordnet):
    """A dog is a domestic animal is an animal; a canine is a carnivore is a placental is a mammal."""
    for depth in (1, 2, 3, 4):
        lexicon = priors.WordNet(depth)
        assert ("hypernym" in relations(lexicon, "dog", "animal")) == (depth >= 2)
        assert ("hypernym" in relations(lexicon, "dog", "mammal")) == (depth >= 4)


def test_relation_matrix_of_wordnet_is_the_loop(wordnet):
    a = "In New York dealers found big ice creams , which Paris men bought happily .".split()
    b = "Wheat of small women ; unhappy cities and desserts discovered as corn in London".split()
    check_wordnet(priors.WordNet(2), wordnet, a, b, 2)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=8), max_size=5))
def test_wordnet_takes_any_words(lexicon, words):
    assert len(lexicon.facts(words)) == len(words)


def test_without_wordnet_one_line_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    for content, problem in ((None, "does not find it"), (b"", "is damaged"), (b"no zip file", "is damaged")):
        if content is not None:
            (tmp_path / "corpora").mkdir(exist_ok=True)
            (tmp_path / "corpora" / "wordnet.zip").write_bytes(content)
        monkeypatch.setattr(nltk.corpus, "wordnet", LazyCorpusLoader("wordnet", WordNetCorpusReader, None))
        with pytest.raises(ValueError, match="`python -m nltk.downloader wordnet`.*NLTK_DATA") as caught:
            priors.WordNet()
        assert problem in str(caught.value) and "\n" not in str(caught.value)


# ---- trees ---------------------------------------------------------------------------------------------------

@slow
@given(st.integers(0, 6).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n)))
def test_tree_depths_is_the_walk_upwards(heads):
    depths = tree_depths(heads)
    for k in range(len(heads)):
        steps, at = 0, heads[k]
        while at and steps <= len(heads):
            steps, at = steps + 1, heads[at - 1]
        assert depths[k] == steps


def test_a_parse_that_is_no_tree_says_so():
    for heads in ([2, 1], [1, 0], [3, 0], [-1, 0]):
        with pytest.raises(ValueError, match="heads must all lead to 0"):
            subgraph_similarity(make(["a", "b"], heads, ["x", "y"]), apple()[0])
    with pytest.raises(ValueError, match=r"relations, got \(2, 2, 2, 1\)"):
        make(["a", "b"], [0, 1], ["x"])


# ---- words ---------------------------------------------------------------------------------------------------

TRICKY = [
    "", " ", "\n\t ", "...", "''\"``", "\"''\" `` '' \"", "He said ''no'' and \"yes\".", "😀👩‍👩‍👧!", "'''\"'''",
    "a\u00a0b\u2028c\x85d\x1ce", "(\"quoted\")", "'tis \"'twas''", "cannot gimme wanna d'ye", "\"", "''", "`",
    "U.S. isn't it?) '", "x\x00y", "\ud800 lone", "ﷺ İstanbul ǅ", "e\u0301 \u200b\ufeff", "a. )]}\"''",
    "1,0:5 -- -", "“a” ‘b’ «c»"]


def check_spans(text):
    spans = split_words(text)
    assert spans.ndim == 2 and spans.shape[1] == 2 and np.issubdtype(spans.dtype, np.integer)
    covered, end_before = set(), 0
    for start, end in spans.tolist():
        assert end_before <= start < end <= len(text)
        assert not any(c.isspace() for c in text[start:end])
        covered.update(range(start, end))
        end_before = end
    assert covered == {i for i, c in enumerate(text) if not c.isspace()}
    return [text[start:end] for start, end in spans.tolist()]


@settings(derandomize=True, deadline=None, max_examples=400)
@given(st.text() | st.text("'\"`.,()s’” \n:wnat-") | st.lists(st.sampled_from(TRICKY)).map(" ".join))
@example("''\"``")
def test_split_words_covers_any_text(text):
    check_spans(text)


@pytest.mark.parametrize("text", TRICKY)
def test_split_words_on_tricky_texts(text):
    check_spans(text)


def test_split_words_covers_the_basic_plane_of_unicode():
    for first in range(0, 0x10000, 4096):
        check_spans(" ".join(map(chr, range(first, first + 4096))))


def test_split_words_are_nltk_s():
    text = """He can't pay $3.88 (or 3,36), ''he said, "I won't!" Gonna"."""
    assert check_spans(text) == ["He", "ca", "n't", "pay", "$", "3.88", "(", "or", "3,36", ")", ",", "''", "he",
                                 "said", ",", '"', "I", "wo", "n't", "!", '"', "Gon", "na", '"', "."]
    assert len(check_spans("word. " * 10_000)) == 10_001   # nltk cuts off the last full stop


def test_split_words_survives_nltk(monkeypatch):
    class Broken:
        def tokenize(self, text):
            if "slow" in text:
                raise TimeoutError
            return ["-LRB-"]

    monkeypatch.setattr(priors, "word_tokenizer", Broken)
    assert check_spans("too slow, (this)") == ["too", "slow,", "(this)"] and check_spans("( a") == ["(", "a"]
    assert split_words("slow"[:0]).shape[1] == 2


SENTENCES = ["He left New York.", "He can't.", 'She said "no."', "It's 2003.", "(They cost $3.88.)", "Why?",
             "5 went home.", "It is IBM's.", "“Yes.”", "We saw foo.com.", "Wait...",
             "Dr. J. Doe of the U.S. Navy left."]


@slow
@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5), st.sampled_from([" ", "\n", " \t "]))
def test_split_words_takes_each_sentence_by_itself(sentences, space):
    words = [word for sentence in sentences for word in check_spans(sentence)]
    assert check_spans(space.join(sentences)) == words
    assert not any(word in ("York.", "can't.", "2003.", "IBM's.", "foo.com.") for word in words)


@pytest.mark.parametrize("text, words", [
    ("It ended. He left", "It|ended|.|He|left"), ('It ended." \'He', "It|ended|.|\"|'|He"),
    ("in 1999. 200 men", "in|1999|.|200|men"), ("It ended.) (He left", "It|ended|.|)|(|He|left"),
    ("It ended. he left", "It|ended.|he|left"), ("It ended.He left", "It|ended.He|left"),
    ("J. Smith", "J.|Smith"), ("the U.S. Navy", "the|U.S.|Navy"), ("at 5 p.m. Monday", "at|5|p.m.|Monday"),
    ("D-Calif. 8", "D-Calif.|8"), ("(Mr. Smith", "(|Mr.|Smith"), ("about 5. 6 men", "about|5|.|6|men"),
    ("an ad. Abroad", "an|ad|.|Abroad"), ("It ended. .. So", "It|ended.|..|So")])
def test_a_full_stop_inside_a_text(text, words):
    assert check_spans(text) == words.split("|")


def test_abbreviations_keep_their_full_stop():
    for short in priors.ABBREVIATIONS:
        assert check_spans(f"as {short}. Smith")[1] == f"{short}.", short


# ---- CoNLL-U -------------------------------------------------------------------------------------------------

def row(number, form, head="_", relation="_", tag="X", deps="_", misc="_"):
    return "\t".join([str(number), form, "_", tag, "_", "_", str(head), relation, deps, misc])


EXAMPLE = "\n".join([
    "# newdoc id = d", "# sent_id = 1", "# text = I don't see (it)",
    row(1, "I", 4, "nsubj"), row("2-3", "don't"), row(2, "do", 4, "aux"), row(3, "n't", 4, "advmod"),
    row(4, "see", 0, "root", deps="0:root"), row("4.1", "and", deps="4:x"),
    row(5, "(", 6, "punct", misc="SpaceAfter=No"), row(6, "it", 4, "obj", misc="A=1|SpaceAfter=No"),
    row(7, ")", 6, "punct"), "",
    "# text_en = not the text", row("0.1", "E"),
    row(1, "Hi", 0, "root", misc="SpaceAfter=No"), row(2, "!", 1, "punct"), "", ""])


@pytest.fixture
def write(tmp_path):
    def write(text, name="own.conllu"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return str(path)
    return write


def test_conllu_round_trip(write):
    first, second = sentences = read_conllu(write(EXAMPLE))
    assert format_conllu(sentences) == EXAMPLE
    assert first.text == "I don't see (it)" and second.text == "Hi!"
    assert first.column(FORM) == ["I", "do", "n't", "see", "(", "it", ")"]
    assert first.column(HEAD) == [4, 4, 4, 0, 6, 4, 6] and second.column(TAG) == ["X", "X"]
    assert first.column(RELATION)[:2] == ["nsubj", "aux"]
    assert format_conllu(read_conllu(write("\ufeff" + EXAMPLE.replace("\n", "\r\n")))) == EXAMPLE   # Windows
    assert format_conllu(read_conllu(write("\n" + EXAMPLE.rstrip("\n")))) == EXAMPLE   # blank line first
    assert read_conllu(write("")) == []


def test_only_line_feeds_end_a_conllu_line(write):
    text = row(1, "a\u2028b\x85c", 0, "root") + "\n\n"
    assert format_conllu(read_conllu(write(text))) == text


TWO = [row(1, "a", 2, "x"), row(2, "b", 0, "root")]


@pytest.mark.parametrize("lines, where, what", [
    ([TWO[0], "2\tb\t_"], 2, "10 columns.*found 3"),
    ([TWO[0], TWO[1].replace("\t", " ")], 2, "10 columns.*found 1"),
    (["# c", TWO[0], "# comment"], 3, "10 columns"),
    ([row("x", "a", 0, "root")], 1, "needs number.*'x'"),
    ([row("0", "a", 0, "root")], 1, "needs number.*'0'"),
    ([row("²", "a", 0, "root")], 1, "needs number"),
    ([row(1, " ", 0, "root")], 1, "form, found '1', ' '"),
    ([*TWO, row(4, "c", 1, "x")], 3, "4 cannot follow word 2"),
    ([*TWO, row(2, "c", 1, "x")], 3, "2 cannot follow word 2"),
    ([TWO[0], row("1-2", "ab"), TWO[1]], 2, "1-2 cannot follow word 1"),
    ([row("1-1", "a"), *TWO], 1, "1-1 cannot follow word 0"),
    ([row("1-2", "ab"), TWO[0], row("2-3", "bc"), TWO[1]], 3, "2-3 cannot follow word 1"),
    ([*TWO, row("1.1", "e")], 3, "1.1 cannot follow word 2"),
    ([row("1-3", "ab"), *TWO], 3, "ends before word 3"),
    ([row("0.1", "e")], 1, "ends before word 1"),
    ([*TWO, row(3, "c", 4, "x")], 3, "0 to 3, found '4'"),
    ([*TWO, row(3, "c", "-1", "x")], 3, "0 to 3, found '-1'"),
    ([*TWO, row(3, "c")], 3, "found '_'"),
    ([*TWO, row(3, "c", 2)], 3, "relation.*missing"),
    ([*TWO, "", TWO[1].replace("2", "1", 1), row(2, "b", 0, "root")], 5, "one word with head 0, has 2"),
    (["# c", row(1, "a", 2, "x"), row(2, "b", 1, "y")], 2, "one word with head 0, has 0"),
    (["# c", row(1, "a", 0, "root"), row(2, "b", 3, "x"), row(3, "c", 2, "y")], 3,
     "above word 2 run in a cycle"),
    ([row(1, "a", 0, "root"), row(2, "b", 2, "x")], 2, "above word 2 run in a cycle"),
])
def test_conllu_errors_name_file_and_line(write, lines, where, what):
    path = write("\n".join(lines) + "\n\n")
    with pytest.raises(ValueError, match=what) as problem:
        read_conllu(path)
    assert str(problem.value).startswith(f"{path}, line {where}: ") and "\n" not in str(problem.value)


def test_conllu_file_problems(write, tmp_path):
    path = tmp_path / "latin.conllu"
    path.write_bytes(b"# a\n# caf\xe9\n")
    with pytest.raises(ValueError, match="latin.conllu, line 2: not UTF-8"):
        read_conllu(path)
    with pytest.raises(OSError, match="absent.conllu"):
        read_conllu(tmp_path / "absent.conllu")
    bare = write("\n".join([row(1, "a"), row(2, "b")]) + "\n")
    assert read_conllu(bare, trees=False)[0].column(FORM) == ["a", "b"]


# ---- parses of many texts ------------------------------------------------------------------------------------

class Fake:
    """A parser: a chain from left to right; the tag is the word's length. Counts the sentences it is given."""

    def __init__(self, fingerprint="v1", fail_at=None):
        self.fingerprint, self.fail_at, self.seen = fingerprint, fail_at, []

    def parse(self, sentences):
        assert all(sentences)
        if self.fail_at is not None and len(self.seen) >= self.fail_at:
            raise KeyboardInterrupt
        self.seen += sentences
        return [([f"T{len(word)}" for word in words], list(range(len(words))),
                 ["root", *["dep"] * (len(words) - 1)]) for words in sentences]


TEXTS = ["A cat sat.", "", "\"Quoted,\" he said.", "A cat sat.", "one", "Two words", " \n", "\ud800 odd 😀"]


def assert_same(left, right):
    assert left.keys() == right.keys()
    for text in left:
        x, y = left[text], right[text]
        assert x.text == y.text == text and (x.tags, x.relations) == (y.tags, y.relations)
        assert all(type(name) is str for name in x.tags + x.relations)
        np.testing.assert_array_equal(x.spans, y.spans)
        np.testing.assert_array_equal(x.heads, y.heads)


def test_parse_texts_without_cache():
    parser = Fake()
    parses = parse_texts(iter(TEXTS), parser, progress=False)
    assert set(parses) == set(TEXTS) and len(parser.seen) == 5   # unique, and the two without words not asked
    cat = parses["A cat sat."]
    assert cat.words == ["A", "cat", "sat", "."] and cat.tags == ("T1", "T3", "T3", "T1")
    assert cat.heads.tolist() == [0, 1, 2, 3] and cat.relations == ("root", "dep", "dep", "dep")
    assert len(parses[""].words) == 0 and parses[""].spans.shape == (0, 2)
    assert parse_texts([], parser, progress=False) == {}
    with pytest.raises(ValueError, match="parse_texts: needs parser or conllu"):
        parse_texts(TEXTS)


def test_parse_texts_keeps_512_words():
    parser = Fake()
    long = parse_texts(["w " * 700], parser, progress=False)["w " * 700]
    assert len(long.words) == len(parser.seen[0]) == priors.MAX_WORDS == 512


def test_batches_hold_like_lengths_and_bounded_words(monkeypatch):
    monkeypatch.setattr(priors, "BATCH_WORDS", 10)
    sizes = []

    class Watch(Fake):
        def parse(self, sentences):
            sizes.append([len(s) for s in sentences])
            return super().parse(sentences)

    parse_texts(["w " * k for k in range(9, 0, -1)], Watch(), progress=False)
    assert sizes == [[1, 2, 3, 4], [5, 6], [7, 8], [9]]


@pytest.fixture
def small_shards(monkeypatch):
    """Two texts a shard, so that TEXTS, seven distinct ones, make four."""
    monkeypatch.setattr(priors, "SHARD", 2)


def test_the_second_call_reads_the_cache(tmp_path, small_shards):
    first, second = Fake(), Fake()
    parses = parse_texts(TEXTS, first, tmp_path / "new" / "folder", progress=False)
    (folder,) = (tmp_path / "new" / "folder").iterdir()
    again = parse_texts(reversed(TEXTS), second, str(tmp_path / "new" / "folder"), progress=False)
    assert_same(parses, again)
    assert_same(parses, parse_texts(TEXTS, Fake(), progress=False))
    assert second.seen == [] and sorted(path.name for path in folder.iterdir()) == [f"0000{k}.npz" for k in range(4)]
    assert again["A cat sat."].heads.dtype == np.int16 and again["A cat sat."].spans.dtype == np.int32
    for parser, texts in ((Fake("v2"), TEXTS), (Fake(), TEXTS + ["more"]), (Fake(), TEXTS[:-1]),
                          (Fake(), [t.replace("cat", "cut") for t in TEXTS])):
        parse_texts(texts, parser, tmp_path / "new" / "folder", progress=False)
        assert parser.seen
    third = Fake()
    assert_same(parses, parse_texts(TEXTS, third, tmp_path / "new" / "folder", progress=False))
    assert third.seen == []


def test_parses_are_a_mapping_that_stays_small(monkeypatch, small_shards):
    monkeypatch.setattr(priors, "KEPT", 3)
    parses, sizes = parse_texts(TEXTS, Fake(), progress=False), set()
    for text in [*TEXTS, *TEXTS]:
        assert parses[text].text == text and parses[text] is parses[text]
        sizes.add(len(parses.made))
    assert sizes == {1, 2, 3}
    assert len(parses) == 7 and set(parses) == set(TEXTS) and "one" in parses and "two" not in parses
    with pytest.raises(KeyError):
        parses["two"]


def test_a_damaged_cache_is_noticed(tmp_path, capsys):
    parses = parse_texts(TEXTS, Fake(), tmp_path, progress=False)
    ((path,),) = [folder.iterdir() for folder in tmp_path.iterdir()]
    whole = path.read_bytes()
    damaged = [whole[:cut] for cut in range(0, len(whole), 97)] + [b"not a zip", whole + b"x" * 70_000]
    damaged += [whole[:k] + bytes([whole[k] ^ 0xff]) + whole[k + 1:] for k in range(0, len(whole), 31)]
    noticed = 0
    for data in damaged:
        path.write_bytes(data)
        parser = Fake()
        assert_same(parses, parse_texts(TEXTS, parser, tmp_path, progress=False))
        warning = capsys.readouterr().err
        assert bool(parser.seen) == bool(warning)
        if warning:
            noticed += 1
            assert warning.count("\n") == 1 and str(path) in warning and "damaged" in warning
    assert noticed > len(damaged) / 2   # some bytes of a zip file, such as a date, do not matter
    with np.load(path) as file:
        arrays = dict(file)
    for name, wrong in (("lengths", arrays["lengths"] + 1), ("lengths", arrays["lengths"][:-1]), ("tags", arrays["tags"][:-1]),
                        ("lengths", np.append(arrays["lengths"], 0).astype(np.int16))):
        np.savez(path, **(arrays | {name: wrong}))                  # a whole file, but its sizes do not agree
        assert_same(parses, parse_texts(TEXTS, Fake(), tmp_path, progress=False))
        assert "do not fit" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.tmp"))


def test_only_the_damaged_shard_is_made_anew(tmp_path, small_shards, capsys):
    parses = parse_texts(TEXTS, Fake(), tmp_path, progress=False)
    (path,) = tmp_path.rglob("00002.npz")
    path.write_bytes(b"no zip")
    after = Fake()
    assert_same(parses, parse_texts(TEXTS, after, tmp_path, progress=False))
    order = sorted(set(TEXTS), key=lambda text: (len(text), text))
    assert after.seen == [parses[text].words for text in order[4:6]]
    assert capsys.readouterr().err.count("\n") == 1 and path.read_bytes()[:2] == b"PK"


def test_an_interrupted_computation_goes_on(tmp_path, small_shards):
    """After three of the five sentences with words: one shard is whole, and another is begun."""
    broken, after = Fake(fail_at=3), Fake()
    with pytest.raises(KeyboardInterrupt):
        parse_texts(TEXTS, broken, tmp_path, progress=False)
    whole = len(list(tmp_path.rglob("*.npz")))
    parses = parse_texts(TEXTS, after, tmp_path, progress=False)
    assert len(broken.seen) >= 3 and 0 < whole < 4 and len(after.seen) == 5 - len(broken.seen)
    assert_same(parses, parse_texts(TEXTS, Fake(), progress=False))
    assert len(list(tmp_path.rglob("*.npz"))) == 4 and not list(tmp_path.rglob("*.tmp"))


def test_shards_are_written_whole(tmp_path, small_shards, monkeypatch):
    saves, replace = [], os.replace
    monkeypatch.setattr(priors.os, "replace", lambda old, new: (saves.append((str(old), str(new))), replace(old, new)))
    parse_texts(TEXTS, Fake(), tmp_path, progress=False)
    assert len(saves) == 4 and all(old.endswith(".tmp") and new.endswith(".npz") for old, new in saves)
    monkeypatch.setattr(priors.np, "savez_compressed", lambda file, **arrays: (file.write(b"half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        parse_texts(["other"], Fake(), tmp_path, progress=False)
    assert len(list(tmp_path.rglob("*.*"))) == 4


class Logging(Fake):
    """Notes the process that parses, and may be killed as by kill -9; its memory is no other process's."""

    def __init__(self, log, kill_at=None):
        super().__init__()
        self.log, self.kill_at = log, kill_at

    def parse(self, sentences):
        with open(self.log, "a") as file:
            file.write(f"{os.getpid()} {len(sentences)}\n")
        if [self.kill_at] in sentences:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().parse(sentences)


def test_workers_give_the_same_parses(tmp_path, small_shards):
    alone, state = parse_texts(TEXTS, Fake(), tmp_path / "alone", progress=False), torch.get_rng_state()
    parses = parse_texts(TEXTS, Logging(tmp_path / "log"), tmp_path / "workers", progress=False, workers=2)
    assert_same(alone, parses)
    assert torch.equal(state, torch.get_rng_state())
    processes = {line.split()[0] for line in (tmp_path / "log").read_text().splitlines()}
    assert len(processes) == 2 and str(os.getpid()) not in processes
    files = [sorted((tmp_path / name).rglob("*.npz")) for name in ("alone", "workers")]
    for one, other in zip(*files, strict=True):
        with np.load(one) as x, np.load(other) as y:
            assert x.files == y.files and all(np.array_equal(x[name], y[name]) for name in x.files)
    parser = Logging(tmp_path / "log2")
    parse_texts(TEXTS, parser, tmp_path / "workers", progress=False, workers=2)
    assert not (tmp_path / "log2").exists()


def test_a_killed_worker_loses_its_shard_alone(tmp_path, small_shards):
    with pytest.raises(OSError, match=r"^--workers 1: a process that parses has ended .*what is parsed is kept") as caught:
        parse_texts(TEXTS, Logging(tmp_path / "log", kill_at="one"), tmp_path / "cache", progress=False, workers=1)
    assert "\n" not in str(caught.value)
    done = len(list(tmp_path.rglob("*.npz")))
    after = Fake()
    parses = parse_texts(TEXTS, after, tmp_path / "cache", progress=False)
    assert_same(parses, parse_texts(TEXTS, Fake(), progress=False))
    assert done < 4 and len(list(tmp_path.rglob("*.npz"))) == 4 and ["one"] in after.seen


def test_errors_of_the_parser_are_its_own(tmp_path):
    class Wrong(Fake):
        def parse(self, sentences):
            raise RuntimeError("wrong")

    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="wrong"):
            parse_texts(TEXTS, Wrong(), tmp_path, progress=False, workers=workers)


# ---- the user's own parses -----------------------------------------------------------------------------------

def test_own_parses_are_aligned_by_characters(write):
    du = "\n".join([row("1-2", "du"), row(1, "de", 3, "case"), row(2, "le", 3, "det"),
                    row(3, "10 000", 0, "root"), ""])
    path, other = write(EXAMPLE), write(du, "other.conllu")
    text = "  I don't\nsee (it)"
    parses = parse_texts([text, "Hi!", "du 10 000", ""], conllu=[path, other])
    assert parses[text].words == ["I", "do", "n't", "see", "(", "it", ")"]
    assert parses[text].heads.tolist() == [4, 4, 4, 0, 6, 4, 6]
    assert parses["du 10 000"].words == ["du", "du", "10 000"] and parses["du 10 000"].relations[0] == "case"
    assert parses[""].spans.shape == (0, 2)
    assert parse_texts(["Hi!"], conllu=path)["Hi!"].relations == ("root", "punct")
    tree_similarity(parses[""], parses[text])


def test_own_parses_that_do_not_fit(write):
    path = write(EXAMPLE)
    with pytest.raises(ValueError, match="own.conllu: no parse of 'Hi there'.*2 texts, 1 have none.*# text"):
        parse_texts(["Hi!", "Hi there"], conllu=path)
    wrong = write("# text = a c\n" + "\n".join(TWO) + "\n")
    with pytest.raises(ValueError, match="own.conllu, line 2: the tokens 'a b' do not spell the text 'a c'"):
        parse_texts(["a c"], conllu=wrong)


def test_own_parses_keep_512_words(write):
    rows = [row(k, "w", k + 1, "dep") for k in range(1, 600)] + [row(600, "w", 0, "root")]
    text = " ".join(["w"] * 600)
    parse = parse_texts([text], conllu=write("\n".join(rows) + "\n"))[text]
    assert len(parse.words) == len(parse.tags) == 512
    assert parse.heads.tolist() == [*range(2, 513), 0] and parse.depths[1] == 512


# ---- command line --------------------------------------------------------------------------------------------

@pytest.fixture
def fake_parser(monkeypatch):
    asked = []
    monkeypatch.setattr(priors, "load_parser", lambda path: asked.append(path) or Fake(), raising=False)
    monkeypatch.setattr(priors, "train_parser", lambda *arguments: asked.append(arguments), raising=False)
    return asked


def test_parse_a_text_file(write, fake_parser, capsys, monkeypatch):
    text = "He can't.\n\n  Two   words \n"
    assert priors.main(["parse", write(text, "text.txt")]) == 0
    output = capsys.readouterr().out
    assert output == "\n".join([
        "# sent_id = 1", "# text = He can't.", row(1, "He", 0, "root", "T2"),
        row(2, "ca", 1, "dep", "T2", misc="SpaceAfter=No"),
        row(3, "n't", 2, "dep", "T3", misc="SpaceAfter=No"), row(4, ".", 3, "dep", "T1"), "",
        "# sent_id = 2", "# text = Two words",
        row(1, "Two", 0, "root", "T3"), row(2, "words", 1, "dep", "T5"), "", ""])
    own = parse_texts(["He can't.", "Two words"], conllu=write(output))   # what we write, we read
    assert_same(own, parse_texts(own, Fake(), progress=False))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert priors.main(["parse", "-"]) == 0 and capsys.readouterr().out == output
    assert priors.main(["parse", "--conllu", write(output), "--parser", "mine.npz"]) == 0
    assert capsys.readouterr().out == output and fake_parser == [priors.PARSER] * 2 + ["mine.npz"]


def test_parse_conllu_keeps_tokens_and_comments(write, fake_parser, capsys):
    assert priors.main(["parse", "--conllu", write(EXAMPLE.replace("\tX\t", "\t_\t"))]) == 0
    output = capsys.readouterr().out
    old, new = EXAMPLE.split("\n"), output.split("\n")
    assert len(old) == len(new)
    for before, after in zip(old, new):
        if before[:1].isdigit() and before.split("\t")[0].isdigit():
            before, after = before.split("\t"), after.split("\t")
            assert [before[k] for k in (0, 1, 2, 4, 5, 9)] == [after[k] for k in (0, 1, 2, 4, 5, 9)]
            assert after[3] == f"T{len(after[1])}" and int(after[6]) == int(after[0]) - 1 and after[8] == "_"
        else:
            assert before.replace("\tX\t", "\t_\t") == after


def test_train_parser_is_called(fake_parser):
    assert priors.main(["train-parser", "--treebank", "ud", "--out", "x.npz"]) == 0
    assert fake_parser == [("ud", "x.npz")]


@pytest.mark.parametrize("arguments", [
    [], ["guess"], ["parse"], ["parse", "absent.txt"], ["parse", "--conllu", "absent.conllu"],
    ["parse", "a", "--conllu", "b"], ["train-parser"], ["parse", "--conllu", "BAD"]])
def test_a_user_s_mistake_is_one_line_and_status_2(arguments, write, fake_parser, capsys):
    bad = write("1\tx\n", "bad.conllu")
    try:
        status = priors.main([bad if argument == "BAD" else argument for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    stream = capsys.readouterr()
    assert status == 2 and stream.out == ""
    assert stream.err.count("\n") == 1 and stream.err.startswith("priors.py")


# ---- words of DRr-Net ----------------------------------------------------------------------------------------

def rows_of(vocabulary, words):
    """The vectors that these words get."""
    return vocabulary.vectors[vocabulary.ids(words)].tolist()


def test_tags_are_the_universal_ones():
    assert set(priors.TAGS) == set(
        "ADJ ADP PUNCT ADV AUX SYM INTJ CCONJ X NOUN DET PROPN NUM VERB PART PRON SCONJ".split()) and len(priors.TAGS) == 17


def test_learned_vocabulary_knows_words_that_occur_twice():
    vocabulary = priors.Vocabulary.learn([["The", "dog", "the", "once"], [], ["DOG", "Straße", "STRASSE", "a"]])
    assert vocabulary.words == ["dog", "strasse", "the"] and vocabulary.vectors is None
    assert vocabulary.ids(["THE", "dog", "strasse", "once", "a", "new", "", "Dog"]).tolist() == [4, 2, 3, 1, 1, 1, 1, 2]
    assert vocabulary.ids([]).shape == (0,) and vocabulary.ids([]).dtype == np.int64
    empty = priors.Vocabulary.learn([])
    assert empty.ids(["a"]).tolist() == [1] and empty.spell(["a"]).tolist() == [[1] + [0] * 15]


@slow
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=9), max_size=5), st.lists(st.sampled_from([*WORDS, "new"])))
def test_numbers_of_words_are_the_loop(sentences, words):
    folded = [word.casefold() for sentence in sentences for word in sentence]
    known = sorted({word for word in folded if folded.count(word) >= 2})
    vocabulary = priors.Vocabulary.learn(sentences)
    assert vocabulary.words == known
    numbers = {word: number for number, word in enumerate(known, 2)}
    assert vocabulary.ids(words).tolist() == [numbers.get(word.casefold(), 1) for word in words]


def test_spelling_cuts_and_pads():
    vocabulary = priors.Vocabulary.learn([["bad", "Cab"]])
    assert vocabulary.characters == ["C", "a", "b", "d"]                    # as written, however seldom
    assert vocabulary.spell(["Cab", "", "dzA\U0001f600c", "abababab"], 5).tolist() == [
        [2, 3, 4, 0, 0], [0, 0, 0, 0, 0], [5, 1, 1, 1, 1], [3, 4, 3, 4, 3]]
    spelled = vocabulary.spell(["a" * 15, "a" * 16, "a" * 17])
    assert spelled.dtype == np.int64 and spelled.tolist() == [[3] * 15 + [0], [3] * 16, [3] * 16]
    assert vocabulary.spell([]).shape == (0, 16)


FOUND = {word: np.array(row, np.float32) for word, row in {
    "New": (1, 2, 3), "new": (4, 5, 6), "york": (7, 8, 9), "unread": (0.5, 0.5, 0.5)}.items()}


def test_vocabulary_with_vectors():
    """A word as written has a vector, else its lower case, else one of its own by chance; once is enough."""
    vocabulary = priors.Vocabulary.learn([["New", "York", "is"], ["new", "IS", "NEW", "Odd", "even"]], FOUND)
    assert vocabulary.words == sorted(["New", "new", "york", "is", "odd", "even"])
    assert vocabulary.vectors.shape == (8, 3) and vocabulary.vectors.dtype == np.float32
    assert rows_of(vocabulary, ["New", "new", "NEW"]) == [[1, 2, 3], [4, 5, 6], [4, 5, 6]]
    assert rows_of(vocabulary, ["york", "York", "YORK"]) == [[7, 8, 9]] * 3
    assert vocabulary.ids(["Is"]) == vocabulary.ids(["is"]) != 1 and vocabulary.ids(["unread"]) == 1
    assert not vocabulary.vectors[0].any()
    assert len({tuple(row) for row in vocabulary.vectors.tolist()}) == 8 and np.isfinite(vocabulary.vectors).all()
    again, other = (priors.Vocabulary.learn([["Odd"], ["New"]], FOUND, seed).vectors for seed in (0, 1))
    assert (again == priors.Vocabulary.learn([["Odd"], ["New"]], FOUND).vectors).all() and (again != other).any()


def test_vectors_by_chance_are_spread_as_those_of_the_file():
    rng = np.random.default_rng(0)
    found = {f"w{i}": rng.normal(0, 0.3, 50).astype(np.float32) for i in range(40)}
    vocabulary = priors.Vocabulary.learn([[f"w{i}" for i in range(80)]], found)
    strange = vocabulary.vectors[vocabulary.ids([f"w{i}" for i in range(40, 80)])]
    assert 0.28 < strange.std() < 0.32 and abs(strange.mean()) < 0.03


@pytest.mark.parametrize("found", [None, FOUND], ids=["learned", "fixed"])
def test_vocabulary_round_trip(found, tmp_path):
    words = ["New", "new", "new", "naïve", "naïve", '"\\', "\U0001f600", "\U0001f600"]
    vocabulary = priors.Vocabulary.learn([words], found)
    vocabulary.save(tmp_path / "deep" / "encoder")
    again = priors.Vocabulary.from_folder(tmp_path / "deep" / "encoder")
    assert (again.words, again.characters) == (vocabulary.words, vocabulary.characters)
    assert again.ids([*words, "x"]).tolist() == vocabulary.ids([*words, "x"]).tolist()
    assert again.spell(words).tolist() == vocabulary.spell(words).tolist()
    if found:
        assert again.vectors.shape == vocabulary.vectors.shape and again.vectors.dtype == np.float32
    else:
        assert again.vectors is None


@pytest.mark.parametrize("content", [
    None, b"", b"null", b"[]", b'{"words": []}', b'{"words": 5, "characters": [], "width": null}', b'{"words": ["the", ',
    b'{"words": [["a"]], "characters": [], "width": null}', b'{"words": ["a"], "characters": [], "width": -3}',
    b'{"words": ["a"], "characters": [], "width": "wide"}', b'{"words": ["' + b"\xff" * 5000],
    ids=lambda content: repr(content)[:40])
def test_a_broken_vocabulary_is_one_short_line(content, tmp_path):
    if content is not None:
        (tmp_path / "vocabulary.json").write_bytes(content)
    with pytest.raises(ValueError, match="vocabulary.json") as error:
        priors.Vocabulary.from_folder(tmp_path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400 + len(str(tmp_path)), str(error.value)[:400]


def vectors_in(folder, content, words):
    """What read_vectors finds, as lists, and how many lines it counts as malformed."""
    path = folder / "glove.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found, malformed = priors.read_vectors(path, words, False)
    assert all(vector.dtype == np.float32 and vector.ndim == 1 for vector in found.values())
    return {word: vector.tolist() for word, vector in found.items()}, malformed


GOOD = {"the": [0.5, -1.25, 2.0], "cat": [1.0, 0.0, -3.0]}
LINES = b"the 0.5 -1.25 2e0\ncat 1 0 -3\n"


def test_read_vectors_takes_what_is_needed(tmp_path):
    text = "the 0.5 -1.25 2\nThe 9 9 9\ncat 1 0 -3\nnaïve 1 2 3\ndog 4 5 6"            # no line feed at the end
    assert vectors_in(tmp_path, text, {"the", "cat", "naïve", "dog", "absent"}) == (
        GOOD | {"naïve": [1, 2, 3], "dog": [4, 5, 6]}, 0)
    assert vectors_in(tmp_path, text, {"The"}) == ({"The": [9, 9, 9]}, 0)


@pytest.mark.parametrize("content, malformed", [
    (LINES, 0), (LINES.replace(b"\n", b"\r\n"), 0), (LINES.replace(b"\n", b" \n"), 0), (b"\n\n  \n" + LINES + b"\n\n", 0),
    (b"2 3\n" + LINES, 0), (b"400000 300\n" + LINES, 0), (LINES + b"the 7 7 7\ncat 7 7 7\n", 0),
    (LINES + b"dog 1 2\n", 1), (LINES + b"dog 1 2 3 4\n", 1), (b"dog 1 2\n" + LINES, 1), (LINES + b"dog\n", 0),
    (LINES + b"dog 5\n", 1), (LINES + b"dog 1 x 3\n", 1), (LINES + b"dog 1 nan 3\n", 1), (LINES + b"dog 1 -inf 3\n", 1),
    (LINES + b"dog 1 1e99 3\n", 1), (LINES + b"dog  1 2 3\n", 1), (LINES + b"dog\t1\t2\t3\n", 0),
    (LINES + b"dog . . . 1 2 3\n", 1), (b"the cat@dog.com 1 2 3\n" + LINES, 1), (b"cat 1 x 2\n" + LINES, 1),
    (LINES + b"caf\xe9 1 2 3\n\xff\xfe 1 2 3\n", 0), (LINES + b"dog 1 \xff 3\n", 1), (LINES + b"unread 1 2\nother x\n", 0),
    (LINES + b"dog 1 2 \x00\n", 1), (b"the 9\n" + LINES, 1), (b"cat dog 1 2 3\ndog x\n" + LINES, 2)], ids=repr)
def test_read_vectors_survives_malformed_lines(content, malformed, tmp_path):
    """The good lines count, in any neighbourhood; of the needed others it is said how many there are."""
    found, count = vectors_in(tmp_path, content, {"the", "cat", "dog"})
    assert found == GOOD
    if b"dog\n" not in content and b"dog\t" not in content:                 # whether these are lines of "dog" is open
        assert count == malformed


def test_read_vectors_drops_the_width_of_the_few(tmp_path):
    rows = "".join(f"w{i} 1 2 3 4\n" for i in range(5))
    words = {f"w{i}" for i in range(5)} | {"x", "y"}
    assert vectors_in(tmp_path, "x 1 2 3\ny 1 2 3 4 5\n" + rows, words) == ({f"w{i}": [1, 2, 3, 4] for i in range(5)}, 2)


def test_a_truncated_line_does_not_hide_a_whole_one(tmp_path):
    found = vectors_in(tmp_path, b"cat 1 0\n" + LINES + b"dog 4 5 6\n", {"the", "cat", "dog"})
    assert found == (GOOD | {"dog": [4, 5, 6]}, 1)


def test_a_header_is_no_vector_of_its_number(tmp_path):
    found, _ = vectors_in(tmp_path, b"2000 3\n" + LINES + b"2000 1 2 3\n", {"2000", "the", "cat"})
    assert found == GOOD | {"2000": [1, 2, 3]}


@pytest.mark.parametrize("content", [b"", b"the\n", b"some other words\n", b"unread 1 2 3\n", b"the x y z\n", b"the 5\n",
                                     b"\x1f\x8b\x08\x00 packed \xff\n", b"the\t1\t2\t3\n", b"THE 1 2 3\n"], ids=repr)
def test_a_file_without_the_words_is_one_line(content, tmp_path):
    with pytest.raises(ValueError, match="--glove .*glove.txt: holds none of the 2 words") as error:
        vectors_in(tmp_path, content, {"the", "cat"})
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    for path in (tmp_path / "absent.txt", tmp_path):
        with pytest.raises(ValueError, match="--glove .*cannot be read") as error:
            priors.read_vectors(path, {"the"}, False)
        assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_read_vectors_says_how_far_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(priors, "tqdm", lambda *args, **kwargs: seen.append(kwargs) or tqdm(*args, **kwargs))
    seen, tqdm = [], sys.modules["tqdm"].tqdm
    assert vectors_in(tmp_path, LINES, {"the"})[0] == {"the": GOOD["the"]}
    assert seen[0]["total"] == len(LINES) and seen[0]["disable"] is True and not capsys.readouterr().err
