"""Replay a trace of requests through the cache core, and compare what caches of several sizes hit.

    python examples/replay_trace.py [TRACE.jsonl]

A trace is a JSON object a line: ``{"session": "a", "turn": 0, "prompt": [ids], "output": [ids]}``, or
Mooncake's form. Without one, a small workload is made up: chats that share a system prompt.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

from chatkv.bench.trace import run_trace
from chatkv.kvcache.kinds import make_cache


def made_up(path: Path, sessions: int = 12, turns: int = 4) -> None:
    """Write a trace: every chat begins with one of three system prompts, and goes on from its own history."""
    rng = random.Random(0)
    systems = [[rng.randrange(1000) for _ in range(64)] for _ in range(3)]
    history = [list(systems[session % 3]) for session in range(sessions)]
    with path.open("w") as file:
        for turn in range(turns):
            for session in range(sessions):
                history[session] += [rng.randrange(1000) for _ in range(20)]
                answer = [rng.randrange(1000) for _ in range(12)]
                line = {"session": f"s{session}", "turn": turn, "prompt": history[session], "output": answer}
                file.write(json.dumps(line) + "\n")
                history[session] += answer


def main(trace: Path) -> None:
    print(f"{'cache':8}{'blocks':>8}{'hit rate':>10}{'evicted':>9}")
    for blocks in (40, 80, 160):
        for kind in ("radix", "hash"):
            result = run_trace(make_cache(kind, blocks, 16), trace)
            print(f"{kind:8}{blocks:8}{result.hit_tokens / result.tokens:10.1%}{result.evicted_blocks:9}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            made_up(Path(folder) / "trace.jsonl")
            main(Path(folder) / "trace.jsonl")
