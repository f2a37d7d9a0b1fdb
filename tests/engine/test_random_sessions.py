"""Many sessions opening, asking, stopping and leaving, over a pool so small that eviction never rests."""

from __future__ import annotations

import random

import pytest

from chatkv.engine.messages import Turn
from chatkv.insight.mirror import Mirror
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig, expected


def mirrored(rig: Rig, mirror: Mirror, seen: int) -> int:
    mirror.apply_all(rig.events[seen:])
    cache = rig.cache
    assert (mirror.free, mirror.evictable, mirror.protected) == (cache.free, cache.evictable, cache.protected)
    return len(rig.events)


@pytest.mark.parametrize(
    ("seed", "cache", "strict"), [(0, "radix", False), (1, "radix", True), (2, "none", False)]
)
def test_open_ask_stop_delete(tiny_llama: Tiny, seed: int, cache: str, strict: bool) -> None:
    rng = random.Random(seed)
    rig = Rig(
        tiny_llama.decoder, cache=cache, strict=strict, num_blocks=24, block_size=4, max_batch_tokens=16
    )
    mirror, seen = Mirror(), 0
    sessions: dict[str, list[Turn]] = {}
    running: dict[str, int] = {}
    asked: dict[int, list[int]] = {}
    opened = 0
    for _ in range(400):
        action = rng.random()
        idle = [name for name in sessions if name not in running]
        if action < 0.08 or not sessions:
            opened += 1
            system = " ".join(str(3 + (i * 7 + opened % 3) % 90) for i in range(rng.randrange(1, 20)))
            sessions[f"s{opened}"] = [Turn("system", system)]
        elif action < 0.3 and idle:
            name = rng.choice(idle)
            words = " ".join(str(rng.randrange(3, 97)) for _ in range(rng.randrange(1, 8)))
            sessions[name].append(Turn("user", words))
            running[name] = rig.ask(sessions[name], name, max_tokens=rng.randrange(1, 12))
            asked[running[name]] = rig.core.codec.encode_chat(sessions[name])
        elif action < 0.36 and running:
            rig.core.stop(rng.choice(list(running.values())))
            rig.take()
        elif action < 0.4 and idle:
            del sessions[rng.choice(idle)]
        else:
            rig.step()
        rig.cache.check_integrity()
        for name, id in list(running.items()):
            if id in rig.finished:
                done = rig.finished[id]
                del running[name]
                if done.reason == "refused":
                    del sessions[name]
                else:
                    sessions[name].append(Turn("assistant", done.text, done.token_ids))
        seen = mirrored(rig, mirror, seen)
    rig.run()
    mirrored(rig, mirror, seen)
    assert mirror.check() == []
    assert mirror.gaps == []
    reasons = {done.reason for done in rig.finished.values()}
    assert {"length", "aborted"} <= reasons
    if cache == "radix":
        assert mirror.totals.evictions > 0
    for id, done in rig.finished.items():
        if done.reason != "refused" and done.token_ids:
            assert list(done.token_ids) == expected(tiny_llama.reference, asked[id], len(done.token_ids))
    assert rig.cache.clear()
    assert rig.cache.free == rig.cache.num_blocks
