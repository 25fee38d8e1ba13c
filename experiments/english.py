"""The data of assets/english, the model that answers everyday English, and how a run is shipped.

    python -m experiments.english --data-dir data --out TABLES
    python -m experiments.english --data-dir TABLES --export RUN --out assets/english

The first command writes train.tsv, dev.tsv, and texts.txt, which an encoder reads first. In Tatoeba
(data/tatoeba, of manythings.org/anki) two sentences with one translation are the same, and two that
no chain of translations joins differ. CHANGES teaches who did it to whom, and two negations.
Assumes: one translation, one meaning; assets/README.md counts the wrong labels of each kind.
"""
import random
import re
import sys
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import torch
import torch.nn.functional as F

from batches import texts_of
from run import open_run, read_saved
from support.biaffine import load_parser
from support.datasets import load_task
from support.files import check_free, read_json, read_lines, write_json, write_text, write_whole
from support.lexicon import WordNet
from support.machine import torch_session
from support.options import Arguments, run_command
from support.parses import parse_texts
from support.tables import read_pairs, table_text

LABELS = "different", "same"
# Kind -> its pairs in train, at most. Dev has HELD_OUT of Tatoeba, and that share of the pairs.
SAME = {"one translation": 11000, "itself": 1500, "word, itself": 600, "passive": 700,
        "front": 1000, "one denied": 1400}
DIFFERENT = {"near": 5000, "one word": 5000, "opposite": 1600, "co-hyponym": 1300,
             "negation": 1300, "two words": 300, "exchange": 2200, "passive, exchanged": 700,
             "both denied": 700}
HELD_OUT, READ = 0.05, 20000  # READ: sentences of Tatoeba that the encoder reads
FULL = {"can't": "can not", "cannot": "can not", "won't": "will not", "n't": " not", "'m": " am",
        "'re": " are", "'s": " is", "'ve": " have", "'ll": " will", "'d": " would"}
MERGED = [set(words.split()) for words in (  # another language may have one word for two of these
    "i me my mine myself we us our ours ourselves", "you your yours yourself yourselves",
    "he him his himself", "she her hers herself", "they them their theirs themselves",
    "it its itself this that these those", "tom", "mary", "was were did had",
    "is are am do does has have", "here there", "a an the some")]
LETTERS = {"DET": "d", "ADJ": "j", "NUM": "j", "AUX": "a", "VERB": "v", "PUNCT": ".", "PRON": "r",
           "NOUN nsubj": "w", "PROPN nsubj": "w", "NOUN obj": "o", "PROPN obj": "o", "NOUN": "n",
           "PROPN": "n", "ADP case": "i"}  # tag, or tag and relation; other words: x
WHO, WHOM, WHAT = "(d?j*n*wn*)", "(d?j*n*on*)", "(d?j*n+)"
CHANGES = [  # (kind, the letters at the beginning of a sentence, what its parts become)
    ("exchange", f"{WHO}(a?v){WHOM}(?=[.i])", "{2} {1} {0}"),
    ("exchange", f"(d?j*n*wn*|r)(a?v.*?i){WHAT}(i){WHAT}", "{0} {1} {4} {3} {2}"),
    ("passive", f"{WHO}(v){WHOM}(?=[.i])", "{2} {was[2]} {1} by {0}"),
    ("passive, exchanged", f"{WHO}(v){WHOM}(?=[.i])", "{0} {was[0]} {1} by {2}"),
    ("front", "([dj]*[nwr]+a?v[^.x]*?)(id?j*n+)(?=[.]$)", "{1}, {0}"),
    ("denied", "(.*?[nwr]a)(?=j)", "{0} not")]
PARTICIPLE = re.compile("[a-z]+ed|made|held|caught|bought|found|kept|lost|won|led|heard|left|paid")
LEFT = re.compile(r"\b(not|no|never|nobody|nothing|meet|met|marry|married|of|too|very|really|all)\b"
                  r"|n't|[^\w][.]$|[^.]$", re.IGNORECASE)  # sentences that stay as they are


def words_of(text):
    """A tuple of the words in small letters, contractions in full: I don't. -> i do not."""
    text = text.lower().replace("’", "'")
    for short, full in FULL.items():
        text = text.replace(short, full)
    return tuple(re.findall(r"\w+", text))


def merged(a, b):
    """May one translation of a and b have lost a difference in person or in tense?"""
    a, b = {*words_of(a)}, {*words_of(b)}
    kinds, others = ({i for i, line in enumerate(MERGED[:-2]) if line & words} for words in (a, b))
    return kinds - others and others - kinds or a != b and any(a ^ b <= line for line in MERGED)


def load_tatoeba(folder):
    """(dict English sentence -> set of its translations (file, text); dict sentence -> the first of
    all that chains of translations join with it)."""
    english, beside, cluster = defaultdict(set), defaultdict(set), {}
    for name in ("fra", "cmn", "deu"):
        for line in read_lines(folder / f"{name}.txt"):
            if re.fullmatch(".+\t.+\n", line) and not line.startswith("1\t"):  # not cut; no header
                text, other = (part.strip() for part in line.split("\t")[:2])
                english[text].add((name, other))
                beside[name, other].add(text)
    for first in sorted(english):
        waiting = [first]
        while waiting:
            if (text := waiting.pop()) not in cluster:
                cluster[text] = first
                waiting += (x for other in english[text] for x in beside[other])
    return english, cluster


def people(texts, english, lexicon):
    """Yields (kind, a, b): what translations say of some sentences of Tatoeba. english: dict
    sentence -> its translations. Of a kind that differs, a chain may still join a and b."""
    groups = defaultdict(list)  # (kind, what sentences share) -> [(what they do not, sentence)]
    for text in texts:
        words = words_of(text)
        rest = tuple(word for word in words if word not in ("not", "do", "does", "did"))
        if not text.endswith("?"):
            groups["negation", rest].append(("not" in words, text))
        for other in english[text]:
            groups["one translation", other].append((text.rstrip(".!?"), text))
        for i, word in enumerate(words):
            groups["one word", words[:i], words[i + 1:]].append((word, text))
    for (kind, *_), found in groups.items():
        for (x, a), (y, b) in combinations(found, 2):
            if kind == "one word":
                yield one_word(lexicon.read(x, None), lexicon.read(y, None), len(a.split())), a, b
            elif x != y and not (kind == "one translation" and merged(a, b)):
                yield kind, a, b


def one_word(x, y, length):
    """The kind of two sentences with one word apart, or None. x, y: its Facts. length: in words."""
    if not x or not y or x.senses & y.senses:
        return None
    if x.opposites & y.senses:
        return "opposite"
    if x.parents & y.parents:
        return "co-hyponym"
    return "one word" if length >= 5 else None


def neighbours(texts, parser, lexicon):
    """Yields each text with its four nearest, by the cosine of the means of the GloVe vectors of
    the words that WordNet knows."""
    rows = [[parser.vector_ids.get(word, 0) for word in words_of(text) if lexicon.read(word, None)]
            or [0] for text in texts]
    vectors = F.normalize(torch.stack([parser.vectors[row].mean(0) for row in rows]))
    for a, vector in zip(texts, vectors):
        nearest = (vectors @ vector).topk(min(5, len(texts))).indices  # itself among them
        yield from (("near", a, texts[i]) for i in nearest)


def changes(parse):
    """Yields (kind, what a text becomes). Phrases that change places are all one, or all many."""
    text, tags, relations = parse.text, parse.tags, parse.relations
    letters = "".join(LETTERS.get(f"{tag} {relation}") or LETTERS.get(tag, "x")
                      for tag, relation in zip(tags, relations))
    for kind, pattern, form in CHANGES:
        if (match := re.match(pattern, letters)) and not LEFT.search(text):
            spans = [(parse.spans[match.start(i)][0], parse.spans[match.end(i) - 1][1])
                     for i in range(1, match.re.groups + 1)]
            parts = [text[start:end] for start, end in spans]
            if tags[0] != "PROPN" and parse.words[0] != "I":
                parts[0] = parts[0][0].lower() + parts[0][1:]
            was = ["were" if part.endswith("s") else "was" for part in parts]
            new = form.format(*parts, was=was) + text[spans[-1][1]:]
            new = new[0].upper() + new[1:]
            fits = len({*was[::2]}) == 1 and ("was" not in form or PARTICIPLE.fullmatch(parts[1]))
            if fits and new != text:
                yield kind, new


def opposite_by_prefix(word, wordnet):
    """An adjective's opposite, of which one is the other with a prefix: unkind, or None."""
    for lemma in wordnet.lemmas(word, "a") + wordnet.lemmas(word, "s"):
        for other in lemma.antonyms():
            short, long = sorted((word, other.name()), key=len)
            if re.fullmatch(f"(un|in|im|ir|il|dis){short}", long):
                return other.name()
    return None


def changed(texts, parser, wordnet):
    """Yields (kind, a, b): texts and what they become. One that says the opposite by a prefix is
    the same when it is denied: She is kind. / She is not unkind."""
    for text, parse in parse_texts(texts, parser).items():
        found = dict(changes(parse))
        denied, root = found.pop("denied", None), parse.heads.tolist().index(0)
        yield from ((kind, text, new) for kind, new in found.items())
        word = parse.words[root]
        if denied and parse.tags[root] == "ADJ" and (other := opposite_by_prefix(word, wordnet)):
            opposite, both = (re.sub(rf"\b{word}\b", other, x) for x in (text, denied))
            yield from (("one denied", text, both), ("one denied", denied, opposite),
                        ("both denied", denied, both), ("opposite", text, opposite))


def labelled(data_dir):
    """dict split -> rows (a, b, label, kind) of PAWS and STS-B. STS-B's scores from 4 on are the
    same, up to 3 different; its training pairs with a sentence of MRPC stay out."""
    paws, stsb, mrpc = (load_task(name, data_dir)[1] for name in ("paws", "stsb", "mrpc"))
    news = {words_of(text) for pairs in mrpc.values() for text in texts_of(pairs)}
    return {split: [(x.a, x.b, LABELS[x.label], "paws") for x in paws[split]] + [
        (x.a, x.b, LABELS[x.label >= 4], "stsb") for x in stsb[split] if not 3 < x.label < 4
        and (split == "dev" or news.isdisjoint((words_of(x.a), words_of(x.b))))]
        for split in ("train", "dev")}


def pairs_of(texts, english, cluster, lexicon, parser):
    """A list of (kind, a, b): of some sentences of Tatoeba, and of their words."""
    found, some = [], random.Random("near").sample(texts, min(10000, len(texts)))
    for kind, a, b in (*people(texts, english, lexicon), *neighbours(some, parser, lexicon)):
        files, others = ({file for file, _ in english[text]} for text in (a, b))
        if kind in SAME or cluster[a] != cluster[b] and files & others:
            found.append((kind, a, b))
    words = sorted({word.capitalize() for text in texts for word in words_of(text)
                    if len(word) > 2 and lexicon.read(word, None)})
    found += [("two words", x, random.Random(x).choice(words)) for x in words]
    return found + [("word, itself", x, x) for x in words] + [("itself", x, x) for x in texts]


def drawn(found, share):
    """A list of rows (a, b, label, kind): of each kind's pairs this share of what train may have.
    found: (kind, a, b)."""
    rows = []
    for kind, most in (SAME | DIFFERENT).items():
        rng = random.Random(kind)
        pairs = sorted({tuple(sorted(pair)) for name, *pair in found if name == kind})
        rows += [(*rng.sample(pair, 2), LABELS[kind in SAME], kind)
                 for pair in rng.sample(pairs, min(len(pairs), round(share * most)))]
    return rows


def write_tables(data_dir, folder):
    """Writes train.tsv, each pair in both orders; dev.tsv, of which no sentence of Tatoeba and no
    pair is in train.tsv; texts.txt."""
    tables, lexicon, parser = labelled(data_dir), WordNet(), load_parser()
    english, cluster = load_tatoeba(data_dir / "tatoeba")
    folder.mkdir(parents=True)
    texts = {"dev": [], "train": []}
    for text in sorted(english):
        held = random.Random(cluster[text]).random() < HELD_OUT
        texts["dev" if held else "train"].append(text)
    read = [text for row in tables["train"] for text in row[:2]]
    read = [*dict.fromkeys(read + random.Random("texts").sample(texts["train"], READ))]
    write_text(folder / "texts.txt", "".join(f"{text}\n" for text in read))
    found = {split: pairs_of(texts[split], english, cluster, lexicon, parser) for split in texts}
    found["train"] += changed({*read, *texts["train"]}, parser, lexicon.wordnet)
    dev = tables["dev"] + drawn(found["dev"], HELD_OUT)
    held = {frozenset(row[:2]) for row in dev}
    train = [row for row in tables["train"] + drawn(found["train"], 1)
             if frozenset(row[:2]) not in held]
    train += [(b, a, *rest) for a, b, *rest in train if a != b]
    random.Random("order").shuffle(train)  # so that --limit takes some of each kind
    for name, rows in (("dev", dev), ("train", train)):
        print(f"{name}: {len(rows)} pairs, {dict(Counter(kind for *_, kind in rows))}")
        header = [("sentence1", "sentence2", "label", "kind")]
        write_text(folder / f"{name}.tsv", table_text("x.tsv", header + rows))


def export(folder, out, tables):
    """Copies a run. The temperature with the lowest loss on fourth.tsv beside the copy divides the
    logits. Weights become int8, 64 numbers of a row with one scale."""
    check_free(out / "best.pt")
    run, saved = open_run(folder, precision="fp32"), read_saved(folder / "best.pt")
    everyday = read_pairs(out / "fourth.tsv", LABELS)
    logits, labels = run.logits(everyday), torch.tensor([pair.label for pair in everyday])
    T = min(torch.logspace(-1, 1, 463), key=lambda T: F.cross_entropy(logits / T, labels))
    weights, saved["scales"] = saved["weights"], {}
    for name, W in weights.items():
        if name.startswith("classifier."):
            W /= T
        if W.dim() == 2 and W.shape[1] % 64 == 0:
            parts = W.unflatten(1, (-1, 64))
            scale = (parts.abs().amax(2, keepdim=True) / 127).clamp(min=1e-7).half()
            saved["scales"][name], weights[name] = scale, (parts / scale).round().to(torch.int8)
    saved["recipe"] |= {"device": "cpu", "precision": "fp32"}  # of use; result.json has training's
    write_whole(out / "best.pt", lambda file: torch.save(saved, file))
    small, result = open_run(out), read_json(folder / "result.json")
    dev = small.examples(read_pairs(tables / "dev.tsv", LABELS))
    result["metrics"]["dev"], _, result["threshold"] = small.score(dev)
    write_json(out / "result.json", result | {"influence": small.influence(dev)})
    changed = (small.logits(dev).argmax(1) != run.logits(dev.pairs).argmax(1)).sum()
    print(f"temperature {T:.2f}; int8 changes {changed} of {len(dev.pairs)} answers of dev")


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.english", __doc__)
    arguments.add_argument("--data-dir", default="data", help="folder of data sets, or of tables")
    arguments.add_argument("--out", metavar="FOLDER", required=True, help="what is written")
    arguments.add_argument("--export", metavar="RUN", help="the run to calibrate, as int8")
    given = {name: Path(value) for name, value in arguments.parse(argv).items()}
    with torch_session({}):
        if "export" in given:
            export(given["export"], given["out"], given["data_dir"])
        else:
            write_tables(given["data_dir"], given["out"])


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.english"))
