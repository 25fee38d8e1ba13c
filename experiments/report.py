"""What a group of runs says: means, paired differences with intervals, tables, a picture.

A group is what experiments.compare writes into comparison.json, a dict with
    vary     [[setting, value, value, ...], ...], in the order of the command line
    runs     one for each setting: values, task, seeds, positive, selection_split, best_epochs,
             metrics       split -> metric -> mean, std, values
             difference    split -> metric -> mean, low, high, values
             influence     name of a change -> the share of answers that it changes, mean, std,
                           values, on the split that chose the epoch (support.meter)

A difference is from the first value of the first setting, seed by seed, with its 95 % interval by
Student's t. It speaks of other seeds, not of other sentences.
"""
import math
import statistics

import numpy as np

from support.curves import draw_line, svg_page, draw_text
from support.data import METRICS, metric_title
from support.summary import align_columns


# ---- Numbers ------------------------------------------------------------------------------------

def summarize(values, results, first=None):
    """One of a group's "runs".

    Args: values: dict setting -> value. results: of its seeds, as result.json has them. first:
        those of the setting that it differs from, or None.
    """
    metrics, difference = {}, {}
    for split, scores in results[0]["metrics"].items():
        for name in scores:
            found, others = ([result["metrics"][split].get(name) for result in seeds]
                             for seeds in (results, first or ()))
            if None in found:  # --limit can cut a phenomenon off
                continue
            metrics.setdefault(split, {})[name] = mean_and_deviation(found)
            if others and None not in others:
                change = mean_and_interval([x - y for x, y in zip(found, others, strict=True)])
                difference.setdefault(split, {})[name] = change
    return {"values": values, "task": results[0]["task"], "seeds": [x["seed"] for x in results],
            "positive": results[0].get("positive"),
            "selection_split": results[0]["selection_split"],
            "best_epochs": [x["best_epoch"] for x in results],
            "metrics": metrics, "difference": difference,
            "influence": influence_of([x.get("influence") or {} for x in results])}


def influence_of(found):
    """dict change -> mean_and_deviation of the share of answers that it changes in several runs."""
    changes = [x.get("changes", {}) for x in found]
    shared = [name for name in changes[0] if all(name in x for x in changes)]
    return {name: mean_and_deviation([x[name]["answers"] for x in changes]) for name in shared}


def mean_and_deviation(values):
    """dict: the mean, the sample's standard deviation, 0 of one value, and the values."""
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "std": std, "values": values}


def mean_and_interval(values):
    """dict: the mean, the ends of its 95 % interval, None of one value, and the values."""
    mean, low, high = statistics.fmean(values), None, None
    if len(values) > 1:
        half = statistics.stdev(values) / math.sqrt(len(values)) * t_quantile(len(values) - 1)
        low, high = mean - half, mean + half
    return {"mean": mean, "low": low, "high": high, "values": values}


def t_below(t, freedom):
    """Probability that Student's t with so many degrees of freedom is below t, at least 0; to 1e-6.
    """
    at_zero = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    at_zero /= math.sqrt(freedom * math.pi)
    x = np.sinh(np.linspace(0, math.asinh(t), 2001))  # dense at 0, where the density is
    density = at_zero * (1 + x * x / freedom) ** (-(freedom + 1) / 2)
    return 0.5 + float(((density[1:] + density[:-1]) / 2 * np.diff(x)).sum())


def t_quantile(freedom):
    """The 97.5 % quantile of Student's t with so many degrees of freedom, to 1e-4."""
    low, high = 0.0, 200.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (middle, high) if t_below(middle, freedom) < 0.975 else (low, middle)
    return low


def main_score(run):
    """(split, metric) of one of a group's runs: of test where it was scored, else of selection."""
    tested = [name for name in run["metrics"] if name.startswith("test")]
    split = (tested or [run["selection_split"]])[0]
    return split, next(iter(run["metrics"][split]))


# ---- Text ---------------------------------------------------------------------------------------

def format_value(value):
    """A setting's value as one would type it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) or "none"


def percent(x, sign=""):
    """100 times a mean; of several values also their (standard deviation) or (low to high)."""
    ends = [x["std"]] if "std" in x else [x["low"], x["high"]]
    mean = f"{100 * x['mean']:{sign}.1f}"
    if len(x["values"]) == 1:
        return mean
    return f"{mean} ({' to '.join(f'{100 * end:{sign}.1f}' for end in ends)})"


def format_tables(group):
    """Tables of a group, and below them one of its differences.

    One setting varies: a table for each split, a row for each value, a column for each metric.
    Several: one table, the last one's values side by side, by their main scores.
    """
    names = [name.replace("_", "-") for name, *_ in group["vary"]]
    (option, first, *_), seeds = group["vary"][0], len(group["runs"][0]["seeds"])
    tables, differences = {}, {}  # heading -> row -> column -> text; row -> column -> text
    for run in group["runs"]:
        *others, last = map(format_value, run["values"].values())
        row = " ".join(others) or last
        for heading, column, changed, split, metric in find_columns(names, run):
            cells = tables.setdefault(heading, {}).setdefault(row, {})
            cells[column] = percent(run["metrics"][split][metric])
            change = run["difference"].get(split, {}).get(metric)
            if change and metric in METRICS and run["values"][option] != first:
                differences.setdefault(row, {})[changed] = percent(change, "+")
        if removed := list(run.get("influence", {}).values()):
            heading = " ".join(names[:-1]) if others else f"{names[0]}, {run['selection_split']}"
            column = f"{last}, answers it changes, %" if others else "answers it changes, %"
            tables[heading][row][column] = percent(removed[-1])
    parts = [format_table(heading, rows) for heading, rows in tables.items()]
    if differences:
        spread = f", {seeds} seeds, 95 % interval" if seeds > 1 else ""
        text = format_table(" ".join(names[:-1] or names), differences)
        parts.append(f"difference from {format_value(first)}{spread}\n{text}")
    return "\n\n".join(parts)


def find_columns(names, run):
    """[(heading of a table, its column, column of differences, split, metric)] of a group's run."""
    *others, last = map(format_value, run["values"].values())
    if others:
        split, metric = main_score(run)
        column = f"{last} ({split} {metric_title(metric, run.get('positive'))})"
        return [(" ".join(names[:-1]), column, column, split, metric)]
    found = []
    for split, scores in run["metrics"].items():
        for metric in scores:
            title = metric_title(metric, run.get("positive"))
            found.append((f"{names[0]}, {split}", title, f"{split} {title}", split, metric))
    return found


def format_table(heading, rows):
    """Text of a dict row -> column -> cell."""
    columns = dict.fromkeys(column for row in rows.values() for column in row)
    cells = [[name, *(row.get(column, "") for column in columns)] for name, row in rows.items()]
    return align_columns([[heading, *columns], *cells])


# ---- A picture ----------------------------------------------------------------------------------

PLOT, TEXT, ROW = 360, 170, 22  # pixels: width of what is drawn and of the numbers, height of a row
NOTE = "Dot: mean over the seeds; bar: its 95 % interval; the dot is filled where 0 lies outside."


def make_panels(group, name=""):
    """[(title, [(row, difference), ...])]: a panel for each task and for each combination of what
    varies behind the first setting; a row for each value of that but the first.

    name: of the group, shown where it is not the task's; the task's where the file has none.
    """
    (option, first, *_), found = group["vary"][0], {}
    for run in group["runs"]:
        split, metric = main_score(run)
        more = [f"{x} {format_value(y)}" for x, y in run["values"].items()
                if x not in (option, "task")]
        task = run.get("task", name)
        if name not in ("", task):
            task = name if task == "own" else f"{task} ({name})"
        task = ", ".join([task, *more])
        if run["values"][option] == first:
            score = percent(run["metrics"][split][metric])
            title = f"{task}, {split} {metric}: difference from {format_value(first)}, {score}"
            found[task] = title, []
        elif task in found and metric in run["difference"].get(split, {}):
            change = run["difference"][split][metric]
            found[task][1].append((format_value(run["values"][option]), change))
    return [(title, rows) for title, rows in found.values() if rows]


def draw_panels(panels):
    """SVG text of `make_panels`' panels, one below the other, on a light page and on a dark one."""
    left = 24 + 8 * max(len(name) for _, rows in panels for name, _ in rows)
    parts, top = [], 0
    for title, rows in panels:
        parts += draw_panel(title, rows, left, top)
        top += ROW * (len(rows) + 3)
    known = sum(change["low"] is not None for _, rows in panels for _, change in rows)
    counted = f"Of {known} such bars {known / 20:.1f} would leave out 0 by chance alone."
    notes = [draw_text(12, top + 6, NOTE, "soft"), draw_text(12, top + ROW, counted, "soft")]
    return svg_page(max(left + PLOT + TEXT, 640), top + 2 * ROW, [*parts, *notes])


def draw_panel(title, rows, left, top):
    """The elements of one panel, whose scale holds all its intervals, 100 points at most."""
    ends = [0.0]
    for _, change in rows:
        ends += [100 * change[end] for end in ("mean", "low", "high") if change[end] is not None]
    low, high = max(-100.0, min(ends)), min(100.0, max(ends))
    low, high = low - 0.05 * (high - low) - 0.1, high + 0.05 * (high - low) + 0.1
    step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if high - low < 6 * step)

    def place(points):
        return left + PLOT * (min(max(points, low), high) - low) / (high - low)

    bottom = top + ROW * (len(rows) + 1.4)
    parts = [draw_text(12, top + 18, title, "title")]
    for number in range(math.ceil(low / step), math.floor(high / step) + 1):
        x = place(number * step)
        parts.append(draw_line(x, top + 28, x, bottom, "grid" if number else "zero"))
        text = f"{number * step:+g}" if number else "0"
        parts.append(draw_text(x, bottom + 16, text, "soft", "middle"))
    for i, (name, change) in enumerate(rows):
        y, mark, x = top + ROW * (i + 2), "mark open", place(100 * change["mean"])
        if change["low"] is not None:
            from_x, to_x = place(100 * change["low"]), place(100 * change["high"])
            parts.append(draw_line(from_x, y, to_x, y, "mark"))
            mark = "mark open" if change["low"] <= 0 <= change["high"] else "mark"
        parts.append(f'<circle class="{mark}" cx="{x:.1f}" cy="{y}" r="4"/>')
        parts.append(draw_text(left - 12, y + 5, name, "", "end"))
        parts.append(draw_text(left + PLOT + 12, y + 5, percent(change, "+")))
    return parts
