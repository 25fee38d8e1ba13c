"""A short mutation run: python tests/mutate.py semmatch [reread ...] [--most 50] [--seed 0]

Breaks a module in small ways, one at a time (+ for -, a condition negated, a tanh left out), and
runs its test file on each version, until a test fails. Prints the versions that no test noticed:
tests/SURVIVORS.md says of those we know why that is right. A version takes seconds, and the whole
of a module an hour, so a sample is drawn. Classic mistakes are in tests/test_mistakes.py.
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
MODULES = "semmatch", "reread", "priors", "bert_min"
SECONDS = 120                                       # a run that takes longer hangs
# One failing example is enough: nobody reads the smallest.
hypothesis.settings.register_profile(
    "mutants", derandomize=True, deadline=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])
OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
         ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
         ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot,
         ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr,
         ast.BitOr: ast.BitAnd}
DROPPED = {"tanh", "sigmoid", "relu", "exp", "log", "log1p", "abs", "clamp", "masked_fill", "roll",
           "detach", "transpose", "casefold", "float", "softmax", "log_softmax"}


def changed(node, **fields):
    """A copy of a node with other fields."""
    new = copy.copy(node)
    vars(new).update(fields)
    return new


def variants(node):
    """What a node may wrongly be instead: a list of nodes."""
    if isinstance(node, (ast.BinOp, ast.BoolOp)):
        kind = OTHER.get(type(node.op))
        if isinstance(node.op, ast.MatMult):
            return [changed(node, left=node.right, right=node.left)]
        return [changed(node, op=kind())] if kind else []
    if isinstance(node, ast.Compare):
        kind = OTHER.get(type(node.ops[0]))
        return [changed(node, ops=[kind(), *node.ops[1:]])] if kind else []
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.IfExp):
        return [changed(node, body=node.orelse, orelse=node.body)]
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        value = node.value
        return [changed(node, value=not value if isinstance(value, bool) else value + 1)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name, first = node.func.attr, node.args[:1]
        if name in ("cat", "stack") and isinstance(first[0], ast.List) and len(first[0].elts) > 1:
            turned = changed(first[0], elts=first[0].elts[::-1])
            return [changed(node, args=[turned, *node.args[1:]])]
        return [node.func.value] if name in DROPPED else []
    if isinstance(node, ast.Call) and len(node.args) > 1:
        if all(isinstance(argument, ast.Name) for argument in node.args[:2]):
            return [changed(node, args=[node.args[1], node.args[0], *node.args[2:]])]
    return []


def mutants(source):
    """(line, old text, new text, the whole text) of all that can be changed, but in messages."""
    starts, found = [0], []
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def visit(node):
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)):
            return
        wrong = [(node, new) for new in variants(node)]
        if isinstance(node, (ast.If, ast.While)):
            wrong.append((node.test, ast.UnaryOp(ast.Not(), node.test)))
        for old, new in wrong:
            first, last = (starts[line - 1] + column for line, column in (
                (old.lineno, old.col_offset), (old.end_lineno, old.end_col_offset)))
            text = ast.unparse(ast.fix_missing_locations(new))
            raw = source.encode()
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
