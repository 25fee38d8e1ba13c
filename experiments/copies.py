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
from pathlib import Path

import torch

import train
from experiments.groups import name_of, read_group
from support.files import write_text
from support.machine import to_device
from support.options import run_command
from support.summary import draw_line, draw_text, svg_page

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
    batch, _ = to_device(examples.collate(places), run.recipe.device)
    special = run.reader.tokenizer.encode("", None, "", None, 8)[0]
    special = torch.tensor(special, device=run.recipe.device)
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


# ---- A picture of many runs ----------------------------------------------------------------------

def draw(group, shares_of_runs, picture):
    """Draws dev's score and the share of the best head after each epoch, a line for each run.

    group: a file of experiments.compare. shares_of_runs: a file with a line for each run: its
    "model", its "seed", and for each epoch the "attention" of the best head of all layers, and
    "calibrated", if the method has a prior. picture: the SVG file to write.
    """
    lines = Path(shares_of_runs).read_text("utf-8").splitlines()
    lines = [json.loads(line) for line in lines]
    done, models = read_group(group)["done"], list(dict.fromkeys(x["model"] for x in lines))
    scores = [done[name_of({"model": x["model"]}, x["seed"])]["curve"] for x in lines]
    shares = [x.get("calibrated", x["attention"]) for x in lines]
    left, parts = 60, []
    for title, curves in (("dev accuracy in %", scores),
                          ("best head's attention on copies in %", shares)):
        parts.append(draw_text(left, 24, title, "title"))
        for percent in range(0, 101, 20):
            y = 240 - 2 * percent
            parts += [draw_line(left, y, left + 270, y, "grid" if percent else "zero"),
                      draw_text(left - 8, y + 5, f"{percent}", "soft", "end")]
        for x, curve in zip(lines, curves, strict=True):
            points = " ".join(f"{left + 270 * i / (len(curve) - 1):.1f},{240 - 200 * y:.1f}"
                              for i, y in enumerate(curve))
            dashes = 'stroke-dasharray="3 3"' if x["model"] == models[0] else ""
            parts.append(f'<polyline class="curve" {dashes} points="{points}"/>')
        parts += [draw_text(left, 260, "epoch 1", "soft"),
                  draw_text(left + 270, 260, f"{len(curve)}", "soft", "end")]
        left += 360
    parts.append(draw_text(60, 286, f"dashed: {models[0]}; solid: {', '.join(models[1:])}", "soft"))
    write_text(picture, svg_page(left - 60, 300, parts))


def main(argv=None):
    """Trains and measures."""
    train.judge_epoch = judge_and_measure
    try:
        train.main(argv)
    finally:
        train.judge_epoch = judge_epoch


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.copies"))
