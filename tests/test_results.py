"""The tables of docs/results.md and README.md are computed from tests/results."""
import json
import re

import pytest

from experiments import power, report
from small_runs import ROOT
from test_house import source, table


def percent(x):
    return f"{100 * x['mean']:.1f} ({100 * x['std']:.1f})"


def with_interval(change):
    by, low, high = (100 * change[end] for end in ("mean", "low", "high"))
    return f"{by:+.1f} ({low:+.1f} to {high:+.1f})"


@pytest.mark.parametrize("name, split", [
    ("mrpc-planned", "dev"), ("mrpc-planned", "test"),
    ("qqp-planned", "dev"), ("qqp-planned", "test"),
    ("sick-planned", "dev"), ("sick-planned", "test"),
    ("stsb-planned", "dev"), ("stsb-planned", "test")])
def test_tables_of_results_are_those_of_the_files(name, split):
    """A row for each run of tests/results/NAME.json, which experiments.compare wrote: scores, those
    of each seed, the difference from the first row."""
    runs = json.loads(source(f"tests/results/{name}.json"))["runs"]
    seeds = ", ".join(map(str, runs[0]["seeds"]))
    titles, *rows = table("docs/results.md", f"| {name} {split}, seeds {seeds} |")
    for row, run in zip(rows, runs, strict=True):
        (option, value), scores = *run["values"].items(), run["metrics"][split]
        metric, *others = scores
        values = ", ".join(f"{100 * value:.1f}" for value in scores[metric]["values"])
        assert row[0].endswith(f"(`--{option} {value}`)") and run["seeds"] == runs[0]["seeds"]
        assert row[1:3] == [percent(scores[metric]), values]
        assert row[4:-1] == [percent(scores[other]) for other in others]
        if titles[-1].startswith("answers that hang on the method"):
            assert row[-1] == "".join([percent(x) for x in run["influence"].values()][-1:])
        if run is not runs[0]:
            assert row[3] == with_interval(run["difference"][split][metric])


@pytest.mark.parametrize("name, title", [
    ("mrpc", "MRPC"), ("qqp", "QQP"), ("sick", "SICK"), ("stsb", "STS-B")])
def test_short_tables_are_those_of_the_files(name, title):
    """README has the score on test of plain BERT and of the averages, docs/results.md the
    difference; "-" is not run."""
    scores, differences = [], []
    for run in json.loads(source(f"tests/results/{name}-planned.json"))["runs"]:
        metric, score = next(iter(run["metrics"]["test"].items()))
        if run["values"]["model"] == "bert" or "--without fusion" in run["values"]["model"]:
            scores.append(percent(score))
            differences.append(with_interval(run["difference"]["test"][metric]))
    for page, header, expected in (
            ("README.md", "| test | plain BERT |", scores),
            ("docs/results.md", "| test set (pairs) |", [scores[0], *differences[1:]])):
        row, = [row for row in table(page, header) if row[0].startswith(title)]
        assert [cell for cell in row[1:] if cell != "-"] == expected


def test_means_over_the_test_sets_are_those_of_power(capsys):
    """docs/results.md has what experiments.power prints of the four planned tasks: the averages and
    their controls beside plain BERT, and the averages beside their controls. README has a part."""
    def cells(model, against, options=" --layers all --without fusion"):
        against += options if against != "bert" else ""
        power.main([*files, "--split", "test", "--against", against, "--models", model + options])
        rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
        return [f"{row[3]} ({row[4]})" for row in rows[1:6]]  # of four tasks, and their mean

    tasks = "mrpc", "qqp", "sick", "stsb"
    files = [f"{ROOT}/tests/results/{name}-planned.json" for name in tasks]
    beside_published, means = [], []
    own = {row[0]: row[1:] for row in table("docs/results.md", "| own minus others'")}
    for name, title in {"dafa": "DAFA's trees", "knowledge": "knowledge's relations"}.items():
        control = f"experiments/controls.py:Shuffled{name.title()}"
        found = [cells(name, "bert"), cells(control, "bert"), cells(name, control)]
        assert own[title] == found[2]
        means += [found[0][-1], found[1][-1]]
        for mean in (found[0][-1], found[2][-1]):
            pattern = re.escape(mean.removeprefix("+")).replace(r"\ ", "( points)? ", 1)
            assert re.search(pattern, source("README.md")), mean
        power.main([*files, "--split", "test", "--against", name, "--models",
                    f"{name} --layers all --without fusion"])
        row = re.split("  +", capsys.readouterr().out.splitlines()[5])
        beside_published.append(f"{row[3]} ({row[4]})")
    assert ("beside its own published form DAFA's average has {}, knowledge's {}".format(
        *beside_published)) in " ".join(source("docs/results.md").split())
    own_epochs = "ladranet --lr 5e-5 --lr-new 1e-3 --set BETA=60 --epochs 6"
    mean = cells(own_epochs, "bert", "")[-1]
    for place, said in (("README.md", "choose, {}"), ("docs/results.md", "{} over the four:")):
        assert said.format(mean) in " ".join(source(place).split())
    means.append(cells("knowledge", "bert", " --layers all --without fusion,prior")[-1])
    *_, last = table("docs/results.md", "| test set (pairs) |")
    assert [cell for cell in last[1:] if cell] == means


def test_corrected_p_are_those_of_the_plan():
    """docs/results.md has the six questions, their p by Holm, and the smallest of 26 by task."""
    def differences(name, model):
        file = f"{ROOT}/tests/results/{name}-planned.json"
        _, (by_seed,) = power.read_scores([file], "bert", [model], "test")
        return [*by_seed.values()]

    def p_of(*groups):
        return power.p_value(power.pool_tasks(groups), [])

    tasks, options = ("mrpc", "qqp", "sick", "stsb"), " --layers all --without fusion"
    models = ["dabert", "dafa", "knowledge", "ladranet --lr 5e-5 --lr-new 1e-3 --set BETA=60",
              f"dafa{options}", f"knowledge{options}"]
    _, *rows = table("docs/results.md", "| minus plain BERT | MRPC |")
    found = {model: [differences(name, model) for name in tasks] for model in models}
    corrected = power.holm([p_of(*groups) for groups in found.values()])
    for (_, *cells, said, verdict), groups, p in zip(rows, found.values(), corrected, strict=True):
        pooled = [*(power.pool_tasks([x]) for x in groups), power.pool_tasks(groups)]
        halves = [x.error * report.t_quantile(x.freedom) for x in pooled]
        ends = [{"mean": x.mean, "low": x.mean - half, "high": x.mean + half}
                for x, half in zip(pooled, halves)]
        assert cells == [*map(with_interval, ends)]
        assert cells[-1].partition("(")[2] in " ".join(source("README.md").split())
        assert said == (f"{p:.2g}" if p >= 0.001 else "below 0.001")
        kind = "a gain" if pooled[-1].mean > 0 else "a loss"
        assert verdict == (kind if p < 0.05 else "not shown")

    by_task = {(model, name): p_of(x) for model, groups in found.items()
               for name, x in zip(tasks, groups)}
    control = f"experiments/controls.py:ShuffledDafa{options}"
    by_task |= {(control, name): p_of(differences(name, control)) for name in tasks[:2]}
    p = dict(zip(by_task, power.holm([*by_task.values()])))
    text = " ".join(source("docs/results.md").split())
    smallest = sorted(p.values())
    assert len(p) == 26 and smallest[0] >= 0.05
    said = re.search("LadRa-Net's loss on MRPC, (.*?), DAFA's average on MRPC, (.*?), and "
                     r"knowledge's average on STS-B, (.*?), and on MRPC, (\d\.\d+)", text)
    shown = [(models[3], "mrpc"), (models[4], "mrpc"), (models[5], "stsb"), (models[5], "mrpc")]
    assert [f"{p[place]:.3f}" for place in shown] == [*said.groups()]
    assert smallest[:4] == [p[place] for place in shown]
