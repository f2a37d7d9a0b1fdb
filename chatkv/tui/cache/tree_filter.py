"""Which nodes a typed filter finds, looked for a slice at a time so that a large tree makes no pause."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from chatkv.insight.mirror import Mirror, Node
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.states import Look, node_look
from chatkv.tui.cache.tree_folds import Folds
from chatkv.tui.cache.tree_found import FoundTree

_AT_ONCE = 200
"""Changed nodes that are looked at again right away; more than that wait for their turn."""


class TreeFilter:
    """Every word has to be in the node's text, one of its sessions' names or the words for its state.

    ``tree`` is what was found, with all that is above it; ``folds`` what a person folded of that.
    """

    def __init__(self, text: str, mirror: Mirror, labels: Labels, names: Callable[[str], str]) -> None:
        self._text, self._words = text, text.casefold().split()
        self._mirror, self._labels, self._names = mirror, labels, names
        self.tree = FoundTree(mirror.nodes)
        self.folds = Folds()
        self._pending = list(mirror.nodes)
        """Looked at from its end: the newest first."""
        self._haunt()

    def elsewhere(self, mirror: Mirror) -> TreeFilter:
        """The same search in another tree."""
        search = TreeFilter(self._text, mirror, self._labels, self._names)
        search.folds = self.folds
        return search

    @property
    def pending(self) -> int:
        """How many nodes have not been looked at yet."""
        return len(self._pending)

    def follow(self, changed: Collection[int], departed: Collection[int]) -> None:
        """The tree has changed, as ``TreeRows.follow`` says."""
        self.tree.follow(changed, departed)
        if len(changed) > _AT_ONCE:
            self._pending += changed
        else:
            for node in changed:
                self._look_at(node)
        self._haunt()

    def look(self, count: int) -> bool:
        """Look at ``count`` more nodes; True where the rest has been looked at, too."""
        for _ in range(min(count, len(self._pending))):
            self._look_at(self._pending.pop())
        return not self._pending

    def _haunt(self) -> None:
        """The evicted nodes that are found."""
        self.tree.ghosts = {
            key: ghost
            for key, ghost in self._mirror.ghosts.items()
            if self._fits(self._labels.label(ghost.tokens), ghost.sessions, "x evicted")
        }

    def _look_at(self, id: int) -> None:
        node = self._mirror.nodes.get(id)
        if (
            node is None
            or id == ROOT
            or not self._fits(self._labels.label(node.tokens), node.sessions, self._state(node))
        ):
            self.tree.drop(id)
        else:
            self.tree.add(id)

    def _state(self, node: Node) -> str:
        mirror, look = self._mirror, node_look(node)
        words = [look.word]
        if node.locks:
            words.append(Look.LOCKED.word)
        if node.pinned:
            words.append(Look.PINNED.word)
        if node.copied_epoch == mirror.epoch:
            words.append(Look.COPIED.word)
        if mirror.left_behind(node):
            words.append(Look.LEFT.word)
        return " ".join(words)

    def _fits(self, label: str, sessions: Iterable[str], state: str) -> bool:
        said = f"{label}\n{' '.join(self._names(key) for key in sessions)}\n{state}".casefold()
        return all(word in said for word in self._words)
