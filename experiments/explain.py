"""The page of one pair: what a trained model saw in two sentences.

    python -m experiments.explain RUN "The cat chased the dog." "The dog was chased by the cat."

prints the model's answer, with and without each part of the method, and what a method that reads
step by step reads. It also writes a page into the run's folder: these answers, the words that look
at each other, what is known of the words, and what the model recorded, each with the number of its
equation. `RUN --serve` shows the same page with two text fields, on this machine alone, until
Ctrl-C. `--picture FILE.svg` draws both sentences, the answer, and lines between the words that look
at each other.

Nothing here knows a method or a paper: a method describes what it records by the names of the axes
(bert_min.Shown). Left out: each head alone (run.explain has the heads; here is their mean).
"""
import contextlib
import hashlib
import inspect
import os
import re
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote

import numpy as np

import train
from bert_min import SelfAttention
from experiments import draw
from experiments.draw import escape
from run import made_here
from support import machine, summary
from support.errors import join_names, one_line, prefix_errors, refuse
from support.files import check_free, read_json, write_text
from support.options import Arguments, run_command
from support.pairs import Pair
from support.parses import split_words, words_at

EQUATIONS = Path(__file__).resolve().parents[1] / "docs" / "equations.md"


# ---- What a model recorded ----------------------------------------------------------------------

def tables_of(axes, values, labels, names=()):
    """Yields (name, rows, columns, values) of an array: a table for each sentence; while more than
    two axes are left, for each reader, or else for each place of the first axis.

    Args: axes: list of the names of the array's axes. labels: dict axis -> list of str; "words" ->
        two lists of str. names: of the places outside.
    Yields: name: the places, or "". rows, columns: labels. values: (n, m).
    """
    texts = [label_places(axis, size, labels) for axis, size in zip(axes, values.shape)]
    if "sentence" in axes:
        outer = axes.index("sentence")
    elif len(axes) > 2:
        outer = axes.index("reader") if "reader" in axes else 0
    else:
        rows, columns = [["value"], *texts][-2:]
        x = np.atleast_2d(values)[:len(rows), :len(columns)]  # a shorter sentence is padded
        yield ", ".join(names), rows, columns, x
        return
    for place, part in enumerate(np.moveaxis(values, outer, 0)):
        if axes[outer] == "sentence" and "words" in labels:
            labels = labels | {"word": labels["words"][place]}
        rest = axes[:outer] + axes[outer + 1:]
        yield from tables_of(rest, part, labels, [*names, texts[outer][place]])


def label_places(axis, size, labels):
    """A list of labels of an axis, `size` or fewer."""
    numbered = [f"{axis} {n + (axis == 'step')}" for n in range(size)]
    return labels.get(axis, numbered)[:size]


def drop_axes(shown, values):
    """(axes, values) of an entry of a trace: the mean over heads, no axis of one pair or gate.

    Raises ValueError where the array has other axes.
    """
    axes = shown.axes.split()
    if values.ndim == len(axes) + 1 and "head" not in axes:
        axes.insert(1, "head")
    refuse(values.ndim != len(axes), f"TRACE: {shown.title!r} needs an array of the axes "
           f"{shown.axes}, got one of the shape {values.shape}")
    for axis in ("head", "pair", "gate"):
        if axis in axes and len(axes) > 1:
            place = axes.index(axis)
            if axis == "head" or values.shape[place] == 1:
                axes, values = axes[:place] + axes[place + 1:], values.mean(place)
    return axes, values


def trace_figures(run, examples, both, trace):
    """(draw.Figures of a pair's trace, lines to print on what is read in order). both: Known of the
    two texts, here and below.
    """
    source, reader, figures, lines = traced_module(run), run.reader, [], []
    labels = {"sentence": ["sentence a", "sentence b"], "class": run.task.labels or ["score"]}
    labels |= getattr(source, "axis_names", {})
    if reader.needs_parses or reader.needs_facts:
        labels["words"] = [known.words or ["(no word)"] for known in both]
    if reader.method.READS == "pieces":
        labels["piece"] = reader.tokenizer.pieces(examples.tokens[0][0])
    tables = [(shown, trace[part].ndim, table) for part, shown in source.TRACE.items()
              if part in trace for table in tables_of(*drop_axes(shown, trace[part]), labels)]
    for shown, axes, (name, rows, columns, x) in tables:
        title = f"{shown.title}{name and ': '}{name}"
        heads = "head" in shown.axes or axes > len(shown.axes.split())
        note = " ".join(filter(None, [shown.note, place_of(run, heads)]))
        if shown.chosen:
            order = " → ".join(draw.legal_text(columns[j]) for j in x.argmax(1))
            note += f" In order: {order}."
            lines.append(f"    {name or title}: {order}")
        equations = equations_of(shown.by, type(source))
        figures.append(draw.maps(title, rows, columns, x, note, shown.top, equations))
    return figures, lines


def equations_of(name, method):
    """Such as "DAFA Eq. (6)": what the docstring of an equation of the method's class cites of the
    method's paper. name: of the equation in the class, or "".
    """
    docstring = inspect.getdoc(getattr(method, name)) if hasattr(method, name) else ""
    first = (docstring or "").split("\n\n")[0]
    cited = re.findall(r"([\w-]+) (Eqs?\. \(\d+\)(?:(?:, |-)\(\d+\))*)", first)
    return ", ".join(f"{paper} {number}" for paper, number in cited
                     if f"{paper} Eq" in (method.__doc__ or ""))


def traced_module(run):
    """The module whose TRACE describes what run.explain returns."""
    layer = run.shown_layer()
    return run.model if layer is None else run.model.bert.layers[layer].attention


def place_of(run, heads):
    """A sentence on where a trace was recorded; "" for a whole model. heads: has it an axis of
    heads?
    """
    layer = run.shown_layer()
    if layer is None:
        return ""
    mean = f", mean of its {traced_module(run).heads} heads" if heads else ""
    return f"Layer {layer} (of 0 to {len(run.model.bert.layers) - 1}){mean}."


# ---- What is known of the words -----------------------------------------------------------------

def words_of(text):
    """(spans (n, 2), list of the n words) of a text."""
    spans = split_words(text)
    return spans, words_at(text, spans)


def roles_of(known):
    """The dependency tree of a text, for each word its relation and its head: "obj of chased"."""
    return [f"{relation} of {known.words[head - 1]}" if head else relation
            for head, relation in zip(known.parse.heads, known.parse.relations)]


def own_words(a, b):
    """Two lists of bool: does a sentence, a list of words, have this word, up to case, more often
    than the other one has it?

    >>> own_words(["The", "cat", "saw", "the", "dog"], ["the", "dog", "slept"])
    [[False, True, True, True, False], [False, False, True]]
    """
    marks = []
    for words, others in ((a, b), (b, a)):
        left = Counter(word.casefold() for word in others)
        marks.append([])
        for word in map(str.casefold, words):
            left[word] -= 1
            marks[-1].append(left[word] < 0)
    return marks


def unknown_words(run, pair):
    """Words of a pair that the model has seen in no or few training pairs: words without an id or
    a piece; if the pieces were learned from the training pairs, words of several pieces too.
    """
    tokenizer, unknown = run.reader.tokenizer, []
    words = [word for text in (pair.a, pair.b) for word in words_of(text)[1]]
    for word in dict.fromkeys(words):
        if run.settings.reads_words:
            known = tokenizer.ids([word])[0] != 1
        else:
            pieces = tokenizer.pieces(tokenizer.encode(word, None, "", None, 512)[0])
            split = any(piece.startswith("##") for piece in pieces)
            known = "[UNK]" not in pieces and not (split and run.recipe.bert == "scratch")
        if not known:
            unknown.append(word)
    return unknown


def warnings_of(run, pair):
    """Sentences that warn: a text has no words, the model did not read or does not know some."""
    warnings = [f"Sentence {side} has no words." for side, text in (("a", pair.a), ("b", pair.b))
                if not len(split_words(text))]
    if run.examples([pair]).lengths == [run.settings.max_length]:
        warnings.append(f"The pair fills --max-length {run.settings.max_length}.")
    if unknown := unknown_words(run, pair):
        words = join_names([f"“{draw.cut_label(word)}”" for word in unknown], 4)
        warnings.append(f"Rare or new to this model: {words}.")
    return warnings


def word_figures(examples, both):
    """[draw.Figure of the prior over words]; [] where the method has none that a table can show."""
    prior, words = examples.reader.prior, [known.words for known in both]
    if prior is None or examples.reader.method.READS == "words":
        return []
    matrix = examples.prior(0)
    if prior.names:
        known = np.array(prior.names)
        names = [[", ".join(known[cell]) for cell in row] for row in matrix]
        table = draw.table(prior.title, *words, names, draw.SHADES // 2 * matrix.any(2))
        return [draw.Figure(prior.title, prior.note, draw.box(table, prior.title))]
    if matrix.ndim != 2:
        return []
    return [draw.maps(prior.title, *words, matrix, prior.note, equations=prior.equations)]


def looks_of(run, trace):
    """(weights (L, L) of pieces, title, legend) of how pieces look at each other, the mean over
    heads. Of a method that calibrates its attention by what is known of the words: how much more
    than without that. None for a model without attention between words.
    """
    method, prior = run.reader.method, run.reader.prior
    if not issubclass(method, SelfAttention) or "attention" not in trace:
        return None
    plain = trace["attention"][0].mean(0)
    if prior is None or "calibrated" not in trace:
        return plain, "Attention between the sentences", (
            "Joined words look at each other. Thicker: more. This alone explains no answer.")
    return trace["calibrated"][0].mean(0) - plain, f"Attention moved by {prior.known}", (
        f"Because of {prior.known}, joined words look at each other more. Thicker: more.")


def link_figure(run, pair, both, looks, said):
    """(draw.Figure of the words of a and b that look at each other, a picture of them that stands
    alone). both: Known of the texts. looks: what looks_of returned. said: the verdict.
    """
    weights, title, legend = looks
    spans, words = zip(*map(words_of, (pair.a, pair.b)))
    _, segment, word = run.reader.tokenizer.encode(pair.a, spans[0], pair.b, spans[1],
                                                   run.reader.max_length)
    points = 100 * between_words(weights, np.array(segment), np.array(word), *map(len, words))
    most = (f"The thickest line: {points.max(initial=0):.0f} of 100 parts of their attention, the "
            "mean of both directions.")
    roles, marks, place = ((), ()), own_words(*words), place_of(run, True)
    if "parses" in getattr(run.reader.prior, "needs", ()):
        roles = [roles_of(known) for known in both]
    figure = draw.links(title, words, marks, points, f"{legend} {most} {place}", roles)
    lacks = ["Bold: the other sentence lacks the word."] if any(map(any, marks)) else []
    return figure, draw.picture(
        f"{pair.a} {pair.b} {said}", [(pair.a, "word"), (pair.b, "word"), (said, "title")],
        figure.drawing, [(text, "soft") for text in (legend, *lacks, place)], draw.OF_DRAWINGS)


def between_words(weights, segment, word, n, m):
    """How much words of a and b look at each other, (n, m): the mean of both directions. The pieces
    of the word that looks are averaged, those of the other word added up.

    weights: (L, L), of pieces. segment, word: (L,), of each piece. n, m: words of a and b.
    """
    a = (segment == 0) & (word == np.arange(n)[:, None])
    b = (segment == 1) & (word == np.arange(m)[:, None])
    mean_a, mean_b = (x / np.maximum(1, x.sum(1, keepdims=True)) for x in (a, b))
    return (mean_a @ weights @ b.T + (mean_b @ weights @ a.T).T) / 2


# ---- What stands first --------------------------------------------------------------------------

def describe_change(run, change):
    """The name of a change (run.changes) in a sentence."""
    known = getattr(run.reader.prior, "known", "")
    return {"no prior": f"without {known}", "no method": "with plain attention",
            "no re-reading": "without re-reading", "uniform choice": "with an even choice"
            }.get(change, f"with {change}")


def verdict(prediction):
    """A sentence: the answer, and how sure the model is.

    >>> [verdict(("same", {"different": 1 - p, "same": p})) for p in (0.648, 0.993)]
    ['The model says “same”, 65 % sure.', 'The model says “same”, over 99 % sure.']
    """
    answer, probabilities = prediction
    if probabilities is None:
        return f"The model gives {answer:.3f}."
    percent = 100 * probabilities[answer]
    return f"The model says “{answer}”, {'over 99' if percent > 99 else f'{percent:.0f}'} % sure."


def merge_rows(rows):
    """The rows of a table; those with equal cells are one row, whose name has all their names.

    >>> merge_rows([["without a", "1"], ["with b", "2"], ["with c", "1"]])
    [['without a or with c', '1'], ['with b', '2']]
    """
    names = {}
    for name, *cells in rows:
        names.setdefault(tuple(cells), []).append(name)
    return [[" or ".join(same), *cells] for cells, same in names.items()]


def answers_table(run, pair, first):
    """(rows of cells, the header first; sentences): the probability of each answer, or the score,
    as it is and without each part; what the model would say instead. first: its Prediction.
    """
    rows = [("as it is", first)]
    for name, change in run.changes().items():
        rows.append((describe_change(run, name), run.predict([pair], change)[0]))
    cells = []
    for how, (answer, probabilities) in rows:
        shares = [f"{100 * share:.1f} %" for share in (probabilities or {}).values()]
        cells.append([how, *(shares or [f"{answer:.3f}"])])
    others = [[how, x.answer] for how, x in rows if x.answer != first.answer and x.probabilities]
    said = [f"{how[0].upper()}{how[1:]} it would say “{answer}”."
            for how, answer in merge_rows(others)]
    return [["this pair", *(run.task.labels or ["score"])], cells[0], *merge_rows(cells[1:])], said


def influence_table(run):
    """Rows of cells, the header first: what the parts do to all pairs of dev; [] without the run's
    result.json. If a part only moves all answers towards one class, the AUC stays.
    """
    path = run.folder / "result.json"
    result = read_json(path) if path.exists() else {"id": None}  # best.pt alone is a run, too
    with made_here(path):
        measured = result["id"] == run.begun["id"] and result["influence"]
        if not measured:  # nothing to leave out, or another training wrote it
            return []
        names = {name: describe_change(run, name) for name in measured["changes"]}
        split = f"{measured['pairs']:,} pairs of {result['selection_split']}"
        rows = [row[:-1] for row in summary.influence_rows(measured, split, names)]
        return [*rows[:2], *merge_rows(rows[2:])]


# ---- The page -----------------------------------------------------------------------------------

def section(figures, equations):
    """HTML of Figures side by side. equations: the address of docs/equations.md."""
    parts = []
    for x in figures:
        link = f'<a href="{escape(equations)}">{x.equations}</a>' if x.equations else ""
        parts.append(f"<figure><figcaption><h2>{escape(x.title)}{link}</h2>"
                     f"<p>{escape(x.note)}</p></figcaption>{x.body}</figure>\n")
    return f'<section class="side">{"".join(parts)}</section>\n'


def form(a, b):
    """HTML of two text fields that hold these sentences, for a page that is served."""
    fields = "".join(
        f'<label>Sentence {name} <input name="{name}" value="{escape(text)}"/></label>\n'
        for name, text in (("a", a), ("b", b)))
    return f'<form method="get" action="/">{fields}<button>Explain</button></form>\n'


def page(title, quotes, first, lead, figures, equations, top):
    """The whole document.

    quotes: HTML of the two texts. first: the sentence below them, in large letters. lead: HTML
    below that. figures: the first stands beside these. equations: as in `section`. top: HTML above
    all.
    """
    quotes = "".join(f"<blockquote><bdi>{text}</bdi></blockquote>" for text in quotes)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"/><title>{escape(title)}</title>'
            f'<style>{draw.STYLE}</style></head>\n<body><main>{top}<header class="side"><div>'
            f'{quotes}<h1>{escape(first)}</h1>{lead}</div>\n{section(figures[:1], equations)}'
            f'</header>{section(figures[1:], equations)}</main></body></html>\n')


def origin(run):
    """A sentence: the run's folder, what names its method, what it was trained on."""
    given = run.settings
    options = [f"--{name} {value}" for name in ("printed", "without", "layers", "set")
               if (value := getattr(given, name))]
    data = f"the pairs of {Path(given.train_file).name}" if given.train_file else given.task
    return f"{run.folder}: {' '.join([given.model, *options])}, trained on {data}."


def marked_text(text, spans, marks):
    """HTML of a text, with marks around some of its words, at spans (n, 2)."""
    parts, done = [], 0
    for (start, end), marked in zip(spans.tolist(), marks, strict=True):
        if marked:
            parts += [escape(text[done:start]), "<mark>", escape(text[start:end]), "</mark>"]
            done = end
    return "".join([*parts, escape(text[done:])])


def explain_pair(run, a, b, equations, top=""):
    """(lines to print, the page's text, its picture or ""). equations, top: as in `page`."""
    pair, (prediction, trace) = Pair(a, b, None), run.explain(a, b)
    examples = run.examples([pair])
    both = examples.known[a], examples.known[b]
    recorded, reading = trace_figures(run, examples, both, trace)
    figures, first, picture = word_figures(examples, both) + recorded, verdict(prediction), ""
    if looks := looks_of(run, trace):
        figure, picture = link_figure(run, pair, both, looks, first)
        figures.insert(0, figure)
    answers, said = answers_table(run, pair, prediction)
    said = warnings_of(run, pair) + said
    lines, lead = [first, *said], [f"<p>{escape(line)}</p>" for line in said]
    for rows in filter(None, (answers, influence_table(run))):
        lines.append(summary.align_columns(rows))
        (name, *columns), *cells = rows
        table = draw.table(name, [row[0] for row in cells], columns, [x[1:] for x in cells])
        lead.append(draw.box(table, name))
    lead.append(f'<p class="note">{escape(origin(run))}</p>')
    spans, words = zip(*map(words_of, (a, b)))
    quotes = map(marked_text, (a, b), spans, own_words(*words))
    title = f"What {run.settings.model} saw"
    text = page(title, quotes, first, "".join(lead), figures, equations, top)
    return [*lines, *reading], text, picture


class PageHandler(BaseHTTPRequestHandler):
    """Answers /?a=TEXT&b=TEXT by `server.run`, and /equations.md, to this machine alone."""

    def handle(self):
        """Answers a client, which may hang up."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self):
        """Answers a request. A request for another host name gets nothing: another site sent it."""
        host, (path, _, query) = self.headers.get("Host", ""), self.path.partition("?")
        here = host.rsplit(":", 1)[0] in ("127.0.0.1", "localhost")
        if not here or path not in ("/", "/equations.md"):
            self.answer(404, "only / is served, and to this machine alone")
        elif path == "/equations.md":
            self.answer(200, EQUATIONS.read_text("utf-8"), "text/plain")
        else:
            given = parse_qs(query, keep_blank_values=True)
            a = given.get("a", ["The cat chased the dog."])[0]
            b = given.get("b", ["The dog was chased by the cat."])[0]
            run, top = self.server.run, form(a, b)
            try:
                self.answer(200, explain_pair(run, a, b, "/equations.md", top)[1])
            except Exception as error:  # a class of one's own may raise anything
                self.answer(400, top + escape(one_line(error)))

    def answer(self, status, text, kind="text/html"):
        """Sends a page that may load nothing and run nothing."""
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Security-Policy", "default-src 'none'; "
                         "style-src 'unsafe-inline'; form-action 'self'")
        self.end_headers()
        self.wfile.write(text.encode("utf-8", "replace"))

    def log_message(self, *args):
        """Logs nothing, because what people type is private."""


def page_name(a, b):
    """The name of the page of two texts. The checksum keeps two pairs apart.

    >>> page_name("The cat!", "A dog")
    'explanation-the-cat-a-dog-2da4ea.html'
    """
    words = re.findall("[a-z0-9]+", f"{a[:40]} {b[:40]}".lower())
    checksum = hashlib.sha256(f"{a}\0{b}".encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return "-".join(["explanation", *words, checksum]) + ".html"


def add_run_options(arguments):
    """Adds RUN, and the options of train.open_run, to a command."""
    arguments.add_argument("run", metavar="RUN", help="the folder of a trained run")
    for name, value, text in (
            ("data-dir", "FOLDER", "where the data sets lie, if not as in training"),
            ("model", "mine.py:M", "your own class that the run was trained with"),
            ("parser", "mine.py:F", "your own parser that the run was trained with"),
            ("device", "DEVICE", "where to compute, such as cpu or cuda")):
        arguments.add_argument(f"--{name}", metavar=value, help=text)


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.explain", "What a trained model saw in a pair: "
                          "the prediction, and a page, HTML, in the run's folder.", "RUN [A B]")
    add_run_options(arguments)
    arguments.add_argument("a", metavar="A", nargs="?", help="a sentence, in quotes")
    arguments.add_argument("b", metavar="B", nargs="?", help="the other one")
    arguments.add_argument("--serve", metavar="PORT", nargs="?", const=8000, type=int,
                           help="serve the page with two text fields (default port: 8000)")
    arguments.add_argument("--picture", metavar="FILE.svg", help="draw the pair, the answer and "
                           "the words that look at each other")
    arguments.add_argument("--out", metavar="FILE.html", help="the page (default: in RUN)")
    given = arguments.parse(argv)
    folder, a, b, out = (given.pop(name, None) for name in ("run", "a", "b", "out"))
    file, port = given.pop("picture", None), given.pop("serve", None)
    two, served = b is not None, port is not None
    refuse(two == served or served and not 0 <= port < 2 ** 16,
           "expected two sentences, each in quotes, or --serve, with a port below 65536 or none")
    with machine.torch_session(given):
        run = train.open_run(folder, **given)
        if port is not None:
            with (prefix_errors(f"--serve {port} (0: a free one): "),
                  ThreadingHTTPServer(("127.0.0.1", port), PageHandler) as server):
                server.run = run
                print(f"http://127.0.0.1:{server.server_port}/ until Ctrl-C", flush=True)
                server.serve_forever()
        path = Path(out or run.folder / page_name(a, b))
        if out or not path.exists():  # a page in the run's folder is an older one of this pair
            check_free(path)
        if file:
            refuse(Path(file) == path, f"--picture {file}: is the page's name, too; give two names")
            check_free(file, option="--picture")
        equations = quote(os.path.relpath(EQUATIONS, path.parent))
        lines, text, picture = explain_pair(run, a, b, equations)
    machine.print_once("\n".join(lines))
    pages = {path: text}
    if file:
        refuse(not picture, f"--picture {file}: this model's page has no drawing; leave the option "
               "out")
        pages[file] = picture
    for path, text in pages.items():
        write_text(path, text)
        print(path)


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.explain"))
