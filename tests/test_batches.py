"""batches.py: pairs become padded tensors; each row as if it were alone, each place once."""
import itertools
import math
import pickle
import random
from multiprocessing.pool import ThreadPool
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import batches
import printed
import priors
import train
from bert_min import PairTokenizer, SelfAttention
from semmatch import KnowledgeAttention
from small_runs import RELATED, ChainParser, at_call, beginning, of
from support import lexicon
from support.pairs import Pair
from support.shown import Change

pytestmark = pytest.mark.usefixtures("workplace")
TOY = PairTokenizer.train(["the dog cat"])


@pytest.mark.parametrize("count, size, block", [
    (1, 8, 1), (300, 8, 1), (1000, 7, 1), (998, 8, 4), (103, 200, 4)])
def test_batches_hold_every_place_once(count, size, block):
    """A pool of 50 batches is sorted by length, then shuffled. Neighbours of a block stay so."""
    lengths = [random.Random(i).randint(3, 90) for i in range(count)]
    order = batches.training_batches(lengths, size, "0 0", block)
    assert sorted(i for batch in order for i in batch) == list(range(count))
    assert sorted(map(len, order))[1:] == [size] * (math.ceil(count / size) - 1)  # one is smaller
    assert order == batches.training_batches(lengths, size, "0 0", block)
    assert count == 1 or order != batches.training_batches(lengths, size, "0 1", block)
    pools = [(min(lengths[i] for i in batch), max(lengths[i] for i in batch)) for batch in order]
    assert len(order) < 3 or pools != sorted(pools)
    alike = all(one[1] <= other[0] for one, other in itertools.pairwise(sorted(pools)))
    assert alike == (count <= 50 * size) or block > 1
    for batch in order if size % block == 0 else ():
        for first in {i // block * block for i in batch}:
            neighbours = list(range(first, min(first + block, count)))
            assert [i for i in batch if i in neighbours] == neighbours


def test_a_row_is_what_was_read_of_its_pair():
    """Padding follows. tf-idf is that of the training sentences. The prior obeys the settings."""
    form = "--printed", "all", "--without", "root,gates"
    data, places = beginning(*of("dafa"), *form)[1]["train"], [3, 0, 7]
    tokenizer, (batch, labels) = data.reader.tokenizer, data.collate(places)
    tfidf = priors.TfIdf(text.split() for pair in data.pairs for text in (pair.a, pair.b))
    assert labels.tolist() == [data.pairs[i].label for i in places]
    for row, i in enumerate(places):
        pair = data.pairs[i]
        a, b = data.known[pair.a].parse, data.known[pair.b].parse
        columns = tokenizer.encode(pair.a, a.spans, pair.b, b.spans, 48)
        columns += ([True] * len(columns[0]),)
        rest = max(data.lengths[i] for i in places) - len(columns[0])
        for name, column, padding in zip(("input_ids", "segment", "word_index", "mask"), columns,
                                         (tokenizer.pad_id, 0, -1, False)):
            assert batch[name][row].tolist() == [*column, *[padding] * rest]
        M_F = priors.dependency_matrix(
            priors.tree_similarity(a, b, root=False), printed.subgraph_similarity(a, b),
            tfidf.weights(a.words), tfidf.weights(b.words))
        n, m = M_F.shape
        assert np.array_equal(batch["prior"][row, :n, :m].numpy(), M_F)
        assert batch["prior"][row].count_nonzero() == np.count_nonzero(M_F)


def test_a_token_takes_two_bytes_or_four():
    """RoBERTa has 50,265 pieces. Plain attention asks for no words."""
    for size, kind in (2 ** 15 - 1, np.int16), (50_265, np.int32):
        tokenizer = SimpleNamespace(vocab_size=size, pad_id=1, encode_batch=lambda rows, longest:
                                    [([size - 1, 5], [0, 1], [-1, -1])] * len(rows))
        data = batches.Reader(SelfAttention, 48, tokenizer=tokenizer).examples([Pair("a", "b")])
        assert data.collate([0])[0]["input_ids"].tolist() == [[size - 1, 5]]
        assert data.tokens[0].dtype == kind and not data.known


def test_an_own_prior():
    """Its function gets words, and may change them. Wrong numbers are refused."""
    seen = []

    def prior(a, b):
        seen.append((a.copy(), b.copy()))
        a[:] = b[:] = []
        return np.zeros((2, 1))[::-1]  # float64, not contiguous

    method = type("Own", (SelfAttention,), {"prior": priors.words_prior(prior)})
    reader = batches.Reader(method, 48, tokenizer=TOY)
    data = reader.examples([Pair("the dog", "cat")])
    for _ in range(2):
        assert data.collate([0])[0]["prior"].dtype == torch.float32
    assert seen == [(["the", "dog"], ["cat"])] * 2 and data.known["cat"].parse is None
    for wrong in ([[1.0], [math.nan]], [[1.0], [1e300]], [["dog"], ["cat"]], [[1.0]]):
        reader.prior.function = lambda *arguments: wrong
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="prior of Own: .*finite"):
            data.collate([0])


def test_relations(monkeypatch):
    """Tags are needed on real text; with `--without prior` not even a lexicon is."""
    asked = at_call(monkeypatch, lexicon.Table, "facts", 0)
    pairs, table = [Pair("the dog", "a good cat"), Pair("", "not bad")], lexicon.Table(RELATED)
    table.lock = lambda: None           # pickle cannot copy it, nor the lock of nltk's WordNet
    for toy, without, parses, facts in ((False, (), True, True), (True, (), False, True),
                                        (False, ("tags",), False, True),
                                        (False, ("prior",), False, False)):
        options = {"without": without}
        reader = batches.Reader(KnowledgeAttention, 48, options, toy=toy, tokenizer=TOY)
        assert (reader.needs_parses, reader.needs_facts) == (parses, facts)
        reader.parser, reader.lexicon = ChainParser, table if facts else None
        data = reader.examples(pairs)
        batch, labels = pickle.loads(pickle.dumps(data)).collate([0, 1])
        found = [[0, 1, 2, priors.RELATIONS.index("synonym")]] if facts else []
        assert labels is None and batch["prior"].nonzero().tolist() == found
        assert batch["prior"].shape == (2, 2, 3, 5)
        assert data.collate([1])[0]["prior"].shape == (1, 1, 2, 5)
        assert not facts or (asked[-1][2] is not None) == parses  # the tags


def test_few_texts_are_unpacked(monkeypatch):
    """Of the texts of a batch, TEXTS_KEPT stay so. The others stay packed."""
    monkeypatch.setattr(batches, "TEXTS_KEPT", 4)
    data = beginning(*of("dafa"))[1]["train"]
    data.collate(range(22))
    assert len(data.known.made) == 4
    assert all(isinstance(packed, bytes) for packed in data.known.values())


ODD_PAIRS = [Pair(*texts, label) for texts, label in [
    (("The GOOD dog is in New York", "bad the cat is not the dog"), 1), (("", "good"), 0),
    (("a BAD zebra", "Good bad good apples are good"), 0), (("", ""), 1),
    (("STRASSE \U0001f600 x" + "y" * 30, "Straße"), 0), (("dog " * 8 + "dog", "cat"), 1)]]


def test_words_are_collated(monkeypatch):
    """Six words of a sentence are read. A sentence without words has one unknown word."""
    parse = ChainParser.parse           # in its place: "is" has no tag of UD's, other words are ADJ
    monkeypatch.setattr(ChainParser, "parse", staticmethod(lambda sentences: [
        ([{"is": "made-up"}.get(word, "ADJ") for word in words], *rest)
        for words, (_, *rest) in zip(sentences, parse(sentences))]))
    reader = beginning(*of("drrnet"), "--max-length", "6")[0].reader
    data = reader.examples(ODD_PAIRS)
    (batch, labels), vocabulary = data.collate([0, 1]), reader.tokenizer
    assert labels.tolist() == [1, 0] and data.lengths == [6, 1, 6, 1, 3, 6]
    sentences = ["The GOOD dog is in New".split(), [""], "bad the cat is not the".split(), ["good"]]
    tags = [[priors.TAGS.index("X" if word in ("", "is") else "ADJ") for word in words]
            for words in sentences]
    expected = {"word_ids": map(vocabulary.ids, sentences), "tags": tags,
                "character_ids": map(vocabulary.spell, sentences),
                "mask": [[1] * len(words) for words in sentences],
                "match": [[1, 0, 0, 1, 0, 0], [0], [0, 1, 0, 1, 0, 1], [0]],
                "antonym": [[0, 1, 0, 0, 0, 0], [0], [1, 0, 0, 0, 0, 0], [0]]}
    assert batch.keys() == expected.keys()
    for name, rows in expected.items():
        for x, row in zip(batch[name].flatten(0, 1), rows, strict=True):
            assert np.array_equal(x[:len(row)], row) and not x[len(row):].any(), name


@pytest.mark.parametrize("model", ["dafa", "drrnet"])
def test_a_pairs_logits_are_its_own(model, trained):
    """They are the same alone, beside other pairs, in threads that change the model."""
    run = train.open_run(trained(*of(model)))
    whole = run.logits(ODD_PAIRS)
    zero = Change(outputs=dict.fromkeys(run.model.outputs(), lambda *given: 0 * given[-1]))
    asked = [([pair], change) for pair in ODD_PAIRS * 4 for change in (None, zero)]
    with ThreadPool(8) as pool:
        alone = pool.starmap(run.logits, asked)
    found = torch.cat([*alone[::2], run.logits(ODD_PAIRS * 20)])
    torch.testing.assert_close(found, whole.repeat(24, 1), rtol=1e-4, atol=1e-5)
