"""What the lessons share: guesses, `check`, your own file my_semmatch.py, a short training.

LESSON=solved in the environment: the library's functions stand in for yours. grade.py runs lessons
in a third way: nothing stops, and `check` tells it what is wrong.
"""
import ast
import builtins
import inspect
import os
import re
import runpy
import sys
import textwrap
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]        # the modules stand one folder above the lessons

import torch  # noqa: E402

import batches  # noqa: E402
import equations  # noqa: E402
import train  # noqa: E402
from bert_min import Bert, PairTokenizer, load_bert, read_checkpoint  # noqa: E402
from experiments import draw  # noqa: E402
from guesses import GUESSES  # noqa: E402
from judge import failed, judge, results  # noqa: E402
from run import new_run, open_run  # noqa: E402
from support import options, summary, toy  # noqa: E402
from support.errors import refuse  # noqa: E402
from tasks import TASKS  # noqa: E402

MODE = os.environ.get("LESSON", "")     # "", "solved"; grade.py sets "grade"
SEED = 0
OWN = HERE / "my_semmatch.py"
OWN_HEAD = '''"""Your functions that the lessons found right, and the layers made of them.

A lesson writes its functions and its layer here again each time. All else that you write stays.
python train.py --model tutorials/my_semmatch.py:MyDafa     (from the folder above)
"""
from equations import *  # the library's functions, where yours do not stand below
'''
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
        return getattr(equations, name)
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
    library, points = getattr(equations, name), TASKS[name].points
    said = "not written yet: this is the library's function. Write yours." * (function is library)
    if MODE == "grade":
        message = said or judge(name, function, seed=SEED)
        tell(name, message)
        return library if message else function
    check_lesson(name, library, by_hand, gives)
    if MODE == "solved":
        print(f"{source_of(library)}\n")
        return library
    said = said or judge(name, function, seed=SEED)
    if message := said and (judge(name, function, by_hand, SEED) or said):
        hint = "" if failed.arguments is None else (
            " Look: failed.arguments, failed.yours, failed.expected.")
        stop(f"{name}: {message}{hint}")
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
    """Puts a right function into my_semmatch.py, with what it needs of the lines above it.
    Returns: what to say if it cannot stand there."""
    try:
        needed = {}
        find_needs(function, needed)
        parts = {**needed, name: source_of(function)}
        exec("\n\n".join(parts.values()), in_own_file := dict(vars(equations)))
        message = judge(name, in_own_file[name], seed=SEED)
    except (Exception, SystemExit) as error:        # such as a cell of %%time, which has no source
        message = str(error)
    if message:
        return (f"But {OWN.name} keeps the library's function, because yours needs more than its "
                f"cell: {message}. ")
    for part, source in parts.items():
        keep(part, source, before=name)
    return ""


def find_needs(function, needed):
    """Fills the dict name -> lines with what a function takes from its file: imports, numbers,
    other functions. ValueError for anything else."""
    nodes = list(ast.walk(ast.parse(source_of(function))))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    for name in dict.fromkeys(node.id for node in names if node.id not in own):
        value = function.__globals__.get(name, builtins)
        known = value is builtins or name in TASKS or vars(equations).get(name) is value
        if known or name in needed or value is function:
            continue
        module = getattr(value, "__module__", None)
        if isinstance(value, types.ModuleType):
            needed[name] = f"import {value.__name__} as {name}"
        elif inspect.isfunction(value) and module == function.__module__:
            find_needs(value, needed)
            needed[name] = source_of(value)
        elif isinstance(value, (int, float, str, tuple, types.NoneType)):
            needed[name] = f"{name} = {value!r}"
        elif module and hasattr(value, "__name__") and module != function.__module__:
            needed[name] = f"from {module} import {value.__name__} as {name}"
        else:
            raise ValueError(f"{name} is a {type(value).__name__}")


def keep(name, source, before=None):
    """Writes lines that define a name into my_semmatch.py: in the place of the older ones, else
    before the lines of the name `before`, else at the end."""
    text = OWN.read_text("utf-8") if OWN.exists() else OWN_HEAD
    lines = text.split("\n")
    places = {}                                     # name -> its first and last line
    for node in ast.parse(text, OWN.name).body:
        parts = getattr(node, "targets", getattr(node, "names", [node]))
        label = getattr(parts[0], "asname", None) or getattr(parts[0], "name", None)
        first = min(x.lineno for x in (*getattr(node, "decorator_list", ()), node))
        places[label or getattr(parts[0], "id", None)] = first - 1, node.end_lineno
    if name in places:
        first, last = places[name]
        lines[first:last] = source.split("\n")
    elif before and before in places:
        first, _ = places[before]
        lines[first:first] = [*source.split("\n"), "", ""]
    else:
        lines += ["", "", *source.split("\n"), ""]
    OWN.write_text("\n".join(lines), "utf-8")


# ---- Training -----------------------------------------------------------------------------------

def train_on(frames, model, start=None, learned=0.97, epochs=30, lr=1e-3, **given):
    """Trains a model on a toy world of these frames, until it has learned the pairs of training.

    frames: dict name -> frames, as in support.toy.FRAMES. model: a name of --model, or a class of
    equations.py, which then computes with your functions. start: a Run on these frames; the new
    encoder begins with its weights, as if they were pre-trained. learned: the share of training's
    pairs that is enough. epochs: at most so many. given: options of train.py.
    Returns: the Run; what Run.influence says of dev, with "unseen", the accuracy with words that
    training did not have, and "losses", of each step.
    """
    if MODE == "grade":
        raise SystemExit("the training is left out")
    place = describe_model(model)
    settings, recipe = train.read_options(
        {"model": place, "seed": SEED, "device": "cpu", "lr": lr} | given)
    task, splits = toy.toy_task(frames)
    run, examples = new_run(settings, recipe, HERE, task, splits)
    if start is not None:                               # what the method adds keeps random weights
        run.model.bert.load_state_dict(start.model.bert.state_dict(), strict=False)
    losses, trained, train_steps = [], examples["train"], mine("train_steps")
    optimizer = torch.optim.AdamW(run.model.parameters(), lr, weight_decay=0.01)
    repeats = 3 if run.settings.reads_words else 1      # DRr-Net judges each pair three times
    for epoch in range(epochs):
        order = batches.training_batches(trained.lengths, recipe.batch_size, f"{SEED} {epoch}", 4)
        optimizer.param_groups[0]["lr"] = min(1.0, (epoch + 1) / 3) * lr    # a slow start
        run.model.train()
        batch = ((inputs, labels.repeat(repeats)) for inputs, labels in map(trained.collate, order))
        losses += train_steps(run.model, batch, optimizer, 1.0)
        if run.evaluate(trained)["accuracy"] >= learned:
            break
    found = run.influence(examples["dev"])
    found |= {"losses": losses, "epochs": epoch + 1,
              "unseen": run.evaluate(splits["dev_unseen"])["accuracy"]}
    print(f"{epoch + 1} epochs. {100 * found['score']:.1f} % of dev are right; with words that "
          f"training did not have {100 * found['unseen']:.1f} %. Chance is 50.")
    if found["changes"]:
        print(f"{summary.influence_table(found, 'dev')}\n")
    return run, found


def describe_model(model):
    """Says who wrote what a model computes with. Returns: its name for --model.
    It stops if a lesson's layer has none of your functions."""
    if not model.startswith("My"):
        print(f"{model} of the library is training ...", flush=True)
        return model
    text = source_of(getattr(equations, model))
    used = [name for name in TASKS if re.search(rf"\b{name}\b(?!=)", f"{text} train_steps")]
    own = ast.parse(OWN.read_text("utf-8") if OWN.exists() and not MODE else "")
    written = {getattr(node, "name", None) for node in own.body}
    if not MODE:
        if not written.intersection(lesson_tasks):
            stop(f"{model}: none of this lesson's functions is yours; write one first.")
        keep(model, text)
    yours, theirs = (", ".join(name for name in used if (name in written) is here) or "nothing"
                     for here in (True, False))
    print(f"{model} is training. Yours: {yours}. The library's: {theirs}.", flush=True)
    return f"{equations.__file__ if MODE else OWN}:{model}"


def load_encoder(place=None):
    """(PairTokenizer, bert_min.Bert) of a folder that --bert takes, such as a small BERT's; None:
    those of the run that ships with the library, without what DAFA adds."""
    if place is None:
        run = open_run(HERE.parent / "assets/toy-dafa", device="cpu")
        bert = Bert(run.model.bert.config).eval()
        bert.load_state_dict(run.model.bert.state_dict(), strict=False)
        return run.reader.tokenizer, bert
    config, weights = read_checkpoint(Path(place))
    bert = Bert(config).eval()
    load_bert(bert, weights, str(place))
    return PairTokenizer.from_folder(Path(place), config), bert


def pack(tokenizer, pairs):
    """({"ids", "segment", "mask"}, each (B, L); labels (B,)) of pairs: (a, b, label), or Pair."""
    pairs = [x if isinstance(x, tuple) else (x.a, x.b, x.label) for x in pairs]
    rows = [torch.tensor(tokenizer.encode(a, None, b, None, 128)[:2]).T for a, b, _ in pairs]
    ids, segment = torch.nn.utils.rnn.pad_sequence(rows, True, -1).unbind(-1)       # (B, L) each
    mask = ids >= 0
    inputs = {"ids": ids.masked_fill(~mask, tokenizer.pad_id), "segment": segment * mask}
    return inputs | {"mask": mask}, torch.tensor([label for _, _, label in pairs])


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


def table(rows, columns, values, title=""):
    """Prints a matrix with the names of its rows and columns."""
    lines = [["", *map(str, columns)]]
    lines += [[name, *(f"{float(x):.3g}" for x in line)] for name, line in zip(rows, values)]
    print(f"{title}\n{summary.align_columns(lines)}\n".lstrip("\n"))


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
    figure = draw.pair_map(title, rows, columns, 100 * values)
    show(title, draw.picture(title, figure))


def show_losses(title, losses):
    """Draws the loss of each step."""
    curve = summary.draw_panel(title, "step", list(enumerate(losses, 1)), summary.LEFT)
    show(title, summary.svg_page(2 * summary.LEFT + summary.WIDE, summary.TOP + summary.HIGH + 40,
                                 curve))
