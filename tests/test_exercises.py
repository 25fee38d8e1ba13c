"""The exercises of tutorials/: blank copies fail, the library passes, each classic mistake gets its message.

A mistake is planted twice: as the edit that the checker itself knows (every one of them), and, for the best known, in
words that a student would use, which share nothing with the library's text.
"""
import ast
import inspect
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tutorials"))

import check_exercise  # noqa: E402
import make_exercise  # noqa: E402
from exercises import EXERCISES, find, library  # noqa: E402

TASKS = {f"{name}-{task.function}": (name, task) for name, exercise in EXERCISES.items() for task in exercise.tasks}


def body_replaced(text, path, body):
    """The text of a module in which the function of a path has another body, behind its docstring."""
    lines = text.splitlines()
    node = make_exercise.definition(ast.parse(text), path)
    indent = " " * node.body[0].col_offset
    first = node.body[0].end_lineno
    lines[first:node.end_lineno] = textwrap.indent(textwrap.dedent(body).strip("\n"), indent).splitlines()
    return "\n".join(lines) + "\n"


def messages(folder, task, exercise):
    """({point: won}, all that is said) of one function in a folder."""
    points, said = check_exercise.check_task(task, check_exercise.load(folder, task.module), exercise.tasks)
    return points, " | ".join(f"{where}: {text}" for where, text in said)


def written(folder, name, function, body, more=("\0", "")):
    """The same, of a blank copy of an exercise in which one function has got a body. more: (old, new) of its text."""
    exercise = EXERCISES[name]
    task = next(task for task in exercise.tasks if task.function == function)
    blank = make_exercise.student_version(task.module, exercise)
    (folder / f"{task.module}.py").write_text(body_replaced(blank, task.path, body).replace(*more), "utf-8")
    return messages(folder, task, exercise)


# ---- Blank copies and the library ----------------------------------------------------------------------------------

@pytest.mark.parametrize("name", EXERCISES)
def test_a_blank_copy_scores_nothing(name, tmp_path, capsys):
    assert make_exercise.main([name, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert check_exercise.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.count("not written yet") == len(EXERCISES[name].tasks)
    assert re.search(rf"{name}, 0 of \d\d points", out.splitlines()[-1])
    scores = re.findall(r"(\d+)/(\d+)$", out, re.M)
    assert len(scores) == len(EXERCISES[name].tasks) and all(won == "0" and int(of) > 0 for won, of in scores)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_library_passes(name, tmp_path, capsys):
    for module in {task.module for task in EXERCISES[name].tasks}:
        shutil.copy(ROOT / f"{module}.py", tmp_path)
    (tmp_path / "EXERCISE.md").write_text(f"# Exercise {name}: by the library\n", "utf-8")
    assert check_exercise.main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    won, total = re.search(rf"{name}, (\d+) of (\d+) points", out).groups()
    assert won == total and int(total) > len(EXERCISES[name].tasks)


@pytest.mark.parametrize("name", EXERCISES)
def test_a_copy_keeps_signatures_and_docstrings_and_gives_no_answer(name):
    exercise = EXERCISES[name]
    for module in {task.module for task in exercise.tasks}:
        original = ast.parse((ROOT / f"{module}.py").read_text("utf-8"))
        text = make_exercise.student_version(module, exercise)
        copy = ast.parse(text)
        for task in (task for task in exercise.tasks if task.module == module):
            before, after = (make_exercise.definition(tree, task.path) for tree in (original, copy))
            assert ast.dump(before.args) == ast.dump(after.args)
            assert ast.get_docstring(before) == ast.get_docstring(after) and len(after.body) == 2
            comments = "\n".join(text.splitlines()[after.body[0].end_lineno:after.end_lineno])
            assert all(f"# {number}. {step[:20]}" in comments for number, step in enumerate(task.steps, 1))
        for function in exercise.removed:
            if function.startswith(f"{module}."):
                assert make_exercise.definition(original, function.split(".")[1:])
                with pytest.raises(StopIteration):
                    make_exercise.definition(copy, function.split(".")[1:])
        changed = {ast.dump(node) for node in copy.body} - {ast.dump(node) for node in original.body}
        assert len(changed) <= len(exercise.tasks) + len(exercise.removed)


def test_shapes_on_the_way():
    lines = ["    beta = f(q)  # (B, H, L, L)", "    beta = beta / 2  # (B, H, L, L)", "    x = 1  # (in words) more",
             "    return beta @ v  # (B, L, d)"]
    assert make_exercise.shapes(lines) == ["# beta      (B, H, L, L)", "# returned  (B, L, d)"]


def test_examples_are_calculated_by_hand(tmp_path):
    """|1-3| + |2-1| = 3, |0-3| + |0-1| = 4; and the paper's pair, where only "exceeded" agrees in all three."""
    make_exercise.main(["dabert", "--out", str(tmp_path / "a")])
    assert "`difference_scores([[[[1, 2], [0, 0]]]], [[[[3, 1], [1, 2]]]])` is `[[[[3, 0], [4, 3]]]]`" in (
        tmp_path / "a" / "EXERCISE.md").read_text("utf-8")
    make_exercise.main(["dafa", "--out", str(tmp_path / "b")])
    page = (tmp_path / "b" / "EXERCISE.md").read_text("utf-8")
    pair = '"Apple exceeded company", "company exceeded Apple"'
    assert f"`tree_similarity({pair})` is `[[2, 0, 2], [0, 4, 0], [2, 0, 2]]`" in page
    assert f"`dependency_matrix({pair}, [1, 1, 1], [1, 1, 1])` is `[[2, 0, 2], [0, 5, 0], [2, 0, 2]]`" in page


# ---- Classic mistakes ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("key", TASKS)
def test_each_mistake_gets_its_message(key, tmp_path):
    """Every known mistake of a function, planted into the library's text: no point for it all, its message alone."""
    name, task = TASKS[key]
    library_text = (ROOT / f"{task.module}.py").read_text("utf-8")
    original = inspect.getsource(find(library(task.module), task.path))
    assert len({mistake.name for mistake in task.mistakes}) == len(task.mistakes) > 1
    for mistake in task.mistakes:
        planted = original
        for old, new in (*task.plain, *mistake.edits):
            assert planted.count(old) == 1, (mistake.name, old)
            planted = planted.replace(old, new)
        (tmp_path / f"{task.module}.py").write_text(library_text.replace(original, planted), "utf-8")
        points, said = messages(tmp_path, task, EXERCISES[name])
        assert not all(points.values()), mistake.name
        assert said.partition(": ")[2] == f"Classic mistake: {mistake.name}. {mistake.advice}", mistake.name


STUDENTS = [
    ("bert", "bert_min.split_heads", "reshaped without exchanging axes",
     "return x.reshape(x.size(0), heads, x.size(1), x.size(2) // heads)"),
    ("bert", "bert_min.attention_weights", "softmax over the wrong axis", """
     while mask.dim() < scores.dim():
         mask = mask.unsqueeze(1)
     e = torch.exp(scores - scores.max()) * mask
     return e / e.sum(-2, keepdim=True).clamp(min=1e-30)
     """),
    ("bert", "bert_min.SelfAttention.attend", "dropped √d", """
     scores = torch.einsum("bhik,bhjk->bhij", q, k)
     weights = torch.softmax(scores.masked_fill(mask[:, None, None] == 0, -1e30), -1) * mask[:, None, None]
     if trace is not None:
         trace["attention"] = weights.detach()
     return torch.cat(list((weights @ v).unbind(1)), -1)
     """),
    ("dabert", "semmatch.difference_scores", "abs left out", """
     rows = [[(q[:, :, i] - k[:, :, j]).sum(-1) for j in range(k.shape[2])] for i in range(q.shape[2])]
     return torch.stack([torch.stack(row, -1) for row in rows], -2)
     """),
    ("dabert", "semmatch.difference_attention", "mask before the scaling", """
     beta = difference_scores(q, k) + (1.0 - mask.to(q.dtype))[:, None, None, :] * -10000.0
     weights = torch.softmax(beta / math.sqrt(k.size(3)), dim=3)
     record(trace, difference=weights)
     return weights @ v
     """),
    ("dabert", "semmatch.guided_attention", "concatenated guide", """
     keys, queries = W_values(values).tanh(), W_guide(guide).tanh()
     both = torch.cat([keys[:, None].expand(-1, queries.shape[1], -1, -1),
                       queries[:, :, None].expand(-1, -1, keys.shape[1], -1)], -1)
     weights = attention_weights(both @ torch.cat([w.weight[0], w.weight[0]]), mask[:, None])
     return weights @ values, weights
     """),
    ("dabert", "semmatch.guided_attention", "concatenated guide", """
     weights = attention_weights(w(W_values(values).tanh())[:, None, :, 0].repeat(1, len(guide[0]), 1), mask[:, None])
     return weights @ values, weights
     """),
    ("dabert", "semmatch.filtration_gate", "replaced instead of added", """
     x = v if W_v is None else W_v(v)
     f = torch.ones_like(v[..., :1]) if W_f is None else torch.sigmoid(W_f(torch.cat((sem, x), dim=2)))
     return f * torch.tanh(W_l(v)), f
     """),
    ("dafa", "priors.tree_similarity", "case not folded", """
     M = np.zeros((len(a.words), len(b.words)))
     with_root = [None, *a.words], [None, *b.words]
     for i, j in np.ndindex(M.shape):
         same = int(a.words[i] == b.words[j]) + int(with_root[0][a.heads[i]] == with_root[1][b.heads[j]])
         M[i, j] = same * (theta if a.relations[i] == b.relations[j] else 1)
     return M
     """),
    ("dafa", "priors.subgraph_similarity", "α for each pair of children", """
     def S(i, j):
         if a.symbols[i + 1] != b.symbols[j + 1] or a.relations[i] != b.relations[j]:
             return 0.0
         x, y = np.flatnonzero(a.heads == i + 1), np.flatnonzero(b.heads == j + 1)
         return sum(alpha + nu * S(p, q) for p in x for q in y)
     return np.array([[float(S(i, j)) for j in range(len(b.heads))] for i in range(len(a.heads))])
     """),
    ("dafa", "semmatch.spread_prior", "transposed prior", """
     out = torch.full((*word_index.shape, word_index.shape[1]), elsewhere, dtype=prior.dtype)
     for b, i, j in np_index(out.shape):
         x, y = word_index[b, i], word_index[b, j]
         if x >= 0 and y >= 0 and segment[b, i] != segment[b, j]:
             out[b, i, j] = prior[b, min(x, prior.shape[1] - 1), min(y, prior.shape[2] - 1)]
     return out
     """.replace("np_index(out.shape)", "torch.cartesian_prod(*map(torch.arange, out.shape)).tolist()")),
    ("dafa", "semmatch.calibrated_attention", "mask before the product", """
     scores = q @ k.mT / math.sqrt(q.size(3)) + (~mask)[:, None, None] * -10000.0
     scores = scores * prior.unsqueeze(1)
     weights = torch.softmax(scores.masked_fill(~mask[:, None, None], 0) * 0 + scores, -1)
     record(trace, calibrated=weights)
     return torch.einsum("bhij,bhjk->bhik", weights, v)
     """),
    ("dafa", "semmatch.calibrated_attention", "transposed prior", """
     weights = attention_weights(torch.einsum("bhik,bhjk->bhij", q, k) / q.size(3) ** 0.5
                                 + torch.einsum("bij->bji", prior).unsqueeze(1), mask)
     record(trace, calibrated=weights)
     return weights @ v
     """),
    ("knowledge", "semmatch.co_attention", "softmax over the wrong axis", """
     omega = torch.nan_to_num(torch.softmax(scores, 1), 0.0)
     K = (omega + omega.mT) / 2
     return K.log(), omega @ hidden
     """),
    ("drrnet", "semmatch.attentive_pooling", "softmax over the wrong axis", """
     alpha = torch.softmax(w(torch.tanh(W(states))), -1)[..., 0] * mask
     return torch.einsum("bn,bnd->bd", alpha, states), alpha
     """),
    ("drrnet", "semmatch.choose", "arg-max", """
     m = w_d(torch.tanh(keys + clue.unsqueeze(1))).squeeze(2)
     weights = torch.zeros_like(m)
     for row in range(len(m)):
         if mask[row].any():
             weights[row, (beta * m[row]).masked_fill(~mask[row], -math.inf).argmax()] = 1
     return torch.einsum("bn,bnd->bd", weights, states), weights, m
     """),
    ("ladranet", "semmatch.coverage", "never restarts", "return left - read * (1 / phi)"),
    ("ladranet", "semmatch.layer_mix", "α normalised",
     "return torch.einsum('e,ebld->bld', torch.softmax(alpha, 0), torch.stack(hidden_states))"),
]


@pytest.mark.parametrize("name, function, mistake, body", STUDENTS, ids=[f"{f}-{m}" for _, f, m, _ in STUDENTS])
def test_a_mistake_in_a_students_own_words(name, function, mistake, body, tmp_path):
    points, said = written(tmp_path, name, function, body)
    assert said.partition(": ")[2].startswith(f"Classic mistake: {mistake}. "), said
    assert "Classic mistake" not in said.partition("Classic mistake")[2]


def test_two_mistakes_at_once(tmp_path):
    _, said = written(tmp_path, "dabert", "semmatch.difference_attention", """
        weights = attention_weights(-difference_scores(q, k), mask)
        record(trace, difference=weights)
        return weights @ v
        """)
    assert set(re.findall(r"Classic mistake: ([^.]*)\.", said)) == {"closeness instead of difference", "dropped √d"}


# ---- What else can be wrong ----------------------------------------------------------------------------------------

RIGHT = "(q[:, :, :, None] - k[:, :, None]).abs().sum(-1)"


@pytest.mark.parametrize("body, won, said", [
    (f"return {RIGHT}", {"example", "values", "gradients"}, r"^$"),
    (f"x = {RIGHT}", set(), r"example: returns None \(is `return` missing\?\), expected a tensor"),
    (f"return {RIGHT}, q", set(), r"returns 2 values \(a tensor, a tensor\), expected a tensor"),
    (f"return {RIGHT}.float()", set(), r"is torch.float32, expected torch.float64: make new tensors"),
    (f"return {RIGHT}.detach().numpy()", set(), r"returns a numpy array, expected a tensor"),
    (f"return {RIGHT}.sum(1)", set(), r"values: the result has the shape \(3, 7, 7\) = \(B, L, L\), "
                                       r"expected \(3, 2, 7, 7\) = \(B, H, L, L\)"),
    (f"return {RIGHT}.permute(0, 2, 3, 1)", set(), r"expected \(3, 2, 7, 7\) = \(B, H, L, L\) \(axes exchanged\?\)"),
    (f"return {RIGHT} + 1", set(), r"example: the result at \[0, 0, 0, 0\]: expected 3, got 4; 4 of 4 numbers"),
    (f"return {RIGHT}.detach()", {"example", "values"}, r"gradients: the gradient of q at .*, got 0; .*detach\(\)"),
    ("x = 1\nreturn q @ k", set(), r"semmatch.py, line \d+: return q @ k -> RuntimeError: Expected size"),
    ("return {'q': q}", set(), r"returns a dict, expected a tensor"),
    ("sys.exit(0)", set(), r"NameError"),
    ("raise SystemExit(0)", set(), r"line \d+: raise SystemExit\(0\)"),
    ("raise KeyboardInterrupt", set(), r"line \d+: raise KeyboardInterrupt"),
    ("return difference_scores(q, k)", set(), r"RecursionError"),
])
def test_messages(body, won, said, tmp_path):
    points, text = written(tmp_path, "dabert", "semmatch.difference_scores", body)
    assert {point for point, ok in points.items() if ok} == won
    assert re.search(said, text), text


def test_the_line_of_an_exception_is_the_students(tmp_path):
    _, text = written(tmp_path, "dabert", "semmatch.difference_scores", "x = 1\nreturn q @ k")
    line = int(re.search(r"line (\d+)", text)[1])
    assert (tmp_path / "semmatch.py").read_text("utf-8").splitlines()[line - 1].strip() == "return q @ k"


def test_an_endless_loop_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(check_exercise, "SECONDS", 0.3)
    points, text = written(tmp_path, "dabert", "semmatch.difference_scores", "while True:\n    q = q + 0")
    assert not any(points.values()) and text.startswith("call: no answer after 0.3 seconds")


def test_a_trace_that_is_forgotten_costs_one_point(tmp_path):
    points, text = written(tmp_path, "dafa", "semmatch.calibrated_attention", """
        return attention_weights(q @ k.mT / q.shape[-1] ** 0.5 + prior[:, None], mask) @ v
        """)
    assert [point for point, ok in points.items() if not ok] == ["trace", "gradients"]
    assert text == "trace: trace['calibrated'] is missing: record it"


def test_one_mistake_costs_one_score(tmp_path):
    """A right fuse gets its points though all that it calls is blank, and the blanks are there again afterwards."""
    exercise = EXERCISES["dafa"]
    body = """
        d_star, by_s = guided_attention(d, s, mask, self.W_D, self.W_s, self.w_d)
        s_star, by_d = guided_attention(s, d_star, mask, self.W_S, self.W_dstar, self.w_sstar)
        v, g = gated_fusion(s_star, d_star, self.W_shat, self.W_dhat, self.W_g)
        out, f = filtration_gate(s, v, self.W_v, self.W_l, self.W_f)
        record(trace, semantic_guided=by_s, dependency_guided=by_d, g=g, f=f)
        return self.helper(out)
        """
    helper = '    PRIOR = "dependency"\n', '    PRIOR = "dependency"\n\n    def helper(self, x):\n        return x\n'
    points, text = written(tmp_path, "dafa", "semmatch.DafaAttention.fuse", body, helper)
    assert all(points.values()) and text == ""
    module = check_exercise.load(tmp_path, "semmatch")
    for task in (task for task in exercise.tasks if task.module == "semmatch"):
        points, _ = check_exercise.check_task(task, module, exercise.tasks)
        assert all(points.values()) == (task.path[-1] == "fuse")


def make(folder, name="dabert"):
    assert make_exercise.main([name, "--out", str(folder)]) == 0
    return folder


GATED = "def gated_fusion("


@pytest.mark.parametrize("change, said", [
    (lambda text: text.replace(GATED, GATED[:-1]), r"semmatch.py, line {}: .*: def gated_fusion"),
    (lambda text: text.replace(GATED, f"1 / 0\n{GATED}"), r"semmatch.py, line {}: 1 / 0 -> ZeroDivisionError"),
    (lambda text: None, r"semmatch.py is missing"),
    (lambda text: text.replace(GATED, "def my_fusion("), r"call: semmatch.py has no gated_fusion"),
    (lambda text: text.replace("    def fuse(", "    def my_fuse("), r"semmatch.py has no DabertAttention.fuse"),
    (lambda text: text.replace(f"{GATED}sem, other, ", GATED), r"cannot be called as its signature was: TypeError"),
    (lambda text: text + "\0", r"null byte"),
], ids=["syntax", "import", "missing", "renamed", "method", "signature", "null byte"])
def test_a_file_that_cannot_be_read(change, said, tmp_path, capsys):
    path = make(tmp_path) / "semmatch.py"
    before = path.read_text("utf-8")
    line = before[:before.index(GATED)].count("\n") + 1
    text = change(before)
    path.unlink() if text is None else path.write_text(text, "utf-8")
    capsys.readouterr()
    assert check_exercise.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert re.search(said.format(line), out), out
    assert "0 of 22 points" in out and "Traceback" not in out


# ---- The commands --------------------------------------------------------------------------------------------------

def test_list(capsys):
    for arguments in ([], ["--list"]):
        assert make_exercise.main(arguments) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*EXERCISES]


def test_work_is_not_overwritten(tmp_path, capsys):
    path = make(tmp_path / "a") / "semmatch.py"
    path.write_text("my work\n", "utf-8")
    assert make_exercise.main(["dabert", "--out", str(tmp_path / "a")]) == 2
    assert path.read_text("utf-8") == "my work\n"
    error = capsys.readouterr().err
    assert "semmatch.py" in error and "--force" in error and error.count("\n") == 1
    (tmp_path / "a" / "notes.txt").write_text("mine", "utf-8")
    assert make_exercise.main(["dabert", "--out", str(tmp_path / "a"), "--force"]) == 0
    assert "not written yet" in path.read_text("utf-8") and (tmp_path / "a" / "notes.txt").exists()


@pytest.mark.parametrize("arguments, said", [
    (["dabret"], "no exercise 'dabret'; there are bert, dabert"),
    (["dabert", "--out", "FILE"], "a file, expected a folder"),
    (["dabert", "--out", str(ROOT)], "the library itself")])
def test_mistakes_in_making(arguments, said, tmp_path, capsys):
    (tmp_path / "file").write_text("", "utf-8")
    arguments = [str(tmp_path / "file") if x == "FILE" else x for x in arguments]
    assert make_exercise.main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error and error.startswith("make_exercise.py: ") and error.count("\n") == 1


@pytest.mark.parametrize("page, said", [
    (None, "no EXERCISE.md"), ("# Exercise bart: x\n", "its first line must be"), ("", "its first line must be")])
def test_folders_that_are_none(page, said, tmp_path, capsys):
    assert check_exercise.main([str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    if page is not None:
        (tmp_path / "EXERCISE.md").write_text(page, "utf-8")
    assert check_exercise.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_several_folders_have_a_line_each(tmp_path):
    """In processes of their own: the first one's os._exit does not end the others, nor does it pass."""
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "EXERCISE.md").write_text("# Exercise bert: x\n", "utf-8")
        shutil.copy(ROOT / "bert_min.py", tmp_path / name)
    with open(tmp_path / "a" / "bert_min.py", "a", encoding="utf-8") as file:
        file.write("print('bert, 22 of 22 points', flush=True)\nos._exit(0)\n")
    run = subprocess.run([sys.executable, str(ROOT / "tutorials" / "check_exercise.py"), "a", "b"], cwd=tmp_path,
                         capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    first, second = run.stdout.splitlines()
    assert first == "a: the check itself ended with status 0"
    assert re.fullmatch(r"b: bert, (\d+) of \1 points", second)


# ---- The teacher's page --------------------------------------------------------------------------------------------

def test_the_teachers_page_names_what_is_blanked():
    """Its tables are the table: functions, equations, mistakes, exercise by exercise."""
    text = (ROOT / "tutorials" / "TEACHER.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\w+): (.*?)(?=^## |\Z)", text, re.M | re.S))
    assert sections.keys() == EXERCISES.keys()
    for name, exercise in EXERCISES.items():
        assert sections[name].startswith(f"{exercise.title}\n")
        assert re.search(r"^Teaches: ", sections[name], re.M) and re.search(r"^Time: \d", sections[name], re.M)
        lines = [line for line in sections[name].splitlines() if line.startswith("| `")]
        assert lines == [f"| `{task.function}` | {task.equation} | "
                         + "; ".join(mistake.name.replace("|", "\\|") for mistake in task.mistakes) + " |"
                         for task in exercise.tasks]
