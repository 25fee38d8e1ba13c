"""The tables and the picture of the answer in docs/results.md are what experiments.compare makes of
docs/results; so are the intervals in its text and in README's answer."""
import re

from experiments import compare
from small_runs import ROOT


def source(page):
    return (ROOT / page).read_text("utf-8")


PAGE = source("docs/results.md")
FOUR = [f"{task}-planned.json" for task in ("mrpc", "qqp", "sick", "stsb")]
SIX = ["DABERT", "DAFA", "knowledge", "LadRa-Net", "DAFA averaged", "knowledge averaged"]
PAWS = ["paws-aligned.json", "paws-planned.json", "paws-read.json"]
READ = ["plain BERT, after reading", "Aligned, after reading"]
# Files, the row after --against, those after --rows: a table of the page, in its order
TABLES = [
    (FOUR, "plain BERT", [*SIX, "others' trees, averaged", "others' relations, averaged",
                          "likeness averaged"]),
    ([*FOUR, *(file.replace("planned", "aligned") for file in FOUR)], "plain BERT, GPU",
     [*SIX[:3], "likeness averaged, GPU", "Aligned, GPU"]),
    (["new-layers.json"], None, []),
    (PAWS, "plain BERT, 20 epochs", ["plain BERT", "likeness averaged", "Aligned", "sharp trees",
                                     "others' sharp trees", *READ]),
    (PAWS, READ[0], ["Aligned", READ[1]]),
    (["baselines.json"], None, []),
    (["mrpc-unread.json", "mrpc-read.json", "mrpc-cpu.json"], "plain BERT",
     [*READ, "Aligned", "likeness averaged", "two plain attentions"])]


def show(files, against, rows, *more):
    """Runs `python -m experiments.compare`. The page names files from the root of the project."""
    words = ["--show", *(f"docs/results/{file}" for file in files)]
    words += ["--against", against] * bool(against) + ["--rows", *rows] * bool(rows)
    compare.main([*words, *more])


def test_the_page_has_the_text_of_each_table_and_no_other(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    for table in TABLES:
        show(*table)
        assert f"\n{capsys.readouterr().out}\n" in PAGE, table[0]
    assert len(re.findall(r"^-+\|", PAGE, re.M)) == len(TABLES)


def test_the_answer_is_drawn_from_the_scores(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    show(FOUR, "plain BERT", SIX, "--draw", str(tmp_path / "answer.svg"))
    assert (tmp_path / "answer.svg").read_text("utf-8") == source("docs/answer.svg")


def test_intervals_in_the_text_are_of_a_table():
    interval = re.compile(r"[+-]\d+\.\d \([+-]\d+\.\d to [+-]\d+\.\d\)")
    known = {x for line in PAGE.splitlines() if " | " in line for x in interval.findall(line)}
    answer = source("README.md").partition("## Do these methods help?")[2].partition("\n## ")[0]
    for text in (PAGE, answer):
        text = " ".join(text.split()).replace(" points (", " (")
        assert {*interval.findall(text)} <= known


def test_what_the_papers_report():
    """Our rows of the table in docs/papers.md are differences of the first table's scores."""
    runs = compare.read_scores([ROOT / "docs/results" / file for file in FOUR])
    table = compare.table_of(runs)
    ours = re.findall(r"^\| ours: (.*?) \| results.md \|(.*)\|$", source("docs/papers.md"), re.M)
    assert [row for row, _ in ours] == SIX[:4]
    for row, cells in ours:
        found = [compare.change_of([(table[row][name, "test"], table["plain BERT"][name, "test"])])
                 for name in ("MRPC", "QQP", "STS-B", "SICK")]
        assert cells.replace("|", "").split() == [f"{100 * x.mean:+.1f}" for x in found]
