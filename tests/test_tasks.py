"""support/tasks.py: metrics against plain loops, readers on rows as published, the user's files."""

import csv
import hashlib
import io
import json
import math
import re
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support import tasks
from support.tasks import Pair, Task, evaluate, load_task, own_task, read_pairs

quick = settings(derandomize=True, deadline=None, max_examples=30)
REAL = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SHEET = REAL.parent / "DATA.md"


# ----------------------------------------------------------------------------------------- metrics

def f1_in_loops(labels, predictions):
    hits = sum(1 for y, p in zip(labels, predictions) if y == 1 and p == 1)
    if hits == 0:
        return 0.0
    precision, recall = hits / predictions.count(1), hits / labels.count(1)
    return 2 * precision * recall / (precision + recall)


def pearson_in_loops(labels, predictions):
    if len(set(labels)) == 1 or len(set(predictions)) == 1:
        return 0.0
    x = [value - math.fsum(labels) / len(labels) for value in labels]
    y = [value - math.fsum(predictions) / len(predictions) for value in predictions]
    top = math.fsum(i * j for i, j in zip(x, y))
    return top / math.sqrt(math.fsum(i * i for i in x)) / math.sqrt(math.fsum(j * j for j in y))


def ranks_in_loops(values):
    """The mean of the places a value would take if equal ones were put in every order."""
    return [sum(v < value for v in values) + (values.count(value) + 1) / 2 for value in values]


@quick
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=13))
@example([(0, 0)])
@example([(1, 0), (0, 1)])
def test_accuracy_and_f1_oracle(rows):
    labels, predictions = map(list, zip(*rows))
    found = evaluate(Task("t", ("0", "1"), ("accuracy", "f1")), labels, predictions)
    assert list(found) == ["accuracy", "f1"]
    assert found["accuracy"] == pytest.approx(sum(y == p for y, p in rows) / len(rows))
    assert found["f1"] == pytest.approx(f1_in_loops(labels, predictions))


@quick
@given(st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=1, max_size=13),
       st.sampled_from([1.0, 0.5, 1e-200, 1e200]))
@example([(1, 1), (1, 5), (1, 2)], 1.0)
@example([(1, 3), (5, 3), (2, 3)], 1.0)
@example([(1, 1), (2, 8), (3, 27), (4, 64)], 1.0)
def test_pearson_and_spearman_oracle(rows, scale):
    """Numbers from a small range, for many ties and exact sums."""
    labels, guesses = map(list, zip(*rows))
    task, scaled = Task("t", (), ("pearson", "spearman")), [y * scale for y in guesses]
    pearson, spearman = evaluate(task, [x / 2 for x in labels], scaled).values()
    assert pearson == pytest.approx(pearson_in_loops(labels, guesses), abs=1e-12)
    by_rank = pearson_in_loops(ranks_in_loops(labels), ranks_in_loops(guesses))
    assert spearman == pytest.approx(by_rank, abs=1e-12)


@pytest.mark.parametrize("labels, predictions, message", [
    ([1, 0], [1], "one length"), ([], [], "one length"), ([[1]], [[1]], "one length"),
    ([1, None], [1, 1], "labels.*without labels"), ([1.0, 2.0], [1.0, math.nan], "predictions")])
def test_evaluate_refuses(labels, predictions, message):
    with pytest.raises(ValueError, match=message):
        evaluate(Task("t", (), ("pearson",)), labels, predictions)


# ------------------------------------------------------------------------------ published data sets

MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
RTE = "index\tsentence1\tsentence2\tlabel\n"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
MNLI = "index\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
NLI = ("entailment", "neutral", "contradiction")
SICK = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
TWITTER = "Twitter_URL_Corpus_train.txt"
DRAWN = 5, 13, 51, 72, 99                # 5 % of the 86 pairs with a label, by the fixed seed


def sick(number, label, split):
    return f"{number}\tA{number} is.\tB{number} is.\t{label}\t3.5\t{split}\n"


def snli(label, a, b):
    return json.dumps({"annotator_labels": ["neutral", label], "gold_label": label,
                       "sentence1": a, "sentence1_parse": "(ROOT (S))", "sentence2": b}) + "\n"


# task -> (Task, file -> text as published, split -> pairs)
PUBLISHED = {
    "mrpc": (Task("mrpc", ("0", "1"), ("accuracy", "f1")), {
        "msr_paraphrase_train.txt": MRPC + '1\t70\t71\tA "so", b.\t"So".\n'
                                           '0\t21\t22\tB 2.\tB\u20281.\n1\t13\t14\tC.\t"On.\n',
        "msr_paraphrase_test.txt": MRPC + "1\t7\t8\tC.\tD.\n", "mrpc_dev_ids.tsv": "21\t22\n"},
        {"train": [Pair('A "so", b.', '"So".', 1), Pair("C.", '"On.', 1)],
         "dev": [Pair("B 2.", "B\u20281.", 0)], "test": [Pair("C.", "D.", 1)]}),
    "rte": (Task("rte", ("not_entailment", "entailment"), ("accuracy",)), {
        "train.tsv": RTE + '0\tHe said "no.\t"Yes," he.\tnot_entailment\n'
                           '1\tIt\tfell.\tentailment\n',
        "dev.tsv": RTE + "0\tC\tD\tentailment\n",
        "test.tsv": "index\tsentence1\tsentence2\n0\tE\tF\n1\tG\tH\n2\tE\tF\n"},
        {"train": [Pair('He said "no.', '"Yes," he.', 0), Pair("It", "fell.", 1)],
         "dev": [Pair("C", "D", 1)], "test": [Pair("E", "F"), Pair("G", "H"), Pair("E", "F")]}),
    "qqp": (Task("qqp", ("0", "1"), ("accuracy", "f1")), {
        "train.tsv": QQP + '133\t21\t22\tHow is "it?\tWhy?\t0\n402\t23\t24\tWhat?\t\t1\n',
        "dev.tsv": QQP + "201\t3\t4\tC?\tD?\t1\n",
        "test.tsv": "id\tquestion1\tquestion2\n0\tE?\tF?\n"},
        {"train": [Pair('How is "it?', "Why?", 0), Pair("What?", "", 1)],
         "dev": [Pair("C?", "D?", 1)], "test": [Pair("E?", "F?")]}),
    "stsb": (Task("stsb", (), ("pearson", "spearman")), {
        "stsb-en-train.csv": 'A plane.,An air plane.,5.0\n"He ""said"", no.","A, b",0.8\n',
        "stsb-en-dev.csv": "C,D,4.25\n", "stsb-en-test.csv": 'E,"F\'s",0\n'},
        {"train": [Pair("A plane.", "An air plane.", 5.0), Pair('He "said", no.', "A, b", 0.8)],
         "dev": [Pair("C", "D", 4.25)], "test": [Pair("E", "F's", 0.0)]}),
    "mnli": (Task("mnli", NLI, ("accuracy",), "dev_matched"), {
        "train.tsv": MNLI + '0\t(S)\tOne "way.\tTwo\tneutral\tneutral\n1\t(S)\tA\tB\t-\t-\n'
                            "2\t(S)\tC\tD\t-\tcontradiction\n",
        "dev_matched.tsv": "sentence1\tsentence2\tlabel1\tgold_label\nE\tF\t-\tentailment\n",
        "dev_mismatched.tsv": "sentence1\tsentence2\tgold_label\nG\tH\t-\nI\tJ\tneutral\n",
        "test_matched.tsv": "index\tsentence1\tsentence2\n0\tK\tL\n1\t-\tN\n",
        "test_mismatched.tsv": "index\tsentence1\tsentence2\n0\tO\tP\n"},
        {"train": [Pair('One "way.', "Two", 1), Pair("C", "D", 2)],
         "dev_matched": [Pair("E", "F", 0)], "dev_mismatched": [Pair("I", "J", 1)],
         "test_matched": [Pair("K", "L"), Pair("-", "N")], "test_mismatched": [Pair("O", "P")]}),
    "qnli": (Task("qnli", ("entailment", "not_entailment"), ("accuracy",)), {
        "train.tsv": 'index\tquestion\tsentence\tlabel\n0\tWhen?\tThen "so.\tnot_entailment\n',
        "dev.tsv": "index\tquestion\tsentence\tlabel\n0\tC?\tD\tentailment\n",
        "test.tsv": "index\tquestion\tsentence\n0\tE?\tF\n"},
        {"train": [Pair("When?", 'Then "so.', 1)], "dev": [Pair("C?", "D", 0)],
         "test": [Pair("E?", "F")]}),
    "snli": (Task("snli", NLI, ("accuracy",)), {
        "snli_1.0_train.jsonl": snli("neutral", 'A "b"\t\u2028.', "naïve ") + snli("-", "X", "Y")
                                + "\n" + snli("contradiction", "C", "D"),
        "snli_1.0_dev.jsonl": snli("entailment", "E", "F") + snli("-", "X", "Y"),
        "snli_1.0_test.jsonl": snli("neutral", "G", "H")},
        {"train": [Pair('A "b"\t\u2028.', "naïve", 1), Pair("C", "D", 2)],
         "dev": [Pair("E", "F", 0)], "test": [Pair("G", "H", 1)]}),
    "sick": (Task("sick", ("NEUTRAL", "ENTAILMENT", "CONTRADICTION"), ("accuracy",)), {
        "SICK.txt": SICK + sick(1, "NEUTRAL", "TRAIN") + sick(2, "ENTAILMENT", "TEST")
                    + sick(3, "ENTAILMENT", "TRIAL") + sick(4, "CONTRADICTION", "TRAIN")},
        {"train": [Pair("A1 is.", "B1 is.", 0), Pair("A4 is.", "B4 is.", 2)],
         "dev": [Pair("A3 is.", "B3 is.", 1)], "test": [Pair("A2 is.", "B2 is.", 1)]}),
    "scitail": (Task("scitail", ("neutral", "entails"), ("accuracy",)), {
        "scitail_1.0_train.tsv": '"A" and "b.\tC is.\tneutral\nD\tE\tentails\n',
        "scitail_1.0_dev.tsv": "F\tG\tentails\n", "scitail_1.0_test.tsv": "H\t\"I\tneutral\n"},
        {"train": [Pair('"A" and "b.', "C is.", 0), Pair("D", "E", 1)],
         "dev": [Pair("F", "G", 1)], "test": [Pair("H", '"I', 0)]}),
    "twitterurl": (Task("twitterurl", ("0", "1"), ("f1", "accuracy")), {
        TWITTER: "\n" + "".join(f"A{i} \tMT so .\t({i % 7}, 6)\tu\n\n" for i in range(100)),
        "Twitter_URL_Corpus_test.txt": "".join(f"C{n} \tD{n} \t({n},6)\tu\n\n" for n in range(7))},
        {"train": [Pair(f"A{i}", "MT so .", int(i % 7 > 3)) for i in range(100)
                   if i % 7 != 3 and i not in DRAWN],
         "dev": [Pair(f"A{i}", "MT so .", int(i % 7 > 3)) for i in DRAWN],
         "test": [Pair(f"C{n}", f"D{n}", int(n > 3)) for n in (0, 1, 2, 4, 5, 6)]}),
}


def write_file(folder, name, content):
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def publish(folder, task, start="", end="\n", **changed):
    """Writes the files of PUBLISHED, some of them changed. -> the task's folder"""
    for name, text in (PUBLISHED[task][1] | changed).items():
        write_file(folder / task, name, start + text.replace("\n", end))
    return folder / task


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("start, end", [("", "\n"), ("\ufeff", "\r\n")])
@pytest.mark.parametrize("task", PUBLISHED)
def test_rows_as_published(monkeypatch, tmp_path, task, start, end):
    """Quotes in unquoted tables, - as a label, blank lines, tests without labels; no download."""
    monkeypatch.setattr(tasks, "download", None)
    publish(tmp_path, task, start, end)
    found, splits = load_task(task, tmp_path)
    assert found == PUBLISHED[task][0] and splits == PUBLISHED[task][2]
    assert all(type(p.label) is float for p in splits["train"]) == found.regression


@pytest.mark.parametrize("task, name, text, message", [
    ("mrpc", "mrpc_dev_ids.tsv", "21\t22\n1\t2\n", ": 1 of its 2 id pairs .*_train.txt"),
    ("rte", "train.tsv", RTE + "0\tA\tB\tyes\n", ":2: unknown label 'yes'.*not_entailment, ent"),
    ("rte", "test.tsv", "index\tsentence1\n0\tA\n", ":1: .*sentence1, sentence2 once"),
    ("stsb", "stsb-en-dev.csv", "A\tB\t3.2\n", ":1: expected .*3 fields .*commas, found 1"),
    ("stsb", "stsb-en-dev.csv", "A,B,nan\n", ":1: label 'nan' is not a finite number"),
    ("stsb", "stsb-en-test.csv", "", " is empty; expected rows of 3 fields or more"),
    ("twitterurl", TWITTER, "\nA\tB\t(7, 6)\tu\n", r":2: .*'\(7, 6\)'.*\(0,6\), \(0, 6\)"),
    ("twitterurl", TWITTER, "A\tB\t(2,6)\tu\nA\tB\t(3,6)\tu\n", ": no pairs for train"),
    ("sick", "SICK.txt", SICK + sick(1, "NEUTRAL", "DEV"), ":2, SemEval_set: .*TRAIN, TRIAL"),
    ("sick", "SICK.txt", SICK + sick(1, "NEUTRAL", "TRAIN"), ": no pairs for dev"),
    ("snli", "snli_1.0_dev.jsonl", snli("neutral", "A", "B") + '{"gold', ":2: not valid JSON"),
    ("snli", "snli_1.0_dev.jsonl", "\n" + '["neutral"]\n', ":2: expected an object .*sentence1"),
    ("snli", "snli_1.0_dev.jsonl", '{"sentence1": "A", "sentence2": null}\n', ":1: expected an "),
    ("snli", "snli_1.0_dev.jsonl", "[" * 100000, ":1: not valid JSON"),
    ("snli", "snli_1.0_test.jsonl", "\n\0", ":2: a NUL byte")])
def test_malformed_published_files_name_file_and_line(tmp_path, task, name, text, message):
    folder = publish(tmp_path, task, **{name: text})
    with pytest.raises(ValueError, match=re.escape(str(folder / name)) + message) as error:
        load_task(task, tmp_path)
    assert "\n" not in str(error.value)


def test_unknown_tasks_name_the_nearest():
    with pytest.raises(ValueError, match=r"^task 'mprc': .*toy, mrpc.*did you mean mrpc\?"):
        load_task("mprc", ".")


# ---- downloads

def serve(monkeypatch, files):
    """Lets downloads deliver files: name -> bytes. -> the calls"""
    calls = []

    def deliver(url, path, size, sha256, progress, remedy):
        calls.append((url.rpartition("/")[2], size, len(sha256), remedy))
        write_file(path.parent, path.name, files[path.name])
    monkeypatch.setattr(tasks, "download", deliver)
    return calls


def zipped(task, **more):
    """Bytes of a zip with the files of PUBLISHED in a folder, and more, path -> text."""
    out, files = io.BytesIO(), {f"X/y/{name}": text for name, text in PUBLISHED[task][1].items()}
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in (files | more).items():
            archive.writestr(name, text)
    return out.getvalue()


def test_missing_files_alone_are_downloaded(monkeypatch, tmp_path):
    files = everything(publish(tmp_path / "there", "mrpc"))
    calls = serve(monkeypatch, files)
    write_file(tmp_path / "mrpc", "mrpc_dev_ids.tsv", files["mrpc_dev_ids.tsv"])
    assert load_task("mrpc", tmp_path)[1] == PUBLISHED["mrpc"][2]
    assert [call[:3] for call in calls] == [("msr_paraphrase_train.txt", 1047044, 64),
                                            ("msr_paraphrase_test.txt", 441275, 64)]
    assert str(tmp_path / "mrpc" / "msr_paraphrase_train.txt") in calls[0][3]


@pytest.mark.parametrize("task", ["rte", "qqp", "mnli", "qnli", "snli", "sick", "scitail"])
def test_zips_are_extracted(monkeypatch, tmp_path, task):
    """The tables and nothing else, wherever they lie in the zip; then nothing more is fetched."""
    noise = {"X/README.txt": "x", "__MACOSX/X/._train.tsv": "\0", "X/original/raw.jsonl": "{}"}
    file = tasks.SOURCES[task].files[0]
    calls = serve(monkeypatch, {file.name: zipped(task, **noise)})
    for _ in range(2):
        assert load_task(task, tmp_path) == (PUBLISHED[task][0], PUBLISHED[task][2])
    assert [call[:2] for call in calls] == [(file.url.rpartition("/")[2], file.size)]
    assert set(everything(tmp_path)) == set(PUBLISHED[task][1])


def test_what_is_put_there_by_hand_is_used_and_stays(tmp_path):
    write_file(tmp_path / "rte", "RTE.zip", zipped("rte"))
    write_file(tmp_path / "rte", "dev.tsv", RTE + "0\tmine\tmine\tentailment\n")
    assert load_task("rte", tmp_path)[1]["dev"] == [Pair("mine", "mine", 1)]
    assert set(everything(tmp_path)) == {"RTE.zip", "dev.tsv", "test.tsv", "train.tsv"}
    assert b"mine" in everything(tmp_path)["dev.tsv"]


def test_twitter_is_had_on_request(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        load_task("twitterurl", tmp_path)
    for part in ("task 'twitterurl'", str(tmp_path / "twitterurl"), TWITTER, "request (https://"):
        assert part in str(error.value)
    assert "\n" not in str(error.value) and not any(tmp_path.iterdir())


# ---- the real files

@pytest.mark.parametrize("name, sizes, ones", [
    ("mrpc", {"train": 3668, "dev": 408, "test": 1725}, {"dev": 279, "test": 1147}),
    ("rte", {"train": 2490, "dev": 277, "test": 3000}, {"dev": 146}),
    ("stsb", {"train": 5749, "dev": 1500, "test": 1379}, {}),
    ("sick", {"train": 4439, "dev": 495, "test": 4906}, {})])
def test_real_files_have_their_counts(name, sizes, ones):
    """GLUE's majority classes: 68.4 % of MRPC's dev, 66.5 % of its test, 52.7 % of RTE's dev."""
    if not (REAL / name).exists():
        pytest.skip(f"no {REAL / name}")
    task, splits = load_task(name, REAL)
    assert {split: len(pairs) for split, pairs in splits.items()} == sizes
    assert all(p.a and p.b and "\t" not in p.a + p.b for pairs in splits.values() for p in pairs)
    for split, count in ones.items():
        assert sum(p.label == 1 for p in splits[split]) == count
    if name == "stsb":
        assert all(0 <= p.label <= 5 for pairs in splits.values() for p in pairs)
        for file in tasks.SOURCES[name].files:
            content = (REAL / name / file.name).read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)
    if name == "rte":                    # `index`, for GLUE's server, is the place in the file
        lines = (REAL / "rte" / "test.tsv").read_text("utf-8").split("\n")[1:-1]
        assert lines == [f"{i}\t{p.a}\t{p.b}" for i, p in enumerate(splits["test"])]
        assert {p.label for p in splits["test"]} == {None}


@pytest.mark.skipif(not SHEET.exists(), reason=f"no {SHEET}")
def test_sources_are_those_of_the_data_sheet():
    """Sizes, sums, names, metrics and labels, against the table they were copied from."""
    assert set(PUBLISHED) == set(tasks.SOURCES)
    rows = [line.strip("|").split("|") for line in SHEET.read_text("utf-8").splitlines()]
    table = {cells[0].strip(): cells for cells in rows if len(cells) == 6}
    for name, source in tasks.SOURCES.items():
        *_, labels, metrics, where = table[name]
        for file in source.files:
            assert f"{file.size:,}" in where and (file.sha256 in where or name == "stsb"), file
            assert file.name in where or "{train" in where, file
        metrics = metrics.lower().removesuffix("m / mm ").strip().split(", ")
        assert list(source.metrics) == metrics, name
        if name not in ("snli", "stsb"):             # "three" there
            assert source.labels == tuple(labels.strip().split(", ")), name


# -------------------------------------------------------------------------------- the user's files

GOOD = "sentence1\tsentence2\tlabel\n"
FIELD = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)


def test_tsv_is_read_without_quoting_in_any_column_order(tmp_path):
    path = write_file(tmp_path, "a.tsv", (
        '\ufefflabel\tid\tsentence2\tsentence1\r\nyes\t7\tHe said "no.\t"Yes," he\r\n\r\n   \r\n'
        'no\t8\t\tnaïve\x85\u2028 test \r\n\ufeffno\t9\ta\tb\r\n'))
    assert read_pairs(path) == [
        Pair('"Yes," he', 'He said "no.', "yes"), Pair("naïve\x85\u2028 test", "", "no"),
        Pair("b", "a", "\ufeffno")]


@quick
@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_round_trips(tmp_path_factory, rows, end):
    """Any text in a .csv, and in a .tsv any without tabs and line ends."""
    out, folder = io.StringIO(newline=""), tmp_path_factory.getbasetemp()
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(["sentence1", "label", "sentence2"])
    writer.writerows([a, "1", b] for a, b in rows)
    path = write_file(folder, "round.csv", out.getvalue())
    assert read_pairs(path, ("0", "1")) == [Pair(a.strip(), b.strip(), 1) for a, b in rows]
    rows = [[re.sub(r"[\t\n\r]", " ", text) for text in row] for row in rows]
    path = write_file(folder, "round.tsv", GOOD + "".join(f"{a}\t{b}\t0.5\n" for a, b in rows))
    assert read_pairs(path, ()) == [Pair(a.strip(), b.strip(), 0.5) for a, b in rows]


@pytest.mark.parametrize("name, content, message", [
    ("a.tsv", "\ufeff\n \n", " is empty; .*sentence1, sentence2, label"),
    ("a.tsv", GOOD, " has a header and no pairs"),
    ("a.tsv", "\ntext1\ttext2\tlabel\na\tb\t1\n", ":2: .*tabs.*found text1, text2, label"),
    ("a.csv", GOOD + "a\tb\t1\n", ":1: .*parted by commas"),
    ("a.tsv", "sentence1\tsentence2\tlabel\tlabel\na\tb\t1\t0\n", ":1: .*each of .* once"),
    ("a.tsv", GOOD + "a\tb\t1\n\na\tb\n", ":4: expected 3 fields parted by tabs, .*found 2"),
    ("a.tsv", GOOD + "a\tb\tc\t1\n", ":2: expected 3 fields .*found 4"),
    ("a.csv", 'sentence1,sentence2,label\n"x\ny",b,1\n\na,b\n', ":5: expected 3 .*found 2"),
    ("a.csv", 'sentence1,sentence2,label\na,b,1\na,"b,1\n', ":3: not valid csv"),
    ("a.csv", 'sentence1,sentence2,label\na,"b"c,1\n', ":2: not valid csv"),
    ("a.tsv", GOOD + "a\tb\t\n", ":2: unknown label ''; expected one of 0, 1"),
    ("a.tsv", (GOOD + "a\tb\t1\nnaïve\tb\t1\n").encode("latin-1"), ":3: byte 0xef is not UTF-8"),
    ("a.tsv", (GOOD + "a\tb\t1\n").encode("utf-16"), ":1: a NUL byte; .*UTF-16"),
    ("a.json", "{}", ": expected a name ending in .csv .*found .json")])
def test_malformed_files_name_file_and_line(tmp_path, name, content, message):
    path = write_file(tmp_path, name, content)
    with pytest.raises(ValueError, match=re.escape(str(path)) + message) as error:
        read_pairs(path, ("0", "1"))
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    (tmp_path / "folder.tsv").mkdir()
    for name, reason in (("none.tsv", "No such file"), ("folder.tsv", "Is a directory")):
        with pytest.raises(ValueError, match=f"cannot read .*{name}: {reason}"):
            read_pairs(tmp_path / name, ())


def test_prediction_files_need_no_labels(tmp_path):
    bare = write_file(tmp_path, "a.csv", "sentence2,sentence1\nb,a\n")
    assert read_pairs(bare, ("0", "1"), need_label=False) == [Pair("a", "b", None)]
    with pytest.raises(ValueError, match="sentence1, sentence2, label"):
        read_pairs(bare, ("0", "1"))
    some = write_file(tmp_path, "b.tsv", GOOD + "a\tb\t1\na\tb\t\n")
    assert [pair.label for pair in read_pairs(some, ("0", "1"), need_label=False)] == [1, None]
    with pytest.raises(ValueError, match="b.tsv:2: unknown label '1'"):
        read_pairs(some, ("no", "yes"), need_label=False)


def own(folder, labels, dev=None):
    """own_task of files with these labels; the test file is the dev file."""
    train, dev = [write_file(folder, name, GOOD + "".join(f"a\tb\t{label}\n" for label in rows))
                  for name, rows in (("train.tsv", labels), ("dev.tsv", dev or labels))]
    return own_task(train, dev, dev)


@pytest.mark.parametrize("labels, names", [
    (["yes", "no", "no"], ("no", "yes")), (["1.0", "0.0"], ("0.0", "1.0")),
    (["10", "9", "-1"], ("-1", "9", "10")),                             # by value, not "10" < "9"
    (["1", "0", "none"], ("0", "1", "none")), (["nan", "1"], ("1", "nan")),
    ([str(i) for i in range(10)], tuple(str(i) for i in range(10))),
    ([str(i) for i in range(11)], ()), (["0", "0.5"], ()), (["1e0", "2.5"], ())])
def test_own_labels(tmp_path, labels, names):
    task, splits = own(tmp_path, labels)
    assert task.labels == names and task.regression == (not names)
    assert list(splits) == ["train", "dev", "test"]
    for pairs in splits.values():
        expected = [names.index(label) if names else float(label) for label in labels]
        assert [pair.label for pair in pairs] == expected
    metrics = {0: ("pearson", "spearman"), 2: ("accuracy", "f1")}
    assert task.metrics == metrics.get(len(names), ("accuracy",))


@pytest.mark.parametrize("labels, dev, message", [
    (["0", ""], None, "train.tsv:3: the label is empty"), (["1", "1"], None, "every label is '1'"),
    (["0", "0.5"], ["0", "x"], "dev.tsv:3: label 'x' is not a finite number"),
    (["0", "1"], ["0", "2"], "dev.tsv:3: unknown label '2'; expected one of 0, 1"),
    *((["0.5", "1.5"], [bad], f"dev.tsv:2: label '{bad}'") for bad in ("1e999", "inf", "1_0"))])
def test_own_labels_that_cannot_be(tmp_path, labels, dev, message):
    with pytest.raises(ValueError, match=message):
        own(tmp_path, labels, dev)
