"""What is known about sentences before training: words, dependency trees, DAFA's matrix, lexical relations.

DAFA (EMNLP Findings 2022), section 2.1, compares each word of a sentence a with each word of a sentence b: are
they equal, and their heads, and the relations to these (M), do the subtrees below them match (S), are the words
rare (tf-idf)? The result, M_F (n, m), calibrates attention in semmatch.

"Using External knowledge to Enhanced PLM for Semantic Matching" (Li and Yuan; cited as Knowledge), section 3.2,
asks a lexicon about both words: is one a synonym of the other, an antonym, a hypernym (k_ij)?

    the paper            here                        the paper            here
    𝒟_A^i  trigram       word i, its head, its type  θ                    theta = 2 (appendix)
    h, t, r of 𝒟_A^i     head, word i, relation      α, ν                 alpha = 1, nu = 0.5 (not given)
    s, r of Eqs. 2, 3    same_words, same_types      tf_{A^i}             tf_a[i]
    k_ij of Knowledge    relation_matrix(...)[i, j]

Left out: lemmas and morphology of a parse, enhanced dependencies, sentence splitting (a text is parsed as one
sentence), the sense that a word has in its sentence.
"""

import argparse
import functools
import hashlib
import itertools
import json
import math
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from tqdm import tqdm

# Axes: n words of a, m words of b, R lexical relations, S sentences, T words of the longest sentence and ROOT

MAX_WORDS = 512      # words beyond are left out of a parse: no encoder here can see them
BATCH_WORDS = 4096   # about so many words go to the parser at once
SHARD = 1024         # texts whose parses make one file of the cache: what kill -9 loses, at most
KEPT = 2 ** 15       # Parses that stay made
CACHE_FORMAT = 3     # raise it when the cache file or split_words changes
PARSER = Path(__file__).with_name("assets") / "parser.npz"    # the one that ships with the project


# ---- words and trees -----------------------------------------------------------------------------------------

# A full stop that may end a sentence, with closing quotes and brackets behind it; how the next word begins.
FULL_STOP = re.compile(r"""(?<![\s.])\.["'”’)\]]*(?=\s+["'“‘`(\[]*(\S))""")
ABBREVIATIONS = frozenset("""
    Mr Mrs Ms Messrs Dr Prof Rev Hon St Mt Ft Jr Sr Gen Brig Col Lt Lieut Maj Capt Cmdr Adm Sgt Det Cpl Pfc Gov
    Sen Sens Rep Reps Inc Corp Co Cos Ltd Bros Dept Univ Assn Ave Blvd Rd Hwy No Nos vs etc al Jan Feb Mar Apr
    Jun Jul Aug Sep Sept Oct Nov Dec Ala Alta Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky La Mass Md
    Mich Minn Miss Mo Mont Neb Nev Okla Ont Ore Pa Sask Tenn Tex Va Vt Wash Wis Wyo""".split())


def split_words(text):
    """Words of any text as spans, (n, 2) int: start and end, in order, covering every non-space character.

    They are those of nltk's NLTKWordTokenizer. It only inserts spaces and writes each " as two characters, so
    counting characters other than spaces leads back to the text. (Its span_tokenize raises where '' meets ".)
    It sees one sentence at a time, as it only takes the last full stop of a text off its word.

    >>> split_words('I can\\'t. No!').tolist()
    [[0, 1], [2, 4], [4, 7], [7, 8], [9, 11], [11, 12]]
    """
    origin = [i for i, c in enumerate(text) if not c.isspace() for _ in range(1 + (c == '"'))]
    try:
        lengths = [len(token) for part in _cut(text) for token in word_tokenizer().tokenize(part)]
    except TimeoutError:   # nltk gives up on a text that its expressions take too long for
        lengths = []
    if sum(lengths) != len(origin):
        return np.array([match.span() for match in re.finditer(r"\S+", text)], np.int32).reshape(-1, 2)
    return _spans(origin, lengths)


@functools.cache
def word_tokenizer():
    """nltk's. It is imported here, as that takes up to a second, and `train.py --help` has no use for it."""
    from nltk.tokenize import NLTKWordTokenizer
    return NLTKWordTokenizer()


def _cut(text):
    """The sentences of a text: a full stop ends one if white space and a capital letter or a digit follow.

    Not after one letter (J., U.S., p.m.) or one of ABBREVIATIONS; quotes and brackets may stand in between.
    """
    ends = [0]
    for stop in FULL_STOP.finditer(text):
        before = re.split(r"[\s./(\[\"“-]", text[max(0, stop.start() - 10):stop.start()])[-1]
        abbreviation = len(before) == 1 and before.isalpha() or before in ABBREVIATIONS
        if (stop[1].isupper() or stop[1].isdigit()) and not abbreviation:
            ends.append(stop.end())
    return [text[i:j] for i, j in zip(ends, [*ends[1:], len(text)])]


def _spans(origin, lengths):
    """Spans (n, 2) of n words in a row; their characters together stand at the places `origin` of the text."""
    origin, lengths = np.array(origin, np.int32), np.array(lengths, np.int64)
    last = lengths.cumsum() - 1
    return np.stack([origin[last - lengths + 1], origin[last] + 1], axis=1)  # (n, 2)


def tree_depths(heads):
    """Number of words above each word, (n,) int; n + 1 where the heads run in a cycle and never reach 0."""
    heads = np.concatenate([[0], heads]).astype(np.int64)
    depths, above = np.zeros(len(heads) - 1, np.int64), heads[1:]
    for _ in range(len(heads)):
        if not above.any():
            break
        depths += above > 0
        above = heads[above]
    return depths  # (n,)


@dataclass(frozen=True, eq=False)
class Parse:
    """The typed dependency tree of one sentence.

    spans: (n, 2) int, characters of each word in text. tags: n universal parts of speech. heads: (n,) int, the
    number of each word's head, counted from 1; 0 = ROOT. relations: n names, as the parser writes them.
    """
    text: str
    spans: np.ndarray
    tags: tuple
    heads: np.ndarray
    relations: tuple

    def __post_init__(self):
        sizes = len(self.spans), len(self.tags), len(self.heads), len(self.relations)
        if len(set(sizes)) > 1:
            raise ValueError(f"Parse: needs as many spans, tags, heads, relations, got {sizes}: {self.text!r}")

    @property
    def words(self):
        return [self.text[start:end] for start, end in self.spans.tolist()]

    # In the next three, place i belongs to word i, and place 0 to ROOT, whose symbol None equals no word.

    @functools.cached_property
    def symbols(self):
        """(n+1,) case-folded words. Interned: one copy of each word, and a quick comparison."""
        return np.array([None, *(sys.intern(word.casefold()) for word in self.words)], object)

    @functools.cached_property
    def types(self):
        """(n+1,) relations."""
        return np.array([None, *self.relations], object)

    @functools.cached_property
    def depths(self):
        """(n+1,) steps to ROOT. Raises ValueError when the heads are no tree."""
        n, heads = len(self.heads), self.heads
        outside = n and (heads.min() < 0 or heads.max() > n)
        depths = np.full(n, n + 1) if outside else tree_depths(heads)
        if depths.max(initial=0) > n:
            raise ValueError(f"Parse: heads must all lead to 0, got {heads.tolist()}: {self.text!r}")
        return np.concatenate([[0], depths + 1])


# ---- DAFA's dependency matrix --------------------------------------------------------------------------------

class TfIdf:
    """The weights tf of DAFA Eq. (5): tf-idf of each word, divided by its mean over the sentence.

        count of w in the sentence · (ln((1 + N) / (1 + df(w))) + 1)

    N sentences, df(w) of them with the word w. Words are case-folded; an unseen word has df = 0.

    Assumes: form and corpus, which the paper does not give; the training sentences of the task, one a document.
    Departs: the division by the mean makes a typical word weigh 1. Weights of unit length (about 0.3 each)
        would take equal words below 1, where Eq. (6) as typeset weakens them.
    """

    def __init__(self, sentences):
        """sentences: iterable of lists of words."""
        self.df, self.N = Counter(), 0
        for words in sentences:
            self.df.update({word.casefold() for word in words})
            self.N += 1

    def weights(self, words):
        """(n,) float64 with mean 1, for a list of n words."""
        words = [word.casefold() for word in words]
        count = Counter(words)
        tf = np.array([count[w] * (math.log((1 + self.N) / (1 + self.df[w])) + 1) for w in words])
        return tf / tf.mean() if words else tf


def tree_similarity(a, b, theta=2.0):
    """M of DAFA Eq. (1), (n, m) float64, for Parses a and b of n and m words.

        M(i, j) = [s(h_i, h_j) + s(t_i, t_j)] · r(r_i, r_j)                               DAFA Eq. (1)
        s = 1 for equal words, else 0                                                     DAFA Eq. (2)
        r = θ for equal relations, else 1                                                 DAFA Eq. (3)

    θ = 2, the paper's, ties its own example: Apple and company in one role give 2, as does Apple in two roles.

    Assumes: words are equal up to case, relations exactly; the ROOT of a equals the ROOT of b and no word.
    """
    same_words = a.symbols[:, None] == b.symbols  # (n+1, m+1)
    same_types = a.types[1:, None] == b.types[1:]  # (n, m)
    agreeing = 1.0 * same_words[a.heads[:, None], b.heads] + same_words[1:, 1:]  # (n, m)
    return agreeing * np.where(same_types, theta, 1.0)  # (n, m)


def subgraph_similarity(a, b, alpha=1.0, nu=0.5, printed=False):
    """S of DAFA Eq. (4), (n, m) float64, for Parses a and b of n and m words.

        S(i, j) = α + ν · Σ S(x, y) over children x of i, y of j,       if t_i = t_j and r_i = r_j, else 0

    Printed: S(i, j) = Σ (α · s(t_i, t_j) + ν · S(x, y)) over the same. α then counts once per *pair* of
    children: a word with many children gets a large S whatever the children are, and a leaf gets none.

    Assumes: α = 1, ν = 0.5; equality as in Eq. (1). Departs: α counts once, for a leaf as well. The text calls it "a
    fixed score to the child nodes of matching trigram pair", by which a leaf would have none; we give it to the
    matching pair itself, and that of matching children reaches their heads as ν α.
    Raises ValueError when the heads of a are no tree.
    """
    match = (a.symbols[:, None] == b.symbols) & (a.types[:, None] == b.types)  # (n+1, m+1)
    S = float(alpha) * match  # (n+1, m+1)
    if printed:
        children_a, children_b = (np.bincount(p.heads, minlength=len(p.symbols)) for p in (a, b))
        S = S * np.outer(children_a, children_b)  # (n+1, m+1)
    # From the leaves of a up, each matching pair adds to the pair of its heads, if that matches.
    i, j = match[1:, 1:].nonzero()
    p, q = a.heads[i], b.heads[j]
    i, j = i + 1, j + 1
    order = np.argsort(-a.depths[i])
    order = order[match[p, q][order]]
    for i, j, p, q in zip(*(places[order].tolist() for places in (i, j, p, q))):
        S[p, q] += nu * S[i, j]
    return S[1:, 1:]  # (n, m)


def dependency_matrix(a, b, tf_a, tf_b, printed=frozenset(), without=frozenset()):
    """M_F(i, j) = abs(M(i, j) + S(i, j)) · tf_a[i] · tf_b[j]   DAFA Eq. (5), (n, m) float32.

    a, b: Parses of n and m words; tf_a (n,), tf_b (m,): TfIdf.weights of their words. printed: set of equation
    numbers; 4 counts here. without: set of parts to leave out, "tree" (M = 0), "subgraph" (S = 0), "tfidf"
    (tf = 1). M and S are never negative here, so abs does nothing. Raises ValueError for another part.

    Assumes: tf-idf "only used" (Fig. 4), without tree and subgraph, is tf_a[i] · tf_b[j]; without all three, 0.
    """
    if set(without) - {"tree", "subgraph", "tfidf"}:
        raise ValueError(f"dependency_matrix: without takes tree, subgraph, tfidf; got {sorted(without)}")
    alone = {"tree", "subgraph"} <= set(without) and "tfidf" not in without
    M = float(alone) if "tree" in without else tree_similarity(a, b)
    S = 0 if "subgraph" in without else subgraph_similarity(a, b, printed=4 in printed)
    tf = np.ones((len(a.heads), len(b.heads))) if "tfidf" in without else np.outer(tf_a, tf_b)  # (n, m)
    return (np.abs(M + S) * tf).astype(np.float32)  # (n, m)


# ---- lexical relations ---------------------------------------------------------------------------------------

RELATIONS = "synonym", "antonym", "hypernym", "hyponym", "cohyponym"   # the order of axis R
LONGEST = 4   # words in an expression, at most
MANY = 100    # a hypernym with more direct hyponyms (person, change, travel) is too general to make co-hyponyms

# Words of the closed classes, which WordNet lacks or mistakes (in: indium, it: information technology):
# articles, demonstratives, pronouns, auxiliaries, conjunctions, and prepositions but for those of place that
# have opposites (up, down, above, below, inside, outside, near); pieces of contractions; single letters.
FUNCTION_WORDS = frozenset("""
    a an the this that these those such no none any each every either neither both another own there
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself
    she her hers herself it its itself they them their theirs themselves
    who whom whose which what whoever whatever whichever
    be am is are was were been being have has had having do does did doing done
    can could will would shall should may might must ought
    and or but nor if than because whereas although though unless until till whether while since so yet
    of in to for on with at by from into onto upon as about over under after before between among against
    during without within through throughout across along around behind beneath beside besides beyond off out
    toward towards via per despite except
    not n't 's 'm 'd 're 've 'll re ve ll ca wo sha ai gon na wan ta
    b c d e f g h j k l m n o p q r s t u v w x y z""".split())


class Facts(NamedTuple):
    """What a lexicon knows of a word, as sets of keys. Words are related when their sets meet.

    senses: what the word may mean. opposites, ancestors: senses of its antonyms, of its hypernyms. parents:
    keys that it shares with its co-hyponyms. keys: all of these; without a common one, words are not related.
    """
    senses: frozenset
    opposites: frozenset
    ancestors: frozenset
    parents: frozenset
    keys: frozenset


def relation_matrix(facts_a, facts_b):
    """k_ij of Knowledge Eq. (2), (n, m, R) bool: which RELATIONS hold of word i of a and word j of b.

    facts_a, facts_b: Facts of n and m words, None for a word that the lexicon lacks. "hypernym" holds where
    word j is a hypernym of word i, as animal is of dog; "hyponym" where word i is one of word j.

    Departs: co-hyponyms, which share a hypernym, are none of the paper's four relations, yet its example, wheat
    and corn, is a pair of them. Synonyms share all their hypernyms; they do not count as co-hyponyms.

    >>> words = Table({"hypernym": [("dog", "animal")], "synonym": [("beast", "animal")]})
    >>> k = relation_matrix(words.facts(["dogs", "beast", "dog"]), words.facts(["Animal"]))
    >>> [[RELATIONS[r] for r in row.nonzero()[0]] for row in k[:, 0]]
    [[], ['synonym'], ['hypernym']]
    """
    k = np.zeros((len(facts_a), len(facts_b), len(RELATIONS)), bool)  # (n, m, R)
    known = [(j, facts, facts.keys) for j, facts in enumerate(facts_b) if facts]
    for i, word in enumerate(facts_a):
        for j, other, keys in known if word else ():
            if not word.keys.isdisjoint(keys):
                k[i, j] = related(word, other)
    return k  # (n, m, R)


def make_facts(senses, opposites, ancestors, parents):
    """Facts out of four sets of keys."""
    keys = senses | opposites | ancestors | parents
    return Facts(*map(frozenset, (senses, opposites, ancestors, parents, keys)))


def related(word, other):
    """Which RELATIONS hold of two words, as five bool, from the Facts of each."""
    synonym = not word.senses.isdisjoint(other.senses)
    return (synonym,
            not word.opposites.isdisjoint(other.senses),
            not word.ancestors.isdisjoint(other.senses),
            not word.senses.isdisjoint(other.ancestors),
            not synonym and not word.parents.isdisjoint(other.parents))


class Lexicon:
    """Finds words and expressions of a sentence. Table and WordNet add base_forms(word) and look_up(name)."""

    def __init__(self, names):
        """names: case-folded words and expressions, these with a space between their words."""
        self.expressions = {}   # first word -> set of expressions
        for name in names:
            first, space, _ = name.partition(" ")
            if space:
                self.expressions.setdefault(first, set()).add(name)

    def facts(self, words):
        """Facts of n words of a sentence, a list; None for a word that the lexicon lacks. Case does not matter.

        Each word of an expression (New York, ice creams) gets the Facts of the expression in place of its own.
        Of expressions that overlap, the one that starts first counts, then the longest, of up to LONGEST words.
        """
        words, facts = [word.casefold() for word in words], []
        while len(facts) < len(words):
            start = len(facts)
            name, size = self.expression(words[start:start + LONGEST]) or (words[start], 1)
            facts += [self.look_up(name)] * size
        return facts

    def expression(self, words):
        """(expression, its number of words) that the words begin with, the longest; None without one.

        Assumes: inflected in its first or last word, if at all (picked up, ice creams).
        """
        starts = [first for first in self.base_forms(words[0]) if first in self.expressions]
        for size in range(len(words), 1, -1) if starts else ():
            for first, last in itertools.product(starts, self.base_forms(words[size - 1])):
                name = " ".join([first, *words[1:size - 1], last])
                if name in self.expressions[first]:
                    return name, size
        return None


class Table(Lexicon):
    """A lexicon from pairs of words, such as tasks.LEXICON.

    Assumes: words as they stand, up to case, without lemmatizing. Only what the pairs say: a synonym's synonym
    or a hypernym's hypernym needs a pair of its own. Each word of the table is a synonym of itself.
    """

    def __init__(self, pairs):
        """pairs: dict relation -> pairs of words, or of expressions of up to LONGEST words. Relations: synonym,
        antonym, cohyponym, and hypernym for (specific, general). Raises ValueError for another one."""
        if not pairs.keys() <= set(RELATIONS) - {"hyponym"}:
            raise ValueError(f"Table: pairs takes synonym, antonym, hypernym, cohyponym; got {sorted(pairs)}")
        table = {}   # word -> its senses, opposites, ancestors, parents
        for relation, rows in pairs.items():
            for x, y in rows:
                x, y = x.casefold(), y.casefold()
                for word, other in ((x, y), (y, x)):
                    sets = table.setdefault(word, ({word}, set(), set(), set()))
                    senses, opposites, ancestors, parents = sets
                    if relation == "antonym":
                        opposites.add(other)
                    elif relation != "hypernym":
                        (senses if relation == "synonym" else parents).add((x, y))
                    elif word == x:
                        ancestors.add(y)
        self.table = {word: make_facts(*sets) for word, sets in table.items()}
        super().__init__(self.table)

    def base_forms(self, word):
        return [word]

    def look_up(self, name):
        return self.table.get(name)


class WordNet(Lexicon):
    """Princeton's WordNet, as nltk reads it, for case-folded and lemmatized English words.

    Assumes: all of this, which the paper leaves open.
        A word stands for all its lemmas, of any part of speech. FUNCTION_WORDS have no facts.
        Synonyms share a sense, any; a word is one of itself. Antonyms are opposed in any sense, and so are
        their synonyms: big to small, as large is. An adjective only similar to one with an antonym gets none.
        Hypernyms and co-hyponyms are those of a lemma's first sense, its most frequent: over all senses, most
        such pairs are chance (to right and to prepare are changes). The hypernym may be meant in any sense.
        A hypernym is up to `depth` steps away. Co-hyponyms share a direct one that has at most MANY hyponyms.
        An instance counts as a hyponym (Paris of city).
    """

    def __init__(self, depth=3):
        """Loads WordNet, a few seconds and 230 MB, once. Raises ValueError when nltk has no WordNet to load."""
        if depth < 1:
            raise ValueError(f"WordNet: depth must be 1 or more, got {depth}")
        self.depth, self.wordnet, self.bases, self.known = depth, load_wordnet(), {}, {}
        names = (name.replace("_", " ") for name in self.wordnet.all_lemma_names())
        super().__init__(name for name in names if not set(name.split()) <= FUNCTION_WORDS)

    def base_forms(self, word):
        """The word and its lemmas: all, where nltk's public morphy gives one of a kind (of found, not find)."""
        if word not in self.bases:
            lemmas = [lemma for pos in "nvar" for lemma in self.wordnet._morphy(word, pos)]
            self.bases[word] = tuple(dict.fromkeys([word, *lemmas]))
        return self.bases[word]

    def look_up(self, name):
        """Facts of a case-folded word or expression, or None. Each is looked for once."""
        if name not in self.known:
            self.known[name] = None if name in FUNCTION_WORDS else self.read(name.replace(" ", "_"))
        return self.known[name]

    def read(self, name):
        """Facts out of WordNet, or None. Keys are synsets' names, such as dog.n.01."""
        senses, first = set(), set()
        for pos in "nvar":
            for lemma in self.wordnet._morphy(name, pos):
                synsets = self.wordnet.synsets(lemma, pos)
                senses.update(synsets)
                first.add(synsets[0])
        opposites = {other.synset() for s in senses for lemma in s.lemmas() for other in lemma.antonyms()}
        levels = [first]
        for _ in range(self.depth):
            levels.append({above for s in levels[-1] for above in s.hypernyms() + s.instance_hypernyms()})
        parents = {s for s in levels[1] if len(s.hyponyms()) <= MANY}
        sets = senses, opposites, set().union(*levels[1:]), parents
        return make_facts(*({s.name() for s in synsets} for synsets in sets)) if senses else None


def load_wordnet():
    """nltk's WordNet. Raises ValueError when there is none, or a damaged one."""
    from nltk.corpus import wordnet   # imported here, as few runs need it
    remedy = "get it with `python -m nltk.downloader wordnet`, or let NLTK_DATA name a folder that has it"
    try:
        wordnet.ensure_loaded()
    except LookupError:
        raise ValueError(f"WordNet: nltk does not find it; {remedy}") from None
    except Exception as problem:   # a damaged zip file can raise almost anything
        raise ValueError(f"WordNet: nltk's copy is damaged ({type(problem).__name__}); {remedy}") from None
    return wordnet


# ---- words of DRr-Net ------------------------------------------------------------------------------------------

TAGS = tuple("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())


class Vocabulary:
    """Numbers of words and characters for DRr-Net's input (LadRa-Net paper, section IV-A): 0 padding, 1 unknown.

    words, characters: what is known, numbered from 2 on. vectors: (2 + words, width) float32, fixed vectors of the
    words, or None where they are learned.
    """

    def __init__(self, words, characters, vectors=None):
        self.words, self.characters, self.vectors = list(words), list(characters), vectors
        self._word = {word: i for i, word in enumerate(self.words, 2)}
        self._character = {character: i for i, character in enumerate(self.characters, 2)}

    @classmethod
    def learn(cls, sentences, found=None, seed=0):
        """From lists of words. Without vectors a word is known, case-folded, if it occurs twice: what occurs once
        trains the unknown word. With `found`, the result of read_vectors, every word is known: as written or
        case-folded, whichever has a vector; "out-of-vocabulary words are randomly initialized", alike in spread.
        """
        count = Counter(word for words in sentences for word in words)
        characters = sorted({character for word in count for character in word})
        if found is None:
            folded = Counter()
            for word, times in count.items():
                folded[word.casefold()] += times
            return cls(sorted(word for word, times in folded.items() if times > 1), characters)
        words = sorted({word if word in found else word.casefold() for word in count})
        known = np.stack([found[word] for word in words if word in found])
        vectors = np.random.default_rng(seed).normal(0, known.std(), (2 + len(words), known.shape[1]))
        vectors[0] = 0
        for i, word in enumerate(words, 2):
            vectors[i] = found.get(word, vectors[i])
        return cls(words, characters, vectors.astype(np.float32))

    def ids(self, words):
        """(n,) int64: of the word as written, else case-folded, else 1."""
        return np.array([self._word.get(w) or self._word.get(w.casefold(), 1) for w in words], np.int64)  # (n,)

    def spell(self, words, width=16):
        """(n, width) int64: the characters of each word, cut or padded."""
        spelled = np.zeros((len(words), width), np.int64)
        for row, word in zip(spelled, words):
            row[:len(word)] = [self._character.get(character, 1) for character in word[:width]]
        return spelled

    def save(self, folder):
        """Writes vocabulary.json. The vectors are with the model's weights."""
        width = None if self.vectors is None else self.vectors.shape[1]
        content = {"words": self.words, "characters": self.characters, "width": width}
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "vocabulary.json").write_text(json.dumps(content, ensure_ascii=False), "utf-8")

    @classmethod
    def from_folder(cls, folder):
        """What `save` wrote; vectors, if any, are zeros until a model's weights are loaded."""
        path = Path(folder, "vocabulary.json")
        try:
            saved = json.loads(path.read_text("utf-8"))
            vectors = saved["width"] and np.zeros((2 + len(saved["words"]), saved["width"]), np.float32)
            return cls(saved["words"], saved["characters"], vectors)
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"{type(error).__name__} {error}".split("\n")[0][-100:]
            raise ValueError(f"{path}: expected the vocabulary of a run, found: {reason}; train again") from None


def read_vectors(path, words, progress=True):
    """Vectors of the given words from a GloVe text file: a word and its numbers a line, parted by spaces.

    Only what is needed is converted. A line with another count of numbers than most, or with something that is no
    number, is left out. Of a word that stands there twice the first counts. A first line with two numbers (word2vec's
    header) is passed over.
    -> (dict word -> (width,) float32, how many needed lines were malformed).
    Raises ValueError naming the file when it cannot be read or holds none of the words.
    """
    found, widths, malformed = {}, Counter(), 0
    try:
        with open(path, "rb") as file, tqdm(total=os.path.getsize(path), desc="reading vectors", unit="B", leave=False,
                                            unit_scale=True, disable=None if progress else True) as bar:
            for line in file:
                bar.update(len(line))
                name, _, numbers = line.rstrip().partition(b" ")
                word = name.decode("utf-8", "replace")
                if word not in words:
                    continue
                try:
                    with np.errstate(over="ignore"):
                        vector = np.array(numbers.split(b" "), np.float32)
                except ValueError:
                    vector = np.array([np.nan], np.float32)
                if len(vector) == 1 or not np.isfinite(vector).all():
                    malformed += 1
                    continue
                found.setdefault(word, []).append(vector)
                widths[len(vector)] += 1
    except OSError as error:
        raise ValueError(f"--glove {path}: cannot be read: {error.strerror or error}") from None
    if not found:
        raise ValueError(f"--glove {path}: holds none of the {len(words)} words; expected GloVe's text form, a word and "
                         f"its numbers a line, parted by spaces")
    width = widths.most_common(1)[0][0]
    whole = {word: next((v for v in vectors if len(v) == width), None) for word, vectors in found.items()}
    return ({word: vector for word, vector in whole.items() if vector is not None},
            malformed + sum(count for other, count in widths.items() if other != width))


# ---- CoNLL-U -------------------------------------------------------------------------------------------------

FORM, TAG, HEAD, RELATION, ENHANCED, MISC = 1, 3, 6, 7, 8, 9   # columns; column 0 is the number
NUMBER = re.compile(r"([1-9][0-9]*)(?:-([1-9][0-9]*))?|([0-9]+)\.[1-9][0-9]*")


@dataclass
class Sentence:
    """A sentence of a CoNLL-U file: its comment lines, and its rows of ten columns in the file's order.

    Rows are words (8), multiword tokens (8-9: one written token, two words) and empty nodes (8.1).
    """
    comments: list
    rows: list
    where: str = ""   # file and line of the first row

    @property
    def word_rows(self):
        return [row for row in self.rows if row[0].isdecimal()]

    def column(self, which):
        """FORM, TAG, HEAD or RELATION of each word; heads as numbers."""
        return [int(row[which]) if which == HEAD else row[which] for row in self.word_rows]

    @property
    def tokens(self):
        """The written tokens: (form, forms of its words, the space behind it)."""
        tokens, words, done = [], self.column(FORM), 0
        for row in self.rows:
            first, _, last = row[0].partition("-")
            if "." not in first and int(first) > done:
                space = "" if "SpaceAfter=No" in row[MISC].split("|") else " "
                tokens.append((row[FORM], words[done:int(last or first)], space))
                done = int(last or first)
        return tokens

    @property
    def text(self):
        """What the comment `# text = ...` says; without one, the written tokens and the spaces behind them."""
        said = [comment.partition("=")[2] for comment in self.comments if re.match(r"#\s*text\s*=", comment)]
        return (said or ["".join(form + space for form, _, space in self.tokens)])[0].strip()


def read_conllu(path, trees=True):
    """Sentences of a CoNLL-U file ("-": standard input). trees=False: tags, heads and relations may be missing.

    Raises OSError when the file cannot be read; ValueError naming file and line for a row that is not CoNLL-U,
    and for heads that are no tree with one root.
    """
    sentences, comments, rows = [], [], []
    for number, line in enumerate([*_read_lines(path), ""], 1):
        if line.startswith("#") and not rows:
            comments.append(line)
        elif line:
            rows.append((f"{path}, line {number}", line.split("\t")))
        elif rows:
            _check_rows(rows)
            if trees:
                _check_tree([(where, row) for where, row in rows if row[0].isdecimal()])
            sentences.append(Sentence(comments, [row for _, row in rows], rows[0][0]))
            comments, rows = [], []
    return sentences


def _read_lines(path):
    """Lines of a UTF-8 file, cut at line feeds only: Unicode's other separators may stand inside a sentence."""
    data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    try:
        return [line.removesuffix("\r") for line in data.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as problem:
        line = data[:problem.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: not UTF-8; save the file as UTF-8") from None


def _check_rows(rows):
    """ValueError unless the rows, each (where, row), have ten columns and numbers that follow each other."""
    words = covered = 0   # words so far; last word of the latest multiword token
    for where, row in rows:
        if len(row) != 10:
            raise ValueError(f"{where}: needs 10 columns separated by tabs, found {len(row)}")
        number = NUMBER.fullmatch(row[0])
        if not number or not row[FORM].strip():
            raise ValueError(f"{where}: needs number (8, 8-9, 8.1) and form, found {row[0]!r}, {row[FORM]!r}")
        first, last, before = (group and int(group) for group in number.groups())
        if first == words + 1 and not last:
            words += 1
        elif first == words + 1 and last > first > covered:
            covered = last
        elif before != words:
            raise ValueError(f"{where}: {row[0]} cannot follow word {words}; words are numbered 1, 2, ...")
    if words < max(covered, 1):
        raise ValueError(f"{where}: the sentence ends before word {max(covered, 1)}")


def _check_tree(rows):
    """ValueError unless the heads of these words, each (where, row), are a tree with one root."""
    for where, row in rows:
        if not re.fullmatch("[0-9]+", row[HEAD]) or int(row[HEAD]) > len(rows):
            raise ValueError(f"{where}: the head, column 7, must be 0 to {len(rows)}, found {row[HEAD]!r}")
        if row[RELATION] in ("", "_"):
            raise ValueError(f"{where}: the relation, column 8, is missing")
    heads = [int(row[HEAD]) for _, row in rows]
    roots = [where for (where, _), head in zip(rows, heads) if head == 0]
    if len(roots) != 1:
        raise ValueError(f"{[rows[0][0], *roots][-1]}: a sentence needs one word with head 0, has {len(roots)}")
    for (where, row), depth in zip(rows, tree_depths(heads)):
        if depth > len(rows):
            raise ValueError(f"{where}: the heads above word {row[0]} run in a cycle and never reach 0")


def format_conllu(sentences):
    """Sentences as the text of a CoNLL-U file."""
    return "".join("\n".join([*s.comments, *map("\t".join, s.rows)]) + "\n\n" for s in sentences)


# ---- the parser network --------------------------------------------------------------------------------------

WORD_LETTERS = 24    # of a longer word, the first and the last twelve letters are read


class Parser(nn.Module):
    """Deep biaffine dependency parser (Dozat and Manning 2017, arXiv 1611.01734) that also tags.

        x_i = word embedding ⊕ max over the word of two character convolutions
        r_i = three bidirectional LSTMs over x                               (position 0 is ROOT)
        score of head j for i:       [h_i^(arc-dep); 1]ᵀ W_arc h_j^(arc-head)
        score of relation r, head j: [h_i^(rel-dep); 1]ᵀ W_rel,r [h_j^(rel-head); 1]

    Departs: characters by convolution and no pre-trained vectors, since nothing is downloaded; universal tags are an
    output, not an input, so that the parser needs nothing but words.

    vocabulary: dict with the lists words (lower-case), characters, tags, relations.
    """

    def __init__(self, vocabulary, word_size=100, character_size=32, filters=64, hidden=192, arc_size=256,
                 relation_size=80, dropout=0.33):
        super().__init__()
        self.vocabulary, self.dropout, self.fingerprint = vocabulary, dropout, "untrained"
        self.word_ids = {word: i for i, word in enumerate(vocabulary["words"], 2)}           # 0 unknown, 1 ROOT
        self.character_ids = {c: i for i, c in enumerate(vocabulary["characters"], 2)}       # 0 padding, 1 unknown
        self.word = nn.Embedding(len(self.word_ids) + 2, word_size)
        self.character = nn.Embedding(len(self.character_ids) + 4, character_size, padding_idx=0)  # + word start, end
        self.convolutions = nn.ModuleList(nn.Conv1d(character_size, filters, w, padding=w // 2) for w in (3, 5))
        sizes = [word_size + 2 * filters, 2 * hidden, 2 * hidden]
        self.lstm = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True) for size in sizes for _ in ("left", "right"))
        self.tag = nn.Linear(2 * hidden, len(vocabulary["tags"]))
        self.arc_dep, self.arc_head = nn.Linear(2 * hidden, arc_size), nn.Linear(2 * hidden, arc_size)
        self.rel_dep, self.rel_head = nn.Linear(2 * hidden, relation_size), nn.Linear(2 * hidden, relation_size)
        self.W_arc = nn.Parameter(torch.zeros(arc_size + 1, arc_size))
        self.W_rel = nn.Parameter(torch.zeros(len(vocabulary["relations"]), relation_size + 1, relation_size + 1))
        self.reset()

    def reset(self):
        """Orthogonal recurrent and biaffine input weights, forget gates open, as Dozat and Manning start."""
        for lstm in self.lstm:
            for w in lstm.weight_hh_l0.data.chunk(4):
                nn.init.orthogonal_(w)
            nn.init.zeros_(lstm.bias_hh_l0)
            nn.init.zeros_(lstm.bias_ih_l0)
            lstm.bias_ih_l0.data[lstm.hidden_size:2 * lstm.hidden_size] = 1.0
        for layer in (self.arc_dep, self.arc_head, self.rel_dep, self.rel_head):
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.normal_(self.word.weight, std=0.1)

    def drop(self, x):
        """Dropout with one mask for all positions of a sentence (Gal and Ghahramani 2016)."""
        if not self.training:
            return x
        return x * x.new_empty(x.shape[0], 1, x.shape[2]).bernoulli_(1 - self.dropout) / (1 - self.dropout)

    def spell(self, words):
        """Character ids of words, one row each, after an empty row for ROOT: (W, characters)."""
        start, end = len(self.character_ids) + 2, len(self.character_ids) + 3
        ids = np.zeros((len(words) + 1, min(max(map(len, words), default=1), WORD_LETTERS) + 2), np.int64)
        for row, word in zip(ids[1:], words):
            letters = word if len(word) <= WORD_LETTERS else word[:WORD_LETTERS // 2] + word[-WORD_LETTERS // 2:]
            row[:len(letters) + 2] = [start, *(self.character_ids.get(c, 1) for c in letters), end]
        return torch.from_numpy(ids)

    def forward(self, sentences, unknown=0.0):
        """sentences: lists of words. unknown: share of words to hide (training).

        Returns scores of tags (S, T, tags) and of heads (S, T, T), and the relation vectors of dependents and heads
        (S, T, R+1), with T = 1 + words of the longest sentence. Neither padding nor neighbours change a score."""
        words = sorted({word for s in sentences for word in s})
        place = {word: i for i, word in enumerate(words, 1)}
        lengths = torch.tensor([len(s) + 1 for s in sentences])[:, None]  # (S, 1)
        rows = pad_sequence([torch.tensor([0, *(place[word] for word in s)]) for s in sentences], batch_first=True)
        position = torch.arange(rows.shape[1])
        real = position < lengths  # (S, T)

        letters = self.spell(words)
        x = self.character(letters).transpose(1, 2)
        x = torch.cat([c(x).masked_fill(letters[:, None] == 0, -1e4).amax(2) for c in self.convolutions], 1).relu()
        ids = torch.tensor([1, *(self.word_ids.get(word.lower(), 0) for word in words)])[rows]
        if unknown:
            ids = ids.masked_fill((torch.rand(rows.shape) < unknown) & (rows > 0), 0)
        x = self.drop(torch.cat([self.word(ids), F.embedding(rows, x)], 2))

        mirror = torch.where(real, lengths - 1 - position, position)                # reads each sentence backwards
        mirror = mirror + len(position) * torch.arange(len(sentences))[:, None]  # (S, T)
        reverse = (lambda y: F.embedding(mirror, y.flatten(0, 1)))                  # whole rows, faster than gather
        for left, right in zip(self.lstm[::2], self.lstm[1::2]):
            x = self.drop(torch.cat([left(x)[0], reverse(right(reverse(x))[0])], 2))

        arc_dep, arc_head, rel_dep, rel_head = (self.drop(F.leaky_relu(layer(x), 0.1)) for layer in
                                                (self.arc_dep, self.arc_head, self.rel_dep, self.rel_head))
        one = x.new_ones(*x.shape[:2], 1)
        arc = torch.cat([arc_dep, one], 2) @ self.W_arc @ arc_head.transpose(1, 2)  # (S, T, T)
        arc = arc.masked_fill(~real[:, None] | torch.eye(len(position), dtype=torch.bool), -1e4)  # (S, T, T)
        return self.tag(x), arc, torch.cat([rel_dep, one], 2), torch.cat([rel_head, one], 2)

    def relation_scores(self, rel_dep, rel_head):
        """Scores of every relation for N words and their N heads, both (N, R+1): (N, relations)."""
        W, size = self.W_rel.transpose(0, 1).flatten(1), len(self.W_rel)            # one product for all relations
        blocks = zip(rel_dep.split(128), rel_head.split(128))                       # N·relations·R numbers are many
        return torch.cat([((dep @ W).unflatten(1, (size, -1)) * head[:, None]).sum(2) for dep, head in blocks])

    @torch.inference_mode()
    def parse(self, sentences):
        """Trees of sentences, lists of words: a list of (tags, heads, relations); heads from 1, 0 = ROOT. Each is a
        tree with one root: the best by Chu–Liu/Edmonds wherever the best head of every word is not one."""
        self.eval()
        out = [([], [], [])] * len(sentences)
        for batch in length_batches([len(s) for s in sentences], BATCH_WORDS):
            if not batch or not sentences[batch[-1]]:
                continue                                                            # nothing, or only empty sentences
            tags, arc, rel_dep, rel_head = self([sentences[i] for i in batch])
            heads = arc.argmax(2)  # (S, T)
            heads[:, 0] = 0
            for k, i in enumerate(batch):
                size = len(sentences[i]) + 1
                heads[k, size:] = 0
                if not is_tree(heads[k, 1:size].numpy()):
                    heads[k, :size] = torch.from_numpy(maximum_spanning_tree(arc[k, :size, :size].numpy()))
            lengths = [len(sentences[i]) for i in batch]
            k = torch.arange(len(batch)).repeat_interleave(torch.tensor(lengths))
            i = torch.cat([torch.arange(1, length + 1) for length in lengths])      # every word (k, i), no padding
            head = heads[k, i]
            relations = self.relation_scores(rel_dep[k, i], rel_head[k, head]).argmax(1)
            for place, *answer in zip(batch, *(x.split(lengths) for x in (tags[k, i].argmax(1), head, relations))):
                tag, head, relation = (x.tolist() for x in answer)
                out[place] = ([self.vocabulary["tags"][t] for t in tag], head,
                              [self.vocabulary["relations"][r] for r in relation])
        return out


def is_tree(heads):
    """Do these heads (n,) make a tree with exactly one root?"""
    return np.count_nonzero(heads == 0) == 1 and tree_depths(heads).max(initial=0) <= len(heads)


def maximum_spanning_tree(scores):
    """The best tree with one root, by Chu and Liu (1965) and Edmonds (1967).

    scores: (T, T), row i the scores of each head for word i; node 0 is ROOT. Returns heads (T,), heads[0] = 0.
    While the best heads hold a cycle, it becomes one node: an arc into it is worth what it adds over the cycle's own
    arc that it breaks. Then the cycles are opened again, the last one first.
    """
    scores = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores.astype(np.float64))  # (T, T)
    scores[0] = -np.inf
    finite = scores[np.isfinite(scores)]
    scores[1:, 0] -= len(scores) * (finite.max() - finite.min() + 1)     # a second root costs more than it can gain
    opened = []
    while (cycle := find_cycle(heads := scores.argmax(1))) is not None:
        into = scores[cycle] - scores[cycle, heads[cycle]][:, None]
        out = scores[:, cycle]
        node, gone = cycle[0], cycle[1:]                                 # the node that stands for all of them
        opened.append((node, cycle, heads[cycle], cycle[into.argmax(0)], cycle[out.argmax(1)]))
        scores[node], scores[:, node] = into.max(0), out.max(1)
        scores[gone], scores[:, gone], scores[node, node] = -np.inf, -np.inf, -np.inf
    for node, cycle, inside, enter, leave in reversed(opened):
        head = heads[node]                                               # of the whole cycle
        heads = np.where(heads == node, leave, heads)
        heads[cycle] = inside
        heads[enter[head]] = head
    return heads


def find_cycle(heads):
    """Nodes of a cycle among heads (T,), heads[0] = 0 being the root, or None."""
    seen = np.zeros(len(heads), np.int64)
    seen[0] = -1
    for start in range(1, len(heads)):
        node = start
        while seen[node] == 0:
            seen[node] = start
            node = heads[node]
        if seen[node] == start:
            cycle = [node]
            while heads[cycle[-1]] != node:
                cycle.append(heads[cycle[-1]])
            return np.array(cycle)
    return None


def length_batches(lengths, size, rng=None):
    """Places of sentences in batches of like length and at most `size` positions; with rng, random ones."""
    noise = (lambda i: lengths[i] * (1 + 0.1 * rng.random()) + rng.random()) if rng else lengths.__getitem__
    batches = [[]]
    for i in sorted(range(len(lengths)), key=noise):
        if batches[-1] and (len(batches[-1]) + 1) * (lengths[i] + 1) > size:
            batches.append([])
        batches[-1].append(i)
    if rng:
        rng.shuffle(batches)
    return batches


# ---- training the parser -------------------------------------------------------------------------------------

def save_parser(parser, path):
    """The parser as one .npz: half-precision weights, and the vocabulary as JSON."""
    arrays = {name: value.half().numpy() for name, value in parser.state_dict().items()}
    with open(path, "wb") as file:
        np.savez_compressed(file, vocabulary=json.dumps(parser.vocabulary, ensure_ascii=False), **arrays)


def load_parser(path=PARSER):
    """The shipped parser, or the one in an .npz that train-parser wrote. Raises ValueError for another file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            parser = Parser(json.loads(file["vocabulary"].item()))
            weights = {name: torch.from_numpy(file[name]).float() for name in file.files if name != "vocabulary"}
        parser.load_state_dict(weights)
    except Exception as problem:   # a damaged zip file can raise almost anything
        raise ValueError(f"{path}: expected a parser, found: {problem}; check the file out again, or train it: "
                         f"python priors.py train-parser --treebank FOLDER") from None
    parser.fingerprint = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return parser.eval()


def score_parser(parser, sentences):
    """Shares of words, gold words given: UPOS, UAS, LAS, and LAS of relations without their subtypes (as CoNLL 2018
    counts). Punctuation counts. sentences: of read_conllu."""
    counts = Counter()
    for s, (tags, heads, relations) in zip(sentences, parser.parse([s.column(FORM) for s in sentences])):
        for tag, head, relation, *gold in zip(tags, heads, relations, s.column(TAG), s.column(HEAD), s.column(RELATION)):
            right = head == gold[1]
            counts.update(words=1, UPOS=tag == gold[0], UAS=right, LAS=right and relation == gold[2],
                          LAS_universal=right and relation.split(":")[0] == gold[2].split(":")[0])
    return {name: counts[name] / counts["words"] for name in ("UPOS", "UAS", "LAS", "LAS_universal")}


def make_vocabulary(sentences):
    """Words seen twice or more (lower-case), characters seen three times, all tags and relations."""
    forms = Counter(form for s in sentences for form in s.column(FORM))
    words, letters = Counter(), Counter()
    for form, count in forms.items():
        words[form.lower()] += count
        letters.update({c: k * count for c, k in Counter(form).items()})
    return {"words": [w for w, c in words.most_common() if c >= 2],
            "characters": sorted(c for c in letters if letters[c] >= 3),
            "tags": sorted({t for s in sentences for t in s.column(TAG)}),
            "relations": sorted({r for s in sentences for r in s.column(RELATION)})}


def parser_loss(parser, sentences, unknown):
    """Cross-entropy of tags, heads, and relations given the right heads, of sentences from read_conllu."""
    with torch.autocast("cpu", torch.bfloat16):
        scores = parser([s.column(FORM) for s in sentences], unknown)
    tags, arc, rel_dep, rel_head = (x.float() for x in scores)
    k, i, tag, head, relation = torch.tensor(
        [(k, i, parser.vocabulary["tags"].index(t), h, parser.vocabulary["relations"].index(r))
         for k, s in enumerate(sentences) for i, (t, h, r) in enumerate(zip(*map(s.column, (TAG, HEAD, RELATION))), 1)]).T
    relations = parser.relation_scores(rel_dep[k, i], rel_head[k, head])
    return (F.cross_entropy(tags[k, i], tag) + F.cross_entropy(arc[k, i], head) + F.cross_entropy(relations, relation))


def train_parser(treebank, out, epochs=24, lr=2.5e-3, batch_words=1500, unknown=0.15, seed=0):
    """Trains on the *-train.conllu of a treebank's folder and writes the parser to `out`, its scores beside it.

    Adam (0.9, 0.9), 200 steps of warm-up, then linearly to 0; clipped at norm 5. What is kept is the moving average
    of the weights over about the last 500 steps. dev is only reported, test is scored once at the end.
    """
    files = {split: sorted(Path(treebank).glob(f"*-{split}.conllu")) for split in ("train", "dev", "test")}
    if not all(files.values()):
        raise ValueError(f"--treebank {treebank}: expected files named *-train.conllu, *-dev.conllu, *-test.conllu")
    data = {split: read_conllu(found[0]) for split, found in files.items()}
    train, rng, began = data["train"], random.Random(seed), time.monotonic()
    torch.manual_seed(seed)
    parser = Parser(make_vocabulary(train))
    lengths = [len(s.word_rows) for s in train]
    plan = [length_batches(lengths, batch_words, rng) for _ in range(epochs)]
    steps, step = sum(map(len, plan)), 0
    optimizer = torch.optim.Adam(parser.parameters(), lr=lr, betas=(0.9, 0.9))
    average = {name: value.clone() for name, value in parser.state_dict().items()}
    for epoch, batches in enumerate(plan, 1):
        parser.train()
        for batch in tqdm(batches, desc=f"epoch {epoch}/{epochs}", leave=False, disable=None):
            for group in optimizer.param_groups:
                group["lr"] = lr * min((step + 1) / 200, 1 - step / steps)
            loss = parser_loss(parser, [train[i] for i in batch], unknown)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parser.parameters(), 5.0)
            optimizer.step()
            step += 1
            keep = min(0.998, (1 + step) / (10 + step))
            for name, value in parser.state_dict().items():
                average[name].lerp_(value, 1 - keep)
        print(f"epoch {epoch}: loss {loss.item():.3f}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    parser.load_state_dict(average)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    save_parser(parser, out)
    parser = load_parser(out)                                              # what is scored is what is shipped
    scores = {split: score_parser(parser, data[split]) for split in ("dev", "test")}
    report = {"treebank": {split: [found[0].name, len(data[split])] for split, found in files.items()},
              "scores": scores, "parameters": sum(p.numel() for p in parser.parameters()), "epochs": epochs, "lr": lr,
              "batch_words": batch_words, "seed": seed, "seconds": round(time.monotonic() - began),
              "torch": torch.__version__}
    Path(out).with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(json.dumps(scores, indent=1))


# ---- parses of many texts ------------------------------------------------------------------------------------

class Shard(NamedTuple):
    """Parses of up to SHARD texts in a row, without the texts.

    ends: (texts + 1,) where each text's words end, 0 first. spans: (words, 2). heads: (words,). tags, relations:
    (words,) places in names.
    """
    names: np.ndarray
    ends: np.ndarray
    spans: np.ndarray
    heads: np.ndarray
    tags: np.ndarray
    relations: np.ndarray

    def parse(self, k, text):
        """The Parse of its text number k."""
        words = slice(self.ends[k], self.ends[k + 1])
        return Parse(text, self.spans[words], tuple(self.names[self.tags[words]]), self.heads[words],
                     tuple(self.names[self.relations[words]]))


class Parses(Mapping):
    """dict text -> Parse, read-only, of as many texts as a large data set has.

    A Parse is made when it is asked for, because it takes thousands of bytes with all that it works out, and in a
    Shard 14 a word. Up to KEPT of them stay made, for a small data set all.
    """

    def __init__(self, texts, shards):
        """shards: each SHARD texts long, but for the last one."""
        self.places, self.shards, self.made = {text: i for i, text in enumerate(texts)}, shards, {}

    def __getitem__(self, text):
        if text not in self.made:
            shard, k = divmod(self.places[text], SHARD)
            if len(self.made) >= KEPT:
                self.made.clear()
            self.made[text] = self.shards[shard].parse(k, text)
        return self.made[text]

    def __iter__(self):
        return iter(self.places)

    def __len__(self):
        return len(self.places)


def parse_texts(texts, parser=None, cache=None, conllu=None, progress=True, workers=0):
    """Parses of texts: a mapping text -> Parse. Of a longer text the first MAX_WORDS words are kept.

    parser: parse(list of word lists) -> list of (tags, heads, relations), and fingerprint, a str that changes
    with its weights. cache: folder for the result, which gets a folder whose name depends on texts, fingerprint,
    CACHE_FORMAT, with a file for each SHARD of texts, written when it is whole: an interrupted call is gone on with.
    workers: processes that parse, beside this one, and need a cache; 0: this one does.
    conllu: path or paths of your own parses, used in place of parser and cache. A sentence is found by its
    `# text =`, or by its tokens where that is absent; spaces may be wider.
    Raises ValueError when a text is not in conllu, or has other tokens there; OSError when a worker ends early.
    """
    texts = sorted(set(texts), key=lambda text: (len(text), text))   # so that a batch has texts of like length
    if conllu is not None:
        return _own_parses(texts, [conllu] if isinstance(conllu, (str, Path)) else conllu)
    if parser is None:
        raise ValueError("parse_texts: needs parser or conllu, got neither")
    folder = None
    if cache is not None:
        key = hashlib.sha256(ascii((CACHE_FORMAT, parser.fingerprint, texts)).encode()).hexdigest()
        folder = Path(cache) / f"parses-{key[:32]}"
    work = _Shards(texts, parser, folder)
    shards = [work.load(k) for k in range(len(work))]
    missing = [k for k, shard in enumerate(shards) if shard is None]
    loader = DataLoader(work, batch_size=None, sampler=missing, collate_fn=_unchanged,
                        num_workers=min(workers, len(missing)) if folder else 0,
                        generator=torch.Generator())                 # its own, so that the global one is not touched
    done = len(texts) - sum(len(work.texts(k)) for k in missing)
    quiet = True if not progress or not missing else None            # None: unless on a terminal
    try:
        with tqdm(total=len(texts), initial=done, desc="parse", disable=quiet) as bar:
            for k, shard in zip(missing, loader):
                shards[k] = shard or work.load(k)
                bar.update(len(work.texts(k)))
    except RuntimeError as problem:
        if "DataLoader worker (pid" not in str(problem):             # what it says of one that was killed
            raise
        raise OSError(f"--workers {workers}: a process that parses has ended ({str(problem).splitlines()[0]}); start "
                      f"again, with fewer where memory is short: what is parsed is kept") from None
    return Parses(texts, shards)


def _unchanged(shard):
    """DataLoader would make tensors of arrays."""
    return shard


class _Shards(torch.utils.data.Dataset):
    """Makes, writes and reads Shards by their number; picklable, for worker processes."""

    def __init__(self, texts, parser, folder):
        self.all, self.parser, self.folder = texts, parser, folder

    def __len__(self):
        return -(-len(self.all) // SHARD)

    def texts(self, k):
        return self.all[k * SHARD:(k + 1) * SHARD]

    def path(self, k):
        return self.folder / f"{k:05}.npz"

    def __getitem__(self, k):
        """Parses the texts of Shard k. With a folder it writes it, under a temporary name until the file is whole, and
        returns None: a worker that still has something to send would not end when this process is killed."""
        rows = [row for batch in _parse_in_batches(self.texts(k), self.parser) for row in batch]
        spans, answers = zip(*rows)
        tags, heads, relations = (list(itertools.chain.from_iterable(column)) for column in zip(*answers))
        names = sorted({*tags, *relations})
        code = {name: i for i, name in enumerate(names)}
        arrays = {"names": np.array(names, str), "lengths": np.array([len(s) for s in spans], np.int16),
                  "spans": np.concatenate(spans), "heads": np.array(heads, np.int16),
                  "tags": np.array([code[tag] for tag in tags], np.int16),
                  "relations": np.array([code[name] for name in relations], np.int16)}
        if not self.folder:
            return _shard(arrays)
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.path(k).with_suffix(f".{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                np.savez_compressed(file, **arrays)
            os.replace(temporary, self.path(k))
        finally:
            temporary.unlink(missing_ok=True)

    def load(self, k):
        """Shard k; None when there is no file, or a damaged one."""
        if not self.folder or not self.path(k).exists():
            return None
        try:
            with np.load(self.path(k), allow_pickle=False) as file:
                shard = _shard(file)
            sizes = {shard.ends[-1], *map(len, (shard.spans, shard.heads, shard.tags, shard.relations))}
            if len(shard.ends) != len(self.texts(k)) + 1 or len(sizes) > 1:
                raise ValueError("its sizes do not fit together")
            return shard
        except Exception as problem:   # a damaged zip file can raise almost anything
            print(f"priors.py: {self.path(k)} is damaged ({problem}), parsing again", file=sys.stderr)
            return None


def _shard(arrays):
    """A Shard out of the arrays of its file."""
    ends = np.concatenate([[0], np.cumsum(arrays["lengths"], dtype=np.int64)])
    return Shard(arrays["names"].astype(object), ends, *(arrays[name] for name in Shard._fields[2:]))


def _parse_in_batches(texts, parser):
    """Lists of (spans, (tags, heads, relations)), each of about BATCH_WORDS words; the parser sees no empty sentence."""
    spans, size = [], 0
    for done, text in enumerate(texts, 1):
        spans.append(split_words(text)[:MAX_WORDS])
        size += len(spans[-1])
        if size >= BATCH_WORDS or done == len(texts):
            batch = list(zip(texts[done - len(spans):done], spans))
            answers = iter(parser.parse([[t[i:j] for i, j in s.tolist()] for t, s in batch if len(s)]))
            yield [(s, next(answers) if len(s) else ((), (), ())) for s in spans]
            spans, size = [], 0


def _own_parses(texts, paths):
    """dict text -> Parse out of CoNLL-U files."""
    known = {}
    for path in paths:
        for sentence in read_conllu(path):
            known.setdefault(" ".join(sentence.text.split()), sentence)
    known[""] = Sentence([], [])
    missing = [text for text in texts if " ".join(text.split()) not in known]
    if missing:
        raise ValueError(f"{', '.join(map(str, paths))}: no parse of {missing[0]!r} (of {len(texts)} texts, "
                         f"{len(missing)} have none); add one with the comment '# text = ...'")
    return {text: _align(known[" ".join(text.split())], text) for text in texts}


def _align(sentence, text):
    """The Parse of text that a Sentence holds. Where the words of a multiword token do not spell it, as de + le
    for du, each of them gets the span of the token, and its pieces count as the first of them."""
    forms, shared_by = [], []
    for form, words, _ in sentence.tokens:
        spelled = "".join(words) == form
        forms += words if spelled else [form]
        shared_by += [1] * len(words) if spelled else [len(words)]
    forms = ["".join(form.split()) for form in forms]
    if "".join(forms) != "".join(text.split()):
        raise ValueError(f"{sentence.where}: the tokens {' '.join(forms)!r} do not spell the text {text!r}")
    spans = _spans([i for i, c in enumerate(text) if not c.isspace()], [len(form) for form in forms])
    heads = np.array(sentence.column(HEAD)[:MAX_WORDS], np.int64)
    heads[heads > MAX_WORDS] = 0   # a word whose head is left out hangs from ROOT
    return Parse(text, np.repeat(spans, shared_by, axis=0)[:MAX_WORDS], tuple(sentence.column(TAG)[:MAX_WORDS]),
                 heads, tuple(sentence.column(RELATION)[:MAX_WORDS]))


# ---- command line --------------------------------------------------------------------------------------------

class _Arguments(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv=None):
    """Runs the command line and returns the exit status. A user's mistake gives one line on stderr and 2."""
    arguments = _Arguments("priors.py", description="Train the dependency parser, or parse with it.")
    commands = arguments.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train-parser", help="train on a treebank of Universal Dependencies")
    train.add_argument("--treebank", required=True, metavar="FOLDER", help="holds *-{train,dev,test}.conllu")
    train.add_argument("--out", default=PARSER)
    parse = commands.add_parser("parse", help="write parses as CoNLL-U to standard output")
    source = parse.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", metavar="FILE", help="one sentence a line; - is standard input")
    source.add_argument("--conllu", metavar="FILE", help="parse its words anew; keeps tokens and comments")
    parse.add_argument("--parser", default=PARSER)
    options = arguments.parse_args(argv)
    try:
        if options.command == "train-parser":
            train_parser(options.treebank, options.out)
            return 0
        parser = load_parser(options.parser)
        sentences = read_conllu(options.conllu, trees=False) if options.conllu else _read_text(options.file)
        for start in range(0, len(sentences), 512):
            sys.stdout.write(format_conllu(_reparse(sentences[start:start + 512], parser)))
    except (ValueError, OSError) as problem:
        print(f"priors.py: {problem}", file=sys.stderr)
        return 2
    return 0


def _read_text(path):
    """Sentences without tags, heads and relations, from a file with one a line; empty lines are skipped."""
    sentences = []
    for text in (" ".join(line.split()) for line in _read_lines(path) if line.split()):
        rows = [[str(k), text[i:j], *"_" * 7, "_" if text[j:j + 1] in ("", " ") else "SpaceAfter=No"]
                for k, (i, j) in enumerate(split_words(text).tolist(), 1)]
        sentences.append(Sentence([f"# sent_id = {len(sentences) + 1}", f"# text = {text}"], rows))
    return sentences


def _reparse(sentences, parser):
    """The Sentences with the parser's tags, heads, relations. Enhanced dependencies, now stale, are cleared."""
    answers = parser.parse([sentence.column(FORM) for sentence in sentences])
    for sentence, answer in zip(sentences, answers):
        for row, tag, head, relation in zip(sentence.word_rows, *answer):
            row[TAG], row[HEAD], row[RELATION], row[ENHANCED] = tag, str(head), relation, "_"
    return sentences


if __name__ == "__main__":
    sys.exit(main())
