"""One app, one viewer at a time, whatever the tabs do."""

import asyncio
import os
import time
from contextlib import suppress

import pytest
from yarl import URL

from chatkv.web import process, stage
from tests.web.served import Tab, serving

ODD = ["--stop", "a b", "'", '"', "$(touch x)", "`id`", "; exit", "", "\n", "ü", "*", "--model=~/x y"]


def alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_the_app_gets_its_arguments_exactly_and_the_size_of_the_tab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    async with serving(*ODD) as served:
        await served.log_in()
        said = await (await served.open("?width=133&height=36")).hear()
        assert said["arguments"] == ODD
        assert said["size"] == ["133", "36"]
        assert said["term"] == "xterm-256color"


@pytest.mark.parametrize("size", ["", "?width=x&height=-1", "?width=99999&height=0", "?width=٣&height=1e3"])
async def test_a_size_that_can_not_be_is_the_usual_one(size: str) -> None:
    async with serving() as served:
        await served.log_in()
        assert (await (await served.open(size)).hear())["size"] == ["80", "24"]


async def test_who_comes_takes_the_screen_over_and_there_is_one_app() -> None:
    async with serving() as served:
        await served.log_in()
        one = await served.open()
        pid = (await one.hear())["pid"]
        other = await served.open("?width=50&height=20")
        # Nothing that was drawn for the first tab reaches the second.
        assert await other.hear() == {"pid": pid, "type": "attach", "width": 50, "height": 20}
        assert await one.hear() == f"closed {stage.TAKEN_OVER}"
        await other.type("hello")
        assert await other.hear() == {"typed": "hello"}


async def test_what_a_tab_types_that_has_not_the_screen_any_more_goes_nowhere() -> None:
    async with serving() as served:
        await served.log_in()
        one = await served.open()
        await one.hear()
        other = await served.open()
        await other.hear()
        with suppress(ConnectionError):
            await one.type("late")
        await other.type("mine")
        assert await other.hear() == {"typed": "mine"}


async def test_a_reload_comes_back_to_the_same_app() -> None:
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        pid = (await tab.hear())["pid"]
        for _ in range(3):
            await tab.type("while nobody looks")
            await tab.socket.close()
            tab = await served.open()
            assert (await tab.hear())["pid"] == pid


async def test_tabs_that_come_at_once_start_one_app() -> None:
    async with serving() as served:
        await served.log_in()
        tabs = await asyncio.gather(*(served.open() for _ in range(5)))
        heard = await asyncio.gather(*(last(tab) for tab in tabs))
        assert sorted(map(str, heard))[:4] == [f"closed {stage.TAKEN_OVER}"] * 4
        assert served.stage._process is not None


async def last(tab: Tab) -> object:
    """What this tab hears last: its end, or the app's word that it draws for it."""
    while isinstance(said := await tab.hear(), dict):
        if said.get("type") == "attach":
            return "{attached}"
        await asyncio.sleep(0)
        if tab.socket.closed:
            break
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                said = await tab.hear()
        return said if isinstance(said, str) else "{drawn}"
    return said


async def test_when_the_app_ends_it_is_said_and_the_next_tab_starts_another() -> None:
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        pid = (await tab.hear())["pid"]
        await tab.type("exit 0")
        assert await tab.hear() == f"closed {stage.ENDED}"
        tab = await served.open()
        assert (await tab.hear())["pid"] != pid
        assert not alive(pid)


async def test_the_next_app_waits_until_the_one_before_has_kept_what_it_has_to() -> None:
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        pid = (await tab.hear())["pid"]
        await tab.type("exit 0")
        while not served.stage._ending:
            await asyncio.sleep(0.01)
        assert alive(pid)
        tab = await served.open()
        assert (await tab.hear())["pid"] != pid
        assert not alive(pid)


async def test_an_app_that_fails_says_its_exit_code() -> None:
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        await tab.hear()
        await tab.type("exit 3")
        assert await tab.hear() == f"closed {stage.ENDED} exit code 3"


@pytest.mark.parametrize(
    ("command", "why"), [(["/nowhere/chatkv"], "/nowhere/chatkv"), (["false"], "exit code 1"), (["true"], "")]
)
async def test_an_app_that_does_not_even_start_is_said_too(command: list[str], why: str) -> None:
    async with serving(command=command) as served:
        await served.log_in()
        said = await (await served.open()).hear()
        assert said.startswith(f"closed {stage.ENDED}")
        assert why in said


async def test_only_addresses_of_the_web_are_opened() -> None:
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        await tab.hear()
        for url in (
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            " javascript:x",
            "",
            "//x",
        ):
            await tab.type(f"open {url}")
        await tab.type("open https://example.org/a")
        assert await tab.hear() == ["open_url", {"url": "https://example.org/a", "new_tab": True}]


async def test_messages_that_are_none_are_passed_over() -> None:
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        await tab.hear()
        nested = "[" * 50_000
        for text in ("", "{", "7", "[]", nested, '["stdin"]', '["stdin", 7]', '["resize", null]', '["quit"]'):
            await tab.socket.send_str(text)
        await tab.socket.send_bytes(b'["stdin", "bytes"]')
        for wide in (0, -1, 10**9, True, None, "x", 80.5):
            await tab.send("resize", {"width": wide, "height": 24})
        await tab.send("resize", {"width": 81, "height": 24})
        assert await tab.hear() == {"type": "resize", "width": 81, "height": 24}
        await tab.socket.send_str('["stdin", "half \\ud800 a character"]')
        assert await tab.hear() == {"typed": "half ? a character"}
        await tab.send("ping", "12")
        assert await tab.hear() == ["pong", "12"]


async def test_a_big_paste_arrives_whole() -> None:
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        await tab.hear()
        text = "ü" * 1_000_000
        await tab.type(text)
        assert await tab.hear() == {"typed": text}


async def test_the_app_does_not_wait_for_a_viewer_who_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "STALL_S", 0.2)
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        await tab.hear()
        tab.socket._conn.protocol.pause_reading()  # type: ignore[union-attr]
        await tab.type("flood")
        while served.stage._viewer is not None:
            await asyncio.sleep(0.05)
        other = await served.open()
        assert (await other.hear())["type"] == "attach"


async def test_an_app_that_does_not_quit_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "QUIT_S", 0.2)
    monkeypatch.setattr(process, "TERM_S", 0.2)
    async with serving() as served:
        await served.log_in()
        tab = await served.open()
        pid = (await tab.hear())["pid"]
        await tab.type("stubborn")
        await tab.hear()
        await served.stage.end()
        assert not alive(pid)
        assert await tab.hear() == f"closed {stage.GOING_AWAY}"
        assert await (await served.open()).hear() == f"closed {stage.GOING_AWAY}"


async def test_the_end_does_not_wait_for_a_tab_that_does_not_answer() -> None:
    async with serving() as served:
        await served.log_in()
        cookies = served.session.cookie_jar.filter_cookies(URL(served.origin))
        lines = (
            "GET /ws HTTP/1.1",
            f"Host: 127.0.0.1:{served.port}",
            f"Origin: {served.origin}",
            *(f"Cookie: {name}={cookie.value}" for name, cookie in cookies.items()),
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        assert b" 101 " in await reader.readline()
        await reader.readuntil(b'"pid"')
        before = time.monotonic()
        await served.end()
        assert time.monotonic() - before < 5
        writer.close()
