"""A cache that exists in its events only: a tree of any size, and answers that grow in it.

What the screen costs is measured with it where a model would only stand in the way, and where no
model could fill a cache of 100,000 nodes in the time there is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

BLOCK = 16
_VOCABULARY = 40_000
_DEEPEST = 14
_A_REQUEST = 20
"""Nodes that one request of the past left."""
_SESSIONS = 40
_TEXT = """the cache keeps what was computed so that nobody computes it again and a tree of prefixes finds it
when the next question begins with the same words as one before"""
_WORDS = _TEXT.split()


def words(ids: Sequence[int]) -> str:
    """Token ids as text: a word each, now and then the end of a paragraph or a little Markdown."""
    return "".join(_word(token) for token in ids)


def _word(token: int) -> str:
    if token % 61 == 0:
        return ".\n\n"
    word = _WORDS[token % len(_WORDS)]
    return f" **{word}**" if token % 37 == 0 else f" {word}"


@dataclass
class Growing:
    """An open request: its node, the blocks it holds, and the tokens that are in no node yet."""

    id: int
    session: str
    prompt: int
    node: int
    blocks: int
    written: int = 0
    out: list[int] = field(default_factory=list)
    loose: list[int] = field(default_factory=list)
    private: list[int] = field(default_factory=list)


class MadeUpCache:
    """``take`` hands out the events since the last call: at first those of a tree of ``nodes`` nodes."""

    def __init__(self, nodes: int, seed: int = 1, spare_blocks: int = 4_096) -> None:
        self._random = random.Random(seed)
        self._events: list[kv.Event] = []
        self._log = kv.EventLog(self._events.append)
        self._steps = self._requests = self._nodes = self._blocks = 0
        self.num_blocks = 2 * nodes + spare_blocks
        self._log.emit(
            kv.CacheCreated,
            num_blocks=self.num_blocks,
            block_size=BLOCK,
            cache="radix",
            eviction="lru",
            grain="node",
            strict=False,
        )
        self._tips: list[tuple[int, int]] = []
        """Nodes that more may hang under, and how deep they are."""
        while self._nodes < nodes:
            self._past_request(min(_A_REQUEST, nodes - self._nodes))

    @property
    def next_request(self) -> int:
        """The id that the next request will have."""
        return self._requests + 1

    def take(self) -> tuple[kv.Event, ...]:
        """What has happened since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def open(self, session: str, prompt: int) -> Growing:
        """A request of ``session`` begins; its prompt of so many tokens (a block or more) becomes a node."""
        id = self._begin(session, prompt)
        blocks = self._allocate(id, 0, -(-prompt // BLOCK))
        self._log.emit(
            kv.PromptAccounted,
            request=id,
            prompt_tokens=prompt,
            hit=0,
            copied=0,
            first_seen=prompt - 1,
            evicted=0,
            diverged=0,
            rounding=0,
            last_token=1,
            other_namespace=0,
        )
        self._log.emit(sched.RequestAdmitted, request=id, cached=0, copied=0, waiting=0)
        self._log.emit(kv.TokensWritten, request=id, count=prompt)
        whole = prompt // BLOCK
        parent = self._random.choice(self._tips)[0] if self._tips else kv.ROOT
        node = self._store(id, parent, self._tokens(whole * BLOCK), blocks[:whole])
        self._log.emit(kv.PathLocked, node=node, request=id)
        self._log.emit(sched.FirstToken, request=id, ttft_s=0.04)
        growing = Growing(id, session, prompt, node, len(blocks), prompt)
        growing.private = blocks[whole:].tolist()
        growing.loose = self._tokens(prompt - whole * BLOCK).tolist()
        return growing

    def step(self, running: Sequence[Growing]) -> list[int]:
        """Each of ``running`` gets a token; returns them."""
        self._steps += 1
        self._log.emit(
            sched.StepPlanned,
            step=self._steps,
            prefill=(),
            decode=tuple(growing.id for growing in running),
            waiting=0,
            running=len(running),
        )
        tokens = [self._grow(growing) for growing in running]
        self._log.emit(sched.StepDone, step=self._steps, step_s=0.01, forward_s=0.0098)
        return tokens

    def close(self, growing: Growing) -> None:
        """It is over; what was in no node is free again."""
        self._log.emit(kv.PathUnlocked, node=growing.node, request=growing.id)
        if growing.private:
            blocks = np.array(growing.private, np.int32)
            self._log.emit(kv.BlocksFreed, request=growing.id, blocks=blocks, reason="finished")
        self._end(growing.id, growing.session, growing.prompt, len(growing.out))

    # --- inside -----------------------------------------------------------------------------------

    def _grow(self, growing: Growing) -> int:
        if growing.written % BLOCK == 0:
            if len(growing.private) * BLOCK <= len(growing.loose):
                whole = np.array(growing.private, np.int32)
                if len(whole):
                    self._log.emit(
                        kv.NodeExtended,
                        node=growing.node,
                        tokens=np.array(growing.loose, np.int32),
                        blocks=whole,
                        request=growing.id,
                    )
                growing.loose.clear()
                growing.private.clear()
            growing.private += self._allocate(growing.id, growing.blocks, 1).tolist()
            growing.blocks += 1
        token = self._random.randrange(_VOCABULARY)
        self._log.emit(kv.TokensWritten, request=growing.id, count=1)
        growing.written += 1
        growing.loose.append(token)
        growing.out.append(token)
        return token

    def _past_request(self, nodes: int) -> None:
        session = f"s{1 + self._random.randrange(_SESSIONS)}"
        sizes = [self._random.choice((BLOCK, BLOCK, 2 * BLOCK)) for _ in range(nodes)]
        id = self._begin(session, sum(sizes))
        blocks = self._allocate(id, 0, sum(sizes) // BLOCK)
        self._log.emit(kv.TokensWritten, request=id, count=sum(sizes))
        at = 0
        for size in sizes:
            parent, depth = kv.ROOT, 0
            if self._tips and self._random.random() > 0.02:
                parent, depth = self._random.choice(self._tips[-400:])
            node = self._store(id, parent, self._tokens(size), blocks[at : at + size // BLOCK])
            at += size // BLOCK
            if depth + 1 < _DEEPEST:
                self._tips.append((node, depth + 1))
        self._end(id, session, sum(sizes), 0)

    def _begin(self, session: str, prompt: int) -> int:
        self._requests += 1
        id = self._requests
        self._log.emit(sched.RequestQueued, request=id, session=session, prompt_tokens=prompt, max_tokens=512)
        self._log.emit(
            kv.RequestOpened, request=id, session=session, namespace="", prompt_tokens=prompt, resumed=False
        )
        return id

    def _end(self, id: int, session: str, prompt: int, out: int) -> None:
        self._log.emit(kv.RequestClosed, request=id, reason="finished")
        self._log.emit(
            sched.RequestFinished,
            request=id,
            session=session,
            reason="length",
            prompt_tokens=prompt,
            output_tokens=out,
            cached=0,
            copied=0,
            computed=prompt,
            ttft_s=0.04,
            decode_s=0.01 * out,
        )

    def _allocate(self, request: int, logical: int, count: int) -> kv.Int32Array:
        first = self._blocks
        self._blocks += count
        blocks = np.arange(first, first + count, dtype=np.int32) % self.num_blocks
        self._log.emit(kv.BlocksAllocated, request=request, logical=logical, blocks=blocks)
        return blocks

    def _store(self, request: int, parent: int, tokens: kv.Int32Array, blocks: kv.Int32Array) -> int:
        self._nodes += 1
        self._log.emit(
            kv.NodeStored,
            node=self._nodes,
            parent=parent,
            namespace="",
            tokens=tokens,
            blocks=blocks,
            request=request,
        )
        return self._nodes

    def _tokens(self, count: int) -> kv.Int32Array:
        return np.array([self._random.randrange(_VOCABULARY) for _ in range(count)], np.int32)
