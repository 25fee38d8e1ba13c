"""A command line out of a frozen dataclass, and errors that are one line."""
import argparse
import contextlib
import difflib
import errno
import functools
import importlib.util
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Set
from dataclasses import field, fields
from importlib import import_module
from pathlib import Path

OWN = {}  # file of somebody's own code that was loaded, an absolute path -> as it was named


def option(default, help="", choices=None, limits=None):
    """A field of a dataclass of settings, with what the command line says about it.

    Args: help: one line; "" for no option of its own. choices: all allowed values. limits: see
        `check_values`.
    """
    return field(default=default, metadata=dict(help=help, choices=choices, limits=limits))


def option_name(f):
    """The option that sets a dataclass's field, such as "--lr-new"."""
    return "--" + f.name.replace("_", "-")


def kind_of(f):
    """int, float, str or bool: what a field declared as such, or as such or None, holds."""
    declared = getattr(f.type, "__args__", (f.type,))
    return next(kind for kind in (bool, int, float, str) if kind in declared)


class Arguments(argparse.ArgumentParser):
    """argparse whose errors are ValueErrors of one line, and which names the option that was
    probably meant. needed: what its usage line names, such as "RUN A B".
    """

    def __init__(self, prog, description, needed=""):
        super().__init__(prog=prog, description=description, allow_abbrev=False,
                         usage=" ".join(["%(prog)s", *needed.split(), "[options]"]),
                         formatter_class=argparse.RawDescriptionHelpFormatter,
                         argument_default=argparse.SUPPRESS)
        self.needed, self.by_set = needed, {}  # name of a setting without an option -> what it has

    def error(self, message):
        """argparse would print its usage and exit."""
        raise ValueError(message)

    def parse(self, argv=None):
        """The options given, as a dict. Raises ValueError for a mistake."""
        given, unknown = self.parse_known_args(argv)
        bare = [name for name, value in vars(given).items() if value == []]  # Python's, for "--"
        if bare:
            self.error(f"argument --{bare[0].replace('_', '-')}: expected one argument")
        unknown = [x for x in unknown if x != "--"]
        if unknown and not unknown[0].startswith("-"):
            raise ValueError(f"{unknown[0]}: one argument too many; put a text of several words "
                             f"in quotes")
        if unknown:
            names = {name: name for action in self._actions for name in action.option_strings}
            near = difflib.get_close_matches(unknown[0].split("=")[0], names | self.by_set, 1)
            hint = f"did you mean {(names | self.by_set)[near[0]]}?" if near else "see --help"
            text = "; a text that begins with - stands behind --" if self.needed else ""
            raise ValueError(f"{unknown[0]}: no such option; {hint}{text}")
        return vars(given)

    def add_settings(self, settings, groups):
        """One option for each field of the dataclass `settings`; groups: title -> name of its first
        field.
        """
        titles, group = {first: title for title, first in groups.items()}, self
        for f in fields(settings):
            if not f.metadata["help"]:
                self.by_set[option_name(f)] = f"--set {f.name.upper()}=..."
                continue
            if f.name in titles:
                group = self.add_argument_group(titles[f.name])
            text = f.metadata["help"].replace("%", "%%")
            if f.default not in (None, False, ""):
                text += f" (default: {f.default})"
            if kind_of(f) is bool:
                group.add_argument(option_name(f), dest=f.name, action="store_true", help=text)
                continue
            choices = f.metadata["choices"]
            group.add_argument(option_name(f), dest=f.name, type=kind_of(f), help=text,
                               action="store" if f.default != "" else Join,
                               choices=choices, metavar=None if choices else f.name.upper())


class Join(argparse.Action):
    """Of an option of names with commas, whose default is "": given twice, both count."""

    def __call__(self, parser, namespace, values, option_string=None):
        before = getattr(namespace, self.dest, "")
        setattr(namespace, self.dest, f"{before},{values}" if before else values)


def nearest(word, known):
    """" (did you mean X?)" for a misspelled word, or nothing."""
    near = difflib.get_close_matches(str(word), [str(name) for name in known], 1)
    return f" (did you mean {near[0]}?)" if near else ""


def run_command(main, name, argv=None):
    """Runs main(argv) and returns the exit status: a user's mistake is one line and 2, Ctrl-C,
    SIGTERM and SIGHUP are 130.
    """
    mend_streams()
    before = {number: signal.getsignal(number) for number in STOPS}
    for number in STOPS:
        if before[number] != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, interrupt_once)
    try:
        status = main(argv) or 0
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as stop:
        print(f"\n{name}: interrupted{f'; {stop}' if str(stop) else ''}", file=sys.stderr)
        return 130
    except (Exception, SystemExit) as error:
        if isinstance(error, BrokenPipeError) and stdout_fails("\n"):
            return 0  # who reads our output has enough, as `head` has
        mistake, place = isinstance(error, (ValueError, OSError)), own_line(error)
        if not (mistake or place or OWN and isinstance(error, Exception)):
            raise
        if not (mistake or place):  # such as torch's in the backward pass
            place = f"{', '.join(OWN.values())}: "
        print(f"{name}: {place}{one_line(said_of(error))}", file=sys.stderr)
        return 2
    finally:
        stdout_fails()
        for number in STOPS:
            signal.signal(number, before[number])


STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def interrupt_once(*signal_and_frame):
    """Raises KeyboardInterrupt; what follows comes while the first one is being obeyed."""
    for number in STOPS:
        signal.signal(number, lambda *late: None)  # under SIG_IGN Python tells of one on its way
    raise KeyboardInterrupt


def mend_streams():
    """Lets a stream that was closed print nothing, and one that takes ASCII alone print "\\xe4"."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
        with contextlib.suppress(AttributeError):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def stdout_fails(text=""):
    """Can what was printed not be written? Then it is dropped, or Python would fail at its end."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
        return False
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True


def said_of(error):
    """What a user is told of an error."""
    text = str(error)
    if getattr(error, "filename", None) and isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EFBIG):  # of a file without a name
        return f"stdout: {text}" if stdout_fails("\n") else (
            f"{text}; make room, or let TMPDIR name another folder")
    if isinstance(error, (ValueError, OSError)) and "Traceback" not in text:
        return text
    # a worker's has its traceback in its text, torch's a page behind its first line
    kind, lines = f"{type(error).__name__}: ", text.splitlines() or [""]
    return lines[-1] if "Traceback" in text else kind + lines[0]


def own_line(error):
    """"mine.py:12: ", the last line of somebody's own code that an error came through, or ""."""
    text = "".join(traceback.format_exception(error))
    found = [f"{OWN[file]}:{line}: " for file, line in re.findall(r'File "(.+?)", line (\d+)', text)
             if file in OWN]
    return found[-1] if found else ""


def visible(text):
    """A text with "\\x1b" for a control character, which a terminal would obey."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: ascii(found[0])[1:-1], text)


def one_line(text, longest=600):
    """A text without line ends, its middle left out where it is longer."""
    text = visible(" ".join(str(text).splitlines()))
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]} ... {text[-half:]}"


@contextlib.contextmanager
def prefix_errors(prefix):
    """Puts the command line's word before what a lower floor says of an argument."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{prefix}{one_line(error)}") from error


def refuse(when, message):
    """Raises ValueError with this message where `when` is true."""
    if when:
        raise ValueError(message)


def check_values(settings):
    """ValueError unless every value of a dataclass of settings is one that its `option` allows.

    limits is (low, high): low, up to but not including high; or ("above", low): more than low, and
    finite.
    """
    for f in fields(settings):
        value, limits = getattr(settings, f.name), f.metadata["limits"]
        choices, said = f.metadata["choices"], f"{option_name(f)} {value}: expected"
        if not f.metadata["help"]:  # it has no option of its own
            said = f"--set {f.name.upper()}={value}: expected"
        if value is None:
            continue
        if value == "" != f.default:  # such as "$OUT" of a script, not set
            raise ValueError(f"{said} a value, got an empty one")
        if choices and value not in choices:
            raise ValueError(f"{said} {', '.join(choices)}{nearest(value, choices)}")
        if type(value) is int and abs(value) >= 2 ** 63:
            raise ValueError(f"{said} a number below 2^63")
        if not limits:
            continue
        low, high = limits
        if low == "above" and not high < value < math.inf:
            raise ValueError(f"{said} a finite number above {high}")
        if low != "above" and not low <= value < high:
            below = f", below {high}" if high < math.inf else ""
            raise ValueError(f"{said} {low} or more{below}")


def read_names(text):
    """Numbers and words with commas between them, as a set: "6,9", "tree,gates"; "" and "none" are
    empty.
    """
    parts = {part for part in text.replace(" ", "").split(",") if part not in ("", "none")}
    return {int(part) if part.isdecimal() else part for part in parts}


def read_places(text, count):
    """"first", "all" or numbers with commas as a tuple of places below `count`. ValueError for
    others.
    """
    if text in ("first", "all"):
        return (0,) if text == "first" else tuple(range(count))
    places = read_names(text)
    if not places or not all(type(place) is int and place < count for place in places):
        raise ValueError(f"{text}: expected first, all, or numbers from 0 to {count - 1} with "
                         f"commas")
    return tuple(sorted(places))


def keywords_of(cls):
    """dict name -> default of the keyword-only arguments of a class's constructor that have one,
    its base classes' too.
    """
    found = {}
    for base in reversed(cls.__mro__):
        found |= getattr(vars(base).get("__init__"), "__kwdefaults__", None) or {}
    return found


def read_values(text, known):
    """NAME=VALUE with commas, as a dict of values of the kinds of `known`, a dict name -> default.

    Case does not matter in a name; the numbers of a tuple are joined by +. Raises ValueError for
    another name or kind.
    """
    found = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        name, _, value = part.partition("=")
        name = name.lower()
        if name not in known:
            listed = ", ".join(f"{name.upper()}={as_text(value)}" for name, value in known.items())
            raise ValueError(f"{part}: expected some of {listed}{nearest(name, known)}")
        like, kind = known[name], type(known[name])
        try:
            if kind is bool:
                value = {"true": True, "false": False}[value.lower()]
            else:
                value = tuple(map(int, value.split("+"))) if kind is tuple else kind(value)
        except (ValueError, TypeError, KeyError):  # or a default of None, which says nothing
            raise ValueError(f"{part}: expected such as {as_text(like)}") from None
        refuse(name in found, f"{part}: {name.upper()} stands there twice")
        numbers = value if kind is tuple else (value,)
        if any(type(x) is int and abs(x) >= 10 ** 6 for x in numbers):
            raise ValueError(f"{part}: expected numbers below 1,000,000")
        found[name] = value
    return found


def as_text(value):
    """How read_values reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


SAYS = {"PRIOR": "None, a function, dependency, relations, words", "READS": "pieces, words",
        "PRINTED": "a set of numbers", "ABLATIONS": "a set of words", "TRACE": "a dict"}
KINDS = {"PRIOR": Callable, "READS": str, "PRINTED": Set, "ABLATIONS": Set, "TRACE": dict}


def find_class(name, known):
    """The class of a method by its name in the dict `known`, or "mine.py:Name" of one's own.

    Raises ValueError where there is none, or it does not say of itself what it reads.
    """
    if name not in known and ":" not in name:
        raise ValueError(f"--model {name}: expected one of {', '.join(known)}, or a class of your "
                         f"own such as mine.py:MyAttention{nearest(name, known)}")
    with prefix_errors("--model "):
        place, _, attribute = known.get(name, "").partition(":")
        method = load_own(name) if not place else getattr(import_module(place), attribute)
    lacking = [x for x in SAYS if not hasattr(method, x)]
    refuse(lacking, f"--model {name}: expected a subclass of SelfAttention, or a model that says "
                    f"of itself what it does, {', '.join(lacking)} too")
    for attribute, expected in SAYS.items():
        said = getattr(method, attribute)
        words = said is None or isinstance(said, str)
        fits = str(said) in expected.split(", ") if words else isinstance(said, KINDS[attribute])
        refuse(not fits, f"--model {name}: {attribute} is {said!r}, expected {expected}")
    lacks = method.PRIOR and hasattr(method, "attend") and not hasattr(method, "spread")
    refuse(lacks, f"--model {name}: has a PRIOR and no spread, from words to pieces")
    return method


def source_of(place):
    """The file of what lies at "module:Name" or "path/to/file.py:Name", or None."""
    source = place.partition(":")[0]
    if source.endswith(".py"):
        return Path(source)
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        return Path(importlib.util.find_spec(source).origin)
    return None


@functools.cache
def load_own(place, kind="class"):
    """The class, or function, at "module:Name" or "path/to/file.py:Name". Raises ValueError where
    there is none.
    """
    source, _, name = place.partition(":")
    if not source.endswith(".py"):
        try:
            OWN[str(source_of(place))] = source
            module = import_module(source.strip("."))
        except (ModuleNotFoundError, ValueError) as error:
            raise ValueError(f"{place}: {error}") from error
    elif not Path(source).is_file():
        raise ValueError(f"{place}: there is no file {source}")
    else:
        spec = importlib.util.spec_from_file_location(Path(source).stem, source)
        module = importlib.util.module_from_spec(spec)
        OWN[spec.origin] = source
        sys.modules.setdefault(Path(source).stem, module)
        spec.loader.exec_module(module)

    def fits(found):
        return isinstance(found, type) if kind == "class" else callable(found)

    if not fits(getattr(module, name, None)):
        known = [x for x, found in vars(module).items() if fits(found)]
        raise ValueError(f"{place}: {source} has no {kind} {name}{nearest(name, known)}")
    return getattr(module, name)
