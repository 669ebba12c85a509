"""Backfills by several nodes, some of which die."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.ledger import Connection
from tests.e2e.nodes import Cluster
from tests.product.db import backfills
from tests.waiting import until

DAY = datetime(2026, 2, 3, tzinfo=UTC)
MINUTES = 240
PARALLELISM = 12


@pytest.mark.long
async def test_a_backfill_outlives_its_nodes_and_runs_each_instant_once(
    cluster: Cluster, connection: Connection
) -> None:
    nodes = [cluster.start(name, slots=8) for name in ("a", "b", "c")]
    await connection.execute(
        "SELECT pgcron.put_schedule('minutely', '* * * * *', 'py:work', $1::text::jsonb,"
        " overlap => 'allow', enabled => false)",
        json.dumps({"seconds": 0.1}),
    )
    backfill = await backfills.backfill(
        connection,
        "minutely",
        DAY,
        DAY + timedelta(minutes=MINUTES),
        parallelism=PARALLELISM,
        direction="backward",
    )
    most_open = 0

    async def has_begun(succeeded: int) -> bool:
        nonlocal most_open
        alive = await connection.fetchval("SELECT count(*) FROM pgcron.run")
        most_open = max(most_open, alive)
        row = await backfills.one_backfill(connection, backfill)
        return bool(row["succeeded"] >= succeeded)

    await until("a third has run", lambda: has_begun(MINUTES // 3))
    nodes[0].kill9()
    await until("two thirds have run", lambda: has_begun(2 * MINUTES // 3))
    nodes[1].kill9()
    await until("all have run", lambda: has_begun(MINUTES))

    row = await backfills.one_backfill(connection, backfill)
    print(f"{MINUTES} instants, at most {most_open} runs were alive at once")
    assert [row[key] for key in ("state", "planned", "already", "created", "failed", "open")] == [
        "done",
        MINUTES,
        0,
        MINUTES,
        0,
        0,
    ]
    fires = await connection.fetch(
        "SELECT scheduled_for, outcome FROM pgcron.history WHERE origin = 'backfill' ORDER BY 1"
    )
    assert [tuple(fire) for fire in fires] == [
        (DAY + timedelta(minutes=number), "succeeded") for number in range(MINUTES)
    ]
    completed = [event.run for event in cluster.evidence.events("end")]
    assert len(completed) == len(set(completed)) == MINUTES
    assert most_open <= PARALLELISM
