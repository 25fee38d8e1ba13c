"""Grades hand-ins of lessons: a table of points, and a page of messages for each of them.

    python tutorials/grade.py hand-ins --out grades

In the folder hand-ins lies a file or a folder for each student. A hand-in is a lesson's .py or
.ipynb, whatever its name. It is somebody's program, and can do what its account can do. So this one
refuses to run outside a container, unless you say --trusted: README.md beside this file.
"""
import ast
import contextlib
import csv
import ctypes
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
CONTAINERS = "/.dockerenv", "/run/.containerenv"        # one of them exists inside a container
SUBREAPER = 36          # of prctl: who has lost its parent becomes a child of this process
WATCHED = {path.stem for folder in (HERE, HERE.parent) for path in folder.glob("*.py")} | {
    *TASKS, "TASKS", "support", "tell", "exec()", "eval()", "__import__()", "importlib", "inspect", "gc",
    "modules", "__globals__", "_getframe"}      # what can give points without work


# ---- What was handed in -------------------------------------------------------------------------

def read_cells(path):
    """The cells of code of a .py or .ipynb, without what only Jupyter has (!ls, name?).
    Raises ValueError, which says what the file is instead."""
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
    except UnicodeDecodeError:
        raise ValueError("is no text in UTF-8") from None
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError("is no notebook: expected JSON with cells") from None
    refuse(not BEGIN.search("\n".join(cells)), "is no lesson: it has no line such as begin(2)")
    return [cell for cell in cells if cell.strip()]


def lessons_of(cells):
    """The numbers of the lessons that begin in these cells."""
    return sorted({int(number) for number in BEGIN.findall("\n".join(cells))})


@functools.cache
def read_own(number):
    """(the cells of a lesson as it is handed out; all names that it has defined at its end, with
    right functions for its blank ones)"""
    path, = HERE.glob(f"{number}_*.py")
    cells, names = read_cells(path), {"__name__": "__main__", "display": print}
    lesson.tell = lambda *_: None
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            run_cell(cell, "the lesson", names)
    return cells, names


def named_in(cells):
    """What these cells import or use as an attribute; other names have "()" behind them. dict
    name -> "cell, line" """
    found = {}
    for number, cell in enumerate(cells, 1):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for node in ast.walk(ast.parse(cell)):
                names = []
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = [*(alias.name for alias in node.names), getattr(node, "module", None)]
                elif isinstance(node, ast.Attribute):
                    names = [node.attr]
                elif isinstance(node, ast.Name):
                    names = [f"{node.id}()"]
                for name in filter(None, names):
                    found.setdefault(name, f"cell {number}, line {node.lineno}")
    return found


def remark_on(cells):
    """What a lecturer should look at: two lessons in a file; what could have given points."""
    first, *more = lessons_of(cells)
    said = [f"has also lesson {number}, which is not graded: a file for each" for number in more]
    own = named_in(read_own(first)[0])
    looks = [f"{name} ({place})" for name, place in named_in(cells).items()
             if name.split(".")[0] in WATCHED and name not in own]
    if looks:
        said.append(f"look: it names {', '.join(looks[:5])}")
    return "; ".join(said)


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


def run_hand_in(cells, skip, names, report, folder):
    """Runs cells but those of `skip`, and writes lines to the file number `report`: a JSON list of
    the cell's number; a function's name, or ""; what is wrong with the function or the cell."""
    os.chdir(folder)
    for number in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    os.dup2(report, 3)
    os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])     # the files of grade.py
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
    for kind, most in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_FSIZE, LARGEST)):
        with contextlib.suppress(ValueError, OSError):                  # not every system has it
            resource.setrlimit(kind, (most, most))

    def say(number, name="", text=""):
        os.write(3, f"{json.dumps([number, name, text[:1000]])}\n".encode())

    for number, cell in enumerate(cells):
        if number not in skip:
            say(number)
            lesson.tell = functools.partial(say, number)
            before = {name: names[name] for name in TASKS if name in names}
            if error := run_cell(cell, f"cell {number + 1}", names):
                say(number, "", error)
                names |= before         # no function that was not checked
    say(len(cells))


def start(*of_hand_in):
    """Starts `run_hand_in` in a child of a child: who kills its parent kills no grade.py. Returns:
    the number of their group."""
    child = os.fork()
    if not child:
        try:
            os.setsid()
            if os.fork():
                os.wait()
            else:
                run_hand_in(*of_hand_in)
        finally:
            os._exit(0)
    return child


# ---- Who waits for it ---------------------------------------------------------------------------

def lines_of(cells, skip, names, limit):
    """Yields the lines that a hand-in's process writes, until it has run its last cell, or ended,
    or written too much, or a cell has taken `limit` seconds. All its processes are ended then.

    names: what the lesson defines. A hand-in begins with it, so that a cell that fails takes
    nothing from the others.
    """
    (read, write), before = os.pipe(), children()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        group = start(cells, skip, dict(names), write, folder)
        os.close(write)
        end, begun, said, rest = time.monotonic() + limit, -1, 0, b""
        while said < LARGEST and begun < len(cells):
            if not select.select([read], [], [], max(0.0, end - time.monotonic()))[0]:
                break
            if not (part := os.read(read, 65536)):
                break
            said += len(part)
            *lines, rest = (rest + part).split(b"\n")
            for number, name, text in filter(None, map(checked, lines)):
                if begun < number <= len(cells):
                    end, begun = time.monotonic() + limit, number
                yield number, name, text
        os.close(read)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        while left := children() - before:
            for process in left:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)


def checked(line):
    """A line of a hand-in's process: (number, name, text), or None if it has another form."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        number, name, text = json.loads(line)
        if type(number) is int and type(name) is type(text) is str and number >= 0:
            return number, name, text[:1000]
    return None


def children():
    """The numbers of this process's children, as far as the system lists them."""
    with contextlib.suppress(OSError):
        return {*map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())}
    return set()


def grade(cells, names, limit=20):
    """Grades the cells of one hand-in. names: see lines_of. limit: seconds for a cell.

    A cell that ends its process, or takes too long, is left out, and the others run once more.
    Returns: dict name of a function -> (its points, the most points it can have, what is wrong).
    """
    errors, found, end, begun = {}, {}, time.monotonic() + 10 * limit, 0
    while begun < len(cells) and time.monotonic() < end:
        begun, since = min({*range(len(cells) + 1)} - {*errors}), time.monotonic()
        for number, name, text in lines_of(cells, errors, names, limit):
            begun, since = max(begun, number), time.monotonic()
            if name and found.get(name) != "":              # of several checks a right one counts
                found[name] = text
            elif text:
                errors[number] = text
        if begun in errors:             # forged: a cell that was left out
            break
        late = time.monotonic() - since >= limit
        errors[begun] = f"ended after {limit:g} seconds" if late else "it ended its process"
    grades = {}
    for name, task in TASKS.items():
        if task.lesson == lessons_of(cells)[0]:
            asks = re.compile(rf"\bcheck\(\s*{name}\b|^{name}\s*=\s*check\(", re.M)
            places = [i for i, cell in enumerate(cells) if asks.search(cell)]
            said = [errors[i] for i in places if i in errors]
            none = "check was called otherwise" if places else f"no cell has check({name}, ...)"
            message = found.get(name, f"not checked: {said[-1] if said else none}")
            grades[name] = 0 if message else task.points, task.points, message
    return grades


# ---- What is written ----------------------------------------------------------------------------

def page_of(path, grades, remark):
    """The messages for one student, who finds no path of ours in them."""
    if not grades:
        return f"{path.name} {remark}. No points.\n"
    won, most, _ = zip(*grades.values())
    lines = [f"{points}/{of}  {name}  {message}".rstrip()
             for name, (points, of, message) in grades.items()]
    return "\n".join([f"{path.name}: {sum(won)} of {sum(most)} points", "", *lines, ""])


def write_all(out, rows, pages):
    """Writes the table and all pages: what a hand-in does to them is gone after the next one.

    rows: dicts of the table, with "lesson". Of two hand-ins of a lesson the better one counts."""
    text, best = io.StringIO(), {}
    for row in rows:
        of_student = best.setdefault(row["student"], {})
        of_student[row["lesson"]] = max(row["points"], of_student.get(row["lesson"], 0))
    table = csv.DictWriter(text, ["student", "sum", "hand-in", "points", *TASKS, "remark"],
                           extrasaction="ignore")
    table.writeheader()
    table.writerow({"student": "maximum"} | {name: task.points for name, task in TASKS.items()})
    table.writerows(row | {"sum": sum(best[row["student"]].values())} for row in rows)
    for path, content in [("points.csv", text.getvalue()), *pages.items()]:
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        write_text(out / path, content)


def main(argv=None):
    """The command line."""
    parser = Arguments("grade.py", __doc__, "HAND-INS")
    parser.add_argument("hand_ins", help="a folder")
    parser.add_argument("--out", default="grades", help="a new folder: points.csv, pages")
    parser.add_argument("--seed", type=int, default=0, help="for random arguments (default: 0)")
    parser.add_argument("--limit", type=float, default=20, help="seconds for a cell (default: 20)")
    parser.add_argument("--trusted", action="store_true", default=False, help="grade outside a "
                        "container, too: a hand-in can end your processes and read your files")
    given = parser.parse(argv)
    refuse(not given["trusted"] and not any(map(os.path.exists, CONTAINERS)),
           "no container here: a hand-in could end your processes and read your files. Grade in a "
           "container (README.md has the command), or say --trusted")
    refuse(given["seed"] < 0, f"--seed {given['seed']}: expected a whole number, 0 or more")
    top, out, rows, pages = Path(given["hand_ins"]), Path(given["out"]).absolute(), [], {}
    refuse(not top.is_dir(), f"{top}: is no folder")
    refuse(out.exists() and any(out.iterdir()), f"--out {out}: is not empty; name a new folder")
    hand_ins = {}
    for path in sorted(top.rglob("*")):                                 # all before the first runs
        if path.suffix in (".py", ".ipynb") and ".ipynb_checkpoints" not in path.parts:
            try:
                hand_ins[path] = read_cells(path)
            except (ValueError, OSError) as error:
                hand_ins[path] = str(error)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1)
    lesson.torch.set_num_threads(1)     # threads do not outlive a fork
    lesson.MODE, lesson.SEED = "grade", given["seed"]
    for path, cells in hand_ins.items():
        name, grades, remark, number = path.relative_to(top), {}, cells, 0
        if not isinstance(cells, str):
            number, remark = lessons_of(cells)[0], remark_on(cells)
            grades = grade(cells, read_own(number)[1], given["limit"])
        won = {function: points for function, (points, *_) in grades.items()}
        rows.append({"student": Path(name.parts[0]).stem, "lesson": number, "hand-in": name,
                     "points": sum(won.values()), "remark": remark} | won)
        pages[f"pages/{name}.txt"] = page_of(path, grades, remark)
        print(f"{name}: {sum(won.values())} points{remark and f'; {remark}'}", flush=True)
        write_all(out, rows, pages)


if __name__ == "__main__":
    sys.exit(run_command(main, "grade.py"))
