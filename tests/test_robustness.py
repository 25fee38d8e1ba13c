"""experiments/robustness.py: what becomes of labels and texts; seed and texts alone decide it."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nltk
import numpy as np
import pytest
import torch

import priors
import train
from experiments import robustness
from experiments.robustness import TRANSFORMATIONS, Thesaurus, label_rule, transform
from support.options import guarded
from support.parser import load_parser
from support.parses import Parse, parse_texts, split_words
from support.tasks import SOURCES, Pair, Task
from support.toy import LEXICON as TOY_LEXICON
from support.toy import toy_task

NLTK_DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "nltk_data"
MRPC = Task("mrpc", ("0", "1"), ("accuracy", "f1"))
MNLI = Task("mnli", ("entailment", "neutral", "contradiction"), ("accuracy",))
STSB = Task("stsb", (), ("pearson", "spearman"))


class FewWords:
    """What a Thesaurus says of a few words, and of those of the toy world: antonyms, synonyms."""
    WORDS = {("big", "ADJ"): (["small"], ["large"]), ("good", "ADJ"): (["bad"], []),
             ("unable", "ADJ"): (["able"], []), ("able", "ADJ"): (["unable"], []),
             ("even", "ADJ"): (["odd"], []), ("wife", "NOUN"): (["husband"], []),
             ("man", "NOUN"): (["woman"], []), ("minister", "NOUN"): (["layman"], []),
             ("opened", "VERB"): (["closed"], []), ("up", "ADV"): (["down"], []),
             ("car", "NOUN"): ([], ["auto", "automobile"]), ("film", "NOUN"): ([], ["movie"]),
             ("movie", "NOUN"): ([], ["film"])}

    def find_words(self, word, tag, antonyms):
        known = TOY_LEXICON["antonym" if antonyms else "synonym"]
        return self.WORDS.get((word, tag), ([], []))[not antonyms] or [
            y for x, y in known if x == word]

    def is_expression(self, *words):
        return words in (("prime", "minister"), ("big", "day"))


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


DAYS, ADVERBS = [*range(2, 29)], robustness.ADVERBS
NAMES = [parse(f"by {name}", "ADP PROPN") for name in ("Rex", "Udo", "X-Ray2")]


@pytest.mark.parametrize("name, text, tags, expected", [
    ("SwapAnt", "The big dog.", "DET ADJ NOUN PUNCT", "The small dog."),
    ("SwapAnt", "Big car, good wife", "ADJ NOUN PUNCT ADJ NOUN",
     "Small car, good wife/Big car, bad wife/Big car, good husband"),
    ("SwapAnt", "An able man", "DET ADJ NOUN", "An able woman"),   # before u spelling does not tell
    ("SwapAnt", "an even car", "DET ADJ NOUN", "an odd car"), ("SwapAnt", "up", "ADP", ""),
    ("SwapAnt", "Big and small", "ADJ CCONJ ADJ", ""), ("SwapAnt", "is BIG", "AUX ADJ", ""),
    ("SwapAnt", "A Big car", "DET ADJ NOUN", ""), ("SwapAnt", "Big City", "ADJ NOUN", ""),
    ("SwapAnt", "prime minister's wife", "ADJ NOUN PART NOUN", "prime minister's husband"),
    ("SwapAnt", "a big day", "DET ADJ NOUN", ""), ("SwapAnt", "", "", ""),
    ("SwapAnt", "opened  “car”\u2028now", "VERB PUNCT NOUN PUNCT ADV", "closed  “car”\u2028now"),
    ("SwapAnt", "straße \U0001f436 big İ", "NOUN SYM ADJ X", "straße \U0001f436 small İ"),
    ("SwapAnt", "went up", "VERB ADV | up=compound:prt", ""),
    ("SwapAnt", "went up", "VERB ADV", "went down"),
    ("SwapSyn", "a big movie", "DET ADJ NOUN", "a large movie/a big film"),
    ("SwapSyn", "a car", "DET NOUN", ""), ("SwapSyn", "film or movie", "NOUN CCONJ NOUN", ""),
    ("NumWord", "He ate 1 egg", "PRON VERB NUM NOUN", ""), ("NumWord", "one egg", "NUM NOUN", ""),
    ("NumWord", "in 2001", "ADP NUM", fill("in #", [2000, *range(2002, 2010)])),
    ("NumWord", "May 7", "PROPN NUM", fill("May #", [n for n in DAYS if n != 7])),
    ("NumWord", "$ 4,500.25", "SYM NUM", fill("$ #,500.25", "2356789")),
    ("NumWord", "0.5 percent", "NUM NOUN", fill("#.5 percent", "23456789")),
    ("NumWord", "Thirty days", "NUM NOUN", fill(
        "# days", "Twenty Forty Fifty Sixty Seventy Eighty Ninety".split())),
    ("NumWord", "twelve", "NUM", "two/three/four/five/six/seven/eight/nine/ten/eleven"),
    ("NumWord", "a 5.5 point", "DET NUM NOUN", fill("a #.5 point", "234679")),
    ("NumWord", "an 80 year", "DET NUM NOUN", ""), ("NumWord", "an 18", "DET NUM", "an 8/an 11"),
    ("NumWord", "500 of 700", "NUM ADP NUM", fill("#00 of 700/500 of #00", "234689")),
    ("NumWord", "at least two men", "ADP ADJ NUM NOUN", ""),
    ("NumWord", "up to the 20", "ADP ADP DET NUM", ""),
    ("NumWord", "20 or more", "NUM CCONJ ADJ", ""),
    ("NumWord", "up to these last 20", "ADP ADP DET ADJ NUM",
     fill("up to these last #", [n for n in DAYS if n != 20])),
    ("NumWord", "007 9:30 1-2 \u0665 1e5 9/11 20m", "NUM NUM NUM NUM NUM NUM NUM", ""),
    ("InsertAdv", "The dog has barked.", "DET NOUN AUX VERB PUNCT | barked=root",
     fill("The dog has # barked.", ADVERBS)),
    ("InsertAdv", "He actually ate", "PRON ADV VERB | ate=root",
     fill("He actually # ate", ADVERBS[1:])),
    ("InsertAdv", "He bit, not now", "PRON VERB PUNCT PART ADV | bit=conj",
     fill("He # bit, not now", ADVERBS)),
    ("InsertAdv", "he's gone", "PRON AUX VERB | gone=ccomp", fill("he's # gone", ADVERBS)),
    *(("InsertAdv", *row, "") for row in [
        ("He barked", "PRON VERB | barked=amod"), ("to bark", "PART VERB | bark=root"),
        ("He barked", "PRON NOUN | barked=root"), ("Dogs Bark", "NOUN VERB | Bark=root"),
        ("No dog barks", "DET NOUN VERB | barks=root"), ("dog  bark", "NOUN VERB | bark=root")]),
    ("SwapNamedEnt", "Iraq fell. Iraq rose", "PROPN VERB PUNCT PROPN VERB",
     "Rex fell. Rex rose/Udo fell. Udo rose"),
    *(("SwapNamedEnt", *row, "") for row in [                      # In Iraq: the only place
        ("Iraq's Iraqis", "PROPN PART NOUN"), ("Iraq fell", "NOUN VERB"), ("In Iraq", "ADP PROPN"),
        ("Iraq Ohio fell", "PROPN PROPN VERB"), ("Iraq Day fell", "PROPN NOUN VERB"),
        ("North Iraq", "ADJ PROPN"), ("The Iraq of Udo", "DET PROPN ADP PROPN"),
        ("The Iraq & son", "DET PROPN CCONJ NOUN"), ("an Iraq", "DET PROPN")]),
    ("SwapNamedEnt", "Udo left Iraq", "PROPN VERB PROPN", "Udo left Rex"),
    ("SwapNamedEnt", "Rexes left Iraq", "NOUN VERB PROPN", "Rexes left Udo"),
    ("SwapNamedEnt", "a Iraq", "DET PROPN", "a Rex"),
    ("AddPunc", " x\u3000", "X", fill(" #\u3000", ["... x", "-- x", "(x)", "* x *", "x!!", "x ...",
                                                   "x --"]))])
def test_sentences(name, text, tags, expected):
    """All that a sentence becomes. tags: with relations behind |."""
    sides, beside = TRANSFORMATIONS[name].sides, parse("No Iraq", "DET PROPN")
    pair = Pair(beside.text, text, 1) if sides == "b" else Pair(text, beside.text, 1)
    found = changed_pairs(name, pair, parse(text, *tags.split("|")), beside, *NAMES, seeds=250)
    found = {new.split(" | ")[sides in ("aa", "b")] for new in found} - {text}
    assert found == set(filter(None, expected.split("/")))


def test_articles():
    """A stands before words, an before others, neither where spelling does not tell."""
    right = {"a": "good 7 12 110 1800 1,100 x-ray", "an": "apple idea eight 8 80 8.5 11 18 11,000"}
    for article, other in (("a", "an"), ("an", "a")):
        unclear = "hour home unit umbrella European one FBI US élan \U0001f436"
        assert all(robustness.fits_behind(article, word) for word in right[article].split())
        assert not any(robustness.fits_behind(article.title(), word)
                       for word in f"{right[other]} {unclear}".split())
        assert all(robustness.fits_behind(before, unclear) for before in ("the", "", "Ann"))


@pytest.mark.parametrize("text, expected", [
    ("You and your dog are great.", "U & ur dog r gr8."), ("With you", "W/ u"), ("  You", "  U"),
    ("see You", "see You"), ("(you), YOU you-know you're @you #and and/or éyou you",
                             "(u), YOU you-know you're @you #and and/or éyou u")])
def test_twitter_spelling(text, expected):
    found = transform("TwitterType", MRPC, [Pair(text, "x", 1)])
    assert [new.a for _, new in found] == ([] if text == expected else [expected])


A, B = "Ann Lee saw Iraq in May.", "In May, Iraq saw Ann Lee."
NAMED = [parse(A, "PROPN PROPN VERB PROPN ADP PROPN PUNCT"),
         parse(B, "ADP PROPN PUNCT PROPN VERB PROPN PROPN PUNCT")]


def test_names_become_names_of_their_kind():
    """In both sentences: as many words, places for places, months for months, no acronyms."""
    others = [parse("in Ohio.", "ADP PROPN PUNCT"), parse("by Bo Ek", "ADP PROPN PROPN"),
              parse("by Mr. X", "ADP PROPN PROPN"), *NAMES[:1],
              *(parse(text, "ADP PROPN") for text in ("in July", "by NATO"))]
    found = changed_pairs("SwapNamedEnt", Pair(A, B, 1), *NAMED, *others)
    assert found == {"Bo Ek saw Iraq in May. | In May, Iraq saw Bo Ek. | 1",
                     "Ann Lee saw Rex in May. | In May, Rex saw Ann Lee. | 1",
                     "Ann Lee saw Iraq in July. | In July, Iraq saw Ann Lee. | 1"}
    assert not changed_pairs("SwapNamedEnt", Pair(A, B, 1), *NAMED)      # nothing else to name
    others.append(parse("in Iraq", "ADP PROPN"))
    assert "Ann Lee saw Ohio in May. | In May, Ohio saw Ann Lee. | 1" in changed_pairs(
        "SwapNamedEnt", Pair(A, B, 1), *NAMED, *others)


def test_sentences_are_added():
    """An irrelevant one behind both, a truism behind the premise; a full stop where none is."""
    pair, soup = Pair("He ate", "He ate it.", 1), Pair("The soup?", '"He slept under a piano."', 0)
    assert changed_pairs("AppendIrr", pair) == {
        f"He ate. {new} | He ate it. {new} | 1" for new in robustness.IRRELEVANT}
    assert changed_pairs("AddSent", pair, task=MNLI) == {
        f"He ate. {new} | He ate it. | 1" for new in robustness.TRUISMS}
    assert changed_pairs("AppendIrr", soup) == {
        f'The soup? {new} | "He slept under a piano." {new} | 0'
        for new in robustness.IRRELEVANT if "soup" not in new and "under" not in new}
    assert changed_pairs("AppendIrr", Pair("a", "  ", 0)) == set()


def test_back_translation(tmp_path):
    """Other words count, other spaces and capitals do not."""
    file = tmp_path / "t.csv"
    file.write_text("sentence,translation\nA dog.,One dog.\nA cat.,a  CAT.\nIt.,\n", "utf-8")
    translations = robustness.read_translations(file)
    pairs = [Pair("A dog.", "A cat.", 1), Pair("A cat.", "It.", 1), Pair("y", "A dog.", 0, "g")]
    assert transform("BackTrans", MRPC, pairs, translations=translations) == [
        (0, Pair("One dog.", "A cat.", 1)), (2, Pair("y", "One dog.", 0, "g"))]


def test_words_that_share_a_place_stay():
    """A token of two words (du = de + le) cannot be edited word by word."""
    text = Parse("du 20", np.array([[0, 2], [0, 2], [3, 5]], np.int32), ("NUM", "PROPN", "NUM"),
                 np.zeros(3, np.int16), ("dep",) * 3)
    words = robustness.Given({text.text: text}, None, None).words(text.text)
    assert [(word.text, word.tag) for word in words] == [("du", ""), ("du", ""), ("20", "NUM")]


# ------------------------------------------------------------------------------------------ labels

DENIAL = {"mrpc": "0", "qqp": "0", "twitterurl": "0", "rte": "not_entailment", "scitail": "neutral",
          "mnli": "contradiction", "snli": "contradiction", "sick": "CONTRADICTION"}


@pytest.mark.parametrize("name", SOURCES)
def test_label_rules(name):
    """Of all data sets: which transformation keeps the label, which makes it which, is refused."""
    denied = f"makes it {DENIAL[name]}" if name in DENIAL else ""
    expected = dict.fromkeys(TRANSFORMATIONS, "keeps") | {
        "SwapAnt": denied, "NumWord": denied, "AppendIrr": "keeps" if denied else "",
        "AddSent": "keeps" if denied and denied[-1] != "0" else ""}
    task = Task(name, SOURCES[name].labels, ("accuracy",))
    assert {other: label_rule(other, task) for other in TRANSFORMATIONS} == expected


@pytest.mark.parametrize("labels, kind", [
    (("0", "1"), "paraphrase"), (("different", "same"), "paraphrase"), (("0", "1", "2"), "other"),
    (("Entailment", "Not_Entailment"), "inference"), (("entailment", "unknown"), "other"),
    ((), "other")])
def test_kinds_of_own_tasks(labels, kind):
    assert robustness.task_kind(Task("own", labels, ())) == kind


@pytest.mark.parametrize("name, task, parses, lexicon, message", [
    ("SwapAnd", MRPC, None, None, "no 'SwapAnd'; expected one of SwapAnt, NumWord, .*SwapSyn"),
    ("SwapAnt", STSB, None, None, "SwapAnt .*labels of stsb; possible are InsertAdv, .*SwapSyn$"),
    ("NumWord", MRPC, None, None, "NumWord needs parses"),
    ("BackTrans", MRPC, None, None, "BackTrans needs translations"),
    ("SwapAnt", MRPC, NAMED, priors.Table({}), "SwapAnt needs lexicon, a priors.WordNet"),
    ("NumWord", MRPC, NAMED[1:], None, "parses lacks 1 texts of the pairs, such as 'Ann Lee saw")])
def test_refusals(name, task, parses, lexicon, message):
    parses = parses and {parse.text: parse for parse in parses}
    with pytest.raises(ValueError, match=f"^transform: .*{message}") as error:
        transform(name, task, [Pair(A, B, 1)], parses=parses, lexicon=lexicon)
    assert "\n" not in str(error.value)


def test_unlabelled_pairs_and_pairs_that_do_not_change():
    """A kept label must be there; a denial has one whatever stood there."""
    text = parse("Two men left", "NUM NOUN VERB")
    pairs = [Pair(text.text, text.text), Pair(text.text, text.text, 1, "g"), Pair("", "")]
    found = transform("NumWord", MNLI, pairs[:2], parses={text.text: text})
    assert [(i, new.label, new.group) for i, new in found] == [(0, 2, ""), (1, 2, "g")]
    assert [i for i, _ in transform("AddPunc", MRPC, pairs)] == [1]
    scored = [replace(pair, label=0.0) for pair in pairs]
    assert [i for i, _ in transform("AddPunc", STSB, scored)] == [0, 1]
    there = parse("Five men left", "NUM NOUN VERB")                # that pair is there already
    found = changed_pairs("NumWord", Pair(text.text, there.text, 1), text, there, seeds=250)
    assert len(found) == 9 and f"{text.text} | {there.text} | 0" not in found


# --------------------------------------------------------------------------------------- any pairs

@pytest.fixture(scope="module")
def any_pairs():
    """Pairs of the toy world and odd ones, some without a label, and their parses."""
    pairs = toy_task(train=8, held_out=4)[1]["train"] + [
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

@pytest.mark.parametrize("base, ending, pos, form", [
    ("carry", "ed", "v", "carried"), ("carry", "s", "v", "carries"), ("play", "s", "v", "plays"),
    ("agree", "ing", "v", "agreeing"), ("love", "ing", "v", "loving"), ("love", "ed", "v", "loved"),
    ("stop", "ed", "v", "stopped"), ("rise", "ed", "v", None), ("find", "ing", "v", "finding"),
    ("lose", "s", "v", "loses"), ("miss", "s", "v", "misses"), ("human", "s", "n", "humans"),
    ("policeman", "s", "n", "policemen"), ("wife", "s", "n", "wives"), ("brother", "s", "n", None),
    ("auto", "s", "n", None), ("video", "s", "n", "videos"), ("odd", "er", "a", "odder"),
    ("dry", "est", "a", "driest"), ("modern", "er", "a", None), ("good", "er", "a", "better")])
def test_inflection(base, ending, pos, form):
    """None where the form may be irregular or another."""
    known = {"n": {"wives": ["wife"], "brothers": ["brother"], "brethren": ["brother"]}, "v": {
        "stopped": ["stop"], "stopping": ["stop"], "rose": ["rise"], "found": ["find"],
        "lost": ["lose"], "loses": ["loose"]}, "a": {"better": ["good"]}, "r": {}}
    thesaurus = Thesaurus(SimpleNamespace(_exception_map=known))
    assert thesaurus.inflect(base, ending, pos) == form


def test_thesaurus_of_wordnet():
    """Word, tag: antonyms, synonyms. Common first senses, direct antonyms, certain forms."""
    if NLTK_DATA.exists() and str(NLTK_DATA) not in nltk.data.path:
        nltk.data.path.append(str(NLTK_DATA))
    try:
        thesaurus = Thesaurus(priors.load_wordnet())
    except ValueError as problem:
        pytest.skip(str(problem))
    table = """
        women NOUN: men, | largest ADJ: smallest, biggest | increased VERB: decreased,
        rose VERB: , | found VERB: , | doctors NOUN: , physicians
        buying VERB: selling, purchasing | up ADP: , | better ADJ: worse, | the DET: ,
        minister NOUN: , | up ADV: down, | potatoes NOUN: , | state NOUN: , | weapons NOUN: ,
        car NOUN: , automobile | authorities NOUN: , | city NOUN: , | first ADJ: ,
        purchased VERB: , | photos NOUN: , | cheaper ADJ: , | attends VERB: misses,
        schemes NOUN: , strategies | babies NOUN: , babes infants | later ADV: , | added VERB: ,
        year NOUN: , | main ADJ: , principal | boxes VERB: , | parents NOUN: children,"""
    for line in table.strip().replace("\n", "|").split("|"):
        word, tag, found = line.split(maxsplit=2)
        antonyms, synonyms = (part.split() for part in found.split(","))
        for _ in range(2):                                         # the second time from memory
            assert thesaurus.find_words(word, tag.rstrip(":"), True) == antonyms, word
            assert thesaurus.find_words(word, tag.rstrip(":"), False) == synonyms, word
    assert thesaurus.is_expression("Prime", "minister") and not thesaurus.is_expression("", "up")
    assert not thesaurus.is_expression("green", "minister")


# ------------------------------------------------------------------------------------- the command

class Parser:
    """A parser for which every word is an X."""
    fingerprint = "x"

    def parse(self, sentences):
        return [(["X"] * len(words), [0] * len(words), ["dep"] * len(words)) for words in sentences]


class Run:
    """A run that answers by the length of a."""
    settings, task = SimpleNamespace(model="dafa", seed=3, parses=None), MRPC

    def __init__(self, folder):
        self.folder = folder

    def logits(self, pairs):
        return torch.tensor([[0.5, len(pair.a) % 2] for pair in pairs])

    def evaluate(self, pairs):
        return {"accuracy": np.mean([pair.label == len(pair.a) % 2 for pair in pairs]), "f1": 0.0}


def test_the_command_measures_what_was_changed(monkeypatch, tmp_path, capsys):
    """AddPunc changes every pair, BackTrans two, NumWord none, AddSent is refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.tsv").write_text("sentence\ttranslation\nDog x.\tHound.\nDog xxx.\tOld hound.\n")
    pairs = [Pair(f"Dog {'x' * i}.", "A cat.", i % 3 % 2) for i in range(5)]
    splits, run, asked = {"dev": pairs, "test": [Pair("a", "b")]}, Run(tmp_path), {}
    monkeypatch.setattr(train, "open_run", lambda folder, **more: asked.update(more) or run)
    monkeypatch.setattr(train, "load_pairs", lambda settings, limited: (MRPC, splits))
    monkeypatch.setattr(robustness, "WordNet", lambda: LEXICON)
    monkeypatch.setattr(robustness, "load_parser", Parser)
    assert guarded(robustness.main, "x", ["run", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert asked == {"device": "cpu"} and "dafa on mrpc dev, 5 pairs" in shown
    assert "needs --translations" in shown and re.search("AddSent +refused", shown)
    assert guarded(robustness.main, "x", ["run", "--translations", "t.tsv"]) == 0
    result = json.loads((tmp_path / "robustness.json").read_text("utf-8"))
    found = result.pop("transformations")
    assert result == {"split": "dev", "metric": "accuracy", "seed": 3}
    assert found.keys() == set(TRANSFORMATIONS) - {"AddSent"}
    assert found["NumWord"] == {"label": "makes it 0", "pairs": 0, "before": None, "after": None}
    marked = [new for _, new in transform("AddPunc", MRPC, pairs, 3)]
    back = [replace(pairs[1], a="Hound."), replace(pairs[3], a="Old hound.")]
    for name, before, after in (("AddPunc", pairs, marked), ("BackTrans", pairs[1:4:2], back)):
        assert found[name] == {"label": "keeps", "pairs": len(after),
                               "before": run.evaluate(before)["accuracy"],
                               "after": run.evaluate(after)["accuracy"]}


def test_mistakes_are_one_line(capsys):
    for arguments in (["no-such-run"], ["run", "--translations", "missing.tsv"], []):
        assert guarded(robustness.main, "robustness", arguments) == 2
        said = capsys.readouterr().err
        assert said.startswith("robustness: ") and said.count("\n") == 1
