"""How often WordNet's relations are those that a person sees, and how many a task has.

    python -m experiments.score_lexicon [--half s] [--tags no] [--senses 1] [--data-dir FOLDER]

The word pairs are those of tests/fixtures/word_pairs.txt, which says how to read it: half b is to
build on, half s was scored once. Precision: of the pairs of different words to which the lexicon
gives a relation, the share that have one of them by the list; pairs that it lacks count as wrong.
Recall: of the list's relations, the share that is found.
"""

import sys
from collections import Counter
from pathlib import Path

from priors import RELATIONS, WordNet, relation_matrix
from support.data import load_task
from support.options import Arguments, run_command
from support.parser import load_parser
from support.parses import parse_texts

WORD_PAIRS = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "word_pairs.txt"
KINDS = {"c": "captions", "n": "news"}


def read_word_pairs(path=WORD_PAIRS):
    """List of (half, kind, text a, text b, dict (word a, word b) -> relation or "none")."""
    rows = []
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            which, a, b, judged = (part.strip() for part in line.split("|"))
            pairs = dict(entry.rsplit(" ", 1) for entry in judged.split(", "))
            rows.append((*which.split(), a, b,
                         {tuple(words.split("-")): relation for words, relation in pairs.items()}))
    return rows


def found_relations(lexicon, a, b, tagged):
    """Yields (word a, word b, set of relations) of parses where the lexicon has some."""
    facts = (lexicon.facts(parse.words, parse.tags if tagged else None) for parse in (a, b))
    k = relation_matrix(*facts)
    for i, j in zip(*k.any(-1).nonzero()):
        yield a.words[i], b.words[j], {RELATIONS[r] for r in k[i, j].nonzero()[0]}


def judge(lexicon, rows, parses, tagged):
    """Counter: judged, found, right relations of rows of read_word_pairs; prints the mistakes."""
    counts = Counter()
    for _, _, a, b, judged in rows:
        related = {(x, y): names for x, y, names in found_relations(
            lexicon, parses[a], parses[b], tagged)
            if set(lexicon.base_forms(x)).isdisjoint(lexicon.base_forms(y))}
        wanted = {pair: name for pair, name in judged.items() if name != "none"}
        right = {pair for pair in wanted if wanted[pair] in related.get(pair, ())}
        counts.update(judged=len(wanted), found=len(related), right=len(right))
        for pair in sorted(related.keys() - right):
            print("  wrong:", *pair, *sorted(related[pair]), "not", judged.get(pair, "listed"))
        for pair in sorted(wanted.keys() - right):
            print("  missing:", *pair, wanted[pair])
    return counts


def main(argv=None):
    """Runs the command line. Raises ValueError for a mistake."""
    arguments = Arguments("python -m experiments.score_lexicon", "Scores WordNet's relations.")
    arguments.add_argument("--half", choices=("b", "s"), help="default: b, to build on")
    arguments.add_argument("--tags", choices=("yes", "no"),
                           help="of the parser's parts of speech (default: yes)")
    arguments.add_argument("--senses", type=int, help="of a word that count (default: 3)")
    arguments.add_argument("--depth", type=int, help="steps to a hypernym, at most (default: 4)")
    arguments.add_argument("--data-dir", metavar="FOLDER", help="holds sick and mrpc; counts them")
    options = arguments.parse(argv)
    sizes = {name: options[name] for name in ("senses", "depth") if name in options}
    tagged, lexicon, parser = options.get("tags") != "no", WordNet(**sizes), load_parser()
    rows = [row for row in read_word_pairs() if row[0] == options.get("half", "b")]
    parses = parse_texts([text for row in rows for text in row[2:4]], parser, progress=False)
    for kind, name in KINDS.items():
        counts = judge(lexicon, [row for row in rows if row[1] == kind], parses, tagged)
        print(f"{name}: precision {100 * counts['right'] / max(1, counts['found']):.0f} % of "
              f"{counts['found']}, recall {100 * counts['right'] / counts['judged']:.0f} % of "
              f"{counts['judged']}")
    for task in ("sick", "mrpc") if "data_dir" in options else ():
        _, splits = load_task(task, options["data_dir"], progress=False)
        pairs = splits["dev"]
        parses = parse_texts({text for pair in pairs for text in (pair.a, pair.b)}, parser,
                             progress=False)
        cells = Counter(name for pair in pairs for _, _, names in found_relations(
            lexicon, parses[pair.a], parses[pair.b], tagged) for name in names)
        print(f"{task} dev, cells per 100 pairs:",
              *(f"{name} {100 * cells[name] / len(pairs):.0f}" for name in RELATIONS))


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.score_lexicon"))
