"""Classic mistakes, as edits of the library's functions; exercises.txt has them.

    # name: paper: title
    ## module.function: Eq. 1
    * a mistake: advice `old` => `new`      edits of the library's function; (printed): the page
    < `old` => `new`                        edits that come first

tests/test_mistakes.py plants each of them in the library, and sees the test of its equation fail.
"""
import ast
import functools
import re
import sys
import textwrap
from dataclasses import dataclass
from importlib import import_module as library
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
EDIT = re.compile(r"`([^`]*)` => `([^`]*)`")


@dataclass(frozen=True)
class Mistake:
    """A classic mistake: its name, (old, new) edits of the function."""
    name: str
    edits: tuple


@dataclass(frozen=True)
class Task:
    """One function: "module.name" or "module.Class.name", its mistakes, the edits before theirs."""
    equation: str
    function: str
    mistakes: tuple
    plain: tuple

    @property
    def module(self):
        return self.function.partition(".")[0]

    @property
    def path(self):
        """Name inside the module: ["DabertAttention", "fuse"]."""
        return self.function.split(".")[1:]

    @property
    def source(self):
        """The text of the library's function."""
        lines, tree = parsed(self.module)
        node = tree
        for name in self.path:
            node = next(part for part in node.body if getattr(part, "name", None) == name)
        return textwrap.dedent("\n".join(lines[node.lineno - 1:node.end_lineno]))


@dataclass(frozen=True)
class Exercise:
    """The functions of one paper."""
    name: str
    paper: str
    tasks: tuple


def find(module, path):
    """The function that a path such as ["DabertAttention", "fuse"] names in a module."""
    return functools.reduce(getattr, path, module)


@functools.cache
def parsed(module):
    """The lines of a module of the library, and its tree."""
    text = (ROOT / f"{module}.py").read_text("utf-8")
    return text.splitlines(), ast.parse(text)


def edited(task, edits):
    """The right function after edits of its text; None unless each text stands there once."""
    text = task.source
    for old, new in (*task.plain, *edits):
        if text.count(old) != 1:
            return None
        text = text.replace(old, new)
    names = dict(vars(library(task.module)))
    exec(compile(text, f"<mistaken {task.function}>", "exec"), names)
    return names[task.path[-1]]


def edits_of(text):
    return tuple((old.replace("\\n", "\n"), new.replace("\\n", "\n"))
                 for old, new in EDIT.findall(text))


def read_task(text, before):
    """A Task out of its section. before: function -> the last Task of it, whose mistakes stay."""
    head, *lines = re.split(r"\n(?=[-*~<>] )", text.strip())
    function, _, rest = head.partition(": ")
    said = {sign: [" ".join(line.split("\n  "))[2:] for line in lines if line[0] == sign]
            for sign in "*<"}
    plain = edits_of(" ".join(said["<"]))
    mistakes = tuple(Mistake(line.partition(": ")[0].removesuffix(" (printed)"),
                             edits_of(line.partition(": ")[2])) for line in said["*"])
    if old := before.get(function):
        mistakes, plain = (*old.mistakes, *mistakes), old.plain
    before[function] = Task(rest.partition("; ")[0], function, mistakes, plain)
    return before[function]


def read_exercises(text):
    """(name -> Exercise, paper -> Tasks that stand by themselves) of exercises.txt."""
    asked, unasked, before = {}, {}, {}
    for section in re.split(r"^# ", text, flags=re.M)[1:]:
        head, *tasks = re.split(r"^## ", section, flags=re.M)
        name, paper, _ = head.partition("\n")[0].split(": ", 2)
        tasks = tuple(read_task(task, before) for task in tasks)
        if name:
            asked[name] = Exercise(name, paper, tasks)
        else:
            unasked[paper] = tasks
    return asked, unasked


EXERCISES, UNASKED = read_exercises(Path(__file__).with_suffix(".txt").read_text("utf-8"))
