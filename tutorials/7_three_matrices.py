# %% [markdown]
# # 7. Three ways to hand BERT a matrix
#
# **The question.** Something is known of each word of a and each word of b: a number, so a matrix. Three methods
# give BERT's attention such a matrix: UERBERT, a neighbour that the fusion papers' tables compare with; DAFA
# (lesson 3); and knowledge (lesson 4). All three multiply *scores* by it. What happens where a score is negative?
#
# > "we directly inject knowledge into BERT's multi-head attention mechanism" (Xia et al., UERBERT, Abstract)
#
# | sign | meaning |
# |---|---|
# | q_i·k_j, √d_k | how well key j answers query i; what scores are divided by |
# | S, M_F, K | the matrix of UERBERT, of DAFA, of knowledge; ⊙ is the product number by number |
# | M̃, K̃ | 1 + M_F; K divided by its mean |

# %%
import math

import torch
from lesson import ROOT, calibrated, came, figure, heat, show, slide, trees
from torch.testing import assert_close

import train
from bert_min import BertConfig, split_heads
from comparators import UerbertAttention, similarity_matrix
from priors import Table, dependency_matrix, relation_matrix
from semmatch import calibrated_attention, relation_indicator
from support.toy import LEXICON

# %% [markdown]
# ## What each matrix says
#
# | | an entry | from | where nothing is known | within a sentence |
# |---|---|---|---|---|
# | S, UERBERT | 0 to 1: 1 for synonyms *and antonyms*, else how near WordNet has the words | a lexicon | 0 | 1 |
# | M_F, DAFA | 0 to about 10: do words, heads, subtrees agree? | two trees | 0 | 1 |
# | K, knowledge | 0 to 1: a softmax of products of states; a relation adds γ | a lexicon, the model | small | 1 |
#
# S is the only one that we have not seen yet. The lines:

# %%
show(similarity_matrix)

# %% [markdown]
# *Sofa* and *couch* are synonyms, *bought* and *purchased* are; *a* is a stop word. *Anna* is not in this lexicon,
# and equal. *Red* and *blue* are two colors: two words one step below what they share, 2·1 / (1 + 1 + 2·1) = ½.

# %%
a, b = "Anna bought a red sofa".split(), "Anna purchased a blue couch".split()
lexicon = Table({"synonym": [("bought", "purchased"), ("sofa", "couch")], "cohyponym": [("red", "blue")]})
S = similarity_matrix(a, b, lexicon.facts(a), lexicon.facts(b))

assert S.diagonal().tolist() == [1, 1, 0, 0.5, 1] and S.sum() == 3.5

# %% [markdown]
# ## What the pages do with it
#
# $$\mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}} \odot S\right) V \qquad
#   \mathrm{softmax}\left(\frac{Q K^\top \odot M_F}{\sqrt{d_k}}\right) V \qquad
#   \mathrm{softmax}\left(\frac{Q K^\top \odot K_{prior}}{\sqrt{d_k}}\right) V$$
#
# It is one formula with three matrices. Ours is, for all three,
#
# $$\mathrm{weight}_{ij} \propto P_{ij} \exp\left(\frac{q_i \cdot k_j}{\sqrt{d_k}}\right)$$
#
# with P = (1 + S) / 2, 1 + M_F, or K / mean(K). One function has both:

# %%
show(calibrated_attention, UerbertAttention.spread)

# %% [markdown]
# **By hand.** A query finds three keys: an unlike word of the other sentence with the score 1, a *related* one with
# the score -1, and [SEP] with the score 0. Plain attention gives them e, 1/e and 1, divided by their sum 4.086:
# 0.665, 0.090, 0.245. The related word is the one to be strengthened.
#
#                    matrix              page: e to the power of       ours: factors of e, 1/e, 1
#     UERBERT        S   0, 1, 1         0, -1, 0                      ½, 1, 1
#     DAFA           M_F 0, 2, 1         0, -2, 0                      1, 3, 1
#     knowledge      K   0.2, 0.6, 1     0.2, -0.6, 0                  0.5, 1.5, 1   (the mean of 0.2, 0.6 is 0.4)

# %%
scores = [1.0, -1.0, 0.0]
tried = {"plain": ([1.0, 1, 1], False, [0.665, 0.090, 0.245]),
         "UERBERT, page": ([0.0, 1, 1], True, [0.422, 0.155, 0.422]),
         "UERBERT, ours": ([0.5, 1, 1], False, [0.498, 0.135, 0.367]),
         "DAFA, page": ([0.0, 2, 1], True, [0.468, 0.063, 0.468]),
         "DAFA, ours": ([1.0, 3, 1], False, [0.564, 0.229, 0.207]),
         "knowledge, page": ([0.2, 0.6, 1], True, [0.441, 0.198, 0.361]),
         "knowledge, ours": ([0.5, 1.5, 1], False, [0.467, 0.190, 0.344])}
for name, (entries, typeset, wanted) in tried.items():
    found = calibrated(scores, entries, typeset)
    print(f"{name:16}", found.numpy().round(3))
    assert_close(found, torch.tensor(wanted), atol=1e-3, rtol=0)

# %% [markdown]
# On the page of DAFA the related word gets 0.063: *less* than the 0.090 that it has without any matrix. UERBERT's
# and knowledge's pages seem to do better, but for another reason: a factor below 1 pulls a score towards 0. It
# lowers the *unlike* word's 1, and knowledge's 0.6 raises the related word's -1.
#
# **Guess**: turn the one entry of the related word up from 0 to 1. On the page, does its weight rise or fall? Write
# "rises" or "falls", then run on.

# %%
guess = ...

# %%
entries = [0.0, 0.25, 0.5, 0.75, 1.0]
lines = {"page, score -1": [calibrated(scores, [0.5, x, 1], True)[1] for x in entries],
         "ours, score -1": [calibrated(scores, [0.75, 0.5 + 0.5 * x, 1])[1] for x in entries]}
assert all(x > y for x, y in zip(lines["page, score -1"], lines["page, score -1"][1:]))
assert all(x < y for x, y in zip(lines["ours, score -1"], lines["ours, score -1"][1:]))
came(guess, "falls", "in all three: the score is negative")
slide("The more similar, the less attention: a product with a negative score", "its entry of S", entries, lines)

# %% [markdown]
# **Repair it.** Change the line until `claim` is True. <details><summary>Answer</summary>
# `return torch.tensor([1.0, score + math.log((1 + entry) / 2), 0.0]).softmax(-1)[1]`, or a sum with anything that
# rises with the entry.</details>

# %%
def claim(weigh):
    """The larger its entry, the larger a word's weight, whatever its score."""
    return all(weigh(s, x) < weigh(s, y) for s in (-1.0, 0.0, 1.0) for x, y in zip(entries, entries[1:]))


def mine(score, entry):
    return torch.tensor([1.0, score * entry, 0.0]).softmax(-1)[1]   # repair this line


print(f"claim is {claim(mine)} of your line")
assert claim(lambda s, x: torch.tensor([1.0, s + math.log((1 + x) / 2), 0.0]).softmax(-1)[1])

# %% [markdown]
# **What a 0 does.** On the page it makes the score 0, not the weight: the unlike word keeps e⁰. If weights were
# multiplied by S itself, a 0 would *forbid*, and all stop words of the other sentence are 0. That is why ours is
# (1 + S) / 2, as DAFA's is 1 + M_F: an unlike word keeps a half. With S = 1 everywhere nothing changes.
# (`FLOOR`, ½ by default, is what is kept: `--set FLOOR=0` forbids.)

# %%
index, segment = torch.tensor([[0, 1, 0, 1]]), torch.tensor([[0, 0, 1, 1]])
config, some = BertConfig(8, 4, 1, 1, 4, 8), torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
kept = UerbertAttention(config).spread(some, index, segment).exp()[0]

assert kept.tolist() == [[1, 1, 0.5, 1], [1, 1, 1, 0.5], [0.5, 1, 1, 1], [1, 0.5, 1, 1]]

# %% [markdown]
# ## Are there negative scores?
#
# The run that ships with the project, DAFA on the toy world, has learned its queries and keys. How many of its scores
# between the sentences are negative, in the layer that the matrix is for?

# %%
run = train.open_run(ROOT / "assets/toy-dafa", device="cpu")
first, second = "Anna bought a red sofa.", "Anna purchased a blue couch."
batch, _ = run.examples([(first, second)]).collate([0])
attention = run.model.bert.layers[0].attention
with torch.inference_mode():
    hidden = run.model.bert.embeddings(batch["input_ids"], batch["segment"])
    q, k = (split_heads(part(hidden), attention.heads) for part in (attention.query, attention.key))
    across = batch["segment"][0, :, None] != batch["segment"][0]
    scores = (q @ k.transpose(2, 3))[0][:, across]
negative = (scores < 0).float().mean().item()
print(f"{100 * negative:.0f} % of {scores.numel()} scores between the sentences are negative")

assert 0.2 < negative < 0.8

# %% [markdown]
# So for a large share of the pairs of tokens here the formula, as typeset, turns the matrix around. This is one
# pair and a small model; count it in your own run.
#
# ## Side by side
#
# The same pair in all three, with the toy world's lexicon and the parser that ships. Knowledge's K needs hidden
# states; shown is what it starts from, is any relation known?

# %%
parses = [run.reader.parses[text] for text in (first, second)]
words = [parse.words for parse in parses]
toy = Table(LEXICON)
facts = [toy.facts(part) for part in words]
tf = [run.reader.tfidf.weights(part) for part in words]
matrices = {"S, UERBERT": similarity_matrix(*words, *facts), "M_F, DAFA": dependency_matrix(*parses, *tf),
            "I, knowledge": relation_indicator(torch.from_numpy(relation_matrix(*facts))[None])[0].float().numpy()}
for name, matrix in matrices.items():
    best = [(matrix[i, j], f"{words[0][i]}-{words[1][j]}") for i, j in zip(*matrix.nonzero())]
    print(f"{name:13}", ", ".join(f"{pair} {x:.2g}" for x, pair in sorted(best, reverse=True)[:7]))
trees({"a": parses[0], "b": parses[1]})

sofa, couch = words[0].index("sofa"), words[1].index("couch")
assert [matrix[sofa, couch] for matrix in matrices.values()] == [1, 0, 1]
assert matrices["M_F, DAFA"][0, 0] == matrices["M_F, DAFA"].max() > 2      # Anna: one word, one place

figure("Words, structure, relations: three matrices of one pair",
       *(heat(name, *words, matrix, "sentence b", "sentence a") for name, matrix in matrices.items()))

# %% [markdown]
# UERBERT and knowledge know *sofa* and *couch*, and take *red* and *blue* for related, which here is the difference.
# DAFA compares words as they stand: nothing for *sofa* and *couch*, but most for *Anna*, one word in one place of
# both trees, and much for *bought* and *purchased*, which are both roots. Lexicons do not say who does what; trees
# do not say what words mean.
#
# ## Summary
#
# - UERBERT, DAFA and knowledge are one formula with three matrices: of words, of trees, of relations.
# - As typeset the matrix multiplies scores. Where a score is negative, a larger entry means a smaller weight.
# - Ours multiplies weights: a larger entry never lowers its own weight.
# - A 0 on the page makes a score 0; a weight times 0 would be forbidden. So ours has 1 + M_F and (1 + S) / 2.
# - UERBERT gives antonyms the 1 of synonyms: it says where to look, not whether the meaning is the same.
#
# ## Five questions
#
# 1. S is 1 everywhere. What does UERBERT do? <details><summary>Answer</summary> On the page and in ours: plain
#    attention.</details>
# 2. All scores are 0. What do the pages do? And ours? <details><summary>Answer</summary> The pages: nothing, 0
#    times anything is 0. In ours weights are in proportion to the entries.</details>
# 3. K_prior of sentences of ten words averages 0.1. Why does that weaken all scores on the page, and not in ours?
#    <details><summary>Answer</summary> A score of 2 becomes 0.2. We divide K by its mean, and 1 leaves a weight as
#    it is.</details>
# 4. Why is S = 0 for *not*, and 1 for *never* and *ever*? <details><summary>Answer</summary> *not* is a stop word:
#    UERBERT cannot point at it. *never* is none of them; in WordNet it is the antonym of *ever*.</details>
# 5. Which of the three changes when the model learns? <details><summary>Answer</summary> K alone: it is made of
#    hidden states. S and M_F are computed once.</details>
#
# ## Try it
#
# 1. Train UERBERT on the toy world with `--printed product`, and without. <details><summary>Answer</summary>
#    `python -m experiments.compare --model uerbert --vary printed none product`. We have not run it. In lessons 2 to 6
#    no printed form was worse with every seed, so take several before you believe a difference.</details>
# 2. Write S into DAFA's place: a class of your own whose `PRIOR` is `similarity_matrix`. <details>
#    <summary>Answer</summary> Subclass DafaAttention, set PRIOR and NEEDS as UerbertAttention does; its spread
#    computes 1 + S.</details>
# 3. Make antonyms 0 in S. On which frames of the toy world should that help? <details><summary>Answer</summary>
#    Those whose meaning turns with one word; there a 1 for antonyms points at the right place, too, and only the
#    layers above can tell what it means.</details>
