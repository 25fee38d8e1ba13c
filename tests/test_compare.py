"""experiments.compare: which runs are trained, differences by hand, the table, the picture."""
from pathlib import Path

import pytest
import torch

import train
from experiments import compare
from run import lock_folder
from small_runs import OWN, TINY, assert_same_run, at_call, interrupt, refused, result
from support.files import write_json
from support.options import load_own, run_command

pytestmark = pytest.mark.usefixtures("workplace")
SMALL = [*OWN, "--epochs", "1", "--bert", TINY, "--limit", "0.5"]
GRID = [*SMALL, "--vary", "model", "bert", "dafa", "--seeds", "2"]


def command(*args):
    return run_command(compare.main, "compare", [str(arg) for arg in args])


def test_a_group_goes_on_where_it_was_cut(monkeypatch):
    """The same command, with another seed, trains what is missing, and scores test where it was
    not yet. The runs are those of a group that was not cut."""
    assert command(*GRID, "--test-file", "test.tsv", "--out", "whole") == 0
    monkeypatch.setattr(train, "SAVE_SECONDS", -1.0)
    monkeypatch.setattr(train, "LOG_EVERY", 1)
    with monkeypatch.context() as patch:
        at_call(patch, torch.nn.utils, "clip_grad_norm_", 4, interrupt)
        assert command(*GRID[:-1], 1, "--test-file", "test.tsv", "--out", "cut") == 130
    trained = at_call(monkeypatch, train, "training_loop", 0, interrupt)
    for _ in range(2):
        assert command(*GRID, "--test-file", "test.tsv", "--test", "--out", "cut") == 0
    assert len(trained) == 3  # what is whole is not made again
    assert_same_run("whole/dafa-seed0", "cut/dafa-seed0")
    whole, cut = (result(group, "scores.json")["runs"] for group in ("whole", "cut"))
    for x, y in zip(whole, cut):
        place = f"cut/{y['row']}-seed{y['seed']}"
        assert y["metrics"] == x["metrics"] | result(place, "test.json")["metrics"]
    assert cut[0]["answers"] == {} and "no method" in cut[-1]["answers"]
    assert Path("cut/scores.svg").exists()


def test_what_is_run(monkeypatch, capsys):
    """Every combination is, and what is there is not again. A value's own options win. A task is a
    column, and so is what varies beside the first option."""
    trained = at_call(monkeypatch, train, "training_loop", 0)
    small = [*SMALL, "--out", "G", "--seed", "5", "--vary", "model", "bert", "dafa"]
    assert command(*small, "--seeds", "2") == 0
    small.append("dafa --layers all --without fusion --lr 1e-4")
    refused("G/bert-seed5 lr", *small, "--lr", "2e-3", by=command)
    for workers in (0, 1):  # the second time, all runs are there
        assert command(*small, "--seeds", "3", "--workers", workers) == 0
    assert command("--vary", "task", "toy", "--vary", "limit", 8, 9, "--vary", "model", "bert",
                   "dafa", "--out", "H", "--epochs", "1") == 0
    runs = [run for run, *_ in trained]
    averaged = "dafa-layers-all-without-fusion-lr-1e-4"
    assert [run.folder.name for run in runs] == [
        "bert-seed5", "bert-seed6", "dafa-seed5", "dafa-seed6", "bert-seed7", "dafa-seed7",
        f"{averaged}-seed5", f"{averaged}-seed6", f"{averaged}-seed7",
        "toy-8-bert-seed0", "toy-8-dafa-seed0", "toy-9-bert-seed0", "toy-9-dafa-seed0"]
    for run in runs:
        assert run.folder.name.endswith(f"-seed{run.settings.seed}")
        assert run.settings.model in run.folder.name
    assert [run.settings.layers for run in runs[5:9]] == ["", "all", "all", "all"]
    assert [run.recipe.lr for run in runs[5:9]] == [1e-3, 1e-4, 1e-4, 1e-4]
    assert [run.settings.limit for run in runs[9:]] == [8, 8, 9, 9]
    assert "\ndev | toy, model bert | toy, model dafa | changed\n" in capsys.readouterr().out


def test_another_run_in_the_folder_is_refused():
    """Settings, recipe, pairs, own code; a second process."""
    Path("mine.py").write_text("from semmatch import DafaAttention as Mine\n")
    mine = [*SMALL, "--out", "G", "--vary", "model", "mine.py:Mine"]
    assert command(*mine) == 0
    refused("G/mine.py-Mine-seed0 batch_size 8, not 9; --out", *mine, "--batch-size", "9",
            by=command)
    with lock_folder(Path("G")):
        refused("G another process", *mine, by=command)
    for name, more, words in (("mine.py", "# more\n", "own --out"),
                              ("train.tsv", "a\tb\t1\n", "pairs --out")):
        with open(name, "a") as file:
            file.write(more)
        load_own.cache_clear()
        refused(words, *mine, by=command)
    Path("G/mine.py-Mine-seed0/result.json").unlink()
    refused("printed", *mine, "--printed", "6", by=command)  # of an unfinished run, too


@pytest.mark.parametrize("args, words", [
    ("--vary modle bert dafa", "--modle"), ("--vary model bert bert", "bert-seed0"),
    ("--vary lr 1 --vary lr 2", "--vary once"), ("--vary model", "--vary values"),
    ("--vary task toy", "--vary rows"), ("--vary seed 1 2", "--seed group"),
    ("--vary model bert --seeds 0", "--seeds 0"),
    ("--vary printed 4 5 --model dafa", "5: --printed 5"),
    ("--train-file train.tsv --dev-file dev.tsv --vary model bert --test", "labelled test"),
    ("--show scores.json", "--show --draw")])
def test_a_mistake_is_found_before_the_first_run(args, words):
    refused(words, *args.split(), "--out", "G", by=command)
    assert not Path("G").exists()


def test_exact_p_by_hand():
    """With 1 2 | 2 3, twice the ranks are 2 5 5 8; of six ways the sums 7, 7, 13 and 13 are as far
    as 7 from 10. Of one among three there are three ways, so of two such sets nine: one puts both
    above, one both below. One above and one below is the mean: all ways are as far."""
    assert compare.exact_p([([1, 2], [2, 3])]) == 4 / 6
    assert compare.exact_p([([3], [1, 2]), ([6], [4, 5])]) == 2 / 9
    assert compare.exact_p([([3], [1, 2]), ([4], [5, 6])]) == 1
    assert compare.holm([0.03, 0.01, 0.04, 0.5]) == pytest.approx([0.09, 0.04, 0.09, 0.5])


def test_the_interval_by_hand():
    """4.302653 is Student's t with two degrees of freedom. The variances of the means are 1 / 3 and
    4 / 3, the degrees of freedom Welch's; over two sets half of it."""
    assert compare.t_quantile(2) == pytest.approx(4.302653, abs=1e-4)
    ours, others = [1.0, 2.0, 3.0], [0.0, 2.0, 4.0]
    freedom = (5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2)
    found = compare.change_of([(ours, others), ([5.0, 5.0], [4.0, 4.0])])
    half = compare.t_quantile(freedom) * (5 / 3) ** 0.5 / 2
    assert (found.mean, found.high) == pytest.approx((0.5, 0.5 + half))
    assert compare.change_of([([0.5, 0.5], [0.5, 0.5])]) == (0, 0, 0, 1)


def write_scores(name, split="dev", task="own", **rows):
    """Writes a file of scores. rows: row -> the scores of the seeds 0, 1, ..."""
    runs = []
    for row, scores in rows.items():
        for seed, score in enumerate(scores):
            metrics = {"dev": {"accuracy": 0.5}} | {split: {"accuracy": score, "f1": 0.5}}
            run = {"row": row, "set": task, "selection_split": "dev", "metrics": metrics}
            if row != "bert":
                run["answers"] = {"no method": [0.25, 0.75][seed % 2], "no prior": 0}
            runs.append(run)
    write_json(name, {"runs": runs})


def shown(capsys, *args):
    """(The rows of the table that --show prints, each a list of cells; all its text)."""
    assert command("--show", *args) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines()
            if " | " in line], " ".join(text.split())


def test_the_table_of_one_data_set_by_hand(capsys):
    """17.7 is 25 / √2. Of six ways to deal four scores out one is as high: 2 / 6, and twice as much
    for two rows."""
    write_scores("x.json", bert=(0.75, 0.5), dafa=(1.0, 0.8), dabert=(1.0, 0.5))
    rows, text = shown(capsys, "x.json", "--against", "bert")
    assert rows == [["own dev", "mean", "seeds", "difference", "p", "changed"],
                    ["bert", "62.5 (17.7)", "50.0-75.0", "", "", ""],
                    ["dafa", "90.0 (14.1)", "80.0-100.0", rows[2][3], "0.67", "50.0"],
                    ["dabert", "75.0 (35.4)", "50.0-100.0", rows[3][3], "1", "50.0"]]
    assert rows[2][3].startswith("+27.5 (")
    assert "from bert (95 % interval). p: exact ranks, Holm for 2, 0.67 at the least." in text
    assert shown(capsys, "x.json", "--rows", "dabert", "bert")[0] == [
        ["own dev", "mean", "seeds", "changed"], rows[3][:3] + ["50.0"], rows[1][:3] + [""]]
    refused("no row nix; bert, dafa, dabert", "--show", "x.json", "--against", "nix", by=command)
    refused("named twice", "--show", "x.json", "./x.json", by=command)
    refused("--draw x.json exists", "--show", "x.json", "--draw", "x.json", by=command)


def test_one_table_of_several_files(capsys):
    """Each column has its mean. A row that lacks a column or a second seed has no difference. What
    would be wider than 100 characters is two tables, each with the names of the rows."""
    write_scores("x.json", "test", bert=(0.25, 0.25), dafa=(0.251, 0.253), long=(0.5,))
    write_scores("y.json", "test", task="mrpc", bert=(0.25, 0.25), dafa=(0.252, 0.254))
    rows, text = shown(capsys, "x.json", "y.json", "--against", "bert")
    assert rows == [["test", "own", "mrpc", "difference", "p", "changed"],
                    ["bert", "25.0", "25.0", "", "", ""],
                    ["dafa", "25.2", "25.3", "+0.3 (-0.1 to +0.6)", "0.056", "50.0"],  # 2 / 36
                    ["long", "50.0", "", "", "", "25.0"]]
    refused("--draw seeds", "--show", "x.json", "--rows", "long", "--draw", "x.svg", by=command)
    files = [f"{i}.json" for i in range(9)]
    for file in files:
        write_scores(file, task=f"data {file}", bert=(0.25, 0.5), dafa=(0.5, 0.5), one=(0.5,))
    rows = shown(capsys, *files, "--against", "bert")[0]
    assert [row[0] for row in rows] == ["dev", "bert", "dafa", "one"] * 2 and rows[-1][-3] == ""
    assert rows[0][1:] + rows[4][1:] == [*(f"data {x}" for x in files), *rows[4][-3:]]
    write_json("w.json", {"runs": [{"row": "bert"}]})
    refused("w.json scores", "--show", "w.json", by=command)
