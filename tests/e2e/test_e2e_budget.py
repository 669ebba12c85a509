"""How many of the server's connections a node takes, and how the server calls them."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.e2e import budget
from tests.e2e.ledger import Connection, enqueue
from tests.e2e.nodes import Cluster
from tests.product.db import ClientPool, ReadPool
from tests.waiting import until

ROLES = ("session", "claims", "admission", "endings", "takeovers", "upkeep", "listening")
TRANSACTIONS = 3
LOOK = """
    SELECT application_name, count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
      AND pid <> pg_backend_pid() GROUP BY 1
"""


async def test_a_node_takes_seven_connections_whatever_it_does(
    cluster: Cluster, connection: Connection
) -> None:
    cluster.start("a", app=budget.APP, slots=32, horizon="2s", transactions=TRANSACTIONS)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler)"
        " SELECT 's' || n, '* * * * * *', 'py:writes' FROM generate_series(1, 20) n"
    )
    runs = await enqueue(connection, "py:writes", 300, max_attempts=3)
    runs += await enqueue(connection, "py:holds", 20, delivery="transactional")
    runs += await enqueue(connection, "py:asks", 100)
    await connection.execute("SELECT pgcron.cancel_run($1, 'not needed')", runs[-1])
    most: Counter[str] = Counter()
    total = 0

    async def all_is_done() -> bool:
        nonlocal total
        seen = {row[0]: row[1] for row in await connection.fetch(LOOK)}
        total = max(total, sum(seen.values()))
        for name, count in seen.items():
            most[name] = max(most[name], count)
        ended: int = await connection.fetchval(
            "SELECT count(*) FROM pgcron.history WHERE id = ANY ($1)", runs
        )
        return ended == len(runs)

    await until("all is done", all_is_done, deadline=60)

    print(f"at most at a time: {dict(most)}, {total} in all")
    assert {name: most[name] for name in most if name.endswith(" a")} == {
        f"pgcron_ha {role} a": 1 for role in ROLES
    }
    assert 1 < most["pgcron_ha handler"] <= TRANSACTIONS
    assert 1 <= most["pgcron_ha client"] <= 4
    unnamed = set(most) - {f"pgcron_ha {role} a" for role in ROLES}
    # One that has just been made has no name yet.
    assert unnamed <= {"", "pgcron_ha handler", "pgcron_ha client"}
    assert total <= len(ROLES) + TRANSACTIONS + 4


@pytest.mark.parametrize("name", ["web", "client"])
async def test_pages_and_applications_take_four(
    name: str, database: str, connection: Connection
) -> None:
    reading, pool = ReadPool(database), ClientPool(database)

    async def ask() -> None:
        opened = reading.transaction() if name == "web" else pool.connection()
        async with opened as asking:
            await asking.fetchval("SELECT pg_sleep(0.05)")

    await asyncio.gather(*(ask() for _ in range(20)))

    found = {row[0]: row[1] for row in await connection.fetch(LOOK)}
    await reading.close()
    await pool.close()
    assert found == {f"pgcron_ha {name}": 4}
