"""experiments.bench: its tables on tiny sizes."""
import itertools
import re

import pytest
import torch

from experiments import bench
from small_runs import TINY
from support import machine

pytestmark = pytest.mark.usefixtures("workplace")


def test_the_table_of_steps(capsys):
    """A row for each model and kind of work; ratios to plain BERT."""
    args = f"--sections steps --bert {TINY} --lengths 6 --batch 2 --repeats 1 --device cpu"
    args += " --layers all --precision fp32,bf16 --models bert,dafa,ladranet"
    bench.main(args.split())
    head, *lines = capsys.readouterr().out.splitlines()
    assert f"{machine.processor_says('model name')}, {torch.get_num_threads()} threads" in head
    rows = [re.split(r"  +", line) for line in lines if line.startswith("tiny_bert_hf")]
    assert [(row[1], row[4], row[3]) for row in rows] == list(itertools.product(
        ["fp32", "bf16"], ["train", "infer"], ["bert", "dafa", "ladranet"]))
    for row in rows:
        ratio, speed, memory, more = map(float, row[6:])
        assert min(ratio, speed, more) > 0 <= memory
        assert row[3] != "bert" or ratio == more == 1.0


def test_sections_of_text(monkeypatch, capsys):
    """The toy world's pairs, where there is no MRPC."""
    monkeypatch.setattr(bench, "PAIRS", 9)
    monkeypatch.setattr(bench, "SINGLE", 3)
    args = f"--sections pair,parser --data-dir none --bert {TINY} --models dafa --repeats 2"
    bench.main([*args.split(), "--device", "cpu"])
    printed = capsys.readouterr().out
    assert "sentences of 20 words, toy" in printed


def test_memory_is_the_peak_of_what_was_allocated():
    """Four million bytes, of which half are given back before the next three."""
    def work():
        kept = torch.ones(500_000)
        torch.ones(500_000)
        return kept, torch.ones(750_000)

    assert bench.peak_megabytes(work, "cpu") == pytest.approx(5e6 / 2 ** 20, rel=0.01)
