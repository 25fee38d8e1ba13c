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
    ~ what a variant asks for. `old` => `new`       of docstring, code and recipe, where it stands
    < `old` => `new`                        edits that come first, or (>) for the solution alone
"""
import ast
import functools
import hashlib
import re
import textwrap
from dataclasses import dataclass, replace
from importlib import import_module as library
from pathlib import Path

from draws import ROOT, cases_of

BLANK, PAGE, TITLE = "not written yet", "EXERCISE.md", "# Exercise "
EDIT = re.compile(r"`([^`]*)` => `([^`]*)`")
HERE = "Here: "                 # in a docstring: what this hand-out asks for, and no paper
CLASSIC, PRINTED, LIBRARY = "Classic mistake", "As printed", "The library's own equation"
TWISTED = 3                     # functions that a variant changes


@dataclass(frozen=True)
class Mistake:
    """A classic mistake: its name, what to tell the student, (old, new) edits of the function.

    kind: PRINTED is what the paper prints; a student may argue for it. LIBRARY is what the library
    computes, where a variant asks for something else.
    """
    name: str
    advice: str
    edits: tuple
    kind: str = CLASSIC

    @property
    def message(self):
        return f"{self.kind}: {self.name}. {self.advice}"


@dataclass(frozen=True)
class Twist:
    """Another equation, right in some variants: in words, as (old, new) edits of a function's text
    and of its recipe. A space of `old` may be the end of a line there."""
    says: str
    edits: tuple

    def applied(self, text):
        for old, new in self.edits:
            spaced = r"\s+".join(map(re.escape, old.split()))
            text = re.sub(spaced, lambda found, new=new: new, text)
        return text

    def function(self, text):
        """A function's text after the edits; its docstring says so in the end."""
        text = self.applied(text)
        docstring, lines = ast.parse(text).body[0].body[0], text.splitlines()
        indent, at = " " * docstring.col_offset, docstring.end_lineno
        said = textwrap.wrap(HERE + self.says, 96, initial_indent=indent, subsequent_indent=indent)
        last = lines[at - 1].removesuffix('"""').rstrip()
        lines[at - 1:at] = [*filter(None, [last]), "", *said, f'{indent}"""']
        return "\n".join(lines)


@dataclass(frozen=True)
class Task:
    """One function to write.

    equation: as the score shows it. function: "module.name" or "module.Class.name". points: what
    each case is worth, 1 (a line) to 4 (a loop of many steps). steps: the recipe. mistakes: of
    Mistake. plain: edits that come before those of a mistake, where the library has a shorter way
    besides the one the equation shows. written: edits for `solution`, where the library has a
    kernel for what the equation shows. cases: name -> function of a Draw that returns arguments.
    twists: of Twist. twist: the one that holds.
    """
    equation: str
    function: str
    points: int
    steps: list
    mistakes: tuple
    plain: tuple
    written: tuple
    cases: dict
    twists: tuple = ()
    twist: Twist | None = None

    @property
    def module(self):
        return self.function.partition(".")[0]

    @property
    def path(self):
        """Name inside the module: ["DabertAttention", "fuse"]."""
        return self.function.split(".")[1:]

    @property
    def source(self):
        """The text of the function that is right: the library's, or its twist."""
        lines, tree = parsed(self.module)
        node = definition(tree, self.path)
        text = textwrap.dedent("\n".join(lines[node.lineno - 1:node.end_lineno]))
        return self.twist.function(text) if self.twist else text

    @property
    def solution(self):
        """That function as a student would write it: the equation as its text intends, no
        docstring, no `printed`, no kernel."""
        text = replaced(self.source, (*self.plain, *self.written))
        return ast.unparse(Intended().visit(ast.parse(text)))

    def twisted(self, twist):
        """The Task whose right answer is a twist's. The library's is its one known mistake."""
        new = replace(self, steps=[twist.applied(step) for step in self.steps], twist=twist)
        whole = tuple(replaced(task.source, self.plain) for task in (new, self))
        mistake = Mistake("the hand-out has another", f"It says: {twist.says}", (whole,), LIBRARY)
        return replace(new, mistakes=(mistake,))


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
    """name: of the command. paper: as the score shows it. title: paper and equations. tasks: in the
    order of work."""
    name: str
    paper: str
    title: str
    tasks: tuple


def twisted(exercise, number):
    """An Exercise in which some functions have a twist, by a variant's number."""
    pairs = [(task, twist) for task in exercise.tasks for twist in task.twists]
    pairs.sort(key=lambda pair: hashlib.sha256(f"{number} {pair[1].says}".encode()).digest())
    chosen = {}
    for task, twist in pairs:
        if len(chosen) < TWISTED:
            chosen.setdefault(task.function, twist)
    return replace(exercise, tasks=tuple(
        task.twisted(chosen[task.function]) if task.function in chosen else task
        for task in exercise.tasks))


def without_hints(exercise):
    """An Exercise whose messages do not say what is wrong with what the paper prints."""
    hidden = {"name": "this is the page",
              "advice": "Does it do what the sentence beside it says?"}
    return replace(exercise, tasks=tuple(
        replace(task, mistakes=tuple(replace(mistake, **hidden) if mistake.kind == PRINTED
                                     else mistake for mistake in task.mistakes))
        for task in exercise.tasks))


def find(module, path):
    """The function that a path such as ["DabertAttention", "fuse"] names in a module."""
    return functools.reduce(getattr, path, module)


def replaced(text, edits):
    for old, new in edits:
        text = text.replace(old, new)
    return text


@functools.cache
def parsed(module):
    """The lines of a module of the library, and its tree."""
    text = (ROOT / f"{module}.py").read_text("utf-8")
    return text.splitlines(), ast.parse(text)


def definition(tree, path):
    """The node of a function or class, path as ["DabertAttention", "fuse"]."""
    for name in path:
        tree = next(node for node in tree.body if getattr(node, "name", None) == name)
    return tree


# ---- exercises.txt ------------------------------------------------------------------------------

def edits_of(text):
    return tuple((old.replace("\\n", "\n"), new.replace("\\n", "\n"))
                 for old, new in EDIT.findall(text))


def read_mistake(text):
    """A Mistake out of "name (printed): advice `old` => `new` ..."."""
    name, _, rest = text.partition(": ")
    return Mistake(name.removesuffix(" (printed)"), EDIT.split(rest)[0].rstrip(), edits_of(rest),
                   PRINTED if "(printed)" in name else CLASSIC)


def read_task(text, exercise, before):
    """A Task out of its section. before: function -> the last Task of it: what this section does
    not say is as there, and mistakes are added."""
    head, *lines = re.split(r"\n(?=[-*~<>] )", text.strip())
    function, _, rest = head.partition(": ")
    equation, _, points = rest.partition("; ")
    said = {sign: [" ".join(line.split("\n  "))[2:] for line in lines if line[0] == sign]
            for sign in "-*~<>"}
    plain, written = (edits_of(" ".join(said[sign])) for sign in "<>")
    mistakes = tuple(map(read_mistake, said["*"]))
    twists = tuple(Twist(EDIT.split(text)[0].rstrip(), edits_of(text)) for text in said["~"])
    if old := before.get(function):
        said["-"], mistakes = said["-"] or old.steps, (*old.mistakes, *mistakes)
        plain, written, twists = old.plain, old.written, old.twists
    before[function] = Task(equation, function, int(points.partition(" ")[0] or 1), said["-"],
                            mistakes, plain, written, cases_of(function, exercise), twists)
    return before[function]


def read_exercises(text):
    """(name -> Exercise, paper -> Tasks that no exercise asks for) of exercises.txt."""
    asked, unasked, before = {}, {}, {}
    for section in re.split(r"^# ", text, flags=re.M)[1:]:
        head, *tasks = re.split(r"^## ", section, flags=re.M)
        name, paper, title = head.partition("\n")[0].split(": ", 2)
        tasks = tuple(read_task(task, name, before) for task in tasks)
        if name:
            asked[name] = Exercise(name, paper, title, tasks)
        else:
            unasked[paper] = tasks
    return asked, unasked


EXERCISES, UNASKED = read_exercises(Path(__file__).with_suffix(".txt").read_text("utf-8"))
