"""The files of a run. Prediction needs best.pt alone; a resumed training needs last.pt too.

    best.pt       the best epoch: weights, and all else that prediction needs
    last.pt       the last step: weights, optimizer state, random states
    config.json   settings and recipe      log.jsonl     one event a line; curves.svg draws them
    result.json   scores on dev            test.json     scores on test, if --test asked for them

best.pt, last.pt and result.json hold the `id` of the training that wrote them, so that no result is
shown for the weights of another training. Opening a file runs no code.
"""
import contextlib
import copy
import fcntl
import hashlib
import io
import json
import math
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from support import machine
from support.checkpoints import load_saved
from support.errors import expecting, prefix_errors, refuse
from support.files import write_json, write_text, write_whole
from support.machine import main_process, print_once

# ---- The folder ---------------------------------------------------------------------------------

@contextlib.contextmanager
def lock_folder(folder):
    """Context manager: only this process writes into a run's folder.

    It makes the folder, and removes it if it is still empty at the end. On Ctrl-C it says how to
    resume. Raises BlockingIOError if another process has locked the folder.
    """
    if not main_process():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise BlockingIOError(f"{folder}: another process trains there") from None
    except OSError as error:  # some file systems have no locks
        print_once(f"{folder}: cannot be locked ({error.strerror}): start no second training there")
    try:
        yield
    except KeyboardInterrupt as stop:
        saved = (folder / "last.pt").exists()
        raise KeyboardInterrupt(f"--resume {folder} goes on" if saved else stop) from None
    finally:
        os.close(lock)
        with contextlib.suppress(OSError):
            folder.rmdir()


def sha256_of_pairs(splits):
    """dict split -> sha256 of its pairs in their order: a resumed run must have the same pairs."""
    sums = {split: hashlib.sha256() for split in splits}
    for split, pairs in splits.items():
        for pair in pairs:
            sums[split].update(ascii(pair).encode())
    return {split: checksum.hexdigest() for split, checksum in sums.items()}


# ---- Reading ------------------------------------------------------------------------------------

def made_here(path):
    """Context manager: any error inside becomes one message, that this file of a run is damaged."""
    return expecting(path, "what this code writes", "made by other code, cut off or damaged: copy "
                     "it again, or train anew")


def read_saved(path):
    """The dict in best.pt or last.pt. Raises ValueError if the file is missing or damaged."""
    refuse(not path.exists(), f"{path}: no such file; the folder of a run, such as runs/toy-dafa, "
           f"has last.pt until training ends (--resume), and best.pt from its first epoch on")
    with made_here(path):
        saved = load_saved(path)
        for name, scale in saved.get("scales", {}).items():
            parts = saved["weights"][name]
            refuse(parts.dtype != torch.int8 or scale.shape != (*parts.shape[:2], 1),
                   f"{name}: {parts.dtype} {(*parts.shape,)} with scales {(*scale.shape,)}")
            saved["weights"][name] = (parts * scale.float()).flatten(1)
        return saved


def as_int8(weights):
    """What a best.pt of a quarter of the size holds: dict "weights", each matrix in parts of 64
    columns, int8; dict "scales", name -> a float16 for each part of each row. Their product is the
    matrix, to 0.57 of a scale. A matrix of other widths stays as it is.
    """
    parts = {name: W.unflatten(1, (-1, 64)) for name, W in weights.items()
             if W.dim() == 2 and W.shape[1] % 64 == 0}
    scales = {name: (W.abs().amax(2, keepdim=True) / 127).clamp(min=1e-7).half()
              for name, W in parts.items()}
    return {"scales": scales, "weights": weights | {
        name: (W / scales[name]).round().to(torch.int8) for name, W in parts.items()}}


# ---- Training -----------------------------------------------------------------------------------

@dataclass
class Progress:
    """How far a training has come; last.pt holds this too."""
    step: int = 0
    epoch: int = 0
    best: float | None = None    # the best dev result, and its epoch
    best_epoch: int = 0
    lowest: float = math.inf     # the lowest dev loss, and its step
    lowest_step: int = 0
    seconds: float = 0.0         # of training and evaluation

    def judge(self, result, loss):
        """Notes the dev result and dev loss of an epoch. Returns: is the result the best so far?"""
        self.epoch += 1
        better = self.best is None or result > self.best
        if better:
            self.best, self.best_epoch = result, self.epoch
        if loss < self.lowest:
            self.lowest, self.lowest_step = loss, self.step
        return better

    def finished(self, epochs, patience, epoch_steps):
        """Are all epochs done, or has the dev loss not fallen for `patience` steps (0: no limit)?

        Steps of an unfinished epoch do not count, so that a resumed epoch is always finished.
        """
        waited = self.epoch * epoch_steps - self.lowest_step
        return self.epoch >= epochs or bool(patience) and waited >= patience


def save_last(run, log, optimizer, scaler, progress):
    """Writes last.pt, and config.json if missing. All processes call it: each has random states."""
    device = run.recipe.device
    gpu = torch.cuda.get_rng_state(device) if device.startswith("cuda") else None
    states = machine.gather((torch.get_rng_state(), gpu))
    progress.seconds += time.monotonic() - log.saved
    if main_process():
        state = run.state() | {
            "weights": run.model.state_dict(), "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(), "random": states, "progress": asdict(progress),
            "log": log.path.read_text("utf-8")}
        write_whole(run.folder / "last.pt", lambda file: torch.save(state, file))
        if not (run.folder / "config.json").exists():
            write_json(run.folder / "config.json", {name: state[name] for name in (
                "id", "settings", "recipe", "task", "new_parameters")})
    log.saved = time.monotonic()


def check_saved(run):
    """Raises ValueError if a file of the run could not be opened again, before there is one: all
    but tensors is written into memory, and read. What can fail is a method of somebody's own.
    """
    weights, file = run.model.state_dict(), io.BytesIO()
    others = {name: x for name, x in weights.items() if not isinstance(x, torch.Tensor)}
    with expecting(run.settings.model, "plain values from `state()` of its prior, which `load` "
                   "takes: dict, list, str, int, float, tensors", "write float(x) where numpy has "
                   "made x"):
        torch.save(run.state() | {"weights": others}, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        if run.reader.prior:
            copy.copy(run.reader.prior).load(saved["prior"])


def save_best(run, progress):
    """Writes best.pt: all that prediction needs, and the number of the epoch."""
    state = run.state() | {"weights": run.model.state_dict(), "epoch": progress.epoch}
    write_whole(run.folder / "best.pt", lambda file: torch.save(state, file))


def load_states(run, saved, optimizer, scaler):
    """Puts all states of `saved`, the run's last.pt, into their places. Returns: Progress."""
    path, best, (rank, count) = run.folder / "last.pt", run.folder / "best.pt", machine.world()
    with made_here(path):
        progress = Progress(**saved["progress"])
        optimizer.load_state_dict(saved["optimizer"])
        scaler.load_state_dict(saved["scaler"])
        if len(saved["random"]) == count:  # else dropout draws other numbers
            cpu, gpu = saved["random"][rank]
            torch.set_rng_state(cpu)
            if gpu is not None and run.recipe.device.startswith("cuda"):
                torch.cuda.set_rng_state(gpu, run.recipe.device)
    refuse(progress.best_epoch and read_saved(best)["id"] != saved["id"],
           f"{best}: another training wrote it than last.pt; copy both again, or train anew")
    return progress


class Log:
    """log.jsonl, which the main process writes, one event a line.

    kept: the text that the file begins with; lines after a resumed run's checkpoint are dropped.
    `loss`: the loss of the last step written, or None. `saved`: when last.pt was written.
    Steps wait until they are written together, so that a GPU need not wait for each of them.
    """

    def __init__(self, path, kept=""):
        self.path, self.waiting, self.loss = Path(path), [], None
        self.saved = time.monotonic()
        if main_process():
            write_text(self.path, kept)

    def __call__(self, **event):
        if main_process():
            with prefix_errors(f"{self.path}: "), open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")

    def add_step(self, step, loss, norm, rate, may_skip):
        """Notes a step. loss: this process's part. norm: of the gradient. rate: the highest.
        may_skip: the scaler leaves out a step whose norm is not finite.
        """
        self.waiting.append((step, loss, norm, rate, may_skip))

    def write_steps(self):
        """Writes the steps that wait. Raises ValueError if a loss or a gradient is not finite."""
        losses = machine.sum_over_processes(torch.stack([loss for _, loss, *_ in self.waiting]))
        for (step, _, norm, rate, may_skip), loss in zip(self.waiting, losses):
            norm, self.loss = float(norm), loss
            refuse(not math.isfinite(loss) or not (math.isfinite(norm) or may_skip),
                   f"the loss is {loss}, the gradient's norm {norm} at step {step}: lower --lr or "
                   f"--lr-new, or try --precision fp32")
            self(step=step, loss=loss, norm=norm, lr=rate)
        self.waiting = []
