"""experiments.copies: which pieces have one copy, and the share of attention by hand."""
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import train
from experiments import copies
from small_runs import OWN, ROOT, losses, of

pytestmark = pytest.mark.usefixtures("workplace")
IDS = torch.tensor([[1, 5, 6, 6, 2, 6, 5, 7, 2]])  # [CLS] 5 6 6 [SEP] 6 5 7 [SEP]
SEGMENT = torch.tensor([[0] * 5 + [1] * 4])
SPECIAL = torch.tensor([1, 2])


def test_pieces_with_one_copy():
    """5 has one copy in each direction; each 6 of a has one, while 6 of b has two."""
    found = copies.copies(IDS, SEGMENT, IDS > 0, SPECIAL)[0].nonzero().tolist()
    assert found == [[1, 6], [2, 5], [3, 5], [6, 1]]


def test_shares_by_hand():
    """The best head gives a copy 0.5, the other head 0.1; a layer may have no prior."""
    weights = torch.full((1, 2, 9, 9), 0.1)
    weights[0, 1, [1, 2, 3, 6], [6, 5, 5, 1]] = torch.tensor([0.2, 0.4, 0.6, 0.8])

    class Model(torch.nn.Module):
        bert = SimpleNamespace(config=SimpleNamespace(num_layers=2))

        def forward(self, trace, **batch):
            trace["layer0"] = {"attention": weights}
            trace["layer1"] = {"attention": weights / 2, "calibrated": weights}

    batch = {"input_ids": IDS, "segment": SEGMENT, "mask": IDS > 0}
    examples = SimpleNamespace(pairs=[None], collate=lambda places: (batch, None))
    tokenizer = SimpleNamespace(encode=lambda *args: (SPECIAL.tolist(), [0, 0]))
    run = SimpleNamespace(model=Model(), reader=SimpleNamespace(tokenizer=tokenizer),
                          recipe=SimpleNamespace(device="cpu"))
    found = copies.shares(run, examples)
    assert found["attention"][0] == pytest.approx([0.5, 0.3])
    assert found["attention"][1] == pytest.approx([0.25, 0.15])
    assert found["calibrated"] == [pytest.approx([0.5, 0.3])]


def test_a_line_for_each_epoch():
    """Training is the same with the measurement, and later training is without it."""
    model = f"{ROOT}/tutorials/mine.py:Aligned"
    args = [*map(str, [*OWN, *of("bert")]), "--model", model, "--epochs", "2"]
    train.main([*args, "--out", "plain"])
    copies.main([*args, "--out", "measured"])
    lines = [json.loads(line) for line in Path("measured/copies.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[0]["calibrated"] != lines[1]["calibrated"] and lines[0]["attention"][0][0] > 0
    assert losses("plain") == losses("measured") and train.judge_epoch is copies.judge_epoch
