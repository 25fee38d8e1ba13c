"""Words and dependency trees of many texts, by the parser that ships or from your own CoNLL-U.

    python -m support.parses FILE                  parses texts, one a line, as CoNLL-U
    python -m support.parses FILE --shard 3/64     parses a part ahead of a run of these texts

A text is cut into sentences. Each is parsed, and their trees are joined: one text, one tree.
Left out: sentences that end without . ! ? or an empty line; emoji and words without spaces (cut as
nltk does); characters of no width, which stay where they stand.
"""

import functools
import hashlib
import itertools
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader
from tqdm import tqdm

from support.conllu import HEAD, RELATION, TAG, read_conllu, tree_depths
from support.data import text_lines
from support.files import write_arrays
from support.options import Arguments, prefix_errors, refuse, run_command
from support.parser import PARSER, PLAIN, load_parser

# Axes: n words of a text

MAX_WORDS = 512      # words beyond are left out of a parse: no encoder here can see them
SHARD = 256          # texts whose parses make one file of the cache: what kill -9 loses, at most
KEPT = 2 ** 15       # Parses that stay made
CACHE = Path("runs/cache")   # of parses; data sets may lie in a folder that cannot be written
CACHE_FORMAT = 6     # raise it when the cache file, the words, sentences or joined trees change


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

def parse_texts(texts: Iterable[str], parser=None, cache: str | Path | None = None, conllu=None,
                progress: bool = True, workers: int = 0) -> Mapping:
    """Parses of texts: a mapping text -> Parse. Of a longer text MAX_WORDS words are kept.

    parser: what load_parser gives; or a function of your own that takes a list of texts, and gives
        a Parse of each in this order, with words of its own. Of several roots all but the first
        hang from that as parataxis.
    cache: folder for the result, which gets a folder whose name depends on the parser's
        `fingerprint`, a str that changes with its weights, CACHE_FORMAT and nltk's version, by
        which words differ. Without fingerprint nothing is kept. A text that was parsed is found
        there, whatever it was parsed with. What is not gets a file for each SHARD of texts, written
        when it is whole: an interrupted call is gone on with.
    conllu: path of your own parses, used in place of parser and cache. A sentence is found by its
        `# text =`, or by its tokens where that is absent; spaces may be wider. A text may also be
        several of them in a row.
    workers: processes that parse, beside this one, and need a cache; 0: this one does.

    Raises ValueError when a text is not in conllu, or has other tokens there, or when what your
    function gives is no tree over the text's characters, word by word; OSError when a file
    cannot be written or a worker ends early.
    """
    if conllu is not None:
        return _own_parses(sorted(set(texts)), conllu)
    refuse(parser is None, "parse_texts: needs parser or conllu, got neither")
    texts, folder = _in_order(texts), _folder_of(parser, cache)
    found = _find_parses(texts, folder)
    work = _Shards([text for text in texts if text not in found], parser, folder)
    quiet = True if not progress or not work.texts else None         # None: unless on a terminal
    with tqdm(total=len(texts), initial=len(found), desc="parse", disable=quiet) as bar:
        for k, shard in enumerate(_make_shards(work, workers)):
            found.add(shard, enumerate(work.texts[k]))
            bar.update(len(work.texts[k]))
    return found


def parse_part(texts, parser, cache, part):
    """Makes a part of the cache for these texts, as one job of many; what is there stays.

    part: "K/N": every N-th text from the K-th on, by length, so that parts take as long.

    Returns one line on what was done. Raises ValueError for another part, OSError when a file
    cannot be written.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", part)
    first, step = map(int, found.groups()) if found else (0, 0)
    refuse(not 1 <= first <= step,
           f"part needs K/N with K from 1 to N, such as 3/64, got {part!r}")
    texts = _in_order(texts)
    mine = texts[first - 1::step]
    parse_texts(mine, parser, cache)
    return f"{_folder_of(parser, cache)}: has part {part}, {len(mine)} of {len(texts)} texts"


def _in_order(texts):
    """Each text once, those of like lengths side by side."""
    return sorted(set(texts), key=lambda text: (len(text), text))


def _folder_of(parser, cache):
    """Where a parser's parses are kept, or None."""
    fingerprint = getattr(parser, "fingerprint", None)
    if cache is None or fingerprint is None:
        return None
    key = ascii((CACHE_FORMAT, version("nltk"), fingerprint)).encode()
    return Path(cache) / f"parses-{hashlib.sha256(key).hexdigest()[:32]}"


def _key_of(text):
    """16 bytes that stand for a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _find_parses(texts, folder):
    """The Parses of those of the texts that the folder has. A file without any is not read on."""
    wanted, found = {}, Parses()
    if folder and folder.is_dir():
        wanted = {_key_of(text): text for text in texts}
    for path in sorted(folder.glob("*.npz")) if wanted else ():
        if shard := _load_shard(path, wanted):
            keys = enumerate(key.tobytes() for key in shard["keys"])
            found.add(shard, [(row, wanted.pop(key)) for row, key in keys if key in wanted])
    return found


class Parses(Mapping):
    """dict text -> Parse, read-only, of as many texts as a large data set has.

    A Parse is made when it is asked for, because it takes thousands of bytes with all that it works
    out, and in a shard 14 a word. Up to KEPT of them stay made, for a small data set all.
    """

    def __init__(self):
        self.places, self.shards, self.made = {}, [], {}

    def add(self, shard, rows):
        """Takes in texts of a shard, what `_pack` gives, rows: (row, text) of each."""
        first, names = len(self.shards) * SHARD, shard["names"].astype(object)
        self.shards.append(shard | {"names": names, "ends": np.cumsum([0, *shard["lengths"]])})
        self.places.update((text, first + row) for row, text in rows)

    def __getitem__(self, text):
        if text not in self.made:
            number, k = divmod(self.places[text], SHARD)
            if len(self.made) >= KEPT:
                self.made.clear()
            shard = self.shards[number]
            words = slice(*shard["ends"][k:k + 2])
            tags, relations = (tuple(shard["names"][shard[name][words]])
                               for name in ("tags", "relations"))
            self.made[text] = Parse(text, shard["spans"][words], tags, shard["heads"][words],
                                    relations)
        return self.made[text]

    def __contains__(self, text):
        return text in self.places

    def __iter__(self):
        return iter(self.places)

    def __len__(self):
        return len(self.places)


def _load_shard(path, wanted=None):
    """The arrays of a shard's file; None where it has none of the `wanted` keys, or is damaged, as
    its CRCs say, which is told, and the file removed.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            keys = (key.tobytes() for key in arrays["keys"])
            if wanted is not None and wanted.keys().isdisjoint(keys):
                return None
            return dict(arrays)
    except Exception as problem:   # a damaged zip file can raise almost anything
        said = str(problem).split("\n")[0]
        print(f"{path} is damaged ({said}), parsing again", file=sys.stderr)
        Path(path).unlink(missing_ok=True)
        return None


def _make_shards(work, workers):
    """The shards of `work`, one by one. Raises OSError when a worker ends early."""
    if work.folder:
        loader = DataLoader(work, batch_size=None, sampler=range(len(work)),
                            num_workers=min(workers, len(work)),
                            generator=torch.Generator())   # its own: the global one is not touched
    else:
        loader = map(work.__getitem__, range(len(work)))
    try:
        for k, shard in enumerate(loader):
            if isinstance(shard, Exception):
                raise shard
            yield shard or _load_shard(work.path(k))
    except RuntimeError as problem:
        said = str(problem).splitlines()[0]
        if "DataLoader worker (pid" not in said:       # what it says of one that was killed
            raise problem.with_traceback(None)         # whose frames would keep the workers
        raise OSError(f"parse_texts: a process that parses has ended ({said}); start again, with "
                      f"fewer workers than {workers} where memory is short: what is parsed is "
                      f"kept") from None


class _Shards(torch.utils.data.Dataset):
    """Makes and writes shards of texts by their number; picklable, for worker processes."""

    def __init__(self, texts, parser, folder):
        self.texts = [texts[i:i + SHARD] for i in range(0, len(texts), SHARD)]   # of each shard
        self.parser, self.folder = parser, folder

    def __len__(self):
        return len(self.texts)

    def path(self, k):
        """The file of shard k, whose name is that of its texts: the same in all processes."""
        keys = b"".join(map(_key_of, self.texts[k]))
        return self.folder / f"{hashlib.sha256(keys).hexdigest()[:32]}.npz"

    def __getitem__(self, k):
        """Shard k, parsed. With a folder it is written instead, and None returned: a worker that
        still has something to send would not end when this process is killed."""
        ask = _parse if hasattr(self.parser, "parse") else _parse_with_own
        try:
            arrays = _pack(self.texts[k], ask(self.texts[k], self.parser))
            if not self.folder:
                return arrays
            self.folder.mkdir(parents=True, exist_ok=True)
            return write_arrays(self.path(k), arrays)
        except (OSError, ValueError) as problem:     # out of a worker it would come with pages
            return problem


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


def _pack(texts, rows):
    """The arrays of a shard: texts without the texts. rows: of each, what `_parse` returns.

    keys: (texts, 16) uint8, _key_of each. lengths: (texts,) words of each. Of all words in a row
    spans (words, 2), heads, tags, relations (words,), the last two as places in names.
    """
    spans, answers = zip(*rows)
    tags, heads, relations = (list(itertools.chain(*column)) for column in zip(*answers))
    names = sorted({*tags, *relations})
    number = {name: i for i, name in enumerate(names)}
    return {"names": np.array(names, str), "lengths": np.array([len(s) for s in spans], np.int16),
            "spans": np.concatenate(spans), "heads": np.array(heads, np.int16),
            "tags": np.array([number[tag] for tag in tags], np.int16),
            "relations": np.array([number[name] for name in relations], np.int16),
            "keys": np.array([[*_key_of(text)] for text in texts], np.uint8)}


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


# ---- command line --------------------------------------------------------------------------------

def main(argv=None):
    """Runs the command line: writes parses to standard output. Raises ValueError for a mistake."""
    arguments = Arguments("python -m support.parses",
                          "Writes parses as CoNLL-U to standard output.", "FILE")
    arguments.add_argument("file", metavar="FILE", help="one text a line; - is standard input")
    arguments.add_argument("--shard", metavar="K/N", help="parse part K of N into "
                           f"{CACHE}, for a run whose texts are FILE's lines")
    arguments.add_argument("--parser", metavar="FILE", help="of another training (.npz)")
    options = arguments.parse(argv)
    parser, file = load_parser(options.get("parser", PARSER)), options["file"]
    texts = text_lines(file, sys.stdin.buffer if file == "-" else None)
    if "shard" in options:
        with prefix_errors("--shard: "):
            print(parse_part(texts, parser, CACHE, options["shard"]))
        return
    texts = [" ".join(text.split()) for text in texts]
    for place, text in enumerate(texts, 1):
        refuse(len(split_words(text)) > MAX_WORDS, f"{file}, line {place}: more than "
               f"{MAX_WORDS} words, as many as a parse has; split it")
    texts = [text for text in texts if text]
    for start in range(0, len(texts), 512):
        some = texts[start:start + 512]
        found = parse_texts(some, parser, progress=False)
        for number, text in enumerate(some, start + 1):
            print(f"# sent_id = {number}\n{format_parse(found[text])}\n")


def format_parse(parse):
    """A Parse as a sentence of CoNLL-U: its text and rows."""
    rows, columns = [f"# text = {parse.text}"], (parse.tags, parse.heads, parse.relations)
    for number, ((i, j), tag, head, relation) in enumerate(zip(parse.spans.tolist(), *columns), 1):
        space = "_" if parse.text[j:j + 1] in ("", " ") else "SpaceAfter=No"
        row = number, parse.text[i:j], "_", tag, "_", "_", head, relation, "_", space
        rows.append("\t".join(map(str, row)))
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(run_command(main, "support.parses"))
