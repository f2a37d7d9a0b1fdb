"""How a session's answers are sampled: what may be set, checked wherever it comes in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chatkv.chat.errors import ChatError
from chatkv.text import one_line

Settings = dict[str, Any]
"""Parameter → value, JSON-ready; what is not in it is as ``chatkv run`` was started."""

DEFAULT_WORDS = ("default", "reset")
"""Written in place of a value (or of a parameter): back to how ``chatkv run`` was started."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number from ``least`` (itself excluded where ``above``) to ``most``."""

    what: str
    whole: bool
    least: float
    most: float
    above: bool = False

    @property
    def range(self) -> str:
        """In words."""
        kind = "a whole number" if self.whole else "a number"
        low = f"above {self.least:g}" if self.above else f"from {self.least:g}"
        return f"{kind} {low}" if self.most > 1e9 else f"{kind} {low} to {self.most:g}"

    def read(self, text: str) -> object:
        """What ``text`` means; None where it is no such thing."""
        return _json(text.lstrip("+"))

    def holds(self, value: object) -> bool:
        """Whether ``value`` may be set."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return (value > self.least if self.above else value >= self.least) and value <= self.most


@dataclass(frozen=True, slots=True)
class Texts:
    """Up to ``most`` texts of up to ``length`` characters."""

    what: str
    most: int
    length: int

    @property
    def range(self) -> str:
        """In words."""
        return f'1 to {self.most} texts, like END or ["\\n\\n", "END"], of up to {self.length} characters'

    def read(self, text: str) -> object:
        """A JSON string or list of them; anything else is one text as it stands."""
        if not text.startswith(("[", '"')):
            return [text]
        given = _json(text)
        return [given] if isinstance(given, str) else given

    def holds(self, value: object) -> bool:
        """Whether ``value`` may be set."""
        return (
            isinstance(value, list)
            and 0 < len(value) <= self.most
            and all(isinstance(text, str) and 0 < len(text) <= self.length for text in value)
        )


def _json(text: str) -> object:
    try:
        return json.loads(text, parse_constant=lambda word: word)
    except (ValueError, RecursionError):
        return None


PARAMETERS: Mapping[str, Parameter | Texts] = {
    "temperature": Parameter("0: always the likeliest token", False, 0, 100),
    "top_p": Parameter("sample from this share of the probability", False, 0, 1, above=True),
    "top_k": Parameter("sample from this many tokens; 0: from all", True, 0, 2**31 - 1),
    "max_tokens": Parameter("tokens an answer may have", True, 1, 2**31 - 1),
    "min_p": Parameter("only tokens at least this likely, beside the likeliest one", False, 0, 1),
    "repetition_penalty": Parameter("above 1: less of what was there already", False, 0.01, 100),
    "presence_penalty": Parameter("subtracted from what the answer has said already", False, -10, 10),
    "frequency_penalty": Parameter("the same, for each time it was said", False, -10, 10),
    "stop": Texts("the answer ends before the first of these", 16, 200),
    "logprobs": Parameter("record the log-probability of each token, and of so many others", True, 0, 20),
    "seed": Parameter("for the same answers every time", True, 0, 2**63 - 1),
}


def parameter(word: str) -> str:
    """The parameter ``word`` names: in full, with ``-`` for ``_``, or by a beginning that only it has.

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
    """What ``text`` means as the value of parameter ``name``.

    Raises:
        ChatError: it may not be set to that.
    """
    number = PARAMETERS[name].read(text)
    check(name, number, text)
    return number


def check(name: str, number: object, shown: str | None = None) -> None:
    """Raises ChatError unless ``number`` may be the value of ``name``."""
    known = PARAMETERS.get(name)
    if known is None:
        raise ChatError(f"there is no parameter {one_line(name, 30)}; there are {', '.join(PARAMETERS)}")
    if not known.holds(number):
        text = one_line(repr(number) if shown is None else shown, 30)
        raise ChatError(f"{name} must be {known.range}, got {text}")


def checked(given: Mapping[str, object]) -> tuple[Settings, list[str]]:
    """What of ``given`` (from a file) may be set, and a line for each thing that may not."""
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
    """``temperature 0.7 · seed 3``."""
    return " · ".join(
        f"{name} {json.dumps(it, ensure_ascii=False) if isinstance(it, list) else it}"
        for name, it in settings.items()
    )


def plain(settings: Mapping[str, object]) -> Settings:
    """The values as an engine takes them: tuples for lists."""
    return {name: tuple(it) if isinstance(it, list) else it for name, it in settings.items()}
