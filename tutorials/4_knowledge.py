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
# known of word i of a and word j of b is a vector k_ij of yes and no. Eqs. (1) to (4) make a **prior** of it, a
# matrix K, that calibrates attention in Eq. (5); the fusion behind it, Eqs. (6) to (8), is that of lessons 2 and 3.
#
# | sign | meaning |
# |---|---|
# | k_ij, I, γ | relations of words i and j; is there any; what a relation adds to a score |
# | h_i, d | hidden state of token i, and how many numbers it has |
# | s_ij, ω, K_prior | a score, weights of scores, their mean in both directions; K̃ is K_prior made 1 on average |
# | n, m | words of a and of b |

# %%
import torch
from lesson import calibrated, came, figure, heat, look, show, slide, train_on
from torch.testing import assert_close

from priors import RELATIONS, Table, WordNet, relation_matrix
from semmatch import (KnowledgeAttention, co_attention, knowledge_scores, relation_indicator,
                      spread_prior)
from support.toy import LEXICON
from train import l2_ratio

# %% [markdown]
# ## What is known: Eq. (2), `relation_matrix` and `relation_indicator`
#
# $$I(k_{ij}) = 1 \text{ if } k_{ij} \text{ indicates any relevant relation, else } 0 \tag{2}$$

# %%
show(relation_matrix, relation_indicator)

# %% [markdown]
# The paper names four relations: synonyms, antonyms, hypernyms, hyponyms. Its own example is in none of them:
# "wheat" and "corn" are co-hyponyms. As typeset, the indicator of this pair is 0. Ours knows co-hyponyms as a fifth
# relation.

# %%
a, b = ["wheat", "grew"], ["corn", "rotted"]
lexicon = Table({"cohyponym": [("wheat", "corn")], "synonym": [("grew", "thrived")]})
k = torch.from_numpy(relation_matrix(lexicon.facts(a), lexicon.facts(b)))[None]
print("wheat, corn:", [RELATIONS[r] for r in k[0, 0, 0].nonzero()[:, 0].tolist()])

assert relation_indicator(k)[0].tolist() == [[True, False], [False, False]]
assert not relation_indicator(k, printed=True).any()

# %% [markdown]
# ## A score for each pair of words: Eq. (1), `knowledge_scores`
#
# $$s_{ij} = \frac{h_i^\top h_j}{\sqrt{d}} + G(k_{ij}), \qquad G = \gamma\, I(k_{ij}) \tag{1}$$
#
# h are **hidden states**, the vectors that enter the layer, d numbers each; γ is not given, ours is 1.

# %%
show(knowledge_scores)

# %% [markdown]
# Take d = 4, √d = 2:
#
#     wheat = (2, 0, 0, 0)    grew = (0, 2, 0, 0)    corn = (1, 0, 0, 0)    rotted = (0, 1, 0, 0)
#
#     wheat, corn:  2 / 2 + 1 = 2       wheat, rotted:  0       grew, corn:  0       grew, rotted:  2 / 2 = 1
#
# `spread_prior` lays the words over the tokens, here without [CLS] and [SEP]; pairs inside one sentence get -∞, no
# part.

# %%
hidden = torch.tensor([[[2.0, 0, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]])
word_index, segment = torch.tensor([[0, 1, 0, 1]]), torch.tensor([[0, 0, 1, 1]])
G = spread_prior(relation_indicator(k).float(), word_index, segment, float("-inf"))
s = knowledge_scores(hidden, G)

assert s[0, :2, 2:].tolist() == [[2, 0], [0, 1]]
assert knowledge_scores(hidden, G, printed=True)[0, 0, 2] == 3      # without √d: 2 + 1

# %% [markdown]
# ## Two softmaxes: Eqs. (3) and (4), `co_attention`
#
# $$\omega^A_{ij} = \frac{\exp(s_{ij})}{\sum_p \exp(s_{ip})}, \qquad
#   c^A_i = \sum_j \omega^A_{ij} h^B_j \tag{3}$$
# $$\omega^B_{ij} = \frac{\exp(s_{ij})}{\sum_p \exp(s_{pj})}, \qquad
#   c^B_j = \sum_i \omega^B_{ij} h^A_i \tag{4}$$
# $$K_{prior} = (\omega^A + \omega^B) / 2$$
#
# Each word of a looks through b, each word of b through a.

# %%
show(co_attention)

# %% [markdown]
# Row "wheat" is (2, 0): weights 1 / (1 + e⁻²) = 0.881 and 0.119. Row "grew" is (0, 1): 0.269 and 0.731. The
# columns: "corn" 0.881 and 0.119, "rotted" 0.269 and 0.731. So K_prior is 0.881 for wheat and corn, 0.731 for grew
# and rotted, and (0.119 + 0.269) / 2 = 0.194 for the other two. (c^A and c^B are never used again in the paper.)

# %%
log_prior, context = co_attention(hidden, s)
K_prior = log_prior.exp()[0, :2, 2:]

assert_close(K_prior, torch.tensor([[0.8808, 0.1941], [0.1941, 0.7311]]), atol=1e-4, rtol=0)
assert_close(context[0, 0], torch.tensor([0.8808, 0.1192, 0, 0]), atol=1e-4, rtol=0)     # 0.881 corn + 0.119 rotted

# %% [markdown]
# **Why √d.** As typeset, Eq. (1) has no division. Hidden states behind a layer norm have the length √d, so that the
# product of two of them, say in BERT's 768 numbers, is easily ±30. A relation adds γ = 1 to that: nobody hears it.
# The change that a relation makes to its entry of K_prior, for random hidden states of 6 + 6 words, the mean of 200
# pairs:

# %%
def heard(size, printed):
    """How much a relation of the first two words changes their entry of K_prior."""
    h = torch.randn(200, 12, size, generator=torch.Generator().manual_seed(0))
    words = torch.arange(12).expand(200, -1)
    entries = []
    for related in (0.0, 1.0):
        G = torch.zeros(200, 6, 6)
        G[:, 0, 0] = related
        G = spread_prior(G, words % 6, words // 6, float("-inf"))
        entries.append(co_attention(h, knowledge_scores(h, G, printed))[0][:, 0, 6].exp())
    return (entries[1] - entries[0]).mean().item()


sizes = [4, 16, 64, 256, 1024]
lines = {"divided by √d, ours": [heard(d, False) for d in sizes], "as typeset": [heard(d, True) for d in sizes]}
assert lines["as typeset"][-1] < 0.3 * lines["divided by √d, ours"][-1]
slide("Without √d a relation is not heard in wide hidden states", "d, numbers in a hidden state", sizes, lines)

# %% [markdown]
# **What reaches the model.** Two things that the picture does not say. Eq. (2) tells *that* a relation holds, not
# which: an antonym counts as a synonym does, and only the words' vectors can tell them apart. And γ = 1 stands beside
# products that are often larger. A token beside itself, as "." beside ".", has h·h / √d = √d where h has the length
# √d: 8 with 64 numbers, 28 with BERT's 768, and no relation needed. So the largest cells of K_prior need be no
# relations.
#
# ## Calibration: Eq. (5), `calibrated_attention`
#
# $$O_{sem} = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V, \qquad
#   O_{knw} = \mathrm{softmax}\left(\frac{Q K^\top \odot K_{prior}}{\sqrt{d_k}}\right) V \tag{5}$$
#
# is what the page has. Ours:
#
# $$\mathrm{weight}_{ij} \propto \tilde K_{ij} \exp\left(\frac{q_i \cdot k_j}{\sqrt{d_k}}\right)$$
#
# Lesson 3 has the lines of `calibrated_attention`; what it is given is computed here:

# %%
show(KnowledgeAttention.second)

# %% [markdown]
# **Guess**: wheat's query finds corn, which is related to it, with the score 1, and rotted with 0. By the page's
# product, does corn gain or lose beside plain attention? Write "gains" or "loses", then run on.

# %%
guess = ...

# %% [markdown]
# Two things are wrong with the product on the page. A *negative* score times a large entry becomes a smaller
# weight: that is lesson 3's defect. And the rows of ω^A sum to 1, so the entries of K_prior average 1/m, those of
# ω^B 1/n: **(1/n + 1/m)/2** together. All are below 1, so *every* score between the sentences is pushed towards 0,
# the more so the longer they are. We divide by that mean: K̃ averages 1, and words that fit better than the average
# gain. By hand: the mean is ½, and K̃ is 1.762 for wheat and corn, 0.388, and 1.462 for grew and rotted.

# %%
mean = K_prior.mean()
K_tilde = K_prior / mean

assert_close(mean.item(), 0.5)
assert_close(K_tilde, torch.tensor([[1.7616, 0.3881], [0.3881, 1.4621]]), atol=1e-4, rtol=0)

figure("Divided by its mean, the prior strengthens what is above average",
       heat("K_prior", a, b, K_prior, top=2), heat("K̃ = K_prior / mean", a, b, K_tilde, top=2))

# %% [markdown]
# Wheat's query finds two keys of b with the scores 1 (corn) and 0 (rotted): plain attention gives corn σ(1) =
# 0.731. Typeset, the score shrinks to 0.881: σ(0.881) = 0.707, *less* for the related word. Ours: 1.762 e / (1.762
# e + 0.388) = 0.925.

# %%
plain, typeset, ours = (calibrated([1.0, 0.0], entries, printed)[0].item()
                        for entries, printed in (([1.0, 1.0], False), (K_prior[0], True), (K_tilde[0], False)))

assert_close([plain, typeset, ours], [0.7311, 0.7070, 0.9251], atol=1e-4, rtol=0)
came(guess, "loses", f"plain {plain:.3f}, on the page {typeset:.3f}, ours {ours:.3f}")

# %% [markdown]
# **Repair it.** A related word should gain. Change the line until `claim` is True. <details><summary>Answer</summary>
# `return (scores + (K / K_prior.mean()).log()).softmax(-1)`</details>

# %%
def claim(weigh):
    """Words whose entry is above the average gain, whatever their scores; the others lose."""
    tried = [torch.tensor(scores) for scores in ([1.0, 0.0], [-1.0, 0.0], [0.0, 0.0])]
    return all(weigh(scores, K_prior[0])[0] > scores.softmax(-1)[0] for scores in tried)


def mine(scores, K):
    return (scores * K).softmax(-1)                                 # repair this line


print(f"claim is {claim(mine)} of your line")
assert claim(lambda scores, K: (scores + (K / K_prior.mean()).log()).softmax(-1))

# %% [markdown]
# ## The fusion: Eqs. (6), (7), (8)
#
# $$z_i = \tanh(W O_{knw} \oplus (W o^{sem}_i + b)), \qquad
#   \hat o^{knw}_i = \sum_j \mathrm{softmax}_j(w z_i)\, o^{knw}_j \text{, and back} \tag{6}$$
# $$\tilde o = \tanh(W \hat o + b), \quad g = \sigma(W [\tilde o^{knw}; \tilde o^{sem}] + b), \quad
#   u = g\, \tilde o^{sem} + (1 - g)\, \tilde o^{knw} \tag{7}$$
# $$f = \sigma(W [o^{sem}; u] + b), \qquad y = f \tanh(W u + b) \tag{8}$$
#
# `guided_attention`, `gated_fusion` and `filtration_gate` of lesson 2, which has their lines, but for biases in both
# gates; `KnowledgeAttention.fuse` calls them.

# %%
show(KnowledgeAttention.fuse)

# %% [markdown]
# As written, (6) has the defect of lesson 2: the guide cancels in the softmax. The paper's own note, ⊕ "implies
# concatenation then linear layer" (§ 3.4), can mend it: guide and value then meet inside tanh, as in ours. Its
# case study (§ 5.3) says that a low gate lets "the base PLM's semantic understanding" prevail, "although
# Equation 8 only shows scaling": with f = 0 the page has y = 0 and *no* semantic signal. We return o^sem + y.
#
# ## The training: Eq. (9), `train.l2_ratio`
#
# $$L2Ratio_t = \sigma\left(\frac{(t - L2FullStep/2) \cdot 8}{L2FullStep/2}\right) L2FullRatio \tag{9}$$

# %%
show(l2_ratio)

# %% [markdown]
# A penalty on large weights that grows with the step t: σ(-8) = 0.0003 of it at first, half at step 50,000,
# 0.9997 of it at 100,000. A run of MRPC has a few hundred steps; there the penalty is nearly 0.

# %%
share = [l2_ratio(t) / 0.9e-5 for t in (0, 50_000, 100_000)]
assert_close(share, [0.0003, 0.5, 0.9997], atol=1e-4, rtol=0)

# %% [markdown]
# ## The paper's cases
#
# Its Table 4 has the four pairs of DAFA's Table 7 (lesson 3). What does a lexicon say of them? Ours is the small
# one of the toy world; WordNet, where nltk has it (`python -m nltk.downloader wordnet`), is asked as well.

# %%
cases = [("book a flight from New York to Seattle", "book a flight from Seattle to New York"),
         ("How does reading help you think better", "How do you think it is better to read"),
         ("I got sick yesterday", "I was taken ill yesterday"),
         ("The largest lake in America is called Lake Superior", "Lake Superior is the largest lake in America")]
lexicons = {"toy": Table(LEXICON)}
try:
    lexicons["WordNet"] = WordNet()
except ValueError as missing:
    print(missing)
for name, lexicon in lexicons.items():
    for a, b in ((a.split(), b.split()) for a, b in cases):
        k = relation_matrix(lexicon.facts(a), lexicon.facts(b))
        found = [f"{a[i]}-{b[j]} {RELATIONS[r]}" for i, j, r in zip(*k.nonzero()) if a[i].lower() != b[j].lower()]
        print(f"{name:8} {' '.join(a)}: {', '.join(found) or 'no relation of different words'}")

sick = relation_matrix(lexicons["toy"].facts(["sick"]), lexicons["toy"].facts(["ill"]))[0, 0]
assert [RELATIONS[r] for r in sick.nonzero()[0]] == ["synonym"]

# %% [markdown]
# New York and Seattle are related: both are cities. But so they are in the pair with the same meaning: relations of
# *words* do not say who goes where. And the paper guesses (§ 5.3) that its gate is low for *got sick* because
# WordNet has little to say of "sick" and "taken ill". "sick" and "ill" are synonyms, in our lexicon and in WordNet.
#
# ## A trained model: a world that a lexicon decides
#
# "The doctor thanked Anna last week." and "Last week, the physician thanked Anna." mean the same; with "the lawyer"
# they do not. 800 pairs, random weights, six epochs. Beside products of up to √d = 8 the relation's γ = 1 is little:
# here γ is 5. Four models: with the lexicon; told of no relation (γ = 0, our ablation `prior`); with the lexicon, but
# Eqs. (1), (2), (5), (6) and (8) as typeset; plain BERT. (`ATTENTION_SIZE`, the width of guided attention, is 16, not
# 128.)
#
# **Guess**: "woman" and "lady" are synonyms in the lexicon, but no pair of training has them. How many of 100 such
# pairs, with words that it never saw, does the first model get right: about 50, 75 or 100?

# %%
guess = ...

# %%
frames = {"people": (("same human", "the {x[0]} {treat.past} {name} {time}",
                      "{time}, the {x[1]} {treat.past} {name}"),)}
settings = {"epochs": 6, "batch_size": 32, "lr": 2e-3}
run, told = train_on(frames, "knowledge", set="ATTENTION_SIZE=16,GAMMA=5.0", **settings)
_, untold = train_on(frames, "knowledge", set="ATTENTION_SIZE=16", without="prior", **settings)
train_on(frames, "knowledge", set="ATTENTION_SIZE=16,GAMMA=5.0", printed="all", **settings)
_, plain = train_on(frames, "bert", **settings)
came(guess, 50, f"{100 * told['unseen']:.1f}; with words that it knows {100 * told['score']:.1f}")

assert told["unseen"] < 0.65

# %% [markdown]
# Accuracies of five seeds, with one thread:
#
# | seed | 0 | 1 | 2 | 3 | 4 | mean |
# |---|---|---|---|---|---|---|
# | with the lexicon | 100 | 100 | 100 | 51.7 | 100 | 90.3 |
# | the same model, which answers without relations | 50.0 | 50.0 | 100 | 51.7 | 50.0 | 60.3 |
# | told of no relation | 50.8 | 53.3 | 100 | 51.7 | 83.3 | 67.8 |
# | as typeset | 95.8 | 73.3 | 84.2 | 100 | 53.3 | 81.3 |
# | plain BERT | 83.3 | 50.8 | 100 | 100 | 51.7 | 77.2 |
#
# The second row says what does the work: with seeds 0, 1 and 4 all that the model knows hangs on the relations, with
# seed 2 nothing; with seed 3 it had not begun to learn. As typeset no answer of any seed hangs on a relation: what it
# learns, it learns from the words. The mean gain is 22.5 points over the model that is told nothing (95 % interval -7.5
# to 52.6), 13.2 over plain BERT (-36.9 to 63.2). So a lexicon *can* carry all answers, and as typeset it does not; that
# it helps on average five seeds do not show. With more steps plain BERT needs none (lesson 1 has the same world).
#
# What does the first model do with the doctor and the physician?

# %%
def prior(gamma):
    """Tokens of a, tokens of b, K̃ between them and the layer's trace, for the doctor and the physician; γ = gamma."""
    run.model.bert.layers[0].attention.gamma = gamma
    seen = look(run, "The doctor thanked Anna last week.", "Last week, the physician thanked Anna.")
    cut, layer = seen.tokens.index("[SEP]"), seen.trace["layer0"]
    return seen.tokens[1:cut], seen.tokens[cut + 1:-1], layer["prior"][0, 1:cut, cut + 1:-1], layer


*_, K_unknown, _ = prior(0.0)
rows, columns, K, layer = prior(5.0)
pair = rows.index("doctor"), columns.index("physician")
print(f"K̃ of doctor and physician: {K[pair]:.2f}; were nothing known of them: {K_unknown[pair]:.2f}")
for place in K.flatten().topk(4).indices.tolist():
    print(f"    large: {rows[place // len(columns)]}, {columns[place % len(columns)]}: {K.flatten()[place]:.2f}")
for gate in "gf":
    print(f"gate {gate}: {layer[gate].min():.2f} to {layer[gate].max():.2f}")

assert K[pair] > K_unknown[pair]                                    # the relation is heard

figure("What the trained model is told of the pair",
       heat("K̃", rows, columns, K, "sentence b", "sentence a"))

# %% [markdown]
# With seed 0 the largest entry of K̃ is that of the doctor and the physician; were the relation not known, it would be
# far below the average of 1. Equal words come next: their hidden states are alike, and their product needs no relation.
#
# With words that training never showed each of these models is near 50, though the lexicon has them: a prior moves
# *attention*; what is then read are values of words about which nothing was learned. On all of the toy world, with γ =
# 1 and three seeds, antonyms gain most, 67.5 beside plain BERT's 52.8, but seeds differ: over all it is 5.2 points,
# from -12.1 to 22.5. With pre-trained weights, WordNet and the average of both attentions in every layer, a form of ours,
# five seeds gain 1.4 points over four test sets (+1.1 to +1.7); with *other* pairs' relations the same model gains 1.4
# (+1.1 to +1.8). So what gains there is not the lexicon (`docs/results.md`).
#
# ## Summary
#
# - k_ij says which relations hold between two words; Eq. (2) makes yes or no of it, Eq. (1) adds γ to a score.
# - Without √d the products of hidden states drown γ. As typeset, wheat and corn are not related at all.
# - Eqs. (3) and (4) are a softmax over rows and one over columns; their mean, K_prior, averages (1/n + 1/m)/2.
# - As typeset, Eq. (5) therefore weakens everything between the sentences; ours divides by the mean.
# - A relation of words does not say who does what: New York and Seattle are cities either way.
#
# ## Five questions
#
# 1. Which relation has "dog, animal" if the dog is in sentence a? And "animal, dog"? <details>
#    <summary>Answer</summary> hypernym, for animal is the more general one; hyponym.</details>
# 2. Both sentences have ten words. What is the mean of K_prior, and what does Eq. (5) as typeset do to a score of 2?
#    <details><summary>Answer</summary> (1/10 + 1/10)/2 = 0.1; the typical score becomes 0.2.</details>
# 3. Products (h_iᵀ h_j / √d) of one row are (1, 1) for two words of b. The first is related, γ = 1. ω^A? <details>
#    <summary>Answer</summary> s = (2, 1): 1 / (1 + e⁻¹) = 0.731 and 0.269.</details>
# 4. Why do [CLS] and [SEP] get the score -∞? <details><summary>Answer</summary> They are no words, so that nothing is
#    known of them; e to the power of -∞ is 0, and they take no part in ω.</details>
# 5. Why is "the accuracy is 100" no proof that the lexicon helped? <details><summary>Answer</summary> The model
#    without it (γ = 0) has to be trained too, and with several seeds.</details>
#
# ## Try it
#
# 1. Train with γ = 1, without `GAMMA=5.0`. What happens to the entry of doctor and physician? <details>
#    <summary>Answer</summary> A relation multiplies its share of a row by e¹ = 2.7 at most, not by e⁵ = 148: equal words
#    come first.</details>
# 2. In the toy lexicon "nurse" and "teacher" are co-hyponyms. Should these have a γ of their own, perhaps a negative
#    one? Where in Eqs. (1) and (2) would you put it? <details>
#    <summary>Answer</summary> I makes one number of five before γ comes: replace γ I(k_ij) by a sum over relations,
#    Σ_r γ_r k_ijr, with a learned γ_r. Then a co-hyponym can speak against a match.</details>
# 3. With WordNet at hand, ask `relation_matrix` of `WordNet().facts` for a pair of your own. Which relations surprise
#    you? <details><summary>Answer</summary> Rare senses: nobody knows which one a word has in its sentence, and for
#    synonyms and antonyms all count. Above it, the first alone: a bank is a slope, no institution.</details>
