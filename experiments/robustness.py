"""How well a trained run stands the robustness tests of the papers.

    python -m experiments.robustness RUN
    python -m experiments.robustness RUN --translations FILE

prints the task's first metric on the pairs of a labelled split before and after each
transformation, on exactly those pairs that it changed, and writes RUN/robustness.json.

The tests are those of DABERT's Table 3 and the knowledge paper's Table 3, which ran TextFlint (T.
Gui et al., "TextFlint", 2021). Names and ideas are TextFlint's. Definitions, sentences, word lists
and code are ours: do not compare numbers with the papers'. NumWord changes a number, as DABERT says
("changing numbers in text"); the knowledge paper speaks of "replacing numbers with words".

    SwapAnt       a, and a with a word turned into its antonym     a denial
    NumWord       a, and a with a number turned into another       a denial
    AddSent       a truism behind a                                the label stays, as in all below
    InsertAdv     "indeed" or its like before a verb
    AppendIrr     one irrelevant sentence behind a and b
    AddPunc       punctuation around a and b
    BackTrans     a and b as they came back from another language
    TwitterType   a and b spelled as on Twitter
    SwapNamedEnt  a name of a and b turned into another in both
    SwapSyn       b with a word turned into a synonym

Left out: transformations that need a language model, or a label that nobody can know afterwards.
"""

import functools
import random
import re
import sys
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from tqdm import tqdm

import train
from experiments.influence import add_run_options
from priors import FUNCTION_WORDS, WordNet
from support import machine
from support.data import answers, evaluate, load_pairs, read_table, split_own
from support.files import write_json
from support.options import Arguments, prefix_errors, refuse, run_command
from support.parser import load_parser
from support.parses import parse_texts
from support.summary import align_columns
from support.toy import Number

# An edit is a function (texts, rng, given) -> texts: of one sentence or both of a pair, with a
# random.Random and what is `Given`.


class Word(NamedTuple):
    """A word of a parsed text: its place, universal tag ("" where words share it) and relation."""
    start: int
    end: int
    text: str
    tag: str
    relation: str


NO_WORD = Word(0, 0, "", "", "")


class Given:
    """What a transformation may look at besides the texts of one pair.

    parses: dict text -> Parse, of the whole data set. wordnet: nltk's. translations: dict text ->
    text.
    """

    def __init__(self, parses, wordnet, translations):
        self.parses, self.translations = parses, translations
        self.thesaurus = wordnet and Thesaurus(wordnet)

    def words(self, text):
        """The Words of a text."""
        parse, found = self.parses[text], []
        spans = [tuple(span) for span in parse.spans.tolist()]
        times = Counter(spans)
        for span, word, tag, relation in zip(spans, parse.words, parse.tags, parse.relations):
            tag = tag if times[span] == 1 else ""                   # du = de + le
            found.append(Word(*span, word, tag, relation))
        return found

    @functools.cached_property
    def names(self):
        """Dict name_kind -> sorted names of the data set; set of those that "in" stands before."""
        found = [name for text in self.parses for name in find_names(self.words(text), text)]
        kinds, places = {}, {name.text for name in found if name.before.lower() == "in"}
        for text in sorted({name.text for name in found}):
            kinds.setdefault(name_kind(text, places), []).append(text)
        return kinds, places


def edit_each_text(edit):
    """Makes of edit(text, rng, given) -> text a function that edits every text of a list."""
    def edit_texts(texts, rng, given):
        return [edit(text, rng, given) for text in texts]
    return edit_texts


def replace_word(text, word, new):
    """The text with `new` in the place of a Word, its first letter in the case that was there."""
    new = new[:1].upper() + new[1:] if word.text[:1].isupper() else new
    return text[:word.start] + new + text[word.end:]


def replace_one_word(text, options, rng):
    """The text with one word replaced. options: list of (Word, list of what may stand there)."""
    if not options:
        return text
    word, found = rng.choice(options)
    return replace_word(text, word, rng.choice(found))


def fits_behind(before, word):
    """May `word` stand behind this one? Not behind a and an where spelling leaves its sound open
    (hour, unit, FBI).

    >>> [fits_behind("a", "good"), fits_behind("an", "good"), fits_behind("an", "18")]
    [True, False, True]
    >>> [fits_behind("a", "unit"), fits_behind("the", "unit")]
    [False, True]
    """
    if before.lower() not in ("a", "an"):
        return True
    unclear = re.match(r"[hu]|eu|onc?e\b|[^a-z]", word.lower()) or word.isupper()
    if unclear and not re.match("[0-9]", word):
        return False
    vowel = bool(re.match("[aeio]|8|1[18](?![0-9])", word.lower()))
    return vowel == (before.lower() == "an")


# ------------------------------------------------------------------- a word for another, of WordNet

POS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
ENDINGS = {"n": ("", "s"), "v": ("", "s", "ed", "ing"), "a": ("", "er", "est"), "r": ("",)}
# No pair is made of these: verbs whose past or participle looks like their base; words that need
# others around them, or mean their first sense in no news (minister: a clergyman).
LEFT_ALONE = FUNCTION_WORDS | frozenset("""
    beat become bet bid burst cast come cost cut fit forecast hit hurt let overcome put quit read
    rid run set shed shut slit split spread thrust upset wed wet ever first never other percent
    percentage same second well chief composite group intelligence key minister person""".split())
COMMON = 3       # SemCor, the sample WordNet was tagged on, must have a word so often in a sense


class Thesaurus:
    """Synonyms and antonyms of words in the form they have in a sentence, out of nltk's WordNet.

    Assumes: a word means its first sense, the most frequent. Synonyms share the first sense of
        both, which makes up 4/5 of what SemCor has of either; adverbs end in -ly, no noun in s.
        Antonyms are direct ones. Both must be COMMON.
        Inflection: bases, ENDINGS where regular, and irregular forms where WordNet has one for that
        ending (wives, stopped, bigger). The rest is left alone (rose and risen, told, more
        beautiful, found of find and found).
    """

    def __init__(self, wordnet):
        self.wordnet = wordnet
        self.irregular = {pos: {} for pos in ENDINGS}                  # pos -> base -> forms
        for pos, irregular in self.irregular.items():
            for form, bases in wordnet._exception_map[pos].items():
                for base in bases:
                    irregular.setdefault(base, []).append(form)

    @functools.cache
    def find_words(self, word, tag, antonyms):
        """Antonyms, or else synonyms, of a lower-case word with a universal tag; sorted."""
        pos = POS.get(tag)
        base, ending = self.split_form(word, pos) if pos else (None, "")
        if not base:
            return []
        bases = self.antonyms(base, pos) if antonyms else self.synonyms(base, pos)
        return sorted({self.inflect(other, ending, pos) for other in bases} - {None, word})

    def antonyms(self, base, pos):
        """Antonyms of a base."""
        lemmas = self.wordnet.synset(f"{base}.{pos}.01").lemmas()
        found = [other for lemma in lemmas if lemma.name() == base for other in lemma.antonyms()]
        return [other.name() for other in found
                if is_plain(other.name()) and other.count() >= COMMON]

    def synonyms(self, base, pos):
        """Synonyms of a base."""
        sense, found = self.wordnet.synset(f"{base}.{pos}.01"), []
        for name in sense.lemma_names():
            alike = {"n": name[-1] != "s", "r": base[-2:] == name[-2:] == "ly"}.get(pos, True)
            if (alike and name != base and is_plain(name)
                    and self.means(base, pos, sense) and self.means(name, pos, sense)):
                found.append(name)
        return found

    def means(self, base, pos, sense):
        """Is this the first sense of the base, COMMON, and 4/5 of its uses?"""
        senses = [s for s in self.wordnet.synsets(base, pos) if base in s.lemma_names()]
        counts = [sum(lemma.count() for lemma in s.lemmas() if lemma.name() == base)
                  for s in senses]
        return senses[:1] == [sense] and counts[0] >= max(COMMON, 4 * sum(counts[1:]))

    def is_expression(self, *words):
        """Are the words an expression of WordNet's, such as prime minister?"""
        return all(words) and bool(self.wordnet.synsets("_".join(words).lower()))

    def split_form(self, word, pos):
        """(base, ending) of a word, (None, "") where that is not certain."""
        bases = self.wordnet._morphy(word, pos)
        if word in bases and pos in "ar":
            bases = [word]
        found = [(base, ending) for base in bases for ending in ENDINGS[pos]
                 if self.inflect(base, ending, pos) == word]
        certain = len(bases) == len(found) == 1 and bases[0] not in LEFT_ALONE
        return found[0] if certain else (None, "")

    def inflect(self, base, ending, pos):
        """The base with an ending, or None where it may be irregular."""
        if not ending:
            return base
        irregular = self.irregular[pos].get(base, [])
        found = [form for form in irregular
                 if pos == "n" or form.endswith(ending) and ending != "s"]
        if found:
            return found[0] if len(found) == 1 else None
        if ending == "s":
            return add_s(base)
        if ending == "ed" and irregular:
            return None
        if ending == "ing":
            return re.sub("(?<![eoyi])e$", "", base) + ending
        if pos == "a" and len(re.findall("[aeiouy]+", base.removesuffix("e"))) > 1:
            return None                                                # more beautiful
        return re.sub("(?<![aeiou])y$", "i", base).removesuffix("e") + ending


def add_s(base):
    """The plural of a noun, the third person of a verb; None for those in -o (autos, heroes)."""
    if re.search("[^aeiou]o$", base):
        return None
    if re.search("(wo|[^aiou])man$", base):                            # no humen
        return base[:-2] + "en"
    ending = "es" if re.search("(s|x|z|ch|sh)$", base) else "s"
    return re.sub("(?<![aeiou])y$", "ie", base) + ending


def is_plain(name):
    """Is a lemma of WordNet one word, no name, no abbreviation, and not LEFT_ALONE?"""
    return bool(re.fullmatch("[a-z]*[aeiou][a-z]*", name)) and name not in LEFT_ALONE


def swap_word(text, rng, given, antonyms):
    """A word becomes its antonym, or else a synonym.

    No name and no part of an expression is swapped, and none comes in that is there already.
    """
    words, thesaurus = given.words(text), given.thesaurus
    texts, options = ["", *(word.text for word in words), ""], []
    present = {other.lower() for other in texts}
    for before, word, after in zip(texts, words, texts[2:]):
        first = not before and word.text.istitle() and not after[:1].isupper()
        part = word.relation.partition(":")[0] in ("fixed", "flat", "compound")
        if part or not (first or word.text.islower()):
            continue
        found = [new for new in thesaurus.find_words(word.text.lower(), word.tag, antonyms)
                 if new not in present and fits_behind(before, new)]
        if found and not (thesaurus.is_expression(before, word.text)
                          or thesaurus.is_expression(word.text, after)):
            options.append((word, found))
    return replace_one_word(text, options, rng)


swap_antonym = edit_each_text(functools.partial(swap_word, antonyms=True))
swap_synonym = edit_each_text(functools.partial(swap_word, antonyms=False))


# ----------------------------------------------------------------------------------------- numbers

NUMBERS = {f"{Number(n):words}": n for n in range(2, 100)}
# Behind one of these another number may be true as well: at least three people are at least two.
BOUNDS = frozenset("""as least most than over under above below beyond up minimum maximum exceed
    exceeds exceeded exceeding between""".split())


@edit_each_text
def change_number(text, rng, given):
    """A number becomes another.

    None up to three words behind one of BOUNDS, or right before "or" (two or more). Assumes: counts
    and dates are exact; "two men left" is false where three did.
    """
    words, options = given.words(text), []
    texts = [word.text.lower() for word in words]
    for i, word in enumerate(words):
        after = words[i + 1].text if i + 1 < len(words) else ""
        bounded = not BOUNDS.isdisjoint(texts[max(0, i - 3):i]) or after == "or"
        if word.tag != "NUM" or bounded:
            continue
        before = texts[i - 1] if i else ""
        found = [new for new in other_numbers(word.text)
                 if new not in texts and fits_behind(before, new)]
        if found:
            options.append((word, found))
    return replace_one_word(text, options, rng)


def other_numbers(word):
    """Numbers like a number word or a number in digits, none below 2; [] for any other word.

    And for one, which is also a pronoun; what it counts stands in the singular.

    >>> other_numbers("2001")[:3], other_numbers("4.50")[:3], other_numbers("1")
    (['2000', '2002', '2003'], ['2.50', '3.50', '5.50'], [])
    >>> other_numbers("Thirty")[:3]
    ['twenty', 'forty', 'fifty']
    """
    digits = r"0\.[0-9]+|[1-9][0-9]{0,2}((,[0-9]{3})+|[0-9]*)(\.[0-9]+)?"
    if n := NUMBERS.get(word.lower()):
        found = [f"{Number(m):words}" for m in (range(2, 13) if n < 20 else range(20, 100, 10))]
    elif word == "1" or not re.fullmatch(digits, word):
        found = []
    elif re.fullmatch("(1[5-9]|20)[0-9][0-9]", word):                  # like a year
        found = [word[:3] + digit for digit in "0123456789"]
    elif len(word) < 3 and int(word) < 32:                             # like a day of a month
        found = [str(m) for m in range(2, 29)]
    else:
        found = [digit + word[1:] for digit in "23456789"]
    return [other for other in found if other != word.lower()]


# ------------------------------------------------------------------------------------------- names

CALENDAR = re.compile(
    r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|(January|February|March|April|May|June|July|August|"
    r"September|October|November|December)|(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.")


class Name(NamedTuple):
    """A name in a text: its place, and the word before it or ""."""
    start: int
    end: int
    text: str
    before: str


def name_kind(name, places):
    """What names have in common that may replace each other.

    Days, months; for others: a place or not, how many words, which of them acronyms (FBI), which
    with a full stop (Inc.).
    """
    if found := CALENDAR.match(name):
        return found.lastindex, name.count(" ")
    words = name.split(" ")
    return name in places, *((len(word) > 1 and word.isupper(), word[-1] == ".") for word in words)


def find_names(words, text):
    """Runs of words tagged PROPN, parted by one space. Returns: list of Name

    Left out: hyphens and digits, and what may be half a name, beside a capital letter, "&" or "of".
    """
    names, first = [], 0
    for i, word in enumerate(words):
        after = words[i + 1] if i + 1 < len(words) else NO_WORD
        if word.tag == after.tag == "PROPN" and text[word.end:after.start] == " ":
            continue
        run, before = words[first:i + 1], words[first - 1] if first else NO_WORD
        first = i + 1
        proper = word.tag == "PROPN" and all(map(is_proper, run))
        if proper and not is_half(before.text, after.text):
            start, end = run[0].start, word.end
            names.append(Name(start, end, text[start:end], before.text))
    return names


def is_proper(word):
    """Is a Word made of letters, the first a capital, with no more than ' . & between them?"""
    return word.text[0].isupper() and bool(
        re.fullmatch(r"[^\W\d_](['’&.]?[^\W\d_])*\.?", word.text))


def is_half(before, after):
    """May a name between these words be half a name?"""
    joined = before[:1].isupper() and before.lower() not in FUNCTION_WORDS or after[:1].isupper()
    return joined or "&" in (before, after) or after == "of"


def swap_name(texts, rng, given):
    """A name in both texts becomes another, in every place.

    No part of it stands elsewhere (Iraq in Iraqi), and none of the new one does.

    Assumes: a run of words tagged PROPN is a name; the label hangs on nothing that is known of its
    bearer. TextFlint renames in each sentence by itself; then nobody knows the label.
    """
    names = [find_names(given.words(text), text) for text in texts]
    (kinds, places), whole, options = given.names, " ".join(texts).lower(), []
    for old in sorted(set.intersection(*({name.text for name in found} for found in names))):
        here = [[name for name in found if name.text == old] for found in names]
        rest = [replace_names(text, found, "") for text, found in zip(texts, here)]
        if has_part(" ".join(rest).lower(), old):
            continue
        befores = {name.before for found in here for name in found}
        news = [new for new in kinds[name_kind(old, places)] if not has_part(whole, new)
                and all(fits_behind(before, new) for before in befores)]
        if news:
            options.append((here, news))
    if not options:
        return texts
    here, news = rng.choice(options)
    new = rng.choice(news)
    return [replace_names(text, found, new) for text, found in zip(texts, here)]


def has_part(text, name):
    """Does a word of the name stand anywhere in a lower-case text?"""
    return any(part in text for part in name.lower().split())


def replace_names(text, names, new):
    """The text with `new` in the place of each Name."""
    for name in reversed(names):
        text = text[:name.start] + new + text[name.end:]
    return text


# ------------------------------------------------------------------- something beside what is said

ADVERBS = "actually", "indeed", "in fact", "certainly", "truly", "surely"   # true of what is true
NEGATIONS = frozenset("""no not n't never none nobody nothing neither nor without hardly
    barely""".split())
CLAUSES = "root", "ccomp", "conj", "advcl", "acl:relcl", "parataxis"        # of verbs with subjects
SUBJECTS = "NOUN", "PROPN", "PRON", "AUX", "ADV", "CCONJ", "PUNCT"          # tags right before them
# True whatever is true: of a text and one of these follows what follows of the text, and no more.
TRUISMS = (
    "What is done is done.", "A rule is a rule.", "Things are what they are.",
    "Whatever happens happens.", "Those who know know.", "Either it is so or it is not.")
IRRELEVANT = (
    "The soup was still too hot to eat.", "Nobody had watered the ferns since spring.",
    "My aunt keeps her buttons in a biscuit tin.", "The choir rehearsed until the lamps went out.",
    "A snail crossed the garden path after the rain.",
    "Her left glove was under the piano all along.",
    "The lighthouse keeper whistled while he peeled potatoes.",
    "Our kite got stuck in a chestnut tree.")
MARKS = ("", "!!"), ("", " ..."), ("", " --"), ("... ", ""), ("-- ", ""), ("(", ")"), ("* ", " *")
TWITTER = dict(pair.split("=") for pair in """
    you=u your=ur are=r and=& with=w/ without=w/o because=bc people=ppl please=pls before=b4
    great=gr8 tomorrow=tmrw tonight=2nite about=abt government=govt though=tho although=altho
    through=thru thanks=thx really=rly something=smth someone=some1 everyone=every1
    probably=prolly later=l8r between=btwn would=wld could=cld should=shd months=mths
    weeks=wks years=yrs minutes=mins friends=frnds message=msg picture=pic pictures=pix
    love=luv what=wut says=sez""".split())


@edit_each_text
def insert_adverb(text, rng, given):
    """One of ADVERBS stands before the verb of a clause.

    Not behind a negation, whose scope it would change.
    """
    words, places = given.words(text), []
    for before, word in zip(words, words[1:]):
        if before.text.lower() in NEGATIONS:
            break
        apart = before.tag in SUBJECTS and text[before.end:word.start] == " "
        if apart and word.tag == "VERB" and word.relation in CLAUSES and word.text.islower():
            places.append(word.start)
    adverbs = [adverb for adverb in ADVERBS if adverb not in text.lower()]
    if not places or not adverbs:
        return text
    place = rng.choice(places)
    return f"{text[:place]}{rng.choice(adverbs)} {text[place:]}"


def surround_text(text, before, after):
    """The text with something right before and behind it; any space at its end comes after that."""
    body = text.strip()
    return text.replace(body, f"{before}{body}{after}", 1) if body else text


def append_sentence(text, sentence):
    """The text, closed by a full stop if it is open, and a sentence behind it."""
    closed = re.search(r"""[.!?…"'’”)\]]\s*$""", text)
    return surround_text(text, "", f"{'' if closed else '.'} {sentence}")


@edit_each_text
def append_truism(text, rng, given):
    """One of TRUISMS stands behind it."""
    return append_sentence(text, rng.choice(TRUISMS))


def append_irrelevant(texts, rng, given):
    """One of IRRELEVANT stands behind every text, the same one.

    How alike the texts are otherwise decides, as before. A sentence that shares a longer word with
    them is not irrelevant.
    """
    used = set(re.findall(r"\w{4,}", " ".join(texts).lower()))
    found = [new for new in IRRELEVANT if used.isdisjoint(re.findall(r"\w{4,}", new.lower()))]
    if not found or not all(text.strip() for text in texts):
        return texts
    new = rng.choice(found)
    return [append_sentence(text, new) for text in texts]


@edit_each_text
def add_punctuation(text, rng, given):
    """Some of MARKS stand around it."""
    return surround_text(text, *rng.choice(MARKS))


@edit_each_text
def spell_as_on_twitter(text, rng, given):
    """Words are spelled as in TWITTER: all in lower case, and the first."""
    for found in reversed(list(re.finditer(r"(?<![\w'’@#./&-])\w+(?![\w'’/&-])", text))):
        old, (start, end) = found[0], found.span()
        first = old.istitle() and not text[:start].strip()
        if old.lower() in TWITTER and (first or old.islower()):
            text = replace_word(text, Word(start, end, old, "", ""), TWITTER[old.lower()])
    return text


@edit_each_text
def translate_back(text, rng, given):
    """What came back from another language, where that is more than other capitals and spaces."""
    new = given.translations.get(text, text)
    return text if new.casefold().split() in ([], text.casefold().split()) else new


def read_translations(path):
    """For BackTrans: dict sentence -> translation.

    path: a .tsv or .csv file with the header sentence, translation.
    """
    rows = read_table(path, split_own(path), ("sentence", "translation"))
    return {row["sentence"]: row["translation"] for _, row in rows}


# -------------------------------------------------------------------------------------- the labels

KEEPS, DENIES = "keeps", "makes it"
DENIALS = "contradiction", "not_entailment", "neutral", "different", "0"   # the first of the task's
KEPT = {"paraphrase": KEEPS, "inference": KEEPS}
DENIED = {"paraphrase": DENIES, "inference": DENIES}
ALWAYS_KEPT = KEPT | {"other": KEEPS}


class Transformation(NamedTuple):
    """An edit of the sentences of a pair, and what becomes of the label.

    edit: function (texts, rng, given) -> texts. sides: the sentences that it edits, or "aa": a and
    the edited a become the pair. labels: kind of task (see `task_kind`) -> what becomes of the
    label; refused for another kind. needs: what `transform` must be given.

    KEEPS: the pair still says what it said, in other words or with something beside it. DENIES: the
    second sentence denies the first, whatever the pair was; the label is the one that a task has
    for that. Assumes: an antonym denies. Not always: old antibiotics may fail as the new ones did.
    The two are no paraphrases and neither entails the other, so this is a doubt of tasks with the
    class contradiction.
    """
    edit: object
    sides: str
    labels: dict
    needs: tuple = ()


TRANSFORMATIONS = {
    "SwapAnt": Transformation(swap_antonym, "aa", DENIED, ("parses", "lexicon")),
    "NumWord": Transformation(change_number, "aa", DENIED, ("parses",)),
    "AddSent": Transformation(append_truism, "a", {"inference": KEEPS}),
    "InsertAdv": Transformation(insert_adverb, "ab", ALWAYS_KEPT, ("parses",)),
    "AppendIrr": Transformation(append_irrelevant, "ab", KEPT),
    "AddPunc": Transformation(add_punctuation, "ab", ALWAYS_KEPT),
    "BackTrans": Transformation(translate_back, "ab", ALWAYS_KEPT, ("translations",)),
    "TwitterType": Transformation(spell_as_on_twitter, "ab", ALWAYS_KEPT),
    "SwapNamedEnt": Transformation(swap_name, "ab", ALWAYS_KEPT, ("parses",)),
    "SwapSyn": Transformation(swap_synonym, "b", ALWAYS_KEPT, ("parses", "lexicon")),
}


def task_kind(task):
    """"inference" or "paraphrase", by the names of the classes, or "other".

    Other are scores, qnli, whose pairs are question and answer, and further names in the user's own
    files. Assumes: of classes 0 and 1, 1 is for paraphrases.
    """
    names = {label.casefold() for label in task.labels}
    if names & {"entailment", "entails"} and names & set(DENIALS) and task.name != "qnli":
        return "inference"
    return "paraphrase" if names in ({"0", "1"}, {"different", "same"}) else "other"


def denial_label(task):
    """Name of the class for a pair whose second sentence denies the first."""
    names = {label.casefold(): label for label in task.labels}
    return next(names[denial] for denial in DENIALS if denial in names)


def label_rule(name, task):
    """What a transformation does to the labels of a task, "" where it is refused.

    "keeps", or "makes it contradiction", or whatever the class is called.
    """
    rule = TRANSFORMATIONS[name].labels.get(task_kind(task), "")
    return f"{DENIES} {denial_label(task)}" if rule == DENIES else rule


def transform(name, task, pairs, seed=0, parses=None, lexicon=None, translations=None):
    """Pairs changed by one of TRANSFORMATIONS, where they do change and the new label is known.

    What becomes of a pair depends on the seed, its own texts, and for names on the texts in parses;
    never on the other pairs.

    Args: parses, lexicon, translations: where the transformation needs them, a dict text -> Parse
        of the whole data set, a priors.WordNet, a dict text -> text.
    Returns: list of (index of the original in pairs, new Pair), in order.
    Raises: ValueError for one that is refused for this task.
    """
    (edit, sides, _, needs), rule = TRANSFORMATIONS[name], label_rule(name, task)
    refuse(not rule, f"transform: {name} says nothing of the labels of {task.name}")
    given, changed = Given(parses, "lexicon" in needs and lexicon.wordnet, translations), []
    for index, pair in enumerate(pairs):
        rng = random.Random(f"{seed} {name} {pair.a!r} {pair.b!r}")
        old = [getattr(pair, side) for side in sides.replace("aa", "a")]
        new = edit(old, rng, given)
        edited = replace(pair, **dict(zip(sides.replace("aa", "b"), new)))
        if new == old or edited == pair:       # nothing to change, or the pair is there already
            continue
        if rule != KEEPS:
            edited = replace(edited, label=task.labels.index(denial_label(task)))
        if edited.label is not None:
            changed.append((index, edited))
    return changed


# ------------------------------------------------------------------------------------- the command

def measure_robustness(run, splits, translations=None):
    """The main metric of a run before and after each of TRANSFORMATIONS, on the pairs it changed.

    Args:
        run: what train.open_run gives. Its own parses are forgotten: changed sentences have none.
        splits: dict split -> list of Pair. Measured on test, or on the split for selection where
            test has no labels.
        translations: dict text -> text, see `read_translations`; without it BackTrans is left out.
    Returns: what RUN/robustness.json says.
    """
    split = next((name for name, pairs in splits.items()
                  if name.startswith("test") and pairs[0].label is not None), run.task.selection)
    task, pairs, metric = run.task, splits[split], run.task.metrics[0]
    texts, own = {text for pair in pairs for text in (pair.a, pair.b)}, run.settings.parses
    lexicon = WordNet()
    parser = None if own else run.reader.parser or load_parser()
    parses = parse_texts(texts, own or parser)
    guesses, found = answers(run.logits(pairs), task), {}
    run.reader.parser = parser
    for name in tqdm(TRANSFORMATIONS, "transforming", leave=False, disable=None):
        rule, needs = label_rule(name, task), TRANSFORMATIONS[name].needs
        if not rule or "translations" in needs and translations is None:
            continue
        changed = transform(name, task, pairs, run.settings.seed, parses, lexicon, translations)
        before = after = None
        if changed:
            labels = [pairs[i].label for i, _ in changed]
            before = evaluate(task, labels, [guesses[i] for i, _ in changed])[metric]
            after = run.evaluate([pair for _, pair in changed])[metric]
        found[name] = {"label": rule, "pairs": len(changed), "before": before, "after": after}
    return {"split": split, "metric": metric, "seed": run.settings.seed, "transformations": found}


def table_rows(result, task):
    """Rows of cells for what `measure_robustness` returns, a row for each transformation."""
    rows = [["transformation", "label", "pairs", "before", "after"]]
    for name in TRANSFORMATIONS:
        found = result["transformations"].get(name)
        if found:
            scores = [found["before"], found["after"]]
            cells = ["" if score is None else f"{100 * score:.1f}" for score in scores]
            rows.append([name, found["label"], str(found["pairs"]), *cells])
        elif label_rule(name, task):
            rows.append([name, "needs --translations", "", "", ""])
        else:
            rows.append([name, "refused: its label would not be known", "", "", ""])
    return rows


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.robustness",
                          "The first metric of a run's task before and after the papers' "
                          "transformations, on the pairs they change:\n"
                          f"{', '.join(TRANSFORMATIONS)}.\n"
                          "Needs WordNet. Writes RUN/robustness.json.", "RUN")
    arguments.add_argument("run", metavar="RUN", help="the folder of a trained run")
    arguments.add_argument("--translations", metavar="FILE",
                           help="for BackTrans: .tsv or .csv with the header sentence, translation")
    add_run_options(arguments)
    given = arguments.parse(argv)
    folder, translations = given.pop("run"), given.pop("translations", None)
    with prefix_errors("--translations "):
        translations = translations and read_translations(translations)
    with machine.torch_session(given):
        run = train.open_run(folder, **given)
        _, splits = load_pairs(run.settings, limited=False)
        result = measure_robustness(run, splits, translations)
    size = len(splits[result["split"]])
    print(f"{run.settings.model} on {run.task.name} {result['split']}, {size} pairs, "
          f"{result['metric']} on the pairs changed\n{align_columns(table_rows(result, run.task))}")
    write_json(run.folder / "robustness.json", result)


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.robustness"))
