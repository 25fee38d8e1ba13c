"""What is wrong with a function that a reader wrote, in the sentence that helps first.

`judge` compares a function with that of answers.py: its results, then their gradients, in each
case of tasks.py. A demand (see demands.py) is tried with forms of an equation instead. `failed`
keeps the arguments and both results of the first case that is wrong.
"""
import contextlib
import copy
import random
import traceback
from types import SimpleNamespace

import numpy as np
import torch

import answers
from demands import FORMS
from support.parses import Parse
from tasks import TASKS, Draw

BY_HAND = "the pair by hand"
TRIALS = 200            # of a form, where numbers are drawn: a demand may be right by luck
SHOWN = 24              # a result with no more numbers than this is shown as a whole
NUMPY = "0 / 0, the log of 0 or an infinity does this, even if torch.where or a mask drops it later."
failed = SimpleNamespace(arguments=None, yours=None, expected=None)


def judge(name, function, by_hand=(), seed=0):
    """What is wrong with a function, or "". by_hand: arguments small enough to compute by hand.
    Random arguments decide; these make the message of a function that is wrong."""
    if name in FORMS:
        return judge_demand(name, function, seed)
    message = compare(name, function, (), seed)
    if message and by_hand:
        with contextlib.suppress(Exception):            # a reader may have changed them
            results(getattr(answers, name), [copy_of(x) for x in by_hand])
            message = compare(name, function, by_hand, seed) or message
    return message


def compare(name, function, by_hand, seed):
    """What is wrong with a function in the cases of its task, or "", the pair by hand first."""
    task, library, rights, found = TASKS[name], getattr(answers, name), {}, {}

    def arguments(case):
        drawn = by_hand if case == BY_HAND else task.draw(Draw(case, seed))
        return [copy_of(x) for x in drawn] if case == BY_HAND else drawn

    cases = [BY_HAND, *task.cases] if by_hand else task.cases
    for case in sorted(cases, key=lambda case: case.startswith("one")):     # L = 1 says no shape
        rights[case] = results(library, arguments(case))
        axes = None if case in task.cases else axes_of(task, library, seed)
        if message := what_failed(function, arguments, case, rights[case], found, axes):
            remember(arguments(case), found.get(case), rights[case])
            return f"tried with {case}: {message}" if case in found else message
    good = [case for case in cases if alike(rights[case], found[case])]
    if wrong := [case for case in cases if case not in good]:
        case = wrong[0]
        remember(arguments(case), found[case], rights[case])
        message = describe(rights[case], found[case], arguments(case))
        right = f" It is right with {', '.join(good)}." if good else ""
        return known_mistake(task, found, arguments) or f"tried with {case}: {message}{right}"
    for case in task.cases:
        right, yours = (gradients(f, arguments(case)) for f in (library, function))
        if not alike(right, yours):
            remember(arguments(case), yours, right)
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
                failed.arguments, failed.yours, failed.expected = [form], not right, right
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
    axes: letters of the axes of each result; None: those of the case."""
    if place := changed_in_place(function, arguments(case)):
        found[case] = None
        return f"it changes its argument {place} in place, which others still need."
    try:
        found[case] = results(function, arguments(case))
    except Tensors as error:
        return str(error)
    except (Exception, SystemExit) as error:
        found[case] = None
        return where_it_failed(error, function)
    if found[case] is None:
        del found[case]
        return "not written yet: it returns nothing. Write it, with `return`."
    if axes is None:
        letters = Draw(case).letters
        axes = [[letters.get(size, str(size)) for size in x.shape] for x in right]
    return misshaped(right, found[case], axes)


def remember(arguments, yours, expected):
    """Leaves a case where the reader can take it up: one result alone, several as a list."""
    failed.arguments = arguments
    failed.yours, failed.expected = (
        x[0] if isinstance(x, list) and len(x) == 1 else x for x in (yours, expected))


class Tensors(Exception):
    """A function that should return numbers returns tensors."""


def copy_of(x):
    """An argument that a function may change without harm."""
    return x.detach().clone() if torch.is_tensor(x) else copy.deepcopy(x)


def changed_in_place(function, arguments):
    """The number of the first tensor among the arguments that a function changes, counted from 1.

    It is called without gradients: with them torch refuses some of these changes in its own words.
    """
    before = [copy_of(x) if torch.is_tensor(x) else None for x in arguments]
    with torch.no_grad(), contextlib.suppress(Exception, SystemExit):
        function(*arguments)
    for i, (x, old) in enumerate(zip(arguments, before)):
        if torch.is_tensor(x) and not torch.equal(x.nan_to_num(), old.nan_to_num()):
            return i + 1
    return 0


def results(function, arguments):
    """What a function returns for these arguments, as a list of tensors; None if nothing. If an
    optimizer is among the arguments, the weights that it has changed are results, too."""
    value = function(*arguments)
    if value is None:
        return None
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if any(isinstance(x, torch.optim.Optimizer) for x in arguments):
        if any(map(torch.is_tensor, values)):
            raise Tensors("it returns tensors, each with the whole graph of its batch; expected "
                          "numbers, `loss.item()`.")
        values = [torch.tensor(values), *arguments[0].parameters()]
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


# ---- Messages -----------------------------------------------------------------------------------

def where_it_failed(error, function):
    """An error, with the line of the function in which it arose."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename == function.__code__.co_filename]
    line = f" in `{frames[-1].line}`" if frames and frames[-1].line else ""
    return f"{type(error).__name__}{line}: {str(error) or 'it has no message'}"


def misshaped(rights, found, axes):
    """What is wrong with number, shape or dtype of the results, or "". axes: of each result."""
    if len(rights) != len(found):
        return f"number of results: {len(found)}, expected {len(rights)}."
    for i, (x, y) in enumerate(zip(rights, found)):
        which = f"result {i + 1} " if len(rights) > 1 else "it "
        if x.shape != y.shape:
            return (f"{which}has the shape {tuple(y.shape)}, expected ({', '.join(axes[i])}), "
                    f"here {tuple(x.shape)}.")
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
    """How numbers of one shape differ: all of them if they are few; a factor; where most."""
    number, (x, y) = next((i, pair) for i, pair in enumerate(zip(rights, found), 1)
                          if differ(*pair).any())
    far, x, y = differ(x, y), x.detach().double().squeeze(), y.detach().double().squeeze()
    which = f"result {number}: " if len(rights) > 1 else ""
    if x.numel() <= SHOWN:
        return f"{which}yours is {rounded(y)}, expected {rounded(x)}.{relation(x, y)}"
    x, y = (z.view(far.shape) for z in (x, y))
    gap = torch.where(far, (x - y).abs().nan_to_num(1e300), -1.0)
    place = np.unravel_index(int(gap.argmax()), x.shape)
    at = ", ".join(map(str, place))
    if isinstance(arguments[0], Parse):                 # a matrix over the words of two parses
        at += ": {!r} x {!r}".format(*(p.words[i] for p, i in zip(arguments, place)))
    return (f"{which}{int(far.sum())} of {x.numel()} numbers are wrong; at [{at}] yours is "
            f"{y[place]:.5g}, expected {x[place]:.5g}.{relation(x, y)}")


def rounded(x):
    """A tensor as nested lists of short numbers, as text."""
    if x.dim():
        return f"[{', '.join(map(rounded, x))}]"
    return f"{x.item():.4g}"


def relation(x, y):
    """Are the wrong numbers y the right ones times a factor, plus a number, or transposed?"""
    with np.errstate(all="ignore"):
        place = int(x.abs().nan_to_num().argmax())
    factor, more = y.flatten()[place] / x.flatten()[place], (y - x).flatten()[place]
    if x.numel() > 1 and factor.isfinite() and not differ(y, factor * x).any():
        return f" Yours is the right result times {factor:.4g}."
    if x.numel() > 1 and more.isfinite() and not differ(y, x + more).any():
        return f" Yours is the right result plus {more:.4g}."
    if x.dim() > 1 and x.shape[-1] == x.shape[-2] and not differ(y, x.mT).any():
        return " Yours is the right result transposed."
    return ""
