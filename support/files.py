"""Reads text and JSON, writes files whole or not at all, downloads files."""
import contextlib
import hashlib
import json
import os
import sys
import urllib.request
from pathlib import Path

from tqdm import tqdm

from support.errors import expecting, one_line, refuse

OURS = {  # names of all files that make a run, or an encoder, which we or others wrote
    "best.pt", "last.pt", "config.json", "result.json", "test.json", "log.jsonl", "curves.svg",
    "reading.json", "model.safetensors", "pytorch_model.bin", "bert_config.json", "tokenizer.json",
    "tokenizer_config.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt"}


def read_lines(path):
    """The lines of a UTF-8 file, or of stdin, "-", with their ends. U+2028 ends no line."""
    stdin = str(path) == "-"
    with (open(sys.stdin.fileno() if stdin else path, encoding="utf-8-sig", newline="\n",
               closefd=not stdin) as file,
          expecting(path, "plain text", "unpack it, or save it as UTF-8")):
        yield from file


def read_json(path):
    """The dict of a file that holds a JSON object. Raises ValueError naming the file."""
    with expecting(path, "a JSON object", "correct or restore it"):
        content = json.loads(Path(path).read_text("utf-8"))
        refuse(not isinstance(content, dict), f"a {type(content).__name__}")
        return content


def check_free(path, option="--out"):
    """Raises ValueError unless a new file can be written at an option's path: no command writes
    over a file that it did not make, and no mistake is found after hours of work.
    """
    path = Path(path)
    refuse(os.path.lexists(path), f"{option} {path}: exists already; name another file, or move "
           "this one away")
    refuse(not os.access(path.parent, os.W_OK), f"{option} {path}: its folder is missing, or not "
           "to be written; name a file elsewhere")


def new_folder(out, name):
    """The folder of a new run or encoder: `out`, which must hold no file of another, or None: the
    first free runs/name, runs/name-2, ... Empty files count as none: a start that was cut off.
    """
    if out is None:
        return free_path(Path("runs", name))
    folder = Path(out)
    if os.path.lexists(folder):
        for path in folder.iterdir():
            held = path.name in OURS and (not path.is_file() or path.stat().st_size)
            refuse(held, f"--out {path}: exists already; name a new folder; --resume goes on with "
                   "a run")
        refuse(not os.access(folder, os.W_OK), f"--out {out}: not to be written; name another")
    return folder


def free_path(path):
    """The first of path, path-2, path-3, ... that does not exist; the file's ending stays."""
    free, number = path, 1
    while os.path.lexists(free):
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


@contextlib.contextmanager
def whole(path, new=False):
    """Context manager: a temporary file, renamed to `path` at the end, or removed on an error.

    new: `path` must be a new file. Another process may have made one meanwhile: FileExistsError.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")  # two processes may write one file
    try:
        with open(part, "wb") as file:
            yield file
        if new:
            open(path, "x").close()  # fails where a file is
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path, save, new=False):
    """Calls save(open temporary file) and renames: the file is whole, or as it was before. new: see
    `whole`.
    """
    with writing(path), whole(path, new) as file:
        save(file)


@contextlib.contextmanager
def writing(path):
    """Context manager: an error inside says that this file cannot be written."""
    try:
        yield
    except FileExistsError as error:
        raise FileExistsError(f"{path}: another process has written it; name another") from error
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError on a full disk
        raise OSError(f"cannot write {path}: {one_line(error)}; what was written before is whole; "
                      "make room, or name a folder that can be written, and go on") from error


def write_text(path, text, new=False):
    """Writes a text in UTF-8, as write_whole does."""
    write_whole(path, lambda file: file.write(text.encode("utf-8")), new)


def write_json(path, content, new=False):
    """Writes JSON, as write_whole does."""
    write_text(path, json.dumps(content, indent=1) + "\n", new)


def download(url, path, sha256="", remedy=""):
    """Downloads url to path, whole or not at all. Raises ValueError with the reason and the remedy.

    sha256: how the checksum must begin. remedy: what the user can do by hand.
    """
    path, digest = Path(path), hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            total = int(answer.headers.get("Content-Length", 0))
            path.parent.mkdir(parents=True, exist_ok=True)  # only if there is an answer
            with (whole(path) as file, tqdm(desc=path.name, total=total or None, unit="B",
                                             unit_scale=True, disable=None) as bar):
                while chunk := answer.read(1 << 20):
                    digest.update(chunk)
                    bar.update(file.write(chunk))
                size, checksum = file.tell(), digest.hexdigest()
                refuse(total not in (0, size), f"expected bytes {total}, got {size}")
                refuse(not checksum.startswith(sha256), f"expected sha256 {sha256}, got {checksum}")
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot download {url}: {one_line(error)}; {remedy}") from error
