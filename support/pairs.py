"""Pairs on their way in and out: cut, described, labelled."""
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from support.checkpoints import join_names, shorten
from support.machine import main_process
from support.options import refuse
from support.own import own_task
from support.tables import parse_label
from support.task import Pair, Task
from support.tasks import load_task


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
    if settings.task == "own":
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
