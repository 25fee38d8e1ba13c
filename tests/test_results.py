"""Each number of docs/results.md, of README's answer and of the picture, from tests/results."""
import itertools
import json

import numpy as np
import pytest

from experiments import compare
from small_runs import ROOT

TASKS = {"mrpc": "MRPC", "qqp": "QQP", "sick": "SICK", "stsb": "STS-B"}
GROUPS = {name: compare.read_group(ROOT / f"tests/results/{name}-planned.json")
          for name in (*TASKS, "med", "paws")}
PANELS = {name: compare.find_panels(group)[0] for name, group in GROUPS.items()}
PAWS = {name: compare.find_panels(compare.read_group(ROOT / f"tests/results/paws-{name}.json"))
        for name in ("planned", "more", "rates", "less")}
AVERAGE, CONTROLS = " --layers all --without fusion", "experiments/controls.py:Shuffled"
LADRANET = "ladranet --lr 5e-5 --lr-new 1e-3 --set BETA=60"
# What the page calls a row -> its value behind --vary model
ROWS = {"DABERT": "dabert", "DAFA": "dafa", "knowledge": "knowledge", "LadRa-Net": LADRANET,
        "DAFA averaged": f"dafa{AVERAGE}", "knowledge averaged": f"knowledge{AVERAGE}"}
OTHERS = {name: f"{CONTROLS}{name.title()}{AVERAGE}" for name in ("dafa", "knowledge")}


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


def over_tasks(row, against="bert", tasks=TASKS, split="test"):
    """The Change of a row over these sets."""
    return compare.change_of(*(compare.differences(PANELS[name], split, against)[row]
                               for name in tasks))


def said(row, against="bert", tasks=TASKS, split="test"):
    """The text of `over_tasks`."""
    return compare.points(over_tasks(row, against, tasks, split))


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_has_all_its_runs_and_no_other(name):
    """No finished run that no table shows, none lost."""
    group = GROUPS[name]
    assert [*group["done"]] == [compare.name_of(values, seed)
                                for values in compare.combinations(group)
                                for seed in group["seeds"]]


def test_table_of_the_six_questions():
    """Differences, p corrected for six, the verdict, and the mean over the dev sets."""
    _, plain, *rows = table("docs/results.md", "| minus plain BERT | MRPC |")
    panels = [PANELS[name] for name in TASKS]
    assert plain[1:5] == [compare.score_table(panel, "test", "bert")[1][1] for panel in panels]
    found = compare.difference_table(panels, "bert", [*ROWS.values()])
    expected = {row[0]: [*row[1:6], row[7]] for row in found}
    for (name, *cells, verdict, dev), (title, row) in zip(rows, ROWS.items(), strict=True):
        assert name == title and cells == expected[row] and dev == said(row, split="dev")
        kind = "a gain" if over_tasks(row).mean > 0 else "a loss"
        assert verdict == (kind if float(cells[-1].split()[-1]) < 0.05 else "not shown")


def test_verdicts():
    """The numbers of the verdicts, and of README's answer."""
    text = text_of("docs/results.md")
    text = text[text.index("## Verdicts"):text.index("## The table")].replace(" points (", " (")
    places = [text.index(said(row)) for row in ROWS.values()]
    assert places[0] < places[1] < places[4] < places[2] < places[5] < places[3]
    for row in ROWS["DAFA averaged"], ROWS["knowledge averaged"]:
        assert f"dev sets show less, {said(row, split='dev')}" in text \
            or f"dev sets as well, {said(row, split='dev')}" in text
    assert f"is shown, {said(f'{LADRANET} --epochs 6')}." in text
    shares = [over_tasks(ROWS["DAFA averaged"], tasks=tasks).mean for tasks in (["mrpc"], TASKS)]
    assert "More than half of this gain is MRPC's" in text and 0.5 < shares[0] / 4 / shares[1] < 0.6
    _, *rows = table("README.md", "| method | as published |")
    assert [row[:2] for row in rows] == [[name, said(ROWS[name])] for name in [*ROWS][:4]]
    for name, _, averaged in rows[1:3]:
        assert averaged == said(ROWS[f"{name} averaged"])
    with_relations, without = (over_tasks(f"knowledge{AVERAGE}{part}").mean
                               for part in ("", ",prior"))
    assert f"{100 * with_relations:.1f}" == f"{100 * without:.1f}"  # "gains as much"
    shipped = json.loads(source("assets/toy-dafa/result.json"))["metrics"]["dev"]["accuracy"]
    assert f"It gets {100 * shipped:.0f} % of its dev pairs right" in text_of("README.md")


def test_controls():
    """Differences of the averages and their controls from plain BERT, and from one another."""
    header, *rows = table("docs/results.md", "| test set (pairs) |")
    columns = [value for value in PANELS["mrpc"].rows if "--without fusion" in value]
    assert len(header) == len(columns) + 2
    for name, row in zip(TASKS, rows):
        assert row[0].startswith(TASKS[name])
        assert row[1] == compare.score_table(PANELS[name], "test", "bert")[1][1]
        assert row[2:] == [said(value, tasks=[name]) for value in columns]
    assert rows[4][2:] == [said(value) for value in columns] and len(rows) == 5
    none = f"knowledge{AVERAGE},prior"
    pairs = [(ROWS["DAFA averaged"], OTHERS["dafa"]),
             *((ROWS["knowledge averaged"], x) for x in (OTHERS["knowledge"], none))]
    _, *rows = table("docs/results.md", "| own minus | MRPC |")
    for row, (own, other) in zip(rows, pairs, strict=True):
        assert row[1:] == [*(said(own, other, [name]) for name in TASKS), said(own, other)]


def test_what_a_trained_model_uses():
    """Means of the meter, on dev."""
    changes = {"method": "no method", "trees": "no prior", "relations": "no prior",
               "re-reading": "no re-reading"}
    _, *rows = table("docs/results.md", "| without | MRPC |")
    for title, *cells in rows:
        name, change = title.split(": ")
        assert cells == [compare.percent([result["answers"][changes[change]]
                                          for result in PANELS[task].rows[ROWS[name]]])
                         for task in TASKS]


def test_med():
    """Relations minus plain BERT, others' and none, on test and dev; p corrected for four."""
    own, wider = ROWS["knowledge averaged"], f"{CONTROLS[:-8]}WiderKnowledge{AVERAGE}"
    others, none = OTHERS["knowledge"], f"{own},prior"
    asked = {"own relations minus plain BERT": (own, "bert"),
             "own minus other pairs' relations": (own, others),
             "own minus no relations": (own, none), "wider alone minus none": (wider, none)}
    _, *rows = table("docs/results.md", "| MED | test |")
    corrected = compare.holm([over_tasks(*pair, ["med"]).p for pair in asked.values()])
    for row, (title, pair), p in zip(rows, asked.items(), corrected, strict=True):
        assert row == [title, said(*pair, ["med"]), compare.as_p(p), said(*pair, ["med"], "dev")]
    text = text_of("docs/results.md").replace(" points (", " (")
    lines = compare.score_table(PANELS["med"], "test", "bert")[1:]
    scores = {model: score.split()[0] for model, score, *_ in lines}
    sentence = ("has {} on test, with another pair's {}, with none {}, with wider words alone {}, "
                "plain BERT {}")
    assert sentence.format(*(scores[x] for x in (own, others, none, wider, "bert"))) in text
    assert f"nothing either, {said(own, none, ['med'])}" in text


def cell(panel, row, split="test", against=None):
    """Mean (deviation) of a row, or its difference from another."""
    if against is None:
        return compare.percent(compare.scores_of(panel.rows[row], split, panel.metric))
    return compare.points(compare.change_of(compare.differences(panel, split, against)[row]))


def test_paws():
    """Trees with ten and twenty epochs, p corrected for four; dev after each epoch."""
    few, many = PAWS["planned"]
    dafa, asked = ROWS["DAFA averaged"], ("bert", OTHERS["dafa"])
    ps = compare.holm([compare.change_of(compare.differences(panel, "test", against)[dafa]).p
                       for panel in (few, many) for against in asked])
    _, plain, *rows = table("docs/results.md", "| PAWS, test |")
    assert plain[1::2] == [cell(few, "bert"), cell(many, "bert"), cell(many, "bert", "dev")]
    for row, against, *p in zip(rows, asked, ps[:2], ps[2:], strict=True):
        assert row[1::2] == [cell(panel, dafa, split, against)
                             for panel, split in ((few, "test"), (many, "test"), (many, "dev"))]
        assert row[2::2] == [compare.as_p(x) for x in p]
    header, *rows = table("docs/results.md", "| PAWS, dev after epoch |")
    for row, found in zip(rows, compare.curve_table(many)[1:], strict=True):
        assert row[1:] == [found[int(epoch)].split()[0] for epoch in header[1:]]


def test_paws_other_questions():
    """Seven rows, p corrected for these; the numbers in sentences."""
    (more,), (few, many), own = PAWS["more"], PAWS["planned"], ROWS["DAFA averaged"]
    values = [value for value in more.rows if value != "bert"]
    corrected = [line[-1] for line in compare.difference_table([more], "bert")[1:]]
    _, *rows = table("docs/results.md", "| minus plain BERT | test |")
    for row, value, p in zip(rows, values, corrected, strict=True):
        assert row[1:] == [cell(more, value, "test", "bert"), p, cell(more, value, "dev", "bert")]

    def hanging(panel, row):
        return f"{100 * np.mean([x['answers']['no prior'] for x in panel.rows[row]]):.1f} %"

    def means(panel, rows=("bert", own)):
        return [cell(panel, row).split()[0] for row in rows]

    def seeds(panel, row):
        return [100 * x for x in compare.scores_of(panel.rows[row], "test", panel.metric)]

    def after_three(panel):
        both = ([x["curve"][2] for x in panel.rows[row]] for row in (own, OTHERS["dafa"]))
        return compare.points(compare.change_of([x - y for x, y in zip(*both)]))

    three, (_, one, knowledge, none, *_) = ("bert", own, OTHERS["dafa"]), values
    low, _, high = PAWS["rates"]
    fewest, third = PAWS["less"]
    average = {knowledge: more.rows[knowledge], own: few.rows[own][:5], one: more.rows[one]}
    sentences = [
        ("own trees are worth {} over others', in the runs of ten epochs {}.",
         [after_three(many), after_three(few)]),
        ("its answers on dev change (ten epochs: {}).", [hanging(few, own)]),
        ("without its trees {} of its", [hanging(many, own)]),
        ("hardly uses these: {} change.", [hanging(many, OTHERS["dafa"])]),
        ("at {}, and as high without relations, at {}:", [cell(more, knowledge), cell(more, none)]),
        ("BERT lie {:.1f} points apart.", [np.ptp(seeds(more, "bert"))]),
        ("lowest seed, {:.1f}, is above the highest of ten of plain BERT, {:.1f}, and of ten with "
         "twice the epochs, {:.1f}.", [min(seeds(more, knowledge)), max(seeds(few, "bert")),
                                       max(seeds(many, "bert"))]),
        ("trees in it has {} beside", [cell(more._replace(rows=average), one, "test", own)]),
        ("At 5e-5 plain BERT has {} and DAFA averaged {}.", means(low)),
        ("Of 3,000 plain BERT has {}, DAFA averaged {}, others' trees {}.", means(third, three)),
        ("all are near 55.8: {}, {}, {}.", means(fewest, three)),
        ("better end is not shown, {}.", [cell(many, own, "test", "bert")])]
    assert max(map(float, means(high))) < 56.2  # the larger class has 55.8
    text = text_of("docs/results.md")
    for sentence, numbers in sentences:
        assert sentence.format(*numbers) in text, sentence.format(*numbers)


def test_p_by_task():
    """The smallest p of the 26 differences by task; those of own minus others' trees."""
    asked = [*itertools.product(ROWS.values(), TASKS), (OTHERS["dafa"], "mrpc"),
             (OTHERS["dafa"], "qqp")]
    corrected = compare.holm([over_tasks(model, tasks=[name]).p for model, name in asked])
    p = dict(zip(asked, corrected, strict=True))
    shown = [p[LADRANET, "mrpc"], p[ROWS["DAFA averaged"], "mrpc"],
             p[ROWS["knowledge averaged"], "stsb"], p[ROWS["knowledge averaged"], "mrpc"]]
    text = text_of("docs/results.md")
    assert ("LadRa-Net's loss on MRPC, {:.3f}, DAFA averaged on MRPC, {:.3f}, and knowledge "
            "averaged on STS-B, {:.3f}, and on MRPC, {:.3f}").format(*shown) in text
    assert sorted(corrected)[:4] == shown and min(corrected) >= 0.05
    both = [over_tasks(f"{name}{AVERAGE}", other).p for name, other in OTHERS.items()]
    mean = over_tasks(ROWS["DAFA averaged"], OTHERS["dafa"]).mean
    assert (f"The mean, {100 * mean:+.1f}, has p {both[0]:.2f}, and "
            f"{compare.holm(both)[0]:.2f} corrected") in text
    eight = compare.holm([over_tasks(f"{name}{AVERAGE}", other, [task]).p
                          for name, other in OTHERS.items() for task in TASKS])
    assert f"smallest p is STS-B's, {min(eight):.2f} corrected for the eight" in text
    assert eight.index(min(eight)) == 3


def test_numbers_in_sentences():
    """Means without MRPC, on dev, and what was asked after the results."""
    dafa, knowledge = ROWS["DAFA averaged"], ROWS["knowledge averaged"]
    three, six = ["qqp", "sick", "stsb"], f"{LADRANET} --epochs 6"
    sentences = [
        ("DAFA averaged has {} on test and {} on dev; knowledge averaged has {} and {}.",
         [said(row, tasks=three, split=split) for row in (dafa, knowledge)
          for split in ("test", "dev")]),
        ("own trees are worth {}.", [said(dafa, OTHERS["dafa"], split="dev")]),
        ("DAFA averaged has {}, knowledge {}; on dev {} and {}.",
         [said(f"{row}{AVERAGE}", row, split=split) for split in ("test", "dev")
          for row in ("dafa", "knowledge")]),
        ("Six have {} on MRPC, {} on QQP, {} on SICK, {} on STS-B, and {} over the four.",
         [*(said(six, tasks=[name]) for name in TASKS), said(six)]),
        ("on MRPC's test DABERT has {}, DAFA {}, knowledge {}; on SICK's {}, {} and {}.",
         [said(f"{row} --printed {number}", tasks=[name]) for name in ("mrpc", "sick")
          for row, number in {"dabert": 7, "dafa": 9, "knowledge": 8}.items()])]
    text = text_of("docs/results.md")
    for sentence, values in sentences:
        assert sentence.format(*values) in text, sentence.format(*values)


def test_the_picture(tmp_path):
    files = [str(ROOT / f"tests/results/{name}-planned.json") for name in TASKS]
    compare.show_groups(files, picture=tmp_path / "found.svg")
    assert (tmp_path / "found.svg").read_text("utf-8") == source("docs/differences.svg")
