"""What a method does to a trained model's answers: `python -m experiments.influence RUN ...`.

For each run it prints how much the method adds to plain attention. It then takes out each part that
can be taken out while the model predicts, and prints the score without the part, the share of
answers that change, and how far the probability of the first answer (or the score) moves on
average. Every training measures this on the split that chooses the epoch, in result.json. This
command measures another split, and writes influence-SPLIT.json into the run's folder.

It does not show what a part did while the model trained: for that, train without the part,
`--without ...`. Left out: how a part is taken out (support.meter, `changes`).
"""
import sys

import train
from run import check_pairs
from settings import load_pairs
from support import machine, summary
from support.errors import refuse
from support.files import write_json
from support.machine import main_process, print_once
from support.options import Arguments, run_command


def add_run_options(arguments):
    """Adds the options of train.open_run to a command that opens the folders of runs."""
    for name, value, text in (
            ("parses", "FILE", "your own parses, as in training"),
            ("data-dir", "FOLDER", "where the data sets lie, if not as in training"),
            ("model", "mine.py:M", "your own class that the run was trained with"),
            ("parser", "mine.py:F", "your own parser that the run was trained with"),
            ("device", "DEVICE", "where to compute, such as cpu or cuda")):
        arguments.add_argument(f"--{name}", metavar=value, help=text)


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.influence", __doc__, "RUN ...")
    arguments.add_argument("runs", metavar="RUN", nargs="+", help="folders of trained runs")
    arguments.add_argument("--split", help="dev, test, ... (default: what chose the epoch)")
    add_run_options(arguments)
    given = arguments.parse(argv)
    folders, split = given.pop("runs"), given.pop("split", None)
    with machine.torch_session(given):
        for folder in folders:
            run = train.open_run(folder, **given)
            name = split or run.task.selection
            check_pairs(run, *load_pairs(run.settings))
            # a whole test split, but only the part of another split that training had
            splits = load_pairs(run.settings, limited=not name.startswith("test"))[1]
            labelled = [x for x in splits if all(pair.label is not None for pair in splits[x])]
            refuse(name not in labelled, f"--split {name}: expected one of {', '.join(labelled)}")
            measured = run.influence(splits[name])
            title = f"{run.settings.model} on {run.task.name}, {name}, seed {run.settings.seed}"
            print_once(f"{folder}: {title}, {measured['pairs']} pairs\n"
                       f"{summary.influence_table(measured, name)}\n")
            if main_process():
                write_json(run.folder / f"influence-{name}.json", measured)


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.influence"))
