"""What tests share: no test depends on time or chance."""
import os
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import settings

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a GPU rounds otherwise than the processor that trained
torch.set_num_threads(1)  # more are slower on tensors as small as these

settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder with train, dev and test pairs; a parser and a lexicon of no cost.

    22 pairs of train in batches of 8 are three steps an epoch.
    """
    import batches
    import priors
    from small_runs import RELATED, ChainParser, write_pairs
    from support.options import load_own

    load_own.cache_clear()  # another test's mine.py
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(batches, "load_parser", ChainParser)
    monkeypatch.setattr(priors, "WordNet", lambda: priors.Table(RELATED))
    write_pairs(lambda rng, same: same, train=22, dev=10, test=9)
    return tmp_path


@pytest.fixture(scope="session")
def wordnet():
    """priors.WordNet, of nltk's data where NLTK_DATA says or in shared/ beside the project."""
    import nltk

    import priors

    beside = Path(__file__).resolve().parents[2] / "shared" / "nltk_data"
    if beside.exists() and str(beside) not in nltk.data.path:
        nltk.data.path.append(str(beside))
    try:
        return priors.WordNet()
    except ValueError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """trained_once(*args) -> folder of a run with these arguments, trained once for all tests."""
    from small_runs import run

    made = {}

    def train_once(*args):
        if args not in made:
            made[args] = tmp_path_factory.mktemp("trained") / "run"
            assert run(*args, out=made[args]) == 0
        return made[args]

    return train_once


@pytest.fixture
def trained(trained_once, workplace):
    """trained(*args) -> a copy of such a run in the folder "run" here, which a test may change."""

    def copy(*args):
        return Path(shutil.copytree(trained_once(*args), "run", dirs_exist_ok=True))

    return copy
