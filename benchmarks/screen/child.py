"""The measured side: ``python -m benchmarks.screen.child ORDER FD`` runs in a terminal of its own.

``ORDER`` is a JSON object whose ``measure`` names what to do. JSON lines go to the file descriptor
``FD``: ``{"progress": […]}``, ``{"streaming": true}``, then ``{"result": …}`` or ``{"error": line}``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from benchmarks.screen.frames import measure_frames
from benchmarks.screen.made_up import MadeUpCache
from benchmarks.screen.made_up_engine import MadeUpEngine
from benchmarks.screen.streaming import stream
from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.errors import ChatkvError
from chatkv.temporaries import temporary_folder
from chatkv.text import one_line
from chatkv.tui.app import ChatkvApp
from chatkv.tui.garbage import Garbage


class _Teller:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, **message: object) -> None:
        os.write(self._fd, (json.dumps(message) + "\n").encode())

    def progress(self, stage: str, done: int, total: int) -> None:
        self(progress=[stage, done, total])


def frames(order: dict[str, Any], folder: Path, tell: _Teller) -> dict[str, Any]:
    """See ``measure_frames``; for ``order["nodes"]`` nodes."""
    tell.progress("making a tree", 0, 0)
    cache = MadeUpCache(order["nodes"])
    engines: list[MadeUpEngine] = []
    out: dict[str, Any] = {}

    def make(listener: Any) -> MadeUpEngine:
        engines.append(MadeUpEngine(listener, cache))
        return engines[0]

    app = ChatkvApp(make, SessionStore(folder), pictures=folder)
    app.garbage = Garbage()

    async def script(pilot: Pilot[Any]) -> None:
        await pilot.pause(0.3)
        while app.desk.ready is None:
            await pilot.pause(0.02)
        tell.progress("drawing", 0, 0)
        out.update(await measure_frames(app, engines[0], cache, order["rounds"], order["idle_s"]))
        app.exit()

    app.run(auto_pilot=script)
    app.desk.close(1.0)
    return out


def made_up_stream(order: dict[str, Any], folder: Path, tell: _Teller) -> dict[str, Any]:
    """Four made-up answers beside a tree of ``order["nodes"]`` nodes, until the terminal says ctrl+q."""
    tell.progress("making a tree", 0, 0)
    cache = MadeUpCache(order["nodes"])
    engines: list[MadeUpEngine] = []

    def make(listener: Any) -> MadeUpEngine:
        engines.append(MadeUpEngine(listener, cache))
        return engines[0]

    def show_tree(app: ChatkvApp) -> None:
        app.desk.hear(engines[0].take_tree())

    return {"share": stream(make, show_tree, 100_000, folder, lambda: tell(streaming=True))}


def model_stream(order: dict[str, Any], folder: Path, tell: _Teller) -> dict[str, Any]:
    """Four answers of the model, until the terminal says ctrl+q."""
    from chatkv.engine.thread import Engine

    config = EngineConfig(**order["config"])
    tell.progress("loading the model", 0, 0)

    def make(listener: Any) -> Engine:
        return Engine(config, listener)

    return {"share": stream(make, lambda app: None, 400, folder, lambda: tell(streaming=True))}


def speed(order: dict[str, Any], folder: Path, tell: _Teller) -> dict[str, Any]:
    """See ``measure_speed``."""
    from benchmarks.screen.speed import measure_speed

    config = EngineConfig(**order["config"])
    return measure_speed(config, order["rounds"], order["tokens"], order["idle_s"], folder, tell.progress)


MEASURES = {
    "frames": frames,
    "made-up stream": made_up_stream,
    "model stream": model_stream,
    "speed": speed,
}


def main() -> None:
    """Whatever ends the run is told in one line."""
    order, tell = json.loads(sys.argv[1]), _Teller(int(sys.argv[2]))
    try:
        with temporary_folder() as folder:
            result = MEASURES[order["measure"]](order, folder, tell)
    except ChatkvError as error:
        tell(error=str(error))
    except Exception as error:
        tell(error=one_line(f"{type(error).__name__}: {error}", 300))
    else:
        tell(result=result)
    sys.stdout.flush()
    # Nothing may wait for a thread that is inside torch.
    os._exit(0)


if __name__ == "__main__":
    main()
