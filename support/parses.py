"""Words and dependency trees of many texts, by the parser that ships or from your own CoNLL-U.

A text is cut into sentences. Each is parsed, and their trees are joined: one text, one tree.
Left out: sentences that end without . ! ? or an empty line; emoji and words without spaces (cut as
nltk does); characters of no width, which stay where they stand; of CoNLL-U lemmas, morphology and
enhanced dependencies.
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
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from support.checkpoints import expecting
from support.data import read_lines
from support.options import refuse

# Axes: n words of a text

MAX_WORDS = 512      # words beyond are left out of a parse: no encoder here can see them
BATCH = 256          # texts that are parsed and kept at a time: what kill -9 loses, at most
FEW = 256            # texts that are parsed faster than a file is worth
CACHE = Path("runs/cache/parses.sqlite")   # data sets may lie in a folder that cannot be written
FORMAT = 7           # raise it when packed parses, the words, sentences or joined trees change

# What typographic characters stand for. Full-width ones (U+FF01 to U+FF5E) stand for ASCII.
PLAIN = str.maketrans({character: plain for characters, plain in (
    ("’‘‛′´", "'"), ("“”„‟″«»", '"'), ("‐‑−", "-"), ("‒–—―", "--"), ("…", "..."))
    for character in characters} | {chr(0xFEE0 + code): chr(code) for code in range(0x21, 0x7F)})
# How treebanks write brackets.
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


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
    from nltk.tokenize import NLTKWordTokenizer  # it takes a second, and `--help` has no use for it
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
        words = [NLTKWordTokenizer().tokenize(part) for part in _sentences("".join(given))]
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
    parser writes them.
    """
    text: str
    spans: np.ndarray
    tags: tuple
    heads: np.ndarray
    relations: tuple

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
        """(n+1,) steps to ROOT."""
        return np.concatenate([[0], tree_depths(self.heads) + 1])


def tree_depths(heads):
    """Number of words above each word, (n,) int; n + 1 where the heads never lead to 0.

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


# ---- parses of many texts ------------------------------------------------------------------------

def parse_texts(texts: Iterable[str], parser, progress: bool = True) -> dict:
    """Parses of texts, a dict text -> Parse. Of a longer text MAX_WORDS words are kept.

    parser: what load_parser gives. Where texts are more than FEW, its parses are kept in CACHE, so
        that a text is parsed once, whatever set it comes in.
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
        return _read_own(texts, parser)
    ours, found = hasattr(parser, "fingerprint"), {}
    fingerprint = parser.fingerprint if ours and len(texts) > FEW else None
    quiet = None if progress else True            # None: unless on a terminal
    kept = _Kept(fingerprint)
    with tqdm(total=len(texts), desc="parse", leave=False, disable=quiet) as bar:
        for some in (texts[i:i + BATCH] for i in range(0, len(texts), BATCH)):
            found |= kept.find(some)
            new = [text for text in some if text not in found]
            parses = _parse(new, parser) if ours else _ask_own(new, parser)
            kept.keep(parses)
            found |= {parse.text: parse for parse in parses}
            bar.update(len(some))
    lost = [text for text, x in found.items() if not ours and len(x.spans) < MAX_WORDS
            and sum(map(str.isalnum, text)) > sum(map(str.isalnum, "".join(x.words)))]
    if lost:
        print(f"parser: letters of {len(lost)} texts are in no word, such as of {lost[0]!r}; the "
              f"end of a word is the place behind its last letter", file=sys.stderr)
    return found


def _parse(texts, parser):
    """The Parse of each text, by a loaded parser."""
    rows, sentences = [], []
    for text in texts:
        spans, lengths = split_sentences(text)
        words = words_at(text, spans[:MAX_WORDS])
        parts = [words[end - n:end] for n, end in zip(lengths, itertools.accumulate(lengths))]
        rows.append((text, spans, [part for part in parts if part]))
        sentences += rows[-1][2]
    trees = iter(parser.parse(sentences))
    return [_make_parse(text, spans, [next(trees) for _ in parts]) for text, spans, parts in rows]


def _ask_own(texts, function):
    """The Parse of each text, by a function of the user's, whose answers are checked here."""
    found, parses = list(function([*texts]) or ()), []  # it may return nothing, or empty its list
    refuse(len(found) != len(texts),
           f"parser: expected a Parse for each of {len(texts)} texts, got {len(found)}")
    for text, parse in zip(texts, found):
        with expecting(f"parser, {text!r}", "support.parses.Parse: its text, spans in order, none "
                       "empty, as many tags, heads, relations, heads that lead to 0", "correct it"):
            spans, heads = np.array(parse.spans, np.int64).reshape(-1, 2), [*map(int, parse.heads)]
            tags, relations, flat = list(parse.tags), list(parse.relations), spans.flatten()
            refuse(parse.text != text or not len(spans) == len(tags) == len(heads) == len(relations)
                   or flat.min(initial=0) < 0 or flat.max(initial=0) > len(text)
                   or (spans[:, 0] >= spans[:, 1]).any() or (np.diff(spans, axis=0) < 0).any()
                   or tree_depths(heads).max(initial=0) > len(heads), f"{parse}")
        parses.append(_make_parse(text, spans, [(tags, heads, relations)]))
    return parses


def _make_parse(text, spans, trees):
    """The Parse of a text, up to MAX_WORDS words. trees: of its sentences, see join_trees."""
    tags, heads, relations = (column[:MAX_WORDS] for column in join_trees(trees))
    heads = [head if head <= MAX_WORDS else 0 for head in heads]   # below a word that is left out
    return Parse(text, spans[:MAX_WORDS], tuple(tags), np.array(heads, np.int64), tuple(relations))


class _Kept:
    """The parses of one parser in CACHE, a file of sqlite."""

    def __init__(self, fingerprint):
        """fingerprint: of the parser; None: nothing is kept or found."""
        own = ascii((FORMAT, version("nltk"), fingerprint)).encode()
        self.own = None if fingerprint is None else hashlib.sha256(own).digest()

    def use(self, action):
        """Calls action(connection); where the file is of no use, that is said, and from now on
        nothing is kept or found.
        """
        try:
            CACHE.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(CACHE, timeout=60)) as base, base:
                base.execute("CREATE TABLE IF NOT EXISTS parses (key BLOB PRIMARY KEY, parse BLOB) "
                             "WITHOUT ROWID")
                action(base)
        except (OSError, sqlite3.Error, zlib.error, TypeError) as problem:  # of a damaged row
            print(f"{CACHE}: {problem}; texts are parsed, and not kept: make room there, or remove "
                  f"the file where it is damaged", file=sys.stderr)
            self.own = None

    def key(self, text):
        """16 bytes that stand for a text and for who parsed it."""
        text = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16, key=self.own).digest()

    def find(self, texts):
        """dict text -> Parse, of those of the texts that are kept."""
        def look(base):
            keys = {self.key(text): text for text in texts}
            query = f"SELECT * FROM parses WHERE key IN ({', '.join('?' * len(keys))})"
            for key, packed in base.execute(query, [*keys]):
                spans, tags, heads, relations = json.loads(zlib.decompress(packed))  # with a sum
                tags, relations = (tuple(map(sys.intern, x)) for x in (tags, relations))
                spans = np.array(spans, np.int32).reshape(-1, 2)
                heads = np.array(heads, np.int64)
                found[keys[key]] = Parse(keys[key], spans, tags, heads, relations)

        found = {}
        if self.own:
            self.use(look)
        return found

    def keep(self, parses):
        """Writes these Parses, all or none."""
        def write(base):
            for x in parses:
                tree = [x.spans.tolist(), x.tags, x.heads.tolist(), x.relations]
                row = self.key(x.text), zlib.compress(json.dumps(tree).encode())
                base.execute("INSERT OR REPLACE INTO parses VALUES (?, ?)", row)

        if self.own and parses:
            self.use(write)


# ---- CoNLL-U -------------------------------------------------------------------------------------

FORM, TAG, HEAD, RELATION, MISC = 1, 3, 6, 7, 9   # columns; column 0 is the number
NUMBER = re.compile(r"([1-9]\d{,8})(?:-([1-9]\d{,8}))?|\d{1,9}\.[1-9]\d{,8}", re.ASCII)


class Sentence(NamedTuple):
    """A sentence of a CoNLL-U file.

    text: what `# text = ...` says, or else the written tokens. pieces: (form, how many words share
    it) of what is written: one for each word, but where the words of a token do not spell it, as de
    and le for du, one for that token. tree: three lists, tags, heads, relations.
    """
    where: str   # file and line of the first row
    text: str
    pieces: list
    forms: list  # of its words
    tree: tuple


def read_conllu(path):
    """Sentences of a CoNLL-U file, a list.

    Raises ValueError naming file and line for a row that is not CoNLL-U, and for heads that are no
    tree with one root.
    """
    sentences, text, rows = [], None, []
    for number, line in enumerate([*read_lines(path), ""], 1):
        line = line.rstrip("\r\n")
        if line.startswith("#") and not rows:
            text = line.partition("=")[2] if re.match(r"#\s*text\s*=", line) else text
        elif line:
            rows.append((f"{path}, line {number}", line.split("\t")))
        elif rows:
            sentences.append(_make_sentence(text, rows))
            text, rows = None, []
    return sentences


def _make_sentence(text, rows):
    """The Sentence of rows, each (where, columns): words (8), tokens of several words (8-9), and
    empty nodes (8.1), which are passed over."""
    words, tokens, last = [], [], 0   # last: of the words of the latest token
    for where, row in rows:
        number = NUMBER.fullmatch(row[0])
        refuse(len(row) != 10 or not number or not row[FORM].strip(),
               f"{where}: expected 10 columns parted by tabs, first a number (8, 8-9, 8.1), then a "
               f"form, found {len(row)}: {' '.join(row)[:40]!r}")
        if not number[1]:
            continue
        first, end = int(number[1]), int(number[2] or 0)
        refuse(first != len(words) + 1 or end and not last < first < end, f"{where}: {row[0]} "
               f"cannot follow word {len(words)}; words are numbered 1, 2, ...")
        if not end:
            words.append(row)
        if first > last:
            last = end or first
            tokens.append((row, first, last))
    forms, pieces, written = [row[FORM] for row in words], [], ""
    for row, first, last in tokens:
        own = forms[first - 1:last]
        spelled = "".join(own) == row[FORM]
        pieces += [(word, 1) for word in own] if spelled else [(row[FORM], len(own))]
        written += row[FORM] + " " * ("SpaceAfter=No" not in row[MISC].split("|"))
    where, heads = rows[0][0], [row[HEAD] for row in words]
    with expecting(where, "heads, column 7, that all lead to one word with head 0", "correct them"):
        heads = [*map(int, heads)]
        refuse(heads.count(0) != 1 or tree_depths(heads).max() > len(heads), f"{heads}")
    tree = [row[TAG] for row in words], heads, [row[RELATION] for row in words]
    return Sentence(where, (written if text is None else text).strip(), pieces, forms, tree)


def _read_own(texts, path):
    """dict text -> Parse, out of a CoNLL-U file."""
    known = {}
    for sentence in read_conllu(path):
        known.setdefault(" ".join(sentence.text.split()), sentence)
    found = {text: _find_sentences(text.split(), known) for text in texts}
    missing = [text for text in texts if found[text] is None]
    refuse(missing, f"{path}: no parse of {missing[:1]} (of {len(texts)} texts, {len(missing)} "
           f"have none); add one with the comment '# text = ...'")
    return {text: _align(sentences, text) for text, sentences in found.items()}


def _find_sentences(parts, known):
    """The known Sentences that spell a text in these parts, or None.

    Of several ways, the one whose first sentence is the longest, then whose second is.
    """
    if whole := known.get(" ".join(parts)):
        return [whole]
    ways = {len(parts): []}   # the way from each part to the end of the text
    for start in reversed(range(len(parts))):
        for end in range(len(parts), start, -1):
            if end in ways and (sentence := known.get(" ".join(parts[start:end]))):
                ways[start] = [sentence, *ways[end]]
                break
    return ways.get(0)


def _align(sentences, text):
    """The Parse of a text that Sentences spell."""
    pieces = [piece for sentence in sentences for piece in sentence.pieces]
    forms, letters = ["".join(form.split()) for form, _ in pieces], "".join(text.split())
    if "".join(forms) != letters:
        forms = [BRACKETS.get(form, form) for form in forms]
    refuse("".join(forms) != letters, f"{sentences[0].where if sentences else ''}: the tokens "
           f"{' '.join(forms)!r} do not spell the text {text!r}")
    places = [i for i, character in enumerate(text) if not character.isspace()]
    spans = _spans(places, [len(form) for form in forms])
    spans = np.repeat(spans, [count for _, count in pieces], axis=0)
    return _make_parse(text, spans, [sentence.tree for sentence in sentences])
