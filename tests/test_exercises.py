"""The exercises of tutorials/: blank copies fail, the library passes, each mistake has its message.

tests/test_mistakes.py plants the mistakes in the library.
"""
import ast
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tutorials"))

import check_exercise  # noqa: E402
import make_exercise  # noqa: E402
from exercises import EXERCISES  # noqa: E402

TASKS = {f"{task.function}-{len(task.mistakes)}": task for exercise in EXERCISES.values()
         for task in exercise.tasks}                            # what papers share, once


def written(folder, name, function, body, change=lambda text: text):
    """(points won, all that is said) where in a blank copy one function has got a body."""
    exercise = EXERCISES[name]
    task = next(task for task in exercise.tasks if task.function == function)
    text = change(make_exercise.student_version(task.module, exercise))
    lines, node = text.splitlines(), make_exercise.definition(ast.parse(text), task.path)
    body = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * node.body[0].col_offset)
    lines[node.body[0].end_lineno:node.end_lineno] = body.splitlines()
    (folder / f"{task.module}.py").write_text("\n".join(lines) + "\n", "utf-8")
    module = check_exercise.load(folder, task.module)
    points, said = check_exercise.check_task(task, module, exercise.tasks)
    won = {point for point, ok in points.items() if ok}
    return won, " | ".join(f"{where}: {text}" for where, text in said)


# ---- Blank copies and the library ---------------------------------------------------------------

@pytest.mark.parametrize("name", EXERCISES)
def test_a_blank_copy_scores_nothing_and_the_library_all(name, tmp_path, capsys):
    """A copy keeps signatures and docstrings, and lacks what would give an answer away."""
    assert make_exercise.main([name, "--out", str(tmp_path)]) == 0
    exercise = EXERCISES[name]
    modules = {task.module for task in exercise.tasks}
    originals, copies = ({module: ast.parse((folder / f"{module}.py").read_text("utf-8"))
                          for module in modules} for folder in (ROOT, tmp_path))
    for task in exercise.tasks:
        before, after = (make_exercise.definition(trees[task.module], task.path)
                         for trees in (originals, copies))
        assert ast.dump(before.args) == ast.dump(after.args) and len(after.body) == 2
        assert ast.get_docstring(before) == ast.get_docstring(after)
    for module, _, path in (removed.partition(".") for removed in exercise.removed):
        if module == "support":
            assert not (tmp_path / f"support/{path}.py").exists()
            assert f"support.{path}" not in (tmp_path / "semmatch.py").read_text("utf-8")
        else:
            with pytest.raises(StopIteration):
                make_exercise.definition(copies[module], path.split("."))
    capsys.readouterr()
    assert check_exercise.main([str(tmp_path)]) == 1
    out, functions = capsys.readouterr().out, len(exercise.tasks)
    scores = re.findall(r" 0/(\d+)$", out, re.M)
    assert out.count("not written yet") == len(scores) == functions
    assert f"{name}, 0 of {sum(map(int, scores))} points" in out
    for module in modules:
        shutil.copy(ROOT / f"{module}.py", tmp_path)
    assert check_exercise.main([str(tmp_path)]) == 0
    assert re.search(rf"{name}, (\d+) of \1 points", capsys.readouterr().out)


# ---- What the checker says ----------------------------------------------------------------------

@pytest.mark.parametrize("key", TASKS)
def test_each_mistake_gets_its_message(key):
    """Every known mistake of a function costs a point and is told from all others."""
    task = TASKS[key]
    right = {case: check_exercise.run_case(check_exercise.right_function(task), task, case)
             for case in task.cases}
    assert len({mistake.name for mistake in task.mistakes}) == len(task.mistakes) > 1
    for mistake in task.mistakes:
        function, runs, failed = check_exercise.edited(task, mistake.edits), {}, []
        for case in task.cases:
            try:
                runs[case] = check_exercise.run_case(function, task, case)
                check_exercise.judge(right[case], runs[case])
            except check_exercise.Problem:
                failed.append(case)
            except Exception:                       # a mistake need not run on every case
                pass
        assert failed and check_exercise.recognize(task, runs, failed) == (mistake,), mistake.name


RIGHT = "(q[:, :, :, None] - k[:, :, None]).abs().sum(-1)"


@pytest.mark.parametrize("body, won, said", [
    (f"return {RIGHT}.permute(0, 2, 3, 1)", set(),
     r"expected \(3, 2, 7, 7\) = \(B, H, L, L\) \(axes exchanged\?\)"),
    (f"return {RIGHT} + 1", set(), r"at \[0, 0, 0, 0\]: expected 3, got 4; 4 of 4 numbers"),
    (f"return {RIGHT}.detach()", {"example", "values"}, r"gradients: the gradient of q .*, got 0"),
    ("x = 1\nreturn q @ k", set(), r"semmatch.py, line \d+: return q @ k -> RuntimeError: Exp"),
    ("while True:\n    q = q + 0", set(), r"^call: no answer after 0.3 seconds")])
def test_messages(body, won, said, tmp_path, monkeypatch):
    monkeypatch.setattr(check_exercise, "SECONDS", 0.3 if "while" in body else 20)
    points, text = written(tmp_path, "dabert", "semmatch.difference_scores", body)
    assert points == won and re.search(said, text), text


def test_one_mistake_costs_one_score(tmp_path):
    """A right fuse gets its points though what it calls is blank; a forgotten trace costs one."""
    won, said = written(tmp_path, "dafa", "semmatch.DafaAttention.fuse", """
        d_star, by_s = guided_attention(d, s, mask, self.W_D, self.W_s, self.w_d)
        s_star, by_d = guided_attention(s, d_star, mask, self.W_S, self.W_dstar, self.w_sstar)
        v, g = gated_fusion(s_star, d_star, self.W_shat, self.W_dhat, self.W_g)
        out, f = filtration_gate(s, v, self.W_v, self.W_l, self.W_f)
        record(trace, dependency_guided=by_d, g=g, f=f)
        return self.helper(out)
        """, lambda text: text.replace(
            '    PRIOR = "dependency"\n',
            '    PRIOR = "dependency"\n\n    def helper(self, x):\n        return x\n'))
    assert won == {"values", "padding"}
    assert said == "trace: trace['semantic_guided'] is missing: record it"


@pytest.mark.parametrize("old, new, said", [
    ("def gated_fusion(", "def gated_fusion", r"semmatch.py, line \d+: .*: def gated_fusion"),
    ("def gated_fusion(", "def my_fusion(", r"call: semmatch.py has no gated_fusion"),
    ("gated_fusion(sem, other, ", "gated_fusion(", r"cannot be called as its signature was: TypeE"),
    ("", None, "semmatch.py is missing")])
def test_a_file_that_cannot_be_read(old, new, said, tmp_path, capsys):
    make_exercise.main(["dabert", "--out", str(tmp_path)])
    path = tmp_path / "semmatch.py"
    text = path.read_text("utf-8")
    path.unlink() if new is None else path.write_text(text.replace(old, new, 1), "utf-8")
    assert check_exercise.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert re.search(said, out) and "0 of 22 points" in out and "Traceback" not in out


# ---- The commands -------------------------------------------------------------------------------

def test_work_is_not_overwritten(tmp_path, capsys):
    command, path = ["dabert", "--out", str(tmp_path)], tmp_path / "semmatch.py"
    path.write_text("my work\n", "utf-8")
    assert make_exercise.main(command) == 2 and path.read_text("utf-8") == "my work\n"
    error = capsys.readouterr().err
    assert "semmatch.py" in error and "--force" in error and error.count("\n") == 1
    assert make_exercise.main([*command, "--force"]) == 0
    assert "not written yet" in path.read_text("utf-8")


def test_the_teachers_page_has_the_table():
    """Functions, equations, mistakes, exercise by exercise."""
    text = (ROOT / "tutorials/TEACHER.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\w+): (.*?)(?=^## |\Z)", text, re.M | re.S))
    assert sections.keys() == EXERCISES.keys()
    for name, exercise in EXERCISES.items():
        assert sections[name].startswith(f"{exercise.title}\n")
        assert re.search(r"^Teaches: .*^Time: \d", sections[name], re.M | re.S)
        rows = []
        for task in exercise.tasks:
            names = "; ".join(mistake.name.replace("|", "\\|") for mistake in task.mistakes)
            rows.append(f"| `{task.function}` | {task.equation} | {names} |")
        assert [line for line in sections[name].splitlines() if line.startswith("| `")] == rows
