"""The re-reading papers, equation by equation: DRr-Net, LadRa-Net, and what both share.

Papers
    DRr-Net    Zhang et al., "DRr-Net: Dynamic Re-Read Network for Sentence Semantic Matching",
               AAAI 2019, as retold in
    LadRa-Net  Zhang et al., "LadRa-Net: Locally Aware Dynamic Reread Attention Net for Sentence
               Semantic Matching", IEEE TNNLS 2021: DRr-Net is its section IV, Eqs. (1)-(8),
               LadRa-Net its section V, Eqs. (9)-(15).

Both read a pair, and then read single words of it again, one at each of T steps. What has been read
before decides which word is next. DRr-Net reads words and has no pre-trained weights; LadRa-Net
reads the pieces of a packed pair, and phrases of them, with BERT or RoBERTa. `printed`, `without`,
`Departs:`, `Assumes:` and a function of your own are as in semmatch.py.

Names (ours | paper)
    states | h_1, ..., h_l; h^r    choose, choice | F, weights of F    guide | h^b of the other text
    h, first | h̄_t, h̄_0            clue | U_d h̄ + M_d h^b + ...        left, phi | c_t, φ
    reading | softmax(β m̄)         steps, beta | T, β                  mixture | softmax_r(α_t)

Left out: the encoder (bert_min.py), training (train.py), words and vectors (support/words.py).
"""
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import printed
from bert_min import Bert, Constant, attention_weights, full_precision, linear
from priors import TAGS, WordFeatures
from support.kernels import run_gru, tanh_scores
from support.shown import Change, check_options, note, printed_forms

# Axes: B batch, n words of a sentence or tokens of a pair, L tokens of the packed pair,
# d width of a state, A attention size, c characters of a word, C classes, T reading steps,
# E readers (one of pieces and one of each CNN's phrases), N encoder layers

SPENT = 1e-6      # a word with no more left than this has the weight 0


# ---- Equations that both share ------------------------------------------------------------------

def stacked_gru(x: Tensor, mask: Tensor, grus: nn.ModuleList) -> Tensor:
    """GRU layers; each reads the output and the input of the one below.  DRr-Net Eqs. (1), (2)

        h^l_t = H_l(x^l_t, h^l_(t-1)),   x^l_t = [h^(l-1)_t; x^(l-1)_t]         ; is concatenation

    The text gives Eq. (1), x^l = h^(l-1), as the form that (2) improves: we compute (2) alone.
    Assumes: torch's form of the GRU; one direction.

    Args: x: (B, n, d). mask: bool (B, n), True = real, padding right. grus: the lowest first.
    Returns: [h^l; x^l] of the top layer (B, n, d + Σ hidden sizes), 0 at padding.
    """
    for gru in grus:
        x = torch.cat([run_gru(gru, x, mask), x], -1)
    return x.masked_fill(~mask[..., None], 0.0)


def attentive_pooling(states: Tensor, mask: Tensor, W: nn.Linear,
                      w: nn.Linear) -> tuple[Tensor, Tensor]:
    """A sentence as the weighted sum of its words.
    DRr-Net Eq. (3), LadRa-Net Eq. (11), without its last line

        α = ωᵀ tanh(W A + b),   h = Σ_i softmax_i(α) h_i,   A = [h_1, ..., h_l]

    Departs: Eq. (11) sums up to L, the number of layers, and averages up to l_ab. We sum up to the
    number of tokens, and average up to l_r.

    Args: states: (B, n, d). mask: bool (B, n). W: Linear d → A. w: Linear A → 1 without bias.
    Returns: h (B, d) and the weights (B, n), masked exactly 0; a row without a word gives zeros.
    """
    weights = attention_weights(w(W(states).tanh())[..., 0], mask)  # (B, n)
    return (weights.to(states.dtype)[:, None] @ states)[:, 0], weights


def choose(states: Tensor, keys: Tensor, mask: Tensor, clue: Tensor, w_d: nn.Linear,
           beta: float) -> tuple[Tensor, Tensor]:
    """F(·), attention that looks at one word.
    DRr-Net Eqs. (5), (6)

        m̄ = ω_dᵀ tanh(W_d A + clue ⊗ e),   ā = Σ_i softmax_i(β m̄) h_i,
        clue = U_d h̄_(t-1) + M_d h^b,   which ⊗ e repeats

    Departs: Eq. (5) takes the arg-max of ᾱ, a sum of weights and so the number 1, by an operation
    that "has no derivative"; Eq. (6) supersedes it.

    Args: states: (B, n, d). keys: (B, n, A), W_d A, which no step changes. mask: bool (B, n), True
        = real. clue: (B, A). w_d: Linear A → 1 without bias.
    Returns: ā (B, d); weights (B, n), float32 or wider, masked exactly 0.
    """
    scores = beta * tanh_scores(keys, clue, w_d.weight[0])  # (B, n)
    weights = attention_weights(scores, mask)  # (B, n)
    return (weights.to(states.dtype)[:, None] @ states)[:, 0], weights


class Choice(nn.Module):
    """The weights of one F, without biases, as on the pages: DRr-Net Eq. (5), LadRa-Net Eq. (13).

    Args: d, hidden, guide: widths of words, of h̄, of h^b or None. chained: with V_d.
    """

    def __init__(self, d, hidden, attention_size, guide, chained=False):
        super().__init__()
        self.W_d = linear(d, attention_size, bias=False)
        self.U_d = linear(hidden, attention_size, bias=False)
        self.M_d = linear(guide, attention_size, bias=False) if guide else Constant(0.0)
        self.V_d = linear(d, attention_size, bias=False) if chained else None
        self.w_d = linear(attention_size, 1, bias=False)

    def clue(self, h, of_guide, chosen):
        """U_d h̄ + M_d h^b + Σ V_d ā^j, (B, A). of_guide: M_d h^b. chosen: list of the ā^j."""
        clue = self.U_d(h) + of_guide
        if chosen:
            clue = clue + self.V_d(sum(chosen))
        return clue


def perceptron(n_in, hidden, n_out, layers):
    """An MLP with hidden ReLU layers. The caller adds the softmax, if there is one."""
    parts = []
    for _ in range(layers):
        parts += [linear(n_in, hidden), nn.ReLU()]
        n_in = hidden
    return nn.Sequential(*parts, linear(n_in, n_out))


# ---- DRr-Net ------------------------------------------------------------------------------------

def highway(x: Tensor, W_t: nn.Linear, W_h: nn.Linear) -> Tensor:
    """A gate between a layer's output and input (Srivastava et al. 2015), two in DRr-Net § IV-A.

        t = σ(W_t x + b_t),   t relu(W_h x + b_h) + (1 - t) x

    Assumes: relu. Args: x: (..., d). W_t, W_h: Linear d → d. Returns: (..., d).
    """
    t = W_t(x).sigmoid()
    return t * W_h(x).relu() + (1 - t) * x


def reread(states: Tensor, mask: Tensor, h: Tensor, guide: Tensor, choice: Choice, gru: nn.GRUCell,
           steps: int, beta: float, choose=choose) -> tuple[Tensor, Tensor]:
    """Reads T words; the words before decide which is next.  DRr-Net Eq. (4)

        ā_t = F([h_1, ..., h_l], h̄_(t-1), h^b),   h̄_t = GRU(ā_t, h̄_(t-1)),   v = h̄_T

    Args: states: (B, n, d). mask: bool (B, n), True = real. h: h̄_0. guide: h^b (B, d). choice:
        Choice. gru: nn.GRUCell. steps: T. choose: F, Eq. (6).
    Returns: v, that is h̄_T; the weights of each step (B, T, n).
    """
    keys, of_guide, reading = choice.W_d(states), choice.M_d(guide), []
    for _ in range(steps):
        chosen, weights = choose(states, keys, mask, choice.U_d(h) + of_guide, choice.w_d, beta)
        h = gru(chosen, h)
        reading.append(weights)
    return h, torch.stack(reading, 1)


def matching(a: Tensor, b: Tensor) -> Tensor:
    """Joins two vectors.  DRr-Net Eq. (7): [a; b; a ⊙ b; b - a]

    Assumes: the equation is missing from our text of the paper, which names "the elementwise
    product, their difference, and concatenation"; order and sign are ours.
    Args: a, b: (B, d). Returns: (B, 4d).
    """
    return torch.cat([a, b, a * b, b - a], -1)  # (B, 4*d)


def probability_fusion(p_h: Tensor | None, p_v: Tensor | None, w_h: nn.Linear, w_v: nn.Linear,
                       mlp: nn.Module) -> tuple[Tensor, Tensor]:
    """Mixes the judgements of reading and of re-reading by gates.  DRr-Net Eq. (8)

        α_h = σ(w_hᵀ p^h + b_h),   α_v = σ(w_vᵀ p^v + b_v),   P = MLP_3(α_h p^h + α_v p^v)

    Departs: the page prints no loss. With the loss of P alone nothing tells p^h and p^v what they
    are meant to be, "probability distributions of the semantic relations": through two softmaxes
    the GRUs get under a tenth of the gradient, and p^h, p^v often end as 0 and 1 for all pairs.
    DrrNet adds the losses of P, p^h and p^v; `printed` {8} keeps the loss of P alone.
    Args: p_h, p_v: (B, C), or None to leave a side out. w_h, w_v: Linear C → 1. mlp: of C → C.
    Returns: MLP_3's output (B, C); the gates α_h, α_v (B, 2) in (0, 1), of each side given.
    """
    sides = [(p, w(p).sigmoid()) for p, w in ((p_h, w_h), (p_v, w_v)) if p is not None]
    return mlp(sum(gate * p for p, gate in sides)), torch.cat([gate for _, gate in sides], -1)


class DrrNet(nn.Module):
    """Reads both sentences word by word, then re-reads T of each one's words: DRr-Net Eqs. (1)-(8).

    Sizes as in the paper's Table I, but d_w: 419 with our 17 tags, where the table has 412.
    Departs: β "is an arbitrarily big value"; with `printed` {6} it is 10⁸, so that the choice is an
    arg-max without a gradient. The loss takes the softmax of P; if C = 1, a score, all three ends
    are linear. {8}: see probability_fusion. The page's word vectors are GloVe's, fixed; ours are
    learned without `vectors`.
    Assumes: h̄_0 is 256 wide and h^a, the "initial state", 1187: a linear map W_0 between them. One
    set of weights for both sentences. The character CNN has a kernel of 5, and takes the largest
    value over the word's own characters. MLPs are 256 wide, MLP_3 as deep as the others. "All the
    model parameters" are uniform in ±√(6 / (n_in + n_out)), gate by gate; n_in = 1 in tables, where
    one row is looked up. The page has no dropout: ours is on embed's output and both matchings.
    without, the paper's Table VI: "initial-vector": h̄_0 = 0; "guide-vector": no M_d h^b; "global":
    P = MLP_3(α_v p^v); "reread": P = MLP_3(α_h p^h).

    Args: vocabulary: has the lists `words` and `characters`, with ids from 2 on (0 is padding, 1
        unknown), and `vectors`, float32 (2 + words, size), fixed, or None: learned, with word_size
        numbers each. classes: C; 1 for a score. printed: of PRINTED. without: of ABLATIONS.
        dropout: probability. kernel: of the character CNN. layers: of the GRU. steps: T. beta: β.
    """

    READS = "words"
    stacked_gru = staticmethod(stacked_gru)
    attentive_pooling = staticmethod(attentive_pooling)
    reread = staticmethod(reread)
    choose = staticmethod(choose)
    matching = staticmethod(matching)
    probability_fusion = staticmethod(probability_fusion)

    PRINTED = printed.DRR_NET
    ABLATIONS = frozenset({"initial-vector", "guide-vector", "global", "reread"})

    @classmethod
    def prior(cls, printed, without):
        """Columns of the input; see embed."""
        return WordFeatures()

    def __init__(self, vocabulary, classes, printed=frozenset(), without=frozenset(), *,
                 dropout=0.0, word_size=300, character_size=100, kernel=5, highways=2,
                 hidden_size=256, layers=3, attention_size=200, steps=6, beta=200.0):
        super().__init__()
        check_options(type(self), printed, without)
        vars(self).update(printed_forms(type(self), printed))
        if {"global", "reread"} <= set(without):
            raise ValueError("without global, reread: one of them must stay for DrrNet to judge by")
        self.deep = 8 not in printed
        self.steps, self.beta = steps, 1e8 if 6 in printed else beta
        self.dropout = nn.Dropout(dropout)
        d_w = self.add_words(vocabulary, word_size, character_size, kernel, highways)
        d_g = hidden_size
        self.grus = nn.ModuleList(nn.GRU(d_w + l * d_g, d_g, batch_first=True)
                                  for l in range(layers))
        d = d_w + layers * d_g
        self.W, self.w = linear(d, d_g), linear(d_g, 1, bias=False)
        self.mlp_h = self.mlp_v = self.w_h = self.w_v = self.W_0 = None
        if "global" not in without:
            self.mlp_h, self.w_h = perceptron(4 * d, d_g, classes, 2), linear(classes, 1)
        if "reread" not in without:
            self.choice = Choice(d, d_g, attention_size, None if "guide-vector" in without else d)
            if "initial-vector" not in without:
                self.W_0 = linear(d, d_g, bias=False)
            self.gru = nn.GRUCell(d, d_g)
            self.mlp_v, self.w_v = perceptron(4 * d_g, d_g, classes, 2), linear(classes, 1)
        self.mlp = perceptron(classes, d_g, classes, 2)
        self.draw_weights()

    def add_words(self, vocabulary, word_size, character_size, kernel, highways):
        """The weights of `embed`. Returns: d_w, how wide a word is."""
        if vocabulary.vectors is None:
            self.words = nn.Embedding(2 + len(vocabulary.words), word_size, padding_idx=0)
        else:
            self.words = nn.Embedding.from_pretrained(torch.tensor(vocabulary.vectors))
        letters = 2 + len(vocabulary.characters)
        self.characters = nn.Embedding(letters, character_size, padding_idx=0)
        self.cnn = nn.Conv1d(character_size, character_size, kernel, padding="same")
        d_w = self.words.embedding_dim + character_size + len(TAGS) + 2
        self.W_t = nn.ModuleList(linear(d_w, d_w) for _ in range(highways))
        self.W_h = nn.ModuleList(linear(d_w, d_w) for _ in range(highways))
        return d_w

    @torch.no_grad()
    def draw_weights(self):
        """The paper's initial values, see `Assumes:`; fixed vectors stay as they are."""
        for name, p in self.named_parameters():
            if p.dim() == 1:
                p.zero_()
            elif name in ("words.weight", "characters.weight") and p.requires_grad:
                bound = (6 / (1 + p.shape[1])) ** 0.5
                p.uniform_(-bound, bound)[0] = 0.0    # padding, which the CNN sees at a word's ends
            elif p.requires_grad:
                for gate in p.chunk(3 if "gru" in name else 1):
                    nn.init.xavier_uniform_(gate)

    def embed(self, word_ids, character_ids, tags, match, antonym):
        """Words as vectors, § IV-A. As in forward, (B, n) and (B, n, c). Returns: (B, n, d_w)."""
        real = character_ids > 0  # (B, n, c)
        spelling = self.characters(character_ids.flatten(0, 1)).transpose(1, 2)
        spelling = self.cnn(spelling).unflatten(0, word_ids.shape)
        lowest = torch.finfo(spelling.dtype).min
        spelling = spelling.masked_fill(~real[:, :, None], lowest).amax(-1)
        spelling = spelling.masked_fill(~real.any(-1, keepdim=True), 0.0)   # without characters
        x = torch.cat([self.words(word_ids), spelling, F.one_hot(tags, len(TAGS)),
                       match[..., None], antonym[..., None]], -1)
        for W_t, W_h in zip(self.W_t, self.W_h):
            x = highway(x, W_t, W_h)
        return self.dropout(x)

    def outputs(self):
        """The linear layers that answer. If they give a score, their biases start at its mean."""
        return [mlp[-1] for mlp in (self.mlp_h, self.mlp_v, self.mlp) if mlp is not None]

    def changes(self):
        """dict name -> Change: no shared words and antonyms, other choices, and no re-reading."""
        def neutral(batch):
            return batch | {name: torch.zeros_like(batch[name]) for name in ("match", "antonym")}

        changes = {"no prior": Change(neutral)}
        if self.mlp_v is not None:
            changes["uniform choice"] = Change(attributes={"beta": 0.0})
        if None not in (self.mlp_h, self.mlp_v):
            changes["no re-reading"] = Change(attributes={"mlp_v": None})
        return changes

    def relation(self, mlp, vectors):
        """One side: MLP_1 or MLP_2 and p, its softmax, (B, C). vectors: (2*B, d), a's, then b's."""
        inner = mlp[:-1](self.dropout(self.matching(*vectors.chunk(2))))
        logits = full_precision(mlp[-1], inner)  # (B, C)
        p = logits if logits.shape[1] == 1 else logits.softmax(-1)
        return logits, p.to(self.mlp[-1].weight.dtype)

    def forward(self, word_ids, character_ids, tags, match, antonym, mask):
        """Logits (J, B, C) of judgements whose losses add up: P, which is the answer, then the
        sides that are not left out; with `printed` {8} P alone. Sentence a stands first, then b.

        Args: word_ids, tags: int64 (2, B, n). character_ids: int64 (2, B, n, c), 0 after a word's
            end. match, antonym: bool (2, B, n). mask: bool (2, B, n), True = real, padding right.
        Noted: "pooling" (2, B, n) of Eq. (3), "reading" (2, B, T, n) of Eq. (6); "relations", p^h
            and p^v (B, 2, C), and "gates" (B, 2) of Eq. (8), of each side that is not left out.
        """
        parts = (word_ids, character_ids, tags, match, antonym)
        x = self.embed(*(part.flatten(0, 1) for part in parts))
        rows, p_h, p_v, sides = mask.flatten(0, 1), None, None, []
        states = self.stacked_gru(x, rows, self.grus)
        h, pooling = self.attentive_pooling(states, rows, self.W, self.w)
        note(pooling=pooling.view(mask.shape))
        if self.mlp_h is not None:
            side, p_h = self.relation(self.mlp_h, h)
            sides.append(side)
        if self.mlp_v is not None:
            first = h.new_zeros(len(h), self.gru.hidden_size) if self.W_0 is None else self.W_0(h)
            guide = h.roll(len(h) // 2, 0)                # a's rows get b's vector, b's rows a's
            v, reading = self.reread(states, rows, first, guide, self.choice, self.gru, self.steps,
                                     self.beta, self.choose)
            note(reading=reading.unflatten(0, mask.shape[:2]))
            side, p_v = self.relation(self.mlp_v, v)
            sides.append(side)
        # bfloat16 would round two probabilities that are nearly equal to the same number.
        with torch.autocast(mask.device.type, enabled=False):
            logits, gates = self.probability_fusion(p_h, p_v, self.w_h, self.w_v, self.mlp)
        relations = torch.stack([p for p in (p_h, p_v) if p is not None], 1)
        note(relations=relations, gates=gates)
        return torch.stack([logits, *sides] if self.deep else [logits])


# ---- LadRa-Net ----------------------------------------------------------------------------------

def layer_mix(hidden_states: Sequence[Tensor], alpha: Tensor) -> Tensor:
    """A token's vector from all blocks.  LadRa-Net Eq. (9): h⁰_t = Σ_l α_l BERT^l_t

    Assumes: "trained during model training", α is free, neither positive nor of sum 1.
    Args: hidden_states: N tensors (B, L, d), of the blocks alone. alpha: (N,). Returns: (B, L, d).
    """
    return sum(a * h for a, h in zip(alpha, hidden_states, strict=True))  # (B, L, d)


def convolution(n_in, n_out, kernel, follows):
    """nn.Conv1d that keeps the size of numbers (He et al. 2015). follows: "relu" or "linear"."""
    layer = nn.Conv1d(n_in, n_out, kernel)
    nn.init.kaiming_normal_(layer.weight, nonlinearity=follows)
    nn.init.zeros_(layer.bias)
    return layer


def phrase_cnn(hidden: Tensor, mask: Tensor, first: nn.Conv1d, second: nn.Conv1d) -> Tensor:
    """Each token with its neighbours.  LadRa-Net Eq. (10), one r

        h^r_t = CNN_r([h⁰_(t-k), ..., h⁰_(t+k)]),   CNN_r = two layers, ReLU between them

    Departs: the formula reads 2k + 1 tokens, and the paper says "k denotes the kernel size", 2 or
    3. These would be 5 or 7 tokens. But two layers with kernels of size K read 2 (K - 1) + 1, which
    is 3 or 5. So k = K - 1 here. A kernel of size 2 needs one place of padding: the first layer
    has it on the right, the second layer on the left.
    Assumes: places beyond the ends, and padding of the batch, are 0 in both layers.

        K = 2   first layer    t-1  t    →  t-1        K = 3   first layer    t-2  t-1  t    →  t-1
                               t    t+1  →  t                                 ...
                second layer   t-1  t    →  t                  second layer   t-1  t    t+1  →  t

    Args: hidden: (B, L, d). mask: bool (B, L), True = real. first, second: Conv1d without padding.
    Returns: (B, L, d), 0 at padding.
    """
    gone = ~mask[:, None]  # (B, 1, L)
    extra = first.kernel_size[0] - 1
    left, right = extra // 2, extra - extra // 2
    inner = first(F.pad(hidden.transpose(1, 2).masked_fill(gone, 0.0), (left, right))).relu()
    outer = second(F.pad(inner.masked_fill(gone, 0.0), (right, left)))
    return outer.masked_fill(gone, 0.0).transpose(1, 2)  # (B, L, d)


def mixture(chosen: Tensor, W_f: nn.Linear, w_f: nn.Linear) -> tuple[Tensor, Tensor]:
    """The token and the phrases that a step has chosen become one vector.  LadRa-Net Eq. (12)

        ā_t = Σ_r softmax_r(α_t) ā^r_t,   α^r_t = ω_fᵀ tanh(W_f ā^r_t)       r = 0 is the token

    Departs: the page's sum over r starts with 1. It leaves out the token, which the phrases only
    "support". Ours starts with 0.

    Args: chosen: (B, E, d). W_f: Linear d → A, w_f: Linear A → 1, without bias.
    Returns: ā_t (B, d); softmax_r (B, E).
    """
    every = chosen.new_ones(chosen.shape[:2], dtype=torch.bool)  # (B, E)
    return attentive_pooling(chosen, every, W_f, w_f)


def choose_left(states: Tensor, keys: Tensor, mask: Tensor, clue: Tensor, w_d: nn.Linear,
                beta: float, left: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """F(·) that knows how much of each token is left to read.  LadRa-Net Eqs. (13), (14)

        m̄ = ω_dᵀ tanh(W_d A + clue ⊗ e),   ā = Σ_i softmax_i(β m̄ + ln c_(t-1)) h_i,
        clue = U_d h̄_(t-1) + M_d h_ab + Σ_(j < r) V_rd ā^j_t

    Departs: Eq. (14) multiplies m̄ by c; but a factor below one makes a negative score higher. Here
    the weight is ∝ max(c, 0) exp(β m̄), and exactly 0 where c ≤ SPENT.

    Args: as in choose. left: (B, n), c_(t-1).
    Returns: ā (B, d); weights (B, n); what `coverage` takes from c: the weights, as printed m̄.
    """
    scores = beta * tanh_scores(keys, clue, w_d.weight[0]) + left.clamp(min=SPENT).log()  # (B, n)
    weights = attention_weights(scores, mask & (left > SPENT))  # (B, n)
    return (weights.to(states.dtype)[:, None] @ states)[:, 0], weights, weights


def read_limit(states: Tensor, W_phi: nn.Linear, steps: int) -> Tensor:
    """φ = T σ(W_φ A), how often a token may be read.  LadRa-Net Eq. (14), last line

    Departs: φ near 0 makes one reading spend a token many times over. We keep φ in [1, max(1, T -
    1)]: T - 1 readings in full always spend a token.
    Args: states: (B, n, d). W_phi: Linear d → 1 without bias. steps: T. Returns: φ (B, n).
    """
    phi = steps * W_phi(states)[..., 0].sigmoid()  # (B, n)
    return phi.clamp(1, max(1, steps - 1))  # (B, n)


def coverage(left: Tensor, read: Tensor, phi: Tensor, mask: Tensor) -> Tensor:
    """What is left of each token.  LadRa-Net Eq. (14), last line: c_t = c_(t-1) - m̄_t / φ, c_0 = 1

    Departs: m̄ is c times a score, and c falls by m̄ / φ whether the token is read or not. With a
    negative score c grows at every step, so that the word is never spent, however often it is read;
    with a score above 2φ c diverges with alternating sign. The text updates c "based on the
    calculated attention weights": c falls by weight / φ, and a token is read in full ⌈φ⌉ times at
    most. If all real tokens are spent, c is 1 again for the whole row.

    Args: all (B, n): left, c_(t-1); read, weights, as printed m̄; phi; mask, bool, True = real.
    Returns: c_t (B, n), which falls below 0 where the last reading was more than was left.
    """
    left = left - read / phi  # (B, n)
    spent = ((left <= SPENT) | ~mask).all(1, keepdim=True)  # (B, 1)
    return left.masked_fill(spent, 1.0)  # (B, n)


class Source(NamedTuple):
    """What the choices of one r read: the tokens (r = 0), or the phrases of a CNN (r ≥ 1)."""

    choice: Choice
    states: Tensor  # h^r, (B, L, d)
    keys: Tensor  # W_d A, (B, L, A)
    of_guide: Tensor  # M_d h_ab, (B, A)
    phi: Tensor  # φ, (B, L)


def make_sources(states: Sequence[Tensor], choices: Sequence[Choice], h_ab: Tensor,
                 W_phi: nn.Linear, steps: int, read_limit=read_limit) -> list[Source]:
    """The Source of each r, which all steps share.

    Assumes: W_φ is one map for all r, as its indices say.
    Args: states: E tensors (B, L, d), h^r. choices: E of Choice, all but the first chained. h_ab:
        (B, d). W_phi: Linear d → 1 without bias. steps: T. read_limit: φ of Eq. (14).
    """
    return [Source(choice, x, choice.W_d(x), choice.M_d(h_ab), read_limit(x, W_phi, steps))
            for choice, x in zip(choices, states, strict=True)]


def choose_in_turn(sources: list[Source], left: Tensor, h: Tensor, mask: Tensor, beta: float,
                   choose=choose_left, coverage=coverage) -> tuple[Tensor, Tensor, Tensor]:
    """A token, then phrases that suit it: each choice knows the choices before.
    LadRa-Net Eq. (12), first line

        ā^r_t = F([h^r_1, ..., h^r_l], h̄_(t-1), h_ab, ā^(0..r-1)_t)

    Assumes: V_rd is one map for all earlier choices, as its indices say.

    Args: sources: E of Source. left: c_(t-1) (B, E, L). h: h̄_(t-1) (B, d). mask: bool (B, L).
        choose, coverage: F, and c of Eq. (14).
    Returns: ā^r_t (B, E, d); the weights of each choice (B, E, L); c_t (B, E, L).
    """
    turns = []
    for x, c in zip(sources, left.unbind(1)):
        clue = x.choice.clue(h, x.of_guide, [chosen for chosen, *_ in turns])
        chosen, weights, read = choose(x.states, x.keys, mask, clue, x.choice.w_d, beta, c)
        turns.append((chosen, weights, coverage(c, read, x.phi, mask)))
    return tuple(torch.stack(part, 1) for part in zip(*turns))


def dynamic_sequential_attention(
        sources: list[Source], mask: Tensor, h: Tensor, W_f: nn.Linear, w_f: nn.Linear,
        gru: nn.GRUCell, steps: int, beta: float, choose=choose_left, coverage=coverage,
        mixture=mixture) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """T readings of a pair.  LadRa-Net Eqs. (12)-(14)

        ā_t = mixture of ā^0_t, ā^1_t, ...,   h̄_t = GRU(ā_t, h̄_(t-1)),   h̄_0 = h_ab,   c_0 = 1

    Args: sources: E of Source. mask: bool (B, L), True = real. h: h_ab (B, d). W_f: Linear d → A,
        w_f: Linear A → 1, without bias. gru: nn.GRUCell. steps: T. choose, coverage, mixture: the
        equations.
    Yields: for each step h̄_t (B, d); the weights of each choice, and c_t, what they leave, (B, E,
        L); softmax_r (B, E).
    """
    left = torch.stack([torch.ones_like(x.phi) for x in sources], 1)  # (B, E, L)
    for _ in range(steps):
        chosen, weights, left = choose_in_turn(sources, left, h, mask, beta, choose, coverage)
        a, mixed = mixture(chosen, W_f, w_f)
        h = gru(a, h)
        yield h, weights, left, mixed


class LadraNet(nn.Module):
    """BERT or RoBERTa, phrases from CNNs, and T readings of both: LadRa-Net Eqs. (9)-(15).

    Departs: β as in DrrNet, {13}; {12}, {14} as in the functions. The loss has Eq. (15)'s softmax.
    Assumes: the GRU is as wide as BERT, because Eq. (15) averages its states with h_ab; so is the
    MLP. α starts as the mean of the blocks. CNNs start so that phrases are as large as tokens, and
    one β fits all. Linear maps for pooling, choices and mixture start as BERT's do, from N(0,
    0.02²); the page has uniform numbers in ±√(6 / (n_in + n_out)). A CNN's middle is 500/768 of
    BERT's width. A is DRr-Net's. No dropout outside BERT. Special tokens may be chosen.
    without, the rows of the paper's Table VII:
    "phrase-cnn" is BERT + DSA. "dsa" is BERT + PCNN: v is h_ab. "global": Eq. (15) has no h_ab.
    "bert" is Stack-GRU + PCNN + DSA: three GRUs read BERT's embeddings, a linear map makes h⁰ of
    their states, and the mean of h⁰ takes the place of [CLS]. "average-pooling" is max-pooling
    fusion: Eq. (15) takes the maximum in the place of the mean; Eq. (11) keeps its mean.

    Args: config: BertConfig. classes: C; 1 for a score. printed: of PRINTED. without: of ABLATIONS.
        attention_size: A. kernels: K of each phrase CNN. steps: T. beta: β.
    """

    READS = "pieces"
    stacked_gru = staticmethod(stacked_gru)
    layer_mix = staticmethod(layer_mix)
    phrase_cnn = staticmethod(phrase_cnn)
    attentive_pooling = staticmethod(attentive_pooling)
    dynamic_sequential_attention = staticmethod(dynamic_sequential_attention)
    mixture = staticmethod(mixture)
    choose = staticmethod(choose_left)
    read_limit = staticmethod(read_limit)
    coverage = staticmethod(coverage)

    PRINTED = printed.LADRA_NET
    ABLATIONS = frozenset({"phrase-cnn", "dsa", "global", "bert", "average-pooling"})

    def __init__(self, config, classes, printed=frozenset(), without=frozenset(), *,
                 attention_size=200, kernels=(2, 3), steps=5, beta=600.0):
        super().__init__()
        check_options(type(self), printed, without)
        if {"dsa", "global"} <= set(without):
            raise ValueError("without dsa, global: one of them must stay for LadraNet to judge by")
        if 12 in printed and "phrase-cnn" in without and "dsa" not in without:
            raise ValueError("printed 12 sums over phrases alone: without phrase-cnn there is none")
        vars(self).update(printed_forms(type(self), printed))
        self.without = frozenset(without)
        self.steps, self.beta = steps, 1e8 if 13 in printed else beta
        kernels = () if "phrase-cnn" in without else tuple(kernels)
        d, middle = config.hidden_size, config.hidden_size * 500 // 768
        self.bert = Bert(config)
        if "bert" in without:
            d_g = max(1, d // 3)                                # DRr-Net's 256 beside BERT-base
            self.grus = nn.ModuleList(nn.GRU(d + l * d_g, d_g, batch_first=True) for l in range(3))
            self.W_0 = linear(d + 3 * d_g, d)
        else:
            self.alpha = nn.Parameter(torch.full((config.num_layers,), 1 / config.num_layers))
        self.first = nn.ModuleList(convolution(d, middle, k, "relu") for k in kernels)
        self.second = nn.ModuleList(convolution(middle, d, k, "linear") for k in kernels)
        self.W = nn.ModuleList(linear(d, attention_size) for _ in kernels)
        self.w = nn.ModuleList(linear(attention_size, 1, bias=False) for _ in kernels)
        if "dsa" not in without:
            self.choices = nn.ModuleList(Choice(d, d, attention_size, d, chained=r > 0)
                                         for r in range(len(kernels) + 1))
            self.W_f = linear(d, attention_size, bias=False)
            self.w_f = linear(attention_size, 1, bias=False)
            self.W_phi, self.gru = linear(d, 1, bias=False), nn.GRUCell(d, d)
        self.mlp = perceptron(d, d, classes, 1)

    def outputs(self):
        """The linear layers that answer. If they give a score, their biases start at its mean."""
        return [self.mlp[-1]]

    def changes(self):
        """dict name -> Change: other choices, and no re-reading, h_ab alone in Eq. (15)."""
        if "dsa" in self.without:
            return {}
        changes = {"uniform choice": Change(attributes={"beta": 0.0})}
        if "global" not in self.without:
            changes["no re-reading"] = Change(attributes={"without": self.without | {"dsa"}})
        return changes

    def encode(self, input_ids, segment, mask):
        """h⁰ (B, L, d), Eq. (9), and the vector of [CLS], the last block's (B, d)."""
        if "bert" in self.without:
            x = self.stacked_gru(self.bert.embeddings(input_ids, segment), mask, self.grus)
            states = self.W_0(x).masked_fill(~mask[..., None], 0.0)  # (B, L, d)
            return states, states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        blocks = self.bert(input_ids, segment, mask)[0][1:]
        note(layers=self.alpha)
        return self.layer_mix(blocks, self.alpha), blocks[-1][:, 0]

    def forward(self, input_ids, segment, mask, word_index=None):
        """Logits (B, C) of a batch of packed pairs.

        Args: input_ids, segment: int64 (B, L). mask: bool (B, L), True = real. word_index: unused.
        Noted: "layers", α of Eq. (9); "pooling" (E - 1, B, L) of Eq. (11); what each step yields,
            "reading" and "coverage" (B, T, E, L), "mixture" (B, T, E). What `without` removes is
            missing.
        """
        h_0, cls = self.encode(input_ids, segment, mask)
        phrases = [self.phrase_cnn(h_0, mask, *layers) for layers in zip(self.first, self.second)]
        pooled = [self.attentive_pooling(x, mask, W, w)
                  for x, W, w in zip(phrases, self.W, self.w)]
        h_ab = torch.stack([cls, *(h for h, _ in pooled)]).mean(0)      # Eq. (11), last line
        if pooled:
            note(pooling=torch.stack([weights for _, weights in pooled]))
        vectors = [] if "global" in self.without else [h_ab[:, None]]
        if "dsa" not in self.without:
            sources = make_sources([h_0, *phrases], self.choices, h_ab, self.W_phi, self.steps,
                                   self.read_limit)
            readings = self.dynamic_sequential_attention(
                sources, mask, h_ab, self.W_f, self.w_f, self.gru, self.steps, self.beta,
                self.choose, self.coverage, self.mixture)
            h, reading, left, mixed = (torch.stack(x, 1) for x in zip(*readings))
            note(reading=reading, coverage=left, mixture=mixed)
            vectors.append(h)
        vectors = torch.cat(vectors, 1)
        v = vectors.amax(1) if "average-pooling" in self.without else vectors.mean(1)
        return full_precision(self.mlp[-1], self.mlp[:-1](v))  # LadRa-Net Eq. (15)
