from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from tests.web.conftest import Serve, Site


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
