"""Files: written whole or not at all, downloaded; the folder of a published BERT."""

import contextlib
import hashlib
import http.client
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
BERTS = {  # our name -> the one at Hugging Face; all but the last are Google's uncased models
    "tiny": "google/bert_uncased_L-2_H-128_A-2",
    "mini": "google/bert_uncased_L-4_H-256_A-4",
    "small": "google/bert_uncased_L-4_H-512_A-8",
    "medium": "google/bert_uncased_L-8_H-512_A-8",
    "base": "google-bert/bert-base-uncased",
    "large": "google-bert/bert-large-uncased",
    "roberta-base": "FacebookAI/roberta-base"}
PUBLISHED = re.compile(  # no way out of a folder; bert-base-uncased and such need no owner
    r"(\w[\w.-]*/|(?=(ro)?bert(a)?-))\w[\w.-]*(@\w[\w.-]*)?", re.ASCII)
OPTIONAL = ("tokenizer_config.json", "model.safetensors")  # not every published model has these


# ---- Writing ------------------------------------------------------------------------------------

@contextlib.contextmanager
def _whole(path):
    """A temporary file beside `path`, renamed to it at the end; removed where something fails."""
    part = path.with_name(f"{path.name}.{os.getpid()}.tmp")  # two processes may write one file
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def write_whole(path, save):
    """Call save(open temporary file) and rename: the file at path is whole, or as it was before.

    A process that is killed leaves path as it was, and `<name>.<process id>.tmp` beside it.
    Raises: OSError naming the file.
    """
    try:
        with _whole(Path(path)) as file:
            save(file)
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError on a full disk
        raise OSError(f"cannot write {path}: {one_line(error)}; what was written before is whole; "
                      "make room, or name a folder that can be written, and go on") from error


def write_text(path, text):
    """Write a text in UTF-8, whole or not at all. Raises OSError naming the file."""
    write_whole(path, lambda file: file.write(text.encode("utf-8")))


def write_json(path, content):
    """Write JSON, whole or not at all. Raises OSError naming the file."""
    write_text(path, json.dumps(content, indent=1) + "\n")  # half a surrogate pair stays one


# ---- Downloads ----------------------------------------------------------------------------------

def download(url, path, sha256="", progress=True, remedy=""):
    """Download url to path, whole or not at all. Raises ValueError with the reason and the remedy.

    sha256: how it must begin. progress: show a bar. remedy: what to do by hand.
    """
    path, digest = Path(path), hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            total = int(answer.headers.get("Content-Length", 0))
            path.parent.mkdir(parents=True, exist_ok=True)  # not before there is an answer
            with _whole(path) as file, tqdm(total=total or None, unit="B", unit_scale=True,
                                            desc=path.name,
                                            disable=None if progress else True) as bar:
                while chunk := answer.read(1 << 20):
                    file.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
                got, found = file.tell(), digest.hexdigest()
                refuse(total not in (0, got), f"expected bytes {total}, got {got}")
                refuse(not found.startswith(sha256), f"expected sha256 {sha256}, got {found}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ValueError(f"cannot download {url}: {one_line(error)}; {remedy}") from error


# ---- Published encoders -------------------------------------------------------------------------

def find_bert(name, data_dir, progress=True):
    """The folder of a pre-trained encoder.

    name: a path; or a name of BERTS, or of any BERT or RoBERTa at Hugging Face such as
    google-bert/bert-base-cased, which is taken from the cache of Hugging Face's library, or
    downloaded once to data_dir/bert/name; behind an @ may stand the revision, such as a commit's
    name, without which it is the newest. Raises ValueError where the download fails.
    """
    if name not in BERTS and (Path(name).exists() or not PUBLISHED.fullmatch(name)):
        return Path(name)
    folder, source = Path(data_dir) / "bert" / name, BERTS.get(name, name)
    return folder if folder.exists() else _cached(source) or _download(source, folder, progress)


def _cached(name):
    """The folder of a model in the cache of Hugging Face's library, or None."""
    model, _, revision = name.partition("@")
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    place = Path(home, "hub", "models--" + model.replace("/", "--"))
    known = place / "refs" / (revision or "main")  # holds the name of a commit
    commit = known.read_text().strip() if known.is_file() else revision or "*"
    weights = [path for file in WEIGHTS for path in place.glob(f"snapshots/{commit}/{file}")]
    return min(weights).parent if weights else None  # of some models it has the vocabulary alone


def _download(source, folder, progress):
    """Fetch a model into a temporary folder; only a whole one gets its final name. -> folder"""
    model, _, revision = source.partition("@")

    def fetch(file):
        url = f"{HUGGING_FACE}{model}/resolve/{revision or 'main'}/{file}"
        try:
            download(url, new / file, progress=progress, remedy="correct the name, or put "
                     "configuration, weights and vocabulary into a folder: --bert FOLDER")
        except ValueError as error:
            if file not in OPTIONAL or getattr(error.__cause__, "code", None) != 404:
                raise

    if progress:
        print(f"{source}: no folder here; fetching {HUGGING_FACE}{source}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temp, prefix_errors(f"{source}: "):
        new = Path(temp, folder.name)
        fetch("config.json")
        is_bert = read_config(new / "config.json")["kind"] == "bert"  # refuses another model
        for file in (*(["vocab.txt"] if is_bert else ["vocab.json", "merges.txt"]), *OPTIONAL):
            fetch(file)
        if not (new / "model.safetensors").exists():
            fetch("pytorch_model.bin")
        if not folder.exists():  # another process may have been faster
            os.replace(new, folder)
    return folder
