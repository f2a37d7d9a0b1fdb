"""Options of commands, derived from the fields of dataclasses (``chatkv/schema.py``)."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from chatkv.cli.completion import models, one_of, themes
from chatkv.cli.sizes import parse_size
from chatkv.errors import UsageError
from chatkv.sampling import SamplingParams
from chatkv.schema import Field, fields_of, option, problem_of
from chatkv.text import nearest

Command = TypeVar("Command", bound=Callable[..., Any])

EXCLUSIVE = ("kv_memory", "num_blocks")
"""Of these what is typed goes before what the settings file says."""
_OFFERS: Mapping[str, Any] = {"model": models, "theme": themes, "device": one_of(("auto", "cpu", "cuda"))}


@dataclass(frozen=True, slots=True)
class AppOptions:
    """What the chat itself is told, beside its engine and how it samples."""

    sessions: (
        Annotated[
            Path,
            option(
                "Where the sessions are kept; default: your data folder.", metavar="DIR", example="~/chats"
            ),
        ]
        | None
    ) = None
    save: Annotated[bool, option("Keep what is said; else sessions are only read.")] = True
    theme: Annotated[str, option("Colours; 'chatkv themes' lists them.", example="chatkv-dark")] | None = None
    web_host: (
        Annotated[
            str,
            option(
                "Who may come: 127.0.0.1, this machine alone.",
                panel="Browser",
                metavar="HOST",
                example="127.0.0.1",
            ),
        ]
        | None
    ) = None
    web_port: (
        Annotated[
            int, option("Its port; default: a free one.", ge=0, le=65535, panel="Browser", example=8000)
        ]
        | None
    ) = None


class Group(NamedTuple):
    """The fields of ``owner`` that a command takes as options: all that are described, but ``without``."""

    owner: type
    without: frozenset[str] = frozenset()

    @property
    def fields(self) -> list[Field]:
        """Return them in order."""
        return [field for name, field in fields_of(self.owner).items() if name not in self.without]


SAMPLING = Group(SamplingParams, frozenset({"logprobs"}))
APP = Group(AppOptions)


def takes(**groups: Group) -> Callable[[Command], Command]:
    """Give a command the options of ``groups``; each reaches it, checked, as one argument of that name.

    Its first parameter is the context. Raises, when it runs, UsageError or EngineError for values that can't
    work together, and names the settings file where a value is from there.
    """

    def wrap(command: Command) -> Command:
        own = [
            p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name not in groups
        ]
        added = [
            inspect.Parameter(
                key(field),
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if field.default == () else field.default,
                annotation=Annotated[_type(field), typer_option(field)],
            )
            for group in groups.values()
            for field in group.fields
        ]

        @functools.wraps(command)
        def run(context: typer.Context, **values: Any) -> Any:
            from chatkv.cli.defaults import naming_the_file

            _prefer_typed(context, values)
            with naming_the_file(context):
                made = {name: _made(group, values) for name, group in groups.items()}
            return command(context, **values, **made)

        parameters = [own[0], *added, *own[1:]]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run  # type: ignore[return-value]

    return wrap


def key(field: Field) -> str:
    """Return the name of a field as a parameter of a command and as a setting."""
    return field.flag or field.name


def typer_option(field: Field) -> Any:
    """Return what typer makes an option of."""
    flags = [f"{field.option}/--no-{field.option[2:]}"] if field.kind is bool else [field.option]
    bounded = field.kind is int and field.low is not None and (field.high or 2**31) < 2**31 - 1
    bounds = f"INTEGER {field.low:g}-{int(field.high or 0)}" if bounded else None
    return typer.Option(
        *flags,
        metavar=field.values or bounds,
        help=field.help,
        rich_help_panel=field.panel or None,
        autocompletion=_OFFERS.get(field.name) or (one_of(field.choices) if field.choices else None),
        callback=checks(lambda option, value: _check(field, option, value)),
    )


def annotated(owner: type, name: str) -> Any:
    """Return the option of one field, for a command that takes few: ``Annotated[int, annotated(…)]``."""
    return typer_option(fields_of(owner)[name])


def checks(check: Callable[[str, Any], object]) -> Callable[..., Any]:
    """Return a callback for typer that calls ``check`` with the option's name and what it was given."""

    def callback(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
        if value is not None and not context.resilient_parsing:
            check(parameter.opts[0], value)
        return value

    return callback


def _type(field: Field) -> Any:
    kind = str if field.size else list[str] if field.kind is tuple else field.kind
    return kind | None if field.optional or field.kind is tuple else kind


def _check(field: Field, option: str, value: Any) -> None:
    if field.name in CHECKS:
        CHECKS[field.name](option, value)
    elif field.size:
        parse_size(value, option)
    elif (problem := field.problem(value)) is not None:
        raise UsageError(f"{option} {problem}")


def _made(group: Group, values: dict[str, Any]) -> Any:
    given = {}
    for field in group.fields:
        value = values.pop(key(field))
        if field.size and value is not None:
            value = parse_size(value, field.option)
        given[field.name] = tuple(value or ()) if field.kind is tuple else value
    made = group.owner(**given)
    if validate := getattr(made, "validate", None):
        return validate()
    if (found := problem_of(made)) is not None:
        raise UsageError(f"{found[0].option} {found[1]}")
    return made


def _prefer_typed(context: typer.Context, values: dict[str, Any]) -> None:
    from chatkv.cli.defaults import from_file

    if not all(values.get(name) is not None for name in EXCLUSIVE):
        return
    filed = [name for name in EXCLUSIVE if from_file(context, name)]
    if len(filed) == 1:
        values[filed[0]] = None


# --- what only the command line can check ---------------------------------------------------------


def check_folder(option: str, path: Path | str) -> None:
    """Raise UsageError that names ``option`` where ``path`` can't be a folder."""
    # Not Path's own: they raise where there is no such user, and where a name is too long.
    place = os.path.expanduser(path)
    if os.path.exists(place) and not os.path.isdir(place):
        raise UsageError(f"{option} takes a folder, and {path} is none")


def check_host(option: str, host: str) -> None:
    """Raise UsageError that names ``option`` where ``host`` can't be a host's name or address."""
    if re.fullmatch(r"[^\s/:]+|[\da-fA-F:.]+(%[^\s/:]+)?", host) is None:
        raise UsageError(f"{option} takes a host's name or address alone, like 127.0.0.1, not {host!r}")


def check_theme(option: str, name: str) -> None:
    """Raise UsageError where there is no such theme."""
    from chatkv.tui.themes import load_themes, theme_names

    known = theme_names()
    if name not in known:
        faults = load_themes()[1]
        # A file that bears the name is what is meant.
        if own := [problem for problem in faults if problem.path.stem == name]:
            raise UsageError(f"{option} {name!r} can't be had: {own[0]}")
        others = "".join(f"; {problem}" for problem in faults)
        raise UsageError(
            f"{option} {name!r} is not known{nearest(name, known)}; there are {', '.join(known)}{others}"
        )


CHECKS: Mapping[str, Callable[[str, Any], None]] = {
    "theme": check_theme,
    "sessions": check_folder,
    "web_host": check_host,
}
"""By a field's name: called with the option's name and the value; raises UsageError."""
