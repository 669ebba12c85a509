"""Which fires are owed, by arithmetic of its own, and whether each was decided exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.simulation.judge import Violation
from tests.simulation.store import Store
from tests.simulation.tables import FIRST_INSTANT


@dataclass(frozen=True)
class Written:
    """From this instant on the schedule fires at whole multiples of `period` seconds."""

    at: datetime
    period: int


class Ledger:
    """Told of every schedule as it is written."""

    def __init__(self) -> None:
        self._written: dict[int, list[Written]] = {}
        self.may_begin_early = False
        """A fire ran before its time (its run was asked for, or the clock was set back): the row of
        the ledger stands, though a later pause may have written a range around it.
        """

    def write(self, schedule: int, at: datetime, period: int) -> None:
        self._written.setdefault(schedule, []).append(Written(at, period))

    def check(self, store: Store) -> int:
        """How many fires were owed; raises when one is decided twice, or not at all."""
        owed = 0
        for schedule in store.schedules:
            end = store.cursors[schedule].watermark
            ranges = [m for m in store.missed.values() if m.schedule_id == schedule]
            for fire in self._owed(schedule, end):
                owed += 1
                has_row = (schedule, fire) in store.occurrences
                decided = int(has_row)
                if not (has_row and self.may_begin_early):
                    decided += sum(each.first_at <= fire <= each.last_at for each in ranges)
                if decided != 1:
                    raise Violation(
                        f"fire {fire} of schedule {schedule} is decided {decided} times"
                    )
        for (schedule, fire), occurrence in store.occurrences.items():
            run = occurrence.run_id
            if occurrence.decision == "run" and (run in store.runs) + (run in store.history) != 1:
                raise Violation(f"fire {fire} of schedule {schedule}: run {run} is lost")
        return owed

    def _owed(self, schedule: int, end: datetime) -> list[datetime]:
        found: list[datetime] = []
        versions = self._written[schedule]
        for number, written in enumerate(versions):
            until = versions[number + 1].at if number + 1 < len(versions) else end
            since = int((written.at - FIRST_INSTANT).total_seconds() // written.period)
            fire = FIRST_INSTANT + timedelta(seconds=(since + 1) * written.period)
            while fire <= min(until, end):
                found.append(fire)
                fire += timedelta(seconds=written.period)
        return found
