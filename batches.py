"""From pairs of sentences to padded tensors.

    text a, text b  ->  words, parses   each text once; parses are kept on disk
                    ->  prior (n, m)    of a pair, when its batch is collated
                    ->  token ids       of each pair
                    ->  a batch         input_ids, segment, word_index, mask, prior; labels

A `Reader` serves one method, whose prior says what it needs of a pair. DRr-Net reads words, not
word pieces, and WordExamples collates them. Left out: where pairs come from (support.datasets), how
words and trees are found (support.parses), how priors are computed (priors).
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
from support import lexicon
from support.biaffine import load_parser
from support.datasets import TOY
from support.errors import prefix_errors, refuse
from support.parses import Parse, pack, parse_texts, split_words, unpack, words_at

# Axes: B batch, L tokens, n words of a (of either sentence for DRr-Net), m words of b,
# c characters of a word, R relations

ENCODED = 4096  # pairs tokenized at once: a tokenizer returns more than we keep
TEXTS_KEPT = 8192  # texts that stay unpacked, all of MRPC's


class Known(NamedTuple):
    """What a prior needs to know of a text, as it is asked for. The other fields stay empty."""

    spans: np.ndarray | None = None  # first character and end of each word
    words: list | tuple = ()
    parse: Parse | None = None
    facts: list | None = None        # what a lexicon knows of each word


class Texts(dict):
    """text -> Known, made when it is asked for. Until then spans, or a parse, are a few hundred
    bytes; those of the first TEXTS_KEPT texts stay. Without a prior no text is in it.
    """

    def __init__(self, kind):
        """kind: of what is kept, "parses", "words", or "" for a method that asks for no words."""
        self.kind, self.facts, self.made = kind, {}, {}

    def __getitem__(self, text):
        known = self.made.get(text)
        if known is None:
            known = self.make(text)
            if len(self.made) < TEXTS_KEPT:
                self.made[text] = known
        return known

    def make(self, text):
        """The Known of a text."""
        if not self.kind:
            return Known()
        packed = super().__getitem__(text)
        if self.kind == "parses":
            parse = unpack(text, packed)
            return Known(parse.spans, parse.words, parse, self.facts.get(text))
        spans = np.frombuffer(packed, np.int32).reshape(-1, 2)
        return Known(spans, words_at(text, spans), None, self.facts.get(text))


class Reader:
    """Reads pairs for one method.

    Args:
        method: a class of semmatch or reread, or your own, whose prior says what is read of a text.
            READS: "words" or "pieces".
        max_length: tokens of a pair; for words, words of a sentence.
        options: what the method was made with, such as printed and without.
        tokenizer: PairTokenizer; for words a Vocabulary.
        parser: a function of texts; None: the parser that ships.
        toy: use the toy world's lexicon. workers: processes that collate.
    """

    def __init__(self, method, max_length, options=None, tokenizer=None, parser=None, toy=False,
                 workers=0):
        self.method, self.options, self.max_length = method, options or {}, max_length
        self.tokenizer, self.toy, self.workers = tokenizer, toy, workers
        self.prior = priors.prior_of(method, self.options)
        needs = () if self.prior is None else self.prior.needs
        self.needs_facts = "facts" in needs
        self.needs_parses = "parses" in needs or "tags" in needs and not toy
        self.needs_words = self.prior is not None or hasattr(method, "spread")
        self.parser, self.lexicon = parser, None

    def __getstate__(self):
        """The state that pickle copies to a worker, without the lexicon: WordNet's has a lock."""
        return vars(self) | {"lexicon": None}

    def read(self, pairs):
        """Texts: what is known of these pairs' texts."""
        if not self.needs_words:
            return Texts("")
        texts = list(dict.fromkeys(texts_of(pairs)))
        known = Texts("parses" if self.needs_parses else "words")
        if self.needs_parses and texts:
            self.parser = self.parser or load_parser()
            known.update(parse_texts(texts, self.parser, self.max_length, keep=pack))
        else:  # later words find no place in the input, unless earlier words have no piece
            known.update((text, split_words(text)[:self.max_length].astype(np.int32).tobytes())
                         for text in texts)
        if self.needs_facts:
            self.lexicon = self.lexicon or (
                lexicon.Table.read(TOY / "relations.tsv") if self.toy else lexicon.WordNet())
            for text in tqdm(texts, "looking up words", leave=False, disable=None, delay=1):
                x = known.make(text)
                known.facts[text] = self.lexicon.facts(x.words, x.parse and x.parse.tags)
        return known

    def matrix(self, a, b):
        """The prior of a pair's words, (n, m) or (n, m, ...), checked. a, b: Known."""
        n, m = len(a.words), len(b.words)
        with prefix_errors(f"the prior of {self.method.__name__}: "):
            matrix = np.array(self.prior.matrix(a, b), order="C")
            if matrix.dtype.kind == "f":
                matrix = matrix.astype(np.float32)
            numbers = matrix.dtype.kind in "biuf" and np.isfinite(matrix).all()
            refuse(not numbers or matrix.shape[:2] != (n, m), f"expected finite numbers ({n}, {m}, "
                   f"...), words by words, got {matrix.shape} {matrix.dtype}")
        return matrix

    def examples(self, pairs):
        """Examples of pairs, with all that the method needs to know of their texts."""
        kind = WordExamples if self.method.READS == "words" else Examples
        return kind(pairs, self, self.read(pairs))


class Examples:
    """Encoded pairs. A batch's priors are computed when the batch is collated.

    `indices` are places in `pairs`. known: Texts. tokens: for each pair an array (3, L) of ids,
    segment and word_index; `lengths` has each L.
    """

    def __init__(self, pairs, reader, known):
        self.pairs, self.reader, self.known = pairs, reader, known
        self.tokens, self.parts, self.batches = [], [], None
        largest = max(reader.tokenizer.vocab_size, reader.max_length)
        small = np.int16 if largest < 2 ** 15 else np.int32
        for part in (pairs[i:i + ENCODED] for i in range(0, len(pairs), ENCODED)):
            rows = [(p.a, known[p.a].spans, p.b, known[p.b].spans) for p in part]
            encoded = reader.tokenizer.encode_batch(rows, reader.max_length)
            self.tokens += [np.array(ids_segment_words, small) for ids_segment_words in encoded]
        self.lengths = [tokens.shape[1] for tokens in self.tokens]

    def collate(self, indices):
        """The batch of these pairs, and their labels.

        Returns: input_ids, segment, word_index int64 (B, L); mask bool (B, L), True =
        real; prior (B, n, m) or (B, n, m, R) if the method has one. Labels (B,), or None if one is
        missing.
        """
        columns = zip(*(torch.from_numpy(self.tokens[i]).long() for i in indices))
        paddings = {"input_ids": self.reader.tokenizer.pad_id, "segment": 0, "word_index": -1}
        batch = {name: pad_sequence(column, True, padding)
                 for column, (name, padding) in zip(columns, paddings.items())}
        lengths = torch.tensor([self.lengths[i] for i in indices])
        batch["mask"] = torch.arange(lengths.max()) < lengths[:, None]
        if self.reader.prior is not None:
            matrices = [self.prior(i) for i in indices]
            n, m = (max(1, *(x.shape[axis] for x in matrices)) for axis in (0, 1))
            batch["prior"] = torch.from_numpy(np.stack([cut_or_pad(x, n, m) for x in matrices]))
        return batch, self.labels(indices)

    def prior(self, i):
        """The prior of pair i, see Reader.matrix."""
        pair = self.pairs[i]
        return self.reader.matrix(self.known[pair.a], self.known[pair.b])

    def labels(self, indices):
        """(B,), or None if one is missing."""
        labels = [self.pairs[i].label for i in indices]
        return None if None in labels else torch.tensor(labels)

    def loader(self, parts, pinned=False):
        """The collated batches of `parts`, a list of lists of places, in order. Processes that
        collate stay for the next call, because they take seconds to start. They read a copy: two
        objects that hold each other are deleted late, and in five seconds.
        """
        self.parts[:] = parts
        if self.batches is None:
            self.batches = DataLoader(
                range(len(self.pairs)), batch_sampler=self.parts,
                collate_fn=copy.copy(self).collate, num_workers=self.reader.workers,
                persistent_workers=self.reader.workers > 0, pin_memory=pinned,
                generator=torch.Generator())  # the global one is not touched
        return self.batches

    def __getstate__(self):
        """The state that pickle copies to a worker, without the other workers."""
        return vars(self) | {"batches": None}


class WordExamples(Examples):
    """Pairs as DRr-Net reads them. A batch's tensors have a first axis of 2, sentences a and b."""

    def __init__(self, pairs, reader, known):
        self.pairs, self.reader, self.known = pairs, reader, known
        self.parts, self.batches = [], None
        longest = [max(len(known[p.a].words), len(known[p.b].words), 1) for p in pairs]
        self.lengths = [min(reader.max_length, words) for words in longest]

    def features(self, i):
        """Of pair i two lists, for a and b, of columns with a row for each word: its number, its
        characters, its tag, does the other text have it, has it an antonym there, True.
        """
        pair, both = self.pairs[i], []
        known = [self.known[text] for text in (pair.a, pair.b)]
        matrix = cut_or_pad(self.prior(i), *(max(1, len(x.words)) for x in known))  # (n, m, 2)
        for x, (shared, opposed) in zip(known, (matrix.any(1).T, matrix.any(0).T)):
            words, tags = x.words or [""], x.parse.tags or ["X"]    # no words: one unknown word
            columns = (self.reader.tokenizer.ids(words), self.reader.tokenizer.spell(words),
                       [priors.TAGS.index(tag if tag in priors.TAGS else "X") for tag in tags],
                       shared, opposed, [True] * len(words))
            both.append([torch.as_tensor(np.asarray(column)) for column in columns])
        return both

    def collate(self, indices):
        """The batch of these pairs, and their labels.

        Returns: word_ids, tags int64 (2, B, n); character_ids int64 (2, B, n, c); match, antonym,
        mask bool (2, B, n). Labels (B,), or None if one is missing.
        """
        rows_a, rows_b = zip(*map(self.features, indices))
        names, batch = ("word_ids", "character_ids", "tags", "match", "antonym", "mask"), {}
        for name, column in zip(names, zip(*rows_a, *rows_b)):
            batch[name] = pad_sequence(column, batch_first=True).unflatten(0, (2, len(indices)))
        return batch, self.labels(indices)


def texts_of(pairs):
    """Both texts of each pair, one after the other."""
    return [text for pair in pairs for text in (pair.a, pair.b)]


def words_of(pairs, examples):
    """Yields the words of each text of the pairs: as it was read, if one of the `examples`, a dict
    split -> Examples, has it."""
    for text in texts_of(pairs):
        known = [x.known[text].words for x in examples.values() if text in x.known]
        yield known[0] if known else words_at(text, split_words(text))


def cut_or_pad(array, n, m):
    """The array with sizes n, m of its first two axes: cut, or padded with zeros."""
    array = array[:n, :m]
    padded = np.zeros((n, m, *array.shape[2:]), array.dtype)
    padded[:array.shape[0], :array.shape[1]] = array
    return padded


def training_batches(lengths, batch_size, seed, block=1):
    """All places in batches of similar lengths, in a random order that seed decides.

    Places are sorted by length within pools of 50 batches; then the batches are shuffled. Blocks of
    `block` neighbours stay together (see support.pairs.Task) if batch_size is a multiple of it.
    """
    rng, whole = random.Random(seed), len(lengths) // block * block
    blocks = [range(i, i + block) for i in range(0, whole, block)]
    rng.shuffle(blocks)
    order, pool = [], 50 * max(1, batch_size // block)
    for start in range(0, len(blocks), pool):
        like = sorted(blocks[start:start + pool], key=lambda run: max(lengths[i] for i in run))
        order += [i for run in like for i in run]
    order += range(whole, len(lengths))
    batches = [order[i:i + batch_size] for i in range(0, len(order), batch_size)]
    rng.shuffle(batches)
    return batches
