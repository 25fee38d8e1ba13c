"""tutorials/: `check` on right and wrong functions, guesses, verdicts, notebooks, grading.

`.ci/run` runs the lessons themselves, with LESSON=solved.
"""
import copy
import csv
import os
import re
import signal
import subprocess
from types import SimpleNamespace

import pytest
import torch

import build
import grade
import judge
import lesson
from small_runs import refused
from support.options import run_command
from tasks import FORMS, TASKS, Draw

answers = SimpleNamespace(**{name: task.right for name, task in TASKS.items()})


@pytest.mark.parametrize("name, wrong, words", [
    ("difference_scores", lambda q, k: q.shape[-1] @ k, "q.shape[-1] @ k"),
    ("difference_scores", lambda q, k: q.data.add_(1), "in place"),
    ("difference_scores", lambda q, k: answers.difference_scores(q, k).sum(1), "(3, 2, 7, 7)"),
    ("difference_scores", lambda q, k: answers.difference_scores(q, k).half(), "float16"),
    ("difference_scores", lambda q, k: 1.001 * answers.difference_scores(q, k), "yours is"),
    ("gated_fusion", lambda *x: (lambda v, g: (-v, g))(*answers.gated_fusion(*x)),
     "Right: result 2. What enters W_other, W_sem, W_g is right."),
    ("guided_attention", lambda values, guide, *rest: answers.guided_attention(
        values, guide + 1, *rest), "what enters W_guide: "),                # first in time
    ("attention_weights", lambda s, mask: s.nan_to_num(0, 0, 0), "yours calls none"),
    ("coverage", lambda *x: answers.coverage(*x).clamp(min=0), "-0.2"),
    ("choose_left", lambda *x: answers.choose_left(
        *x[:-1], x[-1].where(x[-1] <= 0, x[-1].clamp(min=2e-6))), "wrong"),
    ("co_attention", lambda hidden, s: answers.co_attention(hidden, s.mT), ""),
    ("tree_similarity", lambda a, b: torch.as_tensor(answers.tree_similarity(a, b)).long(), "")])
def test_what_check_says(name, wrong, words):
    """The message has the words that help. Functions without words are right."""
    said = judge.judge(name, wrong)
    assert words in said and bool(words) == bool(said) and judge.BY_HAND not in said


def test_the_pair_by_hand_is_told():
    q, k = torch.tensor([[[[1.0], [1]]]]), torch.tensor([[[[3.0], [1]]]])
    said = judge.judge("difference_scores", lambda q, k: q @ k.mT, (q, k))
    assert "yours is [[3, 1], [3, 1]], expected [[2, 0], [2, 0]]" in said


@pytest.mark.parametrize("number", range(1, 8))
def test_a_pair_by_hand_is_right(number, monkeypatch):
    """The library's function gives the result by hand, and `check` takes it. Of lesson 7's rows
    TreesAlone has all of M but equal words."""
    names, seen = {"__name__": "__main__", "display": print}, []

    def check(function, *arguments, gives=()):
        seen.append(function.__name__)
        right = TASKS[function.__name__].right
        if arguments and gives:
            for x, y in zip(gives if isinstance(gives, tuple) else (gives,),
                            judge.results(right, copy.deepcopy(arguments))):
                torch.testing.assert_close(y.double().squeeze(), torch.tensor(x).double(),
                                           rtol=0, atol=1e-4)
        return right

    monkeypatch.setattr(lesson, "MODE", "grade")
    monkeypatch.setattr(lesson, "check", check)
    said = {grade.run_cell(cell, "the lesson", names) for cell in grade.read_own(number)}
    assert said <= {"", "SystemExit: the training is left out",
                    "NameError: name 'rows' is not defined"}
    assert {*seen} == {name for name, task in TASKS.items() if task.lesson == number}
    if number == 7:
        a, b = (SimpleNamespace(parse=parse) for parse in Draw("padding").parses())
        alone = names["TreesAlone"].prior((), ()).matrix(a, b)
        same = answers.equal_words(a.parse.words, b.parse.words) == 1
        M = answers.tree_similarity(a.parse, b.parse)
        assert (alone == M)[~same].all() and (alone < M)[same].all() and {*alone.flat} == {0, 1, 2}


@pytest.mark.parametrize("name", FORMS)
def test_a_demand(name):
    """It holds of all forms, of none, by luck, returns a tensor, or raises an error."""
    right = TASKS[name].right
    assert judge.judge(name, right) == judge.judge(name, lambda f: torch.tensor(right(f))) == ""
    for wrong, words in ((lambda f: True, "True of the equation as printed"),
                         (lambda f: False, "False of the repair"), (lambda f: None, "not written"),
                         (lambda f: torch.ones(2) > 0, "RuntimeError"), (lambda f: f(1), "f(1)"),
                         (lambda f: right(f) or torch.rand(1) < 0.2, "True of")):
        assert words in judge.judge(name, wrong)


def test_notebooks_are_built_from_the_lessons():
    for path in build.LESSONS:
        built = path.with_suffix(".ipynb").read_text("utf-8")
        assert built == build.notebook_of(path.read_text("utf-8")), "python tutorials/build.py"


def test_a_verdict_is_of_the_table():
    """By each seed, half of the gain is 75; none where the method's seeds and the plain overlap."""
    rows = {"plain": [50, 60, 70], "DAFA": [95, 90, 85], "a": [75, 95, 90], "b": [74, 95, 90],
            "c": [74, 70, 60], "d": [75, 75, 75]}
    for parts, said in (("ac", "a"), ("ad", "each of them"), ("cc", "neither"), ("bd", "nothing")):
        assert lesson.verdict(rows, "plain", "DAFA", parts).startswith(said)
    assert lesson.verdict(rows | {"DAFA": [95, 70, 95]}, "plain", "DAFA", "ad") == "neither"


@pytest.mark.parametrize("code, words", [
    ("begin(1)\nfrom bert_min import attention\ncheck(attention)", "line 4, attention: not w"),
    ("begin(1)\ndef attention(q, k, v, mask):\n    return v\ncheck(attention)",
     r"line 5, attention: tried with"),
    ("guessed(..., 25, 50)", "Guess first: write one of 25, 50")])
def test_a_script_stops_with_one_line(code, words, capsys):
    with pytest.raises(SystemExit) as end:
        exec(compile(f"from lesson import *\n{code}", "lesson", "exec"), {})
    said = capsys.readouterr().err
    assert end.value.code == 2 and re.match(words, said) and said.count("\n") == 1


HEAD = "from lesson import *\n\nbegin(2)\n\n# %%\n"
RIGHT = ("def difference_scores(q, k):\n    return (q[..., :, None, :] - k[..., None, :, :]).abs()"
         ".sum(-1)\n\n\ncheck(difference_scores)\n")
SLEEP = str(10 ** 6 + os.getpid())
PRANKS = {      # a cell that costs nothing, before one that is right
    "kills": "import os\nos.kill(os.getppid(), 9)", "stops": "import os\nos.kill(os.getppid(), 19)",
    "deletes": "import os, shutil\nshutil.rmtree(os.getcwd())", "memory": "x = bytearray(2 ** 40)",
    "prints": "print('x' * 10 ** 7)",
    "sleeps": f"import subprocess\nsubprocess.Popen(['sleep', {SLEEP!r}])",
    "forges": """import contextlib, os
for n in range(3, 30):
    with contextlib.suppress(OSError):
        os.write(n, b'[[]\\n\\xff\\n[9, 9]\\n[[1], ""]\\n{}\\n' + b'[' * 9999 + b'\\n')"""}
HAND_INS = {        # file -> (its text, the points of difference_scores, words of remark or page)
    "right.py": (f"{HEAD}{RIGHT}\n# %%\n" + RIGHT.replace("abs", "square"), 2, "2/2  diff"),
    "lambda.py": (f"""{HEAD}difference_scores = lambda q, k: q
check(difference_scores)

# %%
def difference_attention(q, k, v, mask):
    return attention_weights(difference_scores(q, k) / q.shape[-1] ** 0.5, mask) @ v
check(difference_attention)""", 0, "2/2  difference_attention"),
    **{f"{name}.py": (f"{HEAD}{code}\n\n# %%\n{RIGHT}", 2, "") for name, code in PRANKS.items()},
    "ann/a.ipynb": (build.notebook_of(f"# %%\n{HEAD}!ls\n{RIGHT}"), 2, "2 of 14"),
    "ann/b.py": (HEAD + RIGHT.replace("abs", "square"), 0, "tried with"),
    "exits.py": (HEAD + RIGHT.replace("return", "import os; os._exit(0); return"), 0, "not check"),
    "loops.py": (HEAD + RIGHT.replace("return", "while True: pass\n    return"), 0,
                 "ended after 2 seconds"),
    "names.py": (HEAD + RIGHT.replace("return", "from semmatch import joined_signal as x; return"),
                 2, "look: it names semmatch (cell 2, line 2)"),
    "tells.py": (f"{HEAD}x = check.__globals__\n\n# %%\n{RIGHT}", 2, "__ (cell 2, line 1)"),
    "ann/c.py": (f"{HEAD}{RIGHT}\n# %%\nbegin(3)", "", "has lessons 2, 3"),
    "brackets.ipynb": ("[" * 99999, "", "no notebook"), "notes.py": ("x", "", "is no lesson"),
    "bytes.py": (b"\xff\0", "", "is no text in UTF-8")}


def graded(*args):
    return run_command(grade.main, "grade.py", [str(arg) for arg in args])


def test_points_of_hand_ins(tmp_path, monkeypatch):
    """A mistake or a prank costs its own points alone. Each file has a row and a page."""
    top, out = tmp_path / "in", tmp_path / "out"
    for name, (text, *_) in HAND_INS.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    os.mkfifo(top / "fifo.py")
    os.symlink("/dev/zero", top / "zero.py")
    monkeypatch.setattr(grade, "LIMIT", 2)
    assert graded(top, "--out", out, "--trusted") == 0
    most, *rows = csv.DictReader((out / "points.csv").read_text("utf-8").splitlines())
    assert most["guided_attention"] == "3" and len(rows) == len(HAND_INS) + 2
    for row in rows:
        text, won, words = HAND_INS.get(row["hand-in"], ("", "", "is no plain file"))
        page = (out / "pages" / f"{row['hand-in']}.txt").read_text("utf-8")
        assert row["difference_scores"] == str(won) and words in row["remark"] + page, row
        assert ("look" in row["remark"]) == ("(cell 2" in words)
        assert str(tmp_path) not in page and row["sum"] == row["points"] or row["student"] == "ann"
    assert {row["sum"] for row in rows if row["student"] == "ann"} == {"2"}
    assert subprocess.run(["pgrep", "-f", f"sleep {SLEEP}"]).returncode == 1
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL       # no hand-in can end process 1
    refused("is not empty", top, "--out", out, "--trusted", by=graded)
    monkeypatch.setattr(grade, "CONTAINERS", ())
    refused("no container here", top, by=graded)
