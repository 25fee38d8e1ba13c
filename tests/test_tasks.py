"""support/tasks.py: metrics, readers on rows as published, the user's files."""

import csv
import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz import damage, damaged, many, read_or_refuse
from support import tasks
from support.tasks import Pair, Task, evaluate, load_task, own_task, read_pairs

quick = settings(derandomize=True, deadline=None, max_examples=30)
REAL = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


# ----------------------------------------------------------------------------------------- metrics

@pytest.mark.parametrize("metric, labels, predictions, expected", [
    ("accuracy", [0, 1, 2, 0], [0, 1, 1, 1], 0.5),
    ("f1", [0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], 0.0),               # scikit-learn's f1_score
    ("f1 of 0", [0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], 0.8),
    ("f1", [0, 0], [0, 0], 0.0),
    ("pearson", [1, 2, 3, 4, 5], [10, 9, 2.5, 6, 4], -0.7426106572325056),    # scipy's pearsonr
    ("pearson", [2.0, 2.0, 2.0], [1.0, 5.0, 2.0], 0.0),
    ("pearson", [1, 2, 4], [-1e200, -2e200, -4e200], -1.0),
    ("spearman", [106, 100, 86, 101, 99, 103, 97, 113, 112, 110],             # Wikipedia's
     [7, 27, 2, 50, 28, 29, 20, 12, 6, 17], -29 / 165),
    ("spearman", [1, 2, 3, 4, 5], [5, 6, 7, 8, 7], 0.8207826816681233)])      # scipy's spearmanr
def test_metrics(metric, labels, predictions, expected):
    name, _, positive = metric.partition(" of ")
    task = Task("t", ("0", "1", "2"), (name,), positive=positive)
    assert evaluate(task, labels, predictions) == {name: pytest.approx(expected, abs=1e-12)}
    assert tasks.metric_title(name, task.positive) == metric


def test_evaluate_refuses():
    for labels, message in (([1, 0, 1], "one length"), ([1, None], "without labels")):
        with pytest.raises(ValueError, match=message):
            evaluate(Task("t", (), ("pearson",)), labels, [1, 1])


# ------------------------------------------------------------------------------ published data sets

NLI = ("entailment", "neutral", "contradiction")
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
RTE = "index\tsentence1\tsentence2\tlabel\n"
SICK = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
TWITTER = "Twitter_URL_Corpus_train.txt"
DRAWN = 5, 13, 51, 72, 99                # 5 % of the 86 pairs with a label, by the fixed seed


def sick(number, label, split):
    return f"{number}\tA{number} is.\tB{number} is.\t{label}\t3.5\t{split}\n"


def snli(label, a, b):
    return json.dumps({"annotator_labels": ["neutral", label], "gold_label": label,
                       "sentence1": a, "sentence1_parse": "(ROOT (S))", "sentence2": b}) + "\n"


def alike(names, text, *pairs):
    """Files of one text, and the splits that they hold; those without labels are in capitals."""
    texts, splits = {}, {}
    for name in names.split():
        split = re.search(r"(train|dev|test)\w*", name.lower())[0]
        texts[name.lower()] = text
        splits[split] = [replace(pair, label=None) if name.isupper() else pair for pair in pairs]
    return texts, splits


# task -> labels, metrics, (file -> text as published, split -> pairs)
PUBLISHED = {
    "mrpc": (("0", "1"), ("accuracy", "f1"), ({
        "msr_paraphrase_train.txt":
            MRPC + '1\t70\t71\tA "so", b.\t"So".\n0\t21\t22\tB.\tB\u20281.\n1\t1\t4\tC.\t"On.\n',
        "msr_paraphrase_test.txt": MRPC + "1\t7\t8\tC.\tD.\n", "mrpc_dev_ids.tsv": "21\t22\n"},
        {"train": [Pair('A "so", b.', '"So".', 1), Pair("C.", '"On.', 1)],
         "dev": [Pair("B.", "B\u20281.", 0)], "test": [Pair("C.", "D.", 1)]})),
    "rte": (("not_entailment", "entailment"), ("accuracy",), alike(
        "train.tsv dev.tsv TEST.TSV", RTE + '0\tHe said "no.\t"Yes," he.\tnot_entailment\n'
        '1\t"It."\tfell\tentailment\n', Pair('He said "no.', '"Yes," he.', 0),
        Pair('"It."', "fell", 1))),
    "qqp": (("0", "1"), ("accuracy", "f1"), alike(
        "train.tsv dev.tsv TEST.TSV", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        '133\t21\t22\t"How do I ""X""?"\tHow is "it?\t0\n402\t23\t24\tWhat?\t\t1\n'
        '7\t8\t9\t"Open\tclosed"\t0\n6\t8\t9\t"A" or "B"\t"""A"" is?"\t1\n5\t8\t9\tOn ""\t"E\t0\n'
        '4\t8\t9\tLast\t"F ""g"\t1\n',
        Pair('How do I "X"?', 'How is "it?', 0), Pair("What?", "", 1), Pair('"Open', 'closed"', 0),
        Pair('"A" or "B"', '"A" is?', 1), Pair('On ""', '"E', 0), Pair("Last", 'F "g', 1))),
    "stsb": ((), ("pearson", "spearman"), alike(
        "stsb-en-train.csv stsb-en-dev.csv stsb-en-test.csv",
        'A plane.,"F\'s",5.0\n"He ""said"", no.","A, b",0.8\n',
        Pair("A plane.", "F's", 5.0), Pair('He "said", no.', "A, b", 0.8))),
    "mnli": (NLI, ("accuracy",), alike(
        "train.tsv dev_matched.tsv dev_mismatched.tsv TEST_MATCHED.TSV TEST_MISMATCHED.TSV",
        "index\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
        '0\t(S)\tOne "way.\t-\tneutral\tneutral\n2\t(S)\tC\tD\t-\tcontradiction\n',
        Pair('One "way.', "-", 1), Pair("C", "D", 2))),
    "qnli": (("entailment", "not_entailment"), ("accuracy",), alike(
        "train.tsv dev.tsv TEST.TSV", "index\tquestion\tsentence\tlabel\n"
        '0\tWho "is\tHe.\tnot_entailment\n1\t"Why"\tSo.\tentailment\n',
        Pair('Who "is', "He.", 1), Pair('"Why"', "So.", 0))),
    "snli": (NLI, ("accuracy",), alike(
        "snli_1.0_train.jsonl snli_1.0_dev.jsonl snli_1.0_test.jsonl",
        snli("neutral", 'A "b"\t\u2028.', "naïve ") + snli("-", "X", "Y") + "\n"
        + snli("contradiction", "C", "D"), Pair('A "b"\t\u2028.', "naïve", 1), Pair("C", "D", 2))),
    "sick": (("NEUTRAL", "ENTAILMENT", "CONTRADICTION"), ("accuracy",), ({
        "SICK.txt": SICK + sick(1, "NEUTRAL", "TRAIN") + sick(2, "ENTAILMENT", "TEST")
                    + sick(3, "ENTAILMENT", "TRIAL") + sick(4, "CONTRADICTION", "TRAIN")},
        {"train": [Pair("A1 is.", "B1 is.", 0), Pair("A4 is.", "B4 is.", 2)],
         "dev": [Pair("A3 is.", "B3 is.", 1)], "test": [Pair("A2 is.", "B2 is.", 1)]})),
    "scitail": (("neutral", "entails"), ("accuracy",), alike(
        "scitail_1.0_train.tsv scitail_1.0_dev.tsv scitail_1.0_test.tsv",
        '"A" and "b.\tC is.\tneutral\nD\tE\tentails\n',
        Pair('"A" and "b.', "C is.", 0), Pair("D", "E", 1))),
    "twitterurl": (("0", "1"), ("f1", "accuracy"), ({
        TWITTER: "\n" + "".join(f"A{i} \tMT so .\t({i % 7}, 6)\tu\n\n" for i in range(100)),
        "Twitter_URL_Corpus_test.txt": "".join(
            f"C{n} \tD{n} \t({n},6)\t{gap}https://t.co/x\n{blank}"
            for n, gap, blank in zip(range(7), [""] * 5 + ["\t"] * 2, ["\n", "", " \n"] * 3))},
        {"train": [Pair(f"A{i}", "MT so .", int(i % 7 > 3)) for i in range(100)
                   if i % 7 != 3 and i not in DRAWN],
         "dev": [Pair(f"A{i}", "MT so .", int(i % 7 > 3)) for i in DRAWN],
         "test": [Pair(f"C{n}", f"D{n}", int(n > 3)) for n in (0, 1, 2, 4, 5, 6)]})),
}


def write_file(folder, name, content):
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def publish(folder, task, start="", end="\n", **changed):
    """Writes the files of PUBLISHED, some of them changed. -> the task's folder"""
    for name, text in (PUBLISHED[task][2][0] | changed).items():
        write_file(folder / task, name, start + text.replace("\n", end))
    return folder / task


@pytest.mark.parametrize("start, end", [("", "\n"), ("\ufeff", "\r\n")])
@pytest.mark.parametrize("task", PUBLISHED)
def test_rows_as_published(monkeypatch, tmp_path, task, start, end):
    """Quotes in unquoted tables, - as a label, blank lines, tests without labels; no download."""
    monkeypatch.setattr(tasks, "download", None)
    publish(tmp_path, task, start, end)
    labels, metrics, (_, splits) = PUBLISHED[task]
    selection = "dev_matched" if task == "mnli" else "dev"
    assert load_task(task, tmp_path) == (Task(task, labels, metrics, selection), splits)


@pytest.mark.parametrize("task, name, text, message", [
    ("mrpc", "mrpc_dev_ids.tsv", "21\t22\n1\t2\n", ": 1 of its 2 id pairs"),
    ("mrpc", "mrpc_dev_ids.tsv", "", ": expected id pairs"),
    ("rte", "train.tsv", RTE + "0\tA\tB\tyes\n", ":2: unknown label 'yes'"),
    ("stsb", "stsb-en-dev.csv", "A\tB\t3.2\n", ":1: expected .*3 fields"),
    ("sick", "SICK.txt", SICK + sick(1, "NEUTRAL", "DEV"), ":2, SemEval_set"),
    ("sick", "SICK.txt", SICK + sick(1, "NEUTRAL", "TRAIN"), ": no pairs for dev"),
    ("sick", "SICK.txt", "pair_ID\tsentence_A\tsentence_B\n", ":1: .*SemEval_set once"),
    ("snli", "snli_1.0_dev.jsonl", '{"sentence1": "A", "sentence2": null}\n', ":1: expected an "),
    ("snli", "snli_1.0_dev.jsonl", "[" * 100000, ":1: not valid JSON"),
    ("twitterurl", TWITTER, "A\tB\t(1,6)\thttp\nA\tB\t\t(1,6)\thttp\n", ":2: expected 4 fields"),
    ("twitterurl", TWITTER, "A\tB\t(1,6)\thttp\nA\tB\t\thttp\n", ":2: unknown label ''")])
def test_malformed_published_files_name_file_and_line(tmp_path, task, name, text, message):
    folder = publish(tmp_path, task, **{name: text})
    with pytest.raises(ValueError, match=re.escape(str(folder / name)) + message) as error:
        load_task(task, tmp_path)
    assert "\n" not in str(error.value)


SICK_PARTS = {"SICK_train.txt": "train", "SICK_trial.txt": "dev", "SICK_test_annotated.txt": "test"}


def sick_part(split):
    return ("pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
            f"1\tA {split}\tB\t4.5\tENTAILMENT\n2\tC\tD\t3.6\tNEUTRAL\n")


def test_sick_in_three_files(monkeypatch, tmp_path):
    """As SemEval gave it out; SICK.txt goes before them; a part of them is no data set."""
    def offline(*args, remedy):
        raise ValueError(remedy)
    monkeypatch.setattr(tasks, "download", offline)
    with pytest.raises(ValueError, match="SICK.zip by hand, or SICK.txt"):
        load_task("sick", tmp_path)
    for name, split in SICK_PARTS.items():
        if split == "test":
            with pytest.raises(FileNotFoundError, match="lacks SICK_test_annotated.txt"):
                load_task("sick", tmp_path)
        write_file(tmp_path / "sick", name, sick_part(split))
    splits = load_task("sick", tmp_path)[1]
    assert splits == {split: [Pair(f"A {split}", "B", 1), Pair("C", "D", 0)]
                      for split in ("train", "dev", "test")}
    publish(tmp_path, "sick")
    assert load_task("sick", tmp_path)[1] == PUBLISHED["sick"][2][1]


def test_another_number_of_pairs_is_said(tmp_path, capsys):
    """One line, and the pairs are there."""
    publish(tmp_path, "rte")
    assert load_task("rte", tmp_path)[1] == PUBLISHED["rte"][2][1]
    line, = capsys.readouterr().out.splitlines()
    assert f"{tmp_path / 'rte'}: pairs: 2 of train (2490 were published), 2 of dev (277" in line


# ---- downloads

def serve(monkeypatch, files):
    """Lets downloads deliver files: name -> text or bytes. -> the calls"""
    calls = []

    def deliver(url, path, size, sha256, progress, remedy):
        calls.append((url.rpartition("/")[2], size))
        write_file(path.parent, path.name, files[path.name])
    monkeypatch.setattr(tasks, "download", deliver)
    return calls


def zipped(task, **more):
    """Bytes of a zip with the files of PUBLISHED in a folder, and more, path -> text."""
    out, files = io.BytesIO(), {f"X/y/{name}": x for name, x in PUBLISHED[task][2][0].items()}
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in (files | more).items():
            archive.writestr(name, text)
    return out.getvalue()


def test_missing_files_alone_are_downloaded(monkeypatch, tmp_path):
    files, splits = PUBLISHED["mrpc"][2]
    calls = serve(monkeypatch, files)
    write_file(tmp_path / "mrpc", "mrpc_dev_ids.tsv", files["mrpc_dev_ids.tsv"])
    assert load_task("mrpc", tmp_path)[1] == splits
    assert calls == [("msr_paraphrase_train.txt", 1047044), ("msr_paraphrase_test.txt", 441275)]


def test_zips_are_extracted(monkeypatch, tmp_path):
    """The tables alone, wherever they lie in the zip; what was put there by hand is used and stays.
    """
    noise = {"X/README.txt": "x", "__MACOSX/X/._train.tsv": "\0", "X/original/raw.jsonl": "{}"}
    files, splits = PUBLISHED["snli"][2]
    calls = serve(monkeypatch, {"snli_1.0.zip": zipped("snli", **noise)})
    write_file(tmp_path / "snli", "snli_1.0_dev.jsonl", snli("neutral", "mine", "mine"))
    for _ in range(2):
        assert load_task("snli", tmp_path)[1] == splits | {"dev": [Pair("mine", "mine", 1)]}
    assert len(calls) == 1 and {x.name for x in (tmp_path / "snli").iterdir()} == set(files)
    by_hand = write_file(tmp_path / "rte", "RTE.zip", zipped("rte"))
    assert load_task("rte", tmp_path)[1] == PUBLISHED["rte"][2][1]
    assert len(calls) == 1 and by_hand.exists()


def test_unzipped_tables_are_found_below_the_folder(tmp_path):
    """Where unzip puts them; not where there are two of them."""
    for task, (_, _, (files, splits)) in PUBLISHED.items():
        for name, text in files.items():
            write_file(tmp_path / task / "X" / "y", name, text)
        assert load_task(task, tmp_path)[1] == splits
    write_file(tmp_path / "rte" / "old", "dev.tsv", "x")
    with pytest.raises(ValueError, match=r"X/y/dev.tsv and .*old/dev.tsv: .* one dev.tsv in"):
        load_task("rte", tmp_path)


def test_twitter_is_had_on_request(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path}/twitterurl lacks {TWITTER}.*request"):
        load_task("twitterurl", tmp_path)


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
    assert all(sum(p.label == 1 for p in splits[split]) == ones[split] for split in ones)


# -------------------------------------------------------------------------------- the user's files

GOOD = "sentence1\tsentence2\tlabel\n"
FIELD = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)


@pytest.mark.parametrize("content, pairs", [
    ('\ufefflabel\tid\tsentence2\tsentence1\r\nyes\t7\tHe said "no.\t"Yes," he\r\n\r\n   \r\n'
     'no\t8\t\tnaïve\x85\u2028 test \r\n\ufeffno\t9\t"a"\tb\r\n',              # one cell is no csv
     [('"Yes," he', 'He said "no.', "yes"), ("naïve\x85\u2028 test", "", "no"),
      ("b", '"a"', "\ufeffno")]),
    (GOOD + '"Open\tb\t1\nclosed"\tb\t0\n', [('"Open', "b", "1"), ('closed"', "b", "0")]),
    (GOOD + '"He said ""no"""\tb "c"\tx\n"d\te\nf"\t""\ty\n',
     [('He said "no"', 'b "c"', "x"), ("d\te\nf", "", "y")])])
def test_quotes_in_a_tsv(tmp_path, content, pairs):
    """They are text, or all are those of csv."""
    assert read_pairs(write_file(tmp_path, "a.tsv", content)) == [Pair(*pair) for pair in pairs]


@quick
@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]),
       st.sampled_from([",", "\t"]))
@example([("x\t\t\n", "y")], "\n", "\t")
def test_round_trips(tmp_path_factory, rows, end, mark):
    """Any text in a quoted file, and in a .tsv without quotes any without tabs and line ends."""
    out, folder = io.StringIO(newline=""), tmp_path_factory.getbasetemp()
    writer = csv.writer(out, delimiter=mark, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(["sentence1", "label", "sentence2"])
    writer.writerows([a, "1", b] for a, b in rows)
    path = write_file(folder, "round.csv" if mark == "," else "round.tsv", out.getvalue())
    assert read_pairs(path, ("0", "1")) == [Pair(a.strip(), b.strip(), 1) for a, b in rows]
    rows = [[re.sub(r"[\t\n\r]", " ", text).replace('"', "'") for text in row] for row in rows]
    path = write_file(folder, "round.tsv", GOOD + "".join(f"{a}\t{b}\t0.5\n" for a, b in rows))
    assert read_pairs(path, ()) == [Pair(a.strip(), b.strip(), 0.5) for a, b in rows]


@pytest.mark.parametrize("name, content, message", [
    ("a.tsv", "\ufeff\n \n", " is empty"), ("a.tsv", GOOD, " has a header and no pairs"),
    ("a.tsv", "\nA dog.\tA cat.\t1\na\tb\t1\n", ":2: .*found A dog., A cat., 1"),
    ("a.tsv", "sentence1\tsentence2\tlabel\tlabel\na\tb\t1\t0\n", ":1: .*each of .* once"),
    ("a.csv", 'sentence1,sentence2,label\n"x\ny",b,1\n\na,b\n', ":5: expected 3 .*found 2"),
    ("a.csv", 'sentence1,sentence2,label\na,b,1\na,"b,1\n', ":3: not valid csv"),
    ("a.tsv", GOOD + '"a" b\tc\t1\n"d ""e"""\tf\t1\n', ':3: .* quotes of csv.*"d ""e"""'),
    ("a.tsv", GOOD + "a\tb\t\n", ":2: unknown label ''"), ("a.json", "{}", ": expected a name"),
    ("a.tsv", (GOOD + "a\tb\t1\nnaïve\tb\t1\n").encode("latin-1"), ":3: byte 0xef is not UTF-8"),
    ("a.tsv", (GOOD + "a\tb\t1\n").encode("utf-16"), ":1: a NUL byte"),
    ("a.tsv", (GOOD + "a\tb\t1\n").replace("\n", "\r"), ":1: lines end in CR alone")])
def test_malformed_files_name_file_and_line(tmp_path, name, content, message):
    path = write_file(tmp_path, name, content)
    with pytest.raises(ValueError, match=re.escape(str(path)) + message) as error:
        read_pairs(path, ("0", "1"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("header, taken", [
    ("label,q,id,sentence2,sentence1", "sentence1,sentence2,label"),
    ("pair_ID,Index,ID,guid,uid,split,genre,a,b,label", "a,b,label"),
    ("qid1,qid2,question1,question2,label", "question1,question2,label"),
    ("id,qid1,qid2,question1,question2,is_duplicate", "question1,question2,is_duplicate"),
    ("Quality,#1 ID,#2 ID,#1 String,#2 String", "#1 String,#2 String,Quality"),
    ("index,genre,filename,year,old_index,source1,source2,sentence1,sentence2,score",
     "sentence1,sentence2,score"),
    ("index,promptID,sentence1_parse,sentence1,sentence2,label1,label2,gold_label",
     "sentence1,sentence2,gold_label"),
    ("gold_label,sentence1_parse,sentence1,sentence2,captionID,pairID,label1,label2",
     "sentence1,sentence2,gold_label"),
    ("index,question,sentence,label", "question,sentence,label")])
def test_columns_of_own_files(tmp_path, header, taken):
    """Those that published tables have too; the task says which were taken."""
    taken = tuple(taken.split(","))
    rows = [",".join(name + i for name in header.split(",")) for i in "01"]
    path = write_file(tmp_path, "a.csv", "\n".join([header, *rows]))
    task, splits = own_task(path, path)
    assert (task.columns, task.labels) == (taken, (f"{taken[2]}0", f"{taken[2]}1"))
    assert splits["dev"] == [Pair(taken[0] + i, taken[1] + i, int(i)) for i in "01"]


@pytest.mark.parametrize("header, meant", [
    ("id,question,label,answer,note", "question,answer,label"), ("id,text,label", "id,text,label"),
    ("sentence_A,sentence_B,entailment_label,relatedness_score", "{0},{1},{2}"),
    ("qid,question,reply,same", "question,reply,same"), ("#1 ID,#2 ID,label", "'{0},{1},{2}'"),
    ("question1,question2,is_duplicate,label", "{0},{1},{2}"), ("a,b", None), ("a", None),
    ("a,label", None)])
def test_columns_that_could_be_others_are_asked_for(tmp_path, header, meant):
    """The line has the option with this file's columns filled in, the longest for sentences."""
    names = header.split(",")
    path = write_file(tmp_path, "a.csv", f"{header}\n{','.join(x * 3 for x in names)}\n")
    with pytest.raises(ValueError, match=f"{path}:1: ") as error:
        own_task(path, path)
    option = meant and f"--columns {meant.format(*names)}"
    assert str(error.value).endswith(option or "rename them")


def test_numbers_are_no_sentences(tmp_path):
    path = write_file(tmp_path, "a.csv", "user,item,label\n17,28,1\n3,4,0\n")
    with pytest.raises(ValueError, match="--columns user,item,label"):
        own_task(path, path)
    path = write_file(tmp_path, "a.csv", "views,post,answer,label\n17,a,b,1\n3,c,d,0\n")
    assert own_task(path, path)[0].columns == ("post", "answer", "label")


def test_prediction_files_need_no_labels(tmp_path):
    bare = write_file(tmp_path, "a.csv", "id,question2,question1\n1,a,b\n")
    assert read_pairs(bare, ("0", "1"), need_label=False) == [Pair("b", "a", None)]
    some = write_file(tmp_path, "b.tsv", GOOD + "a\tb\t1\na\tb\t\n")
    assert [pair.label for pair in read_pairs(some, ("0", "1"), need_label=False)] == [1, None]
    for first in ("A dog.\tA cat.", "dog\tcat"):
        headless = write_file(tmp_path, "c.tsv", f"{first}\nIt is.\tIt was.\n")
        with pytest.raises(ValueError, match="c.tsv:1: .*found (A )?dog.*rename them$"):
            read_pairs(headless, ("0", "1"), need_label=False)


def own(folder, labels, dev=None, **more):
    """own_task of files with these labels; the test file is the dev file."""
    train, dev = [write_file(folder, name, GOOD + "".join(f"a\tb\t{label}\n" for label in rows))
                  for name, rows in (("train.tsv", labels), ("dev.tsv", dev or labels))]
    return own_task(train, dev, dev, **more)


@pytest.mark.parametrize("labels, names", [
    (["yes", "no", "no"], ("no", "yes")), (["10", "9", "-1"], ("-1", "9", "10")),     # by value
    (["nan", "inf"], ("inf", "nan")),
    (["5-6", "v1,2"], ("5-6", "v1,2")),
    ([str(i) for i in range(10)], tuple(str(i) for i in range(10))),
    ([str(i) for i in range(11)], ()), (["1e0", "2.5"], ())])
def test_own_labels(tmp_path, labels, names):
    task, splits = own(tmp_path, labels)
    assert task.labels == names and task.regression == (not names)
    assert list(splits) == ["train", "dev", "test"]
    for pairs in splits.values():
        expected = [names.index(label) if names else float(label) for label in labels]
        assert [pair.label for pair in pairs] == expected
    metrics = {0: ("pearson", "spearman"), 2: ("accuracy", "f1")}
    assert task.metrics == metrics.get(len(names), ("accuracy",))
    assert task.positive == (names[1] if len(names) == 2 else "")


def test_whole_numbers_can_be_scores(tmp_path):
    task, splits = own(tmp_path, ["1", "5", "3"], scores=True)
    assert task.regression and [pair.label for pair in splits["dev"]] == [1, 5, 3]
    assert len(own(tmp_path, [str(i) for i in range(12)] * 2, scores=False)[0].labels) == 12
    assert own(tmp_path, ["1", "none", "0,5"], scores=False)[0].labels == ("0,5", "1", "none")
    with pytest.raises(ValueError, match="train.tsv:3: label 'high' is not a number"):
        own(tmp_path, ["1", "high"], scores=True)


@pytest.mark.parametrize("labels, dev, message", [
    (["0", ""], None, "train.tsv:3: the label is empty"), (["1", "1"], None, "every label is '1'"),
    (["0", "1"], ["0", "2"], "dev.tsv:3: unknown label '2'"),
    *(([*rest, odd], None, f"train.tsv:{2 + len(rest)}: label '{odd}' is not .* such as 0.5")
      for odd in ("0,5", "12%", "12 %", "1e999", "1,000", "1_0", "٣") for rest in ([], ["1", "0"])),
    (["1", "0", "NaN"], None, "train.tsv:4: label 'NaN' is not"),
    (["1", "0", "none"], None, "train.tsv:4: label 'none' is not .* as others are"),
    (["1", "0", "1.0"], None, "train.tsv: labels 1, 1.0: .* two ways"),
    (["no", "yes", "Yes"], None, "train.tsv: labels Yes, yes: .* two ways"),
    (["no", "yes", "yes\u200b"], None, "two ways"),
    (["caf\xe9", "cafe\u0301"], None, "every label"),
    (["0.5", "0.50"], None, "every label is '0.5'"),
    ([f"This is text {i}." for i in range(20)], None, "20 different labels of 20 pairs"),
    (["0.5", "1e300"], None, "train.tsv:3: label '1e300' is not"),
    (["1\nsentence1\tsentence2\tlabel", "0"], None, "train.tsv:3: the header again"),
    (["0.5", "1.5"], ["1e999"], "dev.tsv:2: label '1e999'")])
def test_own_labels_that_cannot_be(tmp_path, labels, dev, message):
    with pytest.raises(ValueError, match=message):
        own(tmp_path, labels, dev)


@many
@given(damage, st.sampled_from(["a.tsv", "a.csv"]))
@example([("flip", 0, 1), ("retype", 0, 123)], "a.tsv")  # a name of hundreds of letters
def test_a_damaged_file_is_read_or_refused(tmp_path_factory, changes, name):
    text = 'id\tq\tr\tlabel\n1\t"A ""b"""\tc\t1\n2\td,e\t\t0\n3\t"f\ng"\th\t0\n4\ti\tj\t1\n'
    data = damaged((text if name == "a.tsv" else text.replace("\t", ",")).encode(), changes)
    path = write_file(tmp_path_factory.getbasetemp(), name, data)
    found = read_or_refuse(lambda: own_task(path, path), path)
    if found:
        pairs, labels = found[1]["train"], found[0].labels
        assert pairs == found[1]["dev"] and all(0 <= p.label < len(labels) for p in pairs) == (
            not found[0].regression)
