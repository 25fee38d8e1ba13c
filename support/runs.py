"""The folder of a run: its files are written here, and read, once, as values of declared types."""
import contextlib
import fcntl
import functools
import hashlib
import itertools
import json
import math
import os
import sys
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import get_args, get_origin

import torch

from support import machine
from support.checkpoints import join_names, load_torch, shorten
from support.data import METRICS, Task
from support.files import read_json, write_text, write_whole
from support.machine import main_process, print_once
from support.options import prefix_errors, refuse, source_of


# ---- The folder ---------------------------------------------------------------------------------

def new_folder(out, name, make=False):
    """A folder for a new run: `out`, which must hold none, or the next free runs/name, runs/name-2,
    ...; make: this is made at once, so that no other process takes it.
    """
    if out:
        if Path(out, "last.pt").exists() or Path(out, "best.pt").exists():
            raise ValueError(f"{out}: holds a run; resume it, or name another folder")
        if make:
            Path(out).mkdir(parents=True, exist_ok=True)
        return Path(out)
    for number in itertools.count(1):
        folder = Path("runs", name if number == 1 else f"{name}-{number}")
        with contextlib.suppress(FileExistsError):
            if make:
                folder.mkdir(parents=True)
            if make or not folder.exists():
                return folder


class FolderLocked(ValueError):
    """Another process works in a run's folder."""


@contextlib.contextmanager
def lock_folder(folder):
    """Around all that writes into a run's folder: no other process does so meanwhile.

    Makes the folder, and removes it where no run was begun in it. Ctrl-C says what goes on. Raises
    FolderLocked where another process has it.
    """
    if not main_process():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held it may have removed it just now, and another one made a new one.
            if not os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name)):
                raise BlockingIOError
        except (BlockingIOError, FileNotFoundError):
            raise FolderLocked(f"{folder}: another process trains there; wait for it, or name "
                               f"another folder") from None
        try:
            yield
        except (KeyboardInterrupt, BrokenPipeError):  # the latter: as `| head` ends
            saved = (folder / "last.pt").exists() or (folder / "result.json").exists()
            raise KeyboardInterrupt(f"--resume {folder} goes on" if saved else "") from None
        finally:
            Path(lock.name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()


KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false",
         list: "a list", tuple: "a list"}  # others are objects
TESTED = {"selection_split": str, "metrics": dict[str, dict[str, float]]}
RESULT = TESTED | {"task": str, "model": str, "seed": int, "best_epoch": int,
                   "settings": {"epochs": int}}
CHANGED = {"score": float, "answers": float, "moved": float}
INFLUENCE = {"metric": str, "score": float, "added": dict[str, float],
             "changes": dict[str, CHANGED]}
# What a run is, in best.pt and last.pt beside its weights; see `describe_run`.
RUN = {"task": Task, "new_parameters": list[str], "encoder": dict | None, "tokenizer": dict,
       "tfidf": dict | None, "parser": str | None, "own": dict[str, str | None],
       "pairs": dict[str, str], "weights": dict}


def typed(kind, value, place=""):
    """A value from outside as its declared type.

    Args: kind: int, float, str, bool, dict, tuple, X | None, list[X], tuple[X, ...], dict[str, X],
        a dataclass, or a dict name -> type, beside whose names the value may have others. place:
        the value's name.
    Raises: ValueError saying where, what was expected, what is there.
    """
    origin, parts = get_origin(kind), get_args(kind)
    inside, is_dict = f"{place}." if place else "", isinstance(value, dict)
    if NoneType in parts:
        return None if value is None else typed(parts[0], value, place)
    if is_dict and isinstance(kind, dict):
        found = {name: typed(x, value.get(name), inside + name) for name, x in kind.items()}
        return value | {name: x for name, x in found.items() if name in value}
    if is_dict and is_dataclass(kind):
        known = {f.name: f.type for f in fields(kind) if f.name in value or f.default is MISSING}
        if value.keys() - known.keys():
            raise ValueError(f"{inside}{join_names(sorted(value.keys() - known.keys(), key=str))}: "
                             f"not known here; use the code that made the run")
        return kind(**typed(known, value, place))
    if is_dict and origin is dict:
        return {name: typed(parts[1], x, inside + join_names([name])) for name, x in value.items()}
    if origin in (list, tuple) and isinstance(value, (list, tuple)):
        return origin(typed(parts[0], x, f"{place}[{i}]") for i, x in enumerate(value))
    fits = type(value) is kind or kind is float and type(value) is int or kind is dict and is_dict
    if fits and not (type(value) is int and abs(value) >= 2 ** 63):
        return value
    plain = type(value) in (int, float, str, bool)
    found = "nothing" if value is None else f"a {type(value).__name__}"
    wanted = "an object" if isinstance(kind, dict) else KINDS.get(origin or kind, "an object")
    raise ValueError(f"{f'{place}: ' if place else ''}expected {wanted}, found "
                     f"{shorten(value) if plain else found}; correct or restore it")


def describe_run(settings, task, new, reader, encoder, splits):
    """What a run is beside its weights, a dict of plain values; `read_saved` reads it.

    Args: settings: a dataclass. new: names of the parameters that are new. reader: a
        batches.Reader. encoder: a BertConfig as a dict, or None. splits: dict split -> list of
        Pair, those that training reads.
    """
    own = {name: sha256_of_own(getattr(settings, name)) for name in ("model", "parser")}
    own["parses"] = settings.parses and sha256_of(settings.parses)
    return reader.state() | {
        "settings": asdict(settings), "task": asdict(task), "new_parameters": new,
        "encoder": encoder, "parser": getattr(reader.parser, "fingerprint", None), "own": own,
        "pairs": sha256_of_pairs(splits)}


def sha256_of(path):
    """The sha256 of a file. Raises ValueError where there is none."""
    refuse(not Path(path).is_file(), f"{path}: expected a file, found none; restore it")
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def sha256_of_own(place):
    """That of the file of a class or function of one's own; None: this place names none."""
    file = source_of(place) if ":" in (place or "") else None
    return sha256_of(file) if file else None


def check_pairs(begun, splits):
    """Raises ValueError where sha256_of_pairs gives other sums than when a run was begun."""
    found = sha256_of_pairs(splits)
    for split in begun:
        refuse(found.get(split) != begun[split], f"{split}: not the pairs that the run was begun "
               f"with; restore the data set, or start another run")


def sha256_of_pairs(splits):
    """dict split -> sha256 of its pairs, in their order."""
    sums = {}
    for split, pairs in splits.items():
        digest = hashlib.sha256()
        for pair in pairs:
            digest.update(ascii(pair).encode())
        sums[split] = digest.hexdigest()
    return sums


def read_to_resume(folder, kind, given):
    """(the settings of the run in a folder with those of `given` that do not change what it is,
    what `read_saved` read: last.pt, or best.pt where the run is finished)

    Raises ValueError where another setting, or a file of one's own, is not the run's.
    """
    ended = (folder / "result.json").exists()
    saved = read_saved(folder / ("best.pt" if ended else "last.pt"), kind, given.get("model"),
                       given.get("parser"))
    parses = None if ended else saved["settings"].parses
    refuse(parses and sha256_of(parses) != saved["own"].get("parses"), f"{parses}: not the file "
           f"that the run was begun with, as its sha256 says; restore it, or start another run")
    for name in given.keys() - {"device", "workers", "data_dir"}:
        begun = getattr(saved["settings"], name)
        refuse(given[name] != begun, f"--{name.replace('_', '-')} {given[name]}: the run in "
               f"{folder} has {begun}; leave it out, or start another run")
    return replace(saved["settings"], **given), saved


def insert_own_code(content, model, parser):
    """What a run is, with `model` and `parser` in the place of a class and function that it names.

    A file never names code that is run: who opens it says this once more, wherever it lies now,
    and its file must be that which the run was made with. Raises ValueError where it is not. A
    function itself may stand for `parser`; of a run without, the parser is left alone.
    """
    typed({"settings": {"model": str, "parser": str | None}, "own": dict[str, str | None]}, content)
    said = {}
    for name, own in (("model", model), ("parser", parser)):
        saved = content["settings"].get(name) or ""
        if ":" not in saved and (own in (None, saved) or name == "parser"):
            continue
        said[name] = typed(str | None, None if name == "parser" and callable(own) else own, name)
        refuse(own is None, f"the {name} is somebody's own, {saved}, and opening a run runs no "
               f"code; if you know that file, say {name} {saved} as well")
        if said[name]:
            refuse(own.rpartition(":")[2] != saved.rpartition(":")[2],
                   f"{name} {own}: the run's is {saved}")
            refuse(sha256_of_own(own) != content["own"].get(name), f"{name} {own}: not the file "
                   f"that the run was made with, as its sha256 says; restore it, or train anew")
    return content | {"settings": content["settings"] | said}


def read_saved(path, kind, model=None, parser=None):
    """best.pt or last.pt, a dict: what `describe_run` says, with settings as a dataclass of this
    kind and task as a Task; weights; what else is there.

    model, parser: of one's own, that the run was made with; the file alone may not name them.
    Raises ValueError where there is no run, or one that other code made, or it is damaged.
    """
    folder = path.parent
    refuse((folder / "comparison.json").exists(), f"{folder}: a group of runs; name one of them, "
           f"or print their table by python -m experiments.compare --show {folder}")
    if not path.exists():
        begun = path.name == "best.pt" and (folder / "last.pt").exists()
        hint = f"--resume {folder} goes on" if begun else "a run is such as runs/toy-dafa"
        raise ValueError(f"{path}: no file is there; {hint}")
    content = load_state(path)
    with prefix_errors(f"{path}: "):
        refuse(not isinstance(content, dict) or "settings" not in content,
               "expected a run, with its settings; train anew")
        saved = typed(RUN | {"settings": kind}, insert_own_code(content, model, parser))
        task = saved["task"]
        once = len(set(task.labels)) == len(task.labels) != 1
        measured = task.metrics and METRICS.keys() >= set(task.metrics)
        refuse(not (once and measured and task.positive in ("", *task.labels)), "task: expected "
               f"labels, each once, one of them positive, and metrics of {', '.join(METRICS)}; "
               f"train anew")
    return saved


def read_result(folder, name="result.json"):
    """The dict of result.json, or of test.json. Raises ValueError naming the file."""
    path, ended = Path(folder, name), name == "result.json"
    refuse(ended and not path.exists(), f"{path} is not there; where last.pt is, --resume {folder} "
           f"finishes the run")
    content = read_json(path)
    with prefix_errors(f"{path}: "):
        result = typed(RESULT if ended else TESTED, content)
        if result.get("influence"):
            typed(INFLUENCE, result["influence"], "influence")
        refuse(ended and not result["metrics"].get(result["selection_split"]),
               "metrics: expected those of selection_split too; correct or restore it")
    return result


@functools.cache
def code_of(model):
    """dict file -> sha256 of our modules in use and of `model`'s file, as at the first call."""
    root, own = Path(__file__).parent.parent, Path(model.partition(":")[0])
    paths = [Path(getattr(module, "__file__", None) or "") for module in sys.modules.values()]
    ours = {path.relative_to(root) for path in paths if path.parent in (root, root / "support")}
    files = {str(path): root / path for path in sorted(ours)}
    files |= {str(own): own} if own.suffix == ".py" else {}
    return {name: sha256_of(path) for name, path in files.items()}


def save_state(state, path):
    """Writes what torch.save takes, whole or not at all."""
    write_whole(path, lambda file: torch.save(state, file))


def load_state(path):
    """What torch.save wrote, on the CPU, nothing in it run. Raises ValueError naming the file."""
    try:
        return load_torch(path)
    except Exception as error:  # torch raises many kinds
        raise ValueError(f"{path}: expected a checkpoint, found {shorten(error)}; train "
                         f"again") from None


@dataclass
class Progress:
    """How far a training is: what last.pt holds beside weights, optimizer and random states."""
    optimizer: str               # its kind
    step: int = 0
    epoch: int = 0
    best: float | None = None    # dev result, and when it was reached
    best_epoch: int = 0
    best_step: int = 0
    lowest: float = math.inf     # dev loss, and when it was reached
    lowest_step: int = 0
    pairs: int = 0
    load_seconds: float = 0.0
    train_seconds: float = 0.0
    evaluate_seconds: float = 0.0

    def judge(self, result, loss):
        """Ends an epoch with its dev result and loss. -> whether the result is the best so far"""
        self.epoch += 1
        better = self.best is None or result > self.best
        if better:
            self.best, self.best_epoch, self.best_step = result, self.epoch, self.step
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
    """Writes last.pt; called on all processes at once, since each has a random state of its own."""
    states = machine.gather(machine.random_state(run.settings.device))
    if main_process():
        save_state(run.contents | {
            "weights": run.model.state_dict(), "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(), "random": states, "progress": asdict(progress),
            "log": log.path.read_text("utf-8")}, run.folder / "last.pt")


def save_best(run):
    """Writes best.pt: all with which a run is used."""
    save_state(run.contents | {"weights": run.model.state_dict()}, run.folder / "best.pt")


def read_progress(folder, saved):
    """The Progress of what `read_saved` read of last.pt. Raises ValueError naming the file."""
    with prefix_errors(f"{folder / 'last.pt'}: "):
        saved |= typed({"random": list[tuple], "progress": Progress, "scaler": dict, "log": str,
                        "optimizer": {"state": dict, "param_groups": list[dict]}}, saved)
        progress, settings = saved["progress"], saved["settings"]
        kinds = {settings.optimizer, "sgd" if settings.recipe == "printed" else None}
        numbers = [x for x in vars(progress).values() if type(x) is int]
        refuse(min(numbers) < 0 or progress.optimizer not in kinds, "progress: expected numbers "
               "from 0 on, and an optimizer of this run; train again")
    return progress


def load_last(run, saved, optimizer, scaler):
    """Takes weights, optimizer, scaler and random states of what `read_saved` read, and empties
    it. Raises ValueError naming last.pt where they are not this run's.
    """
    path, (rank, count) = run.folder / "last.pt", machine.world()
    load_weights(run.model, saved["weights"], path)
    groups, theirs = optimizer.state_dict()["param_groups"], saved["optimizer"]["param_groups"]
    try:
        for group, other in zip(groups, theirs, strict=True):
            group["params"] = other["params"]  # the rest is in the settings
        optimizer.load_state_dict({"state": saved["optimizer"]["state"], "param_groups": groups})
        scaler.load_state_dict(saved["scaler"])
        if len(saved["random"]) == count:
            machine.restore_random_state(saved["random"][rank], run.settings.device)
        else:
            print_once(f"{path} is of {len(saved['random'])} processes: dropout draws other "
                       f"numbers now")
        sound = len({tuple(state) for state in optimizer.state.values()}) < 2
        for p, state in optimizer.state.items():
            for name, x in state.items():
                shape = () if name == "step" else p.shape
                sound &= x.shape == shape and bool(x.isfinite().all())
    except Exception:  # torch raises many kinds
        sound = False
    refuse(not sound, f"{path}: expected the optimizer's and the random numbers' state of this "
           f"run, found another; train again")
    saved.clear()  # it is large


def load_weights(model, state, path):
    """Takes a model's weights, of the file `path`. Raises ValueError naming it where they are
    another model's, or not finite.
    """
    try:
        for name, x in state.items():
            if not (x.is_floating_point() and x.layout == torch.strided and x.isfinite().all()):
                raise ValueError(f"{name} holds what is no finite number")
        model.load_state_dict(state)
    except Exception as error:  # torch lists every name, or raises what is not expected
        raise ValueError(f"{path}: its weights are not those of this model as this code has it; "
                         f"train anew, or use the code that made it ({shorten(error)})") from None


class Log:
    """log.jsonl, one event a line, of the main process. It begins with `kept`, so that what came
    after a cut run's checkpoint is dropped. `loss` is that of the last step written.
    """

    def __init__(self, path, kept=""):
        self.path, self.waiting, self.loss = Path(path), [], math.nan
        if main_process():
            write_text(self.path, kept)

    def __call__(self, **event):
        if main_process():
            try:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(event) + "\n")
            except OSError as error:
                raise OSError(f"cannot write {self.path}: {shorten(error)}; make room, and "
                              f"--resume {self.path.parent}") from None

    def add_step(self, step, loss, norm, lr, overflow):
        """Keeps the numbers of a training step until `write_steps`: a GPU goes on meanwhile.

        loss: this process's share. norm: the gradient's. lr: the highest rate. overflow: may the
        norm be infinite? Then the scaler leaves the step out.
        """
        self.waiting.append((step, loss, norm, lr, overflow))

    def write_steps(self, due):
        """Writes the steps added since the last time. -> whether a process has something `due`

        Raises ValueError where training has failed; what was saved before is sound.
        """
        shares = [x for _, loss, norm, _, _ in self.waiting
                  for x in (loss, norm / machine.world()[1])]
        due, *sums = machine.sum_over_processes(due, *shares)
        found = zip(self.waiting, sums[::2], sums[1::2], strict=True)
        for (step, _, _, lr, overflow), loss, norm in found:
            refuse(not math.isfinite(loss) or not (math.isfinite(norm) or overflow),
                   f"the loss is {loss}, the gradient's norm {norm} at step {step}: lower --lr or "
                   f"--lr-new, or try --precision fp32")
            self(step=step, loss=loss, norm=norm, lr=lr)
            self.loss = loss
        self.waiting = []
        return bool(due)
