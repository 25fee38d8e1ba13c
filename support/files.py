"""Files: written whole or not at all, downloaded, unpacked; the folder of a published BERT."""

import contextlib
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

import numpy as np
from tqdm import tqdm

from support.checkpoints import CONFIGS, WEIGHTS, check_zip, find_file, join_names, shorten
from support.checkpoints import read_json  # write_json's other half
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
PUBLISHED = re.compile(r"\w[\w.-]*/\w[\w.-]*(@\w[\w.-]*)?", re.ASCII)  # no way out of a folder
VOCABULARIES = {"bert": ["vocab.txt"], "roberta": ["vocab.json", "merges.txt"]}  # by model_type
LARGEST = 10 ** 10  # bytes of a download whose size nobody announced
UNPACKED = 100  # times its size: more has no zip of weights or sentences
OPTIONAL = ("tokenizer_config.json", "model.safetensors")  # not every published model has these


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


def write_arrays(path, arrays):
    """Write a dict of name -> array as .npz, whole or not at all. Raises OSError naming it."""
    write_whole(path, lambda file: np.savez_compressed(file, **arrays))


def write_text(path, text):
    """Write a text in UTF-8, whole or not at all. Raises OSError naming the file."""
    write_whole(path, lambda file: file.write(text.encode("utf-8")))


def write_json(path, content):
    """Write JSON, whole or not at all. Raises OSError naming the file."""
    write_text(path, json.dumps(content, indent=1) + "\n")  # half a surrogate pair stays one


def download(url, path, size=None, sha256=None, progress=True, remedy=None):
    """Download url to path, whole or not at all. Raises ValueError with the reason and the remedy.

    size, sha256: what the file must have; None: not checked. All announced bytes must come.
    progress: show a bar, and a sha256 that is not checked. remedy: by hand; None: put it at path.
    """
    path, remedy = Path(path), remedy or f"put the file at {path} by hand"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _fetch(url, path, size, sha256, progress)
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise ValueError(f"cannot download {url}: {shorten(error)}; {remedy}") from error


def _fetch(url, path, size, sha256, progress):
    digest, got = hashlib.sha256(), 0
    with urllib.request.urlopen(url, timeout=60) as answer, _whole(path) as file:
        announced = answer.headers.get("Content-Length")
        total = int(announced) if announced else size
        most = LARGEST if total is None else total
        refuse(size not in (None, total) or most > LARGEST,
               f"expected bytes {size or f'up to {LARGEST}'}, got {total}")
        with tqdm(total=total, unit="B", unit_scale=True, desc=path.name,
                  disable=None if progress else True) as bar:
            while got <= most and (chunk := answer.read(1 << 20)):
                file.write(chunk)
                digest.update(chunk)
                got += len(chunk)
                bar.update(len(chunk))
        refuse(total is None and got > most, f"expected at most {most:,} bytes, got more")
        for what, wanted, found in (("bytes", total, got), ("sha256", sha256, digest.hexdigest())):
            refuse(wanted not in (None, found), f"expected {what} {wanted}, got {found}")
        if progress and sha256 is None:  # nobody published one: it can be compared by hand
            print(f"{url}: bytes {got}, sha256 {digest.hexdigest()}", file=sys.stderr)


def extract(archive, folder, names=None):
    """Put the files of a zip, without the folders in it, into a folder: all of them, or none.

    names: of those that are wanted, each once in the zip; None: all but those of macOS.
    Raises: ValueError naming the archive.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temp:  # on the disk to which we rename
        try:
            with zipfile.ZipFile(archive) as source:
                members = [member for member in source.infolist()
                           if not (member.is_dir() or member.filename.startswith("__MACOSX/"))]
                for member in members:
                    member.filename = PurePosixPath(member.filename).name
                if names is not None:
                    members = [member for member in members if member.filename in names]
                    lacking = {*names} - {member.filename for member in members}
                    refuse(lacking, f"no member named {join_names(lacking)}")
                check_zip(members, UNPACKED * os.path.getsize(archive))
                for member in members:
                    with (source.open(member) as content,
                          open(Path(temp, member.filename), "xb") as file):
                        shutil.copyfileobj(content, file)
        except OSError as error:
            raise ValueError(f"{archive}: cannot extract it into {folder}, found {shorten(error)}; "
                             f"make room, or download it again") from error
        except Exception as error:  # a damaged zip raises almost anything
            raise ValueError(f"{archive}: expected a sound zip, found {shorten(error)}; download "
                             f"it again") from error
        for path in Path(temp).iterdir():
            os.replace(path, folder / path.name)


def find_bert(name, data_dir, progress=True):
    """The folder of a pre-trained encoder.

    name: a path; or a name of BERTS, or of any BERT or RoBERTa at Hugging Face such as
    google-bert/bert-base-cased, downloaded once to data_dir/bert/name; behind an @ may stand the
    revision, such as a commit's name, without which it is the newest.
    Raises: ValueError if the name is unknown, the download fails, or configuration, weights or
        vocabulary are not in the folder.
    """
    folder, published = Path(name), PUBLISHED.fullmatch(name) and not name.startswith("runs/")
    if name in BERTS or (published and not folder.exists()):
        folder = Path(data_dir) / "bert" / name
        if not folder.exists():
            _download_bert(BERTS.get(name, name), folder, Path(data_dir) / "bert", progress)
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


def _download_bert(source, folder, around, progress):
    """Fetch into a temporary folder in `around`; only a whole model gets its final name."""
    around.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=around) as temp:
        new = Path(temp) / folder.name
        if source.endswith(".zip"):
            archive = Path(temp) / PurePosixPath(source).name
            download(source, archive, progress=progress, remedy=f"unzip it into {folder} by hand")
            extract(archive, new)
        else:
            remedy = f"correct the name, or put all its files into {folder} by hand"
            _download_published(source, new, progress, remedy)
        with prefix_errors(f"{source}: "):
            check_bert(new)
        if not folder.exists():  # another process may have been faster
            folder.parent.mkdir(exist_ok=True)
            os.replace(new, folder)


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
    kind = str(read_json(folder / "config.json").get("model_type", "bert"))
    refuse(kind not in VOCABULARIES, f"{name}: expected a BERT or RoBERTa, found model_type "
           f"{kind!r}; name another model")
    for file in (*VOCABULARIES[kind], *OPTIONAL):
        fetch(file)
    if not (folder / "model.safetensors").exists():
        fetch("pytorch_model.bin")
