"""The rules of the house: imports, examples, shape comments, the table of equations, the pages."""
import ast
import doctest
import importlib
import io
import itertools
import pkgutil
import re
import shlex
import sys
from dataclasses import fields
from http.server import HTTPServer
from types import SimpleNamespace

import pytest
import torch

import bert_min
import pretrain
from methods import METHODS, WHOLE, batch, looked, whole
from settings import Recipe, Settings
from shapes import Tracer, fits
from small_runs import ROOT, TINY, beginning, of, write_file
from support import biaffine, influence, options, pairs
from test_biaffine import SIZES, VOCABULARY

PACKAGES = {"numpy", "torch", "tokenizers", "nltk", "tqdm"}
# A file at the top imports support and what stands before it here; experiments import anything.
TOP = ("bert_min", "printed", "priors", "semmatch", "reread", "settings", "batches", "run", "train",
       "pretrain")
CODE = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for pattern in ("*.py", "support/*.py", "experiments/*.py")
        for path in sorted(ROOT.glob(pattern))}
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
         for pattern in ("*.md", "assets/*.md", "docs/*.md", "tutorials/*.md")
         for path in sorted(ROOT.glob(pattern))}
PAPERS = {"DABERT": (1, 7), "DAFA": (1, 9), "Knowledge": (1, 9), "DRr-Net": (1, 8),
          "LadRa-Net": (9, 15)}
KINDS = pretrain.Reading, Settings, Recipe                 # whose fields are options
each_page = pytest.mark.parametrize("page", PAGES)


def module_of(file):
    return file.removesuffix(".py").replace("/", ".")


@pytest.mark.parametrize("file", CODE)
def test_imports_go_one_way(file):
    """Also those in functions."""
    names, known = set(), {"support", "experiments", *TOP}
    for node in ast.walk(ast.parse(CODE[file])):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add(node.module)
    if module_of(file) in TOP:
        known = {"support", *TOP[:TOP.index(module_of(file))]}
    elif file.startswith("support"):
        known = {"support"}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | PACKAGES | known


@pytest.mark.parametrize("file", CODE)
def test_examples_of_docstrings(file):
    result = doctest.testmod(importlib.import_module(module_of(file)))
    assert result.failed == 0 and (result.attempted > 0) == ("    >>> " in CODE[file])


def test_shape_comments_are_right(workplace):
    """Each runs on small inputs. None is wrong, none is left out."""
    small = biaffine.Parser(VOCABULARY, **SIZES)
    with Tracer(ROOT / file for file in CODE) as tracer:
        for name, made in METHODS.items():
            for form in [*WHOLE[name], {"printed": made.PRINTED}]:
                x = batch(name, [(3, 6), (2, 4), (1, 5), (0, 0)], padding=1)
                model = whole(name, **form)
                model(**x).sum().backward()
                looked(model, **x)
        for args in (of("dafa"), [*of("dafa"), "--printed", "4"], of("knowledge"), of("drrnet")):
            beginning(*args)[1]["train"].collate([0, 1, 2])
        small.parse([list("pqrpq"), list("qq"), ["p"]])
        pairs.spearman([1, 2, 2, 5, 3], [2, 1, 7, 4, 4])
        pretrain.main("--bert scratch --task toy --steps 2 --device cpu".split())
        for classes in (1, 3):
            influence.measure(torch.rand(5, classes), torch.rand(5, classes), classes == 1)
    assert tracer.wrong == [] and tracer.never_run == set()
    assert fits((2, 7), ["B", "3*d+1"], {}) and not fits((2, 3), ["B", "B"], {})


def numbers(cell):
    """{1, 2, 3, 5} of "1-3, 5", or of "(1)-(3), (5)"."""
    parts = [part.partition("-") for part in re.sub(r"[()\s]", "", cell).split(",")]
    return {n for first, _, last in parts for n in range(int(first), int(last or first) + 1)}


def equation_rows():
    """(paper, set of numbers, functions, tests) of each row of docs/equations.md's first table."""
    table = PAGES["docs/equations.md"].partition("| paper | equation |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        paper, equations, functions, tests = (x.strip() for x in line.strip("|").split("|"))
        places = [re.findall(r"[\w./:]+", cell.replace("`", "")) for cell in (functions, tests)]
        yield paper, numbers(equations.partition(":")[0]), *places


def test_the_equation_table_is_what_docstrings_cite():
    """It has all equations. A row names functions that cite them, and tests that exist."""
    found = {paper: set() for paper in PAPERS}
    for paper, equations, functions, _ in equation_rows():
        found[paper] |= equations
        for name in functions:
            cells = re.findall(rf"{paper}\s+Eqs?\.\s+(\(\d+\)(?:[-,\s]+\(\d+\))*)",
                               pkgutil.resolve_name(name).__doc__)
            assert equations <= set().union(*map(numbers, cells)), name
    assert found == {paper: {*range(first, last + 1)} for paper, (first, last) in PAPERS.items()}
    tests = "".join(path.read_text("utf-8") for path in ROOT.glob("tests/test_*.py"))
    for name in re.findall(r"\b(test_\w+)`", PAGES["docs/equations.md"]):
        assert f"\ndef {name}(" in tests, f"{name} does not exist"


def prose(page):
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", PAGES[page], flags=re.M | re.S)


def spans(page):
    """What stands in `code style` in the text of a page, each in one line."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(page))]


@each_page
def test_links_lead_to_a_file_and_a_heading(page):
    for file, _, anchor in (link.partition("#") for link in
                            re.findall(r"\]\((?!https://)([^)]+)\)", prose(page))):
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), file
        text = prose(target.resolve().relative_to(ROOT).as_posix()) if anchor else ""
        headings = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
                    for title in re.findall(r"^#+ (.+)", text, re.M)}
        assert {anchor} - {""} <= headings, f"no heading {anchor}"


@each_page
def test_names_in_code_style_exist(page):
    """Options, and names in our modules."""
    code = "".join(CODE.values()) + (ROOT / "tutorials/grade.py").read_text("utf-8")
    known = {*re.findall(r'"(--[a-z-]+)"', code), "--help", "--no-scores"}
    known |= {options.option_name(field) for kind in KINDS for field in fields(kind)}
    for code in spans(page):
        unknown = set(re.findall(r"(?<!\S)--[a-z-]+", code)) - known
        assert not unknown or re.match("(git|docker|pip) ", code), f"no option: {unknown}"
        name = re.match(rf"({'|'.join(TOP)}|support|experiments)\.(?!py|md|tsv)\w[\w.]*\b", code)
        if name:
            pkgutil.resolve_name(re.sub(r"^run\.", "run.Run.", name[0]))   # or AttributeError


def test_code_of_the_pages_runs(tmp_path, monkeypatch, capsys):
    """With small files for the reader's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(HTTPServer, "serve_forever", HTTPServer.server_close)
    write_file(tmp_path, "qqp_wang/test.csv", "sentence1,sentence2,label\nthe dog,dog,1\n")
    rows = ("1-2 du _ _ _ _ _ _", "1 de de ADP _ _ 3 case", "2 le le DET _ _ 3 det",
            "3 pays pays NOUN _ _ 0 root")
    rows = "\n".join(rows).replace(" ", "\t")
    write_file(tmp_path, "mine.conllu", f"# text = du pays\n{rows}\n")
    toy = "assets/toy-dafa"
    for place, there in {"assets": "assets", "runs/qqp": toy, "runs/own": toy,
                         "encoders/minilm": TINY}.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).symlink_to(ROOT / there)
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGES["README.md"] + PAGES["docs/use.md"],
                            re.M | re.S):
        if "import BertModel" not in block:                # which needs transformers
            exec(block.replace("8000), Service", "0), Service"), names)
    assert re.findall("(same|different) ", capsys.readouterr().out) == ["same", "different"]
    request, answer = b"POST / HTTP/1.0\r\nContent-Length: 12\r\n\r\n" + b'[["a", "b"]]', []
    names["Service"](SimpleNamespace(makefile=lambda *mode: io.BytesIO(request),
                                     sendall=answer.append), ("", 0), None)
    assert b"200 OK" in b"".join(answer)
    assert names["duplicates"](0) in ([], ["dog"])
    tree, = names["parse"](["du pays"])
    assert tree.spans == [(0, 1), (1, 2), (3, 7)] and tree.heads == ["3", "3", "0"]
    config, weights = bert_min.read_checkpoint("encoders/toy")
    assert bert_min.load_bert(bert_min.Bert(config), weights, "encoders/toy") == []
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
    lines = "\n".join(PAGES.values()).replace("\\\n", " ").splitlines()
    for line in itertools.chain(lines, *map(spans, PAGES)):
        command = re.match(r" *(?:torchrun .*?\d|python) (?:-m (experiments\.\w+)|(\w*train)\.py) ?"
                           "(.*)", line)
        if command and command[3] != "--help":
            with pytest.raises(EOFError):
                given = shlex.split(command[3], comments=True)
                importlib.import_module(command[1] or command[2]).main(given)
            commands += 1
    assert commands > 25
