"""explain.py: what its figures hold, that a page is whole, and `--explain` of every model."""
import html.parser
import re
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch

import explain
import priors
import train
from test_train import DRRNET, LADRANET, the_line, run, workplace  # noqa: F401

A, B = 'the <b>dog</b> & "good" cat\'s book is', "new york 日本語 cafe\u0301 \u202eabc 🦜 bad ]]> &amp; flight"
ODD = ["", "   ", "\x00\x07\ufffe", "\udc80 x", "a\u2028b", "word " * 64, "x" * 500, "שלום עולם", "<script>alert(1)</script>"]
NOT_FETCHED = {"http://www.w3.org/2000/svg"}                                   # the name of a language


class Tags(html.parser.HTMLParser):
    """Every tag that HTML's own parser sees, with its attributes; whether each is closed where it should."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open += [] if tag == "meta" else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def taken_apart(text):
    """The page as XML, after checks that hold for every page."""
    tags = Tags(text).tags
    assert not {"script", "link", "img", "iframe", "object", "image", "base", "form"} & {tag for tag, _ in tags}
    for tag, attributes in tags:
        assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "xlink:href", "action")}
        assert set(re.findall(r"https?://[^\"\s]*", " ".join(v or "" for v in attributes.values()))) <= NOT_FETCHED
    assert "url(" not in explain.STYLE and "@import" not in explain.STYLE
    root = ElementTree.fromstring(text)
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
    for table in root.iter("table"):
        assert "".join(table.find("caption").itertext()).strip()
        assert all(th.get("scope") == "col" for th in table.find("thead").iter("th"))
        assert all(tr[0].tag == "th" and tr[0].get("scope") == "row" for tr in table.find("tbody"))
        columns = len(table.find("thead/tr"))
        assert all(len(tr) == columns for tr in table.find("tbody"))
    for svg in root.iter("svg"):
        assert svg.get("role") == "img" and svg.get("aria-label")
    assert all(box.get("tabindex") == "0" and box.get("aria-label") for box in root.iter("div"))
    return root


def in_page(*figures, sentences=("a", "b")):
    return taken_apart(explain.page("T", sentences, "yes", {"yes": 0.75, "no": 0.25}, figures))


def tables(root):
    """dict caption -> (column labels, row labels, rows of cells)."""
    found = {}
    for table in root.iter("table"):
        text = lambda node: "".join(node.itertext())  # noqa: E731
        rows = [[text(cell) for cell in tr] for tr in table.find("tbody")]
        caption = text(table.find("caption"))
        assert caption not in found, f"two tables say {caption}"
        found[caption] = ([text(th) for th in table.find("thead/tr")][1:], [row[0] for row in rows], [row[1:] for row in rows])
    return found


def titles(root):
    return [h2.text for h2 in root.iter("h2")]


def hovers(root):
    return [title.text for svg in root.iter("svg") for title in svg.iter("title")]


def values(cells):
    return np.array([[float(cell.removesuffix(" (chosen)")) for cell in row] for row in cells]).reshape(len(cells), -1)


# ---- Figures --------------------------------------------------------------------------------------------------------

def test_heat():
    x = np.array([[0.5, 0.25, 0.0], [0.0, 1e-5, 0.125]])
    root = in_page(explain.heat("Map", ["p", "q"], ["r", "s", "<t>"], x, "what it is", mark=True))
    assert tables(root)["Map"] == (["r", "s", "<t>"], ["p", "q"],
                                   [["0.500 (chosen)", "0.250", "0"], ["0", "1.0e-05", "0.125 (chosen)"]])
    cells = [node for node in root.iter("path") if node.get("fill-opacity")]
    assert [float(node.get("fill-opacity")) for node in cells] == [1, 0.5, 0, 0, 0, 0.25]
    assert [node.get("class") for node in cells] == ["m", None, None, None, None, "m"]
    assert [node.find("title").text for node in cells][:3] == ["p | r: 0.500 (chosen)", "p | s: 0.250", "p | <t>: 0"]
    assert "what it is" in "".join(root.itertext()) and "chosen" in [node.text for node in root.iter("span")]
    assert "0.500" in [node.text for node in root.iter("span")], "the legend has no upper end"


def test_heat_of_heads():
    """The mean is shown, each head lies in a <details>; top makes two figures comparable."""
    x = np.stack([np.full((2, 2), 0.2), np.array([[0.4, 0.0], [0.001, 0.8]])])
    root = in_page(explain.heat("Map", "pq", "rs", x, top=1.0))
    np.testing.assert_allclose(values(tables(root)["Map"][2]), [[0.3, 0.1], [0.1, 0.5]], atol=2e-3)
    np.testing.assert_allclose(values(tables(root)["Map, head 1"][2]), x[1], atol=1e-9)
    (heads,) = [node for node in root.iter("details") if "Each of 2 heads" in node.find("summary").text]
    assert len(list(heads.iter("svg"))) == 2 and heads.find(".//table") is not None
    assert [node.get("fill-opacity") for node in root.find(".//svg").iter("path")][:2] == ["0.30", "0.10"]
    one = in_page(explain.heat("Map", "pq", "rs", x[:1]))
    assert not [node for node in one.iter("summary") if "heads" in node.text]
    with pytest.raises(ValueError, match="heat: Map needs values for 2 x 3"):
        explain.heat("Map", "pq", "rst", x)


@pytest.mark.parametrize("x", [np.zeros((0, 0)), np.zeros((0, 3)), np.zeros((2, 0)), np.full((2, 3), np.nan), -np.ones((2, 3)),
                               np.array([[np.inf, 1.0, -np.inf]]), np.full((1, 1), 1e30), np.zeros((2, 2))], ids=str)
def test_heat_survives(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        root = in_page(explain.heat("Map", ["r"] * x.shape[0], ["c"] * x.shape[1], x, mark=True))
    shades = [float(node.get("fill-opacity")) for node in root.iter("path") if node.get("fill-opacity")]
    assert len(shades) == x.size and all(0 <= shade <= 1 for shade in shades)


def test_bars():
    root = in_page(explain.bars("Gates", ["p", "q", "r"], {"g": [0.5, 0.0, 1.0], "f": [0.25, np.nan, 7.0]}))
    assert tables(root)["Gates"] == (["g", "f"], ["p", "q", "r"], [["0.500", "0.250"], ["0", "nan"], ["1.000", "7.000"]])
    high = [float(re.search("v-([0-9.]+)h", node.get("d"))[1]) for node in root.iter("path") if node.get("class") == "c"]
    np.testing.assert_allclose(high, explain.BAR * np.array([0.5, 0, 1, 0.25, 0, 1]), atol=0.06)
    assert "p: g = 0.500" in hovers(root) and "r: f = 7.000" in hovers(root)


def test_tree():
    words, heads, names = ["The", "<dog>", "barks"], np.array([2, 3, 0]), ["det", "nsubj", "root"]
    root = in_page(explain.tree("Tree", words, heads, names))
    assert tables(root)["Tree"][2] == [["The", "det", "<dog>", "2"], ["<dog>", "nsubj", "barks", "3"], ["barks", "root", "", "0"]]
    assert {"det: <dog> → The", "nsubj: barks → <dog>", "root: the root → barks"} <= set(hovers(root))
    arcs = [node for node in root.iter("path") if node.get("class") == "a"]
    assert len(arcs) == 3 and all(min(map(float, re.findall(r"(?<=V)[0-9.]+", arc.get("d")))) >= 0 for arc in arcs)
    assert [node.text for node in root.iter("text")][-3:] == words


def test_no_arc_hits_another():
    """Arcs that share a stretch run at different heights; the one inside is lower."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        heads = [int(rng.integers(0, i)) if i > 1 else 0 for i in range(1, 13)]
        levels = explain.arc_levels(heads)
        spans = [(min(i, h), max(i, h)) for i, h in enumerate(heads, 1)]
        for i, (p, q) in enumerate(spans):
            assert (levels[i] == 0) == (heads[i] == 0)
            for j, (r, s) in enumerate(spans):
                if i != j and heads[i] and heads[j] and p < s and r < q:
                    assert levels[i] != levels[j] and (levels[i] > levels[j] or (s - r) >= (q - p))


def test_relations():
    root = in_page(explain.relations("Known", ["dog"], ["cat", "<x>"], [["synonym, hypernym", ""]]))
    assert tables(root)["Known"] == (["cat", "<x>"], ["dog"], [["synonym, hypernym", ""]])
    assert [td.get("class") for td in root.iter("td")][-2:] == ["on", None]


def test_a_page_says_the_answer():
    root = in_page(sentences=(A, B))
    assert [node[0].text for node in root.iter("blockquote")] == [A, B] and root.find(".//strong").text == "yes"
    assert tables(root)["Probability of each answer"][1:] == (["yes", "no"], [["0.750", ""], ["0.250", ""]])
    score = taken_apart(explain.page("T", ("a", "b"), "3.250", None, []))
    assert score.find(".//table") is None and score.find(".//strong").text == "3.250"


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_odd_text_everywhere(text):
    words = text.split(" ")
    heads = [0, *range(1, len(words))]
    x = np.ones((len(words), len(words)))
    root = in_page(explain.tree("0" + text, words, heads, words), explain.heat("1" + text, words, words, x, text),
                   explain.bars("2" + text, words, {text: x[0]}, text), explain.relations("3" + text, words, words, [words] * len(words)),
                   sentences=(text, text))
    assert len(list(root.iter("figure"))) == 5
    assert all(float(svg.get(side)) < 20_000 for svg in root.iter("svg") for side in ("width", "height"))


def test_light_and_dark_know_the_same_colours():
    """Each colour is named once and has both schemes; text on paper has the contrast that WCAG asks for."""
    light, dark = (dict(re.findall(r"--(\w+):(#\w+)", part)) for part in explain.STYLE.split("@media", 1))
    assert light.keys() == dark.keys() == set(re.findall(r"var\(--(\w+)\)", explain.STYLE))
    rest = re.sub(r":root\{.*?\}", "", explain.STYLE)
    assert not re.search(r"#[0-9a-f]{3}", rest), "a colour that only one scheme has"

    def luminance(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        x = np.array([int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)])
        return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    for colours in (light, dark):
        paper = luminance(colours["paper"])
        for name, least in (("ink", 7), ("soft", 4.5), ("heat", 4.5), ("mark", 3)):
            bright, dim = sorted([paper, luminance(colours[name])], reverse=True)
            assert (bright + 0.05) / (dim + 0.05) >= least, (name, colours)


# ---- The command ----------------------------------------------------------------------------------------------------

TREES = ["Dependency tree of sentence a", "Dependency tree of sentence b"]
READ = "Reading, step by step: "
PROMISED = {
    "bert": ["Attention"], "dabert": ["Attention", "Difference attention", "The two gates"],
    "dafa": ["Dependency prior over words", "Attention", "Attention after calibration", "The two gates"],
    "knowledge": ["Relations of words", "Prior over pieces", "Attention", "Attention after calibration", "The two gates"],
    "drrnet": ["First look: sentence a", READ + "sentence a", "First look: sentence b", READ + "sentence b"],
    "ladranet": [*(f"{what}{kind}" for kind in ("pieces", "phrases of 2", "phrases of 3")
                   for what in ("First look: ", READ, "Coverage, step by step: ") if (what, kind) != ("First look: ", "pieces"))]}
CASES = [(["--model", "bert"], PROMISED["bert"]), (["--model", "dabert"], PROMISED["dabert"]),
         (["--model", "dafa", "--layers", "1"], PROMISED["dafa"]), (["--model", "knowledge"], PROMISED["knowledge"]),
         (DRRNET, PROMISED["drrnet"]), (LADRANET, PROMISED["ladranet"]),
         (["--model", "dafa", "--scope", "head"], [*PROMISED["dafa"], "Gate g in each head", "Gate f in each head"]),
         (["--model", "dafa", "--without", "fusion"], PROMISED["dafa"][:-1]),
         ([*DRRNET, "--without", "reread"], PROMISED["drrnet"][::2]),
         ([*LADRANET, "--without", "dsa,bert"], [x for x in PROMISED["ladranet"] if "First" in x]),
         ([*LADRANET, "--without", "phrase-cnn", "--printed", "all"], PROMISED["ladranet"][:2])]


@pytest.fixture
def traces(monkeypatch):
    """The traces of all forward passes that have one."""
    seen = []
    for owner in (train.Matcher, train.DrrNet, train.LadraNet):
        def forward(self, *args, real=owner.forward, **kwargs):
            out = real(self, *args, **kwargs)
            if kwargs.get("trace") is not None:
                seen.append((kwargs["trace"], out))
            return out
        monkeypatch.setattr(owner, "forward", forward)
    return seen


def explained(a=A, b=B):
    assert train.main(["--from", "run", "--device", "cpu", "--explain", a, b]) == 0
    return taken_apart(Path("run/explanation.html").read_text("utf-8"))


@pytest.mark.parametrize("args, promised", CASES, ids=[" ".join(args) for args, _ in CASES])
def test_every_model_explains_itself(args, promised, traces, capsys):
    assert run(*args, "--epochs", "1", "--limit", "4") == 0
    traces.clear()
    capsys.readouterr()
    root = explained()
    ((trace, logits),) = traces
    p = logits.float().softmax(1)[0]
    best = int(p.argmax())
    assert capsys.readouterr().out == f"prediction: {best} ({100 * p[best]:.1f} %)\nrun/explanation.html\n"
    assert root.find(".//strong").text == str(best) and titles(root) == TREES + promised
    assert [node[0].text for node in root.iter("blockquote")] == [A, B]
    assert len(list(root.iter("figure"))) == 1 + len(titles(root))
    shown = tables(root)
    np.testing.assert_allclose([float(row[0]) for row in shown["Probability of each answer"][2]], p, atol=6e-4)
    for name, text in zip(TREES, (A, B)):
        words = [text[i:j] for i, j in priors.split_words(text).tolist()]
        assert [row[0] for row in shown[name][2]] == words and [row[3] for row in shown[name][2]] == list(map(str, range(len(words))))
    assert sum(cell.endswith("(chosen)") for _, _, rows in shown.values() for row in rows for cell in row) == sum(
        len(shown[title][2]) for title in promised if title.startswith("Reading"))
    same_as_the_trace(trace, shown, args)


def same_as_the_trace(trace, shown, args):
    """Whatever the page's tables say of a trace is what stands in it."""
    def same(caption, x):
        np.testing.assert_allclose(values(shown[caption][2]), x, atol=6e-4, rtol=6e-3, err_msg=caption)
    if "layer0" in trace:
        inner = trace["layer1" if "--layers" in args else "layer0"]
        for name, caption in (("attention", "Attention"), ("calibrated", "Attention after calibration"),
                              ("difference", "Difference attention")):
            if name in inner:
                same(caption, inner[name][0].mean(0))
                for h, x in enumerate(inner[name][0]):
                    same(f"{caption}, head {h}", x)
        if "prior" in inner:
            same("Prior over pieces", inner["prior"][0])
        if "g" in inner:
            same("The two gates", torch.stack([inner["g"].mean(0)[:, 0], inner["f"].mean(0)[:, 0]], 1))
            assert shown["The two gates"][0] == ["g", "f"] and shown["The two gates"][1] == shown["Attention"][0]
    elif "drrnet" in args:
        for k, side in enumerate("ab"):
            words = shown[f"First look: sentence {side}"][0]
            assert words == [row[0] for row in shown[TREES[k]][2]]
            same(f"First look: sentence {side}", trace["pooling"][k, 0, None, :len(words)])
            if "reading" in trace:
                same(READ + f"sentence {side}", trace["reading"][k, 0, :, :len(words)])
    else:
        for r, kind in enumerate(("pieces", "phrases of 2", "phrases of 3")):
            if READ + kind in shown:
                same(READ + kind, trace["reading"][0, :, r])
                same(f"Coverage, step by step: {kind}", trace["coverage"][0, :, r])
            if f"First look: {kind}" in shown:
                same(f"First look: {kind}", trace["pooling"][r - 1, 0, None])


def test_the_priors_are_those_of_the_model():
    assert run("--model", "knowledge", "--epochs", "1", "--limit", "4") == 0
    columns, rows, cells = tables(explained("the good dog", "a bad cat"))["Relations of words"]
    assert (rows, columns) == (["the", "good", "dog"], ["a", "bad", "cat"])
    assert cells == [["", "", ""], ["", "antonym", ""], ["", "", "synonym"]]
    assert run("--model", "dafa", "--epochs", "1", "--limit", "4", out="dafa") == 0
    assert train.main(["--from", "dafa", "--explain", "the good dog", "the good cat"]) == 0
    shown = tables(taken_apart(Path("dafa/explanation.html").read_text("utf-8")))["Dependency prior over words"]
    settings, task, _, tokenizer, tfidf = train.load_run(Path("dafa"), {})
    pair = train.tasks.Pair("the good dog", "the good cat")
    prior = train.prepare(settings, task, tokenizer, {"x": [pair]}, tfidf)[0]["x"].prior(pair)
    assert prior.any()
    np.testing.assert_allclose(values(shown[2]), prior, atol=6e-4)


def test_pieces_of_a_byte_level_vocabulary():
    assert run("--model", "dabert", "--bert", Path(train.__file__).parent / "tests/fixtures/tiny_roberta_hf", "--epochs", "1",
               "--limit", "4") == 0
    pieces = tables(explained("the dog", "cat"))["Attention"][0]
    assert pieces[0] == "<s>" and "Ġ" not in "".join(pieces) and "".join(pieces) == "<s>thedog</s></s>cat</s>"


def test_a_score_has_no_probabilities():
    for name in ("train", "dev"):
        Path(f"{name}.tsv").write_text("sentence1\tsentence2\tlabel\n" + "the dog\tthe cat\t2.5\na\tb\t0.5\n" * 4, "utf-8")
    assert run("--epochs", "1") == 0
    root = explained()
    assert re.fullmatch(r"-?\d+\.\d{3}", root.find(".//strong").text) and "Probability of each answer" not in tables(root)


@pytest.mark.parametrize("args", [["--model", "dafa"], DRRNET, LADRANET], ids=lambda args: args[1])
def test_odd_sentences(args):
    """Empty, control characters, half a surrogate pair, more words than fit: a page each."""
    assert run(*args, "--epochs", "1", "--limit", "4") == 0
    for text in (ODD[0], *ODD[2:4], ODD[5]):
        assert titles(explained(text, "dog"))[2:] == PROMISED[args[1]], ascii(text)


@pytest.mark.parametrize("args, words", [
    (["--explain", "a", "b"], ["--explain", "--from"]),
    (["--from", "run", "--explain", "a"], ["--explain", "2"]),
    (["--from", "nowhere", "--explain", "a", "b"], ["nowhere"]),
    (["--from", "run", "--explain", "a", "b", "--lr", "1"], ["--lr", "training"]),
    (["--from", "run"], ["--test", "--predict", "--explain"])], ids=" ".join)
def test_mistakes(args, words, capsys):
    assert train.main(args) == 2
    line = the_line(capsys)
    assert all(word in line for word in words), line


def test_explain_beside_test_and_predict(capsys):
    assert run("--epochs", "1", "--test-file", "test.tsv") == 0
    capsys.readouterr()
    assert train.main(["--from", "run", "--explain", "a dog", "a cat", "--test", "--predict", "dev.tsv"]) == 0
    out = capsys.readouterr().out
    assert "run/explanation.html" in out and "10 pairs labelled" in out and "accuracy" in out
    assert not list(Path("run").glob("*.tmp"))
