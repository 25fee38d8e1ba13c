"""DRr-Net's words: ids of words and characters, vectors from a GloVe file."""
import contextlib
import os
from collections import Counter

import numpy as np
from tqdm import tqdm

from support.errors import prefix_errors, refuse
from support.machine import print_once

# Axes: n words, c characters of a word


class Vocabulary:
    """Ids of words and characters for DRr-Net's input (LadRa-Net paper, section IV-A).

    Id 0 is padding, 1 unknown. words, characters: lists, with ids from 2 on. vectors: float32
    (2 + words, width), fixed vectors of the words, or None if vectors are learned.
    """

    def __init__(self, words, characters, vectors=None):
        self.words, self.characters, self.vectors = list(words), list(characters), vectors
        self._word = {word: i for i, word in enumerate(self.words, 2)}
        self._character = {character: i for i, character in enumerate(self.characters, 2)}

    @classmethod
    def learn(cls, sentences, from_file=None, seed=0):
        """A Vocabulary from lists of words. A case-folded word has an id if it occurs twice; words
        that occur once train the unknown word. With from_file, the dict of read_vectors, each word
        has an id, as written if this has a vector, else case-folded; "the out-of-vocabulary (OOV)
        words are randomly initialized", with the standard deviation of the vectors.
        """
        count = Counter(word for words in sentences for word in words)
        characters = sorted({character for word in count for character in word})
        if from_file is None:
            folded = Counter(word.casefold() for word in count.elements())
            return cls(sorted(word for word, times in folded.items() if times > 1), characters)
        words = sorted({word if word in from_file else word.casefold() for word in count})
        rows = np.stack([from_file[word] for word in words if word in from_file])
        size = 2 + len(words), rows.shape[1]
        vectors = np.random.default_rng(seed).normal(0, rows.std(), size)
        vectors[0] = 0
        for i, word in enumerate(words, 2):
            vectors[i] = from_file.get(word, vectors[i])
        return cls(words, characters, vectors.astype(np.float32))

    def ids(self, words):
        """(n,) int64: the id of each word as written, else case-folded, else 1."""
        numbers = [self._word.get(w) or self._word.get(w.casefold(), 1) for w in words]
        return np.array(numbers, np.int64)  # (n,)

    def spell(self, words, width=16):
        """(n, width) int64: the ids of each word's characters, cut or padded."""
        spelled = np.zeros((len(words), width), np.int64)
        for row, word in zip(spelled, words):
            row[:len(word)] = [self._character.get(character, 1) for character in word[:width]]
        return spelled

    def state(self):
        """A dict from which `from_state` makes this again, without vectors: the model has them."""
        width = None if self.vectors is None else self.vectors.shape[1]
        return {"words": self.words, "characters": self.characters, "width": width}

    @classmethod
    def from_state(cls, state):
        """The Vocabulary of a `state`; vectors are zeros until the model's weights are loaded."""
        words, width = state["words"], state["width"]
        vectors = width and np.zeros((2 + len(words), width), np.float32)
        return cls(words, state["characters"], vectors)


def learn_words(sentences, path=None, seed=0):
    """The Vocabulary of train's words. With the path of a GloVe file, whose vectors are fixed, of
    the words of all splits. sentences: dict split -> lists of words, of which each is read once.
    """
    if not path:
        return Vocabulary.learn(sentences["train"])
    sentences = [words for split in sentences.values() for words in split]
    needed = {form for words in sentences for word in words for form in (word, word.casefold())}
    with prefix_errors("--glove "):
        found = read_vectors(path, needed)
    print_once(f"--glove {path}: vectors of {len(found):,} of {len(needed):,} words")
    return Vocabulary.learn(sentences, found, seed)


def read_vectors(path, words):
    """Vectors of the given words from a GloVe text file: each line has a word and its numbers.

    A line is left out if it has another width than most lines, or something that is no number
    below a million; word2vec's header is left out, too. Of two lines of a word the first counts.
    Returns: dict word -> (width,) float32.
    """
    rows = []  # (word, its vector)
    with open(path, "rb") as file, tqdm(total=os.path.getsize(path), desc="reading vectors",
                                        unit="B", unit_scale=True, leave=False,
                                        disable=None, delay=1) as bar:
        for line in file:
            bar.update(len(line))
            name, _, numbers = line.rstrip().partition(b" ")
            word = name.decode("utf-8", "replace")
            if word in words:
                with contextlib.suppress(ValueError), np.errstate(over="ignore"):
                    rows.append((word, np.array(numbers.split(b" "), np.float32)))
    rows = [(word, vector) for word, vector in rows if (abs(vector) < 1e6).all()]
    widths = Counter(len(vector) for _, vector in rows if len(vector) > 1)
    refuse(not widths, f"{path}: has none of the {len(words)} words; expected GloVe's text form, "
           f"in each line a word and its numbers, separated by spaces")
    width = widths.most_common(1)[0][0]
    return {word: vector for word, vector in reversed(rows) if len(vector) == width}
