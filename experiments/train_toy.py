"""How assets/toy-dafa was made: `python train.py --epochs 24`, its weights in half precision.

    python -m experiments.train_toy [--out FOLDER]

writes FOLDER (default: toy-dafa), a run that predicts at once. Its numbers are the halved weights'.
"""
import sys
import tempfile
from pathlib import Path

import torch

import train
from support import runs
from support.checkpoints import read_json
from support.data import load_pairs
from support.files import write_json
from support.options import Arguments, run_command


def copy_halved(made, folder):
    """Copies what a finished run is used with into a folder, its weights as float16."""
    run, result = train.open_run(made, device="cpu"), runs.read_result(made)
    saved = runs.read_saved(made / "best.pt")
    saved["weights"] = {name: x.half() for name, x in run.model.state_dict().items()}
    run.model.load_state_dict(saved["weights"])
    _, splits = load_pairs(run.settings)
    result["metrics"] = {name: run.evaluate(splits[name]) for name in result["metrics"]}
    config = read_json(made / "config.json")
    for content in (saved, config, result):
        content["settings"]["out"] = None  # it was a temporary one
    runs.save_state(saved, folder / "best.pt")
    write_json(folder / "config.json", config)
    write_json(folder / "result.json", result)


def main(argv=None):
    """The command line."""
    parser = Arguments("python -m experiments.train_toy", __doc__.splitlines()[0])
    parser.add_argument("--out", metavar="FOLDER", default="toy-dafa", help="(default: toy-dafa)")
    folder = runs.new_folder(parser.parse(argv)["out"], "")
    torch.set_num_threads(1)  # as the run that ships was made: the same numbers on any machine
    with tempfile.TemporaryDirectory() as work:
        train.main(["--device", "cpu", "--epochs", "24", "--out", f"{work}/run"])
        copy_halved(Path(work, "run"), folder)
    print(f"\n{folder}: {sum(path.stat().st_size for path in folder.rglob('*.*')):,} bytes")


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.train_toy"))
