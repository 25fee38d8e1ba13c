"""support/checkpoints.py: the formats of published weights, whole, damaged and written by hand."""

import functools
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fuzz import damage, damaged, damaged_zip, many, read_or_refuse
from support import checkpoints
from support.checkpoints import crc32c, read_pickle, read_safetensors, read_tf_checkpoint

FIXTURES = Path(__file__).parent / "fixtures"
SAFE = FIXTURES / "tiny_bert_hf/model.safetensors"


def copy_fixture(name, folder):
    shutil.copytree(FIXTURES / name, folder)
    return folder


def fails(call, *words):
    """The call raises a ValueError of one line that holds all the words."""
    with pytest.raises(ValueError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert str(word) in text, text


def same_arrays(found, wanted):
    """The same names, dtypes, shapes and bits."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes(), name
    return True


# ---- safetensors and pickle

def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)."""
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    write_header(path, json.dumps(header).encode(), body)


def write_header(path, header, body):
    path.write_bytes(len(header).to_bytes(8, "little") + header + body)


def test_every_dtype_is_read(tmp_path):
    """From safetensors and from a pickle; half precision becomes float32."""
    tags = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL",
            torch.float64: "F64", torch.int64: "I64", torch.int32: "I32", torch.int16: "I16",
            torch.int8: "I8", torch.uint8: "U8"}
    values = {tag: torch.tensor([[1.5, 0.0, 3.25]]).to(dtype) for dtype, tag in tags.items()}
    values |= {"empty": torch.zeros(0, 3), "one": torch.tensor(7.0)}
    write_safetensors(tmp_path / "x", {
        name: (tags[x.dtype], x.shape, x.view(-1).view(torch.uint8).numpy().tobytes())
        for name, x in values.items()})
    wanted = {name: (x.float() if name in ("F16", "BF16") else x).numpy()
              for name, x in values.items()}
    assert same_arrays(read_safetensors(tmp_path / "x"), wanted)
    values["one"] = torch.nn.Parameter(values["one"])
    for zipped in (True, False):  # torch before 1.6
        torch.save(values, tmp_path / "y", _use_new_zipfile_serialization=zipped)
        assert same_arrays(read_pickle(tmp_path / "y"), wanted)


def test_every_byte_belongs_to_one_tensor(tmp_path):
    """No holes, no overlaps, nothing before or behind, a name once, no negative places."""
    path, body = tmp_path / "x", bytes(12)
    sound = '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, %s}'
    second = '"b": {"dtype": "F32", "shape": %s, "data_offsets": %s}'
    whole = sound % second % ([2], [4, 12])
    write_header(path, whole.encode(), body)
    assert len(read_safetensors(path)) == 2
    for shape, place in (([1], [8, 12]), ([3], [0, 12]), ([1], [0, 4]), ([2], [-8, 12]),
                         ([2], [12, 4]), ([2], [4, 12, 0]), ([2, *[1] * 8], [4, 12]),
                         ([1], [4, 12]), ([True, 2], [4, 12]), ([2.0], [4, 12]),
                         ([0, 1 << 39, 1 << 39], [4, 4])):
        write_header(path, (sound % second % (json.dumps(shape), place)).encode(), body)
        fails(lambda: read_safetensors(path), path)
    for header, behind, words in ((whole.replace("b", "a"), body, ["a twice"]),
                                  (whole.replace("F32", "F99", 1), body, ["a", "dtype", "F99"]),
                                  (whole, body + bytes(4), ["12 bytes", "found 16"]),
                                  (whole, body[:-4], ["truncated", "found 8"])):
        write_header(path, header.encode(), behind)
        fails(lambda: read_safetensors(path), path, *words)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\nsize 1\n")
    fails(lambda: read_safetensors(path), path, "Git LFS")


class MakesAFolder:
    """When it is unpickled without weights_only."""

    def __reduce__(self):
        return os.mkdir, ("made",)


def test_broken_pickle(tmp_path, monkeypatch):
    """Also a tensor that says it is larger than its file."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pytorch_model.bin"
    many_zeros = torch.zeros(1).half().expand(1 << 20, 1 << 20)
    for content in ([1, 2], {"x": MakesAFolder()}, {5: torch.zeros(2)}, {"x": {}},
                    {"x": torch.zeros(3, device="meta")}, {"x": many_zeros},
                    {"x": torch.zeros(3).to_sparse()}):
        torch.save(content, path)
        fails(lambda: read_pickle(path), path, "tensor", "download")
    assert not (tmp_path / "made").exists()


# ---- TensorFlow

@functools.cache
def wanted_arrays():
    with np.load(FIXTURES / "tiny_bert_tf_arrays.npz") as arrays:
        return dict(arrays)


def slow_crc(data):
    """CRC-32C bit by bit, from its definition (polynomial 0x1EDC6F41, reflected)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_crc32c():
    assert crc32c(b"123456789") == 0xE3069283 and crc32c(b"") == 0
    assert crc32c(bytes(32)) == 0x8A9136AA and crc32c(b"\xff" * 32) == 0x62A8AB43  # RFC 3720, B.4
    row = 4 * checkpoints.LANES
    noise = random.Random(0).randbytes(3 * row + 17)
    for size in (1, 2, 3, row - 1, row, row + 1, 2 * row + 3, 3 * row + 17):
        wanted = slow_crc(noise[:size])
        assert crc32c(noise[:size]) == crc32c(np.frombuffer(noise, np.uint8)[:size]) == wanted


def test_crcs_of_tensors(tmp_path):
    prefix = copy_fixture("tiny_bert_tf", tmp_path / "m") / "bert_model.ckpt"
    assert same_arrays(read_tf_checkpoint(prefix), wanted_arrays())
    data = Path(f"{prefix}.data-00000-of-00001")
    data.write_bytes(b"\1" + data.read_bytes()[1:])
    fails(lambda: read_tf_checkpoint(prefix), data, "CRC32C", "download")
    assert len(read_tf_checkpoint(prefix, verify=False)) == 46


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, value):
    """One field of a protocol-buffers message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def masked(raw):
    crc = slow_crc(raw)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


def write_tf(prefix, tensors, compression=0, endian=0, shards=1, slices=False, change=None):
    """By LevelDB's and tensor_bundle's formats; tensors: name -> (dtype, shape, bytes).

    change: takes the entries, (name, message) pairs of bytes, and gives others.
    """
    entries, parts = [(b"", field(1, shards) + field(2, endian))], [b""] * shards
    for i, (name, (dtype, shape, raw)) in enumerate(sorted(tensors.items())):
        dims = b"".join(field(2, field(1, n)) for n in shape)
        entry = field(1, dtype) + field(2, dims) + field(3, i % shards)
        entry += field(4, len(parts[i % shards])) + field(5, len(raw)) + varint(6 << 3 | 5)
        entries.append((name.encode(), entry + masked(raw) + (field(7, b"") if slices else b"")))
        parts[i % shards] += raw
    entries, out = change(entries) if change else entries, b""

    def block(items):
        nonlocal out
        body = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in items)
        body += bytes(4) + (1).to_bytes(4, "little")
        handle = varint(len(out)) + varint(len(body))
        out += body + bytes([compression]) + masked(body + bytes([compression]))
        return handle

    middle = len(entries) // 2
    first, second, meta = block(entries[:middle]), block(entries[middle:]), block([])
    footer = meta + block([(b"m", first), (b"z", second)])
    out += footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")
    Path(f"{prefix}.index").write_bytes(out)
    for i, part in enumerate(parts):
        Path(f"{prefix}.data-{i:05d}-of-{shards:05d}").write_bytes(part)


def test_tf_dtypes_shards_and_refusals(tmp_path):
    prefix, values = tmp_path / "x.ckpt", np.array([[1.5, -2.0, 3.25]], np.float32)
    half = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    tensors = {"a/f32": (1, (1, 3), values.tobytes()), "c/bf16": (14, (1, 3), half),
               "b/f64": (2, (1, 3), values.astype("<f8").tobytes()), "f/empty": (1, (0, 3), b""),
               "d/f16": (19, (1, 3), values.astype("<f2").tobytes()), "e/text": (7, (1,), b"\x01x"),
               "global_step": (9, (), (20_000_000_000).to_bytes(8, "little")),
               "i32": (3, (2,), bytes(4) + b"\1\0\0\0")}
    write_tf(prefix, tensors, shards=3)
    assert same_arrays(read_tf_checkpoint(prefix), {
        "a/f32": values, "b/f64": values.astype("<f8"), "c/bf16": values, "d/f16": values,
        "global_step": np.array(20_000_000_000), "f/empty": np.zeros((0, 3), np.float32),
        "i32": np.array([0, 1], np.int32)})
    lost = Path(f"{prefix}.data-00001-of-00003")
    lost.unlink()
    fails(lambda: read_tf_checkpoint(prefix), lost, "No such file")
    for change, words in (({"compression": 1}, ["snappy"]), ({"endian": 1}, ["big-endian"]),
                          ({"slices": True}, ["slices", "a/f32"]),
                          ({"change": lambda entries: [*entries, entries[-1]]}, ["behind", "i32"]),
                          ({"change": lambda entries: entries[1:]}, ["KeyError"])):
        write_tf(prefix, tensors, **change)
        fails(lambda: read_tf_checkpoint(prefix), f"{prefix}.index", *words)
    write_tf(prefix, {"odd": (10, (1,), b"\1")})
    fails(lambda: read_tf_checkpoint(prefix), "odd", "dtype 10")
    write_tf(prefix, {"short": (1, (4,), bytes(8))})
    fails(lambda: read_tf_checkpoint(prefix), "short", "16 bytes", "found 8")


# ---- All of them, damaged

@many
@given(st.booleans(), damage)
def test_damaged_safetensors(tmp_path_factory, whole, changes):
    """What is changed in the header alone, whose length stays right, changes no value."""
    path, data = tmp_path_factory.getbasetemp() / "model.safetensors", SAFE.read_bytes()
    at = 8 + int.from_bytes(data[:8], "little")
    if whole:
        path.write_bytes(damaged(data, changes))
    else:
        write_header(path, damaged(data[8:at], changes), data[at:])
    found, wanted = read_or_refuse(lambda: read_safetensors(path), path), read_safetensors(SAFE)
    if found and found.keys() == wanted.keys():  # bert_min refuses others,
        fits = all(x.dtype.kind == "f" and x.shape == wanted[name].shape  # and these
                   for name, x in found.items())
        assert whole or not fits or same_arrays(found, wanted)


@many
@given(st.integers(0, 9), damage)
def test_damaged_pickle(tmp_path_factory, which, changes):
    """By a zip's CRC, or with that right. weights_only: a pickle's opcodes do no harm."""
    path = tmp_path_factory.getbasetemp() / "pytorch_model.bin"
    torch.save({"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4).half()}, path)
    whole, wanted = path.read_bytes(), read_pickle(path)
    path.write_bytes(damaged(whole, changes))
    found = read_or_refuse(lambda: read_pickle(path), path)
    assert found is None or same_arrays(found, wanted)
    path.write_bytes(damaged_zip(whole, which, changes))
    found = read_or_refuse(lambda: read_pickle(path), path)
    assert not found or all(isinstance(x, np.ndarray) for x in found.values())


@many
@given(st.booleans(), st.integers(0, 9), damage)
def test_damaged_tf_checkpoints(tmp_path_factory, in_data, which, changes):
    """By the CRCs, or with those of the index right."""
    prefix = tmp_path_factory.getbasetemp() / "x.ckpt"
    tensors = {f"a/{i}": (1, (2, i), random.Random(i).randbytes(8 * i)) for i in range(5)}
    data, index = Path(f"{prefix}.data-00000-of-00001"), Path(f"{prefix}.index")
    write_tf(prefix, tensors)
    wanted, path = read_tf_checkpoint(prefix), data if in_data else index
    path.write_bytes(damaged(path.read_bytes(), changes))
    found = read_or_refuse(lambda: read_tf_checkpoint(prefix), data, index)
    assert found is None or same_arrays(found, wanted)

    def change(entries):
        name, message = entries.pop(which % len(entries))
        return sorted([*entries, (name, damaged(message, changes))])

    write_tf(prefix, tensors, change=change)
    read_or_refuse(lambda: read_tf_checkpoint(prefix), prefix)
