"""Who may come in: the token, and nobody who is led here by another page."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

LOCKED = "chatkv: open the address that 'chatkv run --web' printed; it ends in a token.\n"
FOREIGN = "chatkv: this request comes from another page, or through a name that is not this machine's.\n"


class Guard:
    """The token opens the page; from then on a cookie that scripts can't read does.

    A page of another site is kept out three times: it does not know the token, its requests don't carry the
    cookie (``SameSite=Strict``), and their ``Origin`` is not ours. A name that was pointed at this machine
    (DNS rebinding) is not one of ours.
    """

    def __init__(self, host: str) -> None:
        self.token = secrets.token_urlsafe(32)
        # Not the token: a cookie goes to every port of its host.
        self._key = secrets.token_urlsafe(32)
        self._names = {"localhost", host.lower()}
        if not is_loopback(host):
            name = socket.gethostname().lower()
            self._names |= {name, f"{name}.local", socket.getfqdn().lower()}

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let ``request`` through to ``handler``, or answer 403."""
        if not self._knows(request.host) or not self._is_ours(request):
            raise web.HTTPForbidden(text=FOREIGN)
        # A cookie does not know its port: another chatkv's must not take this one's place.
        cookie = f"chatkv-{_port(request.host)}"
        if _same(request.cookies.get(cookie, ""), self._key):
            return await handler(request)
        if request.path == "/" and _same(request.query.get("token", ""), self.token):
            response = await handler(request)
            response.set_cookie(cookie, self._key, httponly=True, samesite="Strict", path="/")
            return response
        raise web.HTTPForbidden(text=LOCKED)

    def _knows(self, host: str) -> bool:
        name = _split(host)[0]
        return name in self._names or _address(name) is not None

    def _is_ours(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin")
        if origin is None:
            # Browsers send it with every websocket, and not with a page's own files.
            return request.headers.get("Upgrade", "").lower() != "websocket"
        return origin.lower() in {f"{scheme}://{request.host.lower()}" for scheme in ("http", "https")}


def is_loopback(host: str) -> bool:
    """Whether nothing outside this machine reaches ``host``."""
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _split(host: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


def _port(host: str) -> int:
    return _split(host)[1] or 80


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
