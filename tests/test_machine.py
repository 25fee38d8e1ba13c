"""support/machine.py: one run in two processes; the threads of a small model."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from small_runs import (OWN, ROOT, TINY, assert_like_weights, assert_same_run, command, gentle,
                        loaded, losses, of, result, run, write_pairs)

pytestmark = pytest.mark.usefixtures("workplace")
TWO = """
import os, signal, sys
sys.path.insert(0, {root!r})
import torch, torch.distributed as dist
import train
from support.options import run_command

rank = int(os.fork() == 0)
os.environ |= {{"RANK": str(rank), "WORLD_SIZE": "2"}}  # as torchrun does
torch.set_num_threads(1)
dist.init_process_group("gloo", f"file://{{os.getcwd()}}/store", rank=rank, world_size=2)  # once
dist.init_process_group, dist.destroy_process_group = lambda *a, **k: None, lambda: None
clip, steps = torch.nn.utils.clip_grad_norm_, []

def step(*args):
    steps.append(args)
    if len(steps) == 5 and name == "cut":
        raise KeyboardInterrupt
    if len(steps) == 5 and name == "killed" and rank:
        os.kill(os.getpid(), signal.SIGKILL)
    return clip(*args)

torch.nn.utils.clip_grad_norm_ = step
for name, args in {commands!r}.items():
    steps.clear(), dist.barrier()
    train.SAVE_SECONDS, train.LOG_EVERY = -1, 1
    assert run_command(train.main, "train.py", args) == (130 if name == "cut" else 0), name
    assert name != "two" or torch.initial_seed() == train.seed_of_step(0, 5, rank)
"""


def test_two_processes_are_one():
    """Their losses are those of one process; they are cut and go on; one is killed and both end."""
    # in an epoch's last batch the second process has no pairs; 70 of dev are more than a batch
    write_pairs(lambda rng, same: same, train=21, dev=70)
    common = [*OWN, "--batch-size", "4", "--epochs", "1"]
    loop = [*common, *gentle("ladranet"), "--dropout", "0", "--out"]  # has weights without use
    dropout = [*common, *of("bert"), "--dropout", "0.1", "--out"]
    commands = {"two": [*loop, "two"], "whole": [*dropout, "whole"], "cut": [*dropout, "cut"],
                "resumed": ["--resume", "cut"], "killed": [*loop, "killed"]}
    Path("two.py").write_text(TWO.format(root=str(ROOT), commands=commands))
    process = subprocess.run([sys.executable, "two.py"], capture_output=True, text=True,
                             timeout=300, env=os.environ | {"PYTHONHASHSEED": "1"})
    print(process.stdout, process.stderr)
    assert process.returncode and Path("killed").exists()  # what came before has ended as it should
    assert command(*loop, "one") == 0
    np.testing.assert_allclose(losses("two"), losses("one"), rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses("two", "norm"), losses("one", "norm"), rtol=1e-3)
    assert_like_weights(*(loaded(f"{out}/best.pt")["weights"] for out in ("one", "two")))
    assert result("two")["metrics"]["dev"] == pytest.approx(result("one")["metrics"]["dev"])
    assert_same_run("whole", "cut")  # each process has its own dropout, and goes on with it
    assert loaded("killed/last.pt")["progress"]["step"] == 4
    assert command("--resume", "killed") == 0
    np.testing.assert_allclose(losses("killed"), losses("one"), rtol=0, atol=1e-6)


@pytest.mark.parametrize("bert, threads", [("scratch", 1), (TINY, 2)])
def test_an_encoder_from_scratch_is_trained_in_one_thread(bert, threads, request):
    """A pre-trained one has as many as there were, and so has all that comes later."""
    request.addfinalizer(lambda: torch.set_num_threads(1))
    torch.set_num_threads(2)
    assert run("--bert", bert, "--epochs", "1", "--limit", "4") == 0
    assert result()["versions"]["threads"] == threads and torch.get_num_threads() == 2
