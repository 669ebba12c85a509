"""Circuit breakers: what counts, what opens, who probes, and where what waits goes."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    HANDLER,
    Connect,
    Connection,
    Node,
    Row,
    call,
    claim,
    claim_limited,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    kill,
    reap,
    release,
    rows_read,
    run_row,
)
from tests.e2e.ledger import tables

OTHER = "py:other"


async def guard(connection: Connection, failures: int = 2, **settings: Any) -> None:
    """A breaker for the handler of these tests."""
    names = "".join(f", {name} => ${number}" for number, name in enumerate(settings, 3))
    await connection.execute(
        f"SELECT pgcron.set_breaker($1, $2{names})", HANDLER, failures, *settings.values()
    )


async def breaker(connection: Connection) -> Row:
    row = await connection.fetchrow("SELECT * FROM pgcron.breaker WHERE name = $1", HANDLER)
    assert row is not None
    return row


async def fail_some(connection: Connection, node: Node, count: int = 2, **how: Any) -> list[Row]:
    """So many runs that are claimed and fail in one batch."""
    await enqueue(connection, count)
    runs = await claim(connection, node, count)
    await fail(connection, runs, **how)
    return runs


async def time_is_over(connection: Connection) -> None:
    """The breaker has been open long enough."""
    await connection.execute("UPDATE pgcron.breaker SET open_until = now() WHERE state = 'open'")


async def park(connection: Connection, queue: str = "default") -> int:
    return len(await call(connection, "block_broken", queues=[queue], look=500))


async def probe(connection: Connection, node: Node) -> list[Row]:
    """As a node does: it looks, and claims what may begin although the breaker is not closed."""
    probes = [row["probe_run"] for row in await look(connection) if row["probe_run"] is not None]
    rows = await call(
        connection,
        "claim_gated",
        incarnation=node.incarnation,
        handlers=[],
        gated=1,
        ahead=0,
        queues=list(node.queues),
        beyond=[""],
        look=10,
        since=None,
        aged=False,
        probes=probes,
    )
    return [row for row in rows if row["verdict"] == "claim"]


async def look(connection: Connection) -> list[Row]:
    return await call(connection, "look_at_breakers")


async def open_with(connection: Connection, node: Node, waiting: int = 3, **columns: Any) -> None:
    """An open breaker whose time is over, and so many held runs."""
    await fail_some(connection, node)
    await connection.execute("DELETE FROM pgcron.run")  # their retries
    await enqueue(connection, waiting, **columns)
    # what waits for its schedule waits on
    parked = await park(connection, columns.get("queue", "default"))
    assert parked == (0 if "overlap" in columns else waiting)
    await time_is_over(connection)


async def test_so_many_failures_within_the_time_open_it_and_say_why(connection: Connection) -> None:
    node = await join(connection)
    await guard(connection, failures=3)
    await fail_some(connection, node, 2)
    before = await breaker(connection)
    await fail_some(connection, node, 1)
    found = await breaker(connection)

    assert (before["state"], len(before["failed_at"])) == ("closed", 2)
    assert (found["state"], found["reason"]) == ("open", "3 failures in 60 s")
    assert found["last_error"] == "it went wrong"
    assert found["open_until"] - found["opened_at"] == pytest.approx(
        timedelta(seconds=30), abs=timedelta(seconds=1)
    )


async def test_failures_of_long_ago_do_not_count(connection: Connection) -> None:
    node = await join(connection)
    await guard(connection)
    await fail_some(connection, node, 1)
    await connection.execute(
        "UPDATE pgcron.breaker SET failed_at = ARRAY[now() - interval '61 seconds']"
    )
    await fail_some(connection, node, 1)

    found = await breaker(connection)
    assert (found["state"], len(found["failed_at"])) == ("closed", 1)


@pytest.mark.parametrize(
    "how",
    [
        {"kind": "snoozed"},
        {"kind": "cancelled"},
        {"kind": "lease_lost"},
        {"retryable": False},
        {"causes": "http:404 http:4xx"},
    ],
    ids=str,
)
async def test_what_is_not_the_handlers_failure_does_not_count(
    connection: Connection, how: dict[str, Any]
) -> None:
    node = await join(connection)
    await guard(connection)
    await fail_some(connection, node, 4, **how)

    found = await breaker(connection)
    assert (found["state"], found["failed_at"]) == ("closed", [])


@pytest.mark.parametrize("how", [{"kind": "timed_out"}, {"causes": "http:503 http:5xx"}], ids=str)
async def test_timeouts_and_a_service_that_is_not_well_count(
    connection: Connection, how: dict[str, Any]
) -> None:
    node = await join(connection)
    await guard(connection)
    await fail_some(connection, node, 2, **how)

    assert (await breaker(connection))["state"] == "open"


async def test_handlers_that_share_a_breaker_open_it_together(connection: Connection) -> None:
    node = await join(connection, handlers=[HANDLER, OTHER])
    await guard(connection, handlers=[OTHER])
    await enqueue(connection)
    await enqueue(connection, handler=OTHER)
    await fail(connection, await claim(connection, node))

    (row,) = await look(connection)
    assert (row["name"], row["state"], row["handlers"]) == (HANDLER, "open", [OTHER, HANDLER])


async def test_runs_that_wait_for_it_burn_no_attempt_and_go_when_it_is_reset(
    connection: Connection,
) -> None:
    node = await join(connection)
    await guard(connection)
    await open_with(connection, node, 100)
    claimed_while_open = await claim(connection, node, 100)
    was_open = await connection.fetchval("SELECT pgcron.reset_breaker($1, 'eve')", HANDLER)
    freed = await call(connection, "unblock", at_most=1000)

    assert (claimed_while_open, was_open, len(freed)) == ([], True, 100)
    assert {row["attempt"] for row in await claim(connection, node, 100)} == {1}
    assert (await breaker(connection))["reset_by"] == "eve"


async def test_held_runs_stay_as_long_as_it_is_not_closed(connection: Connection) -> None:
    node = await join(connection)
    await guard(connection)
    await open_with(connection, node, 3)

    assert await call(connection, "unblock", at_most=10) == []
    assert await call(connection, "unblock", at_most=10) == []


async def test_of_many_claimers_exactly_one_has_the_probe(
    connection: Connection, another: Connect
) -> None:
    nodes = [await join(connection) for _ in range(8)]
    own = [await another() for _ in nodes]
    await guard(connection)
    await open_with(connection, nodes[0], 20)

    for _ in range(5):
        claims = await asyncio.gather(*map(probe, own, nodes))
        (found,) = [row for rows in claims for row in rows]
        assert await asyncio.gather(*map(probe, own, nodes)) == [[] for _ in nodes]
        assert (await breaker(connection))["probe_run"] == found["id"]
        await fail(connection, [found])
        assert await probe(own[0], nodes[0]) == []
        await time_is_over(connection)

    assert await connection.fetchval("SELECT sum(attempt) FROM pgcron.run") == 5


async def test_each_probe_that_fails_opens_it_for_twice_as_long_up_to_a_cap(
    connection: Connection,
) -> None:
    node = await join(connection)
    await guard(connection, open_for_at_most=timedelta(seconds=100))
    await open_with(connection, node, 5)
    spans = []
    for _ in range(3):
        await fail(connection, await probe(connection, node))
        found = await breaker(connection)
        spans.append(
            await connection.fetchval(
                "SELECT round(extract(epoch FROM open_until - clock_timestamp()))::int"
                " FROM pgcron.breaker"
            )
        )
        assert found["reason"].startswith("its probe, run ")
        await time_is_over(connection)

    assert spans == [60, 100, 100]


async def test_a_probe_that_succeeds_closes_it(connection: Connection) -> None:
    node = await join(connection)
    await guard(connection)
    await open_with(connection, node)
    await finish(connection, await probe(connection, node))

    assert await look(connection) == []
    found = await breaker(connection)
    assert (found["state"], found["openings"], found["failed_at"]) == ("closed", 0, [])
    assert len(await call(connection, "unblock", at_most=10)) == 2


async def test_a_probe_is_not_looked_for_among_runs_that_no_node_offers(
    connection: Connection,
) -> None:
    node = await join(connection)
    await guard(connection)
    await open_with(connection, node, 500)
    await connection.execute("DELETE FROM pgcron.offer WHERE handler = $1", HANDLER)
    await connection.execute("ANALYZE pgcron.run")
    async with connection.transaction():
        before = await rows_read(connection)
        await connection.execute("SELECT pgcron.choose_probes()")
        assert await rows_read(connection) - before < 10


@pytest.mark.parametrize("how", ["dies", "released", "discarded"])
async def test_a_probe_that_says_nothing_leaves_the_next_one_to_anybody(
    connection: Connection, how: str
) -> None:
    node, heir = await join(connection), await join(connection)
    await guard(connection)
    await open_with(connection, node)
    (first,) = await probe(connection, node)
    assert first["origin"] == "enqueued"
    if how == "dies":
        await kill(connection, node)
        assert await look(connection)
        assert await probe(connection, heir) == []  # its run is not taken away yet
        await reap(connection)
    elif how == "released":
        await release(connection, [first])
    else:
        await fail(connection, [first], retryable=False)
    (second,) = await probe(connection, heir)

    assert second["fence"] > first["fence"]
    await finish(connection, [second])
    assert await look(connection) == []


async def test_failures_of_what_began_before_do_not_disturb_the_probe(
    connection: Connection,
) -> None:
    node = await join(connection)
    await guard(connection)
    await enqueue(connection, 3)
    early = await claim(connection, node, 3)
    await open_with(connection, node)
    (found,) = await probe(connection, node)
    await fail(connection, early)

    assert (await breaker(connection))["probe_run"] == found["id"]


@pytest.mark.parametrize("limit", ["concurrency_key", "queue", "overlap"])
async def test_a_probe_keeps_keys_limits_and_overlap(connection: Connection, limit: str) -> None:
    node = await join(connection)
    await guard(connection)
    columns: dict[str, Any] = {}
    if limit == "concurrency_key":
        columns = {"concurrency_key": "customer-7"}
    elif limit == "overlap":
        schedule = await connection.fetchval(
            "SELECT pgcron.put_schedule('job', '0 0 1 1 *', $1)", HANDLER
        )
        columns = {"origin": "manual", "schedule_id": schedule, "overlap": "skip"}
    await open_with(connection, node, 2, **columns)
    if limit == "queue":
        await connection.execute("SELECT pgcron.set_queue('default', 1)")
    (found,) = await probe(connection, node)

    row = await run_row(connection, found["id"])
    assert row is not None
    assert row["state"] == "running"
    assert (row["key_slot"] is not None) == (limit == "concurrency_key")
    assert (row["overlap_slot"] is not None) == (limit == "overlap")


@pytest.mark.parametrize("way", ["concurrency_key", "requires"])
async def test_what_waits_with_one_key_or_label_hides_none_of_a_broken_handler(
    connection: Connection, way: str
) -> None:
    node = await join(connection, labels=dict.fromkeys("abz", "1"))
    await guard(connection)
    await open_with(connection, node, 0)
    for handler, count, key in ((OTHER, 600, "a"), (HANDLER, 1, "b"), (HANDLER, 1, "z")):
        value = key if way == "concurrency_key" else [key]
        await enqueue(connection, count, handler=handler, **{way: value})

    assert await park(connection) == 2
    assert len(await probe(connection, node)) == 1


async def test_a_run_whose_key_is_full_is_no_probe(connection: Connection) -> None:
    node = await join(connection, handlers=[OTHER])
    await guard(connection)
    await open_with(connection, await join(connection), 20, concurrency_key="full")
    await enqueue(connection, handler=OTHER, concurrency_key="full")
    assert len(await claim_limited(connection, node)) == 1
    assert {row["probe_run"] for row in await look(connection)} == {None}
    [run] = await enqueue(connection, concurrency_key="free")
    await park(connection)

    assert [row["probe_run"] for row in await look(connection)] == [run]


@pytest.mark.parametrize(
    "happens",
    [
        "UPDATE pgcron.breaker SET open_until = now() WHERE probe_run = $1",
        "UPDATE pgcron.run SET due_at = now() + interval '1 hour' WHERE id = $1",
    ],
    ids=["late", "moved"],
)
async def test_a_probe_that_does_not_begin_leaves_its_turn_to_another(
    connection: Connection, happens: str
) -> None:
    node = await join(connection, queues=["full", "default"])
    await guard(connection)
    await open_with(connection, node, 1, queue="full")
    [first] = await look(connection)
    [run] = await enqueue(connection)
    await park(connection)
    [second] = await look(connection)
    await connection.execute(happens, first["probe_run"])
    [third] = await look(connection)

    assert first["probe_run"] == second["probe_run"] != third["probe_run"] == run
    assert 25 < third["seconds"] <= 30


async def test_a_fallback_handler_executes_what_waits_and_the_run_says_so(
    connection: Connection,
) -> None:
    node = await join(connection, handlers=[HANDLER, OTHER])
    await guard(connection, fallback_handler=OTHER)
    await fail_some(connection, node)
    await connection.execute("DELETE FROM pgcron.run")
    (run,) = await enqueue(connection)
    await park(connection)
    taken = await call(connection, "use_fallbacks", at_most=10)
    (found,) = await claim(connection, node)
    await finish(connection, [found])

    assert [row[0] for row in taken] == [run] == [found["id"]]
    assert found["handler"] == OTHER
    (said,) = await call(connection, "fallback_of_run", run_id=run)
    assert (said["breaker"], said["asked_handler"], said["asked_queue"]) == (
        HANDLER,
        HANDLER,
        "default",
    )
    assert said["reason"] == "2 failures in 60 s"
    ended = await history_row(connection, run)
    assert ended is not None
    assert ended["handler"] == OTHER


async def test_an_erasure_takes_the_error_of_a_run_that_a_fallback_took(
    connection: Connection,
) -> None:
    node = await join(connection, handlers=[HANDLER, OTHER])
    await guard(connection, 1, fallback_handler=OTHER)
    (run,) = await fail_some(connection, node, 1)
    assert (await breaker(connection))["last_error"] == "it went wrong"
    await connection.execute("UPDATE pgcron.run SET due_at = now()")
    await park(connection)
    assert len(await call(connection, "use_fallbacks", at_most=10)) == 1
    await finish(connection, await claim(connection, node))

    await connection.execute("SELECT pgcron.erase(run_ids => ARRAY[$1::bigint])", run["id"])

    left = await tables(connection)
    assert [name for name, text in left.items() if "it went wrong" in text] == []


async def test_a_fallback_queue_takes_what_waits_and_is_no_dead_end(connection: Connection) -> None:
    node = await join(connection)
    spare = await join(connection, queues=["spare"])
    await guard(connection, fallback_queue="spare")
    await fail_some(connection, node)
    await connection.execute("DELETE FROM pgcron.run")
    (run,) = await enqueue(connection)
    await park(connection)
    await call(connection, "use_fallbacks", at_most=10)

    assert await call(connection, "block_broken", queues=["spare"], look=10) == []
    assert [row["id"] for row in await claim(connection, spare)] == [run]


async def test_what_comes_when_the_time_is_over_is_the_probe_and_not_for_the_fallback(
    connection: Connection,
) -> None:
    node = await join(connection, handlers=[HANDLER, OTHER])
    await guard(connection, fallback_handler=OTHER)
    await open_with(connection, node)

    assert await call(connection, "use_fallbacks", at_most=10) == []
    (found,) = await probe(connection, node)
    assert found["handler"] == HANDLER


async def test_what_nodes_declare_leaves_a_persons_settings_alone(connection: Connection) -> None:
    times = {"within": 10, "open_for": 5, "open_for_at_most": 60}
    said = json.dumps([{"name": HANDLER, "failures": 7, **times, "handlers": [HANDLER]}])
    await call(connection, "declare_breakers", declared=said)
    declared = await breaker(connection)
    await guard(connection, failures=3)
    await call(connection, "declare_breakers", declared=said)
    kept = await breaker(connection)

    assert (declared["failures"], declared["set_by"]) == (7, None)
    assert (kept["failures"], kept["set_by"]) == (3, "postgres")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"failures": 0}, "out of range: failures 0, within"),
        ({"open_for": timedelta(days=2)}, "out of range: .* open_for 2 days"),
        ({"fallback_handler": OTHER, "fallback_queue": "spare"}, "two fallbacks"),
        ({"fallback_queue": "no queue"}, "is not a queue name"),
        ({"fallback_handler": HANDLER}, "is its own handler"),
    ],
)
async def test_bad_settings_are_refused(
    connection: Connection, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(asyncpg.PostgresError, match=words) as refused:
        await guard(connection, **settings)
    assert (refused.value.sqlstate, bool(refused.value.hint)) == ("PC001", True)


async def test_a_breaker_that_is_not_there_is_said(connection: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError, match="does not exist") as refused:
        await connection.execute("SELECT pgcron.reset_breaker('py:nobody')")
    assert refused.value.sqlstate == "PC010"
