"""Renders chat templates in a process of its own: ``ConfinedTemplate`` asks it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from chatkv.files import MIB
from chatkv.model.confined import serve
from chatkv.model.template import ChatTemplate
from chatkv.model.wordings import Message

_MEMORY = 512 * MIB


@lru_cache(maxsize=8)
def _template(source: str, variables: tuple[tuple[str, str], ...]) -> ChatTemplate:
    return ChatTemplate(source, dict(variables))


def answer(question: dict[str, Any]) -> list[tuple[str, int | None]]:
    """The pieces of the messages that are asked about. Raises ModelError, LimitError."""
    template = _template(question["source"], tuple(question["variables"].items()))
    if question["messages"] is None:
        return []
    messages = [Message(*message) for message in question["messages"]]
    return [(piece.text, piece.message) for piece in template.pieces(messages, question["generate"])]


if __name__ == "__main__":
    serve(answer, _MEMORY)
