"""Runs that require labels: only nodes that announce them all get them, on every way there is."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    HANDLER,
    Connection,
    call,
    claim,
    claim_limited,
    claim_overlapping,
    enqueue,
    fail,
    history_row,
    join,
    kill,
    put_schedule,
    release,
    run_row,
)


async def a_way(connection: Connection, kind: str) -> dict[str, Any]:
    """The columns of a run that has another way to its claim."""
    if kind == "of a schedule":
        schedule = await put_schedule(connection)
        return {"origin": "manual", "schedule_id": schedule, "overlap": "skip"}
    if kind == "in a limited queue":
        await connection.execute("SELECT pgcron.set_queue('default', 5)")
    return {
        "once": {"delivery": "at_most_once"},
        "with a concurrency key": {"concurrency_key": "a"},
    }.get(kind, {})


@pytest.mark.parametrize(
    "kind", ["plain", "once", "of a schedule", "with a concurrency key", "in a limited queue"]
)
async def test_only_a_node_with_the_labels_claims_a_run(connection: Connection, kind: str) -> None:
    plain = await join(connection)
    other = await join(connection, labels={"gpu": "h100"})
    right = await join(connection, labels={"zone": "eu", "gpu": "a100"})
    columns = await a_way(connection, kind)
    [run] = await enqueue(connection, requires=["gpu=a100", "zone"], **columns)

    for node in (plain, other, right):
        assert await claim(connection, node) == []
        assert await claim_overlapping(connection, node) == ([], [])
    assert await claim_limited(connection, plain) == []
    assert await claim_limited(connection, other) == []
    assert [row["id"] for row in await claim_limited(connection, right)] == [run]


async def test_a_retry_and_a_given_back_run_keep_what_they_require(connection: Connection) -> None:
    plain = await join(connection)
    right = await join(connection, labels={"gpu": "a100"})
    await enqueue(connection, requires=["gpu"])

    await release(connection, await claim_limited(connection, right))
    assert await claim_limited(connection, plain) == []
    await fail(connection, await claim_limited(connection, right))

    await connection.execute("UPDATE pgcron.run SET due_at = now()")
    assert await claim_limited(connection, plain) == []
    assert len(await claim_limited(connection, right)) == 1


async def test_what_is_made_of_a_run_requires_the_same(connection: Connection) -> None:
    right = await join(connection, labels={"gpu": "a100"})
    [run] = await enqueue(connection, requires=["gpu=a100"], max_attempts=1)
    await fail(connection, await claim_limited(connection, right))

    ended = await history_row(connection, run)
    again = await connection.fetchval("SELECT pgcron.retry_run($1)", run)
    redriven = await connection.fetchval("SELECT pgcron.redrive($1)", run)

    assert ended is not None
    assert ended["requires"] == ["gpu=a100"]
    for made in (again, redriven):
        row = await run_row(connection, made)
        assert row is not None
        assert row["requires"] == ["gpu=a100"]


async def test_runs_of_a_schedule_require_what_it_says_and_nothing_is_none(
    connection: Connection,
) -> None:
    put = "SELECT pgcron.put_schedule('job', '* * * * *', $1, requires => $2)"
    await connection.execute(put, HANDLER, ["gpu=a100"])
    made = [await connection.fetchval("SELECT pgcron.run_now('job')")]
    await connection.execute(put, HANDLER, None)
    made.append(await connection.fetchval("SELECT pgcron.run_now('job')"))
    await connection.execute(put, HANDLER, [])
    made.append(await connection.fetchval("SELECT pgcron.run_now('job')"))

    rows = [await run_row(connection, run) for run in made]
    assert [row and row["requires"] for row in rows] == [["gpu=a100"], ["gpu=a100"], None]


async def test_what_nobody_satisfies_is_put_aside_until_somebody_does(
    connection: Connection,
) -> None:
    await join(connection)
    zoned = await join(connection, labels={"zone": "eu"})
    waiting = await enqueue(connection, 2, requires=["gpu=a100"])
    elsewhere = await enqueue(connection, requires=["zone=eu"], handler="py:rare")
    [served] = await enqueue(connection, requires=["zone=eu"])
    to_come = await connection.fetchval(
        "SELECT pgcron.enqueue($1, due_at => now() + interval '1 h', requires => '{gpu}')", HANDLER
    )

    blocked = await call(connection, "block_unserved", queues=["default"], look=100)
    assert sorted(row["id"] for row in blocked) == waiting + elsewhere
    assert await call(connection, "unblock", at_most=100) == []

    right = await join(connection, labels={"gpu": "a100"})
    released = await call(connection, "unblock", at_most=100)
    assert sorted(row["id"] for row in released) == waiting
    assert [row["id"] for row in await claim_limited(connection, right)] == waiting
    assert [row["id"] for row in await claim_limited(connection, zoned)] == [served]
    later = await run_row(connection, to_come)
    assert later is not None
    assert later["gate"] is None


async def test_the_node_that_died_satisfies_nothing_any_more(connection: Connection) -> None:
    right = await join(connection, labels={"gpu": "a100"})
    await enqueue(connection, requires=["gpu=a100"])
    look: dict[str, Any] = {"queues": ["default"], "look": 100}

    assert await call(connection, "block_unserved", **look) == []
    await kill(connection, right)
    assert len(await call(connection, "block_unserved", **look)) == 1


async def test_each_requirement_has_its_turn_whatever_waits_before_it(
    connection: Connection,
) -> None:
    right = await join(connection, labels={"b": "1", "z": "1"})
    await enqueue(connection, 500, requires=["a=1"], priority=0)
    mine = [
        *await enqueue(connection, requires=["b=1"], priority=9),
        *await enqueue(connection, requires=["b", "z=1"], priority=0),
    ]

    assert {row["id"] for row in await claim_limited(connection, right)} == set(mine)


async def test_a_node_behind_a_thousand_others_finds_what_requires_its_labels(
    connection: Connection,
) -> None:
    right = await join(connection, labels={"host": "web-2150", "ssd": "1"})
    await connection.execute(
        "INSERT INTO pgcron.run (handler, requires)"
        " SELECT $1, ARRAY['host=web-' || n, 'ssd'] FROM generate_series(1000, 2199) n",
        HANDLER,
    )

    assert [row["handler"] for row in await claim_limited(connection, right)] == [HANDLER]


@pytest.mark.parametrize(
    "requires",
    [["gpu="], ["=a"], ["gpu a"], ["gpu=a", "gpu=b"], [""], [None], [f"k{n}" for n in range(17)]],
)
@pytest.mark.parametrize("table", ["run", "schedule"])
async def test_a_list_that_is_none_of_labels_is_refused(
    connection: Connection, table: str, requires: list[str]
) -> None:
    columns = {"run": "handler", "schedule": "name, spec, handler"}[table]
    values = {"run": "'py:a'", "schedule": "'job', '* * * * *', 'py:a'"}[table]
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await connection.execute(
            f"INSERT INTO pgcron.{table} ({columns}, requires) VALUES ({values}, $1)", requires
        )

    assert refusal.value.sqlstate == "PC001"
    assert "is not a list of labels" in str(refusal.value)
    assert all(refusal.value.as_dict()[part] for part in ("detail", "hint"))


@pytest.mark.parametrize("labels", [{"gpu": ""}, {"a b": "c"}, {"gpu": 1}, {"gpu": None}, ["gpu"]])
async def test_labels_that_are_none_are_refused(connection: Connection, labels: Any) -> None:
    node = await join(connection)
    with pytest.raises(asyncpg.PostgresError, match="are not labels") as refusal:
        await connection.execute(
            "UPDATE pgcron.node SET labels = $1 WHERE incarnation = $2",
            json.dumps(labels),
            node.incarnation,
        )
    assert refusal.value.sqlstate == "PC001"


async def test_many_runs_at_once_may_require_labels(connection: Connection) -> None:
    requested = [
        {"handler": HANDLER, "requires": ["gpu=a100"]},
        {"handler": HANDLER, "requires": []},
    ]
    ids = await connection.fetchval("SELECT pgcron.enqueue_many($1::jsonb)", json.dumps(requested))
    rows = [await run_row(connection, run) for run in ids]
    assert [row and row["requires"] for row in rows] == [["gpu=a100"], None]

    requested[1]["requires"] = ["gpu a100"]
    with pytest.raises(asyncpg.PostgresError, match="run 2 of 2: requires"):
        await connection.execute("SELECT pgcron.enqueue_many($1::jsonb)", json.dumps(requested))
