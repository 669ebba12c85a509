"""A real ``pgcron-ha web``, as a user starts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, NamedTuple, Self

_ROOT: Final = Path(__file__).resolve().parents[2]
_SERVES: Final = re.compile(r"(?:open|serving) +http://127\.0\.0\.1:(\d+)(/enter/\S+|/ with login)")
_LOOK_SECONDS: Final = 0.02
_START_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0
_END_SECONDS: Final = 20.0


class Answer(NamedTuple):
    """How long a request took until its last byte, and what came."""

    seconds: float
    status: int
    text: str


class WebProcess:
    """The server of one database's pages; ends with the block. One `behind_proxy` is told by each
    request who sends it.
    """

    def __init__(self, dsn: str, *, behind_proxy: bool = False) -> None:
        self._dsn = dsn
        self._login = {"PGCRON_HA_AUTH_PROXY_ADDRESSES": "127.0.0.1"} if behind_proxy else {}
        self._folder = tempfile.TemporaryDirectory(prefix="pgcron-benchmark-")
        self._log = Path(self._folder.name) / "log"

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pgcron_ha", "web", "--listen", "127.0.0.1:0"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder.name,
                env={
                    **os.environ,
                    "PGCRON_HA_DSN": self._dsn,
                    "PYTHONPATH": str(_ROOT),
                    "PYTHONUNBUFFERED": "1",
                    **self._login,
                },
            )
        try:
            self.port = self._listened_port()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        finally:
            self._process.kill()
            self._folder.cleanup()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def visitor(self, user: str | None = None) -> Visitor:
        """Somebody with a connection of his own; behind a proxy this user."""
        return Visitor(self.port, {"X-Forwarded-User": user} if user else {"Cookie": self._cookie})

    def _listened_port(self) -> int:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            found = _SERVES.search(self._log.read_text(encoding="utf-8", errors="replace"))
            if found is not None:
                if not self._login:
                    self._cookie = _cookie_of(int(found[1]), found[2])
                return int(found[1])
            time.sleep(_LOOK_SECONDS)
        raise RuntimeError(f"the web does not serve: {self._log.read_text()[-2000:]}")


def _cookie_of(port: int, path: str) -> str:
    """What the server gives for the key that it has printed."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
    connection.request("GET", path)
    cookie = connection.getresponse().headers["set-cookie"]
    connection.close()
    return cookie.partition(";")[0]


class Visitor:
    """One connection that is kept open, as a browser's. Blocks; for one thread."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._headers = headers
        self._connection = HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)

    def get(self, path: str, *, is_live: bool = False) -> Answer:
        """A page; `is_live` as the page's script asks for it again."""
        headers = self._headers | ({"X-Pgcron-Live": "1"} if is_live else {})
        began = time.perf_counter()
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read()
        seconds = time.perf_counter() - began
        return Answer(seconds, answer.status, body.decode(errors="replace"))

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()
