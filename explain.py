"""One page that shows what a model saw in one pair of sentences: `python train.py --from RUN --explain A B`.

A page is one HTML document with nothing outside it: no script, no font, no picture from elsewhere; figures are inline
SVG. `page` joins them; `tree`, `heat`, `bars` and `relations` make one figure each, from lists and arrays. Every figure
says its values three times: as a drawing, on hover, and as a table for those who do not see it. A page is well-formed
XML too, so that any reader can take it apart.

Left out: what the numbers mean and where they come from (train.py, semmatch.py). Nothing here knows a paper.
"""
import html
import re
import unicodedata

import numpy as np

# Axes: H heads, n rows, m columns

CELL, BAR, LEVEL, FONT = 17, 72, 20, 12             # pixels: a cell, the highest bar, from arc to arc, letters
LONGEST = 18                                        # characters of a label in a figure; tables and hovers have all
STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1b1f;--soft:#585862;--line:#d5d5de;--heat:#0b4f9e;--mark:#c2410c}
@media(prefers-color-scheme:dark){
:root{--paper:#14151a;--ink:#ececf1;--soft:#aaaab6;--line:#3a3b45;--heat:#86c5ff;--mark:#ffb454}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:75rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.4rem;line-height:1.25}h2{font-size:1.1rem;margin:2.2rem 0 .2rem}h3{font-size:.95rem;margin:1rem 0 .2rem}
p{margin:.2rem 0;max-width:46rem}blockquote{margin:.4rem 0;padding-left:.8rem;border-left:3px solid var(--heat)}
figure{margin:.5rem 0}.note,figcaption,summary,caption{color:var(--soft);font-size:.875rem}caption{text-align:left}
.box{overflow-x:auto;max-width:100%;padding:2px}.box:focus-visible,summary:focus-visible{outline:2px solid var(--mark)}
svg{display:block}svg text{fill:var(--ink);unicode-bidi:isolate;font:12px system-ui,sans-serif}svg .s{fill:var(--soft)}
.c{fill:var(--heat)}.m{stroke:var(--mark);stroke-width:2}
.c path:hover,path.c:hover{stroke:var(--mark);stroke-width:2}
.l,.a{fill:none;stroke:var(--line)}.a{stroke:var(--soft)}
.e{fill:var(--soft)}g:hover>.a{stroke:var(--mark);stroke-width:2}
.h text{stroke:var(--paper);stroke-width:4px;paint-order:stroke}
.scale{display:flex;align-items:center;gap:.5rem;font-size:.8rem;color:var(--soft);flex-wrap:wrap}
.scale i{width:8rem;height:.8rem;border:1px solid var(--line);background:linear-gradient(to right,transparent,var(--heat))}
.scale b{width:.9rem;height:.9rem;border:2px solid var(--mark)}
summary{cursor:pointer;padding:.35rem 0}details details{margin-left:.8rem}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums}
th,td{border:1px solid var(--line);padding:.15rem .4rem;text-align:right;unicode-bidi:isolate;white-space:pre}
thead th{text-align:center}td.on{background:var(--heat);color:var(--paper)}
.p{width:min(14rem,40vw)}.p i{display:block;height:.9rem;background:var(--heat)}
"""


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


# ---- Parts of figures -----------------------------------------------------------------------------------------------

def box(inner, label):
    """Something wide that scrolls by itself, by keyboard too."""
    return f'<div class="box" role="region" tabindex="0" aria-label="{clean(label)}">{inner}</div>'


def table(caption, rows, columns, cells, corner=""):
    """A real table. rows, columns: labels. cells: rows of what stands in <td>, text that is escaped here."""
    head = "".join(f'<th scope="col">{clean(label)}</th>' for label in columns)
    body = "\n".join(f'<tr><th scope="row">{clean(label)}</th>' + "".join(f"<td>{clean(cell)}</td>" for cell in row) + "</tr>"
                     for label, row in zip(rows, cells, strict=True))
    return (f"<table><caption>{clean(caption)}</caption>\n<thead><tr><th scope=\"col\">{clean(corner) or '#'}</th>{head}</tr>"
            f"</thead>\n<tbody>{body}</tbody></table>")


def hidden(summary, inner):
    """What a reader opens."""
    return f"<details><summary>{clean(summary)}</summary>{inner}</details>\n"


def drawing(wide, high, label, inner):
    """An SVG of this many pixels, in a box that scrolls."""
    return box(f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} '
               f'{high:.0f}" role="img" aria-label="{clean(label)}">{inner}</svg>', label)


def figure(title, note, *parts):
    """A headed figure."""
    text = f"<figcaption>{clean(note)}</figcaption>" if note else ""
    return f"<section><h2>{clean(title)}</h2><figure>{text}{''.join(parts)}</figure></section>\n"


def upright(labels, left, y, anchor="start"):
    """A label for each column of cells, read from below; anchor: which of its ends is at y."""
    return "".join(f'<text class="s" text-anchor="{anchor}" transform="translate({left + j * CELL + 12:.1f} {y:.0f}) rotate(-90)">'
                   f"{short(x)}<title>{clean(x)}</title></text>" for j, x in enumerate(labels))


def scale(top, mark=False):
    """The legend of the one colour scale, from 0 to top."""
    chosen = "<b></b><span>chosen</span>" if mark else ""
    return f'<p class="scale"><span>0</span><i></i><span>{number(top)}</span>{chosen}</p>'


def map_of(title, rows, columns, values, top, mark=False, sparse=False):
    """Drawing, legend and table of one (n, m) array. mark: each row's largest value is framed. sparse: what would be as pale as
    the paper is left out of the drawing, not of the table."""
    left, base = max(map(width, rows), default=0) + 8, max(map(width, columns), default=0) + 8
    shades = np.clip(np.nan_to_num(values / top), 0, 1)
    best = values.argmax(1).tolist() if mark and values.size else [-1] * len(rows)
    cells = [[number(x) + " (chosen)" * (j == best[i]) for j, x in enumerate(row)] for i, row in enumerate(values.tolist())]
    framed, names, parts = ' class="m"', [clean(x) for x in columns], [upright(columns, left, base - 5)]
    for i, row in enumerate(rows):
        name, y = clean(row), base + i * CELL
        parts.append(f'<g class="c" transform="translate({left:.0f} {y:.0f})"><text class="s" x="-5" y="13" text-anchor="end">'
                     f"{short(row)}<title>{name}</title></text>" + "".join(
                         f'<path{framed * (j == best[i])} d="M{j * CELL} 0h{CELL - 1}v{CELL - 1}h-{CELL - 1}z" fill-opacity='
                         f'"{shade:.2f}"><title>{name} | {names[j]}: {cells[i][j]}</title></path>'
                         for j, shade in enumerate(shades[i].tolist()) if shade >= 0.005 or not sparse) + "</g>")
    wide, high = len(columns) * CELL, len(rows) * CELL
    parts.append(f'<path class="l" d="M{left - 1:.0f} {base - 1:.0f}h{wide + 1}v{high + 1}h-{wide + 1}z"/>')
    return (drawing(left + wide + 2, base + high + 2, f"{title}, as a map", "".join(parts)) + scale(top, mark)
            + hidden("As a table", box(table(title, rows, columns, cells), f"{title}, as a table")))


# ---- Figures --------------------------------------------------------------------------------------------------------

def heat(title, rows, columns, values, note="", top=None, mark=False):
    """A map of numbers.

    Args: rows, columns: n and m labels. values: (n, m), or (H, n, m): the mean over heads, and each head where a reader
        opens it. top: the value of the full colour, where figures are to be compared (default: the largest shown).
        mark: frames each row's largest value.
    Raises: ValueError if labels and values do not fit.
    """
    values = np.asarray(values, np.float64)
    if values.shape[-2:] != (len(rows), len(columns)):
        raise ValueError(f"heat: {title} needs values for {len(rows)} x {len(columns)} labels, got {values.shape}")
    mean = values if values.ndim == 2 else values.mean(0)
    full = (lambda x: float(np.nan_to_num(x, posinf=0).max(initial=0)) or 1.0)
    top = top or full(mean)
    heads = ""
    if values.ndim == 3 and len(values) > 1:
        most = full(values)
        heads = hidden(f"Each of {len(values)} heads", "".join(
            f"<h3>Head {h}</h3>" + map_of(f"{title}, head {h}", rows, columns, x, most, mark, True) for h, x in enumerate(values)))
    return figure(title, note, map_of(title, rows, columns, mean, top, mark), heads)


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
    return figure(title, note, drawing(left + len(labels) * CELL + 2, base + down, f"{title}, as bars", "".join(parts)),
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


def tree(title, words, heads, names, note=""):
    """A dependency tree as arcs over the words, from head to dependent.

    Args: heads: of each word, counted from 1, 0 for the root. names: the relation of each word to its head.
    """
    heads, at, x = [int(h) for h in heads], [], 4.0
    for word, name in zip(words, names, strict=True):
        wide = max(width(word), width(name)) + 14
        at.append(x + wide / 2)
        x += wide
    levels = arc_levels(heads)
    base, parts, cells = (max(levels, default=0) + 1.6) * LEVEL, [], []
    for i, (head, name) in enumerate(zip(heads, names)):
        said, end = f"{name}: {words[head - 1] if head else 'the root'} → {words[i]}", at[i]
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
        cells.append([words[i], name, words[head - 1] if head else "", str(head)])
    drawn = "".join(part for _, part in sorted(parts, key=lambda part: part[0])) + "".join(
        f'<text x="{place:.1f}" y="{base + 17:.0f}" text-anchor="middle">{short(word)}<title>{clean(word)}</title></text>'
        for place, word in zip(at, words))
    columns = ["word", "relation", "to its head", "head's number"]
    return figure(title, note, drawing(x + 4, base + 26, f"{title}, as arcs", drawn), hidden("As a table", box(
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
    quotes = "".join(f"<blockquote><bdi>{clean(text)}</bdi></blockquote>" for text in sentences)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, '
            f'initial-scale=1"/><title>{clean(title)}</title><style>{STYLE}</style></head>\n<body><main><h1>{clean(title)}</h1>'
            f'{quotes}<p>Prediction: <strong>{clean(answer)}</strong></p>{shares}<p class="note">{clean(note)}</p>\n'
            f"{''.join(figures)}</main></body></html>\n")


PROBABILITY_HEAD = ('<thead><tr><th scope="col">answer</th><th scope="col">probability</th><th scope="col">as a bar</th></tr>'
                    "</thead>")
