from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from pgcron_ha.errors import Conflict, InvalidInput, NotFound, PgcronError, TooLarge
from tests.db.control import (
    Connect,
    Connection,
    Node,
    Row,
    call,
    claim,
    claim_overlapping,
    cursor_of,
    database_now,
    end_waiting,
    fail,
    finish,
    join,
    materialize,
    minutes,
    put_schedule,
    waits_for_lock,
)
from tests.product.db import backfills

# Whole minutes of a day that has passed.
DAY = datetime(2026, 2, 3, tzinfo=UTC)


def instants(count: int, first: datetime = DAY) -> list[datetime]:
    return [first + minutes(number) for number in range(count)]


async def ask(connection: Connection, count: int, **given: Any) -> int:
    """A backfill of the first minutes of the day; its id."""
    return await backfills.backfill(connection, "job", DAY, DAY + minutes(count), **given)


async def step(
    connection: Connection, backfill: int, fires: Sequence[datetime], *, is_last: bool = False
) -> tuple[Any, ...] | None:
    """What a node does that has read how far it is: (state, taken, made), None if not its turn."""
    reached = await connection.fetchval(
        "SELECT reached FROM pgcron.backfill WHERE id = $1", backfill
    )
    return await step_from(connection, backfill, reached, fires, is_last=is_last)


async def step_from(
    connection: Connection,
    backfill: int,
    reached: datetime | None,
    fires: Sequence[datetime],
    *,
    is_last: bool = False,
) -> tuple[Any, ...] | None:
    rows = await call(
        connection,
        "step_backfill",
        backfill=backfill,
        reached=reached,
        instants=list(fires),
        is_last=is_last,
    )
    return tuple(rows[0][:3]) if rows else None  # without what is wrong


async def row(connection: Connection, backfill: int) -> dict[str, Any]:
    return await backfills.one_backfill(connection, backfill)


async def runs(connection: Connection) -> list[Row]:
    return await connection.fetch("SELECT * FROM pgcron.run ORDER BY id")


async def fires_of_runs(connection: Connection) -> list[datetime]:
    return [run["scheduled_for"] or run["nominal_for"] for run in await runs(connection)]


@pytest.fixture
async def schedule(connection: Connection) -> int:
    return await put_schedule(connection, overlap="allow", args='{"day": 1}', max_attempts=1)


@pytest.fixture
async def node(connection: Connection, schedule: int) -> Node:
    return await join(connection)


async def test_an_instant_that_nobody_decided_becomes_a_run_of_the_ledger(
    connection: Connection, schedule: int
) -> None:
    backfill = await ask(connection, 2, actor="ada")

    assert await step(connection, backfill, instants(2), is_last=True) == ("open", 1, 1)

    [run] = await runs(connection)
    decided = await connection.fetchrow("SELECT * FROM pgcron.occurrence")
    assert decided is not None
    assert (decided["fire_at"], decided["decision"], decided["reason"], decided["run_id"]) == (
        DAY,
        "run",
        f"backfill {backfill}",
        run["id"],
    )
    assert (run["origin"], run["scheduled_for"], run["schedule_id"]) == ("backfill", DAY, schedule)
    assert (run["args"], run["created_by"]) == ('{"day": 1}', f"backfill {backfill} by ada")
    assert run["due_at"] <= await database_now(connection)


async def test_the_run_of_a_fire_has_the_name_that_it_would_have_had(
    connection: Connection, schedule: int
) -> None:
    backfill = await ask(connection, 1)
    await step(connection, backfill, instants(1))
    [run] = await runs(connection)
    assert run["uuid"] is not None
    await connection.execute("TRUNCATE pgcron.occurrence; DELETE FROM pgcron.run")
    cursor = await cursor_of(connection, schedule)
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", DAY - minutes(1))
    cursor = await cursor_of(connection, schedule)

    await materialize(connection, cursor, [DAY])

    assert [made["uuid"] for made in await runs(connection)] == [run["uuid"]]


async def test_no_more_runs_are_open_than_it_may_have(connection: Connection, node: Node) -> None:
    backfill = await ask(connection, 5, parallelism=2, planned=5)

    assert await step(connection, backfill, instants(5), is_last=True) == ("open", 2, 2)
    assert await step(connection, backfill, instants(5)[2:], is_last=True) == ("open", 0, 0)
    [first, _] = await claim(connection, node)
    assert await finish(connection, [first]) == [first["id"]]
    assert await step(connection, backfill, instants(5)[2:], is_last=True) == ("open", 1, 1)

    found = await row(connection, backfill)
    assert [found[key] for key in ("planned", "created", "open", "succeeded", "remaining")] == [
        5,
        3,
        2,
        1,
        2,
    ]
    assert await fires_of_runs(connection) == instants(3)[1:]


async def test_it_is_done_when_its_last_run_has_ended(connection: Connection, node: Node) -> None:
    backfill = await ask(connection, 2, parallelism=9)
    await step(connection, backfill, instants(2), is_last=True)
    good, bad = await claim(connection, node)
    await finish(connection, [good])
    assert await step(connection, backfill, [], is_last=True) == ("open", 0, 0)
    assert await fail(connection, [bad]) == {bad["id"]: "dead"}

    assert await step(connection, backfill, [], is_last=True) == ("done", 0, 0)

    found = await row(connection, backfill)
    assert (found["created"], found["succeeded"], found["failed"], found["open"]) == (2, 1, 1, 0)
    [reported] = await backfills.runs_of_backfill(connection, backfill)
    assert (reported["id"], reported["state"], reported["error"]) == (
        bad["id"],
        "dead",
        "it went wrong",
    )


async def test_backward_the_newest_instant_is_first(connection: Connection, node: Node) -> None:
    backfill = await ask(connection, 4, direction="backward", parallelism=2)

    await step(connection, backfill, instants(4)[::-1])

    assert await fires_of_runs(connection) == instants(4)[:1:-1]
    assert (await row(connection, backfill))["reached"] == DAY + minutes(2)


@pytest.mark.parametrize("if_ran", ["skip", "failed", "all"])
async def test_what_runs_already_is_left_alone_by_every_rule(
    connection: Connection, schedule: int, if_ran: str
) -> None:
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", DAY - minutes(1))
    await materialize(connection, await cursor_of(connection, schedule), [DAY])
    backfill = await ask(connection, 2, if_ran=if_ran)

    assert await step(connection, backfill, instants(2), is_last=True) == ("open", 2, 1)

    assert await fires_of_runs(connection) == instants(2)
    assert (await row(connection, backfill))["already"] == 1


async def end_three(connection: Connection, schedule: int, node: Node) -> list[Row]:
    """Three minutes whose runs succeeded, died, and were skipped."""
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", DAY - minutes(1))
    await materialize(connection, await cursor_of(connection, schedule), instants(3))
    made = await runs(connection)
    await end_waiting(connection, [made[2]["id"]], "skipped", "the last run is not over")
    first, second = await claim(connection, node)
    await finish(connection, [first])
    await fail(connection, [second])
    return made


@pytest.mark.parametrize(
    ("if_ran", "expected"), [("skip", []), ("failed", [1, 2]), ("all", [0, 1, 2])]
)
async def test_what_ran_is_run_again_as_the_rule_says(
    connection: Connection, schedule: int, node: Node, if_ran: str, expected: list[int]
) -> None:
    made = await end_three(connection, schedule, node)
    backfill = await ask(connection, 3, if_ran=if_ran, parallelism=9, args='{"day": 2}')

    done = await step(connection, backfill, instants(3), is_last=True)

    assert done == ("done" if not expected else "open", 3, len(expected))
    again = await runs(connection)
    assert [(run["origin"], run["parent_run"], run["nominal_for"]) for run in again] == [
        ("rerun", made[number]["id"], instants(3)[number]) for number in expected
    ]
    assert all(run["args"] == '{"day": 2}' for run in again)
    named = [r["run_id"] for r in await connection.fetch("TABLE pgcron.occurrence ORDER BY run_id")]
    assert named == [run["id"] for run in made]


async def test_what_succeeded_since_in_another_run_is_not_run_again(
    connection: Connection, schedule: int, node: Node
) -> None:
    made = await end_three(connection, schedule, node)
    await connection.execute("SELECT pgcron.redrive($1)", made[1]["id"])
    assert await finish(connection, await claim(connection, node))
    await connection.execute("SELECT pgcron.retry_run($1)", made[2]["id"])
    backfill = await ask(connection, 3, if_ran="failed", parallelism=9)

    assert await step(connection, backfill, instants(3), is_last=True) == ("done", 3, 0)


async def test_a_fire_that_somebody_skips_beforehand_stays_skipped(
    connection: Connection, schedule: int
) -> None:
    await connection.execute(
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action)"
        " VALUES ($1, $2, 'skip')",
        schedule,
        DAY,
    )
    backfill = await ask(connection, 2)

    assert await step(connection, backfill, instants(2), is_last=True) == ("open", 2, 1)
    assert await fires_of_runs(connection) == [DAY + minutes(1)]


async def test_an_instant_of_a_missed_range_has_one_answer(
    connection: Connection, schedule: int
) -> None:
    await connection.execute(
        "INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason)"
        " VALUES ($1, $2, $3, 'paused')",
        schedule,
        DAY,
        DAY + minutes(5),
    )
    backfill = await ask(connection, 1)
    await step(connection, backfill, instants(1), is_last=True)

    reported = await connection.fetch(
        "SELECT w.decision, w.reason FROM unnest($1::timestamptz[]) i, pgcron.why('job', i) w",
        instants(2),
    )
    assert [tuple(one) for one in reported] == [
        ("run", f"backfill {backfill}"),
        ("missed", "paused"),
    ]


async def test_of_two_nodes_at_one_step_one_does_it(
    connection: Connection, schedule: int, another: Connect
) -> None:
    backfill = await ask(connection, 9, parallelism=3)
    first, second = await another(), await another()
    async with first.transaction():
        await step_from(first, backfill, None, instants(9))
        assert await step_from(second, backfill, None, instants(9)) is None

    assert await step_from(second, backfill, None, instants(9)) == ("open", 0, 0)
    assert await fires_of_runs(connection) == instants(3)


async def test_the_materializer_and_a_backfill_make_one_run_of_an_instant(
    connection: Connection, schedule: int, another: Connect
) -> None:
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", DAY - minutes(1))
    cursor = await cursor_of(connection, schedule)
    backfill = await ask(connection, 4, direction="backward", parallelism=9)
    one, other = await another(), await another()
    async with one.transaction():
        await materialize(one, cursor, instants(2))
        stepping = asyncio.ensure_future(step(other, backfill, instants(4)[::-1], is_last=True))
        await waits_for_lock(connection, other)

    assert await stepping == ("open", 4, 2)
    fires = [run["scheduled_for"] for run in await runs(connection)]
    assert sorted(fires) == instants(4)
    assert (await row(connection, backfill))["already"] == 2


async def test_a_backfill_that_was_first_leaves_the_materializer_nothing(
    connection: Connection, schedule: int, another: Connect
) -> None:
    await connection.execute("UPDATE pgcron.cursor SET watermark = $1", DAY - minutes(1))
    cursor = await cursor_of(connection, schedule)
    backfill = await ask(connection, 2, direction="backward", parallelism=9)
    one, other = await another(), await another()
    async with one.transaction():
        await step(one, backfill, instants(2)[::-1], is_last=True)
        materializing = asyncio.ensure_future(materialize(other, cursor, instants(2)))
        await waits_for_lock(connection, other)

    assert await materializing == (1, 0)
    assert sorted(await fires_of_runs(connection)) == instants(2)


async def test_a_stop_waits_for_the_step_under_way_and_cancels_what_it_made(
    connection: Connection, schedule: int, another: Connect
) -> None:
    backfill = await ask(connection, 3, parallelism=9)
    one, other = await another(), await another()
    async with one.transaction():
        await step(one, backfill, instants(3), is_last=True)
        stopping = asyncio.ensure_future(
            backfills.stop_backfill(other, backfill, "too slow", actor="bea")
        )
        await waits_for_lock(connection, other)

    assert await stopping == 3
    assert await runs(connection) == []
    decided = await connection.fetch("SELECT decision, reason FROM pgcron.occurrence")
    words = f"backfill {backfill} was stopped by bea: too slow"
    assert [tuple(one) for one in decided] == [("cancelled", words)] * 3
    found = await row(connection, backfill)
    assert (found["state"], found["failed"], found["open"]) == ("stopped", 3, 0)


async def test_a_stop_leaves_what_runs_and_is_over_when_that_is(
    connection: Connection, node: Node
) -> None:
    backfill = await ask(connection, 3, parallelism=2)
    await step(connection, backfill, instants(3))
    running = await claim(connection, node, 1)

    assert await backfills.stop_backfill(connection, backfill) == 1

    assert (await row(connection, backfill))["state"] == "stopping"
    assert await step(connection, backfill, instants(3)[2:]) == ("stopping", 0, 0)
    await finish(connection, running)
    assert await step(connection, backfill, []) == ("stopped", 0, 0)
    assert await step(connection, backfill, instants(3)) is None


async def test_a_paused_one_makes_nothing_and_counts_what_ends(
    connection: Connection, node: Node
) -> None:
    backfill = await ask(connection, 3)
    await step(connection, backfill, instants(3))
    await backfills.pause_backfill(connection, backfill, actor="ada")
    await finish(connection, await claim(connection, node))

    assert await step(connection, backfill, instants(3)[1:]) == ("paused", 0, 0)
    found = await row(connection, backfill)
    assert (found["succeeded"], found["changed_by"]) == (1, "ada")
    await backfills.resume_backfill(connection, backfill)
    assert await step(connection, backfill, instants(3)[1:]) == ("open", 1, 1)


async def test_an_edit_of_the_schedule_does_not_change_it(
    connection: Connection, schedule: int
) -> None:
    backfill = await ask(connection, 1)
    await connection.execute("UPDATE pgcron.schedule SET spec = '@yearly', args = '{}', weight = 2")
    [read] = await call(connection, "open_backfills", after=0, at_most=9, aside=[], tzdata="2026a")

    await step(connection, backfill, instants(1))

    assert read["spec"] == "* * * * *"
    assert [(run["args"], run["weight"]) for run in await runs(connection)] == [
        ('{"day": 1}', None)
    ]


async def test_the_deletion_of_the_schedule_stops_it(
    connection: Connection, node: Node, another: Connect
) -> None:
    backfill = await ask(connection, 9, parallelism=2)
    one, other = await another(), await another()
    async with one.transaction():
        await step(one, backfill, instants(9))
        deleting = asyncio.ensure_future(other.execute("SELECT pgcron.delete_schedule('job')"))
        await waits_for_lock(connection, other)
    await deleting

    assert await step(connection, backfill, instants(9)[2:]) == ("stopped", 0, 0)
    found = await row(connection, backfill)
    assert found["error"]["message"] == "the schedule was deleted"
    assert (found["failed"], await runs(connection)) == (2, [])


async def test_one_that_may_not_overlap_waits_for_what_is_under_way(
    connection: Connection, node: Node
) -> None:
    await connection.execute("UPDATE pgcron.schedule SET overlap = 'skip'")
    backfill = await ask(connection, 2)
    await connection.execute("SELECT pgcron.run_now('job')")

    assert await step(connection, backfill, instants(2)) == ("open", 0, 0)
    await connection.execute("SELECT pgcron.cancel_run(id) FROM pgcron.run")
    assert await step(connection, backfill, instants(2)) == ("open", 1, 1)
    assert [run["overlap"] for run in await runs(connection)] == ["skip"]


async def test_a_full_queue_drops_nothing_for_a_backfill(
    connection: Connection, node: Node, schedule: int
) -> None:
    await connection.execute("UPDATE pgcron.schedule SET overlap = 'queue', max_queued = 2")
    backfill = await ask(connection, 3, parallelism=2)
    for _ in range(3):
        await connection.execute("SELECT pgcron.run_now('job')")

    assert await step(connection, backfill, instants(3)) == ("open", 0, 0)
    [first], _ = await claim_overlapping(connection, node)
    assert await step(connection, backfill, instants(3)) == ("open", 0, 0)
    await finish(connection, [first])
    assert await step(connection, backfill, instants(3)) == ("open", 1, 1)
    _, dropped = await claim_overlapping(connection, node)
    assert dropped == []


async def test_a_schedule_that_was_renamed_meanwhile_has_the_runs_under_its_name(
    connection: Connection, schedule: int
) -> None:
    backfill = await ask(connection, 2, parallelism=2, if_ran="all")
    await step(connection, backfill, instants(1))
    await connection.execute("SELECT pgcron.rename_schedule('job', 'work')")

    await step(connection, backfill, instants(2)[1:])

    assert [run["schedule"] for run in await runs(connection)] == ["work", "work"]


async def test_instants_whose_ledger_retention_dropped_count_as_not_run(
    connection: Connection, schedule: int
) -> None:
    # As in a database that is older than its retention: between two partitions there is none.
    await connection.execute("DROP TABLE pgcron.occurrence_before")
    january = "SELECT pgcron.add_partition('occurrence', '2026-01-01Z', '2026-02-01Z')"
    await connection.execute(january)
    await connection.execute("UPDATE pgcron.retention SET keep = '1 day'")
    backfill = await ask(connection, 2)

    assert await step(connection, backfill, instants(2), is_last=True) == ("open", 1, 1)

    outlived = [row["partition"] for row in await call(connection, "outlived_partitions")]
    assert "occurrence_202602" in outlived
    await connection.execute("DROP TABLE pgcron.occurrence_202602")
    assert len(await runs(connection)) == 1
    assert await connection.fetch("SELECT * FROM pgcron.check_ledger()") == []


async def test_only_the_last_thousand_failures_are_kept(
    connection: Connection, schedule: int
) -> None:
    backfill = await ask(connection, 1300, parallelism=1000)
    await step(connection, backfill, instants(1000))
    await end_all(connection)
    assert await step(connection, backfill, instants(1300)[1000:], is_last=True) is not None
    await end_all(connection)
    assert await step(connection, backfill, [], is_last=True) == ("done", 0, 0)

    kept = await connection.fetchrow("SELECT count(*), min(fire_at) FROM pgcron.backfill_run")
    assert kept is not None
    assert tuple(kept) == (1000, DAY + minutes(300))
    assert (await row(connection, backfill))["failed"] == 1300


async def end_all(connection: Connection) -> None:
    ids = [run["id"] for run in await runs(connection)]
    await end_waiting(connection, ids, "cancelled")


REFUSED: tuple[tuple[dict[str, Any], type[PgcronError], str], ...] = (
    ({"direction": "sideways"}, InvalidInput, "direction 'sideways' is not known"),
    ({"parallelism": 0}, InvalidInput, "parallelism 0 is out of range"),
    ({"parallelism": 1001}, InvalidInput, "parallelism 1001 is out of range"),
    ({"overlap": "never"}, InvalidInput, "overlap policy 'never' is not known"),
    ({"if_ran": "maybe"}, InvalidInput, "if_ran 'maybe' is not known"),
    ({"args": "[]"}, InvalidInput, "args"),
    ({"planned": 1_000_001}, TooLarge, "more than 1000000 instants"),
    ({"since": DAY + minutes(60)}, InvalidInput, "a backfill from"),
    ({"since": DAY - timedelta(days=3661)}, InvalidInput, "a backfill from"),
    ({"until": datetime(2200, 1, 1, tzinfo=UTC)}, InvalidInput, "a backfill from"),
    ({"since": None}, InvalidInput, "since is NULL"),
    ({"schedule": "nobody"}, NotFound, "schedule 'nobody' does not exist"),
)


@pytest.mark.parametrize(("given", "error", "fact"), REFUSED)
async def test_what_makes_no_sense_is_refused_with_the_rule_and_what_to_do(
    connection: Connection,
    schedule: int,
    given: dict[str, Any],
    error: type[PgcronError],
    fact: str,
) -> None:
    asked = {"schedule": "job", "since": DAY, "until": DAY + minutes(60), **given}

    with pytest.raises(error) as refused:
        await backfills.backfill(connection, **asked)

    assert fact in refused.value.message
    assert refused.value.detail
    assert refused.value.hint


async def test_the_range_of_one_under_way_is_taken(
    connection: Connection, schedule: int, another: Connect
) -> None:
    first = await ask(connection, 9)
    with pytest.raises(Conflict, match=f"backfill {first} of schedule 'job' is open"):
        await backfills.backfill(connection, "job", DAY + minutes(8), DAY + minutes(20))
    await backfills.backfill(connection, "job", DAY + minutes(9), DAY + minutes(20))
    await backfills.stop_backfill(connection, first)
    one, other = await another(), await another()
    async with one.transaction():
        await ask(one, 9)
        asking = asyncio.ensure_future(ask(other, 9))
        await waits_for_lock(connection, other)

    with pytest.raises(Conflict, match="is open and has a part of this range"):
        await asking


async def test_what_is_over_is_neither_paused_nor_stopped_again(
    connection: Connection, schedule: int
) -> None:
    backfill = await ask(connection, 1)
    await backfills.stop_backfill(connection, backfill)

    for verb in (backfills.pause_backfill, backfills.resume_backfill, backfills.stop_backfill):
        with pytest.raises(Conflict, match=f"backfill {backfill} is stopped"):
            await verb(connection, backfill)
    with pytest.raises(NotFound, match="backfill 99 does not exist"):
        await backfills.pause_backfill(connection, 99)


async def test_the_door_is_closed_to_who_was_not_let_in(orphan: Connection) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await orphan.execute("SELECT pgcron.stop_backfill(1)")


async def test_what_is_over_is_forgotten_with_the_ledger_of_its_time(
    connection: Connection, schedule: int
) -> None:
    old = await ask(connection, 1)
    await backfills.stop_backfill(connection, old)
    new = await ask(connection, 1)
    await connection.execute(
        "UPDATE pgcron.backfill SET ended_at = '2020-01-01' WHERE id = $1", old
    )

    await call(connection, "forget_backfills", at_most=100)

    assert [found["id"] for found in await backfills.backfills(connection)] == [new]
