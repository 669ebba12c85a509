from __future__ import annotations

import asyncio
import re

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.product.db import ReadPool, health, load
from tests.product.model import size
from tests.sessions import own_session
from tests.waiting import until
from tests.web.conftest import Serve, Site
from tests.web.test_page_plans import FILL

SIZES = """
    SELECT coalesce(pg_partition_root(c.oid), c.oid::regclass)::text AS name, sum(pg_total_relation_size(c.oid))::bigint AS bytes
    FROM pg_class c WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'r' GROUP BY 1"""  # noqa: E501


async def sizes(dsn: str) -> dict[str, int]:
    connection = await own_session(dsn)
    rows = await connection.fetch(SIZES)
    await connection.close()
    return {row["name"].removeprefix("pgcron."): row["bytes"] for row in rows}


async def test_each_table_is_listed_with_its_size_the_largest_first(
    full_site: Site, full_database: str
) -> None:
    connection = await own_session(full_database)
    await connection.execute(FILL)
    await connection.close()
    page = await full_site.get("/storage")

    found = await sizes(full_database)
    rows = re.findall(r'<th scope="row" data-label="Table">(.*?)</tr>', page.text, re.DOTALL)
    names = [re.findall(r"<bdi>(\w+)</bdi>", row)[0] for row in rows]
    assert sorted(names) == sorted(found)
    assert [found[name] for name in names] == sorted(found.values(), reverse=True)
    history = rows[names.index("history")]
    assert f'</meter> <span class="amount">{size(found["history"])}<' in history
    assert "partitions" in history
    assert "30 d" in history.replace("\u202f", " ")
    assert f"{size(sum(found.values()))} in" in page.text


async def test_who_holds_a_snapshot_is_named(
    full_site: Site, full_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(health.snapshot_holders.defaults, "seconds", 0.0)
    holder = await asyncpg.connect(
        full_database, server_settings={"application_name": "a <report>"}
    )
    await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pgcron.run")

    page = await full_site.get("/storage")

    await holder.close()
    assert "a &lt;report&gt;" in page.text
    assert "pg_read_all_stats" not in page.text


async def test_no_row_of_a_table_is_read_for_its_size(full_database: str) -> None:
    asked = load()["list_table_sizes"]
    pool = ReadPool(full_database)
    async with pool.transaction() as reader:
        rows = await reader.fetch(f"EXPLAIN (COSTS OFF) {asked.sql}", 1000)
    await pool.close()

    plan = "\n".join(row[0] for row in rows)
    scanned = set(re.findall(r"(?<!Index )Scan on (\w+)|Scan using \w+ on (\w+)", plan))
    assert {table for pair in scanned for table in pair if table} <= {
        "pg_class",
        "retention",
        "partitions_of",
    }, plan


async def reported(site: Site, metric: str, label: str) -> dict[str, float]:
    text = (await site.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return {s.labels[label]: s.value for s in families[metric].samples}


async def reported_sizes(site: Site) -> dict[str, float]:
    return await reported(site, "pgcron_table_bytes", "table")


async def test_what_is_due_is_counted_by_what_it_waits_for(site: Site, database: str) -> None:
    connection = await own_session(database)
    await connection.execute(
        """SELECT pgcron.pause_queue('held');
           SELECT pgcron.enqueue('py:held', queue => 'held') FROM generate_series(1, 3);
           SELECT pgcron.enqueue('py:nobody', queue => 'else');
           INSERT INTO pgcron.run (handler, queue, state, gate)
           SELECT 'py:nobody', 'else', 'blocked', 'no_node' FROM generate_series(1, 2)"""
    )
    await connection.close()

    counted = await until(
        "the runs are counted", lambda: reported(site, "pgcron_waiting_runs", "waits_for")
    )

    assert counted == {"paused": 3, "no_node": 3}


async def test_tables_are_a_metric_and_no_scrape_waits_for_a_database_that_is_away(
    full_site: Site, full_database: str, serve: Serve
) -> None:
    # A scrape does not wait for them: a slow database has them the next time.
    reported = await until("the sizes are known", lambda: reported_sizes(full_site))

    assert reported == await sizes(full_database)
    async with serve("postgresql://nobody@127.0.0.1:1/none") as site:
        answer = await site.get("/metrics")
    assert answer.status_code == 200
    assert "pgcron_table_bytes{" not in answer.text


async def test_scrapes_at_once_share_one_reading(full_site: Site) -> None:
    await asyncio.gather(*(full_site.get("/metrics") for _ in range(5)))
    await until("the sizes are known", lambda: reported_sizes(full_site))

    read = 'pgcron_db_query_duration_seconds_count{query="metrics"} 1.0'
    assert read in (await full_site.get("/metrics")).text
