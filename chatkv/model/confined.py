"""Work on what a download says, in a process of its own with limits of time and memory.

A chat template is a program, and a tokenizer is described by rules that may multiply a text or never end. In
C or Rust such work holds the interpreter, or ends the process: so it is done where it can be ended, and the
screen stays alive meanwhile.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from chatkv import children
from chatkv.files import MIB
from chatkv.model.errors import LimitError, ModelError

PATIENCE = 12
"""Seconds by the clock for each one of processor time: other processes may have the cores."""
MAX_ANSWER = 1 << 30
_DYING_S = 1.0
"""What it wrote to is closed before it is over."""
_HEAD = struct.Struct("<QI")
_SIZE = struct.Struct("<Q")
_PER_BYTE = 20
"""Bytes of memory for each one of a question."""


class Confined:
    """A process that runs ``serve`` in ``module`` and answers one question after another.

    It is started by the first one, and anew where it had to be ended. Any thread may ask. ``doing`` names
    what it does in messages: ``the model's chat template``.
    """

    def __init__(self, module: str, doing: str) -> None:
        self._module, self._doing = module, doing
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(self) -> None:
        """Have the process ready for a question; returns at once. Raises ModelError where there is none."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        try:
            self._process = subprocess.Popen(
                children.module(self._module),
                cwd="/",
                env=children.environment(PYTHONPATH=""),  # nothing of it is run before the limits
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # ctrl+c in a terminal is for chatkv
            )
        except OSError as error:
            raise ModelError(
                f"no process for {self._doing} can be started: {error.strerror or error}"
            ) from None
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

    def ask(self, question: object, cpu_s: int) -> Any:
        """The answer to ``question`` (both JSON), for which it has ``cpu_s`` seconds of processor time.

        Raises ModelError that ``answer`` raised there, and LimitError where it takes too much or dies.
        """
        data = json.dumps(question).encode()
        with self._lock:
            self.start()
            process = self._process
            assert process is not None
            try:
                told = _exchange(process, _HEAD.pack(len(data), cpu_s) + data, PATIENCE * cpu_s)
                if told is None:
                    why = _end(_ended(process), cpu_s)
                    raise LimitError(f"{self._doing} {why}: use another model")
            except BaseException:
                self.close()  # else its answer would be taken for that of the next question
                raise
        answer = json.loads(told)
        if "limit" in answer:
            raise LimitError(answer["limit"])
        if "memory" in answer:
            raise LimitError(
                f"{self._doing} takes more than {answer['memory']} MiB of memory: use another model"
            )
        if "error" in answer:
            raise ModelError(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _exchange(process: subprocess.Popen[bytes], data: bytes, wait_s: float) -> bytes | None:
    """Send ``data`` and receive an answer; None where there is none in time, or the process died."""
    assert process.stdin is not None
    assert process.stdout is not None
    to, back = process.stdin.fileno(), process.stdout.fileno()
    waits = select.poll()
    waits.register(back, select.POLLIN)
    waits.register(to, select.POLLOUT)
    until = time.monotonic() + wait_s
    received = bytearray()
    wanted, sent = _SIZE.size, 0
    while len(received) < wanted:
        left = until - time.monotonic()
        if left <= 0 or not waits.poll(1000 * left):
            return None
        try:
            if sent < len(data):
                sent += os.write(to, memoryview(data)[sent : sent + MIB])
                if sent == len(data):
                    waits.unregister(to)
            chunk = os.read(back, MIB)
        except BlockingIOError:
            continue
        except BrokenPipeError:
            return None
        if not chunk:
            return None
        received += chunk
        if wanted == _SIZE.size <= len(received):
            wanted += _SIZE.unpack_from(received)[0]
            if wanted > MAX_ANSWER:
                return None
    return bytes(received[_SIZE.size :])


def _ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that gives no answer: its own where it is dying, else that of a kill."""
    try:
        return process.wait(_DYING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _end(code: int, cpu_s: int) -> str:
    """Why a process ended with ``code``, as far as that tells."""
    if code == -signal.SIGXCPU:
        return f"takes more than {cpu_s} s of processor time"
    if code == -signal.SIGKILL:
        return f"gives no answer in {PATIENCE * cpu_s} s, or takes too much memory"
    return f"breaks the process that works on it ({signal.Signals(-code).name if code < 0 else code})"


def serve(answer: Callable[[Any], Any], memory: int) -> None:
    """Answer questions on standard input with ``answer`` until it ends; called in the process itself.

    ``memory``: bytes of address space it may have, beside some for each byte of a question.
    """
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while head := questions.read(_HEAD.size):
        size, cpu_s = _HEAD.unpack(head)
        room = memory + _PER_BYTE * size
        _allow(resource.RLIMIT_AS, room)
        used = time.process_time()
        _allow(resource.RLIMIT_CPU, int(used) + 1 + cpu_s)
        try:
            told = {"answer": answer(json.loads(questions.read(size)))}
        except LimitError as error:
            told = {"limit": str(error)}
        except ModelError as error:
            told = {"error": str(error)}
        except MemoryError:
            told = {"memory": room >> 20}
        data = json.dumps(told).encode()
        answers.write(_SIZE.pack(len(data)) + data)
        answers.flush()


def _allow(what: int, amount: int) -> None:
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        amount = min(amount, hard)
    with suppress(OSError, ValueError):  # some systems have no such limit
        resource.setrlimit(what, (amount, hard))
