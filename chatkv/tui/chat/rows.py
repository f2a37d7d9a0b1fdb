"""Text laid out in rows of cells. Each knows of which line it is a part: what is copied is not wrapped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content

Classes = tuple[str, ...]
"""Component classes of the widget that draws, the outermost first."""


class Row(NamedTuple):
    """``text`` is what line ``line`` has from character ``x`` on. ``before`` stands left of it, and is not a
    part of it; ``under`` is behind it, up to the right end or to ``after``, which stands there.
    """

    text: Content
    line: int
    x: int = 0
    before: tuple[tuple[str, Classes], ...] = ()
    under: Classes = ()
    after: tuple[tuple[str, Classes], ...] = ()

    @property
    def indent(self) -> int:
        """Cells left of the text."""
        return sum(cell_len(text) for text, _ in self.before)

    @property
    def outdent(self) -> int:
        """Cells right of it that are not its own."""
        return sum(cell_len(text) for text, _ in self.after)


class Laid(NamedTuple):
    """Rows, and the whole lines that they are of."""

    rows: list[Row]
    lines: list[str]

    def shifted(self, line: int) -> list[Row]:
        """The rows, where the first of the lines is number ``line``."""
        return [row._replace(line=row.line + line) for row in self.rows]


class Block(ABC):
    """What is laid out for itself, with ``above`` and ``below`` blank rows to its neighbours at least."""

    above = 0
    below = 0
    inner: Sequence[Block] = ()

    @abstractmethod
    def lay(self, width: int) -> Laid:
        """In ``width`` cells."""

    def stay(self, before: Block) -> None:  # noqa: B027
        """It takes the place of ``before``, with more text: what can be kept of that is."""

    def scroll(self, cells: int) -> bool:
        """Move what is too wide sideways, from the next ``lay`` on; False where nothing moves."""
        moved = [block.scroll(cells) for block in self.inner]
        return any(moved)

    @property
    def too_wide(self) -> bool:
        """Whether there is anything to move, as it was laid out last."""
        return any(block.too_wide for block in self.inner)


class Text(Block):
    """Wrapped between words."""

    def __init__(self, text: Content, under: Classes = (), above: int = 0, below: int = 0) -> None:
        self.text = text
        self.under = under
        self.above = above
        self.below = below

    def lay(self, width: int) -> Laid:
        """See the base class."""
        return wrapped(self.text, width, self.under)


class Long(Block):
    """A line of very many characters. In pieces: of one that grows only the last is laid out again."""

    below = 1
    _PIECE = 4_000

    def __init__(self, text: str) -> None:
        self._pieces: list[str] = []
        at = 0
        while len(text) - at > self._PIECE:
            end = at + self._PIECE
            end = text.rfind(" ", end - 200, end) + 1 or end
            self._pieces.append(text[at:end])
            at = end
        self._pieces.append(text[at:])
        self._laid: list[list[Row]] = []
        """The rows of each piece but the last, in ``_width`` cells."""
        self._width = 0

    def lay(self, width: int) -> Laid:
        """See the base class. A piece begins a row."""
        if width != self._width:
            self._width, self._laid = width, []
        for piece in self._pieces[len(self._laid) : -1]:
            self._laid.append(wrapped(Content(piece), width).rows)
        rows: list[Row] = []
        x = 0
        for piece, laid in zip(
            self._pieces, [*self._laid, wrapped(Content(self._pieces[-1]), width).rows], strict=True
        ):
            rows += [row._replace(x=row.x + x) for row in laid]
            x += len(piece)
        return Laid(rows, ["".join(self._pieces)])

    def stay(self, before: Block) -> None:
        """See the base class."""
        if isinstance(before, Long):
            whole = before._pieces[:-1]
            if self._pieces[: len(whole)] == whole:
                self._width, self._laid = before._width, before._laid


def wrapped(text: Content, width: int, under: Classes = ()) -> Laid:
    """``text`` in rows of at most ``width`` cells."""
    lines = [line.expand_tabs(8) for line in text.split(allow_blank=True)] or [Content("")]
    rows = [
        Row(part.content, number, part.x, under=under)
        for number, line in enumerate(lines)
        for part in line._wrap_and_format(max(1, width))
    ]
    return Laid(rows, [line.plain for line in lines])


def gap(above: Block | None, below: Block) -> int:
    """Blank rows between two; none before the first."""
    return 0 if above is None else max(above.below, below.above)


def stacked(blocks: Sequence[Block], width: int) -> Laid:
    """One under the other."""
    rows: list[Row] = []
    lines: list[str] = []
    before: Block | None = None
    for block in blocks:
        rows += [blank(lines)] * gap(before, block)
        laid = block.lay(width)
        rows += laid.shifted(len(lines))
        lines += laid.lines
        before = block
    return Laid(rows, lines)


def blank(lines: Sequence[str]) -> Row:
    """A row without text, behind the last of ``lines``."""
    return Row(Content(""), max(0, len(lines) - 1), len(lines[-1]) if lines else 0)


def behind(laid: Laid, mark: str, classes: Classes) -> Laid:
    """``laid`` with ``mark`` before its first row, which is copied with it; the others are indented alike."""
    wide = " " * cell_len(mark)
    rows = [
        row._replace(
            before=((mark if at == 0 else wide, classes if at == 0 else ()), *row.before),
            x=row.x + len(mark if row.line == 0 else wide),
        )
        for at, row in enumerate(laid.rows)
    ]
    return Laid(rows, [(wide if at else mark) + line for at, line in enumerate(laid.lines)])
