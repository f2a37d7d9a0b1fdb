"""Conversations for other programs: written as Markdown or OpenAI-style JSON, read from JSON or JSONL.

What is read was written by others: whatever is in it, it gives sessions or one clear line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from chatkv.chat.errors import ChatError
from chatkv.chat.thought import Said, given, whole
from chatkv.chat.tree import Conversation, Role, clean_name
from chatkv.files import UnreadableError, read_text, write_whole
from chatkv.text import one_line, printable

FORMATS = ("md", "json")
MAX_BYTES = 64 * 1024 * 1024
MAX_SESSIONS = 2_000
MAX_MESSAGES = 100_000
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "gpt": "assistant",
}


class Imported(NamedTuple):
    """``left_out``: what could not be taken over, in a few words each."""

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
    """The conversations of an OpenAI-style file: one object with ``messages``, a list of messages, a list of
    such objects, or JSONL with one of these a line. ``pipe``: it may be one, which is waited for.

    Raises:
        ChatError: it can't be read, or holds no conversation.
    """
    name = one_line(str(path), 200)
    try:
        text = read_text(path, MAX_BYTES, pipe=pipe)
    except UnreadableError as error:
        raise ChatError(f"{name} {error}") from error
    reader = _Chats()
    for value in _values(text, name):
        reader.take(value)
    if not reader.conversations:
        why = f" ({reader.left_out[0]})" if reader.left_out else ""
        raise ChatError(f"{name} holds no conversation: it needs messages with role and content{why}")
    return Imported(reader.conversations, reader.left_out)


def _values(text: str, name: str) -> Iterator[Any]:
    """The one JSON value of ``text``, or that of each line."""
    try:
        yield json.loads(text)
        return
    except json.JSONDecodeError as error:
        whole = error
    except (ValueError, RecursionError) as error:
        raise ChatError(f"{name} is not JSON that can be read: {one_line(str(error), 80)}") from None
    lines = [line for line in text.split("\n") if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            if number == 1:
                raise ChatError(
                    f"{name} is neither JSON nor JSONL (line {whole.lineno}: {whole.msg})"
                ) from None
            yield f"line {number} is not JSON"


class _Chats:
    def __init__(self) -> None:
        self.conversations: list[Conversation] = []
        self.left_out: list[str] = []
        self._messages = 0

    def take(self, value: Any) -> None:
        """One conversation, or a list of messages or of conversations."""
        if isinstance(value, dict):
            self._conversation(value.get("messages"), value)
        elif isinstance(value, list) and all(isinstance(it, dict) and _is_message(it) for it in value):
            self._conversation(value, {})
        elif isinstance(value, list):
            for it in value:
                if isinstance(it, dict):
                    self._conversation(it.get("messages"), it)
                else:
                    self._leave_out("an entry that is no conversation")
        else:
            self._leave_out(value if isinstance(value, str) and value.startswith("line ") else "no object")

    def _conversation(self, messages: object, whole: dict[str, Any]) -> None:
        if not isinstance(messages, list) or not messages:
            self._leave_out("an object without messages")
            return
        if len(self.conversations) >= MAX_SESSIONS or self._messages >= MAX_MESSAGES:
            self._leave_out(f"conversations beyond {MAX_SESSIONS:,}, or {MAX_MESSAGES:,} messages")
            return
        conv = Conversation()
        name = whole.get("name", whole.get("title"))
        if isinstance(name, str) and one_line(name):
            conv.given_name = clean_name(name)
        turns: list[tuple[Role, Said]] = []
        for message in messages[: MAX_MESSAGES - self._messages]:
            self._messages += 1
            turn = self._turn(message)
            if turn is None:
                continue
            if turn[0] == "system" and not turns and conv.system is None:
                conv.system = turn[1].text
            elif turns and turns[-1][0] == turn[0]:
                # Chat templates insist that user and assistant take turns.
                turns[-1] = (turn[0], turns[-1][1].then(turn[1]))
            else:
                turns.append(turn)
        for role, said in turns:
            conv.append(role, said.text, meta={"imported": True, **said.meta})
        if turns:
            self.conversations.append(conv)
        else:
            self._leave_out("a conversation without a text")

    def _turn(self, message: object) -> tuple[Role, Said] | None:
        if not isinstance(message, dict):
            self._leave_out("a message that is no object")
            return None
        who = message.get("role", message.get("from"))
        role = _ROLES.get(who) if isinstance(who, str) else None
        if role is None:
            self._leave_out(f"messages of role {one_line(str(who), 20)}")
            return None
        text = self._text(message.get("content", message.get("value")))
        said = given(message, text) if role == "assistant" else Said(text)
        if not said.text.strip() and not said.meta:
            self._leave_out("messages without text")
            return None
        return role, said

    def _text(self, content: object) -> str:
        if isinstance(content, str):
            return content
        pieces: list[str] = []
        for part in content if isinstance(content, list) else []:
            if isinstance(part, str):
                pieces.append(part)
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                pieces.append(part["text"])
            else:
                kind = part.get("type") if isinstance(part, dict) else type(part).__name__
                self._leave_out(f"parts of type {one_line(str(kind), 20)}")
        return "\n".join(pieces)

    def _leave_out(self, what: str) -> None:
        if what not in self.left_out and len(self.left_out) < 20:
            self.left_out.append(what)


def _is_message(value: dict[str, Any]) -> bool:
    return ("role" in value and "content" in value) or ("from" in value and "value" in value)


def in_words(imported: Imported) -> str:
    """``2 sessions, 31 messages; left out: messages of role tool``."""
    sessions = len(imported.conversations)
    messages = sum(len(conv.messages) for conv in imported.conversations)
    line = f"{sessions} session{'s' * (sessions != 1)}, {messages} message{'s' * (messages != 1)}"
    return line + (f"; left out: {', '.join(imported.left_out[:4])}" if imported.left_out else "")
