"""experiments/english.py: sentences that become others, and a run with int8 weights."""
import random

import pytest
import torch

import train
from experiments import english
from priors import load_wordnet
from small_runs import loaded, of
from support import runs
from support.biaffine import load_parser
from support.parses import parse_texts

TEXTS = ("The storm damaged the roof.", "A man is riding two horses.", "They moved to Lisbon.",
         "The letter was written by Anna.", "It snowed in Oslo.", "The shop is open.",
         "A dog sees a cat.", "Tea is hot.", "It may rain.")


@pytest.fixture(scope="module")
def known(wordnet):  # which skips this file where there is none
    return english.Words(parse_texts(TEXTS, load_parser()), load_wordnet())


@pytest.mark.parametrize("kind, expected", [
    ("exchange", {0: "The roof damaged the storm.", 1: "Two horses is riding a man.",
                  3: "Anna was written by the letter.", 6: "A cat sees a dog."}),
    ("passive", {0: "The roof was damaged by the storm."}),
    ("passive, exchanged", {0: "The storm was damaged by the roof."}),
    ("negation", {0: "The storm did not damage the roof.", 1: "A man is not riding two horses.",
                  3: "The letter was not written by Anna.", 6: "A dog does not see a cat.",
                  2: "They did not move to Lisbon.", 4: "It did not snow in Oslo.",
                  5: "The shop is not open.", 7: "Tea is not hot."}),
    ("front", {2: "To Lisbon, they moved.", 3: "By Anna, the letter was written.",
               4: "In Oslo, it snowed."})])
def test_what_each_sentence_becomes(kind, expected, known):
    made = [english.KINDS[kind][0](text, random.Random(0), known) for text in TEXTS]
    assert {i: new for i, new in enumerate(made) if new} == expected


def test_int8_weights_are_read_as_they_were_written(trained):
    """Each number of a matrix is off by half a step at most, and the run answers from the file."""
    folder = trained(*of("bert"), "--epochs", "1", "--limit", "4")
    saved = loaded(folder / "best.pt")
    weights = saved["weights"]
    for name in weights:
        weights[name] = weights[name] * torch.arange(1, len(weights[name]) + 1.).view(
            -1, *[1] * (weights[name].dim() - 1))  # rows of different sizes
    small = runs.as_int8(weights)
    assert {x.dtype for x in small["weights"].values() if x.dim() == 2} == {torch.int8}
    torch.save(saved | small, folder / "best.pt")
    for name, read in train.open_run(folder).model.state_dict().items():
        step = weights[name].abs().amax(-1, keepdim=True) / 127 * (weights[name].dim() == 2)
        assert ((read - weights[name]).abs() <= step * 0.5001).all() and read.dtype == torch.float
