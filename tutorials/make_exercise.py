"""Makes a student's copy of the library in which the functions of an exercise are blank.

    python tutorials/make_exercise.py                          lists the exercises
    python tutorials/make_exercise.py dabert [--out FOLDER]    makes one, in exercise-dabert

Signature, docstring and the shapes of what stands on the way stay; the recipe stands in the
function, and EXERCISE.md says what to do. The answer is the library: nothing is kept twice. Work is
not overwritten without --force.
"""
import argparse
import ast
import re
import shutil
import sys
import textwrap
from pathlib import Path

import torch

from exercises import BLANK, EXERCISES, PAGE, ROOT, TITLE, Draw, find, library

SHAPE = re.compile(r"^\s*(return\b|\w+(?= = )).*?# (\([^()]*\))$")


def definition(tree, path):
    """The node of a function or class, path as ["DabertAttention", "fuse"]."""
    for name in path:
        tree = next(node for node in tree.body if getattr(node, "name", None) == name)
    return tree


def shapes(lines):
    """Comments that name what a body computes on its way, where it says the shape:
    "scores  (B, H, L, L)"."""
    found = dict.fromkeys(match.groups() for match in map(SHAPE.match, lines) if match)
    names = [(name if name != "return" else "returned", shape) for name, shape in found]
    width = max((len(name) for name, _ in names), default=0)
    return [f"# {name:{width}}  {shape}" for name, shape in names]


def blank(lines, node, task):
    """The lines of a function's blank body."""
    indent = " " * node.body[0].col_offset
    text = []
    for number, step in enumerate(task.steps, 1):
        text += textwrap.wrap(step, 100 - len(indent), initial_indent=f"# {number}. ",
                              subsequent_indent="#    ")
    hints = shapes(lines[node.body[0].end_lineno:node.end_lineno])
    if hints and not task.plain:                            # plain: the library has another way
        text += ["#", "# Shapes on the library's way:", *hints]
    name = task.path[-1]
    text.append(f'raise NotImplementedError("{task.equation}: {name} is {BLANK}")')
    return [indent + line for line in text]


def student_version(name, exercise):
    """A module's text with the exercise's functions blank, without what would give them away."""
    lines = (ROOT / f"{name}.py").read_text("utf-8").splitlines()
    tree = ast.parse("\n".join(lines))
    changes = []                            # (first line, last line, new lines), counted from 0
    for task in exercise.tasks:
        if task.module == name:
            node = definition(tree, task.path)
            changes.append((node.body[0].end_lineno, node.end_lineno, blank(lines, node, task)))
    for removed in exercise.removed:
        module, *path = removed.split(".")
        if module == name:
            node = definition(tree, path)
            first = node.lineno - 1
            while not lines[first - 1].strip():
                first -= 1
            changes.append((first, node.end_lineno, []))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module in exercise.removed:
            changes.append((node.lineno - 1, node.end_lineno, []))
    for first, last, new in sorted(changes, reverse=True):
        lines[first:last] = new
    return "\n".join(lines) + "\n"


# ---- EXERCISE.md --------------------------------------------------------------------------------

def written(value):
    """An argument or a result as a student would write it: nested lists, a sentence, a number."""
    if isinstance(value, (tuple, list)):
        return ", ".join(map(written, value))
    if hasattr(value, "tolist"):
        return re.sub(r"(\d)\.0\b", r"\1", str(torch.as_tensor(value).tolist()))
    return f'"{value.text}"' if hasattr(value, "text") else str(value)


def example(task):
    """What the function makes of its smallest case, if it has one to calculate by hand."""
    if "example" not in task.cases:
        return ""
    arguments = task.cases["example"](Draw())
    result = find(library(task.module), task.path)(*arguments)
    return f"By hand: `{task.path[-1]}({written(arguments)})` is `{written(result)}`.\n"


def page(name, exercise, texts):
    """The text of EXERCISE.md. texts: module -> the student's version."""
    parts = [f"{TITLE}{name}: {exercise.title}\n", f"""\
Write the functions below, in this order, in {" and ".join(f"`{module}.py`" for module in texts)}.
Each has its signature, a docstring with the formula in the paper's letters, and a recipe in steps.
Names and signatures must stay. Read the paper beside it.

What counts: the result, for padding too, its dtype, and the gradients. What does not: speed,
memory, dropout, and the arguments `printed` and `without`, which a finished library has; leave them
aside. Loops are fine. There is a point for each case named below and, where PyTorch computes a
function, one for its gradients. An axis letter, as in (B, L, d), is explained at the top of its
module, behind `# Axes:`. Two helpers are there for you, in `bert_min.py`: `attention_weights` turns
complete scores and a mask into weights, `record` puts tensors into a trace; read their docstrings
first.

Check, as often as you like, from a clone of the project:

    python tutorials/check_exercise.py FOLDER

A function is checked by itself: those it calls are the library's, so any order works. When all
points are won, `python train.py --model {name}` in this folder trains the model, with your
equations.
"""]
    trees = {module: ast.parse(text) for module, text in texts.items()}
    for number, task in enumerate(exercise.tasks, 1):
        line = definition(trees[task.module], task.path).lineno
        parts.append(f"## {number}. `{'.'.join(task.path)}`: {task.equation}\n\n"
                     f"`{task.module}.py`, line {line}. Cases: {', '.join(task.cases)}.\n\n"
                     f"{example(task)}")
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


# ---- Command line -------------------------------------------------------------------------------

def make(name, out, force):
    """Writes the exercise into a folder.

    Raises ValueError where a file of it is there already, unless forced."""
    exercise = EXERCISES[name]
    modules = dict.fromkeys(task.module for task in exercise.tasks)
    texts = {module: student_version(module, exercise) for module in modules}
    files = {f"{module}.py": text for module, text in texts.items()}
    files[PAGE] = page(name, exercise, texts)
    left_out = files.keys() | {removed.replace(".", "/") + ".py" for removed in exercise.removed}
    copies = ["LICENSE"]
    for pattern in ("*.py", "support/*.py", "experiments/*.py"):
        copies += [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob(pattern))]
    copies = [file for file in copies if file not in left_out]
    if out.resolve() == ROOT:
        raise ValueError(f"--out {out}: this is the library itself; give another folder")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: a file, expected a folder")
    there = [file for file in [*files, *copies] if (out / file).exists()]
    if there and not force:
        raise ValueError(f"{out} has {', '.join(there[:3])} already, perhaps with work in it; give "
                         "another --out, or --force to overwrite")
    for folder in ("support", "experiments"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (out / file).write_text(text, "utf-8")
    for file in copies:
        shutil.copyfile(ROOT / file, out / file)
    if exercise.parser:
        shutil.copytree(ROOT / "assets", out / "assets", dirs_exist_ok=True)


def main(argv=None):
    """Runs the command line and returns the exit status. A user's mistake gives one line and 2."""
    parser = argparse.ArgumentParser("make_exercise.py",
                                     description="Makes a student's copy with blank functions.")
    parser.add_argument("name", nargs="?", metavar="EXERCISE", help=", ".join(EXERCISES))
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="exercise-NAME if not given")
    parser.add_argument("--force", action="store_true", help="overwrite what is in the folder")
    parser.add_argument("--list", action="store_true", help="list exercises, as without arguments")
    options = parser.parse_args(argv)
    if options.list or options.name is None:
        for name, exercise in EXERCISES.items():
            print(f"{name:10}{len(exercise.tasks):3} functions   {exercise.title}")
        return 0
    try:
        if options.name not in EXERCISES:
            raise ValueError(f"no exercise {options.name!r}; there are {', '.join(EXERCISES)}")
        out = options.out or Path(f"exercise-{options.name}")
        make(options.name, out, options.force)
    except (ValueError, OSError) as problem:
        print(f"make_exercise.py: {problem}", file=sys.stderr)
        return 2
    print(f"{out}: read {out / PAGE}, then write; check with\n"
          f"    python tutorials/check_exercise.py {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
