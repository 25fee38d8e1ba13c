"""What is to be predicted of a pair, and how it is scored: pairs, metrics, the loss, answers."""
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F

from support.options import refuse

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
