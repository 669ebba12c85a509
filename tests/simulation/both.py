"""The same calls to the stand-in and to PostgreSQL, and the comparison of what both say and hold.

What PostgreSQL chooses freely (ids, tokens, fence numbers) the stand-in takes over, after looking
whether the choice was allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pgcron_ha.errors import PgcronError
from tests.simulation.real import (
    CHANCE,
    TABLES,
    RealStore,
    dead_letters_of_stand_in,
    history_of_stand_in,
    of_stand_in,
)
from tests.simulation.store import Store
from tests.simulation.tables import Row, Run, Schedule

CLAIMS = ("claim_runs", "claim_at_most_once", "claim_overlapping", "claim_limited")


class LedStore(Store):
    """A stand-in that takes over what PostgreSQL has chosen."""

    coming_run: int = 0
    coming_schedule: int = 0
    coming_tokens: dict[int, UUID]
    coming_fires: dict[tuple[int, datetime], int]

    def part(self) -> float:
        return CHANCE

    def new_token(self, run: int) -> UUID:
        return self.coming_tokens.get(run) or super().new_token(run)

    def next_run(self) -> int:
        return self.coming_run

    def _fire(self, schedule: Schedule, fire: datetime) -> int:
        self.coming_run = self.coming_fires[schedule.id, fire]
        return super()._fire(schedule, fire)


class Both:
    """One sequence of calls. `call` and `pass_time` are what may happen."""

    def __init__(self, real: RealStore) -> None:
        self.real = real
        self.store = LedStore(lambda: self.real.now)
        self.store.coming_tokens = {}
        self._highest_fence = 0
        real.begin()

    def pass_time(self, seconds: float) -> None:
        self.real.set_clock(self.real.now + timedelta(seconds=seconds))

    def call(self, name: str, /, **parameters: Any) -> list[Row]:
        """Both must answer the same rows, in any order, or the same kind of error."""
        answer = _attempt(lambda: self.real.call(name, **parameters))
        if isinstance(answer, list):
            self._lead(name, answer)
        own = _attempt(lambda: self.store.call(name, **parameters))
        if isinstance(answer, PgcronError) or isinstance(own, PgcronError):
            assert type(answer) is type(own), (name, parameters, answer, own)
            return []
        if name in CLAIMS:
            self._take_over(answer)
        assert _sorted(answer) == _sorted(own), (name, answer, own, parameters)
        # A plan, and with it the order, may change while sequences are played: a sequence that is
        # played again goes as it went.
        return sorted(answer, key=lambda row: [row.get(name) or 0 for name in _NUMBERS])

    def compare_tables(self) -> None:
        for table in TABLES:
            own, theirs = of_stand_in(self.store, table), self.real.rows(table)
            for row in (*own, *theirs):  # a node's next beat notes its cordon
                if row.get("state") == "cordoned":
                    row["state"] = "alive"
            assert own == theirs, (table, own, theirs)
        assert history_of_stand_in(self.store) == self.real.history()
        assert dead_letters_of_stand_in(self.store) == self.real.dead_letters()

    def end(self) -> None:
        self.real.undo()

    def _lead(self, name: str, answer: Sequence[Row]) -> None:
        if name in ("enqueue", "run_now", "retry_run", "redrive"):
            self.store.coming_run = answer[0]["run_id"]
        elif name == "put_schedule":
            self.store.last_schedule = answer[0]["schedule_id"] - 1
        elif name == "materialize":
            self.store.coming_fires = self.real.fires()
        elif name in CLAIMS:
            self.store.coming_tokens = {row["id"]: row["token"] for row in answer if row["token"]}

    def _take_over(self, rows: Sequence[Row]) -> None:
        claimed = [row for row in rows if row["token"] is not None]
        fences = [row["fence"] for row in claimed]
        assert len(set(fences)) == len(fences), "a fence number names one claim"
        assert all(fence > self._highest_fence for fence in fences), "fence numbers only grow"
        self._highest_fence = max(fences, default=self._highest_fence)
        for row in claimed:
            run: Run = self.store.runs[row["id"]]
            run.fence = row["fence"]
            assert run.token == row["token"], f"run {run.id} was not the stand-in's choice"


def _attempt(call: Callable[[], list[Row]]) -> list[Row] | PgcronError:
    try:
        return call()
    except PgcronError as error:
        return error


_NUMBERS = ("id", "run_id", "schedule_id")
# What names nothing that anybody decides by, or what one side chooses freely.
_APART = {"uuid", "fence", "args", "reason", "lost_early"}


def _sorted(rows: Sequence[Row]) -> list[list[tuple[str, str]]]:
    plain = [
        sorted((key, str(value)) for key, value in row.items() if key not in _APART) for row in rows
    ]
    return sorted(plain)
