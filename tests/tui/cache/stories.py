"""Mirrors made by hand, event by event; a token is a character's code point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chatkv.insight.mirror import Mirror
from chatkv.kvcache import events as kv
from chatkv.kvcache.hash_cache import HashCache
from chatkv.scheduler import events as sched


def ids(text: str) -> kv.Int32Array:
    return np.array([ord(char) for char in text], np.int32)


def decode(tokens: Sequence[int]) -> str:
    return "".join(chr(token) for token in tokens)


class Story:
    """Tells events to a mirror and remembers them."""

    def __init__(self, num_blocks: int = 64, block_size: int = 8) -> None:
        self.mirror = Mirror()
        self.events: list[kv.Event] = []
        self.log = kv.EventLog(self._take)
        self.block_size = block_size
        self._next_block = 0
        self.log.emit(
            kv.CacheCreated,
            num_blocks=num_blocks,
            block_size=block_size,
            cache="radix",
            eviction="lru",
            grain="node",
            strict=False,
        )

    def _take(self, event: kv.Event) -> None:
        self.events.append(event)
        self.mirror.apply(event)

    def open(self, request: int, session: str, prompt_tokens: int, namespace: str = "") -> None:
        self.log.emit(
            sched.RequestQueued, request=request, session=session, prompt_tokens=prompt_tokens, max_tokens=64
        )
        self.log.emit(
            kv.RequestOpened,
            request=request,
            session=session,
            namespace=namespace,
            prompt_tokens=prompt_tokens,
            resumed=False,
        )

    def reuse(self, request: int, *path: int) -> None:
        nodes = [self.mirror.nodes[node] for node in path]
        self.log.emit(kv.PathLocked, node=path[-1], request=request)
        self.log.emit(
            kv.PrefixReused,
            request=request,
            path=path,
            blocks=np.concatenate([node.blocks for node in nodes]),
            tokens=sum(len(node.tokens) for node in nodes),
        )

    def allocate(self, request: int, count: int) -> kv.Int32Array:
        blocks = np.arange(self._next_block, self._next_block + count, dtype=np.int32)
        self._next_block += count
        row = self.mirror.rows[request]
        self.log.emit(kv.BlocksAllocated, request=request, logical=len(row.blocks), blocks=blocks)
        return blocks

    def write(self, request: int, count: int) -> None:
        self.log.emit(kv.TokensWritten, request=request, count=count)

    def store(self, request: int, node: int, parent: int, text: str, namespace: str = "") -> None:
        """Take blocks for ``text``, write it, and put it into the tree as ``node``."""
        tokens = ids(text)
        blocks = self.allocate(request, -(-len(tokens) // self.block_size))
        self.write(request, len(tokens))
        self.log.emit(
            kv.NodeStored,
            node=node,
            parent=parent,
            namespace=namespace,
            tokens=tokens,
            blocks=blocks,
            request=request,
        )

    def account(self, request: int, prompt_tokens: int, hit: int) -> None:
        self.log.emit(
            kv.PromptAccounted,
            request=request,
            prompt_tokens=prompt_tokens,
            hit=hit,
            copied=0,
            first_seen=prompt_tokens - hit - 1,
            evicted=0,
            diverged=0,
            rounding=0,
            last_token=1,
            other_namespace=0,
        )

    def close(self, request: int, locked: int | None = None) -> None:
        if locked is not None:
            self.log.emit(kv.PathUnlocked, node=locked, request=request)
        self.log.emit(kv.RequestClosed, request=request, reason="finished")

    def evict(self, node: int) -> None:
        gone = self.mirror.nodes[node]
        self.log.emit(
            kv.NodeEvicted,
            node=node,
            tokens=len(gone.tokens),
            blocks=gone.blocks,
            reason="room",
            strategy="lru",
            rank=1,
            age=9,
            request=None,
        )

    def pin(self, node: int) -> None:
        self.log.emit(kv.NodePinned, node=node, pinned=True)


def figure(num_blocks: int = 64) -> Story:
    """Two sessions share a system prompt; one old question was evicted, one answer is being written."""
    story = Story(num_blocks=num_blocks)
    story.open(1, "rust", 88)
    story.store(1, 1, 0, "You are a friendly assistant who answers in a line. Never lie...")
    story.store(1, 2, 1, "user: what is a borrow?\n assistant: A loan that must be returned.")
    story.account(1, 88, 0)
    story.close(1)
    story.open(2, "poem", 96)
    story.reuse(2, 1)
    story.store(2, 3, 1, "user: Write a\tpoem of the sea...")
    story.account(2, 96, 64)
    story.close(2, locked=1)
    story.open(3, "solo", 24, namespace="lora-a")
    story.store(3, 4, 0, "Another system prompt...", namespace="lora-a")
    story.account(3, 24, 0)
    story.close(3)
    story.pin(4)
    story.open(4, "rust", 100)
    story.reuse(4, 1)
    story.evict(2)
    story.store(4, 5, 1, "user: Explain ownership in one line.\n asst: Each")
    story.log.emit(kv.PathLocked, node=5, request=4)
    story.log.emit(kv.PathUnlocked, node=1, request=4)
    story.allocate(4, 1)
    story.write(4, 3)
    story.account(4, 100, 64)
    return story


def wide(nodes: int) -> Story:
    """A root with many children, every tenth of which has nine below it."""
    story = Story(num_blocks=nodes + 64, block_size=1)
    story.open(1, "load", nodes)
    parent = 0
    for node in range(1, nodes + 1):
        if node % 10 == 1:
            parent = 0
        story.store(1, node, parent, chr(0x100 + node % 500))
        if node % 10 == 1:
            parent = node
    return story


class HashStory:
    """Questions to a real hash cache of 4 tokens a block; a token is a character's code point."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self._cache = HashCache(40, 4, log=kv.EventLog(self.mirror.apply))
        self._asked = 0

    def ask(self, text: str, session: str) -> None:
        """Compute all of ``text`` and be over."""
        self._asked += 1
        prompt = ids(text).tolist()
        opened = self._cache.open(self._asked, prompt, session=session)
        assert opened is not None
        assert self._cache.grow(self._asked, len(prompt))
        self._cache.commit(self._asked, prompt[opened.cached :])
        self._cache.close(self._asked, "finished")
