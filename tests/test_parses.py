"""support/parses.py: words, parses of many texts, the cache, a user's own parses, the command."""
import io
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import batches
from support import parses
from support.conllu import read_conllu, tree_depths
from support.options import run_command
from support.parses import Parse, join_trees, parse_texts, split_sentences, words_at
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


@pytest.fixture
def small_shards(monkeypatch):
    """Two texts a shard: TEXTS make four."""
    monkeypatch.setattr(parses, "SHARD", 2)


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


def test_parse_texts_without_cache():
    parser = Fake()
    found = parse_texts(iter(TEXTS), parser, progress=False)
    assert set(found) == set(TEXTS) and len(parser.seen) == 5      # none of those without words
    cat = found["A cat sat."]
    assert cat.words == ["A", "cat", "sat", "."] and cat.tags == ("T1", "T3", "T3", "T1")
    assert cat.heads.tolist() == [0, 1, 2, 3] and cat.relations == ("root", "dep", "dep", "dep")
    assert found[""].spans.shape == (0, 2) and parse_texts([], parser, progress=False) == {}
    with pytest.raises(ValueError, match="parse_texts: needs parser or conllu"):
        parse_texts(TEXTS)


def asked_for(folder, parser=None, texts=TEXTS, **options):
    """The sentences for which the parser is asked; the parses must be those without a cache."""
    parser = parser or Fake()
    found = parse_texts(texts, parser, folder, progress=False, **options)
    assert_same(found, parse_texts(texts, Fake(), progress=False))
    return parser.seen


def test_the_second_call_reads_the_cache(tmp_path, small_shards, monkeypatch):
    assert asked_for(tmp_path) and not asked_for(tmp_path, texts=TEXTS[::-1])
    assert len(list(tmp_path.rglob("*.npz"))) == 4
    assert asked_for(tmp_path, texts=[*TEXTS, "more"]) == [["more"]], "others are found"
    assert not asked_for(tmp_path, texts=[TEXTS[-1], "more"])
    changed = [text.replace("cat", "cut") for text in TEXTS]
    assert asked_for(tmp_path, texts=changed) == [["A", "cut", "sat", "."]]
    assert asked_for(tmp_path, Fake("v2")) and not asked_for(tmp_path)
    for name, value in (("CACHE_FORMAT", 0), ("version", lambda package: "0")):
        monkeypatch.setattr(parses, name, value)
        assert asked_for(tmp_path) and not asked_for(tmp_path)


def test_a_damaged_cache_is_noticed(tmp_path, small_shards, capsys):
    """Cut off or changed: that shard is made anew."""
    asked_for(tmp_path)
    (path,) = [file for file in tmp_path.rglob("*.npz") if [*np.load(file)["lengths"]] == [2, 4]]
    whole = path.read_bytes()
    sure = [whole[:97], whole[:-1]]
    for k, data in enumerate([*sure, *(whole[:k] + b"?" + whole[k + 1:]
                                       for k in range(0, len(whole), 97))]):
        path.write_bytes(data)
        seen, warning = asked_for(tmp_path), capsys.readouterr().err
        assert warning or k >= len(sure)            # some bytes, such as a date, do not matter
        assert len(seen) == (2 if warning else 0)
        assert not warning or warning.count("\n") == 1 and f"{path} is damaged" in warning


def test_an_interrupted_computation_goes_on(tmp_path, small_shards):
    """After two of the five sentences with words: two shards are whole."""
    with pytest.raises(KeyboardInterrupt):
        parse_texts(TEXTS, Fake(fail_at=2), tmp_path, progress=False)
    assert len(list(tmp_path.rglob("*.npz"))) == 2
    assert len(asked_for(tmp_path)) == 3 and len(list(tmp_path.rglob("*.npz"))) == 4


def test_workers_give_the_same_parses(tmp_path, small_shards):
    state, parser = torch.get_rng_state(), Fake()
    asked_for(tmp_path / "alone")
    parse_texts(TEXTS, parser, tmp_path / "workers", progress=False, workers=2)
    assert torch.equal(state, torch.get_rng_state()) and not parser.seen    # here
    for file in (tmp_path / "alone").rglob("*.npz"):
        other = tmp_path / "workers" / file.relative_to(tmp_path / "alone")
        assert file.read_bytes() == other.read_bytes()


def test_a_killed_worker_loses_its_shard_alone(tmp_path, small_shards):
    with pytest.raises(OSError, match="^parse_texts: a process [^\n]* is parsed is kept$"):
        parse_texts(TEXTS, Fake(kill_at="one"), tmp_path, progress=False, workers=1)
    assert len(list(tmp_path.rglob("*.npz"))) < 4 and ["one"] in asked_for(tmp_path)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_full_disk_is_said_and_leaves_nothing(workers, tmp_path, monkeypatch):
    def full_disk(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="^.*[.]npz.*No space left on device[^\n]*$"):
        parse_texts(TEXTS, Fake(), tmp_path, progress=False, workers=workers)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_parts_make_the_cache_of_a_run(write, tmp_path, monkeypatch, asked, small_shards, capsys):
    """Jobs in any order: none is made twice, a run finds them."""
    lines = ["A cat sat.", "one", "Two words", "A  cat  sat.", "two", "one"]     # three files
    file = write("\r\n".join(lines) + "\n", "texts.txt")
    monkeypatch.chdir(tmp_path)
    for part, texts, files in (("2/2", 2, 1), ("1/2", 3, 3), ("1/1", 5, 3), ("4/4", 1, 3)):
        assert run(file, "--shard", part) == 0
        assert len(list(batches.CACHE.rglob("*.npz"))) == files
    assert not asked_for(batches.CACHE, texts=lines)


# ---- the user's own parses -----------------------------------------------------------------------

def test_own_parses_are_aligned_by_characters(write):
    du = "\n".join([row("1-2", "du"), row(1, "de", 3, "case"), row(2, "le", 3, "det"),
                    row(3, "10 000", 0, "root"), ""])
    text, path = "  I don't\nsee (it)", write(f"{EXAMPLE}{du}")
    found = parse_texts([text, "Hi!", "du 10 000", ""], conllu=path)
    assert found[text].words == ["I", "do", "n't", "see", "(", "it", ")"]
    assert found[text].heads.tolist() == [4, 4, 4, 0, 6, 4, 6]
    assert found["du 10 000"].words == ["du", "du", "10 000"]
    two = "Hi!  I don't\nsee (it) Hi!"
    joined = parse_texts([two], conllu=path)[two]
    assert joined.words == ["Hi", "!", "I", "do", "n't", "see", "(", "it", ")", "Hi", "!"]
    assert joined.heads.tolist() == [0, 1, 6, 6, 6, 1, 8, 6, 8, 1, 10]
    assert joined.relations[5] == joined.relations[9] == "parataxis"
    assert found["du 10 000"].relations[0] == "case" and found[""].spans.shape == (0, 2)
    assert parse_texts(["Hi!"], conllu=path)["Hi!"].relations == ("root", "punct")


def test_own_parses_that_do_not_fit(write):
    with pytest.raises(ValueError, match="own.conllu: no parse of 'Hi there'"):
        parse_texts(["Hi!", "Hi there"], conllu=write(EXAMPLE))
    wrong = write("# text = a c\n" + "\n".join(TWO) + "\n")
    with pytest.raises(ValueError, match="own.conllu, line 2: "):
        parse_texts(["a c"], conllu=wrong)
    rows = [row(k, "w", k + 1, "dep") for k in range(1, 600)] + [row(600, "w", 0, "root")]
    (parse,) = parse_texts(["w " * 600], conllu=write("\n".join(rows) + "\n")).values()
    assert parse.heads.tolist() == [*range(2, 513), 0] and parse.depths[1] == 512   # others are cut


@pytest.mark.parametrize("change, said", [
    ({}, ""), ({"text": "a  b"}, "Parse of 'a b'"), ({"spans": [(2, 3), (0, 1)]}, "spans"),
    ({"heads": [2, 1]}, "heads"), ({"tags": ["X"]}, "as many")])
def test_a_function_is_a_parser(tmp_path, change, said):
    """Two roots become one tree; what it gives is looked at; with a fingerprint it is kept."""
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
    for fingerprint, number in ((None, 1), (None, 2), ("1", 3), ("1", 3), ("2", 4)):
        own.fingerprint = fingerprint
        (found,) = parse_texts(["a b"], own, tmp_path, progress=False).values()
        assert (found.words, found.heads.tolist()) == (["a", "b"], [0, 1])
        assert found.relations == ("root", "parataxis") and found.tags == ("X", "Y")
        assert calls == ["a b"] * number
    with pytest.raises(ValueError, match="of 1 texts, got 0"):
        parse_texts(["a b"], lambda texts: [])


# ---- command line --------------------------------------------------------------------------------

@pytest.fixture
def asked(monkeypatch):
    """The parsers that the command loads; each is a Fake."""
    asked = []
    monkeypatch.setattr(parses, "load_parser", lambda path: asked.append(path) or Fake())
    return asked


def run(*args):
    return run_command(parses.main, "support.parses", args)


def test_parse_a_text_file(write, asked, capsys, monkeypatch):
    """Of a file and of standard input; what we write, we read."""
    text = "He can't. Go\n\n  Two   words \n"
    assert run(write(text, "text.txt")) == 0
    output = capsys.readouterr().out
    assert output.startswith("\n".join([
        "# sent_id = 1", "# text = He can't. Go", row(1, "He", 0, "root", "T2"),
        row(2, "ca", 1, "dep", "T2", misc="SpaceAfter=No")])) and "5\tGo\t_\tT2\t_\t_\t1" in output
    own = parse_texts(["He can't. Go", "Two words"], conllu=write(output))
    assert_same(own, parse_texts(own, Fake(), progress=False))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run("-") == 0 and capsys.readouterr().out == output
    assert run("-", "--parser", "mine.npz") == 0 and asked == [parses.PARSER] * 2 + ["mine.npz"]


def test_a_user_s_mistake_is_one_line_and_status_2(write, asked, capsys):
    for arguments, problem in ((["absent.txt"], "absent.txt"), ([], "FILE"),
                               ([write("a\n" + "w " * 513, "b.txt")], "b.txt, line 2: more than"),
                               ([write("a", "a.txt"), "--shard", "0/3"], "such as 3/64")):
        assert run(*arguments) == 2
        stream = capsys.readouterr()
        assert stream.err.count("\n") == 1 and stream.err.startswith("support.parses: ")
        assert stream.out == "" and problem in stream.err
