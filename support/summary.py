"""What a run ends with: its result and tables of metrics in a terminal, and curves as SVG."""
import html
import shlex

from support.data import SOURCES, metric_title
from support.machine import print_once

# Pixels: a panel's drawing, the space around it
WIDE, HIGH, LEFT, TOP = 270, 150, 60, 40
POINTS = 200  # of a curve at most: each is a mean of neighbours

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }  .title { font-weight: 600 }
.soft { fill: #656d76 }  .grid { stroke: #d1d9e0 }  .zero { stroke: #656d76 }
.mark { stroke: #0969da; fill: #0969da; stroke-width: 2 }  .open, .page { fill: #ffffff }
.curve { stroke: #0969da; fill: none; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }  .soft { fill: #9198a1 }  .grid { stroke: #3d444d }
.zero { stroke: #9198a1 }  .mark { stroke: #58a6ff; fill: #58a6ff }  .curve { stroke: #58a6ff }
.open, .page { fill: #0d1117 } }
"""


# ---- Tables --------------------------------------------------------------------------------------

def show_result(folder, result):
    """Prints a result, and what can be done next."""
    split, metrics = result["selection_split"], result["metrics"]
    print_once(f"\n{result['model']} on {result['task']}, seed {result['seed']}: epoch "
               f"{result['best_epoch']} of {result['recipe']['epochs']}, chosen on {split}\n\n"
               f"{metrics_table(metrics, result.get('positive'))}")
    if (result.get("influence") or {}).get("changes"):
        print_once(f"\n{influence_table(result['influence'], split)}")
    if result["task"] == "toy":
        print_once("\ntoy is a generated diagnostic; its numbers say nothing about real English")
    folder = shlex.quote(str(folder))
    named = {kind: result["settings"].get(kind) for kind in ("model", "parser")}
    own = "".join(f" --{kind} {name}" for kind, name in named.items() if ":" in (name or ""))
    unlabelled = [name for name, source in SOURCES.items() if source.unlabelled]
    if result["settings"].get("test_file") or result["task"] not in ("own", *unlabelled):
        print_once(f"\n# score the test split, once\npython train.py --from {folder} --test{own}")
    print_once(f"# label your own pairs\npython train.py --from {folder} --predict pairs.tsv{own}")
    print_once("# what it sees in a pair of yours: a page with two text fields\n"
               f"python -m experiments.explain {folder} --serve{own}")


def metrics_table(metrics, positive=None):
    """Text: a row for each metric, a column for each split of a dict split -> metric -> float.

    positive: the class that F1 is of, where it has a name.
    """
    rows = [["", *metrics]]
    for name in dict.fromkeys(name for scores in metrics.values() for name in scores):
        found = [f"{100 * scores[name]:.1f}" if name in scores else ""
                 for scores in metrics.values()]
        rows.append([metric_title(name, positive), *found])
    return align_columns(rows)


def influence_table(found, split):
    """Text: what Run.influence found on a split, a row for each change."""
    metric, changes = found["metric"], found["changes"]
    moved = "score moved by" if metric == "pearson" else "probability moved by"
    rows = [[f"without a part, {split}", metric, "answers changed", moved]]
    rows.append(["as it is", f"{100 * found['score']:.1f}", "", ""])
    for name, change in changes.items():
        rows.append([name, f"{100 * change['score']:.1f}", f"{100 * change['answers']:.1f} %",
                     f"{change['moved']:.3f}"])
    lines = [align_columns(rows)]
    if metric == "pearson":
        lines.append("a score is changed where it moves by more than a tenth of their deviation")
    if found["added"]:
        sizes = ", ".join(f"{100 * x:.0f} % in layer {i}" for i, x in found["added"].items())
        lines.append(f"size of the method's part, plain attention's being 100 %: {sizes}")
    return "\n".join(lines)


def align_columns(rows):
    """Text: rows of cells in columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        right = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join([row[0].ljust(widths[0]), *right]))
    return "\n".join(lines)


# ---- Curves --------------------------------------------------------------------------------------

def svg_page(width, height, parts):
    """SVG text of elements, on a light page and on a dark one."""
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}">\n<style>{STYLE}</style>\n'
                      '<rect class="page" width="100%" height="100%"/>', *parts, "</svg>\n"])


def draw_text(x, y, text, kind="", anchor="start"):
    """An SVG text."""
    return (f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f'{html.escape(text)}</text>')


def draw_line(x, y, to_x, to_y, kind):
    """An SVG line."""
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def draw_run(events, metric, best_epoch):
    """SVG text: the loss of each step, and the dev metric after each epoch, the best one filled.

    Args: events: those of log.jsonl, dicts with step and loss, or epoch, split and the metric.
    """
    losses = [(event["step"], event["loss"]) for event in events if "loss" in event]
    size, means = -(-len(losses) // POINTS) or 1, []
    for i in range(0, len(losses), size):
        steps, values = zip(*losses[i:i + size])
        means.append((steps[-1], sum(values) / len(values)))
    judged = [event for event in events if metric in event]
    results = [(event["epoch"], 100 * event[metric]) for event in judged]
    drawn, right = [], 2 * LEFT + WIDE + 20
    if means:  # a log may have been removed on the way
        drawn += draw_panel("training loss", "step", means, LEFT)
    if results:
        drawn += draw_panel(f"{judged[0]['split']} {metric}", "epoch", results, right)
        for (epoch, _), (x, y) in zip(results, place_points(results, right)):
            kind = "mark" if epoch == best_epoch else "mark open"
            drawn.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    return svg_page(2 * (LEFT + WIDE) + 40, TOP + HIGH + 40, drawn)


def draw_panel(title, axis, points, left):
    """The elements of one curve with its title and the ends of its two scales."""
    bottom, (columns, rows) = TOP + HIGH, zip(*points)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in place_points(points, left))
    parts = [draw_text(left, TOP - 16, title, "title"),
             draw_line(left, bottom, left + WIDE, bottom, "zero"),
             draw_line(left, TOP, left + WIDE, TOP, "grid")]
    for y, value in ((TOP, max(rows)), (bottom, min(rows))):
        parts.append(draw_text(left - 8, y + 5, f"{value:.3g}", "soft", "end"))
    parts.append(draw_text(left, bottom + 20, f"{axis} {columns[0]}", "soft"))
    parts.append(draw_text(left + WIDE, bottom + 20, f"{columns[-1]}", "soft", "end"))
    return [*parts, f'<polyline class="curve" points="{path}"/>']


def place_points(points, left):
    """Where points (x, y) stand in a panel, a list of (pixels from left, pixels from above)."""
    first, last, rows = points[0][0], points[-1][0], [y for _, y in points]
    low, high = min(rows), max(rows)
    wide, tall = last - first or 1, high - low or 1
    return [(left + WIDE * (x - first) / wide, TOP + HIGH * (high - y) / tall) for x, y in points]
