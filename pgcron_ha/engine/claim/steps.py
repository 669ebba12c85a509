"""Each kind of claim by itself: one that is refused, locked or too slow waits, the others go on.

After a refusal the runs that can't be claimed are looked for, one by one, and end as dead letters
with the server's reason. When none is found, the kind of claim is tried again after a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from time import monotonic
from typing import Any, Final, TypeVar

from pgcron_ha.db.driver.link import Busy, Link, Row
from pgcron_ha.engine.isolation import SetAside, end_refused_run, impatience
from pgcron_ha.engine.lease.session import Session
from pgcron_ha.errors import DatabaseUnavailable, PgcronError, Refused, SchemaError
from pgcron_ha.operating_system import boottime
from pgcron_ha.telemetry.events import RunRefused
from pgcron_ha.telemetry.log import emit

Answer = TypeVar("Answer")

LONGEST_PAUSE_SECONDS: Final = 1.0
"""How long a kind of claim waits after a failure at most: a lock may be gone by then."""

_REFUSED_AT_ONCE: Final = 500
"""Runs that are tried one by one after a refusal."""

WAITING: Final = "runs that wait for a slot of their schedule"
"""The name of their step."""

_TRIES: Final = 5
"""Claims in a row after each of which runs were found that can't be claimed."""

_SEARCH_EVERY: Final = 1.0
"""Seconds between two searches that found nothing."""


class ClaimSteps:
    """Runs the claims of a dispatcher, and keeps those that fail apart."""

    def __init__(
        self, link: Link, session: Session, aside: SetAside[str], queues: Sequence[str]
    ) -> None:
        """`aside` holds the kinds of claims, and queues, that wait; by name."""
        self._link = link
        self._session = session
        self._aside = aside
        self._queues = list(queues)
        self._sent_at: float | None = None
        self.answered_after = 0.0
        """How long the last claim took, in seconds."""
        self._searched_at = float("-inf")

    def settled_at(self) -> float:
        """Every claim sent before this CLOCK_BOOTTIME instant has been answered, or its row is
        known to nobody here.
        """
        return boottime() if self._sent_at is None else self._sent_at

    async def settle(self, claiming: Awaitable[Answer]) -> Answer:
        """The answer to a claim; meanwhile it counts as unsettled."""
        self._sent_at = sent_at = boottime()
        try:
            answer = await claiming
            self.answered_after = boottime() - sent_at
            return answer
        finally:
            self._sent_at = None

    async def rows(self, kind: str, statement: str, /, **parameters: Any) -> list[Row]:
        """The rows of one statement that claims or parks; none while it waits or when it fails."""
        none: list[Row] = []
        return await self.attempt(kind, lambda: self._link.rows(statement, **parameters), none)

    async def attempt(
        self, name: str, claim: Callable[[], Awaitable[Answer]], otherwise: Answer
    ) -> Answer:
        """What `claim` answers, or `otherwise` while it waits or when it fails now.

        Raises DatabaseUnavailable without a database, and what is wrong with the whole
        installation: a missing right or table.
        """
        if self._aside.waits(name):
            return otherwise
        for _ in range(_TRIES):
            try:
                with impatience() if self._aside.is_aside(name) else nullcontext():
                    answer = await self.settle(claim())
            except (DatabaseUnavailable, Refused, SchemaError):
                raise
            except PgcronError as error:
                if isinstance(error, Busy) or not await self.end_refused(self._queues):
                    self._aside.put(name, name, error)
                    break
            else:
                self._aside.forget(name)
                return answer
        return otherwise

    def queue_waits(self, queue: str) -> bool:
        """Whether claims leave out the limits of this queue for now."""
        return self._aside.waits(_named(queue))

    def forget_queue(self, queue: str) -> None:
        """Its limits could be looked at."""
        self._aside.forget(_named(queue))

    def delay_queue(self, queue: str, error: PgcronError) -> None:
        """Runs of this queue that have limits can't be claimed for now."""
        self._aside.put(_named(queue), f"limits of {_named(queue)}", error)

    async def end_refused_in_line(self, schedules: Sequence[int], error: str) -> int:
        """The same of runs of these schedules that wait for a slot of them; `error` is why they
        could not be let go.
        """
        found = await self._link.rows(
            "refused_runs_in_line",
            incarnation=self._session.incarnation,
            schedules=list(schedules),
            at_most=_REFUSED_AT_ONCE,
        )
        ended = await self._end(found)
        if not ended:
            self._aside.put(WAITING, f"{WAITING} (schedules {_listed(schedules)})", error)
        return ended

    async def end_refused(self, queues: Sequence[str]) -> int:
        """Ends the due runs of these queues that can't be claimed; returns how many there were."""
        if monotonic() - self._searched_at < _SEARCH_EVERY:
            return 0
        found = await self._link.rows(
            "refused_runs",
            incarnation=self._session.incarnation,
            queues=list(queues),
            at_most=_REFUSED_AT_ONCE,
        )
        ended = await self._end(found)
        if not ended:
            self._searched_at = monotonic()
        return ended

    async def _end(self, found: Sequence[Row]) -> int:
        ended = 0
        for row in found:
            reason = f"PostgreSQL refuses to let it be claimed: {row['error']}"
            if await end_refused_run(self._link, row["run_id"], reason):
                ended += 1
                emit(RunRefused(row["run_id"], row["error"]))
        return ended


def _named(queue: str) -> str:
    return f"queue {queue!r}"


def _listed(schedules: Sequence[int]) -> str:
    return ", ".join(map(str, schedules[:10])) + (", …" if len(schedules) > 10 else "")
