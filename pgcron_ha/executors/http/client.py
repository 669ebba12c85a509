"""One exchange with a destination: a checked address, a bounded answer.

The client library's transport is used without its client: no cookies that one run leaves to the
next, no proxy from the environment, no redirects.

A node connects to none of its own networks, unless the destination allows it. A name is resolved
once, its address is checked, and the connection is made to the checked address. So it does not
matter if the name resolves to another address afterwards (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit

import httpx

from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.config.values import Network
from pgcron_ha.executors.http.request import HttpRequest

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_ADDRESSES: Final = 4
"""Of a name; connections are tried in turn, and each may take the whole time to connect."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Special networks that the list of some version of Python lacks.
_NOT_PUBLIC = [
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's own services, at what looks like a public address
        *("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "100::/64"),
        *("2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10"),
    )
]


class AddressRefused(Exception):
    """None of the addresses of a host may be connected to."""


NO_ANSWER: Final = (OSError, httpx.HTTPError, httpx.InvalidURL, AddressRefused)
"""What `HttpClient.exchange` raises."""


async def resolve(host: str, port: int, allowed: tuple[Network, ...]) -> list[str]:
    """The addresses of a host that may be connected to, in the order of the resolver.

    Raises `AddressRefused` if there are only others, and OSError if there are none.
    """
    found = await _look_up(host, port)
    checked = [each for each in found if is_allowed(each, allowed)]
    if not checked:
        raise AddressRefused(
            f"{host} is {', '.join(map(str, found[:MAX_ADDRESSES]))}, which is no public address; "
            "allow_private in the destination's table says which others may be connected to"
        )
    return [str(each) for each in checked[:MAX_ADDRESSES]]


def is_allowed(address: Address, allowed: tuple[Network, ...]) -> bool:
    """Whether it is a public unicast address, or of one of these networks.

    An address that embeds an IPv4 address (mapped, 6to4, Teredo, NAT64) is as public as that one.
    """
    if any(address in network for network in allowed):
        return True
    behind = _behind(address)
    if behind is not None:
        return is_allowed(behind, allowed)
    special = any(address in network for network in _NOT_PUBLIC)
    return address.is_global and not (special or address.is_multicast or address.is_reserved)


def _behind(address: Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


async def _look_up(host: str, port: int) -> list[Address]:
    with contextlib.suppress(ValueError):
        return [ipaddress.ip_address(host)]
    # In a thread of its own: a resolver may be silent for a minute, and neither the end of the run
    # nor that of the node waits for it.
    answer: Future[list[Address]] = Future()
    answer.set_running_or_notify_cancel()  # a waiter that gives up does not cancel it

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            texts = dict.fromkeys(str(each[4][0]) for each in found)
            answer.set_result([ipaddress.ip_address(text) for text in texts])
        except (OSError, ValueError) as error:
            answer.set_exception(error if isinstance(error, OSError) else OSError(str(error)))

    threading.Thread(target=ask, name="pgcron-resolver", daemon=True).start()
    return await asyncio.wrap_future(answer)


MAX_BODY_BYTES: Final = 1024 * 1024
"""Of an answer; what is longer is not read to its end."""

CONNECT_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 15.0

_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: the only server that a destination's requests may go to. Raises
    ValueError for what is no such URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{url[:200]!r} is no http or https URL")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


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
        self.destination = destination
        self._origin = origin_of(destination.url)
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
        async with self._requests, asyncio.timeout(self.destination.request_timeout):
            began = monotonic()
            _, host, port = self._origin
            *others, last = await resolve(host, port, self.destination.allow_private)
            for address in others:
                with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
                    return await self._send_to(address, request, began)
            return await self._send_to(last, request, began)

    def same_origin(self, base: str, location: str) -> str | None:
        """The URL a header of an answer names, if it is one of this destination's origin."""
        try:
            url = urljoin(base, location).partition("#")[0]
            return url if origin_of(url) == self._origin else None
        except ValueError:
            return None

    async def close(self) -> None:
        """Close the idle connections."""
        await self._transport.aclose()

    async def _send_to(self, address: str, request: HttpRequest, began: float) -> HttpAnswer:
        response = await self._transport.handle_async_request(self._pinned(address, request))
        async with contextlib.aclosing(response):
            body, is_whole = await _read(response)
        reason = response.extensions.get("reason_phrase", b"").decode("latin-1")
        took, status = monotonic() - began, response.status_code
        return HttpAnswer(request, status, reason, response.headers, body, is_whole, took)

    def _pinned(self, address: str, request: HttpRequest) -> httpx.Request:
        """The request to this address; Host and SNI keep the name."""
        scheme, host, port = self._origin
        seconds = self.destination.request_timeout
        limits = {"connect": min(CONNECT_SECONDS, seconds), "read": None, "write": None}
        extensions: dict[str, object] = {"timeout": {**limits, "pool": None}}
        if address != host:
            extensions["sni_hostname"] = host
        headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
        return httpx.Request(
            request.method,
            # All three, whatever the library reads in a URL that a service has sent.
            httpx.URL(request.url).copy_with(scheme=scheme, host=address, port=port),
            headers=[(b"Host", httpx.URL(self.destination.url).netloc), *headers],
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
