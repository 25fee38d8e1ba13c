"""What the library answers: the cases of an exercise, as numbers that need no library.

    described, numbers = describe("dabert", seed)       arguments alone, for a student's process
    described, numbers = describe("dabert", 0, True)    with answers and messages for mistakes
    save(path, described, numbers)                      the cases.npz of a hand-out

The right answer is the library's; a mistake's, what the library's function returns after an edit.
Left out: running students' functions and judging them (trial.py, check.py).
"""
import base64
import contextlib
import dataclasses
import inspect
import itertools
import json
import sys
import warnings

import numpy as np
import torch
from torch import nn

import check
import trial
from draws import LETTERS, Draw
from exercises import EXERCISES, find, library
from nearest import simple_edits

OPTIONS = {             # the arguments with which a layer of PyTorch is made again
    nn.Linear: ("in_features", "out_features"), nn.Embedding: ("num_embeddings", "embedding_dim"),
    nn.LayerNorm: ("normalized_shape", "eps"), nn.Dropout: ("p",), nn.GRUCell: ("input_size",
    "hidden_size"), nn.GRU: ("input_size", "hidden_size", "batch_first"),
    nn.Conv1d: ("in_channels", "out_channels", "kernel_size")}


# ---- Values as numbers --------------------------------------------------------------------------

def stored(value, numbers):
    """The description, for trial.rebuild, of an argument; its numbers go into `numbers`.

    Raises TypeError for a kind of value that there was none of yet."""
    def all_of(named):
        return {name: stored(part, numbers) for name, part in named.items()}

    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        return {"is": "tensor", "grad": value.requires_grad, **trial.put_tensor(value, numbers)}
    if isinstance(value, np.ndarray):
        return {"is": "array", **trial.put_tensor(torch.from_numpy(value), numbers)}
    if type(value) in trial.SERIES.values():
        return {"is": type(value).__name__, "of": [stored(part, numbers) for part in value]}
    if type(value) in trial.TABLES.values():
        return {"is": type(value).__name__, "of": all_of(value)}
    if getattr(nn.functional, getattr(value, "__name__", ""), None) is value:
        return {"is": "function", "name": value.__name__}
    if type(value) in OPTIONS:
        options = {name: getattr(value, name) for name in OPTIONS[type(value)]}
        if isinstance(value, nn.Linear):
            options["bias"] = value.bias is not None
        return {"is": "torch", "name": type(value).__name__, "options": all_of(options),
                "state": all_of(value.state_dict())}
    found = {"is": "ours", "name": f"{type(value).__module__}.{type(value).__name__}"}
    if isinstance(value, nn.Module):
        own = {name: part for name, part in vars(value).items()
               if not name.startswith("_") and name != "training"}
        if dict(value.named_parameters(recurse=False)):
            raise TypeError(f"{found['name']} has weights beside its layers'")
        return {**found, "of": all_of(own | dict(value.named_children()))}
    if dataclasses.is_dataclass(value):         # not what it has computed and keeps
        return {**found, "of": all_of({field.name: getattr(value, field.name)
                                       for field in dataclasses.fields(value)})}
    if type(value).__module__ not in ("priors", "semmatch", "reread", "bert_min"):
        raise TypeError(f"no way to store a {type(value)}")
    return {**found, "of": all_of(vars(value))}


def save(path, described, numbers):
    """Writes what trial.load_cases reads."""
    text = np.frombuffer(json.dumps(described).encode(), np.uint8)
    np.savez_compressed(path, description=text, numbers=np.frombuffer(bytes(numbers), np.uint8))


# ---- Right answers, mistaken answers ------------------------------------------------------------

def right_function(task):
    return find(library(task.module), task.path)


@contextlib.contextmanager
def installed(exercise):
    """Inside, an exercise is this one and its twists are the library: what calls a function, calls
    the one that is right."""
    before, codes = EXERCISES[exercise.name], {}
    EXERCISES[exercise.name] = exercise
    try:
        for task in filter(lambda task: task.twist, exercise.tasks):
            function = right_function(task)
            codes[function] = function.__code__
            function.__code__ = compiled(task, task.source).__code__
        yield
    finally:
        EXERCISES[exercise.name] = before
        for function, code in codes.items():
            function.__code__ = code


def edited(task, edits):
    """The right function after edits of its text; None unless each text stands there once."""
    text = task.source
    for old, new in (*task.plain, *edits):
        if text.count(old) != 1:
            return None
        text = text.replace(old, new)
    return compiled(task, text)


def compiled(task, text):
    """The function that a text defines, in the library's module."""
    names = dict(vars(library(task.module)))
    exec(compile(text, f"<mistaken {task.function}>", "exec"), names)
    return names[task.path[-1]]


def names_of(task):
    return [*inspect.signature(right_function(task)).parameters]


def right_answers(task, seed=0):
    """case -> trial.Answer of the library."""
    return {case: trial.answer(right_function(task), names_of(task), draw(Draw(seed)))
            for case, draw in task.cases.items()}


def marks_of(function, task, seed, right):
    """case -> check.marks of a mistaken function, where it runs."""
    found = {}
    for case, draw in task.cases.items():
        # A mistake need not run on every case.
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = trial.answer(function, (), draw(Draw(seed)))
            found[case] = check.marks(answer, right[case].parts)
    return found


def variants(task):
    """(what is said, whether one case is enough to see it, function) of each mistake, the likeliest
    first: known ones alone, in pairs, then slips that nobody listed."""
    for count in (1, 2):
        for mistakes in itertools.combinations(task.mistakes, count):
            orders = ([edit for mistake in order for edit in mistake.edits]
                      for order in (mistakes, mistakes[::-1]))
            function = next(filter(None, (edited(task, edits) for edits in orders)), None)
            if function:
                yield " ".join(mistake.message for mistake in mistakes), count == 1, function
    for what, text in simple_edits(task.solution):
        with contextlib.suppress(Exception):     # what is no Python
            yield f"Your numbers are those of the right function with {what.rstrip(',')}.", False, \
                compiled(task, text)


def mistakes_of(task, seed=0):
    """What check.recognize takes: place -> locked message of each variant, found by its numbers in
    all cases, or in one. The first of several variants that return the same counts."""
    right = right_answers(task, seed)
    known = {case: check.marks(answer, answer.parts) for case, answer in right.items()}
    found, once = {}, {}
    for said, one_case, function in variants(task):
        cases = marks_of(function, task, seed, right)
        told = [(found, cases)]
        if one_case:
            told += [(once, {case: seen}) for case, seen in cases.items()
                     if case != "example"]                  # too small to tell mistakes apart
        for table, seen in told:
            key, place = check.key_of(seen)
            if any(known[case] != seen[case] for case in seen) and place not in table:
                message = check.locked(said.encode(), key)
                table[place] = base64.b64encode(message).decode()
    return once | found


def shows_all(exercise, seed):
    """Does each known mistake change some case? With a few seeds the numbers hide one."""
    for task in exercise.tasks:
        right = right_answers(task, seed)
        known = {case: check.marks(answer, answer.parts) for case, answer in right.items()}
        if any(known == known | marks_of(edited(task, mistake.edits), task, seed, right)
               for mistake in task.mistakes):
            return False
    return True


def calls_of(task, exercise):
    """The exercise's other functions, as "module.name", that the library's one calls."""
    others = {right_function(other).__code__: other.function for other in exercise.tasks
              if other is not task}
    given, seen, before = [draw(Draw()) for draw in task.cases.values()], set(), sys.getprofile()
    sys.setprofile(lambda frame, *event: seen.add(frame.f_code))
    try:
        for arguments in given:
            right_function(task)(*arguments)
    finally:
        sys.setprofile(before)
    return [function for code, function in others.items() if code in seen]


def describe(name, seed=0, answers=False):
    """The cases of an exercise as (description, numbers).

    answers: with the right ones and the known mistakes; False: what a student's process gets."""
    exercise, numbers, tasks = EXERCISES[name], bytearray(), []
    for task in exercise.tasks:
        described = {"function": task.function, "names": names_of(task), "cases": {}}
        right = right_answers(task, seed) if answers else {}
        for case, draw in task.cases.items():
            arguments = [stored(argument, numbers) for argument in draw(Draw(seed))]
            described["cases"][case] = {"arguments": arguments}
            if answers:
                described["cases"][case]["answer"] = trial.put_answer(right[case], numbers)
        if answers:
            described |= {"equation": f"{exercise.paper} {task.equation}",
                          "points": task.points, "calls": calls_of(task, exercise),
                          "mistakes": mistakes_of(task, seed)}
        tasks.append(described)
    return {"exercise": name, "title": exercise.title, "letters": LETTERS, "tasks": tasks}, numbers
