"""Train, evaluate and use sentence-pair models: `python train.py --task mrpc --model dafa`.

One flat loop (`train_model`), read from top to bottom: order, batch, forward, loss, backward, clip,
rate, step, log; then save, evaluate, keep the best. The best epoch is chosen on dev; test is read
when `--test` asks for it. support.runs says what lies in a run's folder.

From Python: `run = train.open_run("runs/toy-dafa")`, then run.predict, run.evaluate, run.explain.
Several GPUs or machines: `torchrun --nproc-per-node 4 train.py ...` cuts each batch.

Left out: what is computed (semmatch, reread, bert_min, priors), how pairs become tensors (batches),
what a run depends on (settings), how a model is made and used (run), where pairs come from and what
lies in the folder (support), comparisons, pages, speed (experiments).
"""
import functools
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm import tqdm

import batches
from run import (Run, check_pairs, new_run, open_run, predict_file, print_limit, read_run,
                 saved_run, score_test)
from settings import (METHODS, PROCESS, Recipe, Settings, add_options, check_same, decide,
                      read_options)
from support import machine, runs, summary
from support.data import (describe_labels, load_pairs, load_test_splits, loss_sum, metric_title,
                          seen_in_training)
from support.files import write_json, write_text
from support.machine import main_process, print_once
from support.options import Arguments, refuse, run_command

__all__ = ["METHODS", "Recipe", "Run", "Settings", "decide", "open_run", "train_model"]

LOG_EVERY = 10        # steps after which losses are written: then a GPU is waited for
SAVE_SECONDS = 300.0  # how often last.pt is written within an epoch


# ---- The optimizer ------------------------------------------------------------------------------

def make_optimizer(run):
    """No decay on biases and norms; what the method adds to an encoder has its own rate."""
    recipe, new = run.recipe, run.contents.get("new_parameters", ())
    classes = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam,
               "adadelta": functools.partial(torch.optim.Adadelta, rho=0.95, eps=1e-8)}
    groups = {}
    for name, p in run.model.named_parameters():
        if p.requires_grad:
            peak = recipe.lr_new if name in new else recipe.lr
            decay = recipe.weight_decay if p.dim() > 1 else 0.0
            groups.setdefault((peak, decay), []).append(p)
    can_fuse = recipe.optimizer != "adadelta" and recipe.device.split(":")[0] in ("cpu", "cuda")
    fused = {"fused": True} if can_fuse else {}  # one pass over the weights: a fifth of the time
    groups = [{"params": p, "lr": peak, "peak": peak, "weight_decay": decay}
              for (peak, decay), p in groups.items()]
    return classes[recipe.optimizer](groups, **fused)


def rate(step, total, warmup, schedule="linear"):
    """Factor of the learning rate: up over the first warmup·total steps, then down to 0; straight,
    or cosine: each way half a cosine, the "Cosine Warm Up Decay" of LadRa-Net without the jump of
    its released code; flat: 1."""
    rise = warmup * total
    share = min(1.0, (step + 1) / max(1.0, rise), (total - step) / max(1.0, total - rise))
    if schedule == "cosine":
        return (1 - math.cos(math.pi * share)) / 2
    return share if schedule == "linear" else 1.0


def set_rates(optimizer, run, step, total):
    """The rates of a step. -> the highest

    As the knowledge paper prints it, also the decay, Eq. (9), of "all weights", which we read as
    biases and norms too.
    """
    factor = rate(step, total, run.recipe.warmup, run.recipe.schedule)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor
        if run.settings.recipe == "printed":
            group["weight_decay"] = l2_ratio(step)
    return max(group["lr"] for group in optimizer.param_groups)


def l2_ratio(step: int, full_step=100_000, full_ratio=0.9e-5) -> float:
    """Weight of the L2 penalty at a step.  Knowledge Eq. (9)

        L2Ratio_t = σ((t - L2FullStep/2) · 8 / (L2FullStep/2)) · L2FullRatio

    Close to 0 at first (σ(-8) = 0.0003 of the full ratio), half of it at L2FullStep/2, 0.9997 of it
    at L2FullStep.
    Assumes: the penalty is half the sum of squares: the ratio is the decay added to a gradient.
    """
    x = (step - full_step / 2) * 8 / (full_step / 2)
    return full_ratio / (1 + math.exp(-x))


# ---- The loop -----------------------------------------------------------------------------------

def train_model(settings: Settings, recipe: Recipe, folder: str | Path, saved=None):
    """Trains one model into a folder, or goes on there. -> what result.json holds, a dict

    saved: what run.read_run read of the folder's last.pt, to go on with.
    """
    run, examples, progress = begin(settings, recipe, Path(folder), saved)
    train_set, (rank, processes) = examples["train"], machine.world()
    steps = math.ceil(len(train_set.pairs) / recipe.batch_size)  # of an epoch
    optimizer = make_optimizer(run)
    scaler = machine.loss_scaler(recipe.device, recipe.precision)
    log = runs.Log(run.folder / "log.jsonl", saved["log"] if saved else "")
    if saved:
        runs.load_last(run, saved, optimizer, scaler)
    runs.save_last(run, log, optimizer, scaler, progress)
    forward = machine.share_gradients(run.model, recipe.device)
    weights = run.class_weights(train_set.pairs)
    while not progress.finished(recipe.epochs, recipe.patience, steps):
        run.model.train()
        for inputs, labels, part in parts_of_epoch(run, train_set, progress, steps, log):
            forward.require_backward_grad_sync = part.last  # of processes, in a batch's last part
            with machine.autocast(recipe.device, recipe.precision):
                logits = forward(**inputs)
            loss = loss_sum(logits, labels, run.task, weights) * (rank < part.size) / part.size
            scaler.scale(loss * processes).backward()  # processes average gradients
            log.add_loss(loss)
            if not part.last:  # of its batch
                continue
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(run.model.parameters(), recipe.clip)
            overflow = scaler.is_enabled() and scaler.get_scale() > 1  # maybe: a step left out
            highest = set_rates(optimizer, run, progress.step, recipe.epochs * steps)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            progress.step += 1
            log.add_step(progress.step, norm, highest, overflow)
            if progress.step % LOG_EVERY == 0 or progress.step % steps == 0:
                if log.write_steps(main_process() and time.monotonic() - log.saved > SAVE_SECONDS):
                    runs.save_last(run, log, optimizer, scaler, progress)
        runs.save_last(run, log, optimizer, scaler, progress)
        judge_epoch(run, examples[run.task.selection], progress, log)
    return finish_training(run, examples, progress)


class Part(NamedTuple):
    """This process's part of a batch."""

    places: list  # of its pairs
    size: int     # pairs of the whole batch, over all processes
    last: bool    # a step follows


def parts_of_epoch(run, train_set, progress, steps, log):
    """What is left of an epoch's batches, in an order that the seed decides: (inputs, labels, Part)
    each, on the run's device.
    """
    settings, recipe, parts = run.settings, run.recipe, []
    order = batches.training_batches(train_set.lengths, recipe.batch_size,
                                     f"{settings.seed} {progress.epoch}", run.task.block)
    for batch in order[progress.step - progress.epoch * steps:]:
        shares = machine.cut_batch(batch, settings.accumulate)
        parts += [Part(share, len(batch), share is shares[-1]) for share in shares]
    loader = train_set.loader([part.places for part in parts], recipe.device.startswith("cuda"))
    title = f"epoch {progress.epoch + 1}/{recipe.epochs}"
    with tqdm(desc=title, total=steps * recipe.epochs, initial=progress.step, leave=False,
              disable=None if main_process() else True) as bar:
        for batch_and_labels, part in zip(loader, parts):
            yield *machine.to_device(batch_and_labels, recipe.device), part
            bar.set_postfix(loss=f"{log.loss:.3f}", refresh=False)
            bar.update(progress.step - bar.n)


def begin(settings, recipe, folder, saved):
    """What training begins with, or goes on with. -> (Run, dict split -> batches.Examples,
    runs.Progress)
    """
    progress = runs.Progress()
    with machine.main_process_first():
        task, splits = load_pairs(settings)
        if saved:
            run = saved_run(settings, recipe, folder / "last.pt", saved)
            check_pairs(run, task, splits)
            examples = {name: run.examples(splits[name]) for name in seen_in_training(splits)}
            with runs.made_here(folder / "last.pt"):
                progress = runs.Progress(**saved["progress"])
            best = folder / "best.pt"
            there = runs.read_saved(best)["id"] if best.exists() else None
            refuse(progress.best_epoch and there != saved["id"], f"{best}: of another training "
                   f"than last.pt, or not there; copy both again, or train anew")
        else:
            if main_process():
                # another run's files are not overwritten
                runs.new_folder(folder, None).mkdir(parents=True, exist_ok=True)
            run, examples = new_run(settings, recipe, folder, task, splits)
    torch.manual_seed(settings.seed + machine.world()[0])
    run.model.to(recipe.device)
    describe_training(run, examples)
    return run, examples, progress


def describe_training(run, examples):
    """Says what is trained on what."""
    recipe, pairs = run.recipe, {name: x.pairs for name, x in examples.items()}
    steps = recipe.epochs * math.ceil(len(pairs["train"]) / recipe.batch_size)
    new = run.contents["new_parameters"]
    weights = sum(p.numel() for p in run.model.parameters())
    print_once(f"{run.folder}: {run.settings.model} on {run.task.name}, {weights:,} parameters, "
               f"{recipe.device} {recipe.precision}\n{len(pairs['train'])} pairs, "
               f"{steps} steps of {recipe.batch_size}\n{describe_labels(run.task, pairs)}")
    print_limit(run, examples)
    if not new and recipe.lr_new != recipe.lr:
        print_once(f"--lr-new {recipe.lr_new:g} is not used: nothing is added to a trained encoder")
    if new:
        print_once(f"{len(new)} tensors are new, at a rate of {recipe.lr_new:g}; config.json "
                   f"lists them")


def judge_epoch(run, examples, progress, log):
    """Scores dev, keeps the weights if it is the best epoch so far, and says so."""
    scores, mean_loss = run.score(examples)
    better = progress.judge(scores[run.task.metrics[0]], mean_loss)
    if better and main_process():
        runs.save_best(run, progress)
    split, numbers = run.task.selection, [
        f"{metric_title(name, run.task.positive)} {100 * scores[name]:.1f}"
        for name in run.task.metrics]
    log(step=progress.step, epoch=progress.epoch, split=split, mean_loss=mean_loss, **scores)
    print_once(f"epoch {progress.epoch}: {split} {', '.join(numbers)}"
               f"{', the best so far' if better else ''}")


def finish_training(run, examples, progress):
    """Evaluates the best epoch and writes result.json, which it returns; last.pt is removed."""
    settings, recipe, best = run.settings, run.recipe, run.folder / "best.pt"
    machine.gather(None)  # best.pt is there
    runs.load_weights(run.model, runs.read_saved(best), best)
    metrics = {name: run.evaluate(x) for name, x in examples.items() if name != "train"}
    result = {"id": run.contents["id"], "task": run.task.name, "model": settings.model,
              "bert": recipe.bert, "seed": settings.seed, "selection_split": run.task.selection,
              "positive": run.task.positive, "best_epoch": progress.best_epoch,
              "metrics": metrics, "pairs": {name: len(x.pairs) for name, x in examples.items()},
              "seconds": round(progress.seconds, 2),
              "parameters": sum(p.numel() for p in run.model.parameters()),
              "new_parameters": sum(p.numel() for name, p in run.model.named_parameters()
                                    if name in run.contents["new_parameters"]),
              "settings": run.contents["settings"], "recipe": run.contents["recipe"],
              "versions": machine.versions(recipe.device),
              "influence": run.influence(examples[run.task.selection]) if run.changes() else None}
    if main_process():
        lines = (run.folder / "log.jsonl").read_text("utf-8").splitlines()
        picture = summary.draw_run([json.loads(line) for line in lines], run.task.metrics[0],
                                   progress.best_epoch)
        write_text(run.folder / "curves.svg", picture)
        for name in ("best.pt", "last.pt"):  # what a process that was killed has left
            for path in run.folder.glob(f"{name}.*.tmp"):
                path.unlink()
        write_json(run.folder / "result.json", result)  # with which the run has ended
        (run.folder / "last.pt").unlink(missing_ok=True)
    return result


# ---- The command line ---------------------------------------------------------------------------

HELP = """Train and use sentence-pair models; README.md says more.

  python train.py                                      DAFA on toy, offline, a minute
  python train.py --task mrpc --model dafa             the main job
  python train.py --from runs/mrpc-dafa --predict pairs.tsv      label your own pairs"""


def command_line():
    """One option for each field of Settings and Recipe, and those that use a run."""
    parser = Arguments("train.py", HELP)
    add_options(parser)
    used = parser.add_argument_group("a run")
    used.add_argument("--resume", metavar="RUN", help="go on in this folder, where it was cut off")
    used.add_argument("--from", dest="run", metavar="RUN", help="use it; alone: show its result")
    used.add_argument("--test", action="store_true", help="score the best epoch on test, once")
    used.add_argument("--predict", metavar="FILE", help="label a file, or a split by its name; "
                      "--out names what is written")
    return parser


def use_run(folder, given):
    """What --from does."""
    test, file = given.pop("test", False), given.pop("predict", None)
    columns, out = given.pop("columns", ""), given.pop("out", None)
    refuse(file is None and (columns or out), "--columns and --out go with --predict here")
    run = open_run(folder, **given)
    if file is not None:
        predict_file(run, file, columns and columns.split(","), out)
    if test:
        print_once(summary.metrics_table(score_test(run), run.task.positive))
    if not test and file is None:
        result = read_own_result(run.folder, run.contents)
        with runs.made_here(run.folder / "result.json"):
            summary.show_result(run.folder, result)


def read_own_result(folder, saved):
    """The dict of result.json. Raises ValueError where another training wrote it than `saved`."""
    result = runs.read_result(folder)
    refuse(result.get("id") != saved["id"], f"{folder / 'result.json'}: of another training than "
           f"best.pt; copy the run again, or evaluate it anew")
    return result


def read_to_resume(folder, given):
    """(saved, Settings, Recipe) of a folder's last.pt, or of its best.pt where training has ended.
    given: options; those that do not change what the run is take the place of its own.
    """
    ended = (folder / "best.pt").exists() and not (folder / "last.pt").exists()
    path = folder / ("best.pt" if ended else "last.pt")
    saved, settings, recipe = read_run(path, given.get("model"), given.get("parser"))
    check_same((settings, recipe), given)
    refuse("parser" in given and not saved["settings"]["parser"], f"--parser {settings.parser}: "
           f"the run has none of your own; leave it out, or start another run")
    given = {name: given[name] for name in given.keys() & PROCESS}
    device = given.pop("device", recipe.device)
    return saved, replace(settings, **given), replace(recipe, device=device)


def train_or_resume(given):
    """Trains, or goes on with --resume; --test reads test at the end. -> (folder, its result)"""
    resume, test = given.pop("resume", None), given.pop("test", False)
    if resume is None:
        saved, (settings, recipe) = None, read_options(given)
    else:
        folder = Path(resume)
        saved, settings, recipe = read_to_resume(folder, given)
    machine.prepare_device(recipe.device)
    if test:
        load_test_splits(settings)  # before hours of training
    if resume is None:
        name = f"{settings.task_name}-{settings.model.rpartition(':')[2]}"
        folder = machine.gather(runs.new_folder(settings.out, name) if main_process() else None)[0]
    with runs.lock_folder(folder):
        if saved and "progress" not in saved:  # best.pt: training has ended
            result = read_own_result(folder, saved)
        else:
            result = train_model(settings, recipe, folder, saved)
        if test:
            run = open_run(folder, settings.parser, settings.model, device=recipe.device)
            result["metrics"] |= score_test(run)
    return folder, result


def main(argv=None):
    """The command line. Raises ValueError or OSError for what `run_command` shows in one line."""
    given = command_line().parse(argv)
    refuse("predict" in given and "run" not in given, "--predict needs --from RUN, a trained run")
    refuse("resume" in given and "run" in given, "--from or --resume, not both")
    with machine.torch_session(given):
        if "run" in given:
            use_run(given.pop("run"), given)
        else:
            summary.show_result(*train_or_resume(given))


if __name__ == "__main__":
    sys.exit(run_command(main, "train.py"))
