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
from collections import Counter, defaultdict
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
from support.pairs import Pair, Task
from support.parses import parse_texts
from support.summary import metrics_table
from support.tables import pair_rows, read_table, table_text

TASK = Task("own", ("different", "same"), ("accuracy",))
SAME = "one translation", "itself", "word, itself", "passive", "front"  # kinds; the others differ
# Pairs of a kind in train. Dev has HELD_OUT of the clusters, and that share of each kind.
MOST = {"one translation": 11000, "near": 5000, "one word": 5500, "opposite": 1000,
        "negation": 1300, "itself": 1500, "word, itself": 600, "two words": 300, "exchange": 2200,
        "passive, exchanged": 700, "passive": 700, "front": 1000}
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
    """dict kind -> pairs of sentences that differ in one word: `least` words and more, opposites.
    """
    @functools.cache
    def senses(word):
        found = set(wordnet.synsets(word))
        lemmas = {lemma for sense in found for lemma in sense.lemmas()}
        return (found | {other for sense in found for other in sense.similar_tos()},
                {other.synset() for lemma in lemmas for other in lemma.antonyms()})

    places, pairs = defaultdict(list), {"one word": [], "opposite": []}
    for text in texts:
        words = words_of(text)
        for i, word in enumerate(words):
            places[words[:i], words[i + 1:]].append((word, text))
    for found in places.values():
        for (word, a), (other, b) in itertools.combinations(found, 2):
            (meanings, opposites), (others, _) = senses(word), senses(other)
            alike = MERGED.get(word, word) == MERGED.get(other, other) or any(
                {word, other} <= words for words in ALIKE)
            if opposites & others:
                pairs["opposite"].append((a, b))
            elif len(a.split()) >= least and not alike and not meanings & others:
                pairs["one word"].append((a, b))
    return pairs


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
        ids = pad_sequence(pieces[start:start + 64], True, tokenizer.pad_id)
        mask = ids != tokenizer.pad_id
        states, _ = encoder(ids, torch.zeros_like(ids), mask)
        vectors.append(F.normalize((states[-1] * mask[:, :, None]).sum(1)))
    vectors, place = torch.cat(vectors), itertools.count()
    for part in vectors.split(500):
        for row in (part @ vectors.T).topk(most).indices.tolist():  # itself among them
            a = texts[next(place)]
            yield from ((a, texts[i]) for i in row)


# ---- Functions: what a sentence becomes ----------------------------------------------------------

LETTERS = {"DET": "d", "ADJ": "j", "NUM": "j", "NOUN": "n", "PROPN": "p", "AUX": "a", "VERB": "v",
           "ADP": "i", "PUNCT": ".", "PRON": "r"}  # other words: x
PHRASE = "d?j*[np]+"
DENIED = re.compile(r"\b(not|no|never|nobody|nothing)\b|n't|\?", re.IGNORECASE)
MUTUAL = "meet", "marry", "resemble", "equal"  # what one does to the other, the other does to it
# Past participles that do not end in -ed.
IRREGULAR = frozenset("""
    eaten written ridden driven taken given thrown drawn shown worn broken chosen beaten stolen made
    held cut fed built sold caught bought brought found kept lost hit shot sung taught told won led
    sent read seen heard left paid""".split())


def join(*parts):
    """The parts, a space between them, as a sentence: with a capital."""
    text = " ".join(filter(None, parts))
    return text[0].upper() + text[1:]


def parts_of(text, parse, pattern):
    """The parts of a text whose parts of speech match a pattern of LETTERS, or None. The first one
    is spelled as inside a sentence; there is what stands behind the last one, too."""
    letters = "".join(LETTERS.get(tag, "x") for tag in parse.tags)
    match, spans = re.match(pattern, letters), parse.spans.tolist()
    if not match:
        return None
    first, *others = [text[spans[match.start(i)][0]:spans[match.end(i) - 1][1]]
                      for i in range(1, match.re.groups + 1)]
    if letters[0] != "p" and parse.words[0] != "I":
        first = first[0].lower() + first[1:]
    return [first, *others, text[spans[match.end() - 1][1]:]]


def changes(text, parse, lemma, participles):
    """Yields (kind, what the text becomes). lemma: function (word, "v" or "n") -> base form.
    participles: dict lemma -> past participle."""
    found = parts_of(text, parse, f"({PHRASE})(a?v)({PHRASE})(?![npi])")
    if found and lemma(found[1].split()[-1], "v") not in MUTUAL:
        who, verb, whom, rest = found
        yield "exchange", join(whom, verb, who) + rest
        *auxiliary, verb = verb.split()
        base = lemma(verb, "v")
        forms = {"s": ("is", "are"), "g": ("is being", "are being")}.get(verb[-1], ("was", "were"))
        if base in participles and base != verb and (verb[-1] == "g") == bool(auxiliary):
            for kind, one, other in (("passive", whom, who), ("passive, exchanged", who, whom)):
                noun = one.split()[-1]
                many = noun.islower() and lemma(noun, "n") not in (noun, None)
                yield kind, join(one, forms[many], participles[base], "by", other) + rest
    found = parts_of(text, parse, f"({PHRASE}|r)(a?v.*?i)({PHRASE})(i)({PHRASE})")
    if found:
        who, verb, one, behind, other, rest = found
        yield "exchange", join(who, verb, other, behind, one) + rest
    found = parts_of(text, parse, f"((?:{PHRASE}|r)a?v[^.x]*?)(i{PHRASE})(?=[.]$|$)")
    if found and not found[1].startswith("of "):
        before, place, rest = found
        yield "front", join(f"{place},", before) + rest


def changed(texts, wordnet):
    """Yields (kind, text, what it becomes) for short sentences that deny nothing."""
    parses, participles = parse_texts(texts, load_parser()), {}
    for text in texts:
        for word, tag in zip(parses[text].words, parses[text].tags):
            base = wordnet.morphy(word, "v") if tag == "VERB" else None
            if base not in (word, None) and (word.endswith("ed") or word in IRREGULAR):
                participles[base] = word
    for text in texts:
        if len(parses[text].words) <= 20 and not DENIED.search(text):
            yield from ((kind, text, new) for kind, new in changes(
                text, parses[text], wordnet.morphy, participles))


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
             "near": near, **one_word_apart(texts, wordnet, least),
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
    tables, texts = {"train": sources["train"], "choose": [], "calibrate": []}, defaultdict(list)
    tops = joined((pair.a, pair.b) for pair in sources["dev"])
    for pair in sources["dev"]:
        tables["choose" if random.Random(tops[pair.a]).random() < 0.5 else "calibrate"].append(pair)
    tatoeba = load_tatoeba(Path(data_dir) / "tatoeba")
    for text, cluster in sorted(tatoeba[1].items()):
        part = int(random.Random(cluster).random() / HELD_OUT * 2)
        texts[("choose", "calibrate")[part] if part < 2 else "train"].append(text)
    read = random.Random("texts").sample(texts["train"], READ)
    read = list(dict.fromkeys(texts_of(sources["train"]) + read))
    write_text(folder / "texts.txt", "".join(f"{text}\n" for text in read))
    for split in ("train", "choose", "calibrate"):
        share, least = (1, 5) if split == "train" else (HELD_OUT / 2, 3)
        found = people(texts[split], tatoeba, wordnet, bert, data_dir, least)
        for kind, *pair in changed(read, wordnet) if split == "train" else ():
            found.setdefault(kind, []).append(pair)
        for kind, rows in found.items():
            rng = random.Random(kind)
            for pair in rng.sample(rows, min(len(rows), round(share * MOST[kind]))):
                tables[split].append(Pair(*rng.sample(pair, 2), int(kind in SAME), kind))
    held = {frozenset((pair.a, pair.b)) for pair in sources["dev"]}
    train = [pair for pair in tables["train"] if frozenset((pair.a, pair.b)) not in held]
    random.Random("order").shuffle(train)  # so that --limit takes some of each kind
    turned = [replace(pair, a=pair.b, b=pair.a) for pair in train if pair.a != pair.b]
    tables |= {"train": train + turned, "dev": tables["choose"] + tables["calibrate"]}
    for name, rows in tables.items():
        print(f"{name}: {len(rows)} pairs, {dict(Counter(pair.group for pair in rows))}")
        cells = zip(pair_rows(TASK, rows), ["kind", *(pair.group for pair in rows)])
        text = table_text("x.tsv", [[*row, kind] for row, kind in cells])
        write_text(folder / f"{name}.tsv", text)


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
    check_free(out / "best.pt", out / "result.json")
    run, saved = open_run(folder, precision="fp32"), read_saved(folder / "best.pt")
    result, pairs, sizes = read_json(folder / "result.json"), [], []
    for half in ("calibrate", "choose"):
        header, rows = read_table(tables / f"{half}.tsv", TASK.labels)
        for fields, pair in rows:
            kind = fields[header.index("kind")]
            group = kind if kind in ("paws", "stsb") else "tatoeba"
            pairs.append(replace(pair, group=group))
        sizes.append(len(pairs))
    dev, labels = run.examples(pairs), torch.tensor([pair.label for pair in pairs])
    before, first = run.logits(dev), sizes[0]
    T = best_temperature(before[:first], labels[:first])
    for name in ("classifier.weight", "classifier.bias"):
        saved["weights"][name] /= T
    for content in (saved, result):  # no places of this machine
        content["settings"] |= {"train_file": "train.tsv", "dev_file": "choose.tsv", "out": None}
        content["recipe"]["bert"] = result["bert"] = Path(run.recipe.bert).name
    saved["recipe"] |= {"device": "cpu", "precision": "fp32"}  # of use; result.json has training's
    saved |= as_int8(saved["weights"])
    write_whole(out / "best.pt", lambda file: torch.save(saved, file))
    small = open_run(out)
    after, (result["metrics"]["dev"], _, result["threshold"]) = small.logits(dev), small.score(dev)
    result["int8_changes"] = int((before.argmax(1) != after.argmax(1)).sum())
    result["calibration"] = {
        "temperature": T, "error": calibration_error(after[first:], labels[first:])}
    write_json(out / "result.json", result)
    print(f"{out}: {(out / 'best.pt').stat().st_size:,} bytes; int8 changes "
          f"{result['int8_changes']} of {len(labels)} answers; calibration error "
          f"{result['calibration']['error']:.3f}\n{metrics_table(result['metrics'])}")


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
