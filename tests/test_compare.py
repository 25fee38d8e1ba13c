"""experiments.compare and .report: what is run, by whose recipe; numbers, tables and pictures."""
import math
import re
import statistics
from pathlib import Path

import pytest
import torch

import train
from experiments import compare, report
from small_runs import OWN, TINY, assert_same_run, at_call, interrupt, result, run, the_line
from support import runs
from support.files import write_json
from support.options import run_command

pytestmark = pytest.mark.usefixtures("workplace")
GRID = [*OWN, "--epochs", "1", "--bert", TINY, "--limit", "0.5", "--vary", "model", "bert", "dafa",
        "--seeds", "2"]
FILES = "--train-file train.tsv --dev-file dev.tsv --bert scratch"


def command(*args):
    """Exit status of experiments.compare."""
    return run_command(compare.main, "compare", [str(arg) for arg in args])


@pytest.fixture
def faked(monkeypatch):
    """Trainings that only write a result. -> list of their Settings"""
    trained = []

    def train_model(settings, folder, resume):
        trained.append(settings)
        score = (len(trained) % 5) / 5
        found = {"task": settings.task, "model": settings.model, "seed": settings.seed,
                 "best_epoch": 1, "selection_split": "dev", "settings": {"epochs": 1}, "code": {},
                 "metrics": {"dev": {"accuracy": score, "voice": 0.5}}}
        (folder / "log.jsonl").write_text("")
        write_json(folder / "result.json", found)
        return found

    monkeypatch.setattr(train, "train_model", train_model)
    return trained


# ---- Running ------------------------------------------------------------------------------------

def test_a_group_is_its_runs_one_by_one_and_goes_on_where_it_was_cut(monkeypatch, capsys):
    """Every combination is as a run of its own would be; a finished one is not run again."""
    test = ["--test", "--test-file", "test.tsv"]
    assert command(*GRID, *test, "--out", "whole") == 0
    printed, found = capsys.readouterr().out, result("whole", "comparison.json")
    with pytest.raises(ValueError, match="experiments.compare --show whole"):
        train.main(["--from", "whole"])
    first, other = found["runs"]
    for row, model in ((first, "bert"), (other, "dafa")):
        assert row["values"] == {"model": model}
        both = [result(f"whole/model={model},seed={seed}") for seed in row["seeds"]]
        values, others = (x["metrics"]["dev"]["accuracy"]["values"] for x in (row, first))
        assert values == [x["metrics"]["dev"]["accuracy"] for x in both]
        change = row["difference"]["dev"]["accuracy"]["values"]
        assert change == [x - y for x, y in zip(values, others, strict=True)]
        assert report.percent(row["metrics"]["test"]["accuracy"]) in printed
    alone = "--model dafa --limit 0.5 --seed 1 --epochs 1".split()
    assert run(*alone, out="alone") == 0
    assert_same_run("alone", "whole/model=dafa,seed=1")

    monkeypatch.setattr(train, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(train, "LOG_EVERY", 1)
    with monkeypatch.context() as patch:
        at_call(patch, compare, "check_data", 1, interrupt)
        assert command(*GRID, *test, "--out", "none") == 130
    assert "--resume" not in capsys.readouterr().err, "there is no group yet"
    with monkeypatch.context() as patch:
        at_call(patch, torch.nn.utils, "clip_grad_norm_", 6, interrupt)
        assert command(*GRID, *test, "--out", "cut") == 130
    assert "--resume cut" in capsys.readouterr().err
    assert command("--show", "cut") == 0 and "1 of 2 settings" in capsys.readouterr().out
    trained = at_call(monkeypatch, train, "train_model", 0, interrupt)
    assert command("--resume", "cut") == 0 and len(trained) == 2
    assert result("cut", "comparison.json") == found
    assert_same_run("whole/model=dafa,seed=0", "cut/model=dafa,seed=0")


def test_without_options_it_is_bert_beside_dafa(faked, capsys):
    assert command() == 0 and command("--model", "knowledge", "--seeds", "2", "--seed", "5") == 0
    assert [(s.model, s.task, s.bert, s.seed) for s in faked] == [
        ("bert", "toy", "scratch", 0), ("dafa", "toy", "scratch", 0), *(
            (model, "toy", "scratch", seed) for model in ("bert", "knowledge") for seed in (5, 6))]
    assert "difference from bert, 2 seeds" in capsys.readouterr().out
    assert command("--vary", "model", "bert", "--out", "runs/compare-model") == 2
    assert command("--resume", "runs/compare-model", "--lr", "1") == 2 and len(faked) == 6
    assert command("--vary", "without", "none", "tree,gates", "--out", "parts") == 0
    assert [s.without for s in faked[6:]] == ["none", "tree,gates"]
    assert command("--vary", "model", "bert", "dafa", "--vary", "limit", "8", "9") == 0
    assert [(s.model, s.limit) for s in faked[8:]] == [("bert", 8), ("bert", 9), ("dafa", 8),
                                                       ("dafa", 9)]


def test_processes_share_the_runs_of_a_group(faked, capsys):
    """A second one takes what the first does not hold; the last to finish shows all."""
    with runs.lock_folder(Path("group/model=bert,seed=1")):
        assert command("--seeds", "2", "--out", "group") == 0
        assert [(s.model, s.seed) for s in faked] == [("bert", 0), ("dafa", 0), ("dafa", 1)]
        printed = capsys.readouterr().out
        assert re.findall("(.*)\nanother process", printed) == [
            "run 2 of 4: model=bert,seed=1"]
        assert "1 of 2 settings" in printed
        only, = result("group", "comparison.json")["runs"]
        assert only["values"] == {"model": "dafa"} and not only["difference"], "bert is not there"
    assert command("--resume", "group", "--workers", "1") == 0 and len(faked) == 4
    group = result("group", "comparison.json")
    assert len(group["runs"]) == 2
    assert faked[-1].workers == 1 and "workers" not in group["shared"]  # of that process alone
    assert "difference from bert, 2 seeds" in capsys.readouterr().out


def test_each_model_has_its_own_recipe_and_takes_what_it_can(capsys):
    """What no model takes is refused, see below; a method of one's own is a value as any other."""
    Path("mine.py").write_text("from semmatch import DafaAttention as Mine")
    models = ["bert", "drrnet", "ladranet", "dafa", "knowledge", "mine.py:Mine"]
    shared = dict(bert=TINY, layers="all", printed="6", recipe="printed", set="STEPS=2", lr=2e-3)
    found = {s.model: s for _, s in compare.plan_runs([["model", *models]], shared)}
    assert list(found) == models and "--layers all: left out for bert" in capsys.readouterr().out
    fusing, rereading = models[3:], models[1:3]
    for name, takers in {"bert": ["bert", "ladranet", *fusing], "layers": fusing, "set": rereading,
                         "printed": ["drrnet", *fusing], "recipe": ["knowledge"]}.items():
        taken = [model for model in models if getattr(found[model], name) == shared[name]]
        assert taken == takers, name
    assert all(s.lr == 2e-3 for s in found.values()) and found["drrnet"].bert == "none"
    for model, s in compare.plan_runs([["model", *models]], {}):
        assert s == train.Settings(**model)


def test_a_value_may_have_options_of_its_own(faked):
    """They go before the group's; a folder names no code that runs."""
    vary = ["--vary", "model", "bert", "dafa --layers all --without fusion --lr 1e-4", "dafa"]
    assert command(*vary, "--lr", "1e-3") == 0
    found = [(s.model, s.layers, s.without, s.lr) for s in faked]
    assert found == [("bert", "first", "", 1e-3), ("dafa", "all", "fusion", 1e-4),
                     ("dafa", "first", "", 1e-3)]
    group = result("runs/compare-model", "comparison.json")
    group["vary"][0].append("dafa --parser mine.py:parse")
    write_json("runs/compare-model/comparison.json", group)
    assert command("--resume", "runs/compare-model") == 2


def test_a_group_gets_more_rows(faked, capsys):
    """What is done stays; a value that is there already is not there twice. Which class of one's
    own comes, the command says itself; of one that the folder names, it must be said again."""
    Path("mine.py").write_text("from semmatch import DafaAttention as Mine")
    assert command("--out", "group") == 0
    more = ["dabert --lr 1e-4", "bert", "mine.py:Mine"]
    assert command("--resume", "group", "--vary", "model", *more) == 0
    assert [(s.model, s.lr) for s in faked[2:]] == [("dabert", 1e-4), ("mine.py:Mine", 1e-3)]
    group = result("group", "comparison.json")
    assert group["vary"] == [["model", "bert", "dafa", "dabert --lr 1e-4", "mine.py:Mine"]]
    assert len(group["runs"]) == 4 and command("--resume", "group") == 2
    the_line(capsys, "--own mine.py:Mine")
    assert command("--resume", "group", "--own", "mine.py:Mine", "--vary", "lr", "1") == 2
    the_line(capsys, "--vary lr: group varies model")


def test_a_row_that_comes_while_another_process_trains_stays(faked, monkeypatch):
    """Neither process writes over the other's rows, and each trains its own."""
    train_one = train.train_model

    def train_model(settings, folder, saved):
        if len(faked) == 1:  # the first process is at its second run
            monkeypatch.setattr(train, "train_model", train_one)
            assert command("--resume", "group", "--vary", "model", "dabert") == 0
        return train_one(settings, folder, saved)

    monkeypatch.setattr(train, "train_model", train_model)
    assert command("--out", "group", "--vary", "model", "bert", "dafa", "knowledge") == 0
    assert [s.model for s in faked] == ["bert", "knowledge", "dabert", "dafa"]
    group = result("group", "comparison.json")
    assert group["vary"] == [["model", "bert", "dafa", "knowledge", "dabert"]]
    assert [row["values"]["model"] for row in group["runs"]] == group["vary"][0][1:]


def test_the_file_of_a_group_goes_on_in_another_folder(faked):
    """What is done is not trained again, unless test is to be scored as well."""
    assert command("--seeds", "2", "--out", "here") == 0
    group = result("here", "comparison.json")
    group["vary"][0].append("dabert")
    del group["done"]["model=dafa,seed=1"]
    Path("there").mkdir()
    write_json("there/comparison.json", group)
    assert command("--resume", "there") == 0
    assert [(s.model, s.seed) for s in faked[4:]] == [("dafa", 1), ("dabert", 0), ("dabert", 1)]
    again = result("there", "comparison.json")
    assert [row["values"]["model"] for row in again["runs"]] == ["bert", "dafa", "dabert"]
    assert again["runs"][0] == group["runs"][0]
    assert all(len(done["code"]) == 64 for done in again["done"].values())
    assert compare.saved_group("there", {"test": True}, None)[1]["done"] == {}


@pytest.mark.parametrize("args, words", [
    ("--vary modle bert dafa", "--vary modle model?"),
    ("--vary without tree gates --without fusion", "--vary without twice"),
    (f"--vary max-length 48 64 --bert {TINY}", "--max-length 64 48"),
    (f"--vary test-file dev.tsv blind.tsv {FILES} --test", "blind.tsv")])
def test_a_mistake_is_found_before_the_first_run(args, words, faked, capsys):
    Path("blind.tsv").write_text("sentence1\tsentence2\na\tb\n")
    assert command(*args.split()) == 2
    the_line(capsys, words)
    assert not faked and not Path("runs").exists()


# ---- Numbers, tables, pictures ------------------------------------------------------------------

def results_of(*scores, **more):
    """Results of seeds 0, 1, ... with these scores on dev."""
    return [{"task": "mrpc", "seed": seed, "best_epoch": 3, "selection_split": "dev",
             "metrics": {"dev": {"accuracy": score} | more}} for seed, score in enumerate(scores)]


def test_a_difference_and_its_interval():
    first, other = results_of(0.5, 0.75, 0.5), results_of(0.75, 0.5, 1.0, voice=0.5)
    found = report.summarize({"model": "dafa"}, other, first)
    steps = [0.25, -0.25, 0.5]
    half = 4.302653 * statistics.stdev(steps) / math.sqrt(3)
    change = found["difference"]["dev"]["accuracy"]
    assert change["values"] == steps and change["mean"] == pytest.approx(1 / 6)
    assert (change["low"], change["high"]) == pytest.approx((1 / 6 - half, 1 / 6 + half), abs=1e-4)
    assert "voice" not in found["difference"]["dev"], "--limit can cut a phenomenon off"
    assert "voice" in found["metrics"]["dev"]
    del other[1]["metrics"]["dev"]["voice"]
    assert "voice" not in report.summarize({}, other)["metrics"]["dev"], "of every seed, or of none"
    alone = report.summarize({}, other[:1], first[:1])["difference"]["dev"]["accuracy"]
    assert alone == {"mean": 0.25, "low": None, "high": None, "values": [0.25]}


def test_tables():
    """By hand; 12.7062 is Student's t with one degree of freedom. No phenomena in a grid."""
    found = {("bert", "1"): (0.5, 0.75), ("bert", "all"): (0.25, 0.25),
             ("dafa", "1"): (0.75, 1.0), ("dafa", "all"): (0.5, 0.75)}
    group = {"vary": [["model", "bert", "dafa"], ["limit", "1", "all"]], "runs": []}
    for (model, limit), scores in found.items():
        results, first = (results_of(*x, voice=0.5) for x in (scores, found["bert", limit]))
        group["runs"].append(report.summarize({"model": model, "limit": limit}, results, first))
    text = [re.split(r"  +", line) for line in report.format_tables(group).splitlines()]
    assert text == [["model", "1 (dev accuracy)", "all (dev accuracy)"],
                    ["bert", "62.5 (17.7)", "25.0 (0.0)"],  # 17.7 = 25 / √2
                    ["dafa", "87.5 (17.7)", "62.5 (17.7)"], [""],
                    ["difference from bert, 2 seeds, 95 % interval"],
                    ["model", "1 (dev accuracy)", "all (dev accuracy)"],
                    ["dafa", "+25.0 (+25.0 to +25.0)", "+37.5 (-121.3 to +196.3)"]]  # ± t · 12.5


def test_what_hangs_on_a_method_has_a_column():
    """The last change, which takes most out, of the split that chose the epoch; bert has none."""
    first, other = results_of(0.5, 0.75), results_of(0.5, 0.5)
    for found, share in zip(other, (0.25, 0.75)):
        changes = {"no prior": {"answers": 0.0}, "no method": {"answers": share}}
        found["influence"] = {"changes": changes}
    rows = [report.summarize({"model": "bert"}, first, first),
            report.summarize({"model": "dafa"}, other, first)]
    assert rows[0]["influence"] == {} and rows[1]["influence"]["no prior"]["values"] == [0.0, 0.0]
    text = report.format_tables({"vary": [["model", "bert", "dafa"]], "runs": rows}).splitlines()
    assert [re.split(r"  +", line) for line in text[:3]] == [
        ["model, dev", "accuracy", "answers it changes, %"], ["bert", "62.5 (17.7)", ""],
        ["dafa", "50.0 (0.0)", "50.0 (35.4)"]]
