"""What lasts longer than expected is noted once."""

from __future__ import annotations

import asyncio

from tests.db.control import Connect, Connection, call, claim_overlapping, enqueue, finish, join
from tests.db.test_overlap_claims import schedule

SUCCEEDED = """
INSERT INTO pgcron.history (id, uuid, origin, schedule_id, queue, priority, handler, args, delivery,
                            outcome, attempt, due_at, created_at, created_by, started_at,
                            finished_at)
SELECT -n, gen_random_uuid(), 'schedule', $1, 'default', 5, 'py:work', '{}', 'at_least_once',
       $4, 1, now(), now(), 'me', now() - interval '1 hour' - $3::float8 * interval '1 s',
       now() - interval '1 hour' FROM generate_series($5::int, $5 + $2::int - 1) n
"""


async def started(connection: Connection, seconds: float, runs: int = 20) -> tuple[int, int]:
    """A schedule whose last runs took 20 s, and a run of it that began so long ago."""
    node = await join(connection)
    columns = await schedule(connection)
    schedule_id = columns["schedule_id"]
    await connection.execute(SUCCEEDED, schedule_id, runs, 20.0, "succeeded", 1)
    await connection.execute(SUCCEEDED, schedule_id, 20, 900.0, "cancelled", 1000)
    await enqueue(connection, **columns)
    [run], _ = await claim_overlapping(connection, node)
    await connection.execute(
        "UPDATE pgcron.run SET started_at = now() - $1::float8 * interval '1 s'", seconds
    )
    return schedule_id, run["id"]


async def test_a_run_overruns_after_half_as_long_again_as_most_took(connection: Connection) -> None:
    schedule, _ = await started(connection, 29)

    expected = await connection.fetchval("SELECT pgcron.expected_duration($1)", schedule)
    assert expected.total_seconds() == 30
    assert await call(connection, "notice_overruns", at_most=10) == []


async def test_an_overrun_is_told_once_however_many_look(
    connection: Connection, another: Connect
) -> None:
    _, run = await started(connection, 31)
    others = [await another() for _ in range(4)]

    reported = await asyncio.gather(*(call(one, "notice_overruns", at_most=10) for one in others))

    [row] = [row for rows in reported for row in rows]
    assert (row["run_id"], row["schedule"], row["expected"]) == (run, None, 30)
    assert 31 <= row["taken"] < 60
    assert await call(connection, "notice_overruns", at_most=10) == []


async def test_of_few_runs_nothing_is_expected(connection: Connection) -> None:
    schedule, _ = await started(connection, 5000, runs=4)

    assert await connection.fetchval("SELECT pgcron.expected_duration($1)", schedule) is None
    assert await call(connection, "notice_overruns", at_most=10) == []


async def test_what_is_noted_goes_with_the_run(connection: Connection) -> None:
    _, run = await started(connection, 40)
    await call(connection, "notice_overruns", at_most=10)
    await call(connection, "forget_overruns", at_most=10)
    assert await connection.fetchval("SELECT run_id FROM pgcron.overrun") == run

    await finish(connection, await connection.fetch("SELECT id, token FROM pgcron.run"))
    await call(connection, "forget_overruns", at_most=10)

    assert await connection.fetchval("SELECT count(*) FROM pgcron.overrun") == 0


async def test_many_runs_that_may_last_hide_none_that_overruns(connection: Connection) -> None:
    # Of the schedules of the others nothing is expected; they stand on both sides in the table.
    node = await join(connection)
    names = [f"long {number}" for number in range(30)]
    for name in names[:15]:
        await enqueue(connection, **await schedule(connection, name))
    await claim_overlapping(connection, node, 15)
    _, run = await started(connection, 31)
    for name in names[15:]:
        await enqueue(connection, **await schedule(connection, name))
    await claim_overlapping(connection, node, 15)
    await connection.execute("UPDATE pgcron.run SET started_at = now() - interval '31 s'")

    looks = [await call(connection, "notice_overruns", at_most=10) for _ in range(50)]

    assert [row["run_id"] for rows in looks for row in rows] == [run]
