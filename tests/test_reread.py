"""reread.py against its page: oracles in plain loops (oracles/), sizes, weights.

Most equations have the oracle of their model, whose trace is compared too.
"""
import pytest
import torch
from torch import nn

from methods import (HIDDEN, against, config, drr, equation, ladra, large,
                     linear, lists, looked, normal, pairs, prefix, same,
                     sentences, silent, vocabulary, weights_of)
from oracles import drrnet, ladranet
from reread import DrrNet, LadraNet

B, N, D = 3, 7, 10
DRR_FORMS = [set(), *({part} for part in sorted(DrrNet.ABLATIONS)),
             {"initial-vector", "guide-vector"}]
LADRA_FORMS = [*((form, set()) for form in [set(), {12}, {13}, {14}, {12, 14}, {12, 13, 14}]),
               *((set(), {part}) for part in sorted(LadraNet.ABLATIONS)),
               ({14}, {"bert", "phrase-cnn"})]


def test_stacked_gru_oracle():
    x, lengths = normal(B, N, D), [4, N, 0]
    grus = [large(nn.GRU(D + l * HIDDEN, HIDDEN, batch_first=True), l) for l in range(3)]
    got = equation("drrnet", "stacked_gru")(x, prefix(lengths, N), grus)
    for b, length in enumerate(lengths[:2]):
        same(got[b, :length], drrnet.stacked_gru(x[b, :length].tolist(), list(map(lists, grus))))
    assert (got[~prefix(lengths, N)] == 0).all()


def sentence_of(parts):
    """One sentence of a batch, as lists without padding."""
    return [(word, [c for c in letters if c], *rest) for word, letters, *rest, real in zip(*parts)
            if real]


@pytest.mark.parametrize("classes, printed, without", [
    *((3, (), form) for form in DRR_FORMS), *((1, {6, 8}, form) for form in DRR_FORMS)])
def test_drrnet_oracle(classes, printed, without):
    """Each ablation, with classes and with a score; the trace; all weights but padding's learn.
    Behind P stand the logits of p^h and p^v, in training too; as printed, P is alone."""
    net = drr(classes=classes, printed=printed, without=without)
    x = sentences([[5, 1, 2], [3, 5, 1]])
    (got, trace), P, beta = looked(net, *x), weights_of(net), 1e8 if printed else 2.0
    assert torch.equal(got, net.train()(*x)) and (silent(net, got) == set() or printed)
    sides = [] if printed else trace["relations"].unbind(1)
    assert len(got) == 1 + len(sides) and all(map(torch.equal, got[1:].softmax(-1), sides))
    assert not net.words.weight.grad[0].any() and not net.characters.weight.grad[0].any()
    for b in range(B):
        pair = [sentence_of(part[side, b].tolist() for part in x) for side in (0, 1)]
        want, seen = drrnet.model(P, pair, classes, 3, beta, without)
        same(got[0, b], want)
        same(trace["relations"][b], seen["relations"])
        same(trace["gates"][b], seen["gates"])
        for side, sentence in enumerate(pair):
            same(trace["pooling"][side, b, :len(sentence)], seen["pooling"][side])
            if "reading" in trace:
                same(trace["reading"][side, b, :, :len(sentence)], seen["reading"][side])


@pytest.mark.parametrize("printed, without", LADRA_FORMS, ids=str)
def test_ladranet_oracle(printed, without):
    """Every printed form, each ablation; the trace; all weights learn that the form uses. The pair
    of one token is read anew."""
    net, x = ladra(printed=printed, without=without), pairs([N, 5, 1])
    (got, trace), P, beta = looked(net, *x), weights_of(net), 1e8 if 13 in printed else 2.0
    trace = {name: x for name, x in trace.items() if not isinstance(x, dict)}   # the encoder's
    same(net(*x, word_index=x[0] * 3), got)
    layers = trace.pop("layers", net.mlp[0].bias)
    if "pooling" in trace:
        trace["pooling"] = trace["pooling"].transpose(0, 1)

    def loop(mask, *states):
        want, seen = ladranet.model(P, states, mask, 5, beta, printed, without)
        assert trace.keys() == {name for name, x in seen.items() if x}
        return want, *(seen[name] for name in trace)

    against((got, *trace.values()), loop, x[2], *net.bert(*x)[0])
    same(layers, P.get("alpha", P["mlp"][0][1]), 0.0)
    if not printed:
        idle = {"bert": "bert.layers.", "phrase-cnn": "f.weight", "dsa": "alpha"}   # without these
        unused = [part for key, part in idle.items() if key in without]
        for name in silent(net, net(*pairs([N, 5, 4]))):
            assert any(part in name for part in ("pooler", "key.bias", *unused)), name


def test_a_token_is_read_no_more_often_than_its_limit():
    """LadRa-Net Eq. (14): 1 <= φ <= max(1, T - 1), and ⌈φ⌉ readings in full spend a token."""
    read_limit, coverage, choose = (equation("ladranet", name) for name in
                                    ("read_limit", "coverage", "choose"))
    for steps in (1, 2, 7):
        phi = read_limit(normal(B, N, D, scale=5.0), linear(D, 1, bias=False), steps)
        assert ((phi >= 1) & (phi <= max(1, steps - 1))).all()
    states, phi = normal(1, 2, D), torch.full((1, 2), 3.0).double()
    left, spent = torch.ones(1, 2).double(), []
    for read in 3 * [[1.0, 0.0]] + 3 * [[0.0, 1.0]]:        # 1 - 1/3 - 1/3 - 1/3 is above 0
        left = coverage(left, torch.tensor([read]).double(), phi, phi > 0)
        _, weights, _ = choose(states, states, phi > 0, states[:, 0], linear(D, 1), 1.0, left)
        spent.append((weights == 0).tolist()[0])
    assert spent == 2 * [[False, False]] + 3 * [[True, False]] + [[False, False]]


def test_autocast_leaves_grus():
    """A GPU would give them float16. test_no_nan: scores, and what is near the answer, are wide."""
    net, seen = drr().float(), []
    for gru in net.grus:
        gru.register_forward_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    with torch.autocast("cpu", torch.bfloat16):
        net(*sentences())
    assert seen == [False] * len(net.grus)


def test_sizes_of_table_1():
    """The sizes of Table I, § IV-D's MLPs of two layers, and which maps have a bias."""
    net, big = DrrNet(vocabulary(7, 5), 3), dict(hidden_size=768, num_heads=12, num_layers=1)
    other = LadraNet(config(**big), 3)
    assert (net.steps, net.beta, other.steps, other.beta) == (6, 200.0, 5, 600.0)
    assert (len(net.W_t), len(net.grus), len(other.choices)) == (2, 3, 3)
    shapes = {name: tuple(p.shape) for one in (net, other) for name, p in one.named_parameters()}
    assert shapes == shapes | {
        "words.weight": (7, 300), "characters.weight": (5, 100), "cnn.weight": (100, 100, 5),
        "W_t.1.weight": (419, 419), "grus.2.weight_ih_l0": (768, 931), "W.weight": (256, 1187),
        "choice.M_d.weight": (200, 1187), "choice.U_d.weight": (200, 256), "w.weight": (1, 256),
        "mlp_h.0.weight": (256, 4 * 1187), "mlp_v.4.weight": (3, 256), "mlp.4.weight": (3, 256),
        "first.0.weight": (500, 768, 2), "second.1.weight": (768, 500, 3), "W.0.bias": (200,),
        "choices.2.W_d.weight": (200, 768), "W_f.weight": (200, 768), "W_phi.weight": (1, 768)}
    unbiased = [name for name in shapes if "choice" in name] + ["w", "W_f", "w_f", "W_phi"]
    assert not [name for name in unbiased if name.endswith("bias") or f"{name}.bias" in shapes]


def test_initial_values():
    """§ VI-B: uniform within ±√(6 / (n_in + n_out)), biases 0. LadRa-Net's h⁰ is the mean of the
    blocks, and phrases are as large as tokens."""
    torch.manual_seed(0)
    net = DrrNet(vocabulary(997, 97, torch.ones(997, 7).numpy()), 3)
    for name, p in net.named_parameters():
        if p.dim() == 1:
            assert (p == 0).all(), name
        elif p.requires_grad:
            gates = 3 if "gru" in name else 1
            rows = 1 if name == "characters.weight" else p.shape[0] // gates
            bound = (6 / (p[0].numel() + rows * p[0, 0].numel())) ** 0.5
            assert p.abs().max() <= bound, name
            assert p.numel() < 9000 or abs(p.abs().mean() - bound / 2) < 0.02 * bound, name
    assert (net.characters.weight[0] == 0).all() and (net.characters.weight[1:] != 0).all()
    net, states = LadraNet(config(hidden_size=250), 3), torch.randn(4, 50, 250)
    assert net.alpha.tolist() == pytest.approx([1 / 3] * 3)
    for layers in zip(net.first, net.second):
        phrases = net.phrase_cnn(states, torch.ones(4, 50) > 0, *layers)
        assert phrases.std().item() == pytest.approx(1, rel=0.1)


def test_places_of_dropout():
    """DRr-Net's dropout is on the words and on both matchings; test_methods: in training only."""
    sizes, net = [], drr(dropout=0.5)
    net.dropout.register_forward_hook(lambda module, given, out: sizes.append(out.shape[-1]))
    net(*sentences())
    assert sizes == [5 + 2 + 17 + 2, 4 * (26 + 3 * HIDDEN), 4 * HIDDEN]
