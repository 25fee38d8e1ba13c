"""support/files.py: files whole or not at all, downloads from a server on loopback, zips."""
import contextlib
import hashlib
import http.server
import os
import random
import shutil
import threading
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import damage, damaged, many, read_or_refuse
from small_runs import fails, write_file, zipped
from support import files
from support.checkpoints import read_config
from support.files import download, extract, find_bert, read_json, write_json, write_whole
from test_checkpoints import FIXTURES


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


# ---- Writing

@pytest.mark.parametrize("error, raised", [
    (OSError(28, "No space left on device"), OSError), (KeyboardInterrupt(), KeyboardInterrupt),
    (RuntimeError("unexpected pos 64 vs 0\nframe #0"), OSError)])  # torch.save's, on a full disk
def test_a_file_is_whole_or_as_it_was(tmp_path, error, raised):
    def save(file):
        file.write(b"half of it")
        raise error

    path = tmp_path / "file"
    for before in ([], ["file"]):
        with pytest.raises(raised) as caught:
            write_whole(str(path), save)
        assert "\n" not in str(caught.value) and listing(tmp_path) == before
        assert raised is KeyboardInterrupt or f"cannot write {path}: " in str(caught.value)
        write_whole(path, lambda file: file.write(b"whole"))
        assert path.read_text() == "whole"


def test_json(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"é\ud83d": [1, None, 0.5]})  # half a surrogate pair
    assert read_json(str(path)) == {"é\ud83d": [1, None, 0.5]}
    for content in (b"{", b"[" * 10 ** 6, b'{"a": 1, "a": 1}'):
        path.write_bytes(content)
        fails(lambda: read_json(path), path, "JSON")
    os.truncate(path, 10 ** 12)  # a sparse file
    fails(lambda: read_json(path), path, "1,000,000,000,000 bytes")


# ---- Downloads

@pytest.fixture
def server(monkeypatch):
    """Base URL, and the dict of name -> (body, headers) that it serves."""
    served = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path[1:] not in served:
                return self.send_error(404)
            body, headers = served[self.path[1:]]
            self.send_response(302 if "Location" in headers else 200)
            for header in headers.items():
                self.send_header(*header)
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # a download may hang up
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}).start()
    yield f"http://127.0.0.1:{httpd.server_port}/", served
    httpd.shutdown()
    httpd.server_close()


def test_download(server, tmp_path, monkeypatch):
    url, served = server
    body, path = random.Random(1).randbytes(2_500_000), tmp_path / "deep" / "file.bin"
    served |= {"whole": (body, {"Content-Length": len(body)}), "open": (body, {}),
               "cut": (body[:1000], {"Content-Length": 2000}),
               "file": (b"", {"Location": f"file://{__file__}"})}
    for name in ("whole", "open"):
        download(url + name, path, len(body), hashlib.sha256(body).hexdigest(), progress=False)
        assert path.read_bytes() == body and listing(path.parent) == ["file.bin"]
    path.write_text("old")
    for name, size, digest, word in (
            ("cut", None, None, "1000"), ("none", None, None, "404"), ("whole", 17, None, "17"),
            ("whole", None, "0" * 64, "sha256"), ("open", 99, None, "99"),
            ("file", None, None, "Redirection")):
        fails(lambda: download(url + name, path, size, digest, progress=False),
              f"{url}{name}", path, word)
    monkeypatch.setattr(files, "LARGEST", 1 << 20)
    fails(lambda: download(url + "open", path, progress=False), "048")
    assert path.read_text() == "old" and listing(path.parent) == ["file.bin"]


# ---- Zips

MEMBERS = {"x/a.txt": "hello" * 99, "x/y/b.txt": "there", "__MACOSX/._a.txt": "", "x/z/": ""}
NAMES = ["b.txt", "a.txt"]


def test_extract(tmp_path):
    """Wherever a member says that it lies, it lies in the folder; nothing there is taken away."""
    archive, folder = tmp_path / "in" / "a.zip", tmp_path / "out"
    fails(lambda: extract(archive, folder, NAMES), archive, "No such file")
    write_file(tmp_path, "in/a.zip", zipped(MEMBERS | {"../../evil": "x", "/odd": ""}))
    (folder / "old").touch()
    extract(archive, folder, NAMES)
    assert listing(folder) == ["a.txt", "b.txt", "old"]
    extract(archive, folder)
    assert listing(folder) == ["a.txt", "b.txt", "evil", "odd", "old"]
    assert (folder / "a.txt").read_text() == "hello" * 99 and listing(tmp_path) == ["in", "out"]


STORED = zipped(MEMBERS, zipfile.ZIP_STORED)


def test_a_disk_too_full_for_a_zip(tmp_path, monkeypatch):
    """The zip is not called unsound."""
    archive = write_file(tmp_path, "a.zip", STORED)

    def fill(*files):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", fill)
    fails(lambda: extract(archive, tmp_path / "new"), archive, "No space", "make room")
    assert listing(tmp_path / "new") == []


@pytest.mark.parametrize("content, names, word", [
    (STORED.replace(b"hello", b"jello"), NAMES, "CRC"),
    (zipped({"x/b.txt": "there"}), NAMES, "no member named a.txt"),
    (zipped(MEMBERS | {"z/a.txt": ""}), NAMES, "a.txt twice"),
    (zipped(MEMBERS | {"x/y/a": "b" * 10 ** 6}), None, "1,000,500 bytes unpacked")])
def test_bad_zips(tmp_path, content, names, word):
    archive, new = write_file(tmp_path, "a.zip", content), tmp_path / "new"
    fails(lambda: extract(archive, new, names), archive, word)
    assert listing(tmp_path) == ["a.zip", "new"] and listing(new) == []


@many
@given(damage, st.sampled_from([None, NAMES]))
def test_damaged_zips_give_whole_files_or_none(tmp_path_factory, changes, names):
    folder = tmp_path_factory.mktemp("zip")
    archive, new = folder / "a.zip", folder / "new"
    archive.write_bytes(damaged(zipped(MEMBERS), changes))
    refused = read_or_refuse(lambda: [extract(archive, new, names)], archive) is None
    assert not refused or listing(new) == []
    for path in new.glob("[ab].txt"):
        assert path.read_text() in MEMBERS.values()


# ---- Published encoders

def test_find_bert_unzips_a_whole_model_once(server, tmp_path, monkeypatch, capsys):
    """One of Google's zips, which may hold a folder. Nobody published its sha256: it is printed."""
    url, served = server
    google = FIXTURES / "tiny_bert_tf"
    monkeypatch.setitem(files.BERTS, "mini", f"{url}mini.zip")
    served["mini.zip"] = zipped({"uncased_L-2/" + path.name: path.read_bytes()
                                 for path in google.iterdir()}), {}
    digest = hashlib.sha256(served["mini.zip"][0]).hexdigest()
    for _ in range(2):
        folder = find_bert("mini", tmp_path)
        assert folder == tmp_path / "bert" / "mini" and listing(folder) == listing(google)
        served.clear()
    assert capsys.readouterr().err.count(digest) == 1
    monkeypatch.setitem(files.BERTS, "tiny", f"{url}tiny.zip")
    served["tiny.zip"] = zipped({"vocab.txt": "", "bert_config.json": "{}"}), {}
    fails(lambda: find_bert("tiny", tmp_path, False), "tiny.zip: ")
    assert listing(tmp_path / "bert") == ["mini"], "of half a model no folder is left"


def test_find_bert_takes_a_name_at_hugging_face(server, tmp_path, monkeypatch):
    """pytorch_model.bin only where there are no safetensors, not where they come cut off. What
    tokenizer_config.json says of capitals counts. A folder comes first.
    """
    url, served = server
    monkeypatch.setattr(files, "HUGGING_FACE", url)
    main = "a-b/C_1.x/resolve/main/"
    served |= {main + path.name: (path.read_bytes(), {})
               for path in (FIXTURES / "tiny_bert_hf").iterdir()}
    body, _ = served.pop(main + "model.safetensors")
    fails(lambda: find_bert("a-b/C_1.x", tmp_path, False), "pytorch_model.bin", "404")
    served |= {main + "model.safetensors": (body, {"Content-Length": 10 ** 6}),
               main + "pytorch_model.bin": (b"pickle", {}),
               main + "tokenizer_config.json": (b'{"do_lower_case": false}', {})}
    fails(lambda: find_bert("a-b/C_1.x", tmp_path, False), "safetensors", "1000000")
    del served[main + "model.safetensors"]
    served |= {name.replace("main", "v2"): body for name, body in served.items()}
    assert find_bert("a-b/C_1.x@v2", tmp_path, False) == tmp_path / "bert/a-b/C_1.x@v2"
    for _ in range(2):
        folder = find_bert("a-b/C_1.x", tmp_path, False)
        assert folder == tmp_path / "bert/a-b/C_1.x" and (folder / "vocab.txt").exists()
        served.clear()
    assert (folder / "pytorch_model.bin").read_bytes() == b"pickle"
    assert not read_config(folder / "config.json")["lower_case"]
    fails(lambda: find_bert("../b", tmp_path, False), "../b: ")
    shutil.copytree(FIXTURES / "tiny_roberta_hf", tmp_path / "a-b" / "C_1.x")
    monkeypatch.chdir(tmp_path)
    assert listing(find_bert("a-b/C_1.x", tmp_path)) == listing(FIXTURES / "tiny_roberta_hf")


