"""Keys that edit take effect in the order in which they were pressed.

Textual inserts letters at once, but runs bindings (backspace, arrows) only after the key has bubbled
to the top. Where several keys wait, because the machine is busy or a terminal sends them together,
"ab", backspace, "c" would come out as "ab".
"""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from chatkv.tui.keys.current import bound


async def obey_now(widget: Widget, event: events.Key) -> None:
    """Run what ``widget`` binds to the key at once; for its ``_on_key``."""
    for binding in bound(widget._bindings.key_to_bindings, event.key):
        if await widget.app.run_action(binding.action, default_namespace=widget):
            event.stop()
            event.prevent_default()
            return
