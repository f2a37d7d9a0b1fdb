"""One record of a session file: a JSON object in one line, and back.

``{"chatkv":"session","version":1,"id":…,"created":…}`` comes first; then, in the order things
happened, ``message``, ``head``, ``name``, ``system``, ``sampling`` and ``draft`` records. A message moves the
head to itself, and a user's ends the draft before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from chatkv.chat.thought import apart
from chatkv.chat.tree import ROLES, Conversation, Message
from chatkv.documents import DocumentError, parse_json

VERSION = 1

Record = dict[str, Any]
_MAX_TOKEN_ID = 2**31 - 1


class RecordError(ValueError):
    """A line that is not a record; ``str`` says why."""


def encode(record: Record) -> bytes:
    """``record`` as one line with its newline, as compact as JSON can be."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # A lone surrogate: only an escape can carry it.
        return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> Record:
    """The record in ``line`` (any kind, also unknown ones).

    Raises:
        RecordError: it is not a JSON object with a ``chatkv`` key, or ``encode`` could not write it again.
    """
    try:
        record = parse_json(line.decode())
    except DocumentError as error:
        # Where in its line a record breaks helps nobody: the line is named already.
        words = str(error)
        raise RecordError("not JSON" if words.startswith("is not JSON") else words) from None
    except UnicodeDecodeError:
        raise RecordError("not UTF-8 text") from None
    if not isinstance(record, dict) or not isinstance(record.get("chatkv"), str):
        raise RecordError('not a chatkv record (an object with a "chatkv" key)')
    return record


def session_record(conv: Conversation) -> Record:
    """The first record of ``conv``'s file."""
    record: Record = {
        "chatkv": "session",
        "version": VERSION,
        "id": conv.id,
        "created": conv.created.isoformat(),
    }
    if conv.given_name is not None:
        record["name"] = conv.given_name
    if conv.system is not None:
        record["system"] = conv.system
    if conv.sampling:
        record["sampling"] = dict(conv.sampling)
    if conv.forked_from is not None:
        record["forked_from"] = list(conv.forked_from)
    return record


def message_record(message: Message) -> Record:
    """The record of one message; what is empty is left out."""
    record: Record = {"chatkv": "message", "id": message.id, "parent": message.parent, "role": message.role}
    if message.meta:
        record["meta"] = dict(message.meta)
    record["text"] = message.text
    if message.token_ids is not None:
        record["tokens"] = list(message.token_ids)
    return record


def dump(conv: Conversation) -> Iterator[Record]:
    """Every record a new file of ``conv`` needs."""
    yield session_record(conv)
    last = None
    for message in tuple(conv.messages.values()):  # another thread may add some
        yield message_record(message)
        last = message.id
    if conv.head != last:
        yield {"chatkv": "head", "id": conv.head}
    if conv.draft:
        yield draft_record(conv)


def draft_record(conv: Conversation) -> Record:
    """What was typed and not sent; empty: no more."""
    record: Record = {"chatkv": "draft", "text": conv.draft}
    if conv.draft_for is not None:
        record["for"] = conv.draft_for
    return record


def text_or_none(record: Record, key: str) -> str | None:
    """``record[key]``, a string or absent/null.

    Raises:
        RecordError: it is something else.
    """
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value
    raise RecordError(f'"{key}" is not text')


def to_message(record: Record) -> Message:
    """The message in ``record``.

    Raises:
        RecordError: a field is missing or of the wrong kind.
    """
    id, role, text = record.get("id"), record.get("role"), record.get("text")
    if not isinstance(id, str) or not id:
        raise RecordError('a message without an "id"')
    if role not in ROLES:
        raise RecordError(f'a message whose "role" is none of {", ".join(ROLES)}')
    if not isinstance(text, str):
        raise RecordError('a message without a "text"')
    tokens, meta = record.get("tokens"), record.get("meta", {})
    if tokens is not None and not (
        isinstance(tokens, list) and all(type(t) is int and 0 <= t <= _MAX_TOKEN_ID for t in tokens)
    ):
        raise RecordError('a message whose "tokens" are not token ids')
    if not isinstance(meta, dict):
        raise RecordError('a message whose "meta" is not an object')
    ids = None if tokens is None else tuple(tokens)
    return apart(Message(id, text_or_none(record, "parent"), role, text, ids, meta))


def to_created(record: Record) -> datetime:
    """When the session in ``record`` began; UTC.

    Raises:
        RecordError: there is no such date.
    """
    try:
        created = datetime.fromisoformat(record.get("created", ""))
        return created.replace(tzinfo=UTC) if created.tzinfo is None else created.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):  # the last: in UTC it is before year 1 or after 9999
        raise RecordError('"created" is not an ISO date') from None
