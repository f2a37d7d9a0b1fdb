"""What is wrong with a measurement's options is one line, and said before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import run as measure


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("core --cache none", "--cache must be one of radix, hash, got 'none'"),
        ("gpu --shape 9b", "--shape must be one of tiny, 7b, 8b"),
        ("nothing", "No such command 'nothing'; see python -m benchmarks --help"),
    ],
)
def test_wrong_use_is_one_line(line: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure(line.split()) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["engines", "--svg"], ["core"], ["engines"], ["gpu", "--device", "cpu"], ["screen"]]
)
def test_a_place_that_does_not_exist(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (tmp_path / "none" / "out.json", tmp_path):
        option = [] if command[-1].startswith("--") else ["--json"]
        assert measure([*command, *option, str(place)]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        (line,) = told.err.splitlines()
        assert line.startswith("chatkv: " + str(tmp_path))
