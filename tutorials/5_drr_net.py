# %% [markdown]
# # 5. DRr-Net: reading again, one word at a time
#
# **The question.** Attention spreads over all words at once. People do not read like that. They read a sentence from
# front to back. Then they look again, at one word and at another, because of what they know by now: "people only focus
# on 1.5 words each time when intensively reading" (§ I). Can a network read again?
#
# > "In each reading step, we adopt attention mechanism to choose one important word" (Zhang et al., LadRa-Net, §
# > IV-C, which retells DRr-Net, AAAI 2019)
#
# DRr-Net has no BERT. It makes its own vectors of words, with characters, part of speech and two features: does the
# *other* sentence have this word ("exact match"), or its antonym? Three **GRUs** read from left to right. A GRU is a
# network that reads one vector after another and keeps a **state**, a vector of what it has read so far.
#
# | sign | meaning |
# |---|---|
# | h_i, A | word i after the first reading, [h; x] of the top GRU; the matrix of all h_i (in "Linear d → A" a size) |
# | h̄_t, ā_t | the state of the re-reading GRU after step t; the word that is chosen at step t |
# | h^b | the other sentence as one vector |
# | m̄, β | the scores of the words; how hard the choice is |
# | W, U, M, w, ω, b | matrices, vectors and numbers that are learned |

# %%
from lesson import *     # torch, math, F, assert_close, check, ...
import reread as library
from bert_min import attention_weights
begin(5)
two = torch.tensor([[True, True, False]])

# %% [markdown]
# The first reading, Eqs. (1) to (3), is the library's. A weighted sum of all h_i is a sentence as one vector.
#
# ## Choosing one word: Eqs. (5) and (6)
#
# $$\bar m = \omega_d^\top \tanh(W_d A + (U_d \bar h_{t-1} + M_d h^b) \otimes e), \qquad
#   \bar a = h_j \text{, j the place of the largest number of } \bar m \tag{5}$$
# $$\bar a = \sum_i \mathrm{softmax}_i(\beta \bar m)\, h_i \tag{6}$$
#
# (The page takes the arg-max of ᾱ, a sum of weights and so the number 1; m̄ is meant.) ⊗ e repeats the bracket for each
# word. The bracket is the **clue**: what was read so far, h̄, and what the other sentence says, h^b. By hand, two words
# of two numbers each, then padding; ω = (2, 1):
#
#     couple (3, -3)     clue (6, 0):  2 tanh 9 + tanh -3 = 1.005
#     street (-3, 3)                   2 tanh 3 + tanh 3  = 2.985       street is chosen
#
# With the clue (0, 0) couple has 0.995 and street -0.995, and couple is chosen.
#
# **Yours to write**: Eq. (6), not the arg-max of (5). W_d A is in `keys` already, the bracket in `clue`. The function
# `attention_weights(scores, mask)` of lesson 1 takes scores (B, n), too.

# %%
def choose(states, keys, mask, clue, w_d, beta):
    """states: (B, n, d), h_i. keys: (B, n, A). mask: bool (B, n). clue: (B, A). w_d: Linear A → 1 without bias.
    beta: a number. Returns: what is chosen (B, d); the weights (B, n)."""
    ...

keys, w_d = torch.tensor([[[3.0, -3], [-3, 3], [9, 9]]]), fixed([[2.0, 1]])          # couple, street, padding
states, clue = torch.tensor([[[1.0, 2], [3, 5], [7, 7]]]), torch.tensor([[6.0, 0]])
choose = check(choose, states, keys, two, clue, w_d, 200.0, gives=([3, 5], [0, 1, 0]))
assert choose(states, keys, two, 0 * clue, w_d, 200.0)[1].tolist() == [[1, 0, 0]]

# %% [markdown]
# **"An arbitrarily big value"** is β in the paper. Eq. (5) takes the largest score, by an operation that "has no
# derivative" (§ IV-C), and Eq. (6) should mend that. But with β = 10⁸ the softmax *is* an arg-max in float32: its
# weights p are exactly 1 and 0, so its slope β p (1 - p) is 0, and the choice never learns. Our β is 200: of two words
# with the scores 0.78 and 0.80 the second has the weight 0.982, and the slope is 3.5. β = 1 would read all words alike.
#
# ## Reading again: Eq. (4)
#
# $$\bar a_t = F([h_1, \ldots, h_l], \bar h_{t-1}, h^b), \qquad \bar h_t = GRU(\bar a_t, \bar h_{t-1}), \qquad
#   v = \bar h_T \tag{4}$$
#
# F is `choose`. What it chooses changes the state of the GRU, so the clue changes, and perhaps the next choice. By
# hand, two words, each with a value and two numbers by which it is chosen, and padding. A state h and h^b = 0.3 make
# the clue (-x, x) with x = 2h - 0.3. The GRU has all weights 0 but one, so that the new h is ½ tanh(value) + ½ h:
#
#     couple  value 5,  (0, -9)     score tanh(-x) + tanh(-9 + x) ≈ tanh(-x) - 1       the larger one where h < 0.15
#     street  value -5, (-9, 0)     score tanh(-9 - x) + tanh(x)  ≈ tanh(x) - 1        the larger one where h > 0.15
#
# h̄_0 = 0.1 chooses "couple"; then h̄_1 = ½ tanh 5 + 0.05 = 0.55 chooses "street"; h̄_2 = -½ + 0.275 = -0.225, and so on.

# %%
def reread(states, mask, h, guide, choice, gru, steps, beta):
    """states: (B, n, d), all h_i. mask: bool (B, n). h: h̄_0 (B, hidden). guide: h^b (B, g). choice: has the linear maps
    of Eq. (5): W_d, U_d, M_d, and w_d for ω_d. gru: nn.GRUCell; gru(ā, h̄) is the new h̄. steps: T. beta: a number.
    Returns: v, that is h̄_T; the weights of all steps (B, T, n)."""
    ...

states, cell = torch.tensor([[[5.0, 0, -9], [-5, -9, 0], [9, 9, 9]]]), torch.nn.GRUCell(3, 1).requires_grad_(False)
for weight in cell.parameters():
    weight.zero_()
cell.weight_ih[2, 0] = 1.0                                          # the rows are: reset, update, new state
choice = library.Choice(d=3, hidden=1, attention_size=2, guide=1).requires_grad_(False)
choice.W_d, choice.U_d, choice.w_d = fixed([[0.0, 1, 0], [0, 0, 1]]), fixed([[-2.0], [2]]), fixed([[1.0, 1]])
choice.M_d = fixed([[1.0], [-1]])
reread = check(reread, states, two, torch.tensor([[0.1]]), torch.tensor([[0.3]]), choice, cell, 2, 200.0,
               gives=(-0.225, [[1, 0, 0], [0, 1, 0]]))              # it reads couple, then street

# %% [markdown]
# The answer, Eqs. (7) and (8), is the library's. **The page prints no loss.** There are two judgements, of the first
# reading and of re-reading, and each is a softmax. If their mixture alone has a loss, the first steps drive both to 0
# and 1, the same for every pair, and what stands before them hardly learns. So the library adds a loss for each.
#
# **What training shows.** When this lesson trained (commit 1bef825), models read one or two words of a sentence six
# times, and not always the words that decide: the state of a GRU at a word has read all words before it, so a weight on
# a *place* is no weight on a *word*. Without exact match they fell to chance, and without re-reading hardly an answer
# changed. So what is read does not explain an answer; leaving a part out does.
