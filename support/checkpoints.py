"""The files of published models: settings, vocabularies, weights as arrays. Needs no TensorFlow.

    read_config(path)           config.json or bert_config.json
    read_pieces(folder, ...)    vocab.txt, or vocab.json and merges.txt
    read_arrays(folder)         one of the following, with our names
    read_safetensors(path)      Hugging Face's model.safetensors
    read_pickle(path)           Hugging Face's older pytorch_model.bin; nothing in it is run
    read_tf_checkpoint(path)    Google's prefix.index and prefix.data-00000-of-00001

The last three return a dict of name -> array, the names those of the file; half precision becomes
float32. A file that is another one, cut off or damaged is a ValueError of one line that names it.
Left out: safetensors in several files, compressed or big-endian checkpoints, tensors in slices.
"""

import contextlib
import functools
import json
import operator
import re
from pathlib import Path

import numpy as np
import torch

CONFIGS = ("config.json", "bert_config.json")  # what a folder of published weights holds
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "*.ckpt.index")
HIDDEN_ACT = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
              "relu": "relu"}  # config.json's name -> ours
COUNTS = {  # our name -> key of config.json
    "vocab_size": "vocab_size", "hidden_size": "hidden_size", "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads", "intermediate_size": "intermediate_size",
    "segments": "type_vocab_size"}
RATES = {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob",
         "layer_norm_eps": "layer_norm_eps"}


# ---- Files and findings -------------------------------------------------------------------------

def refuse(when, message):
    """Raises ValueError with this message where `when` is true."""
    if when:
        raise ValueError(message)


def visible(text):
    """A text with "\\x1b" for a control character, which a terminal would obey."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: ascii(found[0])[1:-1], text)


def one_line(error):
    """What a user is told of an error, its middle left out where it is long."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = ": ".join(filter(None, (error.filename, error.strerror)))
    elif not text or not isinstance(error, (ValueError, OSError)):  # torch writes pages
        text = f"{type(error).__name__}: {text.partition('. ')[0]}"
    text = visible(" ".join(text.split()))
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-300:]}"


def join_names(names, most=8):
    """The first names with commas, and how many more there are."""
    shown = [(name if name.isprintable() else ascii(name))[:100] for name in map(str, names)]
    more = f", ... ({len(shown) - most} more)" if len(shown) > most else ""
    return (", ".join(shown[:most]) or "nothing") + more


@contextlib.contextmanager
def expecting(path, what, remedy="download it again"):
    """Around what reads a file: all that fails, but an OSError that names it, is a ValueError
    that says what was expected and found, and what to do.
    """
    try:
        yield
    except Exception as error:  # a damaged file raises almost anything
        if getattr(error, "filename", None):
            raise
        raise ValueError(f"{path}: expected {what}, found {one_line(error)}; {remedy}") from error


def find_file(folder, *patterns):
    """The first file in the folder that fits one of the glob patterns, tried in this order -> Path.

    Raises ValueError that says what is there instead.
    """
    folder = Path(folder)
    found = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    there = join_names(sorted(path.name for path in folder.glob("*")))
    refuse(not found, f"{folder}: expected a folder with {' or '.join(patterns)}, found {there}; "
           "correct the name, add the file, or remove the folder to download it again")
    return found[0]


def read_json(path):
    """Read a JSON object -> dict. Raises ValueError naming the file."""
    with expecting(path, "a JSON object", "correct or restore it"):
        content = json.loads(Path(path).read_text("utf-8"))
        refuse(not isinstance(content, dict), f"a {type(content).__name__}")
        return content


# ---- Configurations and vocabularies ------------------------------------------------------------

def read_config(path):
    """Google's bert_config.json or Hugging Face's config.json -> dict, the fields of a BertConfig.

    Case: `do_lower_case` of tokenizer_config.json beside it, else here; else lower-case unless the
    folder's vocab.txt holds capitals (Google's cased models say it nowhere).
    Raises ValueError that names the file and the setting.
    """
    path = Path(path)
    settings = {"model_type": "bert", "hidden_act": "gelu", "type_vocab_size": 2,
                "pad_token_id": 1, "position_embedding_type": "absolute"} | read_json(path)
    known = {"model_type": ("bert", "roberta"), "hidden_act": tuple(HIDDEN_ACT),
             "position_embedding_type": ("absolute",)}
    for key, values in known.items():
        refuse(settings[key] not in values, f"{path}: {key} must be {join_names(values)}, got "
               f"{settings[key]!r}; give the folder of a BERT or RoBERTa")
    kind, lower = settings["model_type"], tokenizer_setting(path.parent, "do_lower_case")
    if lower is None:
        lower = settings.get("do_lower_case")
    if lower is None:
        vocabulary = path.with_name("vocab.txt")
        pieces = _lines(vocabulary) if vocabulary.exists() else ()
        lower = kind == "bert" and all(x == x.lower() or x.startswith("[") for x in pieces)
    numbers = ", ".join([*COUNTS.values(), "max_position_embeddings"])
    with expecting(path, f"whole numbers {numbers}", "give the folder of a BERT or RoBERTa"):
        # RoBERTa counts positions from pad_token_id + 1, BERT from 0
        offset = settings["pad_token_id"] + 1 if kind == "roberta" else 0
        sizes = {name: operator.index(settings[key]) for name, key in COUNTS.items()}
        rates = {name: float(settings[key]) for name, key in RATES.items() if key in settings}
        refuse(sizes["hidden_size"] % sizes["num_heads"], "heads that cut hidden_size unevenly")
        return sizes | rates | {
            "kind": kind, "activation": HIDDEN_ACT[settings["hidden_act"]], "lower_case": lower,
            "position_offset": offset, "max_length": settings["max_position_embeddings"] - offset}


def write_config(path, fields):
    """Write a config.json that `read_config` (and Hugging Face) reads back."""
    activations = {ours: theirs for theirs, ours in HIDDEN_ACT.items()}
    settings = {"model_type": fields["kind"], "hidden_act": activations[fields["activation"]],
                "max_position_embeddings": fields["max_length"] + fields["position_offset"],
                "pad_token_id": max(0, fields["position_offset"] - 1),
                "do_lower_case": fields["lower_case"]}
    settings |= {key: fields[field] for field, key in (COUNTS | RATES).items()}
    Path(path).write_text(json.dumps(settings, indent=1) + "\n", "utf-8")


def tokenizer_setting(folder, key):
    """What tokenizer_config.json in the folder says of this key; None where it says nothing."""
    path = Path(folder, "tokenizer_config.json")
    return read_json(path).get(key) if path.exists() else None


def _lines(path):
    """The lines of a text in UTF-8. U+2028 may be a piece, so that it ends no line."""
    return Path(path).read_text("utf-8", "replace").removesuffix("\n").split("\n")


def read_pieces(folder, kind, rows):
    """Read the vocabulary of a folder -> dict of piece -> id; RoBERTa's merges, pairs of pieces.

    kind, rows: kind and vocab_size of its configuration, which must fit.
    """
    if kind == "bert":
        path, merges = find_file(folder, "vocab.txt"), None
        ids, special = {piece: i for i, piece in enumerate(_lines(path))}, "[PAD] [UNK] [CLS] [SEP]"
    else:
        path, of_merges = find_file(folder, "vocab.json"), find_file(folder, "merges.txt")
        ids, special = read_json(path), "<s> <pad> </s>"
        merges = [tuple(x.split(" ")) for x in _lines(of_merges) if not x.startswith("#version")]
        longer = [piece for piece in ids if len(piece) > 1
                  and not re.fullmatch(r"<.+>|\[.+\]|madeupword\d+", piece)]
        refuse(sorted(map("".join, merges)) != sorted(longer), f"{of_merges}: expected a line of "
               f"two pieces for each longer piece of vocab.json, which has {len(longer)}, found "
               f"{len(merges)}; download both again")
    padded = [-(-len(ids) // m) * m for m in (1, 8, 64, 128)]  # to a multiple
    refuse(rows not in padded or max(ids.values()) >= rows, f"{path}: expected {rows} pieces, each "
           f"once, as config.json's vocab_size, found {len(ids)}; take both from one model")
    lacking = set(special.split()) - ids.keys()
    refuse(lacking, f"{path}: expected the special pieces {special}, found no "
           f"{join_names(sorted(lacking))}; use the vocabulary that came with the weights")
    return ids, merges


# ---- Weights ------------------------------------------------------------------------------------

SKIPPED = re.compile(  # optimizer slots and buffers; heads
    r"(.*\.)?(adam_[mv]|global_step|position_ids|token_type_ids)$"
    r"|(cls|classifier|lm_head)\.|output_(weights|bias)$")
RENAMES = (  # in this order
    (r"/", "."), (r"^(bert|roberta)\.", ""), (r"\.(kernel|gamma)$", ".weight"),
    (r"\.beta$", ".bias"), (r"_embeddings$", "_embeddings.weight"),
    (r"token_type_emb", "segment_emb"), (r"_embeddings\.", "."),
    (r"^encoder\.layer[._]", "layers."), (r"LayerNorm", "norm"), (r"\.self\.", "."),
    (r"attention\.output\.dense", "attention_output"),
    (r"attention\.output\.norm", "attention_norm"), (r"\.output\.norm", ".output_norm"),
    (r"\.dense\.", "."))


def our_name(name):
    """A published tensor's name in the words of bert_min.Bert; None for what is skipped by design.

    >>> our_name("bert/encoder/layer_0/attention/output/LayerNorm/gamma")
    'layers.0.attention_norm.weight'
    """
    for pattern, replacement in RENAMES:
        name = re.sub(pattern, replacement, name)
    return None if SKIPPED.match(name) else name


def read_arrays(folder):
    """Read the weights in a folder -> dict of our name -> array, shaped as torch has it."""
    path, arrays = find_file(folder, *WEIGHTS), {}
    readers = {".safetensors": read_safetensors, ".bin": read_pickle, ".index": read_tf_checkpoint}
    for name, array in readers[path.suffix](path).items():
        ours = our_name(name)
        if ours is not None:  # a kernel is TensorFlow's, stored from inputs to outputs
            arrays[ours] = array.T if name.endswith("kernel") else array
    return arrays


def _tensor(raw, dtype, shape):
    """Bytes -> array. `V2` stands for bfloat16, which numpy lacks: the upper half of a float32."""
    if dtype == "V2":
        raw, dtype = raw.view("<u2").astype(np.uint32) << 16, "<f4"
    array = raw.view(dtype).reshape(shape)
    return array.astype(np.float32) if dtype == "<f2" else array


# ---- Hugging Face -------------------------------------------------------------------------------

SAFE_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "V2", "F64": "<f8", "I64": "<i8", "I32": "<i4",
               "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


def read_safetensors(path):
    """Read a .safetensors file -> dict of name -> array.

    Format: uint64 length of the header, header in JSON {name: {dtype, shape, data_offsets}}, then
    the bytes, all of which belong to one tensor.
    """
    raw, arrays = np.fromfile(path, np.uint8), {}
    length = int.from_bytes(raw[:8].tobytes(), "little")
    what = f"a JSON header of {length} bytes and tensors of dtype {', '.join(SAFE_DTYPES)}"
    with expecting(path, what, f"its {len(raw)} bytes are cut off, damaged or a Git LFS pointer: "
                   "download it again"):
        header, body = json.loads(raw[8:8 + length].tobytes()), raw[8 + length:]
        header.pop("__metadata__", None)
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            arrays[name] = _tensor(body[start:end], SAFE_DTYPES[entry["dtype"]], entry["shape"])
    return arrays


def read_pickle(path):
    """Read pytorch_model.bin -> dict of name -> array. weights_only=True: nothing in it is run."""
    with expecting(path, "a dict of name -> tensor"):
        return {name: (x.float() if x.dtype in (torch.bfloat16, torch.float16) else x)
                .detach().numpy()
                for name, x in torch.load(path, "cpu", weights_only=True).items()}


# ---- TensorFlow ---------------------------------------------------------------------------------

TF_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 14: "V2", 19: "<f2"}


def _varint(data, at):
    """Seven bits a byte, low ones first -> (value, where it ends)."""
    value = shift = 0
    while data[at] > 127:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


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


def _block(index, handle):
    """(key, value) entries of one LevelDB block; the handle is its offset and size as varints."""
    offset, at = _varint(handle, 0)
    size, _ = _varint(handle, at)
    body = index[offset:offset + size]
    end, at, key = size - 4 - 4 * int.from_bytes(body[-4:], "little"), 0, b""
    while at < end:
        shared, at = _varint(body, at)
        fresh, at = _varint(body, at)
        length, at = _varint(body, at)
        key = key[:shared] + body[at:at + fresh]
        yield key, body[at + fresh:at + fresh + length]
        at += fresh + length


def read_tf_checkpoint(path):
    """Read a TensorFlow checkpoint -> dict of name -> array.

    path: of prefix.index, beside which the data files lie.
    Source: tensorflow/core/util/tensor_bundle and LevelDB's table format.
    """
    index, entries, arrays = path.read_bytes(), {}, {}
    read = functools.cache(lambda file: np.fromfile(file, np.uint8))
    with expecting(path, "the index of a little-endian, uncompressed TensorFlow checkpoint of "
                   f"whole tensors of dtypes {', '.join(TF_DTYPES.values())}"):
        _, at = _varint(index[-48:], 0)  # the handle of a block that is not used
        _, at = _varint(index[-48:], at)
        for _, handle in _block(index, index[at - 48:]):
            entries |= {key.decode(): dict(_fields(value)) for key, value in _block(index, handle)}
        shards = entries.pop("")[1]
        for name, entry in entries.items():  # 1 dtype, 2 shape, 3 data file, 4 first byte, 5 bytes
            shape = [dict(_fields(dim)).get(1, 0) for number, dim in _fields(entry.get(2, b""))
                     if number == 2]
            number, start, size = (entry.get(k, 0) for k in (3, 4, 5))
            file = path.with_name(f"{path.stem}.data-{number:05d}-of-{shards:05d}")
            raw = read(file)[start:start + size]
            refuse(len(raw) != size, f"{file}, which ends within {name}")
            arrays[name] = _tensor(raw, TF_DTYPES[entry[1]], shape)
    return arrays
