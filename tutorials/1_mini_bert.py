# %% [markdown]
# # 1. Mini-BERT: two sentences in one sequence
#
# **The question.** Do two sentences mean the same? How can *one* network read both of them at once, so that each word
# can look at each word of the other sentence?
#
# > "Sentence pairs are packed together into a single sequence." (Devlin et al. 2019, BERT, § 3)
#
# All methods of these papers are compared with BERT, and four of them are built into it. In this lesson **you write
# BERT**, function by function, and train it. Each function has a formula, a pair that you can compute by hand, and a
# blank `...` in which you write. Then `check` says what is wrong, in the smallest case that shows it, or shows the
# library's lines. Where `guess = ...` stands, guess first.
#
# - A **token** is what the network sees: a word, or a **piece** of a word that is not in its vocabulary.
# - A **segment** is 0 for tokens of the first sentence and 1 for tokens of the second.
# - A **mask** is True for real tokens and False for padding, which fills up the shorter pairs of a batch.
# - A **hidden state** is the vector of one token. It goes from layer to layer.
#
# | sign | meaning |
# |---|---|
# | B, L, d | sentence pairs of a batch; tokens of a pair; numbers in a hidden state |
# | H, k | heads; numbers in a query or key of one head, d = H k |
# | Q, K, V | queries, keys and values, one row for each token; ᵀ exchanges rows and columns |
# | softmax | makes weights of scores x: eˣ divided by the sum of all eˣ; each weight is above 0, their sum is 1 |
# | gelu(x) | x Φ(x), where Φ(x) is the probability that a standard normal number is below x |
# | norm | subtracts the mean of a token's numbers, and divides by their standard deviation (torch.nn.LayerNorm) |

# %%
from lesson import *     # torch, math, F, assert_close, check, ...
from bert_min import Bert, BertConfig, PairTokenizer, SelfAttention, merge_heads
begin(1)

# %% [markdown]
# ## Packing
#
#     [CLS] a [SEP] b [SEP]
#
# `[CLS]` comes first and will collect the answer; `[SEP]` ends a sentence. `word` says to which word of its sentence a
# piece belongs, -1 to none. Later lessons need this, because they know something about *words*.

# %%
a, b = "Apple rose", "It fell"
tokenizer = PairTokenizer.train([a, b], vocab_size=40)
ids, segment, word = tokenizer.encode(a, [(0, 5), (6, 10)], b, [(0, 2), (3, 7)], max_length=16)
for name, row in (("token", tokenizer.pieces(ids)), ("segment", segment), ("word", word)):
    print(f"{name:8}", *(f"{x!s:>6}" for x in row))

# %% [markdown]
# ## Heads
#
# BERT cuts each token's d numbers into H parts of k = d / H neighbours. Each part is a **head**, and attention works in
# each head by itself. Nothing is computed here, numbers only move. By hand, two tokens of six numbers, three heads:
#
#     token 0 = (0, 1, 2, 3, 4, 5)      head 0 sees (0, 1) and (6, 7)
#     token 1 = (6, 7, 8, 9, 10, 11)    head 1 sees (2, 3) and (8, 9)      head 2 sees (4, 5) and (10, 11)
#
# **Yours to write**, by `reshape` and `transpose`. `merge_heads`, the way back, is given.

# %%
def split_heads(x, heads):
    """x: (B, L, d), heads: H. Returns: (B, H, L, k), d = H k."""
    ...

tokens = torch.arange(12.0).view(1, 2, 6)
split_heads = check(split_heads, tokens, 3, gives=[[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]])

# %% [markdown]
# ## Weights under a mask
#
# $$\mathrm{weight}_{ij} = \frac{e^{s_{ij}}}{\sum_p e^{s_{ip}}} \text{ over the real keys p; padding gets 0}$$
#
# Row i holds the scores of query i, one for each key j. By hand: two real keys have the scores 2 and 1. They differ by
# 1, so the weights are 1 / (1 + e⁻¹) = 0.731 and 0.269. A third key is padding and gets 0, whatever its score. A second
# query has the scores 0 and 3, and the weights 0.047 and 0.953. A second pair has no real key: all its weights are 0.
#
# Google's code for BERT adds -10,000 to the scores of padding, and then takes the softmax. Suppose that a row has no
# real key. **Guess**: with Google's code, how much weight does padding get, "nothing", "half of it" or "all of it"?

# %%
guess = ...
guessed(guess, "nothing", "half of it", "all of it")
print((torch.tensor([0.0, 1, 3]) - 10_000).softmax(-1))

# %% [markdown]
# All of it: every score gets the same -10,000, and a softmax does not change if all scores change by one number.
#
# **Yours to write.** The first line is given: it gives the mask the shape that scores need. Scores can be large, so
# take no constant such as -10,000, but the lowest number of their dtype, `torch.finfo(scores.dtype).min`.

# %%
def attention_weights(scores, mask):
    """Softmax over the last axis, over the real keys. scores: (B, ..., L). mask: bool (B, L), True = real.
    Returns: the weights, shaped as scores: 0 at padding; all 0 in a row without a real key."""
    mask = mask.reshape(len(mask), *[1] * (scores.dim() - 2), -1)  # (B, 1, ..., L)
    ...

scores = torch.tensor([[[2.0, 1, 10009], [0, 3, 5]], [[1, 2, 3], [0, 0, 0]]])            # pair, query, key
mask = torch.tensor([[True, True, False], [False, False, False]])
attention_weights = check(attention_weights, scores, mask, gives=[
    [[0.7311, 0.2689, 0], [0.0474, 0.9526, 0]], [[0, 0, 0], [0, 0, 0]]])

# %% [markdown]
# ## Attention: Vaswani et al. (2017), Eq. (1)
#
# $$\mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{k}}\right) V \tag{1}$$
#
# Each token has a **query** (what it looks for), a **key** (how it is found) and a **value** (what it gives), each of k
# numbers. The score of a query and a key is their product, divided by √k. The result for a query is the mean of the
# values with these weights. By hand, k = 4:
#
#     query of "Apple" = (1, 1, 1, 1)
#     key of "Apple"   = (1, 1, 1, 1)     score 4 / √4 = 2        value (4, 0, 0, 0)
#     key of "rose"    = (1, 1, 0, 0)     score 2 / √4 = 1        value (0, 4, 0, 0)
#     key of padding   = (9, 9, 9, 9)     masked: no weight       value (0, 0, 0, 4)
#
# The weights are 0.731 and 0.269, and the result is (2.924, 1.076, 0, 0). If the query of "rose" is 0, its weights are
# one half each, and those of padding's query, too. A second head has the same queries, the keys with the other sign,
# and other values: the scores are -2 and -1, the weights 0.269 and 0.731.

# %%
def attention(q, k, v, mask):
    """q, k, v: (B, H, L, k). mask: bool (B, L). Returns: (B, H, L, k). `@` multiplies matrices over the last two axes;
    the weights come from your attention_weights."""
    ...

q = torch.tensor([[[1.0, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]] * 2)[None]            # one pair, two heads, three tokens
k = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0], [9, 9, 9, 9]])
v = torch.tensor([[4.0, 0, 0, 0], [0, 4, 0, 0], [0, 0, 0, 4]])
k, v, mask = torch.stack([k, -k])[None], torch.stack([v, 2 * v.flip(1)])[None], mask[:1]
attention = check(attention, q, k, v, mask, gives=[
    [[2.9242, 1.0758, 0, 0], [2, 2, 0, 0], [2, 2, 0, 0]], [[0, 0, 5.8485, 2.1515], [0, 0, 4, 4], [0, 0, 4, 4]]])

# %% [markdown]
# ## A layer
#
# $$h \leftarrow \mathrm{norm}(h + W\,\mathrm{attention}(h)), \qquad
#   h \leftarrow \mathrm{norm}(h + W_2\,\mathrm{gelu}(W_1 h))$$
#
# Each W is a linear map with a bias. The results of W and of W_2 are *added* to the hidden state, and the norm is taken
# of the sum. By hand: (1, 5, 1, 5) has mean 3 and standard deviation 2, so its norm is (-1, 1, -1, 1).
#
#     W moves each number one place on: attention(h) = (0, 1, 1, 0) becomes (0, 0, 1, 1)
#     h + W attention(h)     (1, 1, 0, 0) + (0, 0, 1, 1) + bias (0, 4, 0, 4) = (1, 5, 1, 5)     norm: (-1, 1, -1, 1)
#     W_1 takes the second of these numbers, 1.     gelu(1) = 0.841, because Φ(1) = 0.841
#     W_2 makes (0.841, 0.841, -0.841, -0.841). The sum is (-0.159, 1.841, -1.841, 0.159)
#
# Its standard deviation is √(1 + 0.841²) = 1.307, so its norm is (-0.121, 1.409, -1.409, 0.121). The second norm here
# also doubles its result (a norm can learn such a factor).

# %%
def layer(hidden, mixed, attention_output, attention_norm, intermediate, output, output_norm):
    """What a layer does after attention. hidden: (B, L, d), h as it enters the layer. mixed: (B, L, d), attention(h).
    Five modules to be called: attention_output is W, intermediate W_1, output W_2; attention_norm is the first norm,
    output_norm the second. Returns: (B, L, d). Use F.gelu."""
    ...

W, W_1 = fixed(torch.eye(4).roll(1, 0).tolist(), [0.0, 4, 0, 4]), fixed([[0.0, 1, 0, 0]], [0.0])
W_2, norm, doubled = fixed([[1.0], [1], [-1], [-1]], [0.0] * 4), torch.nn.LayerNorm(4), torch.nn.LayerNorm(4)
doubled.weight.data.fill_(2.0)
h, mixed = torch.tensor([[[1.0, 1, 0, 0]]]), torch.tensor([[[0.0, 1, 1, 0]]])
layer = check(layer, h, mixed, W, norm, W_1, W_2, doubled, gives=[-0.2428, 2.8180, -2.8180, 0.2428])

# %% [markdown]
# ## All of it
#
# What enters the first layer is given: a token's vector is the sum of three rows of tables, one for its piece, one for
# its place 0, 1, 2, ..., one for its segment, and the norm of this sum. The rest of BERT is made of your functions. The
# library's BERT here has two layers and random weights. With the same weights your hidden states must be the library's.

# %%
def encode(bert, input_ids, segment, mask):
    """Your mini-BERT with the weights of a bert_min.Bert. Returns: hidden states (B, L, d)."""
    h = bert.embeddings(input_ids, segment)
    for block in bert.layers:
        x = block.attention
        heads = [split_heads(part(h), x.heads) for part in (x.query, x.key, x.value)]
        h = layer(h, merge_heads(attention(*heads, mask)), block.attention_output, block.attention_norm,
                  block.intermediate, block.output, block.output_norm)
    return h

bert = Bert(BertConfig(tokenizer.vocab_size, 12, num_layers=2, num_heads=3, intermediate_size=24, max_length=16))
bert.double().eval()                            # 64 bits: nothing is lost by rounding
length = torch.tensor([[len(ids)], [len(ids) - 3]])                     # the second pair has padding
inputs = {"input_ids": torch.tensor([ids, ids]), "segment": torch.tensor([segment, segment]),
          "mask": torch.arange(len(ids)) < length}
yours, ours = encode(bert, **inputs), bert(**inputs)[0][-1]
assert_close(yours[inputs["mask"]], ours[inputs["mask"]], atol=1e-6, rtol=0)
print(f"{len(bert.layers)} layers, largest difference {(yours - ours)[inputs['mask']].abs().max():.1e}")

# %% [markdown]
# ## A trained model
#
# `MyBert` is the library's attention with your function in its place: so a method of your own is made
# (docs/own_method.md). Here it is in the first of two layers of a small encoder, which starts from random weights. It
# learns synonyms from 800 pairs of toy, made sentences. "The doctor praised Anna in April." and "The physician praised
# Anna in April." mean the same; with "the lawyer" they do not. Four such sentences make four pairs, two of each label,
# so no word gives the label away: 50 % is chance. Training ends when 95 % of the 800 are right; dev has 120 more.

# %%
class MyBert(SelfAttention):
    """BERT's attention with your function."""

    def attend(self, hidden, q, k, v, mask, bias):
        return merge_heads(attention(q, k, v, mask))

_ = train_on("synonyms", MyBert)

# %% [markdown]
# **What has it learned?** In training, every pair that means the same has two *different* words for one person. Nothing
# taught the model that a doctor is a doctor, or to ask who praised whom. The accuracy on pairs of the same kind says
# nothing about that: remember this with every number from toy.
