"""Grades hand-ins of lessons: a table of points, and a page of messages for each student.

    python tutorials/grade.py hand-ins/* --csv points.csv --pages pages

A hand-in is a lesson's .py or .ipynb, whatever its name, or a folder of them. The hand-ins run one
after another, each in its own process, up to the training. `check` draws its arguments with the
seed of --seed. The library's function stands in for a function that is wrong, so that one mistake
costs the points of one function.

A hand-in is somebody's program, and nothing here guards against it. Run this in a container without
network, or under an account that may be lost. For example, with an image that has requirements.txt:

    docker run --rm --network none --memory 4g -v "$PWD":/work -w /work IMAGE \\
        python tutorials/grade.py hand-ins/* --csv points.csv
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]        # tasks.py and the modules above it

from support.errors import refuse  # noqa: E402
from support.options import Arguments, run_command  # noqa: E402

BEGIN = re.compile(r"^begin\(([1-6])\)", re.M)


def read_code(path):
    """The code of a .py or .ipynb, without what only Jupyter has (!ls, name?). Else ValueError."""
    try:
        text = path.read_text("utf-8")
        if path.suffix != ".ipynb":
            return text
        cells = [x["source"] for x in json.loads(text)["cells"] if x["cell_type"] == "code"]
        code = "\n\n".join(["display = print", *map("".join, cells)])
        return re.sub(r"^([ \t]*)((!|\?|%+[a-z]).*|[\w.]+\?+[ \t]*$)", r"\1pass", code, flags=re.M)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}: expected a notebook with cells, or code in UTF-8") from None


def find_hand_ins(places):
    """The lessons among these files and folders, as a dict path -> code."""
    found = {}
    for path in map(Path, places):
        files = [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.ipynb")])
        lessons = {file: code for file in files if ".ipynb_checkpoints" not in file.parts
                   and BEGIN.search(code := read_code(file))}
        refuse(not lessons, f"{path}: expected a lesson with its line begin(...), found none")
        found |= lessons
    return found


def grade(code, seed=0, limit=120):
    """Runs the code of one hand-in. seed: for the arguments of `check`. limit: seconds.

    Returns: dict name of a function -> (its points, the most points it can have, what is wrong).
    """
    from tasks import TASKS  # here, because --help does without this slow import
    with tempfile.TemporaryDirectory() as folder:
        points, program = Path(folder, "points"), Path(folder, "hand_in.py")
        points.touch()
        program.write_text(code, "utf-8")
        environment = os.environ | {
            "LESSON": "grade", "LESSON_POINTS": str(points), "LESSON_SEED": str(seed),
            "PYTHONPATH": os.pathsep.join(map(str, (HERE.parent, HERE))), "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run([sys.executable, program.name], cwd=folder, env=environment,
                                  timeout=limit, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, errors="replace")
            last_line = done.stderr.strip().splitlines()[-1:]
            error = "".join(last_line) if done.returncode else "its cell is missing"
        except subprocess.TimeoutExpired:
            error = f"ended after {limit} seconds"
        rows = [json.loads(line) for line in points.read_text("utf-8").splitlines()]
    checked = {row["name"]: (row["won"], row["message"]) for row in rows}
    grades = {}
    for name, task in TASKS.items():
        if task.lesson == int(BEGIN.search(code)[1]):
            won, message = checked.get(name, (0, f"not checked: {error}"))
            grades[name] = won, task.points, message
    return grades


def page_of(path, grades):
    """The messages for one student."""
    lines = [f"{won}/{most}  {name}  {message}".rstrip()
             for name, (won, most, message) in grades.items()]
    won, most, _ = zip(*grades.values())
    return "\n".join([f"{path}: {sum(won)} of {sum(most)} points", "", *lines, ""])


def main(argv=None):
    """The command line."""
    parser = Arguments("grade.py", __doc__, "HAND-INS")
    parser.add_argument("hand_ins", nargs="+", help="files, or folders of them")
    parser.add_argument("--csv", help="a table: a row for each hand-in, a column for each function")
    parser.add_argument("--pages", help="a folder for pages of messages, one for each hand-in")
    parser.add_argument("--seed", type=int, default=0, help="for random arguments (default: 0)")
    parser.add_argument("--limit", type=float, default=120, help="seconds for each (default: 120)")
    given = {"csv": None, "pages": None} | parser.parse(argv)
    refuse(given["seed"] < 0, f"--seed {given['seed']}: expected a whole number, 0 or more")
    hand_ins, grades = find_hand_ins(given["hand_ins"]), {}
    if given["csv"]:
        open(given["csv"], "a").close()  # an error comes before the work, not after it
    if given["pages"]:
        Path(given["pages"]).mkdir(parents=True, exist_ok=True)
    for number, (path, code) in enumerate(hand_ins.items(), 1):
        grades[path] = grade(code, given["seed"], given["limit"])
        print(page_of(path, grades[path]), flush=True)
        if given["pages"]:                      # two hand-ins may have one name
            page = Path(given["pages"], f"{number:03}-{path.stem}.txt")
            page.write_text(page_of(path, grades[path]), "utf-8")
    if given["csv"]:
        names = list(dict.fromkeys(name for functions in grades.values() for name in functions))
        with open(given["csv"], "w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, ["hand-in", "points", *names])
            table.writeheader()
            for path, functions in grades.items():
                won = {name: points for name, (points, *_) in functions.items()}
                table.writerow({"hand-in": path, "points": sum(won.values())} | won)


if __name__ == "__main__":
    sys.exit(run_command(main, "grade.py"))
