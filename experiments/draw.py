"""Figures of a pair of sentences: SVG drawings and HTML tables, made from lists and arrays.

`links` draws lines between the words of two sentences; a table of the same numbers follows, for
readers who cannot see a drawing. There is no script, no font, no image. Left out: what the numbers
mean, and the page (explain). Nothing here knows a model.
"""
import html
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np

from support.summary import draw_text

# Axes: n rows, m columns

FONT, LARGE = 13, 15  # pixels: height of letters; of the words of `links` and of a picture
STEP, GAP = 30, 120  # pixels: from a word of `links` to the next; between the sentences
SHADES = 5  # steps of the colour scale on each side of 0
LONGEST = 24  # characters of a label in a drawing; the table has all characters
LEAST = 0.1  # the smallest line that is drawn, as a share of the largest
WIDE = 380  # pixels of a line of text in a picture
LETTER = {"title": 10, "word": 9, "soft": 7.7}  # pixels of a letter in a wide font, by class
# Attributes of a drawing's elements, for readers of SVG without style sheets. page.css wins.
INK, PAPER, SOFT, HEAT, MARK = "#1b1b1f", "#ffffff", "#585862", "#0b4f9e", "#c2410c"
PLAIN = {"soft": f'fill="{SOFT}"', "word": 'font-size="15"',
         "title": 'font-weight="700" font-size="15"', "card": f'fill="{PAPER}" stroke="#d5d5de"',
         "link": f'fill="none" stroke="{HEAT}"',
         "own": f'fill="{MARK}" font-weight="700" font-size="15"'}
STYLE = Path(__file__).with_name("page.css").read_text("utf-8")
OF_DRAWINGS = STYLE.partition("\n\n")[0]  # the part of page.css that a drawing needs


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


def widest(labels, font=FONT):
    """The width in pixels of the widest `cut_label(label)`, an estimate for English."""
    widths = [0]
    for label in map(cut_label, labels):
        large = sum(c.isupper() or c in "mwMW@%…—" for c in label)
        widths.append(font * (0.62 * len(label) + 0.3 * large) + 4)
    return int(max(widths))


def short_numbers(values):
    """Texts of an array of numbers (n, m), all with two decimals, without the 0 before the point;
    all without decimals where all are whole.

    >>> short_numbers(np.array([[0, 0.1, 0.13], [-0.004, -14.5, np.nan]]))
    [['0', '.10', '.13'], ['0', '-14.50', 'nan']]
    >>> short_numbers(np.array([[0, 1.0]]))
    [['0', '1']]
    """
    whole = (values == np.rint(values)).all()
    rows = [[f"{value:.{0 if whole else 2}f}" for value in row] for row in values.tolist()]
    return [[re.sub(r"^(-?)0\.", r"\1.", re.sub(r"^-?0(\.00)?$", "0", text)) for text in row]
            for row in rows]


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


def table(caption, rows, columns, cells, shaded=None, more=""):
    """An HTML table. rows, columns: labels. cells: texts, which this function escapes. shaded:
    (n, m) shades of the cells. more: attributes.
    """
    shaded = np.zeros((len(rows), len(columns)), int) if shaded is None else shaded
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in ("", *columns))
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


def map_table(title, rows, columns, values, top=None):
    """HTML of a table of numbers (n, m), coloured by their size. rows, columns: n and m labels.
    top: the value of the full colour; None: the largest.
    """
    return table(title, rows, columns, short_numbers(values), shades(values, top),
                 more=' class="map"')


def maps(title, rows, columns, values, note="", top=None, equations=""):
    """A Figure of map_table."""
    body = box(map_table(title, rows, columns, values, top), title)
    return Figure(title, note, body, None, equations)


# ---- Words, and lines between them --------------------------------------------------------------

def drawn_links(values):
    """[(i, j, share)] of the lines that `links` draws, the thin ones first: the largest number of
    each row and column. share: of the largest number of all, which counts as 1 at least.

    >>> drawn_links(np.array([[8, 2, 0], [4, 1, -3], [0.5, 0, 0]]))
    [(0, 1, 0.25), (1, 0, 0.5), (0, 0, 1.0)]
    """
    largest = [values.max(axis, keepdims=True, initial=0) == values for axis in (0, 1)]
    share = values / max(1, values.max(initial=0))
    found = np.argwhere((largest[0] | largest[1]) & (share >= LEAST))
    return sorted(((int(i), int(j), float(share[i, j])) for i, j in found), key=lambda x: x[2])


def column(words, marks, below, step, side):
    """(SVG of a sentence, a word each `step` pixels, beside x = 0; its width). It stands at the
    left of x = 0, side -1, or at the right, side 1. marks, below: of one sentence, see `links`.
    """
    anchor, parts = "start" if side > 0 else "end", []
    for i, (word, marked) in enumerate(zip(words, marks, strict=True)):
        kind = "own" if marked else "word"
        parts.append(draw_text(6 * side, i * step + 20, cut_label(word), kind, anchor))
    for i, text in enumerate(below):
        parts.append(draw_text(6 * side, i * step + 36, cut_label(text), "soft", anchor))
    return "".join(parts), 8 + max(widest(words, LARGE), widest(below))


def links(title, words, marks, values, note="", below=((), ())):
    """A Figure of the words of two sentences, a at the left, b at the right, joined by lines.

    words: two lists, of n and m words. marks: two lists of bool: is the word marked? values:
    (n, m), the width of a line; see drawn_links. below: two lists of texts, which stand below the
    words, or ().
    """
    step = STEP + 14 * any(below)
    of_a, left = column(words[0], marks[0], below[0], step, -1)
    of_b, right = column(words[1], marks[1], below[1], step, 1)
    parts = [f'<g transform="translate({left} 0)">{of_a}</g>',
             f'<g transform="translate({left + GAP} 0)">{of_b}</g>']
    for i, j, share in drawn_links(values):
        y, to, half = i * step + 15, j * step + 15, left + GAP / 2
        path = f"M{left} {y}C{half:.0f} {y} {half:.0f} {to} {left + GAP} {to}"
        parts.append(f'<path class="link" d="{path}" stroke-width="{1 + 5 * share:.1f}" '
                     f'opacity="{.4 + .6 * share:.2f}"><title>{values[i, j]:.1f}: '
                     f'{escape(words[0][i])}, {escape(words[1][j])}</title></path>')
    wide, high = left + GAP + right, step * max(map(len, words))
    drawing = wide, high, plain("".join(parts))
    drawn = box(svg(*drawing, f'style="min-width:{.75 * wide:.0f}px"'), title)
    numbers = box(map_table(title, *words, values), f"{title}, as a table")
    return Figure(title, note, f"{drawn}<details><summary>As a table</summary>{numbers}</details>",
                  drawing)


# ---- Pictures that stand alone ------------------------------------------------------------------

def plain(elements):
    """These elements, each with the attributes of its class."""
    return re.sub(r'class="(\w+)"', lambda match: f"{match[0]} {PLAIN[match[1]]}", elements)


def svg(wide, high, inner, more):
    """An SVG element. wide, high: pixels. more: attributes."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" {more} width="{wide:.0f}" '
            f'height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}" fill="{INK}" '
            f'font-family="system-ui, sans-serif" font-size="{FONT}">{inner}</svg>')


def picture(title, above, drawing, below=(), style=""):
    """A stand-alone SVG: texts, a drawing, texts. title: for screen readers. above, below: [(text,
    its class)]; a long text becomes several lines. style: a style sheet.
    """
    wide, deep, inner = drawing
    texts, y = [], 30
    for part in (above, below):
        for text, kind in part:
            for line in textwrap.wrap(legal_text(text), int(WIDE / LETTER[kind])):
                texts.append(draw_text(16, y, line, kind))
                wide, y = max(wide, LETTER[kind] * len(line)), y + 22
        if part is above:
            top, y = y - 8, y + deep + 18
    around = plain('<rect class="card" width="100%" height="100%" rx="8"/>' + "".join(texts))
    left = 16 + (wide - drawing[0]) / 2
    inside = svg(drawing[0], deep, inner, f'x="{left:.0f}" y="{top}"')
    sheet = style and f"<style>{style}</style>"
    return svg(wide + 32, y - 4, f"<title>{escape(title)}</title>{sheet}{around}{inside}",
               'role="img"') + "\n"
