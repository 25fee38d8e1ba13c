"""experiments.influence: the meter of a run, as text, picture and JSON."""
import json
from pathlib import Path

import pytest
import torch

from experiments import controls, influence
from semmatch import DafaAttention, KnowledgeAttention
from small_runs import ROOT, of, result, run
from support.options import run_command
from tensors import config

pytestmark = pytest.mark.usefixtures("workplace")


def command(*args):
    return run_command(influence.main, "experiments.influence", list(args))


def test_the_command(trained, capsys):
    """The split that chose the epoch has what training measured."""
    folder = trained(*of("dafa"))
    capsys.readouterr()
    assert command(str(folder)) == 0
    said = capsys.readouterr().out
    found = json.loads((folder / "influence-dev.json").read_text())
    assert found == result(folder)["influence"]
    for name, change in found["changes"].items():
        assert name in said and f"{100 * change['answers']:.1f} %" in said


def test_splits_and_plain_bert(trained_once, capsys):
    other = trained_once(*of("bert"))
    assert run(*of("drrnet"), "--test-file", "test.tsv") == 0
    assert command("run", "--split", "test") == 0
    assert json.loads(Path("run/influence-test.json").read_text())["pairs"] == 9
    assert command(str(other)) == 0 and "nothing to take out" in capsys.readouterr().out
    assert command("run", "--split", "tets") == 2
    assert "--split tets: expected one of train, dev, test" in capsys.readouterr().err


@pytest.mark.parametrize("method", [DafaAttention, KnowledgeAttention])
def test_controls_have_other_pairs_priors(method):
    """Pairs 0, 1, 2, 3 have those of pairs 2, 3, 0, 1; a run of one trains."""
    name = method.__name__.replace("Attention", "")
    shuffled = getattr(controls, f"Shuffled{name}")
    prior = torch.rand(4, 3, 2, 5) < 0.1 if name == "Knowledge" else torch.rand(4, 3, 2)
    place, segment = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, -1]] * 4), torch.arange(8) // 4
    given = place, segment.repeat(4, 1)
    mine, other = shuffled(config()), method(config())
    expected = other.spread(prior[[2, 3, 0, 1]], *given)
    torch.testing.assert_close(mine.spread(prior, *given), expected, rtol=0, atol=0)
    assert not torch.equal(expected, other.spread(prior, *given))
    model = f"{ROOT}/experiments/controls.py:Shuffled{name}"
    assert run("--model", model) == 0 and result()["influence"]
