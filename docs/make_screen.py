"""Draw the README's picture: the real program with the real model, four sessions, one of them forked.

python docs/make_screen.py [FILE.svg] [WIDTHxHEIGHT]   (default docs/screen.svg, 120x36)
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import EngineMessage, Sampling
from chatkv.engine.thread import Engine
from chatkv.tui.app import ChatkvApp
from chatkv.tui.themes import DEFAULT_THEME

SYSTEM = "You are a patient tutor. You answer in one or two short sentences, in plain words."
QUESTIONS = {
    "ownership": "Explain ownership in Rust in one line.",
    "poem": "Write two lines about the sea.",
    "trees": "What is a radix tree?",
}


async def draw(path: Path, size: tuple[int, int], folder: Path) -> None:
    """Play the scene in ``folder`` and save the screen, ``size`` cells, to ``path``."""
    store = SessionStore(folder / "sessions")
    for name in QUESTIONS:
        store.create(name, system=SYSTEM)

    def engine(listener: Callable[[EngineMessage], None]) -> Engine:
        return Engine(EngineConfig(num_blocks=64), listener)

    app = ChatkvApp(
        engine, store, sampling=Sampling(max_tokens=400), theme=DEFAULT_THEME, pictures=folder / "snapshots"
    )
    async with app.run_test(size=size) as pilot:

        async def until(done: Callable[[], bool]) -> None:
            while not done():
                assert not app.desk.failed, app.desk.failed
                await pilot.pause(0.1)

        async def ask(text: str) -> None:
            app.main.prompt.load(text)
            await pilot.press("enter")
            await pilot.pause()

        app.main.prompt.cursor_blink = False
        await until(lambda: app.desk.ready is not None)
        sessions = {session.name: number for number, session in enumerate(app.book.sessions, 1)}
        for name, question in QUESTIONS.items():
            await pilot.press(f"alt+{sessions[name]}")
            await ask(question)
        await until(lambda: not app.book.running)
        await pilot.press("ctrl+o")
        await until(lambda: app.screen is not app.main)
        await pilot.press("enter")
        await until(lambda: app.screen is app.main)
        await ask("Where are they used?")
        session = app.book.current
        await until(lambda: session.running is None or len(session.running.text) > 80)
        app.clear_notifications()
        await pilot.pause(0.1)
        app.save_screenshot(path.name, str(path.parent))
        await pilot.press("escape")
        app.desk.close(1)


def main() -> None:
    """Read the arguments and draw."""
    os.environ["COLORTERM"] = "truecolor"  # the theme's own colours, whatever this terminal has
    os.environ.pop("NO_COLOR", None)
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screen.svg")
    width, _, height = (sys.argv[2] if len(sys.argv) > 2 else "120x36").partition("x")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(draw(path, (int(width), int(height)), Path(folder)))
    print(path)


if __name__ == "__main__":
    main()
