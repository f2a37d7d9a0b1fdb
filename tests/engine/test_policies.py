"""A random schedule of many sessions gives each the same text as alone, whatever the queue's policy."""

from __future__ import annotations

import random

import pytest

from chatkv.engine.messages import Turn
from chatkv.scheduler import events as ev
from chatkv.scheduler.names import POLICIES
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig

SESSIONS, TURNS = 9, 2


def script(rng: random.Random, session: int) -> list[str]:
    """A system prompt that a third of the sessions share, then questions."""
    group = session % 3
    system = [3 + (i * 7 + group) % 90 for i in range(36)]
    questions = [[rng.randrange(3, 97) for _ in range(rng.randrange(1, 12))] for _ in range(TURNS)]
    return [" ".join(map(str, part)) for part in (system, *questions)]


def options(session: int, turn: int) -> dict[str, float]:
    seed = 100 * session + turn
    return {
        "max_tokens": 3 + seed % 8,
        "temperature": 0.9 * (seed % 2),
        "seed": seed,
        "priority": seed % 5 - 2,
    }


@pytest.fixture(scope="module")
def alone(tiny_llama: Tiny) -> dict[tuple[int, int], tuple[int, ...]]:
    """Every answer, with the engine to itself and no cache."""
    out = {}
    for session in range(SESSIONS):
        system, *questions = script(random.Random(session), session)
        turns = [Turn("system", system)]
        for turn, question in enumerate(questions):
            rig = Rig(tiny_llama.decoder, cache="none")
            turns.append(Turn("user", question))
            id = rig.ask(turns, **options(session, turn))
            rig.run()
            out[session, turn] = rig.finished[id].token_ids
            turns.append(Turn("assistant", rig.finished[id].text, rig.finished[id].token_ids))
    return out


@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
@pytest.mark.parametrize("policy", POLICIES)
def test_each_session_says_what_it_says_alone(
    tiny_llama: Tiny, alone: dict[tuple[int, int], tuple[int, ...]], policy: str, cache: str
) -> None:
    rng = random.Random(f"{policy} {cache}")
    rig = Rig(
        tiny_llama.decoder,
        cache=cache,
        num_blocks=44,
        max_batch_tokens=24,
        policy=policy,
        max_overtaken=3,
        max_running=5,
        admission=rng.choice(("prompt", "ratio")),
    )
    talks = {s: script(random.Random(s), s) for s in range(SESSIONS)}
    turns = {s: [Turn("system", talks[s][0])] for s in talks}
    running: dict[int, int] = {}
    said: dict[tuple[int, int], tuple[int, ...]] = {}
    while len(said) < SESSIONS * TURNS:
        free = [s for s in talks if s not in running and len(turns[s]) // 2 < TURNS]
        if free and rng.random() < 0.5:
            session = rng.choice(free)
            turn = len(turns[session]) // 2
            turns[session].append(Turn("user", talks[session][1 + turn]))
            running[session] = rig.ask(turns[session], f"s{session}", **options(session, turn))
        elif rig.core.has_work:
            rig.step()
        for session, id in list(running.items()):
            if id in rig.finished:
                done = rig.finished[id]
                assert done.reason == "length", done.message
                said[session, len(turns[session]) // 2 - 1] = done.token_ids
                turns[session].append(Turn("assistant", done.text, done.token_ids))
                del running[session]
    rig.run()
    assert said == alone
    waited = [event for event in rig.events if isinstance(event, ev.QueueOrdered)]
    assert waited, "someone had to wait"
    assert max(e.overtaken for e in rig.events if isinstance(e, ev.RequestAdmitted)) <= 3
    assert rig.cache.clear()
    assert rig.cache.free == 44


def test_a_larger_priority_is_answered_first(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, max_running=1)
    ids = [rig.ask([Turn("user", "5")], max_tokens=2, priority=priority) for priority in (0, -1, 3)]
    rig.run()
    assert list(rig.finished) == [ids[2], ids[0], ids[1]]
