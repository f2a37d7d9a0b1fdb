"""What a caller of the library may give as a prompt, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chatkv.engine.messages import Prompt, Turn

Message = Turn | Mapping[str, Any]
"""``{"role": …, "content": …}`` as in OpenAI's API, or a ``Turn``, which may carry sampled ids."""
AnyPrompt = str | Sequence[int] | Sequence[Message]


def is_many(prompts: AnyPrompt | Sequence[AnyPrompt]) -> bool:
    """Whether ``prompts`` is a list of prompts. An empty list is."""
    if isinstance(prompts, str):
        return False
    if not isinstance(prompts, Sequence) and not hasattr(prompts, "tolist"):
        raise TypeError(f"a prompt is a text, token ids or messages, got {type(prompts).__name__}")
    first = next(iter(prompts), None)
    return first is None or isinstance(first, str | Sequence) or getattr(first, "ndim", 0) > 0


def as_prompt(prompt: Any) -> Prompt:
    """Return what the engine takes. Raises TypeError or ValueError for what is no prompt."""
    if isinstance(prompt, str):
        return prompt
    parts = prompt.tolist() if hasattr(prompt, "tolist") else list(prompt)
    if all(isinstance(part, int) and not isinstance(part, bool) for part in parts):
        return tuple(parts)
    return tuple(_turn(part) for part in parts)


def _turn(message: Any) -> Turn:
    if isinstance(message, Turn):
        return message
    if not isinstance(message, Mapping):
        raise TypeError(f"a prompt is a text, token ids or messages, got a list with {message!r:.80}")
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "user", "assistant"):
        raise ValueError(f"a message's role must be system, user or assistant, got {role!r:.80}")
    if isinstance(content, list):
        content = "".join(_text_of(part) for part in content)
    if not isinstance(content, str):
        raise ValueError(f"a message's content must be text, got {content!r:.80}")
    ids = message.get("token_ids")
    return Turn(role, content, None if ids is None else tuple(ids), message.get("thinking") or "")


def _text_of(part: Any) -> str:
    if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise ValueError(f"only text parts can be in a message's content, got {part!r:.80}")
