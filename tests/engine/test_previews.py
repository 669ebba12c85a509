"""``pgcron.preview`` reads what nodes computed."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connect, Connection, put_schedule
from tests.product.db import Link
from tests.product.engine import AT_ONCE, FIRES, Janitor, Materializer, SetAside, write_previews

UNJUDGED = "no node has judged it yet: try again in a few seconds"


@pytest.fixture
def materializer(link: Link) -> Materializer:
    return Materializer(link, 600.0)


async def preview(connection: Connection, name: str = "job", count: int = 5) -> list[Any]:
    return [tuple(row) for row in await connection.fetch(
        "SELECT * FROM pgcron.preview($1, $2)", name, count)]  # fmt: skip


async def test_a_judged_schedule_has_its_fires_and_a_sentence(
    materializer: Materializer, connection: Connection
) -> None:
    await put_schedule(connection, spec="30 2 * * *", timezone="Europe/Berlin")
    assert await preview(connection) == [(None, None, UNJUDGED, None)]

    await materializer.run_once()

    rows = await preview(connection, count=FIRES)
    assert len(rows) == FIRES
    fire_at, local, _, sentence = rows[0]
    assert datetime.strptime(local, "%a %Y-%m-%d %H:%M:%S %z") == fire_at
    assert sentence.startswith("At 02:30 every day, in Europe/Berlin; if the last run is not over")
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


async def test_an_edit_makes_the_preview_new(
    materializer: Materializer, connection: Connection
) -> None:
    await put_schedule(connection, spec="30 2 * * *")
    await materializer.run_once()
    await connection.execute("UPDATE pgcron.schedule SET spec = 'at 2020-01-01T00:00'")
    assert await preview(connection) == [(None, None, UNJUDGED, None)]

    await materializer.run_once()

    ((fire, local, note, sentence),) = await preview(connection)
    assert (fire, local, note) == (None, None, "it never fires again")
    assert sentence.startswith("Once at 2020-01-01 00:00, in UTC;")


async def test_what_runs_low_and_what_is_paused_is_computed_when_it_is_asked_for(
    link: Link, connection: Connection
) -> None:
    schedule = await put_schedule(connection, spec="* * * * *")
    await connection.execute("UPDATE pgcron.schedule SET enabled = false")
    janitor = Janitor(link, "pgcron")
    await janitor.run_once()
    assert await connection.fetchval("SELECT count(*) FROM pgcron.schedule_preview") == 0

    await preview(connection)
    await janitor.run_once()
    rows = await preview(connection)
    assert len(rows) == 5
    assert "; it is paused; " in rows[0][3]
    assert await write_previews(link, SetAside("previews")) == 0

    old = json.dumps([{"at": "2020-01-01T00:00:00Z", "local": "", "note": None}])
    await connection.execute("UPDATE pgcron.schedule_preview SET fires = $1::text::jsonb", old)
    assert (await preview(connection))[0][2] == UNJUDGED
    assert await write_previews(link, SetAside("previews")) == 1
    assert len(await preview(connection, count=FIRES)) == FIRES
    await connection.execute("DELETE FROM pgcron.schedule WHERE id = $1", schedule)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.schedule_preview") == 0


async def test_many_that_are_made_at_once_wait_until_they_are_asked_for(
    materializer: Materializer, link: Link, connection: Connection
) -> None:
    for number in range(AT_ONCE + 1):
        await put_schedule(connection, name=f"job-{number}", spec="@daily")
    await materializer.run_once()
    assert await connection.fetchval("SELECT count(*) FROM pgcron.schedule_preview") == 0

    await preview(connection, "job-7")
    assert await write_previews(link, SetAside("previews")) == 1
    assert len(await preview(connection, "job-7")) == 5


async def test_one_that_somebody_asks_for_in_a_long_transaction_holds_up_no_other(
    link: Link, materializer: Materializer, connection: Connection, another: Connect
) -> None:
    for name in ("a", "b"):
        await put_schedule(connection, name=name)
    await materializer.run_once()
    await connection.execute("UPDATE pgcron.schedule_preview SET asked_at = now(), fires = '[]'")
    await link.execute("SET lock_timeout = 100")
    other = await another()
    janitor = Janitor(link, "pgcron")
    async with other.transaction():
        await other.execute(
            "UPDATE pgcron.schedule_preview SET asked_at = now() WHERE fires = '[]'"
            " AND schedule_id = (SELECT id FROM pgcron.schedule WHERE name = 'a')"
        )
        await janitor.run_once()
        assert [each.what for each in janitor.aside.entries()] == ["the preview of schedule 'a'"]
        assert len(await preview(connection, "b")) == 5
        await put_schedule(connection, name="c")
        await materializer.run_once()
        assert len(await preview(connection, "c")) == 5


async def test_an_edit_meanwhile_is_not_overwritten(link: Link, connection: Connection) -> None:
    schedule = await put_schedule(connection, spec="@daily")
    old = {"schedule_id": schedule, "generation": 1, "sentence": "old", "fires": []}
    await connection.execute("UPDATE pgcron.schedule SET spec = '@hourly'")

    assert await link.rows("put_previews", previews=json.dumps([old])) == []
    assert await connection.fetchval("SELECT count(*) FROM pgcron.schedule_preview") == 0


async def test_a_schedule_that_no_node_can_read_says_why(
    materializer: Materializer, connection: Connection
) -> None:
    await connection.execute("INSERT INTO pgcron.timezone (name) VALUES ('Mars/Olympus')")
    await put_schedule(connection, spec="@daily", timezone="Mars/Olympus")
    await materializer.run_once()

    with pytest.raises(asyncpg.PostgresError) as refused:
        await preview(connection)
    assert refused.value.sqlstate == "PC003"
    assert str(refused.value).startswith("schedule 'job': \"Mars/Olympus\" is not a time zone")
    with pytest.raises(asyncpg.PostgresError, match="count 21 is out of range"):
        await preview(connection, count=21)
    with pytest.raises(asyncpg.PostgresError, match="does not exist"):
        await preview(connection, "none")


async def test_a_reader_that_may_not_write_is_answered(
    materializer: Materializer, connection: Connection
) -> None:
    await put_schedule(connection, spec="@daily")
    async with connection.transaction(readonly=True):
        assert (await preview(connection))[0][2] == UNJUDGED
    await materializer.run_once()
    async with connection.transaction(readonly=True):
        assert len(await preview(connection)) == 5


async def test_what_somebody_has_skipped_or_moved_is_shown(
    materializer: Materializer, connection: Connection
) -> None:
    await put_schedule(connection, spec="@daily")
    await materializer.run_once()
    first, second, third = [row[0] for row in await preview(connection, count=3)]
    await connection.execute("SELECT pgcron.skip_occurrence('job', $1, 'a holiday', 'anna')", first)
    await connection.execute(
        "SELECT pgcron.move_occurrence('job', $1, $2, NULL, 'bert')",
        *(second, second + timedelta(hours=2)),
    )
    await materializer.run_once()  # a change of one fire may be an edit
    notes = {row[0]: row[2] for row in await preview(connection, count=3)}

    moved_to = (second + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert notes == {
        first: "skipped by anna: a holiday",
        second: f"moved to {moved_to} by bert",
        third: None,
    }
