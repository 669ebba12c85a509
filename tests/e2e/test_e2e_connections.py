"""Connections that break again and again, in the middle of whatever is under way."""

from __future__ import annotations

from collections import Counter

import asyncpg
import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection, ended, enqueue, unaccounted
from tests.e2e.nodes import Cluster
from tests.waiting import until

STORM_SECONDS = 6.0


@pytest.mark.long
async def test_no_run_is_lost_or_runs_twice_at_once_while_connections_are_ended(
    cluster: Cluster, connection: Connection, database: str
) -> None:
    evidence = cluster.evidence
    nodes = [cluster.start(name, horizon="4s") for name in ("a", "b")]
    for number in range(4):
        await connection.execute(
            "INSERT INTO pgcron.schedule (name, spec, handler, overlap, args)"
            " VALUES ($1, '* * * * * *', 'py:work', $2, '{\"seconds\": 0.4}')",
            f"s{number}",
            "skip" if number % 2 else "allow",
        )
    runs: list[int] = []
    storm = await asyncpg.connect(database)
    end = boottime() + STORM_SECONDS
    broken = 0

    async def breaks_and_enqueues() -> bool:
        nonlocal broken
        broken += await storm.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND random() < 0.15"
            "   AND pid NOT IN (pg_backend_pid(), $1)",
            connection.get_server_pid(),
        )
        runs.extend(await enqueue(connection, "py:work", 5, args={"seconds": 0.05}))
        return boottime() > end

    await until("the storm is over", breaks_and_enqueues, deadline=60, pause=0.05)
    await storm.close()
    rows = await ended(connection, *runs)
    await connection.execute("UPDATE pgcron.schedule SET enabled = false")
    await until("nothing lives", lambda: nothing_lives(connection))

    attempts = Counter(row["attempt"] for row in rows)
    print(f"{broken} connections were ended under {len(runs)} runs; attempts: {dict(attempts)}")
    assert broken > 20
    assert {row["outcome"] for row in rows} == {"succeeded"}
    assert len({row["id"] for row in rows}) == len(rows)
    assert evidence.overlaps() == []
    starts = Counter(event.run for event in evidence.events("start"))
    assert {starts[run] for run in runs} == {1}
    assert attempts.keys() == {1}  # a broken connection costs no attempt
    assert not any(node.has_ended() or node.events("NodeFenced") for node in nodes)
    assert await unaccounted(connection) == 0


async def nothing_lives(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT count(*) FROM pgcron.run")
