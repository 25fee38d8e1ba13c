"""Each classic mistake of tutorials/exercises.py, planted in the library, makes an oracle fail.

The table of docs/equations.md says which test is the oracle of a function; ORACLES does of others,
and where that test looks at a part only. A mistake changes a function's code in place, so that all
who imported it make it, and then one of the assertions of the oracle's test must fail.
"""
import importlib
import itertools
from pathlib import Path

import pytest
from exercises import EXERCISES, UNASKED, edited, find, library
from hypothesis import Phase, settings
from test_house import equation_rows, numbers


LAYER = "test_bert_min.py::test_layer_oracle"
ORACLES = {
    "bert_min.split_heads": LAYER, "bert_min.merge_heads": LAYER, "bert_min.Layer.forward": LAYER,
    "bert_min.attention_weights": "test_bert_min.py::test_attention_weights_are_a_masked_softmax",
    "bert_min.SelfAttention.attend": LAYER,
    "bert_min.Embeddings.forward": "test_bert_min.py::test_hidden_states_equal_transformers",
    "priors.relation_matrix": "test_priors.py::test_relation_matrix_of_a_table_is_the_loop",
    "semmatch.spread_prior": "test_semmatch.py::test_spread_prior_oracle",
    "reread.highway": "test_reread.py::test_highway_oracle"}


PLANTED = [(exercise.paper, task) for exercise in EXERCISES.values() for task in exercise.tasks]
PLANTED += [(paper, task) for paper, others in UNASKED.items() for task in others]
# Each once, though papers share functions.
MISTAKES = {f"{task.function}-{mistake.name}": (task, mistake)
            for _, task in PLANTED for mistake in task.mistakes}


def oracles_of(task):
    """The oracle tests of a function, or of the class whose method it is: "file::test"."""
    function = task.function
    found = [ORACLES[function]] if function in ORACLES else []
    for _, _, functions, tests in equation_rows():
        if any(f"{function}.".startswith(f"{name}.") for name in functions):
            found += [test.removeprefix("tests/") for test in tests]
    return dict.fromkeys(found)


def call(place, monkeypatch):
    """Calls a test with each of its parameters. Hypothesis looks for a failure, not a small one."""
    file, _, name = place.partition("::")
    test, choices = getattr(importlib.import_module(Path(file).stem), name), []
    if hasattr(test, "hypothesis"):
        quick = settings(test._hypothesis_internal_use_settings, max_examples=200, database=None,
                         phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False)
        monkeypatch.setattr(test, "_hypothesis_internal_use_settings", quick)
    for mark in getattr(test, "pytestmark", ()):
        names, values = mark.args
        names = names.replace(" ", "").split(",")
        rows = [getattr(row, "values", row) for row in values]
        choices.append([dict(zip(names, row if len(names) > 1 else [row])) for row in rows])
    for parts in itertools.product(*choices):
        test(**{name: value for part in parts for name, value in part.items()})


@pytest.mark.parametrize("task, mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_classic_mistake_makes_an_oracle_fail(task, mistake, monkeypatch):
    function, wrong = find(library(task.module), task.path), edited(task, mistake.edits)
    assert wrong, "one of the texts does not stand exactly once in the function"
    oracles = oracles_of(task)
    assert oracles, "no oracle: docs/equations.md has no row for the function"
    *owner, name = task.path
    forget = getattr(function, "cache_clear", lambda: None)
    if owner:
        monkeypatch.setattr(find(library(task.module), owner), name, wrong)
    else:
        plain, wrong = (getattr(x, "__wrapped__", x) for x in (function, wrong))   # no cache
        monkeypatch.setattr(plain, "__code__", wrong.__code__)
    forget()
    with pytest.raises(AssertionError):
        for place in oracles:
            call(place, monkeypatch)
    forget()


def test_each_equation_has_three_classic_mistakes():
    found = {}
    for paper, task in PLANTED:
        equation = task.equation.partition(",")[0] if "Eqs" not in task.equation else task.equation
        if paper != "BERT" and "Eq" in equation:
            for number in numbers(equation.partition(" ")[2]):
                found[paper, number] = found.get((paper, number), 0) + len(task.mistakes)
    rows = equation_rows()
    listed = {(paper, number) for paper, equations, *_ in rows for number in equations}
    assert {equation for equation in listed if found.get(equation, 0) < 3} == set()
