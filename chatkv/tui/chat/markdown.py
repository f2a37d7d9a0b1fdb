"""Markdown as blocks that are laid out in rows; where it grows, only its last block is read again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore, linkify
from markdown_it.token import Token
from textual.content import Content, Span
from textual.style import Style

from chatkv.tui.chat.blocks import Heading, List, Quote, Rule
from chatkv.tui.chat.fence import Fence
from chatkv.tui.chat.rows import Block, Long, Text
from chatkv.tui.chat.table import Table

_BULLETS = "•▪‣⭑◦"
_DEEPEST = 120
_LONGEST = 8_000
"""Characters of a paragraph."""
_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:", re.MULTILINE)
_INLINE = {"em": ".inline--em", "strong": ".inline--strong", "s": ".inline--struck"}


@cache
def parser() -> MarkdownIt:
    """Without HTML: "<think>" or "<b>" in an answer is text, and must not vanish.

    What is nested deeper than ``maxNesting`` does, and a list in a list counts twice; for what stands within
    a line the usual limit does. A paragraph that is too long to be read for each token is plain text.
    """
    markdown = MarkdownIt("gfm-like", {"html": False, "maxNesting": _DEEPEST})
    within = MarkdownIt("gfm-like", {"html": False})

    def read(state: StateCore) -> None:
        for token in state.tokens:
            if token.type == "inline":
                token.children = []
                if len(token.content) <= _LONGEST:
                    within.inline.parse(token.content, within, state.env, token.children)
                else:
                    token.children.append(Token("text", "", 0, content=token.content))

    def link(state: StateCore) -> None:
        tokens, state.tokens = state.tokens, [t for t in state.tokens if len(t.content) <= _LONGEST]
        linkify(state)
        state.tokens = tokens

    markdown.core.ruler.at("inline", read)
    markdown.core.ruler.at("linkify", link)
    return markdown


class Document:
    """``blocks`` of the text so far: those that have not changed are the same objects as before."""

    def __init__(self, text: str = "", *, dark: bool = True, ansi: bool = False) -> None:
        """``dark``, ``ansi``: for what background and colours code is highlighted."""
        self.blocks: list[Block] = []
        self.text = text
        self._reader = _Reader(dark, ansi)
        self._settled = 0
        self._tail = ""
        """The text of what may still change: the last block, or the last two."""
        self._sources: list[str] = []
        """The text of each block from the first that is not settled."""
        self._read(text)

    def append(self, text: str) -> None:
        """More of it."""
        self.text += text
        self._read(self._tail + text)

    def end(self) -> None:
        """There is no more: what was defined at the end holds for all of it."""
        if _DEFINITION.search(self.text):
            self._settled = 0
            self._sources.clear()
            self.blocks.clear()
            self._read(self.text)

    def _read(self, text: str) -> None:
        """``text``: all that is not settled."""
        lines = text.split("\n")
        groups = list(_groups(parser().parse(text)))
        starts = [group[0].map[0] if group[0].map else 0 for group in groups]
        settled = len(groups) - _open_blocks(lines, starts)
        before = self.blocks[self._settled :]
        known = dict(zip(self._sources, before, strict=True))
        del self.blocks[self._settled :]
        self._sources.clear()
        for at, group in enumerate(groups):
            end = starts[at + 1] if at + 1 < len(groups) else None
            source = "\n".join(lines[starts[at] : end]).rstrip()
            block = known.get(source) or self._reader.block(group)
            if block is None:
                continue
            if len(self._sources) < len(before):
                block.stay(before[len(self._sources)])
            self.blocks.append(block)
            self._sources.append(source)
            if at < settled:
                self._settled += 1
        del self._sources[: len(self._sources) - (len(self.blocks) - self._settled)]
        self._tail = "\n".join(lines[starts[settled] :]) if groups else text


def _open_blocks(lines: Sequence[str], starts: Sequence[int]) -> int:
    """How many blocks at the end what comes may change; ``starts``: the first line of each.

    The last one always; the one before it as well, where the rest of a line decides what it belongs to:
    "2" behind a list becomes "2. next", "***" behind a paragraph "***bold***".
    """
    if len(starts) < 2:
        return len(starts)
    return 2 if starts[-1] == len(lines) - 1 or lines[starts[-1] - 1].strip() else 1


def _groups(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """One for each block that is in no other: its opening token, all that is in it, its closing one."""
    start = depth = 0
    for at, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            yield tokens[start : at + 1]
            start = at + 1


class _Reader:
    def __init__(self, dark: bool, ansi: bool) -> None:
        self._dark, self._ansi = dark, ansi

    def blocks(self, tokens: Sequence[Token], depth: int = 0) -> list[Block]:
        found = (self.block(group, depth) for group in _groups(tokens))
        return [block for block in found if block is not None]

    def block(self, group: Sequence[Token], depth: int = 0) -> Block | None:
        """``depth``: how many lists it is in. None: there is nothing to see of it."""
        first, inside = group[0], group[1:-1]
        match first.type:
            case "paragraph_open":
                if len(inside[0].content) > _LONGEST and not depth:
                    return Long(" ".join(inside[0].content.split()))
                return Text(inline(inside[0]), below=0 if depth else 1)
            case "heading_open":
                return Heading(inline(inside[0]), int(first.tag[1:]))
            case "bullet_list_open" | "ordered_list_open":
                return self._list(inside, depth)
            case "blockquote_open":
                return Quote(self.blocks(inside, depth))
            case "fence" | "code_block":
                return Fence(first.content.rstrip(), first.info.split(" ")[0], self._dark, self._ansi)
            case "table_open":
                return self._table(inside)
            case "hr":
                return Rule()
        return Text(Content(first.content), below=1) if first.content else None

    def _list(self, tokens: Sequence[Token], depth: int) -> Block:
        items = list(_groups(tokens))
        if tokens and tokens[0].info:
            first = int(tokens[0].info) if tokens[0].info.isdecimal() else 1
            marks = [f"{number}. " for number in range(first, first + len(items))]
            widest = max(map(len, marks)) + 1
            marks = [mark.rjust(widest) for mark in marks]
        else:
            marks = [f"{_BULLETS[depth % len(_BULLETS)]} "] * len(items)
        inner = [self.blocks(item[1:-1], depth + 1) for item in items]
        return List(list(zip(marks, inner, strict=True)), 0 if depth else 1)

    def _table(self, tokens: Sequence[Token]) -> Block:
        rows: list[list[Content]] = []
        ends: list[str] = []
        for at, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                cell = inline(tokens[at + 1])
                rows[-1].append(cell.stylize(".table--head") if token.type == "th_open" else cell)
                if len(rows) == 1:
                    ends.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
        return Table(rows, ends)


def inline(token: Token) -> Content:
    """Text with what is emphasised, code and links in it."""
    pieces: list[str] = []
    spans: list[Span] = []
    open_at: list[tuple[int, str | Style]] = []
    length = 0

    def put(text: str) -> None:
        nonlocal length
        pieces.append(text)
        length += len(text)

    for child in token.children or ():
        kind, _, side = child.type.rpartition("_")
        if side == "open":
            style = _link(child, "href") if kind == "link" else _INLINE.get(kind, "")
            open_at.append((length, style))
        elif side == "close":
            start, style = open_at.pop()
            if style and length > start:
                spans.append(Span(start, length, style))
        elif child.type in ("softbreak", "hardbreak"):
            put("\n" if child.type == "hardbreak" else " ")
        elif child.type == "code_inline":
            spans.append(Span(length, length + len(child.content), ".inline--code"))
            put(child.content)
        elif child.type == "image":
            start = length
            put(f"🖼  {child.content}")
            spans.append(Span(start, length, _link(child, "src")))
        else:
            put(re.sub(r"\s+", " ", child.content))
    return Content("".join(pieces), spans)


def _link(token: Token, attribute: str) -> Style:
    return Style.from_meta({"@click": f"link({str(token.attrs.get(attribute, ''))!r})"})
