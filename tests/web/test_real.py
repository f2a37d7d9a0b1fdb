"""The whole of it: the real command, the real screen, the real model; only the browser is none."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from chatkv.web import serve

ROOT = str(Path(serve.__file__).parents[2])


async def until(tab: aiohttp.ClientWebSocketResponse, text: str) -> None:
    """Read what is drawn until ``text`` is in it."""
    drawn = ""
    async with asyncio.timeout(120):
        while text not in drawn:
            message = await tab.receive()
            assert message.type is aiohttp.WSMsgType.BINARY, message
            drawn += re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", message.data.decode())


@pytest.mark.model
async def test_an_answer_goes_on_without_a_tab_and_what_came_of_it_is_kept(
    tmp_path: Path, smollm2_folder: Path
) -> None:
    options = ["--web", "--model", str(smollm2_folder), "--num-blocks", "128", "--max-tokens", "1500"]
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from chatkv.cli import main; main()", "run", *options),
        *("--sessions", str(tmp_path / "it's; $(here)")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": ROOT, "CHATKV_DATA": str(tmp_path), "CHATKV_CONFIG": str(tmp_path)},
    )
    assert server.stdout is not None
    try:
        found = re.search(rb"(http://[^/]+)/\?token=\S+", await server.stdout.readline())
        assert found
        origin = found[1].decode()
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            assert (await session.get(found[0].decode())).status == 200
            place = {"url": f"{origin}/ws?width=120&height=36", "headers": {"Origin": origin}}
            tab = await session.ws_connect(**place)
            await until(tab, "Ask something")
            await tab.send_json(["stdin", "Write all even numbers.\r"])
            await until(tab, "tok/s · esc stops")
            await tab.close()
            tab = await session.ws_connect(**place)
            await until(tab, "tok/s · esc stops")
            await asyncio.sleep(0.5)
        server.send_signal(signal.SIGINT)
        output, errors = await asyncio.wait_for(server.communicate(), 20)
        assert (server.returncode, output) == (0, b"")
        assert b"Traceback" not in errors
    finally:
        if server.returncode is None:
            server.kill()
    kept = "".join(path.read_text() for path in (tmp_path / "it's; $(here)").glob("*.jsonl"))
    assert '"Write all even numbers."' in kept
    assert '"reason":"quit"' in kept
