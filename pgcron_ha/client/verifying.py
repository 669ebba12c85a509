"""Verifies that each instant of a schedule has one answer: compares rows with each other, and rows
with the specs of each version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Final

from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries import ledger_checks as ask
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.verifying import Timing, Verdict, verify
from pgcron_ha.spec.spec import Spec, spec_of
from pgcron_ha.spec.zones import TZDATA

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
    began, session = monotonic(), Session(connection, schema)
    deciding = await session.call(ask.deciding_tzdata)
    others = None if deciding == TZDATA else deciding
    found = await session.call(
        ask.verifiable_schedules, name, only_utc=others is not None, at_most=schedules
    )
    by_one = name is None and len(found) == schedules  # there may be more than are verified
    breaks = [] if by_one else await session.call(ask.broken_rows, name, since=since)
    looked_at = total = 0
    is_cut = by_one
    for schedule in found:
        if monotonic() - began > seconds:
            is_cut = True
            break
        if by_one:
            breaks += await session.call(ask.broken_rows, schedule["name"], since=since)
        verdict = await _verdict(session, schedule, since, instants)
        looked_at, total = looked_at + 1, total + verdict.instants
        is_cut = is_cut or verdict.reached < schedule["watermark"]
        of_which = {"schedule_id": schedule["id"], "schedule": schedule["name"]}
        more = {"run_id": None, "detail": "by its spec of that time"}
        breaks += [{**broken._asdict(), **of_which, **more} for broken in verdict.breaks]
    return Proof(looked_at, total, breaks, is_cut, others)


async def _verdict(session: Session, schedule: Row, since: datetime, most: int) -> Verdict:
    """In one snapshot, so that nothing changes between the reads."""
    async with session.connection.transaction(isolation="repeatable_read", readonly=True):
        read = await session.call(ask.ledger_of, schedule["id"], since, most=most)
    return Verdict(0, schedule["watermark"], ()) if read is None else verdict_of(read, most)


def verdict_of(read: ask.LedgerOf, most: int) -> Verdict:
    """The rows compared with the versions."""
    return verify(list(_timings(read)), read.fires, read.ranges, read.until, most)


def _timings(read: ask.LedgerOf) -> Iterator[Timing]:
    """When each version held."""
    ends = [row["since"] for row in read.versions[1:]] + [read.until]
    for row, end in zip(read.versions, ends, strict=True):
        begin = max(row["since"], read.after)
        if begin < end:
            yield Timing(begin, end, _spec(row["content"]))


def _spec(content: Row) -> Spec | None:
    try:
        spec = spec_of(content)
    except PgcronError:  # it was invalid, and decided nothing
        return None
    return None if spec.assets else spec  # no spec names their fires
