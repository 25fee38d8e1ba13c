"""DRr-Net and LadRa-Net against their page: oracles in plain loops, properties, options.

Oracles know lists of floats and the math module only. Sizes are distinct primes.
"""
import itertools
import math
import zlib
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bert_min import BertConfig
from loops import affine, dot, mix_loop, sigma, softmax_loop
from semmatch import (SPENT, Choice, DrrNet, LadraNet, attentive_pooling, choose, coverage, dynamic_sequential_attention,
                    highway, layer_mix, matching, phrase_cnn, probability_fusion, read_limit, reread, stacked_gru)

B, N, D, A, C, HIDDEN = 3, 7, 11, 5, 3, 13
quick = settings(derandomize=True, deadline=None, max_examples=15)
each_form = pytest.mark.parametrize("printed", [False, True], ids=["intended", "printed"])
all_ids = {"ids": lambda names: "+".join(map(str, sorted(names))) or "none"}


# ---- Oracles: what the equations share ------------------------------------------------------------------------------

def add(*vectors):
    return [sum(numbers) for numbers in zip(*vectors, strict=True)]


def tanh_loop(x):
    return [math.tanh(number) for number in x]


def relu_loop(x):
    return [max(number, 0.0) for number in x]


def mean_loop(vectors):
    return [sum(numbers) / len(vectors) for numbers in zip(*vectors, strict=True)]


def gru_loop(x, h, W_x, W_h, b_x, b_h):
    """One step of torch's GRU; the rows of each weight are those of r, z and n, one after the other."""
    d = len(h)
    of_x, of_h = affine(W_x, x, b_x), affine(W_h, h, b_h)
    r = [sigma(of_x[i] + of_h[i]) for i in range(d)]
    z = [sigma(of_x[d + i] + of_h[d + i]) for i in range(d)]
    n = [math.tanh(of_x[2 * d + i] + r[i] * of_h[2 * d + i]) for i in range(d)]
    return [(1 - z[i]) * n[i] + z[i] * h[i] for i in range(d)]


def mlp_loop(x, layers):
    """Linear maps (W, b) with ReLU between them."""
    for W, b in layers[:-1]:
        x = relu_loop(affine(W, x, b))
    W, b = layers[-1]
    return affine(W, x, b)


def highway_loop(x, W_t, b_t, W_h, b_h):
    """Srivastava et al. (2015), Eq. (3): T · H + (1 - T) · x."""
    gates = [sigma(number) for number in affine(W_t, x, b_t)]
    return [t * new + (1 - t) * old for t, new, old in zip(gates, relu_loop(affine(W_h, x, b_h)), x)]


def convolution_loop(states, W, b, first):
    """W[out][in][j] meets the state `first + j` places behind; outside stand zeros."""
    out = []
    for t in range(len(states)):
        sums = list(b)
        for j in range(len(W[0][0])):
            if 0 <= t + first + j < len(states):
                sums = add(sums, [dot([taps[j] for taps in row], states[t + first + j]) for row in W])
        out.append(sums)
    return out


# ---- Oracles: DRr-Net, section IV -----------------------------------------------------------------------------------

def stacked_gru_loop(words, grus):
    """Eq. (2) for the real words of a sentence: each layer reads [h; x] of the one below. -> [h; x] of the last."""
    for weights in grus:
        h, out = [0.0] * (len(weights[0]) // 3), []
        for x in words:
            h = gru_loop(x, h, *weights)
            out.append(h + x)
        words = out
    return words


def pooling_loop(states, mask, W, b, w):
    """Eq. (3), LadRa-Net Eq. (11) -> the sentence, the weights."""
    weights = softmax_loop([dot(w, tanh_loop(affine(W, state, b))) for state in states], mask)
    return mix_loop(weights, states), weights


def scores_loop(states, clue, W_d, w_d):
    """m̄ of Eqs. (5), (6), LadRa-Net (13)."""
    return [dot(w_d, tanh_loop(add(affine(W_d, state), clue))) for state in states]


def typeset_5_loop(states, scores):
    """Eq. (5) to the letter -> ᾱ, which is one number, and the word chosen."""
    total = sum(math.exp(m) for m in scores)
    alpha = [sum(math.exp(m) / total for m in scores)]
    return alpha, states[alpha.index(max(alpha))]


def choose_loop(states, mask, clue, W_d, w_d, beta, left=None, printed=False):
    """Eq. (6). left: LadRa-Net's c, multiplies exp(β m̄), as typeset m̄ itself -> chosen, weights, m̄."""
    m, left = scores_loop(states, clue, W_d, w_d), left or [1.0] * len(states)
    if printed:
        m = [c * score for c, score in zip(left, m)]
        weights = softmax_loop([beta * score for score in m], mask)
    else:
        allowed = [real and c > 1e-6 for real, c in zip(mask, left)]
        weights = softmax_loop([beta * score + math.log(c) if ok else 0.0 for score, c, ok in zip(m, left, allowed)],
                               allowed)
    return mix_loop(weights, states), weights, m


def reread_loop(P, states, h, guide, steps, beta):
    """Eqs. (4)-(6) for the real words of a sentence -> v, the weights of each step. guide: None without one."""
    read = []
    for _ in range(steps):
        clue = affine(P.U_d, h) if guide is None else add(affine(P.U_d, h), affine(P.M_d, guide))
        chosen, weights, _ = choose_loop(states, [True] * len(states), clue, P.W_d, P.w_d, beta)
        h = gru_loop(chosen, h, *P.unit)
        read.append(weights)
    return h, read


def matching_loop(a, b):
    """Eq. (7)."""
    return a + b + [x * y for x, y in zip(a, b)] + [y - x for x, y in zip(a, b)]


def fusion_loop(sides, mlp):
    """Eq. (8), sides (p, w, b) -> P, [α_h, α_v]."""
    gates = [sigma(dot(w, p) + b) for p, w, b in sides]
    return mlp_loop(add(*([gate * x for x in p] for gate, (p, _, _) in zip(gates, sides))), mlp), gates


# ---- Oracles: LadRa-Net, section V ----------------------------------------------------------------------------------

def layer_mix_loop(blocks, alpha):
    """Eq. (9) for one pair. blocks: for each layer a list of tokens."""
    return [mix_loop(alpha, [block[t] for block in blocks]) for t in range(len(blocks[0]))]


def phrase_loop(states, mask, W_1, b_1, W_2, b_2):
    """Eq. (10): two convolutions; kernel 2 looks right first, then left. -> a state for every token, 0 at padding."""
    def real(vectors):
        return [[x * ok for x in vector] for vector, ok in zip(vectors, mask)]

    first, second = {2: (0, -1), 3: (-1, -1)}[len(W_1[0][0])]          # how far behind a token the first tap stands
    inner = [relu_loop(x) for x in convolution_loop(real(states), W_1, b_1, first)]
    return real(convolution_loop(real(inner), W_2, b_2, second))


def limit_loop(states, W_phi, steps, printed):
    """φ of Eq. (14) for every token."""
    phi = [steps * sigma(dot(W_phi, state)) for state in states]
    return phi if printed else [min(max(x, 1.0), max(1.0, steps - 1.0)) for x in phi]


def coverage_loop(left, read, phi, mask, printed):
    """Eq. (14), last line. read: the weights, as typeset m̄."""
    left = [c - x / limit for c, x, limit in zip(left, read, phi)]
    restart = not printed and all(c <= 1e-6 for c, real in zip(left, mask) if real)
    return [1.0] * len(left) if restart else left


def dsa_step_loop(P, units, mask, left, phi, h, h_ab, beta, printed):
    """One step of Eqs. (12)-(14) for one pair. units, left, phi: A^r, c^r, φ of each r.
    -> h̄_t; c^r after it, the weights of each r, softmax_r."""
    parts, read, kept = [], [], []
    for r, states in enumerate(units):
        clue = add(affine(P.U[r], h), affine(P.M[r], h_ab), *(affine(P.V[r], part) for part in parts))
        part, weights, m = choose_loop(states, mask, clue, P.W[r], P.w[r], beta, left[r], 14 in printed)
        kept.append(coverage_loop(left[r], m if 14 in printed else weights, phi[r], mask, 14 in printed))
        parts.append(part)
        read.append(weights)
    scores = [dot(P.w_f, tanh_loop(affine(P.W_f, part))) for part in parts]
    mixture = softmax_loop(scores, [r > 0 or 12 not in printed for r in range(len(parts))])
    return gru_loop(mix_loop(mixture, parts), h, *P.unit), kept, read, mixture


def dsa_loop(P, units, mask, h_ab, steps, beta, printed):
    """Eqs. (12)-(14) for one pair -> h̄_1, ..., h̄_T; what a trace holds."""
    seen, h, out = SimpleNamespace(reading=[], coverage=[], mixture=[]), h_ab, []
    left, phi = [[1.0] * len(mask) for _ in units], [limit_loop(x, P.W_phi, steps, 14 in printed) for x in units]
    for _ in range(steps):
        h, left, read, mixture = dsa_step_loop(P, units, mask, left, phi, h, h_ab, beta, printed)
        out.append(h)
        seen.reading.append(read)
        seen.coverage.append(left)
        seen.mixture.append(mixture)
    return out, seen


# ---- Material -------------------------------------------------------------------------------------------------------

def normal(*size, seed=0, scale=1.0):
    return scale * torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def large(module, seed=1, scale=0.7):
    """The module in float64 with weights so large that every part of an equation shows; one name, one weight."""
    module = module.double().eval()
    for name, parameter in module.named_parameters():
        around = 1.0 if name.endswith("norm.weight") else 0.0          # a small norm would make all tokens alike
        if parameter.requires_grad:
            size = 2 * scale / parameter[0].numel() ** 0.5 if parameter.dim() > 1 else scale
            parameter.data = around + normal(*parameter.shape, seed=zlib.crc32(name.encode()) + seed, scale=size)
        if name in ("words.weight", "characters.weight") and parameter.requires_grad:
            parameter.data[0] = 0.0                                    # padding, as the model keeps it
    return module


def lists(module):
    return [parameter.tolist() for parameter in module.parameters()]


def same(got, want, within=1e-10):
    want = torch.as_tensor(want, dtype=got.dtype)
    assert got.shape == want.shape
    worst = (got - want).abs().max().item() if got.numel() else 0.0
    assert worst <= within, f"off by {worst}"


def far(one, two):
    return (one - two).abs().max() > 1e-4


def prefix(lengths, size):
    return torch.arange(size) < torch.tensor(lengths)[..., None]


def ragged():
    """A whole sentence, one with a hole and padding, one of padding only."""
    mask = prefix([N, 5, 0], N)
    mask[1, 2] = False
    return mask


def dense_grus(width, layers=3):
    return [large(nn.GRU(width + i * HIDDEN, HIDDEN, batch_first=True), i) for i in range(layers)]


def convolutions(kernel, middle=13):
    return large(nn.Conv1d(D, middle, kernel), 1), large(nn.Conv1d(middle, D, kernel), 2)


class SmallDrr(DrrNet):
    """DRr-Net with sizes that loops can follow. β is soft, so that every weight counts."""

    WORD, CHARACTER, TAGS, HIDDEN, ATTENTION, STEPS, BETA = 5, 2, 7, HIDDEN, 11, 3, 2.0


class SmallLadra(LadraNet):
    BETA = 2.0


def drr(seed=1, scale=0.7, classes=C, method=SmallDrr, **options):
    return large(method(19, 13, classes, **options), seed, scale)


def config(**changes):
    sizes = dict(vocab_size=41, hidden_size=D, num_layers=3, num_heads=1, intermediate_size=19, max_length=23,
                 dropout=0.0, attention_dropout=0.0)
    return BertConfig(**(sizes | changes))


def ladra(seed=1, scale=0.5, classes=C, method=SmallLadra, **options):
    return large(method(config(), classes, attention_size=A, **options), seed, scale)


def sentences(lengths, n, c=5, seed=0):
    """Arguments of DrrNet.forward. lengths: those of all sentences a, those of all sentences b."""
    drawn = torch.Generator().manual_seed(seed)
    mask = prefix(lengths, n)
    ids = torch.randint(1, 19, mask.shape, generator=drawn) * mask
    characters = torch.randint(1, 13, (*mask.shape, c), generator=drawn)
    own = torch.randint(1, c + 1, mask.shape, generator=drawn) * mask
    characters *= torch.arange(c) < own[..., None]
    tags = torch.randint(0, 7, mask.shape, generator=drawn) * mask
    match, antonym = (torch.randint(0, 2, mask.shape, generator=drawn).bool() & mask for _ in range(2))
    return [ids, characters, tags, match, antonym, mask]


def pairs(lengths, size, seed=0):
    """Arguments of LadraNet.forward."""
    mask = prefix(lengths, size)
    ids = torch.randint(1, 41, mask.shape, generator=torch.Generator().manual_seed(seed)) * mask
    segment = (torch.arange(size) >= mask.sum(1, keepdim=True) // 2).long() * mask
    return [ids, segment, mask]


# ---- Each equation against its loops --------------------------------------------------------------------------------

def test_gru_loop_is_torchs():
    """The recurrent unit, which the papers do not write out."""
    cell, x, h = large(nn.GRUCell(D, A)), normal(B, D, seed=1), normal(B, A, seed=2)
    same(cell(x, h), [gru_loop(*row, *lists(cell)) for row in zip(x.tolist(), h.tolist())], 1e-12)


def test_highway_oracle():
    """By the paper's [56], Eq. (3)."""
    x, W_t, W_h = normal(B, N, D), large(nn.Linear(D, D), 1), large(nn.Linear(D, D), 2)
    same(highway(x, W_t, W_h), [[highway_loop(word, *lists(W_t), *lists(W_h)) for word in row] for row in x.tolist()])


@pytest.mark.parametrize("layers", [1, 3])
def test_stacked_gru_oracle(layers):
    """DRr-Net Eqs. (1), (2)."""
    x, lengths, grus = normal(B, N, D), [4, N, 0], dense_grus(D, layers)
    got = stacked_gru(x, prefix(lengths, N), grus)
    assert got.shape == (B, N, D + layers * HIDDEN)
    for b, length in enumerate(lengths):
        assert (got[b, length:] == 0).all()
        if length:
            same(got[b, :length], stacked_gru_loop(x[b, :length].tolist(), [lists(gru) for gru in grus]))


def test_attentive_pooling_oracle():
    """DRr-Net Eq. (3), LadRa-Net Eq. (11)."""
    states, mask, W, w = normal(B, N, D), ragged(), large(nn.Linear(D, A)), large(nn.Linear(A, 1, bias=False), 2)
    pooled, weights = attentive_pooling(states, mask, W, w)
    for b in range(B):
        vector, want = pooling_loop(states[b].tolist(), mask[b].tolist(), *lists(W), w.weight[0].tolist())
        same(weights[b], want)
        same(pooled[b], vector)


LEFT = [[1.0, 0.5, -0.3, 2e-6, 0.9e-6, 0.25, 0.0], [0.75, 1.0, 1.0, -2.0, 0.1, 1.0, 1.0], [1.0] * 7]


@pytest.mark.parametrize("beta", [1.0, 10.0, 1e8])
@pytest.mark.parametrize("left, printed", [(None, False), (LEFT, False), (LEFT, True)],
                         ids=["alone", "intended", "printed"])
def test_choose_oracle(beta, left, printed):
    """DRr-Net Eqs. (5), (6), LadRa-Net Eqs. (13), (14): soft, the paper's rejected 10, and 'arbitrarily big'."""
    states, mask, clue = normal(B, N, D), ragged(), normal(B, A, seed=1)
    W_d, w_d = large(nn.Linear(D, A, bias=False)), large(nn.Linear(A, 1, bias=False), 2)
    covered = None if left is None else torch.tensor(left, dtype=torch.float64)
    chosen, weights, m = choose(states, W_d(states), mask, clue, w_d, beta, covered, printed)
    for b in range(B):
        vector, want, scores = choose_loop(states[b].tolist(), mask[b].tolist(), clue[b].tolist(), W_d.weight.tolist(),
                                           w_d.weight[0].tolist(), beta, left and left[b], printed)
        same(weights[b], want)
        same(chosen[b], vector)
        same(m[b], scores)
    if left and not printed:
        assert (weights[covered <= 1e-6] == 0).all() and (weights[0, 3] > 0 or beta > 1)


def test_hand_check_of_what_is_left():
    """Two words of equal score, one and three quarters left: weights 1/4 and 3/4; spent, the first gets nothing."""
    states, clue, w_d = torch.tensor([[[1.0], [2.0]]]), torch.zeros(1, 1), nn.Linear(1, 1, bias=False)
    mask, keys = torch.ones(1, 2, dtype=torch.bool), torch.zeros(1, 2, 1)
    chosen, weights, _ = choose(states, keys, mask, clue, w_d, 100.0, torch.tensor([[0.25, 0.75]]))
    same(weights, [[0.25, 0.75]], 1e-6)
    same(chosen, [[1.75]], 1e-6)
    chosen, weights, _ = choose(states, keys, mask, clue, w_d, 100.0, torch.tensor([[SPENT, 0.75]]))
    assert weights.tolist() == [[0.0, 1.0]] and chosen.tolist() == [[2.0]]
    left = coverage(torch.tensor([[1.0, 0.5]]), torch.tensor([[0.25, 0.75]]), torch.tensor([[2.0, 3.0]]), mask)
    assert left.tolist() == [[0.875, 0.25]]
    assert SPENT == 1e-6


def matrices(choice):
    """Of a Choice, as lists under the page's letters."""
    M_d = choice.M_d.weight.tolist() if choice.M_d is not None else None
    return SimpleNamespace(W_d=choice.W_d.weight.tolist(), U_d=choice.U_d.weight.tolist(), M_d=M_d,
                           w_d=choice.w_d.weight[0].tolist(), V_d=choice.V_d and choice.V_d.weight.tolist())


@pytest.mark.parametrize("guided", [True, False])
def test_reread_oracle(guided):
    """DRr-Net Eq. (4)."""
    states, lengths, h, guide = normal(B, N, D), [N, 1, 3], normal(B, HIDDEN, seed=1), normal(B, 13, seed=2)
    choice, cell = large(Choice(D, HIDDEN, A, 13 if guided else None)), large(nn.GRUCell(D, HIDDEN))
    v, read = reread(states, prefix(lengths, N), h, guide, choice, cell, 3, 2.0)
    P = SimpleNamespace(**vars(matrices(choice)), unit=lists(cell))
    assert read.shape == (B, 3, N)
    for b, length in enumerate(lengths):
        want, weights = reread_loop(P, states[b, :length].tolist(), h[b].tolist(),
                                    guide[b].tolist() if guided else None, 3, 2.0)
        same(v[b], want)
        same(read[b, :, :length], weights)


def test_matching_oracle():
    """DRr-Net Eq. (7)."""
    a, b = normal(B, D, seed=1), normal(B, D, seed=2)
    same(matching(a, b), [matching_loop(*row) for row in zip(a.tolist(), b.tolist())], 0.0)
    same(matching(torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 3.0]])), [[1, 2, 5, 3, 5, 6, 4, 1]], 0.0)


def layers_of(mlp):
    """[(W, b), ...] of a Sequential of linear maps and ReLUs."""
    assert [type(part) for part in mlp] == [nn.Linear, nn.ReLU] * (len(mlp) // 2) + [nn.Linear]
    return [lists(part) for part in mlp if isinstance(part, nn.Linear)]


@pytest.mark.parametrize("classes", [C, 1])
@pytest.mark.parametrize("sides", ["hv", "h", "v"])
def test_probability_fusion_oracle(classes, sides):
    """DRr-Net Eq. (8), and the ablations that leave out one side."""
    p = {"h": normal(B, classes, seed=1).softmax(-1), "v": normal(B, classes, seed=2).softmax(-1)}
    w = {"h": large(nn.Linear(classes, 1), 3), "v": large(nn.Linear(classes, 1), 4)}
    mlp = large(nn.Sequential(nn.Linear(classes, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, classes)), 5)
    got, gates = probability_fusion(*(x[s] if s in sides else None for x in (p, w) for s in "hv"), mlp)
    assert ((gates > 0) & (gates < 1)).all()
    for b in range(B):
        want, alphas = fusion_loop([(p[s][b].tolist(), w[s].weight[0].tolist(), w[s].bias.item()) for s in sides],
                                   layers_of(mlp))
        same(got[b], want)
        same(gates[b], alphas)


def test_layer_mix_oracle():
    """LadRa-Net Eq. (9)."""
    blocks, alpha = [normal(B, N, D, seed=i) for i in range(5)], normal(5, seed=9)
    got = layer_mix(blocks, alpha)
    for b in range(B):
        same(got[b], layer_mix_loop([block[b].tolist() for block in blocks], alpha.tolist()))


@pytest.mark.parametrize("kernel", [2, 3])
def test_phrase_cnn_oracle(kernel):
    """LadRa-Net Eq. (10)."""
    hidden, mask, (first, second) = normal(B, N, D), ragged(), convolutions(kernel)
    got = phrase_cnn(hidden, mask, first, second)
    for b in range(B):
        same(got[b], phrase_loop(hidden[b].tolist(), mask[b].tolist(), *lists(first), *lists(second)))
    assert (got[~mask] == 0).all()


def test_hand_check_of_the_phrase_cnn():
    """One channel, filters whose taps are digits: by hand."""
    hidden, mask = torch.tensor([[[1.0], [2.0], [4.0], [8.0]]]), torch.tensor([[True, True, True, False]])
    for taps_1, taps_2, want in (
            ([1.0, 10.0], [1.0, 100.0], [2100, 4221, 442, 0]),         # inside 1 + 20, 2 + 40, 4
            ([1.0, 10.0, 100.0], [-1.0, 2.0, 0.0], [420, 632, -337, 0])):  # inside 10 + 200, 1 + 20 + 400, 2 + 40
        first, second = (nn.Conv1d(1, 1, len(taps_1), bias=False) for _ in range(2))
        first.weight.data, second.weight.data = torch.tensor([[taps_1]]), torch.tensor([[taps_2]])
        same(phrase_cnn(hidden, mask, first, second)[0, :, 0], want, 0.0)


@each_form
def test_coverage_oracle(printed):
    """LadRa-Net Eq. (14), last line: φ, what is left, and the new start where all is spent."""
    states, W_phi, mask = 3 * normal(B, N, D), large(nn.Linear(D, 1, bias=False)), ragged()
    phi = read_limit(states, W_phi, 5, printed)
    assert (phi.min() < 1 and phi.max() > 4) == printed
    read = normal(B, N, seed=3) if printed else normal(B, N, seed=3).softmax(-1)
    for left in (normal(B, N, seed=1), normal(B, N, seed=1).clamp(max=SPENT), torch.where(mask, SPENT, 1.0).double()):
        got = coverage(left, read, phi, mask, printed)
        for b in range(B):
            limits = limit_loop(states[b].tolist(), W_phi.weight[0].tolist(), 5, printed)
            same(phi[b], limits)
            same(got[b], coverage_loop(left[b].tolist(), read[b].tolist(), limits, mask[b].tolist(), printed))


@pytest.mark.parametrize("steps, lowest, highest", [(1, 1, 1), (2, 1, 1), (3, 1, 2), (7, 1, 6)])
def test_read_limit_is_kept_in_its_range(steps, lowest, highest):
    """φ in [1, max(1, T - 1)]; as typeset in (0, T)."""
    states, W_phi = torch.tensor([[-9.0, -1.0, 0.0, 1.0, 9.0]])[..., None], nn.Linear(1, 1, bias=False)
    W_phi.weight.data.fill_(2.0)
    phi, typeset = read_limit(states, W_phi, steps), read_limit(states, W_phi, steps, True)
    assert phi.min() == lowest and phi.max() == highest
    assert typeset.min() < 0.01 and typeset.max() > steps - 0.01


SETS_14 = [frozenset(), frozenset({12}), frozenset({14}), frozenset({12, 14})]


def dsa_material(kernels=2, seed=1, scale=0.7):
    """Modules of dynamic_sequential_attention, and their weights under the page's letters."""
    return SimpleNamespace(
        choices=[large(Choice(D, D, A, D, r > 0), seed + r, scale) for r in range(kernels + 1)],
        W_f=large(nn.Linear(D, A, bias=False), seed + 5), w_f=large(nn.Linear(A, 1, bias=False), seed + 6),
        W_phi=large(nn.Linear(D, 1, bias=False), seed + 7, scale), gru=large(nn.GRUCell(D, D), seed + 8),
        states=[normal(B, N, D, seed=seed + 10 + r) for r in range(kernels + 1)], h_ab=normal(B, D, seed=seed + 20))


def run_dsa(M, mask, steps, beta, printed=frozenset()):
    return dynamic_sequential_attention(M.states, mask, M.h_ab, M.choices, M.W_f, M.w_f, M.W_phi, M.gru, steps, beta,
                                        printed)


def dsa_weights(choices, W_f, w_f, W_phi, gru):
    parts = [matrices(choice) for choice in choices]
    return SimpleNamespace(W=[x.W_d for x in parts], U=[x.U_d for x in parts], M=[x.M_d for x in parts],
                           V=[x.V_d for x in parts], w=[x.w_d for x in parts], W_f=W_f.weight.tolist(),
                           w_f=w_f.weight[0].tolist(), W_phi=W_phi.weight[0].tolist(), unit=lists(gru))


@pytest.mark.parametrize("printed", SETS_14, **all_ids)
@pytest.mark.parametrize("kernels", [2, 0])
def test_dynamic_sequential_attention_oracle(printed, kernels):
    """LadRa-Net Eqs. (12)-(14), seven steps; the pair of one token starts anew."""
    M, mask = dsa_material(kernels), prefix([N, 4, 1], N)
    mask[1, 1] = False
    h, seen = run_dsa(M, mask, 7, 2.0, printed)
    P = dsa_weights(M.choices, M.W_f, M.w_f, M.W_phi, M.gru)
    assert seen.keys() == {"reading", "coverage", "mixture"}
    for b in range(B):
        states, h_ab = [x[b].tolist() for x in M.states], M.h_ab[b].tolist()
        want, kept = dsa_loop(P, states, mask[b].tolist(), h_ab, 7, 2.0, printed)
        for name in seen:
            expected = torch.tensor(getattr(kept, name), dtype=torch.float64)
            size = 1 + expected.abs().max().item()                     # as typeset, coverage may diverge
            same(seen[name][b], expected, 1e-10 * size)
        same(h[b], want)
    assert 14 in printed or (seen["coverage"][2, :, :, 0] == 1).any()


# ---- Whole models against their loops -------------------------------------------------------------------------------

def drr_weights(net):
    """Of a DrrNet, as lists."""
    P = SimpleNamespace(word=net.words.weight.tolist(), character=net.characters.weight.tolist(),
                        letters=lists(net.cnn), tags=net.TAGS,
                        highways=[lists(t) + lists(h) for t, h in zip(net.W_t, net.W_h)],
                        grus=[lists(gru) for gru in net.grus], pooling=[*lists(net.W), net.w.weight[0].tolist()],
                        mlp_3=layers_of(net.mlp), mlp_1=None, mlp_2=None, W_0=None)
    if net.mlp_h is not None:
        P.mlp_1, P.w_h, P.b_h = layers_of(net.mlp_h), net.w_h.weight[0].tolist(), net.w_h.bias.item()
    if net.mlp_v is not None:
        P.mlp_2, P.w_v, P.b_v = layers_of(net.mlp_v), net.w_v.weight[0].tolist(), net.w_v.bias.item()
        P.unit, P.W_0 = lists(net.gru), net.W_0 and net.W_0.weight.tolist()
        vars(P).update(vars(matrices(net.choice)))
    return P


def encode_loop(P, sentence):
    """§ IV-A, Eqs. (1)-(3) for one sentence, a list of (word, its characters, tag, match, antonym) without padding.
    -> states, sentence vector, weights."""
    words = []
    for word, characters, tag, match, antonym in sentence:
        letters = [P.character[c] for c in characters]
        found = convolution_loop(letters, *P.letters, -(len(P.letters[0][0][0]) // 2))
        x = P.word[word] + ([max(column) for column in zip(*found)] or [0.0] * len(P.character[0]))
        x += [float(tag == i) for i in range(P.tags)] + [float(match), float(antonym)]
        for weights in P.highways:
            x = highway_loop(x, *weights)
        words.append(x)
    states = stacked_gru_loop(words, P.grus)
    return states, *pooling_loop(states, [True] * len(states), *P.pooling)


def drrnet_loop(P, pair, steps, beta, without, classes):
    """Eqs. (1)-(8) for one pair of sentences -> logits, what a trace holds."""
    def probabilities(logits):
        return softmax_loop(logits, [True] * classes) if classes > 1 else logits

    (states_a, h_a, pooled_a), (states_b, h_b, pooled_b) = (encode_loop(P, sentence) for sentence in pair)
    sides, read = [], []
    if "global" not in without:
        sides.append((probabilities(mlp_loop(matching_loop(h_a, h_b), P.mlp_1)), P.w_h, P.b_h))
    if "reread" not in without:
        v = []
        for states, own, other in ((states_a, h_a, h_b), (states_b, h_b, h_a)):
            first = affine(P.W_0, own) if "initial-vector" not in without else [0.0] * HIDDEN
            out, weights = reread_loop(P, states, first, other if "guide-vector" not in without else None, steps, beta)
            v.append(out)
            read.append(weights)
        sides.append((probabilities(mlp_loop(matching_loop(*v), P.mlp_2)), P.w_v, P.b_v))
    logits, gates = fusion_loop(sides, P.mlp_3)
    return logits, SimpleNamespace(pooling=[pooled_a, pooled_b], reading=read, relations=[p for p, *_ in sides], gates=gates)


def sentence_of(x, side, b):
    """A sentence of a batch, as lists without padding."""
    ids, characters, tags, match, antonym, mask = (part[side, b].tolist() for part in x)
    return [(word, [c for c in letters if c], *rest)
            for word, letters, *rest, real in zip(ids, characters, tags, match, antonym, mask) if real]


DRR_FORMS = [frozenset()] + [frozenset({name}) for name in sorted(DrrNet.ABLATIONS)] + [
    frozenset({"initial-vector", "guide-vector"}), frozenset({"global", "guide-vector"})]


@pytest.mark.parametrize("without", DRR_FORMS, **all_ids)
@pytest.mark.parametrize("classes, printed", [(C, frozenset()), (1, frozenset()), (C, frozenset({6}))])
def test_drrnet_oracle(without, classes, printed):
    """DRr-Net Eqs. (1)-(8), each ablation, classes and a score; and what a trace holds."""
    net, x, trace = drr(classes=classes, printed=printed, without=without), sentences([[5, 1, 2], [3, 5, 1]], 5), {}
    x[1][0, 0, 3] = 0                                                  # a word without characters
    got, again, P = net(*x), net(*x, trace), drr_weights(net)
    assert got.shape == (B, classes) and torch.equal(got, again)
    assert trace.keys() == {"pooling", "relations", "gates"} | ({"reading"} if "reread" not in without else set())
    for b in range(B):
        pair = [sentence_of(x, side, b) for side in (0, 1)]
        want, seen = drrnet_loop(P, pair, 3, 1e8 if printed else 2.0, without, classes)
        same(got[b], want)
        same(trace["relations"][b], seen.relations)
        same(trace["gates"][b], seen.gates)
        for side, sentence in enumerate(pair):
            same(trace["pooling"][side, b, :len(sentence)], seen.pooling[side])
            if "reading" in trace:
                same(trace["reading"][side, b, :, :len(sentence)], seen.reading[side])


def ladra_weights(net):
    """Of a LadraNet, as lists."""
    P = SimpleNamespace(phrases=[lists(first) + lists(second) for first, second in zip(net.first, net.second)],
                        poolings=[[*lists(W), w.weight[0].tolist()] for W, w in zip(net.W, net.w)],
                        mlp=layers_of(net.mlp))
    if "bert" in net.without:
        P.grus, P.W_0 = [lists(gru) for gru in net.grus], lists(net.W_0)
    else:
        P.alpha = net.alpha.tolist()
    if "dsa" not in net.without:
        vars(P).update(vars(dsa_weights(net.choices, net.W_f, net.w_f, net.W_phi, net.gru)))
    return P


def ladranet_loop(P, states, mask, steps, beta, printed, without):
    """Eqs. (9)-(15) for one pair. states: the encoder's embeddings, then its blocks' outputs -> logits, a trace."""
    if "bert" in without:
        words = stacked_gru_loop([x for x, real in zip(states[0], mask) if real], P.grus)
        words = [affine(P.W_0[0], x, P.W_0[1]) for x in words]
        units, vectors = [words + [[0.0] * D] * (len(mask) - len(words))], [mean_loop(words)]
    else:
        units, vectors = [layer_mix_loop(states[1:], P.alpha)], [states[-1][0]]
    pooling = []
    for weights, pool in zip(P.phrases, P.poolings, strict=True):
        units.append(phrase_loop(units[0], mask, *weights))
        vector, found = pooling_loop(units[-1], mask, *pool)
        vectors.append(vector)
        pooling.append(found)
    h_ab, h, seen = mean_loop(vectors), [], SimpleNamespace()
    if "dsa" not in without:
        h, seen = dsa_loop(P, units, mask, h_ab, steps, beta, printed)
    vectors = ([h_ab] if "global" not in without else []) + h
    v = [max(column) for column in zip(*vectors)] if "average-pooling" in without else mean_loop(vectors)
    seen.pooling = pooling
    return mlp_loop(v, P.mlp), seen


LADRA_FORMS = [(printed, frozenset()) for printed in SETS_14 + [frozenset({13}), frozenset({12, 13, 14})]] + [
    (frozenset(), frozenset({name})) for name in sorted(LadraNet.ABLATIONS)] + [
    (frozenset(), frozenset({"phrase-cnn", "dsa"})), (frozenset({14}), frozenset({"phrase-cnn", "bert"})),
    (frozenset({12}), frozenset({"phrase-cnn"})), (frozenset(), frozenset({"bert", "average-pooling", "global"}))]


@pytest.mark.parametrize("printed, without", LADRA_FORMS, **all_ids)
def test_ladranet_oracle(printed, without):
    """LadRa-Net Eqs. (9)-(15) in every form, each ablation; and what a trace holds."""
    net, x, trace = ladra(printed=printed, without=without), pairs([N, 5, 1], N), {}
    got, again, P, mask = net(*x), net(*x, trace=trace), ladra_weights(net), x[2]
    states = [state.tolist() for state in net.bert(*x)[0]]
    assert got.shape == (B, C) and torch.equal(got, again)
    names = set() if "dsa" in without else {"reading", "coverage", "mixture"}
    names |= (set() if "phrase-cnn" in without else {"pooling"}) | (set() if "bert" in without else {"layers"})
    assert trace.keys() == names
    for b in range(B):
        want, seen = ladranet_loop(P, [state[b] for state in states], mask[b].tolist(), 5,
                                   1e8 if 13 in printed else 2.0, printed, without)
        same(got[b], want)
        if "pooling" in trace:
            same(trace["pooling"][:, b], seen.pooling)
        for name in names & {"reading", "coverage", "mixture"}:
            expected = torch.tensor(getattr(seen, name), dtype=torch.float64)
            same(trace[name][b], expected, 1e-10 * (1 + expected.abs().max().item()))
    if "layers" in trace:
        same(trace["layers"], P.alpha, 0.0)


# ---- Properties: padding and neighbours -----------------------------------------------------------------------------

@st.composite
def batches(draw, longest=5):
    """Lengths of the sentences of a batch, how far they are padded, a seed."""
    b = draw(st.integers(1, 3))
    lengths = [draw(st.lists(st.integers(0, longest), min_size=b, max_size=b)) for _ in range(2)]
    size = max(1, *lengths[0], *lengths[1]) + draw(st.integers(0, 2))
    return SimpleNamespace(lengths=lengths, b=b, size=size, seed=draw(st.integers(0, 999)))


@quick
@given(batches(), st.sampled_from(DRR_FORMS))
def test_drrnet_padding_and_neighbours_change_nothing(p, without):
    """A pair alone, without its padding, has the logits and readings of its batch. Padding may hold anything."""
    net, x, full, cut = drr(p.seed, without=without), sentences(p.lengths, p.size, seed=p.seed), {}, {}
    want, other, mask = net(*x, full), sentences([[p.size] * p.b] * 2, p.size, seed=p.seed + 1), x[-1]
    filled = [torch.where(mask[(...,) + (None,) * (part.dim() - 3)], part, rest) for part, rest in zip(x, other)][:-1]
    same(net(*filled, mask), want, 1e-12)
    for b in range(p.b):
        longest = max(1, p.lengths[0][b], p.lengths[1][b])
        same(net(*(part[:, b:b + 1, :longest] for part in x), cut), want[b:b + 1], 1e-12)
        for name in full.keys() - {"relations", "gates"}:
            same(cut[name][:, 0], full[name][:, b, ..., :longest], 1e-12)


def test_drrnet_padding_of_characters_changes_nothing():
    """Columns of zeros behind the longest word, and words of the kernel's width and less."""
    net, x = drr(), sentences([[5, 5, 5], [5, 5, 5]], 5, c=7)
    wider = [x[0], torch.cat([x[1], torch.zeros(2, B, 5, 4, dtype=torch.int64)], -1), *x[2:]]
    same(net(*wider), net(*x), 1e-12)
    assert {1, 2, 5, 7} <= set((x[1] > 0).sum(-1)[x[-1]].tolist())


@quick
@given(batches(), st.sampled_from([form for form in LADRA_FORMS if 13 not in form[0]]))
def test_ladranet_padding_and_neighbours_change_nothing(p, form):
    """As above, for pairs that have a [CLS]."""
    net, lengths = ladra(p.seed, printed=form[0], without=form[1]), [max(1, length) for length in p.lengths[0]]
    x, full, cut = pairs(lengths, p.size, p.seed), {}, {}
    want, mask = net(*x, trace=full), x[2]
    ids, segment, _ = pairs([p.size] * p.b, p.size, p.seed + 1)
    filled = torch.where(mask, x[0], ids), torch.where(mask, x[1], segment), mask
    scale = 1 + want.detach().abs().max().item()                       # as typeset, coverage may diverge
    same(net(*filled), want, 1e-10 * scale)
    for b, length in enumerate(lengths):
        same(net(*(part[b:b + 1, :length] for part in x), trace=cut), want[b:b + 1], 1e-10 * scale)
        for name in full.keys() & {"reading", "coverage", "mixture"}:
            part = full[name][b] if name == "mixture" else full[name][b, ..., :length]
            same(cut[name][0], part, 1e-10 * (1 + part.abs().max().item()))


def test_padding_never_reaches_a_gru():
    """Not a number stands at padding; states, and gradients of words and weights, are those without it."""
    grus, lengths = dense_grus(D), [N, 4, 1]
    mask, x = prefix(lengths, N), normal(B, N, D)
    x = torch.where(mask[..., None], x, math.nan).requires_grad_()
    out = stacked_gru(x, mask, grus)
    assert out.isfinite().all() and (out[~mask] == 0).all()
    out.square().sum().backward()
    assert (x.grad[~mask] == 0).all() and (x.grad[mask] != 0).all()
    assert all(weight.grad.isfinite().all() for gru in grus for weight in gru.parameters())


def test_stacked_gru_reads_in_one_direction():
    """A word changes its own state and those behind it, in no other sentence."""
    x, grus, mask = normal(B, N, D), dense_grus(D), prefix([N, N, N], N)
    more = x.clone()
    more[1, 3] += 1
    changed = (stacked_gru(more, mask, grus) != stacked_gru(x, mask, grus)).any(-1)
    assert changed.tolist() == [[False] * N, [False] * 3 + [True] * 4, [False] * N]


@pytest.mark.parametrize("kernel", [2, 3])
def test_phrase_cnn_sees_its_window_and_no_padding(kernel):
    """Kernel K twice: t - (K - 1) to t + (K - 1), exactly; what a masked token holds passes through no layer."""
    convolved, hidden = convolutions(kernel, middle=97), normal(1, N, D).requires_grad_()
    whole, mask = torch.ones(1, N, dtype=torch.bool), torch.ones(1, N, dtype=torch.bool)
    mask[0, 2] = mask[0, 5:] = False
    for real in (whole, mask):
        out = phrase_cnn(hidden, real, *convolved)
        for t in range(N):
            grad, = torch.autograd.grad(out[0, t].square().sum(), hidden, retain_graph=True)
            seen = [bool(real[0, t] and real[0, s] and abs(s - t) < kernel) for s in range(N)]
            if kernel == 2 or real is whole:
                assert (grad[0] != 0).any(-1).tolist() == seen
            assert not (grad[0][~real[0]] != 0).any() and (grad[0] != 0).any(-1).tolist()[t] == real[0, t]
    filled = torch.where(mask[..., None], hidden.detach(), 1e3)
    assert torch.equal(phrase_cnn(filled, mask, *convolved), phrase_cnn(hidden.detach(), mask, *convolved))


# ---- Properties: weights --------------------------------------------------------------------------------------------

def rows_sum_to_one(weights, mask):
    """mask, of a shape that fits weights: where it is False, exactly 0. A row without a key is 0, others sum to 1."""
    mask = mask.expand_as(weights)
    assert (weights[~mask] == 0).all() and (weights >= 0).all()
    same(weights.sum(-1), mask.any(-1).to(weights.dtype), 1e-12)


@quick
@given(batches(), st.sampled_from([frozenset(), frozenset({6})]))
def test_drrnet_weights(p, printed):
    x, trace = sentences(p.lengths, p.size, seed=p.seed), {}
    drr(p.seed, printed=printed)(*x, trace)
    rows_sum_to_one(trace["pooling"], x[-1])
    rows_sum_to_one(trace["reading"], x[-1][:, :, None])
    assert trace["reading"].shape == (2, p.b, 3, p.size)
    assert trace["gates"].shape == (p.b, 2) and ((trace["gates"] > 0) & (trace["gates"] < 1)).all()


@quick
@given(batches(), st.sampled_from(SETS_14 + [frozenset({13})]))
def test_ladranet_weights(p, printed):
    x, trace = pairs(p.lengths[0], p.size, p.seed), {}
    ladra(p.seed, printed=printed)(*x, trace=trace)
    mask = x[2]
    rows_sum_to_one(trace["pooling"], mask)
    rows_sum_to_one(trace["reading"], mask[:, None, None])
    rows_sum_to_one(trace["mixture"], torch.tensor([12 not in printed, True, True]))
    assert trace["layers"].shape == (3,) and trace["pooling"].shape == (2, p.b, p.size)
    assert trace["reading"].shape == trace["coverage"].shape == (p.b, 5, 3, p.size)
    assert trace["mixture"].shape == (p.b, 5, 3)


def test_special_tokens_may_be_chosen():
    """Every real token of the pair has a weight, [CLS] and both [SEP] as well."""
    net, x, trace = ladra(scale=0.1), pairs([N, 5, 3], N), {}
    net(*x, trace=trace)
    assert ((trace["reading"] > 0) == x[2][:, None, None]).all()


def test_choose_computes_scores_wide():
    """Keys and clue in bfloat16, but sum, tanh and softmax in float32, in an autocast region as well."""
    narrow, w_d = [normal(*size).bfloat16() for size in ((1, N, D), (1, N, A), (1, A))], nn.Linear(A, 1, bias=False)
    with torch.autocast("cpu", torch.bfloat16):
        chosen, weights, m = choose(*narrow[:2], torch.ones(1, N, dtype=torch.bool), narrow[2], w_d, 100.0)
    want = [dot(w_d.weight[0].tolist(), tanh_loop(add(key, narrow[2][0].tolist()))) for key in narrow[1][0].tolist()]
    assert m.dtype == weights.dtype == torch.float32 and chosen.dtype == torch.bfloat16
    same(m[0], want, 1e-6)
    same(weights[0], softmax_loop([100 * score for score in m[0].tolist()], [True] * N), 1e-5)


@pytest.mark.parametrize("without", DRR_FORMS, **all_ids)
def test_swapped_sentences(without):
    """Encodings and readings exchange places. Not the logits: a and b have places in [a; b; a ⊙ b; b - a]."""
    net, x, one, two = drr(without=without), sentences([[5, 1, 2], [3, 5, 1]], 5), {}, {}
    assert far(net(*x, one), net(*(part.flip(0) for part in x), two))
    for name in one.keys() - {"relations", "gates"}:
        same(two[name].flip(0), one[name], 1e-12)
    a, b = normal(B, D, seed=1), normal(B, D, seed=2)
    first, second, product, difference = matching(b, a).split(D, -1)
    same(torch.cat([second, first, product, -difference], -1), matching(a, b), 0.0)


@pytest.mark.parametrize("without, moves", [
    (frozenset(), True), (frozenset({"guide-vector"}), False)], ids=["guided", "guide-vector"])
def test_the_other_sentence_guides_the_reading(without, moves):
    """Another sentence b changes what is read in a; without the guide vector it does not."""
    x = sentences([[5] * B, [5] * B], 5)
    other = [torch.stack([part[0], part[1].flip(1)]) for part in x]
    read = []
    for arguments in (x, other):
        trace = {}
        drr(without=without)(*arguments, trace)
        read.append(trace["reading"][0])
    assert far(*read) if moves else torch.equal(*read)


# ---- Properties: what is printed ------------------------------------------------------------------------------------

def test_eq_5_as_typeset_is_always_the_first_word():
    """DRr-Net Eq. (5): ᾱ is a sum over all words, the number 1. Eq. (6) with a big β chooses what its text says."""
    states, W_d, w_d = normal(B, N, D), large(nn.Linear(D, A, bias=False)), large(nn.Linear(A, 1, bias=False), 2)
    mask, clue, best = torch.ones(B, N, dtype=torch.bool), normal(B, A, seed=1), []
    chosen, weights, m = choose(states, W_d(states), mask, clue, w_d, 1e8)
    for b in range(B):
        alpha, word = typeset_5_loop(states[b].tolist(), m[b].tolist())
        assert len(alpha) == 1 and alpha[0] == pytest.approx(1) and word == states[b, 0].tolist()
        best.append(m[b].tolist().index(max(m[b].tolist())))
        assert weights[b].tolist() == [float(i == best[-1]) for i in range(N)]
        assert torch.equal(chosen[b], states[b, best[-1]])
    assert any(best)


@pytest.mark.parametrize("method", ["drrnet", "ladranet"])
def test_arbitrarily_big_beta_is_an_arg_max_without_gradient(method):
    """DRr-Net Eq. (6), LadRa-Net Eq. (13): as typeset nothing of the choice learns; intended all of it does."""
    for printed in (False, True):
        trace = {}
        if method == "drrnet":
            net, x = drr(printed={6} if printed else ()), sentences([[5, 3, 2], [3, 5, 2]], 5)
            choices, names = [net.choice], ["W_d", "U_d", "M_d", "w_d"]
        else:
            net, x = ladra(printed={13} if printed else ()), pairs([N, 5, 3], N)
            choices, names = list(net.choices)[1:], ["W_d", "U_d", "M_d", "V_d", "w_d"]
        net(*x, trace=trace).square().sum().backward()
        weights = trace["reading"]
        assert ((weights == 0) | (weights == 1)).all() == printed and net.beta == (1e8 if printed else 2.0)
        for choice, name in itertools.product(choices, names):
            assert (getattr(choice, name).weight.grad.abs().max() < 1e-12) == printed, name


SENTENCES = [   # the paper's Table VIII
    ("a couple walk hand in hand down a street .", "a couple is sitting on a bench ."),
    ("a person in a red shirt and black pants hunched over .", "a person wears a red shirt ."),
    ("a person with a purple shirt is painting an image of a woman on a white wall .",
     "a woman paints a portrait of her best friend ."),
    ("the man in the black t-shirt is trying to throw something .", "the man is in a black shirt ."),
    ("a person with a purple shirt is painting an image of a woman on a white wall .",
     "a woman paints a portrait of a person .")]


def real_sentences():
    """Arguments of DrrNet.forward from the paper's examples; tags by a word's number, for want of a tagger."""
    vocabulary = sorted({word for pair in SENTENCES for text in pair for word in text.split()})
    n, c = 19, 9
    arguments = [torch.zeros(2, 5, n, dtype=torch.int64), torch.zeros(2, 5, n, c, dtype=torch.int64)]
    tags, match, mask = (torch.zeros(2, 5, n, dtype=kind) for kind in (torch.int64, torch.bool, torch.bool))
    for b, side in itertools.product(range(5), range(2)):
        for i, word in enumerate(SENTENCES[b][side].split()):
            number = vocabulary.index(word)
            arguments[0][side, b, i], tags[side, b, i], mask[side, b, i] = 2 + number, number % 17, True
            arguments[1][side, b, i, :len(word)] = torch.tensor([ord(letter) - 43 for letter in word])
            match[side, b, i] = word in SENTENCES[b][1 - side].split()
    return [*arguments, tags, match, match & False, mask], 2 + len(vocabulary)


def largest_weights(method, beta):
    """The largest weight of each choice and its slope, at the initial values of the whole-sized model, on the paper's
    examples: DRr-Net with vectors of GloVe's size, LadRa-Net on an encoder of random weights."""
    torch.manual_seed(1)
    x, words = real_sentences()
    sharp, trace = type("Sharp", (method,), {"BETA": beta}), {}
    if method is DrrNet:
        net = sharp(words, 80, 3, vectors=torch.randn(words, 300) * 0.4)
        choices = [net.choice]
    else:
        net = sharp(config(vocab_size=words, hidden_size=256, num_heads=4, num_layers=2, max_length=40), 3)
        ids, mask = x[0].transpose(0, 1).flatten(1), x[-1].transpose(0, 1).flatten(1)
        choices, x = net.choices, [ids, (torch.arange(38) >= 19).long().expand(5, -1), mask]
    nn.functional.cross_entropy(net(*x, trace=trace), torch.tensor([2, 0, 1, 0, 1])).backward()
    slopes = [part.weight.grad.abs().max().item() for choice in choices for part in choice.children()]
    return trace["reading"].amax(-1), slopes


@pytest.mark.parametrize("method", [DrrNet, LadraNet])
def test_default_beta_chooses_one_word_and_learns(method):
    """The largest weight is above 0.9 more often than not, with a gradient; at 10, far from one word, it is not."""
    largest, slopes = largest_weights(method, method.BETA)
    assert largest.median() > 0.9 and min(slopes) > 1e-7
    largest, _ = largest_weights(method, 10.0)
    assert largest.median() < 0.9 and largest.min() < 0.5


@pytest.mark.parametrize("steps", [5, 31])
def test_coverage_as_typeset_reads_one_word_for_ever(steps):
    """LadRa-Net Eq. (14): with all scores negative, the word chosen first is chosen always. Intended, all are read."""
    M, mask = dsa_material(kernels=0), torch.ones(B, N, dtype=torch.bool)
    choice = M.choices[0]
    for part in (choice.U_d, choice.M_d, M.W_phi):
        part.weight.data.zero_()
    M.states[0] = M.states[0].abs() + 0.1                              # m̄ = -Σ tanh(positive numbers)
    choice.W_d.weight.data.abs_()
    choice.w_d.weight.data.abs_().neg_()
    _, seen = run_dsa(M, mask, steps, 1e4, {14})
    first = seen["reading"][:, 0, 0].argmax(-1)
    assert (seen["reading"][:, :, 0].argmax(-1) == first[:, None]).all()
    assert (seen["coverage"] >= 1).all() and (seen["coverage"].diff(dim=1) > 0).all()       # and |c m̄| grows
    _, seen = run_dsa(M, mask, steps, 1e4)
    read = seen["reading"][:, :, 0].argmax(-1)
    limit = math.ceil(steps / 2)                                       # φ = T σ(0)
    for b in range(B):
        assert max(read[b].tolist().count(word) for word in range(N)) == limit and len(read[b].unique()) == 2


def test_coverage_as_typeset_diverges():
    """LadRa-Net Eq. (14): a score of 3φ multiplies what is left by -2 at each step; -2, 4, -8. Intended: 0 at once."""
    phi, mask, w_d = torch.full((1, 2), 0.25), torch.ones(1, 2, dtype=torch.bool), nn.Linear(1, 1, bias=False)
    w_d.weight.data.fill_(1.0)
    keys, states = torch.tensor([[[math.atanh(0.75)], [0.0]]]), torch.zeros(1, 2, 1)
    left, seen = torch.ones(1, 2), []
    for _ in range(5):
        _, _, m = choose(states, keys, mask, torch.zeros(1, 1), w_d, 1.0, left, printed=True)
        left = coverage(left, m, phi, mask, printed=True)
        seen.append(left[0].tolist())
    same(torch.tensor(seen), [[-2, 1], [4, 1], [-8, 1], [16, 1], [-32, 1]], 1e-4)


def test_negative_score_shrunk_by_coverage_is_raised():
    """LadRa-Net Eq. (14) as typeset: reading a word of negative score makes it more likely; intended, less."""
    states, keys, mask = torch.zeros(1, 2, 1), torch.full((1, 2, 1), -1.0), torch.ones(1, 2, dtype=torch.bool)
    w_d, left = nn.Linear(1, 1, bias=False), torch.tensor([[0.5, 1.0]])
    w_d.weight.data.fill_(1.0)
    for printed in (True, False):
        _, weights, _ = choose(states, keys, mask, torch.zeros(1, 1), w_d, 5.0, left, printed)
        assert (weights[0, 0] > weights[0, 1]) == printed


@settings(quick, max_examples=40)
@given(st.lists(st.integers(0, N), min_size=B, max_size=B), st.integers(1, 9), st.sampled_from([1.0, 100.0, 1e8]),
       st.integers(0, 999), st.sampled_from([0.1, 0.7, 3.0]))
def test_intended_coverage(lengths, steps, beta, seed, scale):
    """c lies in (-1/φ, 1]. A spent word has weight exactly 0; between two starts its weights sum to less than φ + 1;
    with an arg-max it is read ⌈φ⌉ times at most. When all are spent they start anew, so that one can be read always."""
    M, mask = dsa_material(seed=seed, scale=scale), prefix(lengths, N)
    _, seen = run_dsa(M, mask, steps, beta)
    phi = torch.stack([read_limit(x, M.W_phi, steps) for x in M.states], 1)
    before, used, times = (torch.full_like(phi, start) for start in (1.0, 0.0, 0.0))
    for t in range(steps):
        weights, after = seen["reading"][:, t], seen["coverage"][:, t]
        assert (weights[before <= 1e-6] == 0).all()
        used, times = used + weights, times + (weights > 0.5)
        assert (used < phi + 1).all() and (beta < 1e8 or (times <= phi.ceil()).all())
        assert (after > -1 / phi).all() and (after <= 1).all()
        spent = ((before - weights / phi <= 1e-6) | ~mask[:, None]).all(-1)
        same(after, torch.where(spent[..., None], 1.0, before - weights / phi), 1e-12)
        used[spent], times[spent], before = 0.0, 0.0, after
        assert ((after > 1e-6) & mask[:, None]).any(-1)[mask.any(1)].all()
    rows_sum_to_one(seen["reading"], mask[:, None, None])


# ---- Properties: numbers --------------------------------------------------------------------------------------------

def finite(net, out):
    out.float().square().sum().backward()
    return out.isfinite().all() and all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)


EXTREMES = {"plain": {}, "large": {"w_d": 1e5}, "saturated": {"W_d": 1e5, "w_d": 1e5, "W": 1e5, "w": 1e5},
            "small": {"w_d": 1e-3}}


def scaled(net, factors):
    """float32, with the weights of these names multiplied."""
    for name, parameter in net.float().named_parameters():
        for part in set(name.split(".")) & factors.keys():
            parameter.data *= factors[part]
    return net


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("lengths, size", [([[0, 1, 5], [5, 0, 1]], 5), ([[0, 0], [0, 0]], 1), ([[1], [1]], 1)],
                         ids=["ragged", "empty", "one"])
def test_drrnet_has_no_nan(extreme, narrow, lengths, size):
    """Empty sentences, one word, scores of 1e5 and more, bfloat16: outputs and gradients are finite."""
    for options in ({}, {"printed": {6}}, {"classes": 1}):
        net = scaled(drr(method=type("Sharp", (SmallDrr,), {"BETA": DrrNet.BETA}), **options), EXTREMES[extreme])
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            out = net(*sentences(lengths, size))
        assert finite(net, out)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("lengths, size", [([N, 0, 1], N), ([0, 0], 1), ([1], 1)], ids=["ragged", "empty", "one"])
def test_ladranet_has_no_nan(extreme, narrow, lengths, size):
    """As above. As typeset {14}, scores of 1e5 diverge, so it is tried with small ones."""
    forms = [{}, {"printed": {12, 13}}, {"without": {"bert"}}, {"without": {"phrase-cnn"}, "printed": {12}}]
    for options in forms + [{"printed": {12, 13, 14}}] * (extreme in ("plain", "small")):
        net = scaled(ladra(method=LadraNet, **options), EXTREMES[extreme])
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            out = net(*pairs(lengths, size))
        assert finite(net, out)


def run_with(net, arguments):
    """The network as a function of its parameters."""
    names, values = zip(*((name, p) for name, p in net.named_parameters() if p.requires_grad))
    return lambda *parameters: torch.func.functional_call(net, dict(zip(names, parameters)), arguments), values


@pytest.mark.parametrize("classes, without", [(2, set()), (1, {"initial-vector", "guide-vector"})], ids=str)
def test_drrnet_gradcheck(classes, without):
    x = sentences([[3, 1], [2, 4]], 4, c=2)
    x[1] = x[1].clamp(min=1)                                           # padding of words is a constant, not a parameter
    function, values = run_with(drr(classes=classes, without=without, scale=0.5), tuple(x))
    assert torch.autograd.gradcheck(function, values, fast_mode=True)


@pytest.mark.parametrize("printed, without", [
    (set(), set()), ({12, 14}, set()), (set(), {"bert"}), (set(), {"phrase-cnn", "average-pooling"})], ids=str)
def test_ladranet_gradcheck(printed, without):
    method = type("Short", (SmallLadra,), {"STEPS": 3})
    net = large(method(config(num_layers=1), 2, printed, without, attention_size=3), scale=0.3)
    function, values = run_with(net, tuple(pairs([4, 2], 4)))
    assert torch.autograd.gradcheck(function, values, fast_mode=True)


# ---- Options and parameters -----------------------------------------------------------------------------------------

def test_declared_options():
    """What the command line offers is what the page names: Tables VI and VII; EQUATIONS.md."""
    assert (DrrNet.PRINTED, LadraNet.PRINTED) == ({6}, {12, 13, 14})
    assert DrrNet.ABLATIONS == {"initial-vector", "guide-vector", "global", "reread"}
    assert LadraNet.ABLATIONS == {"phrase-cnn", "dsa", "global", "bert", "average-pooling"}
    assert (DrrNet.PRIOR, LadraNet.PRIOR) == ("words", None)


def test_drrnet_options_change_the_result():
    """No option is ignored: each form of one set of weights gives another result."""
    x, results = sentences([[5, 4, 2], [3, 5, 3]], 5), {}
    for options in [dict(without=form) for form in DRR_FORMS] + [dict(printed={6})]:
        results[str(options)] = drr(**options)(*x)
    for (one, x), (two, y) in itertools.combinations(results.items(), 2):
        assert far(x, y), f"{one} and {two} agree"


def test_ladranet_options_change_the_result():
    x, results = pairs([N, 5, 4], N), {}
    for printed, without in LADRA_FORMS:
        results[f"{set(printed)} {set(without)}"] = ladra(printed=printed, without=without)(*x)
    for (one, x), (two, y) in itertools.combinations(results.items(), 2):
        assert far(x, y), f"{one} and {two} agree"


@pytest.mark.parametrize("make, options, said", [
    (drr, {"printed": {5}}, "--printed 5: drrnet knows 6"), (drr, {"without": {"dsa"}}, "--without dsa: drrnet knows"),
    (drr, {"without": {"global", "reread"}}, "global.*reread"),
    (ladra, {"printed": {6}}, "--printed 6: ladranet knows 12, 13, 14"),
    (ladra, {"without": {"guide"}}, "--without guide: ladranet knows average-pooling, bert"),
    (ladra, {"without": {"dsa", "global"}}, "dsa.*global")], ids=lambda x: getattr(x, "__name__", str(x)))
def test_unknown_options(make, options, said):
    with pytest.raises(ValueError, match=said):
        make(method=DrrNet if make is drr else LadraNet, **options)


@pytest.mark.parametrize("mask", [torch.ones(2, B, 5), torch.ones(2, B, 4, dtype=torch.bool)], ids=["float", "shorter"])
def test_drrnet_refuses_masks(mask):
    with pytest.raises(ValueError, match=r"DrrNet: mask .*\(2, 3, 5\)"):
        drr()(*sentences([[5, 4, 2], [3, 5, 3]], 5)[:-1], mask)


def silent(net):
    """Names of parameters without a gradient, or with zero."""
    return {name for name, p in net.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-12}


@pytest.mark.parametrize("without", DRR_FORMS, **all_ids)
@pytest.mark.parametrize("classes", [C, 1])
def test_every_parameter_of_drrnet_learns(without, classes):
    """And padding of both tables does not."""
    net, x = drr(classes=classes, without=without), sentences([[5, 4, 2], [3, 5, 3]], 5)
    net(*x).square().sum().backward()
    assert silent(net) == set()
    assert (net.words.weight.grad[0] == 0).all() and (net.characters.weight.grad[0] == 0).all()


LEARNS_NOTHING = [   # ablations, and what they leave to learn nothing: a mixture of one part; h⁰ that nobody reads
    ((), ("bert.pooler.", "key.bias")), (("bert",), ("bert.layers.",)), (("phrase-cnn",), ("W_f.", "w_f.")),
    (("phrase-cnn", "dsa"), ("alpha",))]


@pytest.mark.parametrize("printed, without", [form for form in LADRA_FORMS if 13 not in form[0] and form != (
    {12}, {"phrase-cnn"})], **all_ids)
def test_every_parameter_of_ladranet_learns(printed, without):
    """All but the encoder's pooler, which is for others, and a key's bias, which always cancels; and LEARNS_NOTHING."""
    net, x = ladra(printed=printed, without=without, scale=0.3), pairs([N, 5, 4], N)
    net(*x).square().sum().backward()
    allowed = [part for ablation, parts in LEARNS_NOTHING if set(ablation) <= without for part in parts]
    assert [name for name in silent(net) if not any(part in name for part in allowed)] == []


def test_vectors_are_fixed():
    """Given vectors are used as they are and never learn; without them 300 numbers a word do."""
    vectors = normal(19, 13, seed=3)
    net, x = drr(vectors=vectors.clone()), sentences([[5, 4, 2], [3, 5, 3]], 5)
    before = net(*x)
    before.square().sum().backward()
    for parameter in net.parameters():
        if parameter.requires_grad:
            parameter.data -= 0.1 * parameter.grad
    assert torch.equal(net.words.weight, vectors) and net.words.weight.grad is None and far(net(*x), before)
    assert "words.weight" in net.state_dict()
    moved = drr(vectors=vectors + 1)(*x)
    assert far(moved, before)
    with torch.device("meta"):
        learned = DrrNet(5, 7, 2).words.weight
    assert learned.shape == (5, 300) and learned.requires_grad


@pytest.mark.parametrize("classes", [C, 1])
def test_grus_and_probabilities_stay_wide(classes):
    """In an autocast region DRr-Net's GRUs (float16 on a GPU else) and Eq. (8) compute in float32, the rest does not."""
    net, seen = drr(classes=classes).float(), {}
    for name in ("grus.0", "grus.1", "mlp.0", "w_h", "w_v", "mlp_h.0"):
        net.get_submodule(name).register_forward_hook(lambda module, given, out, name=name: seen.update(
            {name: (torch.is_autocast_enabled("cpu"), given[0].data.dtype)}))
    with torch.autocast("cpu", torch.bfloat16):
        assert net(*(x.float() if x.is_floating_point() else x for x in sentences([[5, 4, 2], [3, 5, 3]], 5))).dtype == torch.float32
    assert seen.pop("mlp_h.0")[0]
    assert set(seen.values()) == {(False, torch.float32)} and len(seen) == 5


def test_a_score_is_linear():
    """One class: the end is linear, not a softmax of one number; what enters Eq. (8) are scores of either sign."""
    for net, x in ((drr(classes=1), sentences([[5, 4, 2], [3, 5, 3]], 5)), (ladra(classes=1), pairs([N, 5, 4], N))):
        before = net(*x)
        assert before.shape == (B, 1) and far(before, before.roll(1, 0))
        with torch.no_grad():
            net.mlp[-1].weight *= -1000
            net.mlp[-1].bias *= -1000
        same(net(*x), -1000 * before, 1e-6)
    net = drr(classes=1)
    net.w_h.bias.data.fill_(1e9), net.w_v.bias.data.fill_(-1e9)        # only p^h passes
    kept = []
    net.mlp.register_forward_hook(lambda module, given, out: kept.append(given[0]))
    net(*sentences([[5, 4, 2], [3, 5, 3]], 5))
    net.mlp_h[-1].bias.data += 50
    net(*sentences([[5, 4, 2], [3, 5, 3]], 5))
    same(kept[1], kept[0] + 50)


def test_features_of_a_word_count():
    """Word, characters, tag, exact match and antonym of a word each change the result, of its pair alone."""
    net, x = drr(), sentences([[5, 4, 2], [3, 5, 3]], 5)
    before, results = net(*x), []
    for i, part in enumerate(x[:-1]):
        changed = part.clone()
        if part.dtype == torch.bool:
            changed[0, 0, 1] = ~changed[0, 0, 1]
        else:
            changed[0, 0, 1] = part[0, 0, 1] % 6 + 1 if i else (part[0, 0, 1] + 1) % 19
        results.append(net(*x[:i], changed, *x[i + 1:]))
        assert far(results[-1][0], before[0]) and torch.equal(results[-1][1:], before[1:])
    for one, two in itertools.combinations(results, 2):
        assert far(one, two)


def test_sizes_of_table_1():
    """DRr-Net: 300, 100, 256, 200, 3 layers, T = 6, § IV-D's MLPs. LadRa-Net: 2 and 3, 500 and 768, T = 5."""
    with torch.device("meta"):
        net = DrrNet(7, 5, 3)
        ladra_net = LadraNet(config(hidden_size=768, num_heads=12, intermediate_size=1), 3)
    assert net.words.weight.shape == (7, 300) and net.characters.weight.shape == (5, 100) and net.STEPS == 6
    assert net.cnn.weight.shape == (100, 100, 5) and len(net.W_t) == len(net.W_h) == 2
    assert [gru.weight_ih_l0.shape for gru in net.grus] == [(768, 419), (768, 675), (768, 931)]
    assert not any(gru.bidirectional for gru in net.grus)
    assert net.W.weight.shape == (256, 1187) and net.w.weight.shape == (1, 256) and net.w.bias is None
    assert net.choice.W_d.weight.shape == net.choice.M_d.weight.shape == (200, 1187)
    assert net.choice.U_d.weight.shape == (200, 256) and net.choice.w_d.weight.shape == (1, 200)
    assert all(choice.bias is None for choice in net.choice.children())
    for mlp, width in ((net.mlp_h, 4 * 1187), (net.mlp_v, 4 * 256), (net.mlp, 3)):
        assert [type(part) for part in mlp] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
        assert mlp[0].in_features == width and mlp[-1].out_features == 3
    assert [layer.weight.shape for layer in ladra_net.first] == [(500, 768, 2), (500, 768, 3)]
    assert [layer.weight.shape for layer in ladra_net.second] == [(768, 500, 2), (768, 500, 3)]
    assert ladra_net.STEPS == 5 and ladra_net.gru.weight_ih.shape == (3 * 768, 768) and len(ladra_net.choices) == 3
    assert all(choice.W_d.weight.shape == (200, 768) for choice in ladra_net.choices)
    assert [type(part) for part in ladra_net.mlp] == [nn.Linear, nn.ReLU, nn.Linear]


def test_initial_values():
    """§ VI-B: uniform within ±√(6 / (n_in + n_out)), biases 0. LadRa-Net's layers start with an equal share."""
    torch.manual_seed(0)
    net = DrrNet(997, 97, 3, vectors=torch.ones(997, 7))
    for name, p in net.named_parameters():
        if name.endswith("bias") or "bias_" in name:
            assert (p == 0).all(), name
        elif name.startswith(("W", "grus", "gru.", "choice", "cnn", "mlp", "w_")) or name == "w.weight":
            n_out, n_in = p.shape[0] // (3 if name.startswith("gru") else 1) * p[0, 0].numel(), p[0].numel()
            bound = (6 / (n_in + n_out)) ** 0.5
            assert p.abs().max() <= bound and (p.numel() < 1000 or p.abs().max() > 0.99 * bound), name
            assert p.numel() < 1000 or abs(p.abs().mean() - bound / 2) < 0.02 * bound, name
    assert (net.words.weight == 1).all() and (net.characters.weight[0] == 0).all()
    small = SmallDrr(5, 7, 3)
    for table in (small.words.weight, small.characters.weight):
        assert (table[0] == 0).all() and (table[1:] != 0).all()
    same(LadraNet(config(), 3).alpha.detach(), [1 / 3] * 3, 1e-7)


def test_dropout_in_training_only():
    """On the words and on both matchings of DRr-Net; LadRa-Net has its encoder's."""
    x = sentences([[5, 4, 2], [3, 5, 3]], 5)
    for without in (set(), {"global"}, {"reread"}):
        net = drr(dropout=0.5, without=without)
        assert torch.equal(net(*x), net(*x)) and torch.equal(net(*x), drr(without=without)(*x))
        net.train()
        assert far(net(*x), net(*x))
    sizes, net = [], drr(dropout=0.5).train()
    net.dropout.register_forward_hook(lambda module, given, out: sizes.append(out.shape[-1]))
    net(*x)
    words = 5 + 2 + 7 + 2
    assert sizes == [words, 4 * (words + 3 * HIDDEN), 4 * HIDDEN]
    net = large(SmallLadra(config(dropout=0.5), 3, attention_size=A))
    y = pairs([N, 5, 4], N)
    assert torch.equal(net(*y), net(*y))
    net.train()
    assert far(net(*y), net(*y))


def test_trace_holds_tensors_without_their_graph():
    one, two = {}, {}
    drr()(*sentences([[5, 4, 2], [3, 5, 3]], 5), one)
    ladra()(*pairs([N, 5, 4], N), trace=two)
    assert [name for trace in (one, two) for name, value in trace.items() if value.requires_grad] == []


def test_word_index_is_not_used():
    """The batch carries it; LadRa-Net reads tokens."""
    net, x = ladra(), pairs([N, 5, 4], N)
    assert torch.equal(net(*x, word_index=x[0] * 3), net(*x))
