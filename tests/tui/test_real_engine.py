"""The app on the real engine and the real model: turns, a fork, stop, and what the screen folded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import EngineMessage, Sampling
from chatkv.engine.thread import Engine
from chatkv.tui.app import ChatkvApp

pytestmark = pytest.mark.model


async def until_idle(app: ChatkvApp, pilot: Pilot[None]) -> None:
    """Wait for the model to load and every answer to end."""
    deadline = time.monotonic() + 240
    while app.desk.ready is None or app.book.running:
        assert time.monotonic() < deadline
        assert app.desk.failed == ""
        await pilot.pause(0.05)


async def test_turns_fork_and_stop(tmp_path: Path, smollm2_folder: Path) -> None:
    config = EngineConfig(model=str(smollm2_folder), num_blocks=64, threads=1)
    engines: list[Engine] = []

    def make(listener: object) -> Engine:
        def pass_on(said: EngineMessage) -> None:
            assert callable(listener)
            listener(said)

        engines.append(Engine(config, pass_on))
        return engines[0]

    app = ChatkvApp(make, SessionStore(tmp_path), sampling=Sampling(max_tokens=12), pictures=tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        # Asked before there is a model: it waits.
        app.main.prompt.load("Name three colours.")
        await pilot.press("enter")
        await until_idle(app, pilot)
        app.main.prompt.load("And three more?")
        await pilot.press("enter")
        await until_idle(app, pilot)
        first = app.book.current.conversation.path()
        assert [m.role for m in first] == ["user", "assistant"] * 2
        cached = len(first[1].token_ids or ()) - 1 + first[1].meta["prompt_tokens"]
        assert first[3].meta["cached"] == cached
        await pilot.press("ctrl+o")
        await pilot.pause(0.2)
        measured = str(app.screen.query_one(".cost", Static).content)
        reused = len(first[3].token_ids or ()) - 1 + first[3].meta["prompt_tokens"]
        assert measured.startswith(f"next question: {reused} tokens reused from the cache, ")
        await pilot.press("enter")
        await pilot.pause()
        app.main.prompt.load("Which one is the warmest?")
        await pilot.press("enter")
        await until_idle(app, pilot)
        fork = app.book.current.conversation.path()
        assert fork[5].meta["cached"] == len(first[3].token_ids or ()) - 1 + first[3].meta["prompt_tokens"]
        mirror = app.desk.feed.mirror
        assert mirror.gaps == []
        assert mirror.faults == []
        assert mirror.check() == []
        assert mirror.rows == {}
        app.desk._sampling = Sampling(max_tokens=1000)
        app.main.prompt.load("Tell me a very long story about a dragon.")
        await pilot.press("enter")
        while (running := app.book.current.running) and not running.token_ids:
            await pilot.pause(0.02)
        await pilot.press("escape")
        await until_idle(app, pilot)
        answer = app.book.current.last_answer
        assert answer is not None
        assert answer.meta["reason"] == "aborted"
        app.action_verify()
        while "verifying" in app.book.current.notes[answer.id]:
            await pilot.pause(0.02)
        assert "request" in app.book.current.notes[answer.id]
        assert mirror.check() == []
    assert engines[0].close(10.0)
    conversations, problems = SessionStore(tmp_path).load_all()
    assert problems == []
    assert sorted(len(c.path()) for c in conversations) == [4, 8]
