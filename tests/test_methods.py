"""What holds for every method: padding, neighbours, large scores, dropout, options."""
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bert_min import SelfAttention
from methods import (ATTENTIONS, WHOLE, B, D, L, alone, batch, config, drr, each_model, far,
                     ladra, looked, masks, normal, prior_of, quick, same, whole)
from semmatch import Matcher

pair_lengths = st.lists(st.tuples(*[st.integers(0, 4)] * 2), min_size=1, max_size=3)


def sizes_of(arguments):
    """dict axis of a TRACE -> its size, as far as a batch says it."""
    mask = arguments["mask"]
    if mask.dim() == 3:
        return {"sentence": 2, "pair": mask.shape[1], "word": mask.shape[2], "class": 3}
    return {"pair": len(mask), "piece": mask.shape[1], "head": config().num_heads, "gate": 1}


def check_noted(shown, axes, x, arguments):
    """A tensor of a trace has the axes of its TRACE; gates are in (0, 1), weights in [0, 1]. If the
    last axis is of words or pieces, masked ones get exactly 0, and a row sums to 1, or to 0 without
    a key."""
    sizes, mask = sizes_of(arguments), arguments["mask"]
    assert x.shape == tuple(sizes.get(axis, n) for axis, n in zip(axes, x.shape, strict=True))
    if shown.title.startswith("Gate"):
        assert ((x > 0) & (x < 1)).all()
    if shown.top is None or axes == ["pair", "step", "reader", "piece"] and not shown.chosen:
        return                                              # no weights, or coverage
    assert ((x >= 0) & (x <= 1 + 1e-9)).all()
    if axes[-1] in ("piece", "word"):
        between = [1] * (x.dim() - axes.index("pair") - 2)  # axes between the pair and the last
        mask = mask.view(*mask.shape[:-1], *between, mask.shape[-1]).expand_as(x)
        assert (x[~mask] == 0).all()
        same(x.sum(-1), mask.any(-1), 1e-9)


@each_model
@quick
@given(st.data(), pair_lengths, st.integers(0, 2), st.integers(0, 99))
def test_padding_and_neighbours_change_nothing(name, data, lengths, padding, seed):
    """A pair has the same logits alone, in its batch, and with other ids at padding. All that is
    noted is what its TRACE says."""
    model = whole(name, seed, **data.draw(st.sampled_from(WHOLE[name])))
    x = batch(name, lengths, padding, seed)
    (want, trace), mask = looked(model, **x), x["mask"]
    first = next(iter(x))
    same(model(**x | {first: torch.where(mask, x[first], 1)}), want, 1e-9)
    for row in range(len(lengths)):
        same(model(**alone(name, x, row, lengths)), want[..., row:row + 1, :], 1e-9)
    parts = [(model, trace)]
    if name not in ("drrnet", "ladranet"):
        parts = [(layer.attention, trace[f"layer{i}"]) for i, layer in enumerate(model.bert.layers)]
    for part, seen in parts:
        for key in seen.keys() & part.TRACE.keys():
            axes = part.TRACE[key].axes.split()
            if "head" not in axes and getattr(part, "scope", "") == "head" and key != "prior":
                axes.insert(1, "head")
            check_noted(part.TRACE[key], axes, seen[key], x)


SHARP = "query", "key", "w_d", "W_phi", "W_D", "w.weight"                   # weights of scores


@each_model
@pytest.mark.parametrize("factor, narrow", [(1e5, False), (1e5, True), (0.0, True)])
def test_no_nan(name, factor, narrow):
    """Scores are 1e5 or all equal, sentences empty or of one word, also under autocast."""
    for options, look in itertools.product(WHOLE[name], (False, True)):
        model = whole(name, **options).float()
        for key, p in model.named_parameters():
            p.data *= factor if any(part in key for part in SHARP) else 1.0
        x = {key: part.float() if part.dtype == torch.float64 else part
             for key, part in batch(name, [(0, 0), (1, 0), (4, 3)], 1).items()}
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            out = looked(model, **x)[0] if look else model(**x)
        out.float().square().sum().backward()
        gradients = (p.grad for p in model.parameters() if p.grad is not None)
        assert all(numbers.isfinite().all() for numbers in (out, *gradients))
        assert model.bfloat16()(**x).isfinite().all()


@each_model
def test_answers_are_not_rounded_to_bfloat16(name):
    """What follows the encoder is computed in float32, so that different answers do not tie."""
    model = whole(name).float()
    x = {key: part.float() if part.dtype == torch.float64 else part
         for key, part in batch(name, [(3, 4), (2, 5), (4, 3)], 1).items()}
    with torch.autocast("cpu", torch.bfloat16):
        out = model(**x)
    assert out.dtype == torch.float32 and (out != out.bfloat16()).all()


@pytest.mark.parametrize("name", ATTENTIONS)
def test_dropout_of_the_second_attention_in_training_only(name, monkeypatch):
    """Plain attention is 0 here, and its average with the second attention is the output."""
    monkeypatch.setattr(SelfAttention, "attend", lambda self, x, *rest: torch.zeros_like(x))
    average = "regulation" if name == "dabert" else "fusion"
    layer = ATTENTIONS[name](config(attention_dropout=0.5), without={average}).double()
    hidden, prior = normal(B, L, D), prior_of(name, layer, masks())
    for training, look in itertools.product((False, True), (False, True)):
        layer.train(training)
        first, second = ((looked(layer, hidden, masks(), prior)[0] if look else
                          layer(hidden, masks(), prior)) for _ in range(2))
        assert far(first, second) == training


def matcher(name):
    return lambda **options: Matcher(ATTENTIONS.get(name, SelfAttention), config(), 3, **options)


@pytest.mark.parametrize("make, options, words", [
    (matcher("dabert"), {"without": {"affinity", "difference"}}, "affinity, difference"),
    (matcher("bert"), {"layers": ()}, "layers"), (matcher("dafa"), {"layers": (0, 3)}, "0, 3"),
    (matcher("dabert"), {"scope": "third"}, "scope .*third"),
    (drr, {"without": {"global", "reread"}}, "global, reread"),
    (ladra, {"without": {"dsa", "global"}}, "dsa, global")])
def test_wrong_options(make, options, words):
    """One line names the argument, what it needs and what it got, in no option's words."""
    with pytest.raises(ValueError, match=words) as error:
        make(**options)
    assert "\n" not in str(error.value) and "--" not in str(error.value)
