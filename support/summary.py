"""What a run says: how it begins, its result and tables of metrics, its curves as SVG."""
import html
import math
import shlex
from pathlib import Path

from support.datasets import SOURCES
from support.machine import print_once
from support.pairs import describe_labels, metric_title

WIDE, HIGH, LEFT, TOP = 270, 150, 60, 40  # pixels: the size of a panel, the space around it
POINTS = 200  # points of a curve at most; each is the mean of neighbouring steps

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


def describe_training(run, examples):
    """Prints which model is trained on which pairs, and how."""
    recipe, pairs = run.recipe, {name: x.pairs for name, x in examples.items()}
    steps = recipe.epochs * math.ceil(len(pairs["train"]) / recipe.batch_size)
    new, parameters = run.begun["new_parameters"], sum(p.numel() for p in run.model.parameters())
    print_once(f"{run.folder}: {run.settings.model} on {run.task.name}, {parameters:,} parameters, "
               f"{recipe.device} {recipe.precision}\n{len(pairs['train'])} pairs, "
               f"{steps} steps of {recipe.batch_size}\n{describe_labels(run.task, pairs)}")
    if run.task.positive and not run.settings.positive:
        print_once(f"f1 is of class {run.task.positive}, a guess: --positive names another")
    print_limit(run, {name: x.lengths for name, x in examples.items()})
    if new or recipe.lr_new != recipe.lr:
        print_once(f"{len(new)} tensors are new and have the rate --lr-new, {recipe.lr_new:g}; "
                   f"config.json lists them")


def print_limit(run, lengths):
    """Prints how many pairs fill --max-length. What is longer was cut. lengths: dict name of a
    split -> list of the tokens of each pair.
    """
    limit = run.settings.max_length
    for name, tokens in lengths.items():
        if full := tokens.count(limit):
            print_once(f"{name}: {full} of {len(tokens)} pairs fill --max-length {limit}; "
                       "what is longer is cut")


def show_result(folder, result):
    """Prints the result of a run, and the commands that come next."""
    split, metrics = result["selection_split"], result["metrics"]
    print_once(f"\n{result['model']} on {result['task']}, seed {result['seed']}: epoch "
               f"{result['best_epoch']} of {result['recipe']['epochs']}, chosen on {split}\n\n"
               f"{metrics_table(metrics, result.get('positive'))}")
    if best := result.get("threshold"):
        print_once(f"\nbest f1 of {best['class']} on {split}, {100 * best['f1']:.1f}: if a pair is "
                   f"{best['class']} from a probability of {best['threshold']:.3f} on")
    if (result.get("influence") or {}).get("changes"):
        print_once(f"\n{influence_table(result['influence'], split)}")
    folder, own = shlex.quote(str(folder)), ""
    for name in ("model", "parser"):
        place = result["settings"].get(name) or ""
        if ":" in place:
            own += f" --{name} {shlex.quote(place)}"
    source, table = SOURCES.get(result["task"]), result["settings"].get("train_file")
    if not (source and source.unlabelled) and Path(table or ".").exists():
        named = result["task"] != "own" or result["settings"].get("test_file")
        print_once(f"\n# score the test split, once\npython train.py --from {folder} --test"
                   f"{'' if named else ' --test-file test.tsv'}{own}")
    print_once(f"# label your own pairs\npython train.py --from {folder} --predict pairs.tsv{own}")
    print_once("# a page that shows what the model sees in a pair of yours\n"
               f"python -m experiments.explain {folder} --serve{own}")


def metrics_table(metrics, positive=None):
    """Text: a row for each metric, a column for each split of a dict split -> metric -> float."""
    rows = [["", *metrics]]
    for name in dict.fromkeys(name for scores in metrics.values() for name in scores):
        cells = [f"{100 * scores[name]:.1f}" if name in scores else ""
                 for scores in metrics.values()]
        rows.append([metric_title(name, positive), *cells])
    return align_columns(rows)


def influence_table(influence, split):
    """Text: the dict that Run.influence returned for a split, a row for each change."""
    changed, moved, unit, form = "answers changed", "probability moves by, points", 100, ".1f"
    if influence["metric"] == "pearson":
        changed, moved, unit, form = "scores moved by 0.1 std", "score moves by", 1, ".3g"
    rows = [[f"without a part, {split}", influence["metric"], changed, moved],
            ["as it is", f"{100 * influence['score']:.1f}", "", ""]]
    for name, x in influence["changes"].items():
        rows.append([name, f"{100 * x['score']:.1f}", f"{100 * x['answers']:.1f} %",
                     f"{unit * x['moved']:{form}}"])
    return align_columns(rows)


def align_columns(rows):
    """Text: rows of cells in columns, the first column left-aligned, the others right-aligned."""
    first, *widths = (max(map(len, column)) for column in zip(*rows))
    return "\n".join("  ".join([row[0].ljust(first), *map(str.rjust, row[1:], widths)])
                     for row in rows)


def svg_page(width, height, parts):
    """SVG text of a page with these elements; its colours fit light and dark screens."""
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}">\n<style>{STYLE}</style>\n'
                      '<rect class="page" width="100%" height="100%"/>', *parts, "</svg>\n"])


def draw_text(x, y, text, kind="", anchor="start"):
    """SVG element: a text."""
    return (f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f'{html.escape(text)}</text>')


def draw_line(x, y, to_x, to_y, kind):
    """SVG element: a line."""
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def draw_run(events, metric, best_epoch):
    """SVG text: the loss of each step, and the dev metric after each epoch, the best one filled.

    events: the lines of log.jsonl, dicts with step and loss, or with epoch, split and the metric.
    """
    losses = [(event["step"], event["loss"]) for event in events if "loss" in event]
    size, means = -(-len(losses) // POINTS) or 1, []
    for i in range(0, len(losses), size):
        steps, values = zip(*losses[i:i + size])
        means.append((steps[-1], sum(values) / len(values)))
    epochs = [event for event in events if metric in event]
    results = [(event["epoch"], 100 * event[metric]) for event in epochs]
    result = f"{epochs[0]['split']} {metric}"
    parts = [*draw_panel("training loss", "step", means, LEFT),
             *draw_panel(result, "epoch", results, 2 * LEFT + WIDE + 20, best_epoch)]
    return svg_page(2 * (LEFT + WIDE) + 40, TOP + HIGH + 40, parts)


def draw_panel(title, axis, points, left, best=None):
    """SVG elements: one curve, its title, and the smallest and largest number on each axis. With
    `best` each of the points (x, y) is a dot, the one at x = best filled. left: pixels to its left.
    """
    bottom, (columns, rows) = TOP + HIGH, zip(*points)
    wide, tall = columns[-1] - columns[0] or 1, max(rows) - min(rows) or 1
    places = [(left + WIDE * (x - columns[0]) / wide, TOP + HIGH * (max(rows) - y) / tall)
              for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [draw_text(left, TOP - 16, title, "title"),
             draw_line(left, bottom, left + WIDE, bottom, "zero"),
             draw_line(left, TOP, left + WIDE, TOP, "grid")]
    for y, value in ((TOP, max(rows)), (bottom, min(rows))):
        parts.append(draw_text(left - 8, y + 5, f"{value:.3g}", "soft", "end"))
    parts += [draw_text(left, bottom + 20, f"{axis} {columns[0]}", "soft"),
              draw_text(left + WIDE, bottom + 20, f"{columns[-1]}", "soft", "end"),
              f'<polyline class="curve" points="{path}"/>']
    for column, (x, y) in zip(columns, places if best else ()):
        kind = "mark" if column == best else "mark open"
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    return parts
