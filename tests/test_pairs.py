"""support/data.py: cutting, describing, labelling pairs; files of predictions."""
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from small_runs import rows_of
from support.data import (Pair, Prediction, Task, add_predictions, as_pairs, glue_rows, hold_out,
                          limit_pairs, load_pairs, load_test_splits, pair_rows, write_table)

TWO = Task("own", ("different", "same"), ("accuracy",))
SCORES = Task("own", (), ("pearson",))
SAME = Prediction("same", {"different": 0.25, "same": 0.75})


def pairs(count, labels=(0, 1)):
    return [Pair(f"a{i}", f"b{i}", labels[i % len(labels)]) for i in range(count)]


def assert_whole_blocks(part, whole, block):
    """Each block of the part is one of the whole."""
    for first in range(0, len(part), block):
        start = whole.index(part[first])
        assert start % block == 0 and part[first:first + block] == whole[start:start + block]


def test_a_pair_of_texts():
    both = [Pair("a", "b"), Pair("c d", "", 1)]
    assert as_pairs(TWO, [("a", "b"), ["c d", "", "same"]]) == both == as_pairs(TWO, iter(both))
    for alone in (("a", "b"), ["a", "b"], both[0]):
        assert as_pairs(TWO, alone) == both[:1]
    assert as_pairs(TWO, ("a", "b", "same")) == [Pair("a", "b", 1)] and as_pairs(TWO, []) == []
    for score in (2.5, "2.5", np.float32(2.5)):
        assert as_pairs(SCORES, ("a", "b", score)) == [Pair("a", "b", 2.5)]
        assert as_pairs(SCORES, Pair("a", "b", score)) == [Pair("a", "b", 2.5)]


@pytest.mark.parametrize("task, wrong, said", [
    *((TWO, wrong, "expected pairs of two texts") for wrong in (
        ["ab"], [("a", 2)], [("a", "b"), Pair(1, "b")],
        (["a", "c"], ["b", "d"]))),                     # two lists of texts would be other pairs
    *((TWO, Pair("a", "b", label), "number of its class, 0 to 1, found")
      for label in ("same", 2, -1, True)),
    (TWO, ("a", "b", "other"), "label"), (SCORES, ("a", "b", "same"), "label"),
    (SCORES, Pair("a", "b", float("nan")), "label")], ids=str)
def test_what_is_no_pair_of_texts(task, wrong, said):
    with pytest.raises(ValueError, match=said):
        as_pairs(task, wrong)


@pytest.mark.parametrize("block", [1, 4])
def test_part_of_the_pairs(block):
    task = Task("toy", ("0", "1"), ("accuracy",), block=block)
    splits = {"train": pairs(40), "dev": pairs(9), "test": pairs(3)}
    assert limit_pairs(task, splits, 5, 0) == {name: some[:5] for name, some in splits.items()}
    half, again, other = (limit_pairs(task, splits, 0.5, seed) for seed in (0, 0, 1))
    assert half == again != other and len(half["train"]) == 20 and half["dev"] == splits["dev"]
    assert_whole_blocks(half["train"], splits["train"], block)
    assert len(limit_pairs(task, splits, 1e-9, 0)["train"]) == block  # never none


def test_test_splits_have_labels(monkeypatch):
    settings = SimpleNamespace(task="x", data_dir="", limit=1, held_out=None)
    splits = {"train": pairs(2), "test": pairs(3), "test_unseen": pairs(2)}
    monkeypatch.setattr("support.data.load_task", lambda *args: (TWO, splits))
    found = load_test_splits(settings)  # --limit is of training
    assert {name: len(some) for name, some in found.items()} == {"test": 3, "test_unseen": 2}
    for wrong in ({"train": pairs(2)}, splits | {"test": [Pair("a", "b")]}):
        monkeypatch.setattr("support.data.load_task", lambda *args: (TWO, wrong))
        with pytest.raises(ValueError, match="test.* labelled"):
            load_test_splits(settings)


@pytest.mark.parametrize("block", [1, 4])
def test_training_pairs_stand_for_dev(block, monkeypatch):
    task = Task("toy", ("0", "1"), ("accuracy",), block=block)
    splits = {"train": pairs(40), "dev": pairs(9), "dev_unseen": pairs(9), "test": pairs(3)}
    held, again, other = (hold_out(task, splits, 0.2, seed) for seed in (0, 0, 1))
    assert held == again != other and held["test"] == splits["test"]
    assert set(held) == {"train", "dev", "test"}  # all of dev stays unread
    assert (len(held["train"]), len(held["dev"])) == (32, 8)
    assert Counter(held["train"] + held["dev"]) == Counter(splits["train"])
    assert_whole_blocks(held["dev"], splits["train"], block)
    monkeypatch.setattr("support.data.load_task", lambda *args: (task, splits))
    settings = SimpleNamespace(task="x", data_dir="", limit=None, held_out=0.2, seed=1)
    assert load_pairs(settings)[1] == other
    assert load_pairs(settings, limited=False)[1] == splits     # to predict dev by its name
    with pytest.raises(ValueError, match="HELD_OUT=0.99: takes all 40"):
        hold_out(task, splits, 0.99, 0)


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_predictions_survive_a_csv_reader(tmp_path, ending):
    """Whatever is in a sentence. The label stands there if all have it."""
    odd = ['He said "no"', '"quoted"', 'a, b; "c"', "tab\there", "two\nlines", '"', "", "  ", "\\"]
    some, path = [Pair(a, b, 1) for a, b in zip(odd, odd[::-1])], tmp_path / f"x.{ending}"
    write_table(path, add_predictions(TWO, pair_rows(TWO, some), [SAME] * len(some)))
    rows = rows_of(path)
    assert list(rows[0]) == "sentence1 sentence2 label prediction p(different) p(same)".split()
    for pair, row in zip(some, rows, strict=True):
        assert tuple(row.values()) == (pair.a, pair.b, "same", "same", "0.2500", "0.7500")
    assert pair_rows(TWO, [*some, Pair("a", "b")])[-1] == ["a", "b"]
    write_table(path, [["half of a pair \ud83d"]])
    assert path.read_text("utf-8") == "half of a pair ?\n"
    rows = add_predictions(TWO, [["p(same)", "p(x)"], ["1", "2"]], [SAME], ("p(same)", "p(x)"))
    assert rows[1][:2] == ["1", "2"]  # the sentences
    rows = add_predictions(TWO, [["x", "prediction", "y"], ["1", "2", "3"]], [SAME])
    assert rows == [["x", "y", *"prediction p(different) p(same)".split()],
                    ["1", "3", "same", "0.2500", "0.7500"]]


def test_predictions_of_scores_and_for_glue():
    scores = [Prediction(0.12345, None), Prediction(-2.0, None)]
    rows = pair_rows(SCORES, [Pair("a", "b", 1.5), Pair("c", "d", 2.0)])
    rows = add_predictions(SCORES, rows, scores)
    assert rows[1:] == [["a", "b", "1.5000", "0.1235"], ["c", "d", "2.0000", "-2.0000"]]
    assert glue_rows(SCORES, scores) == [["index", "prediction"], ["0", "0.123"], ["1", "-2.000"]]
    assert glue_rows(TWO, [SAME])[1] == ["0", "same"]
