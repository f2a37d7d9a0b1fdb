"""``chatkv config``: where things are, which settings there are and where each has its value from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from chatkv.errors import ChatkvError, UsageError
from chatkv.text import one_line

_HEAD = """\
# Settings of chatkv. Take the # off a line to change what it says; an option on the command line
# goes before it. 'chatkv config' shows what holds now.
"""
_KEYS = """\
# Keys: one, or a list of them; [] takes an action's key away. 'chatkv config --keys' shows them in force.
"""


def config(
    path: Annotated[bool, typer.Option("--path", help="Where the settings file is looked for.")] = False,
    init: Annotated[
        bool, typer.Option("--init", help="Write a settings file with every setting, as a comment.")
    ] = False,
    keys: Annotated[bool, typer.Option("--keys", help="Every action and its keys.")] = False,
) -> None:
    """Show where things are kept, and every setting with its value and where it comes from."""
    from chatkv.cli.settings import load, settings_path

    if path + init + keys > 1:
        raise UsageError("give one of --path, --init and --keys")
    if path:
        print(settings_path())
        return
    if init:
        write_example(settings_path())
        print(f"wrote {settings_path()}")
        return
    if keys:
        _print_keys()
        return
    _print_folders()
    print()
    settings = load()
    if "model" in settings.values:
        # Else it is said where it is needed: a command line may name another one.
        from chatkv.cli.models import check_model

        try:
            check_model(str(settings.values["model"]))
        except ChatkvError as error:
            raise UsageError(f"{settings.path}: [run] model: {error}") from None
    _print_settings(settings.values, settings.keys)


def write_example(path: Path) -> None:
    """A file in which every setting stands as a comment. Raises ChatkvError where there is one."""
    from chatkv.cli.settings import known
    from chatkv.tui.keys.actions import ACTIONS
    from chatkv.tui.keys.current import spell

    lines = [_HEAD]
    for table in ("run", "sampling"):
        lines.append(f"[{table}]")
        for setting in known().values():
            if setting.table == table:
                field = setting.field
                values = f" ({field.values.replace('|', ', ')})" if "|" in field.values else ""
                shown = field.default if field.example is None else field.example
                lines += [
                    f"# {field.help or setting.name}{values}",
                    f"#{setting.name} = {_toml(shown)}",
                    "",
                ]
    lines += [_KEYS.rstrip(), "[keys]"]
    for id, action in ACTIONS.items():
        spelled = [spell(key) for key in action.keys.split(",")]
        lines.append(f"#{id} = {_toml(spelled if len(spelled) > 1 else spelled[0])}  # {action.what}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError:
        raise ChatkvError(f"{path} is there already; nothing was written") from None


def _toml(value: object) -> str:
    """JSON's texts, numbers, lists and truth values are TOML's."""
    return json.dumps(value, ensure_ascii=False)


def _print_folders() -> None:
    from chatkv.cli.settings import settings_path
    from chatkv.paths import cache_dir, config_dir, data_dir

    for what, path in (
        ("settings", settings_path()),
        ("themes", config_dir() / "themes"),
        ("presets", config_dir() / "presets"),
        ("data", data_dir()),
        ("sessions", data_dir() / "sessions"),
        ("pictures", data_dir() / "snapshots"),
        ("log", data_dir() / "chatkv.log"),
        ("models", cache_dir()),
    ):
        missing = "(none yet; chatkv config --init writes one)" if what == "settings" else "(not there yet)"
        # A path is never cut: it is there to be copied.
        print(f"{what:<9} {one_line(str(path), 4096)}" + ("" if path.exists() else f"  {missing}"))


def _print_settings(values: Mapping[str, object], keys: Mapping[str, tuple[str, ...]]) -> None:
    from chatkv.cli.output import print_table
    from chatkv.cli.settings import known
    from chatkv.tui.keys.current import spell

    rows = [
        (
            f"[{s.table}]",
            s.name,
            _shown(values.get(s.name, s.field.default)),
            "file" if s.name in values else "default",
        )
        for s in sorted(known().values(), key=lambda s: s.table)
    ]
    rows += [
        ("[keys]", id, ", ".join(spell(key) for key in pressed) or "none", "file")
        for id, pressed in keys.items()
    ]
    print_table(("table", "setting", "value", "from"), rows, whole=2)
    print("\nAll keys: chatkv config --keys")


def _shown(value: object) -> str:
    return "-" if value in (None, ()) else value if isinstance(value, str) else _toml(value)


def _print_keys() -> None:
    from chatkv.cli.output import print_table
    from chatkv.cli.settings import load
    from chatkv.tui.keys.actions import ACTIONS, PLACES
    from chatkv.tui.keys.current import spell

    changed = load().keys
    rows = []
    for id, action in ACTIONS.items():
        pressed = changed[id] if id in changed else action.keys.split(",")
        where = " ".join(
            "list-of-panes" if each == "panes" else each for each in action.where.split() if each in PLACES
        )
        if "main" in action.where.split():
            where = ("panes" if id.startswith("pane.") else "everywhere") + f" {where}".rstrip()
        rows.append(
            (
                id,
                ", ".join(spell(key) for key in pressed) or "none",
                action.what,
                where or "everywhere",
                "file" if id in changed else "default",
            )
        )
    print_table(("action", "keys", "what", "where", "from"), rows, whole=2)
