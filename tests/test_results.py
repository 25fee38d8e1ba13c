"""Each number of docs/results.md's tables, of README's and of the picture, from tests/results."""
import itertools
import re

import pytest

from experiments import compare
from small_runs import ROOT

TASKS = {"mrpc": "MRPC", "qqp": "QQP", "sick": "SICK", "stsb": "STS-B"}
GROUPS = {name: compare.read_group(ROOT / f"tests/results/{name}-planned.json") for name in TASKS}
PANELS = {name: compare.find_panels(group)[0] for name, group in GROUPS.items()}
AVERAGE, CONTROLS = " --layers all --without fusion", "experiments/controls.py:Shuffled"
LADRANET = "ladranet --lr 5e-5 --lr-new 1e-3 --set BETA=60"


def source(page):
    return (ROOT / page).read_text("utf-8")


def text_of(page):
    return " ".join(source(page).split())


def table(page, start):
    """The rows of the table whose header starts so, each a list of cells, the header first."""
    text = source(page)
    lines = text[text.index(f"\n{start}") + 1:].splitlines()
    header, _, *rows = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (header, *rows)]


def over_tasks(row, against="bert", tasks=TASKS):
    """The Change of a row over these test sets."""
    return compare.change_of(*(compare.differences(PANELS[name], "test", against)[row]
                               for name in tasks))


@pytest.mark.parametrize("name", TASKS)
def test_a_group_has_all_its_runs_and_no_other(name):
    """No finished run that no table shows, none lost."""
    group = GROUPS[name]
    assert [*group["done"]] == [compare.name_of(values, seed)
                                for values in compare.combinations(group)
                                for seed in group["seeds"]]


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("name", TASKS)
def test_tables_of_scores(name, split):
    """A row for each run: scores, those of each seed, the difference from plain BERT, the meter."""
    (_, *titles), *expected = compare.score_table(PANELS[name], split, "bert")
    header, *rows = table("docs/results.md", f"| {name}-planned {split}, seeds 0, 1, 2, 3, 4 |")
    assert len(header) == len(titles) + 1
    for row, (value, *cells) in zip(rows, expected, strict=True):
        assert row[0].endswith(f"(`--model {value}`)") and row[1:] == cells


@pytest.mark.parametrize("name, title", TASKS.items())
def test_short_tables(name, title):
    """README has the scores on test of plain BERT and of the averages, docs/results.md what they
    differ by."""
    _, *rows = compare.score_table(PANELS[name], "test", "bert")
    rows = [row for row in rows if row[0] == "bert" or "--without fusion" in row[0]]
    scores, changes = [row[1] for row in rows], [row[3] for row in rows]
    for page, header, expected in (
            ("README.md", "| test | plain BERT |", scores),
            ("docs/results.md", "| test set (pairs) |", [scores[0], *changes[1:]])):
        row, = [row for row in table(page, header) if row[0].startswith(title)]
        assert row[1:] == expected


def test_means_over_the_test_sets():
    """The averages and their controls beside plain BERT, and the averages beside their controls."""
    own = {row[0]: row[1:] for row in table("docs/results.md", "| own minus others'")}
    means, beside_published = [], []
    for name, title in {"dafa": "DAFA's trees", "knowledge": "knowledge's relations"}.items():
        row, control = name + AVERAGE, f"{CONTROLS}{name.title()}{AVERAGE}"
        assert own[title] == compare.difference_table([*PANELS.values()], control, [row])[1][1:6]
        means += [compare.points(over_tasks(x)) for x in (row, control)]
        beside_published.append(compare.points(over_tasks(row, name)))
        for mean in (means[-2], own[title][-1]):
            said = re.escape(mean.removeprefix("+")).replace(r"\ ", "( points)? ", 1)
            assert re.search(said, source("README.md")), mean
    means.append(compare.points(over_tasks(f"knowledge{AVERAGE},prior")))
    *_, last = table("docs/results.md", "| test set (pairs) |")
    assert [cell for cell in last[1:] if cell] == means
    assert ("beside its own published form DAFA's average has {}, knowledge's {}".format(
        *beside_published)) in text_of("docs/results.md")
    mean = compare.points(over_tasks(f"{LADRANET} --epochs 6"))
    assert f"choose, {mean}" in text_of("README.md")
    assert f"{mean} over the four:" in text_of("docs/results.md")


def test_p_of_the_plan():
    """Six questions, their p by Holm, and the smallest of 26 by task."""
    models = ["dabert", "dafa", "knowledge", LADRANET, f"dafa{AVERAGE}", f"knowledge{AVERAGE}"]
    _, *expected = compare.difference_table([*PANELS.values()], "bert", models)
    expected = {row[0]: [*row[1:6], row[7]] for row in expected}
    _, *rows = table("docs/results.md", "| minus plain BERT | MRPC |")
    for (_, *cells, verdict), model in zip(rows, models, strict=True):
        assert cells == expected[model]
        assert cells[-2].partition("(")[2] in text_of("README.md")
        kind = "a gain" if over_tasks(model).mean > 0 else "a loss"
        assert verdict == (kind if float(cells[-1].split()[-1]) < 0.05 else "not shown")

    asked = [*itertools.product(models, TASKS), (f"{CONTROLS}Dafa{AVERAGE}", "mrpc"),
             (f"{CONTROLS}Dafa{AVERAGE}", "qqp")]
    corrected = compare.holm([over_tasks(model, tasks=[name]).p for model, name in asked])
    p = dict(zip(asked, corrected, strict=True))
    said = re.search("LadRa-Net's loss on MRPC, (.*?), DAFA's average on MRPC, (.*?), and "
                     r"knowledge's average on STS-B, (.*?), and on MRPC, (\d\.\d+)",
                     text_of("docs/results.md"))
    shown = [(models[3], "mrpc"), (models[4], "mrpc"), (models[5], "stsb"), (models[5], "mrpc")]
    assert [f"{p[place]:.3f}" for place in shown] == [*said.groups()]
    assert sorted(corrected)[:4] == [p[place] for place in shown] and min(corrected) >= 0.05


def test_the_picture(tmp_path):
    files = [str(ROOT / f"tests/results/{name}-planned.json") for name in TASKS]
    compare.show_groups(files, picture=tmp_path / "found.svg")
    assert (tmp_path / "found.svg").read_text("utf-8") == source("docs/differences.svg")
