"""support/pairs.py, tables.py, datasets.py: metrics, losses, data sets, the user's files, pairs."""
import csv
import io
import json
import math
import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from small_runs import fails, write_file, zipped
from settings import Settings
from support import datasets
from support.datasets import (cut_by_sentence, load_pairs, load_task, load_test_splits,
                              own_task)
from support.pairs import (Pair, Prediction, Task, as_pairs, describe_labels, evaluate, hold_out,
                           limit_pairs, loss_sum, metric_title, ranking)
from support.files import write_text
from support.tables import (SENTENCES, prediction_cells, prediction_columns, read_pairs,
                            table_text)

quick = settings(max_examples=30)
GOOD = "sentence1\tsentence2\tlabel\n"
FIELD = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8)
TWO = Task("own", ("different", "same"), ("accuracy",))
SCORES = Task("own", (), ("pearson",))


@pytest.mark.parametrize("metric, labels, predictions, expected", [
    ("accuracy", [0, 1, 2, 0], [0, 1, 1, 1], 0.5),
    ("f1", [0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], 0.0),               # scikit-learn's f1_score
    ("f1 of class 0", [0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], 0.8),
    ("f1", [0, 0], [0, 0], 0.0),
    ("pearson", [1, 2, 3, 4, 5], [10, 9, 2.5, 6, 4], -0.7426106572325056),    # scipy's pearsonr
    ("pearson", [2.0, 2.0, 2.0], [1.0, 5.0, 2.0], 0.0),
    ("spearman", [1, 2, 3, 4, 5], [5, 6, 7, 8, 7], 0.8207826816681233)])      # scipy's spearmanr
def test_metrics(metric, labels, predictions, expected):
    name, _, positive = metric.partition(" of class ")
    classes = () if name in ("pearson", "spearman") else ("0", "1", "2")
    task = Task("t", classes, (name,), positive=positive)
    assert evaluate(task, labels, predictions) == {name: pytest.approx(expected, abs=1e-12)}
    assert metric_title(name, task.positive) == metric


def test_what_two_classes_are_sorted_by():
    """As scikit-learn: average precision, ROC AUC, best F1 and its threshold, of two classes."""
    expected, rng = (0.513480358203, 0.548624383306, 0.674259681093, 0.026), random.Random(1)
    scores = [rng.randrange(1000) / 1000 for _ in range(300)]
    labels = [int(rng.random() < 0.3 + 0.4 * score) for score in scores]
    logits = torch.tensor([[0.0, score] for score in scores])
    for task, x, y in ((TWO, logits, labels), (replace(TWO, positive="different"), logits.flip(1),
                                               [1 - label for label in labels])):
        found, best = ranking(task, y, x)
        numbers = [*expected[:3], 1 / (1 + math.exp(-expected[3]))]
        assert best.pop("class") == (task.positive or "same")
        assert [*found.values(), *best.values()] == pytest.approx(numbers, abs=1e-7)
    for task, y in ((TWO, [1] * 300), (replace(TWO, labels=("a", "b", "c")), labels)):
        assert ranking(task, y, logits) == ({}, {})


def test_losses():
    """Scores, and classes in float32. test_train's loop has several judgements."""
    logits, labels = torch.tensor([[1.5], [-0.25]]), torch.tensor([1.0, 0.5])
    assert loss_sum(logits, labels, SCORES).item() == pytest.approx(0.25 + 0.5625)
    assert loss_sum(torch.zeros(1, 2).half(), torch.tensor([1]), TWO).dtype == torch.float32


NLI = ("entailment", "neutral", "contradiction")
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
SICK = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"


def snli(label, a, b):
    return json.dumps({"annotator_labels": ["neutral", label], "gold_label": label,
                       "sentence1": a, "sentence1_parse": "(ROOT (S))", "sentence2": b}) + "\n"


def alike(names, text, *pairs):
    """Files of one text, and the splits in them. A name in capitals stands for no labels."""
    splits = {re.search(r"(train|dev|test)\w*", name.lower())[0]:
              [replace(pair, label=None) if name.isupper() else pair for pair in pairs]
              for name in names.split()}
    return dict.fromkeys(names.lower().split(), text), splits


# task -> (file -> text as published, split -> pairs)
PUBLISHED = {
    "mrpc": ({
        "msr_paraphrase_train.txt":
            MRPC + '1\t70\t71\tA "so", b.\t"So".\n0\t21\t22\tB.\tB\u20281.\n1\t1\t4\tC.\t"On.\n',
        "msr_paraphrase_test.txt": MRPC + "1\t7\t8\tC.\tD.\n", "mrpc_dev_ids.tsv": "21\t22\n"},
        {"train": [Pair('A "so", b.', '"So".', 1), Pair("C.", '"On.', 1)],
         "dev": [Pair("B.", "B\u20281.", 0)], "test": [Pair("C.", "D.", 1)]}),
    "rte": alike("train.tsv dev.tsv TEST.TSV", GOOD + 'He "no.\t"Yes," he.\tentailment\n',
                 Pair('He "no.', '"Yes," he.', 1)),
    "qqp": alike(
        "train.tsv dev.tsv TEST.TSV", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        '133\t21\t22\t"How do I ""X""?"\tHow is "it?\t0\n402\t23\t24\tWhat?\t\t1\n'
        '7\t8\t9\t"Open\tclosed"\t0\n6\t8\t9\t"A" or "B"\t"""A"" is?"\t1\n5\t8\t9\tOn ""\t"E\t0\n'
        '4\t8\t9\tLast\t"F ""g"\t1\n',
        Pair('How do I "X"?', 'How is "it?', 0), Pair("What?", "", 1), Pair('"Open', 'closed"', 0),
        Pair('"A" or "B"', '"A" is?', 1), Pair('On ""', '"E', 0), Pair("Last", 'F "g', 1)),
    "stsb": alike(
        "stsb-en-train.csv stsb-en-dev.csv stsb-en-test.csv",
        'A plane.,"F\'s",5.0\n"He ""said"", no.","A, b",0.8\n',
        Pair("A plane.", "F's", 5.0), Pair('He "said", no.', "A, b", 0.8)),
    "mnli": alike(
        "train.tsv dev_matched.tsv dev_mismatched.tsv TEST_MATCHED.TSV TEST_MISMATCHED.TSV",
        "index\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
        '2\t(S)\tOne "way.\t-\tneutral\tcontradiction\n', Pair('One "way.', "-", 2)),
    "qnli": alike(
        "train.tsv dev.tsv TEST.TSV", "index\tquestion\tsentence\tlabel\n"
        '0\t"Who"\tHe.\tnot_entailment\n', Pair('"Who"', "He.", 1)),
    "snli": alike(
        "snli_1.0_train.jsonl snli_1.0_dev.jsonl snli_1.0_test.jsonl",
        snli("neutral", 'A "b"\t\u2028.', "naïve ") + snli("-", "X", "Y") + "\n"
        + snli("contradiction", "C", "D"), Pair('A "b"\t\u2028.', "naïve", 1), Pair("C", "D", 2)),
    "sick": ({
        "SICK.txt": SICK + "1\tA\tB\tNEUTRAL\t3\tTRAIN\n2\tC\tD\tENTAILMENT\t4.5\tTEST\n"
                           "3\tE\tF\tCONTRADICTION\t5\tTRIAL\n"},
        {"train": [Pair("A", "B", 0)], "dev": [Pair("E", "F", 2)], "test": [Pair("C", "D", 1)]}),
    "scitail": alike("scitail_1.0_train.tsv scitail_1.0_dev.tsv scitail_1.0_test.tsv",
                     '"A" and "b.\tC is.\tentails\n', Pair('"A" and "b.', "C is.", 1)),
    "twitterurl": ({  # three votes of six: no pair
        "Twitter_URL_Corpus_train.txt": "A \tMT so .\t(4, 6)\tu\n \nA\tMT so .\t(4,6)\n",
        "Twitter_URL_Corpus_test.txt": "A\tB\t(2, 6)\tu\tu\nC\tD\t(3, 6)\n"},
        {"train": [Pair("A", "MT so .", 1)], "dev": [Pair("A", "MT so .", 1)],  # drawn from two
         "test": [Pair("A", "B", 0)]}),
    "paws": alike("train.tsv dev.tsv test.tsv", GOOD + '"C"\t""\t1\n', Pair('"C"', '""', 1)),
}


def publish(folder, task, **changed):
    """Writes the files of PUBLISHED, with the text of those in `changed`, as Windows does."""
    for name, text in (PUBLISHED[task][0] | changed).items():
        write_file(folder / task, name, "\ufeff" + text.replace("\n", "\r\n"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_rows_as_published(monkeypatch, tmp_path, name):
    """Quotes in unquoted tables, - as a label, blank lines, tests without labels."""
    monkeypatch.setattr(datasets, "download", None)
    publish(tmp_path, name)
    task, splits = load_task(name, tmp_path)
    assert splits == PUBLISHED[name][1] and task.selection == [*splits][1]  # mnli's dev_matched


@quick
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=30))
def test_no_sentence_is_in_two_splits(edges):
    rows, texts = [(Pair(f"s{a}", f"s{b}"), ()) for a, b in edges], {}
    for split, (pair, _) in zip(cut_by_sentence(rows, None), rows, strict=True):
        texts.setdefault(split, set()).update((pair.a, pair.b))
    assert "test" in texts and sum(map(len, texts.values())) == len(set().union(*texts.values()))
    apart = cut_by_sentence([(Pair(f"a{i}", f"b{i}"), ()) for i in range(20)], None)
    assert Counter(apart) == {"train": 16, "dev": 2, "test": 2}
    assert datasets.cut_by_draw([None] * 100, None).count("dev") == 5  # of Twitter-URL


def test_a_data_set_that_is_cut_off(tmp_path, capsys):
    """Fewer pairs than published are told; what a split, dev or a line has lost is refused."""
    publish(tmp_path, "stsb")
    load_task("stsb", tmp_path)
    told = capsys.readouterr().out
    assert told.startswith(f"{tmp_path}/stsb: train has 2 of 5,749 pairs; dev has 2 of")
    for task, name, text, message in (
            ("mrpc", "mrpc_dev_ids.tsv", "21\t22\n22\t21\n", "1 are not there"),
            ("sick", "SICK.txt", SICK + "1\tA\tB\tNEUTRAL\t3\tTRAIN\n", "pairs for dev, test"),
            ("snli", "snli_1.0_dev.jsonl", '\n{"sentence1": "a", "sentence2": 3}', "dev.jsonl:2:")):
        publish(tmp_path, task, **{name: text})
        fails(lambda: load_task(task, tmp_path), tmp_path / task, message)


@pytest.mark.parametrize("task, mine, fetched", [
    ("mrpc", "msr_paraphrase_test.txt", ["msr_paraphrase_train.txt", "mrpc_dev_ids.tsv"]),
    ("snli", "snli_1.0_test.jsonl", ["snli_1.0.zip"])])
def test_only_lacking_tables_are_fetched(monkeypatch, tmp_path, task, mine, fetched):
    """Each once, out of whatever folder of a zip. A table that somebody has corrected stays."""
    (files, splits), asked = PUBLISHED[task], []
    archive = {f"../../{name}": text for name, text in files.items()} | {"README.txt": "x"}

    def deliver(url, path, *more):
        asked.append(path.name)
        write_file(path.parent, path.name, files.get(path.name) or zipped(archive))

    monkeypatch.setattr(datasets, "download", deliver)
    lines = files[mine].splitlines(keepends=True)
    write_file(tmp_path / task, mine, "".join([*lines, lines[-1]]))
    expected = splits | {"test": [*splits["test"], splits["test"][-1]]}
    for _ in range(2):
        assert load_task(task, tmp_path)[1] == expected
    assert asked == fetched and {x.name for x in (tmp_path / task).iterdir()} == {*files}


@quick
@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]))
@example([("x\t\t\ny\rz", 'y "')], "\n")
@example([("", "x\ry")], "\n")
def test_round_trips(tmp_path_factory, rows, end):
    """A .csv keeps any text, a .tsv any text without tabs and line ends; ours and the user's."""
    out, folder = io.StringIO(newline=""), tmp_path_factory.getbasetemp()
    csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
        [["sentence1", "label", "sentence2"], *([a, "0.5", b] for a, b in rows)])
    plain = [[re.sub(r"[\t\n\r]", " ", text) for text in row] for row in rows]
    tabs = GOOD + "".join(f"{a}\t{b}\t0.5{end}" for a, b in plain)
    for name, text, texts in (("a.csv", out.getvalue(), rows), ("a.tsv", tabs, plain)):
        path = write_file(folder, name, text)
        pairs = [Pair(a.strip(), b.strip(), 0.5) for a, b in texts]
        assert read_pairs(path, ()) == pairs
        cells = [[*SENTENCES], *([pair.a, pair.b, "0.5"] for pair in pairs)]
        write_text(path, table_text(path, cells))
        assert read_pairs(path, ()) == pairs


@pytest.mark.parametrize("name, content, message", [
    ("a.tsv", "\nA dog.\tA cat.\t1\na\tb\t1\n", ":2: .*found A dog., A cat., 1; .*--columns"),
    ("a.tsv", GOOD + 'he said "hi\tb\t1\nthere" she\t1\n', ":3: expected 3 .*found 2"),
    ("a.tsv", GOOD + "a\tb\t2.5\n", ":2: .*0, 1"), ("a.tsv", GOOD, ": .*no pair"),
    ("a.tsv", f"{GOOD}\ufeff{GOOD}", ":2: .*header"),
    ("a.csv", 'sentence1,sentence2,label\n"x\ny",b,1\n\na,b\n', ":5: expected 3 .*found 2"),
    ("a.csv", 'sentence1,sentence2,label\n"a" b,b,1\n', ":2: "),
    ("a.tsv", (GOOD + "naïve\tb\t1\n").encode("latin-1"), ": ")])
def test_malformed_files_name_file_and_line(tmp_path, name, content, message):
    path = write_file(tmp_path, name, content)
    with pytest.raises(ValueError, match=re.escape(str(path)) + message):
        read_pairs(path, ("0", "1"))


@pytest.mark.parametrize("labels, names, given", [
    (["yes", "no"], ("no", "yes"), {"positive": "no"}),
    (["yes", "no"], ("no", "yes"), {"f1": "yes"}),
    (["1", "none", "0,5"], ("0,5", "1", "none"), {}),
    ([*"0123456789"], tuple("0123456789"), {}), ([*"0123456789"] + ["10"], (), {}),
    (["0,5", "1", "2"], ("0,5", "1", "2"), {"scores": False}), (["1e0", "2.5"], (), {}),
    (["1", "5", "3"], (), {"scores": True}), (["0", ""], "train.tsv:3: ", {}),
    (["1", "1"], "train.tsv: .* 1 dif", {}), (["0.5", "NA"], "train.tsv:3: ", {}),
    (["0.5", "1e999"], "train.tsv:3: ", {}), (["0.5", "1.5"], "'0.5'", {"positive": "0.5"}),
    ([f"This is text {i}." for i in range(20)], "20 different labels of 20 pairs", {}),
    (["0,5", "1", "50%"], "train.tsv: .* as 0,5, 50% look .*--no-scores", {})])
def test_own_labels(tmp_path, labels, names, given):
    """Words and few whole numbers are classes, other numbers scores, unless `scores` is given. Two
    classes have an F1. names: of the classes, () for scores, or a mistake's line."""
    parts, positive = ("train", "dev", "test"), given.pop("f1", given.get("positive", ""))
    files = [write_file(tmp_path, f"{part}.tsv",
                        GOOD + "".join(f"{part}\tb\t{label}\n" for label in labels))
             for part in parts]
    if isinstance(names, str):
        with pytest.raises(ValueError, match=names):
            own_task(*files, **given)
        return
    task, splits = own_task(*files, **given)
    values = [names.index(text) if names else float(text) for text in labels]
    assert splits == {part: [Pair(part, "b", value) for value in values] for part in parts}
    metrics = ("accuracy", "f1") if positive else ("accuracy",)
    assert task.metrics == (metrics if names else ("pearson", "spearman"))
    assert task.labels == names and task.positive == positive


def pairs_of(count):
    return [Pair(f"a{i}", f"b{i}", i % 2) for i in range(count)]


def test_a_pair_of_texts():
    both = [Pair("a", "b"), Pair("c d", "", 1)]
    assert as_pairs(TWO, [("a", "b"), ["c d", "", "same"]]) == both == as_pairs(TWO, iter(both))
    assert as_pairs(TWO, (("a", "b"), both[1])) == both
    assert as_pairs(TWO, np.array([["a", "b"], ["c d", "e"]])) == [both[0], Pair("c d", "e")]
    for alone in (("a", "b"), both[0]):
        assert as_pairs(TWO, alone) == both[:1]
    assert as_pairs(TWO, ("a", "b", "same")) == [Pair("a", "b", 1)] and as_pairs(TWO, []) == []
    for score in (2.5, "2.5", np.float32(2.5)):
        assert as_pairs(SCORES, ("a", "b", score)) == [Pair("a", "b", 2.5)]
    for wrong, words in (("ab", "pair 1: expected two texts"), (("a", None), "found ('a', None)"),
                         ([("a", "b"), Pair("a", math.nan)], "pair 2: expected two texts"),
                         (Pair("a", "b", 2), "label"), (("a", "b", "x"), "pair 1: label 'x'")):
        fails(lambda: as_pairs(TWO, wrong), words)


def test_the_lines_on_labels():
    """They count the pairs of dev that are in train, too, and pairs of train with two labels."""
    train = [Pair("a", "b", 0), Pair("a", "b", 1), Pair("b", "a", 1), Pair("c", "d", 1)]
    dev = [Pair("d", "c", 1), Pair("a", "b", 1), Pair("e", "f", 0)]
    assert describe_labels(TWO, {"train": train, "dev": dev}).splitlines() == [
        "classes different (1), same (3); dev: 3 pairs, 66.7 % of one class",
        "pairs of dev that are in train, too: 1",
        "pairs of dev that are in train with the sentences exchanged: 1",
        "pairs of train that are there under more than one label: 1"]
    scores = {"train": [Pair("a", "b", 0.5), Pair("c", "d", 2.0)], "dev": dev}
    assert describe_labels(SCORES, scores) == "scores from 0.5 to 2\n" + (
        "pairs of dev that are in train, too: 1\n"
        "pairs of dev that are in train with the sentences exchanged: 1")


def test_part_of_the_pairs(monkeypatch):
    """The seed draws a share of train, or what takes dev's place, in whole blocks: toy's four."""
    task, toy = load_task("toy", "nowhere")
    assert all(pair.group for pairs in toy.values() for pair in pairs)
    splits = {"train": pairs_of(40), "dev": pairs_of(9), "dev_unseen": pairs_of(9),
              "test": pairs_of(3)}
    assert limit_pairs(task, splits, 5, 0) == {name: pairs[:5] for name, pairs in splits.items()}
    for change, share, name, size in ((limit_pairs, 0.5, "train", 20), (hold_out, 0.2, "dev", 8)):
        found, again, other = (change(task, splits, share, seed) for seed in (0, 0, 1))
        assert found == again != other and len(found[name]) == size
        blocks = [splits["train"][i:i + 4] for i in range(0, 40, 4)]
        assert all(found[name][i:i + 4] in blocks for i in range(0, size, 4))
    assert set(found) == {"train", "dev", "test"} and found["test"] == splits["test"]
    assert Counter(found["train"] + found["dev"]) == Counter(splits["train"])
    assert limit_pairs(task, splits, 0.5, 0)["dev"] == splits["dev"]
    assert len(limit_pairs(SCORES, splits, 1e-9, 0)["train"]) == 1  # never none
    assert len(hold_out(task, splits, 0.99, 0)["train"]) == 4
    fails(lambda: hold_out(task, {"train": pairs_of(4)}, 0.5, 0), "--held-out", "dev")
    monkeypatch.setattr("support.datasets.load_task", lambda *args: (task, splits))
    given = Settings("rte", held_out=0.2, seed=1)
    assert load_pairs(given)[1] == other
    fails(lambda: load_pairs(Settings("rte", limit=1)), "--limit", "class same")
    assert load_test_splits(given) == {"test": splits["test"]}
    splits["test_2"] = [Pair("a", "b")]
    fails(lambda: load_test_splits(given), "test", "labelled")
    del splits["test"], splits["test_2"]
    fails(lambda: load_test_splits(given), "test", "labelled")


def test_files_of_predictions(tmp_path):
    """A class has the probability of each; a table that is labelled may lack its labels."""
    answer = Prediction("same", {"different": 0.25, "same": 0.75})
    assert dict(zip(prediction_columns(TWO), prediction_cells(TWO, answer))) == {
        "prediction": "same", "p(different)": "0.250000", "p(same)": "0.750000"}
    path = write_file(tmp_path, "x.tsv", GOOD + "a\tb\tsame\nc\td\t\n")
    assert [pair.label for pair in read_pairs(path, TWO.labels, need_label=False)] == [1, None]
    for text, words in (("question1\tquestion2\na\tb\n", "two columns by --columns"),
                        (GOOD + "a\tb\tmaybe\n", "two columns by --columns"),
                        (GOOD.replace("label", "label\tlabel"), "each once")):
        write_file(tmp_path, "x.tsv", text)
        fails(lambda: read_pairs(path, TWO.labels, need_label=False), words)
    assert prediction_cells(SCORES, Prediction(0.12345678, None)) == ["0.123457"]
