"""support/data.py: published data sets, on rows as published."""
import json
import re
from dataclasses import replace

import pytest

import small_runs
from small_runs import ROOT, write_file
from support import data
from support.data import Pair, Task, load_task

REAL = ROOT.parent / "shared" / "data"

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


def publish(folder, task, below="", start="", end="\n", **changed):
    """Writes the files of PUBLISHED, some of them changed. -> their folder, the task's or below"""
    for name, text in (PUBLISHED[task][2][0] | changed).items():
        write_file(folder / task / below, name, start + text.replace("\n", end))
    return folder / task / below


@pytest.mark.parametrize("below, start, end", [("", "", "\n"), ("X/y", "\ufeff", "\r\n")])
@pytest.mark.parametrize("task", PUBLISHED)
def test_rows_as_published(monkeypatch, tmp_path, task, below, start, end):
    """Quotes in unquoted tables, - as a label, blank lines, tests without labels; no download.
    Where unzip puts them, they are found.
    """
    monkeypatch.setattr(data, "download", None)
    publish(tmp_path, task, below, start, end)
    labels, metrics, (_, splits) = PUBLISHED[task]
    selection = "dev_matched" if task == "mnli" else "dev"
    assert load_task(task, tmp_path) == (Task(task, labels, metrics, selection), splits)


@pytest.mark.parametrize("task, name, text, message", [
    ("mrpc", "mrpc_dev_ids.tsv", "21\t22\n1\t2\n", ": 1 of its 2 id pairs"),
    ("rte", "train.tsv", RTE + "0\tA\tB\tyes\n", ":2: unknown label 'yes'"),
    ("sick", "SICK.txt", SICK + sick(1, "NEUTRAL", "TRAIN"), ": no pairs for dev"),
    ("snli", "snli_1.0_dev.jsonl", "[" * 100000, ":1: "),
    ("twitterurl", TWITTER, "A\tB\t(1,6)\thttp\nA\tB\t\t(1,6)\thttp\n", ":2: ")])
def test_malformed_published_files_name_file_and_line(tmp_path, task, name, text, message):
    folder = publish(tmp_path, task, **{name: text})
    with pytest.raises(ValueError, match=re.escape(str(folder / name)) + message):
        load_task(task, tmp_path)


def test_sick_in_three_files(monkeypatch, tmp_path):
    """As SemEval gave it out; SICK.txt goes before them; a part of them is no data set."""
    monkeypatch.setattr(data, "download", None)
    parts = {"SICK_train.txt": "train", "SICK_trial.txt": "dev", "SICK_test_annotated.txt": "test"}
    for name, split in parts.items():
        if split == "test":
            with pytest.raises(FileNotFoundError, match="lacks SICK_test_annotated.txt"):
                load_task("sick", tmp_path)
        rows = f"1\tA {split}\tB\t4.5\tENTAILMENT\n2\tC\tD\t3.6\tNEUTRAL\n"
        write_file(tmp_path / "sick", name, "pair_ID\tsentence_A\tsentence_B\trelatedness_score\t"
                   f"entailment_judgment\n{rows}")
    assert load_task("sick", tmp_path)[1] == {
        split: [Pair(f"A {split}", "B", 1), Pair("C", "D", 0)] for split in parts.values()}
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
        calls.append(url)
        write_file(path.parent, path.name, files[path.name])
    monkeypatch.setattr(data, "download", deliver)
    return calls


def zipped(task, **more):
    """Bytes of a zip with the files of PUBLISHED in a folder, and more, path -> text."""
    files = {f"X/y/{name}": text for name, text in PUBLISHED[task][2][0].items()}
    return small_runs.zipped(files | more)


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


def test_two_tables_of_one_name(tmp_path):
    publish(tmp_path, "rte", "X/y")
    write_file(tmp_path / "rte" / "old", "dev.tsv", "x")
    with pytest.raises(ValueError, match=r"X/y/dev.tsv and .*old/dev.tsv: .* one dev.tsv in"):
        load_task("rte", tmp_path)


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
