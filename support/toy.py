"""The toy world: generated sentence pairs, each of which tests one phenomenon. It needs no network.

It multiplies the cases of DAFA Table 7: a diagnostic, and no sample of real English.

How it is balanced. An item is a square of four sentences, two meanings in two wordings:

              wording 0                 wording 1
  meaning 0   The cat chased the dog.   The dog was chased by the cat.
  meaning 1   The dog chased the cat.   The cat was chased by the dog.

The two rows are pairs with label 1, the two diagonals pairs with label 0. Each sentence stands in
one pair of either label, so no sentence by itself tells anything. A score that adds up what a says
and what b says has the same sum over both labels. Frames are built so that word overlap and lengths
are those of the other label in every square. What is left to learn is how a and b relate.

From pairs in a random order a small untrained encoder learns nothing in a minute: what differs
between the labels drowns in what differs between sentences. So the four pairs of a square stand in
a row and are trained on in one batch.
"""

import itertools
import random
from typing import NamedTuple

from support.data import Pair, Task

# Each table is "seen | unseen": words behind the bar occur in dev_unseen and test_unseen alone.
# _ is a space, / parts the forms of a verb (base/past/participle where irregular) and the words of
# a row.
VERBS = ("treat", "chase", "give", "get", "work")
VOCABULARY = {
    "person": """nurse teacher pilot farmer singer student driver painter soldier waiter poet
        sailor clerk judge baker |
        dentist tailor actor hunter priest plumber butler barber miner gardener cashier
        carpenter""",
    "animal": "cat dog horse goat duck cow | tiger bear rabbit monkey camel donkey",
    "name": """Anna Peter Maria David Sarah Thomas Julia Robert |
        Laura Simon Helen Oscar Emma Paul Nina Kevin""",
    "city": """Paris London Boston Seattle New_York Rome Berlin Vienna |
        Madrid Oslo Chicago San_Diego Tokyo Dublin Prague Lisbon""",
    "place": """park garden kitchen station museum school |
        harbor library airport stadium hospital village""",
    "furniture": "chair table desk lamp | stool bench wardrobe cradle",
    "instrument": "guitar piano drum | violin trumpet flute",
    "garment": "coat hat shirt belt | jacket sweater skirt apron",
    "tool": "hammer ladder rope brush | shovel needle chisel broom",
    "container": "bottle basket box | barrel jar crate",
    "color": "red blue green white | yellow purple orange black",
    "quality": "broken spare famous special | antique fragile valuable rare",
    "mood": "tired hungry friendly lonely | nervous polite lazy wounded bald",
    "manner": "slowly quickly quietly carefully | calmly eagerly neatly patiently",
    "time": "on_Monday last_week in_April | on_Friday last_month in_June this_morning",
    "adverb": "almost never publicly | nearly secretly illegally",
    "assertion": """indeed actually certainly |
        truly undoubtedly unquestionably""",
    "claim": "of_course in_fact | in_truth in_reality",
    "focus": "only even | only even",
    "treat": """thank praise follow help call visit admire ignore push trust interview
        see/saw/seen hear/heard/heard beat/beat/beaten forgive/forgave/forgiven
        teach/taught/taught |
        greet invite warn blame rescue insult punish envy/envied/envied hire defeat recognize
        shake/shook/shaken lead/led/led""",
    "chase": """chase follow scare see/saw/seen hear/heard/heard bite/bit/bitten |
        attack frighten lick sniff nudge""",
    "give": """give/gave/given send/sent/sent show/showed/shown offer sell/sold/sold |
        hand pass throw/threw/thrown bring/brought/brought mail""",
    "get": """buy/bought/bought sell/sold/sold find/found/found steal/stole/stolen
        choose/chose/chosen |
        order collect win/won/won photograph lose/lost/lost""",
    "work": """paint carry/carried/carried wash repair hide/hid/hidden |
        polish wrap/wrapped/wrapped pack draw/drew/drawn measure""",
    "act": "smiled laughed slept sang | danced cried yawned spoke",
    "stand": "stood lay | rested remained",
    "travel": """drove flew took_a_train booked_a_flight |
        traveled cycled caught_a_bus reserved_a_ticket""",
    "errand": "wrote_a_letter read_a_story carried_a_message | delivered_a_package recited_a_poem",
    "come": "left came_home arrived | returned departed appeared",
    "cost": "cost | weighed",
    "unit": "dollars | pounds",
    "same action": """bought/purchased repaired/fixed chose/selected hid/concealed
        built/constructed demolished/destroyed |
        inspected/examined displayed/exhibited ordered/requested lifted/raised kept/retained
        discarded/dumped""",
    "same thing": """sofa/couch rug/carpet car/automobile gift/present bike/bicycle rock/stone |
        film/movie phone/telephone plane/airplane prize/award bucket/pail sack/bag""",
    "same human": """doctor/physician lawyer/attorney writer/author kid/child thief/robber |
        boy/lad infant/baby reporter/journalist enemy/foe woman/lady""",
    "same look": """big/large little/small expensive/costly cheap/inexpensive pretty/beautiful
        ugly/hideous |
        dirty/filthy clean/spotless fake/bogus genuine/authentic huge/enormous
        tiny/minuscule""",
    "same trait": """smart/clever stupid/foolish happy/glad sad/unhappy angry/mad |
        rich/wealthy poor/penniless sick/ill brave/courageous loyal/faithful""",
    "same measure": "bigger/larger costlier/pricier | dirtier/filthier odder/stranger",
    "same grade": "faster/quicker smarter/cleverer | richer/wealthier weaker/feebler",
    "same trade": "bought/from/purchased/from received/from/got/from | obtained/from/acquired/from",
    "opposite word": """big/little expensive/cheap pretty/ugly smart/stupid happy/sad
        built/demolished |
        dirty/clean fake/genuine huge/tiny rich/poor kept/discarded""",
    "opposite measure": """older/newer heavier/lighter bigger/smaller cheaper/costlier
        longer/shorter |
        wider/narrower thicker/thinner cleaner/dirtier harder/softer warmer/cooler""",
    "opposite grade": """taller/shorter faster/slower older/younger happier/sadder |
        stronger/weaker richer/poorer kinder/crueler calmer/wilder""",
    "opposite trade": """bought/from/sold/to borrowed/from/lent/to received/from/gave/to |
        inherited/from/bequeathed/to won/from/lost/to obtained/from/supplied/to""",
    "opposite part": """boss/employee parent/child landlord/tenant |
        host/guest mentor/pupil captor/prisoner""",
    "opposite pole": "north/south | east/west",
    "opposite side": """behind/in_front_of above/below over/under |
        behind/in_front_of above/below over/under""",
}
THINGS = ("furniture", "instrument", "garment", "tool", "container")

# A frame: what x and y are, wording 0, wording 1. Meaning 1 is meaning 0 with x and y exchanged. A
# slot is a table or one of SLOTS, filled once for all four sentences; {noun 2} is another noun.
# ("time", "claim") makes x a word of each and y two empty strings: what x says is there or not.
FRAMES = {
    "roles": (    # who did it to whom; harmless: "when" in front, gave y a hat = gave a hat to y
        ("event", "{x} {event.past} {y} {when}", "{when}, {x} {event.past} {y}"),
        ("people", "{x} {give.past} {y} {thing} {when}", "{x} {give.past} {thing} to {y} {when}"),
        ("unnamed", "{x} who {treat.past} {y} {act} {when}",
         "{when}, {x} who {treat.past} {y} {act}"),
        ("unnamed", "{x} who {y} {treat.past} {act} {when}",
         "{when}, {x} who {y} {treat.past} {act}")),
    "voice": (    # the same, told in the active and in the passive, or in the passive twice
        ("event", "{x} {event.past} {y} {when}", "{y} {was} {event.participle} by {x} {when}"),
        ("event", "{x} will {event.base} {y} {where}",
         "{y} will be {event.participle} by {x} {where}"),
        ("event", "{x} {has} {event.participle} {y} {where}",
         "{y} {has} been {event.participle} by {x} {where}"),
        ("event", "{y} {was} {event.participle} by {x} {when}",
         "{when}, {y} {was} {event.participle} by {x}"),
        ("people", "{x} {give.past} the {noun} to {y}",
         "the {noun} was {give.participle} to {y} by {x}")),
    "prepositions": (    # which noun hangs on which preposition; harmless: phrases in another order
        ("city", "{who} {travel} from {x} to {y} {time}", "{who} {travel} to {y} from {x} {time}"),
        ("city", "{who} {travel} from {x} to {y}", "from {x}, {who} {travel} to {y}"),
        ("thing", "{x} {stand} {opposite side[0]} {y}", "{opposite side[0]} {y} {stand} {x}"),
        ("thing", "{who} {get.past} {x} instead of {y}", "instead of {y}, {who} {get.past} {x}"),
        ("thing", "{who} {come} with {x} but without {y}", "{who} {come} without {y} but with {x}"),
        ("who", "{who} {errand} to {x} for {y}", "for {y}, {who} {errand} to {x}")),
    "numbers": (    # how many of what; harmless: digits or words, two counts in another order
        ("number", "{who} {get.past} {x} {nouns} {when}",
         "{who} {get.past} {x:words} {nouns} {when}"),
        ("number", "{who} {get.past} {x} {nouns} {when}",
         "{when}, {who} {get.past} {x:words} {nouns}"),
        ("number", "{who} {get.past} {x} {nouns} and {y} {nouns 2}",
         "{who} {get.past} {y} {nouns 2} and {x} {nouns}"),
        ("number", "the {noun} {cost} {x} {unit} and the {noun 2} {cost} {y} {unit}",
         "the {noun 2} {cost} {y:words} {unit} and the {noun} {cost} {x:words} {unit}")),
    "synonyms": (    # x and y are rows of two synonyms, antonyms of each other or any two
        ("same action", "{who} {x[0]} {thing} {when}", "{who} {x[1]} {thing} {when}"),
        ("same action", "{who} {x[0]} {thing} {when}", "{when}, {who} {x[1]} {thing}"),
        ("same thing", "{who} {get.past} the {x[0]} {when}", "{when}, {who} {get.past} the {x[1]}"),
        ("same human", "the {x[0]} {treat.past} {who} {when}",
         "the {x[1]} {treat.past} {who} {when}"),
        ("same human", "{who} {treat.past} the {x[0]} {when}",
         "{when}, {who} {treat.past} the {x[1]}"),
        ("same look", "{who} {get.past} the {x[0]} {noun} {when}",
         "{who} {get.past} the {x[1]} {noun} {when}"),
        ("same look", "the {noun} in the {place} was {x[0]}",
         "the {noun} in the {place} was {x[1]}"),
        ("same trait", "the {x[0]} {person} {treat.past} {who}",
         "the {x[1]} {person} {treat.past} {who}"),
        ("same trait", "the {person} from {city} was {x[0]}",
         "the {person} from {city} was {x[1]}")),
    "antonyms": (    # told from the other end; synonyms, lest a new word mean the other end
        ("thing", "{x} was {opposite measure[0]} than {y}",
         "{y} was {opposite measure[1]} than {x}"),
        ("thing", "{x} was {same measure[0]} than {y}", "{x} was {same measure[1]} than {y}"),
        ("people", "{x} {was} {opposite grade[0]} than {y}",
         "{y} {was} {opposite grade[1]} than {x}"),
        ("people", "{x} {was} {same grade[0]} than {y}", "{x} {was} {same grade[1]} than {y}"),
        ("who", "{x} {opposite trade[0]} {thing} {opposite trade[1]} {y}",
         "{y} {opposite trade[2]} {thing} {opposite trade[3]} {x}"),
        ("who", "{x} {same trade[0]} {thing} {same trade[1]} {y}",
         "{x} {same trade[2]} {thing} {same trade[3]} {y}"),
        ("who", "{x} was the {opposite part[0]} of {y}", "{y} was the {opposite part[1]} of {x}"),
        ("thing", "{x} was {opposite side[0]} {y}", "{y} was {opposite side[1]} {x}"),
        ("place", "the {x} was {opposite pole[0]} of the {y}",
         "the {y} was {opposite pole[1]} of the {x}"),
        ("people", "{x} {act} before {y} {when}", "{y} {act} after {x} {when}")),
    "modifiers": (    # dropped: one that matters, or an assertion; exchanged; "only" moved
        (("adjective", "assertion"), "{who} {x[1]} {get.past} the {x[0]} {noun} {where}",
         "{who} {y[1]} {get.past} the {x[0]} {noun} {where}"),
        (("manner", "assertion"), "{who} {x[1]} {work.past} {thing} {x[0]}",
         "{who} {y[1]} {work.past} {thing} {x[0]}"),
        (("adverb", "assertion"), "{x[1]} {who} {x[0]} {get.past} {thing}",
         "{y[1]} {who} {x[0]} {get.past} {thing}"),
        (("time", "claim"), "{x[1]} {who} {get.past} {thing} {x[0]}",
         "{y[1]} {who} {get.past} {thing} {x[0]}"),
        (("focus",), "{x[0]} {who} {treat.past} {y[0]} {who 2} {when}",
         "{when}, {x[0]} {who} {treat.past} {y[0]} {who 2}"),
        ("mood", "the {x} {person} {treat.past} the {y} {person 2}",
         "the {y} {person 2} was {treat.participle} by the {x} {person}"),
        ("mood", "the {x} {person} {treat.past} the {y} {person 2} {when}",
         "{when}, the {x} {person} {treat.past} the {y} {person 2}"),
        ("adjective", "the {x} {noun} {stand} behind the {y} {noun 2}",
         "behind the {y} {noun 2} {stand} the {x} {noun}")),
}
SLOTS = {      # slots that are more than one entry of one table; w: a World
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
# Split -> its side of "|", squares of each phenomenon
TOY_SPLITS = {"train": (0, 200), "dev": (0, 30), "dev_unseen": (1, 30), "test": (0, 30),
              "test_unseen": (1, 30)}
ONES = """_ one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen""".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


class Verb(NamedTuple):
    """The three forms that frames write as {v.base}, {v.past}, {v.participle}."""
    base: str
    past: str
    participle: str


class Number(int):
    """A number from 2 to 99 that a slot {x} writes in digits and {x:words} in words."""

    def __format__(self, spec):
        if spec != "words":
            return str(self)
        if self < 20:
            return ONES[self]
        return TENS[self // 10] + (f"-{ONES[self % 10]}" if self % 10 else "")


def read_entry(table, text):
    """One entry of VOCABULARY: a word, a Verb where the table holds verbs, or a tuple of words."""
    words = tuple(text.replace("_", " ").split("/"))
    if table in VERBS:
        past = words[0] + ("d" if words[0].endswith("e") else "ed")
        return Verb(*words) if len(words) == 3 else Verb(words[0], past, past)
    return words if len(words) > 1 else words[0]


def read_words():
    """Dict table -> (seen entries, unseen entries) of VOCABULARY, and of the table "number"."""
    words = {}
    for table, text in VOCABULARY.items():
        words[table] = tuple(tuple(read_entry(table, entry) for entry in side.split())
                             for side in text.split("|"))
    unseen = [n for n in range(21, 100) if n % 10 and (n // 10 + n % 10) % 3 == 0]   # of seen parts
    seen = [n for n in range(2, 100) if n not in unseen]
    words["number"] = tuple(map(Number, seen)), tuple(map(Number, unseen))
    return words


WORDS = read_words()


def read_rows(kind):
    """Pairs of words out of the tables "same ..." or "opposite ...": first and middle of a row."""
    tables = [WORDS[table] for table in WORDS if table.startswith(kind)]
    return [(row[0], row[len(row) // 2]) for sides in tables for side in sides for row in side]


def read_lexicon():
    """LEXICON out of the word tables; antonyms are closed under synonymy."""
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


# What is true of words in the toy world: relation -> pairs, verbs in the past, nouns in the
# singular. hypernym is (specific, general), the others are symmetric; antonym includes converses
# (bought, sold).
LEXICON = read_lexicon()
OPPOSITES = frozenset(map(frozenset, LEXICON["antonym"]))


class World(dict):
    """The slots of a square, filled when first asked for, no word twice. side: 0 seen, 1 unseen."""

    def __init__(self, rng, side):
        self.rng, self.side, self.used, self.many = rng, side, set(), rng.random() < 0.2

    def __missing__(self, slot):
        self[slot] = self.fill_slot(slot.removesuffix(" 2"))
        return self[slot]

    def fill_slot(self, kind):
        """A new filling of a slot: what SLOTS makes, or an entry of the table."""
        return SLOTS[kind](self) if kind in SLOTS else self.draw_entry(kind)

    def draw_entry(self, *tables):
        """An unused entry of the tables; a row of two in random order."""
        entry = self.rng.choice([entry for table in tables for entry in WORDS[table][self.side]
                                 if entry not in self.used])
        self.used.add(entry)
        return self.rng.sample(entry, 2) if isinstance(entry, tuple) and len(entry) == 2 else entry

    def noun_phrase(self, noun, *adjectives):
        """An article, in three of ten cases an adjective of the tables, and the noun."""
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
        """x and y of a frame. Half the rows and numbers are close (see `are_close`)."""
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
    """Are they numbers that share a digit, or rows of words that are opposites?"""
    if isinstance(x, Number):
        return x != y and bool(set(str(x)) & set(str(y)))
    return not isinstance(x, str) and frozenset((x[0], y[0])) in OPPOSITES


def draw_square(phenomenon, world, taken):
    """Four new sentences of 5 to 14 words, which `taken` receives: for each meaning, [its wording
    0, its wording 1]; or None if the draw gave others.
    """
    kind, *wordings = world.rng.choice(FRAMES[phenomenon])
    x, y = world.draw_x_and_y(kind)
    square = []
    for first, second in ((x, y), (y, x)):
        world.update(x=first, y=second)
        texts = [" ".join(wording.format_map(world).split()) for wording in wordings]
        square.append([text[0].upper() + text[1:] + "." for text in texts])
    texts = {*square[0], *square[1]}
    long = any(not 5 <= len(text.split()) <= 14 for text in texts)
    if long or len(texts) < 4 or not taken.isdisjoint(texts):
        return None
    taken.update(texts)
    return square


def draw_squares(count, phenomenon, rng, side, taken):
    """So many squares of a phenomenon. Returns: list of lists of four Pairs; half have label 1."""
    squares = []
    while len(squares) < count:
        square = draw_square(phenomenon, World(rng, side), taken)
        swapped = rng.choice((False, True))
        if square:
            squares.append([])
            for m, n in itertools.product((0, 1), repeat=2):
                a, b = square[m][0], square[n][1]
                a, b = (b, a) if swapped else (a, b)
                squares[-1].append(Pair(a, b, int(m == n), phenomenon))
    return squares


def toy_task():
    """The generated diagnostic: train, dev and test with the same words, dev_unseen and test_unseen
    with nouns, names, verbs, adjectives and lexical pairs that training never shows.

    The pairs are always the same. No sentence occurs in two squares, so none in two splits.
    Returns: (Task, dict split -> list of Pair).
    """
    taken, splits = set(), {}
    for split, (side, count) in TOY_SPLITS.items():
        rng, squares = random.Random(f"0 {split}"), []
        for phenomenon in FRAMES:
            squares += draw_squares(count, phenomenon, rng, side, taken)
        rng.shuffle(squares)             # so that the first pairs are a fair sample
        splits[split] = sum(squares, [])
    return Task("toy", ("different", "same"), ("accuracy",), block=4), splits
