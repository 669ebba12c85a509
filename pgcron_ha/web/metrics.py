"""What this process can count, and what its node did, in Prometheus's text format; names as
operators know them.

Labels are bounded: a route's name, never its path; a query's word, never its values; queues and
handlers are those that the node's own configuration names, and of them no more than `MOST_SERIES`
in one metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from pgcron_ha.db.driver.pool import PoolUse
from pgcron_ha.telemetry.counters import COUNTERS, Counters
from pgcron_ha.telemetry.counters import Histogram as Steps
from pgcron_ha.telemetry.node_snapshot import LookAtNode, NodeSnapshot

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# 5 ms to 10 s in steps of 1, 2.5, 5: a page is stopped after 3 s.
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# Or each counter has a second metric with its creation time, which is of no use here.
disable_created_metrics()  # type: ignore[no-untyped-call]
_HELP: Final = {
    "build_info": "This program; always 1.",
    "http_requests": "Requests that were answered.",
    "http_request_duration_seconds": "From the request's head to the end of the answer.",
    "password_checks": "Passwords that were compared with a hash.",
    "db_query_duration_seconds": "What a view took to be read, all its statements.",
    "db_errors": "Reads and writes that the database refused or did not answer.",
    "db_pool_connections": "Connections of the pages' pool.",
    "table_bytes": "Each table with all of its parts; of several processes take max by (table).",
    "waiting_runs": "Due runs by what they wait for; read at most once a minute, as tables are.",
    "audit_unsent_rows": "Rows of the audit that the webhook has still to get; 0 without one.",
    "event_loop_lag_seconds": "How much later than asked for the event loop woke its last pulse.",
    "slots": "Slots of this node.",
    "runs_held": "Claimed runs of this node: executing, waiting for a slot, or being completed.",
    "handlers": "Handlers this node offers.",
    "draining": "1 while this node drains, else 0.",
    "cordoned": "1 while this node is cordoned, else 0.",
    "lease_remaining_seconds": "What is left of this node's lease.",
    "service_last_good_age_seconds": "Since the last pass of a service that succeeded.",
    "set_aside": "Runs, schedules and other rows that a service goes on without, and tries again.",
    "breaker_state": "Breakers that this node saw open: 0 closed again, 1 half open, 2 open.",
    "attempts": "Attempts that ended here and were acknowledged by the database.",
    "runs_finished": "Runs that this node ended; handler _other: of dead nodes or beyond 200.",
    "occurrences": "Fires by what this node decided; a run may still be skipped or expire.",
    "claims": "Claims by what they brought: all that was asked for, less, nothing, or an error.",
    "runs_released": "Claimed runs that were given back before they began.",
    "lease_renewals": "Renewals of this node's lease, by what the database answered.",
    "fence_rejections": "Ends of runs, or renewals, that the fence refused to this node.",
    "takeovers": "Nodes that this one declared dead, by how it knew.",
    "runs_reaped": "Runs of dead nodes that this one ended or made ready again.",
    "wakeups": "Notifications that this node received.",
    "listener_reconnects": "How often listening began anew.",
    "db_connects": "Connections that services made; beyond the first of each, one broke.",
    "service_failures": "Passes of the node's services that failed and were tried again.",
    "log_bytes": "Output of runs that was stored.",
    "log_dropped_bytes": "Output of runs that was not kept.",
    "metrics_series_dropped": "Counts that went to the label _other for want of room.",
    "run_duration_seconds": "From a handler's start to its end.",
    "schedule_start_delay_seconds": "From the fire time to the first start, by this host's clock.",
    "run_queue_wait_seconds": "From when a run is due to its claim, by this host's clock.",
    "claim_duration_seconds": "From sending a claim to its answer.",
    "claim_batch_runs": "Runs that a claim brought.",
}
_BY_HANDLER: Final = ("queue", "handler")
_BREAKER_STATES: Final = {"closed": 0, "half_open": 1, "open": 2}

Words: TypeAlias = Mapping[str, float]
"""The number of each word of the last label; of a metric without labels that of ``""``."""
Series: TypeAlias = Words | Steps | Iterable[tuple[tuple[str, ...], Words | Steps]]
"""The numbers of a metric; with further labels, those of each combination of their values."""
Metrics: TypeAlias = Mapping[tuple[str, ...], Series]
"""By name and labels."""


class WebMetrics:
    """The counters of one application, in a registry of its own; others may register there too."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()

        def made(kind: Callable[..., Any], name: str, *labels: str, **more: Any) -> Any:
            return kind(f"pgcron_{name}", _HELP[name], labels, registry=self.registry, **more)

        made(Gauge, "build_info", "version").labels(version).set(1)
        self._requests = made(Counter, "http_requests", "route", "method", "status")
        self._seconds = made(Histogram, "http_request_duration_seconds", "route", buckets=_BUCKETS)
        self.password_checks = made(Counter, "password_checks")
        self.queries = made(Histogram, "db_query_duration_seconds", "query", buckets=_BUCKETS)
        self.errors = made(Counter, "db_errors", "sqlstate_class")
        self._pool = made(Gauge, "db_pool_connections", "state")
        self._tables = made(Gauge, "table_bytes", "table")
        self._waiting = made(Gauge, "waiting_runs", "waits_for")
        self.unsent = made(Gauge, "audit_unsent_rows")
        self.lag = made(Gauge, "event_loop_lag_seconds")

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


class NodeCollector(Collector):
    """Register it where the process's metrics are; from then on the process counts everything."""

    def __init__(self, look: LookAtNode, counters: Counters = COUNTERS) -> None:
        self._look = look
        self._counters = counters
        counters.is_watched = True

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        node, counters = self._look(), self._counters
        kinds: Sequence[tuple[Any, Metrics]] = (
            (GaugeMetricFamily, _gauges(node, counters)),
            (CounterMetricFamily, _counts(node, counters)),
            (HistogramMetricFamily, _histograms(counters)),
        )
        for kind, metrics in kinds:
            for (name, *labels), series in metrics.items():
                family = kind(f"pgcron_{name}", _HELP[name], labels=labels)
                if isinstance(series, Mapping | Steps):
                    series = [((), series)]
                for known, value in series:
                    _add(family, labels, known, value)
                yield family


def _gauges(node: NodeSnapshot, counters: Counters) -> Metrics:
    used, services = node.executing, node.services.items()
    ending = max(0, len(node.held) - used - node.waiting)
    breakers = counters.breakers.items()
    return {
        ("slots", "state"): {"used": used, "free": max(0, node.slots - used)},
        ("runs_held", "state"): {"executing": used, "waiting": node.waiting, "ending": ending},
        ("handlers",): {"": node.handlers},
        ("draining",): {"": int(node.is_draining)},
        ("cordoned",): {"": int(node.is_cordoned)},
        ("lease_remaining_seconds", "stat"): {"now": node.lease_seconds},
        ("service_last_good_age_seconds", "service"): {name: age for name, (age, _) in services},
        ("set_aside", "service"): {name: aside for name, (_, aside) in services},
        ("breaker_state", "breaker"): {name: _BREAKER_STATES[state] for name, state in breakers},
    }


def _counts(node: NodeSnapshot, counters: Counters) -> Metrics:
    stored = counters.log_bytes.items()
    return {
        ("occurrences", "decision"): counters.occurrences,
        ("claims", "result"): {**counters.claims, "error": counters.failures["dispatcher"]},
        ("runs_released",): {"": counters.released},
        ("lease_renewals", "result"): counters.renewals,
        ("takeovers", "reason"): counters.takeovers,
        ("runs_reaped", "verdict"): counters.reaped,
        ("wakeups", "source"): {"notify": counters.notifications},
        ("listener_reconnects",): {"": max(0, counters.listens - 1)},
        ("db_connects", "link"): node.connects,
        ("service_failures", "service"): counters.failures,
        ("log_bytes", "queue"): {queue: words["stored"] for (queue,), words in stored},
        ("log_dropped_bytes", "reason"): counters.log_bytes_dropped,
        ("metrics_series_dropped", "metric"): counters.series_dropped(),
        ("attempts", *_BY_HANDLER, "outcome"): counters.attempts.items(),
        ("runs_finished", *_BY_HANDLER, "outcome"): counters.finished.items(),
        ("fence_rejections", "node", "op"): [((node.node,), counters.fenced)],
    }


def _histograms(counters: Counters) -> Metrics:
    return {
        ("run_duration_seconds", *_BY_HANDLER): counters.run_seconds.items(),
        ("schedule_start_delay_seconds", "queue"): counters.start_delays.items(),
        ("run_queue_wait_seconds", "queue"): counters.queue_waits.items(),
        ("claim_duration_seconds",): counters.claim_seconds,
        ("claim_batch_runs",): counters.claim_runs,
    }


def _add(family: Any, labels: Sequence[str], known: Sequence[str], value: Words | Steps) -> None:
    """Adds the numbers of one combination of label values, those `known` before the last."""
    if isinstance(value, Steps):
        bounds = [*map(floatToGoString, value.bounds), "+Inf"]
        steps = zip(bounds, accumulate(value.counts), strict=True)
        family.add_metric(known, list(steps), value.total)
        return
    for word, number in dict(value).items():  # as it is now: others count on
        family.add_metric([*known, word][: len(labels)], number)
