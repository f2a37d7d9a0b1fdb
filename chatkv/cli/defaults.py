"""The settings file's values as defaults of options: what is given on the command line goes before them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from chatkv.cli.settings import Settings, load, settings_path
from chatkv.errors import ChatkvError

MACHINE = ("model", "device", "dtype", "attention", "threads")
"""Which model, and on what: ``bench`` takes these too. What shapes the cache it is told, or takes as built
in, so that figures of different people compare.
"""
_BENCHES: dict[str, tuple[str, ...]] = {
    "queue": MACHINE,
}


class Defaults(dict[str, Any]):
    """typer's ``default_map``: command → its options' defaults. The file is read when a command first asks.

    ``lenient``: a faulty file is told, and does no more; for ``--help``.
    """

    def __init__(self, lenient: bool = False) -> None:
        super().__init__()
        self._lenient = lenient
        self._loaded: Settings | None = None

    @property
    def settings(self) -> Settings:
        """What the file says. Raises UsageError."""
        if self._loaded is None:
            try:
                self._loaded = load()
            except ChatkvError as error:
                if not self._lenient:
                    raise
                print(f"chatkv: {error}", file=sys.stderr)
                self._loaded = Settings(settings_path())
        return self._loaded

    def get(self, command: str, default: Any = None) -> Any:
        """The defaults of ``command``'s options. Raises UsageError."""
        if command == "run":
            return dict(self.settings.values)
        if command == "fetch":
            return self._some(("model",))
        if command == "bench":
            benches = {name: self._some(options) for name, options in _BENCHES.items()}
            return self._some(MACHINE) | benches
        return default

    def _some(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: value for name, value in self.settings.values.items() if name in names}


def settings_of(context: typer.Context) -> Settings:
    """The settings a command runs with."""
    defaults = context.find_root().default_map
    return defaults.settings if isinstance(defaults, Defaults) else Settings(settings_path())


def from_file(context: typer.Context, name: str) -> bool:
    """Whether an option has its value from the settings file."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


@contextmanager
def naming_the_file(context: typer.Context, *also: str) -> Iterator[None]:
    """Where what is refused names an option (or is about ``also``) that nobody typed, say where it stands."""
    try:
        yield
    except ChatkvError as error:
        names = [name.replace("-", "_") for name in re.findall(r"--([a-z-]+)", str(error))] + list(also)
        listed = [name for name in dict.fromkeys(names) if from_file(context, name)]
        if not listed:
            raise
        where = f"{', '.join(listed)} is set in {settings_of(context).path}"
        raise ChatkvError(f"{error}; {where}", exit_code=error.exit_code) from None
