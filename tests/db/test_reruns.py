"""What an ended run was told about time and retries, its successors are told too."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.db.control import Connection, claim, enqueue, fail, finish, join, run_row

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
