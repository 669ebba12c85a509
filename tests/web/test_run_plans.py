"""What the pages of runs read on tables full of rows: an index's end, never a table."""

from __future__ import annotations

import json
from typing import Any

from tests.product.db import ReadPool, load
from tests.product.db import pages_runs as ask
from tests.sessions import own_session
from tests.web.test_page_plans import FILL, rows_read

VALUES: dict[str, Any] = {
    **vars(ask.RunFilter()),
    "after_attempt": 1,
    "after_sequence": 1,
    "attempt": 1,
    "before": ask.HIGHEST_ID,
    "end_at": ask.FAR_AHEAD,
    "high": ask.FAR_AHEAD,
    "indexed": False,
    "key": "order/17",
    "limit": 51,
    "look": 500,
    "low": ask.LONG_AGO,
    "most": 500,
    "name": "etl/orders",
    "of_letters": False,
    "run_id": 1_010_000,
    "run_ids": [1_010_000],
    "schedule_id": 1,
    "sequence": 1,
    "states": [*ask.LIVE_WORDS, *ask.ENDED_WORDS],
}


# Rows that each may read: what a look reads, and each of the rows that are shown once more.
MOST = {
    "page_runs_alive": 20,
    "page_runs_ended": 200,
    "page_run_choices": 2_000,
    "page_history_start": 200,
    "page_key_run": 1,
    "runs_of_ids": 5,
    "waits_of_runs": 5,
    "page_run_letter": 1,
    "page_run_children": 20,
    "list_attempts": 10,
    "page_last_lines": 100,
    "list_lines": 100,
}


async def _rows_read(reader: Any, name: str, values: dict[str, Any]) -> int:
    asked = load()[name]
    given = (values[parameter] for parameter in asked.parameters)
    plan = json.loads(await reader.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {asked.sql}", *given))
    return sum(count for _, count in rows_read(plan[0]["Plan"]))


async def test_a_key_is_found_without_a_walk_through_all(full_database: str) -> None:
    connection = await own_session(full_database)
    await connection.execute("""
        INSERT INTO pgcron.idempotency
        SELECT 'form ' || n, n, now() + '1 day', 'role' || n % 3 FROM generate_series(1, 20000) n;
        INSERT INTO pgcron.unique_period
        SELECT 'customer ' || n, 'py:x', n, now() + '1 day' FROM generate_series(1, 20000) n;
        ANALYZE pgcron.idempotency; ANALYZE pgcron.unique_period""")
    await connection.close()
    pool = ReadPool(full_database)
    asked = load()["page_key_run"].sql

    async with pool.transaction() as reader:
        explained = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {asked}"
        plan = json.loads(await reader.fetchval(explained, "customer 17"))[0]["Plan"]
    await pool.close()

    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 60
    # Each of the three namespaces, and the run.
    assert sum(count for _, count in rows_read(plan)) <= 4


async def test_pages_of_runs_read_what_they_show(full_database: str) -> None:
    connection = await own_session(full_database)
    await connection.execute(FILL)
    await connection.close()
    pool = ReadPool(full_database)

    read: dict[str, int] = {}
    async with pool.transaction() as reader:
        for name in MOST:
            read[name] = await _rows_read(reader, name, VALUES)
        unnamed = VALUES | {"schedule_id": None}
        ordered = await _rows_read(reader, "page_runs_alive", unnamed)
        indexed = await _rows_read(reader, "page_runs_alive", unnamed | {"indexed": True})
        ended = await _rows_read(reader, "page_runs_ended", unnamed)
        letters = await _rows_read(reader, "page_runs_ended", unnamed | {"of_letters": True})
    await pool.close()

    assert indexed <= 100
    assert ordered <= 500 + 51 * 2
    assert ended <= 500 + 51 + 20
    assert letters <= 500
    assert {name: rows for name, rows in read.items() if rows > MOST[name]} == {}


async def test_a_kept_plan_of_runs_reads_only_the_partitions_of_their_ends(
    full_database: str,
) -> None:
    asked = load()["runs_of_ids"]
    day = "date_trunc('day', now())"
    given = {"run_ids": "'{1}'", "most": "0", "since": day, "until": day}
    values = ", ".join(given[parameter] for parameter in asked.parameters)
    connection = await own_session(full_database)
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE asked AS {asked.sql}")

    lines = await connection.fetch(f"EXPLAIN EXECUTE asked({values})")
    await connection.close()

    assert any("Subplans Removed" in line[0] for line in lines)
