"""Builds the lessons' notebooks, as they are handed out: blank, nothing has run. And one solved.

    python tutorials/build.py

A lesson's script is the source, in the percent format: `# %%` begins a cell of code, `# %%
[markdown]` one of text. tests/test_tutorials.py fails when a notebook is not that of its script.
3_dafa_solved.ipynb shows lesson 3 with the library's lines, right guesses, and what cells print.
"""
import ast
import contextlib
import io
import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
LESSONS = sorted(HERE.glob("[1-6]_*.py"))
SOLVED = HERE / "3_dafa_solved.ipynb"
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def cells_of(text):
    """(is it text?, source) of each cell of a script; text without its signs."""
    _, *parts = re.split(r"^# %%(.*)\n", text, flags=re.M)
    for kind, source in zip(parts[::2], parts[1::2]):
        markdown = "[markdown]" in kind
        if markdown:
            source = re.sub(r"^# ?", "", source, flags=re.M)
        yield markdown, source.strip()


def notebook_of(text, prints=None):
    """The notebook of a script, as text. prints: what each cell prints, "" for nothing."""
    cells = []
    for number, (markdown, source) in enumerate(cells_of(text)):
        cell = {"cell_type": "markdown" if markdown else "code", "id": f"cell-{number}",
                "metadata": {}, "source": source.splitlines(keepends=True)}
        if not markdown:
            cell |= {"execution_count": None, "outputs": []}
        if prints and prints[number]:
            cell["outputs"] = [{"name": "stdout", "output_type": "stream",
                                "text": prints[number].splitlines(keepends=True)}]
        cells.append(cell)
    book = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


def solved(text):
    """A lesson with the lines of equations.py in the place of the blank ones, and right guesses."""
    import lesson  # loads torch
    lines = text.splitlines()
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.FunctionDef) and ast.unparse(node.body[-1]) == "...":
            right = lesson.source_of(getattr(lesson.equations, node.name)).splitlines()
            docstring = lines[node.lineno:node.body[0].end_lineno]
            lines[node.lineno - 1:node.end_lineno] = [right[0], *docstring, *right[1:]]
    text = "\n".join(lines) + "\n"
    for name in re.findall(r'reveal\("(.*?)", guess\)', text):
        text = text.replace("guess = ...", f"guess = {lesson.GUESSES[name][0]!r}", 1)
    return text


def printed_by(text):
    """What each cell of a solved lesson prints when all run in turn, "" for text."""
    import lesson
    lesson.MODE, lesson.show = "solved", lambda name: None      # its lines stand in the cell
    lesson.in_notebook = lambda: True
    names, prints = {}, []
    for markdown, source in cells_of(text):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if not markdown:
                exec(compile(source, "cell", "exec"), names)
        prints.append(out.getvalue())
    return prints


if __name__ == "__main__":
    for path in LESSONS:
        path.with_suffix(".ipynb").write_text(notebook_of(path.read_text("utf-8")), "utf-8")
    text = solved(LESSONS[2].read_text("utf-8"))
    SOLVED.write_text(notebook_of(text, printed_by(text)), "utf-8")
    print(*(path.with_suffix(".ipynb") for path in LESSONS), SOLVED, sep="\n")
