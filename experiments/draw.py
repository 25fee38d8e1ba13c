"""Figures of a pair of sentences: SVG drawings and HTML tables, made from lists and arrays.

`pair_map` draws numbers between the words of two sentences, with the tree of each sentence; tables
of the same numbers follow for readers who cannot see a drawing. There is no script, no font, no
image. Left out: what the numbers mean, and the page (explain). Nothing here knows a model.
"""
import html
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from support.summary import draw_text

# Axes: n rows, m columns

FONT, LEVEL, CELL = 13, 22, 44  # pixels: height of letters, of an arc's level, of a map's cell
SHADES, DARK = 5, 4  # steps of the colour scale on each side of 0; the first with light text
LONGEST = 18  # characters of a label in a drawing; the table has all characters
# Attributes of a drawing's elements, for readers of SVG without style sheets. page.css wins.
INK, PAPER, SOFT = "#1b1b1f", "#ffffff", "#585862"
PLAIN = {"soft": f'fill="{SOFT}"', "on": f'fill="{PAPER}"', "paper": f'fill="{PAPER}"',
         "title": 'font-weight="700" font-size="15"', "line": 'fill="none" stroke="#d5d5de"',
         "more": 'fill="#0b4f9e"', "less": 'fill="#c2410c"', "arc": f'fill="none" stroke="{SOFT}"'}
STYLE = Path(__file__).with_name("page.css").read_text("utf-8")


class Figure(NamedTuple):
    """A headed figure."""
    title: str
    note: str
    body: str  # HTML
    drawing: tuple | None = None  # width and height in pixels, and the elements of the SVG
    equations: str = ""  # that compute its numbers, such as "DAFA Eq. (6)"


# ---- Text ---------------------------------------------------------------------------------------

def legal_text(text):
    """The text with U+FFFD for each character that XML forbids."""
    return re.sub("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd",
                  str(text))


def escape(text):
    """The text as HTML, which may stand anywhere in a page."""
    return html.escape(legal_text(text))


def cut_label(label):
    """A label that fits into a drawing; "·" for an empty one."""
    label = " ".join(legal_text(label).split()) or "·"
    return label if len(label) <= LONGEST else label[:LONGEST - 1] + "…"


def label_width(label):
    """The width of `cut_label(label)` in pixels, an estimate for English."""
    label = cut_label(label)
    large = sum(c.isupper() or c in "mwMW@%…—" for c in label)
    return FONT * (0.62 * len(label) + 0.3 * large) + 4


def short_number(value):
    """A number with two decimals at most, without the 0 before the point.

    >>> [short_number(x) for x in (0, 0.25, 1, 0.004, -0.004, -0.126, 14.5, float("nan"))]
    ['0', '.25', '1', '0', '0', '-.13', '14.5', 'nan']
    """
    return re.sub(r"^(-?)0\.", r"\1.", f"{round(float(value), 2) + 0.0:g}")


# ---- Tables -------------------------------------------------------------------------------------

def shades(values, top=None):
    """Shades from -SHADES to SHADES, which is `top` or the largest value, by the square root: twice
    the shade is four times the value, so that small weights can be seen.

    >>> shades(np.array([0, 0.04, 0.36, 1, 2, -0.36, np.nan]), 1.0).tolist()
    [0, 1, 3, 5, 5, -3, 0]
    """
    largest = abs(np.nan_to_num(values, posinf=0, neginf=0)).max(initial=0)
    share = np.nan_to_num(values, posinf=np.inf, neginf=-np.inf) / float(top or largest or 1)
    return np.rint(SHADES * np.sign(share) * np.sqrt(np.clip(abs(share), 0, 1))).astype(int)


def table(caption, rows, columns, cells, shaded=None, corner="", more=""):
    """An HTML table. rows, columns: labels. cells: texts, which this function escapes. shaded:
    (n, m) shades of the cells. corner: the label above the rows. more: attributes.
    """
    shaded = np.zeros((len(rows), len(columns)), int) if shaded is None else shaded
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in (corner, *columns))
    body = []
    for label, row, tones in zip(rows, cells, shaded.tolist(), strict=True):
        body.append(f'<tr><th scope="row">{escape(label)}</th>')
        for text, shade in zip(row, tones, strict=True):
            color = f' class="{"np"[shade > 0]}{abs(shade)}"' if shade else ""
            body.append(f"<td{color}>{escape(text)}</td>")
        body.append("</tr>\n")
    return (f"<table{more}><caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
            f'<tbody>{"".join(body)}</tbody></table>')


def box(inner, label):
    """HTML in a box that scrolls by itself where the page is too narrow, by keyboard too."""
    return (f'<div class="box" role="region" tabindex="0" aria-label="{escape(label)}">{inner}'
            "</div>")


def maps(title, rows, columns, values, note="", top=None, equations=""):
    """A Figure of a table of numbers (n, m), coloured by their size. rows, columns: n and m labels.
    top: the value of the full colour; None: the largest.
    """
    cells = [[short_number(value) for value in row] for row in values.tolist()]
    body = table(title, rows, columns, cells, shades(values, top), more=' class="map"')
    return Figure(title, note, box(body, title), None, equations)


# ---- Trees --------------------------------------------------------------------------------------

def arc_levels(heads):
    """The level of the arc to each word: above all arcs that it covers or crosses; 0 for a root.
    heads: the head of each word, counted from 1; 0 for a root.

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


def arc(start, end, high, name, tooltip):
    """SVG of an arc with its arrow, `high` above the line y = 0, and its name where there is room.
    start, end: x of the head, None for a root, and of the word.
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
    wide = label_width(name)
    text = (f'<rect class="paper" x="{middle - wide / 2:.1f}" y="{y - FONT + 2}" '
            f'width="{wide:.1f}" height="{FONT}"/>'
            f'{draw_text(middle, y, cut_label(name), "soft", "middle")}')
    return (f'<g><title>{escape(tooltip)}</title><path class="arc" d="{path}"/><path class="soft" '
            f'd="M{end - 3.5:.1f} -7h7l-3.5 7z"/>{text if name else ""}</g>')


def arcs_over(step, words, heads, names):
    """(SVG of all arcs over the line y = 0, their height). step: from a word to the next, below 0
    where words go to the left. The first word stands half a step from 0.
    """
    levels, arcs = arc_levels(heads), []
    over = int((max(levels, default=0) + 1.6) * LEVEL)
    for i in np.argsort(levels, kind="stable"):  # so that names of higher arcs lie on top
        head = heads[i]
        start, above = ((head - .5) * step, words[head - 1]) if head else (None, "the root")
        tooltip = f"{names[i]}: {above} → {words[i]}"
        high = levels[i] * LEVEL if head else over
        arcs.append(arc(start, (i + .5) * step, high, names[i], tooltip))
    return "".join(arcs), over


def pair_map(title, rows, columns, values, note="", trees=None):
    """A Figure of numbers (n, m) between n words, the rows, and m words, the columns. trees: None,
    or (heads, relations) of the rows, at the left, and of the columns, above; see `arc_levels`.
    """
    wide = int(max([CELL, *map(label_width, columns)]))
    left, base, parts = int(max(map(label_width, rows), default=0)) + 8, 22, []
    if trees:
        of_rows, over_rows = arcs_over(-CELL, rows, *trees[0])  # rotated below
        of_columns, over_columns = arcs_over(wide, columns, *trees[1])
        left, base = left + over_rows, base + over_columns
        parts = [f'<g transform="translate({over_rows} {base}) rotate(-90)">{of_rows}</g>',
                 f'<g transform="translate({left} {over_columns})">{of_columns}</g>']
    parts += [draw_text(left - 6, base + (i + .5) * CELL + 4, cut_label(label), "soft", "end")
              for i, label in enumerate(rows)]
    parts += [draw_text(left + (j + .5) * wide, base - 7, cut_label(label), "soft", "middle")
              for j, label in enumerate(columns)]
    shaded = shades(values)
    for i, j in np.argwhere(shaded):
        parts.append(cell(left + j * wide, base + i * CELL, wide, values[i, j], shaded[i, j]))
    across, down = wide * len(columns), CELL * len(rows)
    parts.append(f'<path class="line" d="M{left} {base}h{across}v{down}h-{across}z"/>')
    drawing = left + across + 6, base + down + 6, plain("".join(parts))
    least = f'aria-hidden="true" style="min-width:{.55 * drawing[0]:.0f}px"'  # can still be read
    cells = [[short_number(x) for x in row] for row in values.tolist()]
    tables = [table(title, rows, columns, cells, shaded)]
    for side, words, (heads, names) in zip("ab", (rows, columns), trees or ()):
        cells = [[word, name, words[head - 1] if head else "", head]
                 for word, head, name in zip(words, heads, names)]
        tables.append(table(f"Dependency tree of sentence {side}", range(1, len(words) + 1), [
            "word", "relation", "to its head", "head's number"], cells, corner="number"))
    hidden = box("".join(tables), f"{title}, as a table")
    return Figure(title, note, f"{box(svg(*drawing, least), title)}<details><summary>As a table"
                  f"</summary>{hidden}</details>", drawing)


def cell(x, y, wide, value, shade):
    """SVG of a cell in the colour of its shade, with its number."""
    number = f"{value:+.0f}".replace("-", "−")
    text = draw_text(x + wide / 2, y + CELL / 2 + 4, number if number.strip("+−0") else "",
                     "on" if abs(shade) >= DARK else "", "middle")
    return (f'<rect class="{"more" if shade > 0 else "less"}" x="{x + 1}" y="{y + 1}" '
            f'width="{wide - 2}" height="{CELL - 2}" opacity="{abs(shade) / SHADES:g}"/>{text}')


def plain(elements):
    """These elements, each with the attributes of its class."""
    return re.sub(r'class="(\w+)"', lambda match: f"{match[0]} {PLAIN[match[1]]}", elements)


def svg(wide, high, inner, more):
    """An SVG element. wide, high: pixels. more: attributes."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" {more} width="{wide:.0f}" '
            f'height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}" fill="{INK}" '
            f'font-family="system-ui, sans-serif" font-size="{FONT}">{inner}</svg>')


def picture(title, figure, legend=()):
    """A stand-alone SVG of a Figure that has a drawing. title: for screen readers. legend: the
    lines below the drawing."""
    w, h, inner = figure.drawing
    longest = max([len(title) + 1, *map(len, legend)])
    wide = max(0.55 * FONT * longest + 16, w + 32, 0.7 * FONT * len(figure.title) + 32)
    lines = [draw_text(16, h + 64 + LEVEL * i, line, "soft") for i, line in enumerate(legend)]
    around = plain('<rect class="paper" width="100%" height="100%"/>'
                   + draw_text(16, 29, legal_text(figure.title), "title") + "".join(lines))
    drawing, high = svg(w, h, inner, 'x="16" y="44"'), h + 60 + LEVEL * len(legend)
    return svg(wide, high, f"<title>{escape(title)}</title>{around}{drawing}", 'role="img"') + "\n"
