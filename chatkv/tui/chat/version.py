"""Which of several versions of a message is shown, and what goes to the others."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style

from chatkv.tui.keys.current import sign

_WAYS = (("chat.older_version", -1), ("chat.newer_version", 1))


def version(at: int, count: int) -> str:
    """``2/3 ← →``: which of several it is, and the keys to the others; empty where it is the only one."""
    return " ".join([f"{at}/{count}", *(sign(id) for id, _ in _WAYS)]) if count > 1 else ""


def clickable(text: Content, place: str, message: str) -> Content:
    """``text`` whose part ``place``, made by ``version``, is clicked as the keys are pressed.

    ``message``: id of the one it is of; empty for one that is being said.
    """
    end = text.plain.find(place) + len(place) if place else -1
    if end < len(place):
        return text
    for id, by in reversed(_WAYS):
        start = end - len(sign(id))
        text = text.stylize(Style.from_meta({"@click": f"app.sibling({by}, {message!r})"}), start, end)
        end = start - 1
    return text
