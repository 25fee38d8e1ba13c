"""How long a training step and the answer to one pair take, each row beside plain BERT.

    python -m experiments.bench
    python -m experiments.bench --encoder base --task mrpc --models dafa "dafa --layers all"

A row is a method; options of train.py may follow it. Weights are random, because only their shapes
matter here. The rows take turns, so that a busy machine slows all rows alike. A step is forward,
backward, clip and optimizer, on a batch that is ready. The time of a new pair includes its parse
and its look-up in the lexicon, if the method needs them. Times are medians (with the lower and
upper quartile); a ratio is the median of the ratios to plain BERT in the same turn.
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
from settings import METHODS, Settings, read_options
from support import machine
from support.datasets import load_pairs
from support.options import Arguments, run_command
from support.pairs import loss_sum
from support.summary import align_columns

ENCODERS = {
    "6-layer": dict(hidden_size=384, num_layers=6, num_heads=12, intermediate_size=1536),
    "base": dict(hidden_size=768, num_layers=12, num_heads=12, intermediate_size=3072)}
DEVICE = machine.best_device()
OPTIONS = {"encoder": ("6-layer", f"size of the encoder: {', '.join(ENCODERS)}"),
           "task": ("toy", "data set"), "data_dir": ("data", "folder of data sets"),
           "device": (DEVICE, "cpu, cuda, ..."),
           "precision": (machine.fast_precision(DEVICE), "number format of the forward pass"),
           "batch_size": (32, "pairs in a step"), "repeats": (5, "turns of each row")}
READ = 100  # tokenizer, tf-idf and words are learned from this many pairs


def make_run(row, task, pairs, options):
    """An untrained run of a row, with the encoder of --encoder."""
    given = {name: options[name] for name in ("task", "device", "precision", "batch_size")}
    given |= {"bert": "scratch", "dropout": 0.1} | read_value("model", row)
    if Settings(model=given["model"]).reads_words:
        del given["bert"]
    settings, recipe = read_options(given)
    splits = {"train": pairs[:READ], "dev": pairs[:0]}
    return new_run(settings, recipe, Path(), task, splits, **ENCODERS[options["encoder"]])[0]


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


def compare(what, works, options):
    """Times the rows in turns. Returns: lists of cells, one a row. works: dict row -> function."""
    seconds = {row: [] for row in works}
    for turn in range(-1, options["repeats"]):  # turn -1 warms up
        for row, work in works.items():
            start = synchronized_time(options["device"])
            work()
            if turn >= 0:
                seconds[row].append(synchronized_time(options["device"]) - start)
    for row, times in seconds.items():
        low, median, high = 1e3 * np.quantile(times, [0.25, 0.5, 0.75])
        ratio = statistics.median(x / y for x, y in zip(times, seconds["bert"]))
        yield [what, row, f"{median:.1f} ({low:.1f} to {high:.1f})", f"{ratio:.2f}"]


def main(argv=None):
    """Measures and prints. Raises ValueError or OSError for a user's mistake."""
    parser = Arguments("python -m experiments.bench", __doc__)
    parser.add_argument("--models", nargs="+", metavar="ROW", default=[*METHODS],
                        help="methods, each with options of train.py (default: all)")
    for name, (default, what) in OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, type=type(default),
                            choices=ENCODERS if name == "encoder" else None,
                            metavar=name.upper(), help=f"{what} (default: {default})")
    options = parser.parse(argv)
    machine.prepare_device(options["device"])
    with machine.torch_session(options):
        task, splits = load_pairs(Settings(task=options["task"], data_dir=options["data_dir"]))
        pairs, size = splits["train"], options["batch_size"]
        runs = {row: make_run(row, task, pairs, options)
                for row in dict.fromkeys(["bert", *options["models"]])}
        print(f"{options['encoder']}, {options['precision']}, {task.name}, medians of "
              f"{options['repeats']} (quartiles), {machine.versions(options['device'])}\n")
        steps = {row: step_of(run, pairs[:size]) for row, run in runs.items()}
        # each call answers the next pair; of toy, one of the four pairs of a square
        answers = {row: map(run.predict, pairs[READ::4]).__next__ for row, run in runs.items()}
        print(align_columns([["", "row", "ms", "x bert"],
                             *compare(f"step of {size} pairs", steps, options),
                             *compare("one new pair", answers, options)]))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.bench"))
