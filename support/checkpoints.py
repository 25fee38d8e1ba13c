"""The files of published models: settings, tokenizers, weights. Needs no TensorFlow.

For a wrong, truncated or damaged file, all functions raise a ValueError of one line that names it.
Left out: weights in several files, compressed or big-endian checkpoints, tensors in slices;
tokenizers other than WordPiece and byte-level BPE.
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
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from support.errors import expecting, join_names, prefix_errors, refuse
from support.files import (download, read_json, read_lines, whole, write_json, write_text,
                           writing)

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
# Keys that change what is computed -> the values that we compute, first that of a file without the
# key: of config.json; of tokenizer_config.json, where there is no tokenizer.json.
PLAIN = {
    "model_type": ("bert", "roberta"), "hidden_act": tuple(HIDDEN_ACT), "is_decoder": (False,),
    "position_embedding_type": ("absolute",)}
PLAIN_TOKENIZER = {
    "tokenize_chinese_chars": (True,), "add_prefix_space": (False,),
    "word_tokenizer_type": (None, "basic"), "strip_accents": (None, True, False),
    "do_lower_case": (None, True, False)}


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
OPTIONAL = ("tokenizer.json", "tokenizer_config.json", "added_tokens.json",
            "model.safetensors")  # files that some models lack


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
    google-bert/bert-base-cased, perhaps with @ and a revision, by default the newest. A model is
    downloaded once, to data_dir/bert/name.
    """
    if name not in BERTS and (Path(name).exists() or not PUBLISHED.fullmatch(name)):
        return Path(name)
    folder, source = Path(data_dir) / "bert" / name, BERTS.get(name, name)
    return folder if folder.exists() else _download(source, folder)


def _download(source, folder):
    """Downloads a model to a temporary folder, which is renamed to `folder` once it is whole."""
    model, _, revision = source.partition("@")

    def fetch(file):
        url = f"{HUGGING_FACE}{model}/resolve/{revision or 'main'}/{file}"
        try:
            download(url, new / file, remedy="correct the name, or put configuration, weights and "
                     "tokenizer into a folder: --bert FOLDER")
        except ValueError as error:
            if file not in OPTIONAL or getattr(error.__cause__, "code", None) != 404:
                raise

    print(f"fetching {HUGGING_FACE}{source}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temp, prefix_errors(f"{source}: "):
        new = Path(temp, folder.name)
        fetch("config.json")
        is_bert = read_config(new / "config.json")["kind"] == "bert"  # refuses other kinds
        for file in OPTIONAL:
            fetch(file)
        if not (new / "tokenizer.json").exists():
            for file in ["vocab.txt"] if is_bert else ["vocab.json", "merges.txt"]:
                fetch(file)
        if not (new / "model.safetensors").exists():
            fetch("pytorch_model.bin")
        os.replace(new, folder)
    return folder


def read_config(path):
    """A dict, the fields of a BertConfig, of Google's bert_config.json or a config.json."""
    path = Path(path)
    settings = {"model_type": "bert", "hidden_act": "gelu", "type_vocab_size": 2,
                "pad_token_id": 1} | read_json(path)
    with expecting(path, f"a BERT's {', '.join(COUNTS.values())}", "name such a folder"):
        check_plain(settings, PLAIN)
        # RoBERTa counts positions from pad_token_id + 1, BERT from 0
        kind = settings["model_type"]
        offset = settings["pad_token_id"] + 1 if kind == "roberta" else 0
        sizes = {name: operator.index(settings[key]) for name, key in COUNTS.items()}
        sizes["max_length"] = operator.index(settings["max_position_embeddings"]) - offset
        refuse(min(sizes.values()) < 1, f"a size of {min(sizes.values())}")
        refuse(sizes["hidden_size"] % sizes["num_heads"], "heads that do not divide hidden_size")
        refuse(sizes["num_layers"] > 1000 or sizes["hidden_size"] > 2 ** 16,
               f"{sizes['num_layers']} layers of hidden_size {sizes['hidden_size']}")
        rates = {name: float(settings[key]) for name, key in RATES.items() if key in settings}
        return sizes | rates | {"kind": kind, "activation": HIDDEN_ACT[settings["hidden_act"]],
                                "position_offset": offset}


def check_plain(given, plain):
    """Raises ValueError if a setting has another value than those that we compute."""
    for key, values in plain.items():
        value = given.get(key, values[0])
        refuse(value not in values, f"{key} {value!r}, not {join_names(values)}")


WORD_LETTERS = 100  # a longer word becomes [UNK], as in Hugging Face's library; Google's has 200
VOCABULARY = {"bert": "vocab.txt", "roberta": "vocab.json"}
# Pieces that no text contains: in a text, "[SEP]" is five characters.
SPECIAL = {"bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]"), "roberta": ("<s>", "<pad>", "</s>")}
PACKING = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "<s>", "</s>", "<mask>"}


def word_pieces(ids, lower_case=True, strip_accents=None):
    """BERT's tokenizers.Tokenizer. ids: dict piece -> id. strip_accents: None: as lower_case."""
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]",
                                           max_input_chars_per_word=WORD_LETTERS))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case,
                                                      strip_accents=strip_accents)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def read_tokenizer(folder, kind, rows):
    """The tokenizers.Tokenizer of a folder: its tokenizer.json, or else what vocab.txt, or
    vocab.json and merges.txt, and the words in added_tokens.json make.

    kind, rows: `kind` and `vocab_size` of the model's configuration, which the pieces must fit.
    """
    path = find_file(folder, "tokenizer.json", VOCABULARY[kind])
    config = path.with_name("tokenizer_config.json")
    settings = read_json(config) if config.exists() else {}
    if path.name == VOCABULARY[kind]:
        tokenizer = make_tokenizer(path, kind, settings)
    else:
        tokenizer, beside = read_tokenizer_json(path), path.with_name(VOCABULARY[kind])
        lower = getattr(tokenizer.normalizer, "lowercase", None)
        if lower is not None and settings.get("do_lower_case", lower) != lower:
            print(f"{path} counts, do_lower_case of {config.name} is another", file=sys.stderr)
        if beside.exists() and tokenizer.get_vocab(False) != read_vocabulary(beside):
            print(f"{path} counts, the pieces of {beside.name} are others", file=sys.stderr)
    ids, special = tokenizer.get_vocab(), SPECIAL[kind]
    packs = not {*special} - ids.keys()
    if tokenizer.post_processor:
        packs = tokenizer.num_special_tokens_to_add(is_pair=True) >= 3
    sizes = [-(-len(ids) // m) * m for m in (1, 8, 64, 128)]  # weights may be padded to a multiple
    refuse(not packs or rows not in sizes or max(ids.values()) >= rows,
           f"{path}: expected {rows} pieces, as config.json's vocab_size, with "
           f"{' '.join(special)}, each once, found {len(ids)}; take all files from one model")
    return tokenizer


def read_tokenizer_json(path):
    """The tokenizers.Tokenizer of a tokenizer.json, which neither cuts nor pads."""
    content = read_json(path)
    with expecting(path, "a tokenizer of WordPiece or byte-level BPE", "name such a folder"):
        for word in content["added_tokens"]:  # PairTokenizer does not look for special ones
            word["special"] = word["content"] in PACKING
        content |= {"truncation": None, "padding": None}
        tokenizer = Tokenizer.from_str(json.dumps(content))
        byte_level = "ByteLevel" in json.dumps(content["pre_tokenizer"])
        kind = type(tokenizer.model).__name__
        refuse(kind != "WordPiece" and not (kind == "BPE" and byte_level), f"one of {kind}")
        return tokenizer


def read_vocabulary(path):
    """dict piece -> id of vocab.txt or vocab.json."""
    if path.suffix == ".json":
        return read_json(path)
    return {line.rstrip("\r\n"): i for i, line in enumerate(read_lines(path))}


def make_tokenizer(path, kind, settings):
    """The tokenizers.Tokenizer of vocab.txt, or of vocab.json and merges.txt, with added words.

    settings: dict of tokenizer_config.json. Without do_lower_case, as in Google's cased models,
    capitals in vocab.txt mean that case is kept.
    """
    with expecting(path.with_name("tokenizer_config.json"), "a BERT's tokenizer"):
        check_plain(settings, PLAIN_TOKENIZER)
    ids = read_vocabulary(path)
    if kind == "bert":
        lower = settings.get("do_lower_case")
        if lower is None:
            lower = all(piece == piece.lower() or piece.startswith("[") for piece in ids)
        tokenizer = word_pieces(ids, lower, settings.get("strip_accents"))
    else:
        tokenizer = Tokenizer(models.BPE(ids, read_merges(path.with_name("merges.txt"), ids)))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    add_words(tokenizer, path.with_name("added_tokens.json"), settings)
    return tokenizer


def read_merges(path, ids):
    """RoBERTa's merges, pairs of pieces. ids: dict of vocab.json."""
    merges = [tuple(line.rstrip("\r\n").split(" ")) for line in read_lines(path)
              if not line.startswith("#version")]
    longer = [piece for piece in ids if len(piece) > 1
              and not re.fullmatch(r"<.+>|\[.+\]|madeupword\d+", piece)]
    refuse(sorted(map("".join, merges)) != sorted(longer), f"{path}: expected lines for "
           f"vocab.json's {len(longer)} longer pieces; download both files again")
    return merges


def add_words(tokenizer, path, settings):
    """Adds the words of added_tokens.json, on which tokenizer_config.json may say more."""
    with expecting(path, "words with the ids behind the vocabulary's", "take all files of a model"):
        words = {}
        for word, number in (read_json(path) if path.exists() else {}).items():
            words[number] = {"content": word}
        for number, word in settings.get("added_tokens_decoder", {}).items():
            words[int(number)] = word
        for number, word in sorted(words.items()):
            if word["content"] not in PACKING:
                tokenizer.add_tokens([AddedToken(**word | {"special": False})])
                refuse(tokenizer.token_to_id(word["content"]) != number, f"{word}, {number}")


SKIPPED = re.compile(  # optimizer slots and buffers; heads
    r"(.*\.)?(adam_[mv]|global_step|position_ids|token_type_ids)$"
    r"|(cls|classifier|lm_head)\.|output_(weights|bias)$")
MODULES = {  # name of a module in bert_min.Bert -> Hugging Face's, both without a layer's number
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.segment": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm", "attention.query": "attention.self.query",
    "attention.key": "attention.self.key", "attention.value": "attention.self.value",
    "attention_output": "attention.output.dense", "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense", "output": "output.dense",
    "output_norm": "output.LayerNorm", "pooler": "pooler.dense"}
OURS = {theirs: ours for ours, theirs in MODULES.items()}
KINDS = {"kernel": "weight", "gamma": "weight", "beta": "bias", "": "weight"}  # -> ours


def our_name(name):
    """The name in bert_min.Bert of a published tensor; None if Bert has no such tensor by design.

    >>> our_name("bert/encoder/layer_0/attention/output/LayerNorm/gamma")
    'layers.0.attention_norm.weight'
    """
    name = re.sub(r"^(bert|roberta)\.", "", name.replace("/", "."))
    if SKIPPED.match(name):
        return None
    name = re.sub(r"^encoder\.layer[._](\d+)", r"layers.\1", name)
    layer, module, kind = re.fullmatch(
        r"(layers\.\d+\.|)(.*?)\.?(weight|bias|kernel|gamma|beta|)", name, re.S).groups()
    return f"{layer}{OURS[module]}.{KINDS.get(kind, kind)}" if module in OURS else name


def published_name(name):
    """Hugging Face's name of a tensor of bert_min.Bert.

    >>> published_name("layers.0.attention_norm.weight")
    'encoder.layer.0.attention.output.LayerNorm.weight'
    """
    layer, module, kind = re.fullmatch(r"(layers\.\d+\.|)(.+)\.(\w+)", name).groups()
    return f"{layer.replace('layers', 'encoder.layer')}{MODULES[module]}.{kind}"


def read_weights(folder):
    """The weights in a folder: a dict, our name -> tensor."""
    path, weights = find_file(folder, *WEIGHTS), {}
    readers = {".safetensors": read_safetensors, ".bin": read_pickle, ".index": read_tf_checkpoint}
    for name, tensor in readers[path.suffix](path).items():
        if (ours := our_name(name)) is not None:  # TensorFlow has kernels as (inputs, outputs)
            weights[ours] = tensor.T if name.endswith("kernel") else tensor
    return weights


def write_encoder(folder, config, weights, tokenizer):
    """Writes an encoder as Hugging Face's libraries do: config.json, tokenizer.json,
    tokenizer_config.json, model.safetensors. FileExistsError where such a file lies there.

    config: dict, the fields of a BertConfig. weights: dict, our name -> tensor. tokenizer:
    bert_min.PairTokenizer.
    """
    folder, offset = Path(folder), config["position_offset"]
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors",
                      {published_name(name): x for name, x in weights.items()})
    write_text(folder / "tokenizer.json", tokenizer.state()["tokenizer"], new=True)
    name = tokenizer.tokenizer.id_to_token
    special = {"cls_token": tokenizer.first[0], "sep_token": tokenizer.last[0],
               "pad_token": tokenizer.pad_id, "mask_token": tokenizer.mask_id}
    inputs = ["input_ids", "attention_mask"]  # which AutoTokenizer gives
    if config["segments"] > 1:
        inputs.append("token_type_ids")
    write_json(folder / "tokenizer_config.json", new=True, content={
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": config["max_length"],
        "model_input_names": inputs} | {
        key: name(number) for key, number in special.items() if number is not None})
    activation = {ours: theirs for theirs, ours in reversed(HIDDEN_ACT.items())}
    write_json(folder / "config.json", new=True, content={
        "model_type": config["kind"], "hidden_act": activation[config["activation"]],
        "max_position_embeddings": config["max_length"] + offset,
        "pad_token_id": max(0, offset - 1)} | {
        key: config[name] for name, key in (COUNTS | RATES).items()})


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
        header, end = json.loads(raw[8:start].tobytes()), 0
        header.pop("__metadata__", None)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            first, last = entry["data_offsets"]
            refuse(first != end, f"{name} at byte {first}, where the one before ends at {end}")
            tensor, end = torch.from_numpy(raw[start + first:start + last]), last
            weights[name] = tensor.view(SAFE_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        refuse(start + end != len(raw), f"{len(raw) - start - end} bytes behind the last tensor")
    return weights


def write_safetensors(path, weights):
    """Writes a new file of the tensors, dict name -> tensor, as float32, in the same format."""
    header, arrays, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in weights.items():
        arrays.append(tensor.detach().float().cpu().numpy())
        header[name] = {"dtype": "F32", "shape": [*tensor.shape],
                        "data_offsets": [at, at + arrays[-1].nbytes]}
        at += arrays[-1].nbytes
    text = json.dumps(header).encode()
    with writing(path), whole(path, new=True) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays:
            file.write(array.tobytes())


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
