"""What is kept of the screen from run to run."""

from pathlib import Path

import pytest

from chatkv.tui.remembered import Remembered


def test_from_run_to_run(tmp_path: Path) -> None:
    path = tmp_path / "new" / "screen.json"
    first = Remembered(path)
    first.set("captions", False)
    first.set("sizes", {"chat": 0.6, "tree": 2})
    first.set("hidden", ["queue"])
    again = Remembered(path)
    assert again.get("captions", True) is False
    assert again.get("sizes", dict[str, float]()) == {"chat": 0.6, "tree": 2}
    assert again.get("hidden", list[str]()) == ["queue"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_in_memory_only() -> None:
    kept = Remembered()
    kept.set("theme", "x")
    assert kept.get("theme", "") == "x"


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "[" * 100_000, '{"a": 1e999}', "\x00"])
def test_a_broken_file_is_forgotten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "screen.json"
    path.write_text(text)
    kept = Remembered(path)
    assert kept.get("b", 7) == 7
    kept.set("b", 8)
    assert Remembered(path).get("b", 7) == 8


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ('{"a": 1}', True),
        ('{"a": true}', 1),
        ('{"a": "1"}', 1),
        ('{"a": [1]}', ["x"]),
        ('{"a": {"b": "c"}}', {"b": 1.0}),
        ('{"a": {"b": true}}', {"b": 1}),
        ('{"a": null}', "x"),
    ],
)
def test_a_value_of_another_type_is_not_taken(tmp_path: Path, text: str, default: object) -> None:
    path = tmp_path / "screen.json"
    path.write_text(text)
    assert Remembered(path).get("a", default) == default  # type: ignore[type-var]


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Remembered(tmp_path / "file" / "screen.json")
    kept.set("a", 1)
    assert kept.get("a", 0) == 1
