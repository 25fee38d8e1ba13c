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
# is packed as for BERT (lesson 1) and read as one sequence. Eqs. (9) to (15) stand at the end of `reread.py`.
#
# | sign | meaning |
# |---|---|
# | h⁰, h¹, h² | vectors of tokens; of phrases of the first CNN and of the second; h^r is one of them |
# | h_ab, h̄_t | the pair as one vector; state of the GRU after reading step t of T |
# | ā^r_t, ā_t | what reader r chooses at step t; the mixture of all readers |
# | m̄, β, c, φ | a score; how hard the choice is; how much of a token is left; how often it may be read |
# | x ⊗ e, ∝ | x repeated for each token; equal up to a factor that makes the sum 1 |
# | W, U, M, V, ω, α, b | matrices, vectors and numbers that are learned |
# | `typeset`, `printed` | the equation as typeset: `printed=True`; where there are several, `printed={12}` |

# %%
import math

import torch
from lesson import came, figure, fixed, heat, look, show, slide, train_on
from torch.testing import assert_close

from reread import (Choice, LadraNet, choose, coverage, dynamic_sequential_attention, layer_mix, phrase_cnn,
                    read_limit)

# %% [markdown]
# ## Tokens: Eq. (9), `layer_mix`
#
# $$h^0_t = \sum_l \alpha_l\, BERT^l_t \tag{9}$$
#
# Every layer of BERT, not only the last one, by learned weights α. Two layers, α = (½, ½): (1, 0) and (3, 4) make
# (2, 2).

# %%
show(layer_mix)
layers = [torch.tensor([[[1.0, 0]]]), torch.tensor([[[3.0, 4]]])]
assert layer_mix(layers, torch.tensor([0.5, 0.5])).tolist() == [[[2, 2]]]

# %% [markdown]
# ## Phrases: Eq. (10), `phrase_cnn`
#
# $$h^r_t = CNN_r([h^0_{t-k}, \ldots, h^0_{t+k}]) \tag{10}$$

# %%
show(phrase_cnn)

# %% [markdown]
# The window is printed as 2k + 1 tokens, the "kernel sizes" as 2 and 3, which does not fit. Two layers do: with
# kernel 2 each sees two tokens, together they see three, t - 1 to t + 1. All weights 1, tokens 1, 2, 3:
#
#     first layer     1 + 2 = 3     2 + 3 = 5     3 + 0 = 3         each with the token on its right
#     second layer    0 + 3 = 3     3 + 5 = 8     5 + 3 = 8         each with what is on its left

# %%
def summing(kernel):
    """A convolution that adds up `kernel` neighbours."""
    layer = torch.nn.Conv1d(1, 1, kernel).requires_grad_(False)
    layer.weight.fill_(1.0)
    layer.bias.zero_()
    return layer


three = torch.ones(1, 3, dtype=torch.bool)
assert phrase_cnn(torch.tensor([[[1.0], [2], [3]]]), three, summing(2), summing(2))[0, :, 0].tolist() == [3, 8, 8]

# %% [markdown]
# What does a phrase see? Let one token of seven be 1, all others 0: kernel 2 carries it one place to each side, kernel
# 3 two.

# %%
single, seven = torch.zeros(1, 7, 1), torch.ones(1, 7, dtype=torch.bool)
single[0, 3] = 1
for kernel, seen in ((2, [0, 0, 1, 2, 1, 0, 0]), (3, [0, 1, 2, 3, 2, 1, 0])):
    assert phrase_cnn(single, seven, summing(kernel), summing(kernel))[0, :, 0].tolist() == seen

# %% [markdown]
# ## A pair as one vector: Eq. (11), `attentive_pooling`
#
# $$\alpha^r = \omega_r^\top \tanh(W_r A + b), \quad h^r = \sum_i \mathrm{softmax}_i(\alpha^r)\, h^r_i, \quad
#   h_{ab} = \mathrm{avg}([h^0, h^1, h^2]) \tag{11}$$
#
# The sums run "to L", the number of layers, and the average to l_ab, the number of tokens; the number of tokens and
# of encodings are meant. In the average h⁰ is the vector of [CLS]. Lesson 5 has the function's lines, and a pair by
# hand.
#
# ## A reading step: Eq. (12), `dynamic_sequential_attention`
#
# $$\bar a^r_t = F([h^r_1, \ldots, h^r_l], \bar h_{t-1}, h_{ab}, \bar a^{0 \ldots r-1}_t) \tag{12}$$
# $$\alpha^r_t = \omega_f^\top \tanh(W_f \bar a^r_t), \quad
#   \bar a_t = \sum_r \mathrm{softmax}_r(\alpha_t)\, \bar a^r_t, \quad \bar h_t = GRU(\bar a_t, \bar h_{t-1})$$
#
# First the plan, then its parts. At each step three readers choose, one after the other: a token (r = 0), then a
# phrase of each CNN (r = 1, 2). F is the choice, Eq. (13); it leaves a mark, coverage, Eq. (14). A **mixture** of the
# three chosen vectors enters the GRU, whose state begins as h_ab.

# %%
show(dynamic_sequential_attention)

# %% [markdown]
# **The mixture** is a softmax over readers: it says who is heard. On the page its sum over r starts with 1, so that
# the token itself is left out, though the phrases only "support the understanding to the important part". Ours
# starts with 0. With weights of 0 all choices and mixtures are uniform: thirds for r = 0, 1, 2, or, as typeset, 0, ½,
# ½. And with W_f = 1, ω_f = 5, and states of 0 for tokens, ln 2 for phrases: scores 5 tanh 0 = 0 and 5 tanh(ln 2) =
# 3, twice, so that the token gets 1 / (1 + 2e³) = 0.024.

# %%
def silent(module):
    """The same module with all weights 0."""
    for parameter in module.requires_grad_(False).parameters():
        parameter.zero_()
    return module


def mixture(phrase, W_f, w_f, printed=frozenset()):
    """Weights of the three readers, whose states are 0 for tokens and `phrase` for phrases."""
    states = [torch.zeros(1, 3, 1), *[torch.full((1, 3, 1), phrase)] * 2]
    choices = [silent(Choice(1, 1, 4, 1, chained=r > 0)) for r in range(3)]
    _, seen = dynamic_sequential_attention(states, three, torch.zeros(1, 1), choices, fixed([[W_f]]), fixed([[w_f]]),
                                           fixed([[0.0]]), silent(torch.nn.GRUCell(1, 1)), 1, 200.0, printed)
    return seen["mixture"][0, 0]


assert_close(mixture(1.0, 0.0, 0.0), torch.tensor([1 / 3, 1 / 3, 1 / 3]))
assert_close(mixture(1.0, 0.0, 0.0, {12}), torch.tensor([0.0, 0.5, 0.5]))
assert_close(mixture(math.log(2), 1.0, 5.0), torch.tensor([0.0243, 0.4879, 0.4879]), atol=1e-4, rtol=0)

# %% [markdown]
# ## A choice that knows the ones before: Eq. (13), `choose`
#
# $$\bar m^r = \omega_r^\top \tanh(W_r A^r + (U_r \bar h_{t-1} + M_r h_{ab} + \sum_{j<r} V_r \bar a^j) \otimes e)
#   \tag{13}$$
#
# The bracket is the clue of lesson 5 with one term more: V tells it what the readers before have chosen. Take lesson
# 5's two words, whose first choice is told by V = 3 as a clue: after "couple", (1, 0), the clue is (3, 0), after
# "street", (0, 1), it is (0, 3). As there, the clue (3, 0) chooses "street" and (0, 3) "couple": the other one.
#
# ## A memory: Eq. (14), `read_limit` and `coverage`
#
# $$\bar m_t = c_{t-1}\, \omega_d^\top \tanh(W_d A + \mathrm{clue} \otimes e) \tag{14}$$
# $$c_0 = 1, \qquad c_t = c_{t-1} - \bar m_t / \phi, \qquad \phi = T\, \sigma(W_\phi A)$$

# %%
show(read_limit, coverage, choose)

# %% [markdown]
# c is how much of a token is left, φ how often it may be read: T = 5 and σ(0) = ½ make φ = 2.5. A choice takes m̄ /
# φ of the token away, so that its score falls and another one wins. That is the plan.
#
# Three words with the scores -1, -2 and -3, φ = 2, five readings. **Guess**: as typeset, does what is left of
# "couple", the first of them, which is read, grow or fall? Write "grows" or "falls", then run on.

# %%
guess = ...

# %% [markdown]
# m̄ is a *score*, of either sign and any size:
#
# - if m̄ is **negative**, c *grows* with every reading. And c times a negative score: the less is left, the
#   *higher* it is;
# - each step multiplies c by 1 - m/φ, with m the score before coverage. If m is 3 φ, that is -2: **c diverges**, 1,
#   -2, 4, -8.
#
# Ours takes the softmax's *weight* away, which lies in 0 to 1, and multiplies *weights* by c: weight ∝ c exp(β m̄).
# A token that is read in full twice is spent at φ = 2.

# %%
assert_close(read_limit(torch.zeros(1, 1, 4), fixed([[1.0, 1, 1, 1]]), steps=5), torch.tensor([[2.5]]))

phi, one_token = torch.tensor([[2.0]]), torch.tensor([[True]])
score, left = 3 * phi, [1.0]
for _ in range(4):
    c = torch.tensor([[left[-1]]])
    left.append(coverage(c, c * score, phi, one_token, printed=True).item())
assert left == [1, -2, 4, -8, 16]

# %% [markdown]
# So, with the three words, c grows for all of them, the more the lower the score, and "couple" stays in front:

# %%
words, scores = ["couple", "walk", "street"], torch.tensor([[-1.0, -2, -3]])
keys = (scores / 4).atanh()[..., None]                              # tanh(key) · 4 is the score


def readings(printed):
    """The words that are chosen, and what is left of each after each reading."""
    left, phi, chosen, rows = torch.ones(1, 3), torch.full((1, 3), 2.0), [], [torch.ones(3)]
    for _ in range(5):
        _, weights, m = choose(keys, keys, three, torch.zeros(1, 1), fixed([[4.0]]), 200.0, left, printed)
        left = coverage(left, m if printed else weights, phi, three, printed)
        chosen.append(words[weights.argmax()])
        rows.append(left[0])
    return chosen, torch.stack(rows)


(typeset, typeset_left), (ours, ours_left) = readings(True), readings(False)
print("as typeset:", " → ".join(typeset))
print("ours:      ", " → ".join(ours))

assert typeset == ["couple"] * 5                                    # read for ever, and more and more of it is left
assert_close(typeset_left[:, 0], torch.tensor([1.5 ** t for t in range(6)]))       # c (1 + ½)
assert ours == ["couple", "couple", "walk", "walk", "street"]

came(guess, "grows", f"to {typeset_left[-1, 0]:.2f} after five readings")
slide("As typeset, what is left grows with reading; ours is spent", "readings", range(6),
      {f"{word}, {name}": row for name, rows in (("as typeset", typeset_left), ("ours", ours_left))
       for word, row in zip(words, rows.T)})

# %% [markdown]
# **Repair it.** Coverage is to remember what was read. Change the line until `claim` is True. <details>
# <summary>Answer</summary> `return c - weight / phi`: the softmax's weight, which is neither negative nor above 1.
# </details>

# %%
def claim(take):
    """Nothing is left more of by reading; of what is read in full twice, with φ = 2, nothing is left."""
    kept = [take(1.0, score, weight, 2.0) for score in (-3.0, -1.0, 2.0) for weight in (0.0, 1.0)]
    return max(kept) <= 1 and all(take(take(1.0, s, 1.0, 2.0), s, 1.0, 2.0) == 0 for s in (-3.0, -1.0, 2.0))


def mine(c, score, weight, phi):
    return c - c * score / phi                                      # repair this line


print(f"claim is {claim(mine)} of your line")
assert claim(lambda c, score, weight, phi: c - weight / phi)

# %% [markdown]
# ## The answer: Eq. (15)
#
# $$v = \mathrm{avg}([h_{ab}, \bar h_1, \ldots, \bar h_T]), \qquad P = MLP(v) \tag{15}$$

# %%
show(LadraNet.forward)

# %% [markdown]
# The last line of `LadraNet.forward`. **What the average does.** h_ab needs no re-reading, and is one part of T + 1.
# The other parts are states after one reading, after two, after all: an early choice stays in v, whatever is read
# later. And since h̄_0 = h_ab, each state begins with it. So a model can answer well by h_ab and carry its readings
# along: a good accuracy does not show that they are of use. With them, it is [CLS] that is heard least: it is a third
# of h_ab, and of v, at T = 5, directly 1/18.
#
# ## A trained model, hand in hand
#
# "Only the nurse and Anna walked hand in hand last week." and "In fact, only the nurse and Anna walked hand in hand
# last week." mean the same; with "even" in the second, they do not. 800 pairs. The paper starts from a pre-trained
# BERT. So do we, in small: plain BERT is trained on these pairs first. Two models then begin with its encoder:
# LadRa-Net, and LadRa-Net with Eqs. (12), (13) and (14) as typeset. (`ATTENTION_SIZE` is 16, not 200.)
#
# **Guess**: the trained model answers the 120 pairs of dev once more without re-reading, by h_ab alone. How many
# answers change: about 0, 10 or 50?

# %%
guess = ...

# %%
frames = {"hand in hand": (("focus", "{x} the {person} and {name} walked hand in hand {time}",
                            "{claim}, {x} the {person} and {name} walked hand in hand {time}"),)}
settings = {"epochs": 3, "batch_size": 32, "lr": 1e-3, "set": "ATTENTION_SIZE=16"}
plain, before = train_on(frames, "bert", epochs=3, batch_size=32, lr=2e-3)
run, found = train_on(frames, "ladranet", plain, **settings)
as_typeset, typeset = train_on(frames, "ladranet", plain, printed="all", **settings)
came(guess, round(120 * found["changes"]["no re-reading"]["answers"]), "see the lines above")

assert min(found["score"], typeset["score"]) > before["score"] - 0.05

# %%
first = "Only the nurse and Anna walked hand in hand last week."
for deciding in ("only", "even"):
    seen = look(run, first, f"In fact, {deciding} the nurse and Anna walked hand in hand last week.")
    reading, left = seen.trace["reading"][0], seen.trace["coverage"][0]          # each (steps, readers, tokens)
    print(f"p(same) {seen.probability:.2f}   only, {deciding}")
    for r, name in enumerate(("token", "phrase of 2 around", "phrase of 3 around")):
        order = [seen.tokens[place] for place in reading[:, r].argmax(-1)]
        print(f"    {name:19}", " → ".join(order))
    print("    mixture of them    ", [[round(x, 2) for x in row] for row in seen.trace["mixture"][0].tolist()])
    places = set(reading[:, 0].argmax(-1).tolist())
    among = {"only", deciding} & {seen.tokens[place] for place in places}
    print(f"    {len(places)} different tokens; of the words that decide: {', '.join(sorted(among)) or 'none'}")

assert_close(reading.sum(-1), torch.ones_like(reading[..., 0]))                  # a choice's weights
assert (left <= 1).all()                                                         # nobody gains by being read

steps = [f"step {t + 1}" for t in range(len(reading))]
figure("Which token is read at each step", heat("reader 0", steps, seen.tokens, reading[:, 0], top=1))
figure("What is left of each token after the step",
       heat("coverage of reader 0", steps, seen.tokens, left[:, 0].clamp(min=0), top=1))

# %% [markdown]
# Is the word that decides among those that are read? With seed 0 it is not. In BERT a token's vector has read all
# others (lesson 1), so that any token may carry the answer; the picture cannot tell. The lines behind the training can:
#
# | seed | 0 | 1 | 2 | 3 | 4 |
# |---|---|---|---|---|---|
# | plain BERT, the start | 100 | 100 | 75.0 | 100 | 51.7 |
# | LadRa-Net; the same model without re-reading | 100; 100 | 100; 100 | 100; 50.0 | 100; 100 | 50.8; 50.0 |
# | as typeset; the same model without re-reading | 100; 100 | 100; 100 | 100; 100 | 100; 100 | 100; 100 |
#
# Where plain BERT has learned the pairs, h_ab alone gives the answers: re-reading cannot win, and a printed equation
# cannot lose. With seed 2 it had learned a part, and half of LadRa-Net's answers then hang on re-reading; the typeset
# form learned as fast, by h_ab. With seed 4 it had learned nothing: the typeset form learned all of it, ours did not.
# So re-reading can carry an answer, no seed shows that it must, and five do not tell the two forms apart. From random
# weights LadRa-Net learns nothing of the toy world in eight epochs; with a pre-trained encoder it is at best as good as
# plain BERT (`docs/results.md`). Coverage does what it should: no token is read for ever.
#
# ## Summary
#
# - Tokens are a mix of BERT's layers (9); phrases see one or two neighbours to each side (10).
# - A step is three choices, each told of the ones before (13), and a mixture of what they chose (12).
# - Coverage as typeset (14) takes *scores* away: negative ones make it grow, large ones make it diverge. Ours takes
#   weights away.
# - The answer (15) averages the pair's vector with the states after every reading.
#
# ## Five questions
#
# 1. Kernel 3, two layers. How many tokens does a phrase see? <details><summary>Answer</summary> 2 · (3 - 1) + 1 = 5,
#    two to each side.</details>
# 2. φ = 2 and a token is read with the weight 0.6, then 0.4. What is left of it? <details><summary>Answer</summary>
#    1 - 0.3 - 0.2 = 0.5.</details>
# 3. All scores are negative. Why does coverage as typeset keep the same word in front? <details>
#    <summary>Answer</summary> Every c grows, read or not, and most where the score is lowest. So c m̄ falls most for
#    those behind.</details>
# 4. T = 5. How much of v is h_ab, and how much of it is [CLS] directly? <details><summary>Answer</summary> 1/6, and a
#    third of that: 1/18.</details>
# 5. The mixture of a step is (0.9, 0.05, 0.05). Does that say which token was read? <details>
#    <summary>Answer</summary> No: it says that the reader of tokens was heard, not what it chose.</details>
#
# ## Try it
#
# 1. Give `look` the run `as_typeset`, and print its coverage. Does anything diverge? <details>
#    <summary>Answer</summary> It can, where a score is beyond 2φ in size; with few readings it has little time to.
#    A token whose score is negative is never spent.</details>
# 2. Train with `without="dsa"`, so that nothing is re-read. Is it as good? Is it faster? <details>
#    <summary>Answer</summary> As good: h_ab holds the answer already. And faster, for there are no steps.</details>
# 3. Leave `plain` out, and train for ten epochs. Does it learn with every seed? <details><summary>Answer</summary> Not in
#    our runs: one seed of four stayed at 50 (with T = 3). [CLS] is hardly heard, and choices at places that are
#    random at first are noise.</details>
