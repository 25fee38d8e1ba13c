"""The page of one pair: what a trained model says of two sentences, and what it saw in them.

    python -m experiments.explain RUN "The cat chased the dog." "The dog was chased by the cat."

prints the answer, how often this model was right, and the answers without each part of the method.
A page in the run's folder says the same. Lines in its drawing join words that look at each other.
Below stands one heat map, of one layer and head. `RUN --serve` shows the page with two text fields,
on this machine alone, until Ctrl-C.

Left out: other layers and heads, and what else a model notes (`run.explain`, `recording`).
"""
import hashlib
import re
import sys
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np

import train
from run import made_here
from support import machine
from support.errors import one_line, prefix_errors, refuse
from support.files import read_json, write_text
from support.options import Arguments, run_command
from support.parses import split_words, words_at
from support.summary import align_columns, draw_text

STYLE = Path(__file__).with_name("page.css").read_text("utf-8")
STEP, GAP = 30, 120  # pixels: from a word to the next; between the sentences
LONGEST = 24  # characters of a word in the drawing
LEAST = 0.1  # the thinnest line that is drawn, as a share of the thickest
SHADES = 5  # of the heat map
CHANGES = {"no method": "with plain attention", "no re-reading": "without re-reading",
           "uniform choice": "reading all words alike"}  # of a model -> on the page


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


def how_often_right(run):
    """A sentence: how often the model was right, as training wrote in result.json."""
    path = run.folder / "result.json"
    if not path.exists():  # best.pt alone is a run, too
        return "How often this model is right is not known here."
    result = read_json(path)
    with made_here(path):
        scores = result["metrics"][result["selection_split"]]
        if run.task.regression:
            right = f"its scores and people's have Pearson's r = {scores['pearson']:.2f}"
        else:
            right = f"{100 * scores['accuracy']:.0f} of 100 answers were right"
    return f"On pairs that it was not trained on, {right}."


def between_words(weights, segment, word, n, m):
    """How much words of a and b look at each other, (n, m): the mean of both directions. The pieces
    of the word that looks are averaged, those of the other word added up.

    weights: (L, L), of pieces. segment, word: (L,), of each piece. n, m: words of a and b.

    >>> weights = np.array([[0, 0, 2], [0, 0, 5], [6, 7, 0]])  # the word of a has two pieces
    >>> between_words(weights, np.array([0, 0, 1]), np.zeros(3), 1, 1)  # (7 / 2 + 13) / 2
    array([[8.25]])
    """
    a = (segment == 0) & (word == np.arange(n)[:, None])
    b = (segment == 1) & (word == np.arange(m)[:, None])
    mean_a, mean_b = (x / np.maximum(1, x.sum(1, keepdims=True)) for x in (a, b))
    return (mean_a @ weights @ b.T + (mean_b @ weights @ a.T).T) / 2


def links_of(run, trace, segment, word, n, m):
    """(hundredths of the attention between words (n, m), the mean over heads; what a line says). Of
    a method that calibrates its attention: what this adds. The arguments: see between_words.
    """
    weights, more = trace["attention"][0].mean(0), "Joined words look at each other"
    if "calibrated" in trace:
        weights = trace["calibrated"][0].mean(0) - weights
        more = f"Because of {run.reader.prior.known}, joined words look at each other more"
    points = 100 * between_words(weights, segment, word, n, m)
    return points, (f"{more}. The thickest line: {points.max():.0f} of 100 parts of their "
                    f"attention in layer {run.shown_layer()}.")


def heat_map(run, trace, segment, word, pieces):
    """HTML of the attention (L, L) of the head that looks most at the other sentence. Twice the
    shade is four times the share. segment, word: (L,), see between_words. pieces: L texts.
    """
    name = next(name for name in ("calibrated", "difference", "attention") if name in trace)
    kind = "Attention" if name == "attention" else f"{name.capitalize()} attention"
    cross = (segment[:, None] != segment) & (word[:, None] >= 0) & (word >= 0)
    head = int((trace[name][0] * cross).sum((1, 2)).argmax())
    title = (f"{kind} in layer {run.shown_layer()}, head {head}, which looks most at the other "
             "sentence: how much a row takes from a column, in hundredths")
    shares = trace[name][0, head]
    shades = np.rint(SHADES * np.sqrt(shares / max(shares.max(), 1e-9))).astype(int)
    rows = [[piece, *(f"{100 * x:.0f}" for x in row)] for piece, row in zip(pieces, shares)]
    return f"<section>{table([['', *pieces], *rows], title, shades)}</section>\n"


def draw_pair(words, values):
    """SVG text: words of a at the left, of b at the right. A word is marked as own that the other
    sentence lacks, up to case. Lines show the largest number of each row and column.

    words: two lists, of n and m. values: (n, m); the largest, or 1 if it is less, has full width.
    """
    known, parts = [{word.casefold() for word in own} for own in words], []
    wide = [10 + 10 * max(len(word[:LONGEST]) for word in own) for own in words]
    left, right = wide[0], wide[0] + GAP
    for side, x, anchor in ((0, left - 6, "end"), (1, right + 6, "start")):
        for i, word in enumerate(words[side]):
            kind = "word" if word.casefold() in known[1 - side] else "word own"
            parts.append(draw_text(x, i * STEP + 20, word[:LONGEST], kind, anchor))
    shares = values / max(1, values.max())
    largest = [values.max(axis, keepdims=True) == values for axis in (0, 1)]
    places = np.argwhere((largest[0] | largest[1]) & (shares >= LEAST))
    for i, j in sorted(places.tolist(), key=lambda place: shares[tuple(place)]):  # thin ones first
        y, to, half, share = i * STEP + 15, j * STEP + 15, (left + right) / 2, shares[i, j]
        title = f"{values[i, j]:.1f}: {words[0][i]}, {words[1][j]}"
        parts.append(f'<path class="link" d="M{left} {y}C{half:.0f} {y} {half:.0f} {to} {right} '
                     f'{to}" stroke-width="{1 + 5 * share:.1f}" opacity="{.4 + .6 * share:.2f}">'
                     f"<title>{escape(title)}</title></path>")
    size = right + wide[1], STEP * max(map(len, words))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
            f'viewBox="0 0 {size[0]} {size[1]}">{"".join(parts)}</svg>')


def table(rows, caption, shades=None):
    """HTML of a table, in a box that scrolls by itself. rows: of cells, the header first, each with
    its label first. shades: of the cells below the header, 0 to SHADES, of a heat map.
    """
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in rows[0])
    body = []
    for i, (label, *cells) in enumerate(rows[1:]):
        body.append(f'\n<tr><th scope="row">{escape(label)}</th>')
        for j, cell in enumerate(cells):
            tone = 0 if shades is None else shades[i, j]
            body.append(f'<td class="p{tone}">{escape(cell)}</td>')
        body.append("</tr>")
    kind = "" if shades is None else ' class="map"'
    return (f'<p class="note">{escape(caption)}</p><div class="box" tabindex="0"><table{kind}>'
            f'<thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>')


def form(a, b):
    """HTML of two text fields that hold these sentences, for a page that is served."""
    fields = "".join(f'<label>Sentence {name} <input name="{name}" value="{escape(text)}"/></label>'
                     for name, text in (("a", a), ("b", b)))
    return f'<form method="get" action="/">{fields}<button>Explain</button></form>\n'


def page(title, *parts):
    """The whole document, with U+FFFD for each character that XML forbids. parts: HTML."""
    text = (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"/><title>{escape(title)}</title>'
            f'<style>{STYLE}</style></head>\n<body><main>{"".join(parts)}</main></body></html>\n')
    return re.sub("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def draw_seen(run, a, b):
    """(Prediction, HTML of the drawing, HTML of the heat map or "" for a model without attention).

    Raises ValueError for a text without words: an answer to it would say nothing.
    """
    spans_a, spans_b = split_words(a), split_words(b)
    words = words_at(a, spans_a), words_at(b, spans_b)
    for name, own in zip("ab", words):
        refuse(not own, f"sentence {name} has no words; give two sentences")
    prediction, trace = run.explain(a, b)
    values, heat = np.zeros([*map(len, words)]), ""
    notes = ["Orange: the other sentence lacks the word."]
    if "attention" in trace:
        ids, segment, word = map(np.array, run.reader.tokenizer.encode(
            a, spans_a, b, spans_b, run.settings.max_length))  # with words for plain BERT, too
        values, note = links_of(run, trace, segment, word, *map(len, words))
        notes.append(note)
        heat = heat_map(run, trace, segment, word, run.reader.tokenizer.pieces(ids.tolist()))
    return prediction, (f'<figure><div class="box">{draw_pair(words, values)}</div>'
                        f"<figcaption>{escape(' '.join(notes))}</figcaption></figure>"), heat


def explain_pair(run, a, b, top=""):
    """(lines to print, the page's text). top: HTML above all, which shows the two sentences."""
    prediction, drawn, heat = draw_seen(run, a, b)
    said, lines = verdict(prediction), [how_often_right(run)]
    if run.examples([(a, b)]).lengths == [run.settings.max_length]:
        lines.append(f"The pair fills --max-length {run.settings.max_length}.")
    rows, answers = [["this pair", *(run.task.labels or ["score"])]], {"as it is": prediction}
    for name, change in run.changes().items():
        if name == "no prior":
            name = f"without {run.reader.prior.known}"
        answers[CHANGES.get(name, name)] = run.predict([(a, b)], change)[0]
    for how, (answer, probabilities) in answers.items():
        if answer != prediction.answer and probabilities:
            lines.append(f"{how[0].upper()}{how[1:]} it would say “{answer}”.")
        shares = [f"{100 * share:.1f} %" for share in (probabilities or {}).values()]
        rows.append([how, *(shares or [f"{answer:.3f}"])])
    quotes = "".join(f"<blockquote><bdi>{escape(text)}</bdi></blockquote>" for text in (a, b))
    lead = "".join(f"<p>{escape(line)}</p>" for line in lines)
    text = page(f"What {run.settings.model} saw", "<header><div>", top or quotes,
                f"<h1>{escape(said)}</h1>{lead}</div>\n", drawn, "<div>",
                table(rows, "What a part changes"), "</div></header>\n", heat)
    return [said, *lines, align_columns(rows)], text


class PageHandler(BaseHTTPRequestHandler):
    """Answers /?a=TEXT&b=TEXT by `server.run`, to this machine alone."""

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
    """The name of the page of two texts. The checksum keeps two pairs apart."""
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
            ("model", "mine.py:M", "your own class that the run was trained with"),
            ("parser", "mine.py:F", "your own parser that the run was trained with"),
            ("device", "DEVICE", "where to compute, such as cpu or cuda")):
        arguments.add_argument(f"--{name}", metavar=value, help=text)
    given = arguments.parse(argv)
    folder, a, b, port = (given.pop(name, None) for name in ("run", "a", "b", "serve"))
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
        lines, text = explain_pair(run, a, b)
    path = run.folder / page_name(a, b)
    write_text(path, text)
    machine.print_once("\n".join([*lines, str(path)]))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.explain"))
