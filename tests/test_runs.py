"""run.py: a trained model in use, from Python and by --from; a run's folder."""
import contextlib
import fcntl
import io
import json
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import train
import run as runs
from run import Run
from small_runs import (OWN, ROOT, TINY, assert_same_run, at_call, beginning, command, equal, fails,
                        loaded, losses, of, result, rows_of, refused, run, run_cut, write_file,
                        write_pairs)
from support.options import load_file, load_own
from support.pairs import Task, pearson, ranking
from support.shown import recording
from support.tables import read_pairs

pytestmark = pytest.mark.usefixtures("workplace")
ROBERTA = "--bert", str(ROOT / "tests/fixtures/tiny_roberta_hf"), "--max-length", "64"


class MakesAFolder:
    """Unpickling it without weights_only makes a folder."""

    def __reduce__(self):
        return os.mkdir, ("made",)


def put(content, place, value):
    """The content with this value at a place such as "task metrics"."""
    *above, name = place.split()
    (content[above[0]] if above else content)[name] = value
    return content


# ---- A model in use -----------------------------------------------------------------------------

@pytest.mark.parametrize("args", [of("bert"), [*of("dafa"), *ROBERTA], of("drrnet"), of("ladranet"),
                                  [*of("ladranet"), *ROBERTA]])
def test_a_run_in_use(args, trained, capsys):
    """It takes tuples, Pairs, Examples; has metrics, also of a group; explain records."""
    opened = train.open_run(trained(*args))
    texts = [("the dog", "the dog"), ("good", "bad book"), ("", "new york")]
    answers = opened.predict(texts)
    assert not opened.model.training
    for x in answers:
        assert sum(x.probabilities.values()) == pytest.approx(1)
        assert x.answer == max(x.probabilities, key=x.probabilities.get)
    assert opened.predict([]) == [] and "has changed" not in capsys.readouterr().out
    fails(lambda: opened.predict(*texts[:2]), "change", "bad book")
    dev, scores = read_pairs("dev.tsv", ("0", "1")), result()["metrics"]["dev"]
    assert opened.evaluate(dev) == opened.evaluate(opened.examples(dev)) == scores
    labels = [pair.label for pair in dev]
    assert result()["threshold"] == ranking(opened.task, labels, opened.logits(dev))[1], "dev's"
    fails(lambda: opened.evaluate([*dev, ("good", "bad")]), f"pair {len(dev) + 1}", "label")
    fails(lambda: opened.evaluate([]), "labels")
    group = [replace(pair, group="new") for pair in dev[3:]]
    assert opened.evaluate(dev[:3] + group) == scores | {"new": opened.evaluate(group)["accuracy"]}
    one, trace = opened.explain("good", "bad book")
    assert one.probabilities == pytest.approx(answers[1].probabilities, abs=1e-6)
    assert trace
    assert opened.explain(texts[1])[0] == one
    fails(lambda: opened.explain(texts), "one pair")


def test_a_run_is_used_elsewhere(trained, tmp_path, monkeypatch, capsys):
    """best.pt is enough. `explain` shows the layer that carries the method."""
    trained(*of("dafa"), "--layers", "1", "--epochs", "1")
    (tmp_path / "elsewhere").mkdir()
    torch.save(put(loaded("run/best.pt"), "recipe device", "cuda:7"), "elsewhere/its.pt")
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr("run.PARSER", write_file(Path(), "new.npz", "another"))
    opened = train.open_run("its.pt", device="cpu", precision="bf16", workers=1)
    with recording() as traces:
        opened.logits([("the dog", "new york")])
    _, trace = opened.explain("the dog", "new york")
    np.testing.assert_array_equal(trace["calibrated"], traces["layer1"]["calibrated"].float())
    assert "the shipped parser: the file has changed" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["dafa", "drrnet", "ladranet"])
def test_opening_a_run(model, trained):
    """The random state stays as it was; a file starts no processes and may be of float16."""
    saved = loaded(trained(*of(model)) / "best.pt")
    halves = {name: x.half() for name, x in saved["weights"].items()}
    saved["settings"] |= {"workers": 100}
    torch.save(saved | {"weights": halves}, "run/best.pt")
    before = torch.get_rng_state()
    opened = train.open_run("run", data_dir=Path("x"), precision=None)
    assert opened.settings.data_dir == "x" and torch.equal(before, torch.get_rng_state())
    for given, words in (({"epochs": 3}, ["--epochs"]), ({"precision": "fp8"}, ["--precision"]),
                         ({"model": Task}, ["model", "Task"])):
        fails(lambda given=given: train.open_run("run", **given), *words)
    assert opened.reader.workers == 0
    weights = opened.model.state_dict()
    assert equal(weights, {name: x.float() for name, x in halves.items()})
    assert {name for name, x in opened.model.named_parameters() if not x.requires_grad} == set()


@pytest.mark.parametrize("model", ["dabert", "ladranet"])
def test_an_encoder_goes_on_from_a_run(model, trained):
    """best.pt is enough; the encoder has no weights of the run's method or classifier."""
    saved = loaded(trained(*of(model)) / "best.pt")
    Path("alone").mkdir()
    Path("run/best.pt").rename("alone/best.pt")
    _, data, network, new = beginning("--bert", "alone")
    new = {name for name in new if "pooler" not in name}  # LadRa-Net does not train it
    for name, x in network.state_dict().items():
        assert name in new or "pooler" in name or torch.equal(x, saved["weights"][name])
    assert new == {"classifier.weight", "classifier.bias"}
    assert data["train"].reader.tokenizer.state() == saved["tokenizer"]
    assert run("--bert", "alone", "--epochs", "1", out="next") == 0
    assert result("next")["recipe"]["bert"] == "alone"
    assert train.open_run("next").predict(("a", "b"))
    torch.save(saved | {"encoder": None}, "alone/best.pt")
    refused("--bert alone/best.pt words", "--bert", "alone", out="new", by=run)


# ---- Tables -------------------------------------------------------------------------------------

def test_scores():
    write_pairs(lambda rng, same: f"{rng.uniform(0, 5):.2f}", train=12, dev=12)
    assert run(*of("drrnet")) == 0 == command("--from", "run", "--predict", "dev.tsv")
    pairs = read_pairs("dev.tsv", ())
    scores = [float(row["prediction"]) for row in rows_of("run/predictions-dev.tsv")]
    expected = pearson([x.label for x in pairs], scores)
    assert result()["metrics"]["dev"]["pearson"] == pytest.approx(expected, abs=1e-5)


def test_three_classes_with_columns_of_their_own(capsys):
    """--limit cuts training alone. Test is read when asked for. A .csv keeps other columns."""
    write_pairs(lambda rng, same: rng.choice("xyz"), train=30, dev=9, test=11)
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        Path(name).write_text(Path(name).read_text().replace("sentence", "q", 2))
    assert run("--columns", "q1,q2,label", "--test-file", "test.tsv", "--test", "--limit", "8") == 0
    tested = result(name="test.json")
    assert result()["metrics"].keys() == {"dev"} and tested["selection_split"] == "dev"
    assert result()["pairs"] == {"train": 8, "dev": 8} and len(losses()) == 2  # a step an epoch
    assert command("--from", "run", "--test") == 0
    assert result(name="test.json") == tested and "test was read before" in capsys.readouterr().out
    test = read_pairs("test.tsv", columns=["q1", "q2", "label"])
    lines = [f'"{pair.a}",{pair.b},"m, n"' for pair in test]
    Path("blind.csv").write_text("\n".join(["left,right,note", *lines]))
    for args in (["blind.csv", "--columns", "left,right"], ["test.tsv"]):
        assert command("--from", "run", "--predict", *args) == 0
    rows, blind = (rows_of(f"run/predictions-{name}") for name in ("test.tsv", "blind.csv"))
    assert {row.pop("note") for row in blind} == {"m, n"} and all(row.pop("label") for row in rows)
    assert [list(row.values()) for row in blind] == [list(row.values()) for row in rows]


def test_a_first_hour(capsys):
    """A name that was downloaded, one table for train and dev, a test file that comes later."""
    shutil.copytree(TINY, "data/bert/a/b@333")
    Path("dev.tsv").unlink()
    assert command(*OWN[:2], *OWN[4:], "--bert", "a/b@333", "--model", "bert", "--held-out", "0.3",
                   "--out", "run") == 0
    out, best = capsys.readouterr().out, result()["threshold"]
    assert "--test-file" in out
    assert f"best f1 of 1 on dev, {100 * best['f1']:.1f}" in out and "roc auc" in out
    refused("--test-file", "--from", "run", "--test")
    assert command("--from", "run", "--test", "--test-file", "test.tsv") == 0
    assert "average precision" in capsys.readouterr().out
    expected = train.open_run("run").evaluate(read_pairs("test.tsv", ("0", "1")))
    assert result(name="test.json")["metrics"] == {"test": expected}
    assert result()["pairs"]["dev"] == 7


def test_no_command_writes_over_a_file_that_it_did_not_make(trained, monkeypatch):
    """Before the first step of a training that was cut off there is nothing to lose."""
    files = {path: path.read_bytes() for path in trained("--test-file", "test.tsv").iterdir()}
    for words, *args in (("run/best.pt resume", *OWN, "--out", "run"),
                         ("run/last.pt --resume", "--resume", "run"),
                         ("--out --predict", "--from", "run", "--out", "x.tsv"),
                         ("tset", "--from", "run", "--predict", "tset")):
        refused(words, *args)
    assert {path: path.read_bytes() for path in Path("run").iterdir()} == files
    for _ in range(2):
        assert command("--from", "run", "--predict", "test.tsv") == 0
    assert rows_of("run/predictions-test.tsv") == rows_of("run/predictions-test-2.tsv")
    before, asked = Path("train.tsv").read_text(), at_call(monkeypatch, Run, "logits", 0)
    for file, out, status in (("test.tsv", "train.tsv", 2), ("test.tsv", "none/new.csv", 2),
                              ("test.tsv", "", 2), ("test.tsv", "new.csv", 0),
                              ("run/predictions-test.tsv", "again.tsv", 2)):  # has predictions
        assert command("--from", "run", "--predict", file, "--out", out) == status
    assert len(asked) == 1  # mistakes are found before the work
    assert Path("train.tsv").read_text() == before and len(rows_of("new.csv")) == 9
    shutil.copytree(TINY, "encoder")
    refused("encoder exists", "--bert", "encoder", out="encoder", by=run)
    with monkeypatch.context() as patch:
        at_call(patch, train, "save_last", 1)
        assert run(out="early") == 130
    assert run("--epochs", "1", out="early") == 0
    monkeypatch.setattr("os.access", lambda *args: False)  # somebody else's folder
    refused("run", "--from", "run", "--test")


def test_a_table_is_labelled_in_parts(trained, monkeypatch, capsys):
    """Rows are written as they come. A wrong row of a file is found before the work."""
    trained()
    text, use = Path("test.tsv").read_text(), ["--from", "run", "--predict"]
    assert command(*use, "test.tsv", "--out", "whole.tsv") == 0
    whole = Path("whole.tsv").read_text()
    monkeypatch.setattr("run.PART", 4)

    def look():
        half, = Path().glob("parts.tsv.*.tmp")
        assert whole.startswith(half.read_text()) and len(rows_of(half)) == 8

    Path("wrong.tsv").write_text(text + "a\tb\n")
    with monkeypatch.context() as patch:
        at_call(patch, Run, "logits", 3, look)
        asked = at_call(patch, Run, "logits", 6)
        assert command(*use, "test.tsv", "--out", "parts.tsv") == 0
        assert command(*use, "test.tsv", "--out", "cut.tsv") == 130
        refused("wrong.tsv:11:", *use, "wrong.tsv")
    assert Path("parts.tsv").read_text() == whole and len(asked) == 6
    assert not [*Path().glob("cut.tsv*")]
    for file, args, lines in (("test.tsv", ["test.tsv", "--out", "-"], 10), ("test.tsv", ["-"], 10),
                              ("wrong.tsv", ["-"], 9)):
        with open(file) as stdin, contextlib.redirect_stdout(io.StringIO()) as stdout:
            monkeypatch.setattr("sys.stdin", stdin)
            assert command(*use, *args) == (0 if lines == 10 else 2)
        assert stdout.getvalue().splitlines() == whole.splitlines()[:lines]
    assert "-:11:" in capsys.readouterr().err.splitlines()[-1] and not Path("-").exists()
    monkeypatch.setattr("sys.stdin", None)
    refused("stdin closed", *use, "-")


# ---- The folder ---------------------------------------------------------------------------------

def test_what_is_missing_or_damaged_gives_one_line(trained):
    """For each damage to a run, one line names the file. No code in a checkpoint is run."""
    best = trained(*of("dafa")) / "best.pt"
    saved, sound = loaded(best), best.read_bytes()
    half = len(sound) // 2  # a byte of the weights
    contents = [sound[:9999], sound[:half] + bytes([sound[half] ^ 1]) + sound[half + 1:], [1],
                {"x": MakesAFolder()}]
    contents += [put(loaded(best), place, value) for place, value in [
        ("settings colour", "red"), ("recipe epochs", "2"), ("encoder", None),
        ("task labels", ("same", "same")), ("prior", {"df": 3}), ("prior sentences", -5),
        ("weights", {"W_gate": torch.ones(1)})]]
    for content in contents:
        if isinstance(content, bytes):
            best.write_bytes(content)
        else:
            torch.save(content, best)
        refused("run/best.pt", "--from", "run", "--predict", "test.tsv")
    assert not Path("made").exists()
    torch.save(saved | {"format": None}, best)
    refused("run/best.pt e5a3c6f", "--from", "run")
    saved["weights"]["classifier.weight"][:] = -math.inf
    torch.save(saved, best)  # opens, because the mask of an own class may have -inf
    fails(lambda: train.open_run("run").predict([("the dog", "new york")]), "dafa", "fp32")
    best.write_bytes(sound)
    sound = result()
    for damage in ({"metrics": 3}, {"id": "another training's"}):
        Path("run/result.json").write_text(json.dumps(sound | damage))
        refused("run/result.json", "--from", "run")


def test_a_training_that_goes_on(monkeypatch, trained_once):
    """Of the log, what last.pt has not reached is written anew. Half files are removed."""
    run_cut(monkeypatch, ["--test-file", "test.tsv"])
    cut, text = Path("cut"), Path("train.tsv").read_text()
    for label in (1 - int(text[-2]), "a new class"):
        Path("train.tsv").write_text(f"{text[:-2]}{label}\n")
        for use in (["--resume", "cut"], ["--from", "cut", "--test"]):
            refused("cut pairs", *use)
    Path("train.tsv").write_text(text)
    Path("mine.py").write_text("def parse(texts):\n    return []\n")
    refused("--parser mine.py:parse", "--resume", "cut", "--parser", "mine.py:parse")
    log = (cut / "log.jsonl").read_bytes()
    for name, place, value in (("last.pt", "progress stop", -1), ("last.pt", "optimizer", {}),
                               ("best.pt", "id", "another"), ("best.pt", "", b""),
                               ("log.jsonl", "", b"\0\0\n" + log)):
        sound = (cut / name).rename("sound")
        if place:
            torch.save(put(loaded(sound), place, value), cut / name)
        elif value:  # else it is missing
            (cut / name).write_bytes(value)
        refused(f"cut/{name}", "--resume", "cut")
        sound.replace(cut / name)
    with open(cut / "log.jsonl", "a") as log:
        log.write('{"step": 3, "epoch": 2, "accuracy": 0}\n{"step": 5, "loss": 0}\n{"step": 5, "lo')
    (cut / "last.pt.7.tmp").touch()
    (cut / "test.json").touch()  # of --from cut --test, before the best epoch
    assert command("--resume", "cut") == 0 and not (cut / "test.json").exists()
    assert_same_run(trained_once(), "cut")


def test_a_folder_is_one_process_s(monkeypatch, capsys):
    """Another process is refused, where folders can be locked; a signal prints how to resume."""
    with monkeypatch.context() as patch:
        at_call(patch, torch.nn.utils, "clip_grad_norm_", 5, lambda: signal.raise_signal(15))
        assert run() == 130
    assert capsys.readouterr().err.strip().endswith("--resume run goes on")
    with runs.lock_folder(Path("run")):
        refused("run another process", "--resume", "run")
    monkeypatch.setattr(fcntl, "flock", lambda *args: os.open("run/best.pt/none", 0))
    assert run("--epochs", "1", out="free") == 0  # a file system without locks raises an OSError
    assert "free: cannot be locked" in capsys.readouterr().out
    assert run("--train-file", "none.tsv", out="new") == 2 and not Path("new").exists()


def test_opening_a_folder_runs_no_code(capsys):
    """Who opens the run names its own code again. The class may hold a tensor of no file."""
    text = ("import pathlib, torch\nfrom semmatch import DafaAttention\n"
            "from support.parses import Parse\npathlib.Path('ran').touch()\n"
            "class Mine(DafaAttention):\n    def __init__(self, *given, **sizes):\n"
            "        super().__init__(*given, **sizes)\n        self.noise = torch.randn(32)\n"
            "    def attend(self, *given):\n        return super().attend(*given) + self.noise\n"
            "def parse(texts):\n    return [Parse(t, [(0, len(t))], ['X'], [0], ['root']) "
            "for t in texts]\n")
    Path("mine.py").write_text(text)
    assert run(*of("mine.py:Mine"), "--parser", "mine.py:parse", "--epochs", "1",
               "--test-file", "test.tsv") == 0
    Path("ran").unlink()
    load_own.cache_clear(), load_file.cache_clear()
    shutil.copy("run/best.pt", "run/last.pt")
    for use in (["--from", "run", "--test"], ["--from", "run"], ["--resume", "run"]):
        refused("model mine.py:Mine no code", *use)
        refused("parser mine.py:parse no code", *use, "--model", "mine.py:Mine")
    assert not Path("ran").exists()
    Path("run/last.pt").unlink()
    Path("elsewhere").mkdir()
    Path("mine.py").rename("elsewhere/mine.py")
    own = {"model": "elsewhere/mine.py:Mine", "parser": "elsewhere/mine.py:parse"}
    for change, again in (("", True), ("x = 1\n", False), ("x = 1\n", True)):
        Path("elsewhere/mine.py").write_text(text + change)
        if again:  # else the code that was loaded before answers
            load_own.cache_clear()
        opened = train.open_run("run", **own)
        assert opened.evaluate(read_pairs("dev.tsv", ("0", "1"))) == result()["metrics"]["dev"]
        warnings = capsys.readouterr().out.count("has changed since training")
        assert warnings == (2 if change and again else 0)
    use = ["--from", "run", "--parser", own["parser"], "--model"]
    assert command(*use, own["model"], "--test") == 0
    refused("best model mine.py:Mine", *use, "elsewhere/mine.py:Other")


def test_nothing_is_cut_or_left_unfinished_in_silence(monkeypatch, capsys):
    lengths = beginning()[1]["train"].lengths
    limit = sorted(lengths)[11]
    run_cut(monkeypatch, ["--max-length", str(limit), "--epochs", "1"],
            (train, "finish_training", 1))
    full = f"train: {sum(n >= limit for n in lengths)} of 22 pairs fill --max-length {limit}; "
    assert full in capsys.readouterr().out
    assert command("--from", "cut", "--predict", "test.tsv") == 0
    out = capsys.readouterr().out
    assert "stopped before its end, in epoch 1 of 1" in out
    assert "--resume" in out and "pairs fill" in out
