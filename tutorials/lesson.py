"""What the lessons share: guesses, `check`, your own file my_semmatch.py, a short training run.

    begin(3)                       first: which lesson this is
    reveal("sign", guess)          goes on only when a guess stands; says what came, and why
    guessed("sign", guess)         only that it stands: what came is said behind a training
    f = check(f, a, b)             goes on only when your function is right; shows the library's
                                   lines. a, b: arguments by hand, of which it speaks first
    train_on(frames, "MyDafa")     trains a layer made of your functions on a toy world

The environment says how a lesson runs. LESSON=solved: the library's functions stand in the place of
yours. LESSON=grade: nothing stops, and points go to the file LESSON_POINTS (grade.py). LESSON_SEED:
the seed of weights and of what `check` draws. LESSON_BERT and LESSON_DATA, or a script's options
--bert and --data-dir: folders of a pre-trained encoder and of data sets; what lessons 1 to 4 train
is then trained on 2,000 pairs of MRPC as well.
"""
import argparse
import builtins
import contextlib
import functools
import html
import importlib.util
import inspect
import io
import json
import os
import re
import sys
import tempfile
import textwrap
import time
import traceback
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]        # the modules stand one folder above the lessons

import numpy as np  # noqa: E402
import torch  # noqa: E402

import equations  # noqa: E402
import run as runs  # noqa: E402
import train  # noqa: E402
from guesses import GUESSES  # noqa: E402
from support import summary, toy  # noqa: E402
from support.data import load_pairs  # noqa: E402
from support.parses import Parse  # noqa: E402
from tasks import CLAIMS, TASKS, Draw  # noqa: E402

MODE = os.environ.get("LESSON", "")
SEED = int(os.environ.get("LESSON_SEED", 0))
BY_HAND = "the pair by hand"
OWN = HERE / "my_semmatch.py"
OWN_HEAD = '''"""Your functions, as the lessons found them right, and the layers made of them.

python train.py --model tutorials/my_semmatch.py:MyDafa     (from the folder above)
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from equations import *  # the library's, where yours do not stand below
'''
open_tasks = []         # what is still to be checked in this lesson
real_pairs = {}         # options of train.py for real pairs; empty where there is no encoder
trained = {}            # model -> its accuracy on this lesson's toy world


def in_notebook():
    return hasattr(builtins, "__IPYTHON__")


def stop(message):
    """Ends a script, or a notebook's cell, with these words and no traceback."""
    if in_notebook():
        problem = RuntimeError(message)
        problem._render_traceback_ = lambda: message.splitlines()
        raise problem
    raise SystemExit(message)


def begin(number):
    """Opens lesson `number`, and reads a script's options."""
    given = read_options([] if in_notebook() else sys.argv[1:])
    open_tasks[:] = [name for name, task in (TASKS | CLAIMS).items() if task.lesson == number]
    trained.clear()
    real_pairs.clear()
    if given["bert"] and number <= 4:
        real_pairs.update(given)
    torch.set_num_threads(1)
    print(f"Lesson {number}, seed {SEED}.")


def read_options(arguments):
    """The options of a lesson's command line: name in train.py -> value"""
    parser = argparse.ArgumentParser(description="A lesson. Lessons 1 to 4 train on real pairs as "
                                                 "well, where --bert is given.")
    parser.add_argument("--bert", metavar="FOLDER", default=os.environ.get("LESSON_BERT"),
                        help="a pre-trained encoder")
    parser.add_argument("--data-dir", metavar="FOLDER", default=os.environ.get("LESSON_DATA", "data"),
                        help="the folder of data sets, to which MRPC goes (default: data)")
    parser.add_argument("--limit", type=int, default=2000, metavar="N",
                        help="pairs of MRPC (default: 2000)")
    return vars(parser.parse_args(arguments))


def mine(name):
    """Your function of an earlier lesson, out of my_semmatch.py, or else the library's."""
    if MODE or not OWN.exists():
        return getattr(equations, name)
    spec = importlib.util.spec_from_file_location("my_semmatch", OWN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


# ---- Guesses ------------------------------------------------------------------------------------

def guessed(name, guess):
    """Stops without a guess."""
    reasons = GUESSES[name][1]
    choices = ", ".join(map(repr, reasons))
    if guess is ... and not MODE:
        stop(f"First guess: put one of {choices} where `guess = ...` stands, then run on.")
    if guess is not ... and guess not in reasons and not MODE:
        stop(f"{guess!r} is no choice; there are {choices}.")


def reveal(name, guess):
    """Says what is right, and why a wrong guess is not it. Stops without a guess."""
    guessed(name, guess)
    right, reasons = GUESSES[name]
    if guess in reasons and guess != right:
        print(textwrap.fill(f"You guessed {guess!r}. {reasons[guess]}", 100))
    print(textwrap.fill(f"It is {right!r}. {reasons[right]}", 100))


# ---- check --------------------------------------------------------------------------------------

def check(function, *by_hand):
    """Your function if it is right; else it stops and says the first thing that helps.

    by_hand: arguments small enough to compute by hand. Points do not hang on them.
    """
    name = function.__name__
    task = TASKS.get(name) or CLAIMS.get(name)
    if task is None:
        stop(f"There is no {name} to check; in this lesson there are {', '.join(open_tasks)}.")
    right = getattr(equations, name)
    if MODE == "solved":
        show(name)
        return right
    by_hand = () if MODE else by_hand
    said = judge_claim(task, function) if name in CLAIMS else judge(task, function, by_hand)
    won = 0 if said else task.points
    if name in open_tasks:
        open_tasks.remove(name)
    if MODE == "grade":
        with open(os.environ["LESSON_POINTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "won": won, "said": said}) + "\n")
        if not open_tasks:
            raise SystemExit            # what follows trains
        return right if said else function
    if said:
        stop(textwrap.fill(f"{name}: {said}", 100))
    keep(name, function)
    print(f"{name} is right: {won} point{'s' if won > 1 else ''}. The library's lines:\n")
    show(name)
    return function


def parts(function, arguments):
    """What a function returns for these arguments, as a list of tensors; None for nothing."""
    before = [x.detach().clone() if torch.is_tensor(x) else x for x in arguments]
    value = function(*arguments)
    for i, (x, old) in enumerate(zip(arguments, before)):
        if torch.is_tensor(x) and not torch.equal(x, old):
            raise ValueError(f"it changes its argument {i + 1} in place; others still need that")
    if value is None:
        return None
    values = value if isinstance(value, (tuple, list)) else [value]
    return [torch.as_tensor(np.asarray(x) if isinstance(x, np.generic) else x) for x in values]


def arguments_of(task, case, by_hand=()):
    return by_hand if case == BY_HAND else task.draw(Draw(case, SEED))


def slopes_of(function, arguments):
    """name -> gradient of a weighted sum of what a function returns."""
    leaves = {}
    for number, x in enumerate(arguments):
        for y in x if isinstance(x, list) else [x]:
            name = f"argument {number + 1}"
            if isinstance(y, torch.nn.Module):
                leaves |= {f"{name}.{part}": weight for part, weight in y.named_parameters()}
            elif torch.is_tensor(y) and y.requires_grad:
                leaves[f"{name}{[len(leaves)] if isinstance(x, list) else ''}"] = y
    weighed = [(x * torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).view(x.shape))
               .masked_fill(~x.isfinite(), 0.0).sum()
               for x in parts(function, arguments) if x.requires_grad]
    found = [None] * len(leaves)
    if weighed and leaves:
        found = torch.autograd.grad(sum(weighed), list(leaves.values()), allow_unused=True)
    return {name: torch.zeros_like(x) if grad is None else grad
            for (name, x), grad in zip(leaves.items(), found)}


def nearness(x, y):
    """What rounding may make of the difference of two tensors."""
    return 1e-6 if x.dtype == y.dtype == torch.float64 else 2e-4


def alike(x, y):
    """Are two tensors the same but for rounding?"""
    x, y, near = x.detach(), y.detach(), nearness(x, y)
    return x.shape == y.shape and torch.allclose(x.double(), y.double(), near, near, equal_nan=True)


def same_parts(some, others):
    """Are two lists of tensors the same but for rounding?"""
    return len(some) == len(others) and all(map(alike, some, others))


def where_it_failed(error, function):
    """An error, with the line of the function in which it arose."""
    file = function.__code__.co_filename
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if frame.filename == file]
    line = f" in `{frames[-1].line}`" if frames and frames[-1].line else ""
    return f"{type(error).__name__}{line}: {str(error) or 'no more is said'}"


def judge(task, function, by_hand=()):
    """What is wrong with a function, or ""."""
    cases = [*task.cases, BY_HAND] if by_hand else task.cases
    rights, found, library = {}, {}, task.library(function.__name__)
    for case in cases:
        rights[case] = parts(library, arguments_of(task, case, by_hand))
        try:
            found[case] = parts(function, arguments_of(task, case, by_hand))
        except Exception as error:
            return f"{case}: {where_it_failed(error, function)}"
        if found[case] is None:
            return "not written yet: it returns nothing. Write it, with `return`."
        letters = {} if case == BY_HAND else Draw(case).letters
        if said := misshaped(rights[case], found[case], letters):
            return f"{case}: {said}"
    wrong = [case for case in cases if not same_parts(rights[case], found[case])]
    if not wrong:
        return wrong_slope(task, library, function)
    if said := known_mistake(task, found):
        return said
    good = ", ".join(case for case in cases if case not in wrong)
    case = BY_HAND if BY_HAND in wrong else wrong[0]
    said = describe(rights[case], found[case], arguments_of(task, case, by_hand))
    return f"{case}: {said}" + (f" Right: {good}." if good else "")


def wrong_slope(task, library, function):
    """What is wrong with the gradients of a function whose values are right, or ""."""
    for case in task.cases:
        right, own = (slopes_of(f, arguments_of(task, case)) for f in (library, function))
        for name, slope in right.items():
            if not alike(slope, own[name]):
                return (f"{case}: the values are right, the gradient of {name} is not. detach, item, "
                        ".data, numpy and no_grad cut it off; an infinity on the way makes it nan.")
    return ""


def misshaped(rights, found, letters):
    """What is wrong with number, shape or dtype of what was returned, or ""."""
    if len(rights) != len(found):
        return f"it returns {len(found)} result{'s' * (len(found) != 1)} instead of {len(rights)}."
    for i, (x, y) in enumerate(zip(rights, found)):
        which = f"result {i + 1} " if len(rights) > 1 else "it "
        if x.shape != y.shape:
            axes = ", ".join(letters.get(size, str(size)) for size in x.shape)
            return (f"{which}has the shape {tuple(y.shape)}; {tuple(x.shape)} is needed, which is "
                    f"({axes}).")
        if (x.dtype == torch.bool) != (y.dtype == torch.bool):
            return f"{which}is {y.dtype}; {x.dtype} is needed."
        if x.requires_grad and x.dtype != y.dtype:
            return f"{which}is {y.dtype} where arguments are {x.dtype}: keep their dtype."
    return ""


def known_mistake(task, found):
    """What is said of the listed mistake that returns just what was returned, or ""."""
    for name, mistaken in task.mistakes().items():
        with contextlib.suppress(Exception):      # a mistake need not run in each case
            if all(same_parts(found[case], parts(mistaken, arguments_of(task, case)))
                   for case in task.cases):
                return f"your numbers are those of the equation with: {name}."
    return ""


def describe(rights, found, arguments):
    """How numbers of one shape differ: what they have in common, and the largest difference."""
    x, y = next((x, y) for x, y in zip(rights, found) if not alike(x, y))
    near = nearness(x, y)
    x, y, said = x.detach().double(), y.detach().double(), ""
    far = ~torch.isclose(x, y, near, near, equal_nan=True)
    ratio = (y / x)[(x != 0) & x.isfinite()]
    if lost := int((~y.isfinite() & x.isfinite()).sum()):
        said = f"{lost} numbers are nan or infinite. "
    elif ratio.numel() > 1 and torch.allclose(y, ratio[0] * x, near, near):
        said = f"Yours is the right result times {ratio[0]:.4g}. "
    elif x.dim() > 1 and alike(x.mT, y):
        said = "The last two axes are exchanged. "
    elif x.dim() > 1 and (bad := far.flatten(1).any(1)).sum() <= min(3, len(x) - 1):
        said = (f"Only these rows of the first axis are wrong: "
                f"{', '.join(map(str, bad.nonzero().flatten().tolist()))}. ")
    gap = torch.where(far, (x - y).abs().nan_to_num(1e300), -1.0)
    place = np.unravel_index(int(gap.argmax()), x.shape) if x.dim() else ()
    at = f" at [{', '.join(map(str, place))}]" if x.dim() else ""
    if isinstance(arguments[0], Parse):                 # of two parses: a matrix over their words
        at += " ({!r} x {!r})".format(*(p.words[i] for p, i in zip(arguments, place)))
    return (f"{said}{int(far.sum())} of {x.numel()} numbers are wrong;{at} yours is "
            f"{y[place]:.5g}, {x[place]:.5g} is needed.")


def judge_claim(task, claim):
    """What is wrong with a claim, or ""."""
    for truth, functions in ((True, task.right), (False, task.wrong)):
        for name, function in functions.items():
            try:
                torch.manual_seed(SEED)
                answers = [claim(function) for _ in range(3)]           # noise differs each time
                if None in answers:
                    return "not written yet: it returns nothing. Return True or False."
                answers = [bool(answer) for answer in answers]
            except Exception as error:
                return f"of {name}: {where_it_failed(error, claim)}"
            if answers != [truth] * 3:
                return f"it says {not truth} of {name}. The claim: {task.sentence}"
    return ""


# ---- The library's lines, and your file ---------------------------------------------------------

def source_of(part):
    return textwrap.dedent(inspect.getsource(part)).rstrip()


def show(*names):
    """The lines of functions of equations.py."""
    code = "\n\n".join(source_of(getattr(equations, name)) for name in names)
    if in_notebook():
        from IPython.display import Markdown, display
        display(Markdown(f"```python\n{code}\n```"))
    else:
        print(f"{code}\n")


def keep(name, part, file=None):
    """Writes a function or a class into my_semmatch.py, in the place of one of that name."""
    file = file or OWN
    head, *parts = (file.read_text("utf-8") if file.exists() else OWN_HEAD).split("\n\n# ---- ")
    kept = {text.partition("\n")[0]: text for text in parts}
    try:
        kept[name] = f"{name}\n{source_of(part)}\n"
    except OSError:                     # typed where no source is kept
        return
    file.write_text("\n\n# ---- ".join([head, *kept.values()]), "utf-8")


# ---- Training -----------------------------------------------------------------------------------

def train_on(frames, model, start=None, **options):
    """Trains a model on a toy world of these frames only: seconds, where all frames take minutes.

    frames: dict name -> frames in the form of support.toy.FRAMES. model: a name of train.py's, or
    one of the classes of equations.py, which then computes with your functions. start: a Run of
    these frames whose encoder is the one to begin with, as if it were pre-trained. options: of
    train.py's command line. -> (the best epoch's Run; what it says of dev by `influence`, and
    "unseen", the accuracy with words that it never saw; "dev", its pairs)
    """
    print(f"{model} is training ...", flush=True)
    begun, world = time.perf_counter(), mock.patch.dict(toy.FRAMES, frames, clear=True)
    build = functools.partial(build_on, start, runs.build_model)
    with (world, mock.patch.object(runs, "build_model", build),
          tempfile.TemporaryDirectory() as folder):
        run, metrics = train_run(folder, model, {"device": "cpu"} | options)
        dev = load_pairs(run.settings)[1]["dev"]
        found = run.influence(dev) | {"dev": dev}
    found["unseen"] = metrics["dev_unseen"]["accuracy"]
    print(f"    {100 * found['score']:.1f} % of dev are right, with words that it never saw "
          f"{100 * found['unseen']:.1f}; 50 is chance; {time.perf_counter() - begun:.0f} seconds")
    for change, then in found["changes"].items():
        print(f"    with {change}: {100 * then['score']:.1f} %; "
              f"{100 * then['answers']:.0f} % of the answers change")
    trained[model] = found["score"]
    if len(trained) > 1:
        print("    side by side:", ", ".join(f"{name} {100 * score:.1f} %"
                                             for name, score in trained.items()))
    if real_pairs:
        train_on_real(model)
    return run, found


def build_on(start, build, *given):
    """The new model of `build`, with the encoder of the Run `start` in its place."""
    model, new = build(*given)
    if start is not None:                              # what the method adds keeps random weights
        model.bert.load_state_dict(start.model.bert.state_dict(), strict=False)
    return model, new


def train_run(folder, model, options):
    """Trains with these options. -> the best epoch's Run, the scores of each split"""
    own = None
    if model.startswith("My"):
        file = Path(folder, OWN.name) if MODE else OWN
        keep(model, getattr(equations, model), file)
        own = model = f"{file}:{model}"
    settings, recipe = train.read_options({"model": model, "seed": SEED} | options)
    with contextlib.redirect_stdout(io.StringIO()):
        metrics = train.train_model(settings, recipe, Path(folder))["metrics"]
        return runs.open_run(folder, model=own, device="cpu"), metrics


def train_on_real(model):
    """The same model from pre-trained weights on real pairs, by the recipe of docs/results.md."""
    print(f"    {model} is training on MRPC ...", flush=True)
    options = {"task": "mrpc", "epochs": 3, "lr": 1e-4} | real_pairs
    with tempfile.TemporaryDirectory() as folder:
        _, metrics = train_run(folder, model, options)
    print(f"    MRPC, {real_pairs['limit']:,} pairs of training: "
          f"{100 * metrics['dev']['accuracy']:.1f} % of dev are right. The library's, with all pairs "
          f"and\n    all-MiniLM-L6-v2, mean (standard deviation) of five seeds: {reference(model)}")


def reference(model):
    """What docs/results.md has of the library's own model on MRPC's dev: "mean (deviation)"."""
    page = (HERE.parent / "docs" / "results.md").read_text("utf-8")
    rows = page.partition("| mrpc-planned dev,")[2].partition("\n\n")[0]
    option = re.escape(f"(`--model {model.removeprefix('My').lower()}`)")
    return re.search(rf"{option} \| (.*?) \|", rows)[1]


def look(run, a, b):
    """What a trained model does with a pair: the probability of "same", tokens, trace.

    tokens: pieces of the packed pair, or for drrnet the words of a and those of b.
    """
    examples, trace = run.examples([(a, b)]), {}
    probabilities = run.logits(examples, trace).softmax(-1)[0]
    if run.settings.reads_words:
        tokens = [examples.known[text].words for text in (a, b)]
    else:
        tokens = run.reader.tokenizer.pieces(examples.tokens(0)[0])
    return probabilities[run.task.labels.index("same")].item(), tokens, trace


# ---- Small things -------------------------------------------------------------------------------

def fixed(rows, bias=None):
    """A linear map with these numbers, for hand calculation: x → rows x + bias."""
    layer = torch.nn.Linear(len(rows[0]), len(rows), bias=bias is not None).requires_grad_(False)
    layer.weight.copy_(torch.tensor(rows))
    if bias is not None:
        layer.bias.copy_(torch.tensor(bias))
    return layer


def table(rows, columns, values):
    """Prints a matrix with the names of its rows and columns."""
    lines = [["", *columns]]
    lines += [[name, *(f"{float(x):.3g}" for x in line)] for name, line in zip(rows, values)]
    print(f"{summary.align_columns(lines)}\n")


def slide(message, moved, places, series):
    """A picture that moves: a slider, and a bar for each of `series` at its place. A script prints
    a table.

    moved: what the slider moves. places: where it can stand. series: what a bar stands for -> its
    numbers, one for each place, 0 or more.
    """
    rows = [[moved, *(f"{x:,}" for x in places)]]
    rows += [[name, *(f"{float(y):.3g}" for y in series[name])] for name in series]
    if not in_notebook():
        print(f"{message}\n{summary.align_columns(rows)}\n")
        return
    from IPython.display import HTML, display
    top = max(float(y) for values in series.values() for y in values)
    bars = "".join(f'<tr><td>{html.escape(row[0])}<td><meter max="{top:g}" value="{row[1]}" '
                   f'style="width:20em"></meter><td>{row[1]}' for row in rows[1:])
    columns = html.escape(json.dumps([list(column) for column in zip(*rows)][1:]))
    move = ("const f=this.closest('figure'),[at,...ys]=JSON.parse(this.dataset.all)[this.value];"
            "f.querySelector('output').value=at;f.querySelectorAll('meter').forEach((m,i)=>{"
            "m.value=ys[i];m.parentNode.nextElementSibling.textContent=ys[i]})")
    display(HTML(f'<figure><b>{html.escape(message)}</b><p><label>{html.escape(moved)} '
                 f'<input type="range" min="0" max="{len(places) - 1}" value="0" '
                 f'data-all="{columns}" oninput="{move}"></label> <output>{rows[0][1]}</output>'
                 f'<table>{bars}</table></figure>'))
