"""What a person does with whole sessions: new, switch, fork, rename, delete and back."""

from __future__ import annotations

from textual import on

from chatkv.chat.errors import ChatError
from chatkv.chat.tree import NAME_LIMIT, Conversation
from chatkv.text import one_line, printable
from chatkv.tui.cache.messages import SessionWanted
from chatkv.tui.chip_row import ChipRow
from chatkv.tui.dialogs.ask_line import AskLine
from chatkv.tui.dialogs.confirm import Confirm
from chatkv.tui.keys.current import hint
from chatkv.tui.sessions.panel import SessionPanel
from chatkv.tui.sessions.picker import SessionPicker
from chatkv.tui.sessions.search import Hit, SearchDialog
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

    async def open_example(self, example: Conversation) -> None:
        """A copy of a shipped session."""
        if await self.go(lambda: self.book.open_example(example)):
            head = self.book.current.head
            asked = head is not None and head.role == "user"
            self.say("opened a copy" + (f": {hint('again')} has its question answered" if asked else ""))
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
            raise ChatError(f"the system prompt can't change while an answer runs; {hint('back')} stops it")
        self.book.set_system(session, text)

    def action_delete(self, key: str = "") -> None:
        """Ask, then delete."""
        session = self.book.by_key(key) or self.book.current

        async def done(yes: bool | None) -> None:
            if yes:
                self.desk.stop(session)
                if await self.go(lambda: self.book.delete(session)):
                    await self.main.chat.forget(session)
                    self.say(
                        f"deleted '{session.name}' · undo: {hint('sessions')} {hint('picker.undo')}, or /undo"
                    )

        count = len(session.conversation.messages)
        name = one_line(session.name, NAME_LIMIT)
        what = f"Delete '{name}' with {count} messages? It can be undone until you quit."
        self.push_screen(Confirm(what, "Delete"), done)

    async def action_undelete(self) -> None:
        """Bring back the session deleted last."""
        back: list[Session | None] = []
        if await self.go(lambda: back.append(self.book.undelete())) and back == [None]:
            self.report("nothing to bring back")

    def action_sessions(self) -> None:
        """The list of sessions, with a filter."""

        async def done(key: str | None) -> None:
            if key is not None:
                await self.switch_to(key)

        picker = SessionPicker(
            self.book, self.action_rename, self.action_delete, self.action_undelete, self.action_search
        )
        self.push_screen(picker, done)

    def action_sort_sessions(self) -> None:
        """The lists' next order."""
        self.book.next_order()
        self.main.changed()

    def action_search(self, wanted: str = "") -> None:
        """Search what was said in all sessions, and go there."""

        async def done(hit: Hit | None) -> None:
            if hit is not None:
                await self._go_to(hit)

        self.push_screen(SearchDialog(self.book.sessions, wanted), done)

    async def _go_to(self, hit: Hit) -> None:
        session = hit.session
        if session not in self.book.sessions:
            return
        await self.go(lambda: self.book.switch(session))
        if hit.message is None:
            return
        conversation = session.conversation
        if hit.message not in {message.id for message in conversation.path()}:
            if session.running:
                self.report(f"that message is on another branch; {hint('back')} stops the answer first")
                return
            self.book.set_head(session, conversation.latest(hit.message))
        if self.main.one_pane:
            self.main.go_to("chat")
        if (view := self.main.chat.view) is not None:
            await view.reveal(hit.message, hit.words)
            self.main.call_after_refresh(view.focus)
        self.main.changed()

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

    @on(SessionWanted)
    async def _wanted(self, event: SessionWanted) -> None:
        event.stop()
        await self.switch_to(event.key)
