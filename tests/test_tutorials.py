"""tutorials/: `check` on right and wrong functions, guesses, my_semmatch.py, points, notebooks.

`.ci/run` runs the lessons themselves, with LESSON=solved.
"""
import ast
import csv
import re
import runpy
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
import torch
from small_runs import refused

import bert_min
import reread
import semmatch
from support.options import run_command

FOLDER = Path(__file__).resolve().parent.parent / "tutorials"
LESSONS = {int(path.name[0]): path.read_text("utf-8") for path in sorted(FOLDER.glob("[1-6]_*.py"))}
sys.path.append(str(FOLDER))
import build  # noqa: E402
import equations  # noqa: E402
import grade  # noqa: E402
import lesson  # noqa: E402
from guesses import GUESSES  # noqa: E402
from tasks import CONFIG, TASKS, B, Draw, M, N, R  # noqa: E402

each_lesson = pytest.mark.parametrize("number", LESSONS)
LISTED = [(name, wrong) for name, task in TASKS.items() for wrong in task.mistakes()]
COMPARED = [name for name, task in TASKS.items()
            if task.place and getattr(equations, name).__module__ == "equations"]


def said_of(name, function, by_hand=()):
    """What `check` says of a function, wrapped: it finds the line of an error by a file's name."""
    return lesson.judge(name, lambda *arguments: function(*arguments), by_hand)


# ---- check --------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", COMPARED)
def test_the_equations_to_read_are_the_librarys(name):
    """Values and gradients are the same in each case of `check`."""
    assert said_of(name, resolve_name(TASKS[name].place)) == ""


def test_the_layers_to_read_are_the_librarys():
    """The weights are the same. Lesson 1 itself compares `embed` and `layer` with Bert."""
    d = Draw("padding")
    (words, segment), mask, hidden = d.tokens(), d.mask(), d.states()
    for library, own, prior in (
            (bert_min.SelfAttention, equations.MyBert, None),
            (semmatch.DabertAttention, equations.MyDabert, None),
            (semmatch.DafaAttention, equations.MyDafa, d.normal(B, N, M).abs()),
            (semmatch.KnowledgeAttention, equations.MyKnowledge, d.integer(6, B, N, M, R) == 0)):
        right, mine = d.fill(library(CONFIG)).eval(), own(CONFIG).double().eval()
        mine.load_state_dict(right.state_dict())
        outs = [layer(hidden, mask, None if prior is None else layer.spread(prior, words, segment))
                for layer in (right, mine)]
        torch.testing.assert_close(*outs)
    assert said_of("choose_left", lambda *arguments: reread.choose(*arguments)[:2]) == ""


@pytest.mark.parametrize("name, wrong", LISTED, ids=[f"{name}: {wrong}" for name, wrong in LISTED])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")                   # a mistake may divide by 0
def test_a_listed_mistake_is_named(name, wrong):
    said = said_of(name, TASKS[name].mistakes()[wrong])
    assert said.endswith(f"mistake: {wrong}.") or "has the shape" in said


@pytest.mark.parametrize("name, wrong, words", [
    ("difference_scores", lambda q, k: None, "not written yet"),
    ("difference_scores", lambda q, k: q.shape[-1] @ k, "q.shape[-1] @ k"),
    ("difference_scores", lambda q, k: q.data.add_(1), "in place"),
    ("difference_scores", lambda q, k: sys.exit(3), "SystemExit"),
    ("difference_scores", lambda q, k: equations.difference_scores(q, k).sum(1), "(B, H, L, L)"),
    ("difference_scores", lambda q, k: (equations.difference_scores(q, k), k), "results: 2"),
    ("difference_scores", lambda q, k: equations.difference_scores(q, k).half(), "float16"),
    ("difference_scores", lambda q, k: equations.difference_scores(q, k).detach(), "gradients"),
    ("difference_scores", lambda q, k: 3.7 * equations.difference_scores(q, k), "times 3.7"),
    ("matching", lambda a, b: equations.matching(a, b) + torch.where(a[0, 0] < 9, 0, b[0, 0] / 0),
     "gradients are nan"),
    ("l2_ratio", lambda t, full, ratio: equations.l2_ratio(t, full // 2 * 2, ratio), "expected"),
    ("co_attention", lambda hidden, s: equations.co_attention(hidden, s.mT), ""),
    ("relation_indicator", lambda k: equations.relation_indicator(k).long(), "bool"),
    ("tree_similarity", lambda a, b: torch.as_tensor(equations.tree_similarity(a, b)).long(), ""),
    ("l2_ratio", lambda *given: torch.tensor(equations.l2_ratio(*given)).double(), "")])
def test_mistakes_that_nobody_listed(name, wrong, words):
    """The message has the words that help. Functions without words are right."""
    said = lesson.judge(name, wrong)
    assert words in said and bool(words) == bool(said) and lesson.BY_HAND not in said


def test_the_pair_by_hand_is_told_first_and_its_words_are_named():
    said = said_of("tree_similarity", lambda a, b: 0 * equations.tree_similarity(a, b),
                   Draw("one relation").parses())
    assert "with the pair by hand" in said and re.search(r": '\w' x '\w'\] yours", said)
    with pytest.raises(AssertionError, match="this lesson.*read_limit"):
        lesson.check(equations.read_limit, torch.zeros(1, 1, 4), lesson.fixed([[1.0] * 4]), 5,
                     gives=2)


# ---- Guesses ------------------------------------------------------------------------------------

def test_a_guess_keeps_what_follows_closed(capsys, monkeypatch):
    for name, (right, others, why) in GUESSES.items():
        for guess in (..., "nonsense"):
            with pytest.raises(ValueError, match=re.escape(repr(others[0]))):
                lesson.reveal(name, guess)
        assert capsys.readouterr().out == "" and right not in others    # nothing has been said
        lesson.reveal(name, others[0])
        assert " ".join(capsys.readouterr().out.split()) == " ".join(
            f"It is {right!r}. {why}".split())
    monkeypatch.setattr(lesson, "MODE", "solved")
    lesson.reveal(name, ...)


# ---- Lessons ------------------------------------------------------------------------------------

@each_lesson
def test_a_lesson_asks_for_its_functions(number):
    """Each is blank and checked, with a pair by hand too. Each `guess = ...` has its `reveal`."""
    text = LESSONS[number]
    blank = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    for name in (name for name, task in TASKS.items() if task.lesson == number):
        assert re.search(rf"{name} = check\({name}, ", text)
        assert ast.unparse(blank[name].body[-1]) == "..."
    told = re.findall(r'reveal\("(.*?)", guess\)', text)
    assert 2 <= len(told) == text.count("\nguess = ...\n") and set(told) <= GUESSES.keys()


@each_lesson
def test_the_built_notebook_is_this_lesson(number):
    path = build.LESSONS[number - 1].with_suffix(".ipynb")
    built = build.notebook_of(LESSONS[number])
    assert path.read_text("utf-8") == built, "python tutorials/build.py makes it anew"


def test_right_functions_go_into_a_file_of_ones_own(tmp_path, monkeypatch, capsys):
    """The layers in that file compute with them."""
    monkeypatch.setattr(lesson, "OWN", tmp_path / "my_semmatch.py")
    source = tmp_path / "written.py"
    right = "def merge_heads(x):\n    return x.transpose(1, 2).flatten(2)  # mine\n\n\n"
    for needed in ("END = 2\n" + right.replace("(2)", "(END)"),       # a cell has it, no file has
                   "from torch import Tensor\n" + right.replace("(x)", "(x: Tensor)")):
        source.write_text(needed, "utf-8")
        with pytest.raises(ValueError, match="merge_heads.*(END|Tensor)"):
            lesson.check(runpy.run_path(source)["merge_heads"])
    exec(right, no_lines := {})                                         # as in a cell of %%time
    for function, words in ({}, "check.dict.*def"), (no_lines["merge_heads"], "source.*%%"):
        with pytest.raises(ValueError, match=words):
            lesson.check(function)
    source.write_text(f"{right}def split_heads(x, heads):\n    return x\n", "utf-8")
    written = runpy.run_path(source)
    for _ in range(2):                                                  # again: in the same place
        assert lesson.check(written["merge_heads"]) is written["merge_heads"]
        lesson.keep("MyBert", equations.MyBert)
        lesson.OWN.write_text(lesson.OWN.read_text("utf-8") + "# ours\n", "utf-8")
    with pytest.raises(ValueError, match="split_heads.*shape"):
        lesson.check(written["split_heads"])
    text = lesson.OWN.read_text("utf-8")
    assert text.count("# mine") == text.count("class MyBert") == 1 and text.count("# ours") == 2
    assert "def split_heads" not in text
    merge_heads = lesson.mine("merge_heads")
    assert merge_heads.__module__ == "my_semmatch" and merge_heads(torch.ones(1, 2, 3, 4)).sum() > 0


@pytest.mark.parametrize("seed, mode, options, words", [
    ("0", "", [], r"1_mini_bert.py:\d+: split_heads: not written yet"),
    ("x", "", [], "LESSON_SEED=x"), ("0", "slved", [], "LESSON=slved: expected solved"),
    ("0", "", ["--bert", "nix"], "--bert nix: a lesson has no options")])
def test_a_script_stops_with_one_line(seed, mode, options, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(build.LESSONS[0]), *options])
    monkeypatch.setattr(lesson, "SEED", seed)
    monkeypatch.setattr(lesson, "MODE", mode)
    monkeypatch.setattr(lesson, "lesson_tasks", [])
    with pytest.raises(SystemExit) as end:
        lesson.begin(1)
    said = capsys.readouterr().err
    assert end.value.code == 2 and re.match(f"lesson 1: .*{words}", said) and said.count("\n") == 1


# ---- Hand-ins -----------------------------------------------------------------------------------

def test_points_of_hand_ins(tmp_path):
    """A blank hand-in has none, one mistake costs one function's points, a right one has all.
    Hand-ins of one name get a row and a page each."""
    blank = re.compile(r'^def \w+\(.*?\):\n    """.*?"""\n    \.\.\.\n', re.M | re.S)
    right = "from equations import *\n" + blank.sub("", LESSONS[2])
    squares = build.notebook_of("# %%\n!ls\n%cd x\nmath.exp?\ndisplay(1)\n" + right.replace(
        "\ndifference_scores =", "\ndef difference_scores(q, k):\n    return (q[..., :, None, :] - "
        "k[..., None, :, :]).square().sum(-1)\n\n\ndifference_scores ="))
    texts = {"anna/mine.py": LESSONS[2], "ben/mine.ipynb": squares, "cleo/mine.py": right}
    for name, text in (texts | {"cleo/.ipynb_checkpoints/mine.py": LESSONS[2]}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    command = [*map(str, sorted(tmp_path.iterdir())), "--csv", str(tmp_path / "points.csv"),
               "--pages", str(tmp_path / "pages"), "--seed", "5"]
    assert run_command(grade.main, "grade.py", command) == 0
    rows = list(csv.DictReader((tmp_path / "points.csv").read_text("utf-8").splitlines()))
    most = sum(task.points for task in TASKS.values() if task.lesson == 2)
    assert [most - int(x["points"]) for x in rows] == [most, TASKS["difference_scores"].points, 0]
    assert len({row["hand-in"] for row in rows}) == len(list((tmp_path / "pages").iterdir())) == 3
    pages = [path.read_text("utf-8") for path in sorted((tmp_path / "pages").iterdir())]
    assert "mistake: squares." in pages[1] and str(tmp_path / "ben") in pages[1]


def test_a_hand_in_that_hangs_is_ended():
    found = grade.grade(LESSONS[2].replace("begin(2)", "begin(2)\nwhile True: pass"), limit=5)
    assert all(won == 0 and "ended after 5 seconds" in said for won, _, said in found.values())


@pytest.mark.parametrize("name, content, words", [
    ("notes.py", b"print(1)\n", "expected a lesson"), ("notes.py", b"\0\xff", "notes.py UTF-8"),
    ("mine.py", b"begin(9)\n", "expected a lesson"), ("mine.py", b"begin(2)\n", "none/points.csv")])
def test_a_mistake_in_grading_is_one_line(name, content, words, tmp_path):
    """A file is no lesson, no text, or lesson 9; a table cannot be written."""
    (tmp_path / name).write_bytes(content)
    refused(words, str(tmp_path), "--csv", str(tmp_path / "none/points.csv"),
            by=lambda *args: run_command(grade.main, "grade.py", args))
