"""What the command palette has: every action of the app, its screen and its panes, and every command."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual._callback import invoke
from textual.actions import parse
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.markup import escape
from textual.widget import Widget

from chatkv.text import one_line
from chatkv.tui.keys.actions import ACTIONS, PLACES
from chatkv.tui.keys.current import hint
from chatkv.tui.layout import PANES

if TYPE_CHECKING:
    from chatkv.tui.app import ChatkvApp
    from chatkv.tui.main_screen import MainScreen

_PANE_OF = {
    "tree": "tree",
    "map": "blocks",
    "table": "table",
    "events": "events",
    "node": "node",
    "chat": "chat",
    "list": "sessions",
}
"""Where an action of a pane acts → the pane."""

_NOT_LISTED = ("move.", "prompt.", "go_", "pane.next_tab", "pane.previous_tab", "pane.help")
"""Moves in what is seen, keys of what is typed; sessions and panes stand there by name, the help as it is."""


class Entry(NamedTuple):
    """``id``: the action whose key is told; empty: there is none."""

    title: str
    help: str
    run: Callable[[], object]
    id: str = ""
    discover: bool = True
    """False: found by typing, but not in the list at first."""


class Everything(Provider):
    """What ``entries`` has, in that order. Names are words, never markup (Textual's own reads it)."""

    async def discover(self) -> Hits:
        """Before anything is typed."""
        for entry in self._entries():
            if entry.discover:
                yield DiscoveryHit(Content(entry.title), entry.run, entry.title, escape(entry.help))

    async def search(self, query: str) -> Hits:
        """Those whose title is like ``query``."""
        matcher = self.matcher(query)
        for entry in self._entries():
            score, at = matcher.fuzzy_search.match(query, entry.title)
            if score > 0:
                title = Content(entry.title)
                for offset in at:
                    title = title.stylize(matcher.match_style, offset, offset + 1)
                yield Hit(score, title, entry.run, entry.title, escape(entry.help))

    def _entries(self) -> Iterator[Entry]:
        app = cast("ChatkvApp", self.app)
        return entries(app) if self.screen is app.main else iter(())


def entries(app: ChatkvApp) -> Iterator[Entry]:
    """All of it, with the keys in force."""
    listed: set[str] = set()
    for entry in _of_app(app):
        listed.add(entry.id)
        yield entry._replace(help=_help(entry.id, entry.help))
    yield from _of_screen(app, listed)
    yield from _of_panes(app, listed)
    yield from _by_name(app)


def _help(id: str, more: str = "") -> str:
    if not id:
        return more
    where = ACTIONS[id].where.split()
    key = hint(id) if {"main", "all"} & set(where) else f"{hint(id)} {PLACES[where[0]]}"
    return f"{key} · {more}" if more else key


def _of_app(app: ChatkvApp) -> Iterator[Entry]:
    """What most people look for, in words of its own; commands that want more are begun in the prompt."""
    main = app.main

    def send(line: str) -> Coroutine[None, None, None]:
        return app.send(app.book.current, line)

    def begin(line: str) -> None:
        if typed := main.prompt.full_text.strip():
            # As a command's arguments it would be lost.
            app.book.current.sent.append(typed)
            main.prompt.set_history(app.book.current.sent)
            app.say(f"what was typed is kept: {hint('prompt.earlier')} brings it back")
        main.action_prompt()
        main.prompt.begin(line)

    yield Entry("New session", "", app.action_new, "new")
    yield Entry("Sessions", "filter, open, rename, delete", app.action_sessions, "sessions")
    yield Entry("Search all sessions", "what was said anywhere", app.action_search, "search")
    yield Entry("Fork this session", "at any message, with its cost", app.action_fork, "fork")
    yield Entry("Verify the last answer", "against a run without the cache", app.action_verify, "chat.verify")
    yield Entry("Rename this session", "", app.action_rename, "rename")
    yield Entry("System prompt", "what the model is told before everything else", app.action_system)
    yield Entry("Sampling", "/set temperature 0.7", partial(begin, "/set "))
    yield Entry("Presets", "/preset NAME · system prompt and sampling", partial(begin, "/preset "))
    yield Entry("Save a preset", "/preset save NAME", partial(begin, "/preset save "))
    yield Entry("Insert a text file", "/file PATH, as @PATH does", partial(begin, "/file "))
    yield Entry("Export the conversation", "/export md or json, FILE", partial(begin, "/export "))
    yield Entry("Import chats", "/import FILE · OpenAI-style JSON or JSONL", partial(begin, "/import "))
    yield Entry("Begin the conversation again", "/clear · what was said is kept", partial(send, "/clear"))
    yield Entry("Pin this session in the cache", "/pin · evicted last", partial(send, "/pin"))
    yield Entry("Unpin this session", "/unpin", partial(send, "/unpin"))
    yield Entry("Delete this session", "asks first", app.action_delete, "list.delete")
    yield Entry("Undo delete", "bring back the session deleted last", app.action_undelete, "list.undo")
    yield Entry("Answer again", "", app.action_regenerate, "again")
    yield Entry(
        "Three answers at once",
        "sampled over one prompt, whose cache they share",
        app.action_answers,
        "chat.answers",
    )
    yield Entry("Edit the last question", "", app.action_edit, "chat.edit")
    yield Entry("Copy the last answer", "", app.action_copy_answer, "chat.copy")
    yield Entry("Copy a code block", "", app.action_copy_code, "chat.copy_code")
    yield Entry("Stop the answer", "in this session", lambda: app.desk.stop(app.book.current), "back")
    yield Entry("Stop all answers", "in every session", app.action_stop_all)
    yield Entry("Restart the engine", "after it has stopped; sessions stay", app.action_restart_engine)
    yield Entry("Clear the cache", "forget every cached prefix", app.action_clear_cache)
    yield Entry("Pause or go on with the picture", "the engine goes on", main.action_freeze, "pane.pause")
    yield Entry("Captions", "what has just happened, or none", main.action_captions, "pane.captions")
    yield Entry("Export the picture", "JSON and SVG", app.action_export, "pane.export")
    yield Entry("Save the screen as SVG", "all of it, as it is now", app.action_save_screen)
    yield Entry("Zoom the pane", "", main.action_zoom, "pane.zoom")
    yield Entry("Panes", "show and hide them", main.action_list_panes, "pane.list")
    yield Entry("Usual sizes of the panes", "", main.action_usual_sizes, "pane.usual_sizes")
    yield Entry("Usual panes", "sizes, places and what is hidden as at first", main.action_usual_panes)
    yield Entry("Theme", "choose the colours", app.action_change_theme)
    yield Entry("Keys", "all keys", app.action_help, "help")
    yield Entry("Tour", "a short look around", app.action_tour)
    yield Entry("Quit", "", app.action_quit, "quit")


def _of_screen(app: ChatkvApp, listed: set[str]) -> Iterator[Entry]:
    """The rest of what acts everywhere on the main screen; on a pane: the one that had the focus last."""
    for id, action in ACTIONS.items():
        if "main" in action.where.split() and id not in listed and not id.startswith(_NOT_LISTED):
            title = action.what[0].upper() + action.what[1:]
            yield Entry(title, _help(id), partial(_act, app.main, id), id, discover=False)


def _of_panes(app: ChatkvApp, listed: set[str]) -> Iterator[Entry]:
    """What acts in one pane, or in several: there once for each."""
    for id, action in ACTIONS.items():
        if id not in listed and not id.startswith(_NOT_LISTED):
            for place in action.where.split():
                if pane := _PANE_OF.get(place):
                    title = f"{PANES[pane]}: {action.what}"
                    run = partial(_act_in, app.main, pane, id)
                    yield Entry(title, f"{hint(id)} {PLACES[place]}", run, id, discover=False)


async def _act(main: MainScreen, id: str) -> None:
    """As its key does in a pane; the key itself would type where the prompt has the focus."""
    action = next(each.action for each in _bindings(main) if each.id == id)
    namespace, name, arguments = parse(action)
    if namespace:
        await main.run_action(action)
    else:
        await invoke(getattr(main, f"action_{name}"), *arguments)


async def _act_in(main: MainScreen, pane: str, id: str) -> None:
    """Show the pane and do there what the key does."""
    main.go_to(pane)
    widget = main.chat.view if pane == "chat" else main.query_one(f"#{pane}")
    action = next((each.action for each in _bindings(widget) if each.id == id), None) if widget else None
    if action is not None:
        # Not before it is seen: what is hidden has no size.
        main.call_after_refresh(main.app.run_action, action, widget)


def _bindings(widget: Widget) -> Iterator[Binding]:
    for bindings in widget._bindings.key_to_bindings.values():
        yield from bindings


def _by_name(app: ChatkvApp) -> Iterator[Entry]:
    """Panes, examples, sessions."""
    for row in app.main.pane_rows():
        yield Entry(f"Go to pane: {row.title}", "", partial(app.main.go_to, row.pane), discover=False)
        title = f"{'Hide' if row.shown else 'Show'} pane: {row.title}"
        yield Entry(title, "", partial(app.main.toggle, row.pane))
    for example in app.book.examples:
        title = f"Open an example session: {one_line(example.name, 50)}"
        yield Entry(title, "a copy of it, as one of yours", partial(app.open_example, example))
    for number, session in enumerate(app.book.sessions, 1):
        title = f"Go to {number} {one_line(session.name, 50)}"
        key = hint(f"go_{number}") if number < 10 else ""
        yield Entry(title, key, partial(app.switch_to, session.key), discover=False)
