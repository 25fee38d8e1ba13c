"""How long a training step and the answer to one pair take, each row beside plain BERT.

    python -m experiments.bench
    python -m experiments.bench --bert FOLDER --task mrpc --models dafa "dafa --layers all"

A row is a method, perhaps with options of train.py; beside --models they are of all rows. Without
--bert the encoder has the shape of all-MiniLM-L6-v2, and random weights. The rows take turns, so
that a busy machine slows all rows alike. A step is forward, backward, clip and optimizer, on a
batch that is ready. The time of a new pair includes its parse and its look-up in the lexicon, if
the method needs them. Times are medians (with quartiles); a ratio is the median of the ratios to
plain BERT in the same turn.
"""
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

import train
from experiments.compare import read_value
from run import new_run
from settings import METHODS, Settings, add_options, read_options
from support import machine
from support.datasets import load_pairs
from support.options import Arguments, run_command
from support.pairs import loss_sum
from support.summary import align_columns

SIZES = dict(hidden_size=384, num_layers=6, num_heads=12, intermediate_size=1536)
READ = 100  # tokenizer, tf-idf and words are learned from this many pairs


def make_run(row, task, pairs, options):
    """An untrained run of a row. options: of train.py, for all rows."""
    given = {"bert": "scratch"} | options | read_value("model", row)
    if Settings(model=given["model"]).reads_words:
        del given["bert"]
    settings, recipe = read_options(given)
    splits = {"train": pairs[:READ], "dev": pairs[:0]}
    return new_run(settings, recipe, Path(), task, splits, **SIZES)[0]


def step_of(run, pairs):
    """A function that does one training step, always of these pairs, as train.py does."""
    recipe, model, examples = run.recipe, run.model, run.examples(pairs)
    batch, labels = machine.to_device(examples.collate(range(len(pairs))), recipe.device)
    optimizer = train.make_optimizer(run)

    def work():
        model.train()
        with machine.autocast(recipe.device, recipe.precision):
            logits = model(**batch)
        (loss_sum(logits, labels, run.task) / len(labels)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        optimizer.zero_grad()
    return work


def synchronized_time(device):
    """The time in seconds, after the device has done its work."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def compare(what, works, repeats, device):
    """Times the rows in turns. Returns: lists of cells, one a row. works: dict row -> function."""
    seconds = {row: [] for row in works}
    for turn in range(-1, repeats):  # turn -1 warms up
        for row, work in works.items():
            start = synchronized_time(device)
            work()
            if turn >= 0:
                seconds[row].append(synchronized_time(device) - start)
    for row, times in seconds.items():
        low, median, high = 1e3 * np.quantile(times, [0.25, 0.5, 0.75])
        ratio = statistics.median(x / y for x, y in zip(times, seconds["bert"]))
        yield [what, row, f"{median:.1f} ({low:.1f} to {high:.1f})", f"{ratio:.2f}"]


def main(argv=None):
    """Measures and prints. Raises ValueError or OSError for a user's mistake."""
    parser = Arguments("python -m experiments.bench", __doc__)
    parser.add_argument("--models", nargs="+", metavar="ROW", default=[*METHODS],
                        help="methods, each with options of train.py (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each row")
    add_options(parser)
    options = {"task": "toy", "dropout": 0.1, "batch_size": 32} | parser.parse(argv)
    rows, repeats = options.pop("models"), options.pop("repeats")
    settings, recipe = read_options(options)
    machine.prepare_device(recipe.device)
    with machine.torch_session(options):
        (task, splits), size = load_pairs(settings), recipe.batch_size
        pairs = splits["train"]
        runs = {row: make_run(row, task, pairs, options) for row in dict.fromkeys(["bert", *rows])}
        print(f"{recipe.precision}, {task.name}, medians of {repeats} (quartiles), "
              f"{machine.versions(recipe.device)}\n")
        steps = {row: step_of(run, pairs[:size]) for row, run in runs.items()}
        # each call answers the next pair; of toy, one of the four pairs of a square
        answers = {row: map(run.predict, pairs[READ::4]).__next__ for row, run in runs.items()}
        print(align_columns([
            ["", "row", "ms", "x bert"],
            *compare(f"step of {size} pairs", steps, repeats, recipe.device),
            *compare("one new pair", answers, repeats, recipe.device)]))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.bench"))
