from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.db.control import (
    Connect,
    Connection,
    Node,
    Row,
    call,
    claim,
    enqueue,
    join,
    waits_for_lock,
)


async def beat(connection: Connection, node: Node) -> list[Row]:
    return await call(
        connection,
        "beat",
        incarnation=node.incarnation,
        slots_used=1,
        is_draining=False,
        health=None,
        is_unresponsive=False,
    )


async def declare_dead(connection: Connection, node: Node, sequence: int) -> bool:
    rows = await call(
        connection, "declare_dead", incarnation=node.incarnation, beat_sequence=sequence
    )
    return bool(rows)


async def bury(connection: Connection, node: Node) -> int:
    """How many predecessors the node buries that has this home."""
    rows = await call(connection, "bury_predecessors", home="here:n1", incarnation=node.incarnation)
    return len(rows)


async def run_out(connection: Connection) -> None:
    await connection.execute("UPDATE pgcron.node SET lease_until = now() - interval '1 second'")


async def test_a_beat_renews_the_lease_and_names_the_own_runs_and_peers(
    connection: Connection,
) -> None:
    node, peer = await join(connection, lease_ttl=20), await join(connection, lease_ttl=7)
    await run_out(connection)
    ids = await enqueue(connection, 3)
    await connection.execute("UPDATE pgcron.node SET lease_until = 'infinity'")
    runs = await claim(connection, node)
    await connection.execute("SELECT pgcron.cancel_run($1)", ids[1])

    [answer] = await beat(connection, node)

    assert answer["run_ids"] == ids
    assert answer["tokens"] == [run["token"] for run in sorted(runs, key=lambda run: run["id"])]
    assert answer["cancelled_ids"] == [ids[1]]
    assert (answer["peers"], answer["peer_sequences"]) == ([peer.incarnation], [0])
    assert answer["peer_ttls"] == [7.0]
    lease = await connection.fetchval(
        "SELECT lease_until - now() FROM pgcron.node WHERE incarnation = $1", node.incarnation
    )
    assert timedelta(seconds=19) < lease <= timedelta(seconds=20)


async def test_a_dead_node_never_beats_again(connection: Connection) -> None:
    node = await join(connection)
    await run_out(connection)

    assert await declare_dead(connection, node, 0)
    assert not await declare_dead(connection, node, 0)
    assert await beat(connection, node) == []


async def test_a_renewal_that_gets_there_first_wins(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    await run_out(connection)
    late, observer = await another(), await another()
    async with late.transaction():
        assert await beat(late, node)
        assert not await declare_dead(observer, node, 0)
    assert not await declare_dead(observer, node, 0)
    assert await beat(connection, node)


async def test_whoever_locks_the_row_of_one_dead_node_keeps_no_other_from_being_declared(
    connection: Connection, another: Connect
) -> None:
    locked, other = await join(connection), await join(connection)
    await run_out(connection)
    holder = await another()
    async with holder.transaction():
        await holder.execute(
            "SELECT FROM pgcron.node WHERE incarnation = $1 FOR UPDATE", locked.incarnation
        )
        assert not await declare_dead(connection, locked, 0)
        assert await declare_dead(connection, other, 0)
    assert await declare_dead(connection, locked, 0)


async def test_a_declaration_that_gets_there_first_wins(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    await run_out(connection)
    late, observer = await another(), await another()
    async with observer.transaction():
        assert await declare_dead(observer, node, 0)
        beating = asyncio.create_task(beat(late, node))
        await waits_for_lock(connection, late)
    assert await beating == []


@pytest.mark.parametrize("sequence", [0, 2])
async def test_only_the_beat_that_was_seen_is_declared_dead(
    connection: Connection, sequence: int
) -> None:
    node = await join(connection)
    await beat(connection, node)
    await run_out(connection)

    assert not await declare_dead(connection, node, sequence)


async def test_a_node_with_a_lease_is_not_declared_dead(connection: Connection) -> None:
    node = await join(connection)

    assert not await declare_dead(connection, node, 0)


async def test_a_successor_buries_who_had_its_home_and_nobody_else(connection: Connection) -> None:
    old, other = await join(connection, home="here:n1"), await join(connection, home="here:n2")
    new = await join(connection, home="here:n1")

    assert await bury(connection, new) == 1

    assert await beat(connection, old) == []
    assert await beat(connection, new)
    assert await beat(connection, other)


async def test_a_burial_that_comes_late_does_not_bury_the_successor(connection: Connection) -> None:
    old, new = [await join(connection, home="here:n1") for _ in range(2)]
    assert await bury(connection, new) == 1

    assert await bury(connection, old) == 0

    assert await beat(connection, new)


async def test_of_two_burials_that_meet_one_comes_first(
    connection: Connection, another: Connect
) -> None:
    old, new = [await join(connection, home="here:n1") for _ in range(2)]
    late, successor = await another(), await another()
    async with successor.transaction():
        assert await bury(successor, new) == 1
        burying = asyncio.create_task(bury(late, old))
        await waits_for_lock(connection, late)

    assert await burying == 0
    assert await beat(connection, new)


async def test_a_promoted_server_holds_claims_back_for_the_longest_lease(
    connection: Connection,
) -> None:
    node = await join(connection, lease_ttl=40)
    await enqueue(connection)
    assert len(await call(connection, "note_timeline")) == 1
    assert await call(connection, "note_timeline") == []
    assert len(await claim(connection, node)) == 1
    await enqueue(connection)

    await connection.execute("UPDATE pgcron.cluster SET timeline = timeline + 1")
    assert len(await call(connection, "note_timeline")) == 1
    assert await call(connection, "note_timeline") == []

    # As much as can have been lost is skipped once.
    [run] = await enqueue(connection)
    assert 1_000_000_000 < run < 1_000_000_100
    assert 1_000_000_000 < await connection.fetchval("SELECT nextval('pgcron.fence')") < 2 * 10**9
    left = await connection.fetchval("SELECT quarantine_until - now() FROM pgcron.cluster")
    assert timedelta(seconds=39) < left <= timedelta(seconds=40)
    assert await claim(connection, node) == []


@pytest.mark.parametrize(
    ("was_synchronous", "heard", "waits"),
    [
        (True, "1 second", False),
        (True, "10 minutes", True),
        (False, "1 second", True),
        (None, "1 second", True),
    ],
)
async def test_the_old_server_s_setting_decides_whether_claims_wait_after_a_promotion(
    connection: Connection, was_synchronous: bool | None, heard: str, waits: bool
) -> None:
    node = await join(connection)
    await call(connection, "note_timeline")
    await connection.execute(
        "UPDATE pgcron.cluster SET timeline = timeline + 1, is_synchronous = $1", was_synchronous
    )
    await connection.execute(
        "UPDATE pgcron.node SET lease_until = now() - $1::text::interval + lease_ttl", heard
    )

    await call(connection, "note_timeline")

    held = await connection.fetchrow(
        "SELECT quarantine_until > now() AS waits, is_synchronous FROM pgcron.cluster"
    )
    assert held is not None
    assert held["waits"] is waits
    assert held["is_synchronous"] is False  # as this server is
    assert await beat(connection, node)


async def test_beats_find_another_server_and_another_setting_and_claims_wait_until_it_is_noted(
    connection: Connection,
) -> None:
    node = await join(connection)
    await call(connection, "note_timeline")
    await enqueue(connection)
    [row] = await beat(connection, node)
    assert not row["must_note_server"]

    await connection.execute("UPDATE pgcron.cluster SET is_synchronous = true")
    [row] = await beat(connection, node)
    assert row["must_note_server"]
    await call(connection, "note_timeline")
    assert await connection.fetchval("SELECT quarantine_until <= now() FROM pgcron.cluster")
    [row] = await beat(connection, node)
    assert not row["must_note_server"]

    await connection.execute("UPDATE pgcron.cluster SET timeline = timeline + 1")
    [row] = await beat(connection, node)
    assert row["must_note_server"]
    assert await claim(connection, node) == []


async def test_every_claim_has_a_fence_number_of_its_own(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 20)

    fences = {run["fence"] for run in await claim(connection, node, 20)}

    assert len(fences) == 20
