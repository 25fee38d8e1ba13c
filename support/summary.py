"""What a terminal shows of a run: its result, tables of metrics, what hangs on the method."""
from support.data import SOURCES, metric_title
from support.machine import print_once


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
    named = {kind: result["settings"].get(kind) for kind in ("model", "parser")}
    own = "".join(f" --{kind} {name}" for kind, name in named.items() if ":" in (name or ""))
    if has_test(result):
        print_once(f"\n# score the test split, once\npython train.py --from {folder} --test{own}")
    print_once(f"# label your own pairs\npython train.py --from {folder} --predict pairs.tsv{own}")
    print_once("# what it sees in a pair of yours: a page with two text fields\n"
               f"python -m experiments.explain {folder} --serve{own}")


def has_test(result):
    """Is there a labelled test split for this run's task?"""
    if result["task"] not in SOURCES:
        return result["task"] == "toy" or bool(result["settings"].get("test_file"))
    return not SOURCES[result["task"]].unlabelled


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
    rows = [[f"what hangs on it, {split}", metric, "answers changed", moved]]
    rows.append(["as it is", f"{100 * found['score']:.1f}", "", ""])
    for name, change in changes.items():
        rows.append([name, f"{100 * change['score']:.1f}", f"{100 * change['answers']:.1f} %",
                     f"{change['moved']:.3f}"])
    lines = [align_columns(rows)]
    if metric == "pearson":
        lines.append("a score is changed where it moves by more than a tenth of their deviation")
    if found["added"]:
        sizes = ", ".join(f"{100 * x:.0f} % in layer {i}" for i, x in found["added"].items())
        lines.append(f"size of what the method adds, of plain attention: {sizes}")
    return "\n".join(lines)


def align_columns(rows):
    """Text: rows of cells in columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        right = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join([row[0].ljust(widths[0]), *right]))
    return "\n".join(lines)
