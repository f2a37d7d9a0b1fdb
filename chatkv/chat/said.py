"""What one message of another program's says: its speaker, its text, its thinking, and what can't be kept."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from chatkv.chat.thought import Said, given
from chatkv.chat.tree import Role
from chatkv.text import one_line

LeaveOut = Callable[[str], None]
"""Hears of each thing that is left out, as a noun in the singular; ``part| of type x``: its plural's end."""

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(
        ("assistant", "model", "gpt", "ai", "bot", "chatgpt", "bing", "bard", "claude"), "assistant"
    ),
}
_TOOLS = ("tool", "function", "observation", "ipython", "tool_response", "tool_result", "function_response")
_TOOL_CALLS = ("function_call", "tool_call")
_SPEAKERS = ("role", "from", "author", "sender")
_TEXTS = ("content", "value", "text", "parts")
_CALLS = ("tool_use", "tool_call", "function_call", "custom_tool_call", "computer_call", "local_shell_call")
_KINDS: tuple[tuple[str, str], ...] = (
    ("image", "image"),
    ("audio", "audio clip"),
    ("video", "video"),
    ("file", "file"),
    ("document", "file"),
    ("attachment", "file"),
    ("container_upload", "file"),
    ("redacted_thinking", "redacted thought"),
    ("reasoning_recap", "reasoning recap"),
)
_DETAILS, _END = "<details", "</details>"
_KIND = re.compile(r'\stype="(\w{1,40})"')
_SUMMARY = re.compile(r"\s*<summary>[^<]{0,400}</summary>\s?")


def is_message(value: dict[str, Any]) -> bool:
    """Whether ``value`` has the form of a message, not of a conversation."""
    return speaker(value) is not None and any(key in value for key in (*_TEXTS, "tool_calls", "refusal"))


def is_item(value: dict[str, Any]) -> bool:
    """Whether ``value`` is an entry of a Responses list that is no message: reasoning, a tool's call …"""
    kind = value.get("type")
    return isinstance(kind, str) and (
        kind in ("reasoning", "item_reference", "compaction") or kind.endswith(("_call", "_call_output"))
    )


def speaker(message: dict[str, Any]) -> str | None:
    """Who says it, in its own words."""
    for key in _SPEAKERS:
        who = message.get(key)
        if isinstance(who, dict):
            who = who.get("role")
        if isinstance(who, str):
            return who
    return None


def said(message: dict[str, Any], leave_out: LeaveOut) -> tuple[Role, Said] | None:
    """What ``message`` says; None where nothing of it can be kept, which ``leave_out`` heard of."""
    if is_item(message):
        return _item(message, leave_out)
    who = speaker(message)
    if who is None:
        names = (message[key] for key in _SPEAKERS if message.get(key) is not None)
        leave_out(f"message| of role {one_line(str(next(names, None)), 20)}")
        return None
    name = who.strip().lower()
    role = _ROLES.get(name)
    if role is None:
        other = "tool result" if name in _TOOLS else f"message| of role {one_line(who, 20)}"
        leave_out("tool call" if name in _TOOL_CALLS else other)
        return None
    if _hidden(message, role):
        leave_out("hidden message")
        return None
    if role == "assistant" and message.get("recipient") not in (None, "all"):
        leave_out("tool call")
        return None
    reader = _Reader(role, leave_out)
    reader.read(message)
    return reader.said(message)


def _hidden(message: dict[str, Any], role: Role) -> bool:
    meta, content = message.get("metadata"), message.get("content")
    if not isinstance(meta, dict) or meta.get("is_visually_hidden_from_conversation") is not True:
        return False
    kind = content.get("content_type") if isinstance(content, dict) else None
    return role != "system" and kind not in ("user_editable_context", "model_editable_context")


def _item(item: dict[str, Any], leave_out: LeaveOut) -> tuple[Role, Said] | None:
    """What an entry that is no message says."""
    kind = item["type"]
    if kind == "reasoning":
        reader = _Reader("assistant", leave_out)
        reader.thinking_in(item)
        if reader.thinking:
            return "assistant", Said("", "\n\n".join(reader.thinking))
        leave_out("redacted thought" if item.get("encrypted_content") else "message| without text")
    elif kind.endswith("_output"):
        leave_out("tool result")
    else:
        leave_out("tool call" if kind.endswith("_call") else f"part| of type {one_line(kind, 20)}")
    return None


class _Reader:
    """Gathers the texts of one message."""

    def __init__(self, role: Role, leave_out: LeaveOut) -> None:
        self.role: Role = role
        self.leave_out = leave_out
        self.texts: list[str] = []
        self.thinking: list[str] = []
        self._left = False
        """Whether something of it was left out, and told of."""

    def said(self, message: dict[str, Any]) -> tuple[Role, Said] | None:
        """What was gathered; None: nothing."""
        text = "\n".join(self.texts)
        found = Said(text)
        if self.role == "assistant":
            found = Said(text, "\n\n".join(self.thinking)) if self.thinking else given(message, text)
        if found.text.strip() or found.meta:
            return self.role, found
        # With an empty system message nothing is lost.
        if self.role != "system" and not self._left:
            self.leave_out("message| without text")
        return None

    def read(self, message: dict[str, Any]) -> None:
        """All that ``message`` holds."""
        # Claude's export has the text in both ``text`` and ``content``, and thinking in the latter alone.
        self._content(next((message[key] for key in _TEXTS if message.get(key)), None))
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            self.texts.append(refusal)
        if isinstance(audio := message.get("audio"), dict):
            self._part({**audio, "type": "audio"})
        calls = message.get("tool_calls")
        for _ in calls if isinstance(calls, list) else []:
            self._leave("tool call")
        if message.get("function_call"):
            self._leave("tool call")
        for key in ("attachments", "files", "images"):
            for file in message[key] if isinstance(message.get(key), list) else []:
                self._attached(file, key)
        if self.role == "user" and self.texts and isinstance(message.get("name"), str):
            self._leave("speaker name")

    def thinking_in(self, part: dict[str, Any]) -> None:
        """What a part that holds thinking says of it."""
        for key in ("thinking", "content", "summary", "text"):
            pieces = _Reader(self.role, lambda what: None)
            pieces._content(part.get(key), thoughts=True)
            if any(text.strip() for text in pieces.texts):
                self.thinking.append("\n\n".join(pieces.texts))
                return

    def _content(self, content: object, thoughts: bool = False) -> None:
        """A text, a part, or a list of these; ``thoughts``: it was thought, not said."""
        if isinstance(content, str):
            self.texts.append(content if thoughts else self._unfolded(content))
            return
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self.texts.append(part)
            elif isinstance(part, dict):
                self._part(part, thoughts)
            elif part is not None:
                self._leave(f"part| of type {type(part).__name__}")

    def _part(self, part: dict[str, Any], thoughts: bool = False) -> None:
        kind = part.get("type", part.get("content_type"))
        kind = kind if isinstance(kind, str) else ""
        text = part.get("text")
        if isinstance(text, dict):  # as the Assistants API has it
            text = text.get("value")
        if kind in ("thinking", "reasoning") or part.get("thought") is True:
            if self.role == "assistant":
                self.thinking_in(part)
        elif kind == "thoughts":
            self._thoughts(part.get("thoughts"))
        elif kind in ("user_editable_context", "model_editable_context"):
            keys = ("user_profile", "user_instructions", "model_set_context")
            self.role = "system"
            self.texts += [part[key] for key in keys if isinstance(part.get(key), str) and part[key].strip()]
        elif isinstance(part.get("refusal"), str):
            self.texts.append(part["refusal"])
        elif kind == "refusal":
            self._leave("part| of type refusal")
        elif isinstance(part.get("parts"), list):
            self._content(part["parts"], thoughts)
        elif "result" in kind or kind.endswith("_output"):
            self._leave("tool result")
        elif kind in _CALLS or kind.endswith(("_use", "_call")):
            self._leave("tool call")
        elif isinstance(text, str):
            self.texts.append(text)
        elif isinstance(transcript := part.get("transcript"), str) and transcript:
            self.texts.append(transcript)
        else:
            named = next((noun for word, noun in _KINDS if word in kind), None)
            self._leave(named or f"part| of type {one_line(kind or 'object', 20)}")

    def _thoughts(self, thoughts: object) -> None:
        for thought in thoughts if isinstance(thoughts, list) else []:
            if isinstance(thought, dict):
                texts = [thought.get(key) for key in ("summary", "content")]
                self.thinking.append("\n".join(it for it in texts if isinstance(it, str) and it))

    def _attached(self, file: object, key: str) -> None:
        """A file beside the text; where the program took its text out, that was said."""
        text = file.get("extracted_content") if isinstance(file, dict) else None
        if isinstance(file, dict) and isinstance(text, str) and text.strip():
            name = file.get("file_name")
            self.texts.append(f"{one_line(name, 80)}:\n{text}" if isinstance(name, str) and name else text)
            return
        kind = file.get("type", file.get("file_kind")) if isinstance(file, dict) else None
        self._leave("image" if kind == "image" or key == "images" else "file")

    def _unfolded(self, text: str) -> str:
        """An answer's ``text`` without the ``<details>`` that Open WebUI puts thinking and tool calls in."""
        if self.role != "assistant" or _DETAILS not in text:
            return text
        kept, at, end, start = [], 0, 0, text.find(_DETAILS)
        while start >= 0:
            behind = text.find(">", start) + 1
            if end < behind:  # of many that open, one close is looked for once
                end = text.find(_END, behind)
            if not behind or end < 0:
                break
            kind = _KIND.search(text, start, behind)
            match kind.group(1) if kind else "":
                case "reasoning":
                    kept.append(text[at:start])
                    self.thinking.append(_unquoted(text[behind:end]))
                    at = end + len(_END)
                case "tool_calls" | "code_interpreter":
                    kept.append(text[at:start])
                    self._leave("tool call")
                    at = end + len(_END)
            start = text.find(_DETAILS, max(at, behind))
        kept.append(text[at:])
        return "".join(kept).strip("\n") if at else text

    def _leave(self, what: str) -> None:
        self._left = True
        self.leave_out(what)


def _unquoted(inner: str) -> str:
    """What was thought, as it was before Open WebUI quoted it."""
    lines = _SUMMARY.sub("", inner, count=1).strip("\n").split("\n")
    return html.unescape("\n".join(line[1:].removeprefix(" ") if line[:1] == ">" else line for line in lines))


def moment(value: object) -> float | None:
    """``value`` as seconds since 1970: a number of s, ms, µs or ns, or an ISO date."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    while math.isfinite(seconds) and abs(seconds) > 1e11:
        seconds /= 1000
    return seconds if math.isfinite(seconds) and seconds > 0 else None
