"""The stand-in of the verdicts on attempts: ``pgcron.judge_attempt`` and the
delays.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tests.simulation.tables import Run, seconds


class Failure(NamedTuple):
    """What a node tells of an attempt that did not succeed."""

    kind: str
    retryable: bool
    retry_after: float | None
    error_class: str | None
    error: str | None
    causes: list[str]


@dataclass
class Judged:
    """What becomes of its run."""

    verdict: str
    recorded: str
    delay: timedelta = timedelta(0)
    because: str | None = None


def judge_attempt(
    run: Run,
    failure: Failure,
    now: datetime,
    part: Callable[[], float],
    begun: datetime | None,
) -> Judged:
    policy: dict[str, Any] = json.loads(run.retry) if run.retry else {}
    judged = Judged(_verdict(run, failure), failure.kind)
    if judged.verdict == "cancelled":
        return judged
    if run.delivery == "at_most_once":
        if failure.kind == "snoozed":
            judged.recorded = "failed"
            judged.because = "a run that may be executed at most once can't come back"
        return judged
    after = _judge_causes(judged, failure, policy)
    if judged.recorded == "snoozed":
        often = run.snoozes or 0
        judged.verdict = "snooze" if often < policy.get("snoozes", 1000) else "dead"
        judged.because = None
        if judged.verdict == "dead":
            times = "once" if often == 1 else f"{often} times"
            judged.because = f"it was snoozed {times}, which is the most"
    if judged.verdict in ("retry", "snooze"):
        judged.delay = seconds(_delay(run, failure, policy, after, part))
        budget = policy.get("retry_for")
        if budget is not None and begun and now + judged.delay > begun + seconds(budget):
            judged.verdict, judged.because = (
                "dead",
                f"its policy retries for {seconds(budget)!s:0>8}",
            )
    if judged.verdict == "dead" and judged.recorded == "snoozed":
        judged.recorded = "failed" if failure.kind == "snoozed" else failure.kind
    return judged


def _verdict(run: Run, failure: Failure) -> str:
    if failure.kind == "cancelled" or run.cancel_at is not None:
        return "cancelled"
    if run.delivery == "at_most_once":
        return "lost" if failure.kind == "lease_lost" else "dead"
    if failure.kind == "lease_lost" and run.started_at is None and (run.lost_early or 0) > 1:
        return "dead"
    return "retry" if failure.retryable and run.attempt < (run.max_attempts or 5) else "dead"


def _judge_causes(judged: Judged, failure: Failure, policy: dict[str, Any]) -> float | None:
    """What the lists of the policy say; the delay they or the handler ask for."""
    causes = [*failure.causes, failure.kind]
    is_crash = failure.kind == "lease_lost"
    if failure.kind == "snoozed" or "pgcron_ha.Retry" in causes:
        return failure.retry_after
    if any(cause in policy.get("discard_on", []) for cause in causes):
        judged.verdict, judged.because = "dead", "its policy discards it"
        return failure.retry_after
    naps: dict[str, float] = policy.get("snooze_on", {})
    for cause in causes:
        if cause in naps and not is_crash:
            judged.recorded = "snoozed"
            return naps[cause]
    wanted = policy.get("retry_on")
    if judged.verdict == "retry" and wanted and not is_crash and not set(causes) & set(wanted):
        judged.verdict, judged.because = "dead", "its policy retries other causes"
    return failure.retry_after


def _delay(
    run: Run,
    failure: Failure,
    policy: dict[str, Any],
    after: float | None,
    part: Callable[[], float],
) -> float:
    if after is not None:
        return after
    if failure.kind == "lease_lost" and run.attempt == 1:
        return 0.0
    attempt = max(1, run.attempt - (run.snoozes or 0))
    backoff = policy.get("backoff", "exponential")
    base, cap = policy.get("base", run.retry_base), policy.get("cap", run.retry_cap)
    if backoff == "exponential":
        longest = min(cap, base * 2.0 ** (min(attempt, 20) - 1))
    elif backoff == "linear":
        longest = min(cap, base * attempt)
    elif backoff == "fixed":
        longest = min(cap, base)
    else:
        longest = backoff[min(attempt, len(backoff)) - 1]
    jitter = policy.get("jitter", backoff in ("exponential", "linear"))
    return float(longest * part() if jitter else longest)
