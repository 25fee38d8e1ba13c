"""experiments/robustness.py: how texts and labels change; only the seed and the texts decide it."""
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import train
from experiments import robustness
from experiments.robustness import DENYING, TRANSFORMATIONS, Known, transform
from run import Run
from small_runs import ChainParser, loaded, of
from support.pairs import Pair, Task
from support.parses import Parse, split_words

MRPC = Task("mrpc", ("0", "1"), ("accuracy", "f1"))
WORDS = {("big", True): ["small"], ("big", False): ["large"], ("good", True): ["bad"],
         ("wife", True): ["husband"], ("movie", False): ["film"]}


class FewWords(Known):
    def related_words(self, word, tag, antonyms):
        return WORDS.get((word, antonyms), [])


def parse(text, tags, relations=""):
    """A Parse of the text. tags: one a word. relations: word=relation; other words have "dep"."""
    spans, tags = split_words(text), tuple(tags.split())
    by_word = dict(pair.split("=") for pair in relations.split())
    relations = tuple(by_word.get(text[i:j], "dep") for i, j in spans.tolist())
    return Parse(text, spans, tags, np.zeros(len(tags), np.int16), relations)


def fill(pattern, values):
    """The pattern with each value in the place of #, joined by "/"."""
    return "/".join(pattern.replace("#", value) for value in values)


@pytest.mark.parametrize("name, text, tags, expected", [
    ("SwapAnt", "big car, good wife", "ADJ NOUN PUNCT ADJ NOUN",
     "small car, good wife/big car, bad wife/big car, good husband"),
    ("SwapAnt", "a Good wife", "DET ADJ NOUN | wife=compound", ""),
    ("SwapAnt", "big! Don’t go", "ADJ PUNCT AUX PART VERB", ""),
    ("NumWord", "None of 7 men", "PRON ADP NUM NOUN", ""),
    ("SwapSyn", "a big movie", "DET ADJ NOUN", "a large movie/a big film"),
    ("NumWord", "in 2001", "ADP NUM", fill("in 200#", "023456789")),
    ("NumWord", "May 7", "PROPN NUM", fill("May #", "2345689")),
    ("NumWord", "twelve", "NUM", "two/three/four/five/six/seven/eight/nine/ten/eleven"),
    ("NumWord", "2 or 3", "NUM X NUM", fill("2 or #", "456789")),
    ("NumWord", "at least two men", "ADP ADJ NUM NOUN", ""),
    ("NumWord", "007 9:30 1-2 \u0665 1e5 9/11", "NUM NUM NUM NUM NUM NUM", ""),
    ("InsertAdv", "He bit, not now", "PRON VERB PUNCT PART ADV | bit=conj",
     fill("He # bit, not now", robustness.ADVERBS)),
    ("InsertAdv", "No dog barks", "DET NOUN VERB | barks=root", ""),
    ("SwapNamedEnt", "Iraq fell. Iraq rose", "PROPN VERB PUNCT PROPN VERB",
     "Rex fell. Rex rose/Udo fell. Udo rose"),
    ("SwapNamedEnt", "Iraq is Iraqi", "PROPN VERB ADJ", ""),
    ("AddSent", "a dog ", "DET NOUN", fill("a dog. #", robustness.TRUISMS)),
    ("AppendIrr", "a dog!", "DET NOUN", fill("a dog! #", robustness.IRRELEVANT)),
    ("TwitterType", " and your dog are @you great.", "X " * 7, " & ur dog r @you gr8."),
    ("AddPunc", " x\u3000", "X", fill("#", ["... x", "-- x", "(x)", "* x *", "x!!", "x ...",
                                            "x --"]))])
def test_sentences(name, text, tags, expected):
    """All that a sentence becomes, whatever pairs stand around it. Pairs without a label or without
    words are left out. tags: relations stand behind |."""
    beside = parse("No Iraq", "DET PROPN")
    pair = Pair(beside.text, text, 1) if name == "SwapSyn" else Pair(text, beside.text, 1)
    pairs = [replace(pair, label=None), pair, replace(pair, a=" "), replace(pair, b="")]
    parses = [parse(text, *tags.split("|")), beside,
              *(parse(f"by {other}", "ADP PROPN") for other in ("Rex", "Udo", "X-Ray2", "May"))]
    known, results = FewWords({made.text: made for made in parses}), set()
    for seed in range(250):
        changed = transform(name, MRPC, pairs, known, seed)
        assert changed == [(1, new) for _, new in transform(name, MRPC, [pair], known, seed)]
        for _, new in changed:
            assert new.label == (0 if name in DENYING else 1)
            results.add(new.b if name in ("SwapSyn", *DENYING) else new.a)
    assert results - {text} == set(filter(None, expected.split("/")))


@pytest.mark.parametrize("labels, kind, denial", [
    (("0", "1"), "paraphrase", "0"), (("entailment", "not_entailment"), "inference",
                                      "not_entailment"),
    (("NEUTRAL", "ENTAILMENT", "CONTRADICTION"), "inference", "CONTRADICTION"),
    ((), "other", None), (("a", "b"), "other", None)])
def test_labels(labels, kind, denial):
    """The kind of each task, and the class of a denial, which other tasks do not have."""
    task = Task("t", labels, ("accuracy",))
    assert robustness.task_kind(task) == kind
    assert denial is None or labels[robustness.denial_of(task)] == denial
    allowed = {name for name, (_, kinds) in TRANSFORMATIONS.items() if kind in kinds}
    assert {*DENYING}.isdisjoint(allowed) == (denial is None)
    assert ("AddSent" in allowed) == (kind == "inference")


@pytest.mark.parametrize("word, tag, antonyms, synonyms", [
    ("woman", "NOUN", "man", ""), ("women", "NOUN", "", ""), ("large", "ADJ", "small", "big"),
    ("increase", "VERB", "decrease", ""), ("bore", "VERB", "", ""), ("better", "ADJ", "worse", ""),
    ("buy", "VERB", "sell", "purchase"), ("up", "ADP", "", ""), ("car", "NOUN", "", "automobile"),
    ("company", "NOUN", "", ""), ("settlement", "NOUN", "", "")])  # colony, but in few of its uses
def test_related_words_of_wordnet(word, tag, antonyms, synonyms, wordnet):
    """Common first senses, direct antonyms, base forms."""
    known = Known({}, wordnet.wordnet)
    assert known.related_words(word, tag, True) == antonyms.split()
    assert known.related_words(word, tag, False) == synonyms.split()


def answer_by_length(run, pairs, *_, **__):
    """Logits: the second class if a has more than 11 letters."""
    long = torch.tensor([int(len(pair.a) > 11) for pair in run.examples(pairs).pairs])
    return torch.nn.functional.one_hot(long, 2).float()


def test_the_command_measures_what_was_changed(monkeypatch, trained, capsys):
    """AddPunc and SwapAnt change every pair, NumWord none, AddSent is left out."""
    saved = loaded(path := trained(*of("bert"), "--epochs", "1") / "best.pt")
    saved["task"]["metrics"] = "f1", "accuracy"  # as Twitter-URL; denials have one class, no F1
    torch.save(saved, path)
    run = train.open_run("run")
    pairs = [Pair(f"the dog {'x' * i}.", "A cat.", int(i > 2)) for i in range(5)]
    splits = {"dev": pairs, "test": [Pair("a", "b")]}
    monkeypatch.setattr(robustness, "whole_splits", lambda run: splits)
    monkeypatch.setattr(robustness, "load_wordnet", lambda: None)
    monkeypatch.setattr(robustness, "load_parser", ChainParser)
    monkeypatch.setattr(Run, "logits", answer_by_length)
    monkeypatch.setattr(robustness.Known, "related_words",
                        lambda known, word, tag, antonyms: ["cat"] * (antonyms and word == "dog"))
    capsys.readouterr()
    robustness.main(["run", "--device", "cpu"])
    shown = capsys.readouterr().out
    marked = [new for _, new in transform("AddPunc", run.task, pairs, Known({}))]
    before, after = (f"{100 * run.evaluate(some)['accuracy']:.1f}" for some in (pairs, marked))
    assert before != after and re.search(rf"AddPunc +keeps +5 +{before} +{after}", shown)
    assert re.search(r"SwapAnt +makes it 0 +5 +100.0 +60.0", shown)
    assert "AddSent" not in shown and "NumWord" not in shown
