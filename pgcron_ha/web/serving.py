"""The server around the application: where it listens, and how it stops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from pgcron_ha.config.values import Address
from pgcron_ha.errors import ConfigError
from pgcron_ha.web.connections import Bounds, Connections, Refuse, bounded_protocol
from pgcron_ha.web.security import require_loopback

_BACKLOG: Final = 2048
_LOOK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 3
_MOST_HEAD_BYTES: Final = 16 * 1024


class WebServer:
    """Serves one application on one address of this machine. `run` lives until `stop`."""

    def __init__(
        self,
        app: ASGIApp,
        listen: Address,
        *,
        may_be_reached: bool = False,
        bounds: Bounds = Bounds(),
        refuse: Refuse | None = None,
    ) -> None:
        """Listens at once, so that the address is known. ConfigError if it can't be.

        `may_be_reached` from other machines, too: only for what asks each caller for a proof, or
        has nothing to protect.
        """
        if not may_be_reached:
            require_loopback(listen)
        self._socket = _listen(listen)
        self.address = Address(listen.host, self._socket.getsockname()[1])
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
                http=bounded_protocol(self._connections),
                backlog=_BACKLOG,
                timeout_keep_alive=int(bounds.head_seconds) + 1,  # closed by then
                timeout_graceful_shutdown=_STOP_SECONDS,
                h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
            )
        )

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return f"http://{self.address}/"

    async def run(self) -> None:
        """Answers until `stop`; open answers get some seconds."""
        looking = asyncio.create_task(self._look())
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            looking.cancel()
            self._socket.close()

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


def _listen(address: Address) -> socket.socket:
    is_version_6 = ":" in address.host
    family = socket.AF_INET6 if is_version_6 else socket.AF_INET
    # "localhost" may be resolved to anything by a careless hosts file.
    host = "127.0.0.1" if address.host.lower() == "localhost" else address.host
    # Named as TCP, or asyncio leaves Nagle's algorithm on and small answers wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, address.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"the web can't listen on '{address}'",
            error.strerror,
            "Another program may use the port; choose another one (0: any that is free).",
        ) from error
    listener.setblocking(False)
    return listener
