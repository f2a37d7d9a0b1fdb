"""What stands in front of an answer: the short name of the model that made it."""

from __future__ import annotations

import re

from chatkv.chat.tree import Message


def short_name(model: str) -> str:
    """``SmolLM2-135M`` → ``smol``, ``Qwen3-0.6B`` → ``qwen``, ``org/mistral`` → ``mistral``."""
    match = re.match(r"[A-Z]?[a-z]+|[A-Za-z]+", model.rsplit("/", 1)[-1])
    return match.group(0).lower()[:7] if match else "model"


def made_by(message: Message, otherwise: str) -> str:
    """Of the model that is kept with the answer; ``otherwise`` where none is."""
    made = message.meta.get("model")
    return short_name(made) if isinstance(made, str) and made else otherwise
