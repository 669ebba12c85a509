"""Pauses that end by themselves, and what becomes of the fires they held back."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Row,
    call,
    cursor_of,
    database_now,
    materialize,
    minutes,
    put_schedule,
    waits_for_lock,
)
from tests.product.engine import decide

MOMENT = timedelta(microseconds=1)


async def pause(connection: Connection, until: datetime | None = None) -> None:
    await connection.execute(
        "SELECT pgcron.pause_schedule('job', 'deploy', 'anna', 'cli', $1)", until
    )


async def paused_an_hour(connection: Connection, **columns: Any) -> tuple[int, datetime]:
    """A schedule that was paused from two hours ago until one hour ago, and the end of that."""
    schedule = await put_schedule(connection, **columns)
    now = await database_now(connection)
    await pause(connection, now + minutes(60))
    end = now - minutes(60)
    # The clock can't be turned, so the pause is put back: past what its trigger would take.
    await connection.execute("ALTER TABLE pgcron.schedule DISABLE TRIGGER USER")
    await connection.execute("UPDATE pgcron.schedule SET paused_until = $1", end)
    await connection.execute("ALTER TABLE pgcron.schedule ENABLE TRIGGER USER")
    await connection.execute(
        "UPDATE pgcron.cursor SET paused_until = $1, watermark = $2, since = $2",
        end,
        now - minutes(120),
    )
    return schedule, end


async def overdue(connection: Connection) -> list[int]:
    rows = await call(connection, "overdue_pauses", at_most=10, aside=[])
    return [row["schedule_id"] for row in rows]


async def resume_overdue(connection: Connection, schedule: int) -> bool:
    return bool(await call(connection, "resume_overdue", schedule_id=schedule))


async def schedule_row(connection: Connection) -> Row:
    row = await connection.fetchrow("SELECT * FROM pgcron.schedule WHERE name = 'job'")
    assert row is not None
    return row


async def missed(connection: Connection) -> list[tuple[str, str | None, datetime, datetime]]:
    rows = await connection.fetch("SELECT * FROM pgcron.missed ORDER BY first_at")
    return [(row["reason"], row["note"], row["first_at"], row["last_at"]) for row in rows]


async def test_a_pause_says_until_when_and_who(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    end = await database_now(connection) + minutes(60)
    await pause(connection, end)

    row, cursor = await schedule_row(connection), await cursor_of(connection, schedule)
    assert (row["enabled"], row["paused_until"], row["paused_by"]) == (False, end, "anna")
    assert (cursor["paused_until"], cursor["pause_note"]) == (end, "anna: deploy")
    assert await overdue(connection) == []
    assert not await resume_overdue(connection, schedule)
    content = "SELECT content ->> 'paused_until' FROM pgcron.schedule_version WHERE version = 2"
    assert datetime.fromisoformat(await connection.fetchval(content)) == end


async def test_who_pauses_again_is_the_author_of_what_they_wrote(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    await pause(connection, await database_now(connection) + minutes(60))
    await connection.execute("SELECT pgcron.pause_schedule('job', 'for good', 'bert')")

    row, cursor = await schedule_row(connection), await cursor_of(connection, schedule)
    assert (row["paused_by"], row["paused_until"]) == ("bert", None)
    assert (cursor["pause_note"], cursor["paused_until"]) == ("bert: for good", None)


async def test_an_edit_after_the_end_of_a_pause_decides_nothing_before_itself(
    connection: Connection,
) -> None:
    """The pause was over and nobody had resumed yet when the timing was edited."""
    schedule, end = await paused_an_hour(connection)
    await connection.execute("UPDATE pgcron.schedule SET spec = '*/2 * * * *'")
    edited = (await cursor_of(connection, schedule))["since"]
    assert edited > end

    assert await resume_overdue(connection, schedule)

    assert (await cursor_of(connection, schedule))["watermark"] == edited
    [(reason, _, _, last)] = await missed(connection)
    assert (reason, last) == ("paused", edited)


async def resumed_by(connection: Connection) -> tuple[Any, ...]:
    """Who wrote the last version, and through which interface."""
    written = await connection.fetchrow(
        "SELECT actor, interface FROM pgcron.schedule_version ORDER BY version DESC LIMIT 1"
    )
    return tuple(written or ())


async def test_an_overdue_pause_ends_as_of_its_end(connection: Connection) -> None:
    schedule, end = await paused_an_hour(connection)
    covered = (await cursor_of(connection, schedule))["watermark"]

    assert await overdue(connection) == [schedule]
    assert await resume_overdue(connection, schedule)

    row, cursor = await schedule_row(connection), await cursor_of(connection, schedule)
    assert (row["enabled"], row["paused_until"], row["paused_note"]) == (True, None, None)
    assert await missed(connection) == [("paused", "anna: deploy", covered + MOMENT, end)]
    # What lay after it is owed, however late it was resumed.
    assert cursor["watermark"] == end
    assert (cursor["is_paused"], cursor["paused_until"]) == (False, None)
    assert await resumed_by(connection) == ("pgcron_ha", "clock")
    assert await overdue(connection) == []
    assert not await resume_overdue(connection, schedule)


async def test_a_pause_resumed_by_hand_after_its_end_ended_there_too(
    connection: Connection,
) -> None:
    schedule, end = await paused_an_hour(connection)
    await connection.execute("SELECT pgcron.resume_schedule('job', 'bert')")

    cursor = await cursor_of(connection, schedule)
    assert cursor["watermark"] == end
    assert await resumed_by(connection) == ("bert", "sql")
    assert not await resume_overdue(connection, schedule)


async def test_a_pause_resumed_before_its_end_ends_now(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    await pause(connection, await database_now(connection) + minutes(60))
    before = await database_now(connection)
    await connection.execute("SELECT pgcron.resume_schedule('job')")

    watermark = (await cursor_of(connection, schedule))["watermark"]
    assert before < watermark < await database_now(connection)


async def test_a_pause_that_held_back_no_fire_leaves_no_range(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    now = await database_now(connection)
    ahead, later = now + minutes(30), now + minutes(60)
    await materialize(connection, await cursor_of(connection, schedule), [ahead], next_fire=later)
    for note in ("deploy", "another"):
        await connection.execute("SELECT pgcron.pause_schedule('job', $1)", note)
        paused = await cursor_of(connection, schedule)
        shown = await connection.fetchval("SELECT next_fire FROM pgcron.schedules")
        assert (paused["next_fire"], shown) == (ahead, None)
    await connection.execute("SELECT pgcron.resume_schedule('job')")

    resumed = await cursor_of(connection, schedule)
    assert await missed(connection) == []
    assert resumed["watermark"] == resumed["since"]
    assert resumed["next_fire"] is None


@pytest.mark.parametrize("fires_before_its_end", [False, True])
async def test_a_pause_resumed_late_has_a_range_only_of_fires_before_its_end(
    connection: Connection, fires_before_its_end: bool
) -> None:
    schedule, end = await paused_an_hour(connection)
    fire = end - minutes(1) if fires_before_its_end else end + minutes(30)
    await connection.execute("UPDATE pgcron.cursor SET next_fire = $1", fire)
    assert await resume_overdue(connection, schedule)

    assert [last for _, _, _, last in await missed(connection)] == [end] * fires_before_its_end
    assert (await cursor_of(connection, schedule))["watermark"] < end + minutes(30)


@pytest.mark.parametrize(
    "ending", ["SELECT pgcron.resume_schedule('job')", "SELECT pgcron.delete_schedule('job')"]
)
async def test_a_pause_that_held_back_a_fire_that_was_made_before_it_leaves_a_range(
    connection: Connection, ending: str
) -> None:
    schedule = await put_schedule(connection)
    now = await database_now(connection)
    ahead, later = now + minutes(30), now + minutes(60)
    await materialize(connection, await cursor_of(connection, schedule), [ahead], next_fire=later)
    await pause(connection)
    # The clock can't be turned: 45 minutes pass.
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = watermark - interval '45 minutes',"
        " since = since - interval '45 minutes', next_fire = next_fire - interval '45 minutes'"
    )
    await connection.execute(ending)

    [(reason, _, first, last)] = await missed(connection)
    assert reason == "paused"
    assert first < ahead - minutes(45) < last


async def test_two_nodes_resume_it_once(connection: Connection, another: Connect) -> None:
    schedule, _ = await paused_an_hour(connection)
    nodes = [await another() for _ in range(4)]

    answers = await asyncio.gather(*(resume_overdue(node, schedule) for node in nodes))

    assert sorted(answers) == [False, False, False, True]
    assert len(await missed(connection)) == 1
    versions = "SELECT count(*) FROM pgcron.schedule_version WHERE actor = 'pgcron_ha'"
    assert await connection.fetchval(versions) == 1


@pytest.mark.parametrize(
    ("options", "is_paused"),
    [
        ("SELECT pgcron.pause_schedule('job', 'longer', 'bert')", True),
        ("SELECT pgcron.resume_schedule('job', 'bert')", False),
        ("UPDATE pgcron.schedule SET priority = 3", False),
        ("DELETE FROM pgcron.schedule", None),
    ],
)
async def test_a_node_that_comes_late_finds_what_a_person_decided(
    connection: Connection, another: Connect, options: str, is_paused: bool | None
) -> None:
    schedule, _ = await paused_an_hour(connection)
    node, person = await another(), await another()
    async with person.transaction():
        await person.execute(options)
        resuming = asyncio.create_task(resume_overdue(node, schedule))
        await waits_for_lock(connection, node)
    is_resumed = await resuming

    paused = await connection.fetchval("SELECT NOT enabled FROM pgcron.schedule")
    assert paused is is_paused
    assert is_resumed is (options.startswith("UPDATE"))


@pytest.mark.parametrize("is_over", [True, False])
async def test_after_a_pause_the_catch_up_policy_may_decide(
    connection: Connection, is_over: bool
) -> None:
    columns = {"after_pause": "catchup", "catchup": "all", "overlap": "allow"}
    schedule, _ = await paused_an_hour(connection, catchup_window=minutes(90), **columns)
    covered = (await cursor_of(connection, schedule))["watermark"]
    if is_over:
        assert await resume_overdue(connection, schedule)
    else:
        await connection.execute("SELECT pgcron.resume_schedule('job')")

    assert (await cursor_of(connection, schedule))["watermark"] == covered
    assert await missed(connection) == []
    [due] = await call(connection, "due_cursors", refill=60.0, at_most=10, aside=[])
    planned, _ = decide(due, 60.0)
    # Two hours passed; of these the window has 90 minutes, one fire a minute.
    assert 89 <= sum(fire <= due["now"] for fire in planned.fires) <= 91
    assert [(one.count, str(one.reason)) for one in planned.missed] == [(30, "catchup_window")]


async def test_a_new_timing_does_not_catch_up_on_what_it_did_not_name(
    connection: Connection,
) -> None:
    schedule, _ = await paused_an_hour(connection, after_pause="catchup")
    covered = (await cursor_of(connection, schedule))["watermark"]
    await connection.execute("UPDATE pgcron.schedule SET spec = '*/2 * * * *'")

    reported = (await cursor_of(connection, schedule))["watermark"]
    assert await missed(connection) == [("paused", "anna: deploy", covered + MOMENT, reported)]
    assert await resume_overdue(connection, schedule)
    assert (await cursor_of(connection, schedule))["watermark"] == reported
    assert len(await missed(connection)) == 1


async def test_a_plan_that_was_made_before_the_pause_decides_nothing(
    connection: Connection,
) -> None:
    schedule = await put_schedule(connection)
    planned = await cursor_of(connection, schedule)
    await pause(connection, await database_now(connection) + minutes(60))

    ahead = await database_now(connection) + minutes(1)
    assert await materialize(connection, planned, [ahead]) == (0, 0)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pgcron.pause_schedule('job', until => now() - interval '1 second')",
        "SELECT pgcron.pause_schedule('job', until => 'infinity')",
        "UPDATE pgcron.schedule SET paused_until = now() + interval '1 hour'",
        "UPDATE pgcron.schedule SET after_pause = 'perhaps'",
        "UPDATE pgcron.schedule SET after_pause = 'catchup', catchup = 'none'",
        "SELECT pgcron.put_schedule('job', '@daily', 'py:work', after_pause => 'perhaps')",
        "SELECT pgcron.run_now('job', fire_time => '-infinity')",
    ],
)
async def test_a_pause_that_makes_no_sense_is_refused(
    connection: Connection, statement: str
) -> None:
    await put_schedule(connection)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.execute(statement)

    error: Any = refused.value
    assert (error.sqlstate, bool(error.detail), bool(error.hint)) == ("PC001", True, True)


async def test_a_pause_that_is_over_may_keep_its_end_in_an_edit(connection: Connection) -> None:
    await paused_an_hour(connection)
    await connection.execute("UPDATE pgcron.schedule SET args = '{\"a\": 1}'")

    assert not (await schedule_row(connection))["enabled"]


async def test_what_happens_after_a_pause_is_kept_and_put_again_for_nothing(
    connection: Connection,
) -> None:
    put = "SELECT pgcron.put_schedule('job', '@daily', 'py:work', after_pause => $1)"
    await connection.execute(put, "catchup")
    await connection.execute(put, None)

    row = await schedule_row(connection)
    assert (row["after_pause"], row["version"]) == ("catchup", 1)
