"""Pairs on their way in and out: cut, described, labelled; files of predictions."""
import csv
import io
import random
from collections import Counter
from pathlib import Path

from support.files import write_whole
from support.tasks import Pair, parse_label


def as_pair(task, a, b, label=None):
    """A Pair of two texts; label: the name of a class, a score, or None. Raises ValueError for
    another one.
    """
    if label is not None:
        label = parse_label(str(label), task.labels, "label")
    return Pair(a, b, label)


def limit_pairs(task, splits, limit, seed):
    """The first `limit` pairs of each split; below 1 that share of train, drawn by the seed in
    blocks of the task.
    """
    if limit >= 1:
        return {name: pairs[:int(limit)] for name, pairs in splits.items()}
    train = splits["train"]
    blocks = [train[i:i + task.block] for i in range(0, len(train), task.block)]
    blocks = random.Random(seed).sample(blocks, max(1, round(limit * len(blocks))))
    return splits | {"train": [pair for block in blocks for pair in block]}


def labelled_test_splits(task, splits):
    """dict name -> list of Pair of all test splits. Raises ValueError where they have no labels."""
    splits = {name: pairs for name, pairs in splits.items() if name.startswith("test")}
    if not splits or any(pair.label is None for pairs in splits.values() for pair in pairs):
        raise ValueError(f"{task.name} has no labelled test split; predict it instead")
    return splits


def describe_labels(task, splits):
    """One line on what is to be told apart: a wrong column shows, and what a constant answer would
    score.
    """
    train, chosen = ([pair.label for pair in splits[name]] for name in ("train", task.selection))
    if task.regression:
        return f"scores from {min(train):g} to {max(train):g}"
    counts, share = Counter(train), 100 * max(Counter(chosen).values()) / len(chosen)
    classes = ", ".join(f"{label} ({counts[i]})" for i, label in enumerate(task.labels))
    return f"classes {classes}; {task.selection}: {len(chosen)} pairs, {share:.1f} % of one class"


def write_table(path, rows):
    """Rows of cells as .csv (commas) or anything else (tabs), quoted where a cell asks for it."""
    text = io.StringIO()
    mark = "," if Path(path).suffix.lower() == ".csv" else "\t"
    csv.writer(text, delimiter=mark, lineterminator="\n").writerows(rows)
    write_whole(path, lambda temporary: temporary.write_text(text.getvalue(), "utf-8", newline=""))


def prediction_rows(task, pairs, predictions):
    """The header and a row for each pair: both sentences, the label if all have one, answer,
    probabilities.
    """
    labelled = all(pair.label is not None for pair in pairs)
    header = ["sentence1", "sentence2", *["label"] * labelled, "prediction"]
    rows = [header + [f"p({label})" for label in task.labels]]
    for pair, found in zip(pairs, predictions, strict=True):
        row = [" ".join(pair.a.split()), " ".join(pair.b.split())]
        if labelled:
            row.append(f"{pair.label:.4f}" if task.regression else task.labels[pair.label])
        row.append(f"{found.answer:.4f}" if task.regression else found.answer)
        rows.append(row + [f"{p:.4f}" for p in (found.probabilities or {}).values()])
    return rows


def glue_rows(task, predictions):
    """GLUE's submission: a number and a label a line."""
    rows = [["index", "prediction"]]
    for i, found in enumerate(predictions):
        rows.append([str(i), f"{found.answer:.3f}" if task.regression else found.answer])
    return rows
