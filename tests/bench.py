"""Time and memory of a training step and of inference, beside plain BERT in the same run: `python tests/bench.py`.

Weights, tokens and prior matrices are random: only shapes matter here. All models take turns, step by step, so that
a busy machine slows all of them alike. Times are medians with the lower and upper quartile; a ratio to plain BERT is
the median of the ratios of neighbouring steps.

Memory is the peak of one step above what stood before it: activations, gradients and what the optimizer needs in
passing, not weights and AdamW's moments. On a GPU it is what torch allocated; on a CPU the profiler's list of every
tensor's allocation and release, summed up in order. Both count bytes, so they do not depend on how busy a machine is.
"""
import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import bert_min  # noqa: E402
import priors  # noqa: E402
import train  # noqa: E402
from semmatch import METHODS, FusionAttention, LadraNet, Matcher  # noqa: E402

# Axes: B batch, L tokens, n words of a, m words of b

SHAPES = {"6-layer": (30522, 384, 6, 12, 1536, 512), "base": (30522, 768, 12, 12, 3072, 512)}
PIECES = 1.25         # of a word, in English
DENSITY = 0.3         # share of word pairs whose entry of DAFA's matrix is above 0
RELATED = 0.005       # share of word pairs that have a given lexical relation
WORK = ("train", "infer")


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
    kind = getattr(METHODS[model], "PRIOR", None)
    if kind == "dependency":
        values, kept = torch.rand(2, size, n, m, generator=rng)  # (B, n, m)
        batch["prior"] = 4 * values * (kept < DENSITY)
    elif kind == "relations":
        batch["prior"] = torch.rand(size, n, m, len(priors.RELATIONS), generator=rng) < RELATED
    return batch, torch.randint(0, 2, (size,), generator=rng)


class Subject:
    """One model with its optimizer and batch. `train` and `infer` do the work once and return the seconds."""

    def __init__(self, model, options):
        layers = options.layers if issubclass(METHODS[model], FusionAttention) else "first"
        self.settings = train.Settings(model=model, bert=options.bert, device=options.device, layers=layers,
                                       precision=options.precision, beside="none").complete()
        self.cuda = self.settings.device.startswith("cuda")
        if options.bert in SHAPES:
            config = bert_min.BertConfig(*SHAPES[options.bert])
        else:
            folder = bert_min.find_bert(options.bert, "data")
            config = bert_min.BertConfig.from_json(next(p for c in bert_min.CONFIGS if (p := folder / c).exists()))
        if not 5 <= options.length <= config.max_length:
            raise ValueError(f"--length {options.length}: expected 5 to {config.max_length}, the encoder's positions")
        torch.manual_seed(0)
        layers = self.settings.layer_indices(config.num_layers)
        self.model = (LadraNet(config, 2) if model == "ladranet" else
                      Matcher(model, config, 2, layers, **self.settings.options()))
        self.model.to(self.settings.device)
        self.optimizer = train.make_optimizer(self.settings.optimizer, self.model, set(), self.settings)
        batch, labels = random_batch(model, config.vocab_size, options.batch, options.length)
        self.batch = {name: x.to(self.settings.device) for name, x in batch.items()}
        self.labels = labels.to(self.settings.device)

    def clock(self):
        if self.cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    def train(self):
        """Forward, backward, clip, step, as train.train does."""
        self.model.train()
        begun = self.clock()
        with train.autocast(self.settings):
            logits = self.model(**self.batch)  # (B, 2)
        (train.loss_sum(logits, self.labels, False) / len(self.labels)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return self.clock() - begun

    @torch.inference_mode()
    def infer(self):
        """Logits of the batch, as train.predict makes them."""
        self.model.eval()
        begun = self.clock()
        with train.autocast(self.settings):
            self.model(**self.batch).float().cpu()
        return self.clock() - begun

    def peak(self, work):
        """MB above what stood before, at the worst moment of one step."""
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            getattr(self, work)()
            return (torch.cuda.max_memory_allocated() - before) / 2 ** 20
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            getattr(self, work)()
        events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
        now = top = 0
        for event in sorted(events, key=lambda e: e.start_ns()):
            now += event.nbytes()
            top = max(top, now)
        return top / 2 ** 20


def measure(options):
    """dict model -> dict work -> seconds (median and quartiles), pairs per second, peak MB, and both beside bert."""
    subjects = {model: Subject(model, options) for model in dict.fromkeys(["bert", *options.models])}
    seconds = {(model, work): [] for work in WORK for model in subjects}
    peaks = {}
    for turn in range(-1, options.repeats):              # turn -1 warms up: libraries' buffers, AdamW's moments
        for model, work in seconds:
            taken = getattr(subjects[model], work)()
            if turn >= 0:
                seconds[model, work].append(taken)
    for model, work in seconds:
        peaks[model, work] = subjects[model].peak(work)
    found = {model: {} for model in subjects}
    for (model, work), times in seconds.items():
        low, median, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
        ratios = [x / y for x, y in zip(times, seconds["bert", work])]
        found[model][work] = {"seconds": median, "quartiles": [low, high], "pairs_per_second": options.batch / median,
                              "peak_mb": peaks[model, work], "time_ratio": statistics.median(ratios),
                              "peak_ratio": peaks[model, work] / peaks["bert", work]}
        found[model]["parameters"] = sum(p.numel() for p in subjects[model].model.parameters())
    return found


def main(argv=None):
    parser = train.Arguments(prog="bench.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default="bert,dabert,dafa,knowledge,ladranet", help="with commas; bert is always measured")
    parser.add_argument("--bert", default="6-layer", help="6-layer, base, or a folder, of which only the sizes are read")
    parser.add_argument("--layers", default="first", help="layers that carry the method, as in train.py")
    for name, default in (("batch", 32), ("length", 64), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", help="a JSON file for all numbers")
    try:
        options = argparse.Namespace(**parser.parse(argv))
        options.models = options.models.split(",")
        if unknown := set(options.models) - (set(METHODS) - {"drrnet"}):     # its batches are of another kind
            raise ValueError(f"--models {', '.join(unknown)}: expected some of {', '.join(set(METHODS) - {'drrnet'})}")
        if min(options.batch, options.repeats) < 1:
            raise ValueError("--batch and --repeats: expected a number above 0")
        found = measure(options)
        content = {"options": vars(options), "density": DENSITY, "versions": train.versions(), "models": found}
        if options.out:
            train.write_json(Path(options.out), content)
    except (ValueError, OSError) as error:
        print(f"bench.py: {error}", file=sys.stderr)
        return 2
    print(f"{options.bert}, batch {options.batch}, {options.length} tokens, layers {options.layers}, {options.precision} on "
          f"{options.device}, {torch.get_num_threads()} threads, median of {options.repeats} (quartiles)\n\n"
          f"{'model':<9} {'work':<6} {'ms':>9} {'':17} {'x bert':>7} {'pairs/s':>9} {'peak MB':>9} {'x bert':>7}")
    for model, works in found.items():
        for work in WORK:
            x = works[work]
            spread = "({:.1f} to {:.1f})".format(*(1e3 * q for q in x["quartiles"]))
            print(f"{model:<9} {work:<6} {1e3 * x['seconds']:>9.1f} {spread:<17} {x['time_ratio']:>7.2f} "
                  f"{x['pairs_per_second']:>9.1f} {x['peak_mb']:>9.1f} {x['peak_ratio']:>7.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
