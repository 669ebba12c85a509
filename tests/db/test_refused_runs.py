"""Runs that the database refuses to write, judge or end as usual."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.db.control import (
    Connect,
    Connection,
    Row,
    call,
    claim,
    enqueue,
    history_row,
    join,
    put_schedule,
    run_row,
)
from tests.product.db import broken_rows

WHY = "the row breaks a rule"


async def end_refused(connection: Connection, run_id: int, token: object = None) -> bool:
    """Whether this call ended the run."""
    [row] = await call(
        connection, "end_refused_run", run_id=run_id, token=token, reason=WHY, node="n1"
    )
    return bool(row[0])


async def letter_of(connection: Connection, run_id: int) -> Row:
    """The dead letter of a run."""
    row = await connection.fetchrow("SELECT * FROM pgcron.dead_letter WHERE run_id = $1", run_id)
    assert row is not None
    return row


async def against_the_rules(connection: Connection, run_id: int) -> None:
    """A rule that is newer than the row, which no UPDATE of the row can pass."""
    await connection.execute(
        f"ALTER TABLE pgcron.run ADD CONSTRAINT newer_rule CHECK (id <> {run_id}) NOT VALID"
    )


async def with_unreadable_limits(connection: Connection, run_id: int) -> None:
    """Time limits as no producer can write them any more."""
    await connection.execute("ALTER TABLE pgcron.run DROP CONSTRAINT a_run_keeps_its_rules")
    await connection.execute(
        """UPDATE pgcron.run SET retry = '[1]', time_limits =
           '{"give_up_at": "2026-13-45T99:99", "give_up_after": "never"}' WHERE id = $1""",
        run_id,
    )


async def without_a_partition(connection: Connection, run_id: int) -> None:
    """No partition of history or of attempt for now."""
    rows = await connection.fetch(
        """SELECT inhrelid::regclass::text FROM pg_inherits
           WHERE inhparent IN ('pgcron.history'::regclass, 'pgcron.attempt'::regclass)"""
    )
    await connection.execute("".join(f"DROP TABLE {row[0]};" for row in rows))


async def with_values_that_nobody_takes(connection: Connection, run_id: int) -> None:
    """Args that the dead letters refuse."""
    await connection.execute(
        "ALTER TABLE pgcron.dead_letter ADD CHECK (args = '{}');"
        """UPDATE pgcron.run SET args = '{"day": 1}'"""
    )


async def with_a_history_that_refuses(connection: Connection, run_id: int) -> None:
    """An index of somebody's that has no entry for this run."""
    await connection.execute(f"CREATE INDEX ON pgcron.history ((1 / (id - {run_id})))")


REASONS = (
    against_the_rules,
    with_unreadable_limits,
    without_a_partition,
    with_values_that_nobody_takes,
    with_a_history_that_refuses,
)


@pytest.mark.parametrize("refused", REASONS)
async def test_a_waiting_run_that_is_refused_ends_dead(
    connection: Connection, refused: Any
) -> None:
    [run_id] = await enqueue(connection)
    await refused(connection, run_id)

    assert await end_refused(connection, run_id)

    assert await run_row(connection, run_id) is None
    ended = await connection.fetchrow("SELECT * FROM pgcron.runs WHERE id = $1", run_id)
    assert ended is not None
    assert (ended["state"], ended["error"]) == ("dead", WHY)
    letter = await letter_of(connection, run_id)
    assert (letter["outcome"], letter["error_class"], letter["error"]) == (
        "dead",
        "RunRefused",
        WHY,
    )
    assert letter["fingerprint"]
    assert not await end_refused(connection, run_id)


@pytest.mark.parametrize("refused", REASONS)
async def test_a_running_run_that_is_refused_ends_dead_by_its_token(
    connection: Connection, refused: Any
) -> None:
    [run_id] = await enqueue(connection)
    [run] = await claim(connection, await join(connection))
    await refused(connection, run_id)

    assert not await end_refused(connection, run_id)
    assert not await end_refused(connection, run_id, "00000000-0000-0000-0000-000000000000")
    assert await end_refused(connection, run_id, run["token"])

    assert await run_row(connection, run_id) is None
    [ended] = await connection.fetch(
        """SELECT outcome, fence, node FROM pgcron.history WHERE id = $1
           UNION ALL SELECT outcome, fence, node FROM pgcron.history_overflow WHERE id = $1""",
        run_id,
    )
    assert (ended["outcome"], ended["fence"], ended["node"]) == ("dead", run["fence"], "n1")


async def test_what_can_be_kept_of_a_refused_run_is_kept(connection: Connection) -> None:
    [run_id] = await enqueue(connection, args='{"day": 1}', created_by="the shop")
    await against_the_rules(connection, run_id)
    await end_refused(connection, run_id)
    ended = await history_row(connection, run_id)
    assert ended is not None
    assert (ended["args"], ended["created_by"]) == ('{"day": 1}', "the shop")


async def test_a_refused_fire_is_accounted_for(connection: Connection) -> None:
    schedule = await put_schedule(connection)
    [run_id] = await connection.fetch(
        """WITH made AS (INSERT INTO pgcron.run (handler, origin, schedule_id, scheduled_for)
             VALUES ('py:work', 'schedule', $1, now()) RETURNING id, schedule_id, scheduled_for)
           INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, run_id)
           SELECT schedule_id, scheduled_for, 'run', id FROM made RETURNING run_id""",
        schedule,
    )
    await against_the_rules(connection, run_id[0])
    await end_refused(connection, run_id[0])
    assert "a run is gone" not in {row["rule"] for row in await broken_rows(connection)}


async def test_a_refused_fire_ends_whatever_its_failure_can_not_be_counted(
    connection: Connection,
) -> None:
    schedule = await put_schedule(connection, pause_after_failures=2)
    run_id = await connection.fetchval(
        """INSERT INTO pgcron.run (handler, origin, schedule_id, scheduled_for)
           VALUES ('py:work', 'schedule', $1, now()) RETURNING id""",
        schedule,
    )
    await connection.execute(f"ALTER TABLE pgcron.fire_failure ADD CHECK (run_id <> {run_id})")
    assert await end_refused(connection, run_id)
    assert (await letter_of(connection, run_id))["error"] == WHY


async def test_of_two_who_end_a_refused_run_one_does(
    connection: Connection, another: Connect
) -> None:
    [run_id] = await enqueue(connection)
    await against_the_rules(connection, run_id)
    other = await another()
    ended = await asyncio.gather(end_refused(connection, run_id), end_refused(other, run_id))
    assert sorted(ended) == [False, True]
