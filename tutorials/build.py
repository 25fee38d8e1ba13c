"""Builds the lessons' notebooks: as they are handed out, blank, or as they look when solved.

    python tutorials/build.py           blank; and new text into those that are solved
    python tutorials/build.py solved    as they look when solved, into the folder solved: it trains

A lesson's script is the source, in the percent format: `# %%` begins a cell of code, `# %%
[markdown]` a cell of text. A test fails if a notebook differs from it, or if code was never run.
"""
import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LESSONS = sorted(HERE.glob("[1-7]_*.py"))
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def notebook_of(text):
    """The notebook of a script, as text."""
    cells, (_, *parts) = [], re.split(r"^# %%(.*)\n", text, flags=re.M)
    for number, (kind, source) in enumerate(zip(parts[::2], parts[1::2])):
        cell = {"cell_type": "code", "execution_count": None, "outputs": []}
        if "[markdown]" in kind:
            cell, source = {"cell_type": "markdown"}, re.sub(r"^# ?", "", source, flags=re.M)
        cells.append(cell | {"id": f"cell-{number}", "metadata": {},
                             "source": source.strip().splitlines(keepends=True)})
    book = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


def solved(path):
    """The notebook of a lesson with what its cells print with the library's functions."""
    import lesson
    book, names = json.loads(notebook_of(path.read_text("utf-8"))), {"__name__": "__main__"}
    lesson.lesson_tasks[:] = ["no script starts again"]
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        text, cell["execution_count"] = said.getvalue().replace(f"{HERE}/", ""), number
        if text:
            lines = text.splitlines(keepends=True)
            cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": lines})
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


def with_outputs(blank, done):
    """A blank notebook with the outputs of a solved one, where both have the same code."""
    book = json.loads(blank)
    known = {"".join(cell["source"]): cell for cell in json.loads(done)["cells"]}
    for cell in book["cells"]:
        same = known.get("".join(cell["source"]), {})
        cell.update((key, same[key]) for key in ("execution_count", "outputs") if key in same)
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["solved"]:
        os.environ["LESSON"] = "solved"
    for path in LESSONS:
        place, text = path.with_suffix(".ipynb"), notebook_of(path.read_text("utf-8"))
        done = HERE / "solved" / place.name
        place.write_text(text, "utf-8")
        text = solved(path) if sys.argv[1:] else with_outputs(text, done.read_text("utf-8"))
        done.write_text(text, "utf-8")
        print(place)
