"""What happens to a simulated cluster, composed by the seed: faults, edits, wishes, and the end."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.errors import PgcronError
from tests.simulation.ledger import Ledger
from tests.simulation.nodes import Place
from tests.simulation.store import Store
from tests.simulation.wire import Weather

# Whole fractions of a minute, so that cron and arithmetic mean the same.
_PERIODS: Final = (2, 3, 5, 6, 10, 15)


class Story:
    """`begin` plans everything up to `end` seconds; afterwards nothing disturbs any more."""

    def __init__(self, seed: int, place: Place, store: Store, ledger: Ledger, end: float) -> None:
        self._chance = random.Random(seed ^ 0x5EED)
        self._place = place
        self._world = place.world
        self._store = store
        self._ledger = ledger
        self._end = end
        self._names = [f"n{number}" for number in range(1, self._chance.choice((2, 3, 3, 4)) + 1)]
        self.reported: list[str] = []

    def begin(self) -> None:
        chance = self._chance
        for name in self._names:
            self._world.call_at(chance.uniform(0, 2), self._place.start, name)
        for number in range(chance.randint(1, 4)):
            self._world.call_at(chance.uniform(0, 5), self._put, f"schedule {number}")
        # As much as the nodes can do, or less: the end must come soon after the trouble.
        capacity = len(self._names) * self._place.size.slots
        self._repeat(chance.uniform(0.8, 4) * max(1, 8 / capacity), self._enqueue)
        self._repeat(chance.uniform(3, 12), self._options)
        self._repeat(chance.uniform(3, 20), self._fault)
        self._world.call_at(self._end, self._heal)

    def _repeat(self, every: float, act: Callable[[], None]) -> None:
        at = 1.0
        while (at := at + self._chance.expovariate(1 / every)) < self._end:
            self._world.call_at(at, act)

    def _call(self, statement: str, /, **parameters: Any) -> None:
        """As a client of the database, with the answers that it may get."""
        try:
            rows = self._store.call(statement, **parameters)
        except PgcronError as error:
            self._world.report("client", statement, type(error).__name__)
        else:
            self._world.report("client", statement, len(rows))

    # What people want.

    def _args(self) -> str:
        chance = self._chance
        lasts = 0.02 * math.exp(chance.uniform(0, 4))
        if chance.random() < 0.15:
            lasts = self._place.size.ttl * chance.uniform(0.2, 2)
        args = {
            "seconds": round(lasts, 3),
            "fails": chance.choice((0, 0, 0.1, 0.5)),
            "stubborn": chance.random() < 0.2,
            "lines": chance.randint(0, 1),
        }
        return json.dumps(args)

    def _handler(self) -> str:
        return self._chance.choice(("py:work", "py:work", "shell:work"))

    def _put(self, name: str) -> None:
        chance = self._chance
        period = chance.choice(_PERIODS)
        is_once = chance.random() < 0.2
        self._call(
            "put_schedule",
            name=name,
            spec=f"*/{period} * * * * *",
            handler=self._handler(),
            args=self._args(),
            timezone=None,
            dst=None,
            queue=chance.choice(("default", "other")),
            priority=chance.choice((4, 5)),
            enabled=None,
            overlap=chance.choice(("skip", "skip", "allow")),
            catchup=chance.choice(("latest", "none")),
            catchup_window=chance.choice((20.0, 3600.0)),
            start_deadline=chance.choice((0.0, 5.0)) or None,
            timeout=chance.choice((3.0, 60.0)),
            max_attempts=1 if is_once else chance.choice((1, 3, 5)),
            retry_base=0.5,
            retry_cap=2.0,
            retry=None,
            delivery="at_most_once" if is_once else "at_least_once",
            managed_by=None,
            expected_version=None,
            jitter=None,
            max_runs=None,
            depends_on_previous=None,
            actor="me",
            interface="sql",
        )
        schedule = next(one for one in self._store.schedules.values() if one.name == name)
        self._ledger.write(schedule.id, self._store.now(), period)

    def _enqueue(self) -> None:
        chance = self._chance
        is_once = chance.random() < 0.2
        for _ in range(chance.choice((1, 1, 2, 6))):
            self._call(
                "enqueue",
                handler=self._handler(),
                args=self._args(),
                queue=chance.choice(("default", "other")),
                priority=chance.choice((4, 5, 5)),
                due_at=self._store.now() + timedelta(seconds=chance.choice((0, 0, 3))),
                idempotency_key=None,
                key_lifetime=None,
                timeout=chance.choice((2.0, 60.0)),
                max_attempts=1 if is_once else chance.choice((1, 3, 5)),
                delivery="at_most_once" if is_once else "at_least_once",
                retry=None,
                actor="me",
            )
            # Retries follow soon, so that the end comes soon.
            run = self._store.runs[self._store.last_run]
            run.retry_base, run.retry_cap = 0.5, 2.0

    def _options(self) -> None:
        chance = self._chance
        schedules = sorted(one.name for one in self._store.schedules.values())
        name = chance.choice(schedules) if schedules else "none"
        known = sorted({*self._store.runs, *list(self._store.history)[-5:]}) or [1]
        run = chance.choice(known)
        who: dict[str, Any] = {"actor": "me", "interface": "sql"}
        by_hand = {"args": None, "actor": "me", "overlap": None, "fire_time": None}
        forever: dict[str, Any] = {"until": None, "pause": None}
        briefly = forever | {"pause": chance.uniform(1, 20)}
        requested: list[Callable[[], None]] = [
            lambda: self._call("pause_schedule", name=name, note=None, **forever, **who),
            lambda: self._call("pause_schedule", name=name, note=None, **briefly, **who),
            lambda: self._call("resume_schedule", name=name, **who),
            lambda: self._call("resume_schedule", name=name, **who),
            lambda: self._put(name),
            lambda: self._call("delete_schedule", name=name, **who),
            lambda: self._call("run_now", name=name, **by_hand),
            lambda: self._cancel(run),
            lambda: self._cancel(run),
            lambda: self._retry(run),
            lambda: self._call("redrive", run_id=run, args=None, actor="me"),
            lambda: self._call("pause_queue", name="other", note=None, actor="me"),
            lambda: self._call("resume_queue", name="other", actor="me"),
        ]
        chance.choice(requested)()

    def _retry(self, run: int) -> None:
        self._look_whether_early(run)
        self._call("retry_run", run_id=run, actor="me")

    def _cancel(self, run: int) -> None:
        self._look_whether_early(run)
        self._call("cancel_run", run_id=run, reason=None, actor="me")

    def _look_whether_early(self, run: int) -> None:
        known = self._store.runs.get(run)
        if known is not None and known.due_at > self._store.now():
            self._ledger.is_early(known)

    # What goes wrong.

    def _fault(self) -> None:
        chance, ttl = self._chance, self._place.size.ttl
        name = chance.choice(self._names)
        lasts = ttl * math.exp(chance.uniform(math.log(0.1), math.log(4)))
        faults: list[tuple[str, Callable[[], None]]] = [
            ("storm", lambda: self._storm(name, lasts)),
            ("storm", lambda: self._storm(name, lasts)),
            ("storm for all", lambda: self._storm_for_all(lasts)),
            ("cut", lambda: self._cut(name, lasts)),
            ("restart", lambda: self._place.server.restart(min(lasts, 2 * ttl))),
            ("freeze", lambda: self._freeze(name, lasts)),
            ("freeze", lambda: self._freeze(name, lasts)),
            ("stall", lambda: self._stall(name, lasts)),
            ("crash", lambda: self._crash(name, chance.uniform(0.05, 1.5 * ttl))),
            ("crash", lambda: self._crash(name, chance.uniform(0.05, 1))),
            ("leave", lambda: self._leave(name)),
            ("clock", lambda: self._step_clock(chance.choice((-20, -1, 1, 5, 20, 20)))),
            ("duel", lambda: self._duel(name)),
        ]
        kind, act = chance.choice(faults)
        self.reported.append(f"{self._world.now:8.3f} {kind} {name} {lasts:.2f}")
        self._place.judge.seen[kind] += 1
        act()

    def _weather(self, name: str) -> Weather:
        return self._place.weathers.setdefault(name, Weather())

    def _storm(self, name: str, lasts: float) -> None:
        weather, chance = self._weather(name), self._chance
        weather.request_lost = chance.choice((0, 0.05, 0.3))
        weather.answer_lost = chance.choice((0, 0.05, 0.3))
        weather.busy = chance.choice((0, 0, 0.2))
        weather.slow = chance.choice((0, 0.5, self._place.size.ttl))
        self._world.call_at(self._world.now + lasts, weather.clear)

    def _storm_for_all(self, lasts: float) -> None:
        for name in self._names:
            self._storm(name, lasts)

    def _cut(self, name: str, lasts: float) -> None:
        weather = self._weather(name)
        weather.is_cut = True
        self._world.call_at(self._world.now + lasts, weather.clear)

    def _duel(self, name: str) -> None:
        """One comes back at the moment in which the others, who are slow, take it for dead."""
        ttl = self._place.size.ttl
        for other in self._names:
            if other != name:
                weather = self._weather(other)
                weather.slow = ttl
                self._world.call_at(self._world.now + 2 * ttl, weather.clear)
        self._cut(name, ttl * self._chance.uniform(0.9, 1.4))

    def _freeze(self, name: str, lasts: float) -> None:
        process = self._place.living(name)
        if process is not None:
            process.freeze(lasts, is_suspend=self._chance.random() < 0.3)
            # Just after it has gone on: what its handlers may still do is looked at.
            self._world.call_at(self._world.now + lasts + 1e-9, self._place.judge.look)

    def _stall(self, name: str, lasts: float) -> None:
        process = self._place.living(name)
        if process is not None:
            process.engine.stall(lasts)

    def _crash(self, name: str, after: float) -> None:
        process = self._place.living(name)
        if process is not None:
            process.end()
            self._world.call_at(self._world.now + after, self._place.start_again, name)

    def _leave(self, name: str) -> None:
        self._place.stop(name)
        after = self._chance.uniform(0.5, 10)
        self._world.call_at(self._world.now + after, self._place.start_again, name)

    def _step_clock(self, seconds: float) -> None:
        if seconds < 0:
            self._ledger.clock_goes_back()
        self._place.clock_step += seconds

    # The end of all trouble.

    def _heal(self) -> None:
        """A database that is away comes back later. Nodes whose handlers don't stop may end until
        then, without their lease; all of them may: so from now on a supervisor starts them again.
        """
        for weather in self._place.weathers.values():
            weather.clear()
        for process in self._place.processes:
            process.thaw()
        self._place.is_supervised = True
        for name in self._names:
            self._place.start_again(name)
        self._call("resume_queue", name="other", actor="me")
        for schedule in list(self._store.schedules.values()):
            self._call(
                "pause_schedule",
                name=schedule.name,
                note=None,
                until=None,
                pause=None,
                actor="me",
                interface="sql",
            )
