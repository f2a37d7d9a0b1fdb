"""How fast the engine is with the live screen beside it, and without: in turn, in one process.

The engine, its thread and its memory are the same in both; only the listener and the app differ.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from benchmarks.screen.frames import idle_share
from benchmarks.screen.order import BATCHES
from benchmarks.screen.shared_engine import QUESTION, Answers, SharedEngine
from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Sampling
from chatkv.errors import ChatkvError
from chatkv.tui.app import ChatkvApp
from chatkv.tui.garbage import Garbage

_ANSWER_S = 120.0
_POLL_S = 0.02
_SETTLE_S = 2.0
"""After the start of the app, which has things to prepare: they are not what answers cost."""

Made = tuple[int, Answers, float | None]
"""How many at once, how they went, and the share of a core that the screen's thread took."""


def measure_speed(
    config: EngineConfig,
    rounds: int,
    tokens: int,
    idle_s: float,
    folder: Path,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """``rounds`` times each, in turn, after one that does not count; answers of ``tokens`` tokens.

    By batch: lists of tok/s. ``share``: of a core, what the screen's own thread took meanwhile.
    ``idle``: of a core, what the process took when all was over.
    """
    shared = SharedEngine(config)
    progress("loading the model", 0, 0)
    shared.load()
    sampling = Sampling(max_tokens=tokens, ignore_stop=True)
    out: dict[str, Any] = {"batches": {str(size): {} for size in BATCHES}, "idle": []}

    def note(where: str, size: int, run: Answers, share: float | None = None) -> None:
        cell = out["batches"][str(size)].setdefault(where, {"decode": [], "whole": [], "share": []})
        cell["decode"].append(run.decode_tps)
        cell["whole"].append(run.whole_tps)
        if share is not None:
            cell["share"].append(share)

    try:
        for index in range(rounds + 1):
            progress("tok/s with and without the screen", index, rounds + 1)
            for where in ("headless", "screen")[:: 1 if index % 2 else -1]:
                runs: list[Made]
                if where == "headless":
                    runs = [(size, shared.headless(size, sampling), None) for size in BATCHES]
                else:
                    last = index == rounds
                    runs, idle = _on_the_screen(shared, sampling, folder / str(index), idle_s if last else 0)
                    out["idle"] += [idle] if last else []
                if index:  # the first round warms up
                    for size, run, share in runs:
                        note(where, size, run, share)
                _check_same(runs)
    finally:
        shared.close()
    assert shared.ready is not None, "it was loaded"
    return {**out, "model": shared.ready.model, "dtype": shared.ready.dtype}


def _check_same(runs: list[Made]) -> None:
    ends = {run.prompt_tokens[0] for _, run, _ in runs}
    if len(ends) > 1:
        raise ChatkvError(f"prompts that should be the same have {sorted(ends)} tokens")


def _on_the_screen(
    shared: SharedEngine, sampling: Sampling, folder: Path, idle_s: float
) -> tuple[list[Made], float]:
    runs: list[Made] = []
    idle = 0.0
    app = ChatkvApp(shared.port, SessionStore(folder), sampling=sampling, pictures=folder)
    app.garbage = Garbage()

    async def script(pilot: Pilot[Any]) -> None:
        nonlocal idle
        loop = asyncio.get_running_loop()
        while app.desk.ready is None:
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(_SETTLE_S)
        for size in BATCHES:
            shared.engine.clear_cache()
            over = asyncio.Event()
            # Not polled for: what the measurement computes would be taken for the screen's.
            run = Answers(size, ended=partial(loop.call_soon_threadsafe, over.set))
            shared.run = run
            cpu, wall = time.thread_time(), time.perf_counter()
            for number in range(size):
                app.desk.ask(app.book.new(), QUESTION.format(number))
            await app.main.show_session(app.book.current)
            try:
                await asyncio.wait_for(over.wait(), _ANSWER_S)
            except TimeoutError:
                raise ChatkvError("the engine did not answer in time") from None
            runs.append((size, run, (time.thread_time() - cpu) / (time.perf_counter() - wall)))
            while app.book.running:
                await asyncio.sleep(_POLL_S)
            await asyncio.sleep(0.2)
        if idle_s:
            await asyncio.sleep(1.0)
            idle = await idle_share(idle_s)
        app.exit()

    app.run(auto_pilot=script)
    app.desk.close(1.0)
    return runs, idle
