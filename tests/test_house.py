"""The rules of the house: imports, docstrings, shape comments that run, and README's tables and snippets."""
import ast
import doctest
import importlib
import itertools
import json
import re
import shlex
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import shapes

ROOT = Path(__file__).resolve().parent.parent
# A module and the local ones that it may import, which stand before it.
LOCAL = {"bert_min": set(), "priors": set(), "semmatch": {"bert_min", "priors"}, "tasks": {"priors"},
         "explain": set(), "train": {"bert_min", "explain", "priors", "semmatch", "tasks"}}
PACKAGES = {"numpy", "torch", "tokenizers", "nltk", "tqdm"}
PAPERS = {"DABERT", "DAFA", "Knowledge", "DRr-Net", "LadRa-Net"}


def source(name):
    return (ROOT / name).read_text("utf-8")


def read_project_file(name):
    assert (ROOT / name).exists(), f"{name} is missing: the project needs one, and these tests read it"
    return source(name)


# ---- Imports and docstrings -----------------------------------------------------------------------------------------

def imported(text):
    """First names of all modules imported anywhere in the text."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names.add(node.module.partition(".")[0])
    return names


def test_every_module_has_its_place():
    assert {path.stem for path in ROOT.glob("*.py")} == LOCAL.keys()


@pytest.mark.parametrize("module", LOCAL)
def test_imports_go_one_way(module):
    names = imported(source(f"{module}.py"))
    assert names & LOCAL.keys() <= LOCAL[module]
    assert names - LOCAL.keys() - sys.stdlib_module_names <= PACKAGES


def public(tree):
    """(name, node) of public functions and classes, and of public methods with more than one statement."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_") and len(inner.body) > 1:
                    yield f"{node.name}.{inner.name}", inner


@pytest.mark.parametrize("module", LOCAL)
def test_docstrings(module):
    tree = ast.parse(source(f"{module}.py"))
    assert ast.get_docstring(tree), "the module has no docstring"
    bare = [name for name, node in public(tree) if not ast.get_docstring(node)
            and not {"forward", "backward"} & set(name.split(".")[1:])]      # torch's own contract
    assert bare == []


@pytest.mark.parametrize("module", LOCAL)
def test_doctests(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0
    assert (result.attempted > 0) == (">>>" in source(f"{module}.py"))


# ---- Shape comments -------------------------------------------------------------------------------------------------

def run_bert_min(modules):
    """Every path of the encoder, with sizes that are distinct primes (d = H k)."""
    bert_min = modules["bert_min"]
    for segments in (2, 1):
        config = bert_min.BertConfig(vocab_size=29, hidden_size=3 * 5, num_layers=1, num_heads=3, intermediate_size=17,
                                     max_length=13, segments=segments)
        ids = torch.arange(2 * 7).view(2, 7)
        for trace in (None, {}):
            bert_min.Bert(config)(ids, ids % 2, ids != 13, None, trace)


def parse_of(priors, words, heads):
    text = " ".join(words)
    return priors.Parse(text, priors.split_words(text), ("NOUN",) * len(words), np.array(heads), ("obj",) * len(words))


def run_priors(modules):
    """The dependency matrix of 3 × 5 words, and a small untrained parser on sentences of several lengths."""
    priors = modules["priors"]
    a, b = parse_of(priors, list("pqr"), [2, 0, 2]), parse_of(priors, list("qrstp"), [0, 1, 2, 3, 1])
    tfidf = priors.TfIdf([a.words, b.words])
    for without in (set(), {"tfidf"}):
        for printed in (set(), {4}):
            priors.dependency_matrix(a, b, tfidf.weights(a.words), tfidf.weights(b.words), printed, without)
    vocabulary = {"words": ["p", "q"], "characters": ["p"], "tags": ["NOUN", "VERB"], "relations": ["root", "obj", "x"]}
    torch.manual_seed(0)
    parser = priors.Parser(vocabulary, word_size=5, character_size=3, filters=2, hidden=7, arc_size=11,
                           relation_size=13)
    torch.nn.init.normal_(parser.W_arc)
    answers = parser.parse([list("pqrpq"), list("qq"), ["p"]])
    assert [len(heads) for _, heads, _ in answers] == [5, 2, 1]
    table = priors.Table({"synonym": [("p", "q")], "hypernym": [("r", "s")]})
    priors.relation_matrix(table.facts(a.words), table.facts(b.words))
    priors.Vocabulary.learn([a.words, b.words]).ids(b.words)
    priors.maximum_spanning_tree(np.array([[0, 0, 0], [1, 0, 2], [1, 2, 0.0]]))


def run_semmatch(modules):
    """Every method in the encoder, in both scopes, intended and printed, traced and not."""
    bert_min, semmatch = modules["bert_min"], modules["semmatch"]
    config = bert_min.BertConfig(vocab_size=29, hidden_size=3 * 5, num_layers=1, num_heads=3, intermediate_size=17,
                                 max_length=13)
    ids = torch.arange(2 * 7).view(2, 7)
    segment = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0]])
    words = torch.tensor([[-1, 0, -1, 0, 1, 1, -1], [-1, -1, 0, 0, -1, -1, -1]])
    for name, method in semmatch.METHODS.items():
        if not issubclass(method, semmatch.SelfAttention):
            continue
        for scope in ("hidden", "head") if name != "bert" else ("",):
            for printed in (frozenset(), getattr(method, "PRINTED", frozenset())):
                options = {"printed": printed, "scope": scope} if name != "bert" else {}
                for trace in (None, {}):
                    prior = {"dependency": torch.rand(2, 11, 19), "relations": torch.rand(2, 11, 19, 5) < 0.5}.get(
                        getattr(method, "PRIOR", None))
                    matcher = semmatch.Matcher(name, config, 23, **options)
                    matcher(ids, segment, ids != 13, words, prior, trace).sum().backward()
    for printed in (frozenset(), semmatch.LadraNet.PRINTED):
        for without in ((), ("bert",)):
            ladranet = semmatch.LadraNet(config, 23, printed, without)
            ladranet(ids, segment, ids != 13, words, {}).sum().backward()
    word_ids = torch.arange(2 * 3 * 5).view(2, 3, 5)
    for classes in (1, 23):
        drrnet = semmatch.DrrNet(31, 37, classes)
        characters, flags = word_ids[..., None].expand(-1, -1, -1, 7), word_ids > 3
        drrnet(word_ids, characters, word_ids % 17, flags, flags, word_ids != 29, {}).sum().backward()


def run_tasks(modules):
    modules["tasks"].spearman([1, 2, 2, 5, 3], [2, 1, 7, 4, 4])


def run_train(modules):
    """Two pairs in a batch with their priors."""
    priors, tasks, train = modules["priors"], modules["tasks"], modules["train"]
    a, b = parse_of(priors, list("pqr"), [2, 0, 2]), parse_of(priors, list("qrstp"), [0, 1, 2, 3, 1])
    pairs = [tasks.Pair(a.text, b.text, 1), tasks.Pair(b.text, a.text, 0)]
    tokenizer = modules["bert_min"].PairTokenizer.train([a.text, b.text])
    prior = lambda pair: np.zeros((len(pair.a.split()), len(pair.b.split())), np.float32)  # noqa: E731
    train.Examples(pairs, SimpleNamespace(max_length=13), tokenizer, None, prior).collate([0, 1])
    facts, vocabulary = {p.text: priors.Table({}).facts(p.words) for p in (a, b)}, priors.Vocabulary.learn([b.words])
    train.WordExamples(pairs, SimpleNamespace(max_length=4), vocabulary, {p.text: p for p in (a, b)}, facts).collate([0, 1])


def test_shape_comments_are_right():
    """Every shape comment of every module, run on small inputs; none is wrong, none is left out."""
    with shapes.trace(*(ROOT / f"{module}.py" for module in LOCAL)) as tracer:
        for run in (run_bert_min, run_priors, run_semmatch, run_tasks, run_train):
            run(tracer.modules)
    assert tracer.never_run() == []
    counts = {module: sum(name == f"{module}.py" for name, _ in tracer.shapes) for module in LOCAL}
    assert counts["bert_min"] > 15 and counts["priors"] > 10 and counts["semmatch"] > 10, counts


MODULE = '''
"""A module."""
import torch

# Axes: B batch, d hidden size, n words of a
# sentence


def twice(x):
    """Joins x (B, d) with itself."""
    y = torch.cat([x, x], 1)  # (B, 2*d)
    z = y[:, None]  # (B, 1, 2*d)
    if len(x) > 5:
        z = z[:, 0]  # (B, 2*d)
    return z  # %s


def border(n):
    inner = (lambda k: k + 0)                                    # (a comment in brackets)
    return torch.zeros(inner(n) + 1, n)  # (n+1, n)
'''


def traced(folder, text):
    path = folder / "traced_module.py"
    path.write_text(textwrap.dedent(text), "utf-8")
    return shapes.trace(path)


def test_tracer_accepts_what_is_right(tmp_path):
    with traced(tmp_path, MODULE % "(B, 1, 2*d)") as tracer:
        module = tracer.modules["traced_module"]
        assert sys.modules["traced_module"] is module
        module.twice(torch.zeros(2, 3))
        module.twice(torch.zeros(5, 7))                            # another call may have other sizes
        assert module.border(3).shape == (4, 3)
    assert "traced_module" not in sys.modules
    never = tracer.never_run()
    assert len(never) == 1 and never[0].startswith("traced_module.py:14 (B, 2 * d)")


@pytest.mark.parametrize("comment", ["(B, d)", "(B, 2*d)", "(1, B, 2*d)", "(B, 1, d)", "(B, 1, d+2)", "(d, 1, 2*d)",
                                     "(B, 2, 2*d)", "(B, 1, n, d)", "()"])
def test_tracer_catches_what_is_wrong(tmp_path, comment):
    with traced(tmp_path, MODULE % comment) as tracer:
        with pytest.raises(shapes.ShapeError, match=r"traced_module.py:15: the comment says .* \(2, 1, 6\)"):
            tracer.modules["traced_module"].twice(torch.zeros(2, 3))


def test_tracer_checks_assigned_names(tmp_path):
    with traced(tmp_path, MODULE.replace("# (B, 1, 2*d)", "# (B, 2*d, 1)", 1) % "(B, 1, 2*d)") as tracer:
        with pytest.raises(shapes.ShapeError, match=r"traced_module.py:12: .*\(B, 2 \* d, 1\)"):
            tracer.modules["traced_module"].twice(torch.zeros(2, 3))


@pytest.mark.parametrize("line, problem", [
    ("x = 1  # (Q, 2)", "not in the legend"), ("x, y = 1, 2  # (B, d)", "belongs behind"),
    ("x.y = 1  # (B, d)", "belongs behind"), ("for x in ():  # (B, d)\n    pass", "belongs behind"),
    ("x = 1  # (B, d), hidden", "words behind")])
def test_tracer_refuses_what_it_cannot_check(tmp_path, line, problem):
    with pytest.raises(shapes.ShapeError, match=problem):
        traced(tmp_path, f"# Axes: B batch, d hidden size\n\n{line}\n").__enter__()


def test_tracer_wants_a_shape(tmp_path):
    text = "# Axes: B batch\n\ndef f(x):\n    return x  # (B,)\n"
    with traced(tmp_path, text) as tracer:
        assert tracer.modules["traced_module"].f(np.zeros(3)).shape == (3,)
        with pytest.raises(shapes.ShapeError, match="the value is int"):
            tracer.modules["traced_module"].f(3)


# ---- README and requirements ----------------------------------------------------------------------------------------

HEADER = "| paper | equation | function | test |"


def numbers(cell):
    """{1, 2, 3, 5} of "1-3, 5"."""
    found = set()
    for part in re.split(r",\s*", cell):
        first, _, last = part.replace("–", "-").partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def citations(text):
    """{("DAFA", 6), ...} of "DAFA Eq. (6)", "DAFA Eqs. (1)-(3)", "DABERT Eqs. (2), (3)"."""
    found = set()
    for paper, cited in re.findall(r"([A-Z][\w-]+)\s+Eqs?\.\s+(\(\d+\)(?:(?:\s*[-–]\s*|,\s+|\s+and\s+)\(\d+\))*)",
                                   text or ""):
        if paper in PAPERS:
            spans = re.sub(r"[()]", "", cited.replace(" and ", ", "))
            found |= {(paper, number) for number in numbers(re.sub(r"\s*[-–]\s*", "-", spans))}
    return found


def equation_rows():
    """(paper, set of numbers, function, test) of README's table."""
    lines = read_project_file("README.md").splitlines()
    assert HEADER in lines, f"README.md needs the equation table with the header {HEADER}"
    rows = []
    for line in lines[lines.index(HEADER) + 2:]:
        if not line.startswith("|"):
            break
        paper, equations, functions, tests = (cell.strip() for cell in line.strip("|").split("|"))
        functions, tests = (re.findall(r"[\w./:]+", cell.replace("`", "")) for cell in (functions, tests))
        rows.append((paper, numbers(equations), functions, tests))
    assert rows, "README.md's equation table is empty"
    return rows


def resolve(name):
    """The function or class behind "semmatch.DafaAttention.fuse"."""
    module, *path = name.split(".")
    assert module in LOCAL and path, f"{name}: expected module.function"
    found = importlib.import_module(module)
    for part in path:
        assert hasattr(found, part), f"{name} does not exist"
        found = getattr(found, part)
    return found


def test_citations_are_read():
    assert citations("as DAFA Eq. (6), and DABERT Eqs. (2), (3); LadRa-Net Eqs. (9)-(11).") == {
        ("DAFA", 6), ("DABERT", 2), ("DABERT", 3), ("LadRa-Net", 9), ("LadRa-Net", 10), ("LadRa-Net", 11)}
    assert citations("see Eq. (4) and Vaswani Eq. (1)") == set()


def test_equation_table_names_what_exists():
    """Row by row: the functions exist, one of them cites each equation, the tests exist."""
    for paper, equations, functions, tests in equation_rows():
        assert paper in PAPERS and functions and tests, (paper, equations)
        for name in functions:
            cited = citations(resolve(name).__doc__)
            missing = {(paper, number) for number in equations} - cited
            assert not missing, f"the docstring of {name} does not cite {sorted(missing)}"
        for test in tests:
            file, _, function = test.partition("::")
            assert (ROOT / file).exists(), f"{file} does not exist"
            assert re.search(rf"^def {function}\(", source(file), re.M), f"{test} does not exist"
            assert function.startswith("test_"), f"{test} is not a test"


def test_equation_table_is_complete():
    """Each equation a docstring cites has a row; a function's row names that function."""
    listed, named = set(), set()
    for paper, equations, functions, _ in equation_rows():
        listed |= {(paper, number) for number in equations}
        named |= {(paper, number, name) for number in equations for name in functions}
    for module in ("priors", "semmatch", "train"):
        tree = ast.parse(source(f"{module}.py"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                missing = citations(ast.get_docstring(node)) - listed
                assert not missing, f"{module}.py cites {sorted(missing)}: no row in README's table"
        for name, node in public(tree):
            if isinstance(node, ast.FunctionDef) and "." not in name:
                missing = {(*equation, f"{module}.{name}") for equation in citations(ast.get_docstring(node))} - named
                assert not missing, f"README's table lacks {sorted(missing)}"


@pytest.mark.parametrize("paper, first, last", [("DABERT", 1, 7), ("DAFA", 1, 9), ("Knowledge", 1, 9), ("DRr-Net", 1, 8),
                                                ("LadRa-Net", 9, 15)])
def test_the_table_covers_the_whole_paper(paper, first, last):
    found = set().union(*(equations for name, equations, *_ in equation_rows() if name == paper))
    assert found == set(range(first, last + 1))


def snippets():
    return re.findall(r"^```python\n(.*?)^```", read_project_file("README.md"), re.M | re.S)


def test_readme_snippets_run():
    """```python blocks: those with >>> run as doctests, the others compile."""
    for number, text in enumerate(snippets()):
        if ">>>" not in text:
            compile(text, f"README.md, snippet {number}", "exec")
            continue
        test = doctest.DocTestParser().get_doctest(text, {}, f"README.md, snippet {number}", "README.md", 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test)
        assert runner.summarize(verbose=False).failed == 0


def test_readme_names_what_exists():
    """Commands in README run files of the project; the tests it names are there."""
    readme = read_project_file("README.md")
    files = set(re.findall(r"python3? ((?:tests/)?\w+\.py)", readme))
    assert files and [file for file in files if not (ROOT / file).exists()] == []
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    assert set(re.findall(r"\btest_\w+\b(?!\.py)", readme)) <= set(re.findall(r"^def (test_\w+)\(", tests, re.M))


def test_training_commands_of_readme_are_understood():
    """Every `train.py ...` of README gives settings that are valid together; capitals stand for files and names."""
    train = importlib.import_module("train")
    readme = read_project_file("README.md")
    lines = [line.partition("#")[0] for line in readme.replace("\\\n", " ").splitlines()] + re.findall(r"`([^`\n]+)`", readme)
    commands = [shlex.split(line.strip())[2:] for line in lines if line.strip().startswith("python train.py")]
    assert len(commands) > 30
    for command in commands:
        given = train.command_line().parse([{"TASK": "rte", "MODEL": "dafa"}.get(word, word) for word in command])
        if not {"run", "resume"} & set(given):
            train.plan({name: value for name, value in given.items() if name != "test"})


def test_data_table_of_readme_is_that_of_the_code():
    """Labels, metrics, downloads and unlabelled tests of tasks.SOURCES; the toy world's sizes."""
    tasks = importlib.import_module("tasks")
    lines = read_project_file("README.md").splitlines()
    below = itertools.takewhile(lambda line: line.startswith("|"), lines[lines.index(
        "| `--task` | train, dev, test pairs | labels | metrics | download |") + 2:])
    rows = {row[0]: row[1:] for row in ([cell.strip() for cell in line.strip("|").split("|")] for line in below)}
    pairs, *toy = rows.pop("toy (default)")
    splits = tasks.toy_task()[1]
    assert pairs.startswith(", ".join(f"{len(splits[name]):,}" for name in ("train", "dev", "test")) + ",")
    assert rows.keys() == tasks.SOURCES.keys() and toy[0] == "2"
    for name, (pairs, labels, metrics, download) in rows.items():
        source = tasks.SOURCES[name]
        assert labels == (str(len(source.labels)) if source.labels else "a score") and metrics == ", ".join(source.metrics)
        size = sum(file.size for file in source.files) / 1e6
        assert download == (f"{size:.1f} MB" if size else "ask its authors") and ("without" in pairs) == bool(source.unlabelled)


@pytest.mark.parametrize("name", ["mrpc", "rte", "stsb", "toy"])
def test_result_tables_of_readme_are_those_of_the_files(name):
    """A row for each run of tests/results/NAME.json, which --vary wrote, with its mean, spread, values and difference."""
    def percent(x):
        return f"{100 * x['mean']:.1f} ({100 * x['std']:.1f})"
    runs = json.loads(read_project_file(f"tests/results/{name}.json"))["runs"]
    lines = read_project_file("README.md").splitlines()
    seeds = ", ".join(map(str, runs[0]["seeds"]))
    start = next(i for i, line in enumerate(lines) if line.startswith("| | all |" if name == "toy" else f"| {name} dev, seeds {seeds} |"))
    below = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2:])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in below]
    for row, run in zip(rows, runs, strict=True):
        model, scores = run["values"]["model"], run["metrics"]["dev"]
        first = scores[next(iter(scores))]
        if name == "toy":
            phenomena = [line.strip() for line in lines[start].strip("|").split("|")][3:]
            assert row[:3] == [model, percent(first), percent(run["metrics"]["dev_unseen"]["accuracy"])]
            assert row[3:] == [f"{100 * scores[phenomenon]['mean']:.1f}" for phenomenon in phenomena]
            continue
        others = "" if run["seeds"] == runs[0]["seeds"] else ", seeds " + ", ".join(map(str, run["seeds"]))
        assert row[0].endswith(f"(`--model {model}`){others}") and row[1] == percent(first)
        assert row[2] == ", ".join(f"{100 * value:.1f}" for value in first["values"])
        by = run["difference"]["dev"][next(iter(scores))]
        assert row[3] == ("" if model == "bert" else f"{100 * by['mean']:+.1f} ({100 * by['low']:+.1f} to {100 * by['high']:+.1f})")
        assert row[4:-1] == [percent(scores[metric]) for metric in list(scores)[1:]]


def test_requirements():
    """Exactly the seven packages, each with a lower bound."""
    lines = [line for line in read_project_file("requirements.txt").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z]+>=[\d.]+(,<[\d.]+)?", line) for line in lines), lines
    assert sorted(line.partition(">")[0] for line in lines) == sorted(PACKAGES | {"pytest", "hypothesis"})
