"""BERT and RoBERTa from scratch: configuration, encoder, strict loading, pair tokenizer.

Papers
    Devlin et al. 2019, BERT (arXiv 1810.04805); Liu et al. 2019, RoBERTa (1907.11692); Vaswani et
    al. 2017, Attention Is All You Need (1706.03762), section 3.2, post-norm as in figure 1.

Symbols
    paper             here                  meaning
    Q, K, V           q, k, v               queries, keys, values, split into heads
    sqrt(d_k)         math.sqrt(k size)     scale of the scores
    H, L, A           d, num_layers, H      BERT's letters: hidden size, layers, heads
    E, T_i, C         embeddings, hidden states, hidden[:, 0] (`pooled` is tanh(W C + b))

A packed pair of BERT (RoBERTa packs `<s> a </s> </s> b </s>`, and its embedding ignores segments):

    input    [CLS]  the  com  ##pany  [SEP]  it  rose  [SEP]  [PAD]
    segment    0     0    0     0       0     1    1     1      0
    mask       T     T    T     T       T     T    T     T      F       True = real token
    word      -1     0    1     1      -1     0    1    -1     -1       index into the word spans

Departs: gelu is exact, as in Hugging Face; Google's code has the tanh form under this name.
Left out: pre-training heads and their losses, decoding, relative positions, sentencepiece.
support.checkpoints reads and checks files and knows the names of published weights.
"""

import functools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, processors, trainers
from torch import Tensor, nn

from support.checkpoints import (CONFIGS, WORD_LETTERS, find_file, read_config, read_tokenizer,
                                 read_weights, word_pieces)
from support.shown import looked_at, note, scope

# Axes: B batch, L tokens, d hidden size, H heads, k head size, f intermediate size

HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs, as in broken JSON
ACTIVATIONS = {"gelu": F.gelu, "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
               "relu": F.relu}


@dataclass(frozen=True)
class BertConfig:
    """Sizes and choices of one encoder. `max_length` counts the positions that tokens can use."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_length: int
    segments: int = 2
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    position_offset: int = 0  # RoBERTa never uses the first pad_token_id + 1 = 2 positions
    kind: str = "bert"


def linear(n_in, n_out, bias=True):
    """nn.Linear with BERT's initial values: weights from N(0, 0.02²), bias 0. Google's code cuts
    the distribution off at two standard deviations."""
    layer = nn.Linear(n_in, n_out, bias)
    nn.init.normal_(layer.weight, std=0.02)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class Constant(nn.Module):
    """In the place of a linear map d → 1 that a method leaves out: always this number."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        """x (..., d) -> (..., 1)."""
        return x.new_full((*x.shape[:-1], 1), self.value)


def full_precision(layer: nn.Linear, x: Tensor) -> Tensor:
    """layer(x) in float32 or wider, also under autocast: bfloat16's 8 bits would round answers that
    differ to the same number. For what follows the encoder, which costs next to nothing.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    with torch.autocast(x.device.type, enabled=False):
        return F.linear(x.to(wide), layer.weight.to(wide), layer.bias.to(wide))


def attention_weights(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis, over the keys that the mask allows.

    scores: (..., L), complete: scaled and shifted already. mask: bool, True = real token, either
    (B, L), the same keys for every query, or with as many axes as scores.
    Returns weights in the shape of scores, float32 or wider. A masked key gets exactly 0. A row
    without a key is all 0; other rows sum to 1.
    """
    if mask.dim() < scores.dim():
        mask = mask.reshape(mask.shape[0], *[1] * (scores.dim() - 2), mask.shape[-1])
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)  # a row without a key was uniform until here


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, L, d) -> (B, H, L, k) with d = H k."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, H, L, k)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, L, k) -> (B, L, d), the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(2)  # (B, L, d)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor | None = None,
              dropout=0.0, name="attention") -> Tensor:
    """softmax(Q Kᵀ / √k + bias) V, Vaswani et al. Eq. (1), DABERT Eq. (1), in every head.

    Args: q, k, v: (B, H, L, k). mask: bool (B, L), True = real token. bias: None, (B, L, L), or
        (B, H, L, L) if heads differ. dropout: probability on the weights. name: under which the
        weights (B, H, L, L) are noted.
    Returns: (B, H, L, k); 0 where there is no key.
    """
    if bias is not None and bias.dim() == 3:
        bias = bias[:, None]  # (B, 1, L, L)
    if not looked_at():  # one fused kernel
        keys = mask[:, None, None]  # (B, 1, 1, L)
        if bias is not None:
            keys = bias.to(q.dtype).masked_fill(~keys, -math.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keys, dropout_p=dropout)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])  # (B, H, L, L)
    weights = attention_weights(scores if bias is None else scores + bias, mask)
    note(**{name: weights})
    return F.dropout(weights, dropout).to(v.dtype) @ v  # (B, H, L, k)


class SelfAttention(nn.Module):
    """softmax(Q Kᵀ / √k) V, Vaswani et al. Eq. 1, in every head.

    A paper's attention overrides `attend` and describes itself: `prior`, what is known of the words
    of a pair, and `spread`, which makes of that matrix over words one over tokens; `neutral`, a
    prior without information; READS, pieces or words; PRINTED, number of an equation that it can
    compute as printed -> dict of an attribute's name -> the function that takes its place;
    ABLATIONS, parts that it can leave out; LAYERS, those that carry it by default.
    """

    READS, LAYERS = "pieces", "first"
    PRINTED = {}
    ABLATIONS = frozenset()

    @classmethod
    def prior(cls, printed, without):
        """The method's priors.Prior with these options; None: it has none."""
        return None

    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.heads, self.dropout = config.num_heads, config.attention_dropout
        self.query, self.key, self.value = linear(d, d), linear(d, d), linear(d, d)

    def forward(self, hidden, mask, bias=None):
        """hidden (B, L, d), mask bool (B, L), bias or None -> (B, L, d), not projected."""
        mixed = self.attend(hidden, *self.project(hidden), mask, bias)
        shape = tuple(getattr(mixed, "shape", ()))
        if shape != hidden.shape:  # broadcasting would hide another shape
            raise ValueError(f"{type(self).__name__}.attend: expected a tensor (B, L, d) of shape "
                             f"{tuple(hidden.shape)}, got {type(mixed).__name__} of shape {shape}")
        return mixed  # (B, L, d)

    def project(self, hidden):
        """hidden (B, L, d) -> q, k, v (B, H, L, k)."""
        q = split_heads(self.query(hidden), self.heads)  # (B, H, L, k)
        k = split_heads(self.key(hidden), self.heads)  # (B, H, L, k)
        v = split_heads(self.value(hidden), self.heads)  # (B, H, L, k)
        return q, k, v

    def plain(self, hidden, mask, bias=None):
        """What `forward` returns without the paper's method: plain attention, (B, L, d)."""
        return SelfAttention.attend(self, hidden, *self.project(hidden), mask, None)

    def neutral(self, prior):
        """A prior over words without information, in the form that `spread` takes."""
        return torch.zeros_like(prior)

    @property
    def dropping(self):
        """The probability with which an attention's weight is dropped: 0 but in training."""
        return self.dropout if self.training else 0.0

    def attend(self, hidden: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor,
               bias: Tensor | None) -> Tensor:
        """q, k, v (B, H, L, k) -> (B, L, d). bias: what the method's `spread` returned.

        Plain attention needs neither hidden nor bias.
        """
        return merge_heads(attention(q, k, v, mask, dropout=self.dropping))  # (B, L, d)


class Layer(nn.Module):
    """Attention, then two linear maps; each part ends in dropout, residual, norm (post-norm)."""

    def __init__(self, config, attention):
        super().__init__()
        d, f, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        self.attention = attention
        self.attention_output, self.attention_norm = linear(d, d), nn.LayerNorm(d, eps)
        self.intermediate, self.output = linear(d, f), linear(f, d)
        self.output_norm = nn.LayerNorm(d, eps)
        self.activation, self.dropout = ACTIVATIONS[config.activation], nn.Dropout(config.dropout)

    def forward(self, hidden, mask, bias=None):
        """hidden (B, L, d) -> (B, L, d)."""
        mixed = self.attention_output(self.attention(hidden, mask, bias))  # (B, L, d)
        hidden = self.attention_norm(hidden + self.dropout(mixed))  # (B, L, d)
        inner = self.activation(self.intermediate(hidden))  # (B, L, f)
        return self.output_norm(hidden + self.dropout(self.output(inner)))  # (B, L, d)


class Embeddings(nn.Module):
    """Word + position + segment, layer norm, dropout."""

    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.offset = config.position_offset
        self.alike = config.kind == "roberta" or config.segments == 1
        self.word = nn.Embedding(config.vocab_size, d)
        self.position = nn.Embedding(config.max_length + self.offset, d)
        self.segment = nn.Embedding(config.segments, d)
        for table in (self.word, self.position, self.segment):
            nn.init.normal_(table.weight, std=0.02)
        self.norm, self.dropout = nn.LayerNorm(d, config.layer_norm_eps), nn.Dropout(config.dropout)

    def forward(self, input_ids, segment):
        """input_ids, segment: (B, L) int64 -> (B, L, d)."""
        position = self.position.weight[self.offset:self.offset + input_ids.shape[1]]  # (L, d)
        if self.alike:  # both sentences get the first row
            segment = torch.zeros_like(segment)
        hidden = self.word(input_ids) + position + self.segment(segment)  # (B, L, d)
        return self.dropout(self.norm(hidden))  # (B, L, d)


class Bert(nn.Module):
    """The encoder. attention: function of i that makes the attention of layer i; None: plain."""

    def __init__(self, config, attention=None):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        make = attention or (lambda layer: SelfAttention(config))
        self.layers = nn.ModuleList(Layer(config, make(i)) for i in range(config.num_layers))
        self.pooler = linear(config.hidden_size, config.hidden_size)

    def forward(self, input_ids: Tensor, segment: Tensor, mask: Tensor,
                biases: dict[int, Tensor] | None = None) -> tuple[list[Tensor], Tensor]:
        """N+1 hidden states (B, L, d) of packed pairs, the embeddings first; pooled (B, d).

        input_ids, segment: (B, L) int64. mask: (B, L) bool, True = real token; padding changes no
        real token. biases: layer -> what the `spread` of its attention made, usually (B, L, L).
        What layer i notes stands under "layer{i}".
        """
        size, most = tuple(input_ids.shape), self.config.max_length
        if size[1] > most or mask.shape != size or mask.dtype != torch.bool:
            raise ValueError(f"Bert: expected at most {most} tokens and a bool mask of input_ids' "
                             f"shape, got {size}, {mask.dtype} of {tuple(mask.shape)}")
        hidden = self.embeddings(input_ids, segment)  # (B, L, d)
        states = [hidden]
        for i, layer in enumerate(self.layers):
            with scope(f"layer{i}"):
                hidden = layer(hidden, mask, (biases or {}).get(i))  # (B, L, d)
            states.append(hidden)
        pooled = torch.tanh(full_precision(self.pooler, hidden[:, 0]))  # (B, d)
        return states, pooled


def read_checkpoint(folder: str | Path) -> tuple[BertConfig, dict[str, Tensor]]:
    """(BertConfig, dict of our name -> tensor) of a folder. ValueError names the file."""
    return BertConfig(**read_config(find_file(folder, *CONFIGS))), read_weights(folder)


def load_bert(bert: Bert, weights: dict[str, Tensor], where: str | Path) -> list[str]:
    """Copy weights (our names) into the encoder, strictly, and return the names that are new.

    The weights must be those of a plain Bert of this config, all and no others, in its shapes and
    finite floats. New parameters keep their initial values: those that only a subclass has, and the
    pooler if the file has none or an untrained one, whose bias is still exactly 0.
    Raises: ValueError with `where`, the file or folder, and all names that do not fit.
    """
    own, pooled = bert.state_dict(), [name for name in weights if name.startswith("pooler.")]
    if not weights.get("pooler.bias", torch.ones(1)).any():
        weights, pooled = {name: x for name, x in weights.items() if name not in pooled}, []
    with torch.device("meta"):  # names without memory
        plain = Bert(bert.config).state_dict()
    new = [name for name in own if name not in plain or name.startswith("pooler.") and not pooled]
    for name, x in weights.items():
        if not x.is_floating_point() or not (x.float().abs() < 1e4).all():
            raise ValueError(f"{where}: expected finite float32 numbers in {name}, below 10,000, "
                             "found others; download it again")
    try:
        bert.load_state_dict({name: own[name] for name in new} | weights)
    except RuntimeError as error:  # torch's text lists all names that do not fit
        raise ValueError(f"{where}: {' '.join(str(error).split())}; use the weights and config.json"
                         " of one model") from None
    return new


def overlapped_words(offsets, spans):
    """For each piece (start, end) the word of largest overlap (the first on a tie), or -1.

    >>> overlapped_words([(0, 3), (2, 6), (2, 4), (5, 9), (7, 8), (4, 4)], [(0, 3), (3, 7)])
    [0, 1, 0, 1, -1, -1]
    """
    if not len(offsets) or spans is None or not len(spans):
        return [-1] * len(offsets)
    pieces, spans = np.asarray(offsets)[:, None], np.asarray(spans)[None]
    overlap = np.minimum(pieces[..., 1], spans[..., 1]) - np.maximum(pieces[..., 0], spans[..., 0])
    return np.where(overlap.max(1) > 0, overlap.argmax(1), -1).tolist()


class PairTokenizer:
    """Packs two texts into one sequence: WordPiece for BERT, byte-level BPE for RoBERTa.

    The text "[SEP]" in a sentence is no special token; it is read as ordinary characters.
    """

    def __init__(self, tokenizer, kind):
        """tokenizer: tokenizers.Tokenizer. Where it does not say how a pair is packed, `kind`,
        "bert" or "roberta", does."""
        ids, pad, mask = tokenizer.get_vocab(), "[PAD]", "[MASK]"
        if tokenizer.post_processor is None:
            make, ends = processors.BertProcessing, ("[SEP]", "[CLS]")
            if kind == "roberta":
                make, ends = processors.RobertaProcessing, ("</s>", "<s>")
            tokenizer.post_processor = make(*((piece, ids[piece]) for piece in ends))
        if pad not in ids:
            pad, mask = "<pad>", "<mask>"
        tokenizer.encode_special_tokens = True  # as ordinary characters
        self.tokenizer, self.kind, self.vocab_size = tokenizer, kind, max(ids.values()) + 1
        self.pad_id, self.mask_id = ids.get(pad, 0), ids.get(mask)
        pair = tokenizer.encode("a", "b")
        a, b = ([i for i, text in enumerate(pair.sequence_ids) if text == side] for side in (0, 1))
        self.first, self.last = pair.ids[:a[0]], pair.ids[b[-1] + 1:]
        self.middle = pair.ids[a[-1] + 1:b[0]]

    @classmethod
    def from_folder(cls, folder: str | Path, config: BertConfig) -> "PairTokenizer":
        """Read a folder's tokenizer.json, or its vocabulary and added words, or ValueError."""
        return cls(read_tokenizer(folder, config.kind, config.vocab_size), config.kind)

    @classmethod
    def train(cls, texts, vocab_size=8000):
        """Learn lower-case WordPiece from texts; the same texts give the same pieces. At most
        vocab_size pieces, or five and two for each letter, if that is more.
        """
        tokenizer = word_pieces({"[UNK]": 0})
        # We name the inner letters: the trainer numbers them at random and breaks ties by number.
        texts = [tokenizer.normalizer.normalize_str(HALVES.sub("\ufffd", text)) for text in texts]
        letters = sorted(set("".join(texts)) - set(" "))
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocab_size, show_progress=False, initial_alphabet=letters,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
                            *("##" + letter for letter in letters)])
        split = tokenizer.pre_tokenizer.pre_tokenize_str
        words = (word for text in texts for word, _ in split(text) if len(word) <= WORD_LETTERS)
        tokenizer.train_from_iterator(words, trainer)
        # a new tokenizer, because this one would find special tokens in a text
        return cls(word_pieces(tokenizer.get_vocab()), "bert")

    def state(self):
        """A dict of texts, from which `from_state` makes this tokenizer again."""
        return {"kind": self.kind, "tokenizer": self.tokenizer.to_str()}

    @classmethod
    def from_state(cls, state):
        """The tokenizer whose `state` this is."""
        return cls(Tokenizer.from_str(state["tokenizer"]), state["kind"])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces of these ids; pieces of a byte-level BPE become text without their space."""
        added, pieces = self.tokenizer.get_added_tokens_decoder(), []
        for i in ids:
            piece = added[i].content if i in added else self.tokenizer.id_to_token(i)
            if i not in added and isinstance(self.tokenizer.model, models.BPE):
                piece = decoders.ByteLevel().decode([piece]).strip() or piece
            pieces.append(piece)
        return pieces

    def encode_texts(self, texts: list[str]) -> list:
        """tokenizers.Encoding of each text, without special tokens."""
        mended = [HALVES.sub("\ufffd", text) for text in texts]
        return self.tokenizer.encode_batch(mended, add_special_tokens=False)

    def encode(self, text_a, spans_a, text_b, spans_b, max_length):
        """(input_ids, segment, word_index) of a pair, lists of one length: see encode_batch."""
        return self.encode_batch([(text_a, spans_a, text_b, spans_b)], max_length)[0]

    def encode_batch(self, pairs: list[tuple], max_length: int) -> list[tuple]:
        """Encode many pairs at once; each distinct text is tokenized once.

        pairs: list of (text_a, spans_a, text_b, spans_b). spans: (n, 2), first character and end of
        each word, or None. max_length: tokens of a pair; the longer sentence is truncated first.
        Returns for each pair (input_ids, segment, word_index). segment is 0 up to and including the
        separator between the sentences, then 1. word_index points into spans_a or spans_b; it is -1
        for special tokens and for pieces that overlap no word.
        """
        budget = max_length - len(self.first + self.middle + self.last)
        if budget < 0:
            raise ValueError(f"PairTokenizer.encode: max_length needs at least "
                             f"{max_length - budget}, got {max_length}; raise it")
        texts = list(dict.fromkeys(text for a, _, b, _ in pairs for text in (a, b)))
        encoded = dict(zip(texts, self.encode_texts(texts)))
        return [self._pack(encoded[a], spans_a, encoded[b], spans_b, budget)
                for a, spans_a, b, spans_b in pairs]

    def _pack(self, a, spans_a, b, spans_b, budget):
        first, middle, last = self.first, self.middle, self.last
        n, m = len(a), len(b)
        while n + m > budget:  # the longer sentence, or on a tie b, loses its last piece
            n, m = (n - 1, m) if n > m else (n, m - 1)
        ids = first + a.ids[:n] + middle + b.ids[:m] + last
        segment = [0] * (len(ids) - m - len(last)) + [1] * (m + len(last))
        words = [-1] * len(first) + overlapped_words(a.offsets[:n], spans_a)
        words += [-1] * len(middle) + overlapped_words(b.offsets[:m], spans_b) + [-1] * len(last)
        return ids, segment, words
