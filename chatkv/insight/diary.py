"""The records of a cache as lines that people read: what goes on and on is one line that grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from chatkv.insight.kinds import Names, Touched, caption, node_name, request_name, touched
from chatkv.insight.visible import counted, cut
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

_NAME_CELLS = 24
_NAMES = 1_000
"""Requests of which is known whose they are."""


@dataclass(slots=True, eq=False)
class Line:
    """A sentence. Of one that grows, ``seq`` is its beginning."""

    seq: int
    kind: type[kv.Event]
    text: str
    who: str
    """The session as ``text`` calls it, quoted; empty where it names none."""
    nodes: list[int]
    """Newest first."""
    blocks: list[int]
    request: int | None
    amount: int = 0
    """Tokens or blocks, of a line that grows."""
    steps: int = 0

    @property
    def about(self) -> Touched:
        """What it speaks of."""
        return Touched(tuple(self.nodes), tuple(self.blocks), self.request)


class Diary:
    """``lines``: the newest ``keep``, newest first.

    An answer takes a block and lengthens its node (or stores one below the last) for each few tokens, or
    gives the block back where the tree has the same. Told one by one, that would be all there is to read; so
    it is a line that stays where it began, until something else happens to the same request or node.
    """

    def __init__(self, keep: int) -> None:
        self.lines: deque[Line] = deque(maxlen=keep)
        self.session_name: Callable[[str], str] = str
        """A session's key → what people call it."""
        self._sessions: dict[int, str] = {}
        """Request → its session's key."""
        self._growing: dict[tuple[type[kv.Event], int], Line] = {}

    def add(self, records: Iterable[kv.Event]) -> bool:
        """These happened, in this order; True where it changed a line."""
        changed = False
        for event in records:
            if isinstance(event, kv.RequestOpened | sched.RequestQueued | sched.RequestRefused):
                self._sessions[event.request] = event.session
                if len(self._sessions) > _NAMES:
                    del self._sessions[next(iter(self._sessions))]
            changed |= self._add(event)
        return changed

    def clear(self) -> None:
        """Forget all lines."""
        self.lines.clear()
        self._growing.clear()

    def _add(self, event: kv.Event) -> bool:
        match event:
            case kv.CacheCreated():
                again = bool(self.lines)
                self._sessions.clear()  # another clock, with requests of its own
                self.clear()
                self._tell(event)
                if again:
                    self.lines[0].text = f"engine restarted: {self.lines[0].text}"
            case kv.NodeExtended():
                line = self._grown(event, event.node)
                line.amount += len(event.tokens)
                line.nodes = [event.node]
                line.blocks += event.blocks.tolist()
                line.text = f"{node_name(event.node)} grew by {counted(line.amount, 'token')}{_steps(line)}"
            case kv.BlocksAllocated():
                line = self._grown(event, event.request)
                line.amount += len(event.blocks)
                line.blocks += event.blocks.tolist()
                size = counted(line.amount, "free block")
                line.text = f"{line.who or request_name(event.request)} took {size}{_steps(line)}"
            case kv.RowRepointed():
                line = self._grown(event, event.request)
                line.amount += len(event.new)
                line.blocks += event.new.tolist()
                size = f"{counted(line.amount, 'block')} of the tree in place of its own equal ones"
                line.text = f"{line.who or request_name(event.request)} now uses {size}{_steps(line)}"
            case kv.BlocksFreed(reason="duplicate") if (kv.RowRepointed, event.request) in self._growing:
                # Those equal ones.
                self._growing[kv.RowRepointed, event.request].blocks += event.blocks.tolist()
            case kv.NodeStored(request=int(request)) if self._goes_on(event, request):
                line = self._grown(event, request)
                line.amount += len(event.tokens)
                line.nodes.insert(0, event.node)
                line.blocks += event.blocks.tolist()
                nodes = f"{counted(len(line.nodes), 'node')}, each under the one before"
                size = counted(line.amount, "token")
                who = line.who or request_name(request)
                line.text = f"{who} stored {nodes}: {size}, now others can reuse them"
            case _:
                return self._tell(event)
        return True

    def _goes_on(self, event: kv.NodeStored, request: int) -> bool:
        line = self._growing.get((kv.NodeStored, request))
        return line is not None and line.nodes[0] == event.parent

    def _tell(self, event: kv.Event) -> bool:
        who = ""

        def called(request: int) -> str:
            nonlocal who
            who = self._called(request)
            return who or request_name(request)

        text = caption(event, Names(node_name, called))
        if text is None:
            return False
        about = touched(event)
        for node in about.nodes:
            self._growing.pop((kv.NodeExtended, node), None)
        line = self._begin(event, text, who)
        line.nodes, line.blocks = list(about.nodes), list(about.blocks)
        if about.request is not None:
            for kind in (kv.NodeStored, kv.BlocksAllocated, kv.RowRepointed):
                self._growing.pop((kind, about.request), None)
            if isinstance(event, kv.NodeStored):
                line.amount, line.steps = len(event.tokens), 1
                self._growing[kv.NodeStored, about.request] = line
        return True

    def _grown(
        self, event: kv.NodeExtended | kv.BlocksAllocated | kv.NodeStored | kv.RowRepointed, id: int
    ) -> Line:
        """The line to add it to: one that went with the oldest lines begins anew."""
        key = type(event), id
        line = self._growing.get(key)
        if line is None or not self.lines or line.seq < self.lines[-1].seq:
            who = "" if event.request is None else self._called(event.request)
            line = self._growing[key] = self._begin(event, "", who)
        line.steps += 1
        return line

    def _begin(self, event: kv.Event, text: str, who: str) -> Line:
        line = Line(event.seq, type(event), text, who, [], [], touched(event).request)
        self.lines.appendleft(line)
        return line

    def _called(self, request: int) -> str:
        session = self._sessions.get(request)
        return f"'{cut(self.session_name(session), _NAME_CELLS)}'" if session else ""


def _steps(line: Line) -> str:
    return f" in {line.steps} steps" if line.steps > 1 else ""
