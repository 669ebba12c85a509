"""What edits, pauses, failures and a new tzdata of schedules leave to be done, on any node."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from pgcron_ha.client.fires import is_fire
from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.batches import SetAside, one_by_one
from pgcron_ha.engine.run.counters import count_decided
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.model.plan import Plan, delay_of
from pgcron_ha.spec.spec import spec_of
from pgcron_ha.spec.zones import TZDATA
from pgcron_ha.telemetry.events import SchedulePausedItself, TzdataTaken
from pgcron_ha.telemetry.log import emit

MOST: Final = 200
"""Schedules of one pass; the rest in the next."""

Key = tuple[str, int]
"""A duty and a schedule: what is set aside for one is not for the others."""

Decision = tuple[Row, Plan, str]
"""A schedule, what it owes, and the canonical text of its spec."""

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_OLDER: Final = ("tzdata", 0)


@dataclass(eq=False)
class ScheduleDuties:
    """Duties are isolated from each other, and in each duty every schedule from the others."""

    _link: Link
    _horizon: float
    _aside: SetAside[Key]
    _made: Callable[[Sequence[int]], None]
    _goes_on: bool = False
    waits_for_second: bool = False
    """Whether a schedule has fired, or was edited, in this second, and is to fire again."""
    is_behind: bool = False
    """Whether another node's tzdata decides: this one computes no fires."""

    async def look(self) -> bool:
        """Fulfils what is to be done; mostly nothing is. True: there is more to do.

        Raises the first error of a duty when all of them had their turn.
        """
        given = {"horizon": self._horizon, "tzdata": TZDATA}
        duties = (await self._link.rows("control_duties", **given))[0]["duties"]
        self._goes_on = self.waits_for_second = False
        self.is_behind = "tzdata" in duties
        if self.is_behind and not await self._take_tzdata():
            return False
        self.is_behind = False
        self._aside.forget(_OLDER)
        errors: list[Exception] = []
        for duty, fulfil in self._fulfilled_by().items():
            if duty not in duties:
                self._aside.forget_absent(duty, set())
                continue
            try:
                await fulfil()
            except DatabaseUnavailable:
                raise
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return self._goes_on

    async def _take_tzdata(self) -> bool:
        """Whether this node decides: no living node has a newer tzdata."""
        taken = await self._link.rows("take_tzdata", tzdata=TZDATA)
        if taken:
            emit(TzdataTaken(TZDATA, taken[0]["before"]))
            self._goes_on = True
            return True
        deciding: str | None = (await self._link.rows("deciding_tzdata"))[0]["tzdata"]
        if deciding is not None and deciding > TZDATA:
            reported = (
                f"tzdata {TZDATA} is installed here, and the cluster has {deciding}: this node"
                " materializes no schedules; upgrade its tzdata package, and start it anew"
            )
            self._aside.put(_OLDER, "schedules", reported)
        return deciding is None

    def _fulfilled_by(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "outdated_plans": self._replan_outdated,
            # Edits made under another isolation level than READ COMMITTED are made true here.
            "pending_edits": partial(self._each, "pending_edits", "apply_edit"),
            # Before pauses end: what failed in a pause is not the first failure after it.
            "failing_schedules": partial(self._each, "failing_schedules", self._judge),
            "overdue_pauses": partial(self._each, "overdue_pauses", "resume_overdue"),
            "early_fires": partial(
                self._each, "early_fires", self._make_early_fire, horizon=self._horizon
            ),
            "given_back": partial(self._each, "given_back", "take_given_back"),
            "updated_assets": self._use_updates,
        }

    async def _replan_outdated(self) -> None:
        """Makes anew what another tzdata has made ahead."""
        noted = await self._link.rows("note_outdated_plans", at_most=MOST)
        self._goes_on |= bool(noted)
        await self._each("outdated_plans", "replan")

    async def _judge(self, row: Row) -> None:
        """Pauses a schedule that has failed too often."""
        schedule = row["schedule_id"]
        verdict = (await self._link.rows("judge_failures", schedule_id=schedule))[0]["verdict"]
        if verdict is not None:
            emit(SchedulePausedItself(schedule, " ".join(verdict.split())))

    async def _make_early_fire(self, row: Row) -> None:
        """Unless it is none any more: the schedule was edited, or SQL was given an instant that it
        could not judge. Raises what is wrong with a spec that this node can't read.
        """
        if is_fire(row, row["fire_at"]):
            await self._make_fire(row, row["fire_at"])

    async def _use_updates(self) -> None:
        """Counts updates of assets, and makes the runs that waited for them."""
        self._goes_on |= await self._link.value("settle_assets", at_most=MOST) == MOST
        await self._each("updated_assets", self._make_fire_of_updates)

    async def _make_fire_of_updates(self, row: Row) -> None:
        fire = row["fire_at"]
        if fire > row["watermark"]:
            await self._make_fire(row, fire, new_watermarks=[fire], uses_updates=True)
        else:
            self.waits_for_second = True

    async def _make_fire(self, row: Row, fire: datetime, **other: Any) -> None:
        parameters = one_fire(row, fire, spec_of(row).canonical) | other
        [counts] = await self._link.rows("materialize", **parameters)
        count_decided(counts)
        self._made(counts["blocked"])

    async def _each(
        self, duty: str, act: Callable[[Row], Awaitable[None]] | str, **parameters: Any
    ) -> None:
        """`act` (or its statement) on each of the schedules that the statement `duty` finds."""
        aside = self._aside.waiting_of(duty)
        rows = await self._link.rows(duty, at_most=MOST, aside=aside, **parameters)
        if len(rows) < MOST:
            self._aside.forget_absent(duty, {row["schedule_id"] for row in rows})

        async def go(row: Row) -> None:
            if isinstance(act, str):
                await self._link.rows(act, schedule_id=row["schedule_id"])
            else:
                await act(row)
            self._aside.forget((duty, row["schedule_id"]))
            self._goes_on |= len(rows) == MOST

        def failed(row: Row, error: PgcronError) -> None:
            what = f"schedule {row['name']!r}, {duty.replace('_', ' ')}"
            self._aside.put((duty, row["schedule_id"]), what, error)

        await one_by_one(rows, go, failed)


def one_fire(row: Row, fire: datetime, canonical: str) -> dict[str, Any]:
    """The parameters of ``materialize`` for a fire ahead of the cursor, which stays where it is,
    also if it has no next fire yet.
    """
    stays = {"next_fires": [row["next_fire"]]}
    ahead = Plan([fire], [], row["watermark"], None)
    return materialize_parameters([(row, ahead, canonical)]) | stays


def materialize_parameters(taken: Sequence[Decision]) -> dict[str, Any]:
    """The parameters of ``materialize``."""
    fires = [(row, fire) for row, planned, _ in taken for fire in planned.fires]
    missed = [
        {"schedule_id": row["schedule_id"], **vars(dropped)}
        for row, planned, _ in taken
        for dropped in planned.missed
    ]
    return {
        "schedule_ids": [row["schedule_id"] for row, _, _ in taken],
        "generations": [row["generation"] for row, _, _ in taken],
        "watermarks": [row["watermark"] for row, _, _ in taken],
        "new_watermarks": [planned.watermark for _, planned, _ in taken],
        "next_fires": [planned.next_fire or _NEVER for _, planned, _ in taken],
        "canonicals": [canonical for _, _, canonical in taken],
        "max_runs": [row["max_runs"] for row, _, _ in taken],
        "delays": [delay_of(row) for row, _, _ in taken],
        "missed": json.dumps(missed, default=datetime.isoformat),
        "fire_ids": [row["schedule_id"] for row, _ in fires],
        "fires": [fire for _, fire in fires],
        "tzdata": TZDATA,
        "uses_updates": False,
    }
