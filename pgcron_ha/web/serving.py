"""The server around the application: where it listens, how it stops, and its open connections: how
many there may be, and how long each may take.

Clients that send nothing, half a head or a slow body keep no others out: when there are too many
connections, one that has not sent a whole head is closed for the new one: the oldest of the address
that has the most of them. An honest request from that address is closed only if many newer ones
come from there. uvicorn bounds answers, but no connection before its first head.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import resource
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Final, TypeAlias

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from pgcron_ha.config.values import Address, SocketPath
from pgcron_ha.errors import ConfigError
from pgcron_ha.web.security import peer_address, require_loopback

_BACKLOG: Final = 2048
_LOOK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 3
_MOST_HEAD_BYTES: Final = 16 * 1024
_VERSION_6_NETWORK: Final = 64
"""Bits of an IPv6 address that a provider gives to one customer, who chooses the rest."""

_SHARE_OF_DESCRIPTORS: Final = 4
"""A server takes this part of the file descriptors; the others are for runs, files, sessions."""


Refuse: TypeAlias = Callable[[bytes], bytes | None]
"""Sees the first bytes of a connection; what it gives is sent before the connection is closed."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """`most` connections; seconds for a whole head (also the next one of a connection that stays
    open), for the body after it, and for the whole answer.
    """

    most: int = 512
    head_seconds: float = 30.0
    body_seconds: float = 30.0
    answer_seconds: float = 300.0


class Connections:
    """The connections of one server, in its event loop."""

    def __init__(self, bounds: Bounds, refuse: Refuse | None = None) -> None:
        self.refuse = refuse
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        share = max(16, descriptors // _SHARE_OF_DESCRIPTORS)
        unlimited = descriptors == resource.RLIM_INFINITY
        self.most = bounds.most if unlimited else min(bounds.most, share)
        self._bounds = bounds
        self._waiting: defaultdict[str, dict[BoundedProtocol, float]] = defaultdict(dict)
        self._answered: dict[BoundedProtocol, float] = {}
        self.known: set[BoundedProtocol] = set()
        """Every connection that counts."""

    def wait(self, connection: BoundedProtocol) -> None:
        """Counts a new connection, or one that has its answer, as waiting for its next head."""
        if connection not in self.known:
            self.known.add(connection)
            connection.group = group_of(connection.client)
        self._answered.pop(connection, None)
        self._waiting[connection.group][connection] = monotonic()
        if len(self.known) > self.most:  # at least the newest waits
            crowd = max(self._waiting.values(), key=len)
            self._close(next(iter(crowd)))

    def answer(self, connection: BoundedProtocol) -> None:
        """A whole head has come in."""
        self._leave(connection)
        if connection in self.known:
            self._answered[connection] = monotonic()

    def forget(self, connection: BoundedProtocol) -> None:
        """It does not count any more."""
        self._leave(connection)
        self._answered.pop(connection, None)
        self.known.discard(connection)

    def close_overdue(self) -> None:
        """Closes connections that are over their time."""
        now, bounds = monotonic(), self._bounds
        waiting = [each for group in self._waiting.values() for each in group.items()]
        overdue = [each for each, since in waiting if now - since > bounds.head_seconds]
        for connection, since in self._answered.items():
            most = bounds.body_seconds if connection.cycle.more_body else bounds.answer_seconds
            if now - since > most:
                overdue.append(connection)
        for connection in overdue:
            self._close(connection)

    def _close(self, connection: BoundedProtocol) -> None:
        self.forget(connection)
        connection.transport.abort()

    def _leave(self, connection: BoundedProtocol) -> None:
        group = self._waiting[connection.group]
        group.pop(connection, None)
        if not group:
            del self._waiting[connection.group]


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 that reports its state to `Connections`."""

    table: ClassVar[Connections]
    group = ""
    _is_untouched = True

    def connection_made(self, transport: Any) -> None:
        """Starts to count it."""
        super().connection_made(transport)
        self.table.wait(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops to count it."""
        self.table.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A request that is refused for its head costs no more than its bytes."""
        if self._is_untouched and self.table.refuse is not None:
            answer = self.table.refuse(data)
            if answer is not None:
                self.transport.write(answer)
                self.transport.close()
                return
        self._is_untouched = False
        super().data_received(data)

    def handle_events(self) -> None:
        """A new cycle is a request whose head is whole."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self.table.answer(self)

    def on_response_complete(self) -> None:
        """Waits for the next head, unless it came already."""
        if self in self.table.known:
            self.table.wait(self)
        super().on_response_complete()


def bounded_protocol(connections: Connections) -> type[BoundedProtocol]:
    """The protocol of a server with these connections."""
    return type("_Protocol", (BoundedProtocol,), {"table": connections})


def group_of(client: tuple[str, int] | None) -> str:
    """The address that a connection counts for; of IPv6 the network of a customer."""
    if client is None:
        return ""
    address = peer_address(client[0])
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, _VERSION_6_NETWORK), strict=False))


class WebServer:
    """Serves one application at one address. `run` lives until `stop`."""

    def __init__(
        self,
        app: ASGIApp,
        listen: Address | SocketPath,
        *,
        tls: tuple[str | None, str | None] = (None, None),
        may_be_reached: bool = False,
        bounds: Bounds = Bounds(),
        refuse: Refuse | None = None,
    ) -> None:
        """Listens at once, so that the address is known. ConfigError if it can't be.

        `may_be_reached` from other machines, too: only for what asks each caller for a proof, or
        has nothing to protect. `tls` are the files of the certificate and of its key.
        """
        certificate, key = tls
        if certificate is not None:
            _require_certificate(certificate, key)
        self.address = listen
        if isinstance(listen, Address):
            if not may_be_reached:
                require_loopback(listen)
            self._socket = _listen(listen)
            self.address = Address(listen.host, self._socket.getsockname()[1])
        else:
            self._socket = _listen_privately(listen)
        self._scheme = "http" if certificate is None else "https"
        self._connections = Connections(bounds, refuse)
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="error",  # a line for each request that is no HTTP would fill a disk
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                ssl_certfile=certificate,
                ssl_keyfile=key,
                http=bounded_protocol(self._connections),
                backlog=_BACKLOG,
                timeout_keep_alive=int(bounds.head_seconds) + 1,  # closed by then
                timeout_graceful_shutdown=_STOP_SECONDS,
                h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
            )
        )

    @property
    def url(self) -> str:
        """What to open in a browser, or the socket."""
        if isinstance(self.address, SocketPath):
            return str(self.address)
        return f"{self._scheme}://{self.address}/"

    async def run(self) -> None:
        """Answers until `stop`; open answers get some seconds."""
        looking = asyncio.create_task(self._look())
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            looking.cancel()
            self._socket.close()
            if isinstance(self.address, SocketPath):
                Path(self.address.path).unlink(missing_ok=True)

    def stop(self) -> None:
        """Ends `run` soon. From its event loop, or a signal handler of it."""
        self._server.should_exit = True

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._connections.close_overdue()


class _Server(uvicorn.Server):
    """Leaves signals to the caller: a node stops its parts in an order."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _require_certificate(certificate: str, key: str | None) -> None:
    """Raises ConfigError for files that can't be used, before anything is served."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificate '{certificate}' with the key '{key}' can't be used",
            str(error),
            "web.tls_certificate and web.tls_key are PEM files that belong together.",
        ) from error


def _listen_privately(place: SocketPath) -> socket.socket:
    """A socket that this user alone may open. One that a dead server has left is replaced."""
    hint = "The folder must be there and yours, and no other program may use the socket."
    with _listener(place, hint, socket.AF_UNIX) as listener:
        if _is_left_over(place.path):
            Path(place.path).unlink()
        before = os.umask(0o177)
        try:
            listener.bind(place.path)
        finally:
            os.umask(before)
        return listener


def _is_left_over(path: str) -> bool:
    """Whether it is a socket that nobody listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return Path(path).is_socket() and probe.connect_ex(path) == errno.ECONNREFUSED


def _listen(address: Address) -> socket.socket:
    hint = "Another program may use the port; choose another one (0: any that is free)."
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's algorithm on and small answers wait 40 ms.
    with _listener(address, hint, family, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # "localhost" may be resolved to anything by a careless hosts file.
        host = "127.0.0.1" if address.host.lower() == "localhost" else address.host
        listener.bind((host, address.port))
        return listener


@contextmanager
def _listener(
    place: Address | SocketPath, hint: str, family: int, protocol: int = 0
) -> Iterator[socket.socket]:
    """A socket that listens once it was bound in this block. ConfigError if it can't be."""
    listener = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        yield listener
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"the web can't listen on '{place}'", error.strerror, hint) from error
    listener.setblocking(False)
