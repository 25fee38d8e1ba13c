"""support/machine.py: shares of a batch, errors of torch; one run in two processes."""
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from small_runs import (OWN, ROOT, assert_like_weights, assert_same_run, command, events, gentle,
                        loaded, losses, of, result, write_pairs)
from support import machine

pytestmark = pytest.mark.usefixtures("workplace")


@pytest.mark.parametrize("count, processes, accumulate", [
    (8, 1, 1), (8, 1, 3), (8, 1, 9), (7, 2, 3), (1, 4, 3), (64, 3, 4), (7, 2, 10 ** 12)])
def test_shares_of_a_batch(count, processes, accumulate, monkeypatch):
    """Together the batch, parts of nearly one size; who has none gets a pair, not to be counted."""
    batch, seen = random.Random(0).sample(range(100), count), []
    for rank in range(processes):
        monkeypatch.setattr(machine, "world", lambda: (rank, processes))
        parts = machine.cut_batch(batch, accumulate)
        sizes = [len(part) for part in parts]
        if rank < count:
            seen += [place for part in parts for place in part]
            assert len(parts) <= accumulate and 1 <= min(sizes) and max(sizes) - min(sizes) <= 1
            assert max(sizes) <= -(-count // (processes * accumulate))
        else:
            assert parts == [batch[:1]]
    assert sorted(seen) == sorted(batch)


def test_too_little_memory_is_one_line():
    with pytest.raises(ValueError, match="accumulate") as shown, machine.torch_session({}):
        raise torch.OutOfMemoryError("CUDA\nout of memory")
    assert "\n" not in str(shown.value)


# ---- Two processes ------------------------------------------------------------------------------

TWO = """
import json, os, signal, sys
sys.path.insert(0, {root!r})
import torch, torch.distributed as dist
import train
from support.options import run_command

place = "env://"
if "RANK" not in os.environ:  # not torchrun's: this process and one that it forks
    place = "file://" + os.path.abspath("store")
    os.environ |= {{"RANK": str(int(os.fork() == 0)), "WORLD_SIZE": "2"}}
rank, written = int(os.environ["RANK"]), []

def watch(event, args):  # what this process opens to write, renames, makes
    begun = event == "open" and args[1] and set(args[1]) & set("wax+")
    if begun or event in ("os.rename", "os.mkdir"):
        written.append(os.path.abspath(str(args[0])))

torch.set_num_threads(1)
dist.init_process_group("gloo", place, rank=rank, world_size=2)  # once, not for each run
dist.init_process_group, dist.destroy_process_group = lambda *a, **k: None, lambda: None
sys.addaudithook(watch)
clip, steps, codes = torch.nn.utils.clip_grad_norm_, [], {{}}

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
    codes[name] = run_command(train.main, "train.py", args), torch.initial_seed()
    here = [name for name in written if name.startswith(os.getcwd())]
    with open(f"../new{{rank}}", "w") as file:
        json.dump([codes, here], file)
    os.replace(f"../new{{rank}}", f"../codes{{rank}}")  # torchrun may end this process at any time
"""


TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node 2".split()


def launch(script, by):
    """Runs a script in two processes. -> exit status, what they and torchrun print"""
    Path("two.py").write_text(script)
    with open("output", "w") as output:
        process = subprocess.Popen([sys.executable, *by, "two.py"], stdout=output, stderr=output,
                                   env=os.environ | {"OMP_NUM_THREADS": "1"},
                                   start_new_session=True)
        try:
            process.wait(300)
        finally:
            if process.poll() is None:  # the launcher and, where they hang, its two processes
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, Path("output").read_text()


@pytest.mark.parametrize("by", [[], pytest.param(TORCHRUN, marks=pytest.mark.long)], ids=len)
def test_two_processes_are_one(by, workplace, monkeypatch):
    """Their losses are those of one process; they are cut and go on; one is killed and both end.

    21 pairs in batches of 4: in the last batch of an epoch the second process has none. 70 of dev
    are more than a batch. The first process alone writes.
    """
    (workplace / "two").mkdir()
    monkeypatch.chdir("two")
    write_pairs(lambda rng, same: same, train=21, dev=70)
    common = [*OWN, "--batch-size", "4", "--epochs", "1"]
    loop = [*common, *gentle("ladranet"), "--dropout", "0", "--out"]  # has weights without use
    dropout = [*common, *of("bert"), "--dropout", "0.1", "--out"]
    commands = {"two": [*loop, "two"], "whole": [*dropout, "whole"], "cut": [*dropout, "cut"],
                "resumed": ["--resume", "cut"], "killed": [*loop, "killed"]}
    script = TWO.format(root=str(ROOT), commands=commands)
    status, output = launch(script, by)
    (codes, wrote), (other, nothing) = (json.loads(Path(f"../codes{rank}").read_text())
                                        for rank in (0, 1))
    for rank, found in enumerate((codes, other)):
        assert found["two"] == [0, rank] and found["whole"][0] == 0, output
        assert found["cut"][0] == 130 and found["resumed"][0] == 0, output
    assert command(*loop, "one") == 0
    np.testing.assert_allclose(losses("two"), losses("one"), rtol=0, atol=1e-6)
    two, one = ([e["norm"] for e in events(out) if "norm" in e] for out in ("two", "one"))
    np.testing.assert_allclose(two, one, rtol=1e-3)
    assert_like_weights(*(loaded(f"{out}/best.pt")["weights"] for out in ("one", "two")))
    assert result("two")["metrics"]["dev"] == pytest.approx(result("one")["metrics"]["dev"])
    assert_same_run("whole", "cut")  # each process has its own dropout, and goes on with it
    assert any("last.pt" in name for name in wrote) and nothing == []

    assert status, output
    assert loaded("killed/last.pt")["progress"]["step"] == 4
    assert command("--resume", "killed") == 0
    np.testing.assert_allclose(losses("killed"), losses("one"), rtol=0, atol=1e-6)


def test_a_command_takes_numbers_below_1e_38_for_0():
    """In threads that torch starts for large products too; not behind the command."""
    def find_any():
        small = torch.full((300, 300), 1e-20)
        torch.set_num_threads(2)
        found = (small * 1e-20).any().item(), (small @ (small * 1e-6)).any().item()
        torch.set_num_threads(1)
        return found

    with machine.torch_session({}):
        inside = find_any()
    after = find_any()
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot")
    assert not any(inside) and after[0], (inside, after)
