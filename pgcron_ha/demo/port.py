"""Where the demo shows its pages: the port that was asked for, the usual one, or any free one."""

from __future__ import annotations

import socket
from typing import Final

from pgcron_ha.errors import Conflict

USUAL: Final = 8420


def free_port(wanted: int | None) -> int:
    """A port of 127.0.0.1 that nobody listens on; `wanted` None means the usual one if it is free.

    Raises Conflict when the wanted one is taken.
    """
    if wanted is not None:
        found = _bound(wanted)
        if found is None:
            raise Conflict(
                f"port {wanted} of 127.0.0.1 is taken",
                "Another program listens on it.",
                "Name another one with --port, or leave it out.",
            )
        return found
    return _bound(USUAL) or _bound(0) or 0


def _bound(port: int) -> int | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return None
        number: int = probe.getsockname()[1]
        return number
