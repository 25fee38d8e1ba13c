"""Files: written whole or not at all, downloaded, unpacked; the folder of a published BERT."""

import contextlib
import functools
import hashlib
import http.client
import json
import os
import re
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from support.checkpoints import (CONFIGS, WEIGHTS, expecting, find_file, join_names, read_config,
                                 shorten)
from support.options import prefix_errors, refuse

GOOGLE = "https://storage.googleapis.com/bert_models/"
HUGGING_FACE = "https://huggingface.co/"
BERTS = {  # name -> a zip, or a name at Hugging Face
    "tiny": GOOGLE + "2020_02_20/uncased_L-2_H-128_A-2.zip",
    "mini": GOOGLE + "2020_02_20/uncased_L-4_H-256_A-4.zip",
    "small": GOOGLE + "2020_02_20/uncased_L-4_H-512_A-8.zip",
    "medium": GOOGLE + "2020_02_20/uncased_L-8_H-512_A-8.zip",
    "base": GOOGLE + "2018_10_18/uncased_L-12_H-768_A-12.zip",
    "large": GOOGLE + "2018_10_18/uncased_L-24_H-1024_A-16.zip",
    "roberta-base": "FacebookAI/roberta-base"}
PUBLISHED = re.compile(  # no way out of a folder; bert-base-uncased and such need no owner
    r"(\w[\w.-]*/|(?=(ro)?bert(a)?-))\w[\w.-]*(@\w[\w.-]*)?", re.ASCII)
OPTIONAL = ("tokenizer_config.json", "model.safetensors")  # not every published model has these
OF_GOOGLE = ("bert_config.json", "vocab.txt", "bert_model.ckpt.index",
             "bert_model.ckpt.data-00000-of-00001")


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
        raise OSError(f"cannot write {path}: {shorten(error)}; what was written before is whole; "
                      "make room, or name a folder that can be written, and go on") from error


def write_text(path, text):
    """Write a text in UTF-8, whole or not at all. Raises OSError naming the file."""
    write_whole(path, lambda file: file.write(text.encode("utf-8")))


def write_json(path, content):
    """Write JSON, whole or not at all. Raises OSError naming the file."""
    write_text(path, json.dumps(content, indent=1) + "\n")  # half a surrogate pair stays one


# ---- Downloads ----------------------------------------------------------------------------------

def download(url, path, sha256=None, progress=True, remedy=""):
    """Download url to path, whole or not at all. Raises ValueError with the reason and the remedy.

    sha256: what the file must have; None: any. progress: show a bar. remedy: what to do by hand.
    """
    path, digest = Path(path), hashlib.sha256()
    try:
        with contextlib.ExitStack() as stack:
            answer = stack.enter_context(urllib.request.urlopen(url, timeout=60))
            path.parent.mkdir(parents=True, exist_ok=True)  # not before there is an answer
            file = stack.enter_context(_whole(path))
            total = int(answer.headers.get("Content-Length", 0))
            with tqdm(total=total or None, unit="B", unit_scale=True, desc=path.name,
                      disable=None if progress else True) as bar:
                while chunk := answer.read(1 << 20):
                    file.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
            got, found = file.tell(), digest.hexdigest()
            refuse(total not in (0, got), f"expected bytes {total}, got {got}")
            refuse(sha256 not in (None, found), f"expected sha256 {sha256}, got {found}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise ValueError(f"cannot download {url}: {shorten(error)}; {remedy}") from error


def extract(archive, folder, names):
    """Put the files of a zip that have these names, whatever folder they lie in there, into a
    folder, each whole or not at all. Raises ValueError naming the archive.
    """
    remedy = f"make room in {folder}, or download it again"
    with (expecting(archive, f"a zip with {join_names(names)}", remedy),
          zipfile.ZipFile(archive) as source):
        members = {PurePosixPath(name).name: name for name in source.namelist()}
        lacking = set(names) - set(members)
        refuse(lacking, f"no {join_names(sorted(lacking))}")
        for name in names:
            with source.open(members[name]) as content:
                write_whole(Path(folder, name), functools.partial(shutil.copyfileobj, content))


# ---- Published encoders -------------------------------------------------------------------------

def find_bert(name, data_dir, progress=True):
    """The folder of a pre-trained encoder.

    name: a path; or a name of BERTS, or of any BERT or RoBERTa at Hugging Face such as
    google-bert/bert-base-cased, which is taken from the cache of Hugging Face's library, or
    downloaded once to data_dir/bert/name; behind an @ may stand the revision, such as a commit's
    name, without which it is the newest.
    Raises: ValueError if the name is unknown, the download fails, or configuration, weights or
        vocabulary are not in the folder.
    """
    folder, published = Path(name), PUBLISHED.fullmatch(name) and not name.startswith("runs/")
    if name in BERTS or (published and not folder.exists()):
        folder, source = Path(data_dir) / "bert" / name, BERTS.get(name, name)
        if not folder.exists():
            folder = _cached(source) or _download_bert(source, folder, progress)
    refuse(not folder.exists(), f"{name}: expected a folder, one of {', '.join(BERTS)}, or a name "
           "at Hugging Face such as google-bert/bert-base-cased; correct the name")
    check_bert(folder)
    return folder


def check_bert(folder):
    """Raises ValueError unless configuration, weights and vocabulary are in the folder."""
    find_file(folder, *CONFIGS)
    find_file(folder, *WEIGHTS)
    if find_file(folder, "vocab.txt", "vocab.json").suffix == ".json":
        find_file(folder, "merges.txt")


def _cached(name):
    """The folder of a model in the cache of Hugging Face's library, or None."""
    model, _, revision = name.partition("@")
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    place = Path(home, "hub", "models--" + model.replace("/", "--"))
    known = place / "refs" / (revision or "main")  # holds the name of a commit
    commit = known.read_text().strip() if known.is_file() else revision or "*"
    for folder in sorted(place.glob(f"snapshots/{commit}")):
        with contextlib.suppress(ValueError):  # of some models it has the vocabulary alone
            check_bert(folder)
            return folder
    return None


def _download_bert(source, folder, progress):
    """Fetch into a temporary folder; only a whole model gets its final name, which is returned."""
    remedy = "put its configuration, weights and vocabulary into a folder: --bert FOLDER"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temp:
        new = Path(temp) / folder.name
        new.mkdir()
        if source.endswith(".zip"):
            archive = Path(temp) / PurePosixPath(source).name
            download(source, archive, progress=progress, remedy=remedy)
            extract(archive, new, OF_GOOGLE)
        else:
            _download_published(source, new, progress, f"correct the name, or {remedy}")
            with prefix_errors(f"{source}: "):
                check_bert(new)
        if not folder.exists():  # another process may have been faster
            os.replace(new, folder)
    return folder


def _download_published(name, folder, progress, remedy):
    """The files of a model at Hugging Face, configuration first: it says which others there are."""
    model, _, revision = name.partition("@")

    def fetch(file):
        url = f"{HUGGING_FACE}{model}/resolve/{revision or 'main'}/{file}"
        try:
            download(url, folder / file, progress=progress, remedy=remedy)
        except ValueError as error:
            if file not in OPTIONAL or getattr(error.__cause__, "code", None) != 404:
                raise

    if progress:
        print(f"{name}: no folder here; fetching {HUGGING_FACE}{name}", file=sys.stderr)
    fetch("config.json")
    is_bert = read_config(folder / "config.json")["kind"] == "bert"  # refuses another model
    for file in (*(["vocab.txt"] if is_bert else ["vocab.json", "merges.txt"]), *OPTIONAL):
        fetch(file)
    if not (folder / "model.safetensors").exists():
        fetch("pytorch_model.bin")
