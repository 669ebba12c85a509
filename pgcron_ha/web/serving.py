"""The server around the application: where it listens, and how it stops."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
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
