"""A TCP proxy before the server: it can stall, lose one answer after the server gave it, and reset.

What a network does to a connection between a node and its database, at the moment a test chooses.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Self

_CANCEL_REQUEST = 80877102
_READY_FOR_QUERY = b"Z\x00\x00\x00\x05"
_CHUNK = 65536


class Proxy:
    """Listens on 127.0.0.1 and forwards to a unix socket. ``async with Proxy(path) as proxy``."""

    def __init__(self, socket_path: Path) -> None:
        self.cancel_requests = 0
        self.connections = 0
        self.lost_answers = 0
        self.commands: list[str] = []
        """What was executed through it, in the order of execution."""
        self._path = socket_path
        self._answers_pass = asyncio.Event()
        self._answers_pass.set()
        self._lose: bytes | None = None
        self._last_port = 0
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def dsn(self, database_dsn: str) -> str:
        """The same database through the proxy."""
        name = database_dsn.partition("?")[0].rpartition("/")[2]
        return f"postgresql://postgres:any@127.0.0.1:{self.port}/{name}?sslmode=disable"

    def stall(self) -> None:
        """From now on questions reach the server and no answer comes back."""
        self._answers_pass.clear()

    def resume(self) -> None:
        """What was held back is delivered."""
        self._answers_pass.set()

    def lose_answer_to(self, words: str) -> None:
        """The next statement that contains these words happens; then the connection breaks."""
        self._lose = words.encode()

    def reset(self) -> None:
        """Break every connection, at once, in both directions."""
        for pair in list(self._pairs):
            pair.abort()

    async def refuse(self) -> None:
        """Break every connection, and take none until `accept`."""
        self._last_port = self.port
        self._server.close()
        self.reset()
        await self._server.wait_closed()

    async def accept(self) -> None:
        """Take connections, at the same port as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._last_port)

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.resume()
        self.reset()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream_reader, upstream_writer = await asyncio.open_unix_connection(str(self._path))
        self.connections += 1
        pair = _Pair(writer, upstream_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._forward_questions(pair, reader), self._forward_answers(pair, upstream_reader)
            )
        except OSError:
            pass  # one end broke: so does the other
        finally:
            pair.abort()
            self._pairs.discard(pair)
            self._tasks.discard(task)

    async def _forward_questions(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_CHUNK):
            for kind, content in pair.messages(data):
                self._look_at(pair, kind, content, pair.executed(kind, content))
            pair.server.write(data)
            await pair.server.drain()
        pair.abort()

    def _look_at(self, pair: _Pair, kind: bytes, content: bytes, executed: bytes) -> None:
        if not kind and len(content) >= 4 and content[:4] == struct.pack("!i", _CANCEL_REQUEST):
            self.cancel_requests += 1
        if executed:
            self.commands.append(executed.decode("utf-8", "replace"))
        if self._lose is not None and self._lose in executed:
            self._lose = None
            pair.is_losing = True

    async def _forward_answers(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        tail = b""
        while data := await reader.read(_CHUNK):
            await self._answers_pass.wait()
            if pair.is_losing:
                tail = (tail + data)[-6:]
                if tail[:5] == _READY_FOR_QUERY:
                    self.lost_answers += 1
                    break
                continue
            pair.client.write(data)
            await pair.client.drain()
        pair.abort()


class _Pair:
    """One connection: both ends, and the messages the client sends."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.is_losing = False
        self._pending = b""
        self._has_begun = False
        self._statements: dict[bytes, bytes] = {}
        self._bound = b""

    def messages(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """The messages that are complete with this data; the start-up message has no type."""
        self._pending += data
        found: list[tuple[bytes, bytes]] = []
        while True:
            head = 1 if self._has_begun else 0
            if len(self._pending) < head + 4:
                return found
            length = head + struct.unpack_from("!i", self._pending, head)[0]
            if len(self._pending) < length:
                return found
            found.append((self._pending[:head], self._pending[head + 4 : length]))
            self._pending = self._pending[length:]
            self._has_begun = True

    def executed(self, kind: bytes, content: bytes) -> bytes:
        """The text of the command that this message executes; empty if it executes none."""
        parts = content.split(b"\0", 2)
        if kind == b"P":
            self._statements[parts[0]] = parts[1]
        elif kind == b"B":
            self._bound = self._statements.get(parts[1], b"")
        return {b"Q": content, b"E": self._bound}.get(kind, b"")

    def abort(self) -> None:
        """Reset both ends."""
        for writer in (self.client, self.server):
            writer.transport.abort()
