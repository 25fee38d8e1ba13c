"""The machine that runs the code: its device, torchrun's processes, versions of the software."""
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

from support.errors import visible

BF16 = {"amx_bf16", "avx512_bf16", "bf16"}  # flags of processors that multiply in bf16; ARM's last
PROCESSOR = Path("/proc/cpuinfo")  # Linux lists these flags here


def world():
    """(this process's rank, number of processes): (0, 1) unless torchrun started us."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def main_process():
    """Is this the process that prints and writes?"""
    return world()[0] == 0


def print_once(text=""):
    """Prints a text, on the main process alone, above a progress bar."""
    if main_process():
        tqdm.write(visible(text))


@contextlib.contextmanager
def main_process_first():
    """Context manager: the main process does the work inside first; the others find it done."""
    if not main_process():
        gather(None)  # waits for the main process
    yield
    if main_process():
        gather(None)


def gather(value):
    """A list of each process's `value`, in the order of their ranks."""
    values = [value] * world()[1]
    if len(values) > 1:
        dist.all_gather_object(values, value)
    return values


def share_gradients(model, device):
    """The model; with several processes, its wrapper whose backward pass averages gradients."""
    if world()[1] == 1:
        return model
    places = [torch.device(device)] if device.startswith("cuda") else None
    return DistributedDataParallel(model, device_ids=places, find_unused_parameters=True)


@contextlib.contextmanager
def torch_session(given):
    """Context manager around a command. It joins torchrun's processes, if there are some; then
    `given`, the options, gets this process's GPU.

    Numbers below 1e-38 count as 0 inside, in this thread and the threads that it starts, if the
    processor can do so: sharp choices (LadRa-Net's β of 600) leave such gradients, which some
    processors compute many times slower. At the end this is undone.
    """
    np.finfo("float32"), np.finfo("float64")  # else older numpy reads them later, finds 0 and warns
    torch.set_flush_denormal(True)
    try:
        if "RANK" in os.environ and "WORLD_SIZE" in os.environ:  # torchrun started us
            backend, gpu = "gloo", None
            if torch.cuda.is_available() and given.get("device", "cuda").startswith("cuda"):
                backend, gpu = "nccl", torch.device("cuda", int(os.environ["LOCAL_RANK"]))
                torch.cuda.set_device(gpu)
                given["device"] = str(gpu)
            # a day, because the others wait while the main process parses
            dist.init_process_group(backend, timeout=timedelta(days=1), device_id=gpu)
        yield
    finally:
        torch.set_flush_denormal(False)
        if dist.is_initialized():
            dist.destroy_process_group()


def best_device():
    """The name of the device to use if the user names none."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def prepare_device(name):
    """Prepares torch for the device of this name. Raises ValueError if torch cannot use it."""
    try:
        torch.ones(1, device=name).item()  # runs a kernel, too
    except (RuntimeError, AssertionError) as error:  # torch raises either, with a page of text
        reason = str(error).splitlines()[0].partition(". ")[0]
        raise ValueError(f"--device {name}: {reason}") from None
    if name.startswith("cuda"):
        torch.set_float32_matmul_precision("high")  # TensorFloat32 where the GPU has it
        # With a mask, cuDNN's attention gives NaN gradients on Hopper: pytorch issue 196678.
        torch.backends.cuda.enable_cudnn_sdp(False)


@contextlib.contextmanager
def few_threads(small):
    """Context manager: torch computes in one thread if the model is `small`. More threads would
    wait for each other after each small product. Another program on a core makes this wait long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if small else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def to_device(batch_and_labels, device):
    """(batch, labels) on the device: a dict of tensors, and a tensor or None."""
    batch, labels = batch_and_labels
    batch = {name: x.to(device, non_blocking=True) for name, x in batch.items()}
    return batch, None if labels is None else labels.to(device, non_blocking=True)


def fast_precision(device):
    """"bf16" if the device computes in it, "fp32" if it emulates bf16 or that is unknown."""
    kind, fast = device.split(":")[0], False
    if kind == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    elif kind == "cpu" and PROCESSOR.exists():
        fast = not BF16.isdisjoint(PROCESSOR.read_text("utf-8", "replace").split())
    return "bf16" if fast else "fp32"


def autocast(device, precision):
    """Context manager of a forward pass; it changes nothing for "fp32"."""
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    return torch.autocast(device.split(":")[0], dtype, enabled=precision != "fp32")


def versions(device):
    """dict of what a run's numbers depend on beside its settings."""
    gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else None
    return {"python": platform.python_version(), "torch": torch.__version__,
            "numpy": np.__version__, "gpu": gpu, "threads": torch.get_num_threads(),
            "processor": platform.processor() or platform.machine()}
