"""support/checkpoints.py: the formats of published weights, whole and damaged."""
import json
import shutil
from pathlib import Path

import pytest
import torch

from bert_min import PairTokenizer, read_checkpoint
from small_runs import equal, fails
from support.checkpoints import read_pickle, read_safetensors

FIXTURES = Path(__file__).parent / "fixtures"


def copy_fixture(name, folder):
    return Path(shutil.copytree(FIXTURES / name, folder, dirs_exist_ok=True))


def test_every_dtype_is_read(tmp_path):
    tags = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
            torch.float64: "F64", torch.int64: "I64"}
    tensors = {tag: torch.tensor([[1.5, 0.0, 3.25]]).to(dtype) for dtype, tag in tags.items()}
    tensors |= {"empty": torch.zeros(0, 3), "one": torch.tensor(7.0)}
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, x in tensors.items():
        start, body = len(body), body + x.view(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": tags[x.dtype], "shape": [*x.shape],
                        "data_offsets": [start, len(body)]}
    header = json.dumps(header).encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + body)
    assert equal(read_safetensors(tmp_path / "x"), tensors)
    for zipped in (True, False):  # torch before 1.6 wrote no zip
        parameters = tensors | {"one": torch.nn.Parameter(tensors["one"])}
        torch.save(parameters, tmp_path / "y", _use_new_zipfile_serialization=zipped)
        assert equal(read_pickle(tmp_path / "y"), tensors)


@pytest.mark.parametrize("file, old, new, words", [
    ("config.json", "{", '{"is_decoder": true,', "is_decoder True"),
    ("tokenizer_config.json", "{", '{"tokenize_chinese_chars": false', "chinese"),
    ("tokenizer_config.json", "{", '{"do_lower_case": "false"', "do_lower_case 'false'"),
    ("vocab.txt", "[PAD]", "[pad]", "[PAD]"), ("vocab.txt", "\nz\n", "\n\xe9\n", "UTF-8"),
    ("vocab.txt", "\nz\n", "\nz\nz\n", "each once")])
def test_a_folder_that_would_compute_something_else(tmp_path, file, old, new, words):
    path = copy_fixture("tiny_bert_hf", tmp_path) / file
    text = path.read_text() if path.exists() else "{}"
    path.write_bytes(text.replace(old, new, 1).encode("latin-1"))
    fails(lambda: PairTokenizer.from_folder(tmp_path, read_checkpoint(tmp_path)[0]), tmp_path,
          *words.split())


def test_what_a_folder_has_for_a_task_of_its_own(tmp_path):
    """A classifier is left out."""
    _, weights = read_checkpoint(FIXTURES / "tiny_bert_hf")
    copy_fixture("tiny_bert_hf", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights | {"classifier.weight": torch.ones(2, 32)}, tmp_path / "pytorch_model.bin")
    assert equal(read_checkpoint(tmp_path)[1], weights)


@pytest.mark.parametrize("source", sorted(FIXTURES.glob("tiny_*/*")), ids=lambda path: path.name)
def test_a_file_that_is_cut_off_is_named(tmp_path, source):
    folder, whole = copy_fixture(source.parent.name, tmp_path), source.read_bytes()

    def read():
        config, _ = read_checkpoint(folder)
        PairTokenizer.from_folder(folder, config)

    read()
    for part in range(20):
        (folder / source.name).write_bytes(whole[:part * len(whole) // 20])
        fails(read, folder)
