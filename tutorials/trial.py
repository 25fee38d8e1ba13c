"""Tries a function on stored arguments: what it returns, records and passes back as gradients.

    described, numbers = load_cases(path)       the cases of an exercise
    attempt(task, numbers)                      case -> Answer of the student's function

Numbers stand in one row of bytes, as float64 or int64; JSON says where each tensor starts. Nothing
is unpickled. Left out: what the right answer is (check.py).
"""
import ast
import ctypes
import importlib
import json
import math
import re
import struct
import sys
import threading
import traceback
import types
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
SECONDS = 20            # a function that has not answered by then hangs; the right one takes none
BLANK = "not written yet"
DEF, REPLACED = re.compile(r"(\s*)def\s+(\w+)"), "  # no Python"
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool)}
SERIES = {made.__name__: made for made in (list, tuple, frozenset, nn.ModuleList)}
TABLES = {made.__name__: made for made in (dict, Counter)}


class Problem(Exception):
    """What is wrong with a file or a function, in words for the student."""


class Answer(NamedTuple):
    """What a function returned: in words, {name: tensor or another value} of that and of its trace,
    and {name: tensor} of gradients."""
    kind: str
    parts: dict
    gradients: dict


# ---- Stored values ------------------------------------------------------------------------------

def get_tensor(entry, numbers):
    """The tensor that put_tensor described."""
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"no shape: {shape}")
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    stored = "<f8" if dtype.is_floating_point else "<i8"
    values = np.frombuffer(numbers, stored, math.prod(shape), entry["at"])
    return torch.from_numpy(values.reshape(shape).copy()).to(dtype)


def put_tensor(tensor, numbers):
    """Appends a tensor's numbers to a bytearray and returns its description."""
    tensor = tensor.detach().cpu()
    place = {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": [*tensor.shape],
             "at": len(numbers)}
    if place["dtype"] not in DTYPES:
        raise Problem(f"a tensor of {tensor.dtype}, expected float64")
    wide = torch.float64 if tensor.dtype.is_floating_point else torch.int64
    numbers += tensor.to(wide).contiguous().numpy().tobytes()
    return place


def rebuild(entry, numbers):
    """An argument out of its description. Classes of ours are those of the student's modules."""
    def all_of(entries):
        return {name: rebuild(value, numbers) for name, value in entries.items()}

    if not isinstance(entry, dict):
        return entry
    kind = entry["is"]
    if kind == "tensor":
        return get_tensor(entry, numbers).requires_grad_(entry["grad"])
    if kind == "array":
        return get_tensor(entry, numbers).numpy()
    if kind in SERIES:
        return SERIES[kind](rebuild(value, numbers) for value in entry["of"])
    if kind in TABLES:
        return TABLES[kind](all_of(entry["of"]))
    if kind == "function":
        return getattr(nn.functional, entry["name"])
    if kind == "torch":
        module = getattr(nn, entry["name"])(**all_of(entry["options"])).double()
        module.load_state_dict(all_of(entry["state"]))
        return module.eval()
    module, _, name = entry["name"].rpartition(".")
    made = object.__new__(getattr(importlib.import_module(module), name))
    if not isinstance(made, nn.Module):
        vars(made).update(all_of(entry["of"]))
        return made
    nn.Module.__init__(made)
    for name, value in all_of(entry["of"]).items():
        setattr(made, name, value)
    return made.eval()


def load_cases(path):
    """The description and the numbers that a file of cases has."""
    with np.load(path, allow_pickle=False) as file:
        return json.loads(file["description"].tobytes()), file["numbers"].tobytes()


def put_all(values, numbers):
    """Values as JSON: tensors as their descriptions, numbers and words as they are."""
    return [put_tensor(x, numbers) if isinstance(x, torch.Tensor) else x for x in values]


def get_all(entries, numbers):
    """The values that put_all described."""
    return [get_tensor(x, numbers) if isinstance(x, dict) else x for x in entries]


def packed(entries, numbers=b""):
    """A message of one process to another: two lengths, JSON, numbers."""
    text = json.dumps(entries).encode()
    return struct.pack(">QQ", len(text), len(numbers)) + text + numbers


def put_answer(answer, numbers):
    """An Answer's description. Of what is neither tensor nor number only the kind is kept."""
    def put(part):
        if isinstance(part, torch.Tensor):
            return put_tensor(part, numbers)
        return part if part is None or isinstance(part, (int, str)) else kind(part)

    parts, gradients = ({name: put(part) for name, part in found.items()} for found in answer[1:])
    return {"kind": answer.kind, "parts": parts, "gradients": gradients}


def get_answer(entry, numbers):
    """The Answer that put_answer described."""
    parts, gradients = (dict(zip(entry[which], get_all(entry[which].values(), numbers)))
                        for which in ("parts", "gradients"))
    return Answer(entry["kind"], parts, gradients)


# ---- Running a function -------------------------------------------------------------------------

def in_words(call, path):
    """call(). What it raises, sys.exit included, becomes a Problem. path: the student's file."""
    try:
        return call()
    except BaseException as error:
        raise Problem(explain_error(error, path)) from None


def within_limit(call, path):
    """in_words(call, path) in a thread of its own; silence becomes a Problem too."""
    found = {}

    def run():
        try:
            found["value"] = in_words(call, path)
        except Problem as problem:
            found["problem"] = problem

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident),
                                                   ctypes.py_object(SystemExit))
        raise Problem(f"no answer after {SECONDS} seconds: a loop without an end?")
    if "problem" in found:
        raise found["problem"]
    return found["value"]


def explain_error(error, path):
    """An exception in the student's words: the line of their function that it came through, and
    what it says."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if isinstance(error, NotImplementedError) and said.endswith(BLANK):
        return said.removeprefix("NotImplementedError: ")
    if isinstance(error, Problem):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path.name}, line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if frame.filename == str(path)]
    if lines:           # the first is the student's own, what it calls may be the library's
        deeper = f" (in line {lines[-1].lineno})" if lines[-1] is not lines[0] else ""
        return f"{path.name}, line {lines[0].lineno}: {lines[0].line}{deeper} -> {said}"
    if isinstance(error, TypeError):
        return f"cannot be called as its signature was: {said}"
    return said


def without_syntax_errors(text, path):
    """A module's text with each function that is no Python replaced by one that says so.

    Raises SyntaxError where an error stands in no function."""
    lines = text.splitlines()
    while True:
        try:
            ast.parse("\n".join(lines), str(path))
            return "\n".join(lines)
        except SyntaxError as error:
            at = min(error.lineno or 1, len(lines)) - 1
            first = next((i for i in range(at, -1, -1) if DEF.match(lines[i])), None)
            if first is None or lines[first].endswith(REPLACED):
                raise
            indent, name = DEF.match(lines[first]).groups()
            inside = re.compile(rf"{indent}\s|\s*$|{indent}\)")
            last = next((i for i in range(first + 1, len(lines)) if not inside.match(lines[i])),
                        len(lines))
            said = explain_error(error, path)
            lines[first:last] = [f"{indent}def {name}(*given, **more): "
                                 f"raise __import__('trial').Problem({said!r}){REPLACED}"]


def module_of(name):
    """A student's module, imported, but for functions that are no Python. Raises Problem."""
    if not (HERE / f"{name}.py").is_file():
        raise Problem(f"{name}.py is missing")
    while True:
        try:
            return importlib.import_module(name)
        except SyntaxError as error:
            path = Path(error.filename or "")
            if path.parent != HERE or path.stem in sys.modules:
                raise
            text = without_syntax_errors(path.read_text("utf-8-sig"), path)
            module = types.ModuleType(path.stem)
            exec(compile(text, str(path), "exec"), vars(module))
            sys.modules[path.stem] = module


def student_function(name):
    """The function that a name such as "semmatch.DafaAttention.fuse" says. Raises Problem."""
    module, *path = name.split(".")
    found = module_of(module)
    try:
        for part in path:
            found = vars(found)[part]
    except (KeyError, TypeError):
        raise Problem(f"{module}.py has no {'.'.join(path)}: its name must stay") from None
    return found


def kind(value):
    """What a value is, in words: "3 values", "a tensor", "None"."""
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values ({', '.join(map(kind, value))})"
    names = {torch.Tensor: "a tensor", np.ndarray: "a numpy array", type(None): "None",
             float: "a float", dict: "a dict"}
    found = [name for known, name in names.items() if isinstance(value, known)]
    return found[0] if found else f"a {type(value).__name__}"


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
    if isinstance(value, float):
        value = torch.tensor(value, dtype=torch.float64)
    return {name: value}


def leaves(arguments, names):
    """{name: tensor with a gradient} of arguments: tensors, lists of them, modules' parameters."""
    found = {}
    for name, argument in zip(names, arguments):
        if isinstance(argument, nn.Module):
            found |= {f"{name}.{key}": value for key, value in argument.named_parameters()}
        elif isinstance(argument, (tuple, list)):
            found |= leaves(argument, [f"{name}[{i}]" for i in range(len(argument))])
        elif isinstance(argument, torch.Tensor) and argument.requires_grad:
            found[name] = argument
    return found


def weigh(x, wave=torch.cos):
    """Σ x_i cos(i): one number that hardly anything else shares."""
    return (x * wave(torch.arange(x.numel(), dtype=torch.float64)).reshape(x.shape)).sum()


def gradients_of(value, inputs):
    """{name: tensor} of the gradients of a weighted sum of what was returned."""
    got = [None] * len(inputs)
    parts = [part.masked_fill(~part.isfinite(), 0.0) for part in flatten(value).values()
             if isinstance(part, torch.Tensor) and part.requires_grad]
    if inputs and parts:
        got = torch.autograd.grad(sum(map(weigh, parts)), [*inputs.values()], allow_unused=True)
    return {f"the gradient of {name}": torch.zeros_like(leaf) if grad is None else grad
            for (name, leaf), grad in zip(inputs.items(), got)}


def answer(function, names, arguments):
    """What a function returns for arguments that have these names. Problem: it changed one."""
    before = [x.detach().clone() if isinstance(x, torch.Tensor) else None for x in arguments]
    value = function(*arguments)
    for name, x, old in zip(names, arguments, before):
        if old is not None and not torch.equal(x, old):
            raise Problem(f"changes its argument `{name}`, which the caller still needs")
    trace = flatten(arguments[-1], "trace") if isinstance(arguments[-1], dict) else {}
    gradients = gradients_of(value, leaves(arguments, names))
    return Answer(kind(value), flatten(value) | trace, gradients)


def attempt(task, numbers, run=within_limit, keep=lambda answer: answer, only=None):
    """case -> keep(Answer) of the student's function, or what prevented one. run: within_limit, or
    in_words where others watch the time. only: a case."""
    path, got = HERE / task.get("file", f"{task['function'].partition('.')[0]}.py"), {}
    cases = [only] if only else task["cases"]
    try:
        function = run(lambda: student_function(task["function"]), path)
    except Problem as problem:
        return dict.fromkeys(cases, str(problem))
    for case in cases:
        def call():
            described = task["cases"][case]["arguments"]
            arguments = [rebuild(argument, numbers) for argument in described]
            return keep(answer(function, task["names"], arguments))
        try:
            got[case] = run(call, path)
        except Problem as problem:
            got[case] = str(problem)
    return got
