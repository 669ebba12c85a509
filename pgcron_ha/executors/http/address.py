"""Addresses that a node may connect to: none of its own networks, unless the destination allows it.

A name is resolved once, its address is checked, and the connection is made to the checked address.
So it does not matter if the name resolves to another address afterwards (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from concurrent.futures import Future
from typing import Final, TypeAlias

from pgcron_ha.config.http_destinations import Network

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_ADDRESSES: Final = 4
"""Of a name; connections are tried in turn, and each may take the whole time to connect."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Special networks that the list of some version of Python lacks.
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # Azure's own services, at what looks like a public address
            *("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "100::/64"),
            *("2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10"),
        ),
    )
)


class AddressRefused(Exception):
    """None of the addresses of a host may be connected to."""


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
    if any(address.version == network.version and address in network for network in allowed):
        return True
    behind = _behind(address)
    if behind is not None:
        return is_allowed(behind, allowed)
    special = any(address.version == each.version and address in each for each in _NOT_PUBLIC)
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
        except OSError as error:
            answer.set_exception(error)
        except (UnicodeError, ValueError) as error:
            answer.set_exception(OSError(str(error)))

    threading.Thread(target=ask, name="pgcron-resolver", daemon=True).start()
    return await asyncio.wrap_future(answer)
