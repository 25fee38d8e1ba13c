"""experiments/train_toy.py: a run with halved weights, and the one that ships."""
import shutil
from pathlib import Path

import pytest
import torch

import batches
import train
from experiments import train_toy
from small_runs import ROOT, loaded, of, result
from support.data import load_pairs
from support.parser import load_parser

pytestmark = pytest.mark.usefixtures("workplace")


def test_a_run_is_shipped_in_half_precision(trained):
    """It is used with its own files alone, and its numbers are those of the halved weights."""
    made, pairs = trained(*of("dafa")), [("the dog", "the cat"), ("good", "bad")]
    before = train.open_run(made).predict(pairs)
    Path("shipped").mkdir()
    train_toy.copy_halved(made, Path("shipped"))
    shutil.rmtree(made)
    found = train.open_run("shipped")
    assert {x.dtype for x in loaded("shipped/best.pt")["weights"].values()} == {torch.float16}
    for x, y in zip(found.predict(pairs), before):
        assert x.probabilities == pytest.approx(y.probabilities, abs=0.01)
    dev = load_pairs(found.settings)[1]["dev"]
    assert found.evaluate(dev) == result("shipped")["metrics"]["dev"]


@pytest.mark.long                                   # README's example asks it a pair
def test_the_run_that_ships(monkeypatch):
    monkeypatch.setattr(batches, "load_parser", load_parser)
    found = train.open_run(ROOT / "assets/toy-dafa", device="cpu")
    dev = load_pairs(found.settings)[1]["dev"]
    expected = result(found.folder)["metrics"]["dev"]["accuracy"]
    assert found.evaluate(dev)["accuracy"] == pytest.approx(expected, abs=0.02) and expected > 0.65
