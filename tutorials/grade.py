"""Grades hand-ins, each in a process of its own.

    python tutorials/grade.py hand-ins/* --csv points.csv --feedback FOLDER
    python tutorials/grade.py FOLDER                        with messages
    python tutorials/grade.py FOLDER --exercise dabert --json results.json      for Gradescope
    python tutorials/grade.py FOLDER --exercise capstone    or misprint: see open_tasks.py
    python tutorials/grade.py hand-ins/* --key FILE         a variant, which FILE names

A folder needs EXERCISE.md, whose first line names the exercise, or --exercise, and the modules
whose functions were to be written; nothing else in it is read. Students' code runs in a process
that has its own modules, the hand-out's, and arguments out of a hidden seed. It sends numbers back;
the right ones are here alone, and so are the points. (See sandbox.py for what is refused there.)

Exit status: 0 if all folders were graded, 1 if not, 2 for a mistake on the command line.
"""
import argparse
import ast
import contextlib
import csv
import ctypes
import functools
import itertools
import json
import os
import secrets
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

import answers
import check
import sandbox
import trial
from draws import LETTERS
from exercises import EXERCISES, LIBRARY, PAGE, PRINTED, TITLE, definition
from make_exercise import hand_out, read_key
from open_tasks import GRADED
from processes import Refused, answers_of, plain

MOST = 1 << 20                  # bytes of a module that is handed in
RUNS = "exec", "eval", "compile", "__import__", "globals"
LONG = 60                       # nodes of a function that is not the library's by chance
NAMES = [*EXERCISES, *GRADED]
ONE_AT_A_TIME = threading.Lock()        # students' processes run at once; Python's parser does not


@dataclass
class Row:
    """One function: its names, points won and there are, and what is said of it."""
    equation: str
    function: str
    won: int
    total: int
    lines: list


@dataclass
class Report:
    """One folder. copied: functions that are the library's. odd: modules with code beside the
    functions that were asked for, and functions that run text or import. codes: function -> its
    skeleton, where it is long. alike: another folder -> functions that are the same there. problem:
    why it was not graded."""
    folder: Path
    exercise: str = ""
    rows: list = field(default_factory=list)
    copied: list = field(default_factory=list)
    odd: list = field(default_factory=list)
    codes: dict = field(default_factory=dict)
    alike: dict = field(default_factory=dict)
    problem: str = ""

    @property
    def won(self):
        return sum(row.won for row in self.rows)

    @property
    def total(self):
        return sum(row.total for row in self.rows)

    def line(self):
        if self.problem:
            return f"{self.folder}: not graded: {self.problem}"
        return f"{self.folder}: {self.exercise}, {self.won} of {self.total} points"

    def remark(self):
        """What a lecturer should look at."""
        printed, library = ([row.function for row in self.rows if kind in " ".join(row.lines)]
                            for kind in (PRINTED, LIBRARY))
        found = {"the library's own code, but for names": self.copied,
                 "code that was not asked for, or that runs text": self.odd,
                 "computed as printed; do they argue for it?": printed,
                 "the library's equation, and not the hand-out's": library}
        found |= {f"the same as in {other}, but for names": names
                  for other, names in self.alike.items()}
        said = {line.partition(": ")[2] for row in self.rows for line in row.lines}
        if len(said) == 1 and not self.won:     # such as a module that cannot be imported
            found[said.pop()] = ["all"]
        return "; ".join(f"{', '.join(names)}: {what}" for what, names in found.items() if names)


# ---- What was handed in -------------------------------------------------------------------------

def read(path):
    """The bytes of a small plain file that is no link. Raises Refused."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise Refused(f"{path.name} is missing") from None
    except OSError as problem:
        raise Refused(f"{path.name} cannot be read: {problem.strerror}") from None
    with open(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"{path.name} is no plain file")
        if found.st_size > MOST:
            raise Refused(f"{path.name} has {found.st_size:,} bytes, expected at most {MOST:,}")
        return opened.read(MOST)


def exercise_of(folder):
    """Name of the exercise in a folder, by the first line of its EXERCISE.md. Raises Refused."""
    if not folder.is_dir():
        raise Refused("no such folder")
    title = read(folder / PAGE).decode("utf-8-sig", "replace").partition("\n")[0]
    name = title.removeprefix(TITLE).partition(":")[0]
    if name not in NAMES:
        raise Refused(f"the first line of {PAGE} must be '{TITLE}NAME: ...', NAME one of "
                      f"{', '.join(NAMES)}; or say --exercise NAME")
    return name


# ---- The right answers --------------------------------------------------------------------------

class Right:
    """The library's answers for an exercise and a seed. Those of mistakes are made when needed."""

    def __init__(self, name, seed):
        self.exercise = EXERCISES[name]
        tries = (other for other in range(seed, seed + 100)
                 if answers.shows_all(self.exercise, other))
        self.seed = seed = next(tries, seed)
        self.tasks = {task.function: task for task in self.exercise.tasks}
        self.answers = {function: answers.right_answers(task, seed)
                        for function, task in self.tasks.items()}
        self.calls = {function: answers.calls_of(task, self.exercise)
                      for function, task in self.tasks.items()}
        self.hidden = {function: self.hidden_cases(function) for function in self.tasks}
        self.cases = answers.describe(name, seed)
        runner = Path(sandbox.__file__).read_bytes()
        self.files = {file: content for file, content in hand_out(name).items()
                      if file.endswith(".py")} | {"sandbox.py": runner}
        self.modules = list(dict.fromkeys(task.module for task in self.exercise.tasks))
        self.mistakes = functools.cache(
            lambda function: answers.mistakes_of(self.tasks[function], seed))

    def hidden_cases(self, function):
        """Cases whose answers depend on the seed; an example by hand is none."""
        others = answers.right_answers(self.tasks[function], self.seed + 1)
        return {case for case, answer in self.answers[function].items()
                if check.marks(answer, answer.parts) != check.marks(others[case], answer.parts)}


def with_right(text, tasks):
    """A module's text with right functions, as a student would write them, in place of some."""
    parts = [text.decode("utf-8", "replace")]
    for task in tasks:
        parts.append(task.solution)
        if len(task.path) > 1:
            parts.append(f"{'.'.join(task.path)} = {task.path[-1]}")
    return "\n\n\n".join(parts).encode()


def skeletons(texts, tasks):
    """function -> skeleton of a hand-in's long functions."""
    found = {}
    for task in tasks:
        with contextlib.suppress(KeyError, StopIteration, SyntaxError, ValueError, RecursionError):
            code = skeleton(definition(ast.parse(texts[task.module]), task.path))
            found |= {".".join(task.path): code} if code else {}
    return found


def oddities(texts, given, tasks):
    """What a Report calls odd. texts: module -> what was handed in. given: "module.py" -> what was
    handed out."""
    found = []
    for module, text in texts.items():
        asked = [task for task in tasks if task.module == module]
        with contextlib.suppress(StopIteration, SyntaxError, ValueError, RecursionError):
            mine, ours = (bare(ast.parse(code)) for code in (text, given[f"{module}.py"]))
            for task in asked:
                function = definition(mine, task.path)
                if any(isinstance(node, ast.Import | ast.ImportFrom)
                       or getattr(node, "id", "") in RUNS for node in ast.walk(function)):
                    found.append(".".join(task.path))
                function.body = definition(ours, task.path).body = []
            if ast.dump(mine) != ast.dump(ours):
                found.append(f"{module}.py")
    return found


def copies(codes, tasks):
    """Names of functions whose code is the library's, but for names and docstrings."""
    found = []
    for task in tasks:
        name, plain = ".".join(task.path), replace(task, twist=None)
        texts = task.source, task.solution, plain.source, plain.solution
        if name in codes and codes[name] in (skeleton(ast.parse(x).body[0]) for x in texts):
            found.append(name)
    return found


def compare(reports):
    """Says of each Report which functions another hand-in has too, but for the library's."""
    for report, other in itertools.permutations(reports, 2):
        same = [name for name, code in report.codes.items() if code == other.codes.get(name)
                and name not in report.copied and report.exercise == other.exercise]
        if same:
            report.alike[other.folder.name] = same


def bare(tree):
    """A tree without its docstrings, which levels and variants change."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = node.body[ast.get_docstring(node, clean=False) is not None:]
    return tree


def skeleton(function):
    """A function's code with its own names numbered, no docstring; "" if it is short."""
    numbers, nodes = {}, [*ast.walk(ast.Module(bare(function).body, []))]
    own = {argument.arg for argument in function.args.args}
    own |= {node.id for node in nodes if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in own:
            node.id = f"name{numbers.setdefault(node.id, len(numbers))}"
    return ast.dump(ast.Module(function.body, [])) if len(nodes) >= LONG else ""


# ---- A folder -----------------------------------------------------------------------------------

def judge(right, function, got):
    """(points, messages) of what answers_of found for a function. Cases that are no secret, such as
    an example by hand, count only beside a hidden one: a table can be right there."""
    expected = right.answers[function]
    if isinstance(got, str):
        got = dict.fromkeys(expected, got)
    got = {case: got.get(case, "no answer") for case in expected}
    points, said = check.judge(expected, got, lambda: right.mistakes(function), letters=LETTERS)
    hidden = right.hidden[function]
    if hidden and not any(points[case] for case in hidden):
        points = dict.fromkeys(points, False)
    return points, said


def grade(folder, right, wrap=()):
    """The Report of one folder."""
    report = Report(folder, right.exercise.name)
    texts, problems = {}, {}
    for module in right.modules:
        try:
            texts[module] = read(folder / f"{module}.py")
        except Refused as problem:
            problems[module] = str(problem)
    if not texts:
        raise Refused("; ".join(problems.values()))
    files = right.files | {f"{module}.py": text for module, text in texts.items()}
    names = [name for name, task in right.tasks.items() if task.module in texts]
    got = answers_of(files, right.cases, names, wrap)
    with ONE_AT_A_TIME:
        found = {name: judge(right, name, got.get(name, problems.get(task.module)))
                 for name, task in right.tasks.items()}
        again = {}
        if any(isinstance(cases, dict) for cases in got.values()):
            again = second_tries(right, found, files)
    for name, changed in again.items():
        got = answers_of(changed, right.cases, [name], wrap)
        with ONE_AT_A_TIME:
            tried = judge(right, name, got[name])
        found[name] = max(found[name], tried, key=lambda judged: sum(judged[0].values()))
    for name, (points, said) in found.items():
        task, weight = right.tasks[name], right.tasks[name].points
        report.rows.append(Row(f"{right.exercise.paper} {task.equation}", ".".join(task.path),
                               weight * sum(points.values()), weight * len(points),
                               check.told(said)))
    with ONE_AT_A_TIME:
        report.codes = skeletons(texts, right.tasks.values())
        report.copied = copies(report.codes, right.tasks.values())
        report.odd = oddities(texts, right.files, right.tasks.values())
    return report


def second_tries(right, found, files):
    """{function: files} of functions that were written, and failed where what they call did too:
    the files have right functions in place of those."""
    wrong, again = {name for name, (points, _) in found.items() if not all(points.values())}, {}
    for name, task in right.tasks.items():
        blank = f"{task.path[-1]} is {trial.BLANK}"
        written = not any(text.endswith(blank) for text in found[name][1].values())
        if name in wrong and written and wrong.intersection(right.calls[name]):
            given = [other for function, other in right.tasks.items()
                     if function in right.calls[name] and other.module == task.module]
            module = f"{task.module}.py"
            again[name] = files | {module: with_right(files[module], given)}
    return again


def grade_all(folders, exercise, seed, jobs, wrap=()):
    """A Report of each folder, in order, as they are done."""
    right = functools.cache(lambda name: Right(name, seed))

    def grade_one(folder):
        try:
            name = exercise or exercise_of(folder)
            if name in GRADED:
                tried = GRADED[name](read(folder / f"{name}.py"), seed, wrap)
                return Report(folder, name, [Row(name, *row) for row in tried])
            with ONE_AT_A_TIME:
                answered = right(name)
            return grade(folder, answered, wrap)
        except Refused as problem:
            return Report(folder, problem=plain(problem))
        except Exception as problem:    # whatever happens with one, the others are graded
            return Report(folder, problem=plain(f"{type(problem).__name__}: {problem}"))

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(grade_one, folders)


# ---- Output -------------------------------------------------------------------------------------

def print_report(report):
    if report.exercise in EXERCISES:
        print(f"{EXERCISES[report.exercise].title}\n")
    for row in report.rows:
        check.print_score(row.equation, row.function, row.won, row.total, row.lines)
    print()


def write_feedback(folder, reports):
    """A page for each student, folder/NAME.txt, without what is for the lecturer alone."""
    folder.mkdir(exist_ok=True)
    for report in reports:
        with (open(folder / f"{report.folder.name}.txt", "w", encoding="utf-8") as page,
              contextlib.redirect_stdout(page)):
            if report.rows:
                print_report(report)
            print(report.line())


def write_csv(path, reports):
    """A row for each folder, a column for each equation."""
    columns = list(dict.fromkeys(f"{row.equation} {row.function}" for report in reports
                                 for row in report.rows))
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["folder", "exercise", *columns, "points", "of", "remarks"])
        for report in reports:
            won = {f"{row.equation} {row.function}": row.won for row in report.rows}
            table.writerow([report.folder, report.exercise, *(won.get(c, "") for c in columns),
                            report.won, report.total, report.problem or report.remark()])


def write_json(path, report, seed):
    """Gradescope's results.json. What is for the lecturer alone is hidden from students."""
    tests = [{"name": f"{row.equation} {row.function}", "score": row.won, "max_score": row.total,
              "output": "\n".join(row.lines)} for row in report.rows]
    tests.append({"name": "for the lecturer", "output": f"seed {seed}. {report.remark()}",
                  "visibility": "hidden"})
    results = {"score": report.won, "output": report.line(), "tests": tests}
    path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def read_options(argv):
    """The options of the command line. A mistake in them ends the program, in one line."""
    parser = argparse.ArgumentParser("grade.py", description="Grades hand-ins.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--exercise", choices=NAMES, help="for folders without EXERCISE.md")
    parser.add_argument("--key", type=Path, metavar="FILE",
                        help="of a variant: make_exercise.py wrote it beside the hand-out")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10 ** 6),
                        help="of the hidden arguments; drawn if not given")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Gradescope's; of one folder")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="a row for each folder")
    parser.add_argument("--feedback", type=Path, metavar="FOLDER", help="a page for each student")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="folders at a time")
    parser.add_argument("--wrap", default="", metavar="COMMAND",
                        help="put before each student's process, such as 'unshare -rn'")
    parser.add_argument("--trust", action="store_true",
                        help="grade without Landlock: hand-ins can open your files")
    options = parser.parse_args(argv)
    if options.json and len(options.folders) > 1:
        parser.error("--json takes one folder; --csv takes many")
    for file in filter(None, (options.csv, options.json, options.feedback)):
        if not file.parent.is_dir():
            parser.error(f"{file}: there is no folder {file.parent}")
    if options.key:
        try:
            options.key = read_key(options.key)
            options.exercise = options.key.name
        except (OSError, ValueError) as problem:
            parser.error(f"--key: {problem}")
    if options.jobs < 1:
        parser.error(f"--jobs: expected 1 or more, got {options.jobs}")
    if not (options.wrap or options.trust or sandbox.landlock_version()):
        parser.error("this system has no Landlock (Linux 5.13), so that a hand-in can open your "
                     "files: --wrap in a container, or say --trust")
    return options


def main(argv=None):
    """Runs the command line and returns the exit status."""
    options = read_options(argv)
    torch.set_num_threads(1)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(4, 0)       # no process of the same user may read this one's memory
    print(f"seed {options.seed}")
    reports = []
    with answers.installed(options.key) if options.key else contextlib.nullcontext():
        for report in grade_all(options.folders, options.exercise, options.seed, options.jobs,
                                options.wrap.split()):
            reports.append(report)
            if len(options.folders) == 1 and report.rows:
                print_report(report)
            print(report.line(), flush=True)
    compare(reports)
    for report in reports:
        if remark := report.remark():
            print(f"look at {report.folder}: {remark}")
    if options.feedback:
        write_feedback(options.feedback, reports)
    if options.csv:
        write_csv(options.csv, reports)
    if options.json:
        write_json(options.json, reports[0], options.seed)
    return int(any(report.problem for report in reports))


if __name__ == "__main__":
    sys.exit(main())
