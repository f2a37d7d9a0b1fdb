"""What the screen looks like, as pictures that are compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from chatkv.chat.store import SessionStore
from chatkv.engine.messages import GenerateRequest
from chatkv.tui import feed
from chatkv.tui.cache.events_view import EventsView
from chatkv.tui.cache.legend import Legend
from tests.tui.helpers import Bench

ANSWERS = {
    "Explain ownership in one line.": "Each value has **one owner**; when it goes out of scope the value is "
    "dropped.\n\n- `move` hands it over\n- `&` borrows it\n\n```rust\nlet b = a; // a is gone\n```",
    "And borrowing?": "Many readers or one writer, never both at once.",
    "Write a poem about rain.": "Soft rain on the *window*,\nit counts the seconds for me.",
}
SYSTEM = "You are a friendly assistant. You answer briefly, and with an example where one helps."
PLAYED = 1_700_000_100.0
"""When it is, in seconds since 1970: a little after all that the fake engine's clock will say."""


def answer(request: GenerateRequest) -> str:
    return ANSWERS.get(request.prompt[-1].text, "Yes.")


class Scene(Bench):
    """Four sessions, three with one system prompt, one forked, in a pool so small that it evicts."""

    def __init__(self, folder: Path, theme: str) -> None:
        store = SessionStore(folder / "sessions")
        store.create("rust help", system=SYSTEM)
        store.create("poem", system=SYSTEM)
        super().__init__(folder, script=answer, theme=theme, num_blocks=24, block_size=8)

    async def play(self, pilot: Pilot[None]) -> None:
        self.pilot = pilot
        # How long a caption is held must not depend on how long a scene takes.
        self.app.main.clock = lambda: PLAYED
        await pilot.pause()
        self.app.main.prompt.cursor_blink = False
        while not hasattr(self, "engine"):  # made once the screen is up: later on a busy machine
            await pilot.pause(0.01)
        self.engine.ready()
        await self.settle()
        await self.press("alt+2")
        await self.ask("Write a poem about rain.")
        await self.press("alt+1")
        await self.ask("Explain ownership in one line.")
        await self.press("ctrl+o", "enter")
        await self.ask("And borrowing?")
        await self.press("ctrl+n", "alt+2")
        self.app.clear_notifications()
        await self.settle()
        # How many records a step makes is the cache's affair, tested there.
        self.app.main.query_one(Legend).show(350)
        self.app.main.query_one(EventsView).clear()
        self.app.main.cache.check()  # else by its clock, before the picture is taken or after
        await pilot.pause()


Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def lasting_ghosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a scene takes longer than a ghost stays."""
    monkeypatch.setattr(feed, "GHOST_S", 1e6)
    monkeypatch.setattr(feed, "FAINT_S", 1e6)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_sizes(tmp_path: Path, snap_compare: Compare, size: tuple[int, int]) -> None:
    scene = Scene(tmp_path, "chatkv-dark")
    assert snap_compare(scene.app, terminal_size=size, run_before=scene.play)


def test_without_colour(tmp_path: Path, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    scene = Scene(tmp_path, "chatkv-dark")
    assert snap_compare(scene.app, terminal_size=(120, 36), run_before=scene.play)


@pytest.mark.parametrize("keys", [["f6"], ["f1"], ["ctrl+s"], ["ctrl+s", "delete"]], ids="-".join)
def test_narrow(tmp_path: Path, snap_compare: Compare, keys: list[str]) -> None:
    scene = Scene(tmp_path, "chatkv-dark")

    async def play(pilot: Pilot[None]) -> None:
        await scene.play(pilot)
        await scene.press(*keys)
        for blinking in scene.app.screen.query("Input"):
            blinking.cursor_blink = False
        await scene.settle()

    assert snap_compare(scene.app, terminal_size=(80, 24), run_before=play)


def test_no_model(tmp_path: Path, snap_compare: Compare) -> None:
    scene = Scene(tmp_path, "chatkv-dark")

    async def play(pilot: Pilot[None]) -> None:
        scene.pilot = pilot
        await pilot.pause()
        scene.app.main.prompt.cursor_blink = False
        scene.engine.fail("no model named 'smol': run chatkv models to see those there are")
        await scene.settle()

    assert snap_compare(scene.app, terminal_size=(80, 24), run_before=play)


PANES: dict[str, tuple[tuple[int, int], list[str]]] = {
    "queue-hidden-tabs": ((80, 24), ["f6", "f6", "H", "H"]),
    "tree-hidden-wider": ((120, 36), ["escape", *["ctrl+left"] * 4, "f6", "H", "right_square_bracket"]),
    "events-in-front": ((120, 36), ["shift+f6", "right_square_bracket", "right_square_bracket", "ctrl+up"]),
    "no-sessions-no-chat": ((200, 50), ["f6", "H", "H", "f6", "f6", "ctrl+down", "ctrl+right"]),
    "list-of-panes": ((120, 36), ["escape", "w"]),
}


@pytest.mark.parametrize("name", PANES)
def test_panes_hidden_and_resized(tmp_path: Path, snap_compare: Compare, name: str) -> None:
    scene = Scene(tmp_path, "chatkv-dark")
    size, keys = PANES[name]

    async def play(pilot: Pilot[None]) -> None:
        await scene.play(pilot)
        for key in keys:
            await scene.press(key)
            await scene.settle()  # what is hidden or shown by a key has its place before the next one

    assert snap_compare(scene.app, terminal_size=size, run_before=play)
