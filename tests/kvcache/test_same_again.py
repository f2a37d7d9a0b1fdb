"""What is computed once more although it is cached: it leaves the tree as it is, and is kept once."""

from __future__ import annotations

import random

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.cache import REASONS
from chatkv.kvcache.events import BlocksFreed, Event, EventLog, NodeSplit, NodeStored, RowRepointed
from chatkv.kvcache.radix_cache import RadixCache
from tests.kvcache.lives import Watched
from tests.kvcache.memory import Memory, content

PROMPT = list(range(100, 110))
ANSWER = list(range(500, 522))
OTHER = list(range(900, 922))
WHOLE = [*PROMPT[8:], *ANSWER]  # the node of the answer begins with the block that it shares with the prompt


def answered(num_blocks: int = 40, *, strict: bool = False) -> Watched:
    """A prompt of 10 tokens and its answer of 22, in blocks of 4: [8] and [24] tokens."""
    life = Watched(num_blocks, 4, strict=strict)
    life.whole(1, PROMPT, ANSWER, session="a")
    assert life.nodes == [(PROMPT[:8], 0), (WHOLE, 0)]
    return life


def mirror_of(life: Watched) -> Mirror:
    mirror = Mirror()
    mirror.apply_all(life.events)
    assert mirror.check() == []
    return mirror


def kinds(life: Watched, *wanted: type[Event]) -> list[str]:
    return [type(event).__name__ for event in life.events if isinstance(event, wanted)]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("length", [22, 21, 20, 19, 14, 3, 2, 1, 0])
def test_the_same_answer_again_leaves_the_tree_as_it_is(strict: bool, length: int) -> None:
    life = answered(strict=strict)
    counts = life.counts
    life.events.clear()
    life.whole(2, PROMPT, ANSWER[:length], session="a")
    assert life.nodes == [(PROMPT[:8], 0), (WHOLE, 0)]
    assert life.counts == counts
    assert kinds(life, NodeSplit, NodeStored) == []


def test_its_row_names_the_blocks_of_the_tree_before_its_own_are_freed() -> None:
    life = answered()
    (kept,) = [node.blocks.tolist() for node in life.cache.tree.walk() if node.num_tokens == 24]
    life.open(2, PROMPT)
    life.compute(2, PROMPT[len(life.cache.row(2).tokens) :])
    life.events.clear()
    for token in ANSWER[:14]:
        life.compute(2, [token])
    assert life.cache.row(2).blocks.array[2:].tolist() == kept[:4]
    repointed = [event for event in life.events if isinstance(event, RowRepointed)]
    freed = [event for event in life.events if isinstance(event, BlocksFreed)]
    assert [event.new.tolist() for event in repointed] == [[block] for block in kept[:4]]
    assert [event.blocks.tolist() for event in freed] == [event.old.tolist() for event in repointed]
    assert [after.seq - before.seq for before, after in zip(repointed, freed, strict=True)] == [1] * 4
    assert life.counts == (32, 0, 8)  # all of the node is locked
    assert life.cache.room == 34  # of which it uses two blocks less


@pytest.mark.parametrize("same", range(22))
def test_an_answer_that_turns_out_other_cuts_the_node_once(same: int) -> None:
    life = answered()
    life.events.clear()
    life.whole(2, PROMPT, [*ANSWER[:same], *OTHER[: 22 - same]], session="a")
    at = (2 + same) // 4 * 4  # whole blocks of the node
    parted = [*WHOLE[: 2 + same], *OTHER[: 22 - same]][at:]
    upper = [(WHOLE[:at], 0)] if at else []
    assert life.nodes == sorted([(PROMPT[:8], 0), *upper, (WHOLE[at:], 0), (parted, 0)])
    assert kinds(life, NodeSplit) == ["NodeSplit"] * len(upper)


@pytest.mark.parametrize(("same", "length"), [(12, 14), (9, 10), (20, 21)])
def test_one_that_ends_in_the_block_where_it_parts_keeps_its_end(same: int, length: int) -> None:
    life = answered()
    life.whole(2, PROMPT, [*ANSWER[:same], *OTHER[: length - same]])
    assert life.cache.peek([*PROMPT, *ANSWER[:same], *OTHER[: length - same], 1]) == 10 + length
    assert life.cache.peek([*PROMPT, *ANSWER, 1]) == 32


def test_what_it_said_again_was_used_last() -> None:
    life = answered()
    life.whole(2, OTHER[:9])
    life.whole(3, PROMPT, ANSWER[:8])
    first = life.cache.tree.leaves.first()
    assert first is not None
    assert first.tokens[0] >= 900


def test_what_it_does_not_use_is_evicted_where_room_is_short() -> None:
    life = answered(10)
    life.open(2, PROMPT)
    life.compute(2, PROMPT[len(life.cache.row(2).tokens) :])
    for token in ANSWER[:6]:
        life.compute(2, [token])
    assert life.counts == (2, 0, 8)
    looks = (life.nodes, len(life.events))
    assert life.cache.open(3, OTHER[:17], headroom=2) is None  # four of the eight are in use
    assert (life.nodes, len(life.events)) == looks
    life.open(3, OTHER[:17])
    assert not life.cache.grow(3, 25)
    life.compute(3, OTHER[:17])
    assert life.cache.peek([*PROMPT, *ANSWER]) == 16
    life.compute(2, ANSWER[6:8])
    for request in (2, 3):
        life.close(request)
    assert life.counts[2] == 0


def test_what_a_prompt_would_use_is_no_room_for_it() -> None:
    life = answered(9)
    life.open(2, PROMPT)
    life.compute(2, PROMPT[len(life.cache.row(2).tokens) :])
    for token in ANSWER[:2]:
        life.compute(2, [token])
    assert (life.counts, life.cache.room) == ((1, 0, 8), 6)
    assert life.cache.open(3, [*PROMPT, *ANSWER, 1], headroom=1) is None  # all is cached but its last token
    assert life.cache.open(3, [*PROMPT, *ANSWER[:10], 1], headroom=4) is None
    assert life.cache.open(3, [*PROMPT, *ANSWER[:10], 1], headroom=3) is not None
    assert (life.counts, life.cache.room) == ((1, 0, 8), 4)
    assert life.cache.grow(3, 32)
    life.cache.check_integrity()


def test_answers_that_are_the_same_at_once_are_one_node() -> None:
    life = Watched(60, 4, strict=False)
    for request in (1, 2, 3):
        life.open(request, PROMPT)
        life.compute(request, PROMPT[len(life.cache.row(request).tokens) :])
    for token in ANSWER[:18]:
        for request in (1, 2, 3):
            life.compute(request, [token])
    assert life.nodes == [(PROMPT[:8], 3), (WHOLE[:20], 3)]
    assert life.counts == (60 - 7, 0, 7)
    life.compute(1, ANSWER[18:])
    assert life.nodes == [(PROMPT[:8], 3), (WHOLE, 3)]
    life.compute(2, OTHER[:4])
    assert life.nodes == sorted([(PROMPT[:8], 3), (WHOLE[:20], 3), (WHOLE[20:], 2), (OTHER[:4], 1)])
    life.close(1)
    assert life.cache.room == 60 - 8  # the third one's lock still reaches further than it has come
    for request in (2, 3):
        life.close(request)
    assert [locks for _, locks in life.nodes] == [0] * 4
    assert life.counts == (60 - 9, 9, 0)


def test_what_a_prompt_started_with_does_not_grow_with_another() -> None:
    life = Watched(60, 4, strict=False)
    life.open(1, PROMPT[:8])
    life.compute(1, PROMPT[:8])
    for token in ANSWER[:8]:
        life.compute(1, [token])
    life.open(2, [*PROMPT[:8], *ANSWER[:8], 1])
    for token in ANSWER[8:12]:
        life.compute(1, [token])
    assert life.nodes == sorted([(PROMPT[:8], 2), (ANSWER[:8], 2), (ANSWER[8:12], 1)])


def test_what_a_fork_started_with_does_not_grow_with_the_other() -> None:
    life = Watched(60, 4, strict=False)
    life.open(1, PROMPT[:8])
    life.compute(1, PROMPT[:8])
    for token in ANSWER[:8]:
        life.compute(1, [token])
    assert life.cache.fork(1, 2) is not None
    for token in ANSWER[8:12]:
        life.compute(1, [token])
    assert life.nodes == sorted([(PROMPT[:8], 2), (ANSWER[:8], 2), (ANSWER[8:12], 1)])


def test_a_fork_of_one_that_ends_inside_a_node_locks_no_more_than_it_uses() -> None:
    life = answered()
    life.open(2, PROMPT)
    life.compute(2, PROMPT[len(life.cache.row(2).tokens) :])
    for token in ANSWER[:6]:
        life.compute(2, [token])
    life.open(3, [*PROMPT, *ANSWER[:10], 1])  # cuts the node behind where the second one is, who locks it all
    assert life.nodes == sorted([(PROMPT[:8], 2), (WHOLE[:12], 2), (WHOLE[12:], 1)])
    assert life.cache.fork(2, 4) is not None
    life.cache.check_integrity()
    assert life.nodes == sorted([(PROMPT[:8], 3), (WHOLE[:12], 3), (WHOLE[12:], 1)])


def test_a_fork_has_the_room_that_is_locked_for_no_use() -> None:
    life = answered(10)
    life.open(2, PROMPT)
    life.compute(2, PROMPT[len(life.cache.row(2).tokens) :])
    for token in ANSWER[:3]:
        life.compute(2, [token])
    life.open(3, OTHER[:1])
    life.compute(3, OTHER[:1])
    assert (life.counts, life.cache.room) == ((0, 0, 10), 5)
    (copy,) = life.cache.fork(2, 4) or ()
    assert copy.tokens == 1
    life.cache.check_integrity()
    assert life.cache.peek([*PROMPT, *ANSWER]) == 12  # what nobody used gave way


def test_a_prompt_that_is_computed_again_leaves_the_tree_as_it_is() -> None:
    life = Watched(60, 4, strict=False)
    life.whole(1, [*PROMPT, *ANSWER])
    before = life.nodes
    life.cache.open(2, [*PROMPT, *ANSWER], reuse=False)
    for at in range(0, 32, 5):
        life.compute(2, [*PROMPT, *ANSWER][at : at + 5])
    life.close(2)
    assert life.nodes == before


def test_what_was_computed_before_it_gave_way_grows_only_while_it_is_locked() -> None:
    life = Watched(60, 4, strict=False)
    said = [*PROMPT, *ANSWER]
    life.cache.open(1, said, reuse=False)
    life.compute(1, said[:16])
    life.close(1, "preempted")
    life.cache.open(1, said, resumed=True, reuse=False)
    life.compute(1, said)
    assert life.counts == (60 - 8, 0, 8)
    life.close(1)
    assert life.counts == (60 - 8, 8, 0)


@pytest.mark.parametrize("length", range(1, 23))
def test_a_conversation_that_was_answered_again_is_not_left_behind(length: int) -> None:
    life = Watched(60, 4, strict=False)
    life.whole(1, PROMPT, ANSWER[:length], session="a")
    life.whole(2, PROMPT, ANSWER[:length], session="a")
    mirror = mirror_of(life)
    assert [node.id for node in mirror.nodes.values() if mirror.left_behind(node)] == []


def test_another_session_that_said_the_same_uses_the_node() -> None:
    life = answered()
    life.whole(2, PROMPT, ANSWER, session="b")
    mirror = mirror_of(life)
    assert {frozenset(node.sessions) for node in mirror.nodes.values() if node.id} == {frozenset("ab")}


class Tightened(RadixCache):
    """Counts how often locks had to be tightened, and sees to it that this gave what was promised."""

    times = 0

    def _tighten(self) -> None:
        promised = self.room
        super()._tighten()
        assert self.free + self.evictable == self.room == promised
        self.times += 1


@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("seed", range(4))
def test_requests_that_all_say_nearly_the_same_in_a_small_pool(block_size: int, seed: int) -> None:
    rng = random.Random(seed)
    mirror = Mirror()
    cache = Tightened(20, block_size, strict=seed % 2 == 0, log=EventLog(mirror.apply))
    memory, script = Memory(cache), [rng.randrange(3) for _ in range(14 * block_size)]
    live: dict[int, list[int]] = {}
    for request in range(150):
        prompt = [*script[: rng.randrange(1, 8 * block_size)], *([9] if rng.random() < 0.2 else [])]
        opened = cache.open(request, prompt, reuse=rng.random() < 0.7)
        if opened is not None:
            memory.copy(opened.copies)
            live[request] = prompt
        while len(live) > 3 or (live and rng.random() < 0.7):
            chosen = rng.choice(list(live))
            tokens, done = live[chosen], len(cache.row(chosen).tokens)
            if done == len(tokens):
                tokens += script[done : done + 2] if rng.random() < 0.95 else [8]
            upto = min(len(tokens), done + rng.randrange(1, 3 * block_size))
            if upto == done or rng.random() < 0.05 or not cache.grow(chosen, upto):
                cache.close(chosen, rng.choice(REASONS))
                del live[chosen]
            else:
                memory.write(chosen, done, content(tokens)[done:upto])
                cache.commit(chosen, tokens[done:upto])
            cache.check_integrity()
            assert mirror.check() == []
            for other, said in live.items():
                assert memory.read(other) == content(said)[: len(cache.row(other).tokens)]
    assert cache.times
