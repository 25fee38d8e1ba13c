"""The user's own files: a .tsv or .csv with a header that names two sentences and a label.

What is wrong with one is a ValueError that names file and line.
"""
import re
import shlex
from collections import Counter
from pathlib import Path

from support.checkpoints import join_names, shorten
from support.options import refuse
from support.tables import (is_number, is_odd_number, normalized_label, parse_label, read_table,
                            split_own)
from support.task import Pair, Task
from support.tasks import SOURCES

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
