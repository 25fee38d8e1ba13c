"""explain.py: what its figures hold, that a page is whole, and `--explain` of every model."""
import html.parser
import itertools
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
    assert not {"script", "link", "img", "iframe", "object", "image", "base", "form", "use"} & {tag for tag, _ in tags}
    names = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(set(names)) == len(names) and not re.search(r"\s", "".join(names))
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
    for section in root.iter("section"):                     # what is drawn is said by a table, and hidden from who hears it
        assert all(svg.get("aria-hidden") == "true" for svg in section.iter("svg")) and section.find(".//table") is not None
        for switch in section.iter("input"):
            assert switch.get("type") == "radio" and [label for label in section.iter("label") if label.get("for") == switch.get("id")]
    boxes = [div for div in root.iter("div") if div.get("class") == "box"]
    assert all(box.get("tabindex") == "0" and box.get("role") == "region" and box.get("aria-label") for box in boxes)
    assert root.get("lang") and [h.tag for h in root.iter() if re.fullmatch("h[1-6]", h.tag)][1:] == ["h2"] * len(titles(root))
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
    """Of each cell the number, or the first of its numbers."""
    return np.array([[float(cell.split()[0]) for cell in row] for row in cells]).reshape(len(cells), -1)


def heads_of(cells):
    """(H, n, m): of each cell all but the first number, in thousandths."""
    return np.array([[[float(x) / 1000 for x in cell.split()[1:]] for cell in row] for row in cells]).transpose(2, 0, 1)


def shades_of(svg, n, m):
    """(n, m) shades of a map's drawing, from its strokes; its legend's are the second group."""
    shades = np.zeros((n, m), int)
    for path in svg.find("g[@class='z']").iter("path"):
        if path.get("class") != "m":
            i = j = 0
            for kind, x, y, length in re.findall(r"([mM])(-?\d+) (\d+)h(\d+)", path.get("d")):
                i, j = (int(y), int(x)) if kind == "M" else (i + int(y), j + int(x))
                assert not shades[i, j:j + int(length)].any() and j + int(length) <= m, "a cell is drawn twice, or outside"
                shades[i, j:j + int(length)] = int(path.get("class")[1:])
                j += int(length)
    return shades


# ---- Figures --------------------------------------------------------------------------------------------------------

def test_heat():
    x = np.array([[0.5, 0.25, 0.0], [0.0, 1e-5, 0.125]])
    root = in_page(explain.heat("Map", ["p", "q"], ["r", "s", "<t>"], x, "what it is", mark=True))
    assert tables(root)["Map"] == (["r", "s", "<t>"], ["p", "q"], [[".5 (chosen)", ".25", "0"], ["0", "0", ".125 (chosen)"]])
    (drawn,) = root.iter("svg")
    assert shades_of(drawn, 2, 3).tolist() == [[10, 7, 0], [0, 0, 5]], "not the square root of the share of the largest"
    (frames, meaning) = [node.get("d") for node in drawn.iter("path") if node.get("class") == "m"]
    assert [place[1:] for place in re.findall(r"M\d+ -?\.?\d*\.?\d*", frames)] == ["0 -0.47", "2 0.53"] and meaning.startswith("M12 ")
    said = [node.text for node in drawn.iter("text")]
    assert "what it is" in "".join(root.itertext()) and said == ["r", "s", "<t>", "p", "q", "0", ".125", ".5", "chosen"]
    plain = in_page(explain.heat("Map", ["p", "q"], ["r", "s", "<t>"], x))
    assert "chosen" not in "".join(plain.itertext()) and not list(plain.iter("input"))


def test_strokes_are_the_shades():
    """Whatever runs and gaps a map has, its strokes, taken apart again, are its cells: each once."""
    x = np.random.default_rng(0).choice([0, 0.01, 0.04, 1], (9, 30))
    (drawn,) = in_page(explain.heat("Map", range(9), range(30), x)).iter("svg")
    np.testing.assert_array_equal(shades_of(drawn, 9, 30), 10 * np.sqrt(x))


def test_a_table_lies_on_its_map():
    """Where a cell of the table is, by its sizes, there is that cell's stroke."""
    root = in_page(explain.heat("Map", ["p", "a longer one"], ["r", "s"], np.eye(2)))
    corner, group = root.find(".//table[@class='v']/thead/tr/th"), root.find(".//svg/g[@class='z']")
    left, base = map(float, re.fullmatch(r"width:(\d+)px;height:(\d+)px", corner.get("style")).groups())
    x, y, size = map(float, re.fullmatch(r"translate\((\d+) (\d+)\) scale\((\d+)\)", group.get("transform")).groups())
    assert (x, y, size) == (left, base + size // 2, explain.CELL) and left > base
    assert root.find(".//table[@class='v']").get("style") == f"width:{left + 2 * size:.0f}px"
    assert f".v th,.v td{{width:{explain.CELL}px;height:{explain.CELL}px;padding:0;border:0" in explain.STYLE
    assert root.find(".//div[@class='box']/div[@class='map']/table") is not None


def test_heat_of_heads():
    """The mean is drawn, each head has a button and a drawing that covers it; a cell says all; top makes figures comparable."""
    x = np.stack([np.full((2, 2), 0.2), np.array([[0.4, 0.0], [0.001, 0.8]])])
    root = in_page(explain.heat("Map", "pq", "rs", x, top=1.0))
    cells = tables(root)["Map: the mean, then each head in thousandths"][2]
    assert cells == [[".3\n200\t400", ".1\n200\t0"], [".101\n200\t1", ".5\n200\t800"]]
    drawings = list(root.iter("svg"))
    assert [shades_of(svg, 2, 2).tolist() for svg in drawings] == [[[5, 3], [3, 7]], [[4, 4], [4, 4]], [[6, 0], [0, 9]]]
    assert [svg.get("class") for svg in drawings] == ["d", "y", "y"]
    assert all(svg.find("path").get("class") == "b" for svg in drawings[1:]), "the mean shines through"
    assert [label.text for label in root.iter("label")] == ["mean", "head 0", "head 1"]
    assert [node.get("checked") for node in root.iter("input")] == ["checked", None, None]
    style = root.find(".//style").text
    for k in (2, 3):
        assert f"input:nth-of-type({k}):checked~.box svg:nth-of-type({k}){{display:block}}" in style
    assert "nth-of-type(4)" not in style
    eight = tables(in_page(explain.heat("Map", "p", "r", np.full((8, 1, 1), 0.5))))
    assert eight.popitem()[1][2] == [[".5\n" + "\n".join(["500\t500\t500\t500"] * 2)]]
    assert not list(in_page(explain.heat("Map", "pq", "rs", x[:1])).iter("input"))
    with pytest.raises(ValueError, match="heat: Map needs values for 2 x 3"):
        explain.heat("Map", "pq", "rst", x)


@pytest.mark.parametrize("x", [np.zeros((0, 0)), np.zeros((0, 3)), np.zeros((2, 0)), np.full((2, 3), np.nan), -np.ones((2, 3)),
                               np.array([[np.inf, 1.0, -np.inf]]), np.full((1, 1), 1e30), np.zeros((2, 2))], ids=str)
def test_heat_survives(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        root = in_page(explain.heat("Map", ["r"] * x.shape[0], ["c"] * x.shape[1], x, mark=True))
    shades = shades_of(next(root.iter("svg")), *x.shape)
    assert shades.min(initial=0) >= 0 and shades.max(initial=0) <= explain.SHADES
    assert (shades == 0)[~(x > 0)].all() and (shades == explain.SHADES)[x == np.inf].all()


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


def test_no_label_hits_another():
    """Words stand apart, and each relation's name has room within its own arc."""
    words, names = ["a", "lot", "of", "counterrevolutionaries", "x"], ["det:predet", "root", "case", "nmod:unmarked", "punct"]
    at = explain.places(words, [2, 0, 4, 2, 2], names)
    for i in range(4):
        assert at[i + 1] - at[i] > (explain.width(words[i]) + explain.width(words[i + 1])) / 2
    for i, head in ((0, 2), (2, 4), (3, 2), (4, 2)):
        assert abs(at[head - 1] - at[i]) > explain.width(names[i]) + 10
    short = explain.places(words, [2, 0, 4, 2, 2], ["x"] * 5)
    assert short[-1] < at[-1], "a long name would take no room"


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


def test_picture():
    """The first three drawings, each at its place on one sheet with the page's colours, and nothing of the rest."""
    x = np.full((3, 2, 2), 0.5)
    trees = [explain.tree(f"Tree {side}", ["the", "dog"], [2, 0], ["det", "root"]) for side in "ab"]
    page = explain.page("T <&>", ("a", "b"), "yes", None, [*trees, explain.relations("No drawing", "p", "q", [["x"]]),
                                                        explain.heat("Map", "pq", "rs", x), explain.heat("More", "pq", "rs", x)])
    text = explain.picture(page)
    root = ElementTree.fromstring(text)
    assert root.tag == explain.SVG + "svg" and root.get("role") == "img" and root.findtext(f"{explain.SVG}title") == "T <&>"
    assert [node.text for node in root.findall(f"{explain.SVG}text")] == ["Tree a", "Tree b", "Map"]
    wider = ElementTree.fromstring(explain.picture(page.replace('width="', 'width="9')))
    for sheet in (root, wider):
        spots = [[float(svg.get(name)) for name in ("x", "y", "width", "height")] for svg in sheet.findall(f"{explain.SVG}svg")]
        wide, high = float(sheet.get("width")), float(sheet.get("height"))
        assert len(spots) == 3 and all(x >= 0 and y >= 20 and x + w <= wide and y + h <= high for x, y, w, h in spots)
        for (x, y, w, h), (r, s, v, g) in itertools.combinations(spots, 2):
            assert x + w <= r or r + v <= x or y + h <= s - 20 or s + g <= y - 20, "two of them overlap"
    assert {svg.get("x") for svg in wider.findall(f"{explain.SVG}svg")} == {"16"}, "side by side, and too wide"
    assert text.count("aria-hidden") == text.count('class="y"') == 0 and "<table" not in text and len(text) < 12_000
    assert "ns0:" not in text and "prefers-color-scheme:dark" in text


def test_the_picture_command(tmp_path, capsys):
    page, target = tmp_path / "page.html", tmp_path / "picture.svg"
    page.write_text(explain.page("T", ("a", "b"), "yes", None, [explain.heat("Map", ["p"], ["日本"], [[1]])]), "utf-8")
    assert explain.main([str(page), str(target)]) == 0 and "日本" in target.read_text("utf-8")
    other = tmp_path / "other.html"
    for text in ("<p>", "<p/>", "<section><p/></section>"):
        other.write_text(text)
        assert explain.main([str(other), str(target)]) == 2
        assert re.fullmatch(r"explain\.py: .*other\.html: no .*\n", capsys.readouterr().err)
    for arguments in ([], [str(page)], [str(tmp_path / "nowhere"), str(target)], [str(page), str(tmp_path / "no" / "folder")]):
        assert explain.main(arguments) == 2
        assert re.fullmatch(r"explain\.py: .+\n", capsys.readouterr().err)


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
    assert "@media screen and (prefers-color-scheme:dark)" in explain.STYLE, "paper is white"
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
READ, GUIDED = "Reading, step by step: ", "Guided attention, led by the {} signal"
LED = {model: [GUIDED.format(signal) for signal in signals] for model, signals in {
    "dabert": ("affinity", "difference"), "dafa": ("semantic", "dependency"), "knowledge": ("semantic", "knowledge")}.items()}
PROMISED = {
    "bert": ["Attention"], "dabert": ["Attention", "Difference attention", *LED["dabert"], "The two gates"],
    "dafa": ["Dependency prior over words", "Attention", "Attention after calibration", *LED["dafa"], "The two gates"],
    "knowledge": ["Relations of words", "Prior over pieces", "Attention", "Attention after calibration", *LED["knowledge"],
                  "The two gates"],
    "drrnet": ["First look: sentence a", READ + "sentence a", "First look: sentence b", READ + "sentence b",
               "The two judgements", "Gates of the two judgements"],
    "ladranet": [*(f"{what}{kind}" for kind in ("pieces", "phrases of 2", "phrases of 3")
                   for what in ("First look: ", READ, "Coverage, step by step: ") if (what, kind) != ("First look: ", "pieces")),
                 "Mixture of layers", "Mixture of each step"]}
CASES = [(["--model", "bert"], PROMISED["bert"]), (["--model", "dabert"], PROMISED["dabert"]),
         (["--model", "dafa", "--layers", "1"], PROMISED["dafa"]), (["--model", "knowledge"], PROMISED["knowledge"]),
         (DRRNET, PROMISED["drrnet"]), (LADRANET, PROMISED["ladranet"]),
         (["--model", "dafa", "--scope", "head"], [*PROMISED["dafa"], "Gate g in each head", "Gate f in each head"]),
         (["--model", "dafa", "--without", "fusion"], PROMISED["dafa"][:3]),
         (["--model", "dafa", "--without", "cross-attention"], [x for x in PROMISED["dafa"] if x not in LED["dafa"]]),
         ([*DRRNET, "--without", "reread"], [PROMISED["drrnet"][k] for k in (0, 2, 4, 5)]),
         ([*DRRNET, "--without", "global"], PROMISED["drrnet"]),
         ([*LADRANET, "--without", "dsa,bert"], [x for x in PROMISED["ladranet"] if "First" in x]),
         ([*LADRANET, "--without", "phrase-cnn", "--printed", "all"], [*PROMISED["ladranet"][:2], *PROMISED["ladranet"][-2:]])]


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
        if x.ndim == 3 and len(x) > 1:
            caption += ": the mean, then each head in thousandths"
            np.testing.assert_allclose(heads_of(shown[caption][2]), x, atol=6e-4, err_msg=caption)
        np.testing.assert_allclose(values(shown[caption][2]), x.mean(0) if x.ndim == 3 else x, atol=6e-4, err_msg=caption)
    if "layer0" in trace:
        inner = trace["layer1" if "--layers" in args else "layer0"]
        same("Attention", inner["attention"][0])
        for name, caption in (("calibrated", "Attention after calibration"), ("difference", "Difference attention")):
            if name in inner:
                same(caption, inner[name][0])
        for name in ("affinity", "difference", "semantic", "dependency", "knowledge"):
            if f"{name}_guided" in inner:
                same(GUIDED.format(name), inner[f"{name}_guided"])
        if "prior" in inner:
            same("Prior over pieces", inner["prior"])
        if "g" in inner:
            same("The two gates", torch.stack([inner["g"].mean(0)[:, 0], inner["f"].mean(0)[:, 0]], 1))
            assert shown["The two gates"][0] == ["g", "f"]
            assert shown["The two gates"][1] == shown["Attention: the mean, then each head in thousandths"][0]
    elif "drrnet" in args:
        for k, side in enumerate("ab"):
            words = shown[f"First look: sentence {side}"][0]
            assert words == [row[0] for row in shown[TREES[k]][2]]
            same(f"First look: sentence {side}", trace["pooling"][k, 0, None, :len(words)])
            if "reading" in trace:
                same(READ + f"sentence {side}", trace["reading"][k, 0, :, :len(words)])
        same("The two judgements", trace["relations"][0])
        same("Gates of the two judgements", trace["gates"].T)
        judges = [x for x, part in (("reading", "global"), ("re-reading", "reread")) if part not in args]
        assert shown["The two judgements"][:2] == (["0", "1"], judges)
        assert shown["Gates of the two judgements"][:2] == (["α"], judges)
    else:
        for r, kind in enumerate(("pieces", "phrases of 2", "phrases of 3")):
            if READ + kind in shown:
                same(READ + kind, trace["reading"][0, :, r])
                same(f"Coverage, step by step: {kind}", trace["coverage"][0, :, r])
            if f"First look: {kind}" in shown:
                same(f"First look: {kind}", trace["pooling"][r - 1, 0, None])
        for name, caption in (("layers", "Mixture of layers"), ("mixture", "Mixture of each step")):
            if name in trace:
                same(caption, trace[name].reshape(-1, trace[name].shape[-1]))


def test_what_is_read_is_named():
    """The words that are chosen stand in a line, in the order in which they are read; padding is not theirs."""
    reading = np.array([[0.1, 0.6, 0.2, 0.1], [0.0, 0.2, 0.8, 0.0], [0.9, 0.1, 0.0, 0.0], [0.0, 0.3, 0.7, 0.0]])
    root = in_page(*train.explain_reading({"reading": reading[None]}, ["p", "q", "r"], {"x": (None, 0)}))
    assert root.findtext(".//figcaption").endswith(": q → r → p → r.") and titles(root) == [READ + "x"]
    assert [[cell.endswith("(chosen)") for cell in row].index(True) for row in tables(root)[READ + "x"][2]] == [1, 2, 0, 2]


def test_a_page_is_small_and_the_same_each_time():
    """12 heads of a long pair, 56 pieces, before and after calibration: bytes, not pixels, say how heavy it is."""
    rng = np.random.default_rng(0)
    x = rng.dirichlet(np.full(56, 0.3), (2, 12, 56))
    pieces = [f"piece{i}" for i in range(56)]
    make = (lambda: explain.page("T", ("a", "b"), "yes", {"yes": 1.0}, [
        explain.heat(f"Map {k}", pieces, pieces, x[k], top=1.0) for k in range(2)]))
    assert len(make().encode()) < 900_000 and make() == make()     # 12 bytes a weight, drawing, value and labels


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
    pieces = tables(explained("the dog", "cat"))["Difference attention: the mean, then each head in thousandths"][0]
    assert pieces[0] == "<s>" and "Ġ" not in "".join(pieces) and "".join(pieces) == "<s>thedog</s></s>cat</s>"


@pytest.mark.parametrize("args", [[], DRRNET], ids=["dafa", "drrnet"])
def test_a_score_has_no_probabilities(args, traces):
    for name in ("train", "dev"):
        Path(f"{name}.tsv").write_text("sentence1\tsentence2\tlabel\n" + "the dog\tthe cat\t2.5\na\tb\t0.5\n" * 4, "utf-8")
    assert run(*args, "--epochs", "1") == 0
    traces.clear()
    root = explained()
    assert re.fullmatch(r"-?\d+\.\d{3}", root.find(".//strong").text) and "Probability of each answer" not in tables(root)
    if args:
        columns, judges, rows = tables(root)["The two judgements"]
        assert (columns, judges) == (["score"], ["reading", "re-reading"])
        np.testing.assert_allclose(values(rows), traces[0][0]["relations"][0], atol=6e-4)


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
    (["--from", "run", "--explain", "a", "b", "--lr", "1"], ["--lr", "training"])], ids=" ".join)
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
