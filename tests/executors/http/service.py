"""A real HTTP service on loopback that does what a test wants, also what no service should."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

JSON = "application/json"
CERTIFICATE = Path(__file__).with_name("localhost.pem")


def own_tls() -> ssl.SSLContext:
    """Of a service that is `localhost`."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    return tls


@dataclass
class Request:
    """What a client has sent; the names of headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines += [f"Content-Length: {len(self.body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


Behaviour = Callable[[Request, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Route = Answer | Behaviour | list[Answer]


class Service:
    """``routes`` by path without query: an answer, several (the last one stays), or a behaviour."""

    def __init__(
        self,
        routes: Mapping[str, Route] | None = None,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.routes: dict[str, Route] = dict(routes or {})
        self.requests: list[Request] = []
        self.at_work: set[str] = set()
        self.names: list[str | None] = []
        self.connections = 0
        self.most_at_once = 0
        self.host = host
        self.port = port
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="test-service")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(20)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    def paths(self) -> list[str]:
        return [each.target for each in self.requests]

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._live())
        self._loop.close()

    async def _live(self) -> None:
        self._end = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        if self._tls is not None:
            self._tls.sni_callback = lambda _socket, name, _context: self.names.append(name)
        server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._answer_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (i.partition(":") for i in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(method, target, headers, body)
        self.requests.append(request)
        run = headers.get("pgcron-run", "")
        self.at_work.add(run)
        self.most_at_once = max(self.most_at_once, len(self.at_work))
        try:
            return await self._behave(request, reader, writer)
        finally:
            self.at_work.discard(run)

    async def _behave(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        route = self.routes.get(request.target.partition("?")[0], Answer(404))
        if isinstance(route, list):
            route = route.pop(0) if len(route) > 1 else route[0]
        if not isinstance(route, Answer):
            await route(request, reader, writer)
            return False
        writer.write(route.encoded())
        await writer.drain()
        return True


async def hang(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """No answer, until the client leaves."""
    await reader.read(1)


async def reset(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """The connection ends without an answer."""
    writer.transport.abort()


async def no_http(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(b"220 mail.example.com ESMTP\r\n")
    await writer.drain()


def endless(chunk: bytes, headers: str = "") -> Behaviour:
    """A body without an end."""

    async def behave(
        request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n".encode())
        while True:
            writer.write(chunk)
            await writer.drain()

    return behave
