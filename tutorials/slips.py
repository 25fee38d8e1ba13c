"""Slips in one expression of a right solution: what a student may have written instead.

    of_expression(node, code)    (kind, description, the code instead) of each slip of a node

A slip is a product for a sum, a tanh left out, another axis, two arguments exchanged. kind is what
slips at several places share ("tanh left out"), which can be made at all of them; None: none does.

Left out: slips in names and in statements, and the list of all of them (nearest.py).
"""
import ast
import copy
import itertools

LEFT_OUT = [("{R} left out of {it}", "{l}"), ("{L} left out of {it}", "{r}")]
OPERATORS = {           # l, r: what stands left and right, as code; L, R, it: the same, to be read
    ast.Add: [*LEFT_OUT, ("a product instead of the sum {it}", "{l} * {r}"),
              ("a difference instead of the sum {it}", "{l} - {r}"),
              ("half of the sum {it}", "({it}) / 2"), ("twice {L} in {it}", "2 * {l} + {r}"),
              ("twice {R} in {it}", "{l} + 2 * {r}"),
              ("{L} counted twice in {it}, and {R} not", "2 * {l}"),
              ("{R} counted twice in {it}, and {L} not", "2 * {r}"),
              ("{L} multiplied by the exponential of {R}", "{l} * {r}.exp()")],
    ast.Sub: [("{it} the other way round", "{r} - {l}"), LEFT_OUT[0],
              ("a sum instead of the difference {it}", "{l} + {r}"), ("{R} instead of {it}", "{r}"),
              ("a product instead of the difference {it}", "{l} * {r}"),
              ("the sign of {it} lost", "({it}).abs()")],
    ast.Mult: [("a sum instead of the product {it}", "{l} + {r}"), LEFT_OUT[0],
               ("{L} left out of {it}", "1.0 * {r}"),
               ("{it} divided instead of multiplied", "{r} / {l}"),
               ("{it} divided instead of multiplied", "{l} / {r}"),
               ("{L} squared in {it}", "{l} * {l} * {r}")],
    ast.Div: [("{it} multiplied instead of divided", "{l} * {r}"), LEFT_OUT[0],
              ("{L} left out of {it}", "1.0 / {r}"), ("{it} upside down", "{r} / {l}"),
              ("{R} squared in {it}", "{l} / {r} ** 2"), ("the root of {R} in {it}",
                                                          "{l} / {r} ** 0.5")],
    ast.Pow: [("the power left out of {it}", "{l}")],
    ast.MatMult: [("{L} transposed in {it}", "{l}.transpose(-1, -2) @ {r}"),
                  ("{R} transposed in {it}", "{l} @ {r}.transpose(-1, -2)"),
                  ("{R} added to {it}", "{l} @ {r} + {r}"),
                  ("the last row of {R} instead of {it}", "{r}[..., -1:, :]"),
                  ("the sum of all rows of {R} instead of {it}", "{r}.sum(-2, keepdim=True)"),
                  ("the mean of all rows of {R} instead of {it}", "{r}.mean(-2, keepdim=True)")],
    ast.BitAnd: [("or instead of and in {it}", "{l} | {r}"), *LEFT_OUT],
    ast.BitOr: [("and instead of or in {it}", "{l} & {r}"), *LEFT_OUT]}
COMPARED = {ast.Gt: (">=", "<"), ast.GtE: (">", "<="), ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="),
            ast.Eq: ("!=",)}
ACTIVATIONS = {"tanh", "sigmoid", "relu", "gelu"}
FAMILIES = [ACTIVATIONS, {"softmax", "log_softmax", "sigmoid"}, {"abs", "relu", "square"},
            {"log", "log1p", "log2", "log10", "exp"}, {"sum", "mean", "amax", "max", "prod"},
            {"any", "all"}, {"transpose"}, {"masked_fill"}, {"clamp"}, {"flip"}, {"casefold"},
            {"sqrt"}, {"exp", "sigmoid"}]
REDUCTIONS = {"sum", "mean", "amax", "any", "all"}
AXES = {"softmax", "log_softmax", "sum", "mean", "amax", "any", "all", "cat", "stack", "flip"}
MODULES = {"math", "np", "torch", "F"}
NO_DATA = MODULES | {"self", "trace", "printed", "without", "typeset", "dropout"}
AFTER = [(f"{name} added to {{it}}", f"{{x}}.{name}()") for name in ("tanh", "sigmoid", "relu")]
CHANGED = [("the sign of {it} turned", "-{x}"), ("{it} transposed", "{x}.transpose(-1, -2)"),
           ("the exponential of {it}", "{x}.exp()"), ("the logarithm of {it}", "{x}.log()"),
           ("twice {it}", "2 * {x}"), ("half of {it}", "{x} / 2"),
           ("1 - {it} instead of {it}", "1 - {x}"), *AFTER]
RESULT = [*CHANGED[:4], ("the square root of {it}", "({x}) ** 0.5"),
          ("1 - {it} instead of {it}", "1 - {x}"), ("not {it}", "~{x}"),
          ("a softmax added to {it}", "{x}.softmax(-1)"), *AFTER]
SCORES = [*CHANGED, ("{it} divided by the root of the last size", "{x} / {x}.shape[-1] ** 0.5"),
          ("{it} divided by the last size", "{x} / {x}.shape[-1]")]
SHORT, CUT = 24, "_"       # characters of the library's code that are shown; what is not


def read(node):
    """The code of a node, to be read. Only the outermost sign of a long one is shown, and no line:
    `_ + _`, `_.abs()`, `S = _`."""
    if isinstance(node, str):
        node = ast.parse(node).body[0]
    node = node.value if isinstance(node, ast.Expr) else node
    if len(ast.unparse(node)) > SHORT or isinstance(node, ast.stmt):
        node = Shortened().generic_visit(copy.deepcopy(node))
        if isinstance(node, ast.Call) and len(ast.unparse(node)) > SHORT:
            node.args = [ast.Name(CUT)]
    return f"`{ast.unparse(node)}`"


class Shortened(ast.NodeTransformer):
    """Cuts what is long inside an expression."""

    def visit(self, node):
        if isinstance(node, ast.expr) and len(ast.unparse(node)) > SHORT // 3:
            if isinstance(node, (ast.Attribute, ast.Name)) and ast.unparse(node) != CUT:
                return self.generic_visit(node)
            return ast.Name(CUT)
        return node


def is_name(node):
    """Is this data or a weight: x, self.W_x, not self, torch, a trace?"""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node.value) == "self"
    return isinstance(node, ast.Name) and node.id not in NO_DATA


def base(node):
    """x of x.tanh(), of x[0], of x.transpose(1, 2)[:, None]."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, (ast.Subscript, ast.Starred)):
            node = node.value
        else:
            return node


def arguments(node):
    """The code of a call's arguments."""
    return ", ".join(map(ast.unparse, [*node.args, *node.keywords]))


# ---- Slips in one expression --------------------------------------------------------------------

def of_operation(node, code):
    """Slips of l + r, l * r, and so on."""
    words = {"l": f"({ast.unparse(node.left)})", "r": f"({ast.unparse(node.right)})",
             "L": read(node.left), "R": read(node.right), "it": read(node)}
    for what, new in OPERATORS.get(type(node.op), ()):
        yield None, what.format_map(words), new.format_map(words | {"it": ast.unparse(node)})
    total = code.sum_of(node.left)
    if total and isinstance(node.op, (ast.Mult, ast.Div)):             # (a + b) * c: a + b * c
        sign = "*" if isinstance(node.op, ast.Mult) else "/"
        a, b = (f"({ast.unparse(part)})" for part in (total.left, total.right))
        yield None, f"{read(total.left)} without {words['R']}", f"{a} + {b} {sign} {words['r']}"
        yield None, f"{read(total.right)} without {words['R']}", f"{a} {sign} {words['r']} + {b}"
    if isinstance(node.op, ast.Add):                    # c * x.tanh() + y: the tanh of the sum
        yield from of_moved_factor(node, code)
        for x, y in ((total.left, total.right), (total.right, total.left)) if total else ():
            yield None, f"{read(x)} multiplied by {words['R']}, not added", \
                f"({ast.unparse(x)}) * {words['r']} + ({ast.unparse(y)})"
        parts = [node.left, node.right]
        parts += [x for y in parts if isinstance(y, ast.BinOp) for x in (y.left, y.right)]
        for part in parts:
            if isinstance(part, ast.Call) and getattr(part.func, "attr", "") in ACTIVATIONS:
                name, inside = part.func.attr, ast.unparse(part.func.value)
                new = ast.unparse(node).replace(ast.unparse(part), inside)
                yield None, f"{name} around the whole of {read(node)}", f"({new}).{name}()"


def of_moved_factor(node, code):
    """Slips of x + c * y: c * x + y."""
    for x, y in ((node.left, node.right), (node.right, node.left)):
        product = code.value_of(y)
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
            for c, rest in ((product.left, product.right), (product.right, product.left)):
                yield None, f"{read(c)} multiplied with {read(x)}, not with {read(rest)}", \
                    f"({ast.unparse(c)}) * ({ast.unparse(x)}) + ({ast.unparse(rest)})"
                yield None, f"{read(c)} multiplied with all of {read(node)}", \
                    f"({ast.unparse(c)}) * ({ast.unparse(x)} + {ast.unparse(rest)})"


def of_function(node):
    """Slips of x.tanh(), math.log(x), x.masked_fill(mask, 0): another function, or none."""
    it, args, given = read(node), [ast.unparse(arg) for arg in node.args], arguments(node)
    owner, _, name = ast.unparse(node.func).rpartition(".")
    inside = args[0] if owner in MODULES and args else owner
    for family in FAMILIES if owner else ():
        if name in family:
            yield f"{name} left out", f"{name} left out of {it}", inside
            for other in sorted(family - {name}):
                axis = given or "-1" * other.endswith("softmax")
                new = f"({owner}).{other}({'' if other == 'sigmoid' else axis})"
                new = f"F.gelu({inside})" if other == "gelu" else new
                yield f"{other} instead of {name}", f"{other} instead of {name} in {it}", new
    if name in ACTIVATIONS and isinstance(node.func, ast.Attribute):
        before = node.func.value
        if isinstance(before, ast.Call) and len(before.args) == 1 and is_name(before.func):
            new = f"{ast.unparse(before.func)}(({ast.unparse(before.args[0])}).{name}())"
            yield None, f"{name} before `{ast.unparse(before.func)}`, not behind it", new
    if name in REDUCTIONS and node.args and owner not in MODULES:
        more = f"{name} over the first axis too"
        yield more, f"{more} in {it}", f"({ast.unparse(node)}).{name}(0, keepdim=True)"
        for part, which in (":-1", "last"), ("1:", "first"):
            if args[0] == "-1":
                new = f"({owner})[..., {part}].{name}({given})"
                yield None, f"the {which} of the last axis left out of {it}", new
    if name in ("any", "all") and isinstance(node.func.value, ast.BinOp):
        for part in (node.func.value.left, node.func.value.right):
            yield None, f"{name} left out of {it}, where {read(part)} alone is looked at", \
                ast.unparse(part)
    if name == "log1p":
        for other in ("log2", "log10"):
            yield None, f"{other} instead of ln in {it}", f"(1 + {inside}).{other}()"
    elif name == "masked_fill" and args[-1] != "0.0":
        yield None, f"0 filled in by {it}", f"({owner}).masked_fill({args[0]}, 0.0)"
    elif name == "outer":
        for arg in args:
            new = ast.unparse(node).replace(arg, f"np.ones_like({arg})")
            yield None, f"`{arg}` left out of {it}", new
    elif name == "abs" and isinstance(node.func.value, ast.BinOp):
        left, right = (f"({ast.unparse(x)})" for x in (node.func.value.left, node.func.value.right))
        yield None, f"a product instead of {it}", f"{left} * {right}"
        yield None, f"a maximum instead of {it}", f"torch.maximum({left}, {right})"
    elif name == "activation":
        for other in sorted(ACTIVATIONS):
            yield None, f"{other} instead of {it}", f"torch.nn.functional.{other}({args[0]})"


def of_builtin(node):
    """Slips of sum(x) and range(x)."""
    it, given = read(node), arguments(node)
    if ast.unparse(node.func) == "sum":
        yield None, f"a mean instead of {it}", f"sum({given}) / len([*({given})])"
        yield None, f"a product instead of {it}", f"math.prod({given})"
        yield None, f"only the last of {read(given)}", f"[*({given})][-1]"
    elif ast.unparse(node.func) == "range":
        yield None, f"one step too few in {it}", f"range({given} - 1)"
        yield None, f"one step too many in {it}", f"range({given} + 1)"


def of_softmax(node, code):
    """Slips of x.softmax(-1), attention_weights(x, mask): other scores, softmax twice."""
    owner, _, name = ast.unparse(node.func).rpartition(".")
    if "softmax" not in name and name != "attention_weights":
        return
    scores, more = owner, arguments(node)
    if not owner:
        scores = ast.unparse(node.args[0])
        more = more.removeprefix(f"{scores}, ")

    def weights_of(x):
        return f"({x}).{name}({more})" if owner else f"{name}({x}, {more})"

    for what, new in SCORES:
        words = f"{what.format(it=read(scores))}, before {name}"
        yield None, words, weights_of(new.format(x=f"({scores})"))
    yield None, f"{name} of the weights again", weights_of(ast.unparse(node))
    scaled = code.value_of(node.func.value if owner else node.args[0])
    if isinstance(scaled, ast.BinOp) and isinstance(scaled.op, (ast.Mult, ast.Div)):
        sign = "*" if isinstance(scaled.op, ast.Mult) else "/"
        by = f"{sign} ({ast.unparse(scaled.right)})"
        yield None, f"`{by}` behind {name}, not before it", \
            f"{weights_of(ast.unparse(scaled.left))} {by}"


def of_map(node, code):
    """Slips of W(x), a layer: left out, without its bias, with an activation behind it, or of a
    part of its argument only."""
    called, it, given = ast.unparse(node.func), read(node), ast.unparse(node.args[0])
    yield f"{called} left out", f"`{called}` left out of {it}", given
    yield f"bias of {called}", f"the bias of `{called}` left out", \
        f"torch.nn.functional.linear({given}, {called}.weight)"
    for what, new in AFTER:
        yield None, what.format(it=it), new.format(x=f"({ast.unparse(node)})")
    inner = node.args[0]
    if isinstance(inner, ast.Call) and getattr(inner.func, "attr", "") in ACTIVATIONS:
        name = inner.func.attr
        yield None, f"{name} behind `{called}`, not before it", \
            f"{called}({ast.unparse(inner.func.value)}).{name}()"
    rest, total = "", code.sum_of(node.args[0])
    while total:                                        # W(a + b + c): W(a) + b + c
        rest = f" + {ast.unparse(total.right)}{rest}"
        part, total = total.left, code.sum_of(total.left)
        yield None, f"`{called}` of {read(part)} alone", f"{called}({ast.unparse(part)}){rest}"


def of_call(node, code):
    """Slips of a call."""
    args, called = [ast.unparse(arg) for arg in node.args], ast.unparse(node.func)
    for rule in (of_function, of_builtin):
        yield from rule(node)
    yield from of_softmax(node, code)
    layer = is_name(node.func) or called.rpartition(".")[2][1:2] == "_"         # W, mlp, choice.U_d
    starred = any(isinstance(arg, ast.Starred) for arg in node.args)
    if len(args) == 1 and not node.keywords and layer and not starred:
        yield from of_map(node, code)
    for i, j in itertools.combinations(range(len(args)), 2):
        near = j - i == 1 or len(args) <= 3             # of many arguments, only neighbours
        if near and not any(arg.lstrip("-").isdigit() for arg in args):
            new = [*args]
            new[i], new[j] = args[j], args[i]
            words = f"{read(node.args[i])} and {read(node.args[j])} exchanged in {read(node)}"
            new += [ast.unparse(keyword) for keyword in node.keywords]
            yield None, words, f"{called}({', '.join(new)})"


def of_number(node, code):
    """Slips of a number: another axis where it is one, else another number."""
    value, above = ast.literal_eval(node), code.parents[node]
    if isinstance(above, ast.UnaryOp):
        return                                          # -1 as a whole is the number
    while isinstance(above, (ast.Tuple, ast.keyword)):
        above = code.parents[above]
    name = ast.unparse(above.func).rpartition(".")[2] if isinstance(above, ast.Call) else ""
    shape = isinstance(above, ast.Subscript) and ast.unparse(above.value).endswith(".shape")
    if (name in AXES or shape) and isinstance(value, int):
        for other in (-2, -1, 1, 2, 0, -3):
            if other != value:
                words = f"axis {other} instead of {value}"
                yield words, f"{words} in {read(above)}", str(other)
    elif name not in ("transpose", "unflatten", "flatten"):
        for other in dict.fromkeys((value + 1, value - 1, value * 2, value / 2, 0, 1)):
            whole = isinstance(value, int) and other == int(other)
            if other != value and (whole or not isinstance(above, (ast.Subscript, ast.Slice))):
                other = int(other) if whole else other
                words = f"{other} instead of {value}"
                yield words, f"{words} in {read(above)}", str(other)


def of_data(node, code):
    """Slips of a name that is read: 1 - g for g, g x for x; a mask."""
    above, name = code.parents[node], ast.unparse(node)
    if isinstance(above, ast.BinOp) and isinstance(above.op, (ast.Mult, ast.MatMult)):
        yield None, f"`1 - {name}` instead of `{name}` in {read(above)}", f"1 - {name}"
    if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add):
        for factor in code.factors:
            for times in (factor, f"(1 - {factor})"):
                if factor != name:
                    yield None, f"`{name}` multiplied by `{times}` in {read(above)}", \
                        f"{times} * {name}"
    if name == "mask":
        yield "the mask left out", "the mask left out", "torch.ones_like(mask)"
        yield "the mask upside down", "the mask upside down", "~mask"


def of_expression(node, code):
    """(kind, description, code) of each slip of one expression."""
    match node:
        case ast.BinOp():
            yield from of_operation(node, code)
        case ast.Call():
            yield from of_call(node, code)
        case ast.Constant(value=bool() | str() | None):
            pass
        case ast.Constant(value=int() | float()) | ast.UnaryOp(ast.USub(), ast.Constant()):
            yield from of_number(node, code)
        case ast.UnaryOp(op=ast.Invert() | ast.Not() | ast.USub()):
            yield None, f"{read(node.operand)} instead of {read(node)}", ast.unparse(node.operand)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARED:
            for sign in COMPARED[type(op)]:
                new = f"{ast.unparse(left)} {sign} {ast.unparse(right)}"
                yield f"another sign, `{sign}`", f"{read(new)} instead of {read(node)}", new
        case ast.IfExp():
            yield None, f"{read(node.body)}, always", ast.unparse(node.body)
            yield None, f"{read(node.orelse)}, always", ast.unparse(node.orelse)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) if isinstance(node.ctx, ast.Load):
            plain = not any(isinstance(part, (ast.Slice, ast.Starred)) for part in parts)
            for i in range(len(parts) - 1 if plain else 0):
                new = [f"({ast.unparse(part)})" for part in parts]
                new[i:i + 2] = new[i:i + 2][::-1]
                words = f"{read(parts[i])} and {read(parts[i + 1])} exchanged in {read(node)}"
                yield None, words, ("[{}]" if isinstance(node, ast.List) else "{}").format(
                    ", ".join(new))
        case ast.Name(ctx=ast.Load()) if is_name(node):
            yield from of_data(node, code)
        case ast.Subscript(value=value, slice=ast.Name(id=index)):
            yield None, f"`{ast.unparse(value)}[0]` instead of {read(node)}", \
                f"{ast.unparse(value)}[0]"
        case ast.Subscript(value=value, slice=ast.Slice(lower, upper)) if lower and upper:
            for by in ("+ 1", "- 1"):
                ends = ":".join(f"{ast.unparse(end)} {by}" for end in (lower, upper))
                yield None, f"everything {by} in {read(node)}", f"{ast.unparse(value)}[{ends}]"
