from __future__ import annotations

import asyncio
import os
import re
import signal
from time import monotonic

from prometheus_client.parser import text_string_to_metric_families

from tests.db.control import Connection
from tests.waiting import slowness, until
from tests.web.conftest import Serve, Site

MOST_SECONDS = 5.0
"""A probe takes 0.8 s; twenty that waited for each other would take 16 s."""


async def test_probes_answer_one_word(site: Site) -> None:
    for path in ("/livez", "/readyz", "/startupz"):
        answer = await site.get(path)
        assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_a_database_without_the_schema_is_not_ready_and_the_page_says_what_now(
    empty_database: str, serve: Serve
) -> None:
    async with serve(empty_database) as site:
        ready = await site.get("/readyz")
        live = await site.get("/livez")
        started = await site.get("/startupz")
        page = await site.get("/")

    assert started.status_code == 503
    assert (ready.status_code, live.status_code, page.status_code) == (503, 200, 503)
    assert "pgcron-ha migrate" in page.text


async def test_the_status_of_the_process_is_json(site: Site) -> None:
    await site.get("/")
    status = (await site.get("/statusz")).json()

    assert (status["role"], status["node"]) == ("web", None)
    assert status["version"] == "9.9"
    assert status["last_successful_read"].endswith("Z")
    assert status["pool"]["open"] >= 1
    assert "dsn" not in status


async def test_metrics_can_be_read_by_prometheus_and_label_no_paths(full_site: Site) -> None:
    await full_site.get("/schedules/etl%2Forders")
    await full_site.get("/schedules/nobody")
    await full_site.get("/nowhere/12345")

    answer = await full_site.get("/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert [name for name in families if not name.startswith("pgcron_")] == []
    assert [name for name, family in families.items() if not family.documentation] == []
    requests = {
        (sample.labels["route"], sample.labels["status"])
        for sample in families["pgcron_http_requests"].samples
        if sample.name.endswith("_total")
    }
    assert requests >= {("schedule", "200"), ("schedule", "404"), ("(none)", "404")}
    assert not re.search("etl|nobody|nowhere", answer.text)
    assert {
        "pgcron_build_info",
        "pgcron_http_request_duration_seconds",
        "pgcron_db_query_duration_seconds",
        "pgcron_db_pool_connections",
        "pgcron_event_loop_lag_seconds",
    } <= set(families)


async def test_a_frozen_server_is_not_ready_within_a_second_however_many_ask(
    site: Site, connection: Connection
) -> None:
    assert (await site.get("/readyz")).status_code == 200
    found = await connection.fetch(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pgcron_ha web%'"
        " AND datname = current_database()"
    )
    pids = [row["pid"] for row in found]
    assert len(pids) == 1
    os.kill(pids[0], signal.SIGSTOP)
    try:
        answers = await until("it is not ready", lambda: all_refused(site), pause=0.2)
        others = await timed(site, "/startupz")
    finally:
        os.kill(pids[0], signal.SIGCONT)

    assert answers
    assert others < MOST_SECONDS * slowness()
    await until("it is ready again", lambda: is_ready(site))


async def all_refused(site: Site) -> list[float] | None:
    """How long twenty probes at once took, once none of them is answered with 200."""
    began = monotonic()

    async def ask() -> tuple[int, float]:
        return (await site.get("/readyz")).status_code, monotonic() - began

    answers = await asyncio.gather(*(ask() for _ in range(20)))
    assert max(seconds for _, seconds in answers) < MOST_SECONDS * slowness()
    return [seconds for _, seconds in answers] if {code for code, _ in answers} == {503} else None


async def timed(site: Site, path: str) -> float:
    began = monotonic()
    await site.get(path)
    return monotonic() - began


async def is_ready(site: Site) -> bool:
    return (await site.get("/readyz")).status_code == 200


async def test_a_counter_is_one_series(full_site: Site) -> None:
    assert "_created" not in (await full_site.get("/metrics")).text
