# %% [markdown]
# # 2. DABERT: attention to what differs
#
# **The question.** Attention gives weight to tokens that are *alike*: a large product of query and key. But "How
# many 12 digits number have the sum of 4?" and "How many 42 digits number have the sum of 4?" (DABERT's Table 4)
# are alike in all but one token, and this one decides. Can attention look for what *differs*?
#
# > "paying more attention to the fine-grained semantic differences, explicitly modeling the difference and affinity
# > vectors together will further improve the performance of pre-trained model" (Wang et al., DABERT, § 1)
#
# **Affinity** is the paper's word for plain attention, **difference** that for the new one. Both look at the same
# queries, keys and values; an **adaptive fusion** then makes one vector of two for each token. It has **gates**:
# numbers between 0 and 1, computed from the vectors, that say how much passes.
#
# | sign | meaning |
# |---|---|
# | Q, K, V; k | queries, keys, values (lesson 1), the same for both attentions; numbers in a query |
# | A, a_i; D, d_i | what affinity finds, and for token i; what difference finds |
# | σ(x) | 1 / (1 + e⁻ˣ), between 0 and 1: a gate; tanh(x) lies between -1 and 1 |
# | ⊕, [x; y] | concatenation: one vector, x and then y |
# | W, w, b | matrices, vectors and numbers that are learned |

# %%
import math

import torch
from lesson import begin, check, fixed, mine, reveal, table, train_on
from torch.testing import assert_close

begin(2)
attention, attention_weights = mine("attention"), mine("attention_weights")

# %% [markdown]
# ## Affinity: Eq. (1)
#
# $$A = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{k}}\right) V \tag{1}$$
#
# is your `attention` of lesson 1. A small pair: "12" in one sentence, "42" in the other, "digits" in both. Let query
# and key of a token be the same four numbers, so that √k = 2:
#
#     12 = (1, 0, 0, 0)      42 = (0, 1, 0, 0)      digits = (1, 1, 1, 1)
#
# The products of "12" are 1 with itself, 0 with "42", 1 with "digits". Divided by 2 they are (½, 0, ½), and the
# weights (0.384, 0.233, 0.384): "42" is looked at *least*.

# %%
words = ["12", "42", "digits"]
tokens = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]])[None, None]         # one pair, one head
values = torch.eye(4)[None, None, :3]                   # value i is 1 at place i: what comes out are the weights
mask = torch.ones(1, 3, dtype=torch.bool)
affinity = attention(tokens, tokens, values, mask)[0, 0, :, :3]
assert_close(affinity[0], torch.tensor([0.3837, 0.2327, 0.3837]), atol=1e-4, rtol=0)

# %% [markdown]
# ## How different? Eq. (4)
#
# $$\|Q-K\|_{ij} = \sum_k (Q_{ik} - K_{jk}) \tag{4}$$
#
# is on the page. The bars on the left say a **norm**, so we take Σ_k |Q_ik - K_jk|, the L1 distance. By hand: "12" and
# "42" differ by 1 in two places, so 2; "12" and "digits" in three, so 3.
#
# **Guess**: the larger the difference, the larger the weight. Which word does "12" read most, "12", "42" or "digits"?

# %%
guess = ...
reveal("most different", guess)

# %%
def difference_scores(q, k):
    """The L1 distance of each query from each key. q, k: (B, H, L, k). Returns: (B, H, L, L)."""
    ...


difference_scores = check(difference_scores, tokens, tokens)
assert_close(difference_scores(tokens, tokens)[0, 0], torch.tensor([[0.0, 2, 3], [2, 0, 3], [3, 3, 0]]))

# %% [markdown]
# **The page.** Let the query of "12" turn into that of "digits" itself, and watch what it reads of "digits".
# **Guess**: without bars, as Eq. (4) is printed, does that weight rise, fall or stay: "rises", "falls" or "stays"?

# %%
guess = ...
reveal("query moves", guess)


def printed(q, k):
    """Eq. (4) as it is printed."""
    return (q[..., :, None, :] - k[..., None, :, :]).sum(-1)


assert printed(tokens, tokens)[0, 0].tolist() == [[0, 0, -3], [0, 0, -3], [3, 3, 0]]    # 12 and 42: no difference
moved, lines = [0.0, 0.25, 0.5, 0.75, 1.0], {"with bars": [], "as printed": []}
for x in moved:                                         # the query of "12" becomes that of "digits"
    query = tokens[:, :, :1] + x * (tokens[:, :, 2:] - tokens[:, :, :1])
    for name, scores in zip(lines, (difference_scores, printed)):
        lines[name].append((scores(query, tokens) / 2).softmax(-1)[0, 0, 0, 2].item())
assert lines["with bars"][0] > 0.5 > 0.2 > lines["with bars"][-1]
assert_close(lines["as printed"], [lines["as printed"][0]] * 5)
table(lines, moved, lines.values(), "from 12 to digits; as printed it does not matter what a query asks")

# %% [markdown]
# ## Attention to it: Eqs. (2) and (3)
#
# $$D = \mathrm{softmax}\left(\frac{\beta}{\sqrt{k}}\right) V \tag{2}$$
# $$\beta = \|Q-K\| + M \tag{3}$$
#
# M is the mask. `attention_weights(scores, mask)` of lesson 1 applies it to complete scores (B, H, L, L), and returns
# weights of this shape: a query without any real key finds 0. By hand: row "12" of β / 2 is (0, 1, 1½), its weights
# (0.122, 0.331, 0.547).

# %%
def difference_attention(q, k, v, mask):
    """q, k, v: (B, H, L, k). mask: bool (B, L). Returns: (B, H, L, k). Use difference_scores."""
    ...


difference_attention = check(difference_attention, tokens, tokens, values, mask)
difference = difference_attention(tokens, tokens, values, mask)[0, 0, :, :3]
assert_close(difference[0], torch.tensor([0.1220, 0.3315, 0.5465]), atol=1e-4, rtol=0)
table(words, words, difference)

# %% [markdown]
# **The page** adds M before the division, and BERT's own M is -10,000. Differences have no upper bound: let padding be
# at the distance 20,000. It is still 10,000 above a real token at the distance 0, and gets all the weight.

# %%
far, real = torch.tensor([[0.0, 0], [1e4, 1e4]])[None, None], torch.tensor([[True, False]])
beta = difference_scores(far[:, :, :1], far)
assert_close(((beta - 1e4 * ~real) / 2 ** 0.5).softmax(-1)[0, 0, 0], torch.tensor([0.0, 1]))
assert_close(attention_weights(beta / 2 ** 0.5, real)[0, 0, 0], torch.tensor([1.0, 0]))

# %% [markdown]
# ## Guided attention: Eq. (5)
#
# $$\delta_i = \tanh(W_D D \oplus (W_a a_i + b)), \qquad \bar d_i = D\,\mathrm{softmax}(w\,\delta_i + b)$$
# $$\gamma_i = \tanh(W_A A \oplus (W_{\bar d} \bar d_i + b)), \qquad
#   \bar a_i = A\,\mathrm{softmax}(w\,\gamma_i + b)$$
# $$d^*_i = \tanh(W [d_i; \bar d_i] + b), \qquad a^*_i = \tanh(W [a_i; \bar a_i] + b) \tag{5}$$
#
# Each affinity vector a_i is a **guide**: it looks through all difference vectors and takes a mean d̄_i of them. Then
# d̄_i looks through all affinity vectors. Either line is one function. Guide and value must *meet inside tanh*: the
# score of value j for guide i is w tanh(W_D d_j + W_a a_i + b). By hand: all vectors have one number, weights are 1,
# w = 5; tanh(ln 2) = 0.6 and tanh(ln 4) = 0.882:
#
#     values  d = 0, ln 2        guides  a = 0, ln 2        score_ij = 5 tanh(d_j + a_i)
#     guide 0:       5 (tanh 0, tanh ln 2)    = (0, 3)          weight of the second  1 / (1 + e⁻³)     = 0.953
#     guide ln 2:    5 (tanh ln 2, tanh ln 4) = (3, 4.41)       weight of the second  1 / (1 + e⁻¹·⁴¹)  = 0.804

# %%
def guided_attention(values, guide, mask, W_values, W_guide, w):
    """Guide i attends over all values; what it finds is row i.

    values, guide: (B, L, d). mask: bool (B, L). W_values: Linear d → A without bias. W_guide:
    Linear d → A. w: Linear A → 1 without bias. Returns: (B, L, d) and the weights (B, L, L).
    """
    ...


ln2, ln3 = math.log(2), math.log(3)
d = a = torch.tensor([[[0.0], [ln2]]])                  # one pair, two tokens, one number each
both = torch.ones(1, 2, dtype=torch.bool)
one, five = fixed([[1.0]], [0.0]), fixed([[5.0]])
by_hand = d, a, both, fixed([[1.0]]), one, five
guided_attention = check(guided_attention, *by_hand)
_, weights = guided_attention(*by_hand)
assert_close(weights[0, :, 1], torch.tensor([0.9526, 0.8041]), atol=1e-4, rtol=0)

# %% [markdown]
# **The page** has guide and value side by side, each with its own tanh and its own half of w: the score is 5 tanh(d_j)
# + 5 tanh(a_i). The guide's part is the same for all j, and cancels once more: 0.953 for both guides.

# %%
side_by_side = 5 * d.tanh().mT + 5 * a.tanh()
assert_close(side_by_side.softmax(-1)[0, :, 1], torch.tensor([0.9526, 0.9526]), atol=1e-4, rtol=0)

# %% [markdown]
# ## Gated fusion: Eq. (6)
#
# $$\hat d_i = \tanh(W d^*_i + b), \qquad \hat a_i = \tanh(W a^*_i + b)$$
# $$g_i = \sigma(W_g (\hat d_i \oplus \hat a_i)), \qquad v_i = g_i \hat a_i + (1 - g_i)\, \hat d_i \tag{6}$$
#
# One gate for each token. By hand: a* = ln 2 and d* = ln 3 make â = 0.6 and d̂ = 0.8. With W_g = 0 the gate is ½ and
# v = 0.7. With W_g = (1.25 ln 3, 0) it is σ(ln 3) = ¾, and v = ¾ · 0.6 + ¼ · 0.8 = 0.65.

# %%
def gated_fusion(sem, other, W_sem, W_other, W_g):
    """sem, other: (B, L, d), a* and d*. W_sem, W_other: Linear d → d. W_g: Linear 2d → 1.
    Returns: v (B, L, d) and g (B, L, 1)."""
    ...


a_star, d_star = torch.tensor([[[ln2]]]), torch.tensor([[[ln3]]])
gated_fusion = check(gated_fusion, a_star, d_star, one, one, fixed([[1.25 * ln3, 0.0]]))
for W_g, gate, fused in (([[0.0, 0.0]], 0.5, 0.7), ([[1.25 * ln3, 0.0]], 0.75, 0.65)):
    v, g = gated_fusion(a_star, d_star, one, one, fixed(W_g))
    assert_close((g.item(), v.item()), (gate, fused))

# %% [markdown]
# ## Filtration gate: Eq. (7)
#
# $$f_i = \sigma(W_f (a_i \oplus (W_v v_i + b))), \qquad l_i = f_i \tanh(W_l v_i + b) \tag{7}$$
#
# "the filtration gate will incorporate the fusion features and the original features. Otherwise, the fusion
# information will be filtered out" (§ 2.2). The original features are a_i: what goes on from the layer is a_i + l_i.
#
# **Guess**: a = 2, v = ln 2, W_l = 1, f = ½. What goes on as the text says, and what on the page, where l_i takes the
# place of a_i: "2.3 and 2.3", "0.3 and 0.3" or "2.3 and 0.3"?

# %%
guess = ...
reveal("closed gate", guess)

# %%
def filtration_gate(sem, v, W_v, W_l, W_f):
    """sem, v: (B, L, d), a and v. W_v, W_l: Linear d → d. W_f: Linear 2d → 1.
    Returns: a + l (B, L, d) and f (B, L, 1)."""
    ...


by_hand = torch.tensor([[[2.0]]]), torch.tensor([[[ln2]]]), one, one, fixed([[0.0, 0.0]])
filtration_gate = check(filtration_gate, *by_hand)
lines, gates = {"a + l, as the text says": [], "l, as printed": []}, []
for openness in (-4.0, -1.0, 0.0, 1.0, 4.0):            # W_f (a ⊕ v) = openness · 2 + 0 · v
    out, f = filtration_gate(torch.tensor([[[2.0]]]), torch.tensor([[[ln2]]]), one, one, fixed([[openness, 0.0]]))
    gates.append(round(f.item(), 3))
    for line, x in zip(lines.values(), (out, out - 2)):
        line.append(x.item())
assert_close([line[2] for line in lines.values()], [2.3, 0.3])
table(list(lines), [f"f = {f}" for f in gates], lines.values())     # a closed gate leaves nothing of the page

# %% [markdown]
# ## A trained model, and 12 against 42
#
# `MyDabert` in `my_semmatch.py` is Eqs. (1) to (7) of your functions in the first of two layers. A toy world about
# numbers only: "Anna bought 12 chairs on Monday." and "On Monday, Anna bought 43 chairs." Chance is 50. 800 pairs,
# random weights, beside plain BERT.

# %%
frames = {"numbers": (("number", "{name} {get.past} {x} {nouns} {time}",
                       "{time}, {name} {get.past} {x} {nouns}"),)}
settings = {"epochs": 9, "batch_size": 32, "lr": 2e-3}
run, found = train_on(frames, "MyDabert", set="ATTENTION_SIZE=16", **settings)
_, plain = train_on(frames, "bert", **settings)

# %%
first = "Anna bought 12 chairs on Monday."
for number in (12, 13, 43, 42):
    second = f"On Monday, Anna bought {number} chairs."
    print(f"p(same) {run.predict([(first, second)])[0].probabilities['same']:.2f}   {second}")

# %% [markdown]
# **Does difference attention help?** One run with one seed cannot say. With a pre-trained encoder and five seeds the
# library's DABERT is 0.2 points above plain BERT over four test sets, with a 95 % interval from -0.2 to 0.6: it holds zero
# (`docs/results.md`). The defects of Eqs. (4), (5) and (7) can be proved in an equation; they need not show in an
# accuracy, for plain BERT's signal stays beside them. 42 never was in training: what the model says of it means little.
