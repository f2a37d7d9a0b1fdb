"""Which one of the many events of a moment is told in the caption, and for how long it stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from chatkv.insight.kinds import KINDS, ORDER, UNTOLD, Names, caption, node_name, request_name
from chatkv.insight.mirror import Mirror
from chatkv.insight.visible import counted, cut
from chatkv.kvcache import events as kv

HOLD_S = 3.0
"""Seconds that a sentence needs to be read."""
NEWEST = 500
"""Of a longer burst only the newest events have "just happened"."""
_COPIED = "copied from a part of a block"
"""Why: a block can be shared as a whole only."""
_NAME_CELLS = 24


class Sentence(NamedTuple):
    """``text`` about the event ``seq`` of ``kind``."""

    seq: int
    weight: int
    kind: type[kv.Event]
    text: str


class Narrator:
    """Owns the sentence shown. It has no clock of its own: whoever asks says what time it is, in seconds."""

    def __init__(self, hold_s: float = HOLD_S) -> None:
        self.shown: Sentence | None = None
        self.session_name: Callable[[str], str] = str
        """A session's key → what people call it."""
        self._hold_s = hold_s
        self._since = 0.0
        self._next: Sentence | None = None
        """The best of what came while the one shown is held."""

    def hear(self, events: Iterable[kv.Event], mirror: Mirror, now: float) -> None:
        """These happened, in this order; ``mirror`` is how things stand behind the last of them."""
        newest = list(events)[-NEWEST:]
        if any(isinstance(event, kv.CacheCreated) for event in newest):
            self.shown = self._next = None  # another clock starts
        found = [(weight, event) for event in newest if (weight := weigh(event)) is not None]
        told = {event.request for _, event in found if isinstance(event, kv.PrefixReused)}
        # A copy is told with what is reused before it: together they are what its answer says was reused.
        found = [it for it in found if not (isinstance(it[1], kv.SlotsCopied) and it[1].request in told)]
        if not found:
            return
        best = max(found, key=lambda it: (it[0], it[1].seq))
        self.offer(self._tell(*best, newest, mirror), now)
        behind = [it for it in found if it[1].seq > best[1].seq]
        if behind:
            self.offer(self._tell(*max(behind, key=lambda it: (it[0], it[1].seq)), newest, mirror), now)

    def offer(self, sentence: Sentence, now: float) -> None:
        """Show it at once where it is more important or the one shown was read; else it waits its turn."""
        self.tick(now)
        if self.shown is None or sentence.weight > self.shown.weight or self._over(now):
            # What waited came before this one, and is no longer what has just happened.
            self._show(sentence, now)
        elif self._next is None or sentence.weight >= self._next.weight:
            self._next = sentence

    def tick(self, now: float) -> None:
        """Time goes by: once the one shown was read, what came meanwhile is told."""
        if self._next is not None and self._over(now):
            self._show(self._next, now)

    def _over(self, now: float) -> bool:
        return not 0 <= now - self._since < self._hold_s  # a clock may be set back

    def _show(self, sentence: Sentence, now: float) -> None:
        self.shown, self._since, self._next = sentence, now, None

    # -- the words ---------------------------------------------------------------------------

    def _tell(self, weight: int, event: kv.Event, among: list[kv.Event], mirror: Mirror) -> Sentence:
        words = ""
        if isinstance(event, kv.NodeSplit):
            words = self._split(event, among, mirror)
        elif isinstance(event, kv.PrefixReused):
            words = self._reused(event, among, mirror)
        elif isinstance(event, kv.NodeEvicted | kv.NodeTrimmed):
            words = _evictions(event, among)
        if not words:
            names = Names(node_name, lambda request: self._who(request, mirror))
            words = caption(event, names) or ""
        return Sentence(event.seq, weight, type(event), words)

    def _who(self, request: int, mirror: Mirror) -> str:
        view = mirror.requests.get(request)
        return self._called(view.session) if view is not None and view.session else request_name(request)

    def _called(self, session: str) -> str:
        return f"'{cut(self.session_name(session), _NAME_CELLS)}'"

    def _reused(self, event: kv.PrefixReused, among: list[kv.Event], mirror: Mirror) -> str:
        """With what was copied behind it; empty where nothing was."""
        copied = sum(copy.tokens for copy in _copies(event, among))
        if not copied:
            return ""
        tokens = counted(event.tokens + copied, "token")
        parts = f"{event.tokens:,} in whole blocks, {copied:,} {_COPIED}"
        return f"{self._who(event.request, mirror)} reused {tokens}: {parts}"

    def _split(self, event: kv.NodeSplit, among: list[kv.Event], mirror: Mirror) -> str:
        """Who shares how much by it; empty where the node is gone already or nobody is known to use it."""
        upper = mirror.nodes.get(event.upper)
        if upper is None or not upper.sessions:
            return ""
        shared = sum(len(mirror.nodes[node].tokens) for node in mirror.path(upper.id))
        copied = self._copied(event, among, mirror, upper.sessions)
        tokens = counted(shared + copied, "token")
        split = f"node split in two{f' at {shared:,}, {copied:,} {_COPIED}' if copied else ''}"
        who = [self._called(session) for session in sorted(upper.sessions)]
        if len(who) == 1:
            return f"{who[0]} went another way behind its first {tokens}: {split}"
        chats = " and ".join(who) if len(who) == 2 else f"{len(who)} chats"
        return f"{chats} share their first {tokens}: {split}"

    def _copied(self, event: kv.NodeSplit, among: list[kv.Event], mirror: Mirror, who: Set[str]) -> int:
        """Tokens behind it that all of ``who`` have, though not in one block: copied by one from another."""
        for after in among:
            if (
                isinstance(after, kv.PrefixReused)
                and after.seq > event.seq
                and after.path[-1:] == (event.upper,)
            ):
                copies = _copies(after, among)
                view = mirror.requests.get(after.request)
                owners = {view.session} if view is not None else set()
                for copy in copies:
                    node = mirror.nodes.get(copy.node) if copy.node is not None else None
                    owners |= node.sessions if node is not None else set()
                return sum(copy.tokens for copy in copies) if who <= owners else 0
        return 0


def _copies(reused: kv.PrefixReused, among: list[kv.Event]) -> list[kv.SlotsCopied]:
    """What the same request copied behind what it found."""
    return [e for e in among if isinstance(e, kv.SlotsCopied) and e.request == reused.request]


def weigh(event: kv.Event) -> int | None:
    """How much it is worth telling; None where it is not told."""
    match event:
        case kv.NodeEvicted() if event.reason == "superseded":
            return KINDS[kv.RowRepointed].weight  # nothing is lost by it
        case kv.PrefixReused() if not event.tokens:
            return None
        case kv.PromptAccounted() if event.evicted or event.diverged:
            return KINDS[
                kv.SlotsCopied
            ].weight  # it could have been reused, and why it is not is the question
    return KINDS.get(type(event), UNTOLD).weight


def _evictions(last: kv.NodeEvicted | kv.NodeTrimmed, among: list[kv.Event]) -> str:
    """All that had to go for room, in one; empty where it was this one alone."""
    gone = [e for e in among if isinstance(e, kv.NodeEvicted | kv.NodeTrimmed) and e.reason == last.reason]
    if len(gone) < 2:
        return ""
    nodes, blocks = counted(len(gone), "node"), counted(sum(len(e.blocks) for e in gone), "block")
    why = ORDER.get(last.strategy, f"by {last.strategy}")
    if last.reason == "superseded":
        return f"{nodes} gave way to blocks that start with the same tokens"
    return f"{nodes} evicted, {why} first: {blocks} free again, their tokens must be computed anew"
