"""support/options.py: options out of a dataclass, values with limits, classes by name, errors."""
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest
import torch

from small_runs import fails, write_file
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


SIZES = {"wide": (2, 3), "name": "hidden", "rate": 0.5, "on": True}


def parser():
    made = Arguments("thing.py", "A thing.")
    for f in fields(Choices):
        made.add_field(made, f, "; 0.7 here" if f.name == "share" else "")
    return made


def test_options_are_the_fields(capsys):
    found = parser().parse("--colour=blue --wide-steps 3 --share 0.25 --quick".split())
    assert found == {"colour": "blue", "wide_steps": 3, "share": 0.25, "quick": True}
    assert parser().parse([]) == {}  # what is not given is not there
    found = parser().parse("--no-quick --names= --names=a --names b,c".split())
    assert found == {"quick": False, "names": "a,b,c"}
    with pytest.raises(SystemExit):
        parser().parse(["--help"])
    out = capsys.readouterr().out
    for words in ("thing (default: red)", "100 % of them\n", "whole (default: 0.5; 0.7 here)"):
        assert words in out


@pytest.mark.parametrize("args, words", [
    ("--wide-step 3", "--wide-step --help"), ("-- x", "x"), ("-- --share", "--share"),
    ({"wide_steps": 0}, "--wide-steps 0"), ({"share": 1.0}, "--share 1.0"),
    ({"colour": "green"}, "--colour green"), ({"wide_steps": True}, "--wide-steps True"),
    ({"share": "1"}, "--share float"), ({"colour": ""}, "--colour value"),
    ("WIDTH=3", "WIDTH=3"), ("RATE=much", "RATE=much"), ("RATE=1,rate=2", "rate=2"),
    ("WIDE=3+0", "WIDE=3+0"), ("RATE=-1", "RATE=-1"), ("RATE=inf", "RATE=inf")])
def test_a_wrong_value_is_named_with_its_option(args, words):
    """On the command line, in a dataclass, in --set."""
    def give():
        if isinstance(args, dict):
            check_values(Choices(**args))
        elif args[0] == "-":
            parser().parse(args.split())
        else:
            read_values(args, SIZES)

    fails(give, *words.split())


def test_values_names_and_places():
    found = read_values(" WIDE = 1+22, rate=2e-1,Name=Head,ON=False,", SIZES)
    assert found == {"wide": (1, 22), "rate": 0.2, "name": "Head", "on": False}
    assert read_names("6, 9 9,tree") == {6, "9 9", "tree"} and not read_names("none,")


@pytest.mark.parametrize("text, shown", [
    ("class A(:", "own.py:1: SyntaxError: "),
    ("class A:\n    x = 1 / 0", "own.py:2: ZeroDivisionError: "),
    ("class A:\n    def f():\n        raise ValueError('\\x1b[31mred\\n' + 'x' * 9999)",
     "own.py:3: --model \\x1b[31mred x")])
def test_mistakes_in_own_code(text, shown, workplace, capsys):
    """One line names file and line, and keeps a prefix that other code adds."""
    def main(argv):
        with prefix_errors("--model "):
            load_own("own.py:A").f()

    Path("own.py").write_text(text)
    assert run_command(main, "x") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"x: {shown}") and error.count("\n") == 1 and len(error) < 999, error
    for empty in (torch.empty, np.empty):  # no machine has so much memory
        assert run_command(lambda argv: empty(2 ** 50), "x") == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "allocate" in error and "--batch-size" in error
    with pytest.raises(ZeroDivisionError):  # a mistake of ours is a traceback
        run_command(lambda argv: 1 / 0, "x")


def test_a_file_of_ones_own_and_its_neighbour(workplace):
    write_file(Path("one"), "own_helper.py", "word = 'beside'")
    write_file(Path("one"), "own_file.py", "import own_helper\nclass A:\n    h = own_helper\n"
               "def parse(): pass\n")
    assert load_own("one/own_file.py:A").h.word == "beside"
    assert load_own("one/own_file.py:parse", "function")() is None
    for place, kind in (("none.py:A", "class"), ("one/own_file.py:B", "class"),
                        ("support.words:Vocabulary", "class"), ("one/own_file.py:A.h", "function")):
        fails(lambda place=place, kind=kind: load_own(place, kind), place)
    fails(lambda: find_class("one/own_file.py:A", {}), "READS, PRINTED")
