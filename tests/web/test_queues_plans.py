"""What the pages of queues, nodes, dead letters and ledgers read on tables full of rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.product.db import ReadPool, load
from tests.sessions import own_session
from tests.web.test_page_plans import rows_read

VALUES: dict[str, Any] = {
    "before": None,
    "budget": 1_000,
    "decision": "expired",
    "ended_within": None,
    "error_class": None,
    "fingerprint": None,
    "handler": "py:rare",
    "incarnation": None,
    "is_dead": False,
    "limit": 50,
    "look": 500,
    "most": 300,
    "names": 3,
    "queue": "default",
    "schedule": None,
    "schedule_id": 1,
    "text": 2_000,
}
FILL = """
    INSERT INTO pgcron.run (handler, priority, due_at, delivery)
    SELECT 'py:later', n % 10, now() + interval '1 day',
           CASE WHEN n % 3 = 0 THEN 'at_most_once' ELSE 'at_least_once' END
      FROM generate_series(1, 20000) n;
    INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, died_at, queue, priority, handler, args,
                                    delivery, timeout, attempts)
    SELECT n, gen_random_uuid(), 'dead', timestamptz '2025-12-31Z' + n * interval '1 s', 'bulk', 5,
           'py:bulk', '{}', 'at_least_once', '1 h', 5
      FROM generate_series(20000, 40000) n;
    INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason)
    SELECT 1, now() - n * interval '1 s', 'skipped', 'overlap_skipped'
      FROM generate_series(1, 20000) n;
    ANALYZE pgcron.run; ANALYZE pgcron.dead_letter; ANALYZE pgcron.occurrence
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "most", "values"),
    [
        # Two reads of each way (it is counted, and its share is), and the descents to find them.
        ("page_queue_depths", 3_000, {}),
        ("page_queue_head", 1_600, {}),
        ("page_queue_running", 100, {}),
        ("page_running", 100, {"incarnation": None}),
        ("page_queue_dead", 600, {}),
        ("page_letter_groups", 600, {"state": "open"}),
        ("page_letter_groups", 600, {"state": "all"}),
        ("page_letters", 600, {"state": "open", "before": 10_000}),
        ("page_letters", 600, {"state": "redriven", "before": 30_000}),
        ("page_occurrences", 700, {}),
        ("list_nodes", 300, {}),
    ],
)
async def test_a_page_reads_no_more_than_its_bounds(
    full_database: str, statement: str, most: int, values: dict[str, Any]
) -> None:
    connection = await own_session(full_database)
    await connection.execute(FILL)
    await connection.close()
    asked = load()[statement]
    given = VALUES | values

    pool = ReadPool(full_database)
    async with pool.transaction() as reader:
        plan = json.loads(
            await reader.fetchval(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {asked.sql}",
                *(given[name] for name in asked.parameters),
            )
        )
    await pool.close()

    read = list(rows_read(plan[0]["Plan"]))
    assert sum(count for _, count in read) <= most
    assert [table for table, _ in read if table in ("(seq) run", "(seq) dead_letter")] == []
