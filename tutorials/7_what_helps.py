# %% [markdown]
# # 7. What helps? A gain, its parts, and a control
#
# **The question.** DAFA's layer learns the world of lesson 3, and plain BERT hardly does. DAFA has trees, tf-idf, a
# second attention, two gates. *Which part carries the gain?* And could something else do the same?
#
# In this lesson nothing is new in the equations. You take a method apart, as papers do in their ablations, and you add
# what such a table often lacks: the simplest thing that could do the same, and the control that can show you wrong.
#
# - An **ablation** is the method without one of its parts.
# - A **control** differs from the method in the one thing that a claim names, and in nothing else.
# - **Masked words**: some words of a text are hidden, and a network learns to say them. BERT learned so, from two texts
#   beside each other in one sequence. Nobody has to label anything.
#
# | sign | meaning |
# |---|---|
# | B, L, d | sentence pairs of a batch; tokens of a pair; numbers in a hidden state |
# | n, m | the words of a; the words of b |
# | K, M̃ | a mean of weights; the factor of each weight, 1 if it changes nothing |
# | V, M | the pieces of the vocabulary; the pieces that are hidden in a batch |

# %%
from lesson import *     # torch, math, F, assert_close, check, ...

import numpy as np

from priors import Prior, tree_similarity, words_prior
from semmatch import AlignedAttention, DafaAttention, spread_prior

begin(7)
frames = {"roles": (("event", "{x} {event.past} {y} {when}", "{when}, {x} {event.past} {y}"),)}

# %% [markdown]
# ## First a guess
#
# The world is lesson 3's. "The tired nurse praised Anna in the park." and "In the park, the tired nurse praised Anna."
# mean the same; "In the park, Anna praised the tired nurse." does not. DAFA's matrix M compares heads, relations, and
# the words themselves. **Guess**: which part carries DAFA's gain in this world, "trees", "equal words" or "the gates"?

# %%
guess = ...
guessed("which part", guess)

# %% [markdown]
# ## Equal words
#
# The simplest matrix over the words of a pair: 1 where a word of a is a word of b, else 0. Capital letters do not count.
# By hand, a = (The, nurse, praised, the, poet) and b = (the, poet, slept):
#
#                the  poet  slept
#     The         1    0     0
#     nurse       0    0     0
#     praised     0    0     0
#     the         1    0     0
#     poet        0    1     0

# %%
def equal_words(a, b):
    """a, b: lists of n and m words. Returns: (n, m), 1 where word i of a is word j of b, else 0; a numpy array or a
    tensor of floats."""
    ...


a, b = ["The", "nurse", "praised", "the", "poet"], ["the", "poet", "slept"]
equal_words = check(equal_words, a, b, gives=[[1, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]])

# %% [markdown]
# ## A factor for each weight
#
# Nobody's paper has this; it is what is left of the knowledge paper's Eqs. (3) to (5) without a lexicon (lesson 4):
#
# $$s_{ij} = 8 \text{ if the words of tokens } i, j \text{ are equal, else } 0, \qquad
#   K = \tfrac{1}{2} (\mathrm{softmax}_j(s) + \mathrm{softmax}_i(s)), \qquad \tilde M = K / \text{the mean of } K$$
#
# Scores exist between the words of different sentences alone; there M̃ has the mean 1. Elsewhere it is 1. In half of the
# heads of a layer each weight of attention is multiplied by M̃, and made to sum to 1 again: ln M̃ is added to the scores.
# There is no weight to be learned. The library has it as `--model aligned`, in all layers.
#
# By hand, with ln 3 in the place of 8: a is "Anna slept", b is "Anna". [CLS] Anna slept [SEP] Anna [SEP]:
#
#     scores of Anna, Anna: ln 3; of slept, Anna: 0
#     rows     Anna of a has one partner, so its weight is 1; slept has one, too: 1. Anna of b has two: ¾ and ¼
#     K        Anna, Anna (1 + ¾) / 2 = 0.875      slept, Anna (1 + ¼) / 2 = 0.625      mean 0.75
#     M̃        1.167 and 0.833, the logarithms 0.154 and -0.182
#
# The scores come from lesson 3's `spread_prior`, with -∞ elsewhere. **Yours to write**: the factor. As in lesson 4, a
# row without a partner would become nan, so fill in a low finite number before the softmax, and 0 after it. The scores
# are symmetric: one softmax and its transpose are enough. The mean is taken over the cells between the sentences of each
# pair; where there is none, nothing may be divided by 0.

# %%
def mean_attention_factor(scores):
    """scores: (B, L, L), symmetric, -inf except between words of different sentences. Returns: ln M̃ (B, L, L), 0 where
    scores are -inf."""
    ...


same, word_index = torch.tensor([[[1.0], [0]]]), torch.tensor([[-1, 0, 1, -1, 0, -1]])
segment = torch.tensor([[0, 0, 0, 0, 1, 1]])
scores = spread_prior(math.log(3) * same, word_index, segment, -math.inf)
mean_attention_factor = check(mean_attention_factor, scores)
ln_M = mean_attention_factor(scores)[0]
assert_close(ln_M[[1, 2, 4, 4, 1], [4, 4, 1, 2, 2]].exp(), torch.tensor([7 / 6, 5 / 6, 7 / 6, 5 / 6, 1]))

# %% [markdown]
# ## Which part?
#
# Four rows, three seeds each, at most thirty epochs, until 95 % of the training pairs are right. `MyAligned` has your
# factor in half of the heads of the first layer, and no tree, no gate, no new weight. `TreesAlone` is all of DAFA, with a
# matrix that compares heads and relations, and does not say which words are equal: what two equal words add in Eq. (1) of
# DAFA is subtracted again, and Eqs. (4) and (5) are left out. A training takes some ten seconds of one core.

# %%
class MyAligned(AlignedAttention):
    """In half of the heads a word looks at its copies, by your functions."""

    prior = words_prior(equal_words)
    factor = staticmethod(mean_attention_factor)


class HeadsAndRelations(Prior):
    """M of DAFA's Eq. (1) without what equal words give."""

    needs = ("parses",)

    def matrix(self, a, b):
        a, b = a.parse, b.parse
        same_words = a.symbols[1:, None] == b.symbols[1:]
        return tree_similarity(a, b) - same_words * np.where(a.types[1:, None] == b.types[1:], 2.0, 1.0)


class TreesAlone(DafaAttention):
    """DAFA with this matrix."""

    @classmethod
    def prior(cls, printed, without):
        return HeadsAndRelations()


rows = {"plain BERT": train_seeds(frames, "bert"),
        "DAFA": train_seeds(frames, "dafa", set="ATTENTION_SIZE=16"),
        "DAFA without equal words": train_seeds(frames, TreesAlone, set="ATTENTION_SIZE=16"),
        "MyAligned": train_seeds(frames, MyAligned, layers="first")}
reveal("which part", guess)
mean = {name: sum(scores) / 3 for name, scores in rows.items()}
assert min(mean["DAFA"], mean["MyAligned"]) > max(mean["plain BERT"], mean["DAFA without equal words"])

# %% [markdown]
# ## Masked words
#
# BERT, § 3.1, "Task #1": 15 % of the pieces of a text are *chosen*. Of these 80 % become [MASK], 10 % become any piece,
# 10 % stay as they are. The network says for each chosen place which piece stood there.
#
# **Yours to write.** Random numbers come from outside, so that all can be checked: a piece is chosen if the first of its
# two numbers is below 0.15, and if it is a piece of a word. Then the second number decides: below 0.8 [MASK], from 0.9
# on another piece, else it stays. By hand, [MASK] = 4, other pieces all 9:
#
#     pieces           2 ([CLS])   7      7      7      8
#     a word?          no          yes    yes    yes    yes
#     first number     0.01        0.14   0.10   0.02   0.15
#     second number    0.50        0.79   0.95   0.85   0.30
#     becomes          2           4      9      7      8          chosen: the three in the middle

# %%
def hide_pieces(pieces, words, mask_id, draws, others):
    """pieces: int64 (B, L). words: bool (B, L), True = a piece of a word. mask_id: the number of [MASK]. draws: (2, B, L),
    numbers between 0 and 1. others: int64 (B, L). Returns: the new pieces (B, L); chosen, bool (B, L)."""
    ...


pieces, words = torch.tensor([[2, 7, 7, 7, 8]]), torch.tensor([[False, True, True, True, True]])
draws = torch.tensor([[[0.01, 0.14, 0.10, 0.02, 0.15]], [[0.50, 0.79, 0.95, 0.85, 0.30]]])
hide_pieces = check(hide_pieces, pieces, words, 4, draws, torch.full((1, 5), 9),
                    gives=([2, 4, 9, 7, 8], [0, 1, 1, 1, 0]))

# %% [markdown]
# $$\mathrm{loss} = -\frac{1}{M} \sum_i \ln p_i, \qquad p = \mathrm{softmax}(\text{the scores of all V pieces})$$
#
# where p_i is the probability of the piece that stood at hidden place i. By hand: two places, three pieces. The scores
# (0, 0, 0) give ⅓; the scores (ln 6, 0, ln 3) give 0.6, 0.1, 0.3. If the first and the third piece were hidden, the loss
# is (ln 3 - ln 0.3) / 2 = 1.151.

# %%
def masked_loss(scores, pieces):
    """scores: (M, V), of all pieces at each hidden place. pieces: int64 (M,), what stood there. Returns: a number."""
    ...


scores = torch.tensor([[0.0, 0, 0], [math.log(6), 0, math.log(3)]])
masked_loss = check(masked_loss, scores, torch.tensor([0, 2]), gives=1.1513)

# %% [markdown]
# ## Reading pairs
#
# An encoder that starts from random weights has never seen two texts beside each other. `read_pairs` lets a mini-BERT
# read each training text *beside a copy of itself*, by your two functions; the rest is `pretrain.py`'s. No label is used. A
# hidden word often stands in the copy: to find it there is to look at the other sentence. Then plain BERT is trained from
# these weights.
#
# **The control** has the same texts, the same steps and the same loss, but each text stands beside *another* text. If
# copies carry the gain of reading, this control has none.
#
# **Guess**: which share of the gain does the control have in this world, "none", "half" or "all"?

# %%
guess = ...
guessed("random texts", guess)

# %%
for pairs in ("copies", "random pairs"):
    start = read_pairs(frames, pairs, hide_pieces, masked_loss)
    rows[f"plain BERT, has read {pairs}"] = train_seeds(frames, "bert", start)
reveal("random texts", guess)
for name, scores in rows.items():
    print(f"{name:34}", *(f"{100 * score:6.1f}" for score in scores), f"   mean {100 * sum(scores) / 3:.1f}")

# %% [markdown]
# **What your table shows.** In this world equal words carry most of DAFA's gain. A matrix of nothing else, without a tree, a
# gate or a new weight, is as good as all of DAFA. A matrix without equal words is worse in most seeds (of 0 to 6, two
# come near DAFA: 1 and 3). And plain BERT has a good part of the gain, too, if it has read the texts before. A method
# "helps" only beside what it is compared with: here beside an encoder that knew no word.
#
# **What the control shows.** Reading was meant to teach BERT to look at copies. After random pairs it does as well. So the
# gain of reading is real here, and the reason that we had for it is not shown.
#
# **What it does not show** is what happens elsewhere. PAWS has real sentences, whose pairs share their words. The next
# table has the accuracy on its test pairs, mean and deviation, with an encoder of six layers (all-MiniLM-L6-v2) that was
# trained on a billion pairs of sentences, one at a time:
#
# | PAWS, test | as published, ten seeds | after reading copies, six seeds |
# |---|---|---|
# | plain BERT | 72.4 (5.4) | 81.7 (1.0) |
# | Aligned | 82.8 (0.4) | 84.6 (0.6) |
# | DAFA's trees in the form of Aligned | 75.9 (1.5) | |
# | the same with another pair's trees | 64.9 (1.2) | |
#
# Equal words help there as well, and trees in the same form less. Other pairs' trees do harm. Is Aligned a gain there, or a
# repair of an encoder that was tuned on single sentences? Both: after reading copies plain BERT comes near, and Aligned
# still gains. (Reading gains 3.7 points there, not 9: with twenty epochs, its best setting of three, plain BERT has 78.0
# without reading.) And there the control answers otherwise: after random pairs plain BERT has 55.8, the larger class (one
# seed). What is true of a small world need not be true elsewhere. `docs/results.md` has what was tried, and what was not.
