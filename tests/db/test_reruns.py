"""What an ended run was told about time and retries, its successors are told too."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.db.control import Connection, claim, enqueue, fail, finish, join, run_row
from tests.product.client import OF_RUNS

OWN = {"timeout": timedelta(minutes=3), "retry": '{"cap": 540, "base": 7}', "max_attempts": 1}
DEFAULT = {"timeout": None, "retry": None, "max_attempts": 1}


async def _ended(connection: Connection, how: str, settings: dict[str, Any]) -> int:
    """A run that ended in one of the ways in which runs end."""
    [run_id] = await enqueue(connection, **settings)
    if how == "cancelled":
        await connection.execute("SELECT pgcron.cancel_run($1)", run_id)
        return run_id
    claimed = await claim(connection, await join(connection))
    if how == "dead":
        await fail(connection, claimed)
    else:
        assert await finish(connection, claimed) == [run_id]
    return run_id


@pytest.mark.parametrize("settings", [OWN, DEFAULT], ids=["own", "default"])
@pytest.mark.parametrize("how", ["succeeded", "cancelled", "dead"])
async def test_a_rerun_has_the_settings_of_the_run_it_repeats(
    connection: Connection, how: str, settings: dict[str, object]
) -> None:
    run_id = await _ended(connection, how, settings)

    again = await connection.fetchval("SELECT pgcron.retry_run($1)", run_id)

    row = await run_row(connection, again)
    assert row is not None
    assert {name: row[name] for name in settings} == settings
    kept = await connection.fetchrow("SELECT * FROM pgcron.history WHERE id = $1", run_id)
    assert kept is not None
    # Most runs have the defaults, and their history does not pay for them.
    assert (kept["timeout"] is None) == (settings is DEFAULT)


async def test_a_dead_letter_is_sent_again_with_its_own_settings(connection: Connection) -> None:
    run_id = await _ended(connection, "dead", OWN)

    again = await connection.fetchval("SELECT pgcron.redrive($1)", run_id)

    row = await run_row(connection, again)
    assert row is not None
    assert {name: row[name] for name in OWN} == OWN


# What an enqueue decides with, and no run is told.
OF_THE_REQUEST = {
    *("due_at", "idempotency_key", "key_lifetime", "start_within", "unique_for", "on_conflict"),
    *("debounce", "debounce_max"),
}
LIMITS = {"give_up_after": timedelta(hours=2), "silence_timeout": timedelta(seconds=40)}
EVERY_OTHER = {
    **{"queue": "mail", "priority": 3, "max_attempts": 1, "delivery": "at_most_once"},
    **{"retry": '{"cap": 540}', "concurrency_key": "bank", "requires": ["gpu"], "weight": 2},
    **{"tags": ["red"], "timeout": timedelta(minutes=3)},
    **{"unique_key": "k", "unique_scope": "open"},
}


async def test_what_runs_again_has_every_option_of_the_table(connection: Connection) -> None:
    assert {*OF_RUNS} == {*EVERY_OTHER, *LIMITS, *OF_THE_REQUEST}
    given = {**EVERY_OTHER, **LIMITS}
    places = ", ".join(f"{name} => ${number}" for number, name in enumerate(given, 1))
    run = await connection.fetchval(f"SELECT pgcron.enqueue('py:work', {places})", *given.values())
    await connection.execute("SELECT pgcron.cancel_run($1)", run)

    again = await connection.fetchval("SELECT pgcron.retry_run($1)", run)

    row = await run_row(connection, again)
    assert row is not None
    assert {name: row[name] for name in EVERY_OTHER} == EVERY_OTHER
    assert (row["origin"], row["parent_run"]) == ("rerun", run)
    limits = json.loads(row["time_limits"])
    assert {name: timedelta(seconds=limits[name]) for name in LIMITS} == LIMITS


async def test_a_dead_letter_has_a_column_for_every_option(connection: Connection) -> None:
    columns = await connection.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'pgcron.dead_letter'::regclass"
    )

    assert {*EVERY_OTHER, "time_limits"} <= {name for (name,) in columns}
