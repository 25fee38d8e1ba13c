"""Neighbours of the five papers: three more ways to change BERT's attention, to compare with.

Papers
    UERBERT       Xia et al., "Using Prior Knowledge to Guide BERT's Attention in Semantic Textual
                  Matching Tasks", WWW 2021 (arXiv 2102.10934). Code: xiatingyu/Bert_sim.
    Syntax-BERT   Bai et al., "Syntax-BERT: Improving Pre-trained Transformers with Syntax Trees",
                  EACL 2021 (arXiv 2103.04350). Code: nkh2235/SyntaxBERT.
    Comateformer  Li, Liang and Zhang, "Comateformer: Combined Attention Transformer for Semantic
                  Sentence Matching", 2024 (arXiv 2412.07220). We know of no code. An older kin is
                  Tay et al., "Compositional De-Attention Networks", NeurIPS 2019.

The tables of DABERT, DAFA and Knowledge compare with the first two; Knowledge cites the third. Each
is a subclass of bert_min.SelfAttention, as in semmatch.py.

Assumes: we read the released code of the first two, and of all three papers only what others tell.
So formulas have no numbers here; what is from the code is said to be; what "the paper" has is told.

Names (ours | UERBERT | Syntax-BERT | Comateformer)
    q, k, v | Q, K, V | Q, K, V | Q, K, V         prior | S | trees | -
    masks | MASK | M, one of each sub-network     distance | - | k, the largest distance

Left out: the encoder (bert_min.py), parses and WordNet (support.parses, priors.py), training.
"""
import functools
import itertools

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_min import (SelfAttention, Shown, attention_weights, check_options, linear, merge_heads,
                      record)
from priors import FUNCTION_WORDS, load_wordnet, relation_matrix
from semmatch import CALIBRATED, calibrated_attention, difference_scores, spread_prior

# Axes: B batch, L tokens of the packed pair, d width of a state, H heads, k head size, n words of
# a, m words of b, w the larger of n and m, R sub-networks


# ---- UERBERT ------------------------------------------------------------------------------------

@functools.cache
def hypernym_depths(name):
    """{synset: (steps up to it, senses from it to the root)} of all above a synset, and itself.

    name: in WordNet, such as dog.n.01. Of several ways the nearest one up, the longest to the root.
    """
    synset, found, depth = load_wordnet().synset(name), {}, 0
    for parent in synset.hypernyms() + synset.instance_hypernyms():
        above = hypernym_depths(parent.name())
        depth = max(depth, above[parent.name()][1])
        for other, (steps, deep) in above.items():
            known = found.get(other, (steps + 1, deep))
            found[other] = min(known, (steps + 1, deep))
    return {name: (0, depth + 1)} | found


@functools.lru_cache(2 ** 18)
def wu_palmer(word, other):
    """How near two words are in the lexicon's tree, 0 to 1: 2d / (i + j + 2d), Wu and Palmer 1994.

    i and j steps lead up to a common hypernym, which is d senses deep, the root 1. The largest
    counts, over common hypernyms and first senses; 0 where there is none. In a table of relations
    what is above a word is a root.
    Departs: nltk, which the released code asks, puts one more root above all verbs, adjectives and
        adverbs, and compares them with nouns: any two adjectives have ½, eat and buy ⅓. Here words
        without a common hypernym have 0. nltk also picks one common hypernym, so that king and king
        have 0.85; here the largest value counts.

    Args: word, other: priors.Facts.
    """
    ways = [[hypernym_depths(name) for name in facts.first] or
            [dict.fromkeys(facts.parents | facts.ancestors, (1, 1)) |
             dict.fromkeys(facts.senses, (0, 1))] for facts in (word, other)]
    found = 0.0
    for above, beyond in itertools.product(*ways):
        for key in above.keys() & beyond.keys():
            (i, d), (j, _) = above[key], beyond[key]
            found = max(found, 2 * d / (i + j + 2 * d))
    return found


def similarity_matrix(words_a: list, words_b: list, facts_a: list, facts_b: list) -> np.ndarray:
    """S, how similar word i of a is to word j of b, (n, m) float32 in [0, 1].

        S_ij = 1 for synonyms and antonyms, else Wu and Palmer's similarity in WordNet;
               0 or 1 where WordNet lacks one of them: 1 if they are equal;   0 for stop words

    Departs: the released code takes the mean of Wu-Palmer over all senses of both words, where rare
        senses make chance pairs similar and like ones unlike. Ours is that of the first senses, the
        most frequent ones (wu_palmer). It also finds no synonym in an inflected word, so
        that dogs and dogs are less than 1; ours are synonyms (priors.relation_matrix).
    Assumes: antonyms are a word's own and their synonyms. Stop words are priors.FUNCTION_WORDS, and
        marks without a letter or digit, which the released code deletes. Of its scripts one has a
        list of 34 stop words, and antonyms; that which makes its matrices has neither.
    """
    S = relation_matrix(facts_a, facts_b)[..., :2].any(-1).astype(np.float32)  # (n, m)
    known_a, known_b = ([(known or {}).get(1) for known in facts] for facts in (facts_a, facts_b))
    for i, j in zip(*(S == 0).nonzero()):
        if known_a[i] and known_b[j]:
            S[i, j] = wu_palmer(known_a[i], known_b[j])
        else:
            S[i, j] = words_a[i].casefold() == words_b[j].casefold()
    S[[is_stop_word(word) for word in words_a]] = 0
    S[:, [is_stop_word(word) for word in words_b]] = 0
    return S  # (n, m)


def is_stop_word(word):
    """Is it a word of a closed class, or a mark?"""
    return word.casefold() in FUNCTION_WORDS or not any(map(str.isalnum, word))


class UerbertAttention(SelfAttention):
    """Similar words of the two sentences get more of the attention. It adds no weights.

        softmax((Q Kᵀ / √d_k) ⊙ S + MASK) V

    Departs: with a negative q·k a *smaller* S means a larger weight, as in DAFA Eq. (6). We
        multiply the weights, not the scores. A weight times 0 would be forbidden, where the page
        has the score 0 (all stop words of the other sentence), so that S = 0 leaves a share of it:
        weight_ij ∝ (floor + (1 - floor) S_ij) exp(q_i·k_j / √d_k). S = 1 everywhere is plain
        attention; a larger S never lowers its own weight. `printed` {"product"} multiplies scores,
        as the formula and the released code do; one of its versions, of 2021, leaves S unused.
    Assumes: floor = ½, the factor (1 + S) / 2; a version of the released code has it in a comment,
        on scores. S is 1 within a sentence and at special tokens. In the latest released code
        [CLS] and the last [SEP] have 0 towards the other sentence, and the middle [SEP] towards
        everything; it masks padding in the first layer alone; we, in all.
    """

    PRIOR, NEEDS = similarity_matrix, ("words", "facts")
    PRINTED = frozenset({"product"})
    TRACE = SelfAttention.TRACE | CALIBRATED

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, floor=0.5):
        super().__init__(config)
        check_options(type(self), printed, without)
        if not 0 <= floor <= 1:
            raise ValueError(f"UerbertAttention: floor needs a number from 0 to 1, got {floor!r}")
        self.typeset, self.floor = "product" in printed, floor

    def spread(self, prior, word_index, segment):
        """What calibrated_attention takes, (B, L, L), from S (B, n, m)."""
        if self.typeset:
            return spread_prior(prior, word_index, segment, 1.0)  # (B, L, L)
        share = self.floor + (1 - self.floor) * prior  # (B, n, m)
        return spread_prior(share.log(), word_index, segment, 0.0)  # (B, L, L)

    def neutral(self, prior):
        """S = 1 everywhere: every weight is as it is."""
        return torch.ones_like(prior)

    def attend(self, hidden, q, k, v, mask, prior, trace):
        """Returns (B, L, d). A trace gets the plain weights, too, which are not used."""
        if trace is not None:
            super().attend(hidden, q, k, v, mask, None, trace)
        dropout = self.dropout if self.training else 0.0
        mixed = calibrated_attention(q, k, v, prior, mask, dropout, self.typeset, trace)
        return merge_heads(mixed)  # (B, L, d)


# ---- Syntax-BERT --------------------------------------------------------------------------------

FAR = 2 ** 14  # steps: there is no way


def steps_up(heads):
    """Steps from word i up to the nearest word that is above i and j, or is one of them.

    heads: (n,) of a parse. Returns (n, n) int16, FAR where there is none. 1 at [i, j] and 0 at [j,
    i] say that j is the parent of i.
    """
    n = len(heads)
    up = np.full((n, n + 1), FAR, np.int16)  # (n, n+1)
    above, steps = np.arange(1, n + 1), 0           # row i: steps to i and to each word above it
    while above.any():
        up[np.arange(n), above] = steps
        above, steps = np.append(0, heads)[above], steps + 1
    up = up[:, 1:]  # (n, n)
    for j in (up < FAR).sum(1).argsort():  # heads first; what j is not above meets it at its head
        if heads[j]:
            up[:, j] = np.minimum(up[:, j], up[:, heads[j] - 1])
    return up  # (n, n)


def tree_steps(a, b) -> np.ndarray:
    """steps_up of parse a at [:, :, 0], of b at [:, :, 1], (w, w, 2); -1 beyond a sentence."""
    w = max(len(a.heads), len(b.heads))
    found = np.full((w, w, 2), -1, np.int16)  # (w, w, 2)
    for place, heads in enumerate((a.heads, b.heads)):
        found[:len(heads), :len(heads), place] = steps_up(heads)
    return found  # (w, w, 2)


def syntax_masks(prior: Tensor, word_index: Tensor, segment: Tensor, distance: int,
                 without=frozenset()) -> Tensor:
    """Which keys each sub-network allows.

        parent, child   at distance 1 to k: j stands that many steps above i, below i
        sibling         at distance 1 to k: neither is above the other, and d + 1 steps lie between
        pairwise        j is of the other sentence, or is i
        full            all, plain attention

    Assumes: all pieces of a word have its relations; special tokens have none, and belong to the
        sentence before them. Siblings are all words with a common word above, as in the released
        code, which counts their distance alike; the version we saw leaves the tree's masks out
        and makes copies of the full one. The sentences of a text are one tree, as in DAFA; the
        released code relates no words across them.

    Args: prior: int (B, w, w, 2) of tree_steps. word_index, segment: int64 (B, L). distance: k.
    Returns: bool (B, R, L, L), R = 3k + 2 or fewer, in this order.
    """
    same = segment[:, :, None] == segment[:, None, :]  # (B, L, L)
    batch = torch.arange(prior.shape[0], device=prior.device)[:, None, None]
    i = word_index.clamp(min=0)
    up = prior[batch, i[:, :, None], i[:, None, :], segment[:, :, None]].long()  # (B, L, L)
    words = (word_index >= 0)[:, :, None] & (word_index >= 0)[:, None, :] & same  # (B, L, L)
    down, masks = up.transpose(1, 2), []
    kinds = {"parent": up * (down == 0), "child": down * (up == 0),
             "sibling": (up + down - 1) * ((up > 0) & (down > 0))}
    for name, steps in kinds.items():
        if name not in without:
            masks += [words & (steps == d) for d in range(1, distance + 1)]
    if "pairwise" not in without:
        masks.append(~same | torch.eye(same.shape[1], dtype=torch.bool, device=same.device))
    if "full" not in without:
        masks.append(torch.ones_like(same))
    return torch.stack(masks, 1)  # (B, R, L, L)


def masked_attention(q: Tensor, k: Tensor, v: Tensor, masks: Tensor, dropout=0.0,
                     trace: dict | None = None) -> Tensor:
    """The attention of each sub-network: softmax(Q Kᵀ / √d_k over the keys that M allows) V

    Q, K and V are the same for all. Assumes: a token without a key gets 0. (The released code adds
    -10⁴ to forbidden scores, so that such a token attends to everything, padding too.)

    Args: q, k, v: (B, H, L, k). masks: bool (B, R, L, L), without padding. dropout: probability.
    Returns: (B, L, R, d). trace, if given, gets "masked" (B, R, L, L), the mean over heads.
    """
    results, seen = [], []
    if trace is not None:
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5  # (B, H, L, L)
    for allowed in masks.unbind(1):
        if trace is None:       # one fused kernel
            mixed = F.scaled_dot_product_attention(q, k, v, allowed[:, None], dropout_p=dropout)
        else:
            weights = attention_weights(scores, allowed[:, None])  # (B, H, L, L)
            seen.append(weights.mean(1))
            mixed = F.dropout(weights, dropout).to(v.dtype) @ v  # (B, H, L, k)
        results.append(merge_heads(mixed))
    if seen:
        record(trace, masked=torch.stack(seen, 1))
    return torch.stack(results, 2)  # (B, L, R, d)


def topical_attention(results: Tensor, there: Tensor, w: nn.Linear, W_K: nn.Linear,
                      W_V: nn.Linear) -> tuple[Tensor, Tensor]:
    """Each token attends to what the sub-networks have for it, led by one vector, the task's.

        p_n = softmax_n(w · W_K c_n),   c = Σ_n p_n (W_V c_n + b)

    Assumes: this is the form that the released code has behind `if False`, without √d and with one
        head. A sub-network in which a token has no key takes no part at that token. W_V starts as
        the identity, b as 0: before training, what the encoder knows goes on.

    Args: results: (B, L, R, d). there: bool (B, L, R). w: Linear d → 1 and W_K: Linear d → d
        without bias, which would cancel. W_V: Linear d → d.
    Returns: (B, L, d), and p (B, L, R).
    """
    query = w.weight[0] @ W_K.weight            # w · W_K c, without a vector for each c
    weights = attention_weights(results @ query, there)  # (B, L, R)
    mixed = (weights.to(results.dtype)[..., None] * results).sum(2)  # (B, L, d)
    return W_V(mixed), weights


class SyntaxbertAttention(SelfAttention):
    """One attention for each kind of relation in the trees, and one over what these found.

    without: "parent", "child", "sibling", "pairwise", "full", one kind of mask; "topical": the sum
    of the R results, divided by √R, as in the released code. But there a token without a key
    attends to everything; here it gets 0, so that [CLS], with keys in 2 of 11, shrinks.
    Departs: the paper attends over what whole sub-networks found; here, as in the released code,
        each layer does so over its attentions. That code has it in every layer; `layers` says
        which, the first by default.
    Assumes: distance = 3 (in the released code an option, 1 by default); one more costs three more
        attentions. No sub-network has weights of its own.
    """

    PRIOR = tree_steps
    ABLATIONS = frozenset({"parent", "child", "sibling", "pairwise", "full", "topical"})
    TRACE = {
        "masked": Shown("Attention of a sub-network, mean over heads", "pair network piece piece",
                        "How much a piece (row) takes from each piece that is allowed.", 1.0),
        "topical": Shown("Attention over sub-networks", "pair piece network",
                         "How much a piece takes from each sub-network that has a key for it.")}

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, distance=3):
        super().__init__(config)
        check_options(type(self), printed, without)
        if type(distance) is not int or distance < 1:
            raise ValueError(f"SyntaxbertAttention: distance needs a whole number above 0, got "
                             f"{distance!r}")
        if self.ABLATIONS - {"topical"} <= set(without):
            raise ValueError("without parent, child, sibling, pairwise, full: one of them must "
                             "stay for SyntaxbertAttention to attend with")
        self.without, self.distance, d = frozenset(without), distance, config.hidden_size
        kinds = {name: [f"{name} {step + 1}" for step in range(distance)]
                 for name in ("parent", "child", "sibling")} | {
                     "pairwise": ["pairwise"], "full": ["full"]}
        self.axis_names = {"network": sum((kinds[x] for x in kinds if x not in without), [])}
        if "topical" not in without:
            self.w = linear(d, 1, bias=False)
            self.W_K, self.W_V = linear(d, d, bias=False), linear(d, d)
            nn.init.eye_(self.W_V.weight)

    def spread(self, prior, word_index, segment):
        """The masks (B, R, L, L) of tree_steps (B, w, w, 2)."""
        return syntax_masks(prior, word_index, segment, self.distance, self.without)

    def attend(self, hidden, q, k, v, mask, prior, trace):
        """Returns (B, L, d). prior: of `spread`."""
        masks, dropout = prior & mask[:, None, None], self.dropout if self.training else 0.0
        results = masked_attention(q, k, v, masks, dropout, trace)  # (B, L, R, d)
        if "topical" in self.without:
            return results.sum(2) / results.shape[2] ** 0.5  # (B, L, d)
        there = masks.any(-1).transpose(1, 2)  # (B, L, R)
        out, weights = topical_attention(results, there, self.w, self.W_K, self.W_V)
        record(trace, topical=weights)
        return out


# ---- Comateformer -------------------------------------------------------------------------------

def combined_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout=0.0,
                       without=frozenset(), centred=False, trace: dict | None = None) -> Tensor:
    """Attention that adds, subtracts or leaves out, without a softmax.

        E = Q Kᵀ / √d,   N = -‖Q - K‖₁ / √d,   (tanh(E) ⊙ 2σ(N)) V   or   (tanh(E) ⊙ σ(N - N̄)) V

    tanh(E), in (-1, 1), says whether a value is added or subtracted; 2σ(N), in (0, 1], how much of
    it counts: all of it where query and key are equal. Rows need not sum to 1. ‖Q - K‖₁ is that of
    DABERT, with the other sign: there what differs gets more of the weight.

    As σ(N) ends at ½, the paper doubles it, or centres N (`centred`), and finds doubling better.

    Assumes: N̄ is the mean over a pair's real tokens, in each head; a masked key's weight is 0;
        dropout on the weights; nothing but √d, that of a head, tames the sum over the tokens, which
        grows with their number. The paper's factors of E and N, α and β, are 1 there as well.

    Args: q, k, v: (B, H, L, k). mask: bool (B, L). without: "affinity", tanh(E) is 1;
        "difference", 2σ(N) is 1.
    Returns: (B, H, L, k). trace, if given, gets "added", "subtracted" and "near", (B, H, L, L).
    """
    size = q.shape[-1] ** 0.5
    N = -difference_scores(q, k) / size  # (B, H, L, L)
    if centred:
        real = (mask[:, :, None] & mask[:, None])[:, None]  # (B, 1, L, L)
        mean = (N * real).sum((2, 3), True) / real.sum((2, 3), True).clamp(min=1)  # (B, H, 1, 1)
        near = torch.sigmoid(N - mean)  # (B, H, L, L)
    else:
        near = 2 * torch.sigmoid(N)  # (B, H, L, L)
    affinity = torch.tanh((q @ k.transpose(2, 3)).to(near.dtype) / size)  # (B, H, L, L)
    if "affinity" in without:
        affinity = torch.ones_like(affinity)
    if "difference" in without:
        near = torch.ones_like(near)
    weights = (affinity * near).masked_fill(~mask[:, None, None], 0.0)  # (B, H, L, L)
    if trace is not None:
        near = near.masked_fill(~mask[:, None, None], 0.0)
        record(trace, added=weights.clamp(min=0), subtracted=(-weights).clamp(min=0), near=near)
    return F.dropout(weights, dropout).to(v.dtype) @ v


class ComateformerAttention(SelfAttention):
    """Combined attention in a share of the heads, plain in the others. It adds no weights.

    centred: see combined_attention. without, ours: "affinity" or "difference", one of its factors.
    Departs: the paper has it in 50, 40 and 30 % of the heads of its first three layers. All layers
        that carry it have one `share` here, and by default the first alone does.
    Assumes: the first heads are those; share · H is rounded, and at least one.
    """

    ABLATIONS = frozenset({"affinity", "difference"})
    TRACE = {
        "attention": Shown("Attention of the plain heads", "pair piece piece",
                           "How much a piece (row) takes from each piece (column); head 0 is the "
                           "first behind the combined ones.", 1.0),
        "added": Shown("Combined attention: what is added", "pair head piece piece",
                       "How much of each piece (column) a piece (row) adds.", 1.0),
        "subtracted": Shown("Combined attention: what is subtracted", "pair head piece piece",
                            "How much of each piece (column) a piece (row) subtracts.", 1.0),
        "near": Shown("Combined attention: how near", "pair head piece piece",
                      "How much of a piece counts: the less, the farther query and key are apart.",
                      1.0)}

    def __init__(self, config, printed=frozenset(), without=frozenset(), *, share=0.5,
                 centred=False):
        super().__init__(config)
        check_options(type(self), printed, without)
        if not 0 < share <= 1:
            raise ValueError(f"ComateformerAttention: share needs a number above 0, at most 1, got "
                             f"{share!r}")
        if self.ABLATIONS <= set(without):
            raise ValueError("without affinity, difference: one of them must stay for "
                             "ComateformerAttention to attend with")
        self.without, self.combined = frozenset(without), max(1, round(share * self.heads))
        self.centred = centred

    def attend(self, hidden, q, k, v, mask, prior, trace):
        """Returns (B, L, d). A trace's "attention" has the plain heads alone."""
        dropout, h = self.dropout if self.training else 0.0, self.combined
        mixed = combined_attention(q[:, :h], k[:, :h], v[:, :h], mask, dropout, self.without,
                                   self.centred, trace)
        if h == self.heads:
            return merge_heads(mixed)  # (B, L, d)
        plain = super().attend(hidden, q[:, h:], k[:, h:], v[:, h:], mask, None, trace)
        return torch.cat([merge_heads(mixed), plain], -1)  # (B, L, d)
