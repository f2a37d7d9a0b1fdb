"""A row of the screen as SVG: the same text in the same cells, whatever font shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

SIZE = 14
CELL = 8.4
LINE = 16
"""No higher than a letter, or frames have gaps."""
BASE = 12.5
"""Of a row's top, where its letters stand."""

FONT = "DejaVu Sans Mono,Menlo,Consolas,Liberation Mono,monospace"

# XML has no place for these, however they are written.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Look(NamedTuple):
    """A style as it is drawn."""

    ink: str
    ground: str
    classes: str


class Ink:
    """Resolves what a terminal would: default colours, the sixteen, reverse and dim."""

    def __init__(self, theme: TerminalTheme, ink: str, ground: str) -> None:
        """``ink`` and ``ground``: what a cell without colours has."""
        self.ink, self.ground = ink, ground
        self._theme = theme
        self._looks: dict[Style, Look] = {}

    def look(self, style: Style | None) -> Look:
        """How ``style`` is drawn."""
        style = style or Style.null()
        if (look := self._looks.get(style)) is None:
            ink = self._colour(style.color, self.ink)
            ground = self._colour(style.bgcolor, self.ground)
            if style.reverse:
                ink, ground = ground, ink
            if style.dim:
                ink = _between(ink, ground)
            letters = {"b": style.bold, "i": style.italic, "u": style.underline, "s": style.strike}
            look = self._looks[style] = Look(
                ink, ground, " ".join(name for name, on in letters.items() if on)
            )
        return look

    def _colour(self, color: Color | None, default: str) -> str:
        if color is None or color.is_default:
            return default
        return color.get_truecolor(self._theme).hex


def _between(one: str, other: str) -> str:
    a, b = (bytes.fromhex(color[1:]) for color in (one, other))
    return ColorTriplet(*((x + y) // 2 for x, y in zip(a, b, strict=True))).hex


def row_svg(segments: Iterable[Segment], ink: Ink) -> str:
    """One row whose top left corner is the origin; what looks like the empty screen is left out."""
    grounds: list[str] = []
    texts: list[str] = []
    x = 0
    for look, text in _runs(segments, ink):
        cells = cell_len(text)
        if look.ground != ink.ground:
            grounds.append(
                f'<rect x="{x * CELL:g}" width="{cells * CELL:g}" height="{LINE}" fill="{look.ground}"/>'
            )
        at = x
        for piece, wide in _pieces(text):
            across = cell_len(piece)
            if piece.strip() or "u" in look.classes or "s" in look.classes:
                letters = f' class="{look.classes}"' if look.classes else ""
                # A glyph of two cells is placed alone: the font it comes from has widths of its own.
                fit = "" if wide else ' lengthAdjust="spacingAndGlyphs"'
                texts.append(
                    f'<text x="{at * CELL:g}" y="{BASE}" textLength="{across * CELL:g}"{fit}'
                    f' fill="{look.ink}"{letters}>{escape(piece)}</text>'
                )
            at += across
        x += cells
    return "".join((*grounds, *texts))


def _runs(segments: Iterable[Segment], ink: Ink) -> Iterator[tuple[Look, str]]:
    """Neighbours that look the same as one."""
    last: Look | None = None
    text = ""
    for segment in segments:
        if segment.control:
            continue
        look = ink.look(segment.style)
        if last is not None and look != last:
            yield last, text
            text = ""
        last = look
        text += _NOT_XML.sub("\ufffd", segment.text).translate({9: " ", 10: " ", 13: " "})
    if last is not None:
        yield last, text


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """``text`` in pieces that are placed apart: words with their single blanks, and each wide character."""
    if text.isascii():
        for piece in re.findall(r" {2,}|(?:(?! {2}).)+", text):
            yield piece, False
        return
    piece = ""
    for char in text:
        width = cell_len(char)
        if width == 0 and piece:
            piece += char
            continue
        wide = width > 1
        if piece and (wide or cell_len(piece[0]) > 1 or (char == " ") != (piece[-1] == " ")):
            yield piece, cell_len(piece[0]) > 1
            piece = ""
        piece += char
    if piece:
        yield piece, cell_len(piece[0]) > 1
