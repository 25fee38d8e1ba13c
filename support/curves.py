"""Curves of a run as SVG: training loss and dev result. No plotting library is asked for."""
import html

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
    size = -(-len(losses) // POINTS) or 1
    parts = [losses[i:i + size] for i in range(0, len(losses), size)]
    means = [(steps[-1], sum(values) / len(values)) for steps, values in (zip(*p) for p in parts)]
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
