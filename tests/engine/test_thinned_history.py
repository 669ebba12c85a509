"""History that a rule of retention thins, and the room that is given back."""

from __future__ import annotations

import pytest

from tests.db.control import Connection
from tests.db.retention import ended, kept, make_days
from tests.product.db import Link
from tests.product.engine import Janitor
from tests.product.telemetry import Event, HistoryThinned


@pytest.fixture
def janitor(link: Link) -> Janitor:
    return Janitor(link, "pgcron")


async def test_what_a_rule_keeps_no_longer_is_removed_and_its_room_given_back(
    janitor: Janitor, connection: Connection, events: list[Event]
) -> None:
    await make_days(connection, 6)
    await ended(connection, 5, 9000, queue="mail")
    stays = await ended(connection, 5, 100, queue="etl")
    day = await connection.fetchval("SELECT max(tableoid::regclass::text) FROM pgcron.history")
    size = "SELECT pg_total_relation_size($1::text::regclass)"
    before = await connection.fetchval(size, day)
    await connection.execute("SELECT pgcron.set_retention('1 day', 'mail')")

    while await janitor.run_once() is not None:
        pass

    assert await kept(connection) == stays
    [reported] = [event for event in events if isinstance(event, HistoryThinned)]
    assert (f"pgcron.{reported.partition}", reported.removed, reported.remaining) == (
        day,
        9000,
        100,
    )
    assert await connection.fetchval(size, day) < before / 5
    # Nothing is to be done until the hour is over.
    await connection.execute("SELECT pgcron.set_retention('1 day', 'etl')")
    assert await janitor.run_once() is None
    assert await kept(connection) == stays


async def test_a_day_that_can_not_be_rewritten_keeps_no_other_from_it(
    janitor: Janitor, connection: Connection
) -> None:
    await make_days(connection, 6)
    for ago in (5, 4):
        await ended(connection, ago, 9000, queue="mail")
        await ended(connection, ago, 100, queue="etl")
    days = "SELECT DISTINCT tableoid::regclass::text AS name FROM pgcron.history ORDER BY 1"
    broken, other = [row["name"] for row in await connection.fetch(days)]
    function = "CREATE OR REPLACE FUNCTION pgcron.mine(id bigint) RETURNS bigint IMMUTABLE"
    await connection.execute(
        f"{function} LANGUAGE sql AS 'SELECT id'; CREATE INDEX mine ON {broken} (pgcron.mine(id));"
        f"{function} LANGUAGE plpgsql AS 'BEGIN RAISE ''no more''; END'"
    )
    size = "SELECT pg_total_relation_size($1::text::regclass)"
    before = await connection.fetchval(size, other)
    await connection.execute("SELECT pgcron.set_retention('1 day', 'mail')")

    while await janitor.run_once() is not None:
        pass

    assert await connection.fetchval(size, other) < before / 5
    [aside] = janitor.aside.entries()
    assert aside.what == f"partition {broken.removeprefix('pgcron.')}"
    assert "no more" in aside.error


async def test_a_day_that_somebody_reads_is_not_rewritten_and_nobody_waits(
    janitor: Janitor, connection: Connection
) -> None:
    await make_days(connection, 6)
    await ended(connection, 5, 9000, queue="mail")
    day = await connection.fetchval("SELECT max(tableoid::regclass::text) FROM pgcron.history")
    await connection.execute("SELECT pgcron.set_retention('1 day', 'mail')")
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE {day} IN ACCESS SHARE MODE")

        while await janitor.run_once() is not None:
            pass

    assert await kept(connection) == []
    assert await connection.fetchval("SELECT bool_or(gone > 0) FROM pgcron.retention_sweep") is True
