"""Follows the circuit breakers: which handlers are blocked, and which need a probe.

No query is made while all are closed: the beat names the others, and a notification comes before
it. Runs that a node claims before that do no harm; nor does a failure that is counted late.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.claim.dispatcher import Dispatcher
from pgcron_ha.engine.service import Service
from pgcron_ha.telemetry.counters import COUNTERS
from pgcron_ha.telemetry.events import CircuitClosed, CircuitOpened
from pgcron_ha.telemetry.log import emit

BATCH: Final = 1000
"""Runs that the fallback takes in one statement."""

LOOK: Final = 500
"""Due rows of a queue and priority that are searched for handlers whose breaker is open."""

LOOK_SECONDS: Final = 1.0
"""Between looks while a breaker is not closed: a probe may be late by this."""

_REST_SECONDS: Final = 3600.0
_SOONEST_SECONDS: Final = 0.01


@dataclass(eq=False)
class Breakers(Service):
    """Level-triggered: each pass makes this node's claims what the database says now.

    `_declared` is sent to the database once, in the form of ``declare_breakers``; `_changed` is
    called when others are closed than before.
    """

    name: ClassVar[str] = "breakers"
    _link: Link
    _queues: Sequence[str]
    _dispatcher: Dispatcher
    _declared: Sequence[dict[str, Any]] = ()
    _changed: Callable[[], None] = lambda: None
    _known: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(_REST_SECONDS)

    def observe(self, names: Sequence[str]) -> None:
        """What a beat says of breakers that are not closed."""
        if set(names) != self._known.keys():
            self.wake()

    def settled(self) -> None:
        """The database knows of ends; the probe of a breaker may be among them."""
        if any(row["probe_run"] for row in self._known.values()):
            self.wake()

    async def run_once(self) -> float | None:
        """Looks, leaves out, and sets aside."""
        self._follow(await self._link.rows("look_at_breakers"))
        if self._known and await self._set_aside():
            return 0
        self._ask_for_probe()
        if self._declared:  # last, as it waits while one of these rows is locked
            await self._link.rows("declare_breakers", declared=json.dumps(list(self._declared)))
            self._declared = ()
            return 0
        return self._until_due() if self._known else None

    def _follow(self, rows: Sequence[Row]) -> None:
        before, self._known = self._known, {row["name"]: row for row in rows}
        if self._known or before:
            COUNTERS.broke({row["name"]: row["state"] for row in rows})
        not_here = [row for row in rows if row["fallback_queue"] not in self._queues]
        self._dispatcher.leave_out({each for row in not_here for each in row["handlers"]})
        for name in self._known.keys() - before.keys():
            row = self._known[name]
            seconds = max(0.0, row["seconds"]) if row["state"] == "open" else 0.0
            emit(CircuitOpened(name, row["reason"], row["last_error"] or "", seconds))
        for name in before.keys() - self._known.keys():
            emit(CircuitClosed(name))
        if before.keys() != self._known.keys():
            self._changed()
            self._dispatcher.wake()

    async def _set_aside(self) -> bool:
        blocked = await self._link.rows("block_broken", queues=list(self._queues), look=LOOK)
        taken = await self._link.rows("use_fallbacks", at_most=BATCH)
        if taken:
            await self._link.rows("wake_idle_nodes")
            self._dispatcher.wake()
        return bool(blocked) or len(taken) >= BATCH

    def _ask_for_probe(self) -> None:
        probes = (row["probe_run"] for row in self._known.values())
        self._dispatcher.probe(sorted(run for run in probes if run is not None))

    def _until_due(self) -> float:
        due = [row["seconds"] for row in self._known.values() if row["state"] == "open"]
        soonest = min((seconds for seconds in due if seconds > 0), default=LOOK_SECONDS)
        return max(_SOONEST_SECONDS, min(LOOK_SECONDS, soonest))
