"""Waiting for the end of a run from SQL."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Literal

import asyncpg
import pytest

from tests.db.control import Connect, Connection, claim, enqueue, finish, join
from tests.waiting import until

Level = Literal["read_committed", "repeatable_read", "serializable"]
WAIT = "SELECT ended, state, result, error FROM pgcron.wait($1, make_interval(secs => $2))"


async def wait(connection: Connection, run_id: int, seconds: float) -> tuple[Any, ...]:
    row = await connection.fetchrow(WAIT, run_id, seconds)
    assert row is not None
    return tuple(row)


async def horizon(connection: Connection, waiter: Connection) -> int | None:
    """The oldest transaction whose dead rows the waiter still needs; None: it needs none."""
    found: int | None = await connection.fetchval(
        "SELECT backend_xmin::text::bigint FROM pg_stat_activity WHERE pid = $1",
        waiter.get_server_pid(),
    )
    return found


async def test_the_outcome_and_the_result_come_when_the_run_has_ended(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    (run_id,) = await enqueue(connection)
    waiter = await another()
    waiting = asyncio.ensure_future(wait(waiter, run_id, 30))
    await until("it looks", lambda: horizon(connection, waiter))
    await finish(connection, await claim(connection, node, 1))

    assert await waiting == (True, "succeeded", '{"fine": true}', None)
    assert await wait(connection, run_id, 0) == (True, "succeeded", '{"fine": true}', None)


async def test_after_the_timeout_it_says_how_the_run_stands(connection: Connection) -> None:
    (run_id,) = await enqueue(connection)

    assert await wait(connection, run_id, 0.03) == (False, "ready", None, None)
    row = await connection.fetchrow(f"CALL pgcron.wait_long({run_id}, '0.03 s')")
    assert row is not None
    assert tuple(row) == (False, "ready", None, None)


@pytest.mark.parametrize("level", ["read_committed", "repeatable_read", "serializable"])
async def test_a_wait_that_could_only_be_in_vain_is_refused(
    level: Level, connection: Connection
) -> None:
    (before,) = await enqueue(connection)
    async with connection.transaction(isolation=level):
        (own,) = await enqueue(connection)
        with pytest.raises(asyncpg.PostgresError, match="by this very transaction") as refusal:
            async with connection.transaction():
                await wait(connection, own, 30)
        assert refusal.value.sqlstate == "PC011"
        async with connection.transaction():
            (of_subtransaction,) = await enqueue(connection)
        with pytest.raises(asyncpg.PostgresError, match="by this very transaction"):
            async with connection.transaction():
                await wait(connection, of_subtransaction, 30)
        if level == "read_committed":
            assert await wait(connection, before, 0) == (False, "ready", None, None)
        else:
            with pytest.raises(asyncpg.PostgresError, match="never will be"):
                async with connection.transaction():
                    await wait(connection, before, 30)
        await connection.execute("SELECT pgcron.cancel_run($1)", before)
        assert (await wait(connection, before, 30))[:2] == (True, "cancelled")


async def test_a_wait_that_takes_too_long_or_knows_no_run_is_refused(
    connection: Connection,
) -> None:
    (run_id,) = await enqueue(connection)
    for asked, code in ((404, "PC010"), (None, "PC010")):
        with pytest.raises(asyncpg.PostgresError) as refusal:
            await connection.execute(WAIT.replace("$1", str(asked or "NULL")).replace("$2", "1"))
        assert refusal.value.sqlstate == code
    for timeout in ("61 s", "-1 s", None):
        with pytest.raises(asyncpg.PostgresError, match="out of range") as refusal:
            await connection.fetch(
                "SELECT * FROM pgcron.wait($1, $2::text::interval)", run_id, timeout
            )
        assert refusal.value.sqlstate == "PC001"
        assert refusal.value.hint


async def test_the_procedure_keeps_no_snapshot_and_the_function_keeps_one(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    run_ids = await enqueue(connection, 2)
    by_function, by_procedure = await another(), await another()
    waiting = [
        asyncio.ensure_future(wait(by_function, run_ids[0], 60)),
        asyncio.ensure_future(by_procedure.fetchrow(f"CALL pgcron.wait_long({run_ids[1]})")),
    ]

    async def passed(waiter: Connection, number: int) -> bool:
        """It holds nothing that a transaction before that number has left."""
        held = await horizon(connection, waiter)
        return held is not None and held > number

    for waiter in (by_function, by_procedure):
        await until("it looks", partial(horizon, connection, waiter))
    number = int(await connection.fetchval("SELECT pg_current_xact_id()::text::bigint"))
    await connection.fetchval("SELECT pg_current_xact_id()::text::bigint")
    await until("a later look has a snapshot of its own", lambda: passed(by_procedure, number))
    assert not await passed(by_function, number)

    await finish(connection, await claim(connection, node, 2))
    ended = await asyncio.gather(*waiting)
    assert [tuple(each or ()) for each in ended] == [
        (True, "succeeded", '{"fine": true}', None)
    ] * 2


async def test_the_procedure_is_refused_within_a_transaction(connection: Connection) -> None:
    (run_id,) = await enqueue(connection)
    call = f"CALL pgcron.wait_long({run_id})"
    with pytest.raises(asyncpg.PostgresError, match="within a transaction") as refusal:
        await connection.execute(f"BEGIN; SELECT pgcron.enqueue('py:work'); {call}")
    assert refusal.value.sqlstate == "PC011"
    await connection.execute("ROLLBACK")
    with pytest.raises(asyncpg.InvalidTransactionTerminationError):
        async with connection.transaction():
            await connection.execute(call)


async def test_who_listens_is_told_of_the_end_of_runs_that_are_awaited(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    run_ids = await enqueue(connection, 2)
    listener = await another()
    heard: list[str] = []
    channel = await listener.fetchval("SELECT pgcron.end_channel()")
    await listener.add_listener(channel, lambda *reported: heard.append(str(reported[-1])))

    async def marked() -> bool:
        row = await listener.fetchrow("SELECT * FROM pgcron.await_runs($1)", run_ids[:1])
        return row is not None and row["unmarked"] == []

    await until("it is marked", marked)
    await finish(connection, await claim(connection, node, 2))

    await until("it is told", lambda: heard)
    assert heard == [str(run_ids[0])]
