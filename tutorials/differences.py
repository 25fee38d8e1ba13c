"""Says in words how wrong numbers differ from right ones.

    describe_difference(expected, got)      what is right, the largest difference, and notes

A note is a relation that holds for all numbers of an output: the same but for a factor, transposed,
right but for some rows. It says what to look for, not where the mistake stands.
"""
import itertools
import math

import torch

TOLERANCE = 1e-6
FORMS = {"{}": float, "1/{}": lambda n: 1 / n, "√{}": math.sqrt, "1/√{}": lambda n: n ** -0.5,
         "ln {}": math.log, "1/ln {}": lambda n: 1 / math.log(n), "{}²": lambda n: n * n}


def apart(x, y):
    """Where two tensors of one shape differ by more than rounding. nan equals nan."""
    return ~torch.isclose(x, y, TOLERANCE, TOLERANCE, equal_nan=True)


def near(x, y):
    return x.shape == y.shape and not apart(x, y).any()


def number_name(value, letters):
    """A factor or a summand, and what it may be: "2.23607 (√5 = √k)"."""
    for size in dict.fromkeys([2, 10, *letters]):
        for form, function in FORMS.items():
            if size > 1 and math.isclose(abs(value), function(size), rel_tol=1e-6):
                names = dict.fromkeys(form.format(name) for name in (size, letters.get(size, size)))
                return f"{value:.6g} ({'-' * (value < 0)}{' = '.join(names)})"
    return f"{value:.6g}"


def axis_name(axis, shape, letters):
    letter = letters.get(shape[axis])
    return f"axis {axis}" + (f" ({letter})" if letter else "")


def constant(x):
    """The number that all of a tensor's are, but for rounding; None if there is none."""
    return x.flatten()[0].item() if x.numel() and near(x, x.flatten()[0].expand_as(x)) else None


# ---- Notes: each takes right and wrong numbers of one shape; what it yields first is said --------

def of_infinity(right, mine, letters):
    counts = {name: int((test(mine) & ~test(right)).sum())
              for name, test in (("nan", torch.isnan), ("inf", torch.isinf))}
    new = [f"{name} at {count} places" for name, count in counts.items() if count]
    if new:
        yield (f"yours is {' and '.join(new)}: a division by 0, exp of a large number, or a "
               "softmax over nothing")
    if gone := int((mine.isfinite() & ~right.isfinite()).sum()):
        yield f"no number is expected at {gone} places where yours is one"


def of_factor(right, mine, letters):
    some = right != 0
    if some.any() and near(mine[~some], right[~some]):
        factor = constant(mine[some] / right[some])
        if factor == 0:
            yield "yours is 0 everywhere"
        if factor == -1:
            yield "the sign is turned everywhere"
        if factor:
            yield f"yours is the right result times {number_name(factor, letters)}"
        for axis in [i for i, size in enumerate(right.shape) if size > 1 and right.dim() > 1]:
            factors = torch.where(some, mine / right, torch.nan)
            first = factors.nanmean(axis, keepdim=True).expand_as(factors)
            if near(factors[some], first[some]):
                yield (f"along {axis_name(axis, right.shape, letters)} yours is right up to a "
                       "factor: it is normalised over another axis, or not")


def of_offset(right, mine, letters):
    wrong = apart(mine, right)
    offset = constant((mine - right)[wrong])
    if offset and wrong.sum() > 1:
        where = "everywhere" if wrong.all() else "wherever it is wrong"
        yield f"yours is the right result plus {number_name(offset, letters)}, {where}"


def of_places(right, mine, letters):
    """Numbers at other places: transposed, reversed, shifted, in another order."""
    for axes in itertools.permutations(range(right.dim())):
        if right.permute(axes).shape == mine.shape and near(right.permute(axes), mine):
            moved = [axis for axis in axes if axes[axis] != axis]
            yield f"axes {' and '.join(map(str, sorted(moved)))} are exchanged"
    for axis in range(right.dim()):
        name = axis_name(axis, right.shape, letters)
        if near(right.flip(axis), mine):
            yield f"{name} runs backwards"
        for by in (1, -1):
            if near(right.roll(by, axis), mine):
                yield f"yours is shifted by {by} along {name}"
    if near(right.flatten().sort()[0], mine.flatten().sort()[0]):
        yield "all numbers are right, but they stand at other places"


def of_sums(right, mine, letters):
    """Weights that sum to 1 over another axis, or do not."""
    if right.dim() < 2 or right.min() < 0:
        return
    for axis in range(right.dim()):
        name, ours, theirs = axis_name(axis, right.shape, letters), right.sum(axis), mine.sum(axis)
        one, yours = (near(x[ours != 0], torch.ones_like(x[ours != 0])) for x in (ours, theirs))
        if right.shape[axis] > 1 and one and not yours:
            yield (f"over {name} the right weights sum to 1; yours sum to {theirs.min():.4g} to "
                   f"{theirs.max():.4g}")
        if right.shape[axis] > 1 and yours and not one:
            yield f"yours sum to 1 over {name}; the right numbers do not"


def of_range(right, mine, letters):
    for axis in range(right.dim()):
        if mine.shape[axis] > 1 and near(mine, mine.narrow(axis, 0, 1).expand_as(mine)):
            yield f"yours does not change along {axis_name(axis, right.shape, letters)}"
    if right.min() >= 0 and mine.min() < 0:
        yield f"the right numbers are never negative; yours go down to {mine.min():.4g}"
    if right.min() < 0 <= mine.min():
        yield "yours are never negative: a relu, abs, square or exp too many?"
    if right.max() <= 1 < mine.max() and right.min() >= 0:
        yield f"the right numbers lie between 0 and 1; yours go up to {mine.max():.4g}"


def of_rows(right, mine, letters):
    """Where it is wrong, if that is a part."""
    wrong = apart(mine, right)
    if right.dim() > 1 and right.shape[-1] == right.shape[-2]:
        diagonal = torch.eye(right.shape[-1], dtype=torch.bool).expand_as(wrong)
        if not wrong[~diagonal].any():
            yield "only the diagonal is wrong"
    if not wrong[right != 0].any():
        yield "only places are wrong where 0 is expected: padding, or what the mask excludes"
    if not mine[wrong].any():
        yield "yours is 0 wherever it is wrong"
    for axis in range(right.dim()):
        there = wrong.transpose(0, axis).flatten(1).any(1) if right.dim() > 1 else wrong
        places = there.nonzero().flatten().tolist()
        if len(places) < len(there):
            yield (f"only {axis_name(axis, right.shape, letters)} "
                   f"{', '.join(map(str, places[:6]))} of {len(there)} is wrong")


NOTES = (of_infinity, of_factor, of_offset, of_places, of_sums, of_range, of_rows)


# ---- All of it ----------------------------------------------------------------------------------

def of_shape(right, mine, letters):
    """Two tensors of different shapes."""
    shapes = []
    for shape in (tuple(mine.shape), tuple(right.shape)):
        named = [letters.get(size) for size in shape]
        shapes.append(f"{shape}" + (f" = ({', '.join(named)})" if all(named) and named else ""))
    said = f"has the shape {shapes[0]}, expected {shapes[1]}"
    for axes in itertools.permutations(range(mine.dim())) if mine.dim() < 6 else ():
        if near(mine.permute(axes), right):
            return f"{said}; the numbers are right, the axes stand in another order"
    if near(mine.squeeze(), right.squeeze()):
        return f"{said}; the numbers are right, an axis of size 1 is missing or too many"
    if mine.numel() == right.numel() and near(mine.flatten().sort()[0], right.flatten().sort()[0]):
        return f"{said}; the numbers are right, but reshaped"
    return said + ("; axes exchanged?" if sorted(mine.shape) == sorted(right.shape) else "")


def of_one(name, expected, got, letters):
    """What is wrong with one output, or None."""
    right, mine = expected[name], got.get(name)
    if name not in got:
        return f"{name} is missing"
    if not isinstance(right, torch.Tensor) or not isinstance(mine, torch.Tensor):
        same = type(right) is type(mine) and right == mine
        return None if same else f"{name} is {mine!r:.60}, expected {right!r:.60}"
    right, mine = right.detach().double(), mine.detach().double()
    letters = {n: x for n, x in letters.items() if x != "H" or n in right.shape}    # 2 is no heads
    if right.shape != mine.shape:
        return f"{name} {of_shape(right, mine, letters)}"
    if near(right, mine):
        same = expected[name].dtype == got[name].dtype
        return None if same else f"{name} is {got[name].dtype}, expected {expected[name].dtype}"
    off = (mine - right).abs().nan_to_num(math.inf, math.inf)
    off[~apart(mine, right)] = 0
    place = [int(i) for i in torch.unravel_index(off.argmax(), off.shape)]
    said = (f"{name}: {int((off > 0).sum())} of {off.numel()} numbers are wrong, most at {place}: "
            f"expected {right[tuple(place)]:.6g}, got {mine[tuple(place)]:.6g}")
    for other, value in expected.items():
        if other != name and isinstance(value, torch.Tensor) and near(value.double(), mine):
            return f"{said}; it is what {other} should be"
    notes = [note for rule in NOTES for note in itertools.islice(rule(right, mine, letters), 1)]
    return "; ".join([said, *notes[:2]])


def describe_difference(expected, got, again=None, letters=None):
    """What is right, what is wrong, and in which way.

    Args: expected, got: {name: tensor, or another value}. again: what a second call with the same
        arguments returned, or None. letters: {size: the letter of an axis of this size}.
    Returns: some sentences, "" where nothing differs.
    """
    said = {name: of_one(name, expected, got, letters or {}) for name in expected}
    wrong = {name: words for name, words in said.items() if words}
    if not wrong:
        return ""
    sentences = [*wrong.values()][:1]
    if right := [name for name, words in said.items() if not words]:
        sentences.append(f"right: {', '.join(right)}")
    if len(wrong) > 1:
        sentences.append(f"wrong too: {', '.join([*wrong][1:])}")
    if again is not None and describe_difference(got, again):
        sentences.insert(0, "two calls with the same arguments return different numbers: something "
                            "random, such as dropout, is still in it")
    return ". ".join(sentence[0].upper() + sentence[1:] for sentence in sentences) + "."
