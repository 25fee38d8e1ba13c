"""support/summary.py: curves.svg, the picture of a run."""
import xml.etree.ElementTree as ElementTree

import pytest

from support import summary

SVG = "{http://www.w3.org/2000/svg}"


def test_curves_of_a_run():
    """Each point stands at its place, the best one is filled; the axes have numbers and names."""
    losses = [{"step": k, "loss": x} for k, x in ((1, 0.75), (2, 0.5), (3, 0.25))]
    results = [{"step": 3 * k, "epoch": k, "split": "dev<", "accuracy": x, "f1": 0.0}
               for k, x in ((1, 0.5), (2, 0.9), (3, 0.7))]
    page = ElementTree.fromstring(summary.draw_run(losses + results, "accuracy", 2))
    loss, result = ([tuple(map(float, point.split(","))) for point in line.get("points").split()]
                    for line in page.iter(f"{SVG}polyline"))
    bottom, right = summary.TOP + summary.HIGH, summary.LEFT + summary.WIDE
    middle = (summary.LEFT + right) / 2, (summary.TOP + bottom) / 2
    assert loss == [(summary.LEFT, summary.TOP), middle, (right, bottom)]
    assert [y for _, y in result] == pytest.approx([bottom, summary.TOP, middle[1]])
    dots = [dot.get("class") for dot in page.iter(f"{SVG}circle")]
    assert dots == ["mark open", "mark", "mark open"]
    text = "".join(page.itertext())
    assert all(word in text for word in ("0.75", "0.25", "90", "50", "dev< accuracy", "epoch 1"))
