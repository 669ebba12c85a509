"""C1: each fire that was owed is decided once, and nothing else is.

What a schedule owed follows from the log of its edits and the oracle. When an edit took effect is
known only as the time between its sending and its answer; in between a fire of any of the
versions that may have been in force may be decided, and one that all of them name must be.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, inf
from typing import Any

from tests.chaos.checking.history import Facts, History
from tests.chaos.checking.oracle import is_fire

UNKNOWN_SECONDS = 12.0
"""A statement whose answer never came has been carried out by then, or never will be."""

CLOCK_SLACK = 0.02
LATE_EDIT_SECONDS = 30.0
"""An edit in a transaction that could not see new rows is made true by a node, some time after."""


@dataclass(frozen=True)
class Version:
    """A schedule as it stood from somewhere in [earliest, latest] on. `None`: deleted."""

    earliest: float
    latest: float
    spec: str
    timezone: str
    is_enabled: bool
    is_deleted: bool = False

    def names(self, second: int) -> bool:
        """Whether this version owes that second."""
        return self.is_enabled and self.would_name(second)

    def would_name(self, second: int) -> bool:
        """Whether it would, if it were not paused."""
        return not self.is_deleted and is_fire(self.spec, self.timezone, second)


def check_fires(history: History) -> tuple[list[str], dict[str, int]]:
    """What is wrong, and how many fires were owed and how they were decided."""
    problems: list[str] = []
    counts: Counter[str] = Counter()
    decided: dict[int, Counter[int]] = defaultdict(Counter)
    cancelled: dict[int, set[int]] = defaultdict(set)
    for row in history.table("occurrences"):
        second = _second(row["fire_at"])
        decided[row["schedule_id"]][second] += 1
        if row["decision"] == "cancelled" and row.get("decided_at", 0.0) < row["fire_at"]:
            cancelled[row["schedule_id"]].add(second)
        counts[f"decided: {row['decision']}"] += 1
    missed: dict[int, list[Facts]] = defaultdict(list)
    for row in history.table("missed"):
        missed[row["schedule_id"]].append(row)
    watermarks = {row["schedule_id"]: row["watermark"] for row in history.table("cursors")}
    poisoned = {event["schedule"] for event in history.of("poisoned")}
    for schedule, versions in versions_of(history).items():
        if schedule in poisoned:
            continue
        end = watermarks.get(schedule, versions[-1].earliest)
        ledger = Ledger(versions, decided[schedule], missed[schedule], end, cancelled[schedule])
        name = f"schedule {schedule}"
        problems += [f"C1: {name}: {problem}" for problem in ledger.problems()]
        counts["owed"] += ledger.owed
        counts["missed"] += ledger.missed_fires
    unknown = set(decided) - set(versions_of(history)) - poisoned
    problems += [f"C1: fires of a schedule nobody made: {schedule}" for schedule in unknown]
    return problems, dict(counts)


class Ledger:
    """One schedule: its versions, what was decided singly and in ranges, and how far."""

    def __init__(
        self,
        versions: list[Version],
        decided: Counter[int],
        missed: list[Facts],
        watermark: float,
        cancelled: set[int],
    ) -> None:
        self.versions = versions
        self.decided = decided
        self.missed = missed
        self.watermark = watermark
        self.cancelled = cancelled
        self.owed = 0
        self.missed_fires = 0

    def problems(self) -> Iterator[str]:
        """What is not as it should be, second by second."""
        first = floor(self.versions[0].earliest)
        last = floor(max([self.watermark, *self.decided]))
        for second in range(first, last + 1):
            yield from self._judge(second)

    def _judge(self, second: int) -> Iterator[str]:
        possible = self._possible(second)
        named = [version.names(second) for version in possible]
        singly = self.decided[second]
        ranges = sum(1 for row in self.missed if row["first_at"] <= second <= row["last_at"])
        is_owed = bool(named) and all(named) and second <= self.watermark
        if is_owed:
            self.owed += 1
            self.missed_fires += ranges if not singly else 0
        at = f"{second} ({second % 60:02d})"
        if is_owed and not singly and not ranges:
            yield f"fire {at} lost"
        if self._is_reported_pause(second, possible) and not ranges:
            yield f"fire {at} of a pause that is over is told nowhere"
        # Cancelled ahead of its time: a range that comes later is of the fires without a row.
        is_doubled = singly and ranges and any(named) and second not in self.cancelled
        if singly > 1 or is_doubled:
            yield f"fire {at} decided {singly} times and in {ranges} ranges"
        if singly and not any(named) and not self._was_cancelled_ahead(second):
            yield f"fire {at} decided, but nobody owed it"

    def _was_cancelled_ahead(self, second: int) -> bool:
        """Somebody decided it before an edit or a pause took it away; that stays decided."""
        return second in self.cancelled and any(v.names(second) for v in self.versions)

    def _is_reported_pause(self, second: int, possible: list[Version]) -> bool:
        is_paused = all(v.would_name(second) and not v.is_enabled for v in possible)
        return bool(possible) and is_paused and second <= self.watermark

    def _possible(self, second: int) -> list[Version]:
        """The versions that may have been in force at that instant."""
        known = [version for version in self.versions if version.earliest <= second + CLOCK_SLACK]
        over = [i for i, version in enumerate(known) if version.latest + CLOCK_SLACK < second]
        possible = known[over[-1] :] if over else known
        if possible and not over and self.versions[0].latest >= second - CLOCK_SLACK:
            # It may not have existed yet.
            possible = [Version(-inf, -inf, "", "UTC", False, True), *possible]
        return possible


def versions_of(history: History) -> dict[int, list[Version]]:
    """By schedule id, in their order."""
    operations = history.answers()
    deletions = {
        facts["value"]: facts
        for facts in operations.values()
        if facts["what"] == "delete" and facts["result"] == "ok"
    }
    creations = {
        facts["value"]: facts
        for facts in operations.values()
        if facts["what"] == "create" and facts["result"] == "ok"
    }
    found: dict[int, list[Version]] = defaultdict(list)
    rows = history.table("versions")
    for row in sorted(rows, key=lambda each: (each["schedule_id"], each["version"])):
        content = _content(row)
        operation = operations.get(_operation(content))
        if row["operation"] == "delete":
            operation = deletions.get(row["schedule_id"])
        elif content["enabled"] is False and _is_end(operations, row, history):
            operation = None
        elif operation is None and row["operation"] == "create":
            operation = creations.get(row["schedule_id"])
        found[row["schedule_id"]].append(_version(row, content, operation, history))
    return found


def _is_end(operations: dict[int, Facts], row: Facts, history: History) -> bool:
    """Whether this version was written by the pause of everything, which stamps no number."""
    pauses = [facts for facts in operations.values() if facts["what"] == "pause all"]
    return any(row["at"] >= facts["at"] + history.offset - 1 for facts in pauses)


def _version(
    row: Facts, content: dict[str, Any], operation: Facts | None, history: History
) -> Version:
    earliest = latest = row["at"]
    latest += UNKNOWN_SECONDS if operation is None else 0.0
    if operation is not None:
        earliest = min(operation["at"] + history.offset, row["at"])
        until = operation["until"]
        if until is None or operation["result"] == "unknown":
            latest = earliest + UNKNOWN_SECONDS
        else:
            latest = max(until + history.offset, row["at"])
        if operation.get("is_late"):
            latest += LATE_EDIT_SECONDS
    return Version(
        earliest,
        latest,
        content["spec"],
        content["timezone"],
        content["enabled"],
        row["operation"] == "delete",
    )


def _content(row: Facts) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(row["content"])
    return content


def _operation(content: dict[str, Any]) -> int:
    number: int = content["args"].get("op", 0)
    return number


def _second(instant: float) -> int:
    second = round(instant)
    assert abs(second - instant) < 1e-6, f"a fire between seconds: {instant}"
    return ceil(second)
