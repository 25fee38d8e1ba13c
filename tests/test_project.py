"""What surrounds the code: installing, CI, the adapter of docs/scale.md."""
import re
from pathlib import Path

import numpy as np
import pytest

from small_runs import ChainParser
from support import parser

ROOT = Path(__file__).resolve().parent.parent
SCALE = (ROOT / "docs/scale.md").read_text("utf-8")


def test_everything_is_installed():
    """All at the top, in support, experiments and assets; two bounds of torch everywhere."""
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    assert {f"{name}.py" for name in setup["py-modules"]} == {x.name for x in ROOT.glob("*.py")}
    assert {"support", "experiments", parser.PARSER.parent.name} == {*setup["packages"]}
    for folder in setup["packages"]:
        patterns = "*.py", "**/*.pyc", *setup["package-data"].get(folder, ())
        taken = {path for pattern in patterns for path in (ROOT / folder).glob(pattern)}
        assert {path for path in (ROOT / folder).rglob("*") if path.is_file()} <= taken
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
