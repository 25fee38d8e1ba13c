"""support/toy.py: the pairs, labels and groups of toy, by one checksum, and its task."""
import hashlib

from support.datasets import load_task
from support.pairs import Task


def test_the_pairs_are_always_the_same():
    """Results in docs/ and in tests/results are on exactly these."""
    task, splits = load_task("toy", "nowhere")
    lines = [f"{split}\t{p.a}\t{p.b}\t{p.label}\t{p.group}\n"
             for split, pairs in splits.items() for p in pairs]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == (
        "7c7460ce6b5098186245f4627c1c1a2432f54a5bbdd82ec5454f62372386294e")
    assert task == Task("toy", ("different", "same"), ("accuracy",), "dev", 4)
