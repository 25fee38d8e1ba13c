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

# %%
from lesson import curves, figure, heat, look, train_on

import torch
from torch.testing import assert_close

from bert_min import (Bert, BertConfig, Layer, PairTokenizer, SelfAttention, attention_weights, merge_heads,
                      split_heads)

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
#     softmax(Q Kᵀ / √k) V
#
# Each token has a **query** (what it looks for), a **key** (how it is found) and a **value** (what it gives), each
# k numbers long. A score is the product of a query and a key; the softmax makes weights of a query's scores; the
# result is the mean of the values by these weights. Take k = 4 and two tokens:
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

figure(heat("weights of attention", ["Apple", "rose"], ["Apple", "rose"], trace["attention"][0, 0], "is read",
            "reads", top=1))

# %% [markdown]
# **Heads.** BERT cuts its vectors into H parts and does all of this in each part: `split_heads` makes (H, tokens,
# k) out of (tokens, H·k), `merge_heads` goes back. Nothing is computed.

# %%
x = torch.arange(12.0).view(1, 2, 6)                                        # 2 tokens, 6 numbers each
assert split_heads(x, 3)[0, 1].tolist() == [[2, 3], [8, 9]]                 # what head 1 of 0, 1, 2 sees
assert_close(merge_heads(split_heads(x, 3)), x)

# %% [markdown]
# ## What goes wrong without √k
#
# The products of two vectors with k random numbers of size 1 have size √k. With k = 1,024 scores are around ±32,
# and a softmax of such numbers is all but a choice of one key: the others get no weight, and no gradient. The
# division keeps scores at size 1 whatever k is. Ten keys, 200 queries, the mean of the largest weight:

# %%
generator, sizes = torch.Generator().manual_seed(0), [4, 16, 64, 256, 1024]
largest = {"without √k": [], "with √k": []}
for size in sizes:
    queries, keys = torch.randn(200, size, generator=generator), torch.randn(10, size, generator=generator)
    scores = queries @ keys.T
    for name, s in (("without √k", scores), ("with √k", scores / size ** 0.5)):
        largest[name].append(attention_weights(s, torch.ones_like(s, dtype=torch.bool)).amax(-1).mean())
print({name: [round(float(x), 2) for x in values] for name, values in largest.items()})

assert largest["without √k"][-1] > 0.9 and max(largest["with √k"]) < 0.5

figure(curves("Without √k, a softmax of ten keys picks one", sizes, largest, "k, numbers in a key", "largest weight",
              log=True))

# %% [markdown]
# ## The mask: `attention_weights`
#
# Padding must get the weight 0. Google's code for BERT adds -10,000 to its score. As long as there is one real key
# and scores are small, that is 0 in float32. But a row without any real key has -10,000 *everywhere*, a constant
# that the softmax does not see: padding gets all the weight. (Lesson 2 has such a mask in a printed equation.) Ours
# puts the weights of masked keys to 0 after the softmax.

# %%
scores, nothing = torch.tensor([[3.0, 1.0]]), torch.tensor([[False, False]])
assert_close((scores - 10_000).softmax(-1), scores.softmax(-1), atol=1e-3, rtol=0)      # as if nothing were masked
assert_close(attention_weights(scores, nothing), torch.zeros(1, 2))
assert_close(attention_weights(scores, torch.tensor([[True, False]])), torch.tensor([[1.0, 0.0]]))

# %% [markdown]
# ## A layer: `Layer`
#
#     h ← norm(h + W attention(h)),    h ← norm(h + W₂ gelu(W₁ h))          each W with its bias
#
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
print("distance of the two [CLS]:", [round(float(x), 3) for x in distances])

assert distances[0] < 1e-5 < 1e-3 < distances[-1]

figure(curves("From New York to Seattle, and back", sizes, {"distance of the two [CLS]": distances},
              "size of the position table", "distance"))

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
run, accuracy = train_on(frames, "bert", epochs=12, batch_size=32, lr=2e-3)

assert accuracy > 0.65

# %% [markdown]
# Pairs with one sentence, "The doctor praised Anna in April.": a synonym, another person, the roles exchanged, and
# the doctor once more.

# %%
first = "The doctor praised Anna in April."
for second in ("In April, the physician praised Anna.", "In April, the lawyer praised Anna.",
               "In April, Anna praised the physician.", "In April, the doctor praised Anna."):
    print(f"p(same) {look(run, first, second).probability:.2f}   {second}")

# %% [markdown]
# In our run the third got 0.80: this model has learned which *words* matter, and does not mind who praised whom.
# And look at the last line. It denies that a doctor is a doctor! Every pair of its training that means the same
# holds two *different* words for one person, and that is what it learned: are there two synonyms? It knows nothing
# of sentences that it was not shown. Keep that in mind with every number in this project that comes from the toy
# world.
#
# What does it look at? In our run "doctor" reads "physician" in the first layer, more than anything else; in the
# last layer `[CLS]` reads "doctor", where both have come together. So the two words that decide are found. Other
# runs, and other pairs, look less tidy: weights of attention show where a model looks, not why. What it makes of
# that sits in its values and linear maps.

# %%
seen = look(run, first, "In April, the physician praised Anna.")
weights = seen.trace["layer1"]["attention"][0]                              # (heads, tokens, tokens)
assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
top = weights[:, 0].mean(0).topk(3)
print("[CLS] reads most:", ", ".join(f"{seen.tokens[i]} {w:.2f}" for w, i in zip(top.values, top.indices.tolist())))

figure(heat("what [CLS] reads in the last layer", [f"head {i}" for i in range(4)], seen.tokens, weights[:, 0]),
       heat("first layer, mean of the heads", seen.tokens, seen.tokens, seen.trace["layer0"]["attention"][0].mean(0),
            "is read", "reads"))

# %% [markdown]
# ## Try it
#
# 1. Give `train_on` the frames of `"prepositions"` in `support/toy.py` instead, `FRAMES`. Does plain BERT leave 50?
#    Look at them to see why that is harder.
# 2. Take the segments away: `run.model.bert.embeddings.segment.weight.data.zero_()`, then call `look` again. Does
#    the answer change much? Why may it not?
# 3. Subclass `SelfAttention`, override `attend` so that it divides by k instead of √k, and give it to `Bert(config,
#    lambda layer: YourAttention(config))`. All the papers' methods go into BERT by this door.
