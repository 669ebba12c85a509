"""What a node beside the pages counts, as Prometheus reads it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families

from pgcron_ha import App, Context
from tests.db.control import Connection
from tests.house.checkout import ROOT
from tests.product.config import load_settings, read_sources
from tests.product.engine import Node
from tests.product.telemetry import MOST_SERIES, OTHER, Counters, NodeSnapshot
from tests.product.web import NodeCollector
from tests.waiting import until
from tests.web.conftest import browsing, serving

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
LINE = "what it says"

app = App()


@app.handler()
async def fine(context: Context) -> None:
    # Not print: a node that starts in a fixture may lose sys.stdout to pytest before the test.
    context.log(LINE)


@app.handler()
async def bad() -> None:
    raise ValueError("always")


@pytest.fixture
async def client(database: str, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Of the pages beside a real node."""
    flags = {"dsn": database, "node.name": "n1", "node.state_directory": str(tmp_path)}
    node = Node(load_settings(read_sources(environment={}, flags=flags)), [app], "0")
    server = serving(database, look=node.look)
    tasks = [asyncio.create_task(server.run()), asyncio.create_task(node.run())]
    try:
        async with browsing(server.url) as client:
            yield client
    finally:
        node.stop()
        await tasks[1]
        server.stop()
        await tasks[0]


async def scrape(client: httpx.AsyncClient) -> dict[str, Metric]:
    """The metrics by their names."""
    text = (await client.get("/metrics")).text
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    """Of one sample; 0 when it is not there."""
    samples = (sample for family in families.values() for sample in family.samples)
    found = [each.value for each in samples if each.name == name and each.labels == labels]
    return found[0] if found else 0.0


async def test_a_node_s_work_is_counted(client: httpx.AsyncClient, connection: Connection) -> None:
    before = await scrape(client)
    fine = {"queue": "default", "handler": "py:fine", "outcome": "succeeded"}
    bad = {"queue": "default", "handler": "py:bad"}

    def growth(after: dict[str, Metric], name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    async def counted() -> dict[str, Metric] | None:
        await connection.execute("SELECT pg_notify(pgcron.channel(), 'run')")
        after = await scrape(client)
        heard = growth(after, "pgcron_wakeups_total", source="notify")
        failed = growth(after, "pgcron_runs_finished_total", **bad, outcome="dead")
        fired = growth(after, "pgcron_schedule_start_delay_seconds_count", queue="default")
        waited = growth(after, "pgcron_run_queue_wait_seconds_count", queue="default")
        ended = growth(after, "pgcron_runs_finished_total", **fine)
        return after if heard and failed and fired and waited > 5 and ended > 5 else None

    await connection.execute(
        "INSERT INTO pgcron.run (handler, max_attempts)"
        " SELECT 'py:fine', 1 FROM generate_series(1, 5) UNION ALL SELECT 'py:bad', 1"
    )
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('s', '* * * * * *', 'py:fine')"
    )
    after = await until("all has run and is counted", counted)

    assert after is not None
    assert growth(after, "pgcron_attempts_total", **bad, outcome="failed") == 1
    assert growth(after, "pgcron_runs_finished_total", **bad, outcome="dead") == 1
    assert growth(after, "pgcron_run_duration_seconds_count", **bad) == 1
    ended = growth(after, "pgcron_runs_finished_total", **fine)
    assert growth(after, "pgcron_attempts_total", **fine) == ended
    assert growth(after, "pgcron_occurrences_total", decision="run") >= 1
    assert growth(after, "pgcron_claim_batch_runs_sum") >= ended + 1
    assert growth(after, "pgcron_claims_total", result="partial") >= 1
    assert growth(after, "pgcron_log_bytes_total", queue="default") >= ended * len(LINE)
    assert value(after, "pgcron_db_connects_total", link="claims") == 1
    assert value(after, "pgcron_handlers") == 3  # two, and workflow:ad_hoc
    assert value(after, "pgcron_lease_remaining_seconds", stat="now") > 5
    assert sum(value(after, "pgcron_slots", state=state) for state in ("used", "free")) == 16


async def test_without_an_open_page_the_web_beside_a_node_costs_the_database_nothing(
    client: httpx.AsyncClient, connection: Connection
) -> None:
    own = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'pgcron_ha web'"
    )
    for path in ("/livez", "/statusz", "/metrics"):
        assert (await client.get(path)).status_code == 200

    assert await connection.fetchval(own) == 0
    await until("the node is ready", lambda: is_ready(client))
    assert await connection.fetchval(own) == 1


async def is_ready(client: httpx.AsyncClient) -> bool:
    return (await client.get("/readyz")).status_code == 200


async def test_the_metrics_keep_prometheus_s_rules(client: httpx.AsyncClient) -> None:
    """Those that ``promtool check metrics`` looks at."""
    for name, family in (await scrape(client)).items():
        assert name.startswith("pgcron_"), name
        assert family.documentation.endswith("."), name
        assert family.type in ("counter", "gauge", "histogram"), name
        assert not name.endswith(("_count", "_sum", "_bucket", "_total")), name
        assert not {"counter", "gauge", "histogram"} & set(name.split("_")), name
        assert not {"milliseconds", "minutes", "kilobytes", "percent"} & set(name.split("_")), name
        labels = {label for sample in family.samples for label in sample.labels}
        assert labels <= {
            *("queue", "handler", "outcome", "decision", "result", "state", "stat", "reason"),
            *("node", "op", "verdict", "source", "link", "service", "metric", "le", "version"),
            *("route", "method", "status", "query", "sqlstate_class", "breaker"),
            *("table",),
        }, name


async def test_the_documents_name_every_metric_and_no_other(client: httpx.AsyncClient) -> None:
    await client.get("/nowhere")
    table = PAGE.partition("| metric (`pgcron_…`)")[2].partition("\n\n")[0]
    reported = {f"pgcron_{name}" for name in re.findall(r"`([a-z_]+)`", table)} - {
        f"pgcron_{OTHER}"
    }
    there = {
        f"{name}_total" if family.type == "counter" else name
        for name, family in (await scrape(client)).items()
    }

    assert reported == there


def collected(counters: Counters) -> dict[str, Metric]:
    registry = CollectorRegistry()
    registry.register(NodeCollector(lambda: NodeSnapshot("n1"), counters))
    return {family.name: family for family in registry.collect()}


def test_a_histogram_s_steps_add_up() -> None:
    counters = Counters()
    counters.run_seconds.at(("q", "py:a")).add([0.001, 0.02, 0.02, 5000.0])

    samples = collected(counters)["pgcron_run_duration_seconds"].samples
    steps = {each.labels["le"]: each.value for each in samples if each.name.endswith("_bucket")}
    by_name: dict[str, Any] = {each.name: each.value for each in samples}

    assert (steps["0.005"], steps["0.01"], steps["0.025"]) == (1, 1, 3)
    assert (steps["3600.0"], steps["+Inf"]) == (3, 4)
    assert by_name["pgcron_run_duration_seconds_count"] == 4
    assert by_name["pgcron_run_duration_seconds_sum"] == pytest.approx(5000.041)


def test_a_scrape_is_bounded_however_many_handlers_there_are() -> None:
    counters = Counters()
    for number in range(2 * MOST_SERIES):
        counters.attempts.at(("default", f"py:{number}"))["succeeded"] += 1

    families = collected(counters)
    samples = families["pgcron_attempts"].samples

    assert len(samples) == MOST_SERIES + 1
    assert [each.value for each in samples if each.labels["handler"] == OTHER] == [MOST_SERIES]
    assert sum(each.value for each in samples) == 2 * MOST_SERIES
    (dropped,) = (
        each.value
        for each in families["pgcron_metrics_series_dropped"].samples
        if each.labels == {"metric": "pgcron_attempts_total"}
    )
    assert dropped == MOST_SERIES


def test_a_breaker_that_was_open_is_told_as_closed_and_their_number_is_bounded() -> None:
    counters = Counters()
    counters.broke({"http:billing": "open", "py:a": "half_open"})
    counters.broke({"http:billing": "open"})
    samples = collected(counters)["pgcron_breaker_state"].samples
    counters.broke({f"py:{number}": "open" for number in range(2 * MOST_SERIES)})

    assert {each.labels["breaker"]: each.value for each in samples} == {
        "http:billing": 2,
        "py:a": 0,
    }
    assert len(collected(counters)["pgcron_breaker_state"].samples) == MOST_SERIES


def test_whoever_shows_the_counters_has_everything_counted() -> None:
    counters = Counters()
    assert not counters.is_watched

    NodeCollector(lambda: NodeSnapshot("n1"), counters)

    assert counters.is_watched
