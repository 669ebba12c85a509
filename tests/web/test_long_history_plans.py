"""What whole pages read after a month of work: bounded rows by way of indexes, whatever is asked.

The server itself writes down how it executed each statement, so these are the statements that pages
send, with the values that they send.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.benchmarks import page_rows
from tests.benchmarks.page_addresses import addresses
from tests.servers import ThrowAwayServer
from tests.sessions import own_session
from tests.web.conftest import Serve
from tests.web.test_page_plans import rows_read

# More history than a look further reads, more waiting runs than are counted.
ROWS, SCHEDULES, WAITING = 60_000, 300, 12_000
PLAN = re.compile(r"LOG:  duration: [\d.]+ ms  plan:\n((?:\t.*\n)+)")
# Tables that grow; the others have some rows, or as many as there are nodes, queues and schedules.
# What history has no partition for is moved there within minutes.
LONG = re.compile(
    r"\(seq\) (?!history_overflow)(run|history|occurrence|attempt|dead_letter|log)(_\w+)?$"
)
# Rows that all statements of a page may read together, by how its name begins; the first that fits.
MOST = {
    "overview": 12_000,
    "dead letters": 3_000,
    "nodes": 4_000,
    "occurrences, decision": 26_000,
    "occurrences": 200,
    "queues": 18_000,
    "run, its log": 6_000,
    "run,": 700,
    # Up to 10,000 waiting runs are counted above each list, and one that finds little looks at
    # 20,000 runs, or at 50,000 when it is asked to look further.
    "runs, handler py:job_119, before": 62_000,
    "runs, state upstream_failed, before": 62_000,
    "runs, handler": 52_000,
    "runs, schedule busy, state": 32_000,
    "runs, state cancelled": 32_000,
    "runs, state upstream_failed": 32_000,
    # The walk begins at the end of a day, so it depends on the hour how soon it finds a full page.
    "runs, since 16d, until 15d": 32_000,
    "runs": 16_000,
    "schedule,": 400,
    "schedules": 5_000,
}


@pytest.fixture
async def old_cluster(server: ThrowAwayServer, template: str) -> AsyncIterator[str]:
    """The DSN of a cluster that has worked for a month; the server tells how it plans for it."""
    name = f"month_{os.getpid()}"
    dsn = server.create_database(name, template)
    connection = await own_session(dsn)
    await page_rows.fill(connection, ROWS, SCHEDULES, WAITING)
    for setting in (
        "session_preload_libraries = 'auto_explain'",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_analyze = on",
        "auto_explain.log_timing = off",
        "auto_explain.log_format = json",
    ):
        await connection.execute(f"ALTER DATABASE {name} SET {setting}")
    await connection.close()
    yield dsn
    server.drop_database(name)


@pytest.mark.long
async def test_no_page_of_a_long_history_reads_more_than_its_bounds(
    server: ThrowAwayServer, old_cluster: str, serve: Serve
) -> None:
    connection = await own_session(old_cluster)
    paths = await addresses(connection)
    await connection.close()

    read: dict[str, float] = {}
    walked: dict[str, list[str]] = {}
    async with serve(old_cluster) as site:
        for page, path in paths.items():
            before = len(server.log.read_text(encoding="utf-8", errors="replace"))
            answer = await site.get(path)
            assert answer.status_code == 200, page
            text = server.log.read_text(encoding="utf-8", errors="replace")[before:]
            plans: list[dict[str, Any]] = [json.loads(found) for found in PLAN.findall(text)]
            assert plans, page
            rows = [each for plan in plans for each in rows_read(plan["Plan"])]
            read[page] = sum(count for _, count in rows)
            walked[page] = [table for table, _ in rows if LONG.match(table)]

    assert {page: tables for page, tables in walked.items() if tables} == {}
    assert {page: rows for page, rows in read.items() if rows > _most(page)} == {}


def _most(page: str) -> int:
    return next(most for words, most in MOST.items() if page.startswith(words))
