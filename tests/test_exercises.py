"""The hand-outs of tutorials/: blank ones fail, the library passes, each mistake has its message.

test_grade.py grades hand-ins, test_nearest.py names slips, test_mistakes.py plants the mistakes in
the library.
"""
import ast
import functools
import itertools
import json
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

import answers
import check
import make_exercise
import train  # noqa: F401  (the library's, before a hand-out's can take its name)
import trial
from draws import ROOT
from exercises import EXERCISES, HERE, LIBRARY, PRINTED, Twist, definition, twisted

TASKS = {f"{task.function}-{len(task.mistakes)}": task for exercise in EXERCISES.values()
         for task in exercise.tasks}                            # what papers share, once
each_exercise = pytest.mark.parametrize("name", EXERCISES)
# What a solution and the rest of a hand-out both say, and what gives nothing away.
HARMLESS = {"dropout = self.dropout if self.training else 0.0",
            "weights = attention_weights(scores, mask)",
            "return calibrated_attention(q, k, v, prior, mask, dropout, typeset, trace)"}


def each_mistake(task, variants=answers.variants):
    """The variants that are one known mistake, which come first: pairs and slips take long.

    variants: as answers has them, before a hand-out is made with this in their place."""
    return itertools.takewhile(lambda variant: variant[1], variants(task))


def tried(function, task, seed=0, path=Path("mine.py")):
    """case -> the Answer of a function of this file, or what prevented it."""
    got, names = {}, answers.names_of(task)
    for case, draw in task.cases.items():
        try:
            got[case] = trial.in_words(
                lambda: trial.answer(function, names, draw(answers.Draw(seed))), path)
        except trial.Problem as problem:
            got[case] = str(problem)
    return got


def filled(text, bodies):
    """A module's text in which blank functions, "module.name", have got these bodies."""
    lines, tree, places = text.splitlines(), ast.parse(text), {}
    for name, body in bodies.items():
        node = definition(tree, name.split(".")[1:])
        body = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * node.body[0].col_offset)
        places[node.body[0].end_lineno] = node.end_lineno, body.splitlines()
    for start, (end, body) in sorted(places.items(), reverse=True):
        lines[start:end] = body
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """made(name) -> the folder of a hand-out, made once, with known mistakes alone."""
    folders = {}

    def make_once(name):
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("hand-outs") / name
            with pytest.MonkeyPatch.context() as changed:
                changed.setattr(answers, "variants", each_mistake)
                if name not in ("dabert", "knowledge"):         # of which messages are read
                    changed.setattr(answers, "mistakes_of", lambda *given: {})
                assert make_exercise.main([name, "--out", str(folders[name])]) == 0
        return folders[name]

    return make_once


@pytest.fixture
def checked(made, tmp_path, monkeypatch, capsys):
    """checked(name, {function: body}, change) -> (exit status, what check.py says) of a copy of a
    hand-out in which functions have got a body, and the module's text a change."""
    def run(name, bodies=(), change=lambda text: text):
        modules = {task.module for task in EXERCISES[name].tasks}
        shutil.copy(made(name) / "cases.npz", tmp_path)
        for module in modules:
            written = {function: body for function, body in dict(bodies).items()
                       if function.startswith(f"{module}.")}
            blank = (made(name) / f"{module}.py").read_text("utf-8")
            if text := change(filled(blank, written)):
                (tmp_path / f"{module}.py").write_text(text, "utf-8")
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.syspath_prepend(tmp_path)
        for user in (check, trial):
            monkeypatch.setattr(user, "HERE", tmp_path)
        capsys.readouterr()
        return check.main([]), capsys.readouterr().out

    return run


def score(out, function):
    """What the table says of a function: (won, there are, the lines below)."""
    found = re.search(rf" {re.escape(function)} +(\d+)/(\d+)\n((?:    .*\n)*)", out)
    return int(found[1]), int(found[2]), " ".join(found[3].split())


@functools.cache
def statements(text):
    """Simple statements of a text, each in one way of writing."""
    return {ast.unparse(node) for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr))
            and not isinstance(getattr(node, "value", None), (ast.Constant, type(None)))}


# ---- Hand-outs ----------------------------------------------------------------------------------

@each_exercise
def test_a_hand_out_keeps_what_stands_around_a_solution(name, made):
    """Signature and docstring stay; files that the page names are there."""
    for task in EXERCISES[name].tasks:
        before, after = (definition(
            ast.parse((folder / f"{task.module}.py").read_text("utf-8")), task.path)
            for folder in (ROOT, made(name)))
        assert ast.dump(before.args) == ast.dump(after.args) and len(after.body) == 2
        assert ast.get_docstring(before) == ast.get_docstring(after)
    page = (made(name) / "EXERCISE.md").read_text("utf-8")
    for file in re.findall(r"`(\w+\.(?:py|md|npz|txt))`", page):
        assert (made(name) / file).is_file()


@each_exercise
def test_no_statement_of_a_solution_stands_in_a_hand_out(name, made):
    """Neither the library's nor a student's way of writing it, in no file; nor its kernels."""
    solutions = set()
    for task in EXERCISES[name].tasks:
        solutions |= statements(task.source) | statements(task.solution)
    assert len(solutions) > 5
    for path in made(name).rglob("*.py"):
        assert statements(path.read_text("utf-8")) & solutions <= HARMLESS, path
    assert not (made(name) / "support/kernels.py").exists()
    described, _ = trial.load_cases(made(name) / "cases.npz")
    assert "lassic mistake" not in json.dumps(described)


@each_exercise
def test_blank_functions_score_nothing_and_the_library_all(name, checked, made, monkeypatch,
                                                           capsys):
    for user in (check, trial):                             # while the modules are the library's
        monkeypatch.setattr(user, "HERE", made(name))
    assert check.main([]) == 0
    out, functions = capsys.readouterr().out, len(EXERCISES[name].tasks)
    assert re.search(rf"{name}, (\d+) of \1 points", out)
    scores = re.findall(r" (\d+)/\1$", out, re.M)
    assert len(scores) == functions
    status, out = checked(name)
    assert status == 1 and f"{name}, 0 of {sum(map(int, scores))} points" in out
    assert out.count("is not written yet") + out.count("make that right first") == functions


def test_a_hand_out_is_enough_by_itself(made):
    """No clone of the project, no path to one; one function of one exercise is asked for."""
    folder = made("drrnet")
    run = subprocess.run([sys.executable, "check.py", "matching"], cwd=folder, env={},
                         capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr == ""
    assert "matching is not written yet" in run.stdout and "highway" not in run.stdout


# ---- What the check says ------------------------------------------------------------------------

@pytest.mark.parametrize("key", TASKS)
def test_each_mistake_gets_its_message(key, monkeypatch):
    """Every known mistake of a function costs a point and is told from all others."""
    task = TASKS[key]
    monkeypatch.setattr(answers, "variants", each_mistake)
    right, mistakes = answers.right_answers(task), answers.mistakes_of(task)
    assert len({mistake.name for mistake in task.mistakes}) == len(task.mistakes) > 1
    for mistake in task.mistakes:
        got = tried(answers.edited(task, mistake.edits), task)
        points, said = check.judge(right, got, lambda: mistakes)
        assert not all(points.values())
        assert any(f": {mistake.name}. {mistake.advice}" in text for text in said.values()), said


TWISTS = {twist.says: (exercise, task, twist) for exercise in EXERCISES.values()
          for task in exercise.tasks for twist in task.twists}


@pytest.mark.parametrize("says", TWISTS)
def test_a_twist_is_right_and_the_library_is_not(says, monkeypatch):
    """Each of its edits changes something. The docstring says so; the library has its message."""
    exercise, task, twist = TWISTS[says]
    monkeypatch.setattr(answers, "simple_edits", lambda source: [])
    for edit in twist.edits:
        assert any(Twist("", (edit,)).applied(text) != text for text in (task.source, *task.steps))
    library, new = answers.right_answers(task), task.twisted(twist)
    tasks = tuple(new if other is task else other for other in exercise.tasks)
    with answers.installed(replace(exercise, tasks=tasks)):
        right, mistakes = answers.right_answers(new), answers.mistakes_of(new)
        points, said = check.judge(right, library, lambda: mistakes)
        got = tried(answers.compiled(new, new.solution), new)
    assert not all(points.values()) and LIBRARY in str(said) and says in str(said)
    assert all(check.judge(right, got, dict)[0].values())
    assert all(check.judge(library, answers.right_answers(task), dict)[0].values())   # it is again
    handed_out = "\n".join(make_exercise.blank(new, "equation"))
    assert f"{HERE}{says}" in " ".join(handed_out.split())
    assert not re.search(r"\n {0,3}\S", handed_out)             # a line as deep as its neighbours
    assert max(map(len, handed_out.splitlines())) <= 100 - 4 * (len(task.path) - 1)


def test_a_variant_changes_three_functions_of_each_exercise():
    drawn = {tuple(task.twist and task.twist.says for task in twisted(exercise, number).tasks)
             for exercise in EXERCISES.values() for number in range(9)}
    assert {sum(map(bool, twists)) for twists in drawn} == {3} and len(drawn) > 40


ABS = "(q[:, :, :, None] - k[:, :, None]).abs().sum(-1)"


@pytest.mark.parametrize("body, won, said", [
    (f"return {ABS}.permute(0, 2, 3, 1)", 0, r"the axes stand in another order"),
    (f"return {ABS} + 1", 0, r"example, values: .*plus 1, everywhere"),
    (f"return {ABS} + torch.rand(())", 0, r"Two calls with the same arguments return different"),
    (f"return {ABS}.detach()", 2, r"gradients: The gradient of q.* A gradient of 0: detach"),
    (f"{ABS}", 0, r"returns None \(is `return` missing\?\), expected a tensor"),
    ("return q.sum(-1)[..., :, None] - k.sum(-1)[..., None, :]", 0, "As printed: abs left out"),
    ("x = 1\nreturn q @ k", 0, r"semmatch.py, line \d+: return q @ k -> RuntimeError: Exp"),
    (f"q.data.add_(1)\nk.data.add_(1)\nreturn {ABS}", 0, r"changes its argument `q`"),
    (f"return 0 * {ABS}", 0, "yours is 0 everywhere"),
    ("while True:\n    q = q + 0", 0, r"no answer after 0.3 seconds")])
def test_messages(body, won, said, checked, monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", 0.3 if "while" in body else 20)
    _, out = checked("dabert", {"semmatch.difference_scores": body})
    points, total, lines = score(out, "difference_scores")
    assert points * 3 == won * total and re.search(said, lines), lines


def test_functions_are_checked_by_their_names(checked, capsys):
    checked("dabert", {"semmatch.difference_scores": f"return {ABS}"})
    for name in ("difference_scores", "DabertAttention.fuse", "fuse"):
        assert check.main([name]) == int("fuse" in name)
        out = capsys.readouterr().out
        assert len(re.findall(r" \d+/\d+$", out, re.M)) == 1 and f"{name} " in out
    assert check.main(["difference_score"]) == 2
    assert "no function difference_score here; there are" in capsys.readouterr().err


def test_what_calls_a_wrong_function_says_so(checked):
    """It is not blamed for the numbers of another one."""
    fuse = "return gated_fusion(o_sem, o_knw, self.W_otildesem, self.W_otildeknw, self.W_gfuse)[0]"
    _, out = checked("knowledge", {
        "semmatch.gated_fusion": "return W_sem(sem).tanh(), sem[..., :1]",
        "semmatch.KnowledgeAttention.fuse": fuse})
    assert score(out, "KnowledgeAttention.fuse")[2] == \
        "calls guided_attention, gated_fusion, filtration_gate: make that right first"


@pytest.mark.parametrize("old, new, said", [
    ("def gated_fusion(", "def gated_fusion((", r"semmatch.py, line \d+: .*: def gated_fusion"),
    ("def gated_fusion(", "def my_fusion(", r"semmatch.py has no gated_fusion: its name must stay"),
    ("gated_fusion(sem: Tensor, other: Tensor, ", "gated_fusion(",
     r"cannot be called as its signature was: TypeE"),
    ("", None, "semmatch.py is missing")])
def test_a_file_that_cannot_be_read(old, new, said, checked):
    status, out = checked("dabert", (), lambda text: new and text.replace(old, new, 1))
    assert status == 1 and re.search(said, score(out, "gated_fusion")[2])
    assert re.search(r"dabert, 0 of \d+ points", out) and "Traceback" not in out


@pytest.mark.parametrize("broken", ["return (sem", "if sem\n    pass", "x = 1\n  y = 2", "x = 'a"])
def test_what_is_no_python_costs_one_function(broken, checked):
    """The others are tried; the line is the student's."""
    _, out = checked("dabert", {"semmatch.difference_scores": f"return {ABS}",
                                "semmatch.gated_fusion": broken})
    assert score(out, "difference_scores")[:2] == (6, 6)
    assert re.search(r"semmatch.py, line \d+: ", score(out, "gated_fusion")[2])
    assert "filtration_gate is not written yet" in out


# ---- The commands -------------------------------------------------------------------------------

def test_a_variant_has_a_key_and_the_third_level_no_departs(tmp_path, monkeypatch):
    """The folder says that it is one, not which. A key that does not fit its number is none."""
    monkeypatch.setattr(answers, "mistakes_of", lambda *given: {})
    out, key = tmp_path / "dabert", tmp_path / "dabert.key"
    assert make_exercise.main(["dabert", "--out", str(out), "--variant", "7",
                               "--level", "paper"]) == 0
    texts = [path.read_text("utf-8") for path in (*out.rglob("*.py"), out / "EXERCISE.md")]
    assert not [text for text in texts if re.search(r"^\s*Departs:", text, re.M)]
    assert "`Here:`" in texts[-1] and "`Departs:`" in texts[-1] and "ariant 7" not in str(texts)
    exercise, text = twisted(EXERCISES["dabert"], 7), key.read_text("utf-8")
    assert make_exercise.read_key(key) == exercise and text.count("\nsemmatch.") == 3
    key.write_text(text.replace("variant 7", "variant 8"), "utf-8")
    with pytest.raises(ValueError, match="expected a key"):
        make_exercise.read_key(key)


def test_the_third_level_does_not_say_what_is_wrong_with_the_page():
    printed = {level: {mistake.message for task in make_exercise.asked("dabert", level).tasks
                       for mistake in task.mistakes if mistake.kind == PRINTED}
               for level in make_exercise.LEVELS}
    assert len(printed["equation"]) == 4 and printed["equation"] == printed["steps"]
    assert [*printed["paper"]] == [
        "As printed: this is the page. Does it do what the sentence beside it says?"]


def test_work_is_not_overwritten(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(answers, "mistakes_of", lambda *given: {})
    command, path = ["dabert", "--out", str(tmp_path)], tmp_path / "semmatch.py"
    path.write_text("my work\n", "utf-8")
    assert make_exercise.main(command) == 2 and path.read_text("utf-8") == "my work\n"
    error = capsys.readouterr().err
    assert "semmatch.py" in error and "--force" in error and error.count("\n") == 1
    assert make_exercise.main([*command, "--force"]) == 0
    assert "not written yet" in path.read_text("utf-8")
