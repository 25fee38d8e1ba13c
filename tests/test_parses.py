"""support/parses.py: words, parses of many texts, how they are kept, a user's own parses."""
import os
import signal
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import parses
from support.conllu import read_conllu, tree_depths
from support.parses import Parse, join_trees, parse_texts, split_sentences, words_at
from small_runs import the_line
from test_conllu import EXAMPLE, TWO, row, write  # noqa: F401

# ---- words ---------------------------------------------------------------------------------------

TRICKY = [
    "", "\n\t ", "''\"``", "\"''\" `` '' \"", "He said ''no'' and \"yes\".", "\ud800 lone", "ﷺ İ “",
    "😀👩\u200d👩\u200d👧!", "a\u00a0b\u2028c\x85d\x1ce", "'tis \"'twas''\"", "x\x00y",
    "cannot gimme wanna d'ye", "U.S. isn't it?) '", "e\u0301 \u200b\ufeff", "a. )]}\"''",
    "‘“don’t…”’", "….…", "dont'im", "CaNt", "@user.", "#tag's", "http://x.y/?z…", ":)", "＂！＇"]


def words_of(text):
    """The words, after a check that the spans hold all characters but spaces, in order."""
    spans, lengths = split_sentences(text)
    assert spans.ndim == 2 and np.issubdtype(spans.dtype, np.integer)
    places = [place for start, end in spans.tolist() for place in range(start, end)]
    assert places == [i for i, c in enumerate(text) if not c.isspace()]
    assert (spans[:, 0] < spans[:, 1]).all() and sum(lengths) == len(spans)
    assert len(words_at(text, spans)) == len(spans) and all(words_at(text, spans))
    return [text[start:end] for start, end in spans.tolist()]


def cut(text):
    """The words as they are read, with | between them and ‖ between sentences."""
    words_of(text)
    spans, lengths = split_sentences(text)
    words = iter(words_at(text, spans))
    return "‖".join("|".join(next(words) for _ in range(length)) for length in lengths)


@settings(max_examples=40)
@given(st.text() | st.text("'\"`.,()s’”…@#ntim \n:/w-—")
       | st.lists(st.sampled_from(TRICKY)).map(" ".join))
def test_split_words_covers_any_text(text):
    words_of(text)


def test_split_words_are_nltk_s():
    words_of(" ".join(map(chr, range(0x10000))))
    text = """He can't pay $3.88 (or 3,36), ''he said, "I won't!" Gonna"."""
    assert words_of(text) == """He ca n't pay $ 3.88 ( or 3,36 ) , '' he said , " I wo n't ! "
        Gon na " .""".split()
    assert len(words_of("etc. " * 10_000)) == 10_001   # nltk cuts off the last full stop


def test_split_words_survives_nltk(monkeypatch):
    """A word that is not in the text, or no answer: the parts between spaces."""
    class Broken:
        def tokenize(self, text):
            return ["-LRB-"]

    monkeypatch.setattr(parses, "word_tokenizer", Broken)
    assert words_of("( a") == ["(", "a"]
    Broken.tokenize = lambda self, text: list("".join(text.split()))    # it cuts … into three
    assert words_of("ab …") == ["ab", "…"] and words_of("ab") == ["a", "b"]


@pytest.mark.parametrize("text, words", [
    ("don’t It’s", "do|n't|It|'s"), ("“Don‘t” „no“ «a»", '"|Do|n\'t|"|"|no|"|"|a|"'),
    ("Well…", "Well|..."), ("a — b – 1990–95", "a|--|b|--|1990|--|95"),
    ("a——b--c", "a|--|--|b|--|c"), ("the dogs’ non‑stop", "the|dogs|'|non-stop"),
    ("ＡＢ！", "AB|!"), ("dont Cant DIDNT", "do|n't|Ca|n't|DID|N'T"),
    ("im ive youre thats he`ll", "i|'m|i|'ve|you|'re|that|'s|he|'ll"),
    ("its id ill well were wont mont Ex-Im", "its|id|ill|well|were|wont|mont|Ex-Im"),
    ("@user's .@a_b x @ 5 @5", "@user|'s|.‖@a_b|x|@|5|@|5"), ("<a.b-c@d.org>", "<|a.b-c@d.org|>"),
    ("#tag, #1 &#x;", "#tag|,|#|1|&|#|x|;"),
    ("(http://t.co/a?b=c&d#e).", "(|http://t.co/a?b=c&d#e|)|."),
    ("“https://t.co/ab…”", '"|https://t.co/ab|...|"'), ("ok :) (a:) :-D.", "ok|:)|(|a|:|)|:-D|."),
    # where sentences end
    ("It ended. He left", "It|ended|.‖He|left"), ("It ended. he left", "It|ended|.‖he|left"),
    ('It ended." (He', 'It|ended|.|"‖(|He'), ("It ended.He left", "It|ended.He|left"),
    ("J. Smith", "J.|Smith"), ("at 5 p.m. Monday", "at|5|p.m.|Monday"), ("etc. he", "etc.|he"),
    ("about 5. 6 men", "about|5|.‖6|men"), ("5 mil. a", "5|mil.|a"),
    ("the U.S. The men", "the|U.S|.‖The|men"), ("1. One. 2. Two", "1.|One|.‖2.|Two"),
    ("Why? No! but yes", "Why|?‖No|!‖but|yes"), ('"Why?" he said', '"|Why|?|"|he|said'),
    ("“Why?” He left", '"|Why|?|"‖He|left'), ("Yahoo! Inc", "Yahoo|!|Inc"), ("A ? No", "A|?‖No"),
    ("Well… Yes", "Well|...‖Yes"), ("well... yes", "well|...|yes"), ("(yes!) no", "(|yes|!|)|no"),
    ("see http://x.y/?z. @user", "see|http://x.y/?z|.‖@user"), ("... No. 20. I", "...|No.|20|.‖I"),
    ("Title\r\n\r\nit has\nlines", "Title‖it|has|lines")])
def test_words_of_print_and_web_and_sentences(text, words):
    assert cut(text) == words


EWT = Path(__file__).resolve().parents[2] / "shared/data/ud_ewt/en_ewt-ud-dev.conllu"


@pytest.mark.skipif(not EWT.is_file(), reason="needs the treebank beside the project")
def test_sentences_of_a_treebank():
    """Where sentences end inside a paragraph, joined by spaces. We measured 98.3 and 80.3 %."""
    paragraphs, right, found, there = [], 0, 0, 0
    for sentence in read_conllu(EWT):
        if any(comment.startswith(("# newpar", "# newdoc")) for comment in sentence.comments):
            paragraphs.append([])
        paragraphs[-1].append(sentence.text)
    for paragraph in paragraphs:
        spans, lengths = split_sentences(" ".join(paragraph))
        ours = set(spans[np.cumsum(lengths)[:-1] - 1, 1].tolist())
        theirs = set((np.cumsum([len(part) + 1 for part in paragraph])[:-1] - 1).tolist())
        right, found, there = right + len(ours & theirs), found + len(ours), there + len(theirs)
    assert there == 1251 and right > 0.98 * found and right > 0.79 * there


# ---- parses of many texts ------------------------------------------------------------------------

class Fake:
    """A parser: a chain from left to right; a tag is the word's length. Keeps what it is given.

    kill_at: the word at which the process that parses is killed, as by kill -9.
    """

    def __init__(self, fingerprint="v1", fail_at=None, kill_at=None):
        self.fingerprint, self.fail_at, self.kill_at = fingerprint, fail_at, kill_at
        self.seen = []

    def parse(self, sentences):
        assert all(sentences)
        if self.fail_at is not None and len(self.seen) >= self.fail_at:
            raise KeyboardInterrupt
        if [self.kill_at] in sentences:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += sentences
        return [([f"T{len(word)}" for word in words], list(range(len(words))),
                 ["root", *["dep"] * (len(words) - 1)]) for words in sentences]


TEXTS = ["A cat sat.", "", "\"Quoted,\" he said.", "A cat sat.", "one", "Two words", " \n",
         "\ud800 odd 😀"]    # seven distinct ones, of which two have no words


def assert_same(left, right):
    assert left.keys() == right.keys()
    for text in left:
        x, y = left[text], right[text]
        assert x.text == y.text == text and (x.tags, x.relations) == (y.tags, y.relations)
        assert all(type(name) is str for name in x.tags + x.relations)
        np.testing.assert_array_equal(x.spans, y.spans)
        np.testing.assert_array_equal(x.heads, y.heads)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 4), max_size=5), st.randoms(use_true_random=False))
def test_joined_trees_are_one_tree(sizes, rng):
    """Of chains in random order: one root, the sentences' own heads kept, no word lost."""
    trees = []
    for n in sizes:
        order = rng.sample(range(1, n + 1), n)
        above = dict(zip(order, [0, *order]))
        heads = [above[i] for i in range(1, n + 1)]
        trees.append((["X"] * n, heads, [f"r{head}" for head in heads]))
    tags, heads, relations = join_trees(trees)
    assert len(tags) == len(heads) == len(relations) == sum(sizes)
    assert heads.count(0) == min(1, len(sizes)) and (tree_depths(heads) <= len(heads)).all()
    start, first = 0, heads.index(0) + 1 if heads else 0
    for k, (_, own, names) in enumerate(trees):
        for i, (head, name) in enumerate(zip(own, names), start):
            hangs = (head + start, name) if head or not k else (first, "parataxis")
            assert (heads[i], relations[i]) == hangs
        start += len(own)


def test_the_longest_text_that_is_parsed():
    """MAX_WORDS holds over all sentences of a text, and the parser gets no empty one."""
    parser = Fake()
    (parse,) = parse_texts(["Go on. " * 200], parser, progress=False).values()
    assert len(parse.words) == 512 and [len(words) for words in parser.seen] == [3] * 170 + [2]
    assert parse.heads[3::3].tolist() == [1] * 170


def test_a_parse_and_one_that_is_no_tree():
    def parse(heads, relations=("x", "root")):
        return Parse("A ß", np.array([[0, 1], [2, 3]]), ("X", "Y"), np.array(heads), relations)

    tree = parse([2, 0])
    assert tree.words == ["A", "ß"] and tree.words is tree.words
    assert tree.symbols.tolist() == [None, "a", "ss"] and tree.depths.tolist() == [0, 2, 1]
    assert tree.types.tolist() == [None, "x", "root"]
    for heads in ([2, 1], [1, 0], [3, 0], [-1, 0]):
        with pytest.raises(ValueError, match="heads must all lead to 0"):
            parse(heads).depths
    with pytest.raises(ValueError, match=r"relations, got \(2, 2, 2, 1\)"):
        parse([2, 0], ("x",))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where parses of even one text are kept, in batches of two."""
    for name, value in (("FEW", 0), ("BATCH", 2), ("CACHE", tmp_path / "x" / "parses.sqlite")):
        monkeypatch.setattr(parses, name, value)
    return parses.CACHE


def asked_for(parser=None, texts=TEXTS):
    """The sentences for which the parser is asked; the parses must be those that are not kept."""
    parser = parser or Fake()
    found = parse_texts(texts, parser, progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parses, "FEW", 99)
        assert_same(found, parse_texts(texts, Fake(), progress=False))
    return parser.seen


def test_parse_texts():
    parser = Fake()
    found = parse_texts(iter(TEXTS), parser, progress=False)
    assert set(found) == set(TEXTS) and len(parser.seen) == 5      # none of those without words
    cat = found["A cat sat."]
    assert cat.words == ["A", "cat", "sat", "."] and cat.tags == ("T1", "T3", "T3", "T1")
    assert cat.heads.tolist() == [0, 1, 2, 3] and cat.relations == ("root", "dep", "dep", "dep")
    assert found[""].spans.shape == (0, 2) and parse_texts([], parser, progress=False) == {}


def test_a_text_is_parsed_once(cache, monkeypatch):
    assert asked_for() and not asked_for(texts=TEXTS[::-1])
    assert asked_for(texts=["more", *TEXTS]) == [["more"]], "whatever set it came in"
    assert not asked_for(texts=[TEXTS[-1], "more"])
    assert asked_for(Fake("v2")) and not asked_for(Fake("v2")) and not asked_for()
    for name, value in (("FORMAT", 0), ("version", lambda package: "0")):
        monkeypatch.setattr(parses, name, value)
        assert asked_for() and not asked_for()
    monkeypatch.setattr(parses, "FEW", len(TEXTS))
    assert asked_for(), "a few are parsed faster"


def in_another_process(parser):
    """Parses TEXTS there, which may end early. -> the process's number"""
    number = os.fork()
    if number == 0:
        try:
            parse_texts(TEXTS, parser, progress=False)
        finally:
            os._exit(0)
    return number


def test_a_killed_process_loses_a_batch_at_most(cache):
    """A batch of two is "one" and "Two words"; those before are kept, of which one has words."""
    os.waitpid(in_another_process(Fake(kill_at="one")), 0)
    assert len(asked_for(texts=TEXTS)) == 5
    assert not asked_for()


def test_processes_share_the_file(cache):
    numbers = [in_another_process(Fake()) for _ in range(3)]
    assert asked_for() is not None
    assert [os.waitpid(number, 0)[1] for number in numbers] == [0] * 3
    with sqlite3.connect(cache) as base:
        assert base.execute("SELECT count(*) FROM parses").fetchone() == (7,)
    assert not asked_for()


@pytest.mark.parametrize("order", ["max_page_count = 2", "query_only = 1"])
def test_no_room_or_right_to_write(order, cache, monkeypatch, capsys):
    """That is said once. What was kept is found, then and later."""
    connect = sqlite3.connect

    def limited(*args, **options):
        base = connect(*args, **options)
        base.execute(f"PRAGMA {order}")
        return base

    asked_for()
    before = cache.read_bytes()
    more = ["a new text", *(f"{'so ' * 600}{i}" for i in range(9)), *TEXTS]
    monkeypatch.setattr(sqlite3, "connect", limited)
    assert len(asked_for(texts=more)) == 10
    the_line(capsys, str(cache))
    assert cache.read_bytes()[:len(before)] == before or not asked_for()
    monkeypatch.setattr(sqlite3, "connect", connect)
    assert not asked_for()


def test_no_folder_to_write_in(cache, capsys):
    cache.parent.write_text("a file\n")
    assert asked_for()
    the_line(capsys, str(cache))


def test_a_damaged_file_is_named_and_stays(cache, capsys):
    """Cut off, or a byte changed: no parse is a wrong one, and the file is not removed."""
    asked_for()
    whole, named = cache.read_bytes(), 0
    for k, data in enumerate([b"no such file", whole[:5000], *(
            whole[:k] + b"?" + whole[k + 1:] for k in range(0, len(whole), 37))]):
        cache.write_bytes(data)
        asked_for()
        if error := capsys.readouterr().err:
            assert error.count("\n") == 1 and str(cache) in error
            assert cache.read_bytes() == data
            named += 1
        assert error or k > 1           # an unused byte does not matter, a lost row is made anew
    assert named > 2


# ---- the user's own parses -----------------------------------------------------------------------

def test_own_parses_are_aligned_by_characters(write):
    du = "\n".join([row("1-2", "du"), row(1, "de", 3, "case"), row(2, "le", 3, "det"),
                    row(3, "10 000", 0, "root"), ""])
    text, path = "  I don't\nsee (it)", write(f"{EXAMPLE}{du}")
    found = parse_texts([text, "Hi!", "du 10 000", ""], path)
    assert found[text].words == ["I", "do", "n't", "see", "(", "it", ")"]
    assert found[text].heads.tolist() == [4, 4, 4, 0, 6, 4, 6]
    assert found["du 10 000"].words == ["du", "du", "10 000"]
    two = "Hi!  I don't\nsee (it) Hi!"
    joined = parse_texts([two], path)[two]
    assert joined.words == ["Hi", "!", "I", "do", "n't", "see", "(", "it", ")", "Hi", "!"]
    assert joined.heads.tolist() == [0, 1, 6, 6, 6, 1, 8, 6, 8, 1, 10]
    assert joined.relations[5] == joined.relations[9] == "parataxis"
    assert found["du 10 000"].relations[0] == "case" and found[""].spans.shape == (0, 2)
    assert parse_texts(["Hi!"], path)["Hi!"].relations == ("root", "punct")


def test_own_parses_that_do_not_fit(write):
    with pytest.raises(ValueError, match="own.conllu: no parse of 'Hi there'"):
        parse_texts(["Hi!", "Hi there"], write(EXAMPLE))
    wrong = write("# text = a c\n" + "\n".join(TWO) + "\n")
    with pytest.raises(ValueError, match="own.conllu, line 2: "):
        parse_texts(["a c"], wrong)
    rows = [row(k, "w", k + 1, "dep") for k in range(1, 600)] + [row(600, "w", 0, "root")]
    (parse,) = parse_texts(["w " * 600], write("\n".join(rows) + "\n")).values()
    assert parse.heads.tolist() == [*range(2, 513), 0] and parse.depths[1] == 512   # others are cut


@pytest.mark.parametrize("change, said", [
    ({}, ""), ({"text": "a  b"}, "Parse of 'a b'"), ({"spans": [(2, 3), (0, 1)]}, "spans"),
    ({"heads": [2, 1]}, "heads"), ({"tags": ["X"]}, "as many")])
def test_a_function_is_a_parser(cache, change, said):
    """Two roots become one tree; what it gives is looked at, and not kept."""
    calls = []

    def own(texts):
        calls.extend(texts)
        for text in texts:
            yield Parse(**{"text": text, "spans": [(0, 1), (2, 3)], "tags": ["X", "Y"],
                           "heads": [0, 0], "relations": ["root", "root"]} | change)

    if said:
        with pytest.raises(ValueError, match=said):
            parse_texts(["a b"], own)
        return
    for _ in range(2):
        (found,) = parse_texts(["a b"], own, progress=False).values()
        assert (found.words, found.heads.tolist()) == (["a", "b"], [0, 1])
        assert found.relations == ("root", "parataxis") and found.tags == ("X", "Y")
    assert calls == ["a b"] * 2 and not cache.exists()
    with pytest.raises(ValueError, match="of 1 texts, got 0"):
        parse_texts(["a b"], lambda texts: [])
