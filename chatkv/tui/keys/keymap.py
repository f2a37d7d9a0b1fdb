"""A person's ``[keys]``, checked: actions that there are, keys that a terminal can send, no key twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from textual.binding import Binding
from textual.keys import _character_to_key

from chatkv.text import nearest, one_line
from chatkv.tui.keys.actions import ACTIONS, PLACES, together, typed_where
from chatkv.tui.keys.current import Keymap, character, spell, types

MODIFIERS = ("alt", "ctrl", "hyper", "meta", "shift", "super")
_NAMED = """
    backspace delete down end enter escape home insert left pagedown pageup right space tab up
"""
NAMES = frozenset([*_NAMED.split(), *(f"f{n}" for n in range(1, 25))])
_OTHER_NAMES = {
    "bs": "backspace",
    "del": "delete",
    "esc": "escape",
    "ins": "insert",
    "page_down": "pagedown",
    "page_up": "pageup",
    "pgdn": "pagedown",
    "pgup": "pageup",
    "return": "enter",
}
_MOVING = frozenset(
    ["up", "down", "left", "right", "home", "end", "pageup", "pagedown", "ctrl+pageup", "ctrl+pagedown"]
)
_SAME = {
    "alt+left_square_bracket": "escape",
    "ctrl+h": "backspace",
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
}
"""What a terminal can't tell apart."""


class KeysError(ValueError):
    """``str()`` is one line that begins with the name in ``[keys]``."""


def read_keys(table: Mapping[str, object]) -> Keymap:
    """``[keys]`` of a settings file as a keymap; ``chat.copy`` may stand there or in ``[keys.chat]``.

    A value is a key, or a list of keys (empty: the action has none). Raises KeysError.
    """
    keymap = {}
    for id, value in _flat(table):
        if id not in ACTIONS:
            raise KeysError(f"{one_line(id, 60)}: there is no such action{nearest(id, ACTIONS)}")
        given = value if isinstance(value, list) else [value]
        listed = [each for each in given if isinstance(each, str)]
        if len(listed) < len(given):
            raise KeysError(
                f"{id}: takes a key like 'ctrl+t' or a list of keys, not {one_line(repr(value), 60)}"
            )
        try:
            keys = tuple(dict.fromkeys(normal(key) for key in listed))
        except KeysError as error:
            raise KeysError(f"{id}: {error}") from None
        for key in keys:
            _refuse_typed(id, key)
            _refuse_moving(id, key)
        keymap[id] = keys
    _refuse_twice(keymap)
    return keymap


def normal(text: str) -> str:
    """A key as Textual names it, from what people write (``esc``, ``?``, ``Ctrl+T``). Raises KeysError."""
    written = text if text == " " else text.strip()
    if not written:
        raise KeysError("'' is not a key; [] takes the key away")
    head, _, last = written.rpartition("+")
    if not last:  # "+" itself, or with a modifier
        head, last = head.removesuffix("+"), "+"
    modifiers = head.lower().split("+") if head else []
    wrong = [m for m in modifiers if m not in MODIFIERS]
    if wrong:
        raise KeysError(
            f"{_quoted(text)} is not a key: {_quoted(wrong[0])} is none of {', '.join(MODIFIERS)}"
        )
    last = _base(last, text)
    if len(last) == 1 and last.isalpha() and modifiers:
        last = last.lower()
        if modifiers == ["shift"]:
            modifiers, last = [], last.upper()
    elif "shift" in modifiers and last not in NAMES:
        raise KeysError(f"{_quoted(text)}: write the character that it types, like '?' for shift and /")
    key = "+".join([*sorted(set(modifiers)), last])
    if key in _SAME:
        raise KeysError(f"{_quoted(text)} can't be told from {_SAME[key]} by a terminal; write {_SAME[key]}")
    return key


def _base(last: str, text: str) -> str:
    if len(last) == 1 and last.isprintable():
        return "space" if last == " " else _character_to_key(last)
    name = _OTHER_NAMES.get(last.lower(), last.lower())
    if name in NAMES:
        return name
    if len(name) > 1 and (typed := character(name)) is not None:
        return _character_to_key(typed)
    raise KeysError(f"{_quoted(text)} is not a key{nearest(name, NAMES)}")


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _refuse_moving(id: str, key: str) -> None:
    """Keys with which every pane moves reach nothing behind it."""
    if key in _MOVING and "main" in ACTIONS[id].where.split() and key not in ACTIONS[id].keys.split(","):
        raise KeysError(f"{id}: {spell(key)!r} moves in the panes, where this acts too")


def _refuse_typed(id: str, key: str) -> None:
    """A key that types or edits text can't do something else while text is typed."""
    place = typed_where(id)
    if not place or key in ACTIONS[id].keys.split(","):
        return
    if types(key):
        raise KeysError(
            f"{id}: {spell(key)!r} types {PLACES[place]}, where this acts too; take ctrl, alt or f1 …"
        )
    if not id.startswith(("prompt.", "find.", "picker.")) and key in _editing():
        raise KeysError(f"{id}: {spell(key)!r} edits text {PLACES[place]}, where this acts too")


@cache
def _editing() -> frozenset[str]:
    """The keys with which text is edited."""
    from textual.widgets import TextArea

    return frozenset(binding.key for binding in Binding.make_bindings(TextArea.BINDINGS))


def _refuse_twice(keymap: Keymap) -> None:
    for place, ids in together().items():
        taken: dict[str, str] = {}
        for id in ids:
            for key in keymap[id] if id in keymap else ACTIONS[id].keys.split(","):
                other = taken.setdefault(key, id)
                if other != id:
                    # The one that a person has written is named first.
                    first, second = (id, other) if id in keymap else (other, id)
                    raise KeysError(
                        f"{first}: {spell(key)!r} is {second} {PLACES[place]}, too; change one of them"
                    )


def _quoted(text: str) -> str:
    return repr(one_line(text, 40))
