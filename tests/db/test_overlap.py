"""Policies beside skip: who waits, who is dropped, who is replaced, and by whom."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Node,
    Row,
    admit,
    call,
    claim_both,
    claim_limited,
    claim_overlapping,
    ended_as,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    kill,
    minutes,
    put_schedule,
    reap,
    release,
    rows_read,
    run_row,
)
from tests.product.testing import SchemaUnderTest

BEGINNING = {"after": "-infinity", "after_id": 0}


async def of(connection: Connection, **policies: Any) -> dict[str, Any]:
    """Columns of runs of a new schedule with these policies."""
    schedule = await put_schedule(connection, **policies)
    overlap = await connection.fetchval(
        "SELECT pgcron.run_overlap(overlap, max_running) FROM pgcron.schedule WHERE id = $1",
        schedule,
    )
    return {"origin": "manual", "schedule_id": schedule, "overlap": overlap}


async def let_go(connection: Connection) -> int:
    return int((await admit(connection))["ready"])


async def decide(connection: Connection, node: Node, free: int = 10) -> dict[str, list[int]]:
    """One look at the gates and one claim: what became of the runs, and which are due and wait."""
    before = {each: await ended_as(connection, each) for each in ("skipped", "superseded")}
    await admit(connection)
    rows = await claim_both(connection, node, free) if free else []
    waits = await connection.fetch(
        "SELECT id FROM pgcron.run WHERE gate = 'overlap' AND due_at <= now() ORDER BY id"
    )
    found = {
        "claim": sorted(row["id"] for row in rows),
        "skip": sorted(await ended_as(connection, "skipped") - before["skipped"]),
        "supersede": sorted(await ended_as(connection, "superseded") - before["superseded"]),
        "wait": [row["id"] for row in waits],
    }
    return {verdict: runs for verdict, runs in found.items() if runs}


async def claimed(connection: Connection, run: int) -> Row:
    found = await connection.fetch("SELECT id, token FROM pgcron.run WHERE id = $1", run)
    return found[0]


async def end(connection: Connection, run: int) -> None:
    assert await finish(connection, [await claimed(connection, run)]) == [run]


async def asked_to_stop(connection: Connection, run: int) -> datetime | None:
    at: datetime | None = await connection.fetchval(
        "SELECT cancel_at FROM pgcron.run WHERE id = $1", run
    )
    return at


async def outcome(connection: Connection, run: int) -> tuple[str, str]:
    row = await history_row(connection, run)
    assert row is not None
    return row["outcome"], row["error"]


async def test_a_queue_runs_one_after_the_other_in_the_order_of_their_times(
    connection: Connection,
) -> None:
    node = await join(connection)
    first, second, third = await enqueue(connection, 3, **await of(connection, overlap="queue"))

    assert await decide(connection, node) == {"claim": [first], "wait": [second, third]}
    assert await decide(connection, node) == {"wait": [second, third]}
    assert await let_go(connection) == 0
    await end(connection, first)
    assert await let_go(connection) == 1
    assert await decide(connection, node) == {"claim": [second], "wait": [third]}
    await end(connection, second)
    assert await let_go(connection) == 1
    assert await decide(connection, node) == {"claim": [third]}


async def test_what_waits_is_seen_by_the_look_at_the_gates(connection: Connection) -> None:
    columns = await of(connection, overlap="queue")
    now = await connection.fetchval("SELECT now()")
    await enqueue(connection, 2, **columns)
    [found] = await call(connection, "look_at_gates", **BEGINNING, at_most=10, aside=[])
    assert (found["schedules"], found["looked"]) == ([columns["schedule_id"]], 2)

    after = {"after": found["last_look"], "after_id": found["last_id"]}
    await enqueue(connection, due_at=now + minutes(1), **columns)
    [found] = await call(connection, "look_at_gates", **after, at_most=10, aside=[])
    assert (found["looked"], found["last_look"]) == (0, None)
    assert found["schedules"] == [columns["schedule_id"]]  # of the newest
    assert 55 < found["seconds"] <= 60

    await connection.execute("SELECT pgcron.pause_queue('default')")
    [found] = await call(connection, "look_at_gates", **BEGINNING, at_most=10, aside=[])
    assert (found["schedules"], found["looked"]) == ([], 2)


async def test_a_full_queue_drops_the_newest_or_the_oldest(connection: Connection) -> None:
    node = await join(connection)
    newest = await of(connection, name="newest", overlap="queue", max_queued=2)
    oldest = await of(
        connection, name="oldest", overlap="queue", max_queued=2, queue_drops="oldest"
    )
    a, b = await enqueue(connection, 5, **newest), await enqueue(connection, 5, **oldest)

    found = await decide(connection, node)

    assert found == {
        "claim": [a[0], b[0]],
        "wait": [a[1], a[2], b[3], b[4]],
        "skip": a[3:],
        "supersede": b[1:3],
    }
    assert await outcome(connection, a[4]) == ("skipped", "2 older runs wait (max_queued)")
    assert await outcome(connection, b[1]) == ("superseded", "2 newer runs wait (max_queued)")
    [late] = await enqueue(connection, **newest)
    assert await decide(connection, node, free=0) == {
        "skip": [late],
        "wait": [a[1], a[2], b[3], b[4]],
    }


async def test_who_lets_runs_go_drops_what_is_too_much_too(connection: Connection) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="queue", max_queued=1)
    holder, _ = await enqueue(connection, 2, **columns)
    await decide(connection, node)
    await end(connection, holder)
    _, late = await enqueue(connection, 2, **columns)

    await let_go(connection)

    assert await outcome(connection, late) == ("skipped", "1 older run waits (max_queued)")


async def test_what_could_start_does_not_count_as_waiting(connection: Connection) -> None:
    node = await join(connection)
    runs = await enqueue(connection, 4, **await of(connection, overlap="queue", max_queued=2))

    assert await decide(connection, node, free=0) == {"wait": runs[1:3], "skip": runs[3:]}
    assert await decide(connection, node) == {"claim": runs[:1], "wait": runs[1:3]}


@pytest.mark.parametrize("policy", ["skip", "queue", "allow"])
async def test_max_running_is_how_many_run_at_once(connection: Connection, policy: str) -> None:
    node = await join(connection)
    columns = await of(connection, overlap=policy, max_running=3)
    runs = await enqueue(connection, 5, **columns)

    found = await decide(connection, node)

    assert found == {"claim": runs[:3], "skip" if policy == "skip" else "wait": runs[3:]}
    slots = await connection.fetch("SELECT overlap_slot FROM pgcron.run WHERE state = 'running'")
    assert sorted(row["overlap_slot"] for row in slots) == [1, 2, 3]
    await end(connection, runs[1])
    [late] = await enqueue(connection, **columns)
    again = await decide(connection, node)
    assert again["claim"] == ([late] if policy == "skip" else runs[3:4])
    assert (
        await connection.fetchval(
            "SELECT overlap_slot FROM pgcron.run WHERE id = $1", again["claim"][0]
        )
        == 2
    )


async def test_what_waits_for_a_slot_is_no_demand_for_nodes(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 5, **await of(connection, overlap="queue", max_running=3))

    await decide(connection, node, free=1)

    assert await connection.fetchval("SELECT pgcron.scale_demand()") == 3


async def test_allow_without_a_number_has_no_limit(connection: Connection) -> None:
    assert (await of(connection, overlap="allow"))["overlap"] is None


async def test_raising_max_running_lets_go_at_once_and_lowering_it_stops_nothing(
    connection: Connection,
) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="queue", max_running=2)
    runs = await enqueue(connection, 6, **columns)
    assert (await decide(connection, node))["claim"] == runs[:2]

    await connection.execute("UPDATE pgcron.schedule SET max_running = 4")
    assert await let_go(connection) == 2
    assert (await decide(connection, node))["claim"] == runs[2:4]

    await connection.execute("UPDATE pgcron.schedule SET max_running = 1")
    assert (
        await connection.fetchval(
            "SELECT count(*) FROM pgcron.run WHERE state = 'running' AND cancel_at IS NULL"
        )
        == 4
    )
    for run in runs[:3]:
        await end(connection, run)
        assert await let_go(connection) == 0
    await end(connection, runs[3])
    assert await let_go(connection) == 1
    assert await decide(connection, node) == {"claim": [runs[4]], "wait": [runs[5]]}


async def test_a_run_that_waits_for_its_retry_keeps_its_slot(connection: Connection) -> None:
    node = await join(connection)
    first, second = await enqueue(connection, 2, **await of(connection, overlap="queue"))
    await decide(connection, node)
    await fail(connection, [await claimed(connection, first)], retry_after=3600.0)

    assert await let_go(connection) == 0
    await connection.execute("UPDATE pgcron.run SET due_at = now() WHERE id = $1", first)
    assert await decide(connection, node) == {"claim": [first], "wait": [second]}


@pytest.mark.parametrize("policy", ["replace", "terminate"])
async def test_the_newest_waits_until_what_it_replaces_is_really_over(
    connection: Connection, policy: str
) -> None:
    node = await join(connection)
    columns = await of(connection, overlap=policy)
    [holder] = await enqueue(connection, **columns)
    assert await decide(connection, node) == {"claim": [holder]}
    older, newest = await enqueue(connection, 2, **columns)

    assert await decide(connection, node, free=0) == {"supersede": [older], "wait": [newest]}

    asked = await run_row(connection, holder)
    assert asked is not None
    assert asked["state"] == "running"
    assert asked["cancel_at"] is not None
    assert (asked["kill_at"] is not None) == (policy == "terminate")
    assert asked["cancel_reason"] == f"replaced by run {newest} (overlap {policy})"
    assert await outcome(connection, older) == (
        "superseded",
        f"run {newest} came later (overlap {policy})",
    )
    assert await let_go(connection) == 0
    assert await decide(connection, node) == {"wait": [newest]}
    await fail(connection, [await claimed(connection, holder)], kind="cancelled")
    assert await let_go(connection) == 1
    assert await decide(connection, node) == {"claim": [newest]}


async def test_what_was_cancelled_is_killed_by_the_one_that_terminates_it(
    connection: Connection,
) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="terminate")
    [holder] = await enqueue(connection, **columns)
    await decide(connection, node)
    await connection.execute("SELECT pgcron.cancel_run($1, 'enough', 'ann')", holder)
    [newest] = await enqueue(connection, **columns)

    for _ in range(2):
        await let_go(connection)
        row = await run_row(connection, holder)
        assert row is not None
        assert row["kill_at"] is not None
        assert row["cancel_reason"] == (
            f"cancelled by ann: enough; replaced by run {newest} (overlap terminate)"
        )


async def test_a_newer_one_takes_the_place_of_the_one_that_waits(connection: Connection) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="replace")
    [holder] = await enqueue(connection, **columns)
    await decide(connection, node)
    [waiting] = await enqueue(connection, **columns)
    await decide(connection, node)
    [newest] = await enqueue(connection, **columns)

    assert await decide(connection, node) == {"supersede": [waiting], "wait": [newest]}
    await fail(connection, [await claimed(connection, holder)], kind="cancelled")
    await let_go(connection)
    assert await decide(connection, node) == {"claim": [newest]}


async def test_of_several_late_ones_only_the_newest_runs(connection: Connection) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="replace")
    now = await connection.fetchval("SELECT now()")
    [newest] = await enqueue(connection, due_at=now - minutes(1), **columns)
    [older] = await enqueue(connection, due_at=now - minutes(2), **columns)

    assert await decide(connection, node) == {"claim": [newest], "supersede": [older]}


async def test_what_waits_for_its_retry_is_replaced_at_once(connection: Connection) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="replace")
    [holder] = await enqueue(connection, **columns)
    await decide(connection, node)
    await fail(connection, [await claimed(connection, holder)], retry_after=3600.0)
    [newest] = await enqueue(connection, **columns)

    assert await decide(connection, node) == {"claim": [newest], "supersede": [holder]}


async def test_nothing_is_stopped_for_a_run_that_can_not_begin(connection: Connection) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="replace")
    [holder] = await enqueue(connection, **columns)
    await decide(connection, node)
    await connection.execute("SELECT pgcron.pause_queue('default')")
    [newest] = await enqueue(connection, **columns)

    await decide(connection, node)
    await let_go(connection)
    assert await asked_to_stop(connection, holder) is None

    await connection.execute("SELECT pgcron.resume_queue('default')")
    await let_go(connection)
    row = await run_row(connection, holder)
    assert row is not None
    assert row["cancel_reason"] == f"replaced by run {newest} (overlap replace)"


async def test_a_holder_that_is_locked_is_asked_by_the_next_look(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="replace")
    [holder] = await enqueue(connection, **columns)
    await decide(connection, node)
    [newest] = await enqueue(connection, **columns)
    other = await another()
    async with other.transaction():
        await other.execute("SELECT FROM pgcron.run WHERE id = $1 FOR UPDATE", holder)
        assert await decide(connection, node) == {"wait": [newest]}
    assert await asked_to_stop(connection, holder) is None

    await let_go(connection)

    assert await asked_to_stop(connection, holder)


async def test_the_end_of_a_node_lets_go_what_waited_for_its_run(connection: Connection) -> None:
    node, other = await join(connection), await join(connection)
    first, second = await enqueue(
        connection, 2, delivery="at_most_once", **await of(connection, overlap="queue")
    )
    await decide(connection, node)
    await kill(connection, node)

    assert await reap(connection) == {first: "lost"}
    assert await let_go(connection) == 1
    assert await decide(connection, other) == {"claim": [second]}


async def test_what_was_given_back_unstarted_frees_its_slot(connection: Connection) -> None:
    node = await join(connection)
    first, second = await enqueue(connection, 2, **await of(connection, overlap="queue"))
    await decide(connection, node)
    await release(connection, [await claimed(connection, first)])

    assert await let_go(connection) == 0  # the one that came back keeps its slot
    assert await decide(connection, node) == {"claim": [first], "wait": [second]}


@pytest.mark.parametrize("more", [{"concurrency_key": "customer"}, {"requires": ["disk"]}])
async def test_with_a_key_or_labels_the_policies_are_the_same(
    connection: Connection, more: dict[str, Any]
) -> None:
    node = await join(connection, labels={"disk": "big"})
    await connection.execute("SELECT pgcron.set_concurrency('customer', 9)")
    queue = await of(connection, name="q", overlap="queue", max_running=2, max_queued=1)
    replace = await of(connection, name="r", overlap="replace")
    a = await enqueue(connection, 4, **queue, **more)
    [holder] = await enqueue(connection, **replace, **more)

    assert await decide(connection, node, free=0) == {"skip": a[3:], "wait": a[2:3]}
    rows = await claim_limited(connection, node)
    assert sorted(row["id"] for row in rows) == [*a[:2], holder]
    slots = await connection.fetch(
        "SELECT overlap_slot FROM pgcron.run WHERE id = ANY($1) ORDER BY id", a[:2]
    )
    assert [row["overlap_slot"] for row in slots] == [1, 2]
    older, newest = await enqueue(connection, 2, **replace, **more)
    assert await decide(connection, node, free=0) == {"supersede": [older], "wait": [a[2], newest]}
    await fail(connection, [await claimed(connection, holder)], kind="cancelled")
    await end(connection, a[0])
    assert await let_go(connection) == 2
    rows = await claim_limited(connection, node)
    assert {row["id"] for row in rows if row["verdict"] == "claim"} == {a[2], newest}


async def test_runs_that_wait_do_not_stand_in_front_of_others(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 300, priority=0, **await of(connection, name="q", overlap="queue"))
    await decide(connection, node)
    [other] = await enqueue(connection, **await of(connection, name="other"))

    claims, _ = await claim_overlapping(connection, node, 1)

    assert [row["id"] for row in claims] == [other]


@pytest.mark.parametrize("policy", ["skip", "queue", "replace", "terminate", "allow"])
async def test_one_manual_run_may_have_another_policy(connection: Connection, policy: str) -> None:
    node = await join(connection)
    await put_schedule(connection, overlap="queue")
    made = [await connection.fetchval("SELECT pgcron.run_now('job')") for _ in range(2)]
    assert await decide(connection, node) == {"claim": made[:1], "wait": made[1:]}

    other = await connection.fetchval("SELECT pgcron.run_now('job', overlap => $1)", policy)

    if policy == "allow":
        row = await run_row(connection, other)
        assert row is not None
        assert row["overlap"] is None
        return
    expected = {
        "skip": {"skip": [other], "wait": made[1:]},
        "queue": {"wait": [made[1], other]},
        "replace": {"supersede": made[1:], "wait": [other]},
        "terminate": {"supersede": made[1:], "wait": [other]},
    }
    assert await decide(connection, node) == expected[policy]
    asked = await run_row(connection, made[0])
    assert asked is not None
    assert (asked["cancel_at"] is not None) == (policy in ("replace", "terminate"))


async def test_a_manual_run_with_a_policy_sees_what_runs_without(connection: Connection) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="allow")
    runs = await enqueue(connection, 2, **columns)
    await connection.execute(
        "UPDATE pgcron.run SET state = 'running', owner = $1, token = gen_random_uuid(), fence = 1,"
        " attempt = 1, claimed_at = now()",
        node.incarnation,
    )
    skipped = await connection.fetchval("SELECT pgcron.run_now('job', overlap => 'skip')")
    assert await decide(connection, node) == {"skip": [skipped]}

    newest = await connection.fetchval("SELECT pgcron.run_now('job', overlap => 'replace')")
    assert await decide(connection, node) == {"wait": [newest]}
    asked = await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE cancel_at IS NOT NULL")
    assert asked == len(runs)


async def test_a_policy_that_can_not_be_is_refused_for_one_run_too(connection: Connection) -> None:
    await put_schedule(connection, overlap="queue", max_running=3)
    for policy in ("wait", "replace"):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.fetchval("SELECT pgcron.run_now('job', overlap => $1)", policy)
        assert refused.value.sqlstate == "PC001"
        assert refused.value.hint


async def test_put_schedule_keeps_takes_back_and_versions_the_policies(
    connection: Connection,
) -> None:
    put = "SELECT pgcron.put_schedule('job', '@daily', 'py:work'{})"
    kept = "SELECT overlap, max_running, max_queued, queue_drops FROM pgcron.schedules"
    await connection.execute(
        put.format(
            ", overlap => 'queue', max_running => 2, max_queued => 5, queue_drops => 'oldest'"
        )
    )
    assert tuple((await connection.fetch(kept))[0]) == ("queue", 2, 5, "oldest")
    await connection.execute(put.format(", max_queued => 0"))
    assert tuple((await connection.fetch(kept))[0]) == ("queue", 2, None, "oldest")
    with pytest.raises(asyncpg.PostgresError, match="queue_drops with overlap 'skip'"):
        await connection.execute(put.format(", overlap => 'skip'"))
    await connection.execute(
        put.format(", overlap => 'replace', max_running => 0, queue_drops => ''")
    )
    assert tuple((await connection.fetch(kept))[0]) == ("replace", None, None, None)
    versions = await connection.fetch(
        "SELECT content ->> 'max_queued' AS n FROM pgcron.schedule_version ORDER BY version"
    )
    assert [row["n"] for row in versions] == ["5", None, None]


@pytest.mark.parametrize("handler", ["py:work", "py:gone"])
async def test_of_more_late_fires_than_one_look_reads_the_newest_runs(
    connection: Connection, handler: str
) -> None:
    """Also where nobody can start the older ones, which stay undecided then."""
    node, schedule = await join(connection), await put_schedule(connection)
    await connection.execute(
        "INSERT INTO pgcron.run (origin, schedule_id, scheduled_for, handler, overlap, due_at)"
        " SELECT 'schedule', $1, fire, $2, 'skip', fire"
        " FROM (SELECT now() - n * interval '1 minute' AS fire"
        "       FROM generate_series(1500, 1, -1) n) late",
        schedule,
        handler,
    )
    newest = await connection.fetchval(
        "UPDATE pgcron.run SET handler = 'py:work' WHERE id = (SELECT max(id) FROM pgcron.run)"
        " RETURNING id"
    )

    assert (await decide(connection, node))["claim"] == [newest]

    await decide(connection, node)
    skipped = await ended_as(connection, "skipped")
    assert len(skipped) == (1499 if handler == "py:work" else 0)


async def test_a_long_backlog_costs_a_decision_little(connection: Connection) -> None:
    node = await join(connection)
    columns = await of(connection, overlap="allow", max_running=3)
    await enqueue(connection, 5000, **columns)
    await decide(connection, node)
    await connection.execute("ANALYZE pgcron.run")
    [running] = await connection.fetch("SELECT id, token FROM pgcron.run WHERE attempt > 0 LIMIT 1")
    await finish(connection, [running])

    async with connection.transaction():
        before = await rows_read(connection)
        [row] = await call(connection, "admit_overlap", schedules=[columns["schedule_id"]])
        assert row["ready"] == 1
        assert await rows_read(connection) - before < 6000


async def test_a_test_waits_for_what_is_about_to_be_let_go(connection: Connection) -> None:
    node, schema = await join(connection), SchemaUnderTest(connection, "pgcron")
    columns = await of(connection, overlap="queue")
    first, _ = await enqueue(connection, 2, **columns, retry='{"base": 3600}')
    await decide(connection, node)
    await fail(connection, [await claimed(connection, first)])
    assert await schema.is_quiet(None)  # the second waits for the retry of the first
    await connection.execute("UPDATE pgcron.run SET due_at = now() WHERE attempt > 0")
    assert (await decide(connection, node))["claim"] == [first]

    await end(connection, first)

    assert not await schema.is_quiet(None)
