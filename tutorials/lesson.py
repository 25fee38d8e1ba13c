"""What the lessons share: the library's code, a small training run, a look at a pair, figures.

A lesson is read beside its paper and runs from top to bottom, as a script or as a notebook (see
README.md here). The equations are those of the library; nothing here computes one.
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
from pathlib import Path
from typing import NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))            # the modules stand one folder above the lessons

import torch  # noqa: E402

import run as run_module  # noqa: E402
import train  # noqa: E402
from experiments import draw  # noqa: E402
from semmatch import calibrated_attention  # noqa: E402
from support import parses, summary, toy  # noqa: E402
from support.data import load_pairs  # noqa: E402

SEED = int(os.environ.get("LESSON_SEED", 0))
THREADS = int(os.environ.get("LESSON_THREADS", 1))
torch.set_num_threads(THREADS)           # not the machine's number
print(f"trained with seed {SEED} and {THREADS} of PyTorch's threads")
parses.CACHE = ROOT / parses.CACHE       # one cache of parses, wherever a lesson is started


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


def calibrated(scores, entries, typeset=False):
    """The weights of keys with these scores by semmatch.calibrated_attention. entries: what the
    weight of each is multiplied by; as typeset, its score. -> tensor, one weight for each key
    """
    q, k = torch.ones(1, 1, 1, 1), torch.tensor(scores).view(1, 1, -1, 1)
    prior, trace = torch.as_tensor(entries).view(1, 1, -1), {}
    calibrated_attention(q, k, k, prior if typeset else prior.log(),
                         torch.ones(1, len(scores), dtype=torch.bool), printed=typeset, trace=trace)
    return trace["calibrated"][0, 0, 0]


# ---- Training -----------------------------------------------------------------------------------

def train_on(frames, model, start=None, **settings):
    """Trains `model` on a toy world of these frames only: seconds, where all frames take minutes.

    frames: dict name -> frames in the form of support.toy.FRAMES, 800 training pairs and 120 dev
    pairs for each name. start: a Run of these frames whose encoder is the one to begin with, as if
    it were pre-trained; None: random weights. settings: of train.Settings; the seed is SEED where
    none is given. -> (the best epoch's Run, what run.Run.influence says of it on dev, and
    "unseen", its accuracy with words that it never saw)
    """
    name = " ".join([model, *(f"{word} {settings[word]}" for word in ("without", "printed")
                              if word in settings)])
    print(f"{name} is training ...", flush=True)
    begun = time.perf_counter()
    given = {"model": model, "device": "cpu", "seed": SEED} | settings
    settings, recipe = train.read_options(given)
    world = mock.patch.dict(toy.FRAMES, frames, clear=True)
    build = mock.patch.object(run_module, "build_model", functools.partial(build_on, start))
    with world, build, tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()):
            metrics = train.train_model(settings, recipe, Path(folder))["metrics"]
        run = train.open_run(folder, device="cpu")
        found = run.influence(load_pairs(run.settings)[1]["dev"])
        found["unseen"] = metrics["dev_unseen"]["accuracy"]
        log = Path(folder, "log.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in log]
    epochs = [f"{100 * event['accuracy']:.0f}" for event in events if "accuracy" in event]
    print("accuracy on dev, epoch by epoch:", *epochs)
    print(f"best epoch: {100 * found['score']:.1f} on dev, "
          f"{100 * found['unseen']:.1f} with words it never saw; "
          f"{time.perf_counter() - begun:.0f} seconds")
    for change, then in found["changes"].items():
        print(f"    answering with {change}: {100 * then['score']:.1f} on dev, "
              f"{100 * then['answers']:.0f} % of the answers change")
    print()
    return run, found


def build_on(start, *given, build=run_module.build_model):
    """run.build_model, with the encoder of the Run `start` in the new model's place."""
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
    if run.settings.reads_words:
        tokens = [examples.known[text].words for text in (a, b)]
    else:
        tokens = run.reader.tokenizer.pieces(examples.tokens(0)[0])
    return Look(probabilities[run.task.labels.index("same")].item(), tokens, trace)


# ---- Figures, in a notebook only ----------------------------------------------------------------

def heat(title, rows, columns, values, across="", down="", top=None):
    """A matrix of numbers that are 0 or more as colours, with its numbers where there is room.

    rows, columns: names; across, down: what they are. top: the number with the darkest colour, the
    largest where none is given. -> a panel: width, height, a function that draws it on axes
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
    return width, 1.4 + max(0.3 * len(rows), 1.6 if small else 0.5), draw


def slide(message, moved, places, series):
    """A picture that moves: a slider, and a bar for each of `series` at its place.

    moved: what the slider moves. places: where it can stand. series: what a bar stands for -> its
    numbers, one for each place, 0 or more. All numbers stand below the slider, so that they can be
    read where it does not move; a script prints them.
    """
    rows = [[moved, *(f"{x:,}" for x in places)]]
    rows += [[name, *(f"{float(y):.3g}" for y in series[name])] for name in series]
    if not in_notebook():
        print(f"{message}\n{summary.align_columns(rows)}\n")
        return
    from IPython.display import HTML, display
    top = max(float(y) for values in series.values() for y in values)
    cells = "".join(f"<tr><td>{'<td>'.join(html.escape(x) for x in row)}" for row in rows)
    bars = "".join(f'<tr><td>{html.escape(row[0])}<td><meter max="{top:g}" value="{row[1]}" '
                   f'style="width:20em"></meter><td>{row[1]}' for row in rows[1:])
    columns = html.escape(json.dumps([list(column) for column in zip(*rows)][1:]))
    move = ("const f=this.closest('figure'),[at,...ys]=JSON.parse(this.dataset.all)[this.value];"
            "f.querySelector('output').value=at;f.querySelectorAll('meter').forEach((m,i)=>{"
            "m.value=ys[i];m.parentNode.nextElementSibling.textContent=ys[i]})")
    display(HTML(f'<figure><b>{html.escape(message)}</b><p><label>{html.escape(moved)} '
                 f'<input type="range" min="0" max="{len(places) - 1}" value="0" '
                 f'data-all="{columns}" oninput="{move}"></label> <output>{rows[0][1]}</output>'
                 f'<table>{bars}</table><table>{cells}</table></figure>'))


def came(guess, right, words):
    """Says what came beside what was guessed. guess: ... where nothing was."""
    made = "No guess" if guess is ... else f"You guessed {guess!r}"
    print(f"{made}; it is {right!r}: {words}")


def figure(message, *panels):
    """Draws panels side by side under their message, where this is a notebook."""
    if not in_notebook():
        return
    if importlib.util.find_spec("matplotlib") is None:
        print("no figure here: it needs matplotlib; pip install -r tutorials/requirements.txt")
        return
    import matplotlib.pyplot as plt
    widths, heights, draws = zip(*panels)
    drawn, axes = plt.subplots(1, len(panels), squeeze=False, layout="constrained",
                               width_ratios=widths, figsize=(sum(widths), max(heights) + 0.3))
    drawn.suptitle(message, fontsize="medium", fontweight="bold")
    for ax, draw_panel in zip(axes[0], draws):
        draw_panel(ax)
    plt.show()


def trees(parses):
    """Draws dependency trees as arcs from head to word; a script prints them in lines.

    parses: dict of title -> Parse."""
    if in_notebook():
        from IPython.display import SVG, display
        display(SVG(draw.picture("Dependency trees", [
            draw.tree(title, parse.words, parse.heads, parse.relations)
            for title, parse in parses.items()])))
        return
    for title, parse in parses.items():
        names = "ROOT", *parse.words
        print(f"{title}:", ", ".join(f"{word} <-{relation}- {names[head]}" for word, head, relation
                                     in zip(parse.words, parse.heads, parse.relations)))
