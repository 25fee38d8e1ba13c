"""The dependency parser that ships with the project: a biaffine network, its trees, its weights.

support.parses uses it. Left out: how it was trained (assets/README.md names the commit).
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from support.errors import expecting
from support.parses import PLAIN, tree_depths

# Axes: S sentences, T words of the longest sentence and ROOT

PARSER = Path(__file__).resolve().parent.parent / "assets" / "parser.npz"   # the one that ships
BATCH = 32           # sentences of similar lengths that go through the network at once
WORD_LETTERS = 24    # the network reads the first and the last twelve letters of a longer word
FAR = -1e4           # a score so low that it is never chosen
# How treebanks write brackets.
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Parser(nn.Module):
    """Deep biaffine dependency parser (Dozat and Manning 2017, arXiv 1611.01734) that also tags.

        x_i = word embedding ⊕ fixed vector ⊕ max over the word of two character convolutions
        r_i = three bidirectional LSTMs over x                               (position 0 is ROOT)
        score of head j for i:       [h_i^(arc-dep); 1]ᵀ W_arc h_j^(arc-head)
        score of relation r, head j: [h_i^(rel-dep); 1]ᵀ W_rel,r [h_j^(rel-head); 1]

    Departs: characters by convolution; the fixed vectors (GloVe's) stand beside the embedding, and
        are not added to it; universal tags are an output, so that the parser needs only words.
    """

    def __init__(self, vocabulary, word_size=100, vector_size=50, character_size=32, filters=64,
                 hidden=224, arc_size=256, relation_size=80):
        """vocabulary: dict with the lists words (lower-case), characters, tags, relations, and
        vectors (lower-case): the words that have a fixed vector, a row of `self.vectors`."""
        super().__init__()
        self.vocabulary, self.fingerprint = vocabulary, "untrained"
        words, characters = vocabulary["words"], vocabulary["characters"]
        self.word_ids = {word: i for i, word in enumerate(words, 2)}        # 0 unknown, 1 ROOT
        self.vector_ids = {word: i for i, word in enumerate(vocabulary["vectors"], 1)}   # 0 none
        self.character_ids = {c: i for i, c in enumerate(characters, 2)}    # 0 padding, 1 unknown
        self.word = nn.Embedding(len(words) + 2, word_size)
        self.register_buffer("vectors", torch.zeros(len(self.vector_ids) + 1, vector_size))
        self.character = nn.Embedding(len(characters) + 4, character_size,  # + start, end of a word
                                      padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(character_size, filters, width, padding=width // 2) for width in (3, 5))
        sizes = [word_size + vector_size + 2 * filters, 2 * hidden, 2 * hidden]
        self.lstm = nn.ModuleList(nn.LSTM(size, hidden, batch_first=True)
                                  for size in sizes for _ in ("left", "right"))
        self.tag = nn.Linear(2 * hidden, len(vocabulary["tags"]))
        self.arc_dep = nn.Linear(2 * hidden, arc_size)
        self.arc_head = nn.Linear(2 * hidden, arc_size)
        self.rel_dep = nn.Linear(2 * hidden, relation_size)
        self.rel_head = nn.Linear(2 * hidden, relation_size)
        self.W_arc = nn.Parameter(torch.zeros(arc_size + 1, arc_size))
        self.W_rel = nn.Parameter(torch.zeros(len(vocabulary["relations"]), relation_size + 1,
                                              relation_size + 1))

    def forward(self, sentences):
        """Scores of the tags and heads of sentences, lists of words, and vectors for relations.

        Neither padding nor neighbours change a score. Returns: scores of tags (S, T, tags) and of
        heads (S, T, T), and for `relation_scores` the vectors of dependents and of heads, both
        (S, T, relation_size + 1). Place 0 is ROOT.
        """
        lengths = torch.tensor([len(words) + 1 for words in sentences])[:, None]
        x = self.embed(sentences)
        position = torch.arange(x.shape[1])
        real = position < lengths  # (S, T)
        x = self.read(x, torch.where(real, lengths - 1 - position, position))
        arc_dep, arc_head, rel_dep, rel_head = (
            F.leaky_relu(layer(x), 0.1)
            for layer in (self.arc_dep, self.arc_head, self.rel_dep, self.rel_head))
        one = x.new_ones(*x.shape[:2], 1)
        arc = torch.cat([arc_dep, one], 2) @ self.W_arc @ arc_head.transpose(1, 2)  # (S, T, T)
        itself = torch.eye(len(position), dtype=torch.bool)
        arc = arc.masked_fill(~real[:, None] | itself, FAR)  # (S, T, T)
        return self.tag(x), arc, torch.cat([rel_dep, one], 2), torch.cat([rel_head, one], 2)

    def embed(self, sentences):
        """Each word's embedding, fixed vector and character features, (S, T, features)."""
        words = sorted({word for sentence in sentences for word in sentence})
        place = {word: i for i, word in enumerate(words, 1)}
        rows = pad_sequence([torch.tensor([0, *(place[word] for word in sentence)])
                             for sentence in sentences], batch_first=True)  # (S, T)
        words = [BRACKETS.get(word, word).translate(PLAIN) for word in words]
        letters = self.spell(words)
        x = self.character(letters).transpose(1, 2)
        x = torch.cat([convolution(x).masked_fill(letters[:, None] == 0, FAR).amax(2)
                       for convolution in self.convolutions], 1).relu()
        words = [word.lower() for word in words]
        ids = torch.tensor([1, *(self.word_ids.get(word, 0) for word in words)])[rows]  # (S, T)
        fixed = torch.tensor([0, *(self.vector_ids.get(word, 0) for word in words)])[rows]  # (S, T)
        vectors = F.embedding(fixed, self.vectors)
        return torch.cat([self.word(ids), vectors, F.embedding(rows, x)], 2)

    def spell(self, words):
        """Character ids of words, (words + 1, letters); the first row, for ROOT, is empty."""
        start, end = len(self.character_ids) + 2, len(self.character_ids) + 3
        longest = min(max(map(len, words), default=1), WORD_LETTERS)
        ids = np.zeros((len(words) + 1, longest + 2), np.int64)
        for row, word in zip(ids[1:], words):
            if len(word) > WORD_LETTERS:
                word = word[:WORD_LETTERS // 2] + word[-WORD_LETTERS // 2:]
            row[:len(word) + 2] = [start, *(self.character_ids.get(c, 1) for c in word), end]
        return torch.from_numpy(ids)

    def read(self, x, mirror):
        """Three bidirectional LSTMs over x. mirror: (S, T), the places from right to left."""
        rows = mirror + x.shape[1] * torch.arange(len(x))[:, None]  # (S, T)

        def reverse(y):
            return F.embedding(rows, y.flatten(0, 1))   # takes whole rows, faster than gather

        for left, right in zip(self.lstm[::2], self.lstm[1::2]):
            x = torch.cat([left(x)[0], reverse(right(reverse(x))[0])], 2)
        return x

    def relation_scores(self, rel_dep, rel_head):
        """Scores of every relation, (words, relations), for words and their heads, one row each."""
        W, size = self.W_rel.transpose(0, 1).flatten(1), len(self.W_rel)   # one product for all
        scores = []
        for dep, head in zip(rel_dep.split(128), rel_head.split(128)):     # in parts: less memory
            scores.append(((dep @ W).unflatten(1, (size, -1)) * head[:, None]).sum(2))
        return torch.cat(scores)

    @torch.inference_mode()
    @torch.autocast("cpu", enabled=False)   # a caller's autocast would round
    def parse(self, sentences):
        """Trees of sentences, lists of one word or more: [(tags, heads, relations), three lists].

        Heads count from 1; 0 = ROOT. Each answer is a tree with one root. If the best heads of all
        words are no tree, Chu-Liu/Edmonds finds the best tree. A word may have two subjects.
        """
        order, answers = sorted(range(len(sentences)), key=lambda i: len(sentences[i])), {}
        for places in (order[i:i + BATCH] for i in range(0, len(order), BATCH)):
            answers |= zip(places, self.parse_batch([sentences[i] for i in places]))
        return [answers[i] for i in range(len(sentences))]

    def parse_batch(self, sentences):
        """`parse` for sentences that go through the network together."""
        tags, arc, rel_dep, rel_head = self(sentences)
        lengths = [len(words) for words in sentences]
        heads = torch.cat([best_tree(arc[k, :n + 1, :n + 1]) for k, n in enumerate(lengths)])
        k = torch.arange(len(sentences)).repeat_interleave(torch.tensor(lengths))
        i = torch.cat([torch.arange(1, n + 1) for n in lengths])         # all words, no padding
        relations = self.relation_scores(rel_dep[k, i], rel_head[k, heads]).argmax(1)
        tags = tags[k, i].argmax(1)
        answers = []
        for tag, head, relation in zip(*(x.split(lengths) for x in (tags, heads, relations))):
            answers.append(([self.vocabulary["tags"][t] for t in tag.tolist()], head.tolist(),
                            [self.vocabulary["relations"][r] for r in relation.tolist()]))
        return answers


def best_tree(scores):
    """Heads (n,) of the best tree with one root; scores (n+1, n+1), row i: each head for word i."""
    heads = scores[1:].argmax(1).numpy()
    if np.count_nonzero(heads == 0) != 1 or tree_depths(heads).max() > len(heads):
        heads = maximum_spanning_tree(scores.numpy())[1:]
    return torch.from_numpy(heads)


def maximum_spanning_tree(scores):
    """The best tree with one root, by Chu and Liu (1965) and Edmonds (1967).

    While the best heads hold a cycle, the cycle becomes one node. An arc into this node breaks an
    arc of the cycle; the broken arc's score is subtracted from its score. Then the cycles are
    opened again, the last one first.

    scores: (T, T), row i: the scores of each head for word i; node 0 is ROOT.
    Returns: heads (T,), heads[0] = 0.
    """
    scores = np.where(np.eye(len(scores), dtype=bool), -np.inf, scores.astype(np.float64))  # (T, T)
    scores[0] = -np.inf
    finite = scores[np.isfinite(scores)]
    scores[1:, 0] -= len(scores) * (finite.max() - finite.min() + 1)   # a second root never pays
    opened, heads = [], scores.argmax(1)
    while (cycle := find_cycle(heads)) is not None:
        into = scores[cycle] - scores[cycle, heads[cycle]][:, None]
        out = scores[:, cycle]
        node, gone = cycle[0], cycle[1:]                    # the node that stands for all of them
        opened.append((node, cycle, heads[cycle], cycle[into.argmax(0)], cycle[out.argmax(1)]))
        scores[node], scores[:, node] = into.max(0), out.max(1)
        scores[gone] = scores[:, gone] = scores[node, node] = -np.inf
        heads = scores.argmax(1)
    for node, cycle, inside, enter, leave in reversed(opened):
        head = heads[node]                                  # the head of the whole cycle
        heads = np.where(heads == node, leave, heads)  # (T,)
        heads[cycle] = inside
        heads[enter[head]] = head
    return heads


def find_cycle(heads):
    """Nodes of a cycle among heads (T,), or None if there is none. heads[0] = 0 is the root."""
    lost = np.flatnonzero(tree_depths(heads[1:]) == len(heads))   # words that do not reach the root
    if not len(lost):
        return None
    path, node = [], lost[0] + 1
    while node not in path:
        path.append(node)
        node = heads[node]
    return np.array(path[path.index(node):])


def load_parser(path: str | Path = PARSER) -> Parser:
    """The Parser in a file such as the one that ships. Its fingerprint: the file's SHA-256."""
    with expecting(path, "a parser", "check the file out again"):
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            arrays = dict(arrays)
        with torch.random.fork_rng([]):  # keeps the caller's random state
            parser = Parser(json.loads(arrays.pop("vocabulary").item()))
        parser.load_state_dict({name: torch.from_numpy(x).float() for name, x in arrays.items()})
    parser.fingerprint = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return parser
