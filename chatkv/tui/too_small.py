"""What stands where there is no room to draw: what nobody sees does not act."""

from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widgets import Static

from chatkv.tui.keys.current import hint
from chatkv.tui.layout import SMALLEST, Arrangement, arrangement


class TooSmall(ModalScreen[None]):
    """Lies over all that is open, which stays as it is. No key of its own: the app's for quitting acts."""

    DEFAULT_CSS = """
    TooSmall, TooSmall:ansi { background: $background; align: center middle; }
    TooSmall Static { width: 1fr; height: auto; text-align: center; }
    """

    def compose(self) -> ComposeResult:
        """One sentence."""
        yield Static(markup=False)

    def show(self, size: Size) -> None:
        """The terminal is of ``size`` now."""
        need = "x".join(map(str, SMALLEST))
        self.query_one(Static).update(
            f"Terminal too small: {size.width}x{size.height}.\nchatkv needs {need}.\n"
            f"{hint('quit')} quits, no other key acts."
        )

    def on_mount(self) -> None:
        """Say it."""
        self.show(self.app.size)


def cover(app: App[Any], size: Size) -> None:
    """Put it over the screen of ``app``, or take it away, as ``size`` asks for."""
    there = next((screen for screen in app.screen_stack if isinstance(screen, TooSmall)), None)
    if arrangement(*size) is not Arrangement.TINY:
        if there is not None and there is app.screen:
            there.dismiss(None)
    elif there is None:
        app.push_screen(TooSmall())
    elif there.is_mounted:
        there.show(size)
