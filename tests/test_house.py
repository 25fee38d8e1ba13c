"""The rules of the house: imports, docstrings, sizes of functions, shape comments that run, the
table of equations, README's code and commands."""
import ast
import doctest
import graphlib
import importlib
import itertools
import os
import pkgutil
import re
import runpy
import shlex
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

import pretrain
from methods import ATTENTIONS, WHOLE, batch, looked, method, whole
from settings import Recipe, Settings
from shapes import Tracer, fits
from small_runs import ROOT, at_call, beginning, of
from support import biaffine, influence, kernels, options, pairs
from test_biaffine import SIZES, VOCABULARY

PACKAGES = {"numpy", "torch", "tokenizers", "nltk", "tqdm"}
# File at the top -> our modules that it imports. support imports support, experiments anything.
TOP = {"bert_min": {"support.checkpoints", "support.shown"},
       "priors": {"support"}, "printed": {"bert_min", "support"},
       "reread": {"bert_min", "priors", "printed", "support"},
       "semmatch": {"bert_min", "priors", "printed", "support"},
       "batches": {"priors", "support"},
       "settings": {"bert_min", "support"},
       "run": {"batches", "bert_min", "semmatch", "settings", "support"},
       "train": {"batches", "run", "settings", "support"},
       "pretrain": {"batches", "bert_min", "run", "support", "train"}}
CODE = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for pattern in ("*.py", "support/*.py", "experiments/*.py")
        for path in sorted(ROOT.glob(pattern))}
PAGES = [path.relative_to(ROOT).as_posix()
         for pattern in ("*.md", "assets/*.md", "docs/*.md", "tutorials/*.md")
         for path in sorted(ROOT.glob(pattern))]
PAPERS = {"DABERT": (1, 7), "DAFA": (1, 9), "Knowledge": (1, 9), "DRr-Net": (1, 8),
          "LadRa-Net": (9, 15)}
KINDS = pretrain.Reading, Settings, Recipe                 # whose fields are options
each_file = pytest.mark.parametrize("file", CODE)
each_page = pytest.mark.parametrize("page", PAGES)


def source(name):
    return (ROOT / name).read_text("utf-8")


def module_of(file):
    return file.removesuffix(".py").replace("/", ".")


# ---- Files --------------------------------------------------------------------------------------

def imports_of(file):
    """Names of the modules that a file imports, at its top or inside a function."""
    names = set()
    for node in ast.walk(ast.parse(CODE[file])):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in ("support", "experiments"):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return names


@each_file
def test_imports_go_one_way(file):
    names, ours = imports_of(file), {module_of(file) for file in CODE}
    foreign = {name.partition(".")[0] for name in names - ours} - sys.stdlib_module_names
    assert foreign <= PACKAGES
    local, folder = names & ours, file.rpartition("/")[0]
    if folder == "support":
        assert all(name.startswith("support.") for name in local)
    elif folder != "experiments":
        allowed = TOP[module_of(file)]                     # a KeyError: a new file has no place yet
        if "support" in allowed:
            local = {"support" if name.startswith("support.") else name for name in local}
        assert local == allowed


def test_no_imports_go_in_a_circle():
    graph = {module_of(file): imports_of(file) for file in CODE}
    graphlib.TopologicalSorter(graph).prepare()            # raises CycleError, which names a circle


def test_importing_changes_nothing(monkeypatch):
    """No file, when it is run as in an import, asks for help in forks or sets anything of torch."""
    def state():
        return (torch.get_num_threads(), torch.backends.cuda.cudnn_sdp_enabled(), sys.path[:],
                torch.get_float32_matmul_precision(), torch.get_rng_state().tolist())

    before, asked = state(), at_call(monkeypatch, os, "register_at_fork", 0)
    for file in CODE:
        runpy.run_path(str(ROOT / file), run_name="fresh")
    assert asked == [] and state() == before


@each_file
def test_docstrings_and_their_examples(file):
    """Public functions, classes, and methods of several statements have a docstring."""
    tree = ast.parse(CODE[file])
    assert ast.get_docstring(tree)
    for outer in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
        for node in outer.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                text, short = ast.get_docstring(node), len(node.body) < 2 and outer is not tree
                assert text or short or re.match("_|(for|back)ward$", node.name), node.name
                assert not re.search(r"(^|[.:] )-> ", text or "", re.M)  # but "Returns: a list"
    result = doctest.testmod(importlib.import_module(module_of(file)))
    assert result.failed == 0 and (result.attempted > 0) == ("    >>> " in CODE[file])


# ---- Shape comments -----------------------------------------------------------------------------

def run_methods():
    """Runs every path of the encoder and of every method."""
    more = {"drrnet": [{"classes": 1}], "ladranet": [{"printed": {12, 13, 14}}]} | {
        name: [{"printed": made.PRINTED}, {"without": {"gates"} & made.ABLATIONS}]
        for name, made in ATTENTIONS.items()}
    for name, forms in WHOLE.items():
        for form in [*forms, *more.get(name, ())]:
            x, model = batch(name, [(3, 6), (2, 4), (1, 5), (0, 0)], padding=1), whole(name, **form)
            model(**x).sum().backward()
            looked(model, **x)


def run_words():
    """Runs parses, priors and batches of pairs, and a small untrained parser."""
    for args in (of("dafa"), [*of("dafa"), "--printed", "4"], of("knowledge"), of("drrnet"),
                 of("aligned")):
        beginning(*args)[1]["train"].collate([0, 1, 2])
    small = biaffine.Parser(VOCABULARY, **SIZES)
    small.parse([list("pqrpq"), list("qq"), ["p"]])
    biaffine.maximum_spanning_tree(np.array([[0, 0, 0], [1, 0, 2], [1, 2, 0.0]]))
    pairs.spearman([1, 2, 2, 5, 3], [2, 1, 7, 4, 4])


def test_shape_comments_are_right(workplace, monkeypatch):
    """Every shape comment of every file runs on small inputs. None is wrong, none is left out."""
    with Tracer(ROOT / file for file in CODE) as tracer:
        run_methods()
        run_words()
        pretrain.main("--bert scratch --task toy --steps 2 --device cpu".split())
        for classes in (1, 3):
            influence.measure(torch.rand(5, classes), torch.rand(5, classes), classes == 1)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        kernels.l1_distances(*torch.ones(2, 3, 5, 7, 11))
        kernels.additive_scores(*torch.ones(2, 3, 7, 11), torch.ones(11))
    assert tracer.wrong == [] and tracer.never_run == set()
    assert fits((2, 7), ["B", "3*d+1"], {}) and not fits((2, 3), ["B", "B"], {})


# ---- The table of equations ---------------------------------------------------------------------

def numbers(cell):
    """{1, 2, 3, 5} of "1-3, 5"."""
    found = set()
    for part in cell.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def citations(text):
    """{("DAFA", 6), ...} of "DAFA Eq. (6)", "DAFA Eqs. (1)-(3)", "DABERT Eqs. (2), (3)"."""
    found, cited = set(), r"([A-Z][\w-]+)\s+Eqs?\.\s+(\(\d+\)(?:[-,\s]+\(\d+\))*)"
    for paper, cited in re.findall(cited, text or ""):
        if paper in PAPERS:
            found |= {(paper, number) for number in numbers(re.sub(r"[()\s]", "", cited))}
    return found


def body_lines(place):
    """Lines of a function's body, without its docstring and comments."""
    file, _, name = place.partition(".")
    node = next(x for x in ast.parse(CODE[f"{file}.py"]).body if getattr(x, "name", "") == name)
    body = CODE[f"{file}.py"].splitlines()[node.body[1].lineno - 1:node.end_lineno]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in body)


def equation_rows():
    """(paper, set of numbers, functions, tests) of each row of docs/equations.md's first table."""
    lines, rows = iter(source("docs/equations.md").splitlines()), []
    below = itertools.dropwhile(lambda line: not line.startswith("| paper | equation |"), lines)
    for line in itertools.islice(itertools.takewhile(lambda line: line, below), 2, None):
        paper, equations, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        functions, lines, tests = (re.findall(r"[\w./:]+", x.replace("`", "")) for x in cells)
        for place, count in zip(functions, lines, strict=True):
            assert count in ("class", str(body_lines(place))), f"{place}: {body_lines(place)} lines"
        rows.append((paper, numbers(equations.partition(":")[0]), functions, tests))
    return rows


def test_the_equation_table_is_what_docstrings_cite():
    """The table has all equations. A row names all functions that cite its equations, nothing that
    does not cite them, and tests that exist."""
    listed, named, functions, classes = set(), set(), set(), set()
    for paper, equations, names, tests in equation_rows():
        assert names
        listed |= {(paper, number) for number in equations}
        named |= {(paper, number, name) for number in equations for name in names}
        for file, _, function in (test.partition("::") for test in tests):
            assert f"\ndef {function}(" in source(file), f"{function} does not exist"
    assert listed == {(paper, number) for paper, (first, last) in PAPERS.items()
                      for number in range(first, last + 1)}
    for file in TOP.keys() - {"printed"}:
        tree = ast.parse(CODE[f"{file}.py"])
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                equations = citations(ast.get_docstring(node))
                assert equations <= listed, f"{file}.py cites what has no row"
                if node in tree.body:
                    by = functions if isinstance(node, ast.FunctionDef) else classes
                    by |= {(*equation, f"{file}.{node.name}") for equation in equations}
    assert functions - named == set() and named - functions - classes == set()
    tests = "".join(path.read_text("utf-8") for path in ROOT.glob("tests/test_*.py"))
    for name in re.findall(r"`(test_\w+)`", source("docs/equations.md")):  # of the second table
        assert f"\ndef {name}(" in tests, f"{name} does not exist"


def test_the_table_of_weights_has_them_all():
    """Those of DABERT, DAFA and Knowledge that plain attention lacks."""
    page = source("docs/equations.md").partition("\n| weight |")[2].partition("\n\n")[0]
    header, _, *rows = ([cell.strip() for cell in row.split("|")] for row in page.splitlines())
    for column, paper in enumerate(header[:-1], 1):
        listed = ", ".join(row[column + 1] for row in rows).split(", ")
        names = {name.partition(".")[0] for name in method(paper.lower()).state_dict()}
        assert sorted(filter(None, listed)) == sorted(names - {"query", "key", "value"})


# ---- The pages ----------------------------------------------------------------------------------

def prose(page):
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", source(page), flags=re.M | re.S)


def spans(page):
    """What stands in `code style` in the text of a page, each in one line."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(page))]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)", prose(page), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@each_page
def test_links_lead_to_a_file_and_a_heading(page):
    for link in re.findall(r"\]\(([^)]+)\)", prose(page)):
        if not link.startswith("https://"):
            file, _, anchor = link.partition("#")
            target = (ROOT / page).parent / file if file else ROOT / page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), f"{link}: no such heading"


@each_page
def test_names_in_code_style_exist(page):
    """Options, files, and names in our modules. The log is left out: it names what is gone."""
    sources = "".join(map(source, [*CODE, "tutorials/grade.py", "tutorials/lesson.py"]))
    known = {*re.findall(r'"(--[a-z-]+)"', sources), "--no-scores", "--help"}
    for kind in KINDS:
        known |= {options.option_name(field) for field in fields(kind)}
    for code in spans(page) if page != "docs/log.md" else ():
        unknown = set(re.findall(r"(?<!\S)--[a-z-]+", code)) - known
        assert not unknown or re.match("(git|docker|pip) ", code), f"no option: {unknown}"
        if re.fullmatch(r"[\w/]+\.(py|md|svg|jsonl?|npz|pt|[ct]sv)|(docs|support|tests)/\S*", code):
            file = code.partition("::")[0]
            places = [folder / file for folder in (ROOT, (ROOT / page).parent)]
            named = re.search(rf"(?<!\w){re.escape(code)}", sources)  # such as best.pt
            assert named or any(map(Path.exists, places)), f"no file: {code}"
        elif re.match(rf"(?:{'|'.join(TOP)}|support|experiments)\.\w", code):
            name = re.match(r"[\w.]*\w", code)[0]
            pkgutil.resolve_name(re.sub(r"^run\.", "run.Run.", name))   # or AttributeError


def test_python_of_readme_runs(tmp_path, monkeypatch):
    """So does the code of docs/equations.md, as doctests."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    (tmp_path / "runs").mkdir()                            # in the place of the reader's own run
    (tmp_path / "runs/own").symlink_to(ROOT / "assets/toy-dafa")
    block, = re.findall(r"^```python\n(.*?)^```", source("README.md"), re.M | re.S)
    exec(compile(block, "README.md", "exec"), {})
    page = doctest.testfile(str(ROOT / "docs/equations.md"), module_relative=False)
    assert page.failed == 0 and page.attempted > 5


def test_commands_of_the_pages_are_understood(monkeypatch):
    """The commands' programs, options and values exist."""
    parse, commands = options.Arguments.parse, 0
    choices = {f.name: f.metadata["choices"] for kind in KINDS for f in fields(kind)}

    def stop(self, argv=None):
        for name, value in parse(self, argv).items():
            assert value in (choices.get(name) or [value]) or self.prog == "pretrain.py"
        raise EOFError                                     # the command was understood

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(options.Arguments, "parse", stop)
    lines = "\n".join(map(source, PAGES)).replace("\\\n", " ").splitlines()
    for line in itertools.chain(lines, *map(spans, PAGES)):
        command = re.match(r" *(?:torchrun .*?\d|python) (?:-m (experiments\.\w+)|(\w*train)\.py) ?"
                           "(.*)", line)
        if command and command[3] != "--help":
            with pytest.raises(EOFError):
                given = shlex.split(command[3], comments=True)
                importlib.import_module(command[1] or command[2]).main(given)
            commands += 1
    assert commands > 25
