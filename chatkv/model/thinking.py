"""What a model thinks before it answers, kept apart from the answer.

A span is looked for at the start of an answer only, in text, so that tags may be split over tokens or
spelled with ordinary ones. Only models whose vocabulary or template knows the tags are taken to think.
"""

from __future__ import annotations

from enum import Enum

OPEN, CLOSE = "<think>", "</think>"


class _At(Enum):
    START = 1
    INSIDE = 2
    GAP = 3
    ANSWER = 4


class ThinkingSplitter:
    """Parts the text of one answer. Newlines at the borders of a span belong to neither part."""

    def __init__(self, thinks: bool, opened: bool = False) -> None:
        """``thinks``: the model does so at all; ``opened``: its template has opened the span already."""
        self._at = (_At.INSIDE if opened else _At.START) if thinks else _At.ANSWER
        self._held = ""
        self._begun = False
        self._may_repeat = opened

    @property
    def inside(self) -> bool:
        """Whether the answer is still to begin."""
        return self._at in (_At.START, _At.INSIDE)

    def push(self, text: str) -> tuple[str, str]:
        """(thinking, answer) that are certain now."""
        thinking = ""
        if self._at is _At.ANSWER:
            return "", text
        self._held += text
        if self._at is _At.START:
            begun = self._held.lstrip()
            if begun.startswith(OPEN):
                self._at, self._held = _At.INSIDE, begun[len(OPEN) :]
            elif OPEN.startswith(begun):
                return "", ""
            else:
                self._at = _At.ANSWER
                return "", self._release()
        if self._at is _At.INSIDE:
            thinking = self._think()
        if self._at is _At.GAP:
            self._held = self._held.lstrip("\n")
            if self._held:
                self._at = _At.ANSWER
                return thinking, self._release()
        return thinking, ""

    def flush(self) -> tuple[str, str]:
        """The answer ends here: (thinking, answer) of what was held back."""
        held = self._release()
        return (held.rstrip("\n"), "") if self._at is _At.INSIDE else ("", held)

    def _think(self) -> str:
        if self._may_repeat:  # some models open once more what their template has opened
            begun = self._held.lstrip()
            if not begun.startswith(OPEN) and OPEN.startswith(begun):
                return ""
            self._may_repeat = False
            self._held = begun.removeprefix(OPEN)
        if not self._begun:
            self._held = self._held.lstrip("\n")
        text, found, rest = self._held.partition(CLOSE)
        if found:
            self._at, self._held = _At.GAP, rest
            text = text.rstrip("\n")
        else:
            sure = len(text) - _overlap(text)
            sure = len(text[:sure].rstrip("\n"))
            text, self._held = text[:sure], text[sure:]
        self._begun = self._begun or bool(text)
        return text

    def _release(self) -> str:
        held, self._held = self._held, ""
        return held


def _overlap(text: str) -> int:
    return next((n for n in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:n])), 0)
