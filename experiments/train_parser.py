"""How assets/parser.npz was made: trains the dependency parser on a treebank.

    python -m experiments.train_parser --treebank FOLDER [--vectors FILE] [--out FILE]

writes FILE and, beside it, its scores as JSON. FOLDER holds the three .conllu files of a treebank
of Universal Dependencies. Of the vectors, in GloVe's text form, the first 40,000 are taken, the
most frequent words in GloVe's own files.
"""

import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from support.conllu import FORM, HEAD, RELATION, TAG, read_conllu
from support.files import write_json
from support.options import Arguments, guarded
from support.parser import Parser, length_batches, load_parser, save_parser
from support.words import read_vectors

RECIPE = {"epochs": 26, "lr": 2.5e-3, "batch_words": 1500, "unknown": 0.2, "seed": 0}
FREQUENT = 40_000                                            # fixed vectors, at most
LOWER, OPEN, LINKED = 0.1, 0.1, 0.05                         # shares of sentences, see `vary`
LINKS = "@{}", "#{}", "http://t.co/{}", "www.{}.com"


def train_parser(train, vectors, epochs, lr, batch_words, unknown, seed):
    """A Parser trained on sentences, lists of the columns FORM, TAG, HEAD, RELATION.

    vectors: dict word -> fixed vector (50,). unknown: share of words whose embedding, and of those
    whose vector it does not see. Adam (0.9, 0.9), 200 steps of warm-up, then linearly to 0; clipped
    at norm 5. What is kept is the moving average of the weights over about the last 500 steps.
    """
    rng, began = random.Random(seed), time.monotonic()
    torch.manual_seed(seed)
    parser = Parser(make_vocabulary(train) | {"vectors": list(vectors)})
    for row, vector in zip(parser.vectors[1:], vectors.values()):
        row.copy_(torch.from_numpy(vector))
    lengths = [len(forms) for forms, *_ in train]
    plan = [length_batches(lengths, batch_words, rng) for _ in range(epochs)]
    steps, step = sum(map(len, plan)), 0
    optimizer = torch.optim.Adam(parser.parameters(), lr=lr, betas=(0.9, 0.9))
    average = {name: value.clone() for name, value in parser.state_dict().items()}
    for epoch, batches in enumerate(plan, 1):
        parser.train()
        for batch in tqdm(batches, desc=f"epoch {epoch}/{epochs}", leave=False, disable=None):
            for group in optimizer.param_groups:
                group["lr"] = lr * min((step + 1) / 200, 1 - step / steps)
            loss = parser_loss(parser, [vary(*train[i], rng) for i in batch], unknown)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parser.parameters(), 5.0)
            optimizer.step()
            step += 1
            keep = min(0.998, (1 + step) / (10 + step))
            for name, value in parser.state_dict().items():
                average[name].lerp_(value, 1 - keep)
        print(f"epoch {epoch}: loss {loss.item():.3f}, {time.monotonic() - began:.0f} s",
              file=sys.stderr, flush=True)
    parser.load_state_dict(average)
    return parser


def vary(forms, tags, heads, relations, rng):
    """The columns of a sentence as people write on the web, by chance: in lower case; without the
    last mark; a name or a noun as @name, #tag or an address."""
    if rng.random() < LOWER:
        forms = [form.lower() for form in forms]
    last = len(forms)
    if rng.random() < OPEN and last > 1 and tags[-1] == "PUNCT" and last not in heads:
        forms, tags, heads, relations = forms[:-1], tags[:-1], heads[:-1], relations[:-1]
    nouns = [i for i, tag in enumerate(tags) if tag in ("NOUN", "PROPN")]
    if rng.random() < LINKED and nouns:
        i = rng.choice(nouns)
        forms = [*forms[:i], rng.choice(LINKS).format(forms[i]), *forms[i + 1:]]
    return forms, tags, heads, relations


def make_vocabulary(train):
    """Words seen twice or more (lower-case), characters three times, all tags and relations."""
    words, letters, all_tags, all_relations = Counter(), Counter(), set(), set()
    for forms, tags, _, relations in train:
        words.update(form.lower() for form in forms)
        letters.update("".join(forms))
        all_tags.update(tags)
        all_relations.update(relations)
    return {"words": [word for word, count in words.most_common() if count >= 2],
            "characters": sorted(c for c, count in letters.items() if count >= 3),
            "tags": sorted(all_tags), "relations": sorted(all_relations)}


def frequent_vectors(path):
    """dict word -> vector (50,) float32 of the first FREQUENT lines of a file in GloVe's text form.

    Raises ValueError where it cannot be read, or its vectors have another width.
    """
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            words = {line.partition(b" ")[0].decode("utf-8", "replace")
                     for line in itertools.islice(file, FREQUENT)}
    except OSError as error:
        raise ValueError(f"--vectors {path}: {error.strerror}") from None
    found, _ = read_vectors(path, words)
    width = len(next(iter(found.values())))
    if width != 50:
        raise ValueError(f"--vectors {path}: expected 50 numbers a word, found {width}")
    return found


def parser_loss(parser, sentences, unknown):
    """Cross-entropy of tags, heads, and relations given the right heads; a scalar tensor."""
    with torch.autocast("cpu", torch.bfloat16):
        scores = parser([forms for forms, *_ in sentences], unknown)
    tags, arc, rel_dep, rel_head = (x.float() for x in scores)
    tag_of = {name: t for t, name in enumerate(parser.vocabulary["tags"])}
    relation_of = {name: r for r, name in enumerate(parser.vocabulary["relations"])}
    rows = []
    for k, (_, *columns) in enumerate(sentences):
        rows += [(k, i, tag_of[t], head, relation_of[r])
                 for i, (t, head, r) in enumerate(zip(*columns), 1)]
    k, i, tag, head, relation = torch.tensor(rows).T
    relations = parser.relation_scores(rel_dep[k, i], rel_head[k, head])
    return (F.cross_entropy(tags[k, i], tag) + F.cross_entropy(arc[k, i], head)
            + F.cross_entropy(relations, relation))


def score_parser(parser, sentences):
    """dict of the shares of words that are right, gold words given, punctuation counted.

    UPOS, UAS, LAS, and LAS_universal, of relations without their subtypes (as CoNLL 2018 counts).
    sentences: lists of the columns FORM, TAG, HEAD, RELATION.
    """
    counts = Counter()
    answers = parser.parse([forms for forms, *_ in sentences])
    for (_, *gold), (tags, heads, relations) in zip(sentences, answers):
        for tag, head, relation, gold_tag, gold_head, gold_relation in zip(
                tags, heads, relations, *gold):
            right = head == gold_head
            universal = relation.split(":")[0] == gold_relation.split(":")[0]
            counts.update(words=1, UPOS=tag == gold_tag, UAS=right,
                          LAS=right and relation == gold_relation,
                          LAS_universal=right and universal)
    names = "UPOS", "UAS", "LAS", "LAS_universal"
    return {name: counts[name] / counts["words"] for name in names}


def read_columns(path):
    """Sentences of a CoNLL-U file as lists of their columns FORM, TAG, HEAD, RELATION."""
    return [[sentence.column(which) for which in (FORM, TAG, HEAD, RELATION)]
            for sentence in read_conllu(path)]


def find_treebank(folder):
    """dict split -> the path of its file. Raises ValueError where one of the three is missing."""
    files = {}
    for split in ("train", "dev", "test"):
        found = sorted(Path(folder).glob(f"*-{split}.conllu"))
        if not found:
            raise ValueError(f"--treebank {folder}: expected a file named *-{split}.conllu")
        files[split] = found[0]
    return files


def check_out(path):
    """Raises ValueError or OSError where the parser and its scores cannot be written."""
    if path.suffix != ".npz":
        raise ValueError(f"--out {path}: needs a name that ends in .npz")
    for file in (path, path.with_suffix(".json")):
        if file.exists():
            raise ValueError(f"--out {path}: {file} is there already; move it or give another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=path.parent).close()


def main(argv=None):
    """Runs the command line. Raises ValueError for a mistake.

    The dev split is only reported, the test split is scored once at the end. What is scored is what
    was written.
    """
    arguments = Arguments("python -m experiments.train_parser", "Trains the dependency parser.",
                          "--treebank FOLDER")
    arguments.add_argument("--treebank", required=True, metavar="FOLDER",
                           help="holds *-train.conllu, *-dev.conllu, *-test.conllu")
    arguments.add_argument("--vectors", metavar="FILE",
                           help="fixed vectors of 50 numbers in GloVe's text form (default: none)")
    arguments.add_argument("--out", metavar="FILE",
                           help="the parser, with its scores beside it as .json; a file that is "
                                "there is not overwritten (default: parser.npz)")
    options, began = arguments.parse(argv), time.monotonic()
    out = Path(options.get("out", "parser.npz"))
    check_out(out)
    files = find_treebank(options["treebank"])
    vectors = frequent_vectors(options.get("vectors"))
    data = {split: read_columns(path) for split, path in files.items()}
    save_parser(train_parser(data["train"], vectors, **RECIPE), out)
    parser = load_parser(out)
    scores = {split: score_parser(parser, data[split]) for split in ("dev", "test")}
    write_json(out.with_suffix(".json"), {
        "treebank": {split: [path.name, len(data[split])] for split, path in files.items()},
        "scores": scores, "parameters": sum(p.numel() for p in parser.parameters()),
        "vectors": len(vectors), **RECIPE,
        "seconds": round(time.monotonic() - began), "torch": torch.__version__})
    for split, shares in scores.items():
        print(split, *(f"{name} {100 * share:.1f}" for name, share in shares.items()), sep="  ")


if __name__ == "__main__":
    sys.exit(guarded(main, "experiments.train_parser"))
