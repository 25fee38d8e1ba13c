# %% [markdown]
# # 2. DABERT: attention to what differs
#
# **The question.** Attention gives weight to tokens that are *alike*: their query and key have a large product. But
# "How many 12 digits number have the sum of 4?" and "How many 42 digits number have the sum of 4?" (DABERT's Table 4)
# are alike in all tokens but one, and this one decides. Can attention look for what *differs*?
#
# > "paying more attention to the fine-grained semantic differences, explicitly modeling the difference and affinity
# > vectors together will further improve the performance of pre-trained model" (Wang et al., DABERT, § 1)
#
# **Affinity** is the paper's word for plain attention, Eq. (1); **difference** is its word for the new attention. An
# **adaptive fusion** then makes one vector for each token from the two results, by **gates**: numbers between 0 and 1,
# computed from the vectors, that say how much passes.
#
# | sign | meaning |
# |---|---|
# | Q, K, V; k | queries, keys, values (lesson 1), the same for both attentions; the size of a query |
# | A, a_i; D, d_i | the results of affinity, of affinity for token i; the same of difference |
# | σ(x), tanh(x) | 1 / (1 + e⁻ˣ), between 0 and 1, used for gates; a function between -1 and 1 |
# | ⊕, [x; y] | concatenation: one vector, first x and then y |
# | W, w, b | matrices, vectors and numbers that are learned; each place in a formula has its own |

# %%
from lesson import *     # torch, math, F, assert_close, check, ...
from bert_min import attention_weights
begin(2)

# %% [markdown]
# ## How different? Eq. (4)
#
# $$\|Q-K\|_{ij} = \sum_k (Q_{ik} - K_{jk}) \tag{4}$$
#
# is on the page. The bars on the left mean a **norm**, so we take Σ_k |Q_ik - K_jk|, the L1 distance. A small example:
# "12" is in one sentence, "42" in the other, "digits" in both. Let query and key of a token be the same four numbers:
#
#     12 = (1, 0, 0, 0)      42 = (0, 1, 0, 0)      digits = (1, 1, 1, 1)
#
# Attention gives "42" the least weight where "12" is the query: their product is 0, and that of "12" with itself 1. By
# hand: "12" and "42" differ by 1 in two places, which makes 2; "12" and "digits" differ in three places, which makes 3.
# A second head has all numbers times -2, so its differences are twice as large.

# %%
def difference_scores(q, k):
    """The L1 distance of each query from each key. q, k: (B, H, L, k). Returns: (B, H, L, L)."""
    ...

tokens = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [9, 9, 9, 9]])       # the last one is padding
tokens = torch.stack([tokens, -2 * tokens])[None]       # one pair, two heads
real, two = tokens[:, :, :3], tokens[:, :, [0, 2]]      # two: the queries of 12 and of digits alone
difference_scores = check(difference_scores, two, real, gives=[[[0, 2, 3], [3, 3, 0]], [[0, 4, 6], [6, 6, 0]]])

# %% [markdown]
# **The page.** Without bars the sum is ΣQ_i - ΣK_j. ΣQ_i is the same number for all keys j, and a softmax does not see
# what is the same for all: every query gets the same row of weights. "12" and "42" have no difference at all.
#
# ## Attention to it: Eqs. (2) and (3)
#
# $$D = \mathrm{softmax}\left(\frac{\beta}{\sqrt{k}}\right) V \tag{2}$$
# $$\beta = \|Q-K\| + M \tag{3}$$
#
# M is the mask. Divide the differences by √k first, and let `attention_weights(scores, mask)` of lesson 1 do the rest:
# it masks complete scores (B, H, L, L), and a query without a real key gets 0. By hand: the row of "12" in β / 2 is (0,
# 1, 1½), and its weights are (0.122, 0.331, 0.547). Padding gets 0. The second head has (0, 2, 3) and doubled values.

# %%
def difference_attention(q, k, v, mask):
    """q, k, v: (B, H, L, k). mask: bool (B, L). Returns: (B, H, L, k). Use difference_scores."""
    ...

values = torch.stack([torch.eye(4), 2 * torch.eye(4)])[None]            # value i is 1 at place i: results are weights
mask = torch.tensor([[True, True, True, False]])
difference_attention = check(difference_attention, real, tokens, values, mask, gives=[
    [[0.1220, 0.3315, 0.5465, 0], [0.3315, 0.1220, 0.5465, 0], [0.4498, 0.4498, 0.1004, 0]],
    [[0.0702, 0.5190, 1.4108, 0], [0.5190, 0.0702, 1.4108, 0], [0.9757, 0.9757, 0.0486, 0]]])

# %% [markdown]
# **The page** adds M before the division, and in BERT's code M is -10,000. Differences have no upper bound. Let padding
# be at the distance 20,000: it is still 10,000 above a real token at the distance 0, and it gets all the weight.
#
# ## Guided attention: Eq. (5)
#
# $$\delta_i = \tanh(W_D D \oplus (W_a a_i + b)), \qquad \bar d_i = D\,\mathrm{softmax}(w\,\delta_i + b)$$
# $$\gamma_i = \tanh(W_A A \oplus (W_{\bar d} \bar d_i + b)), \qquad
#   \bar a_i = A\,\mathrm{softmax}(w\,\gamma_i + b)$$
# $$d^*_i = \tanh(W [d_i; \bar d_i] + b), \qquad a^*_i = \tanh(W [a_i; \bar a_i] + b) \tag{5}$$
#
# > "We provide each affinity vector a_i to interact with the difference signals matrix D and obtain the new difference
# > feature" (§ 2.2)
#
# Each a_i is a **guide**, and d̄_i is a mean of all d_j by its weights. ⊕ is concatenation: as printed, guide and value
# stand side by side, each with its own tanh and its own half of w. *Does the printed form do what the sentence asks?*
#
# **A demand.** Write in code what the sentence asks of *any* function f(values, guide) that claims to do it. Your
# demand is tried with six forms of the first line, the paper's, ours, and nonsense, and must say of each what is so.
# Values and guides are (L, 4), and f has its own weights: choose arguments, call f, compare what comes back.

# %%
def demand_guide(f):
    """f(values, guide): what each guide finds, (L, 4). Returns: True if f does what the sentence asks, else False."""
    ...

demand_guide = check(demand_guide)

# %% [markdown]
# **The page** fails. Its score is a number of the value plus a number of the guide. The number of the guide is the same
# for all j, and cancels in the softmax: all guides find the same.
#
# **The repair.** Guide and value must *meet inside tanh*: the score of value j for guide i is w tanh(W_D d_j + W_a a_i
# + b). One function computes both lines, d̄ and then ā with d̄ as the guide. By hand: a vector has one number, and A =
# 2 numbers meet inside tanh: W_D = (1, 2), W_a = (1, -1) with the bias (ln 2, 0), w = (5, -5). The third is padding:
#
#     values  d = 0, ln 2, 9      guides  a = -ln 2, ln 1.5, -ln 2
#     score_ij = 5 tanh(d_j + a_i + ln 2) - 5 tanh(2 d_j - a_i)
#     guide -ln 2:    5 (tanh 0, tanh ln 2) - 5 (tanh ln 2, tanh ln 8)             = (-3, -1.846)    weights 0.240, 0.760
#     guide ln 1.5:   5 (tanh ln 3, tanh ln 6) - 5 (tanh -ln 1.5, tanh ln (8/3))   = (5.923, 0.963)  weights 0.993, 0.007

# %%
def guided_attention(values, guide, mask, W_values, W_guide, w):
    """Guide i attends over all values. values, guide: (B, L, d). mask: bool (B, L). W_values: Linear d → A without bias.
    W_guide: Linear d → A. w: Linear A → 1 without bias. (A is here a size, not affinity.)
    Returns: row i is what guide i finds (B, L, d); the weights (B, L, L), guide by value."""
    ...

ln2, ln3 = math.log(2), math.log(3)
d, a = torch.tensor([[[0.0], [ln2], [9]]]), torch.tensor([[[-ln2], [ln3 - ln2], [-ln2]]])
real = torch.tensor([[True, True, False]])
W_D, W_a, w = fixed([[1.0], [2]]), fixed([[1.0], [-1]], [ln2, 0.0]), fixed([[5.0, -5]])
guided_attention = check(guided_attention, d, a, real, W_D, W_a, w, gives=(
    [0.5269, 0.0048, 0.5269], [[0.2398, 0.7602, 0], [0.9930, 0.0070, 0], [0.2398, 0.7602, 0]]))

# %% [markdown]
# ## Gated fusion: Eq. (6)
#
# $$\hat d_i = \tanh(W d^*_i + b), \qquad \hat a_i = \tanh(W a^*_i + b)$$
# $$g_i = \sigma(W_g (\hat d_i \oplus \hat a_i)), \qquad v_i = g_i \hat a_i + (1 - g_i)\, \hat d_i \tag{6}$$
#
# The library computes d* and a*, the third line of (5). A token has one gate. By hand: the W of a* = (ln 2, 5) takes
# the first number twice, the bias is (0, ln 1.5), so â = (tanh ln 2, tanh ln 3) = (0.6, 0.8). The W of d* = (5, ln 3)
# takes the second number once and twice: d̂ = (tanh ln 3, tanh ln 9) = (0.8, 0.976). With W_g = (1.25 ln 3, 0, 1, -¾),
# the first two for d̂, the gate is σ(ln 3 + 0.6 - 0.6) = ¾, and v = ¾ (0.6, 0.8) + ¼ (0.8, 0.976) = (0.65, 0.844).

# %%
def gated_fusion(sem, other, W_sem, W_other, W_g):
    """sem, other: (B, L, d), a* and d*. W_sem, W_other: Linear d → d. W_g: Linear 2d → 1.
    Returns: v (B, L, d) and g (B, L, 1)."""
    ...

a_star, d_star = torch.tensor([[[ln2, 5]]]), torch.tensor([[[5, ln3]]])
W_sem, W_other = fixed([[1.0, 0], [1, 0]], [0.0, ln3 - ln2]), fixed([[0.0, 1], [0, 2]], [0.0, 0])
W_g = fixed([[1.25 * ln3, 0.0, 1, -0.75]])
gated_fusion = check(gated_fusion, a_star, d_star, W_sem, W_other, W_g, gives=([0.65, 0.8439], 0.75))

# %% [markdown]
# ## Filtration gate: Eq. (7)
#
# $$f_i = \sigma(W_f (a_i \oplus (W_v v_i + b))), \qquad l_i = f_i \tanh(W_l v_i + b) \tag{7}$$
#
# "the filtration gate will incorporate the fusion features and the original features. Otherwise, the fusion information
# will be filtered out" (§ 2.2). The original features are a_i, so a_i + l_i goes on from the layer. On the page l_i
# alone goes on. By hand, a = (2, 1) and v = (ln 2, ln 3): W_v v is (ln 3, 0), the second number alone. W_f = (1, -2, 1,
# 3) of (2, 1, ln 3, 0) is ln 3, so f = ¾. W_l is as W was for a*: tanh of it is (0.6, 0.8). So a + l = (2.45, 1.6).

# %%
def filtration_gate(sem, v, W_v, W_l, W_f):
    """sem, v: (B, L, d), a and v. W_v, W_l: Linear d → d. W_f: Linear 2d → 1.
    Returns: a + l (B, L, d) and f (B, L, 1)."""
    ...

a, v = torch.tensor([[[2.0, 1]]]), torch.tensor([[[ln2, ln3]]])
W_v, W_f = fixed([[0.0, 1], [0, 0]], [0.0, 0]), fixed([[1.0, -2, 1, 3]])
filtration_gate = check(filtration_gate, a, v, W_v, W_sem, W_f, gives=([2.45, 1.6], 0.75))

# %% [markdown]
# **What training shows.** With a pre-trained encoder and five seeds the library's DABERT is 0.2 points above plain BERT
# over four test sets; the 95 % interval, from -0.2 to 0.5, holds zero (`docs/results.md`). The defects of Eqs. (4), (5)
# and (7) can be proved in an equation. They need not show in an accuracy.
