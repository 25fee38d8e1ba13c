"""Pairs of sentences: where they come from, what a model predicts, how answers are scored.

Sources: W. Dolan and C. Brockett, "Automatically Constructing a Corpus of Sentential Paraphrases",
2005 (MRPC); A. Wang et al., "GLUE", 2018 (MRPC's dev split, RTE, QQP, MNLI, QNLI, the metrics);
D. Cer et al., "SemEval-2017 Task 1", 2017 (STS-B); S. Bowman et al., 2015 (SNLI); M. Marelli et
al., 2014 (SICK); T. Khot et al., 2018 (SciTail); W. Lan et al., 2017 (Twitter-URL); Y. Zhang et
al., 2019 (PAWS); H. Yanaka et al., 2019 (MED).

Left out: data sets of single sentences; GLUE's server, whose `index` is a pair's place in a test
split without labels.
"""
import csv
import io
import json
import math
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from reprlib import repr as shorten
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F

from support.checkpoints import expecting, join_names
from support.files import download, write_text, write_whole
from support.options import refuse

# Axes: N pairs, B batch, C classes, J judgements


@dataclass(frozen=True)
class Pair:
    """Two sentences and their label."""
    a: str
    b: str
    label: int | float | None = None     # index of a class, or a score; None if it is not known
    group: str = ""                      # the phenomenon, in the toy world


@dataclass(frozen=True)
class Task:
    """What a model predicts of a pair, and how the predictions are scored."""
    name: str
    labels: tuple[str, ...]              # names of the classes in index order; () for scores
    metrics: tuple[str, ...]             # the first, on the split `selection`, picks the best epoch
    selection: str = "dev"
    block: int = 1                       # this many training pairs in a row stay in one batch
    positive: str = ""                   # the class whose F1 is measured; "": class 1, as in GLUE
    columns: tuple[str, ...] = ()        # names of the user's columns of a, b and label

    @property
    def regression(self):
        """Does a model predict scores?"""
        return not self.labels


# ---- Metrics ------------------------------------------------------------------------------------

def metric_title(metric, positive):
    """The name under which a metric is printed, such as "f1 of class same"."""
    return f"f1 of class {positive}" if metric == "f1" and positive else metric


def accuracy(labels, predictions):
    """Share of predictions equal to the label. labels, predictions: arrays (N,) of classes."""
    return float(np.mean(labels == predictions))


def f1(labels, predictions):
    """F1 = 2 tp / (2 tp + fp + fn); 0.0 if all are False. labels, predictions: (N,) bool arrays."""
    positives = int(labels.sum() + predictions.sum())
    return 2 * int((labels & predictions).sum()) / positives if positives else 0.0


def pearson(labels, predictions):
    """Pearson's r = Σ x y / √(Σ x² Σ y²), x and y centred, in [-1, 1]; 0.0 if one is constant."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0                       # undefined: a constant prediction tells nothing
    return float(np.corrcoef(x, y)[0, 1])


def ranks(values):
    """Ranks 1..N; equal values share the mean of their ranks. values: (N,) -> (N,) float64."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]             # (N,)


def spearman(labels, predictions):
    """Spearman's ρ: Pearson's r of the ranks, ties averaged; 0.0 if one is constant."""
    return pearson(ranks(labels), ranks(predictions))


METRICS = {"accuracy": accuracy, "f1": f1, "pearson": pearson, "spearman": spearman}


def evaluate(task, labels, predictions):
    """The task's metrics, dict metric -> float. labels, predictions: (N,) class indices, or scores.

    Raises ValueError unless both are N >= 1 finite numbers.
    """
    labels, predictions = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    refuse(not labels.size or not np.isfinite([labels, predictions]).all(), "evaluate: expected "
           "pairs with labels, and finite numbers; a split without labels cannot be scored")
    positive = task.labels.index(task.positive) if task.positive else 1
    arguments = {"f1": (labels == positive, predictions == positive)}
    return {name: METRICS[name](*arguments.get(name, (labels, predictions)))
            for name in task.metrics}


# ---- Logits -------------------------------------------------------------------------------------

class Prediction(NamedTuple):
    """A model's answer to one pair."""
    answer: str | float          # the name of a class, or a score
    probabilities: dict | None   # class -> number; None for a score


def check_logits(logits, pairs, task):
    """Raises ValueError unless logits are (N, C), N = `pairs`: torch would broadcast others."""
    shape, expected = getattr(logits, "shape", None), (pairs, len(task.labels) or 1)
    refuse(shape != expected, f"a model returns {expected}, a row for each pair and a column for "
           f"each class; this model returned {tuple(shape or ()) or type(logits).__name__}")


def loss_sum(logits, labels, task, class_weights=None):
    """Cross-entropy, or squared error of scores, in float32, summed over the batch.

    Args: logits: (B, C), or (J, B, C) for J judgements of a model, whose losses add up.
        class_weights: (C,), the weight of a pair of each class; None: each weight is 1.
    """
    if logits.dim() == 3:
        return sum(loss_sum(judgement, labels, task, class_weights) for judgement in logits)
    check_logits(logits, len(labels), task)
    if task.regression:
        return F.mse_loss(logits.float()[:, 0], labels.float(), reduction="sum")
    return F.cross_entropy(logits.float(), labels, class_weights, reduction="sum")


def answers(logits, task):
    """The score, or the index of the class, for each row of logits (N, C). -> list"""
    return (logits[:, 0] if task.regression else logits.argmax(1)).tolist()


def predictions_of(logits, task):
    """A Prediction for each row of logits (N, C)."""
    if task.regression:
        return [Prediction(score, None) for score in logits[:, 0].tolist()]
    rows = [dict(zip(task.labels, row)) for row in logits.softmax(1).tolist()]
    return [Prediction(max(row, key=row.get), row) for row in rows]


# ---- Tables -------------------------------------------------------------------------------------

SENTENCES = "sentence1", "sentence2", "label"


def read_lines(path):
    """The lines of a UTF-8 file, with their ends. Only "\\n" ends a line: U+2028 is text."""
    with (open(path, encoding="utf-8-sig", newline="\n") as file,
          expecting(path, "plain text", "unpack the file, or save it as UTF-8")):
        yield from file


def is_csv(path):
    """Does the name end in .csv? Then the table has commas and quotes; else tabs, and no quotes."""
    return Path(path).suffix.lower() == ".csv"


def split_rows(path):
    """(number of the row's first line, its fields) for each row that is not blank."""
    form = {} if is_csv(path) else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader, line = csv.reader(read_lines(path), strict=True, **form), 1
    try:
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{line}: {error}; correct or restore it") from None


def read_table(path, columns, need_label=True, mend=list):
    """The rows of a table: an iterator of (where = "file:line", dict column -> text).

    columns: of a, b and label: names in the header line, or numbers from 0 if there is no header.
    need_label: if False, the label's column may be missing. mend: function of a row's fields.
    """
    rows, start, names = split_rows(path), 1, columns
    if isinstance(columns[0], str):
        start, header = next(rows, (1, []))
        names = [name.strip() for name in header]
        counts = [names.count(name) for name in columns]
        refuse(counts != [1] * len(columns) and (need_label or counts != [1, 1, 0]),
               f"{path}:{start}: expected columns {', '.join(columns)}, each once, separated by "
               f"{'commas' if is_csv(path) else 'tabs, without quotes'}, found {join_names(names)};"
               f" rename them, name those of your own file by --columns, or get the file again")
    for line, fields in rows:
        where = f"{path}:{line}"
        with expecting(where, f"{len(names)} fields, like line {start}", "correct or restore it"):
            fields = [text.strip() for text in mend(fields)]
            refuse(len(fields) != len(names), f"{len(fields)}")
            refuse(fields[1:] == names[1:], "the header again")  # a byte order mark may come first
        yield where, dict(zip(names, fields))


def pairs_of(table, columns, labels, need_label, spelled):
    """(Pair, dict column -> text) for each row of `read_table`. A sentence may be empty.

    labels: as for `parse_label`. spelled: as in Source.
    """
    for where, row in table:
        a, b, *label = (row.get(name, "") for name in columns)
        text = "".join(label)            # "" if the table has no labels
        text = spelled.get(text, text)
        if text is not None:
            value = parse_label(text, labels, where) if text or need_label else None
            yield Pair(a, b, value), row


def write_table(path, rows):
    """Writes rows of cells. In a table with tabs, a tab or a line end in a cell becomes a space."""
    text = io.StringIO(newline="")
    if is_csv(path):
        csv.writer(text).writerows(rows)  # lines end in "\r\n", so that it quotes a cell with "\r"
    else:
        for row in rows:
            print(*(re.sub(r"[\t\r\n]", " ", cell) for cell in row), sep="\t", file=text)
    write_text(path, text.getvalue())


def is_number(text):
    """Can the text be a score?"""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def parse_label(text, labels, where):
    """The value of a label's text: the index of its class, a score, or the text itself.

    labels: names of the classes; () for scores; None to keep the text.
    """
    if labels is None:
        refuse(text.lower() in ("", "nan"), f"{where}: the label is {text or 'empty'}; expected "
               f"the name of a class or a score")
        return text
    if labels:
        refuse(text not in labels, f"{where}: unknown label {shorten(text)}; expected one of "
               f"{join_names(labels, 12)}")
        return labels.index(text)
    refuse(not is_number(text), f"{where}: label {shorten(text)} is not a number such as 0.5; this "
           f"task predicts scores")
    return float(text)


# ---- Published data sets ------------------------------------------------------------------------

def mend_snli(fields):
    """A line of SNLI is a JSON object."""
    row = json.loads(fields[0])
    return row["sentence1"], row["sentence2"], row["gold_label"]


def mend_qqp(fields):
    """QQP writes a field as in csv, "Why ""A""?", only if the field has quotes in it."""
    return [text[1:-1].replace('""', '"') if re.fullmatch('"(?:[^"]|"")*"', text) else text
            for text in fields]


# A cut is a function: (rows of train's table, folder) -> the split of each row: train, dev or test.
# A row is (Pair, dict column -> text).

def cut_by_ids(rows, folder):
    """GLUE's dev split of MRPC has the rows whose two ids stand in a file."""
    ids = {tuple(fields) for _, fields in split_rows(folder / "mrpc_dev_ids.tsv")}
    return ["dev" if (row["#1 ID"], row["#2 ID"]) in ids else "train" for _, row in rows]


def cut_by_word(rows, _):
    """A column of SICK names the row's split."""
    words = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}
    return [words[row["SemEval_set"]] for _, row in rows]


def cut_by_draw(rows, _):
    """Twitter-URL has no dev split. Ours is 5 % of train, drawn by a fixed seed."""
    drawn = {*random.Random("dev").sample(range(len(rows)), math.ceil(0.05 * len(rows)))}
    return ["dev" if i in drawn else "train" for i in range(len(rows))]


def cut_by_sentence(rows, _):
    """MED has no splits. Ours take a tenth each for test and dev; no sentence is in two splits.

    The sentences of a pair stay in one group, so the groups are the connected components of the
    graph whose edges are the pairs. Shuffled by a fixed seed, they fill test, then dev, then train.
    """
    group_of, groups, sizes, splits = {}, {}, Counter(), {}
    for pair, _ in rows:                 # group_of: text -> list of the texts in its group
        one, other = (group_of.setdefault(text, [text]) for text in (pair.a, pair.b))
        if one is not other:
            one += other
            group_of.update(dict.fromkeys(other, one))
    for i, (pair, _) in enumerate(rows):
        groups.setdefault(group_of[pair.a][0], []).append(i)
    shuffled = sorted(groups.values())   # by their first row
    random.Random(0).shuffle(shuffled)
    for places in shuffled:
        split = next((name for name in ("test", "dev") if sizes[name] < len(rows) / 10), "train")
        sizes[split] += len(places)
        splits.update(dict.fromkeys(places, split))
    return [splits[i] for i in range(len(rows))]


@dataclass(frozen=True)
class Source:
    """One published data set: its files, how they are read, which metrics it has."""
    splits: dict[str, str]               # split -> its table; `cut` may make more splits of train's
    labels: tuple[str, ...]              # as written in the files, in index order; () for scores
    columns: tuple = SENTENCES           # of a, b, label: names, or numbers without a header
    metrics: tuple[str, ...] = ("accuracy",)
    files: dict[str, str] = field(default_factory=dict)     # to download: url -> start of sha256
    selection: str = "dev"
    unlabelled: tuple[str, ...] = ()     # splits whose labels were never published
    spelled: dict[str, str | None] = field(default_factory=dict)    # text -> label; None: no pair
    mend: Callable = list                # function: fields of a row as published -> fields to read
    cut: Callable | None = None          # function, see above


GLUE = "https://dl.fbaipublicfiles.com/glue/data"
SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
STSB = "https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/main/data"
ALLEN = "http://data.allenai.org.s3.amazonaws.com"     # its certificate does not fit this name
TABLES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
INFERENCE = ("entailment", "neutral", "contradiction")
VOTES = ("0", "0", "0", None, "1", "1", "1")           # [n]: label if n of six saw a paraphrase
SOURCES = {
    "mrpc": Source(
        files={f"{SENTEVAL}/msr_paraphrase_train.txt": "60a9b09084528f06",
               f"{SENTEVAL}/msr_paraphrase_test.txt": "a04e271090879aab",
               f"{GLUE}/mrpc_dev_ids.tsv": "971d7767d81b997f"},
        splits={"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        columns=("#1 String", "#2 String", "Quality"), labels=("0", "1"),
        metrics=("accuracy", "f1"), cut=cut_by_ids),
    "rte": Source(
        files={f"{GLUE}/RTE.zip": "6bf86de103ecd335"}, splits=TABLES, unlabelled=("test",),
        labels=("not_entailment", "entailment")),
    "qqp": Source(
        files={f"{GLUE}/QQP-clean.zip": "40e7c862c04eb26e"}, splits=TABLES, unlabelled=("test",),
        columns=("question1", "question2", "is_duplicate"), labels=("0", "1"),
        metrics=("accuracy", "f1"), mend=mend_qqp),
    "stsb": Source(
        files={f"{STSB}/stsb-en-train.csv": "e1e84fec60bbb598",
               f"{STSB}/stsb-en-dev.csv": "d29586e96558c4eb",
               f"{STSB}/stsb-en-test.csv": "11523b625219e94e"},
        splits={split: f"stsb-en-{split}.csv" for split in TABLES},
        columns=(0, 1, 2), labels=(), metrics=("pearson", "spearman")),
    "mnli": Source(
        files={f"{GLUE}/MNLI.zip": "e7c1d896d26ed6ca"},
        splits={split: f"{split}.tsv" for split in (
            "train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")},
        columns=("sentence1", "sentence2", "gold_label"), labels=INFERENCE, spelled={"-": None},
        selection="dev_matched", unlabelled=("test_matched", "test_mismatched")),
    "qnli": Source(
        files={f"{GLUE}/QNLIv2.zip": "e634e78627a29ada"}, splits=TABLES, unlabelled=("test",),
        columns=("question", "sentence", "label"), labels=("entailment", "not_entailment")),
    "snli": Source(
        files={"https://nlp.stanford.edu/projects/snli/snli_1.0.zip": "afb3d70a5af5d8de"},
        splits={split: f"snli_1.0_{split}.jsonl" for split in TABLES},
        columns=(0, 1, 2), labels=INFERENCE, spelled={"-": None}, mend=mend_snli),
    "sick": Source(
        files={"https://zenodo.org/record/2787612/files/SICK.zip?download=1": "da272af924399fc2"},
        splits={"train": "SICK.txt"}, columns=("sentence_A", "sentence_B", "entailment_label"),
        labels=("NEUTRAL", "ENTAILMENT", "CONTRADICTION"), cut=cut_by_word),
    "scitail": Source(
        files={f"{ALLEN}/downloads/SciTailV1.1.zip": "3fccd37350a94ca2"},
        splits={split: f"scitail_1.0_{split}.tsv" for split in TABLES},
        columns=(0, 1, 2), labels=("neutral", "entails")),
    "twitterurl": Source(
        splits={split: f"Twitter_URL_Corpus_{split}.txt" for split in ("train", "test")},
        columns=(0, 1, 2), labels=("0", "1"), metrics=("f1", "accuracy"),
        spelled={f"({n},{gap}6)": label for n, label in enumerate(VOTES) for gap in ("", " ")},
        mend=lambda fields: fields[:3], cut=cut_by_draw),
    "paws": Source(splits=TABLES, labels=("0", "1")),
    "med": Source(splits={"train": "MED.tsv"}, columns=("sentence1", "sentence2", "gold_label"),
                  labels=("entailment", "neutral"), cut=cut_by_sentence),
}


def load_task(name: str, data_dir: str | Path) -> tuple[Task, dict]:
    """A task by its name. The files lie in `<data_dir>/<name>/`, or are downloaded to that folder.

    Returns: (Task, dict split -> list of Pair), pairs in the order of the files.
    Raises: ValueError for malformed or missing files or a failed download.
    """
    if name == "toy":
        from support.toy import toy_task  # here, because support.toy imports this module
        return toy_task()
    folder, source = Path(data_dir) / name, SOURCES[name]
    fetch_tables(source, folder)
    splits = {split: [] for split in (TABLES if source.cut else source.splits)}
    for split, file in source.splits.items():
        labelled = split not in source.unlabelled
        columns = source.columns[:2 + labelled]
        table = read_table(folder / file, columns, mend=source.mend)
        rows = [*pairs_of(table, columns, source.labels, labelled, source.spelled)]
        cut = source.cut(rows, folder) if source.cut and split == "train" else [split] * len(rows)
        for part, (pair, _) in zip(cut, rows):
            splits[part].append(pair)
    lacking = [split for split, pairs in splits.items() if not pairs]
    refuse(lacking, f"{folder}: no pairs for {', '.join(lacking)}; a file is cut off or of another "
           f"edition: get it again")
    return Task(name, source.labels, source.metrics, source.selection), splits


def fetch_tables(source, folder):
    """Downloads and extracts the tables that the folder lacks; changes no table that is there."""
    files = {folder / PurePosixPath(url.partition("?")[0]).name: (url, sha256)
             for url, sha256 in source.files.items()}
    tables = {path.name for path in files if path.suffix != ".zip"} | {*source.splits.values()}
    lacking = [table for table in sorted(tables) if not (folder / table).exists()]
    remedy = f"put {', '.join(lacking)} into {folder} by hand (docs/data.md), or take --task toy"
    refuse(lacking and not files, f"{folder}: cannot be downloaded; {remedy}")
    for path, (url, sha256) in files.items() if lacking else ():
        if path.suffix == ".zip" or path.name in lacking:
            download(url, path, sha256, remedy)
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                for member in archive.namelist():
                    name = PurePosixPath(member).name  # in whatever folder of the archive
                    if name in lacking:
                        content = archive.read(member)
                        write_whole(folder / name, lambda file: file.write(content))
            path.unlink()


# ---- The user's own pairs -----------------------------------------------------------------------

def read_pairs(path, labels=None, need_label=True, columns=()):
    """The pairs of a user's .csv or .tsv file with a header.

    columns: names of the columns of a, b and label; (): SENTENCES. labels: as for `parse_label`.
    need_label: if False, a label, the column of labels and its name in `columns` may be missing.
    """
    columns = tuple(name.strip() for name in columns) or SENTENCES
    columns += SENTENCES[2:] * (len(columns) == 2 and not need_label)
    refuse(len({*columns}) != 3 or len(columns) != 3, f"--columns: expected three names, of both "
           f"sentences and the label, found {','.join(columns)}")
    table = read_table(path, columns, need_label)
    pairs = [pair for pair, _ in pairs_of(table, columns, labels, need_label, {})]
    refuse(not pairs, f"{path}: expected a header and a pair in each line below it, found no pair")
    return pairs


def own_task(train_file, dev_file, test_file=None, columns=(), positive="", scores=None):
    """A task of the user's own files. -> (Task, dict split -> list of Pair)

    The classes are the labels of the training file, sorted. scores: are the labels scores? None:
    yes if a label is a number with a fraction, or if there are numbers alone, more than 10 of them.
    Metrics of classes: accuracy, and F1 of the class `positive`, by default the second of two.
    """
    texts = [pair.label for pair in read_pairs(train_file, columns=columns)]
    names = tuple(sorted(set(texts)))
    if scores is None:
        numbers = [float(name) for name in names if is_number(name)]
        scores = len(names) == len(numbers) > 10 or any(number % 1 for number in numbers)
    refuse(not scores and not 2 <= len(names) <= max(10, len(texts) / 2), f"{train_file}: expected "
           f"two classes or more, and pairs of each, found {len(names)} different labels of "
           f"{len(texts)} pairs, such as {shorten(names[0])}; name the columns by --columns")
    labels, metrics = ((), ("pearson", "spearman")) if scores else (names, ("accuracy",))
    refuse(positive and positive not in labels, f"--positive {shorten(positive)}: expected one of "
           f"the classes, {join_names(labels) if labels else 'but labels are scores'}")
    if len(labels) == 2:
        positive = positive or labels[1]
    metrics += ("f1",) * bool(positive)
    task = Task("own", labels, metrics, positive=positive,
                columns=tuple(name.strip() for name in columns) or SENTENCES)
    files = {"train": train_file, "dev": dev_file, "test": test_file}
    return task, {split: read_pairs(file, labels, columns=columns)
                  for split, file in files.items() if file}


# ---- Pairs on their way in and out --------------------------------------------------------------

def as_pairs(task, given):
    """A list of Pair. given: Pairs, or tuples (a, b) or (a, b, label) with the name of a class or a
    score; or one Pair or one tuple. Raises ValueError for anything else.
    """
    pairs = []
    for one in [given] if isinstance(given, (Pair, tuple)) else given:
        parts = (one.a, one.b) if isinstance(one, Pair) else one
        sound = isinstance(parts, (tuple, list)) and len(parts) in (2, 3)
        refuse(not sound or not all(isinstance(text, str) for text in parts[:2]), f"expected pairs "
               f"of two texts, such as (a, b), each perhaps with a label, found {shorten(one)}")
        if not isinstance(one, Pair):
            a, b, label = (*one, None)[:3]
            if label is not None:
                label = parse_label(str(label), task.labels, "label")
            one = Pair(a, b, label)
        refuse(task.labels and one.label not in (None, *range(len(task.labels))),
               f"expected a label below {len(task.labels)}, found {shorten(one)}")
        pairs.append(one)
    return pairs


def load_pairs(settings, limited=True) -> tuple[Task, dict[str, list[Pair]]]:
    """(Task, dict split -> list of Pair) of Settings. limited: apply `held_out` and `limit`."""
    if settings.train_file:
        columns = settings.columns.split(",") if settings.columns else ()
        files = settings.train_file, settings.dev_file, settings.test_file
        task, splits = own_task(*files, columns, settings.positive or "", settings.scores)
    else:
        task, splits = load_task(settings.task, settings.data_dir)
    refuse(task.regression and settings.class_weights != "none",
           "--class-weights: scores have no classes; leave it out")
    if limited and settings.held_out:
        splits = hold_out(task, splits, settings.held_out, settings.seed)
    if limited and settings.limit:
        splits = limit_pairs(task, splits, settings.limit, settings.seed)
    seen = {pair.label for pair in splits["train"]}
    for i, label in enumerate(task.labels):  # the first pairs of a sorted file have one label
        refuse(i not in seen, f"--limit, --held-out: no training pair of class {label} is left; "
               f"take more, or a share as --limit, such as 0.1, which is drawn")
    return task, splits


def blocks_of(task, pairs):
    """The pairs as a list of blocks of `task.block` pairs, which stay together."""
    return [pairs[i:i + task.block] for i in range(0, len(pairs), task.block)]


def hold_out(task, splits, share, seed):
    """A share of train, drawn by the seed in blocks, takes the place of dev, which stays unread."""
    blocks = blocks_of(task, splits["train"])
    random.Random(seed).shuffle(blocks)
    count = min(max(1, round(share * len(blocks))), len(blocks) - 1)
    others = {name: pairs for name, pairs in splits.items() if not name.startswith("dev")}
    return others | {"train": [*chain(*blocks[count:])], task.selection: [*chain(*blocks[:count])]}


def limit_pairs(task, splits, limit, seed):
    """The first `limit` pairs of each split; if limit < 1, that share of train, drawn in blocks."""
    if limit >= 1:
        return {name: pairs[:int(limit)] for name, pairs in splits.items()}
    blocks = blocks_of(task, splits["train"])
    blocks = random.Random(seed).sample(blocks, max(1, round(limit * len(blocks))))
    return splits | {"train": [*chain(*blocks)]}


def load_test_splits(settings):
    """dict name -> list of Pair of all test splits. Raises ValueError if they have no labels."""
    task, splits = load_pairs(settings, limited=False)
    splits = {name: pairs for name, pairs in splits.items() if name.startswith("test")}
    refuse(not splits or any(pair.label is None for pairs in splits.values() for pair in pairs),
           f"test: {task.name} has no labelled test split; predict it instead")
    return splits


def seen_in_training(splits):
    """Names of the splits that training reads: train and dev, never test."""
    return [name for name in splits if name.startswith(("train", "dev"))]


def describe_labels(task, splits):
    """One line on the labels. It shows a wrong column, and how often a constant answer is right."""
    train, dev = ([pair.label for pair in splits[name]] for name in ("train", task.selection))
    seen = {(pair.a, pair.b) for pair in splits["train"]}
    twice = sum((pair.a, pair.b) in seen for pair in splits[task.selection])
    note = f"; {twice} pairs of {task.selection} are in train, too" if twice else ""
    if task.regression:
        return f"scores from {min(train):g} to {max(train):g}{note}"
    counts, share = Counter(train), 100 * max(Counter(dev).values()) / len(dev)
    classes = join_names([f"{label} ({counts[i]})" for i, label in enumerate(task.labels)], 20)
    return (f"classes {classes}; {task.selection}: {len(dev)} pairs, {share:.1f} % of one class"
            f"{note}")


def pair_rows(task, pairs):
    """A header and a row for each pair: both sentences, and the label if all pairs have one."""
    if any(pair.label is None for pair in pairs):
        return [[*SENTENCES[:2]], *([pair.a, pair.b] for pair in pairs)]
    labels = [f"{x.label:.4f}" if task.regression else task.labels[x.label] for x in pairs]
    return [[*SENTENCES], *([pair.a, pair.b, label] for pair, label in zip(pairs, labels))]


def add_predictions(task, rows, predictions):
    """Adds columns to rows with a header: the prediction, and the probability of each class."""
    more = [["prediction", *(f"p({label})" for label in task.labels)]]
    for answer, probabilities in predictions:
        cell = f"{answer:.4f}" if task.regression else answer
        more.append([cell, *(f"{p:.4f}" for p in (probabilities or {}).values())])
    return [row + cells for row, cells in zip(rows, more, strict=True)]
