"""A real node, as a user starts it, with the handlers of the benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

_ROOT = Path(__file__).resolve().parents[2]
_END_SECONDS = 30.0


class NodeProcess:
    """``pgcron-ha node`` in a folder of its own, with default settings; ends with the block."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._folder = tempfile.TemporaryDirectory(prefix="pgcron-benchmark-")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has written so far."""
        return (Path(self._folder.name) / "log").read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        environment = {
            **os.environ,
            "PGCRON_HA_DSN": self._dsn,
            "PGCRON_HA_NODE_STATE_DIRECTORY": self._folder.name,
            "PYTHONPATH": str(_ROOT),
        }
        with (Path(self._folder.name) / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "pgcron_ha", "node"),
                    *("--name", "benchmark", "--app", "tests.benchmarks.handlers:app"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder.name,
                env=environment,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._folder.cleanup()

    def check(self) -> None:
        """Raises RuntimeError with its log when it has ended by itself."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the node ended: {self.log[-2000:]}")
