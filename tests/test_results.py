"""Each number of docs/results.md, of docs/papers.md's own rows and of README's answer, from
tests/results."""
import itertools
import json

import numpy as np
import pytest

from experiments import groups
from small_runs import ROOT
from test_house import source

GROUPS = {path.stem: groups.read_group(path) for path in (ROOT / "tests/results").glob("*.json")}
PANELS = {name: groups.find_panels(group) for name, group in GROUPS.items()}
TASKS = "mrpc", "qqp", "sick", "stsb"
FOUR = {task: PANELS[f"{task}-planned"][0] for task in TASKS}
SIX = {task: PANELS[f"{task}-aligned"][0] for task in TASKS}
(HELPS,), (READ,), (RANDOM,) = (PANELS[f"paws-{name}"] for name in ("aligned", "read", "random"))
(MRPC_READ,), (MRPC_UNREAD,) = PANELS["mrpc-read"], PANELS["mrpc-unread"]
(TEN, TWENTY), (SLOWER,), (MORE,) = (PANELS[f"paws-{x}"] for x in ("planned", "slower", "more"))
AVERAGE, CONTROLS = " --layers all --without fusion", "experiments/controls.py:"
LADRANET = "ladranet --lr 5e-5 --lr-new 1e-3 --set BETA=60"
DAFA, KNOWLEDGE = f"dafa{AVERAGE}", f"knowledge{AVERAGE}"
OTHER_TREES, OTHER_RELATIONS = (f"{CONTROLS}Shuffled{x}{AVERAGE}" for x in ("Dafa", "Knowledge"))
LIKENESS, ALIGNED = f"{KNOWLEDGE},prior", "tutorials/mine.py:Aligned --layers all"
TREES, OTHERS = (f"{CONTROLS}{x}SharpTrees --layers all --set HEADS=half" for x in ("", "Others"))
# What the page calls a row -> its value behind --vary model
ROWS = {"DABERT": "dabert", "DAFA": "dafa", "knowledge": "knowledge", "LadRa-Net": LADRANET,
        "DAFA averaged": DAFA, "knowledge averaged": KNOWLEDGE}


def table(start, page="docs/results.md"):
    """The rows below the header that has this start, each a list of cells without its title."""
    text = source(page)
    lines = text[text.index(f"\n{start}") + 1:].splitlines()
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[2:])
    return [[cell.strip() for cell in row.strip("|").split("|")][1:] for row in rows]


def assert_page_says(sentences, page="docs/results.md"):
    """sentences: [(sentence of the page with {} in the place of numbers, numbers)]"""
    text = " ".join(source(page).split()).replace(" points (", " (")
    for sentence, numbers in sentences:
        assert sentence.format(*numbers) in text, sentence.format(*numbers)


# ---- Differences seed by seed, of rows that share their seeds -----------------------------------

def change(row, against="bert", panels=(), split="test"):
    """The groups.Change of a row over these panels, or over the four of the plan."""
    return groups.change_of(*(groups.differences(panel, split, against)[row]
                               for panel in panels or FOUR.values()))


def points(*args, **options):
    """The text of `change`."""
    return groups.points(change(*args, **options))


def scores(panel, row="bert", split="test"):
    return groups.scores_of(panel.rows[row], split, panel.metric)


def mean(*args):
    """Text of mean (standard deviation) over the seeds."""
    return groups.percent(scores(*args))


def mean_of(panels, row):
    """The mean of these data sets for each seed."""
    return np.mean([scores(panel, row) for panel in panels], 0).tolist()


# ---- Differences of rows with other seeds -------------------------------------------------------

def unpaired(a, b):
    """groups.Change of mean a minus mean b by Welch's test."""
    half = groups.change_of(a, [-x for x in b])  # of two: the mean of both means
    return groups.Change(*(2 * x for x in half[:3]), half.p)


def gap(a, b):
    """The text of `unpaired`."""
    return groups.points(unpaired(a, b))


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


def questions(asked, count):
    """Cells of the table of questions. asked: pairs of lists of scores; Holm's method for `count`
    of them, those without runs having p 1."""
    corrected = groups.holm([*(exact_p(*pair) for pair in asked), *[1.0] * (count - len(asked))])
    return [[gap(*pair), groups.as_p(p)] for pair, p in zip(asked, corrected)]


def curves(panel, rows, epochs):
    """Cells of PAWS's tables: test, its lowest and highest seed, dev after these epochs."""
    cells = []
    for row in rows:
        ends = [f"{100 * end(scores(panel, row)):.1f}" for end in (min, max)]
        curve = 100 * np.mean([result["curve"] for result in panel.rows[row]], 0)
        cells.append([mean(panel, row), *ends, *(f"{curve[epoch - 1]:.1f}" for epoch in epochs)])
    return cells


# ---- The pages ----------------------------------------------------------------------------------

@pytest.mark.parametrize("name", GROUPS)
def test_a_group_has_all_its_runs_and_no_other(name):
    """No finished run that no table shows, and no run is missing."""
    group = GROUPS[name]
    runs = itertools.product(groups.combinations(group), group["seeds"])
    assert group["done"].keys() == {groups.name_of(values, seed) for values, seed in runs}


def test_an_encoder_that_has_read():
    """PAWS and MRPC after reading, four questions, the control, baselines; README's table."""
    plain, aligned, unread = scores(READ), scores(READ, ALIGNED), scores(HELPS, ALIGNED)
    assert table("| PAWS, after reading |") == curves(READ, ("bert", ALIGNED), range(1, 6))
    news, matched = scores(MRPC_READ), scores(MRPC_READ, ALIGNED)
    assert table("| MRPC, three epochs |", "docs/log.md") == [
        *curves(MRPC_UNREAD, ["bert"], range(1, 4)),
        *curves(MRPC_READ, ("bert", ALIGNED), range(1, 4))]
    asked = [(plain, scores(TWENTY)), (aligned, plain), (news, scores(MRPC_UNREAD)),
             (matched, news)]
    assert table("| question, after reading |") == questions(asked, 5)
    baselines = [json.loads(x) for x in source("tests/results/baselines.jsonl").splitlines()]
    rows = table("| no encoder is fine-tuned |")
    for cells, baseline in zip(rows, baselines, strict=True):
        found = [f"{100 * np.mean(x):.1f}" for x in [*baseline.values()][1:]]
        assert cells == found + ["not run"] * (4 - len(found))
    readings = [json.loads(x) for x in source("tests/results/readings.jsonl").splitlines()]
    minutes = [reading["seconds"] / 60 for reading in readings[:-1]]  # the last: random pairs
    spent = f"took {min(minutes):.0f} to {max(minutes):.0f} minutes"
    assert_page_says([
        ("is shown, {}.", [gap(plain, unread)]),
        ("still gain on top**, {}. Without reading their gain was {}.",
         [gap(aligned, plain), gap(unread, scores(TWENTY)).split()[0]]),
        ("BERT has {}, the larger class", [mean(RANDOM).split()[0]])])
    assert rows[0][1] == mean(RANDOM).split()[0] and rows[3][1] == mean(READ).split()[0]
    assert table("| accuracy on PAWS's test |", "README.md") == [
        [f"{mean(TWENTY)}, twenty epochs, best of three settings", mean(READ)],
        [f"{mean(HELPS, ALIGNED)}, ten epochs", mean(READ, ALIGNED)]]
    assert_page_says([("a reading {} of", [spent]), ("order, scores {} on PAWS", [rows[3][1]]),
                      ("`aligned` is {} above plain", [gap(aligned, plain)]),
                      ("on MRPC (reading {}, from {}; `aligned` after it {})",
                       [*gap(news, scores(MRPC_UNREAD)).rstrip(")").split(" ("),
                        gap(matched, news).split()[0]])], "README.md")


def test_verdicts():
    """The numbers of the verdicts, and of README's answer."""
    med, = PANELS["med-planned"]
    assert_page_says([
        ("nothing either, {}.", [points(KNOWLEDGE, LIKENESS, [med])]),
        ("After six no difference is shown, {}.", [points(f"{LADRANET} --epochs 6")])])
    assert 0.5 < change(DAFA, panels=[FOUR["mrpc"]]).mean / 4 / change(DAFA).mean < 0.6
    averages = {points(row).split()[0] for row in (KNOWLEDGE, LIKENESS, OTHER_RELATIONS)}
    assert len(averages) == 1                              # "as large", without WordNet
    assert_page_says([("gains {} over plain BERT", [points("knowledge")]),
                      ("simpler form gains {}:", [points(KNOWLEDGE)])], "README.md")
    shipped = json.loads(source("assets/english/result.json"))["metrics"]["dev-paws"]["accuracy"]
    assert_page_says([("{:.1f} % of PAWS's development", [100 * shipped])], "README.md")


def test_equal_words_without_reading():
    """PAWS's rows, seven questions, the four other sets."""
    best = max((np.mean(scores(panel, "bert", "dev")), scores(panel))
               for panel in (HELPS, TEN, SLOWER, TWENTY))[1]
    assert best == scores(TWENTY)  # of three settings, the best on dev
    rows = "bert", LIKENESS, ALIGNED, TREES, OTHERS
    plain, likeness, aligned, trees, others = (scores(HELPS, row) for row in rows)
    assert table("| PAWS, ten epochs |") == curves(HELPS, rows, (3, 5, 10))
    four = {row: mean_of(SIX.values(), row) for row in rows[:3]}
    asked = [(likeness, best), (aligned, best), (likeness, aligned), (trees, aligned),
             (trees, others), (four[LIKENESS], four["bert"]), (four[ALIGNED], four["bert"])]
    assert table("| question | difference |") == questions(asked, 7)
    cells = [[*(gap(scores(panel, row), scores(panel)) for panel in SIX.values()),
              gap(four[row], four["bert"])] for row in (LIKENESS, ALIGNED)]
    plain_row = [*(mean(panel) for panel in SIX.values()), ""]
    assert table("| test, six seeds |") == [plain_row, *cells]
    older = scores(MORE, LIKENESS)
    three = [SIX[task] for task in ("qqp", "sick", "stsb")]
    assert_page_says([
        ("were run, twenty epochs: {}.", [mean(TWENTY)]),
        ("scores {} on QQP and {} on MRPC.", [mean(SIX["qqp"]), mean(SIX["mrpc"])]),
        ("lowest seed, {:.1f}, is above the highest of twenty of plain BERT with ten epochs, "
         "{:.1f}, and of ten with twenty, {:.1f}.",
         [100 * x for x in (min(aligned), max(plain + scores(TEN)), max(best))]),
        ("likeness scored {}; all fifteen have {}, and p beside Aligned is {:.2f}.",
         [groups.percent(older), groups.percent(older + likeness),
          exact_p(older + likeness, aligned)]),
        ("do harm, {:.1f} points below", [-100 * unpaired(others, plain).mean]),
        ("plain BERT at its best, {}.", [gap(trees, best)]),
        ("Without MRPC, Aligned has {}:", [gap(mean_of(three, ALIGNED), mean_of(three, "bert"))])])


def test_table_of_the_six_questions():
    """Differences, p corrected for six, the verdict, and the mean over the dev sets."""
    plain, *rows = table("| minus plain BERT | MRPC |")
    assert plain[:4] == [mean(panel) for panel in FOUR.values()]
    lines = {line[0]: line for line in groups.difference_table(
        [*FOUR.values()], "bert", [*ROWS.values()])}
    for (*cells, verdict, dev), row in zip(rows, ROWS.values(), strict=True):
        *differences, _, p = lines[row][1:]
        shown = "a gain" if change(row).mean > 0 else "a loss"
        assert cells == [*differences, p] and dev == points(row, split="dev")
        assert verdict == (shown if float(p.split()[-1]) < 0.05 else "not shown")
    asked = [*itertools.product(ROWS.values(), TASKS), (OTHER_TREES, "mrpc"), (OTHER_TREES, "qqp")]
    each = groups.holm([change(row, panels=[FOUR[task]]).p for row, task in asked])
    assert len(asked) == 26 and min(each) >= 0.05


def test_controls():
    """A pair's own trees or relations minus another pair's, or none."""
    pairs = [(DAFA, OTHER_TREES), (KNOWLEDGE, OTHER_RELATIONS), (KNOWLEDGE, LIKENESS)]
    assert table("| own minus | MRPC |") == [
        [*(points(*pair, [panel]) for panel in FOUR.values()), points(*pair)] for pair in pairs]
    p = [change(*pair).p for pair in pairs[:2]]
    panel, = PANELS["mrpc-cpu"]
    two = scores(panel, f"{CONTROLS}TwoPlain --layers all --without fusion")
    assert_page_says([
        ("own trees are worth {}.", [points(DAFA, OTHER_TREES, split="dev")]),
        ("of the four {:.2f}, corrected for two methods {:.2f}.", [p[0], groups.holm(p)[0]]),
        ("plain attentions has {} on MRPC", [gap(two, scores(panel)).split()[0]])])


def test_what_the_papers_report():
    """Our rows of the table in docs/papers.md are the means of the table in docs/results.md."""
    ours = table("| | where | MRPC |", "docs/papers.md")[-4:]
    for (_, *cells), row in zip(ours, ROWS.values()):
        panels = [FOUR[task] for task in ("mrpc", "qqp", "stsb", "sick")]
        assert cells == [points(row, panels=[panel]).split()[0] for panel in panels]
