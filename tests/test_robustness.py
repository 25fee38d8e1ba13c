"""experiments/robustness.py: what becomes of labels and texts; seed and texts alone decide it."""
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import train
from experiments import robustness
from experiments.robustness import TRANSFORMATIONS, Thesaurus, label_rule, transform
from small_runs import ChainParser, of
from support.data import SOURCES, Pair, Task
from support.parser import load_parser
from support.parses import Parse, parse_texts, split_words
from support.toy import LEXICON as TOY_LEXICON
from support.toy import toy_task

MRPC = Task("mrpc", ("0", "1"), ("accuracy", "f1"))
MNLI = Task("mnli", ("entailment", "neutral", "contradiction"), ("accuracy",))


class FewWords:
    """What a Thesaurus says of a few words, and of those of the toy world: antonyms, synonyms."""
    WORDS = {("big", "ADJ"): ("small", "large"), ("good", "ADJ"): ("bad", ""),
             ("able", "ADJ"): ("unable", ""), ("wife", "NOUN"): ("husband", ""),
             ("man", "NOUN"): ("woman", ""), ("minister", "NOUN"): ("layman", ""),
             ("up", "ADV"): ("down", ""), ("movie", "NOUN"): ("", "film")}

    def find_words(self, word, tag, antonyms):
        known = TOY_LEXICON["antonym" if antonyms else "synonym"]
        return self.WORDS.get((word, tag), ("", ""))[not antonyms].split() or [
            y for x, y in known if x == word]

    def is_expression(self, *words):
        return words == ("prime", "minister")


LEXICON = SimpleNamespace(wordnet="few words")


@pytest.fixture(scope="module", autouse=True)
def few_words():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robustness, "Thesaurus", lambda wordnet: (
            FewWords() if wordnet == "few words" else Thesaurus(wordnet)))
        yield


# ------------------------------------------------------------------------------- sentences by hand

def parse(text, tags, relations=""):
    """A Parse of the text: a tag for each word, relations as word=relation, "dep" for others."""
    spans, tags = split_words(text), tuple(tags.split())
    known = dict(pair.split("=") for pair in relations.split())
    relations = tuple(known.get(text[i:j], "dep") for i, j in spans.tolist())
    return Parse(text, spans, tags, np.zeros(len(tags), np.int16), relations)


def changed_pairs(name, pair, *parses, task=MRPC, seeds=60):
    """All that becomes of a pair: "a | b | label"."""
    given = {parse.text: parse for parse in parses}
    found = [transform(name, task, [pair], seed, given, LEXICON) for seed in range(seeds)]
    return {f"{new.a} | {new.b} | {new.label}" for changed in found for _, new in changed}


def fill(pattern, found):
    """The pattern with each of these in the place of #, parted by "/"."""
    return "/".join(pattern.replace("#", str(one)) for one in found)


ADVERBS = robustness.ADVERBS
NAMES = [parse(f"by {name}", "ADP PROPN") for name in ("Rex", "Udo", "X-Ray2")]


@pytest.mark.parametrize("name, text, tags, expected", [
    ("SwapAnt", "Big car, good wife", "ADJ NOUN PUNCT ADJ NOUN",
     "Small car, good wife/Big car, bad wife/Big car, good husband"),
    ("SwapAnt", "An able man", "DET ADJ NOUN", "An able woman"),   # before u spelling does not tell
    ("SwapAnt", "prime minister's wife", "ADJ NOUN PART NOUN", "prime minister's husband"),
    ("SwapSyn", "a big movie", "DET ADJ NOUN", "a large movie/a big film"),
    ("NumWord", "in 2001", "ADP NUM", fill("in #", [2000, *range(2002, 2010)])),
    ("NumWord", "May 7", "PROPN NUM", fill("May #", [n for n in range(2, 29) if n != 7])),
    ("NumWord", "twelve", "NUM", "two/three/four/five/six/seven/eight/nine/ten/eleven"),
    ("NumWord", "500 of 700", "NUM ADP NUM", fill("#00 of 700/500 of #00", "234689")),
    ("NumWord", "at least two men", "ADP ADJ NUM NOUN", ""),
    ("NumWord", "007 9:30 1-2 \u0665 1e5 9/11", "NUM NUM NUM NUM NUM NUM", ""),
    ("InsertAdv", "He bit, not now", "PRON VERB PUNCT PART ADV | bit=conj",
     fill("He # bit, not now", ADVERBS)),
    ("InsertAdv", "No dog barks", "DET NOUN VERB | barks=root", ""),
    ("SwapNamedEnt", "Iraq fell. Iraq rose", "PROPN VERB PUNCT PROPN VERB",
     "Rex fell. Rex rose/Udo fell. Udo rose"),
    ("SwapNamedEnt", "In Iraq", "ADP PROPN", ""),                  # the only place
    ("TwitterType", "  You and your dog are @you great.", "X " * 8,
     "  U & ur dog r @you gr8."),
    ("AddPunc", " x\u3000", "X", fill(" #\u3000", ["... x", "-- x", "(x)", "* x *", "x!!", "x ...",
                                                   "x --"]))])
def test_sentences(name, text, tags, expected):
    """All that a sentence becomes. tags: with relations behind |."""
    sides, beside = TRANSFORMATIONS[name].sides, parse("No Iraq", "DET PROPN")
    pair = Pair(beside.text, text, 1) if sides == "b" else Pair(text, beside.text, 1)
    found = changed_pairs(name, pair, parse(text, *tags.split("|")), beside, *NAMES, seeds=250)
    found = {new.split(" | ")[sides in ("aa", "b")] for new in found} - {text}
    assert found == set(filter(None, expected.split("/")))


# ------------------------------------------------------------------------------------------ labels

DENIAL = {"mrpc": "0", "qqp": "0", "twitterurl": "0", "rte": "not_entailment", "scitail": "neutral",
          "mnli": "contradiction", "snli": "contradiction", "sick": "CONTRADICTION",
          "toy": "different"}


def test_label_rules():
    """Of all data sets: which transformation keeps the label, which makes it which, is refused."""
    known = {name: source.labels for name, source in SOURCES.items()}
    for name, labels in (known | {"toy": ("different", "same")}).items():
        denied = f"makes it {DENIAL[name]}" if name in DENIAL else ""
        expected = dict.fromkeys(TRANSFORMATIONS, "keeps") | {
            "SwapAnt": denied, "NumWord": denied, "AppendIrr": "keeps" if denied else "",
            "AddSent": "keeps" if denied and DENIAL[name] not in ("0", "different") else ""}
        task = Task(name, labels, ("accuracy",))
        assert {other: label_rule(other, task) for other in TRANSFORMATIONS} == expected, name


# --------------------------------------------------------------------------------------- any pairs

@pytest.fixture(scope="module")
def any_pairs():
    """Pairs of the toy world and odd ones, some without a label, and their parses."""
    pairs = toy_task()[1]["train"][::100] + [
        Pair("", "  x", 1), Pair("İstanbul\u2028fell 2.5 m", "\U0001f436 élan \u0663 İstanbul", 0),
        Pair("A. A.", "A. A.", 1), Pair("you, 1,100 You", "e\u0301 don't -- 7", 0)]
    texts = {text for pair in pairs for text in (pair.a, pair.b)}
    pairs = [replace(pair, label=None) if i % 5 == 0 else pair for i, pair in enumerate(pairs)]
    return pairs, parse_texts(texts, load_parser(), progress=False)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_any_pairs(any_pairs, name):
    """Only what the table says is edited; labels change as it says; seed and texts alone decide."""
    pairs, parses = any_pairs
    task, sides = (MNLI if name == "AddSent" else MRPC), TRANSFORMATIONS[name].sides
    shuffled = dict(random.Random(0).sample(sorted(parses.items()), len(parses)))

    def run(pairs, parses=parses, seed=1):
        translations = {text: text[::-1] for text in sorted(parses)[::2]}
        return transform(name, task, pairs, seed, parses, LEXICON, translations)
    found, rule = run(pairs), label_rule(name, task)
    for i, new in found:
        label = pairs[i].label if rule == "keeps" else task.labels.index(rule.split()[-1])
        assert new.label == label is not None and new.group == pairs[i].group
        assert (new.a, new.b) != (pairs[i].a, pairs[i].b)
        assert new.a == pairs[i].a or sides in ("a", "ab")
        assert new.b == pairs[i].b or sides in ("b", "ab", "aa")
    backwards = [(len(pairs) - 1 - i, new) for i, new in run(pairs[::-1], shuffled)]
    assert backwards[::-1] == found != []
    assert [(i, new) for i, pair in enumerate(pairs) for _, new in run([pair])] == found
    if name not in ("BackTrans", "TwitterType", "SwapSyn"):        # these have no choice here
        assert run(pairs, seed=2) != found


# ---------------------------------------------------------------------------------------- WordNet

@pytest.mark.parametrize("word, tag, antonyms, synonyms", [
    ("women", "NOUN", "men", ""), ("largest", "ADJ", "smallest", "biggest"),
    ("increased", "VERB", "decreased", ""), ("rose", "VERB", "", ""),
    ("better", "ADJ", "worse", ""),
    ("buying", "VERB", "selling", "purchasing"), ("up", "ADP", "", ""),
    ("car", "NOUN", "", "automobile"), ("first", "ADJ", "", "")])
def test_thesaurus_of_wordnet(word, tag, antonyms, synonyms, wordnet):
    """Common first senses, direct antonyms, certain forms."""
    thesaurus = Thesaurus(wordnet.wordnet)
    assert thesaurus.find_words(word, tag, True) == antonyms.split()
    assert thesaurus.find_words(word, tag, False) == synonyms.split()
    assert thesaurus.is_expression("Prime", "minister")


# ------------------------------------------------------------------------------------- the command

def test_the_command_measures_what_was_changed(monkeypatch, trained, capsys):
    """AddPunc changes every pair, BackTrans two, NumWord none, AddSent is refused."""
    run = train.open_run(trained(*of("bert"), "--epochs", "1"))
    pairs = [Pair(f"the dog {'x' * i}.", "A cat.", i % 3 % 2) for i in range(5)]
    Path("t.tsv").write_text('sentence\ttranslation\nthe dog x.\t"Hound."\n'
                             "the dog xxx.\tOld hound.\nthe dog .\tThe  Dog .\n")
    splits = {"dev": pairs, "test": [Pair("a", "b")]}
    monkeypatch.setattr(robustness, "load_pairs", lambda settings, limited: (run.task, splits))
    monkeypatch.setattr(robustness, "WordNet", lambda: LEXICON)
    monkeypatch.setattr(robustness, "load_parser", ChainParser)
    capsys.readouterr()
    robustness.main(["run", "--device", "cpu"])
    shown = capsys.readouterr().out
    assert "needs --translations" in shown and re.search("AddSent +refused", shown)
    robustness.main(["run", "--translations", "t.tsv"])
    result = json.loads(Path("run/robustness.json").read_text("utf-8"))
    found = result.pop("transformations")
    assert result == {"split": "dev", "metric": "accuracy", "seed": 0}
    assert found.keys() == set(TRANSFORMATIONS) - {"AddSent"}
    assert found["NumWord"] == {"label": "makes it 0", "pairs": 0, "before": None, "after": None}
    marked = [new for _, new in transform("AddPunc", MRPC, pairs)]
    back = [replace(pairs[1], a="Hound."), replace(pairs[3], a="Old hound.")]
    for name, before, after in (("AddPunc", pairs, marked), ("BackTrans", pairs[1:4:2], back)):
        assert found[name] == {"label": "keeps", "pairs": len(after),
                               "before": run.evaluate(before)["accuracy"],
                               "after": run.evaluate(after)["accuracy"]}
