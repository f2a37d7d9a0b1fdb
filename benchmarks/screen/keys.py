"""How long a key takes to show: typed letters, another session, a dialog, while four answers stream.

The clock starts when the key is written to the terminal and stops when the bytes of the frame that
shows its effect have been read from it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from benchmarks.screen.order import NAMES
from benchmarks.screen.terminal import Terminal

_FIRST_LETTER = 0x400
"""Cyrillic: letters that nothing else on the screen has, so that a frame with one shows that key."""
_LETTERS = 0x60
_QUIT = b"\x11"
_LOAD_S = 180.0
_QUIT_S = 20.0


class Keys(NamedTuple):
    """``seconds`` by kind of key; None for one whose effect was not seen in time.

    ``share``: of a core, what the screen's thread took while nobody pressed anything.
    """

    seconds: dict[str, list[float | None]]
    share: float


def measure_keys(
    order: Mapping[str, Any],
    columns: int,
    rows: int,
    letters: int,
    others: int,
    progress: Callable[[str, int, int], None],
) -> Keys:
    """Start what ``order`` says in ``columns`` by ``rows`` cells and press keys."""
    pauses = random.Random(3)
    out: dict[str, list[float | None]] = {"letter": [], "session": [], "help": []}
    with Terminal(order, columns, rows, progress) as terminal:
        terminal.wait("streaming", _LOAD_S)

        def press(kind: str, keys: bytes, shows: str) -> None:
            # At any moment between two frames.
            terminal.rest(pauses.uniform(0.05, 0.15))
            out[kind].append(terminal.press(keys, shows.encode()))

        for number in range(min(letters, _LETTERS)):
            letter = chr(_FIRST_LETTER + number)
            press("letter", letter.encode(), letter)
        for number in range(others):
            at = (number + 1) % len(NAMES)
            press("session", b"\x1b%d" % (at + 1), f"Chat · {NAMES[at]}")
        for _ in range(others):
            press("help", b"\x1bOP", "earlier and later messages")
            terminal.rest(0.1)
            terminal.press(b"\x1b")
            terminal.rest(0.5)
        terminal.press(_QUIT)
        return Keys(out, terminal.wait("result", _QUIT_S)["share"])
