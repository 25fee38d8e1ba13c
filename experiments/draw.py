"""Figures of a pair of sentences, and the page they stand on, as HTML and SVG.

A page is one HTML document with nothing outside it: no font, no picture from elsewhere. Its one
script lights up the cell that the arrow keys lead to; all is there without it.
`tree`, `heat`, `bars` and `relations` each make a Figure from lists and arrays; `page` joins them,
`picture` puts some of them on one SVG. A figure is a drawing and, for those who do not see it, a
real table. A map's drawing is a PNG with a pixel for each cell, in the page's text. Its table lies
unseen over it, cell upon cell, and shows the value under the pointer: so each value stands in the
page once, and the page stays small.

Left out: what the numbers mean and where they come from (explain). Nothing here knows a model.
"""
import html
import re
import struct
import unicodedata
import zlib
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

import numpy as np

# Axes: H heads, n rows, m columns

CELL, BAR, LEVEL, FONT = 17, 72, 20, 12  # pixels: a cell, the highest bar, arc to arc, letters
SHADES = 10  # steps of the colour scale
LESS, MORE = "c2410c", "0b4f9e"  # colours below and above 0: --mark and --heat of page.css
UPRIGHT = " rotate(-90)"  # labels read from below
LONGEST = 18  # characters of a label in a figure; tables and hovers have all
WIDEST = 820  # pixels of a stand-alone picture: a column of text on GitHub
STYLE = Path(__file__).with_name("page.css").read_text("utf-8")
SCRIPT = """
for (const table of document.querySelectorAll(".over")) {
  let i = 1, j = 0;
  table.closest(".box").addEventListener("keydown", event => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    const [down, right] = step[event.key] || [0, 0], rows = table.rows;
    if (!down) if (!right) return;
    event.preventDefault();
    i = Math.max(1, Math.min(rows.length - 1, i + down));
    j = Math.max(1, Math.min(rows[0].cells.length - 1, j + right));
    document.querySelector(".now")?.classList.remove("now");
    rows[i].cells[j].classList.add("now");
    rows[i].cells[j].scrollIntoView({block: "nearest", inline: "nearest"});
  });
}
"""


class Figure(NamedTuple):
    """A headed figure."""
    title: str
    note: str
    body: str  # HTML
    drawing: tuple | None = None  # pixels of width and height, and what stands in the SVG
    heads: int = 0  # drawings that take the place of the first
    source: str = ""  # HTML below: the equation that it comes from


# ---- Text ---------------------------------------------------------------------------------------

def legal(text):
    """Text in which what no document may hold is U+FFFD.

    >>> legal("a" + chr(0))
    'a\ufffd'
    """
    return re.sub("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd",
                  str(text))


def clean(text):
    """Text that may stand anywhere in the page, escaped.

    >>> clean('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(legal(text))


def cut(label):
    """A label that fits into a figure; at least something that can be seen."""
    label = " ".join(legal(label).split()) or "·"
    return label if len(label) <= LONGEST else label[:LONGEST - 1] + "…"


def marked(label):
    """A label and, where it is cut, all of it on hover: what stands in <text>."""
    whole = f"<title>{clean(label)}</title>" if len(str(label)) > LONGEST else ""
    return clean(cut(label)) + whole


def width(label):
    """About how many pixels wide `cut(label)` is, rather too many than too few.

    >>> width("abc") < width("ABC") < width("日本語") and width("e") == width("e" + chr(0x301))
    True
    """
    ems = 0.0
    for c in cut(label):
        if unicodedata.east_asian_width(c) in "WF":
            ems += 1.25
        elif c in "mwMW@%…—":
            ems += 1
        elif not unicodedata.combining(c):
            ems += 0.78 if c.isupper() else 0.62
    return FONT * ems + 4


def widest(labels):
    """Pixels of the widest of the labels."""
    return max(map(width, labels), default=0)


def brief(value):
    """Three decimals at most.

    >>> [brief(x) for x in (0, 0.25, 1, 0.0004, -0.0004, -0.0123, float("nan"))]
    ['0', '0.25', '1', '0', '0', '-0.012', 'nan']
    """
    return f"{round(float(value), 3) + 0.0:g}"


# ---- Parts of figures ---------------------------------------------------------------------------

def box(inner, label):
    """Something wide that scrolls by itself, by keyboard too."""
    return (f'<div class="box" role="region" tabindex="0" aria-label="{clean(label)}">{inner}'
            "</div>")


def table(caption, rows, columns, cells, corner="#", over=None):
    """A real table.

    Args: rows, columns: labels. cells: rows of what stands in <td>. All is escaped here. over: how
        wide the row labels and how high the column labels are of a map that this lies upon.
    """
    whole = first = hidden = ""
    if over:
        whole = f' class="over" style="width:{over[0] + len(columns) * CELL:.0f}px"'
        first = f' style="width:{over[0]:.0f}px;height:{over[1]:.0f}px"'
        hidden = "<p>"  # what HTML lets a page leave open, it leaves: of a map these are most of it
    head = "".join(f'<th scope="col">{hidden}{clean(label)}' for label in columns)
    body = []
    for label, row in zip(rows, cells, strict=True):
        inner = "".join(f"<td>{hidden}{clean(cell)}" for cell in row)
        body.append(f'<tr><th scope="row">{hidden}{clean(label)}{inner}</tr>\n')
    return (f'<table{whole}><caption>{clean(caption)}</caption>\n<thead><tr><th scope="col"{first}>'
            f'{hidden}{clean(corner)}{head}</tr></thead>\n<tbody>{"".join(body)}</tbody></table>')


def drawn_and_said(title, note, drawing, *content):
    """A Figure with a table that a reader opens. content: as `table` takes it after its caption."""
    said = box(table(title, *content), f"{title}, as a table")
    drawn = svg(*drawing, f'class="large" style="--wide:{drawing[0]:.0f}" aria-hidden="true"')
    said = f"<details><summary>As a table</summary>{said}</details>"
    return Figure(title, note, box(drawn, title) + said, drawing)


def svg(wide, high, inner, more='aria-hidden="true"'):
    """An SVG of so many pixels. On a page a table says it again to those who do not see."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" {more} width="{wide:.0f}" '
            f'height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">{inner}</svg>')


def write(x, y, inner, anchor="start", more='class="soft"'):
    """Text in a drawing; anchor: which of its ends, or its middle, is at x."""
    return f'<text {more} x="{x:.1f}" y="{y:.0f}" text-anchor="{anchor}">{inner}</text>'


def names_of(labels, x, y, anchor="end", turned=""):
    """A label for each row of cells, from (x, y) down; turned: of each column, to the right.
    anchor: which of its ends stands there.
    """
    parts = [f'<text y="{i * CELL}">{marked(label)}</text>' for i, label in enumerate(labels)]
    place = f"translate({x:.0f} {y:.0f}){turned}"
    return f'<g class="soft" text-anchor="{anchor}" transform="{place}">{"".join(parts)}</g>'


# ---- Maps ---------------------------------------------------------------------------------------

def shades(values, top):
    """Shades -SHADES to SHADES, by the square root: twice the shade is four times the value, so
    that small weights show.

    >>> shades(np.array([0, 0.01, 0.25, 1, 2, -0.25, np.nan]), 1.0).tolist()
    [0, 1, 5, 10, 10, -5, 0]
    """
    share = np.nan_to_num(values, posinf=np.inf, neginf=-np.inf) / top
    return np.rint(SHADES * np.sign(share) * np.sqrt(np.clip(abs(share), 0, 1))).astype(int)


def bitmap(shaded):
    """A PNG of (n, m) shades, a pixel for each: 60 by 60 in 2 kB. n, m: 1 or more."""
    shades = range(-SHADES, SHADES + 1)
    colours = bytes.fromhex("".join(LESS if shade < 0 else MORE for shade in shades))
    opacities = bytes(255 * abs(shade) // SHADES for shade in shades)
    # before each line a 0: its pixels stand as they are
    lines = np.pad((shaded + SHADES).astype(np.uint8), ((0, 0), (1, 0)))
    found = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", struct.pack(">2I5B", *shaded.shape[::-1], 8, 3, 0, 0, 0)),
                       (b"PLTE", colours), (b"tRNS", opacities),
                       (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")):
        found += struct.pack(">I", len(data)) + kind + data
        found += struct.pack(">I", zlib.crc32(kind + data))
    return found


def cells_of(shaded, left, base, framed=()):
    """The cells of (n, m) shades, and paper between them, two dashed lines as wide as the map.
    framed: the cells (i, j) with a frame.
    """
    (n, m), drawn = shaded.shape, ""
    if shaded.any():
        data = b64encode(bitmap(shaded)).decode()
        drawn = (f'<image width="{m}" height="{n}" href="data:image/png;base64,{data}"/>'
                 f'<path stroke-width="{m}" d="M{m / 2} .94V{n}"/>'
                 f'<path stroke-width="{n}" d="M.94 {n / 2}H{m}"/>')
    if framed:
        path = "".join(f"M{j} {i}h.94v.94h-.94z" for i, j in framed)
        drawn += f'<path class="frame" d="{path}"/>'
    place = f"translate({left:.0f} {base:.0f}) scale({CELL})"
    return f'<g class="cells" transform="{place}">{drawn}</g>'


def outline(left, base, columns, rows, kind="line"):
    """The frame of so many cells; kind: a line, or paper that hides what is below."""
    wide, high = columns * CELL + 1, rows * CELL + 1
    return f'<path class="{kind}" d="M{left - 1:.0f} {base - 1:.0f}h{wide}v{high}h-{wide}z"/>'


def legend(top, left, y, chosen, less=False):
    """The colour scale, 0 to top, a cell for each shade; and what a frame means, if it is used.
    less: from -top, a cell for every other shade.
    """
    scale = [*range(-SHADES, SHADES + 1, 2)] if less else [*range(SHADES + 1)]
    shaded = np.array([scale + [0, 0] * chosen])
    parts = [cells_of(shaded, left, y, [(0, SHADES + 2)] * chosen),
             outline(left, y, SHADES + 1, 1)]
    marks = (-top, 0, top) if less else (0, top / 4, top)
    for k, value in zip((0, SHADES // 2, SHADES), marks):
        parts.append(write(left + (k + .5) * CELL, y + 31, f"{value:.3g}", "middle"))
    parts.append(write(left, y + 47, "square-root scale"))
    if chosen:
        parts.append(write(left + (SHADES + 3.5) * CELL, y + 13, "chosen"))
    return "".join(parts)


def heat(title, rows, columns, values, note="", top=None, chosen=False, large=False):
    """A map of numbers.

    Args: rows, columns: n and m labels. values: (n, m), or (H, n, m): the mean over heads, and each
        head in its place when a reader asks for it. top: the value of the full colour; None: the
        largest shown. chosen: frame each row's largest value. large: bigger than others. A value
        below 0 has the other colour.
    Raises: ValueError if labels and values do not fit.
    """
    values, caption = np.asarray(values, np.float64), title
    if values.shape[-2:] != (len(rows), len(columns)):
        raise ValueError(f"heat: {title} needs values for {len(rows)} x {len(columns)} labels, got "
                         f"{values.shape}")
    mean = values.mean(0) if values.ndim == 3 else values
    heads = values if values.ndim == 3 and len(values) > 1 else values[:0]
    top = top or float(np.abs(np.nan_to_num(values, posinf=0, neginf=0)).max(initial=0)) or 1.0
    framed = [(i, int(row.argmax())) for i, row in enumerate(mean)] if chosen and mean.size else []
    if len(heads):
        caption += ": the mean, then each head in thousandths"
        note += " Under the pointer: the mean, then each head in thousandths."
    left, base = widest(rows) + 8, widest(columns) + 8
    wide, high, inner = map_drawing(rows, columns, shades(mean, top), framed, top, left, base)
    parts = [svg(wide, high, inner)]
    for head in heads:
        cells = outline(left, base, *mean.shape[::-1], "paper")
        cells += cells_of(shades(head, top), left, base)
        parts.append(svg(wide, high, cells, 'class="head" aria-hidden="true"'))
    texts = cell_texts(mean, heads, framed)
    parts.append(table(caption, rows, columns, texts, over=(left, base)))
    size = f'"map large" style="--wide:{wide:.0f}"' if large else '"map"'
    body = box(f'<div class={size}>{"".join(parts)}</div>', title)
    return Figure(title, note, body, (wide, high, inner), len(heads))


def map_drawing(rows, columns, shaded, framed, top, left, base):
    """(width, height, what stands in the SVG) of a map; left, base: where its first cell begins."""
    n, m = shaded.shape
    inner = (names_of(columns, left + 12, base - 5, "start", UPRIGHT)
             + names_of(rows, left - 5, base + 13)
             + cells_of(shaded, left, base, framed) + outline(left, base, m, n)
             + legend(top, left, base + n * CELL + 8, bool(framed), bool((shaded < 0).any())))
    return left + max(m, SHADES + (7 if framed else 3)) * CELL + 2, base + n * CELL + 60, inner


def cell_texts(mean, heads, framed):
    """What stands in the cells of a map's table: (n, m) means, then the value of each head."""
    cells = [[brief(x) for x in row] for row in mean.tolist()]
    for i, j in framed:
        cells[i][j] += " (chosen)"
    for i, j in np.ndindex(mean.shape if len(heads) else (0, 0)):
        said = [f"{1000 * x:.0f}" for x in heads[:, i, j].tolist()]  # shorter than .123
        lines = ["\t".join(said[h:h + 4]) for h in range(0, len(said), 4)]
        cells[i][j] = "\n".join([cells[i][j], *lines])
    return cells


# ---- Other figures ------------------------------------------------------------------------------

def bars(title, labels, values, note="", top=None):
    """A bar for each label, from 0 to top. values: (m,). top: None: the largest."""
    top = top or float(np.nan_to_num(values, posinf=0).max(initial=0)) or 1.0
    left, floor, parts = 46, BAR + 12, []
    for share in (0, .5, 1):
        y = floor - BAR * share
        parts.append(f'<path class="line" d="M{left - 4} {y:.0f}h{len(labels) * CELL + 4}"/>')
        parts.append(write(left - 8, y + 4, brief(top * share), "end"))
    for j, (label, value) in enumerate(zip(labels, values, strict=True)):
        high, x = BAR * np.clip(np.nan_to_num(value) / top, 0, 1), left + j * CELL + 2
        parts.append(f'<path class="bar" d="M{x} {floor}v-{high:.1f}h{CELL - 4}v{high:.1f}z">'
                     f"<title>{clean(label)}: {brief(value)}</title></path>")
    parts.append(names_of(labels, left + 12, floor + 6, turned=UPRIGHT))
    drawing = left + len(labels) * CELL + 2, floor + widest(labels) + 10, "".join(parts)
    return drawn_and_said(title, note, drawing, labels, ["value"], [[brief(x)] for x in values])


def arc_levels(heads):
    """How high the arc to each word runs: above all arcs that it covers or crosses; 0 for a root,
    which has none.

    heads: of each word, counted from 1; 0 is none.

    >>> arc_levels([2, 0, 5, 5, 2])
    [1, 0, 2, 1, 3]
    """
    spans = [(min(i, h), max(i, h)) for i, h in enumerate(heads, 1)]
    levels, placed = [0] * len(spans), []
    for i in sorted(range(len(spans)), key=lambda i: spans[i][1] - spans[i][0]):
        if heads[i]:
            low, high = spans[i]
            below = [levels[k] for k in placed if low < spans[k][1] and spans[k][0] < high]
            levels[i] = 1 + max(below, default=0)
            placed.append(i)
    return levels


def places(words, heads, names):
    """Where the middle of each word stands: no word hits the next, and each arc is wider than its
    relation's name.

    >>> places("ab", [2, 0], ["nsubj", "root"])[1] > places("ab", [2, 0], ["x", "root"])[1]
    True
    """
    found, edge = [], 4.0
    for i, (word, head) in enumerate(zip(words, heads)):
        x = edge + width(word) / 2 + 5
        if not head:
            x = max(x, edge + width(names[i]) / 2)
        for j in range(i):
            if head == j + 1 or heads[j] == i + 1:
                x = max(x, found[j] + width(names[i] if head == j + 1 else names[j]) + 24)
        found.append(x)
        edge = x + width(word) / 2 + 5
    return found


def arc(start, end, level, base, name, said):
    """An arc with its arrow and its name. start: where the head stands, None for a root."""
    if start is None:
        y, middle, path = 13, end, f"M{end:.1f} 18V{base - 5:.0f}"
    else:
        side = 1 if start < end else -1
        start, y = start + 5 * side, base - level * LEVEL
        middle = (start + end) / 2
        path = (f"M{start:.1f} {base:.0f}V{y + 7:.0f}q0 -7 {7 * side} -7H{end - 7 * side:.1f}"
                f"q{7 * side} 0 {7 * side} 7V{base - 5:.0f}")
        y += 4
    return (f'<g class="arc"><title>{clean(said)}</title><path d="{path}"/>'
            f'<path d="M{end - 3.5:.1f} {base - 7:.0f}h7l-3.5 7z"/>'
            f'{write(middle, y, clean(cut(name)), "middle")}</g>')


def tree(title, words, heads, names, note=""):
    """A dependency tree as arcs over the words, from head to dependent.

    Args: heads: of each word, counted from 1, 0 for the root. names: the relation of each word to
        its head.
    """
    heads, names, wide = [int(h) for h in heads], list(names), 0
    found, levels, arcs, cells = places(words, heads, names), arc_levels(heads), [], []
    base = (max(levels, default=0) + 1.6) * LEVEL
    for i, (word, head, name) in enumerate(zip(words, heads, names, strict=True)):
        start, above = (found[head - 1], words[head - 1]) if head else (None, "")
        said = f"{name}: {above or 'the root'} → {word}"
        arcs.append(arc(start, found[i], levels[i], base, name, said))
        cells.append([word, name, above, str(head)])
        wide = max(wide, found[i] + max(width(word), width(name)) / 2)
    arcs = [arcs[i] for i in np.argsort(levels, kind="stable")]  # a higher one's name lies above
    texts = [write(x, base + 17, marked(word), "middle", "") for x, word in zip(found, words)]
    drawing = wide + 4, base + 26, "".join(arcs + texts)
    columns = ["word", "relation", "to its head", "head's number"]
    return drawn_and_said(title, note, drawing, range(1, len(words) + 1), columns, cells, "number")


def relations(title, rows, columns, names, note=""):
    """What holds between words, by name. names: n rows of m texts, empty where nothing holds."""
    drawn = re.sub("<td>(?=[^<])", '<td class="on">', table(title, rows, columns, names))
    return Figure(title, note, box(drawn, title))


def formula(cited, lines, departs):
    """HTML of an equation: where it is cited, its lines, and what is computed in its place.

    >>> formula("DAFA Eq. (1)", ["g_i = W_g d_(t-1)"], "")
    '<p class="math">g<sub>i</sub> = W<sub>g</sub> d<sub>(t-1)</sub></p><p>DAFA Eq. (1)</p>'
    """
    said = [re.sub(r"_(\([^()]*\)|\w+\*?)", r"<sub>\1</sub>", clean(line)) for line in lines]
    said = [re.sub(r" {2,}([\w-]+ Eqs?\. .*)", r" <small>\1</small>", line) for line in said]
    numbered = any(f"<small>{clean(cited)}<" in line for line in said)
    said = "".join(f'<p class="math">{line}</p>' for line in said)
    if not numbered:
        said += f"<p>{clean(cited)}</p>"
    if departs:
        said += f"<details><summary>What is computed</summary><p>{clean(departs)}</p></details>"
    return said


# ---- A page, a picture --------------------------------------------------------------------------

def section(figures):
    """HTML of Figures side by side under one switch: the mean, or one of the heads. The style of
    `page` shows the drawings of the one that is pressed."""
    parts, heads = [], max(figure.heads for figure in figures)
    key, pressed = re.sub(r"\W+", "-", figures[0].title), ' checked="checked"'
    for k, name in enumerate(["mean", *(f"head {h}" for h in range(heads))] if heads else ()):
        parts.append(f'<input type="radio" name="{key}" id="{key}-{k}"{pressed}/>'
                     f'<label for="{key}-{k}">{name}</label>\n')
        pressed = ""
    parts.append('<div class="side">')
    for title, note, body, _, _, source in figures:
        said = f"<p>{clean(note)}</p>" if note else ""
        parts.append(f"<figure><figcaption><h2>{clean(title)}</h2>{said}</figcaption>{body}"
                     f"{source}</figure>\n")
    return f'<section>{"".join(parts)}</div></section>\n'


def form(a, b):
    """Two text fields with these sentences, for a page that is served."""
    fields = "".join(
        f'<label>Sentence {name} <input type="text" name="{name}" value="{clean(text)}"/></label>\n'
        for name, text in (("a", a), ("b", b)))
    return f'<form method="get" action="/">{fields}<button>Explain</button></form>\n'


def page(title, sentences, answer, probabilities, sections, note="", lead=(), top=""):
    """The whole document.

    Args: sentences: the two texts. answer: the prediction in words. probabilities: dict label ->
        number, or None for a score. sections: lists of Figures, each shown side by side. note: what
        was run. lead: sentences that say what is seen. top: HTML that stands first.
    """
    heads = max((figure.heads for figures in sections for figure in figures), default=0)
    # the k-th button, of the mean or of a head, and the k-th drawing; the first always shows
    shown = [f"input:nth-of-type({k}):checked~.side svg:nth-of-type({k}){{display:block}}\n"
             for k in range(2, heads + 2)]
    said = "".join(f'<p class="lead">{clean(line)}</p>' for line in lead)
    quotes = [f"<blockquote><bdi>{clean(text)}</bdi></blockquote>" for text in sentences]
    shares = ""
    if probabilities:
        shares = table("Probability of each answer", probabilities, ["probability"],
                       [[f"{p:.3f}"] for p in probabilities.values()], "answer")
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"/><title>{clean(title)}</title>'
            f'<style>{STYLE}{"".join(shown)}</style></head>\n<body><main>{top}<header class="side">'
            f'<div><h1>{clean(title)}</h1>{"".join(quotes)}<p class="note">{clean(note)}</p></div>'
            f'<div><p class="answer">Prediction: <strong>{clean(answer)}</strong></p>{said}</div>'
            f'{shares}</header>\n{"".join(map(section, sections))}</main>'
            f"<script>{SCRIPT}</script></body></html>\n")


def picture(title, figures):
    """A stand-alone SVG of Figures that have a drawing, side by side where they fit, each under its
    title."""
    parts, x, y, wide, high = [], 16.0, 16.0, 0.0, 0.0
    for figure in figures:
        w, h, inner = figure.drawing
        across, down = max(w, 0.7 * FONT * len(figure.title)), h + 28
        if x > 16 and x + across > WIDEST:
            x, y, high = 16.0, y + high + 16, 0.0
        parts.append(write(x, y + 13, clean(figure.title), more='style="font-weight:700"'))
        parts.append(svg(w, h, inner, f'x="{x:.0f}" y="{y + 28:.0f}"'))
        x, wide, high = x + across + 32, max(wide, x + across + 16), max(high, down)
    style = STYLE.split("/* The page alone. */")[0]
    back = (f"<title>{clean(title)}</title><style>{style}</style>"
            '<rect class="paper" width="100%" height="100%"/>')
    return svg(wide, y + high + 16, back + "".join(parts), 'role="img"') + "\n"
