"""A bound is written once: the command line, the settings file, /set, presets and the library agree on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chatkv.chat.errors import ChatError
from chatkv.chat.settings import PARAMETERS, check
from chatkv.cli.outcome import invoke
from chatkv.cli.settings import known, load
from chatkv.engine.config import EngineConfig, EngineError
from chatkv.errors import UsageError
from chatkv.sampling import SamplingParams
from chatkv.schema import Field, fields_of

OWNERS = (EngineConfig, SamplingParams)
BOUNDED = [
    (owner, field) for owner in OWNERS for field in fields_of(owner).values() if field.kind in (int, float)
]


def beyond(field: Field) -> list[float]:
    """Values just outside of its bounds."""
    step = 1 if field.kind is int else 0.001
    out = [] if field.high is None else [field.high + step]
    if field.low is not None:
        out.append(field.low - step)
    if field.above is not None:
        out.append(field.above)
    return out


def within(field: Field) -> list[float]:
    return [value for value in (field.low, field.high) if value is not None]


@pytest.mark.parametrize(("owner", "field"), BOUNDED, ids=lambda it: getattr(it, "name", ""))
def test_every_place_refuses_the_same_values_in_the_same_words(
    owner: type,
    field: Field,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert beyond(field), f"{field.name} has no bounds"
    for value in beyond(field):
        wanted = f"must be {field.wanted}, got {value!r}"
        for say in (_library(owner, field), _file(field, tmp_path), _set(field), _command(field, capsys)):
            told = say(value)
            assert told is None or wanted.split(", got")[0] in told, say
    for value in within(field):
        assert field.problem(field.kind(value)) is None


def _library(owner: type, field: Field) -> Callable[[Any], str | None]:
    def say(value: Any) -> str | None:
        if owner is SamplingParams:
            return SamplingParams(**{field.name: value}).problem()
        with pytest.raises(EngineError) as caught:
            EngineConfig(**{field.name: value}).validate()
        assert caught.value.exit_code == 2
        return str(caught.value)

    return say


def _file(field: Field, folder: Path) -> Callable[[Any], str | None]:
    def say(value: Any) -> str | None:
        setting = next((each for each in known().values() if each.field == field), None)
        if setting is None or field.size:
            return None
        path = folder / "config.toml"
        path.write_text(f"[{setting.table}]\n{setting.name} = {value}\n")
        with pytest.raises(UsageError) as caught:
            load(path)
        return str(caught.value)

    return say


def _set(field: Field) -> Callable[[Any], str | None]:
    def say(value: Any) -> str | None:
        if field.name not in PARAMETERS:
            return None
        with pytest.raises(ChatError) as caught:
            check(field.name, value)
        return str(caught.value)

    return say


def _command(field: Field, capsys: pytest.CaptureFixture[str]) -> Callable[[Any], str | None]:
    def say(value: Any) -> str | None:
        if field.name == "logprobs" or field.size:
            return None
        assert invoke(["run", f"{field.option}={value}"]) == 2
        return capsys.readouterr().err

    return say


def test_stop_texts_have_one_bound_everywhere() -> None:
    long = "x" * 256
    assert SamplingParams(stop=(long,)).problem() is None
    check("stop", [long])
    assert "up to 256 characters" in (SamplingParams(stop=(long + "x",)).problem() or "")
    with pytest.raises(ChatError, match="up to 256 characters"):
        check("stop", [long + "x"])


def test_the_same_classes_give_a_json_schema() -> None:
    schema = msgspec.json.schema(EngineConfig)["$defs"]["EngineConfig"]["properties"]
    assert schema["block_size"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 256,
        "description": "Tokens a KV block.",
        "default": 16,
    }
    assert schema.keys() == EngineConfig.__dataclass_fields__.keys()


@pytest.mark.parametrize("owner", OWNERS)
def test_every_field_is_described(owner: Any) -> None:
    undescribed = owner.__dataclass_fields__.keys() - fields_of(owner).keys()
    assert undescribed <= {"ignore_stop"}
    assert all(field.help.endswith(".") for field in fields_of(owner).values())
