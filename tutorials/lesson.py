"""What the lessons share: guesses, `check`, your own file my_semmatch.py, a short training.

    begin(3)                       comes first: the lesson's number
    reveal("sign", guess)          stops until you have guessed; then says what is right, and why
    guessed("sign", guess)         stops until you have guessed; a training and `reveal` follow
    f = check(f, a, b, gives=c)    stops until your function is right; then shows the library's
                                   lines. a, b, c: arguments and result of a pair by hand
    train_on(frames, "MyDafa")     trains a layer made of your functions on a toy world

Three environment variables say how a lesson runs. LESSON=solved: the library's functions stand in
for yours. LESSON=grade, set by grade.py: nothing stops, and points go to the file LESSON_POINTS.
LESSON_SEED: the seed of weights and of the arguments that `check` draws.
"""
import ast
import builtins
import contextlib
import inspect
import io
import json
import os
import runpy
import sys
import tempfile
import textwrap
import traceback
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))        # the modules stand one folder above the lessons

import numpy as np  # noqa: E402
import torch  # noqa: E402

import equations  # noqa: E402
import run as runs  # noqa: E402
import train  # noqa: E402
from guesses import GUESSES  # noqa: E402
from settings import load_pairs  # noqa: E402
from support import options, summary, toy  # noqa: E402
from support.errors import refuse  # noqa: E402
from support.parses import Parse  # noqa: E402
from tasks import TASKS, Draw  # noqa: E402

MODE = os.environ.get("LESSON", "")
SEED = os.environ.get("LESSON_SEED", "0")
BY_HAND = "the pair by hand"
OWN = HERE / "my_semmatch.py"
OWN_HEAD = '''"""Your functions that the lessons found right, and the layers made of them.

A lesson writes its functions and its layer here again each time. All else that you write stays.
python train.py --model tutorials/my_semmatch.py:MyDafa     (from the folder above)
"""
from equations import *  # the library's functions, where yours do not stand below
'''
lesson_tasks = []       # the names of this lesson's functions


def stop(message):
    """Ends a script, or a notebook's cell, with this message and no traceback."""
    problem = ValueError(message)
    problem._render_traceback_ = lambda: textwrap.wrap(message, 100)    # Jupyter calls it
    raise problem


def begin(number):
    """Opens lesson `number`. A script, but no notebook, starts a second time inside `run_command`,
    so that an error is one line, as in every other program of this project."""
    first = not lesson_tasks
    lesson_tasks[:] = [name for name, task in TASKS.items() if task.lesson == number]
    if first and not hasattr(builtins, "__IPYTHON__"):
        sys.exit(options.run_command(run_script, f"lesson {number}"))
    refuse(MODE not in ("", "solved", "grade"), f"LESSON={MODE}: expected solved, or nothing")
    refuse(not SEED.isdecimal(), f"LESSON_SEED={SEED}: expected a whole number")
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
    return options.load_own(f"{OWN}:{name}", "function")


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

    by_hand: arguments small enough to compute by hand; grade.py does without them. gives: the
    result by hand, or a tuple of them, without axes of size 1.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if name not in TASKS:
        stop(f"check({name}): expected one of {', '.join(lesson_tasks)}, written with `def`.")
    library, points = getattr(equations, name), TASKS[name].points
    if gives != ():
        expected = gives if isinstance(gives, tuple) else (gives,)
        for x, y in zip(expected, results(library, by_hand), strict=True):
            near = torch.isclose(y.double().squeeze(), torch.tensor(x).double(), rtol=0, atol=1e-4)
            assert near.all(), f"a mistake in this lesson: {name} gives {y}, not {x}"
    if MODE == "solved":
        print(f"{source_of(library)}\n")
        return library
    message = judge(name, function, () if MODE else by_hand)
    if MODE == "grade":
        with open(os.environ["LESSON_POINTS"], "a", encoding="utf-8") as file:
            row = {"name": name, "won": 0 if message else points, "message": message}
            file.write(json.dumps(row) + "\n")
        return library if message else function
    if message:
        stop(f"{name}: {message}")
    try:
        exec(source_of(function), in_own_file := dict(vars(equations)))
        message = judge(name, in_own_file[name])
    except (NameError, OSError) as error:       # such as P in `def f(q, p=P)`; a cell of %%time
        message = error
    if message:
        stop(f"{name} is right here, but not in {OWN.name}: {message}. That file gets only the "
             f"function, of a cell without %%. Move what it needs, such as an import, into it.")
    keep(name, function)
    print(f"{name} is right: {points} point{'s' if points > 1 else ''}. The library's lines:\n\n"
          f"{source_of(library)}\n")
    return function


def judge(name, function, by_hand=()):
    """What is wrong with a function, compared with that of equations.py, or ""."""
    task, library, rights, found = TASKS[name], getattr(equations, name), {}, {}

    def arguments(case):
        return by_hand if case == BY_HAND else task.draw(Draw(case, int(SEED)))

    for case in [*task.cases, BY_HAND] if by_hand else task.cases:
        rights[case] = results(library, arguments(case))
        try:
            found[case] = results(function, arguments(case))
        except (Exception, SystemExit) as error:
            return f"tried with {case}: {where_it_failed(error, function)}"
        if found[case] is None:
            return "not written yet: it returns nothing. Write it, with `return`."
        letters = {} if case == BY_HAND else Draw(case).letters
        if message := misshaped(rights[case], found[case], letters):
            return f"tried with {case}: {message}"
    good = [case for case in rights if alike(rights[case], found[case])]
    if wrong := [case for case in rights if case not in good]:
        case = BY_HAND if BY_HAND in wrong else wrong[0]
        message = describe(rights[case], found[case], arguments(case))
        right = f" It is right with {', '.join(good)}." if good else ""
        return known_mistake(task, found, arguments) or f"tried with {case}: {message}{right}"
    for case in task.cases:
        right, yours = (gradients(f, arguments(case)) for f in (library, function))
        if not alike(right, yours):
            what, why = "wrong", "detach, item, .data, numpy and no_grad cut them off."
            if any(x.isnan().any() for x in yours):
                what, why = "nan", ("0 / 0, the log of 0 or an infinity does this, even if "
                                    "torch.where or a mask drops the result later.")
            return f"tried with {case}: the values are right, their gradients are {what}. {why}"
    return ""


def results(function, arguments):
    """What a function returns for these arguments, as a list of tensors; None if nothing."""
    before = [x.detach().clone() if torch.is_tensor(x) else x for x in arguments]
    value = function(*arguments)
    for i, (x, old) in enumerate(zip(arguments, before)):
        if torch.is_tensor(x) and not torch.equal(x, old):
            raise ValueError(f"it changes its argument {i + 1} in place, which others still need")
    if value is None:
        return None
    values = value if isinstance(value, (tuple, list)) else [value]
    return [torch.as_tensor(x) for x in values]


def gradients(function, arguments):
    """The gradients of a weighted sum of the results, for each tensor among the arguments."""
    flat = [y for x in arguments for y in (x if isinstance(x, list) else [x])]
    leaves = [weight for x in flat if isinstance(x, torch.nn.Module) for weight in x.parameters()]
    leaves += [x for x in flat if torch.is_tensor(x) and x.requires_grad]
    if not leaves:
        return []
    total = torch.zeros((), requires_grad=True)
    for x in results(function, arguments):
        weights = torch.linspace(0.5, 1.5, x.numel(), dtype=torch.float64).view(x.shape)
        total = total + (weights * x).masked_fill(~x.isfinite(), 0.0).sum()
    return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def differ(x, y):
    """Where two tensors of one shape differ by more than rounding."""
    near = 1e-6 if x.dtype == y.dtype == torch.float64 else 2e-4
    return ~torch.isclose(x.detach().double(), y.detach().double(), near, near, equal_nan=True)


def alike(some, others):
    """Are two lists of tensors the same but for rounding?"""
    return len(some) == len(others) and all(
        x.shape == y.shape and not differ(x, y).any() for x, y in zip(some, others))


def where_it_failed(error, function):
    """An error, with the line of the function in which it arose."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename == function.__code__.co_filename]
    line = f" in `{frames[-1].line}`" if frames and frames[-1].line else ""
    return f"{type(error).__name__}{line}: {str(error) or 'it has no message'}"


def misshaped(rights, found, letters):
    """What is wrong with number, shape or dtype of the results, or ""."""
    if len(rights) != len(found):
        return f"number of results: {len(found)}, expected {len(rights)}."
    for i, (x, y) in enumerate(zip(rights, found)):
        which = f"result {i + 1} " if len(rights) > 1 else "it "
        if x.shape != y.shape:
            axes = ", ".join(letters.get(size, str(size)) for size in x.shape)
            return (f"{which}has the shape {tuple(y.shape)}, expected {tuple(x.shape)}, that is "
                    f"({axes}).")
        if (x.dtype == torch.bool) != (y.dtype == torch.bool):
            return f"{which}is {y.dtype}, expected {x.dtype}."
        if x.requires_grad and x.dtype != y.dtype:
            return f"{which}is {y.dtype}, expected {x.dtype}, the dtype of the arguments."
    return ""


def known_mistake(task, found, arguments):
    """The name of a listed mistake that returns the same numbers, in a sentence, or ""."""
    for name, mistaken in task.mistakes().items():
        with contextlib.suppress(Exception):      # a mistake need not run in each case
            if all(alike(found[case], results(mistaken, arguments(case)))
                   for case in task.cases):
                return f"your numbers are those of the equation with this mistake: {name}."
    return ""


def describe(rights, found, arguments):
    """How numbers of one shape differ: by a factor; where most."""
    x, y = next((x, y) for x, y in zip(rights, found) if differ(x, y).any())
    if not x.dim():
        return f"yours is {y.item()}, expected {x.item()}."
    far, x, y = differ(x, y), x.detach().double(), y.detach().double()
    gap = torch.where(far, (x - y).abs().nan_to_num(1e300), -1.0)
    place = np.unravel_index(int(gap.argmax()), x.shape)
    at = ", ".join(map(str, place))
    if isinstance(arguments[0], Parse):                 # a matrix over the words of two parses
        at += ": {!r} x {!r}".format(*(p.words[i] for p, i in zip(arguments, place)))
    factor, message = y[place] / x[place], ""
    if factor.isfinite() and x.numel() > 1 and not differ(y, factor * x).any():
        message = f"Yours is the right result times {factor:.4g}. "
    return (f"{message}{int(far.sum())} of {x.numel()} numbers are wrong; at [{at}] yours is "
            f"{y[place]:.5g}, expected {x[place]:.5g}.")


# ---- The library's lines, and your file ---------------------------------------------------------

def source_of(part):
    """The lines of a function or class."""
    return textwrap.dedent(inspect.getsource(part)).rstrip()


def keep(name, part):
    """Writes a function or class into my_semmatch.py, in the place of an older one alone."""
    text = OWN.read_text("utf-8") if OWN.exists() else OWN_HEAD
    lines, source = text.split("\n"), source_of(part).split("\n")
    for node in ast.parse(text, OWN.name).body:
        if getattr(node, "name", "") == name:
            first = min(x.lineno for x in (*node.decorator_list, node))
            lines[first - 1:node.end_lineno] = source
            break
    else:
        lines += ["", "", *source, ""]
    OWN.write_text("\n".join(lines), "utf-8")


# ---- Training -----------------------------------------------------------------------------------

def train_on(frames, model, start=None, **given):
    """Trains a model on a toy world of these frames alone: seconds, not minutes.

    frames: dict name -> frames, as in support.toy.FRAMES. model: a name of --model, or a class of
    equations.py, which then computes with your functions. start: a Run on these frames; the new
    encoder begins with its weights, as if they were pre-trained. given: options of train.py.
    Returns: the best epoch's Run; what Run.influence says of dev, with "unseen", the accuracy with
    words that training did not have.
    """
    if MODE == "grade":
        raise SystemExit
    print(f"{model} is training ...", flush=True)
    build, own = runs.build_model, None

    def build_on_start(*arguments):
        built, new = build(*arguments)
        if start is not None:                           # what the method adds keeps random weights
            built.bert.load_state_dict(start.model.bert.state_dict(), strict=False)
        return built, new

    with (mock.patch.dict(toy.FRAMES, frames, clear=True),
          mock.patch.object(runs, "build_model", build_on_start),
          tempfile.TemporaryDirectory() as folder):
        if model.startswith("My"):
            if not MODE:
                keep(model, getattr(equations, model))
            own = f"{equations.__file__ if MODE else OWN}:{model}"
        settings, recipe = train.read_options(
            {"model": own or model, "seed": int(SEED), "device": "cpu"} | given)
        with contextlib.redirect_stdout(io.StringIO()):
            metrics = train.train_model(settings, recipe, folder)["metrics"]
            run = runs.open_run(folder, model=own, device="cpu")
        found = run.influence(load_pairs(run.settings)[1]["dev"])
        found["unseen"] = metrics["dev_unseen"]["accuracy"]
    print(f"{100 * found['score']:.1f} % of dev are right; with words that training did not have "
          f"{100 * found['unseen']:.1f} %. Chance is 50.")
    if found["changes"]:
        print(f"{summary.influence_table(found, 'dev')}\n")
    return run, found


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
