"""Points for hand-ins of lessons: one line each, a table, and a page of messages for each student.

    python tutorials/grade.py hand-ins/* --csv points.csv --pages pages

A hand-in is a lesson's .py or .ipynb, whatever its name, or a folder of them. Each runs as it is,
one after another, in a process of its own, up to its last `check`; training is left out. `check`
draws arguments of the seed that is given here (--seed), compares, and puts the library's function
in the place of one that is wrong: one mistake costs one score. `check` gives the same points at
home.

A hand-in is somebody's program. Run this in a container without network, or under an account, that
may be lost; there is no other guard here. For example, with an image that has requirements.txt:

    docker run --rm --network none --memory 4g -v "$PWD":/work -w /work IMAGE \\
        python tutorials/grade.py hand-ins/* --csv points.csv

The library is public, and a copy of it has all points. Ten minutes of talk about the code find out.
"""
import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]        # tasks.py and the modules above it
BEGIN = re.compile(r"^begin\((\d)\)", re.M)


class Grade(NamedTuple):
    """What one hand-in has earned.

    won: function -> points. said: function -> what is wrong. error: what ended it too soon, or "".
    """

    path: str
    lesson: int
    won: dict
    said: dict
    error: str


def tasks_of(lesson):
    """function -> its points, in the order of work."""
    from tasks import CLAIMS, TASKS  # slow to import, and not needed for --help
    return {name: task.points for name, task in (TASKS | CLAIMS).items() if task.lesson == lesson}


def read_code(path):
    """The code of a .py or .ipynb. Raises ValueError where it is neither."""
    try:
        text = path.read_text("utf-8")
        if path.suffix != ".ipynb":
            return text
        cells = json.loads(text)["cells"]
        return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}: expected a notebook with cells, or code in UTF-8") from None


def find_hand_ins(given):
    """The files, .py or .ipynb, of files and folders that are lessons."""
    for path in map(Path, given):
        files = [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.ipynb")])
        lessons = [file for file in files if BEGIN.search(read_code(file))]
        if not lessons:
            raise ValueError(f"{path}: expected a lesson with its line begin(...), found none")
        yield from lessons


def grade(path, seed=0, limit=120):
    """Runs one hand-in. seed: of what `check` draws. limit: seconds. -> Grade"""
    code = read_code(path)
    lesson = int(BEGIN.search(code)[1])
    with tempfile.TemporaryDirectory() as folder:
        points, program = Path(folder, "points"), Path(folder, "hand_in.py")
        points.touch()
        program.write_text(code, "utf-8")
        environment = os.environ | {
            "LESSON": "grade", "LESSON_POINTS": str(points), "LESSON_SEED": str(seed),
            "PYTHONPATH": os.pathsep.join(map(str, (HERE.parent, HERE))), "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run([sys.executable, str(program)], cwd=folder, env=environment,
                                  timeout=limit, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, errors="replace")
            last = done.stderr.strip().splitlines()[-1:]
            error = "".join(last) if done.returncode else ""
        except subprocess.TimeoutExpired:
            error = f"ended after {limit} seconds"
        rows = [json.loads(line) for line in points.read_text("utf-8").splitlines()]
    won, said = dict.fromkeys(tasks_of(lesson), 0), {}
    for row in rows:
        if row["name"] in won:
            won[row["name"]] = row["won"]
            said[row["name"]] = row["said"]
    for name in won.keys() - said.keys():
        said[name] = "not checked: " + (error or "its cell is missing")
    return Grade(str(path), lesson, won, {name: said[name] for name in won if said[name]}, error)


def page_of(found):
    """The messages for one student."""
    most = tasks_of(found.lesson)
    points = f"{sum(found.won.values())} of {sum(most.values())} points"
    lines = [f"{found.path}: lesson {found.lesson}, {points}", ""]
    for name in most:
        lines.append(f"{found.won[name]}/{most[name]}  {name}  {found.said.get(name, '')}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def main(argv=None):
    """The command line. -> exit status"""
    parser = argparse.ArgumentParser("grade.py", description=__doc__.splitlines()[0])
    parser.add_argument("hand_ins", nargs="+", help="files, or folders of them")
    parser.add_argument("--csv", help="a table: a row for each hand-in, a column for each function")
    parser.add_argument("--pages", help="a folder for a page of messages for each hand-in")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--limit", type=float, default=120, help="seconds for each (default: 120)")
    given = parser.parse_args(argv)
    try:
        files = list(find_hand_ins(given.hand_ins))
        if given.csv:
            open(given.csv, "a").close()  # before the work
        if given.pages:
            Path(given.pages).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        print(f"grade.py: {problem}", file=sys.stderr)
        return 2
    grades = []
    for number, path in enumerate(files, 1):
        grades.append(grade(path, given.seed, given.limit))
        print(page_of(grades[-1]), flush=True)
        if given.pages:                         # two hand-ins may have one name
            page = Path(given.pages, f"{number:03}-{path.stem}.txt")
            page.write_text(page_of(grades[-1]), "utf-8")
    if given.csv:
        names = list(dict.fromkeys(name for found in grades for name in found.won))
        with open(given.csv, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["hand-in", "lesson", "points", *names])
            for found in grades:
                table.writerow([found.path, found.lesson, sum(found.won.values()),
                                *(found.won.get(name, "") for name in names)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
