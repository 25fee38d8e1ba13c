"""experiments.compare: which runs are trained; experiments.groups: differences, tables."""
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
import torch

import train
from experiments import compare, groups
from run import lock_folder
from small_runs import OWN, TINY, assert_same_run, at_call, interrupt, result, refused, run
from support.errors import refuse
from support.files import write_json
from support.options import run_command

pytestmark = pytest.mark.usefixtures("workplace")
GRID = [*OWN, "--epochs", "1", "--bert", TINY, "--limit", "0.5", "--vary", "model", "bert", "dafa",
        "--seeds", "2"]


def command(*args):
    return run_command(compare.main, "compare", [str(arg) for arg in args])


def group_of(folder):
    return result(folder, "comparison.json")


@pytest.fixture
def faked(monkeypatch):
    """The list, which grows, of the options of trainings that only write a result."""
    trained = []

    def train_or_resume(given):
        folder = Path(given.get("resume") or given["out"])
        with lock_folder(folder):
            trained.append({"model": "dafa"} | given)
            refuse(given.get("lr") == 9, "the loss is nan")
            scores = {"accuracy": len(trained) % 5 / 5, "voice": 0.5}
            write_json(folder / "result.json", {
                "task": "toy", "positive": "", "best_epoch": 1, "selection_split": "dev",
                "settings": given, "recipe": {}, "influence": None, "metrics": {"dev": scores}})
            (folder / "log.jsonl").touch()

    monkeypatch.setattr(compare, "train_or_resume", train_or_resume)
    return trained


def of(faked, *names):
    return [tuple(given.get(name) for name in names) for given in faked]


def add_rows(folder, *values):
    """Adds values to those that a group in a folder varies, as a user does."""
    group = group_of(folder)
    group["vary"][0] += values
    write_json(Path(folder, "comparison.json"), group)


# ---- Running ------------------------------------------------------------------------------------

def test_a_group_is_its_runs_one_by_one_and_goes_on_where_it_was_cut(monkeypatch, capsys):
    """A run of a group is the same as a run alone. A finished run is not trained again."""
    test = ["--test", "--test-file", "test.tsv"]
    assert command(*GRID, *test, "--out", "whole") == 0
    found = group_of("whole")
    names = [f"{model}-seed{seed}" for model in ("bert", "dafa") for seed in (0, 1)]
    assert [*found["done"]] == names
    for name, done in found["done"].items():
        assert done["metrics"] == (result(f"whole/{name}")["metrics"]
                                   | result(f"whole/{name}", "test.json")["metrics"])
        assert done["curve"] == [done["metrics"]["dev"]["accuracy"]]  # of one epoch
    assert run(*"--model dafa --limit 0.5 --seed 1 --epochs 1".split(), out="alone") == 0
    assert_same_run("alone", "whole/dafa-seed1")

    monkeypatch.setattr(train, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(train, "LOG_EVERY", 1)
    with monkeypatch.context() as patch:
        at_call(patch, torch.nn.utils, "clip_grad_norm_", 6, interrupt)
        assert command(*GRID, *test, "--out", "cut") == 130
    assert "--resume cut " in capsys.readouterr().err  # not that of the run
    assert command("--show", "cut") == 0 and "2 runs are not finished" in capsys.readouterr().out
    trained = at_call(monkeypatch, train, "train_run", 0, interrupt)
    assert command("--resume", "cut") == 0 and len(trained) == 2
    assert group_of("cut") == found
    assert_same_run("whole/dafa-seed0", "cut/dafa-seed0")


def test_what_is_run(faked, capsys):
    """Without --vary: plain BERT and the model. Each combination is run. Tasks are no rows."""
    assert command() == 0 and command(
        *"--model knowledge --seeds 2 --seed 5 --own mine.py:Mine".split()) == 0
    assert of(faked, "model", "seed") == [("bert", 0), ("dafa", 0), ("bert", 5), ("bert", 6),
                                          ("knowledge", 5), ("knowledge", 6)]
    assert "| minus bert " in capsys.readouterr().out
    assert command("--vary", "limit", "8", "9", "--vary", "model", "bert", "dafa") == 0
    assert of(faked[6:], "limit", "model") == [(8, "bert"), (8, "dafa"), (9, "bert"), (9, "dafa")]
    refused("9-seed0 nan", "--vary", "lr", "9", "8", "--out", "group", by=command)
    assert [*group_of("group")["done"]] == ["8-seed0"]  # a run that fails stops no other
    group = compare.new_group({"vary": [["task", "mrpc", "rte"]], "model": "dabert"})[1]
    assert group["vary"] == [["model", "dabert"], ["task", "mrpc", "rte"]]
    group = compare.new_group({"vary": [["task", "mrpc", "rte"], ["lr", "1e-4", "2e-4"]]})[1]
    assert [option for option, *_ in group["vary"]] == ["lr", "task"]


def test_a_group_gets_more_rows(faked):
    """A value's own options win over the group's. Finished runs stay. Code of one's own that the
    folder names must be named again with --own."""
    Path("mine.py").write_text("from semmatch import DafaAttention as Mine\nparse = print\n")
    vary = ["--vary", "model", "bert", "dafa --layers all --without fusion --lr 1e-4", "dafa"]
    assert command(*vary, "--lr", "1e-3", "--out", "group") == 0
    assert of(faked, "model", "layers", "without", "lr") == [
        ("bert", None, None, 1e-3), ("dafa", "all", "fusion", 1e-4), ("dafa", None, None, 1e-3)]
    add_rows("group", "dabert --parser mine.py:parse", "mine.py:Mine")
    refused("--own mine.py:Mine mine.py:parse", "--resume", "group", by=command)
    known = "--resume", "group", "--own", "mine.py:Mine", "mine.py:parse"
    assert command(*known) == 0
    assert of(faked[3:], "model", "parser") == [("dabert", "mine.py:parse"), ("mine.py:Mine", None)]
    names = ["dabert-parser-mine.py-parse-seed0", "mine.py-Mine-seed0"]
    assert [*group_of("group")["done"]][3:] == names
    Path("group/dafa-seed0/log.jsonl").write_text('{"step": 5, "lo')
    refused("dafa-seed0", *known, by=command)


def test_one_process_trains_a_group(faked):
    """A second one is refused, whether the group is new or goes on."""
    assert command("--out", "group") == 0
    with lock_folder(Path("group")), lock_folder(Path("new")):
        refused("group another process", "--resume", "group", by=command)
        refused("new another process", "--out", "new", by=command)
    add_rows("group", "dabert")
    assert command("--resume", "group", "--workers", "1") == 0
    assert of(faked, "model", "workers") == [("bert", None), ("dafa", None), ("dabert", 1)]
    assert "workers" not in group_of("group")["shared"]  # of that process alone


def test_the_file_of_a_group_goes_on_in_another_folder(faked):
    """Finished runs are not trained again, unless for --test. Changed pairs are refused."""
    assert command("--seeds", "2", "--out", "here") == 0
    group = group_of("here")
    group["vary"] = [["model", "bert", "gone", "dafa", "dabert"]]  # this code has no model gone
    group["done"] |= {f"gone-seed{seed}": group["done"]["bert-seed0"] for seed in (0, 1)}
    del group["done"]["dafa-seed1"]
    Path("there").mkdir()
    write_json("there/comparison.json", group)
    assert command("--resume", "there") == 0
    assert of(faked[4:], "model", "seed") == [("dafa", 1), ("dabert", 0), ("dabert", 1)]
    assert group_of("there")["done"].items() >= group["done"].items()
    assert compare.saved_group("there", {"test": True})[1]["done"] == {}
    write_json("there/comparison.json", group | {"pairs": {str(("toy", *[None] * 3, "")): {}}})
    refused("there toy", "--resume", "there", by=command)


@pytest.mark.parametrize("args, words", [
    ("--vary modle bert dafa", "--modle"), ("--vary model bert bert", "bert-seed0"),
    ("--vary lr 1 --vary lr 2", "--vary once"), ("--vary model", "--vary values"),
    ("--vary model bert --seeds 0", "--seeds 0"), ("--seeds 1000000000", "--seeds 1000"),
    ("--vary seed 1 2", "--seed group"),
    ("--vary printed 4 5 --model dafa", "--printed 5"),
    ("--train-file train.tsv --dev-file dev.tsv --test", "labelled test"),
    ("--out done", "--resume done"), ("--out mine", "--out mine"), ("--resume done --lr 1", "lr"),
    ("--resume done --vary lr 1", "own vary"), ("--show done --lr 1", "--show"),
    ("--show done --rows dabert", "dabert bert, dafa"), ("--show damaged.json", "damaged.json"),
    *((f"--show {name}.json", f"{name}.json group")
      for name in ("shared", "seeds", "test", "vary")),
    ("--resume shared", "shared/comparison.json")])
def test_a_mistake_is_found_before_the_first_run(args, words, faked):
    group = {"vary": [["model", "bert", "dafa"]], "shared": {}, "test": False, "done": {}}
    write_json("damaged.json", {"vary": 3})
    for name, value in (("shared", 3), ("seeds", ["x"]), ("test", 3), ("vary", [["model"]])):
        Path(name).mkdir()
        for place in (f"{name}.json", f"{name}/comparison.json"):
            write_json(place, group | {"seeds": [0], name: value})
    Path("mine/dafa-seed0").mkdir(parents=True)  # whose options nobody knows
    Path("done").mkdir()
    write_json("done/comparison.json", group | {"seeds": [0]})
    refused(words, *args.split(), by=command)
    assert not faked and not [*Path().glob("runs/*")]


def test_a_difference_its_interval_p_and_holm():
    """One task: Student's t, 4.302653 with two degrees of freedom, where p has a closed form.
    Several tasks, by hand: the variances of the means are 2 / 2 and 4 / 3, the degrees of freedom
    Welch and Satterthwaite's."""
    steps = [0.25, -0.25, 0.5]
    error = statistics.stdev(steps) / math.sqrt(3)
    found, t = groups.change_of(steps), 1 / 6 / error
    assert found.high - found.mean == pytest.approx(4.302653 * error, abs=1e-4)
    assert found.p == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-5)
    assert groups.change_of([0.1]) == (0.1, None, None, None)
    assert groups.change_of([0.5, 0.5]).p == 0 and groups.change_of([0.0, 0.0]).p == 1

    found = groups.change_of([0.0, 2.0], [1.0, 3.0, 5.0])
    t, below = groups.student_t((1 + 4 / 3) ** 2 / (1 + (4 / 3) ** 2 / 2))
    assert found.high - 2.0 == pytest.approx(np.interp(0.475, below, t) * (7 / 3) ** 0.5 / 2)

    assert groups.holm([0.03, 0.01, 0.04, 0.5]) == pytest.approx([0.09, 0.04, 0.09, 0.5])
    assert groups.holm([0.5, 0.9]) == [1.0, 1.0] and groups.holm([]) == []


# ---- Tables -------------------------------------------------------------------------------------

def write_group(file, task="own", start=0, **rows):
    """Writes a group's file. rows: model -> the scores of the seeds start, start + 1, ..."""
    done = {f"{model}-seed{start + seed}": {
        "task": task, "positive": "y" if model == "bert" else "n", "selection_split": "dev",
        "metrics": {"dev": {"accuracy": score, "voice": 0.5, "f1": 0.5},
                    "unseen": {"accuracy": 0.5, "f1": 0.5, "voice": 0.5}},
        "answers": {} if model == "bert" else
        {"no method": [0.25, 0.75][seed % 2], "no prior": 0.0},
        "curve": [] if model == "dabert" else [0.875, score][:2 - seed]}  # seed 1 ended early
        for model, scores in rows.items() for seed, score in enumerate(scores)}
    write_json(file, {"vary": [["model", *rows]], "shared": {}, "test": False, "done": done,
                      "seeds": [*range(start, start + max(map(len, rows.values())))]})


def shown(capsys, *args):
    """The rows of all tables that --show prints, each a list of cells."""
    assert command("--show", *args) == 0
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines
            if line.startswith("| ") and "---" not in line]


def test_tables_by_hand(capsys):
    """12.7062 is Student's t with one degree of freedom; its p is 2 atan(1 / t) / π. The share of
    answers that change is of the change that takes the whole method out, on dev. All splits have
    one order of columns."""
    write_group("x.json", bert=(0.75, 0.5), dafa=(1.0, 0.75), dabert=(1.0, 0.5))
    titles = ["accuracy", "each seed", "minus bert, 95 % interval", "f1 of class y or n", "voice"]
    tables, half = shown(capsys, "x.json"), ["50.0 (0.0)"] * 2
    assert tables[4] == ["own unseen, seeds 0, 1", *titles]
    assert tables[:4] + tables[8:] == [
        ["own dev, seeds 0, 1", *titles, "answers that change without the method, dev, %"],
        ["bert", "62.5 (17.7)", "75.0, 50.0", "", *half, ""],  # 17.7 = 25 / √2
        ["dafa", "87.5 (17.7)", "100.0, 75.0", "+25.0 (+25.0 to +25.0)", *half, "50.0 (35.4)"],
        ["dabert", "75.0 (35.4)", "100.0, 50.0", "+12.5 (-146.3 to +171.3)", *half, "50.0 (35.4)"],
        ["own dev accuracy, epoch", "1", "2"], ["bert", "87.5 (0.0)", "75.0"],  # it falls
        ["dafa", "87.5 (0.0)", "100.0"], ["dabert", "", ""],
        ["minus bert", "own dev", "p", "p corrected (Holm)"],
        ["dafa", "+25.0 (+25.0 to +25.0)", "below 0.001", "below 0.001"],
        ["dabert", "+12.5 (-146.3 to +171.3)", "0.5", "0.5"]]
    *_, title, row = shown(capsys, "x.json", "--against", "dafa", "--rows", "bert")
    assert title[0] == "minus dafa" and row[:2] == ["bert", "-25.0 (-25.0 to -25.0)"]


def test_one_test_over_several_tasks(capsys):
    """A row has a mean if all tasks have the row."""
    write_group("x.json", bert=(0.25, 0.25), dafa=(0.251, 0.253), dabert=(0.253, 0.255))
    write_group("y.json", "mrpc", bert=(0.25, 0.25), dafa=(0.252, 0.254))
    *_, title, dafa, dabert = shown(capsys, "x.json", "y.json")
    assert title[1:4] == ["x dev", "mrpc (y) dev", "mean"]
    assert dafa[:4] == ["dafa", "+0.2 (-1.1 to +1.5)", "+0.3 (-1.0 to +1.6)",
                        "+0.3 (-0.1 to +0.6)"]  # ± 4.3027 · 0.1 / √2, two degrees of freedom
    assert dabert == ["dabert", "+0.4 (-0.9 to +1.7)", "", "", "", ""]
    write_group("z.json", start=5, bert=(0.25, 0.25), dafa=(0.251, 0.253))  # x's scores by chance
    assert shown(capsys, "x.json", "z.json", "--rows", "dafa")[-1][3] == "+0.2 (-0.1 to +0.5)"
