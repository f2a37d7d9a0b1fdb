"""A block of code: highlighted, and moved sideways where it is wider than its room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, String
from pygments.util import ClassNotFound
from textual.content import Content, Span
from textual.highlight import ANSIDarkHighlightTheme, ANSILightHighlightTheme, HighlightTheme

from chatkv.tui.chat.rows import Block, Laid
from chatkv.tui.chat.wide import Wide

_SHORTEST, _LONGEST = 40, 200
"""Lines of a part that is highlighted for itself: a line at the left begins another, then any line does."""
_TOO_LONG = 2_000
"""Characters of a line beyond which nothing is highlighted: lexers take seconds for some."""


class _Part(NamedTuple):
    code: str
    lines: list[Content]


class Fence(Wide):
    """``language`` as the fence names it; empty, or none that is known: it is plain.

    It is not guessed: that asks five hundred lexers each time there is more code, and often errs.
    """

    below = 1

    def __init__(self, code: str, language: str, dark: bool, ansi: bool) -> None:
        super().__init__(("fence",))
        self._code = "\n".join(code.splitlines())
        self._language = language
        self._theme = (
            (ANSIDarkHighlightTheme if dark else ANSILightHighlightTheme) if ansi else HighlightTheme
        )
        self._parts: list[_Part] = []
        """Those that more code at the end does not change, and behind them the last one."""
        self._made: list[Content] | None = None
        """Its lines."""

    def lay(self, width: int) -> Laid:
        """See the base class. It is highlighted only now: ``stay`` has told what is known of it."""
        if self._made is None:
            self._parts = list(self._read())
            self._made = [line for part in self._parts for line in part.lines]
        return self.lay_lines(self._made, width)

    def stay(self, before: Block) -> None:
        """See the base class."""
        super().stay(before)
        if isinstance(before, Fence) and (before._language, before._theme) == (self._language, self._theme):
            self._parts = before._parts[:-1]

    def _read(self) -> Iterator[_Part]:
        """Parts whose ends depend on what is before them alone, so that they stay when more comes."""
        lexer = _lexer(self._language)
        at = 0
        for part in self._parts:
            if not self._code.startswith(part.code, at):
                break
            yield part
            at += len(part.code)
        lines = self._code[at:].split("\n")
        start, soonest = 0, _SHORTEST
        for end in range(_SHORTEST, len(lines)):
            if end < soonest or not (lines[end][:1].strip() or end - start >= _LONGEST):
                continue
            soonest = end + _SHORTEST
            code = "\n".join(lines[start:end]) + "\n"
            text, whole = self._highlight(code, lexer)
            if whole:
                yield _Part(code, _lines(text)[:-1])
                start = end
        code = "\n".join(lines[start:])
        yield _Part(code, _lines(self._highlight(code, lexer)[0]))

    def _highlight(self, code: str, lexer: Lexer | None) -> tuple[Content, bool]:
        """``code`` in colours, and whether a part may end there: not within a text or a comment."""
        spans = [Span(0, len(code), "$text")]
        kind, at = Error, 0
        if lexer is not None and max(map(len, code.split("\n"))) <= _TOO_LONG:
            styles = self._theme.STYLES
            for kind, token in lexer.get_tokens(code):
                end = at + len(token)
                # What is no code (yet) is not marked as wrong: a text that is being written is not closed.
                ancestor = None if kind is Error else kind
                while ancestor is not None and ancestor not in styles:
                    ancestor = ancestor.parent
                if ancestor is not None:
                    spans.append(Span(at, end, styles[ancestor]))
                at = end
        return Content(code, spans), not (kind in String or kind in Comment)


def _lexer(language: str) -> Lexer | None:
    if not language:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


def _lines(text: Content) -> list[Content]:
    return [line.expand_tabs(8) for line in text.split(allow_blank=True)] or [Content("")]
