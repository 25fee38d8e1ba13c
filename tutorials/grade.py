"""Grades hand-ins of lessons: a table of points, and a page of messages for each of them.

    python tutorials/grade.py hand-ins/* --csv points.csv --pages pages

A hand-in is a lesson's .py or .ipynb, whatever its name, or a folder of them. It is somebody's
program, and can do what its account can do: end all its processes, read its files, use its network.
So this one refuses to run outside a container, unless you say --trusted. README.md beside this file
has the command for a container, and says what a point means and what an error costs.
"""
import ast
import contextlib
import csv
import ctypes
import io
import json
import linecache
import os
import re
import resource
import select
import signal
import socket
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]        # tasks.py and the modules above it

from support.errors import refuse
from support.files import write_text
from support.options import Arguments, run_command

BEGIN = re.compile(r"^[ \t]*begin\s*\(\s*(?:number\s*=\s*)?([1-7])\b", re.M)
MAGIC = re.compile(r"^([ \t]*)((?:\w+ *= *)?(?:!|%{1,2}[a-z]).*|\?.*|[\w.]+\?+[ \t]*)$", re.M)
WRITTEN = 10_000_000    # bytes that a hand-in may write into one file; what it prints is in a file
PASSED = b"passed"
CONTAINERS = "/.dockerenv", "/run/.containerenv"        # one of them exists inside a container
SUBREAPER = 36          # of prctl: who has lost its parent becomes a child of this process
OURS = {"bert_min", "demands", "judge", "lesson", "pretrain", "priors", "reread", "semmatch",
        "tasks"}        # what a hand-in needs no more of than its lesson imports
HIDDEN = re.compile(r"\b(sys\.modules|__globals__|_getframe|inspect|importlib|__import__|gc)\b")


# ---- What was handed in -------------------------------------------------------------------------

def read_cells(path):
    """The cells of code of a .py or .ipynb, without what only Jupyter has (!ls, name?).
    Raises ValueError, which says what the file is instead."""
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
    except (KeyError, TypeError, ValueError):
        raise ValueError("is no notebook: expected JSON with cells") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if not "".join(cells).strip():
        raise ValueError("is empty")
    if not BEGIN.search("\n".join(cells)):
        raise ValueError("is no lesson: it has no line such as begin(2)")
    return [cell for cell in cells if cell.strip()]


def find_hand_ins(places):
    """The files of these files and folders, as a dict path -> cells, or what is wrong with it."""
    found = {}
    for place in map(Path, places):
        files = [place]
        if place.is_dir():
            files = [x for x in sorted(place.rglob("*")) if x.suffix in (".py", ".ipynb")
                     and ".ipynb_checkpoints" not in x.parts]
        for path in files or [place]:
            try:
                found[path] = read_cells(path)
            except ValueError as error:
                found[path] = str(error) if files else "has no .py or .ipynb"
    return found


def lesson_of(cells):
    """The number of a hand-in's lesson."""
    return int(BEGIN.search("\n".join(cells))[1])


# ---- Running cells ------------------------------------------------------------------------------

def run_cell(cell, title, names):
    """Runs a cell. Returns: the error in one line, or ""."""
    linecache.cache[title] = len(cell), None, cell.splitlines(keepends=True), title
    try:
        exec(compile(cell, title, "exec"), names)
    except BaseException as error:
        place = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return f"{type(error).__name__}{place}: {error}".split("\n")[0][:500]
    return ""


def run_cells(cells, numbers, names, limit, tell):
    """Runs the cells of these numbers, each in a child of the process that ran the cell before it.
    A child that came through goes on with the next cell, and this process waits for it; else this
    process goes on."""
    for number in numbers:
        tell(begun=number)
        mine, its = socket.socketpair()
        child = os.fork()
        if not child:
            error = run_cell(cells[number], f"cell {number + 1}", names)
            with contextlib.suppress(OSError):
                its.send(error.encode("utf-8", "replace") if error else PASSED)
                mine.close()
            if error or its.recv(1) == b"":     # nothing comes if the cell has ended who waits
                os._exit(1)
            its.close()
            continue
        its.close()
        message = f"ended after {limit:g} seconds".encode()
        if select.select([mine], [], [], limit)[0]:
            message = mine.recv(10_000) or b"it ended its process"
        if message != PASSED:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        else:
            mine.send(b"1")
        mine.close()
        os.waitpid(child, 0)
        if message == PASSED:
            return
        tell(cell=number, message=message.decode())
    tell(begun=len(cells))


def run_hand_in(cells, numbers, names, limit, report):
    """In a process of its own: runs the cells in an empty folder, with what is printed in a file,
    and with no other file open. report: a file; it gets a line of JSON for each cell that begins,
    each function that is checked and each cell that fails."""
    def tell(name=None, message="", **more):
        row = json.dumps({"name": name, "message": message} | more)
        lines = os.open(report, os.O_WRONLY | os.O_APPEND)
        os.write(lines, f"{row}\n".encode())
        os.close(lines)

    import lesson
    os.setsid()
    resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, WRITTEN))
    output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])     # the files of grade.py
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
    lesson.tell = tell
    run_cells(cells, numbers, names, limit, tell)


def rows_of(cells, numbers, names, limit):
    """What a process that ran the cells of these numbers reported, a list of dicts."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        report, others = Path(folder, "report"), children()
        report.touch()
        os.mkdir(f"{folder}/work")
        child = os.fork()
        if not child:
            try:
                os.chdir(f"{folder}/work")
                run_hand_in(cells, numbers, names, limit, report)
            finally:
                os._exit(0)
        try:
            os.waitpid(child, 0)
        finally:                        # what the hand-in has started, and has not ended
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            while left := children() - others:
                for process in left:
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)
        return [json.loads(line) for line in report.read_text("utf-8").splitlines()]


def children():
    """The ids of this process's children, as far as the system lists processes in /proc."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):                  # it has ended since
            parent = file.read_text("utf-8", "replace").rpartition(")")[2].split()[1]
            found |= {int(file.parent.name)} if int(parent) == os.getpid() else set()
    return found


def grade(cells, names, seed=0, limit=20):
    """Grades the cells of one hand-in. names: what its lesson has defined, with right functions.
    seed: for the arguments of `check`. limit: seconds for each cell.

    A cell that ends the processes of its own hand-in is left out, and the others run once more.
    Returns: dict name of a function -> (its points, the most points it can have, what is wrong).
    """
    import lesson
    from tasks import TASKS
    lesson.SEED = seed
    errors, checked, grades, begun = {}, {}, {}, 0
    while begun < len(cells):
        numbers = [number for number in range(len(cells)) if number not in errors]
        rows, begun = rows_of(cells, numbers, dict(names), limit), numbers[0]
        for row in rows:
            begun = row.get("begun", begun)
            if "cell" in row:
                errors[row["cell"]] = row["message"]
            elif row["name"] and checked.get(row["name"], "never") != "":
                checked[row["name"]] = row["message"]       # of several checks a right one counts
        if begun < len(cells):
            errors[begun] = "it ended the processes of its hand-in"
    for name, task in TASKS.items():
        if task.lesson == lesson_of(cells):
            message = checked.get(name, why_unchecked(name, cells, errors))
            grades[name] = 0 if message else task.points, task.points, message
    return grades


def why_unchecked(name, cells, errors):
    """Why a function was not checked: what its cell said."""
    asks = re.compile(rf"\bcheck\(\s*{name}\b|^{name}\s*=\s*check\(", re.M)
    places = [i for i, cell in enumerate(cells) if asks.search(cell)]
    said = [errors[i] for i in places if i in errors]
    return f"not checked: {said[-1] if said else 'no cell has check(' + name + ', ...)'}"


def names_of_lesson(number):
    """What the lesson's own script has defined at its end, where `check` gives the right functions
    for its blank ones: a hand-in begins with these names, so that a cell that fails takes nothing
    from the other cells."""
    import lesson
    path, = HERE.glob(f"{number}_*.py")
    names = {"__name__": "__main__", "display": print}
    lesson.tell = lambda *_: None
    with contextlib.redirect_stdout(io.StringIO()):
        for i, cell in enumerate(read_cells(path)):
            run_cell(cell, f"lesson {number}, cell {i}", names)     # its functions are blank
    return names


def remark_on(cells):
    """"look: ..." with what a hand-in names that could have given it points, or ""."""
    from tasks import TASKS
    path, = HERE.glob(f"{lesson_of(cells)}_*.py")
    own = "\n".join(cells).splitlines()
    given = {line for file in (path, path.with_suffix(".ipynb"))
             for cell in read_cells(file) for line in cell.splitlines()}
    theirs = {name.asname or name.name for cell in read_cells(path) for node in ast.walk(
        ast.parse(cell)) if getattr(node, "module", "") in OURS - {"lesson"} for name in node.names}
    words = re.compile(rf"\b({'|'.join(sorted(OURS | theirs - TASKS.keys()))})\b(?!\s*=)")
    lines = [line.partition("#")[0] for line in own if line not in given]
    named = {found[0] for line in lines for rule in (words, HIDDEN)
             for found in rule.finditer(line)}
    return f"look: it names {', '.join(sorted(named))}" if named else ""


# ---- What is written ----------------------------------------------------------------------------

def page_of(path, grades):
    """The messages for one student. grades: those of `grade`, or what the file is instead."""
    if isinstance(grades, str):
        return f"{path}: {grades}. No points.\n"
    lines = [f"{won}/{most}  {name}  {message}".rstrip()
             for name, (won, most, message) in grades.items()]
    won, most, _ = zip(*grades.values())
    return "\n".join([f"{path}: {sum(won)} of {sum(most)} points", "", *lines, ""])


def begin_table(lessons):
    """(the columns of the table; its first row, the most points of each function)"""
    from tasks import TASKS
    most = {name: task.points for name, task in TASKS.items() if task.lesson in lessons}
    whole = {"points": sum(most.values())} if len(lessons) == 1 else {}
    return ["hand-in", "points", *most, "remark"], {"hand-in": "maximum"} | whole | most


def write_table(path, columns, rows):
    """Writes the whole table: nothing that a hand-in does to the file stays in it."""
    table = csv.DictWriter(text := io.StringIO(), columns)
    table.writeheader()
    table.writerows(rows)
    write_text(path, text.getvalue())


def page_places(folder, paths):
    """dict path of a hand-in -> the file of its page, which is named as the hand-in is."""
    whole = {path: path.absolute() for path in paths}
    top = os.path.commonpath([path.parent for path in whole.values()])
    return {path: Path(folder, f"{os.path.relpath(file, top)}.txt") for path, file in whole.items()}


def main(argv=None):
    """The command line."""
    parser = Arguments("grade.py", __doc__, "HAND-INS")
    parser.add_argument("hand_ins", nargs="+", help="files, or folders of them")
    parser.add_argument("--csv", help="a table: a row for each hand-in, a column for each function")
    parser.add_argument("--pages", help="a folder for pages of messages, one for each hand-in")
    parser.add_argument("--seed", type=int, default=0, help="for random arguments (default: 0)")
    parser.add_argument("--limit", type=float, default=20, help="seconds for a cell (default: 20)")
    parser.add_argument("--trusted", action="store_true", help="grade outside a container, too: a "
                        "hand-in can end your processes, read your files, use your network")
    given = {"csv": None, "pages": None, "trusted": False} | parser.parse(argv)
    refuse(not given["trusted"] and not any(map(os.path.exists, CONTAINERS)),
           "no container here: a hand-in could end your processes and read your files. Grade in a "
           "container (README.md has the command), or say --trusted")
    refuse(given["seed"] < 0, f"--seed {given['seed']}: expected a whole number, 0 or more")
    hand_ins = find_hand_ins(given["hand_ins"])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1)
    os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}      # before torch comes
    grade_all(hand_ins, given)


def grade_all(hand_ins, given):
    """Grades one hand-in after another. What is known of it is written before the next one runs."""
    import torch

    import lesson
    torch.set_num_threads(1)            # threads do not outlive a fork
    lesson.MODE = "grade"
    lessons = sorted({lesson_of(x) for x in hand_ins.values() if not isinstance(x, str)})
    names, pages = {number: names_of_lesson(number) for number in lessons}, {}
    columns, *rows = begin_table(lessons)
    if given["csv"]:
        write_table(given["csv"], columns, rows)    # a folder that cannot be written is told now
    if given["pages"]:
        pages = page_places(given["pages"], hand_ins)
    for path, cells in hand_ins.items():
        grades, remark, won = cells, cells, {}
        if not isinstance(cells, str):
            grades = grade(cells, names[lesson_of(cells)], given["seed"], given["limit"])
            remark = remark_on(cells)
            won = {name: points for name, (points, *_) in grades.items()}
        print(page_of(path, grades), flush=True)
        rows.append({"hand-in": path, "remark": remark} | {"points": sum(won.values())} | won)
        if given["csv"]:
            write_table(given["csv"], columns, rows)
        if given["pages"]:
            pages[path].parent.mkdir(parents=True, exist_ok=True)
            write_text(pages[path], page_of(path, grades))


if __name__ == "__main__":
    sys.exit(run_command(main, "grade.py"))
