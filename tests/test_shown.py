"""support/shown.py: who sees what a model notes; equations as attributes of a class."""
import threading

import pytest
import torch

from methods import METHODS, batch, config, whole
from semmatch import DafaAttention, Matcher
from small_runs import fails
from support.options import load_own
from support.shown import SEEN, note, recording, scope


def test_who_sees_what_is_noted():
    """Nobody, without a recorder; a scope's dict; no outer recorder, no other thread's."""
    with recording() as outer:
        note(x=torch.ones(1, requires_grad=True))
        with pytest.raises(KeyError), recording(), scope("layer0"):
            raise KeyError
        with scope("layer7"):
            note(x=torch.zeros(1))
        with recording() as inner:
            note(y=torch.ones(1))
        thread = threading.Thread(target=lambda: note(z=torch.ones(1)))
        thread.start()
        thread.join()
    note(x=torch.zeros(1))
    assert [*outer] == ["x", "layer7"] and [*inner] == ["y"] and [*outer["layer7"]] == ["x"]
    assert outer["x"] == 1 and not outer["x"].requires_grad and SEEN.get() is None


ALL = [(name, key) for name, made in METHODS.items() for base in made.__mro__
       for key, x in vars(base).items() if isinstance(x, staticmethod) and key != "prior"]


@pytest.mark.parametrize("name, key", ALL)
def test_another_function_takes_an_equations_place(name, key, monkeypatch):
    """Each attribute of a class is what the class computes with."""
    def mine(*inputs, **named):
        raise KeyError("mine")

    if key == "subgraph_similarity" or (name, key) == ("ladranet", "stacked_gru"):
        return                                              # no part of this model's pass
    own = type("Own", (METHODS[name],), {key: staticmethod(mine)})
    monkeypatch.setitem(METHODS, name, own)
    with pytest.raises(KeyError, match="mine"):
        whole(name)(**batch(name, [(3, 4), (2, 2)]))


def test_equations_of_ones_own_in_a_prior_and_beside_a_printed_form():
    """DAFA Eq. (4) is in the prior. A printed form takes the place of no equation of one's own, nor
    of a part of it, but of another's."""
    guided, part, prior = (type("Own", (DafaAttention,), {name: staticmethod(max)})
                           for name in ("guided_attention", "score_map", "subgraph_similarity"))
    assert prior.prior(frozenset(), frozenset()).subgraph_similarity is max
    fails(lambda: guided(config(), {7}), "printed 7: Own has a guided_attention")
    fails(lambda: part(config(), {7}), "printed 7: Own has a score_map")
    assert guided(config(), {6, 9}).guided_attention is max


def test_a_learned_spread_learns_in_each_layer():
    """But for the last one, where [CLS] alone counts, which is no word and has no prior."""
    model = Matcher(load_own("tutorials/mine.py:Beginnings"), config(), 3, (0, 1)).double()
    model(**batch("dafa", [(3, 4), (2, 2)])).square().sum().backward()
    for layer in model.bert.layers[:2]:
        assert layer.attention.strength.grad.abs() > 0
