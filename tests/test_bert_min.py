"""bert_min.py against loops written from the papers, transformers' numbers in fixtures/, and broken files.

Oracles are plain Python loops in float64. Sizes are distinct primes where they can be (d = H k cannot).
"""

import dataclasses
import hashlib
import http.server
import json
import math
import random
import shutil
import threading
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bert_min
from bert_min import (Bert, BertConfig, PairTokenizer, SelfAttention, attention_weights, crc32c, download,
                      find_bert, load_bert, longest_first, our_name, overlapped_words, read_checkpoint,
                      read_safetensors, read_tf_checkpoint, unzip)

FIXTURES = Path(__file__).parent / "fixtures"
FOLDERS = ("tiny_bert_tf", "tiny_bert_hf", "tiny_roberta_hf")
TINY = BertConfig(vocab_size=31, hidden_size=21, num_layers=2, num_heads=3, intermediate_size=11, max_length=17)
QUICK = settings(derandomize=True, deadline=None, max_examples=25)


def make(config=TINY, seed=0, scale=0.3, **changes):
    """An encoder in evaluation mode whose weights are large enough to matter."""
    torch.manual_seed(seed)
    bert = Bert(dataclasses.replace(config, **changes)).eval()
    with torch.no_grad():
        for value in bert.parameters():
            value.add_(torch.randn_like(value) * scale)
    return bert


def batch_of(lengths, width, seed=0, vocab=31):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocab, (len(lengths), width), generator=g)
    segment = torch.randint(0, 2, (len(lengths), width), generator=g)
    return ids, segment, torch.arange(width)[None] < torch.tensor(lengths)[:, None]


def copy_fixture(name, folder):
    shutil.copytree(FIXTURES / name, folder)
    return folder


def fails(call, *words):
    """The call raises a ValueError of one line that holds all the words."""
    with pytest.raises(ValueError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert str(word) in text, text


# ---------------------------------------------------------------- published numbers

def test_tf_arrays_are_bit_exact():
    found = read_tf_checkpoint(FIXTURES / "tiny_bert_tf/bert_model.ckpt")
    wanted = np.load(FIXTURES / "tiny_bert_tf_arrays.npz")
    assert set(found) == set(wanted.files)
    for name in wanted.files:
        assert found[name].dtype == wanted[name].dtype and found[name].shape == wanted[name].shape
        assert found[name].tobytes() == wanted[name].tobytes()


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("traced", [False, True])
def test_hidden_states_equal_transformers(name, dtype, tolerance, traced):
    config, arrays = read_checkpoint(FIXTURES / name)
    bert = Bert(config).eval()
    assert load_bert(bert, arrays, name) == []
    bert.to(dtype)
    wanted = np.load(FIXTURES / f"{name[:name.rindex('_')]}_expected.npz")
    ids, mask = torch.tensor(wanted["input_ids"]), torch.tensor(wanted["mask"])
    segment = torch.tensor(wanted["token_type_ids"]) if config.kind == "bert" else torch.ones_like(ids)
    with torch.no_grad():
        states, pooled = bert(ids, segment, mask, trace={} if traced else None)
    assert len(states) == len(wanted["hidden_states"])
    for state, expected in zip(states, wanted["hidden_states"]):
        assert state.dtype == dtype
        real = wanted["mask"]  # transformers gives RoBERTa's padding another position than we do
        assert np.abs(state.numpy() - expected)[real].max() < tolerance
    assert np.abs(pooled.numpy() - wanted["pooled"]).max() < tolerance


def test_roberta_texts_give_the_fixture_ids():
    config = BertConfig.from_json(FIXTURES / "tiny_roberta_hf/config.json")
    assert (config.position_offset, config.max_length, config.segments) == (2, 64, 1)
    tokenizer = PairTokenizer.from_folder(FIXTURES / "tiny_roberta_hf", config)
    wanted = np.load(FIXTURES / "tiny_roberta_expected.npz")
    pairs = [(str(a), None, str(b), None) for a, b in zip(wanted["text_a"], wanted["text_b"])]
    encoded = tokenizer.encode_batch(pairs, 64)
    for (ids, segment, words), row, mask in zip(encoded, wanted["input_ids"], wanted["mask"]):
        assert ids == row[mask].tolist()
        middle = ids.index(2)
        assert ids[middle:middle + 2] == [2, 2]
        assert segment == [0] * (middle + 2) + [1] * (len(ids) - middle - 2)
        assert words == [-1] * len(ids)
    assert tokenizer.pad_id == 1


# ---------------------------------------------------------------- configuration

def test_config_round_trip(tmp_path):
    for config in (TINY, dataclasses.replace(TINY, activation="gelu_tanh", dropout=0.0, lower_case=False),
                   dataclasses.replace(TINY, kind="roberta", segments=1, position_offset=2, activation="relu",
                                       lower_case=False, layer_norm_eps=1e-5)):
        config.to_json(tmp_path / "config.json")
        assert BertConfig.from_json(tmp_path / "config.json") == config


@pytest.mark.parametrize("change", [
    {"hidden_size": 20}, {"num_layers": 0}, {"vocab_size": "97"}, {"max_length": -1}, {"dropout": 1.0},
    {"dropout": "0.1"}, {"attention_dropout": -0.1}, {"activation": "swish"}, {"kind": "electra"},
    {"segments": True}, {"layer_norm_eps": 0.0}, {"position_offset": -1}, {"lower_case": None}])
def test_config_refuses(change):
    name, value = next(iter(change.items()))
    fails(lambda: dataclasses.replace(TINY, **change), "BertConfig", name, repr(value))


def test_config_json_errors_name_the_file(tmp_path):
    path = tmp_path / "config.json"
    good = json.loads((FIXTURES / "tiny_bert_hf/config.json").read_text())
    for text, word in (("{", "JSON"), ("[]", "list"), ("{}", "hidden_size"), ("\xff", "JSON"),
                       (json.dumps({**good, "model_type": "distilbert"}), "distilbert"),
                       (json.dumps({**good, "hidden_act": "silu"}), "silu"),
                       (json.dumps({**good, "hidden_size": 33}), "heads"),
                       (json.dumps({**good, "max_position_embeddings": "48"}), "max_position"),
                       (json.dumps({**good, "position_embedding_type": "relative_key"}), "relative_key")):
        path.write_bytes(text.encode("latin-1"))
        fails(lambda: BertConfig.from_json(path), path, word)
    path.unlink()
    fails(lambda: BertConfig.from_json(path), path)


def test_lower_case_is_found_out(tmp_path):
    folder = copy_fixture("tiny_bert_tf", tmp_path / "m")
    path, vocab = folder / "bert_config.json", folder / "vocab.txt"
    assert BertConfig.from_json(path).lower_case  # [CLS] is no capital
    vocab.write_text(vocab.read_text().replace("##z\n", "Z\n"))
    assert not BertConfig.from_json(path).lower_case
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert BertConfig.from_json(path).lower_case
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": False}))
    assert not BertConfig.from_json(path).lower_case


# ---------------------------------------------------------------- attention and the encoder

masks = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=3, max_size=3)


@QUICK
@given(masks, st.sampled_from([1e-3, 1.0, 1e5]), st.sampled_from(["float32", "float64", "bfloat16", "float16"]),
       st.integers(0, 99))
def test_attention_weights_are_a_masked_softmax(rows, scale, dtype, seed):
    scores = torch.randn(3, 2, 7, 5, generator=torch.Generator().manual_seed(seed)).double() * scale
    scores = scores.clamp(-6e4, 6e4).to(getattr(torch, dtype))
    mask = torch.tensor(rows)
    weights = attention_weights(scores, mask)
    assert weights.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert torch.equal(weights, attention_weights(scores, mask[:, None, None].expand(3, 2, 7, 5)))
    assert torch.equal(weights[:, 0], attention_weights(scores[:, 0], mask))
    for b in range(3):
        for h in range(2):
            for i in range(7):
                row, given_ = scores[b, h, i].double().tolist(), rows[b]
                top = max((s for s, m in zip(row, given_) if m), default=0.0)
                parts = [math.exp(s - top) if m else 0.0 for s, m in zip(row, given_)]
                for j in range(5):
                    if not given_[j]:
                        assert weights[b, h, i, j] == 0.0
                    else:
                        assert weights[b, h, i, j].item() == pytest.approx(parts[j] / sum(parts), abs=1e-6)
                assert weights[b, h, i].sum().item() == pytest.approx(float(any(given_)), abs=1e-6)


def loop_layer(layer, hidden, mask, heads, activation):
    """One encoder layer of one sequence, as the page has it: lists of floats only."""
    def affine(linear, x):
        return [sum(w * v for w, v in zip(row, x)) + b
                for row, b in zip(linear.weight.tolist(), linear.bias.tolist())]

    def norm(module, x):
        mean = sum(x) / len(x)
        variance = sum((v - mean) ** 2 for v in x) / len(x)
        return [(v - mean) / math.sqrt(variance + module.eps) * g + b
                for v, g, b in zip(x, module.weight.tolist(), module.bias.tolist())]

    attention, size = layer.attention, len(hidden[0]) // heads
    q, k, v = ([affine(m, x) for x in hidden] for m in (attention.query, attention.key, attention.value))
    out, maps = [], []
    for i, x in enumerate(hidden):
        mixed = []
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            scores = [sum(a * b for a, b in zip(q[i][part], key[part])) / math.sqrt(size) for key in k]
            parts = [math.exp(s) if m else 0.0 for s, m in zip(scores, mask)]
            maps.append([p / sum(parts) for p in parts])
            mixed += [sum(w * v[j][part][c] for j, w in enumerate(maps[-1])) for c in range(size)]
        x = norm(layer.attention_norm, [a + b for a, b in zip(x, affine(layer.attention_output, mixed))])
        inner = [activation(a) for a in affine(layer.intermediate, x)]
        out.append(norm(layer.output_norm, [a + b for a, b in zip(x, affine(layer.output, inner))]))
    return out, maps


PAGE_ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
    "relu": lambda x: max(0.0, x)}


@pytest.mark.parametrize("activation", sorted(PAGE_ACTIVATIONS))
@pytest.mark.parametrize("traced", [False, True])
def test_layer_equals_loops(activation, traced):
    layer = make(activation=activation).layers[0].double()
    hidden = torch.randn(2, 5, 21, dtype=torch.float64)
    mask = torch.tensor([[True, True, False, True, False], [True] * 5])
    trace = {} if traced else None
    found = layer(hidden, mask, None, trace)
    for b in range(2):
        wanted, maps = loop_layer(layer, hidden[b].tolist(), mask[b].tolist(), 3, PAGE_ACTIVATIONS[activation])
        assert (found[b] - torch.tensor(wanted, dtype=torch.float64)).abs().max() < 1e-12
        if traced:
            maps = torch.tensor(maps, dtype=torch.float64).view(5, 3, 5).transpose(0, 1)
            assert (trace["attention"][b] - maps).abs().max() < 1e-12


def test_embeddings_and_pooler_equal_loops():
    for change in ({}, {"position_offset": 2}, {"segments": 1}):
        bert = make(**change).double()
        ids, segment, mask = batch_of([3, 5], 5)
        states, pooled = bert(ids, segment, mask)
        e = bert.embeddings
        for b in range(2):
            for i in range(5):
                s = 0 if change.get("segments") == 1 else segment[b, i]
                x = e.word.weight[ids[b, i]] + e.segment.weight[s]
                x = x + e.position.weight[i + change.get("position_offset", 0)]
                x = (x - x.mean()) / (x.var(unbiased=False) + 1e-12).sqrt() * e.norm.weight + e.norm.bias
                assert (states[0][b, i] - x).abs().max() < 1e-12
            first = [math.tanh(sum(w * v for w, v in zip(row, states[-1][b, 0].tolist())) + c)
                     for row, c in zip(bert.pooler.weight.tolist(), bert.pooler.bias.tolist())]
            assert (pooled[b] - torch.tensor(first, dtype=torch.float64)).abs().max() < 1e-12


@QUICK
@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.integers(0, 5), st.integers(0, 99),
       st.booleans())
def test_padding_and_neighbours_change_nothing(lengths, extra, seed, traced):
    bert = make(seed=seed).double()
    width = max(1, *lengths, 0) + extra
    ids, segment, mask = batch_of(lengths, width, seed)
    states, pooled = bert(ids, segment, mask, trace={} if traced else None)
    other = torch.where(mask, ids, (ids + 1) % 31)  # other words under the padding
    changed, _ = bert(other, segment, mask)
    for b, n in enumerate(lengths):
        assert torch.isfinite(torch.stack(states)[:, b]).all() and torch.isfinite(pooled[b]).all()
        if n:
            alone, alone_pooled = bert(ids[b:b + 1, :n], segment[b:b + 1, :n], mask[b:b + 1, :n])
            for state, single, moved in zip(states, alone, changed):
                assert (state[b, :n] - single[0]).abs().max() < 1e-11
                assert (state[b, :n] - moved[b, :n]).abs().max() < 1e-11
            assert (pooled[b] - alone_pooled[0]).abs().max() < 1e-11


@QUICK
@given(st.integers(0, 99), st.sampled_from([1.0, 1e5]))
def test_a_trace_does_not_change_the_output(seed, scale):
    bert = make(seed=seed).double()
    with torch.no_grad():
        bert.layers[0].attention.query.weight.mul_(scale)
    ids, segment, mask = batch_of([0, 3, 7], 7, seed)
    trace = {}
    plain, traced = bert(ids, segment, mask)[0], bert(ids, segment, mask, trace=trace)[0]
    for a, b in zip(plain, traced):
        assert torch.isfinite(a).all() and (a - b).abs().max() < 1e-9
    assert sorted(trace) == ["layer0", "layer1"]
    for inner in trace.values():
        attention = inner["attention"]
        assert attention.shape == (3, 3, 7, 7)
        assert (attention[0] == 0).all() and (attention[1, :, :, 3:] == 0).all()
        assert torch.allclose(attention[1:].sum(-1), torch.ones(2, 3, 7, dtype=torch.float64))


def test_rows_without_a_key_are_zero_on_both_paths_with_sound_gradients():
    attention = make().layers[0].attention
    mask = torch.tensor([[False] * 5, [True, False, True, True, False]])
    for trace in (None, {}):
        hidden = torch.randn(2, 5, 21, requires_grad=True)
        out = attention(hidden, mask, None, trace)
        assert (out[0] == 0).all() and (out[1] != 0).any()
        out.square().sum().backward()
        assert torch.isfinite(hidden.grad).all() and (hidden.grad[1] != 0).any()


@pytest.mark.parametrize("traced", [False, True])
def test_gradients(traced):
    layer = make(hidden_size=6, num_heads=2, intermediate_size=5).layers[0].double()
    mask = torch.tensor([[True, True, False], [False, False, False]])
    hidden = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x, mask, None, {} if traced else None), hidden)


def test_dropout_works_in_training_only():
    ids, segment, mask = batch_of([5, 7], 7)
    for change in ({"dropout": 0.5, "attention_dropout": 0.0}, {"dropout": 0.0, "attention_dropout": 0.5}):
        bert = make(**change)
        for trace in (None, {}):
            for training in (False, True):
                bert.train(training)
                one, two = (bert(ids, segment, mask, trace=trace)[1] for _ in range(2))
                assert torch.equal(one, two) != training
    bert = make(dropout=0.0, attention_dropout=0.0).train()
    assert torch.equal(bert(ids, segment, mask)[1], bert(ids, segment, mask)[1])


def test_initial_values():
    torch.manual_seed(0)
    bert = Bert(dataclasses.replace(TINY, vocab_size=997, hidden_size=126, intermediate_size=509,
                                    max_length=499))
    for name, value in bert.named_parameters():
        if "norm" in name:
            assert (value == (1.0 if name.endswith("weight") else 0.0)).all()
        elif name.endswith("bias"):
            assert (value == 0).all()
        elif value.numel() > 10_000:
            assert value.std().item() == pytest.approx(0.02, rel=0.05) and abs(value.mean().item()) < 1e-3


class Marked(SelfAttention):
    """A stand-in for a paper's attention: sees everything attend is promised, adds one parameter."""

    def __init__(self, config, layer):
        super().__init__(config)
        self.layer, self.gate = layer, torch.nn.Parameter(torch.full((3,), 7.0))

    def attend(self, hidden, q, k, v, mask, prior, trace):
        self.seen = (hidden.shape, q.shape, k.shape, v.shape, mask.dtype, prior, trace)
        return super().attend(hidden, q, k, v, mask, prior, trace)


def test_attend_can_be_overridden():
    config, arrays = read_checkpoint(FIXTURES / "tiny_bert_hf")
    bert = Bert(config, lambda layer: Marked(config, layer) if layer == 1 else SelfAttention(config)).eval()
    assert load_bert(bert, arrays, "here") == ["layers.1.attention.gate"]
    assert (bert.layers[1].attention.gate == 7).all()
    ids, segment, mask = batch_of([5, 3], 5)
    prior, trace = torch.zeros(2, 5, 5), {}
    states, _ = bert(ids, segment, mask, prior, trace)
    hidden, q, k, v, dtype, seen_prior, seen_trace = bert.layers[1].attention.seen
    assert (hidden, q, k, v, dtype) == ((2, 5, 32), *[(2, 4, 5, 8)] * 3, torch.bool)
    assert seen_prior is prior and seen_trace is trace["layer1"]
    plain = Bert(config).eval()
    load_bert(plain, arrays, "here")
    assert torch.equal(states[-1], plain(ids, segment, mask, trace={})[0][-1])


def test_the_encoder_refuses():
    bert = make()
    ids, segment, mask = batch_of([18], 18)
    fails(lambda: bert(ids, segment, mask), "Bert", "17", "18", "max-length")
    ids, segment, mask = batch_of([5], 5)
    fails(lambda: bert(ids, segment, mask.long()), "mask", "bool", "int64")
    fails(lambda: bert(ids, segment, mask[:, :3]), "mask", "(1, 5)", "(1, 3)")


# ---------------------------------------------------------------- loading, strictly

def test_one_error_lists_everything_that_does_not_fit():
    config, arrays = read_checkpoint(FIXTURES / "tiny_bert_hf")
    bert = Bert(config)
    before = bert.state_dict()["layers.1.output.weight"].clone()
    arrays["layers.0.attention.quarry.weight"] = arrays.pop("layers.0.attention.query.weight")
    del arrays["embeddings.norm.bias"], arrays["pooler.bias"]
    arrays["layers.1.intermediate.weight"] = arrays["layers.1.intermediate.weight"].T
    arrays["embeddings.word.weight"] = arrays["embeddings.word.weight"][:96]
    fails(lambda: load_bert(bert, arrays, "model/x"), "model/x", "missing: embeddings.norm.bias, "
          "layers.0.attention.query.weight, pooler.bias", "unexpected: layers.0.attention.quarry.weight",
          "misshaped: embeddings.word.weight (96, 32) instead of (97, 32), layers.1.intermediate.weight")
    assert torch.equal(before, bert.state_dict()["layers.1.output.weight"])  # nothing loaded halfway


def test_a_missing_pooler_is_new_and_float64_stays():
    config, arrays = read_checkpoint(FIXTURES / "tiny_bert_tf")
    arrays = {name: value for name, value in arrays.items() if not name.startswith("pooler")}
    bert = Bert(config).double()
    assert load_bert(bert, arrays, "x") == ["pooler.weight", "pooler.bias"]
    assert bert.layers[0].output.weight.dtype == torch.float64


def write_safetensors(path, tensors):
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def published():
    """Our fixture's tensors under Hugging Face's names, as torch tensors."""
    return {name: torch.tensor(value) for name, value in
            read_safetensors(FIXTURES / "tiny_bert_hf/model.safetensors").items()}


@pytest.mark.parametrize("dtype, tag", [(torch.float32, "F32"), (torch.float16, "F16"),
                                        (torch.bfloat16, "BF16"), (torch.float64, "F64")])
@pytest.mark.parametrize("binary", [False, True])
def test_all_layouts_load_the_same(tmp_path, dtype, tag, binary):
    """Prefix, old names gamma and beta, heads and buffers to skip, half precision, both containers."""
    folder = copy_fixture("tiny_bert_hf", tmp_path / "m")
    _, wanted = read_checkpoint(folder)
    tensors = {"bert." + name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"):
               value.to(dtype) for name, value in published().items()}
    tensors["cls.predictions.bias"] = torch.zeros(97)
    tensors["classifier.weight"] = torch.zeros(2, 32)
    tensors["bert.embeddings.position_ids"] = torch.arange(48)[None]
    if binary:
        (folder / "model.safetensors").unlink()
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        tags = {dtype: tag, torch.int64: "I64", torch.float32: "F32"}
        write_safetensors(folder / "model.safetensors", {
            name: (tags[v.dtype], v.shape, v.contiguous().view(torch.uint8).numpy().tobytes())
            for name, v in tensors.items()})
    config, found = read_checkpoint(folder)
    assert set(found) == set(wanted)
    for name, value in found.items():
        exact = torch.tensor(wanted[name]).to(dtype).to(torch.float64 if tag == "F64" else torch.float32)
        assert value.dtype == exact.numpy().dtype and (value == exact.numpy()).all()
    assert load_bert(Bert(config), found, folder) == []


def test_names():
    assert our_name("bert/encoder/layer_11/output/dense/kernel") == "layers.11.output.weight"
    assert our_name("roberta.encoder.layer.3.attention.self.key.bias") == "layers.3.attention.key.bias"
    assert our_name("embeddings.LayerNorm.gamma") == "embeddings.norm.weight"
    for name in ("global_step", "bert/pooler/dense/kernel/adam_m", "bert/pooler/dense/bias/adam_v",
                 "output_weights", "cls/seq_relationship/output_bias", "lm_head.bias",
                 "classifier.dense.weight",
                 "roberta.embeddings.position_ids"):
        assert our_name(name) is None
    assert our_name("bert.encoder.layer.0.crossattention.self.key.bias") is not None  # load_bert will refuse it


def test_two_tensors_of_one_name(tmp_path):
    folder = copy_fixture("tiny_bert_hf", tmp_path / "m")
    tensors = published()
    tensors["bert.pooler.dense.bias"] = tensors["pooler.dense.bias"]
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    fails(lambda: read_checkpoint(folder), "pytorch_model.bin", "pooler.bias", "bert.pooler.dense.bias")


# ---------------------------------------------------------------- broken files

def test_folders_that_are_not_models(tmp_path):
    fails(lambda: read_checkpoint(tmp_path / "no"), tmp_path / "no", "no such folder")
    fails(lambda: read_checkpoint(tmp_path), tmp_path, "config.json", "nothing")
    folder = copy_fixture("tiny_bert_hf", tmp_path / "m")
    fails(lambda: read_checkpoint(folder / "model.safetensors"), "a file", "folder")
    fails(lambda: find_bert(str(folder / "config.json"), tmp_path), "config.json", "a file")
    (folder / "model.safetensors").unlink()
    (folder / "vocab.txt").unlink()
    fails(lambda: read_checkpoint(folder), folder, "model.safetensors", "*.ckpt.index", "found config.json")
    fails(lambda: find_bert(str(folder), tmp_path), folder, "model.safetensors")
    (folder / "model.safetensors").touch()
    fails(lambda: find_bert(str(folder), tmp_path), folder, "vocab.txt")
    fails(lambda: find_bert("bse", tmp_path), "bse", "base", "roberta-base")
    for name in FOLDERS:
        assert find_bert(str(FIXTURES / name), tmp_path) == FIXTURES / name


@pytest.mark.parametrize("damage, words", [
    (lambda b: b[:-4], ["truncated", "bytes"]), (lambda b: b[:100], ["truncated", "JSON"]),
    (lambda b: b"", ["JSON"]), (lambda b: b[:5], ["JSON"]),
    (lambda b: (1 << 62).to_bytes(8, "little") + b[8:], [str(1 << 62)]),
    (lambda b: (9).to_bytes(8, "little") + b[8:], ["JSON header of 9"]),
    (lambda b: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", ["Git LFS"]),
    (lambda b: b.replace(b'"F32"', b'"F99"', 1), ["F99", "needs dtype"]),
    (lambda b: b.replace(b'"shape"', b'"shopa"', 1), ["shape"])])
def test_damaged_safetensors(tmp_path, damage, words):
    path = tmp_path / "model.safetensors"
    path.write_bytes(damage((FIXTURES / "tiny_bert_hf/model.safetensors").read_bytes()))
    fails(lambda: read_safetensors(path), path, *words)


class RunsWhenUnpickled:
    """Unpickled without weights_only, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_damaged_pickle(tmp_path):
    folder = copy_fixture("tiny_bert_hf", tmp_path / "m")
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    torch.save(published(), path)
    whole = path.read_bytes()
    for content in (whole[:-1000], whole[:50], b"", b"hello"):
        path.write_bytes(content)
        fails(lambda: read_checkpoint(folder), path, "download")
    torch.save([1, 2], path)
    fails(lambda: read_checkpoint(folder), path, "download")
    torch.save({"x": RunsWhenUnpickled(tmp_path / "ran")}, path)
    fails(lambda: read_checkpoint(folder), path, "download")
    assert not (tmp_path / "ran").exists()


def slow_crc(data):
    """CRC-32C bit by bit, from its definition (polynomial 0x1EDC6F41, reflected)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_crc32c():
    assert crc32c(b"123456789") == 0xE3069283 and crc32c(b"") == 0
    assert crc32c(bytes(32)) == 0x8A9136AA and crc32c(b"\xff" * 32) == 0x62A8AB43  # RFC 3720, B.4
    noise, row = random.Random(0).randbytes(70_001), 4 * bert_min.LANES
    for size in (1, 2, 3, row - 1, row, row + 1, 2 * row, 2 * row + 3, 3 * row + 17, 70_001):
        assert crc32c(noise[:size]) == slow_crc(noise[:size])
        assert crc32c(np.frombuffer(noise, np.uint8)[:size]) == slow_crc(noise[:size])


@QUICK
@given(st.integers(0, 96779), st.integers(0, 7))
def test_a_flipped_bit_in_the_tf_data_is_found(tmp_path_factory, at, bit):
    folder = copy_fixture("tiny_bert_tf", tmp_path_factory.mktemp("flip") / "m")
    data = folder / "bert_model.ckpt.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[at] ^= 1 << bit
    data.write_bytes(content)
    fails(lambda: read_checkpoint(folder), data, "CRC32C", "download")
    assert len(read_tf_checkpoint(folder / "bert_model.ckpt", verify=False)) == 46


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.integers(0, 1858), st.integers(0, 7))
def test_a_flipped_bit_in_the_tf_index_is_found_or_harmless(tmp_path_factory, at, bit):
    folder = tmp_path_factory.getbasetemp() / "index"
    if not folder.exists():
        copy_fixture("tiny_bert_tf", folder)
    path = folder / "bert_model.ckpt.index"
    content = bytearray((FIXTURES / "tiny_bert_tf" / path.name).read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)
    footer = len(content) - 48
    try:
        found = read_tf_checkpoint(folder / "bert_model.ckpt", verify=False)
    except ValueError as error:
        assert str(path) in str(error)
    else:  # the unused block of meta data, its handle, or padding
        assert at >= footer or at > footer - 120
        wanted = np.load(FIXTURES / "tiny_bert_tf_arrays.npz")
        assert all((found[name] == wanted[name]).all() for name in wanted.files)


def test_broken_tf_checkpoints(tmp_path):
    folder = copy_fixture("tiny_bert_tf", tmp_path / "m")
    index, data = folder / "bert_model.ckpt.index", folder / "bert_model.ckpt.data-00000-of-00001"
    whole, tensors = index.read_bytes(), data.read_bytes()
    for content in (b"", whole[:-1], whole[:40], whole[:-8] + bytes(8)):
        index.write_bytes(content)
        fails(lambda: read_checkpoint(folder), index, "magic", len(content), "download")
    index.write_bytes(whole)
    for content in (tensors[:-1], tensors[:5], b""):
        data.write_bytes(content)
        fails(lambda: read_checkpoint(folder), data, "truncated", "download")
    data.unlink()
    fails(lambda: read_checkpoint(folder), data, "no such file", "download")


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def write_tf(prefix, tensors, compression=0, endian=0, shards=1, slices=False):
    """A checkpoint by LevelDB's and tensor_bundle's formats; tensors: name -> (dtype, shape, bytes)."""
    def masked(raw):
        crc = slow_crc(raw)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")

    def field(number, value):
        if isinstance(value, int):
            return varint(number << 3) + varint(value)
        return varint(number << 3 | 2) + varint(len(value)) + value

    entries, parts = [(b"", field(1, shards) + field(2, endian))], [b""] * shards
    for i, (name, (dtype, shape, raw)) in enumerate(sorted(tensors.items())):
        dims = b"".join(field(2, field(1, n)) for n in shape)
        entry = field(1, dtype) + field(2, dims) + field(3, i % shards) + field(4, len(parts[i % shards]))
        entry += field(5, len(raw)) + varint(6 << 3 | 5) + masked(raw) + (field(7, b"") if slices else b"")
        entries.append((name.encode(), entry))
        parts[i % shards] += raw
    out = b""

    def block(items):
        nonlocal out
        body = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in items) + bytes(4)
        body += (1).to_bytes(4, "little")
        handle = varint(len(out)) + varint(len(body))
        out += body + bytes([compression]) + masked(body + bytes([compression]))
        return handle

    middle = len(entries) // 2
    first, second, meta = block(entries[:middle]), block(entries[middle:]), block([])
    footer = meta + block([(b"m", first), (b"z", second)])
    out += footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")
    Path(f"{prefix}.index").write_bytes(out)
    for i, part in enumerate(parts):
        Path(f"{prefix}.data-{i:05d}-of-{shards:05d}").write_bytes(part)


def test_tf_dtypes_shards_and_refusals(tmp_path):
    prefix, values = tmp_path / "x.ckpt", np.array([[1.5, -2.0, 3.25]], np.float32)
    half = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    tensors = {"a/f32": (1, (1, 3), values.tobytes()), "b/f64": (2, (1, 3), values.astype("<f8").tobytes()),
               "c/bf16": (14, (1, 3), half), "d/f16": (19, (1, 3), values.astype("<f2").tobytes()),
               "e/text": (7, (1,), b"\x01x"), "f/empty": (1, (0, 3), b""),
               "global_step": (9, (), (20_000_000_000).to_bytes(8, "little")),
               "i32": (3, (2,), bytes(4) + b"\1\0\0\0")}
    write_tf(prefix, tensors, shards=3)
    found = read_tf_checkpoint(prefix)
    assert sorted(found) == sorted(set(tensors) - {"e/text"})
    for name in ("a/f32", "b/f64", "c/bf16", "d/f16"):
        assert (found[name] == values).all() and found[name].dtype == ("<f8" if name == "b/f64" else "<f4")
    assert found["global_step"].shape == () and found["global_step"] == 20_000_000_000
    assert found["f/empty"].shape == (0, 3) and found["i32"].tolist() == [0, 1]
    lost = Path(f"{prefix}.data-00001-of-00003")
    lost.unlink()
    fails(lambda: read_tf_checkpoint(prefix), lost, "no such file")
    for change, words in (({"compression": 1}, ["snappy", "uncompressed"]), ({"endian": 1}, ["big-endian"]),
                          ({"slices": True}, ["slices", "a/f32"])):
        write_tf(prefix, tensors, **change)
        fails(lambda: read_tf_checkpoint(prefix), f"{prefix}.index", *words)
    write_tf(prefix, {"odd": (10, (1,), b"\1")})
    fails(lambda: read_tf_checkpoint(prefix), "odd", "dtype 10")
    write_tf(prefix, {"short": (1, (4,), bytes(8))})
    fails(lambda: read_tf_checkpoint(prefix), "short", "16 bytes", "found 8")


# ---------------------------------------------------------------- tokenization

def google_pieces(text, ids, lower):
    """Google's tokenization.py in short: clean, space CJK out, lower, strip accents, split, greedy."""
    def punctuation(c):
        marks = c.isascii() and c.isprintable() and not c.isalnum() and c != " "
        return marks or unicodedata.category(c)[0] == "P"

    clean = ""
    for c in text:
        if c in "\t\n\r" or unicodedata.category(c) == "Zs":
            clean += " "
        elif c not in "\0\ufffd" and not unicodedata.category(c).startswith("C"):
            clean += f" {c} " if 0x4E00 <= ord(c) <= 0x9FFF else c
    out = []
    for word in clean.split():
        if lower:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in word if unicodedata.category(c) != "Mn")
        for token in "".join(f" {c} " if punctuation(c) else c for c in word).split():
            start, pieces = 0, []
            while start < len(token) and pieces != ["[UNK]"]:
                for end in range(len(token), start, -1):
                    piece = "##" * (start > 0) + token[start:end]
                    if piece in ids:
                        pieces.append(piece)
                        start = end
                        break
                else:
                    pieces = ["[UNK]"]
            out += ["[UNK]"] if len(token) > 200 else pieces
    return [ids[piece] for piece in out]


VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abceé中[],.S¿’",
         "##a", "##b", "##é", "##e", "ab", "##ab",
         "É", "Aa", "SEP", "sep", "\u2028"]
texts = st.text(alphabet="aabbcAeéÉe\u0301中[],.SEP¿’ \t\n\u00a0\u200b\0\ufffd\u2028", max_size=30)


def tiny_tokenizer(folder, lower):
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n", "utf-8")
    config = dataclasses.replace(TINY, vocab_size=len(VOCAB), lower_case=lower)
    return PairTokenizer.from_folder(folder, config)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(texts, texts, st.booleans())
def test_wordpiece_equals_googles(tmp_path_factory, a, b, lower):
    tokenizer = tiny_tokenizer(tmp_path_factory.getbasetemp(), lower)
    ids = {piece: i for i, piece in enumerate(VOCAB)}
    first, second = google_pieces(a, ids, lower), google_pieces(b, ids, lower)
    found, segment, _ = tokenizer.encode(a, None, b, None, 1000)
    assert found == [2, *first, 3, *second, 3]
    assert segment == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_words_of_up_to_200_characters_are_read(tmp_path):
    tokenizer = tiny_tokenizer(tmp_path, True)
    assert tokenizer.encode("", None, "a" * 201, None, 999)[0] == [2, 3, 1, 3]
    assert len(tokenizer.encode("a" * 200, None, "", None, 999)[0]) == 203


def google_truncation(n, m, budget):
    while n + m > budget:
        n, m = (n - 1, m) if n > m else (n, m - 1)
    return n, m


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 60))
def test_longest_first(n, m, budget):
    assert longest_first(n, m, budget) == google_truncation(n, m, budget)


offset_pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1])),
                        max_size=9)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(offset_pairs, offset_pairs)
def test_overlapped_words(pieces, spans):
    wanted = []
    for start, end in pieces:
        best, most = -1, 0
        for i, (s, e) in enumerate(spans):
            shared = len(set(range(start, end)) & set(range(s, e)))
            if shared > most:
                best, most = i, shared
        wanted.append(best)
    assert overlapped_words(pieces, np.array(spans).reshape(-1, 2)) == wanted
    assert overlapped_words(pieces, None) == [-1] * len(pieces)


def spaces(text):
    """Spans of the parts between single spaces."""
    spans, at = [], 0
    for part in text.split(" "):
        if part:
            spans.append((at, at + len(part)))
        at += len(part) + 1
    return np.array(spans, dtype=int).reshape(-1, 2)


odd_texts = st.text(alphabet=st.sampled_from("aabé中🙂 \u0301[],.SEP\ud83d\u200d\u2028\0İﬁ"), max_size=40)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.tuples(odd_texts, odd_texts), max_size=4), st.integers(0, 40), st.booleans())
def test_packing(tmp_path_factory, pairs, budget, roberta):
    if roberta:
        folder = FIXTURES / "tiny_roberta_hf"
        tokenizer = PairTokenizer.from_folder(folder, BertConfig.from_json(folder / "config.json"))
        first, middle, last = [0], [2, 2], [2]
    else:
        tokenizer, first, middle, last = tiny_tokenizer(tmp_path_factory.getbasetemp(), True), [2], [3], [3]
    batch = [(a, spaces(a), b, spaces(b)) for a, b in pairs]
    length = budget + len(first + middle + last)
    encoded = tokenizer.encode_batch(batch, length)
    assert len(encoded) == len(batch)
    for (a, spans_a, b, spans_b), found in zip(batch, encoded):
        assert found == tokenizer.encode(a, spans_a, b, spans_b, length)
        ids, segment, words = found
        assert len(ids) == len(segment) == len(words) <= length
        whole_a, _, words_a = tokenizer.encode(a, spans_a, "", None, 10_000)
        whole_b, _, words_b = tokenizer.encode("", None, b, spans_b, 10_000)
        pieces_a = whole_a[1:len(whole_a) - len(middle + last)]
        pieces_b = whole_b[len(first + middle):-1]
        n, m = google_truncation(len(pieces_a), len(pieces_b), budget)
        assert ids == first + pieces_a[:n] + middle + pieces_b[:m] + last
        assert segment == [0] * (1 + n + len(middle)) + [1] * (m + 1)
        assert words == [-1, *words_a[1:1 + n], *[-1] * len(middle), *words_b[len(first + middle):][:m], -1]
        assert max(words[:1 + n]) < len(spans_a) or n == 0
        assert max(words[1 + n:]) < max(1, len(spans_b)) and min(words) == -1


def test_word_index_by_hand(tmp_path):
    tokenizer = tiny_tokenizer(tmp_path, True)
    spans = np.array([(0, 3), (4, 5), (6, 8)])
    assert tokenizer.encode("aba . Éa", spans, "c ab", np.array([(2, 4)]), 20) == (
        [2, VOCAB.index("ab"), VOCAB.index("##a"), VOCAB.index("."), VOCAB.index("e"), VOCAB.index("##a"), 3,
         VOCAB.index("c"), VOCAB.index("ab"), 3], [0] * 7 + [1] * 3, [-1, 0, 0, 1, 2, 2, -1, -1, 0, -1])


def test_special_tokens_in_a_text_are_characters(tmp_path):
    for tokenizer in (tiny_tokenizer(tmp_path, False), PairTokenizer.train(["[SEP] a b"] * 3, 40)):
        assert tokenizer.encode("[SEP]", None, "[CLS] [PAD]", None, 99)[0].count(3) == 2
    config = BertConfig.from_json(FIXTURES / "tiny_roberta_hf/config.json")
    tokenizer = PairTokenizer.from_folder(FIXTURES / "tiny_roberta_hf", config)
    ids, _, _ = tokenizer.encode("</s>", None, "<s>", None, 99)
    assert ids.count(2) == 3 and ids.count(0) == 1


def test_very_long_and_empty_sentences(tmp_path):
    tokenizer, text = tiny_tokenizer(tmp_path, True), "ab " * 10_000
    ids, segment, words = tokenizer.encode(text, spaces(text), "", np.zeros((0, 2), int), 512)
    assert len(ids) == 512 and words[1:511] == [*range(509), -1] and segment == [0] * 511 + [1]
    assert tokenizer.encode("", None, "", None, 3) == ([2, 3, 3], [0, 0, 1], [-1, -1, -1])
    assert tokenizer.encode_batch([], 3) == []
    fails(lambda: tokenizer.encode("", None, "", None, 2), "max_length", "3", "2")


def test_vocabularies_that_do_not_fit(tmp_path):
    tiny_tokenizer(tmp_path, True)
    path = tmp_path / "vocab.txt"
    config = dataclasses.replace(TINY, vocab_size=len(VOCAB))
    padded = dataclasses.replace(config, vocab_size=64)
    assert PairTokenizer.from_folder(tmp_path, padded).vocab_size == len(VOCAB)
    for size in (len(VOCAB) - 1, 28996):
        other = dataclasses.replace(config, vocab_size=size)
        fails(lambda: PairTokenizer.from_folder(tmp_path, other), path, size, len(VOCAB))
    path.write_bytes(b"a\n\xff\xfe\n")
    fails(lambda: PairTokenizer.from_folder(tmp_path, config), path, "UTF-8")
    path.write_text("a\nb\n")
    fails(lambda: PairTokenizer.from_folder(tmp_path, config), path, "[CLS], [SEP], [PAD]")
    path.unlink()
    fails(lambda: PairTokenizer.from_folder(tmp_path, config), tmp_path, "vocab.txt")
    roberta = BertConfig.from_json(FIXTURES / "tiny_roberta_hf/config.json")
    fails(lambda: PairTokenizer.from_folder(tmp_path, roberta), tmp_path, "vocab.json")
    shutil.copy(FIXTURES / "tiny_roberta_hf/vocab.json", tmp_path)
    fails(lambda: PairTokenizer.from_folder(tmp_path, roberta), tmp_path, "merges.txt")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nqqqq zzzz\n")
    fails(lambda: PairTokenizer.from_folder(tmp_path, roberta), tmp_path / "merges.txt", "BPE")


def test_train_and_save(tmp_path):
    lines = ["The company exceeded its targets.", "Its targets were exceeded, the company said."] * 3
    tokenizer = PairTokenizer.train(lines, 60)
    assert tokenizer.vocab_size <= 60 and tokenizer.pad_id == 0
    tokenizer.save(tmp_path / "new")
    config = dataclasses.replace(TINY, vocab_size=tokenizer.vocab_size)
    again = PairTokenizer.from_folder(tmp_path / "new", config)
    pair = (lines[0].upper(), spaces(lines[0]), lines[1], spaces(lines[1]), 50)
    assert tokenizer.encode(*pair) == again.encode(*pair)
    assert 1 not in tokenizer.encode(*pair)[0]  # capitals are lowered, nothing is unknown
    roberta = BertConfig.from_json(FIXTURES / "tiny_roberta_hf/config.json")
    one = PairTokenizer.from_folder(FIXTURES / "tiny_roberta_hf", roberta)
    one.save(tmp_path / "roberta")
    assert PairTokenizer.from_folder(tmp_path / "roberta", roberta).encode(*pair) == one.encode(*pair)


# ---------------------------------------------------------------- downloads, from a server on loopback

@pytest.fixture
def server(monkeypatch):
    """base URL, and the dict of path -> body (or (body, announced length)) that it serves."""
    files = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path not in files:
                return self.send_error(404)
            body, length = files[self.path] if isinstance(files[self.path], tuple) else (files[self.path], None)
            self.send_response(200)
            if length != "none":
                self.send_header("Content-Length", str(length or len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}/", files
    httpd.shutdown()
    httpd.server_close()


def test_download(server, tmp_path):
    url, files = server
    body = random.Random(1).randbytes(2_500_000)
    files["/whole"], files["/cut"], files["/open"] = body, (body[:1000], 2000), (body, "none")
    path = tmp_path / "deep" / "file.bin"
    for name in ("whole", "open"):
        download(url + name, path, len(body), hashlib.sha256(body).hexdigest(), progress=False)
        assert path.read_bytes() == body and list(path.parent.iterdir()) == [path]
        path.unlink()
    for name, size, digest, words in (("cut", None, None, ["2000", "1000"]), ("none", None, None, ["404"]),
                                      ("whole", 17, None, ["17", "2500000"]),
                                      ("whole", None, "0" * 64, ["sha256"]),
                                      ("open", 2_500_001, None, ["2500001"])):
        fails(lambda: download(url + name, path, size, digest, progress=False), f"cannot download {url}{name}",
              f"put the file at {path} by hand", "--task toy", *words)
        assert list(path.parent.iterdir()) == []
    path.write_text("old")
    fails(lambda: download(url + "cut", path, progress=False), "cannot download")
    assert path.read_text() == "old"
    fails(lambda: download("http://127.0.0.1:9/x", path, progress=False), "cannot download")
    fails(lambda: download("nonsense", path, progress=False), "cannot download")


def test_unzip(tmp_path):
    archive, folder = tmp_path / "a.zip", tmp_path / "out" / "new"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("x/y.txt", "hello" * 1000)
    unzip(archive, folder)
    assert (folder / "x/y.txt").read_text() == "hello" * 1000 and list(folder.parent.iterdir()) == [folder]
    fails(lambda: unzip(archive, folder), folder, "remove")
    shutil.rmtree(folder)
    whole = archive.read_bytes()
    for content in (whole[:-30], whole[:50], b"no zip", whole.replace(b"hello", b"jello", 1)):
        archive.write_bytes(content)
        fails(lambda: unzip(archive, folder), archive, "download")
        assert list(folder.parent.iterdir()) == []
    for name in ("../evil.txt", "/evil.txt", "x/../../evil.txt"):
        with zipfile.ZipFile(archive, "w") as z:
            z.writestr("good.txt", "x")
            z.writestr(name, "x")
        fails(lambda: unzip(archive, folder), archive, name, "outside")
        assert list(folder.parent.iterdir()) == []
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "out"]


@pytest.mark.parametrize("inner", ["", "uncased_L-2/"])
def test_find_bert_downloads_googles_archives_once(server, tmp_path, monkeypatch, inner):
    url, files = server
    archive = tmp_path / "made.zip"
    with zipfile.ZipFile(archive, "w") as z:
        for path in (FIXTURES / "tiny_bert_tf").iterdir():
            z.write(path, inner + path.name)
    monkeypatch.setattr(bert_min, "GOOGLE", url)
    files["/" + bert_min.ARCHIVES["tiny"]] = archive.read_bytes()
    folder = find_bert("tiny", tmp_path / "data", progress=False)
    assert folder == tmp_path / "data/bert/tiny" and [p.name for p in folder.parent.iterdir()] == ["tiny"]
    assert len(read_checkpoint(folder)[1]) == 39
    files.clear()
    assert find_bert("tiny", tmp_path / "data", progress=False) == folder
    fails(lambda: find_bert("mini", tmp_path / "data", progress=False), "cannot download", "404")
    assert [p.name for p in folder.parent.iterdir()] == ["tiny"]
    (folder / "vocab.txt").unlink()
    fails(lambda: find_bert("tiny", tmp_path / "data"), folder, "vocab.txt", "remove the folder")


def test_find_bert_downloads_roberta_whole_or_not_at_all(server, tmp_path, monkeypatch):
    url, files = server
    monkeypatch.setitem(bert_min.HUGGING_FACE, "roberta-base", url)
    for path in (FIXTURES / "tiny_roberta_hf").iterdir():
        files["/" + path.name] = path.read_bytes()
    weights = files.pop("/model.safetensors")
    fails(lambda: find_bert("roberta-base", tmp_path, progress=False), "cannot download", "model.safetensors")
    assert list((tmp_path / "bert").iterdir()) == []
    files["/model.safetensors"] = weights
    folder = find_bert("roberta-base", tmp_path, progress=False)
    assert load_bert(Bert(read_checkpoint(folder)[0]), read_checkpoint(folder)[1], folder) == []


def test_the_published_addresses():
    assert bert_min.ARCHIVES == {
        "tiny": "2020_02_20/uncased_L-2_H-128_A-2.zip", "mini": "2020_02_20/uncased_L-4_H-256_A-4.zip",
        "small": "2020_02_20/uncased_L-4_H-512_A-8.zip", "medium": "2020_02_20/uncased_L-8_H-512_A-8.zip",
        "base": "2018_10_18/uncased_L-12_H-768_A-12.zip", "large": "2018_10_18/uncased_L-24_H-1024_A-16.zip"}


def test_training_a_vocabulary_twice_gives_the_same():
    """Inner letters are numbered the same way each time; left to the trainer, five runs give five vocabularies."""
    rng = random.Random(0)
    texts = [" ".join("".join(rng.choices("abcdefgh", k=rng.randint(1, 7))) for _ in range(9)) for _ in range(60)]
    first, *others = (PairTokenizer.train(texts, vocab_size=150).tokenizer.get_vocab() for _ in range(5))
    assert len(first) > 60 and all(other == first for other in others)
