"""One exchange with a destination: a judged address, a bounded answer, no surprise on the way.

The client library's transport is used without its client: no cookies that one run leaves to the
next, no proxy from the environment, no redirect but those followed here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx

from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.executors.http.address import resolve
from pgcron_ha.executors.http.request import HttpRequest

MAX_BODY_BYTES: Final = 1024 * 1024
"""Of an answer, after decompression; what is longer is not read to its end."""

MAX_REDIRECTS: Final = 5
CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 15.0

_REDIRECTS = {301, 302, 303, 307, 308}
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
    """An answer; the names of its headers are in lower case. ``is_whole`` is False when the body
    is longer than its bound or can't be decompressed.
    """

    request: HttpRequest
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool
    seconds: float


class TooManyRedirects(Exception):
    """The service sends its callers in a circle."""


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
        """Send it and read the answer, redirects to the same origin followed.

        Raises `AddressRefused`, OSError (no such host), `httpx.TransportError`, TimeoutError after
        the destination's `request_timeout`, `TooManyRedirects`.
        """
        async with self._requests, asyncio.timeout(self._destination.request_timeout):
            for _ in range(MAX_REDIRECTS + 1):
                answer = await self._send(request)
                following = self._redirected(answer)
                if following is None:
                    return answer
                request = following
        raise TooManyRedirects(f"more than {MAX_REDIRECTS} redirects, the last to {request.url}")

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

    def _redirected(self, answer: HttpAnswer) -> HttpRequest | None:
        """What to ask next; None if the answer is the last one, or must not be followed."""
        location = answer.headers.get("location")
        is_expected = any(answer.status in each for each in self._destination.expect)
        if answer.status not in _REDIRECTS or location is None or is_expected:
            return None
        request = answer.request
        url = self.same_origin(request.url, location)
        is_safe = request.method in ("GET", "HEAD")
        if url is None or (answer.status in (301, 302) and not is_safe):
            return None  # to send a POST as a GET would do something else than was asked
        if answer.status == 303 and not is_safe:
            return request.as_get(url)
        return replace(request, url=url)

    async def _send(self, request: HttpRequest) -> HttpAnswer:
        began = monotonic()
        origin = self._origin
        addresses = await resolve(origin.host, origin.port, self._destination.allow_private)
        *others, last = addresses
        for address in others:
            with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._send_to(address, request, began)
        return await self._send_to(last, request, began)

    async def _send_to(self, address: str, request: HttpRequest, began: float) -> HttpAnswer:
        response = await self._transport.handle_async_request(self._pinned(address, request))
        try:
            body, is_whole = await _read(response)
        finally:
            await response.aclose()
        reason = response.extensions.get("reason_phrase", b"").decode("latin-1")
        headers = {name.lower(): value for name, value in response.headers.items()}
        took = monotonic() - began
        return HttpAnswer(request, response.status_code, reason, headers, body, is_whole, took)

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


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Checks certificates against this file, or against the authorities that browsers trust.

    Raises OSError for a file that can't be read or has no certificates.
    """
    if ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context(cafile=ca_file)


async def _read(response: httpx.Response) -> tuple[bytes, bool]:
    """The body and whether it is whole. No more than the bound is ever in memory, however small
    the compressed body is.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    chunks: AsyncIterator[bytes] = response.aiter_raw()
    body = bytearray()
    inflate = None
    if encoding in ("gzip", "x-gzip", "deflate"):
        inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    elif encoding != "identity":
        return b"", False  # it was not asked for
    async for chunk in chunks:
        room = MAX_BODY_BYTES + 1 - len(body)
        try:
            body += chunk[:room] if inflate is None else inflate.decompress(chunk, room)
        except zlib.error:
            return bytes(body), False
        if len(body) > MAX_BODY_BYTES:
            return bytes(body[:MAX_BODY_BYTES]), False
    return bytes(body), inflate is None or inflate.eof or not body
