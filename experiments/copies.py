"""How much attention does a piece give to its copy in the other sentence? After each epoch.

    python -m experiments.copies --task paws --model tutorials/mine.py:Aligned --layers all

Takes the options of train.py, and trains as train.py does. After each epoch it predicts the first
200 pairs of dev. It looks at the pieces of words whose piece stands exactly once in the other
sentence. The share is the part of its attention that such a piece gives to its copy, the mean over
pieces. copies.jsonl in the run's folder gets one line an epoch: for each
layer the share of the best head and the mean over the heads, of plain attention ("attention") and,
in a method with a prior, of the attention with the prior ("calibrated").
"""
import json
import sys

import torch

import train
from support.options import run_command

PAIRS = 200
judge_epoch = train.judge_epoch


def copies(input_ids, segment, mask, special):
    """bool (B, L, L): does piece i of a word have exactly one copy in the other sentence, j?
    special: ids of pieces that are no words'."""
    pieces = mask & ~torch.isin(input_ids, special)
    same = (input_ids[:, :, None] == input_ids[:, None]) & pieces[:, :, None] & pieces[:, None]
    same &= segment[:, :, None] != segment[:, None]
    return same & (same.sum(-1, keepdim=True) == 1)


@torch.inference_mode()
def shares(run, examples):
    """dict "attention", "calibrated" -> for each layer [share of the best head, mean of heads]."""
    places = range(min(PAIRS, len(examples.pairs)))
    batch, _ = examples.collate(places)
    special = torch.tensor(run.reader.tokenizer.encode("", None, "", None, 8)[0])
    chosen = copies(batch["input_ids"], batch["segment"], batch["mask"], special)
    trace, found = {}, {}
    run.model.eval()(**batch, trace=trace)
    layers = [trace[f"layer{i}"] for i in range(run.model.bert.config.num_layers)]
    for name in ("attention", "calibrated"):
        of_layers = [layer[name] for layer in layers if name in layer]
        heads = [(weights * chosen[:, None]).sum((0, 2, 3)) / chosen.sum() for weights in of_layers]
        if heads:
            found[name] = [[share.max().item(), share.mean().item()] for share in heads]
    return found


def judge_and_measure(run, examples, progress, log):
    """train.judge_epoch, and then the shares."""
    judge_epoch(run, examples, progress, log)
    line = {"epoch": progress.epoch, **shares(run, examples)}
    with open(run.folder / "copies.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def main(argv=None):
    """Trains and measures."""
    train.judge_epoch = judge_and_measure
    train.main(argv)


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.copies"))
