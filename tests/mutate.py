"""A short mutation run: python tests/mutate.py semmatch [reread ...] [--most 50] [--seed 0]

Breaks a module in small ways, one at a time (+ for -, a condition negated, a tanh left out), and
runs its test file on each version, until a test fails. Prints the versions that no test noticed:
tests/SURVIVORS.md says of those we know why that is right. A version takes seconds, and the whole
of a module half an hour, so a sample is drawn. Classic mistakes are in tests/test_mistakes.py.
"""
import argparse
import ast
import copy
import os
import random
import signal
import sys
import types
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}      # before torch is there
import hypothesis  # noqa: E402 - once here: each run below is a fork, and starts at once
import nltk  # noqa: F401, E402
import pytest  # noqa: E402
import tokenizers  # noqa: F401, E402
import torch  # noqa: F401, E402

ROOT = Path(__file__).resolve().parent.parent
MODULES = "semmatch", "reread", "comparators", "priors", "bert_min"
SECONDS = 120                                       # a run that takes longer hangs
# One failing example is enough: nobody reads the smallest.
hypothesis.settings.register_profile(
    "mutants", derandomize=True, deadline=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])
PAIRS = [(ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE),
         (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot), (ast.And, ast.Or),
         (ast.BitAnd, ast.BitOr)]
OTHER = dict(PAIRS) | {second: first for first, second in PAIRS}
DROPPED = {"tanh", "sigmoid", "relu", "exp", "log", "log1p", "abs", "clamp", "masked_fill", "roll",
           "detach", "transpose", "casefold", "float", "softmax", "log_softmax"}


def wrong(node):
    """What a node may wrongly be instead, or None."""
    new = copy.copy(node)
    match node:
        case ast.BinOp(op=ast.MatMult()):
            new.left, new.right = node.right, node.left
        case (ast.BinOp(op=kind) | ast.BoolOp(op=kind)) if type(kind) in OTHER:
            new.op = OTHER[type(kind)]()
        case ast.Compare(ops=[kind, *others]) if type(kind) in OTHER:
            new.ops = [OTHER[type(kind)](), *others]
        case ast.UnaryOp():
            return node.operand
        case ast.IfExp():
            new.body, new.orelse = node.orelse, node.body
        case ast.Constant(value=bool(value)):
            new.value = not value
        case ast.Constant(value=int(value) | float(value)):
            new.value = value + 1
        case ast.Call(func=ast.Attribute(attr="cat" | "stack"),
                      args=[ast.List(elts=[_, _, *_]) as parts, *others]):
            new.args = [ast.List(parts.elts[::-1], ast.Load()), *others]
        case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in DROPPED:
            return value
        case ast.Call(func=ast.Name(), args=[ast.Name() as first, ast.Name() as second, *others]):
            new.args = [second, first, *others]
        case _:
            return None
    return new


def mutants(source):
    """(line, old text, new text, the whole text) of all that can be changed, but in messages."""
    raw, starts, found = source.encode(), [0], []
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def visit(node):
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)):
            return
        old, new = node, wrong(node)
        if isinstance(node, (ast.If, ast.While)):
            old, new = node.test, ast.UnaryOp(ast.Not(), node.test)
        if new is not None:
            first = starts[old.lineno - 1] + old.col_offset
            last = starts[old.end_lineno - 1] + old.end_col_offset
            text = ast.unparse(ast.fix_missing_locations(new))
            whole = (raw[:first] + f"({text})".encode() + raw[last:]).decode()
            if text != ast.unparse(old):
                found.append((old.lineno, ast.unparse(old), text, whole))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return found


def survives(module, text):
    """Does no test of the module fail when this is its text?"""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    signal.alarm(SECONDS)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    sys.modules[module] = types.ModuleType(module)
    try:
        exec(compile(text, ROOT / f"{module}.py", "exec"), vars(sys.modules[module]))
        status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutants",
                              "-W", "ignore::pytest.PytestAssertRewriteWarning",
                              str(ROOT / f"tests/test_{module}.py")])
    except BaseException:
        status = 1
    os._exit(int(status))


def main(argv=None):
    """Prints the survivors of each module; the exit status is 1 where the code itself fails."""
    parser = argparse.ArgumentParser("mutate.py", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="+", choices=MODULES, metavar="MODULE")
    parser.add_argument("--most", type=int, default=50, help="versions of a module (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    options = parser.parse_args(argv)
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    for module in options.modules:
        source = (ROOT / f"{module}.py").read_text("utf-8")
        if not survives(module, source):
            print(f"{module}: its tests fail as it stands", file=sys.stderr)
            return 1
        every = mutants(source)
        some = random.Random(options.seed).sample(every, min(options.most, len(every)))
        alive = 0
        for line, old, new, text in sorted(some):
            if survives(module, text):
                alive += 1
                print(f"{module}.py:{line}  {old}  ->  {new}", flush=True)
        print(f"{module}: {alive} of {len(some)} survive, drawn from {len(every)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
