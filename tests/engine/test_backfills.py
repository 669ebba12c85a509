from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.db.control import (
    Connection,
    claim,
    claim_overlapping,
    fail,
    finish,
    join,
    minutes,
    put_schedule,
)
from tests.engine.conftest import MakeLink
from tests.product.db import Link, Row, Unanswered
from tests.product.db import backfills as interfaces
from tests.product.engine import BACKFILLS_BATCH as BATCH
from tests.product.engine import BUSY_SECONDS, MOST_AT_ONCE, Backfills
from tests.product.telemetry import BackfillCantGoOn, BackfillIsOver, BackfillIsPaused, Event
from tests.waiting import slowness, until

DAY = datetime(2026, 2, 3, tzinfo=UTC)


@pytest.fixture
def service(make_link: MakeLink) -> Backfills:
    return Backfills(make_link())


async def ask(connection: Connection, length: timedelta, **given: Any) -> int:
    return await interfaces.backfill(connection, "job", DAY, DAY + length, **given)


async def fires(connection: Connection) -> list[datetime]:
    rows = await connection.fetch("SELECT scheduled_for FROM pgcron.run ORDER BY id")
    return [row[0] for row in rows]


async def test_without_a_backfill_nothing_is_asked_twice(service: Backfills) -> None:
    assert await service.run_once() is None


async def test_runs_are_made_in_order_and_the_next_ones_when_they_have_ended(
    service: Backfills, connection: Connection, events: list[Event]
) -> None:
    await put_schedule(connection, spec="*/10 * * * *", overlap="allow")
    node = await join(connection)
    backfill = await ask(connection, minutes(60), parallelism=4)

    assert await service.run_once() == BUSY_SECONDS
    assert await fires(connection) == [DAY + minutes(10 * number) for number in range(4)]
    assert await service.run_once() == BUSY_SECONDS
    await finish(connection, await claim(connection, node))
    await service.run_once()
    assert await fires(connection) == [DAY + minutes(40), DAY + minutes(50)]
    await finish(connection, await claim(connection, node))
    await service.run_once()

    found = await interfaces.one_backfill(connection, backfill)
    assert [found[key] for key in ("state", "planned", "created", "succeeded")] == ["done", 6, 6, 6]
    assert BackfillIsOver(backfill, "job", "done") in events
    assert await service.run_once() is None


class Broken:
    """A link whose connection breaks at one statement, once."""

    def __init__(self, link: Link, at: str) -> None:
        self.link, self.at = link, at

    async def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        if name == self.at:
            self.at = ""
            raise Unanswered("the connection broke")
        return await self.link.rows(name, **parameters)


@pytest.mark.parametrize("statement", ["plan_backfill", "step_backfill"])
async def test_a_connection_that_breaks_does_not_end_a_backfill(
    make_link: MakeLink, connection: Connection, statement: str
) -> None:
    await put_schedule(connection, overlap="allow")
    backfill = await ask(connection, minutes(3), parallelism=3)
    link: Any = Broken(make_link(), statement)
    service = Backfills(link)

    async def is_made() -> bool:
        await service.run_once()
        return int((await interfaces.one_backfill(connection, backfill))["created"]) > 0

    await until("its runs are made", is_made)

    found = await interfaces.one_backfill(connection, backfill)
    assert [found[key] for key in ("state", "planned", "created")] == ["open", 3, 3]


async def test_two_nodes_at_once_make_each_run_once(
    make_link: MakeLink, connection: Connection
) -> None:
    await put_schedule(connection, overlap="allow")
    node = await join(connection)
    backfill = await ask(connection, minutes(100), parallelism=10)
    nodes = [Backfills(make_link()) for _ in range(3)]
    ended: list[datetime] = []
    while (await interfaces.one_backfill(connection, backfill))["state"] != "done":
        await asyncio.gather(*(each.run_once() for each in nodes))
        claimed = await claim(connection, node, 7)
        assert len(await fires(connection)) <= 10
        ended += [row["fire_time"] for row in claimed]
        await finish(connection, claimed)

    assert sorted(ended) == [DAY + minutes(number) for number in range(100)]


async def test_a_long_stretch_that_ran_already_is_passed_in_large_steps(
    service: Backfills, connection: Connection
) -> None:
    schedule = await put_schedule(connection, overlap="allow")
    await connection.execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason)"
        " SELECT $1, $2::timestamptz + n * interval '1 minute', 'skipped', 'so'"
        " FROM generate_series(0, 2999) n",
        schedule,
        DAY,
    )
    backfill = await ask(connection, minutes(3001))
    passes = 1
    while await service.run_once() == 0:
        passes += 1

    assert await fires(connection) == [DAY + minutes(3000)]
    assert (await interfaces.one_backfill(connection, backfill))["already"] == 3000
    assert passes <= 3000 // MOST_AT_ONCE + 8


async def test_one_with_too_many_instants_stops_and_says_so(
    service: Backfills, connection: Connection, events: list[Event]
) -> None:
    await put_schedule(connection, spec="every 1s", overlap="allow")
    backfill = await ask(connection, timedelta(days=20))

    await service.run_once()

    found = await interfaces.one_backfill(connection, backfill)
    assert found["state"] == "stopped"
    assert "more than 1000000 instants" in found["error"]["message"]
    assert [type(event) for event in events] == [BackfillCantGoOn, BackfillIsOver]
    assert await fires(connection) == []


async def test_the_end_of_a_run_wakes_it_while_a_backfill_is_under_way(
    service: Backfills, connection: Connection
) -> None:
    await put_schedule(connection, overlap="allow")
    await ask(connection, minutes(2))
    await service.run_once()
    service.settled()

    async with asyncio.timeout(5 * slowness()):
        await service.rest(60)


async def test_a_paused_one_makes_no_runs(connection: Connection, service: Backfills) -> None:
    await put_schedule(connection, overlap="allow")
    one = await ask(connection, minutes(3))
    await interfaces.pause_backfill(connection, one)

    assert await service.run_once() is None  # it may be paused for weeks
    assert await fires(connection) == []


async def test_many_that_wait_for_their_runs_are_looked_at_once_a_second(
    connection: Connection, service: Backfills
) -> None:
    for number in range(BATCH + 1):
        await put_schedule(connection, name=f"job {number}", overlap="allow")
        await interfaces.backfill(connection, f"job {number}", DAY, DAY + minutes(9))

    assert [await service.run_once() for _ in range(4)] == [0, BUSY_SECONDS, 0, BUSY_SECONDS]
    assert await fires(connection) == [DAY] * (BATCH + 1)


async def test_one_that_a_failure_holds_up_says_so_once(
    service: Backfills, connection: Connection, events: list[Event]
) -> None:
    await put_schedule(connection, depends_on_previous=True, max_attempts=1)
    node = await join(connection)
    backfill = await ask(connection, minutes(3))
    await service.run_once()
    [first] = (await claim_overlapping(connection, node))[0]
    await fail(connection, [first])

    for _ in range(3):
        await service.run_once()
    [reported] = [event for event in events if isinstance(event, BackfillIsPaused)]
    assert (reported.backfill, reported.schedule) == (backfill, "job")
    assert f"run {first['id']}" in reported.sentence()
    assert await fires(connection) == []


async def test_a_backfill_that_the_database_refuses_holds_up_no_other(
    service: Backfills, connection: Connection
) -> None:
    await put_schedule(connection, spec="*/10 * * * *", overlap="allow")
    bad = await ask(connection, minutes(60))
    await connection.execute(
        f"ALTER TABLE pgcron.backfill_run ADD CONSTRAINT broken CHECK (backfill_id <> {bad})"
    )
    await put_schedule(connection, "other", spec="*/10 * * * *", overlap="allow")
    good = await interfaces.backfill(connection, "other", DAY, DAY + minutes(60))

    await service.run_once()

    made = "SELECT created FROM pgcron.backfill WHERE id = $1"
    assert await connection.fetchval(made, good) == 1
    assert await connection.fetchval(made, bad) == 0
    [entry] = service.aside.entries()
    assert entry.what == f"backfill {bad} of schedule 'job'"
    assert "broken" in entry.error
    await connection.execute("UPDATE pgcron.backfill SET state = 'stopping' WHERE id = $1", bad)


async def test_while_a_table_is_locked_a_backfill_is_tried_again_every_second(
    make_link: MakeLink, connection: Connection
) -> None:
    await put_schedule(connection, overlap="allow")
    backfill = await ask(connection, minutes(3))
    link = make_link()
    link.witness = make_link().rows
    service = Backfills(link)

    async def next_pass() -> None:
        while service.aside.waits(backfill):
            await service.rest(0.05)
        await service.run_once()

    async with connection.transaction():
        await connection.execute("LOCK TABLE pgcron.backfill_run IN SHARE ROW EXCLUSIVE MODE")
        for _ in range(3):
            await next_pass()
            assert 0 < service.aside.until_retry(backfill) <= 1
    await next_pass()

    assert service.aside.entries() == []
    assert await fires(connection) == [DAY]


async def test_an_override_that_nobody_can_use_stops_its_own_backfill_only(
    service: Backfills, connection: Connection
) -> None:
    schedule = await put_schedule(connection, spec="*/10 * * * *", overlap="allow")
    await ask(connection, minutes(60))
    async with connection.transaction():
        await connection.execute(
            "ALTER TABLE pgcron.occurrence_override"
            " DROP CONSTRAINT override_args_are_an_object_of_256_kib"
        )
        await connection.execute(
            "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, args)"
            " VALUES ($1, $2, 'edit', '[]')",
            *(schedule, DAY),
        )
    await put_schedule(connection, "other", spec="*/10 * * * *", overlap="allow")
    good = await interfaces.backfill(connection, "other", DAY, DAY + minutes(60))

    await service.run_once()

    made = "SELECT created FROM pgcron.backfill WHERE id = $1"
    assert await connection.fetchval(made, good) == 1
    assert len(service.aside) == 1


async def test_a_backfill_of_a_time_that_nobody_can_read_stops_no_other(
    service: Backfills, connection: Connection
) -> None:
    await put_schedule(connection, spec="*/10 * * * *", overlap="allow")
    bad = await ask(connection, minutes(60))
    await connection.execute(
        "UPDATE pgcron.backfill SET since = '0044-03-15 BC', until = '0044-03-16 BC' WHERE id = $1",
        bad,
    )
    await put_schedule(connection, "other", spec="*/10 * * * *", overlap="allow")
    good = await interfaces.backfill(connection, "other", DAY, DAY + minutes(60))

    await service.run_once()

    assert await connection.fetchval("SELECT created FROM pgcron.backfill WHERE id = $1", good) == 1
    error = await connection.fetchval("SELECT error FROM pgcron.backfill WHERE id = $1", bad)
    assert error is not None or len(service.aside) == 1


class Threads(ThreadPoolExecutor):
    """One thread, and how often it was asked to work."""

    asked = 0

    def submit(self, *args: Any, **options: Any) -> Future[Any]:
        self.asked += 1
        return super().submit(*args, **options)


async def test_a_node_that_stops_counts_no_instants_to_the_end(
    service: Backfills, connection: Connection
) -> None:
    await put_schedule(connection, spec="every 2s\nevery 3s", overlap="allow")
    await ask(connection, timedelta(days=17))
    asyncio.get_running_loop().set_default_executor(threads := Threads(1))
    counting = asyncio.create_task(service.run_once())
    await until("it counts stretch by stretch", lambda: threads.asked > 2)

    counting.cancel()
    asked = threads.asked
    await asyncio.to_thread(int)  # after whatever the thread does still

    assert threads.asked == asked + 1
