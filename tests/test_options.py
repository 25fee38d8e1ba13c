"""support/options.py: options out of a dataclass, values with limits, classes by name, errors."""
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest
import torch

from small_runs import fails, refused, write_file
from support.errors import prefix_errors
from support.options import (ABOVE_0, Arguments, check_values, find_class, load_own, option,
                             read_names, read_values, run_command)


@dataclass(frozen=True)
class Choices:
    colour: str = option("red", "of the thing", ("red", "blue"))
    wide_steps: int | None = option(None, "100 % of them", limits=(ABOVE_0, 2 ** 63))
    share: float = option(0.5, "of the whole", limits=(0, 1))
    quick: bool | None = option(None, "be quick")
    names: str = option("", "some of them")


def test_options_are_the_fields(capsys):
    parser = Arguments("thing.py", "A thing.")
    for f in fields(Choices):
        parser.add_field(parser, f, "; 0.7 here" if f.name == "share" else "")
    found = parser.parse("--colour=blue --wide-steps 3 --no-quick --names=a --names b,c".split())
    assert found == {"colour": "blue", "wide_steps": 3, "quick": False, "names": "a,b,c"}
    fails(lambda: parser.parse(["--wide-step", "3"]), "--wide-step", "--help")
    with pytest.raises(SystemExit):
        parser.parse(["--help"])
    out = capsys.readouterr().out
    for words in ("thing (default: red)", "100 % of them\n", "whole (default: 0.5; 0.7 here)"):
        assert words in out


@pytest.mark.parametrize("name, value", [
    ("wide_steps", 0), ("wide_steps", True), ("share", 1.0), ("share", "1"), ("colour", "green"),
    ("colour", "")])
def test_a_wrong_value_is_named_with_its_option(name, value):
    option = "--" + name.replace("_", "-")
    fails(lambda: check_values(Choices(**{name: value})), f"{option} {value!r}: expected")


def test_values_and_names():
    sizes = {"wide": (2, 3), "name": "hidden", "rate": 0.5, "on": True}
    found = read_values(" WIDE = 1+22, rate=2e-1,Name=Head,ON=False,", sizes)
    assert found == {"wide": (1, 22), "rate": 0.2, "name": "Head", "on": False}
    for text in "WIDTH=3", "RATE=much", "RATE=1,rate=2", "WIDE=3+0", "RATE=inf":
        fails(lambda text=text: read_values(text, sizes), text.split(",")[-1])
    assert read_names("6, 9 9,tree") == {6, "9 9", "tree"} and not read_names("none,")


def test_mistakes_in_own_code(workplace):
    """One line names file and line, keeps a prefix that other code adds, and is not too long."""
    def main(argv):
        with prefix_errors("--model "):
            load_own("own.py:A").f()

    for text, shown in (
            ("class A(:", "x: own.py:1: SyntaxError:"),
            ("class A:\n    def f():\n        raise ValueError('\\x1b[31mred\\n' + 'x' * 9999)",
             "x: own.py:3: --model \\x1b[31mred ...")):
        Path("own.py").write_text(text)
        refused(shown, main, "x", by=run_command)
    for empty in (torch.empty, np.empty):  # no machine has so much memory
        refused("allocate --batch-size", lambda argv: empty(2 ** 50), "x", by=run_command)
    with pytest.raises(ZeroDivisionError):  # a mistake of ours is a traceback
        run_command(lambda argv: 1 / 0, "x")


def test_a_file_of_ones_own_and_its_neighbour(workplace):
    write_file(Path("one"), "own_helper.py", "word = 'beside'")
    write_file(Path("one"), "own_file.py", "import own_helper\nclass A:\n    h = own_helper\n")
    assert load_own("one/own_file.py:A").h.word == "beside"
    for place, kind in (("none.py:A", "class"), ("one/own_file.py:B", "class"),
                        ("support.words:Vocabulary", "class"), ("one/own_file.py:A.h", "function")):
        fails(lambda place=place, kind=kind: load_own(place, kind), place)
    fails(lambda: find_class("one/own_file.py:A", {}), "READS, PRINTED")
