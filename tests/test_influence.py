"""experiments.influence: the meter of a run, as text, picture and JSON."""
import pytest
import torch

from experiments import controls, influence
from semmatch import DafaAttention, KnowledgeAttention
from small_runs import ROOT, fails, of, result, run
from tensors import config

pytestmark = pytest.mark.usefixtures("workplace")


def test_the_command(trained_once, capsys):
    """The split that chose the epoch has what training measured; plain BERT has nothing."""
    assert run(*of("drrnet"), "--test-file", "test.tsv") == 0
    for args in (["run"], ["run", "--split", "test"]):
        influence.main(args)
    said, found = capsys.readouterr().out, result(name="influence-dev.json")
    assert found == result()["influence"] and result(name="influence-test.json")["pairs"] == 9
    for name, change in found["changes"].items():
        assert name in said and f"{100 * change['answers']:.1f} %" in said
    influence.main([str(trained_once(*of("bert")))])
    assert "nothing to take out" in capsys.readouterr().out
    fails(lambda: influence.main(["run", "--split", "tets"]), "--split tets", "train, dev, test")


@pytest.mark.parametrize("method, shuffled, prior", [
    (DafaAttention, controls.ShuffledDafa, torch.rand(4, 3, 2)),
    (KnowledgeAttention, controls.ShuffledKnowledge, torch.rand(4, 3, 2, 5) < 0.1)])
def test_controls_have_other_pairs_priors(method, shuffled, prior):
    """Pairs 0, 1, 2, 3 have those of pairs 2, 3, 0, 1; a run of one trains."""
    place, segment = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, -1]] * 4), torch.arange(8) // 4
    given = place, segment.repeat(4, 1)
    mine, other = shuffled(config()), method(config())
    expected = other.spread(prior[[2, 3, 0, 1]], *given)
    torch.testing.assert_close(mine.spread(prior, *given), expected, rtol=0, atol=0)
    assert not torch.equal(expected, other.spread(prior, *given))
    model = f"{ROOT}/experiments/controls.py:{shuffled.__name__}"
    assert run("--model", model) == 0 and result()["influence"]
