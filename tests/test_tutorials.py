"""tutorials/: the lessons' calculations by hand, their quotations, and what they share."""
import html
import importlib
import json
import re
from pathlib import Path

import pytest
from test_house import equation_rows

from support import parses, toy

FOLDER = Path(__file__).resolve().parent.parent / "tutorials"
LESSONS = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("[0-9]_*.py"))}
PAPERS = {"2_dabert": "DABERT", "3_dafa": "DAFA", "4_knowledge": "Knowledge",
          "5_drr_net": "DRr-Net", "6_ladra_net": "LadRa-Net"}
each_lesson = pytest.mark.parametrize("lesson", LESSONS)


def cells(lesson, markdown):
    """The texts of the cells of one kind of a percent script; markdown without its signs."""
    head, *parts = re.split(r"^# %%(.*)\n", LESSONS[lesson], flags=re.M)
    assert head == "" and set(parts[::2]) == {"", " [markdown]"}
    found = [text for kind, text in zip(parts[::2], parts[1::2]) if bool(kind) == markdown]
    return [re.sub(r"^# ?", "", text, flags=re.M) if markdown else text for text in found]


@pytest.fixture(scope="module")
def lesson_module():
    """lesson.py of tutorials/, imported as a lesson does."""
    cache = parses.CACHE
    yield importlib.import_module("lesson")
    parses.CACHE = cache


@each_lesson
def test_what_a_lesson_calculates_by_hand(lesson, lesson_module):
    """All its cells before a model is trained; of those that do more than show code, most assert
    what the text says."""
    computed = [text for text in cells(lesson, markdown=False)
                if not re.fullmatch(r"show\([^()]*\)|guess = \.\.\.", text.strip())]
    computed.insert(0, "guess = ...")
    names = {"__name__": "lesson"}
    for text in computed:
        if "= train_on(" in text:
            break
        exec(compile(text, lesson, "exec"), names)
    assert not names["claim"](names["mine"])            # the line to be repaired
    assert sum("assert" in text for text in computed) >= 0.6 * len(computed)


@pytest.mark.parametrize("lesson", PAPERS)
def test_a_lesson_has_every_equation_of_its_paper(lesson):
    """Each function of the table is named, and imported by a lesson unless it is a class; each
    number is named."""
    assert [*LESSONS] == ["1_mini_bert", *PAPERS]
    prose, listed = "\n\n".join(cells(lesson, markdown=True)), set()
    for _, equations, functions, _ in (row for row in equation_rows() if row[0] == PAPERS[lesson]):
        listed |= equations
        for name in (function.rpartition(".")[2] for function in functions):
            assert re.search(rf"`(\w+\.)?{name}(\.\w+)*`", prose), f"{name} is not named"
            assert name[0].isupper() or any(re.search(rf"import [^#]*\b{name}\b", text)
                                            for text in LESSONS.values())
    assert sorted(re.findall(r"\\tag\{(\d+)\}", prose), key=int) == list(map(str, sorted(listed)))


def test_train_on_and_look(lesson_module, capsys):
    """A run of a step on one frame; the toy world is whole again after it."""
    whole = dict(toy.FRAMES)
    wordings = "{name} {get.past} {x} {nouns} {time}", "{time}, {name} {get.past} {x} {nouns}"
    frames = {"numbers": (("number", *wordings),)}
    run, found = lesson_module.train_on(frames, "bert", epochs=1, limit=8)
    assert toy.FRAMES == whole and 0 <= found["score"] <= 1
    assert run.settings.seed == lesson_module.SEED
    assert f"\nbest epoch: {100 * found['score']:.1f} on dev, " in capsys.readouterr().out
    seen = lesson_module.look(run, "Anna bought 12 chairs.", "Peter sold it.")
    said = run.predict([("Anna bought 12 chairs.", "Peter sold it.")])[0].probabilities
    assert seen.probability == pytest.approx(said["same"], abs=1e-6) and seen.tokens[0] == "[CLS]"
    assert seen.trace["layer0"]["attention"].shape[-1] == len(seen.tokens)


@each_lesson
def test_the_built_notebook_is_this_lesson(lesson):
    """With its figures; `python tutorials/build.py` makes it anew."""
    notebook = json.loads((FOLDER / f"{lesson}.ipynb").read_text("utf-8"))["cells"]
    for markdown in (False, True):
        found = ["".join(cell["source"]).strip() for cell in notebook
                 if (cell["cell_type"] == "markdown") == markdown]
        assert found == [text.strip() for text in cells(lesson, markdown)]
    shown = [output for cell in notebook for output in cell.get("outputs", ())]
    assert {"image/png", "text/html", "text/markdown"} <= {
        kind for output in shown for kind in output.get("data", {})}
    assert all(output["output_type"] != "error" for output in shown)
    for page in (output["data"]["text/html"] for output in shown
                 if "text/html" in output.get("data", {})):
        page = "".join(page)
        columns = json.loads(html.unescape(re.search('data-all="(.*?)"', page)[1]))
        assert page.count("<meter") == len(columns[0]) - 1      # and all numbers stand in a table
        assert all(f"<td>{html.escape(number)}" in page for column in columns for number in column)
