"""experiments/draw.py, explain.py: the page of each method, its drawing, the server."""
import http.client
import re
import shlex
import socket
import struct
import threading
import urllib.parse
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch

import train
from experiments import draw, explain
from small_runs import MODELS, OWN, ROOT, loaded, of, refused, result, write_pairs
from support.options import run_command
from support.parses import split_words

A = 'the <b>dog</b> & "good" cat\'s book is'
B = "new york 日本語 cafe\u0301 \u202eabc 🦜 bad ]]> &amp; flight <script>alert(1)</script>"


def parsed(text):
    """The page as XML. No text of a sentence has become an element."""
    root = ElementTree.fromstring(text)
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
    assert not [node for node in root.iter() if node.tag in ("b", "script")]
    return root


def text_of(node):
    return "".join(node.itertext())


def titles(root):
    return [h2.text for h2 in root.iter("h2")]


def tables(root):
    """dict caption -> (columns, rows, cells) of each table."""
    found = {}
    for table in root.iter("table"):
        columns, *rows = [[text_of(cell) for cell in tr] for tr in table.iter("tr")]
        found[text_of(table.find("caption"))] = (columns[1:], [row[0] for row in rows],
                                                 [row[1:] for row in rows])
    return found


ONCE = "--epochs", "1", "--limit", "4"
MOVED = "Attention moved by the trees"
KNOWN = {"bert": ["Attention between the sentences"], "dabert": ["Attention between the sentences"],
         "dafa": [MOVED, "Dependency prior over words"],
         "knowledge": ["Attention moved by the lexicon", "Relations of words"]}
LOOK, READ = "First look: sentence ", "Reading, step by step: "
# Methods with several figures for one entry of the trace: title -> the entry, and where in it
SPLIT = {
    "drrnet": {LOOK + "a": ("pooling", (0, 0)), LOOK + "b": ("pooling", (1, 0)),
               READ + "sentence a": ("reading", (0, 0)), READ + "sentence b": ("reading", (1, 0)),
               "The two judgements": ("relations", 0), "Gates of the two judgements": ("gates", 0)},
    "ladranet": {"First look": ("pooling", (slice(None), 0))} | {
        f"{title}, step by step: {name}": (title.lower(), (0, slice(None), k))
        for title in ("Reading", "Coverage")
        for k, name in enumerate(["pieces", "phrases of 2", "phrases of 3"])} | {
            "Mixture of layers": ("layers", ...), "Mixture of each step": ("mixture", 0)}}


def command(*args):
    """Exit status of experiments.explain for the run in the folder "run"."""
    return run_command(explain.main, "explain", ["run", *args])


def explained(a=A, b=B, *more):
    """The page that the command writes, as XML."""
    assert command(a, b, *more) == 0
    return parsed(Path("run", explain.page_name(a, b)).read_text("utf-8"))


@pytest.mark.parametrize("model", MODELS)
def test_every_model_explains_itself(model, trained, capsys):
    """The lines printed, the page's first sentence, and all numbers of its tables."""
    run = train.open_run(trained(*of(model), *ONCE))
    capsys.readouterr()
    root, ((answer, p), trace), shown_by = explained(), run.explain(A, B), run.reader.method.TRACE
    first, *printed, path = capsys.readouterr().out.splitlines()
    found, influence = tables(root), result()["influence"] or {"changes": {}}
    assert first == root.find(".//h1").text
    assert first == f"The model says “{answer}”, {100 * p[answer]:.0f} % sure."
    changes = {explain.describe_change(run, name): x for name, x in run.changes().items()}
    others = {how: run.predict([(A, B)], x)[0] for how, x in changes.items()}
    expected = {how: [f"{100 * x:.1f} %" for x in y.values()] for how, (_, y) in others.items()}
    _, rows, cells = found["this pair"]
    assert rows[0] == "as it is" and cells[0] == [f"{100 * x:.1f} %" for x in p.values()]
    assert expected == {name: x for row, x in zip(rows[1:], cells[1:])
                        for name in row.split(" or ")}
    assert len({*map(tuple, cells[1:])}) == len(cells[1:])  # equal rows are one row
    assert f"{rows[-1]} {' '.join(cells[-1])}".split() in map(str.split, printed)
    said = re.findall("it would say “(.+?)”", "".join(printed))
    assert {*said} == {x.answer for x in others.values()} - {answer}
    for name, x in influence["changes"].items():
        _, rows, cells = found[f"without a part, {influence['pairs']} pairs of dev"]
        row, = (i for i, row in enumerate(rows) if explain.describe_change(run, name) in row)
        assert cells[row] == [f"{100 * x['score']:.1f}", f"{100 * x['roc_auc']:.1f}",
                              f"{100 * x['answers']:.1f} %"]
    assert path == f"run/{explain.page_name(A, B)}"
    promised = SPLIT.get(model) or {shown.title: (name, 0) for name, shown in shown_by.items()}
    assert titles(root) == KNOWN.get(model, []) + list(promised)
    for title, (name, place) in promised.items():
        columns, _, cells = found[title]
        x = np.asarray(trace[name])[place][..., :len(columns)]  # the words of the shorter sentence
        x = x.mean(0) if x.ndim == 3 else x  # over heads
        shown = [float(cell) for row in cells for cell in row]
        np.testing.assert_allclose(shown, x.ravel(), atol=6e-3, err_msg=title)
    for title in (title for title in promised if title.startswith(READ)):
        (name, place), (columns, rows, _) = promised[title], found[title]
        assert rows == [f"step {k + 1}" for k in range(len(rows))]
        order = " → ".join(columns[j] for j in np.asarray(trace[name])[place].argmax(1))
        assert f"    {title.removeprefix(READ)}: {order}" in printed and order in text_of(root)
    for text in ("", "\x00\x07\ufffe \udc80 x a\u2028b שלום" + " word" * 64, 50 * "x"):
        assert titles(explained(text, "dog")) == titles(root)
    if model == "drrnet":
        for side, text in (("a", A), ("b", B)):
            spans = split_words(text).tolist()
            assert found[f"{READ}sentence {side}"][0] == [text[i:j] for i, j in spans]


def test_attention_moved_by_the_trees(trained):
    """Of a word of a and a word of b, in hundredths: how much more they look at each other. The
    pieces of who looks are averaged, those that it looks at summed; mean of both directions.
    """
    run = train.open_run(trained(*of("dafa"), "--layers", "all", *ONCE))
    a, b = "the seattle dog", "a Seattle dog"
    trace = run.explain(a, b)[1]
    moved = (trace["calibrated"] - trace["attention"])[0].mean(0)
    root = explained(a, b)
    torch.save(loaded("run/best.pt") | {"id": "another training's"}, "run/best.pt")
    assert "4 pairs of dev" in text_of(root) and "pairs of dev" not in text_of(explained(a, b))
    columns, rows, cells = tables(root)[MOVED]
    assert (rows, columns) == (a.split(), b.split())
    _, segment, word = run.examples([(a, b)]).tokens[0]
    assert len(word) > 3 + 6                               # some word has several pieces
    expected = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        of_a, of_b = (segment == 0) & (word == i), (segment == 1) & (word == j)
        one_way, back = moved[of_a][:, of_b], moved[of_b][:, of_a]
        expected[i, j] = 100 * (one_way.sum(1).mean() + back.sum(1).mean()) / 2
    assert np.ptp(expected) > 1                            # it is more than rounding
    np.testing.assert_allclose(np.array(cells, float), expected, atol=6e-3)
    drawn = [(node.get("class"), node.text) for node in next(root.iter("svg")).iter("text")]
    for text in (a, b):
        parse = run.examples([(a, b)]).known[text].parse
        for name, head in zip(parse.relations, parse.heads):
            assert ("soft", f"{name} of {text.split()[head - 1]}" if head else name) in drawn
    assert [text for kind, text in drawn if kind == "own"] == ["the", "a"]
    assert [node.text for node in root.iter("mark")] == ["the", "a"]  # the other has no such word
    layer = "Layer 0 (of 0 to 1)"
    for text in (f"{layer}.", f"{layer}, mean of its 4 heads.", "DAFA Eq. (9)"):
        assert text in text_of(root)  # of gates, of attention; the gate's equation


def test_the_picture_of_the_readme_is_what_is_drawn(tmp_path):
    """assets/explanation.svg, by the command of assets/README.md: both sentences and the answer."""
    said = (ROOT / "assets/README.md").read_text("utf-8")
    command = shlex.split(re.search("experiments.explain (.+) --picture", said)[1])
    places = "--out", str(tmp_path / "x.html"), "--picture", str(file := tmp_path / "x.svg")
    explain.main([str(ROOT / command[0]), *command[1:], *places])
    assert (text := file.read_text("utf-8")) == (ROOT / "assets/explanation.svg").read_text("utf-8")
    root = parsed(text)
    texts = [node.text for node in root.iter("text")]
    assert texts[:2] == command[1:] and texts[2].startswith("The model says")
    assert "prefers-color-scheme: dark" in text and root.get("fill") == draw.INK  # with no style
    assert float(root.get("width")) < 450  # a phone shows it without making it much smaller


def test_a_page_elsewhere_of_a_foreign_run(trained, capsys):
    """It may not be written into the run's folder, and a class may have any name."""
    saved = loaded(path := trained() / "best.pt")
    saved["task"] |= {"labels": ("a\x1b[2J", "b"), "positive": "b"}
    torch.save(saved, path)
    assert command("dog", "cat", "--out", "x.html") == 0 and parsed(Path("x.html").read_text())
    assert "\x1b" not in capsys.readouterr().out and not [*Path("run").glob("*.html")]


def test_a_method_of_ones_own(trained, workplace):
    """The prior of this method is a function."""
    place = f"{ROOT}/tutorials/mine.py:Beginnings"
    trained("--model", place, *ONCE)
    root = explained("the good dog", "a dog", "--model", place)
    known = next(name for name in tables(root) if name.startswith("Prior over words: "))
    assert tables(root)[known][2] == [["0", "0"], ["0", "0"], ["0", "1"]]
    assert "Attention after calibration" in titles(root)
    assert explain.equations_of("said", type("M", (), {"__module__": __name__})) == ""  # no docs


def test_a_score_has_no_probabilities_and_words_no_drawing(workplace):
    write_pairs(lambda rng, same: f"{same}.5", train=4, dev=4)
    assert not train.main([*OWN, *of("drrnet"), *ONCE, "--out", "run"])
    root = explained("the dog", "the cat")
    assert re.search(r"The model gives -?\d+\.\d{3}\.$", root.find(".//h1").text)
    assert tables(root)["this pair"][0] == ["score"]
    assert tables(root)["The two judgements"][0] == ["score"]
    refused("--picture x.svg", "a", "b", "--picture", "x.svg", by=command)
    refused("--serve", "a sentence alone", by=command)


@pytest.mark.parametrize("options", [
    (*of("bert"), "--bert", "scratch", "--epochs", "1"), (*of("drrnet"), "--epochs", "1"),
    (*of("bert"), *ONCE)])
def test_the_second_line_warns_of_words_that_are_not_known_or_read(options, trained, capsys):
    """The model knows pieces or words of the training pairs. A pre-trained encoder has a piece for
    all but rare letters."""
    trained(*options)
    for a, b, warning in (("the dog", "the cat", ""), ("", "the cat", "Sentence a has no words."),
                          ("the dog", "the 龘", "Rare or new to this model: “龘”."),
                          ("the dog " * 30, "the cat", "The pair fills --max-length 48.")):
        first = (root := explained(a, b)).find(".//h1").text
        assert f"{first}\n{warning}" in capsys.readouterr().out
        assert warning.strip() in text_of(root) and first.startswith("The model says")
    known = "Rare or new" not in text_of(explained("the dogcat", "the cat"))
    assert known == (options[-2:] == ONCE[-2:])


def asked(port, path, host="127.0.0.1"):
    """(status, page) that the server on this port answers."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request("GET", path, headers={"Host": f"{host}:{port}"})
    answer = client.getresponse()
    return answer.status, answer.read().decode("utf-8")


def test_what_is_served(trained, capfd):
    """The page's texts stay texts; no other file is served; a client may hang up or be slow."""
    with explain.ThreadingHTTPServer(("127.0.0.1", 0), explain.PageHandler) as server:
        server.run = train.open_run(trained(*of("dafa"), *ONCE))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        client = socket.create_connection(("127.0.0.1", port))
        status, text = asked(port, "/?" + urllib.parse.urlencode({"a": A, "b": B}))
        root = parsed(text)
        fields = [node.get("value") for node in root.iter("input")]
        assert status == 200 and fields == [A, B] and MOVED in titles(root)
        assert asked(port, root.find(".//h2/a").get("href")) == (
            200, (ROOT / "docs/equations.md").read_text("utf-8"))
        for path, host in (("/etc/passwd", "127.0.0.1"), ("/", "evil.example"),
                           ("http://[::1/?a=1", "127.0.0.1")):
            assert asked(port, path, host)[0] == 404
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        client.close()
        assert "no words" in asked(port, "/?a=&b=dog")[1]
        server.run = None  # stands for a method of one's own that fails
        assert "AttributeError" in asked(port, "/")[1] and capfd.readouterr().err == ""
        refused(f"--serve {port}", "--serve", str(port), by=command)
        refused("65536", "--serve", "65536", by=command)
        server.shutdown()
