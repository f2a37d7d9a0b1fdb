"""``chatkv export`` turns a snapshot file into what people look at."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chatkv.cli.outcome import invoke
from chatkv.insight.mirror import Mirror
from chatkv.insight.snapshot import Snapshot
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.radix_cache import RadixCache


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    mirror = Mirror()
    cache = RadixCache(8, 4, log=EventLog(mirror.apply))
    cache.open(1, [1, 2, 3, 4, 5, 6], session="s1")
    assert cache.grow(1, 6)
    cache.commit(1, [1, 2, 3, 4, 5, 6])
    cache.close(1, "finished")
    path = tmp_path / "cache.json"
    Snapshot.from_mirror(mirror, model="tiny", sessions={"s1": "[red]mine"}).save(path)
    return path


def test_text_is_the_default(taken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["export", str(taken)]) == 0
    out, err = capsys.readouterr()
    assert "tiny" in out
    assert err == ""


@pytest.mark.parametrize(("name", "format"), [("a.svg", None), ("A.SVG", None), ("picture", "svg")])
def test_svg_by_name_or_by_option(taken: Path, name: str, format: str | None) -> None:
    output = taken.parent / name
    options = [] if format is None else ["--format", format]
    assert invoke(["export", str(taken), "-o", str(output), *options]) == 0
    assert ElementTree.parse(output).getroot().tag.endswith("svg")


def test_json_comes_back_the_same(taken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["export", str(taken), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(taken.read_text())


@pytest.mark.parametrize(
    ("change", "options", "code"),
    [
        (lambda p: p.unlink(), [], 1),
        (lambda p: p.write_text(p.read_text()[:50]), [], 1),
        (lambda p: p.write_bytes(b"\xff"), [], 1),
        (lambda p: p.write_text("{}"), [], 1),
        (lambda p: None, ["--format", "png"], 2),
        (lambda p: None, ["-o", "/no/such/folder/x.svg"], 1),
    ],
)
def test_what_can_not_be_is_one_line(
    taken: Path, change: object, options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(change)
    change(taken)
    assert invoke(["export", str(taken), *options]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("chatkv: ")
    assert err.count("\n") == 1


def test_any_other_file_is_said_to_be_no_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("root:x:0:0:root:/root:/bin/bash\n")
    assert invoke(["export", str(tmp_path / "x")]) == 1
    assert "is not a snapshot" in capsys.readouterr().err
