"""The styles of everything that messages are drawn with."""

from __future__ import annotations

from typing import ClassVar

from textual.widget import Widget


class MessageLooks(Widget):
    """Knows how all that messages have looks: it would take long to find that out for each of them.

    One for all conversations, which have the background that it has; nothing of it is seen.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "message--who",
        "message--you",
        "message--model",
        "message--notice",
        "message--picked",
        "message--dim",
        "message--hover",
        "message--bar",
        "message--warning",
        "message--aside",
        "inline--em",
        "inline--strong",
        "inline--struck",
        "inline--code",
        *(f"heading--{level}" for level in range(1, 7)),
        "list--mark",
        "quote",
        "quote--bar",
        "fence",
        "wide--mark",
        "rule",
        "table--line",
        "table--head",
    }

    DEFAULT_CSS = """
    MessageLooks {
        display: none;
        & > .message--who { color: $text-muted; }
        & > .message--you { color: $accent; text-style: bold; }
        & > .message--model { color: $success; text-style: bold; }
        & > .message--notice { color: $warning; text-style: bold; }
        & > .message--picked { color: $background; background: $accent; text-style: bold; }
        &:ansi > .message--picked { color: $accent; background: ansi_default; text-style: bold reverse; }
        & > .message--dim { color: $text-muted; }
        & > .message--hover { color: $accent; text-style: italic; }
        & > .message--bar { color: $foreground 30%; }
        & > .message--warning { color: $warning; }
        & > .message--aside { color: $text-muted; text-style: italic; }
        & > .inline--em { text-style: italic; }
        & > .inline--strong { text-style: bold; }
        & > .inline--struck { text-style: strike; }
        &:dark > .inline--code { background: $warning 10%; color: $text-warning 95%; }
        &:light > .inline--code { background: $error 5%; color: $text-error 95%; }
        &:ansi > .inline--code { background: ansi_default; }
        & > .list--mark { color: $text-primary; }
        &:light > .list--mark { color: $text-secondary; }
        & > .quote { background: $boost; }
        & > .quote--bar { color: $text-primary 50%; }
        &:light > .quote--bar { color: $text-secondary; }
        & > .fence { color: rgb(210,210,210); background: black 10%; }
        &:light > .fence { background: white 30%; }
        &:ansi > .fence { background: transparent; }
        & > .wide--mark { color: $accent; text-style: bold; }
        & > .rule { color: $secondary; }
        & > .table--line { color: $foreground 20%; }
        & > .table--head { color: $primary; }
    }
    """ + "".join(
        f"MessageLooks > .heading--{level} {{ color: $markdown-h{level}-color; "
        f"background: $markdown-h{level}-background; text-style: $markdown-h{level}-text-style; }}"
        for level in range(1, 7)
    )
