"""Turns schedules into runs ahead of time, on every node, without an owner.

A pass reads what schedules have to decide, computes fires in Python without a lock, and commits by
compare-and-set: a schedule that was edited, or that another node decided meanwhile, is left as it
is. Two nodes at once are harmless.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from pgcron_ha.db.link import Link, Row
from pgcron_ha.engine.control import (
    LATE_AFTER,
    chosen_probes,
    early_fires,
    end_pauses,
    judge_failures,
    one_fire,
)
from pgcron_ha.engine.counting import count_decided
from pgcron_ha.engine.previews import AT_ONCE, write_previews
from pgcron_ha.engine.service import Service
from pgcron_ha.engine.zone_rules import ZoneRules
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.delays import delay_of
from pgcron_ha.model.plan import Plan, plan
from pgcron_ha.model.schedule_spec import spec_of
from pgcron_ha.model.zone_data import version_in_force
from pgcron_ha.telemetry.events import ScheduleIsInvalid
from pgcron_ha.telemetry.log import emit

BATCH: Final = 200
"""Schedules of one statement; also how long the engine's loop computes without a break."""

FIRES_PER_SCHEDULE: Final = 1000
"""Fires that one schedule gets in one statement; the rest in the next pass."""
# A century; PostgreSQL's intervals reach further than anybody's instants.
LONGEST_WINDOW: Final = 36_525 * 86_400.0

FIRES_PER_BATCH: Final = 5000

INTERVAL_SECONDS: Final = 5.0

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class Materializer(Service):
    """Decides fires up to the horizon."""

    name: ClassVar[str] = "materializer"

    def __init__(self, link: Link, horizon: float) -> None:
        """`horizon` in seconds: how far ahead a fire becomes a run."""
        super().__init__(min(INTERVAL_SECONDS, horizon / 4))
        self._link = link
        self._horizon = horizon
        self._zones = ZoneRules(link)
        self.materialized = 0

    async def run_once(self) -> float | None:
        """One batch of schedules. Begins when half of the horizon is used up, so that frequent
        schedules are decided in bulk.
        """
        try:
            is_changing = await self._control()
        except PgcronError:
            await self._materialize()  # what one of them asks for holds up no fire of the others
            raise
        wait = await self._materialize()
        return 0 if is_changing else wait

    async def _materialize(self) -> float | None:
        rows = await self._link.rows("due_cursors", refill=self._horizon / 2, at_most=BATCH)
        if not rows:
            return None
        decisions = await self._decide(rows)
        if not decisions:
            return 0
        columns, is_short = _columns(decisions)
        counts = (await self._link.rows("materialize", **columns))[0]
        self._count(counts)
        new = [row["schedule_id"] for row, _, _ in decisions if row["status"] == "unchecked"]
        if counts["schedules"] and 0 < len(new) <= AT_ONCE:
            await write_previews(self._link, new)
        # Nothing moved: other nodes are at it, and looking again at once would only repeat their
        # work.
        return 0 if (len(rows) == BATCH or is_short) and counts["schedules"] else None

    async def _control(self) -> bool:
        """What people's control of schedules, and new rules of time zones, leave to nodes; mostly
        nothing. True: there is more to do.
        """
        given = {"horizon": self._horizon, "tzdata": version_in_force()}
        duties = (await self._link.rows("control_duties", **given))[0]["duties"]
        is_changing = await self._zones.look(duties)
        if "pending_edits" in duties:
            await self._finish_edits()
        if "overdue_pauses" in duties:
            await end_pauses(self._link)
        if "failing_schedules" in duties:
            await judge_failures(self._link)
        if "early_fires" in duties:
            await self._make_early_fires()
        if "due_probes" in duties:
            await self._make_probes()
        if "take_given_back" in duties:
            await self._link.rows("take_given_back", at_most=1000)
        return is_changing

    async def _finish_edits(self) -> None:
        """Edits made under another isolation level than READ COMMITTED are made true here."""
        for row in await self._link.rows("pending_edits", at_most=BATCH):
            await self._link.rows("apply_edit", schedule_id=row[0])

    async def _make_early_fires(self) -> None:
        for row in await early_fires(self._link, self._horizon):
            await self._make_fire(row, row["fire_at"])

    async def _make_probes(self) -> None:
        for probed in await chosen_probes(self._link, self._horizon):
            await self._make_fire(probed, probed["probe_fire"])
            await self._link.rows("mark_probe", schedule_id=probed["schedule_id"])

    async def _make_fire(self, row: Row | dict[str, Any], fire: datetime) -> None:
        columns = one_fire(row, fire, spec_of(row).canonical)
        self._count((await self._link.rows("materialize", **columns))[0])

    def _count(self, counts: Row) -> None:
        self.materialized += counts["runs"]
        count_decided(counts)

    async def _decide(self, rows: Sequence[Row]) -> list[tuple[Row, Plan, str]]:
        decided: list[tuple[Row, Plan, str]] = []
        for number, row in enumerate(rows):
            try:
                decided.append((row, *decide(row, self._horizon)))
            except PgcronError as error:
                await self._mark_invalid(row, error)
            if number % 25 == 24:
                await asyncio.sleep(0)  # a cold spec costs some tenths of a millisecond
        return decided

    async def _mark_invalid(self, row: Row, error: PgcronError) -> None:
        emit(ScheduleIsInvalid(row["schedule_id"], error.message))
        await self._link.rows(
            "mark_invalid",
            schedule_id=row["schedule_id"],
            generation=row["generation"],
            error=error.as_kept(),
        )


def decide(row: Row | dict[str, Any], horizon: float) -> tuple[Plan, str]:
    """What the schedule of a ``due_cursors`` row owes, and the canonical text of its spec.
    Raises PgcronError for a bad spec.
    """
    spec = spec_of(row)
    now: datetime = row["now"]
    most = FIRES_PER_SCHEDULE
    if row["max_runs"] is not None:
        most = min(most, row["max_runs"] - row["runs_made"])
        if most <= 0:  # unless one is given back meanwhile: the statement looks again
            return Plan([], [], row["watermark"], spec.next(row["watermark"])), spec.canonical
    decision = plan(
        spec,
        row["watermark"],
        now,
        now + timedelta(seconds=horizon),
        row["catchup"],
        timedelta(seconds=min(row["catchup_window"], LONGEST_WINDOW)),
        LATE_AFTER,
        most,
        delay_of(row),
    )
    return decision, spec.canonical


def _counted(taken: Sequence[tuple[Row, Plan, str]]) -> list[tuple[Row, datetime]]:
    """The fires of schedules that end after so many."""
    return [
        (row, fire)
        for row, planned, _ in taken
        if row["max_runs"] is not None
        for fire in planned.fires
    ]


def _columns(decisions: Sequence[tuple[Row, Plan, str]]) -> tuple[dict[str, Any], bool]:
    """The parameters of ``materialize``, and whether something had to be left for the next pass."""
    taken: list[tuple[Row, Plan, str]] = []
    fires = 0
    for row, planned, canonical in decisions:
        if fires and fires + len(planned.fires) > FIRES_PER_BATCH:
            break
        fires += len(planned.fires)
        taken.append((row, planned, canonical))
    missed = [
        (row["schedule_id"], dropped) for row, planned, _ in taken for dropped in planned.missed
    ]
    return {
        "schedule_ids": [row["schedule_id"] for row, _, _ in taken],
        "generations": [row["generation"] for row, _, _ in taken],
        "watermarks": [row["watermark"] for row, _, _ in taken],
        "new_watermarks": [planned.watermark for _, planned, _ in taken],
        "next_fires": [planned.next_fire or _NEVER for _, planned, _ in taken],
        "canonicals": [canonical for _, _, canonical in taken],
        "max_runs": [row["max_runs"] for row, _, _ in taken],
        "counted_ids": [row["schedule_id"] for row, fire in _counted(taken)],
        "counted_fires": [fire for _, fire in _counted(taken)],
        "delays": json.dumps(
            {
                f"{row['schedule_id']}/{fire.timestamp():.0f}": delay // timedelta(milliseconds=1)
                for row, planned, _ in taken
                for fire, delay in planned.delays.items()
            }
        ),
        "dropped_ids": [schedule for schedule, _ in missed],
        "dropped_firsts": [dropped.first for _, dropped in missed],
        "dropped_lasts": [dropped.last for _, dropped in missed],
        "dropped_counts": [dropped.count for _, dropped in missed],
        "dropped_reasons": [dropped.reason for _, dropped in missed],
        "fire_ids": [row["schedule_id"] for row, planned, _ in taken for _ in planned.fires],
        "fires": [fire for _, planned, _ in taken for fire in planned.fires],
        "tzdata": version_in_force(),
    }, len(taken) < len(decisions) or any(len(p.fires) >= FIRES_PER_SCHEDULE for _, p, _ in taken)
