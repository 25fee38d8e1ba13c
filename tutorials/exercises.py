"""The exercises: which functions a student writes, how they are tried, and the classic mistakes.

One table, EXERCISES, serves all commands: make_exercise.py blanks its functions in a copy of the
library, check.py and grade.py compare that copy with the library. exercises.txt has its words,
draws.py the arguments. No answer stands there. What is expected is what the library returns, and a
classic mistake is an edit (old text, new text) of the library's own function.
tests/test_mistakes.py plants each of them, and those of UNASKED, in the library, and sees the test
of its equation fail.

    # dafa: DAFA: title                     an Exercise
    ## module.function: Eq. 1; 2 points     a Task of it
    - a step of its recipe
    * a mistake: advice `old` => `new`      edits of the library's function; (printed): the page
    < `old` => `new`                        edits that come first, or (>) for the solution alone
"""
import ast
import importlib
import inspect
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from draws import cases_of

BLANK, PAGE, TITLE = "not written yet", "EXERCISE.md", "# Exercise "
EDIT = re.compile(r"`([^`]*)` => `([^`]*)`")


@dataclass(frozen=True)
class Mistake:
    """A classic mistake: its name, what to tell the student, (old, new) edits of the function.

    printed: what the paper prints; a student may argue for it.
    """
    name: str
    advice: str
    edits: tuple
    printed: bool = False


@dataclass(frozen=True)
class Task:
    """One function to write.

    equation: as the score shows it. function: "module.name" or "module.Class.name". points: what
    each case is worth, 1 (a line) to 4 (a loop of many steps). steps: the recipe. mistakes: of
    Mistake. plain: edits that come before those of a mistake, where the library has a shorter way
    besides the one the equation shows. written: edits for `solution`, where the library has a
    kernel for what the equation shows. cases: name -> function of a Draw that returns arguments.
    """
    equation: str
    function: str
    points: int
    steps: list
    mistakes: tuple
    plain: tuple
    written: tuple
    cases: dict

    @property
    def module(self):
        return self.function.partition(".")[0]

    @property
    def path(self):
        """Name inside the module: ["DabertAttention", "fuse"]."""
        return self.function.split(".")[1:]

    @property
    def solution(self):
        """The library's function as a student would write it: the equation as its text intends,
        no docstring, no `printed`, no kernel."""
        text = textwrap.dedent(inspect.getsource(find(library(self.module), self.path)))
        for old, new in (*self.plain, *self.written):
            text = text.replace(old, new)
        return ast.unparse(Intended().visit(ast.parse(text)))


class Intended(ast.NodeTransformer):
    """Leaves out of a function its docstring, what only `printed` or `without` switches on, and
    what is there for half precision, for training or for speed."""

    def holds(self, test):
        """Whether a test holds where nothing is printed or left out; None: that does not decide."""
        empty = dict.fromkeys(("printed", "without", "typeset"), frozenset())
        text = re.sub(r"\bself\.(?=printed|without)|\bset(?=\()", "", ast.unparse(test))
        names = {x.id for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Name)}
        decides = text == "False" or names and names <= empty.keys()
        return bool(eval(text, empty)) if decides else None

    def visit_If(self, node):
        self.generic_visit(node)
        return {True: node.body, False: node.orelse}.get(self.holds(node.test), node) or None

    visit_IfExp = visit_If

    def visit_BoolOp(self, node):
        kept = [part for part in node.values if self.holds(part) is None]
        return kept[0] if len(kept) == 1 else node

    def visit_Call(self, node):
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if called == "F.dropout":
            return node.args[0]
        while node.args and self.holds(node.args[-1]) is False:
            node.args.pop()
        node.args = [ast.Constant(False) if self.holds(x) is False else x for x in node.args]
        return node.func.value if called.endswith(".to") else node

    def visit_With(self, node):
        self.generic_visit(node)
        return node.body

    def visit_Assign(self, node):
        self.generic_visit(node)
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            kept = [pair for pair in zip(target.elts, value.elts) if self.holds(pair[1]) is None]
            target.elts, value.elts = map(list, zip(*kept))
        return None if ast.unparse(target) in ("dropout", "wide") else node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.body = node.body[ast.get_docstring(node) is not None:]
        return node


@dataclass(frozen=True)
class Exercise:
    """paper: as the score shows it. title: paper and equations. about: what it teaches, and how
    long it takes. tasks: in the order of work."""
    paper: str
    title: str
    about: str
    tasks: tuple

    @property
    def parser(self):
        """Does training the model need assets/?"""
        return self.paper in ("DAFA", "DRr-Net")


def find(module, path):
    """The function that a path such as ["DabertAttention", "fuse"] names in a module."""
    for name in path:
        module = getattr(module, name)
    return module


def library(name):
    return importlib.import_module(name)


# ---- exercises.txt ------------------------------------------------------------------------------

def edits_of(text):
    return tuple((old.replace("\\n", "\n"), new.replace("\\n", "\n"))
                 for old, new in EDIT.findall(text))


def read_mistake(text):
    """A Mistake out of "name (printed): advice `old` => `new` ..."."""
    name, _, rest = text.partition(": ")
    advice = rest[:EDIT.search(rest).start()].rstrip()
    return Mistake(name.removesuffix(" (printed)"), advice, edits_of(rest), "(printed)" in name)


def read_task(text, exercise, before):
    """A Task out of its section. before: function -> the last Task of it: what this section does
    not say is as there, and mistakes are added."""
    head, *lines = re.split(r"\n(?=[-*<>] )", text.strip())
    function, _, rest = head.partition(": ")
    equation, _, points = rest.partition("; ")
    said = {sign: [" ".join(line.split("\n  "))[2:] for line in lines if line[0] == sign]
            for sign in "-*<>"}
    plain, written = (edits_of(" ".join(said[sign])) for sign in "<>")
    mistakes = tuple(map(read_mistake, said["*"]))
    if old := before.get(function):
        said["-"], mistakes = said["-"] or old.steps, (*old.mistakes, *mistakes)
        plain, written = old.plain, old.written
    before[function] = Task(equation, function, int(points.partition(" ")[0] or 1), said["-"],
                            mistakes, plain, written, cases_of(function, exercise))
    return before[function]


def read_exercises(text):
    """(name -> Exercise, paper -> Tasks that no exercise asks for) of exercises.txt."""
    asked, unasked, before = {}, {}, {}
    for section in re.split(r"^# ", text, flags=re.M)[1:]:
        head, *tasks = re.split(r"^## ", section, flags=re.M)
        head, _, about = head.partition("\n")
        name, paper, title = head.split(": ", 2)
        tasks = tuple(read_task(task, name, before) for task in tasks)
        if name:
            asked[name] = Exercise(paper, title, about.strip(), tasks)
        else:
            unasked[paper] = tasks
    return asked, unasked


EXERCISES, UNASKED = read_exercises(Path(__file__).with_suffix(".txt").read_text("utf-8"))
