"""Assets: what counts as an update, and the one run that is made of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
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
    put_schedule,
    waits_for_lock,
)
from tests.db.roles import Become
from tests.product.engine import decide, materialize_parameters, one_fire

SPEC = "on asset sales and stock"


async def update(connection: Connection, *names: str) -> None:
    for name in names:
        await connection.execute("SELECT pgcron.update_asset($1, actor => 'anna')", name)


async def settle(connection: Connection) -> int:
    [row] = await call(connection, "settle_assets", at_most=100)
    return int(row[0])


async def judged(connection: Connection, name: str = "job", spec: str = SPEC, **more: Any) -> int:
    """A schedule that a node has read, which began a while ago."""
    schedule = await put_schedule(connection, name, spec=spec, **more)
    await judge(connection)
    await begun_before(connection)
    return schedule


async def judge(connection: Connection) -> None:
    rows = await call(connection, "due_cursors", refill=60, at_most=10, aside=[])
    decisions = [(row, *decide(dict(row), 600)) for row in rows]
    if decisions:
        await call(connection, "materialize", **materialize_parameters(decisions))


async def begun_before(connection: Connection) -> None:
    """A second has at most one fire, and the tests don't wait for the next."""
    await connection.execute("UPDATE pgcron.cursor SET watermark = watermark - interval '1 minute'")


async def due(connection: Connection) -> list[Row]:
    return await call(connection, "updated_assets", at_most=10, aside=[])


async def fire(connection: Connection, row: Row) -> int:
    """How many runs are made of it."""
    parameters = one_fire(row, row["fire_at"], "on asset x")
    parameters |= {"new_watermarks": [row["fire_at"]], "uses_updates": True}
    return int((await call(connection, "materialize", **parameters))[0]["runs"])


async def waits_for(connection: Connection, schedule: int) -> list[str]:
    found = await connection.fetchval(
        "SELECT waits_for_assets FROM pgcron.schedules WHERE id = $1", schedule
    )
    return list(found or ())


async def test_an_update_is_of_the_transaction_that_makes_it(
    connection: Connection, another: Connect
) -> None:
    other = await another()
    undone = connection.transaction()
    await undone.start()
    await update(connection, "sales")
    assert await settle(other) == 0
    await undone.rollback()
    assert await settle(other) == 0

    await connection.execute("SELECT pgcron.update_asset('sales', '{\"rows\": 3}')")
    await update(connection, "sales", "stock")
    assert await settle(other) == 3

    rows = await connection.fetch("SELECT * FROM pgcron.assets ORDER BY name")
    assert [(row["name"], row["updates"], row["updated_by"], row["metadata"]) for row in rows] == [
        ("sales", 2, "anna", None),
        ("stock", 1, "anna", None),
    ]


async def test_the_metadata_is_that_of_the_last_update(connection: Connection) -> None:
    for rows in (1, 2):
        await connection.execute(
            "SELECT pgcron.update_asset('sales', jsonb_build_object('rows', $1::int))", rows
        )
    await settle(connection)
    assert await connection.fetchval("SELECT metadata FROM pgcron.assets") == '{"rows": 2}'
    await connection.execute("SELECT pgcron.update_asset('sales', '{\"rows\": 3}')")
    await settle(connection)

    assert await connection.fetchval("SELECT metadata FROM pgcron.assets") == '{"rows": 3}'
    assert await connection.fetchval("SELECT updates FROM pgcron.assets") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("''", "'' is not the name of an asset"),
        ("NULL", "'' is not the name of an asset"),
        ("'a b'", "'a b' is not the name of an asset"),
        ("'And'", "'And' is not the name of an asset"),
        ("repeat('x', 101)", f"'{'x' * 101}' is not the name of an asset"),
        ("'a', '[1]'", "the metadata of asset 'a' is a JSON array of 3 bytes"),
        (
            "'a', jsonb_build_object('x', repeat('x', 4096))",
            "the metadata of asset 'a' is a JSON object of 4105 bytes",
        ),
    ],
)
async def test_what_is_no_asset_is_refused(
    connection: Connection, arguments: str, message: str
) -> None:
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await connection.execute(f"SELECT pgcron.update_asset({arguments})")

    assert refusal.value.message == message
    assert refusal.value.sqlstate in ("PC001", "PC004")


async def test_who_updates_waits_for_nobody(connection: Connection, another: Connect) -> None:
    await judged(connection)
    first, second, node = await another(), await another(), await another()
    await first.execute("BEGIN")
    await second.execute("BEGIN")
    await update(first, "sales", "stock")
    await update(second, "stock", "sales")
    await update(connection, "sales")
    assert await settle(node) == 1

    await first.execute("COMMIT")
    assert await settle(node) == 2
    await second.execute("COMMIT")
    assert await settle(node) == 2
    assert len(await due(connection)) == 1


async def test_two_nodes_count_each_update_once(connection: Connection, another: Connect) -> None:
    schedule = await judged(connection)
    first, second = await another(), await another()
    await update(connection, "sales", "stock")
    await first.execute("BEGIN")
    assert await settle(first) == 2
    await update(connection, "stock")

    settling = asyncio.create_task(settle(second))
    await waits_for_lock(connection, second)
    await first.execute("COMMIT")

    assert await settling == 1
    found = await connection.fetch("SELECT name, updates FROM pgcron.assets ORDER BY 1")
    assert [tuple(row) for row in found] == [("sales", 1), ("stock", 2)]
    assert await waits_for(connection, schedule) == []


async def test_a_schedule_runs_when_all_its_assets_were_updated(connection: Connection) -> None:
    schedule = await judged(connection)
    assert await waits_for(connection, schedule) == ["sales", "stock"]
    await update(connection, "sales", "sales", "else")
    await settle(connection)
    assert await due(connection) == []
    assert await waits_for(connection, schedule) == ["stock"]

    await update(connection, "stock")
    await settle(connection)
    [row] = await due(connection)
    assert await fire(connection, row) == 1

    run = await connection.fetchrow("SELECT * FROM pgcron.run")
    assert run is not None
    assert (run["origin"], run["scheduled_for"]) == ("schedule", row["fire_at"])
    assert await due(connection) == []
    assert await waits_for(connection, schedule) == ["sales", "stock"]
    assert (await connection.fetch("SELECT * FROM pgcron.check_ledger()")) == []
    view = await connection.fetchrow("SELECT status, next_fire FROM pgcron.schedules")
    assert view is not None
    assert tuple(view) == ("valid", None)


async def test_of_two_nodes_one_makes_the_run(connection: Connection) -> None:
    await judged(connection, spec="on asset sales")
    await update(connection, "sales")
    await settle(connection)
    [seen_by_one], [seen_by_another] = await due(connection), await due(connection)

    assert await fire(connection, seen_by_one) == 1
    assert await fire(connection, seen_by_another) == 0
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 1


async def test_a_run_that_is_not_made_uses_no_update(connection: Connection) -> None:
    await judged(connection, spec="on asset sales")
    await update(connection, "sales")
    await settle(connection)
    [row] = await due(connection)
    undone = connection.transaction()
    await undone.start()
    assert await fire(connection, row) == 1
    await undone.rollback()

    assert [again["schedule_id"] for again in await due(connection)] == [row["schedule_id"]]


@pytest.mark.parametrize(
    ("overlap", "state", "is_due"),
    [
        ("skip", "ready", False),
        ("allow", "ready", False),
        ("skip", "running", False),
        ("queue", "running", True),
        ("allow", "running", True),
    ],
)
async def test_updates_before_a_run_begins_are_one_run(
    connection: Connection, overlap: str, state: str, is_due: bool
) -> None:
    await judged(connection, spec="on asset sales", overlap=overlap)
    await update(connection, "sales")
    await settle(connection)
    await fire(connection, (await due(connection))[0])
    if state == "running":
        await connection.execute(
            "UPDATE pgcron.run SET state = 'running', gate = NULL, attempt = 1, fence = 1,"
            " token = gen_random_uuid(), owner = gen_random_uuid(), claimed_at = now(),"
            " overlap_slot = CASE WHEN overlap IS NOT NULL THEN 1 END"
        )
    await begun_before(connection)
    await update(connection, "sales")
    await settle(connection)

    assert (len(await due(connection)) == 1) is is_due
    await connection.execute("DELETE FROM pgcron.run")
    assert len(await due(connection)) == 1


@pytest.mark.parametrize(("after_pause", "is_due"), [("catchup", True), ("drop", False)])
async def test_what_was_updated_in_a_pause(
    connection: Connection, after_pause: str, is_due: bool
) -> None:
    schedule = await judged(connection, spec="on asset sales", after_pause=after_pause)
    await connection.execute("SELECT pgcron.pause_schedule('job')")
    await update(connection, "sales")
    await settle(connection)
    assert await due(connection) == []

    await connection.execute("SELECT pgcron.resume_schedule('job')")
    await judge(connection)
    await begun_before(connection)

    assert (len(await due(connection)) == 1) is is_due
    await update(connection, "sales")
    await settle(connection)
    assert [row["schedule_id"] for row in await due(connection)] == [schedule]


async def test_an_update_after_the_end_of_a_pause_counts(connection: Connection) -> None:
    await judged(connection, spec="on asset sales")
    end = await database_now(connection) + timedelta(milliseconds=300)
    await connection.execute("SELECT pgcron.pause_schedule('job', until => $1)", end)
    await connection.execute("SELECT pg_sleep_until($1)", end)
    await update(connection, "sales")
    await settle(connection)
    [row] = await call(connection, "overdue_pauses", at_most=10, aside=[])
    await call(connection, "resume_overdue", schedule_id=row["schedule_id"])
    await judge(connection)
    await begun_before(connection)

    assert len(await due(connection)) == 1


async def test_an_edit_keeps_updates_and_another_spec_forgets_them(connection: Connection) -> None:
    schedule = await judged(connection)
    await update(connection, "sales")
    await settle(connection)

    await connection.execute("UPDATE pgcron.schedule SET args = '{\"day\": 1}', priority = 1")
    assert await waits_for(connection, schedule) == ["stock"]
    await connection.execute("UPDATE pgcron.schedule SET spec = 'on asset sales and prices'")
    assert await waits_for(connection, schedule) == ["prices", "sales"]
    await connection.execute("UPDATE pgcron.schedule SET spec = '@daily'")
    assert await waits_for(connection, schedule) == []
    await connection.execute("DELETE FROM pgcron.schedule")
    assert await connection.fetchval("SELECT count(*) FROM pgcron.schedule_asset") == 0


async def test_an_update_in_the_transaction_of_the_schedule_counts(connection: Connection) -> None:
    async with connection.transaction():
        await put_schedule(connection, spec="on asset sales")
        await update(connection, "sales")
    await settle(connection)  # before any node has read the spec
    assert await due(connection) == []
    await judge(connection)
    await begun_before(connection)

    assert len(await due(connection)) == 1


async def test_an_edit_leaves_a_delayed_run_as_it_is(connection: Connection) -> None:
    schedule = await judged(connection, spec="on asset sales", jitter=timedelta(hours=20))
    await update(connection, "sales")
    await settle(connection)
    await fire(connection, (await due(connection))[0])
    [run] = await connection.fetch("SELECT id, due_at > now() AS is_delayed FROM pgcron.run")
    assert run["is_delayed"]

    await connection.execute("UPDATE pgcron.schedule SET priority = 1")

    assert await connection.fetchval("SELECT id FROM pgcron.run") == run["id"]
    assert (await cursor_of(connection, schedule))["watermark"] > await connection.fetchval(
        "SELECT scheduled_for FROM pgcron.run"
    )


async def test_runs_of_updates_count_for_max_runs(connection: Connection) -> None:
    await judged(connection, spec="on asset sales", max_runs=1)
    await update(connection, "sales")
    await settle(connection)
    await fire(connection, (await due(connection))[0])
    await connection.execute("DELETE FROM pgcron.run")
    await begun_before(connection)
    await update(connection, "sales")
    await settle(connection)

    assert await due(connection) == []
    assert await connection.fetchval("SELECT status FROM pgcron.schedules") == "done"


async def test_why_names_no_fire_time(connection: Connection) -> None:
    await judged(connection, spec="on asset sales")
    for distance in ("-1 second", "1 hour"):
        row = await connection.fetchrow(
            f"SELECT * FROM pgcron.why('job', now() + interval '{distance}')"
        )
        assert row is not None
        assert row["code"] in ("not_an_instant", "not_created")


async def test_who_was_granted_it_updates_and_sees_nothing(become: Become) -> None:
    updater, viewer = await become("updater"), await become("viewer")
    await update(updater, "sales")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await updater.execute("SELECT * FROM pgcron.assets")

    assert await viewer.fetch("SELECT * FROM pgcron.assets") == []
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await update(viewer, "sales")


async def test_a_schedule_on_assets_has_no_backfill(connection: Connection) -> None:
    await judged(connection)
    with pytest.raises(asyncpg.PostgresError, match="schedule 'job' is on assets") as refused:
        await connection.execute("SELECT pgcron.backfill('job', now() - interval '2 hours')")
    assert refused.value.sqlstate == "PC001"
