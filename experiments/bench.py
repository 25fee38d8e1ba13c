"""Speed and memory of all that takes time: `python -m experiments.bench`.

Sections, of which --sections chooses some:
    steps     a training step and inference of each model, beside plain BERT, by encoder, length
              and precision; DRr-Net is left out, as it reads no packed pairs
    pair      one pair at a time, as a service scores them: of new sentences, and of those that came
              before
    parser    sentences parsed

Weights, tokens and priors of the steps are random: only shapes matter there. What is compared takes
turns, step by step, so that a busy machine slows all of it alike. Times are medians (with the lower
and upper quartile); a ratio is the median of the ratios of neighbouring steps.

Memory is the peak of one step above what stood before it: activations, gradients and what the
optimizer needs in passing, not weights and AdamW's moments. On a GPU it is what torch allocated; on
a CPU the profiler's list of allocations and releases, summed up in order.
"""
import functools
import itertools
import os
import platform
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

import batches
import priors
import train
from bert_min import BertConfig, PairTokenizer
from run import Run, build_model, make_reader
from support import machine, parses
from support.checkpoints import CONFIGS, find_file
from support.data import Task, load_task, loss_sum
from support.files import find_bert
from support.options import Arguments, prefix_errors, refuse, run_command
from support.parser import load_parser
from support.parses import Parse, parse_texts, split_words
from support.summary import align_columns

# Axes: B batch, L tokens, n words of a, m words of b

SHAPES = {"6-layer": (30522, 384, 6, 12, 1536, 512), "base": (30522, 768, 12, 12, 3072, 512)}
PIECES = 1.25    # of a word, in English
DENSITY = 0.3    # share of word pairs whose entry of DAFA's matrix is above 0
RELATED = 0.005  # share of word pairs that have a given lexical relation
WORDS = 20       # of a sentence that is parsed
PAIRS = 2000     # of the task, at most
SINGLE = 10      # pairs of a turn, where each is scored alone
TASK = Task("any", ("0", "1"), ("accuracy",))
os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler says when it starts and stops


# ---- Measuring ----------------------------------------------------------------------------------

def take_turns(works, options):
    """dict name -> seconds of each turn. works: dict name -> function."""
    seconds = {name: [] for name in works}
    for turn in range(-1, options["repeats"]):  # turn -1 warms up
        for name, work in works.items():
            begun = synchronized_time(options)
            work()
            if turn >= 0:
                seconds[name].append(synchronized_time(options) - begun)
    return seconds


def synchronized_time(options):
    """Seconds, when the device has done its work."""
    if options["device"].startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def format_times(seconds):
    """The median and the quartiles of a list of seconds, in milliseconds."""
    low, median, high = 1e3 * np.quantile(seconds, [0.25, 0.5, 0.75])
    return f"{median:.1f} ({low:.1f} to {high:.1f})"


def peak_megabytes(work, device):
    """MB above what stood before, at the worst moment of work()."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2 ** 20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    found = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    changes = [e.nbytes() for e in sorted(found, key=lambda e: e.start_ns())]
    return max(itertools.accumulate(changes, initial=0)) / 2 ** 20


# ---- Models -------------------------------------------------------------------------------------

class Subject:
    """One model with its optimizer and batch. `train` and `infer` do the work once."""

    def __init__(self, model, config, options):
        settings = train.Settings(model=model, bert="base", device=options["device"],
                                  max_length=config.max_length)
        if settings.in_layers:
            settings = replace(settings, layers=options["layers"])
        self.name, self.settings = model, settings
        self.model, _ = build_model(self.settings, TASK, None, config)
        self.model.to(options["device"])
        kind = self.settings.optimizer
        self.optimizer = train.make_optimizer(kind, self.model, set(), self.settings)

    def give(self, batch_and_labels, precision):
        """Sets what the next steps are made of."""
        self.batch, self.labels = machine.to_device(batch_and_labels, self.settings.device)
        self.settings = replace(self.settings, precision=precision)

    def train(self):
        """Forward, backward, clip, step, as train.train_model does."""
        self.model.train()
        with machine.autocast(self.settings.device, self.settings.precision):
            logits = self.model(**self.batch)  # (B, 2)
        (loss_sum(logits, self.labels, TASK) / len(self.labels)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.inference_mode()
    def infer(self):
        """Logits of the batch, as run.Run makes them."""
        self.model.eval()
        with machine.autocast(self.settings.device, self.settings.precision):
            self.model(**self.batch).float().cpu()


def random_batch(method, vocabulary, size, length):
    """Pairs of sentences of half the tokens each, no padding; a prior where the method takes one.

    -> (dict of input_ids, segment, mask, word_index (B, L) and prior (B, n, m, ...), labels (B,))
    """
    rng, half = torch.Generator().manual_seed(0), length // 2
    place = torch.arange(length)  # (L)
    segment = (place > half).long()  # (L)
    word = ((place - 1 - half * segment) / PIECES).long()  # (L)
    word[[0, half, length - 1]] = -1  # [CLS] a [SEP] b [SEP]
    n, m = (max(1, int(word[segment == s].max()) + 1) for s in (0, 1))
    batch = {"input_ids": torch.randint(5, vocabulary, (size, length), generator=rng),
             "segment": segment.repeat(size, 1), "word_index": word.repeat(size, 1),
             "mask": torch.ones(size, length, dtype=torch.bool)}
    if method.PRIOR == "relations":
        shape = size, n, m, len(priors.RELATIONS)
        batch["prior"] = torch.rand(shape, generator=rng) < RELATED
    elif callable(method.PRIOR):
        batch["prior"] = torch.stack([own_prior(method, n, m)] * size)
    elif method.PRIOR:
        values, kept = torch.rand(2, size, n, m, generator=rng)
        batch["prior"] = 4 * values * (kept < DENSITY)
    return batch, torch.randint(0, 2, (size,), generator=rng)


def own_prior(method, *sizes):
    """What a function in PRIOR makes of two sentences of n and m unknown words in chains."""
    parses = [Parse("x " * n, np.arange(n)[:, None] * 2 + [0, 1], ("X",) * n, np.arange(n),
                    ("dep",) * n) for n in sizes]
    known = {"parses": parses, "words": [parse.words for parse in parses],
             "facts": [[None] * n for n in sizes]}
    needs = batches.needs_of(method)
    return torch.as_tensor(method.PRIOR(*(part for need in needs for part in known[need])))


def read_sizes(bert, options):
    """BertConfig of one of SHAPES, or of the folder of a model."""
    if bert in SHAPES:
        return BertConfig(*SHAPES[bert])
    with prefix_errors("--bert "):
        return BertConfig.from_json(find_file(find_bert(bert, options["data_dir"]), *CONFIGS))


def measure_steps(options):
    """Every encoder, precision, length, model and kind of work."""
    rows = [["encoder", "", "tokens", "model", "work", "ms", "x bert", "pairs/s", "peak MB",
             "x bert"]]
    for bert in options["bert"]:
        config = read_sizes(bert, options)
        lengths = options["lengths"]
        if not 5 <= min(lengths) <= max(lengths) <= config.max_length:
            raise ValueError(f"--lengths: expected 5 to {config.max_length}, what {bert} can read")
        subjects = [Subject(model, config, options) for model in options["models"]]
        for precision, length in itertools.product(options["precision"], lengths):
            for subject in subjects:
                method = subject.settings.method
                batch = random_batch(method, config.vocab_size, options["batch"], length)
                subject.give(batch, precision)
            for row in compare_subjects(subjects, options):
                rows.append([Path(bert).name, precision, str(length), *row])
    return align_columns(rows)


def compare_subjects(subjects, options):
    """Cells for training and inference of each model: model, work, time, speed, memory."""
    works = {}
    for work in ("train", "infer"):
        works |= {(subject.name, work): getattr(subject, work) for subject in subjects}
    seconds = take_turns(works, options)
    peaks = {key: peak_megabytes(work, options["device"]) for key, work in works.items()}
    for (model, work), times in seconds.items():
        ratio = statistics.median(x / y for x, y in zip(times, seconds["bert", work]))
        memory, speed = peaks[model, work], options["batch"] / statistics.median(times)
        yield (model, work, format_times(times), f"{ratio:.2f}", f"{speed:.1f}", f"{memory:.1f}",
               f"{memory / peaks['bert', work]:.2f}")


# ---- Text ---------------------------------------------------------------------------------------

def make_run(model, task, tokenizer, tfidf, options):
    """An untrained run.Run of the first of --bert, at the first of --precision."""
    sizes = read_sizes(options["bert"][0], options)
    sizes = replace(sizes, vocab_size=tokenizer.vocab_size)
    subject = Subject(model, sizes, options)
    settings = replace(subject.settings, precision=options["precision"][0])
    reader = make_reader(settings, task)
    reader.tokenizer, reader.tfidf, reader.progress = tokenizer, tfidf, False
    return Run(settings, Path("nowhere"), task, subject.model, reader, {})


def measure_pairs(options):
    """Every model, one pair at a time: texts, in; answer, out."""
    pairs, texts, source = some_pairs(options)
    if SINGLE * (options["repeats"] + 1) > len(pairs):
        raise ValueError(f"--repeats: {len(pairs)} pairs are there, {SINGLE} for each turn")
    tokenizer, tfidf = PairTokenizer.train(texts), priors.TfIdf(text.split() for text in texts)
    task, works = replace(TASK, name=source), {}
    for model in options["models"]:
        run = make_run(model, task, tokenizer, tfidf, options)
        for name, chosen in (("new", iter(pairs)), ("seen", itertools.cycle(pairs[:SINGLE]))):
            works[model, name] = functools.partial(score_alone, run, chosen)
    seconds = take_turns(works, options)
    rows = [["model", f"sentences, {source}", "ms a pair", "x bert"]]
    for (model, name), times in seconds.items():
        ratio = statistics.median(x / y for x, y in zip(times, seconds["bert", name]))
        rows.append([model, name, format_times([x / SINGLE for x in times]), f"{ratio:.2f}"])
    return align_columns(rows)


def score_alone(run, pairs):
    """Scores the next SINGLE pairs of an iterator, one by one."""
    for pair in itertools.islice(pairs, SINGLE):
        run.predict(pair)


def some_pairs(options):
    """(training pairs of MRPC where --data-dir has it, else of toy; each text once; which task)"""
    name = "mrpc" if Path(options["data_dir"], "mrpc").is_dir() else "toy"
    pairs = load_task(name, options["data_dir"])[1]["train"][:PAIRS]
    return pairs, list(dict.fromkeys(text for pair in pairs for text in (pair.a, pair.b))), name


def measure_parser(options):
    """Sentences of WORDS words, cut or joined from the pairs' sentences: split and parsed."""
    (_, found, source), texts, words = some_pairs(options), set(), []
    for text in found:
        words += [text[i:j] for i, j in split_words(text)]
        if len(words) >= WORDS:
            texts.add(" ".join(words[:WORDS]))
            words = []
    texts, name = sorted(texts)[:parses.FEW], f"sentences of {WORDS} words, {source}"
    work = functools.partial(parse_texts, texts, load_parser(), progress=False)
    seconds = take_turns({name: work}, options)
    rows = [["work", "ms", "a second"]]
    for name, times in seconds.items():
        rows.append([name, format_times(times), f"{len(texts) / statistics.median(times):,.0f}"])
    return align_columns(rows)


SECTIONS = {"steps": measure_steps, "pair": measure_pairs, "parser": measure_parser}


# ---- The command line ---------------------------------------------------------------------------

def command_line():
    """The options."""
    parser = Arguments("python -m experiments.bench", __doc__)
    precisions = dict.fromkeys(["fp32", machine.fast_precision(machine.best_device())])
    models = ",".join(name for name in train.METHODS if name not in ("bert", "drrnet"))
    for name, default, text in (
            ("sections", ",".join(SECTIONS), "what to measure"),
            ("models", models, "beside bert, named as for train.py"),
            ("bert", "6-layer", f"{', '.join(SHAPES)}, or folders: only their sizes are read"),
            ("layers", "first", "that carry the method, as in train.py"),
            ("lengths", "64", "tokens of a pair"),
            ("precision", ",".join(precisions), "fp32, bf16 or both"),
            ("data-dir", "data", "where mrpc is, if it is; else toy is read")):
        parser.add_argument(f"--{name}", default=default, metavar=name.upper(),
                            help=f"{text} (default: {default})")
    parser.add_argument("--batch", type=int, default=32, help="pairs in a step (default: 32)")
    parser.add_argument("--repeats", type=int, default=5, help="turns (default: 5)")
    parser.add_argument("--device", default=None, help="default: cuda where there is one, else cpu")
    return parser


def read_options(argv):
    """dict of the options, lists where there are commas. Raises ValueError for a mistake."""
    options = command_line().parse(argv)
    if min(options["batch"], options["repeats"]) < 1:
        raise ValueError("--batch, --repeats: expected numbers above 0")
    for name in ("sections", "models", "bert", "precision", "lengths"):
        options[name] = options[name].replace(" ", "").split(",")
    for name, known in (("sections", SECTIONS), ("precision", ("fp32", "bf16"))):
        unknown = [part for part in options[name] if part not in known]
        refuse(unknown, f"--{name} {', '.join(unknown)}: expected some of {', '.join(known)}")
    if not all(length.isdecimal() for length in options["lengths"]):
        raise ValueError(f"--lengths {','.join(options['lengths'])}: expected numbers with commas")
    options["lengths"] = sorted({int(length) for length in options["lengths"]})
    options["models"] = list(dict.fromkeys(["bert", *options["models"]]))
    for model in options["models"]:
        if train.Settings(model=model).reads_words:
            raise ValueError(f"--models {model}: it reads words, no packed pairs as the others do")
    options["device"] = options["device"] or machine.best_device()
    machine.prepare_device(options["device"])
    return options


def main(argv=None):
    """Measures and prints the sections. Raises ValueError or OSError for a user's mistake."""
    options = read_options(argv)
    device = options["device"]
    text = machine.processor_says("model name") or platform.processor() or platform.machine()
    with machine.torch_session(options):
        if device.startswith("cuda"):
            text = f"{torch.cuda.get_device_name(device)}, {text}"
        print(f"{text}, {torch.get_num_threads()} threads, torch {torch.__version__}, batch "
              f"{options['batch']}, layers {options['layers']}, medians of {options['repeats']} "
              f"(quartiles), other work on the machine: {os.getloadavg()[0]:.1f} processes")
        for name in options["sections"]:
            print(f"\n{name}\n\n{SECTIONS[name](options)}", flush=True)


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.bench"))
