"""Figures of a pair of sentences: SVG drawings and HTML tables, made from lists and arrays.

`pair_map` draws what stands between the words of two sentences, with the tree of each beside it;
the same follows as tables for those who do not see a drawing. `maps` and `table` make tables whose
cells have a background colour. `picture` is a drawing alone. There is no script, no font, no image.

Left out: what the numbers mean, and the page (explain). Nothing here knows a model.
"""
import html
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from support.summary import draw_text

# Axes: n rows, m columns

FONT, LEVEL, CELL = 13, 22, 44  # pixels: letters, from arc to arc, a cell of a map
SHADES, DARK = 5, 4  # steps of the colour scale, on either side of 0; from where ink is paper
LONGEST = 18  # characters of a label in a drawing; its table has all
STYLE = Path(__file__).with_name("page.css").read_text("utf-8")


class Figure(NamedTuple):
    """A headed figure."""
    title: str
    note: str
    body: str  # HTML
    drawing: tuple | None = None  # pixels of width and height, and what stands in the SVG
    equations: str = ""  # where it comes from, such as "DAFA Eq. (6)"


# ---- Text ---------------------------------------------------------------------------------------

def legal_text(text):
    """Text in which what no document may hold is U+FFFD."""
    return re.sub("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd",
                  str(text))


def escape(text):
    """Text that may stand anywhere in a page."""
    return html.escape(legal_text(text))


def cut_label(label):
    """A label that fits into a drawing; at least something that can be seen."""
    label = " ".join(legal_text(label).split()) or "·"
    return label if len(label) <= LONGEST else label[:LONGEST - 1] + "…"


def label_width(label):
    """About how many pixels wide `cut_label(label)` is, of English."""
    shown = cut_label(label)
    large = sum(c.isupper() or c in "mwMW@%…—" for c in shown)
    return FONT * (0.62 * len(shown) + 0.3 * large) + 4


def widest_label(labels):
    """Pixels of the widest of the labels."""
    return int(max(map(label_width, labels), default=0))


def short_number(value):
    """Two decimals at most, without a 0 before them.

    >>> [short_number(x) for x in (0, 0.25, 1, 0.004, -0.004, -0.126, 14.5, float("nan"))]
    ['0', '.25', '1', '0', '0', '-.13', '14.5', 'nan']
    """
    return re.sub(r"^(-?)0\.", r"\1.", f"{round(float(value), 2) + 0.0:g}")


# ---- Tables -------------------------------------------------------------------------------------

def shades(values, top):
    """Shades -SHADES to SHADES, by the square root: twice the shade is four times the value, so
    that small weights show.

    >>> shades(np.array([0, 0.04, 0.36, 1, 2, -0.36, np.nan]), 1.0).tolist()
    [0, 1, 3, 5, 5, -3, 0]
    """
    share = np.nan_to_num(values, posinf=np.inf, neginf=-np.inf) / top
    return np.rint(SHADES * np.sign(share) * np.sqrt(np.clip(abs(share), 0, 1))).astype(int)


def table(caption, rows, columns, cells, shaded=None, corner="", more=""):
    """An HTML table.

    Args: rows, columns: labels. cells: rows of what stands in <td>; all is escaped here. shaded:
        (n, m) shades of the cells. more: attributes.
    """
    shaded = np.zeros((len(rows), len(columns)), int) if shaded is None else shaded
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in (corner, *columns))
    body = []
    for label, row, tones in zip(rows, cells, shaded.tolist(), strict=True):
        body.append(f'<tr><th scope="row">{escape(label)}</th>')
        for cell, tone in zip(row, tones, strict=True):
            kind = f' class="{"np"[tone > 0]}{abs(tone)}"' if tone else ""
            body.append(f"<td{kind}>{escape(cell)}</td>")
        body.append("</tr>\n")
    return (f"<table{more}><caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
            f'<tbody>{"".join(body)}</tbody></table>')


def box(inner, label):
    """What scrolls by itself where there is no room, by keyboard too."""
    return (f'<div class="box" role="region" tabindex="0" aria-label="{escape(label)}">{inner}'
            "</div>")


def maps(title, rows, columns, values, note="", top=None, equations=""):
    """A Figure of a table of numbers whose colours show how large they are.

    Args: rows, columns: n and m labels. values: (n, m). top: the value of the full colour; None:
        the largest. A value below 0 has the other colour.
    """
    cells = [[short_number(value) for value in row] for row in values.tolist()]
    shaded = shades(values, top or largest(values))
    body = box(table(title, rows, columns, cells, shaded, more=' class="map"'), title)
    return Figure(title, note, body, None, equations)


def largest(values):
    """The largest size of a finite value; 1 where all are 0."""
    return float(abs(np.nan_to_num(values, posinf=0, neginf=0)).max(initial=0)) or 1.0


# ---- Trees --------------------------------------------------------------------------------------

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


def arcs_over(step, words, heads, names):
    """(arcs over the line y = 0, how high they are). step: from a word's middle to the next one's,
    below 0 where words go to the left; the first stands half a step from 0.
    """
    levels, arcs = arc_levels(heads), []
    over = int((max(levels, default=0) + 1.6) * LEVEL)
    for i in np.argsort(levels, kind="stable"):  # a higher one's name lies above
        head = heads[i]
        start, above = ((head - .5) * step, words[head - 1]) if head else (None, "the root")
        said = f"{names[i]}: {above} → {words[i]}"
        high = levels[i] * LEVEL if head else over
        arcs.append(arc(start, (i + .5) * step, high, names[i], said))
    return "".join(arcs), over


def tree_table(title, words, heads, names):
    """An HTML table of a dependency tree. Args: as `pair_map` has them."""
    cells = [[word, name, words[head - 1] if head else "", head]
             for word, head, name in zip(words, heads, names)]
    columns = ["word", "relation", "to its head", "head's number"]
    return table(title, range(1, len(words) + 1), columns, cells, corner="number")


# ---- The map of a pair --------------------------------------------------------------------------

def pair_map(title, rows, columns, values, note="", trees=None):
    """A Figure of numbers (n, m) between the words of two sentences.

    Args: rows, columns: n and m words. trees: (heads, relations) of the rows, drawn to their left,
        and of the columns, drawn above; or None. heads: of each word, counted from 1, 0 for the
        root. The drawing gets smaller with the page, but not too small to be read.
    """
    wide, left, base, parts = max(CELL, widest_label(columns)), widest_label(rows) + 8, 22, []
    if trees:
        of_rows, over_rows = arcs_over(-CELL, rows, *trees[0])  # turned, so that they go down
        of_columns, over_columns = arcs_over(wide, columns, *trees[1])
        left, base = left + over_rows, base + over_columns
        parts = [f'<g transform="translate({over_rows} {base}) rotate(-90)">{of_rows}</g>',
                 f'<g transform="translate({left} {over_columns})">{of_columns}</g>']
    parts += [draw_text(left - 6, base + (i + .5) * CELL + 4, cut_label(label), "soft", "end")
              for i, label in enumerate(rows)]
    parts += [draw_text(left + (j + .5) * wide, base - 7, cut_label(label), "soft", "middle")
              for j, label in enumerate(columns)]
    shaded = shades(values, largest(values))
    for i, j in np.argwhere(shaded):
        parts.append(cell(left + j * wide, base + i * CELL, wide, values[i, j], shaded[i, j]))
    across, down = wide * len(columns), CELL * len(rows)
    parts.append(f'<path class="line" d="M{left} {base}h{across}v{down}h-{across}z"/>')
    drawing = left + across + 6, base + down + 6, "".join(parts)
    least = f'aria-hidden="true" style="min-width:{.55 * drawing[0]:.0f}px"'
    cells = [[short_number(x) for x in row] for row in values.tolist()]
    said = [table(title, rows, columns, cells, shaded)]
    for side, words, tree in zip("ab", (rows, columns), trees or ()):
        said.append(tree_table(f"Dependency tree of sentence {side}", words, *tree))
    hidden = box("".join(said), f"{title}, as a table")
    return Figure(title, note, f"{box(svg(*drawing, least), title)}<details><summary>As a table"
                  f"</summary>{hidden}</details>", drawing)


def cell(x, y, wide, value, shade):
    """A cell of a drawing in the colour of its shade, and what stands in it."""
    said = f"{value:+.0f}".replace("-", "−")
    text = draw_text(x + wide / 2, y + CELL / 2 + 4, said if said.strip("+−0") else "",
                     "on" if abs(shade) >= DARK else "", "middle")
    return (f'<rect class="{"more" if shade > 0 else "less"}" x="{x + 1}" y="{y + 1}" '
            f'width="{wide - 2}" height="{CELL - 2}" opacity="{abs(shade) / SHADES:g}"/>{text}')


# ---- Drawings -----------------------------------------------------------------------------------

def svg(wide, high, inner, more):
    """An SVG of so many pixels."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" {more} width="{wide:.0f}" '
            f'height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">{inner}</svg>')


def picture(title, figure):
    """A stand-alone SVG of a Figure that has a drawing, under its title."""
    w, h, inner = figure.drawing
    parts = [draw_text(16, 29, legal_text(figure.title), "title"),
             svg(w, h, inner, 'x="16" y="44"')]
    wide = max(0.55 * FONT * len(title) + 16, w + 32, 0.7 * FONT * len(figure.title) + 32)
    style = STYLE.split("/* The page alone. */")[0]
    back = (f"<title>{escape(title)}</title><style>{style}</style>"
            '<rect class="paper" width="100%" height="100%"/>')
    return svg(wide, h + 60, back + "".join(parts), 'role="img"') + "\n"
