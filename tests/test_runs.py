"""run.py: a trained model in use, from Python and by --from; a run's folder."""
import contextlib
import fcntl
import io
import json
import math
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import train
import run as runs
from run import Run
from small_runs import (OWN, ROOT, assert_same_run, at_call, beginning, command, equal, fails,
                        loaded, of, refused, result, rows_of, run, run_cut, write_file, write_pairs)
from support.options import load_file, load_own
from support.pairs import ranking
from support.tables import read_pairs

pytestmark = pytest.mark.usefixtures("workplace")
ROBERTA = "--bert", str(ROOT / "tests/fixtures/tiny_roberta_hf")


@pytest.mark.parametrize("args", [of("bert"), of("drrnet"), [*of("ladranet"), *ROBERTA]])
def test_a_run_in_use(args, trained):
    """It takes tuples, Pairs, Examples; has metrics, also of a group."""
    opened = train.open_run(trained(*args))
    texts = [("the dog", "the dog"), ("good", "bad book")]
    assert opened.predict([]) == []
    fails(lambda: opened.predict(*texts), "change", "bad book")
    dev, scores = read_pairs("dev.tsv", ("0", "1")), result()["metrics"]["dev"]
    assert opened.evaluate(dev) == opened.evaluate(opened.examples(dev)) == scores
    labels = [pair.label for pair in dev]
    assert result()["threshold"] == ranking(opened.task, labels, opened.logits(dev))[1], "dev's"
    fails(lambda: opened.evaluate([*dev, ("good", "bad")]), f"pair {len(dev) + 1}", "label")
    fails(lambda: opened.evaluate([]), "labels")
    group = [replace(pair, group="new") for pair in dev[3:]]
    assert opened.evaluate(dev[:3] + group) == scores | {"new": opened.evaluate(group)["accuracy"]}
    fails(lambda: opened.explain(texts), "one pair")


def test_a_run_is_opened_elsewhere(trained, tmp_path, monkeypatch, capsys):
    """best.pt is enough. It starts no processes, and may be of float16. The random state stays."""
    trained(*of("dafa"), "--layers", "1", "--epochs", "1")
    saved = loaded("run/best.pt")
    saved["recipe"]["device"], saved["settings"]["workers"] = "cuda:7", 100
    halves = {name: x.half() for name, x in saved["weights"].items()}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    torch.save(saved | {"weights": halves}, "its.pt")
    monkeypatch.setattr("run.PARSER", write_file(Path(), "new.npz", "another"))
    before = torch.get_rng_state()
    opened = train.open_run("its.pt", device="cpu", precision="bf16", data_dir=Path("x"))
    assert torch.equal(before, torch.get_rng_state())
    assert opened.reader.workers == 0 and opened.settings.data_dir == "x"
    assert equal(opened.model.state_dict(), {name: x.float() for name, x in halves.items()})
    assert "calibrated" in opened.explain("the dog", "new york")[1]
    assert "the shipped parser: the file has changed" in capsys.readouterr().out
    for name, value in (("epochs", 3), ("precision", "fp8")):
        fails(lambda: train.open_run("its.pt", **{name: value}), f"--{name}")


@pytest.mark.parametrize("model", ["dabert", "ladranet"])
def test_an_encoder_goes_on_from_a_run(model, trained):
    """The encoder has no weights of the run's method or classifier."""
    saved = loaded(trained(*of(model)) / "best.pt")
    _, data, network, new = beginning("--bert", "run")
    new = {name for name in new if "pooler" not in name}  # LadRa-Net does not train it
    for name, x in network.state_dict().items():
        assert name in new or "pooler" in name or torch.equal(x, saved["weights"][name])
    assert new == {"classifier.weight", "classifier.bias"}
    assert data["train"].reader.tokenizer.state() == saved["tokenizer"]
    torch.save(saved | {"encoder": None}, "run/best.pt")
    refused("--bert run/best.pt words", "--bert", "run", out="new", by=run)


def test_three_classes_with_columns_of_their_own(capsys):
    """Test is read when asked for, perhaps another file. A .csv keeps other columns."""
    write_pairs(lambda rng, same: rng.choice("xyz"), train=30, dev=9, test=11, other=7)
    for name in ("train.tsv", "dev.tsv", "test.tsv", "other.tsv"):
        Path(name).write_text(Path(name).read_text().replace("sentence", "q", 2))
    assert run("--columns", "q1,q2,label", "--test-file", "test.tsv", "--test", "--limit", "8") == 0
    assert result()["metrics"].keys() == {"dev"} and result()["pairs"] == {"train": 8, "dev": 8}
    test, other = (read_pairs(name, ("x", "y", "z"), columns=["q1", "q2", "label"])
                   for name in ("test.tsv", "other.tsv"))
    assert command("--from", "run", "--test", "--test-file", "other.tsv") == 0
    assert result(name="test.json")["metrics"]["test"] == train.open_run("run").evaluate(other)
    assert "test was read before" in capsys.readouterr().out
    lines = [f'"{pair.a}",{pair.b},"m, n"' for pair in test]
    Path("blind.csv").write_text("\n".join(["left,right,note", *lines]))
    for args in (["blind.csv", "--columns", "left,right"], ["test.tsv"]):
        assert command("--from", "run", "--predict", *args) == 0
    rows, blind = (rows_of(f"run/predictions-{name}") for name in ("test.tsv", "blind.csv"))
    assert {row.pop("note") for row in blind} == {"m, n"} and all(row.pop("label") for row in rows)
    assert [list(row.values()) for row in blind] == [list(row.values()) for row in rows]


def test_no_command_writes_over_a_file_that_it_did_not_make(trained, monkeypatch):
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
    monkeypatch.setattr("os.access", lambda *args: False)  # somebody else's folder
    refused("run", "--from", "run", "--test")


def test_a_table_is_labelled_in_parts(trained, monkeypatch, capsys):
    """A wrong row of a file is found before the work."""
    trained()
    text, use = Path("test.tsv").read_text(), ["--from", "run", "--predict"]
    assert command(*use, "test.tsv", "--out", "whole.tsv") == 0
    whole = Path("whole.tsv").read_text()
    monkeypatch.setattr("run.PART", 4)
    Path("wrong.tsv").write_text(text + "a\tb\n")
    with monkeypatch.context() as patch:
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


def test_what_is_damaged_gives_one_line(trained):
    """For each damage to a run, one line names the file. Only plain values are unpickled."""
    best = trained(*of("dafa")) / "best.pt"
    saved, sound = loaded(best), best.read_bytes()
    half = len(sound) // 2  # a byte of the weights
    for content in (sound[:9999], sound[:half] + bytes([sound[half] ^ 1]) + sound[half + 1:]):
        best.write_bytes(content)
        refused("run/best.pt", "--from", "run")
    for more in ({"x": Path()}, {"prior": saved["prior"] | {"sentences": -5}},
                 {"weights": {"W_gate": torch.ones(1)}}):
        torch.save(saved | more, best)
        refused("run/best.pt", "--from", "run", "--predict", "test.tsv")
    torch.save(saved | {"format": None}, best)
    refused("run/best.pt e5a3c6f", "--from", "run")
    saved["weights"]["classifier.weight"][:] = -math.inf
    torch.save(saved, best)  # opens, because the mask of an own class may have -inf
    fails(lambda: train.open_run("run").predict([("the dog", "new york")]), "dafa", "fp32")
    best.write_bytes(sound)
    Path("run/result.json").write_text(json.dumps(result() | {"id": "another training's"}))
    refused("run/result.json", "--from", "run")


def test_a_training_that_goes_on(monkeypatch, trained_once, capsys):
    """It is told what was cut. What last.pt has not reached is logged anew. Half files go."""
    limit = str(sorted(beginning()[1]["train"].lengths)[11])
    args = ["--max-length", limit, "--test-file", "test.tsv"]
    run_cut(monkeypatch, args, (train, "finish_training", 1))
    assert f" of 22 pairs fill --max-length {limit}; " in capsys.readouterr().out
    torch.save(loaded("cut/best.pt") | {"epoch": 2}, "cut/best.pt")  # the last one, then
    assert command("--from", "cut", "--predict", "test.tsv") == 0
    out = capsys.readouterr().out
    assert "stopped before its end, in epoch 2 of 2" in out and "pairs fill" in out
    cut, text = Path("cut"), Path("train.tsv").read_text()
    Path("train.tsv").write_text(f"{text[:-2]}{1 - int(text[-2])}\n")  # another label
    for use in (["--resume", "cut"], ["--from", "cut", "--test"]):
        refused("cut pairs", *use)
    Path("train.tsv").write_text(text)
    Path("mine.py").write_text("def parse(texts):\n    return []\n")
    refused("--parser mine.py:parse", "--resume", "cut", "--parser", "mine.py:parse")
    for name, key, value in (("last.pt", "optimizer", {}), ("best.pt", "id", "another")):
        sound = (cut / name).rename("sound")
        torch.save(loaded(sound) | {key: value}, cut / name)
        refused(f"cut/{name}", "--resume", "cut")
        sound.replace(cut / name)
    with open(cut / "log.jsonl", "a") as log:
        log.write('{"step": 3, "epoch": 2, "accuracy": 0}\n{"step": 7, "loss": 0}\n{"step": 7, "lo')
    (cut / "last.pt.7.tmp").touch()
    (cut / "test.json").touch()  # of --from cut --test, before the best epoch
    assert command("--resume", "cut") == 0 and not (cut / "test.json").exists()
    assert_same_run(trained_once(*args), "cut")


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
    """Who opens the run names its own code again."""
    text = ("import pathlib\nfrom semmatch import DafaAttention as Mine\n"
            "from support.parses import Parse\npathlib.Path('ran').touch()\n"
            "def parse(texts):\n    return [Parse(t, [(0, len(t))], ['X'], [0], ['root']) "
            "for t in texts]\n")
    Path("mine.py").write_text(text)
    assert run(*of("mine.py:Mine"), "--parser", "mine.py:parse", "--epochs", "1",
               "--test-file", "test.tsv") == 0
    Path("ran").unlink()
    load_own.cache_clear(), load_file.cache_clear()
    refused("model mine.py:Mine no code", "--from", "run")
    refused("parser mine.py:parse no code", "--from", "run", "--model", "mine.py:Mine")
    assert not Path("ran").exists()
    Path("elsewhere").mkdir()
    own = {"model": "elsewhere/mine.py:Mine", "parser": "elsewhere/mine.py:parse"}
    for change, warnings in (("", 0), ("x = 1\n", 2)):
        Path("elsewhere/mine.py").write_text(text + change)
        load_own.cache_clear()
        opened = train.open_run("run", **own)
        assert opened.evaluate(read_pairs("dev.tsv", ("0", "1"))) == result()["metrics"]["dev"]
        assert capsys.readouterr().out.count("has changed since training") == warnings
    use = ["--from", "run", "--parser", own["parser"], "--model"]
    assert command(*use, own["model"], "--test") == 0
    refused("best model mine.py:Mine", *use, "elsewhere/mine.py:Other")
