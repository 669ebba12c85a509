"""Verifies that each instant of a schedule has one answer: compares rows with each other, and rows
with the specs of each version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries import ledger_checks as ask
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.verifying import Bound, Entry, Pause, Range, Timing, Verdict, verify
from pgcron_ha.spec.spec import Spec, spec_of
from pgcron_ha.spec.zones import TZDATA

_NEVER: Final = datetime.max.replace(tzinfo=UTC)

MOST_INSTANTS: Final = 20_000
"""Of one schedule: some tenths of a second of computing."""


@dataclass(frozen=True)
class Proof:
    """What was verified, and every row or instant that breaks a rule."""

    schedules: int
    instants: int
    breaks: list[Row]
    """Each with rule, schedule, fire_at, run_id and detail."""
    is_cut: bool
    """Whether schedules or instants were left out because a bound was reached."""
    other_tzdata: str | None
    """The version that the cluster uses, if another is installed here: only schedules in UTC were
    compared with their specs.
    """


async def prove(
    connection: Any,
    since: datetime,
    *,
    name: str | None = None,
    schedules: int = ask.MOST_SCHEDULES,
    instants: int = MOST_INSTANTS,
    seconds: float = 60,
    schema: str = DEFAULT_SCHEMA,
) -> Proof:
    """Verify what fired since an instant, of one schedule or of all: at most `schedules` of them,
    `instants` of each, and about `seconds` long. Raises NotFound.
    """
    began = monotonic()
    deciding = await ask.deciding_tzdata(connection, schema=schema)
    others = None if deciding == TZDATA else deciding
    found = await ask.verifiable_schedules(
        connection, name, only_utc=others is not None, at_most=schedules, schema=schema
    )
    by_one = name is None and len(found) == schedules  # there may be more than are verified
    breaks = [] if by_one else await ask.broken_rows(connection, name, since=since, schema=schema)
    looked_at = total = 0
    is_cut = by_one
    for schedule in found:
        if monotonic() - began > seconds:
            is_cut = True
            break
        if by_one:
            breaks += await ask.broken_rows(
                connection, schedule["name"], since=since, schema=schema
            )
        verdict = await _verdict(connection, schedule, since, instants, schema)
        looked_at, total = looked_at + 1, total + verdict.instants
        is_cut = is_cut or verdict.reached < schedule["watermark"]
        breaks += [
            {
                "rule": broken.rule,
                "schedule_id": schedule["id"],
                "schedule": schedule["name"],
                "fire_at": broken.fire_at,
                "run_id": None,
                "detail": "by its spec of that time",
            }
            for broken in verdict.breaks
        ]
    return Proof(looked_at, total, breaks, is_cut, others)


async def _verdict(
    connection: Any, schedule: Row, since: datetime, most: int, schema: str
) -> Verdict:
    """In one snapshot, so that nothing changes between the reads."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        read = await ask.ledger_of(connection, schedule["id"], since, most=most, schema=schema)
    if read is None:
        return Verdict(0, schedule["watermark"], ())
    return verdict_of(read, most)


def verdict_of(read: ask.LedgerOf, most: int) -> Verdict:
    """The rows compared with the versions."""
    until = min(read.watermark, read.complete_until)
    known = [row for row in read.versions if row["since"] is not None]
    entries = {
        row["fire_at"]: Entry(row["is_by_hand"], row["made_at"] if row["is_counted"] else None)
        for row in read.entries
    }
    ranges = [
        Range(row["first_at"], row["last_at"], row["reason"] == "paused") for row in read.ranges
    ]
    return verify(
        list(_timings(known, read.after, until)),
        entries,
        ranges,
        until,
        most,
        list(_pauses(known)),
        _bound(known, read),
    )


def _pauses(versions: list[Row]) -> Iterator[Pause]:
    """Consecutive versions that were paused, up to the one that fired again."""
    began: Row | None = None
    for row, following in zip(versions, [*versions[1:], None], strict=True):
        content = row["content"]
        if content["enabled"]:
            continue
        if began is None:
            began, drops = row, True
        # A probe of what failures have paused runs, and so may what the catch-up policy decides.
        drops = drops and _drops(content) and content.get("paused_by") != "pgcron_ha"
        if following is None:
            yield Pause(began["since"], *(_paused_until(content, _NEVER), _NEVER), drops)
        elif following["content"]["enabled"]:
            end = following["since"]
            drops = drops and _drops(following["content"])
            yield Pause(began["since"], _paused_until(content, end), end, drops)
            began = None


def _drops(content: Row) -> bool:
    return bool(content.get("after_pause", "drop") == "drop")


def _paused_until(content: Row, end: datetime) -> datetime:
    until = content.get("paused_until")
    return end if until is None else min(datetime.fromisoformat(until), end)


def _bound(versions: list[Row], read: ask.LedgerOf) -> Bound | None:
    """`max_runs` of the current version, since the first of the unbroken series that had it."""
    bound: Bound | None = None
    for row in versions:
        runs = row["content"].get("max_runs")
        if runs is None:
            bound = None
        elif bound is None:
            bound = Bound(row["since"], runs, runs, False)
        else:
            bound = bound._replace(runs=runs, most=max(bound.most, runs))
    is_whole = bound is not None and bound.since > read.after
    is_whole = is_whole and read.complete_until == read.watermark
    is_whole = is_whole and not any(row["is_gone"] for row in read.entries)  # by retention
    spec = _spec(versions[-1]["content"]) if versions else None
    if bound is None or spec is None or not (is_whole and read.has_ended):
        return bound
    return bound._replace(is_over=spec.next(read.watermark) is not None)


def _timings(versions: list[Row], after: datetime, until: datetime) -> Iterator[Timing]:
    """When each version held."""
    ends = [row["since"] for row in versions[1:]] + [until]
    for row, end in zip(versions, ends, strict=True):
        content = row["content"]
        begin = max(row["since"], after)
        if begin < end:
            yield Timing(begin, end, _spec(content))


def _spec(content: Row) -> Spec | None:
    try:
        spec = spec_of(content)
    except PgcronError:  # it was invalid, and decided nothing
        return None
    return None if spec.assets else spec  # no spec names their fires
