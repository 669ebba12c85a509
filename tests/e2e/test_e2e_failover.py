"""A standby takes over: nodes whose DSN names both go on there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from pgcron_ha.db.schema import migrate
from tests.db import control
from tests.e2e.nodes import Cluster
from tests.servers import PASSWORD, USER, ThrowAwayServer
from tests.waiting import until


@pytest.fixture
def primary() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer(tcp=True) as server:
        yield server


async def test_a_node_goes_on_where_the_standby_was_promoted(
    primary: ThrowAwayServer, tmp_path: Path
) -> None:
    await migrate(primary.tcp_dsn())
    standby = ThrowAwayServer(tcp=True)
    try:
        standby.follow(primary)
        places = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        with Cluster(f"postgresql://{USER}:{PASSWORD}@{places}/postgres", tmp_path) as cluster:
            node = cluster.start("a")
            before = await asyncpg.connect(primary.dsn())
            await control.enqueue(before, 3, handler="py:work")
            ended = "SELECT count(*) FROM pgcron.history WHERE outcome = 'succeeded'"
            await until("they succeed", lambda: _is(before, ended, 3))
            await before.close()
            primary.stop("fast")  # sends all that it has to the standby before it goes

            standby.execute("SELECT pg_promote(true, 30)")
            after = await asyncpg.connect(standby.dsn())
            await control.enqueue(after, 3, handler="py:work")
            await until("these succeed there", lambda: _is(after, ended, 6), deadline=30)
            await after.close()

            assert not node.has_ended()
            assert cluster.evidence.count("start") == cluster.evidence.count("end") == 6
    finally:
        standby.close()


async def _is(connection: asyncpg.Connection, query: str, count: int) -> bool:
    return bool(await connection.fetchval(query) == count)
