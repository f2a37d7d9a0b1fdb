"""Keys: one table of actions, a person's own keys, and that all who name keys name those in force."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.binding import Binding
from textual.dom import DOMNode
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

import chatkv.tui
from chatkv.chat.store import SessionStore
from chatkv.tui.alt_keys import read_alt_keys
from chatkv.tui.keys.actions import ACTIONS, PANES, PLACES
from chatkv.tui.keys.current import fill, hint, short, spell, use
from chatkv.tui.keys.keymap import KeysError, normal, read_keys
from chatkv.tui.palette import entries
from tests.tui.helpers import Bench

CLASSES = {
    "Prompt": "prompt",
    "ConversationView": "chat",
    "RadixTreeView": "tree",
    "BlockMapView": "map",
    "BlockTableView": "table",
    "EventsView": "events",
    "QueueView": "queue",
    "Inspector": "node",
    "SessionPanel": "list",
    "CacheColumn": "tree map table events queue node metrics",
    "PaneList": "panes",
    "SessionPicker": "picker",
    "FindDialog": "picker search",
    "ForkDialog": "fork",
    "AskLine": "ask",
    "Confirm": "confirm",
    "Help": "help",
    "Tour": "tour",
    "MainScreen": "main",
    "SpineApp": "all",
}
"""Where the keys of each class with bindings act. A new class needs a line here, and its actions in
``chatkv/tui/keys/actions.py``.
"""


@pytest.fixture(autouse=True)
def own_keys_end_with_the_test() -> Iterator[None]:
    yield
    use({})


def own_classes() -> list[type[DOMNode]]:
    for module in pkgutil.walk_packages(chatkv.tui.__path__, "chatkv.tui."):
        importlib.import_module(module.name)
    found: list[type[DOMNode]] = []
    todo = [DOMNode]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if cls.__module__.startswith("chatkv.") and cls.__dict__.get("BINDINGS"):
            found.append(cls)
    return found


def test_every_binding_is_an_action_of_the_table_and_every_action_is_bound() -> None:
    bound: dict[str, set[str]] = {}
    for cls in own_classes():
        assert cls.__name__ in CLASSES, f"say in this test where the keys of {cls.__name__} act"
        for binding in cls.BINDINGS:
            assert isinstance(binding, Binding)
            assert binding.id in ACTIONS, f"{cls.__name__}: make {binding} with bind(), from keys/actions.py"
            assert binding.key == ACTIONS[binding.id].keys
            bound.setdefault(binding.id, set()).update(CLASSES[cls.__name__].split())
    for id, action in ACTIONS.items():
        where = set(action.where.split())
        assert where <= {*PLACES, "main", "all"}
        if "all" in where:
            bound[id].discard("main")  # for its place in the footer
        assert where == bound.get(id), f"{id} acts elsewhere than the table says"


def test_the_keys_that_come_along_can_live_together() -> None:
    assert read_keys({}) == {}
    assert set(PANES) < set(PLACES)
    for id, action in ACTIONS.items():
        assert [normal(key) for key in action.keys.split(",")] == action.keys.split(",")
        assert read_keys({id: action.keys.split(",")}) == {id: tuple(action.keys.split(","))}


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("ctrl+t", "ctrl+t"),
        ("Ctrl+T", "ctrl+t"),
        ("shift+ctrl+left", "ctrl+shift+left"),
        ("?", "question_mark"),
        ("/", "slash"),
        ("slash", "slash"),
        ("solidus", "slash"),
        (",", "comma"),
        ("+", "plus"),
        ("ctrl++", "ctrl+plus"),
        (" ", "space"),
        ("esc", "escape"),
        ("PgDn", "pagedown"),
        ("shift+a", "A"),
        ("A", "A"),
        ("ö", "ö"),
        ("F5", "f5"),
        ("alt+[", None),
        ("ctrl+i", None),
        ("", None),
        ("ctrl+", "ctrl+plus"),
        ("ctlr+t", None),
        ("entr", None),
        ("f25", None),
        ("\x1b[A", None),
        ("shift+/", None),
    ],
)
def test_keys_as_people_write_them(written: str, key: str | None) -> None:
    if key is None:
        with pytest.raises(KeysError) as caught:
            normal(written)
        assert "\x1b" not in str(caught.value)
    else:
        assert normal(written) == key


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"nwe": "f5"}, "nwe: there is no such action; did you mean 'new'?"),
        ({"chat": {"cpoy": "f5"}}, "did you mean 'chat.copy'?"),
        ({"new": 5}, "new: takes a key like 'ctrl+t' or a list of keys, not 5"),
        ({"new": ["f5", 1]}, "takes a key"),
        ({"new": "entre"}, "new: 'entre' is not a key; did you mean 'enter'?"),
        ({"new": "n"}, "new: 'n' types in the prompt"),
        ({"new": "space"}, "new: 'space' types in the prompt"),
        ({"new": "ctrl+w"}, "new: 'ctrl+w' edits text in the prompt"),
        ({"pane.zoom": "pageup"}, "pane.zoom: 'pageup' moves in the panes"),
        ({"picker.undo": "z"}, "types in the list of sessions"),
        ({"new": "ctrl+o"}, "new: 'ctrl+o' is fork"),
        ({"pane.zoom": "y"}, "pane.zoom: 'y' is chat.copy in the chat, too; change one of them"),
        ({"chat.copy": "z"}, "chat.copy: 'z' is pane.zoom in the chat"),
        ({"new": "ctrl+t"}, "new: 'ctrl+t' is picker.sort in the list of sessions"),
        ({"map.density": "f7", "pane.inspect": "f7"}, "in the block map"),
    ],
)
def test_what_can_not_be_is_one_line_that_names_it(table: dict[str, object], told: str) -> None:
    with pytest.raises(KeysError) as caught:
        read_keys(table)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_can_be() -> None:
    swapped = {"new": "ctrl+o", "fork": "ctrl+n"}
    assert read_keys(swapped) == {"new": ("ctrl+o",), "fork": ("ctrl+n",)}
    assert read_keys({"chat": {"copy": ["Y", "Y", "f7"]}}) == {"chat.copy": ("Y", "f7")}
    assert read_keys({"pane.export": []}) == {"pane.export": ()}
    # The same key in panes that never have it at once.
    assert read_keys({"map.density": "p"})


def test_names_in_words() -> None:
    assert [spell(key) for key in ("escape", "question_mark", "ctrl+n", "space", "alt+1")] == [
        "esc",
        "?",
        "ctrl+n",
        "space",
        "alt+1",
    ]
    use({"new": ("f5", "ctrl+y"), "quit": (), "fork": ("ctrl+plus",)})
    assert (hint("new"), hint("quit"), short("fork"), short("sessions")) == ("f5", "(no key)", "^+", "^s")
    assert fill("{new*} or {new}, {back}; {nothing like it}") == "f5, ctrl+y or f5, esc; {nothing like it}"


SAID_OF_KEYS_THAT_STAY = (
    "esc shows all",  # while a filter is typed, or stands
    "ctrl+n, ctrl+t",  # the browser's own
    "closes the tab; alt+backspace",
    "ctrl+q",
    "f11, ctrl+tab",
    "many with ctrl+shift",
    "ctrl+w",
    "ctrl+v",
)


def test_words_on_the_screen_name_keys_through_the_table() -> None:
    """Whoever changes a key would read the wrong one otherwise: use hint(), short() or fill()."""
    key = re.compile(
        r"(\b(ctrl|alt|shift)\+\w|\^[a-z]\b|\besc\b|\bf\d\d?\b|← →|\b\w (twice|again|copies|for the end)\b)"
    )
    found = []
    for path in Path(chatkv.tui.__path__[0]).rglob("*.py"):
        if path.parent.name in ("keys", "measure"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            said = node.value if isinstance(node, ast.Constant) and id(node) not in docs else None
            if not isinstance(said, str) or any(known in said for known in SAID_OF_KEYS_THAT_STAY):
                continue
            if key.search(said):
                found.append(f"{path.name}:{node.lineno}: {said!r}")
    assert found == []


def test_alt_and_a_letter_that_textual_reads_as_something_else() -> None:
    read_alt_keys(["alt+b", "alt+O", "alt+left_square_bracket"])
    keys = [e.key for e in XTermParser().feed("\x1bb\x1b[A\x1bOP") if isinstance(e, events.Key)]
    assert keys == ["alt+b", "up", "f1"]


def footer(bench: Bench) -> dict[str, str]:
    keys = bench.app.main.query_one(Footer).query(FooterKey)
    return {key.description: key.key_display for key in keys}


async def test_what_stands_among_messages_names_the_keys_in_force(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("long")
    for number in range(40):
        store.append(conversation, conversation.append("user", f"question {number}"))
        store.append(conversation, conversation.append("assistant", f"answer {number}", token_ids=[1]))
    keymap = read_keys({"move": {"first": "f3", "last": "f4"}, "chat": {"older_version": "f7", "copy": "f8"}})
    bench = Bench(tmp_path, keymap=keymap, script=lambda request: "long " * 30_000)
    async with bench.run(size=(80, 24)):
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()
        assert "2/2 f7 →" in bench.screen_text
        await bench.press("escape", "f3")
        assert "earlier messages · click, or f3 twice" in bench.screen_text


async def test_changed_keys_act_and_are_named_everywhere(tmp_path: Path) -> None:
    keymap = read_keys(
        {
            "new": "f5",
            "rename": [],
            "palette": "ctrl+g",
            "pane": {"zoom": ["Z", "f9"]},
            "prompt.send": "ctrl+d",
            "prompt.newline": "enter",
            "picker.undo": "ctrl+y",
        }
    )
    bench = Bench(tmp_path, keymap=keymap)
    async with bench.run() as pilot:
        await bench.press(*"one", "enter", *"two")
        assert bench.app.main.prompt.text == "one\ntwo"
        assert "^d send · enter newline" in str(bench.app.main.prompt.border_subtitle)
        await bench.press("ctrl+d")
        assert bench.engine.requests[-1].prompt[0].text == "one\ntwo"
        bench.engine.finish_all()
        await bench.press("ctrl+n")
        assert len(bench.app.book.sessions) == 1
        await pilot.pause()
        shown = footer(bench)
        assert list(shown)[:5] == ["New", "Sessions", "Fork", "Stop", "Help"]
        assert shown["New"] == "f5"
        assert "Rename" not in shown
        assert "^g" in shown.values()
        assert "Zoom" not in shown
        await bench.press("f5")
        assert len(bench.app.book.sessions) == 2
        await bench.press(*"Z")
        assert bench.app.main.prompt.text == "Z"
        await bench.press("escape", "z")
        assert not bench.app.main.one_pane
        await pilot.pause()
        assert footer(bench)["Zoom"] == "Z"
        await bench.press("Z")
        assert bench.app.main.one_pane
        await bench.press("f9")
        assert not bench.app.main.one_pane
        await bench.press("f1")
        assert "f5" in bench.screen_text
        assert "ctrl+n" not in bench.screen_text
        assert "(no key)" in bench.screen_text
        await bench.press("escape", "ctrl+s")
        assert "^y undo" in bench.screen_text
        assert "f5 new" in bench.screen_text
        assert "f2" not in bench.screen_text
        await bench.press("f5")
        assert bench.app.screen is bench.app.main
        told = {c.title: c.help for c in entries(bench.app)}
        assert told["New session"] == "f5"
        await bench.press("ctrl+g")
        assert type(bench.app.screen).__name__ == "CommandPalette"
    again = Bench(tmp_path)
    async with again.run():
        await again.press("ctrl+n")
        assert "^j newline" in str(again.app.main.prompt.border_subtitle)


async def test_the_help_is_kept_and_follows_the_theme_and_the_size(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        await bench.press("f1")
        screen = bench.app.screen
        await bench.press("end", "f1")
        assert bench.app.screen is bench.app.main
        dark = bench.app.screen.styles.background
        bench.app.theme = "chatkv-light"
        await pilot.resize_terminal(80, 24)
        await bench.press("f1")
        assert bench.app.screen is screen
        assert "earlier and later messages" in bench.screen_text, "it opens at its beginning"
        strips = bench.app.screen._compositor.render_strips()
        assert all(strip.cell_length == 80 for strip in strips)
        colours = {segment.style.bgcolor for strip in strips for segment in strip if segment.style}
        assert dark.rich_color not in colours
        table = bench.app.screen.query_one("KeyTable")
        assert table.visual_style.background.brightness > 0.5, "the theme is light"
        await pilot.resize_terminal(200, 50)
        await bench.settle()
        text = bench.screen_text
        assert all(title in text for title in ("Prompt", "Sessions", "Chat pane", "Panes", "Everywhere"))
        assert table.size.height == table.container_size.height, "all of it is on the screen"
        await bench.press("q")
        assert bench.app.screen is bench.app.main
