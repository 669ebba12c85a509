"""Which fires are owed, by arithmetic of its own, and whether each was decided exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.simulation.judge import Violation
from tests.simulation.store import Store
from tests.simulation.tables import FIRST_INSTANT, Run


@dataclass(frozen=True)
class Written:
    """From this instant on the schedule fires at whole multiples of `period` seconds."""

    at: datetime
    period: int


class Ledger:
    """Told of every schedule as it is written."""

    def __init__(self) -> None:
        self._written: dict[int, list[Written]] = {}
        self._early: set[tuple[int, datetime]] = set()
        self._has_gone_back = False

    def is_early(self, run: Run) -> None:
        """Somebody settles a fire before its time: its row stands, and an edit before that time
        may write a range around it.
        """
        if run.schedule_id is not None and run.scheduled_for is not None:
            self._early.add((run.schedule_id, run.scheduled_for))

    def clock_goes_back(self) -> None:
        """Before and after an edit can't be told apart any more: only lost runs are looked for."""
        self._has_gone_back = True

    def write(self, schedule: int, at: datetime, period: int) -> None:
        self._written.setdefault(schedule, []).append(Written(at, period))

    def check(self, store: Store) -> int:
        """How many fires were owed; raises when one is decided twice, or not at all."""
        owed = 0
        for schedule in store.schedules:
            end = store.cursors[schedule].watermark
            ranges = [m for m in store.missed.values() if m.schedule_id == schedule]
            fires = self._owed(schedule, end)
            self._check_owed(store, schedule, set(fires))
            for fire in fires:
                owed += 1
                has_row = (schedule, fire) in store.occurrences
                decided = int(has_row)
                if not (has_row and (schedule, fire) in self._early):
                    decided += sum(each.first_at <= fire <= each.last_at for each in ranges)
                if decided != 1 and not self._has_gone_back:
                    raise Violation(
                        f"fire {fire} of schedule {schedule} is decided {decided} times"
                    )
        for (schedule, fire), occurrence in store.occurrences.items():
            run = occurrence.run_id
            if occurrence.decision == "run" and (run in store.runs) + (run in store.history) != 1:
                raise Violation(f"fire {fire} of schedule {schedule}: run {run} is lost")
        return owed

    def _check_owed(self, store: Store, schedule: int, owed: set[datetime]) -> None:
        """An edit leaves nothing behind of what the old timing would have done after it."""
        for of, fire in store.occurrences:
            is_known = fire in owed or (of, fire) in self._early or self._has_gone_back
            if of == schedule and not is_known:
                raise Violation(f"fire {fire} of schedule {schedule} is decided, but not owed")

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
