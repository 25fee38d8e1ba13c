"""What surrounds the code: installing, CI, docs/scale.md."""
import gc
import re
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import batches
from bert_min import PairTokenizer, SelfAttention
from small_runs import ChainParser
from support import parser, parses, tasks

ROOT = Path(__file__).resolve().parent.parent
SCALE = (ROOT / "docs/scale.md").read_text("utf-8")


def test_everything_is_installed():
    """All at the top, in support, experiments and assets, and what requirements.txt names."""
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, setup = content["project"], content["tool"]["setuptools"]
    assert {f"{name}.py" for name in setup["py-modules"]} == {x.name for x in ROOT.glob("*.py")}
    assert {"support", "experiments", parser.PARSER.parent.name} == {*setup["packages"]}
    for folder in setup["packages"]:
        patterns = "*.py", "**/*.pyc", *setup["package-data"].get(folder, ())
        taken = {path for pattern in patterns for path in (ROOT / folder).glob(pattern)}
        assert {path for path in (ROOT / folder).rglob("*") if path.is_file()} <= taken
    assert setup["dynamic"]["dependencies"]["file"] == "requirements.txt"
    assert project["dynamic"] == ["dependencies"] and project["requires-python"] == ">=3.10"


def test_ci_runs_part_1_with_the_oldest_and_the_newest_torch():
    """Of .ci/run what prints and what ends it; the workflow's bounds are those of requirements."""
    kept = re.findall("^(?:echo.*|.*exit 0.*)$", (ROOT / ".ci/run").read_text("utf-8"), re.M)
    for part, both in (("", True), ("1", False)):
        said = subprocess.check_output(["bash", "-ec", "\n".join(kept), "run", part], text=True)
        assert "== 1." in said and ("== 2." in said) == both
    bounds = re.search("^torch>=(.*),(<.*)$", (ROOT / "requirements.txt").read_text("utf-8"), re.M)
    workflow = (ROOT / ".github/workflows/test.yml").read_text("utf-8")
    assert re.findall('torch: "(.*)"', workflow) == [f"=={bounds[1]}", bounds[2]]
    assert workflow.endswith("bash .ci/run 1\n")


def test_adapter_of_an_engine(monkeypatch):
    """Parses of a batch of rows as an engine gives it, an array of strings."""
    monkeypatch.setattr(parser, "load_parser", ChainParser)
    (code,), names = re.findall(r"^```python\n(from.*?)^```", SCALE, re.M | re.S), {}
    exec(code, names)
    batch = {"text": [np.str_("It works."), np.str_(""), np.str_("It")], "id": [7, 8, 9]}
    assert names["ParseBatch"]()(batch) == batch | {
        "words": [["It", "works", "."], [], ["It"]], "tags": [["X"] * 3, [], ["X"]],
        "heads": [[0, 1, 2], [], [0]], "relations": [["root", "dep", "dep"], [], ["root"]]}


def test_memory_of_a_pair():
    """Bytes that a run keeps are those of docs/scale.md."""
    found = re.search(r"(\d+) bytes a pair, 1 a letter and (\d+)\s+a token; .* needs trees, (\d+) "
                      r"bytes a pair and (\d+) a word more", SCALE)
    pair, token, tree, word = map(int, found.groups())
    reader = batches.Reader(SelfAttention, 512, tokenizer=PairTokenizer.train(["fox"]))
    parses.parse_texts(["fox"], ChainParser(), progress=False)  # loads what it needs
    tracemalloc.start()
    pairs = [tasks.Pair(f"{i} " + "fox " * 24, f"{i} fox", 1) for i in range(300)]
    examples, _ = reader.examples(pairs), gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    texts = [text for pair in pairs for text in (pair.a, pair.b)]
    trees, _ = parses.parse_texts(texts, ChainParser(), progress=False), gc.collect()
    added = tracemalloc.get_traced_memory()[0] - kept
    tracemalloc.stop()
    expected = 300 * pair + sum(map(len, texts)) + token * sum(examples.lengths)
    assert kept == pytest.approx(expected, rel=0.25)
    assert added == pytest.approx(300 * (tree + 27 * word), rel=0.25) and len(trees) == 600
