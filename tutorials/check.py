"""Checks the functions that you write in this folder.

    python check.py                         all of them
    python check.py gated_fusion fuse       some

For each function cases.npz has arguments, what the right function returns for them, its gradients,
and messages for well-known mistakes. A case is won if your function returns what the right one
does; gradients are one case more. A case is worth 1 to 4 points. A function that calls others of
the exercise is tried with yours: write those first.

Exit status: 0 if all points were won, 1 if not, 2 without cases.npz or such a function.
"""
import argparse
import base64
import hashlib
import json
import math
import sys
import textwrap

import torch

from differences import describe_difference
from trial import BLANK, HERE, Answer, attempt, get_answer, kind, load_cases, weigh

GRADIENTS = "gradients"
CUT = ("The values are right. A gradient of 0: detach(), item(), .data, numpy or no_grad() cuts "
       "the graph; nan: an infinity was computed on the way.")


# ---- Comparing ----------------------------------------------------------------------------------

def compare(expected, got, again=None, letters=None):
    """What is wrong with an Answer in words, or "". again: that of a second call."""
    if expected.kind != got.kind:
        missing = " (is `return` missing?)" if got.kind == "None" else ""
        return f"returns {got.kind}{missing}, expected {expected.kind}"
    other = again.parts if isinstance(again, Answer) else None
    return describe_difference(expected.parts, got.parts, other, letters)


# ---- Known mistakes -----------------------------------------------------------------------------
# cases.npz has no list of mistakes to read: a message is locked with the numbers that it is about.

def marks(answer, names):
    """What an Answer is known by, as text: of each of these parts three rounded sums."""
    found = [answer.kind]
    for name in names:
        part = answer.parts.get(name)
        if isinstance(part, torch.Tensor):
            x = part.double().nan_to_num(1.25, 2.5, -2.5).clamp(-1e100, 1e100)
            length = x.norm().item()
            digits = 4 if part.dtype == torch.float32 else 6
            size = math.frexp(max(1.2345 * length, 1e-200))[1]
            sums = length, weigh(x).item(), weigh(x, torch.sin).item()
            part = [*part.shape, size, *(round(number * 10 ** digits / 2.0 ** size)
                                         for number in sums)]
        found.append(part if isinstance(part, (list, int, str)) else kind(part))
    return json.dumps(found)


def key_of(cases):
    """The key for the marks of some cases, and the place where its message stands."""
    key = hashlib.sha256(json.dumps(cases, sort_keys=True).encode()).digest()
    return key, hashlib.sha256(key).hexdigest()[:16]


def locked(message, key):
    """A message, as bytes, locked with a key; or opened, if it is locked."""
    stream = hashlib.shake_256(key).digest(len(message))
    return bytes(x ^ y for x, y in zip(message, stream))


def recognize(right, got, failed, mistakes):
    """What is said of a mistake that returns in all cases what the student's function did, else in
    the first that failed; None. got: case -> Answer. mistakes: place -> locked message."""
    parts = [part for answer in got.values() for part in answer.parts.values()]
    if any(isinstance(part, torch.Tensor) and part.numel() and not part.isfinite().any()
           for part in parts):
        return None                 # infinities: a logarithm or a root of anything has the same
    found = {case: marks(answer, right[case].parts) for case, answer in got.items()}
    for cases in (found, {case: found[case] for case in failed[:1]}):
        key, place = key_of(cases)
        if place in mistakes:
            return locked(base64.b64decode(mistakes[place]), key).decode()
    return None


# ---- Points -------------------------------------------------------------------------------------

def judge(right, got, mistakes, again=lambda case: None, letters=None):
    """({point: won}, {point: message}) of one function.

    Args: right: case -> Answer. got: case -> Answer, or what prevented one. mistakes: a function
        that returns place -> locked message. again: a function of a case, one more Answer. Both are
        called where needed. letters: {size: the letter of an axis of this size}.
    """
    points, wrong, said = dict.fromkeys(right, False), {}, {}
    if any(answer.gradients for answer in right.values()):
        points[GRADIENTS] = False
    for case, expected in right.items():
        if isinstance(got[case], str):
            said[case] = got[case]
        else:
            points[case] = not compare(expected, got[case])
    if GRADIENTS in points and all(points[case] for case in right):
        differ = [describe_difference(right[case].gradients, got[case].gradients, None, letters)
                  for case in right]
        points[GRADIENTS] = not any(differ)
        if any(differ):
            said[GRADIENTS] = f"{next(filter(None, differ))} {CUT}"
    answers = {case: answer for case, answer in got.items() if isinstance(answer, Answer)}
    if failed := [case for case in answers if not points[case]]:
        drawn = [case for case in failed if case != "example"]      # by hand all sizes are small
        case, known = (drawn or failed)[0], recognize(right, answers, failed, mistakes())
        wrong[", ".join(failed)] = known or compare(right[case], got[case], again(case),
                                                    letters if drawn else None)
    return points, wrong | said


def told(said, first=()):
    """The lines below a function's score, of the messages for its points. first: functions that it
    calls and that are not right yet."""
    if first and said and not any(message.endswith(BLANK) for message in said.values()):
        names = ", ".join(name.rpartition(".")[2] for name in first)
        said = {"": f"calls {names}: make that right first"}
    places = {}
    for place, message in said.items():
        places.setdefault(message, []).append(place)
    lines = []
    for message, where in places.items():
        place = ", ".join(filter(None, where))
        bare = message.endswith(BLANK) or not place
        lines.append(message if bare else f"{place}: {message}")
    return lines


def print_score(equation, function, won, total, lines):
    print(f"{equation:26}{function:36}{won}/{total}")
    for line in lines:
        print(textwrap.fill(line, 100, initial_indent="    ", subsequent_indent="      "))


def main(argv=None):
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser("check.py", description="Checks the functions of this folder.")
    parser.add_argument("names", nargs="*", metavar="FUNCTION", help="all if none is given")
    names = parser.parse_args(argv).names
    try:
        described, numbers = load_cases(HERE / "cases.npz")
    except (OSError, ValueError) as problem:
        print(f"check.py: {problem}; get cases.npz of your hand-out again", file=sys.stderr)
        return 2
    known = [task["function"].partition(".")[2] for task in described["tasks"]]
    chosen = {name for name in known if {name, name.rpartition(".")[2]} & {*names} or not names}
    if strange := {*names} - {*known} - {name.rpartition(".")[2] for name in known}:
        print(f"check.py: no function {', '.join(sorted(strange))} here; there are "
              f"{', '.join(known)}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(HERE))
    print(f"{described['title']}\n")
    won, total, right = 0, 0, set()
    letters = {int(size): letter for size, letter in described["letters"].items()}
    for task in described["tasks"]:
        got = attempt(task, numbers)
        expected = {case: get_answer(entry["answer"], numbers)
                    for case, entry in task["cases"].items()}
        points, said = judge(expected, got, lambda: task["mistakes"], letters=letters,
                             again=lambda case: attempt(task, numbers, only=case)[case])
        if all(points.values()):
            right.add(task["function"])
        name = task["function"].partition(".")[2]
        if name in chosen:
            score, most = sum(points.values()) * task["points"], len(points) * task["points"]
            won, total = won + score, total + most
            first = [other for other in task["calls"] if other not in right]
            print_score(task["equation"], name, score, most, told(said, first))
    print(f"\n{described['exercise']}, {won} of {total} points")
    return int(won < total)


if __name__ == "__main__":
    sys.exit(main())
