"""priors.py: DAFA Eqs. (1)-(5) against plain loops written from the page; words, CoNLL-U, the cache."""

import io
import math
import os
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import priors  # noqa: E402
from priors import (FORM, HEAD, RELATION, TAG, Parse, TfIdf, dependency_matrix, format_conllu,  # noqa: E402
                    parse_texts, read_conllu, split_words, subgraph_similarity, tree_depths, tree_similarity)

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
    """Random trees: in a random order, each word hangs from one before it, the first from ROOT."""
    n = draw(st.integers(0, max_size))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k in range(1, n):
        heads[order[k] - 1] = order[draw(st.integers(0, k - 1))]
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
            assert got[i, j] == pytest.approx(abs(M[i, j] + S[i, j]) * weight, rel=1e-5)


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
    assert dependency_matrix(a, b, tf_a, tf_b, without={"tree", "subgraph"}).tolist() == [[0] * 3] * 3
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

    monkeypatch.setattr(priors, "NLTKWordTokenizer", Broken)
    assert check_spans("too slow, (this)") == ["too", "slow,", "(this)"] and check_spans("( a") == ["(", "a"]
    assert split_words("slow"[:0]).shape[1] == 2


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


def test_the_second_call_reads_the_cache(tmp_path):
    first, second = Fake(), Fake()
    parses = parse_texts(TEXTS, first, tmp_path / "new" / "folder", progress=False)
    files = os.listdir(tmp_path / "new" / "folder")
    again = parse_texts(reversed(TEXTS), second, str(tmp_path / "new" / "folder"), progress=False)
    assert_same(parses, again)
    assert_same(parses, parse_texts(TEXTS, Fake(), progress=False))
    assert second.seen == [] and len(files) == 1 and files[0].endswith(".npz")
    assert again["A cat sat."].heads.dtype == np.int16 and again["A cat sat."].spans.dtype == np.int32
    for parser, texts in ((Fake("v2"), TEXTS), (Fake(), TEXTS + ["more"]), (Fake(), TEXTS[:-1]),
                          (Fake(), [t.replace("cat", "cut") for t in TEXTS])):
        parse_texts(texts, parser, tmp_path / "new" / "folder", progress=False)
        assert parser.seen
    third = Fake()
    assert_same(parses, parse_texts(TEXTS, third, tmp_path / "new" / "folder", progress=False))
    assert third.seen == []


def test_a_damaged_cache_is_noticed(tmp_path, capsys):
    parses = parse_texts(TEXTS, Fake(), tmp_path, progress=False)
    (path,) = tmp_path.iterdir()
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
            assert warning.count("\n") == 1 and path.name in warning and "damaged" in warning
    assert noticed > len(damaged) / 2   # some bytes of a zip file, such as a date, do not matter
    small = tmp_path / "small"
    parse_texts(["one"], Fake(), small, progress=False)
    path.write_bytes(next(small.iterdir()).read_bytes())   # a whole file, but its sizes do not agree
    with np.load(path) as file:
        arrays = dict(file)
    arrays["lengths"] = arrays["lengths"] + 1
    np.savez(path, **arrays)
    assert_same(parses, parse_texts(TEXTS, Fake(), tmp_path, progress=False))
    assert "do not fit" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.tmp"))


def test_an_interrupted_computation_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(priors, "BATCH_WORDS", 1)
    broken, after = Fake(fail_at=3), Fake()
    with pytest.raises(KeyboardInterrupt):
        parse_texts(TEXTS, broken, tmp_path, progress=False)
    parses = parse_texts(TEXTS, after, tmp_path, progress=False)
    assert len(broken.seen) == 3 and len(after.seen) == 2
    assert_same(parses, parse_texts(TEXTS, Fake(), progress=False))
    assert len(list(tmp_path.iterdir())) == 1


def test_parses_are_saved_on_the_way_and_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(priors, "BATCH_WORDS", 1)
    monkeypatch.setattr(priors, "SAVE_SECONDS", -1)
    saves, replace = [], os.replace
    monkeypatch.setattr(priors.os, "replace", lambda old, new: (saves.append(str(old)), replace(old, new)))
    parse_texts(TEXTS, Fake(), tmp_path, progress=False)
    assert len(saves) >= 5 and all(name.endswith(".tmp") for name in saves)
    monkeypatch.setattr(priors.np, "savez_compressed", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        parse_texts(["other"], Fake(), tmp_path, progress=False)
    assert len(list(tmp_path.iterdir())) == 1


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
