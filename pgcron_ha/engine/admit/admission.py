"""Opens the gates of runs that wait for an event: an overlap slot of their schedule, the end of
the fire before theirs, a node that offers their handler, a circuit breaker that closes.

Level-triggered: a pass looks at what is due and blocked, wherever it came from, and at schedules
whose runs have ended here, so that their next fire has its slot before it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from time import monotonic
from typing import Any, ClassVar, Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.batches import end_refused_runs, isolate
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import PgcronError
from pgcron_ha.telemetry.counters import COUNTERS

BATCH: Final = 200
"""Schedules decided in one statement, which has their rows locked."""

LOOK: Final = 1000
"""Due runs of one look, and schedules judged at once."""

LOOK_SECONDS: Final = 0.05
"""Between two looks while runs of schedules end here."""

SWEEP_SECONDS: Final = 5.0
"""How long what no look has met may wait: all that is due and blocked is looked at again."""

_DEPENDENTS_SECONDS: Final = 1.0
"""How often runs that wait for the fire before theirs are judged, while there are any."""

_ENDED_AT_ONCE: Final = 1000
"""Runs that one decision ends of each kind; there may be more."""

_REFUSED_AT_ONCE: Final = 500
_BEGINNING: Final = ("-infinity", 0)
_AT_ONCE: Final = float("-inf")
_SHORTEST_SLEEP: Final = 0.001


class Admission(Service):
    """Decides about schedules in batches; one that is refused or locked holds up no other."""

    name: ClassVar[str] = "admission"

    def __init__(self, link: Link, made_ready: Callable[[], None]) -> None:
        """`made_ready` is called when runs have become ready."""
        super().__init__(SWEEP_SECONDS)
        self._link = link
        self._made_ready = made_ready
        self._hinted: dict[int, None] = {}
        self._found: dict[int, None] = {}
        self._later: set[int] = set()
        self._tried_again: set[int] = set()
        self._lap_is_over = True
        self._may_unblock = False
        self._holders: dict[int, int] = {}
        self._dependents: set[int] = set()
        self._to_judge: dict[int, None] = {}
        self._after: tuple[str, int] = _BEGINNING
        self._sweep_at = self._look_at = self._looked_at = self._judged_at = _AT_ONCE

    def expect(self, claimed: Iterable[Row]) -> None:
        """These runs execute here; with the end of each its schedule may have a slot free."""
        for row in claimed:
            if row["overlap_of"] is not None:
                self._holders[row["id"]] = row["overlap_of"]

    def settled(self, holds: Callable[[int], bool]) -> None:
        """The database knows of ends; `holds` says whether a run is still held here."""
        over = [run for run in self._holders if not holds(run)]
        if over:
            freed = {self._holders.pop(run) for run in over}
            self._to_judge.update(dict.fromkeys(freed & self._dependents))
            self.hint(freed)

    def hint(self, schedules: Iterable[int]) -> None:
        """These have new runs, or a free slot."""
        self._hinted.update(dict.fromkeys(schedules))
        self._look_at = min(self._look_at, self._looked_at + LOOK_SECONDS)
        self.wake()

    def look(self) -> None:
        """Something has changed: all that is due is looked at."""
        self._sweep_at = self._look_at = _AT_ONCE
        self.wake()

    async def run_once(self) -> float | None:
        """One look, and one batch of schedules."""
        now = monotonic()
        if self._next_look() <= now and len(self._found) < BATCH:
            await self._look(now)
        if self._to_judge:
            await self._judge()
        schedules = sorted(islice({**self._hinted, **self._found}, BATCH))
        for schedule in schedules:
            self._hinted.pop(schedule, None)
            self._found.pop(schedule, None)
        await self._decide(schedules)
        if self._may_unblock:  # last: if it fails, the others have been decided
            await self._unblock()
        if self._hinted or self._found or self._to_judge or self._may_unblock:
            return 0
        return max(_SHORTEST_SLEEP, self._next_look() - monotonic())

    def _next_look(self) -> float:
        return min(self._look_at, self._sweep_at)

    async def _look(self, now: float) -> None:
        if self._sweep_at <= now and self._lap_is_over:
            self._sweep_at, self._after = now + SWEEP_SECONDS, _BEGINNING
            self._tried_again.clear()
            self._dependents.clear()
            self._may_unblock = True
        after, after_id = self._after
        waiting = self.aside.waiting()
        [found] = await self._link.rows(
            "look_at_gates", after=after, after_id=after_id, at_most=LOOK, aside=waiting
        )
        self._looked_at = monotonic()
        if found["last_look"] is not None:
            self._after = (found["last_look"], found["last_id"])
        soon = SWEEP_SECONDS if found["seconds"] is None else found["seconds"]
        new = set(found["dependents"]) - self._dependents
        self._dependents |= new
        self._to_judge.update(dict.fromkeys(new))
        if self._dependents:
            soon = min(soon, _DEPENDENTS_SECONDS)
            if not self._to_judge and now - self._judged_at >= _DEPENDENTS_SECONDS:
                self._judged_at = now
                self._to_judge.update(dict.fromkeys(self._dependents))
        self._lap_is_over = found["looked"] < LOOK
        self._look_at = self._looked_at + soon if self._lap_is_over else _AT_ONCE
        self._found.update(dict.fromkeys([*self._later, *found["schedules"]]))
        self._later.clear()

    async def _judge(self) -> None:
        """Runs that wait for the fire before theirs: those that may go on need a slot yet."""
        schedules = sorted(set(islice(self._to_judge, LOOK)).difference(self.aside.waiting()))
        self._to_judge = dict(islice(self._to_judge.items(), LOOK, None))
        if self._to_judge:  # more than one batch: the pause begins when the last one is judged
            self._judged_at = monotonic()
        answers = await isolate(schedules, self._send_dependents, self._refused, self._delayed)
        for row in chain.from_iterable(answers):
            self._found[row["schedule_id"]] = None
            if not row["is_open"]:
                self._to_judge[row["schedule_id"]] = None  # it ended: the next fire is judged

    async def _decide(self, schedules: Sequence[int]) -> None:
        ready = 0
        for answer in await isolate(schedules, self._send, self._refused, self._delayed):
            ready += answer["ready"]
            COUNTERS.occurrences["skipped"] += answer["skipped"]
            COUNTERS.occurrences["superseded"] += answer["superseded"]
            self._try_again(answer["left_out"])
        if ready:
            await self._say_ready()

    async def _unblock(self) -> None:
        """What some node may take by now, and no breaker keeps."""
        freed = await self._link.rows("unblock", at_most=LOOK)
        self._may_unblock = len(freed) >= LOOK
        if freed:
            await self._say_ready()

    async def _say_ready(self) -> None:
        self._made_ready()
        await self._link.rows("wake_idle_nodes")

    def _try_again(self, left_out: Sequence[int]) -> None:
        """Once, soon: another node that has decided did not see an end that came meanwhile. What
        somebody holds for longer waits for the next sweep.
        """
        if new := set(left_out) - self._tried_again:
            self._tried_again |= new
            self._later |= new
            self._look_at = min(self._look_at, self._looked_at + LOOK_SECONDS)

    async def _send(self, schedules: Sequence[int]) -> Row:
        [answer] = await self._link.rows("admit_overlap", schedules=list(schedules))
        self.aside.forget(*schedules)
        if answer["skipped"] + answer["superseded"] >= _ENDED_AT_ONCE:
            self._hinted.update(dict.fromkeys(schedules))
        return answer

    async def _send_dependents(self, schedules: Sequence[int]) -> list[Row]:
        rows = await self._link.rows("admit_previous", schedules=list(schedules))
        self.aside.forget(*schedules)
        return rows

    async def _refused(self, schedule: int, error: PgcronError) -> None:
        """The runs at fault end, with the server's reason; the others have their turn again."""
        rows = await self._link.rows(
            "refused_runs_of_schedule", schedule_id=schedule, at_most=_REFUSED_AT_ONCE
        )
        if await end_refused_runs(self._link, rows):
            self._hinted[schedule] = None
        else:
            self._delayed(schedule, error)

    def _delayed(self, schedule: int, error: Any) -> None:
        self.aside.put(schedule, f"runs of schedule {schedule} that wait", error)
