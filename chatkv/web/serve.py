"""``chatkv run --web``: from the address to the end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from chatkv.errors import ChatkvError
from chatkv.web import EXTRA
from chatkv.web.stage import Stage

SHUTDOWN_S = 1.0
"""How long requests that are still being answered may take when all ends."""


def serve(command: Sequence[str], host: str, port: int) -> int:
    """Show the app that ``command`` runs to browsers that know the address, until ctrl+c.

    Port 0 is a free one. Returns 0. Raises ChatkvError where textual-serve is missing or nothing can be
    served at ``host`` and ``port``.
    """
    if find_spec("aiohttp") is None or find_spec("textual_serve") is None:
        raise ChatkvError(f"--web needs textual-serve: {sys.executable} -m pip install '{EXTRA}'")
    asyncio.run(_serve(command, host, port))
    return 0


async def _serve(command: Sequence[str], host: str, port: int) -> None:
    from aiohttp import web

    from chatkv.web.door import quietly
    from chatkv.web.guard import is_loopback
    from chatkv.web.server import DOOR, GUARD, make_app

    stage = Stage(command)
    app = make_app(stage, host)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        listener = listen(host, port)
        assert runner.server is not None
        asyncio.get_running_loop().set_exception_handler(quietly)
        app[DOOR].open(listener, runner.server)
        if not is_loopback(listener.getsockname()[0]):
            warn = "others can reach this machine there: who has the address can read and write your sessions"
            print(f"chatkv: {warn}, and nothing is encrypted on the way", file=sys.stderr)
        address = f"http://{_spoken(host)}:{listener.getsockname()[1]}/?token={app[GUARD].token}"
        print(f"chatkv is at {address} · ctrl+c ends it", flush=True)
        await _until_told(stage)
    finally:
        app[DOOR].close()
        await stage.end()
        await runner.cleanup()


async def _until_told(stage: Stage) -> None:
    """Until ctrl+c, a closed terminal or ``kill``; a second ctrl+c does not wait for the app to quit."""
    told = asyncio.Event()

    def end() -> None:
        if told.is_set():
            stage.kill()
        elif sys.stdout.isatty():
            print()  # behind the terminal's ^C
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, end)
    await told.wait()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises ChatkvError where there can't be one."""
    try:
        # One address: for "localhost" a free port would be another one on each.
        kind, address = min(
            (family, address)
            for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        listener = socket.create_server(address[:2], family=kind)
    except (OSError, UnicodeError) as error:  # a host's name has rules of its own
        why = getattr(error, "strerror", None) or error
        raise ChatkvError(f"can't listen at {host}, port {port}: {why}") from error
    listener.setblocking(False)
    return listener


def _spoken(host: str) -> str:
    """As it is written in an address that a browser opens."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
