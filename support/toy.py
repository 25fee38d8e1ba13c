"""The toy world: generated sentence pairs, each of which tests one phenomenon, without a download.

Its pairs are like the cases of DAFA Table 7. They are a diagnostic, no sample of real English.

An item is a square of four sentences, two meanings in two wordings:

              wording 0                 wording 1
  meaning 0   The cat chased the dog.   The dog was chased by the cat.
  meaning 1   The dog chased the cat.   The cat was chased by the dog.

The two rows are pairs with label 1, the two diagonals are pairs with label 0. Each sentence stands
in one pair with label 1 and in one pair with label 0. So a sentence alone says nothing about the
label. A model may give a number to a and a number to b, and add the two: the sum of its scores is
then the same over the pairs of either label. In every square the words that a and b share, and the
lengths, are the same for both labels. What is left to learn is how a and b relate.

If the pairs come in a random order, a small untrained encoder learns nothing in a minute: the
difference between labels is small beside the difference between sentences. So the four pairs of a
square stand in a row, and training keeps them in one batch.
"""

import configparser
import itertools
import random
from pathlib import Path
from typing import NamedTuple

from support.pairs import Pair, Task

VERBS = "treat", "chase", "give", "get", "work"     # tables of toy.ini that hold verbs
THINGS = "furniture", "instrument", "garment", "tool", "container"

SLOTS = {      # slots that are not an entry of one table, and how they are filled; w: a World
    "who": lambda w: w.draw_entry("name") if w.rng.random() < 0.3 else w.one_of("person"),
    "people": lambda w: f"the {w.plural('person')}" if w.many else w.fill_slot("who"),
    "unnamed": lambda w: f"the {w.plural('person')}" if w.many else w.one_of("person"),
    "animals": lambda w: f"the {w.plural('animal')}" if w.many else w.one_of("animal"),
    "was": lambda w: "were" if w.many else "was",
    "has": lambda w: "have" if w.many else "has",
    "noun": lambda w: w.draw_entry(*THINGS),
    "nouns": lambda w: w.plural(*THINGS),
    "thing": lambda w: w.noun_phrase(w.draw_entry(*THINGS), "color", "quality"),
    "adjective": lambda w: w.draw_entry("color", "quality"),
    "where": lambda w: f"{w.rng.choice(('in', 'near'))} the {w.draw_entry('place')}",
    "when": lambda w: w.rng.choice((w.draw_entry("time"), w.draw_entry("time"), "yesterday",
                                    w["where"], w["where"])),
}
# Split -> (its side of "|" in toy.ini, squares of each phenomenon)
TOY_SPLITS = {"train": (0, 200), "dev": (0, 30), "dev_unseen": (1, 30), "test": (0, 30),
              "test_unseen": (1, 30)}
ONES = """_ one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen""".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


class Verb(NamedTuple):
    """The three forms of a verb v, which frames write as {v.base}, {v.past}, {v.participle}."""
    base: str
    past: str
    participle: str


class Number(int):
    """A number from 2 to 99. A frame's {x} writes it in digits, {x:words} in words."""

    def __format__(self, spec):
        if spec != "words":
            return str(self)
        tens, ones = divmod(self, 10)
        return ONES[self] if self < 20 else TENS[tens] + f"-{ONES[ones]}" * (ones > 0)


def read_entry(table, text):
    """One entry of a table: a word, a Verb where the table holds verbs, or a tuple of words."""
    words = tuple(text.replace("_", " ").split("/"))
    if table in VERBS:
        past = words[0] + ("d" if words[0].endswith("e") else "ed")
        return Verb(*words) if len(words) == 3 else Verb(words[0], past, past)
    return words if len(words) > 1 else words[0]


def read_words(tables):
    """dict table -> (seen entries, unseen entries) for toy.ini's tables and a table "number"."""
    words = {}
    for table, text in tables.items():
        words[table] = tuple(tuple(read_entry(table, entry) for entry in side.split())
                             for side in text.split("|"))
    unseen = [n for n in range(21, 100) if n % 10 and (n // 10 + n % 10) % 3 == 0]  # parts are seen
    seen = [n for n in range(2, 100) if n not in unseen]
    words["number"] = tuple(map(Number, seen)), tuple(map(Number, unseen))
    return words


def read_frame(line):
    """(kind of x and y, wording 0, wording 1) of a line of toy.ini; +a +b is a kind (a, b)."""
    kind, _, wordings = line.partition(": ")
    if kind.startswith("+"):
        kind = tuple(kind[1:].split(" +"))
    return kind, *wordings.split(" | ")


INI = configparser.ConfigParser(delimiters="=", interpolation=None)
INI.read_string(Path(__file__).with_suffix(".ini").read_text("utf-8"))
WORDS = read_words(INI["words"])
FRAMES = {phenomenon: tuple(read_frame(line) for line in lines.split("\n") if line)
          for phenomenon, lines in INI["frames"].items()}


def read_rows(kind):
    """Pairs of words, the first and the middle of each row of the tables whose names begin so."""
    tables = [WORDS[table] for table in WORDS if table.startswith(kind)]
    return [(row[0], row[len(row) // 2]) for sides in tables for side in sides for row in side]


def read_lexicon():
    """Makes LEXICON out of the word tables. A synonym of an antonym is an antonym too."""
    synonyms, antonyms = read_rows("same"), []
    for row in read_rows("opposite"):
        alike = [sorted({word}.union(*(pair for pair in synonyms if word in pair))) for word in row]
        antonyms += itertools.product(*alike)
    hypernyms, cohyponyms = [], []
    for name in ("person", "animal", "city", "place", "color", *THINGS):
        words = sum(WORDS[name], ())
        hypernyms += [(word, name) for word in words]
        cohyponyms += itertools.combinations(words, 2)
    return {"synonym": tuple(dict.fromkeys(synonyms)), "antonym": tuple(dict.fromkeys(antonyms)),
            "hypernym": tuple(hypernyms), "cohyponym": tuple(cohyponyms)}


# Relation -> pairs of words; verbs are in the past, nouns in the singular. hypernym is (specific,
# general), the other relations are symmetric. antonym includes converses (bought, sold).
LEXICON = read_lexicon()
OPPOSITES = frozenset(map(frozenset, LEXICON["antonym"]))


class World(dict):
    """The slots of a square, filled at their first use, no word twice. side: 0 seen, 1 unseen."""

    def __init__(self, rng, side):
        self.rng, self.side, self.used, self.many = rng, side, set(), rng.random() < 0.2

    def __missing__(self, slot):
        self[slot] = self.fill_slot(slot.removesuffix(" 2"))
        return self[slot]

    def fill_slot(self, kind):
        """A new text for a slot: what SLOTS makes, or an entry of the table."""
        return SLOTS[kind](self) if kind in SLOTS else self.draw_entry(kind)

    def draw_entry(self, *tables):
        """An unused entry of the tables; a row of two words comes in random order."""
        entry = self.rng.choice([entry for table in tables for entry in WORDS[table][self.side]
                                 if entry not in self.used])
        self.used.add(entry)
        return self.rng.sample(entry, 2) if isinstance(entry, tuple) and len(entry) == 2 else entry

    def noun_phrase(self, noun, *adjectives):
        """An article, in 3 of 10 cases an adjective of the tables, and the noun."""
        words = [self.draw_entry(*adjectives), noun] if self.rng.random() < 0.3 else [noun]
        indefinite = "an" if words[0][0] in "aeiou" else "a"
        return " ".join(["the" if self.rng.random() < 0.7 else indefinite, *words])

    def one_of(self, table):
        """A person or an animal, as a noun phrase."""
        return self.noun_phrase(self.draw_entry(table), "mood")

    def plural(self, *tables):
        """A noun of the tables in the plural."""
        noun = self.draw_entry(*tables)
        return noun + ("es" if noun.endswith(("x", "sh", "ch")) else "s")

    def draw_x_and_y(self, kind):
        """x and y of a frame. Half of the rows and numbers are close, see `are_close`."""
        if isinstance(kind, tuple):
            return [self.fill_slot(table) for table in kind], [""] * len(kind)
        if kind == "event":
            events = ("treat", "people"), ("treat", "people"), ("chase", "animals")
            verbs, kind = self.rng.choice(events)
            self["event"] = self.draw_entry(verbs)
        x, y = self.fill_slot(kind), self.fill_slot(kind)
        near = [z for z in WORDS[kind][self.side] if are_close(x, z)] if kind in WORDS else []
        return x, self.rng.choice(near) if near and self.rng.random() < 0.5 else y


def are_close(x, y):
    """Are x and y numbers that share a digit, or rows of words that are opposites?"""
    if isinstance(x, Number):
        return x != y and bool(set(str(x)) & set(str(y)))
    return not isinstance(x, str) and frozenset((x[0], y[0])) in OPPOSITES


def draw_square(phenomenon, frames, rng, side, taken):
    """The four Pairs of a square, drawn until each sentence has 5 to 14 words and is new.

    frames: of this phenomenon. taken: the set of all sentences so far, which receives the new ones.
    """
    world = World(rng, side)
    kind, *wordings = rng.choice(frames)
    x, y = world.draw_x_and_y(kind)
    square = []  # for each meaning, its two wordings
    for first, second in ((x, y), (y, x)):
        world.update(x=first, y=second)
        texts = [" ".join(wording.format_map(world).split()) for wording in wordings]
        square.append([text[0].upper() + text[1:] + "." for text in texts])
    order, texts = rng.choice((1, -1)), {*square[0], *square[1]}  # -1: a has wording 1
    sound = len(texts) == 4 and all(5 <= len(text.split()) <= 14 for text in texts)
    if not sound or not taken.isdisjoint(texts):
        return draw_square(phenomenon, frames, rng, side, taken)
    taken.update(texts)
    return [Pair(*(square[m][0], square[n][1])[::order], int(m == n), phenomenon)
            for m, n in itertools.product((0, 1), repeat=2)]


def toy_task(frames=FRAMES):
    """(Task, dict split -> list of Pair) of the toy world. The pairs are always the same.

    frames: dict phenomenon -> its frames, as in FRAMES, for a world of other sentences.

    dev_unseen and test_unseen have nouns, names, verbs, adjectives and lexical pairs that training
    never shows. No sentence is in two squares, so no sentence is in two splits.
    """
    taken, splits = set(), {}
    for split, (side, count) in TOY_SPLITS.items():
        rng, squares = random.Random(f"0 {split}"), []
        for phenomenon, of_phenomenon in frames.items():
            squares += [draw_square(phenomenon, of_phenomenon, rng, side, taken)
                        for _ in range(count)]
        rng.shuffle(squares)             # so that the first pairs are of all phenomena
        splits[split] = sum(squares, [])
    return Task("toy", ("different", "same"), ("accuracy",), block=4), splits
