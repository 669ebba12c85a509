"""Messages over a socket between a node and another process: JSON, one message a line."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio  # which the small process that supervises others does without

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Room for args or a result with each character escaped, and a traceback. A longer message is
invalid."""

RECEIVE_BYTES: Final = 65536


class Incoming:
    """Bytes as they arrive, messages as they are complete."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def take(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The messages that these bytes complete. Raises ValueError and RecursionError."""
        self._bytes += data
        *complete, self._bytes = self._bytes.split(b"\n")
        if len(self._bytes) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of more than {MAX_MESSAGE_BYTES} bytes")
        for line in complete:
            yield json.loads(line)


class Conversation:
    """The node's end of the socket. After `listen` it is used on that event loop only.

    ``is_heard`` until the other process has closed its end, or has sent what is no message.
    """

    def __init__(self) -> None:
        """Makes the socket; ``theirs`` is the other process's end. Raises OSError."""
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.is_heard = False
        self._incoming = Incoming()
        self._outgoing: deque[tuple[memoryview, tuple[int, ...]]] = deque()

    def listen(
        self,
        loop: asyncio.AbstractEventLoop,
        hear: Callable[[dict[str, Any]], None],
        lost: Callable[[Exception | None], None],
    ) -> None:
        """Give each message to ``hear``. ``lost`` is called once, with None when the other process
        has closed its end, else with the error that a message of it has raised.
        """
        self._loop, self._hear, self._lost = loop, hear, lost
        self.is_heard = True
        loop.add_reader(self.socket, self.receive)

    def send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Its descriptors are closed here once they are on their way. What the socket does not take
        is sent later; nothing is sent to a process that is not heard.
        """
        self._outgoing.append((memoryview(message_bytes(message)), descriptors))
        if self.is_heard:
            self._flush()

    def receive(self) -> bool:
        """Read what has arrived, a part of it if that is much; whether there may be more."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        problem: Exception | None = None
        try:
            for message in self._incoming.take(data):
                self._hear(message)
        except Exception as error:  # it is no JSON, or has other members than it should
            problem = error
        if problem is not None or not data:
            self._ignore()
            self._lost(problem)
            return False
        return True

    def receive_rest(self) -> None:
        """Read what a process sent before it ended."""
        while self.is_heard and self.receive():
            pass

    def hang_up(self) -> None:
        """Send nothing more: the other process ends."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Messages that wait are not sent; no more are read."""
        self._ignore()
        while self._outgoing:
            _close(self._outgoing.popleft()[1])
        self.socket.close()
        self.theirs.close()

    def _ignore(self) -> None:
        if self.is_heard:
            self.is_heard = False
            self._loop.remove_reader(self.socket)
            self._loop.remove_writer(self.socket)

    def _flush(self) -> None:
        """Send as much as the socket takes. A process that is gone shows elsewhere."""
        while self._outgoing:
            data, descriptors = self._outgoing.popleft()
            try:
                if descriptors:
                    sent = socket.send_fds(self.socket, [data], list(descriptors))
                else:
                    sent = self.socket.send(data)
            except BlockingIOError:
                self._outgoing.appendleft((data, descriptors))
                self._loop.add_writer(self.socket, self._flush)
                return
            except OSError:
                sent = len(data)
            _close(descriptors)
            if sent < len(data):
                self._outgoing.appendleft((data[sent:], ()))
        self._loop.remove_writer(self.socket)


def message_bytes(message: dict[str, Any]) -> bytes:
    """The bytes of a message; ids and instants become texts."""
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
