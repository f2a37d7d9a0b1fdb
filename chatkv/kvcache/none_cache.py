"""``--cache none``: paging without reuse. The simplest correct twin, and the oracle in tests."""

from __future__ import annotations

import numpy.typing as npt

from chatkv.kvcache import events as ev
from chatkv.kvcache.cache import KVCache, Opened, blocks_for, token_ids
from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.results import Lookup
from chatkv.kvcache.table import Row


class NoneCache(KVCache):
    """Every request computes its whole prompt; its blocks are free when it ends."""

    kind = "none"

    @property
    def evictable(self) -> int:
        """Always 0: nothing is kept."""
        return 0

    def peek(
        self,
        prompt: npt.ArrayLike,
        namespace: str = "",
        session: str = "",
        lookup: Lookup | None = None,
    ) -> int:
        """Always 0, for any prompt that is one."""
        token_ids(prompt)
        return 0

    def locate(self, tokens: npt.ArrayLike, namespace: str = "", session: str = "") -> tuple[int, Int32Array]:
        """Always nothing, for any tokens that are some."""
        return 0, token_ids(tokens)[:0]

    def clear(self) -> bool:
        """False while any row is open; otherwise there is nothing to forget."""
        if self.rows:
            return False
        self.log.emit(ev.CacheCleared)
        return True

    def _fits(self, row: Row, prompt: Int32Array, headroom: int, lookup: Lookup) -> bool:
        row.reuse = False
        return blocks_for(len(prompt), self.block_size) + headroom <= self.free

    def _reuse(self, row: Row, prompt: Int32Array, lookup: Lookup) -> Opened:
        return Opened(0, 0, ())

    def _share(self, parent: Row, child: Row) -> tuple[int, ...]:
        return ()  # nothing is published, so a fork copies all of it

    def _known(self, prompt: Int32Array, namespace: str, session: str) -> int:
        return 0

    def _known_of(self, row: Row, prompt: Int32Array, lookup: Lookup) -> int:
        return 0

    def _evict(self, num_blocks: int, request: int | None) -> None:
        raise AssertionError("nothing is evictable, so nothing is ever asked to be")

    def _publish(self, row: Row) -> None:
        pass

    def _keep_tail(self, row: Row) -> None:
        pass

    def _unlock(self, row: Row) -> None:
        pass

    def _check(self) -> None:
        pass
