"""The first lines: what runs, whether it is kept, and, until it runs, how far loading is or why it failed."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from chatkv.engine.messages import Loading, Ready
from chatkv.text import one_line, printable
from chatkv.tui.desk import AGAIN
from chatkv.tui.sessions.book import SessionBook

_BAR = 24


def describe(ready: Ready) -> str:
    """``SmolLM2-135M · torch/cpu · bf16 · FCFS``."""
    model = one_line(ready.model.rstrip("/").rsplit("/", 1)[-1], 40)
    return " · ".join((model, ready.attention, ready.dtype, ready.policy))


def kept(book: SessionBook) -> str:
    """What is not on disk, in two words; empty: all is."""
    if book.unkept:
        return "nothing kept"
    return "not saved" if book.unsaved else ""


class Header(Widget):
    """`` chatkv  SmolLM2-135M · torch/cpu · bf16 · FCFS``; only the name where room is short."""

    DEFAULT_CSS = """
    Header { width: auto; height: 1; padding: 0 1; color: $text-muted; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ready: Ready | None = None
        self._brief = False
        self._kept = ""

    def show(self, ready: Ready | None, brief: bool, kept: str = "") -> None:
        """``brief``: the name alone. ``kept``: a warning that stands there as long as it is true."""
        if (ready, brief, kept) != (self._ready, self._brief, self._kept):
            self._ready, self._brief, self._kept = ready, brief, kept
            self.refresh(layout=True)

    def render(self) -> Content:
        """As drawn now."""
        name = Content("chatkv").stylize("bold $primary")
        if self._kept:
            name += Content("  ") + Content(f"! {self._kept}").stylize("bold $warning")
        if self._ready is None or self._brief:
            return name
        return name + Content("  " + describe(self._ready))


class LoadLine(Widget):
    """Loading's stage and a bar, or the failure; takes no room once the engine is ready."""

    DEFAULT_CSS = """
    LoadLine { height: auto; padding: 0 1; color: $text-muted; }
    LoadLine.failed { color: $error; }
    LoadLine.gone { display: none; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._line = ""

    def show(self, loading: Loading, ready: bool, failed: str) -> None:
        """``failed`` is the engine's own line, empty while all is well."""
        gone = ready and not failed
        self.set_class(gone, "gone")
        self.set_class(bool(failed), "failed")
        line = printable(f"✗ {failed} · {AGAIN}") if failed else self._progress(loading)
        if line != self._line:
            self._line = line
            self.refresh(layout=True)

    @staticmethod
    def _progress(loading: Loading) -> str:
        stage = one_line(loading.stage, 60)
        if loading.fraction is None:
            return f"{stage}… (you can type already)"
        fraction = min(1.0, max(0.0, loading.fraction))
        full = round(fraction * _BAR)
        return f"{stage} {'━' * full}{'─' * (_BAR - full)} {fraction:.0%}"

    def render(self) -> Content:
        """As drawn now."""
        return Content(self._line)
