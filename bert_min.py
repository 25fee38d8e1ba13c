"""BERT and RoBERTa from scratch: the encoder, the published weights, the tokenizers. Imports nothing local.

Papers
    Devlin et al. 2019, BERT (arXiv 1810.04805); Liu et al. 2019, RoBERTa (arXiv 1907.11692);
    Vaswani et al. 2017, Attention Is All You Need (arXiv 1706.03762), section 3.2, post-norm as in figure 1.

Symbols
    paper             here                  meaning
    Q, K, V           q, k, v               queries, keys, values, split into heads
    sqrt(d_k)         math.sqrt(k size)     scale of the scores
    H, L, A           d, num_layers, H      BERT's letters: hidden size, number of layers, number of heads
    E, T_i, C         embeddings, hidden states, hidden[:, 0] (`pooled` is tanh(W C + b))

The way of a pair (BERT; RoBERTa packs `<s> a </s> </s> b </s>` and its embedding ignores the segment):

    input    [CLS]  the  com  ##pany  [SEP]  it  rose  [SEP]  [PAD]
    segment    0     0    0     0       0     1    1     1      0
    mask       T     T    T     T       T     T    T     T      F       True = real token
    word      -1     0    1     1      -1     0    1    -1     -1       index into the sentence's word spans

Left out: pre-training heads and their losses, decoding, relative positions, sharded safetensors, sentencepiece.
"""

import functools
import hashlib
import json
import math
import os
import re
import tempfile
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import nn
from tqdm import tqdm

# Axes: B batch, L tokens, d hidden size, H heads, k head size, f intermediate size

ACTIVATIONS = {"gelu": F.gelu, "gelu_tanh": functools.partial(F.gelu, approximate="tanh"), "relu": F.relu}
HIDDEN_ACT = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
JSON_NAMES = {  # field of BertConfig -> key of config.json, where one is the other
    "vocab_size": "vocab_size", "hidden_size": "hidden_size", "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads", "intermediate_size": "intermediate_size", "segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob",
    "layer_norm_eps": "layer_norm_eps", "lower_case": "do_lower_case"}
OPTIONAL = {"type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps",
            "do_lower_case"}


# ----------------------------------------------------------------------------------------------------- settings

@dataclass(frozen=True)
class BertConfig:
    """Sizes and choices of one encoder, validated. `max_length` counts the positions that tokens can use."""

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
    position_offset: int = 0  # RoBERTa never uses the first pad_token_id + 1 = 2 rows of its position table
    kind: str = "bert"
    lower_case: bool = True

    def __post_init__(self):
        sizes = "vocab_size hidden_size num_layers num_heads intermediate_size max_length segments"
        rules = [(name, lambda v: type(v) is int and v > 0, "a positive integer") for name in sizes.split()]
        rules += [(name, lambda v: isinstance(v, (int, float)) and 0 <= v < 1, "a number in [0, 1)")
                  for name in ("dropout", "attention_dropout")]
        rules += [("hidden_size", lambda v: v % self.num_heads == 0, f"a multiple of {self.num_heads} heads"),
                  ("layer_norm_eps", lambda v: isinstance(v, float) and v > 0, "a positive number"),
                  ("position_offset", lambda v: type(v) is int and v >= 0, "0 or a positive integer"),
                  ("activation", lambda v: v in ACTIVATIONS, " or ".join(ACTIVATIONS)),
                  ("kind", lambda v: v in ("bert", "roberta"), "bert or roberta"),
                  ("lower_case", lambda v: isinstance(v, bool), "true or false")]
        for name, holds, needed in rules:
            if not holds(getattr(self, name)):
                value = getattr(self, name)
                raise ValueError(f"BertConfig: {name} must be {needed}, got {value!r}; correct the setting")

    @classmethod
    def from_json(cls, path):
        """Read Google's bert_config.json or Hugging Face's config.json.

        Case: `do_lower_case` here or in tokenizer_config.json beside it; else lower-case unless the folder's
        vocab.txt holds capitals (Google's cased models say it nowhere). Raises ValueError naming the file.
        """
        path = Path(path)
        settings = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
        settings |= _read_json(path)
        missing = {*JSON_NAMES.values(), "max_position_embeddings"} - settings.keys() - OPTIONAL
        if missing:
            raise ValueError(f"{path}: expected a BERT configuration, found no {', '.join(sorted(missing))}; "
                             "give the folder of a BERT or RoBERTa model")
        for key, allowed in (("model_type", ("bert", "roberta")), ("hidden_act", HIDDEN_ACT),
                             ("position_embedding_type", ("absolute",))):
            if settings[key] not in allowed:
                raise ValueError(f"{path}: {key} must be {' or '.join(allowed)}, got {settings[key]!r}; "
                                 "give the folder of another model")
        fields = {ours: settings[theirs] for ours, theirs in JSON_NAMES.items() if theirs in settings}
        kind = settings["model_type"]
        if "lower_case" not in fields:
            fields["lower_case"] = kind == "bert" and _folder_lowers(path.parent)
        positions = settings["max_position_embeddings"]
        pad = settings.get("pad_token_id", 1) if kind == "roberta" else -1  # RoBERTa counts from pad + 1
        if type(positions) is not int or type(pad) is not int:
            raise ValueError(f"{path}: max_position_embeddings and pad_token_id must be integers, got "
                             f"{positions!r} and {pad!r}; correct them")
        try:
            return cls(**fields, kind=kind, activation=HIDDEN_ACT[settings["hidden_act"]],
                       max_length=positions - (pad + 1), position_offset=pad + 1)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def to_json(self, path):
        """Write a config.json that `from_json` (and Hugging Face) reads back."""
        settings = {theirs: getattr(self, ours) for ours, theirs in JSON_NAMES.items()}
        settings["hidden_act"] = {v: k for k, v in reversed(HIDDEN_ACT.items())}[self.activation]
        settings["max_position_embeddings"] = self.max_length + self.position_offset
        settings["pad_token_id"] = max(0, self.position_offset - 1)
        Path(path).write_text(json.dumps({"model_type": self.kind, **settings}, indent=1) + "\n", "utf-8")


def _read_json(path):
    try:
        settings = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: expected a JSON file, found: {error}; download the file again") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(settings).__name__}; download it again")
    return settings


def _read_vocab(path):
    try:
        text = Path(path).read_text("utf-8")
    except ValueError as error:
        raise ValueError(f"{path}: expected text in UTF-8, found {error}; download it again") from error
    return text.removesuffix("\n").split("\n")  # not splitlines: U+2028 may be a piece


def _folder_lowers(folder):
    """Whether a BERT folder is lower-case: by tokenizer_config.json, or as its vocab.txt holds no capitals."""
    settings = folder / "tokenizer_config.json"
    stated = _read_json(settings).get("do_lower_case") if settings.exists() else None
    if stated is None and (folder / "vocab.txt").exists():
        pieces = _read_vocab(folder / "vocab.txt")
        return not any(piece != piece.lower() for piece in pieces if piece[:1] != "[")
    return stated is not False


# -------------------------------------------------------------------------------------------------- the encoder

def linear(n_in, n_out, bias=True):
    """nn.Linear with BERT's initial values: weights from N(0, 0.02²), bias 0."""
    layer = nn.Linear(n_in, n_out, bias)
    nn.init.normal_(layer.weight, std=0.02)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def attention_weights(scores, mask):
    """Softmax over the last axis, over the keys that the mask allows.

    scores: (..., L), complete: whatever scales or shifts them has been done. mask: bool, True = real token,
    either (B, L), the same keys for every query, or with as many axes as scores. Returns weights shaped as
    scores, float32 or wider: a masked key gets exactly 0, a row without a key is all 0, other rows sum to 1.
    """
    if mask.dim() < scores.dim():
        mask = mask.reshape(mask.shape[0], *[1] * (scores.dim() - 2), mask.shape[-1])
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)  # a row without a key was uniform until here


def split_heads(x, heads):
    """(B, L, d) -> (B, H, L, k) with d = H k."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, H, L, k)


def merge_heads(x):
    """(B, H, L, k) -> (B, L, d), the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(2)  # (B, L, d)


class SelfAttention(nn.Module):
    """softmax(Q Kᵀ / √k) V, Vaswani et al. Eq. 1, in every head. A paper's attention overrides `attend`."""

    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.heads, self.dropout = config.num_heads, config.attention_dropout
        self.query, self.key, self.value = linear(d, d), linear(d, d), linear(d, d)

    def forward(self, hidden, mask, prior=None, trace=None):
        """hidden (B, L, d), mask (B, L) bool, prior (B, L, L) or None -> (B, L, d), not yet projected back."""
        q = split_heads(self.query(hidden), self.heads)  # (B, H, L, k)
        k = split_heads(self.key(hidden), self.heads)  # (B, H, L, k)
        v = split_heads(self.value(hidden), self.heads)  # (B, H, L, k)
        return self.attend(hidden, q, k, v, mask, prior, trace)  # (B, L, d)

    def attend(self, hidden, q, k, v, mask, prior, trace):
        """q, k, v (B, H, L, k) -> (B, L, d). Plain attention uses neither hidden nor prior.

        A trace gets `attention` (B, H, L, L).
        """
        dropout = self.dropout if self.training else 0.0
        if trace is None:  # one fused kernel; the (B, 1, 1, L) mask is a view, rows without a key come out 0
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :], dropout_p=dropout)
        else:
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, L, L)
            weights = attention_weights(scores, mask)
            trace["attention"] = weights.detach()
            mixed = F.dropout(weights, dropout).to(v.dtype) @ v  # (B, H, L, k)
        return merge_heads(mixed)  # (B, L, d)


class Layer(nn.Module):
    """Attention, then two linear maps, each followed by dropout, the residual and layer norm (post-norm)."""

    def __init__(self, config, attention):
        super().__init__()
        d, f = config.hidden_size, config.intermediate_size
        self.attention = attention
        self.attention_output, self.attention_norm = linear(d, d), nn.LayerNorm(d, config.layer_norm_eps)
        self.intermediate, self.output = linear(d, f), linear(f, d)
        self.output_norm = nn.LayerNorm(d, config.layer_norm_eps)
        self.activation, self.dropout = ACTIVATIONS[config.activation], nn.Dropout(config.dropout)

    def forward(self, hidden, mask, prior=None, trace=None):
        """hidden (B, L, d) -> (B, L, d)."""
        mixed = self.attention_output(self.attention(hidden, mask, prior, trace))  # (B, L, d)
        hidden = self.attention_norm(hidden + self.dropout(mixed))  # (B, L, d)
        inner = self.activation(self.intermediate(hidden))  # (B, L, f)
        return self.output_norm(hidden + self.dropout(self.output(inner)))  # (B, L, d)


class Embeddings(nn.Module):
    """Word + position + segment, layer norm, dropout."""

    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.offset, self.segments = config.position_offset, config.segments
        self.word = nn.Embedding(config.vocab_size, d)
        self.position = nn.Embedding(config.max_length + self.offset, d)
        self.segment = nn.Embedding(config.segments, d)
        for table in (self.word, self.position, self.segment):
            nn.init.normal_(table.weight, std=0.02)
        self.norm, self.dropout = nn.LayerNorm(d, config.layer_norm_eps), nn.Dropout(config.dropout)

    def forward(self, input_ids, segment):
        """input_ids, segment: (B, L) int64 -> (B, L, d)."""
        position = self.position.weight[self.offset:self.offset + input_ids.shape[1]]  # (L, d)
        if self.segments == 1:  # RoBERTa: one row, the same for both sentences
            segment = torch.zeros_like(segment)
        hidden = self.word(input_ids) + position + self.segment(segment)  # (B, L, d)
        return self.dropout(self.norm(hidden))  # (B, L, d)


class Bert(nn.Module):
    """The encoder. `attention(layer)` makes the attention of layer 0, 1, ...; None: plain SelfAttention."""

    def __init__(self, config, attention=None):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        make = attention or (lambda layer: SelfAttention(config))
        self.layers = nn.ModuleList(Layer(config, make(i)) for i in range(config.num_layers))
        self.pooler = linear(config.hidden_size, config.hidden_size)

    def forward(self, input_ids, segment, mask, prior=None, trace=None):
        """Encode a batch of packed pairs.

        input_ids, segment: (B, L) int64. mask: (B, L) bool, True = real token; padding never changes a real
        token. prior: (B, L, L) or None, handed to every layer's attention. trace: dict or None; layer i writes
        into trace["layer{i}"]. Returns (hidden states, a list of N+1 tensors (B, L, d), the embeddings first;
        pooled (B, d)). Raises ValueError if L exceeds max_length or the mask is not bool of input_ids' shape.
        """
        if input_ids.shape[1] > self.config.max_length:
            raise ValueError(f"Bert: input_ids needs at most {self.config.max_length} tokens, got "
                             f"{input_ids.shape[1]}; lower --max-length")
        if mask.dtype != torch.bool or mask.shape != input_ids.shape:
            raise ValueError(f"Bert: mask needs bool of shape {tuple(input_ids.shape)}, got {mask.dtype} of "
                             f"{tuple(mask.shape)}; pass input_ids != pad_id")
        hidden = self.embeddings(input_ids, segment)  # (B, L, d)
        states = [hidden]
        for i, layer in enumerate(self.layers):
            inner = None if trace is None else trace.setdefault(f"layer{i}", {})
            hidden = layer(hidden, mask, prior, inner)  # (B, L, d)
            states.append(hidden)
        pooled = torch.tanh(self.pooler(hidden[:, 0]))  # (B, d)
        return states, pooled


# ---------------------------------------------------------------------------------------------- loading weights

SAFE_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "V2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I16": "<i2",
               "I8": "i1", "U8": "u1", "BOOL": "?"}
SKIPPED = re.compile(r"(.*\.)?(adam_[mv]|global_step|position_ids|token_type_ids)$"  # optimizer slots, buffers
                     r"|(cls|classifier|lm_head)\.|output_(weights|bias)$")  # heads
PLAIN = re.compile(r"(embeddings\.(word|position|segment|norm)|pooler|layers\.\d+\."
                   r"(attention\.(query|key|value)|attention_(output|norm)|intermediate|output|output_norm))"
                   r"\.(weight|bias)")  # every name of a plain Bert
RENAMES = (  # in this order
    (r"/", "."), (r"^(bert|roberta)\.", ""), (r"\.(kernel|gamma)$", ".weight"), (r"\.beta$", ".bias"),
    (r"_embeddings$", "_embeddings.weight"), (r"token_type_emb", "segment_emb"), (r"_embeddings\.", "."),
    (r"^encoder\.layer[._]", "layers."), (r"LayerNorm", "norm"), (r"\.self\.", "."),
    (r"attention\.output\.dense", "attention_output"), (r"attention\.output\.norm", "attention_norm"),
    (r"\.output\.norm", ".output_norm"), (r"\.dense\.", "."))
CONFIGS = ("config.json", "bert_config.json")
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "*.ckpt.index")


def our_name(name):
    """A published tensor's name in our words; None for what is skipped by design.

    >>> our_name("bert/encoder/layer_0/attention/output/LayerNorm/gamma")
    'layers.0.attention_norm.weight'
    """
    for pattern, replacement in RENAMES[:2]:
        name = re.sub(pattern, replacement, name)
    if SKIPPED.match(name):
        return None
    for pattern, replacement in RENAMES[2:]:
        name = re.sub(pattern, replacement, name)
    return name


def _find(folder, *names):
    """The first of `names` (glob patterns) in the folder, or one error that says what is there instead."""
    folder = Path(folder)
    if not folder.is_dir():
        problem = "a file, expected the folder around it" if folder.exists() else "no such folder"
        raise ValueError(f"{folder}: {problem}; give a folder with configuration, weights and vocabulary")
    for name in names:
        for path in sorted(folder.glob(name)):
            return path
    there = sorted(path.name for path in folder.iterdir())
    found = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "") or "nothing"
    raise ValueError(f"{folder}: expected {' or '.join(names)}, found {found}; add the missing file, or remove "
                     "the folder to download it again")


def read_checkpoint(folder):
    """Read a Google or Hugging Face folder -> (BertConfig, dict of our name -> array). Raises ValueError."""
    config, path = BertConfig.from_json(_find(folder, *CONFIGS)), _find(folder, *WEIGHTS)
    if path.suffix == ".index":
        raw = read_tf_checkpoint(str(path)[:-len(".index")])  # its kernels are (in, out), torch's the transpose
        raw = {name: array.T if name.endswith("kernel") else array for name, array in raw.items()}
    else:
        raw = read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    arrays = {}
    for name, array in raw.items():
        ours = our_name(name)
        if ours in arrays:
            raise ValueError(f"{path}: expected one tensor for {ours}, found {name} as a second; remove one")
        if ours is not None:
            arrays[ours] = array
    return config, arrays


def load_bert(bert, arrays, where):
    """Copy arrays (our names) into the encoder, strictly, and return the names that are new.

    Everything that a plain Bert of this config has must be there with its shape, and nothing else. New are
    parameters that only a subclass has, and the pooler where the file has none; they keep their initial values.
    Raises one ValueError with all missing, unexpected and misshaped names; `where` names the file or folder.
    """
    own = bert.state_dict()
    plain = {name: tuple(value.shape) for name, value in own.items() if PLAIN.fullmatch(name)}
    new = set(own) - set(plain)
    if not any(name.startswith("pooler.") for name in arrays):
        new |= {name for name in plain if name.startswith("pooler.")}
    problems = {
        "missing": sorted(set(plain) - new - set(arrays)),
        "unexpected": sorted(set(arrays) - set(plain)),
        "misshaped": [f"{name} {arrays[name].shape} instead of {plain[name]}"
                      for name in sorted(set(plain) & set(arrays)) if arrays[name].shape != plain[name]]}
    if any(problems.values()):
        raise ValueError(f"{where}: the weights do not fit their configuration; " + "; ".join(
            f"{kind}: {', '.join(names)}" for kind, names in problems.items() if names)
            + "; use the weights and config.json of one model")
    with torch.no_grad():
        for name, array in arrays.items():
            own[name].copy_(torch.from_numpy(np.ascontiguousarray(array)))
    return [name for name in own if name in new]


def _read_pickle(path):
    """pytorch_model.bin as name -> array; weights_only=True, so nothing in the file is run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        return {name: (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
                for name, value in state.items()}
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = str(error).split("\n")[0]
        raise ValueError(f"{path}: expected torch's tensors, found {reason}; download it again") from error


def _tensor(where, name, raw, dtype, shape):
    """Bytes -> array; half precision becomes float32. `V2` stands for bfloat16, which numpy lacks."""
    needed = math.prod(shape) * np.dtype(dtype).itemsize
    if len(raw) != needed:
        raise ValueError(f"{where}: expected {needed} bytes for {name} {shape}, found {len(raw)}; the file is "
                         "truncated or damaged: download it again")
    if dtype == "V2":  # the upper half of a float32
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    array = raw.view(dtype).reshape(shape)
    return array.astype(np.float32) if dtype == "<f2" else array


def read_safetensors(path):
    """Read a .safetensors file -> dict of name -> array. Raises ValueError for a damaged file.

    Format: uint64 length of the header, header in JSON {name: {dtype, shape, data_offsets}}, then the bytes.
    """
    data = np.fromfile(path, np.uint8)  # not mapped: a map would change with the file
    length = int.from_bytes(data[:8].tobytes(), "little")
    body = data[8 + length:]
    try:
        header = json.loads(data[8:8 + length].tobytes())
        entries = [(name, e["dtype"], tuple(e["shape"]), *e["data_offsets"]) for name, e in header.items()
                   if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: expected a JSON header of {length} bytes, found {error!r} in a file of "
                         f"{len(data)}; truncated, damaged or a Git LFS pointer: download it again") from error
    for name, dtype, *_ in entries:
        if dtype not in SAFE_DTYPES:
            raise ValueError(f"{path}: {name} needs dtype {', '.join(SAFE_DTYPES)}, got {dtype}; convert it")
    return {name: _tensor(path, name, body[start:end], SAFE_DTYPES[dtype], shape)
            for name, dtype, shape, start, end in entries}


# ------------------------------------------------------------------------ TensorFlow checkpoints, no TensorFlow

TF_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 14: "V2", 19: "<f2"}
LANES = 4096  # words folded at once by crc32c: 16 KB, within the fastest cache


@functools.cache
def _crc_tables():
    """(256,) table that reads one byte, two (65536,) tables that move a register past LANES words of zeros."""
    byte = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        byte = (byte >> 1) ^ (byte & 1) * np.uint32(0x82F63B78)
    basis = np.uint32(1) << np.arange(32, dtype=np.uint32)  # a linear map on 32 bits is known by its 32 images
    for _ in range(4):
        basis = byte[basis & 255] ^ (basis >> 8)
    for doubling in range(LANES.bit_length()):  # 1, 2, 4, ... LANES words
        low = high = np.zeros(1, np.uint32)
        for bit in range(16):
            low, high = np.append(low, low ^ basis[bit]), np.append(high, high ^ basis[16 + bit])
        basis = low[basis & 0xFFFF] ^ high[basis >> 16]
    return byte.tolist(), low, high


def crc32c(data):
    """CRC-32C (Castagnoli) of bytes or an array of them.

    CRC is linear, so a row of LANES words may be replaced by what it becomes LANES words later, added (xor) to
    the row below; two tables of 2^16 do this for a whole row at once. What remains, one row and the bytes after
    the last, is read byte by byte.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    data = np.frombuffer(data, np.uint8)
    byte, low, high = _crc_tables()
    rows, crc = len(data) // (4 * LANES), 0xFFFFFFFF
    rest = data[rows * 4 * LANES:].tobytes()
    if rows:
        row, *below = data[:rows * 4 * LANES].view("<u4").reshape(rows, LANES)
        row = row ^ np.array([crc] + [0] * (LANES - 1), np.uint32)
        for words in below:
            row = low[row & 0xFFFF] ^ high[row >> 16] ^ words
        rest, crc = row.astype("<u4").tobytes() + rest, 0
    for value in rest:
        crc = byte[(crc ^ value) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _masked_crc(data):
    """The sum as TensorFlow stores it, 4 bytes."""
    crc = crc32c(data)
    return ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def _varint(data, at):
    """Seven bits a byte, low ones first -> (value, where it ends)."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def _fields(message):
    """(field number, int or bytes) of a protocol-buffers message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == 0:
            value, at = _varint(message, at)
        else:
            size, at = _varint(message, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
            value, at = message[at:at + size], at + size
        yield tag >> 3, value


def _block(index, handle, path):
    """(key, value) entries of one LevelDB block; the handle is its offset and size as varints."""
    offset, at = _varint(handle, 0)
    size, _ = _varint(handle, at)
    body, stored = index[offset:offset + size + 1], index[offset + size + 1:offset + size + 5]
    if len(body) <= size or _masked_crc(body) != stored:
        raise ValueError(f"{path}: expected a block with its CRC at byte {offset}, found a damaged one; "
                         "download it again")
    if body[-1] != 0:
        raise ValueError(f"{path}: expected uncompressed blocks, found type {body[-1]} (1 is snappy); "
                         "save it uncompressed")
    end, at, key = size - 4 - 4 * int.from_bytes(body[size - 4:size], "little"), 0, b""
    while at < end:
        shared, at = _varint(body, at)
        fresh, at = _varint(body, at)
        length, at = _varint(body, at)
        key = key[:shared] + body[at:at + fresh]
        yield key, body[at + fresh:at + fresh + length]
        at += fresh + length


def read_tf_checkpoint(prefix, verify=True):
    """Read a TensorFlow checkpoint (`prefix`.index and its data files) -> dict of name -> array, as stored.

    verify: compare every tensor with its CRC32C. Strings are left out. Raises ValueError naming the file.
    Source: tensorflow/core/util/tensor_bundle and LevelDB's table format.
    """
    path = Path(f"{prefix}.index")
    index = path.read_bytes()
    if len(index) < 48 or index[-8:] != (0xDB4775248B80FB57).to_bytes(8, "little"):
        raise ValueError(f"{path}: expected the index of a TensorFlow checkpoint (a magic number in the last 8 "
                         f"bytes), found {len(index)} bytes without it; download it again")
    _, at = _varint(index[-48:], 0)
    _, at = _varint(index[-48:], at)
    entries = {key.decode(): list(_fields(value)) for _, handle in _block(index, index[-48 + at:], path)
               for key, value in _block(index, handle, path)}
    header, arrays = dict(entries.pop("")), {}
    if header.get(2, 0) != 0:
        raise ValueError(f"{path}: expected a little-endian checkpoint, found a big-endian one; convert it")

    @functools.cache
    def shard(number):
        file = Path(f"{prefix}.data-{number:05d}-of-{header.get(1, 0):05d}")
        if not file.exists():
            raise ValueError(f"{file}: expected this part of the weights, found no such file; download it")
        return file, np.fromfile(file, np.uint8)

    for name, entry in entries.items():
        info = dict(entry)
        if info.get(1) == 7:
            continue
        shape = tuple(dict(_fields(dim)).get(1, 0) for field, dim in _fields(info.get(2, b"")) if field == 2)
        if info.get(1) not in TF_DTYPES or 7 in info:
            found = f"dtype {info.get(1)}{' in slices' if 7 in info else ''}"
            raise ValueError(f"{path}: {name} needs a whole tensor of dtype {', '.join(map(str, TF_DTYPES))}, "
                             f"got {found}; save it as float32 in one piece")
        file, data = shard(info.get(3, 0))
        start, size = info.get(4, 0), info.get(5, 0)
        raw = data[start:start + size]
        arrays[name] = _tensor(file, name, raw, TF_DTYPES[info[1]], shape)
        if verify and _masked_crc(raw) != info[6]:
            raise ValueError(f"{file}: expected the stored CRC32C for {name}, found another; download it again")
    return arrays


# ------------------------------------------------------------------------------------------------- tokenization

def longest_first(n, m, budget):
    """How many pieces of two sentences stay when the longer loses its last one (b on a tie) until budget holds.

    >>> longest_first(9, 3, 8), longest_first(9, 9, 7)
    ((5, 3), (4, 3))
    """
    keep = min(n, max(budget - m, (budget + 1) // 2))
    return keep, min(m, budget - keep)


def overlapped_words(offsets, spans):
    """For each piece (start, end) the index of the word of largest overlap (first on a tie), or -1 for none."""
    if not len(offsets) or spans is None or not len(spans):
        return [-1] * len(offsets)
    pieces, spans = np.asarray(offsets)[:, None], np.asarray(spans)[None]
    overlap = np.minimum(pieces[..., 1], spans[..., 1]) - np.maximum(pieces[..., 0], spans[..., 0])
    return np.where(overlap.max(1) > 0, overlap.argmax(1), -1).tolist()


class PairTokenizer:
    """Packs two texts into one sequence: WordPiece as Google's for BERT, byte-level BPE for RoBERTa.

    A special token written out in a text, such as "[SEP]", is read as ordinary characters.
    """

    def __init__(self, tokenizer, kind):
        cls, sep, pad = ("<s>", "</s>", "<pad>") if kind == "roberta" else ("[CLS]", "[SEP]", "[PAD]")
        ids = tokenizer.get_vocab()
        unknown = [token for token in (cls, sep, pad) if token not in ids]
        if unknown:
            raise ValueError(f"PairTokenizer: vocabulary needs {cls}, {sep} and {pad}, lacks "
                             f"{', '.join(unknown)}; use the vocabulary that came with the weights")
        self.tokenizer, self.pad_id, self.vocab_size = tokenizer, ids[pad], max(ids.values()) + 1
        self.first, self.last = [ids[cls]], [ids[sep]]
        self.middle = self.last * (2 if kind == "roberta" else 1)

    @staticmethod
    def _wordpiece(ids, lower_case):
        tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=200))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)  # strips accents if it lowers
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return tokenizer

    @classmethod
    def from_folder(cls, folder, config):
        """Read vocab.txt (BERT) or vocab.json and merges.txt (RoBERTa). Raises ValueError naming the file."""
        if config.kind == "bert":
            path = _find(folder, "vocab.txt")
            ids = {piece: i for i, piece in enumerate(_read_vocab(path))}
            tokenizer = cls._wordpiece(ids, config.lower_case)
        else:
            path, merges = _find(folder, "vocab.json"), _find(folder, "merges.txt")
            try:
                tokenizer = Tokenizer(models.BPE.from_file(str(path), str(merges)))
            except Exception as error:  # tokenizers raises plain Exception
                raise ValueError(f"{path}, {merges}: expected a BPE vocabulary, found: {error}; "
                                 "download both") from error
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        try:
            made = cls(tokenizer, config.kind)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if not 0 <= config.vocab_size - made.vocab_size < 64:  # some models pad their table to a multiple of 64
            raise ValueError(f"{path}: expected {config.vocab_size} pieces as config.json's vocab_size, found "
                             f"{made.vocab_size}; take both files from one model")
        return made

    @classmethod
    def train(cls, texts, vocab_size=8000, lower_case=True):
        """Learn a WordPiece vocabulary of at most vocab_size pieces from an iterable of texts; the same for the same."""
        tokenizer, texts = cls._wordpiece({"[UNK]": 0}, lower_case), list(texts)
        # The trainer numbers inner letters as it meets them, in a random order, and breaks ties by number: name them first.
        letters = sorted(set("".join(tokenizer.normalizer.normalize_str(text) for text in texts)) - set(" "))
        trainer = trainers.WordPieceTrainer(
            vocab_size=vocab_size, show_progress=False, initial_alphabet=letters,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *("##" + c for c in letters)])
        tokenizer.train_from_iterator(texts, trainer)
        return cls(cls._wordpiece(tokenizer.get_vocab(), lower_case), "bert")  # anew: no special token in a text

    def save(self, folder):
        """Write vocab.txt (BERT) or vocab.json and merges.txt (RoBERTa) into the folder."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.tokenizer.model.save(str(folder))

    def encode(self, text_a, spans_a, text_b, spans_b, max_length):
        """One pair -> (input_ids, segment, word_index), three int lists of one length; see `encode_batch`."""
        return self.encode_batch([(text_a, spans_a, text_b, spans_b)], max_length)[0]

    def encode_batch(self, pairs, max_length):
        """Encode many pairs at once.

        pairs: list of (text_a, spans_a, text_b, spans_b); spans: (n, 2) character offsets of words, or None.
        Returns for each pair (input_ids, segment, word_index), at most max_length long, the longer sentence
        truncated first. segment is 0 up to and with the separator between the sentences, then 1. word_index
        points into spans_a or spans_b; -1 for specials and for pieces that overlap no word. Raises ValueError
        if not even the specials fit into max_length.
        """
        budget = max_length - len(self.first + self.middle + self.last)
        if budget < 0:
            raise ValueError(f"PairTokenizer.encode: max_length needs at least {max_length - budget}, got "
                             f"{max_length}; raise --max-length")
        texts = [re.sub("[\ud800-\udfff]", "\ufffd", text)  # half a surrogate pair, as broken JSON has it
                 for a, _, b, _ in pairs for text in (a, b)]
        encoded, packed = self.tokenizer.encode_batch(texts, add_special_tokens=False), []
        for (_, spans_a, _, spans_b), a, b in zip(pairs, encoded[::2], encoded[1::2]):
            n, m = longest_first(len(a), len(b), budget)
            ids = self.first + a.ids[:n] + self.middle + b.ids[:m] + self.last
            segment = [0] * (len(ids) - m - len(self.last)) + [1] * (m + len(self.last))
            words = ([-1] * len(self.first) + overlapped_words(a.offsets[:n], spans_a) + [-1] * len(self.middle)
                     + overlapped_words(b.offsets[:m], spans_b) + [-1] * len(self.last))
            packed.append((ids, segment, words))
        return packed


# ---------------------------------------------------------------------------------------------------- downloads

GOOGLE = "https://storage.googleapis.com/bert_models/"
ARCHIVES = {name: f"2020_02_20/uncased_L-{layers}_H-{d}_A-{d // 64}.zip"
            for name, layers, d in (("tiny", 2, 128), ("mini", 4, 256), ("small", 4, 512), ("medium", 8, 512))}
ARCHIVES |= {"base": "2018_10_18/uncased_L-12_H-768_A-12.zip",
             "large": "2018_10_18/uncased_L-24_H-1024_A-16.zip"}
HUGGING_FACE = {"roberta-base": "https://huggingface.co/FacebookAI/roberta-base/resolve/main/"}


def find_bert(name, data_dir, progress=True):
    """The folder of a pre-trained encoder: a path, or a known name, downloaded once to data_dir/bert/name.

    Raises ValueError if the name is unknown, the download fails, or configuration, weights or vocabulary lack.
    """
    folder = Path(name)
    if name in ARCHIVES or name in HUGGING_FACE:
        folder = Path(data_dir) / "bert" / name
        if not folder.exists():
            _download_bert(name, folder, progress)
    elif not folder.exists():
        known = ", ".join([*ARCHIVES, *HUGGING_FACE])
        raise ValueError(f"--bert {name}: expected a folder or one of {known}, found neither; correct the name")
    config = BertConfig.from_json(_find(folder, *CONFIGS))
    _find(folder, *WEIGHTS)
    for file in ("vocab.txt",) if config.kind == "bert" else ("vocab.json", "merges.txt"):
        _find(folder, file)
    return folder


def _download_bert(name, folder, progress):
    """Fetch into a temporary folder beside the final one; only a whole model gets its name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temp:
        new = Path(temp) / name
        if name in ARCHIVES:
            archive = Path(temp) / "archive.zip"
            download(GOOGLE + ARCHIVES[name], archive, progress=progress, remedy=f"unzip it into {folder} by hand")
            unzip(archive, new)
            new = next((path.parent for path in new.rglob("bert_config.json")), new)  # some hold a folder
        else:
            for file in ("config.json", "vocab.json", "merges.txt", "model.safetensors"):
                download(HUGGING_FACE[name] + file, new / file, progress=progress,
                         remedy=f"put all its files into {folder} by hand")
        os.replace(new, folder)


def download(url, path, size=None, sha256=None, progress=True, remedy=None):
    """Download url to path, whole or not at all: all bytes must come and match size and sha256.

    Raises ValueError with the reason and what to do by hand: `remedy`, or to put the file at path.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, got = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, open(part, "wb") as file:
            announced = answer.headers.get("Content-Length")
            total = int(announced) if announced else size
            with tqdm(total=total, unit="B", unit_scale=True, desc=path.name, disable=not progress) as bar:
                while chunk := answer.read(1 << 20):
                    file.write(chunk)
                    digest.update(chunk)
                    got += len(chunk)
                    bar.update(len(chunk))
        for what, wanted, found in (("bytes", total, got), ("bytes", size, got),
                                    ("sha256", sha256, digest.hexdigest())):
            if wanted not in (None, found):
                raise ValueError(f"expected {what} {wanted}, got {found}")
        os.replace(part, path)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot download {url}: {error}; {remedy or f'put the file at {path} by hand'}, or use --task toy, "
                         "which needs no network") from error
    finally:
        part.unlink(missing_ok=True)


def unzip(archive, folder):
    """Extract a zip file into a new folder, whole or not at all, no member outside it. Raises ValueError."""
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"{folder}: expected no such folder before extracting {archive}; remove it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temp:
        inside = (Path(temp) / "new").resolve()
        inside.mkdir()
        try:
            with zipfile.ZipFile(archive) as source:
                for name in source.namelist():
                    if not (inside / name).resolve().is_relative_to(inside):
                        raise ValueError(f"member {name!r} lies outside the folder")
                source.extractall(inside)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{archive}: expected a sound zip, found {error}; download it again") from error
        os.replace(inside, folder)
