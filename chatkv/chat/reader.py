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
from chatkv.chat.tree import Conversation, Message, clean_name
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
    orphans: dict[str, str]
    """Message → its parent, which is not there: another one stands in for it."""


@dataclass(slots=True)
class _Reader:
    path: Path
    conv: Conversation
    problems: list[Problem] = field(default_factory=list)
    unknown: list[Record] = field(default_factory=list)
    has_header: bool = False
    adopted: dict[str, str | None] = field(default_factory=dict)
    """Missing parent → the message that took its place."""
    coming: dict[str, int] = field(default_factory=dict)
    """Message → the last line that has it: where a file was made whole, that may be behind its answers."""
    orphans: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, list[tuple[Message, int]]] = field(default_factory=dict)
    """Parent that comes later → those behind it, with their lines."""
    head: str | None = None

    def report(self, line: int | None, message: str) -> None:
        self.problems.append(Problem(self.path, line, message))

    def take_all(self, records: list[tuple[int, Record]]) -> None:
        """All ``records``, with their lines."""
        for line, record in records:
            if record["chatkv"] == "message" and isinstance(id := record.get("id"), str):
                self.coming[id] = line
        for line, record in records:
            try:
                self.take(record, line)
            except RecordError as error:
                self.report(line, f"{error}, skipped")
        while self.waiting:  # for one another, or for one that could not be read
            for message, line in self.waiting.pop(next(iter(self.waiting))):
                self._add(message, line)
        if self.head is None or self.head in self.conv.messages:
            self.conv.head = self.head

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
        self.head = message.id
        parent = message.parent
        if parent is None or parent in self.conv.messages or self.coming.get(parent, 0) <= line:
            self._add(message, line)
        else:
            self.waiting.setdefault(parent, []).append((message, line))

    def _add(self, message: Message, line: int) -> None:
        if message.parent is not None and message.parent not in self.conv.messages:
            if message.parent not in self.adopted:
                self.adopted[message.parent] = next(reversed(self.conv.messages), None)
            behind = self.adopted[message.parent]
            what = "put at the start" if behind is None else "put behind the message before it"
            self.report(line, f"the message this one answers is missing; {what}")
            self.orphans.setdefault(message.id, message.parent)
            message = replace(message, parent=behind)
        known = self.conv.messages.get(message.id)
        if known is None:
            self.conv.add(message)
            for behind_it, its_line in self.waiting.pop(message.id, ()):
                self._add(behind_it, its_line)
        elif replace(known, parent=message.parent) != message:  # Else it was written twice, to be sure.
            self.report(line, f"message id {message.id} is already used above, skipped")

    def _head(self, record: Record, line: int) -> None:
        id = text_or_none(record, "id")
        if id is None or id in self.coming:
            self.head = id
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
    return parse(path, read_file(path, MAX_BYTES))


def parse(path: Path, data: bytes) -> Loaded:
    """Read ``data``, what is in the file ``path``; otherwise as ``read``."""
    reader = _Reader(path, _from_file_name(path))
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    records: list[tuple[int, Record]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append((number, decode(line)))
        except RecordError as error:
            torn = number == len(lines)
            reader.report(number, "cut off while it was written, skipped" if torn else f"{error}, skipped")
    reader.take_all(records)
    reader.problems.sort(key=lambda problem: problem.line or 0)
    if reader.conv.draft_for not in reader.conv.messages:
        reader.conv.draft_for = None
    if not reader.has_header:
        reader.report(None, "no session record; its id and date come from the file's name")
    return Loaded(reader.conv, reader.problems, reader.unknown, reader.has_header, reader.orphans)


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
