"""Ten nodes that decide the same schedules."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.e2e.ledger import Connection, unaccounted
from tests.e2e.nodes import Cluster
from tests.product.spec import parse_spec
from tests.waiting import until, wait_for

SCHEDULES = 500
NODES = 10
FIRES = 2000

# Some fire often, so that nodes meet at the same cursors again and again; most now and then.
SPECS = ["*/7 * * * * *", "* * * * *", "*/20 * * * * *", "every 11s", "30 * * * * *"] * 2
OFTEN = ["* * * * * *", "every 1s from 2026-01-01T00:00Z", "*/2 * * * * *\n1-59/2 * * * * *"]


@pytest.mark.long
async def test_ten_nodes_decide_each_fire_of_five_hundred_schedules_once(
    cluster: Cluster, connection: Connection
) -> None:
    specs = [OFTEN[at % 3] if at % 25 == 0 else SPECS[at % 10] for at in range(SCHEDULES)]
    nodes = [cluster.spawn(f"n{number}", horizon="6s") for number in range(NODES)]
    for node in nodes:
        wait_for(f"{node.name} has joined", node.has_joined, deadline=60)
    await connection.executemany(
        "INSERT INTO pgcron.schedule (name, spec, handler, overlap)"
        " VALUES ($1, $2, 'py:work', 'allow')",
        [(f"s{number}", spec) for number, spec in enumerate(specs)],
    )

    async def are_many() -> bool:
        count: int = await connection.fetchval("SELECT count(*) FROM pgcron.occurrence")
        return count >= FIRES

    await until(f"{FIRES} fires are decided", are_many, deadline=60, pause=0.2)
    # One statement, one snapshot: ledger and cursors as they stood at one instant.
    rows = await connection.fetch(
        "SELECT s.name, s.spec, c.since, c.watermark,"
        " (SELECT array_agg(o.fire_at ORDER BY o.fire_at) FROM pgcron.occurrence o"
        "   WHERE o.schedule_id = s.id AND o.decision = 'run') AS fires,"
        " (SELECT array_agg(ARRAY[m.first_at, m.last_at]) FROM pgcron.missed m"
        "   WHERE m.schedule_id = s.id AND m.reason = 'catchup_latest') AS late,"
        " (SELECT sum(m.fires) FROM pgcron.missed m WHERE m.schedule_id = s.id) AS missed"
        " FROM pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id"
    )

    fires = 0
    assert len(rows) == SCHEDULES
    for row in rows:
        owed = parse_spec(row["spec"]).between(row["since"], row["watermark"], 10_000)
        run = set(row["fires"] or [])
        # On a busy machine nodes come to a schedule when some of its fires are late already.
        ranges = row["late"] or []
        missed = {fire for fire in owed if any(a <= fire <= b for a, b in ranges)} - run
        assert len(missed) == (row["missed"] or 0), row["name"]
        assert sorted(run | missed) == owed, row["name"]
        fires += len(run)
    print(f"{fires} fires, each decided once by {NODES} nodes")
    assert fires >= FIRES
    assert await unaccounted(connection) == 0
    deciders = {fact["node"] for node in nodes for fact in node.events("NodeJoined")}
    assert len(deciders) == NODES
    executed: dict[int, int] = defaultdict(int)
    for event in cluster.evidence.events("start"):
        executed[event.run] += 1
    assert executed
    assert set(executed.values()) == {1}
