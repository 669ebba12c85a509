"""Proves of schedules that each instant has its one answer: what rows say of each other, and what
the specs say of the rows, version by version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Final

from pgcron_ha.db import ledger_checks as ask
from pgcron_ha.db.overview import Row
from pgcron_ha.db.statements import DEFAULT_SCHEMA
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.schedule_spec import spec_of
from pgcron_ha.model.spec import Spec
from pgcron_ha.model.verifying import Range, Timing, Verdict, verify

MOST_INSTANTS: Final = 20_000
"""Of one schedule; some tenths of a second of search."""


@dataclass(frozen=True)
class Proof:
    """What was looked at, and every row or instant that breaks a rule."""

    schedules: int
    instants: int
    breaks: list[Row]
    """Each with rule, schedule, fire_at, run_id and detail."""
    is_cut: bool
    """Whether something was left out: more schedules, instants or time than there was room for."""


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
    """Look at what fired since an instant: of one schedule or of all, at most so many of them, so
    many instants of each, and about so long. NotFound.
    """
    began = monotonic()
    found = await ask.verifiable_schedules(connection, name, at_most=schedules, schema=schema)
    by_one = name is None and len(found) == schedules  # all would be more than were asked for
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
                "detail": "by its spec, as it stood then",
            }
            for broken in verdict.breaks
        ]
    return Proof(looked_at, total, breaks, is_cut)


async def _verdict(
    connection: Any, schedule: Row, since: datetime, most: int, schema: str
) -> Verdict:
    """One snapshot, so that nothing moves between the reads."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        read = await ask.ledger_of(connection, schedule["id"], since, most=most, schema=schema)
    if read is None:
        return Verdict(0, schedule["watermark"], ())
    until = min(read.watermark, read.complete_until)
    return verify(
        list(_timings(read.versions, since, until)),
        {row["fire_at"]: row["is_by_hand"] for row in read.entries},
        [Range(row["first_at"], row["last_at"]) for row in read.ranges],
        until,
        most,
    )


def _timings(versions: list[Row], after: datetime, until: datetime) -> Iterator[Timing]:
    """When each version held; one that a node has still to apply did not hold yet."""
    known = [row for row in versions if row["since"] is not None]
    ends = [row["since"] for row in known[1:]] + [until]
    for row, end in zip(known, ends, strict=True):
        begin = max(row["since"], after)
        if begin < end:
            content = row["content"]
            # Nor does one that had made all its runs owe any; when that was, no version tells.
            owes = content["enabled"] and content.get("max_runs") is None
            yield Timing(begin, end, _spec(content), bool(owes))


def _spec(content: Row) -> Spec | None:
    try:
        return spec_of(content)
    except PgcronError:  # it was invalid, and decided nothing
        return None
