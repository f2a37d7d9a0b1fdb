"""``@file``: completing a path, inserting a text file, refusing what is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chatkv.tui.chat.files import MAX_BYTES, FileRefusedError, read_text_file, wrapped
from chatkv.tui.chat.offers import Sources, offer
from tests.tui.helpers import Bench


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "here"
    (place / "src").mkdir(parents=True)
    (place / "notes.md").write_text("# Notes\n```py\nx = 1\n```\n")
    (place / "no\x1b[31mte.txt").write_text("odd")
    (place / ".hidden").write_text("h")
    (place / "src" / "main.py").write_text("print('hi')\n")
    monkeypatch.chdir(place)
    return place


def test_paths_are_offered_folders_first_and_hidden_ones_on_demand(folder: Path) -> None:
    def texts(before: str) -> list[str]:
        found = offer(before, False, Sources())
        return [choice.text for choice in found.choices] if found else []

    assert texts("see @") == ["@src/", "@no\x1b[31mte.txt", "@notes.md"]
    assert texts("@.") == ["@.hidden"]
    assert texts("@src/") == ["@src/main.py"]
    assert texts(f"@{folder}/src/m") == [f"@{folder}/src/main.py"]
    assert texts("mail me@") == []
    assert texts("@nothing") == []
    assert texts("@notes.md and") == []
    assert texts("@no\0") == []


async def test_a_file_is_inserted_and_sent_whole(tmp_path: Path, folder: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)):
        await bench.press(*"read @no")
        assert "▸ @no[31mte.txt" in bench.screen_text
        assert "\x1b" not in bench.screen_text
        await bench.press("down", "tab")
        assert bench.app.main.prompt.text.startswith("read [file notes.md, ")
        await bench.press(*"please", "enter")
        assert bench.texts()[0][1] == ("read notes.md:\n````md\n# Notes\n```py\nx = 1\n```\n```` please")


async def test_folders_are_gone_into_and_enter_takes_the_file(tmp_path: Path, folder: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press(*"@s", "tab", "enter")
        assert bench.app.main.prompt.text.startswith("[file main.py, ")
        await bench.press("enter")
        assert "print('hi')" in bench.texts()[0][1]


async def test_a_lone_at_and_a_name_that_is_no_file_are_text(tmp_path: Path, folder: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press(*"meet @", "enter")
        bench.engine.finish_all()
        await bench.settle()
        await bench.press(*"hi @john", "enter")
        assert [text for role, text in bench.texts() if role == "user"] == ["meet @", "hi @john"]


async def test_a_file_that_can_not_be_inserted_is_one_line(tmp_path: Path, folder: Path) -> None:
    (folder / "zero.bin").write_bytes(b"a\0b")
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press(*"look @zero", "tab")
        assert bench.app.main.prompt.text == "look @zero"
        assert any("zero.bin is binary" in line for line in bench.said)
        await bench.press("escape", *" x")
        assert bench.app.main.prompt.text == "look @zero x"


async def test_the_command_inserts_too(tmp_path: Path, folder: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press(*"/file src/ma", "tab")
        assert bench.app.main.prompt.text.startswith("[file main.py, ")
        bench.app.main.prompt.load("")
        await bench.type("/file 'src/main.py'")
        assert bench.app.main.prompt.text.startswith("[file main.py, ")


def test_what_is_refused(folder: Path) -> None:
    (folder / "big").write_bytes(b"x" * (MAX_BYTES + 1))
    (folder / "most").write_bytes(b"x" * MAX_BYTES)
    (folder / "latin").write_bytes(b"caf\xe9")
    os.mkfifo(folder / "pipe")
    for name, line in (
        ("big", "has 200,001 bytes; at most 200,000 are read"),
        ("latin", "not UTF-8"),
        ("pipe", "is not a file"),
        ("src", "is not a file"),
        ("none", "none is not there"),
        ("a\0b", "can't be read"),
        ("x" * 5000, "can't be read"),
    ):
        with pytest.raises(FileRefusedError, match=line) as caught:
            read_text_file(Path(name))
        assert "\n" not in str(caught.value)
    assert len(read_text_file(Path("most"))) == MAX_BYTES


def test_controls_in_a_file_do_not_reach_the_prompt(folder: Path) -> None:
    (folder / "esc").write_bytes(b"\xef\xbb\xbfa\x1b]52;c;eA==\x07b\r\nc")
    assert read_text_file(Path("esc")) == "a]52;c;eA==b\nc"
    assert wrapped(Path("e\x1bsc.p`y"), "x") == "esc.p`y:\n```py\nx\n```"
