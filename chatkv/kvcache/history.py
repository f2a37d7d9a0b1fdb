"""What was cached once: so that a miss can be told from a loss.

A trie of whole blocks by chained keys, independent of the cache it watches: each stored block is an
entry under its parent's entry; when no physical block holds it any more it is *gone*, with the clock
and the request that asked for the room. Bounded: the longest gone are forgotten first (a child is
always gone before its parent, so what is left stays reachable).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np

from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.node import common_prefix, token_data

_SPARE = 1_024
"""Entries that may be of no use any more."""
START = 0
"""The entry that every chain begins under."""


class Gone(NamedTuple):
    """When an entry was lost, and to whom."""

    seq: int
    request: int | None


class Seen(NamedTuple):
    """``tokens`` of a prompt were cached once; ``lost`` tells of the first of them that is gone."""

    tokens: int
    lost: Gone | None


class History:
    """Entries of one cache. ``keep`` bounds how many gone entries are remembered."""

    def __init__(self, block_size: int, keep: int) -> None:
        self.block_size = block_size
        self.keep = keep
        self._next = START + 1
        self._entries: dict[tuple[int, bytes], int] = {}
        self._keys: dict[int, tuple[int, bytes]] = {}
        self._live: dict[int, int] = {}
        """How many physical blocks hold an entry."""
        self._at: dict[int, int] = {}
        """Which entry a physical block holds."""
        self._gone: dict[int, Gone] = {}
        """In the order in which they went."""
        self._tails: dict[int, tuple[int, Int32Array]] = {}
        """Partly filled blocks that are cached: block → (entry before it, tokens)."""
        self._lost_tails: dict[int, tuple[Int32Array, Gone]] = {}
        """The latest lost tail behind an entry."""

    def start(self, namespace: str) -> int:
        """The entry that chains of ``namespace`` begin under."""
        return self._enter(START, namespace.encode("utf-8", "surrogatepass")) if namespace else START

    def walk(self, namespace: str, prompt: Int32Array, held: int) -> tuple[int, Seen]:
        """The entry where the first ``held`` blocks of ``prompt``, which are cached now, end (those that are
        not known are entered), and the longest beginning of it that was cached at some time.
        """
        entry, width = self.start(namespace), 4 * self.block_size
        data = token_data(prompt)
        at = held * width
        for i in range(0, at, width):
            entry = self._enter(entry, data[i : i + width])
        end, lost = entry, None
        while at + width <= len(data):
            following = self._entries.get((entry, data[at : at + width]))
            if following is None or (following not in self._gone and following not in self._live):
                break
            entry = following
            lost = lost or self._gone.get(entry)
            at += width
        if entry in self._lost_tails:
            tail, when = self._lost_tails[entry]
            shared = common_prefix(tail, prompt[at // 4 :])
            if shared:
                return end, Seen(at // 4 + shared, lost or when)
        return end, Seen(at // 4, lost)

    def store(self, entry: int, tokens: Int32Array, blocks: Int32Array) -> int:
        """``blocks`` hold the whole blocks of ``tokens`` behind ``entry``; the entry where they end."""
        width, data = 4 * self.block_size, token_data(tokens)
        for i, block in enumerate(blocks.tolist()):
            entry = self._enter(entry, data[i * width : (i + 1) * width])
            self._release(block)
            self._at[block] = entry
            self._live[entry] = self._live.get(entry, 0) + 1
            self._gone.pop(entry, None)
        return entry

    def store_tail(self, entry: int, tokens: Int32Array, block: int) -> None:
        """``block`` holds fewer tokens than a block behind ``entry``."""
        self._release(block)
        self._tails[block] = (entry, tokens.copy())

    def forget(self, blocks: Int32Array, lost: Gone | None) -> None:
        """``blocks`` left the cache; with ``lost``, what no other block holds is gone."""
        for block in blocks.tolist():
            if block in self._tails:
                entry, tokens = self._tails.pop(block)
                if lost is not None:
                    self._lost_tails[entry] = (tokens, lost)
                continue
            released = self._release(block)
            if released is not None and lost is not None:
                self._gone[released] = lost
        while len(self._gone) > self.keep:
            oldest = next(iter(self._gone))
            del self._gone[oldest], self._entries[self._keys.pop(oldest)]
            self._lost_tails.pop(oldest, None)

    def tidy(self, ends: Iterable[int]) -> None:
        """Drop entries that nothing leads to any more, if there are many; ``ends``: those in use elsewhere.

        Such are left where a namespace was used and nothing of it is cached, or was lost without a word.
        """
        needed = len(self._live) + len(self._gone)
        if len(self._entries) <= 2 * needed + _SPARE:
            return
        keep = {START}
        tails = (entry for entry, _ in self._tails.values())
        for entry in chain(self._live, self._gone, tails, ends):
            while entry not in keep and entry in self._keys:
                keep.add(entry)
                entry = self._keys[entry][0]
        self._keys = {entry: key for entry, key in self._keys.items() if entry in keep}
        self._entries = {key: entry for entry, key in self._keys.items()}
        self._lost_tails = {entry: lost for entry, lost in self._lost_tails.items() if entry in keep}

    def _enter(self, parent: int, key: bytes) -> int:
        found = self._entries.get((parent, key))
        if found is None:
            found, self._next = self._next, self._next + 1
            self._entries[parent, key] = found
            self._keys[found] = (parent, key)
        return found

    def _release(self, block: int) -> int | None:
        """``block`` holds something else now; the entry that no block holds any more, if there is one."""
        self._tails.pop(block, None)
        entry = self._at.pop(block, None)
        if entry is None:
            return None
        self._live[entry] -= 1
        if self._live[entry]:
            return None
        del self._live[entry]
        return entry


def shared_with(previous: Int32Array | None, prompt: Int32Array) -> int:
    """How many leading tokens of ``prompt`` a session has sent or been told before."""
    return 0 if previous is None else common_prefix(np.asarray(previous), prompt)
