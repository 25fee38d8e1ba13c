"""Words and dependency trees of many texts, by the parser that ships or by a function of your own.

A text is cut into sentences. Each sentence is parsed, and the trees are joined: one text, one tree.
Left out: sentences that end without . ! ? or an empty line, or with a full stop behind a short word
before a small letter; dont, addresses, @users, #tags, emoticons, emoji and words without spaces
(cut as nltk does); characters of no width, which stay where they stand.
"""

import contextlib
import functools
import hashlib
import json
import re
import sqlite3
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tqdm import tqdm

from support.errors import expecting, one_line, refuse

# Axes: n words of a text

MAX_WORDS = 512      # a parse has no more words, because no encoder here can see them
BATCH = 256          # texts that are parsed and kept at a time; kill -9 loses no more than these
FEW = 256            # texts up to this number are parsed quickly, and are not kept
CACHE = Path("runs/cache/parses.sqlite")   # a data set's folder may be read-only
FORMAT = 10          # raise it when packed parses, the words, sentences or joined trees change
NLTK = version("nltk")   # reads a file: once, not for each pair

# Typographic characters and their plain forms. Full-width ones (U+FF01 to U+FF5E) stand for ASCII.
PLAIN = str.maketrans({character: plain for characters, plain in (
    ("’‘‛′´", "'"), ("“”„‟″«»", '"'), ("‐‑−", "-"), ("‒–—―", "--"), ("…", "..."))
    for character in characters} | {chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)})


# The possible end of a sentence: its marks, closing quotes and brackets; then the next word.
STOP = re.compile(r"""(?<![.!?])([.!?]+)(["')\]]*)(?=\s+["'`(\[]*([^\s"'`(\[]+))|\n\s*\n""")
LETTER = re.compile(r"[^\W\d]")
ABBREVIATIONS = frozenset("""
    Mr Mrs Ms Messrs Dr Prof Rev Hon St Mt Ft Jr Sr Gen Brig Col Lt Lieut Maj Capt Cmdr Adm Sgt Det
    Cpl Pfc Gov Sen Sens Rep Reps Inc Corp Co Cos Ltd Bros Dept Univ Assn Ave Blvd Rd Hwy No Nos vs
    etc al Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Ala Alta Ariz Ark Calif Colo Conn Del
    Fla Ga Ill Ind Kan Ky La Mass Md Mich Minn Miss Mo Mont Neb Nev Okla Ont Ore Pa Sask Tenn Tex Va
    Vt Wash Wis Wyo Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun eg ie Attn Ph Yahoo!""".split())
# A sentence begins with one of these even where an abbreviation stands before it.
STARTERS = frozenset("""
    The This That These Those He She It They We You His Her Its Our Their But And However If There
    When What Why How In""".split())


def split_words(text):
    """Words of any text as spans, (n, 2) int: start and end, in order, covering all but spaces.

    >>> split_words('I can\\'t. No!').tolist()
    [[0, 1], [2, 4], [4, 7], [7, 8], [9, 11], [11, 12]]
    """
    return split_sentences(text)[0]


def split_sentences(text):
    """The spans of split_words, and a list of how many of them each sentence has.

    nltk's NLTKWordTokenizer finds the words, in the text as plain_characters reads it. It only
    inserts spaces and writes each " as two characters, so counting characters other than spaces
    leads back to the text. (Its span_tokenize raises where '' meets ".) It is given one sentence at
    a time, because it splits a full stop from its word only at the end of a text.
    """
    from nltk.tokenize import NLTKWordTokenizer  # it takes a second, and `--help` does not need it
    given = plain_characters(text)
    origin = []    # for each character of nltk's words, its place in the text
    for place, characters in enumerate(given):
        if characters == "--":
            given[place] = " --"    # with a space, or nltk joins it to a dash before it
        if not characters.isspace():
            origin += [place] * (2 if characters == '"' else len(characters.strip()))
    words = [NLTKWordTokenizer().tokenize(part) for part in _sentences("".join(given))]
    lengths = np.array([len(word) for part in words for word in part], np.int64)
    origin, last = np.array(origin, np.int32), lengths.cumsum() - 1
    spans = np.stack([origin[last - lengths + 1], origin[last] + 1], axis=1)  # (n, 2)
    return spans, [len(part) for part in words]


def plain_characters(text):
    """The plain form of each character of a text, a list of strings of one or more characters.

    >>> print("".join(plain_characters("“Well…” – it’s")))
    "Well..." -- it's
    """
    plain = list(text) if text.isascii() else [letter.translate(PLAIN) for letter in text]
    for match in re.finditer(r"(?<=\w)`(?=\w)", text):
        plain[match.start()] = "'"
    return plain


def words_at(text, spans):
    """A list of the n words at spans (n, 2) of a text, spelled as plain_characters spells them."""
    plain = plain_characters(text)
    return ["".join(plain[start:end]) for start, end in spans.tolist()]


def _sentences(text):
    """Splits a text of plain characters: STOP may end a sentence, and an empty line does.

    Each sentence has a letter: 1. and ... belong to the next sentence.
    """
    ends, letter = [0], LETTER.search(text)
    for stop in STOP.finditer(text):
        before = text[max(ends[-1], stop.start() - 10):stop.start()]
        if letter and letter.start() < stop.start() and (
                not stop[1] or _ends_sentence(before, *stop.groups())):
            ends.append(stop.end())
            letter = LETTER.search(text, stop.end())
    return [text[i:j] for i, j in zip(ends, [*ends[1:], len(text)])]


def _ends_sentence(before, marks, closing, following):
    """Do these marks end a sentence? closing: quotes or brackets behind them. following: a word.

    Before a capital letter or a digit they do. But a full stop behind one letter (J., U.S., p.m.)
    or one of ABBREVIATIONS ends a sentence only before one of STARTERS. Before a small letter,
    ! and ? and a full stop behind a longer word do, unless a quote closes: "Why?" he said.
    """
    before = re.split(r"[\s./(\[\"-]", before)[-1]
    initial = marks == "." and len(before) == 1 and before.isalpha()
    short = initial or (before + marks).removesuffix(".") in ABBREVIATIONS
    if following[0].islower():
        longer = marks == "." and len(before) > 3 and before.islower()
        return not short and not closing and (longer or "!" in marks or "?" in marks)
    starts = following[0].isupper() or following[0].isdigit()
    return starts and (not short or following in STARTERS)


@dataclass(frozen=True, eq=False)
class Parse:
    """The typed dependency tree of one text, of one or more sentences.

    spans: (n, 2) int, start and end of each word in text. tags: n universal parts of speech.
    heads: (n,) int, the number of each word's head, counted from 1; 0 = ROOT. relations: n names,
    as the parser writes them.
    """
    text: str
    spans: np.ndarray
    tags: tuple
    heads: np.ndarray
    relations: tuple

    @functools.cached_property
    def words(self):
        """A list of n words, spelled as plain_characters spells them: ’s is 's."""
        return words_at(self.text, self.spans)

    def first(self, limit):
        """The Parse of the first `limit` words. A word whose head is left out hangs from ROOT."""
        if len(self.heads) <= limit:
            return self
        heads = np.where(self.heads[:limit] > limit, 0, self.heads[:limit])
        return Parse(self.text, self.spans[:limit], self.tags[:limit], heads,
                     self.relations[:limit])

    # In the next three, place i belongs to word i and place 0 to ROOT, whose None equals no word.

    @functools.cached_property
    def symbols(self):
        """(n+1,) case-folded words, interned for memory and quick comparison."""
        folded = [sys.intern(word.casefold()) for word in self.words]
        return np.array([None, *folded], object)

    @functools.cached_property
    def types(self):
        """(n+1,) relations."""
        return np.array([None, *self.relations], object)

    @functools.cached_property
    def depths(self):
        """(n+1,) steps to ROOT."""
        return np.concatenate([[0], tree_depths(self.heads) + 1])


def tree_depths(heads):
    """The number of words above each word, (n,) int; n + 1 where the heads never lead to 0.

    heads: (n,) int, each word's head, counted from 1; 0 = ROOT.

    >>> tree_depths([2, 0, 2, 3]).tolist()
    [1, 0, 1, 2]
    """
    above = np.concatenate([[0], heads]).astype(np.int64)  # (n+1,)
    outside = (above < 0) | (above >= len(above))  # (n+1,)
    above[outside] = np.flatnonzero(outside)   # such a word is its own head: a cycle
    depths = (above > 0).astype(np.int64)  # (n+1,)
    for _ in range(len(above).bit_length()):
        depths = depths + depths[above]  # (n+1,)
        above = above[above]  # (n+1,)
    return np.minimum(depths[1:], len(above))  # (n,)


def join_trees(trees):
    """Joins the trees of a text's sentences, each (tags, heads, relations), into one.

    Each later root gets the first root as its head, with the relation parataxis, as UD joins
    sentences that stand side by side.

    >>> join_trees([(["VERB"], [0], ["root"]), (["PRON", "VERB"], [2, 0], ["nsubj", "root"])])
    (['VERB', 'PRON', 'VERB'], [0, 3, 1], ['root', 'nsubj', 'parataxis'])
    """
    all_tags, all_heads, all_relations = [], [], []
    for tags, heads, relations in trees:
        before = len(all_heads)
        all_heads += [head + before if head else 0 for head in heads]
        all_tags += tags
        all_relations += relations
    roots = [i for i, head in enumerate(all_heads) if not head]
    for i in roots[1:]:
        all_heads[i], all_relations[i] = roots[0] + 1, "parataxis"
    return all_tags, all_heads, all_relations


def parse_texts(texts: Iterable[str], parser, limit: int = MAX_WORDS, keep=lambda parse: parse):
    """The parses of texts, a dict text -> Parse. A Parse has the first `limit` words of its text.
    keep: what the dict has of each Parse, such as `pack`.

    parser: what load_parser gives. CACHE keeps its parses of more than FEW texts.
        Or a function of your own that takes a list of texts, and gives a Parse of each in this
        order, with words of its own. Several roots are joined, see join_trees.
    """
    texts = sorted(set(texts), key=lambda text: (len(text), text))    # batches of similar length
    ours, found = hasattr(parser, "fingerprint"), {}
    cache = _Cache(parser.fingerprint if ours and len(texts) > FEW else None)
    with tqdm(total=len(texts), desc="parse", leave=False, disable=None, delay=1) as bar:
        for batch in (texts[i:i + BATCH] for i in range(0, len(texts), BATCH)):
            parses = cache.find(batch)
            known = {parse.text for parse in parses}
            new = [text for text in batch if text not in known]
            made = _parse(new, parser) if ours else _ask_own(new, parser)
            cache.keep(made)
            found |= {x.text: keep(x.first(limit)) for x in parses + made}
            bar.update(len(batch))
    return found


def _parse(texts, parser):
    """The Parse of each text's first MAX_WORDS words, by a loaded parser."""
    rows, sentences = [], []   # of all texts, so that the parser makes full batches
    for text in texts:
        spans, lengths = split_sentences(text)
        words, parts, start = words_at(text, spans[:MAX_WORDS]), [], 0
        for length in lengths:
            if length and start < MAX_WORDS:
                parts.append(words[start:start + length])
            start += length
        rows.append((text, spans[:sum(map(len, parts))], len(parts)))
        sentences += parts
    trees = iter(parser.parse(sentences))
    return [_make_parse(text, spans, [next(trees) for _ in range(count)])
            for text, spans, count in rows]


def _ask_own(texts, function):
    """The Parse of each text, by the user's own function, whose answers are checked here."""
    answers = list(function(texts) or ())
    refuse(len(answers) != len(texts),
           f"parser: expected a Parse for each of {len(texts)} texts, got {len(answers)}")
    return [_check_own(text, parse) for text, parse in zip(texts, answers)]


def _check_own(text, parse):
    """The Parse of a text that the user's own function gave, as ours are."""
    with expecting(f"parser, {text!r}", "support.parses.Parse: its text, spans in order, none "
                   "empty, each letter in one, as many tags, heads, relations, heads that lead "
                   "to 0", "correct it"):
        spans = np.array(parse.spans, np.int64).reshape(-1, 2)
        heads = [int(head) for head in parse.heads]
        tags, relations = list(parse.tags), list(parse.relations)
        refuse(parse.text != text, f"{parse}")
        refuse(not is_sound(Parse(text, spans, tags, heads, relations)), f"{parse}")
        if len(spans) < MAX_WORDS:
            words = "".join(text[start:end] for start, end in spans.tolist())
            letters, found = (sum(c.isalnum() for c in x) for x in (text, words))
            refuse(found < letters, f"{parse}")
    return _make_parse(text, spans, [(tags, heads, relations)])


def _make_parse(text, spans, trees):
    """The Parse of a text. trees: of its sentences, see join_trees."""
    tags, heads, relations = join_trees(trees)
    return Parse(text, spans, tuple(tags), np.array(heads, np.int64), tuple(relations))


class _Cache:
    """The parses of one parser in CACHE, a file of sqlite."""

    def __init__(self, fingerprint):
        """fingerprint: the parser's; with None nothing is kept or found."""
        self.used = fingerprint is not None
        made_by = ascii((FORMAT, NLTK, fingerprint)).encode()
        self.made_by = hashlib.sha256(made_by).digest()

    def execute(self, command, rows):
        """A list of all result rows of an SQL command, executed once for each row of values."""
        if not self.used:
            return []
        try:
            CACHE.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(CACHE, timeout=60)) as base, base:  # commits
                base.execute("CREATE TABLE IF NOT EXISTS parses (key BLOB PRIMARY KEY, parse BLOB) "
                             "WITHOUT ROWID")
                return [answer for row in rows for answer in base.execute(command, row)]
        except (OSError, sqlite3.Error) as problem:
            print(f"{CACHE}: {problem}; texts are parsed, but not kept: make room there, or remove "
                  f"the file if it is damaged", file=sys.stderr)
            self.used = False
            return []

    def key(self, text):
        """16 bytes, the hash of a text and of the parser that parsed it."""
        text = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16, key=self.made_by).digest()

    def find(self, texts):
        """A list of Parses, of those of the texts that are kept."""
        keys, found = {self.key(text): text for text in texts}, []
        query = "SELECT key, parse FROM parses WHERE key = ?"
        for key, packed in self.execute(query, ([key] for key in keys)):
            try:
                found.append(unpack(keys[key], packed))
            except Exception as error:  # it is parsed again, and written over
                print(f"{CACHE}: a damaged parse is made again: {one_line(error)}", file=sys.stderr)
        return found

    def keep(self, parses):
        """Writes these Parses, all or none."""
        rows = ((self.key(x.text), pack(x)) for x in parses)
        self.execute("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)


def pack(parse):
    """A Parse without its text, as bytes: a tenth of its size."""
    tree = [parse.spans.tolist(), parse.tags, parse.heads.tolist(), parse.relations]
    return zlib.compress(json.dumps(tree).encode())


def unpack(text, packed):
    """The Parse of a text that `pack` made bytes of."""
    spans, tags, heads, relations = json.loads(zlib.decompress(packed))
    tags, relations = (tuple(map(sys.intern, names)) for names in (tags, relations))
    spans = np.array(spans, np.int32).reshape(-1, 2)
    return Parse(text, spans, tags, np.array(heads, np.int64), relations)


def is_sound(parse):
    """Do spans, in order, lie in the text, and heads lead to 0, as many as tags and relations?"""
    spans, depths = parse.spans, tree_depths(parse.heads)
    return (len(spans) == len(parse.tags) == len(parse.relations) == len(depths)
            and spans.min(initial=0) >= 0 and spans.max(initial=0) <= len(parse.text)
            and (spans[:, 0] < spans[:, 1]).all() and (np.diff(spans, axis=0) >= 0).all()
            and depths.max(initial=0) <= len(depths))
