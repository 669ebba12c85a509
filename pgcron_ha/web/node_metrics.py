"""What the node of this process did, in Prometheus's words: made from its counters at each scrape.

Labels are bounded: queues and handlers are those that the node's own configuration names, and of
them no more than `MOST_SERIES` in one metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from pgcron_ha.telemetry.counters import COUNTERS, Counters, Histogram
from pgcron_ha.telemetry.node_snapshot import LookAtNode, NodeSnapshot

_BY_HANDLER: Final = ("queue", "handler")
_BREAKER_STATES: Final = {"closed": 0, "half_open": 1, "open": 2}


class NodeCollector(Collector):
    """Register it where the process's metrics are; from then on the process counts everything."""

    def __init__(self, look: LookAtNode, counters: Counters = COUNTERS) -> None:
        self._look = look
        self._counters = counters
        counters.is_watched = True

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        node_snapshot = self._look()
        yield from _state(node_snapshot)
        yield from _runs(self._counters)
        yield from _claims(self._counters)
        yield from _lease(self._counters, node_snapshot.node)
        yield from _services(self._counters, node_snapshot)


def _state(node_snapshot: NodeSnapshot) -> Iterator[Metric]:
    used = node_snapshot.executing
    yield _gauge(
        "pgcron_slots",
        "Slots of this node.",
        "state",
        {"used": used, "free": max(0, node_snapshot.slots - used)},
    )
    ending = max(0, len(node_snapshot.held) - used - node_snapshot.waiting)
    yield _gauge(
        "pgcron_runs_held",
        "Claimed runs of this node: executing, waiting for a slot, or being completed.",
        "state",
        {"executing": used, "waiting": node_snapshot.waiting, "ending": ending},
    )
    yield GaugeMetricFamily("pgcron_handlers", "Handlers this node offers.", node_snapshot.handlers)
    yield GaugeMetricFamily(
        "pgcron_draining", "1 while this node drains, else 0.", int(node_snapshot.is_draining)
    )
    yield GaugeMetricFamily(
        "pgcron_cordoned", "1 while this node is cordoned, else 0.", int(node_snapshot.is_cordoned)
    )
    yield _gauge(
        "pgcron_lease_remaining_seconds",
        "What is left of this node's lease.",
        "stat",
        {"now": node_snapshot.lease_seconds},
    )


def _runs(counters: Counters) -> Iterator[Metric]:
    yield _words(
        "pgcron_attempts",
        "Attempts that ended here and were acknowledged by the database.",
        (*_BY_HANDLER, "outcome"),
        counters.attempts.items(),
    )
    yield _words(
        "pgcron_runs_finished",
        "Runs that this node ended; handler _other: those of dead nodes.",
        (*_BY_HANDLER, "outcome"),
        counters.finished.items(),
    )
    yield _histograms(
        "pgcron_run_duration_seconds",
        "From a handler's start to its end.",
        _BY_HANDLER,
        counters.run_seconds.items(),
    )
    yield _histograms(
        "pgcron_schedule_start_delay_seconds",
        "From the fire time to the start of the first attempt, by this host's clock.",
        ("queue",),
        counters.start_delays.items(),
    )
    yield _histograms(
        "pgcron_run_queue_wait_seconds",
        "From when a run is due to its claim, by this host's clock.",
        ("queue",),
        counters.queue_waits.items(),
    )
    yield _counter(
        "pgcron_occurrences",
        "Fires by what this node decided; one that became a run may be skipped or expire later.",
        "decision",
        counters.occurrences,
    )


def _claims(counters: Counters) -> Iterator[Metric]:
    results = {**counters.claims, "error": counters.failures["dispatcher"]}
    yield _counter(
        "pgcron_claims",
        "Claims by what they brought: all that was asked for, less, nothing, or an error.",
        "result",
        results,
    )
    yield _histograms(
        "pgcron_claim_duration_seconds",
        "From sending a claim to its answer.",
        (),
        [((), counters.claim_seconds)],
    )
    yield _histograms(
        "pgcron_claim_batch_runs", "Runs that a claim brought.", (), [((), counters.claim_runs)]
    )
    yield CounterMetricFamily(
        "pgcron_runs_released",
        "Claimed runs that were given back before they began.",
        counters.released,
    )


def _lease(counters: Counters, node: str) -> Iterator[Metric]:
    yield _counter(
        "pgcron_lease_renewals",
        "Renewals of this node's lease: acknowledged, refused (declared dead), or without answer.",
        "result",
        counters.renewals,
    )
    yield _words(
        "pgcron_fence_rejections",
        "What the fence refused to this node: the end of a run, or its own renewal.",
        ("node", "op"),
        [((node,), counters.fenced)],
    )
    yield _counter(
        "pgcron_takeovers",
        "Nodes that this one declared dead, by how it knew.",
        "reason",
        counters.takeovers,
    )
    yield _counter(
        "pgcron_runs_reaped",
        "Runs of dead nodes that this one ended or made ready again.",
        "verdict",
        counters.reaped,
    )


def _services(counters: Counters, node_snapshot: NodeSnapshot) -> Iterator[Metric]:
    yield _counter(
        "pgcron_wakeups",
        "Notifications that this node received.",
        "source",
        {"notify": counters.notifications},
    )
    yield CounterMetricFamily(
        "pgcron_listener_reconnects",
        "How often listening began anew.",
        max(0, counters.listens - 1),
    )
    yield _counter(
        "pgcron_db_connects",
        "Connections of the node's services that were made; beyond the first of each, one broke.",
        "link",
        node_snapshot.connects,
    )
    yield _counter(
        "pgcron_service_failures",
        "Passes of the node's services that failed and were tried again.",
        "service",
        counters.failures,
    )
    yield _gauge(
        "pgcron_service_last_good_age_seconds",
        "Since the last pass of a service that succeeded; it grows by the interval at least.",
        "service",
        {name: age for name, (age, _) in node_snapshot.services.items()},
    )
    yield _gauge(
        "pgcron_set_aside",
        "Runs, schedules and other rows that a service goes on without, and tries again.",
        "service",
        {name: aside for name, (_, aside) in node_snapshot.services.items()},
    )
    yield _gauge(
        "pgcron_breaker_state",
        "Circuit breakers that this node saw open: 0 closed again, 1 half open, 2 open.",
        "breaker",
        {name: _BREAKER_STATES[state] for name, state in counters.breakers.items()},
    )
    stored = {labels: words["stored"] for labels, words in counters.log_bytes.items()}
    yield _counter(
        "pgcron_log_bytes",
        "Output of runs that was stored.",
        "queue",
        {queue: count for (queue,), count in stored.items()},
    )
    yield _counter(
        "pgcron_log_dropped_bytes",
        "Output of runs that was not kept.",
        "reason",
        counters.log_bytes_dropped,
    )
    yield _counter(
        "pgcron_metrics_series_dropped",
        "Counts that went to the label _other for want of room.",
        "metric",
        counters.series_dropped(),
    )


def _gauge(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family


def _counter(name: str, help_text: str, label: str, values: Mapping[str, int]) -> Metric:
    return _words(name, help_text, [label], [((), values)])


def _words(
    name: str,
    help_text: str,
    labels: Iterable[str],
    items: Iterable[tuple[tuple[str, ...], Mapping[str, int]]],
) -> Metric:
    """With the number of each word under the labels that are known."""
    family = CounterMetricFamily(name, help_text, labels=list(labels))
    for known, words in items:
        for word, count in dict(words).items():
            family.add_metric([*known, word], count)
    return family


def _histograms(
    name: str,
    help_text: str,
    labels: Iterable[str],
    items: Iterable[tuple[tuple[str, ...], Histogram]],
) -> Metric:
    family = HistogramMetricFamily(name, help_text, labels=list(labels))
    for known, histogram in items:
        bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
        steps = accumulate(histogram.counts)
        family.add_metric(list(known), list(zip(bounds, steps, strict=True)), histogram.total)
    return family
