"""The network between one node and the server, as bad as a test wants it.

Questions and answers can stall apart, arrive late, or get lost after the server has done what was
asked; connections can be reset; new ones can be refused or be accepted and never served.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from pathlib import Path
from typing import Final, Self

_CHUNK: Final = 65536
_READY: Final = b"Z\x00\x00\x00\x05"
_READY_BYTES: Final = 6
_RESET: Final = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on 127.0.0.1 and forwards to a unix socket; ``async with Proxy(path) as proxy``."""

    def __init__(self, path: Path) -> None:
        self.lost_answers = 0
        self.is_refusing = False
        """New connections are reset."""
        self.is_half_open = False
        """New connections are accepted and hear nothing, as behind a dead router."""
        self.delay = 0.0
        """Seconds that each piece of data is late, in each direction."""
        self._path = path
        self._questions_pass = _open_gate()
        self._answers_pass = _open_gate()
        self._answers_to_lose = 0
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def stall(self, *, questions: bool, answers: bool = True) -> None:
        """Nothing passes any more in these directions, and nobody is told."""
        if questions:
            self._questions_pass.clear()
        if answers:
            self._answers_pass.clear()

    def cut(self) -> None:
        """A partition: nothing passes, and new connections hear nothing."""
        self.stall(questions=True)
        self.is_half_open = True

    def lose_answers(self, count: int) -> None:
        """The next answers are given by the server and never arrive: the connection is reset."""
        self._answers_to_lose = count

    def reset(self) -> None:
        """RST to both ends of every connection."""
        for pair in list(self._pairs):
            pair.reset()

    def heal(self) -> None:
        """Everything passes; connections that were opened in a partition are reset."""
        was_half_open, self.is_half_open = self.is_half_open, False
        self.is_refusing = False
        self.delay = 0.0
        self._answers_to_lose = 0
        self._questions_pass.set()
        self._answers_pass.set()
        if was_half_open:
            for pair in [each for each in self._pairs if each.server is None]:
                pair.reset()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.heal()
        self.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        pair = _Pair(writer)
        self._pairs.add(pair)
        try:
            if not self.is_refusing:
                await self._serve(pair, reader)
        except OSError:
            pass  # one end broke: so does the other
        except asyncio.CancelledError:
            pass  # the end of the test
        finally:
            pair.reset()
            self._pairs.discard(pair)
            self._tasks.discard(task)

    async def _serve(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        if self.is_half_open:
            while await reader.read(_CHUNK):
                pass
            return
        upstream_reader, pair.server = await asyncio.open_unix_connection(str(self._path))
        questions = asyncio.ensure_future(self._pass_questions(pair, reader, pair.server))
        answers = asyncio.ensure_future(self._pass_answers(pair, upstream_reader))
        try:
            await asyncio.wait({questions, answers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pair.reset()
            questions.cancel()
            answers.cancel()
            await asyncio.gather(questions, answers, return_exceptions=True)

    async def _pass_questions(
        self, pair: _Pair, reader: asyncio.StreamReader, server: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(_CHUNK):
            await self._questions_pass.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            server.write(data)
            await server.drain()

    async def _pass_answers(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        tail = b""
        while data := await reader.read(_CHUNK):
            await self._answers_pass.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            tail = (tail + data)[-_READY_BYTES:]
            if self._answers_to_lose and tail[:-1] == _READY:
                self._answers_to_lose -= 1
                self.lost_answers += 1
                return
            pair.client.write(data)
            await pair.client.drain()


class _Pair:
    """Both ends of one connection; no server yet, or never, in a partition."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.server: asyncio.StreamWriter | None = None

    def reset(self) -> None:
        for writer in (self.client, self.server):
            if writer is not None and not writer.transport.is_closing():
                with contextlib.suppress(OSError):
                    end = writer.get_extra_info("socket")
                    if end is not None and end.family == socket.AF_INET:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate
