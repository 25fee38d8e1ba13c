"""train.py, settings.py: options, recipes, the loop against plain code, resumed runs, own methods.
"""
import functools
import math
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import batches
import printed
import train
from run import Run
from small_runs import (MODELS, OWN, ROOT, WORDS, assert_like_weights, assert_same_run, at_call,
                        beginning, command, equal, events, gentle, loaded, losses, of, result,
                        refused, run, run_cut, write_file, write_pairs)
from settings import Settings, decide, method_options, read_options
from support.options import own_parser
from support import machine
from support.pairs import Task
from support.tables import read_pairs

pytestmark = pytest.mark.usefixtures("workplace")
CLIP = torch.nn.utils, "clip_grad_norm_"  # called once a step


# ---- Settings -----------------------------------------------------------------------------------

def complete(model, task="mrpc", **given):
    return read_options({"task": task, "model": model, "device": "cpu"} | given)[1]


def test_recipes():
    """Each model trains as its paper says; an untrained encoder has other numbers; options win."""
    for model in MODELS[:4]:  # DAFA, appendix B.1
        s = complete(model)
        assert (s.bert, s.optimizer, s.schedule, s.lr_new) == ("base", "adamw", "linear", s.lr)
        assert 8e-6 <= s.lr <= 3e-5 and 3 <= s.epochs <= 5 and 7.5 <= s.clip <= 15, model
        s = complete(model, bert="scratch")
        assert (s.lr, s.lr_new, s.dropout, s.patience) == (1e-3, 1e-3, 0.0, 0), model
    for model, rates in (("ladranet", (2e-5, 1e-3)), ("drrnet", (3e-4, 3e-4))):  # section VI-B
        s = complete(model)
        assert (s.optimizer, s.schedule, s.patience, s.lr, s.lr_new) == (
            "adam", "cosine", 1000, *rates)
    assert complete("drrnet", "toy").lr == 1e-3
    for task, size in (("toy", 64), ("mrpc", None)):  # None: the constructor's own, section VI-B
        options = read_options({"task": task, "model": "drrnet", "device": "cpu"})
        assert method_options(*options).get("hidden_size") == size
    s = complete("ladranet", lr=5e-5, patience=7, schedule="flat", clip=7.5)
    assert (s.lr, s.lr_new, s.patience, s.schedule, s.clip) == (5e-5, 1e-3, 7, "flat", 7.5)
    s = complete("knowledge", recipe="printed")
    assert (s.optimizer, s.batch_size, s.lr, s.lr_new, s.schedule, s.weight_decay) == (
        "adadelta", 70, 0.5, 0.5, "flat", 0.0)


def test_precision_is_what_the_processor_computes_in(monkeypatch, tmp_path):
    """A trained encoder uses bfloat16 if the processor has it; toy is the same everywhere."""
    monkeypatch.setattr(machine, "PROCESSOR", tmp_path / "cpuinfo")
    assert complete("dafa").precision == "fp32"  # a system without this file
    for flags, fast in (("flags : fma\n", "fp32"), ("flags : fma avx512_bf16\n", "bf16")):
        (tmp_path / "cpuinfo").write_text(flags)
        assert complete("dafa").precision == fast
        assert complete("dafa", "toy").precision == complete("drrnet").precision == "fp32"


# Mistakes that would train another run in silence: (options, words of the message)
WRONG = [
    ("--model dafra", "--model dafra dafa, mine.py:"),
    ("--printed 5", "--printed 4, 6, 7, 9"), ("--model drrnet --bert base", "--bert drrnet"),
    ("--model dafa --glove x", "--glove dafa"), ("--model bert --layers 0", "--layers bert"),
    ("--model dafa --recipe printed", "--recipe knowledge dafa"),
    ("--recipe printed --model knowledge --weight-decay 0.1", "--recipe printed --weight-decay"),
    ("--train-file train.tsv", "--train-file --dev-file --held-out"),
    ("--task own", "--task --train-file"),
    ("--task mrpc --train-file train.tsv --dev-file dev.tsv", "--task mrpc"),
    ("--test-file test.tsv", "--test-file --train-file"),
    ("--resume nowhere", "nowhere last.pt"), ("--predict test.tsv", "--predict --from"),
    ("--from nowhere --lr 1", "--lr training"), ("--from x --resume x", "--resume training"),
    ("--train-file train.tsv --dev-file dev.tsv --held-out 2", "--held-out"),
    ("--out train.tsv", "train.tsv:"),
    ("--out=", "--out"), ("--parser mine.py", "--parser mine.py"),
    ("--device cuda:99", "--device cuda:99"), ("--task med --out run", "med MED.tsv")]
WRONG_DATA = [
    ("--model dafa --layers 7", "layers 7 1"), ("--max-length 64", "--max-length 64 48"),
    ("--model dafa --set SCOPE=heads", "scope heads"), ("--test", "test"),
    ("--positive maybe", "positive maybe 0, 1"), ("--columns sentence1", "--columns three"),
    ("--scores --class-weights balanced", "--class-weights")]


@pytest.mark.parametrize("args, words", [*WRONG, *WRONG_DATA])
def test_a_mistake_gives_one_line_and_takes_no_folder(args, words):
    """An existing folder keeps its files, and the corrected command can use it."""
    thesis = write_file(Path("run/deep"), "thesis.tmp", "years of work")
    call = run if (args, words) in WRONG_DATA else command
    refused(words, *args.split(), by=call)
    assert not Path("run/config.json").exists() and not Path("runs").exists()
    assert args != "--max-length 64" or run("--epochs", "1") == 0
    assert thesis.read_text() == "years of work"


def test_a_finished_run_is_not_written_over(trained, capsys):
    files = {path: path.read_bytes() for path in trained().iterdir()}
    for args, words in [([*OWN, "--out", "run"], "run/best.pt resume"),
                        (["--resume", "run"], "run/last.pt --resume"),
                        (["--from", "run", "--out", "x.tsv"], "--out --predict"),
                        (["--from", "run", "--predict", "tset"], "tset: train, dev")]:
        refused(words, *args)
    for args in (["--from", "run"], ["--from", "run/best.pt"]):
        assert command(*args) == 0
        out = capsys.readouterr().out
        assert f"{100 * result()['metrics']['dev']['accuracy']:.1f}" in out
        assert f"epoch {result()['best_epoch']} of 2" in out
    assert {path: path.read_bytes() for path in Path("run").iterdir()} == files
    Path("run/result.json").unlink()
    refused("run/result.json", "--from", "run")


# ---- Optimizer ----------------------------------------------------------------------------------

@pytest.mark.parametrize("total, warmup", [(100, 0.1), (100, 0.0), (7, 0.3), (1, 0.1), (2, 0.99)])
def test_rate_rises_then_falls_to_zero(total, warmup):
    """Straight, or half a cosine each way: without a jump, an end above 0 or a division by 0."""
    rise = warmup * total
    for step in range(total):
        up = (step + 1) / rise if rise else 1.0
        down = (total - step) / (total - rise) if total - rise >= 1 else 1.0
        share = min(1.0, up, down)
        assert train.rate(step, total, warmup) == pytest.approx(share) and share > 0
        half = (1 - math.cos(math.pi * share)) / 2
        assert train.rate(step, total, warmup, "cosine") == pytest.approx(half)
        assert train.rate(step, total, warmup, "flat") == 1.0
    assert train.rate(total, total, warmup) == train.rate(total, total, warmup, "cosine") == 0


def test_l2_ratio_is_equation_9():
    for t in (0, 1, 777, 50_000, 99_999, 100_000, 250_000):
        x = (t - 100_000 / 2) * 8 / (100_000 / 2)
        page = math.exp(x) / (math.exp(x) + 1) * 0.9e-5
        assert train.l2_ratio(t) == pytest.approx(page, rel=1e-12)
    assert train.l2_ratio(30, full_step=60, full_ratio=3.0) == pytest.approx(1.5)
    assert train.l2_ratio(10 ** 9) == 0.9e-5


def test_options_reach_their_places():
    _, _, model, new = beginning(*of("dafa", "SCOPE=head"), "--printed", "all", "--layers", "1",
                                 "--without", "tree,gates")
    plain, method = (layer.attention for layer in model.bert.layers)
    assert method.filtration_gate is printed.filtration_gate  # Eq. (9)
    assert method.without == {"tree", "gates"}
    assert method.scope == "head" and type(plain).__name__ == "SelfAttention"
    assert {name.partition(".attention")[0] for name in new} == {
        "bert.layers.1", "classifier.weight", "classifier.bias"}
    model = beginning(*of("drrnet", "STEPS=2"), "--dropout", "0.25")[2]
    assert (model.steps, model.dropout.p) == (2, 0.25)
    model, new = beginning(*of("ladranet", "KERNELS=2+1+3"), "--dropout", "0.25")[2:]
    assert len(model.first) == 3 and model.bert.layers[0].attention.dropout == 0.25
    assert set(new) == {name for name, _ in model.named_parameters() if name[:5] != "bert."}


# ---- The loop -----------------------------------------------------------------------------------

def loop_of(model):
    """Options of a run whose numbers differ by rounding alone; plain BERT has dropout."""
    fast = [] if model == "drrnet" else ["--lr-new", "2e-4"]
    return [*gentle(model), "--seed", "3", "--clip", "0.5", "--warmup", "0.3", "--weight-decay",
            "0.5", "--lr", "5e-5", "--dropout", "0.1" if model == "bert" else "0", *fast]


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
    optimizer, step, seen, dev, weights = kind(groups), 0, [], [], []
    for epoch in range(2):
        network.train()
        for places in batches.training_batches(data["train"].lengths, 8, f"3 {epoch}"):
            inputs, labels = data["train"].collate(places)
            torch.manual_seed(random.Random(f"3 {step} 0").getrandbits(63))  # of dropout
            judgements = network(**inputs).view(-1, len(labels), 2)  # DRr-Net: a loss for each
            loss = sum(F.cross_entropy(logits, labels) for logits in judgements)
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
            seen.append((loss.item(), norm))
        inputs, labels = data["dev"].collate(range(10))
        with torch.inference_mode():
            logits = network.eval()(**inputs).view(-1, len(labels), 2)[0]
            dev.append(F.cross_entropy(logits, labels).item())
        weights.append({name: p.clone() for name, p in network.state_dict().items()})
    folder = trained_once(*args)
    steps = [event for event in events(folder) if "loss" in event]
    np.testing.assert_allclose([(e["loss"], e["norm"]) for e in steps], seen, rtol=1e-4)
    log_rate = 2e-4 if new else 5e-5  # the highest
    rates = [log_rate * train.rate(k, 6, 0.3, schedule) for k in range(6)]
    assert [e["lr"] for e in steps] == pytest.approx(rates)
    dev_losses = [e["mean_loss"] for e in events(folder) if "mean_loss" in e]
    assert dev_losses == pytest.approx(dev, rel=1e-4)
    best = loaded(folder / "best.pt")["weights"]
    assert_like_weights(best, weights[result(folder)["best_epoch"] - 1])


@pytest.mark.parametrize("model, args, within", [
    ("drrnet", "--workers 1", 3e-5),
    ("ladranet", "--precision bf16", 0.05), ("drrnet", "--precision fp16", 0.05)])
def test_how_a_batch_is_computed_changes_nothing_but_rounding(model, args, within, trained_once):
    one = trained_once(*loop_of(model))
    assert run(*loop_of(model), *args.split()) == 0
    np.testing.assert_allclose(losses(), losses(one), rtol=0, atol=within)
    np.testing.assert_allclose(losses(name="norm"), losses(one, "norm"), rtol=10 * within)
    weights, expected = (loaded(out / "best.pt")["weights"] for out in (Path("run"), one))
    assert_like_weights(weights, expected, within)
    assert {x.dtype for x in weights.values()} == {torch.float32}
    assert "precision" not in args or losses() != losses(one)


def test_a_worker_process_that_is_killed_ends_the_run(monkeypatch):
    monkeypatch.setattr(batches.Examples, "collate", lambda *args: os._exit(9))
    refused("worker --workers", "--workers", "1", out="killed", by=run)


def test_a_scale_too_large_is_halved_and_its_step_left_out(monkeypatch):
    """fp16's gradients overflow; a resumed run keeps the scale."""
    monkeypatch.setattr(torch.amp, "GradScaler", functools.partial(
        torch.amp.GradScaler, init_scale=2.0 ** 23))
    start, args = beginning()[2].state_dict(), ["--precision", "fp16"]
    run_cut(monkeypatch, args, (*CLIP, 2))
    last = loaded("cut/last.pt")
    assert last["scaler"]["scale"] == 2.0 ** 22 and equal(last["weights"], start)
    assert command("--resume", "cut") == 0 and run(*args) == 0
    assert_same_run("run", "cut")
    assert not equal(loaded("cut/best.pt")["weights"], start)


@pytest.mark.parametrize("model", ["bert", "drrnet", "ladranet"])
def test_a_score_starts_at_the_mean(model):
    """The bias of each output is the mean of the training scores, which are 0.5 and 1.5."""
    write_pairs(lambda rng, same: f"{same}.5", train=8, dev=8)
    biases = [layer.bias.item() for layer in beginning(*of(model))[2].outputs()]
    assert biases == pytest.approx([1.0] * (3 if model == "drrnet" else 1))


def test_each_gate_is_drawn_by_its_own_size():
    """Glorot's bound of a GRU's matrix is one gate's, not that of the three gates together."""
    network = beginning("--model", "ladranet", "--bert", "scratch")[2]
    gates = [p for name, p in network.named_parameters() if "gru" in name and p.dim() == 2]
    assert gates
    for p in gates:
        (rows, columns), top = p.shape, p.abs().max()
        assert (6 / (rows + columns)) ** 0.5 < top <= (6 / (rows / 3 + columns)) ** 0.5


def test_classes_count_alike_with_weights():
    """The loss of the first step, by hand, with three classes."""
    write_pairs(lambda rng, same: "aabbbccc"[rng.randrange(8)], train=24, dev=9)
    _, data, network, _ = beginning("--dropout", "0")
    labels = [pair.label for pair in data["train"].pairs]
    places = batches.training_batches(data["train"].lengths, 8, "0 0")[0]
    inputs, chosen = data["train"].collate(places)
    each = F.cross_entropy(network.train()(**inputs), chosen, reduction="none")
    weights = [8 / labels.count(k) for k in chosen.tolist()]
    by_hand = (each @ torch.tensor(weights)).item() / len(places)
    assert run("--dropout", "0", "--epochs", "1", "--class-weights", "balanced") == 0
    assert losses()[0] == pytest.approx(by_hand, rel=1e-5) and len({*weights}) == 3


def test_the_metric_chooses_the_epoch_and_the_loss_ends_the_run(monkeypatch):
    """The first of equally good epochs is the best. Patience counts steps since the lowest loss,
    three an epoch, at the end of an epoch alone: a resumed epoch is finished."""
    scores, seen = iter([(0.5, 0.8), (0.7, 0.5), (0.6, 0.6), (0.7, 0.5), (0.1, 0.0)]), []

    def score(self, examples):
        assert len(examples.pairs) == 10  # dev's
        seen.append({name: value.clone() for name, value in self.model.state_dict().items()})
        accuracy, loss = next(scores)
        return {"accuracy": accuracy, "f1": -float(len(seen))}, loss, {}

    monkeypatch.setattr(Run, "score", score)
    assert run("--epochs", "9", "--patience", "6") == 0
    assert (result()["best_epoch"], result()["selection_split"], len(seen)) == (2, "dev", 5)
    assert equal(loaded("run/best.pt")["weights"], seen[1]) and equal(seen[4], seen[1])
    assert not equal(seen[3], seen[1]) and result()["metrics"]["dev"]["accuracy"] == 0.1
    cut = train.Progress(step=14, epoch=4, lowest_step=6)  # at step 12 the lowest is six steps ago
    assert cut.finished(9, 6, 3) and not cut.finished(9, 7, 3)


@pytest.mark.parametrize("model", ["dafa", "drrnet"])
def test_selection_never_sees_the_test_split(model, monkeypatch):
    """Other dev splits, such as MNLI's, are scored and do not choose. Test, None, is not read."""
    pairs = read_pairs("train.tsv", ("0", "1"))
    task = Task("mnli", ("0", "1"), ("accuracy",), "dev_matched")
    splits = {"train": pairs, "dev_mismatched": pairs[8:12], "dev_matched": pairs[:8],
              "test_matched": [None] * 3, "test": [None]}
    monkeypatch.setattr("support.datasets.load_task", lambda *args: (task, splits))
    assert command(*OWN[4:], "--task", "mnli", *of(model), "--epochs", "1", "--out", "run") == 0
    assert result()["metrics"].keys() == {"dev_matched", "dev_mismatched"}
    assert {e["split"] for e in events() if "split" in e} == {"dev_matched"}


@pytest.mark.parametrize("place, value", [((train, "loss_sum"), math.nan), (CLIP, math.inf)])
def test_a_loss_or_gradient_that_is_not_finite_ends_the_run(place, value, monkeypatch):
    """Otherwise all weights become NaN, in last.pt too."""
    bad = torch.tensor(value, requires_grad=math.isnan(value))
    at_call(monkeypatch, *place, 5, lambda: monkeypatch.setattr(*place, lambda *args: bad))
    refused(f"{value} step 6 --lr", by=run)
    assert loaded("run/last.pt")["progress"]["step"] == 3


def test_the_printed_recipe_in_the_loop(monkeypatch):
    """Eq. (9) sets the decay of each step."""
    real, made = train.make_optimizer, []
    monkeypatch.setattr(train, "make_optimizer", lambda run: made.append(real(run)) or made[-1])
    monkeypatch.setattr(train, "l2_ratio", lambda step: 0.01 * step)
    assert run(*of("knowledge"), "--recipe", "printed", "--lr", "0.5", "--epochs", "1") == 0
    optimizer, = made
    assert type(optimizer) is torch.optim.Adadelta
    assert (optimizer.defaults["rho"], optimizer.defaults["eps"]) == (0.95, 1e-8)
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.02}  # of step 2
    assert [e["lr"] for e in events() if "loss" in e] == [0.5] * 3


def test_vectors_of_a_file(monkeypatch, capsys):
    """A fixed table, with words of dev alone too; a resumed run does not need the file."""
    vectors = {"seattle": [0.5, -1.0, 0.25], "dog": [1.0, 2.0, 3.0], "unseen": [0.0, 0.0, 1.0],
               "zebra": [4.0, 0.0, 0.5]}
    with open("dev.tsv", "a") as file:
        file.write("zebra\tzebra\t1\n")
    lines = ["the 1 2", *(f"{word} {' '.join(map(str, row))}" for word, row in vectors.items())]
    Path("glove.txt").write_text("\n".join(lines) + "\n")
    run_cut(monkeypatch, [*of("drrnet"), "--glove", "glove.txt"])
    assert f"3 of {len(WORDS) + 1} words" in capsys.readouterr().out
    Path("glove.txt").unlink()
    assert command("--resume", "cut") == 0
    table, opened = loaded("cut/best.pt")["weights"]["words.weight"], train.open_run("cut")
    found = table[opened.reader.tokenizer.ids(["Seattle", "zebra"])].tolist()
    assert found == [vectors["seattle"], vectors["zebra"]]


# ---- A method of your own -----------------------------------------------------------------------

def test_a_method_of_your_own(monkeypatch):
    """The methods of docs/own_method.md train; the first one resumes, predicts, explains."""
    first, *more = re.findall("^```python\n(.*?)^```", (ROOT / "docs/own_method.md").read_text(
        "utf-8"), re.M | re.S)
    assert first == (ROOT / "tutorials/mine.py").read_text("utf-8")
    for text in more:
        Path("other.py").write_text(text)
        name = re.findall(r"^class (\w+)", text, re.M)[-1]
        assert run("--model", f"other.py:{name}", "--epochs", "1", out=name) == 0
        opened = train.open_run(name, model=f"other.py:{name}")
        assert opened.explain("the dog", "")
        assert opened.evaluate(read_pairs("dev.tsv", ("0", "1"))) == result(name)["metrics"]["dev"]
        assert "no method" in result(name)["influence"]["changes"]
    texts = [{*text.split()} for pair in read_pairs("train.tsv") for text in (pair.a, pair.b)]
    idf, _ = train.open_run("RareDafa", model="other.py:RareDafa").reader.prior.state()
    assert idf["the"] == math.log(44 / sum("the" in words for words in texts)), "fit is called"
    Path("mine.py").write_text(first)
    args = ["--model", "mine.py:Beginnings", "--set", "START=2.5", "--layers", "all"]
    run_cut(monkeypatch, args)
    assert command("--resume", "cut", *args[:2]) == 0
    assert len(result("cut")["influence"]["changes"]) == 2, "its prior is measured too"
    assert command("--from", "cut", *args[:2], "--predict", "test.tsv") == 0
    opened = train.open_run("cut", model="mine.py:Beginnings")
    strength = opened.model.bert.layers[0].attention.strength.item()
    assert strength == pytest.approx(2.5, abs=0.1) and strength != 2.5, "it was learned"
    prediction, trace = opened.explain("the dog", "the cat")
    assert prediction.answer == opened.predict([("the dog", "the cat")])[0].answer
    assert trace.keys() == {"attention", "calibrated"}


def test_settings_alone_run_no_code():
    """The file is loaded once, where it is needed: by the recipe."""
    Path("mine.py").write_text("""
from bert_min import SelfAttention as Mine
with open("ran", "a") as file:
    file.write("once")
def parse(texts): return []
""")
    settings = Settings(model="mine.py:Mine", parser="mine.py:parse", layers="all")
    assert not Path("ran").exists()
    for _ in range(2):
        with pytest.raises(ValueError, match="--layers"):  # plain attention is in no layers
            decide(settings)
        assert own_parser(settings.parser)([]) == []
    assert Path("ran").read_text() == "once"


ATTEND = "def attend(self, hidden, *others): return "


@pytest.mark.parametrize("base, body, words", [
    ("SelfAttention", ATTEND + "hidden[:, :1]", "Mine.attend 1, 32)"),
    ("SelfAttention", "ABLATIONS = ['gate']; " + ATTEND + "None", "Mine.attend NoneType"),
    ("SelfAttention", "def atend(self, hidden): return hidden", "attend"),
    ("SelfAttention", ATTEND + "hidden; prior = lambda *given: 3", "spread"),
    ("DafaAttention", "prior = staticmethod(lambda a, b: len(a) == len(b))", "words_prior bool"),
    ("DafaAttention", "from priors import words_prior; prior = words_prior(lambda a, b: [a, b])",
     "of Mine: array"),
    ("DrrNet", "def forward(self, mask, **others): return mask[:, :1] * 1.0", "model 2)")])
def test_mistakes_of_an_own_class(base, body, words):
    """Without errors wrong shapes are broadcast, and misspelled names ignored."""
    home = {"SelfAttention": "bert_min", "DrrNet": "reread"}.get(base, "semmatch")
    lines = [f"from {home} import {base}", f"class Mine({base}):", *body.split("; ")]
    Path("mine.py").write_text("\n    ".join(lines).replace("    class", "class") + "\n")
    refused(words, *of("drrnet" if base == "DrrNet" else "bert"), "--model", "mine.py:Mine", by=run)


@pytest.mark.parametrize("body", [
    "def state(self): return numpy.float64(3)", "def state(self): return lambda: 3",
    "def load(self, state): self.count, = state"])
def test_what_could_not_be_read_again_is_found_before_the_first_step(body):
    Path("mine.py").write_text(f"""
import numpy
from priors import DependencyPrior
from semmatch import DafaAttention
class Counts(DependencyPrior):
    {body}
class Mine(DafaAttention):
    @classmethod
    def prior(cls, *given): return Counts(*given)
""")
    refused("mine.py:Mine state()", "--bert", "scratch", "--model", "mine.py:Mine", by=run)
    assert not Path("run").exists()


# ---- Cut off and resumed ------------------------------------------------------------------------

PLACES = {  # name -> (function that is interrupted, at which call, seconds between checkpoints)
    "before the first checkpoint": (*CLIP, 2, 300),
    "between the log and the checkpoint": (torch, "save", 4, -1),
    "back to the first epoch": (*CLIP, 6, 300), "in the second epoch": (*CLIP, 5, -1),
    "in evaluation": (Run, "score", 2, 300),
    "after training": (train, "finish_training", 1, 300),
    "in the picture": (train.summary, "draw_run", 1, 300)}


@pytest.mark.parametrize("model, places", [
    ("bert", PLACES), *((name, ["in the second epoch"]) for name in MODELS[2:5])],
    ids=["bert", *MODELS[2:5]])
def test_a_resumed_run_equals_one_that_was_not_interrupted(model, places, monkeypatch):
    args = [*of(model), "--dropout", "0.1"]
    if model == "knowledge":
        args += ["--recipe", "printed", "--lr", "0.5"]
    assert run(*args, out="whole") == 0
    for place in places:
        *where, seconds = PLACES[place]
        run_cut(monkeypatch, args, where, seconds)
        with monkeypatch.context() as patch:
            steps = at_call(patch, *CLIP, 0)
            assert command("--resume", "cut") == 0, place
        assert_same_run("whole", "cut")
        assert bool(steps) != (place in [*PLACES][-3:])  # nothing is lost
        Path("cut").rename(place)

