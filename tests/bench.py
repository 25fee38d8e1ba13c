"""Speed and memory of all that takes time, in one run: `python tests/bench.py`.

Sections, of which --sections chooses some:
    steps       a training step and inference of each model, beside plain BERT, by encoder, length and precision
    attention   guided and difference attention alone, forward and backward
    parser, priors, loader      sentences parsed, DAFA's and lexical matrices made, pairs collated, each a second
    checkpoint  reading BERT-base's weights, from TensorFlow's format (with its sums) and from safetensors
    epoch       one epoch of MRPC in batches of like lengths against padding every pair to 128 tokens
    help        what `train.py --help` takes beside importing torch

Weights, tokens and prior matrices of the models are random: only shapes matter there. What is compared takes turns, step
by step, so that a busy machine slows all of it alike. Times are medians with the lower and upper quartile; a ratio is the
median of the ratios of neighbouring steps. --clock cpu counts this process's processor seconds in place of those on the
wall: with one thread (OMP_NUM_THREADS=1) that is what a core of its own would take, however busy the machine.

Memory is the peak of one step above what stood before it: activations, gradients and what the optimizer needs in
passing, not weights and AdamW's moments. On a GPU it is what torch allocated; on a CPU the profiler's list of every
tensor's allocation and release, summed up in order. Both count bytes, so they do not depend on how busy a machine is.

Growth, where there are several lengths: the exponent p of time or memory ~ length^p, by least squares over the logarithms,
and in brackets that of the two longest alone.
"""
import argparse
import itertools
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
import bert_min  # noqa: E402
import priors  # noqa: E402
import semmatch  # noqa: E402
import tasks  # noqa: E402
import train  # noqa: E402
from semmatch import METHODS, FusionAttention, LadraNet, Matcher  # noqa: E402

# Axes: B batch, L tokens, n words of a, m words of b

SHAPES = {"6-layer": (30522, 384, 6, 12, 1536, 512), "base": (30522, 768, 12, 12, 3072, 512)}
PIECES = 1.25         # of a word, in English
DENSITY = 0.3         # share of word pairs whose entry of DAFA's matrix is above 0
RELATED = 0.005       # share of word pairs that have a given lexical relation
WORK = ("train", "infer")
PADDED = 128          # tokens that the section epoch pads every pair to
WORDS = 20            # of a sentence that is parsed


# ---- Measuring ------------------------------------------------------------------------------------------------------

def now(options):
    """Seconds by --clock, when the device has done its work."""
    if options.device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.process_time() if options.clock == "cpu" else time.perf_counter()


def take_turns(works, options, repeats=None):
    """dict name -> seconds of each turn. works: dict name -> function; all are called once before the first turn."""
    seconds = {name: [] for name in works}
    for turn in range(-1, repeats or options.repeats):       # turn -1 warms up: libraries' buffers, AdamW's moments
        for name, work in works.items():
            begun = now(options)
            work()
            if turn >= 0:
                seconds[name].append(now(options) - begun)
    return seconds


def spread(times):
    """Median and quartiles of a list of seconds, for JSON."""
    low, median, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    return {"seconds": median, "quartiles": [low, high]}


def shown(row):
    """The same as text, in milliseconds."""
    return "{:.1f} ({:.1f} to {:.1f})".format(*(1e3 * x for x in (row["seconds"], *row["quartiles"])))


def peak(work, device):
    """MB above what stood before, at the worst moment of work()."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2 ** 20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    changes = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    return max(itertools.accumulate(changes, initial=0)) / 2 ** 20


def growth(lengths, values):
    """Exponents of values ~ length^p: over all lengths, and of the two longest."""
    x, y = np.log(lengths), np.log(values)
    return [float(np.polyfit(x[i:], y[i:], 1)[0]) for i in (0, -2)]


def growth_rows(rows, keys):
    """For each group of rows that agree in `keys`: these, and the exponents of its seconds and peak_mb."""
    groups = {}
    for row in sorted(rows, key=lambda row: row["length"]):
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [dict(zip(keys, group)) | {name: growth([r["length"] for r in members], [r[name] for r in members])
                                      for name in ("seconds", "peak_mb")}
            for group, members in groups.items() if len(members) > 1]


def growth_table(rows, keys):
    """The same as text."""
    cells = [[*(str(row[key]) for key in keys), *("{:.2f} ({:.2f})".format(*row[x]) for x in ("seconds", "peak_mb"))]
             for row in rows]
    return [train.align([[*keys, "time ~ length^", "memory ~ length^"], *cells])] if rows else []


# ---- Models ---------------------------------------------------------------------------------------------------------

def random_batch(model, vocabulary, size, length):
    """Pairs whose sentences have half of the tokens each, without padding; a prior where the model takes one.

    -> (dict of input_ids, segment, mask, word_index (B, L) and prior (B, n, m), labels (B,))"""
    rng, half = torch.Generator().manual_seed(0), length // 2
    place = torch.arange(length)  # (L)
    segment = (place > half).long()  # (L)
    word = ((place - 1 - half * segment) / PIECES).long()  # (L)
    word[[0, half, length - 1]] = -1                     # [CLS] a [SEP] b [SEP]
    n, m = (max(1, int(word[segment == s].max()) + 1) for s in (0, 1))
    batch = {"input_ids": torch.randint(5, vocabulary, (size, length), generator=rng),
             "segment": segment.repeat(size, 1), "word_index": word.repeat(size, 1),
             "mask": torch.ones(size, length, dtype=torch.bool)}
    kind = getattr(METHODS.get(model), "PRIOR", None)
    if kind == "dependency":
        values, kept = torch.rand(2, size, n, m, generator=rng)  # (B, n, m)
        batch["prior"] = 4 * values * (kept < DENSITY)
    elif kind == "relations":
        batch["prior"] = torch.rand(size, n, m, len(priors.RELATIONS), generator=rng) < RELATED
    return batch, torch.randint(0, 2, (size,), generator=rng)


def config_of(bert):
    """BertConfig of one of SHAPES, or of the folder of a model."""
    if bert in SHAPES:
        return bert_min.BertConfig(*SHAPES[bert])
    folder = bert_min.find_bert(bert, "data")
    return bert_min.BertConfig.from_json(next(p for c in bert_min.CONFIGS if (p := folder / c).exists()))


class Theirs(torch.nn.Module):
    """Hugging Face's BertForSequenceClassification with its sdpa attention, called as ours is."""

    def __init__(self, config):
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification     # optional: only --against needs it
        c = config
        self.bert = BertForSequenceClassification(BertConfig(
            vocab_size=c.vocab_size, hidden_size=c.hidden_size, num_hidden_layers=c.num_layers,
            num_attention_heads=c.num_heads, intermediate_size=c.intermediate_size, num_labels=2,
            max_position_embeddings=c.max_length, attn_implementation="sdpa"))

    def forward(self, input_ids, segment, mask, word_index):
        return self.bert(input_ids=input_ids, token_type_ids=segment, attention_mask=mask.long()).logits


class Subject:
    """One model with its optimizer and batch. `train` and `infer` do the work once."""

    def __init__(self, model, config, options):
        ours = "bert" if model == "transformers" else model
        layers = options.layers if issubclass(METHODS[ours], FusionAttention) else "first"
        self.settings = train.Settings(model=ours, bert="base", device=options.device, layers=layers, beside="none").complete()
        self.name, self.config = model, config
        torch.manual_seed(0)
        layers = self.settings.layer_indices(config.num_layers)
        self.model = (Theirs(config) if model == "transformers" else LadraNet(config, 2) if model == "ladranet" else
                      Matcher(model, config, 2, layers, **self.settings.options()))
        self.model.to(options.device)
        self.optimizer = train.make_optimizer(self.settings.optimizer, self.model, set(), self.settings)

    def give(self, batch, labels, precision):
        """Sets what the next steps are made of."""
        self.batch = {name: x.to(self.settings.device) for name, x in batch.items()}
        self.labels = labels.to(self.settings.device)
        self.settings = replace(self.settings, precision=precision)

    def train(self):
        """Forward, backward, clip, step, as train.train does."""
        self.model.train()
        with train.autocast(self.settings):
            logits = self.model(**self.batch)  # (B, 2)
        (train.loss_sum(logits, self.labels, False) / len(self.labels)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.inference_mode()
    def infer(self):
        """Logits of the batch, as train.predict makes them."""
        self.model.eval()
        with train.autocast(self.settings):
            self.model(**self.batch).float().cpu()

    def flops(self):
        """Of a training step: 6 for each weight of a linear map and token, and for each layer, token and key 12 d."""
        weights = sum(p.numel() for name, p in self.model.named_parameters() if p.dim() == 2 and "embeddings" not in name)
        size, length = self.batch["input_ids"].shape
        return 6 * weights * size * length + 12 * self.config.num_layers * self.config.hidden_size * size * length ** 2


def measure_steps(options):
    """Rows of every encoder, precision, length, model and kind of work; growth over the lengths; text."""
    rows, notes = [], []
    for bert in options.bert:
        config = config_of(bert)
        if not 5 <= min(options.lengths) <= max(options.lengths) <= config.max_length:
            raise ValueError(f"--lengths {min(options.lengths)} to {max(options.lengths)}: expected 5 to "
                             f"{config.max_length}, the encoder's positions")
        subjects = [Subject(model, config, options) for model in dict.fromkeys(["bert", *options.against, *options.models])]
        for precision, length in itertools.product(options.precision, options.lengths):
            for subject in subjects:
                subject.give(*random_batch(subject.name, config.vocab_size, options.batch, length), precision)
            works = {(s.name, work): getattr(s, work) for work in WORK for s in subjects}
            seconds, peaks = take_turns(works, options), {key: peak(work, options.device) for key, work in works.items()}
            for (model, work), times in seconds.items():
                row = {"bert": bert, "precision": precision, "length": length, "model": model, "work": work} | spread(times)
                row |= {"pairs_per_second": options.batch / row["seconds"], "peak_mb": peaks[model, work],
                        "time_ratio": statistics.median(x / y for x, y in zip(times, seconds["bert", work])),
                        "peak_ratio": peaks[model, work] / peaks["bert", work]}
                rows.append(row)
            speed = subjects[0].flops() / statistics.median(seconds["bert", "train"]) / 1e12
            share = f", {100 * speed / options.peak_tflops:.1f} % of {options.peak_tflops:g}" if options.peak_tflops else ""
            notes.append(f"plain BERT trains at {speed:.3g} TFLOP/s{share}: {bert}, {precision}, ({options.batch}, {length})")
    cells = [["encoder", "", "tokens", "model", "work", "ms", "x bert", "pairs/s", "peak MB", "x bert"]]
    cells += [[r["bert"], r["precision"], str(r["length"]), r["model"], r["work"], shown(r), f"{r['time_ratio']:.2f}",
               f"{r['pairs_per_second']:.1f}", f"{r['peak_mb']:.1f}", f"{r['peak_ratio']:.2f}"] for r in rows]
    keys = ("bert", "precision", "model", "work")
    grown = growth_rows(rows, keys)
    return {"rows": rows, "growth": grown}, [train.align(cells), *growth_table(grown, keys), "\n".join(notes)]


def measure_attention(options):
    """Guided and difference attention of a 6-layer encoder's width, forward and backward: rows, growth, text."""
    rows, (d, heads), A = [], SHAPES["6-layer"][1:4:2], 128
    W_values, W_guide, w = (torch.nn.Linear(*sizes).to(options.device) for sizes in ((d, A, False), (d, A), (A, 1, False)))

    def guided(x, mask):
        return semmatch.guided_attention(x, x, mask, W_values, W_guide, w)[0]

    def difference(x, mask):
        q = bert_min.split_heads(x, heads)
        return semmatch.difference_attention(q, q.flip(2), q, mask)

    for length in options.lengths:
        x = torch.randn(options.batch, length, d, device=options.device, requires_grad=True)
        mask = torch.ones(options.batch, length, dtype=torch.bool, device=options.device)
        works = {f.__name__: (lambda f=f: f(x, mask).sum().backward()) for f in (guided, difference)}
        for name, times in take_turns(works, options).items():
            rows.append({"length": length, "attention": name} | spread(times) | {"peak_mb": peak(works[name], options.device)})
    cells = [["attention", "tokens", "ms", "peak MB"],
             *([r["attention"], str(r["length"]), shown(r), f"{r['peak_mb']:.1f}"] for r in rows)]
    grown = growth_rows(rows, ["attention"])
    return {"rows": rows, "growth": grown}, [train.align(cells), *growth_table(grown, ["attention"])]


# ---- Text -----------------------------------------------------------------------------------------------------------

def some_pairs(options, count=2000):
    """Pairs of MRPC's training split where --data-dir has it, else of toy; which of them."""
    try:
        name, pairs = "MRPC", tasks.load_task("mrpc", options.data_dir)[1]["train"]
    except FileNotFoundError:
        name, pairs = "toy", tasks.load_task("toy", options.data_dir)[1]["train"]
    return pairs[:count], name


def rate_rows(works, options):
    """works: dict name -> (function, how many it does at once) -> rows, text."""
    seconds = take_turns({name: work for name, (work, _) in works.items()}, options)
    rows = [{"work": name, "per_second": works[name][1] / spread(times)["seconds"]} | spread(times)
            for name, times in seconds.items()]
    return rows, train.align([["work", "ms", "a second"], *([r["work"], shown(r), f"{r['per_second']:,.0f}"] for r in rows)])


def measure_parser(options):
    """Sentences of WORDS words, cut or joined from the pairs' sentences: split into words and parsed."""
    pairs, source = some_pairs(options)
    parser, texts, words = priors.load_parser(), set(), []
    for text in dict.fromkeys(text for pair in pairs for text in (pair.a, pair.b)):
        words += [text[i:j] for i, j in priors.split_words(text)]
        if len(words) >= WORDS:
            texts.add(" ".join(words[:WORDS]))
            words = []
    texts = sorted(texts)[:1024]
    rows, text = rate_rows({f"{WORDS} words, {source}": (lambda: priors.parse_texts(texts, parser, progress=False),
                                                         len(texts))}, options)
    return {"rows": rows}, [text]


def find_lexicon():
    """WordNet where nltk finds it, else toy's table; which of them."""
    try:
        return priors.WordNet(), "WordNet"
    except ValueError:
        return priors.Table(tasks.LEXICON), "toy's table, as nltk finds no WordNet"


def measure_priors(options):
    """DAFA's matrices from parses and relation matrices from facts that are there; and finding the facts."""
    pairs, source = some_pairs(options)
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.a, pair.b)))
    parses = priors.parse_texts(texts, priors.load_parser(), progress=False)
    tfidf = priors.TfIdf(parses[text].words for text in texts)
    lexicon, name = find_lexicon()
    words = {text: parses[text].words for text in texts}
    facts = {text: lexicon.facts(words[text]) for text in texts}

    def dependency():
        for p in pairs:
            tf = tfidf.weights(words[p.a]), tfidf.weights(words[p.b])
            priors.dependency_matrix(parses[p.a], parses[p.b], *tf)

    works = {f"DAFA matrices, {source}": (dependency, len(pairs)),
             f"relation matrices, {source}, {name}": (lambda: [priors.relation_matrix(facts[p.a], facts[p.b]) for p in pairs],
                                                      len(pairs)),
             f"sentences looked up, {source}, {name}": (lambda: [lexicon.facts(words[text]) for text in texts], len(texts))}
    rows, text = rate_rows(works, options)
    return {"rows": rows}, [text]


def measure_loader(options):
    """Pairs collated by train.Examples, in this process: what a training step waits for without --workers."""
    pairs, source = some_pairs(options)
    splits, works = {"train": pairs}, {}
    for model in ("bert", "dafa", "knowledge"):
        settings = train.Settings(model=model, bert="scratch", device="cpu", beside="none", max_length=PADDED).complete()
        task = tasks.Task("toy" if model == "knowledge" and source == "toy" else "any", ("0", "1"), ("accuracy",))
        texts = [text for pair in pairs for text in (pair.a, pair.b)]
        tokenizer = bert_min.PairTokenizer.train(texts, vocab_size=8000)
        try:
            examples = train.prepare(settings, task, tokenizer, splits)[0]["train"]
        except ValueError:                                # no WordNet
            continue
        batches = train.training_batches(examples.lengths, options.batch, 0)
        works[f"{model}, {source}"] = (lambda e=examples, b=batches: [e.collate(places) for places in b], len(pairs))
    rows, text = rate_rows(works, options)
    return {"rows": rows}, [text]


# ---- Files and processes --------------------------------------------------------------------------------------------

def measure_checkpoint(options):
    """Reading BERT-base, random weights, 438 MB, from a temporary folder; the file is in the system's cache."""
    import test_bert_min                                  # its writers, with the faster of two equal sums
    test_bert_min.slow_crc = bert_min.crc32c
    config = config_of("base")
    arrays = {name: x.numpy() for name, x in bert_min.Bert(config).state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        tf, safe = Path(folder, "tf"), Path(folder, "safetensors")
        for place in (tf, safe):
            place.mkdir()
            config.to_json(place / "config.json")
        test_bert_min.write_safetensors(safe / "model.safetensors", {
            name: ("F32", x.shape, x.tobytes()) for name, x in arrays.items()})
        kernels = {name for name, x in arrays.items() if x.ndim == 2 and "embeddings" not in name}     # TensorFlow's: (in, out)
        test_bert_min.write_tf(tf / "bert_model.ckpt", {
            name.removesuffix("weight").replace(".", "/") + ("kernel" if name in kernels else "weight" * name.endswith("weight")):
            (1, x.T.shape if name in kernels else x.shape, (x.T if name in kernels else x).tobytes())
            for name, x in arrays.items()})
        size = sum(path.stat().st_size for path in tf.iterdir()) / 1e6
        found = bert_min.read_checkpoint(tf)[1]
        if not all((found[name] == x).all() for name, x in arrays.items()):
            raise AssertionError("what was read is not what was written")
        seconds = take_turns({place.name: (lambda place=place: bert_min.read_checkpoint(place)) for place in (tf, safe)},
                             options)
    rows = [{"format": name, "mb": size} | spread(times) for name, times in seconds.items()]
    return {"rows": rows}, [train.align([["format", "MB", "ms"], *([r["format"], f"{size:.0f}", shown(r)] for r in rows)])]


def pad_to(batch, length, pad_id):
    """A collated batch of plain BERT with as many tokens a row, at least."""
    fill = {"input_ids": pad_id, "segment": 0, "word_index": -1, "mask": False}
    return {name: F.pad(x, (0, length - x.shape[1]), value=fill[name]) for name, x in batch.items()}


def measure_epoch(options):
    """Every so many of the batches of one epoch of MRPC, in the order of their lengths, as they are and padded."""
    pairs, source = some_pairs(options, None)
    if source != "MRPC":
        return {}, [f"{options.data_dir} has no mrpc: not measured"]
    bert = options.bert[0]
    subject = Subject("bert", config_of(bert), options)
    texts = [text for pair in pairs for text in (pair.a, pair.b)]
    tokenizer = bert_min.PairTokenizer.train(texts, vocab_size=8000) if bert in SHAPES else (
        bert_min.PairTokenizer.from_folder(bert_min.find_bert(bert, "data"), subject.config))
    examples = train.Examples(pairs, replace(subject.settings, max_length=PADDED), tokenizer)
    batches = train.training_batches(examples.lengths, options.batch, 0)
    batches.sort(key=lambda places: max(examples.lengths[i] for i in places))
    share = max(1, len(batches) // options.epoch_steps)
    works = {}
    for k, places in enumerate(batches[share // 2::share]):
        batch, labels = examples.collate(places)
        for name, x in (("like lengths", batch), ("padded", pad_to(batch, PADDED, tokenizer.pad_id))):
            works[k, name] = lambda x=x, labels=labels: (subject.give(x, labels, options.precision[0]), subject.train())
    seconds = take_turns(works, options, repeats=1)
    total = {name: share * sum(times[0] for (_, n), times in seconds.items() if n == name) for name in ("like lengths", "padded")}
    ratio = total["padded"] / total["like lengths"]
    return {"seconds": total, "ratio": ratio, "batches": len(works) // 2}, [
        f"{bert}, {options.precision[0]}, from {len(works) // 2} of {len(batches)} batches: {total['like lengths']:.0f} s in "
        f"batches of like lengths, {total['padded']:.0f} s with every pair padded to {PADDED}: {ratio:.2f} times"]


def measure_help(options):
    """`train.py --help` and importing torch, each in a process of its own."""
    works = {"import torch": [sys.executable, "-c", "import torch"], "--help": [sys.executable, str(ROOT / "train.py"), "--help"]}

    def seconds(command):
        used, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall = time.perf_counter() - begun
        return after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime if options.clock == "cpu" else wall

    turns = [{name: seconds(command) for name, command in works.items()} for _ in range(options.repeats + 1)][1:]
    rows = [{"work": name} | spread([turn[name] for turn in turns]) for name in works]
    rows.append({"work": "difference"} | spread([turn["--help"] - turn["import torch"] for turn in turns]))
    return {"rows": rows}, [train.align([["", "ms"], *([r["work"], shown(r)] for r in rows)])]


SECTIONS = {"steps": measure_steps, "attention": measure_attention, "parser": measure_parser, "priors": measure_priors,
            "loader": measure_loader, "checkpoint": measure_checkpoint, "epoch": measure_epoch, "help": measure_help}


# ---- Command line ---------------------------------------------------------------------------------------------------

def words_of(text, known, option):
    """Parts of a text with commas, each of which must be known."""
    parts = text.replace(" ", "").split(",")
    if unknown := [part for part in parts if part not in known]:
        raise ValueError(f"--{option} {', '.join(unknown)}: expected some of {', '.join(known)}, with commas")
    return parts


def command_line(argv):
    """The options, checked. Raises ValueError for a mistake."""
    parser = train.Arguments(prog="bench.py", description=__doc__.partition("\n")[0])
    models = [model for model in METHODS if model != "drrnet"]                 # its batches are of another kind
    parser.add_argument("--sections", default=",".join(SECTIONS), help="what to measure, with commas (default: all)")
    parser.add_argument("--models", default=",".join(models), help="with commas; bert is always measured")
    parser.add_argument("--bert", default="6-layer", help="6-layer, base, or folders, of which only the sizes are read")
    parser.add_argument("--layers", default="first", help="layers that carry the method, as in train.py")
    parser.add_argument("--lengths", default="64", help="tokens of a pair, such as 32,64,128,256,512")
    parser.add_argument("--precision", default="fp32", help="fp32, bf16, or both with a comma")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epoch-steps", type=int, default=10, help="batches that stand for an epoch of MRPC")
    parser.add_argument("--against", default="", help="transformers: Hugging Face's BERT in the same turns")
    parser.add_argument("--peak-tflops", type=float, help="the device's peak, to show plain BERT's share of it")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: this process's processor seconds")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data-dir", default="data", help="where MRPC is, if it is")
    parser.add_argument("--json", metavar="FILE", help="a file for all numbers")
    options = argparse.Namespace(**parser.parse(argv))
    for name, known in (("sections", list(SECTIONS)), ("models", models), ("precision", ("fp32", "bf16"))):
        setattr(options, name, words_of(getattr(options, name), known, name))
    options.bert = options.bert.split(",")
    options.against = words_of(options.against, ["transformers"], "against") if options.against else []
    try:
        options.lengths = sorted({int(length) for length in options.lengths.split(",")})
    except ValueError:
        raise ValueError(f"--lengths {options.lengths}: expected numbers with commas") from None
    if min(options.batch, options.repeats, options.epoch_steps, *options.lengths) < 1:
        raise ValueError("--batch, --repeats, --epoch-steps, --lengths: expected numbers above 0")
    if options.clock == "cpu" and options.device != "cpu":
        raise ValueError("--clock cpu: a GPU's work is not in it; leave it out")
    if options.against:
        try:
            import transformers  # noqa: F401
        except ImportError:
            raise ValueError("--against transformers: that package is not installed; pip install transformers") from None
    return options


def main(argv=None):
    """Measures and prints the sections. Returns the exit status."""
    try:
        options = command_line(argv)
        content = {"options": vars(options), "density": DENSITY, "versions": train.versions(options.device), "load": os.getloadavg()}
        print(f"{options.device}, {torch.get_num_threads()} threads, torch {torch.__version__}, batch {options.batch}, layers "
              f"{options.layers}, {options.clock} clock, medians of {options.repeats} (quartiles), other work on the machine: "
              f"{content['load'][0]:.1f} processes")
        for name in options.sections:
            content[name], texts = SECTIONS[name](options)
            print(f"\n{name}\n\n" + "\n\n".join(texts), flush=True)
            if options.json:
                train.write_json(Path(options.json), content)
    except (ValueError, OSError) as error:
        print(f"bench.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
