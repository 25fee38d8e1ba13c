# %% [markdown]
# # 1. Mini-BERT: two sentences in one sequence
#
# **The question.** Two sentences are given, and one number is wanted: do they mean the same? How can *one* network
# read both at once, so that each word can look at each word of the other sentence?
#
# > "Sentence pairs are packed together into a single sequence." (Devlin et al. 2019, BERT, § 3, Input/Output
# > Representations)
#
# BERT is what all methods of these papers are compared with, and what four of them are built into. This lesson
# takes it apart with numbers that you can check by hand. The code beside it is `bert_min.py`. Words that we need:
#
# - a **token** is what the network sees: a word, or a **piece** of a word that is not in its vocabulary;
# - a **segment** is 0 for tokens of the first sentence and 1 for tokens of the second;
# - a **mask** is true for real tokens and false for padding, which fills up the shorter pairs of a batch;
# - **hidden states** are the vectors, one for each token, that go from layer to layer.
#
# | sign | meaning |
# |---|---|
# | Q, K, V | queries, keys and values, one row for each token; ᵀ turns rows into columns |
# | k, H | numbers in a query or key; number of heads |
# | softmax | makes weights of scores x: eˣ, divided by the sum of all; above 0, of sum 1 |
# | gelu(x) | x times the share of normally distributed numbers below x: about 0 far below 0, about x above 2 |
# | norm | takes the mean of a token's numbers away, divides by their standard deviation |
# | W, h | a matrix that is learned; a hidden state |

# %%
from lesson import came, figure, heat, look, show, slide, train_on

import torch
from torch.testing import assert_close

from bert_min import (Bert, BertConfig, Embeddings, Layer, PairTokenizer, SelfAttention, attention_weights,
                      merge_heads, split_heads)

# %% [markdown]
# ## Packing: `PairTokenizer.encode`
#
#     [CLS] a [SEP] b [SEP]
#
# `[CLS]` stands in front and will collect the answer, `[SEP]` ends a sentence. Word spans are places of characters
# in the text: "Apple" is 0 to 5. Each token then knows its word, which later lessons need: what is known of *words*
# must reach *pieces*.

# %%
a, b = "Apple rose", "It fell"
tokenizer = PairTokenizer.train([a, b], vocab_size=40)
ids, segment, word = tokenizer.encode(a, [(0, 5), (6, 10)], b, [(0, 2), (3, 7)], max_length=16)
pieces = tokenizer.pieces(ids)
for name, row in (("token", pieces), ("segment", segment), ("word", word)):
    print(f"{name:8}", *(f"{x!s:>6}" for x in row))

assert pieces[0] == "[CLS]" and pieces.count("[SEP]") == 2
assert [s for s, p in zip(segment, pieces) if p == "[SEP]"] == [0, 1]       # a separator belongs to what it ends
assert word[0] == -1 and sorted(set(word)) == [-1, 0, 1]                    # -1: no word

# %% [markdown]
# ## Attention: Vaswani et al. (2017), Eq. (1), `SelfAttention.attend`
#
# $$\mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{k}}\right) V$$
#
# Each token has a **query** (what it looks for), a **key** (how it is found) and a **value** (what it gives), each
# k numbers long. A score is the product of a query and a key; the softmax makes weights of a query's scores; the
# result is the mean of the values by these weights. The library's lines, without their docstring. The first branch
# has one fast operation for all of it; the second one, which a look inside asks for, is the equation:

# %%
show(SelfAttention.attend)

# %% [markdown]
# By hand, take k = 4 and two tokens:
#
#     query of "Apple" = (1, 1, 1, 1)
#     key of "Apple"   = (1, 1, 1, 1)     score 4 / √4 = 2        value (4, 0, 0, 0)
#     key of "rose"    = (1, 1, 0, 0)     score 2 / √4 = 1        value (0, 4, 0, 0)
#
# Only the difference of scores counts: e² / (e² + e¹) = 1 / (1 + e⁻¹) = 0.731, and 0.269 for "rose". The result is
# (2.924, 1.076, 0, 0). Let the query of "rose" be 0: its scores are equal, its weights one half each.

# %%
config = BertConfig(vocab_size=tokenizer.vocab_size, hidden_size=4, num_layers=1, num_heads=1, intermediate_size=8,
                    max_length=16, dropout=0.0, attention_dropout=0.0)
q = torch.tensor([[1.0, 1, 1, 1], [0, 0, 0, 0]])[None, None]                # one sentence, one head, two tokens
k = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]])[None, None]
v = torch.tensor([[4.0, 0, 0, 0], [0, 4, 0, 0]])[None, None]
mask, trace = torch.tensor([[True, True]]), {}
mixed = SelfAttention(config).attend(None, q, k, v, mask, None, trace)

assert_close(trace["attention"][0, 0], torch.tensor([[0.7311, 0.2689], [0.5, 0.5]]), atol=1e-4, rtol=0)
assert_close(mixed[0], torch.tensor([[2.9242, 1.0758, 0, 0], [2, 2, 0, 0]]), atol=1e-4, rtol=0)

figure("Apple reads itself; rose, whose query is 0, reads both alike",
       heat("weights of attention", ["Apple", "rose"], ["Apple", "rose"], trace["attention"][0, 0], "is read",
            "reads", top=1))

# %% [markdown]
# **Heads.** BERT cuts its vectors into H parts and does all of this in each part: `split_heads` makes (H, tokens,
# k) out of (tokens, H·k), `merge_heads` goes back. Nothing is computed.

# %%
show(split_heads, merge_heads)
x = torch.arange(12.0).view(1, 2, 6)                                        # 2 tokens, 6 numbers each
assert split_heads(x, 3)[0, 1].tolist() == [[2, 3], [8, 9]]                 # what head 1 of 0, 1, 2 sees
assert_close(merge_heads(split_heads(x, 3)), x)

# %% [markdown]
# ## What goes wrong without √k
#
# The products of two vectors with k random numbers of size 1 have size √k: with k = 1,024 scores are around ±32.
# Take 200 queries, ten keys, and the mean of each query's largest weight.
#
# **Guess** before you run on: k = 1,024 and no division. Is the largest weight about 0.1, 0.5 or 1?

# %%
guess = ...

# %% [markdown]
# A softmax of numbers that far apart gives nearly all weight to one key: the others get none, and no gradient. The
# division keeps scores at size 1 whatever k is.

# %%
generator, sizes = torch.Generator().manual_seed(0), [4, 16, 64, 256, 1024]
largest = {"without √k": [], "with √k": []}
for size in sizes:
    queries, keys = torch.randn(200, size, generator=generator), torch.randn(10, size, generator=generator)
    scores = queries @ keys.T
    for name, s in (("without √k", scores), ("with √k", scores / size ** 0.5)):
        largest[name].append(attention_weights(s, torch.ones_like(s, dtype=torch.bool)).amax(-1).mean())
assert largest["without √k"][-1] > 0.9 and max(largest["with √k"]) < 0.5
came(guess, 1, f"{largest['without √k'][-1]:.2f}, and with √k {largest['with √k'][-1]:.2f}")
slide("Without √k, a softmax of ten keys picks one", "k, numbers in a key", sizes, largest)

# %% [markdown]
# ## The mask: `attention_weights`
#
# Padding must get the weight 0. Google's code for BERT adds -10,000 to its score. As long as there is one real key
# and scores are small, that is 0 in float32. But a row without any real key has -10,000 *everywhere*, a constant
# that the softmax does not see: padding gets all the weight. (Lesson 2 has such a mask in a printed equation.) Ours
# puts the weights of masked keys to 0 after the softmax.

# %%
show(attention_weights)
scores, nothing = torch.tensor([[3.0, 1.0]]), torch.tensor([[False, False]])
assert_close((scores - 10_000).softmax(-1), scores.softmax(-1), atol=1e-3, rtol=0)      # as if nothing were masked
assert_close(attention_weights(scores, nothing), torch.zeros(1, 2))
assert_close(attention_weights(scores, torch.tensor([[True, False]])), torch.tensor([[1.0, 0.0]]))

# %% [markdown]
# **Repair it.** `claim` says what a mask is for. Google's line fails in a row without a key. Change it until `claim`
# is True. <details><summary>Answer</summary> `return scores.masked_fill(~mask, -1e30).softmax(-1) * mask`</details>

# %%
def claim(weigh):
    """Padding gets nothing, in a row without any real key too."""
    rows = torch.tensor([[True, False], [False, False]])
    return not weigh(scores.expand(2, 2), rows)[~rows].any()


def mine(scores, mask):
    return (scores - 10_000.0 * ~mask).softmax(-1)                          # repair this line


print(f"claim is {claim(mine)} of your line, {claim(attention_weights)} of ours")
assert claim(attention_weights)

# %% [markdown]
# ## A layer: `Layer`
#
# $$h \leftarrow \mathrm{norm}(h + W\,\mathrm{attention}(h)), \qquad
#   h \leftarrow \mathrm{norm}(h + W_2\,\mathrm{gelu}(W_1 h))$$
#
# Each W has its bias.

# %%
show(Layer.forward)

# %% [markdown]
# What attention and the two linear maps find is *added* to the hidden state. `norm` then takes away the mean of
# each token's numbers and divides by their standard deviation: (1, 3, 1, 3) has mean 2 and deviation 1 and becomes
# (-1, 1, -1, 1). With weights of 0 nothing is added, and a layer does nothing but this norm, twice.

# %%
layer = Layer(config, SelfAttention(config))
for part in (layer.attention_output, layer.output):
    torch.nn.init.zeros_(part.weight)
h = torch.tensor([[[1.0, 3, 1, 3], [0, 0, 2, 2]]])
assert_close(layer(h, mask), torch.tensor([[[-1.0, 1, -1, 1], [-1, -1, 1, 1]]]))

# %% [markdown]
# ## Without positions BERT is a bag of words
#
# Attention asks *what* a key is, never *where*. The embedding of a token is therefore a sum of three rows of
# tables: of its piece, of its position, of its segment. Take the positions away, and a sentence is the set of its
# words: these two (DAFA's Table 7 has them) get one and the same `[CLS]`.

# %%
show(Embeddings.forward)
there, back = "book a flight from New York to Seattle", "book a flight from Seattle to New York"
tokenizer = PairTokenizer.train([there], vocab_size=200)
config = BertConfig(tokenizer.vocab_size, hidden_size=32, num_layers=2, num_heads=4, intermediate_size=64,
                    max_length=32)
torch.manual_seed(0)
bert = Bert(config).eval()
for parameter in bert.parameters():
    if parameter.dim() == 2:
        torch.nn.init.xavier_uniform_(parameter)                         # BERT's 0.02 is for 768 numbers, not for 32


@torch.no_grad()
def cls(text):
    ids, segment, _ = (torch.tensor([row]) for row in tokenizer.encode(text, None, "", None, 32))
    return bert(ids, segment, torch.ones_like(ids, dtype=torch.bool))[1]


sizes, distances, positions = [0, 0.25, 0.5, 1], [], bert.embeddings.position.weight.data.clone()
for size in sizes:
    bert.embeddings.position.weight.data = size * positions
    distances.append((cls(there) - cls(back)).norm())
assert distances[0] < 1e-5 < 1e-3 < distances[-1]
slide("From New York to Seattle, or back: only positions tell them apart", "size of the position table", sizes,
      {"distance of the two [CLS]": distances})

# %% [markdown]
# With positions the two *differ*. That the difference matters for the answer must be learned, and is hard to learn:
# it is what DAFA's trees are for (lesson 3).
#
# ## A trained model
#
# No pre-trained weights: we train two layers of 64 numbers from random ones, on a small part of the toy world,
# synonyms for people. "The doctor praised Anna in April." and "In April, the physician praised Anna." mean the
# same; with "the lawyer" they do not. Four such sentences make four pairs, two of each label, so that no word and
# no number of shared words gives a label away: 50 % is chance. There are 800 pairs.

# %%
frames = {"people": (("same human", "the {x[0]} {treat.past} {name} {time}",
                      "{time}, the {x[1]} {treat.past} {name}"),)}
run, found = train_on(frames, "bert", epochs=12, batch_size=32, lr=2e-3)

assert found["score"] > 0.7

# %% [markdown]
# Pairs with one sentence, "The doctor praised Anna in April.": a synonym, another person, the roles exchanged, and
# the doctor once more.

# %%
first, said = "The doctor praised Anna in April.", {}
for name, second in (("synonym", "In April, the physician praised Anna."),
                     ("other person", "In April, the lawyer praised Anna."),
                     ("roles exchanged", "In April, Anna praised the physician."),
                     ("the same word", "In April, the doctor praised Anna.")):
    said[name] = look(run, first, second).probability
    print(f"p(same) {said[name]:.2f}   {name:16} {second}")

assert said["synonym"] > said["other person"]

# %% [markdown]
# The first two lines are what it was taught. The other two it was not, and nothing can be relied on there: with five
# seeds the exchanged roles got anything from 0.21 to 0.97, and the same word 0.00 four times and 0.80 once. Every
# pair of its training that means the same holds two *different* words for one person. Nothing taught it that a doctor
# is a doctor, or to ask who praised whom. Keep that in mind with every number in this project that comes from the toy
# world.
#
# What does it look at? The cell prints what "doctor" reads most in the first layer, and `[CLS]` in the last one.
# Weights of attention show where a model looks, not why. What it makes of that sits in its values and linear maps.

# %%
seen = look(run, first, "In April, the physician praised Anna.")
layers = [seen.trace[f"layer{i}"]["attention"][0] for i in range(2)]         # each (heads, tokens, tokens)
for layer, token in enumerate(("doctor", "[CLS]")):
    top = layers[layer][:, seen.tokens.index(token)].mean(0).topk(3)
    read = ", ".join(f"{seen.tokens[i]} {w:.2f}" for w, i in zip(top.values, top.indices.tolist()))
    print(f"layer {layer}, mean of the heads: {token} reads {read}")

assert_close(layers[1].sum(-1), torch.ones_like(layers[1][..., 0]))

figure("What each token reads in the first layer",
       heat("mean of the heads", seen.tokens, seen.tokens, layers[0].mean(0), "is read", "reads"))

# %% [markdown]
# ## Summary
#
# - Two sentences become one sequence, `[CLS] a [SEP] b [SEP]`; segments tell them apart, positions give the order.
# - Attention is a mean of values by weights, the softmax of Q Kᵀ / √k; without √k it picks one key.
# - A layer *adds* what it finds to the hidden state; the vector of `[CLS]` answers in the end.
# - A mask that is a large finite number leaks; a weight that is set to 0 does not.
#
# ## Five questions
#
# 1. The scores of a query are 5 and 3. What are the weights? And with 105 and 103? <details><summary>Answer</summary>
#    1 / (1 + e⁻²) = 0.88 and 0.12, both times: a softmax sees differences only.</details>
# 2. Q and K have 64 random numbers of size 1 in a row. How large are scores without √k, and with it?
#    <details><summary>Answer</summary> About ±8, and about ±1.</details>
# 3. Why does shuffling the words of a sentence change nothing if the position table is 0? <details>
#    <summary>Answer</summary> Queries, keys and values then depend on pieces and segments alone, and a mean does not
#    know an order. Each token's vector moves with it, and `[CLS]` gets the same mean.</details>
# 4. What does a layer do whose `attention_output` and `output` are 0, biases too? <details><summary>Answer</summary>
#    It adds nothing: the norm is all that is left, twice, and the second time it finds nothing to do.</details>
# 5. The model was right on nearly all of dev. On pairs with words that it never saw it stayed near 50. Why is dev no
#    proof that it understands synonyms? <details><summary>Answer</summary> Dev has new sentences of the *same* words.
#    That doctor and physician belong together it learned from pairs with just these two words.</details>
#
# ## Try it
#
# 1. Give `train_on` the frames of `"prepositions"` in `support/toy.py` instead, `FRAMES`. Does plain BERT leave 50?
#    <details><summary>Answer</summary> Hardly: 52.8 in `docs/log.md`, after eight epochs of all phenomena. Both
#    labels have the same words; only their order decides, and it must be compared across the sentences.</details>
# 2. Take the segments away: `run.model.bert.embeddings.segment.weight.data.zero_()`, then call `look` again. Does
#    the answer change much? <details><summary>Answer</summary> It may not: positions and `[SEP]` tell the model as
#    well where the second sentence begins.</details>
# 3. Subclass `SelfAttention`, override `attend` so that it divides by k instead of √k, and give it to `Bert(config,
#    lambda layer: YourAttention(config))`. <details><summary>Answer</summary> In `attend`, call
#    `super().attend(hidden, q / k.shape[-1] ** 0.5, k, v, mask, prior, trace)`: √k twice is k. Scores are smaller,
#    weights more alike. The three fusion methods go into BERT by this door.</details>
