"""assets/english: the run that ships, whose weights are int8."""
import json
from collections import Counter

from small_runs import ROOT
from support.tables import read_table
from train import main, open_run


def test_the_run_that_ships(capsys):
    """Its size; right answers of each list and kind, as assets/README.md says."""
    assert (folder := ROOT / "assets/english").joinpath("best.pt").stat().st_size < 25e6
    run, said = open_run(folder, device="cpu"), (ROOT / "assets/README.md").read_text("utf-8")
    right = {}
    for name in ("everyday", "others", "first", "second", "third"):
        header, rows = read_table(folder / f"{name}.tsv", run.task.labels)
        fields, pairs = zip(*rows)
        found = zip(fields, pairs, run.logits(pairs).argmax(1).tolist())
        right[name] = Counter(dict(zip(header, row)).get("kind") for row, pair, answer in found
                              if answer == pair.label)
    cells = " | ".join(str(counts.total()) for counts in right.values())
    assert f"| the run that ships | {cells} |" in said
    kinds = {dict(zip(header, row))["kind"] for row in fields}
    for kind in kinds:
        cells = " | ".join(str(right[name][kind]) for name in ("first", "second", "third"))
        assert f"| {kind} | {cells} |" in said
    assert json.loads((folder / "result.json").read_text("utf-8"))["id"] == run.begun["id"]
    main(["--from", str(folder)])
    assert "--test" not in capsys.readouterr().out  # which would ask for the tables of training
