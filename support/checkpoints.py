"""The files of published models: settings, vocabularies, weights. Needs no TensorFlow.

For a wrong, truncated or damaged file, all functions raise a ValueError of one line that names it.
Left out: weights in several files, compressed or big-endian checkpoints, tensors in slices.
"""

import json
import operator
import os
import re
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch

from support.errors import expecting, join_names, prefix_errors, refuse
from support.files import download, read_json, write_json, write_whole

CONFIGS = ("config.json", "bert_config.json")  # names in a folder of published weights
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "*.ckpt.index")
HIDDEN_ACT = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
              "relu": "relu"}  # config.json's name -> ours
COUNTS = {  # our name -> key of config.json
    "vocab_size": "vocab_size", "hidden_size": "hidden_size", "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads", "intermediate_size": "intermediate_size",
    "segments": "type_vocab_size"}
RATES = {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob",
         "layer_norm_eps": "layer_norm_eps"}
# Keys of config.json or tokenizer_config.json that change what is computed -> the values that we
# compute, first that of a file without the key.
PLAIN = {
    "model_type": ("bert", "roberta"), "hidden_act": tuple(HIDDEN_ACT), "is_decoder": (False,),
    "position_embedding_type": ("absolute",), "do_basic_tokenize": (True,),
    "tokenize_chinese_chars": (True,), "never_split": (None, []), "add_prefix_space": (False,),
    "word_tokenizer_type": (None, "basic"), "subword_tokenizer_type": (None, "wordpiece")}


# ---- Folders and downloads ----------------------------------------------------------------------

HUGGING_FACE = "https://huggingface.co/"
BERTS = {  # our name -> the name at Hugging Face; all but the last are Google's uncased models
    "tiny": "google/bert_uncased_L-2_H-128_A-2",
    "mini": "google/bert_uncased_L-4_H-256_A-4",
    "small": "google/bert_uncased_L-4_H-512_A-8",
    "medium": "google/bert_uncased_L-8_H-512_A-8",
    "base": "google-bert/bert-base-uncased",
    "large": "google-bert/bert-large-uncased",
    "roberta-base": "FacebookAI/roberta-base"}
# owner/name@revision cannot lead out of a folder; names such as bert-base-uncased have no owner.
PUBLISHED = re.compile(r"(\w[\w.-]*/|(?=(ro)?bert(a)?-))\w[\w.-]*(@\w[\w.-]*)?", re.ASCII)
OPTIONAL = ("tokenizer_config.json", "model.safetensors")  # files that some models lack


def find_file(folder, *patterns):
    """The Path of the first file in the folder that matches a glob pattern, in their order."""
    folder = Path(folder)
    matches = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    files = join_names(sorted(path.name for path in folder.glob("*")))
    refuse(not matches, f"{folder}: expected a folder with {' or '.join(patterns)}, found {files}")
    return matches[0]


def find_bert(name, data_dir):
    """The folder of a pre-trained encoder. Raises ValueError if a download fails.

    name: a path; or a name of BERTS; or the name of a BERT or RoBERTa at Hugging Face, such as
    google-bert/bert-base-cased, perhaps with @ and a revision, by default the newest. A model comes
    from the cache of Hugging Face's library, or is downloaded once to data_dir/bert/name.
    """
    if name not in BERTS and (Path(name).exists() or not PUBLISHED.fullmatch(name)):
        return Path(name)
    folder, source = Path(data_dir) / "bert" / name, BERTS.get(name, name)
    if folder.exists():
        return folder
    cached = _cached(source)
    whole = any(path for file in WEIGHTS for path in cached.glob(file))
    return cached if whole else _download(source, folder)


def _cached(name):
    """The folder of a model in the cache of Hugging Face's library. It may not be there."""
    model, _, revision = name.partition("@")
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    hub = os.environ.get("HF_HUB_CACHE") or f"{home}/hub"
    place = Path(hub, "models--" + model.replace("/", "--")).expanduser()
    ref = place / "refs" / (revision or "main")  # a file that holds the name of a commit
    return place / "snapshots" / (ref.read_text().strip() if ref.is_file() else revision or "main")


def _download(source, folder):
    """Downloads a model to a temporary folder, which is renamed to `folder` once it is whole."""
    model, _, revision = source.partition("@")

    def fetch(file):
        url = f"{HUGGING_FACE}{model}/resolve/{revision or 'main'}/{file}"
        try:
            download(url, new / file, remedy="correct the name, or put configuration, weights and "
                     "vocabulary into a folder: --bert FOLDER")
        except ValueError as error:
            if file not in OPTIONAL or getattr(error.__cause__, "code", None) != 404:
                raise

    print(f"fetching {HUGGING_FACE}{source}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temp, prefix_errors(f"{source}: "):
        new = Path(temp, folder.name)
        fetch("config.json")
        is_bert = read_config(new / "config.json")["kind"] == "bert"  # refuses other kinds
        for file in (*(["vocab.txt"] if is_bert else ["vocab.json", "merges.txt"]), *OPTIONAL):
            fetch(file)
        if not (new / "model.safetensors").exists():
            fetch("pytorch_model.bin")
        os.replace(new, folder)
    return folder


# ---- Configurations and vocabularies ------------------------------------------------------------

def read_config(path):
    """A dict, the fields of a BertConfig, of Google's bert_config.json or a config.json.

    lower_case is `do_lower_case` of tokenizer_config.json in the same folder, else of this file. If
    neither has it, as in Google's cased models, capitals in vocab.txt mean that case is kept.
    """
    path = Path(path)
    settings = {"model_type": "bert", "hidden_act": "gelu", "type_vocab_size": 2,
                "pad_token_id": 1} | read_json(path)
    tokenizer = read_tokenizer(path.parent)
    kind, vocabulary = settings["model_type"], path.with_name("vocab.txt")
    lower = tokenizer.get("do_lower_case", settings.get("do_lower_case"))
    if lower is None:
        pieces = _lines(vocabulary) if vocabulary.exists() else ()
        lower = kind == "bert" and all(x == x.lower() or x.startswith("[") for x in pieces)
    with expecting(path, f"a BERT's {', '.join(COUNTS.values())}", "name such a folder"):
        refuse(not isinstance(lower, bool), f"do_lower_case {lower!r}, not true or false")
        for key, values in PLAIN.items():
            for given in (settings, tokenizer):
                value = given.get(key, values[0])
                refuse(value not in values, f"{key} {value!r}, not {join_names(values)}")
        # RoBERTa counts positions from pad_token_id + 1, BERT from 0
        offset = settings["pad_token_id"] + 1 if kind == "roberta" else 0
        sizes = {name: operator.index(settings[key]) for name, key in COUNTS.items()}
        refuse(sizes["hidden_size"] % sizes["num_heads"], "heads that do not divide hidden_size")
        rates = {name: float(settings[key]) for name, key in RATES.items() if key in settings}
        return sizes | rates | {
            "kind": kind, "activation": HIDDEN_ACT[settings["hidden_act"]], "lower_case": lower,
            "position_offset": offset, "max_length": settings["max_position_embeddings"] - offset}


def read_tokenizer(folder):
    """The dict in a folder's tokenizer_config.json; empty without the file."""
    path = Path(folder, "tokenizer_config.json")
    return read_json(path) if path.exists() else {}


def _lines(path):
    """The lines of a UTF-8 text. `splitlines` would end a line at U+2028, which can be a piece."""
    with expecting(path, "UTF-8"):
        return Path(path).read_text("utf-8").removesuffix("\n").split("\n")


def read_pieces(folder, kind, rows):
    """The vocabulary of a folder: a dict piece -> id; RoBERTa's merges, pairs of pieces, or None.

    kind, rows: `kind` and `vocab_size` of the model's configuration, which the vocabulary must fit.
    """
    if kind == "bert":
        path, merges = find_file(folder, "vocab.txt"), None
        ids, special = {piece: i for i, piece in enumerate(_lines(path))}, "[PAD] [UNK] [CLS] [SEP]"
    else:
        path, merges_path = find_file(folder, "vocab.json"), find_file(folder, "merges.txt")
        ids, special = read_json(path), "<s> <pad> </s>"
        merges = [tuple(x.split(" ")) for x in _lines(merges_path) if not x.startswith("#version")]
        longer = [piece for piece in ids if len(piece) > 1
                  and not re.fullmatch(r"<.+>|\[.+\]|madeupword\d+", piece)]
        refuse(sorted(map("".join, merges)) != sorted(longer), f"{merges_path}: expected lines for "
               f"vocab.json's {len(longer)} longer pieces; download both files again")
    sizes = [-(-len(ids) // m) * m for m in (1, 8, 64, 128)]  # weights may be padded to a multiple
    sound = rows in sizes and max(ids.values()) < rows and not {*special.split()} - ids.keys()
    refuse(not sound, f"{path}: expected {rows} pieces, as config.json's vocab_size, with "
           f"{special}, each once, found {len(ids)}; take all files from one model")
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
    """The name in bert_min.Bert of a published tensor; None if Bert has no such tensor by design.

    >>> our_name("bert/encoder/layer_0/attention/output/LayerNorm/gamma")
    'layers.0.attention_norm.weight'
    """
    for pattern, replacement in RENAMES:
        name = re.sub(pattern, replacement, name)
    return None if SKIPPED.match(name) else name


def read_weights(folder):
    """The weights in a folder: a dict, our name -> tensor."""
    path, weights, judges = find_file(folder, *WEIGHTS), {}, []
    readers = {".safetensors": read_safetensors, ".bin": read_pickle, ".index": read_tf_checkpoint}
    for name, tensor in readers[path.suffix](path).items():
        if (ours := our_name(name)) is not None:  # TensorFlow has kernels as (inputs, outputs)
            weights[ours] = tensor.T if name.endswith("kernel") else tensor
        elif name.startswith("classifier."):
            judges.append(name)
    if judges:
        print(f"{path}: {', '.join(judges)} are left out, of a model that was trained for a task: "
              "a new classifier is trained", file=sys.stderr)
    return weights


PUBLISHED_NAMES = (  # our name -> Hugging Face's, in this order
    (r"^(embeddings\.(word|position))\.", r"\1_embeddings."),
    (r"^embeddings\.segment\.", "embeddings.token_type_embeddings."),
    (r"^layers\.", "encoder.layer."), (r"attention\.(query|key|value)", r"attention.self.\1"),
    (r"attention_(output|norm)\.", r"attention.\1."), (r"output_norm\.", "output.norm."),
    (r"(intermediate|\d\.output|attention\.output|pooler)\.(weight|bias)$", r"\1.dense.\2"),
    (r"attention\.norm", "attention.output.norm"), (r"\bnorm\b", "LayerNorm"))


def published_name(name):
    """Hugging Face's name of a tensor of bert_min.Bert.

    >>> published_name("layers.0.attention_norm.weight")
    'encoder.layer.0.attention.output.LayerNorm.weight'
    """
    for pattern, replacement in PUBLISHED_NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def write_published(folder, config, weights):
    """Writes config.json, tokenizer_config.json and pytorch_model.bin, as Hugging Face names them.

    config: dict, the fields of a BertConfig. weights: dict, our name -> tensor.
    """
    offset = config["position_offset"]
    activation = {ours: theirs for theirs, ours in reversed(HIDDEN_ACT.items())}
    settings = {key: config[name] for name, key in (COUNTS | RATES).items()} | {
        "model_type": config["kind"], "hidden_act": activation[config["activation"]],
        "max_position_embeddings": config["max_length"] + offset,
        "pad_token_id": max(0, offset - 1)}
    write_json(Path(folder, "config.json"), settings)
    write_json(Path(folder, "tokenizer_config.json"), {"do_lower_case": config["lower_case"]})
    state = {published_name(name): x.cpu() for name, x in weights.items()}
    write_whole(Path(folder, "pytorch_model.bin"), lambda file: torch.save(state, file))


# ---- Hugging Face -------------------------------------------------------------------------------

SAFE_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
               "BF16": torch.bfloat16, "I64": torch.int64}


def read_safetensors(path):
    """The tensors of a .safetensors file: a dict name -> tensor.

    Format: uint64 length of the header, header in JSON {name: {dtype, shape, data_offsets}}, then
    the bytes.
    """
    raw, weights = np.fromfile(path, np.uint8), {}
    with expecting(path, f"safetensors of dtypes {', '.join(SAFE_DTYPES)}"):
        start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
        header = json.loads(raw[8:start].tobytes())
        header.pop("__metadata__", None)
        for name, entry in header.items():
            first, last = (start + offset for offset in entry["data_offsets"])
            tensor = torch.from_numpy(raw[first:last]).view(SAFE_DTYPES[entry["dtype"]])
            weights[name] = tensor.reshape(entry["shape"])
    return weights


def load_saved(path):
    """The content of a file that torch.save wrote. No code in it runs; its checksums are right."""
    if zipfile.is_zipfile(path):  # torch before 1.6 wrote no zip
        with zipfile.ZipFile(path) as archive:  # torch.load does not compare the checksums
            damaged = archive.testzip()
        refuse(damaged, f"a wrong checksum of {damaged}")
    return torch.load(path, "cpu", weights_only=True)


def read_pickle(path):
    """The tensors of pytorch_model.bin: a dict name -> tensor. No code in the file runs."""
    with expecting(path, "a dict of name -> tensor"):
        return {name: tensor.detach() for name, tensor in load_saved(path).items()}


# ---- TensorFlow ---------------------------------------------------------------------------------

TF_DTYPES = {1: torch.float32, 3: torch.int32, 9: torch.int64}  # a count of steps: int64


def _varint(data, at):
    """(a number of seven bits a byte, low bits first; the index behind it)"""
    value = shift = 0
    while data[at] > 127:  # more bytes follow
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def _fields(message):
    """The fields of a protocol-buffers message: pairs of number and value, int or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 5:  # a checksum of four bytes
            value, at = 0, at + 4
        else:
            value, at = _varint(message, at)
        if kind == 2:  # bytes, after their number
            value, at = message[at:at + value], at + value
        yield number, value


def _block(index, handle):
    """The (key, value) entries of one LevelDB block. handle: its offset and size, as varints."""
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
    """The tensors of a TensorFlow checkpoint: a dict name -> tensor.

    path: prefix.index; the data file lies beside it.
    Source: tensorflow/core/util/tensor_bundle and LevelDB's table format.
    """
    index, entries, weights = path.read_bytes(), {}, {}
    raw = np.fromfile(path.with_suffix(".data-00000-of-00001"), np.uint8)
    with expecting(path, "an uncompressed TensorFlow checkpoint, and its data file"):
        _, at = _varint(index[-48:], 0)  # the handle of a block that is not used
        _, at = _varint(index[-48:], at)
        for _, handle in _block(index, index[at - 48:]):
            entries |= {key.decode(): dict(_fields(value)) for key, value in _block(index, handle)}
        del entries[""]  # the header
        for name, entry in entries.items():  # 1 dtype, 2 shape, 4 first byte, 5 bytes
            shape = [dict(_fields(dim)).get(1, 0) for number, dim in _fields(entry.get(2, b""))
                     if number == 2]
            start, size = entry.get(4, 0), entry.get(5, 0)
            tensor = torch.from_numpy(raw[start:start + size]).view(TF_DTYPES[entry[1]])
            weights[name] = tensor.reshape(shape)
    return weights
