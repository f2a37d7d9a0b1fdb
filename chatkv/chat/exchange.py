"""Conversations for other programs: written as Markdown or OpenAI-style JSON, read from JSON or JSONL.

What is read was written by others: whatever is in it, it gives sessions or one clear line.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from chatkv.chat.errors import ChatError
from chatkv.chat.forms import chats_in, grow
from chatkv.chat.grown import Grower
from chatkv.chat.said import moment
from chatkv.chat.settings import checked
from chatkv.chat.thought import whole
from chatkv.chat.tree import Conversation, clean_name
from chatkv.files import UnreadableError, read_text, write_whole
from chatkv.text import one_line, printable

FORMATS = ("md", "json")
MAX_BYTES = 64 * 1024 * 1024
MAX_SESSIONS = 2_000
MAX_MESSAGES = 100_000
MAX_KINDS = 12


class Imported(NamedTuple):
    """``left_out``: what could not be taken over, and how often: ``2 images``, ``line 3 is not JSON``."""

    conversations: list[Conversation]
    left_out: list[str]


# Writing


def as_markdown(conv: Conversation) -> str:
    """The branch that ends at the head; each message's own Markdown is left as it is."""
    parts = [f"# {one_line(conv.name, 200)}"]
    if conv.system:
        parts.append(f"**system**\n\n{printable(conv.system)}")
    parts += [f"**{message.role}**\n\n{printable(whole(message)[0])}" for message in conv.path()]
    return "\n\n".join(parts) + "\n"


def as_json(conv: Conversation) -> str:
    """``{"name", "created", "messages": [{"role", "content"}], …}``: the branch that ends at the head.

    What a model thought is an answer's ``reasoning_content``, or where it was imported as a part of the text,
    that again.
    """
    messages = [] if conv.system is None else [{"role": "system", "content": conv.system}]
    for message in conv.path():
        text, thinking = whole(message)
        messages.append({"role": message.role, "content": text})
        if thinking:
            messages[-1]["reasoning_content"] = thinking
    chat: dict[str, Any] = {"name": conv.name, "created": conv.created.isoformat(), "messages": messages}
    if conv.sampling:
        chat["sampling"] = dict(conv.sampling)
    # ASCII: a lone surrogate can't be written otherwise.
    return json.dumps(chat, indent=1) + "\n"


def export(conv: Conversation, kind: str) -> str:
    """As ``md`` or ``json``.

    Raises:
        ChatError: another kind.
    """
    if kind not in FORMATS:
        raise ChatError(f"a conversation is exported as {' or '.join(FORMATS)}, not as {one_line(kind, 20)}")
    return as_markdown(conv) if kind == "md" else as_json(conv)


def export_to(conv: Conversation, kind: str, path: Path) -> None:
    """Write it to a new file, whole or not at all.

    Raises:
        ChatError: the kind is none, there is such a file already, or it can't be written.
    """
    text = export(conv, kind)
    name = one_line(str(path), 200)
    try:
        if path.exists():
            raise ChatError(f"{name} is there already; choose another name")
        write_whole(path, text, private=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ChatError(f"can't write {name}: {reason}") from error


# Reading


def read_chats(path: Path, *, pipe: bool = False) -> Imported:
    """The conversations in a file of JSON or JSONL, in any of the forms of ``chatkv.chat.forms``.

    ``pipe``: it may be one, which is waited for.

    Raises:
        ChatError: it can't be read, or holds no conversation.
    """
    name = one_line(str(path), 200)
    try:
        text = read_text(path, MAX_BYTES, pipe=pipe)
    except UnreadableError as error:
        raise ChatError(f"{name} {error}") from error
    reader = _Chats()
    reader.take(_values(text, name, reader.bad_lines))
    imported = Imported(reader.conversations, reader.left_out())
    if not imported.conversations:
        why = f" ({', '.join(imported.left_out[:3])})" if imported.left_out else ""
        raise ChatError(f"{name} holds no conversation: it needs messages with role and content{why}")
    return imported


def _values(text: str, name: str, bad_lines: list[int]) -> Any:
    """The one JSON value of ``text``, or those of its lines in a list; ``bad_lines``: those that are none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        whole = error
    except RecursionError:
        raise ChatError(f"{name} is not JSON that can be read: it is nested too deep") from None
    except ValueError:  # the only other one there is
        raise ChatError(f"{name} is not JSON that can be read: a number has too many digits") from None
    values = []
    for number, line in enumerate((line for line in text.split("\n") if line.strip()), 1):
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            if number == 1:
                raise ChatError(
                    f"{name} is neither JSON nor JSONL (line {whole.lineno}: {whole.msg})"
                ) from None
            bad_lines.append(number)
    return values


class _Chats:
    """Makes conversations of what is in a file, and counts what is left out of them."""

    def __init__(self) -> None:
        self.conversations: list[Conversation] = []
        self.bad_lines: list[int] = []
        self._left: Counter[str] = Counter()
        self._messages = 0
        self._budget = MAX_BYTES

    def take(self, value: Any) -> None:
        """Every conversation in ``value``."""
        for chat in chats_in(value, self._leave_out):
            if len(self.conversations) >= MAX_SESSIONS or self._messages >= MAX_MESSAGES:
                self._leave_out(f"conversation| beyond {MAX_SESSIONS:,}, or {MAX_MESSAGES:,} messages")
                continue
            before = Counter(self._left)
            grower = Grower(self._budget, self._leave_out)
            try:
                told = grow(chat, grower, self._leave_out)
            except RecursionError:
                self._leave_out("conversation| nested too deep")
                continue
            conv = grower.conversation
            self._budget = grower.budget
            self._messages += len(conv.messages)
            if any(message.role != "system" for message in conv.messages.values()):
                _describe(conv, told)
                self.conversations.append(conv)
            elif before == self._left:
                failed = "custom_id" in chat
                self._leave_out("request| without an answer" if failed else "conversation| without a text")

    def left_out(self) -> list[str]:
        """What was left out, each with how often."""
        lines = self.bad_lines[:3]
        named = f"line{'s' * (len(self.bad_lines) > 1)} {', '.join(map(str, lines))}"
        more = f" and {len(self.bad_lines) - 3:,} more" if len(self.bad_lines) > 3 else ""
        bad = [f"{named}{more} {'is' if len(self.bad_lines) == 1 else 'are'} not JSON"] if lines else []
        return bad + [_counted(what, count) for what, count in self._left.items()]

    def _leave_out(self, what: str) -> None:
        if what in self._left or len(self._left) < MAX_KINDS:
            self._left[what] += 1
        else:
            self._left["thing| of other kinds"] += 1


def _describe(conv: Conversation, told: dict[str, Any]) -> None:
    """Its name, its date and how its answers are sampled, as far as the file tells."""
    name = next((told[key] for key in ("name", "title", "custom_id") if told.get(key)), None)
    if isinstance(name, str) and one_line(name):
        conv.given_name = clean_name(name)
    keys = ("created", "create_time", "created_at", "timestamp")
    seconds = next((at for key in keys if (at := moment(told.get(key))) is not None), None)
    if seconds is not None:
        with suppress(ValueError, OverflowError, OSError):
            conv.created = datetime.fromtimestamp(seconds, UTC)
    if isinstance(sampling := told.get("sampling"), dict):
        conv.sampling, _ = checked(sampling)


def _counted(what: str, count: int) -> str:
    noun, _, more = what.partition("|")
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {noun}{more}"


def in_words(imported: Imported) -> str:
    """``2 sessions, 31 messages; left out: 2 tool calls, 1 image``."""
    sessions = len(imported.conversations)
    messages = sum(len(conv.messages) for conv in imported.conversations)
    line = f"{sessions:,} session{'s' * (sessions != 1)}, {messages:,} message{'s' * (messages != 1)}"
    branches = sum(len(conv.messages) - len(conv.path()) for conv in imported.conversations)
    line += f" ({branches:,} of other versions)" if branches else ""
    return line + (f"; left out: {', '.join(imported.left_out)}" if imported.left_out else "")
