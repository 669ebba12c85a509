"""C2, C5–C8: what was executed, beside how it ended."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tests.chaos.checking.history import Execution, Facts, History

DEFAULT_ATTEMPTS = 5
CLOCK_SLACK = 0.05
UNSTARTED = ("skipped", "expired", "superseded", "upstream_failed")
"""Outcomes of runs that never began."""


def _slack(history: History) -> float:
    return CLOCK_SLACK + history.slack


def check_once(history: History) -> Iterator[str]:
    """C2: a run ends once, is not alive after it, and a fire has one run."""
    ended = Counter(row["id"] for row in history.table("ended"))
    for run, count in ended.items():
        if count > 1:
            yield f"C2: run {run} ended {count} times"
    for row in history.table("live"):
        if row["id"] in ended:
            yield f"C2: run {row['id']} has ended and is alive"
    fires = Counter(
        (row["schedule_id"], row["scheduled_for"])
        for row in itertools.chain(history.table("ended"), history.table("live"))
        if row["scheduled_for"] is not None
    )
    for (schedule, fire), count in fires.items():
        if count > 1:
            yield f"C2: fire {fire} of schedule {schedule} has {count} runs"
    known = ended.keys() | {row["id"] for row in history.table("live")}
    for row in history.table("occurrences"):
        if row["decision"] == "run" and row["run_id"] not in known:
            yield f"C2: the run {row['run_id']} of fire {row['fire_at']} is nowhere"


def check_success(history: History) -> Iterator[str]:
    """C5: what succeeded was executed to its end, by the very claim whose success is told."""
    effects = Counter(row["key"] for row in history.table("effects"))
    keys = {event["run"]: event["key"] for event in history.of("start")}
    for row in history.table("ended"):
        if row["outcome"] != "succeeded" or row["handler"].startswith("workflow:"):
            continue  # what of a workflow is executed are its steps
        run = row["id"]
        complete = [
            execution
            for execution in history.executions_of.get(run, [])
            if execution.fence == row["fence"] and execution.has_completed
        ]
        if not complete:
            yield f"C5: run {run} succeeded, but its claim {row['fence']} did not complete"
        elif complete[0].heard > history.boottime_of(row["finished_at"]) + _slack(history):
            yield f"C5: run {run} was told as succeeded before it had completed"
        if row["handler"] == "py:ledger" and not effects[keys.get(run, "")]:
            yield f"C5: run {run} succeeded, but its effect is not there"


def check_at_most_once(history: History) -> Iterator[str]:
    """C6: begun at most once, and not after its end."""
    for row in _all_runs(history):
        if row["delivery"] != "at_most_once":
            continue
        starts = history.executions_of.get(row["id"], [])
        if len(starts) > 1:
            yield f"C6: run {row['id']}, which may start once, started {len(starts)} times"
        finished = row.get("finished_at")
        for execution in starts:
            if finished is not None and execution.began > (
                history.boottime_of(finished) + _slack(history)
            ):
                yield f"C6: run {row['id']} began after it had ended as {row['outcome']}"


def check_overlap(history: History) -> Iterator[str]:
    """C7: no run, and no key, executes twice at the same time."""
    unkeyed = {row["id"] for row in _all_runs(history) if row["origin"] in ("rerun", "redrive")}
    keys: dict[str, list[Execution]] = defaultdict(list)
    for execution in history.executions:
        if execution.concurrency_key is not None and execution.run not in unkeyed:
            keys[execution.concurrency_key].append(execution)
    for name, executions in keys.items():
        for first, second in overlapping(history, executions):
            yield f"C7: concurrency key {name}: {_both(first, second)}"
    for run, executions in history.executions_of.items():
        for first, second in overlapping(history, executions):
            yield f"C7: run {run} executed twice at once: {_both(first, second)}"


def overlapping(
    history: History, executions: Iterable[Execution]
) -> Iterator[tuple[Execution, Execution]]:
    """Pairs in time. A frozen process executes nothing, and has a moment to notice its loss."""
    active: list[Execution] = []
    for execution in sorted(executions, key=lambda each: each.began):
        active = [each for each in active if each.heard > execution.began]
        for other in active:
            if not was_frozen(history, other, execution.began):
                yield other, execution
        active.append(execution)


def was_frozen(history: History, execution: Execution, at: float) -> bool:
    """Whether what was heard of it after that instant is only its waking up."""
    waking = 0.1 * history.ttl + 0.6
    return any(
        freeze.begin <= at and execution.heard <= freeze.end + waking
        for freeze in history.freezes.get(execution.pid, [])
    )


def check_attempts(history: History) -> Iterator[str]:
    """C8: attempts are counted, bounded and one after another; fences only grow."""
    recorded: dict[int, list[Facts]] = defaultdict(list)
    for row in history.table("attempts"):
        recorded[row["run_id"]].append(row)
    for row in _all_runs(history):
        run = row["id"]
        allowed = row["max_attempts"] or (
            1 if row["delivery"] == "at_most_once" else DEFAULT_ATTEMPTS
        )
        if row["attempt"] > allowed:
            yield f"C8: run {run} was tried {row['attempt']} times, {allowed} are allowed"
        executions = history.executions_of.get(run, [])
        # What waits between two attempts is superseded, too.
        has_begun = row.get("outcome") == "superseded" and row["attempt"] > 0
        if row.get("outcome") in UNSTARTED and executions and not has_begun:
            yield f"C8: run {run} ended as {row['outcome']}, but began {len(executions)} times"
        if row.get("outcome") == "lost" and row["delivery"] != "at_most_once":
            yield f"C8: run {run} is lost, but may be tried again"
        yield from _check_order(run, executions)
        yield from _check_waits(history, run, executions, recorded[run])


def _check_order(run: int, executions: list[Execution]) -> Iterator[str]:
    for first, second in itertools.pairwise(executions):
        if second.fence <= first.fence:
            yield f"C8: run {run}: fence {second.fence} came after {first.fence}"
        if second.attempt <= first.attempt:
            yield f"C8: run {run}: attempt {second.attempt} came after {first.attempt}"


def _check_waits(
    history: History, run: int, executions: list[Execution], recorded: list[Facts]
) -> Iterator[str]:
    """An attempt begins after the end of the one before it was written down."""
    ends = {row["attempt"]: history.boottime_of(row["ended_at"]) for row in recorded}
    if len(ends) < len(recorded):
        yield f"C8: run {run} has two records of one attempt"
    for execution in executions:
        ended = ends.get(execution.attempt - 1)
        if ended is not None and execution.began < ended - _slack(history):
            yield f"C8: run {run}: attempt {execution.attempt} began before the last one's end"


def check_outcomes(history: History) -> Iterator[str]:
    """C8: nothing is cancelled that nobody cancelled; what never fails does not die, unless two
    nodes ended before its handler had begun.
    """
    asked = {
        facts["run"]
        for facts in history.answers().values()
        if facts["what"] == "cancel" and facts["result"] != "refused"
    }
    deleted = {
        row["schedule_id"] for row in history.table("versions") if row["operation"] == "delete"
    }
    early_losses = Counter(
        row["run_id"]
        for row in history.table("attempts")
        if row["outcome"] == "lease_lost" and row["started_at"] is None
    )
    recorded = Counter(row["run_id"] for row in history.table("attempts"))
    for row in history.table("ended"):
        is_replaced = (row["cancel_reason"] or "").startswith("replaced by run ")
        is_wanted = row["id"] in asked or row["schedule_id"] in deleted or is_replaced
        is_wanted |= row["origin"] == "step"  # its workflow says why
        if row["outcome"] == "cancelled" and not is_wanted:
            yield f"C8: run {row['id']} was cancelled by nobody ({row['cancel_reason']})"
        # Of an attempt that ended while its partition was away nothing is recorded.
        unknown = max(row["attempt"] - recorded[row["id"]], 0)
        ended_two_nodes = early_losses[row["id"]] + unknown >= 2
        if row["outcome"] == "dead" and row["max_attempts"] == 100 and not ended_two_nodes:
            yield f"C8: run {row['id']} ({row['handler']}) died after {row['attempt']} attempts"


def _all_runs(history: History) -> Iterator[Facts]:
    return itertools.chain(history.table("ended"), history.table("live"))


def _both(first: Execution, second: Execution) -> str:
    return (
        f"run {first.run} (fence {first.fence}, {first.node}) was heard"
        f" {first.heard - second.began:.3f} s after run {second.run} (fence {second.fence},"
        f" {second.node}) began"
    )
