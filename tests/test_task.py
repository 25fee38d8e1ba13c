"""support/data.py: metrics, losses, answers."""
import math

import pytest
import torch

from support.data import Task, answers, evaluate, loss_sum, metric_title


@pytest.mark.parametrize("metric, labels, predictions, expected", [
    ("accuracy", [0, 1, 2, 0], [0, 1, 1, 1], 0.5),
    ("f1", [0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], 0.0),               # scikit-learn's f1_score
    ("f1 of 0", [0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], 0.8),
    ("f1", [0, 0], [0, 0], 0.0),
    ("pearson", [1, 2, 3, 4, 5], [10, 9, 2.5, 6, 4], -0.7426106572325056),    # scipy's pearsonr
    ("pearson", [2.0, 2.0, 2.0], [1.0, 5.0, 2.0], 0.0),
    ("pearson", [1, 2, 4], [-1e200, -2e200, -4e200], -1.0),
    ("spearman", [106, 100, 86, 101, 99, 103, 97, 113, 112, 110],             # Wikipedia's
     [7, 27, 2, 50, 28, 29, 20, 12, 6, 17], -29 / 165),
    ("spearman", [1, 2, 3, 4, 5], [5, 6, 7, 8, 7], 0.8207826816681233)])      # scipy's spearmanr
def test_metrics(metric, labels, predictions, expected):
    name, _, positive = metric.partition(" of ")
    task = Task("t", ("0", "1", "2"), (name,), positive=positive)
    assert evaluate(task, labels, predictions) == {name: pytest.approx(expected, abs=1e-12)}
    assert metric_title(name, task.positive) == metric


def test_evaluate_refuses():
    for labels, message in (([1, 0, 1], "one pair or more"), ([1, None], "without labels")):
        with pytest.raises(ValueError, match=message):
            evaluate(Task("t", (), ("pearson",)), labels, [1, 1])


def test_losses_and_answers():
    classes, scores = (Task("x", names, ("accuracy",)) for names in (("a", "b", "c"), ()))
    logits, labels = torch.tensor([[1.5], [-0.25]]), torch.tensor([1.0, 0.5])
    assert loss_sum(logits, labels, scores).item() == pytest.approx(0.25 + 0.5625)
    assert answers(logits, scores) == [1.5, -0.25]
    logits = torch.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 3.0]], dtype=torch.bfloat16)
    found = loss_sum(logits, torch.tensor([2, 0]), classes)
    rows = zip(logits.tolist(), (2, 0))
    by_hand = sum(math.log(sum(map(math.exp, row))) - row[k] for row, k in rows)
    assert found.dtype == torch.float32 and found.item() == pytest.approx(by_hand)
    assert answers(logits, classes) == [1, 2]
    other = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # one more judgement: ln 3 a pair
    found = loss_sum(torch.stack([logits, other]), torch.tensor([2, 0]), classes)
    assert found.item() == pytest.approx(by_hand + 2 * math.log(3))
