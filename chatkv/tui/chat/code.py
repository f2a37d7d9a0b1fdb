"""Code blocks in what a model wrote."""

from __future__ import annotations

from chatkv.tui.chat.markdown import parser


def code_blocks(text: str) -> list[str]:
    """The text of each, without its fences and its last line break, in order."""
    tokens = parser().parse(text)
    return [t.content.removesuffix("\n") for t in tokens if t.type in ("fence", "code_block")]
