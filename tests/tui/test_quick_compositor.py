"""The screen's own compositor draws what Textual's does, whole or in parts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rich.segment import Segment
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from chatkv.tui.quick_compositor import QuickCompositor
from tests.tui.helpers import Bench

Cells = list[list[Segment]]

ANSWER = """Some **bold** words

1. one
2. two

> quoted

```python
x = 1
```

| a | b |
|---|---|
| 1 | 2 |
"""


def cells(strips: list[Strip]) -> Cells:
    """A segment for each character, so that how a line is cut makes no difference."""
    return [[Segment(char, s.style) for s in strip for char in s.text] for strip in strips]


def drawn(compositor: Compositor, plainly: bool, monkeypatch: pytest.MonkeyPatch) -> Cells:
    with monkeypatch.context() as patch:
        if plainly:
            patch.setattr(QuickCompositor, "_get_renders", Compositor._get_renders)
        return cells(compositor.render_strips())


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_a_whole_frame_is_the_same(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run(size=size):
        compositor = bench.app.main._compositor
        assert isinstance(compositor, QuickCompositor)
        for keys in ([], ["escape"], ["f6"], ["z"], ["z"], ["f6"]):
            await bench.press(*keys)
            assert drawn(compositor, False, monkeypatch) == drawn(compositor, True, monkeypatch)
        await bench.ask("what is it?")
        await bench.ask("and a second one", steps=3)
        assert drawn(compositor, False, monkeypatch) == drawn(compositor, True, monkeypatch)


async def test_what_is_updated_in_part_is_what_the_whole_frame_has_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run(size=(120, 36)):
        await bench.ask("what is it?")
        await bench.ask("and a second one", steps=5)
        screen = bench.app.main
        compositor = screen._compositor
        widgets = [w for w in screen.walk_children(Widget) if w in compositor.visible_widgets]
        whole = drawn(compositor, True, monkeypatch)
        for _ in range(60):
            chosen = rng.sample(widgets, rng.randint(1, 4))
            for widget in chosen:
                width, height = widget.outer_size
                part = Region(rng.randrange(width), rng.randrange(height), 1, 1)
                widget.refresh(*([part] if rng.random() < 0.3 else []))
            compositor.update_widgets(set(chosen))
            update = compositor.render_partial_update()
            if update is None:
                continue
            assert isinstance(update, ChopsUpdate)
            for y, x1, x2 in update.spans:
                seen = set()
                for x, strip in update.chops[y].items():
                    if strip is not None:
                        (line,) = cells([strip])
                        for at, cell in enumerate(line, x):
                            seen.add(at)
                            if x1 <= at < x2:
                                assert cell == whole[y][at]
                assert seen >= set(range(x1, x2))
