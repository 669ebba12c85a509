"""What this process can count, in Prometheus's text format; names as operators know them.

Labels are bounded: a route's name, never its path; a query's word, never its values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from pgcron_ha.db.driver.pool import PoolUse

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# 5 ms to 10 s in steps of 1, 2.5, 5: a page is stopped after 3 s.
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PULSE_SECONDS: Final = 0.5


# Or each counter has a second metric with its creation time, which is of no use here.
disable_created_metrics()  # type: ignore[no-untyped-call]


class WebMetrics:
    """The counters of one application, in a registry of its own; others may register there too."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=_BUCKETS)
        gauge("pgcron_build_info", "This program; always 1.", ["version"]).labels(version).set(1)
        self._requests = counter(
            "pgcron_http_requests_total",
            "Requests that were answered.",
            ["route", "method", "status"],
        )
        self._seconds = histogram(
            "pgcron_http_request_duration_seconds",
            "From the request's head to the end of the answer.",
            ["route"],
        )
        self.queries = histogram(
            "pgcron_db_query_duration_seconds",
            "What a view took to be read, all its statements.",
            ["query"],
        )
        self.errors = counter(
            "pgcron_db_errors_total",
            "Reads and writes that the database refused or did not answer.",
            ["sqlstate_class"],
        )
        self._pool = gauge(
            "pgcron_db_pool_connections", "Connections of the pages' pool.", ["state"]
        )
        self._tables = gauge(
            "pgcron_table_bytes",
            "The largest tables with partitions, indexes and TOAST, read at most once a minute. Of"
            " the cluster, so from `web` and not from nodes: of several take max by (table).",
            ["table"],
        )
        self._waiting = gauge(
            "pgcron_waiting_runs",
            "Runs that are due and wait, by what they wait for; read as the tables are.",
            ["waits_for"],
        )
        self.lag = gauge(
            "pgcron_event_loop_lag_seconds",
            "How much later than asked for the event loop woke its last pulse.",
        )

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts one answer; `route` is a name of the table of routes."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def cluster_is(self, tables: Mapping[str, int], waiting: Mapping[str, int]) -> None:
        """Notes sizes of tables, and runs by what they wait for; none while they are not known."""
        for gauge, counts in ((self._tables, tables), (self._waiting, waiting)):
            gauge.clear()
            for label, count in counts.items():
                gauge.labels(label).set(count)

    def text(self, pool: PoolUse) -> bytes:
        """Everything, as Prometheus scrapes it."""
        self._pool.labels("idle").set(pool.idle)
        self._pool.labels("used").set(pool.open - pool.idle)
        return generate_latest(self.registry)


class Pulse:
    """A task that says how late the event loop wakes it, and when it last did."""

    def __init__(self, metrics: WebMetrics) -> None:
        self._metrics = metrics
        self.last = monotonic()

    async def run(self) -> None:
        """Pulses until it is cancelled."""
        while True:
            expected = monotonic() + _PULSE_SECONDS
            await asyncio.sleep(_PULSE_SECONDS)
            self.last = monotonic()
            self._metrics.lag.set(max(0.0, self.last - expected))
