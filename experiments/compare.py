"""Trains several settings with several seeds and compares them: `python -m experiments.compare`.

    --out G --vary model bert "dafa --layers all" --vary task mrpc rte --seeds 5 [--test]
                      trains every combination with five seeds; a value may have options behind it
    --show FILE ...   prints one table of groups: their folders, or files such as scores.json

The folder G is the group. A run that is there with the asked settings, pairs and own code is not
made again, and an unfinished one goes on. So the same command continues a group, such as one that
an error has ended; with more values or seeds it adds them. The other options are train.py's and
hold for all runs. The values of the first option but `task` are the rows of the table; the data
sets, and what else varies, are its columns. G also gets scores.json and a picture.

A row is compared with the first one, or with --against, if both have several seeds. A difference is
the mean over the columns of the differences of means; runs are not paired. Its 95 % interval is
Welch's: it says what other seeds would give, not what other sentences would give. p is two-sided
and exact: of all ways to deal a column's scores out to both rows, in each column, the share whose
sum of ranks is as far from its mean (Mann and Whitney 1947; the columns are strata). It is
corrected for the number of rows (Holm 1979), because of twenty p one is below 0.05 by chance.
"""
import itertools
import json
import math
import re
import shlex
import statistics
import sys
import textwrap
from collections import Counter, namedtuple
from dataclasses import asdict
from pathlib import Path

import numpy as np

import train
from run import lock_folder, made_here, make_reader, open_run, score_test, sha256_of_pairs
from settings import add_options, read_options
from support import machine
from support.datasets import load_pairs, load_test_splits
from support.errors import expecting, prefix_errors, refuse
from support.files import check_free, read_json, write_text
from support.machine import print_once
from support.options import Arguments, run_command
from support.pairs import seen_in_training
from support.summary import draw_line, draw_text, svg_page

WIDTH = 100  # of a table, at most
HERE = {"device", "workers", "data_dir", "out"}  # may differ from run to run
WITHOUT = {"no method", "no re-reading"}  # the changes of a model that take its whole method out
GREY = "#848d97"  # seen on light and on dark


def read_value(option, text):
    """dict setting -> value of one VALUE of --vary, such as "dafa --layers all", or ValueError."""
    parser, (value, dashes, options) = Arguments("", ""), text.partition(" --")
    add_options(parser)
    with prefix_errors(f"--vary {option} {text!r}: "):
        settings = parser.parse([f"--{option}={value}", *shlex.split(dashes + options)])
        refuse(settings.keys() & {"out", "seed"}, "--out and --seed hold for the whole group")
    return settings


def plan_group(vary, seeds, shared):
    """{name of a run's folder: (row, column, options of its training)}, or ValueError.

    vary: [[option, value, ...], ...]. shared: options of all runs.
    """
    options, found = [option for option, *_ in vary], {}
    refuse(len({*options}) < len(vary) or not {*options} - {"task"}
           or not all(values for _, *values in vary), "--vary: expected the rows of a table, such "
           "as --vary model bert dafa, and each option once, with its values behind it")
    of_rows = next(option for option in options if option != "task")
    for texts in itertools.product(*(values for _, *values in vary)):
        values, given = dict(zip(options, texts)), dict(shared)
        for option, text in values.items():
            given |= read_value(option, text)
        words = re.findall(r"\.?\w[\w.]*", " ".join(texts))
        with prefix_errors(f"{'-'.join(words)}: "):
            task = read_options(given)[0].task_name
        column = ", ".join([task, *(f"{option} {text}" for option, text in values.items()
                                    if option not in ("task", of_rows))])
        for seed in seeds:
            name = "-".join([*words, f"seed{seed}"])
            refuse(name in found, f"--vary: two values have the same folder, {name}; change one")
            found[name] = values[of_rows], column, given | {"seed": seed}
    return found


def check_run(place, given, test):
    """Raises ValueError for a missing data set, and if the run in the folder `place` is not the
    one that the options ask for: its settings, recipe, pairs or own code are others.
    """
    settings, recipe = read_options(given)
    _, splits = load_pairs(settings)
    if test:
        load_test_splits(settings)
    sums = {"pairs_sha256": sha256_of_pairs({x: splits[x] for x in seen_in_training(splits)}),
            "own": make_reader(settings, recipe)[1]}
    asked = asdict(settings) | asdict(recipe) | sums
    for file in (place / "config.json", place / "result.json"):  # the first while a run trains
        if file.exists():
            begun = read_json(file)
            with made_here(file):  # train.resume checks the sums, which the first lacks
                found = sums | begun | begun["settings"] | begun["recipe"]
            for name, value in asked.items():
                refuse(name not in HERE and found.get(name) != value, f"{place}: was made with "
                       f"{name} {found.get(name)!r:.40}, not {value!r:.40}; restore it, or name "
                       "another --out")


def train_run(place, given, test):
    """Does what is missing of a run: its training, or the rest of it; its scores on test."""
    ended, tested = ((place / file).exists() for file in ("result.json", "test.json"))
    here = {option: given[option] for option in {"model", "parser", *HERE} & given.keys()}
    if not ended and (place / "last.pt").exists():
        train.resume(place, **here)
    elif not ended:
        train.begin(**given | {"out": str(place)})
    if test and not tested:
        score_test(open_run(place, **here))


def read_run(place, test):
    """What scores.json keeps of a finished run, beside row, set and seed: a dict."""
    result = read_json(place / "result.json")
    with made_here(place):
        if test:
            result["metrics"] |= read_json(place / "test.json")["metrics"]
        changes = (result["influence"] or {"changes": {}})["changes"]
        kept = "positive", "best_epoch", "selection_split", "metrics"
        return {name: result[name] for name in kept} | {
            "answers": {name: change["answers"] for name, change in changes.items()}}


def run_group(folder, members, test, command):
    """Trains what is missing of a group, writes its files and prints its table."""
    for name, (*_, given) in members.items():
        check_run(folder / name, given, test)
    found = []
    for number, (name, (row, column, given)) in enumerate(members.items(), 1):
        print_once(f"\nrun {number} of {len(members)}: {name}")
        with prefix_errors(f"{name}: "):  # such as a loss that is no number
            train_run(folder / name, given, test)
        found.append({"row": row, "set": column, "seed": given["seed"]}
                     | read_run(folder / name, test))
    lines, against = ",\n".join(map(json.dumps, found)), found[0]["row"]
    write_text(folder / "scores.json",
               f'{{"command": {json.dumps(command)}, "runs": [\n{lines}\n]}}\n')
    if changes_from(table_of(found), against)[0]:  # of several rows and seeds
        write_text(folder / "scores.svg", draw_rows(found, against))
    print_once(f"\n{table_text(found, against)}\n\n{folder} has scores.json")


def read_scores(places):
    """The runs in files such as scores.json, or in the folders of groups: a list of dicts."""
    found, files = [], [Path(x, "scores.json") if Path(x).is_dir() else Path(x) for x in places]
    refuse(len({file.resolve() for file in files}) < len(files), "--show: a group is named twice, "
           "so that each of its seeds would count twice; name it once")
    for file in files:
        runs = read_json(file).get("runs")
        with expecting(file, "the scores of a group", "it is damaged, or made by other code"):
            table_of(runs)
        found += runs
    return found


def table_of(found):
    """dict row -> (set, split) -> [score of each run]: the first metric of test, or else of dev."""
    table = {}
    for run in found:
        metrics = run["metrics"]
        tests = [split for split in metrics if split.startswith("test")]
        split = [*tests, run.get("selection_split", [*metrics][-1])][0]
        columns = table.setdefault(run["row"], {})
        score = float(next(iter(metrics[split].values())))
        columns.setdefault((run["set"], split), []).append(score)
    return table


# A difference, the ends of its 95 % interval and p
Change = namedtuple("Change", "mean low high p")


def change_of(pairs):
    """The Change from b to a. pairs: (scores of a, scores of b), two at least, for each column.

    Degrees of freedom are Welch's and Satterthwaite's, of all means together.
    """
    mean = statistics.fmean(statistics.fmean(a) - statistics.fmean(b) for a, b in pairs)
    samples = [*itertools.chain(*pairs)]
    parts = [statistics.variance(scores) / len(scores) for scores in samples]
    half = 0.0
    if any(parts):
        squares = sum(part ** 2 / (len(x) - 1) for part, x in zip(parts, samples))
        half = t_quantile(sum(parts) ** 2 / squares) * sum(parts) ** 0.5 / len(pairs)
    return Change(mean, mean - half, mean + half, exact_p(pairs))


def t_quantile(freedom):
    """The number that Student's t exceeds with a probability of 0.025."""
    x = np.sinh(np.linspace(0, math.asinh(1e6), 20001))  # dense at 0, where the density is
    density = (1 + x * x / freedom) ** (-(freedom + 1) / 2)
    areas = ((density[1:] + density[:-1]) / 2 * np.diff(x)).cumsum()
    return float(np.interp(0.475, 0.5 * areas / areas[-1], x[1:]))


def exact_p(pairs):
    """Two-sided p of the sum of a's ranks over all columns. pairs: as change_of takes them.

    Equal scores share the mean of their ranks, so that twice a rank is a whole number.
    """
    ways, far = {0: 1}, 0  # twice the sum of ranks, less its mean -> ways to reach it
    for a, b in pairs:
        both, middle = [*a, *b], len(a) * (len(a) + len(b) + 1)
        ranks = [sum(2 * (y < x) + (y == x) for y in both) + 1 for x in both]
        far += sum(ranks[:len(a)]) - middle
        # (number of chosen scores, their sum) -> ways
        chosen = Counter({(0, total - middle): number for total, number in ways.items()})
        for rank in ranks:
            for (count, total), number in [*chosen.items()]:
                if count < len(a):
                    chosen[count + 1, total + rank] += number
        ways = {total: number for (count, total), number in chosen.items() if count == len(a)}
    as_far = sum(count for total, count in ways.items() if abs(total) >= abs(far))
    return as_far / sum(ways.values())


def holm(ps):
    """The p of each of several tests, corrected for their number (Holm 1979)."""
    scaled = [(x, (len(ps) - rank) * x) for rank, x in enumerate(sorted(ps))]
    return [min(1.0, max(y for x, y in scaled if x <= p)) for p in ps]


def changes_from(table, against):
    """(dict row -> Change from the row `against`, with p by Holm; the smallest p that these seeds
    can give). A row that lacks a column of `against`, or a second seed, is left out.
    """
    base, found, least = table.get(against, {}), {}, [1.0]
    for row, scores in table.items():
        if row != against and scores.keys() == base.keys():
            pairs = [(scores[column], base[column]) for column in base]
            if min(map(len, itertools.chain(*pairs))) > 1:
                found[row] = change_of(pairs)
                least.append(2 / math.prod(math.comb(len(a) + len(b), len(a)) for a, b in pairs))
    for row, p in zip(found, holm([change.p for change in found.values()])):
        found[row] = found[row]._replace(p=p)
    return found, min(1.0, len(found) * min(least))


def percent(values):
    """100 times the mean of values, "" of none."""
    return f"{100 * statistics.fmean(values):.1f}" if values else ""


def points(change):
    """A Change in points: "+1.0 (+0.7 to +1.2)"."""
    return f"{100 * change.mean:+.1f} ({100 * change.low:+.1f} to {100 * change.high:+.1f})"


def as_p(p):
    """Text of a p."""
    return f"{p:.2g}" if p >= 0.001 else "<0.001"


def table_text(found, against=None):
    """Markdown of the table of a list of runs, and what its differences and p are.

    A single column has the mean (standard deviation), the lowest and the highest seed; of several
    each has its mean. against: the row from which differences are taken; None: none are.
    """
    table = table_of(found)
    columns = [*dict.fromkeys(itertools.chain(*table.values()))]
    changes, least = changes_from(table, against)
    titles, split = [" ".join(column) for column in columns], "row"
    if len(columns) == 1:
        titles, split = ["mean", "seeds"], titles[0]
    elif len({split for _, split in columns}) == 1:
        titles, split = [name for name, _ in columns], columns[0][1]
    lines = [[split, *titles, "difference", "p", "changed"]]
    for row, scores in table.items():
        cells = [percent(scores.get(column)) for column in columns]
        if len(columns) == 1:
            values, ends = scores[columns[0]], ""
            if len(values) > 1:
                cells[0] += f" ({100 * statistics.stdev(values):.1f})"
                ends = f"{100 * min(values):.1f}-{100 * max(values):.1f}"
            cells.append(ends)
        change = changes.get(row)
        cells += [points(change), as_p(change.p)] if change else ["", ""]
        answers = [run.get("answers", {}) for run in found if run["row"] == row]
        changed = [share for x in answers for name, share in x.items() if name in WITHOUT]
        lines.append([row, *cells, percent(changed)])
    notes = []
    if changes:
        notes.append(f"Difference from {against} (95 % interval). p: exact ranks, Holm for "
                     f"{len(changes)}, {as_p(least)} at the least.")
    if any(line[-1] for line in lines[1:]):
        notes.append("Changed: answers on dev without the method, %.")
    return "\n\n".join([markdown(lines), textwrap.fill(" ".join(notes), WIDTH)]).rstrip()


def markdown(lines):
    """Markdown of a table without its empty columns; of several where it were wider than WIDTH.
    lines: rows of cells, the header first.
    """
    first, *columns = [column for i, column in enumerate(zip(*lines)) if i == 0 or any(column[1:])]
    left = max(map(len, first))
    widths = [max(map(len, column)) for column in columns]
    while len(widths) > 1 and left + sum(widths) + 3 * len(widths) >= WIDTH:
        widths.pop()
    texts = [" | ".join([title.ljust(left), *map(str.rjust, cells, widths)]).rstrip()
             for title, *cells in zip(first, *columns)]
    texts.insert(1, "-" * (left + 1) + "".join(f"|{'-' * (width + 1)}:" for width in widths))
    if rest := columns[len(widths):]:
        texts += ["", markdown([*zip(first, *rest)])]
    return "\n".join(texts)


def make_axis(values, start, end):
    """(function value -> pixel, round numbers to name) of an axis from one pixel to another."""
    low, high = min(values), max(values)
    steps = (base * 10 ** power for power in range(-3, 4) for base in (1, 2, 5))
    step = next(step for step in steps if (high - low) / step <= 9)
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    size = (end - start) / (high - low or 1)
    return lambda x: start + size * (x - low), [round(step * number, 3) for number in numbers]


def draw_rows(found, against):
    """SVG text of the differences from the row `against`: for each row a bar for the mean, a line
    for the 95 % interval, a dot a seed: the mean of columns, if they have equally many runs.
    """
    table = table_of(found)
    (changes, _), base, dots = changes_from(table, against), table[against], {}
    refuse(not changes, "--draw: no difference is there; it needs two rows with several seeds each")
    for row in changes:
        columns = [[100 * (x - statistics.fmean(base[column])) for x in scores]
                   for column, scores in table[row].items()]
        alike = len({*map(len, columns)}) == 1
        dots[row] = [statistics.fmean(seed) for seed in zip(*columns)] if alike else []
    ends = [100 * x for change in changes.values() for x in (change.low, change.high)]
    left, bottom = 24 + 7 * max(map(len, table)), 34 + 30 * len(changes)  # a letter: 7 pixels
    right = left + 240
    place, named = make_axis([0.0, *ends, *itertools.chain(*dots.values())], left, right)
    parts = [draw_text(left, 18, f"points above {against}", "title")]
    for x in named:
        parts += [draw_line(place(x), 28, place(x), bottom, "grid" if x else "zero"),
                  draw_text(place(x), bottom + 18, f"{x:g}", "soft", "middle")]
    for i, (row, change) in enumerate(changes.items()):
        y, x = 48 + 30 * i, place(100 * change.mean)
        low, high = place(100 * change.low), place(100 * change.high)
        parts += [draw_text(left - 12, y + 4, row, "", "end"), draw_line(low, y, high, y, "mark")]
        parts += [f'<circle class="dot" cx="{place(dot):.1f}" cy="{y}" r="3" fill="{GREY}"/>'
                  for dot in dots[row]]
        parts += [f'<rect class="mark" x="{x - 1:.1f}" y="{y - 8}" width="2" height="16"/>',
                  draw_text(right + 14, y + 4, points(change))]
    return svg_page(right + 150, bottom + 30, parts)


def show(places, against=None, rows=(), draw=None):
    """Prints the table of groups; draws it into a file that is new."""
    found = read_scores(places)
    known = dict.fromkeys(run["row"] for run in found)
    wanted = dict.fromkeys([*[against] * bool(against), *(rows or known)])
    unknown = ", ".join(wanted.keys() - known.keys())
    refuse(unknown, f"--show: no row {unknown}; expected some of {', '.join(known)}")
    found = [run for row in wanted for run in found if run["row"] == row]
    if draw:
        check_free(draw, "--draw")
        write_text(draw, draw_rows(found, against or found[0]["row"]))
    print_once(table_text(found, against))


def main(argv=None):
    """The command line. Raises ValueError or OSError for what `run_command` shows in one line."""
    parser = Arguments("python -m experiments.compare", "Trains several settings with several "
                       "seeds and compares them: --out G --vary model bert dafa --seeds 5")
    group = parser.add_argument_group("a group of runs; its folder: --out (runs/compare)")
    group.add_argument("--vary", nargs="+", action="append", metavar="OPTION",
                       help="an option of training and its values; twice: every combination")
    group.add_argument("--seeds", type=int, metavar="N", help="from --seed on (default: 1)")
    group.add_argument("--test", action="store_true", help="score the best epochs on test, once")
    shown = parser.add_argument_group("one table of finished groups")
    shown.add_argument("--show", nargs="+", metavar="FILE", help="print it; files or folders")
    shown.add_argument("--against", metavar="ROW", help="differences from this row")
    shown.add_argument("--rows", nargs="+", metavar="ROW", help="these rows alone, in this order")
    shown.add_argument("--draw", metavar="FILE.svg", help="draw the differences, a dot a seed")
    add_options(parser)
    words = sys.argv[1:] if argv is None else argv
    given, of_show = parser.parse(words), {"show", "against", "rows", "draw"}
    if given.keys() & of_show:
        refuse("show" not in given or given.keys() - of_show, "--show goes with --against, --rows "
               "and --draw alone, and these need --show")
        return show(given.pop("show"), **given)
    with machine.torch_session(given):
        refuse(machine.world()[1] > 1, "a group runs in one process; start it without torchrun")
        folder, first = Path(given.pop("out", "runs/compare")), given.pop("seed", 0)
        count = given.pop("seeds", 1)
        refuse(not 1 <= count <= 1000, f"--seeds {count}: expected 1 to 1000")
        test, vary = given.pop("test", False), given.pop("vary", [])
        members = plan_group(vary, range(first, first + count), given)
        with lock_folder(folder):  # against another process
            run_group(folder, members, test,
                      shlex.join(["python", "-m", "experiments.compare", *words]))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.compare"))
