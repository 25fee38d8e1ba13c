"""What a method does to a trained model's answers: `python -m experiments.influence RUN ...`.

Of each run: the size of what its method adds beside plain attention; and for each part that can be
taken out while the model predicts, the score then, the share of answers that change, and how far
the probability of the first answer (or the score) moves on average. Every training measures this
on the split that chooses the epoch, in result.json; this command does it for a run and split at
hand, and writes influence-SPLIT.json and .svg into the run's folder.

What hangs on a part when the model predicts is not what the part did while it trained: for that,
train without it, `--without ...`. Left out: how a part is taken out (support.meter; a method's
`changes`).
"""
import sys

import train
from support import machine, runs
from support.curves import draw_line, svg_page, write_text
from support.files import write_json, write_whole
from support.machine import main_process, print_once
from support.options import Arguments, run_command
from support.pairs import load_pairs

LEFT, BAR, ROW = 210, 360, 24  # pixels: names, the longest bar, a row


def measure(run, split):
    """(name, Run.influence) of a split of its task, all of a test split, of others what training
    had; None: the one that chose the epoch. Raises ValueError where there is no such split.
    """
    split = split or run.task.selection
    splits = load_pairs(run.settings, limited=not split.startswith("test"))[1]
    if split not in splits:
        raise ValueError(f"--split {split}: expected one of {', '.join(splits)}")
    if any(pair.label is None for pair in splits[split]):
        raise ValueError(f"--split {split}: its pairs have no labels; take another split")
    return split, run.influence(splits[split])


def draw_influence(title, found):
    """SVG text: a bar for each change, as long as the share of answers that it changes."""
    parts = [write_text(12, 24, title, "title")]
    for row, (name, change) in enumerate(found["changes"].items(), 2):
        y, end = row * ROW, LEFT + BAR * change["answers"]
        parts.append(write_text(LEFT - 12, y + 5, name, "", "end"))
        parts.append(draw_line(LEFT, y, LEFT + BAR, y, "grid"))
        parts.append(draw_line(LEFT, y, end, y, "bar mark"))
        parts.append(write_text(LEFT + BAR + 12, y + 5, f"{100 * change['answers']:.1f} %"))
    low = (len(found["changes"]) + 2) * ROW
    scores = [f"{100 * x['score']:.1f}" for x in (found, *found["changes"].values())]
    note = (f"Share of {found['pairs']} answers that change; {found['metric']} {scores[0]}, then "
            f"{', '.join(scores[1:])}")
    parts.append(write_text(12, low + 8, note, "soft"))
    return svg_page(LEFT + BAR + 100, low + ROW, parts)


def add_run_options(arguments):
    """Those of a command that opens the folders of runs: what train.open_run takes."""
    for name, what, said in (
            ("parses", "FILE", "your own parses, as in training"),
            ("data-dir", "FOLDER", "where the data sets lie, if not as in training"),
            ("model", "mine.py:M", "the class of your own that it was trained with"),
            ("parser", "mine.py:F", "your own parser, the same way"),
            ("device", "DEVICE", "where to compute, such as cpu or cuda")):
        arguments.add_argument(f"--{name}", metavar=what, help=said)


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.influence", "What hangs on a method when a "
                          "trained model predicts: without its prior, its choices, itself.",
                          "RUN ...")
    arguments.add_argument("runs", metavar="RUN", nargs="+", help="folders of trained runs")
    arguments.add_argument("--split", help="dev, test, ... (default: what chose the epoch)")
    add_run_options(arguments)
    given = arguments.parse(argv)
    folders, split = given.pop("runs"), given.pop("split", None)
    with machine.torch_session(given):
        for folder in folders:
            run = train.open_run(folder, **given)
            name, found = measure(run, split)
            title = f"{run.settings.model} on {run.task.name}, {name}, seed {run.settings.seed}"
            print_once(f"{folder}: {title}, {found['pairs']} pairs")
            if not found["changes"]:
                print_once(f"{found['metric']} {100 * found['score']:.1f}; there is nothing to "
                           f"take out\n")
                continue
            print_once(f"{runs.influence_table(found, name)}\n")
            if main_process():
                picture, place = draw_influence(title, found), run.folder / f"influence-{name}.svg"
                write_whole(place, lambda path: path.write_text(picture, "utf-8"))
                write_json(place.with_suffix(".json"), found)


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.influence"))
