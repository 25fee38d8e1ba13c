"""Where pairs come from: published data sets, the toy world, the user's own files.

Sources: W. Dolan and C. Brockett, "Automatically Constructing a Corpus of Sentential Paraphrases",
2005 (MRPC); A. Wang et al., "GLUE", 2018 (MRPC's dev split, RTE, QQP, MNLI, QNLI, the metrics);
D. Cer et al., "SemEval-2017 Task 1", 2017 (STS-B); S. Bowman et al., 2015 (SNLI); M. Marelli et
al., 2014 (SICK); T. Khot et al., 2018 (SciTail); W. Lan et al., 2017 (Twitter-URL); Y. Zhang et
al., 2019 (PAWS); H. Yanaka et al., 2019 (MED).

Left out: data sets of single sentences; GLUE's server, whose `index` is a pair's place in a test
split without labels.
"""
import functools
import json
import math
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from reprlib import repr as shorten

from support.errors import join_names, refuse
from support.files import download, write_whole
from support.machine import print_once
from support.pairs import Pair, Task, hold_out, is_number, likely_positive, limit_pairs
from support.tables import SENTENCES, read_pairs, read_rows, split_rows


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
    of_dev = {tuple(fields) for _, fields in split_rows(folder / "mrpc_dev_ids.tsv")}
    ids = [(row["#1 ID"], row["#2 ID"]) for _, row in rows]
    lacking = of_dev.difference(ids)
    refuse(lacking, f"{folder}: expected all {len(of_dev)} pairs of mrpc_dev_ids.tsv in "
           f"msr_paraphrase_train.txt, {len(lacking)} are not there; get both files again")
    return ["dev" if pair in of_dev else "train" for pair in ids]


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
        unfilled = [name for name in ("test", "dev") if sizes[name] < len(rows) / 10]
        split = unfilled[0] if unfilled else "train"
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
    block: int = 1                       # see Task
    sizes: tuple = ()                    # pairs of each split, after the cut; docs/data.md, too


GLUE = "https://dl.fbaipublicfiles.com/glue/data"
SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
STSB = "https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/main/data"
ALLEN = "http://data.allenai.org.s3.amazonaws.com"     # its certificate does not fit this name
TABLES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
INFERENCE = ("entailment", "neutral", "contradiction")
SICK_SPLITS = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}
VOTES = ("0", "0", "0", None, "1", "1", "1")           # [n]: label if n of six saw a paraphrase
TOY = Path(__file__).resolve().parent.parent / "assets" / "toy"
SOURCES = {
    "toy": Source(
        splits={split: f"{split}.tsv"
                for split in ("train", "dev", "dev_unseen", "test", "test_unseen")},
        labels=("different", "same"), block=4),
    "mrpc": Source(
        files={f"{SENTEVAL}/msr_paraphrase_train.txt": "60a9b09084528f06",
               f"{SENTEVAL}/msr_paraphrase_test.txt": "a04e271090879aab",
               f"{GLUE}/mrpc_dev_ids.tsv": "971d7767d81b997f"},
        splits={"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        columns=("#1 String", "#2 String", "Quality"), labels=("0", "1"),
        metrics=("accuracy", "f1"), cut=cut_by_ids,
        sizes=(3668, 408, 1725)),
    "rte": Source(
        files={f"{GLUE}/RTE.zip": "6bf86de103ecd335"}, splits=TABLES, unlabelled=("test",),
        labels=("not_entailment", "entailment"),
        sizes=(2490, 277, 3000)),
    "qqp": Source(
        files={f"{GLUE}/QQP-clean.zip": "40e7c862c04eb26e"}, splits=TABLES, unlabelled=("test",),
        columns=("question1", "question2", "is_duplicate"), labels=("0", "1"),
        metrics=("accuracy", "f1"), mend=mend_qqp,
        sizes=(363_846, 40_430, 390_965)),
    "stsb": Source(
        files={f"{STSB}/stsb-en-train.csv": "e1e84fec60bbb598",
               f"{STSB}/stsb-en-dev.csv": "d29586e96558c4eb",
               f"{STSB}/stsb-en-test.csv": "11523b625219e94e"},
        splits={split: f"stsb-en-{split}.csv" for split in TABLES},
        columns=(0, 1, 2), labels=(), metrics=("pearson", "spearman"),
        sizes=(5749, 1500, 1379)),
    "mnli": Source(
        files={f"{GLUE}/MNLI.zip": "e7c1d896d26ed6ca"},
        splits={split: f"{split}.tsv" for split in (
            "train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")},
        columns=("sentence1", "sentence2", "gold_label"), labels=INFERENCE, spelled={"-": None},
        selection="dev_matched", unlabelled=("test_matched", "test_mismatched"),
        sizes=(392_702, 9815, 9832, 9796, 9847)),
    "qnli": Source(
        files={f"{GLUE}/QNLIv2.zip": "e634e78627a29ada"}, splits=TABLES, unlabelled=("test",),
        columns=("question", "sentence", "label"), labels=("entailment", "not_entailment"),
        sizes=(104_743, 5463, 5463)),
    "snli": Source(
        files={"https://nlp.stanford.edu/projects/snli/snli_1.0.zip": "afb3d70a5af5d8de"},
        splits={split: f"snli_1.0_{split}.jsonl" for split in TABLES},
        columns=(0, 1, 2), labels=INFERENCE, spelled={"-": None}, mend=mend_snli,
        sizes=(549_367, 9842, 9824)),
    "sick": Source(
        files={"https://zenodo.org/record/2787612/files/SICK.zip?download=1": "da272af924399fc2"},
        splits={"train": "SICK.txt"}, columns=("sentence_A", "sentence_B", "entailment_label"),
        labels=("NEUTRAL", "ENTAILMENT", "CONTRADICTION"),
        cut=lambda rows, _: [SICK_SPLITS[row["SemEval_set"]] for _, row in rows],
        sizes=(4439, 495, 4906)),
    "scitail": Source(
        files={f"{ALLEN}/downloads/SciTailV1.1.zip": "3fccd37350a94ca2"},
        splits={split: f"scitail_1.0_{split}.tsv" for split in TABLES},
        columns=(0, 1, 2), labels=("neutral", "entails"),
        sizes=(23_596, 1304, 2126)),
    "twitterurl": Source(
        splits={split: f"Twitter_URL_Corpus_{split}.txt" for split in ("train", "test")},
        columns=(0, 1, 2), labels=("0", "1"), metrics=("f1", "accuracy"),
        spelled={f"({n},{gap}6)": label for n, label in enumerate(VOTES) for gap in ("", " ")},
        mend=lambda fields: fields[:3], cut=cut_by_draw,
        sizes=(40_090, 2110, 9334)),
    "paws": Source(splits=TABLES, labels=("0", "1"), sizes=(7000, 1000, 8000)),
    "med": Source(splits={"train": "MED.tsv"}, columns=("sentence1", "sentence2", "gold_label"),
                  labels=("entailment", "neutral"), cut=cut_by_sentence, sizes=(4299, 541, 542)),
}


def load_task(name: str, data_dir: str | Path) -> tuple[Task, dict]:
    """A task by its name. The files lie in `<data_dir>/<name>/`, or are downloaded to that folder;
    those of toy ship.

    Returns: (Task, dict split -> list of Pair), pairs in the order of the files.
    """
    refuse(name not in SOURCES, f"task {name}: expected {', '.join(SOURCES)}")
    folder, source = TOY if name == "toy" else Path(data_dir) / name, SOURCES[name]
    fetch_tables(source, folder)
    splits = {split: [] for split in (TABLES if source.cut else source.splits)}
    for split, file in source.splits.items():
        labelled = split not in source.unlabelled
        columns = source.columns[:2 + labelled]
        rows = [*read_rows(folder / file, columns, source.labels, labelled, source.spelled,
                           source.mend)]
        cut = source.cut(rows, folder) if source.cut and split == "train" else [split] * len(rows)
        for part, (pair, row) in zip(cut, rows):
            splits[part].append(replace(pair, group=row["group"]) if name == "toy" else pair)
    lacking = [split for split, pairs in splits.items() if not pairs]
    refuse(lacking, f"{folder}: no pairs for {', '.join(lacking)}; get the files again")
    sizes = [*map(len, splits.values())]
    less = [f"{split} has {size:,} of {known:,} pairs"
            for split, size, known in zip(splits, sizes, source.sizes) if size < known]
    if less:
        tell(f"{folder}: {'; '.join(less)}: if these are not cuts of your own, get the files again")
    return Task(name, source.labels, source.metrics, source.selection, source.block), splits


tell = functools.cache(print_once)  # a data set is loaded several times in a process


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


def own_task(train_file, dev_file, test_file=None, columns=(), positive="", scores=None):
    """(Task, dict split -> list of Pair) of the user's own files.

    The classes are the labels of the training file, sorted. scores: are the labels scores? None:
    yes if a label is a number with a fraction, or if there are numbers alone, more than 10 of them.
    Metrics of classes: accuracy, and F1 of the class `positive`, by default the likely one of two.
    """
    texts = [pair.label for pair in read_pairs(train_file, columns=columns)]
    names = tuple(sorted(set(texts)))
    if scores is None:
        odd = [name for name in names if not is_number(name)]
        looks = all(re.fullmatch(r"-?\d+([.,]\d+)?%?", name) for name in names)
        refuse(odd and looks, f"{train_file}: labels such as {join_names(odd, 3)} look like scores:"
               " write 0.5 for 0,5 or 50%; or --no-scores, if they are names of classes")
        numbers = [float(name) for name in names if is_number(name)]
        scores = len(names) == len(numbers) > 10 or any(number % 1 for number in numbers)
    refuse(not scores and not 2 <= len(names) <= max(10, len(texts) / 2), f"{train_file}: expected "
           f"two classes or more, found {len(names)} different labels of {len(texts)} pairs, such "
           f"as {shorten(names[0])}; name the columns by --columns")
    labels, metrics = ((), ("pearson", "spearman")) if scores else (names, ("accuracy",))
    refuse(positive and positive not in labels, f"--positive {shorten(positive)}: expected one of "
           f"the classes, {join_names(labels) if labels else 'but labels are scores'}")
    if len(labels) == 2:
        positive = positive or likely_positive(labels)
    if positive:
        metrics += ("f1",)
    task = Task("own", labels, metrics, positive=positive,
                columns=tuple(name.strip() for name in columns) or SENTENCES)
    files = {"train": train_file, "dev": dev_file, "test": test_file}
    return task, {split: read_pairs(file, labels, columns=columns)
                  for split, file in files.items() if file}


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
    if settings.held_out and (limited or task.selection not in splits):
        splits = hold_out(task, splits, settings.held_out, settings.seed)
    if limited and settings.limit:
        splits = limit_pairs(task, splits, settings.limit, settings.seed)
    seen = {pair.label for pair in splits["train"]}
    for i, label in enumerate(task.labels):  # the first pairs of a sorted file have one label
        refuse(i not in seen, f"--limit, --held-out: no training pair of class {label} is left; "
               f"take more, or a share as --limit, such as 0.1, which is drawn")
    return task, splits


def load_test_splits(settings):
    """dict name -> list of Pair of all test splits. Raises ValueError if they have no labels."""
    task, splits = load_pairs(settings, limited=False)
    splits = {name: pairs for name, pairs in splits.items() if name.startswith("test")}
    refuse(not splits or any(pair.label is None for pairs in splits.values() for pair in pairs),
           f"test: {task.name} has no labelled test split; name it by --test-file, or --predict it")
    return splits
