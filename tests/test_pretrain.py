"""pretrain.py: masked words beside copies, and the folder that is written."""
import itertools
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import pretrain
from bert_min import Bert, BertConfig, PairTokenizer, read_checkpoint
from small_runs import TINY, at_call, refused, result, run
from support.checkpoints import read_safetensors
from support.options import run_command

CPU = "--device cpu --precision fp32".split()


def read(*args):
    return run_command(pretrain.main, "pretrain.py", list(args))


def test_hidden_pieces():
    """15 % of the texts' pieces are chosen; of these 80 % are [MASK], 10 % random, 10 % stay."""
    torch.manual_seed(0)
    ids, words = torch.full((200, 500), 7), torch.ones(200, 500) > 0
    words[:, :100] = False
    hidden, chosen = pretrain.hide_pieces(ids, words, 1, 90)
    assert not chosen[:, :100].any() and (hidden[~chosen] == 7).all()
    shares = hidden[chosen].bincount() / chosen.sum()  # a random piece is 1 or 7, too
    assert len(shares) == 90 and shares.all()
    assert [chosen.sum() / 80_000, shares[1], shares[7]] == pytest.approx(
        [0.15, 0.8 + 0.1 / 90, 0.1 + 0.1 / 90], abs=0.01)


def test_the_head_and_the_loss_are_the_formulas():
    """softmax(E norm(gelu(W h + b)) + b_V), and the mean of -ln p over what was hidden."""
    torch.manual_seed(0)
    model = pretrain.MaskedWords(Bert(BertConfig(13, 6, 1, 2, 7, 11))).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p.requires_grad_(False))
    ids, chosen = torch.randint(13, (2, 5)), torch.zeros(2, 5, dtype=torch.bool)
    chosen[0, 3] = chosen[1, 1] = chosen[1, 2] = True
    batch = ids, torch.zeros_like(ids), torch.ones_like(chosen)
    scores, h = model(*batch, chosen), model.bert(*batch)[0][-1][chosen]
    x = model.norm(F.gelu(h @ model.W.weight.T + model.W.bias))
    expected = x @ model.bert.embeddings.word.weight.T + model.b_V
    torch.testing.assert_close(scores, expected)
    losses = -expected.softmax(1).log()[range(3), ids[chosen]]
    assert float(pretrain.masked_loss(scores, ids[chosen])) == pytest.approx(losses.mean().item())
    assert float(pretrain.masked_loss(scores[:0], ids[chosen][:0])) == 0


def test_a_batch_of_copies():
    """A text and a part of it in its order, on either side; of these pieces some are chosen."""
    text, parts, firsts = list(range(20, 60)), [], 0
    tokenizer = PairTokenizer.from_folder(TINY, read_checkpoint(TINY)[0])
    for seed in range(200):
        batch, pieces = pretrain.masked_batch([text, [70]], tokenizer, seed)
        ids, chosen, segment = batch["input_ids"][0], batch["chosen"], batch["segment"][0]
        ids = ids.masked_scatter(chosen[0], pieces).tolist()  # nothing is hidden
        end, cut = int(batch["mask"][0].sum()), segment.tolist().index(1)
        a, b = ids[1:cut - 1], ids[cut:end - 1]
        assert (ids[0], ids[cut - 1], ids[end - 1]) == (2, 3, 3) and not any(ids[end:])
        assert batch["mask"].sum(1).tolist() == [end, 5]  # one piece stays in the copy
        assert not chosen[0][[0, cut - 1, end - 1]].any() and not chosen[:, end:].any()
        assert not chosen[1, 5:].any() and text in (a, b)
        part = b if a == text else a
        assert part == [piece for piece in text if piece in part]
        firsts += a == text
        parts.append(len(part))
    assert abs(sum(parts) / 200 / 40 - 0.85) < 0.02 and 70 < firsts < 130


def test_a_reading(workplace, monkeypatch):
    """Rate, decay and clipping are as in BERT's fine-tuning; all weights learn but the pooler. What
    is written has the names of Hugging Face's library, and train.py reads it."""
    names = [" ".join(x) for x in itertools.permutations("abcdef", 3)][:107] + ["dog cat " * 30]
    Path("texts.txt").write_text("".join(f"the cat saw {x} there\n" for x in names + names[:40]))
    batches, rates = at_call(monkeypatch, pretrain, "masked_batch", 0), []
    clips = at_call(monkeypatch, torch.nn.utils, "clip_grad_norm_", 0)
    cleared = at_call(monkeypatch, torch.optim.AdamW, "zero_grad", 0)
    take = torch.optim.AdamW.step

    def look(optimizer, *args):
        groups = optimizer.param_groups
        rates.append(groups[0]["lr"])
        assert [group["weight_decay"] for group in groups] == [0.01, 0]
        assert {p.dim() for p in groups[0]["params"]} == {2} and groups[1]["params"]
        return take(optimizer, *args)

    monkeypatch.setattr(torch.optim.AdamW, "step", look)
    args = "--texts texts.txt --batch-size 8 --steps 40 --lr 5e-3 --bert".split()
    assert read(*CPU, *args, TINY, "--out", "read") == 0
    assert result("read", "reading.json")["read"] == 108  # each text once
    assert max(len(x) for some, *_ in batches for x in some) == 22  # and its copy; 48 positions
    assert rates == pytest.approx([5e-3 * min((i + 1) / 2, (40 - i) / 38, 1) for i in range(40)])
    assert {most for _, most in clips} == {1.0} and len(cleared) == 40
    epochs = [[x for some, *_ in batches[i:i + 14] for x in some] for i in (0, 14)]
    assert sorted(epochs[0]) == sorted(epochs[1]) and epochs[0] != epochs[1]
    more = "--texts train.tsv,texts.txt --out again --seed 1".split()
    assert read(*CPU, *args, "scratch", *more) == 0
    assert len({seed for *_, seed in batches}) == 80
    assert result("again", "reading.json")["read"] > 108
    assert run("--bert", "again", "--model", "bert") == 0
    (config, before), (same, after) = read_checkpoint(TINY), read_checkpoint("read")
    assert config == same and before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if "pooler" not in name}
    theirs, ours = (read_safetensors(Path(x, "model.safetensors")) for x in (TINY, "read"))
    assert ours.keys() <= theirs.keys()


@pytest.mark.parametrize("args, words", [
    ([], "--task --texts"), (["--texts", "none.txt"], "found no text"),
    (["--texts", "train.tsv", "--bert", "train.tsv"], "--bert train.tsv"),
    (["--texts", "train.tsv", "--out", "full"], "full/vocab.txt exists"),
    (["--texts", "train.tsv", "--lr", "2e9", "--steps", "9"], "step 1: --lr")])
def test_mistakes_are_one_line(workplace, args, words):
    Path("none.txt").write_text("\n")
    Path("full").mkdir()
    Path("full/vocab.txt").write_text("somebody's")
    refused(words, "--bert", TINY, *CPU, *args, by=read)
    assert Path("full/vocab.txt").read_text() == "somebody's" and not [*Path().glob("runs/*")]
