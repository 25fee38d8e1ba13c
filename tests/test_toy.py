"""support/toy.py: its pairs are always the same, balanced, grammatical, and their labels right."""

import hashlib
import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from support import toy
from support.tasks import Task, load_task
from support.toy import LEXICON, WORDS, toy_task

GROUPS = ["roles", "voice", "prepositions", "numbers", "synonyms", "antonyms", "modifiers"]
BASE = {form: verb.base for table in toy.VERBS for verb in sum(WORDS[table], ()) for form in verb}


@pytest.fixture(scope="module")
def splits():
    return toy_task()[1]


def split_words(text):
    return re.findall(r"[\w-]+", text.lower())


def squares(pairs):
    """Squares stand in a row."""
    return [pairs[i:i + 4] for i in range(0, len(pairs), 4)]


def test_the_pairs_are_always_the_same(splits):
    """Results in docs/ and in tests/results are on exactly these."""
    lines = [f"{split}\t{p.a}\t{p.b}\t{p.label}\t{p.group}\n"
             for split, pairs in splits.items() for p in pairs]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == (
        "7c7460ce6b5098186245f4627c1c1a2432f54a5bbdd82ec5454f62372386294e")
    assert load_task("toy", "nowhere") == (
        Task("toy", ("different", "same"), ("accuracy",), "dev", 4), splits)
    assert toy_task(seed=1, train=4, held_out=4) != toy_task(seed=2, train=4, held_out=4)


def test_sizes_and_squares(splits):
    """A square has two sentences a and two b, each in a pair of either label, and in no other."""
    everywhere = Counter()
    assert list(splits) == ["train", "dev", "dev_unseen", "test", "test_unseen"]
    for name, pairs in splits.items():
        assert len(pairs) == (5600 if name == "train" else 840)
        counts = Counter((p.group, p.label) for p in pairs)
        assert counts == {(g, y): len(pairs) // 14 for g in GROUPS for y in (0, 1)}
        start = Counter((p.group, p.label) for p in pairs[:280])              # a fair sample
        assert all(8 <= start[g, y] <= 33 for g in GROUPS for y in (0, 1))
        for square in squares(pairs):
            assert len({p.group for p in square}) == 1
            for side in "ab":
                uses = Counter((getattr(p, side), p.label) for p in square)
                assert len(uses) == 4 and len({text for text, _ in uses}) == 2
                everywhere.update({text for text, _ in uses})
    assert set(everywhere.values()) == {1}


def test_sizes_that_cannot_be(monkeypatch):
    for sizes in ({"train": 0}, {"train": 6}, {"held_out": -4}):
        with pytest.raises(ValueError, match=f"{next(iter(sizes))} must be .*multiple of 4"):
            toy_task(**sizes)
    frame = ("mood", "the {x} cat saw a {y} dog", "a {y} dog saw the {x} cat")
    monkeypatch.setattr(toy, "FRAMES", {"roles": [frame]})
    assert len(toy_task(train=4, held_out=4)[1]["test"]) == 4
    with pytest.raises(ValueError, match="no 100 squares of roles left; ask for fewer"):
        toy_task(train=400)


# ---- words

# Words that both sides of the vocabulary may use: none has much content.
SHARED = set("""a an the in near of to from by with without but for and on at instead before after
    behind above below over under front than very who this last will be been was were has have only
    even yesterday""".split())
DIGITS = {f"{toy.Number(n):words}": n for n in range(2, 100)}
DIGITS |= {str(n): n for n in range(2, 100)}


def test_unseen_words_are_unseen(splits):
    used = {name: {w for p in pairs for w in split_words(p.a) + split_words(p.b)}
            for name, pairs in splits.items()}
    for name in ("dev_unseen", "test_unseen"):
        assert used["train"] & used[name] <= SHARED and len(used[name] - used["train"]) > 150
    known = {DIGITS.get(word, BASE.get(word, word)) for word in used["train"]}    # or another form
    for name in ("dev", "test"):
        assert {DIGITS.get(word, BASE.get(word, word)) for word in used[name]} <= known


def test_grammar(splits):
    for text in {text for pairs in splits.values() for p in pairs for text in (p.a, p.b)}:
        assert 5 <= len(text.split()) <= 14, text
        assert re.fullmatch(r"[A-Z0-9][^.]*[a-z]\.", text) and "  " not in text and " ," not in text
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|\bthe [A-Z]|[{}_/]", text), text
        assert not re.search(r"\b(\w+) \1\b", text), text
        assert not re.match(r"(?:\w+ \w+, )?[Tt]he (?:\w+ )?\w+s (was|has)\b", text), text


# ---- labels

PLACE = r"(?:in|near) the \w+|on \w+|in \w+|last \w+|this morning|yesterday"
PRICE = re.compile(r"the (\w+) (?:cost|weighed) ([\w-]+)")
NUMBER = "|".join(sorted(DIGITS, key=len, reverse=True))
COUNT = re.compile(rf"(?<![\w-])({NUMBER}) ([a-z]+(?: [a-z]+)?)(?= and|$)")


def meaning(text, group):
    """What a sentence says, by patterns that know nothing of the frames."""
    text = re.sub(rf"^({PLACE}), | ({PLACE})$", "", text[:-1].lower())
    verb = "|".join(BASE)
    if group == "numbers":
        counts = PRICE.findall(text) or [(noun, amount) for amount, noun in COUNT.findall(text)]
        return sorted((noun, DIGITS[amount]) for noun, amount in counts)
    if m := re.fullmatch(rf"(.+) (?:was|were|\w+ be(?:en)?) ({verb}) (?:to (.+) )?by (.+)", text):
        return m[4], BASE[m[2]], m[1], m[3]
    if m := re.fullmatch(rf"(.+?) (?:will |has |have )?({verb}) (the \w+) to (.+)", text):
        return m[1], BASE[m[2]], m[3], m[4]
    m = re.fullmatch(rf"(.+?) (?:will |has |have )?({verb}) (.+)", text)
    return m[1], BASE[m[2]], m[3], None


def test_labels_agree_with_a_second_reader(splits):
    for pair in splits["train"] + splits["dev_unseen"]:
        if pair.group in ("numbers", "voice"):
            a, b = meaning(pair.a, pair.group), meaning(pair.b, pair.group)
            assert (a == b) == pair.label and a and b, (pair, a, b)


def test_synonym_labels_follow_the_lexicon(splits):
    """The words in which a and b differ are synonyms where the label is 1, never where it is 0."""
    same, opposite = (set(map(frozenset, LEXICON[kind])) for kind in ("synonym", "antonym"))
    kinds = Counter()
    for pair in (pair for pairs in splits.values() for pair in pairs if pair.group == "synonyms"):
        replaced = frozenset(split_words(pair.a)) ^ frozenset(split_words(pair.b))
        assert len(replaced) == 2 and (replaced in same) == pair.label, pair
        kinds[pair.label, replaced in opposite] += 1
    assert kinds[1, True] == 0 and min(kinds[0, True], kinds[0, False]) > 0.1 * kinds.total()


def test_lexicon():
    assert list(LEXICON) == ["synonym", "antonym", "hypernym", "cohyponym"]
    synonym, antonym, hypernym, cohyponym = (set(pairs) for pairs in LEXICON.values())
    assert {("bought", "purchased"), ("sofa", "couch"), ("bigger", "larger")} <= synonym
    assert {("older", "newer"), ("bought", "sold"), ("boss", "employee")} <= antonym
    assert {("big", "small"), ("large", "little"), ("large", "small")} <= antonym    # by synonyms
    assert {("nurse", "person"), ("guitar", "instrument"), ("red", "color")} <= hypernym
    assert ("chair", "table") in cohyponym and ("chair", "guitar") not in cohyponym
    for relation in (synonym, antonym, hypernym, cohyponym):
        assert all(x != y and (y, x) not in relation for x, y in relation)
    assert not set(map(frozenset, synonym)) & set(map(frozenset, antonym | cohyponym))


# ---- nothing but the relation of a and b tells the label

def measures(pair):
    """Word overlap and lengths."""
    a, b = split_words(pair.a), split_words(pair.b)
    return (len({*a} & {*b}) / len({*a} | {*b}), (len(a), len(b)),
            abs(len(pair.a.split()) - len(pair.b.split())))


def test_overlap_and_lengths_say_nothing(splits):
    """In every square, the pairs with label 1 have those of the pairs with label 0, one by one."""
    for square in (square for pairs in splits.values() for square in squares(pairs)):
        one, zero = (zip(*(measures(p) for p in square if p.label == label)) for label in (1, 0))
        assert list(map(sorted, one)) == list(map(sorted, zero))


def word_counts(pairs, places):
    """Counts of a minus counts of b, a bias, and the difference of lengths. -> (N, words + 2)"""
    rows = np.zeros((len(pairs), len(places) + 2))
    for row, pair in zip(rows, pairs):
        for text, sign in ((pair.a, 1), (pair.b, -1)):
            for word in split_words(text):
                row[places.get(word, -1)] += sign                # -1: overwritten below
        row[-2], row[-1] = 1, (len(pair.a) - len(pair.b)) / 30
    return rows


def test_word_counts_are_at_chance(splits):
    """For one linear classifier of all phenomena. Absolute counts say which words changed. That
    tells something where they are known: an assertion changes nothing, an adjective does."""
    words = sorted({w for p in splits["train"] for w in split_words(p.a) + split_words(p.b)})
    places = {word: i for i, word in enumerate(words)}
    signs = {name: np.array([2 * p.label - 1 for p in splits[name]]) for name in splits}
    counts = {name: word_counts(splits[name], places) for name in ("train", "dev", "dev_unseen")}
    for transform in (np.asarray, np.abs):
        rows = transform(counts["train"])
        weight = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ signs["train"])
        for split in ("dev", "dev_unseen"):
            right = defaultdict(list)
            for pair, score in zip(splits[split], transform(counts[split]) @ weight * signs[split]):
                right[pair.group].append(score > 0)
            if transform is np.abs and split == "dev":
                assert np.mean(right.pop("modifiers")) > 0.6
            for group, found in right.items():
                assert abs(np.mean(found) - 0.5) <= 0.06, (split, group, np.mean(found))
