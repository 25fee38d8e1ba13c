"""What the lessons share: guesses, `check`, your own file my_semmatch.py, a short training.

LESSON=solved in the environment: the library's functions stand in for yours. grade.py runs lessons
in a third way: nothing stops, and `check` tells it what is wrong.
"""
import ast
import builtins
import inspect
import math
import os
import re
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
import answers
import pretrain
import train
from bert_min import Bert, PairTokenizer, SelfAttention, load_bert, read_checkpoint
from experiments import draw
from experiments.groups import percent
from guesses import GUESSES
from judge import failed, judge, results
from run import new_run, open_run
from settings import RECIPES
from support import options, summary, toy
from support.errors import refuse
from tasks import TASKS

__all__ = ["F", "assert_close", "begin", "check", "failed", "fixed", "guessed", "load_encoder",
           "math", "mine", "pack", "read_pairs", "reveal", "show_losses", "show_map", "show_table",
           "tokens_of", "torch", "train_on", "train_on_mrpc", "train_seeds"]     # what a lesson gets by `from lesson import *`
MODE = os.environ.get("LESSON", "")     # "", "solved"; grade.py sets "grade"
SEED = 0
OWN = HERE / "my_semmatch.py"
OWN_HEAD = '''"""Your functions that the lessons found right, and the layers made of them.

A lesson writes its parts here again each time. What you write above the first part, or below a
line such as `# ---- notes`, stays.
python train.py --model tutorials/my_semmatch.py:MyDafa     (from the folder above)
"""
from answers import *  # the library's functions, where yours do not stand below


'''
# Real pairs: how the library's layers were trained, and how many of dev's 408 pairs each had right,
# seeds 0 to 4 (tests/results/mrpc-2000.json). Their encoder is all-MiniLM-L6-v2.
MRPC = {"task": "mrpc", "limit": 2000, "epochs": 3, "lr": 1e-4, "precision": "fp32"}
MRPC_RIGHT = {"bert": (316, 303, 309, 311, 306), "dabert": (307, 307, 310, 313, 305),
              "dafa": (312, 302, 312, 315, 311), "knowledge": (314, 309, 310, 306, 315)}
# PAWS, accuracy on test: mean, standard deviation (tests/results). As published: ten epochs, ten
# seeds. After reading: five epochs, six seeds.
PAWS = {"as published": {
    "plain BERT": (72.4, 5.4), "Aligned": (82.8, 0.4), "DAFA's trees in the form of Aligned":
    (75.9, 1.5), "the same with another pair's trees": (64.9, 1.2)},
    "after reading copies": {"plain BERT": (81.7, 1.0), "Aligned": (84.6, 0.6)}}
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


def mine(name):
    """Your function of an earlier lesson from my_semmatch.py, or else the library's."""
    if MODE or not OWN.exists():
        return getattr(answers, name)
    return getattr(options.load_file(OWN, str(OWN), OWN.read_bytes()), name)


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
    decide. gives: the result by hand, or a tuple of them, without axes of size 1.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not inspect.isfunction(function) or name not in TASKS:
        stop(f"check({name}): expected one of {', '.join(lesson_tasks)}, written with `def`.")
    library, points = getattr(answers, name), TASKS[name].points
    if MODE != "grade":
        check_lesson(name, library, by_hand, gives)
    if MODE == "solved":
        print(f"{source_of(library)}\n")
        return library
    said = "not written yet: this is the library's function. Write yours." * (function is library)
    said = said or judge(name, function, by_hand, SEED)
    if MODE == "grade":
        tell(name, said)
        return library if said else function
    if said:
        hint = "" if failed.arguments is None else (
            " Look: failed.arguments, failed.yours, failed.expected.")
        stop(f"{name}: {said}{hint}")
    print(f"{name} is right: {points} point{'s' if points > 1 else ''}. "
          f"{'' if name.startswith('demand') else keep_function(name, function)}"
          f"The library's lines:\n\n{source_of(library)}\n")
    return function


def check_lesson(name, library, by_hand, gives):
    """The lesson's own promise: the library's function gives the result by hand."""
    expected = gives if isinstance(gives, tuple) else (gives,)
    for x, y in zip(expected, results(library, by_hand) if expected else (), strict=True):
        near = torch.isclose(y.double().squeeze(), torch.tensor(x).double(), rtol=0, atol=1e-4)
        assert near.all(), f"a mistake in this lesson: {name} gives {y}, not {x}"


# ---- The library's lines, and your file ---------------------------------------------------------

def source_of(part):
    """The lines of a function or class."""
    return textwrap.dedent(inspect.getsource(part)).rstrip()


def keep_function(name, function):
    """Puts a right function into my_semmatch.py. Returns: what to say if it cannot stand there."""
    try:
        source = source_of(function)
        exec(own_parts()[""] + source, in_own_file := {})
        message = judge(name, in_own_file[name], seed=SEED)
    except (Exception, SystemExit) as error:        # such as a cell of %%time, which has no source
        message = str(error)
    if message:
        return (f"But {OWN.name} keeps the library's, because yours cannot stand there: {message}. "
                "Write what it needs inside it, or at the top of that file. ")
    keep(name, source)
    return ""


def own_parts():
    """The parts of my_semmatch.py, name -> its lines. The name of the first part is ""."""
    text = OWN.read_text("utf-8") if OWN.exists() else OWN_HEAD
    first, *others = re.split(r"^# ---- (\w+)\n", text, flags=re.M)
    parts = {"": first}
    for name, part in zip(others[::2], others[1::2]):
        parts[name] = parts.get(name, "") + part
    return parts


def keep(name, source):
    """Writes lines that define a name into my_semmatch.py, in the place of the older ones."""
    parts = own_parts() | {name: f"{source}\n\n\n"}      # functions first: classes name them
    parts = dict(sorted(parts.items(), key=lambda part: part[0][:1].isupper()))
    texts = [f"# ---- {title}\n{text}" if title else text for title, text in parts.items()]
    OWN.write_text("".join(texts), "utf-8")


# ---- Training -----------------------------------------------------------------------------------

def train_on(frames, model, start=None, learned=0.97, epochs=30, lr=1e-3, **given):
    """Trains a model on a toy world of these frames, until it has learned the pairs of training.

    frames: dict name -> frames, as in support.toy.FRAMES. model: a name of --model, or a class of
    answers.py, which then computes with your functions. start: a Run on these frames; the new
    encoder begins with its weights, as if they were pre-trained. learned: the share of training's
    pairs that is enough. epochs: at most so many. given: options of train.py.
    Returns: the Run; what Run.influence says of dev, with "unseen", the accuracy with words that
    training did not have, and "losses", of each step.
    """
    place = describe_model(model, "train_steps")
    run, examples, splits, losses, count = fit(
        frames, place, start, learned, epochs, {"seed": SEED, "lr": lr} | given)
    found = run.influence(examples["dev"])
    found |= {"losses": losses, "epochs": count,
              "unseen": run.evaluate(splits["dev_unseen"])["accuracy"]}
    print(f"{count} epochs. {100 * found['score']:.1f} % of dev are right; with words that "
          f"training did not have {100 * found['unseen']:.1f} %. Chance is 50.")
    if found["changes"]:
        print(f"{summary.influence_table(found, 'dev')}\n")
    return run, found


def start_on(frames, given):
    """(the Run before its first step, dict split -> Examples, dict split -> pairs) of a world."""
    settings, recipe = train.read_options({"device": "cpu"} | given)
    task, splits = toy.toy_task(frames)
    return *new_run(settings, recipe, HERE, task, splits), splits


def fit(frames, place, start, learned, epochs, given):
    """What train_on and train_seeds do. given: options of train.py, with seed and lr.
    Returns: as start_on; the loss of each step; how many epochs there were."""
    run, examples, splits = start_on(frames, {"model": place} | given)
    if start is not None:                               # what the method adds keeps random weights
        run.model.bert.load_state_dict(start.model.bert.state_dict(), strict=False)
    losses, trained, train_steps = [], examples["train"], mine("train_steps")
    optimizer = torch.optim.AdamW(run.model.parameters(), given["lr"], weight_decay=0.01)
    repeats = 3 if run.settings.reads_words else 1      # DRr-Net judges each pair three times
    for epoch in range(epochs):
        order = batches.training_batches(trained.lengths, run.recipe.batch_size,
                                         f"{given['seed']} {epoch}", 4)
        optimizer.param_groups[0]["lr"] = min(1.0, (epoch + 1) / 3) * given["lr"]  # a slow start
        run.model.train()
        batch = ((inputs, labels.repeat(repeats)) for inputs, labels in map(trained.collate, order))
        losses += train_steps(run.model, batch, optimizer, 1.0)
        if run.evaluate(trained)["accuracy"] >= learned:
            break
    return run, examples, splits, losses, epoch + 1


def train_seeds(frames, model, start=None, learned=0.95, epochs=30, lr=1e-3, **given):
    """Trains a model three times, as train_on does, with this lesson's seed and the two after it.
    Returns: the three accuracies on dev."""
    place, scores, begun = describe_model(model, "train_steps"), [], time.monotonic()
    for seed in range(SEED, SEED + 3):
        run, examples, *_ = fit(frames, place, start, learned, epochs,
                                {"seed": seed, "lr": lr, "batch_size": 32} | given)
        scores.append(run.evaluate(examples["dev"])["accuracy"])
    shown = ", ".join(f"{100 * score:.1f}" for score in scores)
    print(f"dev, seeds {SEED} to {SEED + 2}: {shown} ({time.monotonic() - begun:.0f} seconds)")
    return scores


def read_pairs(frames, pairs, steps=1500, lr=3e-3):
    """Lets the mini-BERT of a world read its training texts, without labels, by your hide_pieces
    and masked_loss; the rest is pretrain.py's.

    pairs: "copies", each text beside itself (pretrain.py's copies lack some pieces, which takes
    longer to learn); "random", beside another text. Returns: a Run whose encoder has read, for
    train_seeds(..., start=it).
    """
    if MODE == "grade":
        raise SystemExit("the reading is left out")
    run, _, splits = start_on(frames, {"model": "bert", "seed": SEED})
    draw, tokenizer = random.Random(SEED), run.reader.tokenizer
    texts = list(dict.fromkeys(batches.texts_of(splits["train"])))
    copies = pretrain.encode_units([(text, text) for text in texts], tokenizer)
    model = pretrain.MaskedWords(run.model.bert).train()
    optimizer, begun = pretrain.make_optimizer(model, lr), time.monotonic()
    hide_pieces, masked_loss = mine("hide_pieces"), mine("masked_loss")
    for step in range(steps):
        units = draw.sample(copies, 32)
        if pairs == "random":
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


def describe_model(model, also=""):
    """Says who wrote what a model, and `also`, a function, compute with. Returns: the model's name
    for --model. It stops if a lesson's layer has none of your functions."""
    if MODE == "grade":
        raise SystemExit("the training is left out")
    if not hasattr(answers, model):
        print(f"{model} of the library is training ...", flush=True)
        return model
    text, written = source_of(getattr(answers, model)), {} if MODE else own_parts()
    used = [name for name in TASKS if re.search(rf"\b{name}\b(?!=)", f"{text} {also}")]
    if not MODE:
        if written.keys().isdisjoint(lesson_tasks):
            stop(f"{model}: none of this lesson's functions is yours; write one first.")
        keep(model, text)
    yours, theirs = (", ".join(name for name in used if (name in written) is here) or "nothing"
                     for here in (True, False))
    print(f"{model} is training. Yours: {yours}. The library's: {theirs}.", flush=True)
    return f"{answers.__file__ if MODE else OWN}:{model}"


def train_on_mrpc(model, folder, **given):
    """Trains a layer of answers.py, which computes with your functions, on 2,000 pairs of MRPC,
    by train.py's loop. Prints its accuracy on dev beside the library's.

    folder: an encoder that --bert takes. given: options of train.py, such as data_dir.
    Returns: the run's folder, the dict of its result.json.
    """
    method, place = model.removeprefix("My").lower(), describe_model(model)
    here = {"model": place, "seed": SEED, "bert": str(folder),
            "data_dir": str(HERE.parent / "data")}
    folder, result = train.train_or_resume(RECIPES.get(method, {}) | MRPC | here | given)
    rows = [["accuracy on dev", f"seed {SEED}", "seeds 0 to 4"],
            [f"{model}, {result['pairs']['train']} pairs",
             percent([result["metrics"]["dev"]["accuracy"]]), ""]]
    for name in dict.fromkeys([method, "bert"]):
        scores = [right / 408 for right in MRPC_RIGHT.get(name, ())]
        rows.append([f"the library's {name}, 2000 pairs", percent(scores[SEED:SEED + 1]),
                     percent(scores)])
    print(f"\n{summary.align_columns(rows)}\n")
    return folder, result


def load_encoder(folder=None):
    """(PairTokenizer, bert_min.Bert) of a folder that --bert takes; None: those of the run that
    ships with the library, without what DAFA adds."""
    if folder is None:
        run = open_run(HERE.parent / "assets/toy-dafa", device="cpu")
        bert = Bert(run.model.bert.config).eval()
        bert.load_state_dict(run.model.bert.state_dict(), strict=False)
        return run.reader.tokenizer, bert
    config, weights = read_checkpoint(Path(folder))
    bert = Bert(config).eval()
    load_bert(bert, weights, str(folder))
    return PairTokenizer.from_folder(Path(folder), config), bert


def pack(tokenizer, pairs):
    """({"input_ids", "segment", "mask"}, each (B, L); labels (B,)) of a list of Pair."""
    reader = batches.Reader(SelfAttention, 128, tokenizer=tokenizer)
    inputs, labels = reader.examples(pairs).collate(range(len(pairs)))
    inputs.pop("word_index")
    return inputs, labels


def tokens_of(run, a, b):
    """The tokens of a packed pair, as a Run reads it."""
    ids, *_ = run.reader.tokenizer.encode(a, None, b, None, run.settings.max_length)
    return run.reader.tokenizer.pieces(ids)


# ---- Small things -------------------------------------------------------------------------------

def fixed(rows, bias=None):
    """A linear map with these weights, for hand calculation: x → rows x + bias."""
    layer = torch.nn.Linear(len(rows[0]), len(rows), bias=bias is not None).requires_grad_(False)
    layer.weight.copy_(torch.tensor(rows))
    if bias is not None:
        layer.bias.copy_(torch.tensor(bias))
    return layer


def show_table(rows):
    """Prints scores, dict row -> the accuracies of three seeds, with their mean and deviation."""
    lines = [[name, percent(scores)] for name, scores in rows.items()]
    print(summary.align_columns([["accuracy on dev", "mean (deviation)"], *lines]))
    for encoder, results in PAWS.items():
        lines = [[name, f"{mean} ({deviation})"] for name, (mean, deviation) in results.items()]
        print(f"\n{summary.align_columns([[f'PAWS, all-MiniLM-L6-v2 {encoder}', ''], *lines])}")


def show(title, svg):
    """Shows a drawing in a notebook; a script writes it beside itself, as my_TITLE.svg."""
    if hasattr(builtins, "__IPYTHON__"):
        from IPython.display import SVG, display
        display(SVG(svg))
    elif MODE != "grade":
        file = HERE / f"my_{title.replace(' ', '_')}.svg"
        file.write_text(svg, "utf-8")
        print(f"A figure: {file.name}")


def show_map(title, rows, columns, values):
    """Draws a matrix, a row and a column for each of these words."""
    show(title, draw.heat_map(title, rows, columns, 100 * values))


def show_losses(title, losses):
    """Draws the loss of each step."""
    curve = summary.draw_panel(title, "step", list(enumerate(losses, 1)), summary.LEFT)
    show(title, summary.svg_page(2 * summary.LEFT + summary.WIDE, summary.TOP + summary.HIGH + 40,
                                 curve))
