"""The keys of what has the focus, the most useful first, as many as there is room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from chatkv.tui.chat.prompt import Prompt

_OF_PANES = ("zoom", "hide", "list_panes", "freeze", "app.export")
"""What every pane offers: behind what the one with the focus offers of its own, before all else."""
_ALWAYS = ("help", "app.help", "pane(1)")


def width_of(key: FooterKey) -> int:
    """Cells it takes: a blank on either side of the key, and one behind the word."""
    return cell_len(key.key_display) + cell_len(key.description) + 3


def _told(keys: Iterable[FooterKey]) -> tuple[tuple[str, str, str, bool], ...]:
    return tuple((key.key_display, key.description, key.action, key.disabled) for key in keys)


class KeyLine(Footer):
    """A key is shown whole or not at all; those of the next pane and of the help are always there."""

    _width = 0
    _shown: tuple[tuple[str, str, str, bool], ...] = ()
    """As they were mounted last."""

    def compose(self) -> ComposeResult:
        """Those that fit."""
        fitting = list(self._fitting())
        self._shown = _told(fitting)
        yield from fitting

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Textual mounts all keys anew for each dialog and move of the focus; here only for others."""
        if self._bindings_ready and self.is_attached and _told(self._fitting()) == self._shown:
            return
        super().bindings_changed(screen)

    def _fitting(self) -> Iterator[FooterKey]:
        keys = [each for each in super().compose() if isinstance(each, FooterKey)]
        docked = [key for key in keys if key.has_class("-command-palette")]
        room = self.size.width - sum(width_of(key) + 2 for key in docked)
        keys = [key for key in keys if key not in docked]
        typing = isinstance(self.screen.focused, Prompt)
        own = {
            active.binding.action
            for active in self.screen.active_bindings.values()
            if active.node not in (self.screen, self.app)
        }

        def rank(key: FooterKey) -> int:
            if typing:
                return key.action in _OF_PANES
            return 0 if key.action in own else 1 if key.action in _OF_PANES else 2

        keys.sort(key=rank)
        room -= sum(width_of(key) for key in keys if key.action in _ALWAYS)
        for key in keys:
            if key.action in _ALWAYS:
                yield key
            elif width_of(key) <= room:
                room -= width_of(key)
                yield key
            else:
                room = 0  # what is less useful does not slip in before it
        yield from docked

    def on_resize(self, event: Resize) -> None:
        """Another room, other keys."""
        if event.size.width != self._width:
            self._width = event.size.width
            self.call_after_refresh(self.recompose)
