"""What stands under an answer: in a dim line what was reused and computed, how fast; and why it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.content import Content

from chatkv.insight.reuse import reused
from chatkv.text import one_line
from chatkv.tui.cache.cells import folded
from chatkv.tui.chat.rows import Block, Laid, wrapped
from chatkv.tui.chat.version import clickable

_STOPPED = {"aborted": "stopped", "quit": "ended by quitting"}
_ENDINGS = {
    "length": "cut at the token limit · ask it to go on, or raise it with /set max_tokens",
    "context": "the context is full · start a new session or fork from an earlier message",
    "cache full": "the KV pool is full · stop other sessions, or start with a larger --kv-memory",
    "error": "ended by an error",
}
"""Endings that a person should do something about; ``stop`` needs no word."""


def seconds(value: float) -> str:
    """``41 ms``, ``1.24 s``, ``73 s``."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def tokens_per_second(count: int, decode_s: float | None) -> float | None:
    """Speed of ``count`` tokens, the first of which came before ``decode_s`` began; None if unknown."""
    return (count - 1) / decode_s if decode_s and count > 1 else None


def answer_parts(meta: Mapping[str, Any], tokens: int) -> list[str]:
    """``reused 384 (12 copied)``, ``computed 22``, ``ttft 41 ms``, ``38.2 tok/s`` and that it was stopped.

    From a message's ``meta``; what is not known is left out.
    """
    parts: list[str] = []
    cached, computed = number(meta, "cached"), number(meta, "computed")
    if cached is not None:
        copied = number(meta, "copied")
        parts.append(f"reused {reused(int(cached), int(copied or 0))}")
    if computed is not None:
        parts.append(f"computed {computed:,.0f}")
    if (ttft := number(meta, "ttft_s")) is not None:
        parts.append(f"ttft {seconds(ttft)}")
    if (speed := tokens_per_second(tokens, number(meta, "decode_s"))) is not None:
        parts.append(f"{speed:.1f} tok/s")
    if (mean := number(meta, "logprob_mean")) is not None:
        parts.append(f"log-probability {mean:.2f} a token{_least(meta)}")
    if word := _STOPPED.get(str(meta.get("reason", ""))):
        parts.append(word)
    return parts


def ending(meta: Mapping[str, Any]) -> str:
    """Why it ended before its end, and what to do about it, in a line; empty: it did not, or was stopped."""
    told = meta.get("why")
    why = one_line(told, 400) if isinstance(told, str) else ""
    return why or _ENDINGS.get(str(meta.get("reason", "")), "")


def _least(meta: Mapping[str, Any]) -> str:
    """``, least -4.20 at 'Paris'``; "" where it is not known."""
    match meta.get("logprob_least"):
        case [str(text), int() | float() as logprob]:
            return f", least {logprob:.2f} at {one_line(text, 20)!r}"
    return ""


def number(meta: Mapping[str, Any], key: str) -> float | None:
    """``meta[key]`` if it is a finite number, else None: a session file is outside input."""
    value = meta.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e15 else None


def fold(parts: Sequence[str], width: int) -> list[str]:
    """The parts joined by `` │ ``, in lines of at most ``width`` cells that end there, or at a `` · ``."""
    return folded(
        ((" · " if at else " │ ", piece) for part in parts for at, piece in enumerate(part.split(" · "))),
        width,
    )


class Figures(Block):
    """The parts, dim. ``place`` is the one of them, if any, that says which version of ``message`` it is."""

    def __init__(self, parts: list[str], place: str = "", message: str = "") -> None:
        self.parts = parts
        self.place = place
        self.message = message

    def lay(self, width: int) -> Laid:
        """See the base class."""
        text = clickable(Content("\n".join(fold(self.parts, width))), self.place, self.message)
        return wrapped(text, width, ("message--dim",))
