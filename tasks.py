"""What models are trained and tested on: published data sets, the user's own files, and a generated toy world.

A task is a set of sentence pairs, each with a class ("do the two mean the same?") or a score.
- `load_task("mrpc", data_dir)`: a published data set, declared as one row of `SOURCES`.
- `own_task(train_file, dev_file)`: the user's tsv or csv files with the header sentence1, sentence2, label.
- `load_task("toy", data_dir)`: a generated diagnostic that needs no network. It is no sample of real English.

Sources: W. Dolan and C. Brockett, "Automatically Constructing a Corpus of Sentential Paraphrases", 2005 (MRPC);
A. Wang et al., "GLUE", 2018 (MRPC's dev split, the metrics); DAFA Table 7 (the cases the toy world multiplies).

How the toy world is balanced. An item is a square of four sentences, two meanings in two wordings:

              wording 0                 wording 1
  meaning 0   The cat chased the dog.   The dog was chased by the cat.    the two rows are pairs with label 1,
  meaning 1   The dog chased the cat.   The cat was chased by the dog.    the two diagonals pairs with label 0

Each sentence stands in one pair of either label, so no sentence by itself tells anything; a score that adds up
what a says and what b says has the same sum over both labels; and frames are built so that word overlap and
lengths are those of the other label in every square. What is left to learn is how a and b relate. From pairs in
a random order a small untrained encoder learns nothing in a minute: what differs between the labels drowns in what
differs between sentences. So the four pairs of a square stand in a row and are trained on in one batch.

Left out: data sets beyond MRPC (they are further rows of `SOURCES`).
"""

import csv
import difflib
import io
import itertools
import math
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

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

def read_text(path):
    """The text of a UTF-8 file without its byte order mark. Raises ValueError naming file and line."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    if b"\0" in data:
        raise ValueError(f"{path}:{data[:data.index(0)].count(10) + 1}: a NUL byte; expected UTF-8 text, found "
                         f"UTF-16 or a binary file; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[:error.start].count(10) + 1
        raise ValueError(f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8 (Latin-1?); "
                         f"save the file as UTF-8") from None


def split_rows(path, text, quoted):
    """Fields of each line that is not blank: comma-separated and quoted (RFC 4180), or tab-separated without
    quoting. -> list of (line number, list of str); of a field with line breaks, the first line counts."""
    if not quoted:                       # not splitlines(): U+2028 and its like are text here
        lines = (line.removesuffix("\r") for line in text.split("\n"))
        return [(i, line.split("\t")) for i, line in enumerate(lines, 1) if line.strip(" ")]
    rows, reader, line = [], csv.reader(io.StringIO(text, newline=""), strict=True), 1
    try:
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():
                rows.append((line, fields))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{line}: not valid csv ({error}); a field with a comma, quote or line break "
                         f"needs double quotes around it, and each quote inside doubled") from None
    return rows


def read_table(path, columns, optional=(), quoted=False):
    """The named columns of a file with a header line, in any order; further columns are ignored.
    -> list of (where = "file:line", dict column -> stripped text, None for an absent optional column).
    Raises ValueError for a header without the columns, a row of another length, and a file without rows."""
    rows = split_rows(path, read_text(path), quoted)
    needed, mark = ", ".join(columns), "commas" if quoted else "tabs"
    if not rows:
        raise ValueError(f"{path} is empty; expected a header line with the columns {needed}")
    (line, header), *rows = rows
    header = [name.strip() for name in header]
    if any(header.count(name) != 1 for name in columns if name not in optional or name in header):
        raise ValueError(f"{path}:{line}: the header must name each of {needed} once (parted by {mark}), "
                         f"found {', '.join(header)}")
    if not rows:
        raise ValueError(f"{path} has a header and no pairs; expected one pair a line below it")
    for line, fields in rows:
        if len(fields) != len(header):
            raise ValueError(f"{path}:{line}: expected {len(header)} fields parted by {mark}, like the header, "
                             f"found {len(fields)}")
    at = {name: header.index(name) if name in header else None for name in columns}
    return [(f"{path}:{line}", {name: fields[i].strip() if i is not None else None for name, i in at.items()})
            for line, fields in rows]


def parse_label(text, labels, where):
    """Index of a label among the names `labels`; its value as a score if they are (); the text if None."""
    if labels is None:
        return text
    if labels and text in labels:
        return labels.index(text)
    if labels:
        known = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
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
    rows = read_table(path, ("sentence1", "sentence2", "label"), optional, quoted=suffix == ".csv")
    return [Pair(row["sentence1"], row["sentence2"],
                 parse_label(row["label"], labels, where) if row["label"] or need_label else None)
            for where, row in rows]


def class_names(path, values, kind=None):
    """Names of the classes, sorted (numbers by value), or () if the values are scores: numbers, more than 10
    different ones or any that is no integer. kind: "classes" or "regression" decides instead of this rule."""
    if kind not in (None, "classes", "regression"):
        raise ValueError(f"own_task: kind must be classes, regression or None, got {kind!r}")
    distinct = sorted(set(values))
    numeric = all(is_number(value) for value in distinct)
    few = numeric and len(distinct) <= 10 and all(float(value).is_integer() for value in distinct)
    if kind == "regression" or (kind is None and numeric and not few):
        return ()
    if len(distinct) < 2:
        raise ValueError(f"{path}: every label is {distinct[0]!r}; expected at least two different ones")
    return tuple(sorted(distinct, key=float) if numeric else distinct)


def own_task(train_file, dev_file, test_file=None, kind=None):
    """A task of the user's own files, labels from the training file. -> (Task, dict split -> list of Pair)
    Metrics: accuracy and F1 of the second of two classes, accuracy of more, Pearson and Spearman of scores."""
    labels = class_names(train_file, [pair.label for pair in read_pairs(train_file)], kind)
    files = {"train": train_file, "dev": dev_file} | ({"test": test_file} if test_file else {})
    splits = {split: read_pairs(path, labels) for split, path in files.items()}
    metrics = ("accuracy", "f1")[:1 + (len(labels) == 2)] if labels else ("pearson", "spearman")
    return Task("own", labels, metrics), splits


# ------------------------------------------------------------------------------------------- data sets

class File(NamedTuple):
    """A published file; size in bytes and sha256 are checked after a download."""
    name: str
    url: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """One published data set: its files and how they are read. columns: of sentence a, sentence b, label.
    hold_out: (split, from split, file of id pairs, two id columns): rows with these ids become that split."""
    files: tuple[File, ...]
    splits: dict[str, str]
    columns: tuple[str, str, str]
    labels: tuple[str, ...]              # as written in the files, in index order
    metrics: tuple[str, ...]
    hold_out: tuple[str, str, str, str, str] | None = None
    quoted: bool = False                 # comma-separated with quotes, instead of tabs without


SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
SOURCES = {
    "mrpc": Source(
        files=(File("msr_paraphrase_train.txt", f"{SENTEVAL}/msr_paraphrase_train.txt", 1047044,
                    "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"),
               File("msr_paraphrase_test.txt", f"{SENTEVAL}/msr_paraphrase_test.txt", 441275,
                    "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"),
               File("mrpc_dev_ids.tsv", "https://dl.fbaipublicfiles.com/glue/data/mrpc_dev_ids.tsv", 6222,
                    "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7")),
        splits={"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        columns=("#1 String", "#2 String", "Quality"), labels=("0", "1"), metrics=("accuracy", "f1"),
        hold_out=("dev", "train", "mrpc_dev_ids.tsv", "#1 ID", "#2 ID")),
}


def load_task(name, data_dir, download=None):
    """A task by name. -> (Task, dict split -> list of Pair).

    data_dir: the files of a task lie in `<data_dir>/<name>/`. download(url, path, size, sha256) fetches a
    missing one (train.py passes bert_min.download). Raises ValueError for an unknown name and for malformed
    files, FileNotFoundError for missing files when download is None."""
    if name == "toy":
        return toy_task()
    if name not in SOURCES:
        near = difflib.get_close_matches(name, ["toy", *SOURCES], 1)
        raise ValueError(f"--task {name}: no such task; expected one of toy, {', '.join(SOURCES)}"
                         + (f" (did you mean {near[0]}?)" if near else ""))
    source, folder = SOURCES[name], Path(data_dir) / name
    missing = [file for file in source.files if not (folder / file.name).exists()]
    if missing and download is None:
        raise FileNotFoundError(f"--task {name}: {folder} lacks {', '.join(file.name for file in missing)}; "
                                f"put there {', '.join(file.url for file in missing)}, or use --task toy")
    folder.mkdir(parents=True, exist_ok=True)
    for file in missing:
        download(file.url, folder / file.name, file.size, file.sha256)
    return Task(name, source.labels, source.metrics), read_source(source, folder)


def read_source(source, folder):
    """The splits of one data set from its files. -> dict split -> list of Pair"""
    a, b, label = source.columns
    hold_split, hold_from, ids_file, *id_columns = source.hold_out or (None,) * 3
    splits = {}
    for split, file in source.splits.items():
        extra = id_columns if split == hold_from else []
        rows = read_table(folder / file, (*source.columns, *extra), quoted=source.quoted)
        pairs = [Pair(row[a], row[b], parse_label(row[label], source.labels, where)) for where, row in rows]
        if not extra:
            splits[split] = pairs
            continue
        keys = [tuple(row[column] for column in id_columns) for _, row in rows]
        held = {tuple(ids) for _, ids in split_rows(folder / ids_file, read_text(folder / ids_file), False)}
        if lost := held - set(keys):
            raise ValueError(f"{folder / ids_file}: {len(lost)} of its {len(held)} id pairs are not in "
                             f"{folder / file}; one of the two is cut off or another edition: fetch both again")
        splits[split] = [pair for pair, key in zip(pairs, keys) if key not in held]
        splits[hold_split] = [pair for pair, key in zip(pairs, keys) if key in held]
    return splits


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
