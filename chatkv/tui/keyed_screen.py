"""Which keys a screen offers where a person has changed some."""

from __future__ import annotations

from textual.binding import ActiveBinding, Binding
from textual.screen import Screen

from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.keys.current import NONE, changed_keys, types


class KeyedScreen(Screen[None]):
    """Its footer keeps its order, whatever the keys are."""

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """As Textual finds them. A key that a person has changed keeps its place in the footer, and is not
        offered where it types.
        """
        found = super().active_bindings
        if not changed_keys():
            return found
        typing = self.focused if isinstance(self.focused, Prompt) else None
        nodes = list(dict.fromkeys([*(each.node for each in found.values()), self]))

        def place(active: ActiveBinding) -> tuple[int, int]:
            id = active.binding.id
            for node in (self, active.node):
                ids = [each.id for each in node.BINDINGS if isinstance(each, Binding)]
                if id is not None and id in ids:
                    return nodes.index(node), ids.index(id)
            return nodes.index(active.node), 1000

        return {
            key: active
            for key, active in sorted(found.items(), key=lambda item: place(item[1]))
            if key != NONE
            and (typing is None or active.binding.priority or not types(key) or active.node is typing)
        }
