"""A kill as a second step, and the time limits that few runs have."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Row,
    call,
    claim,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    kill,
    put_schedule,
    reap,
    run_row,
)
from tests.waiting import slowness

HOUR = timedelta(hours=1)


async def asked(connection: Connection, **limits: Any) -> int:
    """A run asked for through `pgcron.enqueue`."""
    names = ", ".join(f"{name} => ${number}" for number, name in enumerate(limits, 1))
    found: int = await connection.fetchval(
        f"SELECT pgcron.enqueue('py:work', {names})", *limits.values()
    )
    return found


async def existing(connection: Connection, run_id: int) -> Row:
    row = await run_row(connection, run_id)
    assert row is not None
    return row


async def past(connection: Connection, run_id: int, by: timedelta = HOUR) -> None:
    """Everything that the run was told happened so much earlier."""
    await connection.execute(
        "UPDATE pgcron.run SET expire_at = expire_at - $2::interval, time_limits = time_limits ||"
        " jsonb_build_object('give_up_at', pgcron.give_up_at(time_limits) - $2::interval)"
        " WHERE id = $1",
        run_id,
        by,
    )


async def test_a_kill_of_a_running_run_is_told_to_its_node_with_the_next_beat(
    connection: Connection,
) -> None:
    node = await join(connection)
    ids = await enqueue(connection, 3)
    await claim(connection, node)
    await connection.execute("SELECT pgcron.cancel_run($1, 'enough', 'ann')", ids[0])
    assert await connection.fetchval("SELECT pgcron.kill_run($1, 'now', 'bob')", ids[0]) == (
        "requested"
    )
    assert await connection.fetchval("SELECT pgcron.kill_run($1, 'at once')", ids[1]) == "requested"
    await connection.execute("SELECT pgcron.kill_run($1, 'again', 'eve')", ids[0])

    [beat] = await call(
        connection,
        "beat",
        incarnation=node.incarnation,
        slots_used=3,
        is_draining=False,
        health=None,
        is_unresponsive=False,
    )

    assert sorted(beat["cancelled_ids"]) == sorted(beat["killed_ids"]) == ids[:2]
    row = await existing(connection, ids[0])
    assert row["cancel_reason"] == "cancelled by ann: enough; killed by bob: now"
    await kill(connection, node)
    assert await reap(connection) == {ids[0]: "cancelled", ids[1]: "cancelled", ids[2]: "retry"}


async def test_a_node_hears_of_each_request_once(connection: Connection, another: Connect) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await another()
    await listener.add_listener(
        await connection.fetchval("SELECT pgcron.channel()"),
        lambda *reported: heard.put_nowait(reported[-1]),
    )
    [run_id] = await enqueue(connection)
    await claim(connection, await join(connection))
    for verb in ("cancel", "cancel", "kill", "kill", "cancel"):
        assert await connection.fetchval(f"SELECT pgcron.{verb}_run($1)", run_id) == "requested"
        await connection.execute("SELECT pg_notify(pgcron.channel(), $1)", f"after {verb}")

    async with asyncio.timeout(10 * slowness()):
        words = [await heard.get() for _ in range(7)]
    assert words == [
        *("cancel", "after cancel", "after cancel"),
        *("cancel", "after kill", "after kill", "after cancel"),
    ]


async def test_a_kill_of_a_run_that_waits_or_has_ended_is_a_cancel(connection: Connection) -> None:
    [waiting] = await enqueue(connection)
    assert await connection.fetchval("SELECT pgcron.kill_run($1, 'no')", waiting) == "cancelled"
    assert await connection.fetchval("SELECT pgcron.kill_run($1, 'no')", waiting) == "finished"
    with pytest.raises(asyncpg.PostgresError) as caught:
        await connection.fetchval("SELECT pgcron.kill_run(4711)")
    assert caught.value.sqlstate == "PC010"


async def test_a_kill_without_a_request_to_stop_is_refused(connection: Connection) -> None:
    [run_id] = await enqueue(connection)
    await claim(connection, await join(connection))
    with pytest.raises(asyncpg.CheckViolationError, match="who_is_killed_was_asked_to_stop"):
        await connection.execute("UPDATE pgcron.run SET kill_at = now(), requires = '{gpu}'")
    assert (await existing(connection, run_id))["kill_at"] is None


async def test_a_run_that_did_not_start_in_time_is_not_claimed_and_expires(
    connection: Connection,
) -> None:
    due = datetime.now(UTC) - HOUR
    late = await asked(connection, due_at=due, start_within=HOUR / 2)
    early = await asked(connection, due_at=due, start_within=2 * HOUR)

    assert [row["id"] for row in await claim(connection, await join(connection))] == [early]
    assert [row["id"] for row in await call(connection, "expired_runs", at_most=9)] == [late]
    assert (await existing(connection, late))["expire_at"] == due + HOUR / 2
    assert (await existing(connection, late))["time_limits"] is None


async def test_the_time_in_all_ends_a_run_that_never_began_as_expired(
    connection: Connection,
) -> None:
    run_id = await asked(connection, give_up_after=HOUR, start_within=2 * HOUR)
    row = await existing(connection, run_id)
    assert row["expire_at"] == row["due_at"] + HOUR
    await past(connection, run_id)

    assert await claim(connection, await join(connection)) == []
    assert await call(connection, "give_up_runs", at_most=9) == []
    assert [row["id"] for row in await call(connection, "expired_runs", at_most=9)] == [run_id]


async def test_a_retry_that_would_come_too_late_is_not_waited_for(connection: Connection) -> None:
    run_id = await asked(connection, give_up_after=HOUR)
    claimed = await claim(connection, await join(connection))

    assert await fail(connection, claimed, retry_after=3700.0) == {run_id: "dead"}

    ended = await history_row(connection, run_id)
    assert ended is not None
    assert ended["error"].endswith("(not retried: it is given up 01:00:00 after it was due)")


async def test_a_run_whose_time_in_all_is_over_between_attempts_dies_of_its_last_error(
    connection: Connection,
) -> None:
    run_id = await asked(connection, give_up_after=HOUR)
    node = await join(connection)
    assert await fail(connection, await claim(connection, node), retry_after=60.0) == {
        run_id: "retry"
    }
    row = await existing(connection, run_id)
    assert row["expire_at"] == row["created_at"] + HOUR
    await past(connection, run_id, timedelta(minutes=59, seconds=59))
    assert await call(connection, "give_up_runs", at_most=9) == []
    await past(connection, run_id, timedelta(seconds=1))
    await connection.execute("UPDATE pgcron.run SET due_at = now()")

    assert await claim(connection, node) == []
    assert [row[0] for row in await call(connection, "give_up_runs", at_most=9)] == [run_id]

    letter = await connection.fetchrow("SELECT * FROM pgcron.dead_letter")
    assert letter is not None
    assert (letter["run_id"], letter["outcome"]) == (run_id, "dead")
    first = await connection.fetchrow("SELECT * FROM pgcron.attempt")
    assert first is not None
    assert letter["fingerprint"] == first["fingerprint"]
    assert letter["error"].startswith(first["error"])
    assert "given up 01:00:00 after it was due" in letter["error"]


async def test_a_node_learns_the_limits_of_a_run_that_lasts_as_often_as_it_asks(
    connection: Connection,
) -> None:
    limited = await asked(connection, give_up_after=HOUR, silence_timeout=timedelta(seconds=30))
    plain = await asked(connection, priority=6)
    claimed = {row["id"]: row for row in await claim(connection, await join(connection))}
    given = {
        "run_ids": [limited, plain],
        "tokens": [claimed[limited]["token"], claimed[plain]["token"]],
        "elapsed_seconds": [5.0, 5.0],
    }

    for _ in range(2):
        rows = {row["id"]: row for row in await call(connection, "mark_started", **given)}
        assert (rows[plain]["silence_timeout"], rows[plain]["give_up_in"]) == (None, None)
        assert rows[limited]["silence_timeout"] == 30
        assert 3590 < rows[limited]["give_up_in"] <= 3600


async def test_what_is_run_again_has_the_same_limits_from_now_on(connection: Connection) -> None:
    limits = {"give_up_after": HOUR, "silence_timeout": timedelta(seconds=30)}
    run_id = await asked(connection, **limits, max_attempts=1)
    first = (await existing(connection, run_id))["time_limits"]
    await past(connection, run_id, HOUR / 2)
    await fail(connection, await claim(connection, await join(connection)))

    for again in ("retry_run", "redrive"):
        new_id = await connection.fetchval(f"SELECT pgcron.{again}($1)", run_id)
        row = await existing(connection, new_id)
        assert row["expire_at"] == row["created_at"] + HOUR
        assert row["time_limits"] != first
        assert await connection.fetchval(
            "SELECT time_limits - 'give_up_at' = $1::jsonb - 'give_up_at' FROM pgcron.run"
            " WHERE id = $2",
            first,
            new_id,
        )


async def test_a_bulk_of_runs_has_limits_as_one_run_has(connection: Connection) -> None:
    requested = (
        '[{"handler": "py:work"}, {"handler": "py:work", "silence_timeout": "30 s"},'
        ' {"handler": "py:work", "start_within": "10 s", "give_up_after": "1 hour"}]'
    )
    ids = await connection.fetchval("SELECT pgcron.enqueue_many($1)", requested)

    plain, silent, bounded = [await existing(connection, run_id) for run_id in ids]
    assert (plain["expire_at"], plain["time_limits"]) == (None, None)
    assert (silent["expire_at"], silent["time_limits"]) == (None, '{"silence_timeout": 30}')
    assert bounded["expire_at"] == bounded["due_at"] + timedelta(seconds=10)
    assert '"give_up_after": 3600' in bounded["time_limits"]
    with pytest.raises(asyncpg.PostgresError, match=r"run 2 of 2: silence_timeout 00:00:00.1"):
        await connection.fetchval(
            "SELECT pgcron.enqueue_many($1)",
            '[{"handler": "py:a"}, {"handler": "py:b", "silence_timeout": "0.1 s"}]',
        )


async def test_runs_of_a_schedule_have_its_limits(connection: Connection) -> None:
    await put_schedule(connection, give_up_after=HOUR, silence_timeout=timedelta(seconds=30))
    name = await connection.fetchval("SELECT name FROM pgcron.schedule")

    row = await existing(connection, await connection.fetchval("SELECT pgcron.run_now($1)", name))

    assert row["expire_at"] == row["created_at"] + HOUR
    assert '"silence_timeout": 30' in row["time_limits"]


@pytest.mark.parametrize(
    "limit",
    [
        {"start_within": timedelta(0)},
        {"start_within": timedelta(days=367)},
        {"give_up_after": timedelta(seconds=-1)},
        {"give_up_after": timedelta(days=367)},
        {"silence_timeout": timedelta(seconds=0.9)},
        {"silence_timeout": timedelta(days=31)},
    ],
    ids=str,
)
async def test_limits_out_of_reason_are_refused(
    connection: Connection, limit: dict[str, Any]
) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await asked(connection, **limit)
    assert caught.value.sqlstate == "PC001"
    assert next(iter(limit)) in str(caught.value)
    if "start_within" not in limit:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await put_schedule(connection, **limit)
        assert caught.value.sqlstate == "PC001"


@pytest.mark.parametrize("limit", ["1 year 1 day", "1 year", "12 months 1 second"])
async def test_a_year_is_as_long_for_a_schedule_as_for_its_runs(
    connection: Connection, limit: str
) -> None:
    written = (
        "INSERT INTO pgcron.schedule (name, spec, handler, give_up_after)"
        f" VALUES ('s', '@daily', 'py:work', interval '{limit}')"
    )
    seconds = await connection.fetchval(f"SELECT extract(epoch FROM interval '{limit}')")
    if seconds <= 366 * 86400:
        await connection.execute(written)
        return
    with pytest.raises(asyncpg.PostgresError) as caught:
        await connection.execute(written)
    assert (caught.value.sqlstate, "give_up_after" in str(caught.value)) == ("PC001", True)


async def test_a_schedule_whose_runs_would_be_refused_is_refused_at_once(
    connection: Connection,
) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await put_schedule(connection, priority=12)
    assert caught.value.sqlstate == "PC001"
    assert "priority 12 is out of range" in str(caught.value)


@pytest.mark.parametrize(
    "written", ['{"silence": 3}', "[]", '{"give_up_after": 3}', '{"silence_timeout": "3"}', "3"]
)
async def test_limits_that_nobody_can_read_are_refused(
    connection: Connection, written: str
) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await enqueue(connection, time_limits=written)
    assert caught.value.sqlstate == "PC001"


async def test_a_run_with_limits_that_succeeds_keeps_them_in_history(
    connection: Connection,
) -> None:
    run_id = await asked(connection, silence_timeout=timedelta(seconds=30))
    await finish(connection, await claim(connection, await join(connection)))

    ended = await history_row(connection, run_id)
    assert ended is not None
    assert ended["time_limits"] == '{"silence_timeout": 30}'
