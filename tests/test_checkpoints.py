"""support/checkpoints.py: the formats of published weights, whole and damaged."""
import json
import os
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz import damage, damaged, many, read_or_refuse
from small_runs import fails
from support import checkpoints
from support.checkpoints import read_pickle, read_safetensors, read_tf_checkpoint

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


def write_safetensors(path, header, body):
    header = json.dumps(header).encode()
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
    write_safetensors(tmp_path / "x", header, body)
    wanted = {name: (x.float() if name in ("F16", "BF16") else x).numpy()
              for name, x in values.items()}
    assert same_arrays(read_safetensors(tmp_path / "x"), wanted)
    values["one"] = torch.nn.Parameter(values["one"])
    for zipped in (True, False):  # torch before 1.6
        torch.save(values, tmp_path / "y", _use_new_zipfile_serialization=zipped)
        assert same_arrays(read_pickle(tmp_path / "y"), wanted)


@pytest.mark.parametrize("shape, place, behind", [
    ([2], [4, 12], b"more"), ([1], [8, 12], b""), ([3], [0, 12], b""), ([2], [-8, 12], b""),
    ([1], [4, 12], b""), ([2], [4, 16], b"")])
def test_every_byte_of_safetensors_belongs_to_one_tensor(tmp_path, shape, place, behind):
    """No holes, no overlaps, nothing behind, no place outside of the file."""
    path, second = tmp_path / "x", {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}
    header = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": second}
    write_safetensors(path, header, bytes(12))
    assert len(read_safetensors(path)) == 2
    second |= {"shape": shape, "data_offsets": place}
    write_safetensors(path, header, bytes(12) + behind)
    fails(lambda: read_safetensors(path), path)


class MakesAFolder:
    """When it is unpickled without weights_only."""

    def __reduce__(self):
        return os.mkdir, ("made",)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_runs_no_code(tmp_path, monkeypatch, zipped):
    monkeypatch.chdir(tmp_path)
    for content in ({"x": MakesAFolder()}, {"x": torch.zeros(3).to_sparse()}, [1]):
        torch.save(content, tmp_path / "x.bin", _use_new_zipfile_serialization=zipped)
        fails(lambda: read_pickle(tmp_path / "x.bin"), "x.bin")
    assert not (tmp_path / "made").exists()


def test_tf_checkpoints(tmp_path, monkeypatch):
    """A fixture that TensorFlow wrote, and what it would have written otherwise."""
    index = copy_fixture("tiny_bert_tf", tmp_path) / "bert_model.ckpt.index"
    with np.load(FIXTURES / "tiny_bert_tf_arrays.npz") as arrays:
        assert same_arrays(read_tf_checkpoint(index), dict(arrays))
    monkeypatch.setattr(checkpoints, "_masked_crc", lambda data: mock.ANY)
    whole, header = index.read_bytes(), bytes.fromhex("0000 06 0801 1a02 0801")  # key "", 6 bytes
    index.write_bytes(whole.replace(header, bytes.fromhex("0000 06 0801 1001 1001")))
    fails(lambda: read_tf_checkpoint(index), index, "big-endian")
    index.write_bytes(whole.replace(header, bytes.fromhex("0000 06 0802 1a02 0801")))
    with pytest.raises(OSError, match="data-00000-of-00002"):
        read_tf_checkpoint(index)
    index.write_bytes(whole)
    data = index.with_name("bert_model.ckpt.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-1])
    fails(lambda: read_tf_checkpoint(index), data)


# ---- All of them, damaged

INDEX = "tiny_bert_tf/bert_model.ckpt.index"


def read_changed(folder, name, change):
    """What is read of sound weights -> what is read after a change of the bytes of one file."""
    copy_fixture("tiny_bert_tf", folder / "tiny_bert_tf")
    torch.save({"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4).half()},
               folder / "pytorch_model.bin")
    read, asked = read_pickle, folder / name
    if name != "pytorch_model.bin":
        read, asked = read_tf_checkpoint, folder / INDEX
    wanted, whole = read(asked), (folder / name).read_bytes()
    (folder / name).write_bytes(change(whole))
    return wanted, read_or_refuse(lambda: read(asked), folder)


@pytest.mark.parametrize("name, old, new", [
    ("pytorch_model.bin", np.float32(4).tobytes(), np.float32(3).tobytes()),
    (INDEX, b"beta", b"bete")])
def test_sums_find_a_changed_value_or_name(tmp_path, name, old, new):
    def change(whole):
        assert old in whole
        return whole.replace(old, new, 1)

    assert read_changed(tmp_path, name, change)[1] is None


@many
@given(st.sampled_from(["pytorch_model.bin", INDEX]), damage)
@example("pytorch_model.bin", [("flip", 3542, 16)])  # a tensor marked as a folder
def test_damaged_weights(tmp_path_factory, name, changes):
    """One line that names the file, or what was in it."""
    folder = tmp_path_factory.getbasetemp() / "damaged"
    wanted, found = read_changed(folder, name, lambda whole: damaged(whole, changes))
    assert found is None or same_arrays(found, wanted)


@many
@given(damage)
def test_damaged_safetensors(tmp_path_factory, changes):
    """They have no sums. What is changed in the header puts no value under another's name."""
    path, data = tmp_path_factory.getbasetemp() / "model.safetensors", SAFE.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header, wanted = damaged(data[8:end], changes), read_safetensors(SAFE)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[end:])
    found = read_or_refuse(lambda: read_safetensors(path), path)
    if found and found.keys() == wanted.keys():  # bert_min refuses others,
        fits = all(x.dtype.kind == "f" and x.shape == wanted[name].shape  # and these
                   for name, x in found.items())
        assert not fits or same_arrays(found, wanted)
