"""Fixtures of all tests. No test depends on time or chance."""
import functools
import os
import shutil
from pathlib import Path

import nltk
import pytest
import torch
from hypothesis import settings

import batches
from small_runs import RELATED, ChainParser, run, write_pairs
from support import lexicon
from support.options import load_own

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a GPU rounds differently
torch.set_num_threads(1)  # faster for small tensors

settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """The working folder, with train, dev and test pairs; a cheap parser and a small lexicon. 22
    training pairs in batches of 8 are three steps an epoch."""
    load_own.cache_clear()  # forgets another test's mine.py
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batches, "load_parser", ChainParser)
    monkeypatch.setattr(lexicon, "WordNet", lambda: lexicon.Table(RELATED))
    write_pairs(lambda rng, same: same, train=22, dev=10, test=9)
    return tmp_path


@pytest.fixture(scope="session")
def wordnet():
    """support.lexicon.WordNet, from NLTK_DATA or from shared/ beside the project."""
    nltk.data.path.append(str(Path(__file__).resolve().parents[2] / "shared" / "nltk_data"))
    try:
        return lexicon.WordNet()
    except ValueError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """trained_once(*args): the folder of a run with these options, trained once for all tests."""
    @functools.cache
    def train_once(*args):
        folder = tmp_path_factory.mktemp("trained") / "run"
        assert run(*args, out=folder) == 0
        return folder

    return train_once


@pytest.fixture
def trained(trained_once, workplace):
    """trained(*args): a copy of this run in the folder "run", which a test may change."""
    return lambda *args: Path(shutil.copytree(trained_once(*args), "run", dirs_exist_ok=True))
