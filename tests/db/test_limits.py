"""Keys by a user's key, and limited queues: never more at once than allowed."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    NO_BOUNDS,
    Connect,
    Connection,
    Row,
    admit,
    call,
    claim,
    claim_limited,
    claim_overlapping,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    kill,
    look_at_keys,
    minutes,
    put_schedule,
    reap,
    release,
    run_row,
)
from tests.waiting import until


async def set_concurrency(connection: Connection, concurrency_key: str, slots: int | None) -> None:
    await connection.execute("SELECT pgcron.set_concurrency($1, $2)", concurrency_key, slots)


async def running(connection: Connection, **where: Any) -> int:
    [(column, value)] = where.items()
    count: int = await connection.fetchval(
        f"SELECT count(*) FROM pgcron.run WHERE state = 'running' AND {column} = $1", value
    )
    return count


async def test_of_a_key_one_run_executes_at_a_time_and_the_others_wait(
    connection: Connection,
) -> None:
    node = await join(connection)
    runs = await enqueue(connection, 3, concurrency_key="customer-7")

    [first] = await claim_limited(connection, node)
    assert await claim_limited(connection, node) == []
    await finish(connection, [first])
    [second] = await claim_limited(connection, node)

    assert [first["id"], second["id"]] == runs[:2]
    assert (first["concurrency_key"], first["attempt"]) == ("customer-7", 1)
    assert await connection.fetchval("SELECT key_slot FROM pgcron.run WHERE state='running'") == 1


async def test_a_run_with_a_key_is_claimed_by_no_other_statement(connection: Connection) -> None:
    node = await join(connection)
    schedule = await put_schedule(connection)
    await enqueue(connection, concurrency_key="a")
    await enqueue(connection, concurrency_key="b", delivery="at_most_once")
    keyed: dict[str, Any] = {"origin": "manual", "schedule_id": schedule, "overlap": "skip"}
    await enqueue(connection, concurrency_key="c", **keyed)

    assert await claim(connection, node) == []
    assert await claim_overlapping(connection, node) == ([], [])
    assert len(await claim_limited(connection, node)) == 3


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({}, 1),
        ({"*": 2}, 2),
        ({"*": 2, "customer-*": 3}, 3),
        ({"*": 2, "customer-*": 3, "cust*": 4}, 3),
        ({"*": 2, "customer-*": 3, "customer-7": 5}, 5),
        ({"customer-*": 3, "customer-7": None}, 9),
        ({"other-*": 4, "customer": 6, "customer-77": 6}, 1),
    ],
)
async def test_the_nearest_setting_says_how_many_slots_a_key_has(
    connection: Connection, settings: dict[str, int | None], slots: int
) -> None:
    node = await join(connection)
    await enqueue(connection, 9, concurrency_key="customer-7")
    for concurrency_key, count in settings.items():
        await set_concurrency(connection, concurrency_key, count)

    claimed = await claim_limited(connection, node, 20)

    assert len(claimed) == slots
    rows = await connection.fetch("SELECT key_slot FROM pgcron.run WHERE state = 'running'")
    numbers = sorted(row[0] for row in rows)
    if settings.get("customer-7", 1) is None:  # no limit, so no places
        assert len(set(numbers)) == slots
    else:
        assert numbers == list(range(1, slots + 1))


async def test_a_key_that_gets_fewer_slots_starts_nothing_until_enough_have_ended(
    connection: Connection,
) -> None:
    node = await join(connection)
    await set_concurrency(connection, "a", 3)
    await enqueue(connection, 6, concurrency_key="a")
    held = await claim_limited(connection, node)
    await set_concurrency(connection, "a", 2)

    await finish(connection, held[:1])
    assert await claim_limited(connection, node) == []
    await finish(connection, held[1:2])
    assert len(await claim_limited(connection, node)) == 1
    assert await running(connection, concurrency_key="a") == 2


@pytest.mark.parametrize("ended_by", ["finish", "retry", "release", "reap", "dead"])
async def test_a_slot_is_free_when_its_run_does_not_run_any_more(
    connection: Connection, ended_by: str
) -> None:
    node, living = await join(connection), await join(connection)
    await enqueue(connection, 2, concurrency_key="a")
    held = await claim_limited(connection, node)
    if ended_by == "finish":
        await finish(connection, held)
    elif ended_by == "retry":
        await fail(connection, held, retry_after=3600.0)
    elif ended_by == "release":
        await release(connection, held)
    elif ended_by == "dead":
        await fail(connection, held, retryable=False)
    else:
        await kill(connection, node)
        await reap(connection)

    assert len(await claim_limited(connection, living)) == 1
    assert await running(connection, concurrency_key="a") == 1


async def test_within_a_key_the_priority_decides_and_then_the_due_time(
    connection: Connection,
) -> None:
    node = await join(connection)
    now = await connection.fetchval("SELECT now()")
    late, early = [
        (await enqueue(connection, concurrency_key="a", due_at=now - minutes(age)))[0]
        for age in (1, 2)
    ]
    [future] = await enqueue(connection, concurrency_key="a", priority=0, due_at=now + minutes(60))
    [high] = await enqueue(connection, concurrency_key="a", priority=2)

    order = []
    while claimed := await claim_limited(connection, node):
        order += [run["id"] for run in claimed]
        await finish(connection, claimed)

    assert order == [high, early, late]
    assert await run_row(connection, future) is not None


async def test_keys_share_a_node_whatever_their_backlogs(connection: Connection) -> None:
    """Who has fewer runs running goes first: nobody's backlog keeps the others out."""
    node = await join(connection)
    await set_concurrency(connection, "*", None)
    await enqueue(connection, 50, concurrency_key="greedy")
    modest = await enqueue(connection, 2, concurrency_key="modest")

    claimed = await claim_limited(connection, node, 4)

    assert sorted(run["concurrency_key"] for run in claimed) == [
        "greedy",
        "greedy",
        "modest",
        "modest",
    ]
    assert {run["id"] for run in claimed if run["concurrency_key"] == "modest"} == set(modest)


async def test_runs_with_a_key_are_claimed_for_free_slots_only(connection: Connection) -> None:
    node = await join(connection)
    await set_concurrency(connection, "*", None)
    often = await enqueue(connection, 3, concurrency_key="a")
    [once] = await enqueue(connection, concurrency_key="b", delivery="at_most_once", priority=9)

    assert await claim_limited(connection, node, 0) == []
    claimed = await claim_limited(connection, node, 3)
    rest = await claim_limited(connection, node, 3)

    assert [row["id"] for row in claimed] == often
    assert [(row["verdict"], row["id"]) for row in rest] == [("claim", once)]


async def test_a_walk_over_many_keys_goes_on_where_the_last_one_ended(
    connection: Connection,
) -> None:
    node = await join(connection)
    for concurrency_key in ("a", "b", "c", "d"):
        await enqueue(connection, concurrency_key=concurrency_key)
    first = await look_at_keys(connection, node, look=2)
    second = await look_at_keys(connection, node, beyond="b", look=2)
    third = await look_at_keys(connection, node, beyond="d", look=2)

    for rows, ended_at, claimed in ((first, "b", {"a", "b"}), (second, "d", {"c", "d"})):
        assert [row["concurrency_key"] for row in rows if row["verdict"] == "walked"] == [ended_at]
        assert {row["concurrency_key"] for row in rows if row["verdict"] == "claim"} == claimed
    assert third == []


async def test_a_round_says_when_the_next_run_of_a_key_is_due(connection: Connection) -> None:
    node = await join(connection)
    soon, later = [await connection.fetchval(f"SELECT now() + interval '{n} h'") for n in (1, 2)]
    await enqueue(connection, concurrency_key="a", due_at=later)
    await enqueue(connection, concurrency_key="b", due_at=soon)

    [walked] = await look_at_keys(connection, node, 1, look=2)

    assert (walked["verdict"], walked["queue"], walked["concurrency_key"]) == (
        "walked",
        "default",
        None,
    )
    assert 3500 < walked["due"] <= 3600


@pytest.mark.parametrize(
    "obstacle",
    [
        "SELECT pgcron.pause_queue('default')",
        "UPDATE pgcron.cluster SET paused_at = now()",
        "UPDATE pgcron.cluster SET quarantine_until = now() + interval '1 minute'",
        "UPDATE pgcron.node SET lease_until = now() - interval '1 second'",
        "UPDATE pgcron.node SET state = 'draining'",
        "UPDATE pgcron.run SET expire_at = now()",
        "UPDATE pgcron.run SET state = 'blocked', gate = 'no_node'",
        "UPDATE pgcron.run SET due_at = now() + interval '1 second'",
        "UPDATE pgcron.run SET handler = 'py:other'",
    ],
)
async def test_nothing_with_limits_is_claimed_against_an_obstacle(
    connection: Connection, obstacle: str
) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_queue('default', max_running => 9)")
    await enqueue(connection, concurrency_key="a")
    await enqueue(connection)
    await connection.execute(obstacle)

    assert await claim_limited(connection, node) == []


async def test_a_schedule_with_a_key_keeps_its_overlap_policy(connection: Connection) -> None:
    node = await join(connection)
    await set_concurrency(connection, "a", 5)
    schedule = await put_schedule(connection)
    columns: dict[str, Any] = {
        "origin": "manual",
        "schedule_id": schedule,
        "overlap": "skip",
        "concurrency_key": "a",
    }
    first, second = await enqueue(connection, 2, **columns)

    assert (await admit(connection))["skipped"] == 1
    assert [row["id"] for row in await claim_limited(connection, node)] == [first]
    ended = await history_row(connection, second)
    assert ended is not None
    assert (ended["outcome"], ended["concurrency_key"]) == ("skipped", "a")
    [third] = await enqueue(connection, **columns)
    await admit(connection)
    assert await history_row(connection, third) is not None


async def test_the_key_of_a_schedule_is_that_of_its_runs(connection: Connection) -> None:
    await connection.execute(
        "SELECT pgcron.put_schedule('job', '* * * * *', 'py:work', concurrency_key => 'shared')"
    )
    run = await connection.fetchval("SELECT pgcron.run_now('job')")
    row = await run_row(connection, run)
    assert row is not None
    assert row["concurrency_key"] == "shared"
    await connection.execute("SELECT pgcron.put_schedule('job', '* * * * *', 'py:work')")
    assert await connection.fetchval("SELECT concurrency_key FROM pgcron.schedules") == "shared"
    await connection.execute(
        "SELECT pgcron.put_schedule('job', '* * * * *', 'py:work', concurrency_key => '')"
    )
    assert await connection.fetchval("SELECT concurrency_key FROM pgcron.schedules") is None


async def test_a_run_keeps_its_key_when_it_runs_again(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, concurrency_key="a", max_attempts=1)
    held = await claim_limited(connection, node)
    await fail(connection, held, retryable=False)

    for verb in ("retry_run", "redrive"):
        again = await connection.fetchval(f"SELECT pgcron.{verb}($1)", held[0]["id"])
        row = await run_row(connection, again)
        assert row is not None
        assert row["concurrency_key"] == "a"


@pytest.mark.parametrize("concurrency_key", ["", "  ", "a*", "x" * 201])
async def test_a_key_that_is_no_name_is_refused(
    connection: Connection, concurrency_key: str
) -> None:
    with pytest.raises(asyncpg.PostgresError, match="is not a concurrency key") as refused:
        await connection.execute(
            "SELECT pgcron.enqueue('py:work', concurrency_key => $1)", concurrency_key
        )
    assert refused.value.sqlstate == "PC001"
    if concurrency_key != "a*":
        with pytest.raises(asyncpg.PostgresError, match="is not a concurrency key"):
            await set_concurrency(connection, concurrency_key, 1)
    with pytest.raises(asyncpg.PostgresError, match="slots are out of range"):
        await set_concurrency(connection, "a", 0)


async def test_a_limited_queue_runs_so_many_at_once_of_every_kind(connection: Connection) -> None:
    node = await join(connection, queues=["small", "default"])
    await connection.execute("SELECT pgcron.set_queue('small', max_running => 5)")
    schedule = await put_schedule(connection)
    await enqueue(connection, 3, queue="small")
    await enqueue(connection, 3, queue="small", delivery="at_most_once")
    await enqueue(connection, 3, queue="small", concurrency_key="a")
    keyed: dict[str, Any] = {"origin": "manual", "schedule_id": schedule, "overlap": "skip"}
    await enqueue(connection, queue="small", **keyed)
    [plain] = await enqueue(connection)

    assert [run["id"] for run in await claim(connection, node)] == [plain]
    assert await claim_overlapping(connection, node) == ([], [])
    held = await claim_limited(connection, node)
    assert len(held) == 5
    assert await claim_limited(connection, node) == []
    ended = 0
    while held:
        ended += len(await finish(connection, held))
        held = await claim_limited(connection, node)
        assert len(held) <= 5
    assert ended == 10


async def test_what_ran_before_a_queue_was_limited_counts(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 5)
    held = await claim(connection, node, 3)
    await connection.execute("SELECT pgcron.set_queue('default', max_running => 4)")

    assert len(await claim_limited(connection, node)) == 1
    await finish(connection, held[:1])
    assert len(await claim_limited(connection, node)) == 1
    assert await running(connection, queue="default") == 4
    await connection.execute("SELECT pgcron.set_queue('default')")
    await enqueue(connection)
    assert len(await claim(connection, node)) == 1


async def test_a_paused_queue_keeps_its_limit(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_queue('default', max_running => 1)")
    await connection.execute("SELECT pgcron.pause_queue('default')")
    await enqueue(connection, 2)
    assert await call(connection, "next_due", queues=["default"], **NO_BOUNDS) == []

    await connection.execute("SELECT pgcron.resume_queue('default')")
    assert await claim(connection, node) == []
    assert len(await claim_limited(connection, node)) == 1
    [head] = await call(connection, "next_due", queues=["default"], **NO_BOUNDS)
    assert (head["is_limited"], head["is_due"]) == (True, True)


async def test_a_limit_that_is_none_is_refused(connection: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError, match="max_running 0 is out of range") as refused:
        await connection.execute("SELECT pgcron.set_queue('default', max_running => 0)")
    assert refused.value.sqlstate == "PC001"


@pytest.mark.parametrize("of", ["concurrency_key", "queue"])
async def test_no_more_runs_start_in_any_span_of_time_than_the_rate_allows(
    connection: Connection, another: Connect, of: str
) -> None:
    """Four claimers as fast as they can. Judged in spans that are one hundredth shorter."""
    rate, seconds = 20, 1.0
    setting = (
        "set_concurrency('a', NULL" if of == "concurrency_key" else "set_queue('default', NULL"
    )
    await connection.execute(f"SELECT pgcron.{setting}, {rate}, '{seconds} seconds')")
    await enqueue(connection, 70, concurrency_key="a" if of == "concurrency_key" else None)
    starts: list[float] = []

    async def work(own: Connection) -> None:
        node = await join(own)
        while await own.fetchval("SELECT EXISTS (SELECT FROM pgcron.run WHERE state = 'ready')"):
            held = await claim_limited(own, node, 7)
            at = await own.fetch(
                "SELECT extract(epoch FROM claimed_at)::float8 FROM pgcron.run WHERE id = ANY($1)",
                [run["id"] for run in held],
            )
            starts.extend(row[0] for row in at)
            await finish(own, held)

    await asyncio.gather(*[work(await another()) for _ in range(4)])

    starts.sort()
    most = max(
        sum(1 for other in starts if begin <= other < begin + seconds * 0.99) for begin in starts
    )
    print(f"{most} in a span; {len(starts)} in {starts[-1] - starts[0]:.2f} s")
    assert len(starts) == 70
    assert most == rate
    assert starts[-1] - starts[0] >= 3 * seconds * 0.99


async def test_a_high_rate_costs_no_more_than_a_low_one(connection: Connection) -> None:
    """Beside a run that holds a slot: the free ones are counted up to what is asked for."""
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 1000000, '1 second')")
    await enqueue(connection, 30, concurrency_key="a")
    await claim_limited(connection, node, 5)

    await connection.execute("SET statement_timeout = '600ms'")
    assert len(await claim_limited(connection, node, 20)) == 20


async def test_a_key_that_may_not_start_yet_says_when(connection: Connection) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 2, '1 hour')")
    await enqueue(connection, 3, concurrency_key="a")
    assert len(await claim_limited(connection, node)) == 2

    rows = await look_at_keys(connection, node, 5, look=2)

    assert [row["verdict"] for row in rows] == ["walked"]
    assert 3590 < rows[0]["due"] <= 3600 * 257 / 256 + 1
    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 3, '1 hour')")
    assert len(await claim_limited(connection, node)) == 1


async def test_a_clock_that_is_set_back_stops_no_key_for_longer_than_its_time(
    connection: Connection,
) -> None:
    node = await join(connection)
    await connection.execute("SELECT pgcron.set_concurrency('a', NULL, 2, '100 milliseconds')")
    await connection.execute(
        "INSERT INTO pgcron.rate_window VALUES ('key', 'a', '100 milliseconds',"
        " ARRAY[pgcron.rate_slice(now() + interval '1 day', '100 milliseconds')], ARRAY[1])"
    )
    await enqueue(connection, 3, concurrency_key="a")

    assert len(await claim_limited(connection, node)) == 1
    assert await connection.fetchval(
        "SELECT pgcron.rate_slice(clock_timestamp(), per) >= ALL(slices) FROM pgcron.rate_window"
    )
    later: list[Row] = []

    async def others_begin() -> bool:
        later.extend(await claim_limited(connection, node))
        return len(later) == 2  # at once or one by one: the two counts may end apart

    await until("the others begin", others_begin)


@pytest.mark.parametrize("rate", ["0, '1 s'", "5, NULL", "NULL, '1 s'", "5, '1 ms'"])
async def test_a_rate_that_is_none_is_refused(connection: Connection, rate: str) -> None:
    for setting in ("set_concurrency('a', 1", "set_queue('default', 1"):
        with pytest.raises(asyncpg.PostgresError, match=r"a rate of .* is out of range"):
            await connection.execute(f"SELECT pgcron.{setting}, {rate})")


async def test_a_slot_of_a_key_that_another_node_takes_at_the_same_moment_is_left_to_it(
    connection: Connection, another: Connect
) -> None:
    node = await join(connection)
    first, second = await enqueue(connection, 2, concurrency_key="a")
    other, late = await another(), await another()
    async with other.transaction():
        await other.execute(
            "UPDATE pgcron.run SET state = 'running', owner = $1, token = gen_random_uuid(),"
            " fence = 1, attempt = 1, claimed_at = now(), key_slot = 1 WHERE id = $2",
            node.incarnation,
            second,
        )
        # It waits a moment only: the other may wait for this one.
        assert [row["verdict"] for row in await claim_limited(late, node)] == ["again"]

    assert await connection.fetchval("SELECT state FROM pgcron.run WHERE id = $1", first) == "ready"


async def test_a_slot_of_a_key_has_one_holder_whatever_anybody_does(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 2, concurrency_key="a")
    [held] = await claim_limited(connection, node)

    for slot, error in ((1, "run_key_slot"), (None, "a_running_run_of_a_key_holds_a_slot_of_it")):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match=error):
            await connection.execute(
                "UPDATE pgcron.run SET state = 'running', owner = $1, token = gen_random_uuid(),"
                " fence = 1, attempt = 1, claimed_at = now(), key_slot = $3 WHERE id <> $2",
                node.incarnation,
                held["id"],
                slot,
            )


async def test_eight_claimers_never_hold_more_than_a_key_or_a_queue_may_run(
    another: Connect, connection: Connection
) -> None:
    """Each counts what runs right after its own claim, in a snapshot of its own."""
    await set_concurrency(connection, "*", 3)
    await connection.execute("SELECT pgcron.set_queue('small', max_running => 4)")
    for concurrency_key in ("a", "b"):
        await enqueue(connection, 120, concurrency_key=concurrency_key)
        await enqueue(connection, 60, concurrency_key=concurrency_key, queue="small")
    await enqueue(connection, 60, queue="small")
    limits = {"a": 3, "b": 3, "small": 4}
    ended: list[int] = []

    async def running(own: Connection) -> dict[str, int]:
        rows = await own.fetch(
            "SELECT concurrency_key, count(*) FROM pgcron.run WHERE key_slot > 0 GROUP BY 1"
            " UNION ALL SELECT queue, count(*) FROM pgcron.run"
            " WHERE state = 'running' AND queue = 'small' GROUP BY 1"
        )
        return {row[0]: row[1] for row in rows}

    alone = await join(connection, queues=["default", "small"])
    held = [run for _ in range(20) for run in await claim_limited(connection, alone, 2)]
    assert await running(connection) == limits
    await release(connection, held)

    async def work(own: Connection) -> None:
        node = await join(own, queues=["default", "small"])
        while await own.fetchval("SELECT EXISTS (SELECT FROM pgcron.run WHERE state = 'ready')"):
            held = await claim_limited(own, node, 2, ahead=3)
            assert all(count <= limits[what] for what, count in (await running(own)).items())
            await release(own, held[: len(held) // 3])
            ended.extend(await finish(own, held[len(held) // 3 :]))

    await asyncio.gather(*[work(await another()) for _ in range(8)])
    assert len(set(ended)) == len(ended) == 420


async def test_who_limited_a_queue_is_kept(connection: Connection) -> None:
    await connection.execute("SELECT pgcron.set_queue('slow', 3, actor => 'ann')")
    await connection.execute("SELECT pgcron.set_queue('other', 3)")

    rows = await connection.fetch(
        "SELECT name, set_by = 'ann', set_by = session_user, set_at FROM pgcron.queue ORDER BY name"
    )
    assert [(*row[:3], row[3] is not None) for row in rows] == [
        ("other", False, True, True),
        ("slow", True, False, True),
    ]
