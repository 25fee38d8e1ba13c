"""Train, evaluate and use sentence-pair models: `python train.py --task mrpc --model dafa`.

`training_loop` is one flat loop. Read it from top to bottom: order, batch, forward, loss, backward,
clip, rate, step, log; then save, evaluate, keep the best. The dev split chooses the best epoch. The
test split is read if `--test` asks for it. support.runs lists the files in a run's folder.

From Python: `run = train.open_run("runs/toy-dafa")`, then run.predict, run.evaluate, run.explain.
Several GPUs or machines: `torchrun --nproc-per-node 4 train.py ...` cuts each batch.

Left out: the equations (semmatch, reread, bert_min, priors), how pairs become tensors (batches),
how a model is made and used (run), data sets and files (support).
"""
import contextlib
import json
import math
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
from tqdm import tqdm

import batches
from run import new_run, open_run, predict_file, read_run, resumed_run, score_test
from settings import PROCESS, Recipe, Settings, add_options, read_options
from support import machine, runs, summary
from support.datasets import load_pairs, load_test_splits
from support.errors import refuse
from support.files import new_folder, read_json, write_json, write_text
from support.machine import main_process, print_once
from support.options import Arguments, run_command
from support.pairs import loss_sum, metric_title

LOG_EVERY = 10        # steps between two writes to the log; each write waits for the GPU
SAVE_SECONDS = 300.0  # at least so long between two writes of last.pt within an epoch


# ---- The optimizer ------------------------------------------------------------------------------

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


# ---- The loop -----------------------------------------------------------------------------------

def train_model(settings: Settings, recipe: Recipe, folder: Path, task, splits, saved=None):
    """Trains one model in a folder, or resumes its training there. Returns: dict of result.json.

    task, splits: from load_pairs. saved: the content of the folder's last.pt, from run.read_run;
    None starts a new training.
    """
    with machine.few_threads(recipe.bert == "scratch"):
        with machine.main_process_first():  # which parses; the others find the parses
            if saved:
                run, examples = resumed_run(settings, recipe, folder, task, splits, saved)
            else:
                run, examples = new_run(settings, recipe, folder, task, splits)
        summary.describe_training(run, examples)
        return training_loop(run, examples, saved)


def training_loop(run, examples, saved=None):
    """Trains a run to its end. saved: as in train_model. Returns: dict of result.json."""
    recipe, train_set, (rank, processes) = run.recipe, examples["train"], machine.world()
    steps = math.ceil(len(train_set.pairs) / recipe.batch_size)  # in an epoch
    optimizer, progress = make_optimizer(run), runs.Progress()
    scaler = machine.loss_scaler(recipe.device, recipe.precision)
    log = runs.Log(run.folder / "log.jsonl", saved["log"] if saved else "")
    torch.manual_seed(run.settings.seed + rank)  # of dropout
    if saved:
        progress = runs.load_states(run, saved, optimizer, scaler)
    runs.save_last(run, log, optimizer, scaler, progress)
    forward = machine.share_gradients(run.model, recipe.device)
    weights, step_loss = run.class_weights(train_set.pairs), 0.0
    while not progress.finished(recipe.epochs, recipe.patience, steps):
        run.model.train()
        for inputs, labels, size, last in parts_of_batches(run, train_set, progress, steps, log):
            forward.require_backward_grad_sync = last  # processes exchange gradients once a batch
            with machine.autocast(recipe.device, recipe.precision):
                logits = forward(**inputs)
            counts = rank < size  # a small batch may have no pair for this process, see cut_batch
            loss = loss_sum(logits, labels, run.task, weights) * counts / size
            scaler.scale(loss * processes).backward()  # the exchange takes a mean; we need the sum
            step_loss += loss.detach()
            if not last:
                continue
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(run.model.parameters(), recipe.clip)
            may_skip = scaler.is_enabled() and scaler.get_scale() > 1  # if the norm is infinite
            highest = set_rates(optimizer, run, progress.step, recipe.epochs * steps)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            progress.step += 1
            log.add_step(progress.step, step_loss, norm, highest, may_skip)
            step_loss = 0.0
            if progress.step % LOG_EVERY == 0 or progress.step % steps == 0:
                log.write_steps()
                waited = machine.gather(time.monotonic() - log.saved)[0]  # the main process decides
                if waited > SAVE_SECONDS:
                    runs.save_last(run, log, optimizer, scaler, progress)
        runs.save_last(run, log, optimizer, scaler, progress)
        judge_epoch(run, examples[run.task.selection], progress, log)
    return finish_training(run, examples, progress)


def parts_of_batches(run, train_set, progress, steps, log):
    """Yields this process's parts of the batches left in an epoch; the seed decides their order.

    Each part is (inputs, labels, size, last): tensors on the run's device, the number of pairs in
    the whole batch, and whether this is the batch's last part, after which a step follows.
    """
    settings, recipe, parts = run.settings, run.recipe, []
    order = batches.training_batches(train_set.lengths, recipe.batch_size,
                                     f"{settings.seed} {progress.epoch}", run.task.block)
    for batch in order[progress.step - progress.epoch * steps:]:
        shares = machine.cut_batch(batch, settings.accumulate)
        parts += [(share, len(batch), share is shares[-1]) for share in shares]
    loader = train_set.loader([part[0] for part in parts], recipe.device.startswith("cuda"))
    title = f"epoch {progress.epoch + 1}/{recipe.epochs}"
    with tqdm(desc=title, total=steps * recipe.epochs, initial=progress.step, leave=False,
              disable=None if main_process() else True) as bar:
        for batch_and_labels, (_, size, last) in zip(loader, parts):
            yield *machine.to_device(batch_and_labels, recipe.device), size, last
            if log.loss is not None:
                bar.set_postfix_str(f"loss={log.loss:.3f}", False)
            bar.update(progress.step - bar.n)


def judge_epoch(run, examples, progress, log):
    """Scores dev, writes best.pt if this epoch is the best so far, logs and prints the scores."""
    scores, mean_loss, _ = run.score(examples)
    better = progress.judge(scores[run.task.metrics[0]], mean_loss)
    if better and main_process():
        runs.save_best(run, progress)
    log(step=progress.step, epoch=progress.epoch, split=run.task.selection, mean_loss=mean_loss,
        **scores)
    numbers = [f"{metric_title(name, run.task.positive)} {100 * scores[name]:.1f}"
               for name in run.task.metrics]
    print_once(f"epoch {progress.epoch}: {run.task.selection} {', '.join(numbers)}"
               f"{', the best so far' if better else ''}")


def finish_training(run, examples, progress):
    """Evaluates the best epoch and writes result.json, which it returns; last.pt is removed."""
    settings, recipe, best = run.settings, run.recipe, run.folder / "best.pt"
    machine.gather(None)  # waits until the main process has written best.pt
    run.model.load_state_dict(runs.read_saved(best)["weights"])
    scores, _, threshold = run.score(examples[run.task.selection])
    metrics = {run.task.selection: scores}
    for name, x in examples.items():
        if name not in ("train", run.task.selection):  # MNLI's second dev split
            metrics[name] = run.evaluate(x)
    sizes = {name: p.numel() for name, p in run.model.named_parameters()}
    result = {"id": run.begun["id"], "task": run.task.name, "model": settings.model,
              "bert": recipe.bert, "seed": settings.seed, "selection_split": run.task.selection,
              "positive": run.task.positive, "best_epoch": progress.best_epoch,
              "metrics": metrics, "threshold": threshold,
              "pairs": {name: len(x.pairs) for name, x in examples.items()},
              "seconds": round(progress.seconds, 2), "parameters": sum(sizes.values()),
              "new_parameters": sum(sizes[name] for name in run.begun["new_parameters"]),
              "settings": asdict(settings), "recipe": asdict(recipe),
              "versions": machine.versions(recipe.device),
              "influence": run.influence(examples[run.task.selection]) if run.changes() else None}
    if main_process():
        events = map(json.loads, (run.folder / "log.jsonl").read_text("utf-8").splitlines())
        picture = summary.draw_run([*events], run.task.metrics[0], progress.best_epoch)
        write_text(run.folder / "curves.svg", picture)
        for path in (*run.folder.glob("*.pt.*.tmp"), run.folder / "test.json"):
            path.unlink(missing_ok=True)  # a killed process's half file; older scores
        write_json(run.folder / "result.json", result)
        (run.folder / "last.pt").unlink(missing_ok=True)
    return result


# ---- The command line ---------------------------------------------------------------------------

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
    group.add_argument("--predict", metavar="FILE", help="label the pairs of a file or split, into "
                       "the file --out; -: read stdin, write stdout")
    return parser


def use_run(folder, test=False, predict=None, columns="", out=None, test_file=None, **changes):
    """Does what --from asks for. changes: see open_run."""
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
            result = read_own_result(run.folder, run.begun)
            with runs.made_here(run.folder / "result.json"):
                summary.show_result(run.folder, result)


def read_own_result(folder, saved):
    """The dict of result.json. Raises ValueError if it is missing or another training wrote it."""
    path = folder / "result.json"
    result = read_json(path) if path.exists() else {}
    refuse(result.get("id") != saved["id"], f"{path}: the numbers of this run are not there, or of "
           "another training; --from works with --test or --predict")
    return result


def options_to_resume(folder, given):
    """(saved, Settings, Recipe) of a folder's last.pt, or of its best.pt if training has ended.

    An option of PROCESS replaces the run's own. Any other in the dict `given` must equal it.
    """
    ended = (folder / "best.pt").exists() and not (folder / "last.pt").exists()
    path = folder / ("best.pt" if ended else "last.pt")
    saved, settings, recipe = read_run(path, given.get("model"), given.get("parser"))
    begun = asdict(settings) | asdict(recipe)
    begun["parser"] = saved["settings"]["parser"] and settings.parser
    for name in given.keys() - PROCESS:
        refuse(given[name] != begun[name], f"--{name.replace('_', '-')} {given[name]}: the run has "
               f"{begun[name]}; leave it out, or start another run")
    changes = {name: given[name] for name in given.keys() & PROCESS}
    device = changes.pop("device", recipe.device)
    return saved, replace(settings, **changes), replace(recipe, device=device)


def choose_folder(settings):
    """The folder of a new run. The main process chooses it for all."""
    folder = None
    if main_process():
        name = f"{settings.task_name}-{settings.model.rpartition(':')[2]}"
        folder = new_folder(settings.out, name)
    return machine.gather(folder)[0]


def train_or_resume(given):
    """Trains a new run or, with --resume, an old one; `given` are options. --test scores test, too.

    Returns: (the run's folder, dict of result.json, with test's metrics where asked for)
    """
    resume, test = given.pop("resume", None), given.pop("test", False)
    if resume is None:
        saved, (settings, recipe) = None, read_options(given)
    else:
        saved, settings, recipe = options_to_resume(Path(resume), given)
    machine.prepare_device(recipe.device)  # a mistake is found before there is a folder
    if test:
        load_test_splits(settings)  # a missing file is found before hours of training
    folder = Path(resume) if saved else choose_folder(settings)
    with runs.lock_folder(folder):
        if saved and "progress" not in saved:  # best.pt has none: training has ended
            result = read_own_result(folder, saved)
        else:
            with machine.main_process_first():  # which downloads; the others find the files
                task, splits = load_pairs(settings)
            result = train_model(settings, recipe, folder, task, splits, saved)
        if test:
            run = open_run(folder, settings.parser, settings.model, recipe.device)
            result["metrics"] |= score_test(run)
    return folder, result


def main(argv=None):
    """The command line. Raises ValueError or OSError for a user's mistake."""
    given = command_line().parse(argv)
    refuse("predict" in given and "run" not in given, "--predict needs --from RUN, a trained run")
    with machine.torch_session(given):
        if "run" in given:
            use_run(given.pop("run"), **given)
        else:
            summary.show_result(*train_or_resume(given))


if __name__ == "__main__":
    sys.exit(run_command(main, "train.py"))
