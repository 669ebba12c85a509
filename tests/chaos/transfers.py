"""``python -m tests.chaos.transfers``: money moves while a node is killed every second.

Prints what each kind of delivery came to. Exit code: 0 all promises kept, 1 one broken.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.nodes import Cluster
from tests.e2e.transfers import Report, play
from tests.product.db import migrate
from tests.servers import ThrowAwayServer, remove_leftovers
from tests.sessions import own_session


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays, prints; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="transfers")
    parser.add_argument("--seconds", type=float, default=60, help="within which they fall due")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    remove_leftovers()
    report = asyncio.run(_play(options))
    print("\n".join(report.lines()))
    return 1 if report.broken else 0


async def _play(options: argparse.Namespace) -> Report:
    with tempfile.TemporaryDirectory() as folder, ThrowAwayServer() as server:
        dsn = server.create_database("bank")
        await migrate(dsn)
        connection = await own_session(dsn)
        cluster = Cluster(dsn, Path(folder))
        try:
            return await play(
                cluster,
                connection,
                options.count,
                seconds=options.seconds,
                pause=options.pause,
                seed=options.seed,
            )
        finally:
            for node in cluster.nodes:
                node.close()
            await connection.close()


if __name__ == "__main__":
    sys.exit(main())
