"""The rules of admission up to the 13th: birth, and event gates, which block a run."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connection,
    Node,
    admit,
    call,
    claim,
    claim_limited,
    cursor_of,
    database_now,
    enqueue,
    fail,
    finish,
    fires_ahead,
    history_row,
    join,
    kill,
    materialize,
    minutes,
    put_schedule,
    reap,
    run_row,
)
from tests.waiting import until

STATE = "SELECT state, gate, overlap_slot FROM pgcron.run WHERE id = $1"
VERSIONS = "SELECT xmin::text, ctid::text, state FROM pgcron.run ORDER BY id"


def by_hand(schedule: int, overlap: str) -> dict[str, Any]:
    """Columns of runs of a schedule that somebody asks for."""
    return {"origin": "manual", "schedule_id": schedule, "overlap": overlap}


async def skipping(connection: Connection, **columns: Any) -> dict[str, Any]:
    """Columns of runs of a schedule that skips what overlaps."""
    return by_hand(await put_schedule(connection, **columns), "skip")


async def fires(connection: Connection, schedule: int, *ages: float) -> list[int]:
    """Fires of a schedule, due so many minutes ago."""
    now = await connection.fetchval("SELECT now()")
    return [
        await connection.fetchval(
            "INSERT INTO pgcron.run (origin, schedule_id, scheduled_for, handler, overlap, due_at)"
            " VALUES ('schedule', $1, $2, 'py:work', 'skip', $2) RETURNING id",
            schedule,
            now - minutes(age),
        )
        for age in ages
    ]


async def waits(connection: Connection, run: int) -> tuple[str, str | None, int | None]:
    row = await connection.fetchrow(STATE, run)
    assert row is not None
    return row["state"], row["gate"], row["overlap_slot"]


async def execute_one(connection: Connection, node: Node) -> Any:
    await admit(connection)
    [row] = await claim(connection, node, 1)
    return row


async def test_1_a_run_without_an_event_gate_is_born_ready_though_no_node_lives(
    connection: Connection,
) -> None:
    [run] = await enqueue(connection, handler="py:nobody.offers", requires=["gpu"])

    assert await waits(connection, run) == ("ready", None, None)


async def test_1_a_restart_of_all_nodes_rewrites_nothing(connection: Connection) -> None:
    node = await join(connection, labels={"gpu": "a100"})
    later = await database_now(connection) + minutes(5)
    for columns in ({}, {"concurrency_key": "eu"}, {"requires": ["gpu"]}, {"due_at": later}):
        await enqueue(connection, 2, **columns)
    before = await connection.fetch(VERSIONS)
    await kill(connection, node)

    again = await join(connection, labels={"gpu": "a100"})
    await call(connection, "unblock", at_most=10)
    await call(connection, "block_unserved", queues=["default"], look=10)

    assert await connection.fetch(VERSIONS) == before
    assert len(await claim(connection, again)) == 2


async def test_1_a_node_that_joins_makes_ready_what_it_offers_in_batches(
    connection: Connection,
) -> None:
    await enqueue(connection, 5, state="blocked", gate="no_node")
    assert await call(connection, "unblock", at_most=2) == []

    await join(connection)

    freed = [len(await call(connection, "unblock", at_most=2)) for _ in range(4)]
    assert freed == [2, 2, 1, 0]


async def test_2_a_row_without_a_policy_fires_no_trigger(connection: Connection) -> None:
    columns = await skipping(connection)
    await connection.execute(
        "CREATE OR REPLACE FUNCTION pgcron.block_new_run() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'fired'; END $$"
    )
    await enqueue(connection, requires=["gpu"])
    await enqueue(connection, concurrency_key="eu")

    with pytest.raises(asyncpg.RaiseError, match="fired"):
        await enqueue(connection, **columns)


async def test_2_a_plain_insert_of_a_run_that_may_overlap_is_blocked(
    connection: Connection,
) -> None:
    [run] = await enqueue(connection, **await skipping(connection))

    assert await waits(connection, run) == ("blocked", "overlap", None)
    with pytest.raises(asyncpg.CheckViolationError, match="holds_its_overlap_slot"):
        await connection.execute("UPDATE pgcron.run SET state = 'ready', gate = NULL")


async def test_3_locks_are_rows_that_only_the_engine_may_lock(connection: Connection) -> None:
    """Advisory locks are seen by everybody, and may be taken by whoever may connect."""
    taking = await connection.fetch(
        "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'pgcron'::regnamespace"
        " AND p.prosrc ~ 'advisory'"
    )

    assert {row["proname"] for row in taking} == {
        *("begin_apply", "ensure_partitions", "lock_calendars", "reopen_ledger")
    }


async def test_3_the_row_of_a_rate_is_made_by_a_claim_and_removed_when_it_counts_nothing(
    connection: Connection,
) -> None:
    """Else each key of a pattern would leave a row behind."""
    known = "SELECT name FROM pgcron.rate_window ORDER BY name"
    await connection.execute("SELECT pgcron.set_concurrency('short-*', NULL, 9, '100 ms')")
    await connection.execute("SELECT pgcron.set_concurrency('long-*', NULL, 9, '1 hour')")
    for key in ("short-1", "short-2", "long-1"):
        await enqueue(connection, concurrency_key=key)
    assert await connection.fetch(known) == []

    assert len(await claim_limited(connection, await join(connection))) == 3
    assert len(await connection.fetch(known)) == 3

    async def are_forgotten() -> bool:
        await call(connection, "forget_rates", at_most=1)
        return [row["name"] for row in await connection.fetch(known)] == ["long-1"]

    await until("the short ones are forgotten", are_forgotten)


LIMITS = (
    "SELECT pgcron.set_queue('default', 1, 1, '1 hour');"
    "SELECT pgcron.set_concurrency('eu', 1, 1, '1 hour')"
)
OPEN = (
    "SELECT pgcron.set_breaker('py:work', 3, '1 min', '1 min');"
    "UPDATE pgcron.breaker SET state = 'open', opened_at = now(), reason = '3 failures in 1 m',"
    " open_until = now() + interval '1 hour', openings = 1"
)
ONE_BY_ONE = (
    ("SELECT pgcron.resume_queue('default')", "previous"),
    ("UPDATE pgcron.run SET gate = 'overlap' WHERE gate = 'previous'", "breaker"),
    ("SELECT pgcron.reset_breaker('py:work')", "no_node"),
    ("UPDATE pgcron.run SET requires = NULL WHERE gate = 'overlap'", "overlap"),
    (
        "UPDATE pgcron.run SET state = 'ready', gate = NULL, overlap = NULL WHERE gate = 'overlap'",
        "queue_limit",
    ),
    ("SELECT pgcron.set_queue('default', NULL, 1, '1 hour')", "key_limit"),
    ("SELECT pgcron.set_concurrency('eu', NULL, 1, '1 hour')", "rate"),
    ("SELECT pgcron.set_queue('default')", "rate"),
    ("SELECT pgcron.set_concurrency('eu', NULL)", "weight"),
    ("UPDATE pgcron.run SET weight = NULL WHERE weight = 17", "slots"),
)
BLOCK = "UPDATE pgcron.run SET state = 'blocked', overlap = 'queue', gate"
IN_ORDER = {
    "paused": "SELECT pgcron.pause_queue('default')",
    "previous": f"{BLOCK} = 'previous' WHERE tags = '{{x}}'",
    "breaker": OPEN,
    "no_node": "UPDATE pgcron.run SET requires = '{gpu}' WHERE tags = '{x}'",
    "overlap": f"{BLOCK} = 'overlap' WHERE tags = '{{x}}'",
    "queue_limit": "UPDATE pgcron.queue SET max_running = 1",
    "key_limit": "UPDATE pgcron.concurrency_limit SET slots = 1",
    "rate": "UPDATE pgcron.queue SET rate = 1, per = '1 hour'",
    "weight": "UPDATE pgcron.run SET weight = 17 WHERE tags = '{x}'",
}
ONE_COLUMN = {("previous", "overlap")}


async def test_4_the_reason_shown_is_the_first_closed_gate(connection: Connection) -> None:
    """All of them are closed, and opened one by one."""
    node = await join(connection)
    schedule = await put_schedule(connection, overlap="queue")
    columns = by_hand(schedule, "queue")
    await connection.execute(LIMITS)
    await enqueue(connection, concurrency_key="eu", **columns)
    await admit(connection)
    assert len(await claim_limited(connection, node)) == 1
    [run] = await enqueue(connection, concurrency_key="eu", weight=17, requires=["gpu"], **columns)
    await connection.execute("UPDATE pgcron.run SET gate = 'previous' WHERE id = $1", run)
    await connection.execute(f"{OPEN}; SELECT pgcron.pause_queue('default')")

    shown = "SELECT waits_for FROM pgcron.runs WHERE id = $1"
    assert await connection.fetchval(shown, run) == "paused"
    for command, word in ONE_BY_ONE:
        await connection.execute(command)
        assert await connection.fetchval(shown, run) == word, command


async def test_4_of_each_two_gates_that_are_closed_the_first_is_shown(
    connection: Connection,
) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection, overlap="queue")
    await connection.execute(LIMITS)
    await enqueue(connection, concurrency_key="eu")
    assert len(await claim_limited(connection, node)) == 1
    await connection.execute(
        "UPDATE pgcron.queue SET max_running = NULL, rate = NULL, per = NULL;"
        "UPDATE pgcron.concurrency_limit SET slots = 9, rate = NULL, per = NULL"
    )
    of_it: dict[str, Any] = {"origin": "manual", "schedule_id": schedule, "tags": ["x"]}
    [run] = await enqueue(connection, concurrency_key="eu", **of_it)
    shown = "SELECT waits_for FROM pgcron.runs WHERE id = $1"
    assert await connection.fetchval(shown, run) == "slots"
    found = {}
    pairs = set(combinations(IN_ORDER, 2)) - ONE_COLUMN
    for first, second in pairs:
        undone = connection.transaction()
        await undone.start()
        await connection.execute(f"{IN_ORDER[first]};{IN_ORDER[second]}")
        found[first, second] = await connection.fetchval(shown, run)
        await undone.rollback()

    assert found == {(first, second): first for first, second in pairs}


@pytest.mark.parametrize(
    ("close", "reopen", "word"),
    [
        ("SELECT pgcron.pause_queue('default')", "SELECT pgcron.resume_queue('default')", "paused"),
        ("SELECT pgcron.pause_cluster()", "SELECT pgcron.resume_cluster()", "paused"),
        (
            "UPDATE pgcron.cluster SET quarantine_until = now() + interval '1 hour'",
            "UPDATE pgcron.cluster SET quarantine_until = '-infinity'",
            "paused",
        ),
        ("SELECT pgcron.cordon_node('n1')", "SELECT pgcron.uncordon_node('n1')", "no_node"),
    ],
)
async def test_5_a_pause_rewrites_no_run(
    connection: Connection, close: str, reopen: str, word: str
) -> None:
    node = await join(connection, name="n1")
    runs = await enqueue(connection, 2)
    before = await connection.fetch(VERSIONS)
    beat = {"incarnation": node.incarnation, "slots_used": 0, "is_draining": False}
    beat |= {"health": None, "is_unresponsive": False}

    await connection.execute(close)
    await call(connection, "beat", **beat)

    assert await claim(connection, node) == []
    shown = await connection.fetch("SELECT DISTINCT waits_for FROM pgcron.runs")
    assert [row["waits_for"] for row in shown] == [word]
    assert await connection.fetch(VERSIONS) == before
    await connection.execute(reopen)
    await call(connection, "beat", **beat)
    assert sorted(row["id"] for row in await claim(connection, node)) == runs


@pytest.mark.parametrize(
    ("close", "reopen"),
    [
        ("SELECT pgcron.pause_queue('default')", "SELECT pgcron.resume_queue('default')"),
        ("SELECT pgcron.pause_cluster()", "SELECT pgcron.resume_cluster()"),
        (
            "UPDATE pgcron.cluster SET quarantine_until = now() + interval '1 hour'",
            "UPDATE pgcron.cluster SET quarantine_until = '-infinity'",
        ),
        (
            "UPDATE pgcron.offer SET handler = 'py:else'",
            "UPDATE pgcron.offer SET handler='py:work'",
        ),
        (OPEN, "SELECT pgcron.reset_breaker('py:work')"),
    ],
)
async def test_6_a_fire_that_nobody_could_start_is_not_skipped_yet(
    connection: Connection, close: str, reopen: str
) -> None:
    node = await join(connection)
    columns = await skipping(connection)
    await enqueue(connection, **columns)
    await execute_one(connection, node)
    [late] = await enqueue(connection, **columns)

    await connection.execute(close)
    assert (await admit(connection))["skipped"] == 0

    await connection.execute(reopen)
    assert (await admit(connection))["skipped"] == 1
    assert await run_row(connection, late) is None


async def test_6_a_fire_is_skipped_together_with_its_row_of_the_ledger(
    connection: Connection,
) -> None:
    await join(connection)
    schedule = await put_schedule(connection)
    cursor = await cursor_of(connection, schedule)
    late = [cursor["watermark"] - minutes(age) for age in (2, 1)]
    await connection.execute("UPDATE pgcron.cursor SET watermark = watermark - interval '1 hour'")
    assert await materialize(connection, await cursor_of(connection, schedule), late) == (1, 2)

    assert (await admit(connection))["skipped"] == 1

    ledger = await connection.fetch(
        "SELECT o.decision, o.reason = h.error AS says_the_same, o.decided_at = h.finished_at"
        " AS is_one_transaction FROM pgcron.occurrence o"
        " LEFT JOIN pgcron.history h ON h.id = o.run_id ORDER BY o.fire_at"
    )
    assert [tuple(row) for row in ledger] == [("run", None, None), ("skipped", True, True)]


async def test_7_the_next_fire_has_its_slot_before_it_is_due_and_a_manual_run_may_take_it(
    connection: Connection,
) -> None:
    await join(connection)
    schedule = await put_schedule(connection)
    first, second = await fires(connection, schedule, -1, -2)
    await admit(connection)
    assert await waits(connection, first) == ("ready", None, 1)
    assert await waits(connection, second) == ("blocked", "overlap", None)

    manual = await connection.fetchval("SELECT pgcron.run_now('job')")
    await admit(connection)

    assert await waits(connection, manual) == ("ready", None, 1)
    assert await waits(connection, first) == ("blocked", "overlap", None)


async def test_8_what_is_replaced_is_asked_to_stop_once(connection: Connection) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection, overlap="replace")
    columns = by_hand(schedule, "replace")
    await enqueue(connection, **columns)
    holder = await execute_one(connection, node)
    asked = "SELECT xmin::text, cancel_at, cancel_reason FROM pgcron.run WHERE id = $1"
    await enqueue(connection, **columns)
    await admit(connection)
    before = await connection.fetchrow(asked, holder["id"])
    assert before is not None
    assert before["cancel_at"] is not None

    await enqueue(connection, **columns)
    await admit(connection)

    assert await connection.fetchrow(asked, holder["id"]) == before


async def test_9_fires_to_come_are_not_counted_as_queued(connection: Connection) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection, overlap="queue", max_queued=1)
    columns = by_hand(schedule, "queue")
    await enqueue(connection, **columns)
    await execute_one(connection, node)
    later = await database_now(connection) + minutes(5)
    await enqueue(connection, 3, due_at=later, **columns)
    await enqueue(connection, **columns)

    assert (await admit(connection))["skipped"] == 0
    await enqueue(connection, **columns)
    assert (await admit(connection))["skipped"] == 1
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run WHERE state = 'blocked'") == 4


@pytest.mark.parametrize("ended_by", ["failed", "snoozed", "lease lost"])
async def test_10_between_attempts_a_run_keeps_its_overlap_slot_and_nothing_else(
    connection: Connection, ended_by: str
) -> None:
    node, other = await join(connection), await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('eu', 1, 3, '1 hour')")
    schedule = await put_schedule(connection, overlap="queue")
    columns = by_hand(schedule, "queue")
    [run, behind] = await enqueue(connection, 2, concurrency_key="eu", **columns)
    await admit(connection)
    held = await claim_limited(connection, node)
    if ended_by == "lease lost":
        await kill(connection, node)
        assert await reap(connection) == {run: "retry"}
    else:
        await fail(connection, held, kind=ended_by, retry_after=0.0)

    await admit(connection)
    assert await waits(connection, run) == ("ready", None, 1)
    assert await waits(connection, behind) == ("blocked", "overlap", None)
    await connection.execute(
        "UPDATE pgcron.run SET due_at = now() + interval '1 h' WHERE attempt > 0"
    )
    await enqueue(connection, concurrency_key="eu")
    between = await claim_limited(connection, other)
    assert len(between) == 1
    await connection.execute("UPDATE pgcron.run SET due_at = now() WHERE id = $1", run)
    assert await claim_limited(connection, other) == []
    await finish(connection, between)
    assert [row["id"] for row in await claim_limited(connection, other)] == [run]
    counted = "SELECT sum(s) FROM pgcron.rate_window, unnest(starts) s"
    assert await connection.fetchval(counted) == 3


async def test_11_a_slot_that_nobody_claims_is_taken_back_only_if_no_node_could(
    connection: Connection,
) -> None:
    await join(connection)
    rare = await join(connection, handlers=("py:rare",))
    schedule = await put_schedule(connection, overlap="queue")
    columns = by_hand(schedule, "queue")
    [first] = await enqueue(connection, handler="py:rare", **columns)
    await admit(connection)
    [second] = await enqueue(connection, priority=0, **columns)

    await admit(connection)  # its node has no room, it seems
    assert await waits(connection, first) == ("ready", None, 1)
    assert await waits(connection, second) == ("blocked", "overlap", None)

    await kill(connection, rare)
    await admit(connection)
    assert await waits(connection, first) == ("blocked", "overlap", None)
    assert await waits(connection, second) == ("ready", None, 1)


async def test_12_after_an_edit_to_skip_all_running_runs_count(connection: Connection) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection, overlap="allow")
    await enqueue(connection, 2, origin="manual", schedule_id=schedule)
    running = await claim(connection, node)
    assert len(running) == 2
    await connection.execute("UPDATE pgcron.schedule SET overlap = 'skip'")
    await connection.execute("SELECT pgcron.apply_edit($1)", schedule)
    late = await connection.fetchval("SELECT pgcron.run_now('job')")

    assert (await admit(connection))["skipped"] == 1
    assert await history_row(connection, late) is not None
    await finish(connection, running)
    again = await connection.fetchval("SELECT pgcron.run_now('job')")
    assert (await admit(connection))["ready"] == 1
    assert await waits(connection, again) == ("ready", None, 1)


async def test_12_what_is_due_under_no_limit_waits_for_a_slot_after_an_edit_to_skip(
    connection: Connection,
) -> None:
    await join(connection)
    schedule = await put_schedule(connection, overlap="allow")
    now = await connection.fetchval("SELECT now()")
    run = await connection.fetchval(
        "INSERT INTO pgcron.run (origin, schedule_id, scheduled_for, handler, due_at)"
        " VALUES ('schedule', $1, $2, 'py:work', $2) RETURNING id",
        schedule,
        now - minutes(1),
    )

    await connection.execute("UPDATE pgcron.schedule SET overlap = 'skip'")
    await connection.execute("SELECT pgcron.apply_edit($1)", schedule)

    assert await waits(connection, run) == ("blocked", "overlap", None)


@pytest.mark.parametrize("gate", ["no_node", "breaker"])
async def test_12_what_waits_for_something_else_waits_for_a_slot_after_an_edit_to_skip(
    connection: Connection, gate: str
) -> None:
    schedule = await put_schedule(connection, overlap="allow")
    runs = await fires(connection, schedule, 2, 1)
    await connection.execute("UPDATE pgcron.run SET overlap = NULL, gate = $1", gate)

    await connection.execute("UPDATE pgcron.schedule SET overlap = 'skip'")
    await connection.execute("SELECT pgcron.apply_edit($1)", schedule)

    assert [await waits(connection, run) for run in runs] == [("blocked", gate, None)] * 2
    await join(connection)
    await call(connection, "unblock", at_most=10)
    decided = await admit(connection)
    assert (decided["ready"], decided["skipped"]) == (1, 1)


async def test_13_a_start_deadline_ends_a_blocked_run_too(connection: Connection) -> None:
    node = await join(connection)
    columns = await skipping(connection)
    await enqueue(connection, **columns)
    await execute_one(connection, node)
    past = await connection.fetchval("SELECT now() - interval '1 second'")
    [run] = await enqueue(connection, expire_at=past, **columns)

    assert (await admit(connection))["skipped"] == 0  # it is late, not in the way of another

    ended = await connection.fetch(
        "SELECT pgcron.end_waiting_runs(ARRAY[$1::bigint], 'expired', 'too late') AS id", run
    )

    assert [row["id"] for row in ended] == [run]


@pytest.mark.parametrize("gate", ["no_node", "breaker"])
async def test_13_what_is_unique_is_replaced_pushed_on_and_cancelled_while_it_is_blocked(
    connection: Connection, gate: str
) -> None:
    ask = "SELECT pgcron.enqueue('py:work', $2, unique_key => $1, {})"
    replacing, debouncing = "on_conflict => 'replace'", "debounce => '1 hour'"
    replaced = await connection.fetchval(ask.format(replacing), "a", '{"n": 1}')
    pushed = await connection.fetchval(ask.format(debouncing), "b", '{"n": 1}')
    await connection.execute("UPDATE pgcron.run SET state = 'blocked', gate = $1", gate)
    await connection.execute("UPDATE pgcron.run SET due_at = now()")

    assert await connection.fetchval(ask.format(replacing), "a", '{"n": 2}') == replaced
    assert await connection.fetchval(ask.format(debouncing), "b", '{"n": 2}') == pushed
    rows = await connection.fetch(
        "SELECT args, state, due_at > now() AS is_later FROM pgcron.run ORDER BY id"
    )
    assert [tuple(row) for row in rows] == [
        ('{"n": 2}', "blocked", False),
        ('{"n": 2}', "blocked", True),
    ]
    await connection.execute("SELECT pgcron.cancel_run($1)", replaced)
    assert await run_row(connection, replaced) is None


@pytest.mark.parametrize(
    "change",
    [
        "SELECT pgcron.move_occurrence('job', $1, $1::timestamptz + interval '1 hour')",
        "SELECT pgcron.skip_occurrence('job', $1)",
        "SELECT pgcron.cancel_run(r.id) FROM pgcron.run r WHERE r.scheduled_for = $1",
    ],
)
async def test_13_a_fire_that_is_moved_or_does_not_run_gives_its_slot_to_the_next(
    connection: Connection, change: str
) -> None:
    await join(connection)
    schedule = await put_schedule(connection)
    first, second = await fires_ahead(connection, 2)

    async def decide() -> None:
        cursor = await cursor_of(connection, schedule)
        await materialize(connection, cursor, [first, second])
        await call(connection, "admit_overlap", schedules=[schedule])

    holders = "SELECT scheduled_for FROM pgcron.run WHERE overlap_slot IS NOT NULL"
    await decide()
    assert await connection.fetchval(holders) == first

    await connection.execute(change, first)
    await decide()

    assert await connection.fetchval(holders) == second


async def test_13_the_next_look_is_at_the_earliest_blocked_run(connection: Connection) -> None:
    now = await database_now(connection)
    columns = await skipping(connection)
    for age in (30, 7, 50):
        await enqueue(connection, due_at=now + minutes(age), **columns)

    [found] = await call(
        connection, "look_at_gates", after="-infinity", after_id=0, at_most=10, aside=[]
    )

    assert 6 * 60 < found["seconds"] <= 7 * 60
