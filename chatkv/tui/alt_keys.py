"""alt+1 … alt+9 and alt+enter in terminals without the kitty keyboard protocol (tmux, xterm, screen).

They send escape and the key. Textual reads escape and a digit as what option and the digit types on
a Mac (``¡`` for 1), and escape and enter as enter, so a person who wants a new line would send.
"""

from __future__ import annotations

from enum import Enum
from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys


class _AltKey(Enum):
    """Named as Textual names them in terminals that have the protocol."""

    ALT_ENTER = "alt+enter"
    ALT_1 = "alt+1"
    ALT_2 = "alt+2"
    ALT_3 = "alt+3"
    ALT_4 = "alt+4"
    ALT_5 = "alt+5"
    ALT_6 = "alt+6"
    ALT_7 = "alt+7"
    ALT_8 = "alt+8"
    ALT_9 = "alt+9"


def read_alt_keys() -> None:
    """Have Textual read them as such, in this process."""
    table = cast(dict[str, tuple[Keys, ...]], ANSI_SEQUENCES_KEYS)
    for key in _AltKey:
        last = key.value.removeprefix("alt+").replace("enter", "\r")
        table["\x1b" + last] = (cast(Keys, key),)
