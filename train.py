"""Train, evaluate and use sentence-pair models: `python train.py --task mrpc --model dafa`.

One flat loop (`train`), read from top to bottom: batch, forward, backward, clip, step, log; evaluate and save after
each epoch; the best epoch is chosen on dev, and test is read once, when `--test` asks for it.

A run folder holds
    config.json   every setting, so that --from and --resume need nothing else     encoder/    sizes and vocabulary
    log.jsonl     one event a line                                                 words.json  sentence counts (tf-idf)
    best.pt       weights of the best epoch       last.pt    all that --resume needs, every random state included
    result.json   metrics, seconds, speed, memory, parameters, versions            test.json   the same for --test

Several GPUs or machines: `torchrun --nproc-per-node 4 train.py ...`. A batch is cut over the processes, so neither
their number nor --accumulate changes what is computed, only where.

Left out: what is computed (semmatch, bert_min, priors), where pairs come from (tasks).
"""
import argparse
import contextlib
import difflib
import itertools
import json
import math
import os
import platform
import random
import resource
import statistics
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import DataLoader
from tqdm import tqdm

import bert_min
import priors
import tasks
from bert_min import BertConfig, PairTokenizer
from semmatch import ATTENTION, Matcher, check_options

# Axes: B batch, L tokens, n words of a, m words of b

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")      # set, so that tokenizers is silent about --workers
RUNS = Path("runs")                # where run folders go without --out
CACHE = RUNS / "cache"             # parses; data sets may lie in a folder that cannot be written


# ---- Settings -------------------------------------------------------------------------------------------------------

def option(default, help, choices=None):
    """A field of Settings with what the command line says about it."""
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """Everything a run depends on. None: decided by model and task, in `Settings.complete`."""

    task: str = option("toy", "toy (generated, no network), mrpc, or own with --train-file and --dev-file")
    train_file: str | None = option(None, "own data, .tsv or .csv with the header sentence1, sentence2, label")
    dev_file: str | None = option(None, "the same for choosing the best epoch")
    test_file: str | None = option(None, "the same for --test")
    model: str = option("dafa", "the method; bert is the plain encoder", tuple(ATTENTION))
    beside: str | None = option(None, "a second model trained the same way and shown beside it, or none "
                                      "(default: bert for toy, none otherwise)", (*ATTENTION, "none"))
    bert: str | None = option(None, "tiny, mini, small, medium, base, large, roberta-base, a folder with weights, or "
                                    "scratch: small and untrained (default: scratch for toy, base otherwise)")
    printed: str = option("", "equations computed as typeset: all, or numbers such as 6,9")
    scope: str = option("hidden", "fuse all heads together, or inside each head", ("hidden", "head"))
    layers: str = option("first", "layers that carry the method: first, all, or numbers such as 0,3")
    without: str = option("", "ablations, such as tree,gates")
    parses: str | None = option(None, "your own parses as a CoNLL-U file, instead of the shipped parser's")
    data_dir: str = option("data", "data sets and weights, downloaded into it where missing")
    out: str | None = option(None, "run folder (default: runs/TASK-MODEL, with a number if that exists)")
    epochs: int | None = option(None, "passes over the training pairs")
    batch_size: int | None = option(None, "pairs in one optimizer step, over all processes and --accumulate")
    accumulate: int = option(1, "parts a batch is computed in, to save memory")
    lr: float | None = option(None, "highest learning rate")
    lr_new: float | None = option(None, "the same for the layers that the method adds (default: --lr)")
    warmup: float | None = option(None, "share of the steps in which the rate rises")
    weight_decay: float | None = option(None, "AdamW's decay; none on biases and norms")
    clip: float | None = option(None, "largest gradient norm")
    dropout: float | None = option(None, "dropout of the encoder (default: as its configuration says)")
    patience: int = option(0, "stop after this many epochs without a better dev result; 0: never")
    max_length: int = option(128, "tokens of a packed pair; longer pairs are cut")
    seed: int = option(0, "seed of weights, order and dropout")
    seeds: int = option(1, "this many runs, with seed, seed+1, ..., and their mean and spread")
    train_fraction: float = option(1.0, "share of the training pairs that is used, drawn by the seed")
    limit: int | None = option(None, "at most this many pairs of each split, for a quick try")
    device: str | None = option(None, "cpu, cuda, ... (default: cuda where there is one)")
    precision: str | None = option(None, "arithmetic of the forward pass (default: bf16 on a GPU that has it, "
                                         "else fp32)", ("fp32", "bf16"))
    compile: bool = option(False, "compile the model with torch.compile")
    workers: int = option(0, "processes that prepare batches")
    checkpoint_minutes: float = option(5.0, "how often last.pt is written within an epoch")

    def __post_init__(self):
        own = [bool(self.train_file), bool(self.dev_file)]
        for bad, message in (
                (any(own) and not all(own), "--train-file and --dev-file go together"),
                (any(own) and self.task not in ("toy", "own"), f"--task {self.task} and --train-file exclude each other"),
                (self.task == "own" and not any(own), "--task own needs --train-file and --dev-file"),
                (self.beside == self.model, f"--beside {self.beside}: that is --model itself; name another, or none"),
                (self.test_file and not any(own), "--test-file needs --train-file and --dev-file"),
                (not 0 < self.train_fraction <= 1, f"--train-fraction {self.train_fraction}: expected more than 0, at most 1"),
                (self.warmup is not None and not 0 <= self.warmup < 1, f"--warmup {self.warmup}: expected 0 up to 1"),
                (self.dropout is not None and not 0 <= self.dropout < 1, f"--dropout {self.dropout}: expected 0 up to 1")):
            if bad:
                raise ValueError(message)
        for name in ("epochs", "batch_size", "accumulate", "seeds", "limit", "max_length", "lr", "lr_new", "clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"--{name.replace('_', '-')} {value}: expected a number above 0")
        for name in ("patience", "workers", "weight_decay", "checkpoint_minutes"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"--{name.replace('_', '-')} {value}: expected 0 or more")
        self.options()

    def options(self):
        """What the attention class takes: printed, scope, without. Raises ValueError naming what it knows."""
        method = ATTENTION[self.model]
        known = getattr(method, "PRINTED", frozenset())
        parts = [part for part in self.printed.replace(" ", "").split(",") if part]
        printed = known if parts == ["all"] else {int(part) if part.isdecimal() else part for part in parts}
        without = {part for part in self.without.replace(" ", "").split(",") if part}
        if self.model == "bert":
            if self.printed or self.without:
                raise ValueError("--model bert has no equations to print and no parts to leave out")
            return {}
        check_options(method, printed, without)
        return {"printed": frozenset(printed), "scope": self.scope, "without": frozenset(without)}

    def layer_indices(self, count):
        """The layers that carry the method, of an encoder with `count` layers."""
        if self.layers in ("first", "all"):
            return (0,) if self.layers == "first" else tuple(range(count))
        parts = self.layers.split(",")
        if not all(part.strip().isdecimal() and int(part) < count for part in parts):
            raise ValueError(f"--layers {self.layers}: expected first, all, or numbers from 0 to {count - 1} with commas")
        return tuple(sorted({int(part) for part in parts}))

    def complete(self):
        """The same settings with every None decided."""
        task = "own" if self.train_file else self.task
        bert = self.bert or ("scratch" if task == "toy" else "base")
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:     # torch raises either, with a page of text
            reason = str(error).split("\n")[0]
            raise ValueError(f"--device {device}: not usable here ({reason}); leave it out, or use cpu") from None
        fast = device.startswith("cuda") and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        recipe = SCRATCH if bert == "scratch" else RECIPES[self.model]
        decided = {name: recipe[name] for name in recipe if getattr(self, name) is None}
        if self.lr_new is None:
            decided["lr_new"] = decided.get("lr", self.lr)
        beside = self.beside or ("bert" if task == "toy" and self.model != "bert" else "none")
        return replace(self, task=task, bert=bert, device=device, beside=beside, **decided,
                       precision=self.precision or ("bf16" if fast else "fp32"))


# DAFA: appendix B.1, within its ranges (one rate for all weights, 8e-6 to 3e-5; batch 16 to 64; 3 to 5 epochs; clip
# 7.5 to 15). bert: the same but for the decay, 0.01 in Devlin et al. (2019).
DAFA = dict(epochs=3, batch_size=32, lr=2e-5, warmup=0.1, weight_decay=1e-8, clip=10.0)
RECIPES = {"bert": DAFA | dict(weight_decay=0.01), "dafa": DAFA}
SCRATCH = dict(epochs=8, batch_size=64, lr=1e-3, warmup=0.1, weight_decay=0.01, clip=10.0, dropout=0.0)
SCRATCH_SIZES = dict(hidden_size=64, num_layers=2, num_heads=4, intermediate_size=256)


class Arguments(argparse.ArgumentParser):
    """argparse whose errors are one line, and which names the option that was probably meant."""

    def error(self, message):
        raise ValueError(message)

    def parse(self, argv):
        """Given options as a dict. Raises ValueError for a mistake."""
        given, unknown = self.parse_known_args(argv)
        if unknown:
            names = [name for action in self._actions for name in action.option_strings]
            near = difflib.get_close_matches(unknown[0].split("=")[0], names, 1, 0.5)
            raise ValueError(f"{unknown[0]}: no such option" + (f"; did you mean {near[0]}?" if near else "; see --help"))
        return vars(given)


def command_line():
    """One option for each field of Settings, and those that use a trained run."""
    parser = Arguments(prog="train.py", description="Train and use sentence-pair models; see README.md.",
                       allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for f in fields(Settings):
        name = "--" + f.name.replace("_", "-")
        default = "" if f.default in (None, "", False) else f" (default: {f.default})"
        text = (f.metadata["help"] + default).replace("%", "%%")
        if f.type is bool or f.type == "bool":
            parser.add_argument(name, action="store_true", help=text)
        else:
            kind = next(k for k in (int, float, str) if k is f.type or k in getattr(f.type, "__args__", ()))
            parser.add_argument(name, type=kind, help=text, choices=f.metadata["choices"], metavar=f.name.upper()
                                if not f.metadata["choices"] else None)
    parser.add_argument("--resume", action="store_true", help="go on in --out from its last checkpoint")
    parser.add_argument("--from", dest="run", metavar="RUN", help="use the trained run in this folder")
    parser.add_argument("--test", action="store_true", help="evaluate the best epoch on the test split, once")
    parser.add_argument("--predict", metavar="FILE", help="with --from: label the pairs of a .tsv or .csv file")
    return parser


# ---- Data -----------------------------------------------------------------------------------------------------------

def load_pairs(settings):
    """The task and its splits, cut as --train-fraction and --limit say. -> (Task, dict split -> list of Pair)"""
    if settings.task == "own":
        task, splits = tasks.own_task(settings.train_file, settings.dev_file, settings.test_file)
    else:
        task, splits = tasks.load_task(settings.task, settings.data_dir, bert_min.download)
    train = splits["train"]
    if settings.train_fraction < 1:
        blocks = [train[i:i + task.block] for i in range(0, len(train), task.block)]
        blocks = random.Random(settings.seed).sample(blocks, max(1, round(settings.train_fraction * len(blocks))))
        train = [pair for block in blocks for pair in block]
    return task, {name: pairs[:settings.limit] for name, pairs in (splits | {"train": train}).items()}


class Examples:
    """Encoded pairs of one split; a batch's prior matrices are made when it is collated, from parses made before.

    `indices` of collate are places in `pairs`. Nothing here depends on a batch's neighbours.
    """

    def __init__(self, pairs, settings, tokenizer, parses=None, tfidf=None):
        spans = (lambda text: parses[text].spans) if parses else (lambda text: None)
        packed = [(p.a, spans(p.a), p.b, spans(p.b)) for p in pairs]
        self.pairs, self.pad_id = pairs, tokenizer.pad_id
        self.encoded = tokenizer.encode_batch(packed, settings.max_length)
        self.lengths = [len(ids) for ids, _, _ in self.encoded]
        self.parses, self.options = parses, settings.options()
        self.weights = {t: tfidf.weights(parses[t].words) for p in pairs for t in (p.a, p.b)} if parses else None

    def matrix(self, pair):
        """DAFA's M_F of one pair, (n, m) float32."""
        return priors.dependency_matrix(self.parses[pair.a], self.parses[pair.b], self.weights[pair.a],
                                        self.weights[pair.b], self.options["printed"],
                                        self.options["without"] & {"tree", "subgraph", "tfidf"})

    def collate(self, indices):
        """Padded tensors of the pairs at these places: input_ids, segment, mask, word_index (B, L), prior (B, n, m)."""
        length = max(self.lengths[i] for i in indices)
        arrays = np.zeros((3, len(indices), length), np.int64)
        arrays[0], arrays[2] = self.pad_id, -1
        mask = np.zeros((len(indices), length), bool)
        for row, i in enumerate(indices):
            arrays[:, row, :self.lengths[i]] = self.encoded[i]
            mask[row, :self.lengths[i]] = True
        batch = dict(zip(("input_ids", "segment", "word_index"), torch.from_numpy(arrays)), mask=torch.from_numpy(mask))
        if self.parses:
            matrices = [self.matrix(self.pairs[i]) for i in indices]
            n, m = (max(1, *(x.shape[axis] for x in matrices)) for axis in (0, 1))
            prior = torch.zeros(len(indices), n, m)  # (B, n, m)
            for row, x in enumerate(matrices):
                prior[row, :x.shape[0], :x.shape[1]] = torch.from_numpy(x)
            batch["prior"] = prior
        labels = [self.pairs[i].label for i in indices]
        return batch, None if None in labels else torch.tensor(labels)

    def loader(self, batches, settings):
        """Collated batches, in order; `batches` is a list of lists of places."""
        return DataLoader(range(len(self.pairs)), batch_sampler=batches, collate_fn=self.collate,
                          num_workers=settings.workers, pin_memory=settings.device.startswith("cuda"),
                          generator=torch.Generator())      # its own, so that the global one is not touched


def training_batches(lengths, batch_size, seed, block=1):
    """All places in a random order decided by seed, in batches of like lengths: sorted within pools of 50 batches.
    Runs of `block` neighbours stay together (see tasks.Task)."""
    rng, whole = random.Random(seed), len(lengths) // block * block
    blocks = [range(i, i + block) for i in range(0, whole, block)]
    rng.shuffle(blocks)
    order, pool = [], 50 * max(1, batch_size // block)
    for start in range(0, len(blocks), pool):
        like = sorted(blocks[start:start + pool], key=lambda places: max(lengths[i] for i in places))
        order += [i for places in like for i in places]
    order += range(whole, len(lengths))
    batches = [order[i:i + batch_size] for i in range(0, len(order), batch_size)]
    rng.shuffle(batches)
    return batches


def prepare(settings, tokenizer, splits, tfidf=None):
    """What the model needs beside the ids: parses and word weights, where its prior asks for them.

    -> (dict split -> Examples, TfIdf or None). Parses are kept in CACHE under a key of texts and parser.
    """
    parses = None
    if getattr(ATTENTION[settings.model], "PRIOR", None) == "dependency":
        texts = [text for pairs in splits.values() for p in pairs for text in (p.a, p.b)]
        parser = None if settings.parses else priors.load_parser()
        parses = priors.parse_texts(texts, parser, CACHE, settings.parses, progress=main_process())
        tfidf = tfidf or priors.TfIdf(parses[t].words for p in splits["train"] for t in (p.a, p.b))
    return {name: Examples(pairs, settings, tokenizer, parses, tfidf) for name, pairs in splits.items()}, tfidf


# ---- Several processes ----------------------------------------------------------------------------------------------

def world():
    """(rank, processes): (0, 1) unless torchrun started us."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def main_process():
    """Is this the process that prints and writes?"""
    return world()[0] == 0


def say(*words):
    """Print, on one process."""
    if main_process():
        tqdm.write(" ".join(map(str, words)))


@contextlib.contextmanager
def main_process_first():
    """The first process does the work inside (downloads, caches); the others do it after, and find it done."""
    rank, count = world()
    if rank:
        dist.barrier()
    yield
    if count > 1 and not rank:
        dist.barrier()


def from_main_process(decide):
    """What `decide` returns on the first process, on all of them."""
    box = [decide() if main_process() else None]
    if world()[1] > 1:
        dist.broadcast_object_list(box)
    return box[0]


def add_over_processes(model, loss, due):
    """Sums gradients and the loss over all processes, in one transfer. Returns the summed loss, and whether a
    checkpoint is `due` by the clock of any of them."""
    if world()[1] == 1:
        return float(loss), due
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
    flat = torch.cat([g.flatten() for g in grads] + [torch.stack([loss, torch.tensor(float(due)).to(loss)])])
    dist.all_reduce(flat)
    for p, g in zip(model.parameters(), flat[:-2].split([g.numel() for g in grads])):
        p.grad = g.view_as(p)
    return flat[-2].item(), flat[-1].item() > 0


# ---- Model and optimizer --------------------------------------------------------------------------------------------

def build(settings, task, encoder=None, texts=None):
    """The model and its tokenizer: from --bert, from scratch (a vocabulary learned from texts), or from a run's
    encoder folder, without weights. -> (Matcher, PairTokenizer, BertConfig, names of the new parameters)"""
    arrays = None
    if encoder:
        config = BertConfig.from_json(Path(encoder) / "config.json")
        tokenizer = PairTokenizer.from_folder(encoder, config)
    elif settings.bert == "scratch":
        tokenizer = PairTokenizer.train(texts, vocab_size=8000)
        config = BertConfig(tokenizer.vocab_size, **SCRATCH_SIZES, max_length=settings.max_length)
    else:
        folder = bert_min.find_bert(settings.bert, settings.data_dir, progress=main_process())
        config, arrays = bert_min.read_checkpoint(folder)
        tokenizer = PairTokenizer.from_folder(folder, config)
    if settings.dropout is not None:
        config = replace(config, dropout=settings.dropout, attention_dropout=settings.dropout)
    if settings.max_length > config.max_length:
        raise ValueError(f"--max-length {settings.max_length}: this encoder has {config.max_length} positions")
    torch.manual_seed(settings.seed)
    model = Matcher(settings.model, config, len(task.labels) or 1, settings.layer_indices(config.num_layers),
                    **settings.options())
    if settings.bert == "scratch":                          # BERT's N(0, 0.02²) is made for 768 columns, not for 64
        for p in (p for name, p in model.named_parameters() if p.dim() == 2 and "embeddings" not in name):
            torch.nn.init.xavier_uniform_(p)
    new = ["bert." + n for n in bert_min.load_bert(model.bert, arrays, settings.bert)] if arrays else []
    return model, tokenizer, config, new


def make_optimizer(model, new, settings):
    """AdamW; no decay on biases and norms; layers that the method adds have their own rate."""
    groups = {}
    for name, p in model.named_parameters():
        rate = settings.lr_new if name in new else settings.lr
        decay = settings.weight_decay if p.dim() > 1 else 0.0
        groups.setdefault((rate, decay), []).append(p)
    return torch.optim.AdamW([{"params": p, "lr": rate, "peak": rate, "weight_decay": decay}
                              for (rate, decay), p in groups.items()], fused=settings.device.startswith("cuda"))


def rate(step, total, warmup):
    """Factor of the learning rate: linear up over the first warmup·total steps, then linear down to 0."""
    rise = warmup * total
    return min(1.0, (step + 1) / max(1.0, rise), (total - step) / max(1.0, total - rise))


def loss_sum(logits, labels, regression):
    """Cross-entropy, or squared error of scores, in float32, summed over the batch."""
    if regression:
        return F.mse_loss(logits.float()[:, 0], labels.float(), reduction="sum")
    return F.cross_entropy(logits.float(), labels, reduction="sum")


@torch.inference_mode()
def predict(model, examples, settings):
    """Logits of every pair, (N, C) float32 on the CPU, in the order of the pairs."""
    model.eval()
    order = sorted(range(len(examples.pairs)), key=lambda i: examples.lengths[i])
    batches = [order[i:i + 64] for i in range(0, len(order), 64)]
    rank, count = world()
    mine, found = batches[rank::count], []
    for batch, _ in examples.loader(mine, settings):
        batch = {name: x.to(settings.device, non_blocking=True) for name, x in batch.items()}
        with autocast(settings):
            found.append(model(**batch).float().cpu())
    if count > 1:
        parts = [None] * count
        dist.all_gather_object(parts, (mine, found))
        mine, found = ([x for part in parts for x in part[k]] for k in (0, 1))
    logits = torch.cat(found) if found else torch.zeros(0, 1)
    places = torch.tensor([i for batch in mine for i in batch])
    return logits[places.argsort()]


def evaluate(model, examples, task, settings):
    """Metrics of a labelled split, by phenomenon too where the pairs have one. -> dict of floats in [-1, 1]"""
    logits = predict(model, examples, settings)
    guesses = (logits[:, 0] if task.regression else logits.argmax(1)).tolist()
    labels = [pair.label for pair in examples.pairs]
    scores = tasks.evaluate(task, labels, guesses)
    for group in dict.fromkeys(pair.group for pair in examples.pairs if pair.group):
        rows = [i for i, pair in enumerate(examples.pairs) if pair.group == group]
        some = tasks.evaluate(task, [labels[i] for i in rows], [guesses[i] for i in rows])
        scores[group] = some[task.metrics[0]]
    return scores


def autocast(settings):
    """bfloat16 where --precision says so."""
    return torch.autocast(settings.device.split(":")[0], torch.bfloat16, enabled=settings.precision == "bf16")


# ---- Run folder -----------------------------------------------------------------------------------------------------

def write(path, save):
    """Calls save(temporary name) and renames: the file is whole or as it was. Raises OSError naming the file."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        save(temporary)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:                # torch.save raises RuntimeError on a full disk
        reason = str(error).split("\n")[0]
        raise OSError(f"cannot write {path}: {reason}; what was written before is whole, make room and --resume") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path, content):
    """Writes JSON, whole or not at all."""
    write(path, lambda name: name.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8"))


def read_json(path):
    """Raises ValueError naming the file."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: expected the file of a finished run, found: {error}; correct the folder") from None


def load_state(path, device):
    """A file that torch.save wrote, nothing in it run. Raises ValueError naming the file."""
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except Exception as error:      # torch raises many kinds
        reason = str(error).split("\n")[0]
        raise ValueError(f"{path}: expected a checkpoint, found: {reason}; train again with another --out") from None


def new_folder(settings):
    """The folder for a new run: --out, which must hold no run, or the next free runs/TASK-MODEL."""
    if settings.out:
        if (Path(settings.out) / "config.json").exists():
            raise ValueError(f"--out {settings.out} holds a run; give --resume to go on with it, or another folder")
        return Path(settings.out)
    name, number = f"{settings.task}-{settings.model}", 1
    while (RUNS / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return RUNS / (name if number == 1 else f"{name}-{number}")


class Log:
    """log.jsonl, one event a line. Of a run that was cut off, what came after its checkpoint is dropped."""

    def __init__(self, path, step, epoch):
        self.path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() and step else []
        events = [(line, json.loads(line)) for line in lines if line.endswith("}")]
        kept = [line + "\n" for line, event in events if event["step"] <= step and event.get("epoch", 0) <= epoch]
        write(path, lambda name: name.write_text("".join(kept), "utf-8"))

    def __call__(self, **event):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


# ---- Training -------------------------------------------------------------------------------------------------------

@dataclass
class Run:
    """One model on its way through training, and all of it that a checkpoint holds."""

    settings: Settings
    out: Path
    task: tasks.Task
    model: Matcher
    optimizer: torch.optim.Optimizer
    new: list
    examples: dict
    seconds: Counter
    step: int = 0
    epoch: int = 0
    best: float | None = None
    best_epoch: int = 0
    pairs: int = 0

    KEPT = ("step", "epoch", "best", "best_epoch", "pairs", "seconds")

    def save(self):
        """Writes last.pt; called on all processes at once, since each has a random state of its own."""
        cuda = torch.cuda.get_rng_state() if self.settings.device.startswith("cuda") else None
        random_states = [(torch.get_rng_state(), cuda)] * world()[1]
        if world()[1] > 1:
            dist.all_gather_object(random_states, random_states[0])
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "random": random_states,
                 "run": {name: getattr(self, name) for name in self.KEPT} | {"seconds": dict(self.seconds)}}
        if main_process():
            write(self.out / "last.pt", lambda name: torch.save(state, name))

    def load(self):
        """Takes everything from last.pt."""
        state = load_state(self.out / "last.pt", "cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if len(state["random"]) == world()[1]:
            cpu, cuda = state["random"][world()[0]]
            torch.set_rng_state(cpu)
            if cuda is not None and self.settings.device.startswith("cuda"):
                torch.cuda.set_rng_state(cuda)
        vars(self).update(state["run"], seconds=Counter(state["run"]["seconds"]))


def set_up(settings, out, resume):
    """Pairs, model, optimizer: a Run at its first step, or at its last checkpoint. Writes what --from will need."""
    seconds, begun = Counter(), time.perf_counter()
    with main_process_first():
        task, splits = load_pairs(settings)
        splits = {name: pairs for name, pairs in splits.items() if name == "train" or name.startswith(task.selection)}
        texts = [text for pair in splits["train"] for text in (pair.a, pair.b)]
        model, tokenizer, config, new = build(settings, task, out / "encoder" if resume else None, texts)
        seconds["load"] = time.perf_counter() - begun
        examples, tfidf = prepare(settings, tokenizer, splits)
        seconds["parse and encode"] = time.perf_counter() - begun - seconds["load"]
    if resume:
        new = read_json(out / "config.json")["new_parameters"]
    elif main_process():
        out.mkdir(parents=True, exist_ok=True)
        tokenizer.save(out / "encoder")
        config.to_json(out / "encoder" / "config.json")
        if tfidf:
            write_json(out / "words.json", {"sentences": tfidf.N, "df": tfidf.df})
        write_json(out / "config.json", {"settings": asdict(settings), "task": asdict(task), "new_parameters": new})
    model.to(settings.device)
    run = Run(settings, out, task, model, make_optimizer(model, set(new), settings), new, examples, seconds)
    torch.manual_seed(settings.seed + world()[0])
    if resume:
        run.load()
    return run


def gradients(forward, parts, size, task, settings):
    """Forward and backward over the parts of one batch of `size` pairs. Returns the loss, averaged over the batch."""
    loss = torch.zeros((), device=settings.device)
    for batch, labels in parts:
        batch = {name: x.to(settings.device, non_blocking=True) for name, x in batch.items()}
        with autocast(settings):
            logits = forward(**batch)
        part = loss_sum(logits, labels.to(settings.device), task.regression) / size
        part.backward()
        loss += part.detach()
    return loss


def train(settings, out, resume=False):
    """Trains one model into the folder `out` and returns what stands in its result.json."""
    run = set_up(settings, out, resume)
    model, task, train_set = run.model, run.task, run.examples["train"]
    forward = torch.compile(model, dynamic=True) if settings.compile else model
    log = Log(out / "log.jsonl", run.step, run.epoch) if main_process() else (lambda **event: None)
    steps = math.ceil(len(train_set.pairs) / settings.batch_size)         # of one epoch
    total, (rank, count) = settings.epochs * steps, world()
    say(f"{settings.model} on {task.name}: {len(train_set.pairs)} pairs, {total} steps of {settings.batch_size}, "
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {settings.device} {settings.precision}, {out}")
    if run.new:
        say(f"new, at --lr-new {settings.lr_new:g}:", ", ".join(run.new))
    saved_at = time.monotonic()

    while run.epoch < settings.epochs and not (settings.patience and run.epoch - run.best_epoch >= settings.patience):
        model.train()
        order = training_batches(train_set.lengths, settings.batch_size, f"{settings.seed} {run.epoch}", task.block)
        order = order[run.step - run.epoch * steps:]
        cut = settings.accumulate * count                                  # parts of a batch, over all processes
        shares = [[part for r in range(rank, cut, count) if (part := batch[r::cut])] for batch in order]
        loader = iter(train_set.loader([part for share in shares for part in share], settings))
        bar = tqdm(zip(order, shares), total=steps, initial=steps - len(order), leave=False,
                   desc=f"epoch {run.epoch + 1}/{settings.epochs}", disable=None if main_process() else True)
        for batch, share in bar:
            begun = time.perf_counter()
            loss = gradients(forward, itertools.islice(loader, len(share)), len(batch), task, settings)
            due = time.monotonic() - saved_at > 60 * settings.checkpoint_minutes
            loss, due = add_over_processes(model, loss, due)
            if not math.isfinite(loss):
                raise ValueError(f"the loss is {loss} at step {run.step + 1}: lower --lr or --lr-new, or try --precision "
                                 f"fp32")
            norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip))
            for group in run.optimizer.param_groups:
                group["lr"] = group["peak"] * rate(run.step, total, settings.warmup)
            run.optimizer.step()
            run.optimizer.zero_grad()
            run.step += 1
            run.pairs += len(batch)
            run.seconds["train"] += time.perf_counter() - begun
            log(step=run.step, loss=loss, norm=norm, lr=run.optimizer.param_groups[0]["lr"])
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            if due:
                run.save()
                saved_at = time.monotonic()
        begun = time.perf_counter()
        scores = evaluate(model, run.examples[task.selection], task, settings)
        run.seconds["evaluate"] += time.perf_counter() - begun
        run.epoch += 1
        if better := run.best is None or scores[task.metrics[0]] > run.best:
            run.best, run.best_epoch = scores[task.metrics[0]], run.epoch
            if main_process():
                write(out / "best.pt", lambda name: torch.save(model.state_dict(), name))
        log(step=run.step, epoch=run.epoch, split=task.selection, **scores)
        say(f"epoch {run.epoch}: {task.selection} " + ", ".join(f"{name} {100 * scores[name]:.1f}" for name in task.metrics)
            + (", the best so far" if better else ""))
        run.save()
    return finish(run)


def finish(run):
    """Evaluates the best epoch and writes result.json."""
    if world()[1] > 1:
        dist.barrier()                                                     # best.pt is there
    run.model.load_state_dict(load_state(run.out / "best.pt", run.settings.device))
    begun = time.perf_counter()
    metrics = {name: evaluate(run.model, x, run.task, run.settings) for name, x in run.examples.items() if name != "train"}
    run.seconds["evaluate"] += time.perf_counter() - begun
    parameters = dict(run.model.named_parameters())
    result = {"task": run.task.name, "model": run.settings.model, "bert": run.settings.bert, "seed": run.settings.seed,
              "selection_split": run.task.selection, "best_epoch": run.best_epoch, "metrics": metrics,
              "pairs": {name: len(x.pairs) for name, x in run.examples.items()},
              "seconds": {name: round(value, 2) for name, value in run.seconds.items()},
              "pairs_per_second": round(run.pairs / run.seconds["train"], 2), "peak_memory_mb": peak_memory(run.settings),
              "parameters": sum(p.numel() for p in parameters.values()),
              "new_parameters": sum(parameters[name].numel() for name in run.new),
              "settings": asdict(run.settings), "versions": versions()}
    if main_process():
        write_json(run.out / "result.json", result)
    return result


def peak_memory(settings):
    """Highest memory use so far in MB: of the GPU, or of the process."""
    if settings.device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() // 2 ** 20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2 ** 20 if sys.platform == "darwin" else 2 ** 10)


def versions():
    """What the numbers depend on beside the settings."""
    return {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__,
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "processor": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}


def train_seeds(settings, out, resume):
    """One run in `out`, or --seeds runs in out/seed0, ... -> list of results. A finished run is not run again."""
    if settings.seeds > 1:
        seeds = range(settings.seed, settings.seed + settings.seeds)
        results = [train_seeds(replace(settings, seed=s, seeds=1), out / f"seed{s}", resume)[0] for s in seeds]
        if main_process():
            write_json(out / "seeds.json", {"seeds": list(seeds), "metrics": summary(results)})
        return results
    if resume and (out / "result.json").exists():
        return [read_json(out / "result.json")]
    return [train(settings, out, resume and (out / "last.pt").exists())]


# ---- What the user sees ---------------------------------------------------------------------------------------------

def summary(results):
    """split -> metric -> {"mean", "std", "values"} over runs; std is the sample's, 0 for one run."""
    def over_runs(values):
        return {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0,
                "values": values}
    return {split: {name: over_runs([r["metrics"][split][name] for r in results]) for name in scores}
            for split, scores in results[0]["metrics"].items()}


def table(columns):
    """Text: a row for each metric, a column for each entry of columns (dict title -> list of results), and where
    there are several splits, each beside the others."""
    sums = {title: summary(results) for title, results in columns.items()}
    first = next(iter(sums.values()))
    rows = [["", *(f"{split} {title}" for split in first for title in sums)]]
    for name in dict.fromkeys(name for scores in first.values() for name in scores):
        cells = [sums[title][split].get(name) for split in first for title in sums]
        rows.append([name, *("" if c is None else f"{100 * c['mean']:.1f}" + (f" ({100 * c['std']:.1f})" if
                             len(c["values"]) > 1 else "") for c in cells)])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))])
                     for row in rows)


def start(given):
    """Trains, or goes on with --resume, and prints the summary; --test reads the test split once at the end."""
    resume, test = given.pop("resume", False), given.pop("test", False)
    if resume:
        if "out" not in given:
            raise ValueError("--resume needs --out, the folder of the run to go on with")
        saved = read_json(Path(given["out"]) / "config.json")["settings"]
        for name in set(given) - {"out", "device", "workers", "data_dir", "checkpoint_minutes"}:
            if given[name] != saved[name]:
                raise ValueError(f"--{name.replace('_', '-')} {given[name]}: the run in {given['out']} has {saved[name]}; "
                                 f"leave the option out, or start another run")
        given = saved | given
    settings = Settings(**given).complete()
    out = Path(given["out"]) if resume else from_main_process(lambda: new_folder(settings))
    settings = replace(settings, out=str(out))
    runs = {settings.model: (settings, out)}
    if settings.beside != "none":
        runs[settings.beside] = (replace(settings, model=settings.beside, beside="none", printed="", without=""),
                                 out / f"beside-{settings.beside}")
    with main_process_first():
        if main_process() and not resume:
            out.mkdir(parents=True, exist_ok=True)
            write_json(out / "config.json", {"settings": asdict(settings)})
    try:
        results = {title: train_seeds(*run, resume) for title, run in runs.items()}
    except (ValueError, OSError):
        if main_process() and not resume and not any(out.rglob("encoder")):     # nothing was begun
            (out / "config.json").unlink(missing_ok=True)
            with contextlib.suppress(OSError):                             # what else lies there stays
                out.rmdir()
        raise
    if test:
        for title, (_, folder) in runs.items():
            for result, tested in zip(results[title], test_runs(folder, {})):
                result["metrics"] |= tested["metrics"]
    say("\n" + table(results))
    first = next(iter(results.values()))[0]
    if settings.task == "toy":
        say("\ntoy is a generated diagnostic; its numbers say nothing about real English")
    say(f"best epoch chosen on {first['selection_split']}; {out} holds weights, log and result.json")


def load_run(folder, given):
    """A trained run -> (settings, Task, model with the best epoch's weights, tokenizer, TfIdf or None)."""
    config = read_json(folder / "config.json")
    if "task" not in config:
        raise ValueError(f"--from {folder}: expected one trained run, found a group of them; name one of its folders")
    settings = Settings(**(config["settings"] | {"device": None} | given)).complete()     # here, not where it was made
    task = tasks.Task(**{name: tuple(x) if isinstance(x, list) else x for name, x in config["task"].items()})
    model, tokenizer, _, _ = build(settings, task, folder / "encoder")
    model.load_state_dict(load_state(folder / "best.pt", settings.device))
    tfidf = None
    if (folder / "words.json").exists():
        words, tfidf = read_json(folder / "words.json"), priors.TfIdf([])
        tfidf.N, tfidf.df = words["sentences"], Counter(words["df"])
    return settings, task, model.to(settings.device), tokenizer, tfidf


def test_runs(folder, given):
    """Evaluates a run, or every seed of a group, on its task's test splits; writes test.json beside each."""
    folders = sorted(folder.glob("seed[0-9]*"), key=lambda f: int(f.name[4:])) or [folder]
    results = []
    for one in folders:
        settings, task, model, tokenizer, tfidf = load_run(one, given)
        splits = {name: pairs for name, pairs in load_pairs(settings)[1].items() if name.startswith("test")}
        if not splits or any(pair.label is None for pairs in splits.values() for pair in pairs):
            raise ValueError(f"--test: {task.name} has no labelled test split; --from {one} --predict FILE labels a file")
        examples, _ = prepare(settings, tokenizer, splits, tfidf)
        results.append({"selection_split": task.selection, "seed": settings.seed,
                        "metrics": {name: evaluate(model, x, task, settings) for name, x in examples.items()}})
        if main_process():
            write_json(one / "test.json", results[-1])
    return results


def predict_file(folder, file, given):
    """Labels the pairs of a file into RUN/predictions-FILE.tsv; prints metrics when the file has labels."""
    settings, task, model, tokenizer, tfidf = load_run(folder, given)
    pairs = tasks.read_pairs(file, labels=task.labels, need_label=False)
    examples, _ = prepare(settings, tokenizer, {"file": pairs}, tfidf)
    logits = predict(model, examples["file"], settings)
    header, rows = ["sentence1", "sentence2", "prediction"], logits.tolist()
    if not task.regression:
        header += [f"p({label})" for label in task.labels]
        rows = [[task.labels[row.index(max(row))], *p] for row, p in zip(rows, logits.softmax(1).tolist())]
    clean = (lambda text: " ".join(text.split()))
    lines = ["\t".join(header)] + ["\t".join([clean(pair.a), clean(pair.b), *(x if isinstance(x, str) else f"{x:.4f}"
                                                                             for x in row)])
                                   for pair, row in zip(pairs, rows)]
    path = folder / f"predictions-{Path(file).stem}.tsv"
    if main_process():
        write(path, lambda name: name.write_text("\n".join(lines) + "\n", "utf-8"))
    say(f"{len(pairs)} pairs labelled in {path}")
    if all(pair.label is not None for pair in pairs):
        scores = evaluate(model, examples["file"], task, settings)
        say(table({Path(folder).name: [{"metrics": {Path(file).name: scores}}]}))


def use(given):
    """What --from does."""
    folder, test, file = Path(given.pop("run")), given.pop("test", False), given.pop("predict", None)
    extra = set(given) - {"device", "precision", "workers", "data_dir", "parses"}
    if extra:
        raise ValueError(f"--{extra.pop().replace('_', '-')} belongs to training; with --from the run's own setting counts")
    if not (test or file):
        raise ValueError("--from needs --test or --predict FILE")
    if file:
        predict_file(folder, file, given)
    if test:
        say(table({folder.name: test_runs(folder, given)}))


def main(argv=None):
    """The command line. Returns the exit status: 0, 2 for a user's mistake, 130 when interrupted."""
    torchrun = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    try:
        given = command_line().parse(argv)
        if torchrun:
            cuda = torch.cuda.is_available() and given.get("device", "cuda").startswith("cuda")
            dist.init_process_group("nccl" if cuda else "gloo")
            if cuda:
                given["device"] = f"cuda:{os.environ['LOCAL_RANK']}"
                torch.cuda.set_device(given["device"])
        if "predict" in given and "run" not in given:
            raise ValueError("--predict needs --from RUN, a trained run")
        use(given) if "run" in given else start(given)
    except (ValueError, OSError) as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print("train.py: the device is out of memory; raise --accumulate, or lower --batch-size or --max-length",
              file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ntrain.py: interrupted; --resume --out FOLDER goes on from the last checkpoint", file=sys.stderr)
        return 130
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
