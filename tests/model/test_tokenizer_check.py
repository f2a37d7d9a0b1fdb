"""Tokenizers that multiply a text, never end, or end the process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatkv.model import tokenizer_check
from chatkv.model.errors import ModelError
from chatkv.model.tokenizer import Codec
from tests.model.templates import make


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tokenizer_check, "CPU_S", 3)


def changed(folder: Path, **parts: Any) -> Path:
    folder.mkdir()
    make("qwen2.5", folder)
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | parts))
    return folder


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(rules)}


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "a long replacement": ({"normalizer": replace({"String": "q"}, "z" * 10_000)}, "multiply a text"),
    "many that double": ({"normalizer": sequence(*[replace({"String": "q"}, "qq")] * 30)}, "multiply a text"),
    "a regex": ({"normalizer": sequence(*[replace({"Regex": ""}, "abcdefgh")] * 3)}, "multiply a text"),
    "a long prefix": ({"normalizer": {"type": "Prepend", "prepend": "z" * 10_000}}, "multiply a text"),
    "a huge number": (
        {"decoder": {"type": "Strip", "content": " ", "start": 2**40, "stop": 0}},
        "decoder: 1099511627776 is more",
    ),
    "nested": ({"normalizer": json.loads("[" * 140 + "]" * 140)}, "nested more than 100"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    parts, says = HOSTILE[name]
    with pytest.raises(ModelError, match=says) as caught:
        Codec.load(changed(tmp_path / "m", **parts))
    assert "\n" not in str(caught.value)
    assert "tokenizer.json" in str(caught.value)


def test_padding_of_any_size_is_of_no_account(tmp_path: Path) -> None:
    padding = {
        "strategy": {"Fixed": 2**28}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "!",
    }  # fmt: skip
    codec = Codec.load(changed(tmp_path / "m", padding=padding))
    assert codec.encode_text("hello") == Codec.load(changed(tmp_path / "n")).encode_text("hello")


def test_each_version_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = changed(tmp_path / "m")
    Codec.load(folder)

    def again(*arguments: Any) -> None:
        raise AssertionError("tried again")

    monkeypatch.setattr("chatkv.model.tokenizer_check.Confined", again)
    Codec.load(folder)
    file = folder / "tokenizer.json"
    file.write_text(file.read_text() + " ")
    with pytest.raises(AssertionError, match="tried again"):
        Codec.load(folder)
