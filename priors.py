"""What is known of two sentences before training: DAFA's dependency matrix, lexical relations.

DAFA (EMNLP Findings 2022), section 2.1, compares each word of a sentence a with each word of a
sentence b. Are the words equal, their heads, their relations to the heads (M)? Do their subtrees
match (S)? Are they rare (tf-idf)? The result, M_F (n, m), calibrates attention in semmatch.

"Using External knowledge to Enhanced PLM for Semantic Matching" (Li and Yuan; cited as Knowledge),
sections 3.1 and 3.2, asks a lexicon: are two words synonyms, antonyms, is one a hypernym (k_ij)?

    the paper            here                           the paper    here
    𝒟_A^i  trigram       word i, its head, its type     θ            theta = 2 (appendix)
    h, t, r of 𝒟_A^i     head, word i, relation         α, ν         alpha = 1, nu = 0.5: ours
    s, r of Eqs. 2, 3    same_words, same_types         tf_{A^i}     tf_a[i]
    k_ij of Knowledge    relation_matrix(...)[i, j]

A parse is any object with these five attributes; support.parses makes such objects:

    words             list of n words
    heads  (n,)       int, the number of each word's head, counted from 1; 0 = ROOT
    symbols  (n+1,)   each word as it is compared; place 0 is ROOT, whose symbol equals no word's
    types  (n+1,)     each word's relation to its head; place 0 is ROOT
    depths  (n+1,)    int, steps from each word up to ROOT

Left out: lemmas, morphology, enhanced dependencies, the sense that a word has in its sentence.
"""

import copy
import functools
import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

# Axes: n words of a, m words of b, R lexical relations

TAGS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN",
        "PUNCT", "SCONJ", "SYM", "VERB", "X")   # universal parts of speech


# ---- What a method asks --------------------------------------------------------------------------

class Prior:
    """What a method knows of a pair's words before training: a matrix over the words of a and b.

    The method's class method `prior(printed, without)` makes it; batches.Reader asks it.

    needs: what is read of each text, some of "words"; "parses"; "facts" of a lexicon; "tags", the
        parts of speech by which a lexicon looks words up (the toy world's lexicon needs none).
    known: its name in a sentence that begins with "without".
    title, note, equations: what the page of a pair says of the matrix.
    names: what the last axis of a matrix (n, m, R) of bool holds; () without such an axis.
    """

    needs, known, names = ("words",), "prior knowledge", ()
    title, equations = "Prior over words", ""
    note = "What is known of a word of a (row) and a word of b (column)."

    def fit(self, sentences):
        """Counts in the training texts. sentences: iterable of lists of words, both of a pair."""

    def state(self):
        """What `fit` counted, of plain values: a run's file holds it. None: nothing."""

    def load(self, state):
        """Takes over what `state` returned."""

    def matrix(self, a, b):
        """(n, m) or (n, m, ...) numbers. a, b: have words, parse, facts, such as batches.Known."""
        raise NotImplementedError


class FunctionPrior(Prior):
    """The prior of a class that has PRIOR, a function of two parses, in the place of `prior`.

    With NEEDS = ("words",) the class has a function of two lists of words.
    """

    def __init__(self, method):
        self.function, self.needs = method.PRIOR, getattr(method, "NEEDS", ("parses",))

    def matrix(self, a, b):
        """What the function returns. It gets copies, which it may change."""
        part = "words" if "words" in self.needs else "parse"
        return self.function(*copy.deepcopy([getattr(x, part) for x in (a, b)]))


def prior_of(method, options):
    """The Prior of a method's class, or None. options: dict, of which printed and without count."""
    if getattr(method, "PRIOR", None) is not None:
        return FunctionPrior(method)
    make = getattr(method, "prior", None)
    return make and make(*(options.get(name, frozenset()) for name in ("printed", "without")))


# ---- DAFA's dependency matrix --------------------------------------------------------------------

class TfIdf:
    """The weights tf of DAFA Eq. (5): tf-idf of each word, divided by its mean over the sentence.

        count of w in the sentence · (ln((1 + N) / (1 + df(w))) + 1)

    Of N sentences, df(w) have the word w. Words are case-folded; an unseen word has df = 0.

    Assumes: the formula (the paper cites Ramos et al., 2003, and prints none), and the corpus, the
        task's training sentences.
    Departs: the division by the mean makes a typical word weigh 1. Weights of unit length (about
        0.3 each) would take equal words below 1, where Eq. (6) as printed weakens them.
    """

    def __init__(self, sentences):
        """sentences: iterable of lists of words."""
        self.df, self.N = Counter(), 0
        for words in sentences:
            self.df.update({word.casefold() for word in words})
            self.N += 1

    def weights(self, words: list[str]) -> np.ndarray:
        """(n,) float64 with mean 1, for a list of n words."""
        words = [word.casefold() for word in words]
        count = Counter(words)
        tf = [count[w] * (math.log((1 + self.N) / (1 + self.df[w])) + 1) for w in words]
        tf = np.array(tf)  # (n,)
        return tf / tf.mean() if words else tf


def tree_similarity(a, b, theta=2.0, root=True) -> np.ndarray:
    """M of DAFA Eq. (1), (n, m) float64, for parses a and b of n and m words.

        M(i, j) = [s(h_i, h_j) + s(t_i, t_j)] · r(r_i, r_j)                            DAFA Eq. (1)
        s = 1 for equal words, else 0                                                  DAFA Eq. (2)
        r = θ for equal relations, else 1                                              DAFA Eq. (3)

    With θ = 2 the paper's example ties: Apple and company in one role have 2, Apple in two, too.

    Assumes: words are equal up to case, relations exactly. ROOT equals ROOT alone, so that two
        roots get at least θ whatever their words, often the largest cell of a pair. The page does
        not say whether ROOT is a head that two words share; with root=False it is not. A text of
        several sentences is one tree: later roots hang from the first as parataxis.
    """
    same_words = a.symbols[:, None] == b.symbols  # (n+1, m+1)
    same_words[0, 0] = root
    same_types = a.types[1:, None] == b.types[1:]  # (n, m)
    agreeing = 1.0 * same_words[a.heads[:, None], b.heads] + same_words[1:, 1:]  # (n, m)
    return agreeing * np.where(same_types, theta, 1.0)  # (n, m)


def subgraph_similarity(a, b, alpha=1.0, nu=0.5, printed=False) -> np.ndarray:
    """S of DAFA Eq. (4), (n, m) float64, for parses a and b of n and m words.

        S(i, j) = Σ (α · s(t_i, t_j) + ν · S(x, y)) over children x of i, y of j,
                  if t_i = t_j and r_i = r_j;   0, else

    The heads must be trees; support.parses checks this where parses come in.
    Assumes: α = 1, ν = 0.5; equality as in Eq. (1). The page has a set in braces: we read its sum.
    Departs: on the page α counts once for each *pair* of children, whatever these are, and a leaf
    gets no α. The text calls α "a fixed score to the child nodes of matching trigram pair". We give
    α once to the matching pair itself, S(i, j) = α + ν · Σ S(x, y); the α of matching children
    reaches their heads as ν α. A third reading of the text, Σ (α + ν · S) over matching children,
    gives a matching leaf 0, where we give it α.
    """
    match = (a.symbols[:, None] == b.symbols) & (a.types[:, None] == b.types)  # (n+1, m+1)
    S = float(alpha) * match  # (n+1, m+1)
    if printed:
        children_a = np.bincount(a.heads, minlength=len(a.symbols))  # (n+1,)
        children_b = np.bincount(b.heads, minlength=len(b.symbols))  # (m+1,)
        S = S * np.outer(children_a, children_b)  # (n+1, m+1)
    # From the leaves of a up, each matching pair adds to the pair of its heads, if the heads match.
    i, j = match[1:, 1:].nonzero()
    p, q = a.heads[i], b.heads[j]
    i, j = i + 1, j + 1
    order = np.argsort(-a.depths[i])
    order = order[match[p, q][order]]
    for i, j, p, q in zip(*(places[order].tolist() for places in (i, j, p, q))):
        S[p, q] += nu * S[i, j]
    return S[1:, 1:]  # (n, m)


def dependency_matrix(a, b, tf_a: np.ndarray, tf_b: np.ndarray, printed=frozenset(),
                      without=frozenset()) -> np.ndarray:
    """M_F of DAFA Eq. (5), (n, m) float32, for parses a and b of n and m words.

        M_F(i, j) = abs(M(i, j) + S(i, j)) · tf_a[i] · tf_b[j]

    tf_a (n,), tf_b (m,): TfIdf.weights of the words. printed: set of equation numbers; 4 counts
    here. without: set of parts to leave out, "tree" (M = 0), "subgraph" (S = 0), "tfidf" (tf = 1),
    "root" (ROOT is no head that two words share). M and S are never negative: abs does nothing.

    Assumes: tf-idf "only used" (Fig. 4), without tree and subgraph, is tf_a[i] · tf_b[j]; without
        all three, 0.
    """
    only_tfidf = set(without) - {"root"} == {"tree", "subgraph"}
    root = "root" not in without
    M = float(only_tfidf) if "tree" in without else tree_similarity(a, b, root=root)
    S = 0 if "subgraph" in without else subgraph_similarity(a, b, printed=4 in printed)
    size = len(a.heads), len(b.heads)
    tf = np.ones(size) if "tfidf" in without else np.outer(tf_a, tf_b)  # (n, m)
    return (np.abs(M + S) * tf).astype(np.float32)  # (n, m)


class DependencyPrior(Prior):
    """M_F of DAFA Eqs. (1)-(5), with the tf-idf of the training sentences.

    printed, without: as in dependency_matrix, which ignores other names.
    """

    PARTS = frozenset({"tree", "subgraph", "tfidf", "root"})    # which `without` may name
    needs, known = ("parses",), "the trees"
    title, equations = "Dependency prior over words", "DAFA Eqs. (1)-(5)"
    note = ("How much the trees agree at a word of a (row) and a word of b (column). The same word "
            "in another role and another word in the same role can have the same number. Two roots "
            "share a head, ROOT, whatever their words, unless `root` is left out.")

    def __init__(self, printed=frozenset(), without=frozenset()):
        self.printed, self.without, self.tfidf = printed, self.PARTS & without, None

    def fit(self, sentences):
        self.tfidf = TfIdf(sentences)

    def state(self):
        return {"sentences": self.tfidf.N, "df": dict(sorted(self.tfidf.df.items()))}

    def load(self, state):
        """Takes over what `fit` counted in training."""
        self.tfidf = TfIdf([])
        self.tfidf.N, self.tfidf.df = state["sentences"], Counter(state["df"])

    def matrix(self, a, b):
        """M_F, (n, m) float32."""
        return dependency_matrix(a.parse, b.parse, self.tfidf.weights(a.words),
                                 self.tfidf.weights(b.words), self.printed, self.without)  # (n, m)


# ---- lexical relations ---------------------------------------------------------------------------

RELATIONS = "synonym", "antonym", "hypernym", "hyponym", "cohyponym"   # the order of axis R
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


def relation_matrix(facts_a: list, facts_b: list) -> np.ndarray:
    """k_ij of Knowledge Eq. (2), (n, m, R) bool: which RELATIONS hold of word i of a, word j of b.

    facts_a, facts_b: Lexicon.facts of n and m words. "hypernym" holds where word j is a hypernym of
    word i, as animal is of dog; "hyponym" where word i is a hypernym of word j.

    Assumes: the treatment of expressions, which the paper does not mention. First each word
        is compared with each word. Then an expression gives its relations to each of its words:
        New York has the hypernym city, so New has it, and York. A word that has a synonym or an
        antonym in the other expression gets none of these. Equal words that the lexicon knows are
        synonyms and nothing else. So are two words if one has all senses of the other. Equal words
        that the lexicon does not know are not related.
    Departs: co-hyponyms, which share a hypernym, are a fifth relation: the paper's own example,
        wheat and corn. Synonyms do not count as co-hyponyms, nor antonyms as synonyms.

    >>> words = Table({"hypernym": [("dog", "animal")], "synonym": [("beast", "animal")]})
    >>> k = relation_matrix(words.facts(["dogs", "beast", "dog"]), words.facts(["Animal"]))
    >>> [[RELATIONS[r] for r in row.nonzero()[0]] for row in k[:, 0]]
    [[], ['synonym'], ['hypernym']]
    """
    k = np.zeros((len(facts_a), len(facts_b), len(RELATIONS)), bool)  # (n, m, R)
    (words_a, expressions_a), (words_b, expressions_b) = index_facts(facts_a), index_facts(facts_b)
    for rows, columns, relations in related_places(words_a, words_b):
        k[rows, columns] = relations
    settled = k[..., :2].any(-1)  # (n, m)
    for rows, columns, relations in itertools.chain(
            related_places(words_a, expressions_b), related_places(expressions_a, words_b),
            related_places(expressions_a, expressions_b)):
        cells = settled[rows, columns]
        free = ~cells.any(1)[:, None] & ~cells.any(0)
        k[rows, columns] |= free[..., None] & relations
    k[..., 0] &= ~k[..., 1]
    k[..., 4] &= ~k[..., 0]
    return k  # (n, m, R)


class RelationPrior(Prior):
    """k_ij of Knowledge Eq. (2), from a lexicon.

    without: of "tags", relations of any part of speech; "prior", no relation holds, so that the
    places of the words are all that is read.
    """

    known, names, title = "the lexicon", RELATIONS, "Relations of words"
    note = ("What the lexicon knows of a word of a (row) and a word of b (column); hypernym: the "
            "word of b is more general. The model learns that a relation holds, not which.")

    def __init__(self, without=frozenset()):
        self.needs = ("facts",) if "tags" in without else ("facts", "tags")
        if "prior" in without:
            self.needs = ("words",)

    def matrix(self, a, b):
        """k_ij, (n, m, R) bool."""
        if "facts" not in self.needs:
            return np.zeros((len(a.words), len(b.words), len(RELATIONS)), bool)
        return relation_matrix(a.facts, b.facts)  # (n, m, R)


class WordFeatures(Prior):
    """What DRr-Net knows of a word beside its letters (§ IV-A): columns of its input, no matrix."""

    needs = "parses", "facts"

    def features(self, a, b, limit):
        """Of the first `limit` words of a, or of the unknown word that a text without words has.

        Returns: the place of each word's tag in TAGS; whether b has the word, in any case; whether
        b has an antonym of it: three sequences.
        """
        relations = relation_matrix(a.facts[:limit] or [None], b.facts)  # (n, m, R)
        antonyms = relations[..., RELATIONS.index("antonym")].any(1)  # (n,)
        folded = {word.casefold() for word in b.words}
        tags = [TAGS.index(tag if tag in TAGS else "X") for tag in a.parse.tags or ["X"]]
        shared = [word.casefold() in folded for word in a.words or [""]]
        return tags[:limit], shared[:limit], antonyms


def index_facts(facts):
    """(words, expressions) of a sentence, two dicts: Facts -> its places, slices of the words."""
    words, expressions = {}, {}
    for i, by_size in enumerate(facts):
        for size, entry in (by_size or {}).items():
            part = words if size == 1 else expressions
            part.setdefault(entry, []).append(slice(i, i + size))
    return words, expressions


def related_places(parts_a, parts_b):
    """Yields (slice of a, slice of b, five bool: which RELATIONS hold) where any may hold."""
    for word, places_a in parts_a.items():
        for other, places_b in parts_b.items():
            if not word.keys.isdisjoint(other.keys):
                relations = related(word, other)
                for rows, columns in itertools.product(places_a, places_b):
                    yield rows, columns, relations


def related(word, other):
    """Which RELATIONS hold between two Facts, five bool.

    If one has all senses of the other, both are forms of one word (eat, eats) or nearly so. They
    are synonyms and nothing else, although one sense of eat is a hypernym of another.
    """
    if word.senses <= other.senses or word.senses >= other.senses:
        return True, False, False, False, False
    synonym = not (word.senses.isdisjoint(other.senses) and word.similar.isdisjoint(other.first)
                   and other.similar.isdisjoint(word.first))
    return (synonym,
            not word.opposites.isdisjoint(other.senses),
            not word.ancestors.isdisjoint(other.senses),
            not word.senses.isdisjoint(other.ancestors),
            not word.parents.isdisjoint(other.parents))


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
    """A lexicon from pairs of words, such as support.toy.LEXICON.

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
                    key = other if relation in ("antonym", "hypernym") else (x, y)
                    if relation != "hypernym" or word == x:
                        getattr(facts, field).add(key)
        super().__init__(self.table)

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
