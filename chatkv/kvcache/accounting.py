"""Where every prompt token came from: reused, or computed, and then why.

The parts sum to the prompt's length. For a token that had to be computed, the first that holds:

* ``bypassed``: reuse was not asked for (``--cache none``, a request for prompt log-probabilities);
* ``last_token``: it was cached, but the last token of a prompt is always computed;
* ``rounding``: it was cached, or this session had computed it, but not in a block that can be shared whole;
* ``evicted``: it was cached once and had to go;
* ``other_namespace``: it is cached under another salt or adapter, which is never shared;
* ``diverged``: the session's prompt left what the session had sent before (``diverged_at``);
* ``first_seen``: none of these.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from chatkv.kvcache import events as ev
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.history import Gone, History, Seen, shared_with
from chatkv.kvcache.table import Row

SESSIONS_KEPT = 1024
"""Sessions whose latest tokens are remembered."""
NAMESPACES_KEPT = 64
"""Namespaces, the latest used, that are remembered."""
NAMESPACES_SEARCHED = 8
"""Of them, how many are searched for a prompt's tokens: each costs a look-up."""
REASONS = ("bypassed", "rounding", "evicted", "other_namespace", "diverged", "first_seen")
GONE_PER_BLOCK = 8
"""Lost blocks that are remembered for each block of the pool."""


class Known(Protocol):
    """What a cache holds of a prompt, whatever rules keep it from being reused."""

    def __call__(self, prompt: Int32Array, namespace: str, session: str) -> int:
        """How many leading tokens of ``prompt`` are cached in ``namespace``, the last one counted too."""


class Ledger:
    """Watches one cache and accounts for its prompts. Fed only while somebody listens to the log."""

    def __init__(self, block_size: int, num_blocks: int, log: EventLog, known: Known) -> None:
        self._size, self._num_blocks, self._log, self._known = block_size, num_blocks, log, known
        self._sessions: OrderedDict[tuple[str, str], Int32Array] = OrderedDict()
        self.clear()

    def clear(self) -> None:
        """The cache forgot everything: nothing was evicted, and sessions begin anew."""
        self._history = History(self._size, GONE_PER_BLOCK * self._num_blocks)
        self._ends: dict[int, tuple[int, int]] = {}
        """Of each open row: the history's entry where its published blocks end, and their number."""
        self._namespaces: OrderedDict[str, None] = OrderedDict()
        self._sessions.clear()

    def opened(self, row: Row, prompt: Int32Array, cached: int, copied: int, known: int | None) -> None:
        """``row`` starts with ``cached`` tokens, ``copied`` of them by copied slots.

        ``known`` leading tokens of the prompt were cached, whatever kept them from being reused; None:
        it is not to be accounted for.
        """
        self._namespaces[row.namespace] = None
        self._namespaces.move_to_end(row.namespace)
        if len(self._namespaces) > NAMESPACES_KEPT:
            self._namespaces.popitem(last=False)
        end, seen = self._history.walk(row.namespace, prompt, row.published)
        self._ends[row.request] = (end, row.published)
        if known is not None:
            self._account(row, prompt, cached, copied, known, seen)

    def published(self, row: Row) -> None:
        """Whole blocks of ``row`` joined the cache."""
        end, start = self._ends[row.request]
        stop, size = min(row.published, len(row.tokens) // self._size), self._size
        if stop > start:
            tokens = row.tokens.array[start * size : stop * size]
            end = self._history.store(end, tokens, row.blocks.array[start:stop])
            self._ends[row.request] = (end, stop)

    def closed(self, row: Row) -> None:
        """``row`` ends; where it published a partly filled block, that is its last."""
        end, stop = self._ends.pop(row.request)
        if row.published > stop:
            tail = row.tokens.array[stop * self._size :]
            self._history.store_tail(end, tail, int(row.blocks.array[stop]))
        self._history.tidy(end for end, _ in self._ends.values())
        if row.session:
            key = (row.session, row.namespace)
            self._sessions[key] = row.tokens.array.copy()
            self._sessions.move_to_end(key)
            if len(self._sessions) > SESSIONS_KEPT:
                self._sessions.popitem(last=False)

    def forgot(self, blocks: Int32Array, request: int | None, *, lost: bool) -> None:
        """``blocks`` left the cache; ``lost``: for room, so that their tokens are gone."""
        self._history.forget(blocks, Gone(self._log.clock, request) if lost else None)

    def _account(
        self, row: Row, prompt: Int32Array, cached: int, copied: int, known: int, seen: Seen
    ) -> None:
        n = len(prompt)
        previous = self._sessions.get((row.session, row.namespace)) if row.session else None
        own = shared_with(previous, prompt)
        held = max(known, cached) if row.reuse else n
        others = [name for name in reversed(self._namespaces) if name != row.namespace][:NAMESPACES_SEARCHED]
        elsewhere = (
            max((self._known(prompt, name, row.session) for name in others), default=0) if row.reuse else 0
        )
        left = previous is not None and own < min(len(previous), n)
        # Each reason covers the tokens from where the one before it ends; most certain first.
        at = cached
        parts = dict.fromkeys(REASONS, 0)

        def take(reason: str, upto: int) -> None:
            nonlocal at
            if upto > at:
                parts[reason] += upto - at
                at = upto

        if not row.reuse:
            take("bypassed", n)
        take("rounding", held)
        take("evicted", seen.tokens if seen.lost is not None else 0)
        take("rounding", own)
        take("other_namespace", elsewhere)
        take("diverged" if left else "first_seen", n)
        last = 0
        if row.reuse and cached < n and parts["rounding"] and max(held, own) == n:
            last, parts["rounding"] = 1, parts["rounding"] - 1
        self._log.emit(
            ev.PromptAccounted,
            request=row.request,
            prompt_tokens=n,
            hit=cached - copied,
            copied=copied,
            last_token=last,
            evicted_seq=seen.lost.seq if parts["evicted"] and seen.lost else None,
            evicted_by=seen.lost.request if parts["evicted"] and seen.lost else None,
            diverged_at=own if parts["diverged"] else None,
            **parts,
        )
