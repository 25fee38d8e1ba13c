"""Each classic mistake of mistakes.py, made in its function, makes an oracle fail.

    python -m pytest -q tests/check_mistakes.py     .ci/run's second part; it is not in the suite

The table of docs/equations.md names the tests that are a function's oracles. ORACLES names them for
other functions, and LAYERS is the oracle of all other parts of BERT.
"""
import inspect
import itertools
import textwrap
from pkgutil import resolve_name

import pytest
from mistakes import MISTAKES
from test_house import equation_rows

LAYERS = "test_bert_min.py::test_hidden_states_equal_transformers"
ORACLES = {
    "bert_min.attention_weights": "test_bert_min.py::test_attention_weights_are_a_masked_softmax",
    "reread.Choice.clue": "test_reread.py::test_ladranet_oracle",
    "semmatch.mean_attention_factor": "test_semmatch.py::test_aligned_attention_oracle",
    "semmatch.spread_prior": "test_semmatch.py::test_attention_oracle"}


def oracles_of(place):
    """The oracle tests of a function, or of the class whose method it is."""
    names = [test.removeprefix("tests/") for _, _, functions, tests in equation_rows()
             if any(f"{place}.".startswith(f"{name}.") for name in functions) for test in tests]
    names = dict.fromkeys(names or [ORACLES.get(place, LAYERS)])
    return [resolve_name(name.replace(".py::", ":")) for name in names]


def call(test):
    """Calls a test with each of its parameters."""
    choices = []
    for mark in getattr(test, "pytestmark", ()):
        names, values = mark.args
        names = names.replace(" ", "").split(",")
        choices.append([dict(zip(names, row if len(names) > 1 else [row])) for row in values])
    for parts in itertools.product(*choices):
        test(**{name: value for part in parts for name, value in part.items()})


@pytest.mark.parametrize("place, mistake", [
    (place, mistake) for place, mistakes in MISTAKES.items() for mistake in mistakes])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")                   # a mistake may divide by 0
def test_a_classic_mistake_makes_an_oracle_fail(place, mistake, monkeypatch):
    function, oracles = resolve_name(place), oracles_of(place)
    source = textwrap.dedent(inspect.getsource(function))
    for right, wrong in zip(mistake[::2], mistake[1::2], strict=True):
        assert source.count(right) == 1
        source = source.replace(right, wrong)
    names = dict(function.__globals__)
    exec(source, names)
    monkeypatch.setattr(function, "__code__", names[function.__name__].__code__)
    with pytest.raises(AssertionError):
        for oracle in oracles:
            call(oracle)
