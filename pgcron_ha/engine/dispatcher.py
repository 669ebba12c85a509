"""Claims due runs in batches, as slots get free and a little ahead of them.

How far ahead follows from how fast runs end here: a quarter second's worth, so that a burst of
short runs is never short of work and long runs are never hoarded from other nodes. Runs that may
start only once, or whose lane must be decided, are claimed for free slots only.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pgcron_ha.db.link import Link, Row
from pgcron_ha.engine.careful_claims import CarefulClaims
from pgcron_ha.engine.claim_paths import ClaimPaths
from pgcron_ha.engine.pace import Pace
from pgcron_ha.engine.runner import Runner
from pgcron_ha.engine.service import Service
from pgcron_ha.engine.session import Session
from pgcron_ha.executors.operating_system import boottime
from pgcron_ha.telemetry.events import RunsParked
from pgcron_ha.telemetry.log import emit

if TYPE_CHECKING:
    from uuid import UUID

CLAIM_BATCH: Final = 500
"""Rows of one claim: beyond this a statement's own time outweighs what is saved."""

LOOK: Final = 500
"""Rows at the head of a path that are looked at for handlers nobody offers."""

_CAREFUL_SECONDS: Final = 0.25
"""How long runs that are claimed with care may wait behind an endless supply of others."""

_CAREFUL_TURNS: Final = 4
"""Of so many claims in a row for runs that need care, one lets the others have a turn."""

_SHORTEST_SLEEP: Final = 0.001
_AGEING_EVERY: Final = 16

FULL_CLAIMS_OF_A_BUSY_NODE: Final = 3
"""After so many full claims in a row a node looks for work by itself, and enqueuers need not
notify it.
"""


class Dispatcher(Service):
    """Keeps the runner in work."""

    name: ClassVar[str] = "dispatcher"

    def __init__(
        self,
        link: Link,
        session: Session,
        runner: Runner,
        queues: Sequence[str],
        handlers: Sequence[str],
        poll_interval: float,
        prefetch: int,
    ) -> None:
        """`handlers` are full names; `poll_interval` in seconds; `prefetch` bounds what is
        claimed ahead of a slot.
        """
        super().__init__(poll_interval)
        self._link = link
        self._session = session
        self._runner = runner
        self._queues = list(queues)
        self._handlers = list(handlers)
        self._paths = ClaimPaths(queues)
        self._pace = Pace(prefetch)
        self._careful = CarefulClaims(link, session, queues, handlers, self._paths.all())
        self._care_is_due = False
        self._careful_turns = 0
        self._looked_at = self._decided_at = float("-inf")
        self._due_at = float("inf")
        self._is_idle = False
        self._is_woken = False
        self._full_claims = 0
        self._claims_begun = 0
        self._claim_sent_at: float | None = None

    def claims_settled_at(self) -> float:
        """Every claim sent before this CLOCK_BOOTTIME instant has been answered, or its row is
        known to nobody here.
        """
        return boottime() if self._claim_sent_at is None else self._claim_sent_at

    def ended(self, count: int) -> None:
        """So many runs ended here: the pace follows, and there may be room for more."""
        self._pace.count(count, monotonic())
        if self._care_is_due or self._wanted() >= min(CLAIM_BATCH, self._pace.ahead // 2 + 1):
            self.wake()

    async def run_once(self) -> float | None:
        """One claim, or a look at what is due next."""
        if not self._session.may_claim():
            return self.interval
        is_woken, self._is_woken = self._is_woken, False
        # When only the poll interval is over, one look is enough, and usually finds nothing.
        if (
            self._is_idle
            and not is_woken
            and self._due_at > monotonic()
            and not any(row["is_due"] for row in await self._heads())
        ):
            return self._until_due()
        pause = await self._claim_with_care()
        if pause is not None:
            return pause
        wanted = self._wanted()
        limit = min(wanted, CLAIM_BATCH)
        if limit and await self._claim(limit) == limit:
            return 0 if self._wanted() > 0 else self.interval
        return await self._look_ahead()

    def _wanted(self) -> int:
        free, ahead = self._runner.free_slots, self._pace.ahead
        return max(0, free + ahead - self._runner.waiting)

    async def _claim(self, limit: int) -> int:
        """How many runs were claimed; when it is the limit, there is probably more."""
        self._claims_begun += 1
        if self._claims_begun % _AGEING_EVERY == 0:
            await self._order_by_age()
        paths = self._paths.in_order(monotonic())
        incarnation = self._session.incarnation
        rows = await self._send("claim_runs", limit=limit, **paths)
        await self._take(rows, incarnation)
        self._paths.claimed(rows, is_full=len(rows) >= limit)
        self._full_claims = self._full_claims + 1 if len(rows) >= limit else 0
        if self._is_idle and self._full_claims >= FULL_CLAIMS_OF_A_BUSY_NODE:
            await self._say_idle(False)
        return len(rows)

    async def _take(self, rows: list[Row], incarnation: UUID | None) -> None:
        """Into the runner; back to the database when this node was told to stop, or endangered,
        in the meantime. What an earlier incarnation has claimed is never begun: others may have it.
        """
        if self._session.may_claim() and self._session.incarnation == incarnation:
            # What an UPDATE returns has no order.
            self._runner.accept(sorted(rows, key=_urgency) if len(rows) > 1 else rows)
        elif rows and self._session.incarnation is not None:
            await self._link.rows(
                "release_runs",
                run_ids=[row["id"] for row in rows],
                tokens=[row["token"] for row in rows],
            )

    async def _order_by_age(self) -> None:
        """Every nth claim takes the oldest due first, so that a low priority can't starve."""
        heads = await self._heads()
        self._paths.prefer(
            [(row["queue"], row["priority"]) for row in sorted(heads, key=_age) if row["is_due"]]
        )

    async def _look_ahead(self) -> float:
        due = [row for row in await self._heads() if row["is_due"]]
        plain = [row for row in due if not row["is_careful"]]
        if due and self._runner.free_slots > self._runner.waiting:
            if plain:
                self._paths.sweep()
                claimed = await self._claim(min(max(1, self._wanted()), CLAIM_BATCH))
            else:
                claimed = await self._decide_with_care()
            if claimed:
                return 0
            await self._park(due)
            return self.interval
        if due:
            return self.interval
        if not self._is_idle:
            await self._say_idle(True)
            return 0  # what came before the word was out has notified nobody
        return self._until_due()

    def wake(self) -> None:
        """Somebody says that there is work, or room for it: the next pass claims at once."""
        self._is_woken = True
        super().wake()

    def _until_due(self) -> float:
        """Seconds to the next waiting run, as far as the last look knows."""
        return max(_SHORTEST_SLEEP, min(self.interval, self._due_at - monotonic()))

    async def _heads(self) -> list[Row]:
        heads = await self._link.rows("next_due", queues=self._queues)
        self._looked_at = monotonic()
        self._care_is_due = any(row["is_careful"] and row["is_due"] for row in heads)
        if any(row["is_once"] and row["is_due"] for row in heads):
            self._careful.expect_once()
        soonest = min((row["seconds"] for row in heads), default=float("inf"))
        self._due_at = self._looked_at + soonest
        return heads

    async def _claim_with_care(self) -> float | None:
        """Gives runs that need care their turn; returns how long to wait when they wait for a slot.

        While they do, nothing is claimed ahead, so that slots get free for them; every few turns
        the others have theirs.
        """
        if not self._care_is_due and monotonic() - self._looked_at > _CAREFUL_SECONDS:
            await self._heads()
        if not self._care_is_due:
            return None
        free = self._runner.free_slots - self._runner.waiting
        if free <= 0 and monotonic() - self._decided_at < _CAREFUL_SECONDS:
            return _CAREFUL_SECONDS
        claimed = await self._decide_with_care()
        self._careful_turns += 1
        if free <= 0 or claimed < free:
            self._care_is_due = free <= 0
            return None if free > 0 else _CAREFUL_SECONDS
        if self._careful_turns % _CAREFUL_TURNS == 0:
            return None
        return 0 if self._runner.free_slots > self._runner.waiting else self.interval

    async def _decide_with_care(self) -> int:
        """How many runs were claimed or skipped."""
        self._decided_at = monotonic()
        self._claim_sent_at = boottime()
        incarnation = self._session.incarnation
        try:
            free = max(0, self._runner.free_slots - self._runner.waiting)
            rows, decided = await self._careful.claim(free)
        finally:
            self._claim_sent_at = None
        await self._take(rows, incarnation)
        return decided

    async def _send(self, statement: str, **parameters: Any) -> list[Row]:
        self._claim_sent_at = boottime()
        # Rows that an unanswered statement claimed all the same are found by the next beats.
        try:
            return await self._link.rows(
                statement,
                incarnation=self._session.incarnation,
                handlers=self._handlers,
                **parameters,
            )
        finally:
            self._claim_sent_at = None

    async def _park(self, due: Sequence[Row]) -> None:
        """What is due and could not be claimed may wait for a handler that nobody offers."""
        paths = {(row["queue"], row["priority"]) for row in due}
        rows = await self._link.rows(
            "park_unserved",
            queues=[path[0] for path in paths],
            priorities=[path[1] for path in paths],
            look=LOOK,
        )
        if rows:
            emit(RunsParked(len(rows)))
            self.wake()

    async def _say_idle(self, is_idle: bool) -> None:
        await self._link.rows("say_idle", incarnation=self._session.incarnation, is_idle=is_idle)
        self._is_idle = is_idle

    def joined(self) -> None:
        """A new incarnation: the database knows nothing of it yet."""
        self._is_idle = False
        self.wake()


def _urgency(row: Row) -> tuple[int, datetime, int]:
    return row["priority"], row["due_at"], row["id"]


def _age(row: Row) -> datetime:
    due: datetime = row["due_at"] or datetime.max.replace(tzinfo=UTC)
    return due
