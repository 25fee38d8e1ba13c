# %% [markdown]
# # 3. DAFA: trees that calibrate attention
#
# **The question.** "Apple exceeded the company" and "the company exceeded Apple" have the same words. They differ in
# who is the subject of "exceeded" and who is its object. A parser knows that. How can its tree tell attention which
# words of two sentences play the same part?
#
# > "strengthening the attention weight of same dependency and reducing the attention weight of different
# > dependency" (Song et al., DAFA, § 1)
#
# A **dependency tree** gives each word a **head**, the word on which it depends, and a **relation** to this head. In
# "Apple exceeded company" the head of "Apple" is "exceeded", and the relation is nsubj, subject; "company" is the obj,
# object. The head of "exceeded" is ROOT, which is no word. A **child** of a word has this word as its head. Eqs. (1) to
# (5) make a matrix of two trees: a row for each word of one, a column for each word of the other. In Eq. (6) this
# matrix **calibrates** attention: it makes some weights larger and others smaller. Eqs. (7) to (9) are the fusion.
#
# | sign | meaning |
# |---|---|
# | h_i, r_i, t_i | the head of word i; the relation of word i to it; word i itself (the "tail") |
# | M, S, M_F | matrices, n words of a by m words of b; M̃ is one over all L tokens, L by L |
# | ⊙, ⊕ | the product number by number; concatenation, first one vector and then the other |
# | Q, K, V, d_k | queries, keys, values (lesson 1), and the size of a query |

# %%
import numpy as np
from lesson import *     # torch, math, F, assert_close, check, ...
from bert_min import attention_weights
from support.parses import Parse, split_words
begin(3)

# %% [markdown]
# ## A pair by hand
#
# Two sentences after the paper's Figure 1, without the article. In b "now" hangs on "exceeded", too, as advmod:
#
#     a = Apple exceeded company          Apple <-nsubj- exceeded -obj-> company
#     b = now company exceeded Apple      company <-nsubj- exceeded -obj-> Apple
#
# A parse of n words has four numpy arrays, in which place 0 is ROOT and place i + 1 is word i:
#
# - `symbols` (n + 1,), the words in small letters; `types` (n + 1,), their relations;
# - `depths` (n + 1,), the steps from a word up to ROOT, 0 for ROOT itself;
# - `heads` (n,), without ROOT: `heads[i]` is the *place* of the head of word i, so `symbols[heads[i]]` is the head.

# %%
def typed_tree(text, heads, relations):
    """A parse. heads: the place of each word's head, 0 for ROOT."""
    return Parse(text, split_words(text), ("X",) * len(heads), np.array(heads), tuple(relations))

a = typed_tree("Apple exceeded company", [2, 0, 2], ["nsubj", "root", "obj"])
b = typed_tree("now company exceeded Apple", [3, 3, 0, 3], ["advmod", "nsubj", "root", "obj"])
print(b.symbols, b.types, b.heads, b.depths, sep="\n")

# %% [markdown]
# ## Trees: Eqs. (1), (2), (3)
#
# $$M(i, j) = [s(h_i, h_j) + s(t_i, t_j)] \cdot r(r_i, r_j) \tag{1}$$
# $$s = 1 \text{ for equal words, else } 0 \tag{2}$$
# $$r = \theta = 2 \text{ for equal relations, else } 1 \tag{3}$$
#
# ROOT equals ROOT. By hand:
#
#     Apple, company (both subjects):    heads equal 1, words 0, relation × 2    →  2
#     Apple, Apple (subject, object):    heads equal 1, words 1, relation × 1    →  2
#     exceeded, exceeded:                ROOT = ROOT 1, words 1, relation × 2    →  4
#     Apple, now:                        heads equal 1, words 0, relation × 1    →  1
#     Apple, exceeded:                   nothing                                 →  0

# %%
def tree_similarity(a, b):
    """a, b: parses of n and m words. Returns: M (n, m), a numpy array."""
    ...

tree_similarity = check(tree_similarity, a, b, gives=[[1, 2, 0, 2], [0, 0, 4, 0], [1, 2, 0, 2]])

# %% [markdown]
# Look at the two kinds of 2. Two different words that are both subjects have 2. One word that is the subject in a and
# the object in b has 2 as well. With θ = 2, the paper's value, Eq. (1) cannot tell the two cases apart; with θ = 3 the
# role wins. And half of the 4 is there for any two roots, in sentences that have nothing in common.
#
# ## Subtrees: Eq. (4)
#
# $$S(i, j) = \{\alpha\, s(i, j) + \nu\, S(x, y) \mid \text{for all children } x \text{ of } i \text{ and } y
#   \text{ of } j, \text{ if } t_i = t_j \text{ and } r_i = r_j\} \tag{4}$$
#
# is on the page, and the braces mean a sum. It has α for each pair of children, whether they match or not. But the text
# says "a fixed score to the child nodes of matching trigram pair". So we take, with α = 1 and ν = ½ (both are ours),
#
# $$S(i, j) = \alpha + \nu \sum_{x, y} S(x, y) \text{ if } t_i = t_j \text{ and } r_i = r_j, \text{ else } 0$$
#
# By hand: in a and b "exceeded" matches, and its children do not (Apple is nsubj in a, and obj in b): S is 1 there and
# 0 elsewhere. And a deeper pair, in which "young" is amod of Apple: c = young Apple exceeded company, d = now young
# Apple exceeded. A leaf, a word without children, has 1: young 1, Apple 1 + ½ · 1 = 1.5, exceeded 1 + ½ · 1.5 = 1.75.
#
# **Yours to write.** S of the children must be complete before their heads use it, so begin with the deepest words of
# a. A pair that does not match has S = 0, whatever its children have. Only words are returned, not ROOT.

# %%
def subgraph_similarity(a, b):
    """a, b: parses of n and m words. Returns: S (n, m), a numpy array."""
    ...

c = typed_tree("young Apple exceeded company", [2, 3, 0, 3], ["amod", "nsubj", "root", "obj"])
d = typed_tree("now young Apple exceeded", [4, 3, 4, 0], ["advmod", "amod", "nsubj", "root"])
subgraph_similarity = check(subgraph_similarity, c, d, gives=[
    [0, 1, 0, 0], [0, 0, 1.5, 0], [0, 0, 0, 1.75], [0, 0, 0, 0]])
assert subgraph_similarity(a, b).tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]

# %% [markdown]
# ## From words to tokens: Eq. (5)
#
# $$M_F(i, j) = |M(i, j) + S(i, j)| \cdot tf_i \cdot tf_j \tag{5}$$
#
# tf is **tf-idf**: how often a word is in this sentence, times a number that is larger for words that are rare
# elsewhere. In our two sentences all words are equally rare: M_F = M + S, with 5 for "exceeded".
#
# M_F has n × m cells. Attention has L × L, one for each two tokens of the packed pair. § 2.2 says only: "We change the
# dimension of M_F by adding 1, and ensure each element is in the corresponding position". We understand: M̃ = 1 + M_F
# where a token of one sentence looks at a token of the other. Elsewhere M̃ = 1, which changes nothing. The logarithm ln
# M̃ will be *added to scores*, so elsewhere it is 0.
#
#                 [CLS] a  a  [SEP] b  b  [SEP]
#         [CLS]     ·   ·  ·    ·   ·  ·    ·        · elsewhere
#         a         ·   ·  ·    ·   P  P    ·        P prior[i, j], i the word of the row, j of the column
#         [SEP]     ·   ·  ·    ·   ·  ·    ·
#         b         ·   Pᵀ Pᵀ   ·   ·  ·    ·
#
# By hand, without the logarithm: M̃ = 1 + 2 = 3 for Apple of a and company of b, and 1 for two words of a.
#
# Python loops over pairs or tokens would be slow. Index with whole tensors: `prior[batch, i, j]` has all cells at once
# if batch is (B, 1, 1), i is (B, L, 1) and j is (B, 1, L). Every index must be in range, also where the result is not
# used: `clamp` moves it there. Then `torch.where` takes the cells that are wanted.

# %%
def spread_prior(prior, word_index, segment, elsewhere):
    """prior: (B, n, m) over words. word_index: int64 (B, L), each token's word in its own sentence, -1 for [CLS],
    [SEP] and padding. segment: (B, L), 0 in a, 1 in b. elsewhere: the number of all other cells. Returns: (B, L, L)."""
    ...

M_F = torch.tensor(1.0 * tree_similarity(a, b) + subgraph_similarity(a, b))[None]
word_index = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, 2, 3, -1]])      # [CLS] a a a [SEP] b b b b [SEP]
segment = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1, 1]])
spread_prior = check(spread_prior, 1 + M_F, word_index, segment, 1.0)
M_tilde = spread_prior(1 + M_F, word_index, segment, 1.0)[0]
assert M_tilde[1, 6] == M_tilde[6, 1] == 3 and M_tilde[2, 7] == 6 and M_tilde[1, 2] == 1

# %% [markdown]
# ## Calibration: Eq. (6)
#
# $$Sem = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V, \qquad
#   Dep = \mathrm{softmax}\left(\frac{Q K^\top \odot M_F}{\sqrt{d_k}}\right) V \tag{6}$$
#
# **A demand.** § 1 wants "strengthening the attention weight of same dependency and reducing the attention weight of
# different dependency". Write in code what this asks of any function f(scores, M): scores (L, L) before the softmax, M
# (L, L) the matrix, 1 where nothing agrees and more where dependencies agree; f returns weights (L, L). Your demand is
# tried with six forms, the paper's, ours, and nonsense, and must say of each what is so. Choose scores and matrices
# for which you can say what f must do. Scores have both signs.

# %%
def demand_trees(f):
    """f(scores, M): weights (L, L). Returns: True if f does what the sentence asks beside plain attention, else False."""
    ...

demand_trees = check(demand_trees)

# %% [markdown]
# **The page** multiplies scores. One word has the score -1 and the entry 3, the other one 0 and 1: -1 times 3 is -3,
# and the weight falls where dependencies agree, from 0.269 to 0.047.
#
# **The repair.** We multiply *weights*, not scores:
#
# $$\mathrm{weight}_{ij} \propto \tilde M_{ij} \exp\left(\frac{q_i \cdot k_j}{\sqrt{d_k}}\right)$$
#
# which is a softmax of q·k / √d_k + ln M̃. Use `attention_weights(scores, mask)` of lesson 1, for scores (B, H, L, L).
# By hand, d_k = 4: a query has the products -2 and 0 with two keys, so the scores -1 and 0. With M̃ = 4 and 1 the first
# weight is σ(-1 + ln 4) = 0.595. (σ(x) is 1 / (1 + e⁻ˣ).) A second query is the same and has M̃ = 2 and 1: σ(-1 + ln 2)
# = 0.424. A third key is padding. A second head has the products 2 and 0: 0.916 and 0.845.

# %%
def calibrated_attention(q, k, v, mask, ln_M):
    """q, k, v: (B, H, L, k). mask: bool (B, L). ln_M: ln M̃ (B, L, L). Returns: (B, H, L, k)."""
    ...

q, two = torch.ones(1, 2, 3, 4), torch.tensor([[True, True, False]])
keys = torch.tensor([[-2.0, 0, 0, 0], [0, 0, 0, 0], [9, 9, 9, 9]])
keys, values = torch.stack([keys, -keys])[None], torch.eye(3, 4).expand(1, 2, 3, 4)       # results are weights
ln_M = torch.tensor([[[4.0, 1, 1], [2, 1, 1], [1, 1, 1]]]).log()
calibrated_attention = check(calibrated_attention, q, keys, values, two, ln_M, gives=[
    [[0.5954, 0.4046, 0, 0], [0.4239, 0.5761, 0, 0], [0.2689, 0.7311, 0, 0]],
    [[0.9158, 0.0842, 0, 0], [0.8446, 0.1554, 0, 0], [0.7311, 0.2689, 0, 0]]])

# %% [markdown]
# The fusion, Eqs. (7) to (9), is that of lesson 2 in other letters, with its defects: as printed, *all tokens get the
# same vector* in (7), and l_i takes the place of s_i in (9). The library computes it with s_i + l_i.
#
# **What training shows.** DAFA trained on the 800 pairs of toy that ask who did it to whom (lesson 7 has an example;
# commit f72d590, seeds 0 to 4). It answered 82 to 95 of 100 other pairs rightly, and with all entries of its matrix 0
# it answered 50, which is chance. So *these models* rely on the matrix. Do they rely on trees? Eq. (1) also asks
# whether the words themselves are equal: lesson 7 asks with other trainings. And a defect that you can prove in Eq. (6)
# need not show in an accuracy: training can turn the sign of a score.
