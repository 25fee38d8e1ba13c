"""What is wrong with a function that a reader wrote, in the sentence that helps first.

`judge` compares a function with the right one of tasks.py: its results, then their gradients, in
each case. If results are wrong, it says what enters the first linear map or softmax that gets
something wrong, too. A demand (see demands.py) is tried with forms of an equation instead.
"""
import contextlib
import copy
import functools
import inspect
import random
import traceback

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from demands import FORMS
from support.parses import Parse
from support.shown import recording
from tasks import TASKS, Draw

BY_HAND = "the pair by hand"
TRIALS = 200            # of a form, where numbers are drawn: a demand may be right by luck
SHOWN = 24              # a result with no more numbers than this is shown as a whole
NUMPY = "0 / 0, the log of 0 or an infinity does this, even where torch.where or a mask drops it."


def judge(name, function, by_hand=(), seed=0):
    """What is wrong with a function, or "". by_hand: arguments small enough to compute by hand.
    Random arguments decide; these make the message of a function that is wrong."""
    if name in FORMS:
        return judge_demand(name, function, seed)
    message = compare(name, function, (), seed)
    if message and by_hand:
        with contextlib.suppress(Exception):            # a reader may have changed them
            results(TASKS[name].right, [copy_of(x) for x in by_hand])
            message = compare(name, function, by_hand, seed) or message
    return message


def compare(name, function, by_hand, seed):
    """What is wrong with a function in the cases of its task, or "", the pair by hand first."""
    task, library, rights, found = TASKS[name], TASKS[name].right, {}, {}

    def arguments(case):
        if case == BY_HAND:
            return [copy_of(x) for x in by_hand]
        return task.draw(Draw(case, seed))

    cases = [BY_HAND, *task.cases] if by_hand else task.cases
    axes = axes_of(task, library, seed)
    for case in sorted(cases, key=lambda case: case.startswith("one")):     # L = 1 says no shape
        rights[case] = results(library, arguments(case))
        if message := what_failed(function, arguments, case, rights[case], found, axes):
            return message
    good = [case for case in cases if alike(rights[case], found[case])]
    if wrong := [case for case in cases if case not in good]:
        case = wrong[0]
        if said := known_mistake(task, found, arguments):
            return said
        right = f" It is right with {', '.join(good)}." if good else ""
        way = ""
        with contextlib.suppress(Exception):        # of calls that Stations does not know
            way = on_the_way(library, function, lambda: arguments(case))
        shown = 6 if " On the way" in way else SHOWN        # the results follow from it
        message = describe(rights[case], found[case], arguments(case), shown)
        return f"tried with {case}: {message}{way}{right}"
    for case in task.cases:
        if said := "".join(map(dtypes, rights[case], found[case])):
            return f"tried with {case}: the numbers are right.{said}"
        try:
            right, yours = (gradients(f, arguments(case)) for f in (library, function))
        except Exception as error:
            return where_it_failed(error, function)
        if not alike(right, yours):
            what, why = "wrong", "detach, item, .data, numpy and no_grad cut them off."
            if any(x.isnan().any() for x in yours):
                what, why = "nan", NUMPY
            return f"tried with {case}: the values are right, their gradients are {what}. {why}"
    return ""


def judge_demand(name, function, seed):
    """Which form of an equation a demand takes for a better or worse one than it is, or ""."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        for what, (form, right) in FORMS[name].items():
            wrong = 0
            for trial in range(1, TRIALS + 1):
                before = random_states()
                try:
                    said = function(form)
                except (Exception, SystemExit) as error:
                    return f"tried with {what}: {where_it_failed(error, function)}"
                if said is None:
                    return "not written yet: it returns nothing. Write it, with `return`."
                wrong += bool(said) != right
                if random_states() == before:       # nothing was drawn: it would say so again
                    break
            if wrong:
                often = f", in {wrong} of {trial} trials" if wrong < trial else ""
                return f"it is {not right} of {what}{often}, and should be {right}."
    return ""


def axes_of(task, library, seed):
    """The letters of the axes of each result, such as (B, L, d)."""
    draw = Draw(task.cases[1], seed)
    return [[draw.letters.get(size, str(size)) for size in x.shape]
            for x in results(library, task.draw(draw))]


def random_states():
    """The states of the generators that a demand may draw from."""
    _, keys, place, *_ = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), keys.tolist(), place


def what_failed(function, arguments, case, right, found, axes):
    """Why a function has no results of the right form for a case, or "". Puts them into `found`.
    axes: letters of the axes of each result."""
    given, before, tried = arguments(case), arguments(case), f"tried with {case}: "
    try:
        with torch.no_grad():       # with gradients torch refuses some changes in its own words
            found[case] = results(function, given)
    except (Exception, SystemExit) as error:
        return tried + where_it_failed(error, function)
    for i, (x, y) in enumerate(zip(given, before), 1):
        if torch.is_tensor(x) and not torch.equal(x.nan_to_num(), y.nan_to_num()):
            return f"{tried}it changes its argument {i} in place, which others still need."
    if found[case] is None:
        return "not written yet: it returns nothing. Write it, with `return`."
    message = misshaped(right, found[case], axes)
    return message and tried + message


def copy_of(x):
    """An argument that a function may change without harm."""
    return x.detach().clone() if torch.is_tensor(x) else copy.deepcopy(x)


def results(function, arguments):
    """What a function returns for these arguments, as a list of tensors; None if nothing."""
    value = function(*arguments)
    if value is None:
        return None
    if isinstance(value, list) and value and isinstance(value[0], list):
        raise ValueError("it returns a list of lists; expected a tensor or a numpy array.")
    values = value if isinstance(value, (tuple, list)) else [value]
    return [torch.as_tensor(x) for x in values]


def gradients(function, arguments):
    """The gradients of a weighted sum of the results, for each tensor among the arguments."""
    leaves = [weight for x in arguments if isinstance(x, torch.nn.Module)
              for weight in x.parameters()]
    leaves += [x for x in arguments if torch.is_tensor(x) and x.requires_grad]
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


# ---- On the way ---------------------------------------------------------------------------------

class Stations(TorchFunctionMode):
    """Notes what enters each softmax, and each linear map or other module among the arguments.

    seen: name -> a pair for each call: what entered; what tells two such calls apart."""

    def __init__(self, function, arguments):
        super().__init__()
        self.seen = {}
        names = [*inspect.signature(function).parameters]
        for name, argument in zip(names, arguments):
            for key, module in modules_of(name, argument):
                module.register_forward_pre_hook(functools.partial(self.note, key))

    def note(self, key, _, entered):
        """A hook of a module."""
        self.seen.setdefault(key, []).extend((x, x) for x in entered)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, function.__name__
        if name in ("softmax", "log_softmax", "cross_entropy"):
            x = args[0].masked_fill(args[0] < -1e30, -torch.inf)
            axis = kwargs.get("dim", args[1] if name != "cross_entropy" and args[1:] else -1)
            self.seen.setdefault("the softmax", []).append((x, x.softmax(axis).nan_to_num(0.0)))
        return function(*args, **kwargs)


def modules_of(name, argument):
    """(name, module) of an argument that is a module, or has modules in it."""
    own = isinstance(argument, torch.nn.Module)
    inner = argument._modules if own else getattr(argument, "__dict__", {})
    yield from ((f"{name}.{key}", x) for key, x in inner.items() if isinstance(x, torch.nn.Module))
    if own:
        yield name, argument


def on_the_way(library, function, arguments):
    """What the reader's function gives to the first station that gets something else than in the
    library, in a sentence; which stations get the right numbers, if all do; or ""."""
    noted = []
    for f in (library, function):
        given = arguments()
        with Stations(function, given) as stations, recording():    # recording: no fused kernel
            f(*given)
        noted.append(stations)
    (theirs, yours), right = noted, []
    for name, calls in theirs.seen.items():
        if name not in yours.seen and name == "the softmax":
            return " The library calls a softmax, yours calls none."
        if len(yours.seen.get(name, ())) != len(calls):             # such as a loop over tokens
            continue
        for (x, key), (y, other) in zip(calls, yours.seen[name]):
            if x.shape != y.shape:
                return (f" On the way, what enters {name} has the shape {tuple(y.shape)}, expected "
                        f"{tuple(x.shape)}, as in the library.")
            if not alike([key], [other]):
                what = "it is taken over another axis than expected."
                if not alike([x], [y]):
                    what = describe([x], [y], [None])
                return f" On the way, what enters {name}: {what}"
        right.append(name)
    return f" What enters {', '.join(right)} is right." if right else ""


# ---- Messages -----------------------------------------------------------------------------------

def where_it_failed(error, function):
    """An error, with the line of the function in which it arose."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename == function.__code__.co_filename]
    line = f" in `{frames[-1].line}`" if frames and frames[-1].line else ""
    return f"{type(error).__name__}{line}: {str(error) or 'it has no message'}"


def misshaped(rights, found, axes):
    """What is wrong with number or shape of the results, or "". axes: of each result."""
    if len(rights) != len(found):
        return f"number of results: {len(found)}, expected {len(rights)}."
    for i, (x, y) in enumerate(zip(rights, found)):
        which = f"result {i + 1} " if len(rights) > 1 else "it "
        if x.shape != y.shape:
            return (f"{which}has the shape {tuple(y.shape)}, expected ({', '.join(axes[i])}), "
                    f"here {tuple(x.shape)}.")
        if (x.dtype == torch.bool) != (y.dtype == torch.bool):
            return f"{which}is {y.dtype}, expected {x.dtype}."
    return ""


def known_mistake(task, found, arguments):
    """The name of a listed mistake that returns the same numbers, in a sentence, or ""."""
    for name, mistaken in task.mistakes().items():
        with contextlib.suppress(Exception):      # a mistake need not run in each case
            if all(alike(found[case], results(mistaken, arguments(case)))
                   for case in task.cases):
                return f"your numbers are those of the equation with this mistake: {name}."
    return ""


def describe(rights, found, arguments, shown=SHOWN):
    """How results of one shape differ, and which do not. shown: at most so many numbers at once."""
    if len(rights) == 1:
        return how_they_differ(*rights, *found, arguments, shown) + dtypes(*rights, *found)
    said, good = [], []
    for i, (x, y) in enumerate(zip(rights, found), 1):
        if not differ(x, y).any():
            good.append(f"result {i}")
        elif x.numel() <= shown or not said:
            said.append(f"result {i}: {how_they_differ(x, y, arguments, shown)}{dtypes(x, y)}")
    if good:
        said.append(f"Right: {', '.join(good)}.")
    return " ".join(said)


def how_they_differ(x, y, arguments, shown):
    """All numbers of two tensors of one shape if they are few; a factor; a row that differs."""
    far, x, y = differ(x, y), x.detach().double().squeeze(), y.detach().double().squeeze()
    if x.numel() <= shown:
        return f"yours is {rounded(y)}, expected {rounded(x)}.{relation(x, y)}"
    x, y = (z.view(far.shape) for z in (x, y))
    gap = torch.where(far, (x - y).abs().nan_to_num(1e300), -1.0)
    place = np.unravel_index(int(gap.argmax()), x.shape)
    at = ", ".join(map(str, place))
    if isinstance(arguments[0], (Parse, list)):         # a matrix over the words of two sentences
        at += ": " + " x ".join(map(word_of, arguments, place))
    elif x.dim() > 1 and x.shape[-1] <= SHOWN:
        at, place = ", ".join(map(str, place[:-1])), place[:-1]
    return (f"{int(far.sum())} of {x.numel()} numbers are wrong; at [{at}] yours is "
            f"{rounded(y[place])}, expected {rounded(x[place])}.{relation(x, y)}")


def dtypes(x, y):
    """Has y another dtype than x, which should be that of the arguments? In a sentence, or ""."""
    if not x.requires_grad or x.dtype == y.dtype:
        return ""
    return f" Yours is {y.dtype}, expected {x.dtype}, the dtype of the arguments."


def word_of(sentence, i):
    """Word i of a list of words, or of a parse, with its relation."""
    if isinstance(sentence, list):
        return repr(sentence[i])
    return f"{sentence.words[i]!r} ({sentence.types[i + 1]})"


def rounded(x):
    """A tensor as nested lists of short numbers, as text."""
    if x.dim():
        return f"[{', '.join(map(rounded, x))}]"
    return f"{x.item():.4g}"


def relation(x, y):
    """Are the wrong numbers y the right ones times a factor, plus a number, or transposed?"""
    place = int(x.abs().nan_to_num(0.0, 0.0, 0.0).argmax())
    factor, more = y.flatten()[place] / x.flatten()[place], (y - x).flatten()[place]
    if x.numel() > 1 and factor.isfinite() and not differ(y, factor * x).any():
        return f" Yours are the right numbers times {factor:.4g}."
    if x.numel() > 1 and more.isfinite() and not differ(y, x + more).any():
        return f" Yours are the right numbers plus {more:.4g}."
    if x.dim() > 1 and x.shape[-1] == x.shape[-2] and not differ(y, x.mT).any():
        return " Yours are the right numbers transposed."
    return ""
