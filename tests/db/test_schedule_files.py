"""``pgcron.apply_schedules``: what files say, in one transaction."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from pgcron_ha.errors import Conflict, InvalidInput
from tests.db.control import Connect, Connection, waits_for_lock
from tests.product.db import (
    apply_schedules,
    default_schedule,
    functions,
    prune_schedules,
    schedules_to_export,
)

NIGHTLY: dict[str, Any] = {"name": "nightly", "spec": "0 3 * * *", "handler": "py:x"}


async def changed(connection: Connection, *definitions: Any, **options: Any) -> dict[str, str]:
    applied = await apply_schedules(
        connection, definitions, options.pop("source", "files"), **options
    )
    return {one["name"]: one["change"] for one in applied}


async def exported(connection: Connection, *values: Any, **options: Any) -> list[dict[str, Any]]:
    found = await schedules_to_export(connection, *values, **options)
    return [dict(row["content"]) for row in found]


async def test_what_a_file_does_not_say_is_what_a_new_schedule_has(connection: Connection) -> None:
    await functions.put_schedule(connection, "plain", "0 3 * * *", "py:x")
    assert await changed(connection, NIGHTLY) == {"nightly": "added"}
    nightly, plain = await exported(connection)
    default = (await default_schedule(connection))["content"]

    own = {"id", "uuid", "name", "created_at", "updated_at", "managed_by", "source"}
    assert {k: v for k, v in plain.items() if k not in own} == {
        k: v for k, v in nightly.items() if k not in own
    }
    said = own | {"spec", "handler", "version"}
    assert {k: v for k, v in nightly.items() if k not in said} == {
        k: v for k, v in default.items() if k not in said
    }
    assert (nightly["managed_by"], nightly["source"]) == ("file", "files")


async def test_every_policy_is_kept_changed_and_taken_back(connection: Connection) -> None:
    policies: dict[str, Any] = {
        "args": '{"a": 1}',
        "timezone": "Europe/Berlin",
        "overlap": "queue",
        "max_queued": 3,
        "start_deadline": timedelta(minutes=90, milliseconds=5),
        "catchup_window": timedelta(days=2),
        "requires": ("gpu=a100",),
        "retry": '{"backoff": "linear"}',
        "concurrency_key": "tenant",
    }
    await changed(connection, {**NIGHTLY, **policies})
    (row,) = await exported(connection, ["nightly"])
    assert {name: row[name] for name in policies} == {**policies, "requires": ["gpu=a100"]}
    assert await changed(connection, {**NIGHTLY, **policies}) == {"nightly": "unchanged"}
    assert await changed(connection, NIGHTLY) == {"nightly": "changed"}
    (row,) = await exported(connection, source="files")
    default = (await default_schedule(connection))["content"]
    assert {name: row[name] for name in policies} == {name: default[name] for name in policies}


async def test_a_day_is_24_hours_however_it_is_written(connection: Connection) -> None:
    await changed(connection, {**NIGHTLY, "catchup_window": timedelta(days=1)})
    await connection.execute("UPDATE pgcron.schedule SET catchup_window = '24:00'")
    version = await connection.fetchval("SELECT version FROM pgcron.schedule")
    again = {**NIGHTLY, "catchup_window": timedelta(hours=24)}
    assert await changed(connection, again) == {"nightly": "unchanged"}
    assert await connection.fetchval("SELECT version FROM pgcron.schedule") == version


async def test_an_edit_of_timing_starts_a_new_generation_and_one_of_the_owner_does_not(
    connection: Connection,
) -> None:
    await functions.put_schedule(connection, "nightly", "0 3 * * *", "py:x", managed_by="cli")
    assert await changed(connection, NIGHTLY) == {"nightly": "changed"}
    assert await connection.fetchval("SELECT generation FROM pgcron.cursor") == 1
    await changed(connection, {**NIGHTLY, "spec": "@hourly"})
    assert await connection.fetchval("SELECT generation FROM pgcron.cursor") == 2


async def test_one_at_fault_undoes_all(connection: Connection) -> None:
    wrong = {**NIGHTLY, "name": "wrong", "priority": 12}
    with pytest.raises(InvalidInput, match="schedule 'wrong': priority 12 is out of range"):
        await changed(connection, NIGHTLY, wrong)
    assert await exported(connection) == []


async def test_of_two_sources_at_once_the_second_is_refused(
    connection: Connection, another: Connect
) -> None:
    first, second = await another(), await another()
    async with first.transaction():
        await changed(first, NIGHTLY, source="one")
        applying = asyncio.create_task(changed(second, NIGHTLY, source="two"))
        await waits_for_lock(connection, second)
        assert not applying.done()
    with pytest.raises(Conflict, match="by the files of 'one' and of 'two'"):
        await applying
    assert await changed(second, NIGHTLY, source="two", take_over=True) == {"nightly": "changed"}


async def test_pruning_deletes_what_the_source_owns_and_nothing_else(
    connection: Connection,
) -> None:
    other = {**NIGHTLY, "name": "other"}
    await changed(connection, NIGHTLY, other)
    await changed(connection, {**NIGHTLY, "name": "foreign"}, source="elsewhere")
    await functions.put_schedule(connection, "by hand", "@daily", "py:x")
    assert await changed(connection, NIGHTLY) == {"nightly": "unchanged"}
    pruned = await prune_schedules(connection, "files", ["nightly"], actor="cli:ann")
    assert [(one["name"], one["change"]) for one in pruned] == [("other", "pruned")]
    recorded = await connection.fetchrow(
        "SELECT verb, name, actor, interface FROM pgcron.audit ORDER BY id DESC LIMIT 1"
    )
    assert tuple(recorded or ()) == ("delete", "other", "cli:ann", "file")
    names = [row["name"] for row in await exported(connection)]
    assert names == ["by hand", "foreign", "nightly"]


async def test_whose_a_schedule_is_says_who_applies_it(connection: Connection) -> None:
    await changed(connection, {**NIGHTLY, "source": "another", "managed_by": "code"}, source="mine")

    owner = "SELECT managed_by, source FROM pgcron.schedule"
    assert tuple(await connection.fetchrow(owner) or ()) == ("file", "mine")
