"""Several settings and seeds through the loop, and their table: `python -m experiments.compare`.

    --vary model bert dafa --vary task mrpc rte --seeds 5     every combination, five runs of each
    --vary model bert "dafa --layers all"     a value may have options of its own behind it
    --resume FOLDER [--test]                  goes on where a group of runs was cut off, or takes
                                              runs off a process that is at it, side by side;
                                              with --vary model dabert that row is added
    --show FOLDER                             its table again, or a line for each run below FOLDER
    --picture FILE.svg FOLDER_OR_JSON ...     the differences that groups found, drawn

Without --vary it is plain BERT beside --model. Options of training hold for all runs; each model
has its own recipe, and what belongs to a method, such as --layers, goes to the models that take it.

A group's folder holds the folder of each run, which train.py can use, comparison.svg, and
comparison.json, the group: vary and runs, see experiments.report; seeds; shared, what all runs
were given; test, whether test was scored; done, what came out of each finished run. A run that is
done is not trained again, so that comparison.json alone goes on in another folder.
"""
import contextlib
import hashlib
import itertools
import math
import os
import shlex
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import batches
import priors
import train
from bert_min import BertConfig
from experiments.report import draw_panels, format_tables, format_value, make_panels, summarize
from run import SCRATCH_SIZES, build_model, score_test
from support import machine, runs, summary
from support.checkpoints import CONFIGS, find_file, join_names
from support.data import Task, load_pairs, load_test_splits
from support.files import find_bert, read_json, write_json, write_text
from support.machine import main_process, print_once
from support.options import Arguments, nearest, prefix_errors, refuse, run_command
from support.words import Vocabulary

FILE = "comparison.json"
OF_METHODS = "bert", "glove", "layers", "printed", "recipe", "set", "without"


# ---- What is to be run --------------------------------------------------------------------------

def read_vary(given, shared, parser):
    """[[setting, value, ...], ...] of the words behind --vary. Raises ValueError for a mistake."""
    vary = []
    known = [f.name.replace("_", "-") for f in fields(train.Settings)
             if f.metadata["help"] and f.name not in ("out", "seed", "compile")]
    for option, *texts in given:
        name = option.replace("-", "_")
        refuse(option not in known, f"--vary {option}: expected an option of training that takes a "
               f"value, such as model, task, without or layers{nearest(option, known)}")
        refuse(name in shared or name in (other for other, *_ in vary),
               f"--vary {option}: the option is given twice; name all its values behind one --vary")
        values = [text if " --" in text else parser.parse([f"--{option}={text}"])[name]
                  for text in texts]
        if not values or len(set(values)) < len(values):
            raise ValueError(f"--vary {option} {' '.join(texts)}: expected values, each once")
        for value in values:
            read_value(name, value)
        vary.append([name, *values])
    if "task" in [name for name, *_ in vary[:-1]]:
        raise ValueError("--vary task: name it last, so that each task has a column of its own")
    return vary


def read_value(name, value):
    """dict setting -> value, of one value behind --vary: itself, and the options behind it.

    Raises ValueError for a mistake.
    """
    if not isinstance(value, str) or " --" not in value:
        return {name: value}
    with prefix_errors(f"--vary {name} {value!r}: "):
        parser = Arguments("", "")
        parser.add_settings(train.Settings, train.GROUPS)
        first, *options = shlex.split(value)
        found = parser.parse([f"--{name.replace('_', '-')}={first}", *options])
        if group_wide := found.keys() & {"out", "seed", "task", "train_file"} - {name}:
            raise ValueError(f"--{min(group_wide).replace('_', '-')} holds for the whole group")
    return found


def new_group(given, parser):
    """(a folder that is not made yet, the group that these options ask for)"""
    out, first, count = given.pop("out", None), given.pop("seed", 0), given.pop("seeds", 1)
    test, words = given.pop("test", False), given.pop("vary", [])
    refuse("own" in given, "--own goes with --resume; --vary model names classes of your own")
    refuse(count < 1, f"--seeds {count}: expected a number above 0")
    refuse(out and any(Path(out).rglob("log.jsonl")), f"--out {out}: holds runs; --resume {out} "
           "goes on with a group, or name another folder")
    vary = read_vary(words, given, parser)
    if not vary:
        model = given.pop("model", train.Settings.model)
        vary = [["model", *dict.fromkeys(["bert", model])]]
    name = "-".join(["compare", *(name for name, *_ in vary)])
    folder = machine.from_main_process(lambda: runs.new_folder(out, name))
    return folder, {"vary": vary, "seeds": list(range(first, first + count)), "shared": given,
                    "test": test, "runs": [], "done": {}}


def saved_group(folder, given, parser):
    """(the folder, its group), to go on with. given: of device, workers, data_dir, which are of
    this process alone; of test, own, and vary, whose values the group gets. These are taken out.
    """
    refuse(not Path(folder, FILE).exists(), f"--resume {folder}: no group of runs is there; "
           "train.py --resume goes on with a single run")
    group, known = read_group(Path(folder, FILE)), {f.name: f.type for f in fields(train.Settings)}
    own, more = given.pop("own", ()), read_vary(given.pop("vary", []), {}, parser)
    for name in given.keys() - {"device", "workers", "data_dir", "test"}:
        raise ValueError(f"--{name.replace('_', '-')}: the group in {folder} has its own; leave it "
                         f"out")
    with prefix_errors(f"{Path(folder, FILE)}: "):
        runs.typed({"shared": dict, "seeds": list[int], "test": bool}, group)
        if unknown := group["shared"].keys() - known.keys():
            raise ValueError(f"shared: {join_names(sorted(unknown))} is no setting of this code")
        runs.typed({name: known[name] for name in group["shared"]}, group["shared"], "shared")
    said = [read_value(name, x) for name, *values in group["vary"] for x in values]
    codes = {one.get(name) for one in [*said, group["shared"]] for name in ("model", "parser")}
    refuse(unsaid := {code for code in codes if ":" in str(code)} - set(own),
           f"--resume {folder}: it names code of somebody's own, and a folder alone runs no code; "
           f"if you know the files, add --own {' '.join(sorted(unsaid))}")
    varied = [name for name, *_ in group["vary"]]
    for name, *_ in more:
        refuse(name not in varied, f"--vary {name.replace('_', '-')}: the group in {folder} varies "
               f"{', '.join(varied)}; --resume adds values of these")
    add_values(group, more)
    group["test"] = given.pop("test", group["test"])
    if group["test"]:
        group["done"] = {name: x for name, x in group["done"].items()
                         if any(split.startswith("test") for split in x["metrics"])}
    return Path(folder), group


def add_values(group, vary):
    """Adds to what a group varies the values that it lacks."""
    more = {name: values for name, *values in vary}
    for values in group["vary"]:
        values += [x for x in more.get(values[0], ()) if x not in values[1:]]


def group_file(place):
    """The comparison.json of a folder, or the file itself."""
    return Path(place, FILE) if Path(place).is_dir() else Path(place)


SCORE = {"mean": float, "std": float, "values": list[float]}
CHANGE = {"mean": float, "low": float | None, "high": float | None, "values": list[float]}
DONE = {"task": str, "seed": int, "best_epoch": int, "selection_split": str, "code": str,
        "metrics": dict[str, dict[str, float]]}
GROUP = {"vary": list[list], "done": dict[str, DONE] | None, "runs": list[{
    "values": dict, "selection_split": str, "seeds": list[int],
    "metrics": dict[str, dict[str, SCORE]], "difference": dict[str, dict[str, CHANGE]]}]}


def read_group(path):
    """The group of a comparison.json. Raises ValueError naming the file."""
    content = read_json(path)
    with prefix_errors(f"{path}: "):
        group = runs.typed(GROUP, content)
        group["done"] = group.get("done") or {}  # files of before have none
        for name, done in group["done"].items():
            if done.get("influence"):
                runs.typed(runs.INFLUENCE, done["influence"], f"done.{name}.influence")
        if not group["vary"] or any(len(values) < 2 for values in group["vary"]):
            raise ValueError("vary: expected settings, each with its values")
        names = {str(name) for name, *_ in group["vary"]}
        if any(run["values"].keys() != names for run in group["runs"]):
            raise ValueError(f"runs: expected values of {', '.join(sorted(names))} in each")
    return group


def plan_runs(vary, shared):
    """[(one of the `combinations`, its Settings)]"""
    found = []
    models = [read_value(name, x)[name] for name, *values in vary for x in values
              if name == "model"] or [shared.get("model", train.Settings.model)]
    taken = settings_of_models(models, shared)
    for values in combinations(vary):
        own = {}
        for name, value in values.items():
            own |= read_value(name, value)
        given = taken[own.get("model", models[0])] | own
        found.append((values, train.Settings(**given)))
        machine.prepare_device(found[-1][1].device)
    return found


def combinations(vary):
    """[dict setting -> value] of every combination, the last one's values fastest."""
    names = [name for name, *_ in vary]
    return [dict(zip(names, values)) for values in itertools.product(*(x for _, *x in vary))]


def settings_of_models(models, shared):
    """dict model -> the settings of `shared` that it takes. One that no model takes is an error."""
    for model in models:
        train.Settings(model=model)
    taken = {model: dict(shared) for model in models}
    for name in [name for name in OF_METHODS if name in shared]:
        errors = {}
        for model in models:
            try:
                train.Settings(model=model, **{name: shared[name]})
            except ValueError as error:
                errors[model] = error
                del taken[model][name]
        if len(errors) == len(models):
            raise errors[models[-1]]
        if errors:
            print_once(f"--{name} {shared[name]}: left out for {', '.join(errors)}, which cannot "
                       f"take it")
    return taken


def check_data(settings, test):
    """Raises ValueError or OSError where one of these Settings lacks a data set or file."""
    seen = set()
    for one in settings:
        files = one.task, one.train_file, one.dev_file, one.test_file, one.data_dir
        if files not in seen:
            (load_test_splits if test else load_pairs)(one)
        seen.add(files)
        if "facts" in batches.needs_of(one.method) and one.task != "toy":
            priors.load_wordnet()
        for name in ("glove", "parses"):
            file = getattr(one, name)
            refuse(file and not Path(file).is_file(), f"--{name} {file}: there is no such file")


def check_model(settings):
    """Raises ValueError where the method's sizes are wrong or do not fit the encoder; it makes the
    model, with an encoder as deep as the run's but narrow.
    """
    reader, config = SimpleNamespace(tokenizer=Vocabulary.learn([["word"]])), None
    if settings.bert == "scratch":
        config = BertConfig(99, **SCRATCH_SIZES, max_length=settings.max_length)
    elif settings.bert != "none":
        with prefix_errors("--bert "):
            folder = find_bert(settings.bert, settings.data_dir, main_process())
        config = BertConfig.from_json(find_file(folder, *CONFIGS))
    if config:
        config = replace(config, vocab_size=99, hidden_size=config.num_heads, intermediate_size=1)
    build_model(settings, Task("any", (), ()), reader, config)


# ---- Running ------------------------------------------------------------------------------------

def run_group(folder, group, here):
    """Trains what is not finished and no other process trains, then shows what came out.

    here: settings of this process alone, which the group's file does not get.
    """
    variants = plan_runs(group["vary"], group["shared"] | here)
    with machine.main_process_first():
        check_data([settings for _, settings in variants], group["test"])
        for _, settings in variants:
            check_model(settings)
        if main_process():
            folder.mkdir(parents=True, exist_ok=True)
            gather_results(folder, group)
    todo = [(one, seed) for one in variants for seed in group["seeds"]]
    for number, ((values, settings), seed) in enumerate(todo, 1):
        place = folder / name_of(values, seed)
        if place.name in group["done"]:
            continue
        print_once(f"\nrun {number} of {len(todo)}: {place.name}")
        with lock_run(place) as ours:
            if ours:
                run_one(replace(settings, seed=seed, out=str(place)), group["test"])
            else:
                print_once("another process trains it")
        if main_process():
            gather_results(folder, group)
    panels = make_panels(group)
    if main_process() and panels:
        write_text(folder / "comparison.svg", draw_panels(panels))
    show_group(folder, group)
    print_once(f"{folder} has the runs, {FILE}{' and comparison.svg' if panels else ''}")


def name_of(values, seed):
    """The name of a run's folder in its group's."""
    name = ",".join(f"{key}={format_value(x)}" for key, x in (values | {"seed": seed}).items())
    return quote(name, safe=",=+: ")


@contextlib.contextmanager
def lock_run(folder):
    """Around the work in a run's folder. -> False where a process of another command is at it"""
    with contextlib.ExitStack() as stack:
        def take():
            with contextlib.suppress(runs.FolderLocked):
                stack.enter_context(runs.lock_folder(folder))
                return True
            return False
        yield machine.from_main_process(take)


def run_one(settings, test):
    """Trains one run and scores test where that is asked for, unless it is done."""
    folder = Path(settings.out)
    if not (folder / "result.json").exists():
        given, saved = {"model": settings.model, "parser": settings.parser}, None
        if (folder / "last.pt").exists():
            saved = runs.read_to_resume(folder, train.Settings, given)[1]
        train.train_model(settings, folder, saved)
    if test and not (folder / "test.json").exists():
        run = train.open_run(folder, settings.parser, settings.model, device=settings.device)
        score_test(run, load_test_splits(settings))


def gather_results(folder, group):
    """The group's "done", its "runs", every setting whose seeds are all done, and its file.

    What another process has added to the file meanwhile, this one keeps.
    """
    if (folder / FILE).exists():
        add_values(group, read_group(folder / FILE)["vary"])
    (option, base, *_), first, group["runs"] = group["vary"][0], {}, []
    for values in combinations(group["vary"]):
        names = [name_of(values, seed) for seed in group["seeds"]]
        for name in names:
            if found := read_done(folder / name, group["test"]):
                group["done"][name] = found
        results = [group["done"].get(name) for name in names]
        if None in results:
            continue
        others = tuple(value for name, value in values.items() if name != option)
        if values[option] == base and option != "task":  # of tasks there is nothing to subtract
            first[others] = results
        group["runs"].append(summarize(values, results, first.get(others)))
    write_json(folder / FILE, group)


def read_done(folder, test):
    """What a group keeps of a run, or None where it is not finished. test: must test be scored?"""
    if not (folder / "result.json").exists() or test and not (folder / "test.json").exists():
        return None
    result = runs.read_result(folder)
    if test:
        result["metrics"] |= runs.read_result(folder, "test.json")["metrics"]
    code = hashlib.sha256(repr(sorted(result["code"].items())).encode()).hexdigest()
    kept = "task", "seed", "positive", "best_epoch", "selection_split", "metrics", "influence"
    return {name: result.get(name) for name in kept} | {"code": code}


# ---- Showing ------------------------------------------------------------------------------------

def print_or_draw(given):
    """What --show and --picture do."""
    if "picture" in given:
        draw_groups(*given["picture"])
    elif group_file(given["show"]).is_file():
        show_group(given["show"], read_group(group_file(given["show"])))
    else:
        list_runs(given["show"])


def show_group(folder, group):
    """Prints a group's tables."""
    settings = math.prod(len(values) for _, *values in group["vary"])
    if len(group["runs"]) < settings:
        print_once(f"{len(group['runs'])} of {settings} settings are finished; --resume {folder} "
                   f"goes on with what no process trains")
    if group["runs"]:
        print_once(f"\n{format_tables(group)}\n")
        chosen = dict.fromkeys(run["selection_split"] for run in group["runs"])
        print_once(f"best epochs chosen on {', '.join(chosen)}")
    if any(run.get("task") == "toy" for run in group["runs"]):
        print_once("toy is a generated diagnostic; its numbers say nothing about real English")


def list_runs(folder):
    """Prints a line for each run below a folder, the newest last."""
    rows = [["run", "ended", "task", "model", "seed", "best epoch", "result"]]
    for log in sorted(Path(folder).rglob("log.jsonl"), key=os.path.getmtime):
        run, result = log.parent, "not finished"
        content = read_json(run / "config.json")
        with prefix_errors(f"{run / 'config.json'}: "):
            row = runs.typed({"settings": dict}, content)["settings"]
        if (run / "result.json").exists():
            row = runs.read_result(run)
            split = row["selection_split"]
            metric, score = next(iter(row["metrics"][split].items()))
            result = f"{split} {metric} {100 * score:.1f}"
        ended = time.strftime("%Y-%m-%d %H:%M", time.localtime(log.stat().st_mtime))
        said = [str(row.get(name, "")) for name in ("task", "model", "seed", "best_epoch")]
        rows.append([str(run), ended, *said, result])
    refuse(len(rows) == 1, f"--show {folder}: expected a folder with runs in it, such as runs")
    print_once(summary.align_columns(rows))


def draw_groups(file, *places):
    """Draws the groups of folders, or of files such as comparison.json, into an SVG file."""
    refuse(Path(file).suffix != ".svg", f"--picture {file}: expected FILE.svg first, then groups")
    panels = []
    for path in map(group_file, places):
        panels += make_panels(read_group(path), path.stem if path.name != FILE else "")
    refuse(not panels, f"--picture {file}: expected FILE.svg and groups of several settings")
    write_text(file, draw_panels(panels))
    print_once(f"{file}: {len(panels)} panels")


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
    group.add_argument("--resume", metavar="FOLDER", help="go on with a group, or join in")
    group.add_argument("--own", nargs="+", metavar="mine.py:M",
                       help="with --resume: code of your own, which a folder may not name")
    group.add_argument("--show", metavar="FOLDER", help="its table, or a line for each run below")
    group.add_argument("--picture", nargs="+", metavar="FILE",
                       help="FILE.svg FOLDER_OR_JSON ...: draw the differences of these groups")
    parser.add_settings(train.Settings, train.GROUPS)
    return parser


def main(argv=None):
    """The command line. Raises ValueError or OSError for what `run_command` shows in one line."""
    parser = command_line()
    given = parser.parse(argv)
    if given.keys() & {"show", "picture"}:
        refuse(len(given) > 1, "--show and --picture go with no other option")
        return print_or_draw(given)
    with machine.torch_session(given):
        resumed = given.pop("resume", None)
        if resumed:
            folder, group = saved_group(resumed, given, parser)
        else:
            folder, group = new_group(given, parser)
        try:
            run_group(folder, group, given if resumed else {})
        except KeyboardInterrupt:
            begun = Path(folder, FILE).exists()
            raise KeyboardInterrupt(f"--resume {folder} goes on" if begun else "") from None


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.compare"))
