"""Runs whose nodes end before their handlers begin: two nodes at most, and none that only waits."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connection,
    call,
    claim,
    claim_limited,
    enqueue,
    fail,
    history_row,
    join,
    kill,
    reap,
    release,
    run_row,
)

Row = asyncpg.Record
REPORTED = "(not retried: two nodes ended while they prepared this run, before its handler began)"


async def claimed_anew(connection: Connection, count: int = 1) -> tuple[Any, list[Row]]:
    await connection.execute("UPDATE pgcron.run SET due_at = now() WHERE state = 'ready'")
    node = await join(connection)
    rows = await claim(connection, node, count) or await claim_limited(connection, node, count)
    assert len(rows) == count
    return node, rows


def named(rows: list[Row]) -> dict[str, Any]:
    return {"run_ids": [row["id"] for row in rows], "tokens": [row["token"] for row in rows]}


async def prepare(connection: Connection, rows: list[Row]) -> list[int]:
    return [row["id"] for row in await call(connection, "prepare_runs", **named(rows))]


async def start(connection: Connection, rows: list[Row]) -> None:
    await call(connection, "mark_started", **named(rows), elapsed_seconds=[0.0 for _ in rows])


async def lose(connection: Connection, node: Any) -> dict[int, str]:
    await kill(connection, node)
    return await reap(connection)


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"max_attempts": 100},
        {"concurrency_key": "a"},
        {"retry": json.dumps({"retry_on": ["lease_lost"]})},
    ],
)
async def test_a_run_that_ends_its_nodes_before_it_begins_ends_two(
    connection: Connection, columns: dict[str, Any]
) -> None:
    [run] = await enqueue(connection, **columns)
    node, rows = await claimed_anew(connection)
    assert await prepare(connection, rows) == [], "one that was never lost costs nothing"
    assert await lose(connection, node) == {run: "retry"}

    node, rows = await claimed_anew(connection)
    assert await prepare(connection, rows) == [run]
    assert await lose(connection, node) == {run: "dead"}

    ended = await history_row(connection, run)
    assert ended is not None
    assert ended["outcome"] == "dead"
    assert ended["error"].endswith(REPORTED)


async def test_a_successor_in_the_same_folder_ends_it_too(connection: Connection) -> None:
    [run] = await enqueue(connection)
    for number in range(3):
        node = await join(connection, home="here:n1")
        await call(connection, "bury_predecessors", incarnation=node.incarnation, home="here:n1")
        await reap(connection)
        if number < 2:
            await prepare(connection, await claim(connection, node, 1))
    ended = await history_row(connection, run)
    assert ended is not None
    assert ended["error"].endswith(REPORTED)


async def test_runs_that_only_wait_in_nodes_that_end_are_tried_as_often_as_others(
    connection: Connection,
) -> None:
    runs = await enqueue(connection, 100)
    for _ in range(4):
        node, _ = await claimed_anew(connection, 100)
        assert set((await lose(connection, node)).values()) == {"retry"}
    rows = await connection.fetch("SELECT id FROM pgcron.run WHERE lost_early = 1")
    assert sorted(row["id"] for row in rows) == runs


async def test_a_run_whose_handler_has_begun_is_tried_again(connection: Connection) -> None:
    [run] = await enqueue(connection)
    node, _ = await claimed_anew(connection)
    await lose(connection, node)
    for _ in range(3):
        node, rows = await claimed_anew(connection)
        await prepare(connection, rows)
        await start(connection, rows)
        assert await lose(connection, node) == {run: "retry"}


@pytest.mark.parametrize("end", ["failed", "released"])
async def test_a_run_that_a_node_had_done_with_is_not_suspected(
    connection: Connection, end: str
) -> None:
    [run] = await enqueue(connection)
    node, _ = await claimed_anew(connection)
    await lose(connection, node)
    node, rows = await claimed_anew(connection)
    await prepare(connection, rows)
    await (fail if end == "failed" else release)(connection, rows)
    row = await run_row(connection, run)
    assert row is not None
    assert row["lost_early"] == (None if end == "failed" else 1)

    node, rows = await claimed_anew(connection)
    assert await lose(connection, node) == {run: "retry"}
