"""Draws the pictures for slides: python tutorials/course/pictures.py [FOLDER]

Each shows one misprint: the page beside what its text intends, computed by the library.
"""
import argparse
import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from experiments.draw import bars, heat, picture  # noqa: E402
from semmatch import calibrated_attention, difference_scores, guided_attention  # noqa: E402

WORDS = ["12", "and", "42"]


def difference():
    """DABERT Eq. (4): rows of weights for three tokens of which the first and last differ."""
    q = torch.tensor([[[[1.0, 2.0, 0.0], [0.0, 0.0, 0.5], [2.0, 0.0, 1.0]]]])
    k = torch.tensor([[[[1.0, 2.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 3.0]]]])
    figures = []
    for title, printed in (("Eq. (4) as printed", True), ("with bars", False)):
        weights = difference_scores(q, k, printed).softmax(-1)[0, 0]
        figures.append(heat(title, WORDS, WORDS, weights.numpy(), top=1.0))
    return "Difference attention: without bars every query has the same row", figures


def guide():
    """DABERT Eq. (5), DAFA Eq. (7): weights under three different guides."""
    torch.manual_seed(1)
    values, guides = torch.randn(1, 3, 4), 2 * torch.randn(1, 3, 4)
    W_values, W_guide, w = nn.Linear(4, 6, False), nn.Linear(4, 6), nn.Linear(12, 1)
    half = nn.Linear(6, 1, False)
    half.weight.data = w.weight.data[:, :6]
    for layer in (W_values, W_guide, w, half):
        layer.weight.data *= 3
    mask, figures = torch.ones(1, 3, dtype=torch.bool), []
    for title, last, printed in (("⊕ as printed", w, True), ("added inside tanh", half, False)):
        with torch.no_grad():
            _, weights = guided_attention(values, guides, mask, W_values, W_guide, last, printed)
        figures.append(heat(title, ["guide 1", "guide 2", "guide 3"], ["value 1", "value 2",
                            "value 3"], weights[0].numpy(), top=1.0))
    return "Guided attention: with ⊕ the guide has no influence", figures


def prior():
    """DAFA Eq. (6): the weight of a key with a negative q·k while its prior grows."""
    q, k = torch.ones(1, 1, 2, 1), torch.tensor([[[[-1.0], [0.0]]]])
    v, mask = torch.tensor([[[[1.0], [0.0]]]]), torch.ones(1, 2, dtype=torch.bool)
    sizes, figures = [1.0, 2.0, 3.0, 4.0, 5.0], []
    for title, printed in (("scores times M", True), ("weights times M", False)):
        found = []
        for size in sizes:
            M = torch.ones(1, 2, 2)
            M[:, :, 0] = size
            taken = calibrated_attention(q, k, v, M if printed else M.log(), mask, 0.0, printed)
            found.append(float(taken[0, 0, 0, 0]))
        figures.append(bars(title, [f"M = {size:.0f}" for size in sizes], found, top=1.0))
    return "A prior on a negative score: its weight must grow, and falls", figures


def main(argv=None):
    """Writes the pictures and returns the exit status."""
    parser = argparse.ArgumentParser("pictures.py", description="Writes the three pictures.")
    parser.add_argument("folder", nargs="?", type=Path, default=HERE / "pictures")
    folder = parser.parse_args(argv).folder
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (difference, guide, prior):
        (folder / f"{draw.__name__}.svg").write_text(picture(*draw()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
