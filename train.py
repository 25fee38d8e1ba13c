"""Train, evaluate and use sentence-pair models: `python train.py --task mrpc --model dafa`.

One flat loop (`train`), read from top to bottom: batch, forward, backward, clip, step, log; evaluate and save after
each epoch; the best epoch is chosen on dev, and test is read once, when `--test` asks for it.

A run folder holds
    config.json   every setting, so that --from and --resume need nothing else     encoder/    sizes and vocabulary
    log.jsonl     one event a line                                                 words.json  sentence counts (tf-idf)
    best.pt       weights of the best epoch       last.pt    all that --resume needs, every random state included
    result.json   metrics, seconds, speed, memory, parameters, versions            test.json   metrics of --test
    explanation.html, predictions-FILE.tsv, TASK-SPLIT.tsv, robustness.json   what --explain, --predict, --robustness say
and a folder of several runs, one folder each: seeds.json (--seeds), comparison.json (--beside), vary.json (--vary).

Several GPUs or machines: `torchrun --nproc-per-node 4 train.py ...`. A batch is cut over the processes, so neither
their number nor --accumulate changes what is computed, only where.

Left out: what is computed (semmatch, bert_min, priors), where pairs come from (tasks).
"""
import argparse
import contextlib
import difflib
import functools
import itertools
import json
import math
import os
import platform
import random
import resource
import signal
import statistics
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from tokenizers import decoders, models
from torch.utils.data import DataLoader
from tqdm import tqdm

import bert_min
import explain
import priors
import tasks
from bert_min import BertConfig, PairTokenizer
from semmatch import METHODS, DrrNet, FusionAttention, LadraNet, Matcher, check_options, check_sizes

# Axes: B batch, L tokens, n words of a (of either sentence for DRr-Net), m words of b, c characters, R relations

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")      # set, so that tokenizers is silent about --workers
torch.backends.cuda.enable_cudnn_sdp(False)      # with a mask its backward pass gives NaN on Hopper: pytorch issue 196678
RUNS = Path("runs")                # where run folders go without --out
CACHE = RUNS / "cache"             # parses; data sets may lie in a folder that cannot be written
ENCODED = 4096                     # pairs that are tokenized at once: what the tokenizer returns is larger than what is kept


# ---- Settings -------------------------------------------------------------------------------------------------------

BY_RECIPE = " (default: by model and task)"
GROUPS = {"task": "data", "model": "method", "data_dir": "folders", "recipe": "training",     # a group's first option
          "device": "machine"}


def option(default, help, choices=None):
    """A field of Settings with what the command line says about it."""
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """Everything a run depends on. None: decided by model and task, in `Settings.complete`."""

    task: str = option("toy", f"toy (generated, no network), {', '.join(tasks.SOURCES)}, or own with --train-file and "
                              "--dev-file")
    train_file: str | None = option(None, "own data, .tsv or .csv with the header sentence1, sentence2, label")
    dev_file: str | None = option(None, "the same for choosing the best epoch")
    test_file: str | None = option(None, "the same for --test")
    model: str = option("dafa", "the method; bert is the plain encoder", tuple(METHODS))
    beside: str | None = option(None, "a second model trained and shown beside it, by its own recipe, or none "
                                      "(default: bert for toy, none otherwise)", (*METHODS, "none"))
    bert: str | None = option(None, "tiny, mini, small, medium, base, large, roberta-base, a folder with weights, or "
                                    "scratch: small and untrained (default: scratch for toy, base otherwise)")
    printed: str = option("", "equations computed as typeset: all, or numbers such as 6,9")
    scope: str = option("hidden", "fuse all heads together, or inside each head", ("hidden", "head"))
    layers: str = option("first", "layers that carry the method: first, all, or numbers such as 0,3")
    without: str = option("", "parts of the method to leave out, such as tree,gates; a wrong name lists them all")
    sizes: str = option("", "drrnet, ladranet: sizes of the paper's table, such as STEPS=4,LAYERS=2 or KERNELS=1+2")
    glove: str | None = option(None, "drrnet: word vectors in GloVe's text form, which are then fixed (default: learned)")
    parses: str | None = option(None, "your own parses as a CoNLL-U file, instead of the shipped parser's")
    data_dir: str = option("data", "data sets and weights, downloaded into it where missing")
    out: str | None = option(None, "run folder (default: runs/TASK-MODEL, with a number if that exists)")
    recipe: str = option("ours", "ours, or printed: how the external-knowledge paper trains, Adadelta and then SGD",
                         ("ours", "printed"))
    epochs: int | None = option(None, "passes over the training pairs" + BY_RECIPE)
    batch_size: int | None = option(None, "pairs in one optimizer step, over all processes and --accumulate" + BY_RECIPE)
    accumulate: int = option(1, "parts a batch is computed in, to save memory")
    optimizer: str | None = option(None, "AdamW, or Adam, or Adadelta" + BY_RECIPE, ("adamw", "adam", "adadelta"))
    lr: float | None = option(None, "highest learning rate" + BY_RECIPE)
    lr_new: float | None = option(None, "the same for the layers that the method adds (default: --lr; 1e-3 for ladranet)")
    schedule: str | None = option(None, "the rate's way up and down again, straight or in half cosines; or flat" + BY_RECIPE,
                                  ("linear", "cosine", "flat"))
    warmup: float | None = option(None, "share of the steps in which the rate rises" + BY_RECIPE)
    weight_decay: float | None = option(None, "the optimizer's decay; none on biases and norms" + BY_RECIPE)
    clip: float | None = option(None, "largest gradient norm" + BY_RECIPE)
    dropout: float | None = option(None, "dropout of the encoder (default: as its configuration says)")
    patience: int | None = option(None, "stop when the dev loss, looked at after each epoch, has not fallen for this "
                                        "many steps; 0: never" + BY_RECIPE)
    max_length: int = option(128, "tokens of a packed pair; longer pairs are cut")
    seed: int = option(0, "seed of weights, order and dropout")
    seeds: int = option(1, "this many runs, with seed, seed+1, ..., and their mean and spread")
    train_fraction: float = option(1.0, "share of the training pairs that is used, drawn by the seed")
    limit: int | None = option(None, "at most this many pairs of each split, for a quick try")
    device: str | None = option(None, "cpu, cuda, ... (default: cuda where there is one)")
    precision: str | None = option(None, "arithmetic of the forward pass (default: bf16 on a GPU that has it, "
                                         "else fp32)", ("fp32", "bf16"))
    compile: bool = option(False, "compile the model with torch.compile")
    workers: int = option(0, "processes that parse, and then prepare batches, beside this one")
    checkpoint_minutes: float = option(5.0, "how often last.pt is written within an epoch")

    def __post_init__(self):
        own = [bool(self.train_file), bool(self.dev_file)]
        for bad, message in (
                (any(own) and not all(own), "--train-file and --dev-file go together"),
                (any(own) and self.task not in ("toy", "own"), f"--task {self.task} and --train-file exclude each other"),
                (self.task == "own" and not any(own), "--task own needs --train-file and --dev-file"),
                (self.recipe == "printed" and self.model != "knowledge",
                 f"--recipe printed: only --model knowledge has another one on its page; {self.model} trains as its paper does"),
                (self.recipe == "printed" and self.weight_decay,
                 "--recipe printed and --weight-decay exclude each other: the decay is Eq. (9)'s"),
                (self.model == "drrnet" and self.bert not in (None, "none"), "--bert: --model drrnet reads words, with no encoder"),
                (self.model != "drrnet" and self.glove, f"--glove: only --model drrnet reads word vectors, not {self.model}"),
                (self.model in ("bert", "drrnet", "ladranet") and (self.scope, self.layers) != ("hidden", "first"),
                 f"--scope and --layers say where two signals are fused; {self.model} fuses none"),
                (self.beside == self.model, f"--beside {self.beside}: that is --model itself; name another, or none"),
                (self.test_file and not any(own), "--test-file needs --train-file and --dev-file"),
                (not 0 <= self.seed < 2 ** 63, f"--seed {self.seed}: expected 0 up to 2**63 - 1"),
                (not 0 < self.train_fraction <= 1, f"--train-fraction {self.train_fraction}: expected more than 0, at most 1"),
                (self.warmup is not None and not 0 <= self.warmup < 1, f"--warmup {self.warmup}: expected 0 up to 1"),
                (self.dropout is not None and not 0 <= self.dropout < 1, f"--dropout {self.dropout}: expected 0 up to 1")):
            if bad:
                raise ValueError(message)
        for name in ("epochs", "batch_size", "accumulate", "seeds", "limit", "max_length", "lr", "lr_new", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"--{name.replace('_', '-')} {value}: expected a number above 0")
        for name in ("patience", "workers", "weight_decay", "checkpoint_minutes"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"--{name.replace('_', '-')} {value}: expected 0 or more")
        self.options()

    def options(self):
        """What the method's class takes: printed, without, scope or sizes. Raises ValueError naming what it knows."""
        method = METHODS[self.model]
        known = getattr(method, "PRINTED", frozenset())
        parts, without = ({part for part in text.replace(" ", "").split(",") if part not in ("", "none")}
                          for text in (self.printed, self.without))
        printed = known if parts == {"all"} else {int(part) if part.isdecimal() else part for part in parts}
        sizes = dict(part.strip().partition("=")[::2] for part in self.sizes.split(",") if part.strip())
        if sizes and self.model not in ("drrnet", "ladranet"):
            raise ValueError(f"--sizes: only drrnet and ladranet have sizes of their own, not {self.model}")
        for name, text in sizes.items():
            default = getattr(method, name, None)
            kind = type(default)
            try:
                sizes[name] = tuple(map(int, text.split("+"))) if kind is tuple else kind(text) if kind in (int, float) else text
            except ValueError:
                raise ValueError(f"--sizes {name}={text}: expected a number, or numbers joined by +, such as "
                                 f"{name}={'+'.join(map(str, default if kind is tuple else (default,)))}") from None
        if self.model == "bert":
            if parts or without:
                raise ValueError("--model bert has no equations to print and no parts to leave out")
            return {}
        check_options(method, printed, without)
        check_sizes(method, sizes)
        scope = {"scope": self.scope} if issubclass(method, FusionAttention) else {}
        return {"printed": frozenset(printed), "without": frozenset(without)} | scope | sizes

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
        bert = self.bert or ("none" if self.model == "drrnet" else "scratch" if task == "toy" else "base")
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.ones(1, device=device).item()             # a kernel has to run, too
        except (RuntimeError, AssertionError) as error:     # torch raises either, with a page of text
            reason = str(error).split("\n")[0]
            raise ValueError(f"--device {device}: not usable here ({reason}); leave it out, or use cpu") from None
        fast = device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)
        recipe = (PRINTED_RECIPE if self.recipe == "printed" else SCRATCH if bert == "scratch" else
                  RECIPES[self.model] | (TOY_DRRNET if task == "toy" and self.model == "drrnet" else {}))
        decided = {name: recipe[name] for name in recipe if getattr(self, name) is None}
        if self.lr_new is None:
            decided.setdefault("lr_new", decided.get("lr", self.lr))
        beside = self.beside or ("bert" if task == "toy" and self.model != "bert" else "none")
        return replace(self, task=task, bert=bert, device=device, beside=beside, **decided,
                       precision=self.precision or ("bf16" if fast else "fp32"))


# DAFA: appendix B.1, within its ranges (one rate for all weights, 8e-6 to 3e-5; batch 16 to 64; 3 to 5 epochs; clip
# 7.5 to 15). DABERT: the same ranges, 5 epochs, decay 0.01; that decay stands in Devlin et al. (2019) too.
FINE_TUNE = dict(epochs=3, batch_size=32, optimizer="adamw", lr=2e-5, schedule="linear", warmup=0.1, weight_decay=0.01,
                 clip=10.0, patience=0)
RECIPES = {"bert": FINE_TUNE, "dabert": FINE_TUNE | dict(epochs=5), "dafa": FINE_TUNE | dict(weight_decay=1e-8),
           "knowledge": FINE_TUNE}                # as the others, to be compared with them; its paper's is --recipe printed
# Both: Adam at 1e-3, "Cosine Warm Up Decay", no lower dev loss in 1,000 batches (section VI-B). LadRa-Net trains its
# encoder at 1e-3 too; we leave it the rate of fine-tuning. DRr-Net has 1e-4: on MRPC 1e-3 saturates both softmaxes
# before Eq. (8) within a few epochs, and nothing in front of them learns again (README, Results). Batch, epochs and clip
# are not printed.
REREAD = FINE_TUNE | dict(optimizer="adam", lr_new=1e-3, schedule="cosine", warmup=0.05, weight_decay=0.0, patience=1000)
RECIPES |= {"ladranet": REREAD, "drrnet": REREAD | dict(epochs=10, lr=1e-4)}
# Knowledge, section 4.3. Its L2 ratio, Eq. (9), takes the place of the decay. Epochs and clip are not printed: three epochs
# of SNLI are 23,500 steps, of MRPC 159, so that SGD, and the ratio beyond its first percents, need more --epochs. Left out:
# its cut-offs (--max-length 48, 32, 24), dropout before every linear layer, SNLI's pairs in MNLI's training.
PRINTED_RECIPE = FINE_TUNE | dict(batch_size=70, optimizer="adadelta", lr=0.5, schedule="flat", weight_decay=0.0)
SGD_RATE, SGD_AFTER = 3e-4, 30_000                # steps without a better dev result, looked at after each epoch
SCRATCH = FINE_TUNE | dict(epochs=8, batch_size=64, lr=1e-3, dropout=0.0)
TOY_DRRNET, TOY_SIZES = dict(epochs=8, batch_size=64, lr=1e-3), dict(WORD=64, CHARACTER=32, HIDDEN=64, ATTENTION=64)
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
        group = parser.add_argument_group(GROUPS[f.name]) if f.name in GROUPS else group
        name = "--" + f.name.replace("_", "-")
        default = "" if f.default is None or f.default is False or f.default == "" else f" (default: {f.default})"
        text = (f.metadata["help"] + default).replace("%", "%%")
        if f.type is bool or f.type == "bool":
            group.add_argument(name, action="store_true", help=text)
        else:
            kind = next(k for k in (int, float, str) if k is f.type or k in getattr(f.type, "__args__", ()))
            group.add_argument(name, type=kind, help=text, choices=f.metadata["choices"], metavar=f.name.upper()
                               if not f.metadata["choices"] else None)
    several, trained = parser.add_argument_group("several runs, and cut ones"), parser.add_argument_group("a trained run")
    several.add_argument("--vary", nargs="+", action="append", metavar=("OPTION", "VALUE"), help="train once for each value of an "
                        "option, such as: --vary without none tree gates; given twice, for each combination. The first value is "
                        "what the others are compared with")
    several.add_argument("--resume", action="store_true", help="go on in --out from its last checkpoint")
    trained.add_argument("--test", action="store_true", help="score the best epoch on the test split, after training or with --from")
    trained.add_argument("--from", dest="run", metavar="RUN", help="use the run in this folder, as the options below say; alone: "
                         "show its result")
    trained.add_argument("--predict", metavar="FILE", help="label the pairs of a .tsv or .csv file, or of a split of the run's task, "
                         "such as test")
    trained.add_argument("--show-reading", action="store_true", help="with --predict: what drrnet or ladranet reads, in order")
    trained.add_argument("--explain", nargs=2, metavar=("A", "B"), help="what the model saw in these two sentences, as a page, "
                         "explanation.html in the run's folder")
    trained.add_argument("--robustness", action="store_true", help="accuracy before and after the papers' transformations of the "
                         "test pairs; needs WordNet")
    trained.add_argument("--translations", metavar="FILE", help="with --robustness: a .tsv or .csv file with the header "
                         "sentence, translation, for BackTrans")
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
    """Encoded pairs of one split; a batch's priors are computed when it is collated, from parses or facts found before.

    spans: a function text -> spans of its words, or None; prior: one of a pair -> (n, m) or (n, m, R) array, or None.
    `indices` of collate are places in `pairs`. Nothing here depends on a batch's neighbours.
    """

    def __init__(self, pairs, settings, tokenizer, spans=None, prior=None):
        of = spans or (lambda text: None)
        self.pairs, self.pad_id, self.prior, self.encoded = pairs, tokenizer.pad_id, prior, []
        for some in (pairs[i:i + ENCODED] for i in range(0, len(pairs), ENCODED)):
            packed = tokenizer.encode_batch([(p.a, of(p.a), p.b, of(p.b)) for p in some], settings.max_length)
            self.encoded += [np.array(rows, np.int32) for rows in packed]      # three rows: ids, segment, words
        self.lengths = [rows.shape[1] for rows in self.encoded]

    def collate(self, indices):
        """Padded tensors of the pairs at these places: input_ids, segment, mask, word_index (B, L), prior (B, n, m) or (B, n, m, R)."""
        length = max(self.lengths[i] for i in indices)
        arrays = np.zeros((3, len(indices), length), np.int64)
        arrays[0], arrays[2] = self.pad_id, -1
        mask = np.zeros((len(indices), length), bool)
        for row, i in enumerate(indices):
            arrays[:, row, :self.lengths[i]] = self.encoded[i]
            mask[row, :self.lengths[i]] = True
        batch = dict(zip(("input_ids", "segment", "word_index"), torch.from_numpy(arrays)), mask=torch.from_numpy(mask))
        if self.prior:
            matrices = [torch.from_numpy(self.prior(self.pairs[i])) for i in indices]
            n, m = (max(1, *(x.shape[axis] for x in matrices)) for axis in (0, 1))
            batch["prior"] = matrices[0].new_zeros(len(indices), n, m, *matrices[0].shape[2:])
            for row, x in enumerate(matrices):
                batch["prior"][row, :x.shape[0], :x.shape[1]] = x
        return batch, self.labels(indices)

    def labels(self, indices):
        """(B,), or None where one is not known."""
        labels = [self.pairs[i].label for i in indices]
        return None if None in labels else torch.tensor(labels)

    def loader(self, batches, settings):
        """Collated batches, in order; `batches` is a list of lists of places."""
        return DataLoader(range(len(self.pairs)), batch_sampler=batches, collate_fn=self.collate,
                          num_workers=settings.workers, pin_memory=settings.device.startswith("cuda"),
                          generator=torch.Generator())      # its own, so that the global one is not touched


class WordExamples(Examples):
    """Pairs as DRr-Net reads them; each tensor of a batch has a leading axis of 2, sentence a and sentence b.

    parses, facts: dicts text -> Parse, text -> what the lexicon knows of its words.
    """

    def __init__(self, pairs, settings, vocabulary, parses, facts):
        self.pairs, self.vocabulary, self.longest = pairs, vocabulary, settings.max_length
        self.parses, self.facts = parses, facts
        self.lengths = [min(self.longest, max(1, len(parses[p.a].tags), len(parses[p.b].tags))) for p in pairs]

    def features(self, text, other):
        """Tensors with a row for each word: number, characters, tag, does the other sentence have it, or its antonym?"""
        words, tags = self.parses[text].words or [""], self.parses[text].tags or ["X"]    # no words: an unknown one
        there = {word.casefold() for word in self.parses[other].words}
        relations = priors.relation_matrix(self.facts[text] or [None], self.facts[other])  # (n, m, R)
        columns = (self.vocabulary.ids(words), self.vocabulary.spell(words),
                   [priors.TAGS.index(tag if tag in priors.TAGS else "X") for tag in tags],
                   [word.casefold() in there for word in words],
                   relations[..., priors.RELATIONS.index("antonym")].any(1), [True] * len(words))
        return [torch.as_tensor(np.asarray(column)[:self.longest]) for column in columns]

    def collate(self, indices):
        """word_ids, tags int64 (2, B, n), character_ids (2, B, n, c), match, antonym, mask bool (2, B, n); labels."""
        pairs = [self.pairs[i] for i in indices]
        rows = [self.features(p.a, p.b) for p in pairs] + [self.features(p.b, p.a) for p in pairs]
        names = ("word_ids", "character_ids", "tags", "match", "antonym", "mask")
        batch = {name: pad_sequence(column, batch_first=True).unflatten(0, (2, len(pairs)))
                 for name, column in zip(names, zip(*rows))}
        return batch, self.labels(indices)


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


def dependency_prior(parses, tfidf, options, pair):
    """DAFA's M_F of one pair, (n, m) float32."""
    a, b = parses[pair.a], parses[pair.b]
    return priors.dependency_matrix(a, b, tfidf.weights(a.words), tfidf.weights(b.words), options["printed"],
                                    options["without"] & {"tree", "subgraph", "tfidf"})


def relation_prior(facts, pair):
    """The external-knowledge method's k_ij of one pair, (n, m, R) bool."""
    return priors.relation_matrix(facts[pair.a], facts[pair.b])


def prepare(settings, task, tokenizer, splits, tfidf=None):
    """What the model needs beside the ids: words, and what is known of them, where its prior asks for that.

    -> (dict split -> Examples, TfIdf or None). Parses are kept in CACHE under a key of texts and parser.
    """
    kind, spans, prior = getattr(METHODS[settings.model], "PRIOR", None), None, None
    texts = list(dict.fromkeys(text for pairs in splits.values() for p in pairs for text in (p.a, p.b)))
    if kind in ("dependency", "words"):
        parser = None if settings.parses else priors.load_parser()
        parses = priors.parse_texts(texts, parser, CACHE, settings.parses, main_process(), settings.workers)
        spans = (lambda text: parses[text].spans)
    if kind in ("relations", "words"):
        lexicon = priors.Table(tasks.LEXICON) if task.name == "toy" else priors.WordNet()
        spans = spans if kind == "words" else {text: priors.split_words(text) for text in texts}.get
        bar = tqdm(texts, "looking up words", leave=False, disable=None if main_process() else True)
        facts = {text: lexicon.facts([text[start:end] for start, end in spans(text).tolist()]) for text in bar}
        prior = functools.partial(relation_prior, facts)
    if kind == "words":
        return {name: WordExamples(pairs, settings, tokenizer, parses, facts) for name, pairs in splits.items()}, None
    if kind == "dependency":
        tfidf = tfidf or priors.TfIdf(parses[t].words for p in splits["train"] for t in (p.a, p.b))
        prior = functools.partial(dependency_prior, parses, tfidf, settings.options())
    return {name: Examples(pairs, settings, tokenizer, spans, prior) for name, pairs in splits.items()}, tfidf


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


def join_processes(device):
    """Meets the other processes that torchrun started. -> the device of this one, None for what was chosen."""
    signal.signal(signal.SIGTERM, left_alone)                    # torchrun sends it to those that are left
    wait = timedelta(days=1)                                     # while the first one parses
    if not (torch.cuda.is_available() and device.startswith("cuda")):
        dist.init_process_group("gloo", timeout=wait)
        return None
    number, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= there:
        raise ValueError(f"torchrun: more processes on this machine than its {there} GPUs; --nproc-per-node {there}")
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", timeout=wait, device_id=torch.device("cuda", number))
    return f"cuda:{number}"


def left_alone(*signal_and_frame):
    """What a process says when another one has ended."""
    raise ConnectionAbortedError("another process of this run has ended, torchrun says which; --resume --out FOLDER goes "
                                 "on from the last checkpoint")


@contextlib.contextmanager
def in_one_line():
    """torch's RuntimeErrors that are no mistake in this code become errors that `main` shows in one line."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error):
            left_alone()
        if type(error).__module__.startswith(("torch._inductor", "torch._dynamo")):
            reason = " ".join(str(error).split("\n\n")[0].split())
            raise ValueError(f"--compile: torch.compile fails here ({reason}); leave it out, or install what it lacks, on a "
                             f"CPU a C++ compiler such as g++") from None
        raise


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
    parameters = [p for p in model.parameters() if p.requires_grad]
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
    known = torch.tensor([float(p.grad is not None) for p in parameters])        # one that has none nowhere keeps none
    last = torch.cat([known, torch.tensor([float(loss), float(due)])]).to(loss)
    flat = torch.cat([g.flatten() for g in grads] + [last])
    dist.all_reduce(flat)
    *sums, last = flat.split([*(g.numel() for g in grads), len(last)])
    *counts, loss, due = last.tolist()
    for p, g, count in zip(parameters, sums, counts, strict=True):
        p.grad = g.view_as(p) if count else None
    return loss, due > 0


# ---- Model and optimizer --------------------------------------------------------------------------------------------

def learn_words(settings, texts):
    """DRr-Net's vocabulary, with vectors where --glove has them."""
    sentences = [[text[start:end] for start, end in priors.split_words(text).tolist()] for text in texts]
    if not settings.glove:
        return priors.Vocabulary.learn(sentences)
    count = Counter(word for words in sentences for word in words)
    found, malformed = priors.read_vectors(settings.glove, {form for w in count for form in (w, w.casefold())},
                                           main_process())
    have = {word for word in count if word in found or word.casefold() in found}
    say(f"{settings.glove}: vectors for {len(have):,} of {len(count):,} words ({100 * len(have) / len(count):.1f} %), "
        f"{100 * sum(count[w] for w in have) / count.total():.1f} % of the running text; {malformed} malformed lines")
    return priors.Vocabulary.learn(sentences, found, settings.seed)


def build(settings, task, encoder=None, texts=None):
    """The model and its tokenizer: from --bert, from scratch (a vocabulary learned from texts), or from a run's
    encoder folder, without weights.

    -> (model, PairTokenizer or Vocabulary, BertConfig or None, names of the new parameters)
    """
    method, classes, config, arrays = METHODS[settings.model], len(task.labels) or 1, None, None
    if method is DrrNet:
        tokenizer = priors.Vocabulary.from_folder(encoder) if encoder else learn_words(settings, texts)
    elif encoder:
        config = BertConfig.from_json(Path(encoder) / "config.json")
        tokenizer = PairTokenizer.from_folder(encoder, config)
    elif settings.bert == "scratch":
        tokenizer = PairTokenizer.train(texts, vocab_size=8000)
        config = BertConfig(tokenizer.vocab_size, **SCRATCH_SIZES, max_length=settings.max_length)
    else:
        folder = bert_min.find_bert(settings.bert, settings.data_dir, progress=main_process())
        config, arrays = bert_min.read_checkpoint(folder)
        tokenizer = PairTokenizer.from_folder(folder, config)
    if config and settings.dropout is not None:
        config = replace(config, dropout=settings.dropout, attention_dropout=settings.dropout)
    if config and settings.max_length > config.max_length:
        raise ValueError(f"--max-length {settings.max_length}: this encoder has {config.max_length} positions")
    torch.manual_seed(settings.seed)
    if method is DrrNet:
        vectors = None if tokenizer.vectors is None else torch.from_numpy(tokenizer.vectors)
        counts, sizes = (2 + len(tokenizer.words), 2 + len(tokenizer.characters)), TOY_SIZES if task.name == "toy" else {}
        model = DrrNet(*counts, classes, vectors, dropout=settings.dropout or 0.0, **(sizes | settings.options()))
        return model, tokenizer, None, []
    if method is LadraNet:
        model = LadraNet(config, classes, **settings.options())
    else:
        model = Matcher(settings.model, config, classes, settings.layer_indices(config.num_layers), **settings.options())
    if settings.bert == "scratch":                          # BERT's N(0, 0.02²) is made for 768 columns, not for 64
        for name, p in model.named_parameters():
            for part in p.chunk(3 if "gru" in name else 1) if p.dim() == 2 and "embeddings" not in name else ():
                torch.nn.init.xavier_uniform_(part)         # of a GRU, gate by gate
    new = ["bert." + n for n in bert_min.load_bert(model.bert, arrays, settings.bert)] if arrays else []
    if method is LadraNet:
        new += [name for name, _ in model.named_parameters() if not name.startswith("bert.")]
    return model, tokenizer, config, new


OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD,
              "adadelta": functools.partial(torch.optim.Adadelta, rho=0.95, eps=1e-8)}


def make_optimizer(kind, model, new, settings):
    """An optimizer of OPTIMIZERS; no decay on biases and norms; layers that the method adds have their own rate."""
    groups = {}
    for name, p in model.named_parameters():
        if p.requires_grad:
            rate = SGD_RATE if kind == "sgd" else settings.lr_new if name in new else settings.lr
            groups.setdefault((rate, settings.weight_decay if p.dim() > 1 else 0.0), []).append(p)
    known = kind.startswith("adam") and settings.device.split(":")[0] in ("cpu", "cuda")
    fused = {"fused": True} if known else {}                # one pass over the weights: a fifth of the time on a CPU
    return OPTIMIZERS[kind]([{"params": p, "lr": rate, "peak": rate, "weight_decay": decay}
                             for (rate, decay), p in groups.items()], **fused)


def rate(step, total, warmup, schedule="linear"):
    """Factor of the learning rate: up over the first warmup·total steps, then down to 0; straight, or cosine: each way
    half a cosine, the "Cosine Warm Up Decay" of LadRa-Net without the jump that its released code has; flat: 1."""
    rise = warmup * total
    share = min(1.0, (step + 1) / max(1.0, rise), (total - step) / max(1.0, total - rise))
    return {"linear": share, "cosine": (1 - math.cos(math.pi * share)) / 2, "flat": 1.0}[schedule]


def l2_ratio(step, full_step=100_000, full_ratio=0.9e-5):
    """Weight of the L2 penalty at a step.  Knowledge Eq. (9)

        L2Ratio_t = σ((t - L2FullStep/2) · 8 / (L2FullStep/2)) · L2FullRatio

    Close to 0 at first (σ(-8) = 0.0003 of the full ratio), half of it at L2FullStep/2, 0.9997 of it at L2FullStep.
    Assumes: the penalty is half the sum of squares, so that the ratio is the decay added to a gradient.
    """
    return full_ratio / (1 + math.exp(-min(700.0, max(-700.0, (step - full_step / 2) * 8 / (full_step / 2)))))


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


def answers(logits, task):
    """The score or the class of each row of logits, a list."""
    return (logits[:, 0] if task.regression else logits.argmax(1)).tolist()


def evaluate(model, examples, task, settings):
    """-> (metrics of a labelled split, floats in [-1, 1], by phenomenon too where the pairs have one; mean loss)"""
    logits = predict(model, examples, settings)
    guesses = answers(logits, task)
    labels = [pair.label for pair in examples.pairs]
    scores = tasks.evaluate(task, labels, guesses)
    for group in dict.fromkeys(pair.group for pair in examples.pairs if pair.group):
        rows = [i for i, pair in enumerate(examples.pairs) if pair.group == group]
        some = tasks.evaluate(task, [labels[i] for i in rows], [guesses[i] for i in rows])
        scores[group] = some[task.metrics[0]]
    return scores, float(loss_sum(logits, torch.tensor(labels), task.regression)) / len(labels)


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
        raise ValueError(f"{path}: expected a file that train.py wrote, found: {error}; correct the folder") from None


def read_config(folder, option):
    """config.json of a run. Raises ValueError naming the option where there is none, or one of another version."""
    if not (folder / "config.json").exists():
        raise ValueError(f"{option} {folder}: no run is there; expected a folder that holds config.json, such as runs/toy-dafa")
    config = read_json(folder / "config.json")
    if unknown := set(config["settings"]) - {f.name for f in fields(Settings)}:
        raise ValueError(f"{option} {folder}: its options {', '.join(sorted(unknown))} are not known here; use the code that "
                         f"made the run")
    return config


def load_state(path):
    """A file that torch.save wrote, on the CPU, nothing in it run. Raises ValueError naming the file."""
    if not path.exists():
        raise ValueError(f"{path}: not there yet; go on with --resume --out {path.parent}")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:      # torch raises many kinds
        reason = str(error).split("\n")[0]
        raise ValueError(f"{path}: expected a checkpoint, found: {reason}; train again with another --out") from None


def new_folder(settings, name=None):
    """The folder for a new run: --out, which must hold no run, or the next free runs/NAME (default: TASK-MODEL)."""
    if settings.out:
        if (Path(settings.out) / "config.json").exists():
            raise ValueError(f"--out {settings.out} holds a run; give --resume to go on with it, or another folder")
        return Path(settings.out)
    name, number = name or f"{settings.task}-{settings.model}", 1
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
    optimizer: torch.optim.Optimizer | None
    new: list
    examples: dict
    seconds: Counter
    kind: str = ""                       # of the optimizer
    step: int = 0
    epoch: int = 0
    best: float | None = None            # dev result, and when it was reached
    best_epoch: int = 0
    best_step: int = 0
    lowest: float = math.inf             # dev loss, and when it was reached
    lowest_step: int = 0
    pairs: int = 0

    KEPT = ("kind", "step", "epoch", "best", "best_epoch", "best_step", "lowest", "lowest_step", "pairs", "seconds")

    def use(self, kind):
        """Goes on with a new optimizer of this kind."""
        self.kind, self.optimizer = kind, make_optimizer(kind, self.model, set(self.new), self.settings)

    def judge(self, scores, loss):
        """Ends an epoch with its dev scores and loss: keeps the best weights. Returns whether they are these."""
        self.epoch += 1
        better = self.best is None or scores[self.task.metrics[0]] > self.best
        if better:
            self.best, self.best_epoch, self.best_step = scores[self.task.metrics[0]], self.epoch, self.step
            if main_process():
                write(self.out / "best.pt", lambda name: torch.save(self.model.state_dict(), name))
        if loss < self.lowest:
            self.lowest, self.lowest_step = loss, self.step
        if self.settings.recipe == "printed" and self.kind != "sgd" and self.step - self.best_step >= SGD_AFTER:
            self.use("sgd")
            say(f"no better dev result for {SGD_AFTER:,} steps: SGD goes on, at {SGD_RATE:g}")
        return better

    def stopped(self):
        """Are all epochs done, or has --patience run out?"""
        patience, done = self.settings.patience, self.epoch * self.epoch_steps     # not what a resumed epoch has begun
        return self.epoch >= self.settings.epochs or bool(patience) and done - self.lowest_step >= patience

    @property
    def epoch_steps(self):
        return math.ceil(len(self.examples["train"].pairs) / self.settings.batch_size)

    def save(self):
        """Writes last.pt; called on all processes at once, since each has a random state of its own."""
        cuda = torch.cuda.get_rng_state(self.settings.device) if self.settings.device.startswith("cuda") else None
        random_states = [(torch.get_rng_state(), cuda)] * world()[1]
        if world()[1] > 1:
            dist.all_gather_object(random_states, random_states[0])
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "random": random_states,
                 "run": {name: getattr(self, name) for name in self.KEPT} | {"seconds": dict(self.seconds)}}
        if main_process():
            write(self.out / "last.pt", lambda name: torch.save(state, name))

    def load(self):
        """Takes everything from last.pt."""
        state = load_state(self.out / "last.pt")
        self.model.load_state_dict(state["model"])
        self.use(state["run"]["kind"])
        self.optimizer.load_state_dict(state["optimizer"])
        if len(state["random"]) == world()[1]:
            cpu, cuda = state["random"][world()[0]]
            torch.set_rng_state(cpu)
            if cuda is not None and self.settings.device.startswith("cuda"):
                torch.cuda.set_rng_state(cuda, self.settings.device)
        vars(self).update(state["run"], seconds=Counter(state["run"]["seconds"]))


def set_up(settings, out, resume):
    """Pairs, model, optimizer: a Run at its first step, or at its last checkpoint. Writes what --from will need."""
    seconds, begun = Counter(), time.perf_counter()
    with main_process_first():
        task, everything = load_pairs(settings)
        splits = {name: pairs for name, pairs in everything.items() if name.startswith(("train", "dev"))}
        seen = everything if settings.glove else {"train": splits["train"]}      # fixed vectors: nothing is learned
        texts = [text for pairs in seen.values() for pair in pairs for text in (pair.a, pair.b)]
        model, tokenizer, config, new = build(settings, task, out / "encoder" if resume else None, texts)
        seconds["load"] = time.perf_counter() - begun
        examples, tfidf = prepare(settings, task, tokenizer, splits)
        seconds["parse and encode"] = time.perf_counter() - begun - seconds["load"]
    if resume:
        new = read_json(out / "config.json")["new_parameters"]
    elif main_process():
        out.mkdir(parents=True, exist_ok=True)
        tokenizer.save(out / "encoder")
        if config:
            config.to_json(out / "encoder" / "config.json")
        if tfidf:
            write_json(out / "words.json", {"sentences": tfidf.N, "df": tfidf.df})
        group = read_json(out / "config.json") if (out / "config.json").exists() else {}     # what the user gave
        write_json(out / "config.json", group | {"settings": asdict(settings), "task": asdict(task), "new_parameters": new})
    if settings.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(settings.device)
    model.to(settings.device)
    run = Run(settings, out, task, model, None, new, examples, seconds)
    run.use(settings.optimizer)
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


def outline(task, examples):
    """What is to be told apart, in one line: a wrong column shows, and what a constant answer would score."""
    labels = {name: [pair.label for pair in x.pairs] for name, x in examples.items() if name in ("train", task.selection)}
    if task.regression:
        return f"scores from {min(labels['train']):g} to {max(labels['train']):g}"
    counts, chosen = (Counter(labels[name]) for name in ("train", task.selection))
    return ("classes " + ", ".join(f"{label} ({counts[i]})" for i, label in enumerate(task.labels))
            + f"; {task.selection}: {chosen.total()} pairs, {100 * max(chosen.values()) / chosen.total():.1f} % of one class")


def train(settings, out, resume=False):
    """Trains one model into the folder `out` and returns what stands in its result.json."""
    run = set_up(settings, out, resume)
    model, task, train_set = run.model, run.task, run.examples["train"]
    forward = torch.compile(model, dynamic=True) if settings.compile else model
    log = Log(out / "log.jsonl", run.step, run.epoch) if main_process() else (lambda **event: None)
    steps, (rank, count) = run.epoch_steps, world()
    total = settings.epochs * steps
    say(f"{settings.model} on {task.name}: {len(train_set.pairs)} pairs, {total} steps of {settings.batch_size}, "
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {settings.device} {settings.precision}, {out}")
    say(outline(task, run.examples))
    if run.new:
        say(f"new, at --lr-new {settings.lr_new:g}:", ", ".join(run.new))
    saved_at = time.monotonic()

    while not run.stopped():
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
            norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise ValueError(f"the loss is {loss}, the gradient's norm {norm} at step {run.step + 1}: lower --lr or "
                                 f"--lr-new, or try --precision fp32")
            for group in run.optimizer.param_groups:
                group["lr"] = group["peak"] * rate(run.step, total, settings.warmup, settings.schedule)
                if settings.recipe == "printed":
                    group["weight_decay"] = l2_ratio(run.step)
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
        del loader                                                         # and with it its --workers
        begun = time.perf_counter()
        scores, loss = evaluate(model, run.examples[task.selection], task, settings)
        run.seconds["evaluate"] += time.perf_counter() - begun
        better = run.judge(scores, loss)
        log(step=run.step, epoch=run.epoch, split=task.selection, mean_loss=loss, **scores)
        say(f"epoch {run.epoch}: {task.selection} " + ", ".join(f"{name} {100 * scores[name]:.1f}" for name in task.metrics)
            + (", the best so far" if better else ""))
        run.save()
    return finish(run)


def finish(run):
    """Evaluates the best epoch and writes result.json."""
    if world()[1] > 1:
        dist.barrier()                                                     # best.pt is there
    run.model.load_state_dict(load_state(run.out / "best.pt"))
    begun = time.perf_counter()
    metrics = {name: evaluate(run.model, x, run.task, run.settings)[0] for name, x in run.examples.items() if name != "train"}
    run.seconds["evaluate"] += time.perf_counter() - begun
    parameters = dict(run.model.named_parameters())
    result = {"task": run.task.name, "model": run.settings.model, "bert": run.settings.bert, "seed": run.settings.seed,
              "selection_split": run.task.selection, "best_epoch": run.best_epoch, "metrics": metrics,
              "pairs": {name: len(x.pairs) for name, x in run.examples.items()},
              "seconds": {name: round(value, 2) for name, value in run.seconds.items()},
              "pairs_per_second": round(run.pairs / run.seconds["train"], 2), "peak_memory_mb": peak_memory(run.settings),
              "parameters": sum(p.numel() for p in parameters.values()),
              "new_parameters": sum(parameters[name].numel() for name in run.new),
              "settings": asdict(run.settings), "versions": versions(run.settings.device)}
    if main_process():
        write_json(run.out / "result.json", result)
    return result


def peak_memory(settings):
    """Highest memory use in MB: of the run on its GPU, or of the process so far."""
    if settings.device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(settings.device) // 2 ** 20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2 ** 20 if sys.platform == "darwin" else 2 ** 10)


def versions(device):
    """What the numbers depend on beside the settings."""
    return {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__,
            "gpu": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
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
        rows.append([name, *("" if c is None else percent(c) for c in cells)])
    return align(rows)


def percent(x, sign=""):
    """Text: 100 times a mean, with what summary or compare found of its spread: (standard deviation) or (low to high)."""
    numbers = [x["std"]] if "std" in x else [x["low"], x["high"]]
    spread = " to ".join(f"{100 * number:{sign}.1f}" for number in numbers) if len(x["values"]) > 1 else ""
    return f"{100 * x['mean']:{sign}.1f}" + (f" ({spread})" if spread else "")


def align(rows):
    """Text: rows of cells in columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))])
                     for row in rows)


def t_quantile(freedom, level=0.975):
    """Student's t that a variable with so many degrees of freedom stays below with probability `level`, to 1e-4."""
    at_zero = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    low, high = 0.0, 200.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        x = np.sinh(np.linspace(0, math.asinh(middle), 2001))              # dense at 0, where the density is
        density = at_zero * (1 + x * x / freedom) ** (-(freedom + 1) / 2)
        below = 0.5 + float(((density[1:] + density[:-1]) / 2 * np.diff(x)).sum())
        low, high = (middle, high) if below < level else (low, middle)
    return low


def compare(results, beside):
    """Differences of two lists of results, run by run on the same seeds and splits.

    -> split -> metric -> {"mean", "low", "high", "values"}: the mean difference and its 95 % confidence interval by
    Student's t, which two runs or more have (else None). It speaks of other seeds, not of other sentences.
    """
    found = {}
    for split, scores in results[0]["metrics"].items():
        for name in (name for name in scores if name in beside[0]["metrics"][split]):     # --limit can cut phenomena off
            values = [x["metrics"][split][name] - y["metrics"][split][name] for x, y in zip(results, beside, strict=True)]
            mean, n = statistics.fmean(values), len(values)
            half = t_quantile(n - 1) * statistics.stdev(values) / math.sqrt(n) if n > 1 else None
            low, high = (None, None) if half is None else (mean - half, mean + half)
            found.setdefault(split, {})[name] = {"mean": mean, "low": low, "high": high, "values": values}
    return found


def variants(given):
    """Each combination of the values of --vary, the last option's fastest. -> dict of tuples of values -> options of a run"""
    options = {name: value for name, value in given.items() if name != "vary"} | {"beside": "none"}
    known = {f.name.replace("_", "-") for f in fields(Settings)} - {"out", "beside", "seed", "seeds", "compile"}
    for name, *values in given["vary"]:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1)
            raise ValueError(f"--vary {name}: expected an option of training that takes a value, such as model, task, without or "
                             f"layers" + (f"; did you mean {near[0]}?" if near else ""))
        if name.replace("-", "_") in given or sum(name == other for other, *_ in given["vary"]) > 1:
            raise ValueError(f"--vary {name}: the option is given twice; name all its values after one --vary")
        if len(set(values)) < max(2, len(values)):
            raise ValueError(f"--vary {name} {' '.join(values)}: expected two values or more, each once")
    names = [name for name, *_ in given["vary"]]
    if "task" in names[:-1]:
        raise ValueError("--vary task: name it last, so that each task has a column and methods are compared within it")
    return {values: options | command_line().parse([f"--{name}={value}" for name, value in zip(names, values)])
            for values in itertools.product(*(values for _, *values in given["vary"]))}


def plan(given):
    """The runs that options ask for: one, with --beside a second, with --vary several.

    -> dict of tuples of words that tell them apart -> (Settings, name of its folder, "" for the one of all)"""
    if "vary" in given:
        if given.get("beside", "none") != "none":
            raise ValueError("--vary and --beside exclude each other; --vary model compares models")
        names = [name for name, *_ in given["vary"]]
        return {values: (Settings(**options).complete(), ",".join(f"{name}={value}" for name, value in zip(names, values)).replace(
            os.sep, "_")) for values, options in variants(given).items()}
    settings = Settings(**given).complete()
    runs = {(settings.model,): (settings, "")}
    if settings.beside != "none":
        bert = None if "drrnet" in (settings.model, settings.beside) else settings.bert       # one of them has no encoder
        own = {"model": settings.beside, "beside": "none", "out": None, "printed": "", "without": "", "sizes": "", "recipe": "ours",
               "bert": bert, "glove": None, "scope": "hidden", "layers": "first"}
        runs[(settings.beside,)] = (Settings(**(given | own)).complete(), f"beside-{settings.beside}")
    return runs


def check_data(runs, test):
    """Raises ValueError or OSError where one of several runs lacks its data set, a run WordNet, or `test` its labels."""
    seen = set()
    for one in runs:
        files = (one.task, one.train_file, one.dev_file, one.test_file)
        if files not in seen and (test or len(runs) > 1):
            (test_splits if test else load_pairs)(one)
        seen.add(files)
        if getattr(METHODS[one.model], "PRIOR", None) in ("relations", "words") and one.task != "toy":
            priors.load_wordnet()


def start(given):
    """Trains, or goes on with --resume, and prints the summary; --test reads the test split once at the end."""
    resume, test = given.pop("resume", False), given.pop("test", False)
    if resume:
        if "out" not in given:
            raise ValueError("--resume needs --out, the folder of the run to go on with")
        config = read_config(Path(given["out"]), "--resume --out")
        saved = config["settings"] | config.get("given", {})
        for name in set(given) - {"out", "device", "workers", "data_dir", "checkpoint_minutes"}:
            if given[name] != saved.get(name):
                raise ValueError(f"--{name.replace('_', '-')} {given[name]}: the run in {given['out']} has {saved.get(name)}; "
                                 f"leave the option out, or start another run")
        given = config.get("given", config["settings"]) | given            # one of a group has none of its own
    runs = plan(given)
    name = "-".join(["vary", *(option for option, *_ in given["vary"])]) if "vary" in given else None
    settings = next(iter(runs.values()))[0]
    out = Path(given["out"]) if resume else from_main_process(lambda: new_folder(settings, name))
    runs = {title: (replace(settings, out=str(out / sub)), out / sub) for title, (settings, sub) in runs.items()}
    settings = next(iter(runs.values()))[0]
    with main_process_first():
        check_data([one for one, _ in runs.values()], test)                # before hours of training
        if main_process() and not resume:
            out.mkdir(parents=True, exist_ok=True)
            write_json(out / "config.json", {"given": given, "settings": asdict(settings)})
    try:
        results = {title: train_seeds(*run, resume) for title, run in runs.items()}
    except (ValueError, OSError):
        if main_process() and not resume and not any(out.rglob("encoder")):     # nothing was begun
            (out / "config.json").unlink(missing_ok=True)
            with contextlib.suppress(OSError):                             # what else lies there stays
                out.rmdir()
        raise
    if test:
        for title, (one, folder) in runs.items():
            for result, tested in zip(results[title], test_runs(folder, {"device": one.device})):
                result["metrics"] |= tested["metrics"]
    report_variants(given["vary"], results, out) if "vary" in given else report(results, out)
    if settings.task == "toy":
        say("\ntoy is a generated diagnostic; its numbers say nothing about real English")
    chosen = ", ".join(dict.fromkeys(result["selection_split"] for group in results.values() for result in group))
    say(f"best epoch chosen on {chosen}; {out} holds weights, log and " + ("vary.json" if "vary" in given else "result.json"))


def report(results, out):
    """Prints the table of a run, or of two side by side, and of two with several seeds their difference."""
    results = {title: runs for (title,), runs in results.items()}
    say("\n" + table(results))
    seeds = [result["seed"] for result in next(iter(results.values()))]
    if len(results) > 1 and len(seeds) > 1:
        (one, mine), (other, theirs) = results.items()
        differences = compare(mine, theirs)
        for split, scores in differences.items():
            say(f"{one} - {other} on {split}, {len(seeds)} seeds, 95 % interval: " + ", ".join(
                f"{name} {percent(x, '+')}" for name, x in scores.items() if name in tasks.METRICS))
        if main_process():
            write_json(out / "comparison.json", {"models": list(results), "seeds": seeds, "differences": differences})


def report_variants(vary, results, out):
    """Prints what --vary found, and how far the first option's other values are from its first; writes vary.json.

    One option: a row for each value, a column for each metric. More: the last option's values side by side, by the first
    metric of the test split where it was read, else of the split for selection."""
    names, first, runs = [name for name, *_ in vary], vary[0][1], []
    cells, differences = {}, {}                            # row -> column -> text
    for values, found in results.items():
        metrics = summary(found)
        difference = compare(found, results[(first, *values[1:])]) if names[0] != "task" else {}
        runs.append({"values": dict(zip(names, values)), "seeds": [r["seed"] for r in found],
                     "selection_split": found[0]["selection_split"], "best_epochs": [r["best_epoch"] for r in found],
                     "metrics": metrics, "difference": difference})
        row = " ".join(value or "none" for value in (values[:-1] or values))
        columns = {f"{split} {name}": (split, name) for split in metrics for name in metrics[split] if name in tasks.METRICS}
        if len(vary) > 1:
            split = next((split for split in metrics if split.startswith("test")), found[0]["selection_split"])
            columns = {f"{values[-1]} ({split} {name})": (split, name) for name in list(metrics[split])[:1]}
        cells.setdefault(row, {}).update({title: percent(metrics[s][name]) for title, (s, name) in columns.items()})
        if values[0] != first and difference:
            differences.setdefault(row, {}).update({title: percent(difference[s][name], "+") for title, (s, name) in columns.items()})
    seeds = len(runs[0]["seeds"])
    interval = f", {seeds} seeds, 95 % interval" if seeds > 1 else ""
    for heading, rows in (("", cells), (f"difference from {first or 'none'}{interval}\n", differences))[:2 if differences else 1]:
        titles = list(dict.fromkeys(title for row in rows.values() for title in row))
        say(f"\n{heading}" + align([[" ".join(names[:-1] or names), *titles],
                                    *([row, *(found.get(title, "") for title in titles)] for row, found in rows.items())]))
    if main_process():
        write_json(out / "vary.json", {"vary": vary, "runs": runs})


def load_run(folder, given):
    """A trained run -> (settings, Task, model with the best epoch's weights, tokenizer, TfIdf or None)."""
    config = read_config(folder, "--from")
    if "task" not in config:
        raise ValueError(f"--from {folder}: expected one trained run, found a group of them; name one of its folders")
    settings = Settings(**(config["settings"] | {"device": None} | given)).complete()     # here, not where it was made
    task = tasks.Task(**{name: tuple(x) if isinstance(x, list) else x for name, x in config["task"].items()})
    model, tokenizer, _, _ = build(settings, task, folder / "encoder")
    try:
        model.load_state_dict(load_state(folder / "best.pt"))
    except RuntimeError as error:                           # torch lists every name
        raise ValueError(f"{folder / 'best.pt'}: its weights are not those of {settings.model} as this code has it; train anew, or "
                         f"use the code that made it ({' '.join(str(error).split())[:120]}...)") from None
    tfidf = None
    if (folder / "words.json").exists():
        words, tfidf = read_json(folder / "words.json"), priors.TfIdf([])
        tfidf.N, tfidf.df = words["sentences"], Counter(words["df"])
    return settings, task, model.to(settings.device), tokenizer, tfidf


def test_splits(settings):
    """dict name -> list of Pair of the task's test splits. Raises ValueError where they have no labels."""
    task, splits = load_pairs(settings)
    splits = {name: pairs for name, pairs in splits.items() if name.startswith("test")}
    if not splits or any(pair.label is None for pairs in splits.values() for pair in pairs):
        raise ValueError(f"--test: {task.name} has no labelled test split; --from RUN --predict test (or a FILE) labels it")
    return splits


def test_runs(folder, given):
    """Evaluates a run, or every seed of a group, on its task's test splits; writes test.json beside each."""
    folders = sorted(folder.glob("seed[0-9]*"), key=lambda f: int(f.name[4:])) or [folder]
    results = []
    for one in folders:
        if (one / "test.json").exists():
            say(f"{one}: test was read before, see its test.json; whatever was chosen since then was chosen on test")
        settings, task, model, tokenizer, tfidf = load_run(one, given)
        examples, _ = prepare(settings, task, tokenizer, test_splits(settings), tfidf)
        results.append({"selection_split": task.selection, "seed": settings.seed,
                        "metrics": {name: evaluate(model, x, task, settings)[0] for name, x in examples.items()}})
        if main_process():
            write_json(one / "test.json", results[-1])
    return results


def pieces_of(tokenizer, ids):
    """The pieces behind ids, as a reader knows them: those of a byte-level BPE as text, without the space in front."""
    pieces = [tokenizer.tokenizer.id_to_token(k) for k in ids]
    if isinstance(tokenizer.tokenizer.model, models.BPE):
        pieces = [decoders.ByteLevel().decode([piece]).strip() or piece for piece in pieces]
    return pieces


@torch.inference_mode()
def reading_order(model, tokenizer, examples, i, settings):
    """What DRr-Net or LadRa-Net reads at each step of pair i, as the paper's Table VIII lists it: rows of a title and
    T words (LadRa-Net: pieces), those with the largest weight."""
    trace, (batch, _) = {}, examples.collate([i])
    with autocast(settings):
        model.eval()(**{name: x.to(settings.device) for name, x in batch.items()}, trace=trace)
    read = trace["reading"].argmax(-1)
    if settings.model == "drrnet":
        sides = [examples.parses[text].words or ["(no word)"] for text in (examples.pairs[i].a, examples.pairs[i].b)]
        return [(side, [words[place] for place in places]) for side, words, places in zip("ab", sides, read[:, 0].tolist())]
    pieces = pieces_of(tokenizer, examples.encoded[i][0])
    titles = ["piece", *(f"phrase of {kernel}, around" for kernel in model.KERNELS)]
    return [(title, [pieces[place] for place in places]) for title, places in zip(titles, read[0].T.tolist())]


def predict_file(folder, file, given, show_reading=False):
    """Labels the pairs of a file, or of a split of the task, into RUN/predictions-FILE.tsv, those of a split into
    RUN/TASK-SPLIT.tsv as well, in the form that GLUE takes. Prints metrics where all pairs have labels, and with
    show_reading what was read of each pair."""
    settings, task, model, tokenizer, tfidf = load_run(folder, given)
    if show_reading and (settings.model not in ("drrnet", "ladranet") or settings.options()["without"] & {"dsa", "reread"}):
        raise ValueError(f"--show-reading: {folder} holds {settings.model}, which re-reads nothing; it is for drrnet, ladranet")
    splits = {} if Path(file).suffix or Path(file).is_file() else load_pairs(settings)[1]
    if splits and file not in splits:
        raise ValueError(f"--predict {file}: expected a .tsv or .csv file, or one of {task.name}'s splits, {', '.join(splits)}")
    pairs = splits.get(file) or tasks.read_pairs(file, labels=task.labels, need_label=False)
    examples, _ = prepare(settings, task, tokenizer, {"file": pairs}, tfidf)
    logits = predict(model, examples["file"], settings)
    labelled = all(pair.label is not None for pair in pairs)
    header, rows = ["sentence1", "sentence2", *["label"] * labelled, "prediction"], logits.tolist()
    if not task.regression:
        header += [f"p({label})" for label in task.labels]
        rows = [[task.labels[row.index(max(row))], *p] for row, p in zip(rows, logits.softmax(1).tolist())]
    clean, cell = (lambda text: " ".join(text.split())), (lambda x: x if isinstance(x, str) else f"{x:.4f}")
    given_labels = [[pair.label if task.regression else task.labels[pair.label]] if labelled else [] for pair in pairs]
    paths = {folder / f"predictions-{Path(file).stem}.tsv": [header] + [
        [clean(pair.a), clean(pair.b), *map(cell, label + row)] for pair, label, row in zip(pairs, given_labels, rows)]}
    if file in splits:                                      # GLUE's submission: a number and a label a line
        paths[folder / f"{task.name}-{file}.tsv"] = [["index", "prediction"]] + [
            [str(i), f"{row[0]:.3f}" if task.regression else row[0]] for i, row in enumerate(rows)]
    for path, lines in paths.items() if main_process() else ():
        write(path, lambda name: name.write_text("".join("\t".join(line) + "\n" for line in lines), "utf-8"))
    for i, pair in enumerate(pairs if show_reading else ()):
        say(f"{clean(pair.a)}\n{clean(pair.b)}\n" + "".join(f"    {title}: {' → '.join(words)}\n" for title, words in
                                                          reading_order(model, tokenizer, examples["file"], i, settings)))
    say(f"{len(pairs)} pairs labelled in {' and '.join(map(str, paths))}")
    if labelled:
        scores = tasks.evaluate(task, [pair.label for pair in pairs], answers(logits, task))
        say(table({Path(folder).name: [{"metrics": {Path(file).name: scores}}]}))


# A trace's name -> a title, what it shows and the value of the full colour (None: the largest), in the order of the page.
# Weights all have 1, so that maps of heads, layers and models can be compared.
MAPS = {"prior": ("Prior over pieces", "What the second attention is multiplied by; 1 leaves a weight as it is.", None),
        "attention": ("Attention", "From the piece of a row to that of a column, before anything else.", 1.0),
        "calibrated": ("Attention after calibration", "The same weights once the prior has changed them.", 1.0),
        "difference": ("Difference attention", "The larger the difference of two pieces, the larger the weight.", 1.0)}
GUIDED = "How much the piece of a row, which guides, takes from each piece of the other signal; even rows: it hardly chooses."
MAPS |= {f"{signal}_guided": (f"Guided attention, led by the {signal} signal", GUIDED, 1.0)
         for signal in ("affinity", "difference", "semantic", "dependency", "knowledge")}
GATES = {"g": "g of the semantic signal and 1 - g of the other one are joined", "f": "f of what is joined is let in"}


def explain_words(settings, examples, parses):
    """Figures of what is known of the words of a pair: both trees, and the prior where the model takes one."""
    pair, kind = examples.pairs[0], getattr(METHODS[settings.model], "PRIOR", None)
    figures = [explain.tree(f"Dependency tree of sentence {side}", parse.words, parse.heads, parse.relations)
               for side, parse in (("a", parses[pair.a]), ("b", parses[pair.b]))]
    if kind == "dependency":
        figures.append(explain.heat("Dependency prior over words", parses[pair.a].words, parses[pair.b].words, examples.prior(
            pair), "How much the trees agree at a word of a (row) and a word of b (column), by their weights."))
    if kind == "relations":
        words = [[text[i:j] for i, j in priors.split_words(text).tolist()] for text in (pair.a, pair.b)]
        names = [[", ".join(np.array(priors.RELATIONS)[cell]) for cell in row] for row in examples.prior(pair)]
        figures.append(explain.relations("Relations of words", *words, names, "What the lexicon knows of a word of a (row) and a "
                                         "word of b (column); hypernym: that of b is the more general one."))
    return figures


def explain_fusion(trace, pieces):
    """Figures of a layer's trace: attention and what calibrates or accompanies it, and the gates of each piece."""
    maps = {name: trace[name][0] if trace[name].ndim == 4 else trace[name] for name in MAPS if name in trace}
    figures = [explain.heat(MAPS[name][0], pieces, pieces, x, *MAPS[name][1:]) for name, x in maps.items()]
    gates = {name: trace[name][..., 0] for name in GATES if name in trace}     # a row for each head with scope "head"
    if gates:
        note = "Of each piece: " + "; ".join(GATES.values()) + "."
        figures.append(explain.bars("The two gates", pieces, {name: x.mean(0) for name, x in gates.items()}, note))
    return figures + [explain.heat(f"Gate {name} in each head", [f"head {h}" for h in range(len(x))], pieces, x, top=1.0)
                      for name, x in gates.items() if len(x) > 1]


def explain_reading(trace, labels, parts):
    """Figures of the traces of DRr-Net and LadRa-Net, each (T, labels) or (labels,). parts: title -> its place."""
    figures, shown = [], slice(len(labels))
    for title, (pooling, reading) in parts.items():
        if "pooling" in trace and pooling is not None:
            figures.append(explain.heat(f"First look: {title}", ["weight"], labels, trace["pooling"][pooling][None, shown],
                                        "How much of each is in the vector before anything is read again.", 1.0))
        if "reading" in trace:
            x = trace["reading"][reading][:, shown]
            steps = [f"step {t + 1}" for t in range(len(x))]
            note = "Read, the largest weight of each step: " + " → ".join(labels[i] for i in x.argmax(1)) + "."
            figures.append(explain.heat(f"Reading, step by step: {title}", steps, labels, x, note, 1.0, True))
        if "coverage" in trace:
            figures.append(explain.heat(f"Coverage, step by step: {title}", steps, labels, trace["coverage"][reading][:, shown],
                                        "How much is left of each after a step.", 1.0))
    return figures


def explain_joining(trace, parts, labels=()):
    """Figures of how DRr-Net and LadRa-Net join what they have. parts: what LadRa-Net reads. labels: of DRr-Net's
    classes; none for a score."""
    figures = []
    if "layers" in trace:
        names = [f"layer {i}" for i in range(len(trace["layers"]))]
        figures.append(explain.heat("Mixture of layers", ["α"], names, trace["layers"][None],
                                    "How much of each layer is in a token; learned, the same for every sentence."))
    if "mixture" in trace:
        x = trace["mixture"][0]
        figures.append(explain.heat("Mixture of each step", [f"step {t + 1}" for t in range(len(x))], parts, x,
                                    "How much of the piece and the phrases that a step chose goes on.", 1.0))
    if "gates" in trace:
        judges = ["reading", "re-reading"][-trace["gates"].shape[1]:] if "reading" in trace else ["reading"]
        figures.append(explain.heat("The two judgements", judges, labels or ["score"], trace["relations"][0],
                                    "What was said after reading, and after re-reading.", 1.0 if labels else None))
        figures.append(explain.bars("Gates of the two judgements", judges, {"α": trace["gates"][0]},
                                    "How much counts what was said after reading, and after re-reading."))
    return figures


def explain_pair(folder, sentences, given):
    """Writes RUN/explanation.html, a page on one pair of sentences; prints its path and the prediction."""
    settings, task, model, tokenizer, tfidf = load_run(folder, given)
    pair = tasks.Pair(*sentences, None)
    examples = prepare(settings, task, tokenizer, {"pair": [pair]}, tfidf)[0]["pair"]
    parses = priors.parse_texts(list(sentences), None if settings.parses else priors.load_parser(), CACHE, settings.parses, False)
    trace, (batch, _) = {}, examples.collate([0])
    with torch.inference_mode(), autocast(settings):
        logits = model.eval()(**{name: x.to(settings.device) for name, x in batch.items()}, trace=trace)[0].float().cpu()
    arrays = (lambda tensors: {name: x.float().cpu().numpy() for name, x in tensors.items()})
    figures, where = explain_words(settings, examples, parses), ""
    if settings.model == "drrnet":
        trace = arrays(trace)
        for k, text in enumerate(sentences):
            words = (parses[text].words or ["(no word)"])[:settings.max_length]
            figures += explain_reading(trace, words, {f"sentence {'ab'[k]}": ((k, 0), (k, 0))})
        figures += explain_joining(trace, (), task.labels)
    elif settings.model == "ladranet":
        trace, titles = arrays(trace), ["pieces", *(f"phrases of {kernel}" for kernel in model.KERNELS[:len(model.first)])]
        parts = {title: ((r - 1, 0) if r else None, (0, slice(None), r)) for r, title in enumerate(titles)}
        figures += explain_reading(trace, pieces_of(tokenizer, examples.encoded[0][0]), parts) + explain_joining(trace, titles)
    else:
        layer = settings.layer_indices(len(model.bert.layers))[0]
        figures += explain_fusion(arrays(trace[f"layer{layer}"]), pieces_of(tokenizer, examples.encoded[0][0]))
        where = f" Maps and gates are those of layer {layer}."
    p = None if task.regression else dict(zip(task.labels, logits.softmax(0).tolist()))
    answer = f"{logits.item():.3f}" if p is None else max(p, key=p.get)
    text = explain.page(f"What {settings.model} saw", sentences, answer, p, figures, f"Run {folder}, trained on {task.name}.{where}")
    path = folder / "explanation.html"
    if main_process():
        write(path, lambda name: name.write_text(text, "utf-8"))
    say(f"prediction: {answer}" + ("" if p is None else f" ({100 * p[answer]:.1f} %)") + f"\n{path}")


def measure_robustness(folder, given, translations=None):
    """Accuracy on pairs before and after each of tasks.TRANSFORMATIONS, on exactly those that it changed, of the test
    split, or the one for selection where that has no labels. Prints a table and writes RUN/robustness.json."""
    settings, task, model, tokenizer, tfidf = load_run(folder, given)
    splits = load_pairs(settings)[1]
    split = next((name for name, pairs in splits.items() if name.startswith("test") and pairs[0].label is not None),
                 task.selection)
    parser = None if settings.parses else priors.load_parser()
    texts = dict.fromkeys(text for pair in splits[split] for text in (pair.a, pair.b))
    parses = priors.parse_texts(texts, parser, CACHE, settings.parses, progress=main_process())
    lexicon, found = priors.WordNet(), {}
    examples, _ = prepare(settings, task, tokenizer, {"pairs": splits[split]}, tfidf)
    guesses = answers(predict(model, examples["pairs"], settings), task)
    rows = [["transformation", "label", "pairs", "before", "after"]]
    for name, transformation in tqdm(tasks.TRANSFORMATIONS.items(), "transforming", leave=False,
                                     disable=None if main_process() else True):
        rule = tasks.label_rule(name, task)
        if not rule or ("file" in transformation.needs and translations is None):
            rows.append([name, "needs --translations" if rule else "refused: its label would not be known", "", "", ""])
            continue
        changed = tasks.transform(name, task, splits[split], settings.seed, parses, lexicon, translations)
        scores = [None, None]
        if changed:
            labels = [splits[split][i].label for i, _ in changed]
            scores[0] = tasks.evaluate(task, labels, [guesses[i] for i, _ in changed])[task.metrics[0]]
            examples, _ = prepare(settings, task, tokenizer, {"pairs": [pair for _, pair in changed]}, tfidf)
            scores[1] = evaluate(model, examples["pairs"], task, settings)[0][task.metrics[0]]
        found[name] = {"label": rule, "pairs": len(changed), "before": scores[0], "after": scores[1]}
        rows.append([name, rule, str(len(changed)), *("" if score is None else f"{100 * score:.1f}" for score in scores)])
    say(f"{settings.model} on {task.name} {split}, {len(splits[split])} pairs, {task.metrics[0]} on the pairs changed\n"
        + align(rows))
    if main_process():
        write_json(folder / "robustness.json", {"split": split, "metric": task.metrics[0], "seed": settings.seed,
                                                "transformations": found})


def show_result(folder):
    """Prints what result.json says of a run."""
    config = read_config(folder, "--from")
    if not (folder / "result.json").exists():
        raise ValueError(f"--from {folder}: expected one finished run; of a group name one of its folders, and --resume --out "
                         f"{folder} goes on with a run that was cut off")
    result = read_json(folder / "result.json")
    say(f"{result['model']} on {result['task']}, seed {result['seed']}, epoch {result['best_epoch']} of "
        f"{config['settings']['epochs']}, chosen on {result['selection_split']}\n\n" + table({folder.name: [result]})
        + "\n\nuse it with --test, --predict FILE, --explain A B or --robustness")


def use(given):
    """What --from does."""
    folder, test, file = Path(given.pop("run")), given.pop("test", False), given.pop("predict", None)
    show_reading, sentences = given.pop("show_reading", False), given.pop("explain", None)
    robustness, translations = given.pop("robustness", False), given.pop("translations", None)
    extra = set(given) - {"device", "precision", "workers", "data_dir", "parses"}
    if extra:
        raise ValueError(f"--{extra.pop().replace('_', '-')} belongs to training; with --from the run's own setting counts")
    if not (test or file or sentences or robustness):
        show_result(folder)
    translations = translations and tasks.read_translations(translations)
    if sentences:
        explain_pair(folder, sentences, given)
    if file:
        predict_file(folder, file, given, show_reading)
    if test:
        say(table({folder.name: test_runs(folder, given)}))
    if robustness:
        measure_robustness(folder, given, translations)


def main(argv=None):
    """The command line. Returns the exit status: 0, 2 for a user's mistake, 130 when interrupted."""
    torchrun = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    try:
        given = command_line().parse(argv)
        if torchrun and (device := join_processes(given.get("device", "cuda"))):
            given["device"] = device
        if "predict" in given and "run" not in given:
            raise ValueError("--predict needs --from RUN, a trained run")
        if "explain" in given and "run" not in given:
            raise ValueError("--explain needs --from RUN, a trained run")
        if {"robustness", "translations"} & set(given) and not {"run", "robustness"} <= set(given):
            raise ValueError("--robustness needs --from RUN, a trained run, and --translations needs both")
        if "show_reading" in given and "predict" not in given:
            raise ValueError("--show-reading needs --from RUN --predict FILE")
        with in_one_line():
            use(given) if "run" in given else start(given)
    except (ValueError, OSError) as error:
        named = f"{error.filename}: {error.strerror}" if getattr(error, "filename", None) else error
        print(f"train.py: {named}", file=sys.stderr)
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
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
