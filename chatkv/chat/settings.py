"""How a session's answers are sampled: what may be set, checked wherever it comes in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chatkv.chat.errors import ChatError
from chatkv.sampling import SamplingParams
from chatkv.schema import Field, fields_of
from chatkv.text import one_line

Settings = dict[str, Any]
"""Parameter → value, JSON-ready; what is not in it is as ``chatkv run`` was started."""

DEFAULT_WORDS = ("default", "reset")
"""Written in place of a value (or of a parameter): back to how ``chatkv run`` was started."""

PARAMETERS: Mapping[str, Field] = fields_of(SamplingParams)


def parameter(word: str) -> str:
    """Return the parameter that ``word`` names: in full, with ``-`` for ``_``, or by a beginning of its own.

    Raises:
        ChatError: there is none, or several.
    """
    name = word.casefold().replace("-", "_")
    if name in PARAMETERS:
        return name
    found = [known for known in PARAMETERS if known.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ChatError(f"{one_line(word, 30)} could be {' or '.join(found)}")
    raise ChatError(f"there is no parameter {one_line(word, 30)}; there are {', '.join(PARAMETERS)}")


def value(name: str, text: str) -> Any:
    """Return what ``text`` means as the value of parameter ``name``, JSON-ready.

    Raises:
        ChatError: it may not be set to that.
    """
    given = PARAMETERS[name].read(text)
    given = list(given) if isinstance(given, tuple) else given
    check(name, given, text)
    return given


def check(name: str, given: object, shown: str | None = None) -> None:
    """Raise ChatError unless ``given`` may be the value of ``name``; ``shown`` is how it was written."""
    known = PARAMETERS.get(name)
    if known is None:
        raise ChatError(f"there is no parameter {one_line(name, 30)}; there are {', '.join(PARAMETERS)}")
    # What is not set is not in the settings: nothing in them is None, and no list is empty.
    if given is None or given == [] or known.problem(given) is not None:
        text = one_line(repr(given) if shown is None else shown, 30)
        raise ChatError(f"{name} must be {known.wanted}, got {text}")


def checked(given: Mapping[str, object]) -> tuple[Settings, list[str]]:
    """Return what of ``given`` (from a file) may be set, and a line for each thing that may not."""
    good: Settings = {}
    faults: list[str] = []
    for name, number in given.items():
        try:
            check(name, number)
        except ChatError as error:
            faults.append(str(error))
        else:
            good[name] = number
    return good, faults


def describe(settings: Mapping[str, object]) -> str:
    """Return them as people read them: ``temperature 0.7 · seed 3``."""
    return " · ".join(
        f"{name} {json.dumps(it, ensure_ascii=False) if isinstance(it, list) else it}"
        for name, it in settings.items()
    )


def plain(settings: Mapping[str, object]) -> Settings:
    """Return the values as an engine takes them: tuples for lists."""
    return {name: tuple(it) if isinstance(it, list) else it for name, it in settings.items()}
