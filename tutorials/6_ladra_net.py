# %% [markdown]
# # 6. LadRa-Net: reading again, with phrases and a memory
#
# **The question.** DRr-Net (lesson 5) re-reads single words, by GRUs. But "new" in "new couple" is not the "new" of
# "new book", and nothing keeps the network from choosing the same word for ever. Can re-reading see a word *with
# its neighbours*, on top of BERT, and remember what it has read?
#
# > "one word can express tremendously different semantic meanings due to different local structures" (Zhang et al.,
# > LadRa-Net, § V-C)
#
# **Local structure** is the paper's word for neighbours. Two small **CNNs** make vectors of phrases: networks that
# see a few tokens at a time. **Coverage** is a number for each token, how much of it is left to be read. The pair
# is packed as for BERT (lesson 1) and read as one sequence.
#
# | sign | meaning |
# |---|---|
# | h⁰, h¹, h² | vectors of tokens; of phrases of the first CNN and of the second; h^r is one of them |
# | h_ab, h̄_t | the pair as one vector; state of the GRU after reading step t of T |
# | ā^r_t, ā_t | what reader r chooses at step t; the mixture of all readers |
# | m̄, β, c, φ | a score; how hard the choice is; how much of a token is left; how often it may be read |
# | x ⊗ e, ∝ | x repeated for each token; equal up to a factor that makes the sum 1 |
# | W, U, M, V, ω, α, b | matrices, vectors and numbers that are learned |

# %%
import math
from unittest import mock

import torch
import torch.nn.functional as F
from lesson import begin, check, fixed, guessed, mine, reveal, table, train_on
from torch.testing import assert_close

import reread as library

begin(6)
attention_weights = mine("attention_weights")
three = torch.ones(1, 3, dtype=torch.bool)

# %% [markdown]
# ## Tokens: Eq. (9)
#
# $$h^0_t = \sum_l \alpha_l\, BERT^l_t \tag{9}$$
#
# Every layer of BERT, not only the last one, by learned weights α, which are free: neither positive nor of sum 1. By
# hand, two layers, α = (½, ½): (1, 0) and (3, 4) make (2, 2).

# %%
def layer_mix(hidden_states, alpha):
    """hidden_states: a list of N tensors (B, L, d). alpha: (N,). Returns: (B, L, d)."""
    ...


by_hand = [torch.tensor([[[1.0, 0]]]), torch.tensor([[[3.0, 4]]])], torch.tensor([0.5, 0.5])
layer_mix = check(layer_mix, *by_hand)
assert layer_mix(*by_hand).tolist() == [[[2, 2]]]

# %% [markdown]
# ## Phrases: Eq. (10)
#
# $$h^r_t = CNN_r([h^0_{t-k}, \ldots, h^0_{t+k}]), \qquad CNN_r \text{: two layers, ReLU between them} \tag{10}$$
#
# "k denotes the kernel size", 2 or 3, says the page: two layers of kernel 2 see no 5 tokens. They see 2k + 1 with k =
# kernel - 1, if the odd padding goes *right in the first layer and left in the second*. By hand, kernel 2, all weights
# 1, tokens 1, 2, 3:
#
#     first layer     1 + 2 = 3     2 + 3 = 5     3 + 0 = 3         each with the token on its right
#     second layer    0 + 3 = 3     3 + 5 = 8     5 + 3 = 8         each with what is on its left
#
# **Guess**: how many tokens does a phrase of kernel 2 see, "two", "three" or "five"?

# %%
guess = ...
reveal("window", guess)

# %% [markdown]
# **Yours to write**. A kernel of K adds K - 1 places: (K - 1) // 2 on one side, the rest on the other. Padding of the
# batch, and what is beyond the ends, is 0 in both layers; `F.pad(x, (left, right))` pads the last axis, and nn.Conv1d
# takes (B, d, L).

# %%
def phrase_cnn(hidden, mask, first, second):
    """hidden: (B, L, d). mask: bool (B, L). first, second: nn.Conv1d of one kernel, without padding.
    Returns: (B, L, d), 0 at padding."""
    ...


def summing(kernel):
    """A convolution that adds up `kernel` neighbours."""
    layer = torch.nn.Conv1d(1, 1, kernel).requires_grad_(False)
    layer.weight.fill_(1.0)
    layer.bias.zero_()
    return layer


by_hand = torch.tensor([[[1.0], [2], [3]]]), three, summing(2), summing(2)
phrase_cnn = check(phrase_cnn, *by_hand)
assert phrase_cnn(*by_hand)[0, :, 0].tolist() == [3, 8, 8]
single, seven = torch.zeros(1, 7, 1), torch.ones(1, 7, dtype=torch.bool)
single[0, 3] = 1                                        # what does a phrase see of one token of seven?
for kernel, seen in ((2, [0, 0, 1, 2, 1, 0, 0]), (3, [0, 1, 2, 3, 2, 1, 0])):
    assert phrase_cnn(single, seven, summing(kernel), summing(kernel))[0, :, 0].tolist() == seen

# %% [markdown]
# ## A pair as one vector, and a reading step: Eqs. (11) and (12)
#
# $$\alpha^r = \omega_r^\top \tanh(W_r A + b), \quad h^r = \sum_i \mathrm{softmax}_i(\alpha^r)\, h^r_i, \quad
#   h_{ab} = \mathrm{avg}([h^0, h^1, h^2]) \tag{11}$$
#
# is `attentive_pooling` of lesson 5; in the average h⁰ is the vector of [CLS].
#
# $$\bar a^r_t = F([h^r_1, \ldots, h^r_l], \bar h_{t-1}, h_{ab}, \bar a^{0 \ldots r-1}_t) \tag{12}$$
# $$\alpha^r_t = \omega_f^\top \tanh(W_f \bar a^r_t), \quad
#   \bar a_t = \sum_r \mathrm{softmax}_r(\alpha_t)\, \bar a^r_t, \quad \bar h_t = GRU(\bar a_t, \bar h_{t-1})$$
#
# At each step three readers choose, one after the other: a token (r = 0), then a phrase of each CNN (r = 1, 2). F is the
# choice, Eq. (13); it leaves a mark, coverage, Eq. (14). A **mixture** of the three chosen vectors enters the GRU, whose
# state begins as h_ab. On the page its sum over r starts with 1: it leaves out the token, which the phrases only "support".
# Yours starts with 0. By hand, W_f = 1, ω_f = 5, chosen 0, ln 2, ln 2: scores 0, 3, 3, weights 0.024, 0.488, 0.488.

# %%
def mix_readers(chosen, W_f, w_f):
    """chosen: (B, E, d), what each reader chose. W_f: Linear d → A, w_f: Linear A → 1, without biases.
    Returns: ā (B, d) and the mixture's weights (B, E)."""
    ...


by_hand = torch.tensor([[[0.0], [math.log(2)], [math.log(2)]]]), fixed([[1.0]]), fixed([[5.0]])
mix_readers = check(mix_readers, *by_hand)
_, mixture = mix_readers(*by_hand)
assert_close(mixture, torch.tensor([[0.0243, 0.4879, 0.4879]]), atol=1e-4, rtol=0)

# %% [markdown]
# ## A memory: Eq. (14)
#
# $$\bar m_t = c_{t-1}\, \omega_d^\top \tanh(W_d A + \mathrm{clue} \otimes e) \tag{14}$$
# $$c_0 = 1, \qquad c_t = c_{t-1} - \bar m_t / \phi, \qquad \phi = T\, \sigma(W_\phi A)$$
#
# c is how much of a token is left, φ how often it may be read: T = 5 and σ(0) = ½ make φ = 2.5. A choice takes m̄ / φ
# of the token away, so that its score falls and another one wins. That is the plan.
#
# First φ. Near 0 one reading would spend a token many times over: keep φ in [1, max(1, T - 1)].

# %%
def read_limit(states, W_phi, steps):
    """states: (B, n, d). W_phi: Linear d → 1 without bias. steps: T. Returns: φ (B, n)."""
    ...


by_hand = torch.zeros(1, 1, 4), fixed([[1.0, 1, 1, 1]]), 5
read_limit = check(read_limit, *by_hand)
assert_close(read_limit(*by_hand), torch.tensor([[2.5]]))

# %% [markdown]
# **Guess**: "couple" has the score -1, φ = 2. By the page, does what is left of it grow, fall or stay with each step:
# "grows", "falls" or "stays"?

# %%
guess = ...
reveal("grows", guess)

# %% [markdown]
# m̄ is c times a *score*, of either sign and any size. If it is negative, c grows, whether the word is read or not. And
# each step multiplies c by 1 - m/φ: for m = 3 φ that is -2, and c runs 1, -2, 4, -8. The text updates c "based on the
# calculated attention weights". So take the *weight* away, which lies in 0 to 1: c_t = c_(t-1) - weight / φ. A token that
# is read in full φ times is spent. Where all real tokens of a row are spent (c ≤ 10⁻⁶), c is 1 again for the whole row. By
# hand: the first of three tokens is read in full once, φ = 2: c is 1 - 1 / 2 = ½ for it, 1 for the others.

# %%
def coverage(left, weights, phi, mask):
    """left: c_(t-1). All (B, n), mask bool. Returns: c_t (B, n)."""
    ...


by_hand = torch.ones(1, 3), torch.tensor([[1.0, 0, 0]]), torch.full((1, 3), 2.0), three
coverage = check(coverage, *by_hand)
assert_close(coverage(*by_hand), torch.tensor([[0.5, 1, 1]]))

# %% [markdown]
# ## A choice that knows the ones before: Eq. (13)
#
# $$\bar m^r = \omega_r^\top \tanh(W_r A^r + (U_r \bar h_{t-1} + M_r h_{ab} + \sum_{j<r} V_r \bar a^j) \otimes e)
#   \tag{13}$$
#
# The bracket is lesson 5's clue with one term more: what the readers before have chosen. And c calibrates the choice: on the
# page it multiplies the score, but less than one times a negative score is a *higher* score. So multiply the weight:
# weight ∝ c exp(β m̄), a softmax of β m̄ + ln c. Where c is 10⁻⁶ or less, the weight is exactly 0. By hand, two words of
# equal scores, c = 1 and ½: weights ⅔ and ⅓.

# %%
def choose_left(states, keys, mask, clue, w_d, beta, left):
    """states: (B, n, d). keys: (B, n, A). mask: bool (B, n). clue: (B, A). w_d: Linear A → 1 without bias. beta: a
    number. left: c (B, n), which may be below 0. Returns: what is chosen (B, d); the weights (B, n)."""
    ...


zeros = torch.zeros(1, 2, 1)
by_hand = zeros, zeros, three[:, :2], zeros[:, 0], fixed([[1.0]]), 200.0, torch.tensor([[1.0, 0.5]])
choose_left = check(choose_left, *by_hand)
_, weights = choose_left(*by_hand)
assert_close(weights, torch.tensor([[2 / 3, 1 / 3]]))

# %% [markdown]
# Three words with the scores -1, -2 and -3, φ = 2, five readings. As printed c grows for all of them, the more the lower
# the score, so that "couple" stays in front; yours is read twice and is spent.

# %%
words, scores = ["couple", "walk", "street"], torch.tensor([[-1.0, -2, -3]])
keys = (scores / 4).atanh()[..., None]                              # tanh(key) · 4 is the score


def readings(printed):
    """The words that are chosen, and what is left of each after each reading."""
    left, phi, chosen, rows = torch.ones(1, 3), torch.full((1, 3), 2.0), [], [torch.ones(3)]
    for _ in range(5):
        if printed:
            weights = (200 * left * scores).softmax(-1)
            left = left - left * scores / phi
        else:
            _, weights = choose_left(keys, keys, three, torch.zeros(1, 1), fixed([[4.0]]), 200.0, left)
            left = coverage(left, weights, phi, three)
        chosen.append(words[weights.argmax()])
        rows.append(left[0])
    return chosen, torch.stack(rows)


(printed, printed_left), (yours, your_left) = readings(True), readings(False)
print("as printed:", " → ".join(printed), "\nyours:     ", " → ".join(yours))
assert printed == ["couple"] * 5                                    # read for ever, and more and more of it is left
assert yours == ["couple", "couple", "walk", "walk", "street"]
table([f"{word}, {name}" for name in ("as printed", "yours") for word in words], range(6),
      torch.cat([printed_left, your_left], 1).T, "readings; as printed, what is left grows, yours is spent")

# %% [markdown]
# ## The answer: Eq. (15)
#
# $$v = \mathrm{avg}([h_{ab}, \bar h_1, \ldots, \bar h_T]), \qquad P = MLP(v) \tag{15}$$
#
# h_ab needs no re-reading, and is one part of T + 1; and since h̄_0 = h_ab, each other part begins with it. So a model can
# answer well by h_ab and carry its readings along: a good accuracy does not show that they are of use.
#
# ## A trained model, hand in hand
#
# "Only the nurse and Anna walked hand in hand last week." and "In fact, only the nurse and Anna walked hand in hand
# last week." mean the same; with "even" in the second, they do not. 800 pairs. The paper starts from a pre-trained BERT.
# So do we, in small: plain BERT is trained on these pairs first, and LadRa-Net, with your functions, begins with its encoder.
#
# **Guess**: the trained model answers dev once more by h_ab alone. How many answers change, "few or
# none", "about a quarter" or "half"?

# %%
guess = ...
guessed("by heart", guess)
frames = {"hand in hand": (("focus", "{x} the {person} and {name} walked hand in hand {time}",
                            "{claim}, {x} the {person} and {name} walked hand in hand {time}"),)}
plain, before = train_on(frames, "bert", epochs=3, batch_size=32, lr=2e-3)
yours = {"layer_mix": layer_mix, "phrase_cnn": phrase_cnn, "read_limit": lambda x, W, T, *printed: read_limit(x, W, T),
         "coverage": lambda left, weights, phi, mask, *printed: coverage(left, weights, phi, mask)}
with mock.patch.multiple(library, **yours):
    run, found = train_on(frames, "ladranet", plain, epochs=3, batch_size=32, lr=1e-3, set="ATTENTION_SIZE=16")
assert found["score"] > before["score"] - 0.05
reveal("by heart", guess)

# %%
first = "Only the nurse and Anna walked hand in hand last week."
for deciding in ("only", "even"):
    second = f"In fact, {deciding} the nurse and Anna walked hand in hand last week."
    prediction, trace = run.explain(first, second)
    tokens = run.reader.tokenizer.pieces(run.examples([(first, second)]).tokens[0][0])
    reading, left = trace["reading"][0], trace["coverage"][0]                    # each (steps, readers, tokens)
    print(f"p(same) {prediction.probabilities['same']:.2f}   only, {deciding}")
    for r, name in enumerate(("token", "phrase of 2 around", "phrase of 3 around")):
        print(f"    {name:19}", " → ".join(tokens[place] for place in reading[:, r].argmax(-1)))
assert (left <= 1).all()                                                         # nobody gains by being read

# %% [markdown]
# Where plain BERT has learned the pairs, h_ab alone gives the answers: re-reading cannot win, and a printed equation cannot
# lose. A token's vector has read all others (lesson 1), so that any token may carry the answer; the picture of what is read
# cannot tell. Coverage does what it should: no token is read for ever.
