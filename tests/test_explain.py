"""experiments/explain.py: the page of each method, its drawing, the server."""
import http.client
import re
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
        "knowledge": "calibrated"}


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
    """The rows of cells, header and labels included, of each table."""
    return [[[*map(text_of, row)] for row in table.iter("tr")] for table in root.iter("table")]


def command(*args):
    return run_command(explain.main, "explain", ["run", "--device", "cpu", *args])


def explained(a=A, b=B, *more):
    """The page that the command writes, as XML."""
    assert command(a, b, *more) == 0
    return parsed(Path("run", explain.page_name(a, b)).read_text("utf-8"))


@pytest.mark.parametrize("model", MODELS)
def test_every_model_explains_itself(model, trained, capsys):
    """The lines printed, what a part changes, the numbers of the drawing and of the heat map."""
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
    (_, *rows), *maps = tables(root)
    assert [cells for _, *cells in rows] == expected
    assert " ".join(rows[-1]).split() in map(str.split, printed)
    said = re.findall("it would say “(.+?)”", "".join(printed))
    assert {*said} == {x.answer for x in others} - {answer}
    assert bool(maps) == (model in SEEN)
    if maps:
        words = split_words(A), split_words(B)
        _, segment, word = map(np.array, run.reader.tokenizer.encode(
            A, words[0], B, words[1], run.settings.max_length))
        cross = (segment[:, None] + segment == 1) & (np.minimum(word[:, None], word) >= 0)
        looks_most = max(trace[SEEN[model]][0], key=lambda head: head[cross].sum())
        shown = [cells for _, *cells in maps[0][1:]]
        np.testing.assert_allclose(np.array(shown, float), 100 * looks_most, atol=0.51)
        weights = trace["attention"][0].mean(0)
        if SEEN[model] == "calibrated":                    # how much more words look at each other
            weights = trace["calibrated"][0].mean(0) - weights
        points = 100 * explain.between_words(weights, segment, word, *map(len, words))
        drawn = [float(x.text.split(": ")[0]) for x in root.iter("title") if ": " in x.text]
        largest = np.append(points.max(0), points.max(1))
        seen = largest[largest >= 0.1 * max(1, points.max())]
        assert drawn == sorted(drawn) and {*drawn} == {*seen.round(1)}
        assert f"{points.max():.0f} of 100" in text_of(root.find(".//figcaption"))
    long = "\x00\x07\ufffe \udc80 x a\u2028b שלום" + " word" * 64
    assert "The pair fills --max-length 48" in text_of(explained(long, 50 * "x"))
    refused("sentence b has no words", "a dog", " \n", by=command)


def test_a_score_has_no_probabilities(workplace):
    write_pairs(lambda rng, same: f"{same}.5", train=4, dev=4)
    assert not train.main([*OWN, *of("drrnet"), *ONCE, "--out", "run"])
    said = text_of(explained("the dog", "the cat"))
    assert re.search(r"The model gives -?\d+\.\d{3}\.", said) and "this pairscore" in said
    assert f"r = {result()['metrics']['dev']['pearson']:.2f}" in said


def test_a_method_and_labels_of_ones_own(trained, capsys):
    """The prior is a function. The page is whole before a line is printed."""
    own = "--model", f"{ROOT}/tutorials/mine.py:Beginnings"
    saved = loaded(path := trained(*own, *ONCE) / "best.pt")
    saved["task"] |= {"labels": ("a\x1b[2J", "b"), "positive": "b"}
    torch.save(saved, path)
    root = explained("the good dog", "a Dog", *own)
    assert "Because of begin alike" in text_of(root) and "\x1b" not in capsys.readouterr().out
    assert [row[0] for row in tables(root)[0][1:]] == [
        "as it is", "without begin alike", "with plain attention"]
    marked = [x.text for x in root.iter("text") if x.get("class") == "word own"]
    assert marked == ["the", "good", "a"]  # the other sentence has no such word
    Path("run", explain.page_name("a", "b")).mkdir()
    Path("run/result.json").unlink()
    refused("cannot write", "a", "b", *own, by=command)
    assert capsys.readouterr().out == ""


def asked(port, path, host="127.0.0.1"):
    """(status, page) that the server on this port answers."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request("GET", path, headers={"Host": f"{host}:{port}"})
    answer = client.getresponse()
    return answer.status, answer.read().decode("utf-8")


def test_what_is_served(trained, capfd):
    """The page's texts stay texts; no file is served, to no other site; nothing is logged."""
    with explain.ThreadingHTTPServer(("127.0.0.1", 0), explain.PageHandler) as server:
        server.run = train.open_run(trained(*of("dafa"), *ONCE))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        status, text = asked(port, "/?" + urllib.parse.urlencode({"a": A, "b": B}))
        root = parsed(text)
        fields = [node.get("value") for node in root.iter("input")]
        assert status == 200 and fields == [A, B] and root.find(".//svg") is not None
        assert asked(port, "/etc/passwd")[0] == asked(port, "/", "evil.example")[0] == 404
        status, text = asked(port, "/?a=&b=dog")
        assert status == 400 and "sentence a has no words" in text and parsed(text)
        server.run = None  # stands for a method of one's own that fails
        assert "AttributeError" in asked(port, "/")[1] and capfd.readouterr().err == ""
        refused(f"--serve {port}", "--serve", str(port), by=command)
        refused("--serve", "a sentence alone", by=command)
        server.shutdown()
