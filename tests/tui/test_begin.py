"""What is on the screen, and what is typed, before everything is there."""

from __future__ import annotations

from pathlib import Path

from textual.events import Key

from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Message
from tests.tui.helpers import Bench


async def test_what_is_typed_before_the_sessions_are_read_stays_in_the_prompt(tmp_path: Path) -> None:
    SessionStore(tmp_path / "sessions").create("old", system=None)
    bench = Bench(tmp_path)
    begin = bench.app._begin

    async def late() -> None:
        bench.app.main.prompt.insert("who types at on")
        await begin()

    bench.app._begin = late  # type: ignore[method-assign]
    async with bench.run():
        assert bench.session.name == "old"
        await bench.press("c", "e")
        assert bench.app.main.prompt.text == "who types at once"


async def test_and_so_does_what_is_typed_before_anything_has_the_focus(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    begin = bench.app._begin

    async def late() -> None:
        prompt = bench.app.main.prompt
        bench.app.main.set_focus(None)
        for key, character in (("W", "W"), ("h", "h"), ("space", " ")):
            await bench.app.on_event(Key(key, character))
        prompt.focus()
        prompt.insert("now")
        await begin()

    bench.app._begin = late  # type: ignore[method-assign]
    async with bench.run():
        assert bench.app.main.prompt.text == "Wh now"
        bench.app.main.set_focus(None)
        await bench.press("x")
        assert bench.app.main.prompt.text == "Wh now", "later it would act on a pane"


async def test_old_answers_bear_the_name_of_the_model_that_made_them(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    kept = store.create("old", system=None)
    store.append(kept, Message("m1", None, "user", "hi", None, {}))
    store.append(kept, Message("m2", "m1", "assistant", "hello", (1,), {"model": "org/Qwen3-0.6B"}))
    store.append(kept, Message("m3", "m2", "user", "and?", None, {}))
    store.append(kept, Message("m4", "m3", "assistant", "imported", None, {"model": 7}))
    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        assert "qwen   hello" in bench.screen_text
        assert "model  imported" in bench.screen_text
        bench.engine.ready()
        await bench.ask("more")
        assert "qwen   hello" in bench.screen_text
        assert "smol   You said: more" in bench.screen_text
