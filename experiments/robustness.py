"""The robustness tests of the papers on a trained run.

    python -m experiments.robustness RUN

prints accuracy, or Pearson's r of scores, before and after each transformation, on exactly the
pairs of a labelled split that it changes: of test, or else of dev. A transformation whose new label
nobody can know for this task has no row, nor one that changes no pair. It needs WordNet.

The tests are those of DABERT's and the knowledge paper's Tables 3, which ran TextFlint (T. Gui et
al., "TextFlint", 2021). Names and ideas are TextFlint's. Definitions, sentences, word lists and
code are ours: do not compare numbers with the papers'. NumWord changes a number, as DABERT says
("changing numbers in text"); the knowledge paper speaks of "replacing numbers with words".

Left out: BackTrans and others that need a translator or a language model, or whose new label nobody
can know. A swapped word has no ending and no capital, and "a" does not become "an".
"""
import functools
import itertools
import random
import re
import sys
from collections import namedtuple
from dataclasses import replace

import train
from experiments.explain import add_run_options
from run import whole_splits
from support import machine
from support.biaffine import load_parser
from support.lexicon import FUNCTION_WORDS, load_wordnet
from support.machine import print_once
from support.options import Arguments, run_command
from support.pairs import answers, evaluate
from support.parses import parse_texts
from support.summary import align_columns

# A transformation is a function (texts a, b, random.Random, Known) -> (new a, new b), or None if it
# has nothing to change.

Word = namedtuple("Word", "start end text tag relation")  # in a parsed text; tag: universal


class Known:
    """What a transformation knows. parses: dict text -> Parse, for all texts of the split. wordnet:
    nltk's.
    """

    def __init__(self, parses, wordnet=None):
        self.parses, self.wordnet = parses, wordnet
        self.names = sorted({name for text in parses for name in self.find_names(text)})

    def words(self, text):
        """The Words of a text. A word that the text writes otherwise (’s for 's) has no tag."""
        parse = self.parses[text]
        rows = zip(parse.spans.tolist(), parse.words, parse.tags, parse.relations)
        return [Word(i, j, word, tag * (text[i:j] == word), relation)
                for (i, j), word, tag, relation in rows]

    def find_names(self, text):
        """Runs of words tagged PROPN, each a capital and small letters; no days and months."""
        groups = itertools.groupby(self.words(text), lambda word: word.tag == "PROPN")
        runs = [list(run) for proper, run in groups if proper]
        names = [text[run[0].start:run[-1].end] for run in runs]
        return [name for name in names if re.fullmatch("[A-Z][a-z]+( [A-Z][a-z]+)*", name)
                and CALENDAR.isdisjoint(name.split())]

    @functools.cache
    def related_words(self, word, tag, antonyms):
        """Antonyms, or else synonyms, of a word with a universal tag, sorted.

        Assumes: a word means its first sense, the most frequent. Antonyms are direct ones. Synonyms
            share that sense, which makes up 4/5 of either word's uses in SemCor, the sample WordNet
            was tagged on. SemCor has both words, in that sense, COMMON times.
        """
        pos = POS.get(tag)
        if not pos or not is_plain(word) or self.wordnet.morphy(word, pos) != word:
            return []
        sense = self.wordnet.synsets(word, pos)[0]
        if antonyms:
            others = [other for lemma in sense.lemmas() if lemma.name() == word
                      for other in lemma.antonyms()]
            return sorted(x.name() for x in others if is_plain(x.name()) and x.count() >= COMMON)
        names = []
        for name in filter(is_plain, sense.lemma_names()):
            first, *others = self.wordnet.lemmas(name, pos)
            frequent = first.count() >= max(COMMON, 4 * sum(lemma.count() for lemma in others))
            if first.synset() == sense and frequent:
                names.append(name)
        return sorted(set(names) - {word}) if word in names else []


def replace_word(text, words, find, rng):
    """The text with one of its Words replaced by a word that is not among them, or None.
    find: a function Word -> list of words that may replace it.
    """
    present = {word.text.lower() for word in words}
    options = [(word, new) for word in words for new in find(word) if new not in present]
    if not options:
        return None
    word, new = rng.choice(options)
    return text[:word.start] + new + text[word.end:]


# ---- A word, a number, a name for another -------------------------------------------------------

POS, COMMON = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}, 3
# Verbs whose base form looks like a past; words that need other words beside them, or that news
# never use in their first sense (minister: a clergyman).
LEFT_ALONE = FUNCTION_WORDS | frozenset("""
    beat become bet bid bore burst cast come cost cut fell felt fit forecast found ground hit hurt
    lay left let overcome put quit read rid run saw set shed shut slit split spread thrust upset wed
    wet wound ever first never other percent percentage same second well chief composite group
    intelligence key minister person""".split())
NUMBERS = "two three four five six seven eight nine ten eleven twelve".split()
# Behind one of these, another number may also be true: at least three people are at least two.
BOUNDS = frozenset("""as least most than over under above below beyond up minimum maximum exceed
    exceeds exceeded exceeding between""".split())
CALENDAR = frozenset("""Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February
    March April May June July August September October November December""".split())


def is_plain(name):
    """Is it a word in lower case, no abbreviation, and not LEFT_ALONE?"""
    return bool(re.fullmatch("[a-z]*[aeiou][a-z]*", name)) and name not in LEFT_ALONE


def swap_word(text, rng, known, antonyms):
    """The text with an antonym, or else a synonym, of a word outside fixed expressions, or None."""
    def find(word):
        part = word.relation.partition(":")[0] in ("fixed", "flat", "compound")
        return [] if part else known.related_words(word.text, word.tag, antonyms)
    return replace_word(text, known.words(text), find, rng)


def swap_antonym(a, b, rng, known):
    """a, and a with an antonym."""
    new = swap_word(a, rng, known, antonyms=True)
    return new and (a, new)


def swap_synonym(a, b, rng, known):
    """b with a synonym."""
    new = swap_word(b, rng, known, antonyms=False)
    return new and (a, new)


def change_number(a, b, rng, known):
    """a, and a with another number. A number stays up to three words behind one of BOUNDS, or right
    before "or" (two or more).

    Assumes: counts and dates are exact; "two men left" is false if three men did.
    """
    words = known.words(a)
    texts = [*(word.text.lower() for word in words), ""]

    def find(word):
        i = words.index(word)
        bounded = not BOUNDS.isdisjoint(texts[max(0, i - 3):i]) or texts[i + 1] == "or"
        return [] if bounded or word.tag != "NUM" else other_numbers(word.text)
    new = replace_word(a, words, find, rng)
    return new and (a, new)


def other_numbers(word):
    """The other NUMBERS; for digits, numbers with another last digit; for 1 and below 0, none."""
    if word in NUMBERS:
        return [number for number in NUMBERS if number != word]
    if word == "1" or not re.fullmatch(r"(0\.|[1-9])[0-9]*(,[0-9]{3})*(\.[0-9]+)?", word):
        return []
    digits = "23456789" if len(word) == 1 else "0123456789"
    return [word[:-1] + digit for digit in digits if digit != word[-1]]


def swap_name(a, b, rng, known):
    """A name in both texts becomes another name of as many words, in every place. No part of the
    old name stands elsewhere (Iraq in Iraqi), no part of the new one anywhere. TextFlint renames in
    each sentence by itself; then nobody knows the label.

    Assumes: a run of words tagged PROPN is a name; the label depends on no fact about its bearer.
    """
    def has_part(text, name):
        return any(part in text.lower() for part in name.lower().split())

    whole = f"{a} {b}"
    options = [(old, new) for old in sorted({*known.find_names(a)} & {*known.find_names(b)})
               if not has_part(re.sub(rf"\b{old}\b", "", whole), old) for new in known.names
               if new.count(" ") == old.count(" ") and not has_part(whole, new)]
    if not options:
        return None
    old, new = rng.choice(options)
    return a.replace(old, new), b.replace(old, new)


# ---- Words, sentences and marks that add nothing -------------------------------------------------

ADVERBS = "actually", "indeed", "in fact", "certainly", "truly", "surely"   # truth stays the same
NEGATIONS = frozenset("""no not n't never none nobody nothing nowhere neither nor without hardly
    barely scarcely rarely seldom""".split())
CLAUSES = "root", "ccomp", "conj", "advcl", "acl:relcl", "parataxis"        # verbs with subjects
SUBJECTS = "NOUN", "PROPN", "PRON", "AUX", "ADV", "CCONJ", "PUNCT"          # tags right before them
# These are always true: a text with one of them entails what the text entails, and no more.
TRUISMS = "What is done is done.", "A rule is a rule.", "Either it is so or it is not."
IRRELEVANT = (
    "The soup was still too hot to eat.", "Nobody had watered the ferns since spring.",
    "My aunt keeps her buttons in a biscuit tin.", "Our kite got stuck in a chestnut tree.")
MARKS = ("", "!!"), ("", " ..."), ("", " --"), ("... ", ""), ("-- ", ""), ("(", ")"), ("* ", " *")
TWITTER = dict(pair.split("=") for pair in """
    you=u your=ur are=r and=& with=w/ without=w/o because=bc people=ppl please=pls before=b4
    great=gr8 tomorrow=tmrw tonight=2nite about=abt government=govt though=tho through=thru
    really=rly something=smth someone=some1 later=l8r between=btwn would=wld could=cld
    should=shd months=mths weeks=wks years=yrs minutes=mins what=wut says=sez""".split())


def of_both(edit):
    """Decorator: edit(text, rng, known) -> text becomes a transformation that edits a and b."""
    return lambda a, b, rng, known: (edit(a, rng, known), edit(b, rng, known))


@of_both
def insert_adverb(text, rng, known):
    """Puts one of ADVERBS before a clause's verb, unless it would be in the scope of a negation."""
    words, places = known.words(text), []
    for before, word in zip(words, words[1:]):
        if before.text.lower() in NEGATIONS:
            break
        follows = before.tag in SUBJECTS and text[before.end:word.start] == " "
        if follows and word.tag == "VERB" and word.relation in CLAUSES and word.text.islower():
            places.append(word.start)
    if not places:
        return text
    place = rng.choice(places)
    return f"{text[:place]}{rng.choice(ADVERBS)} {text[place:]}"


def append_sentence(text, sentence):
    """The text, with a full stop if it has none, and then the sentence."""
    closed = text.rstrip().endswith(tuple(".!?…\"'’”)]"))
    return f"{text.rstrip()}{'' if closed else '.'} {sentence}"


def append_truism(a, b, rng, known):
    """Puts one of TRUISMS behind a."""
    return append_sentence(a, rng.choice(TRUISMS)), b


def append_irrelevant(a, b, rng, known):
    """Puts one of IRRELEVANT behind both texts. The rest of each text decides the label."""
    new = rng.choice(IRRELEVANT)
    return append_sentence(a, new), append_sentence(b, new)


@of_both
def add_punctuation(text, rng, known):
    """Puts one of MARKS around the text."""
    before, after = rng.choice(MARKS)
    return f"{before}{text.strip()}{after}"


@of_both
def spell_as_on_twitter(text, rng, known):
    """Spells words in lower case as TWITTER does."""
    return re.sub(r"(?<![\w'’@#./&-])\w+(?![\w'’/&-])",
                  lambda match: TWITTER.get(match[0], match[0]), text)


# ---- The labels ---------------------------------------------------------------------------------

# Name -> the transformation, and the kinds of task (see task_kind) where the new label is known.
EVERY, CLASSES = ("paraphrase", "inference", "other"), ("paraphrase", "inference")
TRANSFORMATIONS = {
    "SwapAnt": (swap_antonym, CLASSES), "NumWord": (change_number, CLASSES),
    "AddSent": (append_truism, ("inference",)), "InsertAdv": (insert_adverb, EVERY),
    "AppendIrr": (append_irrelevant, CLASSES), "AddPunc": (add_punctuation, EVERY),
    "TwitterType": (spell_as_on_twitter, EVERY), "SwapNamedEnt": (swap_name, EVERY),
    "SwapSyn": (swap_synonym, EVERY)}
# After these the second sentence denies the first, whatever the pair was. Assumes: an antonym
# denies. Not always: old antibiotics may fail as the new ones did. But the two are no paraphrases,
# and neither entails the other, so only tasks with the class contradiction may get a wrong label.
# A text with a negation stays: no girl in white may be there, and no girl in black either.
DENYING = "SwapAnt", "NumWord"
DENIALS = "contradiction", "not_entailment", "neutral", "different", "0"  # the first that it has


def task_kind(task):
    """"inference" or "paraphrase", by the names of the classes, or "other": scores, and qnli, whose
    pairs are question and answer. Assumes: with classes 0 and 1, 1 means paraphrases.
    """
    names = {label.casefold() for label in task.labels}
    if names & {"entailment", "entails"} and names & set(DENIALS) and task.name != "qnli":
        return "inference"
    return "paraphrase" if names in ({"0", "1"}, {"different", "same"}) else "other"


def denial_of(task):
    """The class, as its index, of a pair whose second sentence denies the first."""
    names = [label.casefold() for label in task.labels]
    return next(names.index(denial) for denial in DENIALS if denial in names)


def transform(name, task, pairs, known, seed=0):
    """[(index in pairs, new Pair)] of the labelled pairs that one of TRANSFORMATIONS changes. A
    new Pair depends on the seed, on the pair's texts, and for names on known.parses alone.
    """
    (edit, _), changed = TRANSFORMATIONS[name], []
    for index, pair in enumerate(pairs):
        if pair.label is None or not (pair.a.strip() and pair.b.strip()):
            continue
        if name in DENYING and any(x.text.lower() in NEGATIONS for x in known.words(pair.a)):
            continue
        new = edit(pair.a, pair.b, random.Random(f"{seed} {name} {pair.a!r} {pair.b!r}"), known)
        if new and new != (pair.a, pair.b):
            label = denial_of(task) if name in DENYING else pair.label
            changed.append((index, replace(pair, a=new[0], b=new[1], label=label)))
    return changed


def measure_robustness(run, pairs, metric):
    """Rows of cells, one for each of TRANSFORMATIONS that changes pairs: its name, what it does to
    the label, the number of pairs that it changes, a metric on these before and after.
    """
    task, guesses, rows = run.task, answers(run.logits(pairs), run.task), []
    run.reader.parser = run.reader.parser or load_parser()
    texts = {text for pair in pairs for text in (pair.a, pair.b)}
    known = Known(parse_texts(texts, run.reader.parser), load_wordnet())
    for name, (_, kinds) in TRANSFORMATIONS.items():
        changed = transform(name, task, pairs, known) if task_kind(task) in kinds else []
        if changed:
            effect = f"makes it {task.labels[denial_of(task)]}" if name in DENYING else "keeps"
            labels, before = zip(*((pairs[i].label, guesses[i]) for i, _ in changed))
            scores = (evaluate(task, labels, before)[metric],
                      run.evaluate([pair for _, pair in changed])[metric])
            rows.append([name, effect, f"{len(changed)}", *(f"{100 * x:.1f}" for x in scores)])
    return rows


def main(argv=None):
    """The command. Raises ValueError or OSError for a user's mistake."""
    arguments = Arguments("python -m experiments.robustness", __doc__, "RUN")
    add_run_options(arguments)
    given = arguments.parse(argv)
    folder = given.pop("run")
    with machine.torch_session(given):
        run = train.open_run(folder, **given)
        splits = whole_splits(run)
        labelled = (name for name in splits
                    if name.startswith("test") and splits[name][0].label is not None)
        split = next(labelled, run.task.selection)
        metric = "pearson" if run.task.regression else "accuracy"  # denials have one class: no F1
        rows = measure_robustness(run, splits[split], metric)
    table = [["transformation", "label", "pairs", "before", "after"], *rows]
    print_once(f"{run.settings.model} on {run.task.name} {split}, {len(splits[split])} pairs, "
               f"{metric} on the pairs changed\n{align_columns(table)}")


if __name__ == "__main__":
    sys.exit(run_command(main, "experiments.robustness"))
