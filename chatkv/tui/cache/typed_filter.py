"""A filter that is typed into a pane itself: ``/``, words, enter; escape takes it away."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from chatkv.text import one_line
from chatkv.tui.keys_in_order import obey_now

_LIMIT = 80


class TypedFilter(Widget):
    """Mixin for a pane. ``filter_text`` is what was typed; ``filter_changed`` is called with each key.

    While typing, keys that would move or act are letters; leaving the pane ends the typing.
    """

    filter_text = ""
    typing_filter = False

    def filter_changed(self) -> None:
        """The text or whether it is being typed has changed."""

    @property
    def filter_words(self) -> str:
        """``/rust▌`` for a title; empty where there is no filter."""
        cursor = "▌" if self.typing_filter else ""
        return f"/{self.filter_text}{cursor}" if self.filter_text or self.typing_filter else ""

    def action_filter(self) -> None:
        """Begin to type."""
        self.typing_filter = True
        self.filter_changed()

    def clear_filter(self) -> bool:
        """Take the filter away; False where there was none."""
        had = bool(self.filter_words)
        self.filter_text, self.typing_filter = "", False
        if had:
            self.filter_changed()
        return had

    async def on_key(self, event: events.Key) -> None:
        """While typing, the keys are the filter's; escape takes the filter away before all else."""
        if not self.typing_filter:
            if event.key == "escape" and self.clear_filter():
                event.stop()
                event.prevent_default()
            else:
                # What is typed behind the key that begins the filter may come in one piece with it.
                await obey_now(self, event)
            return
        if event.key == "enter":
            self.typing_filter = False
        elif event.key == "escape":
            self.filter_text, self.typing_filter = "", False
        elif event.key == "backspace":
            self.filter_text = self.filter_text[:-1]
        elif event.is_printable and event.character and len(self.filter_text) < _LIMIT:
            self.filter_text += event.character
        else:
            return
        event.stop()
        event.prevent_default()
        self.filter_changed()

    def on_paste(self, event: events.Paste) -> None:
        """While typing, a paste is the filter's, too."""
        if self.typing_filter:
            event.stop()
            self.filter_text = (self.filter_text + one_line(event.text, _LIMIT))[:_LIMIT]
            self.filter_changed()

    def on_blur(self) -> None:
        """Elsewhere keys are not this filter's."""
        if self.typing_filter:
            self.typing_filter = False
            self.filter_changed()
