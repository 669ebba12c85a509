"""Nobody starves: no low priority behind a flood, and no tenant behind one with much more.

Judged by the numbers that claims get (fences), not by how long anything took.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster
from tests.product.engine import AGEING_EVERY
from tests.waiting import until

NODES = 2
SLOTS = 2
PREFETCH = 4
FLOOD = 3000
BACKLOG = 5000
CLAIMED_AT_ONCE = SLOTS + PREFETCH
# Of each node, before the one that takes the run: one that was under way, and one that found its
# key locked by the other node.
_CLAIMS_BEFORE = 2


async def start_nodes(cluster: Cluster) -> None:
    nodes = [cluster.spawn(f"n{each}", slots=SLOTS, prefetch=PREFETCH) for each in range(NODES)]
    for node in nodes:
        await until(f"{node.name} has joined", node.has_joined, deadline=60)


async def claimed_between(connection: Connection, fence: int, run: int) -> int:
    """How many runs were claimed after that number was given and before this run."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM (SELECT fence FROM pgcron.run UNION ALL SELECT fence FROM"
        " pgcron.history) claims WHERE claims.fence > $1"
        " AND claims.fence < (SELECT h.fence FROM pgcron.history h WHERE h.id = $2)",
        fence,
        run,
    )
    return count


@pytest.mark.parametrize("keys", [(None, None), ("tenant-a", "tenant-b")])
async def test_a_low_priority_has_its_turn_under_a_flood_of_high_ones(
    keys: tuple[str | None, str | None], cluster: Cluster, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_concurrency('tenant-*', NULL)")
    [low] = await enqueue(connection, "py:work", priority=9, concurrency_key=keys[0])
    await enqueue(connection, "py:work", FLOOD, priority=0, concurrency_key=keys[1])

    await start_nodes(cluster)
    await ended(connection, low, deadline=60)

    before = await claimed_between(connection, 0, low)
    print(f"{before} of the flood were claimed before it")
    assert 0 < before <= _CLAIMS_BEFORE * NODES * AGEING_EVERY * CLAIMED_AT_ONCE
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'ready'")


async def test_a_tenant_with_little_does_not_wait_for_one_with_much(
    cluster: Cluster, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_concurrency('tenant-*', NULL)")
    await enqueue(
        connection, "py:work", BACKLOG, args={"seconds": 0.01}, concurrency_key="tenant-a"
    )
    await start_nodes(cluster)
    await until("the backlog is worked at", partial(_have_begun, cluster, 50))

    runs = await enqueue(connection, "py:work", 3, concurrency_key="tenant-b")
    fence = await connection.fetchval("SELECT last_value FROM pgcron.fence")
    await ended(connection, *runs, deadline=60)

    before = [await claimed_between(connection, fence, run) for run in runs]
    print(f"claims of the other before each of the three: {before}")
    assert max(before) <= _CLAIMS_BEFORE * NODES * CLAIMED_AT_ONCE
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'ready'")


async def test_a_new_key_does_not_wait_for_a_thousand_keys_in_backlog(
    cluster: Cluster, connection: Connection
) -> None:
    await connection.execute(
        """INSERT INTO pgcron.run (handler, args, concurrency_key)
           SELECT 'py:work', '{"seconds": 0.01}', 'tenant-' || number % 1000
           FROM generate_series(1, $1::int) number""",
        BACKLOG,
    )
    await start_nodes(cluster)
    await until("the backlog is worked at", partial(_have_begun, cluster, 50))

    before = []
    for number in range(5):
        fence = await connection.fetchval("SELECT last_value FROM pgcron.fence")
        [run] = await enqueue(connection, "py:work", concurrency_key=f"new-{number}")
        await ended(connection, run, deadline=60)
        before.append(await claimed_between(connection, fence, run))
    print(f"claims of the others before each of the new keys: {before}")
    # Of each node's claims every other one looks for new keys.
    assert max(before) <= 2 * _CLAIMS_BEFORE * NODES * CLAIMED_AT_ONCE
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'ready'")


def _have_begun(cluster: Cluster, count: int) -> bool:
    return cluster.evidence.count("start") >= count
