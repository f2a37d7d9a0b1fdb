"""The app with four answers that go on until ctrl+q, for whoever presses keys meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from benchmarks.screen.order import NAMES
from benchmarks.screen.shared_engine import QUESTION
from chatkv.chat.store import SessionStore
from chatkv.engine.messages import EngineMessage, Sampling
from chatkv.tui.app import ChatkvApp
from chatkv.tui.engine_port import EnginePort
from chatkv.tui.garbage import Garbage

_WARM_S = 1.0
_SHARE_S = 3.0


def stream(
    engine: Callable[[Callable[[EngineMessage], None]], EnginePort],
    before: Callable[[ChatkvApp], None],
    tokens: int,
    folder: Path,
    streaming: Callable[[], None],
) -> float:
    """Runs until the person quits. ``before`` is called when the engine is ready, ``streaming`` when keys
    may be pressed. Answers have ``tokens`` tokens; where one ends, another session asks.

    Returns the share of a core that the screen's thread took in between, before any key was pressed.
    """
    share = 0.0
    app = ChatkvApp(
        engine,
        SessionStore(folder),
        sampling=Sampling(max_tokens=tokens, ignore_stop=True),
        pictures=folder,
    )
    app.garbage = Garbage()

    async def script(pilot: Pilot[Any]) -> None:
        nonlocal share
        while app.desk.ready is None and not app.desk.failed:
            await asyncio.sleep(0.02)
        before(app)
        for name in NAMES:
            session = app.book.new()
            app.book.rename(session, name)
            app.desk.ask(session, QUESTION.format(name))
        await app.main.show_session(app.book.sessions[0])
        app.book.switch(app.book.sessions[0])
        await app.main.show_session(app.book.current)
        await asyncio.sleep(_WARM_S)
        cpu, wall = time.thread_time(), time.perf_counter()
        await asyncio.sleep(_SHARE_S)
        share = (time.thread_time() - cpu) / (time.perf_counter() - wall)
        streaming()
        number = 0
        while app.return_code is None:
            number += 1
            await asyncio.sleep(0.1)
            shown = app.book.current
            for _ in range(len(NAMES) - len(app.book.running)):
                app.desk.ask(app.book.new(), QUESTION.format(number))
            app.book.switch(shown)

    app.run(auto_pilot=script)
    app.desk.close(1.0)
    return share
