"""Figures of a pair of sentences, and the page they stand on, as HTML and SVG.

A page is one HTML document with nothing outside it: no font, no picture from elsewhere, no script.
`tree`, `heat` and `relations` each make a Figure from lists and arrays; `page` joins them,
`picture` puts some of them on one SVG. A figure is a drawing and, for those who do not see it, a
real table. A map's drawing is a PNG with a pixel for each cell, in the page's text. Its table lies
unseen over it, cell upon cell, and shows the value under the pointer: so each value stands in the
page once, and the page stays small. Formulas are MathML.

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

from support.curves import draw_text

# Axes: H heads, n rows, m columns

CELL, LEVEL, FONT = 17, 22, 13  # pixels: a shade of a scale, from arc to arc, letters
LEAST, SAID, MOST, ROOM = 13, 30, 44, 540  # a map's cells; with numbers; all beside each other
SHADES = 10  # steps of the colour scale
LESS, MORE = "c2410c", "0b4f9e"  # colours below and above 0: --mark and --heat of page.css
UPRIGHT = " rotate(-90)"  # labels read from below
LONGEST = 18  # characters of a label in a figure; tables and hovers have all
KINDS = {"mi": str.isalpha, "mn": str.isdigit}  # of formulas
ACCENTS = "\u0302\u0303\u0304"  # above a letter, in formulas
STYLE = Path(__file__).with_name("page.css").read_text("utf-8")


class Figure(NamedTuple):
    """A headed figure."""
    title: str
    note: str
    body: str  # HTML
    drawing: tuple | None = None  # pixels of width and height, and what stands in the SVG
    heads: int = 0  # drawings that take the place of the first
    number: str = ""  # beside the title: which equation it comes from
    sources: tuple = ()  # HTML of such equations, below; what stands there already, not again


# ---- Text ---------------------------------------------------------------------------------------

def legal_text(text):
    """Text in which what no document may hold is U+FFFD.

    >>> legal_text("a" + chr(0))
    'a\ufffd'
    """
    return re.sub("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd",
                  str(text))


def escape(text):
    """Text that may stand anywhere in the page, escaped.

    >>> escape('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(legal_text(text))


def cut_label(label):
    """A label that fits into a figure; at least something that can be seen."""
    label = " ".join(legal_text(label).split()) or "·"
    return label if len(label) <= LONGEST else label[:LONGEST - 1] + "…"


def label_width(label):
    """About how many pixels wide `cut_label(label)` is, rather too many than too few.

    >>> label_width("abc") < label_width("ABC") < label_width("日本語")
    True
    >>> label_width("e") == label_width("e" + chr(0x301))
    True
    """
    shown = [c for c in cut_label(label) if not unicodedata.combining(c)]
    double = sum(unicodedata.east_asian_width(c) in "WF" for c in shown)
    large = sum(c.isupper() or c in "mwMW@%…—" for c in shown)
    return FONT * (0.62 * len(shown) + 0.63 * double + 0.3 * large) + 4


def widest_label(labels):
    """Pixels of the widest of the labels."""
    return max(map(label_width, labels), default=0)


def three_decimals(value):
    """Three decimals at most.

    >>> [three_decimals(x) for x in (0, 0.25, 1, 0.0004, -0.0004, -0.0123, float("nan"))]
    ['0', '0.25', '1', '0', '0', '-0.012', 'nan']
    """
    return f"{round(float(value), 3) + 0.0:g}"


# ---- Parts of figures ---------------------------------------------------------------------------

def box(inner, label, wide=None):
    """What scrolls by itself, by keyboard too. wide: a drawing's pixels; where there is less room,
    it is shown smaller.
    """
    if wide:
        inner = f'<div class="map" style="--wide:{wide:.0f}">{inner}</div>'
    return (f'<div class="box" role="region" tabindex="0" aria-label="{escape(label)}">{inner}'
            "</div>")


def table(caption, rows, columns, cells, corner="#", over=None):
    """A real table.

    Args: rows, columns: labels. cells: rows of what stands in <td>. All is escaped here. over: the
        Grid of a map that this lies upon.
    """
    whole = first = hidden = ""
    if over:
        whole = (f' class="over" style="width:{over.left + over.m * over.wide}px;'
                 f'--w:{over.wide}px;--h:{over.high}px"')
        first = f' style="width:{over.left}px;height:{over.base}px"'
        hidden = "<p>"  # what HTML lets a page leave open, it leaves: of a map these are most of it
    head = "".join(f'<th scope="col">{hidden}{escape(label)}' for label in columns)
    body = []
    for label, row in zip(rows, cells, strict=True):
        inner = "".join(f"<td>{hidden}{escape(cell)}" for cell in row)
        body.append(f'<tr><th scope="row">{hidden}{escape(label)}{inner}</tr>\n')
    return (f'<table{whole}><caption>{escape(caption)}</caption>\n<thead><tr>'
            f'<th scope="col"{first}>{hidden}{escape(corner)}{head}</tr></thead>\n<tbody>'
            f'{"".join(body)}</tbody></table>')


def shares(caption, rows, columns, values):
    """A table of numbers from 0 to 1 as percentages, each with a bar."""
    cells = [[f"{100 * value:.1f} %" for value in row] for row in values]
    return re.sub(r"<td>(([\d.]+) %)", r'<td style="--share:\2%">\1',
                  table(caption, rows, columns, cells, ""))


def svg(wide, high, inner, more='aria-hidden="true"'):
    """An SVG of so many pixels. On a page a table says it again to those who do not see."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" {more} width="{wide:.0f}" '
            f'height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">{inner}</svg>')


def names_of(labels, x, y, step, anchor="end", turned=""):
    """A label every `step` pixels, from (x, y) down; turned: to the right, read from below.
    anchor: which of its ends stands there.
    """
    parts = [f'<text y="{i * step}">{escape(cut_label(label))}</text>'
             for i, label in enumerate(labels)]
    place = f"translate({x:.0f} {y:.0f}){turned}"
    return f'<g class="soft" text-anchor="{anchor}" transform="{place}">{"".join(parts)}</g>'


# ---- Maps ---------------------------------------------------------------------------------------

class Grid(NamedTuple):
    """Where the cells of a map stand, in pixels."""
    left: int  # of the first cell
    base: int  # its top
    wide: int  # of each cell
    high: int
    n: int
    m: int


def cell_sizes(rows, columns):
    """(width, height) of cells, as large as there is room, and whether the columns' labels lie."""
    high = min(MOST, max(LEAST, ROOM // max(len(rows), len(columns), 1)))
    wide = max(high, int(widest_label(columns)))
    lie = wide * len(columns) <= max(ROOM, high * len(columns))
    return wide if lie else high, high, lie


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


def cells_of(shaded, grid):
    """The cells of (n, m) shades, and paper between them, two dashed lines as wide as the map."""
    (n, m), drawn = shaded.shape, ""
    if shaded.any():
        data = b64encode(bitmap(shaded)).decode()
        drawn = (f'<image width="{m}" height="{n}" href="data:image/png;base64,{data}"/>'
                 f'<path stroke-width="{m}" d="M{m / 2} .94V{n}"/>'
                 f'<path stroke-width="{n}" d="M.94 {n / 2}H{m}"/>')
    place = f"translate({grid.left} {grid.base}) scale({grid.wide} {grid.high})"
    return f'<g class="cells" transform="{place}">{drawn}</g>'


def outline(grid, kind="line"):
    """The frame of all cells; kind: a line, or paper that hides what is below."""
    wide, high = grid.m * grid.wide + 1, grid.n * grid.high + 1
    return f'<path class="{kind}" d="M{grid.left - 1} {grid.base - 1}h{wide}v{high}h-{wide}z"/>'


def numbers_in(values, shaded, top, grid):
    """What stands in cells that are large enough, with a sign where some are negative."""
    parts, sign = [], "+" if (shaded < 0).any() else ""
    for i, j in np.argwhere(shaded) if min(grid.wide, grid.high) >= SAID else ():
        said = f"{values[i, j]:{sign}.{(top < 20) + (top < 2)}f}"
        said = re.sub(r"\b0\.", ".", said.replace("-", "−"))
        dark = "" if -9 < shaded[i, j] < 8 else "on"
        if said.strip("+−0."):
            parts.append(draw_text(grid.left + (j + .47) * grid.wide,
                                   grid.base + (i + .5) * grid.high + 4, said, dark, "middle"))
    return "".join(parts)


def legend(top, grid, less=False, unit=""):
    """The colour scale below a map, 0 to top, a cell for each shade. less: from -top, a cell for
    every other shade. unit: of the numbers.
    """
    scale = [*range(-SHADES, SHADES + 1, 2)] if less else [*range(SHADES + 1)]
    place = Grid(grid.left, grid.base + grid.n * grid.high + 10, CELL, CELL, 1, len(scale))
    parts, low = [cells_of(np.array([scale]), place), outline(place)], place.base + 31
    for k, value in zip((0, SHADES // 2, SHADES), (-top, 0, top) if less else (0, top / 4, top)):
        said = f"{value:.3g}".replace("-", "−")
        parts.append(draw_text(place.left + (k + .5) * CELL, low, said, "soft", "middle"))
    return "".join([*parts, draw_text(place.left, low + 16, unit, "soft")])


def heat(title, rows, columns, values, note="", top=None, trees=None, unit=""):
    """A map of numbers.

    Args: rows, columns: n and m labels. values: (n, m), or (H, n, m): the mean over heads, and each
        head in its place when a reader asks for it. top: the value of the full colour; None: the
        largest shown. trees: (heads, relations), as `tree` takes them, of the rows, drawn beside
        them, and of the columns. unit: of the numbers. A value below 0 has the other colour.
    Raises: ValueError if labels and values do not fit.
    """
    values = np.asarray(values, np.float64)
    if values.shape[-2:] != (len(rows), len(columns)):
        raise ValueError(f"heat: {title} needs values for {len(rows)} x {len(columns)} labels, got "
                         f"{values.shape}")
    mean = values.mean(0) if values.ndim == 3 else values
    heads = values if values.ndim == 3 and len(values) > 1 else values[:0]
    top = top or float(np.abs(np.nan_to_num(values, posinf=0, neginf=0)).max(initial=0)) or 1.0
    around, grid = surroundings(rows, columns, trees)
    shaded = shades(mean, top)
    inner = (around + cells_of(shaded, grid) + outline(grid)
             + legend(top, grid, bool((shaded < 0).any()), unit))
    if not len(heads):
        inner += numbers_in(mean, shaded, top, grid)
    shown = max(grid.m * grid.wide, (SHADES + 2) * CELL, 7 * len(unit))
    wide, high = grid.left + shown + 6, grid.base + grid.n * grid.high + 64
    parts = [svg(wide, high, inner)]
    for head in heads:
        cells = outline(grid, "paper") + cells_of(shades(head, top), grid)
        parts.append(svg(wide, high, cells, 'class="head" aria-hidden="true"'))
    texts = [[three_decimals(x) for x in row] for row in mean.tolist()]
    parts.append(table(title, rows, columns, texts, over=grid))
    return Figure(title, note, box("".join(parts), title, wide), (wide, high, inner), len(heads))


def surroundings(rows, columns, trees):
    """(labels of a map, and trees over them, a Grid that leaves room for these)"""
    wide, high, lie = cell_sizes(rows, columns)
    beside, above = int(widest_label(rows)) + 8, 22 if lie else int(widest_label(columns)) + 8
    (of_rows, left), (of_columns, base) = ("", beside), ("", above)
    if trees:
        middles = [-(i + .5) * high for i in range(len(rows))]  # turned, so that they go down
        of_rows, over = arcs_over(middles, rows, *trees[0])
        left += over
        middles = [(j + .5) * wide for j in range(len(columns))]
        of_columns, over = arcs_over(middles, columns, *trees[1])
        base += over
        of_rows = f'<g transform="translate({left - beside} {base}) rotate(-90)">{of_rows}</g>'
        of_columns = f'<g transform="translate({left} {base - above})">{of_columns}</g>'
    labels = names_of(rows, left - 6, base + high // 2 + 4, high)
    if lie:
        labels += "".join(
            draw_text(left + (j + .5) * wide, base - 7, cut_label(label), "soft", "middle")
            for j, label in enumerate(columns))
    else:
        labels += names_of(columns, left + wide // 2 + 5, base - 7, wide, "start", UPRIGHT)
    return of_rows + of_columns + labels, Grid(left, base, wide, high, len(rows), len(columns))


# ---- Other figures ------------------------------------------------------------------------------

def arc_levels(heads):
    """How high the arc to each word runs: above all that it covers or crosses; 0 for a root.

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
    """Where each word's middle stands: none hits the next, each arc is wider than its name.

    >>> places("ab", [2, 0], ["nsubj", "root"])[1] > places("ab", [2, 0], ["x", "root"])[1]
    True
    """
    found, edge = [], 4.0
    for i, (word, head) in enumerate(zip(words, heads)):
        x = edge + label_width(word) / 2 + 5
        if not head:
            x = max(x, edge + label_width(names[i]) / 2)
        for j in range(i):
            if head == j + 1 or heads[j] == i + 1:
                x = max(x, found[j] + label_width(names[i] if head == j + 1 else names[j]) + 24)
        found.append(x)
        edge = x + label_width(word) / 2 + 5
    return found


def arc(start, end, high, name, said):
    """An arc with its arrow, above the line y = 0, and its name where there is room. start: where
    the head stands, None for a root. high: of the arc.
    """
    if start is None:
        y, middle, path = 13 - high, end, f"M{end:.1f} {18 - high:.0f}V-5"
    else:
        side = 1 if start < end else -1
        start, y = start + 5 * side, 4 - high
        middle = (start + end) / 2
        name = name if abs(end - start) > label_width(name) else ""
        path = (f"M{start:.1f} 0V{7 - high:.0f}q0 -7 {7 * side} -7H{end - 7 * side:.1f}"
                f"q{7 * side} 0 {7 * side} 7V-5")
    text = draw_text(middle, y, cut_label(name), "soft", "middle") if name else ""
    return (f'<g class="arc"><title>{escape(said)}</title><path d="{path}"/>'
            f'<path d="M{end - 3.5:.1f} -7h7l-3.5 7z"/>{text}</g>')


def arcs_over(found, words, heads, names):
    """(arcs over the line y = 0, how high they are); found: where the words' middles stand."""
    levels, arcs = arc_levels(heads), []
    over = int((max(levels, default=0) + 1.6) * LEVEL)
    for i in np.argsort(levels, kind="stable"):  # a higher one's name lies above
        head = heads[i]
        start, above = (found[head - 1], words[head - 1]) if head else (None, "")
        said = f"{names[i]}: {above or 'the root'} → {words[i]}"
        arcs.append(arc(start, found[i], levels[i] * LEVEL if head else over, names[i], said))
    return "".join(arcs), over


def tree(title, words, heads, names):
    """A dependency tree as arcs over the words, from head to dependent.

    Args: heads: of each word, counted from 1, 0 for the root. names: its relation to that.
    """
    heads, names = [int(h) for h in heads], list(names)
    found = places(words, heads, names)
    arcs, base = arcs_over(found, words, heads, names)
    wide = max((x + max(label_width(word), label_width(name)) / 2
                for x, word, name in zip(found, words, names, strict=True)), default=0)
    texts = [draw_text(x, base + 17, cut_label(word), "", "middle")
             for x, word in zip(found, words)]
    drawn = f'<g transform="translate(0 {base})">{arcs}</g>{"".join(texts)}'
    cells = [[word, name, words[head - 1] if head else "", str(head)]
             for word, head, name in zip(words, heads, names)]
    columns = ["word", "relation", "to its head", "head's number"]
    said = table(title, range(1, len(words) + 1), columns, cells, "number")
    drawing = wide + 4, base + 26, drawn
    said = f"<details><summary>As a table</summary>{box(said, f'{title}, as a table')}</details>"
    return Figure(title, "", box(svg(*drawing), title, drawing[0]) + said, drawing)


def relations(title, rows, columns, names, note=""):
    """What holds between words, by name. names: n rows of m texts, empty where nothing holds."""
    drawn = re.sub("<td>(?=[^<])", '<td class="on">', table(title, rows, columns, names))
    return Figure(title, note, box(drawn, title))


# ---- Formulas -----------------------------------------------------------------------------------

def mathml(line):
    """MathML of a formula in a line of text.

    >>> mathml("ĝ_i = √d")
    '<msub><mover accent="true"><mi>g</mi><mo>^</mo></mover><mrow><mi>i</mi></mrow></msub>\
<mo>=</mo><msqrt><mi>d</mi></msqrt>'
    """
    low, parts = rf"_(\([^()]*\)|(?:[^\W_ᵀ][{ACCENTS}]?)+\*?)", []
    atom = rf"(√?)([^\W\d_ᵀΣ]+|\d+|[^\w\s]|Σ)([{ACCENTS}]?)(\*?)(?:{low})?(?:\^(\w)|(ᵀ))?"
    for root, core, accent, star, low, high, turned, gap in re.findall(
            rf"{atom}|(?<=[\w)\]*{ACCENTS}])(\s+)(?=[\w√(])", unicodedata.normalize("NFD", line)):
        kind = next((kind for kind, fits in KINDS.items() if fits(core)), "mo")
        found = f"<{kind}>{escape(core.replace('-', '−'))}</{kind}>"
        if gap:
            found = "<mtext>\xa0</mtext>"
        if accent:
            found = f'<mover accent="true">{found}<mo>{"^~¯"[ACCENTS.index(accent)]}</mo></mover>'
        if low:
            found = f"<msub>{found}<mrow>{mathml(low.strip('()'))}</mrow></msub>"
        if above := star or high or turned and "T":
            found = f"<msup>{found}<mi>{above}</mi></msup>"
        parts.append(f"<msqrt>{found}</msqrt>" if root else found)
    return "".join(parts)


def formula(cited, lines, departs):
    """HTML of an equation: its lines, where it is cited, and where the code departs from it. Two
    spaces or more part formulas; a line that is indented stands below what is there above.

    >>> formula("DAFA Eq. (1)", ["g = 1"], "")
    '<p class="math"><math><mi>g</mi><mo>=</mo><mn>1</mn></math></p><p>DAFA Eq. (1)</p>'
    """
    said, above = "", ""
    for line in lines:
        parts = [re.sub(r"^([\w-]+ Eq.*)", r"<small>\1</small>", part) if " Eq" in part
                 else f"<math>{mathml(part)}</math>"
                 for part in re.split(" {2,}", line.strip())]
        if indent := len(line) - len(line.lstrip()):
            parts[0] = f'<math class="unseen">{mathml(above[:indent])}</math>{parts[0]}'
        said += f'<p class="math">{" ".join(parts)}</p>'
        above = line
    if f">{cited}<" not in said:
        said += f"<p>{escape(cited)}</p>"
    if departs:
        said += (f"<details><summary>Where the code departs from the page</summary>"
                 f"<p>{escape(departs)}</p></details>")
    return said


# ---- A page, a picture --------------------------------------------------------------------------

def section(figures, there):
    """HTML of Figures side by side under one switch: the mean, or one of the heads. The style of
    `page` shows the drawings of the one that is pressed. there: the equations that stand above, a
    set, which gets these."""
    parts, heads = [], max(figure.heads for figure in figures)
    key, pressed = re.sub(r"\W+", "-", figures[0].title), ' checked="checked"'
    for k, name in enumerate(["mean", *(f"head {h}" for h in range(heads))] if heads else ()):
        parts.append(f'<input type="radio" name="{key}" id="{key}-{k}"{pressed}/>'
                     f'<label for="{key}-{k}">{name}</label>\n')
        pressed = ""
    parts.append('<div class="side">')
    for figure in figures:
        said = f"<p>{escape(figure.note)}</p>" if figure.note else ""
        number = f" <small>{escape(figure.number)}</small>" if figure.number else ""
        parts.append(f"<figure><figcaption><h2>{escape(figure.title)}{number}</h2>{said}"
                     f"</figcaption>{figure.body}</figure>\n")
    parts.append('</div>\n<div class="side equations">')
    for source in dict.fromkeys(sum((x.sources for x in figures), ())):
        if source not in there:
            parts.append(f"<div>{source}</div>")
            there.add(source)
    return f'<section>{"".join(parts)}</div></section>\n'


def form(a, b):
    """Two text fields with these sentences, for a page that is served."""
    fields = "".join(
        f'<label>Sentence {name} '
        f'<input type="text" name="{name}" value="{escape(text)}"/></label>\n'
        for name, text in (("a", a), ("b", b)))
    return f'<form method="get" action="/">{fields}<button>Explain</button></form>\n'


def page(title, sentences, first, answers, sections, lead=(), note="", top=""):
    """The whole document.

    Args: sentences: the two texts. first: what is said of them, in large letters. answers: HTML of
        a table. sections: lists of Figures, each shown side by side. lead: more sentences. note:
        what was run. top: HTML that stands first.
    """
    heads = max((figure.heads for figures in sections for figure in figures), default=0)
    # the k-th button, of the mean or of a head, and the k-th drawing; the first always shows
    shown = [f"input:nth-of-type({k}):checked~.side svg:nth-of-type({k}){{display:block}}\n"
             for k in range(2, heads + 2)]
    said = "".join(f"<p>{escape(line)}</p>" for line in lead)
    quotes = "".join(f"<blockquote><bdi>{escape(text)}</bdi></blockquote>" for text in sentences)
    there = set()
    beside, *below = [section(figures, there) for figures in sections] or [""]
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"/><title>{escape(title)}</title>'
            f'<style>{STYLE}{"".join(shown)}</style></head>\n<body><main>{top}'
            f'<header class="side"><div>{quotes}<h1>{escape(first)}</h1>{answers}{said}'
            f'<p class="note">{escape(note)}</p></div>\n{beside}</header>{"".join(below)}</main>'
            f"</body></html>\n")


def picture(title, figures):
    """A stand-alone SVG of Figures that have a drawing, each under its title."""
    parts, y, wide = [], 16, 0.55 * FONT * len(title) + 16
    for figure in figures:
        w, h, inner = figure.drawing
        parts.append(draw_text(16, y + 13, legal_text(figure.title), "title"))
        parts.append(svg(w, h, inner, f'x="16" y="{y + 28:.0f}"'))
        y, wide = y + h + 44, max(wide, w + 32, 0.7 * FONT * len(figure.title) + 32)
    style = STYLE.split("/* The page alone. */")[0]
    back = (f"<title>{escape(title)}</title><style>{style}</style>"
            '<rect class="paper" width="100%" height="100%"/>')
    return svg(wide, y, back + "".join(parts), 'role="img"') + "\n"
