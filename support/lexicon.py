"""What a lexicon knows of words: WordNet, or a table of pairs of words.

`facts` of a sentence's words are what priors.relation_matrix compares. Left out: the sense that a
word has in its sentence.
"""
import functools
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

LONGEST = 4   # words in an expression, at most
DEPTH, SENSES = 4, 3   # WordNet's hypernyms are so many steps away, a lemma has so many senses
REMEMBERED = 2 ** 17   # words whose entries are cached: a service may be asked about any word
MANY = 100    # a hypernym with more direct hyponyms (person) is too general for co-hyponyms

POS = {"NOUN": "n", "PROPN": "n", "VERB": "v", "AUX": "v", "ADJ": "a", "NUM": "a", "ADV": "r",
       "ADP": "r"}   # WordNet's; it has numbers as adjectives, and near, up, down as adverbs
EXCEPTIONS = {"n": "noun.exc", "v": "verb.exc", "a": "adj.exc", "r": "adv.exc"}   # WordNet's files
SERIES = {"cardinal.a.02", "ordinal.a.02", "chromatic.a.03"}   # numbers, ordinals, colours
NUMBER = re.compile(r"(1\d{3}|20\d\d)|\d+(?:[.,]\d+)*")      # group 1: a year

# Words of the closed classes, which WordNet lacks or takes for others (in: indium, it: information
# technology): articles, demonstratives, pronouns, auxiliaries, conjunctions, and prepositions, but
# not up, down, above, below, inside, outside, near, which have opposites; pieces of contractions;
# contractions without apostrophe that are hardly another word (cant, jargon, and wont, a habit, are
# rare; ill, id, lets, well, shell, hell, shed, wed are not); single letters.
FUNCTION_WORDS = frozenset("""
    a an the this that these those such no none any each every either neither both another own there
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his
    himself she her hers herself it its itself they them their theirs themselves who whom whose
    which what whoever whatever whichever be am is are was were been being have has had having do
    does did doing done can could will would shall should may might must ought and or but nor if
    than because whereas although though unless until till whether while since so yet of in to for
    on with at by from into onto upon as about over under after before between among against during
    without within through throughout across along around behind beneath beside besides beyond off
    out toward towards via per despite except not n't 's 'm 'd 're 've 'll re ve ll ca wo sha ai gon
    na wan ta dont doesnt didnt isnt arent wasnt werent hasnt havent hadnt wont wouldnt shouldnt
    cant couldnt mustnt neednt aint im ive youre youve youll youd hes shes weve theyre theyve theyll
    theyd itll thats whats whos wheres heres theres wanna gotta gonna""".split())
FUNCTION_WORDS |= {*"abcdefghijklmnopqrstuvwxyz"}


@dataclass(eq=False)
class Facts:
    """What a lexicon knows of a word or expression: sets of keys. Related words share a key."""

    senses: set                  # what the word may mean
    opposites: set               # senses of its antonyms
    ancestors: set               # senses of its hypernyms
    parents: set                 # keys that the word shares with its co-hyponyms
    first: set = frozenset()     # WordNet: the first sense of each lemma as each part of speech
    similar: set = frozenset()   # WordNet: adjectives to which its own are similar

    @functools.cached_property
    def keys(self):
        """All keys. Two words without a common key are not related."""
        return self.senses | self.opposites | self.ancestors | self.parents | self.similar


class Lexicon:
    """Finds the words and expressions of a sentence. Table and WordNet add two methods:

    base_forms(word): the forms under which a case-folded word may be listed, itself among them.
    look_up(name, tag): Facts of a case-folded word or expression, or None. tag: the universal
        part of speech that the word has in its sentence, or None for any.
    """

    def __init__(self, names):
        """names: case-folded words, and expressions with a space between their words."""
        self.expressions = {name for name in names if " " in name}
        self.first_words = {name.partition(" ")[0] for name in self.expressions}

    def facts(self, words, tags=None):
        """A list with a dict for each of n words of a sentence, or None for a word without facts.

        The dict: {1: Facts of the word, 2: Facts of an expression of two words that starts with it
        (New York, ice creams)}, or 3 or 4 for the words of a longer expression. If expressions
        overlap, the one that starts first counts, then the longest.

        tags: n universal parts of speech, such as a parse has. None: any part of speech.
        """
        words, facts, end = [word.casefold() for word in words], [], 0
        for i, word in enumerate(words):
            entry = self.look_up(word, tags and tags[i])
            by_size = {1: entry} if entry else {}
            expression = i >= end and self.expression(words[i:i + LONGEST])
            if expression:
                name, size = expression
                by_size[size], end = self.look_up(name), i + size
            facts.append(by_size or None)
        return facts

    def expression(self, words):
        """The longest expression at the start of the words, and its number of words; or None.

        Assumes: only its first and its last word are inflected (picked up, ice creams).
        """
        starts = [first for first in self.base_forms(words[0]) if first in self.first_words]
        for size in range(len(words) if starts else 0, 1, -1):
            for first, last in itertools.product(starts, self.base_forms(words[size - 1])):
                name = " ".join([first, *words[1:size - 1], last])
                if name in self.expressions:
                    return name, size
        return None


class Table(Lexicon):
    """A lexicon from pairs of words, such as the toy world's.

    Assumes: words are compared as they stand, up to case. Only what the pairs say holds: a
        hypernym's hypernym needs its own pair. Each word is a synonym of itself.
    """

    def __init__(self, pairs):
        """pairs: dict with lists of pairs of words, or of expressions of up to LONGEST words, under
        synonym, antonym, cohyponym, and hypernym for (specific, general).
        """
        self.table = {}   # word -> Facts
        for relation, rows in pairs.items():
            field = {"synonym": "senses", "antonym": "opposites", "cohyponym": "parents",
                     "hypernym": "ancestors"}[relation]
            for x, y in rows:
                x, y = x.casefold(), y.casefold()
                for word, other in ((x, y), (y, x)):
                    facts = self.table.setdefault(word, Facts({word}, set(), set(), set()))
                    if relation in ("synonym", "cohyponym"):
                        getattr(facts, field).add((x, y))  # a key that both share
                    elif relation == "antonym" or word == x:
                        getattr(facts, field).add(other)
        super().__init__(self.table)

    @classmethod
    def read(cls, path):
        """The Table of a file. A line has a relation and two words, with tabs between them."""
        pairs = {}
        for line in Path(path).read_text("utf-8").splitlines():
            relation, x, y = line.split("\t")
            pairs.setdefault(relation, []).append((x, y))
        return cls(pairs)

    def base_forms(self, word):
        return [word]

    def look_up(self, name, tag=None):
        return self.table.get(name)


class WordNet(Lexicon):
    """Princeton's WordNet, as nltk reads it, for case-folded and lemmatized English words.

    Assumes: all of this, which the paper leaves open.
        A word stands for its lemmas with the part of speech of its tag (POS). Without such a tag,
        or without such a lemma, it stands for all its lemmas, as an expression does. FUNCTION_WORDS
        have no facts. A word has the first SENSES of a lemma, the most frequent ones: in
        later senses carrying is running, and a result is an issue. A spelling without counts has
        its senses in another order: the nouns colour and color share none of their first three.
        Synonyms share a sense; a word is a synonym of itself. Two adjectives are synonyms, too, if
        their first senses are similar: huge and big. Antonyms are opposed in some sense. If two
        words are antonyms, their synonyms are, too: large is opposed to small, so big is. At some
        words WordNet says which word to see also; the antonyms of the first have the second as an
        antonym, too. At unhappy it says sad, so happy is opposed to sad. At glad it does not say
        happy, so sad is opposed to glad alone. An adjective that is only similar to one with an
        antonym gets none.
        Hypernyms, up to DEPTH steps away, and co-hyponyms come from a lemma's first sense: with
        more senses most such pairs are chance (to right and to prepare are changes). An instance
        counts as a hyponym (Paris of city). Co-hyponyms are nouns, because verbs hardly share more
        than to move or to change. They share a direct hypernym with at most MANY hyponyms, not
        instances; or one of SERIES; or they are different years (1000 to 2099), or other numbers
        in digits; or adjectives of co-hyponyms (French, German).
        A form that WordNet lists hides its lemma in expressions (giving up, a noun, is not give
        up). Expressions with an apostrophe (driver's license) are hardly found: 's is a word here.
    """

    def __init__(self):
        """Loads WordNet: a few seconds, 230 MB. Raises ValueError if it is missing."""
        self.wordnet = load_wordnet()
        self.names = {pos: frozenset(self.wordnet.all_lemma_names(pos)) for pos in EXCEPTIONS}
        self.irregular = {  # part of speech -> dict such as geese -> [goose]
            pos: {form: bases for form, *bases in map(str.split, self.wordnet.open(file))}
            for pos, file in EXCEPTIONS.items()}
        names = (name.replace("_", " ") for name in frozenset().union(*self.names.values()))
        super().__init__(name for name in names if not set(name.split()) <= FUNCTION_WORDS)

    @functools.lru_cache(maxsize=REMEMBERED)
    def base_forms(self, word):
        """The word and its lemmas of all parts of speech."""
        lemmas = [lemma for pos in EXCEPTIONS for lemma in self.lemmas(word, pos)]
        return tuple(dict.fromkeys([word, *lemmas]))

    def lemmas(self, word, pos, proper=False):
        """The dictionary forms of a case-folded word as one part of speech, the word itself first.

        As in Princeton's morph.c: the forms in the list of exceptions (geese), or else the word
        without its ending; but a noun of two letters (os) or in -ss (boss) keeps its s.
        Departs: if a noun is a lemma itself, morph.c goes on, and relates aids to help, stamina to
            stamen. Here WordNet's counts decide: a plural in -s (profits, but not means) may be
            twice as frequent as its other form; an exception (men, but not stamina) or a name
            (banks, but not Wales) must be rarer, by at least two. An acronym (AIDS), or a word that
            is `proper` in its sentence, has no other form.
        """
        forms = self.irregular[pos].get(word)
        if forms is None and not (pos == "n" and (len(word) < 3 or word.endswith("ss"))):
            endings = self.wordnet.MORPHOLOGICAL_SUBSTITUTIONS[pos]
            forms = [word[:-len(old)] + new for old, new in endings if word.endswith(old)]
        forms = [form for form in forms or () if form in self.names[pos] and form != word]
        if word not in self.names[pos]:
            return forms
        if pos == "n" and forms:
            entries = self.entries(word, pos)
            if proper or all(entry.name().isupper() for entry in entries):
                return [word]
            count, name = self.frequency(word), all(entry.name() != word for entry in entries)
            least = count + 2 if name or word in self.irregular["n"] else count / 2 - 1
            forms = [form for form in forms if self.frequency(form) >= least]
        return [word, *forms]

    def entries(self, lemma, pos):
        """nltk's Lemmas of exactly this case-folded lemma, the most frequent sense first."""
        return [entry for synset in self.wordnet.synsets(lemma, pos) for entry in synset.lemmas()
                if entry.name().lower() == lemma]

    def frequency(self, noun):
        """How often a noun stands in the texts that WordNet counts."""
        return sum(entry.count() for entry in self.entries(noun, "n"))

    def look_up(self, name, tag=None):
        """Facts of a case-folded word or expression, or None."""
        proper = tag == "PROPN"
        return self.read(name, POS.get(tag, "nvar"), proper) or self.read(name, "nvar", proper)

    @functools.lru_cache(maxsize=REMEMBERED)
    def read(self, name, parts, proper=False):
        """Facts from WordNet, or None. The keys are names of synsets, such as dog.n.01."""
        senses, first = self.find_senses(name, parts, proper)
        number = NUMBER.fullmatch(name)
        if not (senses or number) or name in FUNCTION_WORDS:
            return None
        sets = (senses, opposites_of(senses), self.ancestors_of(first), shared_parents(first),
                first, similar_to({s for s in first if s.pos() == "s"}))
        facts = Facts(*({s.name() for s in synsets} for synsets in sets))
        facts.parents |= {s.name() for s in similar_to(senses)} & SERIES
        facts.similar -= SERIES
        if number:
            facts.senses.add(name)
            facts.parents.add("year" if number[1] else "cardinal.a.02")
        return facts

    def find_senses(self, name, parts, proper):
        """(the synsets of the frequent senses of a name's lemmas, of the first sense of each)"""
        senses, first = set(), set()
        for pos in parts:
            for lemma in self.lemmas(name.replace(" ", "_"), pos, proper):
                synsets = [entry.synset() for entry in self.entries(lemma, pos)]
                senses.update(synsets[:SENSES])
                first.add(synsets[0])
        return senses, first

    def ancestors_of(self, synsets):
        """The hypernyms of synsets, up to DEPTH steps above."""
        found, level = set(), synsets
        for _ in range(DEPTH):
            level = hypernyms_of(level)
            found |= level
        return found


def hypernyms_of(synsets):
    """The direct hypernyms of synsets, and what they are instances of."""
    return {above for s in synsets for above in s.hypernyms() + s.instance_hypernyms()}


def opposites_of(synsets):
    """The synsets of all antonyms of the lemmas of synsets, and what to see also at these."""
    lemmas = [lemma for s in synsets for lemma in s.lemmas()]
    opposites = {other.synset() for lemma in lemmas for other in lemma.antonyms()}
    return opposites | {other for s in opposites for other in s.also_sees()}


def shared_parents(synsets):
    """The hypernyms, nouns, that make two words co-hyponyms if both have one of them.

    An adjective such as French has the one of its noun: country, because France is an instance of
    a European country.
    """
    nouns = {x.synset() for s in synsets for lemma in s.lemmas() for x in lemma.pertainyms()}
    lands = {above for s in nouns for above in s.instance_hypernyms()}   # of French: France's
    parents = hypernyms_of(synsets) | {above for s in lands for above in s.hypernyms()}
    return {s for s in parents if s.pos() == "n" and len(s.hyponyms()) <= MANY}


def similar_to(synsets):
    """The adjectives to which WordNet calls these synsets similar."""
    return {head for s in synsets for head in s.similar_tos()}


def load_wordnet():
    """nltk's WordNet. Raises ValueError if it is missing or damaged."""
    from nltk.corpus import wordnet   # here, because few runs need nltk
    try:
        wordnet.ensure_loaded()
    except Exception as problem:  # a damaged copy raises almost anything
        raise ValueError(f"WordNet: nltk does not find it, or has a damaged copy of it "
                         f"({type(problem).__name__}); get it with `python -m nltk.downloader "
                         f"wordnet`, or let NLTK_DATA name a folder that has it") from None
    return wordnet
