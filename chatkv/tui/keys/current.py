"""The keys in force in this process, and their names in words. The app sets them once, at its start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from textual.binding import Binding
from textual.keys import REPLACED_KEYS, key_to_character

from chatkv.tui.keys.actions import ACTIONS, BROWSERS

Keymap = Mapping[str, tuple[str, ...]]
"""Action → its keys, for those that a person has changed; no keys: it has none."""

NONE = "<none>"
"""What an action without a key is bound to: no terminal sends it."""

_NAMES = {"escape": "esc"}
_ARROWS = {"left": "←", "right": "→", "up": "↑", "down": "↓"}
_changed: dict[str, tuple[str, ...]] = {}


def use(keymap: Keymap) -> None:
    """From now on these; the app gives Textual the same."""
    _changed.clear()
    _changed.update(keymap)


def for_browsers(keymap: Keymap) -> Keymap:
    """``keymap`` with the keys that arrive there before those that browsers keep: those are what is shown.

    Where a person has only such a key for an action, alt makes one that arrives, unless it is taken.
    """
    keys_of = {id: keymap.get(id, tuple(action.keys.split(","))) for id, action in ACTIONS.items()}
    taken = {key for keys in keys_of.values() for key in keys}
    ordered = dict(keymap)
    for id, keys in keys_of.items():
        kept = tuple(key for key in keys if key in BROWSERS)
        arrives = tuple(key for key in keys if key not in BROWSERS)
        if kept and not arrives:
            arrives = tuple({f"alt+{kept[0].rpartition('+')[2]}"} - taken)
            taken.update(arrives)
        if kept and arrives:
            ordered[id] = arrives + kept
    return ordered


def changed_keys() -> bool:
    """Has the person any keys of their own?"""
    return bool(_changed)


def types(key: str) -> bool:
    """Does a key type a character?"""
    return character(key) is not None


def textual_keymap() -> dict[str, str]:
    """For ``App.set_keymap``."""
    return {id: ",".join(keys) or NONE for id, keys in _changed.items()}


def keys_of(id: str) -> tuple[str, ...]:
    """The keys of an action now, as Textual names them."""
    return _changed[id] if id in _changed else tuple(ACTIONS[id].keys.split(","))


def character(key: str) -> str | None:
    """What a key types; None where it types nothing."""
    found = key_to_character(REPLACED_KEYS.get(key, key))  # Textual knows "solidus", and calls it "slash"
    return found if found is not None and found.isprintable() else None


def spell(key: str) -> str:
    """As people write it: ``ctrl+n``, ``esc``, ``?``."""
    *modifiers, last = key.split("+")
    last = (character(last) or "").strip() or last
    return "+".join([*modifiers, _NAMES.get(last, last)])


def hint(id: str) -> str:
    """The first key of an action, for a sentence."""
    keys = keys_of(id)
    return spell(keys[0]) if keys else "(no key)"


def short(id: str) -> str:
    """The same for a line of hints: ``^n``."""
    return re.sub(r"^ctrl\+(?=.$)", "^", hint(id)).replace("delete", "del")


def sign(id: str) -> str:
    """The same where there is hardly room: ``←``."""
    key = hint(id)
    return _ARROWS.get(key, key)


def every_key(id: str) -> str:
    """All keys of an action: ``ctrl+j, alt+enter``."""
    return ", ".join(spell(each) for each in keys_of(id)) or "(no key)"


def fill(text: str) -> str:
    """``{new}`` is the first key of ``new`` now, ``{new*}`` all of them. For chatkv's own words only."""

    def name(found: re.Match[str]) -> str:
        return every_key(found[1]) if found[2] else hint(found[1])

    return re.sub(r"\{([a-z_0-9.]+)(\*?)\}", name, text)


def bind(
    id: str,
    action: str,
    label: str = "",
    *,
    show: bool = True,
    priority: bool = False,
    system: bool = False,
    tooltip: str = "",
) -> Binding:
    """A binding of the action ``id``; with a ``label`` the footer shows it (unless ``show`` says no)."""
    row = ACTIONS[id]
    return Binding(
        row.keys,
        action,
        label or row.what,
        show=show and bool(label),
        priority=priority,
        system=system,
        tooltip=tooltip,
        id=id,
    )


def bound(bindings: Mapping[str, list[Binding]], pressed: str) -> Iterator[Binding]:
    """What a widget's own ``bindings`` (key → bindings) make of a key that was ``pressed``."""
    for id, keys in _changed.items():
        if pressed in keys:
            # Several keys of one action are several bindings: one of them will do.
            yield from [each for several in bindings.values() for each in several if each.id == id][:1]
    for each in bindings.get(pressed, ()):
        if each.id not in _changed:
            yield each
