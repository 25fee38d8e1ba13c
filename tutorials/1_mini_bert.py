# %% [markdown]
# # 1. Mini-BERT: two sentences in one sequence
#
# **The question.** Two sentences are given, and one number is wanted: do they mean the same? How can *one* network
# read both at once, so that each word can look at each word of the other sentence?
#
# > "Sentence pairs are packed together into a single sequence." (Devlin et al. 2019, BERT, § 3)
#
# BERT is what all methods of these papers are compared with, and what four of them are built into. In this lesson
# **you write it**, function by function. The way of each: a formula and its words; a pair that you can compute by
# hand; a function to write in the place of `...`; `check`, which says what is wrong, as often as you like, and
# shows the library's lines when yours are right. Where `guess = ...` stands, put your guess first: the cell goes on
# only then. What is right goes into your own file, `my_semmatch.py`, which later lessons use.
#
# - A **token** is what the network sees: a word, or a **piece** of a word that is not in its vocabulary.
# - A **segment** is 0 for tokens of the first sentence and 1 for tokens of the second.
# - A **mask** is True for real tokens and False for padding, which fills up the shorter pairs of a batch.
# - **Hidden states** are the vectors, one for each token, that go from layer to layer.
#
# | sign | meaning |
# |---|---|
# | B, L, d | sentence pairs of a batch; tokens of a pair; numbers in a hidden state |
# | H, k | heads; numbers in a query or key of one head, d = H k |
# | Q, K, V | queries, keys and values, one row for each token; ᵀ turns rows into columns |
# | softmax | makes weights of scores x: eˣ, divided by the sum of all; above 0, of sum 1 |
# | gelu(x) | x times the share of normally distributed numbers below x |
# | norm | takes the mean of a token's numbers away, divides by their standard deviation |

# %%
from lesson import begin, check, fixed, reveal, table, train_on

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from bert_min import Bert, BertConfig, PairTokenizer

begin(1)

# %% [markdown]
# ## Packing
#
#     [CLS] a [SEP] b [SEP]
#
# `[CLS]` stands in front and will collect the answer, `[SEP]` ends a sentence. Each token knows its word, which later
# lessons need: what is known of *words* must reach *pieces*. The library does this; look at the result.

# %%
a, b = "Apple rose", "It fell"
tokenizer = PairTokenizer.train([a, b], vocab_size=40)
ids, segment, word = tokenizer.encode(a, [(0, 5), (6, 10)], b, [(0, 2), (3, 7)], max_length=16)
for name, row in (("token", tokenizer.pieces(ids)), ("segment", segment), ("word", word)):
    print(f"{name:8}", *(f"{x!s:>6}" for x in row))

assert word[0] == -1 and sorted(set(word)) == [-1, 0, 1]                    # -1: no word

# %% [markdown]
# ## Heads
#
# BERT cuts each token's d numbers into H parts of k = d / H neighbours and does all of attention in each part: a
# **head**. Nothing is computed, numbers only move. By hand, two tokens of six numbers, three heads:
#
#     token 0 = (0, 1, 2, 3, 4, 5)      head 0 sees (0, 1) and (6, 7)
#     token 1 = (6, 7, 8, 9, 10, 11)    head 1 sees (2, 3) and (8, 9)      head 2 sees (4, 5) and (10, 11)
#
# **Yours to write.**

# %%
def split_heads(x, heads):
    """x: (B, L, d), heads: H. Returns: (B, H, L, k), d = H k."""
    ...


tokens = torch.arange(12.0).view(1, 2, 6)
heads = torch.tensor([[[[0.0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]])
split_heads = check(split_heads, tokens, 3)
assert split_heads(tokens, 3).tolist() == heads.tolist()

# %% [markdown]
# And back: a token's heads stand side by side again.

# %%
def merge_heads(x):
    """x: (B, H, L, k). Returns: (B, L, d), what split_heads was given."""
    ...


merge_heads = check(merge_heads, heads)
assert merge_heads(heads).tolist() == tokens.tolist()

# %% [markdown]
# ## Weights under a mask
#
# $$\mathrm{weight}_{ij} = \frac{e^{s_{ij}}}{\sum_p e^{s_{ip}}} \text{ over the real keys p; padding gets 0}$$
#
# Row i holds the scores of query i, one for each key j. By hand: the scores 2 and 1 of two real keys differ by 1, so
# the weights are 1 / (1 + e⁻¹) = 0.731 and 0.269; a third key is padding, whatever its score, and gets 0. A row
# without any real key gets zeros.
#
# Google's code for BERT adds -10,000 to the scores of padding, and then takes the softmax. Let a pair of a batch be
# padding throughout, so that no key is real.
#
# **Guess**: how much of the weight does padding get there by Google's line, "nothing", "half of it" or "all of it"?

# %%
guess = ...
reveal("no key", guess)
scores = torch.tensor([[3.0, 1.0]])
assert_close((scores - 10_000).softmax(-1), scores.softmax(-1), atol=1e-3, rtol=0)      # as if nothing were masked

# %% [markdown]
# **Yours to write.** The first line is given: it makes the mask's shape fit, whatever stands between its two axes.
# Scores can be large: use the lowest finite number of their dtype, `torch.finfo(scores.dtype).min`, not a constant.

# %%
def attention_weights(scores, mask):
    """Softmax over the last axis, over keys that are real.

    scores: (B, ..., L). mask: bool (B, L), True = real. Returns: as scores, 0 at padding; a row
    without a real key is all 0.
    """
    mask = mask.reshape(len(mask), *[1] * (scores.dim() - 2), -1)  # (B, 1, ..., L)
    ...


by_hand = torch.tensor([[2.0, 1.0, 9.0]]), torch.tensor([[True, True, False]])
attention_weights = check(attention_weights, *by_hand)
assert_close(attention_weights(*by_hand), torch.tensor([[0.7311, 0.2689, 0.0]]), atol=1e-4, rtol=0)

# %% [markdown]
# ## Attention: Vaswani et al. (2017), Eq. (1)
#
# $$\mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{k}}\right) V \tag{1}$$
#
# Each token has a **query** (what it looks for), a **key** (how it is found) and a **value** (what it gives), k numbers
# each. A score is the product of a query and a key; the result is the mean of the values by the weights. By hand, k = 4:
#
#     query of "Apple" = (1, 1, 1, 1)
#     key of "Apple"   = (1, 1, 1, 1)     score 4 / √4 = 2        value (4, 0, 0, 0)
#     key of "rose"    = (1, 1, 0, 0)     score 2 / √4 = 1        value (0, 4, 0, 0)
#
# Weights 0.731 and 0.269, result (2.924, 1.076, 0, 0). Let the query of "rose" be 0: its weights are one half each.
#
# Why √k? Take 200 queries and ten keys of k = 1,024 random numbers of size 1. **Guess**: without the division, is a
# query's largest weight about 0.1, 0.5 or 1?

# %%
guess = ...
reveal("root", guess)

# %%
def attention(q, k, v, mask):
    """q, k, v: (B, H, L, k). mask: bool (B, L). Returns: (B, H, L, k). Use attention_weights."""
    ...


q = torch.tensor([[1.0, 1, 1, 1], [0, 0, 0, 0]])[None, None]                # one pair, one head, two tokens
k = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]])[None, None]
v = torch.tensor([[4.0, 0, 0, 0], [0, 4, 0, 0]])[None, None]
both = torch.tensor([[True, True]])
attention = check(attention, q, k, v, both)
assert_close(attention(q, k, v, both)[0, 0], torch.tensor([[2.9242, 1.0758, 0, 0], [2, 2, 0, 0]]), atol=1e-4, rtol=0)

# %% [markdown]
# And without the root? The mean of each query's largest weight, for more and more numbers in a key:

# %%
generator, sizes = torch.Generator().manual_seed(0), [4, 16, 64, 256, 1024]
largest = {"without √k": [], "with √k": []}
for size in sizes:
    queries, keys = torch.randn(200, size, generator=generator), torch.randn(10, size, generator=generator)
    for name, scores in (("without √k", queries @ keys.T), ("with √k", queries @ keys.T / size ** 0.5)):
        largest[name].append(scores.softmax(-1).amax(-1).mean())
assert largest["without √k"][-1] > 0.9 and max(largest["with √k"]) < 0.5
table(largest, sizes, largest.values(), "k, numbers in a key; without √k, a softmax of ten keys picks one")

# %% [markdown]
# ## A layer
#
# $$h \leftarrow \mathrm{norm}(h + W\,\mathrm{attention}(h)), \qquad
#   h \leftarrow \mathrm{norm}(h + W_2\,\mathrm{gelu}(W_1 h))$$
#
# Each W has its bias. What attention and the two linear maps find is *added* to the hidden state; the norm stands
# around the sum. By hand: (1, 3, 1, 3) has mean 2 and deviation 1, and its norm is (-1, 1, -1, 1). With weights of 0
# nothing is added, and a layer does nothing but this norm, twice.

# %%
def layer(hidden, mixed, attention_output, attention_norm, intermediate, output, output_norm):
    """One layer, behind attention. The formula's second W is `intermediate`, the third `output`.

    hidden: (B, L, d), what entered the layer. mixed: (B, L, d), what attention made of it. The
    others are modules, to be called. Returns: (B, L, d). Use F.gelu.
    """
    ...


nothing, norm = fixed([[0.0] * 4] * 4), torch.nn.LayerNorm(4)
h = torch.tensor([[[1.0, 3, 1, 3], [0, 0, 2, 2]]])
by_hand = h, h, nothing, norm, nothing, nothing, norm
layer = check(layer, *by_hand)
assert_close(layer(*by_hand), torch.tensor([[[-1.0, 1, -1, 1], [-1, -1, 1, 1]]]), atol=1e-4, rtol=0)

# %% [markdown]
# ## What enters the first layer
#
# $$h_t = \mathrm{norm}(E^{word}_{x_t} + E^{position}_t + E^{segment}_{s_t})$$
#
# A token is the sum of three rows of tables: of its piece, of its place 0, 1, 2, ..., of its segment. By hand, piece 1 at
# place 0 in segment 0: (1, 0, 1, 0) + (0, 2, 0, 2) + (0, 1, 0, 1) = (1, 3, 1, 3), whose norm is (-1, 1, -1, 1).
#
# **Guess**: "book a flight from New York to Seattle" and "book a flight from Seattle to New York" (DAFA's Table 7 has
# them) go through BERT whose table of positions is 0. Are their two `[CLS]` "far apart", "a little apart" or "the same"?

# %%
guess = ...
reveal("positions", guess)

# %%
def embed(input_ids, segment, word, position, segments, norm):
    """input_ids, segment: int64 (B, L). word, position, segments: tables, nn.Embedding, which are called with
    row numbers. norm: nn.LayerNorm. Returns: (B, L, d)."""
    ...


pieces, places, sides = (torch.nn.Embedding.from_pretrained(torch.tensor(rows)) for rows in (
    [[0.0, 0, 1, 0], [1, 0, 1, 0]], [[0.0, 2, 0, 2], [0, 0, 0, 1]], [[0.0, 1, 0, 1], [0, 0, 1, 1]]))
by_hand = torch.tensor([[1, 0]]), torch.tensor([[0, 1]]), pieces, places, sides, norm
embed = check(embed, *by_hand)
assert_close(embed(*by_hand), torch.tensor([[[-1.0, 1, -1, 1], [-1, -1, 1, 1]]]), atol=1e-4, rtol=0)

# %% [markdown]
# ## All of it
#
# Your functions are a BERT. The cell puts them together with the weights of the library's encoder: both must say
# the same. Then it takes the positions away, little by little.

# %%
def encode(bert, ids, segment, mask):
    """Your mini-BERT with the weights of a bert_min.Bert. -> hidden states (B, L, d)"""
    tables = bert.embeddings
    h = embed(ids, segment, tables.word, tables.position, tables.segment, tables.norm)
    for block in bert.layers:
        x = block.attention
        heads = [split_heads(part(h), x.heads) for part in (x.query, x.key, x.value)]
        h = layer(h, merge_heads(attention(*heads, mask)), block.attention_output, block.attention_norm,
                  block.intermediate, block.output, block.output_norm)
    return h


there, back = "book a flight from New York to Seattle", "book a flight from Seattle to New York"
tokenizer = PairTokenizer.train([there], vocab_size=200)
torch.manual_seed(0)
bert = Bert(BertConfig(tokenizer.vocab_size, hidden_size=32, num_layers=2, num_heads=4, intermediate_size=64,
                       max_length=32)).eval()
for parameter in bert.parameters():
    if parameter.dim() == 2:
        torch.nn.init.xavier_uniform_(parameter)                         # BERT's 0.02 is for 768 numbers, not for 32


@torch.no_grad()
def states(text):
    ids, segment, _ = (torch.tensor([row]) for row in tokenizer.encode(text, None, "", None, 32))
    mask = torch.ones_like(ids, dtype=torch.bool)
    yours, ours = encode(bert, ids, segment, mask), bert(ids, segment, mask)[0][-1]
    assert_close(yours, ours, atol=1e-4, rtol=0)
    return yours[0, 0]


sizes, distances, positions = [0, 0.25, 0.5, 1], [], bert.embeddings.position.weight.data.clone()
for size in sizes:
    bert.embeddings.position.weight.data = size * positions
    distances.append((states(there) - states(back)).norm())
assert distances[0] < 1e-4 < 1e-3 < distances[-1]
table(["distance of the two [CLS]"], [f"positions × {size}" for size in sizes], [distances])

# %% [markdown]
# With positions the two *differ*. That the difference matters for the answer must be learned, and is hard to learn:
# it is what DAFA's trees are for (lesson 3).
#
# ## A trained model
#
# `MyBert`, in your `my_semmatch.py`, is an encoder of two layers of 64 numbers whose attention is yours in the first
# one. It learns from random weights, on a small part of the toy world, synonyms for people. "The doctor praised Anna
# in April." and "In April, the physician praised Anna." mean the same; with "the lawyer" they do not. Four such
# sentences make four pairs, two of each label, so that no word gives a label away: 50 % is chance. There are 800 pairs.

# %%
frames = {"people": (("same human", "the {x[0]} {treat.past} {name} {time}",
                      "{time}, the {x[1]} {treat.past} {name}"),)}
run, found = train_on(frames, "MyBert", epochs=12, batch_size=32, lr=2e-3)
assert found["score"] > 0.7

# %%
first, said = "The doctor praised Anna in April.", {}
for name, second in (("synonym", "In April, the physician praised Anna."),
                     ("other person", "In April, the lawyer praised Anna."),
                     ("roles exchanged", "In April, Anna praised the physician."),
                     ("the same word", "In April, the doctor praised Anna.")):
    said[name] = run.predict([(first, second)])[0].probabilities["same"]
    print(f"p(same) {said[name]:.2f}   {name:16} {second}")
assert said["synonym"] > said["other person"]

# %% [markdown]
# The first two lines are what it was taught. The other two it was not: nothing can be relied on there. Every pair of
# its training that means the same holds two *different* words for one person. Nothing taught it that a doctor is a
# doctor, or to ask who praised whom. Keep that in mind with every number that comes from the toy world.
