"""support/shown.py: who sees what a model notes; equations as attributes of a class."""
import contextvars
import copy
import pickle
import threading
from collections.abc import Iterator

import pytest
import torch

from methods import METHODS, batch, config, equation, far, looked, method, whole
from semmatch import AlignedAttention, DafaAttention, Matcher, guided_attention
from small_runs import equal, fails
from support.options import load_own
from support.shown import note, recording, scope


# ---- The recorder -------------------------------------------------------------------------------

def test_who_sees_what_is_noted():
    """Nobody, without a recorder; a scope's dict; no outer recorder, no other thread's."""
    note(x=torch.ones(1))
    with recording() as outer:
        note(x=torch.ones(1, requires_grad=True))
        with scope("layer7"):
            note(x=torch.zeros(1))
        with recording() as inner:
            note(y=torch.ones(1))
        thread = threading.Thread(target=lambda: note(z=torch.ones(1)))
        thread.start()
        thread.join()
    note(x=torch.zeros(1))
    assert [*outer] == ["x", "layer7"] and [*inner] == ["y"] and [*outer["layer7"]] == ["x"]
    assert outer["x"] == 1 and not outer["x"].requires_grad


def test_a_recorder_has_an_end():
    with pytest.raises(KeyError), recording(), scope("layer0"):
        raise KeyError
    before = contextvars.copy_context()
    looked(whole("dafa"), **batch("dafa", [(2, 3)]))
    assert [*before.values()] == [*contextvars.copy_context().values()]


@pytest.mark.parametrize("name, sizes", [("dafa", {}), ("ladranet", {"steps": 2})])
def test_a_model_is_exported(name, sizes):
    """Also while somebody looks, who then sees nothing: no note breaks the graph."""
    model, x = whole(name, **sizes).float(), batch(name, [(3, 4), (2, 2)])
    x = {key: part.float() if part.is_floating_point() else part for key, part in x.items()}
    with recording() as seen:
        exported = torch.export.export(model, (), x, strict=True).module()
    assert seen == {}
    torch.testing.assert_close(exported(**x), model(**x))


# ---- Equations of a class -----------------------------------------------------------------------

def halved(*inputs):
    values, weights = guided_attention(*inputs)
    return values / 2, weights


class MyDafa(DafaAttention):
    guided_attention = staticmethod(halved)


def first_value(function):
    """A function that returns what `function` returns, its first tensor doubled."""
    def doubled(*inputs, **named):
        out = function(*inputs, **named)
        if isinstance(out, Iterator):   # the readings of LadraNet
            return [(2 * h, *rest) for h, *rest in out]
        return (2 * out[0], *out[1:]) if isinstance(out, tuple) else 2 * out
    return doubled


ALL = [(name, key) for name, made in METHODS.items() for base in made.__mro__
       for key, x in vars(base).items() if isinstance(x, staticmethod) and key != "prior"]


@pytest.mark.parametrize("name, key", ALL)
def test_another_function_takes_an_equations_place(name, key):
    """Each attribute of a class is what the class computes with."""
    if key in ("score_map", "subgraph_similarity") or (name, key) == ("ladranet", "stacked_gru"):
        return                                              # no part of this model's pass
    own = type("Own", (METHODS[name],), {key: staticmethod(first_value(equation(name, key)))})
    model, x = whole(name), batch(name, [(3, 4), (2, 2)])
    METHODS[name], right = own, METHODS[name]
    try:
        other = whole(name)
    finally:
        METHODS[name] = right
    assert far(model(**x), other(**x))


def test_the_prior_computes_with_the_classs_equation():
    """DAFA Eq. (4) is in the prior."""
    own = type("Own", (DafaAttention,), {"subgraph_similarity": staticmethod(max)})
    assert own.prior(frozenset(), frozenset()).subgraph_similarity is max


def test_a_printed_form_beside_an_equation_of_ones_own():
    """Not in its place, nor in the place of a part of it, but in another's."""
    assert MyDafa(config(), {6, 9}).guided_attention is halved
    for name in ("guided_attention", "score_map"):
        own = type("Own", (DafaAttention,), {name: staticmethod(halved)})
        fails(lambda own=own: own(config(), {7}), f"printed 7: Own has a {name}")


@pytest.mark.parametrize("make", [lambda: MyDafa(config()), lambda: method("dafa", printed={6, 7}),
                                  lambda: whole("ladranet", printed={14})])
def test_layers_are_pickled_and_copied(make):
    model = make()
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        functions = [[key for key, x in vars(part).items() if callable(x)]
                     for part in (model, again)]
        assert functions[0] == functions[1] and equal(model.state_dict(), again.state_dict())


# ---- Each layer spreads its own prior -----------------------------------------------------------

def test_a_learned_spread_learns_in_each_layer():
    """But for the last one, where [CLS] alone counts, which is no word and has no prior."""
    model = Matcher(load_own("tutorials/mine.py:Beginnings"), config(), 3, (0, 1)).double()
    model(**batch("dafa", [(3, 4), (2, 2)])).square().sum().backward()
    for layer in model.bert.layers[:2]:
        assert layer.attention.strength.grad.abs() > 0


def test_a_spread_without_weights_is_made_once(monkeypatch):
    calls, spread = [], AlignedAttention.spread
    monkeypatch.setattr(AlignedAttention, "spread", lambda *x: calls.append(1) or spread(*x))
    whole("aligned")(**batch("aligned", [(3, 4), (2, 2)]))
    assert len(calls) == 1
