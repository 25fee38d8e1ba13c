"""Checks a student's copy, equation by equation.

    python tutorials/check_exercise.py FOLDER [FOLDER ...]

FOLDER is one that make_exercise.py made; of its modules only those with functions to write are
read. Each of these functions is tried by itself: what it calls is the library's, so that one
mistake costs one score. A case is one point if the student's function returns what the library's
returns; one more point is for its gradients. Where a case fails, the library's function is made
mistaken in the classic ways; if the student's numbers are those of a mistake, its name and advice
are printed, else the first difference. Several folders run in a process each, with one line each.

Exit status: 0 if all points were won, 1 if not, 2 for a folder that is none. Students' code runs
with your rights.
"""
import argparse
import contextlib
import ctypes
import inspect
import itertools
import subprocess
import sys
import textwrap
import threading
import traceback
import types
from pathlib import Path

import numpy as np
import torch

from exercises import BLANK, EXERCISES, LETTERS, PAGE, TITLE, Draw, find, library

SECONDS = 20            # a function that has not answered by then hangs; the library's takes none
TOLERANCE = 1e-6        # of float64 numbers, absolute and relative
GRADIENTS = "gradients"
CUT = ("The values are right. A gradient of 0: detach(), item(), .data, numpy or no_grad() cuts "
       "the graph; nan: an infinity was computed on the way.")


class Problem(Exception):
    """What is wrong with a student's file or function, in words for the student."""


class Hangs(Problem):
    """A function did not answer."""


# ---- Running a function -------------------------------------------------------------------------

def within_limit(call, path):
    """call() in a thread of its own. Whatever it raises, sys.exit included, becomes a Problem, and
    silence Hangs. path: the student's file."""
    answer = {}

    def run():
        try:
            answer["value"] = call()
        except BaseException as error:
            answer["problem"] = Problem(explain_error(error, path))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident),
                                                   ctypes.py_object(SystemExit))
        raise Hangs(f"no answer after {SECONDS} seconds: a loop without an end?")
    if "problem" in answer:
        raise answer["problem"]
    return answer["value"]


def explain_error(error, path):
    """An exception in the student's words: the last line of their file that it came through, and
    what it says."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if isinstance(error, NotImplementedError) and BLANK in said:
        return BLANK
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path.name}, line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if frame.filename == str(path)]
    if lines:
        return f"{path.name}, line {lines[-1].lineno}: {lines[-1].line} -> {said}"
    if isinstance(error, TypeError):
        return f"cannot be called as its signature was: {said}"
    return said


def flatten(value, name="the result"):
    """{name: tensor, or whatever is none} of everything in a returned value."""
    if isinstance(value, (tuple, list)):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        found = {}
        for key, part in value.items():
            found |= flatten(part, f"{name}[{key!r}]")
        return found
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = torch.from_numpy(np.ascontiguousarray(value))
    return {name: torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else value}


def leaves(arguments, names):
    """{name: tensor with a gradient} of arguments: tensors, lists of them, modules' parameters."""
    found = {}
    for name, argument in zip(names, arguments):
        if isinstance(argument, torch.nn.Module):
            found |= {f"{name}.{key}": value for key, value in argument.named_parameters()}
        elif isinstance(argument, (tuple, list)):
            found |= leaves(argument, [f"{name}[{i}]" for i in range(len(argument))])
        elif isinstance(argument, torch.Tensor) and argument.requires_grad:
            found[name] = argument
    return found


def right_function(task):
    return find(library(task.module), task.path)


def call_case(function, task, case, owner=None):
    """The arguments of a case, and what a function returns.

    owner: the class whose method it is, in the student's module."""
    arguments = task.cases[case](Draw())
    if owner is not None:
        arguments[0].__class__ = owner
    return arguments, function(*arguments)


def all_parts(arguments, value):
    """{name: tensor} of what was returned, and of the trace, where one was passed."""
    trace = flatten(arguments[-1], "trace") if isinstance(arguments[-1], dict) else {}
    return flatten(value) | trace


def gradients_of(task, arguments, value):
    """{name: tensor} of the gradients, with respect to the arguments, of a sum of what was returned
    with drawn weights."""
    inputs = leaves(arguments, inspect.signature(right_function(task)).parameters)
    got, total = [None] * len(inputs), 0
    for seed, part in enumerate(flatten(value).values()):
        if inputs and isinstance(part, torch.Tensor) and part.requires_grad:
            part = part.masked_fill(~part.isfinite(), 0.0)
            total = total + (part * Draw(seed).normal(*part.shape).detach()).sum()
    if isinstance(total, torch.Tensor):
        got = torch.autograd.grad(total, [*inputs.values()], allow_unused=True)
    return {f"the gradient of {name}": torch.zeros_like(leaf) if grad is None else grad
            for (name, leaf), grad in zip(inputs.items(), got)}


def run_case(function, task, case, owner=None):
    """What a function returns; {name: tensor} of that and of its trace; the same of gradients."""
    arguments, value = call_case(function, task, case, owner)
    return value, all_parts(arguments, value), gradients_of(task, arguments, value)


# ---- Comparing ----------------------------------------------------------------------------------

def kind(value):
    """What a value is, in words: "3 values", "a tensor", "None"."""
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values ({', '.join(map(kind, value))})"
    names = {torch.Tensor: "a tensor", np.ndarray: "a numpy array", type(None): "None",
             float: "a float", dict: "a dict"}
    found = [name for known, name in names.items() if isinstance(value, known)]
    return found[0] if found else f"a {type(value).__name__}"


def shape_text(size):
    letters = [LETTERS.get(n) for n in size]
    return f"{tuple(size)}" + (f" = ({', '.join(letters)})" if letters and all(letters) else "")


def difference(expected, got):
    """The first difference of two dicts of named tensors as a line, or None."""
    for name, right in expected.items():
        if name not in got:
            verb = "record" if name.startswith("trace") else "return"
            return f"{name} is missing: {verb} it"
        mine = got[name]
        if kind(mine) != kind(right):
            return f"{name} is {kind(mine)}, expected {kind(right)}"
        if not isinstance(right, torch.Tensor):
            if mine != right:
                return f"{name} is {mine!r}, expected {right!r}"
            continue
        if mine.shape != right.shape:
            turned = " (axes exchanged?)" if sorted(mine.shape) == sorted(right.shape) else ""
            return (f"{name} has the shape {shape_text(mine.shape)}, expected "
                    f"{shape_text(right.shape)}{turned}")
        if mine.dtype != right.dtype:
            wide = right.dtype == torch.float64
            hint = ": make new tensors in the arguments' dtype" if wide else ""
            return f"{name} is {mine.dtype}, expected {right.dtype}{hint}"
        wrong = ~torch.isclose(mine.double(), right.double(), TOLERANCE, TOLERANCE, equal_nan=True)
        if wrong.any():
            place = wrong.nonzero()[0].tolist()
            pair = [x[tuple(place)].item() for x in (right, mine)]
            where = f" at {place}" if place else ""
            return (f"{name}{where}: expected {pair[0]:.6g}, got {pair[1]:.6g}; "
                    f"{int(wrong.sum())} of {wrong.numel()} numbers differ")
    return None


def judge(expected, got):
    """Raises Problem unless the student's function returns what the library's does."""
    if kind(expected[0]) != kind(got[0]):
        missing = " (is `return` missing?)" if got[0] is None else ""
        raise Problem(f"returns {kind(got[0])}{missing}, expected {kind(expected[0])}")
    if found := difference(expected[1], got[1]):
        raise Problem(found)


# ---- Classic mistakes ---------------------------------------------------------------------------

def edited(task, edits):
    """The library's function after edits of its text; None unless each text stands there once."""
    text = textwrap.dedent(inspect.getsource(right_function(task)))
    for old, new in (*task.plain, *edits):
        if text.count(old) != 1:
            return None
        text = text.replace(old, new)
    names = dict(vars(library(task.module)))
    exec(compile(text, f"<mistaken {task.function}>", "exec"), names)
    return names[task.path[-1]]


def same(function, task, case, got):
    """Does the mistaken function return what the student's returned?"""
    try:
        arguments, value = call_case(function, task, case)
    except Exception:       # a mistake need not run on every case
        return False
    found = all_parts(arguments, value)
    return kind(value) == kind(got[0]) and difference(found, got[1]) is None


def recognize(task, runs, failed):
    """The mistakes that explain what the student's function returned: one in all cases, else two,
    else one in the first case that failed. runs: case -> run of the student's function, where it
    ran; failed: the cases where it returned something else than the library."""
    alone = [(mistake,) for mistake in task.mistakes]
    pairs = itertools.combinations(task.mistakes, 2)
    for cases, candidates in ((list(runs), alone), (list(runs), pairs), (failed[:1], alone)):
        for mistakes in candidates:
            orders = ([edit for mistake in order for edit in mistake.edits]
                      for order in (mistakes, mistakes[::-1]))
            function = next(filter(None, (edited(task, edits) for edits in orders)), None)
            if function and all(same(function, task, case, runs[case]) for case in cases):
                return mistakes
    return ()


# ---- A student's copy ---------------------------------------------------------------------------

def load(folder, name):
    """The student's module; what it imports is the library. Raises Problem."""
    path = folder / f"{name}.py"
    if not path.is_file():
        raise Problem(f"{path.name} is missing")
    module = types.ModuleType(f"student_{name}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module                 # where dataclasses look their module up
    within_limit(lambda: exec(compile(path.read_bytes(), str(path), "exec"), vars(module)), path)
    return module


def owner_of(module, task):
    """The module, or the class in it, whose function the task is. Raises Problem."""
    try:
        owner = find(module, task.path[:-1])
        vars(owner)[task.path[-1]]
    except (AttributeError, KeyError):
        name = ".".join(task.path)
        raise Problem(f"{task.module}.py has no {name}: its name must stay") from None
    return owner


@contextlib.contextmanager
def alone(module, task, tasks):
    """Gives the student's function, its class or None; meanwhile the others of the exercise are the
    library's."""
    owner, kept = owner_of(module, task), []
    for other in tasks:
        if other.module == task.module and other is not task:
            with contextlib.suppress(Problem):
                place, name = owner_of(module, other), other.path[-1]
                kept.append((place, name, vars(place)[name]))
                setattr(place, name, right_function(other))
    try:
        yield vars(owner)[task.path[-1]], owner if len(task.path) > 1 else None
    finally:
        for place in kept:
            setattr(*place)


def check_task(task, module, tasks):
    """({point: won}, [(point, message)]) of one function. module: the student's; None if it could
    not be loaded."""
    right = {case: run_case(right_function(task), task, case) for case in task.cases}
    points = dict.fromkeys(task.cases, False)
    if any(gradients for _, _, gradients in right.values()):
        points[GRADIENTS] = False
    if module is None:
        return points, []
    runs, wrong, broken = {}, {}, {}
    try:
        with alone(module, task, tasks) as (function, owner):
            for case in task.cases:
                try:
                    runs[case] = within_limit(lambda: run_case(function, task, case, owner),
                                              Path(module.__file__))
                    judge(right[case], runs[case])
                    points[case] = True
                except Hangs:
                    raise
                except Problem as problem:
                    (wrong if case in runs else broken).setdefault(case, str(problem))
    except Problem as problem:
        broken["call"] = str(problem)
    if all(points[case] for case in task.cases) and GRADIENTS in points:
        found = [difference(right[case][2], runs[case][2]) for case in runs]
        points[GRADIENTS] = not any(found)
        if any(found):
            broken[GRADIENTS] = f"{next(filter(None, found))}. {CUT}"
    mistakes = recognize(task, runs, [*wrong]) if wrong else ()
    if mistakes:
        said = " ".join(f"Classic mistake: {m.name}. {m.advice}" for m in mistakes)
        wrong = {", ".join(wrong): said}
    return points, [*(wrong | broken).items()]


def check_folder(folder, exercise):
    """Prints the table of a student's folder. Returns (points won, points there are)."""
    modules, tasks = {}, exercise.tasks
    for name in dict.fromkeys(task.module for task in tasks):
        try:
            modules[name] = load(folder, name)
        except Problem as problem:
            print(f"{problem}\n")
    print(f"{exercise.title}\n")
    won = total = 0
    for task in tasks:
        points, messages = check_task(task, modules.get(task.module), tasks)
        won, total = won + sum(points.values()), total + len(points)
        equation, name = f"{exercise.paper} {task.equation}", ".".join(task.path)
        print(f"{equation:26}{name:36}{sum(points.values())}/{len(points)}")
        said = {}
        for point, message in messages:
            said.setdefault(message, []).append(point)
        for message, where in said.items():
            text = message if message == BLANK else f"{', '.join(where)}: {message}"
            print(textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="      "))
    return won, total


def exercise_of(folder):
    """Name of the exercise in a folder, by the first line of its EXERCISE.md. Raises ValueError."""
    page = folder / PAGE
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; give one that make_exercise.py made")
    if not page.is_file():
        raise ValueError(f"{folder}: no {PAGE} in it; give a folder that make_exercise.py made")
    title = page.read_text("utf-8", "replace").partition("\n")[0]
    name = title.removeprefix(TITLE).partition(":")[0]
    if name not in EXERCISES:
        raise ValueError(f"{page}: its first line must be '{TITLE}NAME: ...', NAME one of "
                         f"{', '.join(EXERCISES)}")
    return name


def main(argv=None):
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser("check_exercise.py",
                                     description="Checks folders of make_exercise.py.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    folders = parser.parse_args(argv).folders
    try:
        names = [exercise_of(folder) for folder in folders]
    except (ValueError, OSError) as problem:
        print(f"check_exercise.py: {problem}", file=sys.stderr)
        return 2
    if len(folders) == 1:
        won, total = check_folder(folders[0], EXERCISES[names[0]])
        print(f"\n{folders[0]}: {names[0]}, {won} of {total} points")
        return int(won < total)
    status = 0
    for folder in folders:              # a process each: no student's code touches another's
        run = subprocess.run([sys.executable, __file__, folder], capture_output=True, text=True)
        said = (run.stdout.splitlines() or [""])[-1]
        ended = run.returncode in (0, 1) and said.startswith(f"{folder}: ")
        if not ended:
            said = f"{folder}: the check itself ended with status {run.returncode}"
        print(said, flush=True)
        status |= run.returncode != 0 or not ended
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
