"""Runs of less than a second on generated files of pairs, and helpers that check runs."""
import contextlib
import csv
import io
import json
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import train
from run import new_run
from settings import read_options
from support.datasets import load_pairs
from support.options import run_command

ROOT = Path(__file__).resolve().parent.parent
TINY = str(ROOT / "tests/fixtures/tiny_bert_hf")  # 2 layers, 32 columns, 97 pieces, 48 positions
WORDS = ("the dog cat new york to from is not good bad seattle book flight apple company of and in "
         "on").split()
OWN = ("--train-file train.tsv --dev-file dev.tsv --max-length 48 --device cpu --batch-size 8 "
       "--epochs 2 --lr 1e-3 --precision fp32").split()
MODELS = "bert", "dabert", "dafa", "knowledge", "drrnet", "ladranet"
RELATED = {"synonym": [("dog", "cat")], "antonym": [("good", "bad")],
           "hypernym": [("seattle", "new")], "cohyponym": [("book", "flight")]}


class ChainParser:
    """A parser in whose trees each word depends on the word before it."""

    fingerprint = "chain"

    @staticmethod
    def parse(sentences):
        return [(["X"] * len(words), list(range(len(words))), ["root", *["dep"] * (len(words) - 1)])
                for words in sentences]


def write_file(folder, name, content):
    """Writes text or bytes into a file, and makes its folder. Returns: its path."""
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def zipped(files):
    """The bytes of a zip. files: dict path in it -> text or bytes"""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def write_pairs(label, **counts):
    """Writes `count` pairs into NAME.tsv for each NAME=count. label: of (rng, does b equal a)."""
    for name, count in counts.items():
        rng, lines = random.Random(f"{name}.tsv 0"), ["sentence1\tsentence2\tlabel"]
        for i in range(count):
            a, same = rng.choices(WORDS, k=rng.randint(1, 12)), i % 2
            b = a if same else rng.choices(WORDS, k=rng.randint(1, 12))
            lines.append("\t".join([" ".join(a), " ".join(b), str(label(rng, same))]))
        Path(f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")


def of(model, sizes=""):
    """Options of a model in its smallest form. sizes: more for --set."""
    if model == "drrnet":
        small = "WORD_SIZE=23,CHARACTER_SIZE=7,HIDDEN_SIZE=11,ATTENTION_SIZE=5"
        return ["--model", model, "--bert", "none", "--set", f"{small},{sizes}"]
    return ["--model", model, "--bert", TINY, "--set", sizes]


def gentle(model, sizes=""):
    """The same, but choices (BETA) are not so sharp that rounding decides them."""
    return of(model, sizes + ",BETA=7" * (model in ("drrnet", "ladranet")))


def command(*args):
    """Exit status of train.py."""
    return run_command(train.main, "train.py", [str(arg) for arg in args])


def run(*args, out="run"):
    """Exit status of a training of plain BERT on the own files; a later option overrides."""
    return command(*OWN, *of("bert"), "--out", out, *args)


def beginning(*args):
    """The start of a run: (Run, dict split -> batches.Examples, model, names of new weights)."""
    given = train.command_line().parse([*OWN, *of("bert"), *map(str, args)])
    settings, recipe = read_options(given)
    made, examples = new_run(settings, recipe, Path("run"), *load_pairs(settings))
    return made, examples, made.model, made.begun["new_parameters"]


def loaded(path):
    return torch.load(path, weights_only=True)


def result(out="run", name="result.json"):
    return json.loads((Path(out) / name).read_text("utf-8"))


def events(out="run"):
    return [json.loads(line) for line in (Path(out) / "log.jsonl").read_text("utf-8").splitlines()]


def losses(out="run"):
    """The loss of each step; all are finite."""
    numbers = [event["loss"] for event in events(out) if "loss" in event]
    assert numbers and np.isfinite(numbers).all()
    return numbers


def rows_of(path):
    """The rows of a file of predictions, a list of dicts, as the csv module reads them."""
    tabs = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, **({} if str(path).endswith(".csv") else tabs)))


@contextlib.contextmanager
def one_line(words):
    """Context manager: the code inside writes one line on stderr, which has all these words."""
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        yield
    error = stderr.getvalue()
    assert error.count("\n") == 1 and error[-1] == "\n", error
    assert all(word in error for word in words.split()), error


def refused(words, *args, by=command, **options):
    """A user's mistake: the exit status is 2, and one line has all these words."""
    with one_line(words):
        assert by(*args, **options) == 2, args


def fails(call, *words):
    """The call raises a ValueError of one line that has all these words."""
    with pytest.raises(ValueError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and all(str(word) in text for word in words), text


def equal(x, y):
    """Are two dicts of tensors equal, bit for bit?"""
    return x.keys() == y.keys() and all(
        x[name].dtype == y[name].dtype and torch.equal(x[name], y[name]) for name in x)


def assert_same_run(one, other):
    """Two runs wrote the same, but for seconds and names of folders."""
    assert (Path(one) / "log.jsonl").read_text() == (Path(other) / "log.jsonl").read_text()
    assert equal(*(loaded(f"{folder}/best.pt")["weights"] for folder in (one, other)))
    for name in ("metrics", "best_epoch", "seed", "pairs", "parameters", "new_parameters"):
        assert result(one)[name] == result(other)[name], name
    assert not list(Path(other).rglob("*.tmp")) and not Path(other, "last.pt").exists()


def assert_like_weights(one, other, atol=3e-5):
    """Biases of keys are left out: no output depends on them, so their gradient is rounding."""
    one, other = ({name: x for name, x in weights.items() if not name.endswith("key.bias")}
                  for weights in (one, other))
    torch.testing.assert_close(one, other, rtol=0, atol=atol)


def interrupt():
    raise KeyboardInterrupt


def at_call(monkeypatch, owner, name, number, action=interrupt):
    """Call number `number` of owner.name does `action` first. Returns: all calls' arguments."""
    real, calls = getattr(owner, name), []

    def wrapper(*args, **kwargs):
        calls.append(args)
        if len(calls) == number:
            action()
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapper)
    return calls


def run_cut(monkeypatch, args, place=(torch.nn.utils, "clip_grad_norm_", 5), seconds=-1):
    """A run in "cut", interrupted at this call of a function. seconds: between checkpoints."""
    with monkeypatch.context() as patch:
        at_call(patch, *place)
        patch.setattr(train, "SAVE_SECONDS", seconds)
        patch.setattr(train, "LOG_EVERY", 1)
        assert run(*args, out="cut") == 130
    assert not Path("cut/result.json").exists()
