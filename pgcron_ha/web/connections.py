"""The open connections of one server: how many there may be, and how long each may take.

Clients that send nothing, half a head or a slow body keep no others out: when there are too many
connections, one that has not sent a whole head is closed for the new one: the oldest of the address
that has the most of them. An honest request from that address is closed only if many newer ones
come from there. uvicorn bounds answers, but no connection before its first head.
"""

from __future__ import annotations

import ipaddress
import resource
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar, Final, TypeAlias

from uvicorn.protocols.http.h11_impl import H11Protocol

from pgcron_ha.web.security import peer_address

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
