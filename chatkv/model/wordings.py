"""Other wordings of a conversation, for chat templates that refuse it as it is, or drop a part of it.

Many templates know user and assistant in turns, and a system message at most at the start. Rather than lose
what was said, or leave the chat without an answer, a system message is then the user's: first those that are
not at the start, then all. What one speaker says in a row is joined with a blank line, and an answer that
comes first gets an empty question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Message(NamedTuple):
    """One turn: ``opaque`` where its token ids are known, so that its text must not matter."""

    role: str
    text: str
    opaque: bool = False


class Wording(NamedTuple):
    """``places``: of each message the index in the original of the last one in it; None: it is made up."""

    messages: list[Message]
    places: list[int | None]


def wordings(messages: Sequence[Message]) -> Iterator[Wording]:
    """The conversation as it is, then others of it, each further from it than the one before."""
    last = Wording(list(messages), list(range(len(messages))))
    yield last
    if any(message.opaque and message.role != "assistant" for message in messages):
        return  # a text that must not matter can't be joined with another
    for upto in (1, 0):
        turns = Wording([], [])
        for place, message in enumerate(messages):
            if message.role == "system" and place >= upto:
                message = message._replace(role="user")
            _put(turns, message, place)
        if turns != last:
            last = turns
            yield turns
    if last.messages and last.messages[0].role == "assistant":
        yield Wording([Message("user", ""), *last.messages], [None, *last.places])


def _put(turns: Wording, message: Message, place: int) -> None:
    said = turns.messages[-1] if turns.messages else None
    if said is None or said.role != message.role or said.opaque or message.opaque:
        turns.messages.append(message)
        turns.places.append(place)
    else:
        turns.messages[-1] = said._replace(text=f"{said.text}\n\n{message.text}")
        turns.places[-1] = place
