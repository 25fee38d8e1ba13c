"""Grades hand-ins of lessons: a table of points, and a page of messages for each of them.

    python tutorials/grade.py hand-ins --out grades

In the folder hand-ins lies a file or a folder for each student. A hand-in is a lesson's .py or
.ipynb, whatever its name. It is somebody's program, and can do what its account can do. So this one
refuses to run outside a container, unless you say --trusted: README.md beside this file.
"""
import ast
import contextlib
import csv
import functools
import io
import json
import linecache
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]        # tasks.py and the modules above it
os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}      # before torch comes

import lesson
from support.errors import refuse
from support.files import write_text
from support.options import Arguments, run_command
from tasks import TASKS

BEGIN = re.compile(r"^[ \t]*begin\s*\(\s*(?:number\s*=\s*)?([1-7])\b", re.M)
MAGIC = re.compile(r"^([ \t]*)((?:\w+ *= *)?(?:!|%{1,2}[a-z]).*|\?.*|[\w.]+\?+[ \t]*)$", re.M)
LARGEST = 2_000_000     # bytes: of a hand-in, of what it writes
MEMORY = 4 * 2 ** 30    # bytes
LIMIT = 20              # seconds: of a cell; ten times that of a hand-in
CONTAINERS = "/.dockerenv", "/run/.containerenv"        # one of them exists inside a container
WATCHED = {path.stem for folder in (HERE, HERE.parent) for path in folder.glob("*.py")} | {
    *TASKS, "TASKS", "support", "tell", "importlib", "inspect", "gc", "modules", "__globals__",
    "_getframe"}        # what can give points without work


# ---- What was handed in -------------------------------------------------------------------------

def read_cells(path):
    """The number of the lesson in a .py or .ipynb, and its cells of code, without what only Jupyter
    has (!ls, name?). Raises ValueError, which says what the file is instead."""
    refuse(path.is_symlink() or not path.is_file(), "is no plain file")
    refuse(path.stat().st_size > LARGEST, f"has more than {LARGEST:,} bytes")
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if path.suffix == ".ipynb":
            cells = [x["source"] for x in json.loads(text)["cells"] if x["cell_type"] == "code"]
            cells = [MAGIC.sub(r"\1None", "".join(cell)) for cell in cells]
        else:
            kinds_and_cells = re.split(r"^# ?%%(.*)\n?", f"# %%\n{text}", flags=re.M)[1:]
            cells = [cell for kind, cell in zip(kinds_and_cells[::2], kinds_and_cells[1::2])
                     if "[markdown]" not in kind]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError("is no text in UTF-8, or no notebook") from None
    numbers = sorted({*BEGIN.findall("\n".join(cells))})
    refuse(not numbers, "is no lesson: it has no line such as begin(2)")
    refuse(len(numbers) > 1, f"has lessons {', '.join(numbers)}: expected a file for each")
    return int(numbers[0]), [cell for cell in cells if cell.strip()]


@functools.cache
def read_own(number):
    """All names that a lesson as it is handed out has defined at its end, with right functions for
    its blank ones; what it names (see named_in)."""
    path, = HERE.glob(f"{number}_*.py")
    (_, cells), names = read_cells(path), {"__name__": "__main__", "display": print}
    lesson.tell = lambda *_: None
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            run_cell(cell, "the lesson", names)
    return names, named_in(cells)


def named_in(cells):
    """What these cells import, or use as an attribute: dict name -> "cell, line"."""
    found = {}
    for number, cell in enumerate(cells, 1):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for node in ast.walk(ast.parse(cell)):
                names = [node.attr] if isinstance(node, ast.Attribute) else []
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = [getattr(node, "module", None), *(alias.name for alias in node.names)]
                for name in filter(None, names):
                    found.setdefault(name, f"cell {number}, line {node.lineno}")
    return found


def remark_on(number, cells):
    """What a lecturer should look at, because it could have given points."""
    looks = [f"{name} ({place})" for name, place in named_in(cells).items()
             if name.split(".")[0] in WATCHED and name not in read_own(number)[1]]
    return f"look: it names {', '.join(looks[:5])}" if looks else ""


# ---- The process of a hand-in -------------------------------------------------------------------

def run_cell(cell, title, names):
    """Runs a cell. Returns: the error in one line, or ""."""
    linecache.cache[title] = len(cell), None, cell.splitlines(keepends=True), title
    try:
        exec(compile(cell, title, "exec"), names)
    except BaseException as error:
        place = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return f"{type(error).__name__}{place}: {error}".split("\n")[0]
    return ""


def run_hand_in(cells, names, report, folder):
    """Runs cells, and writes lines to the file number `report`: a JSON list of a function's name and
    what is wrong with it, or of "" and the error of a cell."""
    os.chdir(folder)
    for number in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    os.dup2(report, 3)
    os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])     # the files of grade.py
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
    for kind, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_FSIZE, LARGEST)):
        with contextlib.suppress(ValueError, OSError):                  # not every system has it
            resource.setrlimit(kind, (most, most))

    def say(name, text):
        os.write(3, f"{json.dumps([name, text[:1000]])}\n".encode())

    def late(*_):
        raise TimeoutError(f"ended after {LIMIT} seconds")

    signal.signal(signal.SIGALRM, late)
    lesson.tell = say
    for number, cell in enumerate(cells, 1):
        before = {name: names[name] for name in TASKS if name in names}
        signal.setitimer(signal.ITIMER_REAL, LIMIT, LIMIT)      # again: `check` tries more than once
        error = run_cell(cell, f"cell {number}", names)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if error:
            say("", f"cell {number}: {error}")
            names |= before             # no function that was not checked


def lines_of(cells, names):
    """What a hand-in's process has said when it ends, or ten times LIMIT seconds are over: a list of
    (name, text), as `run_hand_in` writes them. Its process group is ended.

    names: what the lesson defines. A hand-in begins with it, so that a cell that fails takes
    nothing from the others.
    """
    (read, write), end, said = os.pipe(), time.monotonic() + 10 * LIMIT, b""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        group = os.fork()
        if not group:
            try:
                os.setsid()
                if os.fork():           # a child of a child: who kills its parent kills no grade.py
                    os.wait()
                else:
                    run_hand_in(cells, dict(names), write, folder)
            finally:
                os._exit(0)
        os.close(write)
        while select.select([read], [], [], max(0.0, end - time.monotonic()))[0]:
            said += (part := os.read(read, 65536))
            if not part or len(said) > LARGEST:
                break
        os.close(read)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        os.waitpid(group, 0)
    lines = []
    for line in said.split(b"\n"):
        with contextlib.suppress(ValueError, TypeError, RecursionError):    # it has another form
            name, text = json.loads(line)
            lines.append((str(name), str(text)[:1000]))
    return lines


def grade(number, cells):
    """Grades the cells of a hand-in of lesson `number`. Returns: dict name of a function -> its
    points; the lines of the student's page, in which no path of ours stands."""
    found, failed = {x: "not checked" for x, task in TASKS.items() if task.lesson == number}, []
    for name, text in lines_of(cells, read_own(number)[0]):
        if not name:
            failed.append(text)
        elif found.get(name):                               # of several checks a right one counts
            found[name] = text
    won = {name: 0 if message else TASKS[name].points for name, message in found.items()}
    lines = [f"{won[name]}/{TASKS[name].points}  {name}  {message}".rstrip()
             for name, message in found.items()]
    most = sum(TASKS[name].points for name in won)
    return won, [f"{sum(won.values())} of {most} points", "", *lines, *failed]


# ---- What is written ----------------------------------------------------------------------------

def table_of(rows):
    """points.csv, with the sum of each student. Of two hand-ins of a lesson the better one counts.

    rows: a dict for each hand-in, with "lesson"."""
    text, best = io.StringIO(), {}
    for row in rows:
        of_student = best.setdefault(row["student"], {})
        of_student[row["lesson"]] = max(row["points"], of_student.get(row["lesson"], 0))
    table = csv.DictWriter(text, ["student", "sum", "hand-in", "points", *TASKS, "remark"],
                           extrasaction="ignore")
    table.writeheader()
    table.writerow({"student": "maximum"} | {name: task.points for name, task in TASKS.items()})
    table.writerows(row | {"sum": sum(best[row["student"]].values())} for row in rows)
    return text.getvalue()


def main(argv=None):
    """The command line."""
    parser = Arguments("grade.py", __doc__, "HAND-INS")
    parser.add_argument("hand_ins", help="a folder")
    parser.add_argument("--out", default="grades", help="a new folder: points.csv, pages")
    parser.add_argument("--seed", type=int, default=0, help="for random arguments (default: 0)")
    parser.add_argument("--trusted", action="store_true", default=False, help="grade outside a "
                        "container, too: a hand-in can end your processes and read your files")
    given = parser.parse(argv)
    refuse(not given["trusted"] and not any(map(os.path.exists, CONTAINERS)),
           "no container here: a hand-in could end your processes and read your files. Grade in a "
           "container (README.md has the command), or say --trusted")
    top, out, rows, pages = Path(given["hand_ins"]), Path(given["out"]).absolute(), [], {}
    refuse(not top.is_dir(), f"{top}: is no folder")
    refuse(out.exists() and any(out.iterdir()), f"--out {out}: is not empty; name a new folder")
    hand_ins = {}
    for path in sorted(top.rglob("*")):                                 # all before the first runs
        if path.suffix in (".py", ".ipynb") and ".ipynb_checkpoints" not in path.parts:
            try:
                hand_ins[path.relative_to(top)] = read_cells(path)
            except (ValueError, OSError) as error:
                hand_ins[path.relative_to(top)] = str(error)
    lesson.torch.set_num_threads(1)     # threads do not outlive a fork
    lesson.MODE, lesson.SEED = "grade", given["seed"]
    for name, read in hand_ins.items():
        number, won, lines, remark = 0, {}, [read], read
        if not isinstance(read, str):
            number, remark, (won, lines) = read[0], remark_on(*read), grade(*read)
        rows.append({"student": Path(name.parts[0]).stem, "lesson": number, "hand-in": name,
                     "points": sum(won.values()), "remark": remark} | won)
        pages[f"pages/{name}.txt"] = "\n".join([name.name, *lines, ""])
        print(f"{name}: {sum(won.values())} points{remark and f'; {remark}'}", flush=True)
    for path, text in [("points.csv", table_of(rows)), *pages.items()]:     # after the last runs
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        write_text(out / path, text)


if __name__ == "__main__":
    sys.exit(run_command(main, "grade.py"))
