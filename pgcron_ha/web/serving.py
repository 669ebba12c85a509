"""The server around the application: where it listens, and how it stops."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from pgcron_ha.config.values import Address, SocketPath
from pgcron_ha.errors import ConfigError
from pgcron_ha.web.connections import Bounds, Connections, Refuse, bounded_protocol
from pgcron_ha.web.security import require_loopback

_BACKLOG: Final = 2048
_LOOK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 3
_MOST_HEAD_BYTES: Final = 16 * 1024


class WebServer:
    """Serves one application at one address. `run` lives until `stop`."""

    def __init__(
        self,
        app: ASGIApp,
        listen: Address | SocketPath,
        *,
        tls: tuple[str, str] | None = None,
        may_be_reached: bool = False,
        bounds: Bounds = Bounds(),
        refuse: Refuse | None = None,
    ) -> None:
        """Listens at once, so that the address is known. ConfigError if it can't be.

        `may_be_reached` from other machines, too: only for what asks each caller for a proof. `tls`
        are the files of the certificate and of its key.
        """
        if tls is not None:
            _require_certificate(*tls)
        self.address = listen
        if isinstance(listen, Address):
            if not may_be_reached:
                require_loopback(listen)
            self._socket = _listen(listen)
            self.address = Address(listen.host, self._socket.getsockname()[1])
        else:
            self._socket = _listen_privately(listen)
        self._scheme = "http" if tls is None else "https"
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
                ssl_certfile=None if tls is None else tls[0],
                ssl_keyfile=None if tls is None else tls[1],
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


def _require_certificate(certificate: str, key: str) -> None:
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
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_left_over(place.path):
            Path(place.path).unlink()
        before = os.umask(0o177)
        try:
            listener.bind(place.path)
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"the web can't listen on '{place}'",
            error.strerror,
            "The folder must be there and yours, and no other program may use the socket.",
        ) from error
    listener.setblocking(False)
    return listener


def _is_left_over(path: str) -> bool:
    """Whether it is a socket that nobody listens on."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
        return probe.connect_ex(path) == errno.ECONNREFUSED
    return False


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
            "Another program may use the port; choose one with --listen 127.0.0.1:PORT (0: any).",
        ) from error
    listener.setblocking(False)
    return listener
