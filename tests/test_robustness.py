"""tasks.py, robustness: what becomes of the label, what becomes of the text, and that only seed and texts decide."""
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nltk
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import priors
import tasks
from tasks import TRANSFORMATIONS, Pair, Task, label_rule, transform

quick = settings(derandomize=True, deadline=None, max_examples=150)
REAL = Path(__file__).resolve().parent.parent.parent / "shared"
MRPC = Task("mrpc", ("0", "1"), ("accuracy", "f1"))
MNLI = Task("mnli", ("entailment", "neutral", "contradiction"), ("accuracy",))
STSB = Task("stsb", (), ("pearson", "spearman"))


# ------------------------------------------------------------------------------------------ a small WordNet

class Lemma:
    def __init__(self, name, count):
        self.name, self.count, self.against = lambda: name, lambda: count, []

    def antonyms(self):
        return self.against


class Synset:
    def __init__(self, members):
        self.members = members

    def lemmas(self):
        return self.members

    def lemma_names(self):
        return [lemma.name() for lemma in self.members]


class Small:
    """A WordNet with the methods of nltk's that tasks.Thesaurus calls. Lines are senses, words with their counts in
    SemCor; of two lines with a word, the first is its first sense, and the last may have an antonym."""
    SENSES = """
        a big:9 large:8 bulky:1 | a small:9 | a good:9 | a bad:9 | a able:5 | a unable:4 | a even:7 | a odd:6
        a better:5 | a worse:5 | a modern:9 | a nonmodern:0 | a happy:5 | a unhappy:4
        a fast:5 firm:1 | a fast:3 quick:1 | a slow:5
        n film:9 movie:8 flick:2 | n film:1 layer:6 | n woman:9 | n man:9 | n day:9 | n night:9 | n box:5 case:4 | n case:9
        n wife:9 | n husband:9 | n city:9 town:3 | n peace:9 | n war:9 | n hour:5 minute:5 | n prime_minister:5
        n documents:5 papers:5 paper:4 | n human:5 mortal:5 | n car:9 auto:3 automobile:5 USA:9 | n ally:5 | n enemy:5
        v open:9 | v close:9 | v buy:9 purchase:5 | v stop:9 halt:3 | v start:9 begin:5 | v carry:5 bear:1 | v drop:5
        v rise:9 | v fall:9 | v find:9 | v lose:9 | v found:5 | v abolish:5 | v agree:9 | v disagree:4 | v cut:9 | v heal:9
        v die:9 | v be_born:9 | v use:9 utilize:4 | v love:9 | v hate:9 | v tie:9 | v untie:9
        r often:9 frequently:5 | r rarely:9 seldom:4 | r recently:5 lately:4 | r up:5 | r down:5"""
    ANTONYMS = """a big small, a good bad, a able unable, a even odd, a better worse, a modern nonmodern,
        a happy unhappy, a fast slow, n woman man, n day night, n wife husband, n peace war, v open close, v stop start, v rise fall,
        v find lose, v found abolish, v agree disagree, v cut heal, v die be_born, v love hate, v tie untie, r up down,
        n ally enemy, r often rarely"""
    FORMS = {"n": "wives=wife men=man", "a": "bigger=big biggest=big better=good best=good worse=bad",
             "v": "stopped=stop stopping=stop dropped=drop rose=rise risen=rise fell=fall fallen=fall found=find "
                  "lost=lose bought=buy bore=bear borne=bear began=begin begun=begin beginning=begin dying=die tying=tie "
                  "cutting=cut",
             "r": "better=well"}
    RULES = {"n": "s= ses=s xes=x ches=ch men=man ies=y", "v": "s= ies=y es=e es= ed=e ed= ing=e ing=",
             "a": "er= est= er=e est=e", "r": ""}

    def __init__(self):
        self.index, lemmas = {}, {}
        for line in self.SENSES.replace("\n", "|").split("|"):
            pos, *words = line.split() or [""]
            members = [Lemma(word.split(":")[0], int(word.split(":")[1])) for word in words]
            synset = Synset(members)
            for lemma in members:
                self.index.setdefault((lemma.name().lower(), pos), []).append(synset)
                lemmas[lemma.name(), pos] = lemma
        for line in self.ANTONYMS.split(","):
            pos, x, y = line.split()
            lemmas[x, pos].against.append(lemmas[y, pos])
            lemmas[y, pos].against.append(lemmas[x, pos])
        self._exception_map = {pos: {form.split("=")[0]: [form.split("=")[1]] for form in forms.split()}
                               for pos, forms in self.FORMS.items()}

    def _morphy(self, form, pos):
        bases = self._exception_map[pos].get(form) or [
            form.removesuffix(old) + new for old, new in (rule.split("=") for rule in self.RULES[pos].split())
            if form.endswith(old)]
        return [base for base in dict.fromkeys([form, *bases]) if (base, pos) in self.index]

    def synsets(self, name, pos=None):
        return [s for p in pos or "nvar" for base in self._morphy(name.lower(), p) for s in self.index[base, p]]

    def synset(self, name):
        base, pos, number = name.rsplit(".", 2)
        return self.index[base, pos][int(number) - 1]


LEXICON = SimpleNamespace(wordnet=Small())


@pytest.mark.parametrize("word, tag, antonyms, synonyms", [
    ("big", "ADJ", ["small"], ["large"]), ("large", "ADJ", [], ["big"]), ("bulky", "ADJ", [], []),   # bulky is not common
    ("bigger", "ADJ", ["smaller"], ["larger"]), ("biggest", "ADJ", ["smallest"], ["largest"]),
    ("better", "ADJ", ["worse"], []),                              # a base of its own, as well as a form of good
    ("even", "ADJ", ["odd"], []), ("big", "NOUN", [], []), ("big", "X", [], []), ("", "NOUN", [], []),
    ("odder", "ADJ", [], []), ("modern", "ADJ", [], []),           # evener; nonmodern is not common
    ("fast", "ADJ", [], []), ("slow", "ADJ", ["fast"], []),        # only in its second sense
    ("film", "NOUN", [], ["movie"]), ("films", "NOUN", [], ["movies"]), ("layer", "NOUN", [], []),
    ("box", "NOUN", [], []), ("case", "NOUN", [], []),             # mostly something else
    ("women", "NOUN", ["men"], []), ("wives", "NOUN", ["husbands"], []), ("husband", "NOUN", ["wife"], []),
    ("city", "NOUN", [], ["town"]), ("cities", "NOUN", [], ["towns"]), ("towns", "NOUN", [], ["cities"]),
    ("paper", "NOUN", [], []), ("humans", "NOUN", [], ["mortals"]), ("enemies", "NOUN", ["allies"], []),
    ("car", "NOUN", [], ["auto", "automobile"]), ("autos", "NOUN", [], []), ("cars", "NOUN", [], ["automobiles"]),
    ("open", "VERB", ["close"], []), ("opened", "VERB", ["closed"], []), ("closing", "VERB", ["opening"], []),
    ("closes", "VERB", ["opens"], []), ("agreed", "VERB", ["disagreed"], []), ("agreeing", "VERB", ["disagreeing"], []),
    ("stopped", "VERB", ["started"], ["halted"]), ("started", "VERB", ["stopped"], []),     # began and begun
    ("halting", "VERB", [], ["stopping"]), ("purchased", "VERB", [], []),
    ("purchases", "VERB", [], ["buys"]), ("buying", "VERB", [], ["purchasing"]), ("bought", "VERB", [], []),
    ("rose", "VERB", [], []), ("rises", "VERB", ["falls"], []), ("rising", "VERB", ["falling"], []),
    ("found", "VERB", [], []),                                     # of find or of found
    ("died", "VERB", [], []), ("cut", "VERB", [], []), ("cuts", "VERB", [], []), ("loving", "VERB", ["hating"], []),
    ("tying", "VERB", ["untying"], []), ("untied", "VERB", [], []), ("utilizing", "VERB", [], ["using"]),
    ("often", "ADV", ["rarely"], []), ("recently", "ADV", [], ["lately"]), ("up", "ADV", ["down"], [])])
def test_thesaurus(word, tag, antonyms, synonyms):
    thesaurus = tasks.Thesaurus(LEXICON.wordnet)
    for _ in range(2):                                             # the second time from memory
        assert (thesaurus.find(word, tag, True), thesaurus.find(word, tag, False)) == (antonyms, synonyms)


# ------------------------------------------------------------------------------------------ sentences by hand

def test_agrees():
    right = {"a": "good 7 12 110 1800 1,100 180 x-ray", "an": "apple idea eight 8 80 8.5 11 18 11,000 18.5 800"}
    unclear = "hour home unit umbrella European one FBI US \u00e9lan \U0001f436 (x"
    for article, other in (("a", "an"), ("an", "a"), ("A", "an"), ("An", "a")):
        assert all(tasks.agrees(article, word) for word in right[article.lower()].split())
        assert not any(tasks.agrees(article, word) for word in f"{right[other]} {unclear}".split())
    everything = f"{right['a']} {right['an']} {unclear}".split()
    assert all(tasks.agrees(before, word) for before in ("the", "", "Ann") for word in everything)


def test_other_numbers():
    for word in "two ninety-nine 7 31 32 2001 500 4,500.25 0.5".split():
        found = tasks.other_numbers(word)
        assert len(found) == len(set(found)) > 5 and word not in found and found == tasks.other_numbers(word.upper())
    assert tasks.other_numbers("ninety-nine")[-1] == "ninety" and tasks.other_numbers("32") == "22 42 52 62 72 82 92".split()
    for word in "1 0 007 1,00 1.000.000 9:30 1- -1 one hundred \u0665 x".split() + [""]:
        assert tasks.other_numbers(word) == []


def parse(text, tags, relations=()):
    """A Parse of the text: a tag for each word, and relations as word=relation; "dep" for all other words."""
    spans, tags, known = priors.split_words(text), tuple(tags.split()), dict(pair.split("=") for pair in relations)
    words = [text[i:j] for i, j in spans.tolist()]
    assert len(words) == len(tags), words
    return priors.Parse(text, spans, tags, np.zeros(len(tags), np.int16), tuple(known.get(w, "dep") for w in words))


def outcomes(name, pair, task=MRPC, seeds=60, **given):
    """All that becomes of a pair: "a | b | label"."""
    found = [new for seed in range(seeds) for _, new in transform(name, task, [pair], seed, **given)]
    return {f"{new.a} | {new.b} | {new.label}" for new in found}


def changes(name, *parts, task=MRPC):
    """All that the given sentence becomes, where one is edited and it is the first of the pair."""
    parsed, found = parse(*parts), set()
    for seed in range(250 if name == "NumWord" else 60):
        for _, new in transform(name, task, [Pair(parsed.text, "x", 0)], seed, lexicon=LEXICON,
                                parses={parsed.text: parsed, "x": parse("x", "X")}):
            found.add(new.b if TRANSFORMATIONS[name].sides == "aa" else new.a)
    return found


@pytest.mark.parametrize("text, tags, expected", [
    ("The big dog.", "DET ADJ NOUN PUNCT", {"The small dog."}),
    ("Big dogs and good dogs.", "ADJ NOUN CCONJ ADJ NOUN PUNCT", {"Small dogs and good dogs.", "Big dogs and bad dogs."}),
    ("a big day", "DET ADJ NOUN", {"a small day", "a big night"}),
    ("an unable man", "DET ADJ NOUN", {"an able man", "an unable woman"}),
    ("An able man", "DET ADJ NOUN", {"An able woman"}),            # an or a before u...: not from the spelling
    ("A good man", "DET ADJ NOUN", {"A bad man", "A good woman"}), ("a enemy", "DET NOUN", set()),
    ("an even big", "DET ADJ ADJ", {"an odd big", "an even small"}),
    ("Big and small", "ADJ CCONJ ADJ", set()),                     # both there
    ("He is BIG", "PRON AUX ADJ", set()), ("A Big Day", "DET ADJ NOUN", set()), ("Big City", "ADJ NOUN", set()),
    ("a prime minister's wife", "DET ADJ NOUN PART NOUN", {"a prime minister's husband"}),
    ("opened  \u201cpeace\u201d\u2028now", "VERB PUNCT NOUN PUNCT ADV",
     {"closed  \u201cpeace\u201d\u2028now", "opened  \u201cwar\u201d\u2028now"}),
    ("", "", set()), ("peace", "NOUN", {"war"}), ("Peace", "NOUN", {"War"}), ("up", "ADP", set()),
    ("stra\u00dfe \U0001f436 big \u0130", "NOUN SYM ADJ X", {"stra\u00dfe \U0001f436 small \u0130"})])
def test_swap_antonym(text, tags, expected):
    assert changes("SwapAnt", text, tags) == expected


def test_parts_of_expressions_stay():
    """compound, flat, fixed, also with a subtype; and what WordNet has as an expression."""
    for relation in ("compound", "compound:prt", "flat", "fixed"):
        assert changes("SwapAnt", "He went up", "PRON VERB ADV", [f"up={relation}"]) == set()
    assert changes("SwapAnt", "He went up", "PRON VERB ADV", ["up=advmod"]) == {"He went down"}
    lexicon = SimpleNamespace(wordnet=Small())
    lexicon.wordnet.index["peace_day", "n"] = lexicon.wordnet.index["day", "n"]
    text = parse("the peace day", "DET NOUN NOUN")
    assert transform("SwapAnt", MRPC, [Pair(text.text, "")], 0, {text.text: text}, lexicon) == []


@pytest.mark.parametrize("text, tags, expected", [
    ("a big movie", "DET ADJ NOUN", {"a large movie", "a big film"}),
    ("The city's cars.", "DET NOUN PART NOUN PUNCT", {"The town's cars.", "The city's automobiles."}),
    ("a car", "DET NOUN", set()),                                  # an automobile
    ("an auto, one auto", "DET NOUN PUNCT NUM NOUN", {"an automobile, one auto", "an auto, one automobile",
                                                      "an auto, one car"}),
    ("a film and a movie", "DET NOUN CCONJ DET NOUN", set()), ("", "", set())])
def test_swap_synonym(text, tags, expected):
    parsed = parse(text, tags)
    found = outcomes("SwapSyn", Pair("A big car", text, 1), parses={text: parsed}, lexicon=LEXICON)
    assert found == {f"A big car | {new} | 1" for new in expected}


@pytest.mark.parametrize("text, tags, expected", [
    ("He ate 1 egg.", "PRON VERB NUM NOUN PUNCT", set()), ("one egg", "NUM NOUN", set()),
    ("in 2001,", "ADP NUM PUNCT", {f"in {n}," for n in range(2000, 2010) if n != 2001}),
    ("May 7", "PROPN NUM", {f"May {n}" for n in range(2, 29) if n != 7}),
    ("$ 4,500.25", "SYM NUM", {f"$ {n},500.25" for n in (2, 3, 5, 6, 7, 8, 9)}),
    ("0.5 percent", "NUM NOUN", {f"{n}.5 percent" for n in range(2, 10)}),
    ("Thirty days", "NUM NOUN", {f"{n} days" for n in "Twenty Forty Fifty Sixty Seventy Eighty Ninety".split()}),
    ("twelve days", "NUM NOUN", {f"{n} days" for n in "two three four five six seven eight nine ten eleven".split()}),
    ("a 5.5 point", "DET NUM NOUN", {f"a {n}.5 point" for n in (2, 3, 4, 6, 7, 9)}),       # an 8.5 point
    ("an 80 year", "DET NUM NOUN", set()),
    ("an 8-day 18", "DET ADJ NUM", {f"an 8-day {n}" for n in range(2, 29) if n != 18}), ("an 18", "DET NUM", {"an 8", "an 11"}),
    ("500 of 700", "NUM ADP NUM", {
        *(f"{n}00 of 700" for n in (2, 3, 4, 6, 8, 9)), *(f"500 of {n}00" for n in (2, 3, 4, 6, 8, 9))}),
    ("at least two men", "ADP ADJ NUM NOUN", set()), ("more than about 20", "ADJ ADP ADV NUM", set()),
    ("up to the 20", "ADP ADP DET NUM", set()), ("20 or more", "NUM CCONJ ADJ", set()),
    ("up to these last 20", "ADP ADP DET ADJ NUM", {f"up to these last {n}" for n in range(2, 29) if n != 20}),
    ("20 and more", "NUM CCONJ ADJ", {f"{n} and more" for n in range(2, 29) if n != 20}),
    ("two 007 9:30 1-2 \u0665 1e5 9/11 3rd 20m", "PRON NUM NUM NUM NUM NUM NUM NUM NUM", set()), ("", "", set()),
    ("7", "NUM", {str(n) for n in range(2, 29) if n != 7}), ("7", "NOUN", set()), ("0", "NUM", set())])
def test_number_word(text, tags, expected):
    assert changes("NumWord", text, tags) == expected


@pytest.mark.parametrize("text, tags, relations, place", [
    ("The dog has barked.", "DET NOUN AUX VERB PUNCT", ["barked=root"], 12),
    ("The dog barked", "DET NOUN VERB", ["barked=ccomp"], 8), ("The dog barked", "DET NOUN VERB", ["barked=amod"], None),
    ("The dog barked", "DET NOUN NOUN", ["barked=root"], None), ("Run home", "VERB ADV", ["Run=root"], None),
    ("Dogs Bark", "NOUN VERB", ["Bark=root"], None), ("the barked dog", "DET VERB NOUN", ["barked=root"], None),
    ("to bark", "PART VERB", ["bark=root"], None), ("He didn't bark", "PRON AUX PART VERB", ["bark=root"], None),
    ("No dog has barked", "DET NOUN AUX VERB", ["barked=root"], None), ("he's gone", "PRON AUX VERB", ["gone=root"], 5),
    ("he-bark", "NOUN", [], None), ("dog  bark", "NOUN VERB", ["bark=root"], None), ("", "", [], None),
    ("He bit, not now", "PRON VERB PUNCT PART ADV", ["bit=root"], 3)])
def test_insert_adverb(text, tags, relations, place):
    expected = set() if place is None else {f"{text[:place]}{adverb} {text[place:]}" for adverb in tasks.ADVERBS}
    assert changes("InsertAdv", text, tags, relations) == expected


def test_an_adverb_that_is_there_is_not_inserted_again():
    text = parse("We actually ate", "PRON ADV VERB", ["ate=root"])
    found = outcomes("InsertAdv", Pair(text.text, "", 1), parses={text.text: text, "": parse("", "")})
    assert found == {f"We actually {adverb} ate |  | 1" for adverb in tasks.ADVERBS if adverb != "actually"}


A, B = "Ann Lee saw Iraq in May.", "In May, Iraq saw Ann Lee."
NAMED = {A: parse(A, "PROPN PROPN VERB PROPN ADP PROPN PUNCT"), B: parse(B, "ADP PROPN PUNCT PROPN VERB PROPN PROPN PUNCT")}


def test_swap_name():
    """In both sentences and every place, for one of its kind: as many words, places for places, months for months."""
    others = ["in Ohio.", "by Bo Ek", "by Rex", "in July", "in NATO", "by Mr. X"]
    tags = ["ADP PROPN PUNCT", "ADP PROPN PROPN", "ADP PROPN", "ADP PROPN", "ADP PROPN", "ADP PROPN PROPN"]
    parses = NAMED | {text: parse(text, tag) for text, tag in zip(others, tags)}
    assert outcomes("SwapNamedEnt", Pair(A, B, 1), parses=parses) == {
        "Bo Ek saw Iraq in May. | In May, Iraq saw Bo Ek. | 1", "Ann Lee saw Rex in May. | In May, Rex saw Ann Lee. | 1",
        "Ann Lee saw Iraq in July. | In July, Iraq saw Ann Lee. | 1"}
    assert outcomes("SwapNamedEnt", Pair(A, B, 1), parses=NAMED) == set()                  # nothing else to name
    places = parses | {"in Iraq": parse("in Iraq", "ADP PROPN")}                           # now it is one
    assert "Ann Lee saw Ohio in May. | In May, Ohio saw Ann Lee. | 1" in outcomes("SwapNamedEnt", Pair(A, B, 1), parses=places)


@pytest.mark.parametrize("a, tags, expected", [
    ("Iraq fell.", "PROPN VERB PUNCT", {"Rex fell.", "Udo fell."}),
    ("Iraq fell. Iraq rose", "PROPN VERB PUNCT PROPN VERB", {"Rex fell. Rex rose", "Udo fell. Udo rose"}),
    ("Iraq's Iraqis", "PROPN PART NOUN", set()),                   # Rex's Iraqis
    ("Iraq and iraq", "PROPN CCONJ NOUN", set()), ("Iraq fell", "NOUN VERB", set()),
    ("Iraq Ohio fell", "PROPN PROPN VERB", set()),                 # another name
    ("Iraq Day fell", "PROPN NOUN VERB", set()), ("North Iraq fell", "ADJ PROPN VERB", set()),
    ("The Iraq of Udo", "DET PROPN ADP PROPN", set()), ("The Iraq & son", "DET PROPN CCONJ NOUN", set()),
    ("In Iraq", "ADP PROPN", set()),                               # the only place
    ("Udo left Iraq", "PROPN VERB PROPN", {"Udo left Rex"}), ("an Iraq", "DET PROPN", set()),
    ("a Iraq", "DET PROPN", {"a Rex"}),
    ("Rexes left Iraq", "NOUN VERB PROPN", {"Rexes left Udo"})])
def test_swap_name_in_place(a, tags, expected):
    b = "No Iraq"
    parses = {a: parse(a, tags), b: parse(b, "DET PROPN"), "by Rex": parse("by Rex", "ADP PROPN"),
              "by Udo": parse("by Udo", "ADP PROPN"), "to X-Ray2": parse("to X-Ray2", "ADP PROPN")}
    found = {new.split(" | ")[0] for new in outcomes("SwapNamedEnt", Pair(a, b, 0), parses=parses)}
    assert found == expected


def test_append_and_add():
    """One irrelevant sentence behind both, a truism behind the premise; a full stop where none is."""
    pair = Pair("He ate", "He ate it.", 1)
    assert outcomes("AppendIrr", pair) == {f"He ate. {new} | He ate it. {new} | 1" for new in tasks.IRRELEVANT}
    assert outcomes("AddSent", pair, MNLI) == {f"He ate. {new} | He ate it. | 1" for new in tasks.TRUISMS}
    soup = Pair("The soup?", '"He slept under a piano."', 0)       # a sentence that shares a word is not irrelevant
    assert outcomes("AppendIrr", soup) == {f'The soup? {new} | "He slept under a piano." {new} | 0'
                                           for new in tasks.IRRELEVANT if "soup" not in new and "under" not in new}
    for empty in (Pair("", "a", 0), Pair("a", "  ", 0)):
        assert outcomes("AppendIrr", empty) == set()
    assert outcomes("AddSent", Pair("", "a", 0), MNLI) == set()


def test_add_punctuation():
    marked = {"...": "... x", "--": "-- x", "(": "(x)", "*": "* x *", "!!": "x!!", " ...": "x ...", " --": "x --"}
    found = outcomes("AddPunc", Pair("x", " x\u3000", 1), seeds=400)
    assert {new.split(" | ")[0] for new in found} == set(marked.values())
    assert {new.split(" | ")[1] for new in found} == {f" {text}\u3000" for text in marked.values()}
    assert len(found) > len(marked)                                # each sentence for itself
    assert outcomes("AddPunc", Pair("", "\n", 1)) == set()


@pytest.mark.parametrize("text, expected", [
    ("You and your dog are great.", "U & ur dog r gr8."), ("With you", "W/ u"), ("see You", "see You"),
    ("YOU ARE", "YOU ARE"), ("you-know you're @you #and and/or", "you-know you're @you #and and/or"),
    ("(you), you", "(u), u"), ("  You", "  U"), ("", ""), ("youand", "youand"),
    ("\u00e9you you\u00e9 you", "\u00e9you you\u00e9 u")])
def test_twitter_type(text, expected):
    found = transform("TwitterType", MRPC, [Pair(text, "x", 1)])
    assert [new.a for _, new in found] == ([] if text == expected else [expected])


def test_back_translation(tmp_path):
    for name, mark in (("t.tsv", "\t"), ("t.csv", ",")):
        rows = ("sentence", "translation"), ("A dog.", "One dog."), ("A cat.", "a  CAT."), ("It.", ""), ("x", "One dog.")
        (tmp_path / name).write_text("".join(mark.join(row) + "\n" for row in rows), "utf-8")
        translations = tasks.read_translations(tmp_path / name)
        pairs = [Pair("A dog.", "A cat.", 1), Pair("A cat.", "It.", 1), Pair("y", "x", 0), Pair("A dog.", "x", 1, "g")]
        assert transform("BackTrans", MRPC, pairs, translations=translations) == [
            (0, Pair("One dog.", "A cat.", 1)), (2, Pair("y", "One dog.", 0)), (3, Pair("One dog.", "One dog.", 1, "g"))]
        assert transform("BackTrans", MRPC, pairs, translations={}) == []
    (tmp_path / "u.tsv").write_text("sentence\tother\na\tb\n", "utf-8")
    with pytest.raises(ValueError, match="header must name each of sentence, translation once"):
        tasks.read_translations(tmp_path / "u.tsv")


# ------------------------------------------------------------------------------------------ labels

DENIAL = {"mrpc": "0", "qqp": "0", "twitterurl": "0", "toy": "different", "rte": "not_entailment", "scitail": "neutral",
          "mnli": "contradiction", "snli": "contradiction", "sick": "CONTRADICTION"}
EVERYWHERE = {"InsertAdv", "AddPunc", "BackTrans", "TwitterType", "SwapNamedEnt", "SwapSyn"}


def task_named(name):
    labels = ("different", "same") if name == "toy" else tasks.SOURCES[name].labels
    return Task(name, labels, ("accuracy",))


@pytest.mark.parametrize("name", [*tasks.SOURCES, "toy"])
def test_label_rules(name):
    """Of all data sets: which transformation keeps the label, which makes it which, which is refused."""
    task = task_named(name)
    for transformation in TRANSFORMATIONS:
        expected = "keeps" if transformation in EVERYWHERE else ""
        if transformation in ("SwapAnt", "NumWord") and name in DENIAL:
            expected = f"makes it {DENIAL[name]}"
        if transformation == "AppendIrr" and name in DENIAL:
            expected = "keeps"
        if transformation == "AddSent" and name in ("rte", "scitail", "mnli", "snli", "sick"):
            expected = "keeps"
        assert label_rule(transformation, task) == expected, transformation
    assert set(DENIAL) | {"stsb", "qnli"} == {*tasks.SOURCES, "toy"} and len(TRANSFORMATIONS) == 10


def test_label_rules_of_own_files():
    for labels, kind in ((("0", "1"), "paraphrase"), (("0", "1", "2"), "other"), (("bad", "good"), "other"), ((), "other"),
                         (("Entailment", "Not_Entailment"), "inference"), (("entailment", "unknown"), "other")):
        assert tasks.task_kind(Task("own", labels, ())) == kind


@pytest.mark.parametrize("name, task, given, message", [
    ("SwapAnd", MRPC, {}, "no 'SwapAnd'; expected one of SwapAnt, NumWord, .*SwapSyn"),
    ("SwapAnt", STSB, {}, "SwapAnt says nothing of the labels of stsb; possible are InsertAdv, AddPunc, BackTrans, "
                          "TwitterType, SwapNamedEnt, SwapSyn$"),
    ("AddSent", MRPC, {}, "AddSent says nothing of the labels of mrpc; possible are SwapAnt, NumWord, InsertAdv, AppendIrr"),
    ("AppendIrr", STSB, {}, "AppendIrr says nothing of"), ("NumWord", task_named("qnli"), {}, "NumWord says nothing of"),
    ("NumWord", MRPC, {}, "NumWord needs parses, dict text -> priors.Parse"),
    ("BackTrans", MRPC, {}, "BackTrans needs translations, see read_translations"),
    ("SwapSyn", MRPC, {"parses": NAMED}, "SwapSyn needs lexicon, a priors.WordNet"),
    ("SwapAnt", MRPC, {"parses": NAMED, "lexicon": priors.Table({})}, "SwapAnt needs lexicon, a priors.WordNet"),
    ("NumWord", MRPC, {"parses": {B: NAMED[B]}}, "parses lacks 1 texts of the pairs, such as 'Ann Lee saw Iraq in May.'")])
def test_refusals(name, task, given, message):
    with pytest.raises(ValueError, match=f"^transform: .*{message}") as error:
        transform(name, task, [Pair(A, B, 1)], **given)
    assert "\n" not in str(error.value)


def test_unlabelled_pairs_and_pairs_that_do_not_change():
    """A kept label must be there; a denial has one whatever stood there. What comes out unlike is counted, no more."""
    text = parse("Two men left", "NUM NOUN VERB")
    parses, pairs = {text.text: text}, [Pair(text.text, text.text), Pair(text.text, text.text, 1, "g"), Pair("", "")]
    found = transform("NumWord", MNLI, pairs[:2], parses=parses)
    assert [(i, new.a, new.label, new.group) for i, new in found] == [(0, text.text, 2, ""), (1, text.text, 2, "g")]
    assert [i for i, _ in transform("AddPunc", MRPC, pairs)] == [1]
    assert [i for i, _ in transform("AddPunc", STSB, [replace(pair, label=0.0) for pair in pairs])] == [0, 1]
    swapped = {new.b for seed in range(60) for _, new in transform("NumWord", MRPC, pairs[:1], seed, parses)}
    for b in swapped:                                              # the pair is there already
        pair = Pair(text.text, b, 1)
        assert all((new.a, new.b) != (pair.a, pair.b) for seed in range(60)
                   for _, new in transform("NumWord", MRPC, [pair], seed, parses))
    assert len(swapped) == 10


# ------------------------------------------------------------------------------------------ any sentence

VOCABULARY = {"DET": "the a an A An no", "ADJ": "big large small good bad able unable even odd Big \u00e9lan",
              "NOUN": "film films movie women man city cars auto documents wife peace day people you Iraqis \U0001f436",
              "VERB": "open opened closes rose stopped found buys cut liked Open",
              "ADV": "often rarely recently up actually not",
              "PROPN": "Iraq Rex Udo Ann Lee May Monday IBM NATO Co. Mr. Iraq's x-Ray \u0130stanbul", "AUX": "is are has",
              "NUM": "1 2 7 18 31 80 500 4,500 2.5 0.3 1999 one two Two twelve thirty 1e5 \u0663",
              "PRON": "you You he", "CCONJ": "and or", "ADP": "in In of with than up at", "PUNCT": ". , ! \" '",
              "X": "\u2028x \u00df"}
TOKENS = [(word, tag) for tag, words in VOCABULARY.items() for word in words.split(" ")]
NAMES = [(word, tag) for word, tag in TOKENS if tag == "PROPN"] + [
    (word, tag) for word, tag in TOKENS if word in ("in", "of", "and", "a", "big", "Iraqis", ".")] * 2
RELATIONS = "root", "ccomp", "root", "amod", "compound:prt", "dep"


@st.composite
def sentences(draw, tokens):
    """A Parse of up to nine words with some double spaces and some places without one; no tree."""
    rows, text = [], draw(st.sampled_from(["", "", " "]))
    for word, tag in draw(st.lists(st.sampled_from(tokens), max_size=9)):
        text += draw(st.sampled_from(["", " ", " ", " ", "  "])) if rows else ""
        rows.append((len(text), len(text) + len(word), tag, draw(st.sampled_from(RELATIONS))))
        text += word
    spans = np.array([row[:2] for row in rows], np.int32).reshape(-1, 2)
    return priors.Parse(text, spans, tuple(row[2] for row in rows), np.zeros(len(rows), np.int16),
                        tuple(row[3] for row in rows))


@st.composite
def data_sets(draw, tokens=TOKENS):
    """(pairs, parses): up to five pairs of up to four sentences, so that sentences and names meet again."""
    pool = draw(st.lists(sentences(tokens), min_size=1, max_size=4))
    labels = st.sampled_from([0, 1, None])
    pairs = draw(st.lists(st.builds(Pair, st.sampled_from(pool), st.sampled_from(pool), labels), min_size=1, max_size=5))
    return [replace(pair, a=pair.a.text, b=pair.b.text) for pair in pairs], {parse.text: parse for parse in pool}


def run(name, pairs, parses, seed=0, task=MRPC):
    translations = {text: text[::-1] for text in sorted(parses)[::2]}
    return transform(name, task, pairs, seed, parses, LEXICON, translations)


def one_word_put(old, new, parse):
    """(place, old word, new word), where the texts differ in one whole word of the parse; None if in more than that."""
    for i, (start, end) in enumerate(parse.spans.tolist()):
        stop = len(new) - len(old) + end                           # of the word in the new text
        if old[:start] == new[:start] and old[end:] == new[stop:] and stop > start and old[start:end] != new[start:stop]:
            return i, old[start:end], new[start:stop]
    return None


def sounds_right(article, word):
    """a and an, for the words and numbers that can come here."""
    if article.lower() not in ("a", "an"):
        return True
    vowel = word[0] in "8" or word in ("11", "18") or word[0].lower() in "aeiou" and word not in ("one", "use", "used")
    return vowel == (article.lower() == "an")


def check_edit(name, old, new, parse):
    """One text that a transformation changed: what may have changed did, and all the rest stands as it stood."""
    words, spaces = parse.words, lambda text: len(re.findall(r"(?=\s\s)", text))
    assert new != old and spaces(new) <= spaces(old)
    if name in ("SwapAnt", "SwapSyn", "NumWord"):
        i, before, after = one_word_put(old, new, parse)
        assert before.lower() != after.lower() and before[0].isupper() == after[0].isupper()
        assert parse.tags[i] == "NUM" if name == "NumWord" else parse.tags[i] in ("NOUN", "VERB", "ADJ", "ADV")
        assert after.lower() not in {word.lower() for word in words} and (i == 0 or sounds_right(words[i - 1], after))
    elif name == "InsertAdv":
        places = [k for k, tag in enumerate(parse.tags) if tag == "VERB" and k]
        assert any(new == f"{old[:start]}{adverb} {old[start:]}" for k in places for start in [parse.spans[k][0]]
                   for adverb in tasks.ADVERBS if not {"not", "no"} & {word.lower() for word in words[:k]})
    elif name in ("AddSent", "AppendIrr", "AddPunc"):
        assert new.count(old.strip()) and len(new) - len(old) <= 60
        assert re.match(r"\s*", new)[0] == re.match(r"\s*", old)[0] and new[-1].isspace() == old[-1].isspace()
    elif name == "TwitterType":
        assert len(re.findall(r"[\w'&/-]+", new)) == len(re.findall(r"[\w'&/-]+", old))
        assert all(x == y or y.lower() == tasks.TWITTER[x.lower()] and x[0].isupper() == y[0].isupper() or y in "&w/W/"
                   for x, y in zip(re.split(r"(\s+|[.,!\"])", old), re.split(r"(\s+|[.,!\"])", new))
                   if x.lower() in tasks.TWITTER)


@quick
@given(data=data_sets(), seed=st.integers(0, 5), three=st.booleans())
def test_any_pairs(data, seed, three):
    """Only what the table says is edited; labels change as it says; order and neighbours decide nothing."""
    pairs, parses = data
    shuffled = dict(random.Random(seed).sample(sorted(parses.items()), len(parses)))
    for name, (_, sides, _, _) in TRANSFORMATIONS.items():
        task = MNLI if three or name == "AddSent" else MRPC
        rule, found = label_rule(name, task), run(name, pairs, parses, seed, task)
        assert [i for i, _ in found] == sorted({i for i, _ in found})
        for i, new in found:
            pair = pairs[i]
            assert new.label == (pair.label if rule == "keeps" else task.labels.index(rule.split()[-1])) is not None
            assert (new.a, new.b) != (pair.a, pair.b) and new.group == pair.group
            was = {"a": pair.a, "b": pair.a if sides == "aa" else pair.b}
            for side in "ab":
                text, edited = getattr(new, side), was[side]
                if side not in (sides if sides != "aa" else "b"):
                    assert text == edited, name
                elif text != edited and name not in ("BackTrans", "SwapNamedEnt"):
                    check_edit(name, edited, text, parses[edited])
        again = [(len(pairs) - 1 - i, new) for i, new in run(name, pairs[::-1], shuffled, seed, task)]
        assert again[::-1] == found, name
        assert [(i, new) for i, pair in enumerate(pairs) for _, new in run(name, [pair], parses, seed, task)] == found, name


@quick
@given(data=data_sets(NAMES), seed=st.integers(0, 5))
@example(data=([Pair(A, B, 1)], NAMED | {"by Bo Ek": parse("by Bo Ek", "ADP PROPN PROPN")}), seed=0)
def test_any_names(data, seed):
    """One name became another in both sentences: putting it back gives the sentences that were."""
    pairs, parses = data
    parses = parses | {text: parse(text, "ADP PROPN PRON") for text in (
        "by Bo it", "in Ohio it", "by USA it", "by June it", "by Inc. it")}
    names = {" ".join(words[i:j]) for parsed in parses.values() for words in [parsed.words]
             for i in range(len(words)) for j in range(i + 1, len(words) + 1) if set(parsed.tags[i:j]) == {"PROPN"}}
    found = run("SwapNamedEnt", pairs, parses, seed)
    assert run("SwapNamedEnt", pairs, dict(reversed(parses.items())), seed) == found
    for i, new in found:
        ways = [(x, y) for x in names for y in names if x != y and y not in pairs[i].a + pairs[i].b
                and x in pairs[i].a and x in pairs[i].b and x not in new.a + new.b and y in new.a and y in new.b
                and (new.a.replace(y, x), new.b.replace(y, x)) == (pairs[i].a, pairs[i].b)]
        assert ways
        assert any(name_shape(x) == name_shape(y) for x, y in ways)


def name_shape(name):
    """What names that replace each other share, for the names above."""
    return [(word.isupper() and len(word) > 1, word[-1] == ".", word in ("May", "June"), word == "Monday")
            for word in name.split(" ")]


@quick
@given(text=st.text(max_size=12), seed=st.integers(0, 3))
def test_any_text(text, seed):
    """Whatever Unicode has, parsed as our splitter parses it: no crash, and what is appended is all that is new."""
    spans = priors.split_words(text)
    for tag in ("PROPN", "NUM", "VERB", "NOUN"):
        parsed = priors.Parse(text, spans, (tag,) * len(spans), np.zeros(len(spans), np.int16), ("root",) * len(spans))
        for name in TRANSFORMATIONS:
            for _, new in run(name, [Pair(text, text, 1)], {text: parsed}, seed, MNLI):
                assert (new.a, new.b) != (text, text)
                if name in ("AddSent", "AppendIrr", "AddPunc"):
                    assert text.strip() in new.a


def test_the_seed_decides():
    """The same seed gives the same pairs, another one other pairs, for every transformation with a choice."""
    text = parse("Two big men opened 500 films in Iraq", "NUM ADJ NOUN VERB NUM NOUN ADP PROPN", ["opened=root"])
    parses = {text.text: text} | {name: parse(name, "ADP PROPN") for name in ("in Ohio", "in Rome", "in Oslo")}
    pair = [Pair(text.text, text.text, 1)]
    for name in set(TRANSFORMATIONS) - {"BackTrans", "TwitterType"}:
        task = MNLI if name == "AddSent" else MRPC
        found = [repr(run(name, pair, parses, seed, task)) for seed in range(20)]
        assert found == [repr(run(name, pair, parses, seed, task)) for seed in range(20)]
        assert len(set(found)) > 1 and "[]" not in found, name


def test_words_that_share_a_place_stay():
    """A token of two words (du = de + le) cannot be edited word by word."""
    text = priors.Parse("du 20", np.array([[0, 2], [0, 2], [3, 5]], np.int32), ("NUM", "PROPN", "NUM"),
                        np.zeros(3, np.int16), ("dep",) * 3)
    words = tasks.Given({text.text: text}, None, None).words(text.text)
    assert [(word.text, word.tag) for word in words] == [("du", ""), ("du", ""), ("20", "NUM")]


# ------------------------------------------------------------------------------------------ the real thing

@pytest.fixture(scope="module")
def wordnet():
    """nltk's, from where NLTK_DATA says or from shared/ beside the project."""
    if (REAL / "nltk_data").exists() and str(REAL / "nltk_data") not in nltk.data.path:
        nltk.data.path.append(str(REAL / "nltk_data"))
    try:
        return SimpleNamespace(wordnet=priors.load_wordnet())
    except ValueError as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize("word, tag, antonyms, synonyms", [
    ("women", "NOUN", ["men"], []), ("largest", "ADJ", ["smallest"], ["biggest"]), ("increased", "VERB", ["decreased"], []),
    ("rose", "VERB", [], []), ("found", "VERB", [], []), ("doctors", "NOUN", [], ["physicians"]), ("more", "ADJ", ["less"], []),
    ("attorney", "NOUN", [], ["lawyer"]), ("buying", "VERB", ["selling"], ["purchasing"]), ("bought", "VERB", [], []),
    ("percent", "NOUN", [], []), ("minister", "NOUN", [], []), ("the", "DET", [], []), ("up", "ADV", ["down"], []),
    ("year", "NOUN", [], []), ("governments", "NOUN", [], [])])
def test_thesaurus_of_wordnet(wordnet, word, tag, antonyms, synonyms):
    thesaurus = tasks.Thesaurus(wordnet.wordnet)
    assert (thesaurus.find(word, tag, True), thesaurus.find(word, tag, False)) == (antonyms, synonyms)


# What share of the pairs changes at least, of the first pairs of the split.
SHARES = {"SwapAnt": 0.3, "NumWord": 0.25, "AddSent": 1, "InsertAdv": 0.8, "AppendIrr": 1, "AddPunc": 1, "BackTrans": 1,
          "TwitterType": 0.5, "SwapNamedEnt": 0.2, "SwapSyn": 0.05}


@pytest.fixture(scope="module", params=[("mrpc", "test", 100), ("rte", "dev", 50)], ids=lambda param: param[0])
def real(request):
    name, split, size = request.param
    if not (REAL / "data" / name).exists():
        pytest.skip(f"no {REAL}/data/{name}")
    task, splits = tasks.load_task(name, REAL / "data")
    pairs = splits[split][:size]
    texts = [text for pair in pairs for text in (pair.a, pair.b)]
    return task, pairs, priors.parse_texts(texts, priors.load_parser(), progress=False)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_real_pairs(real, wordnet, name):
    """Enough pairs change, each as on made-up sentences. (pytest -s prints how many.)"""
    task, pairs, parses = real
    if not label_rule(name, task):
        return
    found = transform(name, task, pairs, 1, parses, wordnet, {text: f"So {text}" for text in parses})
    print(f"{task.name} {name}: {len(found)} of {len(pairs)} change; the label: {label_rule(name, task)}")
    assert len(found) >= SHARES[name] * len(pairs)
    for i, new in found:
        for side in "b" if TRANSFORMATIONS[name].sides == "aa" else TRANSFORMATIONS[name].sides:
            old = pairs[i].a if TRANSFORMATIONS[name].sides == "aa" else getattr(pairs[i], side)
            if getattr(new, side) != old and name not in ("BackTrans", "SwapNamedEnt", "TwitterType"):
                check_edit(name, old, getattr(new, side), parses[old])
