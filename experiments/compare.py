"""Trains several settings with several seeds and compares them: `python -m experiments.compare`.

    --vary model bert "dafa --layers all" --vary task mrpc rte --seeds 5 [--test]
                      trains every combination with five seeds; a value may have options behind it
    --resume GROUP    continues a group of runs that was cut off
    --show GROUP ...  prints the tables of groups: their folders, or files such as comparison.json

Without --vary, plain BERT is compared with --model. The other options hold for all runs. Epochs,
rates and the like that are not given are each model's own: see train.py --help.

The rows of a table are the values of the setting that is named first. Each row is compared with
the first row. A difference is taken seed by seed. Its 95 % interval is Student's t over the seeds:
it says what other seeds would give, not what other sentences would give. Over several tasks the
difference is the mean of the tasks' means, with Welch's interval: seed 0 of one task has nothing in
common with seed 0 of another, so their variances add up. p is two-sided, then corrected for the
number of rows of its table (Holm 1979), because of twenty p one is below 0.05 by chance.

A group's folder holds a folder for each run, and comparison.json, which is enough to continue the
group in another folder. A finished run is not trained again. A value that you add to `vary` in the
first line of comparison.json becomes a row.
"""
import itertools
import json
import os
import shlex
import sys
from pathlib import Path

import run
import train
from experiments.groups import FILE, combinations, name_of, read_group, show_groups
from settings import Settings, add_options, read_options
from support import machine
from support.datasets import load_pairs, load_test_splits
from support.errors import prefix_errors, refuse
from support.files import new_folder, read_json, write_text
from support.machine import print_once
from support.options import Arguments, run_command


# ---- The grammar of --vary: OPTION VALUE ..., where a VALUE may have options behind it -----------

def read_value(option, text):
    """dict setting -> value of one VALUE, such as "dafa --layers all". Raises ValueError."""
    parser, (value, dashes, options) = Arguments("", ""), text.partition(" --")
    add_options(parser)
    with prefix_errors(f"--vary {option} {text!r}: "):
        settings = parser.parse([f"--{option}={value}", *shlex.split(dashes + options)])
        refuse(settings.keys() & {"out", "seed"}, "--out and --seed hold for the whole group")
    return settings


def rows_first(vary, shared):
    """The options of --vary, the one whose values are the rows first. A task is no row. If no
    option makes rows, the rows are models: plain BERT, if nothing varies, and the model, which is
    taken out of `shared`.
    """
    vary = sorted(vary, key=lambda words: words[0] == "task")
    if vary and vary[0][0] != "task":
        return vary
    model = shared.pop("model", Settings.model)
    models = [model] if vary else ["bert", model]
    return [["model", *dict.fromkeys(models)], *vary]


# ---- What is to be run --------------------------------------------------------------------------

PROCESS = {"device", "workers", "data_dir"}  # a group may go on with other values of these


def new_group(given):
    """(folder, group) of a new group that these options ask for. The folder is not made yet."""
    out, first, count = given.pop("out", None), given.pop("seed", 0), given.pop("seeds", 1)
    test, vary = given.pop("test", False), given.pop("vary", [])
    given.pop("own", None)  # the options name this code already
    varied = {option for option, *values in vary if values}
    refuse(len(varied) < len(vary), "--vary: expected each option once, with its values behind it")
    refuse(not 1 <= count <= 1000, f"--seeds {count}: expected 1 to 1000")
    refuse(out and Path(out).exists() and [*Path(out).iterdir()], f"--out {out}: holds files, "
           f"perhaps of other runs; continue a group by --resume {out}, or name a new folder")
    vary = rows_first(vary, given)
    folder = new_folder(out, "-".join(["compare", *(option for option, *_ in vary)]))
    return folder, {"vary": vary, "seeds": list(range(first, first + count)), "shared": given,
                    "test": test, "done": {}}


def saved_group(folder, given):
    """(folder, group) of a group to continue. It takes --test and --own out of the options `given`,
    where only options of PROCESS may be left. --own is the user's own code: a file may not name
    code that is run, so the user names it again.
    """
    group = read_group(Path(folder, FILE))
    known = set(given.pop("own", ()))
    group["test"] = given.pop("test", group["test"])
    refuse(given.keys() - PROCESS, f"--resume {folder}: the group has its own "
           f"{', '.join(given.keys() - PROCESS)}; leave that out")
    unknown = set()
    for options in members(group).values():
        unknown |= {options.get("model", ""), options.get("parser", "")} - known
    unknown = sorted(code for code in unknown if ":" in code)
    refuse(unknown, f"--resume {folder}: names code of somebody's own, and a folder alone runs no "
           f"code; if you know the files, add --own {' '.join(unknown)}")
    if group["test"]:
        group["done"] = {name: result for name, result in group["done"].items()
                         if any(split.startswith("test") for split in result["metrics"])}
    return Path(folder), group


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
    """Trains the runs that are not finished; shows the tables. here: settings of this process
    alone, which the group's file does not get.
    """
    planned = {name: given | here for name, given in members(group).items()
               if name not in group["done"]}
    check_planned(folder, group, planned)
    gather_results(folder, group)
    failed = train_planned(folder, group, planned)
    show_groups([folder])
    refuse(failed, "; ".join(failed))
    print_once(f"\n{folder} has the runs and {FILE}")


def check_planned(folder, group, planned):
    """Raises ValueError for a mistake in a run's options, for a missing data set, or if the pairs
    of a continued group have changed, whose checksums the group notes.
    """
    data = {}
    for name, given in planned.items():
        with prefix_errors(f"{name}: "):
            x, _ = read_options(given)
        data[x.task_name, x.train_file, x.dev_file, x.test_file, x.columns] = x
    for place, settings in data.items():
        if group["test"]:
            load_test_splits(settings)
        load_pairs(settings)
        _, splits = load_pairs(settings, limited=False)
        sums = run.sha256_of_pairs(splits)
        begun = group.setdefault("pairs", {}).setdefault(str(place), sums)
        refuse(sums != begun, f"{folder}: pairs of {', '.join(filter(None, place))} changed; "
               "restore them, or begin anew")


def train_planned(folder, group, planned):
    """Trains the planned runs in turn. Returns: [a message for each run that failed]."""
    failed = []
    for number, (name, given) in enumerate(planned.items(), 1):
        print_once(f"\nrun {number} of {len(planned)}: {name}")
        begun = (folder / name / "last.pt").exists() or (folder / name / "best.pt").exists()
        place = {"resume" if begun else "out": str(folder / name)}
        try:
            train_or_resume(given | place | {"test": group["test"]})
        except ValueError as error:  # such as a loss that is no number; the others are trained
            failed.append(f"{name}: {error}")
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"--resume {folder} goes on") from None
        gather_results(folder, group)
    return failed


def train_or_resume(given):
    """Trains a run, or continues it, as the options say."""
    if "resume" not in given:
        return train.begin(given)
    here = {"model", "parser", "device", "precision", "workers", "data_dir", "test"}
    return train.resume(given["resume"], {name: x for name, x in given.items() if name in here})


def gather_results(folder, group):
    """Adds new results to a group, and writes its file."""
    for name in members(group):
        if result := read_done(folder / name, group["test"]):
            group["done"][name] = result
    lines = [f"{json.dumps(name)}: {json.dumps(x)}" for name, x in group["done"].items()]
    head = json.dumps({name: x for name, x in group.items() if name != "done"})
    write_text(folder / FILE, head[:-1] + ', "done": {\n' + ",\n".join(lines) + "\n}}\n")


def read_done(folder, test):
    """What a group keeps of a run, or None where it is not finished; with `test`, not scored on it.
    """
    files = [folder / "result.json", folder / "test.json"] if test else [folder / "result.json"]
    if not all(file.exists() for file in files):
        return None
    result = read_json(files[0])
    if test:
        result["metrics"] |= read_json(files[1])["metrics"]
    with run.made_here(folder):
        kept = "task", "positive", "best_epoch", "selection_split", "metrics"
        found = {name: result[name] for name in kept}
        changes = result["influence"]["changes"] if result["influence"] else {}
        found["answers"] = {name: x["answers"] for name, x in changes.items()}
        metric = next(iter(result["metrics"][result["selection_split"]]))
        lines = (folder / "log.jsonl").read_text("utf-8").splitlines()
        events = [json.loads(line) for line in lines]
        found["curve"] = [event[metric] for event in events if "epoch" in event]  # dev after each
        return found


def command_line():
    """The options of groups of runs, and the options of training."""
    parser = Arguments("python -m experiments.compare", "Trains several settings with several "
                       "seeds and compares them. Without options: plain BERT and DAFA, on toy.")
    group = parser.add_argument_group("a group of runs")
    group.add_argument("--vary", nargs="+", action="append", metavar="OPTION",
                       help="an option of training and its values; twice: every combination")
    group.add_argument("--seeds", type=int, metavar="N", help="from --seed on (default: 1)")
    group.add_argument("--test", action="store_true", help="score the best epochs on test, once")
    group.add_argument("--resume", metavar="GROUP", help="continue a group")
    group.add_argument("--own", nargs="+", metavar="mine.py:M", help="your classes, with --resume")
    shown = parser.add_argument_group("tables of groups")
    shown.add_argument("--show", nargs="+", metavar="GROUP", help="print their tables")
    shown.add_argument("--against", metavar="ROW", help="compare with it, not with the first")
    shown.add_argument("--rows", nargs="+", metavar="ROW", help="test these rows alone")
    add_options(parser)
    return parser


def main(argv=None):
    """The command line. Raises ValueError or OSError for what `run_command` shows in one line."""
    given, of_show = command_line().parse(argv), {"show", "against", "rows"}
    if given.keys() & of_show:
        refuse("show" not in given or given.keys() - of_show,
               "--show goes with --against and --rows alone, and these need --show")
        return show_groups(given.pop("show"), chosen=given.pop("rows", ()), **given)
    refuse("WORLD_SIZE" in os.environ, "a group runs in one process; start it without torchrun")
    with machine.torch_session(given):
        if "resume" in given:
            folder, group = saved_group(given.pop("resume"), given)
        else:
            (folder, group), given = new_group(given), {}
        with run.lock_folder(folder):  # against another process
            run_group(folder, group, here=given)


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.compare"))
