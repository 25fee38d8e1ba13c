"""What surrounds the code: its version, CI, the adapter of docs/scale.md."""
import re
from pathlib import Path

import numpy as np

import semmatch
from small_runs import ChainParser
from support import parser

ROOT = Path(__file__).resolve().parent.parent
SCALE = (ROOT / "docs/scale.md").read_text("utf-8")


def test_one_version_and_no_installing():
    """One version everywhere; nothing to build, so that no `train` gets into site-packages."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    found = [re.search(pattern, text, re.M)[1] for pattern, text in (
        (r'^version = "(.*)"', project), (r'^version: "(.*)"', (ROOT / "CITATION.cff").read_text()),
        (r"version = \{(.*)\}", (ROOT / "docs/papers.md").read_text("utf-8")),
        (r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8")))]
    assert found == [semmatch.__version__] * 4
    assert "[build-system]" not in project and "[tool.setuptools" not in project
    bounds = re.search("^torch>=(.*),(<.*)$", (ROOT / "requirements.txt").read_text("utf-8"), re.M)
    workflow = (ROOT / ".github/workflows/test.yml").read_text("utf-8")
    assert re.findall('torch: "(.*)"', workflow) == [f"=={bounds[1]}", bounds[2]]


def test_adapter_of_an_engine(monkeypatch):
    """Parses of a batch of rows as an engine gives it, an array of strings."""
    monkeypatch.setattr(parser, "load_parser", ChainParser)
    (code,), names = re.findall(r"^```python\n(from.*?)^```", SCALE, re.M | re.S), {}
    exec(code, names)
    batch = {"text": [np.str_("It works."), np.str_(""), np.str_("It")], "id": [7, 8, 9]}
    assert names["ParseBatch"]()(batch) == batch | {
        "words": [["It", "works", "."], [], ["It"]], "tags": [["X"] * 3, [], ["X"]],
        "heads": [[0, 1, 2], [], [0]], "relations": [["root", "dep", "dep"], [], ["root"]]}
