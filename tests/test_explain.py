"""experiments/draw.py, explain.py: what figures hold, that a page is whole, pages of each model."""
import http.client
import re
import threading
import urllib.parse
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import train
from experiments import draw, explain
from small_runs import MODELS, OWN, ROOT, of, result, write_pairs
from support.options import run_command
from support.parses import split_words

A = 'the <b>dog</b> & "good" cat\'s book is'
B = "new york 日本語 cafe\u0301 \u202eabc 🦜 bad ]]> &amp; flight <script>alert(1)</script>"
SVG, PNG = "{http://www.w3.org/2000/svg}", "data:image/png;base64,"


def as_xml(text):
    """The page as XML, with the ends of cells that HTML lets it leave out."""
    assert not re.search(r"<(?!meta|input|path|rect|image)\w+[^>]*/>", text), "HTML leaves it open"
    text = re.sub("(<(t[dh])(?: [^>]*)?>)<p>([^<]*)", r"\1<p>\3</p></\2>", text)
    text = re.sub("(<(t[dh])(?: [^>]*)?>)([^<]+|(?=</?t))", r"\1\3</\2>", text)
    return ElementTree.fromstring(text)


def taken_apart(text):
    """The page as XML: no script runs; each figure has a table for the blind."""
    root = as_xml(text)
    assert not re.search(r"https?:|url\(|@import", root.find(".//style").text)
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
        assert node.tag not in ("script", "link", "img", "iframe", "object", "base", "form")
        assert not [x for x in node.attrib if x.startswith("on") or x in ("src", "action")]
        assert node.get("href", PNG).startswith(PNG)
    names = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(set(names)) == len(names)
    assert all(figure.find(".//table") is not None for figure in root.iter("figure"))
    return root


def said(node):
    return "".join(node.itertext())


def titles(root):
    return [h2.text.strip() for h2 in root.iter("h2")]


def tables(root):
    """dict caption, without what is said of heads -> (columns, rows, cells)."""
    found = {}
    for table in root.iter("table"):
        rows = [[said(cell) for cell in tr] for tr in table.iter("tr")]
        columns, *rows = rows
        found[said(table.find("caption"))] = (columns[1:], [row[0] for row in rows],
                                              [row[1:] for row in rows])
    return found


def values(cells):
    """(n, m) numbers."""
    return np.array([[float(cell) for cell in row] for row in cells])


ONCE = "--epochs", "1", "--limit", "4"
TREES = ["Dependency tree of sentence a", "Dependency tree of sentence b"]
MOVED = "Attention moved by the trees"
KNOWN = {"dafa": [MOVED, *TREES, "Dependency prior over words"],
         "knowledge": ["Attention moved by the lexicon", "Relations of words"],
         "drrnet": TREES}
LOOK, READ = "First look: sentence ", "Reading, step by step: "
STEPS = {"Reading, step by step": "reading", "Coverage, step by step": "coverage"}
# of methods with several figures for a part of the trace: title -> that part, and where in it
SPLIT = {
    "drrnet": {LOOK + "a": ("pooling", (0, 0)), LOOK + "b": ("pooling", (1, 0)),
               READ + "sentence a": ("reading", (0, 0)), READ + "sentence b": ("reading", (1, 0)),
               "The two judgements": ("relations", 0), "Gates of the two judgements": ("gates", 0)},
    "ladranet": {"First look": ("pooling", (slice(None), 0))} | {
        f"{title}: {name}": (part, (0, slice(None), k))
        for k, name in enumerate(["pieces", "phrases of 2", "phrases of 3"])
        for title, part in STEPS.items()} | {
            "Mixture of layers": ("layers", ...), "Mixture of each step": ("mixture", 0)}}


def explained(a=A, b=B, *more):
    """The page that the command writes about the run in "run", taken apart."""
    assert run_command(explain.main, "explain", ["run", a, b, *more]) == 0
    return taken_apart(Path("run", explain.page_name(a, b)).read_text("utf-8"))


def assert_shows(root, trace, promised):
    """What the page's tables say of a trace is what stands in it.

    promised: dict title -> (part of the trace, where in it), in the order of the page.
    """
    for title, (name, place) in promised.items():
        shown, x = values(tables(root)[title][2]), np.asarray(trace[name])[place]
        x = x.reshape(1, -1) if x.ndim == 1 or x.shape[1:] == (1,) else x
        x = x.mean(0) if x.ndim == 3 else x
        x = x[:shown.shape[0], :shown.shape[1]]  # the words of the shorter sentence
        np.testing.assert_allclose(shown, x, atol=6e-4, err_msg=title)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_explains_itself(model, trained, capsys):
    run = train.open_run(trained(*of(model), *ONCE))
    capsys.readouterr()
    root, ((answer, p), trace), told = explained(), run.explain(A, B), run.settings.method.TRACE
    promised = SPLIT.get(model) or {shown.title: (name, 0) for name, shown in told.items()}
    first, *read, path = capsys.readouterr().out.splitlines()
    changes = {name: x for name, x in run.changes().items() if not name.startswith("another")}
    expected = [p, *(run.predict([(A, B)], x)[0].probabilities for x in changes.values())]
    _, rows, cells = tables(root)["Probability of each answer"]
    for row, cell, probabilities, line in zip(rows, cells, expected, read, strict=False):
        assert cell == [f"{100 * x:.1f} %" for x in probabilities.values()]
        likely = max(probabilities, key=probabilities.get)
        assert " ".join(line.split()) == f"{row} {likely} {100 * probabilities[likely]:.1f} %"
    assert first == root.find(".//h1").text and f"The model says “{answer}”" in first
    assert rows[0] == "as it is" and len(rows) == len(expected)
    influence = result()["influence"]
    read = read[len(rows) + bool(changes):]
    for change in influence["changes"].values() if influence else ():
        assert f"{100 * change['answers']:.1f} % with" in said(root.find(".//header"))
    assert path == f"run/{explain.page_name(A, B)}"
    assert titles(root) == KNOWN.get(model, []) + list(promised)
    assert_shows(root, trace, promised)
    stepwise = [title for title in promised if title.startswith(READ)]
    for line, title in zip(read, stepwise, strict=True):
        name, words = line.strip().split(": ", 1)
        columns, _, cells = tables(root)[title]
        chosen = values(cells).argmax(1)
        assert words.split(" → ") == [draw.legal_text(columns[j]) for j in chosen]
        assert title == READ + name and f": {words}." in said(root)
    for text in ("", "\x00\x07\ufffe \udc80 x a\u2028b שלום", "word " * 64):
        assert titles(explained(text, "dog")) == titles(root)
    for title, text in zip(TREES, (A, B) if TREES[0] in titles(root) else ()):
        words = [text[i:j] for i, j in split_words(text).tolist()]
        assert [row[0] for row in tables(root)[title][2]] == words
    if model == "dafa":
        prior = run.reader.prior(run.examples([(A, B)]).pairs[0])
        shown = values(tables(root)["Dependency prior over words"][2])
        np.testing.assert_allclose(shown, prior, atol=6e-4)


def test_attention_moved_by_the_trees(trained):
    """Words of a by words of b, in hundredths: the mean over the pieces of a word of a, the sum
    over those of b; both trees at the sides.
    """
    run = train.open_run(trained(*of("dafa"), *ONCE))
    a, b = "the seattle dog", "seattle dog"
    trace = run.explain(a, b)[1]
    moved = (trace["calibrated"] - trace["attention"])[0].mean(0)
    columns, rows, cells = tables(root := explained(a, b))[MOVED]
    assert (rows, columns) == (a.split(), b.split())
    _, segment, word = run.examples([(a, b)]).tokens(0)
    assert len(word) > 3 + 5                               # some word has several pieces
    expected = np.zeros((3, 2))
    for i, j in np.ndindex(3, 2):
        of_a, of_b = (segment == 0) & (word == i), (segment == 1) & (word == j)
        expected[i, j] = 100 * moved[of_a][:, of_b].sum(1).mean()
    assert np.ptp(expected) > 1                            # it is more than rounding
    np.testing.assert_allclose(values(cells), expected, atol=6e-4)
    figure = next(root.iter("figure"))
    assert len(figure.findall(".//g[@class='arc']")) == 5


def asked(port, path, host="127.0.0.1"):
    """(status, page) that a server on this machine answers."""
    door = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    door.request("GET", path, headers={"Host": f"{host}:{port}"})
    answer = door.getresponse()
    return answer.status, answer.read().decode("utf-8")


def test_served(trained):
    """Text stays text; another path, and another site's name for this machine, find nothing."""
    run = train.open_run(trained(*of("dafa"), *ONCE))
    with explain.server(run, 0) as door:
        threading.Thread(target=door.serve_forever, daemon=True).start()
        try:
            query = urllib.parse.urlencode({"a": A, "b": B})
            status, text = asked(door.server_port, f"/?{query}")
            root = as_xml(text)
            fields = [node.get("value") for node in root.iter("input")
                      if node.get("name") in ("a", "b")]
            assert status == 200 and fields == [A, B] and MOVED in text
            assert not list(root.iter("script"))
            assert asked(door.server_port, "/etc/passwd")[0] == 404
            assert asked(door.server_port, "/", "evil.example")[0] == 404
        finally:
            door.shutdown()


def test_two_runs_beside_each_other(trained, capsys):
    """What is equal stands once; as typeset, Eq. (6) calibrates otherwise; Eq. (7) has other
    weights, so that it cannot be asked of a run that was trained without it."""
    run = train.open_run(trained(*of("dafa"), *ONCE))
    typeset = train.open_run("run", printed="6")
    root = explained("the dog", "cat", "--printed", "6")
    expected = typeset.explain("the dog", "cat")[1]["calibrated"][0].mean(0)
    table = tables(root)["Attention after calibration"]
    assert [title for title in titles(root) if "calibration" in title or MOVED in title] == [
        f"{title} ({name})" for title in (MOVED, "Attention after calibration")
        for name in ("as trained", "Eq. 6 as typeset")]
    np.testing.assert_allclose(values(table[2]), expected, atol=6e-4)
    assert not np.allclose(expected, run.explain("the dog", "cat")[1]["calibrated"][0].mean(0))
    answer = typeset.predict(("the dog", "cat"))[0].answer
    assert capsys.readouterr().out.split("Eq. 6 as typeset")[1].split()[0] == answer
    assert run_command(explain.main, "explain", ["run", "a", "b", "--printed", "7"]) == 2


def test_a_method_of_ones_own(trained, workplace):
    """A prior that is a function."""
    place = f"{ROOT}/tutorials/mine.py:SharedWords"
    trained("--model", place, *ONCE)
    root = explained("the good dog", "a dog", "--model", place)
    assert tables(root)["Prior over words"][2] == [["0", "0"], ["0", "0"], ["0", "1"]]


def test_a_score_has_no_probabilities(workplace):
    write_pairs(lambda rng, same: f"{same}.5", train=4, dev=4)
    assert not train.main([*OWN, *of("drrnet"), *ONCE, "--out", "run"])
    root = explained()
    assert re.fullmatch(r"The model gives -?\d+\.\d{3}\.", root.find(".//h1").text)
    assert "Probability of each answer" not in tables(root)
    assert tables(root)["The two judgements"][0] == ["score"]
