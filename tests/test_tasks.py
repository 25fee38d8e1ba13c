"""tasks.py: metrics against plain loops, readers on rows as published, the toy world's balance and grammar."""

import csv
import dataclasses
import io
import math
import os
import random
import re
import subprocess
import sys
import warnings
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
MRPC = ROOT.parent / "shared" / "data"


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


@pytest.mark.skipif(not (MRPC / "mrpc" / "msr_paraphrase_train.txt").exists(), reason=f"no real MRPC in {MRPC}")
def test_real_mrpc_has_its_counts():
    task, splits = load_task("mrpc", MRPC)
    assert {name: len(pairs) for name, pairs in splits.items()} == {"train": 3668, "dev": 408, "test": 1725}
    # GLUE's majority class: 68.4 % of dev and 66.5 % of test are paraphrases
    assert [round(100 * np.mean([p.label for p in splits[s]]), 1) for s in ("dev", "test")] == [68.4, 66.5]
    assert all(p.a and p.b and "\t" not in p.a + p.b for pairs in splits.values() for p in pairs)


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


def own(folder, labels, dev=None, **settings):
    rows = lambda values: GOOD + "".join(f"a\tb\t{value}\n" for value in values)
    train, dev = put(folder, "train.tsv", rows(labels)), put(folder, "dev.tsv", rows(dev or labels))
    return own_task(train, dev, **settings)


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


def test_own_kind_is_a_choice(tmp_path):
    assert own(tmp_path, ["0.5", "1", "1"], kind="classes")[0].labels == ("0.5", "1")
    assert own(tmp_path, ["0", "1"], kind="regression")[1]["dev"][1].label == 1.0
    assert own(tmp_path, ["0", "1"], kind="regression")[0].metrics == ("pearson", "spearman")
    with pytest.raises(ValueError, match="train.tsv:3: label 'x' is not a finite number"):
        own(tmp_path, ["0", "x"], kind="regression")
    with pytest.raises(ValueError, match="kind must be classes, regression or None, got 'class'"):
        own(tmp_path, ["0", "1"], kind="class")
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
