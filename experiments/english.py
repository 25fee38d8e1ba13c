"""The data of assets/english, the run that answers everyday English, and how a run is shipped.

    python -m experiments.english --data-dir data --out FOLDER
    python -m experiments.english --export RUN --out assets/english

The first command writes train.tsv, and dev.tsv with its parts dev-paws.tsv and dev-stsb.tsv. The
second copies a run with int8 weights, and scores these on dev.

The tables are made of data sets whose terms let weights be passed on: PAWS; STS-B, whose scores
from 4 on are "same", up to 3 "different". STS-B's training pairs with a sentence of MRPC stay out.
A quarter of train are these pairs. Half are PAWS's once more, three times each, with other names,
numbers and words: without them a model learns PAWS by heart. A quarter are pairs that functions
make of the sentences. All this needs WordNet and the shipped parser.

Assumes: a function's label is right. It is not always: who meets whom is met by whom.
"""
import functools
import itertools
import random
import re
import sys
from collections import Counter, namedtuple
from dataclasses import replace
from pathlib import Path

import torch

from batches import texts_of
from experiments import robustness
from experiments.robustness import CALENDAR, Known, is_plain, other_numbers, replace_word
from run import open_run
from support import machine, runs
from support.biaffine import load_parser
from support.datasets import load_task
from support.errors import refuse
from support.files import check_free, read_json, write_json, write_text, write_whole
from support.lexicon import load_wordnet
from support.options import Arguments, run_command
from support.pairs import Pair, Task, evaluate, ranking
from support.parses import parse_texts
from support.summary import metrics_table
from support.tables import pair_rows, read_pairs, table_text

TASK = Task("own", ("different", "same"), ("accuracy",))
MOST = 200  # pairs that a function makes of PAWS, of STS-B, and of clauses
COPIES = 3  # of each pair of PAWS, with other names, numbers and words
# Past participles that do not end in -ed.
IRREGULAR = frozenset("""
    eaten written ridden driven taken given thrown drawn shown worn broken chosen beaten stolen made
    held cut fed built sold caught bought brought found kept lost hit shot sung taught told won led
    sent read""".split())
AUXILIARIES = frozenset("is are was were can could will would has have had should must".split())

# A noun and the words below it, without the prepositions and marks around it. head: the index of
# the word above. whole: where the prepositions begin.
Phrase = namedtuple("Phrase", "start end whole head relation noun")


class Words(Known):
    """Known, and what is known of all words of the texts."""

    def __init__(self, parses, wordnet):
        super().__init__(parses, wordnet)
        words = [word for text in parses for word in self.words(text)]
        self.counts = Counter((word.text, word.tag) for word in words)
        self.participles = {self.wordnet.morphy(word, "v"): word for word, tag in self.counts
                            if tag == "VERB" and (word.endswith("ed") or word in IRREGULAR)}
        self.capitals = sorted(word for word, tag in self.counts if tag == "PROPN"
                               and re.fullmatch("[A-Z][a-z]+", word) and word not in CALENDAR)

    @functools.cache
    def kind(self, word, tag):
        """(part of speech, WordNet's field of its first sense, ending), or None for rare words."""
        pos = {"NOUN": "n", "ADJ": "n", "VERB": "v"}.get(tag)
        lemma = pos and is_plain(word) and self.wordnet.morphy(word, pos)
        if not lemma or self.counts[word, tag] < 5 or lemma != word and word[-1] not in "sgd":
            return None
        sense = self.wordnet.synsets(lemma, pos)[0]
        field = sense.lexname()
        if tag == "ADJ":  # a colour, or nothing
            field = [x for x in sense.hypernyms() if "chromatic" in x.name()] and "colour"
        return field and (tag, field, word[-1] * (lemma != word), word[0] in "aeiou")

    @functools.cache
    def senses(self, word, pos):
        """(senses of a word; these and all senses above them)"""
        own = {*self.wordnet.synsets(word, pos)}
        return own, own.union(*(sense.closure(lambda x: x.hypernyms()) for sense in own))

    @functools.cache
    def cousins(self, word, tag):
        """Words of the same kind, none of which may mean the same, or more, or less."""
        kind, pos, found = self.kind(word, tag), "v" if tag == "VERB" else "n", []
        for other, other_tag in sorted(self.counts) if kind else ():
            if other != word and self.kind(other, other_tag) == kind:
                (own, above), (own_2, above_2) = self.senses(word, pos), self.senses(other, pos)
                if own.isdisjoint(above_2) and own_2.isdisjoint(above):
                    found.append(other)
        return found

    def others(self, word):
        """Words that may stand in the place of a Word, if they do so in both sentences."""
        if word.tag == "PROPN":
            return self.capitals if word.text in self.capitals else []
        if word.tag == "NUM":
            return other_numbers(word.text)
        return self.cousins(word.text, word.tag)

    def phrases(self, text):
        """The Phrases of a text that are subjects, objects or stand behind a preposition."""
        words, heads, found = self.words(text), self.parses[text].heads.tolist(), []
        for i, word in enumerate(words):
            relation = word.relation.partition(":")[0]
            if relation not in ("nsubj", "obj", "obl") or word.tag not in ("NOUN", "PROPN"):
                continue
            inside, size = {i}, 0
            while len(inside) > size:
                size = len(inside)
                inside |= {j for j, head in enumerate(heads) if head - 1 in inside}
            first, last = min(inside), max(inside)
            whole = words[first].start
            while words[first].relation == "case" and first < i:
                first += 1
            while words[last].tag == "PUNCT" and last > i:
                last -= 1
            if len(inside) == max(inside) - min(inside) + 1:
                found.append(Phrase(words[first].start, words[last].end, whole, heads[i] - 1,
                                    relation, word))
        return found

    def inner(self, text, start, end):
        """A part of a text as it is spelled inside a sentence."""
        first = self.words(text)[0]
        if start == first.start and first.tag != "PROPN" and first.text != "I":
            return text[start].lower() + text[start + 1:end]
        return text[start:end]


def capital(old, new):
    """The new text with the old one's kind of first letter."""
    return new[0].upper() + new[1:] if old[0].isupper() else new


# ---- Functions: text, random.Random, Words -> another text, or None ------------------------------

def replace_cousin(text, rng, known):
    """Another word of the same field: a dog for a cat, blue for red."""
    return replace_word(text, known.words(text), lambda x: known.cousins(x.text, x.tag), rng)


def exchange(text, rng, known):
    """Two phrases below one verb change places: subject and object, or two with prepositions."""
    phrases = known.phrases(text)
    options = [(x, y) for x in phrases for y in phrases if x.head == y.head and x.end <= y.whole
               and ({x.relation, y.relation} == {"nsubj", "obj"} or x.relation == y.relation
                    or x.relation == "nsubj" and text[y.whole:y.start] == "by ")]
    if not options:
        return None
    x, y = rng.choice(options)
    return capital(text, text[:x.start] + known.inner(text, y.start, y.end) + text[x.end:y.start]
                   + known.inner(text, x.start, x.end) + text[y.end:])


def turn(text, rng, known, exchanged):
    """Active becomes passive: what damaged the roof, damaged by what. exchanged: the roof did."""
    phrases = known.phrases(text)
    for x, y in ((x, y) for x in phrases for y in phrases if x.head == y.head):
        between = re.fullmatch(r" (?:(is|are) )?(\w+) ", text[x.end:y.start])
        if (x.relation, y.relation) != ("nsubj", "obj") or not between:
            continue
        auxiliary, verb = between.groups()
        participle = known.participles.get(known.wordnet.morphy(verb, "v"))
        plain = known.wordnet.morphy(y.noun.text.lower(), "n") or y.noun.text.lower()
        many = y.noun.tag == "NOUN" and plain != y.noun.text.lower()
        ending = "ing" if auxiliary else verb[-1:]
        past = ("was", "were") if verb == participle else None
        be = {"ing": ("is being", "are being"), "s": ("is", "are")}.get(ending, past)
        if participle and be and (not auxiliary or verb.endswith("ing")):
            agent, patient = (x, y) if not exchanged else (y, x)
            return capital(text, text[:x.start] + known.inner(text, patient.start, patient.end)
                           + f" {be[many]} {participle} by "
                           + known.inner(text, agent.start, agent.end) + text[y.end:])
    return None


def negate(text, rng, known):
    """The main verb with "not"."""
    words, heads = known.words(text), known.parses[text].heads.tolist()
    root = heads.index(0)
    verb = words[root]
    for word, head in zip(words, heads):
        if head == root + 1 and word.relation in ("aux", "cop", "aux:pass"):
            return f"{text[:word.end]} not{text[word.end:]}" if word.text in AUXILIARIES else None
    lemma = known.wordnet.morphy(verb.text, "v") if verb.tag == "VERB" else None
    if lemma and (verb.text.endswith("ed") or verb.text == lemma + "s"):
        do = "did" if verb.text.endswith("ed") else "does"
        return f"{text[:verb.start]}{do} not {lemma}{text[verb.end:]}"
    return None


def front(text, rng, known):
    """The last phrase with a preposition goes to the front."""
    words, last = known.words(text), known.phrases(text)[-1:]
    if not last or last[0].relation != "obl" or last[0].whole in (0, last[0].start) \
            or any(word.tag != "PUNCT" for word in words if word.start >= last[0].end):
        return None
    x = last[0]
    return capital(text, f"{text[x.whole:x.end]}, {known.inner(text, 0, x.whole).rstrip(' ,')}"
                         f"{text[x.end:]}")


def second(swap):
    """A function of robustness as one of these."""
    def edit(text, rng, known):
        new = swap(text, text, rng, known)
        return new and new[1]
    return edit


# name -> (function, label)
KINDS = {
    "antonym": (second(robustness.swap_antonym), 0),
    "number": (second(robustness.change_number), 0), "name": (second(robustness.swap_name), 0),
    "cousin": (replace_cousin, 0), "exchange": (exchange, 0), "negation": (negate, 0),
    "passive, exchanged": (functools.partial(turn, exchanged=True), 0),
    "passive": (functools.partial(turn, exchanged=False), 1), "front": (front, 1),
    "synonym": (second(robustness.swap_synonym), 1),
    "adverb": (second(robustness.insert_adverb), 1)}


def rename(pair, rng, known):
    """The pair with other names, numbers and words. Of those that both sentences have, about half
    become others, the same ones in both. So the label stays.
    """
    words = {text: known.words(text) for text in (pair.a, pair.b)}
    both = set.intersection(*({word.text for word in found} for found in words.values()))
    used = {word.text.lower() for found in words.values() for word in found}
    new = {}
    for word in itertools.chain(*words.values()):
        if word.text in both and word.text not in new:
            options = known.others(word) if rng.random() < 0.5 else ()
            other = rng.choice(options) if options else word.text
            new[word.text] = word.text if other.lower() in used else other
            used.add(new[word.text].lower())

    def spell(text):
        parts, end = [], 0
        for word in words[text]:
            parts += text[end:word.start], new.get(word.text, text[word.start:word.end])
            end = word.end
        return "".join([*parts, text[end:]])
    return replace(pair, a=spell(pair.a), b=spell(pair.b))


def clauses(known):
    """Short sentences from the known texts, as identical pairs: subject, verb, and what follows."""
    found = set()
    for text in known.parses:
        phrases = sorted(known.phrases(text))
        for i, x in enumerate(phrases):
            end, gap = x.end, r" (\w+ ){1,2}"  # of at most one auxiliary and the verb
            for y in phrases[i + 1:] if x.relation == "nsubj" else ():
                if y.head == x.head and re.fullmatch(gap, text[end:y.whole]):
                    end, gap = y.end, " "
            if end > x.end and end - x.start < 80:
                found.add(f"{text[x.start].upper()}{text[x.start + 1:end]}.")
    return [Pair(text, text, 1) for text in sorted(found)]


def own_pairs(pairs, known):
    """Pairs made from the sentences of pairs: up to MOST of each of KINDS, of identical sentences
    and of sentences drawn at random."""
    made = []
    for kind, (edit, label) in KINDS.items():
        rng, count = random.Random(kind), 0
        for pair in rng.sample(pairs, len(pairs)):
            if count == MOST:
                break
            text, other = rng.sample([pair.a, pair.b], 2)
            denied = any(x.text.lower() in robustness.NEGATIONS for x in known.words(text))
            new = None if denied else edit(text, rng, known)
            if new and new != text:
                partner = other if pair.label and rng.random() < 0.5 else text
                made.append(Pair(*rng.sample([partner, new], 2), label, kind))
                if count % 3 == 0:  # or else an odd sentence is one that differs
                    made.append(Pair(new, new, 1, "identical"))
                count += 1
    rng = random.Random("drawn")
    for one, other in [*zip(rng.sample(pairs, len(pairs)), pairs)][:MOST]:
        made += [Pair(one.a, other.b, 0, "drawn"), Pair(one.a, one.a, 1, "identical")]
    return made


def load_sources(data_dir):
    """dict split -> name -> list of Pair, of labels 0 different, 1 same."""
    tasks = {name: load_task(name, data_dir)[1] for name in ("paws", "stsb", "mrpc")}
    news = {bare(text) for split in tasks["mrpc"].values() for pair in split
            for text in (pair.a, pair.b)}
    kept = [pair for pair in tasks["stsb"]["train"]
            if bare(pair.a) not in news and bare(pair.b) not in news]
    stsb = {"train": kept, "dev": tasks["stsb"]["dev"]}
    return {split: {"paws": tasks["paws"][split], "stsb": [
        replace(pair, label=int(pair.label >= 4)) for pair in stsb[split]
        if not 3 < pair.label < 4]} for split in stsb}


def bare(text):
    """A text's letters and digits alone."""
    return re.sub(r"\W", "", text).lower()


def write_tables(data_dir, folder):
    """Writes dev.tsv, its parts, and train.tsv."""
    names = "train", "dev", "dev-paws", "dev-stsb"
    folder.mkdir(parents=True, exist_ok=True)
    check_free(*(folder / f"{name}.tsv" for name in names))
    sources, parser, wordnet = load_sources(data_dir), load_parser(), load_wordnet()
    pairs = sources["train"]["paws"] + sources["train"]["stsb"]
    known = Words(parse_texts(texts_of(pairs), parser), wordnet)
    short = clauses(known)
    known = Words(known.parses | parse_texts(texts_of(short), parser), wordnet)
    made = [pair for source in (*sources["train"].values(), short)
            for pair in own_pairs(source, known)]
    rng = random.Random("renamed")
    made += [rename(pair, rng, known) for _ in range(COPIES) for pair in sources["train"]["paws"]]
    dev = [*sources["dev"]["paws"], *sources["dev"]["stsb"]]
    held = {frozenset((pair.a, pair.b)) for pair in dev}
    train = [pair for pair in pairs + made if frozenset((pair.a, pair.b)) not in held]
    for name, rows in zip(names, (train, dev, *sources["dev"].values())):
        print(f"{name}: {len(rows)} pairs, {sum(pair.label for pair in rows)} of them the same")
        write_text(folder / f"{name}.tsv", table_text("x.tsv", pair_rows(TASK, rows)))


def export(folder, out):
    """Copies a run: int8 weights, and all that dev says of these. Its parts lie beside dev.tsv."""
    out.mkdir(parents=True, exist_ok=True)
    check_free(*(out / name for name in runs.RUN_FILES))
    run, saved = open_run(folder, precision="fp32"), runs.read_saved(folder / "best.pt")
    config, result = (read_json(folder / f"{name}.json") for name in ("config", "result"))
    place, parts = run.settings.dev_file, ("dev-paws", "dev-stsb")
    refuse(not place, f"--export {folder}: expected a run on tables that this command wrote, found "
           f"one on {run.task.name}; train on these by --train-file and --dev-file")
    dev = run.examples([replace(pair, group=part) for part in parts for pair in
                        read_pairs(Path(place).with_name(f"{part}.tsv"), run.task.labels)])
    for content in (saved, config, result):  # no places of this machine
        for values in (content["settings"], content["recipe"], content):
            values |= {name: Path(values[name]).name for name in ("train_file", "dev_file", "bert")
                       if name in values}
        content["settings"] |= {"out": None, "data_dir": "data"}
    saved |= runs.as_int8(saved["weights"])
    saved["recipe"] |= {"device": "cpu", "precision": "fp32"}  # of use; config.json has training's
    write_whole(out / "best.pt", lambda file: torch.save(saved, file))
    small = open_run(out)
    before, after = run.logits(dev).argmax(1), small.logits(dev)
    result["int8_changes"] = f"{int((before != after.argmax(1)).sum())} of {len(before)} answers"
    for name in (*parts, run.task.selection):
        rows = [i for i, pair in enumerate(dev.pairs) if pair.group == name or name not in parts]
        labels, logits = [dev.pairs[i].label for i in rows], after[rows]
        more, result["threshold"] = ranking(run.task, labels, logits)  # the last one is all dev's
        result["metrics"][name] = evaluate(run.task, labels, logits.argmax(1)) | more
    result["influence"] = small.influence(dev) if small.changes() else None
    write_json(out / "config.json", config)
    write_json(out / "result.json", result)
    print(f"{out}: {(out / 'best.pt').stat().st_size:,} bytes; int8 changes "
          f"{result['int8_changes']}\n{metrics_table(result['metrics'])}")


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.english", __doc__)
    arguments.add_argument("--data-dir", default="data", help="folder of data sets")
    arguments.add_argument("--out", metavar="FOLDER", required=True, help="what is written")
    arguments.add_argument("--export", metavar="RUN", help="the run to copy with int8 weights")
    given = arguments.parse(argv)
    with machine.torch_session({}):
        if "export" in given:
            export(Path(given["export"]), Path(given["out"]))
        else:
            write_tables(given["data_dir"], Path(given["out"]))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.english"))
