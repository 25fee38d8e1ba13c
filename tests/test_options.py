"""support/options.py: options out of a dataclass, values with limits, classes by name, errors."""
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from small_runs import fails
from support.options import (ABOVE_0, STOPS, Arguments, check_values, keywords_of, load_own,
                             option, prefix_errors, read_names, read_places, read_values,
                             run_command)


@dataclass(frozen=True)
class Choices:
    colour: str = option("red", "of the thing", ("red", "blue"))
    wide_steps: int | None = option(None, "100 % of them", limits=(ABOVE_0, 2 ** 63))
    share: float = option(0.5, "of the whole", limits=(0, 1))
    quick: bool = option(False, "be quick")
    hidden: float | None = option(None, limits=(0, float("inf")))
    names: str = option("", "some of them")


def parser():
    made = Arguments("thing.py", "A thing.")
    made.add_settings(Choices, {"colour": "what", "quick": "how"})
    return made


def test_options_are_the_fields(capsys):
    found = parser().parse("--colour=blue --wide-steps 3 --share 0.25 --quick".split())
    assert found == {"colour": "blue", "wide_steps": 3, "share": 0.25, "quick": True}
    assert parser().parse([]) == {}  # what is not given is not there
    given = parser().parse("--names a --share 1 --names b,c --share 2".split())
    assert given == {"names": "a,b,c", "share": 2}  # the last, or both of a list
    with pytest.raises(SystemExit) as end:
        parser().parse(["--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0 and "100 % of them" in out and "default: 0.5" in out
    assert "hidden" not in out and out.index("what:") < out.index("--share") < out.index("how:")


@pytest.mark.parametrize("args, words", [
    ("--wide-step 3", "--wide-step --wide-steps?"), ("--wide-steps x", "--wide-steps x"),
    ("--hidden 1", "--set HIDDEN="), ("-- x", "x: one too many"),
    ({"wide_steps": 0}, "--wide-steps 0"), ({"wide_steps": 2 ** 63}, "--wide-steps above 9"),
    ({"share": 1.0}, "--share 1.0 below 1"), ({"share": float("nan")}, "--share nan"),
    ({"hidden": -1}, "--set HIDDEN=-1"), ({"colour": "green"}, "--colour green red, blue"),
    ("wide=2,WIDE=2", "twice"), ("WIDTH=3", "WIDTH=3 WIDE=2+3 RATE=0.5 wide?"),
    ("RATE=much", "RATE=much 0.5"), ("WIDE=a+1", "2+3")])
def test_a_wrong_value_is_named_with_its_option(args, words):
    """Of the command line, of a dataclass, of --set."""
    def give():
        if isinstance(args, dict):
            check_values(Choices(**args))
        elif args[0] == "-":
            parser().parse(args.split())
        else:
            read_values(args, keywords_of(Again))

    fails(give, *words.split())


class Base:
    def __init__(self, config, *, wide=(2, 3), name="hidden"):
        pass


class Derived(Base):
    def __init__(self, config, *more, rate=0.5, **options):
        pass


class Again(Derived):
    """No constructor of its own."""


def test_values_names_and_places():
    known = keywords_of(Again)
    assert known == {"wide": (2, 3), "name": "hidden", "rate": 0.5} and keywords_of(object) == {}
    found = read_values(" WIDE=1+22, rate=2e-1,Name=Head,", known)
    assert found == {"wide": (1, 22), "rate": 0.2, "name": "Head"} and read_values("", known) == {}
    assert read_values("ON=False", {"on": True}) == {"on": False}
    fails(lambda: read_values("ON=0", {"on": True}), "ON=0", "true")
    assert read_names("6, 9,tree") == {6, 9, "tree"} and not read_names("none") | read_names("")
    assert read_places("first", 3) == (0,) and read_places("all", 3) == (0, 1, 2)
    assert read_places("2, 0,2", 3) == (0, 2)
    for text in ("3", "-1", ""):
        fails(lambda: read_places(text, 3), "0 to 2")


@pytest.mark.parametrize("error, status, shown", [
    (ValueError("wrong\n" + "x" * 9999), 2, "wrong x"), (OSError("disk"), 2, "disk"),
    (OSError(28, "No space"), 2, "TMPDIR"),
    (FileNotFoundError(2, "No such file", "a.tsv"), 2, "a.tsv"),
    (KeyboardInterrupt(), 130, "interrupted"), (None, 0, "")])
def test_status_and_line_of_an_error(error, status, shown, capsys):
    def main(argv):
        assert argv == ["--x"]
        if error:
            with prefix_errors(""):
                raise error

    assert run_command(main, "thing.py", ["--x"]) == status
    line = capsys.readouterr().err.strip()
    assert "\n" not in line and len(line) < 999 and shown in line
    assert line.startswith("thing.py: " if error else "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no such device")
@pytest.mark.parametrize("prints", [lambda argv: print("x", file=sys.stdout),
                                    lambda argv: parser().parse(["--help"])])
def test_a_full_stdout_is_named(prints, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run_command(prints, "x") == 2
    error = capsys.readouterr().err
    assert "x: stdout: " in error and "TMPDIR" not in error


def test_who_leaves_is_not_interrupted_again(monkeypatch):
    """The first signal counts, of those that come at once too; afterwards all are as before."""
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)

    def main(argv):
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        for number in STOPS:
            signal.raise_signal(number)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        finally:
            for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)

    before = [signal.getsignal(number) for number in STOPS]
    assert run_command(main, "x") == 130 and not ignored
    assert [signal.getsignal(number) for number in STOPS] == before


IN_CLASS = "class A:\n    def f():\n"


@pytest.mark.parametrize("place, text, shown", [
    ("own.py:A", "import nothing_there", "own.py:1: ModuleNotFoundError: No"),
    ("own.py:A", "class A:\n    x = 1 / 0", "own.py:2: ZeroDivisionError: "),
    ("own.py:A", f"{IN_CLASS}\n        raise ValueError('no idea')", "own.py:4: --model no idea"),
    ("own.py:A", f"{IN_CLASS}        from torch import ones\n        ones(2) @ ones(3)",
     "own.py:4: RuntimeError: "), ("own_too:A", "class A(:", "own_too:1: SyntaxError: "),
    ("own_too:A", "raise SystemExit(3)", "own_too:1: SystemExit: 3"),
    ("own_too:A", "raise OSError('\\x1b[31mred\\x9b')", "own_too:1: \\x1b[31mred\\x9b")])
def test_mistakes_in_own_code(place, text, shown, workplace, monkeypatch, capsys):
    """Named by file or module, and line, though a floor above puts its words before them."""
    def main(argv):
        with prefix_errors("--model " if place == "own.py:A" else ""):
            load_own(place).f()

    monkeypatch.setattr("support.options.OWN", {})
    monkeypatch.syspath_prepend(os.getcwd())
    monkeypatch.delitem(sys.modules, "own_too", raising=False)
    Path("own.py" if place == "own.py:A" else "own_too.py").write_text(text)
    assert run_command(main, "x") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"x: {shown}") and error.count("\n") == 1, error


def test_a_mistake_of_ours_is_a_traceback(monkeypatch):
    monkeypatch.setattr("support.options.OWN", {})
    with pytest.raises(ZeroDivisionError):
        run_command(lambda argv: 1 / 0, "x")


def test_classes_by_name(workplace):
    Path("own_thing.py").write_text("class Thing:\n    pass\n\nnothing = 3\n")
    Path("a_folder").mkdir()
    for place in ("own_thing.py:Thing", f"{workplace}/own_thing.py:Thing"):
        assert load_own(place).__name__ == "Thing" and load_own(place) is load_own(place)
    assert load_own("support.words:Vocabulary").__module__ == "support.words"
    for place in ("none.py:Thing", "own_thing.py:Thin", "own_thing.py:nothing", "a_folder:X",
                  "support.nothing:Thing", "support.words:json"):
        fails(lambda: load_own(place), place)
