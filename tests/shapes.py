"""Runs shape comments.

A module states its axis letters once, in a block `# Axes: B batch, L tokens, d hidden size`. A line
that changes a shape ends with the new shape: `hidden = self.word(ids) + position  # (B, L, d)`. A
`Tracer` looks at each such line after it has run: the assigned or returned value must have this
shape. Within one call of a function, a letter means one size. A docstring's `q, k: (B, L, d)` binds
the letters of arguments.

An axis is a letter, a number, or a form such as `2*d` or `n+1`. A comment that cannot be checked is
an error: a letter outside the legend, a shape on any other kind of line, words behind a shape.
"""
import ast
import functools
import re
import sys
from pathlib import Path

AXIS = re.compile(r"(?:(\d+)\*)?([A-Za-z]+)(?:\+(\d+))?|(\d+)")
ARGUMENTS = re.compile(r"((?:\w+, )*\w+):? (?:bool |int64 )?\(([\w*+, ]+?),?\)(?!,? or)")
arguments = functools.cache(ARGUMENTS.findall)


def read_shapes(path):
    """dict line -> (place, name that the line assigns to or None, the axes of its comment)."""
    source, shapes = Path(path).read_text("utf-8"), {}
    legend = re.search(r"^# Axes:(.*(?:\n# .*)*)", source, re.M)
    legend = legend[1].replace("\n#", "").split(",") if legend else []
    letters = {meaning.split()[0] for meaning in legend}
    statements = {node.end_lineno: node for node in ast.walk(ast.parse(source))
                  if isinstance(node, ast.Return) or isinstance(node, ast.Assign)
                  and isinstance(node.targets[0], ast.Name)}
    for line, text in enumerate(source.splitlines(), 1):
        comment = re.search(r"\S +# \(([^ ,]*(?:, [^ ,]+)*),?\)(.*)", text)   # no words in brackets
        if comment:
            axes = [axis for axis in comment[1].split(", ") if axis]
            parts = [AXIS.fullmatch(axis) for axis in axes]
            strange = not all(parts) or {part[2] for part in parts} - letters - {None}
            assert not strange and not comment[2] and line in statements, f"{path}:{line}"
            name = getattr(statements[line], "targets", [ast.Name(None)])[0].id
            lines = range(statements[line].lineno, line + 1)
            shapes |= dict.fromkeys(lines, (f"{path}:{line}", name, axes))
    return shapes


def fits(size, axes, bound):
    """Whether the axes allow this size. bound: letter -> its number; new letters are added."""
    if len(size) != len(axes):
        return False
    for axis, got in zip(axes, size):
        factor, letter, more, number = AXIS.fullmatch(axis).groups()
        value, rest = divmod(got - int(more or 0), int(factor or 1))
        if rest or value != (bound.setdefault(letter, value) if letter else int(number)):
            return False
    return True


class Tracer:
    """Context manager. Afterwards `wrong` lists the comments that a value did not fit, `never_run`
    the comments that no call has reached."""

    def __init__(self, paths):
        self.shapes, self.wrong = {str(path): read_shapes(path) for path in paths}, []
        self.never_run = {place for shapes in self.shapes.values() for place, *_ in shapes.values()}

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def enter(self, frame, event, value):
        """Follows each call of a function in these files, except comprehensions."""
        path = frame.f_code.co_filename
        shapes, bound, running = self.shapes.get(path), {}, None
        if not shapes or frame.f_code.co_name.startswith("<"):
            return None
        docstring = str(frame.f_code.co_consts[:1])
        for names, axes in arguments(docstring):
            for name in names.split(", "):
                size = getattr(frame.f_locals.get(name), "shape", None)
                if size is not None and not fits(size, axes.split(", "), bound):
                    self.wrong.append(f"{path}:{frame.f_lineno}: {name} {axes}, found {size}")

        def follow(frame, event, value):
            nonlocal running
            here = shapes.get(frame.f_lineno) if event == "line" else None
            if running and event != "exception":
                place, name, axes = running
                if here is running or not name and event == "line":     # `with` ends after `return`
                    return follow
                value = frame.f_locals[name] if name else value
                self.never_run.discard(place)
                shape = getattr(value, "shape", None)
                if shape is None or not fits(shape, axes, bound):
                    self.wrong.append(f"{place}: {axes}, found {shape}, letters {bound}")
            running = here
            return follow

        return follow
