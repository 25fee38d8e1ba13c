"""Train, evaluate and use sentence-pair models: `python train.py --task mrpc --model dafa`.

One flat loop (`train_model`, `train_epoch`), read from top to bottom: order, batch, forward, loss,
backward, clip, rate, step, log; then save, evaluate, keep the best. The best epoch is chosen on
dev; test is read when `--test` asks for it. A run folder holds

    best.pt       the best epoch: all with which the run is used, from anywhere
    last.pt       all that --resume needs, until the run is finished
    config.json   every setting           log.jsonl     one event a line
    result.json   what came out           curves.svg    training loss and dev result

From Python: `run = train.open_run("runs/toy-dafa")`, then run.predict, run.evaluate, run.explain.
Several GPUs or machines: `torchrun --nproc-per-node 4 train.py ...` cuts each batch.

Left out: what is computed (semmatch, reread, bert_min, priors), how pairs become tensors (batches),
how a model is made and used (run), where pairs come from and what lies in the folder (support),
comparisons, pages, speed (experiments).
"""
import functools
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm import tqdm

import batches
from bert_min import SelfAttention, check_options
from run import (Run, build_model, describe_training, finish_training, judge_epoch, new_reader,
                 predict_file, saved_model, score_test, start_at_mean)
from support import machine, runs, summary
from support.data import SOURCES, load_pairs, load_test_splits, loss_sum, seen_in_training
from support.files import BERTS, write_json
from support.machine import main_process, print_once
from support.options import (ABOVE_0, Arguments, check_values, find_class, keywords_of, load_own,
                             option, prefix_errors, read_names, read_values, refuse, run_command)

LOG_EVERY = 10        # steps after which losses are written: then a GPU is waited for
SAVE_SECONDS = 300.0  # how often last.pt is written within an epoch

# A name of --model -> its class. Your own goes in the same way: --model mine.py:MyAttention
METHODS = {"bert": "bert_min:SelfAttention", "dabert": "semmatch:DabertAttention",
           "dafa": "semmatch:DafaAttention", "knowledge": "semmatch:KnowledgeAttention",
           "drrnet": "reread:DrrNet", "ladranet": "reread:LadraNet"}


# ---- Recipes ------------------------------------------------------------------------------------

class Recipe(NamedTuple):
    """How a model is trained, where no option says it; the defaults are those of fine-tuning."""
    epochs: int = 3
    batch_size: int = 32
    optimizer: str = "adamw"
    lr: float = 2e-5              # the highest
    lr_new: float | None = None   # of what an encoder's file lacks; None: lr
    schedule: str = "linear"      # from the highest rate down
    warmup: float = 0.1           # share of the steps in which the rate rises
    weight_decay: float = 0.01    # not on biases and norms
    clip: float = 10.0            # the gradient's norm, at most
    patience: int = 0             # steps without a lower dev loss, after which it ends; 0: never
    dropout: float | None = None  # of the encoder; None: its own


# DAFA: appendix B.1, within its ranges (one rate for all weights, 8e-6 to 3e-5; batch 16 to 64;
# 3 to 5 epochs; clip 7.5 to 15). DABERT: the same ranges, 5 epochs, decay 0.01, which is also that
# of Devlin et al. (2019). A MiniLM of six layers asks for --lr 1e-4 (docs/log.md).
# Adam at 1e-3, "Cosine Warm Up Decay", no lower dev loss in 1,000 batches (section VI-B). LadRa-Net
# trains its encoder at 1e-3 too; we leave it the rate of fine-tuning. DRr-Net has 3e-4 for five
# epochs, chosen on training pairs held out (docs/log.md). Batch, epochs and clip are not
# printed; the share of warm-up is the released code's.
REREAD = Recipe(optimizer="adam", schedule="cosine", warmup=0.05, weight_decay=0.0, patience=1000)
RECIPES = {"dabert": Recipe(epochs=5), "dafa": Recipe(weight_decay=1e-8),
           "ladranet": REREAD._replace(lr_new=1e-3), "drrnet": REREAD._replace(epochs=5, lr=3e-4)}
# Knowledge, section 4.3. Its L2 ratio, Eq. (9), takes the place of the decay. Epochs and clip are
# not printed: three epochs of SNLI are 23,500 steps, of MRPC 159, so that SGD, and the ratio beyond
# its first percents, need more --epochs. Left out: its cut-offs of 48, 32 and 24, which in the
# recipe's source (Gong et al., 2018) are of each sentence and --max-length is of a pair; dropout
# before every linear layer, SNLI's pairs in MNLI's training, a penalty on the difference of two
# encoders' weights, and a dense block, which this model has no place for.
PRINTED_RECIPES = {"knowledge": Recipe(batch_size=70, optimizer="adadelta", lr=0.5,
                                       schedule="flat", weight_decay=0.0)}
SGD_RATE, SGD_AFTER = 3e-4, 30_000  # steps without a better dev result, looked at after each epoch
SMALL = dict(epochs=8, batch_size=64, lr=1e-3)  # an encoder from scratch; words on toy
TOY_SIZES = dict(word_size=64, character_size=32, hidden_size=64, attention_size=64)

# ---- Settings -----------------------------------------------------------------------------------

# Of --help: a setting -> the title above it
GROUPS = {"task": "every day", "printed": "method", "test_file": "data", "recipe": "training",
          "device": "machine"}
POSITIVE, SHARE, FROM_0 = (ABOVE_0, 2 ** 63), (0, 1), (0, 2 ** 63)
BY_MODEL = "(default: by model)"


@dataclass(frozen=True)
class Settings:
    """Everything a run depends on. What a Recipe has, and bert, device, precision, is decided by
    model and task where it is left out; dataclasses.replace keeps what was decided.
    """

    task: str = option("toy", "toy is generated, offline; own is --train-file's",
                       ("toy", *SOURCES, "own"))
    model: str = option("dafa", f"{', '.join(METHODS)}, or your own class: mine.py:MyAttention")
    bert: str | None = option(None, f"{', '.join(BERTS)}, a Hugging Face name, a folder, scratch")
    train_file: str | None = option(None, "own .tsv or .csv: sentence1, sentence2, label")
    dev_file: str | None = option(None, "the same for choosing the best epoch")
    out: str | None = option(None, "run folder (default: runs/TASK-MODEL, with a number)")
    epochs: int | None = option(None, f"passes over the pairs {BY_MODEL}", limits=POSITIVE)
    seed: int = option(0, "seed of weights, order and dropout", limits=FROM_0)
    printed: str = option("", "equations computed as typeset: all, or numbers such as 6,9")
    without: str = option("", "parts of the method to leave out, such as tree,gates")
    layers: str = option("first", "layers that carry the method: first, all, or such as 0,3")
    set: str = option("", "what has no option, such as STEPS=4,KERNELS=1+2,SCOPE=head,CLIP=7.5")
    glove: str | None = option(None, "drrnet: fixed word vectors in GloVe's text form")
    parses: str | None = option(None, "your own parses, CoNLL-U, not the shipped parser's")
    parser: str | None = option(None, "your own function of texts in its place: mine.py:parse")
    test_file: str | None = option(None, "own pairs for --test")
    columns: str = option("", "their columns: a,b,label (default: as the header suggests)")
    data_dir: str = option("data", "data sets and weights, downloaded into it where missing")
    max_length: int = option(128, "tokens of a pair; longer pairs are cut", limits=(1, 100_001))
    limit: float | None = option(None, "pairs of each split at most; below 1: share of training",
                                 limits=POSITIVE)
    recipe: str = option("ours", "how to train: ours, or knowledge's page", ("ours", "printed"))
    batch_size: int | None = option(None, f"pairs in a step {BY_MODEL}", limits=POSITIVE)
    accumulate: int = option(1, "parts a batch is computed in, to save memory", limits=POSITIVE)
    lr: float | None = option(None, f"highest learning rate {BY_MODEL}", limits=POSITIVE)
    lr_new: float | None = option(None, "the same for what an encoder's file lacks",
                                  limits=POSITIVE)
    dropout: float | None = option(None, "of the encoder (default: its own)", limits=SHARE)
    class_weights: str = option("none", "balanced: rare classes count more in the loss",
                                ("none", "balanced"))
    optimizer: str | None = option(None, choices=("adamw", "adam", "adadelta"))  # these by --set
    schedule: str | None = option(None, choices=("linear", "cosine", "flat"))
    warmup: float | None = option(None, limits=SHARE)
    weight_decay: float | None = option(None, limits=FROM_0)
    clip: float | None = option(None, limits=POSITIVE)
    patience: int | None = option(None, limits=FROM_0)
    held_out: float | None = option(None, limits=SHARE)  # share of train in place of dev
    positive: str | None = option(None)  # the class of own files whose F1 is measured
    scores: bool | None = option(None)  # are the labels of own files scores? None: as they look
    device: str | None = option(None, "cpu, cuda, ... (default: cuda where there is one)")
    precision: str | None = option(None, "of the forward pass (default: bf16 if fast, else fp32)",
                                   ("fp32", "bf16", "fp16"))
    compile: bool = option(False, "compile the model with torch.compile")
    workers: int = option(0, "processes beside this one that collate", limits=(0, 1000))

    def __post_init__(self):
        self.fill(self.given_by_set())
        check_values(self)
        own, method, printed = bool(self.train_file), self.method, self.recipe == "printed"
        reads = "reads words" if self.reads_words else "reads pieces of words, by an encoder"
        refuse(own != bool(self.dev_file), "--train-file and --dev-file go together")
        refuse(own and self.task not in ("toy", "own"), f"--task {self.task} has its own files")
        refuse(self.task == "own" and not own, "--task own needs --train-file and --dev-file")
        refuse(not own and (self.test_file or self.columns or self.positive
                            or self.scores is not None),
               "--test-file, --columns, POSITIVE and SCORES need --train-file and --dev-file")
        refuse(self.in_layers and all(getattr(method, x) is getattr(SelfAttention, x)
                                      for x in ("attend", "forward", "project")),
               f"--model {self.model}: writes no attend, so that it would be plain attention")
        refuse(self.bert and self.reads_words != (self.bert == "none"),
               f"--bert {self.bert}: {self.model} {reads}")
        refuse(self.glove and not self.reads_words, f"--glove: {self.model} {reads}")
        refuse(self.layers != "first" and not self.in_layers,
               f"--layers: no layer carries {self.model}")
        refuse(":" not in (self.parser or ":"), f"--parser {self.parser}: expected mine.py:parse")
        refuse(self.parser and self.parses, "--parser or --parses, not both")
        refuse(self.limit and self.limit > 1 and self.limit % 1,
               f"--limit {self.limit}: expected a whole number, or a share below 1")
        refuse(printed and self.model not in PRINTED_RECIPES,
               f"--recipe printed: {self.model} has none, {', '.join(PRINTED_RECIPES)} has")
        refuse(printed and "weight_decay" in self.given_by_set(),
               "--recipe printed: the decay is Eq. (9)'s; leave out WEIGHT_DECAY")
        self.options()
        self.own_parser()
        vars(self)["task"] = "own" if own else self.task
        encoder = "scratch" if self.task == "toy" else "base"
        self.fill({"bert": "none" if self.reads_words else encoder,
                   "device": machine.best_device()})
        small = self.device.startswith("cpu") and self.bert in ("scratch", "none")
        precision = "fp32" if small else machine.fast_precision(self.device)  # small: as anywhere
        self.fill(find_recipe(self)._asdict() | {"precision": precision})

    def fill(self, values):
        """Puts these values, a dict, where there is None; what is no setting is passed over."""
        vars(self).update({name: x for name, x in values.items() if getattr(self, name, x) is None})

    @property
    def method(self):
        """The class that --model names."""
        return find_class(self.model, METHODS)

    @property
    def reads_words(self):
        """Does the method read words? Then it has no encoder, and bert is "none"."""
        return self.method.READS == "words"

    @property
    def in_layers(self):
        """Do layers of an encoder carry the method? Else it is plain attention, or a whole model.
        """
        return issubclass(self.method, SelfAttention) and self.method is not SelfAttention

    def own_parser(self):
        """The function that --parser names, or None."""
        with prefix_errors("--parser "):
            return self.parser and load_own(self.parser, "function")

    def given_by_set(self):
        """dict name -> value of --set: sizes of the method, and settings that have no option."""
        such = Recipe()._asdict() | {"held_out": 0.1, "positive": "a_class", "scores": True}
        known = {f.name: such[f.name] for f in fields(self) if not f.metadata["help"]}
        sizes = keywords_of(self.method)
        sizes.pop("dropout", None)  # that is --dropout
        with prefix_errors("--set "):
            return read_values(self.set, known | sizes)

    def options(self):
        """What the method's constructor takes beside its input: printed, without, sizes."""
        printed, without = read_names(self.printed), read_names(self.without)
        printed = self.method.PRINTED if printed == {"all"} else printed
        with prefix_errors("--"):
            check_options(self.method, printed, without)
        sizes, known = self.given_by_set(), keywords_of(self.method)
        if self.dropout is not None:
            sizes["dropout"] = self.dropout
        if self.reads_words and self.task == "toy":
            sizes = TOY_SIZES | sizes
        parts = {"printed": frozenset(printed), "without": frozenset(without)}
        return {name: x for name, x in parts.items() if x} | {
            name: x for name, x in sizes.items() if name in known}


def find_recipe(settings):
    """The Recipe of settings whose task and bert are decided."""
    recipe = RECIPES.get(settings.model, Recipe())
    if settings.recipe == "printed":
        recipe = PRINTED_RECIPES[settings.model]
    elif settings.bert == "scratch":
        recipe = Recipe(**SMALL, dropout=0.0)
    elif settings.reads_words and settings.task == "toy":
        recipe = recipe._replace(**SMALL)
    return recipe._replace(lr_new=recipe.lr_new or settings.lr or recipe.lr)


# ---- The optimizer ------------------------------------------------------------------------------

def make_optimizer(kind, model, new, settings):
    """No decay on biases and norms; what the method adds, the names `new`, has its own rate."""
    classes = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD,
               "adadelta": functools.partial(torch.optim.Adadelta, rho=0.95, eps=1e-8)}
    groups = {}
    for name, p in model.named_parameters():
        if p.requires_grad:
            peak = settings.lr_new if name in new else settings.lr
            peak = SGD_RATE if kind == "sgd" else peak
            decay = settings.weight_decay if p.dim() > 1 else 0.0
            groups.setdefault((peak, decay), []).append(p)
    known = kind.startswith("adam") and settings.device.split(":")[0] in ("cpu", "cuda")
    fused = {"fused": True} if known else {}  # one pass over the weights: a fifth of the time
    return classes[kind]([{"params": p, "lr": peak, "peak": peak, "weight_decay": decay}
                          for (peak, decay), p in groups.items()], **fused)


def rate(step, total, warmup, schedule="linear"):
    """Factor of the learning rate: up over the first warmup·total steps, then down to 0; straight,
    or cosine: each way half a cosine, the "Cosine Warm Up Decay" of LadRa-Net without the jump of
    its released code; flat: 1."""
    rise = warmup * total
    share = min(1.0, (step + 1) / max(1.0, rise), (total - step) / max(1.0, total - rise))
    if schedule == "cosine":
        return (1 - math.cos(math.pi * share)) / 2
    return share if schedule == "linear" else 1.0


def set_rates(optimizer, settings, step, total):
    """The rates of a step. -> the highest

    As the knowledge paper prints it, also the decay, Eq. (9), of "all weights", which we read as
    biases and norms too.
    """
    factor = rate(step, total, settings.warmup, settings.schedule)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor
        if settings.recipe == "printed":
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
    return full_ratio / (1 + math.exp(-min(700.0, max(-700.0, x))))


# ---- Training -----------------------------------------------------------------------------------

def train_model(settings: Settings, folder: Path, saved: dict | None = None) -> dict:
    """Trains one model into a folder, or goes on there, and returns what result.json holds.

    saved: what runs.read_saved read of the folder's last.pt, to go on with; it is emptied.
    """
    progress = runs.read_progress(folder, saved) if saved else runs.Progress(settings.optimizer)
    run, examples = set_up(settings, folder, progress, saved)
    model, train_set, new = run.model, examples["train"], set(run.contents["new_parameters"])
    optimizer = make_optimizer(progress.optimizer, model, new, settings)
    scaler = machine.loss_scaler(settings.device, settings.precision)
    class_weights = run.class_weights(train_set.pairs)
    log = runs.Log(folder / "log.jsonl", saved["log"] if saved else "")
    if saved:
        runs.load_last(run, saved, optimizer, scaler)
    else:
        runs.save_last(run, log, optimizer, scaler, progress)
    forward = machine.share_gradients(model, settings.device)
    forward = torch.compile(forward, dynamic=True) if settings.compile else forward
    steps = math.ceil(len(train_set.pairs) / settings.batch_size)
    describe_training(run, examples, settings.epochs * steps)

    while not progress.finished(settings.epochs, settings.patience, steps):
        train_epoch(run, train_set, forward, optimizer, scaler, class_weights, log, progress)
        judge_epoch(run, examples[run.task.selection], progress, log)
        flat = progress.step - progress.best_step >= SGD_AFTER and progress.optimizer != "sgd"
        if settings.recipe == "printed" and flat:
            progress.optimizer = "sgd"
            optimizer = make_optimizer("sgd", model, new, settings)
            print_once(f"no better dev result for {SGD_AFTER:,} steps: SGD goes on, at "
                       f"{SGD_RATE:g}")
    return finish_training(run, examples, progress)


def train_epoch(run, train_set, forward, optimizer, scaler, class_weights, log, progress):
    """Steps over all training pairs, or over those that a cut-off epoch has left; then last.pt."""
    settings, saved_at = run.settings, time.monotonic()
    steps = math.ceil(len(train_set.pairs) / settings.batch_size)
    run.model.train()
    order = batches.training_batches(train_set.lengths, settings.batch_size,
                                     f"{settings.seed} {progress.epoch}", run.task.block)
    order = order[progress.step - progress.epoch * steps:]
    shares = [machine.cut_batch(batch, settings.accumulate) for batch in order]
    loader = iter(train_set.loader([part for share in shares for part in share],
                                   pinned=settings.device.startswith("cuda")))
    bar = tqdm(zip(order, shares), f"epoch {progress.epoch + 1}/{settings.epochs}",
               total=steps, initial=steps - len(order), leave=False,
               disable=None if main_process() else True)
    for batch, share in bar:
        begun = time.perf_counter()
        loss = add_gradients(run, forward, scaler, loader, len(share), len(batch), class_weights)
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(run.model.parameters(), settings.clip)
        overflow = scaler.is_enabled() and scaler.get_scale() > 1  # may be one: a skipped step
        highest = set_rates(optimizer, settings, progress.step, settings.epochs * steps)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        progress.step += 1
        progress.pairs += len(batch)
        log.add_step(progress.step, loss, norm, highest, overflow)
        due = False
        if progress.step % LOG_EVERY == 0 or progress.step % steps == 0:
            due = log.write_steps(main_process() and time.monotonic() - saved_at > SAVE_SECONDS)
            bar.set_postfix(loss=f"{log.loss:.3f}", refresh=False)
        progress.train_seconds += time.perf_counter() - begun
        if due:
            runs.save_last(run, log, optimizer, scaler, progress)
            saved_at = time.monotonic()
    del loader  # and with it its workers
    runs.save_last(run, log, optimizer, scaler, progress)


def add_gradients(run, forward, scaler, loader, parts, batch_size, class_weights):
    """Forward and backward pass of a batch, in parts. -> this process's share of its mean loss"""
    settings, (rank, processes) = run.settings, machine.world()
    loss = torch.zeros((), device=settings.device)
    for part in range(parts):
        with machine.exchange_gradients(forward, last=part == parts - 1):
            inputs, labels = machine.to_device(next(loader), settings.device)
            with machine.autocast(settings.device, settings.precision):
                logits = forward(**inputs)
            counts = rank < batch_size  # a process without a pair of this batch adds 0
            part_loss = loss_sum(logits, labels, run.task, class_weights)
            part_loss = part_loss * counts / batch_size
            scaler.scale(part_loss * processes).backward()  # processes average gradients
        loss += part_loss.detach()
    return loss


def set_up(settings, folder, progress, saved):
    """Pairs, model, reader, as they begin or were saved. -> (Run, split -> Examples)"""
    begun = time.perf_counter()
    with machine.main_process_first():
        task, splits = load_pairs(settings)
        seen = {name: splits[name] for name in seen_in_training(splits)}
        if saved:
            runs.check_pairs(saved["pairs"], seen)
            with prefix_errors(f"{folder / 'last.pt'}: "):
                model, reader = saved_model(settings, saved)
            reader.prepare([pair for pairs in seen.values() for pair in pairs])
            new, encoder = saved["new_parameters"], saved.get("encoder")
        else:
            reader, config, arrays = new_reader(settings, task, splits)
            model, new = build_model(settings, task, reader, config, arrays)
            encoder = config and asdict(config)
            if task.regression:
                start_at_mean(model, splits["train"])
        examples = {name: reader.examples(pairs) for name, pairs in seen.items()}
    contents = runs.describe_run(settings, task, new, reader, encoder, seen)
    if main_process() and not saved:
        write_json(folder / "config.json", {name: contents[name] for name in (
            "settings", "task", "new_parameters")})
    torch.manual_seed(settings.seed + machine.world()[0])
    progress.load_seconds += time.perf_counter() - begun
    run = Run(settings, folder, task, model.to(settings.device), reader, contents)
    return run, examples


# ---- Using a run --------------------------------------------------------------------------------

def open_run(folder: str | Path, parser: Callable | str | None = None, model: str | None = None,
             **changes) -> Run:
    """The run.Run in a folder, or in its best.pt alone, with the best epoch's weights.

    model: the class of your own that it was made with, as --model named it: a folder alone runs no
    code. parser: your own, a function (see parse_texts in support.parses) or its place, as --parser
    named it; it takes the place of the one that ships, and of `parses`. changes: of device,
    precision, workers, data_dir, parses, printed. Raises ValueError for others, and naming folder
    or file where there is none, or it is another code's or damaged.
    """
    folder = Path(folder)
    path = folder if folder.is_file() else folder / "best.pt"
    known = {"device", "precision", "workers", "data_dir", "parses", "printed"}
    for name in changes.keys() - known:
        raise ValueError(f"--{name.replace('_', '-')} belongs to training; the run's own counts")
    saved = runs.read_saved(path, Settings, model, parser)
    changes = {name: str(x) if isinstance(x, Path) else x for name, x in changes.items()}
    changes = {"device": None} | changes  # here, not where it was made
    if parser:
        changes = {"parses": None, "parser": None if callable(parser) else parser} | changes
    settings = runs.typed(Settings, vars(saved["settings"]) | changes)
    machine.prepare_device(settings.device)
    with prefix_errors(f"{path}: "):
        network, reader = saved_model(settings, saved)
    if callable(parser):
        reader.parser = parser
    runs.load_weights(network, saved.pop("weights"), path)
    return Run(settings, path.parent, saved["task"], network.to(settings.device).eval(), reader,
               saved)


HELP = """Train and use sentence-pair models; README.md says more.

  python train.py                                      DAFA on toy, offline, a minute
  python train.py --task mrpc --model dafa             the main job
  python train.py --from runs/mrpc-dafa --predict pairs.tsv      label your own pairs"""


def command_line():
    """One option for each field of Settings, and those that use a run."""
    parser = Arguments("train.py", HELP)
    parser.add_settings(Settings, GROUPS)
    used = parser.add_argument_group("a run")
    used.add_argument("--resume", metavar="RUN", help="go on in this folder, where it was cut off")
    used.add_argument("--from", dest="run", metavar="RUN", help="use it; alone: show its result")
    used.add_argument("--test", action="store_true", help="score the best epoch on test, once")
    used.add_argument("--predict", metavar="FILE", help="label a file, or a split by its name")
    return parser


def use_run(folder, given):
    """What --from does."""
    test, file = given.pop("test", False), given.pop("predict", None)
    refuse("printed" in given, "--printed belongs to training; the run's own counts")
    run = open_run(folder, **given)
    if file is not None:
        is_split = not Path(file).suffix and not Path(file).is_file()
        splits = load_pairs(run.settings, limited=False)[1] if is_split else {}
        with prefix_errors("--predict "):
            predict_file(run, file, splits)
    if test:
        metrics = score_test(run, load_test_splits(run.settings))
        print_once(summary.metrics_table(metrics, run.task.positive))
    if not test and file is None:
        summary.show_result(run.folder, runs.read_result(run.folder))


def train_or_resume(given):
    """Trains, or goes on with --resume, and shows the result; --test reads test at the end."""
    resume, test = given.pop("resume", None), given.pop("test", False)
    if resume is None:
        settings, saved = Settings(**given), None
    else:
        folder = Path(resume)
        settings, saved = runs.read_to_resume(folder, Settings, given)
    machine.prepare_device(settings.device)
    if test:
        load_test_splits(settings)  # before hours of training
    if resume is None:
        name = f"{settings.task}-{settings.model.rpartition(':')[2]}"
        with prefix_errors("--out "):
            folder = machine.from_main_process(lambda: runs.new_folder(settings.out, name,
                                                                       make=True))
        settings = replace(settings, out=str(folder))
    with runs.lock_folder(folder):
        if resume and (folder / "result.json").exists():
            result = runs.read_result(folder)
        else:
            result = train_model(settings, folder, saved)
        if test:
            run = open_run(folder, settings.parser, settings.model, device=settings.device)
            result["metrics"] |= score_test(run, load_test_splits(settings))
    summary.show_result(folder, result)


def main(argv=None):
    """The command line. Raises ValueError or OSError for what `run_command` shows in one line."""
    given = command_line().parse(argv)
    refuse("predict" in given and "run" not in given, "--predict needs --from RUN, a trained run")
    refuse("resume" in given and "run" in given, "--from or --resume, not both")
    with machine.torch_session(given):
        if "run" in given:
            use_run(given.pop("run"), given)
        else:
            train_or_resume(given)


if __name__ == "__main__":
    sys.exit(run_command(main, "train.py"))
