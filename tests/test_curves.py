"""support/curves.py: what is drawn stands where it should."""
import xml.etree.ElementTree as ElementTree

import pytest

from support import curves

SVG = "{http://www.w3.org/2000/svg}"


def drawn(events, best=2):
    """(text, polylines as lists of points, circles) of the picture of these events."""
    text = curves.draw_run(events, "accuracy", best)
    page = ElementTree.fromstring(text)
    lines = [[tuple(map(float, point.split(","))) for point in line.get("points").split()]
             for line in page.iter(f"{SVG}polyline")]
    return "".join(page.itertext()), lines, list(page.iter(f"{SVG}circle"))


def test_curves_of_a_run():
    losses = [{"step": k, "loss": x} for k, x in ((1, 0.75), (2, 0.5), (3, 0.25))]
    results = [{"step": 3 * k, "epoch": k, "split": "dev<", "accuracy": x, "f1": 0.0}
               for k, x in ((1, 0.5), (2, 0.9), (3, 0.7))]
    text, (loss, result), dots = drawn(losses + results)
    bottom, right = curves.TOP + curves.HIGH, curves.LEFT + curves.WIDE
    middle = (curves.LEFT + right) / 2, (curves.TOP + bottom) / 2
    assert loss == [(curves.LEFT, curves.TOP), middle, (right, bottom)]
    assert [y for _, y in result] == pytest.approx([bottom, curves.TOP, (curves.TOP + bottom) / 2])
    assert [dot.get("class") for dot in dots] == ["mark open", "mark", "mark open"]
    assert all(word in text for word in ("0.75", "0.25", "90", "50", "dev< accuracy", "epoch 1"))
