"""What the lessons share: guesses, `check`, a short training.

LESSON=solved in the environment: the library's functions stand in for yours. grade.py runs lessons
in a third way: nothing stops, and `check` tells it what is wrong.
"""
import builtins
import inspect
import math
import os
import runpy
import random
import sys
import textwrap
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]        # the modules stand one folder above the lessons

import torch
import torch.nn.functional as F
from torch.testing import assert_close

import batches
import pretrain
import train
from guesses import GUESSES
from judge import judge
from run import new_run
from settings import METHODS
from support import options, summary, toy
from support.errors import refuse
from tasks import TASKS

# What a lesson gets by `from lesson import *`.
__all__ = ["F", "assert_close", "begin", "check", "fixed", "guessed", "math", "read_pairs",
           "reveal", "torch", "train_on", "train_seeds"]
MODE = os.environ.get("LESSON", "")     # "", "solved"; grade.py sets "grade"
SEED = 0
lesson_tasks = []       # the names of this lesson's functions
tell = print            # grade.py's: takes a function's name and what is wrong with it, or ""


def stop(message):
    """Ends a script, or a notebook's cell, with this message and no traceback."""
    problem = ValueError(message)
    problem._render_traceback_ = lambda: textwrap.wrap(message, 100)    # Jupyter calls it
    raise problem


def begin(number, seed=0):
    """Opens lesson `number`. seed: of weights and of random arguments. A script, but no notebook,
    starts a second time inside `run_command`, so that an error is one line, as in every other
    program of this project."""
    global SEED
    first = not lesson_tasks
    lesson_tasks[:] = [name for name, task in TASKS.items() if task.lesson == number]
    if MODE == "grade":
        return
    if first and not hasattr(builtins, "__IPYTHON__"):
        sys.exit(options.run_command(run_script, f"lesson {number}"))
    refuse(MODE not in ("", "solved"), f"LESSON={MODE}: expected solved, or nothing")
    SEED = seed
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    print(f"Lesson {number}, seed {SEED}.")


def run_script(_):
    """Runs the lesson that the command line names, which takes no options."""
    file = os.path.abspath(sys.argv[0])
    refuse(sys.argv[1:], f"{' '.join(sys.argv[1:])}: a lesson has no options; see its README.md")
    options.OWN[file] = sys.argv[0], b""    # so that an error names its line in this file
    runpy.run_path(file, run_name="__main__")


# ---- Guesses ------------------------------------------------------------------------------------

def guessed(name, guess):
    """Stops if the guess is not one of the choices."""
    right, others, _ = GUESSES[name]
    if guess not in (right, *others) and not MODE:
        choices = ", ".join(sorted(map(repr, (right, *others))))
        stop(f"Guess first: write one of {choices} in the place of ... in `guess = ...`, and run "
             f"this again.")


def reveal(name, guess):
    """Stops if the guess is not one of the choices; else says which one is right, and why."""
    guessed(name, guess)
    right, _, why = GUESSES[name]
    print(textwrap.fill(" ".join(f"It is {right!r}. {why}".split()), 100))


# ---- check --------------------------------------------------------------------------------------

def check(function, *by_hand, gives=()):
    """Returns your function if it is right. Else it stops with the message that helps first.

    by_hand: arguments small enough to compute by hand, for the message alone: random arguments
    decide. gives: the result by hand, or a tuple of them, without axes of size 1; a test compares
    the library's.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not inspect.isfunction(function) or name not in TASKS:
        stop(f"check({name}): expected one of {', '.join(lesson_tasks)}, written with `def`.")
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
        stop(f"{name}: {said}")
    print(f"{name} is right: {points} point{'s' if points > 1 else ''}. The library's lines:\n\n"
          f"{inspect.getsource(library)}")
    return function


# ---- Training -----------------------------------------------------------------------------------

def start_on(frames, model, given):
    """A model on a toy world. frames: dict name -> frames, as in support.toy.FRAMES. model: a name
    of --model, or a class that the lesson has made. given: options of train.py.
    Returns: (the Run before its first step, dict split -> Examples, dict split -> pairs).
    """
    if MODE == "grade":
        raise SystemExit("the training is left out")
    if isinstance(model, type):             # --model finds a class by its name, in a module
        model, own = model.__name__, model
        METHODS[model], globals()[model] = f"{__name__}:{model}", own
    settings, recipe = train.read_options(
        {"device": "cpu", "model": model, "batch_size": 32} | given)
    task, splits = toy.toy_task(frames)
    return *new_run(settings, recipe, HERE, task, splits), splits


def fit(frames, model, start, learned, epochs, given):
    """What train_on and train_seeds do. given: options of train.py, with seed.
    Returns: as start_on; how many epochs there were."""
    run, examples, splits = start_on(frames, model, given)
    if start is not None:                               # what the method adds keeps random weights
        run.model.bert.load_state_dict(start.model.bert.state_dict(), strict=False)
    trained, optimizer = examples["train"], torch.optim.AdamW(run.model.parameters())
    for epoch in range(epochs):
        order = batches.training_batches(trained.lengths, run.recipe.batch_size,
                                         f"{given['seed']} {epoch}", 4)
        optimizer.param_groups[0]["lr"] = min(1.0, (epoch + 1) / 3) * 1e-3      # a slow start
        run.model.train()
        for inputs, labels in map(trained.collate, order):
            logits = run.model(**inputs).flatten(0, -2)     # DRr-Net judges each pair three times
            F.cross_entropy(logits, labels.repeat(len(logits) // len(labels))).backward()
            torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if run.evaluate(trained)["accuracy"] >= learned:
            break
    return run, examples, splits, epoch + 1


def train_on(frames, model, start=None, learned=0.97, epochs=30, **given):
    """Trains a model on a toy world, until it has learned the pairs of training.

    frames, model: see start_on. start: a Run on these frames; the new encoder begins with its
    weights, as if they were pre-trained. learned: the share of training's pairs that is enough.
    epochs: at most so many. given: options of train.py.
    Returns: the Run; what Run.influence says of dev, with "unseen", the accuracy with words that
    training did not have, and "epochs".
    """
    run, examples, splits, done = fit(frames, model, start, learned, epochs, {"seed": SEED} | given)
    found = run.influence(examples["dev"])
    found |= {"epochs": done, "unseen": run.evaluate(splits["dev_unseen"])["accuracy"]}
    print(f"{run.settings.model}: {done} epochs. {100 * found['score']:.1f} % of dev are right; "
          f"with words that training did not have {100 * found['unseen']:.1f} %. Chance is 50.")
    if found["changes"]:
        print(f"{summary.influence_table(found, 'dev')}\n")
    return run, found


def train_seeds(frames, model, start=None, **given):
    """Trains a model three times, as train_on does, with this lesson's seed and the two after it,
    until 95 % are learned. Returns: the three accuracies on dev."""
    scores, begun = [], time.monotonic()
    for seed in range(SEED, SEED + 3):
        run, examples, *_ = fit(frames, model, start, 0.95, 30, {"seed": seed} | given)
        scores.append(run.evaluate(examples["dev"])["accuracy"])
    shown = ", ".join(f"{100 * score:.1f}" for score in scores)
    print(f"{run.settings.model}: dev, seeds {SEED} to {SEED + 2}: {shown} "
          f"({time.monotonic() - begun:.0f} seconds)")
    return scores


def read_pairs(frames, pairs, hide_pieces, masked_loss, steps=1500, lr=3e-3):
    """Lets the mini-BERT of a world read its training texts, without labels, by your two functions;
    the rest is pretrain.py's.

    pairs: "copies", each text beside itself (pretrain.py's copies lack some pieces, which takes
    longer to learn); "random pairs", each beside another text. Returns: a Run whose encoder has
    read, for train_seeds(..., start=it).
    """
    run, _, splits = start_on(frames, "bert", {"seed": SEED})
    draw, tokenizer = random.Random(SEED), run.reader.tokenizer
    texts = list(dict.fromkeys(batches.texts_of(splits["train"])))
    copies = pretrain.encode_units([(text, text) for text in texts], tokenizer)
    model = pretrain.MaskedWords(run.model.bert).train()
    optimizer, begun = pretrain.make_optimizer(model, lr), time.monotonic()
    for step in range(steps):
        units = draw.sample(copies, 32)
        if pairs == "random pairs":
            units = [(a, b) for (a, _), (b, _) in zip(units, draw.sample(copies, 32))]
        batch, words = pretrain.make_batch(units, tokenizer, SEED * steps + step)
        pieces = batch["input_ids"]
        batch["input_ids"], chosen = hide_pieces(
            pieces, words, tokenizer.mask_id, torch.rand(2, *pieces.shape),
            torch.randint(tokenizer.vocab_size, pieces.shape))
        loss = masked_loss(model(**batch, chosen=chosen), pieces[chosen])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = lr * train.rate(step, steps, 0.05)
        optimizer.step()
        optimizer.zero_grad()
    found = pretrain.measure(model, copies[:256], tokenizer, "cpu")
    print(f"{len(texts)} texts, {pairs}: {steps} steps, {time.monotonic() - begun:.0f} seconds. "
          f"Beside copies {100 * found['right']:.0f} % of the hidden words are right, and the best "
          f"head gives a copy {100 * max(found['copies']):.0f} % of its attention.")
    return run


def fixed(rows, bias=None):
    """A linear map with these weights, for hand calculation: x → rows x + bias."""
    layer = torch.nn.Linear(len(rows[0]), len(rows), bias=bias is not None).requires_grad_(False)
    layer.weight.copy_(torch.tensor(rows))
    if bias is not None:
        layer.bias.copy_(torch.tensor(bias))
    return layer
