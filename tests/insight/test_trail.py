"""Which nodes a session's conversation leads through as it stands, and which only did once."""

from __future__ import annotations

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.radix_cache import RadixCache

ASKED, FIRST, SECOND, OTHER = [1] * 8, [2] * 8, [3] * 8, [4] * 8


class Chats:
    """A radix cache of 10 blocks of 4 tokens, and its mirror."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.cache = RadixCache(10, 4, log=EventLog(self.mirror.apply))
        self.request = 0

    def begin(self, session: str, tokens: list[int]) -> int:
        self.request += 1
        opened = self.cache.open(self.request, [*tokens, 9], session=session)
        assert opened is not None
        assert self.cache.grow(self.request, len(tokens))
        self.cache.commit(self.request, tokens[opened.cached :])
        return self.request

    def ask(self, session: str, tokens: list[int]) -> int:
        request = self.begin(session, tokens)
        self.cache.close(request, "finished")
        return request

    def trail(self, session: str) -> list[int]:
        """The first token of each node on it that is still there, the root's child first."""
        nodes = [
            self.mirror.nodes[id] for id in sorted(self.mirror.trail(session)) if id in self.mirror.nodes
        ]
        return [int(node.tokens[0]) for node in sorted(nodes, key=lambda n: len(self.mirror.path(n.id)))]


def test_it_goes_with_the_branch_that_is_shown() -> None:
    chats = Chats()
    first = chats.ask("a", ASKED + FIRST)
    assert chats.trail("a") == [1]
    second = chats.ask("a", ASKED + SECOND)
    assert chats.trail("a") == [1, 3]
    frozen = chats.mirror.copy()
    assert chats.mirror.stand("a", first)
    assert chats.trail("a") == [1, 2]
    assert chats.mirror.stand("a", second)
    assert chats.trail("a") == [1, 3]
    assert len(frozen.trail("a")) == 2
    assert chats.trail("b") == []
    chats.cache.clear()
    assert chats.trail("a") == []


def test_it_goes_to_where_its_requests_are_as_long_as_they_run() -> None:
    chats = Chats()
    chats.ask("a", ASKED + FIRST)
    running = [chats.begin("a", ASKED + SECOND), chats.begin("a", ASKED + OTHER)]
    assert sorted(chats.trail("a")) == [1, 3, 4]
    chats.cache.close(running[1], "finished")
    assert chats.trail("a") == [1, 3]
    chats.cache.close(running[0], "finished")
    assert chats.trail("a") == [1, 3]


def test_what_was_evicted_from_its_end_belongs_to_it_until_it_goes_on() -> None:
    chats = Chats()
    first = chats.ask("a", ASKED + FIRST)
    chats.ask("a", ASKED + SECOND)
    chats.ask("b", OTHER * 2)
    chats.ask("b", [5] * 24)  # takes room from both answers
    ghosts = {int(ghost.tokens[0]): ghost.node for ghost in chats.mirror.ghosts.values()}
    assert {2, 3} <= ghosts.keys()
    assert ghosts[3] in chats.mirror.trail("a")
    assert ghosts[2] not in chats.mirror.trail("a")
    assert ghosts[3] in chats.mirror.copy().trail("a")
    assert chats.mirror.stand("a", first)
    assert ghosts[3] not in chats.mirror.trail("a")
    assert ghosts[2] in chats.mirror.trail("a")
    chats.begin("a", ASKED + [6] * 4)
    assert ghosts[2] not in chats.mirror.trail("a")
