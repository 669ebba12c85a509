"""Jitter and max_runs in the database."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Row,
    call,
    cursor_of,
    database_now,
    fires_ahead,
    materialize,
    minutes,
    put_schedule,
)
from tests.product.db import functions
from tests.product.engine import decide, materialize_parameters


async def runs_of(connection: Connection) -> list[Row]:
    return await connection.fetch("SELECT * FROM pgcron.run ORDER BY scheduled_for")


async def why(connection: Connection, instant: datetime) -> tuple[str, datetime | None]:
    reported = await connection.fetchrow("SELECT code, due_at FROM pgcron.why('job', $1)", instant)
    assert reported is not None
    return reported["code"], reported["due_at"]


async def take_given_back(connection: Connection) -> None:
    found = await call(connection, "given_back", at_most=1000, aside=[])
    for row in found:
        await call(connection, "take_given_back", schedule_id=row["schedule_id"])


async def pass_of_a_node(connection: Connection, horizon: float = 600.0) -> int:
    """Runs made by one batch, as a materializer does it."""
    await take_given_back(connection)
    rows = await call(connection, "due_cursors", refill=horizon, at_most=10, aside=[])
    if not rows:
        return 0
    columns = materialize_parameters([(row, *decide(row, horizon)) for row in rows])
    return int((await call(connection, "materialize", **columns))[0]["runs"])


async def test_the_policies_are_kept_versioned_and_taken_away(connection: Connection) -> None:
    await functions.put_schedule(
        connection, "a", "@daily~", "py:a", jitter=timedelta(minutes=5), max_runs=3
    )
    await functions.put_schedule(connection, "a", "@daily~", "py:a", jitter=timedelta(0))
    await functions.put_schedule(
        connection, "a", "@daily~", "py:a", jitter=timedelta(hours=1), max_runs=0
    )
    await functions.put_schedule(connection, "a", "@daily~", "py:a")

    kept = await connection.fetch(
        "SELECT content ->> 'jitter', content ->> 'max_runs'"
        " FROM pgcron.schedule_version ORDER BY version"
    )
    assert [tuple(row) for row in kept] == [("00:05:00", "3"), (None, "3"), ("01:00:00", None)]


@pytest.mark.parametrize(
    ("policies", "fact"),
    [
        ("jitter => '-1 s'", "jitter .* is out of range"),
        ("jitter => '25 hours'", "jitter .* is out of range"),
        ("max_runs => -1", "max_runs -1 is out of range"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    connection: Connection, policies: str, fact: str
) -> None:
    with pytest.raises(asyncpg.PostgresError, match=fact) as refused:
        await connection.execute(f"SELECT pgcron.put_schedule('a', '@hourly', 'py:a', {policies})")
    assert refused.value.sqlstate == "PC001"


async def test_a_delayed_fire_keeps_its_instant_and_is_due_later(connection: Connection) -> None:
    schedule = await put_schedule(connection, jitter=minutes(5), start_deadline=minutes(2))
    first, second = await fires_ahead(connection, 2)
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, due_at)"
        " VALUES ($1, $2, 'move', $3)",
        schedule,
        second,
        second + minutes(30),
    )
    delay = timedelta(milliseconds=192_250)
    await materialize(
        connection, await cursor_of(connection, schedule), [first, second], delay=delay
    )

    rows = await connection.fetch(
        "SELECT scheduled_for, due_at, expire_at FROM pgcron.run ORDER BY scheduled_for"
    )
    due = first + delay
    assert [tuple(row) for row in rows] == [
        (first, due, due + minutes(2)),
        (second, second + minutes(30), second + minutes(32)),  # who moves it says when
    ]
    assert await why(connection, first) == ("run", due)
    assert await why(connection, second) == ("moved", second + minutes(30))


async def test_what_is_still_delayed_follows_an_edit_and_a_pause(connection: Connection) -> None:
    await put_schedule(
        connection,
        spec="*/10 * * * *",
        uuid="8f14e45f-ceea-467f-9575-9dc4a1c9e2b1",
        jitter=minutes(1440),
        overlap="allow",
        catchup="all",
        catchup_window=minutes(2880),
    )
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 day'")
    await connection.execute("UPDATE pgcron.schedule_version SET since = now() - interval '1 day'")
    await pass_of_a_node(connection)
    waiting = await runs_of(connection)
    now = await database_now(connection)
    held = [row for row in waiting if row["scheduled_for"] <= now < row["due_at"]]
    assert held

    await functions.put_schedule(connection, "job", "*/10 * * * *", "py:job", args='{"day": 2}')
    await pass_of_a_node(connection)
    again = await runs_of(connection)
    assert [(row["scheduled_for"], row["due_at"]) for row in again] == [
        (row["scheduled_for"], row["due_at"]) for row in waiting
    ]
    assert {row["args"] for row in again if row["due_at"] > now} == {'{"day": 2}'}
    assert {row["args"] for row in again if row["due_at"] <= now} == {"{}"}  # begun, perhaps

    await functions.pause_schedule(connection, "job", "stop")
    assert all(row["due_at"] <= now for row in await runs_of(connection))
    await functions.resume_schedule(connection, "job")
    reported = await connection.fetchrow(
        "SELECT w.decision, w.reason FROM pgcron.why('job', $1) w", held[0]["scheduled_for"]
    )
    assert reported is not None
    assert reported["decision"] == "missed"
    assert "paused" in reported["reason"]


async def test_what_an_earlier_timing_owed_and_delayed_stays(connection: Connection) -> None:
    schedule = await put_schedule(connection, spec="* * * * *", jitter=minutes(60))
    now = (await database_now(connection)).replace(second=0, microsecond=0)
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", now - minutes(2))
    await connection.execute("UPDATE pgcron.schedule_version SET since = $1", now - minutes(2))
    fire = now - minutes(1)
    before = await cursor_of(connection, schedule)
    await materialize(connection, before, [fire], delay=minutes(30))

    await functions.put_schedule(connection, "job", "0 0 1 1 *", "py:job")
    before = await cursor_of(connection, schedule)
    await functions.put_schedule(connection, "job", "0 0 1 1 *", "py:job", args='{"day": 2}')

    assert [row["scheduled_for"] for row in await runs_of(connection)] == [fire]
    assert (await cursor_of(connection, schedule))["watermark"] >= before["watermark"]


async def test_a_schedule_ends_after_its_runs_and_goes_on_when_it_may(
    connection: Connection,
) -> None:
    schedule = await put_schedule(connection, spec="* * * * *", max_runs=3)
    fires = await fires_ahead(connection, 12)
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action)"
        " VALUES ($1, $2, 'skip')",
        schedule,
        fires[1],
    )

    made = [await pass_of_a_node(connection) for _ in range(4)]
    assert sum(made) == 3  # the skipped one doesn't count
    cursor = await cursor_of(connection, schedule)
    assert await why(connection, fires[7]) == ("completed", None)
    assert (cursor["runs_made"], str(cursor["next_fire"])[:4]) == (3, "9999")
    assert [row["scheduled_for"] for row in await runs_of(connection)] == [
        fires[0],
        fires[2],
        fires[3],
    ]

    await functions.put_schedule(connection, "job", "* * * * *", "py:job", max_runs=5)
    made = [await pass_of_a_node(connection) for _ in range(4)]
    assert sum(made) == 5  # those that had not begun were given back and made anew
    assert (await cursor_of(connection, schedule))["runs_made"] == 5


async def test_what_lay_between_the_end_and_more_runs_is_told(connection: Connection) -> None:
    await put_schedule(connection, spec="*/10 * * * *", max_runs=1)
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '2 hours'")
    assert [await pass_of_a_node(connection) for _ in range(2)] == [1, 0]

    await functions.put_schedule(connection, "job", "*/10 * * * *", "py:job", max_runs=2)
    [run] = await runs_of(connection)
    between = run["scheduled_for"] + timedelta(seconds=1)
    assert await why(connection, between) == ("completed", None)
    assert await why(connection, run["scheduled_for"]) == ("run", None)
    assert sum([await pass_of_a_node(connection, 3600.0) for _ in range(2)]) == 1
    assert await connection.fetch("SELECT * FROM pgcron.check_ledger()") == []


async def test_what_a_schedule_that_has_ended_would_name_is_told_when_it_is_paused(
    connection: Connection,
) -> None:
    schedule = await put_schedule(connection, spec="*/10 * * * *", max_runs=1)
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '2 hours'")
    assert [await pass_of_a_node(connection) for _ in range(2)] == [1, 0]
    [run] = await runs_of(connection)

    await functions.pause_schedule(connection, "job", "a note")

    ended = run["scheduled_for"] + timedelta(seconds=1)
    assert await why(connection, ended) == ("completed", None)
    cursor = await cursor_of(connection, schedule)
    assert await why(connection, cursor["watermark"]) == ("completed", None)
    assert await why(connection, run["scheduled_for"]) == ("run", None)


async def test_skipped_fires_are_given_back(connection: Connection) -> None:
    schedule = await put_schedule(connection, spec="* * * * *", max_runs=2)
    assert sum([await pass_of_a_node(connection) for _ in range(3)]) == 2
    [first, _] = await runs_of(connection)

    await connection.execute(
        "SELECT pgcron.end_waiting_runs(ARRAY[$1::bigint], 'skipped', 'the last is not over')",
        first["id"],
    )
    assert sum([await pass_of_a_node(connection) for _ in range(3)]) == 1
    assert (await cursor_of(connection, schedule))["runs_made"] == 2
    assert await connection.fetchval("SELECT count(*) FROM pgcron.given_back") == 0

    [second, _] = await runs_of(connection)
    await functions.cancel_run(connection, second["id"], "enough")
    assert sum([await pass_of_a_node(connection) for _ in range(2)]) == 0  # it was a run


async def test_a_run_that_is_given_back_while_a_node_decides_is_made(
    connection: Connection,
) -> None:
    await put_schedule(connection, max_runs=2)
    assert await pass_of_a_node(connection) == 2
    await connection.execute("UPDATE pgcron.cursor SET next_fire = NULL")  # as after an edit
    rows = await call(connection, "due_cursors", refill=600.0, at_most=10, aside=[])

    await connection.execute(
        "SELECT pgcron.end_waiting_runs(ARRAY[min(id)], 'skipped', 'the last is not over')"
        " FROM pgcron.run"
    )
    await take_given_back(connection)
    columns = materialize_parameters([(row, *decide(row, 600.0)) for row in rows])
    await call(connection, "materialize", **columns)

    assert await pass_of_a_node(connection) == 1


async def test_two_nodes_make_no_run_too_many(another: Connect) -> None:
    nodes = [await another() for _ in range(2)]
    schedule = await put_schedule(nodes[0], spec="*/2 * * * * *", max_runs=7)
    for _ in range(6):
        await asyncio.gather(*(pass_of_a_node(node, 30.0) for node in nodes))
    rows = await runs_of(nodes[0])
    assert len(rows) == 7
    assert (await cursor_of(nodes[0], schedule))["runs_made"] == 7
