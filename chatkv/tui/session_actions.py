"""What a person does with whole sessions: new, switch, fork, rename, delete and back."""

from __future__ import annotations

from textual import on

from chatkv.chat.errors import ChatError
from chatkv.chat.tree import NAME_LIMIT, Conversation
from chatkv.text import one_line, printable
from chatkv.tui.chip_row import ChipRow
from chatkv.tui.dialogs.ask_line import AskLine
from chatkv.tui.dialogs.confirm import Confirm
from chatkv.tui.sessions.panel import SessionPanel
from chatkv.tui.sessions.picker import SessionPicker
from chatkv.tui.sessions.session import Session
from chatkv.tui.spine import SpineApp

SYSTEM_LIMIT = 4_000
"""Characters of a system prompt that is typed in."""


class SessionActionsApp(SpineApp):
    """Keys, clicks and commands on sessions."""

    async def action_new(self) -> None:
        """An empty session."""
        await self.go(self.book.new)
        self.main.action_prompt()

    async def action_switch(self, number: int) -> None:
        """Session ``number``, from 1."""
        if number <= len(self.book.sessions):
            await self.go(lambda: self.book.switch(self.book.sessions[number - 1]))

    async def switch_to(self, key: str) -> None:
        """The session the engine calls ``key``."""
        session = self.book.by_key(key)
        if session is not None:
            await self.go(lambda: self.book.switch(session))

    async def action_fork(self) -> None:
        """A new session with everything up to the head."""
        session = self.book.current
        cached = self.desk.feed.cached_tokens(session.key)
        if session.head is None or session.running:
            why = "this session is still answering: fork when it is done, or esc stops it"
            self.report(why if session.running else "nothing to fork yet: send a message first")
            return
        if await self.go(lambda: self.book.fork(session)):
            cost = "" if cached is None else f" · {cached:,} tokens are in the cache and will be reused"
            self.say(f"forked into '{self.book.current.name}'{cost}")
            self.main.action_prompt()

    async def open_example(self, example: Conversation) -> None:
        """A copy of a shipped session."""
        if await self.go(lambda: self.book.open_example(example)):
            head = self.book.current.head
            asked = head is not None and head.role == "user"
            self.say("opened a copy" + (": ctrl+r has its question answered" if asked else ""))
            self.main.action_prompt()

    def action_rename(self, key: str = "") -> None:
        """Ask for a new name."""
        session = self.book.by_key(key) or self.book.current

        def done(name: str | None) -> None:
            if name is not None:
                self.attempt(lambda: self.book.rename(session, name))
            self.main.changed()

        self.push_screen(AskLine("Rename session", one_line(session.name, NAME_LIMIT), NAME_LIMIT), done)

    def action_system(self) -> None:
        """Ask for the session's system prompt. New sessions start with the current one's."""
        session = self.book.current

        def done(text: str | None) -> None:
            if text is not None and text != now:
                self.attempt(lambda: self.set_system(session, text))
            self.main.changed()

        now = printable(session.conversation.system or "").replace("\n", " ")
        self.push_screen(AskLine("System prompt (empty: the model's own)", now, SYSTEM_LIMIT), done)

    def set_system(self, session: Session, text: str) -> None:
        """Give it a system prompt (blank: the model's own). Raises ChatError."""
        if session.running:
            raise ChatError("the system prompt can't change while an answer runs; esc stops it")
        self.book.set_system(session, text)

    def action_delete(self, key: str = "") -> None:
        """Ask, then delete."""
        session = self.book.by_key(key) or self.book.current

        async def done(yes: bool | None) -> None:
            if yes:
                self.desk.stop(session)
                if await self.go(lambda: self.book.delete(session)):
                    await self.main.chat.forget(session)
                    self.say(f"deleted '{session.name}' · undo: ctrl+p, Undo delete")

        count = len(session.conversation.messages)
        name = one_line(session.name, NAME_LIMIT)
        what = f"Delete '{name}' with {count} messages? It can be undone until you quit."
        self.push_screen(Confirm(what, "Delete"), done)

    async def action_undelete(self) -> None:
        """Bring back the session deleted last."""
        count = len(self.book.sessions)
        if await self.go(self.book.undelete) and len(self.book.sessions) == count:
            self.report("nothing to bring back")

    def action_sessions(self) -> None:
        """The list of sessions, with a filter."""

        async def done(key: str | None) -> None:
            if key is not None:
                await self.switch_to(key)

        self.push_screen(SessionPicker(self.book, self.action_rename, self.action_delete), done)

    @on(ChipRow.Picked, "#chips")
    async def _chip(self, event: ChipRow.Picked) -> None:
        event.stop()
        await self.switch_to(event.key)

    @on(SessionPanel.Picked)
    async def _panel(self, event: SessionPanel.Picked) -> None:
        event.stop()
        await self.switch_to(event.key)

    @on(SessionPanel.DeleteWanted)
    def _panel_delete(self, event: SessionPanel.DeleteWanted) -> None:
        event.stop()
        self.action_delete(event.key)
