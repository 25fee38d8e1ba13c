# %% [markdown]
# # 4. External knowledge: what a lexicon knows of two words
#
# **The question.** "The farmer grows wheat" and "the farmer grows corn" do not mean the same. If training never showed
# that wheat and corn are two things of one kind, how can a model know it? How can a lexicon tell attention?
#
# > "Can machines learn all the knowledge necessary to perform semantic relevance detection tasks based on this data
# > alone?" (Li and Yuan, Using External Knowledge, Abstract)
#
# The relations have names: **synonyms** mean the same (sick, ill), **antonyms** mean the opposite (hot, cold). Animal
# is a **hypernym** of dog, and dog a **hyponym** of animal. Dog and cat, with one hypernym, are **co-hyponyms**. For
# word i of a and word j of b, a vector k_ij has yes or no for each relation. Eqs. (1) to (4) make a matrix K_prior of
# these vectors. In Eq. (5) this matrix **calibrates** attention, that is, it changes the weights.
#
# | sign | meaning |
# |---|---|
# | k_ij, I, γ | the relations of words i and j; 1 if there is any relation, else 0; what a relation adds to a score |
# | h_i, d | the hidden state of token i, and how many numbers it has |
# | s_ij, ω | a score; the weights of the scores |
# | K_prior, K̃ | the mean of the weights in both directions; K_prior divided by its mean, so that 1 is the average |
# | n, m, R | the words of a; the words of b; the relations |

# %%
from lesson import *     # torch, math, F, assert_close, check, ...
from priors import relation_matrix
from semmatch import knowledge_scores, spread_prior
from support.lexicon import Table
begin(4)

# %% [markdown]
# ## What is known: Eq. (2)
#
# $$I(k_{ij}) = 1 \text{ if } k_{ij} \text{ indicates any relevant relation, else } 0 \tag{2}$$
#
# The page names four relations: "synonyms", "antonyms", "hypernyms" and "hyponyms". None of them holds between wheat
# and corn, its own example. We add co-hyponyms as a fifth. The library finds the relations; `k.any(-1)` is I.

# %%
a, b = ["wheat", "grew"], ["corn", "rotted"]
lexicon = Table({"cohyponym": [("wheat", "corn")], "synonym": [("grew", "thrived")]})
k = torch.from_numpy(relation_matrix(lexicon.facts(a), lexicon.facts(b)))[None]
assert k.any(-1).tolist() == [[[True, False], [False, False]]] and not k[..., :4].any()

# %% [markdown]
# ## A score for each pair of words: Eq. (1)
#
# $$s_{ij} = h_i^\top h_j + G(k_{ij}), \qquad G = \gamma\, I(k_{ij}) \tag{1}$$
#
# h are the hidden states that enter the layer. The paper gives no γ; ours is 1. The page has no division. Then products
# of 1,024 numbers are around ±32, their softmax picks one word (lesson 1), and γ = 1 moves nothing. So divide the
# product by √d, as attention does, and do not divide G. By hand, d = 4:
#
#     wheat = (2, 0, 0, 0)    grew = (2, 2, 0, 0)    corn = (1, 0, 0, 0)    rotted = (0, -1, 0, 0)
#
#     wheat, corn:  2 / 2 + 1 = 2       wheat, rotted:  0       grew, corn:  2 / 2 = 1       grew, rotted:  -2 / 2 = -1
#
# G is a matrix over tokens, from lesson 3's `spread_prior`. For two tokens of one sentence it is -∞.

# %%
hidden = torch.tensor([[[2.0, 0, 0, 0], [2, 2, 0, 0], [1, 0, 0, 0], [0, -1, 0, 0]]])
word_index, segment = torch.tensor([[0, 1, 0, 1]]), torch.tensor([[0, 0, 1, 1]])
G = spread_prior(k.any(-1).float(), word_index, segment, -math.inf)
s = knowledge_scores(hidden, G)
assert s[0, :2, 2:].tolist() == [[2, 0], [1, -1]]

# %% [markdown]
# ## Two softmaxes: Eqs. (3) and (4)
#
# $$\omega^A_{ij} = \frac{\exp(s_{ij})}{\sum_p \exp(s_{ip})}, \qquad
#   c^A_i = \sum_j \omega^A_{ij} h^B_j \tag{3}$$
# $$\omega^B_{ij} = \frac{\exp(s_{ij})}{\sum_p \exp(s_{pj})}, \qquad
#   c^B_j = \sum_i \omega^B_{ij} h^A_i \tag{4}$$
# $$K_{prior} = (\omega^A + \omega^B) / 2$$
#
# Each word of a attends over b, and each word of b over a. The pair is one sequence and s is symmetric, so *one softmax
# over rows* does both: row i of a is ω^A_i, and row j of b is ω^B of column j. By hand, the row of "wheat" is (2, 0),
# with weights 0.881 and 0.119. The row of "grew" is (1, -1): the same. The columns: "corn" is (2, 1), 0.731 and 0.269;
# "rotted" is (0, -1), the same. So K_prior is (0.881 + 0.731) / 2 = 0.806 for wheat and corn, 0.425 for wheat and
# rotted, 0.575 for grew and corn, 0.194 for grew and rotted; the logarithms are -0.216, -0.855, -0.554, -1.640.
#
# **Yours to write**, in logarithms, because very small weights would become 0: use `log_softmax` and `torch.logaddexp`.
# A row without a partner, as that of [CLS], has only -inf and would be nan, so fill in the lowest finite number before
# the softmax (`torch.finfo`, as in lesson 1). ln K_prior is -inf where scores are, and c is 0 without a partner.

# %%
def co_attention(hidden, scores):
    """hidden: (B, L, d), h. scores: (B, L, L), symmetric, -inf where there is no partner.
    Returns: ln K_prior (B, L, L); c (B, L, d), the mean of h over the partners by the weights of a token's row."""
    ...

co_attention = check(co_attention, hidden, s)
ln_K, context = co_attention(hidden, s)
K_prior = ln_K.exp()[0, :2, 2:]
assert_close(K_prior, torch.tensor([[0.8059, 0.4251], [0.5749, 0.1941]]), atol=1e-4, rtol=0)
assert_close(context[0, 0], torch.tensor([0.8808, -0.1192, 0, 0]), atol=1e-4, rtol=0)    # 0.881 corn + 0.119 rotted

# %% [markdown]
# ## Calibration: Eq. (5)
#
# $$O_{sem} = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V, \qquad
#   O_{knw} = \mathrm{softmax}\left(\frac{Q K^\top \odot K_{prior}}{\sqrt{d_k}}\right) V \tag{5}$$
#
# § 3.2 says of a relation that it "boosts the attention score for word pairs possessing a known semantic relationship".
#
# **The page** fails twice. If a score is *negative*, a larger entry makes its weight smaller, as in lesson 3. And rows
# of ω^A sum to 1, so the entries of K_prior have the mean **(1/n + 1/m)/2**, far below 1: *every* score between the
# sentences is moved towards 0. **The repair**: we multiply weights, as in lesson 3, and by K̃. This is K_prior divided
# by its mean over the cells between the sentences. By hand: the mean is ½, so K̃ is 1.612 for wheat and corn, 0.850 for
# wheat and rotted, 1.150 and 0.388 for grew; the logarithms are 0.477, -0.162, 0.140, -0.946.
#
# **Yours to write**, again in logarithms, for lesson 3's `calibrated_attention`. In a pair without any cell between the
# sentences there is nothing to divide by: `clamp` the count and the mean, or gradients become nan.

# %%
def knowledge_factor(ln_K, cross):
    """ln_K: (B, L, L). cross: bool (B, L, L), True between words of both sentences; elsewhere ln_K is -inf.
    Returns: ln K̃ (B, L, L). K̃ has the mean 1 over the cross cells of each pair. In all other cells K̃ is 1, ln K̃ 0."""
    ...

knowledge_factor = check(knowledge_factor, ln_K, G > -math.inf)
K_tilde = knowledge_factor(ln_K, G > -math.inf)[0, :2, 2:].exp()
assert_close(K_tilde, torch.tensor([[1.6119, 0.8503], [1.1497, 0.3881]]), atol=1e-4, rtol=0)

# %% [markdown]
# The fusion, Eqs. (6) to (8), is that of lesson 2, with its defects: as printed, the guide of (6) cancels in the softmax,
# and with f = 0 the page has *no* semantic signal; o^sem + y has all of it.
#
# **What training shows.** When this lesson trained (commit 1bef825), 0 to 50 % of a model's answers changed without the
# lexicon, by the seed. And with pre-trained weights, WordNet and five seeds, *other* pairs' relations gain as much as a
# pair's own (`docs/results.md`). So the gain there does not come from the lexicon.
