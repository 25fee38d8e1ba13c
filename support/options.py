"""A command line made of frozen dataclasses; classes named by their file."""
import argparse
import functools
import hashlib
import importlib.util
import math
import os
import signal
import sys
from dataclasses import field, fields
from importlib import import_module
from pathlib import Path
from threading import current_thread, main_thread

from support.errors import join_names, last_own_line, one_line, prefix_errors, refuse

OWN = {}  # path of each file of the user's own code that was loaded -> (name given, its content)
# A limit that leaves 0 out. `machine.torch_session` lets the processor round smaller numbers to 0.
ABOVE_0 = sys.float_info.min


def option(default, help, choices=None, limits=None):
    """A field of a dataclass of settings, with what the command line says about it.

    Args: help: one line. choices: all allowed values. limits: (low, high) for low <= value < high.
    """
    return field(default=default, metadata=dict(help=help, choices=choices, limits=limits))


def option_name(f):
    """The option that sets a dataclass's field, such as "--lr-new"."""
    return "--" + f.name.replace("_", "-")


def kind_of(f):
    """int, float, str or bool: the type that a field declares, alone or beside None."""
    declared = getattr(f.type, "__args__", (f.type,))
    return next(kind for kind in (bool, int, float, str) if kind in declared)


class Joined(argparse.Action):
    """The action of an option that takes names with commas: given twice, it keeps all of them."""

    def __call__(self, parser, given, text, option=None):
        before = getattr(given, self.dest, "")
        setattr(given, self.dest, f"{before},{text}" if before else text)


class Arguments(argparse.ArgumentParser):
    """argparse whose errors are ValueErrors. needed: arguments in its usage, such as "RUN A B"."""

    def __init__(self, prog, description, needed=""):
        super().__init__(prog=prog, description=description, allow_abbrev=False,
                         usage=" ".join(["%(prog)s", *needed.split(), "[options]"]),
                         formatter_class=argparse.RawDescriptionHelpFormatter,
                         argument_default=argparse.SUPPRESS)

    def error(self, message):
        """Raises ValueError, where argparse would print its usage and exit."""
        raise ValueError(f"{message}; see --help")

    def parse(self, argv=None):
        """The options given, as a dict. Raises ValueError for a mistake."""
        given = vars(self.parse_intermixed_args(argv))
        refuse("" in (given.get("out"), given.get("predict")), "--out, --predict: expected a name")
        return given

    def add_field(self, group, f, exceptions=""):
        """Adds a dataclass's field to a group. exceptions: the help text behind its default."""
        text = f.metadata["help"].replace("%", "%%")
        if "(default" not in text and (exceptions or f.default not in (None, "")):
            text += f" (default: {f.default}{exceptions})"
        form = {"action": argparse.BooleanOptionalAction}
        if kind_of(f) is not bool:
            shown = "|".join(f.metadata["choices"] or [f.name.upper()])
            form = {"type": kind_of(f), "metavar": shown}
            if f.default == "":
                form["action"] = Joined
        group.add_argument(option_name(f), dest=f.name, help=text, **form)


def check_values(given):
    """Raises ValueError unless the `option` of each field of a dataclass allows its value."""
    for f in fields(given):
        value, choices, limits = getattr(given, f.name), f.metadata["choices"], f.metadata["limits"]
        may_be_none = type(None) in getattr(f.type, "__args__", ())
        if value is None and may_be_none:
            continue
        start, kind = f"{option_name(f)} {value!r}: expected", kind_of(f)
        whole = kind is float and type(value) is int
        refuse(type(value) is not kind and not whole, f"{start} {kind.__name__}")
        if f.default != "":
            refuse(value == "", f"{start} a value")  # such as "$OUT", never set
        if choices:
            refuse(value not in choices, f"{start} {join_names(choices, 99)}")
        if limits:
            low, high = limits
            least = "a number above 0" if low == ABOVE_0 else f"{low} or more"
            refuse(not low <= value < high, f"{start} {least}, below {high:g}")


def read_names(text):
    """Numbers and words with commas between them, such as "6,tree", as a set; "none" is empty."""
    parts = {*map(str.strip, text.split(","))} - {"", "none"}
    return {int(part) if part.isdecimal() else part for part in parts}


def keywords_of(cls):
    """dict name -> default of keyword-only arguments of a class's and its bases' constructors."""
    defaults = {}
    for base in reversed(cls.__mro__):
        defaults |= getattr(vars(base).get("__init__"), "__kwdefaults__", None) or {}
    return defaults


def read_values(text, known):
    """NAME=VALUE with commas, as a dict. known: dict name -> default, which has the value's type.

    Case does not matter in a name; the numbers of a tuple are joined by +. Whole numbers are 1 or
    more, other numbers 0 or more.
    """
    values = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        name = name.strip().lower()
        refuse(name not in known or name in values,
               f"{part}: expected some of {join_names(map(str.upper, known), 20)}, each once")
        try:
            values[name] = read_value(value.strip(), type(known[name]))
        except (ValueError, TypeError, KeyError):  # TypeError: the default is None
            raise ValueError(f"{part}: expected one such as {known[name]!r}") from None
    return values


def read_value(text, kind):
    """The value of one size, of a type. Raises ValueError, TypeError or KeyError if it has none."""
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if kind is tuple:
        return tuple(read_value(part, int) for part in text.split("+"))
    value = kind(text)
    refuse(kind is int and value < 1, "no size")
    refuse(kind is float and not 0 <= value < math.inf, "no size")
    return value


def find_class(name, known):
    """The class of a method by its name in the dict `known`, or the user's own "mine.py:Name"."""
    if name in known:
        module, _, attribute = known[name].partition(":")
        return getattr(import_module(module), attribute)
    with prefix_errors("--model "):
        refuse(":" not in name, f"{name}: expected one of {', '.join(known)}, or a class of your "
               f"own such as mine.py:MyAttention")
        method, needed = load_own(name), ("READS", "PRINTED", "ABLATIONS")
        lacking = [attribute for attribute in needed if not hasattr(method, attribute)]
        refuse(lacking, f"{name}: expected a subclass of SelfAttention, or a whole model with "
               f"{join_names(lacking)} too")
    return method


def source_of(place):
    """The absolute path of the file in "path/to/file.py:Name". The file may not exist."""
    return Path(os.path.abspath(place.partition(":")[0]))


@functools.cache
def load_own(place, kind="class"):
    """The class, or the function, at "path/to/file.py:Name". Raises ValueError if there is none."""
    (source, _, name), file = place.partition(":"), source_of(place)
    refuse(file.suffix != ".py" or not file.is_file(),
           f"{place}: expected a file and a name in it such as mine.py:Mine; there is no {file}")
    found = getattr(load_file(file, source, file.read_bytes()), name, None)
    refuse(not (isinstance(found, type) if kind == "class" else callable(found)),
           f"{place}: {source} has no {kind} {name}")
    return found


def own_parser(place):
    """The function that --parser names, or None."""
    with prefix_errors("--parser "):
        return load_own(place, "function") if place else None


def own_sums(**places):
    """dict name -> sha256 of the code that was loaded from its place, such as mine.py:Mine. A place
    without a file has no sum.
    """
    files = {name: str(source_of(place)) for name, place in places.items() if ":" in place}
    return {name: hashlib.sha256(OWN[file][1]).hexdigest() for name, file in files.items()}


@functools.cache
def load_file(file, source, content):
    """The module of a user's file, which is run once, and may import the files beside it.

    source: the file's name as given. content: its bytes; a changed file is another module.
    """
    OWN[str(file)] = source, content
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    return module


def run_command(main, name, argv=None):
    """Runs main(argv). Returns: 0; 130 for a signal; 2 for a user's mistake, which is one line."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup ignores SIGHUP, and a thread may set none
        if main_thread() is current_thread() and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        return main(argv) or 0
    except KeyboardInterrupt as stop:
        print(f"\n{name}: interrupted{f'; {stop}' if str(stop) else ''}", file=sys.stderr)
        return 130
    except Exception as error:
        place, hint = last_own_line(error, OWN), ""   # of the user's own code, or ""
        if not place and isinstance(error, (RuntimeError, MemoryError)):  # torch's
            hint = "; if memory is short, lower --batch-size or --workers"
        elif not place and not isinstance(error, (ValueError, OSError)):
            raise
        print(f"{name}: {place}{one_line(error)}{hint}", file=sys.stderr)
        return 2
