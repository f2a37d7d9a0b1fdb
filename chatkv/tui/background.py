"""The colour of the terminal's background, by asking it (OSC 11): dark colours belong on a dark one."""

from __future__ import annotations

import re

ASK = "\x1b]11;?\x1b\\"
_ANSWER = re.compile(r"\x1b\]11;([^\x07\x1b]{0,64})(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b\]11;[^\x07\x1b]{0,64}\x1b?$")
_COLOUR = re.compile(r"rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})(?:/[0-9a-f]{1,4})?", re.I)
_LIGHT = 0.5


class Answers:
    """Takes the terminal's answers out of what is read from it, so that nothing of them is typed."""

    def __init__(self) -> None:
        self.light: bool | None = None
        """Whether the background is a light one, as last answered; None before, and where it is no colour."""
        self._begun = ""

    def without(self, text: str) -> str:
        """``text``, the next that was read, without answers; the start of one waits for its end."""
        if not self._begun and "\x1b]11;" not in text:
            return text
        text = self._begun + text
        self._begun = ""
        for answer in _ANSWER.finditer(text):
            self.light = is_light(answer[1])
        text = _ANSWER.sub("", text)
        if begun := _BEGUN.search(text):
            self._begun = begun.group()
            text = text[: begun.start()]
        return text


def is_light(colour: str) -> bool | None:
    """Of ``rgb:ffff/ffff/ffff``, with 1 to 4 digits each; None for what is no such colour."""
    found = _COLOUR.fullmatch(colour)
    if found is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups()[:3])
    return bool(0.299 * red + 0.587 * green + 0.114 * blue > _LIGHT)
