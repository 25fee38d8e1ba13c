"""The files of published models: settings, vocabularies, weights as arrays. Needs no TensorFlow.

    read_config(path)           config.json or bert_config.json
    read_pieces(folder, ...)    vocab.txt, or vocab.json and merges.txt
    read_arrays(folder)         one of the following, with our names
    read_safetensors(path)      Hugging Face's model.safetensors
    read_pickle(path)           Hugging Face's older pytorch_model.bin; nothing in it is run
    read_tf_checkpoint(index)   Google's prefix.index and prefix.data-00000-of-00001

The last three return a dict of name -> array, the names those of the file; half precision becomes
float32. What is returned is typed and complete: nobody behind these functions checks it again. What
they refuse is one ValueError of one line that names the file.
Left out: safetensors in several files, compressed or big-endian checkpoints, tensors in slices.
"""

import errno
import functools
import json
import math
import os
import re
import reprlib
import stat
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch

CONFIGS = ("config.json", "bert_config.json")  # what a folder of published weights holds
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "*.ckpt.index")
HIDDEN_ACT = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
              "relu": "relu"}  # config.json's name -> ours
FIELDS = {  # our name -> key of config.json, where one is the other
    "vocab_size": "vocab_size", "hidden_size": "hidden_size", "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads", "intermediate_size": "intermediate_size",
    "segments": "type_vocab_size", "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob", "layer_norm_eps": "layer_norm_eps",
    "lower_case": "do_lower_case"}
REQUIRED = {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
            "intermediate_size", "max_position_embeddings"}
SIZES = {"vocab_size": 10 ** 7, "hidden_size": 10 ** 5, "num_layers": 1000, "num_heads": 10 ** 4,
         "intermediate_size": 10 ** 6, "max_length": 10 ** 6, "segments": 1000}  # at most
TEXT_BYTES = 1 << 24  # of JSON and of a vocabulary; RoBERTa's has 2 ** 20


# ---- Files and findings -------------------------------------------------------------------------

def refuse(when, message):
    """Raises ValueError with this message where `when` is true."""
    if when:
        raise ValueError(message)


def shorten(found):
    """An error, or a value, as a short piece of one line."""
    if isinstance(found, Exception):
        text = getattr(found, "strerror", None) or str(found)
        if not isinstance(found, OSError) and type(found) is not ValueError:
            text = f"{type(found).__name__} {text}"
    else:
        text = repr(found[:99]) if isinstance(found, str) else reprlib.repr(found)
    text = " ".join("".join(c if c.isprintable() else " " for c in text[:200]).split())
    return text if len(text) < 100 else text[:97] + "..."


def join_names(names, most=8):
    """The first names with commas, and how many more there are; as brief as an error needs it."""
    names = [str(name) for name in names]
    shown = [name if name.isprintable() and len(name) < 100 else shorten(name) for name in names]
    more = f", ... ({len(names) - most} more)" if len(names) > most else ""
    return (", ".join(shown[:most]) or "nothing") + more


def memory():
    """Bytes of this machine's memory; a great many where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 60


def file_size(path, most=math.inf):
    """Bytes of a plain file. Raises OSError for anything else, and above `most` or the memory."""
    about, most = os.stat(path), min(most, memory())
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "no plain file", str(path))
    if about.st_size > most:
        raise OSError(f"{about.st_size:,} bytes, more than {most:,}")
    return about.st_size


def read_bytes(path, most=math.inf):
    """A file's bytes, (size,) uint8. Raises ValueError naming a file that cannot be read whole."""
    try:
        file_size(path, most)
        return np.fromfile(path, np.uint8)  # not mapped: a map would change with the file
    except OSError as error:
        raise ValueError(f"{path}: expected a file to read whole, found {shorten(error)}; correct "
                         "the name, or download it again") from error


def check_distinct(names):
    """Raise ValueError where one of the names is there twice."""
    doubled = [name for name, n in Counter(names).items() if n > 1]
    refuse(doubled, f"{join_names(doubled)} twice")


def check_zip(members, most):
    """Raise ValueError where a ZipInfo is there twice, or all unpack to more than `most` bytes."""
    check_distinct(member.filename for member in members)
    size = sum(member.file_size for member in members)
    refuse(size > most, f"{size:,} bytes unpacked, more than {most:,}")


def find_file(folder, *patterns):
    """The first file in the folder that fits one of the glob patterns, tried in this order -> Path.

    Raises ValueError that says what is there instead.
    """
    folder = Path(folder)
    problem = "a file, expected the folder around it" if folder.exists() else "no such folder"
    refuse(not folder.is_dir(),
           f"{folder}: {problem}; give a folder with configuration, weights and vocabulary")
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            return path
    found = join_names(sorted(path.name for path in folder.iterdir() if path.exists()))
    raise ValueError(f"{folder}: expected {' or '.join(patterns)}, found {found}; add the missing "
                     "file, or remove the folder to download it again")


def read_json(path):
    """Read a JSON object -> dict. Raises ValueError naming the file."""
    raw = read_bytes(path, TEXT_BYTES)
    try:
        return _json_object(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected a JSON object, found {shorten(error)}; correct or "
                         "restore it") from error


def _json_object(raw):
    """Bytes -> dict; a name may stand once in each object."""
    def distinct(pairs):
        check_distinct(name for name, _ in pairs)
        return dict(pairs)

    content = json.loads(raw.tobytes().decode("utf-8"), object_pairs_hook=distinct)
    refuse(not isinstance(content, dict), f"a {type(content).__name__}")
    return content


def are_distinct(names, longest=math.inf):
    """Are these a list of distinct strings, none of them longer?"""
    return (isinstance(names, list)
            and all(isinstance(name, str) and len(name) <= longest for name in names)
            and len(set(names)) == len(names))


# ---- Configurations and vocabularies ------------------------------------------------------------

def read_config(path, make=dict):
    """Google's bert_config.json or Hugging Face's config.json -> make(fields of a BertConfig).

    Case: `do_lower_case` here or in tokenizer_config.json beside it; else lower-case unless the
    folder's vocab.txt holds capitals (Google's cased models say it nowhere).
    """
    path = Path(path)
    settings = {"model_type": "bert", "hidden_act": "gelu",
                "position_embedding_type": "absolute"} | read_json(path)
    missing = REQUIRED - settings.keys()
    refuse(missing, f"{path}: expected a BERT configuration, found no "
           f"{', '.join(sorted(missing))}; give the folder of a BERT or RoBERTa")
    for key, allowed in (("model_type", ("bert", "roberta")), ("hidden_act", tuple(HIDDEN_ACT)),
                         ("position_embedding_type", ("absolute",))):
        refuse(settings[key] not in allowed, f"{path}: {key} must be {' or '.join(allowed)}, got "
               f"{shorten(settings[key])}; give the folder of another model")
    fields = {field: settings[key] for field, key in FIELDS.items() if key in settings}
    kind, positions = settings["model_type"], settings["max_position_embeddings"]
    # RoBERTa counts positions from pad_token_id + 1, BERT from 0
    pad = settings.get("pad_token_id", 1) if kind == "roberta" else -1
    refuse(type(positions) is not int or type(pad) is not int,
           f"{path}: max_position_embeddings and pad_token_id must be integers, got "
           f"{shorten(positions)} and {shorten(pad)}; correct them")
    if "lower_case" not in fields:
        fields["lower_case"] = kind == "bert" and _folder_lowers(path.parent)
    fields |= {"kind": kind, "activation": HIDDEN_ACT[settings["hidden_act"]],
               "max_length": positions - (pad + 1), "position_offset": pad + 1}
    try:
        return make(**fields)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def check_config(fields):
    """Raise ValueError unless these are sound BertConfig fields whose weights fit into memory."""
    def check(name, holds, needed):
        refuse(not holds, f"BertConfig: {name} must be {needed}, got {shorten(fields[name])}; "
               "correct the setting")

    for name, most in SIZES.items():
        value = fields[name]
        check(name, type(value) is int and 0 < value <= most, f"an integer from 1 to {most:,}")
    for name in ("dropout", "attention_dropout"):
        number = isinstance(fields[name], (int, float))
        check(name, number and 0 <= fields[name] < 1, "a number in [0, 1)")
    known = sorted(set(HIDDEN_ACT.values()))
    heads, eps, offset = (fields[x] for x in ("num_heads", "layer_norm_eps", "position_offset"))
    check("hidden_size", fields["hidden_size"] % heads == 0, f"a multiple of {heads} heads")
    check("layer_norm_eps", isinstance(eps, float) and 0 < eps < 0.1, "a number in (0, 0.1)")
    check("position_offset", type(offset) is int and 0 <= offset <= 1000, "from 0 to 1,000")
    check("activation", fields["activation"] in known, " or ".join(known))
    check("kind", fields["kind"] in ("bert", "roberta"), "bert or roberta")
    check("lower_case", isinstance(fields["lower_case"], bool), "true or false")
    rows = fields["vocab_size"] + fields["max_length"] + offset + fields["segments"]
    inner = 4 * fields["hidden_size"] + 2 * fields["intermediate_size"]
    needed = 4 * fields["hidden_size"] * (rows + fields["num_layers"] * inner)
    refuse(needed > memory(),
           f"BertConfig: its weights need {needed / 1e9:,.0f} GB of memory, this machine has "
           f"{memory() / 1e9:,.0f}; correct the sizes")


def write_config(path, fields):
    """Write a config.json that `read_config` (and Hugging Face) reads back."""
    activations = {ours: theirs for theirs, ours in HIDDEN_ACT.items()}
    settings = {"model_type": fields["kind"], "hidden_act": activations[fields["activation"]],
                "max_position_embeddings": fields["max_length"] + fields["position_offset"],
                "pad_token_id": max(0, fields["position_offset"] - 1)}
    settings |= {key: fields[field] for field, key in FIELDS.items()}
    Path(path).write_text(json.dumps(settings, indent=1) + "\n", "utf-8")


def _folder_lowers(folder):
    """Is a BERT folder lower-case? By tokenizer_config.json, or if vocab.txt holds no capitals."""
    settings = folder / "tokenizer_config.json"
    stated = read_json(settings).get("do_lower_case") if settings.exists() else None
    refuse(not isinstance(stated, (bool, type(None))),
           f"{settings}: do_lower_case must be true or false, got {shorten(stated)}; correct it")
    if stated is None and (folder / "vocab.txt").exists():
        pieces = read_vocabulary(folder / "vocab.txt")
        return not any(piece != piece.lower() for piece in pieces if piece[:1] != "[")
    return stated is not False


def _lines(path):
    """Lines of a text in UTF-8. Only a line feed ends one: U+2028 may be a piece."""
    try:
        text = read_bytes(path, TEXT_BYTES).tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: expected text in UTF-8, found {shorten(error)}; download it again") from error
    if "\r" in text:
        number = text[:text.index("\r")].count("\n") + 1
        raise ValueError(f"{path}, line {number}: expected line feeds alone, found a carriage "
                         "return; download it again, in binary form")
    return text.removesuffix("\n").split("\n")


def read_vocabulary(path):
    """Read vocab.txt, one word piece a line -> dict of piece -> id."""
    ids = {}
    for number, piece in enumerate(_lines(path), 1):
        if ids.setdefault(piece, number - 1) != number - 1:
            raise ValueError(f"{path}, line {number}: expected another piece, found "
                             f"{shorten(piece)} as in line {ids[piece] + 1}; download it again")
    lacking = [piece for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]") if piece not in ids]
    refuse(lacking, f"{path}: expected BERT's special pieces, found no {join_names(lacking)}; use "
           f"the vocabulary that came with the weights")
    return ids


def read_bpe(vocabulary, merges):
    """Read RoBERTa's vocab.json and merges.txt -> dict of piece -> id, list of pairs of pieces."""
    ids, pairs = read_json(vocabulary), []
    numbers = [number for number in ids.values() if type(number) is int]
    sound = {"<s>", "<pad>", "</s>"} <= ids.keys() and "".join(ids).isprintable()
    refuse(not sound or sorted(numbers) != list(range(len(ids))),
           f"{vocabulary}: expected printable pieces, <s>, <pad>, </s> among them, with the ids 0 "
           f"to {len(ids) - 1}, each once; use the vocabulary that came with the weights")
    for number, line in enumerate(_lines(merges), 1):
        pair = tuple(line.split(" "))
        if number == 1 and line.startswith("#version"):
            continue
        if len(pair) != 2 or not ids.keys() >= {*pair, "".join(pair)}:
            raise ValueError(f"{merges}, line {number}: expected two pieces of {vocabulary.name} "
                             f"that make a third, found {shorten(line)}; download both again")
        pairs.append(pair)
    made, special = {"".join(pair) for pair in pairs}, r"<.+>|\[.+\]|madeupword\d+"
    lost = [piece for piece in ids if len(piece) > 1 and piece not in made
            and not re.fullmatch(special, piece)]
    refuse(lost or len(made) < len(pairs), f"{merges}: expected one line for each longer piece of "
           f"{vocabulary.name}, found none for {join_names(lost)}, or two of one; download both "
           "again")
    return ids, pairs


def read_pieces(folder, kind, rows, offset):
    """Read the vocabulary of a folder -> dict of piece -> id, and merges as read_bpe's or None.

    kind, rows, offset: kind, vocab_size and position_offset of its configuration, which must fit.
    """
    if kind == "bert":
        path, merges = find_file(folder, "vocab.txt"), None
        ids = read_vocabulary(path)
    else:
        path = find_file(folder, "vocab.json")
        ids, merges = read_bpe(path, find_file(folder, "merges.txt"))
        refuse(ids["<pad>"] + 1 != offset, f"{path}: expected <pad> as config.json's pad_token_id, "
               f"{offset - 1}, found {ids['<pad>']}; take both from one model")
    padded = [-(-len(ids) // m) * m for m in (1, 8, 64, 128)]  # to a multiple
    refuse(rows not in padded, f"{path}: expected {rows} pieces as config.json's vocab_size, found "
           f"{len(ids)}; take both from one model")
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
        refuse(ours in arrays, f"{path}: expected one tensor for {join_names([ours])}, found "
               f"{join_names([name])} as a second; remove one")
        if ours is not None:  # a kernel is TensorFlow's, stored from inputs to outputs
            arrays[ours] = array.T if name.endswith("kernel") else array
    return arrays


def _tensor(name, raw, dtype, shape):
    """Bytes -> array. `V2` stands for bfloat16, which numpy lacks."""
    refuse(not all(type(n) is int for n in shape),  # numpy refuses those below 0, and too large
           f"{join_names([name])} of shape {shorten(shape)}")
    needed = math.prod(shape) * np.dtype(dtype).itemsize
    refuse(len(raw) != needed, f"{len(raw)} bytes, not {needed}, for {join_names([name])} {shape}")
    if dtype == "V2":  # the upper half of a float32
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
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
    raw, arrays, at = read_bytes(path), {}, 0
    length = int.from_bytes(raw[:8].tobytes(), "little")
    try:
        refuse(length > TEXT_BYTES, f"more than {TEXT_BYTES}")
        header, body = _json_object(raw[8:8 + length]), raw[8 + length:]
        header.pop("__metadata__", None)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            dtype, shape, (start, end) = (entry[x] for x in ("dtype", "shape", "data_offsets"))
            refuse(str(dtype) not in SAFE_DTYPES or start != at, f"{join_names([name])}, dtype "
                   f"{shorten(dtype)}, bytes {start} to {end} behind {at}")
            arrays[name], at = _tensor(name, body[start:end], SAFE_DTYPES[dtype], shape), end
        refuse(at != len(body), f"{len(body)} bytes of tensors, not {at}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: expected a JSON header of {length} bytes and tensors of dtype "
                         f"{', '.join(SAFE_DTYPES)}, one behind the other, found {shorten(error)} "
                         f"in a file of {len(raw)}; truncated, damaged or a Git LFS pointer: "
                         "download it again") from error
    return arrays


def load_torch(path):
    """What torch.save wrote, on the CPU, nothing in it run. Raises many kinds of errors."""
    size = file_size(path)
    with open(path, "rb") as file:
        if file.read(2) == b"PK":  # torch before 1.6 wrote no zip
            archive = zipfile.ZipFile(file)
            check_zip(archive.infolist(), size)
            damaged = archive.testzip()  # torch does not look at the CRCs
            refuse(damaged, f"another CRC of {shorten(damaged)}")
    with warnings.catch_warnings():  # what they warn of is refused where it is used
        warnings.simplefilter("ignore")
        return torch.load(path, map_location="cpu", weights_only=True)


def read_pickle(path):
    """Read pytorch_model.bin -> dict of name -> array. weights_only=True: nothing in it is run."""
    try:
        size, state = file_size(path), load_torch(path)
        refuse(not isinstance(state, dict), f"a {type(state).__name__}")
        for name, value in state.items():
            refuse(type(name) is not str or not isinstance(value, torch.Tensor),
                   f"{shorten(name)}, {type(value).__name__}")
        needed = sum(value.numel() * value.element_size() for value in state.values())
        refuse(needed > 4 * size, f"tensors that repeat what is in {size:,} bytes")
        half = (torch.bfloat16, torch.float16)
        return {name: (value.float() if value.dtype in half else value).detach().numpy()
                for name, value in state.items()}
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = shorten(error).split('. ')[0]  # the rest is advice to run what is in the file
        raise ValueError(f"{path}: expected a dict of name -> tensor, found {reason}; "
                         "download it again") from error


# ---- TensorFlow ---------------------------------------------------------------------------------

TF_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 14: "V2", 19: "<f2"}
LANES = 4096  # words folded at once by crc32c: 16 KB, within the fastest cache


@functools.cache
def _crc_tables():
    """(256,) table to read one byte, two of (65536,) to move a register past LANES zero words."""
    byte = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        byte = (byte >> 1) ^ (byte & 1) * np.uint32(0x82F63B78)
    moved = np.uint32(1) << np.arange(32, dtype=np.uint32)  # a linear map is known by 32 images
    for _ in range(4 * LANES):
        moved = byte[moved & 255] ^ (moved >> 8)
    low_high = np.zeros((2, 1), np.uint32)
    for images in moved.reshape(2, 16, 1).swapaxes(0, 1):
        low_high = np.hstack([low_high, low_high ^ images])
    return byte.tolist(), *low_high


def crc32c(data):
    """CRC-32C (Castagnoli) of bytes or an array of them.

    CRC is linear, so a row of LANES words may be replaced by what it becomes LANES words later,
    added (xor) to the row below; two tables of 2^16 do this for a whole row at once. What remains,
    one row and the bytes after the last, is read byte by byte.

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
    value = 0
    for shift in range(0, 70, 7):
        value, at = value | (data[at] & 127) << shift, at + 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")


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
            refuse(at > len(message), "a message that is cut off")
        yield tag >> 3, value


def _block(index, handle):
    """(key, value) entries of one LevelDB block; the handle is its offset and size as varints."""
    offset, at = _varint(handle, 0)
    size, _ = _varint(handle, at)
    body, stored = index[offset:offset + size + 1], index[offset + size + 1:offset + size + 5]
    refuse(len(body) <= size or _masked_crc(body) != stored,
           f"no block with its CRC at byte {offset}")
    refuse(body[-1] != 0, f"blocks of type {body[-1]} (1 is snappy)")
    end, at, key = size - 4 - 4 * int.from_bytes(body[size - 4:size], "little"), 0, b""
    while at < end:
        shared, at = _varint(body, at)
        fresh, at = _varint(body, at)
        length, at = _varint(body, at)
        key = key[:shared] + body[at:at + fresh]
        yield key, body[at + fresh:at + fresh + length]
        at += fresh + length


def _read_entry(name, entry):
    """A tensor's entry of the index -> (dtype, shape, number of its data file, first byte, bytes,
    CRC); None for a string.
    """
    info = dict(_fields(entry))
    if info.get(1) == 7:
        return None
    refuse(info.get(1) not in TF_DTYPES or 7 in info, f"{join_names([name])} of dtype "
           f"{shorten(info.get(1))}{' in slices' if 7 in info else ''}")
    dims = [dim for number, dim in _fields(info.get(2, b"")) if number == 2]
    shape = tuple(dict(_fields(dim)).get(1, 0) for dim in dims)
    place = [info.get(number, 0) for number in (3, 4, 5)]
    refuse(not all(type(n) is int for n in place), f"{join_names([name])} at {shorten(place)}")
    return TF_DTYPES[info[1]], shape, *place, info[6]


def _tf_index(path):
    """The index -> (number of data files, dict of tensor name -> what _stored says).

    Raises ValueError naming the file.
    """
    index, entries, last = read_bytes(path, 1 << 30).tobytes(), {}, None
    try:
        refuse(len(index) < 48 or index[-8:] != (0xDB4775248B80FB57).to_bytes(8, "little"),
               f"{len(index)} bytes without the magic number at the end")
        _, at = _varint(index[-48:], 0)  # the handle of a block that is not used
        _, at = _varint(index[-48:], at)
        for _, handle in _block(index, index[-48 + at:]):
            for key, value in _block(index, handle):
                refuse(last is not None and key <= last, f"{shorten(key)} behind {shorten(last)}")
                entries[key.decode()], last = value, key
        header = dict(_fields(entries.pop("")))
        refuse(header.get(2, 0) != 0, "a big-endian checkpoint")
        stored = {name: _read_entry(name, entry) for name, entry in entries.items()}
        return int(header.get(1, 0)), {name: at for name, at in stored.items() if at}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path}: expected the index of a little-endian, uncompressed TensorFlow "
                         f"checkpoint of whole tensors of dtypes {', '.join(map(str, TF_DTYPES))}, "
                         f"found {shorten(error)}; download it again, or save it so") from error


def read_tf_checkpoint(index):
    """Read a TensorFlow checkpoint -> dict of name -> array. Strings are left out.

    index: the path of prefix.index, beside which the data files lie; every CRC32C is compared.
    Source: tensorflow/core/util/tensor_bundle and LevelDB's table format.
    """
    shards, entries = _tf_index(index)
    read, arrays = functools.cache(read_bytes), {}
    for name, (dtype, shape, number, start, size, crc) in entries.items():
        file = index.with_name(f"{index.stem}.data-{number:05d}-of-{shards:05d}")
        raw = read(file)[start:start + size]
        try:
            arrays[name] = _tensor(name, raw, dtype, shape)
            refuse(_masked_crc(raw) != crc, f"another CRC32C of {join_names([name])}")
        except ValueError as error:
            raise ValueError(f"{file}: expected the tensors of {index.name}, found {error}; "
                             "truncated or damaged: download it again") from error
    return arrays
