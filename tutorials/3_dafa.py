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
# object. "exceeded" hangs on ROOT. The paper calls head, relation and word a **trigram**. From the trigrams of
# two sentences Eqs. (1) to (5) compute a matrix, a row for each word of one, a column for each word of the other
# (`priors.py`). Eqs. (6) to (9) put it into attention (`semmatch.py`).
#
# | sign | meaning |
# |---|---|
# | h_i, r_i, t_i | of word i: its head, its relation, the word itself (the "tail") |
# | M, S, M_F | matrices, n words of a by m words of b; M̃ the same over tokens |
# | s(x, y), r(x, y) | 1 for equal words, else 0; θ = 2 for equal relations, else 1 |
# | ⊙, ⊕ | the product number by number; concatenation, one vector and then the other |
# | ∝ | equal up to a factor of the row that makes the sum of the weights 1 |
# | Q, K, V, d_k | queries, keys, values (lesson 1), and the size of a query |

# %%
import math

import numpy as np
import torch
from lesson import ROOT, calibrated, came, figure, heat, look, show, slide, train_on, trees
from torch.testing import assert_close

import train
from priors import TfIdf, dependency_matrix, subgraph_similarity, tree_similarity
from semmatch import DafaAttention, calibrated_attention, spread_prior
from support import runs
from support.data import load_pairs
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
trees({"a": a, "b": b})

# %% [markdown]
# ## Trees: Eqs. (1), (2), (3), `tree_similarity`
#
# $$M(i, j) = [s(h_i, h_j) + s(t_i, t_j)] \cdot r(r_i, r_j) \tag{1}$$
# $$s = 1 \text{ for equal words, else } 0 \tag{2}$$
# $$r = \theta = 2 \text{ for equal relations, else } 1 \tag{3}$$

# %%
show(tree_similarity)

# %% [markdown]
# By hand:
#
#     Apple, company (both subjects):    heads equal 1, words 0, relation × 2    →  2
#     Apple, Apple (subject, object):    heads equal 1, words 1, relation × 1    →  2
#     exceeded, exceeded:                ROOT = ROOT 1, words 1, relation × 2    →  4
#     Apple, exceeded:                   nothing                                 →  0
#
# Look at the two 2s. Two different words that are both subjects have 2; one word that is subject here and object
# there has 2 as well. With θ = 2, the paper's value, Eq. (1) cannot tell the two cases apart.

# %%
M = tree_similarity(a, b)
assert M.tolist() == [[2, 0, 2], [0, 4, 0], [2, 0, 2]]

# %% [markdown]
# This is what reaches the model: a number that does not say for which of the two it stands. And half of the 4 is
# there for any two verbs: both are roots, and ROOT = ROOT. Two sentences that have nothing in common have a 2 there.
# The page does not say whether ROOT is a head that two words share; `--without root` says no.

# %%
dogs, rain = (typed_tree(text, [2, 0], ["nsubj", "root"]) for text in ("Dogs bark", "Rain fell"))
assert tree_similarity(dogs, rain).tolist() == [[0, 0], [0, 2]]
assert not tree_similarity(dogs, rain, root=False).any()

# %% [markdown]
# ## Subtrees: Eq. (4), `subgraph_similarity`
#
# $$S(i, j) = \{\alpha\, s(i, j) + \nu\, S(x, y) \mid \text{for all children } x \text{ of } i \text{ and } y
#   \text{ of } j, \text{ if } t_i = t_j \text{ and } r_i = r_j\} \tag{4}$$
#
# Do words match, and what hangs below them? The page's braces are a sum, and S is 0 where the words do not match. α
# and ν are not given in the paper; ours are 1 and ½.
#
# **Guess**: as typeset, "exceeded" of a beside "exceeded" of b, whose children changed places; then a beside itself,
# where the children match, too. Is S of "exceeded" smaller there, the same or larger? Write one of them.

# %%
guess = ...

# %% [markdown]
# Ours has α before the sum:
#
# $$S(i, j) = \alpha + \nu \sum_{x, y} S(x, y) \text{ if } t_i = t_j \text{ and } r_i = r_j, \text{ else } 0$$

# %%
show(subgraph_similarity)

# %% [markdown]
# Between a and b only "exceeded" matches in word and relation. Its children do not (Apple is nsubj here and obj
# there), so ours is 1 in the middle. With itself all three words match: the leaves, which have no children, have 1
# each, and "exceeded" 1 + ½ (1 + 1) = 2.
#
# **As typeset**, α stands *inside* the braces, under "for all children x and y": it counts once for each *pair* of
# children, whatever they are. "exceeded" has 2 on each side, 4 pairs, so S = 4 both times. And a leaf gets nothing
# however well it matches. (Where children have children of their own, the two can differ.)

# %%
S, S_typeset = subgraph_similarity(a, b), subgraph_similarity(a, b, printed=True)
itself, itself_typeset = subgraph_similarity(a, a), subgraph_similarity(a, a, printed=True)
assert S.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]] and itself.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 1]]
assert itself_typeset.tolist() == [[0, 0, 0], [0, 4, 0], [0, 0, 0]] == S_typeset.tolist()
came(guess, "the same", f"{S_typeset[1, 1]:g} and {itself_typeset[1, 1]:g}; ours {S[1, 1]:g} and {itself[1, 1]:g}")

figure("S, as intended, knows a from b",
       heat("a with itself", a.words, a.words, itself, top=4), heat("a and b", a.words, b.words, S, top=4))
figure("S, as typeset, does not",
       heat("a with itself", a.words, a.words, itself_typeset, top=4),
       heat("a and b", a.words, b.words, S_typeset, top=4))

# %% [markdown]
# ## The matrix: Eq. (5), `dependency_matrix`
#
# $$M_F(i, j) = |M(i, j) + S(i, j)| \cdot tf_i \cdot tf_j \tag{5}$$

# %%
show(dependency_matrix)

# %% [markdown]
# tf is **tf-idf**: how often a word is in this sentence, times a number that is larger the rarer it is elsewhere.
# The paper cites one and prints none. Ours (`TfIdf`) has mean 1 in each sentence, so that a typical word changes nothing.
# In these two sentences all words are equally rare, all tf are 1, and M_F = M + S.

# %%
tfidf = TfIdf([a.words, b.words])
tf_a, tf_b = tfidf.weights(a.words), tfidf.weights(b.words)
M_F = dependency_matrix(a, b, tf_a, tf_b)

assert_close(torch.from_numpy(tf_a), torch.ones(3, dtype=torch.float64))
assert M_F.tolist() == [[2, 0, 2], [0, 5, 0], [2, 0, 2]]

# %% [markdown]
# **The paper's own pairs** (Figure 1 and Table 7), with the parser that ships with this project. In the first three,
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

x, y = cases[1]
trees({"to Seattle": parses[x], "to New York": parses[y]})
figure("From New York to Seattle, and back: where the cities change places, M_F is small",
       heat("M_F", parses[x].words, parses[y].words, matrices[1], "sentence b", "sentence a"))

# %% [markdown]
# What does the matrix say of New York and Seattle? Look for "from" in both trees: it hangs on the city behind it,
# and that is another one in each sentence. Eq. (1) then loses the 1 of the equal heads. The cell of a word that
# stands in both sentences with one relation is 4 where the heads are equal too, and 2 where they are not.

# %%
M = tree_similarity(parses[x], parses[y])
for word in ("book", "flight", "from", "to"):
    i, j = (parses[text].words.index(word) for text in (x, y))
    heads = [("ROOT", *parses[text].words)[parses[text].heads[k]] for text, k in ((x, i), (y, j))]
    print(f"M({word}, {word}) = {M[i, j]:g}; heads: {heads[0]}, {heads[1]}")
    assert M[i, j] == (4 if heads[0] == heads[1] else 2)

# %% [markdown]
# And the pair that means the same in other words, *got sick* and *was taken ill*? As the line above says, most cells
# are zero, and the largest is that of the two commas. So the paper wants a gate that can shut the trees out.
#
# ## From words to tokens: `spread_prior`
#
# M_F has n × m cells, one for each word of a and word of b. Attention has L × L, one for each pair of tokens of the
# packed pair. "We change the dimension of M_F by adding 1, and ensure each element is in the corresponding
# position" is all that § 2.2 says. We read it as M̃ = 1 + M_F between the sentences, a × b and, transposed, b × a,
# and 1 elsewhere. 1 will mean: as plain attention has it.

# %%
show(spread_prior)
word_index = torch.tensor([[-1, 0, 1, 2, -1, 0, 1, 2, -1]])         # [CLS] a a a [SEP] b b b [SEP]
segment = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1]])
M_tilde = spread_prior(1 + torch.from_numpy(M_F)[None], word_index, segment, 1.0)[0]
tokens = ["[CLS]", *a.words, "[SEP]", *b.words, "[SEP]"]

assert_close(M_tilde, M_tilde.T)
assert M_tilde[1, 5] == 3 and M_tilde[1, 2] == 1                    # Apple with company of b; with a's own "exceeded"

figure("The matrix stands where one sentence looks at the other; elsewhere is 1",
       heat("M̃ = 1 + M_F", tokens, tokens, M_tilde))

# %% [markdown]
# ## Calibration: Eq. (6), `calibrated_attention`
#
# $$Dep = \mathrm{softmax}\left(\frac{Q K^\top \odot M_F}{\sqrt{d_k}}\right) V \tag{6}$$
#
# is what the page has. Ours:
#
# $$\mathrm{weight}_{ij} \propto \tilde M_{ij} \exp\left(\frac{q_i \cdot k_j}{\sqrt{d_k}}\right)$$

# %%
show(calibrated_attention)

# %% [markdown]
# **Guess**: a word's score is -1, and its entry of M_F is 3, the largest of the row. On the page, does its weight
# rise or fall by that? Write "rises" or "falls", then run on.

# %%
guess = ...

# %% [markdown]
# The page multiplies *scores*. That strengthens what is positive. But a score can be negative, and a negative
# number times 3 is more negative: the word with the largest entry gets the *smallest* weight. Two keys with the
# scores s and 0; M_F is 3 for the first, so that M̃ is 4. Typeset: its weight is σ(3 s). Ours multiplies *weights*:
# σ(s + ln 4), which is more than σ(s) for every s. At s = -1: plain 0.269, typeset 0.047, ours 0.595.

# %%
def weight(s, entry, printed):
    """The weight of the first of two keys, of scores s and 0. entry: M_F, as typeset, or M̃."""
    return calibrated([s, 0.0], [entry, 1.0], printed)[0].item()


assert_close([weight(-1.0, 1.0, False), weight(-1.0, 3.0, True), weight(-1.0, 4.0, False)], [0.2689, 0.0474, 0.5954],
             atol=1e-4, rtol=0)
scores = [-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0]
lines = {"plain attention": [weight(s, 1.0, False) for s in scores],
         "M_F = 3 as typeset": [weight(s, 3.0, True) for s in scores],
         "M̃ = 4, ours": [weight(s, 4.0, False) for s in scores]}
for s, plain, typeset, ours in zip(scores, *lines.values()):
    assert ours > plain and (typeset < plain) == (s < 0)
came(guess, "falls", f"from {weight(-1.0, 1.0, False):.3f} to {weight(-1.0, 3.0, True):.3f}")
slide("A large entry should strengthen a word, whatever its score", "score before calibration", scores, lines)

# %% [markdown]
# **Repair it.** M_F is to "strengthen the attention weight of same dependency". Change the line until `claim` is
# True. <details><summary>Answer</summary> `return sigmoid(score + math.log(1 + entry))`: the weight is multiplied,
# not the score.</details>

# %%
def claim(weigh):
    """A larger entry means a larger weight, whatever the score."""
    return all(weigh(s, 0.0) < weigh(s, 1.0) < weigh(s, 3.0) for s in scores)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def mine(score, entry):
    return sigmoid(score * entry)                                   # repair this line


print(f"claim is {claim(mine)} of your line")
assert claim(lambda score, entry: weight(score, 1 + entry, False))
assert not claim(lambda score, entry: weight(score, entry, True))

# %% [markdown]
# ## Guided attention: Eq. (7), `guided_attention`
#
# $$\delta_i = \tanh(W_D Dep \oplus (W_s s_i + b)), \qquad d^*_i = Dep\,\mathrm{softmax}(w\,\delta_i + b)$$
# $$\gamma_i = \tanh(W_S Sem \oplus (W_{d^*} d^*_i + b)), \qquad
#   s^*_i = Sem\,\mathrm{softmax}(w\,\gamma_i + b) \tag{7}$$
#
# Now there are two signals: Sem of plain attention and Dep of calibrated attention. Each semantic vector s_i is a
# **guide** that looks through Dep, and then the other way round. Lesson 2 has the lines, and works two tokens out by
# hand. As in DABERT's Eq. (5), ⊕ before the tanh makes the score a sum of one number of the value and one of the
# guide, and the guide's cancels in the softmax: as typeset, *all tokens get the same vector*.
#
# ## The gates: Eqs. (8) and (9), `gated_fusion`, `filtration_gate`
#
# $$\hat d_i = \tanh(W d^*_i + b), \qquad \hat s_i = \tanh(W s^*_i + b)$$
# $$g_i = \sigma(W_g (\hat d_i \oplus \hat s_i)), \qquad v_i = g_i \hat s_i + (1 - g_i)\, \hat d_i \tag{8}$$
# $$f_i = \sigma(W_f (s_i \oplus (W_v v_i + b))), \qquad l_i = f_i \tanh(W_l v_i + b) \tag{9}$$

# %%
show(DafaAttention.fuse)

# %% [markdown]
# Lesson 2 has the lines of both gates and works them out by hand. The paper's Table 7 shows f: about 0.9 where the
# trees help, and 0.15 and 0.11 where they mislead (*got sick*, *Lake Superior*). But Eq. (9) puts l_i in the place of
# s_i. With f = 0.1 nine tenths of what attention hands on are gone, and it is not the *semantic* signal that is left.
# We return s_i + l_i, so that f = 0 is plain BERT.
#
# ## A trained model: what the trees are for
#
# The run that ships with the project is DAFA on all of the toy world: seven phenomena, every pair with a twin that
# has the same words and the other label, so that chance is 50. In "prepositions" it matters which word stands
# behind "from", "to" or "instead of"; in "roles" and "voice" who does something to whom; in "synonyms" which word.
# It was trained longer than what `docs/log.md` compares, plain BERT and DAFA with eight epochs each, three seeds;
# the cell below reads their means there.
#
# **Guess**: the run answers once more, and all entries of the matrix are alike, so that it knows nothing of trees.
# In which of "roles", "voice", "prepositions" and "synonyms" does it stay farthest above chance? Write one of them.

# %%
guess = ...

# %%
folder, page = ROOT / "assets/toy-dafa", (ROOT / "docs/log.md").read_text("utf-8")
run, stored = train.open_run(folder, device="cpu"), runs.read_result(folder)["metrics"]["dev"]
lines = [[cell.strip() for cell in line.split("|")]
         for line in page[page.index("| | all | unseen words |"):].splitlines()[:7]]
bert, dafa = (dict(zip(lines[0], line)) for name in ("bert", "dafa") for line in lines if line[1] == name)
dev, untold = load_pairs(run.settings)[1]["dev"], {}
for name in ("roles", "voice", "prepositions", "synonyms"):
    found = run.influence([pair for pair in dev if pair.group == name])
    change = found["changes"]["no prior"]
    untold[name] = change["score"]
    print(f"{name:13} three seeds: BERT {bert[name]}, DAFA {dafa[name]}; this run: {100 * found['score']:.1f}, "
          f"without its matrix {100 * change['score']:.1f}, {100 * change['answers']:.0f} % of the answers change")
    assert abs(found["score"] - stored[name]) < 0.03                # as its file says
came(guess, max(untold, key=untold.get), "there a word decides, not its place in the tree")

assert untold["synonyms"] > 0.6 > max(untold["roles"], untold["voice"], untold["prepositions"])

# %% [markdown]
# That is the gain, phenomenon by phenomenon: where the words are the same and the tree decides, plain BERT stays near
# 50, and DAFA is there too when its matrix is taken out. Where a word decides, plain BERT is as good; that this run
# falls there, too, without its matrix shows that it leans on it, not that it needs it. Over all phenomena three seeds
# have 13.4 points more with DAFA than with BERT (95 % interval 3.6 to 23.2).
#
# What did the matrix do to attention? `DafaAttention`, which computes Eqs. (6) to (9) in BERT's first layer, tells
# in its trace.

# %%
pair = next(pair for pair in dev if pair.group == "prepositions")
seen = look(run, pair.a, pair.b)
print(f"p(same) {seen.probability:.2f}   {pair.a}   {pair.b}")
layer = seen.trace["layer0"]
cut = seen.tokens.index("[SEP]")
rows, columns = seen.tokens[1:cut], seen.tokens[cut + 1:-1]


def between(weights):
    """The mean of the heads, tokens of a by tokens of b."""
    return weights[0].mean(0)[1:cut, cut + 1:-1]


plain_map, dep_map = between(layer["attention"]), between(layer["calibrated"])
print(f"share of attention that goes to the other sentence: {plain_map.sum(-1).mean():.2f} before calibration, "
      f"{dep_map.sum(-1).mean():.2f} after")
for gate in "gf":
    print(f"gate {gate}: {layer[gate].min():.2f} to {layer[gate].max():.2f}")
assert dep_map.sum() > plain_map.sum()         # entries of M̃ are 1 or more: what is between the sentences gains

top = max(plain_map.max(), dep_map.max())
figure("Trees move attention to the words that play the same part",
       heat("before", rows, columns, plain_map, "sentence b", "sentence a", top=top),
       heat("calibrated", rows, columns, dep_map, "sentence b", "sentence a", top=top))

# %% [markdown]
# By Eq. (6) attention moves to the other sentence: entries of M̃ are 1 or more there. The gates say how much of that
# is used: f, how far the fused signal is let in; 1 - g, how much of it is Dep. Here f is 1.00 for every token, and g
# below 0.2: nothing is filtered, and most of what comes in is Dep. The paper's 0.11 to 0.93 are not seen here.
#
# ## As typeset: a world that trees decide
#
# "The tired nurse praised Anna in the park." and "In the park, the tired nurse praised Anna." mean the same; "In the
# park, Anna praised the tired nurse." does not. Chance is 50 again. 800 pairs, random weights, eight epochs, three
# models: DAFA; DAFA with Eqs. (4), (6), (7) and (9) as typeset; plain BERT. (`ATTENTION_SIZE`, the width of guided
# attention, is 16, not 128.)

# %%
frames = {"roles": (("event", "{x} {event.past} {y} {when}", "{when}, {x} {event.past} {y}"),)}
settings = {"epochs": 8, "batch_size": 16, "lr": 2e-3}
_, told = train_on(frames, "dafa", set="ATTENTION_SIZE=16", **settings)
train_on(frames, "dafa", set="ATTENTION_SIZE=16", printed="all", **settings)
_, plain = train_on(frames, "bert", **settings)

assert told["score"] > plain["score"] + 0.1 and told["changes"]["no prior"]["score"] < 0.65

# %% [markdown]
# Accuracies of five seeds, with one thread:
#
# | seed | 0 | 1 | 2 | 3 | 4 | mean |
# |---|---|---|---|---|---|---|
# | DAFA | 99.2 | 85.0 | 86.7 | 86.7 | 84.2 | 88.4 |
# | the same model, which answers without its matrix | 50.0 | 50.8 | 50.0 | 50.8 | 50.0 | 50.3 |
# | DAFA as typeset | 89.2 | 97.5 | 83.3 | 95.8 | 92.5 | 91.7 |
# | plain BERT | 58.3 | 65.0 | 64.2 | 67.5 | 57.5 | 62.5 |
#
# With each seed DAFA learns what plain BERT does not learn in these steps: 25.9 points more (95 % interval 14.8 to 36.9),
# and without its matrix it is at chance. Here trees do the work. As typeset it learns as well, and is at chance without
# its matrix, too; 3.3 points more (-8.6 to 15.2) say nothing. Queries and keys are learned, and training can turn the
# sign of a score that (6) would weaken. A defect that you can prove in an equation need not show in an accuracy.
#
# This world was made for trees, and the encoder starts from random weights. With pre-trained weights, five seeds gave
# +1.8 points on MRPC's test, with an interval from +0.2 to +3.4, and -0.1 on SICK's, from -0.7 to +0.6: little that
# one could rely on. As the average of both attentions in every layer, a form of ours, DAFA gains 1.0 points over four
# test sets (+0.7 to +1.2). The same model with other pairs' trees keeps 0.4 (-0.2 to +0.9) of that: a pair's own trees
# are worth 0.6 more (+0.1 to +1.1; `docs/results.md`).
#
# ## Summary
#
# - Eqs. (1) to (3) compare words, heads and relations of two trees; (4) adds what hangs below; (5) weighs by rarity.
# - (4) as typeset counts pairs of children and gives leaves nothing; leaves that exchange their roles look
#   the same to it.
# - (6) as typeset multiplies scores, and a negative score times a large entry is a *smaller* weight. Ours multiplies
#   weights.
# - (7) as typeset does not hear its guide; (9) as typeset closes on the semantic signal too.
#
# ## Five questions
#
# 1. What is M(Apple, company) where both are subjects of "exceeded", and what M(Apple, Apple) where one is subject
#    and one object? <details><summary>Answer</summary> (1 + 0) · 2 = 2, and (1 + 1) · 1 = 2. θ = 2 ties them.
#    </details>
# 2. Two equal leaves hang on different heads by the same relation. What is S of them, ours and as typeset?
#    <details><summary>Answer</summary> Ours α = 1; as typeset 0, for there is no pair of children.</details>
# 3. A score is -2 and the entry of M_F is 3. What does the page make of the score, what do we make of the weight?
#    <details><summary>Answer</summary> The page has -6, so that the weight falls. Ours, M̃ = 4, adds ln 4 = 1.39:
#    the weight rises.</details>
# 4. Why must M̃ be 1, not 0, between [CLS] and a word? <details><summary>Answer</summary> Weights are multiplied by
#    M̃. 1 leaves plain attention; 0 would forbid [CLS] to read any word.</details>
# 5. f is 0. What does attention add to the token, ours and as typeset? <details><summary>Answer</summary> s, as in
#    plain BERT; as typeset nothing: the residual alone goes on.</details>
#
# ## Try it
#
# 1. `python -m experiments.influence assets/toy-dafa` also gives each pair another pair's matrix. Is a wrong matrix
#    better than none? <details><summary>Answer</summary> Neither is of use: without the right trees it is near chance
#    where trees decide.</details>
# 2. Train with `python train.py --model dafa --printed 6`. Which sign have the scores of aligned words? (They are the
#    logarithms of `trace["layer0"]["attention"]`, up to a constant of each row.) <details><summary>Answer</summary>
#    Either one: nothing holds them above 0. On MRPC, too, the printed form was as good as ours within what three seeds
#    can show (`docs/log.md`).</details>
# 3. Take θ = 3 in `tree_similarity(a, b, 3.0)`. Which tie of the first pair does that break, and in whose favour?
#    <details><summary>Answer</summary> Apple and company, in one role, now have 3; Apple and Apple still 2. The role
#    wins.</details>
