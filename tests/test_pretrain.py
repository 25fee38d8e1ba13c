"""pretrain.py: masked words on packed pairs, and the folder that is written."""
import itertools
import json
import math
from pathlib import Path

import pytest
import torch

import pretrain
from bert_min import Bert, BertConfig, PairTokenizer, read_checkpoint
from oracles.common import affine, dot
from small_runs import TINY, at_call, equal, refused, run
from support.checkpoints import find_file, our_name, published_name, read_safetensors
from support.options import run_command

SMALL = ("--bert scratch --texts texts.txt --device cpu --precision fp32 --batch-size 8 --steps 20 "
         "--lr 1e-2").split()


def read(*args):
    return run_command(pretrain.main, "pretrain.py", list(args))


@pytest.fixture
def tokenizer():
    config, _ = read_checkpoint(TINY)
    return PairTokenizer.from_folder(TINY, config)


def test_hidden_pieces():
    """15 % of the texts' pieces are chosen; of these 80 % are [MASK], 10 % random, 10 % stay."""
    torch.manual_seed(0)
    ids, words = torch.full((200, 500), 7), torch.ones(200, 500, dtype=torch.bool)
    words[:, :100] = False
    hidden, chosen = pretrain.hide_pieces(ids, words, 1, 90)
    assert not chosen[:, :100].any() and (hidden[~chosen] == 7).all()
    assert abs(chosen[:, 100:].double().mean() - 0.15) < 0.005
    said = hidden[chosen].double()
    # a random piece is 1 or 7, too, once in 90
    assert abs((said == 1).double().mean() - 0.8 - 0.1 / 90) < 0.01
    assert abs((said == 7).double().mean() - 0.1 - 0.1 / 90) < 0.01
    others = said[(said != 1) & (said != 7)]
    assert others.min() == 0 and others.max() == 89 and len(others.unique()) == 88


def test_the_head_and_the_loss_are_the_formulas():
    """softmax(E norm(gelu(W h + b)) + b_V), and the mean of -ln p over what was hidden."""
    torch.manual_seed(0)
    model = pretrain.MaskedWords(Bert(BertConfig(13, 6, 1, 2, 7, 11))).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p)
    ids, chosen = torch.randint(13, (2, 5)), torch.zeros(2, 5, dtype=torch.bool)
    chosen[0, 3] = chosen[1, 1] = chosen[1, 2] = True
    segment, mask = torch.zeros_like(ids), torch.ones_like(chosen)
    scores, losses = model(ids, segment, mask, chosen).detach(), []
    states, _ = model.bert(ids, segment, mask)
    rows = {name: p.tolist() for name, p in model.named_parameters() if "bert" not in name}
    E, places = model.bert.embeddings.word.weight.tolist(), [(0, 3), (1, 1), (1, 2)]
    for found, (i, j) in zip(scores.tolist(), places, strict=True):
        x = affine((rows["W.weight"], rows["W.bias"]), states[-1][i, j].tolist())
        x = [t / 2 * (1 + math.erf(t / math.sqrt(2))) for t in x]
        mean = sum(x) / 6
        deviation = math.sqrt(sum((t - mean) ** 2 for t in x) / 6 + 1e-5)
        x = [(t - mean) / deviation * g + b
             for t, g, b in zip(x, rows["norm.weight"], rows["norm.bias"])]
        expected = [dot(row, x) + b for row, b in zip(E, rows["b_V"], strict=True)]
        assert found == pytest.approx(expected)
        total = sum(map(math.exp, expected))
        losses.append(-math.log(math.exp(expected[ids[i, j]]) / total))
    assert float(pretrain.masked_loss(scores, ids[chosen])) == pytest.approx(sum(losses) / 3)
    assert float(pretrain.masked_loss(scores[:0], ids[chosen][:0])) == 0


def test_a_batch_of_copies(tokenizer):
    """A text and a part of it in its order, on either side; what is special is no text."""
    text, parts, firsts = list(range(20, 60)), [], 0
    for seed in range(200):
        batch, words = pretrain.make_batch([(text,)], tokenizer, seed)
        ids, segment = batch["input_ids"][0].tolist(), batch["segment"][0].tolist()
        cut = segment.index(1)
        a, b = ids[1:cut - 1], ids[cut:-1]
        assert ids[0], ids[cut - 1] == (tokenizer.first[0], tokenizer.last[0])
        assert words[0].tolist() == [token not in tokenizer.first + tokenizer.last for token in ids]
        assert batch["mask"].all() and text in (a, b)
        part = b if a == text else a
        assert part == [piece for piece in text if piece in part]
        firsts += a == text
        parts.append(len(part))
    assert abs(sum(parts) / 200 / 40 - 0.85) < 0.02 and 70 < firsts < 130
    assert pretrain.copy_of([5]) == [5]


def test_a_batch_of_given_pairs(tokenizer):
    """Both texts as they are; padding is no token and no text."""
    batch, words = pretrain.make_batch([([20, 21], [22]), ([23], [24])], tokenizer, 0)
    rows = [[x for x in row if x > 19] for row in batch["input_ids"].tolist()]
    assert sorted(map(sorted, rows)) == [[20, 21, 22], [23, 24]]
    assert batch["mask"].sum(1).tolist() == [6, 5] and words.sum(1).tolist() == [3, 2]


def test_only_copies():
    """Piece 5 has one copy across, piece 6 two, piece 7 one in its own text alone."""
    ids = torch.tensor([[1, 5, 6, 7, 7, 2, 6, 5, 6, 2]])
    segment = torch.tensor([[0, 0, 0, 0, 0, 0, 1, 1, 1, 1]])
    words = (ids > 2)
    found = pretrain.only_copies(ids, segment, words).nonzero().tolist()
    assert found == [[0, 1, 7], [0, 6, 2], [0, 7, 1], [0, 8, 2]]


def test_published_names():
    """Each tensor of Bert has the name that Hugging Face's library gives it."""
    config, _ = read_checkpoint(TINY)
    ours = [*Bert(config).state_dict()]
    theirs = {name.removeprefix("bert."): name
              for name in read_safetensors(find_file(TINY, "model.safetensors"))}
    assert {published_name(name) for name in ours} <= theirs.keys()
    assert [our_name(published_name(name)) for name in ours] == ours


def test_a_reading_that_is_killed_goes_on_bit_for_bit(workplace, monkeypatch):
    """And what it wrote is an encoder for train.py: pieces, sizes, weights."""
    monkeypatch.setattr(pretrain, "SAVE_SECONDS", 0.0)
    names = map(" ".join, itertools.permutations("abcdef", 3))
    Path("texts.txt").write_text("".join(f"the cat saw {name} there\n" for name in names))
    batches = at_call(monkeypatch, pretrain, "masked_batch", 0)
    assert read(*SMALL, "--out", "whole") == 0
    seeds = {seed for *_, seed in batches[1:-1]}  # before and after it is measured
    assert len(seeds) == 20  # each step has its own
    with monkeypatch.context() as patch:
        at_call(patch, pretrain, "masked_loss", 8)
        assert read(*SMALL, "--out", "killed") == 130
    assert not Path("killed/reading.json").exists()
    assert read("--resume", "killed") == 0 and not Path("killed/last.pt").exists()
    whole, killed = (json.loads(Path(x, "reading.json").read_text()) for x in ("whole", "killed"))
    assert whole["after"]["right"] > whole["before"]["right"] + 0.2
    assert whole["after"] == killed["after"] and whole["before"] == killed["before"]
    assert equal(*(torch.load(f"{x}/pytorch_model.bin") for x in ("whole", "killed")))
    assert run("--bert", "whole", "--model", "bert") == 0


def test_a_reading_of_given_pairs_keeps_the_pooler(workplace):
    """A pooler that was there stays as it was; the other weights learn."""
    options = ["--bert", TINY, "--texts", "train.tsv,dev.tsv", "--device", "cpu", "--precision",
               "fp32", "--steps", "3"]
    assert read(*options, "--pairs", "given", "--out", "read") == 0
    result = json.loads(Path("read/reading.json").read_text())
    assert len(result["after"]["copies"]) == 2 and result["read"] + result["held_out"] <= 32
    (config, before), (same, after) = read_checkpoint(TINY), read_checkpoint("read")
    assert config == same
    assert before.keys() == after.keys() and torch.equal(before["pooler.weight"],
                                                         after["pooler.weight"])
    assert not torch.equal(before["embeddings.word.weight"], after["embeddings.word.weight"])


@pytest.mark.parametrize("args, words", [
    ([], "--task --texts"), (["--task", "nothing"], "nothing mrpc"),
    (["--texts", "few.txt"], "20 texts found 2"),
    (["--texts", "few.txt", "--pairs", "given"], "few.txt table"),
    (["--texts", "train.tsv", "--bert", "train.tsv"], "--bert train.tsv"),
    (["--texts", "train.tsv", "--out", "full"], "full best.pt"),
    (["--resume", "full"], "full last.pt"), (["--resume", "full", "--lr", "1"], "lr"),
    (["--texts", "train.tsv", "--lr", "1e9", "--steps", "30"], "step --lr")])
def test_mistakes_are_one_line(workplace, args, words):
    Path("few.txt").write_text("one text\n\nanother text\none text\n")
    Path("full").mkdir()
    Path("full/best.pt").write_text("a run")
    options = ["--bert", TINY, "--device", "cpu", "--precision", "fp32"]
    refused(words, *options * ("--resume" not in args), *args, by=read)
