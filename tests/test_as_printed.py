"""What goes wrong if an equation is computed as its page prints it, and not as we compute it.

Each test is a row of the table "Where we depart from the page" in docs/equations.md. The oracles in
test_priors, test_semmatch and test_reread show that both forms compute what they say.
"""
import math

import pytest
import torch
from torch import nn

from methods import (ATTENTIONS, B, D, H, K, L, M, N, drr, each_form, equation, ladra,
                     linear, looked, masks, method, normal, pairs, positive, prior_of, read_again,
                     related, same, sentences, silent, vocabulary)
from reread import DrrNet
from test_priors import make
from test_semmatch import BIASED, packed

GUIDED = {"dabert": 5, "dafa": 7, "knowledge": 6}  # the equation of guided attention


# ---- DABERT, DAFA, knowledge --------------------------------------------------------------------

def difference_of(q, k, mask, printed):
    scores = equation("dabert", "difference_scores", printed)
    attention = equation("dabert", "difference_attention", printed)
    return looked(attention, q, k, k, mask, 0.0, scores)[1]["difference"]


@pytest.mark.parametrize("printed", [set(), {3}], ids=str)
def test_the_mask_leaks(printed):
    """DABERT Eq. (3): a score of 1e5 outweighs M = -10⁴, a score of 1e4 cancels M, and a row
    without a key ignores M."""
    q, k = torch.zeros(2, 2, 1, 2, K, dtype=torch.float64)
    mask = torch.tensor([[True, False], [False, False]])
    for score, leak in ((1e5, 1.0), (1e4 / K, 0.5)):
        k[0, 0, 1] = score
        weights = difference_of(q, k, mask, printed)
        assert weights[0, 0, :, 1].tolist() == pytest.approx([leak if printed else 0.0] * 2)
        assert (weights[1] == (0.5 if printed else 0.0)).all()


@each_form
def test_the_difference_is_the_same_for_every_query(printed):
    """DABERT Eq. (4)."""
    q, k, mask = normal(1, H, L, K, seed=1), normal(1, H, L, K, seed=2), masks()[:1]
    weights = difference_of(q, k, mask, {4} if printed else ())
    assert ((weights - weights[:, :, :1]).abs().amax((2, 3)) < 1e-12).all() == printed


@pytest.mark.parametrize("name", ATTENTIONS)
@each_form
def test_the_guide_cancels(name, printed):
    """DABERT Eq. (5), DAFA (7), Knowledge (6): ⊕ makes all rows equal, and the guide's weights
    never learn."""
    layer = method(name, printed={GUIDED[name]} if printed else ())
    out, trace = looked(layer, normal(B, L, D), masks(), prior_of(layer, masks()))
    dead = silent(layer, out)
    for part in [part for part in trace if part.endswith("guided")]:
        weights = trace[part][:2]
        assert ((weights - weights[:, :1]).abs().amax((1, 2)) < 1e-12).all() == printed
    for W in BIASED[name].split()[:2]:  # the guides' maps
        assert (f"{W}.weight" in dead) == printed


@each_form
def test_a_closed_gate_erases_the_plain_signal(printed):
    """DABERT Eq. (7), DAFA (9), Knowledge (8): with f → 0 nothing is left."""
    sem, v, W_f = 1 + positive(B, L, D), normal(B, L, D, seed=1), linear(2 * D, 1, 3)
    W_f.weight.data = torch.cat([torch.full((1, D), -1e3), torch.zeros(1, D)], 1).double()
    gate = equation("dafa", "filtration_gate", {9} if printed else ())
    got, _ = gate(sem, v, linear(D, D, 4), linear(D, D, 5), W_f)
    assert torch.equal(got, sem * (not printed))


def test_child_count_is_rewarded_and_leaves_are_forgotten():
    """DAFA Eq. (4)."""
    fish, meat = (make(["eat"] + [word] * 5, [0] + [1] * 5, ["root"] + ["obj"] * 5)
                  for word in ("fish", "meat"))  # no child matches
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


@pytest.mark.parametrize("printed, mean", [((), 1.0), ({5}, (1 / N + 1 / M) / 2)], ids=["", "5"])
def test_the_prior_shrinks_what_stands_between_the_sentences(printed, mean):
    """Knowledge Eq. (5): the mean of K_prior is (1/n + 1/m)/2; divided by its mean it is 1."""
    layer, mask = method("knowledge", printed=printed), torch.ones(1, N + M + 3).bool()
    prior = layer.spread(related(1, N, M), *packed())
    _, trace = looked(layer, normal(1, N + M + 3, D), mask, prior)
    same(trace["prior"][0, 1:N + 1, N + 2:-1].mean(), mean, 1e-9)


# ---- DRr-Net, LadRa-Net -------------------------------------------------------------------------

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


def test_grus_hardly_learn_from_the_loss_of_P_alone():
    """DRr-Net Eq. (8), at initial weights and full sizes; {8} has this loss."""
    drawn = torch.Generator().manual_seed(0)
    vectors, norms = (torch.randn(60, 300, generator=drawn) * 0.4).numpy(), []
    x, labels = sentences([[9, 11, 13]] * 2, 19), torch.tensor([1, 0, 1])
    for printed in (set(), {8}):
        torch.manual_seed(1)
        net = DrrNet(vocabulary(60, 40, vectors), 2, printed)
        sum(nn.functional.cross_entropy(logits, labels) for logits in net(*x)).backward()
        norms.append(sum(float(p.grad.square().sum()) for p in net.grus.parameters()) ** 0.5)
    assert norms[0] > 10 * norms[1] > 0


def test_one_word_is_read_for_ever():
    """LadRa-Net Eq. (14): if all scores are negative, the first chosen word is chosen at each step,
    and |c m̄| grows. Intended, each word is read only as often as its limit allows."""
    net, mask, size = ladra(without={"phrase-cnn"}), torch.ones(B, 7, dtype=torch.bool), (B, 7, 10)
    choice, states, h_ab = net.choices[0], normal(*size).abs() + 0.1, normal(B, 10)
    assert len(choice.w_d.weight) == 1  # one score
    for part in (choice.U_d, choice.M_d, net.W_phi):
        part.weight.data.zero_()
    choice.W_d.weight.data.abs_()
    choice.w_d.weight.data.abs_().neg_()  # m̄ = -Σ tanh(positive numbers)
    (_, reading, left, _), (_, intended, _, _) = (
        read_again(net, printed, [states], mask, h_ab, 5, 1e4) for printed in ({14}, ()))
    words = reading[:, :, 0].argmax(-1)
    assert (words == words[:, :1]).all() and (left.diff(dim=1) > 0).all()
    for row in intended[:, :, 0].argmax(-1).tolist():
        assert max(map(row.count, row)) == 3 and len(set(row)) == 2  # φ = T σ(0) = 2.5


def test_coverage_diverges():
    """LadRa-Net Eq. (14): a score of 3φ multiplies what is left by -2 at each step."""
    phi, mask, w_d = torch.full((1, 2), 0.25), torch.ones(1, 2).bool(), nn.Linear(1, 1, bias=False)
    w_d.weight.data.fill_(1.0)
    keys, left = torch.tensor([[[math.atanh(0.75)], [0.0]]]), torch.ones(1, 2)
    for want in (-2, 4, -8, 16, -32):
        clue, states = torch.zeros(1, 1), torch.zeros(1, 2, 1)
        _, _, m = equation("ladranet", "choose", {14})(states, keys, mask, clue, w_d, 1.0, left)
        left = equation("ladranet", "coverage", {14})(left, m, phi, mask)
        same(left, [[want, 1]], 1e-4)
