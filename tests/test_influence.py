"""support/influence.py, Run.influence, each model's `changes`."""
import numpy as np
import pytest
import torch

import train
from bert_min import SelfAttention
from semmatch import Matcher
from small_runs import MODELS, beginning, gentle, of, result
from support import influence
from support.shown import recording
from support.tables import read_pairs

pytestmark = pytest.mark.usefixtures("workplace")
READING = {"uniform choice", "no re-reading"}
NAMES = {"bert": set(), "dabert": {"no method"}, "drrnet": {"no prior"} | READING,
         "ladranet": READING}


def part_of(model, *args):
    """(a model with weights large enough to matter, a batch of dev pairs)"""
    _, data, network, _ = beginning(*gentle(model), *args)
    torch.manual_seed(3)
    with torch.no_grad():
        for p in network.parameters():
            p.add_(0.05 * torch.randn_like(p))
    return network.eval(), data["dev"].collate(range(6))[0]


def with_weights(model, network):
    """The model with the weights of the network; weights for which it has no place are left out."""
    weights = network.state_dict()
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    return model.eval()


@torch.inference_mode()
def answer(model, batch, change=None):
    with influence.changed(model, model.changes()[change] if change else None) as altered:
        return model(**altered(batch))


@pytest.mark.parametrize("model", MODELS)
def test_a_change_has_an_end(model):
    """Each model has the right changes. Each change alters the answers, and ends."""
    network, batch = part_of(model)
    before, changes = answer(network, batch), network.changes()
    assert changes.keys() == NAMES.get(model, {"no prior", "no method"})
    for name in changes:
        assert not torch.equal(answer(network, batch, name), before), name
        assert torch.equal(answer(network, batch), before), name


@pytest.mark.parametrize("model, change", [
    *((model, "no method") for model in ("dabert", "dafa", "knowledge")), ("aligned", "no prior")])
def test_without_its_method_it_is_plain_bert(model, change):
    network, batch = part_of(model, "--layers", "all")
    plain = with_weights(Matcher(SelfAttention, network.bert.config, 2), network)
    expected = answer(plain, {name: x for name, x in batch.items() if name != "prior"})
    assert not torch.equal(answer(network, batch), expected)
    torch.testing.assert_close(answer(network, batch, change), expected)


@pytest.mark.parametrize("model, part", [("drrnet", "reread"), ("ladranet", "dsa")])
def test_without_re_reading(model, part):
    """The change computes what a model computes that was built without re-reading; a uniform
    choice gives each word the same weight."""
    network, batch = part_of(model)
    without = with_weights(beginning(*gentle(model), "--without", part)[2], network)
    torch.testing.assert_close(answer(network, batch, "no re-reading"), answer(without, batch))
    assert "no re-reading" not in without.changes()
    if model == "drrnet":
        with recording() as trace:
            answer(network, batch, "uniform choice")
        for reading, words in zip(trace["reading"].flatten(0, 1), batch["mask"].flatten(0, 1)):
            n = int(words.sum())
            np.testing.assert_allclose(reading[:, :n], 1 / n, rtol=1e-6)


def test_what_a_change_did():
    """By hand. One of three answers changes; the first answers' probabilities, .75, .5 and .5,
    become .25, .75 and .5. Two of three scores move by over a tenth of their deviation, 2."""
    before = torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]]).log()
    after = torch.tensor([[0.25, 0.75], [0.75, 0.25], [0.5, 0.5]]).log()
    assert influence.measure(before, after, False) == {
        "answers": pytest.approx(1 / 3), "moved": pytest.approx(0.25)}
    scores = torch.tensor([[0.0], [2.0], [4.0]])
    assert influence.measure(scores, scores + torch.tensor([[0.25], [0.125], [-0.75]]), True) == {
        "answers": pytest.approx(2 / 3), "moved": pytest.approx(0.375)}
    assert influence.measure(scores[:1], scores[:1] + 1, True) == {"answers": 1.0, "moved": 1.0}


def test_a_run_says_its_influence(trained, capsys):
    """Training measures the split that chose the epoch. `--from RUN` prints this in a table."""
    written, opened = result(trained(*of("drrnet")))["influence"], train.open_run("run")
    pairs = read_pairs("dev.tsv", ("0", "1"))
    assert written == opened.influence(pairs) and written["pairs"] == len(pairs)
    assert written["score"] == opened.evaluate(pairs)["accuracy"]
    for name, change in opened.changes().items():
        before, after = (opened.logits(pairs, change=x) for x in (None, change))
        assert written["changes"][name].items() >= influence.measure(before, after, False).items()
    assert "score" not in opened.influence([("the dog", "the cat")])
    train.main(["--from", "run/best.pt"])
    printed = capsys.readouterr().out
    assert f"epoch {result()['best_epoch']} of 2" in printed
    for name, change in written["changes"].items():
        assert name in printed and f"{100 * change['answers']:.1f} %" in printed
    assert result(trained(*of("bert")))["influence"] is None
