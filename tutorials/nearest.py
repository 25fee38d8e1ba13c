"""What a student may have written instead of a right solution, one small edit at a time.

    simple_edits(source)    [(description, source with the edit)], the likeliest first

Where an edited solution returns what the student's function returned, its description says what
went wrong. It must do so in every case: one case alone names wrong causes. An edit may change
nothing, and it may raise; none loops longer than the solution does.

    changes                 [(node, code)]: what an edit puts where
    rank                    1: the likeliest, 6: what nobody would think of

Left out: running the edits (answers.py); known mistakes, which have advice (exercises.py); what
else can be said of wrong numbers (differences.py).
"""
import ast
import itertools
import math

from slips import (ACTIVATIONS, CHANGED, NO_DATA, RESULT, base, is_name, of_expression,
                   read)


class Code:
    """A function: its source, its tree, and what slips need to know of both.

    parents: node -> the one above. parameters: names. data: those that are no layers and no mask.
    called: names of functions. factors: names that multiply something. places: name -> where it is
    read. born: name -> the line from which it is known. values: name -> what it was last set to.
    """

    def __init__(self, source):
        self.source = ast.unparse(ast.parse(source))
        self.function = ast.parse(self.source).body[0]
        self.parents = {child: node for node in ast.walk(self.function)
                        for child in ast.iter_child_nodes(node)}
        self.parameters = [arg.arg for arg in self.function.args.args]
        self.born, self.places, factors = dict.fromkeys(self.parameters, 0), {}, []
        self.values = {node.targets[0].id: node.value for node in ast.walk(self.function)
                       if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
        for node in ast.walk(ast.Module(self.function.body, [])):
            if is_name(node) and isinstance(node.ctx, ast.Load):
                self.places.setdefault(ast.unparse(node), []).append(node)
                parent = self.parents[node]
                if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
                    factors.append(ast.unparse(node))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.born.setdefault(node.id, node.lineno)
        self.factors = [*dict.fromkeys(factors)][:4]
        self.called = {ast.unparse(node.func) for node in ast.walk(self.function)
                       if isinstance(node, ast.Call)}
        no_data = NO_DATA | self.called | {"mask"}
        self.data = [name for name in self.parameters if name not in no_data][:6]

    def value_of(self, node):
        """What a name that is read once stands for; any other node as it is."""
        once = isinstance(node, ast.Name) and len(self.places.get(node.id, ())) == 1
        return self.values.get(node.id, node) if once else node

    def sum_of(self, node):
        """The sum that a node is, or is a name for; None if it is none."""
        node = self.value_of(node)
        return node if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else None

    def replaced(self, changes):
        """The source after changes; None where one lies in another."""
        raw, last, bare = self.source.encode(), math.inf, (ast.stmt, ast.Slice)
        starts = [0, *itertools.accumulate(map(len, raw.splitlines(keepends=True)))]
        spans = [(starts[node.lineno - 1] + node.col_offset,
                  starts[node.end_lineno - 1] + node.end_col_offset,
                  code if isinstance(node, bare) else f"({code})") for node, code in changes]
        for first, end, code in sorted(spans, reverse=True):
            if end > last:
                return None
            raw, last = raw[:first] + code.encode() + raw[end:], first
        return raw.decode()


# ---- Slips in names -----------------------------------------------------------------------------

def alike(function):
    """{(x, y)}: names that play the same part in calls, or stand side by side."""
    parts, pairs = {}, []
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            parts.setdefault("called", []).append(node.func)
            for i, arg in enumerate(node.args):
                parts.setdefault((ast.unparse(node.func), i), []).append(arg)
            pairs += itertools.pairwise(node.args)
            pairs += itertools.pairwise(keyword.value for keyword in node.keywords)
        elif isinstance(node, (ast.Tuple, ast.List)):
            pairs += itertools.pairwise(node.elts)
            for inner in node.elts:
                for j, x in enumerate(inner.elts if isinstance(inner, ast.Tuple) else ()):
                    parts.setdefault((id(node), j), []).append(x)
        elif isinstance(node, ast.BinOp):
            pairs.append((base(node.left), base(node.right)))
    for group in parts.values():
        pairs += itertools.combinations(group, 2)
    names = [tuple(sorted(map(ast.unparse, pair))) for pair in pairs if all(map(is_name, pair))]
    return {(x, y) for x, y in names if x != y}


def of_names(code):
    """(rank, description, changes): names exchanged, or one in the place of another."""
    near, places = alike(code.function), code.places
    for x, y in itertools.combinations(sorted(places), 2):
        related = (x, y) in near
        if related or x in code.parameters and y in code.parameters:
            both = [(node, y) for node in places[x]] + [(node, x) for node in places[y]]
            yield 3 if related else 5, f"`{x}` and `{y}` exchanged", both
    for x, nodes in places.items():
        for y in dict.fromkeys([*places, *code.born]):
            related = tuple(sorted((x, y))) in near
            weights = any(name.startswith("self.") or name in code.called for name in (x, y))
            if x == y or y in NO_DATA or weights and not related:
                continue
            for node in nodes:
                if code.born.get(y, 0) < node.lineno:
                    above = code.parents[node]
                    mixed = isinstance(above, ast.BinOp) and isinstance(above.op, ast.MatMult)
                    words = f"`{y}` instead of `{x}` in {read(above)}"
                    yield 2 if related or mixed else 6, words, [(node, y)]
            if len(nodes) > 1 and related:
                yield 3, f"`{y}` instead of `{x}`, everywhere", [(node, y) for node in nodes]


def of_pairs(code):
    """(rank, description, changes): the same numbers of two arguments, each one place off."""
    pairs = {}
    for name, nodes in code.places.items():
        for x in (code.parents[node] for node in nodes if name in code.parameters):
            if isinstance(x, ast.Attribute):
                text = ast.unparse(x)
                pairs.setdefault(x.attr, []).append((x, f"np.append({text}[:1], {text}[:-1])"))
    for attribute, changes in pairs.items():
        if len({ast.unparse(node) for node, _ in changes}) > 1:
            yield 3, f"`{attribute}` of both, one place off", changes


def of_steps(code):
    """(rank, description, changes): a step forgotten, what enters it used instead of what it
    returns, or a name that keeps its old value."""
    origin, plain = {}, {}
    for node in ast.walk(code.function):
        if not isinstance(node, ast.Assign):
            continue
        names, values = (x.elts if isinstance(x, ast.Tuple) else [x]
                         for x in (node.targets[0], node.value))
        for name, value in zip(names, values):      # of v, g = f(x) the first is x's
            inner = start = base(value)
            while isinstance(inner, ast.Call) and inner.args:
                inner = base(inner.args[0])
            function = value.func if isinstance(value, ast.Call) else None
            if isinstance(function, ast.Attribute) and function.attr in ACTIVATIONS:
                plain.setdefault(function.attr, {})[ast.unparse(name)] = \
                    ast.unparse(function.value)
            if isinstance(name, ast.Name) and inner is not start and is_name(inner):
                origin.setdefault(name.id, ast.unparse(inner))
    for node in ast.walk(code.function):
        if isinstance(node, (ast.Assign, ast.Return)) and node.value is not None:
            used = [x for x in ast.walk(node.value) if isinstance(x, ast.Name) and x.id in origin
                    and origin[x.id] != x.id]
            names = dict.fromkeys(x.id for x in used)
            if len(names) > 1:
                words = " and ".join(f"`{origin[x]}` instead of `{x}`" for x in names)
                yield 3, f"{words} in {read(node)}", [(x, origin[x.id]) for x in used]
            for name, inside in plain.items():
                used = [x for x in ast.walk(node.value) if is_name(x) and ast.unparse(x) in inside]
                if used:
                    names = " and ".join(dict.fromkeys(map(read, used)))
                    yield 3, f"{names} before {name}, in {read(node)}", \
                        [(x, inside[ast.unparse(x)]) for x in used]


# ---- Slips in statements, and all of them -------------------------------------------------------

def of_statement(node, code):
    """(rank, description, changes) of a statement left out, of the last of each axis left out
    instead of the first, or of a result changed."""
    ends = [(x, ":-1") for x in ast.walk(node)
            if isinstance(x, ast.Slice) and ast.unparse(x) == "1:"]
    if ends and isinstance(node, (ast.Assign, ast.Return)):
        yield 3, f"`:-1` instead of `1:`, one place off, in {read(node)}", ends
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield from of_assignment(node, name, value, code)
        case ast.Assign(targets=[ast.Tuple()]) | ast.AugAssign():
            yield 1, f"{read(node)} left out", [(node, "pass")]
            if isinstance(node, ast.AugAssign):
                new = f"{ast.unparse(node.target)} = {ast.unparse(node.value)}"
                yield 1, f"`{ast.unparse(node.target)}` set, not added to", [(node, new)]
                first, by = code.values.get(ast.unparse(base(node.target))), node.value
                if first and isinstance(by, ast.BinOp) and isinstance(by.op, ast.Mult):
                    words = f"{read(by.left)} multiplied with all of `{ast.unparse(node.target)}`"
                    yield 3, f"{words}, not with what is added alone", \
                        [(first, f"({ast.unparse(first)}) * ({ast.unparse(by.left)})")]
        case ast.If():
            for answer in ("True", "False"):
                yield 1, f"{read(node.test)} taken as {answer.lower()}", [(node.test, answer)]
        case ast.For(iter=several) | ast.comprehension(iter=several):
            new = f"[*{ast.unparse(several)}][::-1]"
            yield 4, f"{read(several)} from the end", [(several, new)]
            if isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2:
                x, y = map(ast.unparse, node.target.elts)
                words = f"each `{x}` of {read(several)} with the `{y}` of the other end"
                yield 4, words, [(several, f"[(x, y) for (x, _), (_, y) in zip("
                                  f"{ast.unparse(several)}, {new})]")]
        case ast.Return(value=value) if value is not None:
            for part in value.elts if isinstance(value, ast.Tuple) else [value]:
                text = f"({ast.unparse(part)})"
                for what, new in RESULT:
                    yield 4, what.format(it=f"{read(part)}, which is returned,"), \
                        [(part, new.format(x=text))]
                for name in code.data:
                    yield 2, f"`{name}` added to {read(part)}, which is returned", \
                        [(part, f"{text} + {name}")]


def of_assignment(node, name, value, code):
    """The same of the statement that gives a name a value."""
    if any(isinstance(x, ast.Name) and x.id == name for x in ast.walk(value)):
        yield 1, f"{read(node)} left out", [(node, "pass")]
        yield 3, f"the old `{name}` added in {read(node)}", \
            [(value, f"({ast.unparse(value)}) + {name}")]
        text = ast.unparse(node)
        for x in code.places.get(name, ()):
            if x.lineno > node.end_lineno and not isinstance(code.parents[node], ast.For):
                yield 3, f"`{name}` from before {read(node)} in {read(code.parents[x])}", \
                    [(node, f"before = {name}; {text}"), (x, "before")]
    for what, new in RESULT:
        yield 4, what.format(it=f"`{name}`"), [(value, new.format(x=f"({ast.unparse(value)})"))]
    for other in code.data:
        yield 6, f"`{other}` added to `{name}`", [(value, f"({ast.unparse(value)}) + {other}")]


def simple_edits(source, most=300):
    """[(description, source with the edit)] of a function's source, at most so many."""
    code = Code(source)
    found, kinds = [], {}
    for node in ast.walk(ast.Module(code.function.body, [])):
        for kind, what, new in of_expression(node, code):
            found.append((1, what, [(node, new)]))
            kinds.setdefault(kind, []).append((node, new))
        found += of_statement(node, code)
    found += [(2, f"{kind}, everywhere", changes) for kind, changes in kinds.items()
              if kind and len(changes) > 1]
    found += [*of_names(code), *of_pairs(code), *of_steps(code)]
    for name, nodes in code.places.items():
        if name in code.parameters and name not in ("mask", "self"):
            for what, new in CHANGED:
                changes = [(node, new.format(x=name)) for node in nodes]
                found.append((5, what.format(it=f"`{name}`"), changes))
    edits = {}
    for _, what, changes in sorted(found, key=lambda edit: edit[0]):
        new = code.replaced(changes)
        if new is not None and new != code.source:
            edits.setdefault(new, what)
    return [(what, new) for new, what in edits.items()][:most]
