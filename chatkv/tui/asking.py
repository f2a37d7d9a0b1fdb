"""Asking, answering again, editing, switching between answers, copying: what keys do to messages."""

from __future__ import annotations

from textual import on

from chatkv.chat.errors import ChatError
from chatkv.chat.tree import Message
from chatkv.engine.messages import MAX_ANSWERS
from chatkv.text import printable
from chatkv.tui import clipboard
from chatkv.tui.chat.code import code_blocks
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.dialogs.fork import ForkDialog
from chatkv.tui.keys.current import hint
from chatkv.tui.session_actions import SessionActionsApp
from chatkv.tui.sessions.session import Session

SEVERAL = 3
"""Answers that are asked for at once where no number is given."""


class AskingApp(SessionActionsApp):
    """Each acts on the selected message, else on the newest."""

    @property
    def selected(self) -> Message | None:
        """The message selected in the chat; None where none is."""
        view = self.main.chat.view
        if view is None or view.selected is None or view.session is not self.book.current:
            return None
        return self.book.current.conversation.messages.get(view.selected)

    @on(Prompt.Submitted)
    async def _submitted(self, event: Prompt.Submitted) -> None:
        event.stop()
        self.main.prompt.sending = ""
        session = self.book.by_key(event.key) or self.book.current
        await self.send(session, event.text)

    async def send(self, session: Session, text: str) -> None:
        """Ask ``text`` in ``session``; where that can't be, it stays to be sent again."""
        if refusal := self.desk.refusal(session):
            self.report(refusal)
            self.keep_text(session, text)
            return
        session.draft = ""
        session.told = 0
        # What another chatkv has said there meanwhile was not on the screen: this does not answer it.
        self._catch_up(session, follow=False)
        self.desk.ask(session, text)
        if session is self.book.current:
            self.main.prompt.set_history(session.sent)
            await self.main.follow()
        self.main.changed()

    def keep_text(self, session: Session, text: str) -> None:
        """``text`` could not be sent: back to where it was typed."""
        if session is self.book.current:
            self.main.prompt.put_back(text)
        else:
            session.draft = text

    async def action_regenerate(self) -> None:
        """Answer the last (or selected) question again; the old answer stays as a sibling."""
        session = self.book.current
        refusal = self.desk.refusal(session) or ("" if session.head else "there is no question to answer yet")
        if refusal:
            self.report(refusal)
            return
        self.desk.answer(session, self.selected)
        await self.main.follow()

    async def action_answers(self, count: int = SEVERAL) -> None:
        """Answer the last (or selected) question ``count`` times at once; all are versions of one answer."""
        try:
            await self.answer_times(self.book.current, count)
        except ChatError as error:
            self.report(str(error))

    async def answer_times(self, session: Session, count: int) -> None:
        """Have its question answered ``count`` times. Raises ChatError where that can't be."""
        self._check_answers(session, count)
        self.desk.answer(session, self.selected, count)
        if count > 1:
            versions = f"{hint('chat.older_version')}, {hint('chat.newer_version')} in the chat show each"
            self.say(f"{count} answers over one prompt, whose cache they share: {versions}")
        await self.main.follow()

    def _check_answers(self, session: Session, count: int) -> None:
        refusal = self.desk.refusal(session) or ("" if session.head else "there is no question to answer yet")
        if refusal:
            raise ChatError(refusal)
        if not 1 <= count <= MAX_ANSWERS:
            raise ChatError(f"1 to {MAX_ANSWERS} answers at once, not {count}")
        if count > 1 and not self.desk.sampling(session).temperature:
            same = "at temperature 0 all answers would be the same"
            raise ChatError(f"{same}: /set temperature 0.7, then /answers {count}")

    def action_fork(self) -> None:
        """Choose where to fork, starting at the selected or newest message; its cost is shown first."""
        session = self.book.current
        at = self.selected or session.head
        if at is None or session.running:
            why = f"this session is still answering: fork when it is done, or {hint('back')} stops it"
            self.report(why if session.running else "nothing to fork yet: send a message first")
            return

        async def done(message: str | None) -> None:
            if message is not None and await self.go(lambda: self.book.fork(session, message)):
                self.say(f"forked into '{self.book.current.name}'")
                self.main.action_prompt()

        path = session.conversation.path()
        self.push_screen(ForkDialog(path, at.id, lambda m, told: self.desk.measure(session, m, told)), done)

    def action_verify(self) -> None:
        """Compute the last (or selected) answer again without the cache, and compare."""
        session = self.book.current
        message = self.selected or session.last_answer
        if message is None or message.role != "assistant":
            self.report(
                "there is no answer to verify yet" if message is None else "select an answer to verify"
            )
            return
        if refusal := self.desk.verify(session, message):
            self.report(refusal)
            return
        session.notes[message.id] = "verifying…"
        self.main.changed()

    def action_edit(self) -> None:
        """Put the last (or selected) question into the prompt; what is sent takes its place."""
        session = self.book.current
        question = self.selected or session.last_question
        if question is not None and question.role == "assistant" and question.parent is not None:
            question = session.conversation.messages[question.parent]
        if session.running or question is None or question.role != "user":
            self.report(
                f"{hint('back')} stops the answer first"
                if session.running
                else "there is no question to edit"
            )
            return
        session.editing = question.id
        self.main.prompt.load(question.text)
        self.main.action_prompt()
        which = "your last message" if question is session.last_question else "an earlier message"
        self.say(
            f"editing {which}: {hint('prompt.send')} sends it in its place, {hint('back')} keeps the old one"
        )

    async def action_sibling(self, by: int, clicked: str = "") -> None:
        """Show the previous or next of several versions of the last (or selected) message, or of the one
        with the id ``clicked``.
        """
        session = self.book.current
        conversation = session.conversation
        if len(session.answers) > 1:
            if session.turn(by):
                self.main.changed()
            elif by < 0 and session.place[0] > 1:
                self.report(f"{hint('back')} stops the answers first: then the earlier ones can be shown")
            return
        if session.running:
            self.report(f"{hint('back')} stops the answer first")
            return
        targets = [self.selected] if self.selected else [session.last_answer, session.last_question]
        if clicked:
            targets = [conversation.messages.get(clicked)]
        several = [m for m in targets if m is not None and len(conversation.siblings(m.id)) > 1]
        if not several:
            self.say(
                f"there is one version of this message; {hint('again')} or {hint('chat.edit')} make another"
            )
            return
        siblings = conversation.siblings(several[0].id)
        at = siblings.index(several[0]) + by
        if 0 <= at < len(siblings):
            self.book.set_head(session, conversation.latest(siblings[at].id))
            if self.selected and not clicked and (view := self.main.chat.view) is not None:
                await view.reveal(siblings[at].id)
            self.main.changed()

    def copy_to_clipboard(self, text: str) -> None:
        """Into the terminal's clipboard, and the system's where there is one."""
        super().copy_to_clipboard(printable(text))
        if (command := clipboard.tool()) is not None:
            self.run_worker(clipboard.copy(printable(text), command), group="clipboard", exclusive=True)

    def action_copy_answer(self) -> None:
        """The last answer (or the selected message), as the Markdown it is."""
        message = self.selected or self.book.current.last_answer
        if message is None:
            self.report("there is no answer to copy yet")
            return
        text, what = message.text, ""
        if not text and message.thinking:  # stopped before there was more
            text, what = message.thinking, "what was thought, "
        self.copy_to_clipboard(text)
        self.say(f"copied {what}{len(text):,} characters")

    def action_copy_code(self) -> None:
        """A code block of the last answer (or the selected message); again: its next one."""
        message = self.selected or self.book.current.last_answer
        blocks = code_blocks(message.text) if message is not None else []
        if message is None or not blocks:
            self.report("there is no code block to copy here")
            return
        before, at = self._copied_code
        at = (at + 1) % len(blocks) if before == message.id else 0
        self._copied_code = (message.id, at)
        self.copy_to_clipboard(blocks[at])
        lines = blocks[at].count("\n") + 1
        which = f"code block {at + 1} of {len(blocks)}" if len(blocks) > 1 else "the code block"
        more = f" · {hint('chat.copy_code')} again: the next" if len(blocks) > 1 else ""
        self.say(f"copied {which}, {lines} line{'s' * (lines != 1)}{more}")

    _copied_code: tuple[str, int] = ("", 0)
    """The message whose code block was copied last, and which of its blocks."""

    def action_copy_selection(self) -> None:
        """Ctrl+c copies; it never quits."""
        text = self.screen.get_selected_text()
        if text:
            self.copy_to_clipboard(text)
            self.say(f"copied {len(text):,} characters")
        else:
            self.say(
                f"nothing is selected to copy · {hint('chat.copy')} copies the last answer · "
                f"{hint('quit')} quits"
            )
