"""What holds of every attention that layers carry."""
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_min import SelfAttention
from methods import ATTENTIONS, A, B, D, L, forms, masks, method, prior_of, problems
from semmatch import Matcher
from tensors import check_error, check_finite, config, far, normal, same

each_method = pytest.mark.parametrize("name", ATTENTIONS)


@each_method
@settings(max_examples=20)
@given(st.data())
def test_weights_gates_padding_and_neighbours(name, data):
    """Masked keys get exactly 0, rows of a softmax sum to 1 (to 0 without a key), all lies in
    [0, 1]. A pair alone, without its padding, has the same tokens as in its batch."""
    (layer, hidden, mask, prior), trace = data.draw(problems(name)), {}
    whole, there = layer(hidden, mask, prior, trace), mask.any(1)
    for part in trace.keys() - {"prior", "context"}:
        x = trace[part]
        assert ((x >= 0) & (x <= 1 + 1e-9)).all(), part
        if part in ("g", "f"):
            continue
        keys = mask.reshape(len(mask), *[1] * (x.ndim - 2), mask.shape[1])
        if part == "difference" and 3 in layer.printed:                 # which leaks, as printed
            keys = keys | ~there.reshape(-1, *[1] * (x.ndim - 1))
        assert (x * ~keys).eq(0).all(), part
        assert ((x[there].sum(-1) - 1).abs() < 1e-9).all(), part
    for b, real in enumerate(mask.sum(1).tolist()):
        if real:
            single = None if prior is None else prior[b:b + 1, ..., :real, :real]
            alone = layer(hidden[b:b + 1, :real], mask[b:b + 1, :real], single)
            same(alone[0], whole[b, :real], 1e-9)


@each_method
@pytest.mark.parametrize("scale, dtype, autocast", [
    (1e5, torch.float32, False), (1e5, torch.bfloat16, False), (1e3, torch.float32, True),
    (0.0, torch.float32, True)])
def test_no_nan(name, scale, dtype, autocast):
    """Scores of 1e5 and more, or all alike; padding only, a sentence without words; bfloat16."""
    hidden = (normal(B, L, D) * scale).to(dtype).requires_grad_()
    for options, trace in itertools.product(forms(name), (None, {})):
        layer = method(name, **options).to(dtype)
        prior = prior_of(name, layer, masks())
        prior = prior.float() if prior is not None and prior.is_floating_point() else prior
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = layer(hidden, masks(), prior, trace)
        check_finite(out, [hidden, *layer.parameters()])
        assert all(x.isfinite().all() for x in (trace or {}).values())


# Parts in whose place stands an average: there dropout is that of the second attention alone.
AVERAGE = {"dabert": {"regulation"}, "dafa": {"fusion"}, "knowledge": {"fusion"}}


@each_method
def test_dropout_of_the_second_attention_in_training_only(name, monkeypatch):
    monkeypatch.setattr(SelfAttention, "attend", lambda self, x, *rest: torch.zeros_like(x))
    layer = ATTENTIONS[name](config(attention_dropout=0.5), without=AVERAGE[name],
                          attention_size=A).double()
    hidden, prior = normal(B, L, D), prior_of(name, layer, masks())
    for training, trace in itertools.product((False, True), (None, {})):
        layer.train(training)
        first, second = (layer(hidden, masks(), prior, trace) for _ in range(2))
        assert far(first, second) == training


@pytest.mark.parametrize("name, options, said", [
    ("dafa", {"printed": {97}}, "printed 97"), ("dafa", {"scope": "x"}, "scope .*x"),
    ("knowledge", {"gamma": 0}, "gamma .*0"), ("bert", {"layers": ()}, "layers .*2"),
    ("dabert", {"without": {"affinity", "difference"}}, "affinity, difference")])
def test_wrong_options(name, options, said):
    with pytest.raises(ValueError, match=said) as error:
        Matcher(ATTENTIONS.get(name, SelfAttention), config(), 3, **options)
    check_error(error)
