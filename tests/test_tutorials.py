"""tutorials/: `check` on right and wrong functions, guesses, points, notebooks.

`.ci/run` runs the lessons themselves, with LESSON=solved.
"""
import ast
import csv
import functools
import inspect
import itertools
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import bert_min
import semmatch
from experiments import groups
from small_runs import ROOT
from support.options import run_command

FOLDER = Path(__file__).resolve().parent.parent / "tutorials"
LESSONS = {int(path.name[0]): path.read_text("utf-8") for path in sorted(FOLDER.glob("[1-7]_*.py"))}
sys.path.append(str(FOLDER))
import build  # noqa: E402
import grade  # noqa: E402
import judge  # noqa: E402
import lesson  # noqa: E402
from demands import FORMS  # noqa: E402
from guesses import GUESSES  # noqa: E402
from tasks import CONFIG, TASKS, B, Draw  # noqa: E402

each_lesson = pytest.mark.parametrize("number", LESSONS)
answers = SimpleNamespace(**{name: task.right for name, task in TASKS.items()})
LISTED = [(name, wrong) for name, task in TASKS.items() for wrong in task.mistakes()]
# Right functions that need nothing of the library but `attention_weights`.
PLAIN = {
    "attention": """def attention(q, k, v, mask):
    return attention_weights(q @ k.mT / q.shape[-1] ** 0.5, mask) @ v
""",
    "difference_scores": """def difference_scores(q, k):
    return (q[..., :, None, :] - k[..., None, :, :]).abs().sum(-1)
""",
    "difference_attention": """def difference_attention(q, k, v, mask):
    return attention_weights(difference_scores(q, k) / q.shape[-1] ** 0.5, mask) @ v
""",
    "guided_attention": """def guided_attention(values, guide, mask, W_values, W_guide, w):
    keys, queries = W_values(values), W_guide(guide)
    weights = attention_weights(w((keys[:, None] + queries[:, :, None]).tanh())[..., 0], mask)
    return weights @ values, weights
""",
    "gated_fusion": """def gated_fusion(sem, other, W_sem, W_other, W_g):
    d, s = W_other(other).tanh(), W_sem(sem).tanh()
    g = W_g(torch.cat([d, s], -1)).sigmoid()
    return g * s + (1 - g) * d, g
""",
    "filtration_gate": """def filtration_gate(sem, v, W_v, W_l, W_f):
    f = W_f(torch.cat([sem, W_v(v)], -1)).sigmoid()
    return sem + f * W_l(v).tanh(), f
""",
    "demand_guide": inspect.getsource(answers.demand_guide)}
BLANK = re.compile(r'^def (\w+)\(.*?\):\n    """.*?"""\n    (?:mask = .*?\n    )?\.\.\.\n',
                   re.M | re.S)


def named(name, function):
    """The function under another name."""
    function.__name__ = name
    return function


def said_of(name, function, by_hand=()):
    """What `check` says of a function, wrapped: it finds the line of an error by a file's name."""
    return judge.judge(name, lambda *arguments: function(*arguments), by_hand)


def solve(number, **other):
    """The script of lesson 2 with PLAIN in the blanks, but these for these names."""
    return BLANK.sub(lambda blank: (PLAIN | other)[blank[1]].rstrip() + "\n", LESSONS[number])


# ---- check --------------------------------------------------------------------------------------

def test_the_models_of_lessons_1_and_7_are_the_librarys(monkeypatch):
    """With the library's functions, and its weights. TreesAlone has all of M but equal words."""
    for name, value in (("MODE", "grade"), ("tell", print)):
        monkeypatch.setattr(lesson, name, value)
    d, names = Draw("padding"), grade.names_of_lesson(1) | grade.names_of_lesson(7)
    (words, segment), mask, hidden = d.tokens(), d.mask(), d.states()
    for library, own, prior in (
            (bert_min.SelfAttention, "MyBert", None),
            (semmatch.AlignedAttention, "MyAligned", d.integer(2, B, d.n, d.m).double())):
        right, mine = d.fill(library(CONFIG)).eval(), names[own](CONFIG).double().eval()
        mine.load_state_dict(right.state_dict())
        outs = [layer(hidden, mask, None if prior is None else layer.spread(prior, words, segment))
                for layer in (right, mine)]
        torch.testing.assert_close(*outs)
    a, b = (SimpleNamespace(parse=parse) for parse in d.parses())
    M, alone = answers.tree_similarity(a.parse, b.parse), names["HeadsAndRelations"]().matrix(a, b)
    same = answers.equal_words(a.parse.words, b.parse.words) == 1
    assert (alone == M)[~same].all() and (alone < M)[same].all() and {*alone.flat} == {0, 1, 2}


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
    ("difference_scores", lambda q, k: answers.difference_scores(q, k).sum(1), "(B, H, L, L)"),
    ("difference_scores", lambda q, k: (answers.difference_scores(q, k), k), "results: 2"),
    ("difference_scores", lambda q, k: answers.difference_scores(q, k).half(), "float16"),
    ("difference_scores", lambda q, k: torch.from_numpy(
        answers.difference_scores(q, k).numpy()), "Can't call numpy() on Tensor that requires"),
    ("difference_scores", lambda q, k: answers.difference_scores(q, k).detach(), "gradients"),
    ("difference_scores", lambda q, k: 3.7 * answers.difference_scores(q, k), "times 3.7"),
    ("difference_scores", lambda q, k: 1.001 * answers.difference_scores(q, k), "times 1.001"),
    ("attention", lambda q, k, v, mask: answers.attention(2 * q, k, v, mask),
     "way, what enters the softmax: 294"),
    ("layer", lambda h, x, W, norm, W_1, *rest: answers.layer(h, x + 1, W, norm, W_1, *rest),
     "way, what enters W: 30"),
    ("gated_fusion", lambda sem, other, W_sem, W_other, W_g: (lambda v, g: (-v, g))(
        *answers.gated_fusion(sem, other, W_sem, W_other, W_g)),
     "Right: result 2. What enters W_other, W_sem, W_g is right."),
    ("masked_loss", lambda scores, pieces: scores.sum(), "yours calls none"),
    ("masked_loss", lambda scores, pieces: -scores.log_softmax(0)[:, 0].mean(), "another axis"),
    ("equal_words", lambda a, b: answers.equal_words(a, b).tolist(), "list of lists"),
    ("coverage", lambda left, read, phi, mask: torch.where(
        ((left - read / phi <= 0) | ~mask).all(1, True), 1.0, left - read / phi), "5e-07"),
    ("choose_left", lambda *x: answers.choose_left(
        *x[:-1], x[-1].where(x[-1] <= 0, x[-1].clamp(min=2e-6))), "wrong"),
    ("difference_scores", lambda q, k: answers.difference_scores(q, k) - 2, "plus -2"),
    ("layer", lambda *x: answers.layer(*x) + torch.where(x[0] < 99, 0, x[0] / 0),
     "gradients are nan"),
    ("co_attention", lambda hidden, s: answers.co_attention(hidden, s.mT), ""),
    ("masked_loss", lambda scores, pieces: torch.nn.functional.cross_entropy(scores, pieces), ""),
    ("tree_similarity", lambda a, b: torch.as_tensor(answers.tree_similarity(a, b)).long(), "")])
def test_mistakes_that_nobody_listed(name, wrong, words):
    """The message has the words that help. Functions without words are right."""
    said = judge.judge(name, wrong)
    assert words in said and bool(words) == bool(said) and judge.BY_HAND not in said


def test_the_smallest_case_is_told():
    """The pair by hand, else one token. The words of two parses are named."""
    q, k = torch.tensor([[[[1.0], [1]]]]), torch.tensor([[[[3.0], [1]]]])
    said = said_of("difference_scores", lambda q, k: q @ k.mT, (q, k))
    assert "yours is [[3, 1], [3, 1]], expected [[2, 0], [2, 0]]" in said
    said = said_of("difference_scores", lambda q, k: q @ k.mT)
    assert said.startswith("tried with one token: yours is [[")
    said = said_of("tree_similarity", lambda a, b: 0 * answers.tree_similarity(a, b),
                   Draw("one relation").parses())
    place = r": '\w' \(\w+\) x '\w' \(\w+\)\] yours"
    assert "with the pair by hand" in said and re.search(place, said)


SYMMETRIC = {"spread_prior", "co_attention", "knowledge_factor", "mean_attention_factor"}


@each_lesson
@pytest.mark.filterwarnings("ignore::RuntimeWarning")                   # a mistake may divide by 0
def test_a_pair_by_hand_hides_nothing(number, monkeypatch):
    """The right function gives the result by hand. Each listed mistake, each exchange of two
    arguments or weights of one shape, each transposed weight gives other numbers, and no result is
    symmetric that need not be."""
    by_hand, names = {}, {"__name__": "__main__", "display": print}

    def check(function, *arguments, gives=()):
        by_hand[function.__name__] = arguments, gives
        return TASKS[function.__name__].right

    monkeypatch.setattr(lesson, "MODE", "grade")
    monkeypatch.setattr(lesson, "check", check)
    for i, cell in enumerate(grade.read_cells(build.LESSONS[number - 1])):
        grade.run_cell(cell, f"cell {i}", names)
    for name, (arguments, gives) in by_hand.items():
        if not arguments:                                   # a demand
            continue
        right = judge.results(TASKS[name].right, [judge.copy_of(x) for x in arguments])
        if gives != ():
            gives = gives if isinstance(gives, tuple) else (gives,)
            for x, y in zip(gives, right, strict=True):
                near = torch.isclose(y.double().squeeze(), torch.tensor(x).double(), 0, 1e-4)
                assert near.all(), f"{name} gives {y}, not {x}"
        for what, changed in changed_calls(name, arguments):
            try:
                found = judge.results(*changed)
            except Exception:
                continue
            assert not judge.alike(right, found), f"{name} by hand hides: {what}"
        for x in right if name not in SYMMETRIC else ():
            square = x.dim() > 1 and x.shape[-1] == x.shape[-2] > 1
            assert not square or judge.differ(x, x.mT).any(), f"{name} by hand is symmetric"


def changed_calls(name, arguments):
    """(what is changed, (function, arguments)) for each mistake, exchange and transposed weight."""
    function, copied = getattr(answers, name), lambda: [judge.copy_of(x) for x in arguments]
    for wrong, mistaken in TASKS[name].mistakes().items():
        yield wrong, (mistaken, copied())
    owners = [(None, range(len(arguments)))] + [
        (i, [key for key, part in part_of(x).items() if hasattr(part, "weight")])
        for i, x in enumerate(arguments) if not isinstance(x, torch.nn.Linear)]
    for owner, keys in owners:
        for i, j in itertools.combinations(keys, 2):
            changed = copied()
            parts = changed if owner is None else part_of(changed[owner])
            if form(parts[i]) is not None and form(parts[i]) == form(parts[j]):
                parts[i], parts[j] = parts[j], parts[i]
                yield f"{i} and {j} exchanged", (function, changed)
        for i in keys:
            changed = copied()
            part = (changed if owner is None else part_of(changed[owner]))[i]
            weight = getattr(part, "weight", None)
            if weight is not None and weight.dim() == 2 and 1 < weight.shape[0] == weight.shape[1]:
                part.weight = torch.nn.Parameter(weight.T.clone(), requires_grad=False)
                yield f"{i} transposed", (function, changed)


def part_of(x):
    """The dict of the parts of a module or namespace."""
    if isinstance(x, SimpleNamespace):
        return vars(x)
    return x._modules if isinstance(x, torch.nn.Module) else {}


def form(x):
    """What two things that can be exchanged have in common; None: this is none of them."""
    if isinstance(x, torch.nn.Module) and hasattr(x, "weight"):
        return type(x), x.weight.shape, getattr(x, "bias", None) is None
    return (x.dtype, x.shape) if torch.is_tensor(x) and x.is_floating_point() else None


@pytest.mark.parametrize("name", FORMS)
def test_demands(name):
    """A demand that holds of all forms, of none, of steady ones, or of what is not plain."""
    right = getattr(answers, name)
    assert judge.judge(name, right) == ""
    for wrong, words in ((lambda f: True, "True of the equation as printed"),
                         (lambda f: False, "False of the repair"), (lambda f: None, "not written"),
                         (lambda f: f(1), "f(1)"), (lambda f: right(f) or torch.rand(1) < 0.2,
                                                    "True of")):
        assert words in judge.judge(name, wrong)


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
    """Each is blank and checked, a function with a pair by hand. Each `guess = ...` is revealed."""
    text = LESSONS[number]
    blank = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    for name in (name for name, task in TASKS.items() if task.lesson == number):
        assert re.search(rf"^{name} = check\({name}[,)]", text, re.M), name
        assert ast.unparse(blank[name].body[-1]) == "..."
    told = re.findall(r'reveal\("(.*?)", guess\)', text)
    assert len(told) == text.count("\nguess = ...\n") and set(told) <= GUESSES.keys()


@each_lesson
def test_no_answer_stands_before_or_beside_a_guess(number):
    """The cell of a guess asks and no more. No cell up to it has the reason that is told later."""
    cells = re.split(r"^# %%.*\n", LESSONS[number], flags=re.M)
    for i, cell in enumerate(cells):
        if cell.startswith("guess = ..."):
            assert re.fullmatch(r'guess = \.\.\.\n(reveal|guessed)\("(.*)", guess\)\s*', cell)
            _, _, why = GUESSES[re.search('"(.*)"', cell)[1]]
            above = " ".join("".join(cells[:i + 1]).replace("#", " ").split())
            for sentence in re.split(r"(?<=\.) ", " ".join(why.split())):
                assert sentence not in above


@each_lesson
def test_no_printed_form_shows_the_lines_that_are_asked_for(number):
    """Code in a lesson's script computes no line of its own solutions."""
    script = "".join(LESSONS[number].split())
    for name, task in TASKS.items():
        if task.lesson == number:
            text = PLAIN.get(name, inspect.getsource(task.right))
            for line in re.sub(r'""".*?"""', "", text, flags=re.S).split("\n")[1:]:
                line = "".join(line.split("  #")[0].split())
                assert len(line) < 30 or line not in script, line


@each_lesson
def test_the_built_notebook_is_this_lesson(number):
    path = build.LESSONS[number - 1].with_suffix(".ipynb")
    built = build.notebook_of(LESSONS[number])
    done = (FOLDER / "solved" / path.name).read_text("utf-8")
    assert path.read_text("utf-8") == built, "python tutorials/build.py makes it anew"
    assert build.with_outputs(built, done) == done
    assert '"execution_count": null' not in done, "python tutorials/build.py solved runs it"


def test_a_solved_notebook_has_what_its_cells_print(tmp_path, monkeypatch):
    monkeypatch.setattr(lesson, "lesson_tasks", [])
    path = tmp_path / "1_lesson.py"
    path.write_text("# %%\nimport lesson\nprint(lesson.HERE / 'x')\n")
    printed, = json.loads(build.solved(path))["cells"][0]["outputs"]
    assert printed["text"] == ["x\n"]


@pytest.mark.parametrize("function, words", [
    (functools.partial(answers.attention), "check.partial.*def"),
    (answers.attention, "attention: not written yet: this is the library's"),
    (named("attention", lambda q, k, v, mask: v), "attention: tried with")])
def test_check_stops_with_what_is_wrong(function, words):
    with pytest.raises(ValueError, match=words):
        lesson.check(function)


def test_a_right_function_is_returned_and_trains(capsys):
    """The library's lines are shown. A class of the lesson is trained as it is."""
    exec(PLAIN["attention"], found := {"attention_weights": answers.attention_weights})
    assert lesson.check(found["attention"]) is found["attention"]
    assert "attention is right: 2 points. The library's lines:" in capsys.readouterr().out
    called = []

    class MyBert(bert_min.SelfAttention):
        def attend(self, *given):
            called.append(self)
            return super().attend(*given)

    frames = {"numbers": (("number", "{name} {get.past} {x} {nouns} {time}",
                           "{time}, {name} {get.past} {x} {nouns}"),)}
    run, told = lesson.train_on(frames, MyBert, epochs=1, batch_size=400)
    assert "MyBert: 1 epochs." in capsys.readouterr().out and told["epochs"] == 1
    assert {*called} == {run.model.bert.layers[0].attention}
    assert {pair.group for pair in lesson.toy.toy_task(frames)[1]["dev"]} == {"numbers"}


def test_the_table_of_lesson_7_has_the_scores_of_the_results():
    rows = re.findall(r"^# \| (\D*) \| ([\d.]+ \(.*?\)) \| (.*?)\|$", LESSONS[7], re.M)
    for file, column in ("paws-aligned", 1), ("paws-read", 2):
        panel, = groups.find_panels(groups.read_group(ROOT / f"tests/results/{file}.json"))
        scores = [100 * np.array(groups.scores_of(results, "test", "accuracy"))
                  for model, results in panel.rows.items() if "knowledge" not in model]
        assert [row[column].strip() for row in rows if row[column].strip()] == [
            f"{x.mean():.1f} ({x.std(ddof=1):.1f})" for x in scores]


@pytest.mark.parametrize("mode, options, words", [
    ("", [], r"1_mini_bert.py:\d+: split_heads: not written yet"),
    ("slved", [], "LESSON=slved: expected solved"),
    ("", ["--bert", "nix"], "--bert nix: a lesson has no options")])
def test_a_script_stops_with_one_line(mode, options, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(build.LESSONS[0]), *options])
    monkeypatch.setattr(lesson, "MODE", mode)
    monkeypatch.setattr(lesson, "lesson_tasks", [])
    with pytest.raises(SystemExit) as end:
        lesson.begin(1)
    said = capsys.readouterr().err
    assert end.value.code == 2 and re.match(f"lesson 1: .*{words}", said) and said.count("\n") == 1


# ---- Hand-ins -----------------------------------------------------------------------------------

def grade_files(monkeypatch, folder, files, *options):
    """Hands in files, name -> text or bytes. Returns: the rows of the table; the pages."""
    for name, text in files.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for name in ("MODE", "SEED", "tell"):                               # grading changes them
        monkeypatch.setattr(lesson, name, getattr(lesson, name))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    command = [str(folder / "in"), "--csv", str(folder / "points.csv"), "--pages",
               str(folder / "pages"), "--trusted", *options]
    assert run_command(grade.main, "grade.py", command) == 0
    most, *rows = csv.DictReader((folder / "points.csv").read_text("utf-8").splitlines())
    pages = {path.relative_to(folder / "pages").as_posix(): path.read_text("utf-8")
             for path in (folder / "pages").rglob("*.txt")}
    names = [Path(row["hand-in"]).relative_to(folder / "in").as_posix() for row in rows]
    assert {f"{name}.txt" for name in names} == pages.keys()            # named as they are
    return most, rows, [pages[f"{name}.txt"] for name in names]


def with_cell(code, before="def diff"):
    """A right hand-in of lesson 2 with a scratch cell."""
    return solve(2).replace(f"# %%\n{before}", f"# %%\n{code}\n\n# %%\n{before}", 1)


DIFFERENCE = PLAIN["difference_scores"].rstrip()
WRONG_CHECK = "def difference_scores(q, k):\n    return q\n\n\ncheck(difference_scores)"
WHOLE = {       # each has all points
    "right": solve(2), "cells and shell.ipynb": build.notebook_of(with_cell(
        "x = !ls\n!ls\n%cd x\nmath.exp?\ndisplay(1)")),
    "input": with_cell("input()"), "exit": with_cell("import os; os._exit(0)"),
    "output": with_cell("while True: print('x' * 99999)"),
    "first cell": solve(2).replace("begin(2)", "import nothing_of_that_name\nbegin( 2 , seed=5)"),
    "helper": solve(2, difference_scores="from math import sqrt\n\n\ndef of(x):\n    return "
                    f"sqrt(x)\n\n\n{DIFFERENCE.replace(':', ':' + chr(10) + '    of(4)', 1)}"),
    "wrong, then right": with_cell(WRONG_CHECK),
    "right, then wrong": with_cell(WRONG_CHECK, "frames"),
    "not seed 0": solve(2, difference_scores=DIFFERENCE.replace(":", f""":
    if abs(q.sum().item() - {Draw("one token").heads()[0].sum().item()}) < 1e-9:
        return q""", 1)),
    "wipes files": with_cell("""import os
for number in range(3, 100):
    try:
        os.ftruncate(number, 0)
    except OSError:
        pass"""),
    "wipes the table": with_cell("""import os
from pathlib import Path
Path(os.environ["TABLE"]).write_text("")"""),
    "kills its parent": with_cell("import os; os.kill(os.getppid(), 9)"),
    "kills its group": with_cell("import os; os.kill(0, 9)"),
    "leaves processes": with_cell("""import subprocess
for _ in range(3):
    subprocess.Popen(["sleep", "987654"], start_new_session=True)"""),
    "asks lesson": with_cell("import lesson"), "asks the library": solve(
        2, difference_scores="""def difference_scores(q, k):
    import semmatch
    return semmatch.difference_scores(q, k)""")}
LOOK = {"asks lesson": "look: it names lesson", "asks the library": "look: it names semmatch"}
TWO_LESS = {    # difference_scores has no points, the others have theirs; and what is said of it
    "squares": ("def difference_scores(q, k):\n    return (q[..., :, None, :] - k[..., None, :, :])"
                ".square().sum(-1)", "mistake: squares."),
    "syntax": (DIFFERENCE.replace("sum(-1)", "sum(-1"), "SyntaxError, line 2"),
    "process": ("import os\n\n\ndef difference_scores(q, k):\n    os._exit(0)", "it ended its"),
    "endless": ("def difference_scores(q, k):\n    while True: pass", "ended after 4 seconds"),
    "renamed": (DIFFERENCE.replace("difference", "my"), "the library's function. Write yours"),
    "lambda": ("difference_scores = lambda q, k: q", "ValueError: check(<lambda>)")}
NOTHING = {"bytes.py": (b"\0\xff", "is no text in UTF-8"), "empty.py": (b"", "is empty"),
           "notes.py": (b"print(1)\n", "is no lesson"), "nine.py": (b"begin(9)\n", "is no lesson"),
           "broken.ipynb": (b"{", "is no notebook")}


def test_points_of_hand_ins(tmp_path, monkeypatch):
    """A mistake costs its own cell or function alone. Each file has a row and a page."""
    files = {name + (".py" if "." not in name else ""): text for name, text in WHOLE.items()}
    files["blank.py"] = LESSONS[2]
    files |= {f"less/{name}.py": solve(2, difference_scores=text)
              for name, (text, _) in TWO_LESS.items()}
    files |= {f"none/{name}": content for name, (content, _) in NOTHING.items()}
    unread = {".ipynb_checkpoints/right.py": solve(2)}
    monkeypatch.setenv("TABLE", str(tmp_path / "points.csv"))
    most, rows, pages = grade_files(
        monkeypatch, tmp_path, files | unread, "--limit", "4", "--seed", "5")
    assert len(rows) == len(files) and most["hand-in"] == "maximum"
    assert not any("987654" in path.read_text("utf-8", "replace")
                   for path in Path("/proc").glob("[0-9]*/cmdline"))
    whole = sum(task.points for task in TASKS.values() if task.lesson == 2)
    assert int(most["points"]) == whole and most["demand_guide"] == "3"
    for row, page in zip(rows, pages):
        path = Path(row["hand-in"])
        assert page.startswith(f"{path}: {row['points'] if path.parent.name != 'none' else ''}")
        if path.parent.name == "less":
            assert int(row["points"]) == whole - 2 and row["difference_scores"] == "0", page
            assert TWO_LESS[path.stem][1] in page
        elif path.parent.name == "none":
            assert row["points"] == "0" and NOTHING[path.name][1] in row["remark"] and page
        else:
            assert int(row["points"]) == (0 if path.stem == "blank" else whole), page
            assert row["remark"] == LOOK.get(path.stem, "")


def test_no_hand_in_runs_outside_a_container(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(grade, "CONTAINERS", ())
    assert run_command(grade.main, "grade.py", [str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "no container here" in said and "--trusted" in said and said.count("\n") == 1


def test_no_row_waits_for_the_next_hand_in(tmp_path, monkeypatch):
    """The table has the rows of those before when grading is interrupted."""
    lines = []

    def grade_none(*given):
        lines.append((tmp_path / "points.csv").read_text("utf-8").count("\n"))
        return {"difference_scores": (0, 2, "")}

    monkeypatch.setattr(grade, "grade", grade_none)
    grade_files(monkeypatch, tmp_path, {"a.py": "begin(2)\n", "b.py": "begin(2)\n"})
    assert lines == [2, 3]                                              # two stand above the rows
