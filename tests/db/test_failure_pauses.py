"""Schedules that pause themselves after failures, and their probes."""

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
from tests.product.model import delay_of

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
        "SELECT s.enabled, s.paused_by, s.paused_note, p.* FROM pgcron.schedule s"
        " LEFT JOIN pgcron.failure_pause p ON p.schedule_id = s.id"
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
    assert paused["probe_at"] is None
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


async def test_an_erasure_leaves_nothing_of_the_errors(
    connection: Connection, database: str
) -> None:
    _, node = await paused(connection)
    await time_to_probe(connection)
    await one_pass(database)
    await fail(connection, [await probe(connection, node)])
    assert len(await judge(connection)) == 1
    runs = [row["id"] for row in await connection.fetch("SELECT id FROM pgcron.history")]
    before = await tables(connection)
    noted = {name for name, text in before.items() if f"last: run {max(runs)}, the probe" in text}
    assert noted >= {"schedule", "schedule_version", "cursor", "audit"}

    await connection.execute("SELECT pgcron.erase(run_ids => $1)", runs)

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


async def paused(connection: Connection, **columns: Any) -> tuple[int, Node]:
    """One that failures have paused a moment ago, with a probe to come."""
    given = {"spec": "* * * * * *", "probe_after": WAIT, **columns}
    schedule, node = await failing(connection, 1, **given)
    await fail(connection, await due(connection, schedule, node))
    assert len(await judge(connection)) == 1
    return schedule, node


async def time_to_probe(connection: Connection) -> None:
    await connection.execute(
        "UPDATE pgcron.failure_pause SET look_at = now(), probe_at = greatest("
        "now() - interval '9 s', (SELECT max(fire_at) FROM pgcron.occurrence))"
    )


async def one_pass(database: str) -> None:
    link = Link(database)
    try:
        await Materializer(link, 7200.0).run_once()
    finally:
        link.drop()


async def probe(connection: Connection, node: Node) -> Row:
    """The probe, claimed at its time."""
    await connection.execute("UPDATE pgcron.run SET due_at = now() WHERE state = 'ready'")
    [run] = await claim(connection, node)
    return run


async def test_a_probe_is_one_fire_and_its_success_resumes(
    connection: Connection, database: str
) -> None:
    _, node = await paused(connection)
    await one_pass(database)
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
    await time_to_probe(connection)
    for _ in range(3):
        await one_pass(database)

    run = await probe(connection, node)
    held = await state(connection)
    assert (held["enabled"], held["probe_run"]) == (False, run["id"])
    assert held["probe_fire"] == run["fire_time"]
    await one_pass(database)
    assert not (await state(connection))["enabled"]
    await finish(connection, [run])
    assert await judge(connection) == ["resumed"]
    resumed = await state(connection)
    assert (resumed["enabled"], resumed["schedule_id"]) == (True, None)
    assert await failures(connection) == 0
    reported = await connection.fetchrow("SELECT * FROM pgcron.why('job', $1)", run["fire_time"])
    assert reported is not None
    assert (reported["decision"], reported["outcome"]) == ("run", "succeeded")
    wrong = "SELECT * FROM pgcron.check_ledger()"
    assert await connection.fetch(wrong) == []


async def test_a_probe_is_due_later_by_the_jitter_of_its_schedule(
    connection: Connection, database: str
) -> None:
    seed = "8f14e45f-ceea-467f-9575-9dc4a1c9e2b1"
    await paused(connection, uuid=seed, jitter=minutes(60))
    await time_to_probe(connection)
    await one_pass(database)

    later = await connection.fetchval("SELECT due_at - scheduled_for FROM pgcron.run")
    assert later == delay_of({"uuid": seed, "jitter": minutes(60)}) > minutes(1)


async def test_a_probe_that_fails_pauses_for_twice_as_long_up_to_a_day(
    connection: Connection, database: str
) -> None:
    _, node = await paused(connection)
    for times in range(1, 10):
        await time_to_probe(connection)
        await one_pass(database)
        run = await probe(connection, node)
        await fail(connection, [run])
        [note] = await judge(connection)
        assert note is not None
        assert note.startswith(f"paused after {times + 1} failures in a row (last: run {run['id']}")
        held = await state(connection)
        wait = held["probe_at"] - await database_now(connection)
        expected = min(WAIT * 2**times, timedelta(days=1))
        assert abs(wait - expected) < timedelta(minutes=1)
        assert (held["enabled"], held["probe_run"], held["failures"]) == (False, None, times + 1)
    assert await connection.fetchval("SELECT * FROM pgcron.check_ledger()") is None


@pytest.mark.parametrize("end", ["cancel", "edit", "skip"])
async def test_a_probe_that_comes_to_no_end_of_its_own_leaves_the_next_fire(
    connection: Connection, database: str, end: str
) -> None:
    await paused(connection, spec="0 * * * *")
    await time_to_probe(connection)
    await one_pass(database)
    held = await state(connection)
    if end == "cancel":
        await connection.execute("SELECT pgcron.cancel_run($1)", held["probe_run"])
    elif end == "edit":
        await connection.execute("UPDATE pgcron.schedule SET args = '{\"a\": 1}'")
    else:
        skip = "SELECT pgcron.skip_occurrence('job', $1)"
        await connection.execute(skip, held["probe_fire"])
    await one_pass(database)
    await one_pass(database)

    again = await state(connection)
    assert not again["enabled"]
    assert again["probe_run"] != held["probe_run"]
    if end == "edit":
        assert again["probe_fire"] == held["probe_fire"]


@pytest.mark.parametrize(
    "verb",
    [
        "resume_schedule('job')",
        "pause_schedule('job', 'mine', 'bert')",
        # Whose role is called as the machine calls itself.
        "pause_schedule('job', 'mine', 'pgcron_ha')",
    ],
)
async def test_what_a_person_decides_ends_the_probing(
    connection: Connection, database: str, verb: str
) -> None:
    await paused(connection)
    await connection.execute(f"SELECT pgcron.{verb}")

    held = await state(connection)
    assert held["schedule_id"] is None
    assert held["paused_by"] in (None, "bert", "pgcron_ha")
    assert await failures(connection) == 0
    assert await judge(connection) == []


async def test_two_nodes_make_one_probe(connection: Connection, database: str) -> None:
    await paused(connection)
    await time_to_probe(connection)
    await asyncio.gather(*(one_pass(database) for _ in range(4)))
    await one_pass(database)

    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 1
    assert (await state(connection))["probe_run"] is not None


async def test_a_probe_far_ahead_is_looked_for_when_it_is_near(
    connection: Connection, database: str
) -> None:
    await paused(connection, spec="0 0 1 1 *")
    await time_to_probe(connection)
    await one_pass(database)

    held = await state(connection)
    assert held["probe_fire"] is held["probe_run"] is None
    assert held["look_at"] > await database_now(connection)
    await connection.execute("UPDATE pgcron.schedule SET spec = '* * * * * *'")
    await one_pass(database)
    assert (await state(connection))["probe_run"] is not None


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
