"""Pairs of sentences, what a model predicts of them, and how the answers are scored."""
import math
import random
import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from reprlib import repr as shorten
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F

from support.errors import join_names, refuse

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


def metric_title(metric, positive):
    """The name under which a metric is printed, such as "f1 of class same"."""
    return f"f1 of class {positive}" if metric == "f1" and positive else metric.replace("_", " ")


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
    """Ranks 1..N, (N,) float64; equal values share the mean of their ranks. values: (N,)."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]             # (N,)


def spearman(labels, predictions):
    """Spearman's ρ: Pearson's r of the ranks, ties averaged; 0.0 if one is constant."""
    return pearson(ranks(labels), ranks(predictions))


def evaluate(task, labels, predictions):
    """The task's metrics, dict metric -> float. labels, predictions: (N,) classes, or scores."""
    labels, predictions = (np.asarray(values, dtype=np.float64) for values in (labels, predictions))
    if task.regression:
        metrics = {"pearson": pearson(labels, predictions),
                   "spearman": spearman(labels, predictions)}
    else:
        positive = task.labels.index(task.positive) if task.positive else 1
        metrics = {"accuracy": float(np.mean(labels == predictions)),
                   "f1": f1(labels == positive, predictions == positive)}
    return {name: metrics[name] for name in task.metrics}


def ranking(task, labels, logits):
    """How the probability of the class whose F1 is measured sorts pairs. Returns: dict of average
    precision and ROC AUC, as scikit-learn computes them; dict of the class, its best F1, and the
    probability from which on to answer it for this F1. Both are empty unless there are two classes,
    and pairs of both. labels: (N,). logits: (N, C).
    """
    if len(task.labels) != 2 or len({*labels}) != 2:
        return {}, {}
    name = task.positive or task.labels[1]
    positive = task.labels.index(name)
    values, place = np.unique(-logits.double().softmax(1)[:, positive].numpy(), return_inverse=True)
    reached = np.bincount(place).cumsum()  # at least so probable; then, rightly so
    right = np.bincount(place, np.array(labels) == positive).cumsum()
    above, wrong = np.diff(right, prepend=0), reached - right
    area = np.diff(wrong, prepend=0) @ (right - above / 2)  # equal probabilities count half
    f1s = 2 * right / (reached + right[-1])
    return {"average_precision": float(above @ (right / reached) / right[-1]),
            "roc_auc": float(area / (wrong[-1] * right[-1]))}, {
            "class": name, "f1": float(f1s.max()), "threshold": float(-values[f1s.argmax()])}


class Prediction(NamedTuple):
    """A model's answer to one pair."""
    answer: str | float          # the name of a class, or a score
    probabilities: dict | None   # class -> number; None for a score


def check_logits(logits, pairs, task):
    """Raises ValueError unless logits are (N, C), N = `pairs`: torch would broadcast others."""
    shape, expected = getattr(logits, "shape", None), (pairs, len(task.labels) or 1)
    refuse(shape != expected, f"a model returns {expected}, (pairs, classes); this model returned "
           f"{tuple(shape or ()) or type(logits).__name__}")


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


def score_logits(task, labels, logits):
    """(metrics, what two classes are sorted by among them, dict name -> float; the best threshold
    as `ranking` returns it) of labelled pairs. labels: (N,). logits: (N, C).
    """
    answers = logits[:, 0] if task.regression else logits.argmax(1)
    sorted_by, threshold = ranking(task, labels, logits)
    return evaluate(task, labels, answers.tolist()) | sorted_by, threshold


def predictions_of(logits, task):
    """A Prediction for each row of logits (N, C)."""
    if task.regression:
        return [Prediction(score, None) for score in logits[:, 0].tolist()]
    rows = [dict(zip(task.labels, row)) for row in logits.softmax(1).tolist()]
    return [Prediction(max(row, key=row.get), row) for row in rows]


SAYS_NO = re.compile("(no|not)(?![a-z])|non|un|dis|differ|false|neg|0$")


def likely_positive(labels):
    """Of two classes the one whose F1 is likely meant: the one that does not say no, or the second.

    >>> [likely_positive(labels) for labels in (("duplicate", "not duplicate"), ("0", "1"),
    ...                                         ("same", "unrelated"), ("a", "b"))]
    ['duplicate', '1', 'same', 'b']
    """
    first, second = labels
    only_second_says_no = SAYS_NO.match(second.lower()) and not SAYS_NO.match(first.lower())
    return first if only_second_says_no else second


def is_number(text):
    """Can the text be a score?"""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def parse_label(text, labels, where, cure=""):
    """The value of a label's text: the index of its class, a score, or the text itself.

    labels: names of the classes; () for scores; None to keep the text. cure: what to do.
    """
    if labels is None:
        refuse(text.lower() in ("", "nan"), f"{where}: the label is {text or 'empty'}")
        return text
    start = f"{where}: label {shorten(text)}: expected"
    if labels:
        refuse(text not in labels, f"{start} one of {join_names(labels, 12)}{cure}")
        return labels.index(text)
    refuse(not is_number(text), f"{start} a number such as 0.5{cure}")
    return float(text)


def as_pairs(task, given, labelled=False):
    """A list of Pair. given: Pairs, or tuples (a, b) or (a, b, label) with the name of a class or a
    score; or one Pair or one tuple of texts. labelled: each must have a label.
    """
    pairs = []
    alone = isinstance(given, Pair) or isinstance(given, tuple) and any(
        isinstance(part, str) for part in given)
    for number, one in enumerate([given] if alone else given, 1):
        shown = shorten(one)
        if isinstance(one, (tuple, list, np.ndarray)) and len(one) in (2, 3):
            a, b, *labels = one
            labels = [parse_label(str(label), task.labels, f"pair {number}")
                      for label in labels if label is not None]
            one = Pair(a, b, *labels)
        texts = (one.a, one.b) if isinstance(one, Pair) else (None,)
        refuse(not all(isinstance(text, str) for text in texts), f"pair {number}: "
               f"expected two texts, such as (a, b), perhaps with a label, found {shown}")
        refuse(task.labels and one.label not in (None, *range(len(task.labels))),
               f"pair {number}: expected a label below {len(task.labels)}, found {shown}")
        refuse(labelled and one.label is None, f"pair {number}: has no label: it can be predicted, "
               "but not scored")
        pairs.append(one)
    refuse(labelled and not pairs, "expected pairs with labels, found none")
    return pairs


def blocks_of(task, pairs):
    """The pairs as a list of blocks of `task.block` pairs, which stay together."""
    return [pairs[i:i + task.block] for i in range(0, len(pairs), task.block)]


def hold_out(task, splits, share, seed):
    """A share of train, drawn by the seed in blocks, takes the place of dev, which stays unread."""
    blocks = blocks_of(task, splits["train"])
    refuse(len(blocks) < 2, "--held-out: train is one pair or block, and dev needs one as well")
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


def seen_in_training(splits):
    """Names of the splits that training reads: train and dev, never test."""
    return [name for name in splits if name.startswith(("train", "dev"))]


def describe_labels(task, splits):
    """Lines on the labels, on pairs of dev that are in train, as they are or with the sentences
    exchanged, and on pairs of train with two labels. They show a wrong column, a leak, and how
    often a constant answer is right.
    """
    train, dev = ([pair.label for pair in splits[name]] for name in ("train", task.selection))
    if task.regression:
        line = f"scores from {min(train):g} to {max(train):g}"
    else:
        counts, share = Counter(train), 100 * max(Counter(dev).values()) / len(dev)
        classes = join_names([f"{x} ({counts[i]})" for i, x in enumerate(task.labels)], 20)
        line = f"classes {classes}; {task.selection}: {len(dev)} pairs, {share:.1f} % of one class"
    labels, texts = {}, [(pair.a, pair.b) for pair in splits[task.selection]]
    for pair in splits["train"]:
        labels.setdefault((pair.a, pair.b), set()).add(pair.label)
    same = sum(both in labels for both in texts)
    turned = sum(both[::-1] in labels and both not in labels for both in texts)
    two = sum(len(found) > 1 for found in labels.values())
    counts = {f"pairs of {task.selection} that are in train, too": same,
              f"pairs of {task.selection} that are in train with the sentences exchanged": turned,
              "pairs of train that are there under more than one label": two}
    return "\n".join([line, *(f"{what}: {count}" for what, count in counts.items() if count)])
