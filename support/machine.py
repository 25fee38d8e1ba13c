"""The machine a run is on: its device, the other processes of torchrun, versions."""
import contextlib
import os
import platform
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from support.checkpoints import visible
from support.options import prefix_errors, refuse

BF16 = {"amx_bf16", "avx512_bf16", "bf16"}  # flags of processors that multiply in it; ARM's last
PROCESSOR = Path("/proc/cpuinfo")  # where Linux says these flags
# With a mask, the backward pass of cuDNN's attention gives NaN on Hopper: pytorch issue 196678.
torch.backends.cuda.enable_cudnn_sdp(False)


# ---- Processes ----------------------------------------------------------------------------------

def world():
    """(rank, processes): (0, 1) unless torchrun started us."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def main_process():
    """Is this the process that prints and writes?"""
    return world()[0] == 0


def print_once(*words):
    """Print, on one process, above a progress bar."""
    if main_process():
        tqdm.write(visible(" ".join(map(str, words))))


@contextlib.contextmanager
def main_process_first():
    """The first process does the work inside (downloads, caches), then the others find it done."""
    rank, count = world()
    if rank:
        dist.barrier()
    yield
    if count > 1 and not rank:
        dist.barrier()


def gather(value):
    """The `value` of each process, in the order of their ranks."""
    values = [value] * world()[1]
    if len(values) > 1:
        dist.all_gather_object(values, value)
    return values


def sum_over_processes(*numbers):
    """The sums of numbers or tensors of one number over all processes, as floats; one transfer."""
    device = next((x.device for x in numbers if torch.is_tensor(x)), "cpu")
    sums = torch.stack([torch.as_tensor(x, dtype=torch.float64, device=device) for x in numbers])
    if world()[1] > 1:
        dist.all_reduce(sums)
    return sums.tolist()


def share_gradients(model, device):
    """The model; among several processes one whose backward pass averages gradients over them."""
    if world()[1] == 1:
        return model
    places = [torch.device(device)] if device.startswith("cuda") else None
    return DistributedDataParallel(model, device_ids=places, find_unused_parameters=True)


def cut_batch(batch, accumulate):
    """This process's parts of a batch, a list of places, `accumulate` of them or fewer.

    A process that would have none gets a pair all the same, because all must meet in the backward
    pass; the caller lets it not count.
    """
    (rank, count), parts = world(), min(accumulate, len(batch)) * world()[1]
    return [part for r in range(rank, parts, count) if (part := batch[r::parts])] or [batch[:1]]


def join_processes(given):
    """Meets the processes that torchrun started; `given`, options, then has this one's device."""
    backend, place = "gloo", None
    if torch.cuda.is_available() and given.get("device", "cuda").startswith("cuda"):
        number, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        refuse(number >= there, f"start as many processes as GPUs, {there}")
        backend, place = "nccl", torch.device("cuda", number)
        torch.cuda.set_device(place)
        given["device"] = str(place)
    dist.init_process_group(backend, timeout=timedelta(days=1), device_id=place)  # one parses


@contextlib.contextmanager
def torch_session(given):
    """Around a command: meets the processes that torchrun started; `given`, its options, then has
    this one's device. Raises ValueError where the memory does not suffice.

    Numbers below 1e-38 count as 0 inside, in this thread and those it starts, where the processor
    can do so: sharp choices (LadRa-Net's β of 600) leave such gradients, which some processors
    compute many times slower. It is of no use to a caller's own numbers, so that it ends here.
    """
    np.finfo("float32"), np.finfo("float64")  # older numpy looks once, and warns if they are 0 then
    torch.set_flush_denormal(True)
    try:
        if "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # torchrun started us
            with prefix_errors("RANK and WORLD_SIZE are set, as torchrun does: "):
                join_processes(given)
        yield
    except (torch.OutOfMemoryError, MemoryError):
        raise ValueError("out of memory; compute a batch in more parts (accumulate), or lower "
                         "batch_size, max_length or the method's sizes") from None
    finally:
        torch.set_flush_denormal(False)
        if dist.is_initialized():
            dist.destroy_process_group()


# ---- Device -------------------------------------------------------------------------------------

def best_device():
    """The name of the device that is used where none is named."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def prepare_device(name):
    """Sets what computing on the device by this name needs. Raises ValueError where torch cannot.
    """
    try:
        torch.ones(1, device=name).item()  # a kernel has to run, too
    except (RuntimeError, AssertionError) as error:  # torch raises either, with a page of text
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from None
    if name.startswith("cuda"):
        torch.set_float32_matmul_precision("high")  # TensorFloat32 where the GPU has it


def to_device(batch_and_labels, device):
    """(dict of tensors, labels or None) on the device."""
    batch, labels = batch_and_labels
    batch = {name: x.to(device, non_blocking=True) for name, x in batch.items()}
    return batch, None if labels is None else labels.to(device, non_blocking=True)


def fast_precision(device):
    """"bf16" where the device computes in it, "fp32" where that is emulated or unknown."""
    kind, fast = device.split(":")[0], False
    if kind == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    elif kind == "cpu" and PROCESSOR.exists():
        fast = not BF16.isdisjoint(PROCESSOR.read_text("utf-8", "replace").split())
    return "bf16" if fast else "fp32"


def autocast(device, precision):
    """The context of a forward pass: nothing for "fp32"."""
    kind = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.split(":")[0], kind, enabled=precision != "fp32")


def loss_scaler(device, precision):
    """Keeps small gradients of fp16 above 0, by a factor on the loss; does nothing otherwise."""
    return torch.amp.GradScaler(device.split(":")[0], enabled=precision == "fp16")


def random_state(device):
    """torch's random states, of the CPU and of the device, None for a CPU."""
    cuda = torch.cuda.get_rng_state(device) if device.startswith("cuda") else None
    return torch.get_rng_state(), cuda


def restore_random_state(state, device):
    """Undoes what has been drawn since `random_state`."""
    cpu, cuda = state
    torch.set_rng_state(cpu)
    if cuda is not None and device.startswith("cuda"):
        torch.cuda.set_rng_state(cuda, device)


def versions(device):
    """What a run's numbers depend on beside its settings."""
    gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
    return {"python": platform.python_version(), "torch": torch.__version__,
            "numpy": np.__version__, "gpu": gpu, "threads": torch.get_num_threads(),
            "processor": platform.processor() or platform.machine()}
