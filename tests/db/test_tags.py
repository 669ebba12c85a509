"""Tags of runs: words to find them by, which go with the run wherever it goes."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connection,
    claim,
    cursor_of,
    enqueue,
    fail,
    fires_ahead,
    history_row,
    join,
    materialize,
    put_schedule,
    run_row,
)
from tests.db.test_backfills import ask, instants, step

TAGS = ["nightly", "team:billing"]


async def tags_of(connection: Connection, run: int) -> Any:
    return await connection.fetchval("SELECT tags FROM pgcron.runs WHERE id = $1", run)


async def test_every_way_to_enqueue_takes_tags_and_most_runs_have_none(
    connection: Connection,
) -> None:
    enqueue_one = "SELECT pgcron.enqueue('py:x', tags => $1)"
    unique = "SELECT pgcron.enqueue('py:x', unique_key => 'u', tags => $1)"
    many = "SELECT pgcron.enqueue_many($1)"
    requested = [{"handler": "py:x", "tags": TAGS}, {"handler": "py:x", "tags": []}]
    requested += [{"handler": "py:x"}, {"handler": "py:x", "unique_key": "v", "tags": TAGS}]
    made = [
        await connection.fetchval(enqueue_one, TAGS),
        await connection.fetchval(unique, TAGS),
        await connection.fetchval(enqueue_one, []),
        await connection.fetchval("SELECT pgcron.enqueue('py:x')"),
        *await connection.fetchval(many, json.dumps(requested)),
    ]

    found = [await tags_of(connection, run) for run in made]
    assert found == [TAGS, TAGS, None, None, TAGS, None, None, TAGS]
    own = await connection.fetch("SELECT tags FROM pgcron.own_runs ORDER BY id")
    assert [row["tags"] for row in own] == found


async def test_wrong_tags_are_refused_in_the_words_of_a_schedules(connection: Connection) -> None:
    said = []
    for statement in (
        "SELECT pgcron.enqueue('py:x', tags => '{a b}')",
        "SELECT pgcron.put_schedule('job', '@daily', 'py:x', tags => '{a b}')",
    ):
        with pytest.raises(asyncpg.PostgresError, match="are not a list of tags") as refused:
            await connection.execute(statement)
        error: Any = refused.value
        said.append((error.sqlstate, str(error), error.detail, error.hint))
    assert said[0] == said[1]
    assert said[0][0] == "PC001"
    with pytest.raises(asyncpg.PostgresError, match="run 1 of 1: tags"):
        await connection.execute(
            "SELECT pgcron.enqueue_many($1)", json.dumps([{"handler": "py:x", "tags": ["a", "a"]}])
        )


async def test_what_ends_and_what_is_made_of_it_has_the_same_tags(connection: Connection) -> None:
    node = await join(connection)
    [run] = await enqueue(connection, tags=TAGS, max_attempts=1)
    await fail(connection, await claim(connection, node))

    ended = await history_row(connection, run)
    again = await connection.fetchval("SELECT pgcron.retry_run($1)", run)
    redriven = await connection.fetchval("SELECT pgcron.redrive($1)", run)

    assert ended is not None
    assert ended["outcome"] == "dead"
    assert ended["tags"] == TAGS
    for made in (run, again, redriven):
        assert await tags_of(connection, made) == TAGS
    await connection.execute("SELECT pgcron.cancel_run($1)", again)
    assert await run_row(connection, again) is None
    assert await tags_of(connection, again) == TAGS


async def test_runs_of_a_schedule_have_its_tags(connection: Connection) -> None:
    schedule = await put_schedule(connection, tags=TAGS, overlap="allow")
    fires = await fires_ahead(connection, 1)
    await materialize(connection, await cursor_of(connection, schedule), fires)
    await connection.fetchval("SELECT pgcron.run_now('job')")
    backfill = await ask(connection, 1)
    await step(connection, backfill, instants(1), is_last=True)

    rows = await connection.fetch("SELECT origin, tags FROM pgcron.run ORDER BY id")
    assert [tuple(row) for row in rows] == [
        ("schedule", TAGS),
        ("manual", TAGS),
        ("backfill", TAGS),
    ]
