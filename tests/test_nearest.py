"""tutorials/: slips are named by the numbers they give, differences are put into words."""
import functools
import re
from pathlib import Path

import pytest
import torch

import answers
import check
import trial
from answers import compiled, edited
from differences import describe_difference
from draws import LETTERS, Draw
from exercises import PRINTED, find, library
from test_exercises import TASKS, tried

# ---- Solutions ----------------------------------------------------------------------------------

@pytest.mark.parametrize("key", TASKS)
def test_a_solution_is_the_library_without_its_options(key):
    """It returns what the library's function does, and computes nothing as printed."""
    task = TASKS[key]
    got = tried(compiled(task, task.solution), task)
    points, said = check.judge(answers.right_answers(task), got, dict)
    assert all(points.values()), said
    body = task.solution.partition(":\n")[2]
    assert "if printed" not in body and "in self.printed" not in body
    assert "support" not in body and '"""' not in body
    assert task.points in (1, 2, 3, 4)


OF_A_PAGE = {key: task for key, task in TASKS.items()
             if any(mistake.kind == PRINTED for mistake in task.mistakes)}
NUMBERS = {"difference_attention": {3}, "second": {5}, "spread": {6},
           "dynamic_sequential_attention": {12}}


@pytest.mark.parametrize("key", OF_A_PAGE)
def test_a_mistake_called_printed_is_what_the_library_prints(key):
    """With `printed` the library returns what the mistaken function does, on the same arguments."""
    task = OF_A_PAGE[key]
    [mistake] = [mistake for mistake in task.mistakes if mistake.kind == PRINTED]
    function, names = find(library(task.module), task.path), answers.names_of(task)
    wrong, right = tried(edited(task, mistake.edits), task), answers.right_answers(task)
    asked, differs = NUMBERS.get(task.path[-1], True), False
    for case, draw in task.cases.items():
        arguments = draw(Draw())
        given = dict(zip(names, arguments))
        asking = {"printed", "typeset"}.intersection(names)
        if asking:
            given[asking.pop()] = asked
        else:
            given["self"].printed = asked
        if task.path[-1] == "guided_attention":                 # as typeset w is twice as wide
            w = given["w"]
            given["w"] = torch.nn.Linear(2 * w.in_features, 1).double()
            given["w"].weight.data = w.weight.data.repeat(1, 2)
            given["w"].bias.data.zero_()
        if task.path[-1] == "choose" and given.get("left") is None:
            continue
        found = trial.answer(lambda *_: function(**given), names, arguments)
        assert check.compare(wrong[case], found) == "", case
        differs |= check.compare(right[case], found) != ""
    assert differs


# ---- Slips --------------------------------------------------------------------------------------

NAMED = [line for line in (Path(__file__).parent / "fixtures/slips.txt").read_text(
    "utf-8").splitlines() if not line.startswith("#")]
CLAIMS = "Your numbers are", "lassic mistake", "As printed"


@functools.cache
def right_and_known(key):
    return answers.right_answers(TASKS[key], 5), answers.mistakes_of(TASKS[key], 5)


@pytest.mark.parametrize("line", NAMED)
def test_what_a_student_is_told_of_a_slip(line, tmp_path):
    """What the list asks for; "?": nothing is claimed of it. No line of the library is shown."""
    *slip, words = re.split(r"(?<!\\) \| ", line, maxsplit=3)
    name, old, new = (part.replace("\\|", "|").replace("\\n", "\n") for part in slip)
    key = next(key for key in TASKS if f".{name}-" in key)
    task, path = TASKS[key], tmp_path / "mine.py"
    path.write_text(task.solution.replace(old, new, 1), "utf-8")
    assert old in task.solution
    known = dict(vars(library(task.module)))
    exec(compile(path.read_text("utf-8"), path, "exec"), known)
    right, mistakes = right_and_known(key)
    got = tried(known[task.path[-1]], task, 5, path)
    points, said = check.judge(right, got, lambda: mistakes, letters=LETTERS)
    told = " ".join(check.told(said))
    assert not all(points.values())
    assert re.search(words, told) if words != "?" else not any(x in told for x in CLAIMS), told
    assert not any(f"`{line.strip()}`" in told for line in task.solution.splitlines())


# ---- Differences in words -----------------------------------------------------------------------

RIGHT = torch.tensor([[1.0, 2.0, 4.0], [0.5, 3.0, -1.0], [7.0, -5.0, 0.25]])
WEIGHTS = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.75, 0.25]])


@pytest.mark.parametrize("right, mine, said", [
    (RIGHT, RIGHT * 5 ** -0.5, "times 0.447214 (1/√5 = 1/√k)"),
    (RIGHT, -RIGHT, "the sign is turned"),
    (RIGHT, RIGHT + torch.tensor(2.0).log(), "plus 0.693147 (ln 2)"),
    (RIGHT, RIGHT.flip(1), "axis 1 (T) runs backwards"),
    (RIGHT, RIGHT.roll(1, 0), "shifted by 1 along axis 0"),
    (RIGHT, RIGHT[[1, 0, 2]], "at other places"),
    (RIGHT, RIGHT + torch.eye(3) * RIGHT, "only the diagonal is wrong"),
    (RIGHT, RIGHT * torch.tensor([[1], [1], [2]]), "only axis 0 (T) 2 of 3 is wrong"),
    (RIGHT, RIGHT[:1].expand(3, 3), "yours does not change along axis 0"),
    (WEIGHTS, WEIGHTS / WEIGHTS.sum(0), "yours sum to 1 over axis 0 (T)"),
    (WEIGHTS, WEIGHTS * torch.tensor([[1], [2], [3]]), "along axis 1 (H) yours is right up to"),
    (RIGHT.clamp(min=0), RIGHT + (RIGHT < 0) * RIGHT.square(),
     "only places are wrong where 0 is expected"),
    (RIGHT, RIGHT[None], "an axis of size 1"),
    (WEIGHTS, WEIGHTS.T.reshape(6), "has the shape (6,), expected (3, 2) = (T, H)"),
    (RIGHT, RIGHT.double(), "is torch.float64, expected torch.float32"),
    (torch.tensor(3.0), torch.tensor(4.0), "expected 3, got 4")])
def test_differences_in_words(right, mine, said):
    text = describe_difference({"y": right}, {"y": mine}, letters={5: "k", 2: "H", 3: "T"})
    assert said in text, text


def test_what_is_right_is_said_and_where_the_largest_difference_is():
    expected = {"v": RIGHT, "g": RIGHT + 1, "f": 2 * RIGHT}
    wrong = RIGHT.clone()
    wrong[2, 0], wrong[0, 1] = 9.0, 2.5
    text = describe_difference(expected, {**expected, "v": wrong})
    assert text.startswith("V: 2 of 9 numbers are wrong, most at [2, 0]: expected 7, got 9")
    assert text.endswith("Right: g, f.")
    exchanged = {"v": RIGHT, "g": 2 * RIGHT, "f": RIGHT + 1}
    assert "it is what f should be" in describe_difference(expected, exchanged)
    assert describe_difference(expected, expected) == ""
    assert describe_difference(expected, {"v": RIGHT, "f": 2 * RIGHT}).startswith("G is missing")
