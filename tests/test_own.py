"""support/data.py: the user's files, and how tables are read."""
import csv
import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz import damage, damaged, many, read_or_refuse
from small_runs import fails, write_file
from support.data import Pair, own_task, read_pairs

quick = settings(derandomize=True, deadline=None, max_examples=30)
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
    ("a.tsv", "\nA dog.\tA cat.\t1\na\tb\t1\n", ":2: .*found A dog., A cat., 1"),
    ("a.tsv", "sentence1\tsentence2\tlabel\tlabel\na\tb\t1\t0\n", ":1: "),
    ("a.csv", 'sentence1,sentence2,label\n"x\ny",b,1\n\na,b\n', ":5: expected 3 .*found 2"),
    ("a.tsv", GOOD + '"a" b\tc\t1\n"d ""e"""\tf\t1\n', ":3: .* quotes of csv"),
    ("a.tsv", GOOD + "a\tb\t\n", ":2: unknown label ''"),
    ("a.tsv", (GOOD + "a\tb\t1\nnaïve\tb\t1\n").encode("latin-1"), ":3: byte 0xef")])
def test_malformed_files_name_file_and_line(tmp_path, name, content, message):
    path = write_file(tmp_path, name, content)
    with pytest.raises(ValueError, match=re.escape(str(path)) + message):
        read_pairs(path, ("0", "1"))


@pytest.mark.parametrize("header, taken", [
    ("id,qid1,qid2,question1,question2,is_duplicate", "question1,question2,is_duplicate"),
    ("Quality,#1 ID,#2 ID,#1 String,#2 String", "#1 String,#2 String,Quality"),
    ("index,genre,filename,year,old_index,source1,source2,sentence1,sentence2,score",
     "sentence1,sentence2,score"),
    ("gold_label,sentence1_parse,sentence1,sentence2,captionID,pairID,label1,label2",
     "sentence1,sentence2,gold_label")])
def test_columns_of_own_files(tmp_path, header, taken):
    """Those that published tables have too; the task says which were taken."""
    taken = tuple(taken.split(","))
    rows = [",".join(name + i for name in header.split(",")) for i in "01"]
    path = write_file(tmp_path, "a.csv", "\n".join([header, *rows]))
    task, splits = own_task(path, path)
    assert (task.columns, task.labels) == (taken, (f"{taken[2]}0", f"{taken[2]}1"))
    assert splits["dev"] == [Pair(taken[0] + i, taken[1] + i, int(i)) for i in "01"]


@pytest.mark.parametrize("header, meant", [
    ("id,question,label,answer,note", "question,answer,label"),
    ("sentence_A,sentence_B,entailment_label,relatedness_score",
     "sentence_A,sentence_B,entailment_label")])
def test_columns_that_could_be_others_are_asked_for(tmp_path, header, meant):
    """The line has the option with this file's columns filled in, the longest for sentences."""
    row = ",".join(name * 3 for name in header.split(","))
    path = write_file(tmp_path, "a.csv", f"{header}\n{row}\n")
    fails(lambda: own_task(path, path), f"{path}:1: ", f"--columns {meant}")


def test_prediction_files_need_no_labels(tmp_path):
    bare = write_file(tmp_path, "a.csv", "id,question2,question1\n1,a,b\n")
    assert read_pairs(bare, ("0", "1"), need_label=False) == [Pair("b", "a", None)]
    some = write_file(tmp_path, "b.tsv", GOOD + "a\tb\t1\na\tb\t\n")
    assert [pair.label for pair in read_pairs(some, ("0", "1"), need_label=False)] == [1, None]


def own(folder, labels, dev=None, **more):
    """own_task of files with these labels; the test file is the dev file."""
    train, dev = [write_file(folder, name, GOOD + "".join(f"a\tb\t{label}\n" for label in rows))
                  for name, rows in (("train.tsv", labels), ("dev.tsv", dev or labels))]
    return own_task(train, dev, dev, **more)


@pytest.mark.parametrize("labels, names", [
    (["yes", "no", "no"], ("no", "yes")), (["10", "9", "-1"], ("-1", "9", "10")),     # by value
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
    (["0,5"], None, "train.tsv:2: label '0,5' is not"),
    (["1", "0", "NaN"], None, "train.tsv:4: label 'NaN' is not"),
    (["1", "0", "1.0"], None, "train.tsv: labels 1, 1.0"),
    (["no", "yes", "Yes"], None, "train.tsv: labels Yes, yes"),
    (["caf\xe9", "cafe\u0301"], None, "every label"),
    ([f"This is text {i}." for i in range(20)], None, "20 different labels of 20 pairs"),
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
