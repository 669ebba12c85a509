"""How a run ended, as the database stores it: kind, message, size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

from pgcron_ha.engine.run.runner import Ended
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.assets import declared_of
from pgcron_ha.executors.contract.base import (
    SUCCEEDED,
    Context,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
    Succeeded,
)
from pgcron_ha.executors.contract.failures import causes_of, fingerprint_of
from pgcron_ha.harmless import storable

TEXT_LIMIT: Final = 18_000
"""Characters kept of an error or traceback in the database: more than executors give, which keep
the beginning and the end.
"""

_OVER_TIME: Final = {
    StopReason.TIMED_OUT: "it executed longer than its timeout",
    StopReason.SILENT: "it gave no sign for its silence timeout (no line, no progress, no beat)",
    StopReason.GIVEN_UP: "its time in all was over",
}
"""The stops for a time limit, and what is said of each."""


def is_release(ended: Ended) -> bool:
    """A stop of the node is not the run's fault: the attempt is given back, unless it may never
    begin twice.
    """
    context, outcome, _ = ended
    return (
        isinstance(outcome, Interrupted)
        and outcome.reason is StopReason.SHUTDOWN
        and (context.delivery != "at_most_once" or context.started_monotonic is None)
    )


def characters_of(ended: Ended) -> int:
    """Of what is sent about it."""
    outcome = ended[1]
    if isinstance(outcome, Succeeded):
        return len(outcome.text or "")
    if isinstance(outcome, Failed):
        return min(len(outcome.message) + len(outcome.traceback or ""), 2 * TEXT_LIMIT)
    return 0


def kind_of(outcome: Outcome) -> str:
    """How the attempt is recorded."""
    if isinstance(outcome, Interrupted):
        if outcome.reason in _OVER_TIME:
            return "timed_out"
        return "cancelled" if outcome.reason is StopReason.CANCELLED else "lease_lost"
    return "snoozed" if isinstance(outcome, Failed) and outcome.snooze else "failed"


def failure_of(outcome: Outcome) -> Failed:
    """What did not succeed, as a failure."""
    if isinstance(outcome, Failed):
        return outcome
    if isinstance(outcome, Interrupted):
        why, message = _OVER_TIME.get(outcome.reason), outcome.message
        if why is not None:
            message = why if message == f"stopped: {outcome.reason}" else f"{why}: {message}"
        return Failed(outcome.reason.name.title().replace("_", ""), message)
    return Failed("Unknown", "the outcome could not be stored", retry=False)


def attempt_end(ended: Ended, node: str) -> dict[str, Any]:
    """What ``fail_runs`` takes of a run that did not succeed."""
    context, outcome, _ = ended
    failure, began = failure_of(outcome), context.started_monotonic
    return {
        "run_id": context.run_id,
        "token": str(context.token),
        "elapsed": None if began is None else monotonic() - began,
        "kind": kind_of(outcome),
        "retryable": failure.retry,
        "retry_after": None if failure.after is None else failure.after.total_seconds(),
        "error_class": storable(failure.error_class, TEXT_LIMIT),
        "error": storable(failure.message, TEXT_LIMIT),
        "traceback": failure.traceback and storable(failure.traceback, TEXT_LIMIT),
        "causes": causes_of(failure),
        "fingerprint": failure.fingerprint or fingerprint_of(failure, context.handler),
        "node_name": node,
    }


def untellable(ended: Ended, error: PgcronError) -> Ended:
    """The failure that is stored instead of an outcome that the database can't take."""
    context, outcome, at = ended
    message = f"the database refused the outcome: {error.message}"
    retry = outcome.retry if isinstance(outcome, Failed) else False
    return context, Failed("OutcomeRefused", message, retry=retry), at


def results_of(batch: Sequence[Ended]) -> list[str | None] | None:
    """What the handlers returned and history keeps; None when none of them returned anything."""
    if all(ended[1] is SUCCEEDED for ended in batch):
        return None
    return [
        outcome.text if isinstance(outcome, Succeeded) and _keeps_result(context) else None
        for context, outcome, _ in batch
    ]


def _keeps_result(context: Context) -> bool:
    """What steps of its workflow may read is kept."""
    return context.keeps_result or context.origin == "step"


def without_args(batch: Sequence[Ended]) -> list[int] | None:
    """The runs of which history keeps no args; None when there are none."""
    return [context.run_id for context, _, _ in batch if not context.keeps_args] or None


def declared_by_run(batch: Sequence[Ended]) -> str | None:
    """What runs declare with their success; None when none of them does."""
    declared = {context.run_id: declared_of(context) for context, _, _ in batch}
    return json.dumps(declared) if any(declared.values()) else None
