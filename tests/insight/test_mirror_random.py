"""Random legal streams against a model that counts everything the slow way."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from chatkv.insight.mirror import Mark
from chatkv.kvcache import events as kv
from tests.insight.streams import Stream

BLOCKS, SIZE = 10, 2


@dataclass
class Model:
    """Where each block is, in plain Python; every step emits a legal record and notes what it means."""

    stream: Stream = field(default_factory=lambda: Stream(BLOCKS, SIZE))
    free: list[int] = field(default_factory=lambda: list(range(BLOCKS)))
    private: dict[int, list[int]] = field(default_factory=dict)
    """Open request → its own blocks."""
    nodes: dict[int, list[int]] = field(default_factory=dict)
    """Node → blocks."""
    parents: dict[int, int] = field(default_factory=dict)
    locked: list[tuple[int, int]] = field(default_factory=list)
    """(request, node) for each lock that is held."""
    stored: dict[int, set[int]] = field(default_factory=dict)
    """Request → nodes it made (or the upper parts of those)."""
    used: dict[int, set[int]] = field(default_factory=dict)
    ids: int = 0
    latest: int = 0

    def path(self, node: int) -> list[int]:
        out: list[int] = []
        while node:
            out.insert(0, node)
            node = self.parents[node]
        return out

    def leaves(self) -> list[int]:
        return [node for node in self.nodes if node not in self.parents.values()]

    def locks(self, node: int) -> int:
        return sum(node in self.path(held) for _, held in self.locked)

    def open(self, pick: int) -> None:
        self.ids += 1
        self.latest = request = self.ids
        self.private[request], self.stored[request], self.used[request] = [], set(), set()
        self.stream.open(request)
        if self.nodes and pick % 2:
            node = sorted(self.nodes)[pick % len(self.nodes)]
            path = self.path(node)
            blocks = [block for step in path for block in self.nodes[step]]
            self.stream.lock(node, request)
            self.stream.emit(
                kv.PrefixReused, request=request, path=tuple(path), blocks=blocks, tokens=len(blocks) * SIZE
            )
            self.locked.append((request, node))
            self.used[request] = set(path)

    def allocate(self, pick: int) -> None:
        if self.private and self.free:
            request = sorted(self.private)[pick % len(self.private)]
            block = self.free.pop(pick % len(self.free))
            self.private[request].append(block)
            self.stream.allocate(request, block)
            self.stream.write(request, SIZE)

    def store(self, pick: int) -> None:
        owners = [request for request, blocks in self.private.items() if blocks]
        if owners:
            request = owners[pick % len(owners)]
            parent = next((node for holder, node in reversed(self.locked) if holder == request), kv.ROOT)
            self.ids += 1
            node, blocks = self.ids, self.private[request]
            self.nodes[node], self.parents[node], self.private[request] = blocks, parent, []
            self.stored[request].add(node)
            self.stream.store(node, parent, [node] * (len(blocks) * SIZE), blocks, request)
            self.stream.lock(node, request)
            self.locked.append((request, node))

    def split(self, pick: int) -> None:
        long = [node for node, blocks in self.nodes.items() if len(blocks) > 1]
        if long:
            node = long[pick % len(long)]
            at = 1 + pick % (len(self.nodes[node]) - 1)
            self.ids += 1
            upper = self.ids
            self.nodes[upper], self.nodes[node] = self.nodes[node][:at], self.nodes[node][at:]
            self.parents[upper], self.parents[node] = self.parents[node], upper
            for members in (*self.stored.values(), *self.used.values()):
                if node in members:
                    members.add(upper)
            self.stream.emit(kv.NodeSplit, node=node, upper=upper, at=at * SIZE)

    def evict(self, pick: int) -> None:
        idle = [node for node in self.leaves() if not self.locks(node)]
        if idle:
            node = idle[pick % len(idle)]
            self.stream.evict(node)
            self.free += self.nodes.pop(node)
            del self.parents[node]

    def close(self, pick: int) -> None:
        if self.private:
            request = sorted(self.private)[pick % len(self.private)]
            if blocks := self.private.pop(request):
                self.free += blocks
                self.stream.emit(kv.BlocksFreed, request=request, blocks=blocks, reason="aborted")
            for holder, node in [pair for pair in self.locked if pair[0] == request]:
                self.locked.remove((holder, node))
                self.stream.unlock(node, request)
            self.stream.close(request, "aborted")

    def mark(self, node: int) -> Mark:
        active = {*self.private, self.latest}
        if any(node in self.used.get(request, ()) for request in active):
            return Mark.REUSED
        return Mark.NEW if any(node in self.stored.get(request, ()) for request in active) else Mark.IDLE

    def compare(self) -> None:
        mirror = self.stream.mirror
        assert mirror.check() == []
        idle = sum(len(blocks) for node, blocks in self.nodes.items() if not self.locks(node))
        assert (mirror.free, mirror.evictable) == (len(self.free), idle)
        assert mirror.protected == BLOCKS - len(self.free) - idle
        assert {node.id: node.parent for node in mirror.nodes.values() if node.id} == self.parents
        for node, blocks in self.nodes.items():
            shown = mirror.nodes[node]
            assert (shown.blocks.tolist(), shown.locks, shown.mark) == (
                blocks,
                self.locks(node),
                self.mark(node),
            )
            assert {mirror.block_state(block) for block in blocks} == {shown.state}
        for blocks in self.private.values():
            assert all(mirror.block_state(block).glyph == "+" for block in blocks)
        assert all(mirror.block_state(block).glyph in ".x" for block in self.free)


STEPS = (Model.open, Model.allocate, Model.allocate, Model.store, Model.split, Model.evict, Model.close)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 30)), max_size=60))
def test_any_legal_stream_folds_to_what_the_model_says(steps: list[tuple[int, int]]) -> None:
    model = Model()
    for step, pick in steps:
        STEPS[step](model, pick)
        model.compare()
    again = model.stream.mirror.copy()
    assert again.check() == []
