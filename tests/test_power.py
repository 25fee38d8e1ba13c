"""experiments.power: paired differences over seeds and pairs, and how many seeds are needed."""
import numpy as np
import pytest

from experiments import power, report
from small_runs import of, result, run
from support.files import write_json

pytestmark = pytest.mark.usefixtures("workplace")
N = 40
LABELS = np.arange(N) % 2
WRONG = np.where(np.arange(N) < 10, 1 - LABELS, LABELS)     # a quarter of the answers


@pytest.mark.parametrize("freedom, expected", [
    (1, 12.7062), (4, 2.7764), (9, 2.2622), (30, 2.0423)])
def test_t_quantile_is_the_printed_table(freedom, expected):
    assert report.t_quantile(freedom) == pytest.approx(expected, abs=2e-4)


def cell(task, model, theirs, ours):
    return (task, model), "accuracy", LABELS, np.array(theirs), np.array(ours), range(len(ours))


def test_the_bootstrap_draws_seeds_and_pairs():
    """Half of the spread is that of a share of pairs, half that of two seeds; nothing is nothing.
    """
    same, better = cell("x", "same", [WRONG] * 2, [WRONG] * 2), cell("x", "m", [WRONG] * 2,
                                                                     [LABELS] * 2)
    seeds = cell("x", "seeds", [LABELS] * 2, [WRONG, LABELS])
    drawn = power.bootstrap([same, better, seeds], 4000)
    assert drawn.shape == (4000, 3) and (drawn[:, 0] == 0).all()
    assert abs(drawn[:, 1].mean() - 0.25) < 0.005
    assert abs(drawn[:, 1].std() - (0.25 * 0.75 / N) ** 0.5) < 0.005        # of a binomial share
    assert abs((drawn[:, 2] == 0).mean() - 0.25) < 0.03                     # twice the better seed
    # One draw of pairs for a task: the first seed's share twice is what `better` lost.
    twice = drawn[:, 2] == -drawn[:, 1]
    assert abs(twice.mean() - 0.25) < 0.03
    other = power.bootstrap([better, cell("y", "m", [WRONG] * 2, [LABELS] * 2)], 50)
    assert (other[:, 0] != other[:, 1]).any()                               # another task, anew


def test_how_many_seeds_show_half_a_point():
    """((1.960 + 0.842) s / 0.005)² + 1.960² / 2: s = 0.01 asks for 31.4 + 1.9."""
    assert power.seeds_needed(power.pool_tasks([[0.01, 0.02, 0.03]]).deviation) == 34
    assert power.seeds_needed(0.0) == 2
    assert power.seeds_needed(power.pool_tasks([[0.1]]).deviation) is None


def test_tasks_have_seeds_of_their_own():
    """By hand: variances 1 and 4 of 2 and 3 seeds; the same of one task is Student's t. The order
    of a task's seeds says nothing.
    """
    first, second = [0.0, 2 ** 0.5], [1.0, 3.0, 5.0]
    found = power.pool_tasks([first, second])
    assert found.mean == pytest.approx((0.5 ** 0.5 + 3) / 2)
    assert found.deviation == pytest.approx(5 ** 0.5 / 2)
    assert found.error == pytest.approx((1 / 2 + 4 / 3) ** 0.5 / 2)
    assert found.freedom == pytest.approx((1 / 2 + 4 / 3) ** 2 / ((1 / 2) ** 2 + (4 / 3) ** 2 / 2))
    assert power.pool_tasks([first, second[::-1]]) == pytest.approx(found)
    alone = power.pool_tasks([second])
    assert alone == pytest.approx((3.0, 2.0, 2 / 3 ** 0.5, 2.0))
    assert power.pool_tasks([[0.25, 0.25]])[1:] == (0.0, 0.0, 1)


def test_p_and_its_correction():
    """t = 12.7062 of one degree of freedom has p 0.05; the larger of two counts. Holm by hand."""
    found = power.Pooled(12.7062, 1.0, 1.0, 1)
    assert power.p_value(found, np.zeros(0)) == pytest.approx(0.05, abs=1e-5)
    assert power.p_value(found, np.array([-1.0, 1.0, 1.0, 1.0])) == 0.5
    assert power.p_value(power.pool_tasks([[0.1]]), np.zeros(0)) is None
    assert power.p_value(power.pool_tasks([[0.5, 0.5]]), np.zeros(0)) == pytest.approx(0, abs=1e-5)
    assert power.holm([0.03, 0.01, 0.04, 0.5]) == pytest.approx([0.09, 0.04, 0.09, 0.5])
    assert power.holm([0.5, 0.9]) == [1.0, 1.0]


def test_rows_of_models_and_of_all():
    keys, found = [("x", "m"), ("y", "m"), ("y", "k")], [{0: 0.25}, {0: -0.25}, {0: 0.25}]
    rows = power.table_rows(keys, found, np.arange(6.0).reshape(2, 3))
    assert [row[0] for row in rows] == [("x", "m"), ("y", "m"), ("y", "k"), ("all tasks", "m"),
                                        ("all tasks", "all models")]
    assert [row[2].tolist() for row in rows[2:]] == [[2.0, 5.0], [0.5, 3.5], [1.0, 4.0]]
    found = [{0: 0.25, 1: 0.75}, {2: 0.5, 1: -0.25}, {1: 0.5}]      # by seed, not by place
    rows = power.table_rows(keys, found, np.arange(6.0).reshape(2, 3))
    assert [row[1] for row in rows] == [[[0.25, 0.75]], [[0.5, -0.25]], [[0.5]],
                                        [[0.25, 0.75], [-0.25, 0.5]], [[0.25, 0.75], [0.125]]]


def test_runs_of_two_models(capsys):
    for model in ("bert", "dabert"):
        for seed in (0, 1):
            assert run(*of(model), "--seed", seed, "--epochs", 1, "--test-file", "train.tsv",
                       "--test", out=f"runs/{model}{seed}") == 0
    for split, file in (("dev", "result.json"), ("test", "test.json")):
        capsys.readouterr()
        power.main(["runs", "--split", split, "--resamples", "200"])
        a, b = ([result(f"runs/{model}{seed}", file)["metrics"][split]["accuracy"]
                 for seed in (0, 1)] for model in ("bert", "dabert"))
        change = 50 * (sum(b) - sum(a))
        row = capsys.readouterr().out.splitlines()[1].split()[:4]
        assert row == ["own", "dabert", "2", f"{change:+.1f}"]
    with pytest.raises(ValueError, match="another run of bert on own, seed 0"):
        power.main(["runs", "runs/bert0"])


def test_files_of_groups_have_rows_by_seed_alone(capsys):
    """0.1 and 0.3 points of DAFA and 0.3, 0.5 of DABERT are 0.2 and 0.4 of both."""
    def group(first, *changes):
        rows = [{"values": {"model": model}, "task": "own", "selection_split": "dev",
                 "seeds": [0, 1], "difference": {}, "metrics": {"dev": {"accuracy": {
                     "mean": 0.0, "std": 0.0, "values": [0.25 + x for x in values]}}}}
                for model, values in ((first, (0.0, 0.0)), *changes)]
        return {"vary": [["model", "bert", "dafa"]], "runs": rows}

    write_json("x.json", group("bert", ("dafa", (0.001, 0.003)), ("dabert", (0.003, 0.005))))
    assert power.main(["x.json"]) is None
    *_, last = capsys.readouterr().out.splitlines()
    # ± 12.706 times 0.1 points; (2.802 · 0.1414 / 0.5)² + 1.92 = 2.55; t = 3: 2 atan(1 / 3) / π
    assert last.split() == "all tasks all models 2 +0.3 -1.0 to +1.6 0.205 3".split()
    power.main(["x.json", "--models", "dabert"])
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["x", "dabert", "2", "+0.4"]
    power.main(["x.json", "--against", "dafa", "--models", "dabert"])
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["x", "dabert", "2", "+0.2"]
    write_json("y.json", group("bert", ("dafa", (0.002, 0.004))))
    power.main(["x.json", "y.json", "--models", "dafa"])  # own files, so two tasks
    assert [row.split()[:4] for row in capsys.readouterr().out.splitlines()[1:4]] == [
        ["x", "dafa", "2", "+0.2"], ["y", "dafa", "2", "+0.3"], ["all", "tasks", "dafa", "2+2"]]
    for args in ("--against drrnet", "--models knowledge", "--split test"):
        with pytest.raises(ValueError, match=args.split()[1]):
            power.main(["x.json", *args.split()])
