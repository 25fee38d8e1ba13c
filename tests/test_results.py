"""Each number of docs/results.md, and of README's answer, from tests/results."""
import itertools
import json
import math

import numpy as np
import pytest

from experiments import groups
from small_runs import ROOT
from test_house import source

GROUPS = {path.stem: groups.read_group(path) for path in (ROOT / "tests/results").glob("*.json")}
PANELS = {name: groups.find_panels(group) for name, group in GROUPS.items()}
TASKS = {"mrpc": "MRPC", "qqp": "QQP", "sick": "SICK", "stsb": "STS-B"}
FOUR = {task: PANELS[f"{task}-planned"][0] for task in TASKS}
SETS = [*FOUR.values()]
(MED,), (FEW, MANY), (MORE,) = (PANELS[x] for x in ("med-planned", "paws-planned", "paws-more"))
AVERAGE, CONTROLS = " --layers all --without fusion", "experiments/controls.py:"
LADRANET = "ladranet --lr 5e-5 --lr-new 1e-3 --set BETA=60"
DAFA, KNOWLEDGE = f"dafa{AVERAGE}", f"knowledge{AVERAGE}"
OTHER_TREES, OTHER_RELATIONS = (f"{CONTROLS}Shuffled{x}{AVERAGE}" for x in ("Dafa", "Knowledge"))
NO_RELATIONS = f"{KNOWLEDGE},prior"
LIKENESS, ALIGNED = NO_RELATIONS, "tutorials/mine.py:Aligned --layers all"
(HELPS,), (FIRST,) = PANELS["paws-aligned"], PANELS["paws-first"]
(READ,), (RANDOM,) = PANELS["paws-read"], PANELS["paws-random"]
SIX = [PANELS[f"{task}-aligned"][0] for task in TASKS]
TREES, OTHERS = (f"{CONTROLS}{x}SharpTrees --layers all --set HEADS=half" for x in ("", "Others"))
# What the page calls a row -> its value behind --vary model
ROWS = {"DABERT": "dabert", "DAFA": "dafa", "knowledge": "knowledge", "LadRa-Net": LADRANET,
        "DAFA averaged": DAFA, "knowledge averaged": KNOWLEDGE}
RESULTS = "docs/results.md", "docs/log.md"


def text_of(page):
    return " ".join(source(page).split()).replace(" points (", " (")


def table(start, page=None):
    """The rows of the table whose header has this start, each a list of cells."""
    text = source(page) if page else "\n".join(map(source, RESULTS))
    lines = text[text.index(f"\n{start}") + 1:].splitlines()
    header, _, *rows = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (header, *rows)]


def change(row, against="bert", panels=SETS, split="test"):
    """The groups.Change of a row over these panels."""
    return groups.change_of(*(groups.differences(panel, split, against)[row]
                               for panel in panels))


def points(row, against="bert", panels=SETS, split="test"):
    """The text of `change`."""
    return groups.points(change(row, against, panels, split))


def scores(panel, row, split="test"):
    return groups.scores_of(panel.rows[row], split, panel.metric)


def mean(panel, row, split="test"):
    """Text of mean (standard deviation) over the seeds."""
    return groups.percent(scores(panel, row, split))


def means(panel, *rows):
    """Texts of means alone."""
    return [mean(panel, row).split()[0] for row in rows]


def assert_page_says(sentences):
    """sentences: [(sentence of RESULTS with {} in the place of numbers, numbers)]"""
    text = " ".join(map(text_of, RESULTS))
    for sentence, numbers in sentences:
        assert sentence.format(*numbers) in text, sentence.format(*numbers)


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_has_all_its_runs_and_no_other(name):
    """No finished run that no table shows, and no run is missing."""
    group = GROUPS[name]
    runs = itertools.product(groups.combinations(group), group["seeds"])
    assert group["done"].keys() == {groups.name_of(values, seed) for values, seed in runs}


def test_table_of_the_six_questions():
    """Differences, p corrected for six, the verdict, and the mean over the dev sets."""
    _, plain, *rows = table("| minus plain BERT | MRPC |")
    assert plain[1:5] == [mean(panel, "bert") for panel in SETS]
    lines = groups.difference_table(SETS, "bert", [*ROWS.values()])
    expected = {row[0]: [*row[1:6], row[7]] for row in lines}
    for (name, *cells, verdict, dev), (title, row) in zip(rows, ROWS.items(), strict=True):
        assert name == title and cells == expected[row] and dev == points(row, split="dev")
        shown = "a gain" if change(row).mean > 0 else "a loss"
        assert verdict == (shown if float(cells[-1].split()[-1]) < 0.05 else "not shown")


def test_verdicts():
    """The numbers of the verdicts, and of README's answer."""
    text = text_of("docs/results.md")
    text = text[text.index("## Verdicts"):text.index("## The table")]
    places = [text.index(points(row)) for row in ROWS.values()]
    assert places[0] < places[1] < places[4] < places[2] < places[5] < places[3]
    for row in DAFA, KNOWLEDGE:
        assert f"dev sets show less, {points(row, split='dev')}" in text \
            or f"dev sets as well, {points(row, split='dev')}" in text
    assert f"is shown, {points(f'{LADRANET} --epochs 6')}." in text
    whole, mrpc = (change(DAFA, panels=panels).mean for panels in (SETS, [FOUR["mrpc"]]))
    assert "More than half of this gain is MRPC's" in text and 0.5 < mrpc / 4 / whole < 0.6
    _, *rows = table("| method | with the fusion, repaired |", "README.md")
    assert [row[:2] for row in rows] == [[name, points(ROWS[name])] for name in [*ROWS][:4]]
    assert [row[2] for row in rows[1:3]] == [points(DAFA), points(KNOWLEDGE)]
    knowledge, none = (100 * change(row).mean for row in (KNOWLEDGE, NO_RELATIONS))
    assert f"{knowledge:.1f}" == f"{none:.1f}"  # "gains as much"
    shipped = json.loads(source("assets/english/result.json"))["metrics"]["dev-paws"]["accuracy"]
    assert f"{100 * shipped:.1f} % of PAWS's development pairs rightly" in text_of("README.md")


def test_what_the_papers_report():
    """Our rows of the table in docs/papers.md are the means of the table in docs/results.md."""
    _, *rows = table("| | where | MRPC |", "docs/papers.md")
    ours = [row for row in rows if row[0].startswith("ours: ")]
    for (name, _, *cells), (title, row) in zip(ours, [*ROWS.items()][:4], strict=True):
        panels = [FOUR[task] for task in ("mrpc", "qqp", "stsb", "sick")]
        assert name == f"ours: {title}"
        assert cells == [points(row, panels=[panel]).split()[0] for panel in panels]


def test_controls():
    """Differences of the averages and their controls from plain BERT, and from one another."""
    header, *rows = table("| test set (pairs) |")
    columns = [value for value in FOUR["mrpc"].rows if "--without fusion" in value]
    assert len(header) == len(columns) + 2
    for (task, panel), row in zip(FOUR.items(), rows):
        assert row[0].startswith(TASKS[task]) and row[1] == mean(panel, "bert")
        assert row[2:] == [points(value, panels=[panel]) for value in columns]
    assert rows[4][2:] == [points(value) for value in columns] and len(rows) == 5
    pairs = [(DAFA, OTHER_TREES), (KNOWLEDGE, OTHER_RELATIONS), (KNOWLEDGE, NO_RELATIONS)]
    _, *rows = table("| own minus | MRPC |")
    for row, pair in zip(rows, pairs, strict=True):
        assert row[1:] == [*(points(*pair, [panel]) for panel in SETS), points(*pair)]


def test_what_a_trained_model_uses():
    """Means of the influence, on dev."""
    changes = {"method": "no method", "trees": "no prior", "relations": "no prior",
               "re-reading": "no re-reading"}
    _, *rows = table("| without | MRPC |")
    for title, *cells in rows:
        name, part = title.split(": ")
        assert cells == [groups.percent([result["answers"][changes[part]]
                                          for result in panel.rows[ROWS[name]]])
                         for panel in SETS]


def test_med():
    """Relations minus plain BERT, others' and none, on test and dev; p corrected for four."""
    wider = f"{CONTROLS}WiderKnowledge{AVERAGE}"
    asked = {"own relations minus plain BERT": (KNOWLEDGE, "bert"),
             "own minus other pairs' relations": (KNOWLEDGE, OTHER_RELATIONS),
             "own minus no relations": (KNOWLEDGE, NO_RELATIONS),
             "wider alone minus none": (wider, NO_RELATIONS)}
    _, *rows = table("| MED | test |")
    corrected = groups.holm([change(*pair, [MED]).p for pair in asked.values()])
    for row, (title, pair), p in zip(rows, asked.items(), corrected, strict=True):
        assert row == [title, points(*pair, [MED]), groups.as_p(p), points(*pair, [MED], "dev")]
    assert_page_says([
        ("has {} on test, with another pair's {}, with none {}, with wider words alone {}, plain "
         "BERT {}", means(MED, KNOWLEDGE, OTHER_RELATIONS, NO_RELATIONS, wider, "bert")),
        ("nothing either, {}", [points(KNOWLEDGE, NO_RELATIONS, [MED])])])


def test_paws():
    """Trees with ten and twenty epochs, p corrected for four; dev after each epoch."""
    asked = "bert", OTHER_TREES
    ps = groups.holm([change(DAFA, against, [panel]).p for panel in (FEW, MANY)
                       for against in asked])
    _, plain, *rows = table("| PAWS, test |")
    assert plain[1::2] == [mean(FEW, "bert"), mean(MANY, "bert"), mean(MANY, "bert", "dev")]
    for row, against, *p in zip(rows, asked, ps[:2], ps[2:], strict=True):
        assert row[1::2] == [points(DAFA, against, [panel], split)
                             for panel, split in ((FEW, "test"), (MANY, "test"), (MANY, "dev"))]
        assert row[2::2] == [groups.as_p(x) for x in p]
    header, *rows = table("| PAWS, dev after epoch |")
    for row, curve in zip(rows, groups.curve_table(MANY)[1:], strict=True):
        assert row[1:] == [curve[int(epoch)].split()[0] for epoch in header[1:]]


def test_paws_other_questions():
    """Seven rows, p corrected for these; the numbers in sentences."""
    values = [value for value in MORE.rows if value != "bert"]
    corrected = [line[-1] for line in groups.difference_table([MORE], "bert")[1:]]
    _, *rows = table("| minus plain BERT | test |")
    for row, value, p in zip(rows, values, corrected, strict=True):
        assert row[1:] == [points(value, "bert", [MORE]), p, points(value, "bert", [MORE], "dev")]

    def without_trees(panel, row):
        return f"{100 * np.mean([x['answers']['no prior'] for x in panel.rows[row]]):.1f} %"

    _, one, knowledge, none, *_ = values
    low, _, high = PANELS["paws-rates"]
    fewest, third = PANELS["paws-less"]
    averages = {knowledge: MORE.rows[knowledge], DAFA: FEW.rows[DAFA][:5], one: MORE.rows[one]}
    raw = [unpaired(scores(MORE, row), scores(FEW, "bert")).p for row in (knowledge, none)]
    assert all(min(scores(MORE, row)) > max(scores(FEW, "bert")) for row in (knowledge, none))
    ranks = 7 * 2 / math.comb(15, 5)  # five seeds above ten: one order of 3,003, on each side
    assert_page_says([
        ("Welch's p is below 0.001 with relations and {:.3f} without, and exact ranks have {:.3f}.",
         [7 * raw[1], ranks]),
        ("gain is {:+.1f} over ten epochs of plain BERT, {:+.1f} over twenty.",
         [100 * unpaired(scores(MORE, knowledge), scores(panel, "bert")).mean
          for panel in (FEW, MANY)]),
        ("own trees are worth {} over others', in the runs of ten epochs {}.",
         [groups.points(of_curves(lambda x: x[2], panel, OTHER_TREES)) for panel in (MANY, FEW)]),
        ("its answers on dev change (ten epochs: {}).", [without_trees(FEW, DAFA)]),
        ("without its trees {} of its", [without_trees(MANY, DAFA)]),
        ("hardly uses these: {} change.", [without_trees(MANY, OTHER_TREES)]),
        ("at {}, and as high without relations, at {}:", [mean(MORE, knowledge), mean(MORE, none)]),
        ("BERT lie {:.1f} points apart.", [100 * np.ptp(scores(MORE, "bert"))]),
        ("lowest seed of knowledge, {:.1f}, is above the highest of these ten, {:.1f}, and of ten "
         "with twice the epochs, {:.1f}.", [100 * x for x in (
             min(scores(MORE, knowledge)), max(scores(FEW, "bert")), max(scores(MANY, "bert")))]),
        ("trees in it has {} beside", [points(one, DAFA, [MORE._replace(rows=averages)])]),
        ("At 5e-5 plain BERT has {} and DAFA averaged {}.", means(low, "bert", DAFA)),
        ("With 3,000 plain BERT has {}, DAFA averaged {}, others' trees {}.",
         means(third, "bert", DAFA, OTHER_TREES)),
        ("all are near 55.8: {}, {}, {}.", means(fewest, "bert", DAFA, OTHER_TREES)),
        ("better end is not shown either, {}.", [points(DAFA, panels=[MANY])])])
    assert 7 * raw[0] < 0.001
    assert max(map(float, means(high, "bert", DAFA))) < 56.3  # the larger class has 55.8


def of_curves(number, panel, against):
    """groups.Change of a number of dev's curve, between DAFA averaged and a row."""
    both = ([number(x["curve"]) for x in panel.rows[row]] for row in (DAFA, against))
    return groups.change_of([x - y for x, y in zip(*both)])


def unpaired(a, b):
    """groups.Change of mean a minus mean b by Welch's test, because the scores of different models'
    seeds are no pairs."""
    half = groups.change_of(a, [-x for x in b])  # of two: the mean of both means
    return groups.Change(*(2 * x for x in half[:3]), half.p)


def test_paws_learns_faster():
    """The mean of the curve on dev over all epochs."""
    _, *rows = table("| PAWS, mean of the curve on dev |")
    for row, against in zip(rows, ("bert", OTHER_TREES), strict=True):
        found = [of_curves(np.mean, panel, against) for panel in (FEW, MANY)]
        assert row[1:] == [text for x in found for text in (groups.points(x), f"{x.p:.2g}")]


def exact_p(a, b):
    """Two-sided p of Mann and Whitney's test: the share of all ways to choose len(a) of the scores
    whose sum of ranks is as far from the mean as a's. Equal scores share the mean of their ranks.
    """
    scored = np.array([*a, *b])
    twice = [int((scored < x).sum() * 2 + (scored == x).sum() + 1) for x in scored]
    ways = [{0: 1}, *({} for _ in a)]  # number of chosen scores -> twice their sum -> ways
    for rank in twice:
        for chosen in range(len(a), 0, -1):
            for total, count in ways[chosen - 1].items():
                ways[chosen][total + rank] = ways[chosen].get(total + rank, 0) + count
    middle = sum(twice) * len(a) / len(scored)
    far = abs(sum(twice[:len(a)]) - middle)
    return sum(count for total, count in ways[-1].items() if abs(total - middle) >= far) / sum(
        ways[-1].values())


def test_exact_ranks_by_hand():
    """Of the 20 ways to choose three of six, one puts all three above, one below. With 1 2 | 2 3,
    twice the ranks are 2 5 5 8; of six ways the sums 7, 7, 13 and 13 are as far as 7 from 10.
    """
    assert exact_p([4, 5, 6], [1, 2, 3]) == 2 / 20
    assert exact_p([1, 2], [2, 3]) == 4 / 6


def gap(a, b):
    """The text of `unpaired`."""
    return groups.points(unpaired(a, b))


def test_the_part_that_helps():
    """PAWS's rows, the seven questions, the four other sets."""
    slower, = PANELS["paws-slower"]
    best = max((np.mean(scores(panel, "bert", "dev")), scores(panel, "bert"))
               for panel in (HELPS, FEW, slower, MANY))[1]
    assert best == scores(MANY, "bert")  # of three settings, the best on dev
    rows = "bert", LIKENESS, ALIGNED, TREES, OTHERS
    plain, likeness, aligned, trees, others = (scores(HELPS, row) for row in rows)
    header, *lines = table("| PAWS, ten epochs | test |")
    curves = {row: np.mean([x["curve"] for x in HELPS.rows[row]], 0) for row in rows}
    for line, row in zip(lines, rows, strict=True):
        ends = [f"{100 * end(scores(HELPS, row)):.1f}" for end in (min, max)]
        assert line[1:] == [mean(HELPS, row), *ends,
                            *(f"{100 * curves[row][int(epoch) - 1]:.1f}" for epoch in
                              [cell.split()[-1] for cell in header[4:]])]
    four = {row: np.mean([scores(panel, row) for panel in SIX], 0).tolist() for row in rows[:3]}
    asked = [(likeness, best), (aligned, best), (likeness, aligned), (trees, aligned),
             (trees, others), (four[LIKENESS], four["bert"]), (four[ALIGNED], four["bert"])]
    corrected = groups.holm([exact_p(*pair) for pair in asked])
    _, *lines = table("| question | difference |")
    for line, pair, p in zip(lines, asked, corrected, strict=True):
        assert line[1:] == [gap(*pair), groups.as_p(p)]
    _, plain_row, *lines = table("| test, six seeds |")
    assert plain_row[1:5] == [mean(panel, "bert") for panel in SIX]
    for line, row in zip(lines, (LIKENESS, ALIGNED), strict=True):
        assert line[1:] == [*(gap(scores(panel, row), scores(panel, "bert")) for panel in SIX),
                            gap(four[row], four["bert"])]
    runs = [json.loads(line) for line in source("tests/results/copies.jsonl").splitlines()]
    seeds = {row: [x for x in runs if x["model"] == row] for row in ("bert", ALIGNED)}
    assert [[x["seed"] for x in found] for found in seeds.values()] == 2 * [HELPS.seeds]
    ends = [x["attention"][-1] for x in seeds["bert"]]
    curve = [x["curve"][-1] for x in HELPS.rows["bert"]]
    low, high = (sorted(zip(ends, curve))[i] for i in (2, 3))
    assert max(curve[i] for i in range(10) if ends[i] <= low[0]) < min(
        curve[i] for i in range(10) if ends[i] >= high[0])
    fifteen = scores(MORE, NO_RELATIONS) + likeness
    without_mrpc = [np.mean([scores(panel, row) for panel in SIX[1:]], 0).tolist()
                    for row in (ALIGNED, "bert")]
    assert_page_says([
        ("test it scores {}, in ten seeds; plain BERT {}, and {} after twenty epochs",
         [mean(HELPS, ALIGNED), mean(HELPS, "bert"), mean(MANY, "bert")]),
        ("lowest seed, {:.1f}, is above the highest of twenty of plain BERT with ten epochs, "
         "{:.1f}, and of ten with twenty, {:.1f}.", [100 * x for x in (
             min(aligned), max(plain + scores(FEW, "bert")), max(best))]),
        ("likeness scored {}, and the averaged knowledge method with WordNet {}. All fifteen seeds "
         "of likeness have {}, and p beside Aligned is {:.2f}.",
         [*(mean(MORE, row) for row in (NO_RELATIONS, KNOWLEDGE)), groups.percent(fifteen),
          exact_p(fifteen, aligned)]),
        ("at its best**, {}. The", [gap(trees, best)]),
        ("these are {:.1f} points below", [-100 * unpaired(others, plain).mean]),
        ("Without MRPC, Aligned has {}:", [gap(*without_mrpc)]),
        ("at {}, plain BERT at {}, and likeness had {} (", means(FIRST, ALIGNED, "bert", LIKENESS)),
        ("its rate of 5e-5 has {} with five seeds and ten epochs", [mean(slower, "bert")]),
        ("correlation of {:.2f} with its accuracy on dev", [np.corrcoef(ends, curve)[0, 1]]),
        ("gives its copy {:.2f} of its attention in Aligned's best head",
         [np.mean([x["calibrated"][-1] for x in seeds[ALIGNED]])]),
        ("from {:.2f} to {:.2f} in plain BERT's", [min(ends), max(ends)])])


def test_an_encoder_that_has_read():
    """Readings, PAWS's rows after reading, two questions, the control, baselines, README."""
    readings = [json.loads(line) for line in source("tests/results/readings.jsonl").splitlines()]
    copies, (random_pairs,) = readings[:-1], readings[-1:]
    assert [x["reading"]["seed"] for x in copies] == [50, 51, 52, 53, 54, 55]
    _, *lines = table("| six readings |")
    numbers = [lambda x: x["right"], lambda x: max(x["copies"])]
    for cells, number in zip(lines, numbers, strict=True):
        for cell, when in zip(cells[1:], ("before", "after"), strict=True):
            found = [100 * number(x[when]) for x in copies]
            assert cell == f"{np.mean(found):.1f} ({min(found):.1f} to {max(found):.1f})"
    minutes = [x["seconds"] / 60 for x in copies]
    spent = f"{min(minutes):.0f} to {max(minutes):.0f} minutes"
    plain, aligned = (scores(READ, row) for row in ("bert", ALIGNED))
    _, *lines = table("| PAWS, after reading | test |")
    for line, row in zip(lines, ("bert", ALIGNED), strict=True):
        ends = [f"{100 * end(scores(READ, row)):.1f}" for end in (min, max)]
        curve = np.mean([x["curve"] for x in READ.rows[row]], 0)
        assert line[1:] == [mean(READ, row), *ends, *(f"{100 * x:.1f}" for x in curve)]
    asked = [(plain, scores(MANY, "bert")), (aligned, plain)]
    corrected = groups.holm([*(exact_p(*pair) for pair in asked), 1.0, 1.0, 1.0])  # 3 have no runs
    _, *lines = table("| question, after reading | difference |")
    for line, pair, p in zip(lines, asked, corrected):
        assert line[1:] == [gap(*pair), groups.as_p(p)]
    (control,) = RANDOM.rows["bert"]
    counted = [json.loads(x) for x in source("tests/results/baselines.jsonl").splitlines()]
    _, *lines = table("| no encoder is fine-tuned | PAWS, dev |")
    for line, (name, *numbers) in zip(lines, (x.values() for x in counted), strict=True):
        cells = [f"{100 * np.mean(x):.1f}" for x in numbers]
        assert line == [name, *cells, *["not run"] * (4 - len(cells))]
    assert_page_says([
        ("A reading took {} on one thread", [spent]),
        ("has {:.1f} on test, dev after each epoch {}.", [
            100 * control["metrics"]["test"]["accuracy"],
            ", ".join(f"{100 * x:.1f}" for x in control["curve"])]),
        ("gives a copy {:.1f} % of a piece's attention", [
            100 * max(random_pairs["after"]["copies"])])])
    _, *lines = table("| accuracy on PAWS's test |", "README.md")
    best, unread = mean(MANY, "bert"), mean(HELPS, ALIGNED)
    assert lines == [["plain BERT", f"{best}, twenty epochs, best of three settings",
                      mean(READ, "bert")], ["`aligned`", f"{unread}, ten epochs",
                                            mean(READ, ALIGNED)]]
    readme = text_of("README.md")
    assert spent in readme and f"scores {cells[1]}. So a high score" in readme


def test_controls_of_likeness():
    """On MRPC, on a CPU."""
    panel, = PANELS["mrpc-cpu"]
    _, *rows = table("| MRPC, CPU |")
    for cells, row in zip(rows, panel.rows, strict=True):
        difference = gap(scores(panel, row), scores(panel, "bert")) if row != "bert" else ""
        assert cells[1:] == [mean(panel, row), difference]
    two = scores(panel, f"{CONTROLS}TwoPlain --layers all --without fusion")
    found = unpaired(scores(panel, LIKENESS), two)
    assert_page_says([("average: {:+.1f}, from {:+.1f} to {:+.1f});",
                       [100 * x for x in (found.mean, *found[1:3])])])


def test_the_pairs_of_the_lessons():
    panel, = PANELS["mrpc-2000"]
    _, *rows = table("| MRPC, 2,000 pairs |")
    for cells, row in zip(rows, panel.rows, strict=True):
        assert cells[1:] == [*(f"{100 * x:.1f}" for x in scores(panel, row, "dev")),
                             mean(panel, row, "dev")]


def test_p_by_task():
    """The smallest p of the 26 differences by task; those of own minus others' trees."""
    asked = [*itertools.product(ROWS.values(), TASKS), (OTHER_TREES, "mrpc"), (OTHER_TREES, "qqp")]
    corrected = groups.holm([change(row, panels=[FOUR[task]]).p for row, task in asked])
    p = dict(zip(asked, corrected, strict=True))
    least = [p[LADRANET, "mrpc"], p[DAFA, "mrpc"], p[KNOWLEDGE, "stsb"], p[KNOWLEDGE, "mrpc"]]
    assert sorted(corrected)[:4] == least and min(corrected) >= 0.05
    pairs = [(DAFA, OTHER_TREES), (KNOWLEDGE, OTHER_RELATIONS)]
    both = [change(*pair).p for pair in pairs]
    eight = groups.holm([change(*pair, [panel]).p for pair in pairs for panel in SETS])
    assert eight.index(min(eight)) == 3
    assert_page_says([
        ("LadRa-Net's loss on MRPC, {:.3f}, DAFA averaged on MRPC, {:.3f}, and knowledge averaged "
         "on STS-B, {:.3f}, and on MRPC, {:.3f}", least)])
    _, mean_of_four, stsb = table("| own trees minus others' | p |")
    assert mean_of_four == [f"mean of the four, {100 * change(*pairs[0]).mean:+.1f}",
                            f"{both[0]:.2f}", f"{groups.holm(both)[0]:.2f}, for two methods"]
    assert stsb[1:] == [f"{change(*pairs[0], [FOUR['stsb']]).p:.2f}",
                        f"{min(eight):.2f}, for eight differences"]


def test_numbers_in_sentences():
    """Means without MRPC, on dev, and what was asked after the results."""
    three, six = [FOUR[task] for task in ("qqp", "sick", "stsb")], f"{LADRANET} --epochs 6"
    printed = [f"{model} --printed {number}" for model, number in
               (("dabert", 7), ("dafa", 9), ("knowledge", 8))]
    assert_page_says([
        ("DAFA averaged has {} on test and {} on dev; knowledge averaged has {} and {}.",
         [points(row, panels=three, split=split) for row in (DAFA, KNOWLEDGE)
          for split in ("test", "dev")]),
        ("own trees are worth {}.", [points(DAFA, OTHER_TREES, split="dev")]),
        ("QQP and STS-B, DAFA averaged has {} and knowledge averaged {}.",
         [points(row, panels=[FOUR["qqp"], FOUR["stsb"]]) for row in (DAFA, KNOWLEDGE)]),
        ("DAFA averaged has {}, knowledge {}; on dev {} and {}.",
         [points(f"{row}{AVERAGE}", row, split=split) for split in ("test", "dev")
          for row in ("dafa", "knowledge")]),
        ("Six have {} on MRPC, {} on QQP, {} on SICK, {} on STS-B, and {} over the four.",
         [*(points(six, panels=[panel]) for panel in SETS), points(six)]),
        ("on MRPC's test DABERT has {}, DAFA {}, knowledge {}; on SICK's {}, {} and {}.",
         [points(row, panels=[FOUR[task]]) for task in ("mrpc", "sick") for row in printed])])
