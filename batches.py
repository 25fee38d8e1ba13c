"""From pairs of sentences to padded tensors.

    text a, text b  ->  words, parses   each text once; parses are kept on disk
                    ->  prior (n, m)    of a pair, when its batch is collated
                    ->  token ids       of each pair
                    ->  a batch         input_ids, segment, word_index, mask, prior; labels

A `Reader` belongs to a model: its method says what it needs of a pair. DRr-Net reads words and no
pieces, and has a collating of its own. Left out: where pairs come from (support.data), how words
and trees are found (support.parses), how priors are computed (priors).
"""
import copy
import random
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from tqdm import tqdm

import priors
from support.options import prefix_errors, refuse
from support.parser import load_parser
from support.parses import Parse, parse_texts, split_words, words_at
from support.toy import LEXICON
from support.words import TAGS

# Axes: B batch, L tokens, n words of a (of either sentence for DRr-Net), m words of b,
# c characters of a word, R relations

ENCODED = 4096  # pairs tokenized at once: a tokenizer returns more than what is kept of it
TEXTS_KEPT = 4096  # texts of a few pairs at a time, of which what was found out is kept


class Known(NamedTuple):
    """What a method needs to know of a text, as far as it needs it."""

    spans: np.ndarray | None = None  # of each word's characters; None: no word is asked for
    words: list | tuple = ()
    parse: Parse | None = None
    facts: list | None = None        # of each word, out of a lexicon


def needs_of(method):
    """What a method's prior is made of, some of "parses", "facts" of a lexicon, "words".

    A function in the place of PRIOR is given each of them of a, then of b, in the order of the
    class's NEEDS: ("words", "facts") makes PRIOR(words_a, words_b, facts_a, facts_b). Without NEEDS
    it is PRIOR(parse_a, parse_b). Raises ValueError for something else in NEEDS.
    """
    if not callable(method.PRIOR):
        both = ("parses", "facts")
        return {"dependency": ("parses",), "relations": both, "words": both}.get(method.PRIOR, ())
    needs = getattr(method, "NEEDS", ("parses",))
    refuse(not needs or set(needs) - {"parses", "facts", "words"},
           f"{method.__name__}: NEEDS takes a tuple of parses, facts, words, got {needs!r}")
    return needs


class Reader:
    """Reads pairs for one method.

    Args:
        method: a class of semmatch or reread, or your own. PRIOR: "dependency", DAFA's M_F;
            "relations", k_ij of a lexicon; a function, see needs_of; or None. READS: "pieces" of
            words or "words".
        max_length: tokens of a pair; for words, words of a sentence.
        options: what the method was made with, such as printed and without.
        tokenizer: PairTokenizer; for words a Vocabulary.
        parser: in the place of the one that ships, a CoNLL-U file by its name, or a function of
            texts.
        toy: the lexicon is the toy world's. workers: processes that collate. progress: show bars.

    What is found out of a text belongs to the Examples that `examples` returns. The reader keeps a
    table of bounded size for a service, which sees many a text again.
    """

    def __init__(self, method, max_length, options=None, tokenizer=None, parser=None, toy=False,
                 workers=0, progress=True):
        self.method, self.max_length, self.options = method, max_length, options or {}
        self.tokenizer, self.tfidf, self.toy = tokenizer, None, toy
        self.workers, self.progress = workers, progress
        self.needs = needs_of(method)
        self.needs_facts, self.needs_parses = "facts" in self.needs, "parses" in self.needs
        if method.PRIOR == "relations" and (toy or "tags" in self.options.get("without", ())):
            self.needs_parses = False   # the parts of speech of words are all that it wants of them
        self.parser, self.lexicon, self.seen = parser, None, {}

    def __getstate__(self):
        """Of a copy, such as a worker's, which opens a lexicon anew: WordNet's has a lock."""
        return vars(self) | {"lexicon": None}

    def read(self, pairs):
        """dict text -> Known of these pairs' texts."""
        texts = list(dict.fromkeys(texts_of(pairs)))
        if not self.needs:
            return dict.fromkeys(texts, Known())
        found = {text: self.seen[text] for text in texts if text in self.seen}
        if new := [text for text in texts if text not in found]:
            found |= self.read_new(new)
        if len(texts) < TEXTS_KEPT:
            self.seen = dict([*self.seen.items(), *found.items()][-TEXTS_KEPT:])
        return found

    def read_new(self, texts):
        """`read` of texts that were not seen before."""
        if self.needs_parses:
            self.parser = self.parser or load_parser()
            parses = parse_texts(texts, self.parser, self.progress)
            found = {text: Known(x.spans, x.words, x) for text, x in parses.items()}
        else:  # a word beyond these has no piece that the model sees, but behind words without any
            spans = {text: split_words(text)[:self.max_length] for text in texts}
            found = {text: Known(x, words_at(text, x)) for text, x in spans.items()}
        if self.needs_facts:
            if self.lexicon is None:
                self.lexicon = priors.Table(LEXICON) if self.toy else priors.WordNet()
            for text, known in tqdm(found.items(), "looking up words", leave=False,
                                    disable=None if self.progress else True):
                facts = self.lexicon.facts(known.words, known.parse and known.parse.tags)
                found[text] = known._replace(facts=facts)
        return found

    def prior(self, a, b):
        """What is known of a pair's words: (n, m) or (n, m, ...), or None. a, b: Known."""
        kind = self.method.PRIOR
        if kind == "relations":
            return priors.relation_matrix(a.facts, b.facts)  # (n, m, R)
        if callable(kind):
            field = {"parses": "parse", "facts": "facts", "words": "words"}
            given = [getattr(x, field[need]) for need in self.needs for x in (a, b)]
            found = kind(*copy.deepcopy(given))  # which it may change; the next epoch wants them
            with prefix_errors(f"{self.method.__name__}.PRIOR: "):
                array, (n, m) = np.array(found, order="C"), (len(a.words), len(b.words))
                refuse(array.dtype.kind not in "biuf" or array.shape[:2] != (n, m), f"expected "
                       f"numbers ({n}, {m}, ...), words by words, got {array.shape} {array.dtype}")
            return array.astype(np.float32) if array.dtype.kind == "f" else array
        if kind != "dependency":  # DRr-Net's words, or nothing
            return None
        parts = self.options.get("without", frozenset()) & {"tree", "subgraph", "tfidf", "root"}
        return priors.dependency_matrix(
            a.parse, b.parse, self.tfidf.weights(a.words), self.tfidf.weights(b.words),
            self.options.get("printed", frozenset()), parts)  # (n, m)

    def examples(self, pairs):
        """Examples of pairs, which hold all that the method needs to know of them."""
        kind = WordExamples if self.method.READS == "words" else Examples
        return kind(pairs, self, self.read(pairs))


class Examples:
    """Encoded pairs. A batch's priors are computed when it is collated; no pair sees another.

    `indices` are places in `pairs`. known: dict text -> Known. tokens: of each pair (3, L), its
    ids, segment and word_index, L of which `lengths` has.
    """

    def __init__(self, pairs, reader, known):
        self.pairs, self.reader, self.known = pairs, reader, known
        self.others, self.tokens = getattr(reader.method, "OTHERS", False), []
        for some in (pairs[i:i + ENCODED] for i in range(0, len(pairs), ENCODED)):
            rows = [(p.a, known[p.a].spans, p.b, known[p.b].spans) for p in some]
            encoded = reader.tokenizer.encode_batch(rows, reader.max_length)
            self.tokens += [np.array(ids_segment_words, np.int32) for ids_segment_words in encoded]
        self.lengths = [tokens.shape[1] for tokens in self.tokens]

    def collate(self, indices):
        """The batch of these pairs, and their labels.

        -> input_ids, segment, word_index int64 (B, L); mask bool (B, L), True = real; prior
        (B, n, m) or (B, n, m, R) if the method has one. Labels (B,), or None if one is not known.
        """
        length = max(self.lengths[i] for i in indices)
        arrays = np.zeros((3, len(indices), length), np.int64)  # (3, B, L)
        arrays[0], arrays[2] = self.reader.tokenizer.pad_id, -1
        mask = np.zeros((len(indices), length), bool)  # (B, L)
        for row, i in enumerate(indices):
            arrays[:, row, :self.lengths[i]] = self.tokens[i]
            mask[row, :self.lengths[i]] = True
        batch = dict(zip(("input_ids", "segment", "word_index"), torch.from_numpy(arrays)))
        batch["mask"] = torch.from_numpy(mask)
        if self.reader.needs:
            batch["prior"] = pad_matrices([self.prior(i) for i in indices])
        return batch, self.labels(indices)

    def prior(self, i):
        """That of the pair at this place, see Reader.prior; of others, cut or padded to this one's
        words.
        """
        a, b = (self.known[text] for text in texts_of([self.pairs[i]]))
        if not self.others:
            return self.reader.prior(a, b)
        n, m, count = len(a.words), len(b.words), len(self.pairs)
        other = self.pairs[(i + count // 2) % count]
        found = self.reader.prior(*(self.known[text] for text in texts_of([other])))
        prior = np.zeros((n, m, *found.shape[2:]), found.dtype)
        prior[:found.shape[0], :found.shape[1]] = found[:n, :m]
        return prior

    def of_others(self):
        """The same pairs, where each has the prior of the pair half of all pairs further on. A pair
        alone keeps its own.
        """
        found = copy.copy(self)
        found.others = not self.others
        return found

    def cut_pairs(self):
        """(how many pairs are cut at max_length, how many tokens the longest had)"""
        limit = self.reader.max_length
        some = [pair for pair, length in zip(self.pairs, self.lengths) if length == limit]
        rows = [(pair.a, None, pair.b, None) for pair in some]
        whole = [len(ids) for ids, *_ in self.reader.tokenizer.encode_batch(rows, 2 ** 31)]
        return sum(length > limit for length in whole), max(whole, default=0)

    def labels(self, indices):
        """(B,), or None where one is not known."""
        labels = [self.pairs[i].label for i in indices]
        return None if None in labels else torch.tensor(labels)

    def loader(self, parts, pinned=False):
        """The collated batches of `parts`, a list of lists of places, in order."""
        return DataLoader(range(len(self.pairs)), batch_sampler=parts, collate_fn=self.collate,
                          num_workers=self.reader.workers, pin_memory=pinned,
                          generator=torch.Generator())  # its own: the global one is not touched


class WordExamples(Examples):
    """Pairs as DRr-Net reads them; a batch's tensors lead with an axis of 2, sentences a and b."""

    def __init__(self, pairs, reader, known):
        self.pairs, self.reader, self.known, self.others = pairs, reader, known, False
        self.longest = [max(len(known[p.a].words), len(known[p.b].words), 1) for p in pairs]
        self.lengths = [min(reader.max_length, words) for words in self.longest]

    def cut_pairs(self):
        """(how many pairs have a sentence that is cut at max_length, the most words of a sentence)
        """
        cut = sum(words > self.reader.max_length for words in self.longest)
        return cut, max(self.longest, default=0)

    def features(self, text, other):
        """A row for each word: number, characters, tag, has `other` it, has `other` an antonym?"""
        one, other, vocabulary = self.known[text], self.known[other], self.reader.tokenizer
        limit = self.reader.max_length
        words = one.words or [""]  # a sentence without words: an unknown one
        there = {word.casefold() for word in other.words}
        relations = priors.relation_matrix(one.facts[:limit] or [None], other.facts)  # (n, m, R)
        antonyms = relations[..., priors.RELATIONS.index("antonym")].any(1)  # (n,)
        columns = (vocabulary.ids(words), vocabulary.spell(words),
                   [TAGS.index(tag if tag in TAGS else "X") for tag in one.parse.tags or ["X"]],
                   [word.casefold() in there for word in words], antonyms, [True] * len(words))
        return [torch.as_tensor(np.asarray(column)[:limit]) for column in columns]

    def collate(self, indices):
        """The batch of these pairs, and their labels.

        -> word_ids, tags int64 (2, B, n); character_ids int64 (2, B, n, c); match, antonym, mask
        bool (2, B, n). Labels (B,), or None if one is not known.
        """
        pairs = [self.pairs[i] for i in indices]
        rows = [self.features(p.a, p.b) for p in pairs] + [self.features(p.b, p.a) for p in pairs]
        names, batch = ("word_ids", "character_ids", "tags", "match", "antonym", "mask"), {}
        for name, column in zip(names, zip(*rows)):
            batch[name] = pad_sequence(column, batch_first=True).unflatten(0, (2, len(pairs)))
        return batch, self.labels(indices)


def texts_of(pairs):
    """Both texts of each pair, one after the other."""
    return [text for pair in pairs for text in (pair.a, pair.b)]


def pad_matrices(matrices):
    """Arrays (n, m, ...) as one tensor (B, n, m, ...) with the largest n, m, at least 1; rest 0."""
    matrices = [torch.as_tensor(x) for x in matrices]
    n, m = (max(1, *(x.shape[axis] for x in matrices)) for axis in (0, 1))
    padded = matrices[0].new_zeros(len(matrices), n, m, *matrices[0].shape[2:])
    for row, x in zip(padded, matrices):
        row[:x.shape[0], :x.shape[1]] = x
    return padded


def training_batches(lengths, batch_size, seed, block=1):
    """All places in a random order decided by seed, in batches of like lengths.

    Places are sorted by length within pools of 50 batches, then batches are shuffled. Runs of
    `block` neighbours stay together (see support.data.Task) if batch_size is a multiple of it.
    """
    rng, whole = random.Random(seed), len(lengths) // block * block
    blocks = [range(i, i + block) for i in range(0, whole, block)]
    rng.shuffle(blocks)
    order, pool = [], 50 * max(1, batch_size // block)
    for start in range(0, len(blocks), pool):
        like = sorted(blocks[start:start + pool], key=lambda some: max(lengths[i] for i in some))
        order += [i for places in like for i in places]
    order += range(whole, len(lengths))
    batches = [order[i:i + batch_size] for i in range(0, len(order), batch_size)]
    rng.shuffle(batches)
    return batches
