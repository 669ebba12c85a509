"""From an installed package to the first executed job: ``pgcron-ha demo`` in a new folder.

It makes a PostgreSQL, starts it, migrates, starts nodes and runs a job. The baseline is a
PostgreSQL alone, made and started.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.drains import median
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground
from tests.benchmarks.sizes import Sizes
from tests.servers import ThrowAwayServer

_SAID = "first job executed"
_END_SECONDS = 120.0


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """In turn with the baseline."""
    result = Result(
        "first_run", "initdb and start of the same PostgreSQL alone", {"rounds": sizes.first_runs}
    )
    demos: list[float] = []
    servers: list[float] = []
    for _ in range(sizes.first_runs):
        servers.append(await asyncio.to_thread(_server_seconds))
        demos.append(await asyncio.to_thread(_demo_seconds))
    result.add("first job executed after, median", median(demos), "s", median(servers), "≤ 5")
    result.add("first job executed after, worst", max(demos), "s", max(servers), "≤ 5")
    result.details["seconds"] = {"demo": demos, "server": servers}
    return result.finished()


def _server_seconds() -> float:
    began = time.monotonic()
    with ThrowAwayServer(durable=True):
        return time.monotonic() - began


def _demo_seconds() -> float:
    """Raises RuntimeError with what the demo printed when no job was executed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PGCRON_")}
    printed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pgcron-benchmark-") as folder:
        os.chmod(folder, 0o755)  # root's server runs as another user
        began = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-m", "pgcron_ha", "demo", "--for", "1", "--data", f"{folder}/demo"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
            env={**own, "PYTHONUNBUFFERED": "1"},
        ) as demo:
            assert demo.stdout is not None
            first = None
            for line in demo.stdout:
                printed.append(line)
                if _SAID in line:
                    first = time.monotonic() - began
                    break
            demo.communicate(timeout=_END_SECONDS)
    if first is None:
        raise RuntimeError(f"no job was executed: {''.join(printed)[-2000:]}")
    return first
