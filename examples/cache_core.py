"""The radix cache alone: no model, no torch. A split, a hit and an eviction, as its events tell them.

python examples/cache_core.py
"""

from __future__ import annotations

from chatkv import EventLog, Mirror, RadixCache, Snapshot
from chatkv.insight.export import export_snapshot


def serve(cache: RadixCache, request: int, prompt: list[int], answer: list[int]) -> int:
    """Take a request through its life, as an engine does; returns the tokens it need not compute."""
    opened = cache.open(request, prompt, session=f"chat {request}")
    if opened is None:
        raise SystemExit(f"request {request} does not fit beside those that run")
    # ``opened.copies`` are slots that an engine copies now; then it computes the rest of the prompt.
    written = [*prompt, *answer[:-1]]  # the KV of the last sampled token does not exist yet
    cache.grow(request, len(written))
    cache.commit(request, written[opened.cached :])
    cache.close(request, "finished")
    return opened.cached


def main() -> None:
    mirror = Mirror()
    cache = RadixCache(num_blocks=12, block_size=4, log=EventLog(mirror.apply))

    system = list(range(100, 116))
    for request, question in enumerate(([1, 2, 3, 4, 5], [1, 2, 9, 9, 9], [7, 7, 7, 7, 7]), start=1):
        reused = serve(cache, request, [*system, *question], [50, 51, 52])
        print(f"request {request}: {reused} of {len(system) + len(question)} tokens reused")
        cache.check_integrity()

    reused = serve(cache, 4, list(range(200, 230)), [50, 51])
    evicted = mirror.totals.evicted_blocks
    print(f"request 4 shares nothing ({reused} reused): {evicted} blocks were evicted for it")
    print(export_snapshot(Snapshot.from_mirror(mirror), "text"))


if __name__ == "__main__":
    main()
