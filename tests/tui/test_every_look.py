"""Every theme and every pane at three sizes, as pictures that are compared: one app, many looks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion

from chatkv.tui import feed
from chatkv.tui.cache.legend import Legend
from chatkv.tui.layout import PANES
from tests.tui.test_looks import Scene
from tests.tui.test_themes import SHIPPED

SIZES = [(80, 24), (120, 36), (200, 50)]


@pytest.fixture(autouse=True)
def lasting_ghosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a scene takes longer than a ghost stays."""
    monkeypatch.setattr(feed, "GHOST_S", 1e6)
    monkeypatch.setattr(feed, "FAINT_S", 1e6)


class Album:
    """Pictures of one scene; those that are not as they were are named at the end."""

    def __init__(self, scene: Scene, snapshot: SnapshotAssertion) -> None:
        self.scene = scene
        self.changed: list[str] = []
        self._snapshot = snapshot.use_extension(SVGImageExtension)

    async def take(self, name: str) -> None:
        main = self.scene.app.main
        await self.scene.settle()
        main.query_one(Legend).show(350)
        main.cache.check()
        await self.scene.pilot.pause()
        width, height = self.scene.app.size
        name = f"{name}-{width}x{height}"
        if self.scene.app.export_screenshot() != self._snapshot(name=name):
            self.changed.append(name)


# chatkv-dark is seen at all sizes in test_looks.
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_themes(tmp_path: Path, snapshot: SnapshotAssertion, size: tuple[int, int]) -> None:
    scene = Scene(tmp_path, "chatkv-dark")
    album = Album(scene, snapshot)
    async with scene.app.run_test(size=size) as pilot:
        await scene.play(pilot)
        for theme in SHIPPED:
            if theme != "chatkv-dark":
                scene.app.theme = theme
                await pilot.pause()
                await album.take(theme)
    assert not album.changed


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_panes(tmp_path: Path, snapshot: SnapshotAssertion, size: tuple[int, int]) -> None:
    scene = Scene(tmp_path, "chatkv-dark")
    album = Album(scene, snapshot)
    async with scene.app.run_test(size=size) as pilot:
        await scene.play(pilot)
        await scene.ask("Is there more?")  # and something in the log
        main = scene.app.main
        main.go_to("tree")
        await scene.settle()
        await scene.press("j", "j", "j", "enter")  # there is something to inspect
        for pane in PANES:
            main.go_to(pane)
            await scene.settle()
            if not main.one_pane:
                await scene.press("z")
            assert main.at == pane
            await album.take(pane)
    assert not album.changed
