"""experiments/english.py: sentences that become others, and a run with int8 weights."""
import json
import random
import shutil

import pytest
import torch

from experiments import english
from run import open_run
from small_runs import ROOT, fails, loaded, of
from support import runs
from support.biaffine import load_parser
from support.lexicon import load_wordnet
from support.pairs import Pair, ranking
from support.parses import parse_texts
from support.tables import read_pairs

TEXTS = ("The storm damaged the roof.", "A man is riding two horses.", "They moved to Lisbon.",
         "The letter was written by Anna.", "It snowed in Oslo.", "The shop is open.",
         "A dog sees a cat.", "Tea is hot.", "It may rain.")


@pytest.fixture(scope="module")
def known(wordnet):  # which skips this file where there is none
    return english.Words(parse_texts(TEXTS, load_parser()), load_wordnet())


@pytest.mark.parametrize("kind, expected", [
    ("exchange", {0: "The roof damaged the storm.", 1: "Two horses is riding a man.",
                  3: "Anna was written by the letter.", 6: "A cat sees a dog."}),
    ("passive", {0: "The roof was damaged by the storm."}),
    ("passive, exchanged", {0: "The storm was damaged by the roof."}),
    ("negation", {0: "The storm did not damage the roof.", 1: "A man is not riding two horses.",
                  3: "The letter was not written by Anna.", 6: "A dog does not see a cat.",
                  2: "They did not move to Lisbon.", 4: "It did not snow in Oslo.",
                  5: "The shop is not open.", 7: "Tea is not hot."}),
    ("front", {2: "To Lisbon, they moved.", 3: "By Anna, the letter was written.",
               4: "In Oslo, it snowed."})])
def test_what_each_sentence_becomes(kind, expected, known):
    made = [english.KINDS[kind][0](text, random.Random(0), known) for text in TEXTS]
    assert {i: new for i, new in enumerate(made) if new} == expected


def test_a_pair_with_other_names(wordnet):
    """About half of the words of both sentences change, alike in both, and no two become one."""
    a, b = "Anna and Ben sent Peter 12 books in May.", "Peter sent Anna 12 papers in May."
    of_pair = parse_texts([a, b, "Maria, Paul, Laura and Tom saw Oslo."], load_parser())
    known, changed = english.Words(of_pair, load_wordnet()), []
    for seed in range(40):
        pair, new = english.rename(Pair(a, b, 1), random.Random(seed), known), {}
        for old, text in ((a, pair.a), (b, pair.b)):
            for word, other in zip(old[:-1].split(), text[:-1].split(), strict=True):
                assert new.setdefault(word, other) == other
        assert pair.label == 1 and len({*new.values()}) == len(new)
        changed += [word for word in new if new[word] != word]
    assert {*changed} == {"Anna", "Peter", "12"} and 30 < len(changed) < 60


def test_int8_weights_are_read_as_they_were_written(trained):
    """Each number is off by half a step of its part at most, and by 127 times the float16 error of
    the step; the run is opened from the file."""
    folder = trained(*of("bert"), "--epochs", "1", "--limit", "4")
    saved = loaded(folder / "best.pt")
    weights = saved["weights"]
    for W in weights.values():
        W *= 1 + torch.arange(W.numel()).view(W.shape) % 97  # parts of different sizes
    small = runs.as_int8(weights)
    torch.save(saved | small, folder / "best.pt")
    for name, read in open_run(folder).model.state_dict().items():
        bound = 0.0
        if small["weights"][name].dtype == torch.int8:
            step = weights[name].unflatten(1, (-1, 64)).abs().amax(2) / 127
            bound = step.repeat_interleave(64, 1) * (0.5 + 127 / 2048)
        assert ((read - weights[name]).abs() <= bound).all() and read.dtype == torch.float
    assert "bert.layers.0.output.weight" in small["scales"]
    assert all((small["weights"][name].abs().amax(2) == 127).all() for name in small["scales"])


def test_an_exported_run_is_measured_by_its_own_answers(trained, monkeypatch):
    """Not by those of the float weights, which here say the contrary of each answer."""
    for part in ("dev-paws", "dev-stsb"):
        shutil.copy("dev.tsv", f"{part}.tsv")
    folder = trained(*of("dafa"), "--epochs", "1")
    monkeypatch.setattr(runs, "as_int8", lambda weights: {"weights": weights | {
        name: -weights[name] for name in ("classifier.weight", "classifier.bias")}})
    english.export(folder, folder / "small")
    run, dev = open_run(folder / "small"), read_pairs("dev.tsv", ("0", "1"))
    found = json.loads((folder / "small/result.json").read_text())
    scores = pytest.approx(run.evaluate(dev), abs=1e-6)
    assert found["metrics"] == dict.fromkeys(("dev", "dev-paws", "dev-stsb"), scores)
    right = open_run(folder).evaluate(dev)["accuracy"]
    assert found["metrics"]["dev"]["accuracy"] == pytest.approx(1 - right)
    assert found["int8_changes"] == "20 of 20 answers"
    assert found["influence"]["score"] == pytest.approx(1 - right)
    labels = [pair.label for pair in dev]
    assert found["threshold"]["threshold"] == pytest.approx(
        ranking(run.task, labels, run.logits(dev))[1]["threshold"], abs=1e-6)
    saved = loaded(folder / "best.pt")
    torch.save(saved | {"settings": saved["settings"] | {
        "task": "mrpc", "train_file": None, "dev_file": None}}, folder / "best.pt")
    fails(lambda: english.export(folder, folder / "new"), "--export", "own")


def test_the_tables(tmp_path, monkeypatch):
    """STS-B's scores from 4 on are the same, up to 3 different. No pair of dev, in either order, is
    in train, whether it was published or made."""
    stsb = [Pair(f"{score}", "b", score) for score in (0.0, 3.0, 3.5, 4.0, 5.0)]
    paws = [Pair("a", "b", 1), Pair("c", "d", 0)]
    tasks = {"paws": paws, "stsb": stsb, "mrpc": [Pair("0,0", "x", 1)]}
    monkeypatch.setattr(english, "load_task", lambda name, _: (
        None, {"train": tasks[name], "dev": tasks[name][:2]}))
    for name, stub in (("load_parser", lambda: None), ("load_wordnet", lambda: None),
                       ("parse_texts", lambda *given: {}), ("Words", lambda parses, _: english),
                       ("clauses", lambda known: []), ("rename", lambda pair, *given: pair),
                       ("own_pairs", lambda pairs, _: [Pair("d", "c", 1), Pair("new", "new", 1)])):
        monkeypatch.setattr(english, name, stub)
    monkeypatch.setattr(english, "parses", {}, raising=False)
    english.write_tables("data", tmp_path)
    read = {path.stem: read_pairs(path, english.TASK.labels) for path in tmp_path.iterdir()}
    assert read["dev-stsb"] == [Pair("0.0", "b", 0), Pair("3.0", "b", 0)]
    assert read["dev-paws"] == paws and read["dev"] == paws + read["dev-stsb"]
    made = [Pair("new", "new", 1)] * 3
    assert read["train"] == [Pair("4.0", "b", 1), Pair("5.0", "b", 1), *made]


def test_the_run_that_ships():
    """Its size; the everyday pairs that assets/README.md says it has right."""
    assert (folder := ROOT / "assets/english").joinpath("best.pt").stat().st_size < 25e6
    run = open_run(folder, device="cpu")
    pairs = read_pairs(folder / "everyday.tsv", run.task.labels)
    right = run.evaluate(pairs)["accuracy"] * len(pairs)
    said = (ROOT / "assets/README.md").read_text("utf-8")
    assert f"that ships has {right:.0f} right" in " ".join(said.split())
    assert json.loads((folder / "result.json").read_text("utf-8"))["id"] == run.begun["id"]
