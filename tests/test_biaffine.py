"""support/biaffine.py: trees, the network, its file."""
import hashlib
import itertools

import numpy as np
import pytest
import torch

from priors import TAGS
from small_runs import fails, write_file
from support.biaffine import PARSER, Parser, load_parser, maximum_spanning_tree

VOCABULARY = {"words": ["p", "q"], "characters": ["p", "é"], "tags": ["NOUN", "VERB"],
              "relations": ["root", "obj", "x"], "vectors": ["q", "r"]}
SIZES = dict(word_size=5, vector_size=17, character_size=3, filters=2, hidden=7, arc_size=11,
             relation_size=13)
SENTENCES = [list("pqrpq"), ["q" * 30, "Q"], ["p"], ["é" * 12 + "p" * 99 + "q" * 12]]


def leads_to_root(heads):
    """Does each walk upwards from the words 1, 2, ... end at 0, and does one word hang there?"""
    at = range(len(heads) + 1)
    for _ in heads:
        at = [heads[word - 1] if word else 0 for word in at]
    return not any(at) and heads.count(0) == 1


def test_maximum_spanning_tree_is_the_best_of_all_trees():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = rng.integers(1, 5)
        scores = rng.integers(-9, 10, (n + 1, n + 1)) * rng.choice([1e-3, 1.0, 1e5])
        totals = {heads: sum(scores[i, head] for i, head in enumerate(heads, 1))
                  for heads in itertools.product(range(n + 1), repeat=n) if leads_to_root(heads)}
        root, *heads = maximum_spanning_tree(scores).tolist()
        assert root == 0 and totals[tuple(heads)] == pytest.approx(max(totals.values()))


def test_padding_and_neighbours_change_no_score():
    """They change no parse either, and each parse is a tree, though scores are high and random."""
    torch.manual_seed(0)
    parser = Parser(VOCABULARY, **SIZES)
    for weight in (parser.W_arc, parser.W_rel, parser.vectors[1:]):
        torch.nn.init.normal_(weight, std=3.0)
    for words, answer in zip(SENTENCES, parser.parse(SENTENCES), strict=True):
        assert parser.parse([words]) == [answer]
        assert [len(column) for column in answer] == [len(words)] * 3
        assert leads_to_root(answer[1])
    together = parser(SENTENCES)
    for k, words in enumerate(SENTENCES):
        for one, beside in zip(parser([words]), together):
            torch.testing.assert_close(beside[k, :len(words) + 1, :one.shape[2]], one[0])


ENGLISH = """\
The/DET/3/det old/ADJ/3/amod dog/NOUN/4/nsubj chased/VERB/0/root a/DET/6/det \
cat/NOUN/4/obj ./PUNCT/4/punct
The/DET/2/det cat/NOUN/8/nsubj that/PRON/4/nsubj chased/VERB/2/acl:relcl the/DET/6/det \
dog/NOUN/4/obj was/AUX/8/cop black/ADJ/0/root ./PUNCT/8/punct
The/DET/2/det letter/NOUN/4/nsubj:pass was/AUX/4/aux:pass written/VERB/0/root by/ADP/7/case \
my/PRON/7/nmod:poss sister/NOUN/4/obl:agent ./PUNCT/4/punct"""


def test_the_shipped_parser_knows_english(tmp_path):
    """Also a treebank's brackets, typographic apostrophes; also under a caller's autocast. To load
    it leaves torch's random state. Its tags are DRr-Net's. A truncated file is named."""
    before, parser, content = torch.get_rng_state(), load_parser(), PARSER.read_bytes()
    assert torch.equal(before, torch.get_rng_state())
    assert parser.fingerprint == hashlib.sha256(content).hexdigest()
    path = write_file(tmp_path, "x.npz", content[:999])
    fails(lambda: load_parser(path), path)
    assert sorted(parser.vocabulary["tags"]) == [*TAGS]
    for line in ENGLISH.splitlines():
        words, tags, heads, relations = zip(*(word.split("/") for word in line.split()))
        with torch.autocast("cpu", torch.bfloat16):
            answer = parser.parse([words])
        assert answer == [([*tags], [*map(int, heads)], [*relations])]
    pair = ["It 's here -LRB- Bob -RRB- .".split(), "It ’s here ( Bob ) .".split()]
    assert torch.equal(*parser.embed(pair))
