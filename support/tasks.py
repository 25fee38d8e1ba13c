"""Tasks by name: published data sets, each declared in `SOURCES`, and the toy world.

Sources: W. Dolan and C. Brockett, "Automatically Constructing a Corpus of Sentential Paraphrases",
2005 (MRPC); A. Wang et al., "GLUE", 2018 (MRPC's dev split, RTE, QQP, MNLI, QNLI, the metrics);
D. Cer et al., "SemEval-2017 Task 1", 2017 (STS-B); S. Bowman et al., 2015 (SNLI); M. Marelli et
al., 2014 (SICK); T. Khot et al., 2018 (SciTail); W. Lan et al., 2017 (Twitter-URL).

Left out: data sets of single sentences, and GLUE's server (test splits without labels keep their
file order, which is the `index` it asks for).
"""
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from support.files import download, extract
from support.options import nearest, refuse
from support.tables import parse_label, read_objects, read_table, split_rows
from support.task import Pair, Task
from support.toy import toy_task


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
