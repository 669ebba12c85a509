"""What every request must be, and what every response carries: the outermost layer.

There is no login yet, so only this machine may connect (`require_loopback`), only by a name of this
machine (another site could otherwise point its own name at this server), and only a page of this
server may change anything (`is_same_origin`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgcron_ha.config.values import LOOPBACK, Address
from pgcron_ha.errors import ConfigError

# Args of a schedule have 256 KiB; a form writes a byte with up to three characters.
MOST_BODY_BYTES: Final = 1024 * 1024
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})

_HOST: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types pgcron-live",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cache-control": "no-store",
}


def require_loopback(address: Address) -> None:
    """Raises ConfigError unless only this machine can connect to `address`."""
    if address.host.lower() not in LOOPBACK:
        raise ConfigError(
            f"the web can't listen on '{address}'",
            "There is no login yet, so only 127.0.0.1, [::1] and localhost are allowed.",
            "Listen on 127.0.0.1 and reach it from elsewhere with `ssh -L 8420:127.0.0.1:8420`.",
        )


def is_host_own(host: str) -> bool:
    """Whether a Host header names this machine, so that no foreign name was pointed at it."""
    return _HOST.fullmatch(host) is not None


def is_same_origin(headers: Mapping[str, str], scheme: str = "http") -> bool:
    """Whether a page of this server sent the request, by Sec-Fetch-Site or else by Origin.

    Browsers send one of them with every POST; a program that sends neither proves nothing.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin, host = headers.get("origin"), headers.get("host")
    return origin is not None and host is not None and origin == f"{scheme}://{host}"


class Guard:
    """The layer around the application: refuses what must not come in, adds headers to the rest."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; anything but HTTP (and the server's own start and stop) is closed."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            app = _refusal(scope) or self._app
            await app(_as_sent(scope), _bounded(receive), _with_headers(send))


def _as_sent(scope: Scope) -> Scope:
    """With the path as it was sent, so that an escaped ``/`` stays inside its segment."""
    raw = scope.get("raw_path")
    return {**scope, "path": raw.decode("latin-1").partition("?")[0]} if raw else scope


class BodyTooLarge(Exception):
    """The body has more than `MOST_BODY_BYTES`."""


def _refusal(scope: Scope) -> Response | None:
    """The answer to a request that is refused; None for one that is not."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not is_host_own(hosts[0]):
        return _refused(421, "This server answers to localhost, 127.0.0.1 and [::1] only.")
    if scope["method"] in SAFE_METHODS:
        return None
    if scope["method"] != "POST":
        return _refused(405, "Only GET, HEAD and POST are known here.", allow="GET, HEAD, POST")
    if not is_same_origin(headers, scope["scheme"]):
        return _refused(
            403,
            "The request was refused: it does not come from a page of this server.\n"
            "A program proves that it means this server by sending the header "
            f"Origin: {scope['scheme']}://{hosts[0]}",
        )
    return None


def _refused(status: int, sentence: str, **headers: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, headers)


def _bounded(receive: Receive) -> Receive:
    taken = 0

    async def receive_within_bounds() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > MOST_BODY_BYTES:
                raise BodyTooLarge
        return message

    return receive_within_bounds


def _with_headers(send: Send) -> Send:
    """Adds `HEADERS` to a response; one that brings its own value of a header keeps it."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
