"""The baseline of latencies: the bare loop, woken by NOTIFY.

``python -m tests.benchmarks.bare_listener DSN``: says ``ready`` once it listens, then runs what is
in ``bare_job`` whenever it is notified, until SIGTERM. Each start is recorded as a node's handler
records it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

import asyncpg
import uvloop

from tests.benchmarks.bare_loop import BATCH, CLAIM, COMPLETE
from tests.benchmarks.starts import VARIABLE, StartRecorder
from tests.sessions import own_session

CHANNEL: Final = "bare_job"
_ROOT: Final = Path(__file__).resolve().parents[2]
_END_SECONDS: Final = 10.0
_starts = StartRecorder()


async def stamp(job: int, asked_at: float) -> None:
    """What a node's handler does."""
    _starts.record(job, 1, asked_at)


async def empty(claiming: asyncpg.Connection, completing: asyncpg.Connection) -> None:
    """Run what is there."""
    claimed = await claiming.fetch(CLAIM, BATCH)
    while claimed:
        for row in claimed:
            await stamp(row["id"], json.loads(row["payload"])["asked_at"])
        ended = [row["id"] for row in claimed]
        claimed, _ = await asyncio.gather(
            claiming.fetch(CLAIM, BATCH), completing.execute(COMPLETE, ended)
        )


async def main(dsn: str) -> None:
    """Until the process is told to stop."""
    stopped, woken = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        stopped.set()
        woken.set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    claiming, completing, listening = [await own_session(dsn) for _ in range(3)]
    await listening.add_listener(CHANNEL, lambda *_: woken.set())
    print("ready", flush=True)
    while not stopped.is_set():
        woken.clear()
        await empty(claiming, completing)
        await woken.wait()
    for connection in (claiming, completing, listening):
        await connection.close()


class BareListener:
    """The process; ends with the block."""

    def __init__(self, dsn: str, starts: Path) -> None:
        self._dsn = dsn
        self._starts = starts

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.bare_listener", self._dsn],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            env={**os.environ, VARIABLE: str(self._starts)},
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise RuntimeError("the bare loop does not listen")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=_END_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
