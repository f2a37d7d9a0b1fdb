"""The command palette: all there is to do, by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from chatkv.tui.chat.commands import COMMANDS
from chatkv.tui.keys.actions import ACTIONS, PANES
from chatkv.tui.palette import Entry, entries
from tests.tui.helpers import Bench

MOVES = ("move.", "prompt.", "go_", "pane.next_tab", "pane.previous_tab", "pane.help")
"""What only makes sense as a key: moves in what is seen or typed, and second keys."""
OWN_ENTRY = {"palette", "pane.help"}


def of(bench: Bench, title: str) -> Entry:
    return next(entry for entry in entries(bench.app) if entry.title == title)


async def choose(bench: Bench, title: str) -> None:
    """As a person would: by its name."""
    await bench.press("ctrl+p")
    bench.app.screen.query_one(Input).value = title
    await bench.pilot.pause(0.4)
    await bench.press("down", "enter")
    await bench.settle()


async def test_every_action_and_every_command_is_in_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        found = list(entries(bench.app))
    ids = {entry.id for entry in found}
    for id, action in ACTIONS.items():
        on_the_screen = {"main", "all", *PANES} & set(action.where.split())
        if on_the_screen and not id.startswith(MOVES) and id not in OWN_ENTRY:
            assert id in ids, f"{id} ({action.what}) is not in the palette"
    for command in COMMANDS:
        by_action = command.action and any(
            getattr(entry.run, "__name__", "") == f"action_{command.action}" for entry in found
        )
        named = {"system": "System prompt", "rename": "Rename this session", "theme": "Theme"}
        named |= {"search": "Search all sessions", "answers": "Three answers at once"}
        title = named.get(command.name)
        by_name = any(f"/{command.name}" in entry.help or entry.title == title for entry in found)
        assert by_action or by_name, f"/{command.name} is not in the palette"
    titles = [entry.title for entry in found]
    assert len(set(titles)) == len(titles)


async def test_an_action_of_a_pane_is_done_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        await choose(bench, "Tree: filter")
        assert bench.app.main.pane_of(bench.app.main.focused) == "tree"
        assert bench.app.main.cache.tree_view.typing_filter
        await bench.press("escape", "i")
        before = bench.app.main.cache.tree_view.border_title
        await choose(bench, "Tree: the next order")
        assert bench.app.main.cache.tree_view.border_title != before
        await bench.press("i")
        # Behind another pane, and in a prompt where its key would type.
        await choose(bench, "Events: filter")
        assert bench.app.main.cache.log_view.typing_filter
        assert "events" in bench.app.main.seen


async def test_what_acts_on_panes_acts_from_the_prompt_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press(*"draft")
        await choose(bench, "Go to pane: Tree")
        await bench.press("i")
        await choose(bench, "Hide the pane")
        assert "tree" not in bench.app.main.seen
        assert bench.app.main.prompt.text == "draft"


async def test_a_command_is_begun_and_what_was_typed_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press(*"half a question")
        await choose(bench, "Sampling")
        prompt = bench.app.main.prompt
        assert prompt.text == "/set "
        assert "temperature" in bench.screen_text
        await bench.press(*"temperature 0.7", "enter")
        assert bench.session.conversation.sampling == {"temperature": 0.7}
        await bench.press("up", "up")
        assert prompt.text == "half a question"


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Pin this session in the cache", "nothing of this session is in the cache yet"),
        ("Unpin this session", "nothing of this session is in the cache yet"),
        ("Begin the conversation again", "there is nothing to clear: the conversation has not begun"),
    ],
)
async def test_a_command_that_needs_no_more_is_carried_out(tmp_path: Path, title: str, said: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await choose(bench, title)
        assert said in bench.said


async def test_stopping_from_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello", steps=2)
        assert of(bench, "Stop the answer").help == "esc · in this session"
        await choose(bench, "Stop the answer")
        bench.engine.step(1)
        await bench.settle()
        assert not bench.session.running


async def test_names_are_only_words(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("[red]x[/] [@click=app.quit]")
        await bench.press("ctrl+p")
        bench.app.screen.query_one(Input).value = "Go to 1 [red]x"
        await bench.pilot.pause(0.4)
        print(bench.screen_text)
        assert "Go to 1 [red]x[/] [@click=app.quit]" in bench.screen_text
