"""batches.py: pairs become padded tensors; each row as if it were alone, each place once."""
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import batches
import priors
import train
from small_runs import ChainParser, beginning, command, losses, of, run, the_line
from support import tasks
from support.words import TAGS

pytestmark = pytest.mark.usefixtures("workplace")


@pytest.mark.parametrize("count, size, block", [
    (1, 8, 1), (1000, 7, 1), (1000, 8, 4), (998, 8, 4), (1000, 6, 4), (1000, 3, 4), (103, 200, 4)])
def test_batches_hold_every_place_once(count, size, block):
    lengths = [random.Random(i).randint(3, 90) for i in range(count)]
    found = batches.training_batches(lengths, size, "0 0", block)
    assert sorted(i for batch in found for i in batch) == list(range(count))
    assert sorted(map(len, found))[1:] == [size] * (math.ceil(count / size) - 1)  # one is smaller
    assert found == batches.training_batches(lengths, size, "0 0", block)
    for seed in ("0 1", "1 0") if count > size else ():
        assert found != batches.training_batches(lengths, size, seed, block)
    for batch in found if size % block == 0 else ():
        for first in {i // block * block for i in batch}:
            whole = list(range(first, min(first + block, count)))
            assert [i for i in batch if i in whole] == whole


def test_batches_have_like_lengths():
    lengths = [random.Random(i).randint(3, 90) for i in range(2000)]

    def padding(found):
        padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in found)
        return padded - sum(lengths)

    order = random.Random(0).sample(range(2000), 2000)
    anyhow = [order[i:i + 16] for i in range(0, 2000, 16)]
    assert padding(batches.training_batches(lengths, 16, "0 0")) < 0.2 * padding(anyhow)


def reader_of(*args):
    """The reader of a run with these arguments, and its training pairs."""
    data = beginning(*args)[1]["train"]
    return data.reader, data.pairs


def test_each_row_is_padded_by_itself():
    data, places = beginning(*of("dafa"))[1]["train"], [3, 0, 7]
    reader, (batch, labels) = data.reader, data.collate(places)
    length = max(data.lengths[i] for i in places)
    assert len({data.lengths[i] for i in places}) > 1 and batch["mask"].dtype == torch.bool
    assert labels.tolist() == [data.pairs[i].label for i in places]
    for row, i in enumerate(places):
        pair, (alone, _) = data.pairs[i], data.collate([i])
        a, b = reader.parses[pair.a], reader.parses[pair.b]
        ids, segment, words = reader.tokenizer.encode(pair.a, a.spans, pair.b, b.spans, 48)
        rest = length - len(ids)
        assert batch["input_ids"][row].tolist() == [*ids, *[reader.tokenizer.pad_id] * rest]
        assert batch["segment"][row].tolist() == [*segment, *[0] * rest]
        assert batch["word_index"][row].tolist() == [*words, *[-1] * rest]
        assert batch["mask"][row].tolist() == [True] * len(ids) + [False] * rest
        weights = reader.tfidf.weights(a.words), reader.tfidf.weights(b.words)
        matrix, (n, m) = priors.dependency_matrix(a, b, *weights), (len(a.words), len(b.words))
        assert np.array_equal(alone["prior"][0].numpy(), matrix)
        assert np.array_equal(batch["prior"][row, :n, :m].numpy(), matrix)
        assert batch["prior"][row].count_nonzero() == np.count_nonzero(matrix)


def test_what_goes_in_is_what_the_method_asks_for():
    pairs = [tasks.Pair("the dog", "a good cat"), tasks.Pair("", "not bad")]
    for model in ("bert", "ladranet", "dafa", "knowledge"):
        reader, _ = reader_of(*of(model))
        reader.look_at(pairs)
        assert bool(reader.parses) == (model == "dafa") and bool(reader.facts) == (
            model == "knowledge")
        batch, labels = reader.examples(pairs).collate([0, 1])
        assert labels is None  # of no pair there is one
        prior = {"prior"} if model in ("dafa", "knowledge") else set()
        assert batch.keys() == {"input_ids", "segment", "word_index", "mask", *prior}
        if prior:
            relations = [len(priors.RELATIONS)] if model == "knowledge" else []
            assert list(batch["prior"].shape) == [2, 2, 3, *relations]
            assert batch["prior"][1].count_nonzero() == 0
    assert batch["prior"][0, 1, 2, priors.RELATIONS.index("synonym")] > 0  # dog, cat
    assert reader.words("the dog") == ["the", "dog"] and reader.words("") == []
    assert batches.pad_matrices([np.zeros((0, 0, 5))]).shape == (1, 1, 1, 5)


def test_nothing_is_known_of_words_that_no_model_sees():
    """A text of 10,000 words costs what one of max_length words costs, and its reading."""
    reader, _ = reader_of(*of("knowledge"))
    long = tasks.Pair("dog " * 10_000, "cat " * 10_000)
    reader.look_at([long])
    assert [len(found) for found in reader.facts.values()] == [48, 48]
    batch, _ = reader.examples([long]).collate([0])
    assert list(batch["prior"].shape) == [1, 48, 48, 5] and batch["mask"].shape == (1, 48)


def test_word_weights_come_from_the_training_sentences():
    reader, pairs = reader_of(*of("dafa"), "--limit", "9")
    seen = priors.TfIdf(text.split() for pair in pairs for text in (pair.a, pair.b))
    words = ["the", "unseen", "dog"]
    np.testing.assert_allclose(reader.tfidf.weights(words), seen.weights(words))
    assert run(*of("dafa"), "--epochs", "1", "--limit", "9") == 0
    again = train.open_run("run").reader.tfidf
    np.testing.assert_array_equal(again.weights(words), seen.weights(words))


def test_printed_and_without_reach_the_prior():
    def first_prior(*args):
        return beginning(*of("dafa"), *args)[1]["train"].collate([0, 3])[0]["prior"]

    plain = first_prior()
    assert torch.equal(plain, first_prior("--printed", "6,7,9", "--without", "gates"))
    for args in ("--printed 4", "--without tree", "--without subgraph", "--without tfidf"):
        assert not torch.equal(plain, first_prior(*args.split())), args


def test_own_parses_are_used(capsys):
    """A chain, as the tests' parser makes them, or a star; predicting needs the texts' parses."""
    texts = {text for name in ("train", "dev") for pair in tasks.read_pairs(f"{name}.tsv")
             for text in (pair.a, pair.b)}
    for name in ("chain", "star"):
        lines = []
        for text in sorted(texts):
            lines.append(f"# text = {text}")
            for k, word in enumerate(text.split(), 1):
                head = k - 1 if name == "chain" else min(k - 1, 1)
                lines.append(f"{k}\t{word}\t_\tX\t_\t_\t{head}\t{'dep' if head else 'root'}\t_\t_")
            lines.append("")
        Path(f"{name}.conllu").write_text("\n".join([*lines, ""]), "utf-8")
        assert run(*of("dafa"), "--parses", f"{name}.conllu", "--epochs", "1", out=name) == 0
    assert run(*of("dafa"), "--epochs", "1", out="parser") == 0
    assert losses("chain") == losses("parser") != losses("star")
    capsys.readouterr()
    assert command("--from", "star", "--predict", "test.tsv") == 2
    the_line(capsys, "star.conllu")


class TagParser(ChainParser):
    """Tags are those of UD, but for one."""

    OF = {"dog": "NOUN", "is": "AUX", "good": "ADJ", "york": "PROPN", "flight": "made-up"}

    @classmethod
    def parse(cls, sentences):
        return [([cls.OF.get(word.casefold(), "ADJ") for word in words], *rest)
                for words, (_, *rest) in zip(sentences, super().parse(sentences))]


def word_features(text, other, limit, seen):
    """The loop: (number, characters, tag, match, antonym) of the first `limit` words.

    seen: the training sentences.
    """
    words = [word.casefold() for sentence in seen for word in sentence.split()]
    known = sorted({word for word in words if words.count(word) > 1})
    characters = sorted({c for sentence in seen for c in sentence if c != " "})
    if not text:
        return [(1, [0] * 16, TAGS.index("X"), False, False)]
    rows, others = [], [word.casefold() for word in other.split()]
    for word in text.split()[:limit]:
        folded = word.casefold()
        spelled = [characters.index(c) + 2 if c in characters else 1 for c in word[:16]]
        tag = TagParser.OF.get(folded, "ADJ")
        rows.append((known.index(folded) + 2 if folded in known else 1,
                     spelled + [0] * (16 - len(spelled)), TAGS.index(tag if tag in TAGS else "X"),
                     folded in others, any({folded, w} == {"good", "bad"} for w in others)))
    return rows


ODD_PAIRS = [tasks.Pair(*texts, label) for texts, label in [
    (("The GOOD dog is in New York", "the bad cat is not the dog"), 1),
    (("a BAD zebra", "Good bad good apples are good"), 0),  # antonyms the other way round
    (("good bad", "good flight"), 1), (("", "good"), 0), (("", ""), 1),
    (("STRASSE \U0001f600 x" + "y" * 30, "Straße"), 0), (("dog " * 8 + "dog", "cat"), 1)]]


def test_words_are_collated_as_in_a_plain_loop(monkeypatch):
    monkeypatch.setattr(batches, "load_parser", TagParser)
    reader, pairs = reader_of(*of("drrnet"), "--max-length", "6")
    reader.look_at(ODD_PAIRS)
    data, seen = reader.examples(ODD_PAIRS), [text for pair in pairs for text in (pair.a, pair.b)]
    names, places = ("word_ids", "character_ids", "tags", "match", "antonym"), [5, 0, 1, 2, 3, 6, 4]
    batch, labels = data.collate(places)
    assert labels.tolist() == [ODD_PAIRS[i].label for i in places]
    assert batch.keys() == {*names, "mask"}
    assert [batch[name].dtype for name in names] == [torch.int64] * 3 + [torch.bool] * 2
    for row, i in enumerate(places):
        sides, (alone, _) = (ODD_PAIRS[i].a, ODD_PAIRS[i].b), data.collate([i])
        expected = [word_features(*texts, 6, seen) for texts in (sides, sides[::-1])]
        assert data.lengths[i] == max(map(len, expected))
        for side, words in enumerate(expected):
            n = len(words)
            assert batch["mask"][side, row].tolist() == [True] * n + [False] * (6 - n)
            for name, column in zip(names, zip(*words)):
                found = batch[name][side, row]
                assert found[:n].tolist() == list(column), (ODD_PAIRS[i], side, name)
                assert found[n:].count_nonzero() == 0, (ODD_PAIRS[i], side, name)
                assert torch.equal(found[:data.lengths[i]], alone[name][side, 0])
    match = batch["match"].any(2)
    assert torch.equal(match[0], match[1]) and match.any() and not match.all()
    assert batch["antonym"].any((1, 2)).all()


@pytest.mark.parametrize("model", ["dafa", "drrnet", "ladranet"])
def test_neighbours_change_no_logits(model, trained):
    """A pair's row is the same beside a longer one, and among more pairs than a batch has."""
    found = train.open_run(trained(*of(model)))
    data, many = found.examples(ODD_PAIRS), ODD_PAIRS * 20
    with torch.inference_mode():
        whole = found.model.eval()(**data.collate(range(len(ODD_PAIRS)))[0])
        alone = torch.cat([found.model(**data.collate([i])[0]) for i in range(len(ODD_PAIRS))])
    torch.testing.assert_close(alone, whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.logits(many), whole.repeat(20, 1), rtol=1e-4, atol=1e-5)
