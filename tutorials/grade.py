"""Grades hand-ins of lessons: a table of points, and a page of messages for each of them.

    python tutorials/grade.py hand-ins --out grades

In the folder hand-ins lies a file or a folder for each student. A hand-in is a lesson's .py or
.ipynb, whatever its name. It is somebody's program, and can do what its account can do. So this one
refuses to run outside a container, unless you say --trusted: README.md beside this file.
"""
import ast
import contextlib
import csv
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
os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}      # before torch comes

import lesson  # it finds the modules above this folder
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
NAMING = {ast.Attribute: "attr", ast.ImportFrom: "module", ast.alias: "name"}   # where a name stands


def read_cells(path):
    """The number of the lesson in a .py or .ipynb, and its cells, without what only Jupyter has
    (!ls, name?). Raises ValueError, which says what the file is instead."""
    refuse(path.is_symlink() or not path.is_file(), "is no plain file")
    refuse(path.stat().st_size > LARGEST, f"has more than {LARGEST:,} bytes")
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if path.suffix == ".ipynb":
            cells = [x["source"] for x in json.loads(text)["cells"] if x["cell_type"] == "code"]
            cells = [MAGIC.sub(r"\1None", "".join(cell)) for cell in cells]
        else:
            cells = re.split(r"^# ?%%.*\n?", text, flags=re.M)     # a text's cell is a comment
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError("is no text in UTF-8, or no notebook") from None
    numbers = sorted({*BEGIN.findall("\n".join(cells))})
    refuse(not numbers, "is no lesson: it has no line such as begin(2)")
    refuse(len(numbers) > 1, f"has lessons {', '.join(numbers)}: expected a file for each")
    return int(numbers[0]), [cell for cell in cells if cell.strip()]


def read_own(number):
    """The cells of lesson `number`, as it is handed out."""
    return read_cells(*HERE.glob(f"{number}_*.py"))[1]


def named_in(cells):
    """What these cells import, or use as an attribute: dict name -> "cell, line"."""
    found = {}
    for number, cell in enumerate(cells, 1):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for node in ast.walk(ast.parse(cell)):
                if name := getattr(node, NAMING.get(type(node), ""), None):
                    found.setdefault(name, f"cell {number}, line {node.lineno}")
    return found


def remark_on(number, cells):
    """What a lecturer should look at, because it could have given points."""
    known = named_in(read_own(number))
    looks = [f"{name} ({place})" for name, place in named_in(cells).items()
             if name.split(".")[0] in WATCHED and name not in known]
    return f"look: it names {', '.join(looks[:5])}" if looks else ""


def run_cell(cell, title, names):
    """Runs a cell. Returns: the error in one line, or ""."""
    linecache.cache[title] = len(cell), None, cell.splitlines(keepends=True), title
    try:
        exec(compile(cell, title, "exec"), names)
    except BaseException as error:
        return f"{type(error).__name__}: {error}".split("\n")[0]
    return ""


def run_hand_in(number, cells, report, folder):
    """Runs the cells of lesson `number`, and then of a hand-in, so that a cell that fails takes
    nothing from the others. Writes lines to the file number `report`: a JSON list of a function's
    name and what is wrong with it, or of "" and the error of a cell."""
    names = {"__name__": "__main__", "display": print}
    os.chdir(folder)
    for standard in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), standard)
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

    for cell in read_own(number):
        run_cell(cell, "the lesson", names)
    lesson.tell = say
    signal.signal(signal.SIGALRM, late)
    for number, cell in enumerate(cells, 1):
        before = {name: names[name] for name in TASKS if name in names}
        signal.setitimer(signal.ITIMER_REAL, LIMIT, LIMIT)      # again: `check` tries more than once
        error = run_cell(cell, f"cell {number}", names)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if error:
            say("", f"cell {number}: {error}")
            names |= before             # no function that was not checked


def said_by(number, cells):
    """What the process of a hand-in has written when it ends, or ten times LIMIT seconds are over,
    in bytes (see run_hand_in). Its process group is ended."""
    (read, write), end, said = os.pipe(), time.monotonic() + 10 * LIMIT, b""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        group = os.fork()
        if not group:
            try:
                os.setsid()
                if os.fork():           # a child of a child: who kills its parent kills no grade.py
                    os.close(write)     # who stops it does not keep grade.py waiting
                    os.wait()
                else:
                    run_hand_in(number, cells, write, folder)
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
    return said


def grade(number, cells):
    """Grades the cells of a hand-in of lesson `number`. Returns: dict name of a function -> its
    points; the lines of the student's page, in which no path of ours stands."""
    found, failed = {x: "not checked" for x, task in TASKS.items() if task.lesson == number}, []
    for line in said_by(number, cells).split(b"\n"):
        with contextlib.suppress(ValueError, TypeError, RecursionError):    # it has another form
            name, text = (str(x)[:1000] for x in json.loads(line))
            if not name:
                failed.append(text)
            elif found.get(name):                           # of several checks a right one counts
                found[name] = text
    won = {name: 0 if message else TASKS[name].points for name, message in found.items()}
    lines = [f"{won[name]}/{TASKS[name].points}  {name}  {message}".rstrip()
             for name, message in found.items()]
    most = sum(TASKS[name].points for name in won)
    return won, [f"{sum(won.values())} of {most} points", "", *lines, *failed]


def write_table(path, rows):
    """Writes points.csv, with the sum of each student. Of two hand-ins of a lesson the better one
    counts. rows: a dict for each hand-in."""
    best = {}
    for row in rows:
        of_student = best.setdefault(row["student"], {})
        of_student[row["lesson"]] = max(row["points"], of_student.get(row["lesson"], 0))
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ["student", "sum", "hand-in", "points", *TASKS, "remark"],
                               extrasaction="ignore")
        table.writeheader()
        table.writerow({"student": "maximum"} | {name: x.points for name, x in TASKS.items()})
        table.writerows(row | {"sum": sum(best[row["student"]].values())} for row in rows)


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
                hand_ins[path.relative_to(top)] = *read_cells(path), ""
            except (ValueError, OSError) as error:
                hand_ins[path.relative_to(top)] = 0, [], str(error)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)   # process 1 gets no signal that it does not handle
    lesson.torch.set_num_threads(1)     # threads do not outlive a fork
    lesson.MODE, lesson.SEED = "grade", given["seed"]
    for name, (number, cells, remark) in hand_ins.items():
        won, lines = {}, [remark]
        if cells:
            remark, (won, lines) = remark_on(number, cells), grade(number, cells)
        rows.append({"student": Path(name.parts[0]).stem, "lesson": number, "hand-in": name,
                     "points": sum(won.values()), "remark": remark} | won)
        pages[out / f"pages/{name}.txt"] = "\n".join([name.name, *lines, ""])
        print(f"{name}: {sum(won.values())} points{remark and f'; {remark}'}", flush=True)
    for path, text in pages.items():                                    # after the last runs
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    write_table(out / "points.csv", rows)


if __name__ == "__main__":
    sys.exit(run_command(main, "grade.py"))
