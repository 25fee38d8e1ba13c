"""priors.py: DAFA Eqs. (1)-(5) and Knowledge Eq. (2) against plain loops; tables, WordNet."""
import itertools

import nltk
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.corpus.util import LazyCorpusLoader

import priors
from oracles import priors as oracle
from batches import Known
from priors import relation_matrix
from semmatch import DafaAttention
from small_runs import write_file
from support import lexicon
from support.lexicon import Table
from support.parses import Parse, split_words

# Few words and relations, so that pairs often match; some differ only in case, some are like ROOT.
WORDS = ["apple", "Apple", "company", "root", "ROOT", "None", "straße", "STRASSE"]
RELATIONS = ["nsubj", "Nsubj", "obj", "root"]


@st.composite
def trees(draw):
    """Random trees and forests: each word hangs from ROOT, or from a word that was drawn before."""
    n = draw(st.integers(0, 6))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k in range(1, n):
        heads[order[k] - 1] = (0, *order)[draw(st.integers(0, k))]
    text = " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=n, max_size=n)))
    relations = draw(st.lists(st.sampled_from(RELATIONS), min_size=n, max_size=n))
    return Parse(text, split_words(text), ("X",) * n, np.array(heads, np.int16), tuple(relations))


# Random pairs rarely match to the leaves; a tree and itself do.
pairs = st.tuples(trees(), trees()) | trees().map(lambda tree: (tree, tree))


@settings(max_examples=100)
@given(pairs, st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=6), st.booleans())
def test_dependency_matrix_is_equation_5(pair, sentences, printed):
    """And without its parts, which leaves M or S alone: Eqs. (1)-(3), (4)."""
    known = [Known(words=parse.words, parse=parse) for parse in pair]
    tf_a, tf_b = (oracle.tf(sentences, parse.words) for parse in pair)
    parts = "tree", "subgraph", "tfidf", "root"
    for without in itertools.chain(*(itertools.combinations(parts, n) for n in range(5))):
        prior = DafaAttention.prior({4} if printed else (), {*without})
        prior.fit(iter(sentences))
        with np.errstate(invalid="ignore"):
            M_F = prior.matrix(*known)
        expected = np.array(oracle.M_F(*pair, tf_a, tf_b, printed, {*without}))
        assert M_F.dtype == np.float32
        np.testing.assert_allclose(M_F, expected.reshape(len(tf_a), len(tf_b)), rtol=1e-5)


def cells(lexicon, x, y):
    """The related words of two texts, in lower case: a set such as {"big-small antonym"}."""
    a, b = x.split(), y.split()
    k = relation_matrix(lexicon.facts(a), lexicon.facts(b))
    return {f"{a[i]}-{b[j]} {priors.RELATIONS[r]}".lower() for i, j, r in zip(*k.nonzero())}


TABLE = {"synonym": [("girl", "lass"), ("dog", "Hound"), ("hot", "cold"), ("a", "c")],
         "antonym": [("big", "little"), ("hot", "cold"), ("on", "on"), ("young", "old")],
         "hypernym": [("Dog", "animal"), ("turn", "move"), ("turn", "on")],
         "cohyponym": [("girl", "boy"), ("young", "old"), ("a", "b"), ("a", "c")]}


def test_a_table_relates_what_its_pairs_say():
    """Up to case. Relations of relations need their own pair."""
    assert priors.equal_words(["Straße", "dog"], ["STRASSE"]).tolist() == [[1], [0]]
    lexicon = Table(TABLE)
    for x, y, expected in (
            ("girl boy", "lass", "girl-lass synonym"), ("a b", "c", "a-c synonym"),
            ("dog hound", "Animal", "dog-animal hypernym"), ("move", "turn", "move-turn hyponym"),
            ("young", "old", "young-old antonym, young-old cohyponym"),
            ("hot", "cold", "hot-cold antonym"), ("little xyz", "xyz big", "little-big antonym")):
        assert cells(lexicon, x, y) == set(expected.split(", ")), (x, y)


def test_equal_words_are_synonyms_and_nothing_else(wordnet):
    """In WordNet one verb force is the antonym of another verb force, and so with eat."""
    assert cells(Table(TABLE), "on zzyzx", "on zzyzx") == {"on-on synonym"}
    for x, y in (("force", "force"), ("eat", "eats"), ("eats", "eat"), ("New", "new")):
        assert cells(wordnet, x, y) == {f"{x}-{y} synonym".lower()}
    words = "A In as it he I No was be can WILL n't 's . `` ( $ % dont cant Wont im hes whos"
    words = words.split() + ["", " ", "_", "\ud800", "\U0001f600"]
    assert wordnet.facts(words) == [None] * len(words)


@pytest.mark.parametrize("tags, expected, pairs", [
    ("", "synonym", "U.S./America, cars/Automobile"), ("", "antonym", "happy/sad"),
    ("", "hypernym", "dog/mammal, Paris/city, saw/perceive"), ("", "hyponym", "Animals/dogs"),
    ("", "cohyponym", "wheat/corn"),
    # too many steps away; by a later sense; two of many persons
    ("", "", "dog/vertebrate, carrying/running, gambler/relative"),
    # tags choose the senses; as verbs father and mother are synonyms
    ("NOUN NOUN", "antonym cohyponym", "father/mother"), ("NOUN VERB", "", "dog/chasing"),
    ("VERB VERB", "synonym", "dog/chasing"), ("ADJ ADJ", "synonym", "huge/big"),
    ("X NOUN", "synonym", "huge/huge"), ("ADP VERB", "", "near/go"),
    # names, two letters and -ss are no plurals; years are, although also a long time
    ("PROPN NOUN", "", "Wales/welt"), ("NOUN NOUN", "", "os/oxygen, discuss/discus"),
    ("NOUN NOUN", "synonym", "geese/goose, years/year")])
def test_wordnet_relates(tags, expected, pairs, wordnet):
    for x, y in (pair.split("/") for pair in pairs.split(", ")):
        facts = [wordnet.facts(text.split(), tag and [tag])
                 for text, tag in zip((x, y), tags.split() or (None, None))]
        *_, holding = relation_matrix(*facts).nonzero()
        assert {priors.RELATIONS[r] for r in holding} == set(expected.split()), (x, y)


def test_without_wordnet_one_line_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    write_file(tmp_path, "corpora/wordnet.zip", b"no zip file")
    loader = LazyCorpusLoader("wordnet", WordNetCorpusReader, None)
    monkeypatch.setattr(nltk.corpus, "wordnet", loader)
    with pytest.raises(ValueError, match="nltk.downloader wordnet`.*NLTK_DATA"):
        lexicon.WordNet()

