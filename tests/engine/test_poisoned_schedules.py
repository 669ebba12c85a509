"""One schedule that is refused, locked or broken stops no other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connection, cursor_of, put_schedule
from tests.engine.conftest import MakeLink
from tests.product.db import Link
from tests.product.engine import Janitor, Materializer, batches
from tests.product.engine import materializer as module
from tests.product.telemetry import Event, ScheduleIsInvalid

HORIZON = 60.0


@pytest.fixture
async def blocker(database: str) -> AsyncIterator[Connection]:
    """Somebody who holds locks in an open transaction."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


@pytest.fixture
def materializer(link: Link) -> Materializer:
    return Materializer(link, HORIZON)


async def runs_of(connection: Connection, schedule: int) -> int:
    found: int = await connection.fetchval(
        "SELECT count(*) FROM pgcron.run WHERE schedule_id = $1", schedule
    )
    return found


async def write_past_all_rules(connection: Connection, statement: str, *values: Any) -> None:
    """As an owner may: the CHECKs of `schedule` and `cursor` are gone while it is written."""
    constraints = await connection.fetch(
        "SELECT conname, conrelid::regclass::text AS relation, pg_get_constraintdef(oid) AS rule"
        " FROM pg_constraint WHERE contype = 'c'"
        " AND conrelid IN ('pgcron.schedule'::regclass, 'pgcron.cursor'::regclass)"
    )
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        for each in constraints:
            await connection.execute(
                f'ALTER TABLE {each["relation"]} DROP CONSTRAINT "{each["conname"]}"'
            )
        await connection.execute(statement, *values)
        for each in constraints:
            await connection.execute(
                f'ALTER TABLE {each["relation"]} ADD CONSTRAINT "{each["conname"]}"'
                f" {each['rule'].removesuffix(' NOT VALID')} NOT VALID"
            )


POISON = {
    "handler": "handler = 'no handler'",
    "give_up_after": "give_up_after = '1 year 1 day'",
    "concurrency_key": "concurrency_key = repeat('x', 100000)",
    "retry": "retry = '{\"no\": 1}'",
    "timeout": "timeout = '-1 second'",
    "args": "args = '[]'",
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
async def test_a_schedule_whose_runs_are_refused_is_invalid_and_the_others_fire(
    materializer: Materializer, connection: Connection, events: list[Event], poison: str
) -> None:
    bad = await put_schedule(connection, "bad", spec="* * * * * *")
    good = [await put_schedule(connection, f"good {each}", spec="* * * * * *") for each in "abc"]
    await write_past_all_rules(
        connection, f"UPDATE pgcron.schedule SET {poison} WHERE id = $1", bad
    )

    await materializer.run_once()

    for schedule in good:
        assert await runs_of(connection, schedule) >= 59
    assert await runs_of(connection, bad) == 0
    cursor = await cursor_of(connection, bad)
    assert cursor["status"] == "invalid"
    assert cursor["retry_at"] is not None
    message = json.loads(cursor["error"])["message"]
    assert [(e.schedule, e.error) for e in events if isinstance(e, ScheduleIsInvalid)] == [
        ("bad", message)
    ]


async def test_what_the_database_refused_is_tried_again_and_recovers(
    materializer: Materializer, connection: Connection, events: list[Event]
) -> None:
    bad = await put_schedule(connection, "bad", spec="* * * * * *")
    await connection.execute(
        "ALTER TABLE pgcron.run ADD CONSTRAINT nothing_bad CHECK (schedule <> 'bad')"
    )
    await materializer.run_once()
    assert "nothing_bad" in (await cursor_of(connection, bad))["error"]
    events.clear()
    await connection.execute("UPDATE pgcron.cursor SET retry_at = now()")
    await materializer.run_once()  # in vain, and without another line of log
    cursor = await cursor_of(connection, bad)
    assert (cursor["status"], events) == ("invalid", [])
    assert await connection.fetchval("SELECT retry_at > now() FROM pgcron.cursor")

    await connection.execute("ALTER TABLE pgcron.run DROP CONSTRAINT nothing_bad")
    await materializer.run_once()
    assert await runs_of(connection, bad) == 0  # its time has not come
    await connection.execute("UPDATE pgcron.cursor SET retry_at = now()")
    await materializer.run_once()

    assert await runs_of(connection, bad) >= 59
    cursor = await cursor_of(connection, bad)
    assert (cursor["status"], cursor["error"], cursor["retry_at"]) == ("valid", None, None)


async def test_a_schedule_that_can_not_even_be_marked_is_set_aside(
    materializer: Materializer, connection: Connection
) -> None:
    bad = await put_schedule(connection, "bad", spec="* * * * * *")
    good = await put_schedule(connection, "good", spec="* * * * * *")
    await connection.execute(
        f"ALTER TABLE pgcron.cursor ADD CONSTRAINT broken CHECK (schedule_id <> {bad}) NOT VALID"
    )

    await materializer.run_once()
    await materializer.run_once()

    assert await runs_of(connection, good) >= 59
    [entry] = materializer.aside.entries()
    assert entry.what == "schedule 'bad'"
    assert "broken" in entry.error


async def test_locked_schedules_in_front_starve_nobody(
    link: Link, connection: Connection, blocker: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 5)
    materializer = Materializer(link, HORIZON)
    locked = [await put_schedule(connection, f"a{each}", spec="* * * * * *") for each in range(9)]
    good = await put_schedule(connection, "good", spec="* * * * * *")
    await connection.execute(
        "UPDATE pgcron.cursor SET next_fire = now() - interval '1 s' WHERE schedule_id = ANY($1)",
        locked,
    )
    await connection.execute(
        "UPDATE pgcron.cursor SET next_fire = now() WHERE schedule_id = $1", good
    )
    await connection.execute(
        "UPDATE pgcron.cursor SET next_fire = now() + interval '1 s' WHERE schedule_id = ANY($1)",
        locked[5:],
    )
    async with blocker.transaction():
        await blocker.execute(
            "SELECT FROM pgcron.cursor WHERE schedule_id = ANY($1) FOR UPDATE", locked
        )
        for _ in range(6):
            await materializer.run_once()
        assert await runs_of(connection, good) >= 59
        assert {entry.error for entry in materializer.aside.entries()} == {
            "its row is locked by another session, or its watermark is far away"
        }


async def test_a_fire_whose_month_of_the_ledger_is_gone_is_made(
    materializer: Materializer, connection: Connection
) -> None:
    late = await put_schedule(connection, "late", catchup_window=timedelta(days=300))
    good = await put_schedule(connection, "good", spec="* * * * * *")
    await connection.execute(
        "UPDATE pgcron.schedule SET spec = 'at 2026-01-05T00:00Z' WHERE id = $1", late
    )
    await connection.execute(
        "UPDATE pgcron.schedule SET spec = 'at ' || to_char(now() - interval '100 days',"
        ' \'YYYY-MM-DD"T"HH24:MI"Z"\') WHERE id = $1',
        late,
    )
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = now() - interval '120 days' WHERE schedule_id = $1",
        late,
    )
    # As of an installation that is older than the ledger is kept.
    await connection.execute("DROP TABLE pgcron.occurrence_before")

    await materializer.run_once()

    assert await runs_of(connection, late) == 1
    assert await runs_of(connection, good) >= 59
    assert (await cursor_of(connection, late))["status"] == "valid"


async def test_without_a_partition_ahead_fires_are_made_all_the_same(
    materializer: Materializer, connection: Connection
) -> None:
    schedule = await put_schedule(connection, spec="* * * * * *")
    for row in await connection.fetch(
        "SELECT inhrelid::regclass::text AS partition FROM pg_inherits"
        " WHERE inhparent = 'pgcron.occurrence'::regclass"
    ):
        await connection.execute(f"DROP TABLE {row['partition']}")

    await materializer.run_once()

    assert await runs_of(connection, schedule) >= 59


async def test_what_raises_in_an_unforeseen_way_belongs_to_its_schedule(
    materializer: Materializer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = [await put_schedule(connection, name) for name in ("bad", "good")]
    decide = module.decide

    def decide_or_fail(row: Any, horizon: float, most: int) -> Any:
        if row["name"] == "bad":
            raise IndexError("list index out of range")
        return decide(row, horizon, most)

    monkeypatch.setattr(module, "decide", decide_or_fail)

    await materializer.run_once()

    assert await runs_of(connection, good) >= 1
    cursor = await cursor_of(connection, bad)
    assert (cursor["status"], cursor["retry_at"]) == ("invalid", None)
    assert "IndexError: list index out of range" in cursor["error"]


async def test_what_nobody_can_read_is_looked_at_again_by_another_version_only(
    materializer: Materializer, connection: Connection, link: Link
) -> None:
    bad = await put_schedule(connection, "bad")
    await connection.execute("SET session_replication_role = replica")
    await connection.execute("UPDATE pgcron.schedule SET timezone = 'Mars/Olympus'")
    await materializer.run_once()

    assert await link.rows("recheck_invalid", judge=module.judge(), at_most=9) == []
    found = await link.rows("recheck_invalid", judge="pgcron_ha 9.9", at_most=9)
    assert [row["schedule_id"] for row in found] == [bad]
    await Janitor(link, "pgcron").run_once()


async def test_schedules_that_catch_up_share_a_pass_with_the_others(
    link: Link, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 20)
    monkeypatch.setattr(module, "FIRES_PER_BATCH", 500)
    materializer = Materializer(link, HORIZON)
    for number in range(40):
        await put_schedule(
            connection,
            f"behind {number}",
            spec="* * * * * *",
            catchup="all",
            overlap="queue",
            catchup_window=timedelta(days=3),
        )
    await connection.execute(
        "UPDATE pgcron.cursor SET watermark = now() - interval '2 days',"
        " next_fire = now() - interval '2 days'"
    )
    good = await put_schedule(connection, "good", spec="* * * * * *")
    await connection.execute(
        "UPDATE pgcron.cursor SET next_fire = now() WHERE schedule_id = $1", good
    )

    await materializer.run_once()

    assert await runs_of(connection, good) >= 25
    assert (
        await connection.fetchval(
            "SELECT count(*) FROM (SELECT FROM pgcron.run GROUP BY schedule_id"
            " HAVING count(*) >= 25) s"
        )
        >= 10
    )


@pytest.mark.parametrize(
    ("duty", "prepare"),
    [
        ("pending_edits", "UPDATE pgcron.cursor SET edit_is_pending = true"),
        ("outdated_plans", "INSERT INTO pgcron.outdated_plan SELECT id FROM pgcron.schedule"),
        (
            "overdue_pauses",
            "UPDATE pgcron.schedule SET enabled = false, paused_until = now() - interval '1 s'",
        ),
        (
            "given_back",
            "INSERT INTO pgcron.given_back (schedule_id, runs) SELECT id, 1 FROM pgcron.schedule",
        ),
    ],
)
async def test_a_duty_of_one_schedule_holds_up_no_other(
    make_link: MakeLink, connection: Connection, blocker: Connection, duty: str, prepare: str
) -> None:
    ids = [await put_schedule(connection, name, max_runs=9) for name in ("locked", "poor", "good")]
    fine = await put_schedule(connection, "fine", spec="* * * * * *")
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE pgcron.cursor SET is_paused = true, runs_made = 1")
        await connection.execute(
            f"{prepare} WHERE {'schedule_id' if duty == 'pending_edits' else 'id'} = ANY($1)", ids
        )
        await connection.execute(
            "UPDATE pgcron.cursor SET is_paused = false WHERE schedule_id = $1", fine
        )
    await connection.execute(
        f"ALTER TABLE pgcron.cursor ADD CONSTRAINT broken CHECK (schedule_id <> {ids[1]}) NOT VALID"
    )
    materializer = Materializer(make_link(), HORIZON)
    async with blocker.transaction():
        await blocker.execute("SELECT FROM pgcron.cursor WHERE schedule_id = $1 FOR UPDATE", ids[0])

        await materializer.run_once()

        assert await runs_of(connection, fine) >= 59
        after = await cursor_of(connection, ids[2])
        if duty == "given_back":
            assert after["runs_made"] == 0
        else:
            assert not after["edit_is_pending"]
            assert after["generation"] > 1
        named = {entry.what for entry in materializer.aside.entries()}
        assert any("'locked'" in what for what in named)
        assert any("'poor'" in what for what in named)


FAR = {
    "past": ("cursor", "watermark = '0044-03-15 BC'"),
    "future": ("cursor", "watermark = '200000-01-01'"),
    "interval": ("schedule", "jitter = '178000000 years'"),
}


@pytest.mark.parametrize("far", FAR)
async def test_what_lies_beyond_the_calendar_is_set_aside_and_the_others_fire(
    materializer: Materializer, connection: Connection, far: str
) -> None:
    bad = await put_schedule(connection, "bad", spec="* * * * * *")
    good = await put_schedule(connection, "good", spec="* * * * * *")
    table, change = FAR[far]
    key = "id" if table == "schedule" else "schedule_id"
    await write_past_all_rules(
        connection, f"UPDATE pgcron.{table} SET {change} WHERE {key} = {bad}"
    )

    for _ in range(3):
        await materializer.run_once()

    assert await runs_of(connection, good) > 0
    aside = [each.what for each in materializer.aside.entries()]
    read = "SELECT status FROM pgcron.cursor WHERE schedule_id = $1"
    status = await connection.fetchval(read, bad)
    assert aside == ["schedule 'bad'"] or status == "invalid"


async def test_what_was_set_aside_and_is_gone_is_named_no_more(
    materializer: Materializer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FIRST_PAUSE_SECONDS", 0.0)
    schedule = await put_schedule(connection, "bad")
    for _ in range(2):
        await connection.execute(
            "INSERT INTO pgcron.given_back (schedule_id, runs) VALUES ($1, 2147483647)", schedule
        )
    await materializer.run_once()
    assert [each.what for each in materializer.aside.entries()] == ["schedule 'bad', given back"]

    await connection.execute("DELETE FROM pgcron.given_back")
    await materializer.run_once()

    assert materializer.aside.entries() == []
