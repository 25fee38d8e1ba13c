"""support/parses.py: words, parses of many texts, their cache, a function of the user's."""
import contextlib
import sqlite3

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from small_runs import ChainParser, fails, one_line
from support import parses
from support.parses import Parse, pack, parse_texts, split_sentences, words_at

def split(text):
    """What split_sentences gives. The spans must hold all characters but spaces, in order."""
    spans, lengths = split_sentences(text)
    assert spans.ndim == 2 and np.issubdtype(spans.dtype, np.integer)
    places = [place for start, end in spans.tolist() for place in range(start, end)]
    assert places == [i for i, c in enumerate(text) if not c.isspace()]
    assert (spans[:, 0] < spans[:, 1]).all() and sum(lengths) == len(spans)
    assert len(words_at(text, spans)) == len(spans) and all(words_at(text, spans))
    return spans, lengths


@settings(max_examples=40)
@given(st.text() | st.text("'\"`.,()s’”…@#ntim \n:/w-—"))
@example("''\"`` \"''\" He said ''no'' and \"yes\". \"'twas''\" (U.S. isn't it?) ') a. )]}\"''")
@example("\ud800 ﷺ İ “ 😀👩\u200d👩! a\u00a0b\u2028c\x85d\x1ce x\x00y e\u0301\u200b\ufeff …. ＂！")
@example(" ".join(map(chr, range(0x10000))))
def test_split_words_covers_any_text(text):
    split(text)


@pytest.mark.parametrize("text, words", [
    ("He can't pay $3.88 (or 3,36), ''he said, \"I won't!\" Gonna",
     "He|ca|n't|pay|$|3.88|(|or|3,36|)|,|''|he|said|,|\"|I|wo|n't|!|\"‖Gon|na"),
    ("“Don‘t” „no“ «a»", '"|Do|n\'t|"|"|no|"|"|a|"'), ("a——b--c – 95", "a|--|--|b|--|c|--|95"),
    ("the dogs’ non‑stop…", "the|dogs|'|non-stop|..."),
    ("ＡＢ！", "AB|!"), ("he`ll", "he|'ll"),
    # where sentences end
    ("It ended. he left", "It|ended|.‖he|left"), ('It ended." (He', 'It|ended|.|"‖(|He'),
    ("5 mil. a", "5|mil.|a"), ("the U.S. The men", "the|U.S|.‖The|men"),
    ("1. One. 2. Two", "1.|One|.‖2.|Two"), ("Why? No! but yes", "Why|?‖No|!‖but|yes"),
    ('"Why?" he said', '"|Why|?|"|he|said'), ("Yahoo! Inc", "Yahoo|!|Inc"),
    ("well... yes", "well|...|yes"), ("... No. 20. I", "...|No.|20|.‖I"),
    ("Title\r\n\r\nit has\nlines", "Title‖it|has|lines")])
def test_words_of_print_and_sentences(text, words):
    """| stands between words, ‖ between sentences."""
    spans, lengths = split(text)
    found = iter(words_at(text, spans))
    assert "‖".join("|".join(next(found) for _ in range(length)) for length in lengths) == words


class Fake(ChainParser):
    def __init__(self, fingerprint="v1", stop_at=None):
        self.fingerprint, self.stop_at, self.seen = fingerprint, stop_at, []

    def parse(self, sentences):
        assert all(sentences)
        if [self.stop_at] in sentences:
            raise KeyboardInterrupt
        self.seen += sentences
        return super().parse(sentences)


TEXTS = ["A cat sat.", "", "\"Quoted,\" he said.", "A cat sat.", "one", "Two words", " \n",
         "\ud800 odd 😀"]    # seven distinct ones, of which two have no words


def test_a_text_is_cut_at_its_first_words():
    """The tree of its first words is that of the whole text, of no more than MAX_WORDS words."""
    parser = Fake()
    (parse,) = parse_texts(["Go on. Run to me. Stop."], parser, 5).values()
    assert parse.words == ["Go", "on", ".", "Run", "to"] and parse.tags == ("X",) * 5
    assert parse.heads.tolist() == [0, 1, 2, 1, 4]
    assert parse.relations == ("root", "dep", "dep", "parataxis", "dep")
    backward = Parse("a b", [(0, 1), (2, 3)], "XX", np.array([2, 0]), ("dep", "root"))
    assert backward.first(1).heads.tolist() == [0]
    parser.seen = []
    (parse,) = parse_texts(["Go on. " * 200], parser, 999).values()
    assert len(parse.words) == 512 and [len(words) for words in parser.seen] == [3] * 170 + [2]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The file that keeps parses; here it keeps even one text, in batches of two."""
    for name, value in (("FEW", 0), ("BATCH", 2), ("CACHE", tmp_path / "x" / "parses.sqlite")):
        monkeypatch.setattr(parses, name, value)
    return parses.CACHE


def asked_for(parser=None, texts=TEXTS):
    """The sentences that the parser is asked for. The parses must be as without the cache."""
    parser = parser or Fake()
    found = parse_texts(texts, parser)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parses, "FEW", 99)
        plain = parse_texts(texts, Fake())
    assert found.keys() == {*texts}
    assert all(pack(parse) == pack(plain[text]) for text, parse in found.items())
    return parser.seen


def test_a_text_is_parsed_once(cache, monkeypatch):
    assert asked_for() and not asked_for(texts=TEXTS[::-1])
    assert asked_for(texts=["more", *TEXTS]) == [["more"]], "whatever set it came in"
    assert not asked_for(texts=[TEXTS[-1], "more"])
    assert asked_for(Fake("v2")) and not asked_for(Fake("v2")) and not asked_for()
    for name, value in (("FORMAT", 0), ("NLTK", "0")):
        monkeypatch.setattr(parses, name, value)
        assert asked_for() and not asked_for()
    with pytest.raises(KeyboardInterrupt):  # in the batch of "one" and "Two words"
        parse_texts(TEXTS, Fake("v3", stop_at="one"))
    assert len(asked_for(Fake("v3"))) == 5, "those before are kept, of which one has words"
    monkeypatch.setattr(parses, "FEW", len(TEXTS))
    assert asked_for(), "a few are parsed faster"


def test_a_damaged_parse_is_made_again(cache, monkeypatch):
    """One line says so. A file of no use is named and stays, a folder that cannot be made, too."""
    asked_for()
    with contextlib.closing(sqlite3.connect(cache)) as base, base:
        whole = base.execute("SELECT * FROM parses").fetchall()
        key, packed = max(whole, key=lambda row: len(row[1]))
        with base:
            base.execute("UPDATE parses SET parse = ? WHERE key = ?", (packed[:-1] + b"?", key))
        with one_line(f"{cache} again"):
            assert len(asked_for()) == 1
        assert base.execute("SELECT * FROM parses").fetchall() == whole
    cache.write_bytes(b"no such file")
    for place in (cache, cache / "below a file"):
        monkeypatch.setattr(parses, "CACHE", place)
        with one_line(str(place)):
            assert asked_for()
    assert cache.read_bytes() == b"no such file"


def test_a_function_is_a_parser(cache):
    """Two roots become one tree. What the function gives is checked, and not kept."""
    good = {"text": "a b", "spans": [(0, 1), (2, 3)], "tags": ["X", "Y"], "heads": [0, 0],
            "relations": ["root", "root"]}
    (found,) = parse_texts(["a b"], lambda texts: [Parse(**good)]).values()
    assert (found.words, found.heads.tolist()) == (["a", "b"], [0, 1])
    assert found.relations == ("root", "parataxis") and found.tags == ("X", "Y")
    assert not cache.exists()
    for change in ({"text": "a  b"}, {"heads": [2, 1]}, {"tags": ["X"]},
                   *({"spans": spans} for spans in ([(2, 3), (0, 1)], [(0, 1), (2, 2 ** 40)],
                                                    [(0, 1), (1, 2)]))):
        fails(lambda: parse_texts(["a b"], lambda texts: [Parse(**good | change)]), "'a b'")
    for nothing in ([], None):
        fails(lambda: parse_texts(["a b"], lambda texts: nothing), "of 1 texts, got 0")
