"""Where figures can't be written, that is said before they are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.cli.outcome import invoke

TRACE = Path(__file__).parents[1] / "data" / "wl_gsp_roundrobin.jsonl"


@pytest.mark.parametrize(
    "command",
    [
        ["bench"],
        ["bench", "queue"],
        ["bench", "trace", str(TRACE)],
    ],
)
def test_a_place_that_does_not_exist(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (tmp_path / "none" / "out.json", tmp_path):
        option = [] if command[-1].startswith("--") else ["--json"]
        assert invoke([*command, *option, str(place)]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        (line,) = told.err.splitlines()
        assert line.startswith("chatkv: " + str(tmp_path))
