"""tutorials/: what can be said of the lessons without running them, and their helpers. .ci/run runs and builds them."""
import ast
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from test_house import LOCAL, PACKAGES, equation_rows, imported, resolve

FOLDER = Path(__file__).resolve().parent.parent / "tutorials"
LESSONS = sorted(FOLDER.glob("[0-9]_*.py"))
PAPERS = {"2_dabert": "DABERT", "3_dafa": "DAFA", "4_knowledge": "Knowledge", "5_drr_net": "DRr-Net", "6_ladra_net": "LadRa-Net"}
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def cells(path):
    """(is it markdown?, text) of each cell of a percent script; markdown without its number signs."""
    head, *parts = re.split(r"^# %%(.*)\n", path.read_text("utf-8"), flags=re.M)
    assert head == "" and parts, f"{path.name} must begin with a cell"
    for kind, text in zip(parts[::2], parts[1::2]):
        assert kind in ("", " [markdown]"), f"{path.name}: # %%{kind}"
        if kind:
            lines = text.rstrip("\n").split("\n")
            assert all(line == "#" or line.startswith("# ") or not line for line in lines), lines
            text = "\n".join(line[2:] for line in lines)
        yield bool(kind), text


def prose(path):
    return "\n\n".join(text for markdown, text in cells(path) if markdown)


def code(path):
    return "\n".join(text for markdown, text in cells(path) if not markdown)


@pytest.fixture(scope="module")
def modules():
    """lesson.py and build.py of tutorials/, imported as a lesson does; train.CACHE as it was."""
    import train
    cache = train.CACHE
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("lesson"), importlib.import_module("build")
    sys.path.remove(str(FOLDER))
    train.CACHE = cache


# ---- The lessons ----------------------------------------------------------------------------------------------------

def test_one_lesson_for_each_paper_in_reading_order():
    assert [path.stem for path in LESSONS] == ["1_mini_bert", *PAPERS]
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert re.findall(r"^\| \d \| `(\w+)\.py`", readme, re.M) == [path.stem for path in LESSONS]


@each_lesson
def test_cells(path):
    """A title, code that compiles, no cell without text; the experiments stand at the end."""
    found = list(cells(path))
    assert found[0][0] and found[0][1].startswith(f"# {path.name[0]}. ")
    assert all(text.strip() for _, text in found)
    assert all(before[0] != after[0] or not after[0] for before, after in zip(found, found[1:])), "two cells of prose in a row"
    for markdown, text in found:
        if not markdown:
            compile(text, path.name, "exec")
    assert found[-1][0] and "## Try it\n\n1. " in found[-1][1]
    assert len(re.findall(r"^\d\. ", found[-1][1], re.M)) in (2, 3)


@each_lesson
def test_imports(path):
    """The seven packages, the modules and lesson.py; no module stands for another under one name."""
    names = imported(code(path))
    assert names - LOCAL.keys() - sys.stdlib_module_names <= PACKAGES | {"lesson"}
    assert "lesson" in names


@each_lesson
def test_no_lesson_writes_the_library_again(path):
    """No function or class of a lesson has a name of the library."""
    taken = {node.name for module in LOCAL for node in ast.parse((FOLDER.parent / f"{module}.py").read_text("utf-8")).body
             if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own = {node.name for node in ast.walk(ast.parse(code(path))) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert not own & taken


@pytest.mark.parametrize("stem", PAPERS)
def test_a_lesson_has_every_equation_of_its_paper(stem):
    """Each function of README's equation table is named in the prose, and imported unless it is a class; each number is."""
    path, listed = FOLDER / f"{stem}.py", set()
    names = {alias.name for node in ast.walk(ast.parse(code(path))) if isinstance(node, ast.ImportFrom) for alias in node.names}
    for paper, equations, functions, _ in equation_rows():
        if paper != PAPERS[stem]:
            continue
        listed |= equations
        for function in functions:
            name = function.partition(".")[2]
            assert re.search(rf"`(\w+\.)?{name}(\.\w+)*`", prose(path)), f"{path.name} does not name {name}"
            helper = isinstance(resolve(function), type)
            assert helper or name in names, f"{path.name} does not import {name}"
    headed = set(map(int, re.findall(r"\((\d+)\)", " ".join(re.findall(r"^## .*$|^    .*\(\d+\)$", prose(path), re.M)))))
    assert headed == listed


@each_lesson
def test_numbers_are_asserted(path):
    """A lesson that claims numbers asserts some in nearly every cell that computes."""
    found = [text for markdown, text in cells(path) if not markdown]
    assert sum("assert" in text for text in found) >= 0.6 * len(found)


@each_lesson
def test_quotes_are_marked(path):
    """Near the top one block quote, short, in quotation marks, with its source and section."""
    first = next(cells(path))[1]
    quotes = [" ".join(block.replace("\n> ", " ").split()) for block in re.findall(r"^> (.*(?:\n> .*)*)", prose(path), re.M)]
    assert quotes and " ".join(first.replace("\n> ", " ").split()).count(quotes[0]) == 1
    for quote in quotes:
        marked = re.fullmatch(r'"([^"]+)" \(.*§ [IVX\d][-IVXA-H\d.]*.*\)|"([^"]+)" \(.*, Abstract\)', quote)
        assert marked, quote
        assert len((marked[1] or marked[2]).split()) <= 35


@each_lesson
def test_lines(path):
    assert max(map(len, path.read_text("utf-8").splitlines())) <= 118


# ---- What they share ------------------------------------------------------------------------------------------------

def test_helpers_import_what_a_script_may():
    """lesson.py takes matplotlib, inside the function that draws; build.py what tutorials/requirements.txt lists."""
    needed = set(re.findall(r"^(\w+)>=[\d.]+$", (FOLDER / "requirements.txt").read_text("utf-8"), re.M))
    others = {name: imported((FOLDER / f"{name}.py").read_text("utf-8")) - LOCAL.keys() - sys.stdlib_module_names - PACKAGES
              for name in ("lesson", "build")}
    assert others == {"lesson": {"matplotlib"}, "build": needed} and "matplotlib" in needed
    tree = ast.parse((FOLDER / "lesson.py").read_text("utf-8"))
    assert "matplotlib" not in imported("\n".join(ast.unparse(node) for node in tree.body if not isinstance(
        node, ast.FunctionDef)))
    assert "tutorials/*.ipynb" in (FOLDER.parent / ".gitignore").read_text("utf-8").splitlines()


def test_a_script_draws_nothing(modules, monkeypatch):
    lesson, _ = modules
    monkeypatch.setitem(sys.modules, "matplotlib", None)              # an import would raise
    panels = lesson.heat("t", ["a"], ["b"], [[1.0]]), lesson.curves("t", [1], {"x": [1]})
    assert lesson.figure(*panels) is None


def test_fixed(modules):
    lesson, _ = modules
    x = torch.tensor([2.0, 3])
    assert lesson.fixed([[1.0, 10], [0, 1]])(x).tolist() == [32, 3]
    assert lesson.fixed([[1.0, 10]], [0.5])(x).tolist() == [32.5]


def test_train_on_and_look(modules, capsys, monkeypatch):
    """A run of a step on one frame; the toy world is whole again after it."""
    lesson, _ = modules
    whole, toy_task, worlds = dict(lesson.tasks.FRAMES), lesson.tasks.toy_task, []
    monkeypatch.setattr(lesson.tasks, "toy_task", lambda: (worlds.append(list(lesson.tasks.FRAMES)), toy_task())[1])
    frame = ("number", "{name} {get.past} {x} {nouns} {time}", "{time}, {name} {get.past} {x} {nouns}")
    run, accuracy = lesson.train_on({"numbers": (frame,)}, "bert", epochs=1, limit=8)
    assert worlds == [["numbers"]] and lesson.tasks.FRAMES == whole and 0 <= accuracy <= 1
    assert re.search(rf"^best epoch: {100 * accuracy:.1f} on dev, ", capsys.readouterr().out, re.M)
    seen = lesson.look(run, "Anna bought 12 chairs.", "Peter sold it.")
    settings, task, model, tokenizer, _ = run
    examples = lesson.train.prepare(settings, task, tokenizer, {"x": [lesson.tasks.Pair("Anna bought 12 chairs.", "Peter sold it.")]})
    logits = lesson.train.predict(model, examples[0]["x"], settings)[0]
    assert seen.probability == pytest.approx(logits.softmax(0)[1].item(), abs=1e-6)         # different, same
    assert seen.tokens[0] == "[CLS]" and task.labels[1] == "same"
    assert seen.trace["layer0"]["attention"].shape[-1] == len(seen.tokens)
    other = lesson.look(run, "Anna bought 12 chairs.", "Anna bought 12 chairs.")
    assert other.probability != seen.probability


@pytest.mark.parametrize("given, message", [(["3_dafa", "9_none"], "9_none: no such lesson; there are 1_mini_bert, 2_dabert, "),
                                            (["9_none", "3_dafa"], "9_none: no such lesson; there are 1_mini_bert, 2_dabert, "),
                                            (["tutorials/3_dafa.py"], "needs jupytext; run pip install -r tutorials/req")])
def test_build_says_what_is_wrong(modules, monkeypatch, capsys, given, message):
    """One line and status 2, before any lesson runs."""
    _, build = modules
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "jupytext", None)
    assert build.main(given) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and error.startswith(f"build.py: {message}")
