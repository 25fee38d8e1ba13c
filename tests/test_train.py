"""train.py, settings.py: recipes, the loop against plain code, resumed runs, own methods."""
import functools
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import batches
import printed
import train
from run import Run
from small_runs import (MODELS, OWN, ROOT, assert_like_weights, assert_same_run, at_call,
                        beginning, command, equal, events, gentle, loaded, losses, of, result,
                        refused, run, run_cut, write_file, write_pairs)
from settings import read_options
from support import machine
from support.pairs import Task
from support.tables import read_pairs

pytestmark = pytest.mark.usefixtures("workplace")
CLIP = torch.nn.utils, "clip_grad_norm_"  # called once a step


PRETRAINED = {"bert": "base", "optimizer": "adamw", "schedule": "linear", "clip": 10.0}
SCRATCH = {"lr": 1e-3, "lr_new": 1e-3, "dropout": 0.0, "patience": 0, "precision": "fp32"}
VISUAL = {"optimizer": "adam", "schedule": "cosine", "patience": 1000}  # section VI-B


@pytest.mark.parametrize("model, given, expected", [
    *((model, {}, PRETRAINED | {"precision": "bf16"}) for model in MODELS[:4]),  # DAFA, B.1
    *((model, {"bert": "scratch"}, SCRATCH) for model in MODELS[:4]),
    ("ladranet", {}, VISUAL | {"lr": 2e-5, "lr_new": 1e-3}),
    ("drrnet", {}, VISUAL | {"lr": 3e-4, "lr_new": 3e-4, "precision": "fp32"}),
    ("drrnet", {"task": "toy"}, {"lr": 1e-3}), ("dafa", {}, {"weight_decay": 1e-8}),
    ("knowledge", {"recipe": "printed"}, {"optimizer": "adadelta", "batch_size": 70, "lr": 0.5,
                                          "lr_new": 0.5, "schedule": "flat", "weight_decay": 0.0})])
def test_recipes(model, given, expected, monkeypatch, tmp_path):
    """A trained encoder uses bfloat16 if the processor has it; a small model is the same on all."""
    flags = "flags : fma avx512_bf16\n"
    monkeypatch.setattr(machine, "PROCESSOR", write_file(tmp_path, "cpuinfo", flags))
    made = read_options({"task": "mrpc", "device": "cpu", "model": model} | given)[1]
    assert {name: getattr(made, name) for name in expected} == expected
    monkeypatch.setattr(machine, "PROCESSOR", write_file(tmp_path, "cpuinfo", ""))
    assert machine.fast_precision("cpu") == "fp32"


# Mistakes that would train another run in silence: (options, words of the message)
WRONG = [
    ("--model dafra", "--model dafra dafa, mine.py:"),
    ("--printed 5", "--printed 4, 6, 7, 9"), ("--model drrnet --bert base", "--bert drrnet"),
    ("--model dafa --glove x", "--glove dafa"), ("--model bert --layers 0", "--layers bert"),
    ("--model dafa --recipe printed", "--recipe knowledge dafa"),
    ("--recipe printed --model knowledge --weight-decay 0.1", "--recipe printed --weight-decay"),
    ("--train-file train.tsv", "--train-file --dev-file --held-out"),
    ("--task mrpc --train-file train.tsv --dev-file dev.tsv", "--task mrpc"),
    ("--test-file test.tsv", "--test-file --train-file"),
    ("--resume nowhere", "nowhere last.pt"), ("--predict test.tsv", "--predict --from"),
    ("--from nowhere --test-file test.tsv", "--test-file --test,"),
    ("--from nowhere --lr 1", "--lr training"),
    ("--out train.tsv", "train.tsv:"), ("--out=", "--out"), ("--parser mine.py", "--parser"),
    ("--device cuda:99", "--device cuda:99"), ("--task med --out run", "med MED.tsv")]
WRONG_DATA = [
    ("--max-length 64", "--max-length 64 48"), ("--model dafa --set SCOPE=heads", "scope heads"),
    ("--test", "test"), ("--columns sentence1", "--columns three"),
    ("--model dafa --layers 7", "layers 7 1"),
    ("--model dabert --without affinity,difference", "affinity, difference"),
    ("--model drrnet --bert none --without global,reread", "global, reread"),
    ("--model ladranet --without dsa,global", "dsa, global"),
    ("--scores --class-weights balanced", "--class-weights")]


@pytest.mark.parametrize("args, words", [*WRONG, *WRONG_DATA])
def test_a_mistake_gives_one_line_and_takes_no_folder(args, words):
    """An existing folder keeps its files."""
    thesis = write_file(Path("run/deep"), "thesis.tmp", "years of work")
    refused(words, *args.split(), by=run if (args, words) in WRONG_DATA else command)
    assert [*Path("run").rglob("*")] == [thesis.parent, thesis] and not Path("runs").exists()


@given(st.integers(1, 120), st.floats(0, 0.99))
def test_rate_rises_then_falls_to_zero(total, warmup):
    """Straight, or half a cosine each way: without a jump, an end above 0 or a division by 0."""
    rise = warmup * total
    for step in range(total + 1):
        up = (step + 1) / max(1.0, rise)
        share = min(1.0, up, (total - step) / max(1.0, total - rise))
        assert train.rate(step, total, warmup) == pytest.approx(share)
        assert train.rate(step, total, warmup, "cosine") == pytest.approx(
            (1 - math.cos(math.pi * share)) / 2)
        assert train.rate(step, total, warmup, "flat") == 1.0 and share >= (step < total) * 1e-9


def test_l2_ratio_is_equation_9():
    for t in (0, 1, 777, 50_000, 99_999, 100_000, 250_000):
        x = (t - 100_000 / 2) * 8 / (100_000 / 2)
        page = math.exp(x) / (math.exp(x) + 1) * 0.9e-5
        assert train.l2_ratio(t) == pytest.approx(page, rel=1e-12)
    made, *_ = beginning(*of("knowledge"), "--recipe", "printed")  # the decay of each step
    optimizer = train.make_optimizer(made)
    train.set_rates(optimizer, made, 777, 99_999)
    assert type(optimizer) is torch.optim.Adadelta
    assert (optimizer.defaults["rho"], optimizer.defaults["eps"]) == (0.95, 1e-8)
    assert {group["weight_decay"] for group in optimizer.param_groups} == {train.l2_ratio(777)}


def test_options_reach_their_places():
    _, _, model, new = beginning(*of("dafa", "SCOPE=head"), "--printed", "all", "--layers", "1",
                                 "--without", "tree,gates")
    plain, method = (layer.attention for layer in model.bert.layers)
    assert method.filtration_gate is printed.filtration_gate and method.scope == "head"
    assert method.without == {"tree", "gates"} and type(plain).__name__ == "SelfAttention"
    assert {name.partition(".attention")[0] for name in new} == {
        "bert.layers.1", "classifier.weight", "classifier.bias"}
    model, new = beginning(*of("ladranet", "KERNELS=2+1+3"), "--dropout", "0.25")[2:]
    assert len(model.first) == 3 and model.bert.layers[0].attention.dropout == 0.25
    assert set(new) == {name for name, _ in model.named_parameters() if name[:5] != "bert."}
    assert beginning(*of("drrnet"), "--dropout", "0.25")[2].dropout.p == 0.25
    model, new = beginning(*of("aligned"))[2:]  # without an option all layers, and no weight
    assert [*model.carriers()] == [0, 1] and new == beginning(*of("bert"))[3]


def test_what_a_run_begins_with():
    """Outputs start at the mean score. Glorot's bound of a GRU's matrix is one gate's."""
    write_pairs(lambda rng, same: f"{same}.5", train=8, dev=8)
    for model in ("bert", "drrnet", "ladranet"):
        biases = [layer.bias.item() for layer in beginning(*of(model))[2].outputs()]
        assert biases == pytest.approx([1.0] * len(biases))
    network = beginning("--model", "ladranet", "--bert", "scratch")[2]
    for p in (p for name, p in network.named_parameters() if "gru" in name and p.dim() == 2):
        (rows, columns), top = p.shape, p.abs().max()
        assert (6 / (rows + columns)) ** 0.5 < top <= (6 / (rows / 3 + columns)) ** 0.5


def loop_of(model):
    """Options of a run whose numbers differ by rounding alone; plain BERT has dropout."""
    more = ["0.1", "--class-weights", "balanced"] if model == "bert" else ["0"]
    return [*gentle(model), "--clip", "0.5", "--warmup", "0.3", "--weight-decay", "0.5", "--lr",
            "5e-5", "--lr-new", "2e-4", "--seed", "1", "--limit", "21", "--dropout", *more]


@pytest.mark.parametrize("model", MODELS)
def test_the_loop_is_plain_training(model, trained_once):
    """Losses, norms, rates, dev losses and the best weights equal those of plain steps."""
    args, kind, schedule = loop_of(model), torch.optim.AdamW, "linear"
    if model in ("drrnet", "ladranet"):
        kind, schedule = torch.optim.Adam, "cosine"
    _, data, network, new = beginning(*args)
    groups = [{"params": [p], "peak": 2e-4 if name in new else 5e-5,
               "weight_decay": 0.5 if p.dim() > 1 else 0.0}
              for name, p in network.named_parameters()]
    count = torch.bincount(torch.tensor([pair.label for pair in data["train"].pairs]))
    balance = 21 / 2 / count if model == "bert" else None
    optimizer, step, seen, dev, weights = kind(groups), 0, [], [], []
    for epoch in range(2):
        network.train()
        for places in batches.training_batches(data["train"].lengths, 8, f"1 {epoch}"):
            inputs, labels = data["train"].collate(places)
            torch.manual_seed(random.Random(f"1 {step} 0").getrandbits(63))  # of dropout
            judgements = network(**inputs).view(-1, len(labels), 2)  # DRr-Net: a loss for each
            loss = sum(F.cross_entropy(logits, labels, balance, reduction="sum") / len(labels)
                       for logits in judgements)
            network.zero_grad()
            loss.backward()
            used = [p for p in network.parameters() if p.grad is not None]  # not LadRa-Net's pooler
            norm = math.sqrt(sum(float(p.grad.square().sum()) for p in used))
            for p in used:
                p.grad *= min(1.0, 0.5 / norm)
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * train.rate(step, 6, 0.3, schedule)
            optimizer.step()
            step += 1
            seen.append((loss.item(), norm, group["lr"]))
        inputs, labels = data["dev"].collate(range(10))
        with torch.inference_mode():
            logits = network.eval()(**inputs).view(-1, len(labels), 2)[0]
            dev.append(F.cross_entropy(logits, labels).item())
        weights.append({name: p.clone() for name, p in network.state_dict().items()})
    folder = trained_once(*args)
    steps = [event for event in events(folder) if "loss" in event]
    np.testing.assert_allclose([(e["loss"], e["norm"], e["lr"]) for e in steps], seen, rtol=1e-4)
    dev_losses = [e["mean_loss"] for e in events(folder) if "mean_loss" in e]
    assert dev_losses == pytest.approx(dev, rel=1e-4)
    best = loaded(folder / "best.pt")["weights"]
    assert_like_weights(best, weights[result(folder)["best_epoch"] - 1])


@pytest.mark.parametrize("model, args, within", [
    ("dafa", "--workers 1", 3e-5), ("ladranet", "--precision bf16", 0.05),
    ("drrnet", "--precision fp16", 0.05)])
def test_how_a_batch_is_computed_changes_nothing_but_rounding(model, args, within, trained_once):
    one = trained_once(*loop_of(model))
    assert run(*loop_of(model), *args.split()) == 0
    assert not torch.multiprocessing.active_children()  # they end with the run
    np.testing.assert_allclose(losses(), losses(one), rtol=0, atol=within)
    weights, expected = (loaded(out / "best.pt")["weights"] for out in (Path("run"), one))
    assert_like_weights(weights, expected, within)
    assert {x.dtype for x in weights.values()} == {torch.float32}
    assert "precision" not in args or losses() != losses(one)


def test_the_metric_chooses_the_epoch_and_the_loss_ends_the_run(monkeypatch):
    """Of equal epochs the first. Patience counts steps, and ends a run after a whole epoch. Other
    dev splits, such as MNLI's, are scored and do not choose. Test, None, is not read."""
    pairs = read_pairs("train.tsv", ("0", "1"))
    task = Task("mnli", ("0", "1"), ("accuracy",), "dev_matched")
    splits = {"train": pairs, "dev_mismatched": pairs[8:12], "dev_matched": pairs[:8],
              "test_matched": [None] * 3, "test": [None]}
    monkeypatch.setattr("support.datasets.load_task", lambda *args: (task, splits))
    scores = [(0.5, 0.8), (0.7, 0.5), (0.6, 0.6), (0.7, 0.5), (0.1, 0), (0.3, 0)]
    sizes, seen = [], []

    def score(self, examples):
        seen.append({name: value.clone() for name, value in self.model.state_dict().items()})
        sizes.append(len(examples.pairs))
        accuracy, loss = scores[len(seen) - 1]
        return {"accuracy": accuracy, "f1": -float(len(seen))}, loss, {}

    monkeypatch.setattr(Run, "score", score)
    assert command(*OWN[4:], *of("dafa"), "--task", "mnli", "--epochs", "9", "--patience", "6",
                   "--out", "run") == 0
    assert result()["best_epoch"] == 2 and sizes == [8] * 5 + [4]
    assert {e["split"] for e in events() if "split" in e} == {"dev_matched"}
    assert equal(loaded("run/best.pt")["weights"], seen[1]) and equal(seen[4], seen[1])
    accuracies = {name: x["accuracy"] for name, x in result()["metrics"].items()}
    assert not equal(seen[3], seen[1]) and accuracies == {"dev_matched": 0.1, "dev_mismatched": 0.3}
    cut = train.Progress(step=14, epoch=4, lowest_step=6)  # at step 12 the lowest is six steps ago
    assert cut.finished(9, 6, 3) and not cut.finished(9, 7, 3)


@pytest.mark.parametrize("place, value", [((train, "loss_sum"), math.nan), (CLIP, math.inf)])
def test_a_loss_or_gradient_that_is_not_finite_ends_the_run(place, value, monkeypatch):
    """Otherwise all weights become NaN, in last.pt too."""
    bad = torch.tensor(value, requires_grad=math.isnan(value))
    at_call(monkeypatch, *place, 5, lambda: monkeypatch.setattr(*place, lambda *args: bad))
    refused(f"{value} step 6 --lr", by=run)
    assert loaded("run/last.pt")["progress"]["step"] == 3


def test_a_method_of_your_own():
    page = (ROOT / "docs/own_method.md").read_text("utf-8")
    first, *more = re.findall("^```python\n(.*?)^```", page, re.M | re.S)
    assert first == (ROOT / "tutorials/mine.py").read_text("utf-8")
    for text in (first, *more):
        Path("other.py").write_text(text)
        name = re.findall(r"^class (\w+)", text, re.M)[-1]
        assert run("--model", f"other.py:{name}", "--epochs", "1", out=name) == 0
        opened = train.open_run(name, model=f"other.py:{name}")
        assert opened.explain("the dog", "")
        assert opened.evaluate(read_pairs("dev.tsv", ("0", "1"))) == result(name)["metrics"]["dev"]


BASES = ("from bert_min import SelfAttention\nfrom reread import DrrNet\n"
         "from semmatch import DafaAttention\n")
ATTEND = "def attend(self, hidden, *others): return "
PRIOR = ("import numpy as np; from priors import DependencyPrior as P; prior = classmethod("
         "lambda cls, *x, P=P, np=np: type('C', (P,), {%s})(*x))")


@pytest.mark.parametrize("base, body, words", [
    ("SelfAttention", ATTEND + "hidden[:, :1]", "Mine.attend 1, 64)"),
    ("SelfAttention", ATTEND + "hidden; prior = lambda *given: 3", "spread"),
    ("DafaAttention", "prior = staticmethod(lambda a, b: len(a) == len(b))", "words_prior bool"),
    ("DafaAttention", PRIOR % "'state': lambda self: np.float64(3)", "mine.py:Mine state()"),
    ("DrrNet", "def forward(self, mask, **others): return mask[:, :1] * 1.0", "model 2)")])
def test_mistakes_of_an_own_class(base, body, words):
    """Without errors wrong shapes are broadcast, and files cannot be read."""
    args = of("drrnet") if base == "DrrNet" else ["--bert", "scratch"]
    lines = [f"class Mine({base}):", *body.split("; ")]
    Path("mine.py").write_text(BASES + "\n    ".join(lines) + "\n")
    refused(words, *args, "--model", "mine.py:Mine", by=run)


PLACES = {  # name -> (function that is interrupted, at which call, seconds between checkpoints)
    "before the first checkpoint": (*CLIP, 2, 300),
    "between the log and the checkpoint": (torch, "save", 4, -1),
    "in the second epoch": (*CLIP, 5, -1), "in evaluation": (Run, "score", 2, 300),
    "in the picture": (train.summary, "draw_run", 1, 300)}
BEGINNINGS = f"{ROOT}/tutorials/mine.py:Beginnings"
SECOND = ["in the second epoch"]


@pytest.mark.parametrize("args, places", [
    (of("bert"), PLACES), ([*of("dabert"), "--precision", "fp16"], SECOND), (of("dafa"), SECOND),
    ([*of("knowledge"), "--recipe", "printed", "--lr", "0.5"], SECOND),
    ([*of("drrnet"), "--glove", "glove.txt"], SECOND), (of(BEGINNINGS), SECOND)],
    ids=["bert", "fp16", "dafa", "printed", "glove", "own"])
def test_a_resumed_run_equals_one_that_was_not_interrupted(args, places, monkeypatch):
    """The first steps of fp16 overflow. Vectors of a file are not read again."""
    monkeypatch.setattr(torch.amp, "GradScaler", functools.partial(torch.amp.GradScaler,
                                                                  init_scale=2.0 ** 23))
    own = ["--model", BEGINNINGS] if BEGINNINGS in args else []
    args = [*args, "--dropout", "0.1"]
    for place in places:
        Path("glove.txt").write_text("the 1 2 3\nseattle 0.5 -1.0 0.25\ndog 1 2 3\n")
        if place == [*places][0]:
            assert run(*args, out="whole") == 0
        *where, seconds = PLACES[place]
        run_cut(monkeypatch, args, where, seconds)
        Path("glove.txt").unlink()
        refused("labelled --test-file", "--resume", "cut", "--test", *own)  # before it trains
        with monkeypatch.context() as patch:
            steps = at_call(patch, *CLIP, 0)
            assert command("--resume", "cut", *own) == 0, place
        assert_same_run("whole", "cut")
        assert bool(steps) != (place in [*PLACES][-2:])  # nothing is lost
        assert place not in SECOND or len(steps) == 2  # none is done twice
        Path("cut").rename(place)
    if "--glove" in args:
        assert [0.5, -1.0, 0.25] in loaded("whole/best.pt")["weights"]["words.weight"].tolist()
