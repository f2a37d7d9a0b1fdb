"""Frames of a screen in bounded memory, and the one SVG they become.

A row is kept once however often it is seen, and a frame is the numbers of its rows. In the picture each row
has its own reel of what stood there; one animation a row moves the reel behind a slit. So a film costs about
as much as what changed in it, and it plays wherever SVG and CSS do, without a script.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chatkv.tui.recording.rows import CELL, FONT, LINE, SIZE

MARK = 'data-chatkv="screen"'
"""On the root of every picture written here, so that it may be written over."""

MAX_FRAMES = 1200
MAX_CHARACTERS = 4_000_000
LONGEST_S = 2.0
"""A screen that stands still longer is shown for no more than this."""
HOLD_S = 2.0
"""How long the last frame stands before the film begins again."""
EVERY_S = 0.1
"""Least time between two frames, until there are too many."""

_MARGIN = 10


class Frame(NamedTuple):
    """``at``: seconds into the film; ``rows``: numbers of rows, from the top."""

    at: float
    width: int
    rows: tuple[int, ...]


class Film:
    """When it grows too large, every second frame goes and half as many are taken from then on."""

    def __init__(self, ground: str) -> None:
        self.ground = ground
        self.every = EVERY_S
        self.frames: list[Frame] = []
        self._rows: list[str] = []
        self._numbers: dict[str, int] = {}
        self._size = 0
        self._before = 0.0

    def add(self, now: float, width: int, rows: Sequence[str]) -> None:
        """A frame as it stands at ``now`` (seconds of any clock); one like the last changes nothing."""
        numbers = tuple(self._number(row) for row in rows)
        at = 0.0
        if self.frames:
            last = self.frames[-1]
            if (last.width, last.rows) == (width, numbers):
                return
            at = last.at + min(LONGEST_S, now - self._before)
        self._before = now
        self.frames.append(Frame(at, width, numbers))
        while len(self.frames) > 2 and (len(self.frames) > MAX_FRAMES or self._size > MAX_CHARACTERS):
            self._thin()

    @property
    def seconds(self) -> float:
        """How long the film runs, the last frame's hold not counted."""
        return self.frames[-1].at if self.frames else 0.0

    def _number(self, row: str) -> int:
        number = self._numbers.setdefault(row, len(self._rows))
        if number == len(self._rows):
            self._rows.append(row)
            self._size += len(row)
        return number

    def _thin(self) -> None:
        self.every *= 2
        # The newest always stays: it is what the next one is compared with.
        kept = self.frames[-1::-2][::-1]
        first = self.frames[0]
        if kept[0] is not first:
            kept[0] = kept[0]._replace(at=first.at)
        old, self._rows, self._numbers, self._size = self._rows, [], {}, 0
        self.frames = [
            frame._replace(rows=tuple(self._number(old[number]) for number in frame.rows)) for frame in kept
        ]

    def svg(self, title: str = "chatkv") -> str:
        """The film; a picture that stands still where there is one frame. ``title`` is not escaped."""
        return "\n".join(self._parts(title)) + "\n"

    def _parts(self, title: str) -> Iterator[str]:
        cells = max((frame.width for frame in self.frames), default=0)
        lines = max((len(frame.rows) for frame in self.frames), default=0)
        width, height = cells * CELL, lines * LINE
        reels = [Reel(self.frames, y) for y in range(lines)]
        length = self.seconds + HOLD_S
        wide, high = f"{width + 2 * _MARGIN:g}", f"{height + 2 * _MARGIN:g}"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" {MARK} width="{wide}" height="{high}"'
            f' viewBox="{-_MARGIN} {-_MARGIN} {wide} {high}" font-family="{FONT}" font-size="{SIZE}"'
            ' xml:space="preserve" role="img">'
        )
        yield f"<title>{title}</title>"
        yield "<style>"
        # As a terminal has it: cells from left to right, whatever is written in them.
        yield "text{white-space:pre;direction:ltr;unicode-bidi:bidi-override}"
        yield ".b{font-weight:bold}.i{font-style:italic}.u{text-decoration:underline}"
        yield ".s{text-decoration:line-through}.u.s{text-decoration:underline line-through}"
        for y, reel in enumerate(reels):
            if reel.moves:
                yield f"@keyframes r{y}{{{reel.keyframes(length)}}}"
                yield f".r{y}{{animation:r{y} {length:.3f}s step-end infinite}}"
        if any(reel.moves for reel in reels):
            yield "@media (prefers-reduced-motion:reduce){.r{animation:none}}"
        yield "</style>"
        yield f'<defs><clipPath id="slit"><rect width="{width:g}" height="{LINE}"/></clipPath>'
        # A row that is seen in several places (a text that scrolls) is written once.
        again = _in_several(reels)
        for number in sorted(again):
            if row := self._row(number):
                yield f'<g id="l{number}">{row}</g>'
        yield "</defs>"
        yield (
            f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="{wide}" height="{high}" rx="6"'
            f' fill="{self.ground}"/>'
        )
        for y, reel in enumerate(reels):
            inside = "".join(
                self._placed(number, at, number in again) for at, number in enumerate(reel.numbers)
            )
            if reel.moves:
                # Where nothing is animated, the last frame is seen.
                inside = f'<g class="r r{y}" transform="translate(0 {-reel.last * LINE})">{inside}</g>'
            if inside:
                yield f'<g transform="translate(0 {y * LINE})" clip-path="url(#slit)">{inside}</g>'
        yield "</svg>"

    def _row(self, number: int) -> str:
        return self._rows[number] if number >= 0 else ""

    def _placed(self, number: int, at: int, shared: bool) -> str:
        row = self._row(number)
        if not row:
            return ""
        place = f' transform="translate(0 {at * LINE})"' if at else ""
        return f'<use href="#l{number}"{place}/>' if shared else f"<g{place}>{row}</g>"


class Reel:
    """What stands in one row in the course of a film: each content once, and when which is seen."""

    def __init__(self, frames: Sequence[Frame], y: int) -> None:
        places: dict[int, int] = {}
        self.cuts: list[tuple[float, int]] = []
        """(seconds, place in the reel), in order."""
        for frame in frames:
            number = frame.rows[y] if y < len(frame.rows) else -1
            place = places.setdefault(number, len(places))
            if not self.cuts or self.cuts[-1][1] != place:
                self.cuts.append((frame.at, place))
        self.numbers = list(places)
        """Rows (-1: nothing) in their places."""
        self.moves = len(self.cuts) > 1
        self.last = self.cuts[-1][1] if self.cuts else 0

    def keyframes(self, length: float) -> str:
        """CSS keyframes over ``length`` seconds."""
        return "".join(
            f"{100 * at / length:.4f}%{{transform:translate(0,{-place * LINE}px)}}" for at, place in self.cuts
        )


def _in_several(reels: Sequence[Reel]) -> set[int]:
    seen: set[int] = set()
    again: set[int] = set()
    for reel in reels:
        for number in reel.numbers:
            (again if number in seen else seen).add(number)
    return again
