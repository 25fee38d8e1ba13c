"""Train, evaluate and use sentence-pair models: `python train.py --task mrpc --model dafa`.

`training_loop` is one flat loop. Read it from top to bottom: order, batch, seed, forward, loss,
backward, clip, rates, step, log; then save, evaluate, keep the best. The dev split chooses the best
epoch. The test split is read if `--test` asks for it. run.py lists the files in a run's folder.

From Python: `run = train.open_run("runs/toy-dafa")`, then run.predict, run.evaluate, run.explain.
Several GPUs or machines: `torchrun --nproc-per-node 4 train.py ...` cuts each batch.

Left out: the equations (semmatch, reread, bert_min, priors), how pairs become tensors (batches),
how a model is made and used (run), data sets and files (support).
"""
import contextlib
import json
import math
import random
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from tqdm import tqdm

from batches import training_batches
from run import (check_pairs, check_saved, load_run, lock_folder, made_here, new_run, open_run,
                 predict_file, read_saved, save, score_test)
from settings import add_options, read_options
from support import machine, summary
from support.datasets import load_pairs, load_test_splits
from support.errors import refuse
from support.files import new_folder, read_json, write_json, write_text
from support.machine import main_process, print_once
from support.options import Arguments, run_command
from support.pairs import loss_sum, metric_title, seen_in_training

LOG_EVERY = 10        # steps between two writes to the log; each write waits for the GPU
SAVE_SECONDS = 300.0  # at least so long between two writes of last.pt within an epoch


def make_optimizer(run):
    """The optimizer. Biases, norms, vectors have no decay; new parameters have their own rate."""
    recipe, new = run.recipe, run.begun["new_parameters"]
    groups = {}  # (highest rate, decay) -> its parameters
    for name, p in run.model.named_parameters():
        if p.requires_grad:
            peak = recipe.lr_new if name in new else recipe.lr
            decay = recipe.weight_decay if p.dim() > 1 else 0.0
            groups.setdefault((peak, decay), []).append(p)
    groups = [{"params": p, "lr": peak, "peak": peak, "weight_decay": decay}
              for (peak, decay), p in groups.items()]
    if recipe.optimizer == "adadelta":
        return torch.optim.Adadelta(groups, rho=0.95, eps=1e-8)
    fused = recipe.device.startswith(("cpu", "cuda")) or None  # one pass: a fifth of the time
    kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, fused=fused)


def rate(step, total, warmup, schedule="linear"):
    """Factor of the learning rate: it rises over the first warmup·total steps, then falls to 0.

    linear: in straight lines. cosine: each way half a cosine, LadRa-Net's "Cosine Warm Up Decay"
    without the jump of its released code. flat: always 1.
    """
    rise = warmup * total
    share = min(1.0, (step + 1) / max(1.0, rise), (total - step) / max(1.0, total - rise))
    if schedule == "cosine":
        return (1 - math.cos(math.pi * share)) / 2
    return share if schedule == "linear" else 1.0


def set_rates(optimizer, run, step, total):
    """Sets the learning rates of a step. Returns: the highest of them.

    The knowledge paper's recipe also sets the decay of "all weights", biases and norms too.
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


@dataclass
class Progress:
    """How far a training has come; last.pt holds this too."""
    step: int = 0
    epoch: int = 0
    best: float = -math.inf      # the best dev result, and its epoch
    best_epoch: int = 0
    lowest: float = math.inf     # the lowest dev loss, and its step
    lowest_step: int = 0
    seconds: float = 0.0         # of training and evaluation

    def judge(self, result, loss):
        """Notes the dev result and dev loss of an epoch. Returns: is the result the best so far?"""
        self.epoch += 1
        better = result > self.best
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


def training_loop(run, examples, saved=None):
    """Trains a run to its end. Returns: its Progress.

    examples: dict split -> batches.Examples. saved: the content of the run's last.pt, from which a
    training goes on. Each step draws from a seed of its own, so that no random state is saved.
    """
    recipe, train_set, (rank, processes) = run.recipe, examples["train"], machine.world()
    steps = math.ceil(len(train_set.pairs) / recipe.batch_size)  # in an epoch
    weights, waiting = run.class_weights(train_set.pairs), []
    optimizer, progress = make_optimizer(run), Progress()
    scaler = torch.amp.GradScaler(recipe.device.split(":")[0], enabled=recipe.precision == "fp16")
    if saved:
        progress = load_states(run, saved, optimizer, scaler)
    keep_log(run, progress)
    save_last(run, optimizer, scaler, progress)
    forward = machine.share_gradients(run.model, recipe.device)
    written = clock = time.monotonic()
    while not progress.finished(recipe.epochs, recipe.patience, steps):
        order = training_batches(train_set.lengths, recipe.batch_size,
                                 f"{run.settings.seed} {progress.epoch}", run.task.block)
        order = order[progress.step - progress.epoch * steps:]
        # Each process has its pairs of a batch. One without a pair takes the first, with loss 0.
        own = [batch[rank::processes] or batch[:1] for batch in order]
        bar = tqdm(train_set.loader(own, recipe.device.startswith("cuda")), leave=False,
                   desc=f"epoch {progress.epoch + 1}/{recipe.epochs}",
                   disable=None if main_process() else True)
        run.model.train()
        for batch, batch_and_labels in zip(order, bar):
            torch.manual_seed(seed_of_step(run.settings.seed, progress.step, rank))  # of dropout
            inputs, labels = machine.to_device(batch_and_labels, recipe.device)
            with machine.autocast(recipe.device, recipe.precision):
                logits = forward(**inputs)
            loss = loss_sum(logits, labels, run.task, weights) / len(batch) * (rank < len(batch))
            scaler.scale(loss * processes).backward()  # processes share a mean; we need the sum
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(run.model.parameters(), recipe.clip)
            highest = set_rates(optimizer, run, progress.step, recipe.epochs * steps)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            progress.step += 1
            waiting.append((progress.step, loss.detach(), norm, highest))
            ended = progress.step % steps == 0
            if ended or progress.step % LOG_EVERY == 0:
                bar.set_postfix_str(f"loss={write_steps(run, waiting):.3f}", False)
                progress.seconds += time.monotonic() - clock
                clock = time.monotonic()
                if ended or clock - written > SAVE_SECONDS:
                    save_last(run, optimizer, scaler, progress)
                    written = clock
        judge_epoch(run, examples[run.task.selection], progress)
    progress.seconds += time.monotonic() - clock
    return progress


def seed_of_step(seed, step, rank):
    """The seed of what a process draws in a step: for another step or process, other numbers."""
    return random.Random(f"{seed} {step} {rank}").getrandbits(63)


def save_last(run, optimizer, scaler, progress):
    """Writes last.pt, from which --resume goes on."""
    if main_process():
        save(run, "last.pt", optimizer=optimizer.state_dict(), scaler=scaler.state_dict(),
             progress=asdict(progress))
        if progress.step == 0:
            names = "settings", "recipe", "task", "new_parameters"
            write_json(run.folder / "config.json", {name: run.state()[name] for name in names})


def load_states(run, saved, optimizer, scaler):
    """Puts the states of `saved`, the run's last.pt, into their places. Returns: Progress."""
    best = run.folder / "best.pt"
    with made_here(run.folder / "last.pt"):
        optimizer.load_state_dict(saved["optimizer"])
        scaler.load_state_dict(saved["scaler"])
        progress = Progress(**saved["progress"])
    refuse(progress.best_epoch and read_saved(best)["id"] != saved["id"],
           f"{best}: another training wrote it than last.pt; copy both again, or train anew")
    return progress


def judge_epoch(run, examples, progress):
    """Scores dev, writes best.pt if this epoch is the best so far, logs and prints the scores."""
    scores, mean_loss, _ = run.score(examples)
    better = progress.judge(scores[run.task.metrics[0]], mean_loss)
    if better and main_process():
        save(run, "best.pt", epoch=progress.epoch)
    add_to_log(run, step=progress.step, epoch=progress.epoch, split=run.task.selection,
               mean_loss=mean_loss, **scores)
    numbers = [f"{metric_title(name, run.task.positive)} {100 * scores[name]:.1f}"
               for name in run.task.metrics]
    print_once(f"epoch {progress.epoch}: {run.task.selection} {', '.join(numbers)}"
               f"{', the best so far' if better else ''}")


def keep_log(run, progress):
    """Keeps the lines of log.jsonl up to `progress`: a training that goes on writes the rest anew.
    A killed process can have left half a line at the end."""
    path = run.folder / "log.jsonl"
    lines = path.read_text("utf-8").splitlines(True) if path.exists() else []
    kept = []
    with made_here(path):
        for line in lines:
            event = json.loads(line) if line.endswith("\n") else {"step": math.inf}
            if event["step"] <= progress.step and event.get("epoch", 0) <= progress.epoch:
                kept.append(line)
    if main_process():
        write_text(path, "".join(kept))


def add_to_log(run, **event):
    """Writes an event."""
    if main_process():
        with open(run.folder / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


def write_steps(run, waiting):
    """Writes the steps in the list `waiting`, and empties it; each number waits for the GPU.

    waiting: of (step, this process's part of the loss, norm of the gradient, highest rate).
    Returns: the last loss. Raises ValueError for a loss that is not finite, and for such a norm,
    but GradScaler leaves out a step of fp16 with such a norm, and lowers its scale.
    """
    parts = machine.gather(torch.stack([loss for _, loss, *_ in waiting]).tolist())
    losses = [sum(of_step) for of_step in zip(*parts)]
    for (step, _, norm, highest), loss in zip(waiting, losses):
        wrong = not math.isfinite(loss + (0 if run.recipe.precision == "fp16" else norm))
        refuse(wrong, f"the loss is {loss}, the gradient's norm {float(norm)} at step {step}: "
               "lower --lr or --lr-new, or try --precision fp32")
        add_to_log(run, step=step, loss=loss, norm=float(norm), lr=highest)
    waiting.clear()
    return losses[-1]


def begin(test=False, **given):
    """Trains a new run. test: score test, too. given: options, as on the command line.

    Returns: (the run's folder, dict of result.json, with test's metrics where asked for)
    """
    settings, recipe = read_options(given)
    machine.prepare_device(recipe.device)  # a mistake is found before there is a folder
    if test:
        load_test_splits(settings)  # a missing file is found before hours of training
    name = f"{settings.task_name}-{settings.model.rpartition(':')[2]}"
    folder = machine.gather(new_folder(settings.out, name) if main_process() else None)[0]
    with lock_folder(folder):
        with machine.main_process_first():  # which downloads and parses; the others find it done
            run, examples = new_run(settings, recipe, folder, *load_pairs(settings))
        check_saved(run)
        return folder, train_run(run, examples, test)


def resume(folder, test=False, **given):
    """Continues the training in a folder. given: options that load_run takes. Else as `begin`."""
    folder = Path(folder)
    with lock_folder(folder):
        run, saved = load_run(folder / "last.pt", **given)
        refuse(run.settings.parser and not saved["settings"]["parser"],
               f"--parser {run.settings.parser}: the run has the shipped parser; leave it out")
        if test:
            load_test_splits(run.settings)
        with machine.main_process_first():
            task, splits = load_pairs(run.settings)
            check_pairs(run, task, splits)
            examples = {name: run.examples(splits[name]) for name in seen_in_training(splits)}
        return folder, train_run(run, examples, test, saved)


def train_run(run, examples, test, saved=None):
    """Trains a run, and scores its test if asked. Returns: dict of result.json, with these scores.

    examples, saved: see training_loop.
    """
    summary.describe_training(run, examples)
    with machine.few_threads(run.recipe.bert == "scratch"):
        result = finish_training(run, examples, training_loop(run, examples, saved))
    if test:
        result["metrics"] |= score_test(run)
    return result


def finish_training(run, examples, progress):
    """Evaluates the best epoch and writes result.json, which it returns; last.pt is removed."""
    settings, recipe, task, folder = run.settings, run.recipe, run.task, run.folder
    machine.gather(None)  # waits until the main process has written best.pt
    run.model.load_state_dict(read_saved(folder / "best.pt")["weights"])
    scores, _, threshold = run.score(examples[task.selection])
    metrics = {task.selection: scores}
    for name, x in examples.items():
        if name not in ("train", task.selection):  # MNLI's second dev split
            metrics[name] = run.evaluate(x)
    sizes = {name: p.numel() for name, p in run.model.named_parameters()}
    result = {"id": run.begun["id"], "task": task.name, "model": settings.model,
              "bert": recipe.bert, "seed": settings.seed, "selection_split": task.selection,
              "positive": task.positive, "best_epoch": progress.best_epoch,
              "metrics": metrics, "threshold": threshold,
              "pairs": {name: len(x.pairs) for name, x in examples.items()},
              "pairs_sha256": run.begun["pairs"], "own": run.begun["own"],
              "seconds": round(progress.seconds, 2), "parameters": sum(sizes.values()),
              "new_parameters": sum(sizes[name] for name in run.begun["new_parameters"]),
              "settings": asdict(settings), "recipe": asdict(recipe),
              "versions": machine.versions(recipe.device),
              "influence": run.influence(examples[task.selection]) if run.changes() else None}
    if main_process():
        events = map(json.loads, (folder / "log.jsonl").read_text("utf-8").splitlines())
        picture = summary.draw_run([*events], task.metrics[0], progress.best_epoch)
        write_text(folder / "curves.svg", picture)
        for path in (*folder.glob("*.pt.*.tmp"), folder / "test.json"):
            path.unlink(missing_ok=True)  # a killed process's half file; older scores
        write_json(folder / "result.json", result)
        (folder / "last.pt").unlink(missing_ok=True)
    return result


HELP = """Train and use sentence-pair models; README.md says more.

  python train.py                                      DAFA on toy, offline, a minute
  python train.py --task mrpc --model dafa             the main job
  python train.py --from runs/mrpc-dafa --predict pairs.tsv      label your own pairs"""


def command_line():
    """The options: one for each field of Settings and Recipe, and four that use a run."""
    parser = Arguments("train.py", HELP)
    add_options(parser)
    group = parser.add_argument_group("a run")
    group.add_argument("--resume", metavar="RUN", help="continue the training in this folder")
    group.add_argument("--from", dest="run", metavar="RUN",
                       help="use this run; without another option: show its result")
    group.add_argument("--test", action="store_true", help="score the best epoch on test, once")
    group.add_argument("--predict", metavar="FILE", help="label the pairs of a file, into the file "
                       "--out; -: read stdin, write stdout")
    return parser


def use_run(folder, test=False, predict=None, columns="", out=None, test_file=None, **changes):
    """Does what --from asks for. changes: see open_run."""
    refuse(test_file and not test and predict is None, "--test-file goes with --test, --predict")
    stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr if "-" in (predict, out) else stdout):
        run = open_run(folder, **changes)
        if test_file:  # the run of own pairs was trained without one
            run.settings = replace(run.settings, test_file=test_file)
        refuse(predict is None and (out or columns), "--out and --columns go with --predict")
        if predict is not None:
            predict_file(run, predict, columns and columns.split(","), out, stdout)
        if test:
            print_once(summary.metrics_table(score_test(run), run.task.positive))
        if not test and predict is None:
            path = run.folder / "result.json"
            result = read_json(path)
            with made_here(path):
                refuse(result["id"] != run.begun["id"], "the numbers of another training")
                summary.show_result(run.folder, result)


def main(argv=None):
    """The command line. Raises ValueError or OSError for a user's mistake."""
    given = command_line().parse(argv)
    refuse("predict" in given and "run" not in given, "--predict needs --from RUN, a trained run")
    with machine.torch_session(given):
        if "run" in given:
            use_run(given.pop("run"), **given)
        elif "resume" in given:
            summary.show_result(*resume(given.pop("resume"), **given))
        else:
            summary.show_result(*begin(**given))


if __name__ == "__main__":
    sys.exit(run_command(main, "train.py"))
