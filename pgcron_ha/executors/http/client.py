"""One exchange with a destination: a checked address, a bounded answer.

The client library's transport is used without its client: no cookies that one run leaves to the
next, no proxy from the environment, no redirects.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx

from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.executors.http.address import resolve
from pgcron_ha.executors.http.request import HttpRequest

MAX_BODY_BYTES: Final = 1024 * 1024
"""Of an answer; what is longer is not read to its end."""

CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 15.0

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Scheme, host and port: the only server that a destination's requests may go to."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """Raises ValueError for what is no such URL."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
            raise ValueError(f"{url[:200]!r} is no http or https URL")
        return cls(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])

    @property
    def header(self) -> str:
        """As the Host header says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer; its headers are found in any case. ``is_whole`` is False when the body is longer
    than its bound or compressed.
    """

    request: HttpRequest
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool
    seconds: float


class HttpClient:
    """Speaks with one destination. Belongs to one event loop."""

    def __init__(self, destination: HttpDestination, tls: ssl.SSLContext) -> None:
        self._destination = destination
        self._origin = Origin.of(destination.url)
        self._requests = asyncio.Semaphore(destination.connections)
        limits = httpx.Limits(
            max_connections=None,
            max_keepalive_connections=destination.connections,
            keepalive_expiry=_IDLE_SECONDS,
        )
        self._transport = httpx.AsyncHTTPTransport(verify=tls, limits=limits, trust_env=False)

    async def exchange(self, request: HttpRequest) -> HttpAnswer:
        """Send it and read the answer.

        Raises `AddressRefused`, OSError (no such host), `httpx.TransportError`, TimeoutError after
        the destination's `request_timeout`.
        """
        async with self._requests, asyncio.timeout(self._destination.request_timeout):
            began = monotonic()
            origin = self._origin
            addresses = await resolve(origin.host, origin.port, self._destination.allow_private)
            *others, last = addresses
            for address in others:
                with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
                    return await self._send_to(address, request, began)
            return await self._send_to(last, request, began)

    def same_origin(self, base: str, location: str) -> str | None:
        """The URL a header of an answer names, if it is one of this destination's origin."""
        try:
            url = urljoin(base, location).partition("#")[0]
            return url if Origin.of(url) == self._origin else None
        except ValueError:
            return None

    async def close(self) -> None:
        """Close the idle connections."""
        await self._transport.aclose()

    async def _send_to(self, address: str, request: HttpRequest, began: float) -> HttpAnswer:
        response = await self._transport.handle_async_request(self._pinned(address, request))
        try:
            body, is_whole = await _read(response)
        finally:
            await response.aclose()
        reason = response.extensions.get("reason_phrase", b"").decode("latin-1")
        took, status = monotonic() - began, response.status_code
        return HttpAnswer(request, status, reason, response.headers, body, is_whole, took)

    def _pinned(self, address: str, request: HttpRequest) -> httpx.Request:
        """The request to this address; Host and SNI keep the name."""
        seconds = self._destination.request_timeout
        limits = {"connect": min(CONNECT_SECONDS, seconds), "read": None, "write": None}
        extensions: dict[str, object] = {"timeout": {**limits, "pool": None}}
        if address != self._origin.host:
            extensions["sni_hostname"] = self._origin.host
        headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
        return httpx.Request(
            request.method,
            # All three, whatever the library reads in a URL that a service has sent.
            httpx.URL(request.url).copy_with(
                scheme=self._origin.scheme, host=address, port=self._origin.port
            ),
            headers=[(b"Host", self._origin.header.encode()), *headers],
            content=request.content,
            extensions=extensions,
        )


async def _read(response: httpx.Response) -> tuple[bytes, bool]:
    """The body and whether it is whole. No more than the bound is ever in memory."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        return b"", False  # it was not asked for
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk[: MAX_BODY_BYTES + 1 - len(body)]
        if len(body) > MAX_BODY_BYTES:
            return bytes(body[:MAX_BODY_BYTES]), False
    return bytes(body), True
