"""Runs the functions of a hand-in in a process of its own, and takes nothing but numbers from it.

    answers_of(files, cases, names)     function -> case -> trial.Answer, or what prevented one

The process gets files and arguments (sandbox.py runs there). It is killed when a function does not
answer in time, sends too much or something else; another one goes on with the next function.
"""
import contextlib
import json
import os
import secrets
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import answers
import trial

START, SECONDS = 120, 20        # for Python and PyTorch to start; for a function, all its cases
REPLY = 64 << 20                # bytes of what a function's cases return
STOPS = 3                       # as often a hand-in may stop its process


class Refused(Exception):
    """Why a folder, or a function, cannot be graded."""


def plain(text):
    """A student's text, without what a terminal would obey, and not too long."""
    return "".join(c if c.isprintable() else "?" for c in str(text)[:500])


def receive(pipe, size, deadline):
    """So many bytes of a pipe. Raises Refused when they do not come."""
    found = bytearray()
    while len(found) < size:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise Refused(f"no answer after {SECONDS} seconds: a loop without an end?")
        part = os.read(pipe, min(size - len(found), 1 << 20))
        if not part:
            raise Refused("it ended the process, or used up its memory")
        found += part
    return bytes(found)


def receive_message(pipe, nonce, deadline):
    """(JSON, numbers) that sandbox.py sent. Raises Refused."""
    head = receive(pipe, len(nonce) + 16, deadline)
    sizes = struct.unpack(">QQ", head[len(nonce):])
    if head[:len(nonce)] != nonce or sum(sizes) > REPLY:
        raise Refused("it sent what is no answer, or too much")
    text, numbers = (receive(pipe, size, deadline) for size in sizes)
    try:
        return json.loads(text), numbers
    except (ValueError, RecursionError):
        raise Refused("it sent what is no answer") from None


def received(entry, numbers):
    """An Answer, or what prevented one, in a message. Raises what a forged one makes it raise."""
    if isinstance(entry, str):
        return plain(entry)
    answer = trial.get_answer(entry, numbers)
    return answer._replace(kind=plain(answer.kind))


@contextlib.contextmanager
def student_process(files, cases, names, wrap=()):
    """A function of a deadline that returns the next message of a process with these files, which
    tries functions of these names. The process is killed in the end, with all that it started."""
    ours = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
            if name in os.environ}
    nonce = secrets.token_hex(16).encode()
    with tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True) as place:
        for file, content in files.items():
            path = Path(place, file)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        answers.save(Path(place, "cases.npz"), *cases)
        pipe, theirs = os.pipe()
        process = subprocess.Popen(
            [*wrap, sys.executable, "sandbox.py", str(theirs)], cwd=place, env=kept | ours,
            bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            pass_fds=[theirs], start_new_session=True)
        os.set_blocking(process.stdin.fileno(), False)
        os.close(theirs)
        try:
            try:
                process.stdin.write(nonce + f" {' '.join(names)}\n".encode())
                receive_message(pipe, nonce, time.monotonic() + START)
            except (Refused, BrokenPipeError):             # no student's code has run yet
                os.killpg(process.pid, signal.SIGKILL)
                said = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
                raise RuntimeError(f"the process for students' code does not start: {said[-1:]}")

            def message(deadline, *reply):
                numbers = bytearray()
                data = reply and trial.packed(trial.put_all(reply, numbers), numbers)
                if reply and process.stdin.write(data) != len(data):        # it does not wait
                    raise Refused("it asks and does not listen, or for too much")
                return receive_message(pipe, nonce, deadline)

            yield message
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdin.close()
            process.stderr.close()
            os.close(pipe)


def next_answer(message, asked):
    """A process's answer, once all that it asks for is told. Raises Refused."""
    deadline = time.monotonic() + SECONDS
    got, numbers = message(deadline)
    while "ask" in got:
        got, numbers = message(deadline, *asked(*trial.get_all(got["ask"], numbers)))
    return got, numbers


def answers_of(files, cases, names, wrap=(), asked=None):
    """function -> case -> trial.Answer, or what prevented one, of these functions. asked: what
    trial.ask gets there."""
    found, stops = {}, 0
    while left := [name for name in names if name not in found]:
        try:
            with student_process(files, cases, left, wrap) as message:
                while left:
                    got, numbers = next_answer(message, asked)
                    found[left[0]] = {case: received(entry, numbers)
                                      for case, entry in got.items()}
                    left.pop(0)
        except Refused as problem:
            stops, found[left[0]] = stops + 1, plain(problem)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, MemoryError,
                RecursionError):
            stops, found[left[0]] = stops + 1, "it sent what is no answer"
        if stops == STOPS:
            return found | {name: "not tried: the process had to be stopped too often"
                            for name in left[1:]}
    return found
