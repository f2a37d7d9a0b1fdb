"""Tens of thousands of tiny requests through the engine's own thread and all that follows it, and what is
kept of them: counted in objects and bytes, never in time."""

from __future__ import annotations

import ctypes
import gc
import queue
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Batch, EngineMessage, Failed, GenerateRequest, Measured, Ready, Sampling
from chatkv.engine.thread import Engine
from chatkv.insight.diary import Diary
from chatkv.insight.narrator import Narrator
from chatkv.insight.patrol import Patrol
from chatkv.tui.feed import Feed

OPEN = 48
"""Requests on their way at once: more than the pool holds."""


class Kept(NamedTuple):
    """What the process holds while nothing is on its way."""

    objects: int
    """That the garbage collector knows."""
    blocks: int
    """Small ones of Python's own allocator, numbers and texts among them."""
    malloc: int
    """Bytes of the C library's, arrays and tensors among them; 0 where it does not tell."""

    @classmethod
    def now(cls) -> Kept:
        gc.collect()
        return cls(len(gc.get_objects()), sys.getallocatedblocks(), _malloc())

    def __sub__(self, other: Kept) -> Kept:
        return Kept(*(now - then for now, then in zip(self, other, strict=True)))


class _Info(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks")),
        *((name, ctypes.c_size_t) for name in ("fsmblks", "uordblks", "fordblks", "keepcost")),
    )


def _malloc() -> int:
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return 0
    library.malloc_trim(0)
    library.mallinfo2.restype = _Info
    info = library.mallinfo2()
    return int(info.uordblks + info.hblkhd)


class Soak:
    """An engine, and a screen's picture without a screen."""

    def __init__(self, config: EngineConfig) -> None:
        self._said: queue.SimpleQueue[EngineMessage] = queue.SimpleQueue()
        self.engine = Engine(config, self._said.put)
        self.feed = Feed()
        self.diary, self.narrator, self.patrol = Diary(100), Narrator(), Patrol()
        self._random = random.Random(7)
        self._shared = [[self._random.randrange(3, 60) for _ in range(9)] for _ in range(3)]
        self._open: set[int] = set()
        self.asked = self.over = 0
        self._wall = 0.0
        self.reasons: dict[str, int] = {}
        self.engine.start()
        while not isinstance(said := self._said.get(timeout=120), Ready):
            assert not isinstance(said, Failed), said

    def run(self, requests: int) -> None:
        """So many more, each of a session of its own, until all are over."""
        until = self.asked + requests
        while self.asked < until or self._open:
            while self.asked < until and len(self._open) < OPEN:
                self._ask()
            self._hear(self._said.get(timeout=120))
        # What is asked of a quiet engine comes behind all that it had to tell.
        self.engine.measure(0, "", (3, 4))
        while not isinstance(said := self._said.get(timeout=120), Measured):
            self._hear(said)
        mirror = self.feed.mirror
        assert (mirror.faults, mirror.gaps, mirror.check()) == ([], [], [])

    def _ask(self) -> None:
        """Long and short, alone and several at once, of many namespaces, too long, stopped, drawn by lot."""
        pick = self._random
        kind = self.asked % 20
        begin = pick.choice([[], *self._shared])
        prompt = begin + [pick.randrange(3, 60) for _ in range(pick.randrange(2, 20))]
        sampling = Sampling(max_tokens=pick.randrange(1, 4))
        n, namespace = 1, ""
        if kind == 1:
            sampling, n = Sampling(max_tokens=3, temperature=1.0, seed=self.asked), 3
        elif kind == 2:
            namespace = f"tenant {self.asked}"
        elif kind == 3:
            prompt = [5] * 2_000  # refused
        elif kind == 4:
            prompt = [10**6]  # no token of this model
        elif kind == 5:
            sampling = Sampling(max_tokens=3, logprobs=2, stop=(" 7",))
        first = self.engine.submit(GenerateRequest(f"s{self.asked}", tuple(prompt), sampling, namespace, n))
        self._open.update(range(first, first + n))
        self.asked += 1
        if kind == 6:
            self.engine.stop(first)
        elif kind == 7:
            self.engine.verify(first)
        elif kind == 8:
            self.engine.measure(self.asked, f"s{self.asked}", tuple(prompt))

    def _hear(self, said: EngineMessage) -> None:
        assert not isinstance(said, Failed), said
        if not isinstance(said, Batch):
            return
        self._wall += 0.05
        self.feed.take(said.events, self._wall)
        if said.stats is not None:
            self.feed.take_stats(said.stats)
        for finished in said.finished:
            self._open.discard(finished.request)
            self.over += 1
            self.reasons[finished.reason] = self.reasons.get(finished.reason, 0) + 1
        self.feed.go_on()
        self.feed.fade(self._wall)
        recent = self.feed.take_recent()
        self.feed.take_notices()
        self.diary.add(recent)
        self.narrator.hear(recent, self.feed.mirror, self._wall)


@contextmanager
def soaking(config: EngineConfig) -> Iterator[Soak]:
    """The engine ends with it."""
    soak = Soak(config)
    try:
        yield soak
    finally:
        assert soak.engine.close(60)
