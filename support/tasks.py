"""Sentence pairs to train and test on: published data sets and the user's own files.

A task is a set of pairs, each with a class ("do the two mean the same?") or a score.
- `load_task("mrpc", data_dir)`: one of ten published data sets, each declared in `SOURCES`.
- `load_task("toy", data_dir)`: the generated diagnostic of support/toy.py, which needs no network.
- `own_task(train_file, dev_file)`: tsv or csv files with a header, see `find_sentences`.

Sources: W. Dolan and C. Brockett, "Automatically Constructing a Corpus of Sentential Paraphrases",
2005 (MRPC); A. Wang et al., "GLUE", 2018 (MRPC's dev split, RTE, QQP, MNLI, QNLI, the metrics);
D. Cer et al., "SemEval-2017 Task 1", 2017 (STS-B); S. Bowman et al., 2015 (SNLI); M. Marelli et
al., 2014 (SICK); T. Khot et al., 2018 (SciTail); W. Lan et al., 2017 (Twitter-URL).

Left out: data sets of single sentences, GLUE's server (test splits without labels keep their file
order, which is the `index` it asks for), and repairs: a row that does not fit its file is an error.
"""

import contextlib
import csv
import io
import itertools
import json
import math
import random
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from support.checkpoints import file_size, join_names, shorten
from support.files import download, extract
from support.options import nearest

# Axes: N pairs


@dataclass(frozen=True)
class Pair:
    """Two sentences and what is known of them."""
    a: str
    b: str
    label: int | float | None = None     # index of a class, a score, or None where unlabelled
    group: str = ""                      # the phenomenon, in the toy world


@dataclass(frozen=True)
class Task:
    """What is to be predicted, and how it is scored."""
    name: str
    labels: tuple[str, ...]              # names of the classes in index order; () for a score
    metrics: tuple[str, ...]             # the first, on the split `selection`, picks the best epoch
    selection: str = "dev"
    block: int = 1                       # so many training pairs in a row belong in one batch
    positive: str = ""                   # the class whose F1 is measured; "": class 1, as GLUE's
    columns: tuple[str, ...] = ()        # of own files, those of a, b and label

    @property
    def regression(self):
        """Are scores predicted?"""
        return not self.labels


# ----------------------------------------------------------------------------------------- metrics

def metric_title(metric, positive):
    """What is printed of a metric: "f1 of same" where it is that of a class with a name."""
    return f"f1 of {positive}" if metric == "f1" and positive else metric


def accuracy(labels, predictions):
    """Share of predictions equal to the label. labels, predictions: (N,) class indices."""
    return float(np.mean(np.asarray(labels) == np.asarray(predictions)))


def f1(labels, predictions):
    """F1 = 2 tp / (2 tp + fp + fn) of class 1; 0.0 if class 1 is in neither."""
    truth, guess = np.asarray(labels) == 1, np.asarray(predictions) == 1
    positives = int(truth.sum() + guess.sum())
    return 2 * int((truth & guess).sum()) / positives if positives else 0.0


def pearson(labels, predictions):
    """Pearson's r = Σ x y / √(Σ x² Σ y²), x and y centred, in [-1, 1]; 0.0 if one is constant."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0                       # undefined; a model that says one thing has found nothing
    x, y = (values - values.mean() for values in (x, y))
    x, y = (values / np.abs(values).max() for values in (x, y))    # so that squares stay finite
    return float(np.clip((x @ y) / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def ranks(values):
    """Ranks 1..N; equal values share the mean of their ranks. values: (N,) -> (N,) float64."""
    _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]             # (N,)


def spearman(labels, predictions):
    """Spearman's ρ: Pearson's r of the ranks, ties averaged; 0.0 where either is constant."""
    return pearson(ranks(labels), ranks(predictions))


METRICS = {"accuracy": accuracy, "f1": f1, "pearson": pearson, "spearman": spearman}


def evaluate(task, labels, predictions):
    """Every metric of the task. labels, predictions: (N,) class indices, or scores.

    Returns: dict metric -> float.
    Raises: ValueError unless both are N >= 1 finite numbers.
    """
    labels, predictions = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    if labels.ndim != 1 or labels.shape != predictions.shape or not labels.size:
        raise ValueError(f"evaluate: labels and predictions must be two lists of one length >= 1, "
                         f"got shapes {labels.shape} and {predictions.shape}")
    for name, values in (("labels", labels), ("predictions", predictions)):
        if not np.isfinite(values).all():
            raise ValueError(f"evaluate: {name} must be finite numbers; a split without labels "
                             f"cannot be scored")
    positive = task.labels.index(task.positive) if task.positive else 1
    given = {"f1": (labels == positive, predictions == positive)}
    return {name: METRICS[name](*given.get(name, (labels, predictions))) for name in task.metrics}


# ---------------------------------------------------------------------------------- reading tables

csv.field_size_limit(2 ** 31 - 1)        # a cell is as long as it is
LARGEST_SCORE = 1e15                     # squares of larger ones, summed, leave float32


def read_lines(path):
    """Lines of a UTF-8 file without its byte order mark; only "\\n" ends one (U+2028 is text).

    Returns: iterator of (line number, text).
    Raises: ValueError naming file and line.
    """
    try:
        file_size(path)
        with open(path, "rb") as file:
            for line, data in enumerate(file, 1):
                if b"\0" in data:
                    raise ValueError(f"{path}:{line}: a NUL byte; expected UTF-8 text, found "
                                     f"UTF-16 or a binary file; save it as UTF-8")
                if b"\r" in data[:-1] and b"\n" not in data:
                    raise ValueError(f"{path}:{line}: lines end in CR alone; save it with LF")
                yield line, data.decode("utf-8-sig" if line == 1 else "utf-8")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8 (Latin-1?); "
                         f"save the file as UTF-8") from None


def is_csv(path):
    """Does the name end in .csv: commas and quotes (RFC 4180)? All else has tabs."""
    return Path(path).suffix.lower() == ".csv"


def split_rows(path):
    """Fields of each line that is not blank; without a .csv's name, tabs part them and quotes are
    text. Returns: iterator of (line number, list of str).
    """
    if is_csv(path):
        yield from split_quoted(path, ",")
        return
    for line, text in read_lines(path):
        text = text.removesuffix("\n").removesuffix("\r")
        if text.strip(" "):
            yield line, text.split("\t")


def split_own(path):
    """`split_rows` of a user's file, a list. Of a file with tabs, quotes may be those of csv: where
    each cell that begins with one also ends with one. Elsewhere they are text.

    Raises: ValueError for a file that is quoted in part.
    """
    plain = list(split_rows(path))
    if is_csv(path) or not plain:
        return plain
    with contextlib.suppress(ValueError):
        quoted = list(split_quoted(path, "\t"))
        sizes, found = ([len(fields) for _, fields in rows] for rows in (plain, quoted))
        # two quotes of text, lines apart, would hide what is between them
        if sizes == found or len(set(sizes)) > 1 or plain[0][1][0].startswith('"'):
            return quoted
    for line, fields in plain:
        for cell in fields:
            doubled = re.fullmatch(r'"([^"]*"")+[^"]*"', cell) and cell.strip('"')
            if doubled or cell.startswith('"') and line == plain[0][0]:
                raise ValueError(f"{path}:{line}: a cell has the quotes of csv, which others lack: "
                                 f"{shorten(cell)}; quote every cell that holds a quote, or none")
    return plain


def split_quoted(path, mark):
    """`split_rows` of a file quoted as in csv. A row's number is that of its first line."""
    text = io.StringIO("".join(text for _, text in read_lines(path)), newline="")
    reader, line = csv.reader(text, delimiter=mark, strict=True), 1
    try:
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{line}: not valid csv ({error}); a field with a comma, quote or "
                         f"line break needs double quotes around it, each quote inside doubled"
                         ) from None


def read_table(path, columns, optional=(), rows=None):
    """The given columns of a table.

    Args:
        columns: names in its header line, in any order, or numbers from 0 where it has no header.
        optional: those names that may be missing.
        rows: what `split_own` gives; without them those of `split_rows`.
    Returns: iterator of (where = "file:line", dict column -> stripped text).
    Raises: ValueError for a header without the columns, a row of another length, no row at all.
    """
    mark = "commas" if is_csv(path) else "tabs"
    headed = isinstance(columns[0], str)
    if headed:
        expected = f"a header line with the columns {', '.join(columns)}"
    else:
        expected = f"rows of {max(columns) + 1} fields or more"
    rows = split_rows(path) if rows is None else iter(rows)
    start, first = next(rows, (0, []))
    if not start:
        raise ValueError(f"{path} is empty; expected {expected}")
    if headed:
        place = find_columns(f"{path}:{start}", first, columns, optional, mark)
    elif len(first) > max(columns):
        place, rows = {n: n for n in columns}, itertools.chain([(start, first)], rows)
    else:
        raise ValueError(f"{path}:{start}: expected {expected} parted by {mark}, "
                         f"found {len(first)}")
    line = 0
    for line, fields in rows:
        if headed and fields == first:
            raise ValueError(f"{path}:{line}: the header again, as where files were joined; take "
                             f"it out")
        if len(fields) != len(first):
            raise ValueError(f"{path}:{line}: expected {len(first)} fields parted by {mark}, like "
                             f"line {start}, found {len(fields)}")
        yield f"{path}:{line}", {name: fields[i].strip() for name, i in place.items()}
    if not line:
        raise ValueError(f"{path} has a header and no pairs; expected one pair a line below it")


def find_columns(where, header, columns, optional, mark):
    """Dict name -> its place in a header line, without optional names that are absent."""
    header = [name.strip() for name in header]
    wanted = [name for name in columns if name not in optional or name in header]
    if any(header.count(name) != 1 for name in wanted):
        raise ValueError(f"{where}: the header must name each of {join_names(columns)} once "
                         f"(parted by {mark}), found {join_names(header)}")
    return {name: header.index(name) for name in wanted}


def read_objects(path, keys):
    """`read_table` of a file with one JSON object on each line that is not blank."""
    for line, text in read_lines(path):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{line}: not valid JSON ({error}); expected one object on "
                             f"each line; get the file again") from None
        if not isinstance(found, dict) or not all(isinstance(found.get(key), str) for key in keys):
            raise ValueError(f"{path}:{line}: expected an object with the texts {', '.join(keys)}, "
                             f"found {text.strip()[:60]}; get the file again")
        yield f"{path}:{line}", {key: found[key].strip() for key in keys}


def parse_label(text, labels, where, also=()):
    """What the text of a label means.

    Args:
        labels: names of the classes, () for scores, None to keep the text.
        also: what else could have stood there, for the error.
    Returns: index of the class, score, or text.
    Raises: ValueError naming `where`.
    """
    if labels is None:
        if not text:
            raise ValueError(f"{where}: the label is empty; expected the name of a class or a "
                             f"score")
        return text
    if not labels:
        if not is_number(text):
            raise ValueError(f"{where}: label {shorten(text)} is not a number such as 0.5; this "
                             f"task predicts scores")
        return float(text)
    if text not in labels:
        raise ValueError(f"{where}: unknown label {shorten(text)}; expected one of "
                         f"{join_names([*also, *labels], 12)}")
    return labels.index(text)


def is_number(text):
    """Is text a decimal number that can be a score?"""
    decimal = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII)
    return bool(decimal) and abs(float(text)) < LARGEST_SCORE


def is_odd_number(text):
    """May text be meant as a number, though it is none: "0,5", "12 %", "1e999", "١"?"""
    with contextlib.suppress(ValueError):
        float(re.sub(r"[,%\s]", "", text))
        return not is_number(text) and re.search(r"\d", text) is not None
    return False


def spelling(text):
    """What of a label tells it from others: its value, or letters whatever their case and form."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    seen = "".join(c for c in plain if unicodedata.category(c) != "Cf")  # others have no width
    return float(text) if is_number(text) else seen


# -------------------------------------------------------------------------------- the user's files

SENTENCES = "sentence1", "sentence2", "label"
NO_SENTENCE = re.compile(r"|(.*[ _#-])?([gu]u?|pair|q)?(id|idx|index)\d*|split|genre", re.I)
# names of other columns that published tables have


def read_own(path, columns=(), need_label=True, likely=()):
    """Rows of a user's .tsv or .csv file.

    Args:
        columns: names of the columns of a, b and label; () for those of `find_sentences`.
        likely: the same, taken where the header has both sentences.
    Returns: (columns, all rows as lists of str, iterator of (where, dict column -> text)).
    Raises: ValueError naming file and line.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".tsv", ".txt"):
        raise ValueError(f"{path}: expected a name ending in .csv (commas) or .tsv (tabs), found "
                         f"{suffix or 'no ending'}")
    if columns and not len(columns) == len({*columns} - {""}) == 3:
        raise ValueError(f"columns: expected three names, of both sentences and the label, found "
                         f"{join_names(columns)}")
    rows = split_own(path)
    header = [name.strip() for name in rows[0][1]] if rows else []
    if likely and {*likely[:2]} <= {*header}:
        columns = likely
    elif rows and not columns:
        columns = find_sentences(path, rows, need_label)
    columns = columns or SENTENCES
    named = read_table(path, columns, () if need_label else columns[2:], rows)
    return columns, [fields for _, fields in rows], named


def find_sentences(path, rows, need_label):
    """The columns that a header offers: SENTENCES; or the one pair of names and the one label that
    published tables have; or the label and the only two others.

    Raises ValueError where others could be meant, with the option that would say which.
    """
    names = [name.strip() for name in rows[0][1]]
    if {*SENTENCES} <= {*names}:
        return SENTENCES
    known = [source.columns for source in SOURCES.values() if isinstance(source.columns[0], str)]
    pairs = [pair for pair in dict.fromkeys(x[:2] for x in known) if {*pair} <= {*names}]
    labels = [x for x in names if x in {"score", "relatedness_score", *(x[2] for x in known)}]
    cells = {x: ["".join(row[i:i + 1]) for _, row in rows[1:100]] for i, x in enumerate(names)}
    others = [x for x in names if x not in labels and not NO_SENTENCE.fullmatch(x)
              and not (cells[x] and all(map(is_number, cells[x])))]
    if not pairs and labels and len(others) == 2:
        pairs = [tuple(others)]
    if len(pairs) == 1 and (len(labels) == 1 or not labels and not need_label):
        return *pairs[0], *(labels or SENTENCES[2:])

    lengths = {x: len("".join(cells[x])) for x in names if x not in labels}
    longest = sorted(lengths, key=lengths.get)[-2:]
    two = pairs[0] if pairs else [x for x in names if x in longest]
    label = [x for x in (*labels, *reversed(names)) if x not in two][:1]
    option = f", or say which: --columns {shlex.quote(','.join([*two, *label]))}"
    offered = need_label and label and two[1:] and len(option) < 200
    raise ValueError(f"{path}:{rows[0][0]}: expected a header with sentence1, sentence2, label, or "
                     f"label and two others (parted by commas in .csv, else by tabs), found "
                     f"{join_names(names)}; write one above them if they are a pair, else rename "
                     f"them{option if offered else ''}")


def read_pairs(path, labels=None, need_label=True, columns=()):
    """Pairs of a user's .tsv or .csv file with a header. An empty sentence is a sentence.

    Args:
        labels: the task's class names, () for scores, None to keep the text.
        need_label: if False, the column may be missing and a cell of it empty; such a pair has the
            label None.
        columns: as in `read_own`.
    Returns: list of Pair.
    Raises: ValueError naming file and line.
    """
    columns, _, rows = read_own(path, columns, need_label)
    return make_pairs(columns, rows, labels, need_label)


def make_pairs(columns, rows, labels, need_label=True):
    """Pairs of the rows of `read_own`, see `read_pairs`."""
    (a, b, column), pairs = columns, []
    for where, row in rows:
        label = None
        if need_label or row.get(column):
            label = parse_label(row[column], labels, where)
        pairs.append(Pair(row[a], row[b], label))
    return pairs


def class_names(path, labels, scores=None):
    """Names of the classes, sorted (numbers by value), or () for scores: more than 10 different
    numbers, or any that is no integer, unless `scores` says. Labels are all numbers or all words,
    unless `scores` says that they are classes.

    labels: list of (where, text).
    """
    distinct = sorted({text for _, text in labels})
    numbers = [text for text in distinct if is_number(text)]
    for where, text in labels if scores is None else ():
        if text not in numbers and (numbers or is_odd_number(text)):
            raise ValueError(f"{where}: label {shorten(text)} is not a number such as 0.5"
                             f"{', as others are' if numbers else ''}; correct it, or say that it "
                             f"names a class: --set SCORES=false")
    if scores is None:
        scores = len(numbers) > 10 or not all(float(text).is_integer() for text in numbers)
    spelled = Counter(map(spelling, distinct))
    if len(spelled) < 2:
        raise ValueError(f"{path}: every label is {shorten(distinct[0])}; expected at least two "
                         f"different ones")
    if scores:
        return ()
    twice = [text for text in distinct if spelled[spelling(text)] > 1]
    if twice:
        raise ValueError(f"{path}: labels {join_names(twice)}: one class is written in two ways; "
                         f"write each in one")
    if len(distinct) > max(10, len(labels) / 2):
        raise ValueError(f"{path}: {len(distinct)} different labels of {len(labels)} pairs, such "
                         f"as {shorten(distinct[0])}: too many for classes; name the columns by "
                         f"--columns")
    return tuple(sorted(distinct, key=float) if len(numbers) == len(distinct) else distinct)


def own_task(train_file, dev_file, test_file=None, columns=(), positive="", scores=None):
    """A task of the user's own files, labels and columns from the training file.

    Metrics: accuracy, and F1 of `positive`, without which it is the second of two classes; Pearson
    and Spearman of scores. scores: are labels scores? None: as `class_names` finds.

    Returns: (Task, dict split -> list of Pair).
    """
    columns, _, rows = read_own(train_file, columns)
    rows = list(rows)
    texts = [(where, parse_label(row[columns[2]], None, where)) for where, row in rows]
    labels = class_names(train_file, texts, scores)
    if positive and positive not in labels:
        raise ValueError(f"positive {shorten(positive)}: expected one of the classes, "
                         f"{join_names(labels) if labels else 'but labels are scores'}")
    if len(labels) == 2:
        positive = positive or labels[1]
    metrics = ("accuracy", "f1") if positive else ("accuracy",)
    metrics = metrics if labels else ("pearson", "spearman")
    splits = {"train": make_pairs(columns, rows, labels)}
    for split, file in (("dev", dev_file), ("test", test_file)):
        if file:
            splits[split] = read_pairs(file, labels, columns=columns)
    task = Task("own", labels, metrics, positive=positive, columns=tuple(columns))
    return task, splits


# --------------------------------------------------------------------------------------- data sets

def split_qqp(path):
    """`split_rows` of QQP: a field with quotes in it is written as in csv, "Why ""A""?", and no
    other is. A quote of any other kind is text, and none reaches beyond its field.
    """
    for line, fields in split_rows(path):
        for i, text in enumerate(fields):
            if re.fullmatch('"(?:[^"]|"")*"', text):
                fields[i] = text[1:-1].replace('""', '"')
        yield line, fields


def split_tweets(path):
    """`split_rows` of Twitter-URL: ten lines of its test file have an empty field before the URL.
    """
    for line, fields in split_rows(path):
        if len(fields) == 5 and not fields[3] and fields[4].startswith("http"):
            del fields[3]
        yield line, fields


def split_sick(path):
    """`split_rows` of SICK, whose column of labels has two names."""
    for line, fields in split_rows(path):
        if "entailment_judgment" in fields:
            fields[fields.index("entailment_judgment")] = "entailment_label"
        yield line, fields


class File(NamedTuple):
    """A published file; size in bytes and sha256 are checked after a download."""
    url: str
    size: int
    sha256: str

    @property
    def name(self):
        """What it is called in its folder."""
        return self.url.rpartition("/")[2].partition("?")[0]


@dataclass(frozen=True)
class Source:
    """One published data set: its files, how they are read, what is measured.

    The ending of a table's name is its form: .csv has commas and quotes, .jsonl one JSON object on
    each line, all else tabs and no quoting but what `rows` knows of.
    """
    files: tuple[File, ...]              # to download: the tables, or a zip of them; () if none is
    splits: dict[str, str]               # split -> its table
    columns: tuple                       # of a, b, label: names, or numbers where no header is
    labels: tuple[str, ...]              # as written in the files, in index order; () for scores
    metrics: tuple[str, ...]
    selection: str = "dev"
    unlabelled: tuple[str, ...] = ()     # splits whose labels were never published
    spelled: dict[str, str | None] = field(default_factory=dict)    # -> label, or None: no pair
    split_column: tuple[str, ...] = ()   # the column with a row's split, its word for each split
    dev_ids: tuple[str, ...] = ()        # a file of id pairs and two columns: these rows become dev
    dev_share: float = 0.0               # this share of train, drawn by a fixed seed, becomes dev
    on_request: str = ""                 # who gives the tables out, where nothing can be downloaded
    pairs: dict[str, int] = field(default_factory=dict)     # split -> how many were published
    rows: Callable = split_rows          # path -> lines' fields, of tables with an oddity
    other: dict = field(default_factory=dict)    # what differs in another edition of the tables


GLUE = "https://dl.fbaipublicfiles.com/glue/data"
SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
STSB = "https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/main/data"
ALLEN = "http://data.allenai.org.s3.amazonaws.com"     # its certificate does not cover these dots
TABLES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
INFERENCE = ("entailment", "neutral", "contradiction")
VOTES = ("0", "0", "0", None, "1", "1", "1")           # label by how many of six saw a paraphrase
SOURCES = {
    "mrpc": Source(
        pairs=dict(train=3668, dev=408, test=1725),
        files=(File(f"{SENTEVAL}/msr_paraphrase_train.txt", 1047044,
                    "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"),
               File(f"{SENTEVAL}/msr_paraphrase_test.txt", 441275,
                    "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"),
               File(f"{GLUE}/mrpc_dev_ids.tsv", 6222,
                    "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7")),
        splits={"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        columns=("#1 String", "#2 String", "Quality"), labels=("0", "1"),
        metrics=("accuracy", "f1"), dev_ids=("mrpc_dev_ids.tsv", "#1 ID", "#2 ID")),
    "rte": Source(
        pairs=dict(train=2490, dev=277, test=3000),
        files=(File(f"{GLUE}/RTE.zip", 697150,
                    "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),),
        splits=TABLES, columns=("sentence1", "sentence2", "label"),
        labels=("not_entailment", "entailment"), metrics=("accuracy",), unlabelled=("test",)),
    "qqp": Source(
        pairs=dict(train=363846, dev=40430, test=390965),
        files=(File(f"{GLUE}/QQP-clean.zip", 41696084,
                    "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),),
        splits=TABLES, columns=("question1", "question2", "is_duplicate"), labels=("0", "1"),
        metrics=("accuracy", "f1"), unlabelled=("test",), rows=split_qqp),
    "stsb": Source(
        pairs=dict(train=5749, dev=1500, test=1379),
        files=(File(f"{STSB}/stsb-en-train.csv", 708863,
                    "e1e84fec60bbb598735552f54a35f4949904a484750fd2cb11e2720e49f63da6"),
               File(f"{STSB}/stsb-en-dev.csv", 204675,
                    "d29586e96558c4eb52cf5ea5d14e9c24d3bf0e44f111b017caba43a5adc33226"),
               File(f"{STSB}/stsb-en-test.csv", 158891,
                    "11523b625219e94e9ca05d2816b5f02cac1614c5894fe657376fa0806378d053")),
        splits={split: f"stsb-en-{split}.csv" for split in TABLES},
        columns=(0, 1, 2), labels=(), metrics=("pearson", "spearman")),
    "mnli": Source(
        pairs=dict(train=392702, dev_matched=9815, dev_mismatched=9832, test_matched=9796,
                   test_mismatched=9847),
        files=(File(f"{GLUE}/MNLI.zip", 312783507,
                    "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),),
        splits={split: f"{split}.tsv" for split in (
            "train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")},
        columns=("sentence1", "sentence2", "gold_label"), labels=INFERENCE, spelled={"-": None},
        metrics=("accuracy",), selection="dev_matched",
        unlabelled=("test_matched", "test_mismatched")),
    "qnli": Source(
        pairs=dict(train=104743, dev=5463, test=5463),
        files=(File(f"{GLUE}/QNLIv2.zip", 10627589,
                    "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),),
        splits=TABLES, columns=("question", "sentence", "label"),
        labels=("entailment", "not_entailment"), metrics=("accuracy",), unlabelled=("test",)),
    "snli": Source(
        pairs=dict(train=549367, dev=9842, test=9824),
        files=(File("https://nlp.stanford.edu/projects/snli/snli_1.0.zip", 94550081,
                    "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e"),),
        splits={split: f"snli_1.0_{split}.jsonl" for split in TABLES},
        columns=("sentence1", "sentence2", "gold_label"), labels=INFERENCE, spelled={"-": None},
        metrics=("accuracy",)),
    "sick": Source(
        pairs=dict(train=4439, dev=495, test=4906),
        files=(File("https://zenodo.org/record/2787612/files/SICK.zip?download=1", 217584,
                    "da272af924399fc2de4889ed55383e38822c10d16c4a949a89d597d09a0b7912"),),
        splits=dict.fromkeys(TABLES, "SICK.txt"),
        split_column=("SemEval_set", "TRAIN", "TRIAL", "TEST"),
        columns=("sentence_A", "sentence_B", "entailment_label"),
        labels=("NEUTRAL", "ENTAILMENT", "CONTRADICTION"), metrics=("accuracy",), rows=split_sick,
        other=dict(pairs=dict(train=4500, dev=500, test=4927), split_column=(), files=(),
                   on_request="SemEval gave it out in three files, Zenodo has it in SICK.txt",
                   splits={"train": "SICK_train.txt", "dev": "SICK_trial.txt",
                           "test": "SICK_test_annotated.txt"})),
    "scitail": Source(
        pairs=dict(train=23596, dev=1304, test=2126),
        files=(File(f"{ALLEN}/downloads/SciTailV1.1.zip", 14174621,
                    "3fccd37350a94ca280b75998568df85fc2fc62843a3198d644fcbf858e6943d5"),),
        splits={split: f"scitail_1.0_{split}.tsv" for split in TABLES},
        columns=(0, 1, 2), labels=("neutral", "entails"), metrics=("accuracy",)),
    "twitterurl": Source(
        pairs=dict(train=42200, test=9334), rows=split_tweets,
        files=(), on_request="its authors give them out on request (https://languagenet.github.io)",
        splits={split: f"Twitter_URL_Corpus_{split}.txt" for split in ("train", "test")},
        columns=(0, 1, 2), labels=("0", "1"), metrics=("f1", "accuracy"), dev_share=0.05,
        spelled={f"({n},{gap}6)": label for n, label in enumerate(VOTES) for gap in ("", " ")}),
}


def load_task(name, data_dir, progress=True):
    """A task by name; what is missing of a published data set is downloaded.

    Args:
        data_dir: the files of a task lie in `<data_dir>/<name>/`.
        progress: show downloads, and say where a split has not as many pairs as were published.
    Returns: (Task, dict split -> list of Pair), pairs in the order of the files.
    Raises: ValueError for an unknown name, malformed files or a failed download; FileNotFoundError
        for files that are not to be downloaded.
    """
    if name == "toy":
        from support.toy import toy_task     # imported here, as it imports this file
        return toy_task()
    if name not in SOURCES:
        known = ["toy", *SOURCES]
        raise ValueError(f"task {name!r}: no such task; expected one of {', '.join(known)}"
                         f"{nearest(name, known)}")
    folder = Path(data_dir) / name
    source = find_edition(name, folder)
    fetch_tables(name, source, folder, progress)
    splits = read_source(source, folder)
    if progress:
        compare_sizes(source, folder, {split: len(pairs) for split, pairs in splits.items()})
    return Task(name, source.labels, source.metrics, source.selection), splits


def find_edition(name, folder):
    """The Source of a task, or its other edition where tables of that one alone are there."""
    source = SOURCES[name]
    other = replace(source, **source.other)
    begun = len(missing_tables(other, folder)) < len(other.splits)
    return other if begun and missing_tables(source, folder) else source


def find_table(folder, name):
    """The path of a table: in the folder, or below it, as a zip has it; it may not exist.

    Raises: ValueError where two are below it.
    """
    found = [folder / name] if (folder / name).exists() else sorted(folder.rglob(name))
    if len(found) > 1:
        raise ValueError(f"{found[0]} and {found[1]}: expected one {name} in {folder}; take one "
                         f"away")
    return found[0] if found else folder / name


def missing_tables(source, folder):
    """Names of the tables of a source that are not in the folder or below it, each once."""
    tables = dict.fromkeys([*source.splits.values(), *source.dev_ids[:1]])
    return [table for table in tables if not find_table(folder, table).exists()]


def name_tables(source):
    """What a folder needs: the tables of a source, or those of its other edition."""
    editions = [source.splits, *filter(None, [source.other.get("splits")])]
    return ", or ".join(" and ".join(dict.fromkeys(splits.values())) for splits in editions)


def compare_sizes(source, folder, sizes):
    """Says in one line which splits have not as many pairs as were published.

    sizes: dict split -> number of pairs.
    """
    if source.dev_share:
        sizes["train"] += sizes["dev"]   # both are the published training split
    differ = [f"{sizes[split]} of {split} ({published} were published)"
              for split, published in source.pairs.items() if sizes[split] != published]
    if differ:
        tqdm.write(f"{folder}: pairs: {', '.join(differ)}: another edition, or cut off")


def fetch_tables(name, source, folder, progress):
    """Downloads and extracts the tables that the folder lacks; touches nothing if all are there."""
    lacking = missing_tables(source, folder)
    if lacking and source.on_request:
        raise FileNotFoundError(f"task {name!r}: {folder} lacks {', '.join(lacking)}; "
                                f"{source.on_request}: put them there, or take the task toy")
    for file in source.files if lacking else ():
        path = folder / file.name
        fetched = not path.exists() and (path.suffix == ".zip" or file.name in lacking)
        if fetched:
            download(file.url, path, file.size, file.sha256, progress,
                     remedy=f"put the file at {path} by hand, or {name_tables(source)} into "
                            f"{folder} or a folder in it, or take the task toy")
        if path.suffix == ".zip":
            extract(path, folder, lacking)
            if fetched:                  # what the user put there stays
                path.unlink()


def read_source(source, folder):
    """The splits of one data set from its files. Returns: dict split -> list of Pair"""
    splits = {}
    for split, table in source.splits.items():
        rows = list(read_split(source, folder, split))
        held = find_dev_rows(source, folder, [ids for _, ids in rows]) if split == "train" else ()
        splits[split] = [pair for i, (pair, _) in enumerate(rows) if i not in held]
        if held:
            splits["dev"] = [rows[i][0] for i in sorted(held)]
        if not splits[split]:
            raise ValueError(f"{find_table(folder, table)}: no pairs for {split}; it is cut off or "
                             f"another edition: get it again")
    return splits


def read_split(source, folder, split):
    """Pairs of a split as its table has them, with the ids for which dev_ids asks.

    Returns: iterator of (Pair, tuple of its ids)
    """
    path, labelled = find_table(folder, source.splits[split]), split not in source.unlabelled
    a, b, label = source.columns
    column, words = source.split_column[:1], source.split_column[1:]
    ids = source.dev_ids[1:] if split == "train" else ()
    columns = (*source.columns[:2 + labelled], *column, *ids)
    if path.suffix == ".jsonl":
        table = read_objects(path, columns)
    else:
        table = read_table(path, columns, rows=source.rows(path))
    for where, row in table:
        if column:
            place = parse_label(row[column[0]], words, f"{where}, {column[0]}")
            if list(source.splits)[place] != split:
                continue
        value = None
        if labelled:
            text = source.spelled.get(row[label], row[label])
            if text is None:
                continue
            value = parse_label(text, source.labels, where, source.spelled)
        yield Pair(row[a], row[b], value), tuple(row[name] for name in ids)


def find_dev_rows(source, folder, ids):
    """Places of the rows of train that become dev: a set. ids: of each row, see `read_split`.

    Raises: ValueError where an id pair is of no row.
    """
    if not source.dev_ids:
        count = math.ceil(source.dev_share * len(ids))
        return set(random.Random("dev").sample(range(len(ids)), count))
    path, train = (find_table(folder, x) for x in (source.dev_ids[0], source.splits["train"]))
    held = {tuple(fields) for _, fields in split_rows(path)}
    if not held:
        raise ValueError(f"{path}: expected id pairs, found none; fetch it again")
    lost = held - set(ids)
    if lost:
        raise ValueError(f"{path}: {len(lost)} of its {len(held)} id pairs are not in {train}; one "
                         f"of the two is cut off or another edition: fetch both again")
    return {i for i, key in enumerate(ids) if key in held}
