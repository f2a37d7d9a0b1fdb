"""The log in lines: what goes on and on is one of them."""

from __future__ import annotations

import numpy as np

from chatkv.insight.diary import Diary
from chatkv.insight.kinds import Touched
from chatkv.kvcache import events as kv
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler import events as sched
from tests.kvcache.lives import compute


class Told:
    """A diary, and how it is told what happens."""

    def __init__(self, keep: int = 100) -> None:
        self.diary = Diary(keep)
        self.log = kv.EventLog(lambda event: self.diary.add([event]))
        self.block = 0

    @property
    def lines(self) -> list[str]:
        return [f"{line.seq} {line.text}" for line in self.diary.lines]

    def blocks(self, count: int = 1) -> kv.Int32Array:
        self.block += count
        return np.arange(self.block - count, self.block, dtype=np.int32)

    def open(self, request: int, session: str) -> None:
        self.log.emit(
            kv.RequestOpened, request=request, session=session, namespace="", prompt_tokens=9, resumed=False
        )

    def take(self, request: int) -> None:
        self.log.emit(kv.BlocksAllocated, request=request, logical=0, blocks=self.blocks())

    def extend(self, node: int, request: int) -> None:
        tokens = np.zeros(16, np.int32)
        self.log.emit(kv.NodeExtended, node=node, tokens=tokens, blocks=self.blocks(), request=request)

    def store(self, node: int, parent: int, request: int) -> None:
        tokens = np.zeros(16, np.int32)
        self.log.emit(
            kv.NodeStored,
            node=node,
            parent=parent,
            namespace="",
            tokens=tokens,
            blocks=self.blocks(),
            request=request,
        )


def test_two_answers_are_two_lines_each_that_stay_where_they_began() -> None:
    told = Told()
    told.diary.session_name = {"a": "rust help", "b": "a poem"}.__getitem__
    told.open(1, "a")
    told.open(2, "b")
    for _ in range(3):
        for request in (1, 2):
            told.take(request)
            told.extend(request + 10, request)
    assert told.lines == [
        "6 node 12 grew by 48 tokens in 3 steps",
        "5 'a poem' took 3 free blocks in 3 steps",
        "4 node 11 grew by 48 tokens in 3 steps",
        "3 'rust help' took 3 free blocks in 3 steps",
        "2 'a poem' starts: 9 prompt tokens",
        "1 'rust help' starts: 9 prompt tokens",
    ]
    newest = told.diary.lines[0]
    assert newest.about == Touched((12,), (3, 7, 11), 2)


def test_what_happens_to_a_node_or_a_request_ends_its_line() -> None:
    told = Told()
    told.open(1, "a")
    told.take(1)
    told.extend(5, 1)
    told.log.emit(kv.NodeSplit, node=5, upper=6, at=8)
    told.extend(5, 1)
    told.take(1)
    told.log.emit(sched.FirstToken, request=1, ttft_s=0.05)
    told.take(1)
    told.extend(5, 1)
    assert [line.split(" ", 1)[1] for line in told.lines] == [
        "'a' took 1 free block",
        "'a' has its first token after 50 ms",
        "node 5 grew by 32 tokens in 2 steps",
        "node 5 split at 8 tokens: two prompts now share its first part, node 6",
        "node 5 grew by 16 tokens",
        "'a' took 2 free blocks in 2 steps",
        "'a' starts: 9 prompt tokens",
    ]


def test_where_each_block_is_a_node_a_chain_is_one_line() -> None:
    told = Told()
    told.open(1, "a")
    told.store(1, 0, 1)
    for node in (2, 3, 4):
        told.take(1)
        told.store(node, node - 1, 1)
    told.store(9, 1, 1)
    assert [line.split(" ", 1)[1] for line in told.lines] == [
        "node 9 stored under node 1 by 'a': 16 tokens in 1 block, now others can reuse them",
        "'a' took 3 free blocks in 3 steps",
        "'a' stored 4 nodes, each under the one before: 64 tokens, now others can reuse them",
        "'a' starts: 9 prompt tokens",
    ]
    assert told.diary.lines[2].about == Touched((4, 3, 2, 1), (0, 2, 4, 6), 1)


def test_an_answer_that_is_given_again_is_a_line_of_what_it_took_and_one_of_what_it_gave_back() -> None:
    told = Told()
    cache = RadixCache(40, 4, log=told.log)
    for request in (1, 2):
        opened = cache.open(request, range(10), session="a")
        assert opened is not None
        told.diary.clear()
        compute(cache, request, list(range(opened.cached, 10)))
        for token in range(10, 32):
            compute(cache, request, [token])
    assert [line.split(" ", 1)[1] for line in told.lines] == [
        "'a' took 5 free blocks in 5 steps",
        "'a' now uses 6 blocks of the tree in place of its own equal ones in 6 steps",
    ]
    about = told.diary.lines[1].about
    assert (len(set(about.blocks)), about.request) == (6 + 6, 2)


def test_a_line_that_went_with_the_oldest_begins_anew() -> None:
    told = Told(keep=2)
    told.take(1)
    for request in (2, 3):
        told.open(request, "x")
    told.take(1)
    assert told.lines == ["4 request 1 took 1 free block", "3 'x' starts: 9 prompt tokens"]


def test_an_engine_that_starts_again_has_requests_of_its_own() -> None:
    told = Told()
    told.open(1, "a")
    told.log.emit(
        kv.CacheCreated, num_blocks=4, block_size=4, cache="radix", eviction="lru", grain="node", strict=False
    )
    told.take(1)
    assert told.lines[0] == "3 request 1 took 1 free block"
