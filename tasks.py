"""What models are trained and tested on: published data sets, the user's own files, and a generated toy world.

A task is a set of sentence pairs, each with a class ("do the two mean the same?") or a score.
- `load_task("mrpc", data_dir)`: one of ten published data sets, each declared as one row of `SOURCES`.
- `own_task(train_file, dev_file)`: the user's tsv or csv files with the header sentence1, sentence2, label.
- `load_task("toy", data_dir)`: a generated diagnostic that needs no network. It is no sample of real English.
- `transform("SwapAnt", task, pairs, ...)`: the pairs as one of the papers' robustness tests changes them.

Sources: W. Dolan and C. Brockett, "Automatically Constructing a Corpus of Sentential Paraphrases", 2005 (MRPC);
A. Wang et al., "GLUE", 2018 (MRPC's dev split, RTE, QQP, MNLI, QNLI, the metrics); D. Cer et al., "SemEval-2017
Task 1", 2017 (STS-B); S. Bowman et al., 2015 (SNLI); M. Marelli et al., 2014 (SICK); T. Khot et al., 2018 (SciTail);
W. Lan et al., 2017 (Twitter-URL); DAFA Table 7 (the cases the toy world multiplies); T. Gui et al., "TextFlint",
2021 (what the robustness tests are called and what they are for).

How the toy world is balanced. An item is a square of four sentences, two meanings in two wordings:

              wording 0                 wording 1
  meaning 0   The cat chased the dog.   The dog was chased by the cat.    the two rows are pairs with label 1,
  meaning 1   The dog chased the cat.   The cat was chased by the dog.    the two diagonals pairs with label 0

Each sentence stands in one pair of either label, so no sentence by itself tells anything; a score that adds up
what a says and what b says has the same sum over both labels; and frames are built so that word overlap and
lengths are those of the other label in every square. What is left to learn is how a and b relate. From pairs in
a random order a small untrained encoder learns nothing in a minute: what differs between the labels drowns in what
differs between sentences. So the four pairs of a square stand in a row and are trained on in one batch.

Left out: data sets of single sentences, GLUE's server (test splits without labels keep their file order, which is the
`index` it asks for), and repairs: a row that does not fit its file is an error, not a row less.
"""

import csv
import difflib
import functools
import io
import itertools
import json
import math
import os
import random
import re
import shutil
import zipfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from priors import FUNCTION_WORDS

# Axes: N pairs


# --------------------------------------------------------------------------------------------- metrics

def accuracy(labels, predictions):
    """Share of predictions equal to the label. labels, predictions: (N,) class indices."""
    return float(np.mean(np.asarray(labels) == np.asarray(predictions)))


def f1(labels, predictions):
    """F1 = 2 tp / (2 tp + fp + fn) of class 1 of two, as GLUE has it; 0.0 if class 1 occurs in neither."""
    truth, guess = np.asarray(labels) == 1, np.asarray(predictions) == 1
    positives = int(truth.sum() + guess.sum())
    return 2 * int((truth & guess).sum()) / positives if positives else 0.0


def pearson(labels, predictions):
    """Pearson's r = Σ x y / √(Σ x² Σ y²), x and y centred, in [-1, 1]; 0.0 where either is constant."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0                                   # undefined; a model that says one thing has found nothing
    x, y = (values - values.mean() for values in (x, y))
    x, y = (values / np.abs(values).max() for values in (x, y))        # r ignores scale; squares stay finite
    return float(np.clip((x @ y) / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def ranks(values):
    """Ranks 1..N of values; equal values share the mean of their ranks. values: (N,) -> (N,) float64."""
    _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]                 # (N,)


def spearman(labels, predictions):
    """Spearman's ρ: Pearson's r of the ranks, ties averaged, in [-1, 1]; 0.0 where either is constant."""
    return pearson(ranks(labels), ranks(predictions))


METRICS = {"accuracy": accuracy, "f1": f1, "pearson": pearson, "spearman": spearman}


@dataclass(frozen=True)
class Pair:
    """Two sentences and what is known of them; label is a class index, a score, or None where unlabelled."""
    a: str
    b: str
    label: int | float | None = None
    group: str = ""                                  # the phenomenon, in the toy world


@dataclass(frozen=True)
class Task:
    """What is to be predicted. labels: names of the classes in index order, empty for a score. The first of
    metrics, on the split `selection`, picks the best epoch. block: this many training pairs in a row belong
    together and are best learned from in one batch (the squares of the toy world)."""
    name: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    selection: str = "dev"
    block: int = 1

    @property
    def regression(self):
        return not self.labels


def evaluate(task, labels, predictions):
    """Every metric of the task. labels, predictions: (N,) class indices, or scores -> dict metric -> float.
    Raises ValueError unless both are N >= 1 finite numbers."""
    labels, predictions = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    if labels.ndim != 1 or labels.shape != predictions.shape or not labels.size:
        raise ValueError(f"evaluate: labels and predictions must be two lists of one length >= 1, "
                         f"got shapes {labels.shape} and {predictions.shape}")
    for name, values in (("labels", labels), ("predictions", predictions)):
        if not np.isfinite(values).all():
            raise ValueError(f"evaluate: {name} must be finite numbers, got {values[~np.isfinite(values)][0]} "
                             f"(a split without labels cannot be scored)")
    return {name: METRICS[name](labels, predictions) for name in task.metrics}


# -------------------------------------------------------------------------------------- reading tables

def read_lines(path):
    """Lines of a UTF-8 file without its byte order mark; only "\\n" ends one (U+2028 and its like are text).
    -> iterator of (line number, text). Raises ValueError naming file and line."""
    try:
        with open(path, "rb") as file:
            for line, data in enumerate(file, 1):
                if b"\0" in data:
                    raise ValueError(f"{path}:{line}: a NUL byte; expected UTF-8 text, found UTF-16 or a binary "
                                     f"file; save it as UTF-8")
                yield line, data.decode("utf-8-sig" if line == 1 else "utf-8")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8 (Latin-1?); "
                         f"save the file as UTF-8") from None


def is_csv(path):
    """Does the name end in .csv: comma-separated and quoted (RFC 4180)? All else has tabs and no quoting."""
    return Path(path).suffix.lower() == ".csv"


def split_rows(path):
    """Fields of each line that is not blank. -> iterator of (line number, list of str); of a field with line
    breaks, the first line counts."""
    if not is_csv(path):
        lines = ((line, text.removesuffix("\n").removesuffix("\r")) for line, text in read_lines(path))
        yield from ((line, text.split("\t")) for line, text in lines if text.strip(" "))
        return
    whole = io.StringIO("".join(text for _, text in read_lines(path)), newline="")
    reader, line = csv.reader(whole, strict=True), 1
    try:
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{line}: not valid csv ({error}); a field with a comma, quote or line break "
                         f"needs double quotes around it, and each quote inside doubled") from None


def read_table(path, columns, optional=()):
    """The given columns of a table: names in its header line, in any order, or numbers from 0 where it has none.
    -> iterator of (where = "file:line", dict column -> stripped text, None for an absent optional column).
    Raises ValueError for a header without the columns, a row of another length, and a file without rows."""
    rows, mark = split_rows(path), "commas" if is_csv(path) else "tabs"
    numbered = isinstance(columns[0], int)
    needed = f"{max(columns) + 1} fields or more" if numbered else ", ".join(columns)
    start, header = next(rows, (0, []))
    if not start:
        raise ValueError(f"{path} is empty; expected " + (f"rows of {needed}" if numbered else
                                                          f"a header line with the columns {needed}"))
    if numbered:
        rows, at = itertools.chain([(start, header)], rows), dict(zip(columns, columns))
        if len(header) <= max(columns):
            raise ValueError(f"{path}:{start}: expected {needed} parted by {mark}, found {len(header)}")
    else:
        header = [name.strip() for name in header]
        if any(header.count(name) != 1 for name in columns if name not in optional or name in header):
            raise ValueError(f"{path}:{start}: the header must name each of {needed} once (parted by {mark}), "
                             f"found {', '.join(header)}")
        at = {name: header.index(name) if name in header else None for name in columns}
    line = 0
    for line, fields in rows:
        if len(fields) != len(header):
            raise ValueError(f"{path}:{line}: expected {len(header)} fields parted by {mark}, like line {start}, "
                             f"found {len(fields)}")
        yield f"{path}:{line}", {name: fields[i].strip() if i is not None else None for name, i in at.items()}
    if not line:
        raise ValueError(f"{path} has a header and no pairs; expected one pair a line below it")


def read_objects(path, keys):
    """The given texts of a file with one JSON object on each line that is not blank. -> as `read_table`."""
    for line, text in read_lines(path):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{line}: not valid JSON ({error}); expected one object on each line; "
                             f"get the file again") from None
        texts = {key: found.get(key) for key in keys} if isinstance(found, dict) else {"": None}
        if not all(isinstance(value, str) for value in texts.values()):
            raise ValueError(f"{path}:{line}: expected an object with the texts {', '.join(keys)}, found "
                             f"{text.strip()[:60]}; get the file again")
        yield f"{path}:{line}", {key: value.strip() for key, value in texts.items()}


def parse_label(text, labels, where, also=()):
    """Index of a label among the names `labels`; its value as a score if they are (); the text, but "", if None.
    also: what else could have stood there, for the error."""
    if labels is None:
        if not text:
            raise ValueError(f"{where}: the label is empty; expected the name of a class, or a score")
        return text
    if labels and text in labels:
        return labels.index(text)
    if labels:
        names = [*also, *labels]
        known = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise ValueError(f"{where}: unknown label {text!r}; expected one of {known}")
    if not is_number(text):
        raise ValueError(f"{where}: label {text!r} is not a finite number; this task predicts scores")
    return float(text)


def is_number(text):
    """Is text a finite decimal number?"""
    return bool(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text)) and math.isfinite(float(text))


# ------------------------------------------------------------------------------------ the user's files

def read_pairs(path, labels=None, need_label=True):
    """Pairs of a user's .tsv or .csv file with the header sentence1, sentence2, label, in any column order.

    labels: the task's class names, () for scores, None to keep the text. need_label=False: the column may be
    missing and a cell of it empty; such a pair has the label None. An empty sentence is a sentence.
    Raises ValueError naming file and line (see `read_table`, `parse_label`)."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".csv", ".tsv", ".txt"):
        raise ValueError(f"{path}: expected a name ending in .csv (comma, quoted) or .tsv (tab, no quoting), "
                         f"found {suffix or 'no ending'}")
    optional = () if need_label else ("label",)
    rows = read_table(path, ("sentence1", "sentence2", "label"), optional)
    return [Pair(row["sentence1"], row["sentence2"],
                 parse_label(row["label"], labels, where) if row["label"] or need_label else None)
            for where, row in rows]


def class_names(path, values):
    """Names of the classes, sorted (numbers by value), or () if the values are scores: numbers, more than 10
    different ones or any that is no integer."""
    distinct = sorted(set(values))
    numeric = all(is_number(value) for value in distinct)
    if numeric and (len(distinct) > 10 or not all(float(value).is_integer() for value in distinct)):
        return ()
    if len(distinct) < 2:
        raise ValueError(f"{path}: every label is {distinct[0]!r}; expected at least two different ones")
    return tuple(sorted(distinct, key=float) if numeric else distinct)


def own_task(train_file, dev_file, test_file=None):
    """A task of the user's own files, labels from the training file. -> (Task, dict split -> list of Pair)
    Metrics: accuracy and F1 of the second of two classes, accuracy of more, Pearson and Spearman of scores."""
    labels = class_names(train_file, [pair.label for pair in read_pairs(train_file)])
    files = {"train": train_file, "dev": dev_file} | ({"test": test_file} if test_file else {})
    splits = {split: read_pairs(path, labels) for split, path in files.items()}
    metrics = ("accuracy", "f1")[:1 + (len(labels) == 2)] if labels else ("pearson", "spearman")
    return Task("own", labels, metrics), splits


# ------------------------------------------------------------------------------------------- data sets

class File(NamedTuple):
    """A published file; size in bytes and sha256 are checked after a download."""
    url: str
    size: int
    sha256: str

    @property
    def name(self):
        return self.url.rpartition("/")[2].partition("?")[0]


@dataclass(frozen=True)
class Source:
    """One published data set: its files, how they are read, what is measured. The ending of a table's name is its
    form: .csv has commas and quotes, .jsonl one JSON object on each line, all else tabs and no quoting."""
    files: tuple[File, ...]              # to download: the tables, or one zip of them; () if nothing can be
    splits: dict[str, str]               # split -> its table
    columns: tuple                       # of sentence a, sentence b, label: names, or numbers where no header is
    labels: tuple[str, ...]              # as written in the files, in index order; () for scores
    metrics: tuple[str, ...]
    selection: str = "dev"
    unlabelled: tuple[str, ...] = ()     # splits whose labels were never published
    spelled: dict[str, str | None] = field(default_factory=dict)      # other spelling -> label; None: no pair
    split_column: tuple[str, ...] = ()   # the column that names a row's split, then its word for each of splits
    dev_ids: tuple[str, ...] = ()        # a file of id pairs and two id columns: these rows of train become dev
    dev_share: float = 0.0               # this share of train, drawn by a fixed seed, becomes dev
    on_request: str = ""                 # who gives the tables out, where nothing can be downloaded


GLUE = "https://dl.fbaipublicfiles.com/glue/data"
SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
STSB = "https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/main/data"
TABLES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
INFERENCE = ("entailment", "neutral", "contradiction")
SOURCES = {
    "mrpc": Source(
        (File(f"{SENTEVAL}/msr_paraphrase_train.txt", 1047044,
              "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"),
         File(f"{SENTEVAL}/msr_paraphrase_test.txt", 441275,
              "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"),
         File(f"{GLUE}/mrpc_dev_ids.tsv", 6222, "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7")),
        splits={split: f"msr_paraphrase_{split}.txt" for split in ("train", "test")},
        columns=("#1 String", "#2 String", "Quality"), labels=("0", "1"), metrics=("accuracy", "f1"),
        dev_ids=("mrpc_dev_ids.tsv", "#1 ID", "#2 ID")),
    "rte": Source(
        (File(f"{GLUE}/RTE.zip", 697150, "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),),
        TABLES, columns=("sentence1", "sentence2", "label"), labels=("not_entailment", "entailment"),
        metrics=("accuracy",), unlabelled=("test",)),
    "qqp": Source(
        (File(f"{GLUE}/QQP-clean.zip", 41696084, "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),),
        TABLES, columns=("question1", "question2", "is_duplicate"), labels=("0", "1"),
        metrics=("accuracy", "f1"), unlabelled=("test",)),
    "stsb": Source(
        (File(f"{STSB}/stsb-en-train.csv", 708863, "e1e84fec60bbb598735552f54a35f4949904a484750fd2cb11e2720e49f63da6"),
         File(f"{STSB}/stsb-en-dev.csv", 204675, "d29586e96558c4eb52cf5ea5d14e9c24d3bf0e44f111b017caba43a5adc33226"),
         File(f"{STSB}/stsb-en-test.csv", 158891, "11523b625219e94e9ca05d2816b5f02cac1614c5894fe657376fa0806378d053")),
        splits={split: f"stsb-en-{split}.csv" for split in TABLES},
        columns=(0, 1, 2), labels=(), metrics=("pearson", "spearman")),
    "mnli": Source(
        (File(f"{GLUE}/MNLI.zip", 312783507, "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),),
        splits={split: f"{split}.tsv" for split in ("train", "dev_matched", "dev_mismatched", "test_matched",
                                                    "test_mismatched")},
        columns=("sentence1", "sentence2", "gold_label"), labels=INFERENCE, spelled={"-": None},
        metrics=("accuracy",), selection="dev_matched", unlabelled=("test_matched", "test_mismatched")),
    "qnli": Source(
        (File(f"{GLUE}/QNLIv2.zip", 10627589, "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),),
        TABLES, columns=("question", "sentence", "label"), labels=("entailment", "not_entailment"),
        metrics=("accuracy",), unlabelled=("test",)),
    "snli": Source(
        (File("https://nlp.stanford.edu/projects/snli/snli_1.0.zip", 94550081,
              "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e"),),
        splits={split: f"snli_1.0_{split}.jsonl" for split in TABLES},
        columns=("sentence1", "sentence2", "gold_label"), labels=INFERENCE, spelled={"-": None},
        metrics=("accuracy",)),
    "sick": Source(
        (File("https://zenodo.org/record/2787612/files/SICK.zip?download=1", 217584,
              "da272af924399fc2de4889ed55383e38822c10d16c4a949a89d597d09a0b7912"),),
        splits=dict.fromkeys(TABLES, "SICK.txt"), split_column=("SemEval_set", "TRAIN", "TRIAL", "TEST"),
        columns=("sentence_A", "sentence_B", "entailment_label"),
        labels=("NEUTRAL", "ENTAILMENT", "CONTRADICTION"), metrics=("accuracy",)),
    "scitail": Source(                   # http: the certificate does not cover a name with these dots
        (File("http://data.allenai.org.s3.amazonaws.com/downloads/SciTailV1.1.zip", 14174621,
              "3fccd37350a94ca280b75998568df85fc2fc62843a3198d644fcbf858e6943d5"),),
        splits={split: f"scitail_1.0_{split}.tsv" for split in TABLES},
        columns=(0, 1, 2), labels=("neutral", "entails"), metrics=("accuracy",)),
    "twitterurl": Source(                # n of six people took the two for a paraphrase
        (), splits={split: f"Twitter_URL_Corpus_{split}.txt" for split in ("train", "test")},
        columns=(0, 1, 2), labels=("0", "1"), metrics=("f1", "accuracy"), dev_share=0.05,
        spelled={f"({n},{gap}6)": "0" if n < 3 else "1" if n > 3 else None for n in range(7) for gap in ("", " ")},
        on_request="its authors give them out on request (https://languagenet.github.io)"),
}


def load_task(name, data_dir, download=None):
    """A task by name. -> (Task, dict split -> list of Pair), pairs in the order of the files.

    data_dir: the files of a task lie in `<data_dir>/<name>/`. download(url, path, size, sha256) fetches a
    missing one (train.py passes bert_min.download). Raises ValueError for an unknown name and for malformed
    files, FileNotFoundError for missing files when download is None or they are had on request only."""
    if name == "toy":
        return toy_task()
    if name not in SOURCES:
        near = difflib.get_close_matches(name, ["toy", *SOURCES], 1)
        raise ValueError(f"--task {name}: no such task; expected one of toy, {', '.join(SOURCES)}"
                         + (f" (did you mean {near[0]}?)" if near else ""))
    source, folder = SOURCES[name], Path(data_dir) / name
    fetch(name, source, folder, download)
    return Task(name, source.labels, source.metrics, source.selection), read_source(source, folder)


def fetch(name, source, folder, download):
    """Downloads and unpacks what a data set lacks; writes nothing where its tables are there."""
    tables = dict.fromkeys([*source.splits.values(), *source.dev_ids[:1]])
    lacking = [table for table in tables if not (folder / table).exists()]
    zips = [file for file in source.files if file.name.endswith(".zip") and lacking]
    missing = [file for file in source.files if (file in zips or file.name in lacking)
               and not (folder / file.name).exists()]
    if missing and download is None or lacking and source.on_request:
        wanted = f"{source.on_request}; put them" if source.on_request else (
            "put " + ", ".join(file.url for file in missing))
        raise FileNotFoundError(f"--task {name}: {folder} lacks {', '.join(lacking)}; {wanted} there, or use "
                                f"--task toy")
    for file in missing:
        folder.mkdir(parents=True, exist_ok=True)
        download(file.url, folder / file.name, file.size, file.sha256)
    for file in zips:
        unpack(folder / file.name, lacking)
        if file in missing:                          # what the user put there stays
            (folder / file.name).unlink()


def unpack(archive, names):
    """Writes the members with these file names beside the zip, each whole or not at all. Where a member says that
    it belongs is ignored, so none can land elsewhere. Raises ValueError naming zip and member."""
    for name in names:
        part = archive.with_name(f"{name}.{os.getpid()}.part")
        try:
            with zipfile.ZipFile(archive) as source:
                found = [member for member in source.infolist() if PurePosixPath(member.filename).name == name]
                if len(found) != 1:
                    raise ValueError(f"{len(found)} members have that name")
                with source.open(found[0]) as member, open(part, "wb") as file:
                    shutil.copyfileobj(member, file)
            os.replace(part, archive.with_name(name))
        except Exception as error:                   # a damaged zip raises almost anything
            raise ValueError(f"{archive}: cannot unpack {name} ({error}); expected a sound zip that holds it once: "
                             f"remove the zip, and it is downloaded again") from error
        finally:
            part.unlink(missing_ok=True)


def read_source(source, folder):
    """The splits of one data set from its files. -> dict split -> list of Pair"""
    splits = {}
    for split, table in source.splits.items():
        rows = list(read_split(source, folder, split))
        held = dev_places(source, folder, [ids for _, ids in rows]) if split == "train" else ()
        splits[split] = [pair for i, (pair, _) in enumerate(rows) if i not in held]
        if held:
            splits["dev"] = [rows[i][0] for i in sorted(held)]
        if not splits[split]:
            raise ValueError(f"{folder / table}: no pairs for {split}; it is cut off or another edition: get it again")
    return splits


def read_split(source, folder, split):
    """Pairs of a split as its table has them. -> iterator of (Pair, its ids, () unless dev_ids asks for them)"""
    path, labelled = folder / source.splits[split], split not in source.unlabelled
    a, b, label = source.columns
    column, words = source.split_column[:1], source.split_column[1:]
    ids = source.dev_ids[1:] if split == "train" else ()
    read = read_objects if path.suffix == ".jsonl" else read_table
    for where, row in read(path, (*source.columns[:2 + labelled], *column, *ids)):
        if column and list(source.splits)[parse_label(row[column[0]], words, f"{where}, {column[0]}")] != split:
            continue
        value = None
        if labelled:
            text = source.spelled.get(row[label], row[label])
            if text is None:
                continue
            value = parse_label(text, source.labels, where, source.spelled)
        yield Pair(row[a], row[b], value), tuple(row[name] for name in ids)


def dev_places(source, folder, ids):
    """Which pairs of train become dev. ids: of each of them, where dev_ids names the columns. -> set of places"""
    if not source.dev_ids:
        return set(random.Random("dev").sample(range(len(ids)), math.ceil(source.dev_share * len(ids))))
    path, train = folder / source.dev_ids[0], folder / source.splits["train"]
    held = {tuple(fields) for _, fields in split_rows(path)}
    if lost := held - set(ids):
        raise ValueError(f"{path}: {len(lost)} of its {len(held)} id pairs are not in {train}; one of the two is cut "
                         f"off or another edition: fetch both again")
    return {i for i, key in enumerate(ids) if key in held}


# --------------------------------------------------------------------------------------- the toy world

# Each table is "seen | unseen": words behind the bar occur in dev_unseen and test_unseen alone. _ is a space,
# / parts the forms of a verb (base/past/participle where irregular) and the words of a row.
VERBS = ("treat", "chase", "give", "get", "work")
VOCABULARY = {
    "person": """nurse teacher pilot farmer singer student driver painter soldier waiter poet sailor clerk judge
        baker | dentist tailor actor hunter priest plumber butler barber miner gardener cashier carpenter""",
    "animal": "cat dog horse goat duck cow | tiger bear rabbit monkey camel donkey",
    "name": "Anna Peter Maria David Sarah Thomas Julia Robert | Laura Simon Helen Oscar Emma Paul Nina Kevin",
    "city": """Paris London Boston Seattle New_York Rome Berlin Vienna |
        Madrid Oslo Chicago San_Diego Tokyo Dublin Prague Lisbon""",
    "place": "park garden kitchen station museum school | harbor library airport stadium hospital village",
    "furniture": "chair table desk lamp | stool bench wardrobe cradle",
    "instrument": "guitar piano drum | violin trumpet flute",
    "garment": "coat hat shirt belt | jacket sweater skirt apron",
    "tool": "hammer ladder rope brush | shovel needle chisel broom",
    "container": "bottle basket box | barrel jar crate",
    "color": "red blue green white | yellow purple orange black",
    "quality": "broken spare famous special | antique fragile valuable rare",
    "mood": "tired hungry friendly lonely | nervous polite lazy wounded bald",
    "manner": "slowly quickly quietly carefully | calmly eagerly neatly patiently",
    "time": "on_Monday last_week in_April | on_Friday last_month in_June this_morning",
    "adverb": "almost never publicly | nearly secretly illegally",
    "assertion": "indeed actually certainly | truly undoubtedly unquestionably",     # no change
    "claim": "of_course in_fact | in_truth in_reality",
    "focus": "only even | only even",
    "treat": """thank praise follow help call visit admire ignore push trust interview see/saw/seen
        hear/heard/heard beat/beat/beaten forgive/forgave/forgiven teach/taught/taught | greet invite warn blame
        rescue insult punish envy/envied/envied hire defeat recognize shake/shook/shaken lead/led/led""",
    "chase": """chase follow scare see/saw/seen hear/heard/heard bite/bit/bitten |
        attack frighten lick sniff nudge""",
    "give": """give/gave/given send/sent/sent show/showed/shown offer sell/sold/sold |
        hand pass throw/threw/thrown bring/brought/brought mail""",
    "get": """buy/bought/bought sell/sold/sold find/found/found steal/stole/stolen choose/chose/chosen |
        order collect win/won/won photograph lose/lost/lost""",
    "work": """paint carry/carried/carried wash repair hide/hid/hidden |
        polish wrap/wrapped/wrapped pack draw/drew/drawn measure""",
    "act": "smiled laughed slept sang | danced cried yawned spoke",
    "stand": "stood lay | rested remained",
    "travel": "drove flew took_a_train booked_a_flight | traveled cycled caught_a_bus reserved_a_ticket",
    "errand": "wrote_a_letter read_a_story carried_a_message | delivered_a_package recited_a_poem",
    "come": "left came_home arrived | returned departed appeared",
    "cost": "cost | weighed",
    "unit": "dollars | pounds",
    "same action": """bought/purchased repaired/fixed chose/selected hid/concealed built/constructed
        demolished/destroyed | inspected/examined displayed/exhibited ordered/requested lifted/raised
        kept/retained discarded/dumped""",
    "same thing": """sofa/couch rug/carpet car/automobile gift/present bike/bicycle rock/stone |
        film/movie phone/telephone plane/airplane prize/award bucket/pail sack/bag""",
    "same human": """doctor/physician lawyer/attorney writer/author kid/child thief/robber |
        boy/lad infant/baby reporter/journalist enemy/foe woman/lady""",
    "same look": """big/large little/small expensive/costly cheap/inexpensive pretty/beautiful ugly/hideous |
        dirty/filthy clean/spotless fake/bogus genuine/authentic huge/enormous tiny/minuscule""",
    "same trait": """smart/clever stupid/foolish happy/glad sad/unhappy angry/mad |
        rich/wealthy poor/penniless sick/ill brave/courageous loyal/faithful""",
    "same measure": "bigger/larger costlier/pricier | dirtier/filthier odder/stranger",
    "same grade": "faster/quicker smarter/cleverer | richer/wealthier weaker/feebler",
    "same trade": "bought/from/purchased/from received/from/got/from | obtained/from/acquired/from",
    "opposite word": """big/little expensive/cheap pretty/ugly smart/stupid happy/sad built/demolished |
        dirty/clean fake/genuine huge/tiny rich/poor kept/discarded""",
    "opposite measure": """older/newer heavier/lighter bigger/smaller cheaper/costlier longer/shorter |
        wider/narrower thicker/thinner cleaner/dirtier harder/softer warmer/cooler""",
    "opposite grade": """taller/shorter faster/slower older/younger happier/sadder |
        stronger/weaker richer/poorer kinder/crueler calmer/wilder""",
    "opposite trade": """bought/from/sold/to borrowed/from/lent/to received/from/gave/to |
        inherited/from/bequeathed/to won/from/lost/to obtained/from/supplied/to""",
    "opposite part": "boss/employee parent/child landlord/tenant | host/guest mentor/pupil captor/prisoner",
    "opposite pole": "north/south | east/west",
    "opposite side": "behind/in_front_of above/below over/under | behind/in_front_of above/below over/under",
}
THINGS = ("furniture", "instrument", "garment", "tool", "container")

# A frame: what x and y are, wording 0, wording 1. Meaning 1 is meaning 0 with x and y exchanged. A slot is a
# table or one of SLOTS, filled once for all four sentences; {noun 2} is another noun. ("time", "claim") makes x
# a word of each and y two empty strings: what x says is then there or not.
FRAMES = {
    "roles": (                   # who did it to whom; harmless: "when" in front, gave y a hat = gave a hat to y
        ("event", "{x} {event.past} {y} {when}", "{when}, {x} {event.past} {y}"),
        ("people", "{x} {give.past} {y} {thing} {when}", "{x} {give.past} {thing} to {y} {when}"),
        ("unnamed", "{x} who {treat.past} {y} {act} {when}", "{when}, {x} who {treat.past} {y} {act}"),
        ("unnamed", "{x} who {y} {treat.past} {act} {when}", "{when}, {x} who {y} {treat.past} {act}")),
    "voice": (                   # the same, told in the active and in the passive, or in the passive twice
        ("event", "{x} {event.past} {y} {when}", "{y} {was} {event.participle} by {x} {when}"),
        ("event", "{x} will {event.base} {y} {where}", "{y} will be {event.participle} by {x} {where}"),
        ("event", "{x} {has} {event.participle} {y} {where}",
         "{y} {has} been {event.participle} by {x} {where}"),
        ("event", "{y} {was} {event.participle} by {x} {when}", "{when}, {y} {was} {event.participle} by {x}"),
        ("people", "{x} {give.past} the {noun} to {y}", "the {noun} was {give.participle} to {y} by {x}")),
    "prepositions": (            # which noun hangs on which preposition; harmless: the phrases in another order
        ("city", "{who} {travel} from {x} to {y} {time}", "{who} {travel} to {y} from {x} {time}"),
        ("city", "{who} {travel} from {x} to {y}", "from {x}, {who} {travel} to {y}"),
        ("thing", "{x} {stand} {opposite side[0]} {y}", "{opposite side[0]} {y} {stand} {x}"),
        ("thing", "{who} {get.past} {x} instead of {y}", "instead of {y}, {who} {get.past} {x}"),
        ("thing", "{who} {come} with {x} but without {y}", "{who} {come} without {y} but with {x}"),
        ("who", "{who} {errand} to {x} for {y}", "for {y}, {who} {errand} to {x}")),
    "numbers": (                 # how many of what; harmless: digits or words, two counts in another order
        ("number", "{who} {get.past} {x} {nouns} {when}", "{who} {get.past} {x:words} {nouns} {when}"),
        ("number", "{who} {get.past} {x} {nouns} {when}", "{when}, {who} {get.past} {x:words} {nouns}"),
        ("number", "{who} {get.past} {x} {nouns} and {y} {nouns 2}",
         "{who} {get.past} {y} {nouns 2} and {x} {nouns}"),
        ("number", "the {noun} {cost} {x} {unit} and the {noun 2} {cost} {y} {unit}",
         "the {noun 2} {cost} {y:words} {unit} and the {noun} {cost} {x:words} {unit}")),
    "synonyms": (                # x and y are rows of two synonyms, antonyms of each other or any two
        ("same action", "{who} {x[0]} {thing} {when}", "{who} {x[1]} {thing} {when}"),
        ("same action", "{who} {x[0]} {thing} {when}", "{when}, {who} {x[1]} {thing}"),
        ("same thing", "{who} {get.past} the {x[0]} {when}", "{when}, {who} {get.past} the {x[1]}"),
        ("same human", "the {x[0]} {treat.past} {who} {when}", "the {x[1]} {treat.past} {who} {when}"),
        ("same human", "{who} {treat.past} the {x[0]} {when}", "{when}, {who} {treat.past} the {x[1]}"),
        ("same look", "{who} {get.past} the {x[0]} {noun} {when}", "{who} {get.past} the {x[1]} {noun} {when}"),
        ("same look", "the {noun} in the {place} was {x[0]}", "the {noun} in the {place} was {x[1]}"),
        ("same trait", "the {x[0]} {person} {treat.past} {who}", "the {x[1]} {person} {treat.past} {who}"),
        ("same trait", "the {person} from {city} was {x[0]}", "the {person} from {city} was {x[1]}")),
    "antonyms": (                # told from the other end; synonyms, lest a new word mean the other end
        ("thing", "{x} was {opposite measure[0]} than {y}", "{y} was {opposite measure[1]} than {x}"),
        ("thing", "{x} was {same measure[0]} than {y}", "{x} was {same measure[1]} than {y}"),
        ("people", "{x} {was} {opposite grade[0]} than {y}", "{y} {was} {opposite grade[1]} than {x}"),
        ("people", "{x} {was} {same grade[0]} than {y}", "{x} {was} {same grade[1]} than {y}"),
        ("who", "{x} {opposite trade[0]} {thing} {opposite trade[1]} {y}",
         "{y} {opposite trade[2]} {thing} {opposite trade[3]} {x}"),
        ("who", "{x} {same trade[0]} {thing} {same trade[1]} {y}",
         "{x} {same trade[2]} {thing} {same trade[3]} {y}"),
        ("who", "{x} was the {opposite part[0]} of {y}", "{y} was the {opposite part[1]} of {x}"),
        ("thing", "{x} was {opposite side[0]} {y}", "{y} was {opposite side[1]} {x}"),
        ("place", "the {x} was {opposite pole[0]} of the {y}", "the {y} was {opposite pole[1]} of the {x}"),
        ("people", "{x} {act} before {y} {when}", "{y} {act} after {x} {when}")),
    "modifiers": (               # dropped: one that matters, or an assertion; exchanged; "only" moved
        (("adjective", "assertion"), "{who} {x[1]} {get.past} the {x[0]} {noun} {where}",
         "{who} {y[1]} {get.past} the {x[0]} {noun} {where}"),
        (("manner", "assertion"), "{who} {x[1]} {work.past} {thing} {x[0]}",
         "{who} {y[1]} {work.past} {thing} {x[0]}"),
        (("adverb", "assertion"), "{x[1]} {who} {x[0]} {get.past} {thing}",
         "{y[1]} {who} {x[0]} {get.past} {thing}"),
        (("time", "claim"), "{x[1]} {who} {get.past} {thing} {x[0]}", "{y[1]} {who} {get.past} {thing} {x[0]}"),
        (("focus",), "{x[0]} {who} {treat.past} {y[0]} {who 2} {when}",
         "{when}, {x[0]} {who} {treat.past} {y[0]} {who 2}"),
        ("mood", "the {x} {person} {treat.past} the {y} {person 2}",
         "the {y} {person 2} was {treat.participle} by the {x} {person}"),
        ("mood", "the {x} {person} {treat.past} the {y} {person 2} {when}",
         "{when}, the {x} {person} {treat.past} the {y} {person 2}"),
        ("adjective", "the {x} {noun} {stand} behind the {y} {noun 2}",
         "behind the {y} {noun 2} {stand} the {x} {noun}")),
}
SLOTS = {      # slots that are more than one entry of one table
    "who": lambda w: w.draw("name") if w.rng.random() < 0.3 else w.phrase(w.draw("person"), "mood"),
    "people": lambda w: w.several("person") if w.many else w.fill("who"),      # both or neither: verbs agree
    "unnamed": lambda w: w.several("person") if w.many else w.phrase(w.draw("person"), "mood"),
    "animals": lambda w: w.several("animal") if w.many else w.phrase(w.draw("animal"), "mood"),
    "was": lambda w: "were" if w.many else "was",
    "has": lambda w: "have" if w.many else "has",
    "noun": lambda w: w.draw(*THINGS),
    "nouns": lambda w: w.several(*THINGS).removeprefix("the "),
    "thing": lambda w: w.phrase(w.draw(*THINGS), "color", "quality"),
    "adjective": lambda w: w.draw("color", "quality"),
    "where": lambda w: f"{w.rng.choice(('in', 'near'))} the {w.draw('place')}",
    "when": lambda w: w.rng.choice((w.draw("time"), w.draw("time"), "yesterday", w["where"], w["where"])),
}
TOY_SPLITS = {"train": 0, "dev": 0, "dev_unseen": 1, "test": 0, "test_unseen": 1}     # -> side of the bar above


class Verb(NamedTuple):
    """The three forms that frames write as {v.base}, {v.past}, {v.participle}."""
    base: str
    past: str
    participle: str


class Number(int):
    """A number from 2 to 99 that a slot {x} writes in digits and {x:words} in words."""

    def __format__(self, spec):
        if spec != "words":
            return str(self)
        ones = ("_ one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
                "sixteen seventeen eighteen nineteen").split()
        tens = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
        if self < 20:
            return ones[self]
        return tens[self // 10] + (f"-{ones[self % 10]}" if self % 10 else "")


def read_entry(table, text):
    """One entry of VOCABULARY: a word, a Verb where the table holds verbs, or a tuple of words."""
    words = tuple(text.replace("_", " ").split("/"))
    if table in VERBS:
        regular = words[0] + ("d" if words[0].endswith("e") else "ed")
        return Verb(*words) if len(words) == 3 else Verb(words[0], regular, regular)
    return words if len(words) > 1 else words[0]


WORDS = {table: tuple(tuple(read_entry(table, text) for text in side.split()) for side in sides.split("|"))
         for table, sides in VOCABULARY.items()}           # table -> (seen, unseen)
UNSEEN_NUMBERS = [n for n in range(21, 100) if n % 10 and (n // 10 + n % 10) % 3 == 0]   # their parts are seen
WORDS["number"] = (tuple(Number(n) for n in range(2, 100) if n not in UNSEEN_NUMBERS),
                   tuple(Number(n) for n in UNSEEN_NUMBERS))


def read_lexicon():
    """LEXICON out of the word tables; antonyms are closed under synonymy."""
    rows = {kind: [(row[0], row[len(row) // 2]) for table in WORDS if table.startswith(kind)
                   for side in WORDS[table] for row in side] for kind in ("same", "opposite")}
    alike = {word: sorted({word}.union(*(row for row in rows["same"] if word in row)))
             for row in rows["opposite"] for word in row}
    antonyms = [pair for x, y in rows["opposite"] for pair in itertools.product(alike[x], alike[y])]
    classes = {name: sum(WORDS[name], ()) for name in ("person", "animal", "city", "place", "color", *THINGS)}
    return {"synonym": tuple(dict.fromkeys(rows["same"])), "antonym": tuple(dict.fromkeys(antonyms)),
            "hypernym": tuple((word, name) for name, words in classes.items() for word in words),
            "cohyponym": tuple(pair for words in classes.values() for pair in itertools.combinations(words, 2))}


# What is true of words in the toy world: relation -> pairs, verbs in the past and nouns in the singular.
# hypernym is (specific, general), the others are symmetric; antonym includes converses (bought, sold).
LEXICON = read_lexicon()
OPPOSITES = frozenset(map(frozenset, LEXICON["antonym"]))


class World(dict):
    """The slots of one square, filled when first asked for with words of one side, no word drawn twice."""

    def __init__(self, rng, side):
        self.rng, self.side, self.used, self.many = rng, side, set(), rng.random() < 0.2

    def __missing__(self, slot):
        self[slot] = self.fill(slot.removesuffix(" 2"))
        return self[slot]

    def fill(self, kind):
        return SLOTS[kind](self) if kind in SLOTS else self.draw(kind)

    def draw(self, *tables):
        """An unused entry of the tables; a row of two in random order."""
        entry = self.rng.choice([entry for table in tables for entry in WORDS[table][self.side]
                                 if entry not in self.used])
        self.used.add(entry)
        return self.rng.sample(entry, 2) if isinstance(entry, tuple) and len(entry) == 2 else entry

    def phrase(self, noun, *adjectives):
        """An article, in three of ten cases an adjective, and the noun."""
        words = [self.draw(*adjectives), noun] if self.rng.random() < 0.3 else [noun]
        article = "the" if self.rng.random() < 0.7 else "an" if words[0][0] in "aeiou" else "a"
        return " ".join([article, *words])

    def several(self, *tables):
        """A noun of the tables in the plural, with "the"."""
        noun = self.draw(*tables)
        return f"the {noun}es" if noun.endswith(("x", "sh", "ch")) else f"the {noun}s"

    def exchanged(self, kind):
        """x and y of a frame. Half the rows and numbers are close: antonyms, or numbers that share a digit."""
        if isinstance(kind, tuple):
            return [self.fill(table) for table in kind], [""] * len(kind)
        if kind == "event":
            verbs, kind = self.rng.choice((("treat", "people"), ("treat", "people"), ("chase", "animals")))
            self["event"] = self.draw(verbs)
        x, y = self.fill(kind), self.fill(kind)
        near = [z for z in WORDS[kind][self.side] if close(x, z)] if kind in WORDS else []
        return x, self.rng.choice(near) if near and self.rng.random() < 0.5 else y


def close(x, y):
    """Numbers that share a digit, or words that are opposites."""
    if isinstance(x, Number):
        return x != y and bool(set(str(x)) & set(str(y)))
    return not isinstance(x, str) and frozenset((x[0], y[0])) in OPPOSITES


def draw_square(phenomenon, world, taken):
    """Two meanings in two wordings: four new sentences of 5 to 14 words, or None if the draw gave others."""
    kind, *wordings = world.rng.choice(FRAMES[phenomenon])
    x, y = world.exchanged(kind)
    square = []
    for world["x"], world["y"] in ((x, y), (y, x)):
        texts = [" ".join(wording.format_map(world).split()) for wording in wordings]
        square.append([text[0].upper() + text[1:] + "." for text in texts])
    texts = sum(square, [])
    if len(set(texts)) < 4 or not taken.isdisjoint(texts) or any(not 5 <= len(t.split()) <= 14 for t in texts):
        return None
    taken.update(texts)
    return square


def toy_task(seed=0, train=800, held_out=120):
    """The generated diagnostic. -> (Task, dict split -> list of Pair): train, dev and test with the same words,
    dev_unseen and test_unseen with nouns, names, verbs, adjectives and lexical pairs that training never shows.

    train, held_out: pairs per phenomenon in train and in each other split, multiples of 4; half have label 1.
    No sentence occurs in two squares, so none in two splits. The same seed gives the same pairs."""
    for name, size in (("train", train), ("held_out", held_out)):
        if size < 4 or size % 4:
            raise ValueError(f"toy_task: {name} must be a positive multiple of 4 (per phenomenon), got {size}")
    taken, splits = set(), {}
    for split, side in TOY_SPLITS.items():
        rng, squares = random.Random(f"{seed} {split}"), []
        for group in FRAMES:
            goal, misses = len(squares) + (train if split == "train" else held_out) // 4, 0
            while len(squares) < goal:
                square = draw_square(group, World(rng, side), taken)
                misses = 0 if square else misses + 1
                if misses > 1000:
                    raise ValueError(f"toy_task: no {goal} squares of {group} left for {split}; ask for fewer")
                flip = rng.choice((1, -1))
                squares += [[Pair(*(square[m][0], square[n][1])[::flip], int(m == n), group)
                             for m in (0, 1) for n in (0, 1)]] if square else []
        rng.shuffle(squares)                         # so that the first pairs are a fair sample
        splits[split] = [pair for square in squares for pair in square]
    return Task("toy", ("different", "same"), ("accuracy",), block=4), splits


# ------------------------------------------------------------------------------------------ robustness

# The tests of DABERT's Table 3 and the knowledge paper's Table 3, which ran TextFlint (T. Gui et al., 2021). Names and
# ideas are TextFlint's. Definitions, sentences, word lists and code are ours: do not compare numbers with the papers'.

class Word(NamedTuple):
    """A word of a parsed text, its place, universal tag and relation. A tag is "" where words share one place."""
    start: int
    end: int
    text: str
    tag: str
    relation: str


class Given:
    """What a transformation may look at besides the texts of one pair."""

    def __init__(self, parses, wordnet, translations):
        self.parses, self.translations, self.known = parses, translations, {}
        self.thesaurus = wordnet and Thesaurus(wordnet)

    def words(self, text):
        """The Words of a text."""
        if text not in self.known:
            parse = self.parses[text]
            spans = [tuple(span) for span in parse.spans.tolist()]
            shared = {span for span, count in Counter(spans).items() if count > 1}      # du = de + le
            self.known[text] = [Word(*span, parse.text[slice(*span)], "" if span in shared else tag, relation)
                                for span, tag, relation in zip(spans, parse.tags, parse.relations)]
        return self.known[text]

    @functools.cached_property
    def names(self):
        """The names of the data set: dict name_kind -> sorted names; and the set of those that "in" stands before."""
        found = [name for text in self.parses for name in find_names(self.words(text), text)]
        kinds, places = {}, {name.text for name, before in found if before.lower() == "in"}
        for name in sorted({name.text for name, _ in found}):
            kinds.setdefault(name_kind(name, places), []).append(name)
        return kinds, places


def each(edit):
    """Makes of edit(text, rng, given, ...) -> text a function that edits every text of a list."""
    @functools.wraps(edit)
    def edit_all(texts, rng, given, **options):
        return [edit(text, rng, given, **options) for text in texts]
    return edit_all


def put(text, word, new):
    """The text with `new` in the place of a Word, its first letter in the case that was there."""
    new = new[:1].upper() + new[1:] if word.text[:1].isupper() else new
    return text[:word.start] + new + text[word.end:]


def put_any(text, options, rng):
    """The text with one of options in its place, each (a Word, list of what may stand there); unchanged without any."""
    word, found = rng.choice(options) if options else (None, [])
    return put(text, word, rng.choice(found)) if options else text


def agrees(before, word):
    """May `word` stand behind this one? Behind a and an not where spelling leaves its sound open (hour, unit, FBI).

    >>> [agrees("a", "good"), agrees("an", "good"), agrees("an", "18"), agrees("a", "unit"), agrees("the", "unit")]
    [True, False, True, False, True]
    """
    if before.lower() not in ("a", "an"):
        return True
    if not re.match("[0-9]", word) and (re.match(r"[hu]|eu|onc?e\b|[^a-z]", word.lower()) or word.isupper()):
        return False
    return bool(re.match("[aeio]|8|1[18](?![0-9])", word.lower())) == (before.lower() == "an")


# A word for another, out of WordNet.
POS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
ENDINGS = {"n": ("", "s"), "v": ("", "s", "ed", "ing"), "a": ("", "er", "est"), "r": ("",)}
# No pair is made of these: verbs whose past or participle looks like their base; words that need others around them,
# or mean their first sense in no news (minister: a clergyman).
LEFT_ALONE = FUNCTION_WORDS | frozenset("""
    beat become bet bid burst cast come cost cut fit forecast hit hurt let overcome put quit read rid run set shed shut
    slit split spread thrust upset wed wet ever first never other percent percentage same second well
    chief composite group intelligence key minister person""".split())
COMMON = 3            # SemCor, the sample that WordNet was tagged on, must have a word so often in a sense


class Thesaurus:
    """Synonyms and antonyms of words in the form they have in a sentence, out of nltk's WordNet.

    Assumes: a word means its first sense, the most frequent. Synonyms share the first sense of both, which makes up 4/5
        of what SemCor has of either; adverbs end in -ly, no noun in s. Antonyms are direct ones. Both must be COMMON.
        Inflection: bases, ENDINGS where regular, and irregular forms where WordNet has one for that ending (wives,
        stopped, bigger). The rest is left alone (rose and risen, told, more beautiful, found of find and found).
    """

    def __init__(self, wordnet):
        self.wordnet, self.known = wordnet, {}
        self.irregular = {pos: {} for pos in ENDINGS}               # pos -> base -> forms
        for pos, irregular in self.irregular.items():
            for form, bases in wordnet._exception_map[pos].items():
                for base in bases:
                    irregular.setdefault(base, []).append(form)

    def find(self, word, tag, antonyms):
        """Antonyms, or else synonyms, of a lower-case word with a universal tag; sorted, mostly []."""
        key = word, tag, antonyms
        if key not in self.known:
            pos = POS.get(tag)
            base, ending = self.analyse(word, pos) if pos else (None, "")
            found = self.antonyms(base, pos) if base and antonyms else self.synonyms(base, pos) if base else []
            self.known[key] = sorted({self.inflect(other, ending, pos) for other in found} - {None, word})
        return self.known[key]

    def antonyms(self, base, pos):
        """Antonyms of a base."""
        lemmas = self.wordnet.synset(f"{base}.{pos}.01").lemmas()
        found = [other for lemma in lemmas if lemma.name() == base for other in lemma.antonyms()]
        return [other.name() for other in found if plain(other.name()) and other.count() >= COMMON]

    def synonyms(self, base, pos):
        """Synonyms of a base."""
        sense = self.wordnet.synset(f"{base}.{pos}.01")
        found = [name for name in sense.lemma_names() if plain(name) and name != base and (
                 base[-2:] == name[-2:] == "ly" if pos == "r" else pos != "n" or name[-1] != "s")]
        return [name for name in found if all(self.means(word, pos, sense) for word in (base, name))]

    def means(self, base, pos, sense):
        """Is this the first sense of the base, COMMON, and 4/5 of its uses?"""
        synsets = [s for s in self.wordnet.synsets(base, pos) if base in s.lemma_names()]
        count, *others = [sum(lemma.count() for lemma in s.lemmas() if lemma.name() == base) for s in synsets] or [0]
        return count >= max(COMMON, 4 * sum(others)) and synsets[0] == sense

    def expression(self, *words):
        """Are the words an expression of WordNet's, such as prime minister?"""
        return all(words) and bool(self.wordnet.synsets("_".join(words).lower()))

    def analyse(self, word, pos):
        """(base, ending) of a word, (None, "") where that is not certain."""
        bases = self.wordnet._morphy(word, pos)
        bases = [word] if word in bases and pos in "ar" else bases
        found = [(base, ending) for base in bases for ending in ENDINGS[pos] if self.inflect(base, ending, pos) == word]
        return found[0] if len(bases) == len(found) == 1 and bases[0] not in LEFT_ALONE else (None, "")

    def inflect(self, base, ending, pos):
        """The base with an ending, or None where it may be irregular."""
        if not ending:
            return base
        irregular = self.irregular[pos].get(base, [])
        found = [form for form in irregular if pos == "n" or ending != "s" and form.endswith(ending)]
        if found:
            return found[0] if len(found) == 1 else None
        if (irregular and ending == "ed" or re.search("[^aeiou]o$", base) and ending == "s"
                or pos == "a" and len(re.findall("[aeiouy]+", base.removesuffix("e"))) > 1):
            return None
        if ending == "s" and re.search("(wo|[^aiou])man$", base):   # no humen
            return base[:-2] + "en"
        if ending == "s":
            return re.sub("(?<![aeiou])y$", "ie", base) + ("es" if re.search("(s|x|z|ch|sh)$", base) else "s")
        if ending == "ing":
            return re.sub("ie$", "y", re.sub("(?<![eoyi])e$", "", base)) + ending
        return re.sub("(?<![aeiou])y$", "i", base).removesuffix("e") + ending


def plain(name):
    """Is a lemma of WordNet one word, no name, no abbreviation, and not LEFT_ALONE?"""
    return bool(re.fullmatch("[a-z]*[aeiou][a-z]*", name)) and name not in LEFT_ALONE


@each
def swap_word(text, rng, given, antonyms):
    """A word becomes its antonym, or else a synonym; no name, no part of an expression, none that is there already."""
    words, find = given.words(text), given.thesaurus
    options, present = [], {word.text.lower() for word in words}
    for before, word, after in zip(["", *(w.text for w in words)], words, [*(w.text for w in words[1:]), ""]):
        lower = word.text.islower() or not before and word.text.istitle() and not after[:1].isupper()
        if lower and word.relation.partition(":")[0] not in ("fixed", "flat", "compound"):
            found = find.find(word.text.lower(), word.tag, antonyms)
            found = [new for new in found if new not in present and agrees(before, new)]
            if found and not find.expression(before, word.text) and not find.expression(word.text, after):
                options.append((word, found))
    return put_any(text, options, rng)


# Numbers and names.
NUMBERS = {f"{Number(n):words}": n for n in range(2, 100)}
# Behind one of these another number may be true as well: at least three people are at least two.
BOUNDS = frozenset("as least most than over under above below beyond up minimum maximum exceed exceeds exceeded "
                   "exceeding between".split())


@each
def change_number(text, rng, given):
    """A number becomes another; none up to three words behind one of BOUNDS, or right before "or" (two or more).
    Assumes: counts and dates are exact; "two men left" is false where three did."""
    words, options = given.words(text), []
    present = {word.text.lower() for word in words}
    for i, word in enumerate(words):
        before = [other.text.lower() for other in words[max(0, i - 3):i]]
        if word.tag == "NUM" and BOUNDS.isdisjoint(before) and [other.text for other in words[i + 1:i + 2]] != ["or"]:
            found = [n for n in other_numbers(word.text) if n not in present and agrees((before or [""])[-1], n)]
            options += [(word, found)] if found else []
    return put_any(text, options, rng)


def other_numbers(word):
    """Numbers like a number word or a number in digits, none below 2; [] for any other word, and for one (that is also
    a pronoun, and what it counts stands in the singular).

    >>> other_numbers("2001")[:3], other_numbers("4.50")[:3], other_numbers("Thirty")[:3], other_numbers("1")
    (['2000', '2002', '2003'], ['2.50', '3.50', '5.50'], ['twenty', 'forty', 'fifty'], [])
    """
    if n := NUMBERS.get(word.lower()):
        found = [f"{Number(other):words}" for other in (range(2, 13) if n < 20 else range(20, 100, 10))]
    elif word == "1" or not re.fullmatch(r"0\.[0-9]+|[1-9][0-9]{0,2}((,[0-9]{3})+|[0-9]*)(\.[0-9]+)?", word):
        found = []
    elif re.fullmatch("(1[5-9]|20)[0-9][0-9]", word):               # like a year
        found = [word[:3] + digit for digit in "0123456789"]
    elif len(word) < 3 and int(word) < 32:                          # like a day of a month
        found = [str(n) for n in range(2, 29)]
    else:
        found = [digit + word[1:] for digit in "23456789"]
    return [other for other in found if other != word.lower()]


CALENDAR = re.compile(r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(January|February|March|April|May|June|July|August|"
                      r"September|October|November|December)|(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.")


def name_kind(name, places):
    """What names have in common that may replace each other: days, months, or: a place or not, how many words, which of
    them acronyms (FBI), which with a full stop (Inc.)."""
    if found := CALENDAR.match(name):
        return found.lastindex, name.count(" ")
    return name in places, *((len(word) > 1 and word.isupper(), word[-1] == ".") for word in name.split(" "))


def find_names(words, text):
    """Runs of words tagged PROPN, parted by one space. -> list of (a Word for the whole run, the word before or "")
    Left out: hyphens and digits, and what may be half a name, beside a capital letter, "&" or "of"."""
    runs = [[Word(0, 0, "", "", "")]]
    for word in words:
        joins = word.tag == runs[-1][-1].tag == "PROPN" and text[runs[-1][-1].end:word.start] == " "
        runs[-1:] = [[*runs[-1], word]] if joins else [runs[-1], [word]]
    names = []
    for (*_, before), run, (after, *_) in zip(runs, runs[1:], [*runs[2:], runs[0]]):
        half = (before.text[:1].isupper() and before.text.lower() not in FUNCTION_WORDS or after.text[:1].isupper()
                or "&" in (before.text, after.text) or after.text == "of")
        proper = all(re.fullmatch(r"[^\W\d_](['’&.]?[^\W\d_])*\.?", word.text) and word.text[0].isupper()
                     for word in run)
        if run[0].tag == "PROPN" and proper and not half:
            start, end = run[0].start, run[-1].end
            names.append((Word(start, end, text[start:end], "PROPN", ""), before.text))
    return names


def swap_name(texts, rng, given):
    """A name in both texts becomes another, in every place; no part of it stands elsewhere (Iraq in Iraqi).
    Assumes: a run of words tagged PROPN is a name; the label hangs on nothing that is known of its bearer. TextFlint
    renames in each sentence by itself; what becomes of the label then is not known."""
    names = [find_names(given.words(text), text) for text in texts]
    (kinds, places), whole, options = given.names, " ".join(texts).lower(), []
    for name in sorted(set.intersection(*({name.text for name, _ in found} for found in names))):
        here = [[(word, before) for word, before in found if word.text == name] for found in names]
        rest = " ".join(put_all(text, found, "") for text, found in zip(texts, here)).lower()
        found = [new for new in kinds[name_kind(name, places)]
                 if not any(part in whole for part in new.lower().split())
                 and all(agrees(before, new) for side in here for _, before in side)]
        if found and not any(part in rest for part in name.lower().split()):
            options.append((here, found))
    if not options:
        return texts
    here, found = rng.choice(options)
    new = rng.choice(found)
    return [put_all(text, found, new) for text, found in zip(texts, here)]


def put_all(text, names, new):
    """The text with `new` in the place of each name of `find_names`."""
    for name, _ in reversed(names):
        text = text[:name.start] + new + text[name.end:]
    return text


# Something beside what is said.
ADVERBS = "actually", "indeed", "in fact", "certainly", "truly", "surely"         # true of whatever is true
NEGATIONS = frozenset("no not n't never none nobody nothing neither nor without hardly barely".split())
CLAUSES = "root", "ccomp", "conj", "advcl", "acl:relcl", "parataxis"              # relations of verbs with subjects
# True whatever is true: what follows from a text follows from it and one of these, and nothing else does.
TRUISMS = ("What is done is done.", "A rule is a rule.", "Things are what they are.", "Whatever happens happens.",
           "Those who know know.", "Either it is so or it is not.")
IRRELEVANT = ("The soup was still too hot to eat.", "Nobody had watered the ferns since spring.",
              "My aunt keeps her buttons in a biscuit tin.", "The choir rehearsed until the lamps went out.",
              "A snail crossed the garden path after the rain.", "Her left glove was under the piano all along.",
              "The lighthouse keeper whistled while he peeled potatoes.", "Our kite got stuck in a chestnut tree.")
MARKS = ("", "!!"), ("", " ..."), ("", " --"), ("... ", ""), ("-- ", ""), ("(", ")"), ("* ", " *")
TWITTER = dict(pair.split("=") for pair in """
    you=u your=ur are=r and=& with=w/ without=w/o because=bc people=ppl please=pls before=b4 great=gr8 tomorrow=tmrw
    tonight=2nite about=abt government=govt though=tho although=altho through=thru thanks=thx really=rly something=smth
    someone=some1 everyone=every1 probably=prolly later=l8r between=btwn would=wld could=cld should=shd months=mths
    weeks=wks years=yrs minutes=mins friends=frnds message=msg picture=pic pictures=pix love=luv what=wut says=sez
    """.split())


@each
def insert_adverb(text, rng, given):
    """One of ADVERBS stands before the verb of a clause; not behind a negation, whose scope it would change."""
    words, options = given.words(text), []
    for before, word in zip(words, words[1:]):
        if before.text.lower() in NEGATIONS:
            break
        if (word.tag == "VERB" and word.relation in CLAUSES and word.text.islower()
                and before.tag in ("NOUN", "PROPN", "PRON", "AUX", "ADV", "CCONJ", "PUNCT")
                and text[before.end:word.start] == " "):
            options.append(word.start)
    adverbs = [adverb for adverb in ADVERBS if adverb not in text.lower()]
    if not options or not adverbs:
        return text
    place = rng.choice(options)
    return f"{text[:place]}{rng.choice(adverbs)} {text[place:]}"


def around(text, before, after):
    """The text with something right before and behind it; what stands behind comes before any space at its end."""
    body = text.strip()
    return text.replace(body, f"{before}{body}{after}", 1) if body else text


def append(text, sentence):
    """The text, closed by a full stop if it is open, and a sentence behind it."""
    return around(text, "", ("" if re.search(r"""[.!?…"'’”)\]]\s*$""", text) else ".") + " " + sentence)


@each
def add_truism(text, rng, given):
    """One of TRUISMS stands behind it."""
    return append(text, rng.choice(TRUISMS))


def append_irrelevant(texts, rng, given):
    """One of IRRELEVANT stands behind every text, the same: how alike they are otherwise decides, as before."""
    used = set(re.findall(r"\w{4,}", " ".join(texts).lower()))
    found = [new for new in IRRELEVANT if used.isdisjoint(re.findall(r"\w{4,}", new.lower()))]
    if not found or not all(text.strip() for text in texts):
        return texts
    new = rng.choice(found)
    return [append(text, new) for text in texts]


@each
def add_punctuation(text, rng, given):
    """Some of MARKS stand around it."""
    return around(text, *rng.choice(MARKS))


@each
def spell_as_on_twitter(text, rng, given):
    """Words are spelled as in TWITTER: all in lower case, and the first."""
    for found in reversed(list(re.finditer(r"(?<![\w'’@#./&-])\w+(?![\w'’/&-])", text))):
        word = Word(*found.span(), found[0], "", "")
        if found[0].lower() in TWITTER and (found[0].islower() or found[0].istitle() and not text[:word.start].strip()):
            text = put(text, word, TWITTER[found[0].lower()])
    return text


@each
def translate_back(text, rng, given):
    """What came back from another language, where that is more than other capitals and spaces."""
    new = given.translations.get(text, text)
    return text if new.casefold().split() in ([], text.casefold().split()) else new


def read_translations(path):
    """For BackTrans: dict sentence -> translation, of a .tsv or .csv file with the header sentence, translation."""
    return {row["sentence"]: row["translation"] for _, row in read_table(path, ("sentence", "translation"))}


class Transformation(NamedTuple):
    """function(texts, rng, given) -> texts. sides: the sentences that it edits, or "aa": a and the edited a become the
    pair. labels: kind of task (see `task_kind`) -> what becomes of the label; refused for another kind. needs: what
    `transform` must be given.

    KEEPS: the pair still says what it said, in other words or with something beside it. DENIES: the second sentence
    denies the first, whatever the original pair was; the label is the one that a task has for that.
    Assumes: an antonym denies. Not always: old antibiotics may fail as the new ones did. The two are no paraphrases and
    neither entails the other, so this is a doubt of tasks with the class contradiction."""
    function: object
    sides: str
    labels: dict
    needs: tuple = ()


KEEPS, DENIES = "keeps", "makes it a denial"
DENIALS = "contradiction", "not_entailment", "neutral", "different", "0"     # the label: the first that a task has
DENIED, KEPT = {"paraphrase": DENIES, "inference": DENIES}, {"paraphrase": KEEPS, "inference": KEEPS}
ALWAYS_KEPT = KEPT | {"other": KEEPS}
TRANSFORMATIONS = {
    "SwapAnt": Transformation(functools.partial(swap_word, antonyms=True), "aa", DENIED, ("parse", "lexicon")),
    "NumWord": Transformation(change_number, "aa", DENIED, ("parse",)),
    "AddSent": Transformation(add_truism, "a", {"inference": KEEPS}),
    "InsertAdv": Transformation(insert_adverb, "ab", ALWAYS_KEPT, ("parse",)),
    "AppendIrr": Transformation(append_irrelevant, "ab", KEPT),
    "AddPunc": Transformation(add_punctuation, "ab", ALWAYS_KEPT),
    "BackTrans": Transformation(translate_back, "ab", ALWAYS_KEPT, ("file",)),
    "TwitterType": Transformation(spell_as_on_twitter, "ab", ALWAYS_KEPT),
    "SwapNamedEnt": Transformation(swap_name, "ab", ALWAYS_KEPT, ("parse",)),
    "SwapSyn": Transformation(functools.partial(swap_word, antonyms=False), "b", ALWAYS_KEPT,
                              ("parse", "lexicon")),
}


def task_kind(task):
    """"inference" or "paraphrase", by the names of the classes; "other" for scores, for qnli, whose pairs are question
    and answer, and for other names in the user's own files. Assumes: of classes 0 and 1, 1 is for paraphrases."""
    names = {label.casefold() for label in task.labels}
    if names & {"entailment", "entails"} and names & set(DENIALS) and task.name != "qnli":
        return "inference"
    return "paraphrase" if names in ({"0", "1"}, {"different", "same"}) else "other"


def label_rule(name, task):
    """What a transformation does to the labels of a task: "keeps", "makes it contradiction" (or whatever the class is
    called), "" where it is refused."""
    rule = TRANSFORMATIONS[name].labels.get(task_kind(task), "")
    names = {label.casefold(): label for label in task.labels}
    return f"makes it {next(names[denial] for denial in DENIALS if denial in names)}" if rule == DENIES else rule


def transform(name, task, pairs, seed=0, parses=None, lexicon=None, translations=None):
    """Pairs changed by one of TRANSFORMATIONS. -> list of (index of the original in pairs, new Pair), in order, only of
    pairs that did change and whose new label is known: no unlabelled ones where the label is kept.

    parses: dict text -> priors.Parse of the whole data set; names are taken from there. lexicon: a priors.WordNet.
    translations: dict text -> text. What becomes of a pair depends on the seed, its own texts, and for names on the
    texts in parses; never on the other pairs.
    Raises ValueError for an unknown name, for one refused for this task, and when something needed is not given."""
    if name not in TRANSFORMATIONS:
        raise ValueError(f"transform: no {name!r}; expected one of {', '.join(TRANSFORMATIONS)}")
    function, sides, _, needs = TRANSFORMATIONS[name]
    rule = label_rule(name, task)
    if not rule:
        possible = ", ".join(other for other in TRANSFORMATIONS if label_rule(other, task))
        raise ValueError(f"transform: {name} says nothing of the labels of {task.name}; possible are {possible}")
    wordnet = getattr(lexicon, "wordnet", None)
    for need, value, argument in (("parse", parses, "parses, dict text -> priors.Parse"),
                                  ("lexicon", wordnet, "lexicon, a priors.WordNet"),
                                  ("file", translations, "translations, see read_translations")):
        if need in needs and value is None:
            raise ValueError(f"transform: {name} needs {argument}")
    lacking = {getattr(pair, side) for pair in pairs for side in sides} - set(parses or ())
    if lacking and "parse" in needs:
        raise ValueError(f"transform: parses lacks {len(lacking)} texts of the pairs, such as {min(lacking)!r}")
    given, changed = Given(parses, wordnet if "lexicon" in needs else None, translations), []
    for index, pair in enumerate(pairs):
        old = [getattr(pair, side) for side in dict.fromkeys(sides)]
        new = function(old, random.Random(f"{seed} {name} {pair.a!r} {pair.b!r}"), given)
        a, b = {"a": [*new, pair.b], "b": [pair.a, *new], "ab": new, "aa": [*old, *new]}[sides]
        label = pair.label if rule == KEEPS else task.labels.index(rule.removeprefix("makes it "))
        if new != old and (a, b) != (pair.a, pair.b) and label is not None:
            changed.append((index, replace(pair, a=a, b=b, label=label)))
    return changed
