from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.db.control import (
    Connect,
    Connection,
    Node,
    Row,
    call,
    claim,
    claim_overlapping,
    end_waiting,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    kill,
    put_schedule,
    reap,
    release,
    run_row,
    waits_for_lock,
)
from tests.db.gate import Gate


async def claimed_run(connection: Connection, node: Node | None = None, **columns: Any) -> Row:
    """One run that executes under a living node."""
    [run_id] = await enqueue(connection, **columns)
    claimed = await claim(connection, node or await join(connection))
    [mine] = [run for run in claimed if run["id"] == run_id]
    return mine


async def attempts_of(connection: Connection, run: Row) -> list[str]:
    rows = await connection.fetch(
        "SELECT outcome FROM pgcron.attempt WHERE run_id = $1 ORDER BY attempt", run["id"]
    )
    return [row["outcome"] for row in rows]


async def test_a_completion_moves_the_run_into_history(connection: Connection) -> None:
    run = await claimed_run(connection, args='{"day": 1}', created_by="the shop")

    assert await finish(connection, [run]) == [run["id"]]

    assert await run_row(connection, run["id"]) is None
    ended = await history_row(connection, run["id"])
    assert ended is not None
    assert (ended["outcome"], ended["attempt"], ended["fence"]) == ("succeeded", 1, run["fence"])
    assert (ended["args"], ended["created_by"], ended["node"]) == (
        '{"day": 1}',
        "the shop",
        "a node",
    )
    assert ended["started_at"] < ended["finished_at"]


async def test_of_two_ends_of_a_run_in_one_batch_that_of_the_living_claim_counts(
    connection: Connection,
) -> None:
    """As a node that was cut off reports an attempt that it lost beside the one that it has."""
    run = await claimed_run(connection)
    lost: Any = {**run, "token": uuid4()}
    await finish(connection, [lost, run])
    rows = await connection.fetch("SELECT outcome FROM pgcron.history WHERE id = $1", run["id"])
    assert [row["outcome"] for row in rows] == ["succeeded"]

    other = await claimed_run(connection)
    lost = {**other, "token": uuid4()}
    assert await fail(connection, [lost, other]) == {other["id"]: "retry"}
    assert await attempts_of(connection, other) == ["failed"]


async def test_one_fenced_completion_does_not_harm_the_others(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 3)
    first, fenced, last = await claim(connection, node)
    await release(connection, [fenced])
    await claim(connection, node)

    accepted = await finish(connection, [last, fenced, first])

    assert sorted(accepted) == sorted([first["id"], last["id"]])
    assert await run_row(connection, fenced["id"]) is not None


async def test_a_completion_is_accepted_once(connection: Connection) -> None:
    run = await claimed_run(connection)

    assert await finish(connection, [run]) == [run["id"]]
    assert await finish(connection, [run]) == []
    assert await fail(connection, [run]) == {}
    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == 1


async def test_a_failure_goes_back_to_ready_within_the_bounds_of_its_back_off(
    connection: Connection,
) -> None:
    node = await join(connection)
    await enqueue(connection, retry='{"base": 10, "cap": 25}')
    for attempt, longest in ((1, 10), (2, 20), (3, 25), (4, 25)):
        [run] = await claim(connection, node)
        assert run["attempt"] == attempt
        assert await fail(connection, [run]) == {run["id"]: "retry"}
        waiting = await connection.fetchrow(
            "SELECT *, due_at - now() AS delay FROM pgcron.run WHERE id = $1", run["id"]
        )
        assert waiting is not None
        assert waiting["state"] == "ready"
        assert waiting["last_error"] == "it went wrong"
        assert waiting["delay"] <= timedelta(seconds=longest)
        await connection.execute("UPDATE pgcron.run SET due_at = now()")

    [run] = await claim(connection, node)
    assert await fail(connection, [run]) == {run["id"]: "dead"}


async def test_the_back_off_is_spread_over_its_whole_range(connection: Connection) -> None:
    spread = await connection.fetchrow(
        "SELECT min(d) AS least, max(d) AS most FROM (SELECT pgcron.policy_delay("
        "'{\"base\": 60}', 3) AS d FROM generate_series(1, 400)) delays"
    )

    assert spread is not None
    assert timedelta(0) <= spread["least"] < timedelta(seconds=30)
    assert timedelta(seconds=210) < spread["most"] <= timedelta(seconds=240)


async def test_no_attempt_number_makes_the_back_off_overflow(connection: Connection) -> None:
    delay = await connection.fetchval(
        'SELECT pgcron.policy_delay(\'{"base": "1 day", "cap": "30 days"}\', 100)'
    )

    assert timedelta(0) <= delay <= timedelta(days=30)


async def test_the_last_failure_makes_a_dead_letter(connection: Connection) -> None:
    run = await claimed_run(connection, max_attempts=1, args='{"n": 3}', queue="default")

    assert await fail(connection, [run]) == {run["id"]: "dead"}

    letter = await connection.fetchrow("SELECT * FROM pgcron.dead_letter")
    ended = await history_row(connection, run["id"])
    assert letter is not None
    assert ended is not None
    assert (letter["run_id"], letter["args"], letter["error"], letter["attempts"]) == (
        run["id"],
        '{"n": 3}',
        "it went wrong",
        1,
    )
    assert (ended["outcome"], ended["error"]) == ("dead", "it went wrong")
    assert await attempts_of(connection, run) == ["failed"]


async def test_a_failure_that_must_not_be_retried_is_dead_at_once(connection: Connection) -> None:
    run = await claimed_run(connection)

    assert await fail(connection, [run], retryable=False) == {run["id"]: "dead"}


async def test_a_handler_may_say_when_it_is_to_be_retried(connection: Connection) -> None:
    run = await claimed_run(connection)

    await fail(connection, [run], retry_after=3600.0)

    delay = await connection.fetchval("SELECT due_at - now() FROM pgcron.run")
    assert timedelta(minutes=59) < delay <= timedelta(hours=1)


async def test_a_retry_is_not_bound_by_the_start_deadline_its_first_attempt_kept(
    connection: Connection,
) -> None:
    expire_at = await connection.fetchval("SELECT now() + interval '1 minute'")
    run = await claimed_run(connection, expire_at=expire_at)

    await fail(connection, [run], retry_after=3600.0)

    row = await run_row(connection, run["id"])
    assert row is not None
    assert row["expire_at"] is None


@pytest.mark.parametrize(
    ("kind", "outcome"), [("failed", "dead"), ("timed_out", "dead"), ("lease_lost", "lost")]
)
async def test_at_most_once_never_comes_back(
    connection: Connection, kind: str, outcome: str
) -> None:
    run = await claimed_run(connection, delivery="at_most_once")

    assert await fail(connection, [run], kind=kind) == {run["id"]: outcome}

    assert await run_row(connection, run["id"]) is None
    letter = await connection.fetchval("SELECT outcome FROM pgcron.dead_letter")
    assert letter == outcome


async def test_an_unknown_kind_of_failure_is_refused(connection: Connection) -> None:
    run = await claimed_run(connection)

    with pytest.raises(Exception, match="an_attempt_ends_in_a_known_way"):
        await fail(connection, [run], kind="bored")


async def test_a_released_run_has_its_attempt_back(connection: Connection) -> None:
    run = await claimed_run(connection, delivery="at_most_once")

    assert await release(connection, [run]) == [run["id"]]

    row = await run_row(connection, run["id"])
    assert row is not None
    assert (row["state"], row["attempt"], row["token"]) == ("ready", 0, None)
    assert await finish(connection, [run]) == []


async def test_a_run_that_is_asked_to_stop_is_not_released(connection: Connection) -> None:
    run = await claimed_run(connection)
    await connection.execute("SELECT pgcron.cancel_run($1)", run["id"])

    assert await release(connection, [run]) == []


async def test_a_run_is_marked_started_once_and_by_its_owner_only(connection: Connection) -> None:
    node = await join(connection)
    run = await claimed_run(connection, node)
    given = {"run_ids": [run["id"]], "elapsed_seconds": [2.0]}

    orphan = await call(connection, "mark_started", tokens=[node.incarnation], **given)
    first = await call(connection, "mark_started", tokens=[run["token"]], **given)
    second = await call(connection, "mark_started", tokens=[run["token"]], **given)

    assert (len(orphan), len(first), len(second)) == (0, 1, 1)


@pytest.mark.parametrize(
    ("columns", "outcome"),
    [({}, "retry"), ({"max_attempts": 1}, "dead"), ({"delivery": "at_most_once"}, "lost")],
)
async def test_a_dead_node_s_runs_are_reaped(
    connection: Connection, columns: dict[str, object], outcome: str
) -> None:
    node = await join(connection)
    run = await claimed_run(connection, node, **columns)
    assert await reap(connection) == {}

    await kill(connection, node)

    assert await reap(connection) == {run["id"]: outcome}
    assert await reap(connection) == {}
    assert await attempts_of(connection, run) == ["lease_lost"]


async def test_the_first_retry_after_a_crash_does_not_wait(connection: Connection) -> None:
    node, living = await join(connection), await join(connection)
    run = await claimed_run(connection, node)
    await kill(connection, node)
    await reap(connection)

    [again] = await claim(connection, living)

    assert (again["id"], again["attempt"]) == (run["id"], 2)
    assert again["fence"] > run["fence"]


async def test_a_reaped_run_refuses_the_late_completion(connection: Connection) -> None:
    node, living = await join(connection), await join(connection)
    run = await claimed_run(connection, node)
    await kill(connection, node)
    await reap(connection)

    assert await finish(connection, [run]) == []
    [again] = await claim(connection, living)
    assert await finish(connection, [run]) == []
    assert await fail(connection, [run]) == {}
    assert await release(connection, [run]) == []
    assert await finish(connection, [again]) == [run["id"]]


async def test_a_completion_under_way_is_skipped_by_the_reaper_and_wins(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    run = await claimed_run(connection, node)
    await kill(connection, node)
    late = await another()
    async with late.transaction():
        assert await finish(late, [run]) == [run["id"]]
        assert await reap(connection) == {}
    assert await reap(connection) == {}
    assert await connection.fetchval("SELECT outcome FROM pgcron.history") == "succeeded"


async def test_a_completion_waits_for_the_reaper_and_is_refused(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    run = await claimed_run(connection, node)
    await kill(connection, node)
    reaper, late = await another(), await another()
    async with reaper.transaction():
        assert await reap(reaper) == {run["id"]: "retry"}
        finishing = asyncio.create_task(finish(late, [run]))
        await waits_for_lock(connection, late)
    assert await finishing == []


async def test_two_reapers_end_each_attempt_once(connection: Connection, another: Connect) -> None:
    node = await join(connection)
    ids = await enqueue(connection, 40)
    await claim(connection, node, 40)
    await kill(connection, node)
    reapers = [await another() for _ in range(4)]

    reaped = await asyncio.gather(*(reap(reaper) for reaper in reapers))
    rest = await reap(connection)

    assert sorted(run_id for answer in [*reaped, rest] for run_id in answer) == sorted(ids)


async def test_a_slow_reaper_leaves_a_run_that_a_living_node_has_claimed_meanwhile(
    gate: Gate, another: Connect
) -> None:
    connection = await another()
    [run_id] = await enqueue(connection)
    dead = await join(connection)
    await claim(connection, dead)
    await kill(connection, dead)
    slow = await gate.visitor()
    async with gate.closed():
        reaping = asyncio.create_task(reap(slow))
        await gate.reached_by(slow)
        assert await reap(connection) == {run_id: "retry"}
        living = await join(connection)
        [claimed] = await claim(connection, living)

    assert await reaping == {}
    row = await run_row(connection, run_id)
    assert row is not None
    assert (row["state"], row["token"]) == ("running", claimed["token"])


async def test_a_cancelled_run_that_waits_never_begins(connection: Connection) -> None:
    [run_id] = await enqueue(connection)

    answer = await connection.fetchval("SELECT pgcron.cancel_run($1, 'not needed')", run_id)

    assert answer == "cancelled"
    ended = await history_row(connection, run_id)
    assert ended is not None
    assert ended["outcome"] == "cancelled"
    assert "not needed" in ended["error"]
    assert await claim(connection, await join(connection)) == []


async def test_a_cancel_after_the_end_says_finished(connection: Connection) -> None:
    run = await claimed_run(connection)
    await finish(connection, [run])

    assert await connection.fetchval("SELECT pgcron.cancel_run($1)", run["id"]) == "finished"


async def test_a_completion_before_the_cancel_wins(
    connection: Connection, another: Connect
) -> None:
    run = await claimed_run(connection)
    finisher, canceller = await another(), await another()
    async with finisher.transaction():
        await finish(finisher, [run])
        cancelling = asyncio.create_task(
            canceller.fetchval("SELECT pgcron.cancel_run($1)", run["id"])
        )
        await waits_for_lock(connection, canceller)
    assert await cancelling == "finished"


async def test_a_completion_after_the_request_to_stop_wins_and_history_says_so(
    connection: Connection, another: Connect
) -> None:
    run = await claimed_run(connection)
    finisher, canceller = await another(), await another()
    async with canceller.transaction():
        assert await canceller.fetchval("SELECT pgcron.cancel_run($1, 'why')", run["id"]) == (
            "requested"
        )
        finishing = asyncio.create_task(finish(finisher, [run]))
        await waits_for_lock(connection, finisher)
    assert await finishing == [run["id"]]
    ended = await history_row(connection, run["id"])
    assert ended is not None
    assert ended["outcome"] == "succeeded"
    assert "why" in ended["cancel_reason"]


@pytest.mark.parametrize("by", ["its owner", "the reaper"])
async def test_a_stopped_run_is_cancelled_and_not_retried(connection: Connection, by: str) -> None:
    node = await join(connection)
    run = await claimed_run(connection, node)
    await connection.execute("SELECT pgcron.cancel_run($1)", run["id"])
    if by == "the reaper":
        await kill(connection, node)
        ended = await reap(connection)
    else:
        ended = await fail(connection, [run], kind="cancelled")

    assert ended == {run["id"]: "cancelled"}
    assert await attempts_of(connection, run) == ["cancelled"]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.dead_letter") == 0


@pytest.mark.parametrize("outcome", ["skipped", "superseded", "expired", "cancelled"])
async def test_a_waiting_run_ends_with_a_reason_in_history_and_ledger(
    connection: Connection, outcome: str
) -> None:
    schedule = await put_schedule(connection)
    fire = await connection.fetchval("SELECT date_trunc('minute', now())")
    [run_id] = await enqueue(
        connection, origin="schedule", schedule_id=schedule, scheduled_for=fire
    )
    await connection.execute(
        "INSERT INTO pgcron.occurrence VALUES ($1, $2, 'run', NULL, $3)", schedule, fire, run_id
    )

    assert await end_waiting(connection, [run_id], outcome) == [run_id]
    assert await end_waiting(connection, [run_id], outcome) == []

    decided = await connection.fetchrow("SELECT decision, reason FROM pgcron.occurrence")
    assert decided is not None
    assert (decided["decision"], decided["reason"]) == (outcome, "because")
    ended = await history_row(connection, run_id)
    assert ended is not None
    assert (ended["outcome"], ended["error"]) == (outcome, "because")


async def test_a_run_that_began_meanwhile_is_not_ended_as_a_waiting_one(
    connection: Connection, another: Connect
) -> None:
    [run_id] = await enqueue(connection)
    node = await join(connection)
    claimer, ender = await another(), await another()
    async with claimer.transaction():
        [claimed] = await claim(claimer, node)
        ending = asyncio.create_task(end_waiting(ender, [run_id], "expired"))
        await waits_for_lock(connection, ender)
    assert await ending == []
    assert await finish(connection, [claimed]) == [run_id]


async def test_a_run_that_was_tried_meanwhile_does_not_expire(connection: Connection) -> None:
    """Seen as late by the janitor, then claimed by a statement that began before the deadline."""
    [run_id] = await enqueue(connection)
    node = await join(connection)
    assert await fail(connection, await claim(connection, node)) == {run_id: "retry"}

    assert await end_waiting(connection, [run_id], "expired") == []

    row = await run_row(connection, run_id)
    assert row is not None
    assert (row["state"], row["attempt"]) == ("ready", 1)


async def drop_partitions(connection: Connection, *relations: str) -> None:
    """As if nobody had made partitions for weeks."""
    for relation in relations:
        for row in await connection.fetch(
            "SELECT inhrelid::regclass::text AS name FROM pg_inherits "
            f"WHERE inhparent = 'pgcron.{relation}'::regclass"
        ):
            await connection.execute(f"DROP TABLE {row['name']}")


async def test_runs_end_without_any_partition_and_are_moved_when_there_is_one(
    connection: Connection,
) -> None:
    node = await join(connection)
    waiting, *ids = await enqueue(connection, 4, max_attempts=2)
    await connection.execute("UPDATE pgcron.run SET max_attempts = 1 WHERE id = $1", ids[2])
    await connection.execute("UPDATE pgcron.run SET due_at = 'infinity' WHERE id = $1", waiting)
    stopped, failed, dead = await claim(connection, node)
    await drop_partitions(connection, "history", "attempt")

    await connection.execute("SELECT pgcron.cancel_run($1)", waiting)
    await connection.execute("SELECT pgcron.cancel_run($1)", stopped["id"])
    verdicts = await fail(connection, [stopped, failed, dead])

    assert verdicts == {stopped["id"]: "cancelled", failed["id"]: "retry", dead["id"]: "dead"}
    overflow = await connection.fetch("SELECT id FROM pgcron.history_overflow ORDER BY id")
    assert [row["id"] for row in overflow] == [waiting, stopped["id"], dead["id"]]
    seen = await connection.fetchval("SELECT state FROM pgcron.runs WHERE id = $1", dead["id"])
    assert seen == "dead"

    await connection.execute("SELECT pgcron.ensure_partitions()")
    found = await call(connection, "overflowed", aside=[], at_most=100)
    await call(connection, "drain_overflow", run_ids=[row["id"] for row in found])
    assert await connection.fetchval("SELECT count(*) FROM pgcron.history_overflow") == 0
    assert await connection.fetchval("SELECT count(*) FROM pgcron.history") == 3


async def test_a_failing_holder_keeps_its_slot_and_a_dying_one_frees_it(
    connection: Connection,
) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection)
    concurrency_key: dict[str, Any] = {
        "origin": "manual",
        "schedule_id": schedule,
        "overlap": "skip",
    }
    await enqueue(connection, max_attempts=2, **concurrency_key)
    [run], _ = await claim_overlapping(connection, node)

    await fail(connection, [run], retry_after=0.0)
    slot = await connection.fetchval("SELECT overlap_slot FROM pgcron.run")
    [run], _ = await claim_overlapping(connection, node)
    await fail(connection, [run])

    assert slot == 1
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0


async def test_a_lost_answer_is_found_by_its_fence(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 3)
    done, failed, open_ = await claim(connection, node)
    await finish(connection, [done])
    await fail(connection, [failed])

    rows = await call(
        connection,
        "ended_by_fence",
        run_ids=[run["id"] for run in (done, failed, open_)],
        fences=[run["fence"] for run in (done, failed, open_)],
    )

    assert {row["id"] for row in rows} == {done["id"], failed["id"]}


async def test_a_redriven_letter_runs_again_once(connection: Connection) -> None:
    run = await claimed_run(connection, max_attempts=1, args='{"n": 1}')
    await fail(connection, [run])

    again = await connection.fetchval("SELECT pgcron.redrive($1, actor => 'ops')", run["id"])

    row = await run_row(connection, again)
    assert row is not None
    assert (row["origin"], row["parent_run"], row["args"]) == ("redrive", run["id"], '{"n": 1}')
    with pytest.raises(Exception, match="already redriven"):
        await connection.execute("SELECT pgcron.redrive($1)", run["id"])
