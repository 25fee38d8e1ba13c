"""One page that shows what a model saw in one pair of sentences: `python train.py --from RUN --explain A B`.

A page is one HTML document with nothing outside it: no script, no font, no picture from elsewhere; figures are inline
SVG. `page` joins them; `tree`, `heat`, `bars` and `relations` make one figure each, from lists and arrays. A figure is
a drawing and, for those who do not see it, a real table. A map's table lies unseen over its drawing, cell upon cell,
and shows the value under the pointer: so each value stands in the page once, and the page stays small. It is
well-formed XML too, so that any reader can take it apart: `picture`, or

    python explain.py RUN/explanation.html FIGURE.svg

makes a stand-alone picture of its first drawings, both trees and what follows them.

Left out: what the numbers mean and where they come from (train.py, semmatch.py). Nothing here knows a paper.
"""
import html
import re
import sys
import unicodedata
import xml.etree.ElementTree as ElementTree
from itertools import groupby
from pathlib import Path

import numpy as np

# Axes: H heads, n rows, m columns

CELL, BAR, LEVEL, FONT = 17, 72, 20, 12             # pixels: a cell, the highest bar, from arc to arc, letters
SHADES = 10                                         # steps of the colour scale; shade k is drawn by the class k{k}
LONGEST = 18                                        # characters of a label in a figure; tables and hovers have all
WIDEST = 820                                        # pixels of a stand-alone picture: a column of text on GitHub
SVG = "{http://www.w3.org/2000/svg}"
STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1b1f;--soft:#585862;--line:#d5d5de;--heat:#0b4f9e;--mark:#c2410c}
@media screen and (prefers-color-scheme:dark){
:root{--paper:#14151a;--ink:#ececf1;--soft:#aaaab6;--line:#3a3b45;--heat:#86c5ff;--mark:#ffb454}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:75rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere;print-color-adjust:exact}
h1{font-size:1.4rem;line-height:1.25}h2{font-size:1.1rem;margin:2.2rem 0 .2rem}
p{margin:.2rem 0;max-width:46rem}blockquote{margin:.4rem 0;padding-left:.8rem;border-left:3px solid var(--heat)}
figure{margin:.5rem 0}.note,figcaption,summary,caption,label{color:var(--soft);font-size:.875rem}caption{text-align:left}
figcaption{max-width:46rem}label{margin-right:.7rem;white-space:nowrap}
.box{overflow-x:auto;max-width:100%;padding:2px}:focus-visible{outline:2px solid var(--mark)}
svg{display:block}svg text{fill:var(--ink);unicode-bidi:isolate;font:12px system-ui,sans-serif}svg .s{fill:var(--soft)}
.c{fill:var(--heat)}.c:hover{stroke:var(--mark);stroke-width:2}
.l,.a,.m{fill:none;stroke:var(--line)}.a{stroke:var(--soft)}.m{stroke:var(--mark);stroke-width:.12}
.e{fill:var(--soft)}.b{fill:var(--paper)}g:hover>.a{stroke:var(--mark);stroke-width:2}
.h text{stroke:var(--paper);stroke-width:4px;paint-order:stroke}
.z{fill:none;stroke:var(--heat);stroke-width:.94;stroke-dasharray:.94 .06}.z .m{stroke-dasharray:none}
.map{position:relative;width:max-content;padding-right:7rem}input~.box>.map{padding-bottom:3rem}
.y{display:none;position:absolute;left:0;top:0}
.v{position:absolute;left:0;top:0;table-layout:fixed;border-collapse:separate;border-spacing:0}
.v caption{position:absolute;clip-path:inset(50%)}.v th,.v td{width:17px;height:17px;padding:0;border:0;vertical-align:top}
.v i{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);font-style:normal;white-space:pre}
.v :hover>i{z-index:2;width:max-content;height:auto;max-width:18rem;clip-path:none;padding:1px 5px;background:var(--paper);
border:1px solid var(--mark);pointer-events:none;text-align:left}
.v th:hover>i{white-space:pre-wrap}.v td:hover>i{transform:translate(17px,17px);tab-size:2.7em}
.v td:hover::before,.v td:hover::after{content:"";position:absolute;pointer-events:none;outline:1px solid var(--mark)}
.v td:hover::before{left:0;right:0;height:16px}.v td:hover::after{top:0;bottom:0;width:16px}
summary{cursor:pointer;padding:.35rem 0}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{border:1px solid var(--line);padding:.15rem .4rem;text-align:right;unicode-bidi:isolate;white-space:pre}
thead th{text-align:center}td.on{background:var(--heat);color:var(--paper)}
.p{width:min(14rem,40vw)}.p i{display:block;height:.9rem;background:var(--heat)}
@media print{.box{overflow:visible}svg{max-width:100%;height:auto}.v,input,label{display:none}section{break-inside:avoid}}
""" + "".join(f".k{k}{{stroke-opacity:{k / SHADES:g}}}" for k in range(1, SHADES))


# ---- Text -----------------------------------------------------------------------------------------------------------

def clean(text):
    """Text that may stand anywhere in the page: escaped, and what no document may hold is U+FFFD.

    >>> clean('<b> & "c"' + chr(0))
    '&lt;b&gt; &amp; &quot;c&quot;\ufffd'
    """
    return html.escape(re.sub("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", str(text)))


def short(label):
    """A label that fits into a figure, escaped; at least something that can be seen."""
    label = " ".join(str(label).split()) or "·"
    return clean(label if len(label) <= LONGEST else label[:LONGEST - 1] + "…")


def width(label):
    """About how many pixels wide `short(label)` is.

    >>> width("abc") < width("日本語") and width("e" + chr(0x301)) == width("e")
    True
    """
    columns = sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1.1 if c.isupper()
                  else 1 for c in html.unescape(short(label)))
    return FONT * 0.62 * columns + 4


def number(value):
    """Three decimals; more digits only where those would say nothing, none where the value is 0.

    >>> [number(x) for x in (0, 0.25, 1, 0.00004, -1234.5, float("nan"))]
    ['0', '0.250', '1.000', '4.0e-05', '-1.23e+03', 'nan']
    """
    value = float(value)
    return ("0" if value == 0 else f"{value:.3f}" if 5e-4 <= abs(value) < 1000 else
            f"{value:.1e}" if abs(value) < 1 else f"{value:.3g}")


def brief(value):
    """The same for a map, which has thousands: three decimals at most, and no digit that says nothing.

    >>> [brief(x) for x in (0, 0.25, 1, 0.0004, -0.0123, 1234.5, float("nan"))]
    ['0', '.25', '1', '0', '-.012', '1.23e+03', 'nan']
    """
    text = f"{value:.3f}" if abs(value) < 1000 else f"{value:.3g}"
    text = text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else "0" if text == "-0" else text


# ---- Parts of figures -----------------------------------------------------------------------------------------------

def box(inner, label):
    """Something wide that scrolls by itself, by keyboard too."""
    return f'<div class="box" role="region" tabindex="0" aria-label="{clean(label)}">{inner}</div>'


def table(caption, rows, columns, cells, corner="#", over=None):
    """A real table. rows, columns: labels. cells: rows of what stands in <td>, text that is escaped here. over: how wide
    the row labels and how high the column labels are of a map that this lies upon, unseen but for what is pointed at."""
    inner = (lambda text: f"<i>{clean(text)}</i>" if over else clean(text))
    whole = first = ""
    if over:
        whole = f' class="v" style="width:{over[0] + len(columns) * CELL:.0f}px"'
        first = f' style="width:{over[0]:.0f}px;height:{over[1]:.0f}px"'
    head = "".join(f'<th scope="col">{inner(label)}</th>' for label in columns)
    body = "\n".join(f'<tr><th scope="row">{inner(label)}</th>' + "".join(f"<td>{inner(cell)}</td>" for cell in row)
                     + "</tr>" for label, row in zip(rows, cells, strict=True))
    return (f'<table{whole}><caption>{clean(caption)}</caption>\n<thead><tr><th scope="col"{first}>{inner(corner)}</th>'
            f"{head}</tr></thead>\n<tbody>{body}</tbody></table>")


def hidden(summary, inner):
    """What a reader opens."""
    return f"<details><summary>{clean(summary)}</summary>{inner}</details>\n"


def svg(wide, high, inner, kind="d"):
    """An SVG of this many pixels, which a table says again. kind: d a drawing, y one that a button brings up."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" width="{wide:.0f}" height="{high:.0f}" '
            f'viewBox="0 0 {wide:.0f} {high:.0f}" aria-hidden="true">{inner}</svg>')


def figure(title, note, *parts):
    """A headed figure."""
    text = f"<figcaption>{clean(note)}</figcaption>" if note else ""
    return f"<section><h2>{clean(title)}</h2><figure>{text}{''.join(parts)}</figure></section>\n"


def marked(label):
    """A label and, where it is cut, all of it on hover: what stands in <text>."""
    return short(label) + (f"<title>{clean(label)}</title>" if len(str(label)) > LONGEST else "")


def upright(labels, left, y, anchor="start"):
    """A label for each column of cells, read from below; anchor: which of its ends is at y."""
    return "".join(f'<text class="s" text-anchor="{anchor}" transform="translate({left + j * CELL + 12:.0f} {y:.0f}) '
                   f'rotate(-90)">{marked(x)}</text>' for j, x in enumerate(labels))


# ---- Maps -----------------------------------------------------------------------------------------------------------

def shades(values, top):
    """Shades 0 to SHADES, by the square root: twice the shade is four times the value, so that small weights show.

    >>> shades(np.array([0, 0.01, 0.25, 1, 2, -1, np.nan]), 1.0).tolist()
    [0, 1, 5, 10, 10, 0, 0]
    """
    share = np.nan_to_num(values, posinf=np.inf) / top
    return np.rint(SHADES * np.sqrt(np.clip(share, 0, 1))).astype(int)


def cells_of(shaded, left, base, chosen=()):
    """(n, m) shades, one path for each: equal neighbours in a row are one stroke, which CSS cuts into cells. chosen: the
    cells (i, j) with a frame."""
    paths, at = {}, {}                                  # of each shade; at: where its pen is
    for i, row in enumerate(shaded.tolist()):
        j = 0
        for shade, run in groupby(row):
            length = len(list(run))
            if shade:
                last, end = at.get(shade, (-1, 0))
                step = f"m{j - end} 0" if last == i else f"M{j} {i}"        # the first is the shorter one
                paths[shade] = paths.get(shade, "") + f"{step}h{length}"
                at[shade] = (i, j + length)
            j += length
    frames = "".join(f"M{j} {i - .47:.2f}h.94v.94h-.94z" for i, j in chosen)
    return (f'<g class="z" transform="translate({left:.0f} {base + CELL // 2:.0f}) scale({CELL})">'
            + "".join(f'<path class="k{shade}" d="{path}"/>' for shade, path in sorted(paths.items()))
            + (f'<path class="m" d="{frames}"/>' if frames else "") + "</g>")


def outline(left, base, columns, rows, kind="l"):
    """The frame of so many cells; kind: l a line, b paper that hides what is below."""
    wide, high = columns * CELL + 1, rows * CELL + 1
    return f'<path class="{kind}" d="M{left - 1:.0f} {base - 1:.0f}h{wide}v{high}h-{wide}z"/>'


def legend(top, left, y, mark):
    """The one colour scale, 0 to top, a cell for each shade; where something is chosen, what its frame means."""
    shaded = np.array([[*range(SHADES + 1)] + [0, 0] * mark])
    said = [(.5, 31, "middle", "0"), (SHADES / 2 + .5, 31, "middle", brief(top / 4)),
            (SHADES + .5, 31, "middle", brief(top)), (SHADES + 3.5, 13, "start", "chosen")][:3 + mark]
    return (cells_of(shaded, left, y, [(0, SHADES + 2)] * mark) + outline(left, y, SHADES + 1, 1)
            + "".join(f'<text class="s" x="{left + k * CELL:.0f}" y="{y + down:.0f}" text-anchor="{anchor}">{text}</text>'
                      for k, down, anchor, text in said))


def map_of(rows, columns, values, heads, top, chosen, left, base):
    """The drawing of (n, m) values with its labels and its legend, then of each head what takes the place of its cells."""
    n, m = values.shape
    size = (left + max(m, SHADES + 7) * CELL + 2, base + n * CELL + 44)
    labels = "".join(f'<text class="s" x="{left - 5:.0f}" y="{base + i * CELL + 13:.0f}" text-anchor="end">{marked(row)}'
                     "</text>" for i, row in enumerate(rows))
    drawn = svg(*size, upright(columns, left, base - 5) + labels + cells_of(shades(values, top), left, base, chosen)
                + outline(left, base, m, n) + legend(top, left, base + n * CELL + 8, bool(chosen)))
    return drawn + "".join(svg(*size, outline(left, base, m, n, "b") + cells_of(shades(x, top), left, base), "y")
                           for x in heads)


def switches(title, heads):
    """A button for the mean and for each head. STYLE and `page` show the drawing of the one that is pressed."""
    if not heads:
        return ""
    key, names = re.sub(r"\W+", "-", title), ["mean", *(f"head {h}" for h in range(heads))]
    pressed = [' checked="checked"'] + [""] * heads
    return "".join(f'<input type="radio" name="{key}" id="{key}-{k}"{pressed[k]}/><label for="{key}-{k}">{name}'
                   "</label>\n" for k, name in enumerate(names))


# ---- Figures --------------------------------------------------------------------------------------------------------

def heat(title, rows, columns, values, note="", top=None, mark=False):
    """A map of numbers.

    Args: rows, columns: n and m labels. values: (n, m), or (H, n, m): the mean over heads, and each head in its place
        when a reader asks for it. top: the value of the full colour (default: the largest shown). mark: frames each
        row's largest value.
    Raises: ValueError if labels and values do not fit.
    """
    values = np.asarray(values, np.float64)
    if values.shape[-2:] != (len(rows), len(columns)):
        raise ValueError(f"heat: {title} needs values for {len(rows)} x {len(columns)} labels, got {values.shape}")
    heads = values if values.ndim == 3 and len(values) > 1 else ()
    mean = values.mean(0) if values.ndim == 3 else values
    top = top or float(np.nan_to_num(values, posinf=0).max(initial=0)) or 1.0
    left, base = max(map(width, rows), default=0) + 8, max(map(width, columns), default=0) + 8
    chosen = [(i, int(row.argmax())) for i, row in enumerate(mean)] if mark and mean.size else []
    cells, caption = [[brief(x) for x in row] for row in mean.tolist()], title
    for i, j in chosen:
        cells[i][j] += " (chosen)"
    if len(heads):
        caption += ": the mean, then each head in thousandths"
        note += " Under the pointer: the mean of the heads, then heads 0, 1, 2, ..., in thousandths, four a line."
        for i, j in np.ndindex(mean.shape):
            said = [f"{1000 * x:.0f}" for x in heads[:, i, j].tolist()]   # a third shorter than .123, of so many
            cells[i][j] += "".join("\n" + "\t".join(said[h:h + 4]) for h in range(0, len(said), 4))
    over = table(caption, rows, columns, cells, over=(left, base))
    drawn = map_of(rows, columns, mean, heads, top, chosen, left, base)
    return figure(title, note, switches(title, len(heads)), box(f'<div class="map">{drawn}{over}</div>', title))


def bars(title, labels, series, note=""):
    """Numbers between 0 and 1, a bar for each label. series: dict name -> a number for each label."""
    left, parts, step = max([width(name) for name in series] + [30]) + 34, [], BAR + 16
    base = len(series) * step
    for k, (name, values) in enumerate(series.items()):
        floor = (k + 1) * step - 4
        parts.append(f'<text x="4" y="{floor - BAR / 2 + 4:.0f}">{short(name)}</text>' + "".join(
            f'<path class="l" d="M{left - 4:.0f} {floor - BAR * y:.0f}H{left + len(labels) * CELL:.0f}"/><text class="s" '
            f'x="{left - 8:.0f}" y="{floor - BAR * y + 4:.0f}" text-anchor="end">{y}</text>' for y in (0, .5, 1)))
        for j, value in enumerate(values):
            high = BAR * min(1.0, max(0.0, float(np.nan_to_num(value))))
            parts.append(f'<path class="c" d="M{left + j * CELL + 2:.1f} {floor}v-{high:.1f}h{CELL - 4}v{high:.1f}z"><title>'
                         f"{clean(labels[j])}: {clean(name)} = {number(value)}</title></path>")
    down = max(map(width, labels), default=0) + 8
    parts.append(upright(labels, left, base + 4, "end"))
    cells = [[number(values[j]) for values in series.values()] for j in range(len(labels))]
    drawn = svg(left + len(labels) * CELL + 2, base + down, "".join(parts))
    return figure(title, note, box(drawn, f"{title}, as bars"),
                  hidden("As a table", box(table(title, labels, series, cells), f"{title}, as a table")))


def arc_levels(heads):
    """How high the arc to each word runs: above all arcs that it covers or crosses; 0 for a root, which has none.

    heads: of each word, counted from 1; 0 is none.

    >>> arc_levels([2, 0, 5, 5, 2])
    [1, 0, 2, 1, 3]
    """
    spans = [(min(i, h), max(i, h)) for i, h in enumerate(heads, 1)]
    levels, placed = [0] * len(spans), []
    for i in sorted(range(len(spans)), key=lambda i: spans[i][1] - spans[i][0]):
        if heads[i]:
            low, high = spans[i]
            levels[i] = 1 + max((levels[k] for k in placed if low < spans[k][1] and spans[k][0] < high), default=0)
            placed.append(i)
    return levels


def places(words, heads, names):
    """Where the middle of each word stands: no word hits the next, and each arc is wider than its relation's name.

    >>> places(["a", "b"], [2, 0], ["nsubj", "root"])[1] > places(["a", "b"], [2, 0], ["x", "root"])[1]
    True
    """
    at, edge = [], 4.0
    for i, (word, head) in enumerate(zip(words, heads)):
        x = edge + width(word) / 2 + 5
        if not head:
            x = max(x, edge + width(names[i]) / 2)
        for j in range(i):
            if head == j + 1 or heads[j] == i + 1:
                x = max(x, at[j] + width(names[i] if head == j + 1 else names[j]) + 24)
        at.append(x)
        edge = x + width(word) / 2 + 5
    return at


def tree(title, words, heads, names, note=""):
    """A dependency tree as arcs over the words, from head to dependent.

    Args: heads: of each word, counted from 1, 0 for the root. names: the relation of each word to its head.
    """
    heads, names = [int(h) for h in heads], list(names)
    at, levels = places(words, heads, names), arc_levels(heads)
    base, parts, cells = (max(levels, default=0) + 1.6) * LEVEL, [], []
    for i, (word, head, name) in enumerate(zip(words, heads, names, strict=True)):
        said, end = f"{name}: {words[head - 1] if head else 'the root'} → {word}", at[i]
        y = base - levels[i] * LEVEL if head else 18
        if head:
            side = 1 if at[head - 1] < end else -1
            start = at[head - 1] + 5 * side
            path = f"M{start:.1f} {base:.0f}V{y + 7:.0f}q0 -7 {7 * side} -7H{end - 7 * side:.1f}q{7 * side} 0 {7 * side} 7V{base - 5:.0f}"
            middle = (start + end) / 2
        else:
            path, middle = f"M{end:.1f} {y}V{base - 5:.0f}", end
        parts.append((levels[i], f'<g class="h"><title>{clean(said)}</title><path class="a" d="{path}"/><path class="e" d="M'
                      f'{end - 3.5:.1f} {base - 7:.0f}h7l-3.5 7z"/><text class="s" x="{middle:.1f}" y="{y + 4 if head else 13:.0f}" '
                      f'text-anchor="middle">{short(name)}</text></g>'))
        cells.append([word, name, words[head - 1] if head else "", str(head)])
    drawn = "".join(part for _, part in sorted(parts, key=lambda part: part[0])) + "".join(
        f'<text x="{place:.1f}" y="{base + 17:.0f}" text-anchor="middle">{marked(word)}</text>' for place, word in zip(at, words))
    columns = ["word", "relation", "to its head", "head's number"]
    wide = max([place + max(width(word), width(name)) / 2 for place, word, name in zip(at, words, names)], default=0) + 4
    return figure(title, note, box(svg(wide, base + 26, drawn), f"{title}, as arcs"), hidden("As a table", box(
        table(title, range(1, len(words) + 1), columns, cells, "number"), f"{title}, as a table")))


def relations(title, rows, columns, names, note=""):
    """What holds between words, by name. names: n rows of m texts, empty where nothing holds."""
    drawn = table(title, rows, columns, names)
    return figure(title, note, box(re.sub("<td>(?=[^<])", '<td class="on">', drawn), f"{title}, as a table"))


def page(title, sentences, answer, probabilities, figures, note=""):
    """The whole document.

    Args: sentences: the two texts. answer: the prediction in words. probabilities: dict label -> number, or None for a
        score. figures: what tree, heat, bars and relations returned. note: what was run.
    """
    rows = "".join(f'<tr><th scope="row">{clean(label)}</th><td>{number(p)}</td><td class="p"><i style="width:'
                   f'{100 * min(1.0, max(0.0, p)):.1f}%"></i></td></tr>' for label, p in (probabilities or {}).items())
    shares = ("<figure>" + box(f"<table><caption>Probability of each answer</caption>{PROBABILITY_HEAD}<tbody>{rows}</tbody></table>",
                               "Probability of each answer") + "</figure>") if rows else ""
    # the k-th button, of the mean or of a head, and the k-th drawing; the first of them always shows
    shown = "".join(f"input:nth-of-type({k}):checked~.box svg:nth-of-type({k}){{display:block}}\n"
                    for k in range(2, 1 + max((text.count('type="radio"') for text in figures), default=0)))
    quotes = "".join(f"<blockquote><bdi>{clean(text)}</bdi></blockquote>" for text in sentences)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, '
            f'initial-scale=1"/><title>{clean(title)}</title><style>{STYLE}\n{shown}</style></head>\n<body><main><h1>{clean(title)}</h1>'
            f'{quotes}<p>Prediction: <strong>{clean(answer)}</strong></p>{shares}<p class="note">{clean(note)}</p>\n'
            f"{''.join(figures)}</main></body></html>\n")


PROBABILITY_HEAD = ('<thead><tr><th scope="col">answer</th><th scope="col">probability</th><th scope="col">as a bar</th></tr>'
                    "</thead>")


# ---- A picture of a page --------------------------------------------------------------------------------------------

def picture(text):
    """A stand-alone SVG of a page's first three drawings, side by side where they fit, each under its title.

    Raises: ValueError if the text is no page of ours.
    """
    ElementTree.register_namespace("", SVG[1:-1])
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"no page that --explain wrote ({error})") from None
    parts, x, y, wide, high = [], 16.0, 16.0, 0.0, 0.0
    drawings = [(part.findtext("h2"), part.find(f".//{SVG}svg[@class='d']")) for part in root.iter("section")]
    for title, drawing in [(title, drawing) for title, drawing in drawings if drawing is not None][:3]:
        w, h = max(float(drawing.get("width")), 0.65 * FONT * len(title)), float(drawing.get("height")) + 28
        if x > 16 and x + w > WIDEST:
            x, y, high = 16.0, y + high + 16, 0.0
        drawing.attrib |= {"x": f"{x:.0f}", "y": f"{y + 28:.0f}"}
        del drawing.attrib["aria-hidden"]
        parts.append(f'<text x="{x:.0f}" y="{y + 13:.0f}" style="font-weight:700">{clean(title)}</text>'
                     + ElementTree.tostring(drawing, "unicode"))
        x, wide, high = x + w + 32, max(wide, x + w + 16), max(high, h)
    if not parts:
        raise ValueError("no drawing in this page")
    size = f'width="{wide:.0f}" height="{y + high + 16:.0f}"'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {wide:.0f} {y + high + 16:.0f}" role="img">'
            f'<title>{clean(root.findtext(".//h1"))}</title><style>{STYLE}</style><rect class="b" {size}/>'
            f'{"".join(parts)}</svg>\n')


def main(arguments):
    """`python explain.py PAGE PICTURE`. Returns the exit status; a mistake gives one line and 2."""
    try:
        if len(arguments) != 2:
            raise ValueError(f"expected PAGE.html and the PICTURE.svg to write, got {len(arguments)} names")
        try:
            drawn = picture(Path(arguments[0]).read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{arguments[0]}: {error}") from None
        Path(arguments[1]).write_text(drawn, "utf-8")
    except (ValueError, OSError) as error:
        print(f"explain.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
