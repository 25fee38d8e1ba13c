"""Makes a hand-out: a copy of the library in which the functions of an exercise are blank.

    python tutorials/make_exercise.py                          lists the exercises
    python tutorials/make_exercise.py dabert [--out FOLDER]    makes one, in exercise-dabert
    python tutorials/make_exercise.py dabert --level equation  without recipes
    python tutorials/make_exercise.py dabert --variant 7       with other equations, and their key

Signature and docstring stay; a recipe takes the place of the body, and EXERCISE.md says what to do.
The folder is enough by itself: its check.py compares with answers that were stored in its
cases.npz. No solution stands in it, nor functions of other exercises, which repeat its lines. Work
is not overwritten without --force.
"""
import argparse
import ast
import functools
import re
import sys
import textwrap
from pathlib import Path

import torch

import answers
from draws import ROOT, Draw
from exercises import BLANK, EXERCISES, PAGE, TITLE, definition, parsed, twisted, without_hints

LEVELS = {"steps": "each function has a recipe in steps", "equation": "its docstring alone",
          "paper": "which does not say what is wrong with the page"}
SECTION = "Assumes|Args|Returns|Raises|Trace|Left out"
DEPARTS = re.compile(rf'^( *)Departs: .*\n(?:(?!.*"""| *(?:{SECTION}):)\1.*\S.*\n)*', re.M)
CHANGED = "What a docstring says behind `Here:` counts in this hand-out, whatever the paper says.\n"
UNSAID = """\
Not every printed equation does what the sentence beside it says. What counts is what the sentence
asks. The library says under `Departs:` where that is, and what it computes instead; these lines are
left out here: find it in the paper.
"""
LEFT_OUT = '    raise NotImplementedError("left out: not part of this exercise")'
KERNELS = "support.kernels"         # computes two equations in blocks: no hand-out has it
NEIGHBOURS = "comparators"           # its attentions are those of the exercises, in other words


def blank(task, level):
    """The lines of a function with a blank body."""
    docstring, text = ast.parse(task.source).body[0].body[0], []
    for number, step in enumerate(task.steps if level == "steps" else (), 1):
        text += textwrap.wrap(step, 92, initial_indent=f"# {number}. ", subsequent_indent="#    ")
    name = task.path[-1]
    text.append(f'raise NotImplementedError("{task.equation}: {name} is {BLANK}")')
    head = task.source.splitlines()[:docstring.end_lineno]
    return head + [" " * docstring.col_offset + line for line in text]


@functools.cache
def others(name):
    """Functions of other exercises that a hand-out leaves out: not BERT's, which are in all models,
    and not what this exercise's call."""
    kept = {task.function for other in (name, "bert") for task in EXERCISES[other].tasks}
    asked = {task.function: task for exercise in EXERCISES.values() for task in exercise.tasks}
    used = {node.id for task in EXERCISES[name].tasks
            for node in ast.walk(ast.parse(task.solution)) if isinstance(node, ast.Name)}
    return [task for function, task in asked.items()
            if function not in kept and task.path[-1] not in used]


def student_version(module, name, level="steps"):
    """A module's text with the exercise's functions blank and those of others left out."""
    lines, tree = parsed(module)
    lines, changes = [*lines], []           # (first line, last line, new lines), counted from 0
    own = EXERCISES[name].tasks
    for task in (*own, *others(name)):
        if task.module == module:
            node = definition(tree, task.path)
            first, new = node.lineno - 1, blank(task, level)
            if task not in own:
                first, new = node.body[0].end_lineno, [LEFT_OUT]
            new = textwrap.indent("\n".join(new), " " * node.col_offset).splitlines()
            changes.append((first, node.end_lineno, new))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == KERNELS:
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
    if hasattr(value, "text"):
        return f'"{value.text}" (heads {value.heads.tolist()}, {", ".join(value.relations)})'
    return str(value)


def example(task):
    """What the function makes of its smallest case, if it has one to calculate by hand."""
    if "example" not in task.cases:
        return ""
    arguments = task.cases["example"](Draw())
    result = answers.right_function(task)(*arguments)
    return f"By hand: `{task.path[-1]}({written(arguments)})` is `{written(result)}`.\n"


def page(name, exercise, texts, level):
    """The text of EXERCISE.md. texts: module -> the student's version."""
    files = " and ".join(f"`{module}.py`" for module in texts)
    recipe = ", and a recipe in steps" if level == "steps" else ""
    notes = CHANGED * any(task.twist for task in exercise.tasks) + UNSAID * (level == "paper")
    parts = [f"{TITLE}{name}: {exercise.title}\n", f"""\
Write the functions below, in this order, in {files}.
Each has its signature, a docstring with the formula in the paper's letters{recipe}.
Names and signatures must stay. Read the paper beside it.
{notes}
What counts: the result, for padding too, its dtype, and the gradients. Arguments are float64, and
so are results where the docstring names no other dtype; do not change an argument in place. What
does not count: speed, memory, dropout, and the arguments `printed`, `typeset` and `without`, which
a finished library has; leave them aside. Loops are fine. Each case named below counts and, where
PyTorch computes a function, its gradients, with 1 to 4 points each. An axis letter, as in (B, L,
d), is explained at the top of its module, behind `# Axes:`.
What is not blank is there for you to call; read its docstring first.

Check, as often as you like, in this folder, which needs nothing else of the project:

    pip install -r requirements.txt
    python check.py                     all functions
    python check.py NAME                one of them

A function that calls others of this exercise is tried with yours, so write it after them. Hand in
this page and {files}: no other file is read. When all points are won, `python train.py
--model {name}` trains the model, with your equations.
"""]
    trees = {module: ast.parse(text) for module, text in texts.items()}
    for number, task in enumerate(exercise.tasks, 1):
        line = definition(trees[task.module], task.path).lineno
        parts.append(f"## {number}. `{'.'.join(task.path)}`: {task.equation}\n\n"
                     f"`{task.module}.py`, line {line}. Cases: {', '.join(task.cases)}.\n\n"
                     f"{example(task)}")
    return "\n".join(part.rstrip("\n") + "\n" for part in filter(None, parts))


# ---- The folder ---------------------------------------------------------------------------------

def hand_out(name, level="steps"):
    """{path: bytes} of a hand-out, but for cases.npz and what only training needs."""
    exercise, files = EXERCISES[name], {}
    for pattern in ("*.py", "support/*.py", "experiments/*.py"):
        for path in sorted(ROOT.glob(pattern)):
            files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    for module in (KERNELS, NEIGHBOURS):
        del files[module.replace(".", "/") + ".py"]
    blanks = {task.module: None for task in exercise.tasks}
    texts = {module: student_version(module, name, level)
             for module in [*blanks, *(task.module for task in others(name))]}
    files |= {f"{module}.py": text.encode() for module, text in texts.items()}
    asked = {module: texts[module] for module in blanks}
    files[PAGE] = page(name, exercise, asked, level).encode()
    for file in ("check.py", "differences.py", "trial.py"):
        files[file] = (ROOT / "tutorials" / file).read_bytes()
    if level == "paper":
        files |= {file: DEPARTS.sub("", content.decode()).encode()
                  for file, content in files.items() if file.endswith(".py")}
    for file in ("LICENSE", "requirements.txt"):
        files[file] = (ROOT / file).read_bytes()
    return files


def asked(name, level, variant=None):
    """The Exercise of a level and of a variant's number."""
    exercise = EXERCISES[name] if variant is None else twisted(EXERCISES[name], variant)
    return without_hints(exercise) if level == "paper" else exercise


def key_of(exercise, number):
    """What a lecturer keeps of a variant."""
    lines = [f"{TITLE}{exercise.name}, variant {number}: not for students"]
    lines += [f"{task.function}: {task.twist.says}" for task in exercise.tasks if task.twist]
    return "\n".join(lines) + "\n"


def read_key(path):
    """The Exercise of a key's variant. Raises ValueError, OSError."""
    text = path.read_text("utf-8")
    found = re.match(rf"{TITLE}(\w+), variant (\d+):", text)
    exercise = found and found[1] in EXERCISES and twisted(EXERCISES[found[1]], int(found[2]))
    if not exercise or key_of(exercise, int(found[2])) != text:
        raise ValueError(f"{path}: expected a key that this version of make_exercise.py wrote")
    return exercise


def check_folder(out, files, force):
    """Raises ValueError where a folder has one of these files already, unless forced."""
    if out.resolve() == ROOT:
        raise ValueError(f"--out {out}: this is the library itself; give another folder")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: a file, expected a folder")
    there = [file for file in files if (out / file).exists()]
    if there and not force:
        raise ValueError(f"{out} has {', '.join(there[:3])} already, perhaps with work in it; give "
                         "another --out, or --force to overwrite")


def make(name, out, force, level="steps", variant=None):
    """Writes the exercise into a folder, and the key of a variant beside it. Raises ValueError."""
    exercise = asked(name, level, variant)
    with answers.installed(exercise):
        files = hand_out(name, level)
        check_folder(out, files, force)
        described = answers.describe(name, answers=True)
    if exercise.paper in ("DAFA", "DRr-Net"):               # training asks the parser
        files |= {path.relative_to(ROOT).as_posix(): path.read_bytes()
                  for path in ROOT.glob("assets/parser.*")}
    for file, content in files.items():
        (out / file).parent.mkdir(parents=True, exist_ok=True)
        (out / file).write_bytes(content)
    answers.save(out / "cases.npz", *described)
    if variant is not None:
        out.with_name(f"{out.name}.key").write_text(key_of(exercise, variant), "utf-8")


# ---- Command line -------------------------------------------------------------------------------

def main(argv=None):
    """Runs the command line and returns the exit status. A user's mistake gives one line and 2."""
    parser = argparse.ArgumentParser("make_exercise.py",
                                     description="Makes a student's copy with blank functions.")
    parser.add_argument("name", nargs="?", metavar="EXERCISE", help=", ".join(EXERCISES))
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="exercise-NAME if not given")
    parser.add_argument("--level", choices=LEVELS, default="steps",
                        help="; ".join(f"{level}: {what}" for level, what in LEVELS.items()))
    parser.add_argument("--variant", type=int, metavar="NUMBER", help=(
        "some equations are not the paper's: which ones, FOLDER.key says, which grade.py needs"))
    parser.add_argument("--force", action="store_true", help="overwrite what is in the folder")
    options = parser.parse_args(argv)
    if options.name is None:
        for name, exercise in EXERCISES.items():
            print(f"{name:10}{len(exercise.tasks):3} functions   {exercise.title}")
        return 0
    try:
        if options.name not in EXERCISES:
            raise ValueError(f"no exercise {options.name!r}; there are {', '.join(EXERCISES)}")
        out = options.out or Path(f"exercise-{options.name}")
        make(options.name, out, options.force, options.level, options.variant)
    except (ValueError, OSError) as problem:
        print(f"make_exercise.py: {problem}", file=sys.stderr)
        return 2
    print(f"{out}: read {out / PAGE}, then write; check with\n    python {out / 'check.py'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
