"""Nobody comes in without the token, and no other page by way of somebody who has it."""

import socket

import aiohttp
import pytest

from chatkv.web.guard import Guard, is_loopback
from tests.web.served import Served, serving

PLACES = ["/", "/files/chat.js", "/files/textual.js", "/files/none", "/none", "/ws"]


@pytest.mark.parametrize("path", PLACES)
async def test_without_the_token_everything_is_shut(path: str) -> None:
    async with serving() as served:
        for query in ("", "?token=", "?token=wrong", "?token=%ff%C3%A9", f"?token={served.token}x"):
            assert (await served.get(path + query)).status == 403
        # The token opens the page; what the page loads goes by the cookie.
        if path != "/":
            assert (await served.get(f"{path}?token={served.token}")).status == 403
        assert not len(served.session.cookie_jar)


async def test_the_token_opens_the_page_and_a_cookie_everything_else() -> None:
    async with serving() as served:
        response = await served.get(f"/?token={served.token}")
        assert response.status == 200
        set_cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in set_cookie
        assert "SameSite=Strict" in set_cookie
        assert f"chatkv-{served.port}=" in set_cookie
        assert served.token not in set_cookie
        for path in ("/", "/files/chat.js", "/files/textual.js", "/files/mono.ttf"):
            assert (await served.get(path)).status == 200
        assert (await served.get("/files/..%2fguard.py")).status == 404
        assert (await served.get("/files/guard.py")).status == 404
        tab = await served.open()
        assert (await tab.hear())["arguments"] == []


async def test_two_servers_of_one_host_do_not_lock_each_other_out() -> None:
    async with serving() as one, serving() as other:
        await one.log_in()
        other.session = one.session
        await other.log_in()
        assert (await one.get("/")).status == 200
        assert (await other.get("/")).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "[::1", "a:b"]
)
async def test_a_name_that_was_pointed_at_this_machine_is_refused(host: str) -> None:
    async with serving() as served:
        assert (await served.get(f"/?token={served.token}", Host=host)).status == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "LOCALHOST", "[::1]:8000", "10.0.0.7:80"])
async def test_names_of_this_machine_and_addresses_are_not(host: str) -> None:
    async with serving() as served:
        assert (await served.get(f"/?token={served.token}", Host=host)).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://127.0.0.1:1", "http://localhost"]
)
async def test_another_page_reaches_nothing_even_with_the_cookie(origin: str) -> None:
    async with serving() as served:
        await served.log_in()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await served.open(Origin=origin)
        assert refused.value.status == 403
        assert (await served.get("/", Origin=origin)).status == 403


async def test_a_websocket_that_does_not_say_where_it_comes_from_is_refused() -> None:
    async with serving() as served:
        await served.log_in()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await served.session.ws_connect(f"{served.origin}/ws")
        assert refused.value.status == 403


async def test_every_answer_says_what_a_page_may_do() -> None:
    async with serving() as served:
        await served.log_in()
        for path in ("/", "/files/textual.js", "/none"):
            await check_headers(served, path)
        served.session.cookie_jar.clear()
        await check_headers(served, "/")


async def check_headers(served: Served, path: str) -> None:
    headers = (await served.get(path)).headers
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["Server"] == "chatkv"


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.2", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "")))


def test_tokens_are_never_the_same() -> None:
    tokens = {Guard("127.0.0.1").token for _ in range(20)}
    assert len(tokens) == 20
    assert min(map(len, tokens)) >= 43


def test_a_host_that_was_asked_for_may_be_called_by_its_name() -> None:
    assert Guard("box.example")._knows("box.example:80")
    assert Guard("0.0.0.0")._knows(socket.gethostname())
    assert not Guard("0.0.0.0")._knows("evil.example")
