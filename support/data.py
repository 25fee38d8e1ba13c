"""Pairs: what is predicted of them, how it is scored, and where they come from.

Sources: W. Dolan and C. Brockett, "Automatically Constructing a Corpus of Sentential Paraphrases",
2005 (MRPC); A. Wang et al., "GLUE", 2018 (MRPC's dev split, RTE, QQP, MNLI, QNLI, the metrics);
D. Cer et al., "SemEval-2017 Task 1", 2017 (STS-B); S. Bowman et al., 2015 (SNLI); M. Marelli et
al., 2014 (SICK); T. Khot et al., 2018 (SciTail); W. Lan et al., 2017 (Twitter-URL).

Left out: data sets of single sentences, and GLUE's server (test splits without labels keep their
file order, which is the `index` it asks for).
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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F
from tqdm import tqdm

from support.checkpoints import file_size, join_names, shorten
from support.files import download, extract, write_whole
from support.machine import main_process
from support.options import nearest, refuse

# Axes: N pairs, B batch, C classes, J judgements


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


# ---- Metrics ------------------------------------------------------------------------------------

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
    refuse(labels.ndim != 1 or labels.shape != predictions.shape or not labels.size,
           f"evaluate: expected one pair or more, a label and a prediction of each, got shapes "
           f"{labels.shape} and {predictions.shape}")
    for name, values in (("labels", labels), ("predictions", predictions)):
        refuse(not np.isfinite(values).all(), f"evaluate: {name} must be finite numbers; a split "
               f"without labels cannot be scored")
    positive = task.labels.index(task.positive) if task.positive else 1
    given = {"f1": (labels == positive, predictions == positive)}
    return {name: METRICS[name](*given.get(name, (labels, predictions))) for name in task.metrics}


# ---- Logits -------------------------------------------------------------------------------------

class Prediction(NamedTuple):
    """What a model says of a pair."""
    answer: str | float          # the name of a class, or a score
    probabilities: dict | None   # class -> number; None for a score


def check_logits(logits, pairs, task):
    """ValueError unless a model's logits are (N, C), for this many pairs: others are broadcast."""
    shape, wanted = getattr(logits, "shape", None), (pairs, len(task.labels) or 1)
    refuse(shape != wanted, f"a model returns {wanted}, a row for each pair and a column for each "
           f"class; this one's is {tuple(shape or ()) or type(logits).__name__}")


def loss_sum(logits, labels, task, class_weights=None):
    """Cross-entropy, or squared error of scores, in float32, summed over the batch.

    Args: logits: (B, C), or (J, B, C), J judgements of a model that trains, whose losses add up.
        class_weights: (C,), what a pair of each class counts, or None: 1.
    """
    if logits.dim() == 3:
        return sum(loss_sum(judgement, labels, task, class_weights) for judgement in logits)
    check_logits(logits, len(labels), task)
    if task.regression:
        return F.mse_loss(logits.float()[:, 0], labels.float(), reduction="sum")
    return F.cross_entropy(logits.float(), labels, class_weights, reduction="sum")


def answers(logits, task):
    """The score or the index of the class of each row of logits (N, C), a list."""
    return (logits[:, 0] if task.regression else logits.argmax(1)).tolist()


def predictions_of(logits, task):
    """A Prediction for each row of logits (N, C)."""
    if task.regression:
        return [Prediction(score, None) for score in logits[:, 0].tolist()]
    found = [dict(zip(task.labels, row)) for row in logits.softmax(1).tolist()]
    return [Prediction(max(row, key=row.get), row) for row in found]


csv.field_size_limit(2 ** 31 - 1)        # a cell is as long as it is
LARGEST_SCORE = 1e15                     # squares of larger ones, summed, leave float32


def read_lines(path, opened=None):
    """(line number, text) of each line of a UTF-8 file without its byte order mark; only "\\n" ends
    one (U+2028 is text). opened: read in its place, such as standard input.
    """
    try:
        if not opened:
            file_size(path)  # a pipe may never end
        with contextlib.nullcontext(opened) if opened else open(path, "rb") as file:
            for line, data in enumerate(file, 1):
                yield line, data.decode("utf-8-sig" if line == 1 else "utf-8")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8 (Latin-1?); "
                         f"save the file as UTF-8") from None


def text_lines(path, opened=None):
    """The texts of `read_lines` without their line ends, a list."""
    return [text.removesuffix("\n").removesuffix("\r") for _, text in read_lines(path, opened)]


def is_csv(path):
    """Does the name end in .csv: commas and quotes (RFC 4180)? All else has tabs."""
    return Path(path).suffix.lower() == ".csv"


def split_rows(path):
    """(line number, its fields) of each line that is not blank; without a .csv's name, tabs part
    them and quotes are text.
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
    each cell that begins with one also ends with one. Elsewhere they are text. A file that is
    quoted in part is refused.
    """
    plain = list(split_rows(path))
    start, header = plain[0] if plain else (0, [])
    refuse(len(header) == 1 and re.search(r"[\t,;|]", header[0]),
           f"{path}:{start}: commas part the columns of a .csv, tabs those of all else, found "
           f"{shorten(''.join(header))}; name it, or save it, so")
    if is_csv(path) or not plain:
        return plain
    with contextlib.suppress(ValueError):
        quoted = list(split_quoted(path, "\t"))
        sizes, found = ([len(fields) for _, fields in rows] for rows in (plain, quoted))
        # two quotes of text, lines apart, would hide what is between them
        if sizes == found or len(set(sizes)) > 1 or header[0].startswith('"'):
            return quoted
    for line, fields in plain:
        for cell in fields:
            doubled = re.fullmatch(r'"([^"]*"")+[^"]*"', cell) and cell.strip('"')
            if doubled or cell.startswith('"') and line == start:
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


def read_table(path, rows, columns):
    """The given columns of a table: iterator of (where = "file:line", dict column -> its text).

    rows: what a function above gives. columns: names in the header line, in any order, or numbers
    from 0 where there is none.
    """
    rows, headed = iter(rows), isinstance(columns[0], str)
    mark = "commas" if is_csv(path) else "tabs"
    expected = (f"a header that names each of {join_names(columns)} once" if headed else
                f"rows of {max(columns) + 1} fields or more") + f", parted by {mark}"
    start, first = next(rows, (0, []))
    refuse(not start, f"{path} is empty; expected {expected}")
    names = [name.strip() for name in first] if headed else [*range(len(first))]
    refuse(any(names.count(name) != 1 for name in columns),
           f"{path}:{start}: expected {expected}, found {join_names(names)}")
    place, line = {name: names.index(name) for name in columns}, 0
    for line, fields in rows if headed else itertools.chain([(start, first)], rows):
        if headed and fields == first:
            raise ValueError(f"{path}:{line}: the header again, as where files were joined; take "
                             f"it out")
        if len(fields) != len(first):
            raise ValueError(f"{path}:{line}: expected {len(first)} fields parted by {mark}, like "
                             f"line {start}, found {len(fields)}")
        yield f"{path}:{line}", {name: fields[i].strip() for name, i in place.items()}
    refuse(not line, f"{path} has a header and no pairs; expected one pair a line below it")


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
    """What the text of a label means: the index of its class, a score, or the text.

    labels: names of the classes, () for scores, None to keep the text. also: what else could have
    stood there, for the error.
    """
    if labels is None:
        refuse(not text, f"{where}: the label is empty; expected the name of a class or a score")
        return text
    if labels and text in labels:
        return labels.index(text)
    if labels:
        raise ValueError(f"{where}: unknown label {shorten(text)}; expected one of "
                         f"{join_names([*also, *labels], 12)}")
    if not is_number(text):
        raise ValueError(f"{where}: label {shorten(text)} is not a number such as 0.5; this task "
                         f"predicts scores")
    return float(text)


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


def normalized_label(text):
    """What of a label tells it from others: its value, or letters whatever their case and form."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    seen = "".join(c for c in plain if unicodedata.category(c) != "Cf")  # others have no width
    return float(text) if is_number(text) else seen


def write_table(path, rows):
    """Rows of cells as .csv (commas) or anything else (tabs), quoted where a cell asks for it."""
    text = io.StringIO()
    mark = "," if is_csv(path) else "\t"
    csv.writer(text, delimiter=mark, lineterminator="\n").writerows(rows)
    content = text.getvalue().encode("utf-8", "replace")  # half a surrogate pair becomes ?
    write_whole(path, lambda file: file.write(content))


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
    """`split_rows` of Twitter-URL: ten lines of test have an empty field before the URL."""
    for line, fields in split_rows(path):
        if len(fields) == 5 and not fields[3] and fields[4].startswith("http"):
            del fields[3]
        yield line, fields


class File(NamedTuple):
    """A published file; size in bytes and sha256 are checked after a download."""
    url: str
    size: int
    sha256: str


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
        labels=("NEUTRAL", "ENTAILMENT", "CONTRADICTION"), metrics=("accuracy",),
        other=dict(pairs=dict(train=4500, dev=500, test=4927), split_column=(), files=(),
                   columns=("sentence_A", "sentence_B", "entailment_judgment"),
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


def load_task(name: str, data_dir: str | Path, progress=True) -> tuple[Task, dict]:
    """A task by name; a published one's files lie in `<data_dir>/<name>/`, or are downloaded to it.

    progress: show downloads, and say where a split has not as many pairs as were published.
    Returns: (Task, dict split -> list of Pair), pairs in the order of the files.
    Raises: ValueError for an unknown name, malformed files or a failed download; FileNotFoundError
        for files that are not to be downloaded.
    """
    if name == "toy":
        from support.toy import toy_task  # it makes Pairs of this module
        return toy_task()
    known = ["toy", *SOURCES]
    refuse(name not in known, f"task {name!r}: no such task; expected one of {', '.join(known)}"
           f"{nearest(name, known)}")
    folder, source = Path(data_dir) / name, SOURCES[name]
    other = replace(source, **source.other)
    begun = len(missing_tables(other, folder)) < len(other.splits)
    source = other if begun and missing_tables(source, folder) else source
    fetch_tables(name, source, folder, progress)
    splits = read_source(source, folder)
    if progress:
        compare_sizes(source, folder, {split: len(pairs) for split, pairs in splits.items()})
    return Task(name, source.labels, source.metrics, source.selection), splits


def find_table(folder, name):
    """The path of a table: in the folder, or once below it, where unzip puts it; or none yet."""
    found = [folder / name] if (folder / name).exists() else sorted(folder.rglob(name))
    refuse(len(found) > 1, f"{' and '.join(map(str, found))}: expected one {name} in {folder}; "
           f"leave one there")
    return found[0] if found else folder / name


def missing_tables(source, folder):
    """Names of the tables of a source that are not in the folder or below it, each once."""
    tables = dict.fromkeys([*source.splits.values(), *source.dev_ids[:1]])
    return [table for table in tables if not find_table(folder, table).exists()]


def compare_sizes(source, folder, sizes):
    """Says which splits have not as many pairs as were published. sizes: dict split -> number."""
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
    editions = [source.splits, *filter(None, [source.other.get("splits")])]
    tables = ", or ".join(" and ".join(dict.fromkeys(splits.values())) for splits in editions)
    for url, size, sha256 in source.files if lacking else ():
        path = folder / url.rpartition("/")[2].removesuffix("?download=1")
        fetched = not path.exists() and (path.suffix == ".zip" or path.name in lacking)
        if fetched:
            download(url, path, size, sha256, progress,
                     remedy=f"put the file at {path} by hand, or {tables} into {folder} or a "
                            f"folder in it, or take the task toy")
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
        refuse(not splits[split], f"{find_table(folder, table)}: no pairs for {split}; it is cut "
               f"off or another edition: get it again")
    return splits


def read_split(source, folder, split):
    """(Pair, tuple of the ids for which dev_ids asks) of each row of a split's table."""
    path, labelled = find_table(folder, source.splits[split]), split not in source.unlabelled
    a, b, label = source.columns
    column, words = source.split_column[:1], source.split_column[1:]
    ids = source.dev_ids[1:] if split == "train" else ()
    columns = (*source.columns[:2 + labelled], *column, *ids)
    if path.suffix == ".jsonl":
        table = read_objects(path, columns)
    else:
        table = read_table(path, source.rows(path), columns)
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
    """Places of the rows of train that become dev: a set. ids: of each row, see `read_split`."""
    if not source.dev_ids:
        count = math.ceil(source.dev_share * len(ids))
        return set(random.Random("dev").sample(range(len(ids)), count))
    path, train = (find_table(folder, x) for x in (source.dev_ids[0], source.splits["train"]))
    held = {tuple(fields) for _, fields in split_rows(path)}
    refuse(not held, f"{path}: expected id pairs, found none; fetch it again")
    lost = held - set(ids)
    refuse(lost, f"{path}: {len(lost)} of its {len(held)} id pairs are not in {train}; one of the "
           f"two is cut off or another edition: fetch both again")
    return {i for i, key in enumerate(ids) if key in held}


SENTENCES = "sentence1", "sentence2", "label"
NO_SENTENCE = re.compile(r"|(.*[ _#-])?([gu]u?|pair|q)?(id|idx|index)\d*|split|genre", re.I)
# names of other columns that published tables have
LABELS = "score", "relatedness_score", "entailment_judgment"  # beside those of SOURCES


def read_own(path, columns=(), need_label=True, likely=()):
    """A user's .tsv or .csv file. -> (columns, all rows as lists of str, what read_table gives)

    columns: names of those of a, b and label; () for those of `find_sentences`. need_label: if
    False, the label's may be missing. likely: as `columns`, if the header has both sentences.
    """
    suffix = Path(path).suffix.lower()
    refuse(suffix not in (".csv", ".tsv", ".txt"), f"{path}: expected a name ending in .csv "
           f"(commas) or .tsv (tabs), found {suffix or 'no ending'}")
    refuse(columns and not len(columns) == len({*columns} - {""}) == 3, f"columns: expected three "
           f"names, of both sentences and the label, found {','.join(columns)}")
    rows = split_own(path)
    header = [name.strip() for name in rows[0][1]] if rows else []
    if likely and {*likely[:2]} <= {*header}:
        columns = likely
    elif rows and not columns:
        columns = find_sentences(path, rows, need_label, likely or SENTENCES)
    columns = columns or SENTENCES
    there = columns if need_label or columns[2] in header else columns[:2]
    return columns, [fields for _, fields in rows], read_table(path, rows, there)


def find_sentences(path, rows, need_label, known):
    """The columns that a header offers: SENTENCES; or the one pair of names and the one label that
    published tables have; or the label and the only two others. Where others could be meant, the
    error names the columns `known`, and the option that would say which.
    """
    names = [name.strip() for name in rows[0][1]]
    if {*SENTENCES} <= {*names}:
        return SENTENCES
    public = [source.columns for source in SOURCES.values() if isinstance(source.columns[0], str)]
    pairs = [pair for pair in dict.fromkeys(x[:2] for x in public) if {*pair} <= {*names}]
    labels = [x for x in names if x in {*LABELS, *(x[2] for x in public)}]
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
    raise ValueError(f"{path}:{rows[0][0]}: expected a header with {', '.join(known)}, or label "
                     f"and two others, found {join_names(names)}; write one above them if they are "
                     f"a pair, else rename them{option if offered else ''}")


def read_pairs(path, labels=None, need_label=True, columns=()):
    """Pairs of a user's .tsv or .csv file with a header, see `read_own` and `make_pairs`."""
    columns, _, rows = read_own(path, columns, need_label)
    return make_pairs(columns, rows, labels, need_label)


def make_pairs(columns, rows, labels, need_label=True):
    """A list of Pair of the rows of `read_own`. An empty sentence is a sentence.

    labels: as for parse_label. need_label: if False, the label of a pair without one is None.
    """
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
    spelled = Counter(map(normalized_label, distinct))
    refuse(len(spelled) < 2, f"{path}: every label is {shorten(distinct[0])}; expected at least "
           f"two different ones")
    if scores:
        return ()
    twice = [text for text in distinct if spelled[normalized_label(text)] > 1]
    refuse(twice, f"{path}: labels {join_names(twice)}: one class is written in two ways; write "
           f"each in one")
    refuse(len(distinct) > max(10, len(labels) / 2),
           f"{path}: {len(distinct)} different labels of {len(labels)} pairs, such as "
           f"{shorten(distinct[0])}: too many for classes; name the columns by --columns")
    return tuple(sorted(distinct, key=float) if len(numbers) == len(distinct) else distinct)


def own_task(train_file, dev_file, test_file=None, columns=(), positive="", scores=None):
    """A task of the user's own files, labels and columns from the training file.

    Metrics: accuracy, and F1 of `positive`, without which it is the second of two classes; Pearson
    and Spearman of scores. scores: as for `class_names`. -> (Task, dict split -> list of Pair)
    """
    columns, _, rows = read_own(train_file, columns)
    rows = list(rows)
    texts = [(where, parse_label(row[columns[2]], None, where)) for where, row in rows]
    labels = class_names(train_file, texts, scores)
    refuse(positive and positive not in labels, f"positive {shorten(positive)}: expected one of "
           f"the classes, {join_names(labels) if labels else 'but labels are scores'}")
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


def as_pairs(task, given):
    """A list of Pair: of Pairs, and of tuples or lists of two texts, each perhaps with a label, the
    name of a class or a score; one of these alone is one pair. Raises ValueError for anything else.
    """
    of_texts = isinstance(given, (tuple, list)) and given and isinstance(given[0], str)
    of_lists = isinstance(given, tuple) and given and all(isinstance(x, list) for x in given)
    many = isinstance(given, Iterable) and not isinstance(given, (str, dict))
    if of_texts or of_lists or not many:  # lists of a and of b? zip(a, b) has the pairs
        given = [given]
    return [as_pair(task, one) for one in given]


def as_pair(task, given):
    """One Pair for `as_pairs`."""
    own = isinstance(given, Pair)
    parts = (given.a, given.b, given.label) if own else given
    if not (isinstance(parts, (tuple, list)) and len(parts) in (2, 3)
            and all(isinstance(text, str) for text in parts[:2])):
        raise ValueError(f"expected pairs of two texts, such as (a, b), each perhaps with a label, "
                         f"found {shorten(given)}")
    a, b, label = (*parts, None)[:3]
    if own and label is not None and task.labels:
        refuse(type(label) is not int or not 0 <= label < len(task.labels),
               f"label: a Pair has the number of its class, 0 to {len(task.labels) - 1}, found "
               f"{shorten(label)}; a tuple has its name")
    elif label is not None:
        label = parse_label(str(label), task.labels, "label")
    return replace(given, label=label) if own else Pair(a, b, label)


def load_pairs(settings, limited=True) -> tuple[Task, dict[str, list[Pair]]]:
    """(the Task of train.Settings, dict split -> list of Pair), cut as `held_out` and `limit` say
    if `limited`.
    """
    if settings.train_file:
        columns = settings.columns and [name.strip() for name in settings.columns.split(",")]
        files = settings.train_file, settings.dev_file, settings.test_file
        task, splits = own_task(*files, columns, settings.positive or "", settings.scores)
    else:
        task, splits = load_task(settings.task, settings.data_dir, main_process())
    if settings.held_out and limited:
        splits = hold_out(task, splits, settings.held_out, settings.seed)
    if settings.limit and limited:
        splits = limit_pairs(task, splits, settings.limit, settings.seed)
    return task, splits


def blocks_of(task, pairs):
    """The pairs in blocks of the task, which stay together."""
    return [pairs[i:i + task.block] for i in range(0, len(pairs), task.block)]


def hold_out(task, splits, share, seed):
    """A share of train, drawn by the seed in blocks of the task, stands where dev stood, so that
    a recipe can be chosen and all of dev stays unread. Refuses to take all of train.
    """
    blocks = blocks_of(task, splits["train"])
    random.Random(seed).shuffle(blocks)
    held = max(1, round(share * len(blocks)))
    refuse(held == len(blocks),
           f"HELD_OUT={share:g}: takes all {len(splits['train'])} training pairs")
    others = {name: pairs for name, pairs in splits.items() if not name.startswith("dev")}
    return others | {"train": [*chain(*blocks[held:])], task.selection: [*chain(*blocks[:held])]}


def limit_pairs(task, splits, limit, seed):
    """The first `limit` pairs of each split; below 1 that share of train, drawn by the seed in
    blocks of the task.
    """
    if limit >= 1:
        return {name: pairs[:int(limit)] for name, pairs in splits.items()}
    blocks = blocks_of(task, splits["train"])
    blocks = random.Random(seed).sample(blocks, max(1, round(limit * len(blocks))))
    return splits | {"train": [*chain(*blocks)]}


def load_test_splits(settings):
    """dict name -> list of Pair of all test splits. Raises ValueError where they have no labels."""
    task, splits = load_pairs(settings, limited=False)
    splits = {name: pairs for name, pairs in splits.items() if name.startswith("test")}
    refuse(not splits or any(pair.label is None for pairs in splits.values() for pair in pairs),
           f"test: {task.name} has no labelled test split; predict it instead")
    return splits


def seen_in_training(splits):
    """Names of the splits that training reads: train and dev, never test."""
    return [name for name in splits if name.startswith(("train", "dev"))]


def describe_labels(task, splits):
    """One line on what is told apart: a wrong column shows, and a constant answer's accuracy."""
    train, chosen = ([pair.label for pair in splits[name]] for name in ("train", task.selection))
    if task.regression:
        return f"scores from {min(train):g} to {max(train):g}"
    counts, share = Counter(train), 100 * max(Counter(chosen).values()) / len(chosen)
    classes = join_names([f"{label} ({counts[i]})" for i, label in enumerate(task.labels)], 20)
    return f"classes {classes}; {task.selection}: {len(chosen)} pairs, {share:.1f} % of one class"


def pair_rows(task, pairs):
    """A header and a row for each pair: both sentences, and the label if all have one."""
    labelled = all(pair.label is not None for pair in pairs)
    rows = [["sentence1", "sentence2", *["label"] * labelled]]
    for pair in pairs:
        row = [pair.a, pair.b]
        if labelled:
            row.append(f"{pair.label:.4f}" if task.regression else task.labels[pair.label])
        rows.append(row)
    return rows


def add_predictions(task, rows, predictions, sentences=()):
    """The rows, a header first, with the columns prediction and one for each class's probability,
    in place of columns that have these names already, but for `sentences`, two names.
    """
    names = ["prediction", *(f"p({label})" for label in task.labels)]
    header = [name.strip() for name in rows[0]]
    kept = [i for i, name in enumerate(header) if name in sentences or name not in names]
    found = [names]
    for answer, probabilities in predictions:
        cell = f"{answer:.4f}" if task.regression else answer
        found.append([cell, *(f"{p:.4f}" for p in (probabilities or {}).values())])
    return [[row[i] for i in kept] + more for row, more in zip(rows, found, strict=True)]


# GLUE's name of the file that it takes for a test split
GLUE_FILES = {
    ("mrpc", "test"): "MRPC", ("rte", "test"): "RTE", ("qqp", "test"): "QQP",
    ("qnli", "test"): "QNLI", ("stsb", "test"): "STS-B", ("mnli", "test_matched"): "MNLI-m",
    ("mnli", "test_mismatched"): "MNLI-mm"}


def glue_rows(task, predictions):
    """GLUE's submission: a number and a label a line."""
    rows = [["index", "prediction"]]
    for i, found in enumerate(predictions):
        rows.append([str(i), f"{found.answer:.3f}" if task.regression else found.answer])
    return rows
