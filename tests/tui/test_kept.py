"""Nothing can be kept, or not for now: that is told, the chat goes on, nothing is lost without a word."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from chatkv.chat import disk
from chatkv.chat.store import SessionStore
from chatkv.tui.app import _rescue
from tests.tui.helpers import Bench


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_chat_of_which_nothing_is_kept(tmp_path: Path, size: tuple[int, int]) -> None:
    store = SessionStore(tmp_path / "sessions")
    kept = Bench(tmp_path)
    async with kept.run():
        await kept.ask("kept")
    before = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    bench = Bench(tmp_path, store=SessionStore(store.folder, "the disk is [/read] only"))
    async with bench.run(size=size):
        assert bench.said[0].startswith("nothing of this chat is kept: the disk is [/read] only")
        assert "! nothing kept" in bench.screen_text.splitlines()[0]
        assert bench.texts()[0] == ("user", "kept")
        await bench.ask("more")
        await bench.press("ctrl+o", "enter")
        assert bench.session.name.endswith("⑂1")
        await bench.press("ctrl+n")
        await bench.ask("new")
        await bench.type("/rename other")
        await bench.type(f"/export md {tmp_path}/elsewhere.md")
        assert (tmp_path / "elsewhere.md").read_text("utf-8").count("new") >= 1
        await bench.type("/delete")
        await bench.press("enter")
        await bench.type("/undo")
        assert bench.session.name == "other"
        await bench.press(*"half", "ctrl+q")
    assert bench.app.return_code == 0
    assert {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()} == before


async def test_a_disk_that_is_full_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with bench.run():
        await bench.ask("saved")
        for name in ("add", "write_new"):
            monkeypatch.setattr(disk, name, full)
        told = len(bench.said)
        await bench.ask("one")
        await bench.press("ctrl+n")
        await bench.ask("two")
        assert len(bench.said) == told + 1  # once, not for each line
        assert "no space left on device; make room or choose another folder" in bench.said[-1]
        assert "! not saved" in bench.screen_text.splitlines()[0]
        await bench.press("ctrl+o", "enter")  # a fork is a new file
        assert "no space left on device" in bench.said[-1]
        await bench.type(f"/export md {tmp_path}/elsewhere.md")
        assert "two" in (tmp_path / "elsewhere.md").read_text("utf-8")
        await bench.press("escape", "y")
        assert "two" in bench.app.clipboard
        monkeypatch.undo()
        for _ in range(5):
            bench.app.look_around()
        await bench.settle()
        assert "saved now" in bench.said[-1]
        assert "not saved" not in bench.screen_text
        assert sorted(len(texts) for texts in bench.on_disk()) == [2, 4]


async def test_what_could_not_be_saved_at_the_end_is_put_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    (tmp_path / "sessions").write_text("a file")
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("all of it")
        bench.app.main.prompt.load("and this")
        await bench.press("ctrl+q")
    assert not _rescue(bench.app.book, tmp_path / "sessions"), "the exit code says it, too"
    (place,) = spare.iterdir()
    assert f"1 session could not be saved in {tmp_path}/sessions" in capsys.readouterr().err
    (conversation,), problems = SessionStore(place).load_all()
    assert problems == []
    assert [m.text for m in conversation.path()] == ["all of it", "You said: all of it"]
    assert conversation.draft == "and this"
    # Nor elsewhere: the line says that it is lost.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert not _rescue(bench.app.book, tmp_path / "sessions")
    assert "1 session could not be saved, not even elsewhere: no such file" in capsys.readouterr().err
    (tmp_path / "sessions").unlink()
    assert _rescue(bench.app.book, tmp_path / "sessions")
    assert bench.on_disk() == [[("user", "all of it"), ("assistant", "You said: all of it")]]
