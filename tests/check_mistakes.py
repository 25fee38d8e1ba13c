"""Each classic mistake of mistakes.py, made in its function, makes an oracle fail.

    python -m pytest -q tests/check_mistakes.py     .ci/run's second part; it is not in the suite

The table of docs/equations.md names the tests that are a function's oracles. ORACLES names them for
other functions, and LAYERS is the oracle of all other parts of BERT.
"""
import inspect
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


@pytest.mark.parametrize("place, mistake", [
    (place, mistake) for place, mistakes in MISTAKES.items() for mistake in mistakes])
def test_a_classic_mistake_makes_an_oracle_fail(place, mistake, monkeypatch):
    oracles = [name for _, _, functions, tests in equation_rows() for name in tests
               if any(f"{place}.".startswith(f"{function}.") for function in functions)]
    function = resolve_name(place)
    source = textwrap.dedent(inspect.getsource(function))
    for right, wrong in zip(mistake[::2], mistake[1::2], strict=True):
        assert source.count(right) == 1
        source = source.replace(right, wrong)
    names = dict(function.__globals__)
    exec(source, names)
    monkeypatch.setattr(function, "__code__", names[function.__name__].__code__)
    assert pytest.main(["-x", *(oracles or [f"tests/{ORACLES.get(place, LAYERS)}"])]) == 1
