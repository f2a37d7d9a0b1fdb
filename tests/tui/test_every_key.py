"""Each key of the table reaches its action, wherever the table says that it acts; nothing takes it before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.dom import DOMNode

from chatkv.tui.keys.actions import PANES, PLACES, together
from chatkv.tui.keys.current import keys_of, types
from tests.tui.helpers import Bench

FIRST = {("prompt", "copy"): "copy"}
"""Where the focused widget has its own meaning of it, and passes the key on where that does nothing."""
LISTS = {"cursor_up": "cursor(-1)", "cursor_down": "cursor(1)", "select": "pick"}
"""What a list in a dialog does by itself, and the dialog's for it."""
PANE_OF = {"map": "blocks", "list": "sessions"}


def bound_action(node: DOMNode, id: str) -> str:
    """The nearest binding of ``id``, from ``node`` up."""
    for each in (*node.ancestors_with_self,):
        for kind in type(each).__mro__:
            for binding in vars(kind).get("BINDINGS", ()):
                if isinstance(binding, Binding) and binding.id == id:
                    return binding.action
    raise AssertionError(f"{id} is bound nowhere above {node}")


@pytest.mark.parametrize("place", PANES)
async def test_in_every_pane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(200, 50)):
        await bench.ask("hello")
        main = bench.app.main
        if place == "prompt":
            main.prompt.focus()
        elif place == "chat":
            assert main.chat.view is not None
            main.chat.view.focus()
        else:
            main.go_to(PANE_OF.get(place, place))
        await bench.settle()
        focused = main.focused
        assert focused is not None
        assert main.pane_of(focused) == ("" if place == "prompt" else PANE_OF.get(place, place))
        assert await wrong_keys(bench, monkeypatch, place) == []


OPENED = {
    "picker": "sessions",
    "search": "search",
    "fork": "fork",
    "ask": "rename",
    "panes": "list_panes",
    "confirm": "delete",
    "help": "help",
    "tour": "tour",
}
"""Place → what opens it."""


def test_no_place_is_left_out() -> None:
    assert {*PANES, *OPENED} == {*PLACES}


@pytest.mark.parametrize("place", OPENED)
async def test_in_every_dialog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        if place == "panes":
            bench.app.main.action_list_panes()
        else:
            await bench.app.run_action(OPENED[place])
        await bench.settle()
        assert bench.app.screen is not bench.app.main
        assert await wrong_keys(bench, monkeypatch, place) == []


async def wrong_keys(bench: Bench, monkeypatch: pytest.MonkeyPatch, place: str) -> list[str]:
    """Of what the table says acts in ``place``, which is open and has the focus: what does something else."""
    ran: list[str] = []

    async def note(action: Any, *rest: Any, **named: Any) -> bool:
        ran.append(str(action))
        return True

    focused = bench.app.focused or bench.app.screen
    monkeypatch.setattr(bench.app, "run_action", note)
    wrong = []
    for id in together()[place]:
        if place == "prompt" and id.startswith("pane."):
            continue  # letters there, and keys that move in the text
        for key in keys_of(id):
            ran.clear()
            await bench.pilot.press(key)
            wanted = FIRST.get((place, id)) or bound_action(focused, id)
            # The help is the app's, and has a place in the screen's footer.
            meant = {wanted, wanted.removeprefix("app."), *(a for a, own in LISTS.items() if own == wanted)}
            if not ran or ran[0] not in meant:
                wrong.append(f"{key} ({id}): {ran[:1]}, not {wanted}")
    monkeypatch.undo()
    return wrong


def test_no_letter_acts_where_one_types() -> None:
    acting = [id for id in together()["prompt"] if not id.startswith("pane.")]
    assert not [key for id in acting for key in keys_of(id) if types(key)]


async def test_alt_and_a_number_go_to_that_session(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        for number in range(1, 10):
            if number > 1:
                await bench.press("ctrl+n")
            await bench.ask(f"question {number}")
        sessions = list(bench.app.book.sessions)
        assert len(sessions) == 9
        for number in (*range(9, 0, -1),):
            await bench.press(f"alt+{number}")
            assert bench.session is sessions[number - 1]
