"""What pages read on tables full of rows: an index's end, never a table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.product.db import ReadPool, load, within
from tests.sessions import own_session

VALUES: dict[str, Any] = {
    "after": None,
    "before": None,
    "decision": None,
    **dict.fromkeys(("error_class", "fingerprint", "handler", "schedule")),
    "each": 400,
    "enabled": None,
    "ids": [1, 2, 3],
    "incarnation": None,
    "limit": 50,
    "look": 500,
    "most": 10_000,
    "name": "etl/orders",
    "owner": None,
    "queues": 200,
    "state": "open",
    "stuck": False,
    "queue": None,
    "runs": 30,
    "schedule_id": 1,
    "since": None,
    "schedule_ids": [1, 2, 3],
    "tags": None,
    "text": None,
    "until": None,
}
FILL = """
    INSERT INTO pgcron.run (handler, priority, due_at, delivery)
    SELECT 'py:later', n % 10, now() + interval '1 day',
           CASE WHEN n % 3 = 0 THEN 'at_most_once' ELSE 'at_least_once' END
      FROM generate_series(1, 20000) n;
    INSERT INTO pgcron.history (id, uuid, origin, queue, priority, handler, args, delivery, outcome,
                                attempt, due_at, created_at, created_by, started_at)
    SELECT 1000000 + n, gen_random_uuid(), 'enqueued', 'default', 5, 'py:x', '{}', 'at_least_once',
           'succeeded', 1, now(), now(), 'x', now() FROM generate_series(1, 20000) n;
    INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler, args, delivery,
                                    attempts, died_at, schedule_id)
    SELECT 2000000 + n, gen_random_uuid(), 'dead', 'default', 5, 'py:x' || n % 3000, '{}',
           'at_least_once', 5, now() - n * interval '1 s', n % 3000
    FROM generate_series(1, 20000) n;
    ANALYZE pgcron.run; ANALYZE pgcron.history; ANALYZE pgcron.dead_letter
"""
# A page of a team may look up the owners of all in the full database.
SCHEDULES = 3_000


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("page_due", 3_000),
        ("page_running", 100),
        ("waiting_groups", 3_000),
        ("page_recent", 9_000),
        ("page_failing_candidates", 1_000),
        ("page_letter_groups", 1_200),
        ("page_letters", 100),
        ("page_open_letters", 10_001),
        ("page_schedules", 2_000),
        ("page_next_schedules", 200),
        ("page_lately_paused", 2_500),
        ("page_occurrences", 700),
        ("page_ledger_end", 500),
    ],
)
async def test_a_page_reads_what_it_shows(full_database: str, statement: str, most: int) -> None:
    connection = await own_session(full_database)
    await connection.execute(FILL)
    await connection.close()
    asked = load()[statement]
    values = VALUES | ({"limit": 500} if statement == "page_due" else {})

    pool = ReadPool(full_database)
    given = [values[name] for name in asked.parameters]
    for scopes in (None, ("team:ops",)):
        sql, more = (asked.scoped_sql, [scopes]) if scopes and asked.scoped_sql else (asked.sql, [])
        with within(scopes):
            async with pool.transaction() as reader:
                plan = json.loads(
                    await reader.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *given, *more)
                )
        read = list(rows_read(plan[0]["Plan"]))
        assert sum(count for _, count in read) <= most + (SCHEDULES if scopes else 0)
        assert [table for table, _ in read if table == "(seq) run"] == []
    await pool.close()


def rows_read(node: dict[str, Any]) -> Any:
    """Each scan of a table: its name, and rows read including those that were thrown away."""
    if "Relation Name" in node:
        kind = "(seq) " if node["Node Type"] == "Seq Scan" else ""
        thrown = node.get("Rows Removed by Filter", 0)
        yield (kind + node["Relation Name"], (node["Actual Rows"] + thrown) * node["Actual Loops"])
    for below in node.get("Plans", ()):
        yield from rows_read(below)
