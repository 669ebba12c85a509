"""Schedules that pause themselves after failures, for a time or until somebody resumes them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Node,
    Row,
    call,
    claim,
    cursor_of,
    database_now,
    fail,
    finish,
    join,
    kill,
    materialize,
    minutes,
    put_schedule,
    reap,
)
from tests.e2e.ledger import tables
from tests.product.db import Link
from tests.product.engine import Materializer

WAIT = timedelta(minutes=10)


async def failing(connection: Connection, after: int = 3, **columns: Any) -> tuple[int, Node]:
    """A schedule that pauses itself, whose runs are tried once, and a node."""
    given = {"overlap": "allow", "max_attempts": 1, "pause_after_failures": after, **columns}
    schedule = await put_schedule(connection, **given)
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
    return schedule, await join(connection)


async def due(connection: Connection, schedule: int, node: Node, count: int = 1) -> list[Row]:
    """That many fires, claimed."""
    cursor = await cursor_of(connection, schedule)
    first = cursor["watermark"] + timedelta(seconds=1)
    fires = [first + timedelta(seconds=number) for number in range(count)]
    assert await materialize(connection, cursor, fires) == (1, count)
    return await claim(connection, node, count)


async def judge(connection: Connection) -> list[str | None]:
    found = await call(connection, "failing_schedules", at_most=10, aside=[])
    return [
        (await call(connection, "judge_failures", schedule_id=row["schedule_id"]))[0]["verdict"]
        for row in found
    ]


async def state(connection: Connection) -> Row:
    row = await connection.fetchrow(
        "SELECT enabled, paused_by, paused_note, paused_until FROM pgcron.schedule"
    )
    assert row is not None
    return row


async def failures(connection: Connection) -> int:
    found: int = await connection.fetchval("SELECT count(*) FROM pgcron.fire_failure")
    return found


async def test_so_many_failures_in_a_row_pause_it(connection: Connection) -> None:
    schedule, node = await failing(connection)
    runs = await due(connection, schedule, node, 3)
    await fail(connection, runs[:2])
    assert await judge(connection) == [None]
    assert (await state(connection))["enabled"]
    await fail(connection, runs[2:])
    note = f"paused after 3 failures in a row (last: run {runs[2]['id']})"
    assert await judge(connection) == [note]

    paused = await state(connection)
    assert (paused["enabled"], paused["paused_by"], paused["paused_note"]) == (
        False,
        "pgcron_ha",
        note,
    )
    assert paused["paused_until"] is None
    assert await judge(connection) == []
    reported = await connection.fetchrow(
        "SELECT * FROM pgcron.why('job', now() + interval '1 hour')"
    )
    assert reported is not None
    assert (reported["code"], reported["actor"], reported["note"]) == (
        "is_paused",
        "pgcron_ha",
        note,
    )


async def test_an_erasure_leaves_nothing_of_the_errors(connection: Connection) -> None:
    await paused(connection)
    [run] = [row["id"] for row in await connection.fetch("SELECT id FROM pgcron.history")]
    before = await tables(connection)
    noted = {name for name, text in before.items() if f"last: run {run}" in text}
    assert noted >= {"schedule", "schedule_version", "cursor", "audit"}

    await connection.execute("SELECT pgcron.erase(run_ids => $1)", [run])

    left = await tables(connection)
    assert [name for name, text in left.items() if "it went wrong" in text] == []
    assert all(left[name] == before[name] for name in noted - {"audit"})


async def test_a_success_between_begins_anew(connection: Connection) -> None:
    schedule, node = await failing(connection)
    for _ in range(3):
        await fail(connection, await due(connection, schedule, node, 2))
        await judge(connection)
        await finish(connection, await due(connection, schedule, node))
    assert (await state(connection))["enabled"]
    await call(connection, "forget_fire_failures", at_most=100)

    assert await failures(connection) == 0


async def test_a_success_before_a_failure_is_judged_counts(connection: Connection) -> None:
    schedule, node = await failing(connection, 1)
    await fail(connection, await due(connection, schedule, node))
    await finish(connection, await due(connection, schedule, node))

    assert await judge(connection) == [None]
    assert (await state(connection))["enabled"]


async def test_only_fires_count_and_only_when_no_attempt_is_left(connection: Connection) -> None:
    schedule, node = await failing(connection, 2, max_attempts=2, retry='{"base": 3600}')
    await fail(connection, await due(connection, schedule, node, 2))
    for _ in range(3):
        await connection.execute("SELECT pgcron.run_now('job')")
    await fail(connection, await claim(connection, node), retryable=False)

    assert await failures(connection) == 0
    assert await judge(connection) == []
    retries = await connection.fetch("UPDATE pgcron.run SET due_at = now() RETURNING id")
    assert len(retries) == 2
    await fail(connection, await claim(connection, node))
    assert len(await judge(connection)) == 1
    assert not (await state(connection))["enabled"]


async def test_a_lost_run_counts(connection: Connection) -> None:
    schedule, node = await failing(connection, 1, delivery="at_most_once", max_attempts=None)
    cursor = await cursor_of(connection, schedule)
    await materialize(connection, cursor, [cursor["watermark"] + minutes(1)])
    assert len(await claim(connection, node)) == 1
    await kill(connection, node)
    assert set((await reap(connection)).values()) == {"lost"}

    assert "1 failure in a row" in str(await judge(connection))


async def test_a_schedule_that_does_not_ask_for_it_is_not_counted(connection: Connection) -> None:
    schedule, node = await failing(connection)
    await connection.execute("UPDATE pgcron.schedule SET pause_after_failures = NULL")
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
    await fail(connection, await due(connection, schedule, node, 5))

    assert await failures(connection) == 0


async def test_two_nodes_count_together_and_pause_once(
    connection: Connection, another: Connect
) -> None:
    schedule, node = await failing(connection, 20)
    runs = await due(connection, schedule, node, 20)
    nodes = [await another() for _ in range(4)]

    async def work(own: Connection, mine: list[Row]) -> list[str | None]:
        verdicts: list[str | None] = []
        for run in mine:
            await fail(own, [run])
            verdicts += await judge(own)
        return verdicts

    answers = await asyncio.gather(
        *(work(own, runs[number::4]) for number, own in enumerate(nodes))
    )

    verdicts = [one for answer in answers for one in answer if one]
    assert len(verdicts) == 1
    assert verdicts[0].startswith("paused after 20 failures in a row")
    versions = "SELECT count(*) FROM pgcron.schedule_version WHERE actor = 'pgcron_ha'"
    assert await connection.fetchval(versions) == 1


async def paused(connection: Connection, after: int = 1, **columns: Any) -> tuple[int, Node]:
    """One that failures have paused a moment ago, and for a time."""
    schedule, node = await failing(connection, after, **{"probe_after": WAIT, **columns})
    await fail(connection, await due(connection, schedule, node, after))
    assert len(await judge(connection)) == 1
    return schedule, node


async def its_time_is_over(connection: Connection) -> None:
    """The clock can't be turned, so the pause is put back: past what its trigger would take."""
    await connection.execute("ALTER TABLE pgcron.schedule DISABLE TRIGGER USER")
    await connection.execute("UPDATE pgcron.schedule SET paused_until = now() - interval '9 s'")
    await connection.execute("ALTER TABLE pgcron.schedule ENABLE TRIGGER USER")
    await connection.execute(
        "UPDATE pgcron.cursor SET paused_until = now() - interval '9 s',"
        " since = now() - interval '1 min', watermark = now() - interval '1 min'"
    )
    await connection.execute(
        "UPDATE pgcron.fire_failure SET paused_at = paused_at - interval '1 min'"
    )


async def resumed_by_the_clock(connection: Connection) -> None:
    await its_time_is_over(connection)
    [row] = await call(connection, "overdue_pauses", at_most=10, aside=[])
    await call(connection, "resume_overdue", schedule_id=row["schedule_id"])
    assert (await state(connection))["enabled"]


async def one_pass(database: str) -> None:
    link = Link(database)
    try:
        await Materializer(link, 2.0).run_once()
    finally:
        link.drop()


async def test_with_probe_after_the_pause_ends_by_itself(
    connection: Connection, database: str
) -> None:
    schedule, _ = await failing(connection, 1, spec="* * * * * *", probe_after=WAIT)
    await fail(connection, await due(connection, schedule, await join(connection)))
    [verdict] = await judge(connection)
    held = await state(connection)
    wait = held["paused_until"] - await database_now(connection)
    assert timedelta(minutes=9) < wait <= WAIT
    assert verdict == f"{held['paused_note']} until {held['paused_until']:%Y-%m-%d %H:%M:%S+00}"
    await one_pass(database)
    assert not (await state(connection))["enabled"]

    await its_time_is_over(connection)
    await one_pass(database)
    await one_pass(database)

    assert (await state(connection))["enabled"]
    [gap] = await connection.fetch("SELECT * FROM pgcron.missed WHERE reason = 'paused'")
    assert gap["note"] == f"pgcron_ha: {held['paused_note']}"
    first = "SELECT count(*) FROM pgcron.run WHERE scheduled_for > $1"
    assert await connection.fetchval(first, gap["last_at"]) > 0
    assert await connection.fetch("SELECT * FROM pgcron.check_ledger()") == []


async def test_the_first_failure_after_it_pauses_for_twice_as_long_up_to_a_day(
    connection: Connection,
) -> None:
    schedule, node = await paused(connection, 3)
    for times in range(1, 10):
        await resumed_by_the_clock(connection)
        [run] = await due(connection, schedule, node)
        await fail(connection, [run])
        [verdict] = await judge(connection)
        assert verdict is not None
        note = f"paused after {times + 3} failures in a row (last: run {run['id']})"
        assert verdict.startswith(note)
        held = await state(connection)
        wait = held["paused_until"] - await database_now(connection)
        assert abs(wait - min(WAIT * 2**times, timedelta(days=1))) < timedelta(minutes=1)
        assert (held["enabled"], held["paused_note"]) == (False, note)


async def test_what_fired_before_the_pause_does_not_lengthen_it(connection: Connection) -> None:
    schedule, node = await failing(connection, 1, probe_after=WAIT)
    first, second, third = await due(connection, schedule, node, 3)
    await fail(connection, [first])
    await judge(connection)
    end = (await state(connection))["paused_until"]
    await fail(connection, [second])

    assert await judge(connection) == [None]
    assert (await state(connection))["paused_until"] == end
    await resumed_by_the_clock(connection)
    assert await judge(connection) == []
    await fail(connection, [third])
    assert await judge(connection) == [None]
    await fail(connection, await due(connection, schedule, node))
    [verdict] = await judge(connection)
    assert verdict is not None
    assert verdict.startswith("paused after 4 failures")
    wait = (await state(connection))["paused_until"] - await database_now(connection)
    assert abs(wait - 2 * WAIT) < timedelta(minutes=1)


async def test_a_pause_keeps_one_row_of_all_failures_before_it(connection: Connection) -> None:
    schedule, node = await failing(connection, 2, probe_after=WAIT)
    for failed in (5, 10, 15):
        await fail(connection, await due(connection, schedule, node, 5))
        [verdict] = await judge(connection)
        assert verdict is not None
        assert verdict.startswith(f"paused after {failed} failures in a row")
        assert await failures(connection) == 1
        await resumed_by_the_clock(connection)


async def test_nodes_judge_before_they_resume(connection: Connection, database: str) -> None:
    """What failed in the pause is not taken for the first failure after it."""
    schedule, node = await failing(connection, 1, spec="0 0 1 1 *", probe_after=WAIT)
    first, second = await due(connection, schedule, node, 2)
    await fail(connection, [first])
    await judge(connection)
    await fail(connection, [second])
    await its_time_is_over(connection)

    await one_pass(database)

    assert (await state(connection))["enabled"]


@pytest.mark.parametrize("is_swept", [False, True])
async def test_a_success_after_it_begins_anew(connection: Connection, is_swept: bool) -> None:
    schedule, node = await paused(connection, 3)
    await resumed_by_the_clock(connection)
    await finish(connection, await due(connection, schedule, node))
    if is_swept:
        await call(connection, "forget_fire_failures", at_most=100)
        assert await failures(connection) == 0
    await fail(connection, await due(connection, schedule, node, 2))
    assert await judge(connection) == [None]
    await fail(connection, await due(connection, schedule, node))
    assert len(await judge(connection)) == 1

    held = await state(connection)
    assert held["paused_note"].startswith("paused after 3 failures")
    assert held["paused_until"] <= await database_now(connection) + WAIT


@pytest.mark.parametrize(
    ("verb", "is_over"),
    [
        ("resume_schedule('job')", False),
        ("pause_schedule('job', 'mine', 'bert')", False),
        # Whose role is called as the machine calls itself.
        ("pause_schedule('job', 'mine', 'pgcron_ha')", False),
        ("pause_schedule('job', 'mine', 'pgcron_ha')", True),
    ],
)
async def test_what_a_person_decides_begins_anew(
    connection: Connection, verb: str, is_over: bool
) -> None:
    schedule, node = await paused(connection, 2)
    if is_over:
        await resumed_by_the_clock(connection)
    await connection.execute(f"SELECT pgcron.{verb}")

    held = await state(connection)
    assert held["paused_by"] in (None, "bert", "pgcron_ha")
    assert held["paused_until"] is None
    assert await failures(connection) == 0
    await connection.execute("SELECT pgcron.resume_schedule('job')")
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 hour'")
    await fail(connection, await due(connection, schedule, node))
    assert await judge(connection) == [None]


async def test_an_edit_of_what_it_does_leaves_the_pause(connection: Connection) -> None:
    schedule, node = await paused(connection, 2)
    end = (await state(connection))["paused_until"]
    await connection.execute("UPDATE pgcron.schedule SET args = '{\"a\": 1}'")

    assert (await state(connection))["paused_until"] == end
    await resumed_by_the_clock(connection)
    await fail(connection, await due(connection, schedule, node))
    assert len(await judge(connection)) == 1
    assert not (await state(connection))["enabled"]


@pytest.mark.parametrize(("before", "given"), [(None, WAIT), (WAIT, None), (WAIT, 2 * WAIT)])
async def test_another_probe_after_counts_from_the_next_pause(
    connection: Connection, before: timedelta | None, given: timedelta | None
) -> None:
    schedule, node = await paused(connection, probe_after=before)
    end = (await state(connection))["paused_until"]
    await connection.execute("UPDATE pgcron.schedule SET probe_after = $1", given)
    assert (await state(connection))["paused_until"] == end
    await resumed_by_the_clock(connection)
    await fail(connection, await due(connection, schedule, node))
    await judge(connection)

    end = (await state(connection))["paused_until"]
    assert (end is None) is (given is None)


async def test_two_nodes_judge_the_first_failure_after_it_once(
    connection: Connection, another: Connect
) -> None:
    schedule, node = await paused(connection, 2)
    await resumed_by_the_clock(connection)
    await fail(connection, await due(connection, schedule, node))
    nodes = [await another() for _ in range(4)]
    verdicts = await asyncio.gather(
        *(call(own, "judge_failures", schedule_id=schedule) for own in nodes)
    )

    assert sum(row["verdict"] is not None for [row] in verdicts) == 1
    await resumed_by_the_clock(connection)
    [late] = await call(connection, "judge_failures", schedule_id=schedule)
    assert late["verdict"] is None
    await fail(connection, await due(connection, schedule, node))
    assert len(await judge(connection)) == 1
    wait = (await state(connection))["paused_until"] - await database_now(connection)
    assert abs(wait - 4 * WAIT) < timedelta(minutes=1)


@pytest.mark.parametrize(
    "policies",
    [
        "pause_after_failures => -1",
        "pause_after_failures => 1001",
        "probe_after => '1 hour'",
        "pause_after_failures => 3, probe_after => '2 days'",
        "pause_after_failures => 3, probe_after => '1 ms'",
        "pause_after_failures => 0, probe_after => '1 hour'",
    ],
)
async def test_what_makes_no_sense_is_refused(connection: Connection, policies: str) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.execute(f"SELECT pgcron.put_schedule('job', '@daily', 'py:a', {policies})")
    error: Any = refused.value
    assert (error.sqlstate, bool(error.detail), bool(error.hint)) == ("PC001", True, True)


async def test_the_policy_is_kept_and_taken_back(connection: Connection) -> None:
    given = "pause_after_failures => $1, probe_after => $2"
    put = f"SELECT pgcron.put_schedule('job', '@daily', 'py:a', {given})"
    columns = "SELECT pause_after_failures, probe_after, version FROM pgcron.schedule"
    await connection.execute(put, 3, WAIT)
    await connection.execute(put, None, None)
    assert tuple(await connection.fetchrow(columns) or ()) == (3, WAIT, 1)
    await connection.execute(put, 0, None)
    assert tuple(await connection.fetchrow(columns) or ()) == (None, None, 2)
