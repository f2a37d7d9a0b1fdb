"""Chat templates of downloaded models, rendered where they can be ended."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from chatkv.model.confined import Confined
from chatkv.model.template import PLAIN_TEMPLATE, ChatTemplate, Piece
from chatkv.model.wordings import Message

CPU_S = 5
"""Seconds of processor time for a conversation; the largest real ones take some hundredths."""
_MESSAGES_A_SECOND = 20
"""Long conversations get more: some are rendered once a message."""

TRUSTED = frozenset({"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"})
"""SHA-256 of templates that are known to end: that of the built-in model."""

_process = Confined("chatkv.model.template_process", "the model's chat template")


class Template(Protocol):
    """What renders a conversation."""

    def pieces(self, messages: Sequence[Message], generate: bool = True) -> list[Piece]:
        """As ``ChatTemplate.pieces``."""


class ConfinedTemplate:
    """A ``ChatTemplate`` in another process, with limits of time, memory and output."""

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        """Compile ``source`` there. Raises ModelError."""
        self._source, self._variables = source, dict(variables)
        self._ask(None, generate=True)

    def pieces(self, messages: Sequence[Message], generate: bool = True) -> list[Piece]:
        """As ``ChatTemplate.pieces``; raises LimitError where a limit is passed, too."""
        return self._ask(messages, generate=generate)

    def _ask(self, messages: Sequence[Message] | None, *, generate: bool) -> list[Piece]:
        question = {
            "source": self._source,
            "variables": self._variables,
            "messages": messages,
            "generate": generate,
        }
        found = _process.ask(question, CPU_S + len(messages or ()) // _MESSAGES_A_SECOND)
        return [Piece(text, message) for text, message in found]


def open_template(source: str | None, variables: Mapping[str, str]) -> Template:
    """Compile ``source``; None: the plain one. What is not known to end is rendered in another process.

    Raises ModelError where it is broken.
    """
    source = source or PLAIN_TEMPLATE
    known = (
        source == PLAIN_TEMPLATE or hashlib.sha256(source.encode("utf-8", "replace")).hexdigest() in TRUSTED
    )
    return ChatTemplate(source, variables) if known else ConfinedTemplate(source, variables)
