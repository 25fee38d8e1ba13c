"""experiments/english.py: sentences that become others, and a run with int8 weights."""
import json
import random
from collections import Counter

import pytest
import torch

from experiments import english
from run import open_run
from small_runs import ROOT, loaded, of
from run import as_int8
from support.biaffine import load_parser
from support.lexicon import load_wordnet
from support.pairs import Pair, ranking
from support.parses import parse_texts
from support.tables import read_pairs, read_table

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


def test_two_negations(wordnet):
    """A word with a negative prefix, denied, is the word; a word without one stays."""
    texts = "It is possible.", "The man is happy.", "Tea is hot."
    known = english.Words(parse_texts(texts, load_parser()), load_wordnet())
    assert [english.deny_opposite(text, random.Random(0), known) for text in texts] == [
        "It is not impossible.", "The man is not unhappy.", None]


def test_what_wordnet_makes_of_its_examples(wordnet, monkeypatch):
    """Another word of the sense that the example shows, with the same ending; "a" does not become
    "an"; a word that no text has stays out."""
    senses = ("cancel.v.01", "we cancelled the dinner party"), ("large.a.01", "a large city")
    seen = ("We cancelled called off the dinner a big small city.",
            "He scratched it; they call, we scratch.")
    known = english.Words(parse_texts(seen, load_parser()), load_wordnet())
    monkeypatch.setattr(english, "examples", lambda wordnet: [
        (wordnet.synset(name), text) for name, text in senses])
    found = {(pair.group, *sorted((pair.a, pair.b))) for pair in english.sense_pairs(known)}
    party, city = "We cancelled the dinner party.", "A large city."
    assert found <= {
        ("sense, synonym", "We called off the dinner party.", party),
        ("sense, synonym", party, "We scratched the dinner party."),
        ("sense, synonym", "A big city.", city), ("sense, antonym", city, "A small city.")}
    assert len(found) == 3


def test_int8_weights_are_read_as_they_were_written(trained):
    """Each number is off by half a step of its part at most, and by 127 times the float16 error of
    the step; the run is opened from the file."""
    folder = trained(*of("bert"), "--epochs", "1", "--limit", "4")
    saved = loaded(folder / "best.pt")
    weights = saved["weights"]
    for W in weights.values():
        W *= 1 + torch.arange(W.numel()).view(W.shape) % 97  # parts of different sizes
    small = as_int8(weights)
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
    """Not by those of the float weights, which here say the contrary of each answer. The
    temperature is fitted on dev's even rows."""
    folder = trained(*of("dafa"), "--epochs", "1")
    saved = loaded(folder / "best.pt")
    task = saved["task"] | {"labels": ("different", "same"), "positive": ""}
    torch.save(saved | {"task": task}, folder / "best.pt")
    dev = read_pairs("dev.tsv", ("0", "1"))
    monkeypatch.setattr(english, "load_sources", lambda _: {
        "dev": {"paws": dev[:6], "stsb": dev[6:]}})
    monkeypatch.setattr(english, "load_task", lambda *_: (None, {"test": dev[3:9]}))
    monkeypatch.setattr(english, "as_int8", lambda weights: {"weights": weights | {
        name: -weights[name] for name in ("classifier.weight", "classifier.bias")}})
    english.export(folder, folder / "small", "data")
    run, found = open_run(folder / "small"), json.loads((folder / "small/result.json").read_text())
    old, labels = open_run(folder).logits(dev), torch.tensor([pair.label for pair in dev])
    T = english.best_temperature(old[1::2], labels[1::2])
    assert run.logits(dev) == pytest.approx(-old / T, abs=1e-5)
    rows = {"dev": dev, "dev-paws": dev[:6], "dev-stsb": dev[6:]}
    assert {name: found["metrics"][name] for name in rows} == {
        name: pytest.approx(run.evaluate(pairs), abs=1e-6) for name, pairs in rows.items()}
    assert found["int8_changes"] == "10 of 10 answers"
    assert found["influence"]["score"] == pytest.approx(run.evaluate(dev)["accuracy"])
    assert found["threshold"]["threshold"] == pytest.approx(
        ranking(run.task, labels.tolist(), run.logits(dev))[1]["threshold"], abs=1e-6)
    assert found["calibration"]["temperature"] == T
    assert found["calibration"]["dev, other half"] == pytest.approx(
        english.calibration(run.logits(dev[::2]), labels[::2]), nan_ok=True)
    assert found["calibration"]["PAWS's test"]["pairs"] == 6


def test_probabilities_that_can_be_believed():
    """Guo et al., Eq. (3), in loops; the temperature gives the loss its minimum."""
    torch.manual_seed(0)
    logits, labels = 4 * torch.randn(300, 3), torch.randint(3, (300,))
    labels[:150] = logits[:150].argmax(1)
    bins, sure = {}, []
    for row, label in zip(logits.softmax(1).tolist(), labels.tolist()):
        best = max(range(3), key=row.__getitem__)
        m = next(m for m in range(15) if m / 15 < row[best] <= (m + 1) / 15)
        bins.setdefault(m, []).append((best == label, row[best]))
        sure += [best == label] * (row[best] >= 0.99)
    error = sum(len(x) / 300 * abs(sum(right for right, _ in x) / len(x) - sum(p for _, p in x)
                                   / len(x)) for x in bins.values())
    assert english.calibration(logits, labels) == pytest.approx({
        "pairs": 300, "error": error, "sure": len(sure), "sure_right": sum(sure) / len(sure)})
    T = english.best_temperature(logits, labels)
    loss = torch.nn.functional.cross_entropy
    assert loss(logits / T, labels) < min(loss(logits / (T * x), labels) for x in (0.98, 1.02))


def test_the_tables(tmp_path, monkeypatch):
    """STS-B's scores from 4 on are the same, up to 3 different. No pair of dev, in either order, is
    in train, whether it was published or made. Halves of dev are its odd and its even rows."""
    stsb = [Pair(f"{score}", "b", score) for score in (0.0, 3.0, 3.5, 4.0, 5.0)]
    paws = [Pair("a", "b", 1), Pair("c", "d", 0)]
    tasks = {"paws": paws, "stsb": stsb, "mrpc": [Pair("0,0", "x", 1)]}
    monkeypatch.setattr(english, "load_task", lambda name, _: (
        None, {"train": tasks[name], "dev": tasks[name][:2]}))
    for name, stub in (("load_parser", lambda: None), ("load_wordnet", lambda: None),
                       ("parse_texts", lambda *given: {}), ("Words", lambda parses, _: None),
                       ("examples", lambda _: [(None, "e f g h")]), ("sense_pairs", lambda _: []),
                       ("own_pairs", lambda pairs, _: [Pair("d", "c", 1), Pair("new", "new", 1)])):
        monkeypatch.setattr(english, name, stub)
    english.write_tables("data", tmp_path)
    texts = (tmp_path / "texts.txt").read_text("utf-8").split("\n")
    assert texts == ["a", "b", "c", "d", "3.0", "4.0", "5.0", "e f g h", ""]
    read = {path.stem: read_pairs(path, english.TASK.labels) for path in tmp_path.glob("*.tsv")}
    assert read["dev"] == [*paws, Pair("0.0", "b", 0), Pair("3.0", "b", 0)]
    assert read["choose"] == read["dev"][::2] and read["calibrate"] == read["dev"][1::2]
    made = [Pair("new", "new", 1)] * 3
    assert read["train"] == [Pair("4.0", "b", 1), Pair("5.0", "b", 1), *made]


def test_the_run_that_ships():
    """Its size; how many pairs of both lists it has right, which assets/README.md says."""
    assert (folder := ROOT / "assets/english").joinpath("best.pt").stat().st_size < 25e6
    run, said = open_run(folder, device="cpu"), (ROOT / "assets/README.md").read_text("utf-8")
    pairs = read_pairs(folder / "everyday.tsv", run.task.labels)
    right = run.evaluate(pairs)["accuracy"] * len(pairs)
    assert f"that ships has {right:.0f} right" in " ".join(said.split())
    header, rows = read_table(folder / "others.tsv", run.task.labels)
    kinds, pairs = zip(*((fields[header.index("kind")], pair) for fields, pair in rows))
    answers = run.logits(pairs).argmax(1).tolist()
    right = Counter(kind for kind, pair, answer in zip(kinds, pairs, answers)
                    if answer == pair.label)
    names = [*dict.fromkeys(kinds)]
    cells = " | ".join(str(right[name]) for name in names)
    assert f"| | all | {' | '.join(names)} |" in said
    assert f"| the run that ships | {right.total()} | {cells} |" in said
    assert json.loads((folder / "result.json").read_text("utf-8"))["id"] == run.begun["id"]
