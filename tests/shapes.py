"""Runs shape comments.

A module states its axis letters once, in a comment block

    # Axes: B batch, L tokens, d hidden size

and a line that changes a shape ends with the new one, as in

    hidden = self.word(input_ids) + position  # (B, L, d)

`trace` loads a module with a check behind each such line: the named value, or the returned one, must have that shape.
Within one call of a function a letter means one size. An axis may be a letter, an integer, or an expression such as
`2*d` or `n+1`. What the check cannot run is an error: a letter outside the legend, a shape on any other kind of line
(several targets, an attribute, a `for`), words behind a shape.

    with trace("bert_min.py", "semmatch.py") as tracer:      # a module stands behind those it imports
        tracer.modules["semmatch"].spread_prior(...)
    tracer.never_run()                                       # "semmatch.py:166 (B, L, L)", ...
"""
import ast
import io
import re
import sys
import tokenize
import types
from pathlib import Path


class ShapeError(Exception):
    """A shape comment is wrong, or no check can be made of it."""


def read_legend(comments):
    """Letter -> meaning, from the comment block that starts with `# Axes:`. comments: as read_comments has them."""
    for line, (text, alone) in comments.items():
        if alone and text.startswith("# Axes:"):
            block = text.removeprefix("# Axes:")
            while comments.get(line := line + 1, ("", False))[1]:
                block += comments[line][0].lstrip("#")
            legend = dict(item.strip().partition(" ")[::2] for item in block.split(","))
            bad = [letter for letter, meaning in legend.items() if not letter.isidentifier() or not meaning]
            if bad or len(legend) < block.count(",") + 1:
                raise ShapeError(f"line {line - 1}: the legend needs `letter meaning, ...`, once each: {bad or block}")
            return legend
    return {}


def read_comments(source):
    """Line -> (comment, whether nothing else is on the line)."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found[token.start[0]] = (token.string, token.line.lstrip().startswith("#"))
    return found


def read_shapes(comments, legend):
    """Line -> shape, the text of each axis, for each comment behind code that is a shape."""
    shapes = {}
    for line, (text, alone) in comments.items():
        inside, closed, rest = text.removeprefix("# (").partition(")")
        if alone or not text.startswith("# (") or not closed or not re.fullmatch(r"[\w\s,+*/-]*", inside):
            continue
        try:
            axes = ast.parse(f"({inside.strip().rstrip(',')},)" if inside.strip() else "()", mode="eval").body.elts
        except SyntaxError:                                       # words in brackets
            continue
        letters = {node.id for axis in axes for node in ast.walk(axis) if isinstance(node, ast.Name)}
        if letters - legend.keys():
            raise ShapeError(f"line {line}: {text}: {sorted(letters - legend.keys())} not in the legend")
        if rest.strip():
            raise ShapeError(f"line {line}: {text}: words behind it")
        shapes[line] = [ast.unparse(axis) for axis in axes]
    return shapes


def check(size, shape, bound):
    """True when the sizes fit the axes. Letters met for the first time are added to `bound`."""
    if len(size) != len(shape):
        return False
    for axis, got in zip(shape, size):                            # lone letters first: they say what n in n+1 is
        if axis.isidentifier() and bound.setdefault(axis, got) != got:
            return False
    for axis, got in zip(shape, size):
        new = {node.id for node in ast.walk(ast.parse(axis)) if isinstance(node, ast.Name)} - bound.keys()
        if len(new) > 1:
            raise ShapeError(f"{axis}: several unknown letters")
        for letter in new:
            fits = [value for value in range(got + 3) if eval(axis, {}, bound | {letter: value}) == got]
            if len(fits) != 1:
                return False
            bound[letter] = fits[0]
        if eval(axis, {}, bound) != got:
            return False
    return True


class Instrument(ast.NodeTransformer):
    """Puts a check behind every statement whose last line ends with a shape, and fresh letters into each function."""

    def __init__(self, shapes):
        self.waiting = set(shapes)

    def call(self, value, node):
        self.waiting.discard(node.end_lineno)
        line = ast.Constant(node.end_lineno)
        axes = ast.Name("__axes__", ast.Load())
        return ast.Call(ast.Name("__shape__", ast.Load()), [value, line, axes], [])

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        at = int(ast.get_docstring(node) is not None)
        node.body.insert(at, ast.Assign([ast.Name("__axes__", ast.Store())], ast.Dict([], [])))
        return node

    def visit_Assign(self, node):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.end_lineno not in self.waiting or len(targets) > 1 or not isinstance(targets[0], ast.Name):
            return node
        return [node, ast.Expr(self.call(ast.Name(targets[0].id, ast.Load()), node))]

    visit_AugAssign = visit_AnnAssign = visit_Assign

    def visit_Return(self, node):
        if node.end_lineno in self.waiting and node.value is not None:
            node.value = self.call(node.value, node)
        return node


class trace:
    """Context in which the named modules are loaded anew with their checks. See the module's docstring."""

    def __init__(self, *paths):
        self.paths = [Path(path) for path in paths]
        self.modules, self.shapes, self.run = {}, {}, set()

    def __enter__(self):
        self.before = {path.stem: sys.modules.get(path.stem) for path in self.paths}
        try:
            for path in self.paths:
                self.load(path)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name, module in self.before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module

    def load(self, path):
        source = path.read_text("utf-8")
        comments = read_comments(source)
        try:
            shapes = read_shapes(comments, read_legend(comments))
            instrument = Instrument(shapes)
            tree = ast.fix_missing_locations(instrument.visit(ast.parse(source)))
            if instrument.waiting:
                raise ShapeError(f"line {min(instrument.waiting)}: a shape belongs behind `name = ...` or `return ...`")
        except ShapeError as error:
            raise ShapeError(f"{path.name}, {error}") from None
        self.shapes |= {(path.name, line): shape for line, shape in shapes.items()}

        def check_line(value, line, bound):
            shape = shapes[line]
            size = tuple(getattr(value, "shape", ())) if hasattr(value, "shape") else None
            known = dict(bound)
            if size is None or not check(size, shape, bound):
                raise ShapeError(f"{path.name}:{line}: the comment says ({', '.join(shape)}), the value is "
                                 f"{size or type(value).__name__}, and so far {known}")
            self.run.add((path.name, line))
            return value

        module = types.ModuleType(path.stem)
        module.__file__, module.__shape__, module.__axes__ = str(path), check_line, {}
        self.modules[path.stem] = sys.modules[path.stem] = module
        exec(compile(tree, str(path), "exec"), module.__dict__)

    def never_run(self):
        """The shape comments that no call has reached."""
        return [f"{name}:{line} ({', '.join(shape)})" for (name, line), shape in sorted(self.shapes.items())
                if (name, line) not in self.run]
