"""The app's spine: engine, sessions and screen wired together; words to the person."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.events import Event, Key, Resize
from textual.screen import Screen
from textual.theme import Theme

from chatkv.chat.store import SessionStore
from chatkv.engine.messages import Batch, ContextNear, EngineMessage, Sampling
from chatkv.errors import ChatkvError
from chatkv.text import one_line
from chatkv.tui.alt_keys import read_alt_keys
from chatkv.tui.cheap_layout import lay_out_once
from chatkv.tui.desk import Desk
from chatkv.tui.engine_port import EngineFactory, EnginePort, EngineReport
from chatkv.tui.keys.actions import ACTIONS
from chatkv.tui.keys.current import NONE, Keymap, bind, hint, keys_of, textual_keymap, use
from chatkv.tui.main_screen import MainScreen
from chatkv.tui.remembered import Remembered
from chatkv.tui.reverse import keep_reverse
from chatkv.tui.sessions.around import Around
from chatkv.tui.sessions.book import SessionBook
from chatkv.tui.sessions.session import Session
from chatkv.tui.themed import ThemedApp
from chatkv.tui.too_small import cover
from chatkv.tui.wrapping import break_between_characters

LOOK_S = 2.0
"""How often it is looked whether another process has changed anything."""


class SpineApp(ThemedApp):
    """Owns the desk (engine and sessions) and the screen. What keys ask for is in the subclasses."""

    TITLE = "chatkv"
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("quit", "quit", priority=True, system=True),
        bind("help", "help", "Help", priority=True),
        bind("palette", "command_palette", "palette", show=False, priority=True),
    ]

    def __init__(
        self,
        engine: EngineFactory,
        store: SessionStore,
        *,
        sampling: Sampling | None = None,
        theme: str | None = None,
        pictures: Path | None = None,
        system: str | None = None,
        remembered: Remembered | None = None,
        keymap: Keymap | None = None,
    ) -> None:
        use(keymap or {})
        super().__init__(theme, remembered or Remembered())
        self.set_keymap(textual_keymap())
        # The footer looks for the palette under this key.
        self.COMMAND_PALETTE_BINDING = next(iter(keys_of("palette")), NONE)  # type: ignore[misc]
        read_alt_keys(key for id in ACTIONS for key in keys_of(id))
        keep_reverse()
        break_between_characters()
        lay_out_once()
        self._engine = engine
        self.pictures = pictures or store.folder.parent / "snapshots"
        self.desk = Desk(SessionBook(store, self.report, system), sampling or Sampling())
        self.desk.returned = self._give_back
        self.desk.near = self._tell_near
        self.desk.noted = self.report
        self._told_near: set[str] = set()
        """Keys of sessions of which it was told; each further answer would tell it again."""
        self._begun, self._early = False, ""
        self._said: deque[EngineMessage] = deque()
        """What the engine has said and nobody has heard yet."""
        self.around = Around(self.desk.book)
        self.main = MainScreen(self.desk, self.remembered)
        self.main.catch_up = self.hear_all

    def get_theme(self, theme_name: str) -> Theme | None:
        """See the base class, which copies the list of themes; every line that is drawn asks for one."""
        return self._registered_themes.get(theme_name) or super().get_theme(theme_name)

    def get_default_screen(self) -> Screen[object]:
        """The one that is always there."""
        return self.main  # type: ignore[return-value]

    def on_mount(self) -> None:
        """Everything slow comes after the first frame."""
        self.app_resume_signal.subscribe(self, self._draw_all)
        self.call_after_refresh(self._begin)

    def on_resize(self, event: Resize) -> None:
        """Any size at any time."""
        if self._begun:
            cover(self, event.size)

    def _draw_all(self, _: object) -> None:
        """Back from a stop (``kill -TSTP``, ``fg``): nothing that was drawn is in the terminal any more."""
        self.screen.refresh()

    async def on_event(self, event: Event) -> None:
        """What is typed before anything has the focus is kept for the prompt."""
        if isinstance(event, Key) and not self._begun and self.focused is None and event.is_printable:
            self._early += event.character or ""
        else:
            await super().on_event(event)

    async def _begin(self) -> None:
        self._begun = True
        for problem in self.theme_problems:
            self.report(problem)
        self.follow_themes()
        typed = self._early + self.main.prompt.full_text
        self.desk.book.load()
        if typed:
            # Who types at once goes on typing in the session that is opened.
            self.book.current.draft += typed
        await self.main.show_session(self.book.current)
        cover(self, self.size)
        if self.book.unkept:
            elsewhere = "/export md FILE writes a conversation elsewhere"
            self.report(f"nothing of this chat is kept: {self.book.unkept} · {elsewhere}")
        self.desk.connect(self._new_engine())
        self.set_interval(LOOK_S, self.look_around)

    def restart_engine(self) -> None:
        """Put another engine in the place of the one that is over."""
        self.desk.restart(self._new_engine())
        self.main.changed()

    def _new_engine(self) -> EnginePort:
        # What an engine that is over may still have to say is heard by nobody.
        said = self._said = deque()
        return self._engine(lambda message: self._listen(said, message))

    def look_around(self) -> None:
        """What other chatkv over the same folder have done; what could not be saved is tried again. And
        whether the engine is still there.
        """
        self.hear_all()
        self.desk.watch()
        if self.around.look(self.say):
            self.main.changed()

    def _listen(self, to: deque[EngineMessage], said: EngineMessage) -> None:
        """On the engine's thread: hand over and return.

        A step's tokens wait for the next drawing: to wake this thread for each step would take the
        interpreter from the engine that often.
        """
        if to is self._said and isinstance(said, Batch) and said.finished:
            self.book.ahead.hear(said.finished)
        to.append(said)
        if not isinstance(said, Batch) or said.finished or said.near or said.verified or said.notes:
            self.post_message(EngineReport())

    @on(EngineReport)
    def _hear(self, event: EngineReport) -> None:
        event.stop()
        self.hear_all()

    def hear_all(self) -> None:
        """Take in what the engine has said since the last call, in its order."""
        while self._said:
            before = self.desk.ready
            self.desk.hear(self._said.popleft())
            if self.desk.ready is not before:
                self.main.engine_ready()
            self.main.changed()

    # Words to the person

    @property
    def book(self) -> SessionBook:
        """The open sessions."""
        return self.desk.book

    def _tell_near(self, session: Session, near: ContextNear) -> None:
        """The gauge tells it of the session on the screen; of others, or under another pane, nobody does."""
        gauge = session is self.book.current and self.screen is self.main and self.main.chat.region.area > 0
        if gauge or session.key in self._told_near:
            return
        self._told_near.add(session.key)
        used = f"{near.used:,} of {near.limit:,} tokens of its context"
        keys = f"{hint('fork')} forks earlier, {hint('new')} begins anew"
        self.report(f"'{one_line(session.name, 40)}' has used {used}: {keys}")

    def _give_back(self, session: Session, text: str) -> None:
        """A question got no answer: its text goes back to where it was typed, if nothing else is there."""
        if session is self.book.current:
            if not self.main.prompt.text:
                self.main.prompt.load(text)
        elif not session.draft:
            session.draft = text

    async def go(self, change: Callable[[], object]) -> bool:
        """Carry out ``change`` and show the session that is current then."""
        before = self.book.current
        self._note_draft()
        done = self.attempt(change)
        self._catch_up(self.book.current)
        if self.book.current is not before or not done:
            await self.main.show_session(self.book.current)
        self.main.changed()
        return done

    def _catch_up(self, session: Session, follow: bool = True) -> None:
        if line := self.book.catch_up(session, follow):
            self.say(line)

    def _note_draft(self) -> None:
        """What stands in the prompt is the current session's."""
        prompt = self.main.prompt
        # A question on its way here makes its session a used one.
        self.book.current.draft, prompt.sending = prompt.full_text or prompt.sending, ""

    def keep_drafts(self) -> None:
        """Before quitting: what was typed and not sent is there the next time."""
        self._note_draft()
        self.book.keep_drafts()

    def attempt(self, change: Callable[[], object]) -> bool:
        """Carry out ``change``; False, and one line on the screen, where it can't be done."""
        try:
            change()
        except ChatkvError as error:
            self.report(str(error), "error")
            return False
        return True
