# %% [markdown]
# # 4. External knowledge: what a lexicon knows of two words
#
# **The question.** "The farmer grows wheat" and "the farmer grows corn" do not mean the same. If training never
# showed that wheat and corn are two things of one kind, how can a model know? A lexicon knows. How can it tell
# attention?
#
# > "Can machines learn all the knowledge necessary to perform semantic relevance detection tasks based on this data
# > alone?" (Li and Yuan, Using External Knowledge, Abstract)
#
# Words for the relations: **synonyms** mean the same (sick, ill), **antonyms** the opposite (hot, cold); animal is
# a **hypernym** of dog, dog a **hyponym** of animal; dog and cat, with one hypernym, are **co-hyponyms**. What is
# known of word i of a and word j of b is a vector k_ij of yes and no. Eqs. (1) to (4) make a matrix K of it that
# calibrates attention in Eq. (5); the fusion behind it, Eqs. (6) to (8), is that of lessons 2 and 3.
#
# | sign | meaning |
# |---|---|
# | k_ij, I, γ | relations of words i and j; is there any; what a relation adds to a score |
# | h_i, d | hidden state of token i, and how many numbers it has |
# | s_ij, ω, K_prior | a score, weights of scores, their mean in both directions; K̃ is K_prior made 1 on average |
# | n, m, R | words of a and of b; relations |

# %%
import math

import torch
from lesson import begin, check, guessed, mine, reveal, table, train_on
from torch.testing import assert_close

from priors import RELATIONS, Table, relation_matrix

begin(4)
spread_prior, calibrated_attention = mine("spread_prior"), mine("calibrated_attention")

# %% [markdown]
# ## What is known: Eq. (2)
#
# $$I(k_{ij}) = 1 \text{ if } k_{ij} \text{ indicates any relevant relation, else } 0 \tag{2}$$
#
# The page names four: "synonyms", "antonyms", "hypernyms" and "hyponyms". Its own example of two words with a relation
# is wheat and corn. **Guess**: does one of the four hold between wheat and corn, "yes" or "no"?

# %%
guess = ...
reveal("wheat", guess)
a, b = ["wheat", "grew"], ["corn", "rotted"]
lexicon = Table({"cohyponym": [("wheat", "corn")], "synonym": [("grew", "thrived")]})
k = torch.from_numpy(relation_matrix(lexicon.facts(a), lexicon.facts(b)))[None]
print("wheat, corn:", [RELATIONS[r] for r in k[0, 0, 0].nonzero()[:, 0].tolist()])

# %% [markdown]
# **Yours to write**, with all of the last axis' relations: those of the page and co-hyponyms, the fifth.

# %%
def relation_indicator(relations):
    """relations: bool (B, n, m, R). Returns: bool (B, n, m)."""
    ...


relation_indicator = check(relation_indicator, k)
assert relation_indicator(k)[0].tolist() == [[True, False], [False, False]]
assert not relation_indicator(k[..., :4]).any()                     # the page: nothing is known

# %% [markdown]
# ## A score for each pair of words: Eq. (1)
#
# $$s_{ij} = h_i^\top h_j + G(k_{ij}), \qquad G = \gamma\, I(k_{ij}) \tag{1}$$
#
# h are the hidden states that enter the layer; γ is not given, ours is 1. The page has no division. Then products of
# 1,024 numbers are around ±32, their softmax picks one word (lesson 1), and γ = 1 moves nothing. So divide the product,
# not G, by √d, as attention does. By hand, d = 4:
#
#     wheat = (2, 0, 0, 0)    grew = (0, 2, 0, 0)    corn = (1, 0, 0, 0)    rotted = (0, 1, 0, 0)
#
#     wheat, corn:  2 / 2 + 1 = 2       wheat, rotted:  0       grew, corn:  0       grew, rotted:  2 / 2 = 1
#
# G is over tokens, laid out by your `spread_prior`; two tokens of one sentence get -∞, no part.

# %%
def knowledge_scores(hidden, G):
    """hidden: (B, L, d). G: (B, L, L), -inf except between words of both sentences. Returns: (B, L, L)."""
    ...


hidden = torch.tensor([[[2.0, 0, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]])
word_index, segment = torch.tensor([[0, 1, 0, 1]]), torch.tensor([[0, 0, 1, 1]])
G = spread_prior(relation_indicator(k).float(), word_index, segment, -math.inf)
knowledge_scores = check(knowledge_scores, hidden, G)
s = knowledge_scores(hidden, G)
assert s[0, :2, 2:].tolist() == [[2, 0], [0, 1]]

# %% [markdown]
# ## Two softmaxes: Eqs. (3) and (4)
#
# $$\omega^A_{ij} = \frac{\exp(s_{ij})}{\sum_p \exp(s_{ip})}, \qquad
#   c^A_i = \sum_j \omega^A_{ij} h^B_j \tag{3}$$
# $$\omega^B_{ij} = \frac{\exp(s_{ij})}{\sum_p \exp(s_{pj})}, \qquad
#   c^B_j = \sum_i \omega^B_{ij} h^A_i \tag{4}$$
# $$K_{prior} = (\omega^A + \omega^B) / 2$$
#
# Each word of a looks through b, each word of b through a. The pair is one sequence and s is symmetric, so *one softmax
# over rows* is both: row i of a is ω^A_i, row j of b is ω^B of column j. By hand, row "wheat" is (2, 0): weights 0.881
# and 0.119. Row "grew" is (0, 1): 0.269 and 0.731. The columns: "corn" 0.881 and 0.119, "rotted" 0.269 and 0.731. So
# K_prior is 0.881 for wheat and corn, 0.731 for grew and rotted, and (0.119 + 0.269) / 2 = 0.194 for the other two.
#
# **Yours to write**, in logarithms: far weights would underflow to 0 (`log_softmax`, `torch.logaddexp`). A row without
# a partner, such as that of [CLS], must not become nan: fill in the lowest finite number before the softmax. Where the
# scores are -inf, ln K_prior is -inf, too, and a token without a partner finds c = 0.

# %%
def co_attention(hidden, scores):
    """hidden: (B, L, d). scores: (B, L, L), symmetric, -inf where there is no partner.
    Returns: ln K_prior (B, L, L); c (B, L, d), what each token finds in the other sentence."""
    ...


co_attention = check(co_attention, hidden, s)
ln_K, context = co_attention(hidden, s)
K_prior = ln_K.exp()[0, :2, 2:]
assert_close(K_prior, torch.tensor([[0.8808, 0.1941], [0.1941, 0.7311]]), atol=1e-4, rtol=0)
assert_close(context[0, 0], torch.tensor([0.8808, 0.1192, 0, 0]), atol=1e-4, rtol=0)     # 0.881 corn + 0.119 rotted

# %% [markdown]
# ## Calibration: Eq. (5)
#
# $$O_{sem} = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V, \qquad
#   O_{knw} = \mathrm{softmax}\left(\frac{Q K^\top \odot K_{prior}}{\sqrt{d_k}}\right) V \tag{5}$$
#
# **Guess**: wheat's query finds corn, which is related to it, with the score 1, and rotted with 0. By the page's
# product, does corn's weight gain or lose beside plain attention: "gains" or "loses"?

# %%
guess = ...
reveal("related", guess)

# %% [markdown]
# Two things are wrong with the product. A *negative* score times a large entry becomes a smaller weight: that is lesson
# 3's defect. And rows of ω^A sum to 1, so that entries of K_prior average **(1/n + 1/m)/2**, far below 1: *every* score
# between the sentences is pushed towards 0. So multiply weights, as in lesson 3, by K̃, which is K_prior divided by its
# mean over the cells between the sentences. By hand: the mean is ½; K̃ is 1.762 for wheat and corn, 0.388 twice, 1.462.
#
# **Yours to write**, again in logarithms: it goes into your `calibrated_attention`.

# %%
def mean_one(ln_K):
    """ln_K: (B, L, L), -inf except between words of both sentences. Returns: ln K̃ (B, L, L): there K̃ averages
    1 in each pair, elsewhere it is 1, and in a pair without any such cell."""
    ...


mean_one = check(mean_one, ln_K)
K_tilde = mean_one(ln_K)[0, :2, 2:].exp()
assert_close(K_tilde, torch.tensor([[1.7616, 0.3881], [0.3881, 1.4621]]), atol=1e-4, rtol=0)
scores = torch.tensor([1.0, 0.0])
weights = {"plain": scores.softmax(-1), "as printed": (scores * K_prior[0]).softmax(-1),
           "yours": (scores + K_tilde[0].log()).softmax(-1)}
assert_close([x[0].item() for x in weights.values()], [0.7311, 0.7070, 0.9251], atol=1e-4, rtol=0)
table(weights, ["corn", "rotted"], weights.values())

# %% [markdown]
# ## The fusion: Eqs. (6), (7), (8)
#
# $$z_i = \tanh(W O_{knw} \oplus (W o^{sem}_i + b)), \qquad
#   \hat o^{knw}_i = \sum_j \mathrm{softmax}_j(w z_i)\, o^{knw}_j \text{, and back} \tag{6}$$
# $$\tilde o = \tanh(W \hat o + b), \quad g = \sigma(W [\tilde o^{knw}; \tilde o^{sem}] + b), \quad
#   u = g\, \tilde o^{sem} + (1 - g)\, \tilde o^{knw} \tag{7}$$
# $$f = \sigma(W [o^{sem}; u] + b), \qquad y = f \tanh(W u + b) \tag{8}$$
#
# These are `guided_attention`, `gated_fusion` and `filtration_gate` of lesson 2, but for biases in both gates. As written,
# (6) has the defect of lesson 2: the guide cancels in the softmax. The paper's case study (§ 5.3) says that a low gate lets
# "the base PLM's semantic understanding" prevail, "although Equation 8 only shows scaling": with f = 0 the page has y = 0
# and *no* semantic signal; o^sem + y has all of it.
#
# ## The training: Eq. (9)
#
# $$L2Ratio_t = \sigma\left(\frac{(t - L2FullStep/2) \cdot 8}{L2FullStep/2}\right) L2FullRatio \tag{9}$$
#
# A penalty on large weights that grows with the step t. By hand, L2FullStep = 100,000: σ(-8) = 0.0003 of it at first,
# half of it at step 50,000. A run of MRPC has a few hundred steps: there it is nearly 0.

# %%
def l2_ratio(step, full_step, full_ratio):
    """Returns: the ratio at a step, a number. Use math.exp."""
    ...


l2_ratio = check(l2_ratio, 50_000, 100_000, 1.0)
assert_close([l2_ratio(t, 100_000, 1.0) for t in (0, 50_000, 100_000)], [0.0003, 0.5, 0.9997], atol=1e-4, rtol=0)

# %% [markdown]
# ## A trained model: a world that a lexicon decides
#
# "The doctor thanked Anna last week." and "Last week, the physician thanked Anna." mean the same; with "the lawyer"
# they do not. 800 pairs, random weights, nine epochs: `MyKnowledge`, Eqs. (1) to (8) of your functions, with γ = 5, for
# beside products of up to √d = 8 a relation's γ = 1 is little; and plain BERT.
#
# **Guess**: "woman" and "lady" are synonyms in the lexicon, but no pair of training has them. How many of 100 pairs with
# such words does your trained model get right: about 50, 75 or 100?

# %%
guess = ...
guessed("unseen", guess)
frames = {"people": (("same human", "the {x[0]} {treat.past} {name} {time}",
                      "{time}, the {x[1]} {treat.past} {name}"),)}
settings = {"epochs": 9, "batch_size": 32, "lr": 2e-3}
run, told = train_on(frames, "MyKnowledge", set="ATTENTION_SIZE=16,GAMMA=5", **settings)
_, plain = train_on(frames, "bert", **settings)
assert told["score"] > 0.8 and told["unseen"] < 0.65
reveal("unseen", guess)

# %%
first = "The doctor thanked Anna last week."
for second in ("Last week, the physician thanked Anna.", "Last week, the lawyer thanked Anna."):
    print(f"p(same) {run.predict([(first, second)])[0].probabilities['same']:.2f}   {second}")

# %% [markdown]
# What the model knows here hangs on the relations: without them ("no prior") it falls to chance. So a lexicon *can* carry
# all answers. Plain BERT needs none here: it learns which words go together (lesson 1 has the same world). And Eq. (2)
# tells *that* a relation holds, not which: an antonym counts as a synonym does. A γ for each relation, Σ_r γ_r k_ijr in
# the place of γ I(k_ij), could learn that co-hyponyms speak against a match. With pre-trained weights, WordNet and five
# seeds *other* pairs' relations gain as much as a pair's own (`docs/results.md`): what gains there is not the lexicon.
