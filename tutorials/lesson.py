"""What the lessons share: the library's code, a small training run, a look at a pair, figures.

A lesson is read beside its paper and runs from top to bottom, as a script or as a notebook (see
README.md here). The equations are those of the library; nothing here computes one.

LESSON_SEED=1 LESSON_THREADS=2 python tutorials/3_dafa.py trains with another seed than 0 and takes
another number of threads than 1: what a lesson asserts of a trained model holds there, too.
"""
import ast
import builtins
import contextlib
import functools
import html
import importlib.util
import inspect
import io
import json
import os
import sys
import tempfile
import textwrap
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
from experiments import draw  # noqa: E402
from support import toy  # noqa: E402

SEED = int(os.environ.get("LESSON_SEED", 0))
torch.set_num_threads(int(os.environ.get("LESSON_THREADS", 1)))     # not the machine's number
batches.CACHE = ROOT / batches.CACHE     # one cache of parses, wherever a lesson is started


def in_notebook():
    """Is this a notebook? A script draws nothing, and needs no matplotlib."""
    return hasattr(builtins, "__IPYTHON__")


# ---- The library's lines ------------------------------------------------------------------------

def show(*functions):
    """The library's own lines of functions and methods, without their docstrings."""
    for function in functions:
        lines = textwrap.dedent(inspect.getsource(function)).splitlines()
        node = ast.parse("\n".join(lines)).body[0]
        if ast.get_docstring(node) is not None:
            del lines[node.body[0].lineno - 1:node.body[0].end_lineno]
        file = Path(inspect.getfile(function)).relative_to(ROOT).as_posix()
        code = "\n".join([f"# {file}: {function.__qualname__}", *lines])
        if in_notebook():
            from IPython.display import Markdown, display
            display(Markdown(f"```python\n{code}\n```"))
        else:
            print(f"{code}\n")


def fixed(rows, bias=None):
    """A linear map with these numbers, for hand calculation: x → rows x + bias."""
    layer = torch.nn.Linear(len(rows[0]), len(rows), bias=bias is not None).requires_grad_(False)
    layer.weight.copy_(torch.tensor(rows))
    if bias is not None:
        layer.bias.copy_(torch.tensor(bias))
    return layer


# ---- Training -----------------------------------------------------------------------------------

def train_on(frames, model, start=None, **settings):
    """Trains `model` on a toy world of these frames only: seconds, where all frames take minutes.

    frames: dict name -> frames in the form of support.toy.FRAMES, 800 training pairs and 120 dev
    pairs for each name. start: a Run of these frames whose encoder is the one to begin with, as if
    it were pre-trained; None: random weights. settings: of train.Settings; the seed is SEED where
    none is given. -> (the best epoch's Run, its dev accuracy)
    """
    name = " without ".join([model, *filter(None, [settings.get("without")])])
    print(f"{name} is training ...", flush=True)
    begun, settings = time.perf_counter(), {"seed": SEED} | settings
    settings = train.Settings(model=model, device="cpu", **settings).complete()
    world = mock.patch.dict(toy.FRAMES, frames, clear=True)
    build = mock.patch.object(train, "build_model", functools.partial(build_on, start))
    with world, build, tempfile.TemporaryDirectory() as folder:
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


def build_on(start, *given, build=train.build_model):
    """train.build_model, with the encoder of the Run `start` in the new model's place."""
    model, new = build(*given)
    if start is not None:                              # what the method adds keeps random weights
        model.bert.load_state_dict(start.model.bert.state_dict(), strict=False)
    return model, new


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
        image = ax.imshow(values, cmap="Blues", vmin=0, vmax=top, aspect="auto")
        ax.figure.colorbar(image, ax=ax, fraction=0.08, aspect=12, ticks=[0, top / 2, top],
                           format="{x:.2g}")
        ax.set_xticks(range(len(columns)), columns, rotation=turned)
        ax.set_yticks(range(len(rows)), rows)
        ax.set(title=title, xlabel=across, ylabel=down)
        for i, row in enumerate(values.tolist() if small else ()):
            for j, value in enumerate(row):
                text, color = f"{value:.2f}".rstrip("0").rstrip("."), "black"
                if value > 0.6 * top:
                    color = "white"
                ax.text(j, i, text, ha="center", va="center", color=color)
    width = 2.6 + max(0.3 * len(columns), 2.1 if small else 0)
    return Panel(width, 1.4 + max(0.3 * len(rows), 1.6 if small else 0.5), draw)


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


def figure(message, *panels):
    """Draws panels side by side under their message, where this is a notebook."""
    if not in_notebook():
        return
    if importlib.util.find_spec("matplotlib") is None:
        print("no figure here: it needs matplotlib; pip install -r tutorials/requirements.txt")
        return
    import matplotlib.pyplot as plt
    widths = [panel.width for panel in panels]
    height = max(panel.height for panel in panels) + 0.3
    drawn, axes = plt.subplots(1, len(panels), squeeze=False, layout="constrained",
                               width_ratios=widths, figsize=(sum(widths), height))
    drawn.suptitle(message, fontsize="medium", fontweight="bold")
    for ax, panel in zip(axes[0], panels):
        panel.draw(ax)
    plt.show()


def show_svg(text):
    """Shows an SVG in a notebook."""
    from IPython.display import SVG, display
    display(SVG(text))


def trees(parses):
    """Draws dependency trees as arcs from head to word; a script prints them in lines.

    parses: dict of title -> Parse."""
    if in_notebook():
        show_svg(draw.picture("Dependency trees", [
            draw.tree(title, parse.words, parse.heads, parse.relations)
            for title, parse in parses.items()]))
        return
    for title, parse in parses.items():
        names = "ROOT", *parse.words
        print(f"{title}:", ", ".join(f"{word} <-{relation}- {names[head]}" for word, head, relation
                                     in zip(parse.words, parse.heads, parse.relations)))


# ---- The whole model ----------------------------------------------------------------------------

# (column, row), what it is, the lessons that it is for
BOXES = [((0, 0), "sentences a and b", ()), ((1, 0), "pieces: [CLS] a [SEP] b [SEP]", (1,)),
         ((2, 0), "attention", (1, 7)), ((3, 1), "attention to differences", (2,)),
         ((2, 2), "dependency trees", (3,)), ((3, 2), "attention led by trees", (3, 7)),
         ((2, 3), "relations of words", (4, 7)), ((3, 3), "attention led by relations", (4, 7)),
         ((4, 0), "fusion: guided attention, gates", (2, 3, 4)),
         ((5, 0), "rest of the layer, more layers", (1,)), ((6, 0), "vector of [CLS]: label", (1,)),
         ((4, 4), "mix of layers, phrases", (6,)), ((5, 4), "reading again, coverage", (6,)),
         ((6, 4), "mean: label", (6,)),
         ((1, 5), "words with features", (5,)), ((2, 5), "three GRUs", (5,)),
         ((3, 5), "first look", (5,)), ((4, 5), "reading again", (5,)),
         ((5, 5), "two judgements", (5,)), ((6, 5), "gates: label", (5,))]
ARROWS = [((0, 0), (1, 0)), ((1, 0), (2, 0)), ((2, 0), (4, 0)), ((2, 0), (3, 1)), ((2, 0), (3, 2)),
          ((2, 0), (3, 3)), ((2, 2), (3, 2)), ((2, 3), (3, 3)), ((3, 1), (4, 0)), ((3, 2), (4, 0)),
          ((3, 3), (4, 0)), ((4, 0), (5, 0)), ((5, 0), (6, 0)), ((5, 0), (4, 4)), ((4, 4), (5, 4)),
          ((5, 4), (6, 4)), ((0, 0), (1, 5)), ((1, 5), (2, 5)), ((2, 5), (3, 5)), ((3, 5), (4, 5)),
          ((4, 5), (5, 5)), ((5, 5), (6, 5))]
WIDE, HIGH, ACROSS, DOWN = 112, 40, 140, 58       # a box, from one to the next
PAGE = 840                                        # pixels: a notebook's column


def whole_model(lesson):
    """Draws the methods as one model, the lesson's part marked; a script prints that part."""
    if in_notebook():
        show_svg(model_svg(lesson))
    else:
        print("This lesson's part of the whole model:",
              "; ".join(text for _, text, lessons in BOXES if lesson in lessons), "\n")


def model_svg(lesson):
    """The drawing of whole_model, an SVG text."""
    parts = ['<rect width="100%" height="100%" fill="white"/>']
    for (i, j), (k, l) in ARROWS:
        x, y = 8 + i * ACROSS + WIDE, 8 + j * DOWN + HIGH / 2
        if k <= i or l - j > 3:                            # out of the lower edge
            x, y = x - WIDE / 2, y + HIGH / 2
        end = f"{8 + k * ACROSS:.0f} {8 + l * DOWN + HIGH / 2:.0f}"
        if k <= i:                                         # into the upper edge
            end = f"{8 + k * ACROSS + WIDE / 2:.0f} {8 + l * DOWN:.0f}"
        parts.append(f'<path d="M{x:.0f} {y:.0f}L{end}" stroke="#777" marker-end="url(#tip)"/>')
    for (i, j), text, lessons in BOXES:
        x, y, mine = 8 + i * ACROSS, 8 + j * DOWN, lesson in lessons
        fill, edge = ("#ffd27f", "#a35c00") if mine else ("#f4f4f6", "#b8b8c0")
        parts.append(f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6" fill="{fill}" '
                     f'stroke="{edge}" stroke-width="{2 if mine else 1}"/>')
        lines = textwrap.wrap(text, 19)
        for k, line in enumerate(lines):
            below = y + HIGH / 2 + 4 + 14 * (k - (len(lines) - 1) / 2)
            parts.append(f'<text x="{x + WIDE / 2:.0f}" y="{below:.0f}" text-anchor="middle" '
                         f'font-family="sans-serif" font-size="11" fill="black">'
                         f'{html.escape(line)}</text>')
    tip = ('<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" '
           'orient="auto"><path d="M0 0L7 3L0 6z" fill="#777"/></marker></defs>')
    wide, high = 16 + 6 * ACROSS + WIDE, 16 + 5 * DOWN + HIGH
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{PAGE}" '
            f'height="{high * PAGE // wide}" viewBox="0 0 {wide} {high}" role="img" '
            f'aria-label="The whole model">{tip}{"".join(parts)}</svg>')
