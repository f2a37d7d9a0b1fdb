"""What drawing costs: frames, panes alone, a tree that is shown for the first time, steps, an idle screen.

Runs inside the app, in its event loop. Everything is in seconds; shares are of one core.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from textual.geometry import Region
from textual.widget import Widget

from benchmarks.screen.made_up import MadeUpCache
from benchmarks.screen.made_up_engine import MadeUpEngine
from chatkv.chat.tree import Message, new_id
from chatkv.tui.app import ChatkvApp

PANES = ("chat", "tree", "blocks", "table", "node", "metrics", "queue", "events", "prompt")
_LAID_OUT_S = 10.0
"""How long the first layout may take on a busy machine."""
_STEPS_A_DRAWING = 10
"""Steps of a quick engine between two drawings of the cache panes."""

_ANSWER = """Let us see what **a cache** does with it:

1. it looks for the longest prefix that it knows,
2. it computes the rest, and *keeps* it.

```python
def answer(question: str) -> str:
    return cache.get(question) or compute(question)
```
"""


async def measure_frames(
    app: ChatkvApp, engine: MadeUpEngine, cache: MadeUpCache, rounds: int, idle_s: float
) -> dict[str, Any]:
    """See the module. ``rounds``: how often each; ``engine`` has told nothing yet."""
    main, feed = app.main, app.desk.feed
    until = time.perf_counter() + _LAID_OUT_S
    while not app.main.query_one("#tree").size.area and time.perf_counter() < until:
        await asyncio.sleep(0.02)
    _converse(app)
    await main.show_session(app.book.current)
    tree = engine.take_tree()
    spent = _Watch()
    app.desk.hear(tree)
    fold_s = spent.lap()
    main.draw_cache()
    show_s = spent.lap()
    _frame(app)
    first = {"fold_s": fold_s, "show_s": show_s, "frame_s": spent.lap()}
    await asyncio.sleep(0.3)

    frames, whole = [], []
    for _ in range(rounds):
        frames.append(_timed(lambda: _frame(app)))
        await asyncio.sleep(0.005)  # the writing thread's turn
    for _ in range(max(3, rounds // 10)):
        whole.append(_timed(lambda: _layout_and_frame(app)))
        await asyncio.sleep(0.005)
    panes = {}
    for name in PANES:
        pane = main.query_one(f"#{name}")
        if pane.size.area:
            panes[name] = [_timed(lambda pane=pane: _draw(pane)) for _ in range(rounds)]  # type: ignore[misc]
    growing = [cache.open(f"s{n}", 100) for n in range(1, 5)]
    app.desk.hear(engine.take_tree())
    main.draw_cache()
    folds, shows = [], []
    for _ in range(rounds):
        for _ in range(_STEPS_A_DRAWING):
            cache.step(growing)
            batch = engine.take_tree()
            folds.append(_timed(lambda batch=batch: app.desk.hear(batch)))  # type: ignore[misc]
        shows.append(_timed(main.draw_cache))
        await asyncio.sleep(0)
    for one in growing:
        cache.close(one)
    app.desk.hear(engine.take_tree())
    freezes = []
    for _ in range(2):
        for frozen in (True, False):
            freezes.append(_timed(lambda frozen=frozen: _freeze(app, frozen)))  # type: ignore[misc]
            await asyncio.sleep(0.01)
    await asyncio.sleep(1.0)
    return {
        "nodes": len(feed.mirror.nodes) - 1,
        "first": first,
        "frame": frames,
        "layout and frame": whole,
        "panes": panes,
        "fold a step": folds,
        "show": shows,
        "pause": freezes,
        "idle": await idle_share(idle_s),
    }


async def idle_share(seconds: float) -> float:
    """The share of a core that this process takes while nothing happens."""
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


class _Watch:
    def __init__(self) -> None:
        self._at = time.perf_counter()

    def lap(self) -> float:
        before, self._at = self._at, time.perf_counter()
        return self._at - before


def _timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _freeze(app: ChatkvApp, frozen: bool) -> None:
    app.desk.feed.freeze(frozen)
    app.main.draw_cache()


def _converse(app: ChatkvApp) -> None:
    """A conversation as long as the screen, with what Markdown has."""
    session = app.book.current
    for number in range(4):
        question = app.book.ask(session, f"And what about the number {number}?")
        answer = Message(new_id(), question.id, "assistant", _ANSWER, None, {})
        session.conversation.add(answer)


def _frame(app: ChatkvApp) -> None:
    """Every widget anew, put together, and handed to the terminal."""
    screen = app.screen
    for widget in screen.walk_children():
        widget.refresh()
    app._display(screen, screen._compositor.render_update(full=True))


def _layout_and_frame(app: ChatkvApp) -> None:
    """The same after every widget was given its place anew, as when the terminal changes its size."""
    app.screen._refresh_layout(app.size)
    _frame(app)


def _draw(pane: Widget) -> None:
    for widget in (pane, *pane.walk_children(Widget)):
        widget.refresh()
        widget.render_lines(Region(0, 0, *widget.outer_size))
