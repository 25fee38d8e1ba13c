"""train.py: the command line, a user's mistakes, batches, the loop against plain code, resuming, using a run."""
import ast
import csv
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.error
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import bert_min  # noqa: E402
import priors  # noqa: E402
import tasks  # noqa: E402
import train  # noqa: E402

TINY = str(ROOT / "tests" / "fixtures" / "tiny_bert_hf")      # 2 layers, 32 columns, 97 pieces, 48 positions
ROBERTA = ROOT / "tests" / "fixtures" / "tiny_roberta_hf"     # 2 layers, 36 columns, 400 pieces, 64 positions, one segment
WORDS = "the dog cat new york to from is not good bad seattle book flight apple company of and in on".split()
OWN = ["--train-file", "train.tsv", "--dev-file", "dev.tsv", "--bert", TINY, "--max-length", "48", "--device", "cpu",
       "--batch-size", "8", "--epochs", "2", "--lr", "1e-3", "--model", "bert"]      # 22 pairs: 3 steps an epoch


RELATED = {"synonym": [("dog", "cat")], "antonym": [("good", "bad")], "hypernym": [("seattle", "new")],
           "cohyponym": [("book", "flight")]}
SHIPPED = priors.load_parser
DRRNET, LADRANET = ["--model", "drrnet", "--bert", "none"], ["--model", "ladranet"]
QUICK = ["--limit", "4", "--epochs", "1", "--beside", "none"]               # where a mistake would go unnoticed
SIZES = {"WORD": 23, "CHARACTER": 7, "HIDDEN": 11, "ATTENTION": 5}          # of a DRr-Net that costs nothing


class ChainParser:
    """Every word hangs from the one before it."""
    fingerprint = "chain"

    @staticmethod
    def parse(sentences):
        return [(["X"] * len(s), list(range(len(s))), ["root", *["dep"] * (len(s) - 1)]) for s in sentences]


def write_pairs(path, count, label, seed=0):
    """A .tsv of random sentences of 1 to 12 words, many of them alike. label: of (rng, whether b repeats a)."""
    rng, lines = random.Random(f"{path} {seed}"), ["sentence1\tsentence2\tlabel"]
    for i in range(count):
        a, same = rng.choices(WORDS, k=rng.randint(1, 12)), i % 2
        b = a if same else rng.choices(WORDS, k=rng.randint(1, 12))
        lines.append("\t".join([" ".join(a), " ".join(b), str(label(rng, same))]))
    Path(path).write_text("\n".join(lines) + "\n", "utf-8")


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """An empty folder with train, dev and test pairs; one thread; parser, lexicon, DRr-Net of no cost; no torchrun."""
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(priors, "load_parser", ChainParser)
    monkeypatch.setattr(priors, "WordNet", lambda: priors.Table(RELATED))
    monkeypatch.setattr(priors, "load_wordnet", lambda: None)
    for name, size in SIZES.items():
        monkeypatch.setattr(train.DrrNet, name, size)
    for name, count in (("train", 22), ("dev", 10), ("test", 9)):
        write_pairs(f"{name}.tsv", count, lambda rng, same: same)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(*args, out="run"):
    """Exit status of a run on the own files; a later option overrides an earlier one."""
    return train.main([*OWN, "--out", out, *map(str, args)])


def settings_of(*args):
    return train.Settings(**train.command_line().parse([*OWN, *args])).complete()


def loaded(path):
    return torch.load(path, weights_only=True)


def result(out="run", name="result.json"):
    return json.loads((Path(out) / name).read_text("utf-8"))


def events(out="run"):
    return [json.loads(line) for line in (Path(out) / "log.jsonl").read_text("utf-8").splitlines()]


def losses(out="run"):
    return [event["loss"] for event in events(out) if "loss" in event]


def the_line(capsys):
    """The one line that a user sees on stderr."""
    error = capsys.readouterr().err
    assert error.startswith("train.py: ") and error.count("\n") == 1 and error.endswith("\n"), error
    return error


def equal(x, y):
    """Whether two trees of dicts, lists and tensors are equal bit for bit."""
    if isinstance(x, torch.Tensor):
        return x.dtype == y.dtype and torch.equal(x, y)
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(equal(x[name], y[name]) for name in x)
    return len(x) == len(y) and all(map(equal, x, y)) if isinstance(x, (list, tuple)) else x == y


def assert_same_run(one, other):
    """All that two runs have written is the same, but for seconds and names of folders."""
    assert (Path(one) / "log.jsonl").read_text() == (Path(other) / "log.jsonl").read_text()
    assert equal(loaded(f"{one}/best.pt"), loaded(f"{other}/best.pt"))
    last = [loaded(f"{out}/last.pt") for out in (one, other)]
    for state in last:
        del state["run"]["seconds"]
    assert equal(*last)
    for name in ("metrics", "best_epoch", "seed", "pairs", "parameters", "new_parameters"):
        assert result(one)[name] == result(other)[name], name


def assert_like_weights(one, other, atol=3e-5):
    """Keys' biases are left out: no output depends on them, their gradient is rounding, and Adam enlarges it."""
    assert one.keys() == other.keys()
    for name in one:
        if not name.endswith("key.bias"):
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=atol, err_msg=name)


def at_call(monkeypatch, owner, name, number, action):
    """Lets the call with this number of owner.name do `action` first."""
    real, calls = getattr(owner, name), []

    def wrapper(*args, **kwargs):
        calls.append(args)
        if len(calls) == number:
            action()
        return real(*args, **kwargs)
    monkeypatch.setattr(owner, name, wrapper)
    return calls


def interrupt():
    raise KeyboardInterrupt


# ---- Command line ---------------------------------------------------------------------------------------------------

def test_every_setting_is_an_option(capsys):
    options = train.command_line()._option_string_actions
    for f in fields(train.Settings):
        assert options["--" + f.name.replace("_", "-")].help and f.metadata["help"], f.name
    with pytest.raises(SystemExit) as end:
        train.main(["--help"])
    assert end.value.code == 0 and "--checkpoint-minutes" in capsys.readouterr().out
    given = train.command_line().parse(["--epochs", "4", "--lr", "3e-5", "--compile", "--train-fraction=0.5"])
    assert given == {"epochs": 4, "lr": 3e-5, "compile": True, "train_fraction": 0.5}


def test_what_model_and_task_decide():
    toy, mrpc = train.Settings().complete(), train.Settings(task="mrpc", lr=1e-5, device="cpu").complete()
    assert (toy.model, toy.bert, toy.beside) == ("dafa", "scratch", "bert")
    assert (mrpc.bert, mrpc.beside, mrpc.lr, mrpc.lr_new, mrpc.precision) == ("base", "none", 1e-5, 1e-5, "fp32")
    free = {"train_file", "dev_file", "test_file", "glove", "parses", "out", "limit", "dropout"}
    assert {name for name, value in vars(mrpc).items() if value is None} == free
    assert mrpc.complete() == mrpc


def test_recipes():
    """Each model trains as its paper does, an untrained encoder in another way; what is given counts."""
    def of(model, **given):
        return train.Settings(task="mrpc", model=model, device="cpu", **given).complete()
    for model in ("drrnet", "ladranet"):
        s = of(model)
        assert (s.optimizer, s.lr_new, s.schedule, s.warmup, s.patience) == ("adam", 1e-3, "cosine", 0.05, 1000), model
    assert of("drrnet").lr == 1e-4 and of("drrnet").bert == "none"
    toy = train.Settings(model="drrnet", device="cpu").complete()
    assert (toy.task, toy.lr, toy.epochs, toy.batch_size, toy.optimizer) == ("toy", 1e-3, 8, 64, "adam")
    for model in ("bert", "dabert", "dafa", "knowledge", "ladranet"):
        s = of(model)
        assert 8e-6 <= s.lr <= 3e-5 and 3 <= s.epochs <= 5 and s.batch_size in (16, 32, 64) and 7.5 <= s.clip <= 15, model
        scratch = of(model, bert="scratch")
        assert (scratch.lr, scratch.lr_new, scratch.dropout, scratch.patience) == (1e-3, 1e-3, 0.0, 0), model
        if model != "ladranet":
            assert (s.optimizer, s.lr_new, s.schedule, s.warmup, s.patience) == ("adamw", s.lr, "linear", 0.1, 0), model
    assert (of("dabert").epochs, of("dabert").weight_decay, of("dafa").weight_decay) == (5, 0.01, 1e-8)
    given = of("ladranet", lr=5e-5, optimizer="adamw", schedule="flat", patience=7)
    assert (given.lr, given.lr_new, given.optimizer, given.schedule, given.patience) == (5e-5, 1e-3, "adamw", "flat", 7)
    assert of("ladranet", lr_new=3e-4).lr_new == 3e-4 and of("dafa", lr_new=3e-4).lr_new == 3e-4


@pytest.mark.parametrize("args, words", [
    (["--epoch", "3"], ["--epoch", "did you mean --epochs?"]),
    (["--frm=x"], ["--frm", "did you mean --from?"]),
    (["--zzzzzz"], ["--zzzzzz", "--help"]),
    (["--epochs", "three"], ["--epochs", "three"]),
    (["--task", "mprc"], ["--task mprc", "did you mean mrpc?"]),
    (["--model", "dafra"], ["--model", "dafra", "dafa", "bert"]),
    (["--precision", "fp16"], ["--precision", "fp32", "bf16"]),
    (["--printed", "5"], ["--printed 5", "dafa knows 4, 6, 7, 9"]),
    (["--printed", "six"], ["--printed six", "4, 6, 7, 9"]),
    (["--without", "trees"], ["--without trees", "cross-attention", "gates", "tree"]),
    (["--model", "bert", "--printed", "6"], ["--model bert", "no equations"]),
    (["--model", "bert", "--without", "gates"], ["--model bert", "no parts"]),
    (["--model", "bert", "--beside", "bert", *QUICK[:4]], ["--beside", "bert"]),
    (["--model", "drrnet", "--printed", "7"], ["--printed 7", "drrnet knows 6"]),
    (["--model", "ladranet", "--printed", "6"], ["--printed 6", "ladranet knows 12, 13, 14"]),
    (["--model", "drrnet", "--without", "dsa"], ["--without dsa", "global", "guide-vector", "initial-vector", "reread"]),
    (["--model", "ladranet", "--without", "gates"], ["--without gates", "average-pooling", "bert", "dsa", "phrase-cnn"]),
    (["--model", "drrnet", "--bert", "base", *QUICK], ["--bert", "drrnet", "words"]),
    *[(["--model", model, "--glove", "glove.txt", *QUICK], ["--glove", "drrnet", model])
      for model in ("bert", "dabert", "dafa", "knowledge", "ladranet")],
    *[(["--model", model, *args, *QUICK], ["--scope", "--layers", model])
      for model in ("bert", "drrnet", "ladranet") for args in (["--scope", "head"], ["--layers", "0"])],
    (["--optimizer", "sgd"], ["--optimizer", "sgd", "adamw", "adam", "adadelta"]),
    (["--schedule", "step"], ["--schedule", "step", "linear", "cosine", "flat"]),
    (["--model", "dafa", "--recipe", "printed", *QUICK], ["--recipe printed", "knowledge", "dafa"]),
    (["--train-file", "train.tsv"], ["--train-file and --dev-file"]),
    (["--task", "mrpc", "--train-file", "train.tsv", "--dev-file", "dev.tsv"], ["--task mrpc", "--train-file"]),
    (["--task", "own"], ["--task own", "--train-file"]),
    (["--test-file", "test.tsv"], ["--test-file", "--train-file"]),
    (["--resume"], ["--resume", "--out"]),
    (["--resume", "--out", "nowhere"], ["--resume --out nowhere", "no run is there"]),
    (["--from", "nowhere", "--test"], ["--from nowhere", "no run is there"]),
    (["--recipe", "printed", "--model", "knowledge", "--weight-decay", "0.1"], ["--recipe printed", "--weight-decay"]),
    (["--vary", "modle", "bert", "dafa"], ["--vary modle", "did you mean model?"]),
    (["--vary", "compile", "true", "false"], ["--vary compile", "takes a value"]),
    (["--from", "nowhere"], ["--from nowhere", "no run is there"]),
    (["--predict", "test.tsv"], ["--predict", "--from"]),
    (["--from", "nowhere", "--test", "--lr", "1e-5"], ["--lr", "training"]),
    (["--show-reading", *QUICK], ["--show-reading", "--predict"]),
    (["--from", "nowhere", "--test", "--show-reading"], ["--show-reading", "--predict"]),
    (["--model", "drrnet", "--sizes", "STEPS=two"], ["--sizes STEPS=two", "STEPS=6"]),
    (["--model", "drrnet", "--sizes", "STEPS"], ["--sizes STEPS=", "STEPS=6"]),
    (["--model", "drrnet", "--sizes", "LAYERS=0"], ["--sizes LAYERS=0", "LAYERS=3"]),
    (["--model", "drrnet", "--sizes", "TAGS=3"], ["--sizes TAGS=3", "LAYERS=3"]),
    (["--model", "ladranet", "--sizes", "LAYERS=2"], ["--sizes LAYERS=2", "ladranet has", "STEPS=5"]),
    (["--model", "ladranet", "--sizes", "KERNELS=2,3"], ["--sizes 3=", "STEPS=5"]),
    (["--model", "ladranet", "--sizes", "KERNELS=2+b"], ["--sizes KERNELS=2+b", "KERNELS=2+3"]),
    (["--model", "dafa", "--sizes", "STEPS=3"], ["--sizes", "drrnet", "ladranet", "dafa"]),
    (["--vary", "withot", "tree", "gates"], ["--vary withot", "without", "layers"]),
    ([*QUICK[:4], "--model", "drrnet", "--vary", "sizes", "STEPS=1", "STEPS=0"], ["--sizes STEPS=0", "LAYERS=3"]),
    (["--vary", "seed", "1", "2"], ["--vary seed", "model"]),
    (["--vary", "without", "tree"], ["--vary without tree", "two values"]),
    (["--vary", "without", "tree", "tree"], ["--vary without tree tree", "once"]),
    (["--vary", "without", "tree", "gates", "--without", "fusion"], ["--vary without", "twice"]),
    (["--vary", "layers", "all", "first", "--vary", "layers", "0", "1"], ["--vary layers", "twice"]),
    (["--vary", "without", "none", "trees"], ["--without trees", "tree"]),
    (["--vary", "epochs", "1", "two"], ["--epochs", "two"]),
    (["--vary", "model", "bert", "dafa", "--vary", "without", "none", "tree"], ["--model bert", "no parts"]),
    (["--vary", "task", "mrpc", "rte", "--vary", "model", "bert", "dafa"], ["--vary task", "last"]),
    (["--vary", "model", "bert", "dafa", "--beside", "bert"], ["--vary", "--beside"]),
    *[(["--" + name, value], [f"--{name} {value}"]) for name, value in [
        ("train-fraction", "0.0"), ("train-fraction", "1.5"), ("train-fraction", "nan"), ("warmup", "1.0"),
        ("warmup", "-0.1"), ("dropout", "1.0"), ("epochs", "0"), ("batch-size", "0"), ("accumulate", "-2"),
        ("seeds", "0"), ("limit", "0"), ("max-length", "0"), ("lr", "0.0"), ("lr", "nan"), ("lr", "inf"),
        ("lr-new", "-1.0"), ("seed", "-1"), ("seed", str(2 ** 63)), ("weight-decay", "inf"), ("clip", "0.0"),
        ("patience", "-1"), ("workers", "-1"), ("weight-decay", "-0.1"),
        ("checkpoint-minutes", "-1.0")]]], ids=" ".join)
def test_a_wrong_option_gives_one_line(args, words, capsys):
    assert train.main(args) == 2
    line = the_line(capsys)
    assert all(word in line for word in words), line
    assert not list(Path("runs").rglob("log.jsonl"))


@pytest.mark.parametrize("args, words", [
    (["--model", "dafa", "--layers", "7"], ["--layers 7", "0 to 1"]),
    (["--model", "dafa", "--layers", "last"], ["--layers last", "first, all"]),
    ([*DRRNET, "--without", "global, reread"], ["--without global, reread", "drrnet"]),
    ([*LADRANET, "--without", "dsa,global"], ["--without dsa, global", "ladranet"]),
    ([*DRRNET, "--glove", "none.txt"], ["--glove none.txt", "No such file"]),
    ([*DRRNET, "--glove", "latin1.tsv"], ["--glove latin1.tsv", "none of the", "GloVe"]),
    (["--max-length", "64"], ["--max-length 64", "48"]),
    (["--max-length", "2"], ["--max-length", "3"]),
    (["--bert", "bsae"], ["--bert bsae", "base"]),
    (["--bert", "."], ["config.json"]),
    (["--bert", "hollow"], ["hollow", "model.safetensors"]),
    (["--train-file", "none.tsv"], ["none.tsv"]),
    (["--train-file", "empty.tsv"], ["empty.tsv", "empty"]),
    (["--train-file", "header.tsv"], ["header.tsv", "no pairs"]),
    (["--train-file", "columns.tsv"], ["columns.tsv:1", "sentence2", "text_b"]),
    (["--train-file", "latin1.tsv"], ["latin1.tsv:3", "UTF-8", "Latin-1"]),
    (["--dev-file", "range.tsv"], ["range.tsv:2", "'2'", "0, 1"]),
    (["--train-file", "unlabelled.tsv"], ["unlabelled.tsv:3", "label is empty"]),
    (["--dev-file", "train.json"], ["train.json", ".tsv"]),
    (["--model", "dafa", "--parses", "some.conllu"], ["some.conllu", "no parse of"]),
    (["--test"], ["--test", "no labelled test split"])], ids=" ".join)
def test_wrong_data_give_one_line_and_take_no_folder(args, words, capsys):
    header = "sentence1\tsentence2\tlabel\n"
    for name, text in {"empty": "", "header": header, "columns": "sentence1\ttext_b\tlabel\na\tb\t1\n",
                       "range": header + "a\tb\t2\n", "unlabelled": header + "a\tb\t1\na\tb\t\n"}.items():
        Path(f"{name}.tsv").write_text(text, "utf-8")
    Path("latin1.tsv").write_bytes(header.encode() + b"a\tb\t1\ncaf\xe9\tb\t0\n")
    Path("some.conllu").write_text("# text = hi\n1\thi\t_\tX\t_\t_\t0\troot\t_\t_\n\n", "utf-8")
    Path("hollow").mkdir()
    for name in ("config.json", "vocab.txt"):
        (Path("hollow") / name).write_bytes((Path(TINY) / name).read_bytes())
    assert run(*args) == 2
    line = the_line(capsys)
    assert all(word in line for word in words), line
    assert not Path("run/config.json").exists(), "the corrected command must be able to use the same --out"
    if args == ["--bert", "hollow"]:
        assert run() == 0


def test_a_mistake_costs_nothing_in_a_folder_that_was_there(capsys):
    Path("mine/deep").mkdir(parents=True)
    for name in ("mine/thesis.txt", "mine/deep/thesis.txt"):
        Path(name).write_text("years of work")
    assert run("--model", "dafa", "--layers", "7", out="mine") == 2
    assert Path("mine/thesis.txt").exists() and Path("mine/deep/thesis.txt").exists()
    assert run("--epochs", "1", out="mine") == 0 and Path("mine/deep/thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("args", [["--task", "mrpc"], [*OWN, "--bert", "tiny"]], ids=["data", "weights"])
def test_no_network(args, capsys, monkeypatch):
    def unreachable(*args, **kwargs):
        raise urllib.error.URLError("Name or service not known")
    monkeypatch.setattr(bert_min.urllib.request, "urlopen", unreachable)
    assert train.main([*args, "--out", "run"]) == 2
    line = the_line(capsys)
    assert "https://" in line and "Name or service not known" in line and "by hand" in line
    assert not [path for path in Path("data").rglob("*") if path.is_file()]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(capsys):
    for device in ("cuda", "gpu"):
        assert run("--device", device) == 2
        assert f"--device {device}" in the_line(capsys)


def test_a_folder_that_holds_a_run(capsys):
    assert run() == 0
    before = (Path("run") / "best.pt").read_bytes()
    capsys.readouterr()
    assert run() == 2
    line = the_line(capsys)
    assert "--out run" in line and "--resume" in line
    assert run("--resume", "--lr", "2e-3") == 2
    line = the_line(capsys)
    assert "--lr 0.002" in line and "0.001" in line
    assert train.main(["--from", "run", "--lr-new", "1"]) == 2
    assert "--lr-new" in the_line(capsys)
    assert train.main(["--from", "run", "--predict", "none.tsv"]) == 2
    assert "none.tsv" in the_line(capsys)
    assert (Path("run") / "best.pt").read_bytes() == before
    (Path("run") / "best.pt").write_bytes(before[:1000])
    assert train.main(["--from", "run", "--predict", "test.tsv"]) == 2
    assert "best.pt" in the_line(capsys)


def test_default_folders_are_numbered():
    for name in ("own-bert", "own-bert-2"):
        assert train.main([*OWN, "--epochs", "1"]) == 0
        assert (Path("runs") / name / "result.json").exists()


@pytest.mark.parametrize("args", [["--model", "bert"], ["--model", "dafa"], DRRNET, LADRANET], ids=" ".join)
def test_odd_sentences_train_and_predict(args, monkeypatch):
    monkeypatch.setattr(priors, "load_parser", SHIPPED)
    many = " ".join(random.Random(0).choices(WORDS, k=10_000))
    rows = [("", many, 0), (many, many, 1), ("", "", 1), ("\U0001f600 \u200d", "?!", 0), ("[SEP]", "x" * 3000, 0)]
    text = "sentence1\tsentence2\tlabel\n" + "".join(f"{a}\t{b}\t{label}\n" for a, b, label in rows)
    Path("odd.tsv").write_text(text, "utf-8")
    args = ["--train-file", "odd.tsv", "--dev-file", "odd.tsv", "--epochs", "1", *args]
    assert run(*args) == 0 and all(map(math.isfinite, losses()))
    assert train.main(["--from", "run", "--predict", "odd.tsv"]) == 0
    assert len(Path("run/predictions-odd.tsv").read_text("utf-8").splitlines()) == 1 + len(rows)


# ---- Batches --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("count, size, block", [(1, 8, 1), (1000, 7, 1), (1000, 8, 4), (998, 8, 4), (1000, 6, 4),
                                                (1000, 3, 4), (1000, 30, 4), (103, 200, 4)])
def test_batches_hold_every_place_once(count, size, block):
    lengths = [random.Random(i).randint(3, 90) for i in range(count)]
    batches = train.training_batches(lengths, size, "0 0", block)
    assert sorted(i for batch in batches for i in batch) == list(range(count))
    assert sorted(map(len, batches))[1:] == [size] * (math.ceil(count / size) - 1)      # one may be smaller
    assert batches == train.training_batches(lengths, size, "0 0", block)
    if count > size:
        assert batches != train.training_batches(lengths, size, "0 1", block)
        assert batches != train.training_batches(lengths, size, "1 0", block)
    if size % block == 0:
        for batch in batches:
            for first in {i // block * block for i in batch}:
                whole = list(range(first, min(first + block, count)))
                assert [i for i in batch if i in whole] == whole


def test_batches_have_like_lengths():
    lengths = [random.Random(i).randint(3, 90) for i in range(2000)]

    def padded(batches):
        return sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    order = random.Random(0).sample(range(2000), 2000)
    assert padded(train.training_batches(lengths, 16, "0 0")) - sum(lengths) < 0.2 * (
        padded([order[i:i + 16] for i in range(0, 2000, 16)]) - sum(lengths))


def examples(*args, pairs=None):
    """Examples of pairs, by default of the training file, as training makes them."""
    settings = settings_of(*args)
    task, splits = train.load_pairs(settings)
    texts = [text for pair in splits["train"] for text in (pair.a, pair.b)]
    tokenizer = train.build(settings, task, texts=texts)[1]
    return train.prepare(settings, task, tokenizer, {"train": pairs or splits["train"]})[0]["train"]


def test_collate_pads_each_row_by_itself():
    data = examples("--model", "dafa")
    places, (parses, tfidf, _) = [3, 0, 7], data.prior.args
    batch, labels = data.collate(places)
    length = max(data.lengths[i] for i in places)
    assert len({data.lengths[i] for i in places}) > 1
    assert all(batch[name].shape == (3, length) for name in ("input_ids", "segment", "word_index", "mask"))
    assert labels.tolist() == [data.pairs[i].label for i in places] and batch["mask"].dtype == torch.bool
    assert batch["prior"].shape == (3, max(len(parses[data.pairs[i].a].heads) for i in places),
                                    max(len(parses[data.pairs[i].b].heads) for i in places))
    for row, i in enumerate(places):
        alone, _ = data.collate([i])
        ids, segment, words = data.encoded[i].tolist()
        n, m = alone["prior"].shape[1:]
        assert batch["input_ids"][row].tolist() == ids + [data.pad_id] * (length - len(ids))
        assert batch["segment"][row, :len(ids)].tolist() == segment
        assert batch["word_index"][row].tolist() == words + [-1] * (length - len(ids))
        assert batch["mask"][row].tolist() == [True] * len(ids) + [False] * (length - len(ids))
        assert torch.equal(batch["prior"][row, :n, :m], alone["prior"][0])
        assert batch["prior"][row, n:].count_nonzero() == batch["prior"][row, :, m:].count_nonzero() == 0
        pair = data.pairs[i]
        a, b = parses[pair.a], parses[pair.b]
        matrix = priors.dependency_matrix(a, b, tfidf.weights(a.words), tfidf.weights(b.words))
        assert np.array_equal(alone["prior"][0].numpy(), matrix)
    assert "prior" not in examples().collate(places)[0]
    assert examples(pairs=[tasks.Pair("a", "b")]).collate([0])[1] is None


class TagParser(ChainParser):
    """Tags are those of UD, but for one."""
    fingerprint = "tags"
    OF = {"dog": "NOUN", "is": "AUX", "good": "ADJ", "york": "PROPN", "flight": "made-up"}

    @classmethod
    def parse(cls, sentences):
        return [([cls.OF.get(word.casefold(), "ADJ") for word in s], *rest)
                for s, (_, *rest) in zip(sentences, super().parse(sentences))]


def word_features(text, other, limit, seen):
    """The loop: (number, characters, tag, match, antonym) of the first `limit` words. seen: the training sentences."""
    count = [word.casefold() for sentence in seen for word in sentence.split()]
    known = sorted({word for word in count if count.count(word) > 1})
    characters = sorted({c for sentence in seen for c in sentence if c != " "})
    tags = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
    if not text:
        return [(1, [0] * 16, tags.index("X"), False, False)]
    rows = []
    for word in text.split()[:limit]:
        spelled = [characters.index(c) + 2 if c in characters else 1 for c in word[:16]]
        tag = TagParser.OF.get(word.casefold(), "ADJ")
        rows.append((known.index(word.casefold()) + 2 if word.casefold() in known else 1,
                     spelled + [0] * (16 - len(spelled)), tags.index(tag if tag in tags else "X"),
                     any(word.casefold() == w.casefold() for w in other.split()),
                     any({word.casefold(), w.casefold()} == {"good", "bad"} for w in other.split())))
    return rows


ODD_PAIRS = [tasks.Pair(*texts, label) for texts, label in [
    (("The GOOD dog is in New York", "the bad cat is not the dog"), 1),
    (("a BAD zebra", "Good bad good apples are good"), 0),                  # antonyms the other way round
    (("good bad", "good flight"), 1), (("", "good"), 0), (("", ""), 1),
    (("STRASSE \U0001f600 x" + "y" * 30, "Straße"), 0), (("dog " * 8 + "dog", "cat"), 1), (("one", "two dog"), 0)]]


def test_words_are_collated_as_in_a_plain_loop(monkeypatch):
    monkeypatch.setattr(priors, "load_parser", TagParser)
    data = examples(*DRRNET, "--max-length", "6", pairs=ODD_PAIRS)
    seen = [text for pair in tasks.read_pairs("train.tsv") for text in (pair.a, pair.b)]
    names = "word_ids", "character_ids", "tags", "match", "antonym"
    places = [5, 0, 1, 2, 3, 6, 4]
    batch, labels = data.collate(places)
    assert labels.tolist() == [ODD_PAIRS[i].label for i in places] and batch.keys() == {*names, "mask"}
    assert [batch[name].dtype for name in names] == [torch.int64] * 3 + [torch.bool] * 2
    for row, i in enumerate(places):
        sides, (alone, _) = (ODD_PAIRS[i].a, ODD_PAIRS[i].b), data.collate([i])
        expected = [word_features(text, other, 6, seen) for text, other in zip(sides, sides[::-1])]
        assert data.lengths[i] == max(map(len, expected))
        for side, words in enumerate(expected):
            assert batch["mask"][side, row].tolist() == [k < len(words) for k in range(6)]
            for name, column in zip(names, zip(*words)):
                assert batch[name][side, row, :len(words)].tolist() == list(column), (ODD_PAIRS[i], side, name)
                assert batch[name][side, row, len(words):].count_nonzero() == 0, (ODD_PAIRS[i], side, name)
                assert torch.equal(batch[name][side, row, :data.lengths[i]], alone[name][side, 0])
    match = batch["match"].any(2)
    assert torch.equal(match[0], match[1]) and match.any() and not match.all() and batch["antonym"].any((1, 2)).all()
    assert examples(*DRRNET, pairs=[tasks.Pair("a", "b")]).collate([0])[1] is None


def test_neighbours_and_other_parts_change_no_logits():
    """A pair's row is the same beside a longer one; a and b are read alike."""
    data = examples(*DRRNET, pairs=ODD_PAIRS)
    torch.manual_seed(0)
    model = train.DrrNet(2 + len(data.vocabulary.words), 2 + len(data.vocabulary.characters), 2).eval()
    with torch.inference_mode():
        whole = model(**data.collate(range(len(ODD_PAIRS)))[0])
        for i in range(len(ODD_PAIRS)):
            torch.testing.assert_close(model(**data.collate([i])[0])[0], whole[i], rtol=1e-4, atol=1e-5)
    assert len({tuple(row) for row in whole.tolist()}) == len(ODD_PAIRS)


def test_word_weights_come_from_the_training_sentences():
    data = examples("--model", "dafa")
    seen = priors.TfIdf(text.split() for p in data.pairs for text in (p.a, p.b))
    for p in data.pairs:
        np.testing.assert_allclose(data.prior.args[1].weights(p.a.split()), seen.weights(p.a.split()))
    assert run("--model", "dafa", "--epochs", "1") == 0
    assert json.loads(Path("run/words.json").read_text())["sentences"] == seen.N == 44
    words = ["the", "unseen", "dog"]
    np.testing.assert_array_equal(train.load_run(Path("run"), {})[4].weights(words), seen.weights(words))


def test_printed_without_layers_and_scope_reach_their_places():
    def first_prior(*args):
        return examples("--model", "dafa", *args).collate([0, 3])[0]["prior"]
    plain = first_prior()
    assert torch.equal(plain, first_prior("--printed", "6,7,9", "--without", "gates"))
    for args in (["--printed", "4"], ["--without", "tree"], ["--without", "subgraph"], ["--without", "tfidf"]):
        assert not torch.equal(plain, first_prior(*args)), args

    def made(*args):
        settings = settings_of("--model", "dafa", *args)
        return train.build(settings, tasks.Task("own", ("0", "1"), ("accuracy",)))
    model, _, _, new = made("--printed", "all", "--layers", "1", "--without", "tree,gates", "--scope", "head")
    method = model.bert.layers[1].attention
    assert (method.printed, method.scope, method.without) == ({4, 6, 7, 9}, "head", {"tree", "gates"})
    assert type(model.bert.layers[0].attention).__name__ == "SelfAttention" and method.W_g is None
    assert new and all(name.startswith("bert.layers.1.attention.W") or ".w_" in name for name in new)
    layers = {name.split(".")[2] for name in made("--layers", "all")[3]}
    assert layers == {"0", "1"} and {name.split(".")[2] for name in made()[3]} == {"0"}


def test_own_parses_are_used(monkeypatch, capsys):
    def conllu(path, head):
        texts = {text for name in ("train", "dev") for pair in tasks.read_pairs(f"{name}.tsv") for text in (pair.a, pair.b)}
        Path(path).write_text("".join(f"# text = {text}\n" + "".join(
            f"{k}\t{word}\t_\tX\t_\t_\t{head(k)}\t{'dep' if head(k) else 'root'}\t_\t_\n"
            for k, word in enumerate(text.split(), 1)) + "\n" for text in sorted(texts)), "utf-8")
    conllu("chain.conllu", lambda k: k - 1)
    conllu("star.conllu", lambda k: min(k - 1, 1))
    for name in ("chain", "star"):
        assert run("--model", "dafa", "--parses", f"{name}.conllu", out=name) == 0
    assert run("--model", "dafa", out="parser") == 0                       # ChainParser
    assert losses("chain") == losses("parser") != losses("star")
    assert train.main(["--from", "star", "--predict", "test.tsv"]) == 2     # its texts are not in the file
    assert "star.conllu" in the_line(capsys)


# ---- Optimizer ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("total, warmup", [(100, 0.1), (100, 0.0), (7, 0.3), (3, 0.5), (10, 0.9), (1, 0.1), (2, 0.99)])
def test_rate_rises_then_falls_to_zero(total, warmup):
    rates, rise = [train.rate(step, total, warmup) for step in range(total)], warmup * total
    for step, found in enumerate(rates):
        up = (step + 1) / rise if rise else 1.0
        down = (total - step) / (total - rise) if total - rise >= 1 else 1.0
        assert found == pytest.approx(min(1.0, up, down)), (step, rates)
    assert 0 < rates[-1] and max(rates) <= 1 and train.rate(total, total, warmup) == 0


@pytest.mark.parametrize("total, warmup", [(200, 0.05), (100, 0.0), (19, 0.05), (7, 0.3), (1, 0.1)])
def test_the_cosine_schedule_is_continuous(total, warmup):
    """Half a cosine up, half a cosine down: no step down by 0.7 % at the switch, no end at 95 %, no division by zero."""
    rates, rise = [train.rate(step, total, warmup, "cosine") for step in range(total)], warmup * total
    for step, found in enumerate(rates):
        if step + 1 <= rise:
            assert found == pytest.approx(0.5 - 0.5 * math.cos(math.pi * (step + 1) / rise))
        elif step >= rise and total - rise >= 1:
            assert found == pytest.approx(0.5 + 0.5 * math.cos(math.pi * (step - rise) / (total - rise)))
    if total > 100:
        assert max(abs(x - y) for x, y in zip(rates[10:], rates[11:])) < 0.009 and max(rates) == 1.0
    assert 0 < rates[-1] and train.rate(total, total, warmup, "cosine") == 0
    assert {train.rate(step, total, warmup, "flat") for step in range(total)} == {1.0}


def test_l2_ratio_is_equation_9():
    for t in (0, 1, 777, 50_000, 99_999, 100_000, 250_000):
        x = (t - 100_000 / 2) * 8 / (100_000 / 2)
        assert train.l2_ratio(t) == pytest.approx(0.9e-5 * (math.exp(x) / (math.exp(x) + 1)), rel=1e-12)
    assert train.l2_ratio(0) / 0.9e-5 == pytest.approx(0.0003, abs=5e-5)
    assert train.l2_ratio(100_000) / 0.9e-5 == pytest.approx(0.9997, abs=5e-5)
    assert train.l2_ratio(30, full_step=60, full_ratio=3.0) == pytest.approx(1.5) and train.l2_ratio(10 ** 9) == 0.9e-5


def adadelta(p, grads, decay):
    """Zeiler (2012), Algorithm 1, with rate 0.5, ρ = 0.95, ε = 1e-8 and the gradient of an L2 penalty."""
    squares = updates = 0.0
    for t, g in enumerate(grads):
        g += decay(t) * p
        squares = 0.95 * squares + 0.05 * g * g
        step = math.sqrt(updates + 1e-8) / math.sqrt(squares + 1e-8) * g
        updates = 0.95 * updates + 0.05 * step * step
        p -= 0.5 * step
    return p


def test_the_printed_recipe_is_adadelta():
    settings = train.Settings(model="knowledge", bert=TINY, recipe="printed", device="cpu").complete()
    assert (settings.batch_size, settings.lr, settings.lr_new, settings.schedule) == (70, 0.5, 0.5, "flat")
    model = torch.nn.Linear(1, 1).double()
    before, grads = [p.item() for p in model.parameters()], (0.7, -3.0, 0.02)
    optimizer = train.make_optimizer(settings.optimizer, model, set(), settings)
    for step, g in enumerate(grads):
        for p in model.parameters():
            p.grad = torch.full_like(p, g)
        for group in optimizer.param_groups:
            group["weight_decay"] = 0.3 * step
        optimizer.step()
    for p, start in zip(model.parameters(), before):
        assert p.item() == pytest.approx(adadelta(start, grads, lambda t: 0.3 * t), abs=1e-12)


def test_the_printed_recipe_in_the_loop(monkeypatch, capsys):
    """Eq. 9 sets every group's decay; SGD goes on after so many steps without a better result; a resumed run as well."""
    seen, real = [], train.OPTIMIZERS["adadelta"]

    class Watched(real.func):
        def step(self, closure=None):
            seen.extend((group["weight_decay"], group["lr"]) for group in self.param_groups)
            return super().step(closure)
    monkeypatch.setitem(train.OPTIMIZERS, "adadelta", lambda groups: Watched(groups, **real.keywords))
    monkeypatch.setattr(train, "l2_ratio", lambda step: 0.01 * step)
    monkeypatch.setattr(train, "SGD_AFTER", 3)
    monkeypatch.setattr(train, "evaluate", lambda *args: ({"accuracy": 0.5, "f1": 0.5}, 1.0))
    args = ["--model", "knowledge", "--recipe", "printed", "--lr", "0.5", "--dropout", "0", "--checkpoint-minutes", "0"]
    assert run(*args, "--epochs", "3") == 0                # epoch 1 is the best, epoch 2 three steps without a better one
    assert set(seen) == {(0.01 * step, 0.5) for step in range(6)}
    assert "SGD" in capsys.readouterr().out
    state = loaded("run/last.pt")
    assert state["run"]["kind"] == "sgd" and {g["lr"] for g in state["optimizer"]["param_groups"]} == {3e-4}
    assert state["optimizer"]["param_groups"][0]["weight_decay"] == 0.01 * 8
    for kind in ("dafa", "bert"):
        assert run("--model", kind, "--recipe", "printed", out=kind) == 2 and "knowledge" in the_line(capsys)


def test_patience_counts_steps_since_the_lowest_loss(monkeypatch):
    """The loss stops the run; the metric chooses the epoch."""
    scores, chosen = iter([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.0]), iter([0.9, 0.5, 0.6, 0.5, 0.7, 0.1, 0.0, 0.0])
    monkeypatch.setattr(train, "evaluate", lambda *args: ({"accuracy": next(scores), "f1": 0.0}, next(chosen)))
    assert run("--epochs", "9", "--patience", "7") == 0    # lowest at step 6; at step 12 it is six steps ago, at 15 nine
    assert result()["best_epoch"] == 5 and [e["mean_loss"] for e in events() if "mean_loss" in e] == [.9, .5, .6, .5, .7]


def adam(p, grads, rates, decay):
    """Kingma and Ba (2015), Algorithm 1, with an L2 penalty's gradient, in plain floats."""
    m = v = 0.0
    for t, (g, lr) in enumerate(zip(grads, rates), 1):
        g += decay * p
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p -= lr * (m / (1 - 0.9 ** t)) / (math.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
    return p


def test_groups_of_the_optimizer():
    settings = settings_of("--model", "dafa", "--lr-new", "0.003", "--weight-decay", "0.07")
    model, _, _, new = train.build(settings, tasks.Task("own", ("0", "1"), ("accuracy",)))
    names = {p: name for name, p in model.named_parameters()}
    optimizer, found = train.make_optimizer("adamw", model, set(new), settings), {}
    for group in optimizer.param_groups:
        for p in group["params"]:
            assert names[p] not in found
            found[names[p]] = (group["lr"], group["weight_decay"])
    added = {name for name in names.values() if ".attention.W" in name or ".attention.w" in name or "classifier" in name}
    assert found.keys() == set(names.values()) and len(added) > 10
    for name, (lr, decay) in found.items():
        if name != "classifier.weight" and name != "classifier.bias":
            assert lr == (0.003 if name in added else 1e-3), name
        assert decay == (0.0 if name.endswith("bias") or "norm" in name else 0.07), name
    settings = settings_of(*LADRANET)
    model, _, _, new = train.build(settings, tasks.Task("own", ("0", "1"), ("accuracy",)))
    assert set(new) == {name for name, _ in model.named_parameters() if not name.startswith("bert.")}


def adamw(p, grads, rates, decay):
    """Loshchilov and Hutter (2019), Algorithm 2, with bias correction, in plain floats."""
    m = v = 0.0
    for t, (g, lr) in enumerate(zip(grads, rates), 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p -= lr * decay * p + lr * (m / (1 - 0.9 ** t)) / (math.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
    return p


@pytest.mark.parametrize("kind, papers", [("adamw", adamw), ("adam", adam)])
def test_adam_and_adamw_are_the_papers(kind, papers):
    model = torch.nn.Linear(1, 1).double()
    settings, before = settings_of("--weight-decay", "0.3"), [p.item() for p in model.parameters()]
    optimizer, grads, rates = train.make_optimizer(kind, model, set(), settings), (0.7, -3.0, 0.02), (1e-3, 5e-4, 2e-4)
    assert optimizer.defaults["fused"]                     # so that what is compared is what runs
    for g, lr in zip(grads, rates):
        for p in model.parameters():
            p.grad = torch.full_like(p, g)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
    for p, start, decay in zip(model.parameters(), before, (0.3, 0.0)):
        assert p.item() == pytest.approx(papers(start, grads, rates, decay), abs=1e-12)


# ---- The loop -------------------------------------------------------------------------------------------------------

LOOP = ["--dropout", "0", "--lr", "5e-5", "--clip", "0.5", "--warmup", "0.3", "--weight-decay", "0.5"]


@pytest.fixture
def gentle(monkeypatch):
    """Choices that are not so sharp that rounding decides them."""
    for model in (train.DrrNet, train.LadraNet):
        monkeypatch.setattr(model, "BETA", 7.0)


@pytest.mark.parametrize("model", ["bert", "dabert", "dafa", "knowledge", "drrnet", "ladranet"])
def test_the_loop_is_plain_training(model, gentle):
    args = ["--model", model, *LOOP, *{"bert": [], "drrnet": DRRNET}.get(model, ["--lr-new", "2e-4"])]
    kind, schedule = (torch.optim.Adam, "cosine") if model in ("drrnet", "ladranet") else (torch.optim.AdamW, "linear")
    settings = settings_of(*args)
    plain = train.set_up(settings, Path("plain"), False)
    data, network = plain.examples["train"], plain.model
    log_rate = 2e-4 if model == "ladranet" else 5e-5       # of the first weight, α
    slow = [p for name, p in network.named_parameters() if name not in plain.new]
    fast = [p for name, p in network.named_parameters() if name in plain.new]
    groups = [{"params": [p for p in ps if (p.dim() > 1) == decays], "peak": peak, "weight_decay": 0.5 * decays}
              for ps, peak in ((slow, 5e-5), (fast, 2e-4)) for decays in (False, True)]
    optimizer, step, seen, dev = kind([g for g in groups if g["params"]]), 0, [], []
    network.train()
    for epoch in range(2):
        for places in train.training_batches(data.lengths, 8, f"0 {epoch}"):
            batch, labels = data.collate(places)
            loss = F.cross_entropy(network(**batch), labels)
            network.zero_grad()
            loss.backward()
            trained = [p for p in network.parameters() if p.grad is not None]          # LadRa-Net asks no pooler
            norm = math.sqrt(sum(float(p.grad.square().sum()) for p in trained))
            for p in trained:
                p.grad *= min(1.0, 0.5 / norm)
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * train.rate(step, 6, 0.3, schedule)
            optimizer.step()
            step += 1
            seen.append((loss.item(), norm))
        batch, labels = plain.examples["dev"].collate(range(10))
        with torch.inference_mode():
            dev.append(F.cross_entropy(network(**batch), labels).item())       # no dropout here
    assert run(*args) == 0
    assert [event["mean_loss"] for event in events() if "mean_loss" in event] == pytest.approx(dev, rel=1e-4)
    steps = [event for event in events() if "loss" in event]
    np.testing.assert_allclose([(e["loss"], e["norm"]) for e in steps], seen, rtol=1e-4)
    assert [e["lr"] for e in steps] == pytest.approx([log_rate * train.rate(k, 6, 0.3, schedule) for k in range(6)])
    assert_like_weights(loaded("run/last.pt")["model"], network.state_dict())


@pytest.mark.parametrize("model, args", [
    (["--model", "dafa"], ["--accumulate", "3"]), (["--model", "dafa"], ["--accumulate", "9"]),
    (["--model", "dafa"], ["--workers", "1"]), (DRRNET, ["--accumulate", "3", "--workers", "1"]),
    (LADRANET, ["--accumulate", "3"])], ids=" ".join)
def test_parts_and_workers_change_nothing(model, args, gentle):
    for out, more in (("one", []), ("other", args)):
        assert run(*model, *LOOP, "--epochs", "1", *more, out=out) == 0
    assert losses("one") == pytest.approx(losses("other"), abs=1e-5)
    assert_like_weights(*(loaded(f"{out}/last.pt")["model"] for out in ("one", "other")))


def test_dropout_in_training_alone(monkeypatch):
    real, seen = train.Matcher.forward, []

    def forward(self, *args, **kwargs):
        seen.append((self.training, torch.is_grad_enabled()))
        return real(self, *args, **kwargs)
    monkeypatch.setattr(train.Matcher, "forward", forward)
    assert run("--dropout", "0.5") == 0
    steps, evaluation = [(True, True)] * 3, [(False, False)]
    assert seen == (steps + evaluation) * 2 + evaluation
    assert run("--dropout", "0", out="none") == 0 and losses()[0] != losses("none")[0]
    for dropout in ("0", "0.5"):
        assert run(*DRRNET, "--dropout", dropout, "--epochs", "1", out=f"drrnet {dropout}") == 0
    assert losses("drrnet 0")[0] != losses("drrnet 0.5")[0]


def test_the_loss_of_scores_and_classes():
    logits, scores = torch.tensor([[1.5], [-0.25]]), torch.tensor([1.0, 0.5])
    assert train.loss_sum(logits, scores, True).item() == pytest.approx(0.25 + 0.5625)
    logits, labels = torch.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 3.0]], dtype=torch.bfloat16), torch.tensor([2, 0])
    by_hand = sum(math.log(sum(map(math.exp, row))) - row[k] for row, k in zip(logits.tolist(), (2, 0)))
    found = train.loss_sum(logits, labels, False)
    assert found.dtype == torch.float32 and found.item() == pytest.approx(by_hand)


def test_best_epoch_on_dev_and_patience(monkeypatch):
    seen, chosen, loss = [], iter([0.5, 0.7, 0.6, 0.7, 0.1, 0.2]), iter([0.8, 0.5, 0.6, 0.5, 0.0, 0.0])

    def evaluate(model, data, task, settings):
        assert len(data.pairs) == 10                                       # dev's
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"accuracy": next(chosen), "f1": -float(len(seen))}, next(loss)
    monkeypatch.setattr(train, "evaluate", evaluate)
    assert run("--epochs", "9", "--patience", "6") == 0                    # steps; an epoch has three
    found = result()
    assert (found["best_epoch"], found["selection_split"], len(seen)) == (2, "dev", 5)       # 4 epochs, then the best
    assert equal(loaded("run/best.pt"), seen[1]) and equal(seen[4], seen[1]) and not equal(seen[3], seen[1])
    assert found["metrics"]["dev"]["accuracy"] == 0.1 and equal(loaded("run/last.pt")["model"], seen[3])


def test_selection_never_sees_the_test_split(monkeypatch):
    class Sealed:
        def __getattribute__(self, name):
            raise AssertionError(f"{name} of a test pair was read")
    pairs = tasks.read_pairs("train.tsv", ("0", "1"))
    splits = {"train": pairs, "dev": pairs[:8], "dev_unseen": pairs[8:12], "test": [Sealed()] * 3, "test_unseen": [Sealed()]}
    monkeypatch.setattr(tasks, "load_task", lambda *args: (tasks.Task("toy", ("0", "1"), ("accuracy",)), splits))
    for model in ("bert", "dafa", "drrnet"):
        assert train.main(["--model", model, "--beside", "none", "--epochs", "1", "--out", model, "--device", "cpu"]) == 0
        assert result(model)["metrics"].keys() == {"dev", "dev_unseen"}


def test_a_loss_that_is_not_finite(monkeypatch, capsys):
    real, calls = train.loss_sum, []                   # three steps, the dev loss, two steps

    def loss_sum(*args):
        calls.append(1)
        return real(*args) * (math.nan if len(calls) == 6 else 1)
    monkeypatch.setattr(train, "loss_sum", loss_sum)
    assert run() == 2
    line = the_line(capsys)
    assert "nan" in line and "step 5" in line and "--lr" in line
    assert len(losses()) == 4 and all(v.isfinite().all() for v in loaded("run/last.pt")["model"].values())


@pytest.mark.parametrize("args", [["--model", "bert"], ["--model", "dafa"], DRRNET, LADRANET], ids=" ".join)
def test_bf16_on_cpu(args, gentle):
    for precision in ("fp32", "bf16"):
        assert run(*args, "--dropout", "0", "--precision", precision, out=precision) == 0
        assert result(precision)["settings"]["precision"] == precision
    assert losses("fp32") != losses("bf16")
    np.testing.assert_allclose(losses("fp32"), losses("bf16"), atol=0.05)
    assert {v.dtype for v in loaded("bf16/best.pt").values()} == {torch.float32}


# ---- Kinds of tasks and runs ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("args", [["--model", "bert"], ["--model", "dafa"], DRRNET, LADRANET], ids=" ".join)
def test_scores(args):
    for name in ("train", "dev"):
        write_pairs(f"{name}.tsv", 12, lambda rng, same: f"{rng.uniform(0, 5):.2f}")
    assert run(*args) == 0
    assert result()["metrics"]["dev"].keys() == {"pearson", "spearman"}
    assert train.main(["--from", "run", "--predict", "dev.tsv"]) == 0
    rows = list(csv.DictReader(open("run/predictions-dev.tsv", encoding="utf-8"), delimiter="\t"))
    assert rows[0].keys() == {"sentence1", "sentence2", "label", "prediction"}
    settings, task, model, tokenizer, tfidf = train.load_run(Path("run"), {})
    pairs = tasks.read_pairs("dev.tsv", ())
    scores = train.predict(model, train.prepare(settings, task, tokenizer, {"x": pairs}, tfidf)[0]["x"], settings)
    assert [float(row["prediction"]) for row in rows] == pytest.approx(scores[:, 0].tolist(), abs=6e-5)
    pearson = tasks.pearson([pair.label for pair in pairs], scores[:, 0].tolist())
    assert pearson == pytest.approx(result()["metrics"]["dev"]["pearson"], abs=1e-5)


def test_three_classes_test_and_predict(capsys):
    for name, count in (("train", 30), ("dev", 9), ("test", 11)):
        write_pairs(f"{name}.tsv", count, lambda rng, same: rng.choice("xyz"))
    assert run("--test-file", "test.tsv", "--test") == 0
    assert result()["metrics"].keys() == {"dev"}
    tested = result(name="test.json")
    assert tested["metrics"].keys() == {"test"} and tested["metrics"]["test"].keys() == {"accuracy"}
    capsys.readouterr()
    assert train.main(["--from", "run", "--test"]) == 0
    assert result(name="test.json") == tested
    out = capsys.readouterr().out
    assert f"{100 * tested['metrics']['test']['accuracy']:.1f}" in out and "test was read before" in out
    pairs = tasks.read_pairs("test.tsv")
    with open("blind.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("sentence1", "sentence2"), *[(p.a, p.b) for p in pairs], ('a, "b"\t c', "d")])
    for name in ("test.tsv", "blind.csv"):
        assert train.main(["--from", "run", "--predict", name]) == 0
    rows = {}
    for name in ("test", "blind"):
        lines = Path(f"run/predictions-{name}.tsv").read_text("utf-8").removesuffix("\n").split("\n")
        labels = ["label"] if name == "test" else []
        assert lines[0].split("\t") == ["sentence1", "sentence2", *labels, "prediction", "p(x)", "p(y)", "p(z)"]
        rows[name] = [line.split("\t") for line in lines[1:]]
    assert [row.pop(2) for row in rows["test"]] == [pair.label for pair in pairs]
    assert rows["blind"][:-1] == rows["test"] and rows["blind"][-1][:2] == ['a, "b" c', "d"]
    for (a, b, guess, *p), pair in zip(rows["test"], pairs, strict=True):
        assert (a, b) == (pair.a, pair.b)
        assert sum(map(float, p)) == pytest.approx(1, abs=2e-4) and guess == "xyz"[np.argmax(list(map(float, p)))]
    right = statistics.fmean(row[2] == pair.label for row, pair in zip(rows["test"], pairs))
    assert right == pytest.approx(tested["metrics"]["test"]["accuracy"])
    Path("bad.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\tw\n", "utf-8")
    capsys.readouterr()
    assert train.main(["--from", "run", "--predict", "bad.tsv"]) == 2
    assert "bad.tsv:2" in the_line(capsys)


def test_a_split_is_predicted_by_its_name(capsys):
    """With sentences and labels, and in GLUE's form; a name that is neither file nor split downloads nothing."""
    write_pairs("train.tsv", 22, lambda rng, same: rng.random())
    write_pairs("dev.tsv", 9, lambda rng, same: rng.random())
    assert run("--epochs", "1") == 0
    assert train.main(["--from", "run", "--predict", "dev"]) == 0
    (header, *rows), glue = ([line.split("\t") for line in Path(f"run/{name}.tsv").read_text("utf-8").splitlines()]
                             for name in ("predictions-dev", "own-dev"))
    assert header == ["sentence1", "sentence2", "label", "prediction"] and glue[0] == ["index", "prediction"]
    assert [float(row[2]) for row in rows] == pytest.approx([pair.label for pair in tasks.read_pairs("dev.tsv", ())], abs=1e-4)
    assert [(i, float(x)) for i, x in glue[1:]] == [(str(i), pytest.approx(float(row[3]), abs=1e-3)) for i, row in enumerate(rows)]
    capsys.readouterr()
    assert train.main(["--from", "run", "--predict", "tset"]) == 2
    assert "--predict tset" in (line := the_line(capsys)) and "splits, train, dev" in line


def test_a_run_alone_shows_its_result(capsys):
    assert run() == 0
    score = result()["metrics"]["dev"]["accuracy"]
    capsys.readouterr()
    assert train.main(["--from", "run"]) == 0
    shown = capsys.readouterr().out
    assert f"{100 * score:.1f}" in shown and f"epoch {result()['best_epoch']} of 2" in shown and "--explain" in shown
    (Path("run") / "result.json").unlink()
    assert train.main(["--from", "run"]) == 2 and "--resume --out run" in the_line(capsys)
    (Path("run") / "best.pt").unlink()
    assert train.main(["--from", "run", "--predict", "test.tsv"]) == 2 and "--resume --out run" in the_line(capsys)
    config = json.loads(Path("run/config.json").read_text())
    config["settings"]["colour"] = "red"
    Path("run/config.json").write_text(json.dumps(config))
    assert train.main(["--from", "run"]) == 2 and "colour" in the_line(capsys)


def test_readme_s_python_labels_a_pair(capsys):
    """The snippet that uses a trained run, on a run of some steps."""
    assert train.main("--model dafa --beside none --limit 8 --epochs 1 --out runs/toy-dafa".split()) == 0
    snippet, = [text for text in re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
                if "load_run" in text]
    capsys.readouterr()
    exec(compile(snippet, "README.md", "exec"), {})
    shown = ast.literal_eval(capsys.readouterr().out)
    assert shown.keys() == {"different", "same"} and sum(shown.values()) == pytest.approx(1)


@pytest.mark.parametrize("labels, words", [
    ("xxyz", ["classes x (12), y (5), z (5)", "dev: 10 pairs, 60.0 % of one class"]), ((1, 2.5, 4, 1), ["scores from 1 to 4"])])
def test_what_is_learned_is_said_before(labels, words, capsys):
    for name, count in (("train", 22), ("dev", 10)):
        places = iter(range(count))
        write_pairs(f"{name}.tsv", count, lambda rng, same: labels[next(places) % 4])
    assert run("--epochs", "1") == 0
    out = capsys.readouterr().out
    assert all(word in out[:out.index("epoch 1")] for word in words), out


def test_a_group_that_lacks_something_is_not_begun(capsys, monkeypatch):
    """The last run's data set, or WordNet, is missed before the first run is trained."""
    assert train.main(["--vary", "task", "toy", "twitterurl", "--model", "bert", "--bert", TINY, "--limit", "4", "--out", "run"]) == 2
    assert "twitterurl" in the_line(capsys) and not Path("run").exists()

    def missing():
        raise ValueError("WordNet: none")
    monkeypatch.setattr(priors, "load_wordnet", missing)
    assert run("--vary", "without", "none", "prior", "--model", "knowledge") == 2
    assert "WordNet: none" in the_line(capsys) and not Path("run").exists()
    monkeypatch.setattr(train, "load_pairs", lambda settings: pytest.fail("one run reads its data once"))
    assert run("--model", "knowledge") == 2 and "WordNet" in the_line(capsys)


def test_vary_limit_compares_what_both_have(monkeypatch):
    """The first pairs of a split may lack a phenomenon that more of them have."""
    assert train.main("--model bert --beside none --epochs 1 --vary limit 8 24 --out run".split()) == 0
    found = result(name="vary.json")["runs"]
    metrics, others = ({name for scores in run["metrics"].values() for name in scores} for run in found)
    assert len(others) > len(metrics) and found[1]["difference"]["dev"].keys() <= metrics


def test_a_second_dev_split_is_scored_and_does_not_choose(monkeypatch):
    """As MNLI's: dev_matched chooses the epoch, dev_mismatched stands in the result; test is not read."""
    pairs = tasks.read_pairs("train.tsv", ("0", "1"))
    task = tasks.Task("mnli", ("0", "1"), ("accuracy",), "dev_matched")
    splits = {"train": pairs, "dev_matched": pairs[:6], "dev_mismatched": pairs[6:12], "test_matched": pairs[:3]}
    monkeypatch.setattr(tasks, "load_task", lambda *args: (task, splits))
    assert train.main(["--task", "mnli", "--bert", TINY, "--max-length", "48", "--model", "bert", "--epochs", "1", "--out", "run"]) == 0
    assert result()["metrics"].keys() == {"dev_matched", "dev_mismatched"} and result()["selection_split"] == "dev_matched"


def test_a_gradient_without_bounds_ends_the_run(capsys, monkeypatch):
    """It would make all weights NaN, and last.pt with them, although the loss is a number."""
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda parameters, largest: torch.tensor(math.inf))
    assert run() == 2
    assert "norm inf at step 1" in (line := the_line(capsys)) and "--lr" in line


def test_predictions_need_no_neighbours_and_no_other_folder(tmp_path, monkeypatch):
    assert run("--model", "dafa") == 0
    header, *rows = Path("test.tsv").read_text().splitlines()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for name, some in (("all", rows), ("one", rows[4:5])):
        Path(f"{name}.tsv").write_text("\n".join([header, *some]) + "\n")
        assert train.main(["--from", "../run", "--predict", f"{name}.tsv"]) == 0
    whole, one = (Path(f"../run/predictions-{name}.tsv").read_text().splitlines() for name in ("all", "one"))
    assert whole[0] == one[0] and whole[5].split("\t")[:3] == one[1].split("\t")[:3]
    assert float(whole[5].split("\t")[3]) == pytest.approx(float(one[1].split("\t")[3]), abs=2e-4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_run_from_a_machine_with_a_gpu(capsys):
    assert run("--epochs", "1", "--test-file", "test.tsv") == 0
    path = Path("run/config.json")
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    capsys.readouterr()
    assert train.main(["--from", "run", "--test"]) == 0 or "--device" in the_line(capsys)


def test_part_of_the_pairs():
    _, whole = train.load_pairs(settings_of())
    _, some = train.load_pairs(settings_of("--train-fraction", "0.5", "--limit", "9"))
    _, half = train.load_pairs(settings_of("--train-fraction", "0.5"))
    _, again = train.load_pairs(settings_of("--train-fraction", "0.5", "--seed", "1"))
    assert [len(x["train"]) for x in (whole, half, some)] == [22, 11, 9] and len(some["dev"]) == 9
    assert set(half["train"]) < set(whole["train"]) and half["train"] != again["train"] and half["dev"] == whole["dev"]
    toy = train.Settings(train_fraction=0.1)
    _, splits = train.load_pairs(toy)
    squares = [splits["train"][i:i + 4] for i in range(0, len(splits["train"]), 4)]
    assert all(len({text for p in square for text in (p.a, p.b)}) == 4 for square in squares)


def test_seeds_and_beside(capsys):
    args = ["--model", "dafa", "--beside", "bert", "--seeds", "2", "--seed", "5", "--test-file", "test.tsv", "--test"]
    assert run(*args) == 0
    table = capsys.readouterr().out
    for folder, model in (("run", "dafa"), ("run/beside-bert", "bert")):
        found = [result(f"{folder}/seed{seed}") for seed in (5, 6)]
        assert [(r["model"], r["seed"]) for r in found] == [(model, 5), (model, 6)]
        assert not equal(loaded(f"{folder}/seed5/best.pt"), loaded(f"{folder}/seed6/best.pt"))
        summary = result(folder, "seeds.json")
        assert summary["seeds"] == [5, 6]
        for name, cell in summary["metrics"]["dev"].items():
            values = [r["metrics"]["dev"][name] for r in found]
            assert cell == {"values": values, "mean": statistics.fmean(values), "std": statistics.stdev(values)}
            assert f"{100 * cell['mean']:.1f} ({100 * cell['std']:.1f})" in table
        assert all(result(f"{folder}/seed{seed}", "test.json")["metrics"]["test"] for seed in (5, 6))
    assert "dev dafa" in table and "dev bert" in table and "test dafa" in table
    assert run("--seed", "6", "--test-file", "test.tsv", "--model", "dafa", out="alone") == 0
    assert result("alone")["metrics"] == result("run/seed6")["metrics"]
    assert train.main(["--from", "run", "--test"]) == 0


def test_beside_trains_by_its_own_recipe():
    """What belongs to the model itself is not handed on; what is given of the rest is."""
    args = ["--model", "dafa", "--scope", "head", "--layers", "all", "--printed", "6", "--without", "gates", "--epochs", "1"]
    for beside, bert in (("ladranet", TINY), ("drrnet", "none")):
        assert run(*args, "--beside", beside, "--lr", "2e-3", out=beside) == 0
        one, other = (result(folder)["settings"] for folder in (beside, f"{beside}/beside-{beside}"))
        assert (one["optimizer"], one["schedule"], one["scope"], one["layers"]) == ("adamw", "linear", "head", "all")
        assert (other["optimizer"], other["schedule"], other["patience"], other["bert"]) == ("adam", "cosine", 1000, bert)
        assert [other[name] for name in ("scope", "layers", "printed", "without")] == ["hidden", "first", "", ""]
        assert (other["lr"], other["lr_new"], other["epochs"], other["beside"]) == (2e-3, 1e-3, 1, "none")
    assert run("--model", "knowledge", "--recipe", "printed", "--beside", "dabert", "--epochs", "1", out="printed") == 0
    other = result("printed/beside-dabert")["settings"]
    assert (other["recipe"], other["optimizer"], other["weight_decay"]) == ("ours", "adamw", 0.01)
    assert train.main(["--model", "drrnet", "--limit", "8", "--epochs", "1", "--device", "cpu", "--out", "toy"]) == 0
    one, other = (result(folder)["settings"] for folder in ("toy", "toy/beside-bert"))
    assert (one["bert"], one["optimizer"], other["bert"], other["optimizer"]) == ("none", "adam", "scratch", "adamw")
    assert train.main(["--from", "toy", "--test"]) == 0


def test_the_toy_default(capsys):
    assert train.main(["--limit", "256", "--epochs", "2", "--device", "cpu"]) == 0
    table = capsys.readouterr().out
    head = next(line for line in table.splitlines() if "dev dafa" in line)
    assert head.split() == "dev dafa dev bert dev_unseen dafa dev_unseen bert".split()
    for name in ("accuracy", *tasks.FRAMES):
        row = next(line.split() for line in table.splitlines() if line.startswith(name))
        assert len(row) == 5 and all(0 <= float(cell) <= 100 for cell in row[1:]), row
    assert "generated diagnostic" in table
    assert train.main(["--limit", "4", "--epochs", "1", "--device", "cpu"]) == 0     # not every phenomenon in both splits


# ---- DRr-Net, LadRa-Net, RoBERTa ------------------------------------------------------------------------------------

@pytest.mark.parametrize("args, method", [(DRRNET, train.DrrNet), (LADRANET, train.LadraNet)], ids=["drrnet", "ladranet"])
def test_every_form_of_the_rereading_models(args, method):
    forms = [[], ["--printed", "all"], *(["--printed", str(number)] for number in sorted(method.PRINTED)),
             *(["--without", part] for part in sorted(method.ABLATIONS))]
    for form in forms:
        out = " ".join(form) or "plain"
        assert run(*args, *form, "--epochs", "1", "--limit", "9", "--dropout", "0", out=out) == 0
        assert all(map(math.isfinite, losses(out))) and (not form or losses(out)[1] != losses("plain")[1]), form
        assert train.main(["--from", out, "--predict", "test.tsv"]) == 0
        assert len(Path(out, "predictions-test.tsv").read_text().splitlines()) == 10


@pytest.mark.parametrize("args", [DRRNET, LADRANET], ids=" ".join)
def test_rereading_models_are_tested_and_predict(args, capsys):
    assert run(*args, "--test-file", "test.tsv", "--test") == 0
    tested = result(name="test.json")["metrics"]["test"]
    capsys.readouterr()
    assert train.main(["--from", "run", "--test", "--predict", "test.tsv"]) == 0
    assert result(name="test.json")["metrics"]["test"] == tested
    assert capsys.readouterr().out.count(f"{100 * tested['accuracy']:.1f}") >= 2
    rows = list(csv.DictReader(open("run/predictions-test.tsv", encoding="utf-8"), delimiter="\t"))
    pairs = tasks.read_pairs("test.tsv")
    assert [(row["sentence1"], row["sentence2"]) for row in rows] == [(p.a, p.b) for p in pairs]
    right = statistics.fmean(row["prediction"] == pair.label for row, pair in zip(rows, pairs))
    assert right == pytest.approx(tested["accuracy"])


def readings(text):
    """What --show-reading printed: for each pair its sentences and dict title -> words."""
    blocks = re.findall(r"^(.*)\n(.*)\n((?:    .+: .+\n)+)\n", text, re.M)
    return [(a, b, dict((title, words.split(" → ")) for title, words in re.findall("^    (.+): (.+)$", rows, re.M)))
            for a, b, rows in blocks]


def argmax(row):
    return max(range(len(row)), key=row.__getitem__)


def tokens(folder):
    """The vocabulary of an encoder's folder, read by itself; RoBERTa's spaces left out."""
    if (folder / "vocab.txt").exists():
        return (folder / "vocab.txt").read_text("utf-8").splitlines()
    numbers = json.loads((folder / "vocab.json").read_text("utf-8"))
    return [piece.replace("Ġ", "") or piece for piece in sorted(numbers, key=numbers.get)]


@pytest.mark.parametrize("args", [DRRNET, LADRANET, [*LADRANET, "--without", "phrase-cnn"],
                                  [*LADRANET, "--bert", str(ROBERTA)]], ids=" ".join)
def test_show_reading(args, capsys):
    """Of each pair, the words with the largest weights at each step; the predictions are those without it."""
    assert run(*args, "--max-length", "9", "--dropout", "0.4", "--epochs", "1") == 0
    rows = [("", "dog"), ("", ""), ("good  cat", "the dog"), ("the " * 30 + "dog", "new york " * 30), ("book", "book")]
    Path("some.tsv").write_text("sentence1\tsentence2\n" + "".join(f"{a}\t{b}\n" for a, b in rows), "utf-8")
    assert train.main(["--from", "run", "--predict", "some.tsv"]) == 0
    plain = Path("run/predictions-some.tsv").read_bytes()
    capsys.readouterr()
    assert train.main(["--from", "run", "--predict", "some.tsv", "--show-reading"]) == 0
    out = capsys.readouterr().out
    found = readings(out)
    assert Path("run/predictions-some.tsv").read_bytes() == plain and out.endswith("run/predictions-some.tsv\n")
    assert [pair[:2] for pair in found] == [(" ".join(a.split()), " ".join(b.split())) for a, b in rows]

    (settings, task, model, tokenizer, _), pairs = train.load_run(Path("run"), {}), [tasks.Pair(a, b) for a, b in rows]
    data = train.prepare(settings, task, tokenizer, {"x": pairs})[0]["x"]
    for i, (a, b, seen) in enumerate(found):
        trace = {}
        with torch.inference_mode():
            model.eval()(**data.collate([i])[0], trace=trace)
        if settings.model == "drrnet":
            assert list(seen) == ["a", "b"]
            for side, text in enumerate((a, b)):
                words = text.split() or ["(no word)"]
                assert seen["ab"[side]] == [words[argmax(step)] for step in trace["reading"][side, 0].tolist()]
                assert len(seen["ab"[side]]) == 6 and set(seen["ab"[side]]) <= set(words[:9])
        else:
            assert list(seen) == ["piece", "phrase of 2, around", "phrase of 3, around"][:trace["reading"].shape[2]]
            pieces = [tokens(Path("run/encoder"))[k] for k in data.encoded[i][0]]
            for r, title in enumerate(seen):
                assert seen[title] == [pieces[argmax(step[r])] for step in trace["reading"][0].tolist()]
                assert len(seen[title]) == 5


@pytest.mark.parametrize("args", [["--model", "bert"], ["--model", "dafa"], [*DRRNET, "--without", "reread"],
                                  [*LADRANET, "--without", "phrase-cnn, dsa"]], ids=" ".join)
def test_show_reading_of_a_model_that_reads_once(args, capsys):
    assert run(*args, "--epochs", "1") == 0
    capsys.readouterr()
    assert train.main(["--from", "run", "--predict", "test.tsv", "--show-reading"]) == 2
    line = the_line(capsys)
    assert all(word in line for word in ("--show-reading", args[1], "drrnet, ladranet"))
    assert not Path("run/predictions-test.tsv").exists()


def glove_file():
    """train.tsv with capitals; vectors of some of its words. -> dict of those vectors"""
    for name in ("train", "dev", "test"):
        text = Path(f"{name}.tsv").read_text().replace("seattle", "Seattle").replace("york", "York")
        Path(f"{name}.tsv").write_text(text.replace("apple", "pear") if name != "test" else text)
    rng = random.Random(1)
    vectors = {word: [round(rng.uniform(-1, 1), 4) for _ in range(5)]
               for word in ("seattle", "York", "york", "dog", "cat", "apple", "unseen")}
    lines = [f"{word} " + " ".join(map(str, row)) for word, row in vectors.items()]
    Path("glove.txt").write_text("\n".join([*lines, "the 1 2 3 4", "from a b c d e", "unread x"]) + "\n")
    return vectors


def test_vectors_of_a_file(monkeypatch, capsys):
    """Shares, the fixed table, and a run that needs the file no more."""
    vectors, args = glove_file(), [*DRRNET, "--glove", "glove.txt", "--test-file", "test.tsv"]
    assert run(*args) == 0
    words = [word for name in ("train", "dev", "test") for p in tasks.read_pairs(f"{name}.tsv")
             for text in (p.a, p.b) for word in text.split()]
    have = {"Seattle", "York", "dog", "cat", "apple"}
    assert have < set(words) and "apple" in words and not {"seattle", "york"} & set(words)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("glove.txt: "))
    assert f"{len(have)} of {len(set(words))} words ({100 * len(have) / len(set(words)):.1f} %)" in line
    assert f"{100 * sum(word in have for word in words) / len(words):.1f} % of the running text" in line
    assert "2 malformed lines" in line
    vocabulary, weights = priors.Vocabulary.from_folder("run/encoder"), loaded("run/last.pt")["model"]["words.weight"]
    assert weights.shape == (2 + len(set(words)), 5) and weights[0].count_nonzero() == 0
    for word in set(words):
        row = weights[vocabulary.ids([word])[0]].tolist()
        if word in have:
            assert row == pytest.approx(vectors[word if word in vectors else word.casefold()], abs=1e-7), word
    assert len({tuple(row) for row in weights.tolist()}) == len(weights)
    with monkeypatch.context() as patch:
        at_call(patch, torch.nn.utils, "clip_grad_norm_", 5, interrupt)
        assert run(*args, out="cut") == 130
    Path("glove.txt").unlink()
    assert train.main(["--resume", "--out", "cut"]) == 0
    assert_same_run("run", "cut")
    assert train.main(["--from", "run", "--test", "--predict", "test.tsv"]) == 0
    assert result(name="test.json")["metrics"]["test"]


def test_learned_vectors_know_the_training_words_alone(capsys):
    Path("dev.tsv").write_text(Path("dev.tsv").read_text() + "zebra zebra\tzebra\t1\n")
    assert run(*DRRNET, "--epochs", "1") == 0 and "vectors for" not in capsys.readouterr().out
    vocabulary = priors.Vocabulary.from_folder("run/encoder")
    assert vocabulary.words == sorted(set(WORDS)) and vocabulary.ids(["zebra"]).tolist() == [1]
    start = train.set_up(settings_of(*DRRNET, "--epochs", "1"), Path("start"), False).model.words.weight
    after = loaded("run/last.pt")["model"]["words.weight"]
    assert (start - after).abs().amax(1)[2:].gt(0).all() and after[0].count_nonzero() == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"words": 3, "characters": [], "width": null}'])
def test_a_broken_vocabulary_gives_one_line(content, capsys):
    assert run(*DRRNET, "--epochs", "1") == 0
    Path("run/encoder/vocabulary.json").write_text(content)
    capsys.readouterr()
    assert train.main(["--from", "run", "--predict", "test.tsv"]) == 2
    assert "vocabulary.json" in the_line(capsys)


@pytest.mark.skipif(not ROBERTA.exists(), reason="no RoBERTa fixture")
@pytest.mark.parametrize("model", ["bert", "dabert", "dafa", "knowledge", "ladranet"])
def test_every_encoder_model_runs_on_roberta(model):
    """Its own pieces, two separators between the sentences, one segment for both."""
    assert run("--model", model, "--bert", ROBERTA, "--max-length", "64", "--epochs", "1") == 0
    assert all(map(math.isfinite, losses())) and train.main(["--from", "run", "--predict", "test.tsv"]) == 0
    settings, task, network, tokenizer, _ = train.load_run(Path("run"), {})
    data = train.prepare(settings, task, tokenizer, {"train": tasks.read_pairs("train.tsv", ("0", "1"))})[0]["train"]
    pieces = [tokens(ROBERTA)[k] for k in data.encoded[1][0]]
    assert train.pieces_of(tokenizer, data.encoded[1][0]) == pieces
    middle = pieces.index("</s>")
    assert pieces[0] == "<s>" and pieces[-1] == "</s>" == pieces[middle + 1] and pieces.count("</s>") == 3
    for text, part in ((data.pairs[1].a, pieces[1:middle]), (data.pairs[1].b, pieces[middle + 2:-1])):
        assert "".join(part) == text.replace(" ", "")
    batch, _ = data.collate([0, 1, 2])
    assert network.bert.embeddings.segment.weight.shape == (1, 36)
    embed = network.eval().bert.embeddings
    assert torch.equal(*(embed(batch["input_ids"], segment) for segment in (batch["segment"], 1 - batch["segment"])))
    if model not in ("dafa", "knowledge"):                 # these two ask which sentence a token is in
        assert torch.equal(network(**batch), network(**batch | {"segment": 1 - batch["segment"]}))
    start = bert_min.read_checkpoint(ROBERTA)[1]           # these weights were read, and trained a little
    moved = (network.bert.embeddings.word.weight - torch.from_numpy(start["embeddings.word.weight"])).abs().max()
    assert 0 < moved < 0.02


# ---- Interrupted and resumed ----------------------------------------------------------------------------------------

PLACES = {     # what is interrupted, at which call, --checkpoint-minutes
    "before the first checkpoint": (torch.nn.utils, "clip_grad_norm_", 2, 5),
    "in the first epoch": (torch.nn.utils, "clip_grad_norm_", 3, 0),
    "between the log and the checkpoint": (train.Run, "save", 4, 0),
    "after training": (train, "finish", 1, 5),
    "in the second epoch": (torch.nn.utils, "clip_grad_norm_", 5, 0),
    "back to the first epoch": (torch.nn.utils, "clip_grad_norm_", 6, 5),
    "in evaluation": (train, "predict", 1, 0)}


@pytest.mark.parametrize("args", [["--model", "bert"], ["--model", "dafa"], DRRNET, LADRANET,
                                  ["--model", "knowledge", "--recipe", "printed", "--lr", "0.5"]], ids=" ".join)
def test_a_resumed_run_equals_one_that_was_not_interrupted(args, monkeypatch, capsys):
    args = [*args, "--dropout", "0.1"]
    monkeypatch.setattr(train, "SGD_AFTER", 1)
    assert run(*args, out="whole") == 0
    places = list(PLACES.items())[4 * (args[1] in ("drrnet", "ladranet")):]        # the loop is one for all models
    for k, (place, (owner, name, call, minutes)) in enumerate(places):
        with monkeypatch.context() as patch:
            at_call(patch, owner, name, call, interrupt)
            capsys.readouterr()
            assert run(*args, "--checkpoint-minutes", minutes, out=f"cut{k}") == 130, place
            assert "--resume" in capsys.readouterr().err and not Path(f"cut{k}/result.json").exists()
        assert train.main(["--resume", "--out", f"cut{k}"]) == 0, place
        assert_same_run("whole", f"cut{k}")
    before = Path("cut0/result.json").read_bytes()
    at_call(monkeypatch, torch.nn.utils, "clip_grad_norm_", 1, interrupt)
    at_call(monkeypatch, train, "predict", 1, interrupt)
    assert run(*args, "--resume", out="cut0") == 0, "a finished run computes nothing again"
    assert Path("cut0/result.json").read_bytes() == before


def test_resume_after_kill_9():
    args = ["--dropout", "0.1", "--epochs", "20", "--checkpoint-minutes", "0", "--patience", "50"]
    command = [sys.executable, str(ROOT / "train.py"), *OWN, *args, "--out", "killed"]
    with open("output", "w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | {"OMP_NUM_THREADS": "1"})
        log, until = Path("killed/log.jsonl"), time.monotonic() + 120
        while process.poll() is None and time.monotonic() < until and not (log.exists() and log.read_text().count("\n") > 9):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, Path("output").read_text()
    assert not Path("killed/result.json").exists()
    assert train.main(["--resume", "--out", "killed"]) == 0
    assert run(*args) == 0
    assert_same_run("run", "killed")
    assert not list(Path("killed").rglob("*.tmp"))


def test_patience_is_asked_after_an_epoch_alone(monkeypatch):
    """A run resumed within the epoch in which patience would run out finishes that epoch, as it would have."""
    monkeypatch.setattr(train, "evaluate", lambda *args: ({"accuracy": 0.5, "f1": 0.5}, 1.0))      # lowest at step 3
    args = ["--epochs", "9", "--patience", "4", "--checkpoint-minutes", "0"]
    assert run(*args, out="whole") == 0 and len(losses("whole")) == 9
    with monkeypatch.context() as patch:
        at_call(patch, torch.nn.utils, "clip_grad_norm_", 9, interrupt)
        assert run(*args, out="cut") == 130
    assert train.main(["--resume", "--out", "cut"]) == 0
    assert_same_run("whole", "cut")


def whole_and_cut(args, monkeypatch):
    """A run in whole, and one in cut, of two times three steps, that is interrupted at the fifth and resumed."""
    assert run(*args, out="whole") == 0
    with monkeypatch.context() as patch:
        at_call(patch, torch.nn.utils, "clip_grad_norm_", 5, interrupt)
        assert run(*args, out="cut") == 130
    steps = at_call(monkeypatch, torch.nn.utils, "clip_grad_norm_", 0, interrupt)
    assert run(*args, "--resume", out="cut") == 0 and len(steps) == 3


def test_beside_is_resumed(monkeypatch):
    args = ["--model", "dafa", "--printed", "6", "--beside", "ladranet", "--epochs", "1"]
    whole_and_cut(args, monkeypatch)
    assert_same_run("whole/beside-ladranet", "cut/beside-ladranet")
    assert train.main(["--resume", "--out", "cut/beside-ladranet"]) == 0, "one of a group can be named as well"


def test_seeds_are_resumed(monkeypatch):
    args = ["--seeds", "2", "--epochs", "1"]
    whole_and_cut(args, monkeypatch)
    assert result("whole", "seeds.json") == result("cut", "seeds.json")
    assert_same_run("whole/seed1", "cut/seed1")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"),
                                   RuntimeError("[enforce fail] . unexpected pos 64 vs 0\nframe #0")], ids=["OS", "torch"])
def test_a_full_disk(error, monkeypatch, capsys):
    assert run(out="whole") == 0
    real, calls, before = torch.save, [], []

    def save(content, path):
        calls.append(path)
        if len(calls) == 7 and not before:                # two of these are the end of the first epoch
            before.append(Path("run/last.pt").read_bytes())
            Path(path).write_bytes(b"half of it")
            raise error
        return real(content, path)
    monkeypatch.setattr(torch, "save", save)
    capsys.readouterr()
    assert run("--checkpoint-minutes", "0") == 2
    assert "last.pt" in the_line(capsys)
    assert Path("run/last.pt").read_bytes() == before[0] and not list(Path("run").rglob("*.tmp"))
    assert run("--resume") == 0
    assert_same_run("whole", "run")


# ---- torch.compile ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("model", ["bert", "dabert", "dafa", "knowledge", "drrnet", "ladranet"])
def test_compiled_models_are_traced_and_train_alike(model, gentle, monkeypatch):
    """torch.compile with a backend that runs what it traced: the tests need no C++ compiler, and no minutes of its time."""
    real, traced = torch.compile, []

    def backend(graph, inputs):
        traced.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda network, **options: real(network, backend=backend, **options))
    args = ["--model", model, *LOOP, "--limit", "8", "--epochs", "1", *(DRRNET if model == "drrnet" else [])]
    assert run(*args, "--compile", out="compiled") == 0 and traced
    assert run(*args, out="plain") == 0
    np.testing.assert_allclose(losses("compiled"), losses("plain"), rtol=0, atol=1e-5)


def test_a_compiler_that_fails_gives_one_line(monkeypatch, capsys):
    def backend(graph, inputs):
        raise OSError("no compiler\nand more")

    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda network, **options: real(network, backend=backend, **options))
    assert run("--compile") == 2
    line = the_line(capsys)
    assert "--compile" in line and "no compiler" in line and "g++" in line


# ---- Several processes ----------------------------------------------------------------------------------------------

TWO = """
import sys, time
sys.path.insert(0, {root!r})
import torch, torch.distributed as dist, train
torch.set_num_threads(1)
dist.init_process_group("gloo")              # once; train.main would end it after each run
dist.init_process_group = lambda *args, **options: None
dist.destroy_process_group = lambda: None
real, clip, steps = train.new_folder, torch.nn.utils.clip_grad_norm_, []

def new_folder(settings, name=None):         # the second process comes late, as on another machine
    time.sleep(dist.get_rank())
    return real(settings, name)

def interrupted(*args):
    steps.append(args)
    if len(steps) == 5:
        raise KeyboardInterrupt
    return clip(*args)

loss_sum, pairs = train.loss_sum, []

def counted(logits, *args):
    pairs.append(len(logits) * logits.requires_grad)
    return loss_sum(logits, *args)

train.new_folder, train.loss_sum, train.LadraNet.BETA = new_folder, counted, 7.0
common, codes = {common!r}, []
for model in ("bert", "ladranet"):
    pairs.clear()
    codes += [train.main([*common, *{loop!r}, "--model", model, "--out", "two-" + model]), sum(pairs)]
    train.new_folder = real
    if codes[-2]:
        sys.exit(codes[-2])
for out in ("whole", "cut"):
    dist.barrier()
    torch.nn.utils.clip_grad_norm_ = interrupted if out == "cut" else clip
    codes.append(train.main([*common, "--dropout", "0.1", "--checkpoint-minutes", "0", "--out", out]))
torch.nn.utils.clip_grad_norm_ = clip
dist.barrier()
codes.append(train.main(["--resume", "--out", "cut"]))
open(f"codes{{dist.get_rank()}}", "w").write(str(codes))
"""


LOST = """
import os, signal, sys
sys.path.insert(0, {root!r})
import torch, torch.distributed as dist, train
torch.set_num_threads(1)
clip, calls = torch.nn.utils.clip_grad_norm_, []
written = open(f"written{{os.environ['RANK']}}", "w")

def watch(event, args):                      # what this process opens to write, renames, makes
    name = {{"open": lambda: args[1] and set(args[1]) & set("wax+"), "os.rename": lambda: True, "os.mkdir": lambda: True}}
    if event in name and name[event]() and str(args[0]).startswith(("run", os.getcwd())):
        written.write(f"{{args[0]}}\\n")
        written.flush()

def killed(*args):
    calls.append(args)
    if len(calls) == 5 and dist.get_rank():
        os.kill(os.getpid(), signal.SIGKILL)
    return clip(*args)

torch.nn.utils.clip_grad_norm_ = killed
sys.addaudithook(watch)
sys.exit(train.main({args!r}))
"""


def launch(script):
    """Runs a script in two processes. -> exit status, what they and torchrun print"""
    Path("two.py").write_text(script)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "two.py"]
    with open("output", "w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True,
                                   env=os.environ | {"OMP_NUM_THREADS": "1"})
        try:
            process.wait(300)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)    # the launcher and, where they hang, its two processes
    return process.returncode, Path("output").read_text()


def test_two_processes_are_one(gentle):
    """21 pairs in batches of 4: in the last batch of an epoch the second process has no pair. 70: more than a batch."""
    for name, count in (("train", 21), ("dev", 70)):
        write_pairs(f"{name}.tsv", count, lambda rng, same: same)
    common = [*OWN, "--batch-size", "4"]
    _, output = launch(TWO.format(root=str(ROOT), common=common, loop=LOOP))
    for rank, pairs in ((0, 22), (1, 20)):
        codes = Path(f"codes{rank}").read_text() if Path(f"codes{rank}").exists() else output
        assert codes == str([0, pairs, 0, pairs, 0, 130, 0]), codes
    for model in ("bert", "ladranet"):
        assert run("--batch-size", "4", *LOOP, "--model", model, out=model) == 0
        np.testing.assert_allclose(losses(f"two-{model}"), losses(model), rtol=0, atol=1e-6)
        assert_like_weights(*(loaded(f"{out}/last.pt")["model"] for out in (model, f"two-{model}")))
        assert result(f"two-{model}")["metrics"]["dev"] == pytest.approx(result(model)["metrics"]["dev"])
    assert_same_run("whole", "cut")                       # each process has its own dropout, and goes on with it


def test_a_killed_process_ends_the_run_and_resume_goes_on(monkeypatch):
    """The second one is killed in its fifth step: the first says so in one line. It alone has written: parses, weights."""
    monkeypatch.setattr(priors, "load_parser", SHIPPED)
    common = [*OWN, "--model", "dafa", "--dropout", "0", "--checkpoint-minutes", "0"]
    status, output = launch(LOST.format(root=str(ROOT), args=[*common, "--out", "run"]))
    lines = [line for line in output.splitlines() if line.startswith("train.py: ")]
    assert status == 1 and len(lines) == 1 and "another process" in lines[0] and "--resume" in lines[0], output
    written = [Path(f"written{rank}").read_text().splitlines() for rank in (0, 1)]
    assert any("parses-" in name for name in written[0]) and any("last.pt" in name for name in written[0])
    assert written[1] == []
    assert loaded("run/last.pt")["run"]["step"] == 4
    assert train.main(["--resume", "--out", "run"]) == 0 and train.main([*common, "--out", "whole"]) == 0
    np.testing.assert_allclose(losses(), losses("whole"), rtol=0, atol=1e-6)


def test_robustness_is_measured_on_what_was_changed(monkeypatch, capsys):
    """AddPunc changes every pair, BackTrans the pairs of one sentence, AddSent is refused for paraphrases."""
    monkeypatch.setattr(tasks, "TRANSFORMATIONS", {name: tasks.TRANSFORMATIONS[name] for name in
                                                   ("AddPunc", "AddSent", "BackTrans")})
    assert run() == 0
    pairs = tasks.read_pairs("dev.tsv", ("0", "1"))
    Path("back.tsv").write_text(f"sentence\ttranslation\n{pairs[2].a}\tquite another thing\n", "utf-8")
    capsys.readouterr()
    assert train.main(["--from", "run", "--robustness"]) == 0
    shown = capsys.readouterr().out
    assert "AddSent" in shown and "refused" in shown and "needs --translations" in shown
    assert train.main(["--from", "run", "--robustness", "--translations", "back.tsv"]) == 0
    found = result(name="robustness.json")
    assert found["split"] == "dev" and found["transformations"].keys() == {"AddPunc", "BackTrans"}
    every, back = (found["transformations"][name] for name in ("AddPunc", "BackTrans"))
    assert every["pairs"] == 10 and every["before"] == pytest.approx(result()["metrics"]["dev"]["accuracy"])
    touched = [p for p in pairs if pairs[2].a in (p.a, p.b)]
    assert back["pairs"] == len(touched) >= 1
    Path("touched.tsv").write_text("sentence1\tsentence2\tlabel\n" + "".join(
        f"{p.a.replace(pairs[2].a, 'quite another thing')}\t{p.b.replace(pairs[2].a, 'quite another thing')}\t{p.label}\n"
        for p in touched), "utf-8")
    assert train.main(["--from", "run", "--predict", "touched.tsv"]) == 0
    rows = list(csv.DictReader(open("run/predictions-touched.tsv", encoding="utf-8"), delimiter="\t"))
    right = statistics.fmean(row["prediction"] == str(p.label) for row, p in zip(rows, touched, strict=True))
    assert back["after"] == pytest.approx(right)
    for args in (["--robustness"], ["--from", "run", "--robustness", "--translations", "missing.tsv"]):
        capsys.readouterr()
        assert train.main(args) == 2 and the_line(capsys)


def test_comparison_with_another_model(capsys):
    """The difference of each seed, its mean, and Student's interval."""
    assert run("--model", "dafa", "--beside", "bert", "--seeds", "3", "--epochs", "1") == 0
    assert "95 % interval" in capsys.readouterr().out
    found = json.loads(Path("run/comparison.json").read_text())["differences"]["dev"]["accuracy"]
    values = [result(f"run/seed{s}")["metrics"]["dev"]["accuracy"] - result(f"run/beside-bert/seed{s}")["metrics"]["dev"]["accuracy"]
              for s in range(3)]
    half = 4.302653 * statistics.stdev(values) / math.sqrt(3)
    assert found["values"] == pytest.approx(values) and found["mean"] == pytest.approx(sum(values) / 3)
    assert (found["low"], found["high"]) == pytest.approx((sum(values) / 3 - half, sum(values) / 3 + half), abs=1e-4)


VARY = [*OWN[:-2], "--vary", "model", "bert", "dafa", "--vary", "train-fraction", "0.5", "1", "--seeds", "2", "--epochs", "1"]


def test_vary_is_the_runs_one_by_one(capsys):
    """Every combination as a run of its own would have it; differences are from the first model, column by column."""
    assert train.main([*VARY, "--test", "--test-file", "test.tsv", "--out", "run"]) == 0
    printed = capsys.readouterr().out
    found = result(name="vary.json")
    assert found["vary"] == [["model", "bert", "dafa"], ["train-fraction", "0.5", "1"]]
    assert [tuple(r["values"].values()) for r in found["runs"]] == [
        ("bert", "0.5"), ("bert", "1"), ("dafa", "0.5"), ("dafa", "1")]
    for r in found["runs"]:
        folder = "run/" + ",".join(f"{name}={value}" for name, value in r["values"].items())
        both = [result(f"{folder}/seed{seed}") for seed in (0, 1)]
        assert [x["model"] for x in both] == [r["values"]["model"]] * 2 and r["best_epochs"] == [1, 1] and r["seeds"] == [0, 1]
        assert [x["pairs"]["train"] for x in both] == [11 if r["values"]["train-fraction"] == "0.5" else 22] * 2
        values = [x["metrics"]["dev"]["accuracy"] for x in both]
        assert r["metrics"]["dev"]["accuracy"]["values"] == values and "test" in r["metrics"]
        first = [result(f"{folder}/seed{seed}".replace("dafa", "bert"))["metrics"]["dev"]["accuracy"] for seed in (0, 1)]
        assert r["difference"]["dev"]["accuracy"]["values"] == [x - y for x, y in zip(values, first, strict=True)]
        cell = r["metrics"]["test"]["accuracy"]
        assert f"{100 * cell['mean']:.1f} ({100 * cell['std']:.1f})" in printed
    assert run("--model", "dafa", "--train-fraction", "0.5", "--seed", "1", "--epochs", "1", out="alone") == 0
    assert_same_run("alone", "run/model=dafa,train-fraction=0.5/seed1")
    head = next(line for line in printed.splitlines() if line.startswith("model  "))
    assert "0.5 (test accuracy)" in head and "1 (test accuracy)" in head
    assert "difference from bert, 2 seeds, 95 % interval" in printed
    assert train.main(["--from", "run/model=dafa,train-fraction=1", "--test"]) == 0


def test_vary_one_option(capsys):
    """A row for each value, a column for each metric; none is the whole model; one seed has no interval."""
    assert run("--vary", "without", "none", "tree,gates", "--model", "dafa", "--epochs", "1") == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    head = next(i for i, line in enumerate(lines) if line.split() == "without dev accuracy dev f1".split())
    assert "interval" not in printed and "difference from none" in lines
    whole, part = result(name="vary.json")["runs"]
    assert whole["difference"]["dev"]["accuracy"] == {"mean": 0, "low": None, "high": None, "values": [0]}
    assert part["values"] == {"without": "tree,gates"}
    assert [result(f"run/without={x}")["settings"]["without"] for x in ("none", "tree,gates")] == ["none", "tree,gates"]
    assert result("run/without=none")["new_parameters"] > result("run/without=tree,gates")["new_parameters"]
    assert [line.split() for line in lines[head + 1:head + 3]] == [
        [name, *(f"{100 * x['metrics']['dev'][metric]['mean']:.1f}" for metric in ("accuracy", "f1"))]
        for name, x in (("none", whole), ("tree,gates", part))]


@pytest.mark.parametrize("args, sizes, rows, steps", [
    (DRRNET, "STEPS=2, LAYERS=1", 2, 2), (LADRANET, "STEPS=3,KERNELS=1", 2, 3), (LADRANET, "KERNELS=2+1+3", 4, 5)], ids=str)
def test_sizes_of_the_rereading_models(args, sizes, rows, steps, capsys):
    """A row of what is read for each sentence or kernel and the pieces, a word for each step; a run remembers its sizes."""
    assert run(*args, "--sizes", sizes, "--epochs", "1") == 0
    assert train.main(["--from", "run", "--predict", "test.tsv", "--show-reading"]) == 0
    first = capsys.readouterr().out.split("\n\n")[-3].splitlines()[-rows:]
    assert [line.count("→") + 1 for line in first] == [steps] * rows
    model = train.load_run(Path("run"), {})[2]
    assert len(model.grus if args is DRRNET else model.first) == rows - 1


def test_vary_table(capsys):
    """By hand; 12.7062 is Student's t with one degree of freedom. Phenomena are in the file, not in the table."""
    def runs(*values):
        return [{"seed": s, "best_epoch": 3, "selection_split": "dev", "metrics": {"dev": {"accuracy": x, "voice": 0.5}}}
                for s, x in enumerate(values)]
    found = {("bert", "1"): runs(0.5, 0.75), ("bert", "all"): runs(0.25, 0.25),
             ("dafa", "1"): runs(0.75, 1.0), ("dafa", "all"): runs(0.5, 0.75)}
    train.report_variants([["model", "bert", "dafa"], ["limit", "1", "all"]], found, Path("."))
    text = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    text = [[cell.strip() for cell in line if cell.strip()] for line in text]
    assert text == [[], ["model", "1 (dev accuracy)", "all (dev accuracy)"], ["bert", "62.5 (17.7)", "25.0 (0.0)"],
                    ["dafa", "87.5 (17.7)", "62.5 (17.7)"],                 # 17.7 = 25 / √2
                    [], ["difference from bert, 2 seeds, 95 % interval"], ["model", "1 (dev accuracy)", "all (dev accuracy)"],
                    ["dafa", "+25.0 (+25.0 to +25.0)", "+37.5 (-121.3 to +196.3)"]]    # 37.5 ± 12.7062 · 12.5
    assert result(".", "vary.json")["runs"][3]["difference"]["dev"]["accuracy"]["values"] == [0.25, 0.5]


def test_a_run_of_other_code(capsys):
    """Weights under names that the model has not: one line that names the file."""
    assert run("--epochs", "1") == 0
    state = loaded("run/best.pt")
    torch.save({name.replace("pooler", "pool"): x for name, x in state.items()}, "run/best.pt")
    capsys.readouterr()
    assert train.main(["--from", "run", "--predict", "test.tsv"]) == 2
    line = the_line(capsys)
    assert "run/best.pt" in line and "train anew" in line and "pooler" in line


def test_vary_is_resumed(monkeypatch):
    assert train.main([*VARY, "--out", "whole"]) == 0
    with monkeypatch.context() as patch:
        at_call(patch, torch.nn.utils, "clip_grad_norm_", 8, interrupt)
        assert train.main([*VARY, "--out", "cut"]) == 130 and not Path("cut/vary.json").exists()
    assert train.main(["--vary", "model", "bert", "dafa", "--resume", "--out", "cut"]) == 2, "another group"
    assert train.main(["--vary", "model", "bert", "dafa", "--resume", "--out", "cut/model=bert,train-fraction=1/seed0"]) == 2
    assert train.main(["--resume", "--out", "cut"]) == 0
    assert result("whole", "vary.json") == result("cut", "vary.json")
    assert_same_run("whole/model=dafa,train-fraction=1/seed1", "cut/model=dafa,train-fraction=1/seed1")


def test_a_test_split_without_labels_is_refused_before_training(monkeypatch, capsys):
    pairs = tasks.read_pairs("train.tsv", ("0", "1"))
    task = tasks.Task("rte", ("not_entailment", "entailment"), ("accuracy",))
    monkeypatch.setattr(tasks, "load_task", lambda *args: (task, {"train": pairs, "dev": pairs, "test": [tasks.Pair("a", "b")]}))
    assert train.main(["--task", "rte", "--bert", TINY, "--max-length", "48", "--vary", "model", "bert", "dafa", "--test"]) == 2
    assert "rte has no labelled test split" in the_line(capsys) and not Path("runs").exists()


@pytest.mark.parametrize("freedom, expected", [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (30, 2.0423)])
def test_t_quantile_is_the_printed_table(freedom, expected):
    assert train.t_quantile(freedom) == pytest.approx(expected, abs=2e-4)


def test_glue_submission(monkeypatch):
    """A split without labels is written as GLUE takes it: index from 0 in the file's order, and the class's name."""
    pairs = tasks.read_pairs("train.tsv", ("0", "1"))
    blind = [tasks.Pair(p.a, p.b) for p in tasks.read_pairs("test.tsv", ("0", "1"))]
    task = tasks.Task("rte", ("not_entailment", "entailment"), ("accuracy",))
    monkeypatch.setattr(tasks, "load_task", lambda *args: (task, {"train": pairs, "dev": pairs[:8], "test": blind}))
    assert train.main(["--task", "rte", "--bert", TINY, "--max-length", "48", "--model", "bert", "--epochs", "1",
                       "--out", "rte", "--device", "cpu"]) == 0
    assert train.main(["--from", "rte", "--predict", "test"]) == 0
    assert train.main(["--from", "rte", "--predict", "test.tsv"]) == 2      # its labels are not this task's
    header, *rows = Path("rte/rte-test.tsv").read_text().splitlines()
    assert header == "index\tprediction" and [row.split("\t")[0] for row in rows] == [str(i) for i in range(9)]
    Path("blind.tsv").write_text("sentence1\tsentence2\n" + "".join(f"{p.a}\t{p.b}\n" for p in blind))
    assert train.main(["--from", "rte", "--predict", "blind.tsv"]) == 0
    same = [line.split("\t")[2] for line in Path("rte/predictions-blind.tsv").read_text().splitlines()[1:]]
    assert [row.split("\t")[1] for row in rows] == same
