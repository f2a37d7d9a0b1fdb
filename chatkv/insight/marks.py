"""Which nodes are new, reused or idle: what the open requests and the latest one did to them."""

from __future__ import annotations

from collections.abc import Iterable

from chatkv.insight.nodes import Mark, Node


class Marks:
    """A request is *active* while it is open or the latest opened one.

    A node is reused if an active request that did not store it started with it; else new if an
    active request stored into it; else idle. ``None`` stands for "no request yet".
    """

    def __init__(self) -> None:
        self.latest: int | None = None
        self._open: set[int] = set()
        self._stored: dict[int | None, set[int]] = {}
        self._reused: dict[int | None, set[int]] = {}

    def open(self, request: int, nodes: dict[int, Node]) -> list[Node]:
        """``request`` is the latest now. Returns the nodes whose mark that changed."""
        before, self.latest = self.latest, request
        self._open.add(request)
        return [] if before == request or before in self._open else self._forget(before, nodes)

    def close(self, request: int, nodes: dict[int, Node]) -> list[Node]:
        """``request`` is over. Returns the nodes whose mark that changed."""
        self._open.discard(request)
        return [] if request == self.latest else self._forget(request, nodes)

    def store(self, node: Node, request: int | None) -> None:
        """``request`` (None: the latest) stored into ``node``."""
        request = self.latest if request is None else request
        members = self._stored.setdefault(request, set())
        if node.id not in members and node.id not in self._reused.get(request, ()):
            members.add(node.id)
            node.news += 1
        _refresh(node)

    def reuse(self, node: Node, request: int) -> None:
        """``request`` started with ``node``; where it stored it itself (it resumes), it counts as stored."""
        if node.request == request:
            self.store(node, request)
            return
        members = self._reused.setdefault(request, set())
        if node.id not in members and node.id not in self._stored.get(request, ()):
            members.add(node.id)
            node.reuses += 1
        _refresh(node)

    def split(self, node: Node, upper: Node) -> None:
        """``upper`` has whatever marks ``node`` has."""
        for members in (*self._stored.values(), *self._reused.values()):
            if node.id in members:
                members.add(upper.id)
        upper.news, upper.reuses = node.news, node.reuses
        _refresh(upper)

    def copy(self) -> Marks:
        """An independent copy."""
        twin = Marks()
        twin.latest, twin._open = self.latest, self._open.copy()
        twin._stored = {request: members.copy() for request, members in self._stored.items()}
        twin._reused = {request: members.copy() for request, members in self._reused.items()}
        return twin

    def _forget(self, request: int | None, nodes: dict[int, Node]) -> list[Node]:
        stored = _live(self._stored.pop(request, ()), nodes)
        reused = _live(self._reused.pop(request, ()), nodes)
        for node in stored:
            node.news -= 1
        for node in reused:
            node.reuses -= 1
        for node in (*stored, *reused):
            _refresh(node)
        return stored + reused


def _live(members: Iterable[int], nodes: dict[int, Node]) -> list[Node]:
    return [nodes[node] for node in members if node in nodes]


def _refresh(node: Node) -> None:
    node.mark = Mark.REUSED if node.reuses else Mark.NEW if node.news else Mark.IDLE
