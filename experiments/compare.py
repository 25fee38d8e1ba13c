"""Trains several settings with several seeds and compares them: `python -m experiments.compare`.

    --vary model bert "dafa --layers all" --vary task mrpc rte --seeds 5 [--test]
                      trains every combination with five seeds; a value may have options behind it
    --resume GROUP    continues a group of runs that was cut off; started again beside a process
                      that trains the group, it shares the work; --vary model dabert adds a row
    --show GROUP ...  prints the tables of groups: their folders, or files such as comparison.json

Without --vary, plain BERT is compared with --model. The other options hold for all runs. Epochs,
rates and the like that are not given are each model's own: see train.py --help.

The rows of a table are the values of the setting that is named first. Each row is compared with
the first row. A difference is taken seed by seed. Its 95 % interval is Student's t over the seeds:
it says what other seeds would give, not what other sentences would give. Over several tasks the
difference is the mean of the tasks' means, with Welch's interval: seed 0 of one task has nothing in
common with seed 0 of another, so their variances add up. p is two-sided, then corrected for the
number of rows of its table (Holm 1979), because of twenty p one is below 0.05 by chance.

A group's folder holds a folder for each run, comparison.svg, and comparison.json, which has a line
for each finished run. A finished run is not trained again. comparison.json alone is enough to
continue the group in another folder.
"""
import itertools
import json
import math
import os
import re
import shlex
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import train
from run import make_reader, own_sums
from settings import PROCESS, Settings, add_options, load_pairs, load_test_splits, read_options
from support import machine, runs
from support.errors import expecting, prefix_errors, refuse
from support.files import read_json, write_text
from support.machine import print_once
from support.options import Arguments, run_command
from support.pairs import metric_title
from support.summary import draw_line, draw_text, svg_page

FILE = "comparison.json"


# ---- What is to be run --------------------------------------------------------------------------

def read_value(option, text):
    """One value of --vary with the options behind it, as a dict setting -> value, or ValueError."""
    parser, (value, dashes, options) = Arguments("", ""), text.partition(" --")
    add_options(parser)
    with prefix_errors(f"--vary {option} {text!r}: "):
        settings = parser.parse([f"--{option}={value}", *shlex.split(dashes + options)])
        refuse(settings.keys() & {"out", "seed"}, "--out and --seed hold for the whole group")
    return settings


def new_group(given):
    """(folder, group) of a new group that these options ask for. The folder is not made yet."""
    out, first, count = given.pop("out", None), given.pop("seed", 0), given.pop("seeds", 1)
    test, vary = given.pop("test", False), given.pop("vary", [])
    options = {option for option, *values in vary if values}
    refuse(len(options) < len(vary), "--vary: expected each option once, with its values behind it")
    twice = {option for option in options if option.replace("-", "_") in given}
    refuse(twice, f"--vary {', '.join(twice)}: is also given for all runs; leave one of them out")
    refuse(count < 1, f"--seeds {count}: expected 1 or more")
    refuse(out and Path(out, FILE).exists(), f"--out {out}: holds a group of runs; continue it by "
           f"--resume {out}, or name another folder")
    vary.sort(key=lambda words: words[0] == "task")  # a task is no row
    if not vary or vary[0][0] == "task":
        model = given.pop("model", Settings.model)
        vary.insert(0, ["model", *dict.fromkeys([model] if vary else ["bert", model])])
    folder = runs.new_folder(out, "-".join(["compare", *(option for option, *_ in vary)]))
    return folder, {"vary": vary, "seeds": list(range(first, first + count)), "shared": given,
                    "test": test, "done": {}}


def saved_group(folder, given):
    """(folder, group) of a group to continue. Takes from `given` all options but PROCESS: --test,
    more values to vary, and the user's own code, because a file may not name code that is run.
    """
    group = read_group(Path(folder, FILE))
    known, more = set(given.pop("own", ())), given.pop("vary", [])
    group["test"] = given.pop("test", group["test"])
    refuse(given.keys() - PROCESS, f"--resume {folder}: the group has its own "
           f"{', '.join(given.keys() - PROCESS)}; leave that out")
    named = {str(x.get(key)) for x in members(group).values() for key in ("model", "parser")}
    refuse(unknown := {code for code in named if ":" in code} - known,
           f"--resume {folder}: names code of somebody's own, and a folder alone runs no code; "
           f"if you know the files, add --own {' '.join(sorted(unknown))}")
    add_values(group, more)
    if group["test"]:
        group["done"] = {name: result for name, result in group["done"].items()
                         if any(split.startswith("test") for split in result["metrics"])}
    return Path(folder), group


def add_values(group, vary):
    """Adds to a group the values that it lacks. ValueError where it does not vary the option."""
    rows = {words[0]: words for words in group["vary"]}
    for option, *values in vary:
        refuse(option not in rows, f"--vary {option}: the group varies {', '.join(rows)}; add "
               "values of these, or start a new group")
        rows[option] += [value for value in values if value not in rows[option][1:]]


def combinations(group):
    """[dict option -> value] of every combination; the last option's values change fastest."""
    options = [option for option, *_ in group["vary"]]
    values = itertools.product(*(texts for _, *texts in group["vary"]))
    return [dict(zip(options, texts)) for texts in values]


def name_of(values, seed):
    """The name of a run, and of its folder in its group's: "dafa-layers-all-seed0"."""
    return "-".join([*re.findall(r"\.?\w[\w.]*", " ".join(values.values())), f"seed{seed}"])


def members(group):
    """{name: options of its training} of the group's runs, or ValueError."""
    found = {}
    for values, seed in itertools.product(combinations(group), group["seeds"]):
        name, given = name_of(values, seed), group["shared"] | {"seed": seed}
        refuse(name in found, f"--vary: two values have the same folder, {name}; change one")
        for option, text in values.items():
            given |= read_value(option, text)
        found[name] = given
    return found


# ---- Running ------------------------------------------------------------------------------------

def run_group(folder, group, here):
    """Trains the runs that are neither finished nor trained by another process; shows the tables.
    here: settings of this process alone, which the group's file does not get."""
    planned = {name: given | here for name, given in members(group).items()
               if name not in group["done"]}
    data, code, failed = {}, {}, []
    for name, given in planned.items():
        with prefix_errors(f"{name}: "):
            x, recipe = read_options(given)
            code[x.model, x.parser, x.parses] = own_sums(x, make_reader(x, recipe))
        data[x.task_name, x.train_file, x.dev_file, x.test_file, x.columns] = x
    for place, settings in data.items():  # a missing data set is found before hours of training
        (load_test_splits if group["test"] else load_pairs)(settings)
        sums = runs.sha256_of_pairs(load_pairs(settings, limited=False)[1])
        refuse(sums != group.setdefault("pairs", {}).setdefault(str(place), sums), f"{folder}: "
               f"pairs of {', '.join(filter(None, place))} changed; restore them, or begin anew")
    for place, sums in code.items():
        if sums != group.setdefault("own", {}).setdefault(str(place), sums):
            print_once(f"{folder}: the files of {', '.join(filter(None, place))} have changed "
                       f"since its first runs; do not compare these with later runs")
    gather_results(folder, group)
    for number, (name, given) in enumerate(planned.items(), 1):
        if name in group["done"]:  # by another process
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
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"--resume {folder} goes on") from None
        gather_results(folder, group)
    show_groups([folder], picture=folder / "comparison.svg")
    refuse(failed, "; ".join(failed))
    print_once(f"\n{folder} has the runs, {FILE} and comparison.svg")


def gather_results(folder, group):
    """Adds new results, and values that another process added, to a group; writes its file."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / FILE).exists():
        add_values(group, read_group(folder)["vary"])
    for name, given in members(group).items():
        if result := read_done(folder / name, given, group["test"]):
            group["done"][name] = result
    lines = [f"{json.dumps(name)}: {json.dumps(x)}" for name, x in group["done"].items()]
    head = json.dumps({name: x for name, x in group.items() if name != "done"})
    write_text(folder / FILE, head[:-1] + ', "done": {\n' + ",\n".join(lines) + "\n}}\n")


def read_done(folder, given, test):
    """What a group keeps of a run with these options, or None where the run is not finished; with
    `test`, not scored on test. Raises ValueError where the run has other options.
    """
    if not (folder / "result.json").exists() or test and not (folder / "test.json").exists():
        return None
    result = read_json(folder / "result.json")
    if test:
        result["metrics"] |= read_json(folder / "test.json")["metrics"]
    with runs.made_here(folder):
        trained = result["settings"] | result["recipe"]
        changes = (result["influence"] or {"changes": {}})["changes"]
        metric = next(iter(result["metrics"][result["selection_split"]]))
        events = map(json.loads, (folder / "log.jsonl").read_text("utf-8").splitlines())
        kept = "task", "positive", "best_epoch", "selection_split", "metrics"
        done = {name: result[name] for name in kept} | {
            "answers": {name: x["answers"] for name, x in changes.items()},
            "curve": [event[metric] for event in events if "epoch" in event]}  # dev after each
    others = [name for name in given.keys() - PROCESS if trained.get(name) != given[name]]
    refuse(others, f"{folder}: has another {', '.join(others)} than the group; move it away")
    return done


def read_group(place):
    """The group in a folder, or in a file such as comparison.json. Raises ValueError naming it."""
    path = Path(place, FILE) if Path(place).is_dir() else Path(place)
    group = read_json(path)
    with expecting(path, "a group of runs", "it is damaged, or made by other code"):
        refuse(len({*group["seeds"]}) < len(group["seeds"]), "a seed twice")
        find_panels(group)
    return group


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
    """[Panel] of a group, with the settings whose seeds are all done.

    name: the group's name, shown beside the task's where both differ; it replaces the name "own".
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

    The variances of the means add up, with Welch and Satterthwaite's degrees of freedom. For one
    task this is Student's t.
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
    """Rows of cells: the differences from the row `against`, with a column for each task, their
    mean over the tasks, p, and p corrected for the number of rows.

    panels: one for each task; `others` is the same. chosen: the rows to show; all by default.
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


def show_groups(places, against=None, chosen=(), picture=None):
    """Prints the tables of groups, with one test over all of them, and draws the differences."""
    panels, rows, blocks = [], {}, {}
    for place in places:
        group, path = read_group(place), Path(place)
        rows |= dict.fromkeys(group["vary"][0][1:])
        name = path.parent.name if path.name == FILE else path.resolve().stem
        panels += find_panels(group, name if len(places) > 1 else "")
        if missing := len(combinations(group)) * len(group["seeds"]) - len(group["done"]):
            print_once(f"{place}: {missing} runs are not finished; --resume trains those that no "
                       "other process trains")
    against = against or next(iter(rows))
    refuse(unknown := {against, *chosen} - rows.keys(), f"--show: {', '.join(sorted(unknown))}: "
           f"expected some of {', '.join(rows)}")
    for panel in panels:
        for other in blocks.setdefault(panel.others, []):
            twice = [row for row in panel.rows if panel.rows[row] == other.rows.get(row)]
            refuse(len(twice) > 1 and panel.seeds == other.seeds, f"--show: {panel.task} and "
                   f"{other.task} have the same runs of {', '.join(twice)}; leave out one group")
        blocks[panel.others].append(panel)
    for panel in panels:
        for split in panel.first["metrics"]:
            print_table(score_table(panel, split, against))
        curves = curve_table(panel)
        if len(curves[0]) > 2:  # the score of a single epoch is in the table above
            print_table(curves)
    for block in blocks.values():
        print_table(difference_table(block, against, chosen))
    if any(panel.task.startswith("toy") for panel in panels):
        print_once("\ntoy is a generated diagnostic; its numbers say nothing about real English")
    if picture:
        write_text(picture, draw_panels(panels, against))


# ---- A picture ----------------------------------------------------------------------------------

PLOT, TEXT, ROW = 360, 170, 22  # pixels: width of the drawing, of the numbers; height of a row
NOTE = "Dot: mean over the seeds; bar: its 95 % interval; the dot is filled where 0 lies outside."


def draw_panels(panels, against):
    """SVG text: the differences of each panel, one panel below the other."""
    parts, top, bars = [], 0, 0
    left = 24 + 8 * max((len(value) for panel in panels for value in panel.rows), default=0)
    for panel in panels:
        changes = {value: change_of(x)
                   for value, x in differences(panel, panel.split, against).items()}
        if changes:
            score = percent(scores_of(panel.rows[against], panel.split, panel.metric))
            title = (f"{panel.task}{panel.others}, {panel.split} {panel.metric}: difference from "
                     f"{against}, {score}")
            parts += [draw_text(12, top + 18, title, "title"), *draw_changes(changes, left, top)]
            bars += sum(change.low is not None for change in changes.values())
            top += ROW * (len(changes) + 3)
    counted = f"Of {bars} such bars {bars / 20:.1f} would leave out 0 by chance alone."
    notes = [draw_text(12, top + 6, NOTE, "soft"), draw_text(12, top + ROW, counted, "soft")]
    return svg_page(max(left + PLOT + TEXT, 640), top + 2 * ROW, [*parts, *notes])


def draw_changes(changes, left, top):
    """The SVG elements of one panel. Its scale shows all intervals, up to 100 points."""
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
            parts.append(draw_line(place(100 * change.low), y, place(100 * change.high), y, "mark"))
            mark = "mark open" if change.low <= 0 <= change.high else "mark"
        parts.append(f'<circle class="{mark}" cx="{x:.1f}" cy="{y}" r="4"/>')
        parts.append(draw_text(left - 12, y + 5, name, "", "end"))
        parts.append(draw_text(left + PLOT + 12, y + 5, points(change)))
    return parts


# ---- The command line ---------------------------------------------------------------------------

def command_line():
    """The options of groups of runs, and the options of training."""
    parser = Arguments("python -m experiments.compare", "Trains several settings with several "
                       "seeds and compares them. Without options: plain BERT and DAFA, on toy.")
    group = parser.add_argument_group("a group of runs")
    group.add_argument("--vary", nargs="+", action="append", metavar="OPTION",
                       help="an option of training and its values; twice: every combination; with "
                            "--resume: more values of it")
    group.add_argument("--seeds", type=int, metavar="N", help="from --seed on (default: 1)")
    group.add_argument("--test", action="store_true", help="score the best epochs on test, once")
    group.add_argument("--resume", metavar="GROUP", help="continue a group, or join a running one")
    group.add_argument("--own", nargs="+", metavar="mine.py:M",
                       help="with --resume: code of your own, which a folder may not name")
    shown = parser.add_argument_group("tables of groups")
    shown.add_argument("--show", nargs="+", metavar="GROUP", help="print their tables")
    shown.add_argument("--against", metavar="ROW", help="compare with this row, not the first")
    shown.add_argument("--rows", nargs="+", metavar="ROW", help="test these rows alone")
    shown.add_argument("--picture", metavar="FILE.svg", help="draw the differences")
    add_options(parser)
    return parser


def main(argv=None):
    """The command line. Raises ValueError or OSError for what `run_command` shows in one line."""
    given, of_show = command_line().parse(argv), {"show", "against", "rows", "picture"}
    if given.keys() & of_show:
        refuse("show" not in given or given.keys() - of_show,
               "--show goes with --against, --rows and --picture alone, and these need --show")
        return show_groups(given.pop("show"), chosen=given.pop("rows", ()), **given)
    refuse("WORLD_SIZE" in os.environ, "a group runs in one process; start it without torchrun, "
           "and --resume it in other processes, each with its own --device")
    with machine.torch_session(given):
        if "resume" in given:
            run_group(*saved_group(given.pop("resume"), given), here=given)
        else:
            folder, group = new_group(given)
            with runs.lock_folder(folder):  # against another group that starts at this moment
                run_group(folder, group, here={})


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.compare"))
