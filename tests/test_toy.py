"""support/toy.py: its pairs are always the same, and balanced."""
import hashlib
import re
from collections import Counter

import pytest

from support.data import Task, load_task
from support.toy import toy_task

GROUPS = ["roles", "voice", "prepositions", "numbers", "synonyms", "antonyms", "modifiers"]


@pytest.fixture(scope="module")
def splits():
    return toy_task()[1]


def test_the_pairs_are_always_the_same(splits):
    """Results in docs/ and in tests/results are on exactly these."""
    lines = [f"{split}\t{p.a}\t{p.b}\t{p.label}\t{p.group}\n"
             for split, pairs in splits.items() for p in pairs]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == (
        "7c7460ce6b5098186245f4627c1c1a2432f54a5bbdd82ec5454f62372386294e")
    assert load_task("toy", "nowhere") == (
        Task("toy", ("different", "same"), ("accuracy",), "dev", 4), splits)


def measures(pair):
    """Word overlap and lengths."""
    a, b = (re.findall(r"[\w-]+", text.lower()) for text in (pair.a, pair.b))
    return len({*a} & {*b}) / len({*a} | {*b}), len(a), len(b)


def test_squares(splits):
    """A square has two sentences a and two b, each in a pair of either label, and in no other.

    Overlap and lengths of its pairs with label 1 are those of the pairs with label 0.
    """
    everywhere = Counter()
    for name, pairs in splits.items():
        counts = Counter((p.group, p.label) for p in pairs)
        assert counts == {(g, y): 400 if name == "train" else 60 for g in GROUPS for y in (0, 1)}
        for square in (pairs[i:i + 4] for i in range(0, len(pairs), 4)):
            assert len({p.group for p in square}) == 1
            for side in "ab":
                uses = Counter((getattr(p, side), p.label) for p in square)
                assert len(uses) == 4 and len({text for text, _ in uses}) == 2
                everywhere.update({text for text, _ in uses})
            one, zero = (zip(*(measures(p) for p in square if p.label == y)) for y in (1, 0))
            assert list(map(sorted, one)) == list(map(sorted, zero))
    assert set(everywhere.values()) == {1}
