"""What a lexicon knows of words: WordNet, or a table of pairs of words.

`facts` of a sentence's words are what priors.relation_matrix compares. Left out: the sense that a
word has in its sentence; expressions of several words (New York, give up); numbers and years.
"""
import functools
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

DEPTH, SENSES = 4, 3   # WordNet's hypernyms are so many steps away, a lemma has so many senses
REMEMBERED = 2 ** 17   # words whose facts are cached: a service may be asked about any word
MANY = 100    # a hypernym with more direct hyponyms (person) is too general for co-hyponyms

POS = {"NOUN": "n", "PROPN": "n", "VERB": "v", "AUX": "v", "ADJ": "a", "NUM": "a", "ADV": "r",
       "ADP": "r"}   # WordNet's; it has numbers as adjectives, and near, up, down as adverbs

# Words of the closed classes that WordNet takes for others (in: indium), but not near and other
# prepositions that have opposites; contractions without apostrophe that it takes for plurals.
FUNCTION_WORDS = frozenset("""
    a an such no none any each every either neither both another own there i me mine us he it
    its who whatever be am is are was were been being have has had having do does did doing done
    can will may might must or but though till while so yet in on at by as about over under
    after before between within through throughout across along around behind beneath besides
    beyond off out despite except not re ca ai na wan ta wont cant hes whos heres theres""".split())
FUNCTION_WORDS |= {*ascii_lowercase}


@dataclass(eq=False)
class Facts:
    """What a lexicon knows of a word: sets of keys. Related words share a key."""

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


class Table:
    """A lexicon from pairs of words, such as the toy world's.

    Assumes: words are compared as they stand, up to case. Only what the pairs say holds: a
        hypernym's hypernym needs its own pair. Each word is a synonym of itself.
    """

    def __init__(self, pairs):
        """pairs: dict with lists of pairs of words under synonym, antonym, cohyponym, and hypernym
        for (specific, general).
        """
        self.table = {}   # word -> Facts
        for relation, rows in pairs.items():
            for x, y in rows:
                x, y = x.casefold(), y.casefold()
                for word, other in ((x, y), (y, x)):
                    facts = self.table.setdefault(word, Facts({word}, set(), set(), set()))
                    if relation == "synonym":
                        facts.senses.add((x, y))  # a key that both share
                    elif relation == "cohyponym":
                        facts.parents.add((x, y))
                    elif relation == "antonym":
                        facts.opposites.add(other)
                    elif word == x:
                        facts.ancestors.add(other)

    @classmethod
    def read(cls, path):
        """The Table of a file. A line has a relation and two words, with tabs between them."""
        pairs = {}
        for line in Path(path).read_text("utf-8").splitlines():
            relation, x, y = line.split("\t")
            pairs.setdefault(relation, []).append((x, y))
        return cls(pairs)

    def facts(self, words, tags=None):
        """Facts, or None, of each of n words. Their tags do not matter."""
        return [self.table.get(word.casefold()) for word in words]


class WordNet:
    """Princeton's WordNet, as nltk reads it, for case-folded and lemmatized English words.

    Assumes: all of this, which the paper leaves open.
        A word stands for its lemmas with the part of speech of its tag (POS): for itself (saw) and
        for its other forms (see); without such a tag or lemma, for those of any part of speech. A
        name (Wales), a noun of two letters (os) or in -ss (boss) is no plural.
        A word has the first SENSES of a lemma, the most frequent ones: in later senses carrying is
        running, and a result is an issue. FUNCTION_WORDS have none.
        Synonyms share a sense; so do adjectives whose first senses are similar: huge and big.
        Antonyms are opposed in some sense, and so are their synonyms: large is opposed to small, so
        big is. At unhappy WordNet says to see sad, too, so happy is opposed to sad.
        Hypernyms, up to DEPTH steps away, and co-hyponyms come from a lemma's first sense: with
        more senses most such pairs are chance (to right and to prepare are changes). An instance
        counts as a hyponym (Paris of city). Co-hyponyms are nouns, because verbs hardly share more
        than to move. They share a direct hypernym with at most MANY hyponyms.
    """

    def __init__(self):
        """Loads WordNet: a few seconds. Raises ValueError if it is missing."""
        self.wordnet = load_wordnet()

    def facts(self, words, tags=None):
        """Facts, or None, of each of n words. tags: n universal parts of speech; None: any."""
        tags = tags or [None] * len(words)
        return [self.read(word.casefold(), tag) for word, tag in zip(words, tags)]

    @functools.lru_cache(maxsize=REMEMBERED)
    def read(self, word, tag):
        """Facts of a case-folded word, or None. The keys are names of synsets, such as dog.n.01."""
        if word in FUNCTION_WORDS:
            return None
        lemmas = self.lemmas(word, POS.get(tag, "nvar"), tag) or self.lemmas(word, "nvar", tag)
        if not lemmas:
            return None
        first = {synsets[0] for synsets in lemmas}
        senses = {s for synsets in lemmas for s in synsets[:SENSES]}
        above = {s for x in first for s in x.closure(hypernyms, DEPTH)}
        direct = {s for x in first for s in hypernyms(x) if s.pos() == "n"}
        parents = {s for s in direct if len(s.hyponyms()) <= MANY}
        similar = {s for x in first if x.pos() == "s" for s in x.similar_tos()}
        opposed = {other.synset() for s in senses for x in s.lemmas() for other in x.antonyms()}
        opposed |= {other for s in opposed for other in s.also_sees()}
        sets = senses, opposed, above, parents, first, similar
        return Facts(*({s.name() for s in synsets} for synsets in sets))

    def lemmas(self, word, parts, tag):
        """Lists of the synsets of a word as each part of speech, of itself and of its other forms;
        the most frequent sense first.
        """
        found = []
        for pos in parts:
            synsets = self.wordnet.synsets(word, pos)
            own = [s for s in synsets if word in map(str.lower, s.lemma_names())]
            others = [s for s in synsets if s not in own]
            found.append(own)
            name = own and tag == "PROPN"
            if pos != "n" or not (name or len(word) < 3 or word.endswith("ss")):
                found.append(others)
        return [synsets for synsets in found if synsets]


def hypernyms(synset):
    """The direct hypernyms of a synset, and what it is an instance of."""
    return synset.hypernyms() + synset.instance_hypernyms()


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
