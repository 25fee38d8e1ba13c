"""support/checkpoints.py: the formats of published weights, whole, damaged and written by hand."""
import json
import os
import random
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz import damage, damaged, damaged_zip, many, read_or_refuse
from small_runs import fails
from support import checkpoints
from support.checkpoints import crc32c, read_pickle, read_safetensors, read_tf_checkpoint

FIXTURES = Path(__file__).parent / "fixtures"
SAFE = FIXTURES / "tiny_bert_hf/model.safetensors"


def copy_fixture(name, folder):
    return Path(shutil.copytree(FIXTURES / name, folder, dirs_exist_ok=True))


def same_arrays(found, wanted):
    """The same names, dtypes, shapes and bits."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes(), name
    return True


# ---- safetensors and pickle

def write_header(path, header, body):
    path.write_bytes(len(header).to_bytes(8, "little") + header + body)


def test_every_dtype_is_read(tmp_path):
    """From safetensors and from a pickle; half precision becomes float32."""
    tags = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL",
            torch.float64: "F64", torch.int64: "I64"}
    values = {tag: torch.tensor([[1.5, 0.0, 3.25]]).to(dtype) for dtype, tag in tags.items()}
    values |= {"empty": torch.zeros(0, 3), "one": torch.tensor(7.0)}
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, x in values.items():
        start, body = len(body), body + x.view(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": tags[x.dtype], "shape": list(x.shape),
                        "data_offsets": [start, len(body)]}
    write_header(tmp_path / "x", json.dumps(header).encode(), body)
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
    for shape, place in (([1], [8, 12]), ([3], [0, 12]), ([2], [-8, 12]), ([1], [4, 12]),
                         ([2.0], [4, 12])):
        write_header(path, (sound % second % (shape, place)).encode(), body)
        fails(lambda: read_safetensors(path), path)
    for header, behind in ((whole.replace("b", "a"), body), (whole, body + bytes(4)),
                           (whole, body[:-4])):
        write_header(path, header.encode(), behind)
        fails(lambda: read_safetensors(path), path)


class MakesAFolder:
    """When it is unpickled without weights_only."""

    def __reduce__(self):
        return os.mkdir, ("made",)


def test_broken_pickle(tmp_path, monkeypatch):
    """Also a tensor that says it is larger than its file."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pytorch_model.bin"
    for content in ({"x": MakesAFolder()}, {"x": torch.zeros(3).to_sparse()},
                    {"x": torch.zeros(1).half().expand(1 << 20, 1 << 20)}):
        torch.save(content, path)
        fails(lambda: read_pickle(path), path)
    assert not (tmp_path / "made").exists()


# ---- TensorFlow

def slow_crc(data):
    """CRC-32C bit by bit, from its definition (polynomial 0x1EDC6F41, reflected)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_crc32c():
    row = 4 * checkpoints.LANES
    noise = random.Random(0).randbytes(2 * row + 17)
    for size in (0, 3, row - 1, row, row + 1, 2 * row + 17):
        assert crc32c(noise[:size]) == slow_crc(noise[:size])


def any_crc(monkeypatch):
    """Every CRC is right: what is behind the CRCs is looked at, too."""
    monkeypatch.setattr(checkpoints, "_masked_crc", lambda data: mock.ANY)


def test_tf_checkpoints(tmp_path, monkeypatch):
    """A fixture that TensorFlow wrote, and what it would have written otherwise."""
    index = copy_fixture("tiny_bert_tf", tmp_path) / "bert_model.ckpt.index"
    data = tmp_path / "bert_model.ckpt.data-00000-of-00001"
    with np.load(FIXTURES / "tiny_bert_tf_arrays.npz") as arrays:
        assert same_arrays(read_tf_checkpoint(index), dict(arrays))
    data.write_bytes(b"\1" + data.read_bytes()[1:])
    fails(lambda: read_tf_checkpoint(index), data, "CRC32C")
    any_crc(monkeypatch)
    data.write_bytes(data.read_bytes()[:-1])
    fails(lambda: read_tf_checkpoint(index), data, "bytes, not")
    whole, header = index.read_bytes(), bytes.fromhex("0000 06 0801 1a02 0801")  # key "", 6 bytes
    for new, words in (("0000 06 0802 1a02 0801", [data.name.replace("1", "2")]),
                       ("0000 06 0801 1001 1001", [index, "big-endian"])):
        index.write_bytes(whole.replace(header, bytes.fromhex(new)))
        fails(lambda: read_tf_checkpoint(index), *words)


# ---- All of them, damaged

@many
@example(False, [("lose", 723269, 3)])
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
@given(st.sampled_from(["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"]), damage)
def test_damaged_tf_checkpoints(tmp_path_factory, name, changes):
    folder = copy_fixture("tiny_bert_tf", tmp_path_factory.getbasetemp() / "damaged")
    index = folder / "bert_model.ckpt.index"
    wanted = read_tf_checkpoint(index)
    (folder / name).write_bytes(damaged((folder / name).read_bytes(), changes))
    found = read_or_refuse(lambda: read_tf_checkpoint(index), folder)
    assert found is None or same_arrays(found, wanted)
    with pytest.MonkeyPatch.context() as monkeypatch:
        any_crc(monkeypatch)
        read_or_refuse(lambda: read_tf_checkpoint(index), folder)
