"""The rules of admission from the 14th on: capacity gates, the claim, and what is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.db.control import (
    Connect,
    Connection,
    admit,
    call,
    claim,
    claim_limited,
    database_now,
    enqueue,
    finish,
    join,
    look_at_keys,
    minutes,
    release,
    run_row,
)
from tests.db.test_admission_rules import execute_one, skipping, waits


async def test_15_a_count_of_a_rate_is_never_given_back(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('eu', NULL, 2, '1 hour')")
    await enqueue(connection, 3, concurrency_key="eu")
    for _ in range(2):
        held = await claim_limited(connection, node, 1)
        assert await release(connection, held) == [held[0]["id"]]

    assert await claim_limited(connection, node) == []


async def test_15_a_rate_is_counted_when_a_node_with_a_free_slot_claims(
    connection: Connection,
) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 5, '1 hour')")
    await enqueue(connection, 9, concurrency_key="a")

    assert len(await claim_limited(connection, node, 1)) == 1
    assert await connection.fetchval("SELECT sum(s) FROM pgcron.rate_window, unnest(starts) s") == 1
    assert len(await claim_limited(connection, node, 9)) == 4


async def test_15_another_time_of_a_rate_does_not_close_it(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 2, '1 second')")
    await enqueue(connection, 4, concurrency_key="a")
    assert len(await claim_limited(connection, node)) == 2

    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 2, '1 day')")

    assert len(await claim_limited(connection, node)) == 2
    assert await claim_limited(connection, node) == []


async def test_15_a_limit_that_is_set_in_an_open_transaction_stops_nobody(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    for key in ("a", "b"):
        await connection.execute("SELECT pgcron.set_concurrency($1, 9, 9, '1 hour')", key)
        await enqueue(connection, 2, concurrency_key=key)
    await claim_limited(connection, node, 1)
    person = await another()
    async with person.transaction():
        await person.execute("SELECT pgcron.set_concurrency('a', 9, 9, '1 second')")
        await connection.execute("SET statement_timeout = '1s'")

        assert len(await claim_limited(connection, node)) == 3


async def test_19_full_keys_stand_in_front_of_no_other(connection: Connection) -> None:
    node, other = await join(connection), await join(connection)
    keys = [f"k{number:03}" for number in range(300)]
    for _ in range(2):
        await connection.execute(
            "INSERT INTO pgcron.run (handler, concurrency_key)"
            " SELECT 'py:work', key FROM unnest($1::text[]) key",
            keys,
        )
    assert len(await claim_limited(connection, other, 300, look=400)) == 300
    [free] = await enqueue(connection, concurrency_key="zzz")

    assert [row["id"] for row in await claim_limited(connection, node, 4)] == [free]


async def test_19_of_keys_without_running_runs_a_new_one_goes_first(connection: Connection) -> None:
    """Those in backlog, one that waits for long and has a new run, one that is running: not new."""
    node = await join(connection)
    now = await database_now(connection)
    long_since = now - minutes(1)
    await connection.execute("SELECT pgcron.set_concurrency('running', NULL)")
    await enqueue(connection, concurrency_key="running")
    await claim_limited(connection, node)
    for key in [f"k{number:02}" for number in range(30)]:
        await enqueue(connection, 2, concurrency_key=key, due_at=long_since)
    await enqueue(connection, concurrency_key="k07")
    await enqueue(connection, concurrency_key="running")
    [new] = await enqueue(connection, concurrency_key="zzz")

    for _ in range(5):  # beyond one in thirty
        rows = await look_at_keys(connection, node, 1, since=now)
        [claimed] = [row for row in rows if row["verdict"] == "claim"]
        assert claimed["id"] == new
        await release(connection, [claimed])


async def test_19_a_key_with_an_old_backlog_does_not_go_before_the_others(
    connection: Connection,
) -> None:
    node = await join(connection)
    now = await database_now(connection)
    await enqueue(connection, 100, concurrency_key="old", due_at=now - minutes(5))
    [run] = await enqueue(connection, concurrency_key="new")

    for _ in range(60):  # a chance of one in two each time
        [claimed] = await claim_limited(connection, node, 1)
        if claimed["id"] == run:
            break
        await finish(connection, [claimed])
    assert claimed["id"] == run


@pytest.mark.parametrize("kind", [{}, {"concurrency_key": "eu"}])
async def test_19_an_aged_claim_takes_what_is_due_longest_whatever_its_priority(
    connection: Connection, kind: dict[str, Any]
) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_queue('default', 100)")
    now = await database_now(connection)
    [old] = await enqueue(connection, priority=9, due_at=now - minutes(5), **kind)
    [urgent] = await enqueue(connection, priority=0)

    for aged, run in ((False, urgent), (True, old)):
        [claimed] = await claim_limited(connection, node, 1, aged=aged)
        assert claimed["id"] == run
        await release(connection, [claimed])


@pytest.mark.parametrize("gate", ["previous", "breaker"])
async def test_20_what_waits_for_an_event_is_no_demand(connection: Connection, gate: str) -> None:
    await enqueue(connection, 3, state="blocked", gate=gate)

    assert await connection.fetchval("SELECT pgcron.scale_demand()") == 0


async def test_20_what_waits_for_an_overlap_slot_is_no_demand(connection: Connection) -> None:
    node = await join(connection)
    columns = await skipping(connection, overlap="queue")
    runs = await enqueue(connection, 3, **{**columns, "overlap": "queue"})
    await execute_one(connection, node)

    assert await connection.fetchval("SELECT pgcron.scale_demand()") == 1
    row = await run_row(connection, runs[1])
    assert row is not None
    assert row["state"] == "blocked"


async def test_22_a_run_with_an_unknown_gate_reads_blocked_and_is_left_alone(
    connection: Connection,
) -> None:
    """As a newer version may write it."""
    node = await join(connection)
    await connection.execute("ALTER TABLE pgcron.run DROP CONSTRAINT a_run_keeps_its_rules")
    [run] = await enqueue(connection, state="blocked", gate="approval", requires=["gpu"])
    shown = "SELECT state, waits_for FROM pgcron.runs WHERE id = $1"
    labelled = "SELECT waits_for FROM pgcron.runs WHERE id = $1"
    assert await connection.fetchval(labelled, run) == "no_node"
    await connection.execute("UPDATE pgcron.run SET requires = NULL")

    await call(connection, "unblock", at_most=10)
    await admit(connection)
    assert await claim(connection, node) == []
    assert await claim_limited(connection, node) == []

    row = await connection.fetchrow(shown, run)
    assert row is not None
    assert tuple(row) == ("blocked", "blocked")
    assert await waits(connection, run) == ("blocked", "approval", None)
