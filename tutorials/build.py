"""Builds the lessons' notebooks from their scripts: python tutorials/build.py

A script is in the percent format: `# %%` begins a cell of code, `# %% [markdown]` a cell of text.
"""
import json
import re
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


if __name__ == "__main__":
    for path in LESSONS:
        path.with_suffix(".ipynb").write_text(notebook_of(path.read_text("utf-8")), "utf-8")
