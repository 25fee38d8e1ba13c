"""What the lessons share: a small training run, a look at what it does with a pair, and figures.

A lesson is read beside its paper and runs from top to bottom, as a script or as a notebook (see
README.md here). The equations are those of the library; nothing here computes one.
"""
import builtins
import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))            # the modules stand one folder above the lessons

import torch  # noqa: E402

import batches  # noqa: E402
import train  # noqa: E402
from support import toy  # noqa: E402

torch.set_num_threads(1)                 # the same numbers whatever the machine's threads
batches.CACHE = ROOT / batches.CACHE     # one cache of parses, wherever a lesson is started


def fixed(rows, bias=None):
    """A linear map with these numbers, for hand calculation: x → rows x + bias."""
    layer = torch.nn.Linear(len(rows[0]), len(rows), bias=bias is not None).requires_grad_(False)
    layer.weight.copy_(torch.tensor(rows))
    if bias is not None:
        layer.bias.copy_(torch.tensor(bias))
    return layer


# ---- Training -----------------------------------------------------------------------------------

def train_on(frames, model, **settings):
    """Trains `model` on a toy world of these frames only: seconds, where all frames take minutes.

    frames: dict name -> frames in the form of support.toy.FRAMES, 800 training pairs and 120 dev
    pairs for each name. settings: of train.Settings. -> (the best epoch's Run, its dev accuracy)
    """
    print(f"{model} is training ...", flush=True)
    begun = time.perf_counter()
    settings = train.Settings(model=model, device="cpu", **settings).complete()
    world = mock.patch.dict(toy.FRAMES, frames, clear=True)
    with world, tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()):
            metrics = train.train_model(settings, Path(folder))["metrics"]
        run = train.open_run(folder, device="cpu")
        log = Path(folder, "log.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in log]
    epochs = [f"{100 * event['accuracy']:.0f}" for event in events if "accuracy" in event]
    print("accuracy on dev, epoch by epoch:", *epochs)
    dev, unseen = (metrics[split]["accuracy"] for split in ("dev", "dev_unseen"))
    print(f"best epoch: {100 * dev:.1f} on dev, {100 * unseen:.1f} with words it never saw; "
          f"{time.perf_counter() - begun:.0f} seconds\n")
    return run, dev


class Look(NamedTuple):
    """What a trained model does with a pair. probability: of the label "same". tokens: pieces of
    the packed pair, or for drrnet the words of a and those of b. trace: as the model's class says.
    """
    probability: float
    tokens: list
    trace: dict


def look(run, a, b):
    """Shows a pair of sentences to a run of train_on. -> Look"""
    examples, trace = run.examples([(a, b)]), {}
    probabilities = run.logits(examples, trace).softmax(-1)[0]
    if run.settings.method.READS == "words":
        tokens = [run.reader.words(text) for text in (a, b)]
    else:
        tokens = run.reader.tokenizer.pieces(examples.tokens(0)[0])
    return Look(probabilities[run.task.labels.index("same")].item(), tokens, trace)


# ---- Figures, in a notebook only ----------------------------------------------------------------

class Panel(NamedTuple):
    """A drawing of width × height inches: `draw` takes matplotlib's axes."""
    width: float
    height: float
    draw: Callable


def heat(title, rows, columns, values, across="", down="", top=None):
    """A matrix of numbers that are 0 or more as colours, with its numbers where there is room.

    rows, columns: names; across, down: what they are. top: the number with the darkest colour, the
    largest where none is given. -> Panel
    """
    values = torch.as_tensor(values, dtype=torch.float64)
    top, small = float(values.max() if top is None else top), len(columns) <= 10
    turned = 60 if sum(map(len, columns)) > 18 else 0

    def draw(ax):
        ax.imshow(values, cmap="Blues", vmin=0, vmax=top, aspect="auto")
        ax.set_xticks(range(len(columns)), columns, rotation=turned)
        ax.set_yticks(range(len(rows)), rows)
        ax.set(title=title, xlabel=across, ylabel=down)
        for i, row in enumerate(values.tolist() if small else ()):
            for j, value in enumerate(row):
                text, color = f"{value:.2f}".rstrip("0").rstrip("."), "black"
                if value > 0.6 * top:
                    color = "white"
                ax.text(j, i, text, ha="center", va="center", color=color)
    width = 1.9 + max(0.3 * len(columns), 2.1 if small else 0)
    return Panel(width, 1.4 + max(0.3 * len(rows), 1.6), draw)


def curves(title, x, series, across="", up="", log=False):
    """Lines over x. -> Panel

    series: dict of what a line stands for -> numbers, one for each x. log: a logarithmic x axis.
    """
    def draw(ax):
        for label, values in series.items():
            ax.plot(x, [float(y) for y in values], marker="o", label=label)
        ax.set(title=title, xlabel=across, ylabel=up)
        if log:
            ax.set_xscale("log")
            if len(x) <= 6:                            # more would stand on top of each other
                ax.set_xticks(x, [str(place) for place in x])
                ax.minorticks_off()
        ax.legend()
    return Panel(4.8, 3.4, draw)


def figure(*panels):
    """Draws panels side by side, where this is a notebook; a script draws nothing, and needs no
    matplotlib."""
    if not hasattr(builtins, "__IPYTHON__"):
        return
    if importlib.util.find_spec("matplotlib") is None:
        print("no figure here: it needs matplotlib; pip install -r tutorials/requirements.txt")
        return
    import matplotlib.pyplot as plt
    widths = [panel.width for panel in panels]
    height = max(panel.height for panel in panels)
    _, axes = plt.subplots(1, len(panels), squeeze=False, layout="constrained",
                           width_ratios=widths, figsize=(sum(widths), height))
    for ax, panel in zip(axes[0], panels):
        panel.draw(ax)
    plt.show()
