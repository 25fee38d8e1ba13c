"""experiments/english.py: sentences that become others, and a run with int8 weights."""
import json
from collections import Counter

import pytest
import torch

from experiments import english
from run import as_int8, open_run
from small_runs import ROOT, loaded, of
from support.lexicon import load_wordnet
from support.tables import read_table

TEXTS = ("The storm damaged the roof.", "A man is riding two horses.", "A dog sees a cat.",
         "They flew from Rome to Oslo.", "Tom met Anna.", "The storm did not damage the roof.")


def test_what_each_sentence_becomes(wordnet):
    """A verb that two do to each other, "Tom met Anna", and a denial become nothing."""
    found = {}
    for kind, text, new in english.changed(TEXTS, load_wordnet()):
        found.setdefault(kind, {})[TEXTS.index(text)] = new
    assert found == {
        "exchange": {0: "The roof damaged the storm.", 1: "Two horses is riding a man.",
                     2: "A cat sees a dog.", 3: "They flew from Oslo to Rome."},
        "passive": {0: "The roof was damaged by the storm."},
        "passive, exchanged": {0: "The storm was damaged by the roof."},
        "front": {3: "To Oslo, they flew from Rome."}}


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


def test_probabilities_that_can_be_believed():
    """Guo et al., Eq. (3), in loops; the temperature gives the loss its minimum."""
    torch.manual_seed(0)
    logits, labels = 4 * torch.randn(300, 3), torch.randint(3, (300,))
    labels[:150] = logits[:150].argmax(1)
    bins = {}
    for row, label in zip(logits.softmax(1).tolist(), labels.tolist()):
        best = max(range(3), key=row.__getitem__)
        m = next(m for m in range(15) if m / 15 < row[best] <= (m + 1) / 15)
        bins.setdefault(m, []).append((best == label, row[best]))
    error = sum(abs(sum(right for right, _ in x) - sum(p for _, p in x)) for x in bins.values())
    assert english.calibration_error(logits, labels) == pytest.approx(error / 300)
    T = english.best_temperature(logits, labels)
    loss = torch.nn.functional.cross_entropy
    assert loss(logits / T, labels) < min(loss(logits / (T * x), labels) for x in (0.98, 1.02))


def test_the_run_that_ships():
    """Its size; how many pairs of each list it has right, and of each kind, as assets/README.md
    says."""
    assert (folder := ROOT / "assets/english").joinpath("best.pt").stat().st_size < 25e6
    run, said = open_run(folder, device="cpu"), (ROOT / "assets/README.md").read_text("utf-8")
    right = {}
    for name in ("everyday", "others", "first", "second"):
        header, rows = read_table(folder / f"{name}.tsv", run.task.labels)
        fields, pairs = zip(*rows)
        found = zip(fields, pairs, run.logits(pairs).argmax(1).tolist())
        right[name] = Counter(dict(zip(header, row)).get("kind") for row, pair, answer in found
                              if answer == pair.label)
    cells = " | ".join(str(counts.total()) for counts in right.values())
    assert f"| the run that ships | {cells} |" in said
    kinds = {dict(zip(header, row))["kind"] for row in fields}
    for kind in kinds:
        assert f"| {kind} | {right['first'][kind]} | {right['second'][kind]} |" in said
    assert json.loads((folder / "result.json").read_text("utf-8"))["id"] == run.begun["id"]
