"""Several settings and seeds through the loop, and what they say: `python -m experiments.compare`.

    --vary model bert "dafa --layers all" --vary task mrpc rte --seeds 5 [--test]
                      every combination, five runs of each; a value may have options behind it
    --resume GROUP    goes on where a group of runs was cut off, or takes runs off a process that
                      is at it, side by side; with --vary model dabert that row is added
    --show GROUP ...  tables of groups: their folders, or files such as comparison.json

Without --vary it is plain BERT beside --model. The other options hold for all runs.

Rows are the values of the setting that is named first, and are compared with its first value. A
difference is taken seed by seed; its 95 % interval is Student's t over the seeds, and speaks of
other seeds, not of other sentences. Over several tasks it is the mean of their means, with Welch's
interval: seed 0 of one task has nothing in common with seed 0 of another, so their variances add
up. p is two-sided, then corrected for the number of differences shown (Holm 1979): of twenty p one
is below 0.05 by chance.

A group's folder holds the folder of each run, comparison.svg, and comparison.json, a line for each
run that is done: such a run is not trained again, and the file alone goes on in another folder.
"""
import itertools
import json
import math
import os
import re
import shlex
import statistics
import sys
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

import batches
import priors
import train
from settings import PROCESS, Recipe, Settings, add_options, read_options
from support import machine, runs
from support.checkpoints import expecting, read_json
from support.data import load_pairs, load_test_splits, metric_title
from support.files import write_text
from support.machine import print_once
from support.options import Arguments, prefix_errors, refuse, run_command
from support.summary import draw_line, draw_text, svg_page

FILE = "comparison.json"


# ---- What is to be run --------------------------------------------------------------------------

def read_value(option, text):
    """dict setting -> value of a value behind --vary, and of the options behind it; or ValueError.
    """
    parser, (first, dashes, more) = Arguments("", ""), text.partition(" --")
    add_options(parser)
    with prefix_errors(f"--vary {option} {text!r}: "):
        found = parser.parse([f"--{option}={first}", *shlex.split(dashes + more)])
        refuse(found.keys() & {"out", "seed"}, "--out and --seed are those of the whole group")
    return found


def read_vary(given):
    """[[option, value, ...], ...] of the words behind each --vary, or ValueError."""
    options = [option for option, *_ in given]
    for option, *texts in given:
        refuse(not texts or len(set(texts)) < len(texts) or options.count(option) > 1,
               f"--vary {option} {' '.join(texts)}: expected each option once, and its values once")
        for text in texts:
            read_value(option, text)
    return sorted(map(list, given), key=lambda words: words[0] == "task")  # a task is no row


def new_group(given):
    """(a folder that is not made yet, the group that these options ask for)"""
    out, first, count = given.pop("out", None), given.pop("seed", 0), given.pop("seeds", 1)
    test, vary = given.pop("test", False), read_vary(given.pop("vary", []))
    refuse(not 0 < count < 1000, f"--seeds {count}: expected a number from 1 to 999")
    refuse(out and any(Path(out).rglob("log.jsonl")), f"--out {out}: holds runs; --resume {out} "
           "goes on with a group, or name another folder")
    if not vary or vary[0][0] == "task":
        model = given.pop("model", Settings.model)
        vary.insert(0, ["model", *dict.fromkeys([model] if vary else ["bert", model])])
    refuse(both := given.keys() & {option.replace("-", "_") for option, *_ in vary},
           f"--vary {', '.join(both)}: is also given for all runs; leave one of them out")
    name = "-".join(["compare", *(option for option, *_ in vary)])
    folder = runs.new_folder(out, name)
    return folder, {"vary": vary, "seeds": list(range(first, first + count)), "shared": given,
                    "test": test, "done": {}}


def saved_group(folder, given):
    """(the folder, its group), to go on with. Takes out of `given` all but PROCESS: test, values
    that the group gets, and the code that the caller knows, as a file may not name any."""
    refuse(not Path(folder, FILE).exists(), f"--resume {folder}: no group of runs is there; "
           "train.py --resume goes on with a single run")
    group, own, more = read_group(folder), given.pop("own", ()), read_vary(given.pop("vary", []))
    group["test"] = given.pop("test", group["test"])
    refuse(given.keys() - PROCESS, f"--resume {folder}: the group has its own "
           f"{', '.join(given.keys() - PROCESS)}; leave that out")
    said = [read_value(option, x) for option, *texts in group["vary"] for x in texts]
    codes = {str(one.get(x)) for one in [*said, group["shared"]] for x in ("model", "parser")}
    refuse(unsaid := {code for code in codes if ":" in code} - set(own),
           f"--resume {folder}: it names code of somebody's own, and a folder alone runs no code; "
           f"if you know the files, add --own {' '.join(sorted(unsaid))}")
    varied = {option for option, *_ in group["vary"]}
    refuse({option for option, *_ in more} - varied, f"--vary: the group in {folder} varies "
           f"{', '.join(varied)}; --resume adds values of these")
    add_values(group, more)
    if group["test"]:
        group["done"] = {name: x for name, x in group["done"].items() if test_splits(x)}
    return Path(folder), group


def add_values(group, vary):
    """Adds to what a group varies the values that it lacks."""
    more = {option: texts for option, *texts in vary}
    for words in group["vary"]:
        words += [x for x in more.get(words[0], ()) if x not in words[1:]]


def combinations(group):
    """[dict option -> value] of every combination, the last one's values fastest."""
    options = [option for option, *_ in group["vary"]]
    values = itertools.product(*(texts for _, *texts in group["vary"]))
    return [dict(zip(options, texts)) for texts in values]


def name_of(values, seed):
    """The name of a run, and of its folder in its group's: "dafa-layers-all-seed0"."""
    return "-".join([*re.findall(r"\.?\w[\w.]*", " ".join(values.values())), f"seed{seed}"])


def members(group):
    """{name: options of its training} of the group's runs. Raises ValueError where two have one
    name."""
    found = {}
    for values, seed in itertools.product(combinations(group), group["seeds"]):
        name, given = name_of(values, seed), group["shared"] | {"seed": seed}
        refuse(name in found, f"--vary: two values have one folder, {name}; rename one")
        for option, text in values.items():
            given |= read_value(option, text)
        found[name] = given
    return found


def plan_runs(group, here):
    """`members` that are not done, with the settings `here` of this process. Raises ValueError or
    OSError where options contradict each other, or a data set or WordNet is not there.
    """
    planned = {name: given | here for name, given in members(group).items()
               if name not in group["done"]}
    known, found = {f.name for kind in (Settings, Recipe) for f in fields(kind)}, []
    for name, given in planned.items():
        refuse(others := given.keys() - known, f"{name}: {', '.join(others)}: no option of this "
               "code; start a new group")
        with prefix_errors(f"{name}: "):
            found.append(read_options(given)[0])
    for settings in {(x.task, x.train_file, x.dev_file, x.test_file): x for x in found}.values():
        (load_test_splits if group["test"] else load_pairs)(settings)
    if any("facts" in batches.needs_of(x.method) and x.task_name != "toy" for x in found):
        priors.load_wordnet()
    return planned


# ---- Running ------------------------------------------------------------------------------------

def run_group(folder, group, here):
    """Trains what is not finished and no other process trains, then shows what came out.

    here: settings of this process alone, which the group's file does not get.
    """
    planned, failed = plan_runs(group, here), []
    gather_results(folder, group)
    for number, (name, given) in enumerate(planned.items(), 1):
        if name in group["done"]:
            continue
        print_once(f"\nrun {number} of {len(planned)}: {name}")
        begun = (folder / name / "last.pt").exists() or (folder / name / "best.pt").exists()
        place = {"resume" if begun else "out": str(folder / name)}
        try:
            train.train_or_resume(given | place | {"test": group["test"]})
        except BlockingIOError:
            print_once("another process trains it")
        except ValueError as error:  # such as a loss that is no number; the others are trained
            failed.append(f"{name}: {error}")
        gather_results(folder, group)
    show_groups([folder], picture=folder / "comparison.svg")
    refuse(failed, "; ".join(failed))
    print_once(f"\n{folder} has the runs, {FILE} and comparison.svg")


def gather_results(folder, group):
    """Adds to a group what its runs have done, and what another process added to its file, and
    writes the file."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / FILE).exists():
        add_values(group, read_group(folder)["vary"])
    for name, given in members(group).items():
        if found := read_done(folder / name, given, group["test"]):
            group["done"][name] = found
    lines = [f"{json.dumps(name)}: {json.dumps(x)}" for name, x in group["done"].items()]
    head = json.dumps({name: x for name, x in group.items() if name != "done"})
    write_text(folder / FILE, head[:-1] + ', "done": {\n' + ",\n".join(lines) + "\n}}\n")


def read_done(folder, given, test):
    """What a group keeps of a run of these options, or None where it is not finished. test: must
    test be scored? Raises ValueError where its options are others."""
    if not (folder / "result.json").exists() or test and not (folder / "test.json").exists():
        return None
    result = runs.read_result(folder)
    if test:
        result["metrics"] |= runs.read_result(folder, "test.json")["metrics"]
    with runs.made_here(folder):
        had = result.get("settings", {}) | result["recipe"]
        changes = (result.get("influence") or {}).get("changes", {})
        log, metric = folder / "log.jsonl", next(iter(result["metrics"][result["selection_split"]]))
        events = map(json.loads, log.read_text("utf-8").splitlines() if log.exists() else ())
        kept = "task", "positive", "best_epoch", "selection_split", "metrics"
        found = {name: result.get(name) for name in kept} | {
            "answers": {name: x["answers"] for name, x in changes.items()},
            "curve": [event[metric] for event in events if "epoch" in event]}  # dev after each
    others = [name for name in given.keys() - PROCESS if had.get(name, given[name]) != given[name]]
    refuse(others, f"{folder}: a run of another {', '.join(others)} than the group's; move it away")
    return found


def read_group(place):
    """The group in a folder, or in a file such as comparison.json. Raises ValueError naming it."""
    path = Path(place, FILE) if Path(place).is_dir() else Path(place)
    group = read_json(path)
    with expecting(path, "a group of runs as this code writes it",
                   "it is damaged, or of other code"):
        against, _ = group["vary"][0][1], group["shared"] | {"test": group["test"]}  # both there
        refuse(len({*group["seeds"]}) < len(group["seeds"]), "a seed twice")
        scores = [x for done in group["done"].values() for some in done["metrics"].values()
                  for x in some.values()]
        refuse(not np.isfinite(scores).all(), "a score that is no number")
        for panel in find_panels(group):
            score_table(panel, panel.split, against)
            curve_table(panel)
    return group


# ---- Numbers ------------------------------------------------------------------------------------

class Panel(NamedTuple):
    """What is compared: runs of one task, alike in all that varies but for the first setting."""
    task: str
    others: str     # what else varies, such as "limit 40", or ""
    split: str      # test where it was scored, else that on which the best epochs were chosen
    metric: str     # the task's first
    seeds: list
    rows: dict      # value of the first setting -> what came out of each seed, as read_done has it


def find_panels(group, name=""):
    """[Panel] of the settings whose seeds are all done.

    name: of the group, shown where it is not the task's; the task's where that is one's own.
    """
    found = {}
    for values in combinations(group):
        results = [group["done"].get(name_of(values, seed)) for seed in group["seeds"]]
        if None in results:
            continue
        (_, value), *behind = values.items()
        others = ", ".join(f"{option} {text}" for option, text in behind if option != "task")
        task = results[0]["task"]
        if name not in ("", task):
            task = name if task == "own" else f"{task} ({name})"
        split = (test_splits(results[0]) or [results[0]["selection_split"]])[0]
        metric = next(iter(results[0]["metrics"][split]))
        panel = Panel(task, others, split, metric, group["seeds"], {})
        found.setdefault((task, others), panel).rows[value] = results
    return [*found.values()]


def test_splits(result):
    """The splits of a result that are test's."""
    return [split for split in result["metrics"] if split.startswith("test")]


def scores_of(results, split, metric):
    """Of each seed; none where a seed lacks it, as --limit can cut a phenomenon off."""
    found = [result["metrics"].get(split, {}).get(metric) for result in results]
    return [] if None in found else found


def differences(panel, split, against):
    """dict row -> [difference of each seed] from the row `against`, by the first metric."""
    found = {value: scores_of(results, split, panel.metric)
             for value, results in panel.rows.items()}
    base = found.pop(against, [])
    return {value: [x - y for x, y in zip(scores, base)] for value, scores in found.items()
            if scores and base}


class Change(NamedTuple):
    """A mean difference, the ends of its 95 % interval and p; None of a single seed."""
    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


def change_of(*tasks):
    """The Change of lists of differences, one list for each task: the mean of their means.

    The variances of the means add up, with Welch and Satterthwaite's degrees of freedom; of one
    task that is Student's t.
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
    """(t from 0 to 1e6, the probability of being between 0 and t) of Student's t, for np.interp."""
    x = np.sinh(np.linspace(0, math.asinh(1e6), 20001))  # dense at 0, where the density is
    at_zero = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    density = (1 + x * x / freedom) ** (-(freedom + 1) / 2) * at_zero / math.sqrt(freedom * math.pi)
    steps = (density[1:] + density[:-1]) / 2 * np.diff(x)
    return x, np.concatenate([[0.0], steps.cumsum()])


def holm(ps):
    """p of each of several tests, corrected for their number (Holm 1979)."""
    order, corrected, largest = sorted(range(len(ps)), key=ps.__getitem__), {}, 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = largest
    return [corrected[i] for i in range(len(ps))]


# ---- Tables -------------------------------------------------------------------------------------

def percent(values):
    """100 times the mean of values, with their (standard deviation) where there are several."""
    if not values:
        return ""
    std = f" ({100 * statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{std}"


def points(change):
    """A Change in points: "+1.0 (+0.7 to +1.2)"."""
    ends = "" if change.low is None else f" ({100 * change.low:+.1f} to {100 * change.high:+.1f})"
    return f"{100 * change.mean:+.1f}{ends}"


def score_table(panel, split, against):
    """Rows of cells: scores on a split, those of each seed, the difference from the row `against`,
    other metrics, and the share of answers that change without the method."""
    first = next(iter(panel.rows.values()))[0]
    more = sorted(first["metrics"][split].keys() - {panel.metric})  # alike for each split
    title = f"{panel.task} {split}{panel.others and f', {panel.others}'}"
    of = " or ".join({results[0]["positive"] or "": 0 for results in panel.rows.values()})
    main, *titles = (metric_title(name, of) for name in (panel.metric, *more))
    lines = [[f"{title}, seeds {', '.join(map(str, panel.seeds))}", main, "each seed",
              f"minus {against}, 95 % interval", *titles,
              f"answers that change without the method, {first['selection_split']}, %"]]
    changes = differences(panel, split, against)
    for value, results in panel.rows.items():
        scores = scores_of(results, split, panel.metric)
        hanging = [[*result["answers"].values()][-1] for result in results
                   if result["answers"] and split == result["selection_split"]]
        each = ", ".join(f"{100 * x:.1f}" for x in scores) if len(scores) > 1 else ""
        lines.append([value, percent(scores), each,
                      points(change_of(changes[value])) if value in changes else "",
                      *(percent(scores_of(results, split, name)) for name in more),
                      percent(hanging)])
    return lines


def curve_table(panel):
    """Rows of cells: the first metric after each epoch, on the split that chose the best one; the
    mean of the seeds that came so far.
    """
    curves = {value: [result.get("curve", []) for result in results]
              for value, results in panel.rows.items()}
    epochs = range(max(len(curve) for some in curves.values() for curve in some))
    split = next(iter(panel.rows.values()))[0]["selection_split"]
    title = f"{panel.task} {split} {panel.metric}{panel.others and f', {panel.others}'}, epoch"
    return [[title, *(str(i + 1) for i in epochs)]] + [
        [value, *(percent([curve[i] for curve in some if i < len(curve)]) for i in epochs)]
        for value, some in curves.items()]


def difference_table(panels, against, chosen=()):
    """Rows of cells: the differences from the row `against`, a column for each task, their mean
    over the tasks, p, and p corrected for the number of rows.

    panels: alike in what else varies. chosen: the rows to be shown; all by default.
    """
    found = [differences(panel, panel.split, against) for panel in panels]
    rows = [value for value in dict.fromkeys(itertools.chain(*found))
            if not chosen or value in chosen]
    means = {value: change_of(*(changes[value] for changes in found))
             for value in rows if all(value in changes for changes in found)}
    tested = [value for value, mean in means.items() if mean.p is not None]
    corrected = dict(zip(tested, holm([means[value].p for value in tested])))
    title = f"minus {against}{panels[0].others and f', {panels[0].others}'}"
    lines = [[title, *(panel.task for panel in panels), "mean", "p", "p corrected (Holm)"]]
    for value in rows:
        cells = [points(change_of(changes[value])) if value in changes else "" for changes in found]
        mean = points(means[value]) if value in means and len(panels) > 1 else ""
        ps = [as_p(means[value].p), as_p(corrected[value])] if value in tested else ["", ""]
        lines.append([value, *cells, mean, *ps])
    return lines


def as_p(p):
    """Text of a p."""
    return f"{p:.2g}" if p >= 0.001 else "below 0.001"


def print_table(lines):
    """Prints rows of cells, the first the header, in Markdown, without columns that are empty."""
    columns = [column for i, column in enumerate(zip(*lines)) if i == 0 or any(column[1:])]
    if len(lines) > 1 and len(columns) > 1:
        widths = [max(2, *map(len, column)) for column in columns]
        header, *rows = zip(*columns)
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        print_once()
        for first, *rest in (header, rule, *rows):
            right = [cell.rjust(width) for cell, width in zip(rest, widths[1:])]
            print_once(f"| {' | '.join([first.ljust(widths[0]), *right])} |")


def show_groups(places, against=None, chosen=(), picture=None):
    """Prints the tables of groups, with one test over all of them, and draws the differences."""
    groups, panels, known, blocks = [], [], {}, {}
    for place in places:
        group, path = read_group(place), Path(place)
        refuse(group in groups, f"{place}: is a group that is shown already; leave it out")
        groups.append(group)
        known |= dict.fromkeys(group["vary"][0][1:])
        name = path.parent.name if path.name == FILE else path.resolve().stem
        panels += find_panels(group, name if len(places) > 1 else "")
        lacking = len(combinations(group)) * len(group["seeds"]) - len(group["done"])
        if lacking:
            print_once(f"{place}: {lacking} runs are not finished; --resume goes on with those "
                       "that no process trains")
    against = against or next(iter(known))
    refuse(unknown := {against, *chosen} - known.keys(), f"--show: {', '.join(sorted(unknown))}: "
           f"expected some of {', '.join(known)}")
    for panel in panels:
        blocks.setdefault(panel.others, []).append(panel)
        for split in next(iter(panel.rows.values()))[0]["metrics"]:
            print_table(score_table(panel, split, against))
        curves = curve_table(panel)
        if len(curves[0]) > 2:  # one epoch stands above
            print_table(curves)
    for block in blocks.values():
        print_table(difference_table(block, against, chosen))
    if any(panel.task.startswith("toy") for panel in panels):
        print_once("\ntoy is a generated diagnostic; its numbers say nothing about real English")
    if picture and any(len(panel.rows) > 1 for panel in panels):
        write_text(picture, draw_panels(panels, against))


# ---- A picture ----------------------------------------------------------------------------------

PLOT, TEXT, ROW = 360, 170, 22  # pixels: width of what is drawn and of the numbers, height of a row
NOTE = "Dot: mean over the seeds; bar: its 95 % interval; the dot is filled where 0 lies outside."


def draw_panels(panels, against):
    """SVG text of the differences of panels, one below the other."""
    parts, top, known = [], 0, 0
    left = 24 + 8 * max((len(value) for panel in panels for value in panel.rows), default=0)
    for panel in panels:
        changes = {value: change_of(x)
                   for value, x in differences(panel, panel.split, against).items()}
        if changes:
            score = percent(scores_of(panel.rows[against], panel.split, panel.metric))
            title = (f"{panel.task}{panel.others and f', {panel.others}'}, {panel.split} "
                     f"{panel.metric}: difference from {against}, {score}")
            parts += [draw_text(12, top + 18, title, "title"), *draw_changes(changes, left, top)]
            known += sum(change.low is not None for change in changes.values())
            top += ROW * (len(changes) + 3)
    counted = f"Of {known} such bars {known / 20:.1f} would leave out 0 by chance alone."
    notes = [draw_text(12, top + 6, NOTE, "soft"), draw_text(12, top + ROW, counted, "soft")]
    return svg_page(max(left + PLOT + TEXT, 640), top + 2 * ROW, [*parts, *notes])


def draw_changes(changes, left, top):
    """The elements of one panel, whose scale holds all its intervals, 100 points at most."""
    ends = [0.0, *(100 * x for change in changes.values() for x in change[:3] if x is not None)]
    low, high = max(-100.0, min(ends)), min(100.0, max(ends))
    low, high = low - 0.05 * (high - low) - 0.1, high + 0.05 * (high - low) + 0.1
    step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if high - low < 6 * step)

    def place(x):
        return left + PLOT * (min(max(x, low), high) - low) / (high - low)

    parts, bottom = [], top + ROW * (len(changes) + 1.4)
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        x = place(number * step)
        parts.append(draw_line(x, top + 28, x, bottom, "grid" if number else "zero"))
        text = f"{number * step:+g}" if number else "0"
        parts.append(draw_text(x, bottom + 16, text, "soft", "middle"))
    for i, (name, change) in enumerate(changes.items()):
        y, mark, x = top + ROW * (i + 2), "mark open", place(100 * change.mean)
        if change.low is not None:
            from_x, to_x = place(100 * change.low), place(100 * change.high)
            parts.append(draw_line(from_x, y, to_x, y, "mark"))
            mark = "mark open" if change.low <= 0 <= change.high else "mark"
        parts.append(f'<circle class="{mark}" cx="{x:.1f}" cy="{y}" r="4"/>')
        parts.append(draw_text(left - 12, y + 5, name, "", "end"))
        parts.append(draw_text(left + PLOT + 12, y + 5, points(change)))
    return parts


# ---- The command line ---------------------------------------------------------------------------

def command_line():
    """The options of groups of runs, and those of training."""
    parser = Arguments("python -m experiments.compare", "Several settings and seeds, "
                       "compared. Without options it is plain BERT beside DAFA, on toy.")
    group = parser.add_argument_group("a group of runs")
    group.add_argument("--vary", nargs="+", action="append", metavar="OPTION",
                       help="an option of training and its values; twice: every combination; with "
                            "--resume: more values of it")
    group.add_argument("--seeds", type=int, metavar="N", help="from --seed on (default: 1)")
    group.add_argument("--test", action="store_true", help="score the best epochs on test, once")
    group.add_argument("--resume", metavar="GROUP", help="go on with a group, or join in")
    group.add_argument("--own", nargs="+", metavar="mine.py:M",
                       help="with --resume: code of your own, which a folder may not name")
    shown = parser.add_argument_group("what groups say")
    shown.add_argument("--show", nargs="+", metavar="GROUP", help="tables of folders or files")
    shown.add_argument("--against", metavar="ROW", help="compare with this row, not the first")
    shown.add_argument("--rows", nargs="+", metavar="ROW", help="test these alone")
    shown.add_argument("--picture", metavar="FILE.svg", help="draw the differences")
    add_options(parser)
    return parser


def main(argv=None):
    """The command line. Raises ValueError or OSError for what `run_command` shows in one line."""
    given, of_show = command_line().parse(argv), {"show", "against", "rows", "picture"}
    if given.keys() & of_show:
        refuse("show" not in given or given.keys() - of_show,
               "--show goes with --against, --rows and --picture, and these with --show")
        refuse(not given.get("picture", ".svg").endswith(".svg"), "--picture: expected FILE.svg")
        return show_groups(given["show"], given.get("against"), given.get("rows", ()),
                           given.get("picture"))
    refuse("WORLD_SIZE" in os.environ, "a group runs in one process; start it without torchrun, "
           "and --resume it side by side, each with a --device of its own")
    with machine.torch_session(given):
        resumed = given.pop("resume", None)
        folder, group = saved_group(resumed, given) if resumed else new_group(given)
        try:
            run_group(folder, group, given if resumed else {})
        except KeyboardInterrupt:
            begun = Path(folder, FILE).exists()
            raise KeyboardInterrupt(f"--resume {folder} goes on" if begun else "") from None


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.compare"))
