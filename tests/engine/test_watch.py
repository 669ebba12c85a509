from __future__ import annotations

import asyncio
from datetime import timedelta
from time import monotonic

import pytest

from pgcron_ha.executors.contract.base import DEFAULT_POLICY, Failed, StopReason
from tests.db.control import Connect, Connection, run_row
from tests.engine.conftest import MakeLink
from tests.engine.ending import Ending, begin
from tests.product.db import Link
from tests.product.engine import Watch
from tests.product.telemetry import Event, RunIsStuck
from tests.waiting import slowness, until


@pytest.fixture
async def ending(make_link: MakeLink, connection: Connection) -> Ending:
    return await begin(make_link(), connection)


@pytest.fixture
def watch(link: Link, ending: Ending) -> Watch:
    return Watch(link, ending.runner)


async def test_a_run_over_its_time_limit_is_asked_to_stop(ending: Ending, watch: Watch) -> None:
    slow, fast = await ending.claim(2)
    for run in (slow, fast):
        ending.executor.executing[run].timeout = 5.0
    ending.executor.begin(slow, monotonic() - 5.1)
    ending.executor.begin(fast, monotonic() - 4.0)

    await watch.run_once()
    await watch.run_once()

    assert ending.executor.stopped == [(slow, StopReason.TIMED_OUT)]


async def test_a_run_that_lasts_is_marked_as_started_once(
    ending: Ending, watch: Watch, link: Link, connection: Connection
) -> None:
    long, short = await ending.claim(2)
    ending.executor.begin(long, monotonic() - 10)
    ending.executor.begin(short, monotonic() + 60)  # has just begun, also on a slow machine

    await watch.run_once()

    row = await connection.fetchrow(
        "SELECT extract(epoch FROM now() - started_at)::float8 AS age FROM pgcron.run"
        " WHERE id = $1",
        long,
    )
    assert row is not None
    assert row["age"] == pytest.approx(10, abs=2)
    fresh = await run_row(connection, short)
    assert fresh is not None
    assert fresh["started_at"] is None

    await link.close()
    await watch.run_once()
    assert not link.is_open, "nothing more is written about a run that was marked"


async def test_nothing_that_executes_costs_no_statement(watch: Watch, link: Link) -> None:
    assert await watch.run_once() is None
    assert not link.is_open


async def test_the_next_attempt_is_marked_again(
    ending: Ending, watch: Watch, connection: Connection
) -> None:
    (run,) = await ending.claim()
    ending.executor.begin(run, monotonic() - 10)
    await watch.run_once()
    await ending.end([run], _retry_now())
    await ending.report()
    await ending.claim_due()
    ending.executor.begin(run, monotonic() - 1)

    await watch.run_once()

    row = await run_row(connection, run)
    assert row is not None
    assert (row["attempt"], row["started_at"] is not None) == (2, True)


async def test_a_handler_that_can_not_be_ended_is_told_once(
    ending: Ending, watch: Watch, events: list[Event]
) -> None:
    ending.executor.may_kill = False
    (run,) = await ending.claim()
    context = ending.executor.executing[run]
    context.timeout = 1.0
    ending.executor.begin(run, monotonic() - 2)
    await watch.run_once()
    assert events == []
    ending.runner._stopped_at[run] -= DEFAULT_POLICY.grace  # as if it was asked that long ago

    await watch.run_once()
    await watch.run_once()

    assert events == [RunIsStuck(run, "py:work", "timed_out")]


def _retry_now() -> Failed:
    return Failed("Retry", "again", after=timedelta(0))


async def test_a_locked_run_keeps_no_other_from_being_marked(
    ending: Ending, watch: Watch, connection: Connection, another: Connect
) -> None:
    runs = await ending.claim(5)
    for run in runs:
        ending.executor.begin(run, monotonic() - 10)
    other = await another()
    await other.execute("BEGIN")
    await other.execute("SELECT FROM pgcron.run WHERE id = $1 FOR UPDATE", runs[2])
    marked = "SELECT id FROM pgcron.run WHERE started_at IS NOT NULL ORDER BY id"

    async with asyncio.timeout(1 * slowness()):
        await watch.run_once()

    assert [row["id"] for row in await connection.fetch(marked)] == runs[:2] + runs[3:]
    await other.execute("ROLLBACK")
    marking = asyncio.ensure_future(watch.run())

    async def all_are_marked() -> bool:
        return len(await connection.fetch(marked)) == 5

    await until("the last one is marked", all_are_marked)
    watch.stop()
    await marking


async def test_a_run_whose_limits_nobody_can_read_keeps_no_other_from_being_marked(
    ending: Ending, watch: Watch, connection: Connection
) -> None:
    runs = await ending.claim(5)
    await connection.execute("ALTER TABLE pgcron.run DROP CONSTRAINT a_run_keeps_its_rules")
    await connection.execute(
        """UPDATE pgcron.run SET time_limits = '{"give_up_at": "never"}' WHERE id = $1""", runs[2]
    )
    for run in runs:
        ending.executor.begin(run, monotonic() - 10)

    await watch.run_once()

    marked = "SELECT count(*) FROM pgcron.run WHERE started_at IS NOT NULL"
    assert await connection.fetchval(marked) == 4
