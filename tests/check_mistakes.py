"""Each classic mistake of mistakes.py, in the place of the right function, makes an oracle fail.

    python -m pytest -q tests/check_mistakes.py     .ci/run's second part; it is not in the suite

The table of docs/equations.md names the tests that are a function's oracles. ORACLES names them for
other functions, and LAYERS is the oracle of all other parts of BERT.
"""
import itertools
import sys
from pkgutil import resolve_name

import pytest
from hypothesis import Phase, settings
from methods import METHODS
from mistakes import MISTAKES
from test_house import equation_rows

LAYERS = "test_bert_min.py::test_hidden_states_equal_transformers"
ORACLES = {
    "bert_min.attention_weights": "test_bert_min.py::test_attention_weights_are_a_masked_softmax",
    "reread.Choice.clue": "test_reread.py::test_ladranet_oracle",
    "semmatch.mean_attention_factor": "test_semmatch.py::test_aligned_attention_oracle",
    "semmatch.spread_prior": "test_semmatch.py::test_spread_prior_oracle"}


def oracles_of(place):
    """The oracle tests of a function, or of the class whose method it is."""
    names = [test.removeprefix("tests/") for _, _, functions, tests in equation_rows()
             if any(f"{place}.".startswith(f"{name}.") for name in functions) for test in tests]
    names = dict.fromkeys(names or [ORACLES.get(place, LAYERS)])
    return [resolve_name(name.replace(".py::", ":")) for name in names]


def call(test, monkeypatch):
    """Calls a test with each of its parameters. Hypothesis does not shrink the failure it finds."""
    choices = []
    if hasattr(test, "hypothesis"):
        quick = settings(test._hypothesis_internal_use_settings, max_examples=200, database=None,
                         phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False)
        monkeypatch.setattr(test, "_hypothesis_internal_use_settings", quick)
    for mark in getattr(test, "pytestmark", ()):
        names, values = mark.args
        names = names.replace(" ", "").split(",")
        choices.append([dict(zip(names, row if len(names) > 1 else [row])) for row in values])
    for parts in itertools.product(*choices):
        test(**{name: value for part in parts for name, value in part.items()})


def plant(place, mistaken, monkeypatch):
    """Puts a mistake in the place of the right function: where a method's class names its equation,
    as a reader would, or in each module that has imported a function which no class names."""
    right, (owner, _, name) = resolve_name(place), place.rpartition(".")
    classes = {base for method in METHODS.values() for base in method.__mro__}
    named = [(base, key) for base in classes for key, equation in vars(base).items()
             if isinstance(equation, staticmethod) and equation.__func__ is right]
    for base, key in named:
        monkeypatch.setattr(base, key, staticmethod(mistaken))
    if owner.count("."):
        monkeypatch.setattr(resolve_name(owner), name, mistaken)
    elif not named:
        for module in list(sys.modules.values()):
            if module is not sys.modules["mistakes"] and vars(module).get(name) is right:
                monkeypatch.setattr(module, name, mistaken)


@pytest.mark.parametrize("place, name, mistaken", [
    (place, *mistake) for place, mistakes in MISTAKES.items() for mistake in mistakes],
    ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")                   # a mistake may divide by 0
def test_a_classic_mistake_makes_an_oracle_fail(place, name, mistaken, monkeypatch):
    oracles = oracles_of(place)
    plant(place, mistaken, monkeypatch)
    with pytest.raises(AssertionError):
        for oracle in oracles:
            call(oracle, monkeypatch)
