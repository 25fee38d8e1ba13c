"""A command line out of frozen dataclasses, classes by their place, errors that are one line."""
import argparse
import contextlib
import functools
import importlib.util
import io
import os
import re
import signal
import sys
import traceback
from dataclasses import field, fields
from importlib import import_module
from pathlib import Path

from support.checkpoints import join_names, one_line, refuse

OWN = {}  # file of somebody's own code that was loaded, an absolute path -> as it was named
STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
# A limit that leaves 0 out. Smaller numbers are 0 where `machine.torch_session` has them so.
ABOVE_0 = sys.float_info.min


def option(default, help, choices=None, limits=None):
    """A field of a dataclass of settings, with what the command line says about it.

    Args: help: one line. choices: all allowed values. limits: (low, high), low and what is between
        them.
    """
    return field(default=default, metadata=dict(help=help, choices=choices, limits=limits))


def option_name(f):
    """The option that sets a dataclass's field, such as "--lr-new"."""
    return "--" + f.name.replace("_", "-")


def kind_of(f):
    """int, float, str or bool: what a field declared as such, or as such or None, holds."""
    declared = getattr(f.type, "__args__", (f.type,))
    return next(kind for kind in (bool, int, float, str) if kind in declared)


class Joined(argparse.Action):
    """Of an option that takes names with commas between them: given twice, it has all of them."""

    def __call__(self, parser, given, text, option=None):
        setattr(given, self.dest, ",".join(filter(None, [getattr(given, self.dest, ""), text])))


class Arguments(argparse.ArgumentParser):
    """argparse whose errors are ValueErrors. needed: what its usage names, such as "RUN A B"."""

    def __init__(self, prog, description, needed=""):
        super().__init__(prog=prog, description=description, allow_abbrev=False,
                         usage=" ".join(["%(prog)s", *needed.split(), "[options]"]),
                         formatter_class=argparse.RawDescriptionHelpFormatter,
                         argument_default=argparse.SUPPRESS)

    def error(self, message):
        """argparse would print its usage and exit."""
        raise ValueError(f"{message}; see --help")

    def parse(self, argv=None):
        """The options given, as a dict. Raises ValueError for a mistake."""
        for word in sys.argv[1:] if argv is None else argv:
            refuse(re.match("--[a-z-]+=~", word), f"{word}: the shell leaves a ~ behind = as it is;"
                   f" put a space in the place of =")
        return vars(self.parse_args(argv))

    def add_field(self, group, f, exceptions=""):
        """The option of a dataclass's field, in a group. exceptions: what its help says behind its
        default.
        """
        text = f.metadata["help"].replace("%", "%%")
        if f.default not in (None, "") and "(default" not in text:
            text += f" (default: {f.default}{exceptions})"
        elif exceptions:
            text += f" (default: as --lr{exceptions})"
        form = {"action": argparse.BooleanOptionalAction}
        if kind_of(f) is not bool:
            shown = "|".join(f.metadata["choices"] or [f.name.upper()])
            form = {"type": kind_of(f), "metavar": shown}
            form |= {"action": Joined} if f.default == "" else {}
        group.add_argument(option_name(f), dest=f.name, help=text, **form)


def check_values(given):
    """ValueError unless every value of a dataclass of options is of its declared type, and one that
    its `option` allows.
    """
    for f in fields(given):
        value, choices, kind = getattr(given, f.name), f.metadata["choices"], kind_of(f)
        said = f"{option_name(f)} {value}: expected"
        if value is None and type(None) in getattr(f.type, "__args__", ()):
            continue
        refuse(type(value) is not kind and not (kind is float and type(value) is int),
               f"{option_name(f)} {value!r}: expected {kind.__name__}")
        refuse(value == "" != f.default, f"{said} a value, got an empty one")  # "$OUT", not set
        refuse(choices and value not in choices, f"{said} {join_names(choices or (), 99)}")
        if f.metadata["limits"]:
            low, high = f.metadata["limits"]
            least = "a number above 0" if low == ABOVE_0 else f"{low} or more"
            refuse(not low <= value < high, f"{said} {least}, below {high:g}")


def read_names(text):
    """Numbers and words with commas between them, such as "6,tree", as a set; "none" is empty."""
    parts = {*map(str.strip, text.split(","))} - {"", "none"}
    return {int(part) if part.isdecimal() else part for part in parts}


def read_places(text, count):
    """"first", "all" or numbers with commas as a tuple of places below `count`, or ValueError."""
    if text in ("first", "all"):
        return (0,) if text == "first" else tuple(range(count))
    places = read_names(text)
    refuse(not places or not places <= set(range(count)),
           f"{text}: expected first, all, or numbers from 0 to {count - 1} with commas")
    return tuple(sorted(places))


def keywords_of(cls):
    """dict name -> default of keyword-only arguments of a class's and its bases' constructors."""
    found = {}
    for base in reversed(cls.__mro__):
        found |= getattr(vars(base).get("__init__"), "__kwdefaults__", None) or {}
    return found


def read_values(text, known):
    """NAME=VALUE with commas, as a dict of values of the kinds of `known`, a dict name -> default.

    Case does not matter in a name; the numbers of a tuple are joined by +.
    """
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, value = (word.strip() for word in part.partition("=")[::2])
        name = name.lower()
        refuse(name not in known or name in found,
               f"{part}: expected some of {join_names(map(str.upper, known), 20)}, each once")
        kind = type(known[name])
        try:
            if kind is bool:
                found[name] = {"true": True, "false": False}[value.lower()]
            else:
                found[name] = tuple(map(int, value.split("+"))) if kind is tuple else kind(value)
        except (ValueError, TypeError, KeyError):  # or a default of None, which says nothing
            raise ValueError(f"{part}: expected one such as {known[name]!r}") from None
    return found


def find_class(name, known):
    """The class of a method by its name in the dict `known`, or "mine.py:Name" of one's own.

    Raises ValueError where there is none, or it does not say of itself what it reads.
    """
    if name in known:
        module, _, attribute = known[name].partition(":")
        return getattr(import_module(module), attribute)
    with prefix_errors("--model "):
        refuse(":" not in name, f"{name}: expected one of {', '.join(known)}, or a class of your "
               f"own such as mine.py:MyAttention")
        method, said = load_own(name), ("PRIOR", "READS", "PRINTED", "ABLATIONS", "TRACE")
        lacking = [x for x in said if not hasattr(method, x)]
        refuse(lacking, f"{name}: expected a subclass of SelfAttention, or a model that says of "
               f"itself what it does, {join_names(lacking)} too")
        kinds = (None, "dependency", "relations", *["words"] * (method.READS == "words"))
        refuse(not callable(method.PRIOR) and method.PRIOR not in kinds,
               f"{name}: PRIOR is {method.PRIOR!r}, expected a function or one of {kinds}")
    return method


def source_of(place):
    """The file of "path/to/file.py:Name", an absolute path; it may not exist."""
    return Path(os.path.abspath(place.partition(":")[0]))


@functools.cache
def load_own(place, kind="class"):
    """The class, or function, at "path/to/file.py:Name", or ValueError."""
    (source, _, name), file = place.partition(":"), source_of(place)
    refuse(file.suffix != ".py" or not file.is_file(),
           f"{place}: expected a file and a name in it such as mine.py:Mine, and there is none")
    OWN[str(file)] = source
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)
    find_neighbours(file.parent)
    try:
        spec.loader.exec_module(module)
    except SystemExit:
        raise ValueError(f"{place}: ends Python where it is imported; put that behind "
                         f"`if __name__ == '__main__'`") from None
    known = {name: found for name, found in vars(module).items()
             if (isinstance(found, type) if kind == "class" else callable(found))}
    refuse(name not in known, f"{place}: {source} has no {kind} {name}, but {join_names(known)}")
    return known[name]


def find_neighbours(folder):
    """Lets the file of one's own that is loaded now import the files beside it, and not those of
    the same name beside another one.
    """
    others = {os.path.dirname(file) for file in OWN} - {str(folder)}
    for path in folder.glob("*.py"):
        module = sys.modules.get(path.stem)
        if os.path.dirname(getattr(module, "__file__", None) or "") in others:
            del sys.modules[path.stem]
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    sys.path.sort(key=others.__contains__)  # stable: theirs are searched last


def run_command(main, name, argv=None):
    """Runs main(argv). -> exit status: a user's mistake is a line and 2, a signal of STOPS 130."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # `>&-` closes it
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook's is none
        sys.stdout.reconfigure(errors="backslashreplace")  # of a terminal that is not UTF-8
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOPS
              if signal.getsignal(number) != signal.SIG_IGN}  # as nohup has it
    try:
        status = main(argv) or 0
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as stop:
        print(f"\n{name}: interrupted{f'; {stop}' if str(stop) else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # who reads our output has enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails at its end
        return 0
    except Exception as error:
        place = last_own_line(error)
        if not isinstance(error, (ValueError, OSError)) and not place:
            if not OWN:
                raise
            place = f"with {join_names(OWN.values())}: "  # what it returned, or how it is called
        print(f"{name}: {place}{one_line(error)}", file=sys.stderr)
        return 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def last_own_line(error):
    """"mine.py:12: ", the last line of somebody's own code that an error came through, or ""."""
    text = "".join(traceback.format_exception(error))
    found = [f"{OWN[file]}:{line}: " for file, line in re.findall(r'File "(.+?)", line (\d+)', text)
             if file in OWN]
    return found[-1] if found else ""


@contextlib.contextmanager
def prefix_errors(prefix):
    """Puts the command line's word before what a lower floor says of an argument."""
    try:
        yield
    except ConnectionError:  # of a pipe, or another process
        raise
    except (ValueError, OSError) as error:
        raise ValueError(f"{prefix}{one_line(error)}") from error
