"""From the printed line to ctrl+c."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from chatkv.errors import ChatkvError
from chatkv.web import guard, serve
from tests.web.served import FAKE

PROGRAM = f"""
import sys
from chatkv.web.serve import serve
sys.exit(serve([sys.executable, "-S", "-E", {FAKE!r}], "127.0.0.1", 0))
"""


def start(**more: object) -> tuple[subprocess.Popen[str], str, str]:
    """A server in a process of its own; its origin and its address."""
    root = str(Path(serve.__file__).parents[2])
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": root},
        **more,  # type: ignore[call-overload]
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    found = re.fullmatch(
        r"chatkv is at ((http://127\.0\.0\.1:\d+)/\?token=[\w-]{43}) · ctrl\+c ends it\n", line
    )
    assert found, line
    return server, found[2], found[1]


async def open_app(origin: str, address: str) -> int:
    """Open the page and the websocket, as a browser does; the app's process."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await session.get(address)
        tab = await session.ws_connect(f"{origin}/ws", headers={"Origin": origin})
        found = re.search(rb'"pid": (\d+)', (await tab.receive_bytes(timeout=180)))
        assert found
        return int(found[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_ctrl_c_ends_it_and_the_app_without_a_word(number: signal.Signals) -> None:
    server, origin, address = start()
    pid = await open_app(origin, address)
    server.send_signal(number)
    output, errors = await asyncio.to_thread(server.communicate, timeout=180)
    assert (server.returncode, output, errors) == (0, "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_the_app_ends_when_the_server_is_killed() -> None:
    server, origin, address = start()
    pid = await open_app(origin, address)
    server.kill()
    await asyncio.to_thread(server.communicate, timeout=180)
    for _ in range(1800):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the app goes on without anybody who could reach it")


def test_with_nohup_a_closed_terminal_ends_nothing() -> None:
    server, _, _ = start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    server.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert server.poll() is None
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=180) == 0


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ChatkvError, match=f"can't listen at 127.0.0.1, port {port}: "):
            serve.serve(["true"], "127.0.0.1", port)


@pytest.mark.parametrize("host", ["not a host", "256.1.1.1", "x" * 300, "192.0.2.1"])
def test_a_host_that_is_none_of_ours_is_one_line(host: str) -> None:
    with pytest.raises(ChatkvError, match="can't listen at") as told:
        serve.serve(["true"], host, 0)
    assert "\n" not in str(told.value)


def test_localhost_and_ipv6_have_an_address_that_can_be_opened() -> None:
    with serve.listen("localhost", 0) as listener:
        assert guard.is_loopback(listener.getsockname()[0])
    assert serve._spoken("::1") == "[::1]"
    assert serve._spoken("0.0.0.0") == socket.gethostname()


def test_where_others_can_come_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def at_once(stage: object) -> None:
        return None

    monkeypatch.setattr(serve, "_until_told", at_once)
    assert serve.serve(["true"], "127.0.0.1", 0) == 0
    assert capsys.readouterr().err == ""
    # Nothing is opened to the outside here; it is only believed.
    monkeypatch.setattr(guard, "is_loopback", lambda host: False)
    assert serve.serve(["true"], "127.0.0.1", 0) == 0
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "others can reach" in told.err
    assert "nothing is encrypted" in told.err
    assert told.out.count("\n") == 1


def test_without_textual_serve_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    with pytest.raises(ChatkvError, match=r"--web needs textual-serve: .* -m pip install 'textual-serve>="):
        serve.serve(["true"], "127.0.0.1", 0)
