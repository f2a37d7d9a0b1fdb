"""A session file read back, whatever state it is in. Nothing in it is ever fatal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from chatkv.chat.errors import ChatError
from chatkv.chat.records import (
    VERSION,
    Record,
    RecordError,
    decode,
    text_or_none,
    to_created,
    to_message,
)
from chatkv.chat.settings import checked
from chatkv.chat.tree import Conversation, clean_name
from chatkv.files import MIB, read_file
from chatkv.text import one_line

MAX_BYTES = 1024 * MIB
_FILE_NAME = re.compile(r"^(\d{8}T\d{6}(?:\.\d{1,6})?)Z-(.+)$")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a session file that was skipped or repaired.

    ``line`` counts from 1; None: the whole file. ``str`` is one printable line.
    """

    path: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        where = self.path.name if self.line is None else f"{self.path.name}, line {self.line}"
        return one_line(f"{where}: {self.message}", 400)


@dataclass(slots=True)
class Loaded:
    """What a file gave. ``unknown`` are records of kinds this version does not know, to be kept."""

    conversation: Conversation
    problems: list[Problem]
    unknown: list[Record]
    has_header: bool


@dataclass(slots=True)
class _Reader:
    path: Path
    conv: Conversation
    problems: list[Problem] = field(default_factory=list)
    unknown: list[Record] = field(default_factory=list)
    has_header: bool = False
    adopted: dict[str, str | None] = field(default_factory=dict)
    """Missing parent → the message that took its place."""

    def report(self, line: int | None, message: str) -> None:
        self.problems.append(Problem(self.path, line, message))

    def take(self, record: Record, line: int) -> None:
        match record["chatkv"]:
            case "session":
                self._session(record, line)
            case "message":
                self._message(record, line)
            case "head":
                self._head(record, line)
            case "name":
                self._rename(record.get("name"), line)
            case "system":
                self.conv.system = text_or_none(record, "system")
            case "sampling":
                self._sampling(record, line)
            case "draft":
                self.conv.draft = text_or_none(record, "text") or ""
                self.conv.draft_for = text_or_none(record, "for")
            case kind:
                self.unknown.append(record)
                self.report(line, f"unknown record '{kind}' kept but not used; a newer chatkv may know it")

    def _session(self, record: Record, line: int) -> None:
        if self.has_header:
            self.report(line, "a second session record, skipped")
            return
        self.has_header = True
        version = record.get("version")
        if type(version) is not int or version > VERSION:
            self.report(line, f"written by a newer chatkv (format {version}); what this one knows was read")
        if isinstance(id := record.get("id"), str) and id:
            self.conv.id = id
        else:
            self.report(line, "no session id; the file's name gives one")
        if record.get("name") is not None:
            self._rename(record["name"], line)
        forked = record.get("forked_from")
        if isinstance(forked, list) and len(forked) == 2 and all(isinstance(part, str) for part in forked):
            self.conv.forked_from = (forked[0], forked[1])
        if record.get("sampling") is not None:
            self._sampling(record, line)
        # These two raise on a wrong kind, so they come last: the rest is already taken.
        self.conv.system = text_or_none(record, "system")
        self.conv.created = to_created(record)

    def _message(self, record: Record, line: int) -> None:
        message = to_message(record)
        if message.parent is not None and message.parent not in self.conv.messages:
            if message.parent not in self.adopted:
                self.adopted[message.parent] = next(reversed(self.conv.messages), None)
            behind = self.adopted[message.parent]
            what = "put at the start" if behind is None else "put behind the message before it"
            self.report(line, f"the message this one answers is missing; {what}")
            message = replace(message, parent=behind)
        known = self.conv.messages.get(message.id)
        if known is None:
            self.conv.add(message)
        elif known != message:
            self.report(line, f"message id {message.id} is already used above, skipped")
        else:  # Written twice (a write whose success could not be confirmed): the same message.
            self.conv.head = message.id

    def _head(self, record: Record, line: int) -> None:
        id = text_or_none(record, "id")
        if id is None or id in self.conv.messages:
            self.conv.head = id
        else:
            self.report(line, "goes on from a message that is missing, skipped")

    def _sampling(self, record: Record, line: int) -> None:
        given = record.get("sampling")
        if not isinstance(given, dict):
            self.report(line, '"sampling" is not an object, skipped')
            return
        self.conv.sampling, faults = checked(given)
        for fault in faults:
            self.report(line, f"{fault}; skipped")

    def _rename(self, name: object, line: int) -> None:
        try:
            self.conv.given_name = clean_name(name) if isinstance(name, str) else None
        except ChatError:
            self.report(line, "an empty session name, skipped")


def read(path: Path) -> Loaded:
    """Read one session file; faults are in ``problems``.

    Raises:
        OSError: the file can't be read, or is none.
    """
    data = read_file(path, MAX_BYTES).removeprefix(b"\xef\xbb\xbf")
    reader = _Reader(path, _from_file_name(path))
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            reader.take(decode(line), number)
        except RecordError as error:
            torn = number == len(lines)
            reader.report(number, "cut off while it was written, skipped" if torn else f"{error}, skipped")
    if reader.conv.draft_for not in reader.conv.messages:
        reader.conv.draft_for = None
    if not reader.has_header:
        reader.report(None, "no session record; its id and date come from the file's name")
    return Loaded(reader.conv, reader.problems, reader.unknown, reader.has_header)


def _from_file_name(path: Path) -> Conversation:
    """An empty conversation as the file's name describes it."""
    match = _FILE_NAME.match(path.stem)
    if match is None:
        return Conversation(id=path.stem, created=datetime.fromtimestamp(path.stat().st_mtime, UTC))
    stamp, id = match.groups()
    layout = "%Y%m%dT%H%M%S.%f" if "." in stamp else "%Y%m%dT%H%M%S"
    try:
        return Conversation(id=id, created=datetime.strptime(stamp, layout).replace(tzinfo=UTC))
    except ValueError:
        return Conversation(id=id, created=datetime.fromtimestamp(path.stat().st_mtime, UTC))


def file_name(conv: Conversation) -> str:
    """``<created>-<id>.jsonl``: sorts by age."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", conv.id)
    return f"{conv.created:%Y%m%dT%H%M%S.%f}Z-{safe}.jsonl"
