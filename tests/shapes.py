"""Runs shape comments.

A module states its axis letters once, in a block `# Axes: B batch, L tokens, d hidden size`, and a
line that changes a shape ends with the new one: `hidden = self.word(ids) + position  # (B, L, d)`.
While a `Tracer` is on, it looks at each such line when it has run: the named value, or the returned
one, must have that shape. Within one call of a function a letter means one size. An axis may be a
letter, a number, or such as `2*d` or `n+1`. What cannot be checked is an error: a letter outside
the legend, a shape on any other kind of line, words behind a shape.
"""
import ast
import re
import sys
from pathlib import Path

AXIS = re.compile(r"(?:(\d+)\*)?([A-Za-z]+)(?:\+(\d+))?|(\d+)")


def read_shapes(path):
    """Line -> (the statement, its shape as a list of axes) of all lines of statements with one."""
    source, shapes = Path(path).read_text("utf-8"), {}
    legend = re.search(r"^# Axes:(.*(?:\n# .*)*)", source, re.M)
    legend = legend[1].replace("\n#", "").split(",") if legend else []
    known = {meaning.split()[0] for meaning in legend}
    statements = {node.end_lineno: node for node in ast.walk(ast.parse(source))
                  if isinstance(node, ast.Return) or isinstance(node, ast.Assign)
                  and isinstance(node.targets[0], ast.Name)}
    for line, text in enumerate(source.splitlines(), 1):
        found = re.search(r"\S +# \(([^ ,]*(?:, [^ ,]+)*),?\)(.*)", text)   # no words in brackets
        if found:
            axes = [axis for axis in found[1].split(", ") if axis]
            read = [AXIS.fullmatch(axis) for axis in axes]
            strange = not all(read) or {axis[2] for axis in read} - known - {None}
            if strange or found[2] or line not in statements:
                raise ValueError(f"{path}:{line}: letters that are not in the legend, words behind "
                                 f"it, or no `name = ...` or `return ...` before it")
            lines = range(statements[line].lineno, line + 1)
            shapes |= dict.fromkeys(lines, (statements[line], axes))
    return shapes


def fits(size, axes, bound):
    """True when the sizes are those of the axes. Letters met for the first time go into `bound`."""
    if len(size) != len(axes):
        return False
    for axis, got in zip(axes, size):
        factor, letter, more, number = AXIS.fullmatch(axis).groups()
        value, rest = divmod(got - int(more or 0), int(factor or 1))
        if rest or value != (bound.setdefault(letter, value) if letter else int(number)):
            return False
    return True


class Tracer:
    """A context. Afterwards `wrong` lists what was not as a comment says, `never_run` the comments
    that no call has reached."""

    def __init__(self, paths):
        self.shapes, self.wrong = {str(path): read_shapes(path) for path in paths}, []
        self.never_run = {f"{Path(path).name}:{statement.end_lineno}"
                          for path, shapes in self.shapes.items()
                          for statement, _ in shapes.values()}

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def enter(self, frame, event, value):
        """Follows a call of a function of these files, but what Python makes of a comprehension."""
        path = frame.f_code.co_filename
        shapes, bound, running = self.shapes.get(path), {}, None
        if not shapes or frame.f_code.co_name.startswith("<"):
            return None

        def follow(frame, event, value):
            nonlocal running
            here = shapes.get(frame.f_lineno) if event == "line" else None
            if running and event != "exception":
                statement, axes = running
                returns = isinstance(statement, ast.Return)
                if here is running or returns and event == "line":      # a `with` may end before
                    return follow
                value = value if returns else frame.f_locals[statement.targets[0].id]
                line, known = f"{Path(path).name}:{statement.end_lineno}", dict(bound)
                self.never_run.discard(line)
                shape = getattr(value, "shape", None)
                if shape is None or not fits(tuple(shape), axes, bound):
                    self.wrong.append(f"{line}: {axes}, found {shape}, so far {known}")
            running = here
            return follow

        return follow
