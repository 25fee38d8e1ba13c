"""What a group of runs found: the differences between its rows, as tables.

A group is the dict of comparison.json, which experiments.compare writes. Its keys:

    vary      [[option, value, ...], ...]; the values of the first option are the rows of a table
    seeds     [seed, ...]
    shared    options of all runs, a dict
    test      are the best epochs scored on test?
    done      name of a finished run -> what a table needs of it, see compare.read_done
    pairs     place of a data set -> its sha256
"""
import itertools
import math
import re
import statistics
from pathlib import Path
from typing import NamedTuple

import numpy as np

from support.errors import expecting, refuse
from support.files import read_json
from support.machine import print_once
from support.pairs import metric_title

FILE = "comparison.json"


# ---- The group ----------------------------------------------------------------------------------

def read_group(place):
    """The group in a folder, or in a file such as comparison.json. Raises ValueError naming it."""
    path = Path(place, FILE) if Path(place).is_dir() else Path(place)
    group = read_json(path)
    with expecting(path, "a group of runs", "it is damaged, or made by other code"):
        refuse(not isinstance(group["shared"], dict), f"shared {group['shared']!r}")
        refuse(not isinstance(group["test"], bool), f"test {group['test']!r}")
        refuse(not all(type(seed) is int for seed in group["seeds"]), f"seeds {group['seeds']!r}")
        refuse(not group["vary"] or any(len(words) < 2 for words in group["vary"]), "no values")
        find_panels(group)
        for result in group["done"].values():
            [float(score) for score in result.get("curve", ())]
    return group


def combinations(group):
    """[dict option -> value] of every combination; the last option's values change fastest."""
    options = [option for option, *_ in group["vary"]]
    values = itertools.product(*(texts for _, *texts in group["vary"]))
    return [dict(zip(options, texts)) for texts in values]


def name_of(values, seed):
    """The name of a run, and of its folder in its group's: "dafa-layers-all-seed0"."""
    return "-".join([*re.findall(r"\.?\w[\w.]*", " ".join(values.values())), f"seed{seed}"])


# ---- Numbers ------------------------------------------------------------------------------------

class Panel(NamedTuple):
    """Runs that one table compares: their task and settings are the same but for the first one."""
    task: str
    others: str     # the other settings that vary, such as ", limit 40", or ""
    split: str      # test where it was scored, else the split that chose the best epochs
    metric: str     # the task's first
    seeds: list
    first: dict     # the first result, as read_done has it
    rows: dict      # value of the first setting -> the result of each seed


def find_panels(group, name=""):
    """[Panel] of a group, with the settings whose seeds are all done. name: the group's, shown
    beside the task's where both differ; it replaces the name "own".
    """
    panels = {}
    for values in combinations(group):
        results = [group["done"].get(name_of(values, seed)) for seed in group["seeds"]]
        if None in results:
            continue
        (_, value), *others = values.items()
        others = "".join(f", {option} {text}" for option, text in others if option != "task")
        first, task = results[0], results[0]["task"]
        if name not in ("", task):
            task = name if task == "own" else f"{task} ({name})"
        tests = [split for split in first["metrics"] if split.startswith("test")]
        split = [*tests, first["selection_split"]][0]
        metric = next(iter(first["metrics"][split]))
        panel = Panel(task, others, split, metric, group["seeds"], first, {})
        panels.setdefault((task, others), panel).rows[value] = results
    return [*panels.values()]


def scores_of(results, split, metric):
    """The score of each seed; [] where a seed lacks it, because --limit can remove a phenomenon."""
    scores = [result["metrics"].get(split, {}).get(metric) for result in results]
    return [] if None in scores else scores


def differences(panel, split, against):
    """dict row -> [difference of each seed] from the row `against`, by the first metric."""
    rows = {value: scores_of(results, split, panel.metric) for value, results in panel.rows.items()}
    base = rows.pop(against, [])
    return {value: [x - y for x, y in zip(scores, base)] for value, scores in rows.items()
            if scores and base}


class Change(NamedTuple):
    """A mean difference, the ends of its 95 % interval and p, which are None for a single seed."""
    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


def change_of(*tasks):
    """The Change of lists of differences, one list for each task: the mean of the tasks' means.
    Degrees of freedom are Welch and Satterthwaite's; for one task this is Student's t.
    """
    mean = statistics.fmean(map(statistics.fmean, tasks))
    if min(map(len, tasks)) < 2:
        return Change(mean)
    parts = [statistics.variance(values) / len(values) for values in tasks]
    error = sum(parts) ** 0.5 / len(tasks)
    if not error:
        return Change(mean, mean, mean, float(not mean))
    squares = sum(part ** 2 / (len(values) - 1) for part, values in zip(parts, tasks))
    t, below = student_t(sum(parts) ** 2 / squares)
    half = error * float(np.interp(0.475, below, t))
    p = 1 - 2 * float(np.interp(abs(mean) / error, t, below))
    return Change(mean, mean - half, mean + half, max(0.0, p))


def student_t(freedom):
    """(t, the probability of a value between 0 and t) of Student's t, as a table for np.interp."""
    x = np.sinh(np.linspace(0, math.asinh(1e6), 20001))  # dense at 0, where the density is
    at_zero = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    density = (1 + x * x / freedom) ** (-(freedom + 1) / 2) * at_zero / math.sqrt(freedom * math.pi)
    steps = (density[1:] + density[:-1]) / 2 * np.diff(x)
    return x, np.concatenate([[0.0], steps.cumsum()])


def holm(ps):
    """The p of each of several tests, corrected for their number (Holm 1979)."""
    scaled = [(x, (len(ps) - rank) * x) for rank, x in enumerate(sorted(ps))]
    return [min(1.0, max(y for x, y in scaled if x <= p)) for p in ps]


# ---- Tables -------------------------------------------------------------------------------------

def percent(values):
    """100 times the mean of values, and (standard deviation) where there are several values."""
    if not values:
        return ""
    std = f" ({100 * statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{std}"


def points(change):
    """A Change in points: "+1.0 (+0.7 to +1.2)"; "" for None."""
    if change is None:
        return ""
    ends = "" if change.low is None else f" ({100 * change.low:+.1f} to {100 * change.high:+.1f})"
    return f"{100 * change.mean:+.1f}{ends}"


def score_table(panel, split, against):
    """Rows of cells: the mean score on a split, the scores of each seed, the difference from the
    row `against`, other metrics, and the share of answers that change without the method."""
    more = sorted(panel.first["metrics"][split].keys() - {panel.metric})  # alike for all splits
    of = " or ".join({results[0]["positive"] or "": 0 for results in panel.rows.values()})
    main, *titles = (metric_title(name, of) for name in (panel.metric, *more))
    lines = [[f"{panel.task} {split}{panel.others}, seeds {', '.join(map(str, panel.seeds))}",
              main, "each seed", f"minus {against}, 95 % interval", *titles,
              f"answers that change without the method, {panel.first['selection_split']}, %"]]
    changes = {value: change_of(x) for value, x in differences(panel, split, against).items()}
    for value, results in panel.rows.items():
        scores = scores_of(results, split, panel.metric)
        changed = [share for result in results for name, share in result["answers"].items()
                   if name in ("no method", "no re-reading") and split == result["selection_split"]]
        each = ", ".join(f"{100 * x:.1f}" for x in scores) if len(scores) > 1 else ""
        others = [percent(scores_of(results, split, name)) for name in more]
        lines.append([value, percent(scores), each, points(changes.get(value)), *others,
                      percent(changed)])
    return lines


def curve_table(panel):
    """Rows of cells: dev's first metric after each epoch, mean of the seeds that came so far."""
    rows = {value: [result.get("curve", []) for result in results]
            for value, results in panel.rows.items()}
    epochs = range(max(len(curve) for curves in rows.values() for curve in curves))
    title = f"{panel.task} {panel.first['selection_split']} {panel.metric}{panel.others}, epoch"
    return [[title, *(str(i + 1) for i in epochs)]] + [
        [value, *(percent([curve[i] for curve in curves if i < len(curve)]) for i in epochs)]
        for value, curves in rows.items()]


def difference_table(panels, against, chosen=()):
    """Rows of cells: the differences from the row `against` for each task, their mean, p, and p
    corrected for the number of rows. panels: one for each task, with the same `others`. chosen: the
    rows to show; all by default.
    """
    tasks = [differences(panel, panel.split, against) for panel in panels]
    rows = [value for value in dict.fromkeys(itertools.chain(*tasks))
            if not chosen or value in chosen]
    means = {value: change_of(*(changes[value] for changes in tasks))
             for value in rows if all(value in changes for changes in tasks)}
    ps = {value: mean.p for value, mean in means.items() if mean.p is not None}
    corrected = dict(zip(ps, holm([*ps.values()])))
    lines = [[f"minus {against}{panels[0].others}", *(f"{x.task} {x.split}" for x in panels),
              "mean", "p", "p corrected (Holm)"]]
    for value in rows:
        cells = [points(change_of(changes[value])) if value in changes else "" for changes in tasks]
        mean = points(means.get(value)) if len(panels) > 1 else ""
        p = [as_p(ps[value]), as_p(corrected[value])] if value in ps else ["", ""]
        lines.append([value, *cells, mean, *p])
    return lines


def as_p(p):
    """Text of a p."""
    return f"{p:.2g}" if p >= 0.001 else "below 0.001"


def print_table(lines):
    """Prints rows of cells in Markdown, without empty columns. The first row is the header."""
    columns = [column for i, column in enumerate(zip(*lines)) if i == 0 or any(column[1:])]
    if len(lines) > 1 and len(columns) > 1:
        widths = [max(2, *map(len, column)) for column in columns]
        header, *rows = zip(*columns)
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        print_once()
        for first, *rest in (header, rule, *rows):
            right = [cell.rjust(width) for cell, width in zip(rest, widths[1:])]
            print_once(f"| {' | '.join([first.ljust(widths[0]), *right])} |")


def show_groups(places, against=None, chosen=()):
    """Prints the tables of groups, with one test over all of them."""
    panels, rows, blocks = [], {}, {}
    for place in dict.fromkeys(places):
        group, path = read_group(place), Path(place)
        rows |= dict.fromkeys(group["vary"][0][1:])
        name = path.parent.name if path.name == FILE else path.resolve().stem
        panels += find_panels(group, name if len(places) > 1 else "")
        if missing := len(combinations(group)) * len(group["seeds"]) - len(group["done"]):
            print_once(f"{place}: {missing} runs are not finished; --resume trains them")
    against = against or next(iter(rows))
    refuse(unknown := {against, *chosen} - rows.keys(), f"--show: {', '.join(sorted(unknown))}: "
           f"expected some of {', '.join(rows)}")
    for panel in panels:
        blocks.setdefault(panel.others, []).append(panel)
        for split in panel.first["metrics"]:
            print_table(score_table(panel, split, against))
        curves = curve_table(panel)
        if len(curves[0]) > 2:  # the score of a single epoch is in the table above
            print_table(curves)
    for block in blocks.values():
        print_table(difference_table(block, against, chosen))
