"""support/files.py: files whole or not at all, downloads."""
import hashlib
import io
import random
import urllib.error
import urllib.response
from pathlib import Path

import pytest

from bert_min import read_checkpoint
from small_runs import fails, write_file
from support import checkpoints
from support.checkpoints import BERTS, find_bert
from support.files import check_free, download, new_folder, whole, write_whole
from test_checkpoints import FIXTURES


def test_a_file_is_whole_or_as_it_was(tmp_path):
    """Also on a full disk, where torch.save raises an error of its own."""
    def save(file):
        file.write(b"half of it")
        try:
            raise OSError(28, "No space left on device")
        finally:
            raise RuntimeError("unexpected pos 64 vs 0\nframe #0")

    path = write_file(tmp_path, "file", "whole")
    with pytest.raises(OSError, match=f"{path}: No space left"):
        write_whole(str(path), save)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"whole"]


def test_what_must_be_new_takes_no_name_of_another(tmp_path, monkeypatch):
    """A dangling link is a name, too."""
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path, "sub/held", "theirs")
    Path("link").symlink_to("nowhere")
    for name, words in (("sub/held", "exists"), ("link", "exists"), ("none/x", "folder")):
        fails(lambda: check_free(name), name, words)
    with pytest.raises(FileExistsError), whole("new", new=True) as file:
        file.write(b"ours")
        write_file(tmp_path, "new", "came meanwhile")
    assert Path("new").read_text() == "came meanwhile" and not [*Path().glob("*.tmp")]
    for name in ("best.pt", "last.pt", "config.json", "model.safetensors", "tokenizer.json"):
        write_file(tmp_path / "sub", name, "")  # a start that was cut off
        assert new_folder("sub", "x") == Path("sub")
        write_file(tmp_path / "sub", name, "theirs")
        fails(lambda: new_folder("sub", "x"), f"sub/{name}", "exists")
        Path("sub", name).unlink()


URL = "http://served.example/"


@pytest.fixture
def served(monkeypatch):
    """dict of name -> (body, headers) of what URL serves."""
    served = {}

    def urlopen(url, timeout):
        if (name := url.removeprefix(URL)) not in served:
            raise urllib.error.HTTPError(url, 404, "Not Found", {}, io.BytesIO())
        return urllib.response.addinfourl(io.BytesIO(served[name][0]), served[name][1], url)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr(checkpoints, "HUGGING_FACE", URL)
    return served


def test_download(served, tmp_path):
    """A download that fails leaves no file. A server need not say how long a file is."""
    body, path = random.Random(1).randbytes(2_500_000), tmp_path / "very" / "deep" / "file.bin"
    served["open"] = body, {}
    fails(lambda: download(URL + "open", path, "0", "do it"), f"{URL}open", "do it", "sha256")
    assert not [*path.parent.iterdir()]
    download(URL + "open", path, hashlib.sha256(body).hexdigest())
    assert path.read_bytes() == body and [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("name, kind", [("a-b/C_1.x@v2", "bert"), ("base", "bert"),
                                        ("a/r", "roberta")])
def test_find_bert_takes_a_name_at_hugging_face(served, tmp_path, name, kind):
    """pytorch_model.bin is for models without safetensors, not for safetensors that are cut off."""
    model, _, revision = BERTS.get(name, name).partition("@")
    place = f"{model}/resolve/{revision or 'main'}/"
    served |= {place + path.name: (path.read_bytes(), {})
               for path in (FIXTURES / f"tiny_{kind}_hf").iterdir()}
    body, _ = served.pop(place + "model.safetensors")
    fails(lambda: find_bert(name, tmp_path), "pytorch_model.bin", "404", "--bert FOLDER")
    served |= {place + "model.safetensors": (body, {"Content-Length": 10 ** 6}),
               place + "pytorch_model.bin": (b"pickle", {})}
    fails(lambda: find_bert(name, tmp_path), "safetensors", "1000000")
    assert not (tmp_path / "bert" / name).exists()
    del served[place + "model.safetensors"]
    for _ in range(2):  # the second time nothing is downloaded
        folder = find_bert(name, tmp_path)
        assert folder == tmp_path / "bert" / name
        served.clear()
    assert (folder / "pytorch_model.bin").read_bytes() == b"pickle"
    fails(lambda: read_checkpoint(find_bert("bort", tmp_path)), "bort: ")  # not asked for


def test_a_model_of_today_has_no_vocabulary(served, tmp_path):
    """Where there is a tokenizer.json, no other file of pieces is asked for."""
    for name in ("tiny_bert_hf/config.json", "tiny_bert_hf/model.safetensors",
                 "today_bert/tokenizer.json"):
        served[f"a/b/resolve/main/{Path(name).name}"] = (FIXTURES / name).read_bytes(), {}
    assert not (find_bert("a/b", tmp_path) / "vocab.txt").exists()
