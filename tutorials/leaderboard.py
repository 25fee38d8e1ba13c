"""A table of runs on toy, the best first.

    python tutorials/leaderboard.py RUN [RUN ...] [--out FILE]

RUN is a folder that train.py made. Seeds of one method are one row: mean (standard deviation) of
the accuracy on dev. A run counts if it was made on toy, with the budget that all have and this
library's data and loop; others are listed below the table, with the reason. Methods with fewer than
three seeds have no place. Plain BERT and the target, DAFA, stand in the table without a place.

A result.json is a text that anyone can edit: make the best runs again before you praise them.
"""
import argparse
import hashlib
import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from support.runs import read_result  # noqa: E402

BUDGET = {"task": "toy", "epochs": 8, "batch_size": 64, "limit": None, "train_file": None,
          "held_out": None, "parses": None, "glove": None}
SAME = "train.py", "batches.py", "support/tasks.py", "support/toy.py"
SEEDS = 3
TARGETS = {"bert": "plain BERT", "dafa": "DAFA, the target"}


def name_of(settings, code):
    """The method in words: mine.py:SharedWords (3f9a0c), without gate, BONUS=1. Behind a file of
    one's own stands the beginning of its sha256, as `code` has it: others' may have its name.
    """
    own = code.get(settings["model"].rpartition(":")[0], "")[:6]
    parts = [settings["model"].rpartition("/")[2] + f" ({own})" * bool(own)]
    parts += [f"{key} {settings[key]}" for key in ("without", "printed") if settings[key]]
    return ", ".join(parts + [settings["set"]] * bool(settings["set"]))


def why_not(result):
    """Why a run does not count, or None."""
    for key, expected in BUDGET.items():
        if result["settings"].get(key) != expected:
            return f"{key} is {result['settings'].get(key)}, expected {expected}"
    if not result["bert"] in ("scratch", "none"):
        return f"it starts from {result['bert']}, expected scratch"
    for file in SAME:
        digest = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()
        if result.get("code", {}).get(file) != digest:
            return f"it was made with another {file}"
    return None


def percent(values):
    spread = f" ({100 * statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


def table(methods):
    """Lines of Markdown. methods: name -> {seed: (dev, unseen, parameters)}; targets have a name
    of TARGETS and parameters None."""
    lines = ["| | method | dev | unseen words | seeds | parameters |", "|---|---|---|---|---|---|"]
    place = 0
    best = sorted(methods.items(), reverse=True,
                  key=lambda item: statistics.mean(run[0] for run in item[1].values()))
    for name, seeds in best:
        dev, unseen, sizes = zip(*seeds.values())
        counts = sizes[0] is not None and len(seeds) >= SEEDS
        place += counts
        lines.append(f"| {place if counts else ''} | {name} | {percent(dev)} | {percent(unseen)} | "
                     f"{', '.join(map(str, sorted(seeds)))} | "
                     f"{'' if sizes[0] is None else f'{max(sizes):,}'} |")
    return lines


def targets():
    """What docs/results.md says of TARGETS, as `table` takes it."""
    found = {}
    for run in json.loads((ROOT / "tests/results/toy.json").read_text("utf-8"))["runs"]:
        if run["values"]["model"] in TARGETS:
            dev, unseen = (run["metrics"][split]["accuracy"]["values"]
                           for split in ("dev", "dev_unseen"))
            found[TARGETS[run["values"]["model"]]] = {
                seed: (x, y, None) for seed, x, y in zip(run["seeds"], dev, unseen, strict=True)}
    return found


def main(argv=None):
    """Writes or prints the table; the exit status is 0, or 2 where no run counts."""
    parser = argparse.ArgumentParser("leaderboard.py", description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, metavar="FILE", help="Markdown; printed if not given")
    options = parser.parse_args(argv)
    if options.out and not options.out.parent.is_dir():
        parser.error(f"--out {options.out}: there is no such folder")
    methods, refused = {}, []
    for folder in options.runs:
        try:
            result = read_result(folder)
            reason = why_not(result)
        except (OSError, ValueError) as problem:
            reason = str(problem)
        if reason:
            refused.append(f"{folder}: {reason}")
            continue
        dev, unseen = (result["metrics"][split]["accuracy"] for split in ("dev", "dev_unseen"))
        seeds = methods.setdefault(name_of(result["settings"], result["code"]), {})
        if result["seed"] in seeds:
            refused.append(f"{folder}: another run of this method and seed counts")
            continue
        seeds[result["seed"]] = dev, unseen, result["parameters"]
    text = ["# Accuracy on toy", "", "Mean (standard deviation) over seeds, best first.", "",
            *table(methods | targets())]
    text += ["", "Not counted:", "", *(f"- {line}" for line in refused)] if refused else []
    if options.out:
        options.out.write_text("\n".join(text) + "\n", "utf-8")
    else:
        print("\n".join(text))
    return 0 if methods else 2


if __name__ == "__main__":
    sys.exit(main())
