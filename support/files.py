"""Writes files whole or not at all, downloads files, finds the folder of a published BERT."""
import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
import urllib.request
from pathlib import Path

from tqdm import tqdm

from support.checkpoints import WEIGHTS, one_line, read_config
from support.options import prefix_errors, refuse

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


# ---- Writing ------------------------------------------------------------------------------------

@contextlib.contextmanager
def _whole(path):
    """Context manager: a temporary file, renamed to `path` at the end, or removed on an error."""
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")  # two processes may write one file
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path, save):
    """Calls save(open temporary file) and renames: the file at path is whole, or as it was before.

    A process that is killed leaves path as it was, and `<name>.<process id>.tmp` beside it.
    Raises OSError that names the file.
    """
    try:
        with _whole(Path(path)) as file:
            save(file)
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError on a full disk
        raise OSError(f"cannot write {path}: {one_line(error)}; what was written before is whole; "
                      "make room, or name a folder that can be written, and go on") from error


def write_text(path, text):
    """Writes a text in UTF-8, whole or not at all. Raises OSError that names the file."""
    write_whole(path, lambda file: file.write(text.encode("utf-8")))


def write_json(path, content):
    """Writes JSON, whole or not at all. Raises OSError that names the file."""
    write_text(path, json.dumps(content, indent=1) + "\n")


# ---- Downloads ----------------------------------------------------------------------------------

def download(url, path, sha256="", remedy=""):
    """Downloads url to path, whole or not at all. Raises ValueError with the reason and the remedy.

    sha256: how the checksum must begin. remedy: what the user can do by hand.
    """
    path, digest = Path(path), hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            total = int(answer.headers.get("Content-Length", 0))
            path.parent.mkdir(parents=True, exist_ok=True)  # only if there is an answer
            with (_whole(path) as file, tqdm(desc=path.name, total=total or None, unit="B",
                                             unit_scale=True, disable=None) as bar):
                while chunk := answer.read(1 << 20):
                    digest.update(chunk)
                    bar.update(file.write(chunk))
                size, checksum = file.tell(), digest.hexdigest()
                refuse(total not in (0, size), f"expected bytes {total}, got {size}")
                refuse(not checksum.startswith(sha256), f"expected sha256 {sha256}, got {checksum}")
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot download {url}: {one_line(error)}; {remedy}") from error


# ---- Published encoders -------------------------------------------------------------------------

def find_bert(name, data_dir):
    """The folder of a pre-trained encoder. Raises ValueError if a download fails.

    name: a path; or a name of BERTS; or the name of a BERT or RoBERTa at Hugging Face, such as
    google-bert/bert-base-cased, perhaps with @ and a revision, by default the newest. A model comes
    from the cache of Hugging Face's library, or is downloaded once to data_dir/bert/name.
    """
    if name not in BERTS and (Path(name).exists() or not PUBLISHED.fullmatch(name)):
        return Path(name)
    folder, source = Path(data_dir) / "bert" / name, BERTS.get(name, name)
    return folder if folder.exists() else _cached(source) or _download(source, folder)


def _cached(name):
    """The folder of a model in the cache of Hugging Face's library, or None."""
    model, _, revision = name.partition("@")
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    place = Path(home, "hub", "models--" + model.replace("/", "--"))
    ref = place / "refs" / (revision or "main")  # a file that holds the name of a commit
    commit = ref.read_text().strip() if ref.is_file() else revision or "*"
    weights = [path for file in WEIGHTS for path in place.glob(f"snapshots/{commit}/{file}")]
    return min(weights).parent if weights else None  # the cache may hold a vocabulary alone


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

    print(f"{source}: no folder here; fetching {HUGGING_FACE}{source}", file=sys.stderr)
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
