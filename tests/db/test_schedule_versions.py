from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from pgcron_ha.errors import Conflict, InvalidInput, NotFound, VersionConflict
from tests.db.control import Connect, Connection, call, cursor_of, put_schedule, waits_for_lock
from tests.product.db import (
    edit_schedule,
    functions,
    on_warning,
    restore_schedule,
    schedule_versions,
    written_schedule,
)


async def edit(connection: Connection, statement: str, interface: str = "sql") -> None:
    async with connection.transaction():
        await connection.execute("SELECT pgcron.act_as('anna', $1)", interface)
        await connection.execute(statement)


async def version_of(connection: Connection, name: str = "job") -> Any:
    return await connection.fetchval("SELECT version FROM pgcron.schedule WHERE name = $1", name)


async def test_a_put_that_expects_another_version_is_told_who_edited(
    connection: Connection,
) -> None:
    await functions.put_schedule(connection, "job", "@daily", "py:a", actor="bert", interface="cli")
    await functions.put_schedule(
        connection, "job", "@hourly", "py:a", actor="anna", interface="ui", expected_version=1
    )

    with pytest.raises(VersionConflict) as refused:
        await functions.put_schedule(
            connection, "job", "@weekly", "py:a", actor="bert", expected_version=1
        )
    assert refused.value.message == "schedule 'job' has version 2, not 1"
    assert (refused.value.detail or "").startswith("It was written by anna through ui at 20")
    assert isinstance(refused.value, Conflict)
    with pytest.raises(VersionConflict, match="exists already"):
        await functions.put_schedule(connection, "job", "@weekly", "py:a", expected_version=0)
    with pytest.raises(VersionConflict, match="no version 3 any more"):
        await functions.put_schedule(connection, "gone", "@weekly", "py:a", expected_version=3)
    assert await connection.fetchval("SELECT spec FROM pgcron.schedule") == "@hourly"
    assert await functions.put_schedule(connection, "new", "@weekly", "py:a", expected_version=0)


@pytest.mark.parametrize("expected", [0, 1])
async def test_of_two_editors_at_once_the_second_is_told(
    connection: Connection, another: Connect, expected: int
) -> None:
    if expected:
        await put_schedule(connection)
    first, second = await another(), await another()
    async with first.transaction():
        await functions.put_schedule(first, "job", "@daily", "py:a", expected_version=expected)
        putting = asyncio.create_task(
            functions.put_schedule(second, "job", "@hourly", "py:a", expected_version=expected)
        )
        await waits_for_lock(connection, second)

    with pytest.raises(VersionConflict):
        await putting
    assert await connection.fetchval("SELECT spec FROM pgcron.schedule") == "@daily"


async def test_plain_sql_can_ask_for_the_version_it_read(connection: Connection) -> None:
    await put_schedule(connection)
    await edit(connection, "UPDATE pgcron.schedule SET spec = '@daily' WHERE version = 1")
    late = await connection.execute("UPDATE pgcron.schedule SET spec = '@weekly' WHERE version = 1")

    assert late == "UPDATE 0"


async def test_a_restore_is_a_new_version_that_says_so(connection: Connection) -> None:
    await put_schedule(connection, spec="0 3 * * *", args='{"a": 1}', timeout=timedelta(minutes=10))
    await edit(
        connection,
        "UPDATE pgcron.schedule SET spec = '@daily', args = '{}', priority = 1, timeout = '1 day'",
    )
    await functions.pause_schedule(connection, "job", "a holiday")
    before = await connection.fetchrow("SELECT * FROM pgcron.schedule")

    done = await restore_schedule(connection, "job", 1, actor="anna", interface="cli")
    after = await connection.fetchrow("SELECT * FROM pgcron.schedule")

    assert before is not None
    assert after is not None
    assert (done["schedule_id"], done["version"], done["note"]) == (
        before["id"],
        4,
        "restored from version 1",
    )
    assert (after["spec"], after["args"], after["priority"]) == ("0 3 * * *", '{"a": 1}', 5)
    assert after["timeout"].total_seconds() == 600
    assert (after["enabled"], after["paused_note"], after["uuid"]) == (
        False,
        "a holiday",
        before["uuid"],
    )
    newest, *_, oldest = await schedule_versions(connection, "job")
    assert (newest["version"], newest["note"], newest["actor"], newest["interface"]) == (
        4,
        "restored from version 1",
        "anna",
        "cli",
    )
    assert newest["is_current"]
    assert (oldest["operation"], oldest["note"], oldest["is_current"]) == ("create", None, False)
    await edit(connection, "UPDATE pgcron.schedule SET priority = 2")
    assert (await schedule_versions(connection, "job"))[0]["note"] is None


async def test_a_deleted_schedule_is_restored_as_another(connection: Connection) -> None:
    first = await put_schedule(connection, spec="0 3 * * *", queue="slow", managed_by="ui")
    await edit(connection, "UPDATE pgcron.schedule SET spec = '@daily'")
    await functions.delete_schedule(connection, "job", actor="anna", interface="cli")
    gone = await schedule_versions(connection, "job")
    assert [row["operation"] for row in gone] == ["delete", "edit", "create"]
    with pytest.raises(NotFound, match="has no version 9"):
        await restore_schedule(connection, "job", 9)

    done = await restore_schedule(connection, "job", 1)

    assert done["schedule_id"] != first
    assert done["version"] == 1
    assert done["note"] == f"restored from version 1 of deleted schedule {first}"
    row = await connection.fetchrow("SELECT spec, queue, managed_by, enabled FROM pgcron.schedule")
    assert row is not None
    assert tuple(row) == ("0 3 * * *", "slow", "ui", True)
    cursor = await cursor_of(connection, done["schedule_id"])
    assert cursor["watermark"] == cursor["since"]
    (only,) = await schedule_versions(connection, "job")
    assert only["note"] == done["note"]
    with pytest.raises(NotFound, match="'nobody' does not exist"):
        await schedule_versions(connection, "nobody")


async def test_a_schedule_that_was_deleted_in_a_pause_is_restored_after_its_end(
    connection: Connection,
) -> None:
    await put_schedule(connection)
    await connection.execute("SELECT pgcron.pause_schedule('job', until => now() + '1 day')")
    await connection.execute("SELECT pgcron.delete_schedule('job')")
    await connection.execute(
        "UPDATE pgcron.schedule_version SET content = content ||"
        " jsonb_build_object('paused_until', now()) WHERE version = 2"
    )

    await restore_schedule(connection, "job", 2)

    restored = "SELECT enabled, paused_until, paused_note FROM pgcron.schedule WHERE name = 'job'"
    assert tuple(await connection.fetchrow(restored) or ()) == (True, None, None)


async def test_a_restore_of_an_outdated_view_is_refused(connection: Connection) -> None:
    await put_schedule(connection)
    await edit(connection, "UPDATE pgcron.schedule SET spec = '@daily'")
    await edit(connection, "UPDATE pgcron.schedule SET spec = '@weekly'")
    with pytest.raises(VersionConflict):
        await restore_schedule(connection, "job", 1, expected_version=2)
    assert await version_of(connection) == 3
    await restore_schedule(connection, "job", 1, expected_version=3)
    assert await version_of(connection) == 4


async def test_a_version_knows_from_when_on_it_decided(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    created = (await cursor_of(connection, schedule))["since"]
    await edit(connection, "UPDATE pgcron.schedule SET spec = '@daily'")
    edited = (await cursor_of(connection, schedule))["since"]
    async with connection.transaction(isolation="repeatable_read"):
        await connection.execute("UPDATE pgcron.schedule SET spec = '@weekly'")
    pending = [row["since"] for row in await schedule_versions(connection, "job")]
    await call(connection, "apply_edit", schedule_id=schedule)
    applied = (await cursor_of(connection, schedule))["since"]

    assert pending == [None, edited, created]
    known = [row["since"] for row in await schedule_versions(connection, "job")]
    assert known == [applied, edited, created]


async def test_the_newest_two_hundred_versions_are_kept(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    for number in range(1, 204):
        await connection.execute("UPDATE pgcron.schedule SET priority = $1", number % 9)
    rows = await schedule_versions(connection, "job", limit=1000)
    assert [rows[0]["version"], rows[-1]["version"], len(rows)] == [204, 5, 200]

    await connection.execute("DELETE FROM pgcron.schedule")
    for days, left in ((399, 200), (401, 0)):
        await connection.execute(
            "UPDATE pgcron.schedule_version SET at = now() - $1::int * interval '1 day'", days
        )
        await call(connection, "forget_versions", at_most=10)
        kept = "SELECT count(*) FROM pgcron.schedule_version WHERE schedule_id = $1"
        assert await connection.fetchval(kept, schedule) == left


@pytest.mark.parametrize(
    ("owner", "interface", "statement", "says"),
    [
        ("code", "cli", "SET priority = 1", "The next start of a node with that application"),
        ("file", "ui", "SET spec = '@daily'", "The next `pgcron-ha schedules apply`"),
        ("ui", "sql", "SET priority = 1", "The edit stays"),
        ("code", "code", "SET priority = 1", None),
        ("code", "cli", "SET enabled = false, paused_note = 'x'", None),
        ("code", "cli", "SET priority = 1, managed_by = 'cli'", None),
        ("code", "cli", "SET name = name", None),
    ],
)
async def test_an_edit_through_another_door_is_warned_of_its_owner(
    connection: Connection, owner: str, interface: str, statement: str, says: str | None
) -> None:
    reported: list[tuple[str, ...]] = []
    await put_schedule(connection, managed_by=owner)
    on_warning(connection, lambda *words: reported.append(words))

    await edit(connection, f"UPDATE pgcron.schedule {statement}", interface)
    await asyncio.sleep(0)

    if says is None:
        assert reported == []
    else:
        ((message, detail, hint),) = reported
        assert message.startswith("schedule 'job' is managed by ")
        assert message.endswith(f"and was edited through {interface}")
        assert detail.startswith(says)
        assert hint.endswith(f"managed_by '{interface}'.")


async def test_columns_are_edited_by_name_with_a_note(connection: Connection) -> None:
    await put_schedule(connection, start_deadline=timedelta(minutes=5), queue="slow")
    changes = '{"spec": "@daily", "args": {"a": [1]}, "start_deadline": null, "queue": null}'
    version = await edit_schedule(
        connection,
        "job",
        changes,
        expected_version=1,
        note="a reason",
        actor="anna",
        interface="ui",
    )

    assert version == 2
    row = await written_schedule(connection, "job")
    assert row is not None
    assert (row["spec"], row["args"], row["start_deadline"]) == ("@daily", {"a": [1]}, None)
    assert row["queue"] == "default"
    newest = (await schedule_versions(connection, "job"))[0]
    assert (newest["note"], newest["actor"], newest["interface"]) == ("a reason", "anna", "ui")
    assert await edit_schedule(connection, "job", "{}") == 2
    with pytest.raises(VersionConflict):
        await edit_schedule(connection, "job", '{"spec": "@weekly"}', expected_version=1)
    for wrong in ('{"id": 1}', '{"sepc": "@daily"}', '{"name": "x"}', '{"handler": null}'):
        with pytest.raises(InvalidInput):
            await edit_schedule(connection, "job", wrong)
    with pytest.raises(NotFound):
        await edit_schedule(connection, "nobody", '{"spec": "@weekly"}')
