"""Packages ``tzdata`` as an update would install them, with a zone whose rules a test writes, and
the materializers of nodes, and commands, in processes of their own that have them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import sys
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ZONE: Final = "Europe/Vienna"
"""Any would do."""

Offsets = list[tuple[datetime, int]]
"""From when on the clocks are so many hours ahead of UTC; the first is for ever before."""

_PROGRAM: Final = """
import asyncio, sys, uuid
from pgcron_ha.db.driver.link import Link
from pgcron_ha.engine.materialize.materializer import Materializer
from pgcron_ha.spec.zones import TZDATA
from pgcron_ha.telemetry.log import set_up

async def main():
    set_up("text", "info")
    link = Link(sys.argv[1])
    node = {"incarnation": uuid.uuid4()}
    of_node = {"name": TZDATA, "host": "here", "process_id": 1, "version": "0", "tzdata": TZDATA}
    of_node |= {"home": None, "lease_ttl": 60, "slots": 1, "queues": [], "labels": "{}"}
    await link.rows("join_node", **node, **of_node)
    materializer = Materializer(link, horizon=float(sys.argv[2]))
    for _ in range(int(sys.argv[3])):
        if await materializer.run_once() is None:
            break
    await link.rows("leave", **node, reason="the test is over")
    await link.close()

asyncio.run(main())
"""


def tzif(offsets: Offsets) -> bytes:
    """A TZif file (RFC 8536) of these offsets."""
    hours = sorted({hour for _, hour in offsets})
    kinds = b"".join(struct.pack(">lbb", hour * 3600, 0, 4 * at) for at, hour in enumerate(hours))
    names = b"".join(f"{hour:+03d}".encode() + b"\0" for hour in hours)

    def block(width: str, kept: Offsets) -> bytes:
        times = b"".join(struct.pack(f">{width}", int(at.timestamp())) for at, _ in kept)
        which = bytes(hours.index(hour) for _, hour in kept)
        counts = (0, 0, 0, len(kept), len(hours), len(names))
        head = b"TZif2" + bytes(15) + struct.pack(">6l", *counts)
        return head + times + which + kinds + names

    last = offsets[-1][1]
    footer = f"\n<{last:+03d}>{-last}\n".encode()
    first = datetime(1970, 1, 1, tzinfo=UTC)
    kept = [(first, offsets[0][1]), *offsets[1:]]
    return block("l", kept) + block("q", kept) + footer


def install(folder: Path, version: str, offsets: Offsets) -> Path:
    """A folder for PYTHONPATH with the installed package as that version would be."""
    package = folder / version / "tzdata"
    installed = resources.files("tzdata")
    with resources.as_file(installed) as source:
        shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").write_text(f'IANA_VERSION = "{version}"\n', encoding="utf-8")
    (package / "zoneinfo" / ZONE).write_bytes(tzif(offsets))
    return package.parent


async def materialize(
    dsn: str, package: Path, *, horizon: float = 4 * 3600, passes: int = 200
) -> str:
    """What a node that has this package tells in its passes, until it rests and leaves."""
    return await _reported(await start(dsn, package, horizon=horizon, passes=passes))


async def verify(dsn: str, package: Path) -> str:
    """What ``schedules verify`` says where this package is installed: that nothing is wrong."""
    return await _reported(
        await _start(package, "-m", "pgcron_ha", "schedules", "verify", PGCRON_HA_DSN=dsn)
    )


async def start(
    dsn: str, package: Path, *, horizon: float = 4 * 3600, passes: int = 200
) -> asyncio.subprocess.Process:
    """Such a process, begun."""
    return await _start(package, "-c", _PROGRAM, dsn, str(horizon), str(passes))


async def _start(package: Path, *arguments: str, **more: str) -> asyncio.subprocess.Process:
    path = os.pathsep.join([str(package), str(ROOT)])
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **more},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def _reported(process: asyncio.subprocess.Process) -> str:
    reported, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, reported.decode()
    return reported.decode()
