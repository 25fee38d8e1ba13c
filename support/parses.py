"""Words and dependency trees of many texts, by the parser that ships or from your own CoNLL-U.

A text is cut into sentences. Each is parsed, and their trees are joined: one text, one tree.
Left out: sentences that end without . ! ? or an empty line; emoji and words without spaces (cut as
nltk does); characters of no width, which stay where they stand.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import re
import sqlite3
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tqdm import tqdm

from support.conllu import HEAD, RELATION, TAG, read_conllu, tree_depths
from support.options import refuse
from support.parser import PLAIN

# Axes: n words of a text

MAX_WORDS = 512      # words beyond are left out of a parse: no encoder here can see them
BATCH = 256          # texts that are parsed and kept at a time: what kill -9 loses, at most
FEW = 256            # texts that are parsed faster than a file is worth
MADE = 2 ** 15       # Parses that stay made
CACHE = Path("runs/cache/parses.sqlite")   # data sets may lie in a folder that cannot be written
FORMAT = 7           # raise it when packed parses, the words, sentences or joined trees change



# ---- words ---------------------------------------------------------------------------------------

# An apostrophe is missing behind a match, as in dont and im: UD English EWT splits these (do|nt),
# where no other word is spelled so. (its, id, ill, well, were, wed, wont and lets stay.)
BARE = re.compile(r"""(?<![\w-])(?:
    (?:do|does|did|ca|is|was|are|were|have|has|had|could|would|should|must|need|ai) n (?=t\b)
    | i (?=(?:m|ve)\b) | (?:you|they) (?=(?:re|ve|ll)\b) | we (?=ve\b) | it (?=ll\b)
    | (?:that|there|what|he|she|here|where|who|how) (?=s\b) )""", re.VERBOSE)

# One word each: a web address, e-mail address or @user, #tag, emoticon between spaces.
WHOLE = re.compile(r"""\b(?:[a-z]+://|www\.) [^\s<>"“”]* [\w/]
    | (?:(?<![\w.+%-]) \w[\w.+%-]* | (?<!\w)) @ [^\W\d][\w-]* (?:\.\w[\w-]*)*
    | (?<![\w&]) \# [^\W\d]\w*
    | (?<!\S) [:;=]-?[()DP] (?!\w)""", re.VERBOSE | re.IGNORECASE)

# What may end a sentence: its marks, closing quotes and brackets; the word that follows.
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

    They are those of nltk's NLTKWordTokenizer, which is given the text as plain_characters reads
    it, with letters in the place of what is WHOLE. It only inserts spaces and writes each " as two
    characters, so counting characters other than spaces leads back to the text. (Its span_tokenize
    raises where '' meets ".) It sees one sentence at a time, as it only takes the last full stop
    of a text off its word.
    """
    given = plain_characters(text)
    for match in WHOLE.finditer(text):
        letter = "_" if match[0][0] in ":;=" else "X"    # a sentence begins with X, but not with _
        given[match.start():match.end()] = [" " + letter, *letter * (len(match[0]) - 1)]
    origin = []    # the place in text of each character of nltk's words
    for place, characters in enumerate(given):
        if characters == "--":
            given[place] = " --"    # apart from a dash before it, of which nltk would make a pair
        if not characters.isspace():
            origin += [place] * (2 if characters == '"' else len(characters.strip()))
    try:
        words = [word_tokenizer().tokenize(part) for part in _sentences("".join(given))]
    except TimeoutError:   # nltk gives up on a text that its expressions take too long for
        words = []
    lengths = [len(word) for part in words for word in part]
    if sum(lengths) == len(origin):
        spans = _spans(origin, lengths)  # (n, 2)
        if (spans[1:, 0] >= spans[:-1, 1]).all():    # nltk cut through no character
            return spans, [len(part) for part in words]
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    spans = np.array(spans, np.int32).reshape(-1, 2)  # (n, 2)
    return spans, [len(spans)]


def plain_characters(text):
    """What each character of a text stands for, a list of strings of one or more characters.

    >>> print("".join(plain_characters("“I dont…” – it’s")))
    "I don't..." -- it's
    """
    plain = list(text) if text.isascii() else [letter.translate(PLAIN) for letter in text]
    lower = text.lower()     # quicker than IGNORECASE, but İ becomes two characters
    for match in BARE.finditer(lower if len(lower) == len(text) else text):
        plain[match.end()] = "'" + plain[match.end()]
    for match in re.finditer(r"(?<=\w)`(?=\w)", text):
        plain[match.start()] = "'"
    return plain


def words_at(text, spans):
    """The words at spans (n, 2) of a text, as plain_characters reads it: a list of n."""
    plain = plain_characters(text)
    return ["".join(plain[start:end]) for start, end in spans.tolist()]


@functools.cache
def word_tokenizer():
    """nltk's. It is imported here, as that takes up to a second, and `--help` has no use for it."""
    from nltk.tokenize import NLTKWordTokenizer
    return NLTKWordTokenizer()


def _sentences(text):
    """The text, of plain characters, in pieces: STOP may end a sentence, an empty line does.

    A sentence has a letter: 1. and ... belong to the one behind.
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
    """Do these marks end a sentence, if closing quotes or brackets and a word are following?

    A capital letter or a digit must begin the next one, but not a full stop behind one letter (J.,
    U.S., p.m.) or one of ABBREVIATIONS unless one of STARTERS follows. Before a small letter, ! ?
    and a full stop behind a longer word do, unless quotes or brackets close: "Why?" he said.
    """
    before = re.split(r"[\s./(\[\"-]", before)[-1]
    initial = marks == "." and len(before) == 1 and before.isalpha()
    short = initial or (before + marks).removesuffix(".") in ABBREVIATIONS
    if following[0].islower():
        longer = marks == "." and len(before) > 3 and before.islower()
        return not (short or closing) and (longer or "!" in marks or "?" in marks)
    starts = following[0].isupper() or following[0].isdigit()
    return starts and (not short or following in STARTERS)


def _spans(origin, lengths):
    """Spans (n, 2) of n words in a row whose characters stand at the places `origin` of a text."""
    origin, lengths = np.array(origin, np.int32), np.array(lengths, np.int64)
    last = lengths.cumsum() - 1
    return np.stack([origin[last - lengths + 1], origin[last] + 1], axis=1)  # (n, 2)


# ---- trees ---------------------------------------------------------------------------------------

@dataclass(frozen=True, eq=False)
class Parse:
    """The typed dependency tree of one text, of one or more sentences.

    spans: (n, 2) int, characters of each word in text. tags: n universal parts of speech. heads:
    (n,) int, the number of each word's head, counted from 1; 0 = ROOT. relations: n names, as the
    parser writes them. Raises ValueError when these differ in length.
    """
    text: str
    spans: np.ndarray
    tags: tuple
    heads: np.ndarray
    relations: tuple

    def __post_init__(self):
        sizes = len(self.spans), len(self.tags), len(self.heads), len(self.relations)
        if len(set(sizes)) > 1:
            raise ValueError(f"Parse: needs as many spans, tags, heads, relations, got {sizes}: "
                             f"{self.text!r}")

    @functools.cached_property
    def words(self):
        """List of n words, as plain_characters reads them: ’s is 's."""
        return words_at(self.text, self.spans)

    # In the next three, place i belongs to word i, and place 0 to ROOT, whose None equals no word.

    @functools.cached_property
    def symbols(self):
        """(n+1,) case-folded words. Interned: one copy of each word, and a quick comparison."""
        return np.array([None, *(sys.intern(word.casefold()) for word in self.words)], object)

    @functools.cached_property
    def types(self):
        """(n+1,) relations."""
        return np.array([None, *self.relations], object)

    @functools.cached_property
    def depths(self):
        """(n+1,) steps to ROOT. Raises ValueError when the heads are no tree."""
        n, heads = len(self.heads), self.heads
        outside = n and (heads.min() < 0 or heads.max() > n)
        depths = np.full(n, n + 1) if outside else tree_depths(heads)
        if depths.max(initial=0) > n:
            raise ValueError(f"Parse: heads must all lead to 0, got {heads.tolist()}: "
                             f"{self.text!r}")
        return np.concatenate([[0], depths + 1])


# ---- parses of many texts ------------------------------------------------------------------------

def parse_texts(texts: Iterable[str], parser, progress: bool = True) -> Mapping:
    """Parses of texts: a mapping text -> Parse. Of a longer text MAX_WORDS words are kept.

    parser: what load_parser gives, whose parses of more than FEW texts are kept in CACHE, so that
        a text is parsed once, whatever set it comes in.
        Or a function of your own that takes a list of texts, and gives a Parse of each in this
        order, with words of its own. Of several roots all but the first hang from that as
        parataxis.
        Or the path of your own parses, as CoNLL-U. A sentence is found by its `# text =`, or by its
        tokens where that is absent; spaces may be wider. A text may also be several of them in a
        row.

    Raises ValueError when a text is not in that file, or has other tokens there, or when what your
    function gives is no tree over the text's characters, word by word.
    """
    texts = sorted(set(texts), key=lambda text: (len(text), text))    # of like lengths, for batches
    if isinstance(parser, (str, Path)):
        return _own_parses(texts, parser)
    shipped = hasattr(parser, "parse")
    with contextlib.closing(_Kept(parser, shipped and len(texts) > FEW)) as kept:
        found = {}
        for some in _batches(texts):
            found |= kept.find(some)
        new = [text for text in texts if text not in found]
        quiet = True if not progress or not new else None            # None: unless on a terminal
        with tqdm(total=len(texts), initial=len(found), desc="parse", disable=quiet) as bar:
            for some in _batches(new):
                ask = _parse if shipped else _parse_with_own
                packed = dict(zip(some, map(_pack, ask(some, parser))))
                kept.keep(packed)
                found |= packed
                bar.update(len(some))
    return Parses(found)


def _batches(texts):
    return (texts[i:i + BATCH] for i in range(0, len(texts), BATCH))


class _Kept:
    """The parses of one parser in CACHE, a file of sqlite.

    Where it cannot be read or written, or is damaged, that is said once, and nothing is kept.
    """

    def __init__(self, parser, wanted):
        """wanted: False for one that keeps and finds nothing."""
        self.base = None
        if wanted:
            own = ascii((FORMAT, version("nltk"), parser.fingerprint)).encode()
            self.own = hashlib.sha256(own).digest()
            self.run(self.open)

    def run(self, work):
        """What work() returns; None where the file is of no use."""
        try:
            return work()
        except (OSError, sqlite3.Error, zlib.error) as problem:
            print(f"{CACHE}: {problem}; parses are made, and not kept: make room there, or remove "
                  f"the file where it is damaged", file=sys.stderr)
            self.close()

    def open(self):
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        self.base = sqlite3.connect(CACHE, timeout=60)    # seconds that another process may write
        self.base.execute("CREATE TABLE IF NOT EXISTS parses (key BLOB PRIMARY KEY, parse BLOB)")

    def close(self):
        """Closes the file, of which nothing is asked any more."""
        if self.base:
            self.base.close()
        self.base = None

    def key(self, text):
        """16 bytes that stand for a text and who parsed it."""
        text = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16, key=self.own).digest()

    def find(self, texts):
        """dict text -> packed parse, of those of the texts that are kept."""
        def select():
            rows = self.base.execute(  # a damaged row may hold another type
                f"SELECT key, parse FROM parses WHERE typeof(parse) = 'blob' AND key IN "
                f"({', '.join('?' * len(wanted))})", [*wanted])
            return {wanted[key]: zlib.decompress(parse) for key, parse in rows}   # which checks it

        if not self.base:
            return {}
        wanted = {self.key(text): text for text in texts}
        return self.run(select) or {}

    def keep(self, packed):
        """Writes these parses, dict text -> packed, all or none."""
        def insert():
            with self.base:
                self.base.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)

        if self.base:
            rows = [(self.key(text), zlib.compress(parse)) for text, parse in packed.items()]
            self.run(insert)


def _pack(row):
    """The bytes of (spans, (tags, heads, relations))."""
    spans, (tags, heads, relations) = row
    return json.dumps([np.asarray(spans).tolist(), list(tags), [int(head) for head in heads],
                       list(relations)]).encode()


class Parses(Mapping):
    """dict text -> Parse, read-only, of as many texts as a large data set has.

    A Parse is made when it is asked for, because it takes thousands of bytes with all that it works
    out, and packed 30 a word. Up to MADE of them stay made, for a small data set all.
    """

    def __init__(self, packed):
        self.packed, self.made = packed, {}

    def __getitem__(self, text):
        if text not in self.made:
            spans, tags, heads, relations = json.loads(self.packed[text])
            if len(self.made) >= MADE:
                self.made.clear()
            spans = np.array(spans, np.int32).reshape(-1, 2)  # (n, 2)
            self.made[text] = Parse(text, spans, tuple(map(sys.intern, tags)),
                                    np.array(heads, np.int64), tuple(map(sys.intern, relations)))
        return self.made[text]

    def __iter__(self):
        return iter(self.packed)

    def __len__(self):
        return len(self.packed)


def _parse_with_own(texts, parser):
    """(spans, (tags, heads, relations)) of each text, by a function of the user's."""
    rows, found = [], list(parser(texts))
    refuse(len(found) != len(texts),
           f"parser: expected a Parse for each of {len(texts)} texts, got {len(found)}")
    for text, parse in zip(texts, found):
        if not isinstance(parse, Parse) or parse.text != text:
            raise ValueError(f"parser: expected support.parses.Parse of {text!r}, got {parse!r}")
        spans = np.array(parse.spans, np.int32).reshape(-1, 2)
        starts, ends = spans.T
        outside = starts.min(initial=0) < 0 or ends.max(initial=0) > len(text)
        if outside or (starts >= ends).any() or (np.diff(spans, axis=0) < 0).any():
            raise ValueError(f"parser: expected spans in order, within the text, none empty, got "
                             f"{spans.tolist()}: {text!r}")
        heads = [int(head) for head in parse.heads]
        parse = _make_parse(text, spans, [(list(parse.tags), heads, list(parse.relations))])
        parse.depths   # raises ValueError where the heads are no tree
        rows.append((parse.spans, (parse.tags, parse.heads, parse.relations)))
    return rows


def _parse(texts, parser):
    """(spans, (tags, heads, relations)) of each text."""
    rows, sentences = [], []
    for text in texts:
        spans, lengths = split_sentences(text)
        words = words_at(text, spans[:MAX_WORDS])
        parts = [words[end - n:end] for n, end in zip(lengths, itertools.accumulate(lengths))]
        rows.append((spans[:MAX_WORDS], [part for part in parts if part]))
        sentences += rows[-1][1]
    answers = iter(parser.parse(sentences))
    return [(spans, join_trees([next(answers) for _ in parts])) for spans, parts in rows]


def join_trees(trees):
    """Trees of the sentences of a text, each (tags, heads, relations), as one.

    Each root hangs from the first one as parataxis: so UD joins what only stands side by side.

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


def _make_parse(text, spans, trees):
    """The Parse of a text whose trees are joined, up to MAX_WORDS words."""
    tags, heads, relations = join_trees(trees)
    heads = np.array(heads[:MAX_WORDS], np.int64)
    heads[heads > MAX_WORDS] = 0   # a word whose head is left out hangs from ROOT
    return Parse(text, spans[:MAX_WORDS], tuple(tags[:MAX_WORDS]), heads,
                 tuple(relations[:MAX_WORDS]))


# ---- the user's own parses -----------------------------------------------------------------------

def _own_parses(texts, path):
    """dict text -> Parse out of a CoNLL-U file."""
    known = {}
    for sentence in read_conllu(path):
        known.setdefault(" ".join(sentence.text.split()), sentence)
    found = {text: _known_sentences(text.split(), known) for text in texts}
    missing = [text for text in texts if found[text] is None]
    if missing:
        raise ValueError(f"{path}: no parse of {missing[0]!r} (of {len(texts)} texts, "
                         f"{len(missing)} have none); add one with the comment '# text = ...'")
    return {text: _align(found[text], text) for text in texts}


def _known_sentences(parts, known):
    """The known Sentences, the first as long as can be, that spell a text in these parts, or None.
    """
    found = []
    while parts:
        ends = (end for end in range(len(parts), 0, -1) if " ".join(parts[:end]) in known)
        end = next(ends, None)
        if end is None:
            return None
        found.append(known[" ".join(parts[:end])])
        parts = parts[end:]
    return found


def _align(sentences, text):
    """The Parse of text that Sentences hold.

    Where the words of a multiword token do not spell it, as de + le for du, each of them gets the
    span of the token, and its pieces count as the first of them.
    """
    forms, shared_by = [], []
    for form, words, _ in itertools.chain(*(sentence.tokens for sentence in sentences)):
        spelled = "".join(words) == form
        forms += words if spelled else [form]
        shared_by += [1] * len(words) if spelled else [len(words)]
    forms = ["".join(form.split()) for form in forms]
    if "".join(forms) != "".join(text.split()):
        raise ValueError(f"{sentences[0].where}: the tokens {' '.join(forms)!r} do not spell the "
                         f"text {text!r}")
    places = [i for i, character in enumerate(text) if not character.isspace()]
    spans = np.repeat(_spans(places, [len(form) for form in forms]), shared_by, axis=0)
    return _make_parse(text, spans, [[sentence.column(column) for column in (TAG, HEAD, RELATION)]
                                 for sentence in sentences])
