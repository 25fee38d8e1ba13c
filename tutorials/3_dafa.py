# %% [markdown]
# # 3. DAFA: trees that calibrate attention
#
# **The question.** "Apple exceeded the company" and "the company exceeded Apple" hold the same words. What tells
# them apart is who is the subject of "exceeded" and who is its object. A parser knows that. How can its tree tell
# attention which words of two sentences play the same part?
#
# > "strengthening the attention weight of same dependency and reducing the attention weight of different
# > dependency" (Song et al., DAFA, § 1)
#
# A **dependency tree** gives each word a **head**, the word it belongs to, and a **relation** to it: in "Apple
# exceeded company" the head of "Apple" is "exceeded", and the relation is nsubj, subject; "company" is its obj,
# object. "exceeded" hangs on ROOT. The paper calls head, relation and word a **trigram**. Eqs. (1) to (5) make a
# matrix over words of it (`priors.py`), Eqs. (6) to (9) put that into attention (`semmatch.py`).

# %%
import math

import numpy as np
import torch
from lesson import curves, figure, fixed, heat, look, train_on
from torch.testing import assert_close

from priors import TfIdf, dependency_matrix, subgraph_similarity, tree_similarity
from semmatch import calibrated_attention, filtration_gate, gated_fusion, guided_attention, spread_prior
from support.parser import load_parser
from support.parses import Parse, parse_texts, split_words

# %% [markdown]
# ## A pair by hand
#
# Three words each, as in the paper's Figure 1, without the article:

# %%
def typed_tree(text, heads, relations):
    """A Parse: heads are counted from 1, 0 is ROOT."""
    return Parse(text, split_words(text), ("X",) * len(heads), np.array(heads), tuple(relations))


a = typed_tree("Apple exceeded company", [2, 0, 2], ["nsubj", "root", "obj"])
b = typed_tree("company exceeded Apple", [2, 0, 2], ["nsubj", "root", "obj"])

# %% [markdown]
# ## Trees: Eqs. (1), (2), (3), `tree_similarity`
#
#     M(i, j) = [s(h_i, h_j) + s(t_i, t_j)] · r(r_i, r_j)
#     s = 1 for equal words, else 0          r = θ = 2 for equal relations, else 1
#
# h is the head, t the word itself (the "tail"), r the relation. By hand:
#
#     Apple, company (both subjects):    heads equal 1, words 0, relation × 2    →  2
#     Apple, Apple (subject, object):    heads equal 1, words 1, relation × 1    →  2
#     exceeded, exceeded:                ROOT = ROOT 1, words 1, relation × 2    →  4
#     Apple, exceeded:                   nothing                                 →  0
#
# Look at the two 2s: with θ = 2, the paper's value, a word in *another's* part is as close as a word in the *same*
# part.

# %%
M = tree_similarity(a, b)
assert M.tolist() == [[2, 0, 2], [0, 4, 0], [2, 0, 2]]

# %% [markdown]
# ## Subtrees: Eq. (4), `subgraph_similarity`
#
#     S(i, j) = α + ν Σ S(x, y) over children x of i and y of j,    if t_i = t_j and r_i = r_j, else 0
#
# Do words match, and what hangs below them? α and ν are not given in the paper; ours are 1 and ½. Here only
# "exceeded" matches in word and relation. Its children do not (Apple is nsubj here and obj there), so S is 1 in the
# middle.
#
# **As typeset**, α stands *inside* the braces, under "for all children x and y": it counts once for each *pair* of
# children. "exceeded" has 2 children on each side, 4 pairs, so S = 4, though not one of them matches. And a word
# without children, a **leaf**, gets nothing however well it matches.

# %%
S, S_typeset = subgraph_similarity(a, b), subgraph_similarity(a, b, printed=True)
assert S.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
assert S_typeset[1, 1] == 4

# %% [markdown]
# Compare the sentence with itself: now all three words match. Intended, the leaves have 1 each, and "exceeded" 1 +
# ½ (1 + 1) = 2. As typeset the leaves have 0, and "exceeded" 4 again: exactly what it had with its children
# exchanged!

# %%
itself, itself_typeset = subgraph_similarity(a, a), subgraph_similarity(a, a, printed=True)
assert itself.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 1]]
assert itself_typeset.tolist() == [[0, 0, 0], [0, 4, 0], [0, 0, 0]] == S_typeset.tolist()

figure(heat("S of a with itself", a.words, a.words, itself, top=4), heat("S of a and b", a.words, b.words, S, top=4),
       heat("as typeset, itself", a.words, a.words, itself_typeset, top=4),
       heat("as typeset, a and b: no difference", a.words, b.words, S_typeset, top=4))

# %% [markdown]
# ## The matrix: Eq. (5), `dependency_matrix`
#
#     M_F(i, j) = |M(i, j) + S(i, j)| · tf_i · tf_j
#
# tf is **tf-idf**: how often a word is in this sentence, times a number that is larger the rarer it is elsewhere.
# The paper gives no form of it. Ours (`TfIdf`) has mean 1 in each sentence, so that a typical word changes nothing.
# In these two sentences all words are equally rare, all tf are 1, and M_F = M + S.

# %%
tfidf = TfIdf([a.words, b.words])
tf_a, tf_b = tfidf.weights(a.words), tfidf.weights(b.words)
M_F = dependency_matrix(a, b, tf_a, tf_b)

assert_close(torch.from_numpy(tf_a), torch.ones(3, dtype=torch.float64))
assert M_F.tolist() == [[2, 0, 2], [0, 5, 0], [2, 0, 2]]

# %% [markdown]
# **The paper's own pairs** (Figure 1 and Table 7), with the parser that ships with this project. In the first two,
# words are alike and trees are not; in the last two meanings are alike and trees are not. A dark cell is a pair of
# words that the trees bring together.

# %%
cases = [("Apple exceeded the company.", "The company exceeded Apple."),
         ("Please help me book a flight from New York to Seattle.",
          "Please help me book a flight from Seattle to New York."),
         ("How does reading help you think better?", "How do you think it's better to read?"),
         ("Sorry, I got sick yesterday and couldn't have lunch with you.",
          "Sorry, I was taken ill yesterday and unable to meet you for lunch."),
         ("The largest lake in America is in my hometown called Lake Superior.",
          "Lake Superior is the largest lake in America, and it's in my hometown.")]
texts = [text for pair in cases for text in pair]
parses = parse_texts(texts, load_parser(), progress=False)
tfidf = TfIdf(parse.words for parse in parses.values())
tf = {text: tfidf.weights(parse.words) for text, parse in parses.items()}
matrices = [dependency_matrix(parses[x], parses[y], tf[x], tf[y]) for x, y in cases]
for (x, y), matrix in zip(cases, matrices):
    i, j = np.unravel_index(matrix.argmax(), matrix.shape)
    print(f"largest {matrix.max():5.2f} ({parses[x].words[i]}, {parses[y].words[j]}), zero in "
          f"{100 * (matrix == 0).mean():.0f} % of the cells: {x}")

for k, title in ((1, "M_F: from New York to Seattle, and back"), (3, "M_F: got sick, was taken ill")):
    x, y = cases[k]
    figure(heat(title, parses[x].words, parses[y].words, matrices[k], "sentence b", "sentence a"))

# %% [markdown]
# Two things to see. In the first matrix the diagonal fades where the cities change places. In the second, the trees
# bring "got" and "taken" together, "sick" and "ill": other words in the same places. But the second half of both
# sentences, "couldn't have lunch" and "unable to meet", shares next to nothing, and 95 % of the cells are zero,
# though the pair means the same. So the paper wants a gate that can shut the trees out.
#
# What does the matrix say of New York and Seattle? "from" is a child of "Seattle" in one sentence and of "York" in
# the other: its head differs, and so its cell is lower than that of "book", which has the same head in both.

# %%
x, y = cases[1]
words_x, words_y = parses[x].words, parses[y].words
M = tree_similarity(parses[x], parses[y])
print("heads of from:", *(parses[t].words[parses[t].heads[parses[t].words.index("from")] - 1] for t in (x, y)))
for word in ("book", "flight", "from", "to", "Seattle"):
    print(f"M({word}, {word}) = {M[words_x.index(word), words_y.index(word)]:g}")

# %% [markdown]
# ## From words to tokens: `spread_prior`
#
# M_F has n × m cells, one for each word of a and word of b. Attention has L × L, one for each pair of tokens of the
# packed pair. "We change the dimension of M_F by adding 1" is all that § 2.2 says. We read it as M̃ = 1 + M_F
# between the sentences, a × b and, transposed, b × a, and 1 elsewhere. 1 will mean: as plain attention has it.

# %%
word_index = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, 2, -1]])         # [CLS] a a a [SEP] b b b [SEP]
segment = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1]])
M_tilde = spread_prior(1 + torch.from_numpy(M_F)[None], word_index, segment, 1.0)[0]
tokens = ["[CLS]", *a.words, "[SEP]", *b.words, "[SEP]"]

assert_close(M_tilde, M_tilde.T)
assert M_tilde[1, 5] == 3 and M_tilde[1, 2] == 1                    # Apple with company of b; with a's own "exceeded"

figure(heat("M̃ = 1 + M_F over tokens", tokens, tokens, M_tilde))

# %% [markdown]
# ## Calibration: Eq. (6), `calibrated_attention`
#
#     Dep = softmax((Q Kᵀ ⊙ M_F) / √d_k) V             as typeset
#     weight_ij ∝ M̃_ij exp(q_i·k_j / √d_k)             ours
#
# The page multiplies *scores*. That strengthens what is positive. But a score can be negative, and a negative
# number times 4 is more negative: the word with the largest entry gets the *smallest* weight. Two keys with the
# scores s and 0, M̃ = 4 and 1. Typeset: the weight of the first is σ(4 s). Ours multiplies *weights*: σ(s + ln 4),
# which is more than σ(s) for every s. At s = -1: plain 0.269, typeset 0.018, ours 0.595.

# %%
def weight(s, entry, printed):
    """The weight that calibrated_attention gives to the first of two keys, of scores s and 0. entry: its M̃."""
    q, k = torch.tensor([[[[1.0]]]]), torch.tensor([[[[s], [0.0]]]])
    prior, trace = torch.tensor([[[entry, 1.0]]]), {}
    calibrated_attention(q, k, torch.zeros(1, 1, 2, 1), prior if printed else prior.log(),
                         torch.ones(1, 2, dtype=torch.bool), printed=printed, trace=trace)
    return trace["calibrated"][0, 0, 0, 0].item()


assert_close([weight(-1.0, 1.0, False), weight(-1.0, 4.0, True), weight(-1.0, 4.0, False)], [0.2689, 0.0180, 0.5954],
             atol=1e-4, rtol=0)
scores = [-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0]
lines = {"plain attention": [weight(s, 1.0, False) for s in scores],
         "M̃ = 4 as typeset": [weight(s, 4.0, True) for s in scores],
         "M̃ = 4, ours": [weight(s, 4.0, False) for s in scores]}
for s, plain, typeset, ours in zip(scores, *lines.values()):
    assert ours > plain and (typeset < plain) == (s < 0)

figure(curves("An entry of 4 should strengthen a word", scores, lines, "score before calibration",
              "weight of the word"))

# %% [markdown]
# ## Guided attention: Eq. (7), `guided_attention`
#
#     δ_i = tanh(W_D Dep ⊕ (W_s s_i + b)),     d*_i = Dep softmax(w δ_i + b)
#     γ_i = tanh(W_S Sem ⊕ (W_d* d*_i + b)),   s*_i = Sem softmax(w γ_i + b)
#
# Now there are two signals: Sem of plain attention and Dep of calibrated attention. Each semantic vector s_i is a
# **guide** that looks through Dep, and then the other way round. As in DABERT's Eq. (5), ⊕ before the tanh makes
# the score a sum of one number of the value and one of the guide, and the guide's cancels in the softmax: as
# typeset, *all tokens get the same vector*. Lesson 2 works two tokens out by hand. Here are four, with one number
# each and w = 5: score_ij = 5 tanh(d_j + s_i). A guide far below leaves a choice (tanh is steep where d_j is high);
# a guide far above makes every tanh 1, and all weights alike.

# %%
dep = torch.tensor([[[-1.5], [-0.5], [0.5], [1.5]]])
sem = torch.tensor([[[-1.5], [0.0], [1.5], [3.0]]])
mask, one, biased = torch.ones(1, 4, dtype=torch.bool), fixed([[1.0]]), fixed([[1.0]], [0.0])
d_star, intended = guided_attention(dep, sem, mask, one, biased, fixed([[5.0]]))
d_typeset, typeset = guided_attention(dep, sem, mask, one, biased, fixed([[5.0, 5.0]], [0.0]), printed=True)

assert_close(d_typeset[0, :, 0], d_typeset[0, 0, 0].expand(4))      # one and the same for all four tokens
assert intended[0, 0, 3] > 0.95 and intended[0, 3, 3] < 0.35        # 5 (tanh 0 - tanh -1) = 3.8; tanh is flat at 1.5

guides, keys = [f"s = {x:g}" for x in sem.flatten()], [f"{x:g}" for x in dep.flatten()]
figure(heat("guided attention, ours", guides, keys, intended[0], "d", "guide", top=1),
       heat("as typeset: the guide is not heard", guides, keys, typeset[0], "d", "guide", top=1))

# %% [markdown]
# ## The gates: Eqs. (8) and (9), `gated_fusion`, `filtration_gate`
#
#     d̂_i = tanh(W d*_i + b),   ŝ_i = tanh(W s*_i + b),   g_i = σ(W_g (d̂_i ⊕ ŝ_i)),   v_i = g_i ŝ_i + (1 - g_i) d̂_i
#     f_i = σ(W_f (s_i ⊕ (W_v v_i + b))),    l_i = f_i tanh(W_l v_i + b)
#
# By hand, with s* = ln 2 and d* = ln 3: ŝ = 0.6, d̂ = 0.8. A gate of ¾ gives v = ¾ · 0.6 + ¼ · 0.8 = 0.65. The
# paper's Table 7 shows f: about 0.9 where the trees help, and 0.15 and 0.11 where they mislead (*got sick*, *Lake
# Superior*). But Eq. (9) puts l_i in the place of s_i. With f = 0.1 nine tenths of what goes on are gone, and it is
# not the *semantic* signal that is left. We return s_i + l_i, so that f = 0 is plain BERT. With s = 2, v = 0.65,
# W_l = 1: tanh(0.65) = 0.572, and f = ½ makes 2.286 of it; the page says 0.286.

# %%
same = fixed([[1.0]], [0.0])
v, g = gated_fusion(torch.tensor([[[math.log(2)]]]), torch.tensor([[[math.log(3)]]]), same, same,
                    fixed([[1.25 * math.log(3), 0.0]]))
assert_close((g.item(), v.item()), (0.75, 0.65))
for printed, half, closed in ((False, 2.2858, 2.0), (True, 0.2858, 0.0)):
    for w, wanted in ((0.0, half), (-10.0, closed)):                # W_f (s ⊕ v) = w · 2: f is ½, or 2e-9
        out, _ = filtration_gate(torch.tensor([[[2.0]]]), v, same, same, fixed([[w, 0.0]]), printed)
        assert_close(out.item(), wanted, atol=1e-4, rtol=0)

# %% [markdown]
# ## A trained model, from New York to Seattle
#
# A toy world of journeys: "Anna booked a flight from Rome to Paris last week." and "Anna booked a flight to Paris
# from Rome last week." mean the same; with the cities exchanged they do not. Every word is in all four sentences,
# so chance is 50. 800 pairs, from random weights; plain BERT beside it.

# %%
frames = {"journeys": (("city", "{name} {travel} from {x} to {y} {time}", "{name} {travel} to {y} from {x} {time}"),)}
settings = {"epochs": 14, "batch_size": 32, "lr": 2e-3}
run, accuracy = train_on(frames, "dafa", **settings)
plain, plain_accuracy = train_on(frames, "bert", **settings)

assert accuracy > 0.65

# %%
first = "Anna booked a flight from New York to Seattle last week."
for second in ("Anna booked a flight to Seattle from New York last week.",
               "Anna booked a flight to New York from Seattle last week.",
               "Anna booked a flight from Seattle to New York last week."):
    dafa, bert = (look(model, first, second).probability for model in (run, plain))
    print(f"p(same) dafa {dafa:.2f}, bert {bert:.2f}   {second}")

# %% [markdown]
# The third sentence is the paper's own case: the wording of the first, with the cities exchanged. In our run both
# models are sure that it means the same, and wrong. Training paired "from x to y" with "to y from x" only. There, a
# pair means the same exactly when the cities stand in the *opposite order*. That is what was learned, and never
# what "from" says; accuracy on dev, which is made like training, cannot show it. DAFA's matrix does hold the answer
# (the heads of "from" above), but nothing in these pairs asks for it.
#
# What did the matrix do to attention? `DafaAttention`, which computes Eqs. (6) to (9) in BERT's first layer, tells
# in its trace.

# %%
seen = look(run, first, "Anna booked a flight to New York from Seattle last week.")
layer = seen.trace["layer0"]
cut = seen.tokens.index("[SEP]")
rows, columns = seen.tokens[1:cut], seen.tokens[cut + 1:-1]


def between(weights):
    """The mean of the heads, tokens of a by tokens of b."""
    return weights[0].mean(0)[1:cut, cut + 1:-1]


plain_map, calibrated = between(layer["attention"]), between(layer["calibrated"])
print(f"share of attention that goes to the other sentence: {plain_map.sum(-1).mean():.2f} before calibration, "
      f"{calibrated.sum(-1).mean():.2f} after")
for gate in "gf":
    print(f"gate {gate}: {layer[gate].min():.2f} to {layer[gate].max():.2f}")
assert calibrated.sum() > plain_map.sum()         # entries of M̃ are 1 or more: what is between the sentences gains

top = max(plain_map.max(), calibrated.max())
figure(heat("attention", rows, columns, plain_map, "sentence b", "sentence a", top=top),
       heat("calibrated by the trees", rows, columns, calibrated, "sentence b", "sentence a", top=top))

# %% [markdown]
# By Eq. (6) attention moves to the other sentence, and to the words that the trees bring together. The gates of our
# run: f near 1, so the fused signal is let in; g near 0, so that signal is mostly Dep, attention calibrated by
# trees. (In lesson 2 the gate closed.) And plain BERT learns this small world as well, a few epochs later. On all
# of the toy world the two differ more, on MRPC hardly: see `docs/results.md`, and what it says about such
# differences.
#
# ## Try it
#
# 1. Add the frame `("city", "{name} {travel} from {x} to {y} {time}", "{time}, {name} {travel} from {x} to {y}")`
#    under a name of its own. Now the order of the cities decides nothing. How many epochs does each model need to
#    leave 50?
# 2. Train with `printed="6"`. Does calibration as typeset hurt here? Which sign have the scores of aligned words?
#    (They are the logarithms of `trace["layer0"]["attention"]`, up to a constant of each row.)
# 3. Take θ = 3 in `tree_similarity(a, b, 3.0)`. Which tie of the first pair does that break, and in whose favour?
