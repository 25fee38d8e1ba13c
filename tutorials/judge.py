"""What is wrong with a function that a reader wrote, in the sentence that helps first.

`judge` compares a function's results with those of the right one of tasks.py, in each case. If they
are wrong, it says what enters the first linear map or softmax that gets something wrong, too. A
demand is tried with forms of an equation instead.
"""
import contextlib
import copy
import functools
import inspect
import traceback
from collections import Counter

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from support.shown import recording
from tasks import FORMS, TASKS, Draw

BY_HAND = "the pair by hand"
TRIALS = 100            # of each form: a demand that draws numbers may be right by luck
SHOWN = 24              # a result with no more numbers than this is shown as a whole


def judge(name, function, by_hand=(), seed=0):
    """What is wrong with a function, or "". by_hand: arguments small enough to compute by hand.
    Random arguments decide; these make the message of a function that is wrong."""
    if name in FORMS:
        return judge_demand(name, function, seed)
    message = compare(name, function, (), seed)
    if message and by_hand:
        with contextlib.suppress(Exception):            # a reader may have changed them
            results(TASKS[name].right, copy.deepcopy(by_hand))
            message = compare(name, function, by_hand, seed) or message
    return message


def judge_demand(name, function, seed):
    """Which form of an equation a demand takes for a better or worse one than it is, or ""."""
    torch.manual_seed(seed)
    for what, (form, right) in FORMS[name].items():
        wrong = 0
        for _ in range(TRIALS):
            try:
                said = function(form)
                if said is None:
                    return "not written yet: it returns nothing. Write it, with `return`."
                wrong += bool(said) != right
            except (Exception, SystemExit) as error:
                return f"tried with {what}: {where_it_failed(error, function)}"
        if wrong:
            often = f", in {wrong} of {TRIALS} trials" if wrong < TRIALS else ""
            return f"it is {not right} of {what}{often}, and should be {right}."
    return ""


def compare(name, function, by_hand, seed):
    """What is wrong with a function in the cases of its task, or "", the pair by hand first."""
    task, library, rights, found = TASKS[name], TASKS[name].right, {}, {}

    def arguments(case):
        return copy.deepcopy(by_hand) if case == BY_HAND else task.draw(Draw(case, seed))

    cases = [BY_HAND, *task.cases] if by_hand else task.cases
    for case in sorted(cases, key=lambda case: case.startswith("one")):     # L = 1 says no shape
        rights[case] = results(library, arguments(case))
        try:
            found[case] = results_alone(function, arguments(case))
        except (Exception, SystemExit) as error:
            return f"tried with {case}: {where_it_failed(error, function)}"
        if found[case] is None:
            return "not written yet: it returns nothing. Write it, with `return`."
        same_dtype = "float32" in task.cases            # not of numpy arrays
        if message := misshaped(rights[case], found[case], same_dtype):
            return f"tried with {case}: {message}"
    good = [case for case in cases if alike(rights[case], found[case])]
    for case in cases:
        if case not in good:
            message, way = describe(rights[case], found[case]), ""
            with contextlib.suppress(Exception):        # of calls that Stations does not know
                way = on_the_way(library, function, lambda: arguments(case))
            right = f" It is right with {', '.join(good)}." if good else ""
            return f"tried with {case}: {message}{way}{right}"
    return ""


def results(function, arguments):
    """What a function returns for these arguments, as a list of tensors; None if nothing."""
    with torch.no_grad():
        value = function(*arguments)
    if value is None:
        return None
    values = value if isinstance(value, (tuple, list)) else [value]
    return [torch.as_tensor(x) for x in values]


def results_alone(function, arguments):
    """The results. Raises ValueError if the function changes an argument in place."""
    before = copy.deepcopy(arguments)
    found = results(function, arguments)
    for i, (x, y) in enumerate(zip(arguments, before), 1):
        if torch.is_tensor(x) and not torch.equal(x.nan_to_num(), y.nan_to_num()):
            raise ValueError(f"it changes its argument {i} in place, which others still need.")
    return found


def differ(x, y):
    """Where two tensors of one shape differ by more than rounding."""
    near = 1e-6 if x.dtype == y.dtype == torch.float64 else 2e-4
    return ~torch.isclose(x.double(), y.double(), near, near, equal_nan=True)


def alike(some, others):
    """Are two lists of tensors the same but for rounding?"""
    return len(some) == len(others) and all(
        x.shape == y.shape and not differ(x, y).any() for x, y in zip(some, others))


class Stations(TorchFunctionMode):
    """Notes what enters each softmax, and each linear map or other module among the arguments.

    calls: in the order of time, (name; what entered; what tells two such calls apart)."""

    def __init__(self, function, arguments):
        super().__init__()
        self.calls = []
        for name, argument in zip(inspect.signature(function).parameters, arguments):
            if isinstance(argument, torch.nn.Module):
                for key, module in argument.named_modules(prefix=name):
                    module.register_forward_pre_hook(functools.partial(self.note, key))

    def note(self, key, _, entered):
        """A hook of a module."""
        self.calls += [(key, x, x) for x in entered]

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, function.__name__
        if name in ("softmax", "log_softmax"):
            x = args[0].masked_fill(args[0] < -1e30, -torch.inf)
            axis = kwargs.get("dim", args[1] if args[1:] else -1)
            equal = (x == x.amax(axis, True)).all(axis, True)       # such as a row without a key
            self.calls.append(("the softmax", x, x.masked_fill(equal, 0.0).softmax(axis)))
        return function(*args, **kwargs)


def on_the_way(library, function, arguments):
    """What the reader's function gives to the first station that gets something else than in the
    library, in a sentence; which stations get the right numbers, if all do; or ""."""
    noted = []
    for f in (library, function):
        given = arguments()
        with Stations(library, given) as stations, recording():     # recording: no fused kernel
            results(f, given)
        noted.append(stations.calls)
    theirs, yours = (Counter(name for name, *_ in calls) for calls in noted)
    right, place = {}, Counter()
    for name, x, key in noted[0]:
        if theirs[name] != yours[name]:                             # such as a loop over tokens
            if name == "the softmax" and not yours[name]:
                return " The library calls a softmax, yours calls none."
            continue
        y, other = [call[1:] for call in noted[1] if call[0] == name][place[name]]
        place[name] += 1
        which = f"{name} (call {place[name]})" if theirs[name] > 1 else name
        if x.shape != y.shape:
            return (f" On the way, what enters {which} has the shape {tuple(y.shape)}, expected "
                    f"{tuple(x.shape)}, as in the library.")
        if not alike([key], [other]):
            what = "it is taken over another axis than expected."
            if not alike([x], [y]):
                rows = differ(key, other).any(-1, True) if x.dim() else True
                what = how_they_differ(x, torch.where(rows, y, x))
            return f" On the way, what enters {which}: {what}"
        right[name] = True
    return f" What enters {', '.join(right)} is right." if right else ""


def where_it_failed(error, function):
    """An error, with the line of the function in which it arose."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename == function.__code__.co_filename]
    line = f" in `{frames[-1].line}`" if frames and frames[-1].line else ""
    return f"{type(error).__name__}{line}: {str(error) or 'it has no message'}"


def misshaped(rights, found, same_dtype):
    """What is wrong with the number, the shape or, if it matters, the dtype of results, or ""."""
    if len(rights) != len(found):
        return f"number of results: {len(found)}, expected {len(rights)}."
    for i, (x, y) in enumerate(zip(rights, found), 1):
        which = f"result {i} " if len(rights) > 1 else "it "
        if x.shape != y.shape:
            return f"{which}has the shape {tuple(y.shape)}, expected {tuple(x.shape)}."
        if y.dtype == torch.bool or same_dtype and y.dtype != x.dtype:
            return f"{which}is {y.dtype}, expected {x.dtype}, as the arguments are."
    return ""


def describe(rights, found):
    """How the first of the results that differ does, and which results do not differ."""
    wrong = [bool(differ(x, y).any()) for x, y in zip(rights, found)]
    first = wrong.index(True)
    said = how_they_differ(rights[first], found[first])
    if len(wrong) == 1:
        return said
    good = [f"result {i}" for i, differs in enumerate(wrong, 1) if not differs]
    return f"result {first + 1}: {said}" + f" Right: {', '.join(good)}." * bool(good)


def how_they_differ(x, y):
    """All numbers of two tensors of one shape if they are few; else a row that differs."""
    far, x, y = differ(x, y), x.double(), y.double()
    if x.numel() <= SHOWN:
        return f"yours is {rounded(y.squeeze())}, expected {rounded(x.squeeze())}."
    gap = torch.where(far, (x - y).abs().nan_to_num(1e300), -1.0)
    place = np.unravel_index(int(gap.argmax()), x.shape)
    if x.dim() > 1 and x.shape[-1] <= SHOWN:
        place = place[:-1]
    at = ", ".join(map(str, place))
    return (f"{int(far.sum())} of {x.numel()} numbers are wrong; at [{at}] yours is "
            f"{rounded(y[place])}, expected {rounded(x[place])}.")


def rounded(x):
    """A tensor as nested lists of short numbers, as text."""
    if x.dim():
        return f"[{', '.join(map(rounded, x))}]"
    return f"{x.item():.4g}"
