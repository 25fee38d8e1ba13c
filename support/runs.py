"""The files of a run: best.pt, with which it is used; last.pt, from which training goes on.

    best.pt       the best epoch: weights, and all else that predicting needs, from anywhere
    last.pt       the same of the last step, with the optimizer's and the random numbers' state
    config.json   settings and recipe      log.jsonl     one event a line
    result.json   what came out            test.json     what test said, when it was asked

best.pt, last.pt and result.json have the `id` of the training that wrote them, so that a result is
never shown of another model's weights. Opening a file runs no code.
"""
import contextlib
import fcntl
import hashlib
import itertools
import json
import math
import os
import time
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from support import machine
from support.checkpoints import expecting, read_json
from support.files import write_json, write_text, write_whole
from support.machine import main_process, print_once
from support.options import prefix_errors, refuse

BEGUN = "best.pt", "last.pt", "config.json", "result.json"  # a folder with one of them is taken


# ---- The folder ---------------------------------------------------------------------------------

def new_folder(out, name):
    """The folder for a new run: `out`, which must hold no file of a run, or the next free one of
    runs/name, runs/name-2, ...
    """
    if out:
        there = [file for file in BEGUN if Path(out, file).exists()]
        refuse(there, f"{out}: holds {', '.join(there)}; resume the run, or name another folder")
        return Path(out)
    return free_path(Path("runs", name))


def free_path(path):
    """The path, or the next of path-2, path-3, ... at which nothing is; the ending stays."""
    found, numbers = path, itertools.count(2)
    while found.exists():
        found = path.with_stem(f"{path.stem}-{next(numbers)}")
    return found


@contextlib.contextmanager
def lock_folder(folder):
    """Around all that writes into a run's folder: no other process does so meanwhile.

    Makes the folder, and removes it where no run was begun in it. Ctrl-C says what goes on. Raises
    BlockingIOError where another process has it.
    """
    if not main_process():
        yield
        return
    os.makedirs(os.path.realpath(folder), exist_ok=True)  # a link may lead where nothing is yet
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(place)
        raise BlockingIOError(f"{folder}: another process trains there; wait for it, or name "
                              f"another folder") from None
    try:
        yield
    except KeyboardInterrupt:
        saved = (folder / "last.pt").exists() or (folder / "result.json").exists()
        raise KeyboardInterrupt(f"--resume {folder} goes on" if saved else "") from None
    finally:
        os.close(place)
        with contextlib.suppress(OSError):
            folder.rmdir()


def sha256_of_pairs(splits):
    """dict split -> sha256 of its pairs, in their order: a run goes on with the same pairs."""
    return {split: hashlib.sha256("".join(map(ascii, pairs)).encode()).hexdigest()
            for split, pairs in splits.items()}


# ---- Reading ------------------------------------------------------------------------------------

def made_here(path):
    """Around what is done with the contents of a file of a run: one message for all that fails."""
    return expecting(path, "what this code writes", "made by other code, cut off or damaged: copy "
                     "it again, or train anew")


def read_saved(path):
    """What best.pt or last.pt holds, a dict. Raises ValueError where there is no run."""
    begun = path.name == "best.pt" and (path.parent / "last.pt").exists()
    hint = f"--resume {path.parent} goes on" if begun else "a run is such as runs/toy-dafa"
    refuse(not path.exists(), f"{path}: no file is there; {hint}")
    with made_here(path):
        with zipfile.ZipFile(path) as archive:  # as torch.save writes, whose sums torch skips
            damaged = archive.testzip()
        refuse(damaged, f"another sum of {damaged}")
        return torch.load(path, "cpu", weights_only=True)


def load_weights(model, saved, path):
    """Takes a model's weights, of what the file `path` holds. Raises ValueError for another's."""
    with made_here(path):
        model.load_state_dict(saved["weights"])


def read_result(folder, name="result.json"):
    """The dict of result.json, or of test.json. Raises ValueError naming the file."""
    return read_json(Path(folder, name))


# ---- Training -----------------------------------------------------------------------------------

@dataclass
class Progress:
    """How far a training is: what last.pt holds beside weights, optimizer and random states."""
    step: int = 0
    epoch: int = 0
    best: float | None = None    # dev result, and when it was reached
    best_epoch: int = 0
    lowest: float = math.inf     # dev loss, and when it was reached
    lowest_step: int = 0
    seconds: float = 0.0         # from the first step on

    def judge(self, result, loss):
        """Ends an epoch with its dev result and loss. -> whether the result is the best so far"""
        self.epoch += 1
        better = self.best is None or result > self.best
        if better:
            self.best, self.best_epoch = result, self.epoch
        if loss < self.lowest:
            self.lowest, self.lowest_step = loss, self.step
        return better

    def finished(self, epochs, patience, epoch_steps):
        """Are all epochs done, or has the dev loss not fallen for `patience` steps (0: never)?

        What a resumed epoch has begun does not count.
        """
        waited = self.epoch * epoch_steps - self.lowest_step
        return self.epoch >= epochs or bool(patience) and waited >= patience


def save_last(run, log, optimizer, scaler, progress):
    """Writes last.pt, and once config.json. All processes call it at once, since each has a random
    state of its own.
    """
    states = machine.gather(machine.random_state(run.recipe.device))
    progress.seconds += time.monotonic() - log.saved
    if main_process():
        state = run.contents | {
            "weights": run.model.state_dict(), "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(), "random": states, "progress": asdict(progress),
            "log": log.path.read_text("utf-8")}
        write_whole(run.folder / "last.pt", lambda file: torch.save(state, file))
        if not (run.folder / "config.json").exists():
            write_json(run.folder / "config.json", {name: run.contents[name] for name in (
                "id", "settings", "recipe", "task", "new_parameters")})
    log.saved = time.monotonic()


def save_best(run, progress):
    """Writes best.pt: all with which a run is used, and the epoch that it is of."""
    state = run.contents | {"weights": run.model.state_dict(), "epoch": progress.epoch}
    write_whole(run.folder / "best.pt", lambda file: torch.save(state, file))


def load_last(run, saved, optimizer, scaler):
    """Takes weights, optimizer, scaler and random states of what `read_saved` read of last.pt.
    Raises ValueError naming last.pt where they are not this run's.
    """
    path, (rank, count) = run.folder / "last.pt", machine.world()
    load_weights(run.model, saved, path)
    with made_here(path):
        optimizer.load_state_dict(saved["optimizer"])
        scaler.load_state_dict(saved["scaler"])
        if len(saved["random"]) == count:
            machine.restore_random_state(saved["random"][rank], run.recipe.device)
        else:
            print_once(f"{path} is of {len(saved['random'])} processes: dropout draws other "
                       f"numbers now")


class Log:
    """log.jsonl, one event a line, of the main process. It begins with `kept`, so that what came
    after a cut run's checkpoint is dropped. `loss` is that of the last step written; `saved`, when
    last.pt was.
    """

    def __init__(self, path, kept=""):
        self.path, self.waiting, self.loss, self.sum = Path(path), [], math.nan, 0.0
        self.saved = time.monotonic()
        if main_process():
            write_text(self.path, kept)

    def __call__(self, **event):
        if main_process():
            with prefix_errors(f"{self.path}: "), open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")

    def add_loss(self, loss):
        """Adds this process's share of a part's loss to the step's."""
        self.sum = self.sum + loss.detach()

    def add_step(self, step, norm, lr, overflow):
        """Keeps the numbers of a training step until `write_steps`: a GPU goes on meanwhile.

        norm: the gradient's. lr: the highest rate. overflow: may the norm be infinite? Then the
        scaler leaves the step out.
        """
        self.waiting.append((step, self.sum, norm, lr, overflow))
        self.sum = 0.0

    def write_steps(self, due):
        """Writes the steps added since the last time. -> whether a process has something `due`

        Raises ValueError where training has failed; what was saved before is sound.
        """
        shares = [share for _, share, *_ in self.waiting]
        due, *losses = machine.sum_over_processes(due, *shares)
        for (step, _, norm, lr, overflow), loss in zip(self.waiting, losses, strict=True):
            norm, self.loss = float(norm), loss
            refuse(not math.isfinite(loss) or not (math.isfinite(norm) or overflow),
                   f"the loss is {loss}, the gradient's norm {norm} at step {step}: lower --lr or "
                   f"--lr-new, or try --precision fp32")
            self(step=step, loss=loss, norm=norm, lr=lr)
        self.waiting = []
        return bool(due)
