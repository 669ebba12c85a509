"""Nodes that take nothing new, by a name or of one process, until it is lifted."""

from __future__ import annotations

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Node,
    Row,
    call,
    claim,
    claim_both,
    claim_limited,
    claim_overlapping,
    enqueue,
    finish,
    join,
    kill,
    put_schedule,
)


async def name_of(connection: Connection, node: Node) -> str:
    name: str = await connection.fetchval(
        "SELECT name FROM pgcron.node WHERE incarnation = $1", node.incarnation
    )
    return name


async def cordon(connection: Connection, node: str) -> int:
    living: int = await connection.fetchval(
        "SELECT pgcron.cordon_node($1, 'a new disk', 'ann')", node
    )
    return living


async def uncordon(connection: Connection, node: str) -> int:
    living: int = await connection.fetchval("SELECT pgcron.uncordon_node($1, 'bob')", node)
    return living


async def state(connection: Connection, node: Node) -> str:
    found: str = await connection.fetchval(
        "SELECT state FROM pgcron.node WHERE incarnation = $1", node.incarnation
    )
    return found


async def beat(connection: Connection, node: Node, *, is_draining: bool = False) -> Row:
    given = {"incarnation": node.incarnation, "slots_used": 0, "is_draining": is_draining}
    given |= {"health": None, "is_unresponsive": False}
    [row] = await call(connection, "beat", **given)
    return row


async def test_a_cordoned_node_claims_nothing_on_any_way_and_ends_what_it_holds(
    connection: Connection,
) -> None:
    node = await join(connection)
    await enqueue(connection, 2)
    held = await claim(connection, node, limit=1)
    await enqueue(connection, delivery="at_most_once")
    await enqueue(connection, concurrency_key="a")
    schedule = await put_schedule(connection)
    await enqueue(connection, origin="manual", schedule_id=schedule, overlap="skip")

    assert await cordon(connection, await name_of(connection, node)) == 1

    assert await claim_overlapping(connection, node) == ([], [])
    assert await claim_limited(connection, node) == []
    assert (await beat(connection, node))["is_cordoned"]
    assert await finish(connection, held) == [held[0]["id"]]

    assert await uncordon(connection, await name_of(connection, node)) == 1
    assert not (await beat(connection, node))["is_cordoned"]
    assert len(await claim_both(connection, node, 10)) == 4


async def test_a_cordon_of_a_name_outlives_the_process(connection: Connection) -> None:
    first = await join(connection)
    name = await name_of(connection, first)
    await cordon(connection, name)
    await kill(connection, first)

    again = await join(connection, name=name)
    await enqueue(connection)

    assert await claim(connection, again) == []
    assert await state(connection, again) == "cordoned"
    await uncordon(connection, name)
    assert len(await claim(connection, again)) == 1


async def test_a_cordon_of_an_incarnation_is_of_that_process_alone(connection: Connection) -> None:
    one = await join(connection)
    name = await name_of(connection, one)
    other = await join(connection, name=name)
    await cordon(connection, str(one.incarnation))
    await enqueue(connection, 2)

    assert await claim(connection, one, limit=1) == []
    assert len(await claim(connection, other, limit=1)) == 1
    await cordon(connection, name)
    with pytest.raises(asyncpg.PostgresError, match="is cordoned by its name") as refusal:
        await uncordon(connection, str(one.incarnation))
    assert refusal.value.sqlstate == "PC011"
    assert await uncordon(connection, name) == 2
    assert len(await claim(connection, one, limit=1)) == 1


async def test_a_cordon_of_an_incarnation_goes_with_it_and_only_an_act_is_recorded(
    connection: Connection,
) -> None:
    one, other = str((await join(connection)).incarnation), await join(connection)
    await cordon(connection, one)
    await cordon(connection, str(other.incarnation))
    await uncordon(connection, one)
    await connection.execute("DELETE FROM pgcron.node")

    assert await connection.fetch("SELECT FROM pgcron.cordon") == []
    lifted = await connection.fetch("SELECT name FROM pgcron.audit WHERE verb = 'uncordon'")
    assert [row["name"] for row in lifted] == [one]


async def test_a_beat_finds_a_cordon_that_came_while_the_node_joined(
    connection: Connection,
) -> None:
    node = await join(connection)
    name = await name_of(connection, node)
    await connection.execute("INSERT INTO pgcron.cordon (node) VALUES ($1)", name)

    assert (await beat(connection, node))["is_cordoned"]
    assert await state(connection, node) == "cordoned"


async def test_a_node_that_drains_drains_cordoned_or_not(connection: Connection) -> None:
    node = await join(connection)
    name = await name_of(connection, node)
    await cordon(connection, name)
    await beat(connection, node, is_draining=True)
    assert await state(connection, node) == "draining"

    assert await uncordon(connection, name) == 0
    await beat(connection, node)
    assert await state(connection, node) == "draining"


async def test_who_cordoned_and_lifted_is_kept(connection: Connection) -> None:
    node = await join(connection)
    name = await name_of(connection, node)
    await cordon(connection, name)
    row = await connection.fetchrow("SELECT * FROM pgcron.nodes WHERE name = $1", name)
    assert row is not None
    assert (row["cordoned_by"], row["cordon_note"]) == ("ann", "a new disk")

    await uncordon(connection, name)
    kept = await connection.fetch(
        "SELECT verb, actor, note FROM pgcron.audit WHERE name = $1", name
    )
    assert [tuple(row) for row in kept] == [
        ("cordon", "ann", "a new disk"),
        ("uncordon", "bob", None),
    ]


@pytest.mark.parametrize("verb", ["cordon_node", "uncordon_node"])
async def test_an_open_transaction_that_cordons_stops_no_beat_and_no_takeover(
    connection: Connection, another: Connect, verb: str
) -> None:
    node, dead = await join(connection), await join(connection)
    for each in (node, dead):
        await cordon(connection, await name_of(connection, each))
    await connection.execute("SET lock_timeout = '1s'")
    await connection.execute(
        "UPDATE pgcron.node SET lease_until = now() - interval '1 s' WHERE incarnation = $1",
        dead.incarnation,
    )
    holder = await another()
    async with holder.transaction():
        for each in (node, dead):
            await holder.execute(f"SELECT pgcron.{verb}($1)", await name_of(connection, each))

        assert await beat(connection, node)
        declared = {"incarnation": dead.incarnation, "beat_sequence": 0}
        assert await call(connection, "declare_dead", **declared)


@pytest.mark.parametrize("verb", ["cordon_node", "uncordon_node"])
async def test_a_node_that_nobody_knows_is_refused(connection: Connection, verb: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match="node 'nobody' does not exist") as refusal:
        await connection.execute(f"SELECT pgcron.{verb}('nobody')")
    assert refusal.value.sqlstate == "PC010"
    assert refusal.value.as_dict()["hint"]
