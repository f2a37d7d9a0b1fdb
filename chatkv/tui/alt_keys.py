"""alt and a key in terminals without the kitty keyboard protocol (tmux, xterm, screen).

They send escape and the key. Textual reads escape and a digit as what option and the digit types on
a Mac (``¡`` for 1), and escape and enter as enter, so a person who wants a new line would send.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys

from chatkv.tui.keys.current import character

_SENT = {"enter": "\r", "tab": "\t", "space": " ", "backspace": "\x7f"}


def read_alt_keys(keys: Iterable[str]) -> None:
    """Have Textual read those of ``keys`` that are alt and one key, under their names, in this process."""
    table = cast(dict[str, tuple[Keys, ...]], ANSI_SEQUENCES_KEYS)
    for key in keys:
        last = key.removeprefix("alt+")
        sent = _SENT.get(last) or character(last)
        if last != key and sent is not None and len(sent) == 1 and sent not in "[O":
            # Those two begin other sequences. Textual asks for no more than the name.
            table["\x1b" + sent] = (cast(Keys, SimpleNamespace(value=key)),)
