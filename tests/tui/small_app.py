"""A small app for the browser's driver; its file says how it ended."""

import os
import sys
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import Input, Label


class Small(App[None]):
    def compose(self) -> ComposeResult:
        yield Label("the top")
        yield Input()
        yield Label(id="typed", markup=False)
        yield Label("the bottom")

    def on_mount(self) -> None:
        # Neither may come between the packets.
        os.write(1, b"said to the output")
        print("printed")

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one("#typed", Label).update(f"<{ascii(event.value)[1:-1]}>")

    async def action_quit(self) -> None:
        Path(sys.argv[1]).write_text(f"quit with {self.query_one(Input).value!r}")
        self.exit()


Small().run()
