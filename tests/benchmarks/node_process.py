"""A real node, as a user starts it, with the handlers of the benchmarks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import asyncpg

from tests.benchmarks.starts import VARIABLE

_ROOT = Path(__file__).resolve().parents[2]
_END_SECONDS = 60.0


class NodeProcess:
    """``pgcron-ha node``, with default settings but for those given; ends with the block.

    `settings` are environment variables without their prefix (``NODE_SLOTS``). The handlers' starts
    go to `starts`. A node with the `state` folder of an earlier one is its successor.
    """

    def __init__(
        self,
        dsn: str,
        settings: Mapping[str, str] | None = None,
        *,
        name: str = "benchmark",
        starts: Path | None = None,
        state: Path | None = None,
    ) -> None:
        self._dsn = dsn
        self._settings = settings or {}
        self._name = name
        self._starts = starts
        self._folder = tempfile.TemporaryDirectory(prefix="pgcron-benchmark-")
        self._state = state or Path(self._folder.name)
        self.started_at = 0.0

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has written so far."""
        return (Path(self._folder.name) / "log").read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        self.started_at = time.time()
        with (Path(self._folder.name) / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "pgcron_ha", "node"),
                    *("--name", self._name, "--app", "tests.benchmarks.handlers:app"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder.name,
                env=self._environment(),
            )
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.terminate()
            self._process.wait(_END_SECONDS)
        finally:
            self.kill()
            self._folder.cleanup()

    def terminate(self) -> float:
        """SIGTERM; the instant, in seconds since 1970."""
        at = time.time()
        self._process.terminate()
        return at

    def kill(self) -> float:
        """SIGKILL; the instant after which it did nothing any more."""
        self._process.kill()
        self._process.wait()
        return time.time()

    async def ended_at(self) -> float:
        """Waits until the process is gone; that instant, since 1970."""
        await asyncio.to_thread(self._process.wait, _END_SECONDS)
        return time.time()

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def check(self) -> None:
        """Raises RuntimeError with its log when it has ended by itself."""
        if self.has_ended:
            raise RuntimeError(f"the node ended: {self.log[-2000:]}")

    async def incarnation(self, observer: asyncpg.Connection) -> str | None:
        """Its row's key as text once it has joined and offers its handlers; else None."""
        self.check()
        found: str | None = await observer.fetchval(
            "SELECT incarnation::text FROM pgcron.node WHERE process_id = $1 AND state = 'alive'"
            " AND incarnation IN (SELECT incarnation FROM pgcron.offer)",
            self.pid,
        )
        return found

    def _environment(self) -> dict[str, str]:
        environment = {
            **os.environ,
            "PGCRON_HA_DSN": self._dsn,
            "PGCRON_HA_NODE_STATE_DIRECTORY": str(self._state),
            "PYTHONPATH": str(_ROOT),
            **{f"PGCRON_HA_{name}": value for name, value in self._settings.items()},
        }
        if self._starts is not None:
            environment[VARIABLE] = str(self._starts)
        return environment
