"""What one session looks like wherever sessions are listed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from chatkv.text import one_line
from chatkv.tui.cache.cells import steady
from chatkv.tui.chip_row import Chip, row_width
from chatkv.tui.sessions.session import Session

_CHIP_NAMES = (18, 12, 8)
"""Characters of a name in a chip: as many as let all chips fit."""
_ROW_NAME = 60
_FORK = re.compile(r" ⑂\d{1,4}$")


class Item(NamedTuple):
    """``mark``: ``●`` an answer is running, ``○`` one has come that was not seen, ``⇄`` open in another
    chatkv, too, else a blank.
    """

    key: str
    number: int
    name: str
    mark: str
    current: bool
    hit: int | None
    """Percent of the last prompt that came out of the cache."""

    def chip(self, limit: int) -> Chip:
        """As a chip: ``1 rust help ●``, the name in at most ``limit`` characters."""
        mark = f" {self.mark}" if self.mark.strip() else ""
        return Chip(self.key, f"{self.number} {short(self.name, limit)}{mark}", self.current)

    def row(self, width: int) -> Content:
        """As a row of ``width`` cells: ``▸ 1 rust help    ●  71``."""
        hit = "" if self.hit is None else str(self.hit)
        left = f"{'▸' if self.current else ' '}{self.number:>2} "
        right = f" {self.mark} {hit:>3}"
        room = max(1, width - cell_len(left) - cell_len(right))
        base, fork = parted(self.name)
        room_for_base = max(1, room - cell_len(fork))
        if cell_len(base) > room_for_base:
            base = set_cell_size(base, room_for_base - 1) + "…"
        name = base + fork
        return Content(left + set_cell_size(name, room) + right)


def parted(name: str) -> tuple[str, str]:
    """The name and, for a fork, what tells it from the others: ``("rust help", " ⑂1")``."""
    match = _FORK.search(name)
    return (name, "") if match is None else (name[: match.start()], match.group())


def short(name: str, limit: int) -> str:
    """In at most ``limit`` characters; a fork's number stays."""
    base, fork = parted(name)
    return one_line(base, max(1, limit - len(fork))) + fork


@lru_cache(maxsize=4)
def chips(listed: tuple[Item, ...], width: int) -> list[Chip]:
    """One chip an item; names are cut so that all fit ``width`` cells, as far as that goes."""
    row: list[Chip] = []
    for limit in _CHIP_NAMES:
        row = [item.chip(limit) for item in listed]
        if row_width(row) <= width:
            break
    return row


@lru_cache(maxsize=1024)
def _row_name(name: str) -> str:
    return steady(one_line(name, _ROW_NAME))


def items(listed: Iterable[tuple[int, Session]], current: Session) -> tuple[Item, ...]:
    """One item for each (number, session), in order."""
    return tuple(
        Item(
            session.key,
            number,
            _row_name(session.name),
            "●" if session.running else "○" if session.unread else "⇄" if session.elsewhere else " ",
            session is current,
            session.hit_percent,
        )
        for number, session in listed
    )
