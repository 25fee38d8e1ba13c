"""experiments.bench: its table on a few pairs."""
import re

import pytest

from experiments import bench

pytestmark = pytest.mark.usefixtures("workplace")


def test_the_table(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SIZES", dict(hidden_size=8, num_heads=2))
    half = "dafa --layers all --without fusion"
    bench.main(["--models", half, "drrnet", *"--repeats 2 --batch-size 3 --device cpu".split()])
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()[3:]]
    assert [row[:2] for row in rows] == [
        [work, model] for work in ("step of 3 pairs", "one new pair")
        for model in ("bert", half, "drrnet")]
    seconds = []
    monkeypatch.setattr(bench, "synchronized_time", lambda device: sum(seconds))
    works = {"bert": lambda: seconds.append(2), "dafa": lambda: seconds.append(3)}
    rows = bench.compare("x", works, 2, "cpu")
    assert [row[2:] for row in rows] == [["2000.0 (2000.0 to 2000.0)", "1.00"],
                                         ["3000.0 (3000.0 to 3000.0)", "1.50"]]
