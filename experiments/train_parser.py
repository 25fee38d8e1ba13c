"""Trains a dependency parser on a treebank, and scores it.

    python -m experiments.train_parser --treebank FOLDER [--vectors FILE] [--out FILE]
    python -m experiments.train_parser --treebank FOLDER --score [PARSER]

The first command writes FILE and, beside it, its scores as JSON. FOLDER holds the three .conllu
files of a treebank of Universal Dependencies. Of the vectors the first 40,000 are used, the most
frequent words in GloVe's own files. The second command scores the parser that ships, or another
one. Left out: a later training of the shipped parser with swapped words (assets/README.md).
"""
import itertools
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from support import machine
from support.biaffine import PARSER, Parser, length_batches, load_parser
from support.errors import expecting, refuse
from support.files import check_free, read_lines, write_json, write_whole
from support.options import Arguments, run_command
from support.parses import tree_depths
from support.words import read_vectors

RECIPE = {"epochs": 26, "lr": 2.5e-3, "batch_words": 1500, "unknown": 0.2, "seed": 0}
FREQUENT = 40_000                                    # fixed vectors, at most
QUESTIONS = 3                                        # an epoch has each question this many times
LOWER, TITLED, OPEN, LINKED = 0.1, 0.03, 0.1, 0.05   # shares of sentences, see `vary`
LINKS = "@{}", "#{}", "http://t.co/{}", "www.{}.com"


# ---- The treebank -------------------------------------------------------------------------------

FORM, TAG, HEAD, RELATION = 1, 3, 6, 7   # columns of CoNLL-U; column 0 is the number


def read_conllu(path):
    """The sentences of a CoNLL-U file, each four lists: forms, tags, heads, relations.

    Raises ValueError that names file and line.
    """
    sentences, rows = [], []
    for number, line in enumerate([*read_lines(path), ""], 1):
        line = line.rstrip("\r\n")
        if line and not line.startswith("#"):
            rows.append((f"{path}, line {number}", line.split("\t")))
        elif rows and not line:
            sentences.append(read_sentence(rows))
            rows = []
    return sentences


def read_sentence(rows):
    """The columns of a sentence's rows, each (where, columns). Tokens of several words (8-9) and
    empty nodes (8.1) are left out."""
    words = []
    for where, row in rows:
        if "-" not in row[0] and "." not in row[0]:
            words.append(row)
            refuse(len(row) != 10 or row[0] != f"{len(words)}" or not row[FORM].strip(),
                   f"{where}: expected 10 tab-separated columns, first {len(words)}, this word's "
                   f"number, then its form, found {' '.join(row)[:60]!r}")
    where, heads = rows[0][0], [row[HEAD] for row in words]
    with expecting(where, "heads, column 7, that all lead to one word with head 0", "correct them"):
        heads = [*map(int, heads)]
        refuse(heads.count(0) != 1 or tree_depths(heads).max() > len(heads), f"{heads}")
    forms, tags, relations = ([row[column] for row in words] for column in (FORM, TAG, RELATION))
    return forms, tags, heads, relations


# ---- Training -----------------------------------------------------------------------------------

def make_parser(train, vectors):
    """An untrained Parser for all tags and relations of the sentences, for lower-case words that
    occur twice or more, and characters three times. vectors: dict word -> fixed vector (50,).
    """
    words = Counter(form.lower() for forms, *_ in train for form in forms)
    letters = Counter(letter for forms, *_ in train for letter in "".join(forms))
    all_tags = {tag for _, tags, *_ in train for tag in tags}
    all_relations = {relation for *_, relations in train for relation in relations}
    parser = Parser({"words": [word for word, count in words.most_common() if count >= 2],
                     "characters": sorted(c for c, count in letters.items() if count >= 3),
                     "tags": sorted(all_tags), "relations": sorted(all_relations),
                     "vectors": list(vectors)})
    draw_weights(parser)
    for row, vector in zip(parser.vectors[1:], vectors.values()):
        row.copy_(torch.from_numpy(vector))
    return parser


def draw_weights(parser):
    """Orthogonal recurrent and biaffine input weights, as in their code; open forget gates."""
    for lstm in parser.lstm:
        for w in lstm.weight_hh_l0.data.chunk(4):
            nn.init.orthogonal_(w)
        nn.init.zeros_(lstm.bias_hh_l0)
        nn.init.zeros_(lstm.bias_ih_l0)
        lstm.bias_ih_l0.data[lstm.hidden_size:2 * lstm.hidden_size] = 1.0
    for layer in (parser.arc_dep, parser.arc_head, parser.rel_dep, parser.rel_head):
        nn.init.orthogonal_(layer.weight)
        nn.init.zeros_(layer.bias)
    nn.init.normal_(parser.word.weight, std=0.1)


def mixed_batches(lengths, batch_words, rng):
    """`length_batches` in random order. Sentences of about the same length change their places."""
    order = [length * (1 + 0.1 * rng.random()) + rng.random() for length in lengths]
    batches = length_batches(lengths, order, batch_words)
    rng.shuffle(batches)
    return batches


def train_parser(parser, train, epochs, lr, batch_words, unknown, seed):
    """Trains a Parser on sentences, lists of the columns FORM, TAG, HEAD, RELATION. unknown: share
    of words whose embedding is hidden, and of words whose vector is hidden. The final weights are a
    moving average over about the last 500 steps.
    """
    rng, start = random.Random(seed), time.monotonic()
    train = train + (QUESTIONS - 1) * [columns for columns in train if "?" in columns[0]]
    lengths = [len(forms) for forms, *_ in train]
    plan = [mixed_batches(lengths, batch_words, rng) for _ in range(epochs)]
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
        print(f"epoch {epoch}: loss {loss.item():.3f}, {time.monotonic() - start:.0f} s",
              file=sys.stderr, flush=True)
    parser.load_state_dict(average)


def vary(forms, tags, heads, relations, rng):
    """The columns of a sentence, changed at random to what people write on the web: lower case; a
    headline; no last mark; a name or a noun as @name, #tag or an address.
    """
    if rng.random() < TITLED:
        forms = [form[0].upper() + form[1:] for form in forms]
    if rng.random() < LOWER:
        forms = [form.lower() for form in forms]
    last = len(forms)
    if rng.random() < OPEN and last > 1 and tags[-1] == "PUNCT" and last not in heads:
        forms, tags, heads, relations = (x[:-1] for x in (forms, tags, heads, relations))
    nouns = [i for i, tag in enumerate(tags) if tag in ("NOUN", "PROPN")]
    if rng.random() < LINKED and nouns:
        i = rng.choice(nouns)
        forms = [*forms[:i], rng.choice(LINKS).format(forms[i]), *forms[i + 1:]]
    return forms, tags, heads, relations


def frequent_vectors(path):
    """dict word -> vector (50,) float32 of the first FREQUENT lines of a file in GloVe's text form.
    Raises ValueError if the file has none, or another width.
    """
    with open(path, "rb") as file:
        words = {line.partition(b" ")[0].decode("utf-8", "replace")
                 for line in itertools.islice(file, FREQUENT)}
    vectors = read_vectors(path, words)
    width = len(next(iter(vectors.values())))
    refuse(width != 50, f"--vectors {path}: expected 50 numbers a word, found {width}")
    return vectors


def parser_loss(parser, sentences, unknown):
    """Cross-entropy of tags, of heads, and of relations given the right heads; a scalar tensor."""
    with machine.autocast("cpu", machine.fast_precision("cpu")):
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
    """dict of the shares of words that are right, given gold words; punctuation counts. sentences:
    of read_conllu. LAS_universal ignores the relations' subtypes (as CoNLL 2018 does).
    """
    rows = []
    for (_, *tree), answer in zip(sentences, parser.parse([forms for forms, *_ in sentences])):
        for word, gold in zip(zip(*answer), zip(*tree)):
            universal = word[2].split(":")[0] == gold[2].split(":")[0]
            rows.append([*(x == y for x, y in zip(word, gold)), universal])
    tag, head, relation, universal = np.array(rows).T
    return {"UPOS": tag.mean(), "UAS": head.mean(), "LAS": (head & relation).mean(),
            "LAS_universal": (head & universal).mean()}


def score(parser, treebank):
    """Prints the parser's shares on dev and test. Returns: dict split -> shares."""
    scores = {}
    for split in ("dev", "test"):
        scores[split] = score_parser(parser, treebank[split])
        shares = (f"{name} {100 * share:.1f}" for name, share in scores[split].items())
        print(split, *shares, sep="  ")
    return scores


def save_parser(parser, path):
    """Writes the parser as one .npz: half-precision weights, and the vocabulary as JSON."""
    arrays = {name: value.half().numpy() for name, value in parser.state_dict().items()}
    arrays["vocabulary"] = np.array(json.dumps(parser.vocabulary, ensure_ascii=False))
    write_whole(path, lambda file: np.savez_compressed(file, **arrays))


def main(argv=None):
    """Runs the command line. Raises ValueError for a mistake. The dev split chooses nothing."""
    arguments = Arguments("python -m experiments.train_parser",
                          "Trains and scores the dependency parser.", "--treebank FOLDER")
    arguments.add_argument("--treebank", required=True, metavar="FOLDER",
                           help="holds *-train.conllu, *-dev.conllu, *-test.conllu")
    arguments.add_argument("--vectors", metavar="FILE",
                           help="fixed vectors of 50 numbers in GloVe's text form (default: none)")
    arguments.add_argument("--score", metavar="PARSER", nargs="?", const=PARSER,
                           help="only scores this parser (default: the one that ships)")
    arguments.add_argument("--out", metavar="FILE",
                           help="the new parser, its scores beside it (default: parser.npz)")
    options, start = arguments.parse(argv), time.monotonic()
    files, folder = {}, options["treebank"]
    for split in ("train", "dev", "test"):
        files[split] = list(Path(folder).glob(f"*-{split}.conllu"))
        refuse(len(files[split]) != 1, f"--treebank {folder}: needs one *-{split}.conllu")
    treebank = {split: read_conllu(path) for split, (path,) in files.items()}
    if "score" in options:
        score(load_parser(options["score"]), treebank)
        return
    out = Path(options.get("out", "parser.npz"))
    refuse(out.suffix != ".npz", f"--out {out}: expected a new name that ends in .npz")
    out.parent.mkdir(parents=True, exist_ok=True)
    check_free(out, out.with_suffix(".json"))
    vectors = frequent_vectors(options["vectors"]) if "vectors" in options else {}
    torch.manual_seed(RECIPE["seed"])
    parser = make_parser(treebank["train"], vectors)
    train_parser(parser, treebank["train"], **RECIPE)
    save_parser(parser, out)
    parser = load_parser(out)
    write_json(out.with_suffix(".json"), {
        "treebank": {split: [path.name, len(treebank[split])] for split, (path,) in files.items()},
        "scores": score(parser, treebank),
        "parameters": sum(p.numel() for p in parser.parameters()),
        "vectors": len(parser.vector_ids), **RECIPE,
        "seconds": round(time.monotonic() - start), "torch": torch.__version__})


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.train_parser"))
