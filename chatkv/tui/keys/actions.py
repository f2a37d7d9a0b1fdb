"""Every action that has a key: its name in ``[keys]``, its keys, where they act. No Textual here.

Bindings are made from this table (``bind``), so that a key is written once: the footer, the help, the
palette and hints under dialogs all read it.
"""

from __future__ import annotations

from typing import NamedTuple

PLACES = {
    "prompt": "in the prompt",
    "chat": "in the chat",
    "tree": "in the tree",
    "map": "in the block map",
    "table": "in the block table",
    "events": "in the events",
    "queue": "in the queue",
    "node": "in the inspector",
    "metrics": "in the metrics",
    "list": "in the sessions at the left",
    "picker": "in the list of sessions",
    "search": "in the search",
    "fork": "where to fork",
    "ask": "where a line is asked for",
    "panes": "in the list of panes",
    "confirm": "at a question",
    "help": "in the help",
    "tour": "in the tour",
}
"""Where a key can act, beside ``main`` (all panes and the prompt) and ``all`` (dialogs too)."""

BROWSERS = frozenset(
    [f"ctrl+{key}" for key in ("n", "t", "w", "q", "tab", "pageup", "pagedown")]
    + [f"ctrl+shift+{key}" for key in ("n", "t", "w", "q", "p", "tab")]
    + ["f11"]
)
"""Keys that a page in a browser is not sure to be given: they open, close and change windows."""

PANES = ("prompt", "chat", "tree", "map", "table", "events", "queue", "node", "metrics", "list")
"""Those of the main screen."""


class Action(NamedTuple):
    """``keys`` as Textual has them, separated by commas; ``where``: places, separated by spaces."""

    keys: str
    where: str
    what: str


ACTIONS: dict[str, Action] = {
    # These act while a person types, too.
    # What browsers keep (``BROWSERS``) has a second key.
    "new": Action("ctrl+n,alt+n", "main picker", "new session"),
    "sessions": Action("ctrl+s", "main picker", "list of sessions"),
    "fork": Action("ctrl+o", "main fork", "fork the session at a message"),
    "search": Action("ctrl+f", "main picker", "search all sessions"),
    "back": Action("escape", "main", "stop the answer, else back"),
    "help": Action("f1", "all", "all keys"),
    "rename": Action("f2", "main picker", "rename the session"),
    "again": Action("ctrl+r", "main", "answer again"),
    "next_pane": Action("f6", "main", "next pane"),
    "previous_pane": Action("shift+f6", "main", "previous pane"),
    "copy": Action("ctrl+c", "main", "copy what is selected"),
    "palette": Action("ctrl+p", "all", "all commands"),
    "quit": Action("ctrl+q,alt+q", "all", "quit"),
    **{f"go_{n}": Action(f"alt+{n}", "main", f"go to session {n}") for n in range(1, 10)},
    "prompt.send": Action("enter", "prompt", "send"),
    "prompt.newline": Action("ctrl+j,alt+enter", "prompt", "new line"),
    "prompt.earlier": Action("up", "prompt", "earlier message, in the first line"),
    "prompt.later": Action("down", "prompt", "later message, in the last line"),
    "prompt.complete": Action("tab", "prompt", "take what is offered"),
    # These act in panes and are letters in the prompt.
    "pane.zoom": Action("z", "main", "zoom the pane, and back"),
    "pane.hide": Action("H", "main", "hide the pane"),
    "pane.list": Action("w", "main panes", "list of panes: show, hide"),
    "pane.next_tab": Action(
        "right_square_bracket", "tree map table events queue node metrics", "next of the panes in one place"
    ),
    "pane.previous_tab": Action(
        "left_square_bracket", "tree map table events queue node metrics", "previous of them"
    ),
    "pane.line_left": Action("ctrl+left", "main", "move the pane's border to the left"),
    "pane.line_right": Action("ctrl+right", "main", "to the right"),
    "pane.line_up": Action("ctrl+up", "main", "up"),
    "pane.line_down": Action("ctrl+down", "main", "down"),
    "pane.taller": Action("right_parenthesis", "main", "make the pane taller"),
    "pane.lower": Action("left_parenthesis", "main", "make it lower"),
    "pane.wider": Action("right_curly_bracket", "main", "make it wider"),
    "pane.narrower": Action("left_curly_bracket", "main", "make it narrower"),
    "pane.usual_sizes": Action("0", "main panes", "the usual sizes"),
    "pane.pause": Action("space", "main", "freeze the picture, and go on"),
    "pane.captions": Action("n", "main", "captions, or none"),
    "pane.export": Action("x", "main", "export the picture"),
    "pane.write": Action("i", "main", "to the prompt"),
    "pane.help": Action("question_mark", "main", "all keys"),
    "pane.inspect": Action("enter", "tree map table events queue", "show the node, block or session"),
    "pane.filter": Action("slash", "tree events list", "filter"),
    "pane.sort": Action("o", "tree list", "the next order"),
    "move.up": Action("up,k", "chat tree map events queue node list fork panes", "up"),
    "move.down": Action("down,j", "chat tree map events queue node list fork panes", "down"),
    "move.left": Action("left,h", "map table", "left"),
    "move.right": Action("right,l", "map table", "right"),
    "move.page_up": Action("pageup", "tree map events queue", "a page up"),
    "move.page_down": Action("pagedown", "tree map events queue", "a page down"),
    "move.first": Action("home,g", "chat tree map table events queue node list", "first, top"),
    "move.last": Action("end,G", "chat tree map table events queue node list", "last, end"),
    "chat.previous": Action("K,shift+up", "chat", "select the message before"),
    "chat.next": Action("J,shift+down", "chat", "select the message after"),
    "chat.older_version": Action("left,left_square_bracket", "chat", "previous version of a message"),
    "chat.newer_version": Action("right,right_square_bracket", "chat", "next version of a message"),
    "chat.write": Action("enter", "chat", "to the prompt"),
    "chat.answers": Action("a", "chat", "three answers at once"),
    "chat.edit": Action("e", "chat", "edit a question"),
    "chat.copy": Action("y", "chat", "copy an answer"),
    "chat.copy_code": Action("c", "chat", "copy a code block"),
    "chat.sideways_left": Action("h,shift+left", "chat", "move wide code and tables back"),
    "chat.sideways_right": Action("l,shift+right", "chat", "move wide code and tables, to see their rest"),
    "chat.verify": Action("v", "chat", "verify an answer"),
    "chat.thinking": Action("t", "chat", "unfold what the model thought"),
    "tree.fold": Action("left,h", "tree", "fold"),
    "tree.unfold": Action("right,l", "tree", "unfold"),
    "tree.fold_all": Action("minus,shift+left", "tree", "fold all"),
    "tree.unfold_all": Action("plus,equals_sign,shift+right", "tree", "unfold all"),
    "tree.pin": Action("p", "tree", "pin a node, and back"),
    "pane.tree": Action("t", "map table node", "its node in the tree"),
    "pane.blocks": Action("b", "tree table node", "its blocks in the map"),
    "map.nearer": Action("plus,equals_sign", "map", "fewer blocks a cell"),
    "map.further": Action("minus", "map", "more blocks a cell"),
    "map.density": Action("d", "map", "one cell a block, or for many"),
    "list.delete": Action("delete", "list", "delete the session"),
    "list.undo": Action("u", "list", "bring back the session deleted last"),
    # Dialogs.
    "picker.delete": Action("delete", "picker", "delete the session"),
    "picker.undo": Action("ctrl+z", "picker", "bring back the session deleted last"),
    "picker.sort": Action("ctrl+t,alt+t", "picker", "the next order"),
    "find.up": Action("up", "picker search", "up"),
    "find.down": Action("down", "picker search", "down"),
    "dialog.close": Action("escape", "picker search fork ask", "close"),
    "panes.toggle": Action("enter,space", "panes", "show or hide the pane"),
    "panes.usual": Action("backspace", "panes", "all panes as they were at first"),
    "panes.close": Action("escape,q", "panes", "close"),
    "confirm.yes": Action("y", "confirm", "yes"),
    "confirm.no": Action("n,escape", "confirm", "no"),
    "confirm.other": Action("left,right", "confirm", "the other button"),
    "tour.next": Action("enter,right", "tour", "next card"),
    "tour.back": Action("left", "tour", "card before"),
    "tour.skip": Action("escape", "tour", "end the tour"),
    # Not help.close: in TOML a name is a key or a table, and help is an action.
    "dialog.close_help": Action("escape,question_mark,q,enter", "help", "close"),
}


def typed_where(id: str) -> str:
    """A place where a person types while the keys of ``id`` act; empty where there is none."""
    where = ACTIONS[id].where.split()
    if id.startswith("pane."):
        return ""
    if "main" in where or "all" in where or "prompt" in where:
        return "prompt"
    return next((place for place in where if place in ("picker", "search", "ask")), "")


def together() -> dict[str, list[str]]:
    """Place → the actions whose keys act there; no two of them can have the same key."""
    return {
        place: [
            id
            for id, action in ACTIONS.items()
            if {place, "all"} & set(action.where.split())
            or (place in PANES and "main" in action.where.split())
        ]
        for place in PLACES
    }
