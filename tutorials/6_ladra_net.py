# %% [markdown]
# # 6. LadRa-Net: reading again, with phrases and a memory
#
# **The question.** DRr-Net (lesson 5) re-reads single words, by GRUs. But "new" in "new couple" is not the "new" of
# "new book", and nothing stops the network from choosing the same word again and again. Can re-reading see a word *with
# its neighbours*, on top of BERT, and remember what it has read?
#
# > "one word can express tremendously different semantic meanings due to different local structures" (Zhang et al.,
# > LadRa-Net, § V-C)
#
# **Local structure** is the paper's word for a word's neighbours. Two small **CNNs**, networks that see a few tokens at
# a time, make vectors of phrases. **Coverage** is a number for each token: how much of it is left to be read. A
# **reader** chooses one token, or one phrase, at each step. The pair is packed as for BERT (lesson 1).
#
# | sign | meaning |
# |---|---|
# | h⁰, h¹, h² | the vectors of tokens; of phrases of the first CNN; of phrases of the second. h^r is one of the three |
# | h_ab, h̄_t | the pair as one vector; the state of the GRU after step t of T |
# | ā^r | what reader r chooses |
# | m̄, β, c, φ | a score; how hard the choice is; coverage, how much is left; how often a token may be read |
# | A | the matrix of all h_i; in "Linear d → A" a size |
# | x ⊗ e, ∝ | x repeated for each token; equal up to a factor that makes the sum 1 |
# | W, U, M, V, ω | matrices, vectors and numbers that are learned |

# %%
from lesson import *     # torch, math, F, assert_close, check, ...
from bert_min import attention_weights
begin(6)

# %% [markdown]
# The vectors h⁰ of tokens, Eq. (9), are a sum over every layer of BERT, with free weights. The library computes them.
#
# ## Phrases: Eq. (10)
#
# $$h^r_t = CNN_r([h^0_{t-k}, \ldots, h^0_{t+k}]), \qquad CNN_r \text{: two layers, ReLU between them} \tag{10}$$
#
# "k denotes the kernel size", 2 or 3, says the page. But two layers of kernel 2 do not see 2k + 1 = 5 tokens. Two
# layers of kernel K see 2k + 1 tokens with k = K - 1, if the padding that is left over goes *right in the first layer
# and left in the second*. By hand, kernel 2, padding and the tokens 1, -4, 3. The first layer has the weights 1, 2 and
# the bias 1, the second 1, 3:
#
#     first layer     1 - 8 + 1 → 0     -4 + 6 + 1 = 3     3 + 0 + 1 = 4        each with its right neighbour, then ReLU
#     second layer    0 + 3 · 0 = 0      0 + 3 · 3 = 9     3 + 3 · 4 = 15       each with its left neighbour
#
# A phrase of kernel 2 sees t - 1, t and t + 1, one of kernel 3 sees five.
#
# **Yours to write.** A convolution of kernel K (`first.kernel_size[0]`) makes a row K - 1 places shorter. So first add
# K - 1 zeros: in the first layer (K - 1) // 2 on the left and the rest on the right, in the second layer the other way
# round. `F.pad(x, (left, right))` pads the last axis, and nn.Conv1d takes (B, d, L). Padding of the batch must be 0
# where a layer reads it, and in the result. Between the layers stands `relu`.

# %%
def phrase_cnn(hidden, mask, first, second):
    """hidden: (B, L, d). mask: bool (B, L). first, second: nn.Conv1d of one kernel, without padding.
    Returns: (B, L, d), 0 at padding."""
    ...

def convolution(*weights, bias):
    """A convolution of one number a token."""
    layer = torch.nn.Conv1d(1, 1, len(weights)).requires_grad_(False)
    layer.weight.copy_(torch.tensor([[weights]]))
    layer.bias.fill_(bias)
    return layer

tokens, last_three = torch.tensor([[[9.0], [1], [-4], [3]]]), torch.tensor([[False, True, True, True]])
first, second = convolution(1.0, 2, bias=1.0), convolution(1.0, 3, bias=0.0)
phrase_cnn = check(phrase_cnn, tokens, last_three, first, second, gives=[0, 0, 9, 15])

# %% [markdown]
# ## A reading step
#
# By Eqs. (11) and (12) at each step three readers choose, one after the other: reader 0 a token, readers 1 and 2 a
# phrase of the first and of the second CNN. A mixture of the three chosen vectors enters the GRU, whose first state is
# h_ab. The library computes it. On the page the mixture leaves out the token; the library's has it.
#
# ## A memory: Eq. (14)
#
# $$\bar m_t = c_{t-1}\, \omega_d^\top \tanh(W_d A + \mathrm{clue} \otimes e) \tag{14}$$
# $$c_0 = 1, \qquad c_t = c_{t-1} - \bar m_t / \phi, \qquad \phi = T\, \sigma(W_\phi A)$$
#
# c is how much of a token is left, φ how often it may be read: T = 5 and σ(0) = ½ make φ = 2.5. (σ(x) is 1 / (1 + e⁻ˣ);
# "clue" is lesson 5's.) Each choice takes m̄ / φ away from the token, so its score falls and another token wins.
#
# **The page.** m̄ is c times a *score* m, which may be negative, and of any size. Each step multiplies c by 1 - m/φ,
# whether the token is read or not. For m = -1 and φ = 2 this is 1.5: c grows. For m = 3 φ it is -2, and c is 1, -2, 4,
# -8. But the text updates c "based on the calculated attention weights". So we subtract the *weight*, which lies between
# 0 and 1: c_t = c_(t-1) - weight / φ. A token is **spent** when c ≤ 10⁻⁶. When all real tokens of a row are spent, c is
# 1 again in the whole row, padding too. By hand: the first of three tokens has the weight 0.8 and φ = 2; the second has
# 0.05 left, the weight 0.2 and φ = 4: c is 0.6, 0 and 1, for one token is spent, not all. In a second pair two tokens
# have ½ left, the weight 1 and φ = 2, and the third is padding: all is spent, and c is 1, 1, 1.

# %%
def coverage(left, weights, phi, mask):
    """left: c_(t-1). weights, phi: numbers. mask: bool, True = real. All are (B, n). Returns: c_t (B, n)."""
    ...

left, weights = torch.tensor([[1.0, 0.05, 1], [0.5, 0.5, 1]]), torch.tensor([[0.8, 0.2, 0], [1, 1, 0]])
phi, mask = torch.tensor([[2.0, 4, 4], [2, 2, 2]]), torch.tensor([[True, True, True], [True, True, False]])
coverage = check(coverage, left, weights, phi, mask, gives=[[0.6, 0, 1], [1, 1, 1]])

# %% [markdown]
# ## A choice that knows the ones before: Eq. (13)
#
# $$\bar m^r = \omega_r^\top \tanh(W_r A^r + (U_r \bar h_{t-1} + M_r h_{ab} + \sum_{j<r} V_r \bar a^j) \otimes e)
#   \tag{13}$$
#
# The bracket is lesson 5's clue with one more term: what the readers before this one have chosen. And c changes the
# choice. On the page it multiplies the score; but less than one times a negative score is a *higher* score. So we
# multiply the weight: weight ∝ c exp(β m̄), which is a softmax of β m̄ + ln c. Where c ≤ 10⁻⁶, the weight is exactly 0.
# `clamp` c before the logarithm. By hand, β = 2 and two words: β m̄ of the second is larger by ln 2, but its c is ½,
# and that of the first is 1: the weights are ½ and ½. A third word has a much higher score and c = 10⁻⁶, so it is
# spent; the fourth is padding. The words are 1, 2, 4, so 1.5 is chosen.

# %%
def choose_left(states, keys, mask, clue, w_d, beta, left):
    """As lesson 5's choose, with coverage. states: (B, n, d). keys: (B, n, A), W A. mask: bool (B, n). clue: (B, A), the
    bracket. w_d: Linear A → 1 without bias, ω. beta: a number. left: c (B, n), some of it below 0.
    Returns: what is chosen (B, d); the weights (B, n); what coverage takes: the weights once more."""
    ...

ln2, states = math.log(2), torch.tensor([[[1.0], [2], [4], [8]]])
keys = torch.tensor([[[1.0, 0], [1 + ln2, 0], [1, 9], [9, 9]]])            # tanh ln 2 = 0.6, and 2 · 0.6 ω = ln 2
choose_left = check(choose_left, states, keys, last_three.flip(1), torch.tensor([[-1.0, 0]]), fixed([[ln2 / 1.2, 10]]), 2.0,
                    torch.tensor([[1.0, 0.5, 1e-6, 1]]), gives=(1.5, [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]))

# %% [markdown]
# The answer, Eq. (15), is an MLP of the mean of h_ab, which needs no re-reading, and of the T states.
#
# **What training shows.** When this lesson trained (commit 1bef825), h_ab alone gave most answers: with seeds 0 to 4
# between 0 and 27 % of them changed without re-reading. A good accuracy does not show that the readings are of use. Nor
# does what is read explain an answer: a token's vector has read all others (lesson 1).
