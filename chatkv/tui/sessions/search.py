"""Search what was said in all sessions, in every branch, and go there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from chatkv.text import one_line
from chatkv.tui.dialogs.ask_line import LineInput
from chatkv.tui.hints import Hints
from chatkv.tui.keys.current import hint
from chatkv.tui.sessions.find_dialog import FindDialog
from chatkv.tui.sessions.session import Session

MOST = 200
"""Hits that are shown."""
SLICE_S = 0.01
"""How long the search may hold up the screen."""
_BEFORE, _AFTER = 30, 90


class Hit(NamedTuple):
    """``message`` None: the session's name or its system prompt. ``where`` is one printable line.

    ``exact``: the words stand there as they were written. ``words``: what was looked for.
    """

    session: Session
    message: str | None
    who: str
    where: str
    exact: bool
    words: str


def search(sessions: Sequence[Session], wanted: str) -> Iterator[Hit | None]:
    """Every place that has all words of ``wanted`` (any case), the newest messages of the newest sessions
    first; None for each text that has not, so that whoever asks may pause.
    """
    words = wanted.casefold().split()
    if not words:
        return
    phrase = " ".join(words)
    for session in sorted(sessions, key=lambda session: -session.last_used):
        texts = [(m.id, m.role, m.text) for m in reversed(session.conversation.messages.values())]
        conversation = session.conversation
        # A name that was not given is the first words of a message.
        named = [(None, "name", conversation.given_name or ""), (None, "system", conversation.system or "")]
        for id, who, text in [*named, *texts]:
            folded = text.casefold()
            if all(word in folded for word in words):
                at = folded.find(phrase)
                start = max(0, (at if at >= 0 else folded.find(words[0])) - _BEFORE)
                cut = "…" if start else ""
                where = cut + one_line(text[start : start + _BEFORE + _AFTER], 100)
                yield Hit(session, id, who, where, at >= 0, phrase)
            else:
                yield None


class SearchDialog(FindDialog[Hit]):
    """Dismissed with the place to go to, or None."""

    DEFAULT_CSS = """
    SearchDialog > Vertical { width: 96; max-height: 34; }
    """

    def __init__(self, sessions: Sequence[Session], wanted: str = "") -> None:
        super().__init__()
        self._sessions = sessions
        self._wanted = wanted
        self._hits: list[Hit] = []

    def compose(self) -> ComposeResult:
        """Its parts."""
        with Vertical() as box:
            box.border_title = "Search all sessions"
            yield LineInput(self._wanted, placeholder="words that were said, in any order")
            yield OptionList(markup=False)
            yield Hints(*self._keys())

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.run_worker(self._search(event.value), exclusive=True)

    async def _search(self, wanted: str) -> None:
        options = self.query_one(OptionList)
        hits: list[Hit] = []
        until = monotonic() + SLICE_S
        for hit in search(self._sessions, wanted):
            if hit is not None:
                hits.append(hit)
                if len(hits) > MOST and hit.exact:
                    break
            if monotonic() > until:
                await asyncio.sleep(0)
                until = monotonic() + SLICE_S
        hits.sort(key=lambda hit: not hit.exact)
        more = len(hits) > MOST
        self._hits = hits[:MOST]
        options.set_options([Option(_row(hit)) for hit in self._hits])
        options.highlighted = 0 if self._hits else None
        found = f"the newest {MOST} of many" if more else f"{len(hits)} found" if wanted.strip() else ""
        self.query_one(Hints).show(*([found] if found else []), *self._keys())

    def _keys(self) -> tuple[str, str]:
        return "enter go there", f"{hint('dialog.close')} close"

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self._hits):
            self.dismiss(self._hits[at])

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._hits[event.option_index])


def _row(hit: Hit) -> Content:
    who = {"user": "you", "assistant": "answer"}.get(hit.who, hit.who)
    return Content.assemble(
        (f"{one_line(hit.session.name, 24):<24} ", "bold"), (f"{who:>6}  ", "dim"), Content(hit.where)
    )
