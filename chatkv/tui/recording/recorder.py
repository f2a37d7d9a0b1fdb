"""Takes frames of a running app, and writes them as one SVG file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.color import Color, ColorParseError

from chatkv.errors import UsageError
from chatkv.files import open_file, private_folder, write_whole
from chatkv.tui.recording.film import EVERY_S, MARK, Film
from chatkv.tui.recording.rows import Ink, row_svg

if TYPE_CHECKING:
    from textual.app import App


def check_target(path: Path) -> Path:
    """Where the recording goes, absolute.

    Raises:
        UsageError: it can't be written there, or would take the place of what is no recording.
    """
    path = Path(os.path.expanduser(path)).absolute()
    if path.suffix.lower() != ".svg":
        raise UsageError(f"--record-screen {path.name!r}: the name must end in .svg")
    if path.is_dir():
        raise UsageError(f"--record-screen: {path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"--record-screen: there is no folder {path.parent}; make it first")
    if path.exists() and not _is_ours(path):
        raise UsageError(f"--record-screen: {path} is there and is no recording of chatkv; name another file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--record-screen: no file can be written in {path.parent}; name one elsewhere")
    return path


def _is_ours(path: Path) -> bool:
    try:
        with open_file(path) as file:
            head = file.read(500)
    except OSError:
        return False
    return not head or MARK.encode() in head


class Camera:
    """Turns the screen of an app into rows of SVG; rows like those of the last frame cost nothing."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self.ink = _ink_of(app)
        self._last: dict[tuple[Segment, ...], str] = {}

    def frame(self) -> tuple[int, list[str]]:
        """Width in cells, and the rows."""
        before, self._last = self._last, {}
        rows = []
        for strip in self._app.screen._compositor.render_strips():
            key = tuple(strip)
            row = before.get(key)
            if row is None:
                row = row_svg(key, self.ink)
            self._last[key] = row
            rows.append(row)
        return self._app.size.width, rows


def _ink_of(app: App[None]) -> Ink:
    theme = app.ansi_theme
    colours = []
    for name, default in (("foreground", theme.foreground_color), ("background", theme.background_color)):
        try:
            colour = Color.parse(app.theme_variables[name])
        except (ColorParseError, KeyError):
            colour = Color(0, 0, 0, ansi=-1)
        colours.append(default.hex if colour.ansi is not None else colour.hex6)
    return Ink(theme, *colours)


class Recorder:
    """Looks ten times a second whether the app has drawn; off, it costs nothing."""

    def __init__(
        self, app: App[None], path: Path, spare: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``spare``: the folder that is written to where ``path`` can't be any more."""
        self.path = path
        self._spare = spare
        self._app = app
        self._clock = clock
        self._drawn = True
        self._camera: Camera | None = None
        self._film: Film | None = None
        self._next = 0.0

    def start(self) -> None:
        """From now on, while the app runs."""
        self._app.post_display_hook = self._mark  # type: ignore[method-assign]
        self._app.set_interval(EVERY_S, self.look)

    def _mark(self) -> None:
        self._drawn = True

    def look(self, last: bool = False) -> None:
        """Take a frame if there is something new to see and it is time; the ``last`` one at any time."""
        now = self._clock()
        if not self._drawn or (now < self._next and not last) or not self._app.size:
            return
        self._drawn = False
        if self._camera is None or self._film is None:
            self._camera = Camera(self._app)
            self._film = Film(self._camera.ink.ground)
        self._film.add(now, *self._camera.frame())
        self._next = now + self._film.every * 0.9

    def save(self) -> str:
        """Write the film; one line that says where, or why not."""
        if self._film is None:
            return "nothing was recorded"
        frames, seconds = len(self._film.frames), self._film.seconds
        picture = self._film.svg()
        many = f"{frames} frames, {seconds:.0f} s" if frames > 1 else "one frame"
        try:
            write_whole(self.path, picture, private=True)  # it holds what was said
        except OSError as error:
            why = f"the recording can't be written to {self.path}: {error.strerror or error}"
            try:
                private_folder(self._spare)
                write_whole(self._spare / self.path.name, picture, private=True)
            except OSError:
                return why
            return f"{why}; it is in {self._spare / self.path.name}"
        return f"recorded the screen: {self.path} ({many}, {len(picture) / 1e6:.1f} MB)"


def still(app: App[None]) -> str:
    """The screen as it is now, as SVG."""
    camera = Camera(app)
    film = Film(camera.ink.ground)
    film.add(0.0, *camera.frame())
    return film.svg()
