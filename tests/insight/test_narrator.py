"""The caption: which event of a moment it tells, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatkv.insight.kinds import KINDS
from chatkv.insight.mirror import Mirror
from chatkv.insight.narrator import HOLD_S, Narrator, Sentence, weigh
from chatkv.kvcache import events as kv
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler import events as sched
from tests.insight.streams import Stream, ints

GONE: dict[str, Any] = {"strategy": "lru", "rank": 1, "age": 9, "request": None, "reason": "room"}


def sentence(seq: int, weight: int) -> Sentence:
    return Sentence(seq, weight, kv.Event, f"{seq}:{weight}")


Moments = st.lists(st.tuples(st.floats(0, 2.0), st.one_of(st.none(), st.integers(0, 4))), max_size=30)
"""(seconds since the last one, weight of what happens or None: only time goes by)"""


@given(Moments)
def test_a_sentence_is_held_unless_something_more_important_happens(moments: list[Any]) -> None:
    narrator, now = Narrator(), 100.0
    begun, shown = now, None
    newest = 0
    for seq, (passed, weight) in enumerate(moments, 1):
        now += passed
        before = narrator.shown
        if weight is None:
            narrator.tick(now)
        else:
            narrator.offer(sentence(seq, weight), now)
            newest = seq
            assert narrator.shown is not None
        if narrator.shown is not before:
            assert narrator.shown is not None
            if before is not None:
                assert narrator.shown.seq > before.seq, "what is told goes forwards"
                assert now - begun >= HOLD_S or narrator.shown.weight > before.weight
            begun, shown = now, narrator.shown
        assert narrator.shown is shown
    narrator.tick(now + 2 * HOLD_S)  # more than once: sums of floats are rounded
    last = narrator.shown
    if newest:
        assert last is not None
        behind = [w for seq, (_, w) in enumerate(moments, 1) if w is not None and seq > last.seq]
        assert all(w < last.weight for w in behind), "nothing as important as it is left untold behind it"


def test_a_clock_set_back_holds_nothing_for_ever() -> None:
    narrator = Narrator()
    narrator.offer(sentence(1, 5), 1000.0)
    narrator.offer(sentence(2, 1), 10.0)
    assert narrator.shown == sentence(2, 1)


@given(
    st.lists(
        st.sampled_from([kind for kind, told in KINDS.items() if told.weight is not None]),
        min_size=1,
        max_size=8,
    )
)
def test_of_a_step_the_weightiest_and_of_those_the_newest_is_told(kinds: list[type[kv.Event]]) -> None:
    stream = Stream()
    events = [example(kind, seq) for seq, kind in enumerate(kinds, 2)]
    narrator = Narrator()
    narrator.hear(events, stream.mirror, 0.0)
    best = max(events, key=lambda e: (weigh(e) or 0, e.seq))
    assert narrator.shown is not None
    assert (narrator.shown.seq, narrator.shown.kind) == (best.seq, type(best))
    assert narrator.shown.text


def example(kind: type[kv.Event], seq: int) -> kv.Event:
    """One of ``kind`` with some value in each field."""
    values: dict[str, Any] = {}
    for name, annotation in _fields(kind).items():
        values[name] = {
            "int": 1,
            "str": "x",
            "bool": True,
            "float": 0.5,
            "float | None": 0.5,
            "Int32Array": ints(1),
            "tuple[int, ...]": (1,),
            "int | None": 1,
        }[annotation]
    return kind(**{**values, "seq": seq})


def _fields(kind: type[kv.Event]) -> dict[str, str]:
    return {k: v for base in kind.__mro__ for k, v in getattr(base, "__annotations__", {}).items()}


def test_two_chats_that_share_a_beginning_are_named() -> None:
    mirror, events = Mirror(), []
    cache = RadixCache(64, 4, log=kv.EventLog(lambda e: (mirror.apply(e), events.append(e))))
    names = {"s1": "rust help", "s2": "poem\x1b[2J"}
    narrator = Narrator()
    narrator.session_name = names.__getitem__
    _ask(cache, 1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], "s1")
    narrator.hear(events, mirror, 0.0)
    events.clear()
    _ask(cache, 2, [1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 22, 23, 24], "s2")
    narrator.hear(events, mirror, 10.0)
    assert narrator.shown is not None
    assert narrator.shown.text == "'rust help' and 'poem␛[2J' share their first 8 tokens: node split in two"
    narrator.tick(13.0)
    # What came behind it in the same step, once it was read.
    assert narrator.shown.text.startswith("'poem␛[2J' reused 8 tokens in 1 node")


def told(narrator: Narrator, events: list[kv.Event], mirror: Mirror, now: float) -> list[str]:
    """All that is told of these, one after the other."""
    narrator.hear(events, mirror, now)
    out = []
    for later in range(0, 30, 5):
        narrator.tick(now + later)
        assert narrator.shown is not None
        if not out or narrator.shown.text != out[-1]:
            out.append(narrator.shown.text)
    return out


@pytest.mark.parametrize("session", ["s1", "s2"])
def test_what_was_copied_is_reused_as_under_the_answer(session: str) -> None:
    """A block that is the same in part is copied: told as a part of one number, and not once more."""
    mirror, events = Mirror(), []
    cache = RadixCache(64, 4, log=kv.EventLog(lambda e: (mirror.apply(e), events.append(e))))
    narrator = Narrator()
    _ask(cache, 1, list(range(1, 14)), "s1")
    events.clear()
    opened = cache.open(2, [*range(1, 12), 20, 21, 22], session=session)
    assert opened is not None
    assert (opened.cached, opened.copied) == (11, 3)
    who = "'s1' went another way behind its" if session == "s1" else "'s1' and 's2' share their"
    part = "3 copied from a part of a block"
    assert told(narrator, events, mirror, 0.0) == [
        f"{who} first 11 tokens: node split in two at 8, {part}",
        f"'{session}' reused 11 tokens: 8 in whole blocks, {part}",
    ]
    view = mirror.requests[2]
    figures = pytest.importorskip("chatkv.tui.chat.figures", reason="the line under an answer needs Textual")
    assert figures.answer_parts({"cached": view.cached, "copied": view.copied}, 0) == ["reused 11 (3 copied)"]


def test_what_only_one_of_them_has_is_not_shared_by_both() -> None:
    mirror, events = Mirror(), []
    cache = RadixCache(64, 4, log=kv.EventLog(lambda e: (mirror.apply(e), events.append(e))))
    narrator = Narrator()
    _ask(cache, 1, list(range(1, 14)), "s1")
    _ask(cache, 2, [*range(1, 9), *range(30, 36)], "s2")
    events.clear()
    opened = cache.open(3, [*range(1, 7), 40, 41], session="s2")
    assert opened is not None
    assert (opened.cached, opened.copied) == (6, 2)
    share, reuse = told(narrator, events, mirror, 0.0)
    assert (
        share
        == "'s1' and 's2' share their first 6 tokens: node split in two at 4, 2 copied from a part of a block"
    )
    assert reuse == "'s2' reused 6 tokens: 4 in whole blocks, 2 copied from a part of a block"


def test_a_chat_that_leaves_its_own_way() -> None:
    mirror, events = Mirror(), []
    cache = RadixCache(64, 4, log=kv.EventLog(lambda e: (mirror.apply(e), events.append(e))))
    narrator = Narrator()
    _ask(cache, 1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], "s1")
    _ask(cache, 2, [1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 22, 23, 24], "s1")
    narrator.hear(events, mirror, 0.0)
    assert narrator.shown is not None
    assert narrator.shown.text == "'s1' went another way behind its first 8 tokens: node split in two"


def _ask(cache: RadixCache, request: int, prompt: list[int], session: str) -> None:
    opened = cache.open(request, prompt, session=session)
    assert opened is not None
    assert cache.grow(request, len(prompt))
    cache.commit(request, prompt[opened.cached :])
    cache.close(request, "finished")


def test_many_evictions_are_one_sentence() -> None:
    narrator, mirror = Narrator(), Mirror()
    gone = [kv.NodeEvicted(seq=n, node=n, tokens=8, blocks=ints(n, n + 10), **GONE) for n in (1, 2, 3)]
    narrator.hear(gone, mirror, 0.0)
    assert narrator.shown is not None
    told = (
        "3 nodes evicted, least recently used first: 6 blocks free again, their tokens must be computed anew"
    )
    assert (narrator.shown.seq, narrator.shown.text) == (3, told)


def test_what_gave_way_to_its_like_weighs_little() -> None:
    same = kv.NodeEvicted(seq=1, node=1, tokens=8, blocks=ints(1), **(GONE | {"reason": "superseded"}))
    stored = example(kv.NodeStored, 2)
    assert (weigh(same) or 0) < (weigh(stored) or 0)
    assert weigh(sched.StepDone(seq=1, step=1, step_s=1, forward_s=1)) is None


def test_a_new_cache_begins_anew() -> None:
    stream = Stream()
    narrator = Narrator()
    narrator.hear([sched.RequestRefused(seq=90, request=1, session="a", reason="long")], stream.mirror, 0.0)
    narrator.hear(stream.events, stream.mirror, 0.1)
    assert narrator.shown is not None
    assert narrator.shown.text == "an empty cache: 8 blocks of 2 tokens each"
