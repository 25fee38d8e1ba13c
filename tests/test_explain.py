"""experiments/explain.py: the page of each method, its drawing, the server."""
import http.client
import re
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
from experiments import explain
from small_runs import MODELS, OWN, ROOT, loaded, of, refused, result, write_pairs
from support.options import run_command
from support.parses import split_words

A = 'the <b>dog</b> & "good" cat\'s book is'
B = "new york 日本語 cafe\u0301 \u202eabc 🦜 bad ]]> &amp; flight <script>alert(1)</script>"
ONCE = "--epochs", "1", "--limit", "4"
SEEN = {"bert": "attention", "dabert": "difference", "dafa": "calibrated",
        "knowledge": "calibrated", "drrnet": "reading", "ladranet": "reading"}


def parsed(text):
    """The page as XML. No text of a sentence has become an element."""
    root = ElementTree.fromstring(text)
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
    assert not [node for node in root.iter() if node.tag in ("b", "script")]
    return root


def text_of(node):
    return "".join(node.itertext())


def tables(root):
    """[(columns, rows, cells)] of each table."""
    found = []
    for table in root.iter("table"):
        columns, *rows = [[text_of(cell) for cell in tr] for tr in table.iter("tr")]
        found.append((columns[1:], [row[0] for row in rows], [row[1:] for row in rows]))
    return found


def command(*args):
    """Exit status of experiments.explain for the run in the folder "run"."""
    return run_command(explain.main, "explain", ["run", *args])


def explained(a=A, b=B, *more):
    """The page that the command writes, as XML."""
    assert command(a, b, *more) == 0
    return parsed(Path("run", explain.page_name(a, b)).read_text("utf-8"))


@pytest.mark.parametrize("model", MODELS)
def test_every_model_explains_itself(model, trained, capsys):
    """The lines printed, what a part changes, and each number of the one heat map."""
    run = train.open_run(trained(*of(model), *ONCE))
    capsys.readouterr()
    root, ((answer, p), trace) = explained(), run.explain(A, B)
    first, right, *printed, path = capsys.readouterr().out.splitlines()
    assert first == root.find(".//h1").text
    assert first == f"The model says “{answer}”, {100 * p[answer]:.0f} % sure."
    assert f"{100 * result()['metrics']['dev']['accuracy']:.0f} of 100" in right
    assert path == f"run/{explain.page_name(A, B)}" and right in text_of(root)
    others = [run.predict([(A, B)], x)[0] for x in run.changes().values()]
    expected = [[f"{100 * x:.1f} %" for x in y.values()] for y in (p, *(x[1] for x in others))]
    (_, rows, cells), (columns, _, shown) = tables(root)
    assert rows[0] == "as it is" and len({*rows}) == len(rows)
    if model != "drrnet":                                  # its changes do the same, when so small
        assert cells == expected
    assert f"{rows[-1]} {' '.join(cells[-1])}".split() in map(str.split, printed)
    said = re.findall("it would say “(.+?)”", "".join(printed))
    assert {*said} == {x.answer for x in others} - {answer}
    x = trace[SEEN[model]]
    if model == "drrnet":
        sizes = [len(split_words(text)) for text in (A, B)]
        x = np.concatenate([x[side, 0, :, :size] for side, size in enumerate(sizes)], 1)
    elif model == "ladranet":
        x = x[0, :, 0]
    else:
        _, segment, word = map(np.array, run.reader.tokenizer.encode(
            A, split_words(A), B, split_words(B), 48))
        cross = (segment[:, None] + segment == 1) & (np.minimum(word[:, None], word) >= 0)
        x = x[0, max(range(len(x[0])), key=lambda head: x[0, head][cross].sum())]
    np.testing.assert_allclose(np.array(shown, float), 100 * x, atol=0.51)
    assert len(columns) == x.shape[1] and (root.find(".//svg") is None) == (x.shape[0] < 8)
    long = "\x00\x07\ufffe \udc80 x a\u2028b שלום" + " word" * 64
    assert len(tables(explained(long, 50 * "x"))) == 2
    refused("sentence b has no words", "a dog", " \n", by=command)


def test_attention_moved_by_the_trees(trained):
    """Of a word of a and a word of b, in hundredths: how much more they look at each other. The
    pieces of who looks are averaged, those that it looks at summed; mean of both directions.
    """
    run = train.open_run(trained(*of("dafa"), "--layers", "all", *ONCE))
    a, b = "the seattle dog", "a Seattle dog"
    trace = run.explain(a, b)[1]
    moved = (trace["calibrated"] - trace["attention"])[0].mean(0)
    root = explained(a, b)
    _, segment, word = run.examples([(a, b)]).tokens[0]
    assert len(word) > 3 + 6                               # some word has several pieces
    expected = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        of_a, of_b = (segment == 0) & (word == i), (segment == 1) & (word == j)
        one_way, back = moved[of_a][:, of_b], moved[of_b][:, of_a]
        expected[i, j] = 100 * (one_way.sum(1).mean() + back.sum(1).mean()) / 2
    drawn = {title: float(number) for number, title in
             (x.text.split(": ") for x in root.iter("title") if ": " in x.text)}
    assert np.ptp(expected) > 1 and len(drawn) > 2         # it is more than rounding
    for title, number in drawn.items():
        i, j = (text.split().index(x) for text, x in zip((a, b), title.split(", ")))
        assert abs(number - expected[i, j]) < 0.051
    assert f"{max(drawn.values()):.0f} of 100" in text_of(root.find(".//figcaption"))
    words = [(node.get("class"), node.text) for node in next(root.iter("svg")).iter("text")]
    for text in (a, b):
        parse = run.examples([(a, b)]).known[text].parse
        for name, head in zip(parse.relations, parse.heads):
            assert ("soft", f"{name} of {text.split()[head - 1]}" if head else name) in words
    assert [text for kind, text in words if kind == "own"] == ["the", "a"]
    assert [node.text for node in root.iter("mark")] == ["the", "a"]  # the other has no such word
    torch.save(loaded("run/best.pt") | {"id": "another training's"}, "run/best.pt")
    assert "of 100 answers" in text_of(root) and "not known here" in text_of(explained(a, b))


def test_a_page_elsewhere_of_a_foreign_run(trained, capsys):
    """A class may have any name. One switch has one line: without equal words `aligned` is plain
    attention. The page is whole before a line is printed."""
    saved = loaded(path := trained(*of("aligned"), *ONCE) / "best.pt")
    saved["task"] |= {"labels": ("a\x1b[2J", "b"), "positive": "b"}
    torch.save(saved, path)
    assert command("dog", "cat", "--out", "x.html") == 0 and not [*Path("run").glob("*.html")]
    root = parsed(Path("x.html").read_text("utf-8"))
    assert tables(root)[0][1] == ["as it is", "without equal words"]
    assert "\x1b" not in capsys.readouterr().out
    refused("x.html", "dog", "cat", "--out", "x.html", by=command)
    Path("run", explain.page_name("dog", "cat")).mkdir()
    refused("cannot write", "dog", "cat", by=command)
    assert capsys.readouterr().out == ""


def test_a_method_of_ones_own(trained, workplace):
    """The prior of this method is a function."""
    place = f"{ROOT}/tutorials/mine.py:Beginnings"
    trained("--model", place, *ONCE)
    root = explained("the good dog", "a dog", "--model", place)
    assert "Because of begin alike" in text_of(root)
    assert "without begin alike" in tables(root)[0][1] and "Calibrated" in text_of(root)


def test_a_score_has_no_probabilities_and_words_no_drawing(workplace):
    write_pairs(lambda rng, same: f"{same}.5", train=4, dev=4)
    assert not train.main([*OWN, *of("drrnet"), *ONCE, "--out", "run"])
    root = explained("the dog", "the cat")
    assert re.search(r"The model gives -?\d+\.\d{3}\.$", root.find(".//h1").text)
    assert f"r = {result()['metrics']['dev']['pearson']:.2f}" in text_of(root)
    assert tables(root)[0][0] == ["score"]
    refused("--serve", "a sentence alone", by=command)


@pytest.mark.parametrize("options", [
    (*of("bert"), "--bert", "scratch", "--epochs", "1"), (*of("drrnet"), "--epochs", "1"),
    (*of("bert"), *ONCE)])
def test_a_line_warns_of_words_that_are_not_known_or_read(options, trained, capsys):
    """The model knows pieces or words of the training pairs. A pre-trained encoder has a piece for
    all but rare letters."""
    trained(*options)
    for a, b, warning in (("the dog", "the cat", ""),
                          ("the dog", "the 龘", "Rare or new to this model: “龘”."),
                          ("the dog " * 30, "the cat", "The pair fills --max-length 48.")):
        root = explained(a, b)
        assert f"right.\n{warning}" in capsys.readouterr().out.replace(" were", "")
        assert warning in text_of(root)
    known = "Rare or new" not in text_of(explained("the dogcat", "the cat"))
    assert known == (options[-2:] == ONCE[-2:])


def asked(port, path, host="127.0.0.1"):
    """(status, page) that the server on this port answers."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request("GET", path, headers={"Host": f"{host}:{port}"})
    answer = client.getresponse()
    return answer.status, answer.read().decode("utf-8")


def test_what_is_served(trained, capfd):
    """The page's texts stay texts; no file is served; a client may hang up or be slow."""
    with explain.ThreadingHTTPServer(("127.0.0.1", 0), explain.PageHandler) as server:
        server.run = train.open_run(trained(*of("dafa"), *ONCE))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        client = socket.create_connection(("127.0.0.1", port))
        status, text = asked(port, "/?" + urllib.parse.urlencode({"a": A, "b": B}))
        root = parsed(text)
        fields = [node.get("value") for node in root.iter("input")]
        assert status == 200 and fields == [A, B] and root.find(".//svg") is not None
        for path, host in (("/etc/passwd", "127.0.0.1"), ("/", "evil.example"),
                           ("http://[::1/?a=1", "127.0.0.1")):
            assert asked(port, path, host)[0] == 404
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        client.close()
        status, text = asked(port, "/?a=&b=dog")
        assert status == 400 and "sentence a has no words" in text and parsed(text)
        server.run = None  # stands for a method of one's own that fails
        assert "AttributeError" in asked(port, "/")[1] and capfd.readouterr().err == ""
        refused(f"--serve {port}", "--serve", str(port), by=command)
        refused("65536", "--serve", "65536", by=command)
        server.shutdown()
