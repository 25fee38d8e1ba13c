"""experiments/english.py: pairs of sentences, a run with int8 weights, and the run that ships."""
import json
from collections import Counter
from pathlib import Path

import torch

from experiments import english
from run import open_run
from small_runs import ROOT, loaded, run, write_file, write_pairs
from support.biaffine import load_parser
from support.tables import read_pairs, read_table
from train import main

TEXTS = ("The storm damaged the roof.", "They flew from Rome to Oslo.", "The dog saw the cat.",
         "The boy slept in the old barn.", "She is kind.", "Two dogs carried the box.",
         "Tom met Anna.", "The man helped the girl sing.", "Tom came by bus, not by car.",
         "We go from door to door.", "He came by bus?")

def test_what_sentences_become(wordnet):
    """One and many, what two do to each other, denials and questions are not exchanged."""
    found = {*english.changed(TEXTS, load_parser(), wordnet.wordnet)}
    assert found == {
        ("exchange", TEXTS[0], "The roof damaged the storm."),
        ("exchange", TEXTS[1], "They flew from Oslo to Rome."),
        ("exchange", TEXTS[2], "The cat saw the dog."),
        ("passive", TEXTS[0], "The roof was damaged by the storm."),
        ("passive, exchanged", TEXTS[0], "The storm was damaged by the roof."),
        ("front", TEXTS[1], "To Oslo, they flew from Rome."),
        ("front", TEXTS[9], "To door, we go from door."),
        ("front", TEXTS[3], "In the old barn, the boy slept."),
        ("opposite", TEXTS[4], "She is unkind."),
        ("one denied", TEXTS[4], "She is not unkind."),
        ("one denied", "She is not kind.", "She is unkind."),
        ("both denied", "She is not kind.", "She is not unkind.")}


def test_a_run_is_shipped(workplace):
    """A number is off by half a step at most, and the step by float16; T has the least loss."""
    write_pairs(lambda rng, same: english.LABELS[same], train=22, dev=10)
    assert run() == 0
    pairs = Path("train.tsv").read_bytes().replace(b"different", b"same", 1)  # more are the same
    write_file(Path("out"), "fourth.tsv", pairs)
    english.export(Path("run"), Path("out"), Path())
    weights, small = loaded("run/best.pt")["weights"], loaded("out/best.pt")
    T = float((weights["classifier.weight"] / small["weights"]["classifier.weight"]).median())
    for name, read in open_run("out").model.state_dict().items():
        bound = 1e-6
        if name in small["scales"]:
            assert small["weights"][name].dtype == torch.int8
            step = weights[name].unflatten(1, (-1, 64)).abs().amax(2) / 127
            bound += step.repeat_interleave(64, 1) * (0.5 + 127 / 2048)
        divided = weights[name] / T if name.startswith("classifier") else weights[name]
        assert ((read - divided).abs() <= bound).all() and read.dtype == torch.float, name
    pairs, near = read_pairs("out/fourth.tsv", english.LABELS), (T, 0.9 * T, 1.1 * T)
    logits, labels = open_run("run").logits(pairs), torch.tensor([pair.label for pair in pairs])
    losses = [english.F.cross_entropy(logits / t, labels) for t in near]
    assert losses[0] == min(losses) and small["scales"] and Path("out/result.json").exists()


def test_the_run_that_ships(capsys):
    """Its size; right answers of each list and kind, as assets/README.md says."""
    assert (folder := ROOT / "assets/english").joinpath("best.pt").stat().st_size < 25e6
    run, said = open_run(folder, device="cpu"), (ROOT / "assets/README.md").read_text("utf-8")
    right, lists = {}, ("everyday", "others", "first", "second", "third", "fourth", "fifth")
    for name in lists:
        header, rows = read_table(folder / f"{name}.tsv", run.task.labels)
        fields, pairs = zip(*rows)
        found = zip(fields, pairs, run.logits(pairs).argmax(1).tolist())
        right[name] = Counter(dict(zip(header, row)).get("kind") for row, pair, answer in found
                              if answer == pair.label)
    cells = " | ".join(str(counts.total()) for counts in right.values())
    assert f"| the run that ships | {cells} |" in said
    for kind in {dict(zip(header, row))["kind"] for row in fields}:
        cells = " | ".join(str(right[name][kind]) for name in lists[2:])
        assert f"| {kind} | {cells} |" in said
    assert json.loads((folder / "result.json").read_text("utf-8"))["id"] == run.begun["id"]
    main(["--from", str(folder)])
    assert "--test" not in capsys.readouterr().out  # which would ask for the tables of training
