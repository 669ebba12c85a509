"""Calendars: what is refused, who is told, and what becomes of the runs that are made already."""

from __future__ import annotations

import asyncio
from datetime import datetime

import asyncpg
import pytest

from tests.db.control import Connect, Connection, Row, call, put_schedule, waits_for_lock
from tests.product.db import Link
from tests.product.engine import Materializer

WEEKEND = "sat,sun"
HOURLY = "0 * * * *\nnot in closed"


async def put(connection: Connection, name: str, content: str) -> int:
    [row] = await call(
        connection,
        "put_calendar",
        calendar=name,
        content=content,
        actor="ann",
        interface="sql",
        take_over=False,
    )
    return int(row[0])


async def refused(connection: Connection, name: str, content: str) -> asyncpg.PostgresError:
    with pytest.raises(asyncpg.PostgresError) as error:
        await put(connection, name, content)
    return error.value


async def runs_of(connection: Connection, schedule: int) -> list[datetime]:
    rows = await connection.fetch(
        "SELECT scheduled_for FROM pgcron.run WHERE schedule_id = $1 ORDER BY 1", schedule
    )
    return [row["scheduled_for"] for row in rows]


async def materialize(database: str) -> None:
    link = Link(database)
    try:
        materializer = Materializer(link, horizon=4 * 3600)
        while await materializer.run_once() == 0:
            pass
    finally:
        await link.close()


async def schedule_row(connection: Connection, schedule: int) -> Row:
    row = await connection.fetchrow(
        "SELECT s.*, c.generation, c.status, c.error FROM pgcron.schedule s"
        " JOIN pgcron.cursor c ON c.schedule_id = s.id WHERE s.id = $1",
        schedule,
    )
    assert row is not None
    return row


async def today(connection: Connection) -> str:
    """The UTC days that the next hours lie in."""
    return str(
        await connection.fetchval(
            "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') || '..'"
            " || to_char((now() + interval '1 day') AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
        )
    )


async def test_a_spec_that_names_an_unknown_calendar_is_refused(connection: Connection) -> None:
    await put(connection, "holidays", "yearly 12-25")

    with pytest.raises(asyncpg.PostgresError) as error:
        await put_schedule(connection, spec="0 9 * * *\nnot in Holidays")

    assert error.value.sqlstate == "PC002"
    assert error.value.message == "calendar 'Holidays' is not known"
    assert error.value.hint is not None
    assert error.value.hint.startswith("There are: holidays.")


async def test_a_schedule_carries_what_its_calendars_contain(connection: Connection) -> None:
    await put(connection, "holidays", "yearly 12-25")
    await put(connection, "open", "mon-fri\nnot calendar holidays")
    await put(connection, "other", "sun")

    schedule = await put_schedule(connection, spec="0 9 * * *\nONLY  in\topen, move next")

    row = await connection.fetchval(
        'SELECT calendars = \'{"holidays": "yearly 12-25",'
        ' "open": "mon-fri\\nnot calendar holidays"}\' FROM pgcron.schedule WHERE id = $1',
        schedule,
    )
    assert row is True


async def test_an_edit_of_a_calendar_makes_the_runs_ahead_again(
    connection: Connection, database: str
) -> None:
    await put(connection, "closed", "# never")
    schedule = await put_schedule(connection, spec=HOURLY, overlap="allow")
    bystander = await put_schedule(connection, "other", spec="0 * * * *", overlap="allow")
    await materialize(database)
    before = await runs_of(connection, schedule)
    assert before
    assert before == await runs_of(connection, bystander)

    await put(connection, "closed", await today(connection))
    await materialize(database)

    assert await runs_of(connection, schedule) == []
    assert await runs_of(connection, bystander) == before
    row = await schedule_row(connection, schedule)
    assert (row["status"], row["version"]) == ("valid", 2)
    reported = await connection.fetchrow(
        "SELECT actor, note FROM pgcron.schedule_version WHERE schedule_id = $1 AND version = 2",
        schedule,
    )
    assert reported is not None
    assert (reported["actor"], reported["note"]) == ("ann", "calendar closed was changed")
    await put(connection, "closed", "# never")
    await materialize(database)
    assert await runs_of(connection, schedule) == before
    assert not await connection.fetch("SELECT * FROM pgcron.check_ledger(NULL, 100, NULL)")


async def test_the_same_content_changes_nothing(connection: Connection) -> None:
    first = await put(connection, "closed", WEEKEND)
    schedule = await put_schedule(connection, spec=HOURLY)

    assert await put(connection, "closed", WEEKEND) == first

    row = await schedule_row(connection, schedule)
    assert (row["version"], row["generation"]) == (1, 1)
    version = await connection.fetchval("SELECT version FROM pgcron.calendar")
    assert version == 1


async def test_what_removes_every_instant_makes_a_schedule_invalid(
    connection: Connection, database: str
) -> None:
    await put(connection, "closed", "mon-sun")
    schedule = await put_schedule(connection, spec=HOURLY)

    await materialize(database)

    row = await schedule_row(connection, schedule)
    assert row["status"] == "invalid"
    assert "never fires" in row["error"]


async def test_what_a_calendar_lacks_is_named(connection: Connection) -> None:
    for name, content, lacks in ((None, "mon", "name"), ("a", None, "content")):
        with pytest.raises(asyncpg.PostgresError, match=f"the {lacks} of the calendar is NULL"):
            await connection.execute("SELECT pgcron.put_calendar($1, $2)", name, content)


async def test_a_circle_of_calendars_is_refused(connection: Connection) -> None:
    await put(connection, "a", "mon")
    await put(connection, "b", "tue\ncalendar a")

    error = await refused(connection, "a", "mon\ncalendar b")

    assert error.sqlstate == "PC005"
    assert error.message == "calendar 'a' contains itself: a > b > a"
    alone = await refused(connection, "c", "calendar c")
    assert alone.message == "calendar 'c' contains itself: c > c"
    assert "which is not known" in str((await refused(connection, "c", "calendar d")).message)


async def test_a_calendar_in_use_is_not_deleted(connection: Connection) -> None:
    await put(connection, "holidays", "yearly 12-25")
    await put(connection, "closed", "sat\ncalendar holidays")
    schedule = await put_schedule(connection, "nightly", spec=HOURLY)

    with pytest.raises(asyncpg.PostgresError) as error:
        await call(connection, "delete_calendar", calendar="holidays", actor="ann")

    assert error.value.sqlstate == "PC011"
    assert error.value.detail == "By schedule nightly, calendar closed."
    await connection.execute("DELETE FROM pgcron.schedule WHERE id = $1", schedule)
    await call(connection, "delete_calendar", calendar="closed", actor="ann")
    await call(connection, "delete_calendar", calendar="holidays", actor="ann")
    assert not await connection.fetch("SELECT FROM pgcron.calendar")
    with pytest.raises(asyncpg.PostgresError) as error:
        await call(connection, "delete_calendar", calendar="closed", actor="ann")
    assert error.value.sqlstate == "PC010"


async def test_a_schedule_that_is_written_beside_an_edit_has_its_calendar(
    connection: Connection, another: Connect
) -> None:
    """Whoever comes second sees what the first has written."""
    await put(connection, "closed", "sat")
    editor, writer = await another(), await another()
    edit = editor.transaction()
    await edit.start()
    await put(editor, "closed", "sun")

    writing = asyncio.create_task(put_schedule(writer, spec=HOURLY))
    await waits_for_lock(connection, writer)
    await edit.commit()
    schedule = await writing

    row = await schedule_row(connection, schedule)
    assert "sun" in row["calendars"]


async def test_an_edit_waits_for_a_schedule_that_is_being_written(
    connection: Connection, another: Connect
) -> None:
    await put(connection, "closed", "sat")
    editor, writer = await another(), await another()
    write = writer.transaction()
    await write.start()
    schedule = await put_schedule(writer, spec=HOURLY)

    editing = asyncio.create_task(put(editor, "closed", "sun"))
    await waits_for_lock(connection, editor)
    await write.commit()
    await editing

    row = await schedule_row(connection, schedule)
    assert "sun" in row["calendars"]


async def test_an_edit_and_an_edit_of_a_user_do_not_wait_in_a_ring(
    connection: Connection, another: Connect
) -> None:
    await put(connection, "closed", "sat")
    for number in range(10):
        await put_schedule(connection, f"s{number}", spec=HOURLY)
    editors = [await another() for _ in range(2)]
    writers = [await another() for _ in range(2)]

    async def edit(editor: Connection, days: str) -> None:
        for number in range(10):
            await put(editor, "closed", f"{days}\n# {number}")

    async def write(writer: Connection) -> None:
        for number in range(10):
            await writer.execute(
                "UPDATE pgcron.schedule SET args = jsonb_build_object('n', $1::int)"
                " WHERE name = $2",
                *(number, f"s{number}"),
            )

    await asyncio.gather(
        edit(editors[0], "sat"), edit(editors[1], "sun"), write(writers[0]), write(writers[1])
    )

    kept = await connection.fetchval("SELECT content FROM pgcron.calendar")
    carried = await connection.fetch(
        "SELECT DISTINCT calendars ->> 'closed' AS content FROM pgcron.schedule"
    )
    assert [row["content"] for row in carried] == [kept]
