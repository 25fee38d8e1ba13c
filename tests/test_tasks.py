"""tasks.py: metrics against plain loops, readers on rows as published, the toy world's balance and grammar."""

import csv
import dataclasses
import hashlib
import io
import json
import math
import os
import random
import re
import subprocess
import sys
import warnings
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import tasks  # noqa: E402
from tasks import METRICS, Pair, Task, evaluate, load_task, own_task, read_pairs, toy_task  # noqa: E402

quick = settings(derandomize=True, deadline=None, max_examples=100)
REAL = ROOT.parent / "shared" / "data"
SHEET = REAL.parent / "DATA.md"


# ------------------------------------------------------------------------------------------ metrics

def loop_f1(labels, predictions):
    hits = sum(1 for y, p in zip(labels, predictions) if y == 1 and p == 1)
    found, real = sum(p == 1 for p in predictions), sum(y == 1 for y in labels)
    if hits == 0:
        return 0.0
    precision, recall = hits / found, hits / real
    return 2 * precision * recall / (precision + recall)


def loop_pearson(labels, predictions):
    n = len(labels)
    mean_x, mean_y = math.fsum(labels) / n, math.fsum(predictions) / n
    top = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(labels, predictions))
    left = math.fsum((x - mean_x) ** 2 for x in labels)
    right = math.fsum((y - mean_y) ** 2 for y in predictions)
    constant = len(set(labels)) == 1 or len(set(predictions)) == 1
    return 0.0 if constant else top / math.sqrt(left) / math.sqrt(right)


def loop_ranks(values):
    """The mean of the places a value would take if equal ones were put in every order."""
    return [sum(v < value for v in values) + (sum(v == value for v in values) + 1) / 2 for value in values]


classes = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=13)
# halves from a small range: many ties and exact sums
scores = st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=1, max_size=13)


@quick
@given(classes)
@example([(0, 0)])
@example([(1, 0), (0, 1)])
def test_accuracy_and_f1_match_loops(rows):
    labels, predictions = map(list, zip(*rows))
    assert METRICS["accuracy"](labels, predictions) == pytest.approx(
        sum(y == p for y, p in rows) / len(rows))
    assert METRICS["f1"](labels, predictions) == pytest.approx(loop_f1(labels, predictions))


@quick
@given(scores, st.sampled_from([1.0, 0.5, 1e-200, 1e200]))
@example([(2, 3)], 1.0)
@example([(1, 1), (1, 5), (1, 2)], 1.0)
def test_pearson_and_spearman_match_loops(rows, scale):
    labels, predictions = [x / 2 for x, _ in rows], [y * scale for _, y in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pearson, spearman = (METRICS[name](labels, predictions) for name in ("pearson", "spearman"))
    assert pearson == pytest.approx(loop_pearson(labels, [y for _, y in rows]), abs=1e-12)
    assert spearman == pytest.approx(loop_pearson(loop_ranks(labels), loop_ranks(predictions)), abs=1e-12)
    assert list(tasks.ranks(predictions)) == loop_ranks(predictions)


def test_metrics_by_hand():
    """tp 1, fp 1, fn 1, tn 2. Ranks of 3, 1, 3, 7 are 2.5, 1, 2.5, 4."""
    task = Task("t", ("0", "1"), ("accuracy", "f1"))
    assert evaluate(task, [1, 1, 0, 0, 0], [1, 0, 1, 0, 0]) == {"accuracy": 0.6, "f1": 0.5}
    assert list(tasks.ranks([3, 1, 3, 7])) == [2.5, 1, 2.5, 4]
    assert METRICS["pearson"]([1, 2, 3], [-1, -2, -3]) == -1
    assert METRICS["spearman"]([1, 2, 3, 4], [1, 8, 27, 64]) == 1
    assert METRICS["pearson"]([1, 2, 3, 4], [1, 8, 27, 64]) < 0.96       # the cube is monotone and not linear
    assert METRICS["f1"]([1, 0, 0], [1, 1, 1]) != METRICS["f1"]([0, 1, 1], [0, 0, 0])   # class 1, not 0


@pytest.mark.parametrize("labels, predictions, message", [
    ([1, 0], [1], "one length"), ([], [], "one length"), ([[1]], [[1]], "one length"),
    ([1, None], [1, 1], "labels must be finite.*without labels"),
    ([1.0, 2.0], [1.0, math.nan], "predictions must be finite")])
def test_evaluate_refuses(labels, predictions, message):
    with pytest.raises(ValueError, match=message):
        evaluate(Task("t", (), ("pearson",)), labels, predictions)


def test_task_and_pair_are_frozen():
    assert Task("t", (), ("pearson",)).regression and not Task("t", ("a", "b"), ("accuracy",)).regression
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pair("a", "b", 1).label = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        Task("t", (), ()).name = "u"


# ------------------------------------------------------------------------------------------ MRPC

HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
TRAIN = ["1\t702876\t702977\tAmrozi accused \"the witness\", of lying.\tReferring to only \"the witness\".",
         "0\t2108705\t2108831\tYucaipa bought it for 2.5 billion.\tYucaipa\u2028bought it for 1.8 billion.",
         "1\t1330381\t1330521\tThey had published an advertisement.\tOn June 10, the owners published \"it.",
         "0\t5\t6\tA.\tB."]


def write_mrpc(folder, end="\n", train=TRAIN, ids=("2108705\t2108831",)):
    folder = folder / "mrpc"
    folder.mkdir(exist_ok=True)
    for name, rows in (("train", train), ("test", ["1\t7\t8\tC.\tD."])):
        text = "\ufeff" + end.join([HEADER, *rows]) + end
        (folder / f"msr_paraphrase_{name}.txt").write_bytes(text.encode())
    (folder / "mrpc_dev_ids.tsv").write_bytes((end.join(ids) + end).encode())
    return folder


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_mrpc_rows_as_published(tmp_path, end):
    write_mrpc(tmp_path, end)
    task, splits = load_task("mrpc", tmp_path)
    assert task == Task("mrpc", ("0", "1"), ("accuracy", "f1"), "dev")
    assert splits["train"] == [
        Pair('Amrozi accused "the witness", of lying.', 'Referring to only "the witness".', 1),
        Pair("They had published an advertisement.", 'On June 10, the owners published "it.', 1),
        Pair("A.", "B.", 0)]
    assert splits["dev"] == [
        Pair("Yucaipa bought it for 2.5 billion.", "Yucaipa\u2028bought it for 1.8 billion.", 0)]
    assert splits["test"] == [Pair("C.", "D.", 1)] and set(splits) == {"train", "dev", "test"}


def test_mrpc_files_that_do_not_belong_together(tmp_path):
    folder = write_mrpc(tmp_path, ids=["2108705\t2108831", "1\t2"])
    with pytest.raises(ValueError, match=r"mrpc_dev_ids.tsv: 1 of its 2 id pairs are not in .*_train.txt"):
        load_task("mrpc", tmp_path)
    write_mrpc(tmp_path, train=[*TRAIN, "2\t9\t9\tE.\tF."])
    with pytest.raises(ValueError, match=r"paraphrase_train.txt:6: unknown label '2'; expected one of 0, 1"):
        load_task("mrpc", tmp_path)
    (folder / "msr_paraphrase_train.txt").write_text("1\t702876\t702977\tA.\tB.\n")
    with pytest.raises(ValueError, match="header must name each of #1 String.*found 1, 702876"):
        load_task("mrpc", tmp_path)


def test_missing_files_are_fetched_or_named(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        load_task("mrpc", tmp_path)
    for part in ("paraphrase_train.txt", "mrpc_dev_ids.tsv", str(tmp_path / "mrpc"), "--task toy", "https://"):
        assert part in str(error.value)
    assert "\n" not in str(error.value) and not (tmp_path / "mrpc").exists()

    source = write_mrpc(tmp_path)
    kept, calls = {path.name: path.read_bytes() for path in source.iterdir()}, []
    target = tmp_path / "else"

    def download(url, path, size, sha256):
        calls.append((url, size, sha256))
        path.write_bytes(kept[path.name])
    target.mkdir()
    (target / "mrpc").mkdir()
    (target / "mrpc" / "mrpc_dev_ids.tsv").write_bytes(kept["mrpc_dev_ids.tsv"])
    assert load_task("mrpc", target, download) == load_task("mrpc", tmp_path)
    assert [url.rsplit("_", 1)[1] for url, _, _ in calls] == ["train.txt", "test.txt"]
    assert [size for _, size, _ in calls] == [1047044, 441275] and all(len(sha) == 64 for _, _, sha in calls)


def test_unknown_task_names_the_nearest():
    with pytest.raises(ValueError, match=r"--task mprc.*toy, mrpc.*did you mean mrpc\?"):
        load_task("mprc", ".")


# ------------------------------------------------------------------------------------------ all published sets

NLI = ("entailment", "neutral", "contradiction")
MNLI_TRAIN = "index\tpromptID\tgenre\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
SICK = ("pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tentailment_AB\tentailment_BA\t"
        "sentence_A_original\tsentence_B_original\tsentence_A_dataset\tsentence_B_dataset\tSemEval_set\n")


def sick(number, label, split):
    return f"{number}\tA{number} is.\tB{number} is.\t{label}\t3.5\tA_x_B\tB_x_A\tA\tB\tFLICKR\tFLICKR\t{split}\n"


def snli(label, a, b):
    return json.dumps({"annotator_labels": ["neutral", label], "captionID": "1.jpg#0", "gold_label": label,
                       "sentence1": a, "sentence1_parse": "(ROOT (S))", "sentence2": b}) + "\n"


# task -> (Task, file -> text as published, split -> pairs). Line ends are put in below; ¶ is a byte order mark.
PUBLISHED = {
    "rte": (Task("rte", ("not_entailment", "entailment"), ("accuracy",)), {
        "train.tsv": 'index\tsentence1\tsentence2\tlabel\n0\tHe said "no.\t"Yes," he.\tnot_entailment\n'
                     '1\tOil\u2028fell.\tOil fell.\tentailment\n',
        "dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tC\tD\tentailment\n",
        "test.tsv": "index\tsentence1\tsentence2\n0\tE\tF\n1\tG\tH\n2\tE\tF\n"},
        {"train": [Pair('He said "no.', '"Yes," he.', 0), Pair("Oil\u2028fell.", "Oil fell.", 1)],
         "dev": [Pair("C", "D", 1)], "test": [Pair("E", "F"), Pair("G", "H"), Pair("E", "F")]}),
    "qqp": (Task("qqp", ("0", "1"), ("accuracy", "f1")), {
        "train.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n133273\t21\t22\tHow is \"it?\tWhy?\t0\n"
                     "402555\t23\t24\tWhat?\t\t1\n",
        "dev.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n201359\t3\t4\tC?\tD?\t1\n",
        "test.tsv": "id\tquestion1\tquestion2\n0\tE?\tF?\n1\tG?\tH?\n"},
        {"train": [Pair('How is "it?', "Why?", 0), Pair("What?", "", 1)], "dev": [Pair("C?", "D?", 1)],
         "test": [Pair("E?", "F?"), Pair("G?", "H?")]}),
    "stsb": (Task("stsb", (), ("pearson", "spearman")), {
        "stsb-en-train.csv": 'A plane.,An air plane.,5.0\n"He ""said"", no.","A, b",0.8\n',
        "stsb-en-dev.csv": "C,D,4.25\n", "stsb-en-test.csv": 'E,"F\'s",0\n'},
        {"train": [Pair("A plane.", "An air plane.", 5.0), Pair('He "said", no.', "A, b", 0.8)],
         "dev": [Pair("C", "D", 4.25)], "test": [Pair("E", "F's", 0.0)]}),
    "mnli": (Task("mnli", NLI, ("accuracy",), "dev_matched"), {
        "train.tsv": MNLI_TRAIN + '0\t1n\tslate\t(S)\tOne "way.\tTwo\tneutral\tneutral\n1\t2e\ttravel\t(S)\tA\tB\t-\t-\n'
                                  "2\t3c\ttravel\t(S)\tC\tD\t-\tcontradiction\n",
        "dev_matched.tsv": "index\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n0\tE\tF\tneutral\t-\tentailment\n",
        "dev_mismatched.tsv": "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\tG\tH\tneutral\t-\n1\tI\tJ\t-\tneutral\n",
        "test_matched.tsv": "index\tpromptID\tsentence1\tsentence2\n0\t31493\tK\tL\n1\t92164\t-\tN\n",
        "test_mismatched.tsv": "index\tpromptID\tsentence1\tsentence2\n0\t1\tO\tP\n"},
        {"train": [Pair('One "way.', "Two", 1), Pair("C", "D", 2)], "dev_matched": [Pair("E", "F", 0)],
         "dev_mismatched": [Pair("I", "J", 1)], "test_matched": [Pair("K", "L"), Pair("-", "N")],
         "test_mismatched": [Pair("O", "P")]}),
    "qnli": (Task("qnli", ("entailment", "not_entailment"), ("accuracy",)), {
        "train.tsv": 'index\tquestion\tsentence\tlabel\n0\tWhen?\tThen "so.\tnot_entailment\n',
        "dev.tsv": "index\tquestion\tsentence\tlabel\n0\tC?\tD\tentailment\n",
        "test.tsv": "index\tquestion\tsentence\n0\tE?\tF\n"},
        {"train": [Pair("When?", 'Then "so.', 1)], "dev": [Pair("C?", "D", 0)], "test": [Pair("E?", "F")]}),
    "snli": (Task("snli", NLI, ("accuracy",)), {
        "snli_1.0_train.jsonl": "¶" + snli("neutral", 'A "b"\t\u2028.', "na\u00efve ") + snli("-", "X", "Y")
                                + "\n" + snli("contradiction", "C", "D"),
        "snli_1.0_dev.jsonl": snli("entailment", "E", "F") + snli("-", "X", "Y"),
        "snli_1.0_test.jsonl": snli("neutral", "G", "H")},
        {"train": [Pair('A "b"\t\u2028.', "na\u00efve", 1), Pair("C", "D", 2)], "dev": [Pair("E", "F", 0)],
         "test": [Pair("G", "H", 1)]}),
    "sick": (Task("sick", ("NEUTRAL", "ENTAILMENT", "CONTRADICTION"), ("accuracy",)), {
        "SICK.txt": SICK + sick(1, "NEUTRAL", "TRAIN") + sick(2, "ENTAILMENT", "TEST") + sick(3, "ENTAILMENT", "TRIAL")
                    + sick(4, "CONTRADICTION", "TRAIN")},
        {"train": [Pair("A1 is.", "B1 is.", 0), Pair("A4 is.", "B4 is.", 2)], "dev": [Pair("A3 is.", "B3 is.", 1)],
         "test": [Pair("A2 is.", "B2 is.", 1)]}),
    "scitail": (Task("scitail", ("neutral", "entails"), ("accuracy",)), {
        "scitail_1.0_train.tsv": '"A" and "b.\tC is.\tneutral\nD\tE\tentails\n',
        "scitail_1.0_dev.tsv": "F\tG\tentails\n", "scitail_1.0_test.tsv": "H\t\"I\tneutral\n"},
        {"train": [Pair('"A" and "b.', "C is.", 0), Pair("D", "E", 1)], "dev": [Pair("F", "G", 1)],
         "test": [Pair("H", '"I', 0)]}),
    "twitterurl": (Task("twitterurl", ("0", "1"), ("f1", "accuracy")), {
        "Twitter_URL_Corpus_train.txt": '\nWhy "so \tMT so .\t(4, 6)\thttps://t.co/a\n\n' +
                                        "".join(f"A{i} \tB{i} \t(2,6)\thttps://t.co/b\n" for i in range(39)),
        "Twitter_URL_Corpus_test.txt": "".join(f"C{n} \tD{n} \t({n},6)\thttps://t.co/b\n\n" for n in range(7))},
        {"test": [Pair(f"C{n}", f"D{n}", int(n > 3)) for n in (0, 1, 2, 4, 5, 6)]}),
}


def publish(folder, task, end="\n", changed=()):
    """Writes the rows of PUBLISHED, some files changed. -> the task's folder"""
    (folder / task).mkdir(parents=True, exist_ok=True)
    for name, text in (PUBLISHED[task][1] | dict(changed)).items():
        (folder / task / name).write_bytes(text.replace("¶", "\ufeff").replace("\n", end).encode())
    return folder / task


def offline(*args):
    raise AssertionError(f"downloads {args}")


@pytest.mark.parametrize("task", PUBLISHED)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_as_published(tmp_path, task, end):
    """Quotes in unquoted tables, - as a label, blank lines, tests without labels; nothing is written or fetched."""
    folder = publish(tmp_path, task, end)
    before = {path.name: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]}
    found, splits = load_task(task, tmp_path, offline)
    assert found == PUBLISHED[task][0]
    for split, pairs in PUBLISHED[task][2].items():
        assert splits[split] == pairs, split
    assert set(splits) == (set(PUBLISHED[task][2]) if task != "twitterurl" else {"train", "dev", "test"})
    assert all(type(p.label) is float for p in splits["train"]) == found.regression
    assert {path.name: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]} == before


def test_every_source_has_published_rows():
    assert set(PUBLISHED) | {"mrpc"} == set(tasks.SOURCES)
    for source in tasks.SOURCES.values():
        assert set(source.unlabelled) <= set(source.splits) and bool(source.files) != bool(source.on_request)
        assert set(source.metrics) <= set(METRICS) and len(source.columns) == 3


def test_a_byte_order_mark_is_no_text(tmp_path):
    for task in ("rte", "stsb", "scitail"):
        name, text = next(iter(PUBLISHED[task][1].items()))
        publish(tmp_path, task, changed={name: "¶" + text})
        assert load_task(task, tmp_path)[1]["train"] == PUBLISHED[task][2]["train"]
    publish(tmp_path, "scitail", changed={"scitail_1.0_dev.tsv": "¶A\tB\tentails\n¶C\tD\tentails\n"})
    assert [pair.a for pair in load_task("scitail", tmp_path)[1]["dev"]] == ["A", "\ufeffC"]         # the first alone


@quick
@given(st.lists(st.integers(0, 6), min_size=2, max_size=90), st.booleans())
@example([0, 6], True)
@example([3, 3, 1, 3, 5], False)
def test_twitter_dev_is_a_share_of_train(tmp_path_factory, votes, spaced):
    """Both parts in file order, none lost, none twice; n = 3 is in neither; a fixed seed."""
    kept = [Pair(f"A{i}", f"B{i}", int(n > 3)) for i, n in enumerate(votes) if n != 3]
    text = "".join(f"A{i}\tB{i}\t({n},{' ' * spaced}6)\thttps://t.co/a\n\n" for i, n in enumerate(votes))
    folder = tmp_path_factory.getbasetemp()
    publish(folder, "twitterurl", changed={"Twitter_URL_Corpus_train.txt": text})
    if len(kept) < 2:
        with pytest.raises(ValueError, match=r"train.txt: no pairs for train; it is cut off"):
            load_task("twitterurl", folder)
        return
    splits = load_task("twitterurl", folder)[1]
    assert sorted(splits["train"] + splits["dev"], key=kept.index) == kept
    assert len(splits["dev"]) == math.ceil(len(kept) / 20)
    for split in ("train", "dev"):
        assert [kept.index(pair) for pair in splits[split]] == sorted(kept.index(pair) for pair in splits[split])
    random.seed(len(votes))                          # somebody else's dice
    assert load_task("twitterurl", folder)[1] == splits


def test_twitter_dev_is_the_same_everywhere(tmp_path):
    """Pinned: another interpreter or hash seed draws the same dev split, spread over the file."""
    text = "".join(f"A{i}\tB{i}\t(6,6)\tu\n" for i in range(100))
    publish(tmp_path, "twitterurl", changed={"Twitter_URL_Corpus_train.txt": text})
    assert [pair.a for pair in load_task("twitterurl", tmp_path)[1]["dev"]] == ["A4", "A11", "A44", "A62", "A85"]


def test_twitter_is_had_on_request(tmp_path):
    for download in (None, offline):
        with pytest.raises(FileNotFoundError) as error:
            load_task("twitterurl", tmp_path, download)
        for part in ("--task twitterurl", str(tmp_path / "twitterurl"), "Twitter_URL_Corpus_train.txt",
                     "Twitter_URL_Corpus_test.txt", "authors give them out on request (https://", "put them there",
                     "--task toy"):
            assert part in str(error.value)
        assert "\n" not in str(error.value) and not any(tmp_path.iterdir())


RTE = "index\tsentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize("task, name, text, message", [
    ("rte", "train.tsv", RTE + "0\tA\tB\tyes\n", r"train.tsv:2: unknown label 'yes'; expected one of not_entailment, ent"),
    ("rte", "dev.tsv", RTE + "0\tA\tB\n", r"dev.tsv:2: expected 4 fields parted by tabs, like line 1, found 3"),
    ("rte", "dev.tsv", "index\tsentence1\tsentence2\n0\tA\tB\n", r"dev.tsv:1: the header must name each of .*label once"),
    ("rte", "test.tsv", "index\tsentence1\n0\tA\n", r"test.tsv:1: the header must name each of sentence1, sentence2 once"),
    ("rte", "test.tsv", "index\tsentence1\tsentence2\n", r"test.tsv has a header and no pairs"),
    ("mnli", "dev_matched.tsv", "sentence1\tsentence2\tgold_label\nA\tB\t-\n", r"dev_matched.tsv: no pairs for dev_matched"),
    ("mnli", "train.tsv", "sentence1\tsentence2\tgold_label\nA\tB\tmaybe\n",
     r"train.tsv:2: unknown label 'maybe'; expected one of -, entailment, neutral, contradiction"),
    ("stsb", "stsb-en-dev.csv", "A,B,3.2\n\nA,B\n", r"dev.csv:3: expected 3 fields parted by commas, like line 1, found 2"),
    ("stsb", "stsb-en-dev.csv", "A\tB\t3.2\n", r"dev.csv:1: expected 3 fields or more parted by commas, found 1"),
    ("stsb", "stsb-en-dev.csv", "A,B\n", r"dev.csv:1: expected 3 fields or more parted by commas, found 2"),
    ("stsb", "stsb-en-dev.csv", "sentence1,sentence2,score\n", r"dev.csv:1: label 'score' is not a finite number"),
    ("stsb", "stsb-en-dev.csv", "A,B,nan\n", r"dev.csv:1: label 'nan' is not a finite number"),
    ("stsb", "stsb-en-test.csv", "", r"test.csv is empty; expected rows of 3 fields or more"),
    ("scitail", "scitail_1.0_dev.tsv", "A\tB\tentails\nA\tB\tentails\tx\n", r"dev.tsv:2: expected 3 fields .*found 4"),
    ("twitterurl", "Twitter_URL_Corpus_test.txt", "\nA\tB\t(7, 6)\tu\n",
     r"test.txt:2: unknown label '\(7, 6\)'; expected one of \(0,6\), \(0, 6\), \(1,6\)"),
    ("twitterurl", "Twitter_URL_Corpus_test.txt", "A\tB\t(3,6)\tu\n", r"test.txt: no pairs for test; .*get it again"),
    ("sick", "SICK.txt", SICK + sick(1, "NEUTRAL", "DEV"),
     r"SICK.txt:2, SemEval_set: unknown label 'DEV'; expected one of TRAIN, TRIAL, TEST"),
    ("sick", "SICK.txt", SICK + sick(1, "neutral", "TRAIN"), r"SICK.txt:2: unknown label 'neutral'; expected one of NEUTRAL"),
    ("sick", "SICK.txt", SICK + sick(1, "NEUTRAL", "TRAIN"), r"SICK.txt: no pairs for dev; it is cut off"),
    ("snli", "snli_1.0_dev.jsonl", snli("neutral", "A", "B") + '{"gold_label": "neut',
     r"dev.jsonl:2: not valid JSON \(Unterminated string.*; expected one object on each line; get the file again"),
    ("snli", "snli_1.0_dev.jsonl", "\n" + '["neutral"]\n',
     r"dev.jsonl:2: expected an object with the texts sentence1, sentence2, gold_label, found \[.neutral.\]; get"),
    ("snli", "snli_1.0_dev.jsonl", '{"sentence1": "A", "sentence2": null, "gold_label": "neutral"}\n',
     r"dev.jsonl:1: expected an object with the texts .*found \{.sentence1.: .A., .sentence2.: null"),
    ("snli", "snli_1.0_dev.jsonl", '{"sentence1": "A", "gold_label": "neutral"}\n', r"dev.jsonl:1: expected an object"),
    ("snli", "snli_1.0_dev.jsonl", "[" * 100000, r"dev.jsonl:1: not valid JSON"),
    ("snli", "snli_1.0_test.jsonl", "\n", r"test.jsonl: no pairs for test"),
    ("snli", "snli_1.0_test.jsonl", "{}\n\0", r"test.jsonl:1: expected an object|test.jsonl:2: a NUL byte"),
])
def test_malformed_published_files_name_file_and_line(tmp_path, task, name, text, message):
    folder = publish(tmp_path, task, changed={name: text})
    with pytest.raises(ValueError, match=message) as error:
        load_task(task, tmp_path)
    assert "\n" not in str(error.value) and str(folder / name) in str(error.value)


# ---- zips

ZIPPED = [name for name, source in tasks.SOURCES.items() if source.files and source.files[0].name.endswith(".zip")]


def zipped(members, compression=zipfile.ZIP_DEFLATED):
    """Bytes of a zip with these members, path -> text."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text, compression)
    return out.getvalue()


def as_zip(task, inside="RTE/", more=()):
    return zipped({inside + name: text.replace("¶", "\ufeff") for name, text in PUBLISHED[task][1].items()}
                  | dict(more))


def delivers(content, calls):
    def download(url, path, size, sha256):
        calls.append((url, Path(path).name, size, len(sha256)))
        Path(path).write_bytes(content)
    return download


def everything(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("task", ZIPPED)
def test_zips_are_unpacked(tmp_path, task):
    """What is needed and nothing else, whatever folder of the zip it lies in; the downloaded zip is removed; the
    second time nothing is fetched."""
    noise = {"X/README.txt": "x", "__MACOSX/X/._train.tsv": "\0", "X/original/": "", "X/original/raw.jsonl": "{}"}
    calls = []
    task_, splits = load_task(task, tmp_path, delivers(as_zip(task, "X/y/", noise), calls))
    assert len(calls) == 1 and calls[0][:2] == (tasks.SOURCES[task].files[0].url, tasks.SOURCES[task].files[0].name)
    assert calls[0][2] > 100000 and calls[0][3] == 64
    assert sorted(everything(tmp_path)) == sorted(f"{task}/{name}" for name in PUBLISHED[task][1])
    assert (task_, splits) == load_task(task, tmp_path, offline)
    assert (task_, splits) == (PUBLISHED[task][0], PUBLISHED[task][2])


def test_a_zip_put_there_by_hand_is_used_and_stays(tmp_path):
    (tmp_path / "rte").mkdir()
    put(tmp_path / "rte", "RTE.zip", as_zip("rte"))
    dev = put(tmp_path / "rte", "dev.tsv", RTE + "0\tmine\tmine\tentailment\n").read_bytes()
    assert load_task("rte", tmp_path)[1]["dev"] == [Pair("mine", "mine", 1)]         # what is there is not replaced
    assert sorted(everything(tmp_path / "rte")) == ["RTE.zip", "dev.tsv", "test.tsv", "train.tsv"]
    assert everything(tmp_path / "rte")["dev.tsv"] == dev


def test_a_missing_zip_is_named(tmp_path):
    publish(tmp_path, "rte")
    (tmp_path / "rte" / "test.tsv").unlink()
    with pytest.raises(FileNotFoundError, match=r"rte lacks test.tsv; put https://\S+/RTE.zip there, or use --task toy"):
        load_task("rte", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"sick lacks SICK.txt; put https://\S+/SICK.zip\?download=1 there"):
        load_task("sick", tmp_path)
    assert tasks.SOURCES["sick"].files[0].name == "SICK.zip"


@pytest.mark.parametrize("member", ["../train.tsv", "../../rte/../train.tsv", "/tmp/train.tsv", "..\\train.tsv"])
def test_no_member_lands_outside(tmp_path, member):
    """Paths in a zip are not followed, not even those of members that are read."""
    folder = tmp_path / "a" / "data"
    folder.mkdir(parents=True)
    files = dict(PUBLISHED["rte"][1])
    content = zipped({member: files.pop("train.tsv"), "../../evil.tsv": "x", "/etc/evil.tsv": "x"} |
                     {f"RTE/{name}": text for name, text in files.items()})
    if "\\" in member:                               # one name on Linux, a path on Windows
        with pytest.raises(ValueError, match="cannot unpack train.tsv"):
            load_task("rte", folder, delivers(content, []))
    else:
        assert load_task("rte", folder, delivers(content, []))[1] == PUBLISHED["rte"][2]
    assert all(re.fullmatch(r"a/data/rte/(RTE.zip|\w+\.tsv)", path) for path in everything(tmp_path))
    assert not any("evil" in path for path in everything(tmp_path))


def test_bad_zips(tmp_path):
    good = as_zip("rte")
    stored = zipped({f"RTE/{name}": text for name, text in PUBLISHED["rte"][1].items()}, zipfile.ZIP_STORED)
    without = zipped({"RTE/train.tsv": "x", "RTE/dev.tsv": "y", "RTE/test.tsv.bak": "z"})
    encrypted = bytearray(stored)
    for at in (stored.index(b"PK\3\4") + 6, stored.index(b"PK\1\2") + 8):
        encrypted[at] |= 1
    for content, problem in (
            (b"<html>not found</html>", r"cannot unpack train.tsv \(File is not a zip"), (b"", "train.tsv"),
            (good[:-30], "cannot unpack train.tsv"), (stored.replace(b'"no.', b'"yes'), r"train.tsv \(Bad CRC-32"),
            (bytes(encrypted), "train.tsv .*encrypted"), (without, r"cannot unpack test.tsv \(0 members have that name\)"),
            (as_zip("rte", more={"b/dev.tsv": "x"}), r"cannot unpack dev.tsv \(2 members have that name\)")):
        folder = tmp_path / hashlib.md5(content).hexdigest()
        with pytest.raises(ValueError, match=problem) as error:
            load_task("rte", folder, delivers(content, []))
        for part in (str(folder / "rte" / "RTE.zip"), "expected a sound zip", "remove the zip"):
            assert part in str(error.value)
        assert "\n" not in str(error.value)
        whole = {"cannot unpack dev.tsv": ["train.tsv"], "cannot unpack test.tsv": ["dev.tsv", "train.tsv"]}
        assert sorted(everything(folder / "rte")) == ["RTE.zip", *whole.get(problem.partition(r" \(")[0], [])]


SMALL_ZIP = as_zip("rte")


@quick
@given(st.data())
def test_damaged_zips_give_whole_tables_or_none(tmp_path_factory, data):
    """Bytes exchanged, or the end cut off: each table is right or not there, and the error is one line."""
    content = bytearray(SMALL_ZIP)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=4)):
        content[at] = byte
    content = bytes(content[:data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    folder = tmp_path_factory.mktemp("zip")
    try:
        assert load_task("rte", folder, delivers(content, []))[1] == PUBLISHED["rte"][2]
    except ValueError as error:
        assert "RTE.zip: cannot unpack" in str(error) and "\n" not in str(error)
    for name, found in everything(folder / "rte").items():
        assert name == "RTE.zip" or found == PUBLISHED["rte"][1][name].encode()


# ---- the real files

def real(task, marker):
    return pytest.mark.skipif(not (REAL / task / marker).exists(), reason=f"no real {task} in {REAL}")


def counts(splits):
    return {name: len(pairs) for name, pairs in splits.items()}


@real("mrpc", "msr_paraphrase_train.txt")
def test_real_mrpc_has_its_counts():
    task, splits = load_task("mrpc", REAL, offline)
    assert counts(splits) == {"train": 3668, "dev": 408, "test": 1725}
    # GLUE's majority class: 68.4 % of dev and 66.5 % of test are paraphrases
    assert [round(100 * np.mean([p.label for p in splits[s]]), 1) for s in ("dev", "test")] == [68.4, 66.5]
    assert all(p.a and p.b and "\t" not in p.a + p.b for pairs in splits.values() for p in pairs)


@real("rte", "train.tsv")
def test_real_rte_has_its_counts():
    task, splits = load_task("rte", REAL, offline)
    assert counts(splits) == {"train": 2490, "dev": 277, "test": 3000}
    assert {p.label for p in splits["test"]} == {None}
    assert sum(p.label for p in splits["dev"]) == 146                    # entailment: GLUE's majority class, 52.7 %
    assert all(p.a and p.b and "\t" not in p.a + p.b for pairs in splits.values() for p in pairs)
    lines = (REAL / "rte" / "test.tsv").read_text("utf-8").split("\n")[1:-1]
    for place, (line, pair) in enumerate(zip(lines, splits["test"], strict=True)):   # `index` is the place in the file
        assert line.split("\t") == [str(place), pair.a, pair.b]


@real("stsb", "stsb-en-train.csv")
def test_real_stsb_has_its_counts():
    task, splits = load_task("stsb", REAL, offline)
    assert counts(splits) == {"train": 5749, "dev": 1500, "test": 1379} and task.regression
    assert all(0 <= p.label <= 5 and p.a and p.b for pairs in splits.values() for p in pairs)
    assert splits["train"][0] == Pair("A plane is taking off.", "An air plane is taking off.", 5.0)
    for file in tasks.SOURCES["stsb"].files:
        content = (REAL / "stsb" / file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)


@pytest.mark.skipif(not SHEET.exists(), reason=f"no {SHEET}")
def test_sizes_and_sums_are_those_of_the_data_sheet():
    """Sizes, sums, names, metrics and labels of every row, against the table they were copied from."""
    lines = SHEET.read_text("utf-8").splitlines()
    table = {cells[0].strip(): cells for cells in (line.strip("|").split("|") for line in lines) if len(cells) == 6}
    for name, source in tasks.SOURCES.items():
        row = table[name]
        for file in source.files:
            assert f"{file.size:,}" in row[5] and (file.sha256 in row[5] or name == "stsb"), file
            assert file.name in row[5] or "{train" in row[5], file
        assert source.metrics == tuple(row[4].lower().removesuffix("m / mm ").strip().split(", ")), name
        if name not in ("snli", "stsb"):             # "three" there
            assert source.labels == tuple(row[3].strip().split(", ")), name


# ------------------------------------------------------------------------------------------ the user's files

def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_tsv_is_read_without_quoting_in_any_column_order(tmp_path):
    path = put(tmp_path, "a.tsv", '\ufefflabel\tid\tsentence2\tsentence1\r\nyes\t7\tHe said "no.\t"Yes," he\r\n'
                                  '\r\n   \r\nno\t8\t\tnaïve\x85\u2028 test \r\n')
    assert read_pairs(path, ("no", "yes")) == [
        Pair('"Yes," he', 'He said "no.', 1), Pair("naïve\x85\u2028 test", "", 0)]
    assert [pair.label for pair in read_pairs(path)] == ["yes", "no"]


field = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)


@quick
@given(st.lists(st.tuples(field, field), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_csv_round_trip(tmp_path_factory, rows, end):
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(["sentence1", "label", "sentence2"])
    writer.writerows([a, "1", b] for a, b in rows)
    path = put(tmp_path_factory.getbasetemp(), "round.csv", out.getvalue())
    assert read_pairs(path, ("0", "1")) == [Pair(a.strip(), b.strip(), 1) for a, b in rows]


@quick
@given(st.lists(st.tuples(field, field), min_size=1, max_size=4))
def test_tsv_round_trip(tmp_path_factory, rows):
    rows = [[re.sub(r"[\t\n\r]", " ", text) for text in row] for row in rows]
    text = "sentence1\tsentence2\tlabel\n" + "".join(f"{a}\t{b}\t0.5\n" for a, b in rows)
    path = put(tmp_path_factory.getbasetemp(), "round.tsv", text)
    assert read_pairs(path, ()) == [Pair(a.strip(), b.strip(), 0.5) for a, b in rows]


GOOD = "sentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize("name, content, message", [
    ("a.tsv", "", r"a.tsv is empty; expected a header line with the columns sentence1, sentence2, label"),
    ("a.tsv", "\ufeff\n \n", r"a.tsv is empty"),
    ("a.tsv", GOOD, r"a.tsv has a header and no pairs"),
    ("a.tsv", "\ntext1\ttext2\tlabel\na\tb\t1\n",
     r"a.tsv:2: .*sentence1, sentence2, label once \(parted by tabs\), found text1, text2, label"),
    ("a.tsv", "sentence1,sentence2,label\na,b,1\n", r"a.tsv:1: .*by tabs\), found sentence1,sentence2,label"),
    ("a.csv", GOOD + "a\tb\t1\n", r"a.csv:1: .*parted by commas"),
    ("a.tsv", "sentence1\tsentence2\tlabel\tlabel\na\tb\t1\t0\n", r"a.tsv:1: .*each of .* once"),
    ("a.tsv", GOOD + "a\tb\t1\n\na\tb\n", r"a.tsv:4: expected 3 fields parted by tabs, .*found 2"),
    ("a.tsv", GOOD + "a\tb\tc\t1\n", r"a.tsv:2: expected 3 fields .*found 4"),
    ("a.csv", "sentence1,sentence2,label\n\"x\ny\",b,1\n\na,b\n", r"a.csv:5: expected 3 .*by commas.*found 2"),
    ("a.csv", "sentence1,sentence2,label\na,b,1\na,\"b,1\n", r"a.csv:3: not valid csv"),
    ("a.csv", "sentence1,sentence2,label\na,\"b\"c,1\n", r"a.csv:2: not valid csv"),
    ("a.tsv", GOOD + "a\tb\t1\na\tb\tmaybe\n", r"a.tsv:3: unknown label 'maybe'; expected one of 0, 1"),
    ("a.tsv", GOOD + "a\tb\t\n", r"a.tsv:2: unknown label ''"),
    ("a.tsv", GOOD.encode() + "a\tb\t1\nna\u00efve\tb\t1\n".encode("latin-1"),
     r"a.tsv:3: byte 0xef is not UTF-8 .*UTF-8"),
    ("a.tsv", (GOOD + "a\tb\t1\n").encode("utf-16"), r"a.tsv:1: a NUL byte; .*UTF-16.*save it as UTF-8"),
    ("a.tsv", GOOD + "a\tb\t1\na\0\tb\t1\n", r"a.tsv:3: a NUL byte"),
    ("a.json", "{}", r"a.json: expected a name ending in .csv .*found .json"),
])
def test_malformed_files_name_file_and_line(tmp_path, name, content, message):
    path = put(tmp_path, name, content)
    with pytest.raises(ValueError, match=message) as error:
        read_pairs(path, ("0", "1"))
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "none.tsv", tmp_path / "folder.tsv"):
        (tmp_path / "folder.tsv").mkdir(exist_ok=True)
        with pytest.raises(ValueError, match=f"cannot read .*{path.name}: (No such file|Is a directory)"):
            read_pairs(path, ())


def test_prediction_files_need_no_labels(tmp_path):
    bare = put(tmp_path, "a.csv", "sentence2,sentence1\nb,a\n")
    assert read_pairs(bare, ("0", "1"), need_label=False) == [Pair("a", "b", None)]
    with pytest.raises(ValueError, match="sentence1, sentence2, label"):
        read_pairs(bare, ("0", "1"))
    some = put(tmp_path, "b.tsv", GOOD + "a\tb\t1\na\tb\t\n")
    assert [pair.label for pair in read_pairs(some, ("0", "1"), need_label=False)] == [1, None]
    with pytest.raises(ValueError, match="b.tsv:2: unknown label '1'"):
        read_pairs(some, ("no", "yes"), need_label=False)


def own(folder, labels, dev=None):
    rows = lambda values: GOOD + "".join(f"a\tb\t{value}\n" for value in values)
    train, dev = put(folder, "train.tsv", rows(labels)), put(folder, "dev.tsv", rows(dev or labels))
    return own_task(train, dev)


@pytest.mark.parametrize("labels, names", [
    (["yes", "no", "no"], ("no", "yes")),
    (["10", "9", "-1"], ("-1", "9", "10")),                              # by value, not "10" < "9"
    (["1.0", "0.0"], ("0.0", "1.0")),
    (["1", "0", "none"], ("0", "1", "none")),
    ([str(i) for i in range(10)], tuple(str(i) for i in range(10))),
    ([str(i) for i in range(11)], ()),
    (["0", "0.5"], ()),
    (["1e0", "2.5"], ()),
    (["nan", "1"], ("1", "nan")),
])
def test_own_labels(tmp_path, labels, names):
    task, splits = own(tmp_path, labels)
    assert task.labels == names and task.regression == (not names)
    assert [p.label for p in splits["train"]] == [names.index(x) if names else float(x) for x in labels]
    assert task.metrics == {0: ("pearson", "spearman"), 2: ("accuracy", "f1")}.get(len(names), ("accuracy",))
    assert set(splits) == {"train", "dev"}


def test_own_labels_that_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="train.tsv:3: the label is empty"):
        own(tmp_path, ["0", ""])
    with pytest.raises(ValueError, match="dev.tsv:3: label 'x' is not a finite number"):
        own(tmp_path, ["0", "0.5"], ["0", "x"])
    with pytest.raises(ValueError, match="train.tsv: every label is '1'"):
        own(tmp_path, ["1", "1"])
    with pytest.raises(ValueError, match="dev.tsv:3: unknown label '2'; expected one of 0, 1"):
        own(tmp_path, ["0", "1"], ["0", "2"])
    for bad in ("1e999", "inf", "1_0"):
        with pytest.raises(ValueError, match=f"dev.tsv:2: label '{bad}' is not a finite number"):
            own(tmp_path, ["0.5", "1.5"], [bad])
    test_file = put(tmp_path, "test.csv", "label,sentence1,sentence2\n1,\"a, b\",c\n")
    task, splits = own_task(tmp_path / "train.tsv", tmp_path / "train.tsv", test_file)
    assert splits["test"] == [Pair("a, b", "c", 1.0)]


# ------------------------------------------------------------------------------------------ the toy world

GROUPS = ["roles", "voice", "prepositions", "numbers", "synonyms", "antonyms", "modifiers"]


@pytest.fixture(scope="module")
def toy():
    return toy_task()


def words(text):
    return re.findall(r"[\w-]+", text.lower())


def squares(pairs):
    """The pairs of each square: those that share sentences, directly or over another pair."""
    of, members = {}, defaultdict(list)
    for pair in pairs:
        first, second = of.setdefault(pair.a, {pair.a}), of.setdefault(pair.b, {pair.b})
        first |= second
        of.update((text, first) for text in first)
    for pair in pairs:
        members[id(of[pair.a])].append(pair)
    return list(members.values())


def test_toy_sizes_and_labels(toy):
    task, splits = toy
    assert task == Task("toy", ("different", "same"), ("accuracy",), "dev", 4)
    assert load_task("toy", "nowhere") == toy
    assert list(splits) == ["train", "dev", "dev_unseen", "test", "test_unseen"]
    for name, pairs in splits.items():
        assert len(pairs) == (5600 if name == "train" else 840)
        for i in range(0, len(pairs), task.block):       # a square stands in a row: two texts a, two texts b, each twice
            row = Counter(text for pair in pairs[i:i + task.block] for text in (pair.a, pair.b))
            assert len(row) == 4 and set(row.values()) == {2}
        each = {(g, y): len(pairs) // 14 for g in GROUPS for y in (0, 1)}
        assert Counter((p.group, p.label) for p in pairs) == each
        start = Counter((p.group, p.label) for p in pairs[:280])                      # what --limit would see
        assert all(8 <= start[g, y] <= 33 for g in GROUPS for y in (0, 1))


def test_toy_sentences_stand_once_in_the_world(toy):
    """Each sentence is in one square; there it is in two pairs, one of each label, always on the same side."""
    everywhere = Counter()
    for pairs in toy[1].values():
        uses = defaultdict(list)
        for pair in pairs:
            uses[pair.a].append((0, pair.label))
            uses[pair.b].append((1, pair.label))
        for sides in uses.values():
            assert sorted(sides) in ([(0, 0), (0, 1)], [(1, 0), (1, 1)])
        everywhere.update(list(uses))
        assert all(len(square) == 4 and len({p.group for p in square}) == 1 for square in squares(pairs))
    assert set(everywhere.values()) == {1}


def test_toy_is_the_same_in_another_process(toy):
    code = "import tasks; print(tasks.toy_task()[1]['dev'][:50])"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "5"},
                         capture_output=True, text=True, check=True)
    assert run.stdout.strip() == repr(toy[1]["dev"][:50])
    assert toy_task(seed=1, train=4, held_out=4) != toy_task(seed=2, train=4, held_out=4)


@pytest.mark.parametrize("sizes", [{"train": 0}, {"train": 6}, {"held_out": -4}])
def test_toy_refuses_sizes(sizes):
    with pytest.raises(ValueError, match="multiple of 4"):
        toy_task(**sizes)


def test_toy_says_when_it_has_no_more(monkeypatch):
    frame = ("mood", "the {x} cat saw a {y} dog", "a {y} dog saw the {x} cat")
    monkeypatch.setattr(tasks, "FRAMES", {"roles": [frame]})
    assert len(toy_task(train=4, held_out=4)[1]["test"]) == 4
    with pytest.raises(ValueError, match="no 100 squares of roles left for train; ask for fewer"):
        toy_task(train=400)


# Words that both sides of the vocabulary may use: none is a noun, a name, a verb with content, or an adjective.
SHARED = set("""a an the in near of to from by with without but for and on at instead before after behind above
    below over under front than very who this last will be been was were has have only even
    yesterday""".split())
SMALL = {word: n for n, word in enumerate("""zero one two three four five six seven eight nine ten eleven twelve
    thirteen fourteen fifteen sixteen seventeen eighteen nineteen""".split())}
SMALL |= {w: 10 * n for n, w in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
BASE = {form: verb.base for table in tasks.VERBS for verb in sum(tasks.WORDS[table], ()) for form in verb}


def is_number(word):
    return word.isdigit() or set(word.split("-")) <= set(SMALL)


def number(text):
    """12, twelve, forty-two -> 12, 12, 42."""
    return int(text) if text.isdigit() else sum(SMALL[part] for part in text.split("-"))


def test_toy_unseen_words_are_unseen(toy):
    used = {name: {w for p in pairs for w in words(p.a) + words(p.b)} for name, pairs in toy[1].items()}
    for name in ("dev_unseen", "test_unseen"):
        both = used["train"] & used[name]
        assert both - SHARED == set()
        assert set(filter(is_number, both)) == set()                                # 42, forty-two
        assert len(used[name] - used["train"]) > 150
    for name in ("dev", "test"):
        known = {BASE.get(word, word) for word in used["train"]}                        # or another form of it
        assert {BASE.get(word, word) for word in used[name] if not is_number(word)} <= known
        numbers = {number(word) for word in used["train"] if is_number(word)}
        assert {number(word) for word in used[name] if is_number(word)} <= numbers
    assert len(used["train"]) > 250


def test_toy_vocabulary_has_no_entry_on_both_sides():
    for table, (seen, unseen) in tasks.WORDS.items():
        assert seen and unseen and len(set(seen)) == len(seen) and len(set(unseen)) == len(unseen), table
        if table not in ("focus", "opposite side"):
            flat = [{w for entry in side for w in ([entry] if isinstance(entry, (str, int)) else entry)}
                    for side in (seen, unseen)]
            assert flat[0] & flat[1] <= {"from", "to"}, table


def test_toy_grammar(toy):
    for pairs in toy[1].values():
        for text in {text for p in pairs for text in (p.a, p.b)}:
            assert 5 <= len(text.split()) <= 14, text
            assert re.fullmatch(r"[A-Z0-9][^.]*[a-z]\.", text) and "  " not in text and " ," not in text, text
            assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|\bthe [A-Z]|[{}_/]", text), text
            assert not re.search(r"\b(\w+) \1\b", text), text
            plural_subject = re.match(r"(?:\w+ \w+, )?[Tt]he (?:\w+ )?\w+s (was|has)\b", text)
            assert not plural_subject, text


def test_toy_verb_forms():
    """Regular past forms are base + ed or d: true for no verb that doubles its last letter or ends in y after a
    consonant; those, and the irregular ones, must list their forms."""
    irregular = {"see": "saw seen", "hear": "heard heard", "beat": "beat beaten", "forgive": "forgave forgiven",
                 "teach": "taught taught", "envy": "envied envied", "shake": "shook shaken", "lead": "led led",
                 "bite": "bit bitten", "give": "gave given", "send": "sent sent", "show": "showed shown",
                 "sell": "sold sold", "throw": "threw thrown", "bring": "brought brought",
                 "buy": "bought bought",
                 "find": "found found", "steal": "stole stolen", "choose": "chose chosen", "win": "won won",
                 "lose": "lost lost", "carry": "carried carried", "hide": "hid hidden", "draw": "drew drawn",
                 "wrap": "wrapped wrapped"}
    for table in tasks.VERBS:
        for verb in sum(tasks.WORDS[table], ()):
            if verb.base in irregular:
                assert f"{verb.past} {verb.participle}" == irregular[verb.base]
                continue
            assert not re.search(r"[^aeiou]y$|^[^aeiou]*[aeiou][bdgmnprt]$", verb.base), verb
            assert verb.past == verb.participle == re.sub(r"e$", "", verb.base) + "ed"


PLACE = r"(?:in|near) the \w+|on \w+|in \w+|last \w+|this morning|yesterday"


def meaning(text, group):
    """What a sentence says, by patterns that know nothing of the frames; None where they know no way."""
    text = re.sub(rf"^({PLACE}), ", "", text[:-1].lower())
    text = re.sub(rf" ({PLACE})$", "", text)
    verb = "|".join(BASE)
    if group == "numbers":
        prices = re.findall(r"the (\w+) (?:cost|weighed) (\S+)", text)
        counts = [(noun, amount) for amount, noun in COUNT.findall(text)]
        return sorted((noun, number(amount)) for noun, amount in prices or counts)
    if group == "voice":
        if m := re.fullmatch(rf"(.+) (?:was|were|\w+ be(?:en)?) ({verb}) (?:to (.+) )?by (.+)", text):
            return m[4], BASE[m[2]], m[1], m[3]
        if m := re.fullmatch(rf"(.+?) (?:will |has |have )?({verb}) (the \w+) to (.+)", text):
            return m[1], BASE[m[2]], m[3], m[4]
        m = re.fullmatch(rf"(.+?) (?:will |has |have )?({verb}) (.+)", text)
        return m[1], BASE[m[2]], m[3], None
    if group == "roles" and " who " not in text:
        if m := re.fullmatch(rf"(.+?) ({verb}) (.+) to (.+)", text):
            return m[1], m[2], m[3], m[4]
        if m := re.fullmatch(rf"(\w+|(?:an?|the) .+?) ({verb}) (\w+|(?:an?|the) .+?) ((?:an?|the) .+)", text):
            return m[1], m[2], m[4], m[3]
        m = re.fullmatch(rf"(.+?) ({verb}) (.+)", text)
        return m[1], m[2], m[3], None
    if group == "prepositions":
        city = r"([a-z]+(?: york| diego)?)"
        for one, two in ((rf"from {city}", rf"to {city}"),
                         (r"instead of ((?:an?|the) \w+(?: \w+)?)(?:,|$)", "(?!x)x"),
                         (r"with ((?:an?|the) .+?)(?= but|$)", r"without ((?:an?|the) .+?)(?= but|$)")):
            if found := re.search(one, text):
                return found[1], *re.findall(two, text)[:1]
    return None


COUNT = re.compile(rf"(?<![\w-])(\d+|(?:{'|'.join(SMALL)})(?:-\w+)?) ([a-z]+(?: [a-z]+)?)(?= and|$)")


@pytest.mark.parametrize("group, share", [("numbers", 1), ("voice", 1), ("roles", 0.4), ("prepositions", 0.5)])
def test_toy_labels_agree_with_a_second_reader(toy, group, share):
    for split in ("train", "dev_unseen"):
        pairs = [pair for pair in toy[1][split] if pair.group == group]
        read = [(meaning(p.a, group), meaning(p.b, group), p) for p in pairs]
        read = [(a, b, p) for a, b, p in read if a and b]
        assert len(read) >= share * len(pairs)
        for a, b, pair in read:
            assert (a == b) == pair.label, (pair, a, b)


def test_toy_synonym_labels_follow_the_lexicon(toy):
    """The words in which a and b differ are synonyms where the label is 1, and never where it is 0."""
    same = {frozenset(pair) for pair in tasks.LEXICON["synonym"]}
    opposite = {frozenset(pair) for pair in tasks.LEXICON["antonym"]}
    kinds = Counter()
    for pairs in toy[1].values():
        for pair in (pair for pair in pairs if pair.group == "synonyms"):
            replaced = frozenset(words(pair.a)) ^ frozenset(words(pair.b))
            assert len(replaced) == 2 and (replaced in same) == pair.label, pair
            kinds[pair.label, replaced in opposite] += 1
    assert kinds[1, True] == 0 and min(kinds[0, True], kinds[0, False]) > 0.2 * sum(kinds.values()) / 2


def test_lexicon():
    assert list(tasks.LEXICON) == ["synonym", "antonym", "hypernym", "cohyponym"]
    synonym, antonym, hypernym, cohyponym = (set(pairs) for pairs in tasks.LEXICON.values())
    assert {("bought", "purchased"), ("sofa", "couch"), ("bigger", "larger")} <= synonym
    assert {("older", "newer"), ("bought", "sold"), ("boss", "employee")} <= antonym
    assert {("big", "small"), ("large", "little"), ("large", "small")} <= antonym     # closed under synonymy
    assert {("nurse", "person"), ("guitar", "instrument"), ("red", "color")} <= hypernym
    assert ("chair", "table") in cohyponym and ("chair", "guitar") not in cohyponym
    for relation in (synonym, antonym, hypernym, cohyponym):
        assert all(x != y and (y, x) not in relation for x, y in relation)
    assert not {frozenset(p) for p in synonym} & {frozenset(p) for p in antonym | cohyponym}


# ---- nothing but the relation of a and b tells the label

def overlap(pair):
    a, b = set(words(pair.a)), set(words(pair.b))
    return len(a & b) / len(a | b)


def by_group(pairs):
    return {group: [pair for pair in pairs if pair.group == group] for group in GROUPS}


def test_toy_overlap_and_lengths_say_nothing(toy):
    """In every square, the pairs with label 1 have the overlaps and the lengths of the pairs with label 0."""
    for pairs in toy[1].values():
        for square in squares(pairs):
            for measure in (overlap, lambda p: abs(len(p.a.split()) - len(p.b.split())),
                            lambda p: (len(words(p.a)), len(words(p.b)))):
                one, zero = (sorted(measure(p) for p in square if p.label == y) for y in (1, 0))
                assert one == zero, square


def test_toy_overlap_threshold_is_at_chance(toy):
    """The best threshold on word overlap that training offers, for each phenomenon and either direction."""
    def table(pairs):
        return np.array([overlap(p) for p in pairs]), np.array([p.label == 1 for p in pairs])
    train = {group: table(pairs) for group, pairs in by_group(toy[1]["train"]).items()}
    for split in ("dev", "dev_unseen", "test", "test_unseen"):
        for group, pairs in by_group(toy[1][split]).items():
            value, label = train[group]
            cut, sign = max(((c, s) for c in set(value) for s in (1, -1)),
                            key=lambda rule: np.mean((rule[1] * value >= rule[1] * rule[0]) == label))
            value, label = table(pairs)
            assert abs(np.mean((sign * value >= sign * cut) == label) - 0.5) < 0.02


def logistic(rows, labels, steps=150, rate=0.5, decay=1e-4, seed=0):
    """Weights of a logistic classifier, by momentum from a random start."""
    rng = np.random.default_rng(seed)
    weight, speed = rng.normal(0, 0.1, rows.shape[1]), 0.0
    for _ in range(steps):
        p = 1 / (1 + np.exp(-rows @ weight))
        speed = 0.9 * speed - rate * (rows.T @ (p - labels) / len(labels) + decay * weight)
        weight = weight + speed
    return weight


def count_rows(pairs, index, what):
    rows = np.zeros((len(pairs), len(index) + 3))
    for i, pair in enumerate(pairs):
        for text, sign in ((pair.a, 1), (pair.b, -1)):
            if what == "a" and sign < 0 or what == "b" and sign > 0:
                continue
            for word in words(text):
                if word in index:
                    rows[i, index[word]] += sign
            rows[i, -1] += sign * len(text) / 30
            rows[i, -2] += sign * len(text.split()) / 10
        if what == "absolute":
            rows[i] = abs(rows[i])
        rows[i, -3] = 1
    return rows


def bag_of_words(splits, what):
    """Accuracy by split and phenomenon of one logistic classifier trained on all of train."""
    train = splits["train"]
    index = {word: i for i, word in enumerate(sorted({w for p in train for w in words(p.a) + words(p.b)}))}
    weight = logistic(count_rows(train, index, what), np.array([p.label for p in train]))

    def score(pairs):
        return np.mean((count_rows(pairs, index, what) @ weight > 0) == np.array([p.label == 1 for p in pairs]))
    return {split: {group: score(pairs) for group, pairs in by_group(splits[split]).items()}
            for split in ("dev", "dev_unseen")}


@pytest.mark.parametrize("what", ["difference", "a", "b"])
def test_toy_word_counts_are_at_chance(toy, what):
    """Counts of a minus counts of b, and of one sentence alone, with its lengths in words and letters."""
    for split, found in bag_of_words(toy[1], what).items():
        for group, score in found.items():
            assert abs(score - 0.5) <= (0.0 if what != "difference" else 0.06), (split, group, score)


def test_toy_changed_words_are_at_chance_where_they_are_unseen(toy):
    """Absolute differences of counts: which words changed. Where the words are known that says something (an
    assertion changed nothing, an adjective did); on unseen words it says nothing."""
    found = bag_of_words(toy[1], "absolute")
    for group, score in found["dev_unseen"].items():
        assert abs(score - 0.5) <= 0.06, (group, score)
    assert found["dev"]["modifiers"] > 0.6
    for group in set(GROUPS) - {"modifiers"}:
        assert abs(found["dev"][group] - 0.5) <= 0.06, (group, found["dev"][group])


def test_toy_has_no_pair_of_one_sentence(toy):
    assert all(pair.a != pair.b for pairs in toy[1].values() for pair in pairs)
    seen = Counter(frozenset((p.a, p.b)) for pairs in toy[1].values() for p in pairs)
    assert set(seen.values()) == {1}
