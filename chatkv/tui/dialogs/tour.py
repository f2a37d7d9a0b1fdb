"""A short look around, card by card, over the real screen. It can be left at any card."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.css.query import NoMatches
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from chatkv.tui.cache.states import Look
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.dialogs.dialog import Dialog
from chatkv.tui.keys.current import bind, fill, hint, keys_of

if TYPE_CHECKING:
    from chatkv.tui.arranged_screen import ArrangedScreen


_FIRST_LOOKS = (Look.REUSED, Look.NEW, Look.EVICTED, Look.LOCKED, Look.IDLE, Look.FREE)
_KEYS = ("tour.next", "tour.back", "tour.skip")


class Card(NamedTuple):
    """``target``: what it is about, on the main screen; ``pane``: the one shown where there is only one."""

    title: str
    text: str
    target: str
    pane: str
    glyphs: bool = False


CARDS = (
    Card(
        "Ask",
        "Type a question, {prompt.send} sends it. The model runs in this very process; "
        "{prompt.newline} is a new line, / offers commands, @ files.",
        "#prompt",
        "chat",
    ),
    Card(
        "See what is kept",
        "The tokens of every prompt become a branch of this tree. Prompts that begin alike share their "
        "beginning, and what is shared is not computed again.",
        "#tree",
        "tree",
    ),
    Card(
        "Read the marks",
        "Nodes and blocks carry these, in the tree and below it. Under each answer stands how many of its "
        "tokens were reused and how many computed.",
        "#legend",
        "tree",
        glyphs=True,
    ),
    Card(
        "Branch out",
        "{new} begins another session, {fork} forks this one at any message and says first what that costs, "
        "{sessions} lists them all. Then watch a node split.",
        "#top",
        "chat",
    ),
    Card(
        "Find the rest",
        "{help} lists all keys, {next_pane} goes from pane to pane, {palette} has every command: "
        "this tour is one of them.",
        "Footer",
        "chat",
    ),
)


def place(card: Size, target: Region, screen: Size) -> Offset:
    """Where a card lies: beside what it is about if there is room, else over its lower right corner.

    An empty ``target`` (hidden now): the middle of the screen.
    """
    if not target:
        return Offset(max(0, screen.width - card.width) // 2, max(0, screen.height - card.height) // 2)
    whole = Region(0, 0, screen.width, screen.height)
    middle = target.x + (target.width - card.width) // 2
    x = max(0, min(middle, screen.width - card.width))
    y = max(0, min(target.y + (target.height - card.height) // 2, screen.height - card.height))
    for spot in (
        Offset(x, target.y - card.height),
        Offset(x, target.bottom),
        Offset(target.x - card.width, y),
        Offset(target.right, y),
    ):
        if whole.contains_region(Region(*spot, *card)):
            return spot
    return Offset(max(0, target.right - card.width - 2), max(0, target.bottom - card.height - 1))


class _Box(Vertical):
    """The card; its height is its words'."""

    class Grown(Message):
        """It has another size now."""

    def on_resize(self) -> None:
        """Its place depends on it."""
        self.post_message(self.Grown())


class Tour(Dialog[None]):
    """Next, back, skip; a click on the card goes on. Who just types has seen enough, and loses nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("tour.next", "go(1)"),
        bind("tour.back", "go(-1)"),
        bind("tour.skip", "skip"),
    ]

    DEFAULT_CSS = """
    Tour, Tour:ansi { background: transparent; layers: card; align: left top; }
    Tour > _Box {
        width: 52; max-width: 100%; height: auto; border: round $accent; background: $surface; padding: 0 2;
        border-title-color: $accent; border-subtitle-color: $text-muted; offset: 0 -200;
    }
    Tour Static { height: auto; width: 1fr; }
    Tour .glyphs { margin: 1 0 0 0; }
    Tour .keys { margin: 1 0 0 0; height: 1; }
    Tour .keys Static { width: auto; margin: 0 3 0 0; color: $text-muted; }
    Tour .keys Static:hover { color: $accent; }
    """

    def __init__(self, main: ArrangedScreen) -> None:
        super().__init__()
        self._main = main
        self._at = 0
        self._before = main.at
        self._typing = isinstance(main.focused, Prompt)
        self._over = False
        self._shown: Widget | None = None

    def compose(self) -> ComposeResult:
        """One card; its words change."""
        with _Box():
            yield Static(classes="text", markup=False)
            yield Static(classes="glyphs", markup=False)
            with Horizontal(classes="keys"):
                for id in ("next", "back", "skip"):
                    yield Static(id=id, markup=False)

    def on_mount(self) -> None:
        """The first card."""
        marks = [Content(f"{look.glyph} {look.word}   ").stylize(look.variable) for look in _FIRST_LOOKS]
        self.query_one(".glyphs", Static).update(Content.assemble(*marks[:3], "\n", *marks[3:]))
        # Beside what it is about, whenever that comes to lie elsewhere.
        self._main.screen_layout_refresh_signal.subscribe(self, lambda _: self._place())
        self._show()

    @on(_Box.Grown)
    def _grown(self, event: _Box.Grown) -> None:
        event.stop()
        self._place()

    def on_resize(self) -> None:
        """The card stays on the screen."""
        self.call_after_refresh(self._place)

    def on_unmount(self) -> None:
        """The screen is as it was."""
        self._mark(None)
        if self._main.is_attached and self._main.one_pane:
            self._main.go_to(self._before)

    def action_go(self, by: int) -> None:
        """The next card, or the one before; behind the last one the tour is over."""
        if self._at + by >= len(CARDS):
            self.action_skip()
        elif self._at + by >= 0:
            self._at += by
            self._show()

    def action_skip(self) -> None:
        """No more of it."""
        if not self._over:
            self._over = True
            self.dismiss(None)

    def on_key(self, event: events.Key) -> None:
        """What types goes to the prompt, if that is where the person was."""
        if self._typing and event.is_printable and not any(event.key in keys_of(id) for id in _KEYS):
            event.stop()
            self.action_skip()
            self._main.prompt.post_message(events.Key(event.key, event.character))

    def on_click(self, event: events.Click) -> None:
        """On the card: the next one; on words that say something else, that."""
        event.stop()
        if event.widget is None or event.widget is self:
            return
        if event.widget.id == "skip":
            self.action_skip()
        else:
            self.action_go(-1 if event.widget.id == "back" else 1)

    def _show(self) -> None:
        card = CARDS[self._at]
        box = self.query_one(_Box)
        box.border_title = card.title
        box.border_subtitle = f"{self._at + 1} of {len(CARDS)}"
        self.query_one(".text", Static).update(Content(fill(card.text)))
        self.query_one(".glyphs").display = card.glyphs
        last = self._at + 1 == len(CARDS)
        for id, word, there in (
            ("next", "done" if last else "next", True),
            ("back", "back", self._at > 0),
            ("skip", "skip", not last),
        ):
            part = self.query_one(f"#{id}", Static)
            part.display = there
            part.update(Content(f"{hint('tour.' + id)} {word}"))
        if self._main.one_pane and self._main.at != card.pane:
            self._main.go_to(card.pane)
        try:
            self._mark(self._main.query_one(card.target))
        except NoMatches:
            self._mark(None)
        self.call_after_refresh(self._place)

    def _mark(self, target: Widget | None) -> None:
        if self._shown is not None:
            self._shown.remove_class("-toured")
        self._shown = target
        if target is not None:
            target.add_class("-toured")

    def _place(self) -> None:
        box = self.query_one(_Box)
        if not box.outer_size:  # before its words are laid out it stays where the style has it: out of sight
            return
        region = self._shown.region if self._shown is not None else Region()
        box.styles.offset = place(box.outer_size, region, self.size)
