"""What a chat template does, found out by rendering small conversations with it."""

from __future__ import annotations

from typing import NamedTuple

from chatkv.model.confined_template import Template
from chatkv.model.errors import LimitError, ModelError
from chatkv.model.template import Piece
from chatkv.model.thinking import CLOSE, OPEN
from chatkv.model.wordings import Message


class Thinking(NamedTuple):
    """``opened``: an answer starts inside a span. ``dropped``: earlier answers go in without theirs.

    ``newlines``: where it is dropped, the newlines behind it stay.
    """

    opened: bool
    dropped: bool
    newlines: bool


def default_system(template: Template) -> str | None:
    """What the template says as the system where no message does; None: nothing."""
    try:
        given = template.pieces([Message("system", "s", opaque=True), Message("user", "u", opaque=True)])
        alone = template.pieces([Message("user", "u", opaque=True)])
    except LimitError:
        raise
    except ModelError:
        return None
    if [p.message for p in given[:4]] != [None, 0, None, 1] or [p.message for p in alone[:2]] != [None, 0]:
        return None
    before, after, own = given[0].text, given[2].text, alone[0].text
    if len(own) < len(before) + len(after) or not (own.startswith(before) and own.endswith(after)):
        return None
    return own[len(before) : len(own) - len(after)].strip() or None


def after_answer(template: Template) -> str:
    """What the template writes behind an answer; empty where it refuses to show one."""
    turns = [Message("user", "u"), Message("assistant", "a", opaque=True)]
    try:
        pieces = template.pieces(turns, generate=False)
    except LimitError:
        raise
    except ModelError:
        return ""
    return "".join(piece.text for piece in behind(pieces, 1))


def thinking(template: Template) -> Thinking:
    """How the template of a thinking model treats thinking."""
    user = Message("user", "u", opaque=True)
    try:
        opening = "".join(piece.text for piece in behind(template.pieces([user]), 0))
        answer = Message("assistant", f"{OPEN}\nt\n{CLOSE}\n\na")
        shown = template.pieces([user, answer, Message("user", "v", opaque=True)])
    except LimitError:
        raise
    except ModelError:
        return Thinking(False, False, False)
    kept = "".join(piece.text for piece in shown if piece.message == 1)
    return Thinking(
        opening.rfind(OPEN) > opening.rfind(CLOSE), kept.strip("\n") == "a", kept.startswith("\n")
    )


def behind(pieces: list[Piece], message: int) -> list[Piece]:
    """The pieces behind the last one of ``message``; none where it isn't shown."""
    shown = [i for i, piece in enumerate(pieces) if piece.message == message]
    return pieces[shown[-1] + 1 :] if shown else []
