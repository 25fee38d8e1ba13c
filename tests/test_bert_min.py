"""bert_min.py against loops written from the papers and transformers' numbers in fixtures/."""
import json
import math
import random
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from bert_min import (ACTIVATIONS, Bert, BertConfig, PairTokenizer, attention, attention_weights,
                      load_bert, read_checkpoint)
from methods import config, large, looked
from oracles.common import softmax
from small_runs import equal, fails, write_file
from support.checkpoints import read_config, write_encoder
from support.files import read_json
from test_checkpoints import FIXTURES, copy_fixture


def tokens(length):
    """ids, segment, mask (1, length) of a sentence without padding."""
    return torch.arange(length)[None], torch.arange(length)[None] % 2, torch.ones(1, length) > 0


def test_configurations(tmp_path):
    """RoBERTa has no positions 0 and 1. gelu_new is that of google-research/bert's modeling.py:
    x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2. Errors name the file and the setting."""
    path = tmp_path / "config.json"
    good = json.loads((FIXTURES / "tiny_roberta_hf/config.json").read_text())
    path.write_text(json.dumps(good | {"hidden_act": "gelu_new", "hidden_dropout_prob": 0.25}))
    assert BertConfig(**read_config(path)) == BertConfig(
        400, 36, 2, 3, 56, max_length=64, position_offset=2, segments=1, kind="roberta",
        activation="gelu_tanh", dropout=0.25, layer_norm_eps=1e-5)
    got = ACTIVATIONS["gelu_tanh"](torch.tensor(2.0).double()).item()
    assert got == pytest.approx(1 + math.tanh((2 / math.pi) ** 0.5 * (2 + 0.044715 * 8)))
    for key, value, words in (
            ("model_type", "roberts", "roberts"), ("vocab_size", "97", "str"),
            ("num_attention_heads", 7, "heads"), ("max_position_embeddings", 2, "0"),
            ("num_hidden_layers", 10 ** 6, "1000000 layers")):
        path.write_text(json.dumps(good | {key: value}))
        fails(lambda: BertConfig(**read_config(path)), path, words)


@pytest.mark.parametrize("name", ["tiny_bert_tf", "tiny_bert_hf", "tiny_roberta_hf"])
@pytest.mark.parametrize("dtype, tolerance, traced", [(torch.float32, 1e-5, False),
                                                      (torch.float64, 1e-10, True)])
def test_hidden_states_equal_transformers(name, dtype, tolerance, traced):
    sizes, weights = read_checkpoint(FIXTURES / name)
    bert = Bert(sizes).eval()
    assert load_bert(bert, weights, name) == []
    wanted = np.load(FIXTURES / f"{name[:name.rindex('_')]}_expected.npz")
    ids, mask = torch.tensor(wanted["input_ids"]), torch.tensor(wanted["mask"])
    segment = torch.ones_like(ids)  # RoBERTa ignores it
    if sizes.kind == "bert":
        segment = torch.tensor(wanted["token_type_ids"])
    with torch.no_grad():
        call = looked if traced else lambda model, *inputs: (model(*inputs), {})
        (states, pooled), seen = call(bert.to(dtype), ids, segment, mask)
    assert [*seen] == [f"layer{i}" for i in range(len(bert.layers) * traced)]
    for state, expected in zip(states, wanted["hidden_states"], strict=True):
        assert state.dtype == dtype
        # at real tokens: transformers gives RoBERTa's padding another position than we do
        assert np.abs(state.numpy() - expected)[wanted["mask"]].max() < tolerance
    assert np.abs(pooled.numpy() - wanted["pooled"]).max() < tolerance


@settings(max_examples=15)
@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=3, max_size=3),
       st.sampled_from([1e-3, 1.0, 1e5]), st.sampled_from(["float32", "float64", "bfloat16",
                                                           "float16"]), st.integers(0, 99))
def test_attention_weights_are_a_masked_softmax(rows, scale, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, 2, 7, 5, generator=generator).double() * scale
    scores, mask = scores.clamp(-6e4, 6e4).to(getattr(torch, dtype)), torch.tensor(rows)
    weights = attention_weights(scores, mask)
    assert weights.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert torch.equal(weights, attention_weights(scores, mask[:, None, None].expand(3, 2, 7, 5)))
    for b, h, i in np.ndindex(3, 2, 7):
        wanted = softmax(scores[b, h, i].double().tolist(), rows[b])
        assert weights[b, h, i].tolist() == pytest.approx(wanted, abs=1e-6)
        assert not weights[b, h, i][~mask[b]].any()


def test_dropout_leaves_what_it_should():
    """All dropped, embeddings are 0, a layer is its residuals and norms."""
    bert = large(Bert(config(dropout=1.0, attention_dropout=1.0)))
    states, _ = bert.train()(*tokens(7))
    assert not states[0].any()
    for layer, before, after in zip(bert.layers, states, states[1:]):
        assert torch.equal(layer.output_norm(layer.attention_norm(before)), after)
    q, v = torch.rand(1, 2, 7, 3), torch.ones(1, 2, 7, 3)
    mixed, _ = looked(attention, q, q, v, tokens(7)[2], dropout=0.5)
    assert torch.equal(mixed, mixed[..., :1].expand(mixed.shape))  # a weight is dropped as a whole


def test_initial_values():
    torch.manual_seed(0)
    sizes = dict(vocab_size=997, hidden_size=126, intermediate_size=509, max_length=499)
    for name, value in Bert(config(**sizes)).named_parameters():
        if value.dim() == 1:
            assert (value == ("norm.weight" in name)).all()
        else:
            assert value.std().item() == pytest.approx(0.02, rel=0.2)


def test_the_encoder_refuses():
    bert, (ids, segment, mask) = Bert(config(max_length=17)).eval(), tokens(18)
    assert bert(ids[:, 1:], segment[:, 1:], mask[:, 1:])[1].isfinite().all()
    fails(lambda: bert(ids, segment, mask), "17 tokens", "(1, 18)")
    for wrong in (mask[:, :5].float(), mask[:, :1]):
        fails(lambda: bert(ids[:, :5], segment[:, :5], wrong), "mask", "(1, 5)")


def test_loading_is_strict_but_for_what_is_new():
    """New: a user's own parameter, a pooler that is lacking or untrained. Both stay as they are."""
    sizes, weights = read_checkpoint(FIXTURES / "tiny_bert_hf")
    bert, new = Bert(sizes).double(), ["layers.0.attention.gate", "pooler.weight", "pooler.bias"]
    bert.layers[0].attention.gate = torch.nn.Parameter(torch.ones(3))
    assert load_bert(bert, weights, "x") == new[:1]
    assert bert.layers[1].output.weight.dtype == torch.float64
    headless = {name: x for name, x in weights.items() if "pooler" not in name}
    for lacking in (headless, weights | {"pooler.bias": torch.zeros(32)}):
        bert.pooler.weight.data.fill_(7)
        assert load_bert(bert, lacking, "x") == new and (bert.pooler.weight == 7).all()
    name = "embeddings.word.weight"
    for value in (torch.zeros(97, 32).long(), 1e99 * torch.ones(97, 32).double()):
        fails(lambda: load_bert(bert, weights | {name: value}, "model/x"), "model/x", name)
    weights["layers.0.attention.quarry.weight"] = weights.pop("layers.0.attention.query.weight")
    weights[name] = weights[name][:96]
    fails(lambda: load_bert(bert, weights, "model/x"), "model/x", "attention.query.weight",
          "attention.quarry.weight", name)


VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abceé博推[],.!?S", "##a", "##b", "##e", "ab", "sep",
         "SEP", *"want ##want ##ed un runn ##ing ah zz hello how are you HeLLo Are yoU".split()]
ROBERTA = BertConfig(**read_config(FIXTURES / "tiny_roberta_hf/config.json"))
OF_ROBERTA = PairTokenizer.from_folder(FIXTURES / "tiny_roberta_hf", ROBERTA)


def tiny_tokenizer(folder, more=(), **settings):
    """The tokenizer of VOCAB and more. settings: of tokenizer_config.json."""
    write_file(folder, "vocab.txt", "\n".join(VOCAB) + "\n")
    write_file(folder, "tokenizer_config.json", json.dumps({"do_lower_case": True} | settings))
    return PairTokenizer.from_folder(folder, config(vocab_size=len(VOCAB) + len(more)))


def ids_of(tokenizer, a, b=""):
    return tokenizer.encode(a, None, b, None, 1000)[0]


@pytest.mark.parametrize("text, lower, wanted", [  # from tokenization_test.py, google-research/bert
    ("UNwant\u00e9d,running", True, "un ##want ##ed , runn ##ing"),
    (" \tHeLLo!how  \n Are yoU?  ", False, "HeLLo ! how Are yoU ?"),
    ("a" * 100, True, "a" + " ##a" * 99), ("a" * 101, True, "[UNK]")])  # as in transformers
def test_wordpiece_equals_googles(tmp_path, text, lower, wanted):
    tokenizer = tiny_tokenizer(tmp_path, do_lower_case=lower)
    assert tokenizer.pieces(ids_of(tokenizer, text)) == ["[CLS]", *wanted.split(), "[SEP]", "[SEP]"]


def test_roberta_texts_give_the_fixture_ids():
    wanted = np.load(FIXTURES / "tiny_roberta_expected.npz")
    for a, b, ids, mask in zip(*map(wanted.get, ("text_a", "text_b", "input_ids", "mask"))):
        found, segment, words = OF_ROBERTA.encode(str(a), None, str(b), None, 1000)
        assert found == ids[mask].tolist() and len(segment) == len(words) == len(found)
    assert OF_ROBERTA.pad_id == 1


def test_packing(tmp_path):
    """Of two texts whose pieces find no place the longer one, on a tie b, loses its last piece."""
    tokenizer, spans = tiny_tokenizer(tmp_path), np.array([(0, 1), (2, 3), (4, 5)])
    for budget, n, m in ((9, 3, 2), (4, 2, 2), (3, 2, 1), (2, 1, 1), (1, 1, 0), (0, 0, 0)):
        for ids, segment, words in tokenizer.encode_batch(
                [("a e c", spans, "b a", spans[:2])] * 2, budget + 3):
            assert tokenizer.pieces(ids) == ["[CLS]", *"aec"[:n], "[SEP]", *"ba"[:m], "[SEP]"]
            assert segment == [0] * (n + 2) + [1] * (m + 1)
            assert words == [-1, *range(n), -1, *range(m), -1]


def test_by_hand(tmp_path):
    """Word index, pieces, special tokens as text; accents that a folder keeps."""
    tokenizer = tiny_tokenizer(tmp_path)
    spans = np.array([(0, 3), (4, 5), (6, 8)])
    ids, segment, words = tokenizer.encode("aba . Éa", spans, "c ab", np.array([(2, 4)]), 20)
    assert " ".join(tokenizer.pieces(ids)) == "[CLS] ab ##a . e ##a [SEP] c ab [SEP]"
    assert segment == [0] * 7 + [1] * 3 and words == [-1, 0, 0, 1, 2, 2, -1, -1, 0, -1]
    half = tokenizer.encode("\ud83dab c", np.array([(0, 3), (4, 5)]), "", None, 9)
    assert half[2] == [-1, 0, 1, -1, -1]  # half a surrogate pair is a letter
    assert PairTokenizer.train(["\ud83d lone", "b"], 50).vocab_size
    fails(lambda: tokenizer.encode("", None, "", None, 2), "max_length", 3)
    for one in (tokenizer, PairTokenizer.train(["[SEP] a b"] * 3, 40)):
        assert ids_of(one, "[SEP]", "[CLS] [PAD]").count(3) == 2
    assert ids_of(OF_ROBERTA, "</s>", " it<s>").count(2) == 3
    tokenizer = tiny_tokenizer(tmp_path, strip_accents=False)
    assert tokenizer.pieces(ids_of(tokenizer, "\u00c9"))[1] == "\u00e9"
    for more, piece in (("a", "e"), ("E", "E")):  # a folder that does not say do_lower_case
        (tmp_path / "tokenizer_config.json").unlink(missing_ok=True)
        vocab = [*"[PAD] [UNK] [CLS] [SEP] e".split(), more]
        (tmp_path / "vocab.txt").write_text("\n".join(vocab))
        tokenizer = PairTokenizer.from_folder(tmp_path, config(vocab_size=6))
        assert tokenizer.pieces(ids_of(tokenizer, "E"))[1] == piece


def of_today(kind, folder):
    """(PairTokenizer that transformers 5.24 saved, pairs of texts with its ids, BertConfig)"""
    for name in (f"tiny_{kind}_hf", f"today_{kind}"):
        copy_fixture(name, folder)
    rows = json.loads((folder / "expected.json").read_text())
    sizes = replace(read_checkpoint(folder)[0], vocab_size={"bert": 101, "roberta": 404}[kind])
    return PairTokenizer.from_folder(folder, sizes), rows, sizes


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_tokenizer_of_todays_libraries(tmp_path, kind):
    """Four words are added: fintech, Kreißsaal, new york, and the special [URL]."""
    tokenizer, rows, _ = of_today(kind, tmp_path)
    for a, b, ids in rows:
        assert ids_of(tokenizer, a, b) == ids
    added = [word for text, _, _ in rows for word in tokenizer.pieces(ids_of(tokenizer, text))]
    assert {"fintech", "Kreißsaal", "new york"} <= {*added}
    for text in tokenizer.encode_texts(["[SEP]", "</s>"]):
        assert tokenizer.last[0] not in text.ids


def test_tokenizers_that_do_not_fit_are_refused(tmp_path):
    """Without these errors a piece would get the row of another piece."""
    tiny_tokenizer(tmp_path)
    assert PairTokenizer.from_folder(tmp_path, config(vocab_size=64)).vocab_size == 39
    for size in (38, 48):
        fails(lambda: PairTokenizer.from_folder(tmp_path, config(vocab_size=size)),
              tmp_path / "vocab.txt", size, 39)
    merges = copy_fixture("tiny_roberta_hf", tmp_path) / "merges.txt"
    merges.write_text(merges.read_text().replace("h e\n", ""))
    fails(lambda: PairTokenizer.from_folder(tmp_path, ROBERTA), merges)
    path = tmp_path / "tokenizer.json"
    Tokenizer(models.Unigram([("a", 0.0), ("b", 0.0)], unk_id=0)).save(str(path))
    fails(lambda: PairTokenizer.from_folder(tmp_path, config(vocab_size=2)), path, "of Unigram")
    tokenizer, _, sizes = of_today("bert", tmp_path)
    path.write_text(tokenizer.state()["tokenizer"].replace('"[SEP]":{', '"[SEP]x":{'))
    fails(lambda: PairTokenizer.from_folder(tmp_path, sizes), path)


def test_added_words_beside_a_vocabulary(tmp_path):
    """added_tokens.json has their ids; tokenizer_config.json may say more of them."""
    write_file(tmp_path, "added_tokens.json", json.dumps({"zz b": 39, "[E]": 40}))
    raw = {"40": {"content": "[E]", "normalized": False, "special": True},
           "3": {"content": "[SEP]", "normalized": False, "special": True}}
    tokenizer = tiny_tokenizer(tmp_path, "zb", added_tokens_decoder=raw)
    found = " ".join(tokenizer.pieces(ids_of(tokenizer, "are zz b [E] [e] zzz [SEP]")))
    assert found == "[CLS] are zz b [E] [ e ] [UNK] [ sep ] [SEP] [SEP]"
    assert ids_of(tokenizer, "zz b")[1] == 39
    write_file(tmp_path, "added_tokens.json", json.dumps({"zz b": 40}))
    fails(lambda: tiny_tokenizer(tmp_path, "z"), "added_tokens.json", "zz b")


def test_train_and_save(tmp_path):
    """Left to the trainer, five runs number the inner letters in five ways."""
    rng = random.Random(0)
    lines = [" ".join("".join(rng.choices("abcdefgh", k=rng.randint(1, 7))) for _ in range(9))
             for _ in range(60)]
    trained, *others = (PairTokenizer.train(iter(lines), 150) for _ in range(5))
    others.append(PairTokenizer.train([*lines, "ab" * 500], 150))  # a word that is too long
    assert 60 < trained.vocab_size <= 150
    assert all(one.tokenizer.get_vocab() == trained.tokenizer.get_vocab() for one in others)
    pair = (lines[0].upper(), np.array([(0, 2), (2, 5)]), lines[1], np.array([(1, 9)]), 50)
    assert 1 not in trained.encode(*pair)[0]  # capitals are lowered, nothing is unknown
    for one, sizes in ((trained, config(vocab_size=trained.vocab_size)),
                       (OF_ROBERTA, ROBERTA)):
        folder, weights = tmp_path / sizes.kind, Bert(sizes).state_dict()
        write_encoder(folder, asdict(sizes), weights, one)
        read, written = read_checkpoint(folder)
        assert read == sizes and equal(written, weights)
        asked = read_json(folder / "tokenizer_config.json")["model_input_names"]
        assert ("token_type_ids" in asked) == (sizes.segments == 2)
        for again in (PairTokenizer.from_folder(folder, sizes),
                      PairTokenizer.from_state(one.state())):
            assert again.encode(*pair) == one.encode(*pair)
