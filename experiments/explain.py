"""The page of one pair: what a trained model says of two sentences, and what it saw in them.

    python -m experiments.explain RUN "The cat chased the dog." "The dog was chased by the cat."

prints the answer, how often this model was right, and the answers without each part of the method.
A page in the run's folder says the same, with a drawing: lines join words that look at each other.
Below stands one heat map, of one layer and head, or of what is read step by step. `RUN --serve`
shows the page with two text fields, on this machine alone, until Ctrl-C.

Left out: other layers and heads, and what else a model notes (`run.explain`, `recording`).
"""
import contextlib
import hashlib
import html
import re
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import torch

import train
from run import made_here
from support import machine
from support.errors import join_names, one_line, prefix_errors, refuse
from support.files import check_free, read_json, write_text
from support.options import Arguments, run_command
from support.pairs import predictions_of
from support.parses import split_words, words_at
from support.summary import align_columns, draw_text

STYLE = Path(__file__).with_name("page.css").read_text("utf-8")
STEP, GAP = 30, 120  # pixels: from a word to the next; between the sentences
LONGEST = 24  # characters of a word in the drawing
LEAST = 0.1  # the thinnest line that is drawn, as a share of the thickest
SHADES = 5  # of the heat map
CHANGES = {"no method": "with plain attention", "no re-reading": "without re-reading",
           "uniform choice": "reading all words alike"}  # of a model -> on the page


# ---- What is said of a pair ---------------------------------------------------------------------

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


def describe_run(run):
    """(a sentence: how often the model was right; a sentence: which model it is). Both say what
    training wrote in result.json; best.pt alone is a run, too.
    """
    options = [f"--{name} {value}" for name in ("printed", "without", "layers", "set")
               if (value := getattr(run.settings, name))]
    model = " ".join([f"{run.folder}: {run.settings.model}", *options])
    path = run.folder / "result.json"
    result = read_json(path) if path.exists() else {"id": None}
    with made_here(path):
        if result["id"] != run.begun["id"]:  # another training wrote it
            return "How often this model is right is not known here.", f"{model}."
        scores = result["metrics"][result["selection_split"]]
        if run.task.regression:
            right = f"its scores and people's have Pearson's r = {scores['pearson']:.2f}"
        else:
            right = f"{100 * scores['accuracy']:.0f} of 100 answers were right"
        data = "" if run.task.name == "own" else f" of {run.task.name}"
        return (f"On pairs that it was not trained on, {right}.",
                f"{model}, trained on {result['pairs']['train']:,} pairs{data}.")


def answers_without(run, pair):
    """[(how, Prediction)] of a pair (a, b): without each part of the method.

    A change that does what an earlier one does, such as plain attention where equal words are all
    that is added, has no line of its own.
    """
    rows, seen, known = [], [], getattr(run.reader.prior, "known", "")
    for name, change in run.changes().items():
        logits = run.logits([pair], change)
        if not any(torch.allclose(logits, other, atol=1e-6) for other in seen):
            how = CHANGES.get(name, f"without {known}")
            rows.append((how, predictions_of(logits, run.task)[0]))
        seen.append(logits)
    return rows


def warnings_of(run, pair, words):
    """Sentences: of words that the model saw in no or few training pairs, of a pair that was cut.

    Such words have no id or piece, or several pieces where these were learned from training pairs.
    """
    tokenizer, new, warnings = run.reader.tokenizer, [], []
    for word in dict.fromkeys(words):
        if run.settings.reads_words:
            known = tokenizer.ids([word])[0] != 1
        else:
            pieces = tokenizer.pieces(tokenizer.encode(word, None, "", None, 512)[0])
            split = run.recipe.bert == "scratch" and any(x.startswith("##") for x in pieces)
            known = "[UNK]" not in pieces and not split
        if not known:
            new.append(f"“{cut_word(word)}”")
    if new:
        warnings.append(f"Rare or new to this model: {join_names(new, 4)}.")
    if run.examples([pair]).lengths == [run.settings.max_length]:
        warnings.append(f"The pair fills --max-length {run.settings.max_length}.")
    return warnings


# ---- What the model saw -------------------------------------------------------------------------

def words_of(text):
    """(spans (n, 2), list of the n words) of a text."""
    spans = split_words(text)
    return spans, words_at(text, spans)


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


def roles_of(parse):
    """For each word of a Parse its relation and its head, such as "obj of chased"."""
    return [f"{relation} of {parse.words[head - 1]}" if head else relation
            for head, relation in zip(parse.heads, parse.relations)]


def between_words(weights, segment, word, n, m):
    """How much words of a and b look at each other, (n, m): the mean of both directions. The pieces
    of the word that looks are averaged, those of the other word added up.

    weights: (L, L), of pieces. segment, word: (L,), of each piece. n, m: words of a and b.
    """
    a = (segment == 0) & (word == np.arange(n)[:, None])
    b = (segment == 1) & (word == np.arange(m)[:, None])
    mean_a, mean_b = (x / np.maximum(1, x.sum(1, keepdims=True)) for x in (a, b))
    return (mean_a @ weights @ b.T + (mean_b @ weights @ a.T).T) / 2


def links_of(run, trace, segment, word, n, m):
    """(hundredths of the attention between words (n, m), the mean over heads; what a line says).

    Of a method that calibrates its attention: what this adds. The arguments: see between_words.
    """
    weights, more = trace["attention"][0].mean(0), "Joined words look at each other"
    if "calibrated" in trace:
        weights = trace["calibrated"][0].mean(0) - weights
        more = f"Because of {run.reader.prior.known}, joined words look at each other more"
    points = 100 * between_words(weights, segment, word, n, m)
    return points, (f"{more}. The thickest line: {points.max():.0f} of 100 parts of their "
                    f"attention in layer {run.shown_layer()}.")


def attention_map(run, trace, segment, word, pieces):
    """(title, rows, columns, shares (L, L)) of the head that looks most at the other sentence."""
    name = next(name for name in ("calibrated", "difference", "attention") if name in trace)
    kind = "Attention" if name == "attention" else f"{name.capitalize()} attention"
    cross = (segment[:, None] != segment) & (word[:, None] >= 0) & (word >= 0)
    head = int((trace[name][0] * cross).sum((1, 2)).argmax())
    title = (f"{kind} in layer {run.shown_layer()}, head {head}, which looks most at the other "
             "sentence: how much a row takes from a column, in hundredths")
    return title, pieces, pieces, trace[name][0, head]


def reading_map(run, reading, words, pieces):
    """(title, rows, columns, shares) of how much each step reads of each word of both sentences, or
    of each piece. reading: (2, 1, steps, words), or (1, steps, readers, L), the first of pieces.
    """
    if run.settings.reads_words:
        shares = np.concatenate([x[0, :, :len(own)] for x, own in zip(reading, words)], 1)
        pieces = [*words[0], *words[1]]
    else:
        shares = reading[0, :, 0]
    steps = [f"step {i + 1}" for i in range(len(shares))]
    return "How much each step reads of each word, in hundredths", steps, pieces, shares


# ---- Drawings and tables ------------------------------------------------------------------------

def legal_text(text):
    """The text with U+FFFD for each character that XML forbids."""
    return re.sub("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd",
                  str(text))


def escape(text):
    """The text as HTML, which may stand anywhere in a page."""
    return html.escape(legal_text(text))


def cut_word(word):
    """A word that fits into a drawing."""
    word = legal_text(word)
    return word if len(word) <= LONGEST else word[:LONGEST - 1] + "…"


def drawn_links(values):
    """[(i, j, share)] of the lines that `draw_pair` draws, the thin ones first: the largest number
    of each row and column. share: of the largest number of all, which counts as 1 at least.

    >>> drawn_links(np.array([[8, 2, 0], [4, 1, -3], [0.5, 0, 0]]))
    [(0, 1, 0.25), (1, 0, 0.5), (0, 0, 1.0)]
    """
    largest = [values.max(axis, keepdims=True, initial=0) == values for axis in (0, 1)]
    share = values / max(1, values.max(initial=0))
    found = np.argwhere((largest[0] | largest[1]) & (share >= LEAST))
    return sorted(((int(i), int(j), float(share[i, j])) for i, j in found), key=lambda x: x[2])


def draw_pair(words, marks, roles, values):
    """SVG text: the words of a at the left, of b at the right, joined by lines.

    words: two lists, of n and m. marks: two lists of bool: is the word marked? roles: two lists of
    what stands below the words, or of nothing. values: (n, m), the width of a line.
    """
    step, parts, wide = STEP + 14 * any(roles), [], []
    for own, marked, below in zip(words, marks, roles):
        own, below = [*map(cut_word, own)], [*map(cut_word, below)]
        wide.append(10 + max([10 * len(x) for x in own] + [7 * len(x) for x in below]))
        x, anchor = (wide[0] - 6, "end") if len(wide) == 1 else (wide[0] + GAP + 6, "start")
        for i, word in enumerate(own):
            kind = "own" if marked[i] else "word"
            parts.append(draw_text(x, i * step + 20, word, kind, anchor))
        for i, role in enumerate(below):
            parts.append(draw_text(x, i * step + 36, role, "soft", anchor))
    left, right = wide[0], wide[0] + GAP
    for i, j, share in drawn_links(values):
        y, to, half = i * step + 15, j * step + 15, (left + right) / 2
        title = f"{values[i, j]:.1f}: {words[0][i]}, {words[1][j]}"
        parts.append(f'<path class="link" d="M{left} {y}C{half:.0f} {y} {half:.0f} {to} {right} '
                     f'{to}" stroke-width="{1 + 5 * share:.1f}" opacity="{.4 + .6 * share:.2f}">'
                     f"<title>{escape(title)}</title></path>")
    size = right + wide[1], step * max(map(len, words))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
            f'viewBox="0 0 {size[0]} {size[1]}">{"".join(parts)}</svg>')


def table(rows, caption, shades=()):
    """HTML of a table, in a box that scrolls by itself. rows: of cells, the header first, each with
    its label first. shades: of the cells below the header, 0 to SHADES, of a heat map.
    """
    kind, body = ' class="map"' if len(shades) else "", []
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in rows[0])
    for i, (label, *cells) in enumerate(rows[1:]):
        tones = shades[i] if kind else [0] * len(cells)
        body += [f'\n<tr><th scope="row">{escape(label)}</th>',
                 *(f'<td class="p{tone}">{escape(cell)}</td>' for cell, tone in zip(cells, tones)),
                 "</tr>"]
    label = f'role="region" tabindex="0" aria-label="{escape(caption)}"'
    return (f'<p class="note">{escape(caption)}</p><div class="box" {label}><table{kind}><thead>'
            f'<tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>')


def heat_map(title, rows, columns, shares):
    """HTML of shares (rows, columns) in hundredths. Twice the shade is four times the share, so
    that small shares can be seen.
    """
    shades = np.rint(SHADES * np.sqrt(shares / max(shares.max(initial=0), 1e-9))).astype(int)
    cells = [[label, *(f"{100 * share:.0f}" for share in row)] for label, row in zip(rows, shares)]
    return f"<section>{table([['', *columns], *cells], title, shades)}</section>\n"


# ---- The page -----------------------------------------------------------------------------------

def marked_text(text, spans, marks):
    """HTML of a text, with marks around some of its words, at spans (n, 2)."""
    parts, done = [], 0
    for (start, end), marked in zip(spans.tolist(), marks, strict=True):
        if marked:
            parts += [escape(text[done:start]), f"<mark>{escape(text[start:end])}</mark>"]
            done = end
    return "".join([*parts, escape(text[done:])])


def form(a, b):
    """HTML of two text fields that hold these sentences, for a page that is served."""
    fields = "".join(f'<label>Sentence {name} <input name="{name}" value="{escape(text)}"/></label>'
                     for name, text in (("a", a), ("b", b)))
    return f'<form method="get" action="/">{fields}<button>Explain</button></form>\n'


def page(title, *parts):
    """The whole document. parts: HTML."""
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"/><title>{escape(title)}</title>'
            f'<style>{STYLE}</style></head>\n<body><main>{"".join(parts)}</main></body></html>\n')


def draw_seen(run, a, b, spans, words, trace):
    """(HTML of the drawing, HTML of the heat map), each "" if the model has none."""
    segment, pieces, drawn, heat = None, [], "", ""
    if not run.settings.reads_words:
        ids, segment, word = map(np.array, run.reader.tokenizer.encode(
            a, spans[0], b, spans[1], run.settings.max_length))
        pieces = run.reader.tokenizer.pieces(ids.tolist())
    if "attention" in trace:
        values, note = links_of(run, trace, segment, word, *map(len, words))
        roles, marks = ((), ()), own_words(*words)
        if "parses" in getattr(run.reader.prior, "needs", ()):
            known = run.examples([(a, b)]).known
            roles = [roles_of(known[text].parse) for text in (a, b)]
        if any(map(any, marks)):
            note += " Orange: the other sentence lacks the word."
        drawn = (f'<figure><div class="box">{draw_pair(words, marks, roles, values)}</div>'
                 f"<figcaption>{escape(note)}</figcaption></figure>")
        heat = heat_map(*attention_map(run, trace, segment, word, pieces))
    elif "reading" in trace:
        heat = heat_map(*reading_map(run, trace["reading"], words, pieces))
    return drawn, heat


def explain_pair(run, a, b, top=""):
    """(lines to print, the page's text). top: HTML above all.

    Raises ValueError for a text without words: an answer to it would say nothing.
    """
    spans, words = zip(*map(words_of, (a, b)))
    for name, own in zip("ab", words):
        refuse(not own, f"sentence {name} has no words; give two sentences")
    prediction, trace = run.explain(a, b)
    answers = [("as it is", prediction), *answers_without(run, (a, b))]
    said, (right, model) = verdict(prediction), describe_run(run)
    lines = [right, *warnings_of(run, (a, b), [*words[0], *words[1]])]
    rows = [["this pair", *(run.task.labels or ["score"])]]
    for how, (answer, probabilities) in answers:
        if answer != prediction.answer and probabilities:
            lines.append(f"{how[0].upper()}{how[1:]} it would say “{answer}”.")
        shares = [f"{100 * share:.1f} %" for share in (probabilities or {}).values()]
        rows.append([how, *(shares or [f"{answer:.3f}"])])
    drawn, heat = draw_seen(run, a, b, spans, words, trace)
    quotes = ""
    if not (top and drawn):  # else the fields and the drawing have the sentences
        quotes = "".join(f"<blockquote><bdi>{marked_text(*x)}</bdi></blockquote>"
                         for x in zip((a, b), spans, own_words(*words)))
    lead = "".join(f"<p>{escape(line)}</p>" for line in lines)
    text = page(f"What {run.settings.model} saw", top, "<header><div>", quotes,
                f"<h1>{escape(said)}</h1>{lead}</div>\n", drawn, "<div>",
                table(rows, "What a part changes"), f'<p class="note">{escape(model)}</p></div>',
                "</header>\n", heat)
    return [said, *lines, align_columns(rows)], text


# ---- The server and the command -----------------------------------------------------------------

class PageHandler(BaseHTTPRequestHandler):
    """Answers /?a=TEXT&b=TEXT by `server.run`, to this machine alone."""

    def handle(self):
        """Answers a client, which may hang up."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self):
        """Answers a request. A request for another host name gets nothing: another site sent it."""
        host, (path, _, query) = self.headers.get("Host", ""), self.path.partition("?")
        here = host.rsplit(":", 1)[0] in ("127.0.0.1", "localhost")
        if not here or path != "/":
            self.answer(404, "only / is served, and to this machine alone")
            return
        given = parse_qs(query, keep_blank_values=True)
        a = given.get("a", ["The cat chased the dog."])[0]
        b = given.get("b", ["The dog was chased by the cat."])[0]
        try:
            self.answer(200, explain_pair(self.server.run, a, b, form(a, b))[1])
        except Exception as error:  # a class of one's own may raise anything
            self.answer(400, page("No answer", form(a, b), f"<p>{escape(one_line(error))}</p>"))

    def answer(self, status, text):
        """Sends a page that may load nothing and run nothing."""
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
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


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.explain", __doc__, "RUN [A B]")
    arguments.add_argument("run", metavar="RUN", help="the folder of a trained run")
    arguments.add_argument("a", metavar="A", nargs="?", help="a sentence, in quotes")
    arguments.add_argument("b", metavar="B", nargs="?", help="the other one")
    arguments.add_argument("--serve", metavar="PORT", nargs="?", const=8000, type=int,
                           help="serve the page with two text fields (default port: 8000)")
    for name, value, text in (
            ("out", "FILE.html", "the page (default: in RUN)"),
            ("data-dir", "FOLDER", "where the data sets lie, if not as in training"),
            ("model", "mine.py:M", "your own class that the run was trained with"),
            ("parser", "mine.py:F", "your own parser that the run was trained with"),
            ("device", "DEVICE", "where to compute, such as cpu or cuda")):
        arguments.add_argument(f"--{name}", metavar=value, help=text)
    given = arguments.parse(argv)
    folder, a, b, out, port = (given.pop(name, None) for name in ("run", "a", "b", "out", "serve"))
    two, served = b is not None, port is not None
    refuse(two == served or served and not 0 <= port < 2 ** 16,
           "expected two sentences, each in quotes, or --serve, with a port below 65536 or none")
    with machine.torch_session(given):
        run = train.open_run(folder, **given)
        if served:
            with (prefix_errors(f"--serve {port} (0: a free one): "),
                  ThreadingHTTPServer(("127.0.0.1", port), PageHandler) as server):
                server.run = run
                print(f"http://127.0.0.1:{server.server_port}/ until Ctrl-C", flush=True)
                server.serve_forever()
        path = Path(out or run.folder / page_name(a, b))
        if out or not path.exists():  # a page in the run's folder is an older one of this pair
            check_free(path)
        lines, text = explain_pair(run, a, b)
    write_text(path, text)
    machine.print_once("\n".join([*lines, str(path)]))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.explain"))
