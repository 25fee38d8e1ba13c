"""The data of assets/english, the model that answers everyday English, and how a run is shipped.

    python -m experiments.english --data-dir data --bert MINILM --out TABLES
    python -m experiments.english --data-dir TABLES --export RUN --out assets/english

The first command writes train.tsv; dev.tsv and its halves choose.tsv and calibrate.tsv; texts.txt,
which an encoder reads before it is trained. The second copies a run: a temperature, fitted on
calibrate.tsv, divides its logits, and its weights become int8.

PAWS and STS-B bring pairs with labels. Tatoeba brings sentences with translations: two with one
translation are the same; two that no chain of translations joins differ. Three functions make pairs
of sentences and their trees, because people's pairs do not teach who did it to whom.

Assumes: one translation, one meaning. Many merge persons and times; `merged` leaves out what it
can. assets/README.md counts the mistakes of each kind.
"""
import functools
import itertools
import random
import re
import sys
from collections import Counter, defaultdict, namedtuple
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from batches import texts_of
from bert_min import Bert, load_bert
from run import as_int8, find_encoder, open_run, read_saved
from support import machine
from support.biaffine import load_parser
from support.datasets import load_task
from support.files import check_free, read_json, read_lines, write_json, write_text, write_whole
from support.lexicon import load_wordnet
from support.options import Arguments, run_command
from support.pairs import Pair, Task, score_logits
from support.parses import parse_texts
from support.summary import metrics_table
from support.tables import pair_rows, read_table, table_text

TASK = Task("own", ("different", "same"), ("accuracy",))
SAME = "one translation", "itself", "word, itself", "passive", "front"  # kinds; the others differ
# Pairs of a kind in train. Dev has HELD_OUT of Tatoeba's clusters, and as much less of each kind.
MOST = {"one translation": 11000, "near": 5000, "one word": 6500, "negation": 1300, "itself": 1500,
        "word, itself": 600, "two words": 300, "exchange": 2200, "passive, exchanged": 700,
        "passive": 700, "front": 1000}
HELD_OUT, READ = 0.05, 20000  # READ: sentences of Tatoeba that the encoder reads

# ---- Tatoeba -------------------------------------------------------------------------------------

FULL = {"can't": "can not", "won't": "will not", "n't": " not", "'m": " am", "'re": " are",
        "'s": " is", "'ve": " have", "'ll": " will", "'d": " would"}
# A translation may merge two of these, and two words of ALIKE.
MERGED = {word: words for words in (
    "i me my mine myself we us our ours ourselves", "you your yours yourself yourselves",
    "he him his himself", "she her hers herself", "they them their theirs themselves",
    "it its itself this that these those", "tom", "mary", "was were did had",
    "is are am do does has have") for word in words.split()}
ALIKE = [set(words.split()) for words in (
    "this that these those", "here there", "a an the some", "i we me us my our")]


def words_of(text):
    """A tuple of the words in small letters, contractions in full: it isn't -> it is not."""
    text = text.lower().replace("’", "'")
    for short, full in FULL.items():
        text = re.sub(rf"{short}\b", full, text)
    return tuple(re.findall(r"\w+", text))


def bare(text):
    """A text's letters and digits alone."""
    return re.sub(r"\W", "", text).lower()


def differ_by_alike(a, b):
    """Do two sentences have the same words but for some that a translation merges?"""
    rest = set(words_of(a)) ^ set(words_of(b))
    return any(rest <= words for words in ALIKE)


def merged(a, b):
    """May a language without some difference of English have given a and b one translation?"""
    kinds, others = ({MERGED[word] for word in words_of(x) if word in MERGED} for x in (a, b))
    return bool(kinds - others and others - kinds) or (
        words_of(a) != words_of(b) and differ_by_alike(a, b))


def joined(edges):
    """dict x -> one of all that chains of edges (x, y) join with x."""
    above = {}

    def top(x):
        while above.setdefault(x, x) != x:
            x = above[x]
        return x
    for x, y in edges:
        above[top(x)] = top(y)
    return {x: top(x) for x in above}


def load_tatoeba(folder):
    """(dict English sentence -> list of its translations (file, text); dict sentence -> its
    cluster, the first of all sentences that chains of translations join with it)."""
    english = defaultdict(list)
    for name in ("fra", "cmn", "deu"):
        for line in read_lines(folder / f"{name}.txt"):
            text, other = (part.strip() for part in (line + "\t").split("\t")[:2])
            if text not in ("", "1") and line.endswith("\n"):  # no header, and not cut
                english[text].append((name, other))
    tops = joined((text, other) for text, others in english.items() for other in others)
    first = {tops[text]: text for text in sorted(english, reverse=True)}
    return english, {text: first[tops[text]] for text in english}


def one_word_apart(texts, wordnet, least):
    """Yields pairs of sentences that differ in one word: `least` words and more, or opposites."""
    @functools.cache
    def senses(word):
        found = set(wordnet.synsets(word))
        lemmas = {lemma for sense in found for lemma in sense.lemmas()}
        return (found | {other for sense in found for other in sense.similar_tos()},
                {other.synset() for lemma in lemmas for other in lemma.antonyms()})

    places = defaultdict(list)
    for text in texts:
        words = words_of(text)
        for i, word in enumerate(words):
            places[words[:i], words[i + 1:]].append((word, text))
    for (before, after), found in places.items():
        for (word, a), (other, b) in itertools.combinations(found, 2):
            (meanings, opposites), (others, _) = senses(word), senses(other)
            alike = word == other or any({word, other} <= words for words in ALIKE)
            long = len(a.split()) >= least and not meanings & others
            if not alike and (long or opposites & others):
                yield a, b


def negations(texts):
    """Pairs of sentences, no questions, of which one has a "not" that the other lacks."""
    without = defaultdict(list)
    for text in texts:
        if not text.endswith("?"):
            words = words_of(text)
            rest = tuple(word for word in words if word not in ("not", "do", "does", "did"))
            without[rest].append(("not" in words, text))
    for found in without.values():
        yield from ((a, b) for (no, a), (other, b) in itertools.combinations(found, 2)
                    if no != other)


@torch.inference_mode()
def neighbours(texts, bert, data_dir, most=5):
    """Yields the pairs of each text and the `most` nearest, by the cosine of the means of an
    encoder's last states. bert: as for train.py."""
    tokenizer, config, weights = find_encoder(bert, data_dir, texts, {})
    encoder, vectors = Bert(config).eval(), []
    load_bert(encoder, weights, bert)
    texts = sorted(texts, key=len)  # batches of similar lengths
    pieces = [torch.tensor(tokenizer.first + x.ids[:60] + tokenizer.last)
              for x in tokenizer.encode_texts(texts)]
    for start in range(0, len(texts), 64):
        ids = pad_sequence(pieces[start:start + 64], True, tokenizer.pad_id)  # (B, L)
        mask = ids != tokenizer.pad_id
        states, _ = encoder(ids, torch.zeros_like(ids), mask)
        vectors.append(F.normalize((states[-1] * mask[:, :, None]).sum(1)))  # (B, d)
    vectors, place = torch.cat(vectors), itertools.count()
    for part in vectors.split(500):
        for row in (part @ vectors.T).topk(most).indices.tolist():  # itself among them
            a = texts[next(place)]
            yield from ((a, texts[i]) for i in row)


# ---- Functions: a Sentence -> another text, or None ----------------------------------------------

# A noun and the words below it, without the prepositions and marks around it. whole: where the
# prepositions begin. head: the index of the word above.
Phrase = namedtuple("Phrase", "start end whole head relation many")
# Past participles that do not end in -ed. What one does to the other, the other does to it.
IRREGULAR = frozenset("""
    eaten written ridden driven taken given thrown drawn shown worn broken chosen beaten stolen made
    held cut fed built sold caught bought brought found kept lost hit shot sung taught told won led
    sent read seen heard left paid""".split())
DENIED = re.compile(r"\b(not|no|never|nobody|nothing)\b|n't|\?", re.IGNORECASE)
MUTUAL = re.compile(r"\b(met|meets?|marr(y|ied|ies)|resembles?|and|or|like|with|equals?)\b")


class Sentence:
    """A text, its Parse and its Phrases: subjects, objects, and what stands behind a preposition.
    verbs: dict lemma -> participle. wordnet: for lemmas."""

    def __init__(self, text, parse, verbs, wordnet):
        self.text, self.parse, self.verbs, self.phrases = text, parse, verbs, []
        self.lemma, heads = wordnet.morphy, parse.heads.tolist()
        for i, relation in enumerate(parse.relations):
            relation = relation.partition(":")[0]
            if relation in ("nsubj", "obj", "obl") and parse.tags[i] in ("NOUN", "PROPN"):
                self.add(i, relation, heads)

    def add(self, i, relation, heads):
        """Adds the Phrase of word i, unless words of others stand in it."""
        inside, size = {i}, 0
        while len(inside) > size:
            size = len(inside)
            inside |= {j for j, head in enumerate(heads) if head - 1 in inside}
        first, last = min(inside), max(inside)
        (start, end), spans = (first, last), self.parse.spans.tolist()
        while self.parse.relations[start] == "case" and start < i:
            start += 1
        while self.parse.tags[end] == "PUNCT" and end > i:
            end -= 1
        noun = self.parse.words[i].lower()
        many = self.parse.tags[i] == "NOUN" and self.lemma(noun, "n") not in (noun, None)
        if size == last - first + 1:
            self.phrases.append(Phrase(spans[start][0], spans[end][1], spans[first][0],
                                       heads[i] - 1, relation, many))

    def inner(self, start, end):
        """A part of the text as it is spelled inside a sentence."""
        part = self.text[start:end]
        small = start == 0 and self.parse.tags[0] != "PROPN" and self.parse.words[0] != "I"
        return part[0].lower() + part[1:] if small else part


def capital(text):
    """The text with a capital."""
    return text[0].upper() + text[1:]


def exchange(sentence, rng):
    """Two phrases below one verb change places: subject and object, or two with prepositions."""
    text = sentence.text
    options = [(x, y) for x in sentence.phrases for y in sentence.phrases
               if x.head == y.head and x.end <= y.whole
               and ({x.relation, y.relation} == {"nsubj", "obj"} or x.relation == y.relation
                    or x.relation == "nsubj" and text[y.whole:y.start] == "by ")]
    if not options:
        return None
    x, y = rng.choice(options)
    if MUTUAL.search(text[x.end:y.start]):
        return None
    return capital(text[:x.start] + sentence.inner(y.start, y.end) + text[x.end:y.start]
                   + sentence.inner(x.start, x.end) + text[y.end:])


def turn(sentence, rng, exchanged):
    """Active becomes passive: what damaged the roof, damaged by what. exchanged: the roof did."""
    text = sentence.text
    for x, y in itertools.permutations(sentence.phrases, 2):
        between = re.fullmatch(r" (?:(is|are) )?(\w+) ", text[x.end:y.start])
        if (x.head, x.relation, y.relation) != (y.head, "nsubj", "obj") or not between \
                or MUTUAL.search(between[2]):
            continue
        auxiliary, verb = between.groups()
        participle = sentence.verbs.get(sentence.lemma(verb, "v"))
        past = ("was", "were") if verb == participle or sentence.lemma(verb, "v") not in (
            verb, verb[:-1], verb[:-2]) else None
        be = {"ing": ("is being", "are being"), "s": ("is", "are")}.get(
            "ing" if auxiliary else verb[-1:], past)
        if participle and be and (not auxiliary or verb.endswith("ing")):
            agent, patient = (y, x) if exchanged else (x, y)
            return capital(text[:x.start] + sentence.inner(patient.start, patient.end)
                           + f" {be[patient.many]} {participle} by "
                           + sentence.inner(agent.start, agent.end) + text[y.end:])
    return None


def front(sentence, rng):
    """The last phrase with a preposition goes to the front."""
    x, text = (sentence.phrases or [None])[-1], sentence.text
    if not x or x.relation != "obl" or sentence.parse.heads[x.head] or x.whole in (0, x.start) \
            or re.search(r"\w", text[x.end:]):
        return None
    rest = sentence.inner(0, x.whole).rstrip(" ,")
    return capital(f"{text[x.whole:x.end]}, {rest}{text[x.end:]}")


FUNCTIONS = {"exchange": exchange, "passive, exchanged": functools.partial(turn, exchanged=True),
             "passive": functools.partial(turn, exchanged=False), "front": front}


def changed(texts, wordnet):
    """Yields (kind, text, what a function of FUNCTIONS makes of it)."""
    parses, verbs = parse_texts(texts, load_parser()), {}
    for parse in parses.values():
        verbs |= {wordnet.morphy(word, "v"): word for word, tag in zip(parse.words, parse.tags)
                  if tag == "VERB" and (word.endswith("ed") or word in IRREGULAR)}
    for text in texts:
        if len(parses[text].words) <= 20 and not DENIED.search(text):
            sentence = Sentence(text, parses[text], verbs, wordnet)
            for kind, function in FUNCTIONS.items():
                new = function(sentence, random.Random(text))
                if new and new != text:
                    yield kind, text, new


# ---- The tables ----------------------------------------------------------------------------------

def load_sources(data_dir):
    """dict split -> PAWS's and STS-B's Pairs, of labels 0 different, 1 same. STS-B's scores from 4
    on are the same, up to 3 different; its training pairs with a sentence of MRPC stay out."""
    tasks = {name: load_task(name, data_dir)[1] for name in ("paws", "stsb", "mrpc")}
    news = {bare(text) for pairs in tasks["mrpc"].values() for text in texts_of(pairs)}
    kept = [pair for pair in tasks["stsb"]["train"] if news.isdisjoint(map(bare, (pair.a, pair.b)))]
    stsb = {"train": kept, "dev": tasks["stsb"]["dev"]}
    return {split: [replace(pair, group="paws") for pair in tasks["paws"][split]] + [
        replace(pair, label=int(pair.label >= 4), group="stsb")
        for pair in stsb[split] if not 3 < pair.label < 4] for split in stsb}


def people(texts, tatoeba, wordnet, bert, data_dir, least):
    """dict kind -> sorted pairs of texts: what translations say of some of Tatoeba's sentences."""
    english, clusters = tatoeba
    rng, alike = random.Random("people"), defaultdict(list)
    for text in texts:
        for other in english[text]:
            alike[other].append(text)
    same = (pair for found in alike.values() for pair in itertools.combinations(set(found), 2))
    some = rng.sample(texts, min(10000, len(texts)))
    near = ((a, b) for a, b in neighbours(some, bert, data_dir)
            if {name for name, _ in english[a]} & {name for name, _ in english[b]})
    words = sorted({word.capitalize() for text in texts for word in words_of(text)
                    if len(word) > 2 and wordnet.synsets(word)})
    found = {"one translation": (x for x in same if bare(x[0]) != bare(x[1]) and not merged(*x)),
             "near": near, "one word": one_word_apart(texts, wordnet, least),
             "negation": negations(texts), "itself": zip(texts, texts),
             "word, itself": zip(words, words),
             "two words": (rng.sample(words, 2) for _ in words)}
    return {kind: sorted({tuple(sorted(x)) for x in pairs if kind in SAME or kind == "two words"
                          or clusters[x[0]] != clusters[x[1]] and not differ_by_alike(*x)})
            for kind, pairs in found.items()}


def write_tables(data_dir, bert, folder):
    """Writes train.tsv, each pair in both orders; dev.tsv; choose.tsv and calibrate.tsv, the halves
    of dev.tsv; texts.txt. No sentence of Tatoeba is in two of train and the halves, and none of
    PAWS's and STS-B's dev in both halves."""
    names = "train", "choose", "calibrate", "dev"
    folder.mkdir(parents=True, exist_ok=True)
    check_free(*(folder / f"{name}.tsv" for name in names), folder / "texts.txt")
    sources, wordnet = load_sources(data_dir), load_wordnet()
    tatoeba = load_tatoeba(Path(data_dir) / "tatoeba")
    tables, texts = {"train": sources["train"], "choose": [], "calibrate": []}, defaultdict(list)
    tops = joined((pair.a, pair.b) for pair in sources["dev"])
    for pair in sources["dev"]:
        tables["choose" if random.Random(tops[pair.a]).random() < 0.5 else "calibrate"].append(pair)
    held = {frozenset((pair.a, pair.b)) for pair in sources["dev"]}
    for text, cluster in sorted(tatoeba[1].items()):
        draw = random.Random(cluster).random() / HELD_OUT
        texts["choose" if draw < 0.5 else "calibrate" if draw < 1 else "train"].append(text)
    labelled = list(dict.fromkeys(texts_of(sources["train"])))
    for split in names[:3]:
        share, least = (1, 5) if split == "train" else (HELD_OUT / 2, 3)
        found = people(texts[split], tatoeba, wordnet, bert, data_dir, least)
        if split == "train":
            rng = random.Random("some")
            some = rng.sample(texts["train"], 9000) + rng.sample(labelled, 5000)
            for kind, *pair in changed(some, wordnet):
                found.setdefault(kind, []).append(pair)
        for kind, rows in found.items():
            rng = random.Random(kind)
            for pair in rng.sample(rows, min(len(rows), round(share * MOST[kind]))):
                tables[split].append(Pair(*rng.sample(pair, 2), int(kind in SAME), kind))
    train = [pair for pair in tables["train"] if frozenset((pair.a, pair.b)) not in held]
    random.Random("order").shuffle(train)  # so that --limit takes some of each kind
    turned = [replace(pair, a=pair.b, b=pair.a) for pair in train if pair.a != pair.b]
    tables |= {"train": train + turned, "dev": tables["choose"] + tables["calibrate"]}
    for name, rows in tables.items():
        print(f"{name}: {len(rows)} pairs, {Counter((x.group, x.label) for x in rows)}")
        cells = pair_rows(TASK, rows)
        cells = [x + [y] for x, y in zip(cells, ["kind", *(pair.group for pair in rows)])]
        write_text(folder / f"{name}.tsv", table_text("x.tsv", cells))
    read = dict.fromkeys([*labelled, *random.Random("texts").sample(texts["train"], READ)])
    write_text(folder / "texts.txt", "".join(f"{text}\n" for text in read))


# ---- The run that ships --------------------------------------------------------------------------

def best_temperature(logits, labels):
    """The T with the lowest loss of softmax(logits / T), to 1 %. logits: (N, C). labels: (N,)."""
    tried = torch.logspace(-1, 1, 463)  # 0.1 to 10
    return float(min(tried, key=lambda T: F.cross_entropy(logits / T, labels)))


def calibration_error(logits, labels):
    """Can the probabilities be believed?  Guo et al. 2017 (arXiv 1706.04599), Eq. (3)

        ECE = Σ_m |B_m| / N |acc(B_m) - conf(B_m)|,   15 bins of the answers' probabilities

    logits: (N, C). labels: (N,).
    """
    confidence, answer = logits.softmax(1).max(1)
    right, bins = (answer == labels).float(), (15 * confidence).ceil()
    gaps = [(right - confidence)[bins == m].sum().abs() for m in bins.unique()]
    return float(sum(gaps)) / len(labels)


def export(folder, out, tables):
    """Copies a run: calibrated, with int8 weights, and scored again on all of dev."""
    out.mkdir(parents=True, exist_ok=True)
    check_free(*(out / name for name in ("best.pt", "config.json", "result.json")))
    run, saved = open_run(folder, precision="fp32"), read_saved(folder / "best.pt")
    config, result = (read_json(folder / f"{name}.json") for name in ("config", "result"))
    split = {}
    for name in ("calibrate", "choose"):
        header, rows = read_table(tables / f"{name}.tsv", run.task.labels)
        split[name] = [replace(pair, group=fields[header.index("kind")]) for fields, pair in rows]
    dev = run.examples(split["calibrate"] + split["choose"])
    labels, before = torch.tensor([pair.label for pair in dev.pairs]), run.logits(dev)
    half = len(split["calibrate"])
    T = best_temperature(before[:half], labels[:half])
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
    after = open_run(out).logits(dev)
    for name in ("paws", "stsb", "tatoeba", "dev"):
        rows = [i for i, pair in enumerate(dev.pairs)
                if name in (pair.group, "dev") or name == "tatoeba" != pair.group not in (
                    "paws", "stsb")]
        result["metrics"][f"dev-{name}" if name != "dev" else name], result["threshold"] = (
            score_logits(run.task, labels[rows].tolist(), after[rows]))
    result["int8_changes"] = int((before.argmax(1) != after.argmax(1)).sum())
    result["calibration"] = {"temperature": T,
                             "error": calibration_error(after[half:], labels[half:])}
    write_json(out / "config.json", config)
    write_json(out / "result.json", result)
    print(f"{out}: {(out / 'best.pt').stat().st_size:,} bytes; int8 changes "
          f"{result['int8_changes']} of {len(labels)} answers\n{metrics_table(result['metrics'])}")


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.english", __doc__)
    arguments.add_argument("--data-dir", default="data", help="folder of data sets, or of tables")
    arguments.add_argument("--bert", default="base", help="the encoder that says what is near")
    arguments.add_argument("--out", metavar="FOLDER", required=True, help="what is written")
    arguments.add_argument("--export", metavar="RUN", help="the run to calibrate, as int8")
    given = arguments.parse(argv)
    with machine.torch_session({}):
        if "export" in given:
            export(Path(given["export"]), Path(given["out"]), Path(given["data_dir"]))
        else:
            write_tables(given["data_dir"], given["bert"], Path(given["out"]))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.english"))
