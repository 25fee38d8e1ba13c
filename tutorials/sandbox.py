"""The process in which grade.py runs a student's functions: numbers in, numbers out, nothing else.

    python sandbox.py PIPE      in a folder with the hand-in's modules, trial.py and cases.npz

The first line of standard input has a nonce and the names of functions. Each is tried on its
arguments, and an answer goes into the pipe: the nonce and trial.packed. What trial.ask asks for
goes the same way, and the reply comes by standard input. No right answer and no score is in this
process. What a student's code changes here, it changes for itself.

The guard refuses to read outside this folder and Python's own, to write, to start processes and to
use the network; limits hold for memory and files. Python's guard does not see what C++ opens
(torch.from_file, torch.save): Linux's Landlock does. Students' code runs with your rights all the
same: see TEACHER.md.
"""
import ctypes
import json
import os
import resource
import struct
import sys
from pathlib import Path

MEMORY = 4 << 30            # bytes beside those that PyTorch has taken
REFUSED = ("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "gc.", "mmap.", "signal.",
           "fcntl.", "pty.", "resource.", "sqlite3.", "tempfile.", "webbrowser.", "urllib.")
LISTING, HARMLESS = ("os.listdir", "os.scandir"), ("os.putenv", "os.unsetenv")


def set_limits():
    """Memory, written files and processes, for good. What the system does not know is left out."""
    taken = 0
    if os.path.exists("/proc/self/statm"):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    for name, most in (("RLIMIT_AS", taken + MEMORY if taken else None), ("RLIMIT_FSIZE", 0),
                       ("RLIMIT_CORE", 0), ("RLIMIT_NPROC", 0)):
        if most is not None and hasattr(resource, name):
            resource.setrlimit(getattr(resource, name), (most, most))


def landlock_version():
    """0 where the system has no Landlock (Linux 5.13), or does not let us use it."""
    if sys.platform != "linux":
        return 0
    return max(0, ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))


def lock(folder, roots, ours):
    """From here on this process opens only what `guard` lets it, C++ included. Raises OSError."""
    version = landlock_version()
    if not version:
        return
    library = ctypes.CDLL(None, use_errno=True)

    def call(*arguments):
        answer = library.syscall(*arguments)
        if answer < 0:
            raise OSError(ctypes.get_errno(), "Landlock")
        return answer

    read_file, read_folder = 1 << 2, 1 << 3
    handled = ctypes.c_uint64((1 << min(15, 12 + version)) - 1)     # one right more with 2 and 3
    rules = call(444, ctypes.byref(handled), ctypes.c_size_t(8), 0)
    allowed = [(root, read_folder) for root in roots]
    allowed += [(entry.path, read_file | read_folder * entry.is_dir())
                for root in roots for entry in os.scandir(root)
                if entry.name.partition(".")[0] not in ours]
    allowed += [(folder, read_file | read_folder), (os.devnull, read_file | 1 << 1)]
    for path, rights in allowed:
        if os.path.exists(path):
            opened = os.open(path, os.O_PATH)
            rule = struct.pack("=Qi", rights, opened)
            call(445, rules, 1, rule, 0)
            os.close(opened)
    if library.prctl(38, 1, 0, 0, 0):                               # no new rights by programs
        raise OSError("prctl")
    call(446, rules, 0)
    os.close(rules)


def guard(folder, roots, ours):
    """Raises PermissionError in whoever opens what is none of a student's business.

    roots: Python's folders. ours: names of the library, which may be installed there."""
    real, refuse = os.path.realpath, PermissionError
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    folder, roots = real(folder), [real(root) for root in roots]

    def inside(path):
        path = real(os.fsdecode(path))
        if path == folder or path.startswith(folder + os.sep) or path == os.devnull:
            return True
        for root in roots:
            if path.startswith(root + os.sep):
                first = path[len(root) + 1:].partition(os.sep)[0]
                return first.partition(".")[0] not in ours
        return path in roots

    def hook(event, arguments):
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int):
                return
            if flags & writing and path != os.devnull or not inside(path):
                raise refuse(f"the grader does not let you open {path!r}")
        elif event in LISTING:
            if not inside(arguments[0] or "."):
                raise refuse(f"the grader does not let you list {arguments[0]!r}")
        elif event.startswith(REFUSED) and event not in HARMLESS:
            raise refuse(f"the grader does not let you use {event}")

    sys.addaudithook(hook)


def main():
    """Answers until all functions are tried."""
    import numpy
    import torch

    import trial
    nonce, *names = sys.stdin.readline().split()
    nonce, pipe = nonce.encode(), os.fdopen(int(sys.argv[1]), "wb")
    replies = os.fdopen(os.dup(0), "rb")

    def send(text, blob=b""):
        pipe.write(nonce + trial.packed(text, blob))
        pipe.flush()

    def ask(*values):
        blob = bytearray()
        send({"ask": trial.put_all(values, blob)}, blob)
        text, numbers = map(replies.read, struct.unpack(">QQ", replies.read(16)))
        return trial.get_all(json.loads(text), numbers)

    described, numbers = trial.load_cases(trial.HERE / "cases.npz")
    roots = [os.path.dirname(path) for path in (os.__file__, *(os.path.dirname(module.__file__)
                                                               for module in (numpy, torch)))]
    sys.path[1:] = [path for path in sys.path[1:] if path.startswith(tuple(roots))]
    torch.set_num_threads(1)
    torch.ones(1, requires_grad=True).exp().backward()      # starts what autograd needs
    ours = {path.stem for path in trial.HERE.iterdir()} | {"__pycache__"}
    trial.ask = ask
    set_limits()
    lock(trial.HERE, roots, ours)
    send("ready")
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    guard(trial.HERE, roots, ours)
    for task in described["tasks"]:
        if task["function"] in names:
            blob = bytearray()
            send(trial.attempt(task, numbers, trial.in_words,
                               lambda answer: trial.put_answer(answer, blob)), blob)


if __name__ == "__main__":
    main()
