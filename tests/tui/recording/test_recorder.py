"""``--record-screen``: what a person does on the screen is in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.errors import UsageError
from chatkv.tui.recording.recorder import Recorder, check_target
from tests.tui.helpers import Bench
from tests.tui.recording.player import Player


def recorded(tmp_path: Path, target: Path) -> tuple[Bench, Recorder, list[float]]:
    bench = Bench(tmp_path)
    now = [0.0]
    recorder = Recorder(bench.app, target, tmp_path / "spare", clock=lambda: now[0])
    bench.app.recorder = recorder
    return bench, recorder, now


async def test_a_session_is_recorded(tmp_path: Path) -> None:
    bench, recorder, now = recorded(tmp_path, tmp_path / "film.svg")
    async with bench.run(size=(100, 30)):

        async def take() -> None:
            await bench.settle()
            now[0] += 1
            recorder.look()

        await take()
        await bench.ask("what is <b>&amp;</b> ]]> \x1b[31m?")
        await take()
        await bench.press("f1")
        await take()
        now[0] += 1
        recorder.look()  # nothing has been drawn
        help_shown = bench.screen_text
        await bench.press("escape")
        await take()
        end = bench.screen_text
    said = recorder.save()
    assert said.startswith(f"recorded the screen: {tmp_path / 'film.svg'} (")
    player = Player((tmp_path / "film.svg").read_text("utf-8"))
    assert "what is" not in "\n".join(player.at(0))
    assert [line.rstrip() for line in player.at()] == [line.rstrip() for line in end.rstrip().splitlines()]
    films = ["\n".join(player.at(t / 10)) for t in range(round(player.seconds * 10))]
    assert any("what is <b>&amp;</b> ]]> [31m?" in film for film in films)
    assert any(film == "\n".join(line.rstrip() for line in help_shown.splitlines()) for film in films)
    assert check_target(tmp_path / "film.svg") == tmp_path / "film.svg"  # may be written over


async def test_it_looks_by_itself_and_a_still_screen_has_no_frames(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.app.recorder = recorder = Recorder(bench.app, tmp_path / "film.svg", tmp_path)
    async with bench.run(toasts=True) as pilot:
        assert bench.said == [f"recording the screen; quitting writes {tmp_path / 'film.svg'}"]
        assert not bench.app.main.prompt.cursor_blink
        bench.app.clear_notifications()
        while recorder._film is None or not recorder._film.frames:
            await pilot.pause(0.05)
        bench.hold_timers()
        await bench.settle()
        recorder.look(last=True)
        frames = len(recorder._film.frames)
        for _ in range(20):
            await pilot.pause()
            recorder.look(last=True)
        assert len(recorder._film.frames) == frames


async def test_off_it_costs_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        assert "post_display_hook" not in vars(bench.app)


async def test_a_place_that_is_gone_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    bench, recorder, _ = recorded(tmp_path, tmp_path / "there" / "film.svg")
    assert recorder.save() == "nothing was recorded"
    async with bench.run():
        recorder.look()
    (tmp_path / "there").rmdir()
    assert recorder.save().endswith(f"; it is in {tmp_path / 'spare' / 'film.svg'}")
    assert Player((tmp_path / "spare" / "film.svg").read_text("utf-8")).at()
    (tmp_path / "spare" / "film.svg").unlink()
    (tmp_path / "spare").rmdir()
    (tmp_path / "spare").write_text("a file")
    assert "can't be written" in recorder.save()


def test_the_place_is_checked(tmp_path: Path) -> None:
    (tmp_path / "photo.svg").write_text("<svg/>")
    (tmp_path / "empty.svg").touch()
    (tmp_path / "folder.svg").mkdir()
    for name, told in (
        ("film.gif", "must end in .svg"),
        ("no/film.svg", "there is no folder"),
        ("photo.svg", "is no recording of chatkv"),
        ("folder.svg", "is a folder"),
    ):
        with pytest.raises(UsageError, match=told):
            check_target(tmp_path / name)
    assert (tmp_path / "photo.svg").read_text() == "<svg/>"
    assert check_target(tmp_path / "new.svg") == tmp_path / "new.svg"
    assert check_target(tmp_path / "empty.svg")


async def test_the_screen_is_saved(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello there")
        seen = [line.rstrip() for line in bench.screen_text.rstrip().splitlines()]
        bench.app.action_save_screen()
        await bench.settle()
        (path,) = (tmp_path / "snapshots").glob("*-screen.svg")
        assert bench.said[-1] == f"saved {path}"
        assert [line.rstrip() for line in Player(path.read_text("utf-8")).at()] == seen
        bench.app.pictures = path  # a file is no folder
        bench.app.action_save_screen()
        await bench.settle()
        assert bench.said[-1].startswith("can't save the screen")
        await bench.press("ctrl+p", *"save the screen")
        await bench.pilot.pause(0.3)
        assert "Save the screen as SVG" in bench.screen_text
