"""What the hot statements read, on tables full of rows that are none of their business."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from tests.db.control import (
    HANDLER,
    NO_BOUND,
    Connection,
    call,
    claim_limited,
    database_now,
    enqueue,
    join,
    minutes,
)
from tests.product.db import connect, load
from tests.servers import ThrowAwayServer
from tests.sessions import USUAL

LIVING, DEAD = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
LIMIT = 20
# Ten paths, two kinds of runs, and what a batch itself needs; thousands of rows lie beside them.
MOST_ROWS = 600
MOST_ROWS_OF_A_SCHEDULE = 100
"""That is decided: its runs, those who could start them, and what a row that is written is judged
by.
"""
OF_QUEUES = ("next_due", "block_unserved")
MAY_FIND_NOTHING = ("unblock", "expired_runs", "ended_by_fence")

FILL = f"""
    INSERT INTO pgcron.node (incarnation, name, host, process_id, version, lease_until, lease_ttl,
                             slots, queues)
    SELECT id, 'n', 'here', 1, '0', 'infinity', '15 s', 16, '{{default}}'
      FROM unnest('{{{LIVING},{DEAD}}}'::uuid[]) id;
    INSERT INTO pgcron.offer VALUES ('{LIVING}', '{HANDLER}');
    INSERT INTO pgcron.schedule (name, spec, handler)
    SELECT 'job ' || n, '* * * * *', '{HANDLER}' FROM generate_series(1, 3000) n;
    UPDATE pgcron.cursor SET next_fire = now() + schedule_id * interval '1 minute',
           status = 'valid', is_paused = schedule_id > 2000;
    UPDATE pgcron.cursor SET next_fire = NULL WHERE is_paused;
    -- To come: plain, at most once, and in keys.
    INSERT INTO pgcron.run (handler, priority, due_at, expire_at, delivery)
    SELECT '{HANDLER}', n % 10, now() + interval '1 hour' + n * interval '1 s',
           now() + interval '1 day',
           CASE WHEN n % 3 = 0 THEN 'at_most_once' ELSE 'at_least_once' END
      FROM generate_series(1, 20000) n;
    INSERT INTO pgcron.run (handler, priority, due_at, origin, schedule_id, overlap)
    SELECT '{HANDLER}', n % 10, now() + interval '1 hour', 'manual', 1 + n % 3000, 'skip'
      FROM generate_series(1, 10000) n;
    -- With keys: a concurrency_key with a long backlog, keys that are full, keys of which nothing
    -- is due.
    INSERT INTO pgcron.run (handler, concurrency_key)
    SELECT '{HANDLER}', 'backlog' FROM generate_series(1, 5000);
    INSERT INTO pgcron.run (handler, concurrency_key, due_at)
    SELECT '{HANDLER}', 'concurrency_key ' || n % 50, now() + n % 2 * interval '1 hour'
      FROM generate_series(1, 5000) n;
    -- Due.
    INSERT INTO pgcron.run (handler, priority, delivery)
    SELECT '{HANDLER}', n % 10, CASE WHEN n % 10 < 2 THEN 'at_most_once' ELSE 'at_least_once' END
      FROM generate_series(1, 1000) n;
    INSERT INTO pgcron.run (handler, priority, origin, schedule_id, overlap)
    SELECT '{HANDLER}', n % 10, 'manual', 1 + n % 3000, 'skip' FROM generate_series(1, 1000) n;
    -- Due, with labels that nobody has: those that wait for them, and those that were put aside.
    INSERT INTO pgcron.run (handler, requires, state, gate)
    SELECT '{HANDLER}', '{{gpu=a100}}', CASE WHEN n > 20000 THEN 'blocked' ELSE 'ready' END,
           CASE WHEN n > 20000 THEN 'no_node' END
      FROM generate_series(1, 24000) n;
    -- Running, most of them under the living node.
    INSERT INTO pgcron.run (handler, state, owner, token, fence, claimed_at, attempt)
    SELECT '{HANDLER}', 'running', CASE WHEN n > 20 THEN '{LIVING}' ELSE '{DEAD}' END::uuid,
           gen_random_uuid(), n, now(), 1 FROM generate_series(1, 3000) n;
    UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'x'
     WHERE incarnation = '{DEAD}';
    -- Ended.
    INSERT INTO pgcron.history (id, uuid, origin, queue, priority, handler, args, delivery, outcome,
                                attempt, due_at, created_at, created_by)
    SELECT 1000000 + n, gen_random_uuid(), 'enqueued', 'default', 5, '{HANDLER}', '{{}}',
           'at_least_once', 'succeeded', 1, now(), now(), 'x' FROM generate_series(1, 20000) n;
"""

# What no statistics know of yet: a burst has just taken many keys.
BURST = f"""
    INSERT INTO pgcron.run (handler, state, owner, token, fence, claimed_at, attempt, origin,
                            schedule_id, overlap, overlap_slot)
    SELECT '{HANDLER}', 'running', '{LIVING}', gen_random_uuid(), n, now(), 1, 'manual',
           1500 + n, 'skip', 1 FROM generate_series(1, 1500) n;
"""


@pytest.fixture(scope="module")
def full_database(server: ThrowAwayServer, template: str) -> Iterator[str]:
    """A database with 20,000 runs to come and as many that have ended."""
    dsn = server.create_database("full", template)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(USUAL)
        connection.execute(FILL.encode())
        connection.execute("VACUUM ANALYZE")
        connection.execute(BURST.encode())
    yield dsn
    server.drop_database("full")


@pytest.fixture
async def full(full_database: str) -> AsyncIterator[Connection]:
    """A node's connection to it, in a transaction that is rolled back."""
    connection = await connect(full_database)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close(timeout=5)


async def parameters_of(connection: Connection, name: str) -> list[Any]:
    """Values as a node sends them."""
    mine = await connection.fetch(
        "SELECT id, token, fence FROM pgcron.run WHERE owner = $1 AND state = 'running' "
        f"LIMIT {LIMIT}",
        LIVING,
    )
    paths = 10
    given: dict[str, Any] = {
        "incarnation": LIVING,
        "queues": ["default"] if name in OF_QUEUES else ["default"] * paths,
        "priorities": list(range(paths)),
        "bound_queues": ["default"] * paths,
        "bound_priorities": list(range(paths)),
        "bound_onces": [False] * paths,
        "onces": [False] * paths,
        "bound_dues": [NO_BOUND] * paths,
        "bound_ids": [0] * paths,
        "handlers": [HANDLER],
        "limit": LIMIT,
        "look": LIMIT,
        "beyond": [""],
        "since": datetime.now(UTC),
        "aged": False,
        "weights": [2 for _ in mine],
        "at_most": LIMIT,
        "refill": 60.0,
        "aside": [],
        "but": [],
        "run_ids": [row["id"] for row in mine],
        "tokens": [row["token"] for row in mine],
        "fences": [row["fence"] for row in mine],
        "elapsed_seconds": [0.1 for _ in mine],
        "results": ["{}" for _ in mine],
        "without_args": None,
        "ends": json.dumps([failed(row) for row in mine]),
        "node": "n",
        "plain": LIMIT,
        "gated": LIMIT,
        "ahead": LIMIT,
        "probes": [],
        "after": "-infinity",
        "after_id": 0,
        "schedules": list(range(1, LIMIT + 1)),
        "slots_used": 3,
        "is_draining": False,
    }
    return [given[parameter] for parameter in load()[name].parameters]


def failed(run: Any) -> dict[str, Any]:
    """How an attempt ended, as a node says it."""
    said = dict.fromkeys(("error_class", "error", "traceback", "causes", "fingerprint"), "E")
    claim = {"run_id": run["id"], "token": str(run["token"]), "elapsed": 0.1}
    return {**claim, "kind": "failed", "retryable": True, "node_name": "n", **said}


async def read_so_far(connection: Connection) -> tuple[int, int]:
    """(sequential scans, rows fetched) of the big tables in this transaction."""
    row = await connection.fetchrow("""
        SELECT coalesce(sum(seq_scan), 0)::int AS scans,
               coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::int AS rows
          FROM pg_stat_xact_user_tables
         WHERE schemaname = 'pgcron' AND relname ~ '^(run|cursor|history|attempt|occurrence)'
    """)
    assert row is not None
    return row["scans"], row["rows"]


def nodes_of(plan: Any) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    if isinstance(plan, dict):
        if "Node Type" in plan:
            yield plan
        for value in plan.values():
            yield from nodes_of(value)
    elif isinstance(plan, list):
        for value in plan:
            yield from nodes_of(value)


def explaining(connection: psycopg.Connection, name: str) -> str:
    """The command that shows a statement's generic plan."""
    statement = load()[name]
    if connection.info.server_version >= 160000:
        return f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {statement.sql}"
    connection.execute(f"PREPARE hot AS {statement.sql}".encode())
    nothing = ", ".join("NULL" for _ in statement.parameters)
    return f"EXPLAIN (FORMAT JSON) EXECUTE hot{f'({nothing})' if nothing else ''}"


HOT = pytest.mark.parametrize(
    "name",
    [
        "claim",
        "next_due",
        "look_at_gates",
        "admit_overlap",
        "block_unserved",
        "unblock",
        "finish_runs",
        "mark_started",
        "release_runs",
        "ended_by_fence",
        "due_cursors",
        "expired_runs",
        "fail_runs",
        "reap_runs",
        "orphaned_runs",
    ],
)


@HOT
async def test_a_hot_statement_reads_what_it_needs_and_no_more(full: Connection, name: str) -> None:
    values = await parameters_of(full, name)
    statement = await full.prepare(load()[name].sql)
    scans_before, rows_before = await read_so_far(full)

    answer = await statement.fetch(*values)

    scans, rows = await read_so_far(full)
    assert scans - scans_before == 0
    most = MOST_ROWS_OF_A_SCHEDULE * LIMIT if name == "admit_overlap" else MOST_ROWS
    assert rows - rows_before <= most
    assert len(answer) <= 10 * LIMIT
    assert answer or name in MAY_FIND_NOTHING


@HOT
async def test_the_generic_plan_of_a_hot_statement_scans_no_big_table(
    full_database: str, name: str
) -> None:
    """Whatever the parameters are: the plan is made once and kept."""
    with psycopg.connect(full_database) as connection:
        connection.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
        row = connection.execute(explaining(connection, name).encode()).fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])

    big = ("run", "cursor", "history", "attempt", "schedule")
    scanned = [
        node["Relation Name"]
        for node in nodes_of(plan)
        if node.get("Relation Name", "").startswith(big) and is_whole(node)
    ]
    assert scanned == []


def is_whole(node: dict[str, Any]) -> bool:
    """Whether a scan reads all of its table: one of schedules does when it doesn't begin at an id,
    as a merge join does; other indexes may hold only what is asked for.
    """
    if node["Relation Name"] == "schedule":
        return "Index Cond" not in node
    return bool(node["Node Type"] == "Seq Scan")


async def test_the_demand_is_told_from_as_many_rows_as_asked(full: Connection) -> None:
    """Beside 127,000 that are due: those counted, and of each key and requirement a step."""
    scans_before, rows_before = await read_so_far(full)

    demand = await full.fetchval("SELECT pgcron.scale_demand('default', 200)")

    scans, rows = await read_so_far(full)
    assert scans - scans_before == 0
    assert rows - rows_before <= MOST_ROWS
    assert demand >= 400


async def test_a_claim_reads_no_runs_that_only_others_may_take(full: Connection) -> None:
    """Beside 20,000 that are due and require labels which the node does not have."""
    values = await parameters_of(full, "claim_gated")
    scans_before, rows_before = await read_so_far(full)

    answer = await full.fetch(load()["claim_gated"].sql, *values)

    scans, rows = await read_so_far(full)
    assert scans - scans_before == 0
    assert rows - rows_before <= MOST_ROWS
    assert [row["verdict"] for row in answer].count("claim") == LIMIT


async def test_a_key_without_a_rate_pays_nothing_for_rates(connection: Connection) -> None:
    node = await join(connection)
    await enqueue(connection, 3, concurrency_key="eu")
    await connection.execute(
        "CREATE OR REPLACE FUNCTION pgcron.rate_room(kind text, name text, rate int, per interval,"
        " at timestamptz, OUT room int, OUT next_at timestamptz, OUT is_ahead boolean)"
        " LANGUAGE plpgsql STABLE AS $$ BEGIN RAISE EXCEPTION 'asked of %', name; END $$"
    )

    assert len(await claim_limited(connection, node, 3)) == 1


async def test_a_walk_over_keys_reads_no_more_keys_than_it_is_asked_for(
    connection: Connection,
) -> None:
    for number in range(100):
        await enqueue(connection, concurrency_key=f"key-{number:03}")

    async with connection.transaction():
        _, before = await read_so_far(connection)
        walked = await connection.fetchrow("SELECT * FROM pgcron.walk_keys('default', '', 15)")
        _, after = await read_so_far(connection)

    assert walked is not None
    assert walked["ended_at"] == "key-014"
    assert 15 <= after - before <= 20
    assert await connection.fetchval("SELECT pairs FROM pgcron.walk_keys('default', '', 0)") == []


async def test_a_key_whose_runs_are_to_come_hides_none_that_is_due(connection: Connection) -> None:
    to_come = await database_now(connection) + minutes(5)
    await enqueue(connection, 600, concurrency_key="a", due_at=to_come)
    await enqueue(connection, concurrency_key="b")

    [counts] = await call(connection, "page_queue_depths", most=500, budget=500, limit=9)

    assert (counts["due"], counts["later"], counts["is_cut"]) == (1, 500, True)


@pytest.mark.parametrize("asked", ["largest_server", "is_served"])
async def test_who_serves_a_run_is_read_from_the_offers_of_its_handler(
    connection: Connection, asked: str
) -> None:
    node = await join(connection)
    await enqueue(connection)
    async with connection.transaction():
        await connection.execute(
            "INSERT INTO pgcron.offer SELECT $1, 'py:other_' || n FROM generate_series(1, 3000) n",
            node.incarnation,
        )
        assert await connection.fetchval(
            f"SELECT pgcron.{asked}(r.handler, r.queue, r.requires) FROM pgcron.run r"
        )
        read = await connection.fetchval(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
            " WHERE relid = 'pgcron.offer'::regclass"
        )
    assert read <= 2
