"""Do methods differ from plain BERT, and could we have seen it? `python -m experiments.power RUNS`.

Reads every finished run below the folders, lets each answer the split on which its best epoch was
chosen, or --split, and compares it with the run of --against that has the same task and seed. Files
of groups, such as comparison.json, have scores alone: "by both" is left out, and p is that of the
seeds. For each task and model, for each model over its tasks, and for all:

    difference   in points of the task's first metric, the mean over seeds, then over tasks
    by seeds     its 95 % interval by Student's t over the seeds: would other seeds say the same?
                 Over tasks their variances add up (Welch): each task has seeds of its own
    by both      its 95 % interval by a paired bootstrap, which draws seeds and pairs of sentences
                 anew, the same for both models: would other seeds and sentences? A few seeds
                 drawn anew spread too little: of two intervals trust the wider one
    p            two-sided, of the wider of both intervals
    p, all rows  the same, corrected for the number of rows of a task and a model (Holm)
    seeds for .5 how many seeds of each task show half a point in four of five tries (t test, 5 %,
                 these sentences), if they spread as these do. Five seeds' spread may be 0.6 to
                 2.9 times as large in truth (95 %), and what is needed goes with its square

The test over all rows asks one question once; of twenty rows one has p < 0.05 by chance.
"""
import math
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

import train
from experiments.compare import read_group
from experiments.report import t_below, t_quantile
from support import runs, summary
from support.checkpoints import join_names
from support.data import METRICS, answers, load_pairs
from support.machine import print_once, torch_session
from support.options import Arguments, refuse, run_command

POINTS = 0.005          # what one would like to see
SURE = 1.960 + 0.842    # quantiles of the normal distribution: 5 % in two tails, power of 80 %


# ---- What the runs say --------------------------------------------------------------------------

def find_runs(folders, models):
    """dict task -> model -> seed -> folder of each finished run. models: those asked for, or None.

    Raises ValueError for two runs of one, and where there is none.
    """
    found = {}
    for folder in folders:
        refuse(not Path(folder).is_dir(), f"{folder}: expected a folder with runs below it; files "
               "of groups are read by themselves")
    for path in sorted(path for folder in folders for path in Path(folder).rglob("result.json")):
        result = runs.read_result(path.parent)
        if models and result["model"] not in models:
            continue
        seeds = found.setdefault(result["task"], {}).setdefault(result["model"], {})
        if result["seed"] in seeds:
            raise ValueError(f"{path.parent}: {seeds[result['seed']]} is another run of "
                             f"{result['model']} on {result['task']}, seed {result['seed']}")
        seeds[result["seed"]] = path.parent
    absent = set(models or ()) - {model for seeds in found.values() for model in seeds}
    refuse(absent or not found, f"{', '.join(folders)}: expected finished runs "
           f"below{f', of {join_names(sorted(absent))} too' if absent else ''}")
    return found


def read_answers(folder, split, changes, model):
    """(metric, labels (N,), answers (N,)) of a run on a split; None: that of its best epoch."""
    run = train.open_run(folder, model=model, **changes)
    pairs = load_pairs(run.settings)[1].get(split or run.task.selection, [])
    labels = np.array([pair.label for pair in pairs])
    refuse(not pairs or None in labels, f"--split {split}: {run.task.name} has no labels there")
    return run.task.metrics[0], labels, np.array(answers(run.logits(pairs), run.task))


def read_cells(found, against, split, changes, said=()):
    """[((task, model), metric, labels (N,), theirs (S, N), ours (S, N), seeds)], S seeds that both
    have. said: models that the caller has named, perhaps classes of his own. Raises ValueError
    where there are none, or runs answer different pairs.
    """
    cells = []
    for task, models in found.items():
        known = {}
        for model in sorted(models, key=lambda name: name != against):
            seeds = sorted(models[model].keys() & models.get(against, {}).keys())
            for seed in tqdm(seeds, f"{task} {model}", leave=False):
                own = model if model in said else None
                known[model, seed] = read_answers(models[model][seed], split, changes, own)
            if model != against and seeds:
                metric, labels, _ = known[model, seeds[0]]
                if any(not np.array_equal(x, labels) for _, x, _ in known.values()):
                    raise ValueError(f"{task}: its runs answer different pairs, as HELD_OUT draws "
                                     f"them; give files of groups, which have scores")
                theirs, ours = (np.array([known[name, seed][2] for seed in seeds])
                                for name in (against, model))
                cells.append(((task, model), metric, labels, theirs, ours, seeds))
    refuse(not cells, f"--against {against}: no other model has a run of the same task and seed")
    return cells


def read_scores(files, against, models, split):
    """([(task, model)], [{seed: difference}]) of files of groups that vary the model alone.

    models: those asked for, or None. split: None: that of the best epochs.
    """
    keys, found = [], []
    for path in map(Path, files):
        scores, tasks = {}, {}
        for run in read_group(path)["runs"]:
            metrics = run["metrics"].get(split or run["selection_split"])
            if run["values"].keys() == {"model"} and metrics:
                model, values = run["values"]["model"], next(iter(metrics.values()))["values"]
                scores[model] = dict(zip(run["seeds"], values, strict=True))
                task = run.get("task", "own")
                tasks[model] = path.stem if task == "own" else task  # files differ by group
        refuse(against not in scores, f"{path}: expected runs that vary the model, with scores of "
               f"--against {against}{f' on --split {split}' if split else ''}")
        theirs = scores.pop(against)
        for model, ours in scores.items():
            shared = [seed for seed in ours if seed in theirs]
            if shared and (not models or model in models):
                keys.append((tasks[model], model))
                found.append({seed: ours[seed] - theirs[seed] for seed in shared})
    refuse(not keys, f"{', '.join(files)}: expected groups of several "
           f"models{f', some of {join_names(models)}' if models else ''}")
    return keys, found


# ---- Numbers ------------------------------------------------------------------------------------

def differences(metric, labels, theirs, ours):
    """(S,) what the metric gains from theirs to ours, seed by seed."""
    score = METRICS[metric]
    return np.array([score(labels, b) - score(labels, a) for a, b in zip(theirs, ours)])


def bootstrap(cells, resamples):
    """(resamples, cells) differences with seeds and pairs drawn anew, with replacement. One draw
    of pairs and of seeds holds for all models of a task.
    """
    random, drawn = np.random.default_rng(0), np.zeros((resamples, len(cells)))
    for r in tqdm(range(resamples), "bootstrap", leave=False):
        places = {}
        for i, ((task, _), metric, labels, theirs, ours, _) in enumerate(cells):
            size = len(theirs), len(labels)
            if (task, size) not in places:
                places[task, size] = [random.integers(0, n, n) for n in size]
            seeds, pairs = places[task, size]
            some = theirs[seeds][:, pairs], ours[seeds][:, pairs]
            drawn[r, i] = differences(metric, labels[pairs], *some).mean()
    return drawn


class Pooled(NamedTuple):
    """A mean of tasks' means over seeds, and what is known of it."""

    mean: float
    deviation: float     # over seeds, of one run of each task; nan of a single seed
    error: float         # standard error of the mean
    freedom: float       # degrees of freedom of the error, Welch and Satterthwaite's


def pool_tasks(values_of_tasks):
    """Pooled of lists of differences, one list for each task.

    Tasks have seeds of their own: seed 0 of one has nothing in common with seed 0 of another, so
    that the variances of their means add up.
    """
    count = len(values_of_tasks)
    mean = statistics.fmean(map(statistics.fmean, values_of_tasks))
    if any(len(values) < 2 for values in values_of_tasks):
        return Pooled(mean, math.nan, math.nan, math.nan)
    spreads = [statistics.variance(values) for values in values_of_tasks]
    parts = [spread / len(values) for spread, values in zip(spreads, values_of_tasks)]
    squares = sum(part ** 2 / (len(values) - 1) for part, values in zip(parts, values_of_tasks))
    freedom = sum(parts) ** 2 / squares if squares else len(values_of_tasks[0]) - 1
    return Pooled(mean, sum(spreads) ** 0.5 / count, sum(parts) ** 0.5 / count, freedom)


def p_value(pooled, drawn):
    """Two-sided p of a mean of 0: by Student's t over the seeds, or that of the drawn differences
    where it is larger; None of a single seed.
    """
    if math.isnan(pooled.error):
        return None
    t = abs(pooled.mean) / pooled.error if pooled.error else math.inf
    p = max(0.0, 2 * (1 - t_below(min(t, 1e6), pooled.freedom)))
    if len(drawn):
        tail = min((drawn <= 0).mean(), (drawn >= 0).mean())
        p = max(p, 2 * tail, 1 / len(drawn))
    return min(1.0, p)


def holm(ps):
    """p of each of several tests, corrected for their number (Holm 1979)."""
    order, corrected, largest = sorted(range(len(ps)), key=ps.__getitem__), {}, 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        corrected[i] = largest
    return [corrected[i] for i in range(len(ps))]


def seeds_needed(deviation):
    """How many seeds show POINTS, if runs spread like this; None where that is not known.

    ((1.960 + 0.842) s / POINTS)² + 1.960² / 2: as many as by the normal distribution, and what
    Student's t asks for more (Guenther 1981).
    """
    if math.isnan(deviation):
        return None
    return math.ceil((SURE * deviation / POINTS) ** 2 + 1.960 ** 2 / 2)


def table_rows(keys, found, drawn):
    """[(what, differences by seed of each task, drawn)]: each task and model, each model over its
    tasks, and all models; a task's models are averaged over the seeds that all of them have. found:
    {seed: difference} of each of keys. drawn: (resamples, keys), perhaps no resamples; none is
    taken over tasks and models of other seeds.
    """
    rows = [(key, [[*values.values()]], drawn[:, i])
            for i, (key, values) in enumerate(zip(keys, found))]
    models = [model for _, model in keys]
    for name in [name for name in dict.fromkeys(models) if models.count(name) > 1] + ["all models"]:
        chosen, means, alike = [], [], True
        for task in dict.fromkeys(task for task, _ in keys):
            mine = [i for i, key in enumerate(keys) if key[0] == task and name in (key[1],
                                                                                   "all models")]
            shared = sorted(set.intersection(*(set(found[i]) for i in mine))) if mine else []
            if shared:
                means.append([np.mean([found[i][seed] for i in mine]) for seed in shared])
                chosen += mine
            alike = alike and all(len(found[i]) == len(shared) for i in mine)
        if means:
            rows.append((("all tasks", name), means, drawn[:len(drawn) * alike, chosen].mean(1)))
    return rows if len(keys) > 1 else rows[:1]


def format_rows(rows):
    """The table of table_rows."""
    lines = [["task", "model", "seeds", "difference", "by seeds", "by both", "p", "p, all rows",
              "seeds for .5"]]
    pools = [pool_tasks(values) for _, values, _ in rows]
    ps = [p_value(pooled, drawn) for pooled, (*_, drawn) in zip(pools, rows)]
    single = [i for i, (key, *_) in enumerate(rows) if key[0] != "all tasks" and ps[i] is not None]
    corrected = dict(zip(single, holm([ps[i] for i in single])))
    for i, (pooled, (key, values, drawn)) in enumerate(zip(pools, rows)):
        by_seeds, by_both = "", ""
        if ps[i] is not None:
            half = pooled.error * t_quantile(pooled.freedom)
            by_seeds = as_interval(pooled.mean - half, pooled.mean + half)
        if len(drawn):
            by_both = as_interval(*np.quantile(drawn, [0.025, 0.975]))
        seeds = "+".join(str(len(x)) for x in values)
        lines.append([*key, seeds, f"{100 * pooled.mean:+.1f}", by_seeds, by_both,
                      "" if ps[i] is None else f"{ps[i]:.3f}",
                      f"{corrected[i]:.3f}" if i in corrected else "",
                      str(seeds_needed(pooled.deviation) or "")])
    return summary.align_columns(lines)


def as_interval(low, high):
    """Its ends in points."""
    return f"{100 * low:+.1f} to {100 * high:+.1f}"


# ---- The command line ---------------------------------------------------------------------------

def main(argv=None):
    """The command line. Raises ValueError or OSError for what `run_command` shows in one line."""
    parser = Arguments("python -m experiments.power", __doc__, "RUNS ...")
    parser.add_argument("places", nargs="+", metavar="RUNS",
                        help="folders with runs below them, or files of groups")
    parser.add_argument("--against", default="bert", help="the model compared with")
    parser.add_argument("--models", nargs="+", help="these alone (default: all that are there)")
    parser.add_argument("--split", help="that is answered (default: as the best epoch was chosen)")
    parser.add_argument("--resamples", type=int, default=2000, help="of the bootstrap")
    parser.add_argument("--data-dir", help="where the data sets are now (default: as trained)")
    parser.add_argument("--parser", metavar="mine.py:F", help="your own, that they were made with")
    given = parser.parse(argv)
    refuse(given["resamples"] < 1, f"--resamples {given['resamples']}: expected a number above 0")
    places, against, models = given["places"], given["against"], given.get("models")
    split = given.get("split")
    if all(Path(place).is_file() for place in places):
        keys, found = read_scores(places, against, models, split)
        drawn = np.zeros((0, len(keys)))
    else:
        changes = {name: given[name] for name in ("data_dir", "parser") if name in given}
        models = models and [against, *models]
        with torch_session(given):
            found = find_runs(places, models)
            cells = read_cells(found, against, split, changes, models or [against])
        keys = [cell[0] for cell in cells]
        found = [dict(zip(seeds, differences(*cell))) for _, *cell, seeds in cells]
        drawn = bootstrap(cells, given["resamples"])
    print_once(format_rows(table_rows(keys, found, drawn)))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.power"))
