"""How good a parser is: by genre, on pairs of sentences that differ in one word, two subjects.

    python -m experiments.score_parser --treebank FOLDER [--data-dir FOLDER] [--parser FILE]

Pairs that differ in one word are made of the dev split, whose tags say which words are names,
numbers, ordinals, nationalities, colours; of SICK, the last four by their words alone. SICK has
pairs of its own as well, where one noun, verb or adjective stands for another. Each pair should get
one tree. A word that replaces another is among the 10,000 most frequent of the parser's vectors.
"""

import random
import sys
import time
from collections import Counter

from experiments.train_parser import find_treebank, read_columns, score_parser, word_kinds
from priors import load_wordnet
from support.conllu import read_conllu
from support.data import load_task
from support.options import Arguments, run_command
from support.parser import PARSER, load_parser
from support.parses import parse_texts

PAIRS = 200      # of each kind and source, at most
FREQUENT = 10_000


def genre_scores(parser, path):
    """dict genre -> scores of the sentences of a CoNLL-U file; a sent_id begins with its genre."""
    genres = {}
    for sentence, columns in zip(read_conllu(path), read_columns(path)):
        for comment in sentence.comments:
            if comment.startswith("# sent_id = "):
                genre = comment.removeprefix("# sent_id = ").partition("-")[0]
                genres.setdefault(genre, []).append(columns)
    return {genre: score_parser(parser, rows) for genre, rows in sorted(genres.items())}


def count_rivals(trees):
    """How many trees (heads, relations) have a word with two subjects (an outer one is none)?"""
    found = 0
    for heads, relations in trees:
        subjects = [head for head, relation in zip(heads, relations)
                    if relation.startswith(("nsubj", "csubj")) and "outer" not in relation]
        found += len(set(subjects)) < len(subjects)
    return found


def replaced(sentences, kinds, rng):
    """dict kind -> pairs of sentences (lists of words) that differ in one word of this kind.

    sentences: (words, tags); tags are None where they are unknown, and so are names then.
    """
    kind_of = {word.lower(): kind for kind, words in kinds.items() if kind != "name"
               for word in words}
    pairs = {}
    for words, tags in sentences:
        for i, word in enumerate(words):
            kind = kind_of.get(word.lower())
            if tags:
                tag = {"name": "PROPN", "number": "NUM"}.get(kind, "ADJ")
                if tags[i] == "PROPN" and word.istitle() and word.isalpha():
                    kind = "name"
                elif tags[i] != tag or word[0].isupper() != (kind == "nation"):
                    kind = None
            if kind:
                other = rng.choice([other for other in kinds[kind] if other != word])
                pairs.setdefault(kind, []).append((words, [*words[:i], other, *words[i + 1:]]))
    return {kind: rng.sample(found, min(PAIRS, len(found))) for kind, found in pairs.items()}


def exchanged(pairs):
    """Pairs of word lists that differ in one word, of the same parts of speech in WordNet."""
    wordnet, found = load_wordnet(), []
    for a, b in pairs:
        if len(a) != len(b):
            continue
        different = [(x, y) for x, y in zip(a, b) if x != y]
        if len(different) == 1:
            sorts = [{synset.pos().replace("s", "a") for synset in wordnet.synsets(word)
                      if word in synset.lemma_names()} for word in different[0]]
            if sorts[0] and sorts[0] == sorts[1]:
                found.append((a, b))
    return found


def share_of_two_trees(parser, pairs):
    """Of pairs of word lists, the share that gets different heads or relations."""
    trees = iter(parser.parse([words for pair in pairs for words in pair]))
    return sum(next(trees)[1:] != next(trees)[1:] for _ in pairs) / len(pairs)


def sick_pairs(data_dir):
    """The pairs of SICK as lists of words, without those that are there twice."""
    _, splits = load_task("sick", data_dir, progress=False)
    pairs = {(pair.a, pair.b): None for split in splits.values() for pair in split}
    return [tuple(text.split() for text in pair) for pair in pairs]


def main(argv=None):
    """Runs the command line. Raises ValueError for a mistake."""
    arguments = Arguments("python -m experiments.score_parser", "Scores a dependency parser.",
                          "--treebank FOLDER")
    arguments.add_argument("--treebank", required=True, metavar="FOLDER",
                           help="holds *-train.conllu, *-dev.conllu, *-test.conllu")
    arguments.add_argument("--data-dir", metavar="FOLDER", help="holds sick and mrpc, if at all")
    arguments.add_argument("--parser", metavar="FILE", help="of another training (.npz)")
    options = arguments.parse(argv)
    parser, files = load_parser(options.get("parser", PARSER)), find_treebank(options["treebank"])
    data = {split: read_columns(path) for split, path in files.items()}
    for split in ("dev", "test"):
        genres = genre_scores(parser, files[split]) | {"all": score_parser(parser, data[split])}
        for genre, scores in genres.items():
            print(split, genre, *(f"{name} {100 * x:.1f}" for name, x in scores.items()), sep="  ")
        sentences = [forms for forms, *_ in data[split]]
        began = time.monotonic()
        trees = [tree[1:] for tree in parser.parse(sentences)]
        print(f"{split}  {len(sentences) / (time.monotonic() - began):.0f} sentences a second; "
              f"two subjects in {count_rivals(trees)} of {len(trees)}")
    frequent = set(list(parser.vector_ids)[:FREQUENT])
    kinds, rng = word_kinds(data["train"], frequent), random.Random(0)
    kinds["name"] = [name for name in kinds["name"] if name.lower() in frequent]
    sources = {"dev": replaced([(forms, tags) for forms, tags, *_ in data["dev"]], kinds, rng)}
    if "data_dir" in options:
        _, splits = load_task("mrpc", options["data_dir"], progress=False)
        texts = sorted({text for split in splits.values() for pair in split
                        for text in (pair.a, pair.b)})
        trees = [(parse.heads.tolist(), parse.relations)
                 for parse in parse_texts(texts, parser, progress=False).values()]
        print(f"MRPC  two subjects in {count_rivals(trees)} of {len(trees)}")
        pairs = sick_pairs(options["data_dir"])
        texts = sorted({tuple(words) for pair in pairs for words in pair})
        sources["SICK"] = replaced([(list(words), None) for words in texts], kinds, rng)
        sources["SICK"]["its own"] = exchanged(pairs)
    sizes = Counter()
    for source, kinds in sources.items():
        for kind, pairs in kinds.items():
            share = share_of_two_trees(parser, pairs)
            sizes.update(pairs=len(pairs), different=round(share * len(pairs)))
            print(f"one word, {source}, {kind}: {100 * share:.1f} % of {len(pairs)} pairs have "
                  f"different trees")
    print(f"one word, all: {100 * sizes['different'] / sizes['pairs']:.1f} % of {sizes['pairs']}")


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.score_parser"))
