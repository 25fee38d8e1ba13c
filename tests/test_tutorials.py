"""tutorials/: the lessons' calculations by hand, their quotations, and what they share."""
import html
import importlib
import itertools
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from test_house import equation_rows

import batches
import bert_min
import semmatch
from support import toy

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
    cache = batches.CACHE
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("lesson")
    sys.path.remove(str(FOLDER))
    batches.CACHE = cache


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


@each_lesson
def test_a_lesson_asks_before_it_shows_and_has_a_line_to_repair(lesson):
    """Each guess is taken in a cell of its own and answered later; `claim` is asked of the line
    that is to be repaired, and asserted of the answer."""
    computed = [text.strip() for text in cells(lesson, markdown=False)]
    guesses = [i for i, text in enumerate(computed) if text == "guess = ..."]
    assert guesses and not any("came(guess" in text for text in computed[:guesses[0]])
    for first, last in itertools.pairwise([*guesses, len(computed)]):
        assert sum(text.count("came(guess") for text in computed[first:last]) == 1
    [repair] = [text for text in computed if "# repair this line" in text]
    assert "def claim(" in repair and "claim(mine)" in repair and "\nassert" in repair
    assert any("slide(" in text for text in computed)


def test_what_came_stands_beside_a_guess(lesson_module, capsys):
    lesson_module.came("rises", "falls", "by 0.1")
    lesson_module.came(..., "falls", "by 0.1")
    assert capsys.readouterr().out == ("You guessed 'rises'; it is 'falls': by 0.1\n"
                                       "No guess; it is 'falls': by 0.1\n")


def test_a_script_prints_a_moving_pictures_numbers(lesson_module, capsys):
    lesson_module.slide("It grows", "x", [1, 1000], {"y": [0.5, torch.tensor(2.0)]})
    assert capsys.readouterr().out == "It grows\nx    1  1,000\ny  0.5      2\n\n"


@each_lesson
def test_quotations_are_short_and_name_their_section(lesson):
    prose = cells(lesson, markdown=True)
    quotes = re.findall(r"^> (.*(?:\n> .*)*)", "\n".join(prose), re.M)
    assert quotes and quotes[0] in prose[0]
    for quote in (" ".join(quote.replace("\n> ", " ").split()) for quote in quotes):
        marked = re.fullmatch(r'"([^"]+)" \(.*(§ [IVX\d][-IVXA-H\d.]*.*|, Abstract)\)', quote)
        assert marked and len(marked[1].split()) <= 35, quote


@pytest.mark.parametrize("lesson", PAPERS)
def test_a_lesson_has_every_equation_of_its_paper(lesson):
    """Each function of the table is named, and imported unless it is a class; each number is."""
    assert [*LESSONS] == ["1_mini_bert", *PAPERS, "7_three_matrices"]
    prose, listed = "\n\n".join(cells(lesson, markdown=True)), set()
    for _, equations, functions, _ in (row for row in equation_rows() if row[0] == PAPERS[lesson]):
        listed |= equations
        for name in (function.rpartition(".")[2] for function in functions):
            assert re.search(rf"`(\w+\.)?{name}(\.\w+)*`", prose), f"{name} is not named"
            assert name[0].isupper() or re.search(rf"import [^#]*\b{name}\b", LESSONS[lesson])
    assert sorted(re.findall(r"\\tag\{(\d+)\}", prose), key=int) == list(map(str, sorted(listed)))


@each_lesson
def test_a_lesson_opens_with_signs_and_closes_with_answers(lesson):
    first, *_, last = cells(lesson, markdown=True)
    assert "\n| sign | meaning |\n|---|---|\n| " in first
    parts = re.split(r"^## (Summary|Five questions|Try it)\n", last, flags=re.M)
    assert parts[1::2] == ["Summary", "Five questions", "Try it"]
    answer = r"<details>\s*<summary>Answer</summary>\s[^<>]+</details>"
    for text, fewest in ((parts[4], 5), (parts[6], 3)):
        for k, item in enumerate(re.split(r"^\d\. ", text, flags=re.M)[1:], 1):
            assert len(re.findall(answer, item)) == item.count("<") / 4 == 1, item
        assert k == fewest


def test_lessons_show_the_lines_of_every_equation():
    """Each function of the table stands in a show(...) of some lesson."""
    shown = set(re.findall(r"[\w.]+", " ".join(re.findall(r"\bshow\(([^()]+)\)",
                                                         "\n".join(LESSONS.values())))))
    functions = {name.partition(".")[2] for row in equation_rows() for name in row[2]}
    assert {name for name in functions if name[0].islower()} <= shown


@each_lesson
def test_formulas_are_well_formed(lesson):
    """Dollars and braces in pairs, a tag at the end, no command that a misspelling would make."""
    prose = "\n\n".join(cells(lesson, markdown=True))
    formulas = re.findall(r"^\$\$(.+?)\$\$$", prose, re.M | re.S)
    assert formulas and 2 * len(formulas) == prose.count("$$") == prose.count("$") / 2
    known = """alpha bar beta cdot delta exp frac gamma hat in ldots left leftarrow mathrm nu odot
        omega oplus otimes phi propto qquad quad right sigma sqrt sum tag tanh text theta tilde top
        """.split()
    for formula in formulas:
        depths = itertools.accumulate((c == "{") - (c == "}") for c in formula)
        *_, last = checked = list(depths)
        assert last == 0 == min(checked), formula
        assert set(re.findall(r"\\([a-z]+)", formula)) <= set(known), formula
        assert formula.count(r"\left(") == formula.count(r"\right)")
        assert re.search(r"\\tag(?!\{\d+\}$)", formula) is None


def test_show_leaves_docstrings_out(lesson_module, capsys):
    lesson_module.show(semmatch.filtration_gate, bert_min.SelfAttention.attend)
    shown = capsys.readouterr().out
    assert "    l = f * W_l(v).tanh()  # (B, L, d)\n" in shown and "Departs" not in shown
    assert "\ndef attend(self, hidden" in shown and "None) -> Tensor:\n    dropout =" in shown


def test_train_on_and_look(lesson_module, capsys):
    """A run of a step on one frame; the toy world is whole again after it."""
    whole = dict(toy.FRAMES)
    wordings = "{name} {get.past} {x} {nouns} {time}", "{time}, {name} {get.past} {x} {nouns}"
    frames = {"numbers": (("number", *wordings),)}
    run, accuracy = lesson_module.train_on(frames, "bert", epochs=1, limit=8)
    assert toy.FRAMES == whole and 0 <= accuracy <= 1 and run.settings.seed == lesson_module.SEED
    assert f"\nbest epoch: {100 * accuracy:.1f} on dev, " in capsys.readouterr().out
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
