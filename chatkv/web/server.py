"""The pages and the websocket."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aiohttp import WSMsgType, web

from chatkv.errors import ChatkvError
from chatkv.web import EXTRA
from chatkv.web.door import Door
from chatkv.web.guard import Guard
from chatkv.web.process import AppProcess
from chatkv.web.stage import ENDED, Stage

HEARTBEAT_S = 15.0
MAX_MESSAGE = 16 << 20
"""Bytes of one message; a paste is one."""
MAX_CELLS = 1000
"""Of width or height: more is no screen."""
GUARD: Final = web.AppKey("guard", Guard)
DOOR: Final = web.AppKey("door", Door)
STAGE: Final = web.AppKey("stage", Stage)

_PAGE = Path(__file__).parent / "page"
_OURS = {"chat.js": "chat.js", "chat.css": "chat.css"}
_THEIRS = {
    "textual.js": "js/textual.js",
    "xterm.css": "css/xterm.css",
    "mono.ttf": "fonts/RobotoMono-VariableFont_wght.ttf",
    "mono-italic.ttf": "fonts/RobotoMono-Italic-VariableFont_wght.ttf",
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        "img-src 'self' data:; connect-src 'self' ws://{host} wss://{host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "chatkv",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def files() -> dict[str, Path]:
    """What the page loads, by its name in ``/files/``: all of it from here.

    Raises ChatkvError where textual-serve is not there, or has its files elsewhere.
    """
    spec = find_spec("textual_serve")
    if spec is None or spec.origin is None:
        raise ChatkvError(f"textual-serve is not installed: python -m pip install '{EXTRA}'")
    static = Path(spec.origin).parent / "static"
    found = {name: _PAGE / path for name, path in _OURS.items()}
    found |= {name: static / path for name, path in _THEIRS.items()}
    if missing := [str(path) for path in found.values() if not path.is_file()]:
        raise ChatkvError(f"{missing[0]} is missing: python -m pip install --force-reinstall '{EXTRA}'")
    return found


def make_app(stage: Stage, host: str) -> web.Application:
    """What is served to a browser that comes to ``host``. Raises ChatkvError as ``files`` does."""
    guard, door = Guard(host), Door()
    app = web.Application(middlewares=[door.watch, guard.check])
    app[GUARD], app[STAGE], app[DOOR] = guard, stage, door
    app.on_response_prepare.append(_protect)
    known = files()

    async def index(request: web.Request) -> web.FileResponse:
        return web.FileResponse(_PAGE / "index.html")

    async def file(request: web.Request) -> web.FileResponse:
        path = known.get(request.match_info["name"])
        if path is None:
            raise web.HTTPNotFound
        return web.FileResponse(path)

    app.router.add_get("/", index)
    app.router.add_get("/files/{name}", file)
    app.router.add_get("/ws", _socket)
    return app


async def _protect(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        # 'self' includes the websocket only in newer browsers.
        response.headers[name] = value.replace("{host}", request.host)


async def _socket(request: web.Request) -> web.WebSocketResponse:
    viewer = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE, compress=False)
    await viewer.prepare(request)
    stage = request.app[STAGE]
    width, height = (_cells(request.query.get(name)) for name in ("width", "height"))
    try:
        await stage.enter(viewer, width or 80, height or 24)
        async for message in viewer:
            process = stage.process_of(viewer)
            if process is not None and message.type is WSMsgType.TEXT:
                await _hear(viewer, process, message.data)
    except OSError as error:
        await viewer.close(code=ENDED, message=str(error).encode()[:100])
    finally:
        stage.leave(viewer)
    return viewer


async def _hear(viewer: web.WebSocketResponse, process: AppProcess, text: str) -> None:
    """One message of the page; what is not one of textual.js' is passed over."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):  # nested thousands of times
        return
    match said:
        case ["stdin", str(typed)]:
            await process.send(typed)
        case ["resize", {"width": wide, "height": high}]:
            width, height = _cells(wide), _cells(high)
            if width and height:
                await process.tell("resize", width=width, height=height)
        case ["ping", str(when)]:
            await viewer.send_json(["pong", when[:40]])
        case ["focus" | "blur" as what]:
            await process.tell(what)


def _cells(value: object) -> int | None:
    """A number of cells that can be one; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 5:
        value = int(value)
    return value if type(value) is int and 0 < value <= MAX_CELLS else None
