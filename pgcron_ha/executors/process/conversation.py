"""What a node and another process of its say to each other over a socket: JSON, one message a line.
Nothing here waits.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Room for args or a result with each character escaped, and a traceback. A longer message is
invalid."""

_RECEIVE_BYTES: Final = 65536


class BadMessage(Exception):
    """What arrived is no message of this protocol."""


class Incoming:
    """Bytes as they arrive, messages as they are complete."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def take(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The messages that these bytes complete. Raises `BadMessage`."""
        self._bytes += data
        *complete, self._bytes = self._bytes.split(b"\n")
        if len(self._bytes) > MAX_MESSAGE_BYTES:
            raise BadMessage(f"a message of more than {MAX_MESSAGE_BYTES} bytes")
        for line in complete:
            yield _parsed(line)


class Conversation:
    """The node's end of it. ``allowance`` sinks by the bytes that arrive."""

    def __init__(self) -> None:
        self.allowance = 0
        self._incoming = Incoming()
        self._outgoing: deque[tuple[memoryview, tuple[int, ...]]] = deque()

    def open_socket(self) -> socket.socket:
        """Make the socket; gives the other process's end. Raises OSError."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        return theirs

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self.socket.fileno()

    @property
    def is_writing(self) -> bool:
        """Whether messages wait for room in the socket."""
        return bool(self._outgoing)

    def queue(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """`flush` sends it; its descriptors are closed here once they are on their way."""
        self._outgoing.append((memoryview(message_bytes(message)), descriptors))

    def flush(self) -> None:
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
                return
            except OSError:
                _close(descriptors)
                self.drop_outgoing()
                return
            _close(descriptors)
            if sent < len(data):
                self._outgoing.appendleft((data[sent:], ()))

    def received(self) -> list[dict[str, Any]] | None:
        """The messages that have arrived; None at the end of the stream. Raises `BadMessage`."""
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.allowance -= len(data)
        return list(self._incoming.take(data)) if data else None

    def drop_outgoing(self) -> None:
        """What waits is not sent any more."""
        while self._outgoing:
            _close(self._outgoing.popleft()[1])


def message_bytes(message: dict[str, Any]) -> bytes:
    """The bytes of a message."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes | bytearray) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"no JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadMessage("no JSON object")
    return message


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
