"""The data of assets/english, the run that answers everyday English, and how a run is shipped.

    python -m experiments.english --data-dir data --out FOLDER
    python -m experiments.english --data-dir data --export RUN --out assets/english

The first command writes train.tsv; dev.tsv and its halves choose.tsv and calibrate.tsv; texts.txt,
which an encoder reads before it is trained. The second copies a run: a temperature, fitted on
calibrate.tsv, divides its logits, its weights become int8, and their answers are scored.

The tables are made of sources whose terms let weights be passed on: PAWS; STS-B, whose scores from
4 on are "same", up to 3 "different", without its training pairs with a sentence of MRPC; WordNet's
examples, which show a word in one sense. Functions make pairs of all these sentences. They need
WordNet and the shipped parser.

Assumes: a function's label is right. It is not always: who meets whom is met by whom.
"""
import functools
import random
import re
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

from batches import texts_of
from experiments import robustness
from experiments.robustness import Known
from run import as_int8, open_run, read_saved
from support import machine
from support.biaffine import load_parser
from support.datasets import load_task
from support.errors import refuse
from support.files import check_free, read_json, write_json, write_text, write_whole
from support.lexicon import load_wordnet
from support.options import Arguments, run_command
from support.pairs import Pair, Task, evaluate, ranking
from support.parses import parse_texts
from support.summary import metrics_table
from support.tables import pair_rows, table_text

TASK = Task("own", ("different", "same"), ("accuracy",))
MOST = 200  # pairs that a function makes of PAWS, of STS-B, and of WordNet's examples
SENSES = 1500  # pairs that each relation of WordNet makes of its examples; synonyms three times
# Past participles that do not end in -ed.
IRREGULAR = frozenset("""
    eaten written ridden driven taken given thrown drawn shown worn broken chosen beaten stolen made
    held cut fed built sold caught bought brought found kept lost hit shot sung taught told won led
    sent read""".split())
PREFIXES = "un", "in", "im", "il", "ir", "dis"
AUXILIARIES = frozenset("is are was were can could will would has have had should must".split())

# A noun and the words below it, without the prepositions and marks around it. head: the index of
# the word above. whole: where the prepositions begin.
Phrase = namedtuple("Phrase", "start end whole head relation noun")


class Words(Known):
    """Known, and the words of the texts, in small letters; and participles, lemma -> participle."""

    def __init__(self, parses, wordnet):
        super().__init__(parses, wordnet)
        words = [word for text in parses for word in self.words(text)]
        self.seen = {word.text.lower() for word in words}
        self.participles = {wordnet.morphy(word, "v"): word for word in sorted(
            {word.text for word in words if word.tag == "VERB"})
            if word.endswith("ed") or word in IRREGULAR}

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


def deny_opposite(text, rng, known):
    """What is not impossible is possible: denies a word's opposite with another prefix."""
    new = negate(text, rng, known)
    for word in known.words(text) if new else ():
        for other in known.related_words(word.text, word.tag, antonyms=True):
            short, long = sorted((word.text, other), key=len)
            if long.removesuffix(short) in PREFIXES:
                return re.sub(rf"\b{word.text}\b", other, new)
    return None


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
    "exchange": (exchange, 0), "negation": (negate, 0), "two negations": (deny_opposite, 1),
    "passive, exchanged": (functools.partial(turn, exchanged=True), 0),
    "passive": (functools.partial(turn, exchanged=False), 1), "front": (front, 1),
    "synonym": (second(robustness.swap_synonym), 1),
    "adverb": (second(robustness.insert_adverb), 1)}


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


# ---- WordNet's examples -------------------------------------------------------------------------

def sentence(text):
    """An example with a capital and a full stop."""
    text = text.rstrip(";,")
    return text[0].upper() + text[1:] + "." * text[-1].isalnum()


def examples(wordnet):
    """[(Synset, one of its examples)], of four words or more, each example once."""
    found = {text.strip(): sense for sense in wordnet.all_synsets() for text in sense.examples()
             if len(text.split()) > 3}
    return [(sense, text) for text, sense in sorted(found.items(), key=lambda x: x[0])]


def related(sense, known):
    """dict relation -> lemmas that may stand in a sense's place: the same, or not the same."""
    above = sense.hypernyms()
    cousins = {other for x in above for other in x.hyponyms()} - {sense}
    names = {
        "sense, synonym": sense.lemma_names(),
        "sense, antonym": [x.name() for lemma in sense.lemmas() for x in lemma.antonyms()],
        "sense, cousin": [x.name() for other in cousins for x in other.lemmas() if x.count()],
        "sense, more general": [x.name() for other in above for x in other.lemmas() if x.count()]}
    plain = {kind: sorted({name.replace("_", " ") for name in found}) for kind, found in
             names.items()}
    return {kind: [name for name in found if known.seen.issuperset(name.split())
                   and (kind == "sense, synonym" or name not in plain["sense, synonym"])]
            for kind, found in plain.items()}


def inflect(lemma, word, plain, known):
    """A lemma with the ending that a word has beside its own lemma `plain`; None if nobody knows.

    Assumes: a form is right if the texts have it. "puted" is in no text, and "goed" neither.
    """
    first, space, rest = lemma.partition(" ")
    if word == plain:
        return lemma
    ending = next((x for x in ("ing", "ed", "s") if word.endswith(x)), None)
    stems = first, first.rstrip("e"), first + first[-1], re.sub("y$", "i", first) + "e" * (
        ending == "s"), re.sub("y$", "ie", first)[:-1]
    forms = [stem + ending for stem in stems if ending and stem + ending in known.seen]
    return forms and forms[0] + space + rest or None


def sense_pairs(known):
    """Pairs of WordNet's examples: a word becomes another one that is `related` to its sense there.
    Up to SENSES of each relation."""
    made = {}
    for sense, text in examples(known.wordnet):
        text = sentence(text)
        rng, pos = random.Random(text), sense.pos().replace("s", "a")
        own = {name.replace("_", " ") for name in sense.lemma_names()}
        for match in re.finditer(r"(?<![\w'-])([Aa]n? )?([a-z]+)(?![\w'-])", text):
            article, word = match.groups()
            plain = known.wordnet.morphy(word, pos)
            if plain in own and plain != "be":
                break
        else:
            continue
        for kind, names in related(sense, known).items():
            forms = [inflect(name, word, plain, known) for name in names if name != plain]
            forms = [form for form in forms if form and (
                not article or (form[0] in "aeiou") == (word[0] in "aeiou"))]
            if forms:
                new = text[:match.start(2)] + rng.choice(forms) + text[match.end():]
                label = int(kind == "sense, synonym")
                made.setdefault(kind, []).append(Pair(*rng.sample([text, new], 2), label, kind))
    counts = {kind: min(len(pairs), SENSES * (3 if kind == "sense, synonym" else 1))
              for kind, pairs in made.items()}
    return [pair for kind in made for pair in random.Random(kind).sample(made[kind], counts[kind])]


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
    """Writes train.tsv; dev.tsv, its odd rows choose.tsv, its even rows calibrate.tsv; texts.txt"""
    names = "train", "dev", "choose", "calibrate"
    folder.mkdir(parents=True, exist_ok=True)
    check_free(*(folder / f"{name}.tsv" for name in names), folder / "texts.txt")
    sources, parser, wordnet = load_sources(data_dir), load_parser(), load_wordnet()
    pairs, short = sources["train"]["paws"] + sources["train"]["stsb"], examples(wordnet)
    some = [Pair(sentence(text), sentence(text), 1) for _, text in short[::4]]
    known = Words(parse_texts(texts_of(pairs + some), parser), wordnet)
    made = [pair for source in (*sources["train"].values(), some)
            for pair in own_pairs(source, known)] + sense_pairs(known)
    dev = [*sources["dev"]["paws"], *sources["dev"]["stsb"]]
    held = {frozenset((pair.a, pair.b)) for pair in dev}
    train = [pair for pair in pairs + made if frozenset((pair.a, pair.b)) not in held]
    for name, rows in zip(names, (train, dev, dev[::2], dev[1::2])):
        print(f"{name}: {len(rows)} pairs, {sum(pair.label for pair in rows)} of them the same")
        write_text(folder / f"{name}.tsv", table_text("x.tsv", pair_rows(TASK, rows)))
    texts = dict.fromkeys([*texts_of(pairs), *(text for _, text in short)])
    write_text(folder / "texts.txt", "".join(f"{text}\n" for text in texts))


# ---- The run that ships --------------------------------------------------------------------------

def best_temperature(logits, labels):
    """The T with the lowest loss of softmax(logits / T), to 1 %. logits: (N, C). labels: (N,)."""
    tried = torch.logspace(-1, 1, 463)  # 0.1 to 10
    return float(min(tried, key=lambda T: F.cross_entropy(logits / T, labels)))


def calibration(logits, labels):
    """Can the probabilities be believed?  Guo et al. 2017 (arXiv 1706.04599), Eq. (3)

        ECE = Σ_m |B_m| / N |acc(B_m) - conf(B_m)|,   15 bins of the answers' probabilities

    Returns: dict of "error", this; "sure", the number of answers at 99 % or more; "sure_right", the
        share of these that are right. logits: (N, C). labels: (N,).
    """
    confidence, answer = logits.softmax(1).max(1)
    right, bins = (answer == labels).float(), (15 * confidence).ceil()
    gaps = [(right - confidence)[bins == m].sum().abs() for m in bins.unique()]
    sure = confidence >= 0.99
    return {"pairs": len(labels), "error": float(sum(gaps)) / len(labels), "sure": int(sure.sum()),
            "sure_right": float(right[sure].mean()) if sure.any() else None}


def export(folder, out, data_dir):
    """Copies a run: calibrated, with int8 weights, and scored again on all of dev."""
    out.mkdir(parents=True, exist_ok=True)
    check_free(*(out / name for name in ("best.pt", "config.json", "result.json")))
    run, saved = open_run(folder, precision="fp32"), read_saved(folder / "best.pt")
    config, result = (read_json(folder / f"{name}.json") for name in ("config", "result"))
    refuse(run.task.labels != TASK.labels, f"--export {folder}: expected a run on tables that this "
           f"command wrote, found one on {run.task.name}; train on these by --train-file")
    dev = run.examples([replace(pair, group=f"dev-{name}") for name, pairs in
                        load_sources(data_dir)["dev"].items() for pair in pairs])
    labels, before = torch.tensor([pair.label for pair in dev.pairs]), run.logits(dev)
    T = best_temperature(before[1::2], labels[1::2])  # of calibrate.tsv
    for name in ("classifier.weight", "classifier.bias"):
        saved["weights"][name] /= T
    for content in (saved, config, result):  # no places of this machine
        for values in (content["settings"], content["recipe"], content):
            values |= {name: Path(values[name]).name for name in ("train_file", "dev_file", "bert")
                       if name in values}
        content["settings"] |= {"out": None, "data_dir": "data"}
    saved |= as_int8(saved["weights"])
    saved["recipe"] |= {"device": "cpu", "precision": "fp32"}  # of use; config.json has training's
    write_whole(out / "best.pt", lambda file: torch.save(saved, file))
    small = open_run(out)
    after = small.logits(dev)
    changed = int((before.argmax(1) != after.argmax(1)).sum())
    result["int8_changes"] = f"{changed} of {len(labels)} answers"
    for name in ("dev-paws", "dev-stsb", "dev"):
        rows = [i for i, pair in enumerate(dev.pairs) if name in (pair.group, "dev")]
        more, result["threshold"] = ranking(run.task, labels[rows].tolist(), after[rows])
        result["metrics"][name] = evaluate(run.task, labels[rows], after[rows].argmax(1)) | more
    test = load_task("paws", data_dir)[1]["test"]
    result["calibration"] = {
        "temperature": T, "dev, other half": calibration(after[::2], labels[::2]),
        "PAWS's test": calibration(small.logits(test), torch.tensor([x.label for x in test]))}
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
    arguments.add_argument("--export", metavar="RUN", help="the run to calibrate, as int8")
    given = arguments.parse(argv)
    with machine.torch_session({}):
        if "export" in given:
            export(Path(given["export"]), Path(given["out"]), given["data_dir"])
        else:
            write_tables(given["data_dir"], Path(given["out"]))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.english"))
