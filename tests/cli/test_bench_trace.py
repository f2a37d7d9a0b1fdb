"""``chatkv bench trace``: files that are no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.cli.outcome import invoke


@pytest.mark.parametrize("text", ["", '{"x": 1}\n[1]\n'])
def test_a_file_without_a_request_is_told_of(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    assert invoke(["bench", "trace", str(path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1].startswith(f"chatkv: {path}: no line of this file is a request")
