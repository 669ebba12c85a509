"""C16: no limit is exceeded, whatever happens; nothing runs where, or before, it may not.

When a handler executed is what it has recorded by itself. Only when a run was claimed, which is
what a rate counts, is known from the tables.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tests.chaos.checking.history import Execution, Facts, History
from tests.chaos.checking.invariants import outages
from tests.chaos.checking.runs import CLOCK_SLACK, was_frozen
from tests.chaos.gates import GATES, LIMITS, PER_SECONDS
from tests.chaos.stage import SLOTS, zone_of

RERUN = ("rerun", "redrive")
FAILED = ("dead", "lost", "cancelled", "expired", "upstream_failed")
_A_HUNDREDTH = 0.99
"""Of a rate's span: instants are rounded to slices of it."""


def _one(_: Execution) -> int:
    return 1


def check_gates(history: History) -> Iterator[str]:
    """All of it."""
    yield from _check_limits(history)
    yield from _check_rates(history)
    yield from _check_breaker(history)
    yield from _check_nodes(history)
    yield from _check_transfers(history)
    yield from _check_previous(history)
    yield from _check_due(history)


def _check_limits(history: History) -> Iterator[str]:
    again = {row["id"] for row in _all_runs(history) if row["origin"] in RERUN}
    for name, limit in LIMITS.items():
        if limit.most is None:
            continue
        under = [
            execution
            for execution in history.executions
            if _is_under(execution, name)
            and not (name.startswith("schedule") and execution.run in again)
        ]
        weight, unit = (_weight, "slots") if limit.by_weight else (_one, "runs")
        most, at = most_at_once(history, under, weight)
        if most > limit.most:
            yield f"C16: {name}: {most} {unit} were in use at once, of {limit.most}, at {at:.3f}"


def _is_under(execution: Execution, limit: str) -> bool:
    return execution.gate is not None and limit in GATES[execution.gate].limits


def most_at_once(
    history: History, executions: Iterable[Execution], weight: Callable[[Execution], int] = _one
) -> tuple[int, float]:
    """The largest sum of weights, and when. What is frozen executes nothing."""
    active: list[Execution] = []
    most, when = 0, 0.0
    for execution in sorted(executions, key=lambda each: each.began):
        at = execution.began
        active = [each for each in active if each.heard > at]
        others = sum(weight(each) for each in active if not was_frozen(history, each, at))
        if others + weight(execution) > most:
            most, when = others + weight(execution), at
        active.append(execution)
    return most, when


def _check_rates(history: History) -> Iterator[str]:
    if history.slack:
        return  # the server's clock was set, and it is what a rate goes by
    claimed = _claims(history)
    for name, limit in LIMITS.items():
        if limit.rate is None:
            continue
        starts = sorted(
            claimed[execution.fence]
            for execution in history.executions
            if _is_under(execution, name) and execution.fence in claimed
        )
        for first, last in zip(starts, starts[limit.rate :], strict=False):
            if last - first < PER_SECONDS * _A_HUNDREDTH:
                yield f"C16: {name}: {limit.rate + 1} starts within {last - first:.3f} s"


def _claims(history: History) -> dict[int, float]:
    """When each fence number was given out."""
    rows = itertools.chain(_all_runs(history), history.table("attempts"))
    return {row["fence"]: row["claimed_at"] for row in rows if row.get("claimed_at")}


PROBES: Final = 3
"""So many probes of a breaker may begin within a second: one that is lost is followed at once."""


def _check_breaker(history: History) -> Iterator[str]:
    """Only probes begin while the breaker is not closed: of nodes that can have heard of it, so
    long after it opened, after they began and after an outage, as a lease lasts.
    """
    ends: dict[float, float] = {}
    for look in history.of("look"):
        if look.get("broken_since") is not None:
            ends[look["broken_since"]] = look["now"]
    born: dict[int, float] = {}
    for execution in history.executions:
        born.setdefault(execution.pid, execution.began)
    claimed, hurt = _claims(history), list(outages(history))
    for since, until in ends.items():
        starts = sorted(
            claimed[execution.fence]
            for execution in history.executions
            if execution.gate == "guarded"
            and since + history.ttl < claimed.get(execution.fence, 0) <= until
            and execution.began > born[execution.pid] + history.ttl
            and not any(at < execution.began < end + history.ttl for at, end in hurt)
        )
        for first, last in zip(starts, starts[PROBES:], strict=False):
            if last - first < 1:
                yield f"C16: {PROBES + 1} runs began within {last - first:.3f} s, past a breaker"


def _check_nodes(history: History) -> Iterator[str]:
    """Labels, and weights: a node has so many slots."""
    processes: dict[int, list[Execution]] = defaultdict(list)
    for execution in history.executions:
        processes[execution.pid].append(execution)
        zone = GATES[execution.gate].zone if execution.gate is not None else None
        if zone is not None and zone_of(execution.node) != zone:
            yield f"C16: run {execution.run} for zone {zone} was executed by {execution.node}"
    for pid, executions in processes.items():
        most, at = most_at_once(history, executions, _weight)
        if most > SLOTS:
            yield f"C16: process {pid} had {most} of its {SLOTS} slots in use at {at:.3f}"


def _weight(execution: Execution) -> int:
    return GATES[execution.gate].weight if execution.gate is not None else 1


def _check_transfers(history: History) -> Iterator[str]:
    """Exactly once where the effect is in the transaction that ends the run."""
    effects = Counter(row["run"] for row in history.table("effects"))
    for row in _all_runs(history):
        if row["delivery"] == "transactional":
            wanted, found = int(row.get("outcome") == "succeeded"), effects[row["id"]]
            if found != wanted:
                yield f"C16: run {row['id']} had its effect {found} times, not {wanted}"


AHEAD_SECONDS: Final = 5.0
"""So long before it is due a fire that waits for the one before it may be let go."""


def _check_previous(history: History) -> Iterator[str]:
    """A fire that depends on the one before it begins after that has succeeded. Of one whose end is
    not kept any more nobody knows that it failed.
    """
    hidden = list(_without_history(history))
    ids = {execution.run for execution in history.executions if execution.gate == "g-previous"}
    schedules = {row["schedule_id"] for row in _all_runs(history) if row["id"] in ids}
    rows = [row for row in _all_runs(history) if row["schedule_id"] in schedules]
    good = [row["finished_at"] for row in rows if row.get("outcome") == "succeeded"]
    fires = [
        row
        for row in rows
        if row["origin"] == "schedule" and row.get("outcome") not in ("skipped", "superseded")
    ]
    fires.sort(key=lambda row: float(row["scheduled_for"]))
    for before, fire in itertools.pairwise(fires):
        executions = history.executions_of.get(fire["id"], [])
        if not executions:
            continue
        began = executions[0].began
        # It was judged at some time before its last claim, which may be long before it began.
        judged = history.boottime_of(fire["due_at"]) - AHEAD_SECONDS
        claimed = history.boottime_of(fire.get("claimed_at") or fire["due_at"])
        if any(begin <= max(began, claimed) and judged <= end for begin, end in hidden):
            continue
        over = before.get("finished_at")
        if over is None or history.boottime_of(over) > began + CLOCK_SLACK + history.slack:
            yield f"C16: run {fire['id']} began before the fire before it, {before['id']}, was over"
        elif before["outcome"] in FAILED and not any(
            over <= at and history.boottime_of(at) <= began + CLOCK_SLACK + history.slack
            for at in good
        ):
            yield f"C16: run {fire['id']} began, but the fire before it, {before['id']}, has failed"


def _without_history(history: History) -> Iterator[tuple[float, float]]:
    """From when to when a partition was away, and what was judged meanwhile may begin."""
    faults = [event for event in history.of("fault") if event["name"] == "lose_partition"]
    ends = {event["number"]: event["at"] for event in faults if event["phase"] == "off"}
    for event in faults:
        if event["phase"] == "on":
            yield event["at"], ends.get(event["number"], float("inf")) + history.ttl


def _check_due(history: History) -> Iterator[str]:
    """The last attempt of a run is not begun before it is due. One that was taken for lost, and
    succeeded all the same, had been put off meanwhile.
    """
    lost = {row.get("fence") for row in history.table("attempts")}
    for row in history.table("ended"):
        due = history.boottime_of(row["due_at"])
        for execution in history.executions_of.get(row["id"], []):
            if execution.fence != row["fence"] or row["fence"] in lost:
                continue
            if execution.began < due - CLOCK_SLACK - history.slack:
                yield f"C16: run {row['id']} began {due - execution.began:.3f} s before it was due"


def _all_runs(history: History) -> Iterator[Facts]:
    return itertools.chain(history.table("ended"), history.table("live"))
