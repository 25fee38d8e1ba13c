"""What goes wrong if an equation is computed as its page prints it, and not as we compute it.

Each test is a row of the table "Where we depart from the page" in docs/equations.md. The oracles in
test_priors, test_semmatch and test_reread show that both forms compute what they say.
"""
import numpy as np
import pytest
import torch
from torch import nn

from methods import (B, D, K, L, N, drr, each_form, equation, ladra,
                     linear, looked, masks, method, normal, pairs, prior_of,
                     sentences, silent)
from semmatch import difference_scores
from support.parses import Parse, split_words
from test_semmatch import BIASED


@pytest.mark.parametrize("printed", [set(), {3}], ids=str)
def test_the_mask_leaks(printed):
    """DABERT Eq. (3): a score of 1e5 outweighs M = -10⁴, a score of 1e4 cancels M, and a row
    without a key ignores M."""
    q, k = torch.zeros(2, 2, 1, 2, K, dtype=torch.float64)
    mask = torch.tensor([[True, False], [False, False]])
    attention = equation("dabert", "difference_attention", printed)
    for score, leak in ((1e5, 1.0), (1e4 / K, 0.5)):
        k[0, 0, 1] = score
        weights = looked(attention, q, k, k, mask, 0.0, difference_scores)[1]["difference"]
        assert weights[0, 0, :, 1].tolist() == pytest.approx([leak if printed else 0.0] * 2)
        assert (weights[1] == (0.5 if printed else 0.0)).all()


@pytest.mark.parametrize("name, number, end", [
    ("dabert", 4, "difference"), ("dabert", 5, "guided"), ("dafa", 7, "guided"),
    ("knowledge", 6, "guided")])
@each_form
def test_every_query_gets_the_same_weights(name, number, end, printed):
    """A sum without bars, and ⊕ as concatenation: query and guide cancel, and a guide's weights
    never learn."""
    layer = method(name, printed={number} if printed else ())
    out, trace = looked(layer, normal(B, L, D), masks(), prior_of(layer))
    for weights in [weights for part, weights in trace.items() if part.endswith(end)]:
        assert ((weights - weights[..., :1, :]).abs().max() < 1e-12) == printed
    dead = silent(layer, out)
    for W in BIASED[name].split()[:2]:  # the guides' maps
        assert end != "guided" or (f"{W}.weight" in dead) == printed


@each_form
def test_a_closed_gate_erases_the_plain_signal(printed):
    """DABERT Eq. (7), DAFA (9), Knowledge (8): with f → 0 nothing is left."""
    sem, v, W_f = 1 + normal(B, L, D).exp(), normal(B, L, D, seed=1), linear(2 * D, 1, 3)
    W_f.weight.data = torch.cat([torch.full((1, D), -1e3), torch.zeros(1, D)], 1).double()
    gate = equation("dafa", "filtration_gate", {9} if printed else ())
    got, _ = gate(sem, v, linear(D, D, 4), linear(D, D, 5), W_f)
    assert torch.equal(got, sem * (not printed))


def test_child_count_is_rewarded_and_leaves_are_forgotten():
    """DAFA Eq. (4)."""
    heads, relations = np.array([0, 1, 1, 1, 1, 1], np.int16), ("root", *["obj"] * 5)
    fish, meat = (Parse(text, split_words(text), ("X",) * 6, heads, relations)
                  for text in ("eat" + 5 * " fish", "eat" + 5 * " meat"))  # no child matches
    S, printed_S = (equation("dafa", "subgraph_similarity", form) for form in ((), {4}))
    assert printed_S(fish, meat)[0, 0] == 25 and printed_S(fish, fish)[1, 1] == 0
    assert S(fish, meat)[0, 0] == 1 == S(fish, fish)[1, 1]


@each_form
def test_a_high_prior_weakens_a_negative_score(printed):
    """DAFA Eq. (6), Knowledge (5)."""
    q, weights = torch.ones(1, 1, 2, K, dtype=torch.float64), []
    k, mask = torch.stack([-q[0, 0, 0], q[0, 0, 0] * 0])[None, None], torch.ones(1, 2).bool()
    for more in (1.0, 5.0):
        prior = torch.tensor([[[more, 1.0], [1.0, 1.0]]], dtype=torch.float64)
        attention = equation("dafa", "calibrated_attention", {6} if printed else ())
        _, seen = looked(attention, q, k, k, mask, prior if printed else prior.log())
        weights.append(seen["calibrated"][0, 0, 0, 0])
    assert weights[1] < 0.1 * weights[0] if printed else weights[1] > 2 * weights[0]


@each_form
def test_raw_products_saturate(printed):
    """Knowledge Eq. (1): hidden states have the length √d. A relation with the word that fits least
    moves its row by less than 1e-4; divided by √d, it counts."""
    hidden = nn.functional.layer_norm(normal(1, N, 257), (257,))
    scores = equation("knowledge", "knowledge_scores", {1} if printed else ())
    scores = scores(hidden, torch.zeros(1, N, N))[0, :N // 2, N // 2:]
    more = scores + nn.functional.one_hot(scores.argmin(-1), N - N // 2)
    assert ((more.softmax(-1) - scores.softmax(-1)).max() < 1e-4) == printed


@each_form
@pytest.mark.parametrize("make_net, arguments, number", [(drr, sentences, 6), (ladra, pairs, 13)],
                         ids=["drrnet", "ladranet"])
def test_an_arbitrarily_big_beta_teaches_nothing(make_net, arguments, number, printed):
    """DRr-Net Eq. (6), LadRa-Net (13): an arg-max has no gradient."""
    net = make_net(printed={number} if printed else ())
    out, trace = looked(net, *arguments())
    out.square().sum().backward()
    assert ((trace["reading"] == 0) | (trace["reading"] == 1)).all() == printed
    for choice in [net.choice] if make_net is drr else net.choices[1:]:
        for part in choice.children():
            assert (part.weight.grad.abs().max() < 1e-12) == printed


@each_form
def test_one_word_is_read_for_ever(printed):
    """LadRa-Net Eq. (14): if all scores are negative, the first chosen word is chosen at each step,
    and |c m̄| grows. Intended, each word is read only as often as its limit allows."""
    choose, coverage = (equation("ladranet", name, {14} if printed else ())
                        for name in ("choose", "coverage"))
    states, mask, w_d = normal(B, 7, D).abs() + 0.1, torch.ones(B, 7) > 0, linear(D, 1)
    w_d.weight.data.abs_().neg_()  # m̄ = -Σ tanh(positive numbers)
    left, words = torch.ones(B, 7).double(), []
    for _ in range(5):
        _, weights, read = choose(states, states, mask, torch.zeros(B, D), w_d, 1e4, left)
        left = coverage(left, read, torch.full_like(left, 2.5), mask)
        words.append(weights.argmax(-1).tolist())
    for row in zip(*words):
        assert len(set(row)) == (1 if printed else 2)
        assert max(map(row.count, row)) == (5 if printed else 3)
    assert (left > 1).all() == printed
