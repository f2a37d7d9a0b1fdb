"""A paste is text, whatever it holds.

Textual reads an escape inside a bracketed paste as the start of a key sequence: the paste bursts, pieces of
it come as keys, and a line break among them sends the prompt. Here a paste is taken whole, from its start
mark to its end mark, before the sequences in it can be looked at.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

START, END = "\x1b[200~", "\x1b[201~"


class PasteParser(XTermParser):
    """Reads a terminal's input; a bracketed paste becomes one ``Paste`` with all that was pasted."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._before = ""
        """The end of what was read last outside a paste: a start mark may come in two reads."""
        self._pasted: list[str] | None = None
        """What came of a paste so far, read by read; None outside one."""

    def feed(self, data: str) -> Iterable[Message]:
        """Messages for the next characters; "" is the end of the input."""
        if not data:
            yield from super().feed(data)
            return
        while data:
            if self._pasted is None:
                data = yield from self._outside(data)
            else:
                data = yield from self._inside(data)

    def _outside(self, data: str) -> Generator[Message, None, str]:
        """Up to a start mark; returns what comes behind it."""
        known = len(self._before)
        seen = self._before + data
        at = seen.find(START)
        if at < 0:
            self._before = seen[-(len(START) - 1) :]
            yield from super().feed(data)
            return ""
        self._before = ""
        if at >= known:
            if at > known:
                yield from super().feed(seen[known:at])
        else:
            # The parser has the first part of the mark: give it the rest, and end that (empty) paste.
            rest = seen[known : at + len(START)]
            for message in super().feed(rest + END):
                if not isinstance(message, events.Paste):
                    yield message
        self._pasted = []
        return seen[at + len(START) :]

    def _inside(self, data: str) -> Generator[Message, None, str]:
        """Up to an end mark; returns what comes behind it."""
        assert self._pasted is not None
        # The end mark may come in two reads.
        tail = self._pasted.pop() if self._pasted else ""
        data = tail + data
        at = data.find(END)
        if at < 0:
            cut = max(len(data) - (len(END) - 1), 0)
            self._pasted += [data[:cut], data[cut:]]
            return ""
        text = "".join((*self._pasted, data[:at]))
        self._pasted = None
        yield events.Paste(text.replace("\x00", ""))
        return data[at + len(END) :]
