"""support/machine.py: one run in two processes; the threads of a small model."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from small_runs import (OWN, ROOT, TINY, assert_like_weights, command, gentle, loaded, losses,
                        result, run, write_pairs)

pytestmark = pytest.mark.usefixtures("workplace")
CHECKED = """
import os, sys
sys.path.insert(0, {root!r})
import torch, train
train.main(sys.argv[1:])
assert torch.initial_seed() == train.seed_of_step(0, 5, int(os.environ["RANK"]))
"""


def test_two_processes_are_one():
    """Their losses are those of one process; each draws from a seed of its own."""
    # in an epoch's last batch the second process has no pairs; 70 of dev are more than a batch
    write_pairs(lambda rng, same: same, train=21, dev=70)
    args = [*OWN, "--batch-size", "4", "--epochs", "1", *gentle("ladranet"), "--dropout", "0"]
    Path("checked.py").write_text(CHECKED.format(root=str(ROOT)))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    assert subprocess.run([*torchrun, "2", "checked.py", *args, "--out", "two"]).returncode == 0
    assert command(*args, "--out", "one") == 0
    np.testing.assert_allclose(losses("two"), losses("one"), rtol=0, atol=1e-5)
    assert_like_weights(*(loaded(f"{out}/best.pt")["weights"] for out in ("one", "two")))
    assert result("two")["metrics"]["dev"] == pytest.approx(result("one")["metrics"]["dev"])


@pytest.mark.parametrize("bert, threads", [("scratch", 1), (TINY, 2)])
def test_an_encoder_from_scratch_is_trained_in_one_thread(bert, threads, request):
    """A pre-trained one has as many as there were, and so has all that comes later."""
    request.addfinalizer(lambda: torch.set_num_threads(1))
    torch.set_num_threads(2)
    assert run("--bert", bert, "--epochs", "1", "--limit", "4") == 0
    assert result()["versions"]["threads"] == threads and torch.get_num_threads() == 2
