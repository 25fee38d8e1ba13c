"""Builds notebooks with their figures, of all lessons or of those named:
`python tutorials/build.py [LESSON ...]`.

Each lesson runs from top to bottom in a kernel of its own and is written beside its script, as
3_dafa.ipynb. Needs tutorials/requirements.txt. A mistake, or a lesson that fails, gives one line
and exit status 2.
"""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LESSONS = sorted(path.stem for path in HERE.glob("[0-9]_*.py"))


def build(name):
    """Runs a lesson and writes its notebook.

    Raises ValueError for a missing package and for a lesson that fails."""
    try:
        import ipykernel  # noqa: F401
        import jupytext
        import matplotlib  # noqa: F401
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    except ImportError as error:
        raise ValueError(f"needs {error.name}; run pip install -r tutorials/requirements.txt"
                         ) from None
    notebook = jupytext.read(HERE / f"{name}.py")
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3",
                                       "language": "python"}
    where = {"metadata": {"path": str(HERE)}}
    try:
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where,
                       record_timing=False).execute()
    except CellExecutionError as error:
        said = (error.evalue.splitlines() or ["a line that does not hold"])[0]
        raise ValueError(f"lesson {name} fails with {error.ename}: {said}") from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise ValueError(f"lesson {name}: {str(error).splitlines()[0]}") from None
    for number, cell in enumerate(notebook.cells):  # no random ones: nothing changes by building
        cell["id"] = f"cell-{number}"
    jupytext.write(notebook, HERE / f"{name}.ipynb")
    print(HERE / f"{name}.ipynb")


def main(given):
    """Builds the lessons given, as 3_dafa or as tutorials/3_dafa.py. Returns the exit status."""
    names = [Path(name).stem for name in given] or LESSONS
    try:
        if strange := [name for name in names if name not in LESSONS]:
            raise ValueError(f"{strange[0]}: no such lesson; there are {', '.join(LESSONS)}")
        for name in names:
            build(name)
    except ValueError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
