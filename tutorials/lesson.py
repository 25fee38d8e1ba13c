"""What the lessons share: guesses, `check`, a short training.

LESSON=solved in the environment: the library's functions stand in for yours. grade.py runs lessons
in a third way: nothing stops, and `check` tells it what is wrong.
"""
import builtins
import inspect
import math
import os
import sys
import textwrap
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]        # the modules stand one folder above the lessons

import torch
import torch.nn.functional as F
from torch.testing import assert_close

import batches
from judge import judge
from run import new_run
from settings import METHODS, read_options
from support.datasets import load_task
from tasks import TASKS

# What a lesson gets by `from lesson import *`.
__all__ = ["F", "assert_close", "begin", "check", "fixed", "guessed", "math", "torch", "train_on",
           "train_seeds", "verdict"]
MODE = os.environ.get("LESSON", "")     # "", "solved"; grade.py sets "grade"
SEED = 0
tell = print            # grade.py's: takes a function's name and what is wrong with it, or ""


def stop(message):
    """Ends a script with one line and status 2, a notebook's cell without a traceback."""
    if not hasattr(builtins, "__IPYTHON__"):
        print(message, file=sys.stderr)
        sys.exit(2)
    problem = ValueError(message)
    problem._render_traceback_ = lambda: textwrap.wrap(message, 100)    # Jupyter calls it
    raise problem


def begin(number, seed=0):
    """Opens lesson `number`. seed: of weights and of random arguments."""
    global SEED
    if MODE == "grade":
        return
    SEED = seed
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    print(f"Lesson {number}, seed {SEED}.")


def fixed(rows, bias=None):
    """A linear map with these weights, for hand calculation: x → rows x + bias."""
    layer = torch.nn.Linear(len(rows[0]), len(rows), bias=bias is not None).requires_grad_(False)
    layer.weight.copy_(torch.tensor(rows))
    if bias is not None:
        layer.bias.copy_(torch.tensor(bias))
    return layer


def guessed(guess, *choices):
    """Stops if the guess is not one of the choices. A number may be text."""
    if str(guess) not in map(str, choices) and not MODE:
        stop(f"Guess first: write one of {', '.join(map(repr, choices))} in the place of ... in "
             f"`guess = ...`, and run this again.")


def check(function, *by_hand, gives=()):
    """Returns your function if it is right. Else it stops with the message that helps first.

    by_hand: arguments small enough to compute by hand, for the message alone: random arguments
    decide. gives: the result by hand, or a tuple of them, without axes of size 1; a test compares
    the library's.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not inspect.isfunction(function) or name not in TASKS:
        stop(f"check({name}): expected a function that a lesson asks for, written with `def`.")
    library, points = TASKS[name].right, TASKS[name].points
    if MODE == "solved":
        print(inspect.getsource(library))
        return library
    said = "not written yet: this is the library's function. Write yours." * (function is library)
    said = said or judge(name, function, by_hand, SEED)
    if MODE == "grade":
        tell(name, said)
        return library if said else function
    if said:
        stop(f"line {sys._getframe(1).f_lineno}, {name}: {said}")
    print(f"{name} is right: {points} point{'s' if points > 1 else ''}. The library's lines:\n\n"
          f"{inspect.getsource(library)}")
    return function


def train_on(group, model, **given):
    """Trains a small model on the 800 pairs of a group of toy, until 95 % of them are right, for 30
    epochs at most. model: a name of --model, or a class that the lesson has made. given: options of
    train.py. Returns: the accuracy on dev, in percent."""
    if MODE == "grade":
        raise SystemExit("the training is left out")
    if isinstance(model, type):             # --model finds a class by its name, in a module
        model, own = model.__name__, model
        METHODS[model], globals()[model] = f"{__name__}:{model}", own
    settings, recipe = read_options(
        {"device": "cpu", "model": model, "batch_size": 32, "seed": SEED} | given)
    task, splits = load_task("toy", HERE)
    splits = {name: [pair for pair in splits[name] if pair.group == group]
              for name in ("train", "dev")}
    run, examples = new_run(settings, recipe, HERE, task, splits)
    trained, optimizer = examples["train"], torch.optim.AdamW(run.model.parameters())
    for epoch in range(30):
        order = batches.training_batches(trained.lengths, 32, f"{settings.seed} {epoch}", 4)
        optimizer.param_groups[0]["lr"] = min(1.0, (epoch + 1) / 3) * 1e-3      # a slow start
        run.model.train()
        for inputs, labels in map(trained.collate, order):
            F.cross_entropy(run.model(**inputs), labels).backward()
            torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if run.evaluate(trained)["accuracy"] >= 0.95:
            break
    accuracy = 100 * run.evaluate(examples["dev"])["accuracy"]
    print(f"{model}, seed {settings.seed}: {epoch + 1} epochs, {accuracy:.1f} % of dev are right. "
          f"Chance is 50.")
    return accuracy


def train_seeds(group, model, **given):
    """The accuracies on dev of three trainings, with this lesson's seed and the two after it."""
    return [train_on(group, model, seed=seed, **given) for seed in range(SEED, SEED + 3)]


def verdict(rows, plain, whole, parts):
    """Says what a table shows of the two parts of a method, by the rule of lesson 7.

    rows: name -> a score for each seed. plain, whole, parts: names of rows. Returns: the part that
    carries the gain, "each of them", "neither", or "nothing that holds with each seed".
    """
    least, gain = mean(rows[plain]), mean(rows[whole]) - mean(rows[plain])
    for name, scores in rows.items():
        print(f"{name:12}", *(f"{score:6.1f}" for score in scores), f"   mean {mean(scores):.1f}")
    if min(rows[whole]) <= max(rows[plain]):
        print(f"{whole} is not above {plain} with each seed: no gain that a part could carry.")
        return "neither"
    answers = {}
    for part in parts:
        shares = [(score - least) / gain for score in rows[part]]
        answers[part] = {share >= 0.5 for share in shares}      # one answer of all seeds, or two
        print(f"{part} alone: {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the gain, "
              f"which is {gain:.1f} points")
    if {True, False} in answers.values():
        return "nothing that holds with each seed"
    carrying = [part for part in parts if True in answers[part]]
    if len(carrying) > 1:
        return "each of them"
    return carrying[0] if carrying else "neither"
