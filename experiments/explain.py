"""The page of one pair: what a trained model saw in two sentences.

    python -m experiments.explain RUN "The cat chased the dog." "The dog was chased by the cat."

prints what the model says, with and without each of its parts, and, of a method that reads step by
step, what it reads; and writes a page into the run's folder, named after the pair: that, where
calibration moves attention, what is known of the words, what the model recorded, each with its
equation. `--beside RUN2` shows what another run saw beside it; `--printed 6` what this one sees
with Eq. (6) as typeset. `RUN --serve` shows the same page with two text fields, on this machine
alone, until Ctrl-C. `--picture FILE.svg` draws what the page begins with.

A method says what it records by the names of the axes (bert_min.Shown); nothing here knows a method
or a paper. Heads get a switch; a map has the last two axes for rows and columns; of whatever is
more, and of each sentence, there is a figure. Parts of the same axes stand side by side. Left out:
how figures are drawn (draw).
"""
import hashlib
import inspect
import re
import sys
import textwrap
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import numpy as np

import train
from bert_min import SelfAttention, Shown
from experiments import draw
from experiments.influence import add_run_options
from priors import RELATIONS, dependency_matrix, subgraph_similarity, tree_similarity
from support import machine, runs, summary
from support.data import Pair
from support.files import write_text
from support.options import Arguments, prefix_errors, refuse, run_command

APART = "sentence", "reader", "phrase"  # axes that get figures of their own before others do
ACROSS = "a word of a (row) and a word of b (column)"
KNOWN = {"dependency": "the trees", "relations": "the lexicon"}  # PRIOR -> in a sentence


# ---- What a model recorded ----------------------------------------------------------------------

class Part(NamedTuple):
    """What is one figure: of the part of a trace that `shown` tells of, all or what `label` names.

    axes: one name, or rows and columns, or heads before them. labels: dict axis -> list.
    """
    shown: Shown
    label: str
    axes: list
    labels: dict
    values: np.ndarray

    @property
    def order(self):
        """A text: the chosen label of each row, in order; "" where none is chosen."""
        if not self.shown.chosen or self.values.ndim != 2:
            return ""
        columns = self.labels[self.axes[1]]
        return " → ".join(draw.legal_text(columns[j]) for j in self.values.argmax(1))


def parts_of(shown, values, labels):
    """Parts of what was recorded under one name.

    Args: values: an array with the axes of shown, and perhaps that of heads behind the pair's.
        labels: dict axis -> list of str; "words" -> two lists of str.
    Raises: ValueError where values has other axes than shown says.
    """
    axes = shown.axes.split()
    if values.ndim == len(axes) + 1 and axes[0] == "pair" and "head" not in axes:
        axes.insert(1, "head")
    refuse(values.ndim != len(axes), f"TRACE: {shown.title!r} needs an array of the axes "
           f"{shown.axes}, got one of the shape {values.shape}")
    for axis in ("pair", "gate", "one"):  # there is one pair, and as a rule one gate
        if axis in axes and len(axes) > 1 and values.shape[axes.index(axis)] == 1:
            values = values.take(0, axes.index(axis))
            axes.remove(axis)
    if "head" in axes:
        values = np.moveaxis(values, axes.index("head"), 0)
        axes = ["head", *(axis for axis in axes if axis != "head")]
    return split_part(Part(shown, "", axes, labels, values))


def split_part(part):
    """The figures that a Part needs, a list of Parts."""
    shown, label, axes, labels, values = part
    own = [axis for axis in axes if axis != "head"]
    if len(own) < 3 and "sentence" not in own:
        found = {}
        for at, axis in enumerate(axes):
            found[axis] = labels_of(axis, values.shape[at], labels)
            values = values.take(range(len(found[axis])), at)  # without a shorter one's padding
        return [part._replace(labels=found, values=values)]
    axis, parts = next((axis for axis in APART if axis in own), own[0]), []
    at = axes.index(axis)
    for k, name in enumerate(labels_of(axis, values.shape[at], labels)):
        inner = dict(labels)
        if axis == "sentence" and "words" in labels:
            inner["word"] = labels["words"][k]
        parts += split_part(Part(shown, f"{label}, {name}" if label else name,
                            axes[:at] + axes[at + 1:], inner, values.take(k, at)))
    return parts


def labels_of(axis, size, labels):
    """What stands beside an axis: its labels, or its name with numbers; steps count from 1."""
    return labels.get(axis, [f"{axis} {i + (axis == 'step')}" for i in range(size)])[:size]


def figure(part, teller):
    """A draw.Figure of a Part of what the module `teller` recorded."""
    shown, note = part.shown, part.shown.note
    title = f"{shown.title}: {part.label}" if part.label else shown.title
    if part.order:
        note += f" In order: {part.order}."
    beside, x, top = [part.labels[axis] for axis in part.axes], part.values, shown.top
    if x.ndim == 1:
        beside, x = [["value"], *beside], x[None]
    elif top:  # small shares show, and even ones stay pale
        top = max(top / 4, float(np.nan_to_num(abs(x), posinf=0).max(initial=0)))
    found = draw.heat(title, *beside[-2:], x, note, top)
    modules = [sys.modules[kind.__module__] for kind in type(teller).__mro__]
    by = [vars(module)[shown.by] for module in modules if shown.by in vars(module)]
    return add_equations(found, by[:1], type(teller).__doc__ or "")


def add_equations(figure, functions, method=""):
    """A Figure with what the docstrings of its equations' functions say: the formula, where it is
    printed, and where the code departs from the page.

    method: the docstring of a class; beside the title stands the number in the paper that it names.
    """
    numbers, sources = [], []
    for function in functions:
        first, *rest = inspect.getdoc(function).split("\n\n")
        cited = re.findall(r"([\w-]+) (Eqs?\. \(\d+\)(?:(?:, |-)\(\d+\))*)", first)
        numbers += [f"{paper} {number}" for paper, number in cited if f"{paper} Eq" in method]
        whole, below = "; ".join(map(" ".join, cited)), "\n\n".join(rest)
        lines = re.split(r"\(\d+\): ", first)[1:]
        if below.startswith("  "):
            lines = textwrap.dedent(rest[0]).splitlines()
        departs = re.search(r"^Departs: (.*?)(?=^\w+: |\Z)", below, re.M | re.S)
        sources.append(draw.formula(whole, lines, departs[1] if departs else ""))
    return figure._replace(number=", ".join(numbers), sources=tuple(sources))


def find_teller(run):
    """(the module whose TRACE says what was recorded, the layer it stands in, or None)"""
    method = run.settings.method
    if not issubclass(method, SelfAttention):
        return run.model, None
    attentions = [layer.attention for layer in run.model.bert.layers]
    return next((x, layer) for layer, x in enumerate(attentions) if type(x) is method)


def read_trace(run, pair, trace):
    """Lists of Parts of a pair's trace, as TRACE tells; those of a list stand side by side."""
    teller, reader = find_teller(run)[0], run.reader
    labels = {"sentence": ["sentence a", "sentence b"], "class": run.task.labels or ["score"]}
    labels |= getattr(teller, "axis_names", {})
    if reader.needs_parses or reader.needs_facts:
        labels["words"] = [reader.words(text) or ["(no word)"] for text in (pair.a, pair.b)]
    if reader.method.READS == "pieces":
        labels["piece"] = reader.tokenizer.pieces(reader.examples([pair]).tokens(0)[0])
    told = [(shown.axes, parts_of(shown, trace[name], labels))
            for name, shown in teller.TRACE.items() if name in trace]
    sections = []
    for _, group in groupby(told, key=lambda pair: pair[0]):
        parts = [parts for _, parts in group]
        sections += zip(*parts) if len(parts) > 1 else parts
    return sections


# ---- What is known of the words -----------------------------------------------------------------

def word_figures(reader, pair):
    """draw.Figures of both trees and of the prior, where the method takes them."""
    figures, prior, kind = [], reader.prior(pair), reader.method.PRIOR
    if reader.needs_parses and kind != "relations":   # which takes only tags of a parse
        for side, parse in (("a", reader.parses[pair.a]), ("b", reader.parses[pair.b])):
            figures.append(draw.tree(f"Dependency tree of sentence {side}", parse.words,
                                     parse.heads, parse.relations))
    if prior is None:
        return figures
    words = reader.words(pair.a), reader.words(pair.b)
    if kind == "relations":
        names = [[", ".join(np.array(RELATIONS)[cell]) for cell in row] for row in prior]
        note = (f"What the lexicon knows of {ACROSS}; hypernym: that of b is the more general one. "
                "The model learns that a relation holds, not which.")
        figures.append(draw.relations("Relations of words", *words, names, note))
    elif kind == "dependency":
        note = (f"How much the trees agree at {ACROSS}. The same word in another role and another "
                "word in the same role can have the same number.")
        if "root" not in reader.options.get("without", ()):
            note += " Two roots share a head, ROOT, whatever their words."
        drawn = add_equations(draw.heat("Dependency prior over words", *words, prior, note),
                               (tree_similarity, subgraph_similarity, dependency_matrix))
        figures.append(drawn._replace(number="DAFA Eqs. (1)-(5)"))
    elif prior.ndim == 2:
        figures.append(draw.heat("Prior over words", *words, prior, f"What is known of {ACROSS}."))
    return figures


# ---- What stands first --------------------------------------------------------------------------

def answers_of(run, pair, prediction):
    """[(how, Prediction)]: as it is, then without each part that can be taken out. A part of
    another pair takes the place of none here: there is no other.
    """
    return [("as it is", prediction)] + [
        (describe_change(run, name), run.predict([pair], change)[0])
        for name, change in run.changes().items() if not name.startswith("another")]


def describe_change(run, change):
    """The name of a change in a sentence."""
    known = KNOWN.get(run.reader.method.PRIOR, "prior knowledge")
    return {"no prior": f"without {known}", "another pair's prior": f"with {known} of another pair",
            "no method": "with plain attention", "no re-reading": "without re-reading",
            "uniform choice": "with an even choice"}.get(change, f"with {change}")


def headline(rows):
    """A sentence on what `answers_of` found."""
    (_, (answer, probabilities)), *others = rows
    if probabilities is None:
        return f"The model gives {answer:.3f}."
    for how, other in others:
        if other.answer != answer:
            return f"The model says “{answer}”; {how} it would say “{other.answer}”."
    return f"The model says “{answer}”{', whichever part is left out' if others else ''}."


def describe_influence(run):
    """A list of one sentence: how many answers hang on each part, of all pairs of the split that
    chose the epoch; empty where no result says it.
    """
    if not (run.folder / "result.json").exists():
        return []
    result = runs.read_result(run.folder)
    found = result.get("influence") or {"changes": {}}
    parts = [f"{100 * x['answers']:.1f} % {describe_change(run, name)}"
             for name, x in found["changes"].items()]
    other = "move by a tenth of the deviation" if run.task.regression else "get another answer"
    return [f"Of all {found['pairs']} pairs of {result['selection_split']}, these {other}: "
            f"{', '.join(parts)}."] if parts else []


def moved_figure(run, pair, trace):
    """A list of one draw.Figure: calibrated minus plain attention, the mean over heads, of the
    words of a to those of b; empty where a method records no such two.
    """
    reader = run.reader
    if not {"calibrated", "attention"} <= trace.keys() or not reader.needs:
        return []
    moved = (trace["calibrated"] - trace["attention"])[0].mean(0)
    _, segment, word = reader.examples([pair]).tokens(0)
    words = [reader.words(text) for text in (pair.a, pair.b)]
    a, b = ((segment == side) & (word == np.arange(len(words[side]))[:, None]) for side in (0, 1))
    mean = a / np.maximum(1, a.sum(1, keepdims=True))  # over the pieces of a word
    points = 100 * mean @ moved @ b.T
    note, trees = "In this pair nothing moves.", None
    if points.size and points.max() > 0:
        i, j = np.unravel_index(points.argmax(), points.shape)
        note = (f"“{words[0][i]}” in a gains most: {points[i, j]:.0f} more of 100 parts of its "
                f"attention go to “{words[1][j]}” in b.")
    if reader.needs_parses and reader.method.PRIOR != "relations":
        trees = [(parse.heads, parse.relations)
                 for parse in (reader.parses[pair.a], reader.parses[pair.b])]
    title = f"Attention moved by {KNOWN.get(reader.method.PRIOR, 'prior knowledge')}"
    return [draw.heat(title, *words, points, note, trees=trees,
                      unit="less, or more, of 100 parts of a word's attention")]


def format_prediction(prediction):
    """[the answer, its probability], or [the score]"""
    answer, probabilities = prediction
    if probabilities is None:
        return [f"{answer:.3f}"]
    return [answer, f"{100 * probabilities[answer]:.1f} %"]


# ---- The command --------------------------------------------------------------------------------

def page_name(a, b):
    """A file's name made of two texts, another for any others.

    >>> page_name("The cat!", "A dog")
    'explanation-the-cat-a-dog-2da4ea.html'
    """
    words = re.findall("[a-z0-9]+", f"{a[:40]} {b[:40]}".lower())
    mark = hashlib.sha256(f"{a}\0{b}".encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return "-".join(["explanation", *words, mark]) + ".html"


def trace_pair(run, pair):
    """(a Prediction, lists of Parts of the trace, all Figures as lists)"""
    prediction, trace = run.explain(pair.a, pair.b)
    found = read_trace(run, pair, trace)
    sections = [moved_figure(run, pair, trace), word_figures(run.reader, pair),
                *([figure(part, find_teller(run)[0]) for part in parts] for parts in found)]
    return prediction, found, [figures for figures in sections if figures]


def side_by_side(left, right, names):
    """The Figures of two runs as lists, those of one title beside each other under the runs' names,
    and once where they are equal."""
    others = {figure.title: figure for figures in right for figure in figures}
    sections = []
    for figures in left:
        sections.append([])
        for one in figures:
            two = others.pop(one.title, None)
            if two and two.body == one.body:
                sections[-1].append(one)
                continue
            for found, name in zip((one, two), names):
                if found:
                    sections[-1].append(found._replace(title=f"{found.title} ({name})"))
    rest = [x._replace(title=f"{x.title} ({names[1]})") for x in others.values()]
    return sections + [rest] * bool(rest)


def explain_pair(run, a, b, top="", beside=None):
    """-> (what to print, the page's text, its Figures as lists); top: HTML that stands first.
    beside: (names of both, another Run), or None.
    """
    pair, layer, labels = Pair(a, b, None), find_teller(run)[1], run.task.labels
    prediction, found, sections = trace_pair(run, pair)
    rows = answers_of(run, pair, prediction)
    first, more = headline(rows), describe_influence(run)
    if beside:
        names, other = beside
        said, _, others = trace_pair(other, pair)
        if other.task.labels == labels:
            rows.append((names[1], said))
        else:
            more.append(f"{names[1]} says {', '.join(format_prediction(said))}.")
        sections = side_by_side(sections, others, names)
    names = [name for name, _ in rows]
    if labels:
        table = draw.shares("Probability of each answer", names, labels,
                            [[*x.probabilities.values()] for _, x in rows])
    else:
        table = draw.table("What it gives", names, ["score"],
                           [format_prediction(x) for _, x in rows], "")
    answers = [[f"    {name}", *format_prediction(x)] for name, x in rows]
    lines = [first, summary.align_columns(answers), *more]
    for part in (part for parts in found for part in parts if part.order):
        lines.append(f"    {part.label or part.shown.title}: {part.order}")
    note = f"{run.settings.model}, run {run.folder}, trained on {run.task.name}."
    if layer is not None:
        note += f" What is shown was recorded in layer {layer}."
    page = draw.page(f"What {run.settings.model} saw", (a, b), first, table, sections, more, note,
                     top)
    return lines, page, sections


def server(run, port, beside=None):
    """An HTTPServer of the page with two text fields, on 127.0.0.1; one request at a time.

    Args: port: 0 takes a free one. beside: as explain_pair takes it.
    """
    class PageHandler(BaseHTTPRequestHandler):
        timeout = 10  # seconds for who connects and says nothing: all others wait

        def do_GET(self):
            """/?a=TEXT&b=TEXT; nothing else is there."""
            host = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
            place = urlsplit(self.path)
            if place.path != "/" or host not in ("127.0.0.1", "localhost"):
                self.answer(404, "only / is served, to this machine")
                return
            given = parse_qs(place.query, keep_blank_values=True)
            a = given.get("a", ["The cat chased the dog."])[0]
            b = given.get("b", ["The dog was chased by the cat."])[0]
            try:
                self.answer(200, explain_pair(run, a, b, draw.form(a, b), beside)[1])
            except ValueError as error:
                self.answer(400, draw.form(a, b) + draw.escape(error))

        def answer(self, status, text):
            """Sends HTML that may load nothing, and run nothing."""
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Security-Policy", "default-src 'none'; img-src data:; "
                             "style-src 'unsafe-inline'; form-action 'self'")
            self.end_headers()
            self.wfile.write(text.encode("utf-8", "replace"))

        def log_message(self, *args):
            """Is silent: what people type stays with them."""

    return HTTPServer(("127.0.0.1", port), PageHandler)


def command_line():
    """The options, those with which a run is opened among them."""
    arguments = Arguments("python -m experiments.explain", "What a trained model saw in a pair: "
                          "the prediction, and a page, HTML, in the run's folder.", "RUN [A B]")
    arguments.add_argument("run", metavar="RUN", help="the folder of a trained run")
    arguments.add_argument("a", metavar="A", nargs="?", help="a sentence, in quotes")
    arguments.add_argument("b", metavar="B", nargs="?", help="the other one")
    arguments.add_argument("--serve", metavar="PORT", nargs="?", const=8000, type=int,
                           help="serve the page with two text fields (default port: 8000)")
    arguments.add_argument("--picture", metavar="FILE.svg",
                           help="draw what the page begins with by itself")
    arguments.add_argument("--beside", metavar="RUN2", help="show what another run saw beside it")
    arguments.add_argument("--printed", metavar="N,M",
                           help="show what it sees with these equations as typeset beside it")
    add_run_options(arguments)
    return arguments


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    given = command_line().parse(argv)
    folder, a, b = (given.pop(name, None) for name in ("run", "a", "b"))
    file, port = given.pop("picture", None), given.pop("serve", None)
    other, printed = given.pop("beside", None), given.pop("printed", None)
    if (port is None) == (b is None) or port is not None and (file or a or not 0 <= port < 65536):
        raise ValueError("expected two sentences, each in quotes, or --serve, with a port from 0 "
                         "to 65535 or none")
    refuse(other and printed, "--beside or --printed, not both")
    refuse(file and Path(file).suffix != ".svg", f"--picture {file}: expected FILE.svg")
    with machine.torch_session(given):
        run = train.open_run(folder, **given)
        beside = None
        if other:
            beside = (str(run.folder), other), train.open_run(other, **given)
        elif printed:
            with prefix_errors("--printed takes no equation that changes weights: "):
                beside = (("as trained", f"Eq. {printed} as typeset"),
                          train.open_run(folder, printed=printed, **given))
        if port is not None:
            with server(run, port, beside) as door:
                print(f"http://127.0.0.1:{door.server_port}/ until Ctrl-C", flush=True)
                door.serve_forever()
        lines, page, sections = explain_pair(run, a, b, beside=beside)
    print("\n".join(lines))
    texts = {run.folder / page_name(a, b): page}
    if file:
        texts[file] = draw.picture(lines[0], [x for x in sections[0] if x.drawing])
    for path, text in texts.items():
        write_text(path, text)
        print(path)


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.explain"))
