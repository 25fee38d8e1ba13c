"""What holds for every method: padding, neighbours, large scores, dropout, options."""
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from batches import Reader
from bert_min import PairTokenizer, SelfAttention
from methods import (ATTENTIONS, METHODS, WHOLE, B, D, L, alone, batch, config, each_model,
                     far, looked, masks, normal, prior_of, quick, same, whole)
from semmatch import Matcher
from settings import Settings, decide
from small_runs import fails
from support.pairs import Pair

pair_lengths = st.lists(st.tuples(*[st.integers(0, 4)] * 2), min_size=1, max_size=3)


@each_model
@quick
@given(st.data(), pair_lengths, st.integers(0, 2), st.integers(0, 99))
def test_padding_and_neighbours_change_nothing(name, data, lengths, padding, seed):
    """A pair has the same logits alone, in its batch, and with other ids at padding. A number more
    in the biases of `outputs` is one in all logits."""
    model = whole(name, seed, **data.draw(st.sampled_from(WHOLE[name])))
    x = batch(name, lengths, padding, seed)
    want, first = model(**x), next(iter(x))
    same(model(**x | {first: torch.where(x["mask"], x[first], 1)}), want, 1e-9)
    for row in range(len(lengths)):
        same(model(**alone(name, x, row, lengths)), want[..., row:row + 1, :], 1e-9)
    for layer in model.outputs():
        layer.bias.data += 1.0
    same(model(**x), want + 1.0, 1e-9)


SHARP = "query", "key", "w_d", "W_phi", "W_D", "w.weight"                   # weights of scores


@each_model
@pytest.mark.parametrize("factor, narrow", [(1e5, False), (1e5, True), (0.0, True), (1.0, True)])
def test_no_nan(name, factor, narrow):
    """Scores are 1e5 or all equal, sentences empty or of one word, also under autocast. What
    follows the encoder stays in float32, so that different answers do not tie."""
    for options, look in itertools.product(WHOLE[name], (False, True)):
        model = whole(name, **options).float()
        for key, p in model.named_parameters():
            p.data *= factor if any(part in key for part in SHARP) else 1.0
        x = {key: part.float() if part.dtype == torch.float64 else part
             for key, part in batch(name, [(0, 0), (1, 0), (4, 3)], 1).items()}
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            out = looked(model, **x)[0] if look else model(**x)
        out.square().sum().backward()
        gradients = (p.grad for p in model.parameters() if p.grad is not None)
        assert all(numbers.isfinite().all() for numbers in (out, *gradients))
        assert out.dtype == torch.float32 and (factor != 1.0 or (out != out.bfloat16()).all())
        assert model.bfloat16()(**x).isfinite().all()


@each_model
def test_dropout_in_training_only(name):
    """Each place of dropout, alone, makes the answers of training vary."""
    torch.manual_seed(1)
    model, x = whole(name), batch(name, [(3, 4), (2, 5)])
    places = [(part, "dropout" if isinstance(part, SelfAttention) else "p")
              for part in model.modules() if isinstance(part, (SelfAttention, torch.nn.Dropout))]
    for (part, p), training in itertools.product(places, (False, True)):
        setattr(part, p, 0.5)
        model.train(training)
        assert far(model(**x), model(**x)) == training, part
        setattr(part, p, 0.0)


@pytest.mark.parametrize("name", [*ATTENTIONS, "aligned"])
def test_dropout_of_the_second_attention(name, monkeypatch):
    """Plain attention is 0 here. The output is its average with the second attention, or that."""
    monkeypatch.setattr(SelfAttention, "attend", lambda self, x, *rest: torch.zeros_like(x))
    torch.manual_seed(1)
    average = {"dabert": {"regulation"}, "aligned": ()}.get(name, {"fusion"})
    made, hidden = METHODS[name], normal(B, L, D)
    for printed, training, look in itertools.product(((), made.PRINTED), *[(False, True)] * 2):
        layer = made(config(attention_dropout=0.5), printed, average).double().train(training)
        prior = prior_of(layer)
        first, second = ((looked(layer, hidden, masks(), prior)[0] if look else
                          layer(hidden, masks(), prior)) for _ in range(2))
        assert far(first, second) == training


@pytest.mark.parametrize("base, body, idle", [
    ("SelfAttention", "def outputs(self): return []", "outputs"),
    ("FusionAttention", "def fuse(self, x, y, mask): return x", ""),
    ("DafaAttention", "guided_atention = staticmethod(max)", "guided_atention"),
    ("DafaAttention", "def half(self): pass\n    def fuse(self, *x): return self.half()", ""),
    ("Matcher", "READS, PRINTED, ABLATIONS = 'pieces', {}, ()\n"
     "    def outputs(self): return []\n    def carriers(self): return {}", "")])
def test_what_an_own_class_overrides_is_called_or_refused(base, body, idle, workplace):
    (workplace / "mine.py").write_text(f"from semmatch import *\nclass Mine({base}):\n    {body}\n")
    if idle:
        fails(lambda: decide(Settings(model="mine.py:Mine")), "--model mine.py:Mine", idle)
    else:
        decide(Settings(model="mine.py:Mine"))


def test_a_spread_without_a_prior_is_called():
    """It gets None and the places of the words."""
    class Own(SelfAttention):
        calls = []

        def attend(self, hidden, q, k, v, mask, bias):
            return hidden * bias.mean()

        def spread(self, prior, words, segment):
            self.calls.append((prior, words.tolist()))
            return words.float()

    reader = Reader(Own, 48, tokenizer=PairTokenizer.train(["the dog cat"]))
    inputs, _ = reader.examples([Pair("the dog", "cat")]).collate([0])
    model = Matcher(Own, config(vocab_size=reader.tokenizer.vocab_size), 2)
    assert model(**inputs).shape == (1, 2) and model.changes().keys() == {"no method"}
    assert Own.calls == [(None, [[-1, 0, 1, -1, 0, -1]])] and "prior" not in inputs
