"""What was thought before an answer, kept apart from its text, and put back where it goes to other programs.

Others write both into one text: ``<think>…</think>`` and the answer. What stood around the thinking is kept
with the message (``meta["thinking_in"]``: what is before it, what is between it and the answer), so that the
text that is written again is the text that was read.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from chatkv.chat.tree import Message
from chatkv.model.thinking import CLOSE, OPEN

# Where a template opens the span, the text has the end alone. In a line of its own: prose may name it.
_END_ALONE = re.compile(rf"^[ \t]*{CLOSE}[ \t]*$", re.MULTILINE)
_FIELDS = ("reasoning_content", "reasoning", "thinking")
_AROUND = "thinking_in"


class Said(NamedTuple):
    """A message's text, and what was thought before; ``around`` None: that did not stand in the text."""

    text: str
    thinking: str = ""
    around: tuple[str, str] | None = None

    @property
    def meta(self) -> dict[str, Any]:
        """What a message keeps of it besides its text."""
        meta: dict[str, Any] = {"thinking": self.thinking} if self.thinking else {}
        return meta if self.around is None else {**meta, _AROUND: list(self.around)}


def parted(text: str) -> Said:
    """An answer's text, and the thinking that it begins with; newlines at its borders are of neither part.

    A span that never ends is an answer that was cut short.
    """
    begun = text.lstrip()
    if begun.startswith(OPEN):
        start = len(text) - len(begun) + len(OPEN)
        end = text.find(CLOSE, start)
        behind = end + len(CLOSE)
        if end < 0:
            end = behind = len(text)
    elif (alone := _END_ALONE.search(text)) is not None and OPEN not in text[: alone.start()]:
        start, end, behind = 0, alone.start(), alone.end()
    else:
        return Said(text)
    inner = text[start:end].lstrip("\n")
    before = text[: end - len(inner)]
    thinking, answer = inner.rstrip("\n"), text[behind:].lstrip("\n")
    return Said(answer, thinking, (before, text[len(before) + len(thinking) : len(text) - len(answer)]))


def given(message: dict[str, Any], text: str) -> Said:
    """What another program's ``message`` of an assistant says; ``text``: its content."""
    for field in _FIELDS:
        if isinstance(thinking := message.get(field), str) and thinking.strip():
            return Said(text, thinking)
    return parted(text)


def whole(message: Message) -> tuple[str, str]:
    """(the text with what was thought in it where it was read so, the thinking that does not stand in it)."""
    match message.meta.get(_AROUND):
        case [str(before), str(between)] if message.role == "assistant":
            return f"{before}{message.thinking}{between}{message.text}", ""
    return message.text, message.thinking


def apart(message: Message) -> Message:
    """``message`` with its thinking apart from its text; one imported by an earlier version has it there."""
    known = {"thinking", _AROUND} & message.meta.keys()
    if message.role != "assistant" or message.meta.get("imported") is not True or known:
        return message
    said = parted(message.text)
    if said.around is None:
        return message
    meta = {**message.meta, **said.meta}
    return Message(message.id, message.parent, message.role, said.text, message.token_ids, meta)
